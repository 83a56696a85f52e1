"""Noise: the distribution of what a pool reports, given its true count (A x)_i and its size, independent among pools.

Reports are never clipped: a noisy count may be negative or exceed its pool's size. A noise of one's own needs what
`Noise` has. Each `log_prob` here is exact and sums to one over the integers. `readings` holds the noises whose reports
are no counts.

The arguments of `log_prob` broadcast together, as tensors of torch do: a column of reports and a row of true counts
give the table of both.
"""

from collections.abc import Sequence
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


@dataclass(frozen=True)
class Outliers:
    """Any noise, but with a small chance `rate` a report is arbitrary: anything from 0 to the pool's size.

    Example:
        >>> import torch
        >>> y, count, size = torch.tensor([[2.0, 7.0], [2.0, 2.0], [9.0, 9.0]], dtype=torch.float64)
        >>> Outliers(Noiseless(), rate=0.1).log_prob(y, count, size).exp()
        tensor([0.9100, 0.0100], dtype=torch.float64)
    """

    noise: Noise
    rate: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", fraction("rate", self.rate))
        check_noise("noise", self.noise)

    @property
    def integer(self) -> bool:
        """What the noise says; then arbitrary reports are whole too."""
        return self.noise.integer

    def reach(self, size: int, tail: float) -> float:
        """The whole pool, unless arbitrary reports are so rare that they are part of the tail."""
        if self.rate < tail:
            return self.noise.reach(size, tail - self.rate)
        return max(size + (0.0 if self.integer else 0.5), self.noise.reach(size, tail))

    def sample(
        self, counts: Float64[Tensor, "instances pools"], sizes: Float64[Tensor, " pools"], *, generator: Generator
    ) -> Float64[Tensor, "instances pools"]:
        """What the noise reports, and now and then something else."""
        if isinstance(self.noise, PerPool):
            return self.each_pool(self.noise).sample(counts, sizes, generator=generator)
        reports = self.noise.sample(counts, sizes, generator=generator)
        draws = torch.rand(2, *counts.shape, dtype=torch.float64, generator=generator, device=generator.device)
        anything = draws[0] * (sizes + 1)
        anything = anything.floor() if self.integer else anything - 0.5
        return torch.where(draws[1] < self.rate, anything, reports)

    def log_prob(self, y: Numbers, counts: Numbers, sizes: Numbers) -> Numbers:
        """The two ways to a report, added up."""
        if isinstance(self.noise, PerPool):
            return self.each_pool(self.noise).log_prob(y, counts, sizes)
        inside = (y >= -0.5) & (y <= sizes + 0.5) & ((y == y.floor()) if self.integer else torch.ones_like(y).bool())
        arbitrary = torch.where(inside, -(sizes + 1).log(), -inf) + (log(self.rate) if self.rate else -inf)
        usual = self.noise.log_prob(y, counts, sizes) + (log(1 - self.rate) if self.rate < 1 else -inf)
        return torch.logaddexp(usual, arbitrary)

    def each_pool(self, noise: "PerPool") -> "PerPool":
        """The same with the outliers inside: whether arbitrary reports are whole is for each pool's noise to say."""
        return PerPool([Outliers(one, self.rate) for one in noise.noises])


@dataclass(frozen=True)
class PerPool:
    """Another noise for each pool: machines, dilutions and volumes differ.

    Its `log_prob` wants the pools in the last dimension, where others want no pools at all; `pool_costs`, by which
    decoders see noise, asks each pool's own.

    Example:
        >>> import torch
        >>> noise = PerPool([Noiseless(), SparseInteger(rate=0.3, bound=1)])
        >>> y, counts = torch.tensor([[2.0, 2.0], [2.0, 1.0]], dtype=torch.float64)
        >>> noise.log_prob(y, counts, torch.tensor([9.0, 9.0], dtype=torch.float64)).exp()
        tensor([1.0000, 0.1000], dtype=torch.float64)
    """

    noises: Sequence[Noise]  # kept as a tuple

    def __post_init__(self) -> None:
        if not isinstance(self.noises, Sequence) or not self.noises:
            raise ValueError(f"noises={self.noises!r} is not valid: give a list of one noise per pool.")
        for i, noise in enumerate(self.noises):
            check_noise(f"noises[{i}]", noise, one=True)
        object.__setattr__(self, "noises", tuple(self.noises))

    @property
    def integer(self) -> bool:
        """Whether every pool reports whole numbers."""
        return all(noise.integer for noise in self.noises)

    def reach(self, size: int, tail: float) -> float:
        """The farthest of all."""
        return max(noise.reach(size, tail) for noise in self.noises)

    def pools_of(self) -> dict[Noise, list[int]]:
        """The pools of each different noise."""
        found: dict[Noise, list[int]] = {}
        for pool, noise in enumerate(self.noises):
            found.setdefault(noise, []).append(pool)
        return found

    def check(self, pools: int) -> None:
        """Raise a ValueError where there are not as many noises as pools."""
        if len(self.noises) != pools:
            raise ValueError(f"noises holds {len(self.noises)} noises for {pools} pools: give one per pool.")

    def sample(
        self, counts: Float64[Tensor, "instances pools"], sizes: Float64[Tensor, " pools"], *, generator: Generator
    ) -> Float64[Tensor, "instances pools"]:
        """What each noise reports of its pools."""
        self.check(counts.shape[1])
        y = torch.empty_like(counts)
        for noise, pools in self.pools_of().items():
            y[:, pools] = noise.sample(counts[:, pools], sizes[pools], generator=generator)
        return y

    def log_prob(self, y: Numbers, counts: Numbers, sizes: Numbers) -> Numbers:
        """Each pool by its own noise; the pools are the last dimension."""
        y, counts, sizes = torch.broadcast_tensors(y, counts, sizes)
        self.check(y.shape[-1])
        found = torch.empty_like(y)
        for noise, pools in self.pools_of().items():
            found[..., pools] = noise.log_prob(y[..., pools], counts[..., pools], sizes[..., pools])
        return found


def check_noise(name: str, noise: object, *, integer: bool = False, one: bool = False) -> None:
    """Raise a ValueError that names the argument unless it is a noise: of whole numbers, or of one pool, if it must."""
    if not isinstance(noise, Noise):
        raise ValueError(f"{name}={noise!r} is not valid: give a noise, such as SparseInteger(rate=0.1, bound=1).")
    if one and isinstance(noise, PerPool):
        raise ValueError(f"{name}={noise!r} is not valid: give the noise of one pool, and put PerPool around.")
    if integer and not noise.integer:
        raise ValueError(f"{name}={noise!r} is not valid: give a noise of whole numbers, such as RoundedGaussian.")
