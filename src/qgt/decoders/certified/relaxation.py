"""Many linear programs at once: the relaxed cost of x, minimised on all instances (or nodes of searches) together.

The cost of x under one instance is a sum over items and pools (see `qgt.model.factors`),

    cost(x) = constant + sum_j w_j x_j + sum_i f_i((A x)_i),        f_i(c) = -log P(y_i | c).

Relaxed, x_j lies anywhere between its bounds, and f_i is its convex envelope, given by where it starts, what it costs
there, and its slopes with their lengths. The number of defectives k = sum_j x_j is one more row of A, whose cost is 0
where k is allowed. With c = A x as variables of their own and multipliers pi, the Lagrangian is

    L(x, c, pi) = constant + sum_j (w_j - (A' pi)_j) x_j + sum_i (f_i(c_i) + pi_i c_i),

and its minimum over x and c, a plain sum, is a lower bound on the cost of every x in the node, *whatever pi is*.
`lower_bound` computes it in float64; only the search for a good pi is left to float32.

That search is the primal-dual hybrid gradient method (Chambolle and Pock 2011, algorithm 1), with the dual step
preconditioned by (A A' + I)^-1: the mean of a 0/1 matrix is a huge singular value, which makes the plain method crawl,
and with it the operator is an isometry (Pock and Chambolle 2011 for the idea). Two products with A per iteration serve
all instances. A row that costs nothing whatever its count is has the multiplier 0, and must be out of A: otherwise its
multiplier goes to 0 slowly, and what is left of it costs the bound as much as there are items in the row. So instances
of which counts are missing have inverses of their own (`Metrics`). Where pools share out what they charge (`steps`),
the shares are more dual variables of the same method.

The method converges for every step t of x and c, with 1/t for pi, but at its best where t is the ratio of the ways that
x and pi have to go. That ratio differs from problem to problem by a factor of twenty, so every node has a step of its
own, by the sizes of its x and pi (`steps_of`).
"""

import threading
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from qgt.decoders.certified.costs import ROUNDS, Model, Tables, group_minima, group_minimum, group_swaps
from qgt.decoders.certified.iteration import Terms, by_item, iterate, steps_for
from qgt.decoders.certified.steps import Given, Raising, Ranges, Shares, counts_between
from qgt.model.prior import FREE

# The part of the bound that belongs to the items: the cheapest x of a node, by reduced costs alone.
#
# Without groups that is one sort: the free defectives are those of least reduced cost. With groups see `costs`.


def least_items(model: Model, fixed: Tensor, reduced: Tensor) -> Tensor:
    """The least that the items of a node cost, with any number of defectives: (nodes,)."""
    if model.members is None:
        return torch.where(fixed == FREE, reduced.clamp(max=0.0), reduced * fixed).sum(1)
    if model.members.steps is not None:  # without orders among what is fixed: a little less at times, and far faster
        each = reduced + model.members.steps
        return torch.where(fixed == FREE, each.clamp(max=0.0), each * fixed).sum(1) + model.members.costs[:, 0].sum()
    return (reduced * (fixed == 1)).sum(1) + group_minimum(model.members, fixed, reduced)


def least_by_total(model: Model, fixed: Tensor, reduced: Tensor) -> Tensor:
    """The same for 0, 1, ... defectives in all: (nodes, items + 1), infinite where the node has none such."""
    ones = fixed == 1
    if model.members is None:
        value = torch.where(fixed == FREE, reduced, torch.inf).sort(1).values
        least = torch.nn.functional.pad(value.cumsum(1), (1, 0))  # of 0, 1, ... free items
    else:
        least = group_minima(model.members, fixed, reduced, fixed.shape[1] + 1)
    number = torch.arange(least.shape[1], device=least.device) - ones.sum(1)[:, None]
    least = torch.where(number >= 0, least.gather(1, number.clamp(min=0)), torch.inf)
    return least + (reduced * ones).sum(1)[:, None]


