"""The chance that the truth is not among the answers listed, learned on simulated instances.

It depends on how many answers are listed and how they share the weight, and it is small: to see whether a truth is
listed or not tells little, and many simulations would be needed. So some of the simulated instances are decoded with
longer odds. Their lists hold nearly all weight there is, and what they hold beyond the shorter odds is the chance that
was looked for, instance by instance, instead of a yes or a no. Where the longer list misses the truth too, it is 1.

What is learned corrects a guess that each list makes for itself. Of n answers within odds R of the best, those near the
end have a weight of about 1/R, and beyond it there are as many more as the list grew near its end: if their number
grows like the odds to the power s, those not listed weigh n s / ((1 - s) R). So a few simulations are enough.
"""

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from qgt.decoders.results import Answers, Decoded, Evidence, Spans, Status
from qgt.trust.regression import Claims, Logistic

ENOUGH = 30  # simulated instances of a kind, below which only their share is used
FAR = 20.0  # nats: a gap beyond which all are alike
FASTEST = 0.6  # growth of lists: a longer list grows less than a short one, so a guess by its end is too high
UNLIKELY = 1e-6  # no guess is lower
CUT_SHORT = 0.1  # nor lower than this for a list that is not complete
KINDS = ("complete", "proved", "open")  # of lists
OPEN = 0.5  # nor than this where even the answer is not proved


@dataclass(frozen=True, eq=False)
class Wider:
    """Simulated instances with complete lists of longer odds: the shapes of their shorter lists, and the chances."""

    shape: Float64[Tensor, "n features"]
    guess: Float64[Tensor, " n"]  # logits
    unlisted: Float64[Tensor, " n"]
    weight: Float64[Tensor, " n"]  # of the answers among those of the shorter lists
    right: Bool[Tensor, " n"]

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
        found = found_among(x, answers)
        unlisted = torch.where(found, 1 - inside, 1.0).clamp(0.0, 1.0)
        rows, order = Spans.of(owner[near], len(x))
        shorter = Answers(
            rows,
            answers.x[near][order],
            answers.log_joint[near][order],
            (answers.probability / inside.clamp(min=1e-300)[owner])[near][order],
        )
        result = replace(wide, evidence=replace(wide.evidence, alternatives=shorter))
        whole = _shape(result), _guess(result, odds), unlisted, _weight(result), (wide.x == x).all(1)
        return cls(*(part[complete] for part in whole))


@dataclass(frozen=True, eq=False)
class Listing:
    """The chance that the truth is not among the answers listed, by how far the search got.

    An answer that is not proved is a world of its own: often a single x is listed then, with all of the weight, and
    most such x are wrong.
    """

    odds: float  # of the lists
    complete: Logistic  # for complete lists
    proved: Logistic  # where the answer is proved, and the list was cut short
    open: Logistic  # where not even the answer is proved

    @classmethod
    def learn(cls, x: Tensor, result: Decoded, odds: float, wider: Wider | None = None) -> "Listing":
        """From simulated truths and results, and from others of longer odds."""
        answers, complete = result.evidence.alternatives, result.evidence.complete
        assert answers is not None and complete is not None  # as the caller saw
        unlisted, shape, guess = (~found_among(x, answers)).double(), _shape(result), _guess(result, odds)
        proved, open_ = _cut_short(result)
        if wider is not None and len(wider.unlisted) >= ENOUGH:  # a chance tells far more than a yes or a no
            whole = _fitted(wider.shape, wider.unlisted, wider.guess)
        else:
            whole = _fitted(shape[complete], unlisted[complete], guess[complete])
        parts = [_fitted(shape[some], unlisted[some], guess[some]) for some in (proved, open_)]
        return cls(odds, whole, *parts)

    def claims(self, x: Tensor, result: Decoded, wider: Wider | None = None) -> Claims:
        """The simulated answers that this would call certain, and how many of them are wrong."""
        sure = self.applied(result, torch.ones(len(x), dtype=torch.float64), torch.ones(len(x), dtype=torch.bool))
        assert sure.confidence is not None and sure.complete is not None
        finished = sure.complete & (result.status == Status.PROVED)
        made = Claims.of(sure.confidence[finished], (result.x == x).all(1)[finished])
        if wider is None:
            return made
        return made + Claims.of(wider.weight * (1 - self.complete(wider.shape, wider.guess)), wider.right)

    def applied(
        self, result: Decoded, sound: Float64[Tensor, " instances"], whole: Bool[Tensor, " instances"]
    ) -> Evidence:
        """Evidence in which the answers listed leave room for those that are not, and for counts that are not sound.

        Args:
            result: What the decoder returned.
            sound: The probability that no count of an instance is wrong.
            whole: Which instances have all their counts, as the simulated ones had. Without some of them more answers
                come close than what was learned knows of, so no chance is below the list's own guess.
        """
        evidence, answers = result.evidence, result.evidence.alternatives
        assert answers is not None and evidence.complete is not None
        shape, guess, (proved, open_) = _shape(result).cpu(), _guess(result, self.odds).cpu(), _cut_short(result)
        chance = torch.where(proved.cpu(), self.proved(shape, guess), self.complete(shape, guess))
        chance = torch.where(open_.cpu(), self.open(shape, guess), chance)
        chance = torch.where(whole.cpu(), chance, torch.maximum(chance, guess.sigmoid()))
        room = (1 - chance.to(result.x.device)) * sound
        probability = answers.probability * room[answers.spans.owner]
        return replace(
            evidence,
            confidence=_weight(result) * room,
            alternatives=Answers(answers.spans, answers.x, answers.log_joint, probability),
        )


