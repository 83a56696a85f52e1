"""The chance that the truth is not among the answers listed, learned on simulated instances.

It depends on how many answers are listed and how they share the weight, and it is small: to see whether a truth is
listed or not tells little, and many simulations would be needed. So some of the simulated instances are decoded with
longer odds. Their lists hold nearly all weight there is, and what they hold beyond the shorter odds is the chance that
was looked for, instance by instance, instead of a yes or a no. Where the longer list misses the truth too, it is 1.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from qgt.decoders.results import Answers, Decoded, Evidence, Spans, Status
from qgt.trust.regression import Logistic

ENOUGH = 30  # simulated instances of a kind, below which only their share is used
FAR = 20.0  # nats: a gap beyond which all are alike
USUAL = 0.005  # the chance for a complete list, before anything is simulated


@dataclass(frozen=True, eq=False)
class Wider:
    """Simulated instances with complete lists of longer odds: the shapes of their shorter lists, and the chances."""

    shape: Float64[Tensor, "n features"]
    unlisted: Float64[Tensor, " n"]

    @classmethod
    def of(cls, x: Tensor, wide: Decoded, odds: float) -> "Wider":
        """From simulated truths and results of longer odds."""
        answers, complete = wide.evidence.alternatives, wide.evidence.complete
        assert answers is not None and complete is not None
        owner = answers.spans.owner
        best = torch.full((len(x),), -torch.inf, dtype=torch.float64)
        best = best.scatter_reduce(0, owner, answers.log_joint, "amax")
        near = answers.log_joint > best[owner] - torch.tensor(odds, dtype=torch.float64).log()
        inside = torch.zeros(len(x), dtype=torch.float64).index_add_(0, owner, answers.probability * near)
        found = _found(x, answers)
        unlisted = torch.where(found, 1 - inside, 1.0).clamp(0.0, 1.0)
        rows, order = Spans.of(owner[near], len(x))
        shorter = Answers(
            rows,
            answers.x[near][order],
            answers.log_joint[near][order],
            (answers.probability / inside.clamp(min=1e-300)[owner])[near][order],
        )
        result = replace(wide, evidence=replace(wide.evidence, alternatives=shorter))
        return cls(_shape(result)[complete], unlisted[complete])


@dataclass(frozen=True, eq=False)
class Listing:
    """The chance that the truth is not among the answers listed, where the list is complete and where it is not."""

    complete: Logistic
    incomplete: Logistic

    @classmethod
    def learn(cls, x: Tensor, result: Decoded, wider: Wider | None = None) -> "Listing":
        """From simulated truths and results, and from others of longer odds."""
        answers, complete = result.evidence.alternatives, result.evidence.complete
        assert answers is not None and complete is not None  # as the caller saw
        unlisted, shape = (~_found(x, answers)).double(), _shape(result)
        chance, known = unlisted[complete], shape[complete]
        if wider is not None and len(wider.unlisted) >= ENOUGH:  # a chance tells far more than a yes or a no
            chance, known = wider.unlisted, wider.shape
        return cls(
            _fitted(known, chance, usual=USUAL),
            _fitted(shape[~complete], unlisted[~complete], usual=0.5),
        )

    def applied(self, result: Decoded, sound: Float64[Tensor, " instances"]) -> Evidence:
        """Evidence in which the answers listed leave room for those that are not, and for counts that are not sound."""
        evidence, answers = result.evidence, result.evidence.alternatives
        assert answers is not None and evidence.complete is not None
        shape = _shape(result).cpu()
        chance = torch.where(evidence.complete.cpu(), self.complete(shape), self.incomplete(shape)).to(result.x.device)
        room = (1 - chance) * sound
        probability = answers.probability * room[answers.spans.owner]
        return replace(
            evidence,
            confidence=_weight(result) * room,
            alternatives=Answers(answers.spans, answers.x, answers.log_joint, probability),
        )


def _fitted(shape: Tensor, chance: Tensor, *, usual: float) -> Logistic:
    # Too few to learn from: their share alone.
    return Logistic.fit(shape if len(shape) >= ENOUGH else torch.zeros_like(shape), chance, usual=usual)


def _found(x: Tensor, answers: Answers) -> Bool[Tensor, " instances"]:
    """Which truths are listed."""
    owner = answers.spans.owner
    same = (answers.x == x[owner]).all(1).long()
    return torch.zeros(len(x), dtype=torch.int64).index_add_(0, owner, same) > 0


def _weight(result: Decoded) -> Float64[Tensor, " instances"]:
    """The answers' weight among those listed; 0 where none is."""
    answers = result.evidence.alternatives
    assert answers is not None
    first = answers.spans.ends - answers.spans.numbers
    some = answers.spans.numbers > 0
    weight = torch.zeros(len(some), dtype=torch.float64, device=some.device)
    weight[some] = answers.probability[first[some]]
    return weight


def _shape(result: Decoded) -> Float64[Tensor, "instances features"]:
    """How many answers are listed, how they share the weight, and how far the search got."""
    answers, gap = result.evidence.alternatives, result.evidence.gap
    assert answers is not None
    weight = _weight(result).clamp(1e-6, 1 - 1e-6)
    proved = (result.status == Status.PROVED).double()
    far = torch.zeros_like(weight) if gap is None else gap.clamp(max=FAR)
    return torch.stack([torch.logit(weight), answers.spans.numbers.clamp(min=1).double().log(), proved, far], 1)
