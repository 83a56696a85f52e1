"""Noises of other readings than counts: what a pool reports where nobody counts its defectives one by one.

    PositiveNegative    1 or 0: classical group testing, with errors and dilution
    Gaussian            a real number near the count
    Reads               how many of some reads of the pool's mixed sample show the variant

All are tables over the true count, so every decoder that works on tables takes them.
"""

from dataclasses import dataclass
from math import inf, log, pi
from statistics import NormalDist

import torch
from jaxtyping import Float64
from torch import Generator, Tensor

from qgt.arguments import fraction, positive, whole
from qgt.model.noise import Noise, Numbers, Outliers, PerPool
from qgt.model.scales import Binned


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
        share = (counts / sizes.clamp(min=1)).clamp(max=1)
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
        rate = self._rate(counts, sizes)
        possible = (y >= 0) & (y <= self.depth) & (y == y.floor())
        reads = torch.where(possible, y, 0.0)
        others = self.depth - reads
        whole_depth = torch.lgamma(torch.tensor(self.depth + 1.0, dtype=torch.float64))
        sets = whole_depth.to(y.device) - torch.lgamma(reads + 1) - torch.lgamma(others + 1)
        value = sets + torch.xlogy(reads, rate) + torch.special.xlog1py(others, -rate)
        return torch.where(possible, value, -inf)

    def _rate(self, counts: Tensor, sizes: Tensor) -> Tensor:
        share = (counts / sizes.clamp(min=1)).clamp(max=1)
        return (1 - self.error) * share + self.error * (1 - share)


def reports_counts(noise: Noise) -> bool:
    """Whether reports are counts, right or wrong, and no positives, ranges or reads.

    Example:
        >>> reports_counts(Gaussian(sigma=0.3)), reports_counts(Reads(depth=100))
        (True, False)
    """
    if isinstance(noise, PerPool):
        return all(reports_counts(one) for one in noise.noises)
    if isinstance(noise, Outliers):
        return reports_counts(noise.noise)
    return not isinstance(noise, PositiveNegative | Binned | Reads)
