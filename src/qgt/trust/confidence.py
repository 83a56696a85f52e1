"""Confidence that means what it says: learned on simulated instances of the same problem.

A problem can be simulated, so whatever a decoder says of its answer can be turned into the share of such answers that
are right. Two ways, by what the decoder says:

*It lists the answers that come near* (`qgt.Certified`). Among those listed the weights are exact; what is not known is
the chance that the truth is not listed at all (`Listing`):

    confidence = weight among those listed  x  (1 - chance that the truth is not listed).

*It only scores items* (networks, AMP, GAMP). How badly calls and counts go together, how unusual the calls are, and
how far the scores are from doubt are put together by a logistic regression, and its score is read off against the share
of simulated answers that were right.

The same simulations tell how well honest instances fit their answers (`evidence.fit`).
"""

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float64, Int64, UInt8
from torch import Tensor

from qgt.arguments import positive, whole
from qgt.decoders.certified.decoder import Certified
from qgt.decoders.contract import Decode, Decoder, check_counts, refuse_unsupported
from qgt.decoders.loads.posterior import LoadPosterior
from qgt.decoders.results import Answers, Decoded, Evidence, Spans, Status
from qgt.model.loads import as_statuses
from qgt.model.prior import Prior
from qgt.model.problem import Counts, Problem
from qgt.trust import cache
from qgt.trust.diagnosis import USUAL_ODDS, second_look
from qgt.trust.fit import FEW_DECODED, Misfit, MisfitSums, Reference, fit_of, misfit

# Probabilities from features: a logistic regression, and the monotone step function nearest to what was seen.
#
# Both are small on purpose: they are fitted to a few thousand simulated instances in milliseconds.

RIDGE = 1.0  # how strongly weights are pulled to 0: one observation's worth
GUESS_RIDGE = 0.25  # the same of the bias where there are guesses: they may be off sevenfold
NEWTON_STEPS = 30
CERTAIN, NOT_CERTAIN = 0.99, 0.989  # the confidence from which an answer is called certain; one that is just below
RARELY = 0.05  # of simulations, in which so few certain answers are wrong though more than one in a hundred is
EQUAL = 1e9  # scores that agree to so many parts of 1 are equal


@dataclass(frozen=True, eq=False)
class Logistic:
    """P(yes) = sigmoid(expected + bias + weights . (features - centre) / scale).

    `expected` is the logit of a guess made before anything was observed; where there is none, it is 0.

    Example:
        >>> import torch
        >>> x = torch.linspace(-3, 3, 200, dtype=torch.float64)[:, None]
        >>> fitted = Logistic.fit(x, torch.rand(200, generator=torch.Generator().manual_seed(0)) < x[:, 0].sigmoid())
        >>> bool(fitted(x)[150] > fitted(x)[50])
        True
    """

    centre: Float64[Tensor, " features"]
    scale: Float64[Tensor, " features"]
    weights: Float64[Tensor, " features"]
    bias: Float64[Tensor, ""]

    @classmethod
    def fit(
        cls,
        features: Float64[Tensor, "n features"],
        yes: Bool[Tensor, " n"] | Float64[Tensor, " n"],
        *,
        expected: Float64[Tensor, " n"] | None = None,
    ) -> "Logistic":
        """By Newton's method. Weights are pulled to 0, and so is the bias: few observations change a guess little.

        Args:
            features: What is known of each observation.
            yes: Whether it is a yes; or the chance of it, where that is known.
            expected: The logit of a guess for each; without guesses, two observations of one half are added.
        """
        centre = features.mean(0) if len(features) else features.new_zeros(features.shape[1])
        scale = features.std(0, correction=0).clamp(min=1e-9) if len(features) else torch.ones_like(centre)
        z = torch.cat([(features - centre) / scale, torch.ones_like(features[:, :1])], 1)
        target, pull = yes.double(), torch.full((z.shape[1],), RIDGE, dtype=z.dtype)
        pull[-1] = GUESS_RIDGE
        if expected is None:
            # Two halves at the centre: where all answers are alike, the estimate stays finite.
            extra = torch.zeros(2, z.shape[1], dtype=z.dtype)
            extra[:, -1] = 1.0
            z, target = torch.cat([z, extra]), torch.cat([target, torch.full((2,), 0.5, dtype=torch.float64)])
            pull[-1] = 0.0
        start = torch.zeros_like(target) if expected is None else expected
        w = torch.zeros(z.shape[1], dtype=z.dtype)
        for _ in range(NEWTON_STEPS):
            p = torch.sigmoid(start + z @ w)
            gradient = z.T @ (p - target) + pull * w
            curvature = (z * (p * (1 - p))[:, None]).T @ z + torch.diag(pull + 1e-9)
            step = torch.linalg.solve(curvature, gradient)
            w = w - step * min(1.0, 5.0 / max(float(step.abs().max()), 1e-12))
            if float(step.abs().max()) < 1e-9:
                break
        return cls(centre, scale, w[:-1], w[-1])

    def __call__(
        self, features: Float64[Tensor, "n features"], expected: Float64[Tensor, " n"] | float = 0.0
    ) -> Float64[Tensor, " n"]:
        """The probabilities of yes."""
        return torch.sigmoid(expected + ((features - self.centre) / self.scale) @ self.weights + self.bias)


@dataclass(frozen=True, eq=False)
class CertainCalls:
    """Simulated answers that were called certain, and how many of them are wrong: what such a call can rest on.

    Fifty simulated answers cannot show that fewer than one in a hundred is wrong. If n of them were called certain and
    w of those are wrong, `CERTAIN` is supported where as few as w would rarely be wrong if one in a hundred were: in
    one of twenty such simulations at most. Where it is not, every confidence stays below `CERTAIN`.

    Example:
        >>> import torch
        >>> few, many = (CertainCalls.of(torch.ones(n).double(), torch.ones(n).bool()) for n in (98, 299))
        >>> few.most, many.most
        (0.989, 1.0)
    """

    certain: Float64[Tensor, ""]
    wrong: Float64[Tensor, ""]

    @classmethod
    def of(cls, confidence: Float64[Tensor, " n"], right: Bool[Tensor, " n"]) -> "CertainCalls":
        """From the confidence of simulated answers, and whether they are right."""
        certain = confidence >= CERTAIN
        return cls(certain.sum().double(), (certain & ~right).sum().double())

    def __add__(self, other: "CertainCalls") -> "CertainCalls":
        return CertainCalls(self.certain + other.certain, self.wrong + other.wrong)

    @property
    def most(self) -> float:
        """The highest confidence that they support."""
        number = torch.arange(int(self.wrong) + 1, dtype=torch.float64)
        ways = torch.lgamma(self.certain + 1) - torch.lgamma(number + 1) - torch.lgamma(self.certain - number + 1)
        chance = (ways + number * math.log(1 - CERTAIN) + (self.certain - number) * math.log(CERTAIN)).exp().sum()
        return 1.0 if float(chance) <= RARELY else NOT_CERTAIN


