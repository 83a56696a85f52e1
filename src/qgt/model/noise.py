"""Noise: the distribution of what a pool reports, given its true count (A x)_i and its size, independent among pools.

Reports are never clipped: a noisy count may be negative or exceed its pool's size. A noise of one's own needs what
`Noise` has. Each `log_prob` here is exact and sums to one over the integers. The noises whose reports are not counts
come last.

A noise may describe its reports by two more members, which are optional: `reports`, a `Reports`, and
`usual_report(counts, sizes)`, what pools report without an error. Read them by `reports_of` and `usual_reports`, which
take a noise without them to report counts. A noise that contains others also has `by_pool`, read by `by_pool`.

The arguments of `log_prob` broadcast together, as tensors of torch do: a column of reports and a row of true counts
give the table of both.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil, inf, log, pi
from statistics import NormalDist
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float64
from torch import Generator, Tensor

from qgt.arguments import fraction, positive, whole

Numbers = Float64[Tensor, "..."]


@runtime_checkable
class Noise(Protocol):
    """What a problem asks of the distribution of y given the true counts.

    Example:
        >>> import torch
        >>> y, count, size = torch.tensor([[2.0, 3.0], [2.0, 2.0], [9.0, 9.0]], dtype=torch.float64)
        >>> SparseInteger(rate=0.3, bound=1).log_prob(y, count, size).exp()
        tensor([0.8000, 0.1000], dtype=torch.float64)
    """

    @property
    def integer(self) -> bool:
        """Whether every report is a whole number; then `log_prob` is of a probability, otherwise of a density."""
        ...

    def reach(self, size: int, tail: float) -> float:
        """How far from its true count a pool of that size reports, except with a probability of `tail` at most."""
        ...

    def sample(
        self, counts: Float64[Tensor, "instances pools"], sizes: Float64[Tensor, " pools"], *, generator: Generator
    ) -> Float64[Tensor, "instances pools"]:
        """Draw what pools of the given sizes report."""
        ...

    def log_prob(self, y: Numbers, counts: Numbers, sizes: Numbers) -> Numbers:
        """The log probability of each report, given the true count and the pool's size."""
        ...


@dataclass(frozen=True)
class Reports:
    """What the reports of a noise are, for messages and sheets: the optional `reports` of a noise.

    Example:
        >>> Reports().shown(3.0), Reports("amounts", counts=False, unit="copies", words={0.0: "nothing"}).shown(0.0)
        ('3', 'nothing')
        >>> Reports("results", counts=False, words={0.0: "negative", 1.0: "positive"}).binary
        True
    """

    noun: str = "counts"  # what reports are called, in the plural
    counts: bool = True  # whether a report is the number of defectives, right or wrong
    exact: bool = True  # whether a report without an error is exactly the usual one, and not only close to it
    unit: str = ""  # written after a value: "12 reads"
    words: Mapping[float, str] = field(default_factory=dict)  # values that are written as words
    remedy: str = ""  # what to write in a sheet instead of a value that cannot be; nothing where any number may be

    @property
    def binary(self) -> bool:
        """Whether a report is positive (1) or negative (0), so that sheets may contain these words."""
        return dict(self.words) == {0.0: "negative", 1.0: "positive"}

    def shown(self, value: float) -> str:
        """One report, as a person reads it."""
        return self.words.get(value, f"{value:g} {self.unit}".rstrip())


def reports_of(noise: Noise) -> Reports:
    """What the reports of a noise are: counts, unless the noise says otherwise.

    Example:
        >>> reports_of(SparseInteger(rate=0.1, bound=1)).noun, reports_of(Reads(depth=100)).noun
        ('counts', 'results')
    """
    found = getattr(noise, "reports", None)
    return found if isinstance(found, Reports) else Reports(exact=noise.integer)


def usual_reports(
    noise: Noise, counts: Float64[Tensor, "instances pools"], sizes: Float64[Tensor, " pools"]
) -> Float64[Tensor, "instances pools"]:
    """What pools report without an error: their counts, unless the noise says otherwise by `usual_report`.

    Example:
        >>> import torch
        >>> counts = torch.tensor([[0.0, 3.0]], dtype=torch.float64)
        >>> sizes = torch.tensor([8.0, 8.0], dtype=torch.float64)
        >>> usual_reports(PositiveNegative(0.9, 0.99), counts, sizes), usual_reports(Binned([1, 5]), counts, sizes)
        (tensor([[0., 1.]], dtype=torch.float64), tensor([[0., 1.]], dtype=torch.float64))
    """
    usual: Tensor = noise.usual_report(counts, sizes) if hasattr(noise, "usual_report") else counts
    return usual


