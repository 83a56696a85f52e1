"""The part of the bound that belongs to the items: the cheapest x of a node, by reduced costs alone.

Without groups that is one sort: the free defectives are those of least reduced cost. With groups see `members`.
"""

import torch
from torch import Tensor

from qgt.decoders.certified.costs import Model
from qgt.decoders.certified.members import group_minima, group_minimum, group_swaps
from qgt.model.prior import FREE


def least_items(model: Model, fixed: Tensor, reduced: Tensor) -> Tensor:
    """The least that the items of a node cost, with any number of defectives: (nodes,)."""
    if model.members is None:
        return torch.where(fixed == FREE, reduced.clamp(max=0.0), reduced * fixed).sum(1)
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
    free, ones = fixed == FREE, fixed == 1
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
    """Where each item stands in each row's order."""
    positions = torch.arange(order.shape[1], device=order.device).expand_as(order)
    return torch.empty_like(order).scatter_(1, order, positions)
