"""Noise: the distribution of what a pool reports, given its true count (A x)_i and its size, independent among pools.

Reports are never clipped: a noisy count may be negative or exceed its pool's size. A noise of one's own needs what
`Noise` has. Each `log_prob` here is exact and sums to one over the integers.

The arguments of `log_prob` broadcast together, as tensors of torch do: a column of reports and a row of true counts
give the table of both.
"""

from dataclasses import dataclass
from math import ceil, inf, log
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
        """Whether every report is a whole number; then `log_prob` is of a probability, else of a density."""
        ...

    def reach(self, size: int, tail: float) -> float:
        """How far a pool of that size may report from its true count, but for a probability of `tail` at most."""
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
        """0 where the count is right, else -inf."""
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
