"""Tables with steps: tighter envelopes over the counts that a node leaves possible, and charges shared among items."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from qgt.decoders.certified.costs import Tables, convex_and_bent, envelopes
from qgt.model.prior import FREE

# Tables that are not convex, over the counts that a node leaves possible.
#
# A negative pool costs b as soon as one item is defective. Over counts from 0 to 11 its convex envelope charges b/11
# for the first, which is next to nothing. But a node fixes items, and a pool with `lowest` of its items fixed to 1 and
# `highest` not fixed to 0 has a count between the two: over 0 to 2 the envelope charges b/2, and from 1 on all of b. So
# tables with steps get an envelope for each range that occurs, and every item can be tried: with it defective, its
# pools have one more at least, and with it not defective one fewer at most.

WIDE_RANGE = 200  # a range of more counts than this is as good as none
STEPS_OFTEN = 0.05  # of a batch's counts
LEAST_CHARGE = 1e-3  # nats: a smaller charge is none
TIED = 1e-9  # nats: costs that differ by less are equal except for rounding
BIG_M = 1e6  # nats: what an impossible range costs more, in sums


def have_steps(tables: Tensor) -> Tensor:
    """Whether tables are not convex, or allow only count 0, which settles all items of the pool: (values,), bool.

    Example:
        >>> have_steps(torch.tensor([[0.0, 3.0, 3.0], [3.0, 0.0, 3.0]], dtype=torch.float64))
        tensor([ True, False])
    """
    possible = tables.isfinite()
    return ~convex_and_bent(tables)[0] | (possible[:, 0] & (possible.sum(1) == 1))


def level_off(tables: Tensor) -> Tensor:
    """Whether tables cost the same from some count on, but not at all counts: (values,), bool.

    Example:
        >>> level_off(torch.tensor([[3.0, 0.0, 0.0], [3.0, 0.0, 3.0], [0.0, 0.0, 0.0]], dtype=torch.float64))
        tensor([ True, False, False])
    """
    last = tables[:, -1:]
    return last[:, 0].isfinite() & (tables[:, -2:] == last).all(1) & ~(tables == last).all(1)


def charges_of(tables: Tensor) -> Tensor:
    """How much more the first defective costs than the slope after it says, where none at all is the cheapest.

    That is (values,), float64.

    Example:
        >>> charges_of(torch.tensor([[0.0, 3.0, 3.5, 4.0], [3.0, 0.0, 0.0, 0.0]], dtype=torch.float64))
        tensor([2.5000, 0.0000], dtype=torch.float64)
    """
    if tables.shape[1] < 3:
        return torch.zeros_like(tables[:, 0])
    sure = tables[:, :3].isfinite().all(1) & (tables.argmin(1) == 0)
    first = torch.where(sure[:, None], tables[:, :2], 0.0)
    after = (tables[:, 2:] - first[:, 1:]) / torch.arange(1, tables.shape[1] - 1, device=tables.device)
    charge = torch.where(sure, first[:, 1] - first[:, 0] - after.amin(1), 0.0)
    return torch.where(charge > LEAST_CHARGE, charge, 0.0)


@dataclass(eq=False)
class Ranges:
    """The envelopes of tables over ranges of counts, made when they are first asked for."""

    tables: Tables
    steps: Tensor  # (values,), bool: which tables have steps, or impossible counts
    pieces: Tensor  # those of the tables, then one column for each range
    rest: Tensor  # (values, counts): the tables from count 0 on, less what is charged elsewhere (`Shares`)
    known: dict[int, int] = field(default_factory=dict)  # the column of each range, by a number that names it
    adding: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, tables: Tables, *, charged: bool = False) -> "Ranges | None":
        """None where few counts have tables with steps, and ranges would cost more than they save."""
        steps = have_steps(tables.costs)
        often = float(steps[tables.which].float().mean()) >= STEPS_OFTEN if tables.which.numel() else False
        some = steps | tables.costs.isinf().any(1)  # a range may leave only what is impossible
        rest = tables.costs.clone()
        if charged:
            rest[:, 1:] -= charges_of(tables.costs)[:, None]
        return cls(tables, some, tables.pieces, rest) if often else None

    def columns(self, which: Tensor, lowest: Tensor, highest: Tensor) -> Tensor:
        """Where `pieces` has the envelopes of tables `which` between two counts: (nodes, pools)."""
        some = (self.steps[which] & (highest - lowest <= WIDE_RANGE)).nonzero(as_tuple=True)
        width = self.tables.costs.shape[1]
        names = (which[some] * width + lowest[some]) * width + highest[some]
        different, inverse = names.unique(return_inverse=True)
        if any(name not in self.known for name in different.tolist()):
            with self.adding:  # threads that share out nodes share their ranges
                self._add([name for name in different.tolist() if name not in self.known], width)
        columns = torch.tensor([self.known[name] for name in different.tolist()], device=which.device)
        found = which.clone()
        found[some] = columns[inverse] if len(columns) else found[some]
        return found

    def _add(self, names: list[int], width: int) -> None:
        """Make the envelopes of some ranges."""
        if not names:  # another thread has made them
            return
        name = torch.tensor(names, device=self.pieces.device)
        highest, lowest, value = name % width, name // width % width, name // width**2
        counts = torch.arange(width, device=name.device)
        parts = torch.where((lowest > 0)[:, None], self.tables.costs[value], self.rest[value])
        outside = (counts < lowest[:, None]) | (counts > highest[:, None])
        new, old = envelopes(parts.masked_fill(outside, torch.inf)), self.pieces
        most = max(len(new), len(old)) // 2 - 1
        self.pieces = torch.cat([_widened(old, most), _widened(new, most)], 1)
        self.known |= {name: old.shape[1] + i for i, name in enumerate(names)}  # only now: others look there first

    def least(self, which: Tensor, lowest: Tensor, highest: Tensor, pi: Tensor) -> Tensor:
        """The minimum over each range of the table plus pi times the count: (nodes, pools)."""
        columns = self.columns(which, lowest, highest)
        start, cost, *rest = self.pieces[:, columns]
        both = torch.stack(rest)
        slopes, lengths = both.chunk(2)
        least: Tensor = cost + pi * start + ((slopes + pi).clamp(max=0.0) * lengths).sum(0)
        return least


def _widened(pieces: Tensor, most: int) -> Tensor:
    """The same envelopes with room for more pieces."""
    before = len(pieces) // 2 - 1
    none = pieces.new_zeros(most - before, pieces.shape[1])
    return torch.cat([pieces[: 2 + before], none, pieces[2 + before :], none])


def counts_between(matrix: Tensor, fixed: Tensor) -> tuple[Tensor, Tensor]:
    """The least and the most count of each pool in each node: (nodes, pools) each."""
    lowest = (fixed == 1).float() @ matrix.T  # whole numbers, far below 2^24: float32 is exact
    return lowest.long(), (lowest + (fixed == FREE).float() @ matrix.T).long()


Due = Callable[[Tensor], Tensor]


def nothing_due(lowest: Tensor) -> Tensor:
    """Without charges."""
    return torch.zeros_like(lowest, dtype=torch.float64)


def turning_costs(
    ranges: Ranges,
    matrix: Tensor,
    owner: Tensor,
    fixed: Tensor,
    own: Tensor,
    tied: Tensor,
    pi: Tensor,
    due: Due = nothing_due,
) -> Tensor:
    """What pools cost more at least when an item is turned from what it is in `own`: (nodes, items), float64.

    Items are `tied` that an equally cheap x has turned round: rounding decides which of the two is taken, and whoever
    checks a leaf may take the other, so they count as turned the cheaper way. `due` says what charges cost each pool
    beside its table, with so many defectives or more.
    """
    which, (lowest, highest) = ranges.tables.which[owner], counts_between(matrix, fixed)
    narrow = ranges.steps[which] & (highest - lowest <= WIDE_RANGE) & (lowest < highest)
    least, more = ranges.least(which, lowest, highest, pi), torch.minimum(lowest + 1, highest)
    up = ranges.least(which, more, highest, pi) - least + due(more) - due(lowest)
    down = ranges.least(which, lowest, torch.maximum(highest - 1, lowest), pi) - least
    sure = narrow & least.isfinite()
    up, down = (torch.where(sure, change.clamp(0.0, BIG_M), 0.0) @ matrix.double() for change in (up, down))
    return torch.where(tied, torch.minimum(up, down), torch.where(own == 1, down, up))


# Multipliers of memberships: the charge of a pool, shared out among its items.
#
# A negative pool costs b as soon as one of its items is defective. Over the count alone the best convex bound of that
# is b/11 for each of 11 items. Over the items it is b times the largest x_j, which is the largest of sum_j s_j x_j over
# all shares s >= 0 of which no more than b are given out; so each share raises what its own item costs, and the pool
# costs
#
#     min over its free items z of  b [some z_j = 1] - sum_j s_j z_j  =  min(0, b - sum_j s_j).
#
# Shares go where a pool's items are wanted for other pools, which the count cannot tell. Any table f is a charge and a
# rest, f(c) = b [c > 0] + g(c): b is how much more the first step costs than the slope after it, and g has the envelope
# of f from count 1 on, continued to 0. Once an item of the pool is fixed to 1, all of b is due, and f counts as it is.
#
# The shares are found with the other multipliers (`relaxation`): they step up with the relaxed x of their items, and
# are projected on the simplex of those that give out no more than b, by Newton's method on its threshold.

SHARES_OFTEN = 0.25  # of a batch's counts must have a charge, or shares cost more than they save
TINY = 1e-9  # nats, instead of nothing given out
MOST_PLACES = 4  # times as many places as memberships: else pools differ too much in size for a table of them


@dataclass(frozen=True, eq=False)
class Shares:
    """The charges of a batch's tables, and which places of a table (pools, width) are items' memberships."""

    items: Tensor  # (pools, width): the items of each pool, and beyond them the number of all items
    places: Tensor  # (items, degree): where each item has its memberships, and beyond them pools times width
    uneven: bool  # whether there is anything beyond them
    charges: Tensor  # (values,), float64
    which: Tensor  # (instances, pools)

    @classmethod
    def of(cls, pools: Tensor, tables: Tables) -> "Shares | None":
        """From the matrix (pools, items); None where few counts have a charge, or pools differ much in size."""
        charges = charges_of(tables.costs)
        if not tables.which.numel() or float((charges > 0)[tables.which].double().mean()) < SHARES_OFTEN:
            return None
        sizes, (number, n) = pools.sum(1).long(), pools.shape
        width, pool, item = int(sizes.max()), *pools.nonzero(as_tuple=True)
        if number * width > MOST_PLACES * len(pool) or width > WIDE_RANGE:
            return None
        every = torch.arange(len(pool), device=pool.device)
        place = pool * width + every - (sizes.cumsum(0) - sizes)[pool]
        items = every.new_full((number * width,), n).index_put_((place,), item)
        order, degree = item.argsort(stable=True), pools.sum(0).long()
        before = every - (degree.cumsum(0) - degree)[item[order]]
        places = place.new_full((n, int(degree.max())), number * width)
        places[item[order], before] = place[order]
        uneven = bool((degree < places.shape[1]).any())
        return cls(items.view(number, width), places, uneven, charges, tables.which)

    def none(self, nodes: int) -> Tensor:
        """No shares: (nodes, pools, width), float32."""
        return torch.zeros(nodes, *self.items.shape, device=self.items.device)

    def of_memberships(self, shares: Tensor) -> Tensor:
        """The shares of the design's memberships alone, pool by pool: (nodes, memberships)."""
        return shares.flatten(1)[:, (self.items < len(self.places)).flatten()]

    def at(self, owner: Tensor, fixed: Tensor) -> "Given":
        """What there is to share in some nodes."""
        statuses = torch.nn.functional.pad(fixed, (0, 1))[:, self.items]  # beyond all items none is free, nor 1
        return Given(self, statuses == FREE, statuses == 1, self.charges[self.which[owner]])


