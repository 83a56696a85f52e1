"""Baselines for copies and categories: approximate message passing with vectors, and iterative hard thresholding.

Let each item have a vector v: for categories the unit vector of its category, 0 for the first one; for copies their
number. Pools report sums of vectors, Y = A V + errors, one row for each pool. With the design centred and scaled to
unit columns, A~, and Y~ likewise, AMP iterates for the pooled data problem (Tan, Pascual Cobo, Scarlett, Venkataramanan
2024, Approximate message passing with rigorous guarantees for pooled data and quantitative group testing)

    S = V + A~' Z                                      each row the item's vector in Gaussian noise of covariance T,
    P(value l | s) ~ p_l exp(v_l' T^-1 s - v_l' T^-1 v_l / 2),        V = the mean vectors,
    Z = Y~ - A~ V + Z (sum over items of dV/dS)' / M,      T = Z' Z / M.

Their code knows how many items are in each category. Here that number is estimated from the reports, as a user has to.
The state evolution of these iterations is `qgt.theory.evolution.evolve_vectors`.

Iterative hard thresholding is the greedy baseline of the same paper: gradient steps, after each of which as many items
are given to each category as there are, those with the largest entries first.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from qgt.arguments import whole
from qgt.decoders.amp import Affine
from qgt.decoders.contract import BoundDecoder, refuse_unsupported
from qgt.decoders.results import Decoded, Evidence, Status
from qgt.model.categories import Categories, Copies
from qgt.model.noise import reports_of
from qgt.model.problem import Problem

RIDGE = 1e-6  # added to the covariance, so that it can be inverted once nothing is left to explain
ROUNDED = 9  # decimals at which entries are equal: they differ by the rounding of sums, and batches must not matter
SETTLED = 1e-6  # change of a mean vector at which a run is done


def value_vectors(values: Categories | Copies) -> Tensor:
    """The vector of each value, 0 included: (values, reports).

    Example:
        >>> value_vectors(Categories((0.1, 0.1))), value_vectors(Copies(frequency=0.1, ploidy=2))
        (tensor([[0., 0.],
                [1., 0.],
                [0., 1.]], dtype=torch.float64), tensor([[0.],
                [1.],
                [2.]], dtype=torch.float64))
    """
    number = torch.arange(values.levels + 1, dtype=torch.float64)
    if isinstance(values, Copies):
        return number[:, None]
    return (number[:, None] == torch.tensor(values.columns, dtype=torch.float64)).to(torch.float64)


def only_counts_of_values(problem: Problem) -> str | None:
    """None if items have copies or categories and pools report counts of them; otherwise the reason against it."""
    if problem.values is None:
        return "its items have neither copies nor categories; use AMP."
    if not reports_of(problem.noise).counts:
        return "its pools report no counts, and messages are sums of counts; use Certified or BeliefPropagation."
    return None


class Scaled(NamedTuple):
    """A problem as the iterations see it."""

    matrix: Affine  # A~
    vectors: Tensor  # (values, reports)
    log_shares: Tensor  # (items, values): of the prior

    @classmethod
    def of(cls, problem: Problem) -> "Scaled":
        """Centre and scale the design."""
        assert problem.values is not None  # as `supports` says
        alpha = problem.design.transfers / (problem.pools * problem.items)
        scale = math.sqrt(problem.pools * alpha * (1 - alpha)) or 1.0
        shares = problem.values.distributions(problem.items)
        return cls(Affine(problem.design, 1 / scale, -alpha / scale), value_vectors(problem.values), shares.log())

    def to(self, device: torch.device) -> "Scaled":
        """The same on another device."""
        return self._replace(vectors=self.vectors.to(device), log_shares=self.log_shares.to(device))

    def reports(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Y~ (instances, pools, reports), and the estimated sum of all items' vectors (instances, reports)."""
        y = y[:, :, None] if y.dim() == 2 else y
        total = (y.sum(1) / self.matrix.design.transfers * self.matrix.design.items).round()
        return self.matrix.slope * y + self.matrix.offset * total[:, None], total

    def times(self, x: Tensor) -> Tensor:
        """A~ times (instances, items, reports): (instances, pools, reports)."""
        return _by_report(self.matrix.times, x)

    def transposed_times(self, z: Tensor) -> Tensor:
        """A~' times (instances, pools, reports): (instances, items, reports)."""
        return _by_report(self.matrix.transposed_times, z)


