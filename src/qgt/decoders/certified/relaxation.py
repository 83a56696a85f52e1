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
all instances. Where pools share out what they charge (`shares`), the shares are more dual variables of the same method.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from qgt.decoders.certified.costs import Model, Tables
from qgt.decoders.certified.items import least_items
from qgt.decoders.certified.members import Charges
from qgt.decoders.certified.ranges import Ranges, counts_between
from qgt.decoders.certified.shares import Given, Raising
from qgt.model.prior import FREE

STEP = 0.05  # of the primal variables, for costs of a few nats
STEP_WITH_SHARES = 0.2
HALF = 0.5  # of the dual step is for shares, the rest for the other multipliers
CHECK = 20  # iterations between looks at the bound
LARGE, CHECK_LARGE = 2**17, 10  # entries of A from which a look costs little beside ten iterations
RESTART = 100  # iterations between restarts from the best multipliers


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


class Sets(NamedTuple):
    """Sets of x, of several instances."""

    owner: Tensor  # (nodes,): the instance
    fixed: Tensor  # (nodes, items), int8: 0, 1 or FREE
    total: Tensor  # (nodes,): the number of defectives, or FREE


class Multipliers(NamedTuple):
    """Of the rows, and of memberships where pools share out what they charge."""

    pi: Tensor  # (nodes, rows)
    shares: Tensor  # (nodes, pools, width), or (nodes, 0)


class State(NamedTuple):
    """Where the iteration stands: relaxed x, relaxed counts, multipliers; float32."""

    x: Tensor  # (nodes, items)
    counts: Tensor  # (nodes, rows)
    pi: Tensor  # (nodes, rows)
    shares: Tensor  # (nodes, pools, width), or (nodes, 0) where pools share out nothing

    def pick(self, keep: Tensor) -> "State":
        """Some of the nodes."""
        return State(*(part[keep] for part in self))

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
    state: State


def relax(
    model: Model,
    rows: Rows,
    fixed: Tensor,
    state: State,
    enough: Tensor,
    iterations: int,
    given: Given | None = None,
) -> Relaxed:
    """Improve the bound of each node until it is `enough`, for some iterations at most."""
    best = torch.full_like(enough, -torch.inf)
    kept = State(*(part.clone() for part in state))
    at = torch.arange(len(enough), device=enough.device)  # the nodes still worked on
    run = _Run.start(model, rows, fixed, state, given)
    check = CHECK if model.matrix.numel() < LARGE else CHECK_LARGE
    for done in range(check, iterations + 1, check):
        run.advance(check)
        for multipliers in run.multipliers:
            bound = lower_bound(model, run.rows, run.fixed, multipliers, run.given)
            better = bound > best[at]
            best[at] = torch.where(better, bound, best[at])
            kept.pi[at] = torch.where(better[:, None], multipliers.pi, kept.pi[at])
            if given is not None:
                kept.shares[at] = torch.where(better[:, None, None], multipliers.shares, kept.shares[at])
        if done % RESTART == 0:
            run.restart(kept.pi[at], kept.shares[at])
        open_ = best[at] < enough[at]
        if done + check > iterations or float(open_.float().mean()) < 0.75:  # shrinking costs a copy
            kept.x[at], kept.counts[at] = run.x, run.counts
            left = open_.nonzero()[:, 0]
            at, run = at[left], run.pick(left)
            if not len(at):
                break
    return Relaxed(best, kept)