def by_pool(noise: Noise) -> "PerPool | None":
    """The noise as one noise for each pool, where pools have different ones; None where all pools have this noise.

    Example:
        >>> by_pool(Outliers(PerPool([Noiseless(), Saturating(3)]), rate=0.1)).noises[0]
        Outliers(noise=Noiseless(), rate=0.1)
    """
    found: PerPool | None = noise.by_pool() if hasattr(noise, "by_pool") else None
    return found


def noise_of(noise: Noise, pool: int) -> Noise:
    """The noise of one pool.

    Example:
        >>> noise_of(PerPool([Noiseless(), Saturating(3)]), 1)
        Saturating(cap=3, noise=Noiseless())
    """
    each = by_pool(noise)
    return noise if each is None else each.noises[pool]


@dataclass(frozen=True)
class Noiseless:
    """Every pool reports its true count.

    Example:
        >>> import torch
        >>> Noiseless().log_prob(*torch.tensor([[1.0, 2.0], [1.0, 1.0], [9.0, 9.0]], dtype=torch.float64))
        tensor([0., -inf], dtype=torch.float64)
    """

    @property
    def integer(self) -> bool:
        """Counts are whole numbers."""
        return True

    def reach(self, size: int, tail: float) -> float:
        """No report is off."""
        return 0.0

    def sample(
        self, counts: Float64[Tensor, "instances pools"], sizes: Float64[Tensor, " pools"], *, generator: Generator
    ) -> Float64[Tensor, "instances pools"]:
        """The counts themselves."""
        return counts.clone()

    def log_prob(self, y: Numbers, counts: Numbers, sizes: Numbers) -> Numbers:
        """0 where the count is right, otherwise -inf."""
        return torch.where(y == counts, 0.0, -inf).to(torch.float64)


@dataclass(frozen=True)
class SparseInteger:
    """The paper's noise: with probability `rate` add a whole number drawn uniformly from -bound..bound, zero included.

    So P(error = 0) = 1 - rate + rate / (2 bound + 1), and each other value within the bound has rate / (2 bound + 1).

    Example:
        >>> SparseInteger(rate=0.06, bound=1)
        SparseInteger(rate=0.06, bound=1)
    """

    rate: float
    bound: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", fraction("rate", self.rate))
        object.__setattr__(self, "bound", whole("bound", self.bound))

    @property
    def integer(self) -> bool:
        """Errors are whole numbers."""
        return True

    def reach(self, size: int, tail: float) -> float:
        """The bound, where there are errors."""
        return float(self.bound) if self.rate > tail else 0.0

    def sample(
        self, counts: Float64[Tensor, "instances pools"], sizes: Float64[Tensor, " pools"], *, generator: Generator
    ) -> Float64[Tensor, "instances pools"]:
        """Add the noise: one uniform draw decides both whether and, rescaled, by how much."""
        draws = torch.rand(counts.shape, dtype=torch.float64, generator=generator, device=generator.device)
        values = 2 * self.bound + 1
        error = (draws * (values / self.rate if self.rate else inf)).floor_() - self.bound
        return counts + torch.where(draws < self.rate, error.clamp_(max=self.bound), 0.0)

    def log_prob(self, y: Numbers, counts: Numbers, sizes: Numbers) -> Numbers:
        """One of three values: no error, an error within the bound, or -inf."""
        each = self.rate / (2 * self.bound + 1)
        error = (y - counts).abs()
        within = (error <= self.bound) & (error == error.floor())
        stay = 1 - self.rate + each
        # Not torch.where(condition, number, number): that is float32.
        some = torch.full_like(error, -inf).masked_fill(within, log(each) if each else -inf)
        return some.masked_fill(error == 0, log(stay) if stay else -inf)


@dataclass(frozen=True)
class RoundedGaussian:
    """Add a Gaussian error of standard deviation `sigma` and round to the nearest whole number.

    Example:
        >>> import torch
        >>> y = torch.arange(-9.0, 10.0, dtype=torch.float64)
        >>> round(float(RoundedGaussian(0.7).log_prob(y, torch.zeros_like(y), y).exp().sum()), 12)
        1.0
    """

    sigma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", positive("sigma", self.sigma))

    @property
    def integer(self) -> bool:
        """Reports are rounded."""
        return True

    def reach(self, size: int, tail: float) -> float:
        """Where both tails of the Gaussian end, rounded."""
        return float(max(0, ceil(-self.sigma * NormalDist().inv_cdf(tail / 2) - 0.5)))

    def sample(
        self, counts: Float64[Tensor, "instances pools"], sizes: Float64[Tensor, " pools"], *, generator: Generator
    ) -> Float64[Tensor, "instances pools"]:
        """Add the error and round."""
        error = torch.randn(counts.shape, dtype=torch.float64, generator=generator, device=generator.device)
        return torch.round(counts + self.sigma * error)

    def log_prob(self, y: Numbers, counts: Numbers, sizes: Numbers) -> Numbers:
        """log(Phi(b) - Phi(a)) over the unit interval around y, taken in the lower tail where it keeps its digits."""
        error = -(y - counts).abs()
        upper = torch.special.log_ndtr((error + 0.5) / self.sigma)
        lower = torch.special.log_ndtr((error - 0.5) / self.sigma)
        mass = upper + torch.log(-torch.expm1(lower - upper))
        return torch.where((error == error.floor()) & (upper > -inf), mass, -inf)


