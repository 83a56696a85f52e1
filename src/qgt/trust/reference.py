"""What instances of a problem look like: the costs of simulated ones, against which real ones are held.

An instance's misfit has two parts, both in nats:

    noise   -log P(y | x): how far the counts are from what the calls add up to
    prior   -log P(x): how unusual the calls are before any count is seen

For a simulated instance x is the truth, so no decoding is needed and a hundred thousand take a second. The most
probable x explains counts at least as well as the truth does, both parts together: held against the truths of others,
honest answers look a little better than they must, and false alarms are as rare as they are said to be or rarer. Other
decoders err by themselves: for them the reference holds their own answers to simulated counts.

Beyond what was simulated, a p-value is the tail of a Gaussian whose mean and deviation were estimated: Student's t. Of
very many items few can be decoded in the time there is, but many truths can be drawn. Then the misfit of an answer is
that of its truth, of which many are known, and what the decoder's errors add, of which few are. The two variances add
up, and so does what is not known of them (Welch and Satterthwaite).
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float64, UInt8
from scipy.special import stdtr
from torch import Generator, Tensor

from qgt.model.factors import pool_costs
from qgt.model.prior import Prior
from qgt.model.problem import Problem

NUMBERS = 2**25  # entries drawn at most: instances times items and pools
MOST, LEAST = 100_000, 100  # instances
FEW = 100  # decoded instances below which truths speak too
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
class Spread:
    """What is known of a cost that is as good as Gaussian; `freedom` tells how well (see Student's t).

    Example:
        >>> import torch
        >>> Spread.of(torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)).tail(torch.tensor([2.0, 9.0]))
        tensor([0.5000, 0.0131], dtype=torch.float64)
    """

    mean: float
    variance: float
    mean_variance: float  # of the mean itself
    freedom: float

    @classmethod
    def of(cls, values: Float64[Tensor, " n"]) -> "Spread":
        """Of simulated ones; infinite ones do not count."""
        finite = values[values.isfinite()]
        if len(finite) < 2:
            return cls(float(finite.mean()) if len(finite) else 0.0, 0.0, 0.0, 0.0)
        variance = max(float(finite.var()), 1e-24)
        return cls(float(finite.mean()), variance, variance / len(finite), len(finite) - 1.0)

    def plus(self, other: "Spread") -> "Spread":
        """Of the sum of two that do not depend on each other."""
        both = [one.variance + one.mean_variance for one in (self, other)]
        if min(self.freedom, other.freedom) < 1:
            freedom = 0.0
        else:
            freedom = sum(both) ** 2 / (both[0] ** 2 / self.freedom + both[1] ** 2 / other.freedom)
        variances = self.variance + other.variance, self.mean_variance + other.mean_variance
        return Spread(self.mean + other.mean, *variances, freedom)

    def tail(self, value: Tensor, number: int = 1) -> Float64[Tensor, " n"]:
        """The chance that the mean of so many further ones is at least as large; 1 where nothing is known."""
        if self.freedom < 1:
            return torch.ones(len(value), dtype=torch.float64)
        deviation = math.sqrt(self.variance / number + self.mean_variance)
        score = ((value.double() - self.mean) / deviation).clamp(-1e6, 1e6)
        chance = torch.from_numpy(stdtr(self.freedom, -score.numpy()))  # of Student's t
        return chance.clamp(min=SMALLEST)

    def tensor(self) -> Float64[Tensor, "4"]:
        """All of it, for a file."""
        return torch.tensor([self.mean, self.variance, self.mean_variance, self.freedom], dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class Reference:
    """The misfits of simulated instances, sorted; each pool's mean and variance; and the spreads of both parts.

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
    spreads: Float64[Tensor, "2 4"]  # of the noise part and the prior part

    @property
    def noise_spread(self) -> Spread:
        """Of the noise part."""
        return Spread(*self.spreads[0].tolist())

    @property
    def prior_spread(self) -> Spread:
        """Of the prior part."""
        return Spread(*self.spreads[1].tolist())

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
    def of_answers(
        cls,
        problem: Problem,
        y: Float64[Tensor, "n pools"],
        answers: UInt8[Tensor, "n items"],
        truths: UInt8[Tensor, "n items"],
        *,
        generator: Generator,
    ) -> "Reference":
        """A reference of a decoder's own answers to simulated counts, and of more truths where these are few."""
        own = _Sums.of(misfit(problem, y, answers))
        if len(y) >= FEW:
            return cls._of_sums([own])
        true, many = _Sums.of(misfit(problem, y, truths)), cls.of(problem, generator=generator)
        added = [Spread.of(own[i] - true[i]) for i in range(2)]  # by the decoder's errors
        spreads = [many.noise_spread.plus(added[0]).tensor(), many.prior_spread.plus(added[1]).tensor()]
        pool_mean = many.pool_mean + added[0].mean / len(many.pool_mean)
        noise, prior = own.noise.sort().values, own.prior.sort().values
        return cls(noise, prior, pool_mean, many.pool_variance, torch.stack(spreads))

    @classmethod
    def _of_sums(cls, parts: "list[_Sums]") -> "Reference":
        noise, prior = (torch.cat([part[i] for part in parts]).sort().values for i in range(2))
        mean = torch.stack([part.total for part in parts]).sum(0) / len(noise)
        square = torch.stack([part.squares for part in parts]).sum(0) / len(noise)
        spreads = torch.stack([Spread.of(noise).tensor(), Spread.of(prior).tensor()])
        return cls(noise, prior, mean, square - mean.square(), spreads)


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


def share_above(
    values: Float64[Tensor, " simulated"], value: Float64[Tensor, " n"], spread: Spread | None = None
) -> Float64[Tensor, " n"]:
    """How often one of the sorted values is at least as large, the value itself counted: never 0.

    Beyond all values it is the tail of their spread, or of the one given, and never more than was counted.

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
    tail = (spread or Spread.of(values)).tail(value)
    return torch.where(beyond, torch.minimum(counted, tail), counted)
