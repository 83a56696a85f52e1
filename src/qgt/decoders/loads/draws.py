"""The evidence of sets by importance sampling: loads drawn from about their posterior, weighed by `log_prob` itself.

Loads that the reports settle are drawn from the normal of the fit, made wider. Loads that they leave open are drawn one
after another from their conditional on the grid, given all loads drawn before.

That is not enough where an open load *competes* with another: a strong item is settled only by pools that a weak one is
in too. Reports settle the sum of the two amounts. The weak one may have any part of the sum, and the two may change
places, so the posterior is bent like an L, and the normal of the fit covers one end of it. A draw that happens to land
on the other end has almost all of the weight, and the evidence is too low without such a draw, and much too high with
it. There the log of the sum is drawn in place of the strong load; which item has the largest part of the sum is drawn
evenly; the other items are drawn on the grid; and the largest part is what is left of the sum. Every point of the L has
one such description, so its density is known.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from qgt.decoders.loads.evidence import AT_A_TIME, AT_A_TIME_ON_GPU, EACH, WIDE, Fitted, Plates, PositiveSets
from qgt.decoders.loads.tables import NEVER

NEAR_SHARE, NEAR_SCALE, FAR_SCALE = 0.75, 1.1, 2.5  # loads are drawn from two normals, wider than the fit
PRIOR_SHARE = 0.05  # of draws on the grid that follow the prior, so that no load is left out
SOFT_SHARE, SOFTNESS = (
    0.4,
    0.2,
)  # of draws that follow a weaker likelihood, while other open loads are still at the mode
LOOSE = 0.3  # decades: a standard deviation without the pools of an open load, above which a load competes with it
OPEN, TIED = 0.1, -0.5  # a load with this deviation, and this correlation with a stronger one, competes as if open
EXTRA_DIMENSIONS = 2  # of the points, beside one for each place: the normal, and who has the largest part of a sum
LEAST_AMOUNT = 1e-300


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


class Proposal(NamedTuple):
    """How the loads of some sets are drawn."""

    centre: Float64[Tensor, "sets places"]  # log10; of a load that others compete with, that of the sum
    root: Float64[Tensor, "sets places places"]  # of the covariance; rows of loads that are not drawn so are the unit's
    narrow: Bool[Tensor, "sets places"]  # drawn from the normal
    wide: Bool[Tensor, "sets places"]  # drawn on the grid
    leader: Int64[Tensor, "sets places"]  # the place whose load an open load competes with; its own if there is none

    @classmethod
    def of(cls, plates: Plates, fitted: Fitted) -> "Proposal":
        """The normal of the fit, with sums in place of loads that others compete with."""
        sets, places = fitted.sets, torch.arange(fitted.wide.shape[1], device=fitted.wide.device)
        leader = leaders(plates, fitted)
        follows = leader != places
        leads = _followed(leader, follows)
        wide = (fitted.wide | follows) & ~leads
        narrow = sets.inside & ~wide
        amounts = torch.where(sets.inside, 10.0**sets.logs, 0.0)
        sums = torch.zeros_like(amounts).scatter_add(1, leader, amounts)
        centre = torch.where(leads, sums.clamp(min=LEAST_AMOUNT).log10(), sets.logs)
        covariance = fitted.covariance
        some = follows.any(1).nonzero()[:, 0]
        if len(some):
            part = amounts / sums.gather(1, leader).clamp(min=LEAST_AMOUNT)
            by_sums = _covariance_by_sums(plates.pulls(sets[some]).hessian(), part[some], leader[some])
            covariance = covariance.index_copy(0, some, by_sums)
        root = torch.linalg.cholesky(_without(covariance, ~narrow))
        return cls(centre, root, narrow, wide, leader)


def _followed(leader: Int64[Tensor, "sets places"], follows: Bool[Tensor, "sets places"]) -> Tensor:
    """Which places others follow: (sets, places), bool."""
    return torch.zeros_like(leader).scatter_add(1, leader, follows.to(torch.int64)) > 0


def _covariance_by_sums(
    hessian: Tensor, part: Float64[Tensor, "sets places"], leader: Int64[Tensor, "sets places"]
) -> Float64[Tensor, "sets places places"]:
    """The covariance of loads, where the logs of sums take the places of their leaders' loads."""
    places = torch.arange(leader.shape[1], device=leader.device)
    mine = leader[:, None, :] == places[:, None]  # (sets, leaders, members)
    follows = mine & (places != places[:, None])
    led = follows.any(2)
    # A leader's log by that of the sum, and by the logs of those that follow.
    change = torch.where(follows, -part[:, None] / part.clamp(min=LEAST_AMOUNT)[..., None], 0.0)
    change = change + torch.diag_embed(torch.where(led, 1 / part.clamp(min=LEAST_AMOUNT), 1.0))
    return torch.cholesky_inverse(torch.linalg.cholesky(change.transpose(1, 2) @ hessian @ change))


