"""Large sparse problems, one instance after the other: multipliers from its linear program, then a small search.

The search of `search` works on whole batches with matrices of pools times items, and of pools times pools. Here an
instance costs what its linear program costs. Its multipliers settle all items but a few; a search among those proves
the answer, and then lists what is nearly as probable. Where there is too much to list, the search for more ends after
some nodes: the answer is proved, and its list is not complete.
"""

import math
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from qgt.decoders.belief.decoder import BeliefPropagation
from qgt.decoders.certified.costs import Model, Tables
from qgt.decoders.certified.nodes import SEARCH_TOLERANCE, Found, Leaves, coarse
from qgt.decoders.certified.search import BatchOutcome, KnownStart, Search, SearchOptions
from qgt.decoders.envelopes import envelope_of
from qgt.decoders.results import Floats, LeafItem
from qgt.model.design import Design
from qgt.model.factors import Factors, PoolCosts
from qgt.model.lists import Lists
from qgt.model.prior import FREE, FactoredPrior, ItemCosts
from qgt.model.problem import Problem

# Multipliers of one instance's pools from its linear program, solved by HiGHS: for problems too large for the batch.
#
# The program is the relaxation of `relaxation`, with two changes that make its multipliers better ones.
#
# Items lie between d and 1 - d for a tiny d. The value of the program is then the largest of bound(pi) + d sum_j |r_j|,
# so of all multipliers that give the best bound these have large reduced costs. At a corner of the plain program
# thousands of items have a reduced cost near 0 though nothing speaks for them; here those that are left are the
# doubtful ones (of 20,000 items, 400 instead of 7,000 that an answer 100 times less probable may have otherwise).
#
# Counts may leave what is possible at a price, so that d makes no program impossible, and multipliers stay small.

INSIDE = 1e-5  # how far items stay from 0 and 1
PRICE = 20.0  # nats, for each count beyond those that are possible


class Dual(NamedTuple):
    """What a linear program gives."""

    pi: Tensor  # (pools,), float32: multipliers
    x: Tensor  # (items,), float64: relaxed
    solved: bool

    @classmethod
    def unsolved(cls, pools: int, items: int) -> "Dual":
        """Where time ran out: nothing is known."""
        return cls(torch.zeros(pools), torch.zeros(items, dtype=torch.float64), False)


