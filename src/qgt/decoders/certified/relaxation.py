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
all instances.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from qgt.decoders.envelopes import Envelope, envelope_of
from qgt.model.factors import PoolCosts
from qgt.model.prior import FREE, FactoredPrior
from qgt.model.problem import Problem

STEP = 0.05  # of the primal variables, for costs of a few nats
CHECK = 10  # iterations between looks at the bound
RESTART = 100  # iterations between restarts from the best multipliers
PIECES = 8  # of an envelope, at most: beyond, its outermost slopes go on, which keeps it below
FAR = 10.0  # what each step beyond the possible counts costs, where an answer must cost something


def supported(problem: Problem) -> str | None:
    """None if the cost of x is a sum over items and pools, else the reason it is not."""
    if isinstance(problem.prior, FactoredPrior):
        costs = problem.prior.costs(problem.items)
        if costs.groups is not None:
            return f"its prior {type(problem.prior).__name__} has groups of items (ExactMAP takes those)."
        return None
    kind = type(problem.prior).__name__
    return f"its prior {kind} is not a sum over items; it takes Bernoulli and FixedWeight (Exhaustive takes any)."


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

    @classmethod
    def of(cls, problem: Problem, device: torch.device) -> "Model":
        """Take the costs of the prior, and what the method needs of the design."""
        assert isinstance(problem.prior, FactoredPrior)  # what `supports` says, for the type checker
        costs = problem.prior.costs(problem.items)
        pools = problem.design.matrix.to(device, torch.float64)
        matrix = torch.cat([pools, torch.ones_like(pools[:1])])
        inverse = torch.linalg.inv(matrix @ matrix.T + torch.eye(len(matrix), dtype=torch.float64, device=device))
        none = torch.zeros(problem.items + 1, dtype=torch.float64)
        return cls(
            matrix.float(),
            inverse.float(),
            (matrix.T @ inverse).float(),
            costs.weights.to(device),
            costs.known.to(device),
            FREE if costs.number is None else costs.number,
            (none if costs.total is None else costs.total).to(device),
            costs.constant,
        )

    @cached_property
    def soft_numbers(self) -> Tensor:
        """The costs of -1, 0, 1, ... defectives, finite: impossible numbers cost more the farther off they are."""
        possible = self.numbers.isfinite().nonzero()[:, 0]
        at = torch.arange(-1, len(self.numbers) + 1, device=self.numbers.device)
        after = torch.searchsorted(possible, at).clamp(max=len(possible) - 1)
        near = torch.stack([possible[after], possible[(after - 1).clamp(min=0)]])
        far, which = (near - at).abs().min(0)
        nearest = near.gather(0, which[None])[0]
        return (self.numbers[nearest] + FAR * far).float()


@dataclass(frozen=True, eq=False)
class Tables:
    """The costs of a batch's counts: one row for every value that occurs among them, and which one each count has."""

    costs: Tensor  # (values, counts), float64, infinite where impossible
    which: Tensor  # (instances, pools)
    pieces: Tensor  # (2 + twice the pieces, values): start, cost there, slopes, lengths, float64

    @classmethod
    def of(cls, pools: PoolCosts) -> "Tables":
        """The envelope of every table."""
        envelopes = [_shortened(envelope_of(row)) for row in pools.tables.cpu().numpy()]
        most = max([1, *(len(envelope.slopes) for envelope in envelopes)])
        pieces = np.zeros((2 + 2 * most, len(envelopes)))
        for column, (start, cost, slopes, lengths) in zip(pieces.T, envelopes, strict=True):
            column[:2] = start, cost
            column[2 : 2 + len(slopes)] = slopes
            column[2 + most : 2 + most + len(slopes)] = lengths
        return cls(pools.tables, pools.which, torch.from_numpy(pieces).to(pools.which.device))

    @cached_property
    def soft(self) -> Tensor:
        """The costs from count -1 on, finite: impossible counts cost more the farther off they are; float32."""
        table = torch.nn.functional.pad(self.costs, (1, 1), value=torch.inf)
        possible = table.isfinite()
        at = torch.arange(table.shape[1], device=table.device)
        far = (at[:, None] - at).abs() + torch.where(possible[:, None], 0, table.shape[1])  # (values, counts, counts)
        worst = torch.where(possible, table, 0.0).amax(1, keepdim=True)
        return torch.where(possible, table, worst + FAR * far.amin(2)).float()


