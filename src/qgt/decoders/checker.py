"""The checker of proofs. It needs no search and no optimisation: only sums, sorts and comparisons.

This file is meant to be printed and read from top to bottom by somebody who does not believe the search. It imports
nothing of the search (`decoders/certified`), and the search imports nothing of it; a test of the layers forbids both.
All numbers are NumPy's float64. Torch appears where a result comes in and where the verdict goes out.

**What is claimed.** For one instance, with counts y, the cost of x is -log P(x, y). A result claims one of

    optimal      no x costs less than the answer
    listed       every x that costs less than the answer's cost plus log(odds) is among the alternatives
    impossible   no x has a finite cost

**What is given.** A certificate is a list of leaves. A leaf is a set of x: some items are fixed to 0 or 1, the others
are free, and the number of defectives k lies between two numbers. Some sets of free items may have a defective each.
With a leaf come multipliers: pi_i for each pool i, and perhaps a share s_ij for each item j of each pool i. Anybody may
have made them up; nothing below believes them.

**What is shown.** A claim holds if two things are true.

    cover     The leaves together contain every x (section 3).
    closed    No leaf contains an x that costs less than the limit, except x that are listed (section 4). The limit is
              the answer's cost (optimal), that cost plus log(odds) (listed), or more than any possible x costs
              (impossible).

**Why a bound holds for any multipliers.** With r_j = w_j - (A' pi)_j, every x of k defectives in a leaf costs

    cost(x) = constant + sum_j w_j x_j + T(k) + groups + sum_i f_i((A x)_i)
            = constant + sum_j r_j x_j + T(k) + groups + sum_i [f_i((A x)_i) + pi_i (A x)_i]
           >= constant + T(k) + sum of the fixed r_j + the least free r_j, as many as make k
                       + sum_i min over c of (f_i(c) + pi_i c)  =:  bound,

because what pi takes from the items it adds to the pools, and a minimum over more is never larger. Shares do the same:
pool i gives s_ij to its item j, which raises r_j, and pays back the most that c of its items can have received.

**What is trusted.** The tables f_i and the costs of items and groups come from the problem (`Problem.factors`), as they
do for the search. They are not believed without a check: the cost of the answer and of every listed x is computed a
second time by the model's own `log_prob`, and nothing is shown where the two differ. Float64 is trusted to round as
IEEE 754 says. Bounds are lowered by more than they can have been rounded up, and nothing is shown where a cost is so
large that float64 cannot tell costs apart.

**Reading order.** 1 the costs of one instance; 2 the leaves; 3 do they cover every x; 4 are they closed; 5 the part of
a bound that belongs to the items; 6 the part that belongs to the pools; 7 rounding; 8 the verdict; 9 items with copies
or categories; 10 the border, where malformed results are refused.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float64
from numpy.typing import NDArray
from torch import Tensor

from qgt.decoders.contract import check_counts
from qgt.decoders.parts import to_parts
from qgt.decoders.results import Decoded, Floats, LeafItem, Proof, Spans, Status
from qgt.model.categories import Categories, Copies
from qgt.model.design import Design
from qgt.model.factors import Factors
from qgt.model.prior import ALONE, FREE, FactoredPrior, Groups, Prior
from qgt.model.problem import Problem

# Nats: an x that is more probable by a factor of 1.000002 counts as equally probable. The search closes its nodes to
# SEARCH_TOLERANCE = 1e-6, half of this. The other half is room for the rounding by which bounds are lowered here
# (section 7): with equal tolerances an honest proof whose bound only just reaches the limit would be refused.
CHECKER_TOLERANCE = 2e-6
STEP_MARGIN = 1e-7  # nats between a bound and a step of the costs, so that the bound is surely above the step
TOO_MUCH = 1e-6  # of a probability, by which it may exceed what the listed answers allow
BIG_M = 1e6  # nats: what an impossible range costs more, so that sums stay finite
NUMBERS_AT_A_TIME = 2**20  # numbers in one array at a time, so that memory does not grow with the certificate
EPS = float(np.finfo(np.float64).eps)  # twice the largest relative error of one operation in float64


# --- 1. The costs of one instance -----------------------------------------------------------------------------------


class ItemGroup(NamedTuple):
    """Some items of the prior, such as a household, and what it costs that 0, 1, ... of them are defective.

    The items of an ordered group, such as the copies of a gene, are defective in order: no item without those before.
    """

    items: NDArray[np.int64]
    table: Floats
    ordered: bool = False

    def costs(self, ones: Floats) -> Floats:
        """What each row of x costs the group: (rows,)."""
        here = ones[:, self.items]
        cost = self.table[here.sum(1).astype(np.int64)]
        return np.where((here[:, 1:] <= here[:, :-1]).all(1), cost, np.inf) if self.ordered else cost


def groups_of(groups: Groups | None) -> tuple[ItemGroup, ...]:
    """The groups of a prior, and one more of all items in no group, which costs nothing; () without groups."""
    if groups is None:
        return ()
    group, tables = groups.group.cpu().numpy(), groups.tables.cpu().numpy()
    found = [ItemGroup(np.flatnonzero(group == i), table, groups.ordered) for i, table in enumerate(tables)]
    alone = np.flatnonzero(group == ALONE)
    return (*found, ItemGroup(alone, np.zeros(len(alone) + 1)))


@dataclass(frozen=True, eq=False)
class Shared:
    """The costs that all instances of a problem have in common. Known items weigh nothing (`ItemCosts` sees to it)."""

    matrix: Any  # (pools, items): an array of floats, or a csr_array of them where it is sparse
    weights: Floats  # (items,)
    known: NDArray[np.int8]  # (items,): 0 or 1 where the prior settles an item, otherwise FREE
    numbers: Floats  # (items + 1,): what it costs that 0, 1, ... items are defective; infinite where impossible
    constant: float
    groups: tuple[ItemGroup, ...]  # of the prior; none where it has none
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


def _matrix(design: Design) -> Any:
    if not design.sparse:
        return design.matrix.cpu().numpy().astype(np.float64)
    from scipy.sparse import csr_array

    lists = design.lists
    where = lists.entries.numpy(), lists.starts.numpy()
    return csr_array((np.ones(design.transfers), *where), shape=(design.pools, design.items))


@dataclass(frozen=True, eq=False)
class InstanceCosts:
    """The costs of one instance."""

    shared: Shared
    tables: Floats  # (pools, counts): f_i(c), infinite where impossible

    @classmethod
    def of(cls, shared: Shared, factors: Factors, instance: int) -> "InstanceCosts":
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
        """More than any possible x costs, even after rounding."""
        shared, finite = self.shared, np.array([_largest(table) for table in self.tables])
        groups, number = [_largest(group.table) for group in shared.groups], _largest(shared.numbers)
        most = shared.constant + np.maximum(shared.weights, 0.0).sum() + number + sum(groups) + finite.sum()
        terms = abs(shared.constant) + np.abs(shared.weights).sum() + abs(number) + sum(map(abs, groups))
        additions = len(self.tables) + len(shared.weights) + len(groups) + 10
        return float(most + 1.0 + 4 * EPS * additions * (terms + np.abs(finite).sum()))

    def of_x(self, x: NDArray[np.uint8]) -> Floats:
        """The costs of whole x: (rows,). Infinite where an x is impossible, or has other values than 0 and 1."""
        return self.of_x_and_blur(x)[0]

    def of_x_and_blur(self, x: NDArray[np.uint8]) -> tuple[Floats, Floats]:
        """The costs of whole x, and how far each may be off in float64: (rows,) each."""
        rows = max(1, NUMBERS_AT_A_TIME // max(1, x.shape[1], len(self.tables)))
        parts = [self._of_rows(x[start : start + rows]) for start in range(0, len(x), rows)]
        none = np.zeros(0)
        return np.concatenate([none, *(part[0] for part in parts)]), np.concatenate([none, *(p[1] for p in parts)])

    def _of_rows(self, x: NDArray[np.uint8]) -> tuple[Floats, Floats]:
        shared = self.shared
        possible = ((shared.known == FREE) | (shared.known == x)).all(1) & ((x == 0) | (x == 1)).all(1)
        ones = np.where(possible[:, None], x, 0).astype(np.float64)
        terms = [np.full(len(x), shared.constant), shared.numbers[ones.sum(1).astype(np.int64)]]
        terms += [group.costs(ones) for group in shared.groups]
        counts = (ones @ shared.matrix.T).astype(np.int64)
        pools = self.tables[np.arange(len(self.tables)), counts]
        # NumPy sums a row in pairs, in blocks of 128: no term goes through more than 64 + log2(terms) additions.
        items = ones * shared.weights
        cost = items.sum(1) + pools.sum(1) + sum(terms)
        size = np.abs(items).sum(1) + np.abs(pools).sum(1) + sum(np.abs(term) for term in terms)
        additions = 80 + math.log2(sum(shared.matrix.shape)) + len(shared.groups)
        cost = np.where(possible, cost, np.inf)
        return cost, np.where(np.isfinite(cost), 4 * EPS * additions * size, 0.0)

    def enough(self, limit: float) -> Floats:
        """The bound at which no x of 0, 1, ... defectives costs less than the limit: (items + 1,).

        That is the limit. It may be less where costs have steps: where all free items weigh the same, and what a pool
        costs above its least is a multiple of one step for all pools, an x of k defectives costs base(k),
        base(k) + step, base(k) + 2 steps, ..., and a bound above the last of these below the limit is as good as one
        at the limit. A pool whose count is missing costs the same whatever x is.
        """
        weights, known = self.shared.weights, self.shared.known
        free, possible = known == FREE, np.isfinite(self.tables)
        k = np.arange(len(known) + 1)
        if not possible.any() or not free.any() or np.ptp(weights[free]) > 0 or self.shared.groups:
            return np.full(len(k), limit)
        low = np.where(possible, self.tables, np.inf).min(1)
        low = np.where(np.isfinite(low), low, 0.0)  # with an impossible count every x is, and any bound is enough
        above = (self.tables - low[:, None])[possible]
        settled = weights[known == 1].sum()  # 0 as `ItemCosts` makes them, but this does not rely on it
        base = self.shared.constant + settled + weights[free][0] * (k - (known == 1).sum()) + low.sum()
        base = base + self.shared.numbers
        size = abs(self.shared.constant) + abs(settled) + abs(weights[free][0]) * len(k) + np.abs(low).sum()
        step = _common_step(above[above >= 1e-12], STEP_MARGIN / 4 / len(low))
        if step is None or 160 * EPS * (size + _largest(np.abs(self.shared.numbers))) > STEP_MARGIN / 2:
            return np.full(len(k), limit)
        if step == 0.0:  # every x of k defectives costs the same
            return np.where(base < limit, base + STEP_MARGIN, -np.inf)
        reached = np.full(len(k), -np.inf)  # of numbers that are impossible, or cost enough by themselves
        some = base < limit
        steps = np.ceil((limit - base[some]) / step) - 1
        reached[some] = np.where(steps >= 0, base[some] + step * steps + STEP_MARGIN, -np.inf)
        return reached


def _common_step(values: Floats, beside: float) -> float | None:
    """The largest number of which all values, which are positive, are multiples up to `beside`.

    It is 0 without values, and None where it is too small to tell one multiple from the next. Whatever it is, it is
    compared with all values in the end.
    """
    if not len(values):
        return 0.0
    step, largest = float(values.min()), float(values.max())
    while step > 1e-3:  # Euclid's algorithm with all values at once
        rest = np.abs(values - step * np.round(values / step))
        if rest.max() <= 1e-6:
            break
        step = float(rest[rest > 1e-6].min())
    if step <= 1e-3:
        return None
    step = largest / round(largest / step)  # of which rounding changes least
    return step if np.abs(values - step * np.round(values / step)).max() <= beside else None


def _largest(table: Floats) -> float:
    """The largest finite number of a table; 0 where it has none."""
    finite = table[np.isfinite(table)]
    return float(finite.max()) if len(finite) else 0.0


# --- 2. Leaves ------------------------------------------------------------------------------------------------------


class LeafTable(NamedTuple):
    """One instance's leaves.

    The items of a leaf have the codes of `LeafItem`. Items below FREE are free as well, and of those that have the same
    code at least one is 1: a *set with a defective*. A leaf with BOX items is a *complement leaf*: it contains only the
    x in which at least one BOX item has the other value. Its neighbour, with these items fixed, contains the rest.
    """

    fixed: NDArray[np.int8]  # (leaves, items)
    least: NDArray[np.int64]
    most: NDArray[np.int64]
    pi: Floats  # (leaves, pools)
    shares: Floats  # (leaves, memberships), or (leaves, 0)

    @classmethod
    def of(cls, proof: Proof) -> "LeafTable":
        """The leaves of a proof for one instance."""
        fixed, least, most = (part.cpu().numpy() for part in (proof.fixed, proof.least, proof.most))
        return cls(fixed, least, most, proof.pi.double().cpu().numpy(), proof.shares.double().cpu().numpy())

    def pick(self, keep: NDArray[np.int64] | NDArray[np.bool_] | slice) -> "LeafTable":
        """Some of the leaves."""
        return LeafTable(self.fixed[keep], self.least[keep], self.most[keep], self.pi[keep], self.shares[keep])

    def parts(self) -> Iterator["LeafTable"]:
        """Some leaves at a time, so that memory does not grow with their number."""
        rows = max(1, NUMBERS_AT_A_TIME // max(1, self.fixed.shape[1], self.pi.shape[1], self.shares.shape[1]))
        for start in range(0, len(self.least), rows):
            yield self.pick(slice(start, start + rows))


# --- 3. Do the leaves cover every x? --------------------------------------------------------------------------------


def hold_every_x(shared: Shared, leaves: LeafTable) -> bool:
    """Whether every possible x is in some leaf: for each k, the leaves split the cube item by item, or by groups."""
    fixed, free = leaves.fixed, shared.known == FREE
    place = np.cumsum(free) - 1  # of each free item among these
    groups = [place[group.items[free[group.items]]] for group in shared.groups]
    agree = ((fixed[:, ~free] == FREE) | (fixed[:, ~free] == shared.known[~free])).all(1)
    fixed, least, most = fixed[agree][:, free], leaves.least[agree], leaves.most[agree]
    before: NDArray[np.bool_] | None = None  # most k have the same leaves as the k before
    for total in np.flatnonzero(np.isfinite(shared.numbers)).tolist():
        here = (least <= total) & (total <= most)
        if (before is None or not np.array_equal(here, before)) and not _covers(fixed[here], groups):
            return False
        before = here
    return True


class _Region(NamedTuple):
    """A part of the cube, and boxes that have to cover it, in which items that are the same in all of it are FREE."""

    boxes: NDArray[np.int8]
    unsplit: NDArray[np.bool_]  # (items,): the items that may be 0 and 1 in the part
    needs: tuple[frozenset[int], ...]  # of each of these sets of items at least one is 1 in the part

    def half(self, boxes: NDArray[np.int8], items: NDArray[np.int64], values: NDArray[np.int64]) -> "_Region | None":
        """The part in which some items have values, with its boxes; None where no x is in it."""
        boxes, unsplit = boxes.copy(), self.unsplit.copy()
        boxes[:, items], unsplit[items] = FREE, False
        zeros, ones = set(items[values == 0].tolist()), set(items[values == 1].tolist())
        needs = tuple(need - zeros for need in self.needs if not need & ones)
        return None if frozenset() in needs else _Region(boxes, unsplit, needs)


def _covers(fixed: NDArray[np.int8], groups: Sequence[NDArray[np.int64]] = ()) -> bool:
    """Whether boxes of a cube, rows of 0, 1 and FREE, cover it, as the leaves of a tree of splits do.

    A box without fixed items is the whole cube. A complement leaf without fixed items leaves only the part of the cube
    where its BOX items have their values. Otherwise some item must be fixed in every box, and its two halves must each
    be covered; or the items of a group must be 0 in some boxes, and have a 1 among them in all others (`_by_group`).
    Boxes of which none of this is true may cover the cube all the same; they are not accepted.
    """
    todo: list[_Region | None] = [_Region(fixed, np.ones(fixed.shape[1], dtype=bool), ())]
    while todo:
        region = todo.pop()
        if region is None or (region.boxes == FREE).all(1).any():
            continue
        boxes = region.boxes
        complement = ((boxes == FREE) | (boxes == LeafItem.BOX_0) | (boxes == LeafItem.BOX_1)).all(1)
        if complement.any():
            row = boxes[int(complement.argmax())]
            at = np.flatnonzero(row != FREE)
            rest = boxes[np.arange(len(boxes)) != int(complement.argmax())]
            rest = rest[((rest[:, at] == FREE) | (rest[:, at] == row[at] - LeafItem.BOX_0)).all(1)]
            todo.append(region.half(rest, at, row[at] - np.int64(LeafItem.BOX_0)))
            continue
        split = ((boxes == 0) | (boxes == 1)).all(0) & (len(boxes) > 0)
        if split.any():
            item = split.argmax(keepdims=True)
            halves = [region.half(boxes[boxes[:, item[0]] == v], item, np.array([v])) for v in (0, 1)]
        else:
            halves = _by_group(region, groups)
        if not halves:
            return False
        todo += halves
    return True


def _by_group(region: _Region, groups: Sequence[NDArray[np.int64]]) -> "list[_Region | None]":
    """The two parts in which the unsplit items of some group are all 0, and have a 1 among them; [] where none splits.

    Every box must be in one of the two. A box is in the first if all these items are 0 in it. It is in the second if
    one of them is 1, or if each of them is either 0 or in one set with a defective that has no other items. In the
    second part such a set says nothing new, so its items are FREE there.
    """
    boxes = region.boxes
    for group in groups if len(boxes) else ():
        items = group[region.unsplit[group]]
        here = boxes[:, items]
        again = any(need <= set(items.tolist()) for need in region.needs)  # one of them is 1 in the whole part
        if not len(items) or again or (here[0] == FREE).all():
            continue
        code = here.min(1, keepdims=True)
        alone = (code <= LeafItem.SOME)[:, 0] & ((here == code) | (here == 0)).all(1)
        alone &= (boxes == code).sum(1) == (here == code).sum(1)
        zero, one = (here == 0).all(1), (here == 1).any(1)
        if (zero | one | alone).all():
            second = boxes.copy()
            second[:, items] = np.where(alone[:, None] & (here == code), np.int8(FREE), here)
            some = _Region(second[~zero], region.unsplit, (*region.needs, frozenset(items.tolist())))
            return [region.half(boxes[zero], items, np.zeros(len(items), dtype=np.int64)), some]
    return []


# --- 4. Are the leaves closed? --------------------------------------------------------------------------------------
#
# A leaf is closed below a limit if its bound reaches the limit. It is also closed if all x but the cheapest (by r_j)
# have a bound that reaches the limit, and the cheapest x is listed or costs as much as the limit. Any other x has a
# free item turned round: that changes the sum of the r_j (section 5) and the counts that the item's pools can have
# (section 6). Both are tried for each k; where that fails, for all k at once, where the cheapest x has all items of
# negative r_j. A complement leaf contains only x with one of its BOX items turned, so it is closed if turning any
# one of them reaches the limit.


def closed(costs: InstanceCosts, limit: float, listed: NDArray[np.uint8], leaves: LeafTable) -> NDArray[np.bool_]:
    """Whether each leaf contains nothing below the limit but x that are listed: (leaves,)."""
    names = {row.tobytes() for row in listed}
    parts = [np.zeros(0, dtype=bool)]
    for part in leaves.parts():
        fine = _closed(_Sums.of(costs, part, ranged=False), limit, names)
        if not fine.all():  # ranges of counts take longer to look at, and most leaves do without
            fine[~fine] = _closed(_Sums.of(costs, part.pick(~fine), ranged=True), limit, names)
        parts.append(fine)
    return np.concatenate(parts)


class _Sums(NamedTuple):
    """What some leaves' multipliers give."""

    costs: InstanceCosts
    leaves: LeafTable
    fixed: NDArray[np.int8]  # (leaves, items): 0, 1, or free: FREE, which BOX items are too, or less
    pi: Floats  # (leaves, pools): finite
    shares: Floats  # (leaves, memberships), or (leaves, 0): finite
    reduced: Floats  # (leaves, items): r_j
    base: Floats  # (leaves,): the bound without free items and their number, rounded down
    ranged: bool  # whether pools have only the counts that fixed items leave

    @classmethod
    def of(cls, costs: InstanceCosts, leaves: LeafTable, *, ranged: bool) -> "_Sums":
        finite = _finite(leaves)[:, None]
        pi, shares = np.where(finite, leaves.pi, 0.0), np.where(finite, leaves.shares, 0.0)
        fixed = np.where(leaves.fixed >= LeafItem.BOX_0, np.int8(FREE), leaves.fixed)
        reduced = costs.shared.weights - pi @ costs.shared.matrix + _given_to_items(costs.shared, shares)
        reduced = np.ascontiguousarray(reduced)  # NumPy sums rows in pairs
        pools, size = np.zeros(len(pi)), np.zeros(len(pi))
        ranges = _counts_between(costs, fixed) if ranged else None
        for i in range(len(costs.tables)):
            table = _lowered_table(costs, pi, shares, i, fixed if ranged else None)
            least = _least(table, None if ranges is None else (ranges[0][:, i], ranges[1][:, i]))
            pools, size = pools + least, size + np.abs(least)
        base = costs.shared.constant + np.where(fixed == 1, reduced, 0.0).sum(1) + pools
        return cls(costs, leaves, fixed, pi, shares, reduced, base - _rounding(costs, pi, shares, size), ranged)