def solve_dual(lists: Lists, items: ItemCosts, pieces: Floats, deadline: float | None) -> Dual:
    """The linear program of one instance; not solved where time runs out.

    `pieces` is (2 + twice the pieces, pools), as `Tables` has them.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, hstack

    pools, number = len(lists), lists.bound
    starts, inside = lists.starts.numpy(), lists.entries.numpy()
    rows = [_Columns.of(pieces, 0)]
    if items.total is not None:  # the number of defectives is one more row
        envelope = envelope_of(items.total.numpy())
        column = np.concatenate([[envelope.start, envelope.cost], envelope.slopes, envelope.lengths])
        rows.append(_Columns.of(column[:, None], pools))
        starts, inside = np.append(starts, starts[-1] + number), np.concatenate([inside, np.arange(number)])
    start, owner, slopes, lengths = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    matrix = csr_array((np.ones(len(inside)), inside, starts), (len(start), number))
    columns = csr_array((-np.ones(len(owner)), (owner, np.arange(len(owner)))), (len(start), len(owner)))
    known = items.known.numpy()
    lower = np.where(known == FREE, INSIDE, known)
    upper = np.where(known == FREE, 1 - INSIDE, known)
    between = np.column_stack([np.append(lower, np.zeros(len(owner))), np.append(upper, lengths)])
    options = {} if deadline is None else {"time_limit": deadline - time.perf_counter()}
    if options and options["time_limit"] <= 0:  # the interior point method would still begin
        return Dual.unsolved(pools, number)
    # The interior point method: with 3,000 items in 8 pools each it takes a tenth of the simplex method's time.
    result = linprog(
        np.append(items.weights.numpy(), slopes),
        A_eq=hstack([matrix, columns], format="csr"),
        b_eq=start,
        bounds=between,
        method="highs-ipm",
        options=options,
    )
    if result.status != 0:
        return Dual.unsolved(pools, number)
    # How the cost grows with the start of a pool's count is its multiplier.
    pi = torch.from_numpy(result.eqlin.marginals[:pools].astype(np.float32))
    return Dual(pi, torch.from_numpy(np.clip(result.x[:number], 0.0, 1.0)), True)


class _Columns(NamedTuple):
    """The counts of some rows: each is its start and what its pieces add, between 0 and their lengths."""

    start: Floats  # (rows,)
    owner: NDArray[np.int64]  # (pieces of all rows,): the row of each
    slopes: Floats
    lengths: Floats

    @classmethod
    def of(cls, pieces: Floats, first: int) -> "_Columns":
        """Envelopes as `Tables` has them, of rows from `first` on; with a piece at its price before and after them."""
        most, one = (len(pieces) - 2) // 2, np.ones((1, pieces.shape[1]))
        slopes = np.concatenate([-PRICE * one, pieces[2 : 2 + most], PRICE * one])
        lengths = np.concatenate([one, pieces[2 + most :], one])
        some = lengths > 0
        owner = np.broadcast_to(first + np.arange(pieces.shape[1]), some.shape)
        return cls(pieces[0] - 1, owner[some], slopes[some], lengths[some])


# A large problem made small: items that no x below a limit has otherwise are fixed, and what is left is searched.
#
# With multipliers pi, r_j = w_j - (A' pi)_j, and a bound for every number of defectives k, the cheapest x of k
# defectives has the k least r_j. An x of k defectives in which a given item is turned round costs at least that bound
# and a swap more (see `relaxation`). An item whose turning reaches the limit for every k that is not excluded keeps its
# status, and one leaf with these multipliers shows it. What is left is a problem of few items, whose pools count from
# the items that are fixed to 1; its leaves become leaves of the large problem by putting back what is fixed.

SURE_MARGIN = 1e-4  # nats beyond the limit, so that whoever checks may round off


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
        tight = (outside & (comes_in >= limit + SURE_MARGIN)) | (inside & (goes_out >= limit + SURE_MARGIN))
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
        least = large.tables.amin(1)
        above = torch.cat([settled - least[rest], table.amin(1) - least[inside]])
        above_least = float(torch.where(above.isfinite(), above, 0.0).sum())
        number = int(ones.sum())
        costs = ItemCosts(
            large.items.constant + float(large.items.weights @ ones.double() + settled.sum()),
            large.items.weights[free],
            torch.full((len(free),), FREE, dtype=torch.int8),
            None if large.items.total is None else large.items.total[number : number + len(free) + 1],
        )
        model = Model.build(_matrix(large.design, inside, free), costs, free.device, above_least)
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
    """A complement leaf of the whole problem: every x in which a tight item is turned round."""
    fixed = torch.where(tight, LeafItem.BOX_0 + own.to(torch.int8), large.items.known)
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


# One instance after the other.

LARGE_PROBLEM = 2**21  # pools times items, from which matrices cost more than linear programs
NODES_TIMES_ITEMS = 2**18  # nodes times items that are worked on together
NEAR_BOUND = 0.01  # nats between an answer and its bound: not worth looking for a better answer before the search
LISTING = 2.0**26  # nodes times items times pools that are looked at for a list, after the proof


def is_large(problem: Problem) -> bool:
    """Whether instances are better decoded one by one."""
    return problem.design.sparse and problem.pools * problem.items >= LARGE_PROBLEM and can_shrink(problem)


def can_shrink(problem: Problem) -> bool:
    """Whether multipliers settle items one by one: there are no groups, and there is something to settle."""
    assert isinstance(problem.prior, FactoredPrior)  # what `supports` says, for the type checker
    costs = problem.prior.costs(problem.items)
    return costs.groups is None and bool((costs.known == FREE).any())


class Settled(NamedTuple):
    """What is known of one instance."""

    cost: float
    x: Tensor  # (items,), uint8
    unexplored: float  # no x that was not looked at costs less
    found: list[Found]
    leaves: list[Leaves]
    coarse: bool = False  # whether its costs are too large for float64


@dataclass(frozen=True, eq=False)
class Instance:
    """One instance with the best x known."""

    large: Large
    relaxed: Tensor  # (items,)
    x: Tensor  # (items,), uint8
    cost: float
    keep_leaves: bool
    most_bytes: float

    def searched(self, slack: float, deadline: float | None, work: float) -> Settled:
        """Find the x that cost less than the best one's cost plus the slack, with as much work as LISTING measures."""
        bounds, reduced = self.large.bounds()
        limit = self.cost + slack - SEARCH_TOLERANCE
        if float(bounds.min()) >= limit:
            nothing = torch.zeros(self.large.design.items, dtype=torch.bool)
            leaf = root_leaf(self.large, nothing, nothing)
            return Settled(self.cost, self.x, math.inf, [], [leaf])
        tight, own = self.large.settled(bounds, reduced, limit)
        if bool((tight | (self.large.items.known != FREE)).all()):
            tight[int(tight.nonzero()[0])] = False  # one item is left to search
        fixed = torch.where(tight, own.to(torch.int8), self.large.items.known)
        free = (fixed == FREE).to(torch.uint8)
        items, pools = int(free.sum()), int((self.large.design.count(free[None]) > 0).sum())
        nodes = work / (items * (pools + 1))
        if nodes < items:  # not even each item could be tried once
            return Settled(self.cost, self.x, -math.inf, [], [])
        small = Small.of(self.large, fixed)
        left = small.free
        known = KnownStart(self.x[left], self.cost, self.relaxed[left], self.large.pi[small.inside])
        options = SearchOptions(slack=slack, keep_leaves=self.keep_leaves, most_bytes=self.most_bytes)
        search = Search.start(small.model, small.tables, options, known=known)
        search.run(max(64, NODES_TIMES_ITEMS // items), deadline, nodes)
        unexplored = min([math.inf, *(float(block.bound.min()) for block in search.open)])
        better = float(search.best[0]) < self.cost - SEARCH_TOLERANCE / 2
        x = small.found(Found(torch.zeros(1), search.answer, search.best)).x[0] if better else self.x
        leaves = [root_leaf(self.large, tight, own)] if bool(tight.any()) else []
        leaves += [small.leaves(leaf) for leaf in search.leaves]
        found = [small.found(some) for some in search.found]
        return Settled(min(self.cost, float(search.best[0])), x, unexplored, found, leaves)


def settle_large(problem: Problem, y: Tensor, options: SearchOptions, deadline: float | None) -> list[Settled | None]:
    """Decode instances on the CPU; None where no possible x is known to begin with, or the program is not solved."""
    factors = problem.factors(y)
    duals = _duals(problem, factors, deadline)
    relaxed = torch.stack([dual.x for dual in duals])
    x = (relaxed > 0.5).to(torch.uint8)
    cost = factors.cost(x, torch.arange(len(x)))
    larges = [
        Large(problem.design, factors.items, factors.pools.of_instance(i), dual.pi) for i, dual in enumerate(duals)
    ]
    bound = torch.stack([large.bounds()[0].min() for large in larges])
    unsure, belief = (cost > bound + NEAR_BOUND).nonzero()[:, 0], BeliefPropagation()
    if len(unsure) and belief.supports(problem) is None:
        more = [x[unsure], belief.bind(problem)(y[unsure]).x]
        x[unsure], cost[unsure] = _cheapest(problem.factors(y[unsure]), more)
    too_large = coarse(factors.pools.tables, factors.pools.which).tolist()
    found: list[Settled | None] = []
    for i, (large, dual) in enumerate(zip(larges, duals, strict=True)):
        late = deadline is not None and time.perf_counter() >= deadline
        if not math.isfinite(cost[i]) or not (dual.solved or late):
            found.append(None)
        elif not dual.solved:
            found.append(Settled(float(cost[i]), x[i], -math.inf, [], []))
        else:
            instance = Instance(large, dual.x, x[i], float(cost[i]), options.keep_leaves, options.most_bytes)
            settled = _settled(instance, options.slack, _share(deadline, len(y) - i))
            found.append(settled._replace(coarse=too_large[i]))
    return found


def outcome_of(settled: list[Settled], options: SearchOptions, device: torch.device) -> BatchOutcome:
    """What is known of instances, as what a search of them all would have found."""
    best = torch.tensor([one.cost for one in settled], dtype=torch.float64, device=device)
    unexplored = torch.tensor([one.unexplored for one in settled], dtype=torch.float64, device=device)
    found, leaves = [], []
    for i, one in enumerate(settled):
        for some in one.found:
            found.append(Found(*(part.to(device) for part in some._replace(owner=torch.full_like(some.owner, i)))))
        for leaf in one.leaves:
            leaves.append(Leaves(*(part.to(device) for part in leaf._replace(owner=torch.full_like(leaf.owner, i)))))
    return BatchOutcome(
        best=best,
        answer=torch.stack([one.x for one in settled]).to(device),
        none_found=torch.zeros_like(best, dtype=torch.bool),
        coarse=torch.tensor([one.coarse for one in settled], device=device),
        unexplored=unexplored,
        limit=best + options.slack - SEARCH_TOLERANCE,
        stopped=options.stopped(best, unexplored),
        found=found,
        leaves=leaves if options.keep_leaves else None,
    )


def _duals(problem: Problem, factors: Factors, deadline: float | None) -> list[Dual]:
    """The linear programs of all instances."""
    tables = Tables.of(factors.pools)

    def solved(i: int) -> Dual:
        return solve_dual(problem.design.lists, factors.items, tables.pieces[:, tables.which[i]].numpy(), deadline)

    # Threads are enough: HiGHS lets go of Python's lock while it works.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(solved, range(len(tables.which))))


def _settled(instance: Instance, slack: float, deadline: float | None) -> Settled:
    """Prove the best x first; then list what is within the slack."""
    proof = instance.searched(0.0, deadline, math.inf)
    if slack == 0.0 or proof.unexplored < proof.cost - SEARCH_TOLERANCE:
        return proof
    best = replace(instance, x=proof.x, cost=proof.cost)
    listed = best.searched(slack, deadline, LISTING)
    if listed.unexplored == math.inf:
        return listed
    # What is not looked at may hold more to list, but nothing better: the first proof shows it.
    return proof._replace(found=listed.found, unexplored=proof.cost)


def _share(deadline: float | None, left: int) -> float | None:
    """When an instance must be done, if as many are left."""
    now = time.perf_counter()
    return None if deadline is None else now + max(0.0, deadline - now) / left


def _cheapest(factors: Factors, proposed: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Of several x for each instance the cheapest, and what it costs."""
    every = torch.arange(len(proposed[0]))
    costs = torch.stack([factors.cost(x, every) for x in proposed])
    cost, which = costs.min(0)
    return torch.stack(proposed)[which, every], cost