@dataclass(frozen=True, eq=False)
class Given:
    """Pools that share out their charges, in some nodes."""

    shares: Shares
    free: Tensor  # (nodes, pools, width), bool
    ones: Tensor  # (nodes, pools, width), bool: where items are fixed to 1
    charge: Tensor  # (nodes, pools), float64

    @cached_property
    def open(self) -> Tensor:
        """Whether a pool's charge is not due yet: (nodes, pools)."""
        return ~self.ones.any(2)

    def by_item(self, shares: Tensor) -> Tensor:
        """What is given to each item: (nodes, items)."""
        flat, places = shares.flatten(1), self.shares.places.T
        if self.shares.uneven:
            flat = torch.nn.functional.pad(flat, (0, 1))
        return flat.index_select(1, places.flatten()).view(-1, *places.shape).sum(1)

    def least(self, shares: Tensor, lowest: Tensor | None = None) -> Tensor:
        """What charges less shares cost each pool at least, with so many defectives or more: (nodes, pools), float64.

        Where no number is given, it is that of the items fixed to 1.
        """
        free = torch.where(self.free, shares, 0.0).sum(2, dtype=torch.float64)
        ones = torch.where(self.ones, shares, 0.0).sum(2, dtype=torch.float64)
        none = self.open if lowest is None else lowest == 0
        return torch.where(none, (self.charge - free).clamp(max=0.0), -free) - ones

    def even(self) -> Tensor:
        """All that pools have to share, given to their free items alike."""
        each = torch.where(self.open, self.charge, 0.0) / self.free.sum(2).clamp(min=1)
        return self.free * each[:, :, None].float()

    def allowed(self, shares: Tensor) -> Tensor:
        """The same shares but those that cannot be given: to items that are fixed, or more than the charge."""
        shares = torch.where(self.free & self.open[:, :, None], shares, 0.0)
        return shares * (self.charge.float() / shares.sum(2).clamp_(min=TINY)).clamp_(max=1.0)[:, :, None]