class _Rows(NamedTuple):
    """Leaves with a number of defectives, or with any, that a bound alone does not close."""

    leaf: NDArray[np.int64]
    own: NDArray[np.uint8]  # (rows, items): the cheapest x
    more: Floats  # (rows, items): what it costs more with an item turned round
    bound: Floats  # (rows,)
    enough: Floats  # (rows,)


def _closed(sums: _Sums, limit: float, listed: set[bytes]) -> NDArray[np.bool_]:
    fine = _finite(sums.leaves)
    enough = sums.costs.enough(limit)
    _find_open(sums, _by_number(sums, enough, fine), limit, listed, fine)
    several = ~fine & _finite(sums.leaves) & (sums.leaves.least < sums.leaves.most)
    if several.any() and not sums.costs.shared.groups:
        fine[several] = True
        _find_open(sums, [_at_once(sums, np.flatnonzero(several), enough)], limit, listed, fine)
    return fine


def _find_open(
    sums: _Sums, chunks: "Iterator[_Rows] | list[_Rows]", limit: float, listed: set[bytes], fine: NDArray[np.bool_]
) -> None:
    """Say of the leaves of rows that are not closed that they are not fine."""
    for rows in chunks:
        fine[_open(sums, rows, limit, listed)] = False


def _finite(leaves: LeafTable) -> NDArray[np.bool_]:
    return np.asarray(np.isfinite(leaves.pi).all(1) & np.isfinite(leaves.shares).all(1))


