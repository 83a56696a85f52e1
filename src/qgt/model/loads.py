"""Loads: items that have an amount instead of 0 or 1, and pools that report the sum of the amounts.

A PCR machine does not count positives. It reports at which cycle a sample's signal crosses a threshold, which is a line
in the logarithm of the amount. `Loads` is the prior of such amounts, and the noises here say what a pool reports, given
the *total* of its items' amounts:

    CycleThreshold    the cycle of a PCR machine; infinite where nothing amplified
    Amount            copies or a concentration, with a relative and an absolute error

Amounts and totals are plain numbers (copies, say) and the laws of amounts are stated in log10, the field's usual scale.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, log, pi
from typing import Any

import torch
from jaxtyping import Bool, Float64, UInt8
from torch import Generator, Tensor

from qgt.arguments import finite, fraction, positive
from qgt.model.noise import Noise, Numbers, Reports, by_pool, usual_reports
from qgt.model.prior import Bernoulli, FactoredPrior, Prior

TAIL = 6.0  # standard deviations of log10 amounts, beyond which there are none
LN10 = math.log(10.0)
PER_DOUBLING = -1 / math.log10(2.0)  # the slope of a reaction in which every cycle doubles the amount
CYCLES_BEFORE = 40.0  # an arbitrary cycle threshold is anywhere in so many cycles before the last that is reported
EMPTY = 4.5  # nats below the most probable report of an empty pool: three standard errors, which still read as empty
MOMENT_NODES = 1025  # at which the law of log10 amounts is summed for its mean and standard deviation
DECADES_ABOVE = 9.0  # an arbitrary amount is anywhere in so many decades above the least that is reported


@dataclass(frozen=True, kw_only=True, eq=False)
class Loads:
    """Items are 0, or positive with an amount: its log10 is normal, or is one of a list of measured values.

    Give `rate` (one for all items, or one each), or `prior`, any prior of who is positive: households, an unknown rate.
    Give `mean` and `sd` of the log10 of a positive item's amount, cut off below `low` and above `high` if need be, or
    `values`, the log10 of measured amounts. The law of `values` is smoothed by a normal kernel of Silverman's width.

    Example:
        >>> import torch
        >>> loads = Loads(rate=0.5, mean=2.9, sd=1.9)
        >>> loads.sample(1, 4, generator=torch.Generator().manual_seed(0)).log10()
        tensor([[  -inf,   -inf, 1.1507,   -inf]], dtype=torch.float64)
    """

    rate: float | Sequence[float] | Tensor | None = None
    prior: Prior | None = None
    mean: float | None = None
    sd: float | None = None
    low: float | None = None
    high: float | None = None
    values: Sequence[float] | None = None  # kept as a tuple

    def __post_init__(self) -> None:
        if (self.rate is None) == (self.prior is None):
            raise ValueError(f"rate={self.rate} and prior={self.prior} are not valid: give one of the two.")
        if self.rate is not None:
            object.__setattr__(self, "rate", Bernoulli(self.rate).rate)
        if self.prior is not None and not isinstance(self.prior, FactoredPrior):
            raise ValueError(f"prior={self.prior} is not valid: give one with costs, such as Bernoulli or Households.")
        if self.values is not None:
            self._check_values()
        else:
            self._check_normal()

    def _check_values(self) -> None:
        assert self.values is not None
        if (self.mean, self.sd, self.low, self.high) != (None,) * 4:
            raise ValueError("mean, sd, low and high are not for a list of values: give either of the two.")
        values: Any = self.values.tolist() if isinstance(self.values, Tensor) else self.values
        if isinstance(values, str) or not isinstance(values, Sequence) or len(values) < 2:
            raise ValueError(f"values={self.values!r} is not valid: give a list of two or more log10 amounts.")
        checked = tuple(finite(f"values[{i}]", value) for i, value in enumerate(values))
        if len(set(checked)) == 1:
            raise ValueError(f"values={checked[0]} throughout is not valid: give amounts that differ.")
        object.__setattr__(self, "values", checked)

    def _check_normal(self) -> None:
        if self.mean is None or self.sd is None:
            raise ValueError(f"mean={self.mean} and sd={self.sd} are not valid: give both, or a list of values.")
        object.__setattr__(self, "mean", finite("mean", self.mean))
        object.__setattr__(self, "sd", positive("sd", self.sd))
        for name in ("low", "high"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, finite(name, getattr(self, name)))
        low, high = self.span
        if not low < high:
            raise ValueError(
                f"low={self.low} and high={self.high} leave no amounts within {TAIL:g} standard deviations of "
                f"mean={self.mean}: give low below high."
            )

    @classmethod
    def from_values(
        cls,
        amounts: Sequence[float],
        *,
        rate: float | Sequence[float] | None = None,
        prior: Prior | None = None,
    ) -> "Loads":
        """The law of a laboratory's own measured amounts; those of cycle thresholds by `CycleThreshold.amount`.

        Example:
            >>> cycles = CycleThreshold(sigma=0.25)
            >>> loads = Loads.from_values([cycles.amount(ct) for ct in (21.4, 27.0, 30.2, 33.9)], rate=0.05)
            >>> [round(value, 2) for value in loads.values]
            [4.7, 3.01, 2.05, 0.93]
        """
        logs = [math.log10(positive(f"amounts[{i}]", amount)) for i, amount in enumerate(amounts)]
        return cls(rate=rate, prior=prior, values=logs)

    def statuses(self) -> Prior:
        """The prior of who is positive."""
        if self.prior is not None:
            return self.prior
        assert self.rate is not None  # one of the two is given
        return Bernoulli(self.rate)

    @property
    def span(self) -> tuple[float, float]:
        """The log10 of the least and the largest amount."""
        if self.values is not None:
            return min(self.values) - TAIL * self._width, max(self.values) + TAIL * self._width
        assert self.mean is not None and self.sd is not None  # as was checked
        low, high = self.mean - TAIL * self.sd, self.mean + TAIL * self.sd
        return (low if self.low is None else max(low, self.low)), (high if self.high is None else min(high, self.high))

    @cached_property
    def _width(self) -> float:
        """The kernel's standard deviation, by Silverman's rule (1986, Density estimation, equation 3.31)."""
        logs = torch.tensor(self.values, dtype=torch.float64)
        quarter = logs.quantile(torch.tensor([0.25, 0.75], dtype=torch.float64))
        spread = min(float(logs.std()), float(quarter.diff()) / 1.34 or inf)
        return float(0.9 * spread * len(logs) ** -0.2)

    def sample(self, instances: int, items: int, *, generator: Generator) -> Float64[Tensor, "instances items"]:
        """Draw who is positive, then how much each has."""
        who = self.statuses().sample(instances, items, generator=generator)
        draws = torch.rand(instances, items, dtype=torch.float64, generator=generator, device=generator.device)
        return torch.where(who > 0, 10.0 ** self._quantile(draws, generator), 0.0)

    def _quantile(self, draws: Tensor, generator: Generator) -> Tensor:
        """A log10 amount for each uniform draw."""
        if self.values is not None:
            logs = torch.tensor(self.values, dtype=torch.float64, device=draws.device)
            error = torch.randn(draws.shape, dtype=torch.float64, generator=generator, device=draws.device)
            return logs[(draws * len(logs)).to(torch.int64)] + self._width * error.clamp(-TAIL, TAIL)
        assert self.mean is not None and self.sd is not None
        low, high = (torch.tensor((end - self.mean) / self.sd, dtype=torch.float64) for end in self.span)
        below, above = torch.special.ndtr(low), torch.special.ndtr(high)
        where: Tensor = torch.special.ndtri(below.to(draws.device) + (above - below).to(draws.device) * draws)
        return (self.mean + self.sd * where).clamp(*self.span)

    @property
    def moments(self) -> tuple[float, float]:
        """The mean and the standard deviation of a positive item's log10 amount, the cut-offs included.

        Example:
            >>> [round(value, 3) for value in Loads(rate=0.1, mean=3.0, sd=1.0, low=3.0).moments]  # half a normal
            [3.798, 0.603]
        """
        logs = torch.linspace(*self.span, MOMENT_NODES, dtype=torch.float64)
        share = self.log_density(logs).softmax(0)
        share = torch.cat([share[:1] / 2, share[1:-1], share[-1:] / 2])  # the trapezoidal rule
        mean = float(share @ logs / share.sum())
        return mean, math.sqrt(float(share @ (logs - mean).square() / share.sum()))

    def log_density(self, log_amounts: Float64[Tensor, "..."]) -> Float64[Tensor, "..."]:
        """The log density of a positive item's log10 amount; -inf outside the span.

        Example:
            >>> import torch
            >>> where = torch.linspace(-9.0, 15.0, 24001, dtype=torch.float64)
            >>> round(float(Loads(rate=0.1, mean=2.9, sd=1.9, low=0.0).log_density(where).exp().sum() * 0.001), 3)
            1.0
        """
        low, high = self.span
        inside = (log_amounts >= low) & (log_amounts <= high)
        if self.values is None:
            assert self.mean is not None and self.sd is not None
            ends = torch.tensor([(low - self.mean) / self.sd, (high - self.mean) / self.sd], dtype=torch.float64)
            mass = float(torch.special.ndtr(ends).diff())
            where = (log_amounts - self.mean) / self.sd
            density = -0.5 * where.square() - log(self.sd * math.sqrt(2 * pi) * mass)
            return torch.where(inside, density, -inf)
        table = self._kernel_density.to(log_amounts.device)
        place = ((log_amounts - low) / (high - low) * (len(table) - 1)).clamp(0.0, len(table) - 1.001)
        cell = place.to(torch.int64)
        return torch.where(inside, torch.lerp(table[cell], table[cell + 1], place - cell), -inf)

    @cached_property
    def _kernel_density(self) -> Tensor:
        """The log density of measured values on an even grid over the span, far finer than the kernel is wide."""
        logs, (low, high) = torch.tensor(self.values, dtype=torch.float64), self.span
        nodes = torch.linspace(low, high, 1 + math.ceil((high - low) / self._width * 16), dtype=torch.float64)
        where = (nodes[:, None] - logs) / self._width  # (nodes, values)
        each = -0.5 * where.square() - log(self._width * math.sqrt(2 * pi) * len(logs))
        return each.logsumexp(1)

    def log_prob(self, x: Float64[Tensor, "instances items"]) -> Float64[Tensor, " instances"]:
        """The log of the probability of who is positive times the density of the log10 amounts."""
        who = (x > 0).to(torch.uint8)
        logs = torch.where(x > 0, x, 1.0).log10()
        return self.statuses().log_prob(who) + torch.where(x > 0, self.log_density(logs), 0.0).sum(1)


@dataclass(frozen=True)
class CycleThreshold:
    """Quantitative PCR: the cycle at which a pool's signal crosses the threshold, infinite where nothing amplified.

    The cycle of a pool of n items with total t is

        Ct = intercept + slope log10(t / n^dilution + background) + a normal error of standard deviation `sigma`,

    reported up to `limit`; beyond it, and with probability `dropout` for any pool, nothing is reported: infinity. The
    slope of a perfect reaction is -3.32 cycles for each factor of ten. `intercept` is the cycle of one unit: with a
    standard curve units are copies, without one they are relative amounts, and any number serves.

    With `dilution` 1 a pool holds the mean of its items, each having given an equal part of one volume; with 0 each
    has given its full volume, and the pool holds the sum. A machine that reads 33 to 34 from pools without any
    positive has a `background`, in the units of amounts, that varies by `background_sigma` cycles.

    Example:
        >>> import torch
        >>> noise = CycleThreshold(sigma=0.25, intercept=37.0, slope=-3.32, limit=38.0)
        >>> y, total, size = torch.tensor([[27.04, 27.04, inf], [1e3, 1.2e3, 0.0], [8.0, 8.0, 8.0]]).double()
        >>> noise.log_prob(y, total, size).exp()
        tensor([1.5958, 0.9181, 1.0000], dtype=torch.float64)
    """

    sigma: float
    intercept: float = 37.0
    slope: float = PER_DOUBLING
    limit: float | None = None  # None: every cycle is reported
    background: float = 0.0
    background_sigma: float = 0.0
    dropout: float = 0.0
    dilution: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", positive("sigma", self.sigma))
        object.__setattr__(self, "intercept", finite("intercept", self.intercept))
        object.__setattr__(self, "slope", finite("slope", self.slope))
        if self.slope >= 0:
            raise ValueError(f"slope={self.slope} is not valid: more copies cross the threshold earlier; give -3.32.")
        if self.limit is not None:
            object.__setattr__(self, "limit", finite("limit", self.limit))
        for name in ("background", "background_sigma"):
            if getattr(self, name) != 0:
                object.__setattr__(self, name, positive(name, getattr(self, name)))
        for name in ("dropout", "dilution"):
            object.__setattr__(self, name, fraction(name, getattr(self, name)))

    @property
    def integer(self) -> bool:
        """Cycle thresholds are real numbers."""
        return False

    @property
    def not_detected(self) -> float:
        """What a pool reports in which nothing amplified."""
        return inf

    @property
    def reports(self) -> Reports:
        """Cycles, or nothing."""
        remedy = "write a cycle such as 27.3, inf where nothing amplified, and nothing where the pool was not measured"
        return Reports("cycle thresholds", counts=False, exact=False, words={inf: "not detected"}, remedy=remedy)

    def reach(self, size: int, tail: float) -> float:
        """Cycle thresholds are not on the scale of counts, and nothing amplified is infinitely far."""
        return inf

    def cycle(self, amount: float) -> float:
        """The cycle threshold of a single sample with that amount, by the standard curve: the inverse of `amount`.

        Example:
            >>> round(CycleThreshold(sigma=0.25, intercept=37.0, slope=-3.32).cycle(1000.0), 2)
            27.04
        """
        return self.intercept + self.slope * math.log10(positive("amount", amount))

    def amount(self, ct: float) -> float:
        """The amount of a single sample with that cycle threshold, by the standard curve.

        Example:
            >>> round(CycleThreshold(sigma=0.25, intercept=37.0, slope=-3.32).amount(27.04), 6)
            1000.0
        """
        return float(10.0 ** ((finite("ct", ct) - self.intercept) / self.slope))

    def sample(
        self, counts: Float64[Tensor, "instances pools"], sizes: Float64[Tensor, " pools"], *, generator: Generator
    ) -> Float64[Tensor, "instances pools"]:
        """Draw cycles, and lose those beyond the limit."""
        cycle, spread = self._cycle(counts, sizes)
        error = torch.randn(counts.shape, dtype=torch.float64, generator=generator, device=generator.device)
        lost = torch.rand(counts.shape, dtype=torch.float64, generator=generator, device=generator.device)
        y = cycle + spread * error
        late = torch.zeros_like(y, dtype=torch.bool) if self.limit is None else y > self.limit
        return torch.where(late | (lost < self.dropout), inf, y)

    def log_prob(self, y: Numbers, counts: Numbers, sizes: Numbers) -> Numbers:
        """The log density of a cycle, or the log probability of none."""
        cycle, spread = self._cycle(counts, sizes)
        nothing = self._log_nothing(cycle, spread)
        seen = (y < inf) & (cycle < inf) & torch.isfinite(y)
        if self.limit is not None:
            seen = seen & (y <= self.limit)
        error = torch.where(seen, y - cycle, 0.0) / spread
        kept = log(1 - self.dropout) if self.dropout < 1 else -inf
        density = -0.5 * error.square() - spread.log() - 0.5 * log(2 * pi) + kept
        return torch.where(y == inf, nothing, torch.where(seen, density, -inf))

    def usual_report(self, counts: Numbers, sizes: Numbers) -> Numbers:
        """The cycle without an error; infinite beyond the limit."""
        cycle, _ = self._cycle(counts, sizes)
        return cycle if self.limit is None else torch.where(cycle > self.limit, inf, cycle)

    def log_total(self, y: Numbers, sizes: Numbers) -> Numbers:
        """The log10 of the total at a report, by the standard curve: linear in the cycle, -inf where not detected.

        A background is part of the total.
        """
        return (y - self.intercept) / self.slope + self.dilution * sizes.clamp(min=1).log10()

    def sample_arbitrary(self, sizes: Tensor, shape: torch.Size, *, generator: Generator) -> Tensor:
        """Reports that do not depend on the total: half of them not detected, the others any cycle up to the limit."""
        draws = torch.rand(2, *shape, dtype=torch.float64, generator=generator, device=generator.device)
        return torch.where(draws[0] < 0.5, inf, self._latest - CYCLES_BEFORE * draws[1])

    def log_arbitrary(self, y: Numbers, sizes: Numbers) -> Numbers:
        """The log density of such a report."""
        cycle = (y <= self._latest) & (y >= self._latest - CYCLES_BEFORE)
        found = torch.full_like(y + sizes, -inf).masked_fill(cycle, -log(2 * CYCLES_BEFORE))
        return found.masked_fill(y == inf, log(0.5))

    @property
    def _latest(self) -> float:
        return self.intercept if self.limit is None else self.limit

    def _cycle(self, counts: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
        """The cycle without an error, infinite where nothing is in the pool, and the error's standard deviation."""
        own = _diluted(counts, sizes, self.dilution)
        cycle = self.intercept + self.slope * (own + self.background).log10()
        spread = torch.full_like(cycle, self.sigma)
        if self.background:
            spread = torch.hypot(spread, self.background_sigma * self.background / (own + self.background))
        return cycle, spread

    def _log_nothing(self, cycle: Tensor, spread: Tensor) -> Tensor:
        """The log probability that nothing is reported."""
        if self.limit is None:
            late = torch.where(cycle == inf, 0.0, -inf).to(torch.float64)
        else:
            late = torch.special.log_ndtr((cycle - self.limit) / spread)
        if not self.dropout:
            return late
        kept = log(1 - self.dropout) if self.dropout < 1 else -inf
        return torch.logaddexp(late + kept, torch.full_like(late, log(self.dropout)))


