"""What a search works on: the costs that all instances share, and those of each one's counts.

The cost of x under one instance is a sum over items, groups of them, and pools (see `qgt.model.factors`),

    cost(x) = constant + sum_j w_j x_j + T(sum_j x_j) + sum_g G_g(number in g) + sum_i f_i((A x)_i).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from qgt.decoders.envelopes import corners_of
from qgt.decoders.results import LeafItem
from qgt.model.factors import PoolCosts, finite_tables
from qgt.model.prior import ALONE, FREE, FactoredPrior, Groups, ItemCosts
from qgt.model.problem import Problem

BEYOND_POSSIBLE = 10.0  # what each step beyond the possible counts costs, where an answer must cost something


def softened(tables: Tensor) -> Tensor:
    """Tables (rows, counts) from count -1 on, finite: impossible counts cost more the farther off they are; float32.

    Example:
        >>> import torch
        >>> softened(torch.tensor([[torch.inf, 3.0]], dtype=torch.float64))
        tensor([[23., 13.,  3., 13.]])
    """
    padded = torch.nn.functional.pad(tables, (1, 1), value=torch.inf)
    return finite_tables(padded, price=0.0, step=BEYOND_POSSIBLE).float()


# Disjoint groups of items inside the minimum over x: exact, by sorting each group.
#
# With reduced costs r_j, and G the table of a group, the cheapest way to have n of its free items defective is
#
#     h(n) = G(n and those fixed to 1) + the n least r_j of its free items,
#
# and the cheapest x with k free defectives in all is a minimum over how many each group has,
#
#     min over n_1 + n_2 + ... = k of h_1(n_1) + h_2(n_2) + ...,
#
# found group by group (a convolution of minima and sums). Done from both ends it also says what the cheapest x costs in
# which a given item is turned round. Items of ordered groups are taken in their own order, not in that of their r_j; an
# item of theirs is then turned round by another number alone.
#
# Relaxed, a group whose table is concave, as those of households are, costs what its steps cost times the sorted x (the
# Lovasz extension). Two of its steps are kept here, the first one and the mean of the others: charge times the largest
# x plus slope times their sum. Only the search for multipliers uses that; bounds come from the tables.

# A group of a node may be *marked*: it has at least one defective, and which one is open. All its free items then have
# the code `LeafItem.SOME` less the number of the group, so items below 0 are free. The charge of the group is due.

MOST_MARKED = 127  # groups that have a code of their own in int8
ROUNDS = 4  # in which the largest x of a group is found at first: exact up to groups of this size
SUMS_TOGETHER = 512  # nodes
NEVER_CUT = 1e3  # more than any relaxed x, even before it is put between its bounds


@dataclass(frozen=True, eq=False)
class Members:
    """Groups that hold every item once: those of the prior, and each other item as one of its own."""

    items: Tensor  # (groups, size): the items of each group, and beyond them the number of all items
    costs: Tensor  # (groups, size + 1), float64: of 0, 1, ... defectives, infinite where impossible
    place: Tensor  # (items,): the place of each item in `items`, flattened
    charge: Tensor  # (groups,), float32: what the largest relaxed x of a group is charged
    slope: Tensor  # (items,), float64: what the sum of the relaxed x of its group is charged
    ordered: bool  # whether the items of a group are defective in order

    @classmethod
    def of(cls, groups: Groups, device: torch.device) -> "Members":
        """Take the tables of a prior's groups."""
        count, alone = len(groups.group), (groups.group == ALONE).nonzero()[:, 0]
        size = groups.tables.shape[1] - 1
        items = torch.full((len(groups.tables) + len(alone), max(size, 1)), count)
        for number in range(len(groups.tables)):
            own = (groups.group == number).nonzero()[:, 0]
            items[number, : len(own)] = own
        items[len(groups.tables) :, 0] = alone
        costs = torch.full((len(items), items.shape[1] + 1), torch.inf, dtype=torch.float64)
        costs[: len(groups.tables), : size + 1] = groups.tables
        costs[len(groups.tables) :, :2] = 0.0
        sizes = (items < count).sum(1)
        soft = softened(costs)[:, 1:-1].double()  # (groups, size + 1)
        last = soft.gather(1, sizes[:, None])[:, 0]
        first = torch.where(sizes > 1, soft[:, 1], last)
        slope = torch.where(sizes > 1, (last - first) / (sizes - 1).clamp(min=1), 0.0)
        charge = first - soft[:, 0] - slope
        place = torch.empty(count + 1, dtype=torch.int64)
        place[items.flatten()] = torch.arange(items.numel())
        group = place[:-1] // items.shape[1]
        whole = (last - soft[:, 0]) / sizes.clamp(min=1)  # of tables that are not concave: no charge, one slope
        slope = torch.where(charge > 0, slope, whole)[group]
        if groups.ordered:  # each item pays the step that it makes, where steps rise
            steps = soft.diff(dim=1)  # (groups, size)
            rising = (steps.diff(dim=1) >= 0).all(1)[group]
            slope = torch.where(rising, steps.flatten()[place[:-1]], slope)
        parts = items, costs, place[:-1], charge.clamp(min=0.0).float(), slope
        items, costs, place, charge, slope = (part.to(device) for part in parts)
        return cls(items, costs, place, charge, slope, groups.ordered)

    def gathered(self, values: Tensor, beyond: float) -> Tensor:
        """Values (nodes, items) by group: (nodes, groups, size)."""
        return torch.nn.functional.pad(values, (0, 1), value=beyond)[:, self.items]

    def scattered(self, values: Tensor) -> Tensor:
        """Values (nodes, groups, size) by item: (nodes, items)."""
        return values.flatten(1)[:, self.place]

    @cached_property
    def steps(self) -> Tensor | None:
        """What each item of ordered groups adds to its group's cost, where these steps rise in every group: (items,).

        Then the cheapest x is in order by itself, and its items can be looked at one by one.
        """
        steps = self.costs.diff(dim=1)
        if not self.ordered or not bool(self.costs.isfinite().all()) or not bool((steps.diff(dim=1) >= 0).all()):
            return None
        return steps.flatten()[self.place]

    @cached_property
    def group(self) -> Tensor:
        """The number of each item's group: (items,)."""
        return self.place // self.items.shape[1]

    def marked(self, fixed: Tensor) -> Tensor:
        """Which groups have at least one defective as nodes say: (nodes, groups), bool."""
        return self.gathered(fixed <= LeafItem.SOME, 0.0).any(2)

    @cached_property
    def charged(self) -> bool:
        """Whether any group has a charge."""
        return bool((self.charge > 0).any())

    @cached_property
    def inside(self) -> tuple[Tensor, Tensor]:
        """Which items are in each group that has a charge: (items, charged groups), float32; and these charges."""
        some = (self.charge > 0).nonzero()[:, 0]
        return (self.group[:, None] == some).float(), self.charge[some]

    def charges(self, fixed: Tensor, step: Tensor) -> "Charges":
        """The charges of some nodes, whose largest relaxed x may be cut off in steps of their own, (nodes, 1)."""
        inside, charge = self.inside
        due = (((fixed == 1) | (fixed <= LeafItem.SOME)).float() @ inside).clamp_(max=1.0)
        uncut = ~((fixed < 0) & (inside.sum(1) > 0)) * NEVER_CUT
        return Charges(inside, step * charge, uncut, due, torch.zeros_like(due), uncut.clone())


