"""The factor graph of a problem, laid out for sweeps: which items each factor has, in steps of many factors at once.

Factors are the groups of the prior, the number of all defectives where the prior has a table of it, and the pools. A
step holds factors of about one size, whose items lie in a rectangle (slots, factors); a factor with fewer items than
slots is filled up with an item that is never defective.

In a large design pools are dealt out to the steps like cards. The next step sees what the last one said, and that is
what makes the sweeps settle: were all pools to speak at once, all items would go up together where too many counts are
high, and down together after it, further every time. In a small design, with its short cycles, those who speak first
would be believed too soon, and the answer would depend on the order of the pools: there all speak at once, and only a
part of each new message is taken.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from qgt.model.design import Design
from qgt.model.factors import Factors
from qgt.model.lists import Lists, starts_of
from qgt.model.prior import ALONE, FREE, Groups

LAYERS = 8  # steps that pools of one size are dealt out to: with 4, sweeps swing near the threshold; 16 are as good
FEW_POOLS = 128  # pools up to which all speak at once
MOST_TOTAL = 256  # items up to which the number of all defectives is a factor like others; see `level`
KNOWN = 1e4  # log odds of an item that the prior settles


class Step(NamedTuple):
    """Factors that speak at once."""

    items: Tensor  # (slots, factors): the item in each slot, or the number of items where there is none
    sizes: Tensor  # (factors,)
    factors: Tensor  # (factors,): their numbers among all

    def to(self, device: torch.device) -> "Step":
        """The same on another device."""
        return Step(self.items.to(device), self.sizes.to(device), self.factors.to(device))


@dataclass(frozen=True, eq=False)
class Likelihoods:
    """The likelihoods of a batch: one table for every kind of factor, and which kind each factor of an instance is."""

    likelihood: Tensor  # (counts, kinds)
    which: Tensor  # (factors, instances)
    levels: int = 1  # what an item adds to a count at most

    def of(self, step: Step) -> Tensor:
        """The tables of a step's factors: (counts, factors * instances)."""
        which = self.which[step.factors]  # (factors, instances)
        slots, number = step.items.shape
        tables = self.likelihood[: self.levels * slots + 1].index_select(1, which.flatten())
        most = self.levels * step.sizes
        if number and int(most.min()) < len(tables) - 1:
            counts = torch.arange(len(tables), device=tables.device)
            beyond = counts[:, None] > most  # (counts, factors)
            tables = tables.view(len(tables), number, -1).masked_fill(beyond[:, :, None], 0.0).flatten(1)
        return tables

    def pick(self, instances: Tensor) -> "Likelihoods":
        """Those of some instances."""
        return Likelihoods(self.likelihood, self.which[:, instances], self.levels)


@dataclass(frozen=True, eq=False)
class Graph:
    """All factors as one design (pools first, then groups, then the number of all defectives), and a sweep's steps."""

    design: Design
    steps: Sequence[Step]
    at_once: bool  # whether all pools of a size speak at once

    @classmethod
    def of(cls, factors: Factors) -> "Graph":
        """What the prior says comes first in a sweep, then the pools."""
        design, groups = factors.design, factors.items.groups
        parts, steps = [design.lists], []
        if groups is not None:
            inside = (groups.group != ALONE).nonzero()[:, 0]
            owner, order = groups.group[inside].sort(stable=True)
            parts.append(Lists.of_pairs(owner, inside[order], lists=len(groups.tables), bound=design.items))
            steps += _steps(parts[-1], design.pools, layers=1)
        if factors.items.total is not None:
            everyone = torch.arange(design.items)
            parts.append(Lists.of_pairs(torch.zeros_like(everyone), everyone, lists=1, bound=design.items))
            if design.items <= MOST_TOTAL:
                steps += _steps(parts[-1], sum(map(len, parts[:-1])), layers=1)
        sizes = torch.cat([part.sizes for part in parts])
        lists = Lists(design.items, starts_of(sizes), torch.cat([part.entries for part in parts]))
        at_once = design.pools <= FEW_POOLS
        return cls(Design(lists), [*steps, *_steps(design.lists, 0, layers=1 if at_once else LAYERS)], at_once)

    def to(self, device: torch.device) -> "Graph":
        """The same, its steps on another device."""
        return Graph(self.design, [step.to(device) for step in self.steps], self.at_once)