@dataclass(frozen=True)
class Amount:
    """A pool reports its total: copies, a concentration, an intensity, with a `relative` and an `absolute` error.

    On the scale g(t) = asinh(t relative / absolute) / relative the error is normal with standard deviation 1: near 0 a
    report is t plus `absolute` times a normal error, and far above t times exp(`relative` times that error) (Durbin et
    al. 2002, A variance-stabilizing transformation for gene-expression microarray data, Bioinformatics 18, S105-S110).
    With `absolute` 0 a pool without any positive reports exactly 0; with `relative` 0 the error is additive alone.
    Reports below `limit` become 0: not detected.

    With `dilution` 1 a pool holds the mean of its items' amounts, with 0 their sum.

    Example:
        >>> import torch
        >>> noise = Amount(relative=0.07)
        >>> y, total, size = torch.tensor([[950.0, 0.0, 0.0], [1000.0, 0.0, 5.0], [8.0, 8.0, 8.0]]).double()
        >>> noise.log_prob(y, total, size).exp()
        tensor([0.0046, 1.0000, 0.0000], dtype=torch.float64)
    """

    relative: float = 0.0
    absolute: float = 0.0
    limit: float = 0.0
    dilution: float = 0.0

    def __post_init__(self) -> None:
        for name in ("relative", "absolute", "limit"):
            if getattr(self, name) != 0:
                object.__setattr__(self, name, positive(name, getattr(self, name)))
        object.__setattr__(self, "dilution", fraction("dilution", self.dilution))
        if not self.relative and not self.absolute:
            raise ValueError("relative=0 and absolute=0 are not valid: amounts are measured with an error; give one.")

    @property
    def integer(self) -> bool:
        """Amounts are real numbers."""
        return False

    @property
    def not_detected(self) -> float:
        """What a pool reports below the limit."""
        return 0.0

    @property
    def reports(self) -> Reports:
        """Amounts, or nothing below the limit."""
        words = {0.0: "not detected"} if self.limit or not self.absolute else {}
        remedy = "write an amount, and 0 where nothing was detected"
        return Reports("amounts", counts=False, exact=False, words=words, remedy=remedy)

    def reach(self, size: int, tail: float) -> float:
        """Amounts are not on the scale of counts."""
        return inf

    def sample(
        self, counts: Float64[Tensor, "instances pools"], sizes: Float64[Tensor, " pools"], *, generator: Generator
    ) -> Float64[Tensor, "instances pools"]:
        """Add the error on the scale on which it is normal."""
        error = torch.randn(counts.shape, dtype=torch.float64, generator=generator, device=generator.device)
        y = self._inverse(self._scaled(_diluted(counts, sizes, self.dilution)) + error)
        return torch.where(y < self.limit, 0.0, y) if self.limit else y

    def log_prob(self, y: Numbers, counts: Numbers, sizes: Numbers) -> Numbers:
        """The log density of an amount; of 0, where only that is possible or the limit makes it so, a probability."""
        own = _diluted(counts, sizes, self.dilution)
        where = self._scaled(own)
        density = -0.5 * (self._scaled(y) - where).square() - self._log_step(y) - 0.5 * log(2 * pi)
        possible = torch.ones_like(y + own).bool() if self.absolute else (y > 0) & (own > 0)
        found = torch.where(possible & ((y >= self.limit) if self.limit else True), density, -inf)
        if self.limit:
            scaled = self._scaled(torch.tensor(self.limit, dtype=torch.float64, device=where.device))
            return torch.where(y == 0, torch.special.log_ndtr(scaled - where), found)
        return found if self.absolute else torch.where((y == 0) & (own == 0), 0.0, found)

    def usual_report(self, counts: Numbers, sizes: Numbers) -> Numbers:
        """The total without an error."""
        own = _diluted(counts, sizes, self.dilution)
        return torch.where(own < self.limit, 0.0, own)

    def log_total(self, y: Numbers, sizes: Numbers) -> Numbers:
        """The log10 of the total at a report, -inf where not detected.

        With an absolute error reports near 0, or below, have no useful logarithm. There it is asinh, on the scale on
        which the errors of all reports are about equal: asinh(y / knee) / ln 10 is log10(2 y / knee) far above the knee
        and linear below it.
        """
        own = self.dilution * sizes.clamp(min=1).log10()
        if not self.absolute:
            return y.clamp(min=0).log10() + own
        knee = self.absolute / (self.relative or 1.0)
        found = torch.asinh(y / knee) / LN10 + math.log10(knee / 2) + own
        return torch.where(y == 0, -inf, found) if self.limit else found

    def sample_arbitrary(self, sizes: Tensor, shape: torch.Size, *, generator: Generator) -> Tensor:
        """Reports that do not depend on the total: half of them not detected, the others any amount from `_least`."""
        draws = torch.rand(2, *shape, dtype=torch.float64, generator=generator, device=generator.device)
        return torch.where(draws[0] < 0.5, 0.0, self._least * 10.0 ** (DECADES_ABOVE * draws[1]))

    def log_arbitrary(self, y: Numbers, sizes: Numbers) -> Numbers:
        """The log density of such a report."""
        inside = (y >= self._least) & (y <= self._least * 10.0**DECADES_ABOVE)
        found = torch.where(inside, -torch.where(inside, y, 1.0).log() - log(2 * DECADES_ABOVE * LN10), -inf)
        return torch.where(y == 0, log(0.5), found + torch.zeros_like(sizes))

    @property
    def _least(self) -> float:
        least = self.limit or self.absolute
        if not least:
            raise ValueError("limit=0 is not valid with outliers: give the least amount that is reported.")
        return least

    def _scaled(self, amount: Tensor) -> Tensor:
        """The amount on the scale of the error; -inf for 0 where the error is relative alone."""
        if not self.relative:
            return amount / self.absolute
        if not self.absolute:
            return amount.clamp(min=0).log() / self.relative
        return torch.asinh(amount * (self.relative / self.absolute)) / self.relative

    def _inverse(self, scaled: Tensor) -> Tensor:
        if not self.relative:
            return scaled * self.absolute
        if not self.absolute:
            return (scaled * self.relative).exp()
        return torch.sinh(scaled * self.relative) * (self.absolute / self.relative)

    def _log_step(self, y: Tensor) -> Tensor:
        """The log of how much an amount changes with the scale, at y."""
        if not self.absolute:
            return torch.where(y > 0, self.relative * y, 1.0).log()
        return torch.hypot(torch.full_like(y, self.absolute), self.relative * y).log()


