"""Large sparse problems, one instance after the other: multipliers from its linear program, then a small search.

The search of `branching` works on whole batches with matrices of pools times items, and of pools times pools. Here an
instance costs what its linear program costs (`duals`). Its multipliers settle all items but a few (`shrinking`); a
search among those proves the answer, and then lists what is nearly as probable. Where there is too much to list, the
search for more ends after some nodes: the answer is proved, and its list is not complete.
"""

import math
import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from qgt.decoders.belief.decoder import BeliefPropagation
from qgt.decoders.certified.branching import Search
from qgt.decoders.certified.costs import Tables
from qgt.decoders.certified.duals import Dual, solve
from qgt.decoders.certified.levels import CLOSE, coarse
from qgt.decoders.certified.nodes import Found, Leaves, Nodes
from qgt.decoders.certified.outcome import Outcome
from qgt.decoders.certified.relaxation import State, lower_bound, rows_of
from qgt.decoders.certified.shrinking import Large, Small, root_leaf
from qgt.model.factors import Factors
from qgt.model.prior import FREE, FactoredPrior
from qgt.model.problem import Problem

LARGE = 2**21  # pools times items, from which matrices cost more than linear programs
BATCH = 2**18  # nodes times items that are worked on together
NEAR = 0.01  # nats between an answer and its bound: not worth looking for a better answer before the search
LISTING = 2.0**26  # nodes times items times pools that are looked at for a list, after the proof


def is_large(problem: Problem) -> bool:
    """Whether instances are better decoded one by one."""
    return problem.design.sparse and problem.pools * problem.items >= LARGE and can_shrink(problem)


def can_shrink(problem: Problem) -> bool:
    """Whether multipliers settle items one by one: there are no groups, and there is something to settle."""
    assert isinstance(problem.prior, FactoredPrior)  # what `supports` says, for the type checker
    costs = problem.prior.costs(problem.items)
    return costs.groups is None and bool((costs.known == FREE).any())


class Options(NamedTuple):
    """What is asked for."""

    slack: float  # what costs so much more than the best is listed too
    keep_leaves: bool
    deadline: float | None


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

    def searched(self, slack: float, deadline: float | None, work: float) -> Settled:
        """Find the x that cost less than the best one's cost plus the slack, with as much work as LISTING measures."""
        bounds, reduced = self.large.bounds()
        limit = self.cost + slack - CLOSE
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
        search = self._search(small, slack)
        for _ in search.steps(max(64, BATCH // items), deadline, nodes):
            pass
        unexplored = min([math.inf, *(float(block.bound.min()) for block in search.open)])
        better = float(search.best[0]) < self.cost - CLOSE / 2
        x = small.found(Found(torch.zeros(1), search.answer, search.best)).x[0] if better else self.x
        leaves = [root_leaf(self.large, tight, own)] if bool(tight.any()) else []
        leaves += [small.leaves(leaf) for leaf in search.leaves]
        found = [small.found(some) for some in search.found]
        return Settled(min(self.cost, float(search.best[0])), x, unexplored, found, leaves)

    def _search(self, small: Small, slack: float) -> Search:
        """A search that begins with what is known."""
        search = Search.start(small.model, small.tables, slack=slack, keep_leaves=self.keep_leaves)
        search.best[:], search.answer[0] = self.cost, self.x[small.free]
        pi = torch.nn.functional.pad(self.large.pi[small.inside], (0, 1))[None]
        x = self.relaxed[small.free].float()[None]
        owner = torch.zeros(1, dtype=torch.int64)
        total = torch.full_like(owner, small.model.total)
        state = State(x, x @ small.model.matrix.T, pi, pi[:, :0])
        nodes = Nodes(owner, small.model.known[None], total, torch.zeros(1, dtype=torch.float64), state)
        search.first = nodes
        rows = rows_of(small.model, small.tables, search.ranges, nodes.sets)
        search.first = nodes._replace(bound=lower_bound(small.model, rows, nodes.fixed, state.multipliers, None))
        return search


def settle(problem: Problem, y: Tensor, proposed: list[Tensor], options: Options) -> list[Settled | None]:
    """Decode instances on the CPU; None where no possible x is known to begin with, or the program takes too long."""
    factors = problem.factors(y)
    duals = _duals(problem, factors, options.deadline)
    relaxed = torch.stack([dual.x for dual in duals])
    x, cost = _cheapest(factors, [(relaxed > 0.5).to(torch.uint8), *proposed])
    larges = [
        Large(problem.design, factors.items, factors.pools.of_instance(i), dual.pi) for i, dual in enumerate(duals)
    ]
    bound = torch.stack([large.bounds()[0].min() for large in larges])
    unsure, belief = (cost > bound + NEAR).nonzero()[:, 0], BeliefPropagation()
    if len(unsure) and belief.supports(problem) is None:
        more = [x[unsure], belief.bind(problem)(y[unsure]).x]
        x[unsure], cost[unsure] = _cheapest(problem.factors(y[unsure]), more)
    too_large = coarse(factors.pools.tables, factors.pools.which).tolist()
    found: list[Settled | None] = []
    for i, (large, dual) in enumerate(zip(larges, duals, strict=True)):
        late = options.deadline is not None and time.perf_counter() >= options.deadline
        if not math.isfinite(cost[i]) or not (dual.solved or late):
            found.append(None)
        elif not dual.solved:
            found.append(Settled(float(cost[i]), x[i], -math.inf, [], []))
        else:
            instance = Instance(large, dual.x, x[i], float(cost[i]), options.keep_leaves)
            settled = _settled(instance, options.slack, _share(options.deadline, len(y) - i))
            found.append(settled._replace(coarse=too_large[i]))
    return found


def outcome_of(settled: list[Settled], options: Options, device: torch.device) -> Outcome:
    """What is known of instances, as what a search of them all would have found."""
    best = torch.tensor([one.cost for one in settled], dtype=torch.float64, device=device)
    found, leaves = [], []
    for i, one in enumerate(settled):
        for some in one.found:
            found.append(Found(*(part.to(device) for part in some._replace(owner=torch.full_like(some.owner, i)))))
        for leaf in one.leaves:
            leaves.append(Leaves(*(part.to(device) for part in leaf._replace(owner=torch.full_like(leaf.owner, i)))))
    return Outcome(
        best=best,
        answer=torch.stack([one.x for one in settled]).to(device),
        none_found=torch.zeros_like(best, dtype=torch.bool),
        by_highs=torch.zeros_like(best, dtype=torch.bool),
        coarse=torch.tensor([one.coarse for one in settled], device=device),
        unexplored=torch.tensor([one.unexplored for one in settled], dtype=torch.float64, device=device),
        limit=best + options.slack - CLOSE,
        found=found,
        leaves=leaves if options.keep_leaves else None,
    )


def _duals(problem: Problem, factors: Factors, deadline: float | None) -> list[Dual]:
    """The linear programs of all instances."""
    tables = Tables.of(factors.pools)

    def solved(i: int) -> Dual:
        return solve(problem.design.lists, factors.items, tables.pieces[:, tables.which[i]].numpy(), deadline)

    # Threads are enough: HiGHS lets go of Python's lock while it works.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(solved, range(len(tables.which))))


def _settled(instance: Instance, slack: float, deadline: float | None) -> Settled:
    """Prove the best x first; then list what is within the slack."""
    proof = instance.searched(0.0, deadline, math.inf)
    if slack == 0.0 or proof.unexplored < proof.cost - CLOSE:
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
