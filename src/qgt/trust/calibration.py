"""Confidence that means what it says: learned on simulated instances of the same problem.

A problem can be simulated, so whatever a decoder says of its answer can be turned into the share of such answers that
are right. Two ways, by what the decoder says:

*It lists the answers that come near* (`qgt.Certified`). Among those listed the weights are exact; what is not known is
the chance that the truth is not listed at all (`listing`):

    confidence = weight among those listed  x  (1 - chance that the truth is not listed).

*It only scores items* (networks, AMP, GAMP). How badly calls and counts go together, how unusual the calls are, and
how far the scores are from doubt are put together by a logistic regression, and its score is read off against the share
of simulated answers that were right.

The same simulations tell how well honest instances fit their answers (`evidence.fit`).
"""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from jaxtyping import Float64
from torch import Tensor

from qgt.arguments import positive, whole
from qgt.decoders.certified.decoder import Certified
from qgt.decoders.contract import Decode, Decoder, check_counts, refuse_unsupported
from qgt.decoders.results import Decoded, Evidence, Status
from qgt.model.problem import Problem
from qgt.trust import cache
from qgt.trust.features import Scoring, features
from qgt.trust.fit import instance_fit
from qgt.trust.listing import KINDS, Listing, Wider, found_among, weight_of_all
from qgt.trust.marginals import Missed
from qgt.trust.reference import Reference, misfit
from qgt.trust.regression import CERTAIN, Claims, Logistic, Monotone
from qgt.trust.wrong_counts import second_look

FIRST = 2  # simulated instances, before the time is looked at: one may take long
PRECISE = 0.004  # the standard error of a chance that is good enough
TOGETHER = 100  # instances of the first batch at most
MOST = 0.8  # of the time, after which no more are begun
GROWTH = 4  # times as many simulated instances at a time
WIDER, ENOUGH_WIDE = 100.0, 1000  # times the odds, for simulated instances whose lists are longer; how many of them
USUAL_ODDS = 100.0  # of lists; taken for those of decoders of somebody's own, which do not say
Part = TypeVar("Part")


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
    cache: Path | None = None  # a folder in which what was learned is kept, and looked for first

    def __post_init__(self) -> None:
        object.__setattr__(self, "seconds", positive("seconds", self.seconds))
        object.__setattr__(self, "simulations", whole("simulations", self.simulations, least=1))

    def supports(self, problem: Problem) -> str | None:
        """What the decoder supports."""
        return self.decoder.supports(problem)

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
        learned, result, lacking = self.learned(y.device), self.decode(y), y.isnan().any(1)
        told = learned.applied(self.problem, y, result, self._wider)
        if learned.scored is None or not bool(lacking.any()):
            return told
        # What was learned of whole instances knows nothing of those that lack counts: they are simulated as they are.
        again = learn(self.config, self.problem, self.decode, y.device, y[lacking].isnan().cpu())
        own, evidence = again.applied(self.problem, y, result, self._wider).evidence, told.evidence
        both = replace(
            evidence,
            confidence=_where(lacking, own.confidence, evidence.confidence),
            fit=_where(lacking, own.fit, evidence.fit),
            marginals=_where(lacking, own.marginals, evidence.marginals),
        )
        return replace(told, evidence=both)

    def _wider(self, y: Tensor) -> Float64[Tensor, " instances"]:
        """The probabilities of the answers by longer lists; 0 where a list is not complete, or there is none."""
        decoder = self.config.decoder
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

    def _recalled(self, device: torch.device) -> "Learned":
        """What was kept of earlier simulations; else of new ones, which are kept."""
        config, key = self.config, None
        if config.cache is not None and device.type == "cpu":  # a time limit means something else on a GPU
            key = cache.key_of(self.problem, config.decoder, seconds=config.seconds, simulations=config.simulations)
        if key is None or config.cache is None:
            return learn(config, self.problem, self.decode, device)
        kept = cache.recall(config.cache, key)
        found = None if kept is None else Learned.of_tensors(kept)
        if found is None:
            found = learn(config, self.problem, self.decode, device)
            cache.keep(config.cache, key, found.tensors())
        return found


