"""What is known of one instance, as answers with weights: the form that the choice of pools works on.

Where a decoder listed every answer that comes close, those are they, with their exact weights; and likewise where it
proved the best one and listed others. Where it did neither, they are samples from the posterior (`sampling`). Pools are
only *chosen* by them: a poor sample costs tests, and never makes an answer look surer than it is.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float64, UInt8
from torch import Generator, Tensor

from qgt.decoders.results import Decoded, Status
from qgt.model.problem import Problem
from qgt.rounds.sampling import sample_posterior

MOST = 192  # answers that a choice looks at: more tell little, and take time


@dataclass(frozen=True, eq=False)
class Posterior:
    """Answers to one instance with weights that sum to 1.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1, 0, 0], [0, 1, 0]], dtype=torch.uint8)
        >>> known = Posterior(x, torch.tensor([0.5, 0.5], dtype=torch.float64))
        >>> known.entropy, known.open_items
        (1.0, tensor([ True,  True, False]))
    """

    x: UInt8[Tensor, "answers items"]
    weight: Float64[Tensor, " answers"]

    @property
    def entropy(self) -> float:
        """How many bits of doubt there are."""
        return max(0.0, -float(torch.xlogy(self.weight, self.weight).sum()) / math.log(2))

    @property
    def open_items(self) -> Bool[Tensor, " items"]:
        """Items on which the answers differ: all others say nothing in a pool."""
        return (self.x != self.x[0]).any(0)

    def at_most(self, number: int, *, generator: Generator) -> "Posterior":
        """The same in so many answers: the likeliest half of them stay, and the others are drawn by their weight."""
        if len(self.weight) <= number:
            return self
        order = self.weight.argsort(descending=True)
        kept, rest = order[: number // 2], order[number // 2 :]
        left = number - len(kept)
        drawn = rest[torch.multinomial(self.weight[rest], left, replacement=True, generator=generator)]
        share = torch.full((left,), float(self.weight[rest].sum()) / left, dtype=torch.float64)
        return Posterior(self.x[torch.cat([kept, drawn])], torch.cat([self.weight[kept], share]))


def posterior_of(
    problem: Problem, y: Float64[Tensor, " pools"], result: Decoded, instance: int, *, generator: Generator
) -> Posterior:
    """What is known of one instance: the answers listed, or samples where the list may lack the best.

    Args:
        problem: What was decoded.
        y: The instance's counts.
        result: What a decoder returned for a batch that holds the instance.
        instance: Its place there.
        generator: For samples.
    """
    answers, complete = result.evidence.alternatives, result.evidence.complete
    listed = None if answers is None else answers.of_instance(instance)
    whole = complete is not None and bool(complete[instance])
    proved = int(result.status[instance]) == Status.PROVED
    if listed is not None and len(listed.x) and (whole or (proved and len(listed.x) > 1)):
        weight = listed.log_joint.softmax(0)  # probabilities may leave room for what is not listed, up to all of it
        return Posterior(listed.x.cpu(), weight.cpu()).at_most(MOST, generator=generator)
    start = result.x[instance][None] if listed is None or not len(listed.x) else listed.x
    x = sample_posterior(problem, y, start.cpu(), generator=generator)
    same, number = x.unique(dim=0, return_counts=True)
    return Posterior(same, number.double() / len(x)).at_most(MOST, generator=generator)
