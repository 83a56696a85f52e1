"""Approximate message passing for counts: Bayes AMP of Tan, Pascual Cobo, Scarlett and Venkataramanan (2024).

With alpha the density of the design and c = sqrt(M alpha (1 - alpha)), centre and scale A~ = (A - alpha) / c and
y~ = (y - alpha K) / c; K, the number of defectives, enters here. Then, from x = pi and z = y~ - A~ x,

    tau^2 = ||z||^2 / M,     s = x + A~^T z,     x <- f(s),     z <- y~ - A~ x + z sum_j f'(s_j) / M,

f(s) = sigmoid(logit(pi) + (s - 1/2) / tau^2) being the posterior mean of a Bernoulli(pi) item seen in Gaussian noise of
variance tau^2 (floored at 1e-3 inside f), until tau changes by less than 3e-5 of itself. Noise enters through the
measured tau alone. All instances share two products with A~ an iteration; those that have settled leave the batch.

Without K, the decoder tries each K that the sum of the counts makes plausible, calls the K - 1, K and K + 1 highest
items of each run, and keeps the calls with the highest exact posterior.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from qgt.arguments import fraction, whole
from qgt.decoders.contract import LEAST_PART, BoundDecoder, no_values, refuse_unsupported
from qgt.decoders.results import Decoded, Evidence, Spans, Status
from qgt.model.design import Design
from qgt.model.noise import reports_of
from qgt.model.prior import Prior
from qgt.model.problem import Problem

# A design as a matrix of numbers: slope * A + offset, multiplied with in time in proportion to the transfers.
#
# Message passing works on the design less its mean, which has no zeros. But the mean is one number for all entries,
# so that it adds the same to every pool: slope * (A x) + offset * sum(x). A dense design is written down as it is,
# because one matrix product is faster than sums over long lists.


@dataclass(frozen=True, eq=False)
class Affine:
    """The matrix slope * A + offset of a design A.

    Example:
        >>> import torch, qgt
        >>> matrix = Affine(qgt.Design.from_rows(["110", "011"]), 2.0, -1.0)
        >>> matrix.times(torch.tensor([[1.0, 0.0, 3.0]], dtype=torch.float64))
        tensor([[-2.,  2.]], dtype=torch.float64)
    """

    design: Design
    slope: float
    offset: float

    def times(self, x: Tensor) -> Tensor:
        """The matrix times every row of x: (rows, items) to (rows, pools)."""
        if self.design.sparse:
            return self.slope * self.design.count(x) + self.offset * x.sum(1, keepdim=True)
        return x @ self._dense_on(x.device).T

    def transposed_times(self, z: Tensor) -> Tensor:
        """Its transpose times every row of z: (rows, pools) to (rows, items)."""
        if self.design.sparse:
            return self.slope * self.design.spread(z) + self.offset * z.sum(1, keepdim=True)
        return z @ self._dense_on(z.device)

    def add_transposed_times(self, x: Tensor, z: Tensor) -> Tensor:
        """The same added to x, in place."""
        return x.add_(self.transposed_times(z)) if self.design.sparse else x.addmm_(z, self._dense_on(z.device))

    @cached_property
    def _copies(self) -> dict[torch.device, Tensor]:
        """The matrix on the devices that it was used on."""
        return {}

    def _dense_on(self, device: torch.device) -> Tensor:
        if device not in self._copies:
            matrix = self.design.matrix.to(torch.float64) * self.slope + self.offset
            self._copies[device] = matrix.to(device)
        return self._copies[device]


# The decoder.

FLOOR = 1e-3  # of tau^2, inside the denoiser only
TOLERANCE = 1e-9  # of the squared relative change of tau
EARLY = 9  # iterations by which nearly all runs settle
# Runs at a time, and their estimates: these stay in a CPU's cache, and memory does not grow with the batch.
INSTANCES_AT_A_TIME, MARGINALS_AT_A_TIME = 2**12, 2**24


@dataclass(frozen=True)
class AMP:
    """Bayes AMP: `decode(y, defectives=K)` where K is known, else scanning K and keeping the best posterior.

    `density` centres the design (None: its own mean); `threshold` turns estimates into calls where K is given.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> problem = qgt.Problem(qgt.Design.bernoulli(pools=40, items=100, generator=g), qgt.Bernoulli(0.06))
        >>> x, y = problem.simulate(100, generator=g)
        >>> qgt.score(x, AMP().bind(problem)(y).x).success_rate > 0.9
        True
    """

    density: float | None = None
    threshold: float = 0.5
    iterations: int = 200

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", fraction("threshold", self.threshold))
        object.__setattr__(self, "iterations", whole("iterations", self.iterations, least=1))
        if self.density is not None:
            object.__setattr__(self, "density", fraction("density", self.density))

    def supports(self, problem: Problem) -> str | None:
        """Any prior with a log probability, by which the answers of a scan are compared; reports that are counts."""
        if not reports_of(problem.noise).counts:
            return "its pools report no counts, and messages are sums of counts; GAMP takes any report."
        if reason := no_values(problem):
            return reason
        return None if isinstance(problem.prior, Prior) else "its prior can only be sampled and has no log probability."

    def bind(self, problem: Problem) -> BoundDecoder:
        """Centre and scale the design once."""
        refuse_unsupported(self, problem)
        entries = problem.pools * problem.items
        alpha = problem.design.transfers / entries if self.density is None else self.density
        scale = math.sqrt(problem.pools * alpha * (1 - alpha)) or 1.0  # all pools full or empty: nothing to tell apart
        centred = Affine(problem.design, 1 / scale, -alpha / scale)

        def estimate(y: Tensor, k: Tensor) -> "Estimate":
            signal = (y - alpha * k[:, None]) / scale
            return settle(centred, signal, k / problem.items, self.iterations)

        def decode(y: Tensor, defectives: Tensor | None) -> Decoded:
            if defectives is None:
                return _scan(problem, estimate, y)
            run = estimate(y, defectives.to(torch.float64))
            calls = (run.x >= self.threshold).to(torch.uint8)
            return Decoded(calls, _status(run), run.x, Evidence(iterations=run.iterations))

        return BoundDecoder(problem, decode, takes_defectives=True, least_part=LEAST_PART)


Estimator = Callable[[Tensor, Tensor], "Estimate"]


class Estimate(NamedTuple):
    """Where runs of AMP ended."""

    x: Float64[Tensor, "runs items"]
    tau: Float64[Tensor, " runs"]
    iterations: Int64[Tensor, " runs"]
    settled: Bool[Tensor, " runs"]


class Runs(NamedTuple):
    """Runs still going: which they are, and all that an iteration needs of them."""

    number: Tensor  # (runs,)
    x: Tensor  # (runs, items)
    z: Tensor  # (runs, pools)
    signal: Tensor
    odds: Tensor  # (runs, 1)
    tau: Tensor  # (runs,): of the last iteration


def settle(
    centred: Affine,
    signal: Float64[Tensor, "runs pools"],
    rate: Float64[Tensor, " runs"],
    iterations: int,
) -> Estimate:
    """Iterate every run until it settles or the iterations are spent.

    Most runs settle early, a cacheful at a time; the few that do not are gathered from all chunks and go on together.
    """
    result = _empty(len(signal), centred, signal.device)
    runs = start(centred, signal, rate)
    pieces = zip(*(part.split(_rows(centred.design.items)) for part in runs), strict=True)
    late = [advance(centred, Runs(*piece), 1, min(EARLY, iterations), result) for piece in pieces]
    if late:
        runs = Runs(*(torch.cat(column) for column in zip(*late, strict=True)))
        runs = advance(centred, runs, EARLY + 1, iterations, result)
        result.x[runs.number], result.tau[runs.number], result.iterations[runs.number] = runs.x, runs.tau, iterations
    return result


def start(centred: Affine, signal: Tensor, rate: Tensor) -> Runs:
    """Runs before their first iteration."""
    x = rate[:, None].repeat(1, centred.design.items)
    tau = torch.full((len(signal),), torch.nan, dtype=torch.float64, device=signal.device)
    number = torch.arange(len(signal), device=signal.device)
    return Runs(number, x, signal - centred.times(x), signal, torch.logit(rate)[:, None], tau)


def advance(centred: Affine, runs: Runs, first: int, last: int, result: Estimate) -> Runs:
    """Take iterations `first` to `last`; settled runs are written to the result, the others returned."""
    pools = centred.design.pools
    for iteration in range(first, last + 1):
        number, x, z, signal, odds, before = runs
        if not len(number):
            break
        tau = (z.square().sum(1) / pools).sqrt()
        precision = 1 / tau.square().clamp(min=FLOOR)[:, None]
        x = centred.add_transposed_times(x, z).mul_(precision).add_(odds - 0.5 * precision).sigmoid_()
        uncertain = torch.linalg.vecdot(x, 1 - x)[:, None]  # (runs, 1)
        z = (signal - centred.times(x)).addcmul_(uncertain * precision / pools, z)
        runs = Runs(number, x, z, signal, odds, tau)
        settled = (tau - before).square() <= TOLERANCE * tau.square()  # equal too: without a residual nothing moves
        if bool(settled.any()):
            done = number[settled]
            result.x[done], result.tau[done], result.iterations[done] = x[settled], tau[settled], iteration
            result.settled[done] = True
            runs = Runs(*(part[~settled] for part in runs))
    return runs


def _rows(items: int) -> int:
    """How many runs to take at a time."""
    return max(1, min(INSTANCES_AT_A_TIME, MARGINALS_AT_A_TIME // items))


def _empty(runs: int, centred: Affine, device: torch.device) -> Estimate:
    return Estimate(
        torch.zeros(runs, centred.design.items, dtype=torch.float64, device=device),
        torch.zeros(runs, dtype=torch.float64, device=device),
        torch.zeros(runs, dtype=torch.int64, device=device),
        torch.zeros(runs, dtype=torch.bool, device=device),
    )


def _status(run: Estimate) -> Tensor:
    return torch.where(run.settled, int(Status.OK), int(Status.NOT_CONVERGED)).to(torch.uint8)


class Candidates(NamedTuple):
    """Numbers of defectives to try, instance by instance."""

    owner: Int64[Tensor, " runs"]
    number: Int64[Tensor, " runs"]


def plausible(problem: Problem, y: Tensor) -> Candidates:
    """Numbers of defectives around the counts' own estimate, as far as the items' uneven degrees may mislead it.

    How far depends on the instance alone, so that its calls never depend on its batch.
    """
    degrees = problem.design.item_degrees.to(torch.float64)
    mean = max(float(degrees.mean()), 1e-300)
    estimate = (y.sum(1) / mean).round().clamp(0, problem.items)  # (instances,)
    uneven = float(degrees.std(correction=0)) / mean
    reach = (3 * uneven * (estimate + 1).sqrt()).ceil().clamp(2, max(2, problem.items)).to(torch.int64)
    first = (estimate.to(torch.int64) - reach).clamp(min=0)
    last = (estimate.to(torch.int64) + reach).clamp(max=problem.items)
    spans = Spans((last - first + 1).cumsum(0))
    place = torch.arange(len(spans.owner), device=y.device) - (spans.ends - spans.numbers)[spans.owner]
    return Candidates(spans.owner, first[spans.owner] + place)


def _scan(problem: Problem, estimate: "Estimator", y: Tensor) -> Decoded:
    """Run AMP for every plausible K and keep, for each instance, the calls with the best posterior."""
    tried = plausible(problem, y)
    best = torch.full((len(y),), -torch.inf, dtype=torch.float64, device=y.device)
    result = _Scanned(
        torch.zeros(len(y), problem.items, dtype=torch.uint8, device=y.device),
        torch.zeros(len(y), dtype=torch.uint8, device=y.device),
        torch.zeros(len(y), problem.items, dtype=torch.float64, device=y.device),
        torch.zeros(len(y), dtype=torch.int64, device=y.device),
    )
    rows = _rows(problem.items)
    for owner, number in zip(tried.owner.split(rows), tried.number.split(rows), strict=True):
        _try(problem, estimate(y[owner], number.to(torch.float64)), y, Candidates(owner, number), best, result)
    evidence = Evidence(log_joint=problem.log_joint(result.x, y), iterations=result.iterations)
    return Decoded(result.x, result.status, result.scores, evidence)


class _Scanned(NamedTuple):
    """The best calls so far."""

    x: Tensor  # (instances, items), uint8
    status: Tensor  # (instances,), uint8
    scores: Tensor  # (instances, items)
    iterations: Tensor  # (instances,): 0 where nothing was tried yet


def _try(problem: Problem, run: Estimate, y: Tensor, tried: Candidates, best: Tensor, result: _Scanned) -> None:
    """Keep the calls of these runs that are better than the best known."""
    owner, k = tried
    # Equal but for rounding is equal, and a stable sort breaks ties by item number: so calls never depend on the batch.
    mantissa, exponent = torch.frexp(run.x)
    order = torch.ldexp((mantissa * 2**20).round(), exponent).argsort(dim=1, descending=True, stable=True)
    rank = torch.empty_like(order).scatter_(1, order, torch.arange(problem.items, device=y.device).expand_as(order))
    called = torch.stack([k - 1, k, k + 1], 1)  # (runs, 3): how many items to call
    calls = (rank[:, None, :] < called[:, :, None]).to(torch.uint8)  # (runs, 3, items)
    value = problem.log_joint(calls.flatten(0, 1), y[owner].repeat_interleave(3, 0)).view(-1, 3)
    value, which = value.max(1)  # (runs,): of equal ones the first
    before = best.clone()
    best.scatter_reduce_(0, owner, value, "amax")
    # The first run that reaches the best: of several written at once, torch may leave a mixture.
    row = torch.arange(len(owner), device=y.device)
    better = (value > before[owner]) | (result.iterations[owner] == 0)
    reaches = torch.where((value >= best[owner]) & better, row, len(row))
    first = torch.full_like(best, len(row), dtype=torch.int64).scatter_reduce_(0, owner, reaches, "amin")
    chosen = (first[owner] == row).nonzero()[:, 0]
    at = owner[chosen]
    result.x[at], result.scores[at] = calls[chosen, which[chosen]], run.x[chosen]
    # Calls that are impossible show that AMP failed, not that there are no others.
    status = torch.where(value > -torch.inf, _status(run), int(Status.NOT_CONVERGED)).to(torch.uint8)
    result.status[at], result.iterations[at] = status[chosen], run.iterations[chosen]
