"""Multipliers of memberships: the charge of a pool, shared out among its items.

A negative pool costs b as soon as one of its items is defective. Over the count alone the best convex bound of that is
b/11 for each of 11 items. Over the items it is b times the largest x_j, which is the largest of sum_j s_j x_j over all
shares s >= 0 of which no more than b are given out; so each share raises what its own item costs, and the pool costs

    min over its free items z of  b [some z_j = 1] - sum_j s_j z_j  =  min(0, b - sum_j s_j).

Shares go where a pool's items are wanted for other pools, which the count cannot tell. Any table f is a charge and a
rest, f(c) = b [c > 0] + g(c): b is how much more the first step costs than the slope after it, and g has the envelope
of f from count 1 on, continued to 0. Once an item of the pool is fixed to 1, all of b is due, and f counts as it is.

The shares are found with the other multipliers (`relaxation`): they step up with the relaxed x of their items, and are
projected on the simplex of those that give out no more than b, by Newton's method on its threshold.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from qgt.decoders.certified.costs import Tables
from qgt.decoders.certified.ranges import WIDE, charges_of
from qgt.model.prior import FREE

OFTEN = 0.25  # of a batch's counts must have a charge, or shares cost more than they tell
SPREAD = 4  # times as many places as memberships: else pools differ too much in size for a table of them


@dataclass(frozen=True, eq=False)
class Shares:
    """The charges of a batch's tables, and which places of a table (pools, width) are items' memberships."""

    items: Tensor  # (pools, width): the items of each pool, and beyond them the number of all items
    places: Tensor  # (degree, items): where each item has its memberships, and beyond them pools times width
    uneven: bool  # whether there is anything beyond them
    charges: Tensor  # (values,), float64
    which: Tensor  # (instances, pools)

    @classmethod
    def of(cls, pools: Tensor, tables: Tables) -> "Shares | None":
        """From the matrix (pools, items); None where few counts have a charge, or pools differ much in size."""
        charges = charges_of(tables.costs)
        if not tables.which.numel() or float((charges > 0)[tables.which].double().mean()) < OFTEN:
            return None
        sizes, (number, n) = pools.sum(1).long(), pools.shape
        width, pool, item = int(sizes.max()), *pools.nonzero(as_tuple=True)
        if number * width > SPREAD * len(pool) or width > WIDE:
            return None
        every = torch.arange(len(pool), device=pool.device)
        place = pool * width + every - (sizes.cumsum(0) - sizes)[pool]
        items = every.new_full((number * width,), n).index_put_((place,), item)
        order, degree = item.argsort(stable=True), pools.sum(0).long()
        before = every - (degree.cumsum(0) - degree)[item[order]]
        places = place.new_full((int(degree.max()), n), number * width)
        places[before, item[order]] = place[order]
        uneven = bool((degree < len(places)).any())
        return cls(items.view(number, width), places, uneven, charges, tables.which)

    def none(self, nodes: int) -> Tensor:
        """No shares: (nodes, pools, width), float32."""
        return torch.zeros(nodes, *self.items.shape, device=self.items.device)

    def of_memberships(self, shares: Tensor) -> Tensor:
        """The shares of the design's memberships alone, pool by pool: (nodes, memberships)."""
        return shares.flatten(1)[:, (self.items < self.places.shape[1]).flatten()]

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

    def pick(self, keep: Tensor) -> "Given":
        """Some of the nodes."""
        return Given(self.shares, self.free[keep], self.ones[keep], self.charge[keep])

    @property
    def open(self) -> Tensor:
        """Whether a pool's charge is not due yet: (nodes, pools)."""
        return ~self.ones.any(2)

    def by_item(self, shares: Tensor) -> Tensor:
        """What is given to each item: (nodes, items)."""
        flat, places = shares.flatten(1), self.shares.places
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
        return shares * (self.charge.float() / shares.sum(2).clamp_(min=1e-9)).clamp_(max=1.0)[:, :, None]


@dataclass(eq=False)
class Raising:
    """Shares that rise with the relaxed x of their items, in an iteration; those of fixed items stay at 0."""

    given: Given
    step: float
    charge: Tensor  # (nodes, pools), float32: what may be given out
    shares: Tensor  # (nodes, pools, width)
    total: Tensor  # (nodes, pools, width): of the shares since the last restart
    threshold: Tensor  # (nodes, pools): of the last projection

    @classmethod
    def start(cls, given: Given, shares: Tensor, step: float) -> "Raising":
        """Begin from what is allowed of some shares."""
        charge = torch.where(given.open, given.charge, -torch.inf).float()  # what is due is not shared
        shares = given.allowed(shares)
        return cls(given, step, charge, shares, torch.zeros_like(shares), torch.zeros_like(charge))

    def pick(self, keep: Tensor) -> "Raising":
        """Some of the nodes."""
        parts = self.charge, self.shares, self.total, self.threshold
        return Raising(self.given.pick(keep), self.step, *(part[keep] for part in parts))

    def restart(self, shares: Tensor) -> None:
        """Go on from other shares, and forget the mean."""
        self.shares, self.total = shares.clone(), torch.zeros_like(shares)

    def rise(self, x: Tensor) -> None:
        """One step up, and the projection back by one step of Newton's method from the last threshold."""
        items = self.given.shares.items
        x = torch.nn.functional.pad(x, (0, 1)).index_select(1, items.flatten()).view(-1, *items.shape)
        shares = torch.add(self.shares, x, alpha=self.step)
        over = (shares - self.threshold[:, :, None]).clamp_(min=0.0)
        number = over.sign().sum(2).clamp_(min=1.0)
        self.threshold += (over.sum(2) - self.charge) / number
        self.threshold.clamp_(min=0.0)
        self.shares = shares.sub_(self.threshold[:, :, None]).clamp_(min=0.0)
        self.total += self.shares