@runtime_checkable
class OwnArbitrary(Protocol):
    """A noise with its own law of arbitrary reports, which do not depend on the pool: no count is on their scale."""

    def sample_arbitrary(self, sizes: Tensor, shape: torch.Size, *, generator: Generator) -> Tensor:
        """Draw such reports."""
        ...

    def log_arbitrary(self, y: Numbers, sizes: Numbers) -> Numbers:
        """The log density of such a report, or its log probability."""
        ...


@dataclass(frozen=True)
class Outliers:
    """Any noise, but with a small chance `rate` a report is arbitrary: anything from 0 to the pool's size.

    A noise whose reports are not on the scale of counts says itself what an arbitrary report is (`OwnArbitrary`).

    Example:
        >>> import torch
        >>> y, count, size = torch.tensor([[2.0, 7.0], [2.0, 2.0], [9.0, 9.0]], dtype=torch.float64)
        >>> Outliers(Noiseless(), rate=0.1).log_prob(y, count, size).exp()
        tensor([0.9100, 0.0100], dtype=torch.float64)
    """

    noise: Noise
    rate: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", fraction("rate", self.rate))
        check_noise("noise", self.noise)

    @property
    def integer(self) -> bool:
        """What the noise says; then arbitrary reports are whole too."""
        return self.noise.integer

    @property
    def reports(self) -> Reports:
        """Those of the noise."""
        return reports_of(self.noise)

    def usual_report(self, counts: Numbers, sizes: Numbers) -> Numbers:
        """That of the noise."""
        return usual_reports(self.noise, counts, sizes)

    def by_pool(self) -> "PerPool | None":
        """The same with the outliers inside: each pool's noise decides whether arbitrary reports are whole."""
        each = by_pool(self.noise)
        return None if each is None else PerPool([Outliers(one, self.rate) for one in each.noises])

    def reach(self, size: int, tail: float) -> float:
        """The whole pool, unless arbitrary reports are so rare that they are part of the tail."""
        if self.rate < tail:
            return self.noise.reach(size, tail - self.rate)
        return max(size + (0.0 if self.integer else 0.5), self.noise.reach(size, tail))

    def sample(
        self, counts: Float64[Tensor, "instances pools"], sizes: Float64[Tensor, " pools"], *, generator: Generator
    ) -> Float64[Tensor, "instances pools"]:
        """What the noise reports, and now and then something else."""
        if (each := self.by_pool()) is not None:
            return each.sample(counts, sizes, generator=generator)
        reports = self.noise.sample(counts, sizes, generator=generator)
        draws = torch.rand(2, *counts.shape, dtype=torch.float64, generator=generator, device=generator.device)
        if isinstance(self.noise, OwnArbitrary):
            anything = self.noise.sample_arbitrary(sizes, counts.shape, generator=generator)
        else:
            anything = draws[0] * (sizes + 1)
            anything = anything.floor() if self.integer else anything - 0.5
        return torch.where(draws[1] < self.rate, anything, reports)

    def log_prob(self, y: Numbers, counts: Numbers, sizes: Numbers) -> Numbers:
        """The two ways to a report, added up."""
        if (each := self.by_pool()) is not None:
            return each.log_prob(y, counts, sizes)
        arbitrary = self._log_arbitrary(y, sizes) + (log(self.rate) if self.rate else -inf)
        usual = self.noise.log_prob(y, counts, sizes) + (log(1 - self.rate) if self.rate < 1 else -inf)
        return torch.logaddexp(usual, arbitrary)

    def _log_arbitrary(self, y: Numbers, sizes: Numbers) -> Numbers:
        if isinstance(self.noise, OwnArbitrary):
            return self.noise.log_arbitrary(y, sizes)
        inside = (y >= -0.5) & (y <= sizes + 0.5) & ((y == y.floor()) if self.integer else torch.ones_like(y).bool())
        return torch.where(inside, -(sizes + 1).log(), -inf)