@dataclass(frozen=True, eq=False)
class Monotone:
    """A function that never falls: the share of yes in each stretch of scores, interpolated between stretches.

    Example:
        >>> import torch
        >>> score = torch.arange(8.0, dtype=torch.float64)
        >>> shares = Monotone.fit(score, torch.tensor([0, 0, 1, 0, 0, 1, 1, 1]).bool())(score)
        >>> [round(share, 2) for share in shares.tolist()]
        [0.25, 0.25, 0.4, 0.4, 0.4, 0.8, 0.8, 0.8]
    """

    at: Float64[Tensor, " ends"]  # the first and the last score of each stretch
    share: Float64[Tensor, " ends"]

    @classmethod
    def fit(cls, score: Float64[Tensor, " n"], yes: Bool[Tensor, " n"]) -> "Monotone":
        """Pool neighbours until shares rise; each stretch counts one yes and one no more, so none is certain.

        Equal scores are one neighbour: where instances are few and alike, their order would make steps of chance.
        """
        values, which, number = score.mul(EQUAL).round().unique(return_inverse=True, return_counts=True)
        hits = torch.zeros(len(values), dtype=torch.float64).index_add_(0, which, yes.double())
        if not len(values):
            return cls(score.new_zeros(2), score.new_full((2,), 0.5))
        at, sizes = values.div(EQUAL), number.double()
        ends = torch.tensor(_stretches(hits.tolist(), sizes.tolist()))  # the last value of each stretch
        begins = torch.cat([torch.zeros(1, dtype=torch.int64), ends[:-1] + 1])
        none = torch.zeros(1, dtype=torch.float64)
        yes_in, all_in = (torch.cat([none, part.cumsum(0)[ends]]).diff() for part in (hits, sizes))  # whole numbers
        share = ((yes_in + 1) / (all_in + 2)).cummax(0).values
        return cls(torch.stack([at[begins], at[ends]], 1).flatten(), share.repeat_interleave(2))

    def __call__(self, score: Float64[Tensor, " n"]) -> Float64[Tensor, " n"]:
        """The shares at some scores: those of the first and last stretch beyond them."""
        right = torch.searchsorted(self.at, score.contiguous()).clamp(1, len(self.at) - 1)
        low, high = self.at[right - 1], self.at[right]
        part = ((score - low) / (high - low).clamp(min=1e-300)).clamp(0.0, 1.0)
        return torch.lerp(self.share[right - 1], self.share[right], part)


def _stretches(hits: Sequence[float], sizes: Sequence[float]) -> list[int]:
    """Where stretches of rising shares end: neighbours are pooled until shares rise.

    SciPy's isotonic regression gives the same, but half a second of a first plate would go to its import.
    """
    ends: list[int] = []
    pooled: list[tuple[float, float]] = []  # the yes and the number of each stretch
    for place, (yes, number) in enumerate(zip(hits, sizes, strict=True)):
        while pooled and pooled[-1][0] * number >= yes * pooled[-1][1]:  # whole numbers: no rounding
            yes, number = yes + pooled[-1][0], number + pooled[-1][1]
            pooled.pop()
            ends.pop()
        pooled.append((yes, number))
        ends.append(place)
    return ends


# What tells right answers from wrong ones, for decoders that only score items, and how it becomes a probability.

FAR_MISFIT = 60.0  # a misfit beyond which all are alike


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


def features(off: Misfit, result: Decoded) -> Float64[Tensor, "instances features"]:
    """What tells right answers from wrong ones: misfit, unusual calls, doubtful scores, an iteration that failed."""
    noise, prior = off.noise.cpu().clamp(max=FAR_MISFIT), off.prior.cpu().clamp(max=1e6)
    settled = (result.status.cpu() <= Status.PROVED).double()
    doubt, margin = torch.zeros_like(noise), torch.zeros_like(noise)
    if result.scores is not None:
        scores, calls = result.scores.cpu(), result.x.cpu() > 0
        near = scores.clamp(1e-9, 1 - 1e-9)
        doubt = torch.maximum(near, 1 - near).log().sum(1).clamp(min=-FAR_MISFIT)
        lowest = torch.where(calls, scores, torch.inf).amin(1)
        highest = torch.where(calls, -torch.inf, scores).amax(1)
        margin = (lowest - highest).clamp(-10.0, 10.0)
    return torch.stack([noise, noise.square() / FAR_MISFIT, prior, doubt, (-doubt).sqrt(), margin, settled], 1)


# The chance that the truth is not among the answers listed, learned on simulated instances.
#
# It depends on how many answers are listed and how they share the weight, and it is small: to see whether a truth is
# listed or not tells little, and many simulations would be needed. So some of the simulated instances are decoded with
# longer odds. Their lists hold nearly all weight there is, and what they hold beyond the shorter odds is the chance
# that was looked for, instance by instance, instead of a yes or a no. Where the longer list misses the truth too, it is
# 1.
#
# What is learned corrects a guess that each list makes for itself. Of n answers within odds R of the best, those near
# the end have a weight of about 1/R, and beyond it there are as many more as the list grew near its end: if their
# number grows like the odds to the power s, those not listed weigh n s / ((1 - s) R). So a few simulations are enough.

ENOUGH_OF_A_KIND = 30  # simulated instances of a kind, below which only their share is used
FAR_GAP = 20.0  # nats: a gap beyond which all are alike
FASTEST = 0.6  # growth of lists: a longer list grows less than a short one, so a guess by its end is too high
UNLIKELY = 1e-6  # no guess is lower
CUT_SHORT = 0.1  # nor lower than this for a list that is not complete
LIST_KINDS = ("complete", "proved", "open")  # of lists
OPEN_CHANCE = 0.5  # nor than this where even the answer is not proved


