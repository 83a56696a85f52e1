"""A large problem made small: items that no x below a limit has otherwise are fixed, and what is left is searched.

With multipliers pi, r_j = w_j - (A' pi)_j, and a bound for every number of defectives k, the cheapest x of k
defectives has the k least r_j. An x of k defectives in which a given item is turned round costs at least that bound and
a swap more (see `items`). An item whose turning reaches the limit for every k that is not excluded keeps its status,
and one leaf with these multipliers shows it. What is left is a problem of few items, whose pools count from
the items that are fixed to 1; its leaves become leaves of the large problem by putting back what is fixed.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from qgt.decoders.certified.costs import Model, Tables
from qgt.decoders.certified.levels import CLOSE
from qgt.decoders.certified.nodes import Found, Leaves
from qgt.decoders.results import KEPT
from qgt.model.design import Design
from qgt.model.factors import PoolCosts
from qgt.model.prior import FREE, ItemCosts

SURE = 1e-4  # nats beyond the limit, so that whoever checks may round off


@dataclass(frozen=True, eq=False)
class Large:
    """One instance of a large problem without groups, and multipliers of its pools; on the CPU."""

    design: Design
    items: ItemCosts
    tables: Tensor  # (pools, counts), float64: infinite where impossible
    pi: Tensor  # (pools,), float32

    @property
    def numbers(self) -> Tensor:
        """What 0, 1, ... defectives cost by themselves: (items + 1,)."""
        return torch.zeros(self.design.items + 1, dtype=torch.float64) if self.items.total is None else self.items.total

    def bounds(self) -> tuple[Tensor, Tensor]:
        """No x of 0, 1, ... defectives costs less: (items + 1,); and the items' reduced costs."""
        pi, counts = self.pi.double(), torch.arange(self.tables.shape[1])
        impossible = counts > self.design.pool_sizes[:, None]
        pools = (self.tables + pi[:, None] * counts).masked_fill(impossible, torch.inf).amin(1).sum()
        reduced = self.items.weights - self.design.spread(pi[None])[0]
        known = self.items.known
        free, ones = known == FREE, known == 1
        least = torch.full_like(self.numbers, torch.inf)
        sums = reduced[free].sort().values.cumsum(0)
        first = int(ones.sum())
        least[first : first + 1 + len(sums)] = torch.nn.functional.pad(sums, (1, 0))
        return self.items.constant + pools + reduced[ones].sum() + least + self.numbers, reduced

    def settled(self, bounds: Tensor, reduced: Tensor, limit: float) -> tuple[Tensor, Tensor]:
        """Which free items no x below the limit has otherwise, and how they are: (items,) each."""
        free = self.items.known == FREE
        alive = (bounds < limit).nonzero()[:, 0]
        number = alive - int((self.items.known == 1).sum())  # of free items that are defective
        value, order = torch.where(free, reduced, torch.inf).sort()
        ends = torch.nn.functional.pad(value, (1, 1), value=torch.inf)
        ends[0] = -torch.inf
        # An item that comes in takes the place of the dearest one inside; one that goes out leaves its to the next.
        rank = torch.empty_like(order).scatter_(0, order, torch.arange(len(order)))
        comes_in = (bounds[alive] - ends[number]).amin() + reduced
        goes_out = (bounds[alive] + ends[number + 1]).amin() - reduced
        inside, outside = rank < number.amin(), rank >= number.amax()
        tight = (outside & (comes_in >= limit + SURE)) | (inside & (goes_out >= limit + SURE))
        return tight & free, inside & free


@dataclass(frozen=True, eq=False)
class Small:
    """What is left of a large problem where some items are fixed."""

    large: Large
    fixed: Tensor  # (items,), int8: of the large problem
    free: Tensor  # (free,): the items that are left
    inside: Tensor  # the pools that hold any of them
    model: Model
    tables: Tables

    @classmethod
    def of(cls, large: Large, fixed: Tensor) -> "Small":
        """Leave the items that are FREE."""
        free, ones = (fixed == FREE).nonzero()[:, 0], (fixed == 1).to(torch.uint8)
        base, sizes = large.design.count(torch.stack([ones, (fixed == FREE).to(torch.uint8)])).long()
        inside = sizes.nonzero()[:, 0]
        counts = torch.arange(int(sizes.max()) + 1)
        at = base[inside, None] + counts
        table = large.tables[inside].gather(1, at.clamp(max=large.tables.shape[1] - 1))
        table = table.masked_fill(counts > sizes[inside, None], torch.inf)
        different, which = table.unique(dim=0, return_inverse=True)
        rest = torch.ones(len(base), dtype=torch.bool).index_fill_(0, inside, False)
        settled = large.tables[rest].gather(1, base[rest, None])[:, 0]
        dear = int((settled > large.tables.min() + CLOSE).sum())
        number = int(ones.sum())
        costs = ItemCosts(
            large.items.constant + float(large.items.weights @ ones.double() + settled.sum()),
            large.items.weights[free],
            torch.full((len(free),), FREE, dtype=torch.int8),
            None if large.items.total is None else large.items.total[number : number + len(free) + 1],
        )
        model = Model.build(_matrix(large.design, inside, free), costs, free.device, dear)
        return cls(large, fixed, free, inside, model, Tables.of(PoolCosts(different, which[None])))

    def found(self, found: Found) -> Found:
        """Answers of the small problem as answers of the large one."""
        x = (self.fixed == 1).to(torch.uint8).expand(len(found.owner), -1).clone()
        x[:, self.free] = found.x
        return found._replace(x=x)

    def leaves(self, leaves: Leaves) -> Leaves:
        """Leaves of the small problem as leaves of the large one."""
        fixed = self.fixed.expand(len(leaves.owner), -1).clone()
        fixed[:, self.free] = leaves.fixed
        pi = self.large.pi.expand(len(leaves.owner), -1).clone()
        pi[:, self.inside] = leaves.pi
        # The first and the last leaf also hold the numbers of defectives that what is fixed leaves impossible.
        number = int((self.fixed == 1).sum())
        least = torch.where(leaves.least == 0, 0, leaves.least + number)
        most = torch.where(leaves.most == len(self.free), len(self.fixed), leaves.most + number)
        return Leaves(leaves.owner, fixed, least, most, pi, leaves.shares)


def root_leaf(large: Large, tight: Tensor, own: Tensor) -> Leaves:
    """The leaf of the whole problem, that keeps the items that are tight."""
    fixed = torch.where(tight, KEPT + own.to(torch.int8), large.items.known)
    none = torch.zeros(1, dtype=torch.int64)
    return Leaves(none, fixed[None], none, none + large.design.items, large.pi[None], large.pi[None, :0])


def _matrix(design: Design, inside: Tensor, free: Tensor) -> Tensor:
    """The part of a design's matrix that is left: (pools, items), float64."""
    row = torch.full((design.pools,), -1).index_copy_(0, inside, torch.arange(len(inside)))
    column = torch.full((design.items,), -1).index_copy_(0, free, torch.arange(len(free)))
    where = row[design.lists.owners], column[design.lists.entries]
    both = (where[0] >= 0) & (where[1] >= 0)
    matrix = torch.zeros(len(inside), len(free), dtype=torch.float64)
    matrix[where[0][both], where[1][both]] = 1.0
    return matrix