@dataclass(frozen=True)
class PerPool:
    """Another noise for each pool: machines, dilutions and volumes differ.

    Its `log_prob` wants the pools in the last dimension, where others want no pools at all; `pool_costs`, by which
    decoders see noise, asks each pool's own.

    Example:
        >>> import torch
        >>> noise = PerPool([Noiseless(), SparseInteger(rate=0.3, bound=1)])
        >>> y, counts = torch.tensor([[2.0, 2.0], [2.0, 1.0]], dtype=torch.float64)
        >>> noise.log_prob(y, counts, torch.tensor([9.0, 9.0], dtype=torch.float64)).exp()
        tensor([1.0000, 0.1000], dtype=torch.float64)
    """

    noises: Sequence[Noise]  # kept as a tuple

    def __post_init__(self) -> None:
        object.__setattr__(self, "noises", _checked_noises(self.noises, "pool", one=True))

    @property
    def integer(self) -> bool:
        """Whether every pool reports whole numbers."""
        return all(noise.integer for noise in self.noises)

    @property
    def reports(self) -> Reports:
        """Those of every pool where all are alike; otherwise results that have no words in common."""
        return _common_reports(self.pools_of())

    def usual_report(self, counts: Numbers, sizes: Numbers) -> Numbers:
        """Each pool's own; the pools are the last dimension."""
        usual = torch.empty_like(counts)
        for noise, pools in self.pools_of().items():
            usual[..., pools] = usual_reports(noise, counts[..., pools], sizes[..., pools])
        return usual

    def by_pool(self) -> "PerPool":
        """This one."""
        return self

    def reach(self, size: int, tail: float) -> float:
        """The farthest of all."""
        return max(noise.reach(size, tail) for noise in self.noises)

    def pools_of(self) -> dict[Noise, list[int]]:
        """The pools of each different noise."""
        found: dict[Noise, list[int]] = {}
        for pool, noise in enumerate(self.noises):
            found.setdefault(noise, []).append(pool)
        return found

    def check(self, pools: int) -> None:
        """Raise a ValueError where there are not as many noises as pools."""
        if len(self.noises) != pools:
            raise ValueError(f"noises holds {len(self.noises)} noises for {pools} pools: give one per pool.")

    def sample(
        self, counts: Float64[Tensor, "instances pools"], sizes: Float64[Tensor, " pools"], *, generator: Generator
    ) -> Float64[Tensor, "instances pools"]:
        """What each noise reports of its pools."""
        self.check(counts.shape[1])
        y = torch.empty_like(counts)
        for noise, pools in self.pools_of().items():
            y[:, pools] = noise.sample(counts[:, pools], sizes[pools], generator=generator)
        return y

    def log_prob(self, y: Numbers, counts: Numbers, sizes: Numbers) -> Numbers:
        """Each pool by its own noise; the pools are the last dimension."""
        y, counts, sizes = torch.broadcast_tensors(y, counts, sizes)
        self.check(y.shape[-1])
        found = torch.empty_like(y)
        for noise, pools in self.pools_of().items():
            found[..., pools] = noise.log_prob(y[..., pools], counts[..., pools], sizes[..., pools])
        return found


@dataclass(frozen=True)
class PerCategory:
    """Another noise for each category that pools report: one variant is counted, and another only detected.

    The noises are in the order of the reports, `Categories.columns`; any of them may be `PerPool`. `sample` and
    `log_prob` want the categories in the last dimension, and the pools in the one before it.

    Example:
        >>> import torch, qgt
        >>> noise = PerCategory([Noiseless(), PositiveNegative(sensitivity=0.9)])
        >>> problem = qgt.Problem(qgt.Design.from_rows(["1111"]), qgt.Categories((0.3, 0.2)), noise)
        >>> x = torch.tensor([[1, 1, 2, 2]], dtype=torch.uint8)
        >>> y = torch.tensor([[[2.0, 1.0]]], dtype=torch.float64)  # two of category 1, and category 2 is there
        >>> problem.log_reports(x, y).exp()
        tensor([[[1.0000, 0.9000]]], dtype=torch.float64)
    """

    noises: Sequence[Noise]  # kept as a tuple

    def __post_init__(self) -> None:
        object.__setattr__(self, "noises", _checked_noises(self.noises, "reported category", one=False))

    @property
    def integer(self) -> bool:
        """Whether every category is reported in whole numbers."""
        return all(noise.integer for noise in self.noises)

    @property
    def reports(self) -> Reports:
        """Those of every category where all are alike; otherwise results that have no words in common."""
        return _common_reports(self.noises)

    def reach(self, size: int, tail: float) -> float:
        """The farthest of all."""
        return max(noise.reach(size, tail) for noise in self.noises)

    def check(self, categories: int, pools: int) -> None:
        """Raise a ValueError where there are not as many noises as reported categories, or as pools."""
        if len(self.noises) != categories:
            raise ValueError(
                f"noises has {len(self.noises)} noises for {categories} reported categories: give one per category."
            )
        for each in map(by_pool, self.noises):
            if each is not None:
                each.check(pools)

    def sample(
        self,
        counts: Float64[Tensor, "instances pools categories"],
        sizes: Float64[Tensor, " pools"],
        *,
        generator: Generator,
    ) -> Float64[Tensor, "instances pools categories"]:
        """What each noise reports of its category."""
        each = zip(self.noises, counts.unbind(2), strict=True)
        return torch.stack([noise.sample(one, sizes, generator=generator) for noise, one in each], 2)

    def log_prob(self, y: Numbers, counts: Numbers, sizes: Numbers) -> Numbers:
        """Each category by its own noise; `sizes` are those of the pools."""
        each = zip(self.noises, y.unbind(-1), counts.unbind(-1), strict=True)
        return torch.stack([noise.log_prob(one, count, sizes) for noise, one, count in each], -1)


