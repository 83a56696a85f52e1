"""Small random problems of every kind, for the decoders that enumeration can check."""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from qgt import (
    Bernoulli,
    Design,
    Exhaustive,
    FixedWeight,
    Noise,
    Noiseless,
    Prior,
    Problem,
    RoundedGaussian,
    SparseInteger,
)


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


def random_problem(seed: int) -> Problem:
    """A problem of up to 12 items, among them duplicate columns, empty and full pools, and items known beforehand."""
    g = torch.Generator().manual_seed(seed)
    items, pools = _whole(1, 12, g), _whole(1, 8, g)
    matrix = (torch.rand(pools, items, generator=g) < _pick((0.2, 0.5, 0.8), g)).to(torch.uint8)
    if _whole(0, 2, g) == 0:
        matrix[:, _whole(0, items - 1, g)] = matrix[:, _whole(0, items - 1, g)]
    for value in (0, 1):
        if _whole(0, 4, g) == 0:
            matrix[_whole(0, pools - 1, g)] = value
    return Problem(Design.from_matrix(matrix), _prior(items, g), NOISES[seed % len(NOISES)])


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
    y = counts_of(problem, seed)
    every = Exhaustive().bind(problem)(y)
    return Case(problem, y, every.status, every.evidence.log_joint)


def _prior(items: int, g: Generator) -> Prior:
    kind = _whole(0, 3, g)
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
