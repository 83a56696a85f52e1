"""How probable a set of positives is, with the loads integrated out.

    evidence(S) = P(S)  times the integral over the loads of S of  product_{j in S} p(u_j)  product_i P(y_i | total_i),

u_j being the log10 of the amount of item j. Three ways, each dearer and better than the one before:

    conditional    one item's integral on a grid, all others fixed: what adding or removing that item changes
    fit            Laplace's method at the mode; items whose load the reports leave open are integrated on the grid
    sampled        importance sampling from the fit, computed from `log_prob` itself, with its own standard error

Laplace's method alone is wrong for a weak positive that hides under a strong one: its load is cut off at the top, and
flat below. That is why loads with a wide posterior are integrated on a grid, given all others.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Float64, Int64, UInt8
from torch import Tensor

from qgt.decoders.loads.tables import NEVER, Curves, ReportCurves, Slopes, prior_curve
from qgt.model.loads import Loads
from qgt.model.prior import ItemCosts
from qgt.model.problem import Problem

NODES = 64  # of the grid on which one load is integrated
TAILS = 4.5  # standard deviations on either side that the grid covers
WIDE = 0.2  # decades: a posterior standard deviation above which a load is integrated on the grid
NONE = -1  # in place of an item, in sets smaller than the largest
LEAST_CURVATURE = 1e-3  # per square decade
AT_A_TIME, AT_A_TIME_ON_GPU = 2**20, 2**25  # look-ups at a time
MOST_STEPS = 20  # of Newton's method, with Levenberg and Marquardt's damping
FIRST_DAMPING, MOST_DAMPING = 0.1, 1e4
STILL_MOVING = 0.75  # the share of sets up to which those whose loads still move are gathered, to be fitted alone
SETTLED = 0.01  # nats that a step gained, where loads are at their mode
FULL_STEP = 1.0  # decades: the longest step of Newton's method
EACH = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True, eq=False)
class PositiveSets:
    """Sets of positives, each of one instance, with a load for every item of a set."""

    owner: Int64[Tensor, " sets"]
    items: Int64[Tensor, "sets places"]  # NONE beyond the set's size
    logs: Float64[Tensor, "sets places"]  # the log10 of amounts

    def __len__(self) -> int:
        return len(self.owner)

    @property
    def inside(self) -> Tensor:
        """Which places hold an item: (sets, places), bool."""
        return self.items != NONE

    def __getitem__(self, which: Tensor | slice) -> "PositiveSets":
        return PositiveSets(self.owner[which], self.items[which], self.logs[which])

    def trimmed(self) -> "PositiveSets":
        """Without places that no set uses; one place at least."""
        used = max(1, int(self.inside.sum(1).max())) if len(self) else 1
        order = (~self.inside).to(torch.int64).argsort(dim=1, stable=True)[:, :used]
        return PositiveSets(self.owner, self.items.gather(1, order), self.logs.gather(1, order))

    @classmethod
    def joined(cls, parts: "list[PositiveSets]") -> "PositiveSets":
        """Several tables of sets as one."""
        places = max(part.items.shape[1] for part in parts)
        wide = [part.widened(places) for part in parts]
        return cls(
            torch.cat([part.owner for part in wide]),
            torch.cat([part.items for part in wide]),
            torch.cat([part.logs for part in wide]),
        )

    def widened(self, places: int) -> "PositiveSets":
        """With more places."""
        more = places - self.items.shape[1]
        items = torch.nn.functional.pad(self.items, (0, more), value=NONE)
        return PositiveSets(self.owner, items, torch.nn.functional.pad(self.logs, (0, more)))

    def statuses(self, items: int) -> UInt8[Tensor, "sets items"]:
        """The sets as rows of x."""
        x = torch.zeros(len(self), items + 1, dtype=torch.uint8, device=self.items.device)
        x.scatter_(1, self.items.where(self.inside, items), 1)
        return x[:, :items]


@dataclass(frozen=True, eq=False)
class Fitted:
    """Sets at their modes, with their evidence."""

    sets: PositiveSets
    totals: Float64[Tensor, "sets pools"]
    covariance: Float64[Tensor, "sets places places"]  # of the loads about the mode; rows of no item are the unit's
    wide: Tensor  # (sets, places), bool: loads that the reports leave open
    evidence: Float64[Tensor, " sets"]

    def __getitem__(self, which: Tensor) -> "Fitted":
        parts = self.totals, self.covariance, self.wide, self.evidence
        return Fitted(self.sets[which], *(part[which] for part in parts))


class Pulls(NamedTuple):
    """The totals of some sets, and how the log likelihood of each pool changes with the log10 of its total."""

    outside: Tensor  # (sets, places), bool: places without an item
    prior: Slopes  # of each load
    totals: Float64[Tensor, "sets pools"]
    share: Float64[Tensor, "sets places pools"]  # of each item in a pool's total
    value: Float64[Tensor, "sets pools"]
    slope: Float64[Tensor, "sets pools"]
    curvature: Float64[Tensor, "sets pools"]

    def hessian(self, without: Tensor | None = None) -> Float64[Tensor, "sets places places"]:
        """Minus the curvature of the log joint in the loads (Gauss-Newton), perhaps without some (sets, pools)."""
        own = (-self.prior.curvature).clamp(min=LEAST_CURVATURE).masked_fill(self.outside, 1.0)
        bent = self.curvature.clamp(max=0.0)
        bent = bent if without is None else bent.masked_fill(without, 0.0)
        return torch.diag_embed(own) - (self.share * bent[:, None]) @ self.share.transpose(1, 2)


@dataclass(frozen=True, eq=False)
class Plates:
    """A batch of instances and what is needed to weigh sets of positives."""

    problem: Problem
    loads: Loads
    costs: ItemCosts
    y: Float64[Tensor, "instances pools"]
    reports: ReportCurves
    prior: Curves

    @classmethod
    def of(cls, problem: Problem, loads: Loads, costs: ItemCosts, y: Tensor) -> "Plates":
        """Make the tables."""
        total = None if costs.total is None else costs.total.to(y.device)
        # Once for all sets: every copy to a GPU waits for it.
        costs = replace(costs, weights=costs.weights.to(y.device), known=costs.known.to(y.device), total=total)
        return cls(problem, loads, costs, y, ReportCurves.of(problem, loads, y), prior_curve(loads, y.device))

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, rows: Int64[Tensor, " some"]) -> "Plates":
        return replace(self, y=self.y[rows], reports=self.reports.of_instances(rows))

    @cached_property
    def members(self) -> Float64[Tensor, "rows pools"]:
        """The design, transposed; the last row, of no item, is empty."""
        matrix = self.problem.design.matrix.to(self.y.device, torch.float64)
        return torch.nn.functional.pad(matrix.T, (0, 0, 0, 1))

    @cached_property
    def pools_of(self) -> tuple[Int64[Tensor, "rows weight"], Tensor]:
        """The pools of each item, the unused places being pool 0, and which places are used."""
        used, order = self.members.sort(dim=1, descending=True, stable=True)
        weight = max(1, int(used.sum(1).max()))
        mine = used[:, :weight] > 0
        return order[:, :weight].where(mine, 0), mine

    @cached_property
    def grid(self) -> tuple[Float64[Tensor, " nodes"], Float64[Tensor, " nodes"]]:
        """The log10 amounts of the grid, and the log of prior density times step."""
        low, high = self.loads.span
        if self.loads.values is None:
            assert self.loads.mean is not None and self.loads.sd is not None
            low, high = (
                max(low, self.loads.mean - TAILS * self.loads.sd),
                min(high, self.loads.mean + TAILS * self.loads.sd),
            )
        step = (high - low) / NODES
        nodes = low + step * (torch.arange(NODES, dtype=torch.float64, device=self.y.device) + 0.5)
        weights = self.loads.log_density(nodes)
        return nodes, weights - weights.logsumexp(0)

    @cached_property
    def node_step(self) -> float:
        """How far the grid's nodes lie apart."""
        nodes = self.grid[0]
        return float(nodes[1] - nodes[0])

    def totals(self, sets: PositiveSets) -> Float64[Tensor, "sets pools"]:
        """What the pools of each set hold."""
        amounts = torch.where(sets.inside, 10.0**sets.logs, 0.0)  # (sets, places)
        return (amounts[:, None, :] @ self.members[sets.items])[:, 0]

    def likelihood(self, owner: Tensor, pool: Tensor, totals: Tensor) -> Tensor:
        """The log likelihood of totals in pools of instances, by the tables; the three broadcast."""
        none = totals <= 0
        curve = (owner * self.y.shape[1] + pool).expand_as(totals)
        value = self.reports.curves.value(curve, torch.where(none, 1.0, totals).log10())
        return torch.where(none, self.reports.zero.view(-1)[curve], value)

    def at_own_pools(
        self, owner: Int64[Tensor, " pairs"], totals: Float64[Tensor, "rows pools"], row: Tensor, item: Tensor
    ) -> Float64[Tensor, " pairs"]:
        """The log likelihood of the pools of an item, as a row of totals has them, for pairs of a row and an item."""
        pools, mine = self.pools_of
        where = pools[item]  # (pairs, weight)
        each = self.likelihood(owner[:, None], where, totals[row[:, None], where])
        return torch.where(mine[item], each, 0.0).sum(1)

    def conditional(
        self, owner: Int64[Tensor, " pairs"], totals: Float64[Tensor, "rows pools"], row: Tensor, item: Tensor
    ) -> Float64[Tensor, "pairs nodes"]:
        """The log of the prior of one more item's load times the likelihood of its pools, at each node of the grid."""
        return torch.cat([*self._conditionals(owner, totals, row, item)])

    def integrated(
        self, owner: Int64[Tensor, " pairs"], totals: Float64[Tensor, "rows pools"], row: Tensor, item: Tensor
    ) -> tuple[Float64[Tensor, " pairs"], Int64[Tensor, " pairs"]]:
        """`conditional` summed over the nodes, a logarithm, and its best node.

        Less `at_own_pools`, it is the log evidence gained by adding the item to what the pools of that row hold
        already, all other loads kept. The conditionals of millions of pairs would not fit into memory; these do.
        """
        laws = self._conditionals(owner, totals, row, item)
        sums, best = zip(*((law.logsumexp(1), law.argmax(1)) for law in laws), strict=True)
        return torch.cat(sums), torch.cat(best)

    def _conditionals(self, owner: Tensor, totals: Tensor, row: Tensor, item: Tensor) -> Iterator[Tensor]:
        """`conditional`, some pairs at a time."""
        nodes, weights = self.grid
        pools, mine = self.pools_of
        most = AT_A_TIME if self.y.device.type == "cpu" else AT_A_TIME_ON_GPU
        pairs = max(1, most // (pools.shape[1] * len(nodes)))
        for who, which, one in zip(owner.split(pairs), row.split(pairs), item.split(pairs), strict=True):
            where = pools[one]  # (pairs, weight)
            more = totals[which[:, None], where][..., None] + 10.0**nodes
            each = self.likelihood(who[:, None, None], where[..., None], more)
            yield torch.where(mine[one][..., None], each, 0.0).sum(1) + weights

    def fit(self, sets: PositiveSets) -> Fitted:
        """The mode of each set's loads from where they are, and the evidence by Laplace's method and the grid."""
        slopes = _Terrain.of(self, sets)
        now = end = slopes.at(sets.logs)
        damping = torch.full_like(now.value, FIRST_DAMPING)
        moving = torch.ones_like(now.value, dtype=torch.bool)
        rows = torch.arange(len(sets), device=moving.device)
        for _ in range(MOST_STEPS):
            trial = slopes.at(now.stepped(damping).clamp(*self.loads.span))
            gained = trial.value - now.value
            better = (gained >= 0) & moving
            moving = moving & torch.where(better, gained >= SETTLED, damping <= MOST_DAMPING)
            damping = torch.where(better, damping * 0.2, damping * 8.0)
            now = now.replaced(better, trial)
            left = moving.nonzero()[:, 0]
            if len(left) <= STILL_MOVING * len(rows):  # what is settled does not change: it only takes time
                end = end.updated(rows, now)
                rows, damping, moving = rows[left], damping[left], moving[left]
                slopes, now = slopes[left], now[left]
            if not len(left):
                break
        return self._laplace(sets, end.updated(rows, now))

    def pulls(self, sets: PositiveSets) -> "Pulls":
        """What the reports and the prior say of the loads of sets."""
        return _Terrain.of(self, sets).pulls(sets.logs)

    def _laplace(self, sets: PositiveSets, at: "_Surface") -> Fitted:
        """Laplace's method for the loads that the reports settle, the grid for each of the others."""
        sets = replace(sets, logs=at.logs)
        covariance = torch.cholesky_inverse(torch.linalg.cholesky(at.hessian))
        wide = sets.inside & (self._settled_by_reports(at, sets.inside, covariance) > WIDE)
        narrow = sets.inside & ~wide
        both = (narrow[:, :, None] & narrow[:, None, :]).to(torch.float64)
        block = at.hessian * both + torch.diag_embed((~narrow).to(torch.float64))
        volume = EACH * narrow.sum(1) - torch.linalg.cholesky(block).diagonal(dim1=1, dim2=2).log().sum(1)
        evidence = self.log_prior(sets) + at.value + volume
        row, place = wide.nonzero(as_tuple=True)
        if len(row):
            item, log = sets.items[row, place], sets.logs[row, place]
            before = (at.totals[row] - self.members[item] * (10.0**log)[:, None]).clamp(min=0.0)
            owner, each = sets.owner[row], torch.arange(len(row), device=row.device)
            integral, _ = self.integrated(owner, before, each, item)
            there = self.at_own_pools(owner, at.totals, row, item)
            mode = self.prior.value(0, log)
            evidence = evidence.index_add(0, row, integral - there - mode)
        return Fitted(sets, at.totals, covariance, wide, evidence)

    def _settled_by_reports(self, at: "_Surface", inside: Tensor, covariance: Tensor) -> Float64[Tensor, "sets places"]:
        """Standard deviations of loads about the mode, without what the prior adds where it has several modes.

        A load that the reports leave open would otherwise seem settled, as it is at one of the prior's narrow modes.
        """
        if self.loads.values is not None:
            added = (-self.prior.at(0, at.logs).curvature).clamp(min=LEAST_CURVATURE) - LEAST_CURVATURE
            reports = at.hessian - torch.diag_embed(torch.where(inside, added, 0.0))
            covariance = torch.cholesky_inverse(torch.linalg.cholesky(reports))
        return covariance.diagonal(dim1=1, dim2=2).sqrt()

    def log_prior(self, sets: PositiveSets) -> Float64[Tensor, " sets"]:
        """The log prior probability that just these items are positive."""
        return -self.costs.of(sets.statuses(self.problem.items)).clamp(max=-NEVER)


@dataclass(frozen=True, eq=False)
class _Surface:
    """The log joint at the loads of some sets, less the prior of the sets."""

    logs: Tensor  # (sets, places)
    totals: Tensor
    value: Tensor
    slope: Tensor
    hessian: Tensor  # minus the curvature (Gauss-Newton)

    @property
    def parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """All fields, whose first dimension is the set."""
        return self.logs, self.totals, self.value, self.slope, self.hessian

    def __getitem__(self, rows: Tensor) -> "_Surface":
        return _Surface(*(part[rows] for part in self.parts))

    def stepped(self, damping: Tensor) -> Tensor:
        """The loads after a step of Newton's method."""
        unit = torch.eye(self.logs.shape[1], dtype=damping.dtype, device=damping.device)
        stiff = torch.addcmul(self.hessian, damping[:, None, None] * unit, self.hessian)
        # If the matrix has no root, the step is NaN and is not taken. Asking for an error would wait for the GPU.
        root = torch.linalg.cholesky_ex(stiff).L
        step = torch.cholesky_solve(self.slope[..., None], root)[..., 0]
        return self.logs + step.clamp(-FULL_STEP, FULL_STEP)

    def replaced(self, which: Tensor, other: "_Surface") -> "_Surface":
        """With another's sets in place of some."""
        wide = which[:, None]
        places = wide, wide, which, wide, wide[..., None]
        pairs = zip(places, other.parts, self.parts, strict=True)
        return _Surface(*(torch.where(place, new, old) for place, new, old in pairs))

    def updated(self, rows: Tensor, other: "_Surface") -> "_Surface":
        """With another's sets as these rows."""
        if len(rows) == len(self.value):
            return other
        pairs = zip(self.parts, other.parts, strict=True)
        return _Surface(*(old.index_copy(0, rows, new) for old, new in pairs))


@dataclass(frozen=True, eq=False)
class _Terrain:
    """What does not change while the loads of some sets are fitted."""

    plates: Plates
    members: Tensor  # (sets, places, pools)
    outside: Tensor  # (sets, places), bool: places without an item
    curve: Tensor  # (sets, pools)
    zero: Tensor  # (sets, pools): the log likelihood of a total of zero

    @classmethod
    def of(cls, plates: Plates, sets: PositiveSets) -> "_Terrain":
        """Look the sets up."""
        pools = plates.y.shape[1]
        curve = sets.owner[:, None] * pools + torch.arange(pools, device=plates.y.device)
        return cls(plates, plates.members[sets.items], ~sets.inside, curve, plates.reports.zero[sets.owner])

    def __getitem__(self, rows: Tensor) -> "_Terrain":
        parts = self.members, self.outside, self.curve, self.zero
        return _Terrain(self.plates, *(part[rows] for part in parts))

    def pulls(self, logs: Float64[Tensor, "sets places"]) -> Pulls:
        """The totals of these loads, and how the log likelihoods change with them."""
        held = self.members * (10.0**logs)[..., None]  # (sets, places, pools); nothing where there is no item
        totals = held.sum(1)
        none = totals <= 0
        some = totals.masked_fill(none, 1.0)
        value, slope, curvature = self.plates.reports.curves.at(self.curve, some.log10())
        share = held / some[:, None]  # 0 where there is nothing: slopes of such pools do not count
        prior = self.plates.prior.at(0, logs)
        return Pulls(self.outside, prior, totals, share, torch.where(none, self.zero, value), slope, curvature)

    def at(self, logs: Float64[Tensor, "sets places"]) -> _Surface:
        """The log joint of these loads, its slope and its curvature."""
        pulls = self.pulls(logs)
        prior = pulls.prior
        return _Surface(
            logs,
            pulls.totals,
            pulls.value.sum(1) + prior.value.masked_fill(self.outside, 0.0).sum(1),
            (pulls.share @ pulls.slope[..., None])[..., 0] + prior.slope.masked_fill(self.outside, 0.0),
            pulls.hessian(),
        )
