"""Baselines for loads: compressed sensing on the totals that pools report, after COMP, as laboratories publish it.

Every decoder here first turns reports into totals (`estimated_totals`), then does as COMP does (Chan, Che, Jaggi and
Saligrama 2011): an item in a pool where nothing was detected is negative. The other items are *open*; their amounts x
are estimated from the totals t of the detected pools, t = A x + error, by a method of compressed sensing:

    CompNNLS     non-negative least squares (Lawson and Hanson 1974)
    CompNNOMP    non-negative orthogonal matching pursuit (Bruckstein, Elad and Zibulevsky 2008)
    CompSBL      sparse Bayesian learning (Wipf and Rao 2004)
    CompLasso    non-negative LASSO (Tibshirani 1996), then least squares on the items it keeps
    LoadGAMP     generalised approximate message passing (Rangan 2011) with the prior of the loads

The combination of COMP with these methods is that of Tapestry (Ghosh et al. 2021, A compressed sensing approach to
pooled RT-PCR testing for COVID-19 detection, IEEE Open Journal of Signal Processing 2, 248-264), with two additions
without which the baselines are much weaker than they need be:

- Weights. The error of a cycle is relative: the error of a total of 10^6 may be larger than a total of 10^3. Each
  pool's equation is divided by its standard error sd(t), which is sigma log(10) / |slope| times t for cycles, and the
  hypotenuse of the absolute error and the relative error times t for amounts. All errors are 1 then, and known.
- A threshold in standard errors. Estimated amounts of negative items are seldom exactly 0. An item is called where its
  amount is at least `least` times its standard error, which is 1 / sqrt(sum over its pools of 1 / sd(t)^2), the other
  items' amounts taken as known. `least` of nearly 0 calls every amount above 0.

Missing reports are left out. Items without any report are not called. `scores` are amounts in standard errors, except
those of LoadGAMP, which are probabilities.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from qgt.arguments import fraction, positive, whole
from qgt.decoders.contract import BoundDecoder, refuse_unsupported
from qgt.decoders.results import Decoded, Evidence, Floats, Status
from qgt.model.loads import LN10, Amount, CycleThreshold, Loads
from qgt.model.problem import Problem

DETECTED = 3.0  # standard deviations above an empty pool's report, from which on something was detected
SMALLEST, LARGEST = 1e-280, 1e280  # totals beyond are those of absurd reports, and their quotients would overflow
NUMBERS_AT_A_TIME = 2**24  # of all matrices of the instances that are decoded at a time
TINY = 1e-12
# Of LoadGAMP:
AMOUNTS = 160  # nodes of an item's amount, even in its logarithm
DENSITY = 1025  # nodes of the prior's density, between which it is interpolated
ABOVE = 5.0  # standard errors above the smallest total of its pools, where the nodes of an item's amount end
TOTALS, REACH = 49, 6.0  # nodes of a pool's total, and how many standard errors from the estimate they end
SETTLED_CHANGE = 1e-3  # largest change of a probability, or of an amount relative to its largest, when settled


@dataclass(frozen=True)
class CompNNLS:
    """COMP, then non-negative least squares, weighted by the pools' standard errors.

    An open item is called where its amount is at least `least` standard errors.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(
        ...     qgt.Design.from_rows(["1100", "0110", "0011"]), qgt.Loads(rate=0.2, mean=3.0, sd=1.0), qgt.Amount(relative=0.1)
        ... )
        >>> CompNNLS().bind(problem)(torch.tensor([[0.0, 900.0, 800.0]])).amounts.round()
        tensor([[  0.,   0., 844.,   0.]], dtype=torch.float64)
    """  # noqa: E501 - an example in one line

    least: float = 3.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "least", positive("least", self.least))

    def supports(self, problem: Problem) -> str | None:
        """Problems with loads and a noise that gives back a total."""
        return _without_totals(problem)

    def bind(self, problem: Problem) -> BoundDecoder:
        """Nothing to prepare."""
        return _bound(self, problem, _least_squares, self.least)


@dataclass(frozen=True)
class CompNNOMP:
    """COMP, then non-negative orthogonal matching pursuit, which takes one item after another.

    The item whose pools agree best with what is not yet explained comes next; then all amounts are fitted again by
    non-negative least squares. The pursuit stops where the squared error, in standard errors, is below the `quantile` of
    chi-squared with as many degrees of freedom as pools were detected: the error that the true items would leave.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(
        ...     qgt.Design.from_rows(["1100", "0110", "0011"]), qgt.Loads(rate=0.2, mean=3.0, sd=1.0), qgt.Amount(relative=0.1)
        ... )
        >>> CompNNOMP().bind(problem)(torch.tensor([[0.0, 900.0, 800.0]])).amounts.round()
        tensor([[  0.,   0., 844.,   0.]], dtype=torch.float64)
    """  # noqa: E501 - an example in one line

    least: float = 3.0
    quantile: float = 0.95

    def __post_init__(self) -> None:
        object.__setattr__(self, "least", positive("least", self.least))
        object.__setattr__(self, "quantile", fraction("quantile", self.quantile))

    def supports(self, problem: Problem) -> str | None:
        """Problems with loads and a noise that gives back a total."""
        return _without_totals(problem)

    def bind(self, problem: Problem) -> BoundDecoder:
        """Nothing to prepare."""

        def solve(plates: _Plates) -> _Solved:
            return _each(plates, lambda matrix, report: _pursuit(matrix, report, self.quantile))

        return _bound(self, problem, solve, self.least)


@dataclass(frozen=True)
class CompSBL:
    """COMP, then sparse Bayesian learning by EM: amounts are normal with variances of their own, which are learned.

    Each iteration (Wipf and Rao 2004, equations 17 to 19), with all errors scaled to 1,

        Sigma = (A^T A + diag(1 / gamma))^-1        mu = Sigma A^T t        gamma = mu^2 + diag(Sigma),

    until no mu changes by more than 1e-3 standard errors, or `iterations` have passed. The noise is known from the model,
    and not learned. Variances start at the square of the smallest total of the item's pools, the most that it may have.
    Amounts below 0 are set to 0.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(
        ...     qgt.Design.from_rows(["1100", "0110", "0011"]), qgt.Loads(rate=0.2, mean=3.0, sd=1.0), qgt.Amount(relative=0.1)
        ... )
        >>> CompSBL().bind(problem)(torch.tensor([[0.0, 900.0, 800.0]])).x
        tensor([[0, 0, 1, 0]], dtype=torch.uint8)
    """  # noqa: E501 - an example in one line

    least: float = 3.0
    iterations: int = 1000

    def __post_init__(self) -> None:
        object.__setattr__(self, "least", positive("least", self.least))
        object.__setattr__(self, "iterations", whole("iterations", self.iterations, least=1))

    def supports(self, problem: Problem) -> str | None:
        """Problems with loads and a noise that gives back a total."""
        return _without_totals(problem)

    def bind(self, problem: Problem) -> BoundDecoder:
        """Nothing to prepare."""
        return _bound(self, problem, lambda plates: _learned(plates, self.iterations), self.least)


@dataclass(frozen=True)
class CompLasso:
    """COMP, then the non-negative LASSO, then non-negative least squares on the items that the LASSO keeps.

    The penalty is on amounts in standard errors, and its weight is `penalty` times sqrt(2 log n) for n open items: no
    correlation of n columns with errors of standard deviation 1 is likely to exceed sqrt(2 log n) (Donoho and Johnstone
    1994). The LASSO makes amounts too small by its penalty; the second step undoes that (Belloni and Chernozhukov 2013).

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(
        ...     qgt.Design.from_rows(["1100", "0110", "0011"]), qgt.Loads(rate=0.2, mean=3.0, sd=1.0), qgt.Amount(relative=0.1)
        ... )
        >>> CompLasso().bind(problem)(torch.tensor([[0.0, 900.0, 800.0]])).x
        tensor([[0, 0, 1, 0]], dtype=torch.uint8)
    """  # noqa: E501 - an example in one line

    least: float = 3.0
    penalty: float = 1.0
    iterations: int = 3000

    def __post_init__(self) -> None:
        for name in ("least", "penalty"):
            object.__setattr__(self, name, positive(name, getattr(self, name)))
        object.__setattr__(self, "iterations", whole("iterations", self.iterations, least=1))

    def supports(self, problem: Problem) -> str | None:
        """Problems with loads and a noise that gives back a total."""
        return _without_totals(problem)

    def bind(self, problem: Problem) -> BoundDecoder:
        """Nothing to prepare."""

        def solve(plates: _Plates) -> _Solved:
            kept = _shrunk(plates, self.penalty, self.iterations)
            refitted = _least_squares(plates._replace(matrix=plates.matrix * (kept.scaled > 0)[:, None, :]))
            return _Solved(refitted.scaled, kept.settled & refitted.settled)

        return _bound(self, problem, solve, self.least)


@dataclass(frozen=True)
class LoadGAMP:
    """COMP, then generalised approximate message passing with the prior of the loads; `scores` are probabilities.

    An item is 0, or positive with an amount from the prior's law, by quadrature over its logarithm; amounts above the
    smallest total of the item's pools are as improbable as that total's error makes them. A pool's total follows from its
    report by quadrature of the noise. An item is called where its probability is above one half.

    Messages of approximate message passing are normal, and meant for items in hundreds of pools. Where an item is in
    three pools and amounts differ by 27 doublings, both assumptions fail: of 100 plates of 105 items in 45 pools 88, 59
    and 31 are right with 5, 8 and 10 positives, against 99, 81 and 56 of `CompSBL`, and only 77, 46 and 24 settle
    (`benchmarks/load_baselines.py`). The damping and this soft bound were chosen on the same plates; a sharp bound gave 10 or 3 instead of 31.
    `damping` is the share of each new message that is taken.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(
        ...     qgt.Design.from_rows(["1100", "0110", "0011"]), qgt.Loads(rate=0.2, mean=3.0, sd=1.0), qgt.Amount(relative=0.1)
        ... )
        >>> LoadGAMP().bind(problem)(torch.tensor([[0.0, 900.0, 800.0]])).x
        tensor([[0, 0, 1, 0]], dtype=torch.uint8)
    """  # noqa: E501 - an example in one line

    damping: float = 0.7
    iterations: int = 150

    def __post_init__(self) -> None:
        object.__setattr__(self, "damping", fraction("damping", self.damping))
        object.__setattr__(self, "iterations", whole("iterations", self.iterations, least=1))

    def supports(self, problem: Problem) -> str | None:
        """Problems with loads and a noise that gives back a total."""
        return _without_totals(problem)

    def bind(self, problem: Problem) -> BoundDecoder:
        """Look up the rates."""
        refuse_unsupported(self, problem)
        loads = problem.loads
        assert loads is not None
        rate = loads.statuses().marginals(problem.items).clamp(TINY, 1 - TINY)
        density = _Density.of(loads)

        def decoded(y: Tensor) -> Decoded:
            plates = _Plates.of(problem, y)
            grid = _Grid.of(density, rate.to(y.device)[plates.items], plates)
            x, probability, count, settled = _passed(self, plates, grid, _Channel.of(problem, plates, y))
            probability = probability.nan_to_num(0.0) * plates.open
            called = probability > 0.5
            amounts = torch.where(called, plates.scale * x / probability, 0.0)
            evidence = Evidence(iterations=count)
            return _result(plates, called, settled, probability, amounts, evidence)

        numbers = problem.items * AMOUNTS + problem.pools * (problem.items + TOTALS)
        return BoundDecoder(problem, lambda y, _: _in_parts(y, numbers, decoded), takes_missing=True)


# --- totals and screening --------------------------------------------------------------------------------------------


class Totals(NamedTuple):
    """What reports say of totals."""

    total: Float64[Tensor, "instances pools"]  # 0 where nothing was detected, NaN where missing
    error: Float64[Tensor, "instances pools"]  # the standard error, where something was detected


def estimated_totals(
    noise: CycleThreshold | Amount, y: Float64[Tensor, "instances pools"], sizes: Float64[Tensor, " pools"]
) -> Totals:
    """The total amount of each pool by its report alone: background subtracted, dilution undone.

    Nothing was detected where a report says so, and where it is less than three standard deviations above the report of
    an empty pool: of a background, or of an absolute error.

    Example:
        >>> import torch
        >>> y, sizes = torch.tensor([[27.0, torch.inf, torch.nan]]).double(), torch.full((3,), 8.0).double()
        >>> estimated_totals(CycleThreshold(sigma=0.25, intercept=37.0), y, sizes).total.round()
        tensor([[1024.,    0.,   nan]], dtype=torch.float64)
    """
    own, error = _own_cycles(noise, y) if isinstance(noise, CycleThreshold) else _own_amounts(noise, y)
    whole_pool = sizes.clamp(min=1) ** noise.dilution
    seen = own > 0
    total = torch.where(seen, own * whole_pool, 0.0).clamp(max=LARGEST)
    total = torch.where(seen, total.clamp(min=SMALLEST), total)
    return Totals(torch.where(y.isnan(), y, total), torch.where(seen, error * whole_pool, 0.0).clamp(SMALLEST, LARGEST))


def _own_cycles(noise: CycleThreshold, y: Tensor) -> tuple[Tensor, Tensor]:
    """What is in the tube beyond the background, and its standard error."""
    both = 10.0 ** ((y - noise.intercept) / noise.slope).clamp(-290, 290)  # with the background
    spread = torch.full_like(y, noise.sigma)
    seen = y < math.inf
    if noise.background:
        empty = noise.intercept + noise.slope * math.log10(noise.background)
        seen = seen & (y < empty - DETECTED * math.hypot(noise.sigma, noise.background_sigma))
        spread = torch.hypot(spread, noise.background_sigma * noise.background / both)
    return torch.where(seen, both - noise.background, 0.0), both * spread * (LN10 / -noise.slope)


def _own_amounts(noise: Amount, y: Tensor) -> tuple[Tensor, Tensor]:
    error = torch.hypot(torch.full_like(y, noise.absolute), noise.relative * y)
    return torch.where(y > DETECTED * noise.absolute, y, 0.0), error


def _without_totals(problem: Problem) -> str | None:
    """None if items have loads and each report gives back a total, else the reason why a baseline cannot decode."""
    if problem.loads is None:
        return "its items have no amounts; use Certified, which proves its answers."
    if not isinstance(problem.noise, CycleThreshold | Amount):
        kind = type(problem.noise).__name__
        return f"its noise {kind} does not give back totals as CycleThreshold and Amount do; use LoadPosterior."
    return None


class _Plates(NamedTuple):
    """The open items of each instance and their equations, scaled so that errors and the largest amounts are 1.

    Items come in places, the open ones first, because instances have different numbers of open items. With amounts
    scale * v the equations are matrix @ v = report + errors of standard deviation 1. The rows of pools that are
    missing, or where nothing was detected, are 0.
    """

    design_items: int
    items: Tensor  # (instances, places): the item in each place
    open: Tensor  # (instances, places), bool
    scale: Tensor  # (instances, places): the smallest total of the item's pools, 1 where not open
    matrix: Tensor  # (instances, pools, places)
    report: Tensor  # (instances, pools)
    totals: Totals
    detected: Tensor  # (instances, pools), bool

    @classmethod
    def of(cls, problem: Problem, y: Tensor) -> "_Plates":
        design, noise = problem.design, problem.noise
        assert isinstance(noise, CycleThreshold | Amount)  # as `supports` has checked
        totals = estimated_totals(noise, y, design.pool_sizes.to(y.device, torch.float64))
        detected = totals.total > 0
        negative = (totals.total == 0).to(torch.float64)
        is_open = (design.spread(negative) == 0) & (design.spread(detected.to(torch.float64)) > 0)
        places = max(1, int(is_open.sum(1).max()) if len(y) else 1)
        items = (~is_open).to(torch.uint8).argsort(dim=1, stable=True)[:, :places]
        is_open = is_open.gather(1, items)
        inside = design.matrix.T.to(y.device)[items] > 0  # (instances, places, pools)
        inside = inside & detected[:, None, :] & is_open[:, :, None]
        scale = torch.where(inside, totals.total[:, None, :], math.inf).amin(2)
        scale = torch.where(is_open, scale, 1.0)
        matrix = torch.where(inside, scale[:, :, None] / totals.error[:, None, :], 0.0).transpose(1, 2)
        report = torch.where(detected, totals.total / totals.error, 0.0)
        return cls(problem.items, items, is_open, scale, matrix.contiguous(), report, totals, detected)

    def spread_out(self, values: Tensor) -> Tensor:
        """Values of places as values of items, 0 for items that are not open."""
        found = torch.zeros(len(values), self.design_items, dtype=values.dtype, device=values.device)
        return found.scatter(1, self.items, torch.where(self.open, values, torch.zeros_like(values)))


class _Solved(NamedTuple):
    scaled: Tensor  # (instances, places): amounts in units of `scale`
    settled: Tensor  # (instances,), bool


def _bound(
    decoder: CompNNLS | CompNNOMP | CompSBL | CompLasso,
    problem: Problem,
    solve: Callable[[_Plates], _Solved],
    least: float,
) -> BoundDecoder:
    """Screen, solve, and call what is at least so many standard errors above 0."""
    refuse_unsupported(decoder, problem)

    def decoded(y: Tensor) -> Decoded:
        plates = _Plates.of(problem, y)
        scaled, settled = solve(plates)
        scaled = scaled.nan_to_num(0.0).clamp(min=0.0)
        errors = scaled * plates.matrix.norm(dim=1)  # amounts in standard errors
        called = plates.open & (errors >= least)
        return _result(plates, called, settled, errors, torch.where(called, plates.scale * scaled, 0.0))

    numbers = problem.items * (problem.items + problem.pools)
    return BoundDecoder(problem, lambda y, _: _in_parts(y, numbers, decoded), takes_missing=True)


def _in_parts(y: Tensor, numbers: int, decoded: Callable[[Tensor], Decoded]) -> Decoded:
    """The results of some instances at a time, each of which takes up to so many numbers."""
    rows = max(1, NUMBERS_AT_A_TIME // numbers)
    return Decoded.joined([decoded(part) for part in y.split(rows)] or [decoded(y)])


def _result(
    plates: _Plates,
    called: Tensor,
    settled: Tensor,
    scores: Tensor,
    amounts: Tensor,
    evidence: Evidence = Evidence(),  # noqa: B008 - frozen, and empty
) -> Decoded:
    status = torch.where(settled, int(Status.OK), int(Status.NOT_CONVERGED)).to(torch.uint8)
    x = plates.spread_out(called.to(torch.uint8))
    return Decoded(x, status, plates.spread_out(scores), evidence, amounts=plates.spread_out(amounts))


# --- least squares and matching pursuit: instance by instance, because each takes a fraction of a millisecond ---------


def _least_squares(plates: _Plates) -> _Solved:
    return _each(plates, _fitted)


def _each(plates: _Plates, solve: Callable[[Floats, Floats], Floats | None]) -> _Solved:
    """A function of one instance's matrix and report for all; None from it: it did not settle."""
    scaled, settled = (
        torch.zeros(plates.open.shape, dtype=torch.float64),
        torch.ones(len(plates.open), dtype=torch.bool),
    )
    matrix, report, is_open = plates.matrix.cpu().numpy(), plates.report.cpu().numpy(), plates.open.cpu()
    for i in range(len(report)):
        number = int(is_open[i].sum())
        if not number:
            continue
        found = solve(matrix[i, :, :number], report[i])
        settled[i] = found is not None
        if found is not None:
            scaled[i, :number] = torch.from_numpy(found)
    return _Solved(scaled.to(plates.matrix.device), settled.to(plates.matrix.device))


