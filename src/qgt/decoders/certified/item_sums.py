"""The items' part of what a leaf shows, again from the definitions: NumPy only, and nothing of the solver.

Rows are leaves, or leaves with a number of defectives. Of the free items of a row, some number is defective; each costs
its reduced cost r_j, and each group of the prior what its table says. Without groups the cheapest are those of least
r_j. With groups, n free items of a group cost at least h(n) = table(n and those fixed to 1) + the n least r_j, and the
cheapest choice of numbers that sum to k is found by adding one group after the other.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from qgt.decoders.envelopes import Floats
from qgt.model.prior import ALONE, FREE, Groups


class Group(NamedTuple):
    """Some items, and what it costs that 0, 1, ... of them are defective."""

    items: NDArray[np.int64]
    table: Floats


def groups_of(groups: Groups | None) -> tuple[Group, ...]:
    """The groups of a prior, and those in none together as one that costs nothing; none at all without groups."""
    if groups is None:
        return ()
    group, tables = groups.group.cpu().numpy(), groups.tables.cpu().numpy()
    found = [Group(np.flatnonzero(group == number), table) for number, table in enumerate(tables)]
    alone = np.flatnonzero(group == ALONE)
    return (*found, Group(alone, np.zeros(len(alone) + 1)))


def least_by_number(groups: tuple[Group, ...], fixed: NDArray[np.int8], reduced: Floats) -> Floats:
    """The least cost of 0, 1, ... free defectives: (rows, items + 1); without groups less what sums may be off."""
    if not groups:
        value = np.sort(np.where(fixed == FREE, reduced, np.inf), 1)
        possible = np.isfinite(value)
        off = 2 * np.finfo(np.float64).eps * np.arange(1, value.shape[1] + 1)  # each number is added one by one
        lowered = np.cumsum(np.where(possible, value, 0.0), 1) - off * np.cumsum(
            np.abs(np.where(possible, value, 0.0)), 1
        )
        return np.pad(np.where(possible, lowered, np.inf), ((0, 0), (1, 0)))
    total = np.full((len(fixed), fixed.shape[1] + 1), np.inf)
    total[:, 0] = 0.0
    for group in groups:
        total = _added(total, _Ways.of(group, fixed, reduced).cost)
    return total


def own_and_turned(
    groups: tuple[Group, ...], fixed: NDArray[np.int8], reduced: Floats, number: NDArray[np.int64]
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
                joins = np.where(way.rank < n, way.least[:, n, None], way.least[:, n - 1, None] + way.value)
                turned = np.where(inside, turned, np.minimum(turned, first + joins))
            if n + 1 < way.least.shape[1]:
                longer, value = way.least[:, n + 1, None], np.where(way.free, way.value, 0.0)
                leaves = np.where(way.rank >= n, way.least[:, n, None], longer - value)
                turned = np.where(inside, np.minimum(turned, first + leaves), turned)
        own[:, way.items] += inside.astype(np.uint8)
        more[:, way.items] = np.where(way.free, turned - np.where(np.isfinite(best), best, 0.0), np.inf)
    return own, more


class _Ways(NamedTuple):
    """One group in every row."""

    items: NDArray[np.int64]
    free: NDArray[np.bool_]  # (rows, size)
    value: Floats  # (rows, size): reduced costs, infinite of items that are not free
    rank: NDArray[np.int64]  # (rows, size): where each item stands in their order
    least: Floats  # (rows, size + 1): the sum of the 0, 1, ... least
    table: Floats  # (rows, size + 1): what as many free defectives cost the group

    @classmethod
    def of(cls, group: Group, fixed: NDArray[np.int8], reduced: Floats) -> "_Ways":
        here = fixed[:, group.items]
        free = here == FREE
        value = np.where(free, reduced[:, group.items], np.inf)
        rank = np.argsort(np.argsort(value, 1, kind="stable"), 1, kind="stable")
        least = np.pad(np.cumsum(np.sort(value, 1), 1), ((0, 0), (1, 0)))
        at = (here == 1).sum(1)[:, None] + np.arange(least.shape[1])
        table = np.where(at <= len(group.items), group.table[np.minimum(at, len(group.items))], np.inf)
        return cls(group.items, free, value, rank, least, table)

    @property
    def cost(self) -> Floats:
        return self.least + self.table


def _by_order(fixed: NDArray[np.int8], reduced: Floats, number: NDArray[np.int64]) -> tuple[NDArray[np.uint8], Floats]:
    """Without groups an item that comes in replaces the last one of the order, and one that goes out the next one."""
    free = fixed == FREE
    value = np.where(free, reduced, np.inf)
    inside = np.argsort(np.argsort(value, 1, kind="stable"), 1, kind="stable") < number[:, None]
    edges = np.pad(np.sort(value, 1), ((0, 0), (1, 1)), constant_values=((0, 0), (-np.inf, np.inf)))
    rows = np.arange(len(number))
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
