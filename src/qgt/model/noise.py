"""Noise: the distribution of the observed counts y given the true counts A x, independent from pool to pool.

Observed counts are never clipped: a noisy count may be negative or exceed its pool's size. A noise of one's own needs
the two methods of `Noise`. Each `log_prob` here is exact and sums to one over the integers.
"""

from dataclasses import dataclass
from math import inf, log
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float64
from torch import Generator, Tensor

from qgt.arguments import fraction, positive, whole


@runtime_checkable
class Noise(Protocol):
    """What a problem asks of the distribution of y given the true counts.

    Example:
        >>> import torch
        >>> y = torch.tensor([[2.0, 3.0]], dtype=torch.float64)
        >>> SparseInteger(rate=0.3, bound=1).log_prob(y, torch.tensor([[2.0, 2.0]], dtype=torch.float64)).exp()
        tensor([[0.8000, 0.1000]], dtype=torch.float64)
    """

    def sample(
        self, counts: Float64[Tensor, "instances pools"], *, generator: Generator
    ) -> Float64[Tensor, "instances pools"]:
        """Draw observed counts."""
        ...

    def log_prob(self, y: Float64[Tensor, "*batch"], counts: Float64[Tensor, "*batch"]) -> Float64[Tensor, "*batch"]:
        """The log probability of each observed count, given the true one."""
        ...


@dataclass(frozen=True)
class Noiseless:
    """Every pool reports its true count.

    Example:
        >>> import torch
        >>> Noiseless().log_prob(*torch.tensor([[1.0, 2.0], [1.0, 1.0]], dtype=torch.float64))
        tensor([0., -inf], dtype=torch.float64)
    """

    def sample(
        self, counts: Float64[Tensor, "instances pools"], *, generator: Generator
    ) -> Float64[Tensor, "instances pools"]:
        """The counts themselves."""
        return counts.clone()

    def log_prob(self, y: Float64[Tensor, "*batch"], counts: Float64[Tensor, "*batch"]) -> Float64[Tensor, "*batch"]:
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

    def sample(
        self, counts: Float64[Tensor, "instances pools"], *, generator: Generator
    ) -> Float64[Tensor, "instances pools"]:
        """Add the noise: one uniform draw decides both whether and, rescaled, by how much."""
        draws = torch.rand(counts.shape, dtype=torch.float64, generator=generator, device=generator.device)
        values = 2 * self.bound + 1
        error = (draws * (values / self.rate if self.rate else inf)).floor_() - self.bound
        return counts + torch.where(draws < self.rate, error.clamp_(max=self.bound), 0.0)

    def log_prob(self, y: Float64[Tensor, "*batch"], counts: Float64[Tensor, "*batch"]) -> Float64[Tensor, "*batch"]:
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
        >>> round(float(RoundedGaussian(0.7).log_prob(y, torch.zeros_like(y)).exp().sum()), 12)
        1.0
    """

    sigma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", positive("sigma", self.sigma))

    def sample(
        self, counts: Float64[Tensor, "instances pools"], *, generator: Generator
    ) -> Float64[Tensor, "instances pools"]:
        """Add the error and round."""
        error = torch.randn(counts.shape, dtype=torch.float64, generator=generator, device=generator.device)
        return torch.round(counts + self.sigma * error)

    def log_prob(self, y: Float64[Tensor, "*batch"], counts: Float64[Tensor, "*batch"]) -> Float64[Tensor, "*batch"]:
        """log(Phi(b) - Phi(a)) over the unit interval around y, taken in the lower tail where it keeps its digits."""
        error = -(y - counts).abs()
        upper = torch.special.log_ndtr((error + 0.5) / self.sigma)
        lower = torch.special.log_ndtr((error - 0.5) / self.sigma)
        mass = upper + torch.log(-torch.expm1(lower - upper))
        return torch.where((error == error.floor()) & (upper > -inf), mass, -inf)