def _fitted(matrix: Floats, report: Floats) -> Floats | None:
    try:
        from scipy.optimize import nnls  # takes longer to import than all of this module

        return np.asarray(nnls(matrix, report)[0])
    except RuntimeError:  # too many iterations
        return None


def _pursuit(matrix: Floats, report: Floats, quantile: float) -> Floats | None:
    """Add the item that correlates most with the residual, fit, drop what got 0, until the residual is mere error."""
    from scipy.stats import chi2

    enough = float(chi2.ppf(quantile, np.count_nonzero(report)))
    norms = np.linalg.norm(matrix, axis=0)
    chosen, amounts, left = np.zeros(len(norms), dtype=bool), np.zeros(len(norms)), report
    while left @ left > enough and not chosen.all():
        agreement = np.where(chosen, -1.0, (matrix.T @ left) / np.maximum(norms, TINY))
        best = int(agreement.argmax())
        tried = chosen.copy()
        tried[best] = True
        found = _fitted(matrix[:, tried], report)
        if found is None:
            return None
        fitted = np.zeros(len(norms))
        fitted[tried] = found
        after = report - matrix @ fitted
        if agreement[best] <= 0 or not after @ after < (1 - TINY) * (left @ left):
            break  # nothing more can be explained
        chosen, amounts, left = fitted > 0, fitted, after
    return amounts


