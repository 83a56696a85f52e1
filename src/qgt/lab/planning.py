"""Planning: which pools to make, for what a person knows, by simulating candidate designs with the certified decoder.

A question says what is known: the samples, about how many are positive, what the assay reports, and how certain the
answer must be. For each number of transfers per sample, plates are simulated and decoded at several numbers of pools,
to find the smallest that is good enough (`scouting`). The designs found there, and some with a few more pools, are then
measured on fresh plates (`measuring`): the figures shown are never the ones that chose the design. The recommended
design is the one with the fewest tests whose *interval* lies above the certainty asked for.

A plate is right when every one of its samples is called right. Where follow-ups are allowed, samples on which the
answers that come close differ are tested alone if the answer is not certain enough; the plate is right when the other
calls are. Plates are drawn from the same prior and assay that `problem` holds, so the promise is one under the model.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Generator

from qgt.lab.expectations import expected_prior
from qgt.lab.question import Question as Question
from qgt.lab.scouting import Scout, Tally, fewest
from qgt.model.design import Design
from qgt.model.problem import Problem
from qgt.trust.scoring import Interval, wilson

OnProgress = Callable[[int, int], None]  # steps done, and of how many
SPREAD = (1.0, 1.15, 1.35)  # pools of the candidates, over the fewest that did well enough
RATIO = 1.07  # of the pools at which scouting stops
SCOUTED, MEASURED, CONFIRMED = 60, 400, 1000  # plates
CONFIRMATIONS = 4  # candidates that are confirmed at most, and as many again with more pools
GROWTH = 1.15  # of the pools, where no candidate is certain enough
SCOUTING, MEASURING, CONFIRMING = 0.5, 0.25, 0.25  # shares of the time
LOOKS = 5  # of scouting at each weight, about
ALONE = 0.8  # of the certainty that the first round must give where follow-ups make up for the rest
STEPS = 100  # of progress
Z99 = 2.5758293035489004  # the normal quantile of a two-sided 99 % interval


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
    entropy_bound: float  # no design with pools of this size can do with fewer pools than this
    together: bool = False  # whether households share pools; else they are spread

    @property
    def shape(self) -> tuple[int, int, bool]:
        """Pools, weight and whether households share pools: with the seed, these make the design."""
        return self.design.pools, self.weight, self.together

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
        """Where the success lies, with a certainty of 99 %."""
        return wilson(self.successes, self.plates, Z99)

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

    @property
    def problem(self) -> Problem:
        """What the decoder has to know: the recommended design, the prior and the assay."""
        return Problem(
            self.recommended.design, expected_prior(self.question.samples, self.question.positives), self.question.assay
        )


def plan(
    question: Question,
    *,
    generator: Generator,
    progress: OnProgress | None = None,
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
    scout = Scout(
        question.samples,
        question.positives,
        question.assay,
        question.certainty if question.follow_ups else None,
        int(generator.initial_seed()),
    )
    show, deadline = progress or (lambda done, total: None), time.perf_counter() + seconds
    measured = _measured(question, scout, _shapes(question, scout, show, seconds), show, seconds)
    tried = _confirmed(question, scout, measured, show, seconds, deadline)
    reached = tried[-1].interval.low >= question.certainty
    recommended = tried[-1] if reached else max(tried, key=lambda one: one.interval.low)
    fresh = {one.design.fingerprint: one for one in tried}
    kept = {one.design.fingerprint: fresh.get(one.design.fingerprint, one) for one in [*measured, *tried]}
    show(STEPS, STEPS)
    ordered = sorted(kept.values(), key=lambda one: (one.tests, one.transfers))
    return Plan(question, tuple(ordered), recommended, reached, scout.seed)


def _shapes(question: Question, scout: Scout, show: OnProgress, seconds: float) -> list[tuple[int, int, bool]]:
    """Pools, weight and whether households go together, of the designs worth measuring."""
    found: list[tuple[int, int, bool]] = []
    weights, guess = question.weights, None
    wanted = ALONE * question.certainty if question.follow_ups else question.certainty
    for number, weight in enumerate(weights):
        show(round(SCOUTING * STEPS * number / len(weights)), STEPS)
        least, most = question.pool_range(weight)
        if least > most:
            continue

        def good(pools: int, weight: int = weight) -> bool:
            tally = scout.first_round(
                scout.design(pools, weight),
                SCOUTED,
                seconds=SCOUTING * seconds / len(weights) / LOOKS,
                hopeless_below=wanted,
            )
            return tally.success >= wanted

        best = fewest(good, least, most, first=guess or 2 * least, ratio=RATIO)
        guess = best or guess
        sizes = {most} if best is None else {min(most, math.ceil(share * best)) for share in SPREAD}
        found += [(pools, weight, False) for pools in sizes]
        if question.samples.households is not None:
            found += [(pools, weight, True) for pools in sizes]
    if not found:
        raise ValueError(
            f"most_pools={question.most_pools} and largest_pool={question.largest_pool} leave no room for "
            f"{len(question.samples)} samples: allow more pools or larger ones."
        )
    return found


def _measured(
    question: Question, scout: Scout, shapes: Sequence[tuple[int, int, bool]], show: OnProgress, seconds: float
) -> list[Candidate]:
    """The candidates on fresh plates, the fewest tests first."""
    made = []
    for number, (pools, weight, together) in enumerate(shapes):
        show(round(STEPS * (SCOUTING + MEASURING * number / len(shapes))), STEPS)
        design = scout.design(pools, weight, together=together)
        share = MEASURING * seconds / len(shapes)
        made.append(
            _candidate(question, design, weight, together, scout.measure("measuring", design, MEASURED, seconds=share))
        )
    return sorted(made, key=lambda one: (one.tests, one.transfers))


def _candidate(question: Question, design: Design, weight: int, together: bool, tally: Tally) -> Candidate:
    bound = question.entropy_bound(int(design.pool_sizes.max()))
    return Candidate(design, weight, tally.plates, tally.right, tally.follow_ups / tally.plates, bound, together)


def _confirmed(
    question: Question,
    scout: Scout,
    candidates: Sequence[Candidate],
    show: OnProgress,
    seconds: float,
    deadline: float,
) -> list[Candidate]:
    """Candidates on plates that did not choose them, the cheapest first, until one is certain enough.

    Where none of those that did well is, designs with more and more pools follow.
    """
    wanted = question.certainty
    enough = math.ceil(Z99**2 * wanted / (1 - wanted))  # fewer plates show too little even if all are right
    likely = [one for one in candidates if one.success >= wanted][:CONFIRMATIONS]
    queue = [one.shape for one in likely or [max(candidates, key=lambda one: one.success)]]
    tried: list[Candidate] = []
    while queue and len(tried) < 2 * CONFIRMATIONS and (not tried or time.perf_counter() < deadline):
        show(round(STEPS * (SCOUTING + MEASURING + CONFIRMING * len(tried) / (2 * CONFIRMATIONS))), STEPS)
        pools, weight, together = queue.pop(0)
        design = scout.design(pools, weight, together=together)
        share = max(CONFIRMING * seconds / CONFIRMATIONS, (deadline - time.perf_counter()) / 2)
        tally = scout.measure("confirming", design, max(CONFIRMED, 3 * enough), seconds=share)
        tried.append(_candidate(question, design, weight, together, tally))
        if tried[-1].interval.low >= wanted or tally.plates < enough:  # more pools would not make up for lack of time
            break
        most = question.pool_range(weight)[1]
        if not queue and pools < most:
            queue.append((min(most, math.ceil(GROWTH * pools)), weight, together))
    return tried
