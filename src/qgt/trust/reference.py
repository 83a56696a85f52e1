"""What instances of a problem look like: the costs of simulated ones, against which real ones are held.

An instance's misfit has two parts, both in nats:

    noise   -log P(y | x): how far the counts are from what the calls add up to
    prior   -log P(x): how unusual the calls are before any count is seen

For a simulated instance x is the truth, so no decoding is needed and a hundred thousand take a second. The most
probable x explains counts at least as well as the truth does, both parts together: held against the truths of others,
honest answers look a little better than they must, and false alarms are as rare as they are said to be or rarer. Other
decoders err by themselves: for them the reference holds their own answers to simulated counts.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float64, UInt8
from torch import Generator, Tensor

from qgt.model.factors import pool_costs
from qgt.model.prior import Prior
from qgt.model.problem import Problem

NUMBERS = 2**25  # entries drawn at most: instances times items and pools
MOST, LEAST = 100_000, 2_000  # instances
CHUNK = 2**22
SMALLEST = 1e-300  # p-value: none is 0
SLACK = 1e-9  # relative: costs this close are equal, but for rounding


@dataclass(frozen=True, eq=False)
class Misfit:
    """Both parts of the misfit of some instances, and the noise part pool by pool."""

    pools: Float64[Tensor, "instances pools"]
    prior: Float64[Tensor, " instances"]

    @property
    def noise(self) -> Float64[Tensor, " instances"]:
        """The noise part."""
        return self.pools.sum(1)


def misfit(problem: Problem, y: Float64[Tensor, "instances pools"], x: UInt8[Tensor, "instances items"]) -> Misfit:
    """How badly calls and counts go together.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.5), qgt.SparseInteger(0.3, 1))
        >>> x = torch.tensor([[1, 0, 0]], dtype=torch.uint8)
        >>> misfit(problem, torch.tensor([[1.0, 1.0]], dtype=torch.float64), x).pools.exp()  # one count is off
        tensor([[ 1.2500, 10.0000]], dtype=torch.float64)
    """
    costs = pool_costs(problem.design, problem.noise, y)
    counts = problem.design.count(x).to(torch.int64)
    prior = problem.prior
    unusual = -prior.log_prob(x) if isinstance(prior, Prior) else torch.zeros(len(x), dtype=torch.float64)
    return Misfit(costs.tables[costs.which, counts], unusual.to(y.device))


@dataclass(frozen=True, eq=False)
class Reference:
    """The misfits of simulated instances, sorted; and each pool's mean and variance.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.1), qgt.SparseInteger(0.1, 1))
        >>> reference = Reference.of(problem, generator=torch.Generator().manual_seed(0))
        >>> len(reference.noise), bool((reference.noise.diff() >= 0).all())
        (100000, True)
    """

    noise: Float64[Tensor, " simulated"]
    prior: Float64[Tensor, " simulated"]
    pool_mean: Float64[Tensor, " pools"]
    pool_variance: Float64[Tensor, " pools"]

    @classmethod
    def of(cls, problem: Problem, *, generator: Generator) -> "Reference":
        """Simulate truths and their counts."""
        left = max(LEAST, min(MOST, NUMBERS // (problem.items + problem.pools)))
        rows = max(1, CHUNK // (problem.items + problem.pools))
        parts = []
        while left > 0:
            x, y = problem.simulate(min(rows, left), generator=generator)
            parts.append(_Sums.of(misfit(problem, y, x)))
            left -= len(x)
        return cls._of_sums(parts)

    @classmethod
    def of_answers(cls, problem: Problem, y: Float64[Tensor, "n pools"], x: UInt8[Tensor, "n items"]) -> "Reference":
        """A reference of a decoder's own answers to simulated counts."""
        return cls._of_sums([_Sums.of(misfit(problem, y, x))])

    @classmethod
    def _of_sums(cls, parts: "list[_Sums]") -> "Reference":
        noise, prior = (torch.cat([part[i] for part in parts]).sort().values for i in range(2))
        mean = torch.stack([part.total for part in parts]).sum(0) / len(noise)
        square = torch.stack([part.squares for part in parts]).sum(0) / len(noise)
        return cls(noise, prior, mean, square - mean.square())


class _Sums(NamedTuple):
    """What is kept of some instances' misfits."""

    noise: Tensor  # (instances,)
    prior: Tensor
    total: Tensor  # (pools,)
    squares: Tensor

    @classmethod
    def of(cls, found: Misfit) -> "_Sums":
        # Calls that are impossible cost infinitely much: they are the worst there are, and not part of the means.
        finite = found.pools.nan_to_num(posinf=0.0)
        return cls(found.noise, found.prior, finite.sum(0), finite.square().sum(0))


def both(*p: Float64[Tensor, " n"]) -> Float64[Tensor, " n"]:
    """One p-value from several: the least, times their number (Bonferroni)."""
    least = torch.stack(p).amin(0)
    return (least * len(p)).clamp(max=1.0)


def normal_tail(score: float) -> float:
    """The chance that a standard Gaussian is at least this large."""
    return 0.5 * math.erfc(score / math.sqrt(2))


def share_above(values: Float64[Tensor, " simulated"], value: Float64[Tensor, " n"]) -> Float64[Tensor, " n"]:
    """How often one of the sorted values is at least as large, the value itself counted: never 0.

    Example:
        >>> import torch
        >>> share_above(torch.arange(9.0, dtype=torch.float64), torch.tensor([4.0, 7.5], dtype=torch.float64))
        tensor([0.6000, 0.2000], dtype=torch.float64)
    """
    number = len(values)
    slack = torch.where(value.isfinite(), SLACK * (1 + value.abs()), 0.0)
    below = torch.searchsorted(values, value - slack)
    counted = (number - below + 1).double() / (number + 1)
    beyond = (below == number) & value.isfinite()
    if not bool(beyond.any()):
        return counted
    # Nothing simulated is as far off: the tail of a Gaussian, for sums of many terms, and never more than counted.
    finite = values[values.isfinite()]
    spread = max(float(finite.std()), 1e-12) if len(finite) > 1 else 1e-12
    score = ((value - float(finite.mean())) / spread).clamp(max=1e6)
    tail = torch.special.log_ndtr(-score).exp().clamp(min=SMALLEST)
    return torch.where(beyond, torch.minimum(counted, tail), counted)
