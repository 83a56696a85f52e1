"""One instance's leaves and costs, and whether the leaves hold every x: nothing of the solver.

Where all items weigh the same and a count costs one of at most two values, the costs of x with k defectives have steps,
and a bound above the last step below the limit reaches it. What a leaf shows is in `closing`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from qgt.decoders.certified.item_sums import Group, groups_of
from qgt.decoders.envelopes import Floats
from qgt.decoders.results import KEPT, Proof
from qgt.model.design import Design
from qgt.model.factors import Factors
from qgt.model.prior import FREE

MARGIN = 1e-7
CHUNK = 2**22  # leaves times items at a time


class Leaves(NamedTuple):
    """One instance's leaves."""

    fixed: NDArray[np.int8]  # (leaves, items): 0, 1 or FREE
    least: NDArray[np.int64]
    most: NDArray[np.int64]
    pi: Floats  # (leaves, pools)
    shares: Floats  # (leaves, memberships), or (leaves, 0)

    @classmethod
    def of(cls, proof: Proof) -> "Leaves":
        """The leaves of a proof for one instance."""
        fixed, least, most = (part.cpu().numpy() for part in (proof.fixed, proof.least, proof.most))
        return cls(fixed, least, most, proof.pi.double().cpu().numpy(), proof.shares.double().cpu().numpy())

    def pick(self, keep: NDArray[np.int64] | NDArray[np.bool_] | slice) -> "Leaves":
        """Some of the leaves."""
        return Leaves(self.fixed[keep], self.least[keep], self.most[keep], self.pi[keep], self.shares[keep])

    def parts(self) -> Iterator["Leaves"]:
        """Some leaves at a time, so that memory does not grow with their number."""
        rows = max(1, CHUNK // max(1, self.fixed.shape[1], self.shares.shape[1]))
        for start in range(0, len(self.least), rows):
            yield self.pick(slice(start, start + rows))


@dataclass(frozen=True, eq=False)
class Shared:
    """The costs that all instances of a problem have in common."""

    matrix: Any  # (pools, items): an array of floats, or a csr_array of them where it is sparse
    weights: Floats  # (items,)
    known: NDArray[np.int8]  # (items,): 0 or 1 where the prior settles an item, else FREE
    numbers: Floats  # (items + 1,): what it costs that 0, 1, ... items are defective; infinite where impossible
    constant: float
    groups: tuple[Group, ...]  # of the prior; none where it has none
    members: NDArray[np.int64]  # (memberships,): the items of each pool in order, pool by pool
    starts: NDArray[np.int64]  # (pools + 1,): where those of each pool begin

    @classmethod
    def of(cls, factors: Factors) -> "Shared":
        """From the problem alone."""
        items, matrix = factors.items, _matrix(factors.design)
        numbers = np.zeros(len(items.weights) + 1) if items.total is None else items.total.numpy()
        groups, lists = groups_of(items.groups), factors.design.lists
        members, starts = lists.entries.cpu().numpy(), lists.starts.cpu().numpy()
        return cls(matrix, items.weights.numpy(), items.known.numpy(), numbers, items.constant, groups, members, starts)

    @property
    def most(self) -> float:
        """No possible x costs more, its counts aside."""
        number = self.numbers[np.isfinite(self.numbers)].max()
        groups = sum(group.table[np.isfinite(group.table)].max(initial=0.0) for group in self.groups)
        return float(self.constant + np.maximum(self.weights, 0.0).sum() + number + groups)


def _matrix(design: Design) -> Any:
    if not design.sparse:
        return design.matrix.cpu().numpy().astype(np.float64)
    from scipy.sparse import csr_array

    lists = design.lists
    where = lists.entries.numpy(), lists.starts.numpy()
    return csr_array((np.ones(design.transfers), *where), shape=(design.pools, design.items))


@dataclass(frozen=True, eq=False)
class Costs:
    """The costs of one instance."""

    shared: Shared
    tables: Floats  # (pools, counts), infinite where impossible

    @classmethod
    def of(cls, shared: Shared, factors: Factors, instance: int) -> "Costs":
        """A pool has no more defectives than items."""
        tables, sizes = factors.pools.of_instance(instance).cpu(), factors.design.pool_sizes.cpu()
        tables = torch.where(torch.arange(tables.shape[1]) <= sizes[:, None], tables, torch.inf)
        return cls(shared, tables.numpy())

    @property
    def possible(self) -> bool:
        """Whether each pool's count, taken alone, is possible."""
        return bool(np.isfinite(self.tables).any(1).all())

    @property
    def more_than_any(self) -> float:
        """More than any possible x costs."""
        finite = np.where(np.isfinite(self.tables), self.tables, -np.inf).max(1)
        return float(self.shared.most + finite.sum() + 1.0)

    def of_x(self, x: NDArray[np.uint8]) -> Floats:
        """The costs of whole x: (rows,)."""
        known, ones = self.shared.known, np.minimum(x, 1)
        possible = ((known == FREE) | (known == x)).all(1) & (x <= 1).all(1)
        number = self.shared.numbers[ones.sum(1, dtype=np.int64)]
        for group in self.shared.groups:
            number = number + group.table[ones[:, group.items].sum(1, dtype=np.int64)]
        counts = (ones.astype(np.float64) @ self.shared.matrix.T).astype(np.int64)
        pools = self.tables[np.arange(len(self.tables)), counts].sum(1)
        return np.asarray(np.where(possible, self.shared.constant + x @ self.shared.weights + pools + number, np.inf))

    def enough(self, limit: float) -> Floats:
        """The bound at which no x of 0, 1, ... defectives costs less than the limit: (items + 1,)."""
        weights, known = self.shared.weights, self.shared.known
        free, finite = known == FREE, self.tables[np.isfinite(self.tables)]
        k = np.arange(len(known) + 1)
        if not len(finite) or not free.any() or np.ptp(weights[free]) > 0 or self.shared.groups:
            return np.full(len(k), limit)
        low, high = finite.min(), finite.max()
        if np.minimum(finite - low, high - finite).max() >= 1e-12:
            return np.full(len(k), limit)
        base = self.shared.constant + weights[free][0] * (k - (known == 1).sum()) + len(self.tables) * low
        base = base + self.shared.numbers
        if high - low < 1e-12:  # one value: one step
            return np.where(base < limit, base + MARGIN, -np.inf)
        if high - low <= 1e-3:  # steps too small to tell apart
            return np.full(len(k), limit)
        reached = np.full(len(k), -np.inf)  # of numbers that are impossible, or dear enough by themselves
        some = base < limit
        steps = np.ceil((limit - base[some]) / (high - low)) - 1
        reached[some] = np.where(steps >= 0, base[some] + (high - low) * steps + MARGIN, -np.inf)
        return reached


def hold_every_x(shared: Shared, leaves: Leaves) -> bool:
    """Whether every possible x is in some leaf: for each k, the leaves split the cube item by item."""
    fixed, free = leaves.fixed, shared.known == FREE
    agree = ((fixed[:, ~free] == FREE) | (fixed[:, ~free] == shared.known[~free])).all(1)
    fixed, least, most = fixed[agree][:, free], leaves.least[agree], leaves.most[agree]
    totals = np.flatnonzero(np.isfinite(shared.numbers)).tolist()
    seen: set[bytes] = set()  # most k have the same leaves as their neighbours
    for total in totals:
        here = (least <= total) & (total <= most)
        if here.tobytes() not in seen and not _covers(fixed[here]):
            return False
        seen.add(here.tobytes())
    return True


def _covers(fixed: NDArray[np.int8]) -> bool:
    """Whether boxes of a cube, rows of 0, 1 and FREE, cover it, as the leaves of a tree of splits do.

    A row that keeps items and has no other fixed takes away all but the part of the cube where they are as kept.
    """
    todo = [fixed]
    while todo:
        boxes = todo.pop()
        if (boxes == FREE).all(1).any():
            continue  # one of them is the whole cube
        keeps = ((boxes == FREE) | (boxes == KEPT) | (boxes == KEPT + 1)).all(1)
        if keeps.any():
            row = boxes[int(keeps.argmax())]
            at = np.flatnonzero(row != FREE)
            rest = boxes[np.arange(len(boxes)) != int(keeps.argmax())]
            rest = rest[((rest[:, at] == FREE) | (rest[:, at] == row[at] - KEPT)).all(1)]
            rest[:, at] = FREE
            todo.append(rest)
            continue
        split = ((boxes == 0) | (boxes == 1)).all(0) & (len(boxes) > 0)
        if not split.any():
            return False
        item = int(split.argmax())
        for value in (0, 1):
            half = boxes[boxes[:, item] == value].copy()
            half[:, item] = FREE
            todo.append(half)
    return True
