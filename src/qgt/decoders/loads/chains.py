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
from dataclasses import dataclass

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from qgt.decoders.loads.evidence import NONE, Plates, PositiveSets

CHAINS = 10  # of each instance
COOLING, COLD = 48, 4  # sweeps in which the likelihood rises to its full weight, and sweeps after that
FIRST_WEIGHT, LAST_WEIGHT = 0.02, 0.5  # of the log likelihood, in the first and the last sweep
DEEPEST = (
    20.0  # nats below its best total, under which a report is equally improbable for all totals: no chain is stuck
)


def annealed(
    plates: Plates, candidates: Int64[Tensor, "instances candidates"], *, generator: torch.Generator
) -> PositiveSets:
    """The sets that chains end in, `CHAINS` for each instance.

    All instances get the same random numbers, so that their chains do not depend on who else is in the batch.
    """
    device, items = plates.y.device, plates.problem.items
    table, amounts = _Table.of(plates), torch.zeros(len(plates) * CHAINS, items, dtype=torch.float64, device=device)
    steps = _steps(plates, table, candidates)
    weights = torch.logspace(math.log10(FIRST_WEIGHT), math.log10(LAST_WEIGHT), COOLING, dtype=torch.float64).tolist()
    for weight in [*weights, *[LAST_WEIGHT] * COLD]:
        uniform = torch.rand(CHAINS, items, 1 + len(plates.grid[0]), device=device, generator=generator)
        noise = -(-uniform.log()).log()  # Gumbel's: where law and noise together are highest, is a draw from the law
        for step in steps:
            step.draw(amounts, table, weight, noise)
    return _sets(torch.arange(len(plates), device=device).repeat_interleave(CHAINS), amounts)


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


@dataclass(frozen=True, eq=False)
class _Table:
    """The log likelihoods of all reports at the nodes, none of them hopeless: good enough for starts, and fast.

    The first node of each report has the value of a total of zero, as no positive total is that small. The last curve
    is zero: it stands for pools that an item does not have.
    """

    values: Float64[Tensor, " numbers"]  # of (curves + 1, nodes)
    levels: Float64[Tensor, " levels"]  # the amounts that an item may have: zero, and those of the grid
    nodes: int
    scale: float  # nodes for each decade
    shift: float  # what is added to get the nearest node

    @classmethod
    def of(cls, plates: Plates) -> "_Table":
        """Copy the tables of a batch."""
        curves, zero = plates.reports.curves, plates.reports.zero.view(-1)
        values = curves.values.clone()
        values[:, 0] = zero
        values = values.maximum(values.amax(1, keepdim=True) - DEEPEST)
        levels = torch.nn.functional.pad(10.0 ** plates.grid[0], (1, 0))
        numbers = torch.nn.functional.pad(values, (0, 0, 0, 1)).view(-1)
        return cls(numbers, levels, values.shape[1], 1 / curves.step, 0.5 - curves.low / curves.step)

    def at(self, first: Tensor, totals: Tensor) -> Tensor:
        """The log likelihood of totals by the curve whose first number is given."""
        place = totals.log10().mul_(self.scale).add_(self.shift).clamp_(0, self.nodes - 1)
        return self.values[place.to(torch.int64).add_(first)]


@dataclass(frozen=True, eq=False)
class _Step:
    """What it takes to draw the items of one class anew, for all chains of all instances: pairs of chain and item."""

    others: Float64[Tensor, "items pools"]  # the design without the class
    pools: Int64[Tensor, "pairs weight"]  # where totals of the pair's pools are, among all chains' totals
    first: Int64[Tensor, "pairs weight 1"]  # the first number of their curves in the table
    prior: Float64[Tensor, "pairs levels"]
    noise: Int64[Tensor, " pairs"]  # where the pair's noise is, among the noises of `CHAINS` chains and all items
    place: Int64[Tensor, " pairs"]  # where the pair's amount is, among all chains' amounts

    def draw(self, amounts: Tensor, table: _Table, weight: float, noise: Tensor) -> None:
        """Draw the items of the class anew, in place."""
        totals = (amounts @ self.others).view(-1)[self.pools]  # (pairs, weight)
        law = table.at(self.first, totals[..., None] + table.levels).sum(1)
        law = torch.add(self.prior, law, alpha=weight) + noise.view(-1, noise.shape[2])[self.noise]
        amounts.view(-1)[self.place] = table.levels[law.argmax(1)]


def _steps(plates: Plates, table: _Table, candidates: Tensor) -> list[_Step]:
    """The steps of one sweep: a class of candidates each."""
    device, items, number = plates.y.device, plates.problem.items, plates.y.shape[1]
    may_be = torch.zeros(len(plates), items + 1, dtype=torch.bool, device=device)
    may_be = may_be.scatter(1, candidates.where(candidates != NONE, items), True)[:, :items]
    classes = disjoint(plates)
    order = torch.cat(classes).to(device)
    row, column = may_be.repeat_interleave(CHAINS, 0)[:, order].T.nonzero(as_tuple=True)[::-1]
    item = order[column]
    starts = torch.tensor([len(part) for part in classes]).cumsum(0).to(device)
    sizes = torch.searchsorted(column, starts).diff(prepend=starts.new_zeros(1)).tolist()
    pools, mine = plates.pools_of
    curve = (row // CHAINS * number)[:, None] + pools[item]
    first = curve.where(mine[item], len(plates) * number)[..., None] * table.nodes
    odds = torch.logit(plates.loads.statuses().marginals(items), eps=1e-12).to(device)
    prior = torch.cat([-odds[item, None], plates.grid[1].expand(len(item), -1)], 1)
    parts = (
        row[:, None] * number + pools[item],
        first,
        prior,
        row % CHAINS * items + item,
        row * items + item,
    )
    others = [plates.members[:-1].index_fill(0, part.to(device), 0.0) for part in classes]
    split = zip(others, *(part.split(sizes) for part in parts), strict=True)
    return [_Step(*each) for each, size in zip(split, sizes, strict=True) if size]


def _sets(owner: Tensor, amounts: Float64[Tensor, "chains items"]) -> PositiveSets:
    """The positive items of each chain, with their loads."""
    most = max(1, int((amounts > 0).sum(1).max()))
    found, items = amounts.topk(most, 1)
    inside = found > 0
    return PositiveSets(owner, torch.where(inside, items, NONE), torch.where(inside, found, 1.0).log10())
