"""Whether leaves are closed: plain sums over one instance's costs. NumPy only, and nothing of the solver.

A leaf is a set of x: some items fixed, the number of defectives k between two numbers. With multipliers pi of the pools
and r_j = w_j - (A' pi)_j, every x of k defectives in it costs

    cost(x) = constant + sum_j w_j x_j + T(k) + groups + sum_i f_i((A x)_i)
           >= constant + T(k) + sum of the fixed r_j + the least free r_j, as many as make k
                       + sum_i min over c of (f_i(c) + pi_i c)  =:  bound,

or more, where pool i shares out s_ij to its items: these raise r_j by sum_i s_ij, and lower f_i(c) + pi_i c by the most
that c of its items can have of them (`share_sums`). The costs of the prior's groups, where it has any, are inside the
minimum over the free items (`item_sums`), and c goes from the number of a pool's items that are fixed to 1 up to that
of those not fixed to 0.

The leaf is closed below a limit if that bound reaches it; or if the bounds of all x but the cheapest one do, for any
other has a free item turned round, which changes the least free r_j and the ranges of that item's pools; and the
cheapest one is listed, or costs what the limit is. Both are tried for each k, or else for all k at once, where the
least free r_j are those below zero. A leaf that keeps items is closed if turning any one of them reaches the limit.

Sums are in float64, and bounds are lowered by more than they can round off.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from qgt.decoders.certified.item_sums import least_by_number, own_and_turned
from qgt.decoders.certified.leaves import MARGIN, Costs, Leaves
from qgt.decoders.certified.share_sums import given_to_items, most_shared
from qgt.decoders.envelopes import Floats
from qgt.decoders.results import KEPT
from qgt.model.prior import FREE

DEAR = 1e6  # nats: what an impossible range costs more, so that sums stay finite


def closed(costs: Costs, limit: float, listed: NDArray[np.uint8], leaves: Leaves) -> NDArray[np.bool_]:
    """Whether each leaf holds nothing below the limit but x that are listed: (leaves,)."""
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

    costs: Costs
    leaves: Leaves
    fixed: NDArray[np.int8]  # (leaves, items): 0, 1 or FREE, what is kept being free
    pi: Floats  # (leaves, pools): finite
    shares: Floats  # (leaves, memberships), or (leaves, 0): finite
    reduced: Floats  # (leaves, items)
    base: Floats  # (leaves,): the bound without free items and their number
    ranged: bool  # whether counts are looked for only between those that fixed items leave

    @classmethod
    def of(cls, costs: Costs, leaves: Leaves, *, ranged: bool) -> "_Sums":
        finite = _finite(leaves)[:, None]
        pi, shares = np.where(finite, leaves.pi, 0.0), np.where(finite, leaves.shares, 0.0)
        fixed = np.where(leaves.fixed >= KEPT, np.int8(FREE), leaves.fixed)
        reduced = costs.shared.weights - pi @ costs.shared.matrix + given_to_items(costs.shared, shares)
        reduced = np.ascontiguousarray(reduced)  # NumPy sums rows in pairs
        pools = np.zeros(len(pi))
        ranges = _counts_between(costs, fixed) if ranged else None
        for i in range(len(costs.tables)):
            table = _table(costs, pi, shares, i, fixed if ranged else None)
            pools += _least(table, None if ranges is None else (ranges[0][:, i], ranges[1][:, i]))
        base = costs.shared.constant + np.where(fixed == 1, reduced, 0.0).sum(1) + pools - _rounding(costs, pi, shares)
        return cls(costs, leaves, fixed, pi, shares, reduced, base, ranged)


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
    fine[_open(sums, _by_number(sums, enough), limit, listed)] = False
    several = ~fine & _finite(sums.leaves) & (sums.leaves.least < sums.leaves.most)
    if several.any() and not sums.costs.shared.groups:
        fine[several] = True
        fine[_open(sums, _at_once(sums, np.flatnonzero(several), enough), limit, listed)] = False
    return fine


def _finite(leaves: Leaves) -> NDArray[np.bool_]:
    return np.asarray(np.isfinite(leaves.pi).all(1) & np.isfinite(leaves.shares).all(1))


def _by_number(sums: _Sums, enough: Floats) -> _Rows:
    """Each leaf with each number of defectives it may have."""
    shared, fixed = sums.costs.shared, sums.fixed
    k = np.arange(fixed.shape[1] + 1)
    leaf, total = ((k >= sums.leaves.least[:, None]) & (k <= sums.leaves.most[:, None])).nonzero()
    number = total - (fixed == 1).sum(1)[leaf]  # of free items that are defective
    possible = (number >= 0) & (number <= (fixed == FREE).sum(1)[leaf])
    leaf, total, number = leaf[possible], total[possible], number[possible]
    bound = sums.base[leaf] + least_by_number(shared.groups, fixed, sums.reduced)[leaf, number] + shared.numbers[total]
    left = ~(bound >= enough[total])
    leaf, total, number = leaf[left], total[left], number[left]
    own, more = own_and_turned(shared.groups, fixed[leaf], sums.reduced[leaf], number)
    return _Rows(leaf, own, more, bound[left], enough[total])


def _at_once(sums: _Sums, leaf: NDArray[np.int64], enough: Floats) -> _Rows:
    """Leaves with any of their numbers of defectives: the cheapest x has all items of negative reduced cost."""
    free, reduced = sums.fixed[leaf] == FREE, sums.reduced[leaf]
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
    kept = status >= KEPT
    keeps = np.asarray(kept.any(1))
    before = np.where(kept, status.astype(np.int64) - KEPT, rows.own)  # what an item is turned round from
    more = np.where(before == rows.own, rows.more, 0.0)  # of equally cheap x a leaf may have kept another one's items
    reached = rows.bound[:, None] + more + _turning(sums, rows, before) >= rows.enough[:, None]
    right = np.asarray(np.where(keeps[:, None], ~kept | reached, reached).all(1))
    alone = np.flatnonzero(right & ~keeps)
    dear = sums.costs.of_x(rows.own[alone]) >= limit - MARGIN
    for at, ok in zip(alone.tolist(), dear.tolist(), strict=True):
        right[at] = ok or rows.own[at].tobytes() in listed
    return np.unique(rows.leaf[~right])


def _turning(sums: _Sums, rows: _Rows, before: NDArray[np.int64]) -> Floats:
    """What the pools of each item cost more at least, when it is not as before: (rows, items)."""
    if not sums.ranged or not len(rows.leaf):
        return np.zeros(rows.more.shape)
    leaf, place = np.unique(rows.leaf, return_inverse=True)
    pi, (lowest, highest) = sums.pi[leaf], _counts_between(sums.costs, sums.fixed[leaf])
    up, down = np.zeros(pi.shape), np.zeros(pi.shape)
    for i in range(pi.shape[1]):
        low, high = lowest[:, i], highest[:, i]
        table = _table(sums.costs, pi, sums.shares[leaf], i, sums.fixed[leaf])
        least = _least(table, (low, high))
        sure = np.isfinite(least) & (low < high)
        least = np.where(sure, least, 0.0)
        up[:, i] = np.where(sure, np.clip(_least(table, (low + 1, high)) - least, 0.0, DEAR), 0.0)
        down[:, i] = np.where(sure, np.clip(_least(table, (low, high - 1)) - least, 0.0, DEAR), 0.0)
    matrix = sums.costs.shared.matrix
    change = np.where(before == 1, (down @ matrix)[place], (up @ matrix)[place])
    return np.asarray(change * (1 - 1e-12))


def _counts_between(costs: Costs, fixed: NDArray[np.int8]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The least and the most count of each pool in each leaf: (leaves, pools)."""
    lowest = (fixed == 1).astype(np.float64) @ costs.shared.matrix.T
    free = (fixed == FREE).astype(np.float64) @ costs.shared.matrix.T
    return lowest.astype(np.int64), (lowest + free).astype(np.int64)


