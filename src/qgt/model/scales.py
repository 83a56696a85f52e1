"""Scales that end or are coarse: what a pool reports is another noise's report, cut off or put into a range.

First the instrument errs, then its scale ends. Both are tables over the true count like every other noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

import torch
from jaxtyping import Float64
from torch import Generator, Tensor

from qgt.arguments import whole
from qgt.model.noise import Noise, Noiseless, Numbers, check_noise

RARE = 1e-300  # a probability that no float tells from none by much


@dataclass(frozen=True)
class Saturating:
    """What another noise of whole numbers reports, but never more than `cap`: "three or more".

    Example:
        >>> import torch
        >>> y, count, size = torch.tensor([[2.0, 3.0, 3.0], [2.0, 3.0, 7.0], [9.0, 9.0, 9.0]], dtype=torch.float64)
        >>> Saturating(cap=3).log_prob(y, count, size).exp()
        tensor([1., 1., 1.], dtype=torch.float64)
    """

    cap: int
    noise: Noise = Noiseless()  # noqa: RUF009 - frozen and without fields, so sharing it is harmless

    def __post_init__(self) -> None:
        object.__setattr__(self, "cap", whole("cap", self.cap, least=1))
        check_noise("noise", self.noise, integer=True, one=True)

    @property
    def integer(self) -> bool:
        """Reports are whole."""
        return True

    def reach(self, size: int, tail: float) -> float:
        """As far as the noise goes, or as the cap cuts off."""
        return max(self.noise.reach(size, tail), float(size - self.cap))

    def sample(
        self, counts: Float64[Tensor, "instances pools"], sizes: Float64[Tensor, " pools"], *, generator: Generator
    ) -> Float64[Tensor, "instances pools"]:
        """What the noise reports, cut off."""
        return self.noise.sample(counts, sizes, generator=generator).clamp(max=self.cap)

    def log_prob(self, y: Numbers, counts: Numbers, sizes: Numbers) -> Numbers:
        """Below the cap what the noise says; at the cap, all that it may report from there on."""
        below = torch.where(y < self.cap, self.noise.log_prob(y, counts, sizes), -inf)
        beyond = _log_mass(self.noise, float(self.cap), inf, counts, sizes)
        return torch.where(y == self.cap, beyond, below)


@dataclass(frozen=True)
class Binned:
    """The number of the range in which another noise's report lies: 0 below the first edge, 1 from there on, ...

    Example:
        >>> import torch
        >>> y, count, size = torch.tensor([[0.0, 1.0, 2.0], [0.0, 3.0, 9.0], [9.0, 9.0, 9.0]], dtype=torch.float64)
        >>> Binned(edges=[1, 5]).log_prob(y, count, size).exp()  # none, few (1 to 4), many
        tensor([1., 1., 1.], dtype=torch.float64)
    """

    edges: Sequence[int]  # the least report of each range but the first; kept as a tuple
    noise: Noise = Noiseless()  # noqa: RUF009 - frozen and without fields, so sharing it is harmless

    def __post_init__(self) -> None:
        if isinstance(self.edges, str) or not isinstance(self.edges, Sequence) or not self.edges:
            raise ValueError(
                f"edges={self.edges!r} is not valid: give a list of the least report of each range but the first."
            )
        edges = tuple(whole(f"edges[{i}]", edge) for i, edge in enumerate(self.edges))
        if any(a >= b for a, b in pairwise(edges)):
            raise ValueError(f"edges={edges} is not valid: give each edge above the one before.")
        object.__setattr__(self, "edges", edges)
        check_noise("noise", self.noise, integer=True, one=True)

    @property
    def integer(self) -> bool:
        """Reports are numbers of ranges."""
        return True

    def reach(self, size: int, tail: float) -> float:
        """As far as a number of a range is from the count."""
        return float(max(size, len(self.edges)))

    def sample(
        self, counts: Float64[Tensor, "instances pools"], sizes: Float64[Tensor, " pools"], *, generator: Generator
    ) -> Float64[Tensor, "instances pools"]:
        """The ranges of what the noise reports."""
        reports = self.noise.sample(counts, sizes, generator=generator)
        edges = torch.tensor(self.edges, dtype=torch.float64, device=reports.device)
        return torch.bucketize(reports, edges, right=True).to(torch.float64)

    def log_prob(self, y: Numbers, counts: Numbers, sizes: Numbers) -> Numbers:
        """All that the noise may report within the range."""
        ends = (-inf, *map(float, self.edges), inf)
        found = torch.full_like(y + counts + sizes, -inf)
        for number, (low, high) in enumerate(pairwise(ends)):
            if bool((y == number).any()):
                found = torch.where(y == number, _log_mass(self.noise, low, high, counts, sizes), found)
        return found


def _log_mass(noise: Noise, low: float, high: float, counts: Tensor, sizes: Tensor) -> Tensor:
    """The log probability that a noise of whole numbers reports something from `low` on and below `high`."""
    counts, sizes = torch.broadcast_tensors(counts, sizes)
    if not counts.numel():
        return torch.zeros_like(counts)
    reach = noise.reach(int(sizes.max()), RARE)
    errors = torch.arange(-reach, reach + 1, dtype=torch.float64, device=counts.device)
    reports = counts[..., None] + errors  # (..., errors)
    each = noise.log_prob(reports, counts[..., None], sizes[..., None])
    return torch.where((reports >= low) & (reports < high), each, -inf).logsumexp(-1).clamp(max=0.0)