# --- sparse Bayesian learning and LASSO: all instances at once --------------------------------------------------------


def _learned(plates: _Plates, iterations: int) -> _Solved:
    """The posterior mean of the amounts when EM has settled."""
    matrix = plates.matrix
    gram, right = matrix.mT @ matrix, (matrix.mT @ plates.report[..., None])[..., 0]
    norms = matrix.norm(dim=1)
    one = torch.eye(gram.shape[1], dtype=torch.float64, device=gram.device)
    mean, settled = torch.zeros_like(right), torch.zeros(len(right), dtype=torch.bool, device=right.device)
    active = torch.arange(len(right), device=right.device)
    gamma = plates.open.to(torch.float64)
    for _ in range(iterations):
        if not len(active):
            break
        root = gamma.sqrt()
        # (G + 1 / gamma)^-1 in a form that gamma = 0 does not spoil.
        inner = one + root[:, :, None] * gram[active] * root[:, None, :]
        inverse = torch.cholesky_inverse(torch.linalg.cholesky_ex(inner).L)
        covariance = root[:, :, None] * inverse * root[:, None, :]
        after = (covariance @ right[active][..., None])[..., 0]
        done = ((after - mean[active]).abs() * norms[active]).amax(1) < 1e-3
        mean[active], settled[active] = after, done
        gamma = (after.square() + covariance.diagonal(dim1=1, dim2=2))[~done]
        active = active[~done]
    return _Solved(mean, settled)


