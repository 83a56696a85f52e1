"""The probability that each item is defective, where perhaps no listed answer is right.

Either one of the answers listed is right, or none of them is:

    P(x_j = 1)  =  sum over listed answers a of P(a) a_j  +  P(none is right) q_j.

A decoder that lists nothing has one answer, with its confidence. q_j is the share of defective items among those with
such a score, in simulated instances of which no listed answer was right. Where simulations show too few such instances,
q_j is what the prior says before any count: nothing better is known.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from qgt.decoders.results import Decoded
from qgt.model.prior import Prior
from qgt.model.problem import Problem
from qgt.trust.regression import Monotone

ENOUGH_MISSED = 20  # simulated instances without a right answer, below which the prior is used
MOST_MISSED = 500  # of them, whose items are looked at: their shares are then known to a tenth of a per cent


@dataclass(frozen=True, eq=False)
class Missed:
    """How often an item is defective in instances of which no listed answer is right."""

    rate: Float64[Tensor, " items"]  # by the prior
    at: Float64[Tensor, " ends"]  # scores, see `Monotone`
    share: Float64[Tensor, " ends"]
    instances: Int64[Tensor, ""]  # simulated ones without a right answer

    @classmethod
    def learn(cls, problem: Problem, x: Tensor, result: Decoded, right: Tensor) -> "Missed":
        """From simulated truths and results; `right` are the instances with a right answer among those listed."""
        missed = (~right).nonzero().flatten()[:MOST_MISSED]
        read = Monotone.fit(_scores(result)[missed].flatten(), x[missed].flatten() == 1)
        return cls(_rate(problem, x), read.at, read.share, torch.tensor(len(missed)))

    def marginals(
        self, result: Decoded, known: Float64[Tensor, "instances items"], rest: Float64[Tensor, " instances"]
    ) -> Float64[Tensor, "instances items"]:
        """The probability that each item is defective.

        Args:
            result: What the decoder returned.
            known: The part of it that listed answers have.
            rest: The probability that no listed answer is right.
        """
        rate = self.rate.to(known.device)
        share = rate.expand_as(known)
        if int(self.instances) >= ENOUGH_MISSED:
            scores = _scores(result).cpu()
            share = Monotone(self.at, self.share)(scores.flatten()).view_as(scores).to(known.device)
            # Shares are means over all items; an item with a higher rate than most is missed more often.
            unusual = (rate / rate.mean().clamp(min=1e-300)).clamp(min=1.0)
            share = torch.where(result.x == 0, share * unusual, share)
        return (known + rest[:, None] * share).clamp(0.0, 1.0)


def prior_rates(problem: Problem) -> Float64[Tensor, " items"] | None:
    """How often each item is defective before any count; None for a prior that can only be simulated."""
    return problem.prior.marginals(problem.items) if isinstance(problem.prior, Prior) else None


def _rate(problem: Problem, x: Tensor) -> Float64[Tensor, " items"]:
    rates = prior_rates(problem)
    return rates if rates is not None else x.double().mean().expand(problem.items).contiguous()


def _scores(result: Decoded) -> Float64[Tensor, "instances items"]:
    return result.x.double() if result.scores is None else result.scores
