"""Simulated plates of one design: how many are decoded right, and how many samples have to be tested again.

Every design and plate is drawn from a generator of its own that depends on the seed, the weight, the number of pools
and the purpose alone. A limit on time is the one thing that can change a result: where a machine is too slow, fewer of
the plates are decoded, and the plan says how many. They are not decoded in a hurry instead, which would make a good
design look bad; only the first search for the number of pools may be hasty.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Generator, Tensor

from qgt.arguments import generator_of
from qgt.decoders.certified.decoder import Certified
from qgt.decoders.contract import BoundDecoder
from qgt.decoders.highs.exact import ExactMAP
from qgt.decoders.loads.posterior import LoadPosterior
from qgt.decoders.results import Decoded
from qgt.lab.plan.loads import detectable, detected, least_load, not_cleared
from qgt.lab.plan.transfers import few_transfers, triples
from qgt.lab.sheets.samples import Samples
from qgt.model.categories import Categories, Copies
from qgt.model.design import Design
from qgt.model.loads import Loads, as_statuses
from qgt.model.noise import Noise
from qgt.model.prior import Prior
from qgt.model.problem import Problem
from qgt.trust.metrics import Z99, wilson

LEAST_PART, MOST_PART = 10, 100  # plates decoded together: after each part one may stop
LISTED_PART = 25  # plates decoded together at least, where answers are listed: hard ones then take the others' time
PLATE, HASTY = 0.04, 0.04  # seconds for one plate, shared with the others of its part: few need more than 0.01
MANY_PLATES = 60  # plates from which on less than a certainty of 99 % may do
# Answers that come close are at least 1/odds as probable; longer lists take twice as long, and add little.
SIMULATION_ODDS = 20.0


@dataclass(frozen=True)
class PlateTally:
    """Plates simulated, how many were right, and how many samples were tested again on all of them."""

    plates: int = 0
    right: int = 0
    follow_ups: int = 0
    seconds: float = 0.0  # that all of it took
    positives: int = 0  # samples with a load on all plates, however weak; counted where samples have loads
    found: int = 0  # of them called positive

    @property
    def sensitivity(self) -> float | None:
        """The share of all positives that was found; None where samples have no loads."""
        return self.found / self.positives if self.positives else None

    @property
    def success(self) -> float:
        """The share that was right."""
        return self.right / self.plates if self.plates else 0.0

    def __add__(self, other: "PlateTally") -> "PlateTally":
        return PlateTally(
            self.plates + other.plates,
            self.right + other.right,
            self.follow_ups + other.follow_ups,
            self.seconds + other.seconds,
            self.positives + other.positives,
            self.found + other.found,
        )


def planned_decoder(problem: Problem, *, listing: bool, time_limit: float | None = None) -> BoundDecoder:
    """The decoder that plans are made for: certified, or exact where that does not take the prior; one for loads.

    Args:
        problem: The problem to bind it to.
        listing: Whether the answers that come close are listed, which takes several times as long.
        time_limit: Seconds for each plate.
    """
    if decoder_name(problem) == "load_posterior":
        return LoadPosterior(odds=SIMULATION_ODDS).bind(problem)
    if decoder_name(problem) == "exact":
        return ExactMAP(time_limit=time_limit).bind(problem)
    return Certified(odds=SIMULATION_ODDS if listing else 1.0, time_limit=time_limit, certificates=False).bind(problem)


def decoder_name(problem: Problem) -> str:
    """What `qgt decode` calls the decoder that a plan is made for."""
    if problem.loads is not None:
        return "load_posterior"
    return "certified" if Certified().supports(problem) is None else "exact"


def to_test_alone(found: Decoded, below: float, uncleared: Tensor | None = None) -> Tensor:
    """The samples to test alone: those on which the answers listed differ, on plates that are not sure enough.

    A list that is not complete may lack the right answer, and then says nothing about which samples are in doubt. On
    such a plate every sample that no pool clears is tested, where that is known.

    Args:
        found: What the decoder says, with the samples that are unsettled.
        below: The confidence below which a plate is not sure enough.
        uncleared: See `not_cleared`; None where reports are not of amounts.

    Example:
        >>> from qgt.decoders.results import Evidence
        >>> evidence = Evidence(
        ...     confidence=torch.tensor([0.5, 0.999], dtype=torch.float64),
        ...     complete=torch.tensor([True, False]),
        ...     unsettled=torch.tensor([[True, False, False], [False, False, False]]),
        ... )
        >>> called = torch.zeros(2, 3, dtype=torch.uint8)
        >>> found = Decoded(called, torch.zeros(2, dtype=torch.uint8), evidence=evidence)
        >>> to_test_alone(found, 0.99, torch.tensor([[True, True, False]] * 2)).tolist()
        [[True, False, False], [True, True, False]]
    """
    evidence = found.evidence
    assert evidence.confidence is not None and evidence.unsettled is not None
    sure = evidence.confidence >= below
    if evidence.complete is None:
        return evidence.unsettled & ~sure[:, None]
    again = evidence.unsettled & ~(sure & evidence.complete)[:, None]
    return again if uncleared is None else again | (uncleared & ~evidence.complete[:, None])


def judged(
    x: Tensor,
    found: Decoded,
    retest_below: float | None,
    noise: Noise,
    *,
    least: float = 0.0,
    values: Categories | Copies | None = None,
    uncleared: Tensor | None = None,
    generator: Generator,
) -> PlateTally:
    """How the decoded plates did against the truth.

    A sample that is tested alone is tested once, with the assay that tests the pools, so its test may err as well. It
    is then called by the odds that the pools gave it, times what its own test says.

    Args:
        x: The truth, (plates, samples): statuses, or loads.
        found: What the decoder says.
        retest_below: Test the doubtful samples of plates whose confidence is below this; None tests none.
        noise: How tests of single samples err.
        least: Positives with smaller loads may be called either way: no pool detects them.
        values: The prior of copies or categories, where samples have such.
        uncleared: See `to_test_alone`.
        generator: Where the results of these tests come from.
    """
    called = found.x
    again = torch.zeros_like(called, dtype=torch.bool)
    evidence = found.evidence
    if retest_below is not None and evidence.confidence is not None and evidence.unsettled is not None:
        again = to_test_alone(found, retest_below, uncleared)
        called = torch.where(again, _called_alone(x, found, noise, values, generator), called)
    if x.dtype == torch.uint8:
        return PlateTally(len(x), int((called == x).all(1).sum()), int(again.sum()))
    who = as_statuses(x)
    weak = (x > 0) & (x < least)
    right = int(((called == who) | weak).all(1).sum())
    return PlateTally(len(x), right, int(again.sum()), positives=int(who.sum()), found=int((called * who).sum()))


def _called_alone(
    x: Tensor, found: Decoded, noise: Noise, values: Categories | Copies | None, generator: Generator
) -> Tensor:
    """What each sample would be called after a test of its own: (plates, samples)."""
    if values is not None:
        return _valued_alone(x, found, noise, values, generator)
    ones = torch.ones(x.shape, dtype=torch.float64)
    reports = noise.sample(x.to(torch.float64), ones[0], generator=generator)
    if x.dtype != torch.uint8:  # a load is not known, so its test is taken at its word
        return detected(noise, reports).to(torch.uint8)
    told = noise.log_prob(reports, ones, ones) - noise.log_prob(reports, 0 * ones, ones)
    before = torch.zeros_like(told) if found.scores is None else torch.logit(found.scores.double(), eps=1e-9)
    return (before + told > 0).to(torch.uint8)


def _valued_alone(x: Tensor, found: Decoded, noise: Noise, values: Categories | Copies, generator: Generator) -> Tensor:
    """The same for samples with copies or categories: the likeliest value by the pools and by the test alone."""
    alone = Problem(Design.from_rows(["1"]), values, noise)
    reports = alone.reports(alone.totals(x.reshape(-1, 1)), generator=generator)
    each = []
    for value in range(values.levels + 1):
        told = alone.log_reports(torch.full((x.numel(), 1), value, dtype=torch.uint8), reports)
        each.append(told.flatten(1).sum(1).view(x.shape))
    told = torch.stack(each, 2)  # (plates, samples, values)
    before = found.evidence.values
    if before is not None:
        told = told + before.clamp(min=1e-9).log()
    return told.argmax(2).to(torch.uint8)


def simulated_plates(
    problem: Problem,
    plates: int,
    *,
    retest_below: float | None,
    generator: Generator,
    seconds: float,
    each: float = PLATE,
    hopeless_below: float | None = None,
    hopeless_z: float = Z99,
) -> PlateTally:
    """Simulate and decode plates.

    Args:
        problem: The design, the prior and the assay. Where samples have loads, plates may have positives that pools do
            not detect, and are decoded as if they had none: see `detectable`.
        plates: How many.
        retest_below: See `judged`.
        generator: Where the random numbers come from.
        seconds: Time for all of them; when it is over, those that are decoded count.
        each: Time for one plate, shared with the others of its part.
        hopeless_below: Stop once the success is clearly below this.
        hopeless_z: How clearly, in standard errors.
    """
    start = time.perf_counter()
    told = detectable(problem)
    least = 0.0 if problem.loads is None else least_load(problem.noise, int(problem.design.pool_sizes.max()))
    decode = planned_decoder(told, listing=retest_below is not None, time_limit=each)
    x, y = problem.simulate(plates, generator=generator)
    part_least = LEAST_PART if retest_below is None else LISTED_PART
    tally, size = PlateTally(), part_least
    while tally.plates < plates:
        part = slice(tally.plates, tally.plates + size)
        found = decode(y[part])
        uncleared = None if problem.loads is None else not_cleared(problem, y[part])
        tally += judged(
            x[part],
            found,
            retest_below,
            problem.noise,
            least=least,
            values=problem.values,
            uncleared=uncleared,
            generator=generator,
        )
        spent = time.perf_counter() - start
        if spent >= seconds or (hopeless_below is not None and _hopeless(tally, hopeless_below, hopeless_z)):
            break
        # Large parts are fast, small ones stop in time, even if all their plates take as long as they may.
        likely, worst = (seconds - spent) / spent * tally.plates / 2, max(seconds - spent, seconds / 2) / each
        size = max(part_least, int(min(MOST_PART, likely, worst)))
    return replace(tally, seconds=time.perf_counter() - start)


def _hopeless(tally: PlateTally, wanted: float, z: float) -> bool:
    """Whether the success that a tally leaves possible is less than what is wanted; little is said on a few plates."""
    return wilson(tally.right, tally.plates, z if tally.plates >= MANY_PLATES else Z99).high < wanted


@dataclass(frozen=True)
class Scout:
    """What all simulations of one question share."""

    samples: Samples
    prior: Prior | Loads | Categories | Copies
    assay: Noise
    retest_below: float | None
    seed: int
    _designs: dict[tuple[int, int, bool, bool], Design] = field(default_factory=dict, repr=False, compare=False)

    def design(self, pools: int, weight: int, *, together: bool = False, by_triples: bool = False) -> Design:
        """The design of that size: always the same for one seed."""
        shape = pools, weight, together, by_triples
        if shape not in self._designs:
            self._designs[shape] = self._design(*shape)
        return self._designs[shape]

    def _design(self, pools: int, weight: int, together: bool, by_triples: bool) -> Design:
        if by_triples:
            return triples(items=len(self.samples), pools=pools, item_names=self.samples.names)
        return few_transfers(
            items=len(self.samples),
            pools=pools,
            weight=weight,
            households=self.samples.households,
            together=together,
            item_names=self.samples.names,
            generator=self.generator("design", pools, weight, together),
        )

    def problem(self, design: Design) -> Problem:
        """The design with the prior and the assay."""
        return Problem(design, self.prior, self.assay)

    def first_round(self, design: Design, plates: int, *, seconds: float, hopeless_below: float) -> PlateTally:
        """Simulate plates in a hurry and without follow-ups, to find about how many pools it takes."""
        return simulated_plates(
            self.problem(design),
            plates,
            retest_below=None,
            generator=self.generator("scouting", design.fingerprint),
            seconds=seconds,
            each=HASTY,
            hopeless_below=hopeless_below,
        )

    def measure(
        self,
        purpose: str,
        design: Design,
        plates: int,
        *,
        seconds: float,
        hopeless_below: float | None = None,
        hopeless_z: float = Z99,
    ) -> PlateTally:
        """Simulate plates that no other purpose uses."""
        return simulated_plates(
            self.problem(design),
            plates,
            retest_below=self.retest_below,
            generator=self.generator(purpose, design.fingerprint),
            seconds=seconds,
            hopeless_below=hopeless_below,
            hopeless_z=hopeless_z,
        )

    def generator(self, *parts: object) -> Generator:
        """Where the random numbers of one purpose come from."""
        return generator_of("qgt plan", self.seed, *parts)


def fewest(good: Callable[[int], bool], least: int, most: int, *, first: int, step: float, ratio: float) -> int | None:
    """About the smallest number between two that is good; None where the largest is not good.

    It steps from the first guess, up or down by a factor, until the place is between two; then it halves, until the two
    are within the ratio.

    Example:
        >>> fewest(lambda n: n >= 37, 4, 96, first=20, step=1.4, ratio=1.02)
        37
    """
    low, high = least - 1, None  # not good, as far as is known, and good
    guess = max(least, min(most, first))
    while high is None or (high - low > 1 and high > ratio * low):
        if good(guess):
            high = guess
        else:
            low = guess
        if high is None:
            if low == most:
                return None
            guess = min(most, math.ceil(step * guess))
        elif low < least:
            if high == least:
                return high
            guess = max(least, math.floor(high / step))
        else:
            guess = math.ceil(math.sqrt(low * high))
            guess = max(low + 1, min(high - 1, guess))
    return high