@dataclass(frozen=True, eq=False)
class Learned:
    """How to read a decoder's answers to instances of one problem."""

    simulated: int
    reference: Reference
    listed: Listing | None  # for decoders that list answers
    scored: Scoring | None  # for the others
    missed: Missed | None  # what items are where no answer listed is right
    claims: Claims | None  # what `certain` can rest on

    def tensors(self) -> dict[str, Tensor]:
        """All of it, for a file."""
        parts: dict[str, Any] = {"reference": self.reference}
        if self.missed is not None and self.claims is not None:
            parts |= {"missed": self.missed, "claims": self.claims}
        if self.listed is not None:
            parts |= {name: getattr(self.listed, name) for name in KINDS}
        if self.scored is not None:
            parts |= {"weigh": self.scored.weigh, "read": self.scored.read}
        named = {
            f"{name}.{field.name}": getattr(part, field.name) for name, part in parts.items() for field in fields(part)
        }
        if self.listed is not None:
            named["odds"] = torch.tensor(self.listed.odds, dtype=torch.float64)
        return {"simulated": torch.tensor(self.simulated), **named}

    @classmethod
    def of_tensors(cls, kept: dict[str, Tensor]) -> "Learned | None":
        """What `tensors` gave; None where a part is missing."""

        def part(kind: type[Part], name: str) -> Part:
            return kind(**{one.name: kept[f"{name}.{one.name}"] for one in fields(kind)})  # type: ignore[arg-type]

        try:
            listed = None
            if "complete.bias" in kept:
                listed = Listing(float(kept["odds"]), *(part(Logistic, name) for name in KINDS))
            scored = Scoring(part(Logistic, "weigh"), part(Monotone, "read")) if "weigh.bias" in kept else None
            missed, claims = None, None
            if listed is not None or scored is not None:
                missed, claims = part(Missed, "missed"), part(Claims, "claims")
            return cls(int(kept["simulated"]), part(Reference, "reference"), listed, scored, missed, claims)
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
        fit = instance_fit(problem, y, result.x, self.reference).to(y.device)
        fit, sound = second_look(problem, y, result, fit)
        evidence = result.evidence
        if self.listed is not None and evidence.alternatives is not None:
            evidence = self._supported(self.listed.applied(result, sound, ~y.isnan().any(1)), y, wider)
            evidence = self._with_marginals(result, evidence)
        elif self.scored is not None:
            off = misfit(problem, y, result.x)
            possible = (result.status != Status.INFEASIBLE) & (off.noise + off.prior).isfinite()
            sure = self.scored(features(problem, y, result)).to(y.device)
            evidence = self._supported(replace(evidence, confidence=torch.where(possible, sure, 0.0)), y, wider)
            evidence = self._with_marginals(result, evidence)
        return replace(result, evidence=replace(evidence, fit=fit))

    def _supported(self, evidence: Evidence, y: Tensor, wider: Callable[[Tensor], Tensor]) -> Evidence:
        """The evidence with no more confidence than simulations support (see `Claims`), or else longer lists."""
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

    def _with_marginals(self, result: Decoded, evidence: Evidence) -> Evidence:
        """The evidence with the probability that each item is defective."""
        sure, answers = evidence.confidence, evidence.alternatives
        assert sure is not None and self.missed is not None
        if answers is None:
            known, rest = sure[:, None] * result.x, 1 - sure
        else:
            known, rest = answers.marginals(), 1 - answers.listed()
        return replace(evidence, marginals=self.missed.marginals(result, known, rest.clamp(min=0.0)))


def refuse_short_lists(decoder: Decoder, why: str) -> None:
    """Refuse lists so short that an answer is alone on its own, where no simulation tells what they leave out."""
    if isinstance(decoder, Certified) and 1 < decoder.odds < USUAL_ODDS:
        raise ValueError(
            f"odds={decoder.odds:g} is too small {why}: answers that come close would not be listed, and nothing tells "
            f"their weight; give {USUAL_ODDS:g} or more, or 1 for no probabilities at all."
        )


def _where(which: Tensor, one: Tensor | None, other: Tensor | None) -> Tensor | None:
    if one is None or other is None:
        return other
    return torch.where(which if one.dim() == 1 else which[:, None], one, other)