def _common_reports(noises: Iterable[Noise]) -> Reports:
    """The reports of all noises where these are alike; otherwise results that have no words in common."""
    first, *others = (reports_of(noise) for noise in noises)
    if all(other == first for other in others):
        return first
    counts = all(one.counts for one in (first, *others))
    exact = all(one.exact for one in (first, *others))
    return Reports("counts" if counts else "results", counts=counts, exact=exact)


def _checked_noises(noises: object, owner: str, *, one: bool) -> tuple[Noise, ...]:
    """A tuple of one noise per owner; with `one`, each of them the noise of one pool."""
    if not isinstance(noises, Sequence) or not noises:
        raise ValueError(f"noises={noises!r} is not valid: give a list of one noise per {owner}.")
    for i, noise in enumerate(noises):
        check_noise(f"noises[{i}]", noise, one=one)
    return tuple(noises)


def check_noise(name: str, noise: object, *, integer: bool = False, one: bool = False) -> None:
    """Raise a ValueError that names the argument unless it is a noise; of whole numbers, or of one pool, if asked."""
    if not isinstance(noise, Noise):
        raise ValueError(f"{name}={noise!r} is not valid: give a noise, such as SparseInteger(rate=0.1, bound=1).")
    if isinstance(noise, PerCategory):
        raise ValueError(f"{name}={noise!r} is not valid: give the noise of one category, and put PerCategory around.")
    if one and by_pool(noise) is not None:
        raise ValueError(f"{name}={noise!r} is not valid: give the noise of one pool, and put PerPool around.")
    if integer and not noise.integer:
        raise ValueError(f"{name}={noise!r} is not valid: give a noise of whole numbers, such as RoundedGaussian.")


# Scales that end or are coarse: what a pool reports is another noise's report, cut off or put into a range.
#
# First the instrument errs, then its scale ends. Both are tables over the true count like every other noise.

RAREST = 1e-300  # a probability so small that reports beyond its reach add nothing to a sum of floats


@dataclass(frozen=True)
class Saturating:
    """What another noise of whole numbers reports, but never more than `cap`: "three or more".

    Example:
        >>> import torch
        >>> y, count, size = torch.tensor([[2.0, 3.0, 3.0], [2.0, 3.0, 7.0], [9.0, 9.0, 9.0]], dtype=torch.float64)
        >>> Saturating(cap=3).log_prob(y, count, size).exp()
        tensor([1., 1., 1.], dtype=torch.float64)
    """

    cap: int
    noise: Noise = Noiseless()

    def __post_init__(self) -> None:
        object.__setattr__(self, "cap", whole("cap", self.cap, least=1))
        check_noise("noise", self.noise, integer=True, one=True)

    @property
    def integer(self) -> bool:
        """Reports are whole."""
        return True

    @property
    def reports(self) -> Reports:
        """Those of the noise."""
        return reports_of(self.noise)

    def usual_report(self, counts: Numbers, sizes: Numbers) -> Numbers:
        """That of the noise, cut off."""
        return usual_reports(self.noise, counts, sizes).clamp(max=self.cap)

    def reach(self, size: int, tail: float) -> float:
        """As far as the noise goes, or as the cap cuts off."""
        return max(self.noise.reach(size, tail), float(size - self.cap))

    def sample(
        self, counts: Float64[Tensor, "instances pools"], sizes: Float64[Tensor, " pools"], *, generator: Generator
    ) -> Float64[Tensor, "instances pools"]:
        """What the noise reports, cut off."""
        return self.noise.sample(counts, sizes, generator=generator).clamp(max=self.cap)

    def log_prob(self, y: Numbers, counts: Numbers, sizes: Numbers) -> Numbers:
        """Below the cap what the noise says; at the cap, all that it may report from there on."""
        below = torch.where(y < self.cap, self.noise.log_prob(y, counts, sizes), -inf)
        beyond = _log_mass(self.noise, float(self.cap), inf, counts, sizes)
        return torch.where(y == self.cap, beyond, below)


