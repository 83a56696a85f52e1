"""What a search works on: the costs that all instances share, and those of each one's counts.

The cost of x under one instance is a sum over items, groups of them, and pools (see `qgt.model.factors`),

    cost(x) = constant + sum_j w_j x_j + T(sum_j x_j) + sum_g G_g(number in g) + sum_i f_i((A x)_i).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from qgt.decoders.certified.members import Members
from qgt.decoders.certified.soft import FAR, softened
from qgt.decoders.envelopes import Envelope, envelope_of
from qgt.model.factors import PoolCosts
from qgt.model.prior import FREE, FactoredPrior, Groups, ItemCosts
from qgt.model.problem import Problem

PIECES = 8  # of an envelope, at most: beyond, its outermost slopes go on, which keeps it below


def supported(problem: Problem) -> str | None:
    """None if the cost of x is a sum over items, groups of them and pools, else the reason it is not."""
    if isinstance(problem.prior, FactoredPrior):
        return None
    kind = type(problem.prior).__name__
    return f"its prior {kind} is not a sum over items and groups: it has no `costs` (Exhaustive takes any)."


@dataclass(frozen=True, eq=False)
class Model:
    """What all instances of a problem share, on one device; FREE is also a number of defectives that may be any."""

    matrix: Tensor  # (rows, items): the pools, and the number of defectives; float32 like the next two
    inverse: Tensor  # (rows, rows): (A A' + I)^-1
    pull: Tensor  # (items, rows): A' (A A' + I)^-1
    weights: Tensor  # (items,), float64
    known: Tensor  # (items,), int8: 0 or 1 where the prior says so, else FREE
    total: int  # the number of defectives, or FREE
    numbers: Tensor  # (items + 1,), float64: what it costs that 0, 1, ... items are defective
    constant: float
    groups: Groups | None  # of items, with costs of their own
    members: Members | None  # the same, for the minimum over x
    dear: int = 0  # pools that are no longer there, and whose costs in the constant are not the least there are

    @classmethod
    def of(cls, problem: Problem, device: torch.device) -> "Model":
        """Take the costs of the prior, and what the method needs of the design."""
        assert isinstance(problem.prior, FactoredPrior)  # what `supports` says, for the type checker
        return cls.build(problem.design.matrix, problem.prior.costs(problem.items), device)

    @classmethod
    def build(cls, pools: Tensor, costs: ItemCosts, device: torch.device, dear: int = 0) -> "Model":
        """Take pools (pools, items) of 0 and 1, and what items cost."""
        pools = pools.to(device, torch.float64)
        matrix = torch.cat([pools, pools.new_ones(1, pools.shape[1])])
        inverse = torch.linalg.inv(matrix @ matrix.T + torch.eye(len(matrix), dtype=torch.float64, device=device))
        none = torch.zeros(matrix.shape[1] + 1, dtype=torch.float64)
        groups = costs.groups
        return cls(
            matrix.float(),
            inverse.float(),
            (matrix.T @ inverse).float(),
            costs.weights.to(device),
            costs.known.to(device),
            FREE if costs.number is None else costs.number,
            (none if costs.total is None else costs.total).to(device),
            costs.constant,
            groups,
            None if groups is None else Members.of(groups, device),
            dear,
        )

    @cached_property
    def moves(self) -> Tensor:
        """The rows whose counts change with an item: the pools, the number of defectives and the groups; float32."""
        if self.groups is None:
            return self.matrix
        return torch.cat([self.matrix, self.groups.matrix.to(self.matrix)])

    @cached_property
    def group_rises(self) -> Tensor:
        """What the groups cost more with one more defective, from -1 on, finite: (groups, numbers + 1), float32."""
        assert self.groups is not None  # those who ask have looked
        return softened(self.groups.tables.to(self.matrix.device)).diff(dim=1)

    @property
    def most(self) -> Tensor:
        """No possible x costs more, its counts aside; float64."""
        number = torch.where(self.numbers.isfinite(), self.numbers, -torch.inf).amax()
        most = self.constant + self.weights.clamp(min=0.0).sum() + number
        if self.groups is None:
            return most
        tables = self.groups.tables.to(self.matrix.device)
        return most + torch.where(tables.isfinite(), tables, 0.0).amax(1).sum()

    @cached_property
    def number_rises(self) -> Tensor:
        """What 0, 1, ... defectives cost more than one fewer; impossible numbers cost more the farther off they are."""
        possible = self.numbers.isfinite().nonzero()[:, 0]
        at = torch.arange(-1, len(self.numbers) + 1, device=self.numbers.device)
        after = torch.searchsorted(possible, at).clamp(max=len(possible) - 1)
        near = torch.stack([possible[after], possible[(after - 1).clamp(min=0)]])
        far, which = (near - at).abs().min(0)
        nearest = near.gather(0, which[None])[0]
        return (self.numbers[nearest] + FAR * far).float().diff()


@dataclass(frozen=True, eq=False)
class Tables:
    """The costs of a batch's counts: one row for every value that occurs among them, and which one each count has."""

    costs: Tensor  # (values, counts), float64, infinite where impossible
    which: Tensor  # (instances, pools)
    pieces: Tensor  # (2 + twice the pieces, values): start, cost there, slopes, lengths, float64

    @classmethod
    def of(cls, pools: PoolCosts) -> "Tables":
        """The envelope of every table."""
        envelopes = [shortened(envelope_of(row)) for row in pools.tables.cpu().numpy()]
        most = max([1, *(len(envelope.slopes) for envelope in envelopes)])
        pieces = np.zeros((2 + 2 * most, len(envelopes)))
        for column, (start, cost, slopes, lengths) in zip(pieces.T, envelopes, strict=True):
            column[:2] = start, cost
            column[2 : 2 + len(slopes)] = slopes
            column[2 + most : 2 + most + len(slopes)] = lengths
        return cls(pools.tables, pools.which, torch.from_numpy(pieces).to(pools.which.device))

    @cached_property
    def rises(self) -> Tensor:
        """What counts cost more with one more defective, from -1 on, finite: (values, counts + 1), float32."""
        return softened(self.costs).diff(dim=1)


def shortened(envelope: Envelope) -> Envelope:
    """An envelope of few pieces, nowhere above the given one."""
    start, cost, slopes, lengths = envelope
    if len(slopes) <= PIECES:
        return envelope
    first = min(max(int(np.searchsorted(slopes, 0.0)) - PIECES // 2, 0), len(slopes) - PIECES)
    before, after = lengths[:first].sum(), lengths[first + PIECES :].sum()
    # The tangents at both ends of what is kept lie below the rest.
    cost += float((slopes[:first] * lengths[:first]).sum() - slopes[first] * before)
    slopes, lengths = slopes[first : first + PIECES], lengths[first : first + PIECES].copy()
    lengths[0] += before
    lengths[-1] += after
    return Envelope(start, cost, slopes, lengths)