class Charges(NamedTuple):
    """What the largest relaxed x of each group is charged, in some nodes of an iteration."""

    inside: Tensor  # (items, groups), float32
    charge: Tensor  # (nodes, groups), float32: times the node's step
    uncut: Tensor  # (nodes, items), float32: 0 where an item is free and in a group, otherwise more than any x
    due: Tensor  # (nodes, groups), float32: 1 where nothing is cut off, as the charge is due in any case
    top: Tensor  # (nodes, groups): at which the last x were cut off
    tops: Tensor  # (nodes, items): the same by item

    def pick(self, keep: Tensor) -> "Charges":
        """Some of the nodes."""
        return Charges(self.inside, *(part[keep] for part in self[1:]))


class _GroupWays(NamedTuple):
    """The groups of some nodes, each with its free items in order of their reduced costs."""

    value: Tensor  # (nodes, groups, size): reduced costs of free items, infinite of others
    rank: Tensor  # (nodes, groups, size): the place of each item in that order
    least: Tensor  # (nodes, groups, size + 1): the sum of the 0, 1, ... least
    table: Tensor  # (nodes, groups, size + 1): what as many cost the group

    @classmethod
    def of(cls, members: Members, fixed: Tensor, reduced: Tensor) -> "_GroupWays":
        value = members.gathered(torch.where(fixed < 0, reduced, torch.inf), torch.inf)
        ordered, order = _in_order(value) if members.ordered else value.sort(2)
        slots = torch.arange(order.shape[2], device=order.device)
        rank = torch.empty_like(order).scatter_(2, order, slots.expand_as(order))
        least = torch.nn.functional.pad(ordered.cumsum(2), (1, 0))
        ones = members.gathered((fixed == 1).long(), 0.0).sum(2)
        at = (ones[:, :, None] + torch.arange(least.shape[2], device=ones.device)).clamp(max=least.shape[2] - 1)
        table = members.costs.expand(len(ones), -1, -1).gather(2, at)  # beyond the last entry, `least` is infinite
        table[:, :, 0].masked_fill_(members.marked(fixed) & (ones == 0), torch.inf)
        if members.ordered:  # none of those fixed to 0 comes before one that is defective, nor after it one fixed to 1
            status = members.gathered(fixed, 0.0)[:, :, None]  # (nodes, groups, 1, size)
            inside = torch.arange(status.shape[3], device=at.device) < at[..., None]
            table = table.masked_fill(torch.where(inside, status == 0, status == 1).any(3), torch.inf)
        return cls(value, rank, least, table)

    @property
    def cost(self) -> Tensor:
        """Of having 0, 1, ... free items defective: (nodes, groups, size + 1)."""
        return self.least + self.table