def leaders(plates: Plates, fitted: Fitted) -> Int64[Tensor, "sets places"]:
    """The place of the stronger load that each open load competes with; its own place where there is none.

    Two loads compete where the stronger one is settled, given the other, but not without the other's pools.
    """
    sets = fitted.sets
    places = torch.arange(sets.items.shape[1], device=sets.items.device)
    found = places.repeat(len(sets), 1)
    deviation = fitted.covariance.diagonal(dim1=1, dim2=2).sqrt()
    several = sets.inside.sum(1, keepdim=True) > 1
    row, place = (sets.inside & several & (fitted.wide | (deviation > OPEN))).nonzero(as_tuple=True)
    if not len(row):
        return found
    some, item, own = sets[row], sets.items[row, place], places == place[:, None]
    pulls = plates.pulls(some)
    loose = pulls.hessian(without=plates.members[item] > 0).diagonal(dim1=1, dim2=2).rsqrt()
    given = _deviations(_without(pulls.hessian(), own))
    mine = sets.logs[row, place][:, None]
    stronger = (some.logs > mine) | ((some.logs == mine) & (places < place[:, None]))
    correlation = fitted.covariance[row, place] / (deviation[row, place][:, None] * deviation[row])
    open_or_tied = fitted.wide[row, place][:, None] | (correlation < TIED)
    may = some.inside & ~own & stronger & (loose > LOOSE) & (given < WIDE) & open_or_tied
    score = torch.full((len(sets), len(places), len(places)), -torch.inf, dtype=torch.float64, device=row.device)
    score[row, place] = torch.where(may, loose, -torch.inf)
    order = torch.where(sets.inside, sets.logs, -torch.inf).argsort(dim=1, descending=True, stable=True)
    each = torch.arange(len(sets), device=row.device)
    for which in order.T[1:]:  # from strong to weak: whoever follows another is not followed
        best, to = torch.where(found == places, score[each, which], -torch.inf).max(1)
        found[each, which] = torch.where(best > -torch.inf, to, which)
    return found


def drawn_loads(plates: Plates, fitted: Fitted, points: Float64[Tensor, "samples dimensions"]) -> DrawnLoads:
    """The evidence of sets by importance sampling, with loads drawn from about the posterior given each set.

    `points` are uniform, and have `EXTRA_DIMENSIONS` dimensions more than the sets have places.
    """
    sets, samples, places = fitted.sets, len(points), fitted.sets.items.shape[1]
    plan = Proposal.of(plates, fitted)
    z = torch.special.ndtri(points[:, :places])  # (samples, places)
    scale = torch.where(points[:, places] < NEAR_SHARE, NEAR_SCALE, FAR_SCALE)  # (samples,)
    moved = (plan.root @ z.T).transpose(1, 2) * scale[:, None]  # (sets, samples, places)
    logs = plan.centre[:, None] + torch.where(plan.narrow[:, None], moved, 0.0)
    drawn = _log_drawn(z, scale, plan.narrow, plan.root).flatten()
    swap, choices = _exchanged(plan, points[:, places + 1])
    many = PositiveSets(
        sets.owner.repeat_interleave(samples),
        sets.items.repeat_interleave(samples, 0).gather(1, swap),
        logs.flatten(0, 1),
    )
    split = _Split(plates, many, drawn - choices.log().repeat_interleave(samples), plan, samples)
    for place in range(places):
        split.draw_alone(place, points[:, place])
        split.draw_part(place, points[:, place])
    return split.weighed(swap)


