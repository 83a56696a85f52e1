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

import torch
from jaxtyping import Float64, UInt8
from torch import Generator, Tensor

from qgt.decoders.contract import Decode
from qgt.model.factors import pool_costs
from qgt.model.prior import Prior
from qgt.model.problem import Problem

NUMBERS = 2**25  # entries drawn at most: instances times items and pools
MOST, LEAST = 100_000, 2_000  # instances
CHUNK = 2**22
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
    def of(
        cls,
        problem: Problem,
        *,
        generator: Generator,
        decode: Decode | None = None,
        instances: int | None = None,
    ) -> "Reference":
        """Simulate; with `decode`, hold the decoder's own answers against their counts instead of the truths."""
        affordable = max(LEAST, min(MOST, NUMBERS // (problem.items + problem.pools)))
        left = affordable if instances is None else instances
        rows = max(1, CHUNK // (problem.items + problem.pools))
        noise, prior, total = [], [], torch.zeros(2, problem.pools, dtype=torch.float64)
        number = left
        while left > 0:
            x, y = problem.simulate(min(rows, left), generator=generator)
            part = misfit(problem, y, x if decode is None else decode(y).x)
            noise.append(part.noise.cpu())
            prior.append(part.prior.cpu())
            # Calls that are impossible cost infinitely much: they count as the worst there are, not in the means.
            finite = part.pools.nan_to_num(posinf=0.0).cpu()
            total += torch.stack([finite.sum(0), finite.square().sum(0)])
            left -= len(x)
        mean = total[0] / number
        return cls(
            torch.cat(noise).sort().values, torch.cat(prior).sort().values, mean, total[1] / number - mean.square()
        )


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
    below = torch.searchsorted(values, value - SLACK * (1 + value.abs()))
    counted = (number - below + 1).double() / (number + 1)
    beyond = (below == number) & value.isfinite()
    if not bool(beyond.any()):
        return counted
    # Nothing simulated is as far off: the tail of a Gaussian, for sums of many terms, and never more than counted.
    finite = values[values.isfinite()]
    spread = max(float(finite.std()), 1e-12) if len(finite) > 1 else 1e-12
    score = ((value - float(finite.mean())) / spread).clamp(max=1e6)
    return torch.where(beyond, torch.minimum(counted, torch.special.log_ndtr(-score).exp()), counted)