@dataclass(frozen=True)
class Binned:
    """The number of the range in which another noise's report lies: 0 below the first edge, 1 from there on, ...

    Example:
        >>> import torch
        >>> y, count, size = torch.tensor([[0.0, 1.0, 2.0], [0.0, 3.0, 9.0], [9.0, 9.0, 9.0]], dtype=torch.float64)
        >>> Binned(edges=[1, 5]).log_prob(y, count, size).exp()  # none, few (1 to 4), many
        tensor([1., 1., 1.], dtype=torch.float64)
    """

    edges: Sequence[int]  # the least report of each range but the first; kept as a tuple
    noise: Noise = Noiseless()

    def __post_init__(self) -> None:
        if isinstance(self.edges, str) or not isinstance(self.edges, Sequence) or not self.edges:
            raise ValueError(
                f"edges={self.edges!r} is not valid: give a list of the least report of each range but the first."
            )
        edges = tuple(whole(f"edges[{i}]", edge) for i, edge in enumerate(self.edges))
        if any(a >= b for a, b in pairwise(edges)):
            raise ValueError(f"edges={edges} is not valid: give each edge above the one before.")
        object.__setattr__(self, "edges", edges)
        check_noise("noise", self.noise, integer=True, one=True)

    @property
    def integer(self) -> bool:
        """Reports are numbers of ranges."""
        return True

    @property
    def reports(self) -> Reports:
        """Numbers of ranges, with their ends."""
        ends = [f"below {self.edges[0]}"]
        ends += [f"{low} to {high - 1}" if high - 1 > low else f"{low}" for low, high in pairwise(self.edges)]
        words = {float(i): f"range {i} ({one})" for i, one in enumerate([*ends, f"{self.edges[-1]} or more"])}
        remedy = f"write the number of a range, from 0 to {len(self.edges)}"
        return Reports("results", counts=False, words=words, remedy=remedy)

    def usual_report(self, counts: Numbers, sizes: Numbers) -> Numbers:
        """The range of the noise's usual report."""
        return self._range(usual_reports(self.noise, counts, sizes))

    def reach(self, size: int, tail: float) -> float:
        """As far as a number of a range is from the count."""
        return float(max(size, len(self.edges)))

    def sample(
        self, counts: Float64[Tensor, "instances pools"], sizes: Float64[Tensor, " pools"], *, generator: Generator
    ) -> Float64[Tensor, "instances pools"]:
        """The ranges of what the noise reports."""
        return self._range(self.noise.sample(counts, sizes, generator=generator))

    def log_prob(self, y: Numbers, counts: Numbers, sizes: Numbers) -> Numbers:
        """All that the noise may report within the range."""
        ends = (-inf, *map(float, self.edges), inf)
        found = torch.full_like(y + counts + sizes, -inf)
        for number, (low, high) in enumerate(pairwise(ends)):
            if bool((y == number).any()):
                found = torch.where(y == number, _log_mass(self.noise, low, high, counts, sizes), found)
        return found

    def _range(self, reports: Tensor) -> Tensor:
        edges = torch.tensor(self.edges, dtype=torch.float64, device=reports.device)
        return torch.bucketize(reports.contiguous(), edges, right=True).to(torch.float64)


def _log_mass(noise: Noise, low: float, high: float, counts: Tensor, sizes: Tensor) -> Tensor:
    """The log probability that a noise of whole numbers reports something from `low` on and below `high`."""
    counts, sizes = torch.broadcast_tensors(counts, sizes)
    if not counts.numel():
        return torch.zeros_like(counts)
    reach = noise.reach(int(sizes.max()), RAREST)
    errors = torch.arange(-reach, reach + 1, dtype=torch.float64, device=counts.device)
    reports = counts[..., None] + errors  # (..., errors)
    each = noise.log_prob(reports, counts[..., None], sizes[..., None])
    return torch.where((reports >= low) & (reports < high), each, -inf).logsumexp(-1).clamp(max=0.0)


# Noises of other readings than counts: what a pool reports where nobody counts its defectives one by one.
#
#     PositiveNegative    1 or 0: classical group testing, with errors and dilution
#     Gaussian            a real number near the count
#     Reads               how many of some reads of the pool's mixed sample show the variant
#
# All are tables over the true count, so every decoder that works on tables takes them.


