"""Confidence that means what it says: learned on simulated instances of the same problem.

A problem can be simulated, so whatever a decoder says of its answer can be turned into the share of such answers that
are right. Two ways, by what the decoder says:

*It lists the answers that come close* (`qgt.Certified`). Among those listed the weights are exact; what is not known is
the chance that the truth is not listed at all. Simulated truths tell how often that happens, given how many answers are
listed and how they share the weight. It is a small chance, so few simulations settle it:

    confidence = weight among those listed  x  (1 - chance that the truth is not listed).

*It only scores items* (networks, AMP, GAMP). How badly calls and counts go together, how unusual the calls are, and
how far the scores are from doubt are put together by a logistic regression, and its score is read off against the share
of simulated answers that were right.

The same simulations tell how well honest instances fit their answers (`evidence.fit`).
"""

import math
import threading
import time
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float64
from torch import Tensor

from qgt.arguments import positive, whole
from qgt.decoders.certified.decoder import Certified
from qgt.decoders.contract import Decode, Decoder, refuse_unsupported
from qgt.decoders.results import Answers, Decoded, Evidence, Status
from qgt.model.problem import Problem
from qgt.trust.fit import instance_fit
from qgt.trust.reference import Reference, misfit
from qgt.trust.regression import Logistic, Monotone
from qgt.trust.wrong_counts import wrong_count_p

FIRST = 2  # simulated instances, before the time is looked at: one may take long
PRECISE = 0.004  # the standard error of a chance that is good enough
ENOUGH = 30  # simulated instances of a kind, below which only their share is used
LOOK_AGAIN = 0.3  # a fit below this is looked at again, for a wrong count
SECOND_LOOK = 0.1  # its share of the false alarms
FAR = 60.0  # a misfit beyond which all are alike


@dataclass(frozen=True)
class Calibrated:
    """Any decoder, with a confidence that was measured and a fit: `confidence` of 0.9 is right nine times in ten.

    Simulations stop after `seconds`, or at `simulations`; they run once for each problem, at the first call.

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

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds", positive("seconds", self.seconds))
        object.__setattr__(self, "simulations", whole("simulations", self.simulations, least=1))

    def supports(self, problem: Problem) -> str | None:
        """What the decoder supports."""
        return self.decoder.supports(problem)

    def bind(self, problem: Problem) -> "BoundCalibrated":
        """Bind the decoder; the simulations wait for the first call."""
        refuse_unsupported(self, problem)
        decode = self.decoder.bind(problem)
        if not isinstance(self.decoder, Certified) or not self.decoder.certificates:
            return BoundCalibrated(self, problem, decode, decode)
        # Simulated instances need no proofs.
        return BoundCalibrated(self, problem, decode, replace(self.decoder, certificates=False).bind(problem))


@dataclass(frozen=True, eq=False)
class BoundCalibrated:
    """A decoder bound to a problem, and what its simulations taught."""

    config: Calibrated
    problem: Problem
    decode: Decode
    simulated: Decode  # decodes simulated instances
    _learned: list["Learned"] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, y: Float64[Tensor, "instances pools"]) -> Decoded:
        """Decode, and replace what the decoder says of its confidence by what was learned."""
        result = self.decode(y)
        return self.learned(y.device).applied(self.problem, y.to(torch.float64), result)

    def learned(self, device: torch.device | str = "cpu") -> "Learned":
        """What the simulations taught; they run at the first call."""
        with self._lock:
            if not self._learned:
                self._learned.append(learn(self.config, self.problem, self.simulated, torch.device(device)))
            return self._learned[0]


@dataclass(frozen=True, eq=False)
class Learned:
    """How to read a decoder's answers to instances of one problem."""

    simulated: int
    reference: Reference
    listed: "Listing | None"  # for decoders that list answers
    scored: "Scoring | None"  # for the others

    def applied(self, problem: Problem, y: Tensor, result: Decoded) -> Decoded:
        """A result with its confidence and fit."""
        fit = _looked_at_again(problem, y, result, instance_fit(problem, y, result.x, self.reference).to(y.device))
        evidence = result.evidence
        if self.listed is not None and evidence.alternatives is not None:
            evidence = self.listed.applied(result)
        elif self.scored is not None:
            sure = self.scored(features(problem, y, result)).to(y.device)
            evidence = replace(evidence, confidence=torch.where(result.status == Status.INFEASIBLE, 0.0, sure))
        return replace(result, evidence=replace(evidence, fit=fit))


def _looked_at_again(problem: Problem, y: Tensor, result: Decoded, fit: Tensor) -> Tensor:
    """The fit, where a wrong count that explains the instance better counts against it too.

    Of two p-values the least is taken, each divided by its share of the false alarms. Only instances that fit not too
    well are looked at: in the others no count is off by much.
    """
    doubtful = (fit < LOOK_AGAIN).nonzero().flatten()
    p = torch.ones_like(fit)
    if len(doubtful):
        p[doubtful] = wrong_count_p(problem, y[doubtful], result.pick(doubtful))
    return torch.minimum(fit / (1 - SECOND_LOOK), p / SECOND_LOOK).clamp(max=1.0)