def _fitted(shape: Tensor, chance: Tensor, guess: Tensor) -> Logistic:
    # Too few to learn from: only how far the guesses are off altogether.
    return Logistic.fit(shape if len(shape) >= ENOUGH else torch.zeros_like(shape), chance, expected=guess)


def _cut_short(result: Decoded) -> tuple[Bool[Tensor, " instances"], Bool[Tensor, " instances"]]:
    """Which lists are not complete though the answer is proved, and which because not even that is."""
    complete, proved = result.evidence.complete, result.status == Status.PROVED
    assert complete is not None
    return ~complete & proved, ~complete & ~proved


def _guess(result: Decoded, odds: float) -> Float64[Tensor, " instances"]:
    """The logit of the weight that a list leaves to answers beyond its end, by how it grew in its second half."""
    answers, (proved, open_) = result.evidence.alternatives, _cut_short(result)
    assert answers is not None
    spans, reach = answers.spans, math.log(odds)
    zeros = torch.zeros(len(spans), dtype=torch.float64, device=answers.x.device)
    best = (zeros - torch.inf).scatter_reduce(0, spans.owner, answers.log_joint, "amax")
    behind = best[spans.owner] - answers.log_joint  # nats
    weight = zeros.index_add(0, spans.owner, (-behind).exp())
    near = zeros.index_add(0, spans.owner, (behind < reach / 2).double())
    grown = (((spans.numbers + 1) / (near + 0.5)).log() / (reach / 2)).clamp(max=FASTEST)
    beyond = spans.numbers * grown / (1 - grown) / odds / weight.clamp(min=1.0)
    least = torch.where(open_, OPEN, torch.where(proved, CUT_SHORT, UNLIKELY))
    return torch.maximum(beyond, least).log()  # odds of those beyond


def found_among(x: Tensor, answers: Answers) -> Bool[Tensor, " instances"]:
    """Which truths are listed."""
    owner = answers.spans.owner
    same = (answers.x == x[owner]).all(1).long()
    return torch.zeros(len(x), dtype=torch.int64).index_add_(0, owner, same) > 0


def weight_of_all(result: Decoded, odds: float) -> Float64[Tensor, " instances"]:
    """The answers' probability by lists that guess for themselves what they leave out; 0 where one is not complete.

    That guess is too rough for short lists. Of lists with long odds it is so small that it hardly matters.
    """
    complete = result.evidence.complete
    assert complete is not None
    return torch.where(complete, _weight(result) * (1 - _guess(result, odds).sigmoid()), 0.0)


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
