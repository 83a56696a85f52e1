"""Planning: which pools to make, for what a person knows, by simulating candidate designs with the certified decoder.

A question says what is known: the samples, about how many are positive, what the assay reports, and how certain the
answer must be. For each number of transfers per sample, plates are simulated and decoded at several numbers of pools,
to find the smallest that is good enough (`scouting`). The designs found there, and some with a few more pools, are then
measured on fresh plates (`measuring`). The cheapest of those that did well are measured once more (`confirming`), until
one has its whole *interval* above the certainty asked for; otherwise the best is recommended. The best of several looks
better than it is. So where several were tried its figures come from plates of their own (`promising`) or, where there
is no time for these, the intervals of all that were tried are wide enough to hold together.

Time is shared out by the clock. A design that is hard to decode may not get through enough plates to be shown right;
then one with more pools, which is decoded faster, is tried instead.

A plate is right when every one of its samples is called right. Where follow-ups are allowed, samples on which the
answers that come close differ are tested alone if the answer is not certain enough; these tests err as the assay does.
Plates are drawn from the same prior and assay that `problem` holds, so the promise is one under the model. Beside the
candidates stand the schemes that laboratories use today (`classical`), simulated with the same prior and assay.

No design is tried in which two samples are in exactly the same pools: nothing could tell them apart.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from statistics import NormalDist
from typing import NamedTuple

from torch import Generator

from qgt.lab.plan.classical import ClassicalScheme, classical_schemes, single_error
from qgt.lab.plan.loads import detectable, missed_share
from qgt.lab.plan.question import Question
from qgt.lab.plan.simulation import Scout, fewest
from qgt.lab.plan.transfers import fit_triples, has_twins
from qgt.model.design import Design
from qgt.model.problem import Problem
from qgt.trust.metrics import Z99, Interval, wilson

OnStepsDone = Callable[[int, int], None]  # steps done, and of how many
SPREAD = (1.35, 1.15, 1.0)  # pools of the candidates, over the fewest that did well enough; the surest first
USUAL = 6  # transfers per sample that do best in most questions: they come first
USUAL_FOR_LOADS = 3
TRIPLE, TRIPLE_STEP = 3, 6  # transfers per sample of triple systems, whose numbers of pools are this far apart
WIDE_STEP, NARROW_STEP, LAST_STEP = 1.4, 1.2, 1.08  # of the pools: steps of scouting, and where it stops
SCOUTED, MEASURED, CONFIRMED = 60, 400, 1000  # plates
CONFIRMATIONS = 8  # designs that are confirmed at most
POOLS_GROWTH = 1.15  # of the pools, where no candidate is certain enough
SLOW_GROWTH = 1.3  # the same where decoding is slow, and there is time for few designs
SCOUTING, MEASURED_BY, CONFIRMED_BY = 0.25, 0.4, 0.9  # shares of the time, and until when the others last
FIRST_SHARE = 0.6  # of the time left, for the next design to confirm
ALWAYS = 3  # candidates that are measured, however slow the machine is
FEW_PLATES = 60  # plates on which a candidate's success is hardly known
LOOKS = 4  # of scouting at each weight, about
# Of the certainty, what the first round must give where follow-ups make up for the rest: more, the more they err.
ALONE_SHARE, ALONE_MOST, ALONE_STEP = 0.8, 0.95, 3.0
FUTILE = 1.64  # standard errors by which a design must miss what it would have to show, to be given up
PROGRESS_STEPS = 100  # of progress
LEAST_TIME = 0.02  # of the time, that every simulation has


class DesignShape(NamedTuple):
    """What makes a design, together with the seed."""

    pools: int
    weight: int
    together: bool = False  # whether households share pools
    by_triples: bool = False  # whether it is a triple system


@dataclass(frozen=True, eq=False)
class Candidate:
    """One design, and how it did on simulated plates.

    Example:
        >>> from qgt import Design
        >>> one = Candidate(Design.from_rows(["1100", "0111"]), 1, 100, 97, 0.5, 1.0)
        >>> one.success, one.tests_saved, one.largest_pool
        (0.97, 1.5, 3)
    """

    design: Design
    weight: int  # transfers per sample
    plates: int  # simulated
    successes: int  # of them right, after follow-ups where those are allowed
    follow_ups: float  # samples tested alone, per plate, on average; 0 where follow-ups are not allowed
    entropy_bound: float  # the smallest number of pools that any design with pools of this size needs
    together: bool = False  # whether households share pools; else they are spread
    seconds: float = 0.0  # that simulating the plates took
    tries: int = 1  # candidates among which these plates chose it
    sensitivity: float | None = None  # where samples have loads: the share of all positives that was found
    missed: float = 0.0  # the share of positives that pools of this size do not detect
    by_triples: bool = False  # whether no two samples share more than one pool, by a triple system

    @property
    def shape(self) -> DesignShape:
        """Pools, weight, whether households share pools and triples: with the seed, these make the design."""
        return DesignShape(self.design.pools, self.weight, self.together, self.by_triples)

    @property
    def speed(self) -> float:
        """Plates simulated in a second."""
        return self.plates / self.seconds if self.seconds else math.inf

    @property
    def pools(self) -> int:
        """The number of pools."""
        return self.design.pools

    @property
    def transfers(self) -> int:
        """The number of pipetting steps of one plate."""
        return self.design.transfers

    @property
    def largest_pool(self) -> int:
        """The number of samples in the largest pool: by how much a sample is diluted."""
        return int(self.design.pool_sizes.max())

    @property
    def success(self) -> float:
        """The share of simulated plates that were right."""
        return self.successes / self.plates if self.plates else float("nan")

    @property
    def interval(self) -> Interval:
        """Where the success lies, with a certainty of 99 %, also if it is the best of several (Bonferroni)."""
        z = NormalDist().inv_cdf(1 - 0.005 / self.tries)
        return wilson(self.successes, self.plates, z)

    def among(self, tries: int) -> "Candidate":
        """The same as one of several that were tried."""
        return replace(self, tries=tries)

    @property
    def tests(self) -> float:
        """Pools and follow-ups together, for one plate."""
        return self.pools + self.follow_ups

    @property
    def tests_saved(self) -> float:
        """How many fewer tests than one for each sample."""
        return self.design.items - self.tests


@dataclass(frozen=True, eq=False)
class Plan:
    """Candidates, the fewest tests first, and the one that is recommended.

    Example:
        >>> import torch, qgt
        >>> question = Question(qgt.Samples.numbered(12), (0, 1), certainty=0.8)
        >>> made = plan(question, generator=torch.Generator().manual_seed(0), seconds=0.5)
        >>> made.recommended in made.candidates, made.problem.design.items
        (True, 12)
    """

    question: Question
    candidates: tuple[Candidate, ...]
    recommended: Candidate
    reached: bool  # whether the recommended design is certain enough: its whole interval is
    seed: int  # of the generator: the same question and seed give the same candidates
    classical: tuple[ClassicalScheme, ...] = ()  # what laboratories do today, for comparison

    @property
    def problem(self) -> Problem:
        """What the decoder has to know: the recommended design, the prior and the assay."""
        return detectable(Problem(self.recommended.design, self.question.prior, self.question.assay))

    @property
    def better_classical(self) -> ClassicalScheme | None:
        """A scheme of today that takes fewer tests and is surely right as often; None where there is none."""
        one = self.recommended
        fine = [
            scheme
            for scheme in self.classical
            if scheme.tests < one.tests
            and scheme.interval.low >= min(one.interval.low, self.question.certainty)
            and (scheme.sensitivity or 0.0) >= (one.sensitivity or 0.0)
        ]
        return min(fine, key=lambda scheme: scheme.tests, default=None)


def plan(
    question: Question,
    *,
    generator: Generator,
    progress: OnStepsDone | None = None,
    seconds: float = 45.0,
) -> Plan:
    """Simulate candidate designs and recommend one.

    Args:
        question: What is known and wanted.
        generator: Its seed is the plan's: the same question and seed give the same candidates.
        progress: Called with the steps done, and of how many.
        seconds: About the longest that it may take; on a slow machine fewer plates are simulated.

    Example:
        >>> import torch, qgt
        >>> question = Question(qgt.Samples.numbered(12), positives=(0, 1), certainty=0.8)
        >>> made = plan(question, generator=torch.Generator().manual_seed(0), seconds=0.5)
        >>> made.recommended.pools < 12
        True
    """
    retest_below, seed = question.certainty if question.follow_ups else None, int(generator.initial_seed())
    scout = Scout(question.samples, question.prior, question.assay, retest_below, seed)
    desk = _Desk(question, scout, progress or (lambda done, total: None), time.perf_counter(), seconds)
    shapes = _shapes(desk)
    measured = _measured(desk, shapes)
    tried = _confirmed(desk, measured, shapes)
    recommended = _recommended(desk, tried)
    reached = recommended.interval.low >= question.certainty
    last = {one.design.fingerprint: one for one in [*measured, *tried, recommended]}  # the last figures count
    desk.show(1.0)
    ordered = sorted(last.values(), key=lambda one: (one.tests, one.transfers))
    return Plan(question, tuple(ordered), recommended, reached, scout.seed, _classical(question, scout))


def _classical(question: Question, scout: Scout) -> tuple[ClassicalScheme, ...]:
    """The schemes of today, which are for positive and negative samples; none for copies and categories."""
    if question.values is not None:
        return ()
    prior, assay, items = question.prior, question.assay, len(question.samples)
    generator = scout.generator("classical")
    return tuple(classical_schemes(prior, assay, items, largest_pool=question.largest_pool, generator=generator))


@dataclass(frozen=True, eq=False)
class _Desk:
    """What all stages share: the question, the simulator, and the clock."""

    question: Question
    scout: Scout
    progress: OnStepsDone
    start: float
    seconds: float

    def show(self, share: float) -> None:
        """Say how far it is."""
        self.progress(round(PROGRESS_STEPS * share), PROGRESS_STEPS)

    def left(self, share: float) -> float:
        """Seconds until a share of the time is over, but never nothing."""
        return max(LEAST_TIME * self.seconds, self.start + share * self.seconds - time.perf_counter())

    def over(self, share: float) -> bool:
        """Whether a share of the time is over."""
        return time.perf_counter() > self.start + share * self.seconds

    @cached_property
    def alone(self) -> float:
        """The share of plates that the first round must get right by itself."""
        if not self.question.follow_ups:
            return self.question.certainty
        error = 0.0 if self.question.values is not None else single_error(self.question.assay)
        share = min(ALONE_MOST, ALONE_SHARE + ALONE_STEP * error)
        return share * self.question.certainty

    def usable(self, shape: DesignShape) -> bool:
        """Whether the design of a shape tells all samples apart and keeps to the limits."""
        design = self._design(shape)
        return int(design.pool_sizes.max()) <= self.question.largest and not has_twins(design)

    def _design(self, shape: DesignShape) -> Design:
        return self.scout.design(shape.pools, shape.weight, together=shape.together, by_triples=shape.by_triples)

    def measured(
        self, purpose: str, shape: DesignShape, plates: int, seconds: float, hopeless_below: float | None = None
    ) -> Candidate:
        """A design on fresh plates."""
        design = self._design(shape)
        tally = self.scout.measure(
            purpose, design, plates, seconds=seconds, hopeless_below=hopeless_below, hopeless_z=FUTILE
        )
        bound = self.question.entropy_bound(int(design.pool_sizes.max()))
        again = tally.follow_ups / tally.plates
        made = Candidate(design, shape.weight, tally.plates, tally.right, again, bound, shape.together, tally.seconds)
        loads = self.question.loads
        if loads is None:
            return made
        missed = missed_share(loads, self.question.assay, made.largest_pool)
        return replace(made, sensitivity=tally.sensitivity, missed=missed, by_triples=shape.by_triples)


def _shapes(desk: _Desk) -> list[DesignShape]:
    """The designs worth measuring."""
    question = desk.question
    found: list[tuple[int, DesignShape]] = []  # with its place in the spread
    usual = USUAL if question.loads is None else USUAL_FOR_LOADS
    weights, guess = sorted(question.weights, key=lambda weight: abs(weight - usual)), None
    for number, weight in enumerate(weights):
        desk.show(SCOUTING * number / len(weights))
        least, most = question.pool_range(weight)
        if least > most or (found and desk.over(SCOUTING)):
            continue

        good = partial(_good_enough, desk, weight, SCOUTING * desk.seconds / len(weights) / LOOKS)
        step = WIDE_STEP if guess is None else NARROW_STEP  # the weight before is a good guess
        best = fewest(good, least, most, first=guess or 2 * least, step=step, ratio=LAST_STEP)
        guess = best or guess
        sizes = [most] if best is None else [min(most, math.ceil(share * best)) for share in SPREAD]
        for place, pools in enumerate(dict.fromkeys(sizes)):
            found.append((place, DesignShape(pools, weight)))
            if question.samples.households is not None:
                found.append((place, DesignShape(pools, weight, together=True)))
            if weight == TRIPLE and question.loads is not None:
                found += [(place, shape) for shape in _triples(pools, most, len(question.samples))]
    usable = [shape for _, shape in sorted(found, key=lambda one: one[0]) if desk.usable(shape)]
    if not usable:
        limits = ("most_pools", "largest_pool", "most_transfers", *(["most_missed"] if question.loads else []))
        given = [f"{name}={getattr(question, name)}" for name in limits if getattr(question, name) is not None]
        raise ValueError(
            f"{' and '.join(given) or 'These limits'} leave no room for {len(question.samples)} samples, each in other "
            "pools than any other: allow more pools, larger ones or more transfers."
        )
    return usable


def _good_enough(desk: _Desk, weight: int, seconds: float, pools: int) -> bool:
    """Whether the first round of a design gets enough plates right, as far as is seen in these seconds."""
    end = time.perf_counter() + seconds
    design = desk.scout.design(pools, weight)  # which takes time too
    left = max(0.0, end - time.perf_counter())
    return desk.scout.first_round(design, SCOUTED, seconds=left, hopeless_below=desk.alone).success >= desk.alone


def _triples(pools: int, most: int, items: int) -> list[DesignShape]:
    """The triple system with the next number of pools; none where more pools would be needed than are allowed."""
    fit = (number for number in range(pools, min(most, pools + TRIPLE_STEP) + 1) if fit_triples(items, number))
    return [DesignShape(number, TRIPLE, by_triples=True) for number in fit][:1]


def _measured(desk: _Desk, shapes: Sequence[DesignShape]) -> list[Candidate]:
    """The candidates on fresh plates, the fewest tests first; on a slow machine some are left out."""
    made: list[Candidate] = []
    for number, shape in enumerate(shapes):
        if len(made) >= ALWAYS and desk.over(MEASURED_BY):
            break
        desk.show(SCOUTING + (MEASURED_BY - SCOUTING) * number / len(shapes))
        share = desk.left(MEASURED_BY) / (len(shapes) - number)
        made.append(desk.measured("measuring", shape, MEASURED, share))
    return sorted(made, key=lambda one: (one.tests, one.transfers))


def _confirmed(desk: _Desk, candidates: Sequence[Candidate], shapes: Sequence[DesignShape]) -> list[Candidate]:
    """Candidates on plates that did not choose them, the cheapest first, until one is certain enough.

    Where decoding is slow, candidates were measured on few plates, which say little. Then the surest come first, in the
    order of the shapes, then designs with more pools, and cheaper ones only after one was shown. Where decoding is
    fast, designs with more and more pools follow if none of those that did well is certain enough.
    """
    wanted, enough = desk.question.certainty, _enough(desk.question.certainty)
    few = min(one.plates for one in candidates) < FEW_PLATES
    likely = [one for one in candidates if (one.interval.high if few else one.success) >= wanted]
    quick = [one for one in likely if one.speed * desk.left(CONFIRMED_BY) >= 2 * enough]
    if not quick:  # all of the time is needed to show one
        best = min(likely or candidates, key=lambda one: (-one.success, shapes.index(one.shape)))
        return [desk.measured("confirming", best.shape, max(CONFIRMED, 3 * enough), desk.left(1.0))]
    queue = sorted(quick, key=lambda one: shapes.index(one.shape)) if few else quick
    speeds = {one.shape: one.speed for one in queue}
    waiting, tried = [one.shape for one in queue], list[Candidate]()
    while waiting and len(tried) < CONFIRMATIONS and not (tried and desk.over(CONFIRMED_BY)):
        desk.show(MEASURED_BY + (CONFIRMED_BY - MEASURED_BY) * len(tried) / CONFIRMATIONS)
        shape = waiting.pop(0)
        pools, weight = shape.pools, shape.weight
        seconds, plates = desk.left(CONFIRMED_BY) * FIRST_SHARE, max(CONFIRMED, 3 * enough)
        reach = float(min(plates, max(enough, speeds.get(shape, math.inf) * seconds)))  # plates that there is time for
        tried.append(desk.measured("confirming", shape, plates, seconds, wanted + _margin(wanted, reach)))
        if (fine := shown(tried, wanted)) is not None:  # cheaper ones may do as well, if there is time to show it
            waiting = [
                one.shape
                for one in queue
                if one.shape in waiting and one.pools < fine.pools and fine.speed * desk.left(CONFIRMED_BY) > 3 * enough
            ]
            continue
        waiting = [one for one in waiting if one[1:] != shape[1:] or one[0] > pools]  # with fewer pools it is no better
        most = desk.question.pool_range(weight)[1]
        more = min(most, math.ceil((SLOW_GROWTH if few else POOLS_GROWTH) * pools))
        larger = DesignShape(more, weight, shape.together)  # a triple system has no number of pools between
        if (few or not waiting) and pools < most and desk.usable(larger):
            waiting.insert(0, larger)
    return tried


def _recommended(desk: _Desk, tried: Sequence[Candidate]) -> Candidate:
    """The best of the designs tried; its figures are of new plates, if there is time, as it was chosen by the old."""
    wanted = desk.question.certainty
    best = shown(tried, wanted) or max(tried, key=lambda one: one.interval.low)
    if len(tried) > 1 and best.speed * desk.left(1.0) >= 2 * _enough(wanted):
        fresh = desk.measured("promising", best.shape, CONFIRMED, desk.left(1.0))
        if fresh.plates >= best.plates:
            return fresh
    return best.among(len(tried))


def shown(tried: Sequence[Candidate], wanted: float) -> Candidate | None:
    """The candidate with the fewest tests of those that were shown certain enough; None where none was."""
    fine = [one for one in tried if one.among(len(tried)).interval.low >= wanted]
    return min(fine, key=lambda one: one.tests, default=None)


def _enough(wanted: float) -> int:
    """The number of plates below which even plates that are all right show too little."""
    return math.ceil(Z99**2 * wanted / (1 - wanted))


def _margin(wanted: float, plates: float) -> float:
    """By how much the share of so many plates has to be above what is wanted, to show it."""
    return min(Z99 * math.sqrt(wanted * (1 - wanted) / plates), 0.6 * (1 - wanted))
