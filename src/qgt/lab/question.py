"""The question that a plan answers: what a person knows and wants before any pool is made."""

import math
from dataclasses import dataclass

from qgt.arguments import whole
from qgt.lab.expectations import Range, expected_prior, household_rates
from qgt.lab.samples import Samples
from qgt.model.noise import Noise, Noiseless
from qgt.model.prior import Prior
from qgt.theory.limits import pools_needed

WEIGHTS = (4, 6, 8)  # transfers per sample that are tried
MOST_SAMPLES = 5000  # pairs of samples are looked at, which takes their square in memory


@dataclass(frozen=True)
class Question:
    """What a person knows and wants before any pool is made.

    Example:
        >>> question = Question(Samples.numbered(96), positives=(1, 4), certainty=0.95)
        >>> question.assay, question.follow_ups
        (Noiseless(), False)
    """

    samples: Samples
    positives: Range  # how many of the samples are expected to be positive: from, to
    assay: Noise = Noiseless()  # noqa: RUF009 - frozen and without fields, so sharing it is harmless
    certainty: float = 0.95  # the share of plates that must be decoded without a single error
    most_pools: int | None = None
    largest_pool: int | None = None  # samples in one pool
    most_transfers: int | None = None  # pools that one sample goes into
    follow_ups: bool = False  # whether doubtful samples may be tested alone in a second round
    attack_rate: float | None = None  # of samples with households: see `household_rates`
    background: float | None = None

    def __post_init__(self) -> None:
        low, high = self.positives
        if not 0 <= low <= high or not 0 < high < len(self.samples):
            fault = f"positives={self.positives} is not valid for {len(self.samples)} samples"
            raise ValueError(f"{fault}: give the fewest and the most that you expect, the most above 0 and not all.")
        if len(self.samples) > MOST_SAMPLES:
            raise ValueError(
                f"samples holds {len(self.samples):,}: plan for {MOST_SAMPLES:,} at most, in several parts."
            )
        if not 0.5 <= self.certainty <= 0.99:
            fault = f"certainty={self.certainty:g} is not valid"
            raise ValueError(f"{fault}: give a share from 0.5 to 0.99, such as 0.95 for 95 %.")
        for name in ("most_pools", "largest_pool", "most_transfers"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, whole(name, getattr(self, name), least=1))
        for name in ("attack_rate", "background"):
            if getattr(self, name) is not None and self.samples.households is None:
                raise ValueError(
                    f"{name}={getattr(self, name):g} is for samples with households, and these have none: leave it "
                    "out, or give a file of samples with a column household."
                )
        if self.samples.households is not None:
            household_rates(len(self.samples), self.positives, self.attack_rate, self.background)  # raises
        if self.samples.households is not None and self.samples.risks is not None:
            raise ValueError(
                "samples has both households and risks, and no prior here knows how much of a risk its household "
                "explains: leave out one of the two columns (keep households where positives infect each other)."
            )

    @property
    def prior(self) -> Prior:
        """What is expected, as a prior."""
        return expected_prior(self.samples, self.positives, self.attack_rate, self.background)

    @property
    def household_rates(self) -> tuple[float, float] | None:
        """The attack rate and the background, given or usual; None where samples have no households."""
        if self.samples.households is None:
            return None
        return household_rates(len(self.samples), self.positives, self.attack_rate, self.background)[1:]

    @property
    def weights(self) -> list[int]:
        """Transfers per sample to try: the usual ones, as far as they are allowed and can tell all samples apart."""
        items, pools = len(self.samples), min(self.most_pools or len(self.samples), len(self.samples))
        most = min(self.most_transfers or WEIGHTS[-1], pools)
        usual = [weight for weight in WEIGHTS if weight <= most and math.comb(pools, weight) >= items]
        return usual or [min(most, max(1, pools // 2))]

    def pool_range(self, weight: int) -> tuple[int, int]:
        """The fewest and the most pools to try; more pools than samples save nothing.

        With fewer pools than the fewest, two samples would be in exactly the same pools, or no design could work.
        """
        items = len(self.samples)
        most = min(self.most_pools or items, items)
        room = math.ceil(items * weight / min(self.largest_pool or items, items))
        while room < most and math.comb(room, weight) < items:
            room += 1
        if math.comb(room, weight) < items:
            return most + 1, most
        least = max(weight, min(room, most))
        while least < most and least < self.entropy_bound(math.ceil(items * weight / least)):
            least += 1
        return max(least, room), most

    def entropy_bound(self, size: int) -> float:
        """The number of pools of one size below which no design can work."""
        items = len(self.samples)
        rate = sum(self.positives) / 2 / items
        return pools_needed(self.assay, rate, items=items, size=min(size, items))
