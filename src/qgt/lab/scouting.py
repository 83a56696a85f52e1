"""Simulated plates of one design: how many are decoded right, and how many samples have to be tested again.

Every number of plates is fixed beforehand, and every design and plate is drawn from a generator of its own that
depends on the seed, the weight, the number of pools and the purpose alone. A limit on time is the one thing that can
change a result: where a machine is too slow, fewer plates are simulated, and the plan says how many.
"""

import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from qgt.decoders.certified.decoder import Certified
from qgt.decoders.contract import BoundDecoder
from qgt.decoders.highs.exact import ExactMAP
from qgt.decoders.results import Decoded
from qgt.lab.expectations import Range, expected_prior
from qgt.lab.samples import Samples
from qgt.lab.transfers import few_transfers
from qgt.model.design import Design
from qgt.model.noise import Noise
from qgt.model.problem import Problem
from qgt.trust.scoring import wilson

PART = 50  # plates decoded together: after each part one may stop
ODDS = 100.0  # answers that come close are at least 1/odds as probable


@dataclass(frozen=True)
class Tally:
    """Plates simulated, how many were right, and how many samples were tested again on all of them."""

    plates: int = 0
    right: int = 0
    follow_ups: int = 0

    @property
    def success(self) -> float:
        """The share that was right."""
        return self.right / self.plates if self.plates else 0.0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.plates + other.plates, self.right + other.right, self.follow_ups + other.follow_ups)


def planned_decoder(problem: Problem, *, listing: bool, time_limit: float | None = None) -> BoundDecoder:
    """The decoder that plans are made for: certified, or exact where that does not take the prior.

    Args:
        problem: The problem to bind it to.
        listing: Whether the answers that come close are listed, which takes several times as long.
        time_limit: Seconds for each plate.
    """
    if decoder_name(problem) == "exact":
        return ExactMAP(time_limit=time_limit).bind(problem)
    return Certified(odds=ODDS if listing else 1.0, time_limit=time_limit, certificates=False).bind(problem)


def decoder_name(problem: Problem) -> str:
    """What `qgt decode` calls the decoder that a plan is made for."""
    return "certified" if Certified().supports(problem) is None else "exact"


def judged(x: Tensor, found: Decoded, retest_below: float | None) -> Tally:
    """How the decoded plates did against the truth.

    Args:
        x: The truth, (plates, samples).
        found: What the decoder says.
        retest_below: Test the doubtful samples of plates whose confidence is below this; None tests none.
    """
    fine = found.x == x  # (plates, samples)
    again = torch.zeros_like(fine)
    evidence = found.evidence
    if retest_below is not None and evidence.confidence is not None and evidence.unsettled is not None:
        sure = evidence.confidence >= retest_below
        if evidence.complete is not None:
            sure = sure & evidence.complete
        again = evidence.unsettled & ~sure[:, None]
    return Tally(len(x), int((fine | again).all(1).sum()), int(again.sum()))


def simulated(
    problem: Problem,
    plates: int,
    *,
    retest_below: float | None,
    generator: Generator,
    seconds: float,
    hopeless_below: float | None = None,
) -> Tally:
    """Simulate and decode plates.

    Args:
        problem: The design, the prior and the assay.
        plates: How many.
        retest_below: See `judged`.
        generator: Where the random numbers come from.
        seconds: Time for all of them; when it is over, those that were decoded count.
        hopeless_below: Stop once the success is clearly below this.
    """
    start = time.perf_counter()
    decode = planned_decoder(problem, listing=retest_below is not None, time_limit=seconds / plates)
    tally = Tally()
    while tally.plates < plates:
        x, y = problem.simulate(min(PART, plates - tally.plates), generator=generator)
        tally += judged(x, decode(y), retest_below)
        if time.perf_counter() - start > seconds:
            break
        if hopeless_below is not None and wilson(tally.right, tally.plates).high < hopeless_below:
            break
    return tally


@dataclass(frozen=True)
class Scout:
    """What all simulations of one question share."""

    samples: Samples
    positives: Range
    assay: Noise
    retest_below: float | None
    seed: int

    def design(self, pools: int, weight: int, *, together: bool = False) -> Design:
        """The design of that size: always the same for one seed."""
        return few_transfers(
            items=len(self.samples),
            pools=pools,
            weight=weight,
            households=self.samples.households,
            together=together,
            item_names=self.samples.names,
            generator=self._generator("design", pools, weight, together),
        )

    def problem(self, design: Design) -> Problem:
        """The design with the prior and the assay."""
        return Problem(design, expected_prior(self.samples, self.positives), self.assay)

    def measure(
        self, purpose: str, design: Design, plates: int, *, seconds: float, hopeless_below: float | None = None
    ) -> Tally:
        """Simulate plates that no other purpose uses."""
        return simulated(
            self.problem(design),
            plates,
            retest_below=self.retest_below,
            generator=self._generator(purpose, design.fingerprint),
            seconds=seconds,
            hopeless_below=hopeless_below,
        )

    def _generator(self, *parts: object) -> Generator:
        text = " ".join(map(str, ["qgt plan", self.seed, *parts]))
        return Generator().manual_seed(int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big"))


def fewest(good: Callable[[int], bool], least: int, most: int, *, first: int, ratio: float) -> int | None:
    """About the smallest number between two that is good; None where the largest is not good.

    It steps from the first guess, up or down by half, until the place is known within a factor; then it halves.

    Example:
        >>> fewest(lambda n: n >= 37, 4, 96, first=20, ratio=1.02)
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
            guess = min(most, math.ceil(1.4 * guess))
        elif low < least:
            if high == least:
                return high
            guess = max(least, math.floor(high / 1.4))
        else:
            guess = math.ceil(math.sqrt(low * high))
            guess = max(low + 1, min(high - 1, guess))
    return high