@dataclass(frozen=True, eq=False)
class SimulatedLongLists:
    """Simulated instances with complete lists of longer odds: the shapes of their shorter lists, and the chances."""

    shape: Float64[Tensor, "n features"]
    guess: Float64[Tensor, " n"]  # logits
    unlisted: Float64[Tensor, " n"]
    weight: Float64[Tensor, " n"]  # of the answers among those of the shorter lists
    right: Bool[Tensor, " n"]

    @classmethod
    def of(cls, x: Tensor, wide: Decoded, odds: float) -> "SimulatedLongLists":
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
class SimulatedLists:
    """Simulated instances with their lists: the shapes of the lists, and whether they hold the truth."""

    shape: Float64[Tensor, "n features"]
    guess: Float64[Tensor, " n"]  # logits
    weight: Float64[Tensor, " n"]  # of the answers among those listed
    complete: Bool[Tensor, " n"]
    proved: Bool[Tensor, " n"]
    listed: Bool[Tensor, " n"]  # the truth is
    right: Bool[Tensor, " n"]  # the answer is

    @classmethod
    def of(cls, x: Tensor, result: Decoded, odds: float) -> "SimulatedLists":
        """From simulated truths and results."""
        answers, complete = result.evidence.alternatives, result.evidence.complete
        assert answers is not None and complete is not None  # as the caller saw
        proved, right = result.status == Status.PROVED, (result.x == x).all(1)
        guess, weight = _guess(result, odds), _weight(result)
        return cls(_shape(result), guess, weight, complete, proved, found_among(x, answers), right)


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
    def learn(cls, x: Tensor, result: Decoded, odds: float, wider: SimulatedLongLists | None = None) -> "Listing":
        """From simulated truths and results, and from others of longer odds."""
        return cls.of(SimulatedLists.of(x, result, odds), odds, wider)

    @classmethod
    def of(cls, lists: SimulatedLists, odds: float, wider: SimulatedLongLists | None = None) -> "Listing":
        """From simulated lists, and from others of longer odds."""
        unlisted, complete = (~lists.listed).double(), lists.complete
        if wider is not None and len(wider.unlisted) >= ENOUGH_OF_A_KIND:  # a chance tells far more than a yes or a no
            whole = _fitted(wider.shape, wider.unlisted, wider.guess)
        else:
            whole = _fitted(lists.shape[complete], unlisted[complete], lists.guess[complete])
        cut_short = (~complete & lists.proved, ~complete & ~lists.proved)
        parts = [_fitted(lists.shape[some], unlisted[some], lists.guess[some]) for some in cut_short]
        return cls(odds, whole, *parts)

    def claims(self, lists: SimulatedLists, wider: SimulatedLongLists | None = None) -> CertainCalls:
        """The simulated answers that this would call certain, and how many of them are wrong."""
        made = CertainCalls(torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64))
        finished = lists.complete & lists.proved
        for some in (_only(lists, finished), wider):
            if some is not None:
                sure = some.weight * (1 - self.complete(some.shape, some.guess))
                made = made + CertainCalls.of(sure, some.right)
        return made

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


def _only(lists: SimulatedLists, keep: Tensor) -> SimulatedLists:
    return SimulatedLists(*(getattr(lists, one.name)[keep] for one in fields(lists)))


def _fitted(shape: Tensor, chance: Tensor, guess: Tensor) -> Logistic:
    # Too few to learn from: only how far the guesses are off altogether.
    return Logistic.fit(shape if len(shape) >= ENOUGH_OF_A_KIND else torch.zeros_like(shape), chance, expected=guess)


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
    least = torch.where(open_, OPEN_CHANCE, torch.where(proved, CUT_SHORT, UNLIKELY))
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
    far = torch.zeros_like(weight) if gap is None else gap.clamp(max=FAR_GAP)
    return torch.stack([torch.logit(weight), answers.spans.numbers.clamp(min=1).double().log(), proved, far], 1)


# The probability that each item is defective, where perhaps no listed answer is right.
#
# Either one of the answers listed is right, or none of them is:
#
#     P(x_j = 1)  =  sum over listed answers a of P(a) a_j  +  P(none is right) q_j.
#
# A decoder that lists nothing has one answer, with its confidence. q_j is the share of defective items among those with
# such a score, in simulated instances of which no listed answer was right. Where simulations show too few such
# instances, q_j is what the prior says before any count: nothing better is known.

ENOUGH_MISSED = 20  # simulated instances without a right answer, below which the prior is used
MOST_MISSED = 500  # of them, whose items are looked at: their shares are then known to a tenth of a per cent


@dataclass(frozen=True, eq=False)
class SimulatedMisses:
    """Simulated instances of which no listed answer was right: the truths, and the scores of their items."""

    x: UInt8[Tensor, "n items"]
    scores: Float64[Tensor, "n items"]

    @classmethod
    def of(cls, x: Tensor, result: Decoded, right: Tensor) -> "SimulatedMisses":
        """From simulated truths and results; `right` are the instances with a right answer among those listed."""
        missed = (~right).nonzero().flatten()[:MOST_MISSED]
        return cls(x[missed], _scores(result)[missed])

    def first(self) -> "SimulatedMisses":
        """As many as are looked at."""
        return SimulatedMisses(self.x[:MOST_MISSED], self.scores[:MOST_MISSED])


@dataclass(frozen=True, eq=False)
class Missed:
    """How often an item is defective in instances of which no listed answer is right."""

    rate: Float64[Tensor, " items"]  # by the prior
    at: Float64[Tensor, " ends"]  # scores, see `Monotone`
    share: Float64[Tensor, " ends"]
    instances: Int64[Tensor, ""]  # simulated ones without a right answer

    @classmethod
    def learn(cls, rate: Tensor, unfound: "SimulatedMisses") -> "Missed":
        """From simulated instances without a right answer among those listed, and from the items' rates."""
        read = Monotone.fit(unfound.scores.flatten(), unfound.x.flatten() > 0)
        return cls(rate, read.at, read.share, torch.tensor(len(unfound.x)))

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
            share = torch.where(result.x == 0, share * unusual, share).clamp(max=1.0)
        return (known + rest[:, None] * share).clamp(0.0, 1.0)


