"""What tells right answers from wrong ones, for decoders that only score items, and how it becomes a probability."""

from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from qgt.decoders.results import Decoded, Status
from qgt.model.problem import Problem
from qgt.trust.reference import misfit
from qgt.trust.regression import Logistic, Monotone

FAR = 60.0  # a misfit beyond which all are alike


@dataclass(frozen=True, eq=False)
class Scoring:
    """The share of right answers among those that look alike."""

    weigh: Logistic
    read: Monotone

    @classmethod
    def learn(cls, given: Tensor, right: Tensor) -> "Scoring":
        """From simulated answers."""
        weigh = Logistic.fit(given, right)
        return cls(weigh, Monotone.fit(weigh(given), right))

    def __call__(self, given: Float64[Tensor, "instances features"]) -> Float64[Tensor, " instances"]:
        """The chance that each answer is right."""
        return self.read(self.weigh(given))


def features(problem: Problem, y: Tensor, result: Decoded) -> Float64[Tensor, "instances features"]:
    """What tells right answers from wrong ones: misfit, unusual calls, doubtful scores, an iteration that failed."""
    off = misfit(problem, y.cpu(), result.x.cpu())
    noise, prior = off.noise.clamp(max=FAR), off.prior.clamp(max=1e6)
    settled = (result.status.cpu() <= Status.PROVED).double()
    doubt, margin = torch.zeros_like(noise), torch.zeros_like(noise)
    if result.scores is not None:
        scores, calls = result.scores.cpu(), result.x.cpu() == 1
        near = scores.clamp(1e-9, 1 - 1e-9)
        doubt = torch.maximum(near, 1 - near).log().sum(1).clamp(min=-FAR)
        lowest = torch.where(calls, scores, torch.inf).amin(1)
        highest = torch.where(calls, -torch.inf, scores).amax(1)
        margin = (lowest - highest).clamp(-10.0, 10.0)
    return torch.stack([noise, noise.square() / FAR, prior, doubt, (-doubt).sqrt(), margin, settled], 1)
