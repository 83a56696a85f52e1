"""Branch and bound on the trees of many instances at once: every x that costs less than a limit is found, or excluded.

A node is a set of x: some items fixed, the number of defectives k fixed (but at the root). Its relaxation bounds the
cost of all its x from below (`relaxation`). With the reduced costs r_j = w_j - (A' pi)_j, the node's own x
is the one whose free defectives have the least r_j, and any other x of the node swaps at least one item for another:

    cost(x) >= bound + min over pairs of (r of the item that comes in - r of the one that goes out).

So a node is done where its bound reaches the limit, or where every swap would: then only its own x is looked at. Else
it splits: the root by k, a node with a fractional item by that, others by the first item that differs from their own x.
With groups, such as households, a node is split first by whether a group has a defective, because that is what costs.

All instances' open nodes lie on common stacks (`nodes`), from which as many as make a good batch are relaxed together:
hard instances fill the batch with their own nodes, and new instances are fed in when it runs low.

Where tables have steps, pools determine k poorly, and nodes leave k open for longer. Before a node splits, items are
fixed whose status is the same in every x below the limit, because every fixed item makes the envelopes of its pools
tighter (`steps`).
"""

import math
import time
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import torch
from torch import Tensor

from qgt.decoders.certified import nodes as sets
from qgt.decoders.certified.costs import Model, Tables
from qgt.decoders.certified.nodes import (
    FIRST_TURN,
    NODE_POLISH_STEPS,
    SEARCH_TOLERANCE,
    Found,
    Leaves,
    Levels,
    Nodes,
    Stacks,
    as_leaves,
    coarse,
    cost_of,
    edges_of_turns,
    first_of_each,
    joined_nodes,
    polished,
    split_off_complement,
)
from qgt.decoders.certified.relaxation import (
    Iterates,
    Metrics,
    Recordings,
    cheapest_items,
    least_by_total,
    least_pools,
    lower_bound,
    reduced_costs,
    relax,
    rows_of,
)
from qgt.decoders.certified.steps import (
    STEPS_OFTEN,
    TIED,
    Given,
    Ranges,
    Shares,
    level_off,
    nothing_due,
    turning_costs,
)
from qgt.decoders.results import Answers, Decoded, Evidence, Proof, Spans, Status
from qgt.decoders.threads import shared_out, stop_if_given_up, threads_to_share
from qgt.model.prior import FREE, Prior
from qgt.model.problem import Problem

ROOT_ITERATIONS, ITERATIONS = 100, 40
ITERATIONS_WITH_STEPS = 100  # their envelopes change from node to node, so multipliers have farther to go
ROOT_ITERATIONS_WITH_SHARES = 120
MOST_NUMBERS = 6  # of defectives, into which a node with steps may be split
LEAST_HAND = 2**16  # numbers in the iterates of open nodes, which keep a thread busy
STEPS_APART, STEPS_TOGETHER = 8, 1  # of threads, after which they tell each other of the best answers
UNEVEN = 2.0  # times as much to do in one thread as in another: then open nodes are dealt again
MANY_FIXED = 0.1  # of a node's free items, fixed at once: then its bound is worth another look


@dataclass(frozen=True)
class SearchOptions:
    """What a search looks for.

    With a `stop_confidence` the list of an instance is cut short as soon as the answers found show that the best one
    has less than this share of the weight: from then on only x within `coarse_slack` of the best cost are looked for.
    """

    slack: float = 0.0  # the limit is the best cost plus this
    keep_leaves: bool = True
    stop_confidence: float = 0.0
    coarse_slack: float = 0.0
    most_bytes: float = 2e9  # of open nodes, leaves and answers: beyond them the search ends

    def stopped(self, best: Tensor, unexplored: Tensor) -> Tensor:
        """Whether a search with a `stop_confidence` ended before even the shorter list was complete: (instances,)."""
        return (unexplored < best + self.coarse_slack - SEARCH_TOLERANCE) & (self.stop_confidence > 0)