def learn(config: Calibrated, problem: Problem, decode: Decode, device: torch.device) -> Learned:
    """Simulate until the time is spent, and fit what the decoder says to what was true."""
    generator = torch.Generator().manual_seed(0)
    start, size, done, wrong = time.perf_counter(), FIRST, 0, 0
    truths, counts, results = [], [], []
    while done < config.simulations:
        x, y = problem.simulate(min(size, config.simulations - done), generator=generator)
        truths.append(x)
        counts.append(y)
        results.append(_on_cpu(decode(y.to(device))))
        done += len(x)
        spent = time.perf_counter() - start
        wrong += _surprises(x, results[-1])
        if spent > config.seconds / 2 or math.sqrt(wrong + 1) / done < PRECISE:
            break
        # As many as the rest of the time allows, but never more than are there already: the first guess may be wrong.
        size = max(1, int(min(done, done * (config.seconds - spent) / max(spent, 1e-9))))
    x, y, result = torch.cat(truths), torch.cat(counts), Decoded.joined(results)
    if result.evidence.alternatives is not None and result.evidence.confidence is not None:
        return Learned(done, Reference.of(problem, generator=generator), Listing.learn(x, result), None)
    reference = Reference.of_answers(problem, y, result.x)
    scored = Scoring.learn(features(problem, y, result), (result.x == x).all(1))
    return Learned(done, reference, None, scored)


def _surprises(x: Tensor, result: Decoded) -> int:
    """How many truths were not listed or, by a decoder that lists nothing, not called."""
    answers = result.evidence.alternatives
    if answers is None:
        return int((result.x != x).any(1).sum())
    return len(x) - int((answers.x == x[answers.spans.owner]).all(1).sum())


def _on_cpu(result: Decoded) -> Decoded:
    """What is needed of a result, on the CPU; proofs are not."""
    evidence, answers = result.evidence, result.evidence.alternatives
    kept = Evidence(
        complete=None if evidence.complete is None else evidence.complete.cpu(),
        confidence=None if evidence.confidence is None else evidence.confidence.cpu(),
        alternatives=None if answers is None else answers.cpu(),
    )
    scores = None if result.scores is None else result.scores.cpu()
    return Decoded(result.x.cpu(), result.status.cpu(), scores, kept)


# --- decoders that list answers -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Listing:
    """The chance that the truth is not among the answers listed, where the list is complete and where it is not."""

    complete: Logistic
    incomplete: Logistic

    @classmethod
    def learn(cls, x: Tensor, result: Decoded) -> "Listing":
        """From simulated truths."""
        answers, complete = result.evidence.alternatives, result.evidence.complete
        assert answers is not None and complete is not None  # as the caller saw
        owner = answers.spans.owner
        found = torch.zeros(len(x), dtype=torch.int64).index_add_(0, owner, (answers.x == x[owner]).all(1).long())
        unlisted, shape = found == 0, _shape_of_list(result)
        fitted = []
        for kind in (complete, ~complete):
            # Too few to learn from: their share alone, and that of one yes and one no where there are none.
            known = shape[kind] if int(kind.sum()) >= ENOUGH else torch.zeros_like(shape[kind])
            fitted.append(Logistic.fit(known, unlisted[kind]))
        return cls(*fitted)

    def applied(self, result: Decoded) -> Evidence:
        """Evidence in which the answers listed leave room for those that are not."""
        evidence, answers = result.evidence, result.evidence.alternatives
        assert answers is not None and evidence.complete is not None
        shape = _shape_of_list(result).cpu()
        chance = torch.where(evidence.complete.cpu(), self.complete(shape), self.incomplete(shape)).to(result.x.device)
        room = 1 - chance
        owner = answers.spans.owner
        probability = answers.probability * room[owner]
        weight = _weight(result)
        return replace(
            evidence,
            confidence=weight * room,
            alternatives=Answers(answers.spans, answers.x, answers.log_joint, probability),
        )


def _weight(result: Decoded) -> Float64[Tensor, " instances"]:
    """The answers' weight among those listed; 0 where none is."""
    answers = result.evidence.alternatives
    assert answers is not None
    first = answers.spans.ends - answers.spans.numbers
    some = answers.spans.numbers > 0
    weight = torch.zeros(len(some), dtype=torch.float64, device=some.device)
    weight[some] = answers.probability[first[some]]
    return weight


def _shape_of_list(result: Decoded) -> Float64[Tensor, "instances features"]:
    """How many answers are listed, and how they share the weight."""
    answers = result.evidence.alternatives
    assert answers is not None
    weight = _weight(result).clamp(1e-6, 1 - 1e-6)
    return torch.stack([torch.logit(weight), answers.spans.numbers.clamp(min=1).double().log()], 1)


# --- decoders that score items --------------------------------------------------------------------------------------


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