@dataclass(frozen=True, eq=False)
class FactorCosts:
    """The tables of all factors of a batch, in the order of the graph: pools, groups, number of all defectives."""

    tables: Tensor  # (kinds, counts), infinite where impossible
    which: Tensor  # (factors, instances)

    @classmethod
    def of(cls, factors: Factors) -> "FactorCosts":
        """Those of the pools are each instance's own, the others all instances'."""
        kinds, which = [factors.pools.tables], [factors.pools.which.T]
        device, instances = which[0].device, which[0].shape[1]
        groups, total = factors.items.groups, factors.items.total
        for tables in (None if groups is None else symmetric(groups), None if total is None else total[None]):
            if tables is not None:
                numbers = sum(map(len, kinds)) + torch.arange(len(tables), device=device)
                kinds.append(tables.to(device))
                which.append(numbers[:, None].expand(-1, instances))
        width = max(tables.shape[1] for tables in kinds)
        padded = [F.pad(tables, (0, width - tables.shape[1]), value=torch.inf) for tables in kinds]
        return cls(torch.cat(padded), torch.cat(which))

    def likelihoods(self, levels: int = 1) -> Likelihoods:
        """The same as probabilities, each table over its largest."""
        least = self.tables.amin(1, keepdim=True).nan_to_num(posinf=0.0)
        likelihood = (least - self.tables).exp().T  # (counts, kinds)
        possible = (likelihood > 0).any(1).nonzero()
        last = int(possible.max()) + 1 if len(possible) else 1
        return Likelihoods(likelihood[:last].contiguous(), self.which, levels)


def symmetric(groups: Groups) -> Tensor:
    """The tables of groups for items that are defective in any order: (groups, numbers).

    In an ordered group of equal items, only one x has a given number of defectives. Messages ignore the order, so the
    probability of that x is divided equally among all sets with the same number of items.
    """
    if not groups.ordered:
        return groups.tables
    number = torch.arange(groups.tables.shape[1], dtype=torch.float64, device=groups.tables.device)
    size = groups.sizes.to(torch.float64)[:, None]
    sets = torch.lgamma(size + 1) - torch.lgamma(number + 1) - torch.lgamma((size - number).clamp(min=0) + 1)
    return groups.tables + sets


def prior_odds(factors: Factors) -> Tensor:
    """The log odds that the prior gives each item by itself: (items,)."""
    known = factors.items.known
    sure = torch.where(known == 1, KNOWN, -KNOWN).to(torch.float64)
    return torch.where(known == FREE, -factors.items.weights, sure)


def _steps(lists: Lists, first: int, *, layers: int) -> list[Step]:
    """Factors of about one size together, dealt out to so many steps; sizes in turn, so that no step waits for all."""
    rooms = _room(lists.sizes)
    if layers == 1 and len(lists) <= FEW_POOLS:  # calls take the time, not empty slots
        rooms = rooms.amax().expand_as(rooms)
    dealt: list[list[Step]] = [[] for _ in range(layers)]
    for room in rooms.unique().tolist():
        members = (rooms == room).nonzero()[:, 0] if room else lists.sizes[:0]
        for layer in range(min(layers, len(members))):
            mine = members[layer::layers]
            dealt[layer].append(_step(lists, mine, int(lists.sizes[mine].max()), first))
    return [step for layer in dealt for step in layer]


def _room(sizes: Tensor) -> Tensor:
    """The least 2^k or 3 * 2^k that is at least each size: so few rooms that each holds many, none half empty."""
    powers = torch.tensor([0, 1, 2, *(base << k for k in range(40) for base in (3, 4))])
    return powers[torch.searchsorted(powers, sizes)]


def _step(lists: Lists, members: Tensor, slots: int, first: int) -> Step:
    sizes = lists.sizes[members]
    place = torch.arange(slots)[:, None]
    at = (lists.starts[members] + place).clamp(max=max(len(lists.entries) - 1, 0))
    items = torch.where(place < sizes, lists.entries[at], lists.bound)  # (slots, factors)
    return Step(items.contiguous(), sizes, members + first)
