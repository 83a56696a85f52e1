"""Small random problems of every kind, for the decoders that enumeration can check."""

import os
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from forgeries.problems import Control
from qgt import (
    Bernoulli,
    Binned,
    Certified,
    Design,
    Exhaustive,
    FixedWeight,
    Gaussian,
    Households,
    Noise,
    Noiseless,
    Outliers,
    PerPool,
    PositiveNegative,
    Prior,
    Problem,
    Reads,
    RoundedGaussian,
    Saturating,
    SparseInteger,
    Status,
    UnknownLevel,
    UnknownRate,
    check_certificate,
)

THOROUGH = bool(os.environ.get("QGT_THOROUGH"))  # `make thorough` sets it


def some_of(all_cases: int) -> int:
    """How many of the random cases to try: a tenth in a test run, all in a thorough one."""
    return all_cases if THOROUGH else all_cases // 10


@dataclass(frozen=True)
class Lopsided:
    """A noise of one's own: a few errors, not symmetric, neither convex nor without gaps."""

    errors: tuple[int, ...] = (0, 1, 2, 4, -3)
    probabilities: tuple[float, ...] = (0.4, 0.05, 0.3, 0.05, 0.2)
    integer = True

    def reach(self, size: int, tail: float) -> float:
        return float(max(map(abs, self.errors)))

    def sample(self, counts: Tensor, sizes: Tensor, *, generator: Generator) -> Tensor:
        drawn = torch.multinomial(torch.tensor(self.probabilities), counts.numel(), True, generator=generator)
        return counts + torch.tensor(self.errors, dtype=torch.float64)[drawn].view(counts.shape)

    def log_prob(self, y: Tensor, counts: Tensor, sizes: Tensor) -> Tensor:
        total = torch.zeros_like(y + counts)
        for error, probability in zip(self.errors, self.probabilities, strict=True):
            total += probability * (y - counts == error)
        return total.log()


@dataclass(frozen=True)
class TwoHumps:
    """Another: every count is possible, and the cost has two valleys."""

    integer = True

    def reach(self, size: int, tail: float) -> float:
        return 9.0

    def sample(self, counts: Tensor, sizes: Tensor, *, generator: Generator) -> Tensor:
        return Lopsided((0, 3), (0.5, 0.5)).sample(counts, sizes, generator=generator)

    def log_prob(self, y: Tensor, counts: Tensor, sizes: Tensor) -> Tensor:
        error = y - counts
        return torch.logaddexp(-(error**2), -((error - 3) ** 2) - 0.3)


NOISES: tuple[Noise, ...] = (
    Noiseless(),
    *(SparseInteger(rate, bound) for bound in range(4) for rate in (0.05, 0.4, 1.0)),
    *(RoundedGaussian(sigma) for sigma in (0.05, 0.4, 3.0, 1000.0)),
    Lopsided(),
    Lopsided((0, -1, 2), (0.3, 0.3, 0.4)),
    TwoHumps(),
)


READINGS: tuple[Noise, ...] = (
    PositiveNegative(),
    PositiveNegative(sensitivity=0.9, specificity=0.95, dilution=0.2),
    PositiveNegative(sensitivity=0.8, specificity=1.0, dilution=1.0),
    Saturating(2),
    Saturating(1, SparseInteger(0.3, 1)),
    Saturating(3, RoundedGaussian(0.6)),
    Binned([1, 3]),
    Binned([1, 2, 6], RoundedGaussian(1.0)),
    Binned([2], SparseInteger(0.4, 2)),
    Gaussian(0.4),
    Gaussian(0.2, growth=0.3),
    Gaussian(3.0, growth=1.0),
    Reads(20, error=0.02),
    Reads(5),
    Reads(300, error=0.1),
    Outliers(SparseInteger(0.1, 1), rate=0.05),
    Outliers(Gaussian(0.3), rate=0.1),
    Outliers(Binned([1, 4]), rate=0.01),
)


def random_problem(seed: int) -> Problem:
    """A problem of up to 12 items, among them duplicate columns, empty and full pools, and items known beforehand."""
    g = torch.Generator().manual_seed(seed)
    design = _design(g)
    return Problem(design, _prior(design.items, g), NOISES[seed % len(NOISES)])


def random_model(seed: int) -> Problem:
    """Another, whose items depend on each other; all pools report in one way, or each in its own."""
    g = torch.Generator().manual_seed(seed)
    design = _design(g)
    prior = _dependent(design.items, seed % 3, g)
    noises = [READINGS[_whole(0, len(READINGS) - 1, g)] for _ in range(design.pools)]
    return Problem(design, prior, PerPool(noises) if seed % 2 else noises[0])