class Raising(NamedTuple):
    """Shares that rise with the relaxed x of their items, in an iteration; those of fixed items stay at 0.

    Nodes are the last axis here, so that what is gathered are rows. All that a step needs has its memory from the
    start: with fresh pages for every result a step takes ten times as long.
    """

    items: Tensor  # (pools, width): as `Shares` has them
    places: Tensor  # (items, degree)
    step: float
    charge: Tensor  # (pools, nodes), float32: what may be given out
    shares: Tensor  # (pools times width + 1, nodes): beyond all places there is 0
    total: Tensor  # (pools times width, nodes): of the shares since the last restart
    threshold: Tensor  # (pools, nodes): of the last projection
    best: Tensor  # (pools times width, nodes): those of the best bound
    x: Tensor  # (items + 1, nodes): memory, 0 beyond all items
    near: Tensor  # (pools times width + 1, nodes): memory, 0 beyond all places

    @classmethod
    def start(cls, given: Given, shares: Tensor, step: float) -> "Raising":
        """Begin from what is allowed of some shares: (nodes, pools, width)."""
        charge = torch.where(given.open, given.charge, -torch.inf).float().T.contiguous()  # what is due is not shared
        rows = torch.nn.functional.pad(given.allowed(shares).flatten(1), (0, 1)).T.contiguous()
        items, places = given.shares.items, given.shares.places
        total, threshold = torch.zeros_like(rows[:-1]), torch.zeros_like(charge)
        x = rows.new_zeros(len(places) + 1, rows.shape[1])
        best, near = rows[:-1].clone(), torch.zeros_like(rows)
        return cls(items, places, step, charge, rows, total, threshold, best, x, near)

    def pick(self, keep: Tensor) -> "Raising":
        """Some of the nodes."""
        return Raising(*self[:3], *(part.index_select(1, keep) for part in self[3:]))

    def allowed_(self, steps: int | None) -> Tensor:
        """Put the shares, as far as they are allowed, into `near`, until the next step: those now, or a mean.

        The mean is that of so many steps since the last restart. Pools that give out no more than their charge cost
        nothing more.
        """
        near = self.near[:-1]
        if steps is None:
            near.copy_(self.shares[:-1])
        else:
            torch.div(self.total, steps, out=near)
        pools = near.view(*self.items.shape, -1)
        pools.mul_((self.charge / pools.sum(1).clamp_(min=TINY)).clamp_(0.0, 1.0)[:, None])
        return self.near

    def keep(self, better: Tensor) -> None:
        """Keep those in `near` as the best, in some nodes."""
        torch.where(better, self.near[:-1], self.best, out=self.best)

    def restart(self) -> None:
        """Go on from the best shares, and forget the mean."""
        self.shares[:-1] = self.best
        self.total.zero_()

    def best_of(self, some: Tensor) -> Tensor:
        """The shares of the best bound of some nodes: (nodes, pools, width)."""
        return self.best.index_select(1, some).T.reshape(-1, *self.items.shape)
