"""Repair: change calls that are impossible together, few items at a time, until every factor allows them.

Impossible counts get a finite price that falls towards the possible ones. Flipping item j then costs what its factors
charge for one defective more or fewer, which two products with the design give for all items at once. In a step those
items flip that gain most among all items they share a factor with: in a sparse design many at once, and never two
that count on the same factor.
"""

import torch
from torch import Tensor

from qgt.decoders.belief.graph import Costs, Graph
from qgt.model.prior import FREE, ItemCosts

STEPS = 200
GAIN = 1e-6  # a flip must save this much
WRONG, FAR = 30.0, 10.0  # the price of an impossible count over the dearest possible one, and of each count farther off
TIE = 1e-9  # between items of equal gain the first wins


def repaired(graph: Graph, costs: Costs, items: ItemCosts, x: Tensor, owner: Tensor) -> Tensor:
    """The calls x (rows, items) of the given instances, cheaper than before where single flips could make them so."""
    x, device = x.clone(), x.device
    soft = _soft(costs.tables)
    weights = items.weights.to(device) + TIE * torch.linspace(0, 1, x.shape[1], dtype=torch.float64, device=device)
    free = items.known.to(device) == FREE
    at = torch.arange(len(x), device=device)  # those that still get cheaper
    for _ in range(STEPS):
        if not len(at):
            break
        gain = torch.where(free, _gains(graph, soft, costs.which[:, owner[at]].T, weights, x[at]), torch.inf)
        flips = (gain < -GAIN) & (gain <= _best_around(graph, gain))
        x[at] ^= flips.to(torch.uint8)
        at = at[flips.any(1)]
    return x


def _soft(tables: Tensor) -> Tensor:
    """The costs with a finite price of every impossible count: (kinds, counts)."""
    possible = tables < torch.inf
    counts = torch.arange(tables.shape[1], dtype=tables.dtype, device=tables.device)
    below = torch.where(possible, counts, -torch.inf).cummax(1).values  # the nearest possible count
    above = torch.where(possible, counts, torch.inf).flip(1).cummin(1).values.flip(1)
    distance = torch.minimum(counts - below, above - counts).nan_to_num(posinf=0.0)
    dearest = torch.where(possible, tables, 0.0).amax(1, keepdim=True)
    return torch.where(possible, tables, dearest + WRONG + FAR * distance)


def _gains(graph: Graph, soft: Tensor, which: Tensor, weights: Tensor, x: Tensor) -> Tensor:
    """What flipping each item adds to the cost: (rows, items)."""
    counts, last = graph.design.count(x).to(torch.int64), soft.shape[1] - 1
    here, more, fewer = (soft[which, (counts + move).clamp(0, last)] for move in (0, 1, -1))  # (rows, factors)
    add, drop = graph.design.spread(more - here), graph.design.spread(fewer - here)  # (rows, items)
    return torch.where(x == 0, add + weights, drop - weights)


def _best_around(graph: Graph, gain: Tensor) -> Tensor:
    """The least gain among the items that share a factor with each item, itself included: (rows, items)."""
    lists = graph.design.lists
    owners, entries = lists.owners.to(gain.device), lists.entries.to(gain.device)
    best = gain.new_full((len(gain), len(lists)), torch.inf)
    best.scatter_reduce_(1, owners.expand(len(gain), -1), gain[:, entries], "amin")
    return gain.clone().scatter_reduce_(1, entries.expand(len(gain), -1), best[:, owners], "amin")
