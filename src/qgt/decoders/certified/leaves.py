"""What leaves show: plain sums over one instance's costs. NumPy only, and nothing of the solver.

A leaf is a set of x: some items fixed, the number of defectives k between two numbers. With multipliers pi of the pools
and r_j = w_j - (A' pi)_j, every x of k defectives in it costs

    cost(x) = constant + sum_j w_j x_j + sum_i f_i((A x)_i)
           >= constant + sum of the fixed r_j + the least free r_j, as many as make k
                       + sum_i min over c of (f_i(c) + pi_i c)  =:  bound,

with the costs of the prior's groups, where it has any, inside the minimum over the free items (`item_sums`).

The leaf is closed below a limit if that bound reaches it; or if the bounds of all x but the cheapest one do, for any
other has a free item turned round; and that one is listed, or costs what the limit is.

Where all items weigh the same and a count costs one of at most two values, the costs of x with k defectives have steps,
and a bound above the last step below the limit reaches it. Sums are in float64, and bounds are lowered by more than
they can round off.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from qgt.decoders.certified.item_sums import Group, groups_of, least_by_number, own_and_turned
from qgt.decoders.envelopes import Floats
from qgt.decoders.results import Proof
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

    @classmethod
    def of(cls, proof: Proof) -> "Leaves":
        """The leaves of a proof for one instance."""
        fixed, least, most, pi = (part.cpu().numpy() for part in (proof.fixed, proof.least, proof.most, proof.pi))
        return cls(fixed, least, most, pi.astype(np.float64))

    def pick(self, keep: NDArray[np.int64] | NDArray[np.bool_] | slice) -> "Leaves":
        """Some of the leaves."""
        return Leaves(self.fixed[keep], self.least[keep], self.most[keep], self.pi[keep])

    def parts(self) -> Iterator["Leaves"]:
        """Some leaves at a time, so that memory does not grow with their number."""
        rows = max(1, CHUNK // max(1, self.fixed.shape[1]))
        for start in range(0, len(self.least), rows):
            yield self.pick(slice(start, start + rows))


@dataclass(frozen=True, eq=False)
class Shared:
    """The costs that all instances of a problem have in common."""

    matrix: Floats  # (pools, items)
    weights: Floats  # (items,)
    known: NDArray[np.int8]  # (items,): 0 or 1 where the prior settles an item, else FREE
    numbers: Floats  # (items + 1,): what it costs that 0, 1, ... items are defective; infinite where impossible
    constant: float
    groups: tuple[Group, ...]  # of the prior; none where it has none

    @classmethod
    def of(cls, factors: Factors) -> "Shared":
        """From the problem alone."""
        items, matrix = factors.items, factors.design.matrix.cpu().numpy().astype(np.float64)
        numbers = np.zeros(len(items.weights) + 1) if items.total is None else items.total.numpy()
        groups = groups_of(items.groups)
        return cls(matrix, items.weights.numpy(), items.known.numpy(), numbers, items.constant, groups)

    @property
    def most(self) -> float:
        """No possible x costs more, its counts aside."""
        number = self.numbers[np.isfinite(self.numbers)].max()
        groups = sum(group.table[np.isfinite(group.table)].max(initial=0.0) for group in self.groups)
        return float(self.constant + np.maximum(self.weights, 0.0).sum() + number + groups)


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
    """Whether boxes of a cube, rows of 0, 1 and FREE, cover it, as the leaves of a tree of splits do."""
    todo = [fixed]
    while todo:
        boxes = todo.pop()
        if (boxes == FREE).all(1).any():
            continue  # one of them is the whole cube
        split = (boxes != FREE).all(0) & (len(boxes) > 0)
        if not split.any():
            return False
        item = int(split.argmax())
        for value in (0, 1):
            half = boxes[boxes[:, item] == value].copy()
            half[:, item] = FREE
            todo.append(half)
    return True


def closed(costs: Costs, limit: float, listed: NDArray[np.uint8], leaves: Leaves) -> NDArray[np.bool_]:
    """Whether each leaf holds nothing below the limit but x that are listed: (leaves,)."""
    names = {row.tobytes() for row in listed}
    parts = [_closed(costs, limit, names, part) for part in leaves.parts()]
    return np.concatenate([np.zeros(0, dtype=bool), *parts])


def _closed(costs: Costs, limit: float, listed: set[bytes], leaves: Leaves) -> NDArray[np.bool_]:
    fixed, least, most = leaves.fixed, leaves.least, leaves.most
    fine: NDArray[np.bool_] = np.asarray(np.isfinite(leaves.pi).all(1))
    pi = np.where(fine[:, None], leaves.pi, 0.0)
    free, counts = fixed == FREE, np.arange(costs.tables.shape[1])
    reduced = costs.shared.weights - pi @ costs.shared.matrix
    cheapest = least_by_number(costs.shared.groups, fixed, reduced)
    pools = sum((row + pi[:, i, None] * counts).min(1) for i, row in enumerate(costs.tables))
    base = costs.shared.constant + np.where(fixed == 1, reduced, 0.0).sum(1) + pools - _rounding(costs, pi)

    leaf, total = _pairs(least, most, fixed.shape[1])
    number = total - (fixed == 1).sum(1)[leaf]  # of free items that are defective
    possible = (number >= 0) & (number <= free.sum(1)[leaf])
    leaf, total, number = leaf[possible], total[possible], number[possible]
    bound, enough = base[leaf] + cheapest[leaf, number] + costs.shared.numbers[total], costs.enough(limit)[total]
    left = ~(bound >= enough)
    leaf, number, bound, enough = leaf[left], number[left], bound[left], enough[left]

    own, more = own_and_turned(costs.shared.groups, fixed[leaf], reduced[leaf], number)
    alone = bound + more.min(1, initial=np.inf) >= enough
    fine[leaf[~alone]] = False
    leaf, own = leaf[alone], own[alone]
    dear = costs.of_x(own) >= limit - MARGIN
    for at, row, ok in zip(leaf.tolist(), own, dear.tolist(), strict=True):
        if not ok and row.tobytes() not in listed:
            fine[at] = False
    return fine


def _rounding(costs: Costs, pi: Floats) -> Floats:
    """More than all sums of a leaf can be off: float64's precision times their terms and their number; (leaves,)."""
    matrix, weights = costs.shared.matrix, costs.shared.weights
    finite = np.where(np.isfinite(costs.tables), np.abs(costs.tables), 0.0).max(1).sum()
    items = np.abs(weights).sum() + (np.abs(pi) @ matrix).sum(1)
    number = np.abs(costs.shared.numbers[np.isfinite(costs.shared.numbers)]).max()
    number += sum(np.abs(group.table[np.isfinite(group.table)]).max(initial=0.0) for group in costs.shared.groups)
    terms = abs(costs.shared.constant) + number + finite + items + np.abs(pi).sum(1) * costs.tables.shape[1]
    return np.asarray(4 * np.finfo(np.float64).eps * (sum(matrix.shape) + 10) * terms)


def _pairs(least: NDArray[np.int64], most: NDArray[np.int64], items: int) -> tuple[NDArray[np.int64], ...]:
    """Every leaf with every number of defectives it may have."""
    k = np.arange(items + 1)
    return ((k >= least[:, None]) & (k <= most[:, None])).nonzero()