def _table(costs: Costs, pi: Floats, shares: Floats, pool: int, fixed: NDArray[np.int8] | None) -> Floats:
    """A pool's table plus pi times the count, less the most that as many items can have of its shares.

    The items are any, or those that may be defective in a leaf: (leaves, counts).
    """
    value = costs.tables[pool] + pi[:, pool, None] * np.arange(costs.tables.shape[1])
    if not shares.shape[1]:
        return np.asarray(value)
    most = most_shared(costs.shared, shares, pool, fixed)
    return np.asarray(np.where(np.isfinite(value), value, np.inf) - _wide(most, value.shape[1]))


def _wide(most: Floats, counts: int) -> Floats:
    """As wide as tables are; what is beyond a pool's items is not possible, and costs infinitely much already."""
    return np.pad(most, ((0, 0), (0, counts - most.shape[1])))


def _least(table: Floats, ranges: tuple[NDArray[np.int64], NDArray[np.int64]] | None) -> Floats:
    """The minimum of tables (leaves, counts) over all counts or over a range: (leaves,)."""
    counts = np.arange(table.shape[1])
    if ranges is not None:
        table = np.where((counts >= ranges[0][:, None]) & (counts <= ranges[1][:, None]), table, np.inf)
    return np.asarray(table.min(1))


def _rounding(costs: Costs, pi: Floats, shares: Floats) -> Floats:
    """More than all sums of a leaf can be off but those over its free items in order (`least_by_number`): (leaves,).

    That is float64's precision times the terms and the number of additions that a term goes through. An item's reduced
    cost is a sum over its pools, and a row of them is summed in pairs, and in blocks of 128. A share is one of such a
    sum, and one of its pool's.
    """
    matrix, weights, groups = costs.shared.matrix, costs.shared.weights, costs.shared.groups
    finite = np.where(np.isfinite(costs.tables), np.abs(costs.tables), 0.0).max(1).sum()
    number = np.abs(costs.shared.numbers[np.isfinite(costs.shared.numbers)]).max()
    number += sum(np.abs(group.table[np.isfinite(group.table)]).max(initial=0.0) for group in groups)
    pools = abs(costs.shared.constant) + number + finite + np.abs(pi).sum(1) * costs.tables.shape[1]
    items = np.abs(weights).sum() + (np.abs(pi) @ matrix).sum(1)
    additions = sum(matrix.shape) if groups else int(matrix.sum(0).max()) + 64 + int(np.log2(matrix.shape[1]))
    off = (len(costs.tables) + 10) * pools + (additions + 10) * items
    off = off + 2 * (sum(matrix.shape) + 10) * np.abs(shares).sum(1)
    return np.asarray(4 * np.finfo(np.float64).eps * off)