def _shortened(envelope: Envelope) -> Envelope:
    """An envelope of few pieces, nowhere above the given one."""
    start, cost, slopes, lengths = envelope
    if len(slopes) <= PIECES:
        return envelope
    first = min(max(int(np.searchsorted(slopes, 0.0)) - PIECES // 2, 0), len(slopes) - PIECES)
    before, after = lengths[:first].sum(), lengths[first + PIECES :].sum()
    # The tangents at both ends of what is kept lie below the rest.
    cost += float((slopes[:first] * lengths[:first]).sum() - slopes[first] * before)
    slopes, lengths = slopes[first : first + PIECES], lengths[first : first + PIECES].copy()
    lengths[0] += before
    lengths[-1] += after
    return Envelope(start, cost, slopes, lengths)


class Rows(NamedTuple):
    """The envelopes of the rows of some nodes; float64."""

    start: Tensor  # (nodes, rows)
    cost: Tensor  # (nodes,), of all starts together
    slopes: Tensor  # (pieces, nodes, rows)
    lengths: Tensor  # (pieces, nodes, rows)

    def pick(self, keep: Tensor) -> "Rows":
        """Some of the nodes."""
        return Rows(self.start[keep], self.cost[keep], self.slopes[:, keep], self.lengths[:, keep])


def rows_of(model: Model, tables: Tables, owner: Tensor, total: Tensor) -> Rows:
    """The rows of nodes that belong to the given instances and allow the given numbers of defectives."""
    start, cost, *rest = tables.pieces[:, tables.which[owner]]  # each (nodes, pools)
    most = len(rest) // 2
    any_total = torch.where(total == FREE, float(model.matrix.shape[1]), 0.0)
    last = torch.zeros(2 * most, len(owner), 1, dtype=torch.float64, device=owner.device)
    last[most, :, 0] = any_total  # one piece without slope
    both = torch.cat([torch.stack(rest), last], 2)
    number = torch.where(total == FREE, model.numbers.amin(), model.numbers[total.clamp(min=0)])
    return Rows(torch.cat([start, total.clamp(min=0)[:, None]], 1), cost.sum(1) + number, both[:most], both[most:])


class State(NamedTuple):
    """Where the iteration stands: relaxed x, relaxed counts, multipliers; float32."""

    x: Tensor  # (nodes, items)
    counts: Tensor  # (nodes, rows)
    pi: Tensor  # (nodes, rows)

    def pick(self, keep: Tensor) -> "State":
        """Some of the nodes."""
        return State(*(part[keep] for part in self))


def reduced_costs(model: Model, pi: Tensor) -> Tensor:
    """What an item adds to the Lagrangian: (nodes, items), float64."""
    return model.weights - pi.double() @ model.matrix.double()


def lower_bound(model: Model, rows: Rows, fixed: Tensor, pi: Tensor) -> Tensor:
    """The minimum of the Lagrangian: no x of the node costs less; (nodes,), float64."""
    return _bound(model, rows, fixed, pi.double(), reduced_costs(model, pi))


def _bound(model: Model, rows: Rows, fixed: Tensor, pi: Tensor, reduced: Tensor) -> Tensor:
    items = torch.where(fixed == FREE, reduced.clamp(max=0.0), reduced * fixed).sum(1)
    pools = (pi * rows.start).sum(1) + ((rows.slopes + pi).clamp(max=0.0) * rows.lengths).sum((0, 2))
    return model.constant + rows.cost + items + pools


class Relaxed(NamedTuple):
    """The best bound found for each node, with its multipliers in the state."""

    bound: Tensor  # (nodes,), float64
    state: State


def relax(model: Model, rows: Rows, fixed: Tensor, state: State, enough: Tensor, iterations: int) -> Relaxed:
    """Improve the bound of each node until it is `enough`, for some iterations at most."""
    best = torch.full_like(enough, -torch.inf)
    kept = State(*(part.clone() for part in state))
    at = torch.arange(len(enough), device=enough.device)  # the nodes still worked on
    run = _Run.start(model, rows, fixed, state)
    for done in range(CHECK, iterations + 1, CHECK):
        run.advance(CHECK)
        for pi in (run.pi, run.total / run.since):
            bound = lower_bound(model, run.rows, run.fixed, pi)
            better = bound > best[at]
            best[at] = torch.where(better, bound, best[at])
            kept.pi[at] = torch.where(better[:, None], pi, kept.pi[at])
        if done % RESTART == 0:
            run.restart(kept.pi[at])
        open_ = best[at] < enough[at]
        if done + CHECK > iterations or float(open_.float().mean()) < 0.75:  # shrinking costs a copy
            kept.x[at], kept.counts[at] = run.x, run.counts
            left = open_.nonzero()[:, 0]
            at, run = at[left], run.pick(left)
            if not len(at):
                break
    return Relaxed(best, kept)


@dataclass
class _Run:
    """The iteration on the nodes still worked on."""

    model: Model
    rows: Rows
    fixed: Tensor
    lower: Tensor
    upper: Tensor
    shifts: Tensor  # (pieces, nodes, rows): where each piece of the envelope's proximal map begins
    lengths: Tensor
    begin: Tensor  # (nodes, rows)
    x: Tensor
    counts: Tensor
    pi: Tensor
    total: Tensor  # of the multipliers since the last restart
    since: int = 0

    @classmethod
    def start(cls, model: Model, rows: Rows, fixed: Tensor, state: State) -> "_Run":
        lower, upper = (fixed == 1).float(), (fixed != 0).float()
        before = torch.cumsum(rows.lengths, 0) - rows.lengths
        shifts = (rows.start + before + STEP * rows.slopes).float()
        x = torch.clamp(state.x, lower, upper)
        zero = torch.zeros_like(state.pi)
        return cls(
            model, rows, fixed, lower, upper, shifts, rows.lengths.float(), rows.start.float(), x, state.counts,
            state.pi, zero,
        )  # fmt: skip

    def advance(self, iterations: int) -> None:
        """The method itself: x and c step down the Lagrangian, pi steps up at their extrapolation."""
        model, weights = self.model, (STEP * self.model.weights).float()
        for _ in range(iterations):
            x = torch.addmm(self.x - weights, self.pi, model.matrix, alpha=STEP).clamp_(self.lower, self.upper)
            # The proximal map of an envelope: along each of its pieces in turn.
            moved = torch.sub(self.counts, self.pi, alpha=STEP) - self.shifts
            counts = torch.clamp(moved, min=torch.zeros_like(self.lengths), max=self.lengths).sum(0).add_(self.begin)
            ahead_x, ahead_counts = torch.lerp(self.x, x, 2.0), torch.lerp(self.counts, counts, 2.0)
            self.pi = torch.addmm(self.pi, ahead_x, model.pull, alpha=-1 / STEP)
            self.pi.addmm_(ahead_counts, model.inverse, alpha=1 / STEP)
            self.x, self.counts = x, counts
            self.total += self.pi
        self.since += iterations

    def restart(self, pi: Tensor) -> None:
        """Go on from the given multipliers, and forget the mean."""
        self.pi, self.total, self.since = pi.clone(), torch.zeros_like(pi), 0

    def pick(self, keep: Tensor) -> "_Run":
        """Some of the nodes."""
        return _Run(
            self.model, self.rows.pick(keep), self.fixed[keep], self.lower[keep], self.upper[keep],
            self.shifts[:, keep], self.lengths[:, keep], self.begin[keep], self.x[keep], self.counts[keep],
            self.pi[keep], self.total[keep], self.since,
        )  # fmt: skip