def prior_rates(problem: Problem) -> Float64[Tensor, " items"] | None:
    """How often each item is defective before any count; None for a prior that can only be simulated."""
    if problem.values is not None:  # any value but 0
        return 1 - problem.values.distributions(problem.items)[:, 0]
    prior = problem.prior if problem.loads is None else problem.loads.statuses()
    return prior.marginals(problem.items) if isinstance(prior, Prior) else None


def _rate(problem: Problem, positives: Tensor, simulated: int) -> Float64[Tensor, " items"]:
    rates = prior_rates(problem)
    return rates if rates is not None else (positives / max(1, simulated * problem.items)).repeat(problem.items)


def _scores(result: Decoded) -> Float64[Tensor, "instances items"]:
    return result.x.double() if result.scores is None else result.scores


# Calibrated decoders.

FIRST_INSTANCES = 2  # simulated instances, before the time is looked at: one may take long
PRECISE = 0.004  # the standard error of a chance that is good enough
FIRST_BATCH = 100  # instances of the first batch at most
MOST_OF_TIME = 0.8  # of the time, after which no more are begun
BATCH_GROWTH = 4  # times as many simulated instances at a time
WIDER, ENOUGH_WIDE = 100.0, 1000  # times the odds, for simulated instances whose lists are longer; how many of them
AT_ONCE = 0.5  # seconds of simulation for each sheet, until enough is known: a person waits for its calls
PATIENCE = 3.0  # times as long, where answers are so few that their fit is a guess
PLAIN_SEED, WIDE_SEED, REFERENCE_SEED = 0, 1, 2  # of simulations, of those with longer odds, and of truths alone
Part = TypeVar("Part")


@dataclass(frozen=True)
class Calibrated:
    """Any decoder, with a confidence that was measured and a fit: `confidence` of 0.9 is right nine times in ten.

    Simulations stop after `seconds`, or at `simulations`; they run once for each problem, at the first call. With
    `at_once`, the first call takes about so many seconds of them, and `go_on` of the bound decoder or the next one with
    the same cache continues where they stopped. As long as little is known, less is called certain.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> problem = qgt.Problem(qgt.Design.bernoulli(pools=30, items=100, generator=g), qgt.Bernoulli(0.06))
        >>> decode = Calibrated(qgt.AMP(), simulations=1000).bind(problem)
        >>> evidence = decode(problem.simulate(5, generator=g).y).evidence
        >>> bool((evidence.confidence > 0.5).all()), bool((evidence.fit > 0.001).all())
        (True, True)
    """

    decoder: Decoder
    seconds: float = 10.0
    simulations: int = 20_000
    cache: Path | None = None  # a folder in which what was learned is kept, and looked for first
    at_once: float | None = None  # seconds of simulation at a time; None takes all of them at the first call

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds", positive("seconds", self.seconds))
        if self.at_once is not None:
            object.__setattr__(self, "at_once", positive("at_once", self.at_once))
        object.__setattr__(self, "simulations", whole("simulations", self.simulations, least=1))

    def supports(self, problem: Problem) -> str | None:
        """What the decoder supports."""
        return self.decoder.supports(problem)

    def key(self, problem: Problem, device: torch.device) -> str | None:
        """The name of what is learned in the cache; None where it is not kept."""
        if self.cache is None or device.type != "cpu":  # a time limit means something else on a GPU
            return None
        often = "whole" if self.at_once is None else "by and by"
        return cache.key_of(problem, self.decoder, seconds=self.seconds, simulations=self.simulations, often=often)

    def bind(self, problem: Problem) -> "BoundCalibrated":
        """Bind the decoder; the simulations wait for the first call."""
        refuse_unsupported(self, problem)
        return BoundCalibrated(self, problem, self.decoder.bind(problem))


@dataclass(frozen=True, eq=False)
class BoundCalibrated:
    """A decoder bound to a problem, and what its simulations taught."""

    config: Calibrated
    problem: Problem
    decode: Decode
    _learned: list["Learned"] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, y: Tensor) -> Decoded:
        """Decode, and replace what the decoder says of its confidence by what was learned."""
        y = check_counts(self.problem, y, missing=True)  # the decoder refuses missing ones if it takes none
        if bool(y.isnan().any()):
            refuse_short_lists(self.config.decoder, "where counts are missing")
        return self.judged(y, self.decode(y))

    def judged(self, y: Counts, result: Decoded) -> Decoded:
        """The decoder's answers to some counts, with their confidence and their fit by what was learned."""
        learned, lacking = self.learned(y.device), y.isnan().flatten(1).any(1)
        told = learned.applied(self.problem, y, result, self._wider)
        if learned.scored is None or not bool(lacking.any()):
            return told
        # The calibration used whole instances; others are simulated again, with the same counts missing.
        config = self.config if self.config.at_once is None else replace(self.config, seconds=self.config.at_once)
        again = learn(config, self.problem, self.decode, y.device, y[lacking].isnan().cpu())
        own, evidence = again.applied(self.problem, y, result, self._wider).evidence, told.evidence
        both = replace(
            evidence,
            confidence=_where(lacking, own.confidence, evidence.confidence),
            fit=_where(lacking, own.fit, evidence.fit),
            marginals=_where(lacking, own.marginals, evidence.marginals),
            values=_where(lacking, own.values, evidence.values),
        )
        return replace(told, evidence=both)

    def _wider(self, y: Tensor) -> Float64[Tensor, " instances"]:
        """The probabilities of the answers by longer lists; 0 where a list is not complete, or there is none."""
        decoder = self.config.decoder
        if isinstance(decoder, LoadPosterior):
            found = replace(decoder, odds=WIDER * decoder.odds).bind(self.problem)(y).evidence
            assert found.complete is not None and found.confidence is not None
            return torch.where(found.complete, found.confidence, 0.0)
        if not isinstance(decoder, Certified):
            return torch.zeros(len(y), dtype=torch.float64, device=y.device)
        wide = replace(decoder, certificates=False, odds=WIDER * decoder.odds)
        return weight_of_all(wide.bind(self.problem)(y), wide.odds)

    def learned(self, device: torch.device | str = "cpu") -> "Learned":
        """What the simulations taught; they run at the first call."""
        with self._lock:
            if not self._learned:
                self._learned.append(self._recalled(torch.device(device)))
            return self._learned[0]

    def go_on(self, device: torch.device | str = "cpu") -> "Learned":
        """Continue the simulations for `at_once` seconds where they are not done; the first call runs them too."""
        known = bool(self._learned)
        learned = self.learned(device)
        if known and not learned.done(self.config):
            with self._lock:
                learned = learn(self.config, self.problem, self.decode, torch.device(device), None, learned)
                self._keep(learned, torch.device(device))
                self._learned[:] = [learned]
        return learned

    def _recalled(self, device: torch.device) -> "Learned":
        """What was kept of earlier simulations, with more of them where these are not done; all of it is kept."""
        found = self._kept(device)
        if found is None or not found.done(self.config):
            found = learn(self.config, self.problem, self.decode, device, None, found)
            self._keep(found, device)
        return found

    def _kept(self, device: torch.device) -> "Learned | None":
        """What was kept; where it was to be learned a little at a time, also what was learned at once."""
        folder, whole = self.config.cache, replace(self.config, at_once=None)
        for config in (whole, self.config) if self.config.at_once is not None else (self.config,):
            key = config.key(self.problem, device)
            kept = None if folder is None or key is None else cache.recall(folder, key)
            found = None if kept is None else Learned.of_tensors(kept)
            if found is not None:
                return found
        return None

    def _keep(self, learned: "Learned", device: torch.device) -> None:
        key = self.config.key(self.problem, device)
        if key is not None and self.config.cache is not None:
            cache.keep(self.config.cache, key, learned.tensors())