def _design(g: Generator) -> Design:
    items, pools = _whole(1, 12, g), _whole(1, 8, g)
    matrix = (torch.rand(pools, items, generator=g) < _pick((0.2, 0.5, 0.8), g)).to(torch.uint8)
    if _whole(0, 2, g) == 0:
        matrix[:, _whole(0, items - 1, g)] = matrix[:, _whole(0, items - 1, g)]
    for value in (0, 1):
        if _whole(0, 4, g) == 0:
            matrix[_whole(0, pools - 1, g)] = value
    return Design.from_matrix(matrix)


def counts_of(problem: Problem, seed: int) -> Tensor:
    """One instance's counts; every third is made a little wrong, and some of these no x explains."""
    g = torch.Generator().manual_seed(seed)
    y = problem.simulate(1, generator=g).y
    return y if seed % 3 else y + torch.randint(-1, 2, y.shape, generator=g)


class Case(NamedTuple):
    """A problem, one instance's counts, and what enumeration says of it."""

    problem: Problem
    y: Tensor
    status: Tensor
    log_joint: Tensor


@cache
def case(seed: int) -> Case:
    """The problem and counts of a seed."""
    problem = random_problem(seed)
    return _case(problem, counts_of(problem, seed))


@cache
def model_case(seed: int) -> Case:
    """The model and counts of a seed; in every fourth some counts are missing, in some of these all."""
    problem = random_model(seed)
    y = counts_of(problem, seed)
    if seed % 4 == 0:
        y[torch.rand(y.shape, generator=torch.Generator().manual_seed(seed)) < (0.3 if seed % 16 else 1.0)] = torch.nan
    return _case(problem, y)


def _case(problem: Problem, y: Tensor) -> Case:
    every = Exhaustive().bind(problem)(y)
    return Case(problem, y, every.status, every.evidence.log_joint)


def _dependent(items: int, kind: int, g: Generator) -> Prior:
    """A prior: one of unknown rate, one of unknown level, or households."""
    if kind == 0:
        low = _pick((0.0, 0.01, 0.2), g)
        return UnknownRate(low=low, high=low + _pick((0.05, 0.3, 0.8), g))
    if kind == 1 and _whole(0, 1, g):
        return UnknownLevel(_prior(items, g, kinds=(0, 2, 3)), low=0.1, high=_pick((0.5, 3.0, 100.0), g))
    labels = [f"household {_whole(0, 4, g)}" for _ in range(items)]
    rates = {name: _pick(rates, g) for name, rates in RATES.items()}
    households = Households(labels=labels, **rates)
    if _whole(0, 1, g):
        households = Households(size=_whole(1, 5, g), **rates)
    return households if kind > 1 else UnknownLevel(households, low=0.2, high=_pick((1.5, 20.0), g))


RATES = {"seed_rate": (0.05, 0.3, 1.0, 0.0), "attack_rate": (0.3, 0.8, 1.0), "background": (0.0, 0.02, 0.3)}


def _prior(items: int, g: Generator, kinds: tuple[int, ...] = (0, 1, 2, 3, 4)) -> Prior:
    kind = kinds[_whole(0, len(kinds) - 1, g)]
    if kind == 4:
        return Control(_pick((0.05, 0.2, 0.6), g), _pick((-50.0, -0.7, 3.0), g))
    if kind == 0:
        return Bernoulli(_pick((0.01, 0.1, 0.3, 0.5, 0.9), g))
    if kind == 1:
        return FixedWeight(_whole(0, items, g))
    rates = torch.rand(items, generator=g, dtype=torch.float64)
    if kind == 2:
        known = torch.rand(items, generator=g) < 0.3
        rates = torch.where(known, (rates > 0.5).to(torch.float64), rates)
    return Bernoulli(rates)


def _whole(least: int, most: int, g: Generator) -> int:
    return int(torch.randint(least, most + 1, (), generator=g))


def _pick(values: tuple[float, ...], g: Generator) -> float:
    return values[_whole(0, len(values) - 1, g)]


def proved_as_by_enumeration(one: Case, seed: int) -> int:
    """How many answers Certified proves; statuses, probabilities and certificates must be right."""
    problem, y, status, log_joint = one
    result = Certified().bind(problem)(y)
    assert torch.equal(result.status, status), seed
    found = result.status == Status.PROVED
    close = {"atol": 2e-6, "rtol": 1e-9}
    torch.testing.assert_close(result.evidence.log_joint[found], log_joint[found], msg=str(seed), **close)
    assert bool(check_certificate(problem, y, result).all()), seed
    return int(found.sum())