def _shrunk(plates: _Plates, penalty: float, iterations: int) -> _Solved:
    """The non-negative LASSO by FISTA (Beck and Teboulle 2009), started again where a step goes back."""
    norms = plates.matrix.norm(dim=1)
    matrix = plates.matrix / norms.clamp(min=TINY)[:, None, :]
    gram, right = matrix.mT @ matrix, (matrix.mT @ plates.report[..., None])[..., 0]
    weight = penalty * (2 * plates.open.sum(1).clamp(min=2).to(torch.float64).log()).sqrt()[:, None]
    step = 1 / gram.abs().sum(2).amax(1).clamp(min=TINY)[:, None]  # no eigenvalue exceeds a row's sum
    before = ahead = torch.zeros_like(right)
    pace, settled = torch.ones_like(weight), torch.zeros(len(right), dtype=torch.bool, device=right.device)
    for _ in range(iterations):
        slope = (gram @ ahead[..., None])[..., 0] - right + weight
        after = torch.where(settled[:, None], before, (ahead - step * slope).clamp(min=0.0))
        settled = settled | ((after - before).abs().amax(1) < 1e-9 * (1 + after.amax(1)))
        if bool(settled.all()):
            break
        back = ((ahead - after) * (after - before)).sum(1, keepdim=True) > 0
        pace = torch.where(back, 1.0, pace)
        faster = (1 + (1 + 4 * pace.square()).sqrt()) / 2
        before, ahead, pace = after, after + (pace - 1) / faster * (after - before), faster
    return _Solved(after / norms.clamp(min=TINY), settled)


