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
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float64, Int64, UInt8
from torch import Tensor

from qgt.decoders.loads.tables import NEVER, Curves, ReportCurves, prior_curve
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
NEAR_SHARE, NEAR_SCALE, FAR_SCALE = 0.75, 1.1, 2.5  # loads are drawn from two normals, wider than the fit
PRIOR_SHARE = 0.05  # of draws on the grid that follow the prior, so that no load is left out
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
        """The log of the prior of one more item's load times the likelihood of its pools, at each node of the grid.

        `logsumexp` over the nodes, less `at_own_pools`, is the log evidence gained by adding the item to what the pools
        of that row hold already, all other loads kept.
        """
        nodes, weights = self.grid
        pools, mine = self.pools_of
        most = AT_A_TIME if self.y.device.type == "cpu" else AT_A_TIME_ON_GPU
        pairs = max(1, most // (pools.shape[1] * len(nodes)))
        found = []
        for who, which, one in zip(owner.split(pairs), row.split(pairs), item.split(pairs), strict=True):
            where = pools[one]  # (pairs, weight)
            more = totals[which[:, None], where][..., None] + 10.0**nodes
            each = self.likelihood(who[:, None, None], where[..., None], more)
            found.append(torch.where(mine[one][..., None], each, 0.0).sum(1) + weights)
        return torch.cat(found)

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

    def _laplace(self, sets: PositiveSets, at: "_Surface") -> Fitted:
        """Laplace's method for the loads that the reports settle, the grid for each of the others."""
        sets = replace(sets, logs=at.logs)
        covariance = torch.cholesky_inverse(torch.linalg.cholesky(at.hessian))
        wide = sets.inside & (covariance.diagonal(dim1=1, dim2=2).sqrt() > WIDE)
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
            integral = self.conditional(owner, before, each, item).logsumexp(1)
            there = self.at_own_pools(owner, at.totals, row, item)
            mode = self.prior.value(0, log)
            evidence = evidence.index_add(0, row, integral - there - mode)
        return Fitted(sets, at.totals, covariance, wide, evidence)

    def log_prior(self, sets: PositiveSets) -> Float64[Tensor, " sets"]:
        """The log prior probability that just these items are positive."""
        return -self.costs.of(sets.statuses(self.problem.items)).clamp(max=-NEVER)

    def sampled(self, fitted: Fitted, points: Float64[Tensor, "samples dimensions"]) -> "DrawnLoads":
        """The evidence of sets by importance sampling, with loads drawn from the posterior given each set.

        Loads that the reports settle are drawn from the normal of the fit, made wider; the others one after another
        from their conditional on the grid, given all loads drawn before. `points` are uniform, and fewer than the
        places of the sets by none: one dimension more than places.
        """
        sets, samples = fitted.sets, len(points)
        places = sets.items.shape[1]
        narrow = sets.inside & ~fitted.wide
        both = (narrow[:, :, None] & narrow[:, None, :]).to(torch.float64)
        root = torch.linalg.cholesky(fitted.covariance * both + torch.diag_embed((~narrow).to(torch.float64)))
        z = torch.special.ndtri(points[:, :places])  # (samples, places)
        scale = torch.where(points[:, places] < NEAR_SHARE, NEAR_SCALE, FAR_SCALE)  # (samples,)
        moved = (root @ z.T).transpose(1, 2) * scale[:, None]  # (sets, samples, places)
        logs = sets.logs[:, None] + torch.where(narrow[:, None], moved, 0.0)
        drawn = _log_drawn(z, scale, narrow, root)  # (sets, samples)
        many = PositiveSets(
            sets.owner.repeat_interleave(samples),
            sets.items.repeat_interleave(samples, 0),
            logs.flatten(0, 1),
        )
        totals = self.totals(many)
        drawn = drawn.flatten()
        for place in range(places):
            rows = fitted.wide[:, place].repeat_interleave(samples).nonzero()[:, 0]
            if len(rows):
                self._draw_wide(many, totals, drawn, rows, place, points[:, place].repeat(len(sets))[rows])
        sizes = self.problem.design.pool_sizes.to(self.y.device, torch.float64)
        y = self.y[many.owner]
        missing = y.isnan()
        each = self.problem.noise.log_prob(torch.where(missing, 0.0, y), totals, sizes)
        density = torch.where(many.inside, self.prior.value(0, many.logs), 0.0).sum(1)
        low, high = self.loads.span
        outside = (many.inside & ((many.logs < low) | (many.logs > high))).any(1)
        joint = torch.where(missing, 0.0, each).sum(1) + density
        weight = torch.where(outside, -torch.inf, joint - drawn).view(len(sets), samples)
        return DrawnLoads(self.log_prior(sets), weight, many.logs.view(len(sets), samples, places))

    def _draw_wide(
        self, many: PositiveSets, totals: Tensor, drawn: Tensor, rows: Tensor, place: int, uniform: Tensor
    ) -> None:
        """Draw one place's load from its conditional on the grid, in place."""
        item = many.items[rows, place]
        member = self.members[item]
        base = (totals[rows] - member * (10.0 ** many.logs[rows, place])[:, None]).clamp(min=0.0)
        law = self.conditional(many.owner[rows], base, torch.arange(len(rows), device=rows.device), item).softmax(1)
        law = (1 - PRIOR_SHARE) * law + PRIOR_SHARE * self.grid[1].exp()
        up_to = law.cumsum(1)
        uniform = uniform * up_to[:, -1]
        cell = (up_to <= uniform[:, None]).sum(1).clamp(max=law.shape[1] - 1)[:, None]
        mass = law.gather(1, cell)[:, 0]
        within = ((uniform - (up_to.gather(1, cell)[:, 0] - mass)) / mass).clamp(0.0, 1.0)
        logs = self.grid[0][cell[:, 0]] + self.node_step * (within - 0.5)
        many.logs[rows, place] = logs
        totals[rows] = base + member * (10.0**logs)[:, None]
        drawn[rows] += mass.log() - math.log(self.node_step)


@dataclass(frozen=True, eq=False)
class DrawnLoads:
    """Loads drawn for some sets, with their importance weights."""

    prior: Float64[Tensor, " sets"]  # the log prior of each set
    weight: Float64[Tensor, "sets samples"]  # logarithms
    logs: Float64[Tensor, "sets samples places"]

    @property
    def evidence(self) -> Float64[Tensor, " sets"]:
        """The mean weight, times the prior of the set: a logarithm."""
        return self.prior + self.weight.logsumexp(1) - math.log(self.weight.shape[1])

    @property
    def error(self) -> Float64[Tensor, " sets"]:
        """The relative standard error of the evidence, as if the points were independent."""
        share = self.weight.softmax(1)
        return (share.square().sum(1) - 1 / self.weight.shape[1]).clamp(min=0.0).sqrt()

    def resampled(self, sets: Int64[Tensor, " some"], draws: int) -> Float64[Tensor, "some draws places"]:
        """Loads of some sets drawn from their posterior, each as often as its weight says."""
        up_to = self.weight[sets].softmax(1).cumsum(1)
        level = (torch.arange(draws, dtype=torch.float64, device=up_to.device) + 0.5) / draws
        which = torch.searchsorted(up_to, level.repeat(len(sets), 1)).clamp(max=up_to.shape[1] - 1)
        return self.logs[sets[:, None], which]

    def quantiles(self, levels: tuple[float, ...]) -> Float64[Tensor, "sets places levels"]:
        """Quantiles of each load's posterior, given the set."""
        logs, order = self.logs.sort(1)
        share = self.weight.softmax(1)[..., None].expand_as(logs).gather(1, order).cumsum(1)
        found = [(share < level).sum(1, keepdim=True).clamp(max=logs.shape[1] - 1) for level in levels]
        return torch.stack([logs.gather(1, at)[:, 0] for at in found], 2)


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
        # Where there is no root, the step is no number and is not taken; asking whether there is one would wait.
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

    def at(self, logs: Float64[Tensor, "sets places"]) -> _Surface:
        """The log joint of these loads, its slope and its curvature."""
        held = self.members * (10.0**logs)[..., None]  # (sets, places, pools); nothing where there is no item
        totals = held.sum(1)
        none = totals <= 0
        some = totals.masked_fill(none, 1.0)
        value, slope, curvature = self.plates.reports.curves.at(self.curve, some.log10())
        share = held / some[:, None]  # 0 where there is nothing: slopes of such pools do not count
        prior = self.plates.prior.at(0, logs)
        own = (-prior.curvature).clamp(min=LEAST_CURVATURE).masked_fill(self.outside, 1.0)
        hessian = (share * curvature.clamp(max=0.0)[:, None]) @ share.transpose(1, 2)
        return _Surface(
            logs,
            totals,
            torch.where(none, self.zero, value).sum(1) + prior.value.masked_fill(self.outside, 0.0).sum(1),
            (share @ slope[..., None])[..., 0] + prior.slope.masked_fill(self.outside, 0.0),
            torch.diag_embed(own) - hessian,
        )


def _log_drawn(z: Tensor, scale: Tensor, narrow: Tensor, root: Tensor) -> Tensor:
    """The log density of the loads drawn from the two normals, one wider than the other: (sets, samples)."""
    number = narrow.sum(1).to(torch.float64)[:, None]  # (sets, 1)
    volume = torch.where(narrow, root.diagonal(dim1=1, dim2=2), 1.0).log().sum(1)[:, None]
    square = narrow.to(torch.float64) @ z.square().T * scale.square()  # (sets, samples)
    parts = [
        math.log(share) - 0.5 * square / wide**2 - number * (EACH + math.log(wide)) - volume
        for share, wide in ((NEAR_SHARE, NEAR_SCALE), (1 - NEAR_SHARE, FAR_SCALE))
    ]
    return torch.logaddexp(*parts)