def _exchanged(plan: Proposal, uniform: Tensor) -> tuple[Int64[Tensor, "draws places"], Float64[Tensor, " sets"]]:
    """Whose item is at which place, so that the item at a leader's place has the largest part of the sum.

    Also between how many choices of largest parts each set has.
    """
    sets, places = plan.leader.shape
    index = torch.arange(places, device=uniform.device)
    swap = index.repeat(sets, len(uniform), 1)
    choices = torch.ones(sets, dtype=torch.float64, device=uniform.device)
    for place in range(places):
        member = plan.leader == place  # (sets, places)
        number = member.sum(1)
        rows = (number > 1).nonzero()[:, 0]
        if not len(rows):
            continue
        # The digits of one uniform number: the choices of several sums in a set are independent.
        digit = ((uniform * choices[rows, None]).frac() * number[rows, None]).to(torch.int64)
        order = (~member[rows]).to(torch.int64).argsort(dim=1, stable=True)  # members first
        chosen = order.gather(1, digit)  # (rows, samples)
        swap[rows, :, place] = chosen
        swap[rows] = swap[rows].scatter(2, chosen[..., None], place)
        choices[rows] *= number[rows]
    return swap.flatten(0, 1), choices


class _Split:
    """Loads of many draws, while the open ones are drawn."""

    def __init__(self, plates: Plates, many: PositiveSets, drawn: Tensor, plan: Proposal, samples: int) -> None:
        self.plates, self.many, self.drawn, self.samples = plates, many, drawn, samples
        places = torch.arange(plan.leader.shape[1], device=drawn.device)
        self.leader = plan.leader.repeat_interleave(samples, 0)
        self.follows = self.leader != places
        self.alone = plan.wide.repeat_interleave(samples, 0) & ~self.follows
        leads = _followed(self.leader, self.follows)
        # A leader's log is that of the sum so far: its amount is what the others leave.
        amounts = torch.where(many.inside, 10.0**many.logs, 0.0)
        self.sums = torch.where(leads, amounts, 0.0)
        parts = torch.zeros_like(amounts).scatter_add(1, self.leader, torch.where(self.follows, amounts, 0.0))
        self.amounts = torch.where(leads, (amounts - parts).clamp(min=LEAST_AMOUNT), amounts)
        self.leads = leads
        self.totals = (self.amounts[:, None, :] @ plates.members[many.items])[:, 0]

    def draw_alone(self, place: int, uniform: Tensor) -> None:
        """Draw one place's load from its conditional on the grid."""
        rows = self.alone[:, place].nonzero()[:, 0]
        if len(rows):
            item = self.many.items[rows, place]
            member = self.plates.members[item]
            base = (self.totals[rows] - member * self.amounts[rows, place, None]).clamp(min=0.0)
            each = torch.arange(len(rows), device=rows.device)
            law = self.plates.conditional(self.many.owner[rows], base, each, item)
            amount = self._drawn(law, rows, place, uniform)
            self.totals[rows] = base + member * amount[:, None]

    def draw_part(self, place: int, uniform: Tensor) -> None:
        """Draw one place's part of the sum that its load competes for."""
        rows = self.follows[:, place].nonzero()[:, 0]
        if len(rows):
            leader = self.leader[rows, place]
            item, first = self.many.items[rows, place], self.many.items[rows, leader]
            members = self.plates.members
            before, left = self.amounts[rows, place], self.amounts[rows, leader]
            base = self.totals[rows] - members[item] * before[:, None] - members[first] * left[:, None]
            others = self.sums[rows, leader] - self._parts(rows, leader) + before  # the sum without the other parts
            law = _conditional_of_parts(self.plates, self.many.owner[rows], base.clamp(min=0.0), item, first, others)
            amount = self._drawn(law, rows, place, uniform)
            left = (others - amount).clamp(min=LEAST_AMOUNT)
            self.amounts[rows, leader] = left
            self.totals[rows] = base.clamp(min=0.0) + members[item] * amount[:, None] + members[first] * left[:, None]

    def _parts(self, rows: Tensor, leader: Tensor) -> Tensor:
        """What all that follow a leader have."""
        mine = self.follows[rows] & (self.leader[rows] == leader[:, None])
        return torch.where(mine, self.amounts[rows], 0.0).sum(1)

    def _drawn(self, law: Tensor, rows: Tensor, place: int, uniform: Tensor) -> Tensor:
        """Draw amounts from laws on the grid."""
        nodes, weights = self.plates.grid
        soft = torch.where((self.follows | self.alone)[rows, place + 1 :].any(1), SOFT_SHARE, 0.0)[:, None]
        softer = (weights + SOFTNESS * (law - weights)).softmax(1)
        law = (1 - PRIOR_SHARE - soft) * law.softmax(1) + soft * softer + PRIOR_SHARE * weights.exp()
        up_to = law.cumsum(1)
        level = uniform[rows % self.samples] * up_to[:, -1]
        cell = (up_to <= level[:, None]).sum(1).clamp(max=law.shape[1] - 1)[:, None]
        mass = law.gather(1, cell)[:, 0]
        within = ((level - (up_to.gather(1, cell)[:, 0] - mass)) / mass).clamp(0.0, 1.0)
        logs = nodes[cell[:, 0]] + self.plates.node_step * (within - 0.5)
        self.many.logs[rows, place] = logs
        self.amounts[rows, place] = 10.0**logs
        self.drawn[rows] += mass.log() - math.log(self.plates.node_step)
        return self.amounts[rows, place]

    def weighed(self, swap: Int64[Tensor, "draws places"]) -> DrawnLoads:
        """The weights of all draws, with each load back at the place of its item."""
        plates, many = self.plates, self.many
        logs = torch.where(self.leads, self.amounts.log10(), many.logs)
        # The density of the log of a sum, as one of the log of its largest part.
        part = torch.where(self.leads, self.amounts / self.sums.clamp(min=LEAST_AMOUNT), 1.0)
        drawn = self.drawn + part.log().sum(1)
        largest = torch.where(self.follows, self.amounts.gather(1, self.leader), torch.inf)
        sizes = plates.problem.design.pool_sizes.to(plates.y.device, torch.float64)
        y = plates.y[many.owner]
        missing = y.isnan()
        each = plates.problem.noise.log_prob(torch.where(missing, 0.0, y), self.totals, sizes)
        density = torch.where(many.inside, plates.prior.value(0, logs), 0.0).sum(1)
        low, high = plates.loads.span
        outside = (many.inside & ((logs < low) | (logs > high))).any(1) | (self.amounts > largest).any(1)
        joint = torch.where(missing, 0.0, each).sum(1) + density
        weight = torch.where(outside, -torch.inf, joint - drawn).view(-1, self.samples)
        sets = many[slice(None, None, self.samples)]
        back = logs.gather(1, swap).view(len(weight), self.samples, -1)
        return DrawnLoads(plates.log_prior(sets), weight, back)