@dataclass(frozen=True)
class PositiveNegative:
    """A pool reports 1 (positive) or 0 (negative); positives hide in large pools.

    A pool of n items, c > 0 of them defective, is positive with probability

        1 - specificity + (sensitivity + specificity - 1) (c / n)^dilution,

    one without defectives with probability 1 - specificity. `dilution` is that of Hwang (1976, Group testing with a
    dilution effect, Biometrika 63, 671-673), from 0 (none) to 1 (a pool is as if one of its items were tested): his
    sensitivity p / (1 - (1 - p)^(n^dilution)) is (1 / n)^dilution for a rare defective, as it is here for c = 1.

    Example:
        >>> import torch
        >>> noise = PositiveNegative(sensitivity=0.9, specificity=0.99, dilution=0.1)
        >>> one, count, size = torch.tensor([[1.0, 1.0, 1.0], [0.0, 1.0, 8.0], [8.0, 8.0, 8.0]], dtype=torch.float64)
        >>> noise.log_prob(one, count, size).exp()
        tensor([0.0100, 0.7329, 0.9000], dtype=torch.float64)
    """

    sensitivity: float = 1.0  # of a pool whose items are all defective
    specificity: float = 1.0
    dilution: float = 0.0

    def __post_init__(self) -> None:
        for name in ("sensitivity", "specificity", "dilution"):
            object.__setattr__(self, name, fraction(name, getattr(self, name)))
        if self.sensitivity + self.specificity < 1:
            raise ValueError(
                f"sensitivity={self.sensitivity} and specificity={self.specificity} are not valid: a pool with "
                "defectives would be positive less often than one without; give two that sum to 1 or more."
            )

    @property
    def integer(self) -> bool:
        """Reports are 0 or 1."""
        return True

    @property
    def reports(self) -> Reports:
        """Positive or negative."""
        words = {0.0: "negative", 1.0: "positive"}
        return Reports("results", counts=False, words=words, remedy="write 1 for positive and 0 for negative")

    def usual_report(self, counts: Numbers, sizes: Numbers) -> Numbers:
        """Positive where a pool has defectives, unless the test is never positive, or always."""
        rate = self._positive(counts, sizes)
        return (((counts > 0) & (rate > 0)) | (rate == 1)).to(torch.float64)

    def reach(self, size: int, tail: float) -> float:
        """As far as the words are from the count: a full pool may report 0."""
        return float(max(size, 1))

    def sample(
        self, counts: Float64[Tensor, "instances pools"], sizes: Float64[Tensor, " pools"], *, generator: Generator
    ) -> Float64[Tensor, "instances pools"]:
        """Draw which pools are positive."""
        draws = torch.rand(counts.shape, dtype=torch.float64, generator=generator, device=generator.device)
        return (draws < self._positive(counts, sizes)).to(torch.float64)

    def log_prob(self, y: Numbers, counts: Numbers, sizes: Numbers) -> Numbers:
        """The log probability of a positive or a negative; -inf of anything else."""
        positive = self._positive(counts, sizes)
        negative = torch.log1p(-positive)
        return torch.where(y == 1, positive.log(), torch.where(y == 0, negative, -inf))

    def _positive(self, counts: Tensor, sizes: Tensor) -> Tensor:
        false = 1 - self.specificity
        share = _defective_share(counts, sizes)
        seen = torch.where(counts > 0, share**self.dilution, 0.0)
        # Exactly 1 minus specificity, and exactly the sensitivity, at the two ends.
        return torch.where(seen == 1, self.sensitivity, false + (self.sensitivity - false) * seen)