def _by_report(product: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    found = product(x.transpose(1, 2).flatten(0, 1))  # an instance and a report in each row
    each: Tensor = found.unflatten(0, (len(x), x.shape[2])).transpose(1, 2)
    return each


@dataclass(frozen=True)
class PooledAMP:
    """Approximate message passing for copies and categories; `scores` are probabilities of not being 0.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> design = qgt.Design.bernoulli(pools=50, items=100, generator=g)
        >>> problem = qgt.Problem(design, qgt.Categories(rates=(0.03, 0.03)))
        >>> x, y = problem.simulate(20, generator=g)
        >>> bool((qgt.PooledAMP().bind(problem)(y).x == x).all(1).double().mean() > 0.8)
        True
    """

    iterations: int = 100

    def __post_init__(self) -> None:
        object.__setattr__(self, "iterations", whole("iterations", self.iterations, least=1))

    def supports(self, problem: Problem) -> str | None:
        """Copies and categories, where pools report counts."""
        return only_counts_of_values(problem)

    def bind(self, problem: Problem) -> BoundDecoder:
        """Centre and scale the design once."""
        refuse_unsupported(self, problem)
        scaled = Scaled.of(problem)

        def decode(y: Tensor, defectives: Tensor | None) -> Decoded:
            each, settled, iterations = self._run(scaled.to(y.device), y)
            status = torch.where(settled, int(Status.OK), int(Status.NOT_CONVERGED)).to(torch.uint8)
            evidence = Evidence(values=each, iterations=iterations)
            return Decoded(each.argmax(2).to(torch.uint8), status, 1 - each[:, :, 0], evidence)

        return BoundDecoder(problem, decode)

    def _run(self, scaled: Scaled, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The probability of each value (instances, items, values), whether that settled, and when."""
        signal, _ = scaled.reports(y)
        pools, items = signal.shape[1], scaled.matrix.design.items
        mean = (scaled.log_shares.exp() @ scaled.vectors).expand(len(y), items, -1)
        z, each = signal - scaled.times(mean), scaled.log_shares.exp().expand(len(y), items, -1)
        settled = torch.zeros(len(y), dtype=torch.bool, device=y.device)
        iterations = torch.full((len(y),), self.iterations, device=y.device)
        for iteration in range(1, self.iterations + 1):
            covariance = z.transpose(1, 2) @ z / pools
            inverse = torch.linalg.inv(covariance + RIDGE * torch.eye(z.shape[2], dtype=z.dtype, device=z.device))
            now = posterior(scaled, mean + scaled.transposed_times(z), inverse)
            after = now @ scaled.vectors
            z = signal - scaled.times(after) + z @ _slopes(scaled, now, after, inverse).transpose(1, 2) / pools
            going = ~settled
            each = torch.where(going[:, None, None], now, each)
            done = going & ((after - mean).abs().amax((1, 2)) < SETTLED)
            iterations, settled = torch.where(done, iteration, iterations), settled | done
            mean = after
            if bool(settled.all()):
                break
        return each, settled, iterations


def posterior(scaled: Scaled, noisy: Tensor, inverse: Tensor) -> Tensor:
    """The probability of each value, given vectors in noise of the inverse covariance: (instances, items, values)."""
    pulled = inverse @ scaled.vectors.T  # (instances, reports, values)
    own = (scaled.vectors.T * pulled).sum(1)  # (instances, values)
    return (scaled.log_shares + noisy @ pulled - own[:, None] / 2).softmax(2)


def _slopes(scaled: Scaled, each: Tensor, mean: Tensor, inverse: Tensor) -> Tensor:
    """The derivative of mean vectors by noisy ones, summed over items: (instances, reports, reports)."""
    second = (each.sum(1)[:, None] * scaled.vectors.T) @ scaled.vectors  # the sum of E[v v'] over the items
    return (second - mean.transpose(1, 2) @ mean) @ inverse


@dataclass(frozen=True)
class PooledIHT:
    """Iterative hard thresholding for copies and categories: gradient steps, and the largest entries kept.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> design = qgt.Design.bernoulli(pools=60, items=100, generator=g)
        >>> problem = qgt.Problem(design, qgt.Categories(rates=(0.02, 0.02)))
        >>> x, y = problem.simulate(20, generator=g)
        >>> bool((qgt.PooledIHT().bind(problem)(y).x == x).all(1).double().mean() > 0.5)
        True
    """

    iterations: int = 50

    def __post_init__(self) -> None:
        object.__setattr__(self, "iterations", whole("iterations", self.iterations, least=1))

    def supports(self, problem: Problem) -> str | None:
        """Copies and categories, where pools report counts."""
        return only_counts_of_values(problem)

    def bind(self, problem: Problem) -> BoundDecoder:
        """Centre and scale the design once."""
        refuse_unsupported(self, problem)
        scaled = Scaled.of(problem)

        def decode(y: Tensor, defectives: Tensor | None) -> Decoded:
            here = scaled.to(y.device)
            signal, total = here.reports(y)
            x = torch.zeros(len(y), problem.items, dtype=torch.int64, device=y.device)
            for _ in range(self.iterations):
                vectors = here.vectors[x]
                moved = vectors + here.transposed_times(signal - here.times(vectors))
                after = _largest(here, moved, total)
                if torch.equal(after, x):
                    break
                x = after
            status = torch.zeros(len(y), dtype=torch.uint8, device=y.device)
            return Decoded(x.to(torch.uint8), status, moved.amax(2))

        return BoundDecoder(problem, decode)


def _largest(scaled: Scaled, moved: Tensor, total: Tensor) -> Tensor:
    """The values of items: of the nearest vector, for as many items as there are, those with the largest entries."""
    pull = moved @ scaled.vectors.T - scaled.vectors.square().sum(1) / 2  # largest for the nearest vector
    pull = pull.round(decimals=ROUNDED)
    gain, value = pull[:, :, 1:].max(2)  # of any value but 0
    used = scaled.vectors[value + 1]  # (instances, items, reports)
    order = gain.argsort(dim=1, descending=True, stable=True)
    so_far = used.gather(1, order[:, :, None].expand_as(used)).cumsum(1)
    allowed = (so_far <= total[:, None] + 0.5).all(2)
    kept = torch.zeros_like(allowed).scatter_(1, order, allowed)
    return torch.where(kept, value + 1, 0)
