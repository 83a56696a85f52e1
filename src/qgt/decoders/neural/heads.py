"""What a network reads and what it answers: counts and scores, or, for loads, scaled totals and two heads.

Where items are 0 or 1, a network reads the counts as they are and answers one score for each item.

Where items have loads, reports span many factors of ten, or are cycles that have an infinity. So a network reads two
numbers for each pool, the *scaled total* and whether nothing was detected:

    total = (log10 of the total that the report suggests - m) / s,      NOTHING where nothing was detected
    nothing = 1 where nothing was detected, 0 otherwise

and answers two numbers for each item, the logit of its being positive (which) and its amount on the same scale:

    output = (log10 of the amount - m) / s

m and s are the mean and the standard deviation of the prior's log10 amounts. The noise gives the log10 of a total at a
report: `qgt.model.loads.log_totals`. A pool's two inputs are side by side, so that a stack can pad the pools that a
network lacks. The logits of all items come before the amounts of all items.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, UInt8
from torch import Tensor

from qgt.model.loads import Loads, log_totals
from qgt.model.problem import Problem, Spec

NOTHING = -2.0  # the scaled total where nothing was detected: below most amounts, in standard deviations of the prior
FARTHEST = 8.0  # where scaled totals are cut off: reports so many standard deviations from the mean are faults


def has_two_heads(spec: Spec) -> bool:
    """Whether the items of the problem that a spec describes have loads.

    Example:
        >>> has_two_heads({"design": {}, "prior": {"kind": "bernoulli", "rate": 0.1}, "noise": {}})
        False
    """
    return spec["prior"].get("kind") == "loads"


def inputs_of(problem: Problem) -> int:
    """How many numbers a network for the problem reads."""
    return problem.pools if problem.loads is None else 2 * problem.pools


class ScaledTotals(NamedTuple):
    """Reports of amounts on the scale of networks."""

    value: Float64[Tensor, "instances pools"]  # NaN where the report is missing
    detected: Bool[Tensor, "instances pools"]  # missing reports included


def scaled_totals(problem: Problem, loads: Loads, y: Float64[Tensor, "instances pools"]) -> ScaledTotals:
    """Read reports of amounts: the standardised log10 of the total that each suggests.

    Example:
        >>> import torch, qgt
        >>> loads = qgt.Loads(rate=0.1, mean=3.0, sd=2.0)
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), loads, qgt.CycleThreshold(sigma=0.25))
        >>> found = scaled_totals(problem, loads, torch.tensor([[37.0, torch.inf]], dtype=torch.float64))
        >>> found.value, found.detected
        (tensor([[-1.5000, -2.0000]], dtype=torch.float64), tensor([[ True, False]]))
    """
    mean, sd = loads.moments
    logs = log_totals(problem.noise, y, problem.design.pool_sizes.to(y.device, torch.float64))
    detected = logs != -torch.inf
    scaled = ((logs - mean) / sd).clamp(-FARTHEST, FARTHEST)
    return ScaledTotals(torch.where(detected, scaled, NOTHING), detected)


def network_inputs(problem: Problem, y: Float64[Tensor, "instances pools"]) -> Float64[Tensor, "instances inputs"]:
    """What a network reads: counts themselves; for loads each pool's scaled total, and whether it detected nothing.

    Example:
        >>> import torch, qgt
        >>> loads = qgt.Loads(rate=0.1, mean=3.0, sd=2.0)
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), loads, qgt.CycleThreshold(sigma=0.25))
        >>> network_inputs(problem, torch.tensor([[37.0, torch.inf]], dtype=torch.float64))
        tensor([[-1.5000,  0.0000, -2.0000,  1.0000]], dtype=torch.float64)
    """
    if problem.loads is None:
        return y
    value, detected = scaled_totals(problem, problem.loads, y)
    return torch.stack([value, (~detected).to(value.dtype)], dim=2).flatten(1)  # (instances, 2 pools)


def network_targets(
    problem: Problem, x: UInt8[Tensor, "instances items"] | Float64[Tensor, "instances items"]
) -> UInt8[Tensor, "instances items"] | Float[Tensor, "instances items"]:
    """What a network learns: statuses; for loads standardised log10 amounts, -inf for items that are not positive.

    Example:
        >>> import torch, qgt
        >>> loads = qgt.Loads(rate=0.1, mean=3.0, sd=2.0)
        >>> problem = qgt.Problem(qgt.Design.from_rows(["11"]), loads, qgt.CycleThreshold(sigma=0.25))
        >>> network_targets(problem, torch.tensor([[0.0, 1e5]], dtype=torch.float64))
        tensor([[-inf, 1.]])
    """
    if problem.loads is None:
        return x
    mean, sd = problem.loads.moments
    return ((x.log10() - mean) / sd).to(torch.float32)


def who(targets: Tensor) -> UInt8[Tensor, "*rows items"]:
    """The statuses in what a network learns."""
    return targets if targets.dtype == torch.uint8 else (targets > -torch.inf).to(torch.uint8)


def which_head(outputs: Float[Tensor, "*rows outputs"], items: int) -> Float[Tensor, "*rows items"]:
    """The score of each item."""
    return outputs[..., :items]


def amounts_head(outputs: Float[Tensor, "instances outputs"], loads: Loads) -> Float64[Tensor, "instances items"]:
    """The amount of each item if it is positive, kept within those that the prior has."""
    mean, sd = loads.moments
    logs = mean + sd * outputs[:, outputs.shape[1] // 2 :].to(torch.float64)
    amounts: Tensor = 10.0 ** logs.clamp(*loads.span)
    return amounts
