"""Costs on a grid, where x with k defectives can have few.

Where all items weigh the same and a count costs one of two values, an x with k defectives costs one of

    constant + w k + v_0 (pools - s) + v_1 s,        s = 0, 1, ... pools that are off,

so a bound above the last of these below the limit is as good as one at the limit.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from qgt.decoders.certified.costs import Model, Tables
from qgt.model.prior import FREE

# Costs that differ by less are equal: a factor of 1.000001 in probability. The checker's CLOSE must be larger: it is
# 2e-6, so that a bound that reaches a limit here still reaches it there after it was rounded down.
CLOSE = 1e-6


class Levels(NamedTuple):
    """The costs that x with k defectives can have: base[k], base[k] + step, ..."""

    step: float
    base: Tensor  # (items + 1,)
    spare: int  # steps below the base, where whoever checks sees no reason why a cost could not lie there

    def below(self, limit: Tensor, total: Tensor) -> Tensor:
        """Just above the last cost that is less than the limit; -inf where none is."""
        base = self.base[total]
        steps = torch.ceil((limit - base) / self.step) - 1
        return torch.where(steps >= -self.spare, base + self.step * steps + CLOSE, -torch.inf)

    @classmethod
    def of(cls, model: Model, tables: Tables) -> "Levels | None":
        """None where items or counts have more different costs."""
        table = tables.costs
        weights, values = model.weights[model.known == FREE].unique(), table[table.isfinite()].unique()
        if len(weights) != 1 or len(values) < 2 or model.groups is not None:
            return None
        low, high = values[0], values[-1]
        between = torch.minimum(values - low, high - values).amax()
        if float(between) > 1e-12 or float(high - low) < 1e-3:
            return None
        free = torch.arange(len(model.known) + 1, device=table.device) - int((model.known == 1).sum())
        base = model.constant + weights * free + tables.which.shape[1] * low + model.numbers
        return cls(float(high - low), base, model.dear)


def coarse(tables: Tensor, which: Tensor) -> Tensor:
    """Whether an instance has costs so large that float64 cannot tell them apart to CLOSE: (instances,), bool.

    What bounds say of such an instance means nothing: a Gaussian of sigma 1e-9 has costs of 1e17, whose last digit is
    worth 16 nats.
    """
    largest = torch.where(tables.isfinite(), tables.abs(), 0.0).amax(1)  # (kinds,)
    return (largest * torch.finfo(torch.float64).eps > CLOSE)[which].any(1)


def enough(levels: Levels | None, limit: Tensor, total: Tensor, items: int) -> Tensor:
    """The bound at which no x of a node, of any number of defectives if FREE, costs less than the limit: (nodes,)."""
    if levels is None:
        return limit
    found, free = levels.below(limit, total.clamp(min=0)), total == FREE
    if bool(free.any()):
        found[free] = enough_for_each(levels, limit[free], items + 1).amax(1)
    return found


def enough_for_each(levels: Levels | None, limit: Tensor, numbers: int) -> Tensor:
    """The same for 0, 1, ... defectives: (nodes, numbers)."""
    each = limit[:, None].expand(-1, numbers)
    return each if levels is None else levels.below(each, torch.arange(numbers, device=limit.device))