def learn(
    config: Calibrated, problem: Problem, decode: Decode, device: torch.device, missing: Tensor | None = None
) -> Learned:
    """Simulate until the time is spent, and fit what the decoder says to what was true; `missing` is drawn from."""
    generator = torch.Generator().manual_seed(0)
    decoder, seconds, most = config.decoder, config.seconds, config.simulations
    if not isinstance(decoder, Certified):
        x, y, result = _simulated(problem, lambda each: decode, seconds, most, device, generator, missing=missing)
        if result.evidence.alternatives is not None and result.evidence.complete is not None:
            listed = Listing.learn(x, result, USUAL_ODDS)
            missed = Missed.learn(problem, x, result, found_among(x, result.evidence.alternatives))
            reference, claims = Reference.of(problem, generator=generator), listed.claims(x, result)
            return Learned(len(x), reference, listed, None, missed, claims)
        given, right = features(problem, y, result), (result.x == x).all(1)
        scored, missed = Scoring.learn(given, right), Missed.learn(problem, x, result, right)
        finished = result.status <= Status.PROVED
        claims = Claims.of(scored(given)[finished], right[finished])
        reference = Reference.of_answers(problem, y, result.x, x, generator=generator)
        return Learned(len(x), reference, None, scored, missed, claims)
    plain, wide = replace(decoder, certificates=False), replace(decoder, certificates=False, odds=WIDER * decoder.odds)
    # How good an incomplete list is depends on the time there was: it must be the decoder's own.
    bound = _hurried(plain, problem) if plain.time_limit is None else _own(plain, problem)
    # And they must be decoded together as a sheet's are, for a batch shares its time: not two first, then more.
    first = FIRST if plain.time_limit is None else max(FIRST, int(seconds / 2 / plain.time_limit))
    x, y, result = _simulated(problem, bound, seconds / 2, most, device, generator, first)
    if decoder.odds == 1:  # it tells no probabilities
        return Learned(len(x), Reference.of(problem, generator=generator), None, None, None, None)
    enough = min(ENOUGH_WIDE, most)
    more_x, _, more = _simulated(problem, _hurried(wide, problem), seconds / 2, enough, device, generator)
    wider = Wider.of(more_x, more, decoder.odds)
    listed = Listing.learn(x, result, decoder.odds, wider)
    assert result.evidence.alternatives is not None
    missed = Missed.learn(problem, x, result, found_among(x, result.evidence.alternatives))
    reference, claims = Reference.of(problem, generator=generator), listed.claims(x, result, wider)
    return Learned(len(x) + len(more_x), reference, listed, None, missed, claims)


def _own(decoder: Certified, problem: Problem) -> Callable[[float], Decode]:
    """The decoder with its own limit, however little time there is."""
    decode = decoder.bind(problem)
    return lambda each: decode


def _hurried(decoder: Certified, problem: Problem) -> Callable[[float], Decode]:
    """The decoder with so many seconds for each instance, and never more than its own limit.

    A list that is complete is the same however long the search was allowed to take.
    """

    def bound(seconds: float) -> Decode:
        limit = seconds if decoder.time_limit is None else min(seconds, decoder.time_limit)
        return replace(decoder, time_limit=limit).bind(problem)

    return bound


def _simulated(
    problem: Problem,
    bound: Callable[[float], Decode],
    seconds: float,
    most: int,
    device: torch.device,
    generator: torch.Generator,
    first: int = FIRST,
    missing: Tensor | None = None,
) -> tuple[Tensor, Tensor, Decoded]:
    """Truths, counts and results of as many instances as are decoded in the time, or are enough; `first` ones first."""
    start, size, done, wrong = time.perf_counter(), min(first, TOGETHER), 0, 0
    truths, counts, results = [], [], []
    while done < most:
        x, y = problem.simulate(min(size, most - done), generator=generator)
        if missing is not None:
            y[missing[torch.randint(len(missing), (len(y),), generator=generator)]] = torch.nan
        left = max(seconds - (time.perf_counter() - start), seconds / 10)
        truths.append(x)
        counts.append(y)
        results.append(_on_cpu(bound(left / len(x))(y.to(device))))
        done += len(x)
        spent = time.perf_counter() - start
        wrong += _surprises(x, results[-1])
        if spent > MOST * seconds or math.sqrt(wrong + 1) / done < PRECISE:
            break
        # As many as the rest of the time allows, but not many times as many as there are: the guess may be wrong.
        size = max(1, int(min(GROWTH * done, done * (seconds - spent) / max(spent, 1e-9))))
    return torch.cat(truths), torch.cat(counts), Decoded.joined(results)


def _surprises(x: Tensor, result: Decoded) -> int:
    """How many truths were not listed or, by a decoder that lists nothing, not called."""
    answers = result.evidence.alternatives
    if answers is None:
        return int((result.x != x).any(1).sum())
    return len(x) - int((answers.x == x[answers.spans.owner]).all(1).sum())


def _on_cpu(result: Decoded) -> Decoded:
    """What is needed of a result, on the CPU; proofs are not."""
    evidence, answers = result.evidence, result.evidence.alternatives
    names = ("log_joint", "bound", "complete", "confidence")
    kept = {name: part.cpu() for name in names if (part := getattr(evidence, name)) is not None}
    scores = None if result.scores is None else result.scores.cpu()
    told = Evidence(**kept, alternatives=None if answers is None else answers.cpu())
    return Decoded(result.x.cpu(), result.status.cpu(), scores, told)
