"""What a network reads and what it answers: counts and scores; values; or, for loads, scaled totals and two heads.

Where items are 0 or 1, a network reads the counts as they are and answers one score for each item.

Where items have copies or categories, a network reads the reports of their parts (`qgt.model.categories`) and answers
one score for each part. The values of an item have one softmax:

    P(category g) ~ exp(score of part g),            P(first category) ~ 1
    P(l copies) ~ exp(sum of the scores of parts 1, ..., l),        P(no copies) ~ 1

so that a score is the log odds of a category against the first one, or of l copies against l - 1. An item is called 0
unless the log odds of its most probable other value against 0 reach the threshold. The threshold is tuned for whole
instances, as it is for items that are 0 or 1; at 0 the most probable values are called.

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

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, UInt8
from torch import Tensor

from qgt.decoders.neural.network import Head, Sigmoid
from qgt.files import codec
from qgt.model.categories import Copies, PartsPrior
from qgt.model.loads import Loads, log_totals
from qgt.model.prior import Sampler
from qgt.model.problem import PARTS, Problem, Spec

LEAST_SHARE = 1e-4  # of a value, for the scores that training begins at
NOTHING = -2.0  # the scaled total where nothing was detected: below most amounts, in standard deviations of the prior
FARTHEST = 8.0  # where scaled totals are cut off: reports so many standard deviations from the mean are faults


@dataclass(frozen=True)
class Softmax:
    """One probability for each value of an item: the head of networks for copies and categories.

    Scores have the order of the parts: those of all items for value 1 first, then those for value 2, and so on.

    Example:
        >>> import torch
        >>> head, scores = Softmax(levels=2, ordered=False), torch.tensor([[0.0, 2.0, 0.0, 3.0]])  # two items
        >>> head.shares(head.marginals(scores))[0].T  # of each item, the probability of each category
        tensor([[0.3333, 0.3333, 0.3333],
                [0.0351, 0.2595, 0.7054]])
        >>> head.calls(scores).int()  # category 1 of the first item, 2 of the second
        tensor([[1, 0, 0, 1]], dtype=torch.int32)
        >>> head.calls(scores, threshold=1.0).int()
        tensor([[0, 0, 0, 1]], dtype=torch.int32)
    """

    levels: int
    ordered: bool  # whether part l is 1 from l copies on; otherwise it is 1 in category l

    def log_probabilities(self, logits: Float[Tensor, "*rows parts"]) -> Float[Tensor, "*rows values items"]:
        """The log probability of each value of each item."""
        return self._pulls(logits).log_softmax(-2)

    def marginals(self, logits: Float[Tensor, "*rows parts"]) -> Float[Tensor, "*rows parts"]:
        """The probability that each part is 1."""
        each = self.log_probabilities(logits).exp()[..., 1:, :]
        return (each.flip(-2).cumsum(-2).flip(-2).clamp(max=1.0) if self.ordered else each).flatten(-2)

    def shares(self, marginals: Float[Tensor, "*rows parts"]) -> Float[Tensor, "*rows values items"]:
        """The probability of each value, from those of the parts: the other way round."""
        each = self._by_value(marginals)
        if not self.ordered:
            return torch.cat([(1 - each.sum(-2, keepdim=True)).clamp(min=0.0), each], -2)
        edge = torch.ones_like(each[..., :1, :])
        return (torch.cat([edge, each], -2) - torch.cat([each, 0 * edge], -2)).clamp(min=0.0)

    def logits(self, marginals: Float[Tensor, "*rows parts"]) -> Float[Tensor, "*rows parts"]:
        """The scores that these probabilities of parts belong to, none of a value being below 1e-4."""
        logs = self.shares(marginals).clamp(min=LEAST_SHARE).log()
        return (logs[..., 1:, :] - (logs[..., :-1, :] if self.ordered else logs[..., :1, :])).flatten(-2)

    def best(self, logits: Float[Tensor, "*rows parts"]) -> tuple[Tensor, Tensor]:
        """The most probable value but 0 of each item, and its log odds against 0: (..., items) each."""
        odds, value = self._pulls(logits)[..., 1:, :].max(-2)
        return value + 1, odds

    def values(self, logits: Float[Tensor, "*rows parts"], threshold: float = 0.0) -> UInt8[Tensor, "*rows items"]:
        """The values that are called."""
        value, odds = self.best(logits)
        return torch.where(odds >= threshold, value, 0).to(torch.uint8)

    def calls(self, logits: Float[Tensor, "*rows parts"], threshold: float = 0.0) -> Bool[Tensor, "*rows parts"]:
        """The parts of the values that are called."""
        value = self.values(logits, threshold)[..., None, :]
        level = torch.arange(1, self.levels + 1, device=logits.device)[:, None]
        return (value >= level if self.ordered else value == level).flatten(-2)

    def doubt(self, logits: Float[Tensor, "*rows parts"]) -> Float[Tensor, "*rows"]:
        """The sum over items of -log of the probability of the most probable value."""
        return -self.log_probabilities(logits).amax(-2).sum(-1)

    def cross_entropy(
        self, logits: Float[Tensor, "models instances parts"], x: Float[Tensor, "models instances parts"]
    ) -> Float[Tensor, " models"]:
        """The log loss of the values whose parts x has, summed over items and averaged over instances.

        Example:
            >>> import torch
            >>> one = torch.tensor([[[1.0, 0.0]]])  # an item in category 1 of two
            >>> Softmax(levels=2, ordered=False).cross_entropy(torch.zeros(1, 1, 2), one)  # log 3
            tensor([1.0986])
        """
        return -(self.shares(x) * self.log_probabilities(logits)).sum((1, 2, 3)) / x.shape[1]

    def _by_value(self, parts: Tensor) -> Tensor:
        each: Tensor = parts.unflatten(-1, (self.levels, parts.shape[-1] // self.levels))  # (..., levels, items)
        return each

    def _pulls(self, logits: Tensor) -> Tensor:
        """What the softmax of each item is over, 0 for its value 0."""
        each = self._by_value(logits)
        each = each.cumsum(-2) if self.ordered else each
        return torch.cat([torch.zeros_like(each[..., :1, :]), each], -2)


def head_for(prior: Sampler) -> Head:
    """How networks for items of this prior answer: a softmax over the values of which it has parts.

    Example:
        >>> from qgt.model.categories import Categories
        >>> head_for(PartsPrior(Categories((0.1, 0.1))))
        Softmax(levels=2, ordered=False)
    """
    if not isinstance(prior, PartsPrior):
        return Sigmoid()
    return Softmax(prior.values.levels, isinstance(prior.values, Copies))


def stored_head(spec: Spec, name: str) -> Head:
    """The head of that name, for the problem that a model file's spec describes.

    Files without one are of networks with a sigmoid for each item, or of older networks with one for each part.
    """
    if name == "sigmoid":
        return Sigmoid()
    head = head_for(codec.decode("prior", spec["prior"], Sampler, PARTS))
    if name != "softmax" or not isinstance(head, Softmax):
        raise ValueError(f"head={name!r} is not valid: networks of copies and categories have softmax, others sigmoid")
    return head


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