def relaxed_together(model: Model, rows: Rows, fixed: Tensor, state: State, iterations: int) -> Relaxed:
    """The same without shares, and with all iterations for every node: nothing in it depends on a value."""
    best = torch.full_like(rows.cost, -torch.inf)
    pi = state.pi
    run = _Run.start(model, rows, fixed, state, None)
    for done in range(CHECK, iterations + 1, CHECK):
        run.advance(CHECK)
        for multipliers in run.multipliers:
            bound = lower_bound(model, rows, fixed, multipliers, None)
            better = bound > best
            best, pi = torch.where(better, bound, best), torch.where(better[:, None], multipliers.pi, pi)
        if done % RESTART == 0:
            run.restart(pi, state.shares)
    return Relaxed(best, State(run.x, run.counts, pi, state.shares))


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
    charges: Charges | None  # of the prior's groups
    raising: Raising | None  # the charges of pools, shared out
    step: float
    since: int = 0

    @classmethod
    def start(cls, model: Model, rows: Rows, fixed: Tensor, state: State, given: Given | None) -> "_Run":
        step, raising = STEP, None
        if given is not None:
            step = STEP_WITH_SHARES
            raising = Raising.start(given, state.shares, HALF / step / len(given.shares.places))
        lower, upper = (fixed == 1).float(), (fixed != 0).float()
        before = torch.cumsum(rows.lengths, 0) - rows.lengths
        shifts = (rows.start + before + step * rows.slopes).float()
        x = torch.clamp(state.x, lower, upper)
        zero = torch.zeros_like(state.pi)
        charges = None if model.members is None else model.members.charges(fixed)
        return cls(
            model, rows, fixed, lower, upper, shifts, rows.lengths.float(), rows.start.float(), x,
            state.counts.clone(), state.pi.clone(), zero, charges, raising, step,
        )  # fmt: skip

    def advance(self, iterations: int) -> None:
        """The method itself: x and c step down the Lagrangian, pi and shares step up at their extrapolation."""
        model, members, raising, step = self.model, self.model.members, self.raising, self.step
        up = 1 / step if raising is None else (1 - HALF) / step
        weights = (step * (model.weights if members is None else model.weights + members.slope)).float()
        zeros = torch.zeros_like(self.lengths)
        for _ in range(iterations):
            x = torch.addmm(self.x - weights, self.pi, model.matrix, alpha=step)
            if raising is not None:
                x.sub_(raising.given.by_item(raising.shares), alpha=step)
            if self.charges is not None:
                x = self.charges.cut(x, step)
            x.clamp_(self.lower, self.upper)
            # The proximal map of an envelope: along each of its pieces in turn.
            moved = torch.sub(self.counts, self.pi, alpha=step) - self.shifts
            counts = moved.clamp_(zeros, self.lengths).sum(0).add_(self.begin)
            # What is behind is not looked at again: its memory takes what lies ahead.
            ahead_x, ahead_counts = self.x.lerp_(x, 2.0), self.counts.lerp_(counts, 2.0)
            self.pi.addmm_(ahead_x, model.pull, alpha=-up).addmm_(ahead_counts, model.inverse, alpha=up)
            if raising is not None:
                raising.rise(ahead_x)
            self.x, self.counts = x, counts
            self.total += self.pi
        self.since += iterations

    @property
    def given(self) -> Given | None:
        """What pools have to share."""
        return None if self.raising is None else self.raising.given

    @property
    def multipliers(self) -> tuple[Multipliers, Multipliers]:
        """The last ones, and the mean of those since the last restart."""
        mean, none = self.total / self.since, self.x[:, :0]
        if self.raising is None:
            return Multipliers(self.pi, none), Multipliers(mean, none)
        given, (last, total) = self.raising.given, (self.raising.shares, self.raising.total)
        return Multipliers(self.pi, given.allowed(last)), Multipliers(mean, given.allowed(total / self.since))

    def restart(self, pi: Tensor, shares: Tensor) -> None:
        """Go on from the given multipliers, and forget the mean."""
        self.pi, self.total, self.since = pi.clone(), torch.zeros_like(pi), 0
        if self.raising is not None:
            self.raising.restart(shares)

    def pick(self, keep: Tensor) -> "_Run":
        """Some of the nodes."""
        return _Run(
            self.model, self.rows.pick(keep), self.fixed[keep], self.lower[keep], self.upper[keep],
            self.shifts[:, keep], self.lengths[:, keep], self.begin[keep], self.x[keep], self.counts[keep],
            self.pi[keep], self.total[keep], None if self.charges is None else self.charges.pick(keep),
            None if self.raising is None else self.raising.pick(keep), self.step, self.since,
        )  # fmt: skip
