"""Fine-tuning: the network for any design, trained on for one problem.

The weights begin where the pretrained ones are, and see new instances of the problem at every step. The rounds are
trained as they were before: cross entropy of every round, the later the more. At the end the better of the two sets of
weights by the loss on validation instances is kept, so that fine-tuning cannot make a network worse.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from qgt.arguments import positive, whole
from qgt.decoders.contract import refuse_unsupported
from qgt.decoders.neural.any_design import AnyDesign, MessageNetwork, shown
from qgt.model.problem import Instances, Problem

ROUNDS = 10  # that a step learns from
WARM_UP = 0.05  # of all steps
AVERAGE_KEPT = 0.99  # of the running average of the weights, at each step
VALIDATION = 4  # batches


def fine_tune(
    problem: Problem,
    start: AnyDesign,
    *,
    steps: int = 1500,
    batch: int = 256,
    learning_rate: float = 2e-4,
    generator: Generator,
    on_step: Callable[[int, float], None] | None = None,
) -> AnyDesign:
    """Train a network for any design on for one problem, on the generator's device.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> design = qgt.Design.column_regular(pools=16, items=60, weight=4, generator=g)
        >>> problem = qgt.Problem(design, qgt.Bernoulli(0.03))
        >>> tuned = fine_tune(problem, qgt.pretrained(), steps=2, batch=8, generator=g)
        >>> tuned.made["fine_tuned"]["steps"]
        2
    """
    steps, batch = whole("steps", steps, least=1), whole("batch", batch, least=1)
    learning_rate = positive("learning_rate", learning_rate)
    refuse_unsupported(start, problem)
    network = copy.deepcopy(start.network).to(generator.device).requires_grad_(True).train()
    average = {name: p.detach().clone() for name, p in network.named_parameters()}
    adam = torch.optim.Adam(network.parameters(), lr=learning_rate, betas=(0.9, 0.98))
    validation = problem.simulate(VALIDATION * batch, generator=generator)
    before = _validate(network, problem, validation.x, validation.y, batch)
    for step in range(steps):
        warm = min(1.0, (step + 1) / (WARM_UP * steps))
        adam.param_groups[0]["lr"] = learning_rate * warm * 0.5 * (1 + math.cos(math.pi * step / steps))
        loss = _step(network, problem, adam, problem.simulate(batch, generator=generator))
        with torch.no_grad():
            for name, p in network.named_parameters():
                average[name].lerp_(p, 1 - min(AVERAGE_KEPT, 1 - 1 / (step + 2)))
        if on_step is not None:
            on_step(step + 1, loss)
    network.load_state_dict(average)
    after = _validate(network, problem, validation.x, validation.y, batch)
    if not after < before:
        network.load_state_dict(start.network.state_dict())
    facts: dict[str, Any] = {"problem": problem.fingerprint, "steps": steps, "batch": batch, "before": before}
    made = {**start.made, "fine_tuned": {**facts, "after": after}}
    return replace(start, network=network.cpu().eval().requires_grad_(False), made=made)


def _step(network: MessageNetwork, problem: Problem, adam: torch.optim.Adam, batch: Instances) -> float:
    """One step of Adam on a batch; returns the loss before it."""
    loss = _loss(network, problem, batch.x, batch.y)
    adam.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    adam.step()
    return float(loss.detach())


def _loss(network: MessageNetwork, problem: Problem, x: Tensor, y: Tensor) -> Tensor:
    """Cross entropy of all rounds, the later the more."""
    target = x.to(torch.float32)
    total = torch.zeros((), device=y.device)
    for number, logits in enumerate(network.each(shown(problem, y), ROUNDS), 1):
        total = total + number / ROUNDS * F.binary_cross_entropy_with_logits(logits, target) / ROUNDS
    return total


@torch.no_grad()
def _validate(network: MessageNetwork, problem: Problem, x: Tensor, y: Tensor, batch: int) -> float:
    """The loss on instances that no step sees."""
    network.eval()
    parts = [_loss(network, problem, *part) * len(part[0]) for part in zip(x.split(batch), y.split(batch), strict=True)]
    network.train()
    return float(torch.stack(parts).sum()) / len(x)