def _by_number(sums: _Sums, enough: Floats, fine: NDArray[np.bool_]) -> Iterator[_Rows]:
    """Each leaf with each number of defectives it may have, a few rows at a time; leaves known to be open are left."""
    shared, fixed = sums.costs.shared, sums.fixed
    k = np.arange(fixed.shape[1] + 1)
    leaf, total = ((k >= sums.leaves.least[:, None]) & (k <= sums.leaves.most[:, None])).nonzero()
    number = total - (fixed == 1).sum(1)[leaf]  # of free items that are defective
    possible = (number >= 0) & (number <= (fixed < 0).sum(1)[leaf])
    leaf, total, number = leaf[possible], total[possible], number[possible]
    bound = sums.base[leaf] + least_by_number(shared.groups, fixed, sums.reduced)[leaf, number] + shared.numbers[total]
    left = np.flatnonzero(~(bound >= enough[total]))
    width = fixed.shape[1] + 2 * len(shared.groups) * (int(number[left].max(initial=0)) + 1)
    rows = max(1, NUMBERS_AT_A_TIME // max(1, width))
    for start in range(0, len(left), rows):
        at = left[start : start + rows]
        at = at[fine[leaf[at]]]
        own, more = own_and_turned(shared.groups, fixed[leaf[at]], sums.reduced[leaf[at]], number[at])
        yield _Rows(leaf[at], own, more, bound[at], enough[total[at]])


def _at_once(sums: _Sums, leaf: NDArray[np.int64], enough: Floats) -> _Rows:
    """Leaves with any of their numbers of defectives: the cheapest x has all items of negative reduced cost."""
    free, reduced = sums.fixed[leaf] < 0, sums.reduced[leaf]
    k = np.arange(len(enough))
    inside = (k >= sums.leaves.least[leaf, None]) & (k <= sums.leaves.most[leaf, None])
    number = np.where(inside, sums.costs.shared.numbers, np.inf).min(1, initial=np.inf)
    most = np.where(inside, enough, -np.inf).max(1, initial=-np.inf)
    bound = sums.base[leaf] + np.where(free, np.minimum(reduced, 0.0), 0.0).sum(1) + number
    left = ~(bound >= most)
    leaf, free, reduced = leaf[left], free[left], reduced[left]
    own = np.where(free, reduced < 0, sums.fixed[leaf] == 1).astype(np.uint8)
    return _Rows(leaf, own, np.where(free, np.abs(reduced), np.inf), bound[left], most[left])


def _open(sums: _Sums, rows: _Rows, limit: float, listed: set[bytes]) -> NDArray[np.int64]:
    """The leaves of which some row is not closed by turning items round either."""
    status = sums.leaves.fixed[rows.leaf]
    box = status >= LeafItem.BOX_0
    complement = np.asarray(box.any(1))
    before = np.where(box, status.astype(np.int64) - LeafItem.BOX_0, rows.own)  # what an item is turned round from
    more = np.where(before == rows.own, rows.more, 0.0)  # of equally cheap x the box may have another one's values
    reached = rows.bound[:, None] + more + _turning(sums, rows, before) >= rows.enough[:, None]
    right = np.asarray(np.where(complement[:, None], ~box | reached, reached).all(1))
    alone = np.flatnonzero(right & ~complement)
    cost, blur = sums.costs.of_x_and_blur(rows.own[alone])
    excluded = cost - blur >= limit - STEP_MARGIN
    for at, ok in zip(alone.tolist(), excluded.tolist(), strict=True):
        right[at] = ok or rows.own[at].tobytes() in listed
    return np.unique(rows.leaf[~right])


# --- 5. The items' part of a bound ----------------------------------------------------------------------------------
#
# Rows are leaves, or leaves with a number of defectives. Of the free items of a row, some number is defective; each
# costs its r_j, and each group of the prior what its table says. Without groups the cheapest are those of least r_j.
# With groups, n free items of a group cost at least h(n) = table(n and those fixed to 1) + the n least r_j, and the
# cheapest choice of numbers that sum to k is found by adding one group after the other. In an ordered group the n free
# items are the first ones instead of those of least r_j, and none of them comes after an item that is fixed to 0, or
# before one that is fixed to 1. Where a set with a defective lies inside a group, none at all is not among the numbers.


def least_by_number(groups: tuple[ItemGroup, ...], fixed: NDArray[np.int8], reduced: Floats) -> Floats:
    """The least cost of 0, 1, ... free defectives: (rows, items + 1); without groups less what sums may be off."""
    if not groups:
        value = np.sort(np.where(fixed < 0, reduced, np.inf), 1)
        possible = np.isfinite(value)
        off = 2 * EPS * np.arange(1, value.shape[1] + 1)  # each number is added one by one
        finite, total = np.where(possible, value, 0.0), np.zeros((len(fixed), fixed.shape[1] + 1))
        lowered = np.cumsum(finite, 1) - off * np.cumsum(np.abs(finite), 1)
        total[:, 1:] = np.where(possible, lowered, np.inf)
        return total
    total = np.full((len(fixed), fixed.shape[1] + 1), np.inf)
    total[:, 0] = 0.0
    for group in groups:
        total = _added(total, _Ways.of(group, fixed, reduced).cost)
    return total


def own_and_turned(
    groups: tuple[ItemGroup, ...], fixed: NDArray[np.int8], reduced: Floats, number: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], Floats]:
    """The cheapest x of each row with so many free defectives, and what it costs more with each item turned round.

    Where several are cheapest, some item is turned round for nothing. Items that are fixed cannot be.
    """
    if not groups:
        return _by_order(fixed, reduced, number)
    ways = [_Ways.of(group, fixed, reduced) for group in groups]
    others = _others([way.cost for way in ways], number)
    own = (fixed == 1).astype(np.uint8)
    more = np.full(fixed.shape, np.inf)
    for way, rest in zip(ways, others, strict=True):
        whole = rest + way.cost[:, : rest.shape[1]]  # with 0, 1, ... free defectives in the group
        chosen, best = whole.argmin(1)[:, None], whole.min(1)[:, None]
        inside = (way.rank < chosen) & way.free
        turned = np.full(inside.shape, np.inf)
        for n in range(rest.shape[1]):
            first = (rest[:, n] + way.table[:, n])[:, None]
            if n:
                instead = np.inf if way.ordered else way.least[:, n - 1, None] + way.value
                joins = np.where(way.rank < n, way.least[:, n, None], instead)
                turned = np.where(inside, turned, np.minimum(turned, first + joins))
            if n + 1 < way.least.shape[1]:
                longer, value = way.least[:, n + 1, None], np.where(way.free, way.value, 0.0)
                leaves = np.where(way.rank >= n, way.least[:, n, None], np.inf if way.ordered else longer - value)
                turned = np.where(inside, np.minimum(turned, first + leaves), turned)
        own[:, way.items] += inside.astype(np.uint8)
        more[:, way.items] = np.where(way.free, turned - np.where(np.isfinite(best), best, 0.0), np.inf)
    return own, more