@dataclass(frozen=True, eq=False)
class KnownStart:
    """What is known of an instance before its search, which has no other instances then."""

    x: Tensor  # (items,), uint8: the best answer
    cost: float
    relaxed: Tensor  # (items,)
    pi: Tensor  # (pools,), float32: multipliers


@dataclass(eq=False)
class Search:
    """The trees of a batch of instances, and what has been found in them so far."""

    model: Model
    tables: Tables
    options: SearchOptions
    recordings: Recordings | None  # of relaxations on a GPU
    known: KnownStart | None
    worst: Tensor  # (instances,), float64: more than any possible x costs
    best: Tensor  # (instances,), float64: the least cost known, or the worst
    answer: Tensor  # (instances, items), uint8
    weight: Tensor  # (instances,), float64: of the answers found, where the best one's is 1
    cut_short: Tensor  # (instances,), bool: those of which only x within `coarse_slack` are looked for
    stacks: Stacks  # open nodes
    unbegun: Tensor  # (roots,): the instances whose roots have not been looked at
    found: list[Found] = field(default_factory=list)
    leaves: list[Leaves] = field(default_factory=list)
    kept: int = 0  # bytes of the answers found and the leaves

    @classmethod
    def start(
        cls,
        model: Model,
        tables: Tables,
        options: SearchOptions,
        *,
        recordings: Recordings | None = None,
        known: KnownStart | None = None,
        limits: Tensor | None = None,
    ) -> "Search":
        """Nothing excluded, nothing found but what is known; with `limits`, only x that cost less are looked for."""
        finite = torch.where(tables.costs.isfinite(), tables.costs, 0.0).amax(1)  # (values,)
        worst = model.most + finite[tables.which].sum(1) + 1.0
        best, answer = worst.clone(), torch.zeros(len(worst), len(model.known), dtype=torch.uint8, device=worst.device)
        if known is not None:
            best[:], answer[:] = known.cost, known.x
        if limits is not None:
            best = torch.minimum(best, limits)
        weight, nobody, stacks = torch.zeros_like(best), worst.isnan(), Stacks.empty(len(best), best.device)
        roots = torch.arange(len(best), device=best.device)
        return cls(model, tables, options, recordings, known, worst, best, answer, weight, nobody, stacks, roots)

    def limit(self, owner: Tensor) -> Tensor:
        """Answers that cost less than this are looked for."""
        slack = torch.where(self.cut_short[owner], self.options.coarse_slack, self.options.slack)
        return self.best[owner] + slack - SEARCH_TOLERANCE

    def enough(self, owner: Tensor, total: Tensor) -> Tensor:
        """The bound at which no x of the node costs less than the limit."""
        return sets.enough(self.levels, self.limit(owner), owner, total, len(self.model.known))

    @cached_property
    def ranges(self) -> Ranges | None:
        """Envelopes of tables with steps, where there are any."""
        return Ranges.of(self.tables, charged=self.shares is not None)

    @cached_property
    def shares(self) -> Shares | None:
        """Charges that pools share out among their items, where there are any; leaves of large problems have none."""
        return Shares.of(self.model.matrix[:-1], self.tables) if self.known is None else None

    def given(self, nodes: Nodes) -> Given | None:
        """The same in some nodes."""
        return None if self.shares is None else self.shares.at(nodes.owner, nodes.fixed)

    @cached_property
    def any_number(self) -> bool:
        """Whether nodes may leave the number of defectives open."""
        plain = self.model.members is None and bool(self.model.numbers.isfinite().all())
        return plain and self.ranges is not None

    @cached_property
    def stepped(self) -> bool:
        """Whether enough tables have steps, or level off, for the longer steps of the method that suit these."""
        level = level_off(self.tables.costs)[self.tables.which].float()
        return self.ranges is not None or float(level.mean()) >= STEPS_OFTEN

    @cached_property
    def by_group(self) -> bool:
        """Whether nodes are split by groups: those with a charge, where no items are fixed by ranges of counts."""
        members = self.model.members
        fixed_by_ranges = self.ranges is not None or self.shares is not None
        return members is not None and members.charged and not members.ordered and not fixed_by_ranges

    @cached_property
    def metrics(self) -> Metrics:
        """The preconditioners of nodes."""
        return Metrics.of(self.model, self.tables)

    @cached_property
    def levels(self) -> Levels | None:
        """Where there are any."""
        return Levels.of(self.model, self.tables)

    @cached_property
    def known_root(self) -> Nodes:
        """The root of the one instance of which something is known, with the bound that its multipliers give."""
        assert self.known is not None  # as the caller saw
        model, owner = self.model, torch.zeros(1, dtype=torch.int64)
        pi, x = torch.nn.functional.pad(self.known.pi, (0, 1))[None], self.known.relaxed.float()[None]
        state = Iterates(x, x @ model.matrix.T, pi, pi[:, :0])
        nothing = torch.zeros(1, dtype=torch.float64)
        nodes = Nodes(owner, model.known[None], torch.full_like(owner, model.total), nothing, state)
        rows = rows_of(model, self.tables, self.ranges, nodes.sets)
        return nodes._replace(bound=lower_bound(model, rows, nodes.fixed, state.multipliers, None))

    def run(self, batch: int, deadline: float | None, most: float = math.inf) -> None:
        """Search until none is open, or time is up, or only lists are open after `most` nodes.

        Where many nodes are open, the threads that the caller may use take a share of them each (`_share_out`).
        """
        if deadline is None:
            self.stacks.edges = edges_of_turns(FIRST_TURN, self.best.device)
        while self._may_go_on(deadline):
            hands = self._hands if most == math.inf else 1
            done = hands > 1 and self._share_out(hands, batch, deadline)
            if not (done or self.step(batch, deadline, most)):
                break

    def _may_go_on(self, deadline: float | None) -> bool:
        stop_if_given_up()
        return (deadline is None or time.perf_counter() < deadline) and self.bytes < self.options.most_bytes

    def step(self, batch: int, deadline: float | None = None, most: float = math.inf) -> bool:
        """Look at some nodes; False where none is left to look at."""
        proofs_first = deadline is not None and not self.stacks.crowded
        waiting = self.stacks.can_improve if proofs_first else self.stacks.open
        if len(self.unbegun) and sum(len(block.owner) for block in waiting) < batch:
            owner, self.unbegun = self.unbegun[:batch], self.unbegun[batch:]
            nodes = self._roots(owner)
        elif self.stacks.can_improve or (self.stacks.others and (most == math.inf or self.stacks.taken < most)):
            nodes = self._relax(self.stacks.take(batch), ITERATIONS if self.ranges is None else ITERATIONS_WITH_STEPS)
        else:
            return False
        self._branch(nodes)
        # What is found later makes the best answer less sure, unless it is far better: then its list stays short.
        self.cut_short |= self.weight * self.options.stop_confidence > 1
        return True

    # Open nodes are shared out among threads, which after a few steps tell each other of the best answers. The number
    # of steps decides when, not a clock: a batch has the same proofs whenever it is decoded with as many threads.

    @property
    def _ahead(self) -> int:
        """How many numbers the iterates of open nodes have."""
        rows, items = self.model.matrix.shape
        of_node = rows + items + (0 if self.shares is None else self.shares.items.numel())
        return of_node * (len(self.unbegun) + sum(len(block.owner) for block in self.stacks.open))

    @property
    def _hands(self) -> int:
        """How many threads have enough to do with what is open."""
        threads = 1 if self.best.is_cuda else threads_to_share()
        return 1 if threads == 1 else min(threads, self._ahead // LEAST_HAND)

    def _share_out(self, hands: int, batch: int, deadline: float | None) -> bool:
        """Search in several threads, with a share of what is open each, until one of them has too little left to do.

        That is far less than another has, or nothing, or no time or memory. False where no thread could take a step:
        some had no node, and the others no memory.
        """
        _ = self.ranges, self.shares, self.metrics, self.levels, self.stepped  # made here, and not in every part again
        steps = STEPS_TOGETHER if self.stacks.open else STEPS_APART  # at first every instance is in one hand
        dealt = zip(self.stacks.dealt(hands), self.unbegun.tensor_split(hands), strict=True)
        parts = [self._part(stacks, unbegun, hands) for stacks, unbegun in dealt]
        self.stacks = Stacks(self.stacks.spent, self.stacks.edges)  # what was dealt out is not kept twice

        def some_steps(part: Search) -> bool:
            return all(
                part._may_go_on(deadline) and part.step(batch, deadline) and part._ahead >= LEAST_HAND
                for _ in range(steps)
            )

        even = True
        while even and all(shared_out(some_steps, parts)):
            self._learn(parts)
            ahead = [part._ahead for part in parts]
            even = max(ahead) <= UNEVEN * min(ahead)
        self._learn(parts)
        before = self.stacks.taken, -len(self.unbegun)
        for part in parts:
            self.found += part.found
            self.leaves += part.leaves
            self.kept += part.kept
        self.stacks = self.stacks.gathered([part.stacks for part in parts])
        self.unbegun = torch.cat([part.unbegun for part in parts])
        return (self.stacks.taken, -len(self.unbegun)) > before

    def _part(self, stacks: Stacks, unbegun: Tensor, hands: int) -> "Search":
        """A search of some of what is open, which knows what is known of all instances."""
        part = copy(self)
        part.stacks, part.unbegun, part.found, part.leaves, part.kept = stacks, unbegun, [], [], 0
        part.options = replace(self.options, most_bytes=(self.options.most_bytes - self.kept) / hands)
        part.answer = self.answer.clone()
        part._know(self)
        return part

    def _know(self, other: "Search") -> None:
        """Take over what is known of the instances."""
        worse = self.best > other.best
        self.answer[worse] = other.answer[worse]
        self.best, self.weight, self.cut_short = other.best.clone(), other.weight.clone(), other.cut_short.clone()

    def _learn(self, parts: list["Search"]) -> None:
        """Tell all parts what any of them has found."""
        best = torch.stack([part.best for part in parts]).amin(0)
        known = self.weight * (best - self.best).exp()
        found = torch.stack([part.weight * (best - part.best).exp() - known for part in parts])
        self.weight = known + found.sum(0)
        for part in parts:
            better = part.best < self.best
            self.answer[better], self.best[better] = part.answer[better], part.best[better]
            self.cut_short |= part.cut_short
        for part in parts:
            part._know(self)

    def unexplored(self) -> Tensor:
        """The least bound of the open nodes of each instance, infinite where there is none: (instances,)."""
        return sets.least_bounds(self.open, len(self.best), self.best.device)

    @property
    def bytes(self) -> int:
        """The memory that is taken up by what is open and what is kept."""
        return self.kept + sum(sets.bytes_of(block) for block in self.stacks.open)

    @property
    def open(self) -> list[Nodes]:
        """All open nodes."""
        return self.stacks.open + ([self._untouched(self.unbegun)] if len(self.unbegun) else [])

    def _untouched(self, owner: Tensor) -> Nodes:
        """The roots of some instances."""
        if self.known is not None:
            return self.known_root.pick(owner)
        return sets.untouched(self.model, owner, self.shares)

    def _roots(self, owner: Tensor) -> Nodes:
        """The roots of some instances, relaxed; what their pools settle by themselves is fixed."""
        nodes = self._untouched(owner)
        if self.any_number:
            own, swap, bound = self._swaps(nodes)
            settled = (nodes.fixed == FREE) & (swap >= (self.limit(owner) - bound)[:, None])
            leaves, nodes = split_off_complement(nodes, settled, own)
            self._leaf_of(leaves)
        given = self.given(nodes)
        if given is not None:
            nodes = nodes._replace(state=nodes.state._replace(shares=given.even()))
        return self._relax(nodes, ROOT_ITERATIONS if given is None else ROOT_ITERATIONS_WITH_SHARES)

    def _relax(self, nodes: Nodes, iterations: int) -> Nodes:
        """Improve the bounds that are not enough."""
        enough = self.enough(nodes.owner, nodes.total)
        open_ = nodes.bound < enough
        if not bool(open_.any()):
            return nodes
        some = nodes.pick(open_)
        rows, metric = rows_of(self.model, self.tables, self.ranges, some.sets), self.metrics.at(some.sets)
        if self.recordings is not None and self.recordings.suit(some.fixed, self.shares):
            bound, state = self.recordings.relax(rows, some.fixed, some.state, iterations, metric, stepped=self.stepped)
        else:
            given = self.given(some)
            target = enough[open_]
            bound, state = relax(
                self.model, rows, some.fixed, some.state, target, iterations, given, metric, stepped=self.stepped
            )
        # What was shown of the parent holds for the child; but its leaf needs multipliers that show it.
        worse = bound < some.bound
        state = state._replace(pi=torch.where(worse[:, None], some.state.pi, state.pi))
        if self.shares is not None:
            state = state._replace(shares=torch.where(worse[:, None, None], some.state.shares, state.shares))
        some = some._replace(bound=torch.maximum(bound, some.bound), state=state)
        return joined_nodes([some, nodes.pick(~open_)])

    def _branch(self, nodes: Nodes) -> None:
        """Close the nodes that are done, and push the children of the others."""
        rounded = (nodes.state.x > 0.5).to(torch.uint8)
        enough = self.enough(nodes.owner, nodes.total)  # which is less than the best cost where costs are on a grid
        can_improve = nodes.bound < torch.minimum(enough, self.best[nodes.owner] - SEARCH_TOLERANCE)
        owner = nodes.owner[can_improve]
        self._propose(owner, polished(self.model, self.tables, owner, rounded[can_improve], NODE_POLISH_STEPS))
        nodes = self._close(nodes, nodes.bound >= self.enough(nodes.owner, nodes.total))
        any_total = nodes.total == FREE
        self._split(joined_nodes([nodes.pick(~any_total), self._split_by_total(nodes.pick(any_total))]))

    def _split(self, nodes: Nodes) -> None:
        """Look at what may differ from each node's own x: split by it, or close the node where it is nothing."""
        if not len(nodes.owner):
            return
        unsplit = nodes.total == FREE
        nodes.state.pi[unsplit, -1] = 0.0  # their leaves have no multiplier of the number of defectives
        own, swap, bound = self._swaps(nodes)
        nodes = nodes._replace(bound=torch.where(unsplit, bound, torch.maximum(nodes.bound, bound)))
        enough = self.enough(nodes.owner, nodes.total)
        loose = swap < (enough - nodes.bound)[:, None]  # (nodes, items)
        done = ~loose.any(1)
        held = done & (
            nodes.bound < enough
        )  # with groups, the own x of a node without any below the limit is another's
        self._record(nodes.owner[held], own[held])
        nodes, loose, swap, own = self._close(nodes, done), loose[~done], swap[~done], own[~done]
        if self.ranges is not None:
            nodes, loose, swap = self._fix_settled(nodes, loose, swap, own)
        if self.by_group:
            nodes, loose, swap = self._split_by_group(nodes, loose, swap)
        item, two = sets.item_to_split(nodes.state.x, loose, swap, stepped=self.ranges is not None)
        members = self.model.members if self.by_group else None
        self._push(sets.split_by_item(nodes.pick(two), item[two], members))
        self._push(sets.split_by_first(nodes.pick(~two), loose[~two], swap[~two], members))

    def _split_by_group(self, nodes: Nodes, loose: Tensor, swap: Tensor) -> tuple[Nodes, Tensor, Tensor]:
        """Split the nodes that have a group with a fractional largest x; return the others."""
        members = self.model.members
        assert members is not None  # as the caller saw
        group, some = sets.group_to_split(members, nodes, loose)
        self._push(sets.split_by_group(members, nodes.pick(some), group[some]))
        return nodes.pick(~some), loose[~some], swap[~some]

    def _fix_settled(self, nodes: Nodes, loose: Tensor, swap: Tensor, own: Tensor) -> tuple[Nodes, Tensor, Tensor]:
        """Fix the items that cannot be turned round; a node that this changes much is looked at again."""
        free = nodes.fixed == FREE
        leaves, nodes = split_off_complement(nodes, free & ~loose, own)
        self._leaf_of(leaves)
        many = (free & ~loose).sum(1) > MANY_FIXED * free.sum(1)
        self._push(nodes.pick(many))
        return nodes.pick(~many), loose[~many], swap[~many]

    def _push(self, nodes: Nodes) -> None:
        """Put nodes among the open ones."""
        self.stacks.push(nodes, nodes.bound < self.best[nodes.owner] - SEARCH_TOLERANCE)

    def _swaps(self, nodes: Nodes) -> tuple[Tensor, Tensor, Tensor]:
        """The nodes' own x, the least cost of swapping each free item in or out, and a bound for all their x."""
        given, multipliers = self.given(nodes), nodes.state.multipliers
        reduced = reduced_costs(self.model, multipliers, given)
        own, items, swap = cheapest_items(self.model, nodes.fixed, nodes.total, reduced)
        rows = rows_of(self.model, self.tables, self.ranges, nodes.sets)
        if self.ranges is not None:
            pools, pi = self.model.matrix[:-1], nodes.state.pi[:, :-1].double()
            due = nothing_due if given is None else partial(given.least, nodes.state.shares)
            swap = swap + turning_costs(self.ranges, pools, nodes.owner, nodes.fixed, own, swap < TIED, pi, due)
        return own, swap, items + least_pools(self.model, rows, multipliers, given)

    def _split_by_total(self, nodes: Nodes) -> Nodes:
        """One child for each number of defectives that the parent's multipliers do not exclude.

        Where pools have steps they determine that number poorly: nodes with many numbers come back unsplit.
        """
        if not len(nodes.owner):
            return nodes
        rows = rows_of(self.model, self.tables, self.ranges, nodes.sets)
        given, multipliers = self.given(nodes), nodes.state.multipliers
        bound = least_by_total(self.model, nodes.fixed, reduced_costs(self.model, multipliers, given))
        bound = bound + least_pools(self.model, rows, multipliers, given)[:, None]
        totals = torch.arange(bound.shape[1], device=bound.device)
        bound = bound + self.model.numbers - self.model.numbers.amin()  # which the root's bound has in it
        alive = bound < sets.enough_for_each(self.levels, self.limit(nodes.owner), nodes.owner, len(totals))
        many = (alive.sum(1) > MOST_NUMBERS) & self.any_number
        unsplit, nodes, bound, alive = nodes.pick(many), nodes.pick(~many), bound[~many], alive[~many]
        between = (alive.cumsum(1) > 0) & (alive.flip(1).cumsum(1).flip(1) > 0)
        first, end = (alive.cumsum(1) == 0).sum(1), len(totals) - (alive.flip(1).cumsum(1) == 0).sum(1)
        self._leaf(nodes, torch.zeros_like(first), first - 1)
        self._leaf(nodes, torch.maximum(first, end), torch.full_like(end, len(totals) - 1))
        row, total = between.nonzero(as_tuple=True)
        # The children keep the parent's multipliers, and so start from what those show.
        self._push(nodes.pick(row)._replace(total=total, bound=bound[row, total]))
        return unsplit

    def _propose(self, owner: Tensor, x: Tensor) -> None:
        """Keep answers that are better than the best known."""
        x = x if self.model.groups is None else self.model.groups.in_order(x)  # moves do not look at orders
        cost = cost_of(self.model, self.tables, owner, x)
        better = cost < self.best[owner] - SEARCH_TOLERANCE / 2
        owner, x, cost = owner[better], x[better], cost[better]
        before = self.best.clone()
        self.best.scatter_reduce_(0, owner, cost, "amin")
        self.weight *= (self.best - before).exp()
        first = first_of_each(owner, cost, self.best)
        self.answer[owner[first]] = x[first]

    def _record(self, owner: Tensor, x: Tensor) -> None:
        """Keep the x that cost less than the limit: each is the own x of one leaf only."""
        self._propose(owner, x)
        cost = cost_of(self.model, self.tables, owner, x)
        good = cost < self.limit(owner)
        self.weight.index_add_(0, owner[good], (self.best[owner[good]] - cost[good]).exp())
        self.found.append(Found(owner[good], x[good], cost[good]))
        self.kept += sets.bytes_of(self.found[-1])

    def _close(self, nodes: Nodes, done: Tensor) -> Nodes:
        """Make leaves of the nodes that are done; return the others."""
        self._leaf_of(nodes.pick(done))
        return nodes.pick(~done)

    def _leaf_of(self, nodes: Nodes) -> None:
        """Leaves of all numbers that nodes allow."""
        self._leaf(nodes, *sets.numbers_of(nodes))

    def _leaf(self, nodes: Nodes, least: Tensor, most: Tensor) -> None:
        if self.options.keep_leaves:
            some = least <= most
            self.leaves.append(as_leaves(nodes.pick(some), least[some], most[some], self.shares))
            self.kept += sets.bytes_of(self.leaves[-1])

    def open_leaves(self) -> list[Leaves]:
        """The open nodes as leaves: what is left of a search that ran out of time."""
        return [as_leaves(block, *sets.numbers_of(block), self.shares) for block in self.open]


# What searches found in a batch, and that as a result: statuses, probabilities, lists and proofs.


@dataclass(frozen=True, eq=False)
class BatchOutcome:
    """What is known of each instance of a batch."""

    best: Tensor  # (instances,), float64: what the answer costs
    answer: Tensor  # (instances, items), uint8
    none_found: Tensor  # (instances,), bool: no possible x was found
    unexplored: Tensor  # (instances,), float64: no x that was not looked at costs less; infinite where there is none
    coarse: Tensor  # (instances,), bool: costs are too large for float64, and nothing is proved
    limit: Tensor  # (instances,), float64: what costs less is listed
    stopped: Tensor  # (instances,), bool: even the shorter list of a `stop_confidence` lacks answers
    found: list[Found]
    leaves: list[Leaves] | None  # None where no proofs are kept

    @classmethod
    def of(cls, search: Search) -> "BatchOutcome":
        """What a search found; what is still open is a leaf too, shown as far as it was."""
        best, answer, options = search.best, search.answer, search.options
        unexplored = search.unexplored()
        stopped = options.stopped(best, unexplored)
        listed = torch.minimum(unexplored, best + options.coarse_slack)
        unexplored = torch.where(search.cut_short, listed, unexplored)
        leaves = [*search.leaves, *search.open_leaves()] if options.keep_leaves else None
        limit = best + options.slack - SEARCH_TOLERANCE
        none_found, too_large = best >= search.worst, coarse(search.tables.costs, search.tables.which)
        return cls(best, answer, none_found, unexplored, too_large, limit, stopped, search.found, leaves)


def as_decoded(problem: Problem, y: Tensor, outcome: BatchOutcome, odds: float) -> Decoded:
    """An outcome as a result."""
    listed, none_found = odds > 1, outcome.none_found
    # Where float64 cannot tell costs apart, an x may have been taken for one that costs more than any possible x.
    unexplored = torch.where(none_found & outcome.coarse, -torch.inf, outcome.unexplored)
    complete = unexplored == torch.inf
    closed = complete | (outcome.best - unexplored <= SEARCH_TOLERANCE) & ~none_found
    status = torch.where(closed, Status.PROVED, Status.TIME_LIMIT)
    status = torch.where(none_found & complete, Status.INFEASIBLE, status).to(torch.uint8)

    answers = _answers(outcome)
    spans, _ = Spans.of(answers.owner, len(y))  # they are in order already
    first = (spans.ends - spans.numbers)[~none_found]  # each list's most probable one
    x = outcome.answer.clone()
    x[~none_found] = answers.x[first]
    owner, cost = answers.owner, answers.cost
    weight = (outcome.best[owner] - cost).exp()
    weight = weight / torch.zeros_like(outcome.best).index_add_(0, owner, weight)[owner]
    confidence = torch.zeros_like(outcome.best)
    confidence[~none_found] = weight[first]
    confidence = torch.where(outcome.stopped, torch.nan, confidence)
    marginals = torch.zeros_like(x, dtype=torch.float64)
    marginals.index_add_(0, owner, weight[:, None] * answers.x).clamp_(max=1.0)
    if isinstance(problem.prior, Prior):
        marginals[none_found] = problem.prior.marginals(problem.items).to(y.device)
    log_joint = problem.log_joint(x, y)
    precise = ~outcome.coarse & (problem.blur(x, y) <= SEARCH_TOLERANCE / 2)
    # The cost of the answer is recomputed from the problem itself.
    agrees = none_found | ((log_joint + outcome.best).abs() <= SEARCH_TOLERANCE) & precise
    status = torch.where((status == Status.PROVED) & ~agrees, Status.OK, status).to(torch.uint8)
    differing = torch.zeros_like(x, dtype=torch.int32).index_add_(0, owner, (answers.x != x[owner]).int())
    evidence = Evidence(
        log_joint=log_joint,
        bound=torch.where(closed, log_joint, -unexplored),
        complete=complete & listed & agrees,
        confidence=confidence if listed else None,
        unsettled=differing > 0,
        alternatives=Answers(spans, answers.x, -cost, weight),
    )
    proof = None if outcome.leaves is None else _proof(problem, outcome, outcome.leaves, odds)
    return Decoded(x, status, marginals if listed else None, evidence, proof)


def _answers(outcome: BatchOutcome) -> Found:
    """All answers within the limit, by instance, the most probable first.

    Of equally probable ones the first binary number comes first, so that batches of any size give the same answer.
    """
    instances = torch.arange(len(outcome.best), device=outcome.best.device)
    some = ~outcome.none_found
    known = Found(instances[some], outcome.answer[some], outcome.best[some])
    owner, x, cost = (torch.cat(parts) for parts in zip(known, *outcome.found, strict=True))
    again = (x == outcome.answer[owner]).all(1)
    again[: len(known.owner)] = False  # the leaf that found the answer lists it once more
    keep = (cost < outcome.limit[owner]) & ~again
    keep[: len(known.owner)] = True
    owner, x, cost = owner[keep], x[keep], cost[keep]
    tied = cost <= outcome.best[owner] + SEARCH_TOLERANCE
    shared = tied & (torch.zeros_like(instances).index_add_(0, owner, tied.long())[owner] > 1)
    number = torch.zeros_like(owner)
    if bool(shared.any()):
        number[shared] = x[shared].unique(dim=0, return_inverse=True)[1]
    order = number.argsort(stable=True)
    order = order[torch.where(tied, outcome.best[owner], cost)[order].argsort(stable=True)]
    order = order[owner[order].argsort(stable=True)]
    return Found(owner[order], x[order], cost[order])


def _proof(problem: Problem, outcome: BatchOutcome, leaves: list[Leaves], odds: float) -> Proof:
    """The leaves of each instance's tree."""
    device = outcome.best.device
    number = torch.zeros(0, dtype=torch.int64, device=device)
    none = outcome.answer[:0].to(torch.int8)
    nothing = Leaves(number, none, number, number, torch.zeros(0, problem.pools, device=device), none[:, :0].float())
    parts = zip(*(leaves or [nothing]), strict=True)
    owner, fixed, least, most, pi, shares = (torch.cat(part) for part in parts)
    spans, order = Spans.of(owner, len(outcome.best))
    return Proof(odds, spans, fixed[order], least[order], most[order], pi[order], shares[order])
