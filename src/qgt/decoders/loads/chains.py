"""Annealed chains over sets of positives: starts for the search where sets are too many to climb from the empty one.

A chain has a load for every item, zero or an amount, and draws each item anew given all others: negative, or one of the
amounts of the grid. This is Gibbs sampling from the posterior with the log likelihood multiplied by a number that rises
to 1 (Kirkpatrick, Gelatt and Vecchi 1983, Optimization by simulated annealing, Science 220, 671-680). In the beginning
items come and go almost freely, so chains pass from one explanation of a plate to another where a search by neighbours
would have to pass through sets that explain nothing.

Items that share no pool do not influence each other's reports, so they are drawn at the same time: a sweep over all
items takes as many steps as there are classes of disjoint items. The prior of each item is its own probability, without
households or the total: the search weighs the sets that chains end in by the whole model.
"""

import math
from dataclasses import replace

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from qgt.decoders.loads.evidence import NONE, Plates, PositiveSets
from qgt.decoders.loads.tables import Curves, ReportCurves

CHAINS = 6  # of each instance
COOLING, COLD = 48, 4  # sweeps in which the likelihood rises to its full weight, and sweeps after that
FIRST_WEIGHT, LAST_WEIGHT = 0.02, 0.5  # of the log likelihood, in the first and the last sweep
DEEPEST = (
    20.0  # nats below its best total, under which a report is equally improbable for all totals: no chain is stuck
)


def annealed(
    plates: Plates, candidates: Int64[Tensor, "instances candidates"], *, generator: torch.Generator
) -> PositiveSets:
    """The sets that chains end in, `CHAINS` for each instance."""
    device, items = plates.y.device, plates.problem.items
    owner = torch.arange(len(plates), device=device).repeat_interleave(CHAINS)
    may_be = torch.zeros(len(plates), items + 1, dtype=torch.bool, device=device)
    may_be = may_be.scatter(1, candidates.where(candidates != NONE, items), True)[:, :items]
    who = plates.loads.statuses().marginals(items).to(device)
    odds = torch.logit(who, eps=1e-12)
    classes = [part.to(device) for part in disjoint(plates)]
    amounts = torch.zeros(len(owner), items, dtype=torch.float64, device=device)
    weights = torch.logspace(math.log10(FIRST_WEIGHT), math.log10(LAST_WEIGHT), COOLING, dtype=torch.float64).tolist()
    for weight in [*weights, *[LAST_WEIGHT] * COLD]:
        soft = _softened(plates, weight)
        for part in classes:
            _drawn(soft, owner, may_be[:, part], part, amounts, odds, generator)
    return _sets(owner, amounts)


def disjoint(plates: Plates) -> list[Int64[Tensor, " items"]]:
    """All items in classes whose items share no pool: each item in the first class that has room for it."""
    pools = [sum(1 << pool for pool in row.nonzero()[:, 0].tolist()) for row in plates.members[:-1].cpu()]
    taken: list[int] = []
    classes: list[list[int]] = []
    for item, mine in enumerate(pools):
        free = next((i for i, others in enumerate(taken) if not others & mine), len(taken))
        if free == len(taken):
            taken.append(0)
            classes.append([])
        taken[free] |= mine
        classes[free].append(item)
    return [torch.tensor(part) for part in classes]


def _softened(plates: Plates, weight: float) -> Plates:
    """The instances with all log likelihoods multiplied by a weight, none of them hopeless."""
    curves, zero = plates.reports.curves, plates.reports.zero
    best = torch.maximum(curves.values.amax(1), zero.view(-1)) - DEEPEST
    values = curves.values.maximum(best[:, None]) * weight
    reports = ReportCurves(
        Curves.of(values, low=curves.low, step=curves.step), zero.maximum(best.view_as(zero)) * weight
    )
    return replace(plates, reports=reports)


def _drawn(
    plates: Plates,
    owner: Tensor,
    may_be: Tensor,
    part: Tensor,
    amounts: Tensor,
    odds: Tensor,
    generator: torch.Generator,
) -> None:
    """Draw the items of one class anew, in place."""
    row, place = may_be[owner].nonzero(as_tuple=True)
    if not len(row):
        return
    item = part[place]
    amounts[:, part] = 0.0
    totals = amounts @ plates.members[:-1]  # (chains, pools): without the class
    law = plates.conditional(owner[row], totals, row, item)
    negative = plates.at_own_pools(owner[row], totals, row, item) - odds[item]
    law = torch.cat([negative[:, None], law], 1)
    noise = torch.rand(law.shape, dtype=law.dtype, device=law.device, generator=generator)
    which = (law - (-noise.log()).log()).argmax(1)  # a draw from the law, by Gumbel's trick
    amounts[row, item] = torch.where(which == 0, 0.0, 10.0 ** plates.grid[0][(which - 1).clamp(min=0)])


def _sets(owner: Tensor, amounts: Float64[Tensor, "chains items"]) -> PositiveSets:
    """The positive items of each chain, with their loads."""
    most = max(1, int((amounts > 0).sum(1).max()))
    found, items = amounts.topk(most, 1)
    inside = found > 0
    return PositiveSets(owner, torch.where(inside, items, NONE), torch.where(inside, found, 1.0).log10())