@dataclass(frozen=True, eq=False)
class Learned:
    """How to read a decoder's answers to instances of one problem."""

    simulated: int
    reference: Reference
    listed: Listing | None  # for decoders that list answers
    scored: Scoring | None  # for the others
    missed: Missed | None  # what items are where no answer listed is right
    claims: CertainCalls | None  # what `certain` can rest on
    lessons: "Lessons | None" = None  # what the simulations showed, for those that continue; None where they are done

    def done(self, config: Calibrated) -> bool:
        """Whether the simulations are as many as they are to be."""
        return self.lessons is None or config.at_once is None

    @property
    def supports_certain(self) -> bool:
        """Whether the simulations show that answers called certain are right."""
        return self.claims is None or self.claims.most >= CERTAIN

    def tensors(self) -> dict[str, Tensor]:
        """All of it, for a file."""
        parts: dict[str, Any] = {"reference": self.reference}
        if self.missed is not None and self.claims is not None:
            parts |= {"missed": self.missed, "claims": self.claims}
        if self.listed is not None:
            parts |= {name: getattr(self.listed, name) for name in LIST_KINDS}
        if self.scored is not None:
            parts |= {"weigh": self.scored.weigh, "read": self.scored.read}
        named = {
            f"{name}.{field.name}": getattr(part, field.name) for name, part in parts.items() for field in fields(part)
        }
        if self.listed is not None:
            named["odds"] = torch.tensor(self.listed.odds, dtype=torch.float64)
        more = {} if self.lessons is None else self.lessons.tensors()
        return {"simulated": torch.tensor(self.simulated), **named, **more}

    @classmethod
    def of_tensors(cls, kept: dict[str, Tensor]) -> "Learned | None":
        """What `tensors` gave; None where a part is missing."""

        def part(kind: type[Part], name: str) -> Part:
            return kind(**{one.name: kept[f"{name}.{one.name}"] for one in fields(kind)})  # type: ignore[arg-type]

        try:
            listed = None
            if "complete.bias" in kept:
                listed = Listing(float(kept["odds"]), *(part(Logistic, name) for name in LIST_KINDS))
            scored = Scoring(part(Logistic, "weigh"), part(Monotone, "read")) if "weigh.bias" in kept else None
            missed, claims = None, None
            if listed is not None or scored is not None:
                missed, claims = part(Missed, "missed"), part(CertainCalls, "claims")
            reference, lessons = part(Reference, "reference"), Lessons.of_tensors(kept)
            return cls(int(kept["simulated"]), reference, listed, scored, missed, claims, lessons)
        except KeyError:
            return None

    def applied(self, problem: Problem, y: Tensor, result: Decoded, wider: Callable[[Tensor], Tensor]) -> Decoded:
        """A result with its confidence, its fit, and the probability that each item is defective.

        Args:
            problem: The problem.
            y: The counts.
            result: What the decoder returned.
            wider: The probabilities of answers by longer lists: asked where simulations are too few to support them.
        """
        off = misfit(problem, y, result.values)
        odds = USUAL_ODDS if self.listed is None else self.listed.odds
        fit, sound = second_look(problem, y, result, fit_of(off, self.reference).to(y.device), odds=odds)
        evidence = result.evidence
        if self.listed is not None and evidence.alternatives is not None:
            evidence = self._supported(self.listed.applied(result, sound, ~y.isnan().flatten(1).any(1)), y, wider)
            evidence = self._with_marginals(problem, result, evidence)
        elif self.scored is not None:
            possible = (result.status != Status.INFEASIBLE) & (off.noise + off.prior).isfinite()
            sure = self.scored(features(off, result)).to(y.device)
            evidence = self._supported(replace(evidence, confidence=torch.where(possible, sure, 0.0)), y, wider)
            evidence = self._with_marginals(problem, result, evidence)
        return replace(result, evidence=replace(evidence, fit=fit))

    def _supported(self, evidence: Evidence, y: Tensor, wider: Callable[[Tensor], Tensor]) -> Evidence:
        """The evidence with no more confidence than simulations (see `CertainCalls`) or longer lists support."""
        sure, answers = evidence.confidence, evidence.alternatives
        assert sure is not None and self.claims is not None
        most = torch.full_like(sure, self.claims.most)
        if self.claims.most < CERTAIN and bool((certain := sure >= CERTAIN).any()):
            listed = wider(y[certain])
            most[certain] = torch.where(listed >= CERTAIN, listed, most[certain])
        room = torch.minimum(sure, most) / sure.clamp(min=1e-300)
        if answers is not None:
            answers = replace(answers, probability=answers.probability * room[answers.spans.owner])
        return replace(evidence, confidence=sure * room, alternatives=answers)

    def _with_marginals(self, problem: Problem, result: Decoded, evidence: Evidence) -> Evidence:
        """The evidence with the probability that each item is defective, and of each value where there are others."""
        sure, answers = evidence.confidence, evidence.alternatives
        assert sure is not None and self.missed is not None
        if answers is None:
            known, rest = sure[:, None] * result.x.clamp(max=1), 1 - sure
        else:
            known, rest = answers.marginals(), 1 - answers.listed()
        marginals = self.missed.marginals(result, known, rest.clamp(min=0.0))
        # Simulations show what such lists leave out on plates of the model, and lists are cut short where plates are
        # not: ten positives where two are expected. There no item is known to be without a defect.
        unknown = result.status == Status.TIME_LIMIT
        if evidence.complete is not None:
            unknown = unknown | ~evidence.complete
        marginals[unknown] = torch.nan
        return with_values(problem, result, replace(evidence, marginals=marginals))