def _diluted(totals: Tensor, sizes: Tensor, dilution: float) -> Tensor:
    """The amount that is measured in pools with these totals: the sum with a dilution of 0, the mean with 1."""
    return totals / sizes.clamp(min=1) ** dilution


def detects_nothing(noise: object) -> bool:
    """Whether the report "not detected" is infinite, as for cycle thresholds: then infinity is a valid report.

    Example:
        >>> detects_nothing(CycleThreshold(sigma=0.25)), detects_nothing(Amount(relative=0.1))
        (True, False)
    """
    inner = getattr(noise, "noise", None)
    if inner is not None:
        return detects_nothing(inner)
    several: Sequence[object] = getattr(noise, "noises", ())
    return any(map(detects_nothing, several)) or getattr(noise, "not_detected", 0.0) == inf


def log_totals(noise: Noise, y: Numbers, sizes: Float64[Tensor, " pools"]) -> Numbers:
    """The log10 of the total that each report suggests: -inf where nothing was detected, NaN where it is missing.

    The noise decides, by its method `log_total`. Where the noise is inside another, the inner one does; where pools
    have different noises, each pool's own.

    Example:
        >>> import torch
        >>> y, sizes = torch.tensor([[27.04, inf]], dtype=torch.float64), torch.tensor([8.0, 8.0]).double()
        >>> log_totals(CycleThreshold(sigma=0.25, intercept=37.0, slope=-3.32), y, sizes)
        tensor([[3.0000,   -inf]], dtype=torch.float64)
    """
    if (each := by_pool(noise)) is not None:
        found = torch.empty_like(y)
        for one, pools in each.pools_of().items():
            found[..., pools] = log_totals(one, y[..., pools], sizes[pools])
        return found
    inner: Noise | None = getattr(noise, "noise", None)
    if not hasattr(noise, "log_total") and inner is not None:
        return log_totals(inner, y, sizes)
    if not hasattr(noise, "log_total"):
        raise ValueError(f"noise={noise} has no method `log_total`, by which a network reads amounts: give it one.")
    suggested: Tensor = noise.log_total(y, sizes)
    return suggested