def cheapest_items(model: Model, fixed: Tensor, total: Tensor, reduced: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Each node's own x, what its items cost, and what they cost more with each free item turned round.

    A cost is infinite where the node has no x with its number of defectives; where that may be any, there must be no
    groups, and the cheapest x has all items of negative reduced cost.
    """
    free, ones = fixed < 0, fixed == 1
    number = total - ones.sum(1)  # of free items that are defective
    any_number = total == FREE
    number = torch.where(any_number, (free & (reduced < 0)).sum(1), number)
    possible = (number >= 0) & (number <= free.sum(1))
    number = torch.where(possible, number, 0)
    if model.members is None:
        inside, cost, more = _sorted_swaps(free, reduced, number)
    else:
        inside, cost, more = group_swaps(model.members, fixed, reduced, number)
    cost = torch.where(possible, cost + (reduced * ones).sum(1), torch.inf)
    more = torch.where(any_number[:, None] & free, reduced.abs(), more)
    return torch.where(free, inside, ones).to(torch.uint8), cost, more


def _sorted_swaps(free: Tensor, reduced: Tensor, number: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """An item that comes in takes the place of the dearest one inside; one that goes out leaves its to the next."""
    value, order = torch.where(free, reduced, torch.inf).sort(1)
    at = number[:, None]
    edge = torch.full_like(value[:, :1], torch.inf)
    ends = torch.cat([-edge, value, edge], 1)
    inside = free & (places(order) < at)
    more = torch.where(inside, ends.gather(1, at + 1) - reduced, reduced - ends.gather(1, at))
    return inside, (reduced * inside).sum(1), torch.where(free, more, torch.inf)


def places(order: Tensor) -> Tensor:
    """The place of each item in each row's order."""
    positions = torch.arange(order.shape[1], device=order.device).expand_as(order)
    return torch.empty_like(order).scatter_(1, order, positions)


# The relaxation of many nodes.

FIRST_STEP = 0.05  # of x and c, while all multipliers are 0
STEP_BY_SIZE = 1.0  # the step of a node, over the size of its x beside that of its multipliers
STEP_BY_SIZE_WITH_STEPS = 3.0  # where tables have steps or level off
LEAST_STEP, MOST_STEP = 0.02, 0.3
STEP_WITH_SHARES = 0.6
SHARES_PART = 0.3  # of the dual step is for shares, the rest for the other multipliers
CHECK = 20  # iterations between looks at the bound
LARGE_MATRIX, CHECK_LARGE = 2**17, 10  # entries of A from which a look costs little beside ten iterations
RESTART = 60  # iterations between restarts from the best multipliers
ROUGH = 1e-3  # nats by which looks in float32 may be off: nodes are let go where their bounds are enough beyond doubt
MOST_METRICS = 2**30  # entries of preconditioners: 4 GB, those of 400,000 instances with 35 pools
METRICS_AT_A_TIME = 2**22  # entries that are inverted together, in float64


class Rows(NamedTuple):
    """The envelopes of the rows of some nodes; float64."""

    start: Tensor  # (nodes, rows)
    cost: Tensor  # (nodes,), of all starts together
    slopes: Tensor  # (pieces, nodes, rows)
    lengths: Tensor  # (pieces, nodes, rows)

    def pick(self, keep: Tensor) -> "Rows":
        """Some of the nodes."""
        return Rows(self.start[keep], self.cost[keep], self.slopes[:, keep], self.lengths[:, keep])


def rows_of(model: Model, tables: Tables, ranges: Ranges | None, nodes: "Sets") -> Rows:
    """The rows of sets of x."""
    owner, fixed, total = nodes
    which, pieces = tables.which[owner], tables.pieces
    if ranges is not None:
        which = ranges.columns(which, *counts_between(model.matrix[:-1], fixed))
        pieces = ranges.pieces
    start, cost, *rest = pieces[:, which]  # each (nodes, pools)
    most = len(rest) // 2
    any_total = torch.where(total == FREE, float(model.matrix.shape[1]), 0.0)
    last = torch.zeros(2 * most, len(owner), 1, dtype=torch.float64, device=owner.device)
    last[most, :, 0] = any_total  # one piece without slope
    both = torch.cat([torch.stack(rest), last], 2)
    number = torch.where(total == FREE, model.numbers.amin(), model.numbers[total.clamp(min=0)])
    return Rows(torch.cat([start, total.clamp(min=0)[:, None]], 1), cost.sum(1) + number, both[:most], both[most:])


@dataclass(frozen=True, eq=False)
class Metrics:
    """The preconditioners of a batch's nodes: those of the rows that cost something."""

    model: Model
    own: (
        Tensor | None
    )  # (patterns, 2, rows, rows), float32: without and with any number; None where no count is missing
    pattern: Tensor  # (instances,): which of them each instance has

    @classmethod
    def of(cls, model: Model, tables: Tables) -> "Metrics":
        """One for every pattern of missing counts; those of all pools where there are too many patterns."""
        seen, rows = ~tables.flat[tables.which], len(model.matrix)
        nothing_missing = cls(model, None, seen.new_zeros(len(seen), dtype=torch.int64))
        if bool(seen.all()):
            return nothing_missing
        patterns, which = seen.unique(dim=0, return_inverse=True)
        if 2 * len(patterns) * rows**2 > MOST_METRICS:
            return nothing_missing
        both = [torch.nn.functional.pad(patterns, (0, 1), value=number) for number in (True, False)]
        some = torch.stack(both, 1).split(max(1, METRICS_AT_A_TIME // rows**2))
        return cls(model, torch.cat([model.inverse_of(part) for part in some]), which)

    def at(self, nodes: "Sets") -> Tensor | None:
        """Those of some nodes: (nodes, rows, rows), or (rows, rows) for all of them; None where it is the model's."""
        any_number = nodes.total == FREE
        if self.own is not None:
            return self.own[self.pattern[nodes.owner], any_number.long()]
        return self.model.inverse_without_number if bool(any_number.all()) else None


class Sets(NamedTuple):
    """Sets of x, of several instances."""

    owner: Tensor  # (nodes,): the instance
    fixed: Tensor  # (nodes, items), int8: 0, 1 or FREE, or less in groups that have a defective (`costs`)
    total: Tensor  # (nodes,): the number of defectives, or FREE


class Multipliers(NamedTuple):
    """Of the rows, and of memberships where pools share out what they charge."""

    pi: Tensor  # (nodes, rows)
    shares: Tensor  # (nodes, pools, width), or (nodes, 0)


class Iterates(NamedTuple):
    """The state of the iteration: relaxed x, relaxed counts, multipliers; float32."""

    x: Tensor  # (nodes, items)
    counts: Tensor  # (nodes, rows)
    pi: Tensor  # (nodes, rows)
    shares: Tensor  # (nodes, pools, width), or (nodes, 0) where pools share out nothing

    def pick(self, keep: Tensor) -> "Iterates":
        """Some of the nodes."""
        return Iterates(*(part[keep] for part in self))

    @property
    def multipliers(self) -> Multipliers:
        """Those alone."""
        return Multipliers(self.pi, self.shares)


def reduced_costs(model: Model, multipliers: Multipliers, given: Given | None) -> Tensor:
    """What an item adds to the Lagrangian: (nodes, items), float64."""
    reduced = model.weights - multipliers.pi.double() @ model.matrix.double()
    return reduced if given is None else reduced + given.by_item(multipliers.shares.double())


def lower_bound(model: Model, rows: Rows, fixed: Tensor, multipliers: Multipliers, given: Given | None) -> Tensor:
    """The minimum of the Lagrangian: no x of the node costs less; (nodes,), float64."""
    items = least_items(model, fixed, reduced_costs(model, multipliers, given))
    return least_pools(model, rows, multipliers, given) + items


def least_pools(model: Model, rows: Rows, multipliers: Multipliers, given: Given | None) -> Tensor:
    """The part of that minimum that is not the items'."""
    pi = multipliers.pi.double()
    pools = (pi * rows.start).sum(1) + ((rows.slopes + pi).clamp(max=0.0) * rows.lengths).sum((0, 2))
    if given is not None:
        pools = pools + given.least(multipliers.shares).sum(1)
    return model.constant + rows.cost + pools


class Relaxed(NamedTuple):
    """The best bound found for each node, with its multipliers in the state."""

    bound: Tensor  # (nodes,), float64
    state: Iterates


def relax(
    model: Model,
    rows: Rows,
    fixed: Tensor,
    state: Iterates,
    enough: Tensor | None,
    iterations: int,
    given: Given | None = None,
    metric: Tensor | None = None,
    *,
    stepped: bool = False,
) -> Relaxed:
    """Improve the bound of each node until it is `enough`, for some iterations at most; `Metrics` has the `metric`.

    `stepped` says whether tables have steps or level off.
    Without `enough` every node takes all iterations, and the kernels that run depend on no value: they can be recorded.
    """
    found = Relaxed(torch.full_like(rows.cost, -torch.inf), Iterates(*(part.clone() for part in state)))
    step = steps_of(model, state, STEP_BY_SIZE_WITH_STEPS if stepped else STEP_BY_SIZE)
    run = _Run.start(model, rows, fixed, state, step, given, metric)
    check = CHECK if enough is None or model.matrix.numel() < LARGE_MATRIX else CHECK_LARGE
    for done in range(check, iterations + 1, check):
        run.advance(check)
        run.look()
        if done % RESTART == 0:
            run.restart()
        if enough is None:
            continue
        open_ = run.bound < enough[run.at] + (0.0 if given is None else ROUGH)
        if float(open_.float().mean()) < 0.75:  # shrinking costs a copy
            run.write(found, (~open_).nonzero()[:, 0])
            run = run.pick(open_.nonzero()[:, 0])
            if not len(run.at):
                break
    run.write(found, torch.arange(len(run.at), device=run.at.device))
    if given is None:
        return found
    return found._replace(bound=lower_bound(model, rows, fixed, found.state.multipliers, given))


def steps_of(model: Model, state: Iterates, by_size: float) -> Tensor:
    """The step of each node's x and counts: (nodes, 1).

    Nobody knows how far x and pi have to go. Roots set out from 0 with both, so what they need is the ratio of the
    sizes, that of pi in the metric of the method; for most nodes further down the same ratio is good.
    """
    size = ((state.pi @ model.matrix).square().sum(1) + state.pi.square().sum(1)).sqrt()
    step = by_size * state.x.norm(dim=1) / size
    return torch.where(size > 0, step.clamp(LEAST_STEP, MOST_STEP), FIRST_STEP)[:, None]


@dataclass
class _Run:
    """The iteration on the nodes still worked on."""

    model: Model
    at: Tensor  # (nodes,): their places among all
    rows: Rows
    fixed: Tensor
    terms: Terms
    x: Tensor
    counts: Tensor
    scaled: Tensor  # (nodes, rows): the step times the multipliers
    total: Tensor  # of that since the last restart
    step: Tensor  # (nodes, 1): of x and counts
    bound: Tensor  # (nodes,), float64: the best one seen; rough where pools share out charges
    best: Tensor  # (nodes, rows): its multipliers; `terms.raising` has its shares
    since: int = 0  # iterations since the last restart
    fresh: bool = True

    @classmethod
    def start(
        cls,
        model: Model,
        rows: Rows,
        fixed: Tensor,
        state: Iterates,
        step: Tensor,
        given: Given | None,
        metric: Tensor | None,
    ) -> "_Run":
        raising, members = None, model.members
        if given is not None:
            step = torch.full_like(step, STEP_WITH_SHARES)
            raising = Raising.start(given, state.shares, SHARES_PART / STEP_WITH_SHARES / given.shares.places.shape[1])
        charges = members.charges(fixed, step) if members is not None and members.charged else None
        before = torch.cumsum(rows.lengths, 0) - rows.lengths
        terms = Terms(
            weights=(step * (model.weights if members is None else model.weights + members.slope)).float(),
            lower=(fixed == 1).float(),
            upper=(fixed != 0).float(),
            shifts=(rows.start + before + step * rows.slopes).float(),
            lengths=rows.lengths.float(),
            begin=rows.start.float(),
            matrix=model.matrix,
            pull=model.pull,
            inverse=model.inverse,
            metric=metric,
            charges=charges,
            raising=raising,
            step_of_shares=STEP_WITH_SHARES,
            up=1.0 if raising is None else 1.0 - SHARES_PART,
        )
        at, never = torch.arange(len(fixed), device=fixed.device), torch.full_like(rows.cost, -torch.inf)
        x, counts, scaled = torch.clamp(state.x, terms.lower, terms.upper), state.counts.clone(), step * state.pi
        return cls(model, at, rows, fixed, terms, x, counts, scaled, torch.zeros_like(scaled), step, never, state.pi)

    def advance(self, iterations: int) -> None:
        """Take some steps."""
        steps = iterate if self.x.is_cuda else steps_for(len(self.x))
        rounds = ROUNDS if self.fresh else 1
        self.x, self.counts = steps(self.terms, self.x, self.counts, self.scaled, self.total, iterations, rounds)
        self.since, self.fresh = self.since + iterations, False

    def look(self) -> None:
        """Keep the better of the last multipliers and the mean of those since the last restart, where it is the best.

        Shares are looked at in float32, because there are far more of them than of anything else.
        """
        for scaled, steps in ((self.scaled, None), (self.total, self.since)):
            pi = scaled / (self.step if steps is None else steps * self.step)
            bound = self._bound(pi, steps)
            better = bound > self.bound
            self.bound = torch.where(better, bound, self.bound)
            self.best = torch.where(better[:, None], pi, self.best)
            if self.terms.raising is not None:
                self.terms.raising.keep(better)

    def _bound(self, pi: Tensor, steps: int | None) -> Tensor:
        """What multipliers show, with the last shares or the mean of those of so many steps."""
        multipliers = Multipliers(pi, pi[:, :0])
        if self.terms.raising is None:
            return lower_bound(self.model, self.rows, self.fixed, multipliers, None)
        reduced = reduced_costs(self.model, multipliers, None)
        shares = self.terms.raising.allowed_(steps)
        reduced += by_item(self.terms.raising.places, shares)
        return least_items(self.model, self.fixed, reduced) + least_pools(self.model, self.rows, multipliers, None)

    def restart(self) -> None:
        """Go on from the best multipliers, and forget the mean."""
        self.scaled, self.total, self.since = self.step * self.best, torch.zeros_like(self.total), 0
        if self.terms.raising is not None:
            self.terms.raising.restart()

    def write(self, found: Relaxed, some: Tensor) -> None:
        """Put what was found of some nodes where it belongs among all of them."""
        at = self.at[some]
        found.bound[at] = self.bound[some]
        for whole, part in zip(found.state, (self.x, self.counts, self.best), strict=False):
            whole[at] = part[some]
        if self.terms.raising is not None:
            found.state.shares[at] = self.terms.raising.best_of(some)

    def pick(self, keep: Tensor) -> "_Run":
        """Some of the nodes."""
        tensors = ("at", "fixed", "x", "counts", "scaled", "total", "step", "bound", "best")
        some: dict[str, Any] = {name: getattr(self, name)[keep] for name in tensors}
        return replace(self, rows=self.rows.pick(keep), terms=self.terms.pick(keep), **some)


# Relaxations of few nodes on a GPU, recorded once and replayed: starting a thousand kernels takes longer than they do.
#
# A recording is of a number of nodes, so nodes are padded to the next power of two. It takes all its iterations, for no
# kernel in it waits for the CPU to look whether the bounds are enough.

LEAST_NODES, MOST_NODES = 2**8, 2**15  # nodes: with more, the kernels are what takes the time


class _Inputs(NamedTuple):
    """What a recording reads: the nodes' rows, what is fixed in them, and the state of the iteration."""

    rows: Rows
    fixed: Tensor
    state: Iterates
    metric: Tensor | None
    stepped: bool = False

    @property
    def parts(self) -> list[tuple[Tensor, int]]:
        """Each tensor, and which of its axes counts nodes."""
        start, cost, slopes, lengths = self.rows
        first = [start, cost, self.fixed, *self.state]
        if self.metric is not None and self.metric.dim() == 3:  # one of all nodes is the model's, and stays where it is
            first.append(self.metric)
        return [*((part, 0) for part in first), (slopes, 1), (lengths, 1)]

    @property
    def kind(self) -> tuple[int, int, bool]:
        """What a recording must have been made for: numbers of pieces and of the preconditioner's axes, steps."""
        return len(self.rows.slopes), 0 if self.metric is None else self.metric.dim(), self.stepped

    def padded(self, nodes: int) -> "_Inputs":
        """The same for more nodes, all zero."""

        def of(part: Tensor, axis: int = 0) -> Tensor:
            return part.new_zeros([nodes if i == axis else size for i, size in enumerate(part.shape)])

        start, cost, slopes, lengths = self.rows
        rows = Rows(of(start), of(cost), of(slopes, 1), of(lengths, 1))
        metric = self.metric if self.metric is None or self.metric.dim() == 2 else of(self.metric)
        return _Inputs(rows, of(self.fixed), Iterates(*(of(part) for part in self.state)), metric, self.stepped)

    def relaxed(self, model: Model, iterations: int) -> Relaxed:
        """After some iterations, without a look at values."""
        return relax(
            model, self.rows, self.fixed, self.state, None, iterations, metric=self.metric, stepped=self.stepped
        )


class _Recording(NamedTuple):
    """A graph, and where it reads and writes."""

    graph: torch.cuda.CUDAGraph
    inputs: _Inputs
    outputs: Relaxed

    @classmethod
    def of(cls, model: Model, inputs: _Inputs, iterations: int) -> "_Recording":
        """Record the relaxation of some inputs."""
        aside = torch.cuda.Stream(inputs.fixed.device)
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):  # libraries set themselves up with their first calls, which cannot be recorded
            inputs.relaxed(model, CHECK)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            outputs = inputs.relaxed(model, iterations)
        return cls(graph, inputs, outputs)

    def replay(self, given: _Inputs) -> Relaxed:
        """The same for other nodes, of which there may be fewer."""
        nodes = len(given.fixed)
        for (place, axis), (part, _) in zip(self.inputs.parts, given.parts, strict=True):
            place.narrow(axis, 0, nodes).copy_(part)
        self.graph.replay()
        bound, state = self.outputs
        return Relaxed(bound[:nodes].clone(), Iterates(*(part[:nodes].clone() for part in state)))


@dataclass(eq=False)
class Recordings:
    """Those of a model, by number of nodes, kind of inputs and iterations; one thread at a time uses them."""

    model: Model
    made: dict[tuple[int, tuple[int, int, bool], int], _Recording] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def suit(self, fixed: Tensor, shares: Shares | None) -> bool:
        """Whether a replay is what these nodes need, and nothing in their relaxation depends on values."""
        return fixed.is_cuda and len(fixed) <= MOST_NODES and shares is None

    def relax(
        self,
        rows: Rows,
        fixed: Tensor,
        state: Iterates,
        iterations: int,
        metric: Tensor | None,
        *,
        stepped: bool = False,
    ) -> Relaxed:
        """The best bounds after so many iterations, with their multipliers."""
        given = _Inputs(rows, fixed, state, metric, stepped)
        nodes = max(LEAST_NODES, 1 << (len(fixed) - 1).bit_length())
        key = nodes, given.kind, iterations
        with self.lock, torch.cuda.device(fixed.device):
            if key not in self.made:
                self.made[key] = _Recording.of(self.model, given.padded(nodes), iterations)
            return self.made[key].replay(given)