@dataclass(frozen=True)
class Gaussian:
    """A real number: the count plus a Gaussian error, whose spread may grow with the count.

    The standard deviation at count c is sqrt(sigma^2 + (growth c)^2), an absolute and a relative error together (Rocke
    and Lorenzato 1995, A two-component model for measurement error in analytical chemistry, Technometrics 37, 176-184).

    Example:
        >>> import torch
        >>> noise = Gaussian(sigma=0.3, growth=0.1)  # 0.3 either way, and 10 % of the count
        >>> noise.log_prob(*torch.tensor([[4.5], [4.0], [9.0]], dtype=torch.float64)).exp()
        tensor([0.4839], dtype=torch.float64)
    """

    sigma: float
    growth: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", positive("sigma", self.sigma))
        if self.growth != 0:
            object.__setattr__(self, "growth", positive("growth", self.growth))

    @property
    def integer(self) -> bool:
        """Reports are any real numbers, and `log_prob` is of a density."""
        return False

    def reach(self, size: int, tail: float) -> float:
        """Where both tails of a full pool's Gaussian end."""
        return -float(self._spread(torch.tensor(float(size), dtype=torch.float64))) * NormalDist().inv_cdf(tail / 2)

    def sample(
        self, counts: Float64[Tensor, "instances pools"], sizes: Float64[Tensor, " pools"], *, generator: Generator
    ) -> Float64[Tensor, "instances pools"]:
        """Add the error."""
        error = torch.randn(counts.shape, dtype=torch.float64, generator=generator, device=generator.device)
        return counts + self._spread(counts) * error

    def log_prob(self, y: Numbers, counts: Numbers, sizes: Numbers) -> Numbers:
        """The log density."""
        spread = self._spread(counts)
        density = -0.5 * ((y - counts) / spread).square() - spread.log() - 0.5 * log(2 * pi)
        return density + torch.zeros_like(sizes)

    def _spread(self, counts: Tensor) -> Tensor:
        return torch.hypot(torch.full_like(counts, self.sigma), self.growth * counts)


@dataclass(frozen=True)
class Reads:
    """Pooled sequencing: how many of `depth` reads of a pool's mixed sample show the variant that defectives carry.

    A read comes from each item alike and is wrong with probability `error`, so their number is binomial with rate
    (1 - error) c / n + error (1 - c / n) in a pool of n items, c of them defective.

    Example:
        >>> import torch
        >>> noise = Reads(depth=100, error=0.01)
        >>> noise.log_prob(*torch.tensor([[12.0], [1.0], [8.0]], dtype=torch.float64)).exp()
        tensor([0.1137], dtype=torch.float64)
    """

    depth: int
    error: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", whole("depth", self.depth, least=1))
        object.__setattr__(self, "error", fraction("error", self.error))
        if self.error >= 0.5:
            raise ValueError(f"error={self.error} is not valid: give a rate below 0.5, or reads mean their opposite.")

    @property
    def integer(self) -> bool:
        """Reports are numbers of reads."""
        return True

    @property
    def reports(self) -> Reports:
        """Numbers of reads, which are near the usual number and seldom equal to it."""
        remedy = f"write a number of reads, from 0 to {self.depth}"
        return Reports("results", counts=False, exact=False, unit="reads", remedy=remedy)

    def usual_report(self, counts: Numbers, sizes: Numbers) -> Numbers:
        """The mean number of reads, rounded."""
        return (self.depth * self._rate(counts, sizes)).round()

    def reach(self, size: int, tail: float) -> float:
        """As far as a number of reads is from the count."""
        return float(max(self.depth, size))

    def sample(
        self, counts: Float64[Tensor, "instances pools"], sizes: Float64[Tensor, " pools"], *, generator: Generator
    ) -> Float64[Tensor, "instances pools"]:
        """Draw the reads."""
        rate = self._rate(counts, sizes)
        return torch.binomial(torch.full_like(rate, self.depth), rate, generator=generator)

    def log_prob(self, y: Numbers, counts: Numbers, sizes: Numbers) -> Numbers:
        """The binomial log probability."""
        rate, possible = self._rate(counts, sizes), self._possible(y)
        reads = torch.where(possible, y, 0.0)
        others = self.depth - reads
        whole_depth = torch.lgamma(torch.tensor(self.depth + 1.0, dtype=torch.float64))
        sets = whole_depth.to(y.device) - torch.lgamma(reads + 1) - torch.lgamma(others + 1)
        value = sets + torch.xlogy(reads, rate) + torch.special.xlog1py(others, -rate)
        return torch.where(possible, value, -inf)

    def sample_arbitrary(self, sizes: Tensor, shape: torch.Size, *, generator: Generator) -> Tensor:
        """Any number of reads: a pool has far more reads than items."""
        draws = torch.rand(shape, dtype=torch.float64, generator=generator, device=generator.device)
        return (draws * (self.depth + 1)).floor()

    def log_arbitrary(self, y: Numbers, sizes: Numbers) -> Numbers:
        """The same for every number of reads."""
        return torch.where(self._possible(y), -log(self.depth + 1.0), -inf).to(torch.float64)

    def _possible(self, y: Tensor) -> Tensor:
        return (y >= 0) & (y <= self.depth) & (y == y.floor())

    def _rate(self, counts: Tensor, sizes: Tensor) -> Tensor:
        share = _defective_share(counts, sizes)
        return (1 - self.error) * share + self.error * (1 - share)


def _defective_share(counts: Tensor, sizes: Tensor) -> Tensor:
    """The share of a pool's items that is defective, also for counts beyond the pool's size."""
    return (counts / sizes.clamp(min=1)).clamp(max=1)