def with_values(problem: Problem, result: Decoded, evidence: Evidence) -> Evidence:
    """Evidence with the probability of each value, where items have copies or categories.

    A value has what the listed answers say; a decoder that lists nothing has one answer, with its confidence. What the
    marginals have beyond those is shared out among the values but 0 as the prior does.
    """
    values, marginals, answers = problem.values, evidence.marginals, evidence.alternatives
    if values is None or marginals is None:
        return evidence
    if answers is not None:
        owner, x, weight = answers.spans.owner, answers.x, answers.probability
    else:
        assert evidence.confidence is not None
        owner, x, weight = torch.arange(len(result.x), device=marginals.device), result.x, evidence.confidence
    each = marginals.new_zeros(*marginals.shape, values.levels + 1)
    for value in range(1, values.levels + 1):
        each[:, :, value].index_add_(0, owner, weight[:, None] * (x == value))
    known = each.sum(2)  # more than the marginals where those leave room for a count that is wrong
    each = each * (marginals / known.clamp(min=1e-300)).clamp(max=1.0)[:, :, None]
    shares = values.distributions(problem.items)[:, 1:].to(marginals.device)  # (items, values but 0)
    beyond = (marginals - known).clamp(min=0.0)
    each[:, :, 1:] += beyond[:, :, None] * shares / shares.sum(1, keepdim=True).clamp(min=1e-300)
    each[:, :, 0] = 1 - marginals
    return replace(evidence, values=each)


def refuse_short_lists(decoder: Decoder, why: str) -> None:
    """Refuse lists so short that most have one answer, where no simulation shows how much they leave out."""
    if isinstance(decoder, Certified) and 1 < decoder.odds < USUAL_ODDS:
        raise ValueError(
            f"odds={decoder.odds:g} is too small {why}: answers that come close would not be listed, and their weight "
            f"is not known; give {USUAL_ODDS:g} or more, or 1 for no probabilities at all."
        )


def _where(which: Tensor, one: Tensor | None, other: Tensor | None) -> Tensor | None:
    if one is None or other is None:
        return other
    return torch.where(which.view(-1, *[1] * (one.dim() - 1)), one, other)


# Simulations: what is kept of them, and how they continue.


@dataclass(frozen=True, eq=False)
class SimulationProgress:
    """How far some simulations are, and the random numbers with which they continue."""

    numbers: Float64[Tensor, "3"]  # instances, surprises among them, seconds
    state: UInt8[Tensor, " bytes"]  # of the generator

    @classmethod
    def start(cls, seed: int) -> "SimulationProgress":
        """None yet."""
        return cls(torch.zeros(3, dtype=torch.float64), torch.Generator().manual_seed(seed).get_state())

    @property
    def instances(self) -> int:
        """Those simulated."""
        return int(self.numbers[0])

    def precise(self) -> bool:
        """Whether the share of surprises is known well enough."""
        instances, surprises = float(self.numbers[0]), float(self.numbers[1])
        return instances > 0 and math.sqrt(surprises + 1) / instances < PRECISE

    def generator(self) -> torch.Generator:
        """One that continues."""
        generator = torch.Generator()
        generator.set_state(self.state)
        return generator


@dataclass(frozen=True, eq=False)
class SimulatedScores:
    """Simulated answers of a decoder that only scores items: what tells the right ones, and how well they fit."""

    given: Float64[Tensor, "n features"]
    right: Bool[Tensor, " n"]
    finished: Bool[Tensor, " n"]
    noise: Float64[Tensor, " n"]  # misfits of answers; see `MisfitSums`
    prior: Float64[Tensor, " n"]
    true_noise: Float64[Tensor, " few"]  # misfits of truths, as long as there are few
    true_prior: Float64[Tensor, " few"]
    pools: Float64[Tensor, "2 pools"]  # sums

    @classmethod
    def of(cls, problem: Problem, truths: Tensor, y: Tensor, result: Decoded) -> "SimulatedScores":
        """From simulated truths, counts and results."""
        off, right = misfit(problem, y, result.values), (result.x == _answerable(truths)).all(1)
        own, true = MisfitSums.of(off), MisfitSums.of(misfit(problem, y[:FEW_DECODED], truths[:FEW_DECODED]))
        pools, finished = torch.stack([own.total, own.squares]), result.status <= Status.PROVED
        return cls(features(off, result), right, finished, own.noise, own.prior, true.noise, true.prior, pools)

    def plus(self, more: "SimulatedScores") -> "SimulatedScores":
        """With more of them."""
        rows = {one.name: torch.cat([getattr(self, one.name), getattr(more, one.name)]) for one in fields(self)}
        return SimulatedScores(**{**rows, "pools": self.pools + more.pools})

    def reference(self, problem: Problem) -> Reference:
        """How well answers fit."""
        own = MisfitSums(self.noise, self.prior, *self.pools)
        few = len(self.noise) < FEW_DECODED
        true = MisfitSums(self.true_noise, self.true_prior, *self.pools) if few else None
        return Reference.of_sums(problem, own, true, generator=torch.Generator().manual_seed(REFERENCE_SEED))