def as_statuses(x: Tensor) -> UInt8[Tensor, "instances items"]:
    """Who is defective: x itself for statuses, and what is more than 0 for amounts, copies and categories.

    Example:
        >>> import torch
        >>> as_statuses(torch.tensor([[0.0, 12.5]], dtype=torch.float64))
        tensor([[0, 1]], dtype=torch.uint8)
    """
    return x.clamp(max=1) if x.dtype == torch.uint8 else (x > 0).to(torch.uint8)


def reads_empty(
    noise: Noise, y: Float64[Tensor, "instances pools"], sizes: Float64[Tensor, " pools"]
) -> Bool[Tensor, "instances pools"]:
    """Whether each report is what a pool without any positive reports, or not much farther off than its error.

    Example:
        >>> import torch
        >>> noise = CycleThreshold(sigma=0.25, background=10.0)  # empty pools read 33.7
        >>> y = torch.tensor([[33.5, 29.0]], dtype=torch.float64)
        >>> reads_empty(noise, y, torch.tensor([8.0, 8.0], dtype=torch.float64))
        tensor([[ True, False]])
    """
    missing, none = y.isnan(), torch.zeros_like(y)
    usual = usual_reports(noise, none, sizes).expand_as(y)
    filled = torch.where(missing, usual, y)
    floor = noise.log_prob(usual, none, sizes) - EMPTY
    return (noise.log_prob(filled, none, sizes) >= floor) & ~missing


def possible_totals(
    loads: Loads, noise: Noise, y: Float64[Tensor, "instances pools"], sizes: Float64[Tensor, " pools"]
) -> Bool[Tensor, "instances pools"]:
    """Whether each report, taken alone, is possible for some total, or missing."""
    low, high = loads.span
    logs = torch.linspace(low, high + math.log10(max(float(sizes.max()), 1.0)), 129, dtype=torch.float64)
    found = y.isnan()
    filled = torch.where(found, 0.0, y)
    for total in [0.0, *(10.0**logs).tolist()]:
        likely = noise.log_prob(filled, torch.full_like(y, total), sizes)
        found = found | (likely > -inf)
    return found