def _conditional_of_parts(
    plates: Plates, owner: Tensor, base: Tensor, item: Tensor, first: Tensor, others: Tensor
) -> Float64[Tensor, "rows nodes"]:
    """The log of the posterior of one item's part of a sum, up to half of it, at each node of the grid; `first` has the
    rest.
    """
    nodes, weights = plates.grid
    pools, mine = plates.pools_of
    most = AT_A_TIME if plates.y.device.type == "cpu" else AT_A_TIME_ON_GPU
    at_a_time = max(1, most // (2 * pools.shape[1] * len(nodes)))
    found = []
    for rows in torch.arange(len(item), device=item.device).split(at_a_time):
        who, one, rest, sums = owner[rows], item[rows], first[rows], others[rows, None].clamp(min=LEAST_AMOUNT)
        part = torch.minimum(10.0**nodes, sums / 2)  # (rows, nodes)
        left = sums - part
        law = weights + plates.prior.value(0, left.log10()) - (left / sums).log()
        for here, counted, with_part, with_left in (
            (pools[one], mine[one], True, plates.members[rest].gather(1, pools[one])),
            (pools[rest], mine[rest] & (plates.members[one].gather(1, pools[rest]) == 0), False, None),
        ):
            more = base[rows].gather(1, here)[..., None] + (part[:, None] if with_part else left[:, None])
            more = more if with_left is None else more + with_left[..., None] * left[:, None]
            each = plates.likelihood(who[:, None, None], here[..., None], more)
            law = law + torch.where(counted[..., None], each, 0.0).sum(1)
        low = 10.0 ** (nodes - plates.node_step / 2)
        found.append(torch.where(low > sums / 2, NEVER, law))
    return torch.cat(found)


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


def _without(square: Tensor, rows: Tensor) -> Tensor:
    """Square matrices with the unit's rows and columns in place of some."""
    kept = (~rows).to(torch.float64)
    return square * kept[:, :, None] * kept[:, None] + torch.diag_embed(1 - kept)


def _deviations(hessian: Tensor) -> Tensor:
    """Standard deviations of loads: (sets, places)."""
    return torch.cholesky_inverse(torch.linalg.cholesky(hessian)).diagonal(dim1=1, dim2=2).sqrt()