class _Ways(NamedTuple):
    """One group in every row."""

    items: NDArray[np.int64]
    free: NDArray[np.bool_]  # (rows, size)
    value: Floats  # (rows, size): reduced costs, infinite for items that are not free
    rank: NDArray[np.int64]  # (rows, size): each item's place in their order
    least: Floats  # (rows, size + 1): the sum of the 0, 1, ... least
    table: Floats  # (rows, size + 1): what as many free defectives cost the group
    ordered: bool

    @classmethod
    def of(cls, group: ItemGroup, fixed: NDArray[np.int8], reduced: Floats) -> "_Ways":
        here = fixed[:, group.items]
        free = here < 0
        value = np.where(free, reduced[:, group.items], np.inf)
        order = np.argsort(~free if group.ordered else value, 1, kind="stable")  # free items first, in their order
        rank = np.argsort(order, 1, kind="stable")
        least = _sums_from_zero(np.take_along_axis(value, order, 1))
        at = (here == 1).sum(1)[:, None] + np.arange(least.shape[1])
        table = np.where(at <= len(group.items), group.table[np.minimum(at, len(group.items))], np.inf)
        table[:, 0] = np.where(_has_a_defective(fixed, here) & (at[:, 0] == 0), np.inf, table[:, 0])
        if group.ordered:
            inside = np.arange(len(group.items)) < at[..., None]  # (rows, size + 1, size)
            broken = np.where(inside, here[:, None] == 0, here[:, None] == 1).any(2)
            table = np.where(broken, np.inf, table)
        return cls(group.items, free, value, rank, least, table, group.ordered)

    @property
    def cost(self) -> Floats:
        return self.least + self.table