def _in_order(value: Tensor) -> tuple[Tensor, Tensor]:
    """Free items, whose values are finite, in their own order, before all others; and that order."""
    order = value.isinf().to(torch.uint8).argsort(dim=2, stable=True)
    return value.gather(2, order), order


def group_minimum(members: Members, fixed: Tensor, reduced: Tensor) -> Tensor:
    """The least that free items and groups cost, with any number of defectives: (nodes,)."""
    return _GroupWays.of(members, fixed, reduced).cost.amin(2).sum(1)


def group_minima(members: Members, fixed: Tensor, reduced: Tensor, numbers: int) -> Tensor:
    """The same with 0, 1, ... free items defective: (nodes, numbers)."""
    return _sums(_GroupWays.of(members, fixed, reduced).cost, numbers)[-1]


def group_swaps(members: Members, fixed: Tensor, reduced: Tensor, number: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The cheapest x with so many free defectives, what it costs, and what it costs more with each item turned round.

    Of x only the free items count. Where several x are cheapest, some item may be turned round for nothing.
    """
    ways = _GroupWays.of(members, fixed, reduced)
    others = _others(ways.cost, number)
    cost, chosen = (others + ways.cost).min(2)  # of each group's number: (nodes, groups)
    inside = ways.rank < chosen[:, :, None]
    turned = torch.full_like(ways.value, torch.inf)
    last = ways.least.shape[2] - 1
    for n in range(last + 1):
        rest = (others[:, :, n] + ways.table[:, :, n])[:, :, None]
        least = ways.least[:, :, n, None]
        if n > 0:  # an item that comes in is among the n least, or takes the last one's place
            instead = torch.inf if members.ordered else ways.least[:, :, n - 1, None] + ways.value
            joins = torch.where(ways.rank < n, least, instead)
            turned = torch.where(inside, turned, torch.minimum(turned, rest + joins))
        if n < last:  # one that goes out is not among them, or leaves its place to the next one
            instead = torch.inf if members.ordered else ways.least[:, :, n + 1, None] - ways.value
            leaves = torch.where(ways.rank >= n, least, instead)
            turned = torch.where(inside, torch.minimum(turned, rest + leaves), turned)
    best = cost[:, 0]
    free = fixed < 0
    more = members.scattered(turned) - torch.where(best.isfinite(), best, 0.0)[:, None]
    return members.scattered(inside) & free, best, torch.where(free, more, torch.inf)


def _sums(cost: Tensor, numbers: int) -> Tensor:
    """The least cost of 0, 1, ... defectives in the first 0, 1, ... groups: (groups + 1, nodes, numbers)."""
    sizes = min(cost.shape[2], numbers)
    found = cost.new_full((cost.shape[1] + 1, len(cost), sizes - 1 + numbers), torch.inf)  # those before 0 stay as such
    found[0, :, sizes - 1] = 0.0
    for group in range(cost.shape[1]):
        ways = found[group].unfold(1, sizes, 1).permute(2, 0, 1)  # (sizes, nodes, numbers): a group has all but so many
        found[group + 1, :, sizes - 1 :] = (ways + cost[:, group, :sizes].flip(1).T[:, :, None]).amin(0)
    return found[:, :, sizes - 1 :]


def _others(cost: Tensor, number: Tensor) -> Tensor:
    """The least cost of all groups but one, which has 0, 1, ... of the given number: (nodes, groups, size + 1).

    On a CPU a few nodes of like numbers are looked at together: their sums are short, and stay in the caches.
    """
    if cost.is_cuda or len(cost) <= SUMS_TOGETHER:
        return _others_of_alike(cost, number)
    order = number.argsort()
    parts = [_others_of_alike(cost[some], number[some]) for some in order.split(SUMS_TOGETHER)]
    return torch.empty_like(cost).index_copy_(0, order, torch.cat(parts))


def _others_of_alike(cost: Tensor, number: Tensor) -> Tensor:
    """The same with sums as long as the largest number needs."""
    numbers = int(number.max()) + 1
    before, after = _sums(cost, numbers)[:-1], _sums(cost.flip(1), numbers)[:-1].flip(0)  # (groups, nodes, numbers)
    rest = number[:, None] - torch.arange(numbers, device=cost.device)  # (nodes, numbers)
    behind = torch.where(rest >= 0, after.gather(2, rest.clamp(min=0).expand_as(after)), torch.inf)
    found = torch.full_like(cost, torch.inf)
    for n in range(min(cost.shape[2], numbers)):
        found[:, :, n] = (before[:, :, : numbers - n] + behind[:, :, n:]).amin(2).T
    return found


# The costs of a batch.

PIECES = 8  # of an envelope, at most: beyond, its outermost slopes go on, which keeps it below


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
    above_least: float = 0.0  # nats that pools of a larger problem cost more here than the least they may cost there

    @classmethod
    def of(cls, problem: Problem, device: torch.device) -> "Model":
        """Take the costs of the prior, and what the method needs of the design."""
        assert isinstance(problem.prior, FactoredPrior)  # what `supports` says, for the type checker
        return cls.build(problem.design.matrix, problem.prior.costs(problem.items), device)

    @classmethod
    def build(cls, pools: Tensor, costs: ItemCosts, device: torch.device, above_least: float = 0.0) -> "Model":
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
            above_least,
        )

    def inverse_of(self, rows: Tensor) -> Tensor:
        """(A A' + I)^-1 of some rows, bool (..., rows), and 0 in all others: (..., rows, rows), float32."""
        matrix, both = self.matrix.double(), rows[..., None] & rows[..., None, :]
        inside = torch.where(both, matrix @ matrix.T, 0.0) + torch.eye(len(matrix)).to(matrix)
        return torch.where(both, torch.linalg.inv(inside), 0.0).float()

    @cached_property
    def inverse_without_number(self) -> Tensor:
        """The same of the pools alone."""
        last = len(self.matrix) - 1
        return self.inverse_of(torch.arange(last + 1, device=self.matrix.device) < last)

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
        return (self.numbers[nearest] + BEYOND_POSSIBLE * far).float().diff()


@dataclass(frozen=True, eq=False)
class Tables:
    """The costs of a batch's counts: one row for every value that occurs among them, and which one each count has."""

    costs: Tensor  # (values, counts), float64, infinite where impossible
    which: Tensor  # (instances, pools)
    pieces: Tensor  # (2 + twice the pieces, values): start, cost there, slopes, lengths, float64

    @classmethod
    def of(cls, pools: PoolCosts) -> "Tables":
        """The envelope of every table."""
        return cls(pools.tables, pools.which, envelopes(pools.tables))

    @cached_property
    def flat(self) -> Tensor:
        """Which tables cost the same at any count, as those of missing counts do: (values,), bool."""
        return (self.costs == self.costs[:, :1]).all(1) & self.costs[:, 0].isfinite()

    @cached_property
    def rises(self) -> Tensor:
        """What counts cost more with one more defective, from -1 on, finite: (values, counts + 1), float32."""
        return softened(self.costs).diff(dim=1)


# Convex envelopes of many tables at once. Real-valued counts have a table each, so nothing here is done table by table.

CHORDS = 2**22  # between two counts of a table, that are looked at together
WIDE_TABLE = 2**10  # counts: a wider table has too many chords


def envelopes(tables: Tensor) -> Tensor:
    """The envelopes of tables (values, counts), of few pieces: (2 + twice the pieces, values).

    An envelope of more pieces keeps those around its least cost. The tangents at both ends of what is kept are below
    the rest.

    Example:
        >>> import torch
        >>> table = torch.tensor([[torch.inf, 3.0, 1.0, 3.0]], dtype=torch.float64)
        >>> envelopes(table)[:, 0]  # start, cost, slopes, lengths
        tensor([ 1.,  3., -2.,  2.,  1.,  1.], dtype=torch.float64)
    """
    corner = corners(tables)
    number = corner.sum(1, keepdim=True)  # (values, 1)
    most = max(1, int(number.max()) if len(tables) else 1)
    slot = torch.arange(tables.shape[1], device=tables.device).expand_as(corner)
    at = slot.new_zeros(len(tables), most + 1).scatter_(1, torch.where(corner, corner.cumsum(1) - 1, most), slot)
    at = at.gather(1, torch.minimum(slot.new_tensor(range(most)), (number - 1).clamp(min=0)))  # the last one repeated
    heights = tables.gather(1, at)  # (values, corners)
    if most == 1:
        none = torch.zeros_like(heights)
        return torch.cat([at.to(heights), heights, none, none], 1).T.contiguous()
    lengths = at.diff(dim=1).to(heights)
    slopes = torch.where(lengths > 0, heights.diff(dim=1) / lengths.clamp(min=1.0), 0.0)
    kept, pieces = min(PIECES, most - 1), number - 1
    first = ((slopes < 0).sum(1, keepdim=True) - PIECES // 2).clamp(min=0)
    first = torch.minimum(first, (pieces - kept).clamp(min=0))
    window = first + slot.new_tensor(range(kept))
    before = (at.gather(1, first) - at[:, :1]).to(heights)
    after = (at[:, -1:] - at.gather(1, first + kept)).to(heights)
    slopes, lengths = slopes.gather(1, window), lengths.gather(1, window)
    cost = heights.gather(1, first) - slopes[:, :1] * before
    lengths[:, :1] += before
    lengths[:, -1:] += after
    return torch.cat([at[:, :1].to(heights), cost, slopes, lengths], 1).T.contiguous()


def corners(tables: Tensor) -> Tensor:
    """The corners of the largest convex function below each table (values, counts): (values, counts), bool."""
    convex, found = convex_and_bent(tables)
    others = (~convex).nonzero()[:, 0]
    for some in others.split(max(1, CHORDS // tables.shape[1] ** 2)):
        found[some] = _corners_by_chords(tables[some])
    return found


def convex_and_bent(tables: Tensor) -> tuple[Tensor, Tensor]:
    """Whether tables are convex without a gap: (values,); and which possible counts are an end or a bend of them."""
    finite = torch.nn.functional.pad(torch.where(tables.isfinite(), tables, 0.0), (1, 1))
    possible = torch.nn.functional.pad(tables.isfinite(), (1, 1))
    inner = possible[:, :-2] & possible[:, 1:-1] & possible[:, 2:]
    bends = torch.where(inner, finite.diff(dim=1).diff(dim=1), 0.0)  # (values, counts)
    runs = (possible[:, 1:] & ~possible[:, :-1]).sum(1)  # of possible counts
    bent = possible[:, 1:-1] & (~inner | (bends > 0))
    return (runs <= 1) & (bends >= 0).all(1), bent


def _corners_by_chords(tables: Tensor) -> Tensor:
    """The same by brute force: a corner is where all slopes from the left are less than all slopes to the right."""
    if tables.shape[1] > WIDE_TABLE:
        return _corners_one_by_one(tables)
    possible = tables.isfinite()
    finite, counts = torch.where(possible, tables, 0.0), torch.arange(tables.shape[1], device=tables.device)
    run = counts - counts[:, None]
    slopes = (finite[:, None] - finite[:, :, None]) / torch.where(run == 0, 1, run)  # (values, from, to)
    ahead = (run > 0) & possible[:, :, None] & possible[:, None]
    left = torch.where(ahead, slopes, -torch.inf).amax(1)
    right = torch.where(ahead, slopes, torch.inf).amin(2)
    return possible & (left < right)


def _corners_one_by_one(tables: Tensor) -> Tensor:
    """The same of wide tables, which have too many chords."""
    found = torch.zeros_like(tables, dtype=torch.bool)
    for row, table in zip(found, tables.cpu().numpy(), strict=True):
        counts = np.flatnonzero(np.isfinite(table))
        if len(counts):
            row[torch.from_numpy(corners_of(counts, table[counts])[0]).to(row.device)] = True
    return found