# --- approximate message passing --------------------------------------------------------------------------------------


class _Density(NamedTuple):
    """The log density of a positive item's log10 amount, at even steps: a law of many measured values is slow."""

    low: float
    high: float
    values: Tensor  # (steps,)

    @classmethod
    def of(cls, loads: Loads) -> "_Density":
        low, high = loads.span
        return cls(low, high, loads.log_density(torch.linspace(low, high, DENSITY, dtype=torch.float64)))

    def at(self, logs: Tensor) -> Tensor:
        """The log density between the steps, inside the span."""
        where = ((logs - self.low) * ((DENSITY - 1) / (self.high - self.low))).clamp(0, DENSITY - 1)
        left = where.floor().clamp(max=DENSITY - 2)
        values, index = self.values.to(logs.device), left.to(torch.int64)
        return torch.lerp(values[index], values[index + 1], where - left)


class _Grid(NamedTuple):
    """An item's amounts: normal kernels at nodes that are even in the logarithm, with the logs of their weights."""

    nodes: Tensor  # (instances, places, nodes), in units of `scale`
    width: Tensor  # (instances, places, nodes): standard deviations of the kernels
    weight: Tensor  # (instances, places, nodes)
    zero: Tensor  # (instances, places): the log of the probability of 0

    @classmethod
    def of(cls, density: _Density, rate: Tensor, plates: _Plates) -> "_Grid":
        """The prior up to the smallest total of the item's pools and a few of its standard errors."""
        low, high, _ = density
        largest = plates.matrix.amax(1).clamp(min=1.0)  # the smallest total in its own standard errors
        top = (plates.scale.log10() + ABOVE / (largest * LN10)).clamp(low, high)
        part = torch.linspace(0.0, 1.0, AMOUNTS, dtype=torch.float64, device=rate.device)
        logs = low + (top - low)[..., None] * part
        step = ((top - low) / (AMOUNTS - 1)).clamp(min=TINY)[..., None]
        relative = (logs - plates.scale.log10()[..., None]).clamp(-290, 290)
        above = (relative.clamp(min=0.0) * LN10 * largest[..., None]).square() / 2  # the total would be too small
        weight = density.at(logs) + step.log() - above + rate.log()[..., None]
        nodes = 10.0**relative
        return cls(nodes, nodes * step * LN10, weight, torch.log1p(-rate))

    def posterior(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean and variance of the amount, and the probability that it is not 0, given a normal message."""
        x, square, weight = _products(mean, variance, self.nodes, self.width, self.weight)
        zero = self.zero - 0.5 * mean.square() / variance - 0.5 * variance.log()
        odds = torch.cat([zero[..., None], weight], -1).softmax(-1)[..., 1:]
        first = (odds * x).sum(-1)
        return first, ((odds * square).sum(-1) - first.square()).clamp(min=TINY), odds.sum(-1)


class _Channel(NamedTuple):
    """A pool's total: kernels around its estimate, with the log likelihood of the report."""

    nodes: Tensor  # (instances, pools, nodes), in standard errors
    width: Tensor
    weight: Tensor

    @classmethod
    def of(cls, problem: Problem, plates: _Plates, y: Tensor) -> "_Channel":
        total, error = (part[..., None] for part in plates.totals)
        total = torch.where(plates.detected[..., None], total, 1.0)
        where = torch.linspace(-REACH, REACH, TOTALS, dtype=torch.float64, device=y.device)
        relative = (error / total).clamp(TINY, 1.0)
        nodes = total * (relative * where).exp()  # (instances, pools, nodes)
        sizes = problem.design.pool_sizes.to(y.device, torch.float64)[:, None]
        filled = torch.where(plates.detected, y, 0.0)[..., None]
        weight = problem.noise.log_prob(filled.expand_as(nodes), nodes, sizes) + nodes.log()
        width = nodes * relative * (2 * REACH / (TOTALS - 1))
        return cls(nodes / error, width / error, torch.where(plates.detected[..., None], weight, 0.0))

    def posterior(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of the total, given a normal message."""
        z, square, weight = _products(mean, variance, self.nodes, self.width, self.weight)
        share = weight.softmax(-1)
        first = (share * z).sum(-1)
        return first, ((share * square).sum(-1) - first.square()).clamp(min=0.0)


def _products(
    mean: Tensor, variance: Tensor, nodes: Tensor, width: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Kernels times a normal message: their means, mean squares and log weights."""
    mean, variance, kernel = mean[..., None], variance[..., None], width.square()
    both = variance + kernel
    first = (nodes * variance + mean * kernel) / both
    square = first.square() + variance * kernel / both
    return first, square, weight - 0.5 * (mean - nodes).square() / both - 0.5 * both.log()


def _passed(config: LoadGAMP, plates: _Plates, grid: _Grid, channel: _Channel) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Amounts, probabilities, iterations and whether each instance settled."""
    take, matrix, square = config.damping, plates.matrix, plates.matrix.square()
    wide = torch.full_like(plates.scale, 1e12)  # no message yet
    x, spread, probability = grid.posterior(torch.zeros_like(wide), wide)
    s = torch.zeros_like(plates.report)
    settled = torch.zeros(len(s), dtype=torch.bool, device=s.device)
    count = torch.zeros(len(s), dtype=torch.int64, device=s.device)
    for _ in range(config.iterations):
        v_p = _times(square, spread).clamp(min=TINY)
        p = _times(matrix, x) - v_p * s
        z, v_z = channel.posterior(p, v_p)
        s = torch.where(plates.detected, take * (z - p) / v_p + (1 - take) * s, 0.0)
        v_s = torch.where(plates.detected, ((1 - v_z / v_p) / v_p).clamp(min=TINY), 0.0)
        v_r = 1 / _times(square.mT, v_s).clamp(min=TINY)
        after, v_x, sure = grid.posterior(x + v_r * _times(matrix.mT, s), v_r)
        keep = settled[:, None]  # a settled instance stays as it is, whatever others do
        change = torch.maximum((sure - probability).abs(), (after - x).abs()).amax(1)
        x = torch.where(keep, x, take * after + (1 - take) * x)
        spread = torch.where(keep, spread, take * v_x + (1 - take) * spread)
        probability, count = torch.where(keep, probability, sure), count + ~settled
        settled = settled | (change < SETTLED_CHANGE)
        if bool(settled.all()):
            break
    return x.nan_to_num(0.0), probability, count, settled


def _times(matrix: Tensor, vector: Tensor) -> Tensor:
    return (matrix @ vector[..., None])[..., 0]