@dataclass(frozen=True, eq=False)
class Lessons:
    """What simulations showed, instance by instance: what is learned from them, and where more of them continue."""

    plain: SimulationProgress
    wide: SimulationProgress  # of those with longer odds
    positives: Float64[Tensor, ""]  # defective items in all
    unfound: SimulatedMisses
    lists: SimulatedLists | None  # of decoders that list answers
    scored: SimulatedScores | None  # of the others
    wider: SimulatedLongLists | None

    def tensors(self) -> dict[str, Tensor]:
        """All of it, for a file."""
        named = {"lessons.positives": self.positives}
        for name, kind in LESSONS.items():
            if (part := getattr(self, name)) is not None:
                named |= {f"lessons.{name}.{one.name}": getattr(part, one.name) for one in fields(kind)}
        return named

    @classmethod
    def of_tensors(cls, kept: dict[str, Tensor]) -> "Lessons | None":
        """What `tensors` gave; None where there is nothing of it."""
        if "lessons.positives" not in kept:
            return None
        parts: dict[str, Any] = {}
        for name, kind in LESSONS.items():
            found = {one.name: kept.get(f"lessons.{name}.{one.name}") for one in fields(kind)}
            parts[name] = None if any(part is None for part in found.values()) else kind(**found)
        if parts["plain"] is None or parts["wide"] is None or parts["unfound"] is None:
            raise KeyError("lessons")
        return cls(positives=kept["lessons.positives"], **parts)


LESSONS: dict[str, Any] = {
    "plain": SimulationProgress,
    "wide": SimulationProgress,
    "unfound": SimulatedMisses,
    "lists": SimulatedLists,
    "scored": SimulatedScores,
    "wider": SimulatedLongLists,
}


def _cat(one: Part | None, more: Part) -> Part:
    """The rows of both."""
    if one is None:
        return more
    return type(more)(*(torch.cat([getattr(one, part.name), getattr(more, part.name)]) for part in fields(more)))  # type: ignore[arg-type]


def learn(
    config: Calibrated,
    problem: Problem,
    decode: Decode,
    device: torch.device,
    missing: Tensor | None = None,
    before: Learned | None = None,
) -> Learned:
    """Simulate until the time is spent, and fit what the decoder says to what was true.

    Args:
        config: The decoder, and how much to simulate.
        problem: The problem.
        decode: The decoder bound to it.
        device: Where to decode.
        missing: Which counts are missing, in rows that are drawn from; None for none.
        before: What earlier simulations taught, which these continue.
    """
    lessons = None if before is None else before.lessons
    if not isinstance(config.decoder, Certified):
        budget = Budget(config.seconds, config.at_once, config.simulations, least=FEW_DECODED)
        return _learn_plainly(config, problem, decode, budget, device, missing, lessons)
    return _learn_with_longer_odds(config, config.decoder, problem, device, before, lessons)


def _learn_plainly(
    config: Calibrated,
    problem: Problem,
    decode: Decode,
    budget: "Budget",
    device: torch.device,
    missing: Tensor | None,
    lessons: Lessons | None,
) -> Learned:
    """From simulations of any decoder."""
    progress = SimulationProgress.start(PLAIN_SEED) if lessons is None else lessons.plain
    progress, seen = _simulated(problem, lambda each: decode, progress, budget, device, missing=missing)
    positives, unfound, lists, scored = _known(lessons)
    if seen is not None:
        x = _answerable(seen.truths)
        answers, right = seen.result.evidence.alternatives, (seen.result.x == x).all(1)
        positives = positives + (x > 0).sum()
        if answers is not None and seen.result.evidence.complete is not None:
            right = found_among(x, answers)
            lists = _cat(lists, SimulatedLists.of(x, seen.result, USUAL_ODDS))
        else:
            new = SimulatedScores.of(problem, seen.truths, seen.y, seen.result)
            scored = new if scored is None else scored.plus(new)
        unfound = _cat(unfound, SimulatedMisses.of(x, seen.result, right)).first()
    assert unfound is not None
    missed = Missed.learn(_rate(problem, positives, progress.instances), unfound)
    left = Lessons(progress, SimulationProgress.start(WIDE_SEED), positives, unfound, lists, scored, None)
    kept = left if config.at_once is not None and not budget.spent(progress) else None
    if lists is not None:
        listed, reference = Listing.of(lists, USUAL_ODDS), _reference(problem)
        return Learned(progress.instances, reference, listed, None, missed, listed.claims(lists), kept)
    assert scored is not None
    scoring = Scoring.learn(scored.given, scored.right)
    claims = CertainCalls.of(scoring(scored.given)[scored.finished], scored.right[scored.finished])
    return Learned(progress.instances, scored.reference(problem), None, scoring, missed, claims, kept)


def _known(
    lessons: Lessons | None,
) -> tuple[Tensor, SimulatedMisses | None, SimulatedLists | None, SimulatedScores | None]:
    if lessons is None:
        return torch.zeros((), dtype=torch.float64), None, None, None
    return lessons.positives, lessons.unfound, lessons.lists, lessons.scored


def _reference(problem: Problem) -> Reference:
    return Reference.of(problem, generator=torch.Generator().manual_seed(REFERENCE_SEED))


def _learn_with_longer_odds(
    config: Calibrated,
    decoder: Certified,
    problem: Problem,
    device: torch.device,
    before: Learned | None,
    lessons: Lessons | None,
) -> Learned:
    """From simulations of `Certified`, some of them with longer odds."""
    start, half, at_once = time.perf_counter(), config.seconds / 2, config.at_once
    plain, wide = replace(decoder, certificates=False), replace(decoder, certificates=False, odds=WIDER * decoder.odds)
    positives, unfound, lists, _ = _known(lessons)
    progress = SimulationProgress.start(PLAIN_SEED) if lessons is None else lessons.plain
    budget = Budget(half, None if at_once is None else at_once / 2, config.simulations)
    progress, seen = _simulated_as_decoded(problem, plain, progress, budget, device)
    if seen is not None:
        positives = positives + (seen.truths > 0).sum()
    if seen is not None and decoder.odds > 1:
        answers = seen.result.evidence.alternatives
        assert answers is not None
        lists = _cat(lists, SimulatedLists.of(seen.truths, seen.result, decoder.odds))
        found = SimulatedMisses.of(seen.truths, seen.result, found_among(seen.truths, answers))
        unfound = _cat(unfound, found).first()
    reference = _reference(problem) if before is None else before.reference
    if decoder.odds == 1:  # such a decoder has no probabilities
        return Learned(progress.instances, reference, None, None, None, None)
    assert lists is not None and unfound is not None
    wider, further = (None, SimulationProgress.start(WIDE_SEED)) if lessons is None else (lessons.wider, lessons.wide)
    spent = time.perf_counter() - start
    left = None if at_once is None else max(at_once - spent, at_once / 2)
    more = Budget(half, left, min(ENOUGH_WIDE, config.simulations))
    further, longer = _simulated(problem, _hurried(wide, problem), further, more, device)
    if longer is not None:
        wider = _cat(wider, SimulatedLongLists.of(longer.truths, longer.result, decoder.odds))
    listed, simulated = Listing.of(lists, decoder.odds, wider), progress.instances + further.instances
    missed = Missed.learn(_rate(problem, positives, len(lists.right)), unfound)
    rest = Lessons(progress, further, positives, unfound, lists, None, wider)
    kept = None if at_once is None or (budget.spent(progress) and more.spent(further)) else rest
    return Learned(simulated, reference, listed, None, missed, listed.claims(lists, wider), kept)