def _has_a_defective(fixed: NDArray[np.int8], here: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Whether a set with a defective has items of one group alone, whose codes are `here` (rows, size): (rows,)."""
    code = here.min(1, initial=FREE, keepdims=True)
    return np.asarray((code[:, 0] <= LeafItem.SOME) & ((fixed == code).sum(1) == (here == code).sum(1)))


def _by_order(fixed: NDArray[np.int8], reduced: Floats, number: NDArray[np.int64]) -> tuple[NDArray[np.uint8], Floats]:
    """Without groups an item that comes in replaces the last one of the order; the next one replaces one that goes."""
    free = fixed < 0
    value = np.where(free, reduced, np.inf)
    inside = np.argsort(np.argsort(value, 1, kind="stable"), 1, kind="stable") < number[:, None]
    rows, ends = np.arange(len(number)), np.full((len(number), 1), np.inf)
    edges = np.concatenate([-ends, np.sort(value, 1), ends], 1)
    last, following = edges[rows, number][:, None], edges[rows, number + 1][:, None]
    value = np.where(free, reduced, 0.0)
    more = np.where(free, np.where(inside, following - value, value - last), np.inf)
    return np.where(free, inside, fixed == 1).astype(np.uint8), more


def _added(total: Floats, cost: Floats) -> Floats:
    """The least cost of 0, 1, ... defectives in all groups so far and one more."""
    found = np.full_like(total, np.inf)
    for n in range(min(cost.shape[1], total.shape[1])):
        found[:, n:] = np.minimum(found[:, n:], total[:, : total.shape[1] - n] + cost[:, n, None])
    return found


def _others(costs: list[Floats], number: NDArray[np.int64]) -> list[Floats]:
    """For each group the least cost of all others, when it has 0, 1, ... of the number: (rows, size + 1) each."""
    numbers = int(number.max(initial=0)) + 1
    none = np.full((len(number), numbers), np.inf)
    none[:, 0] = 0.0
    before, after = [none], [none]
    for cost in costs[:-1]:
        before.append(_added(before[-1], cost))
    for cost in costs[:0:-1]:
        after.append(_added(after[-1], cost))
    rest = number[:, None] - np.arange(numbers)
    found = []
    for cost, first, last in zip(costs, before, after[::-1], strict=True):
        behind = np.where(rest >= 0, np.take_along_axis(last, np.maximum(rest, 0), 1), np.inf)
        counts = range(min(cost.shape[1], numbers))
        found.append(np.stack([(first[:, : numbers - n] + behind[:, n:]).min(1) for n in counts], 1))
    return found


# --- 6. The pools' part of a bound ----------------------------------------------------------------------------------
#
# Pool i adds the minimum over c of f_i(c) + pi_i c, less the most that c of its items can have received of its shares.
# Where that helps, c goes only from the number of the pool's items that are fixed to 1 up to that of those not fixed to
# 0. The shares of all memberships lie one after the other, pool by pool, and the items of a pool in order.


def _lowered_table(
    costs: InstanceCosts, pi: Floats, shares: Floats, pool: int, fixed: NDArray[np.int8] | None
) -> Floats:
    """f_i(c) + pi_i c less the shares, each entry lowered by more than it can be rounded up: (leaves, counts).

    With `fixed` the shares are those of items that may be defective in a leaf, otherwise of any items.
    """
    table, slope = costs.tables[pool], pi[:, pool, None] * np.arange(costs.tables.shape[1])
    finite = np.isfinite(table)
    value = np.where(finite, table + slope - 4 * EPS * (np.abs(np.where(finite, table, 0.0)) + np.abs(slope)), np.inf)
    if not shares.shape[1]:
        return np.asarray(value)
    most = _most_shared(costs.shared, shares, pool, fixed)
    value[:, : most.shape[1]] -= most  # numbers beyond a pool's items cost infinitely much already
    return np.asarray(value)


def _least(table: Floats, ranges: tuple[NDArray[np.int64], NDArray[np.int64]] | None) -> Floats:
    """The minimum of tables (leaves, counts) over all counts or over a range: (leaves,)."""
    counts = np.arange(table.shape[1])
    if ranges is not None:
        table = np.where((counts >= ranges[0][:, None]) & (counts <= ranges[1][:, None]), table, np.inf)
    return np.asarray(table.min(1))


def _counts_between(costs: InstanceCosts, fixed: NDArray[np.int8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The least and the most count of each pool in each leaf: (leaves, pools)."""
    lowest = (fixed == 1).astype(np.float64) @ costs.shared.matrix.T
    free = (fixed < 0).astype(np.float64) @ costs.shared.matrix.T
    return lowest.astype(np.int64), (lowest + free).astype(np.int64)


def _turning(sums: _Sums, rows: _Rows, before: NDArray[np.int64]) -> Floats:
    """What the pools of each item cost more at least, when it is not as before: (rows, items)."""
    if not sums.ranged or not len(rows.leaf):
        return np.zeros(rows.more.shape)
    leaf, place = np.unique(rows.leaf, return_inverse=True)
    pi, (lowest, highest) = sums.pi[leaf], _counts_between(sums.costs, sums.fixed[leaf])
    up, down = np.zeros(pi.shape), np.zeros(pi.shape)
    for i in range(pi.shape[1]):
        low, high = lowest[:, i], highest[:, i]
        table = _lowered_table(sums.costs, pi, sums.shares[leaf], i, sums.fixed[leaf])
        least = _least(table, (low, high))
        sure = np.isfinite(least) & (low < high)
        least = np.where(sure, least, 0.0)
        up[:, i] = np.where(sure, _rise(least, _least(table, (low + 1, high))), 0.0)
        down[:, i] = np.where(sure, _rise(least, _least(table, (low, high - 1))), 0.0)
    matrix = sums.costs.shared.matrix
    change = np.where(before == 1, (down @ matrix)[place], (up @ matrix)[place])
    return np.asarray(change * (1 - 1e-12))


def _rise(least: Floats, other: Floats) -> Floats:
    """How much a minimum over fewer counts is above that over all, rounded down."""
    off = 4 * EPS * (np.abs(least) + np.abs(np.where(np.isfinite(other), other, 0.0)))
    return np.asarray(np.clip(other - least - off, 0.0, BIG_M))


def _given_to_items(shared: Shared, shares: Floats) -> Floats:
    """The sum of the shares that each item has: (leaves, items)."""
    total = np.zeros((len(shares), shared.matrix.shape[1]))
    if shares.shape[1]:
        for pool in range(len(shared.starts) - 1):
            members, own = _of_pool(shared, shares, pool)
            total[:, members] += own
    return total


def _most_shared(shared: Shared, shares: Floats, pool: int, fixed: NDArray[np.int8] | None) -> Floats:
    """The most that 0, 1, ... items of a pool can have of its shares: (leaves, size + 1).

    With `fixed`, (leaves, items), those fixed to 1 are among them, and those fixed to 0 are not. Entries for numbers
    that a leaf does not have mean nothing.
    """
    members, own = _of_pool(shared, shares, pool)
    ones = np.zeros(own.shape, dtype=bool) if fixed is None else fixed[:, members] == 1
    free = np.ones(own.shape, dtype=bool) if fixed is None else fixed[:, members] < 0
    # The items fixed to 1 come first, then the free ones with the largest shares, then those fixed to 0.
    order = np.argsort(np.where(ones, -np.inf, np.where(free, -own, np.inf)), axis=1, kind="stable")
    return _sums_from_zero(np.take_along_axis(own, order, 1))


def _sums_from_zero(values: Floats) -> Floats:
    """The sums of the first 0, 1, ... numbers of each row: (rows, columns + 1)."""
    sums = np.zeros((len(values), values.shape[1] + 1))
    np.cumsum(values, 1, out=sums[:, 1:])
    return sums


def _of_pool(shared: Shared, shares: Floats, pool: int) -> tuple[NDArray[np.int64], Floats]:
    """The items of a pool, and their shares: (leaves, size)."""
    start, end = shared.starts[pool], shared.starts[pool + 1]
    return shared.members[start:end], shares[:, start:end]


# --- 7. Rounding ----------------------------------------------------------------------------------------------------


def _rounding(costs: InstanceCosts, pi: Floats, shares: Floats, pools: Floats) -> Floats:
    """More than the sums of a leaf can be off, entries of tables and sums over free items in order aside: (leaves,).

    That is float64's precision times the size of the terms, times the number of additions that a term goes through.
    `pools` is the sum of the sizes of what the pools add. Pools and groups are added one after the other. An item's
    reduced cost is a sum over its pools, and a row of them is summed in pairs, in blocks of 128; with groups, items
    and groups are added one by one. A share is one term of an item's sum, and one of its pool's.
    """
    matrix, weights, groups = costs.shared.matrix, costs.shared.weights, costs.shared.groups
    number = _largest(np.abs(costs.shared.numbers)) + sum(_largest(np.abs(group.table)) for group in groups)
    single = abs(costs.shared.constant) + number + np.where(np.isfinite(pools), pools, 0.0)
    items = np.abs(weights).sum() + (np.abs(pi) @ matrix).sum(1)
    additions = sum(matrix.shape) if groups else int(matrix.sum(0).max()) + 64 + int(np.log2(matrix.shape[1]))
    off = (len(costs.tables) + len(groups) + 10) * single + (additions + len(groups) + 10) * items
    off = off + 2 * (sum(matrix.shape) + len(groups) + 10) * np.abs(shares).sum(1)
    return np.asarray(4 * EPS * off)


# --- 8. The verdict -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Claims:
    """Which claims a certificate shows to hold, instance by instance.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.1))
        >>> y = torch.tensor([[1.0, 1.0], [0.0, 2.0]], dtype=torch.float64)
        >>> claims = qgt.check_claims(problem, y, qgt.Certified().bind(problem)(y))
        >>> claims.optimal, claims.listed, claims.impossible
        (tensor([ True, False]), tensor([ True, False]), tensor([False,  True]))
    """

    optimal: Bool[Tensor, " instances"]
    listed: Bool[Tensor, " instances"]
    impossible: Bool[Tensor, " instances"]
    not_overconfident: Bool[Tensor, " instances"]  # no answer has more probability than it has among those listed
    weight: Float64[Tensor, " instances"]  # of the answer among those listed: no confidence may exceed it
    log_joint: Float64[Tensor, " instances"]  # of the answer, as the checker computes it; -inf where it is impossible


class _Verdict(NamedTuple):
    """The same for one instance; by itself it shows nothing."""

    optimal: bool = False
    listed: bool = False
    impossible: bool = False
    not_overconfident: bool = False
    weight: float = 0.0
    log_joint: float = -math.inf


def check_claims(
    problem: Problem,
    y: Float64[Tensor, "instances pools"] | Float64[Tensor, "instances pools categories"],
    result: Decoded,
) -> Claims:
    """Which claims about each instance its certificate shows; see `Claims`.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.1))
        >>> y = torch.tensor([[1.0, 1.0]], dtype=torch.float64)
        >>> check_claims(problem, y, qgt.Certified(odds=1.0).bind(problem)(y)).optimal
        tensor([True])
    """
    if problem.values is not None:
        return _claims_of_values(problem, problem.values, check_counts(problem, y, missing=True).cpu(), result)
    proof, answers = result.proof, result.evidence.alternatives
    if proof is None or answers is None:
        raise ValueError("the result has no certificates: decode with Certified(certificates=True).")
    _refuse_bad_odds(proof)
    _refuse_unchecked_prior(problem.prior)
    y = check_counts(problem, y, missing=True).cpu()
    _refuse_malformed(problem, y, result, proof)
    factors = problem.factors(y)
    shared = Shared.of(factors)
    every = torch.arange(len(y))
    own, listed = (
        _by_the_model(problem, y, x, owner) for x, owner in ((result.x, every), (answers.x, answers.spans.owner))
    )
    rows = []
    for i, status in enumerate(result.status.tolist()):
        costs, some = InstanceCosts.of(shared, factors, i), answers.of_instance(i)
        here = _Answers(
            np.concatenate([result.x[i : i + 1].cpu().numpy(), some.x.cpu().numpy()]),
            np.concatenate([own[i : i + 1], listed[answers.spans.rows(i)]]),
            some.probability.cpu().numpy(),
        )
        rows.append(_verdict(costs, Status(status), here, proof.of_instance(i)))
    return _claims(rows, len(y))


def _refuse_unchecked_prior(prior: object) -> None:
    if not isinstance(prior, FactoredPrior):
        raise ValueError(f"{prior} is not a sum over items and groups: it has no `costs`.")
    if not isinstance(prior, Prior):
        raise ValueError(f"{prior} has no `log_prob` to hold its costs against: give it one.")


def check_certificate(
    problem: Problem,
    y: Float64[Tensor, "instances pools"] | Float64[Tensor, "instances pools categories"],
    result: Decoded,
) -> Bool[Tensor, " instances"]:
    """Whether the claims of each instance are shown by its certificate.

    PROVED claims that the answer is optimal; `evidence.complete`, that the list is complete at the proof's own odds;
    INFEASIBLE, that no x is possible; `evidence.confidence` and the alternatives' `probability`, that the answers have
    at least that weight among those listed; `evidence.log_joint`, that the answer has it. The other fields of the
    evidence (`bound`, `gap`, `unsettled`, `fit`, `iterations`) and `scores` are not looked at. An instance whose status
    claims no proof has none. Certificates are checked on the CPU; what is returned is where the result is.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.1))
        >>> y = torch.tensor([[1.0, 1.0]], dtype=torch.float64)
        >>> result = qgt.Certified().bind(problem)(y)
        >>> check_certificate(problem, y, result), check_certificate(problem, y + 1, result)
        (tensor([True]), tensor([False]))
    """
    return claims_hold(check_claims(problem, y, result), result).to(result.status.device)


def claims_hold(claims: Claims, result: Decoded) -> Bool[Tensor, " instances"]:
    """The verdict of `check_certificate`, from the claims that `check_claims` found true of the same result."""
    evidence, status = result.evidence, result.status.cpu()
    holds = (status == Status.PROVED) & claims.optimal & claims.not_overconfident
    if evidence.complete is not None:
        holds &= claims.listed | ~evidence.complete.cpu()
    if evidence.confidence is not None:
        holds &= evidence.confidence.cpu() <= claims.weight + TOO_MUCH
    if evidence.log_joint is not None:
        holds &= (evidence.log_joint.cpu() - claims.log_joint).abs() <= CHECKER_TOLERANCE
    return holds | ((status == Status.INFEASIBLE) & claims.impossible)


def _claims(rows: list[_Verdict], instances: int) -> Claims:
    """The verdicts of all instances."""
    table = torch.tensor(rows, dtype=torch.float64).view(instances, len(_Verdict._fields))
    optimal, listed, impossible, not_overconfident, weight, log_joint = table.unbind(1)
    return Claims(optimal.bool(), listed.bool(), impossible.bool(), not_overconfident.bool(), weight, log_joint)


class _Answers(NamedTuple):
    """The answer to one instance, and below it those listed."""

    x: NDArray[np.uint8]  # (1 + listed, items)
    by_the_model: Floats  # (1 + listed,): what each costs by `log_prob`
    probability: Floats  # (listed,)


def _by_the_model(problem: Problem, y: Tensor, x: Tensor, owner: Tensor) -> Floats:
    """-log P(x, y) of each row by the prior's and the noise's own `log_prob`, a few rows at a time."""
    x, owner = x.cpu(), owner.cpu()
    if problem.values is None:
        x = x.clamp(max=1)  # other values than 0 and 1 are refused by their cost
    rows = max(1, NUMBERS_AT_A_TIME // max(1, problem.items, problem.pools))
    parts = [-problem.log_joint(x[at], y[owner[at]]) for at in torch.arange(len(x)).split(rows)]
    return torch.cat([torch.zeros(0, dtype=torch.float64), *parts]).numpy()


def _without_proof(every: Floats, blur: Floats, answers: _Answers) -> tuple[_Verdict, bool]:
    """What the costs of an answer and of those listed show by themselves, and whether a proof can show more."""
    cost, others = float(every[0]), every[1:]
    if not math.isfinite(cost) or not _same(every, answers.by_the_model, blur):
        return _Verdict(), False
    weight, weights = _weights(answers.x, every)
    not_overconfident = bool((answers.probability <= weights + TOO_MUCH).all())
    too_large = blur[0] > CHECKER_TOLERANCE / 4  # float64 cannot tell the answer's cost from others
    better = bool((others - blur[1:] < cost - CHECKER_TOLERANCE).any())  # an answer that is listed and more probable
    found = _Verdict(not_overconfident=not_overconfident, weight=weight, log_joint=-cost)
    return found, not too_large and not better


def _verdict(costs: InstanceCosts, status: Status, answers: _Answers, proof: Proof) -> _Verdict:
    """What the certificate of one instance shows."""
    leaves = LeafTable.of(proof)
    if status == Status.INFEASIBLE:
        none = answers.x[:0]
        shown = not costs.possible or (  # a pool whose count is impossible needs no tree
            hold_every_x(costs.shared, leaves) and closed(costs, costs.more_than_any, none, leaves).all()
        )
        return _Verdict(impossible=bool(shown), not_overconfident=True)
    every, blur = costs.of_x_and_blur(answers.x)
    cost = float(every[0])
    nothing, may_be_proved = _without_proof(every, blur, answers)
    if status != Status.PROVED or not may_be_proved or not hold_every_x(costs.shared, leaves):
        return nothing
    if closed(costs, cost + math.log(proof.odds) - CHECKER_TOLERANCE, answers.x, leaves).all():
        return nothing._replace(optimal=True, listed=True)
    if proof.odds == 1:
        return nothing
    return nothing._replace(optimal=bool(closed(costs, cost - CHECKER_TOLERANCE, answers.x, leaves).all()))


def _same(cost: Floats, by_the_model: Floats, blur: Floats) -> bool:
    """Whether costs are what the model's `log_prob` says, up to rounding."""
    impossible = np.isposinf(cost)
    off = np.abs(by_the_model[~impossible] - cost[~impossible])
    return bool(
        np.isposinf(by_the_model[impossible]).all() and (off <= CHECKER_TOLERANCE / 2 + 2 * blur[~impossible]).all()
    )


def _weights(x: NDArray[np.uint8], cost: Floats) -> tuple[float, Floats]:
    """The probability of the answer, and of those listed, if these were all there are, each counted once."""
    different = {row.tobytes(): float(each) for row, each in zip(x, cost, strict=True)}
    least = min(different.values())  # the sums stay finite even where an answer is far more probable
    total = math.fsum(math.exp(least - each) for each in different.values())
    return math.exp(least - float(cost[0])) / total, np.exp(least - cost[1:]) / total


# --- 9. Copies and categories ---------------------------------------------------------------------------------------
#
# Items with copies or categories are checked as 0/1 items, their parts (`qgt.model.categories`): each x of values is
# one x of parts, which costs the same, and a proof is one of the parts.
#
# The categories of an x in which no item is in two may also be proved one by one. Such an x costs
#
#     constant + c_1(x_1) + c_2(x_2) + ...,        x_g: the items of category g, with c_g of `Problem.of_category`.
#
# Given are lists of answers to each category, and leaves for each. Let l_g be the least cost in a list, and L the limit
# less the constant. A category is closed if none of its leaves contains an x_g that costs less than L less the other
# categories' l_h, except those that are listed (section 4; at least to l_g itself, so that l_g is the least of all). If
# every category is closed, an x below the limit has all its x_g in the lists: were x_g missing, it would cost at least
# L less the other l_h, and the others cost l_h or more. So all combinations of the lists are looked at, and the claim
# holds if each one below the limit has an item twice, or is listed, or is not better than the answer. Each category has
# the tolerance of section 4, so that theirs add up.


def _claims_of_values(problem: Problem, values: Categories | Copies, y: Tensor, result: Decoded) -> Claims:
    """Which claims hold, by the proof of the parts, or by those of the categories where that proof has no leaves."""
    _refuse_other_values(values, result)
    parts, reports = to_parts(values, result), values.part_reports(y)
    if result.blocks is None or result.proof is None:
        return check_claims(problem.in_parts, reports, parts)
    _refuse_bad_odds(result.proof)
    _refuse_malformed(problem.in_parts, reports, parts, result.proof)
    together = (result.proof.spans.numbers > 0).cpu()
    verdicts = _Categories.of(problem, y, result).verdicts(together)
    if bool(together.any()):
        some = together.nonzero()[:, 0]
        shown = check_claims(problem.in_parts, reports[some], parts.pick(some.to(parts.x.device)))
        for name in _Verdict._fields:
            getattr(verdicts, name)[some] = getattr(shown, name)
    return verdicts


@dataclass(frozen=True, eq=False)
class _Categories:
    """A result of categories with the results of each category by itself."""

    problem: Problem
    y: Tensor
    result: Decoded
    factors: list[Factors]
    shared: list[Shared]
    constant: float

    @classmethod
    def of(cls, problem: Problem, y: Tensor, result: Decoded) -> "_Categories":
        """Refuse results of categories that do not belong together."""
        assert result.blocks is not None  # as the caller saw
        if not isinstance(problem.prior, Categories):
            raise ValueError(f"the result has blocks, which are of categories, and {problem.prior} has none.")
        levels = problem.prior.levels
        if len(result.blocks) != levels:
            raise ValueError(f"the result has {len(result.blocks)} blocks, and there are {levels} categories.")
        factors = []
        for category, block in enumerate(result.blocks, 1):
            alone, reports = problem.of_category(category), problem.reports_of(y, category)
            if block.proof is None or block.evidence.alternatives is None:
                raise ValueError(f"blocks[{category - 1}] has no certificates: use Certified(certificates=True).")
            _refuse_malformed(alone, reports, block, block.proof)
            factors.append(alone.factors(reports))
        beyond = problem.prior.beyond_alone(problem.items)
        return cls(problem, y, result, factors, [Shared.of(one) for one in factors], beyond)

    def verdicts(self, skipped: Tensor) -> Claims:
        """What the proofs of the categories show of each instance."""
        answers = self.result.evidence.alternatives
        assert answers is not None  # as the border saw
        every = torch.arange(len(self.y))
        own = _by_the_model(self.problem, self.y, self.result.x, every)
        listed = _by_the_model(self.problem, self.y, answers.x, answers.spans.owner)
        rows = []
        for i, status in enumerate(self.result.status.tolist()):
            some = answers.of_instance(i)
            here = _Answers(
                np.concatenate([self.result.x[i : i + 1].cpu().numpy(), some.x.cpu().numpy()]),
                np.concatenate([own[i : i + 1], listed[answers.spans.rows(i)]]),
                some.probability.cpu().numpy(),
            )
            rows.append(_Verdict() if bool(skipped[i]) else self._verdict(i, Status(status), here))
        return _claims(rows, len(self.y))

    def _verdict(self, i: int, status: Status, answers: _Answers) -> _Verdict:
        """What the proofs show of one instance."""
        parts = [_Category.of(self, category, i, answers) for category in range(1, len(self.shared) + 1)]
        if status == Status.INFEASIBLE:
            return _Verdict(impossible=any(part.impossible for part in parts), not_overconfident=True)
        each = [part.costs.of_x_and_blur((answers.x == g).astype(np.uint8)) for g, part in enumerate(parts, 1)]
        every = np.sum([cost for cost, _ in each], axis=0) + self.constant
        blur = np.sum([off for _, off in each], axis=0)
        every = np.where((answers.x <= len(parts)).all(1), every, np.inf)
        cost = float(every[0])
        nothing, may_be_proved = _without_proof(every, blur, answers)
        if status != Status.PROVED or not may_be_proved or not all(part.covered for part in parts):
            return nothing
        assert self.result.proof is not None
        odds = self.result.proof.odds
        if self._closed(parts, cost + math.log(odds) - CHECKER_TOLERANCE, answers.x):
            return nothing._replace(optimal=True, listed=True)
        return nothing._replace(optimal=odds > 1 and self._closed(parts, cost - CHECKER_TOLERANCE, answers.x))

    def _closed(self, parts: "list[_Category]", limit: float, listed: NDArray[np.uint8]) -> bool:
        """Whether every x below the limit is listed."""
        room = limit - self.constant - sum(part.least for part in parts)  # beyond the least costs
        if not all(part.closed_to(max(part.least + room, part.least - CHECKER_TOLERANCE)) for part in parts):
            return False
        x, cost = np.zeros((1, listed.shape[1]), dtype=np.uint8), np.zeros(1)
        for category, part in enumerate(parts, 1):
            both = cost[:, None] + (part.cost - part.least)
            here, there = np.nonzero(both < room)
            apart = ~((x[here] > 0) & (part.x[there] > 0)).any(1)
            here, there = here[apart], there[apart]
            x, cost = x[here] + category * part.x[there], both[here, there]
        return {row.tobytes() for row in x} <= {row.tobytes() for row in listed}


class _Category(NamedTuple):
    """One category of one instance: its costs, what is listed of it, and its leaves."""

    costs: InstanceCosts
    x: NDArray[np.uint8]  # (answers, items), different ones: those of the category, and those of the combinations
    cost: Floats  # (answers,), lowered by what they may be off
    least: float
    leaves: LeafTable
    possible: bool  # whether the result says so

    @classmethod
    def of(cls, all_: _Categories, category: int, i: int, answers: _Answers) -> "_Category":
        blocks = all_.result.blocks
        assert blocks is not None
        block = blocks[category - 1]
        proof, given = block.proof, block.evidence.alternatives
        assert proof is not None and given is not None  # as the border saw
        costs = InstanceCosts.of(all_.shared[category - 1], all_.factors[category - 1], i)
        own = block.x[i : i + 1].cpu().numpy(), given.of_instance(i).x.cpu().numpy()
        x = np.unique(np.concatenate([*own, (answers.x == category).astype(np.uint8)]), axis=0)
        cost, blur = costs.of_x_and_blur(x)
        x, cost = x[np.isfinite(cost)], (cost - blur)[np.isfinite(cost)]
        possible = Status(int(block.status[i])) != Status.INFEASIBLE
        return cls(costs, x, cost, float(cost.min(initial=np.inf)), LeafTable.of(proof.of_instance(i)), possible)

    @property
    def covered(self) -> bool:
        """Whether the leaves contain every x of the category."""
        return hold_every_x(self.costs.shared, self.leaves)

    @property
    def impossible(self) -> bool:
        """Whether the leaves show that no x of the category is possible."""
        return not self.possible and (
            not self.costs.possible
            or (self.covered and bool(closed(self.costs, self.costs.more_than_any, self.x[:0], self.leaves).all()))
        )

    def closed_to(self, limit: float) -> bool:
        """Whether what costs less than the limit is listed."""
        return bool(closed(self.costs, limit, self.x, self.leaves).all())


# --- 10. The border -------------------------------------------------------------------------------------------------


def _refuse_bad_odds(proof: Proof) -> None:
    """Odds below 1 would move the limit below the answer's cost, and then every answer would seem to be the best."""
    if not 1 <= proof.odds < math.inf:  # NaN is not
        raise ValueError(f"the proof's odds={proof.odds} are not valid: they must be finite, and 1 or more.")


def _refuse_other_values(values: Categories | Copies, result: Decoded) -> None:
    """Raise a ValueError where an answer has a value that no item has: its parts would be those of another value."""
    answers = result.evidence.alternatives
    given = {"x": result.x} | ({} if answers is None else {"alternatives": answers.x})
    for name, x in given.items():
        if x.dtype != torch.uint8:
            raise ValueError(f"the result's {name} is {x.dtype}: it must be {torch.uint8}.")
        if bool((x > values.levels).any()):
            raise ValueError(f"the result's {name} has a value of {int(x.max())}: values are 0 to {values.levels}.")


def _refuse_malformed(problem: Problem, y: Tensor, result: Decoded, proof: Proof) -> None:
    """Raise a ValueError where the parts of a result do not belong together, or are not what they should be."""
    answers, evidence = result.evidence.alternatives, result.evidence
    assert answers is not None  # as `check_claims` saw
    lengths = {"x": len(result.x), "status": len(result.status), "alternatives": len(answers.spans)}
    for name, length in {**lengths, "proof": len(proof.spans)}.items():
        if length != len(y):
            raise ValueError(f"the result's {name} has {length} instances, but y has {len(y)}: give its own counts.")
    widths = {"x": (result.x, problem.items), "alternatives": (answers.x, problem.items)}
    widths |= {"proof.fixed": (proof.fixed, problem.items), "proof.pi": (proof.pi, problem.pools)}
    widths |= {"proof.shares": (proof.shares, problem.design.transfers)}
    for name, (tensor, width) in widths.items():
        if name == "proof.shares" and tensor.dim() == 2 and tensor.shape[1] == 0:
            continue  # a proof may do without
        if tensor.dim() != 2 or tensor.shape[1] != width:
            raise ValueError(f"the result's {name} has shape {tuple(tensor.shape)}: it belongs to another problem.")
    kinds = {"x": (result.x, torch.uint8), "status": (result.status, torch.uint8)}
    kinds |= {"alternatives": (answers.x, torch.uint8), "proof.fixed": (proof.fixed, torch.int8)}
    kinds |= {"proof.least": (proof.least, torch.int64), "proof.most": (proof.most, torch.int64)}
    if evidence.complete is not None:
        kinds["evidence.complete"] = (evidence.complete, torch.bool)
    for name, (tensor, kind) in kinds.items():
        if tensor.dtype != kind:
            raise ValueError(f"the result's {name} is {tensor.dtype}: it must be {kind}.")
    numbers = {"proof.pi": proof.pi, "proof.shares": proof.shares, "alternatives.probability": answers.probability}
    for name, tensor in numbers.items():
        if not tensor.is_floating_point():
            raise ValueError(f"the result's {name} is {tensor.dtype}: it must hold floating-point numbers.")
    refuse_bad_spans("alternatives", answers.spans, len(answers.x), len(answers.probability))
    refuse_bad_spans("proof", proof.spans, *(len(part) for part in (proof.fixed, proof.least, proof.most)))
    refuse_bad_spans("proof", proof.spans, len(proof.pi), len(proof.shares))
    if bool((result.status > max(Status)).any()):
        raise ValueError(f"the result has status {int(result.status.max())}: statuses are 0 to {max(Status)}.")


def refuse_bad_spans(name: str, spans: Spans, *rows: int) -> None:
    """Raise a ValueError unless the ends of spans are in order, from 0 to the number of rows of every table."""
    ends = spans.ends
    if ends.dtype != torch.int64 or ends.dim() != 1:
        raise ValueError(f"{name}.ends is {ends.dtype} of shape {tuple(ends.shape)}: it must be one row of int64")
    last = int(ends[-1]) if len(ends) else 0
    # No differences: those of huge numbers wrap round.
    if bool((ends < 0).any()) or bool((ends[1:] < ends[:-1]).any()):
        raise ValueError(f"{name}.ends is not in order: each must be 0 or more, and no less than the one before")
    if any(last != number for number in rows):
        raise ValueError(f"{name}.ends says that there are {last} rows, but there are {', '.join(map(str, rows))}")