def _simulated_as_decoded(
    problem: Problem, decoder: Certified, before: SimulationProgress, budget: "Budget", device: torch.device
) -> "tuple[SimulationProgress, Simulated | None]":
    """`_simulated`, with lists that were cut short only where the decoder would cut them short on a sheet.

    How good an incomplete list is depends on the time that the search had, which must be the decoder's own limit. With
    little time at once the search has less than that, and lists that were cut short by it are dropped.
    """
    if budget.at_once is None and decoder.time_limit is not None:
        decode = decoder.bind(problem)
        # A batch shares its time, so simulated instances are decoded together as a sheet's are: not two first.
        first = int(budget.seconds / decoder.time_limit) if decoder.time_limit else 0
        return _simulated(problem, lambda each: decode, before, budget, device, max(FIRST_INSTANCES, first))
    progress, seen = _simulated(problem, _hurried(decoder, problem), before, budget, device)
    complete = None if seen is None else seen.result.evidence.complete
    if seen is not None and complete is not None and budget.at_once is not None and decoder.odds > 1:
        seen = seen.pick(complete | (seen.limit >= (math.inf if decoder.time_limit is None else decoder.time_limit)))
    return progress, seen


def _answerable(truths: Tensor) -> Tensor:
    """Truths as answers have them: who is defective where items have amounts, and the truths themselves otherwise."""
    return truths if truths.dtype == torch.uint8 else as_statuses(truths)


def _hurried(decoder: Certified, problem: Problem) -> Callable[[float], Decode]:
    """The decoder with so many seconds for each instance, and never more than its own limit.

    A list that is complete is the same however long the search was allowed to take.
    """
    # By the limit: most batches have the decoder's own, and share what binding prepares.
    bound: dict[float, Decode] = {}

    def within(seconds: float) -> Decode:
        limit = seconds if decoder.time_limit is None else min(seconds, decoder.time_limit)
        if limit not in bound:
            bound[limit] = replace(decoder, time_limit=limit).bind(problem)
        return bound[limit]

    return within


class Budget(NamedTuple):
    """How long simulations may take, in all and now, and how many they may be."""

    seconds: float
    at_once: float | None
    most: int
    least: int = 0  # for which it is worth to wait longer

    def now(self, instances: int) -> float:
        """Seconds that may be spent at once, where there are so many instances."""
        if self.at_once is None:
            return self.seconds
        return self.at_once * (PATIENCE if instances < self.least else 1.0)

    def spent(self, progress: SimulationProgress) -> bool:
        """Whether there are to be no more."""
        seconds = float(progress.numbers[2])
        return progress.instances >= self.most or progress.precise() or seconds > MOST_OF_TIME * self.seconds


class Simulated(NamedTuple):
    """Truths, counts and results."""

    truths: Tensor
    y: Tensor
    result: Decoded
    limit: Tensor  # seconds that each instance had, if the decoder heeds them

    def pick(self, keep: Tensor) -> "Simulated":
        """Some of them."""
        return Simulated(self.truths[keep], self.y[keep], self.result.pick(keep.nonzero().flatten()), self.limit[keep])


def _simulated(
    problem: Problem,
    bound: Callable[[float], Decode],
    before: SimulationProgress,
    budget: Budget,
    device: torch.device,
    first: int = FIRST_INSTANCES,
    missing: Tensor | None = None,
) -> tuple[SimulationProgress, Simulated | None]:
    """As many instances more as are decoded in the time, or are enough; `first` ones first. None where none are due."""
    start, generator, progress = time.perf_counter(), before.generator(), before
    parts: list[Simulated] = []
    while not budget.spent(progress):
        instances, surprises, spent = progress.numbers.tolist()
        here, now = time.perf_counter() - start, budget.now(int(instances))
        if parts and here > MOST_OF_TIME * now:
            break
        left = min(budget.seconds - spent, now - here)
        # As many as the rest of the time allows, but not many times as many as there are: the guess may be wrong.
        most = min(BATCH_GROWTH * instances, instances * left / max(spent, 1e-9))
        size = min(max(1, int(most)) if instances else min(first, FIRST_BATCH), budget.most - int(instances))
        x, y = problem.simulate(size, generator=generator)
        if missing is not None:
            y[missing[torch.randint(len(missing), (len(y),), generator=generator)]] = torch.nan
        each = max(left, now / 10) / len(x)
        result = _needed(bound(each)(y.to(device))).cpu()
        parts.append(Simulated(x, y, result, torch.full((len(x),), each, dtype=torch.float64)))
        taken = time.perf_counter() - start - here
        surprises += _surprises(_answerable(x), result)
        numbers = torch.tensor([instances + len(x), surprises, spent + taken], dtype=torch.float64)
        progress = SimulationProgress(numbers, generator.get_state())
    if not parts:
        return progress, None
    truths, counts, results, limits = zip(*parts, strict=True)
    return progress, Simulated(torch.cat(truths), torch.cat(counts), Decoded.joined(results), torch.cat(limits))


def _surprises(x: Tensor, result: Decoded) -> int:
    """How many truths were not listed or, by a decoder that lists nothing, not called."""
    answers = result.evidence.alternatives
    if answers is None:
        return int((result.x != x).any(1).sum())
    return len(x) - int((answers.x == x[answers.spans.owner]).all(1).sum())


def _needed(result: Decoded) -> Decoded:
    """What the measurements need of a result; the proofs and the items' probabilities would fill the memory."""
    told = result.evidence
    kept = Evidence(told.log_joint, told.bound, told.complete, told.confidence, alternatives=told.alternatives)
    return Decoded(result.x, result.status, result.scores, kept, amounts=result.amounts)
