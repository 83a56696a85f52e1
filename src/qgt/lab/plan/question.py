"""The question that a plan answers: what a person knows and wants, as it is typed, and as a prior."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

from qgt.arguments import fraction, whole
from qgt.files.tables import WrittenNumber, read_amount, read_range, read_share, read_shares
from qgt.lab.plan.loads import (
    MOST_MISSED,
    amount_assay,
    cycle_assay,
    largest_detected,
    measures_amounts,
    missed_share,
    pools_for_loads,
    read_loads,
    usual_loads,
)
from qgt.lab.sheets.samples import Samples
from qgt.model.categories import Categories, Copies
from qgt.model.loads import Amount, CycleThreshold, Loads
from qgt.model.noise import Gaussian, Noise, Noiseless, PositiveNegative, Reads, SparseInteger
from qgt.model.prior import Bernoulli, Households, Prior, UnknownLevel, UnknownRate
from qgt.theory.limits import pools_needed, pools_needed_for_values

# What people expect, as a prior: "between 1 and 4 of these 96 are positive", perhaps by household, perhaps by risk.
#
# A range becomes one unknown rate for all samples (`UnknownRate`). Where samples differ in risk, or come in households,
# the prior is theirs with an unknown level (`UnknownLevel`): the factor that multiplies all odds reaches from the one
# under which the lower number is expected to the one under which the higher is.

ATTACK = 0.5  # the chance that a member of a household with an outbreak is positive, where nobody says another
STRANGERS = 0.2  # the share of positives that come from no household's outbreak, where nobody says another
NARROW_RANGE = 1e-4  # how far apart the ends of a range are that stands for one number
Range = tuple[int | float, int | float]  # the fewest and the most
FEWEST_SHARE = 0.02  # of the higher number: a level has no lower end at 0


@lru_cache(maxsize=16)  # finding the levels takes long, and every simulation asks again
def expected_prior(
    samples: Samples, positives: Range, attack_rate: float | None = None, background: float | None = None
) -> Prior:
    """The prior of a range of positives.

    Args:
        samples: The samples, perhaps with households or risks.
        positives: The fewest and the most positives expected among them.
        attack_rate: See `household_rates`.
        background: See `household_rates`.

    Example:
        >>> expected_prior(Samples.numbered(100), (1, 4))
        UnknownRate(low=0.01, high=0.04)
        >>> expected_prior(Samples.numbered(100), (2, 2))
        Bernoulli(rate=0.02)
    """
    low, high = positives
    base: Prior
    if samples.households is not None:
        base = _by_household(samples, positives, attack_rate, background)
    elif samples.risks is not None:
        base = Bernoulli(samples.risks)
    else:
        rates = low / len(samples), high / len(samples)
        return Bernoulli(rates[0]) if low == high else UnknownRate(*rates)
    ends = (max(low, FEWEST_SHARE * high), high) if high > low else (low * (1 - NARROW_RANGE), low * (1 + NARROW_RANGE))
    return UnknownLevel(base, *(_level(base, len(samples), number) for number in ends))


def household_rates(
    samples: int, positives: Range, attack_rate: float | None = None, background: float | None = None
) -> tuple[float, float, float]:
    """The share of samples that are positive, the attack rate and the background.

    Args:
        samples: How many there are.
        positives: The fewest and the most positives expected among them; the share is that of their middle.
        attack_rate: The chance that a member of a household with an outbreak is positive; None takes a half.
        background: The chance that any other sample is positive; None takes a fifth of the share.

    Example:
        >>> household_rates(100, (1, 3)), household_rates(100, (1, 3), attack_rate=0.1, background=0.01)
        ((0.02, 0.5, 0.004), (0.02, 0.1, 0.01))
    """
    rate = sum(positives) / 2 / samples
    attack = max(ATTACK, rate) if attack_rate is None else fraction("attack_rate", attack_rate)
    others = STRANGERS * rate if background is None else fraction("background", background)
    if attack_rate is not None and attack < rate:
        raise ValueError(
            f"attack_rate={attack:g} is not valid: {100 * rate:.3g} % of all samples are expected to be positive, and "
            "in a household with an outbreak no fewer can be; give a higher attack rate, or leave out the households."
        )
    if background is not None and others > rate:
        raise ValueError(
            f"background={others:g} is not valid: {100 * rate:.3g} % of all samples are expected to be positive, and "
            "the background is a part of them; give a lower background, or expect more positives."
        )
    return rate, attack, others


def _by_household(
    samples: Samples, positives: Range, attack_rate: float | None, background: float | None
) -> Households:
    """Households whose members are positive at the mean rate, most of them through each other."""
    rate, attack, others = household_rates(len(samples), positives, attack_rate, background)
    seed = min(1.0, (rate - others) / (attack - others)) if others < attack else 1.0
    return Households(labels=samples.households, seed_rate=seed, attack_rate=attack, background=others)


def _level(prior: Prior, items: int, number: float) -> float:
    """The factor of all odds under which that many items are expected to be defective."""
    low, high = -20.0, 20.0  # logarithms
    for _ in range(50):
        middle = (low + high) / 2
        level = UnknownLevel(prior, math.exp(middle - NARROW_RANGE), math.exp(middle + NARROW_RANGE))
        if float(level.marginals(items).sum()) < number:
            low = middle
        else:
            high = middle
    return math.exp(high)


@lru_cache(maxsize=16)
def by_risk(values: Categories | Copies, risks: tuple[float, ...]) -> Categories | Copies:
    """Copies or categories of samples that differ in risk: as many of each as before, and more where the risk is high.

    One factor multiplies the odds of all risks, so that as many samples are expected to be positive as `values` says.
    Which category a positive is in does not depend on its risk.

    Example:
        >>> [[round(rate, 3) for rate in row] for row in by_risk(Categories((0.2, 0.05)), (0.01, 0.01)).rates]
        [[0.2, 0.05], [0.2, 0.05]]
        >>> [round(one, 3) for one in by_risk(Copies(frequency=0.1, ploidy=1), (0.01, 0.03)).frequency]
        [0.053, 0.147]
    """
    positive = 1 - values.distribution[0]
    low, high = -60.0, 60.0  # logarithms of the factor
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(_chances(risks, middle)) < positive * len(risks) else (low, middle)
    chances = [float(f"{chance:.9g}") for chance in _chances(risks, high)]
    if isinstance(values, Categories):
        return replace(
            values, rates=[[chance * rate / positive for rate in values.distribution[1:]] for chance in chances]
        )
    return replace(values, frequency=[1 - (1 - chance) ** (1 / values.ploidy) for chance in chances])


def _chances(risks: Sequence[float], factor: float) -> list[float]:
    """Risks whose odds are multiplied by a factor, of which the logarithm is given."""
    return [1 / (1 + (1 - risk) / risk * math.exp(-factor)) for risk in risks]


# The question.

WEIGHTS = (4, 6, 8)  # transfers per sample that are tried
LOAD_WEIGHTS = (3, 4)  # the same where pools report amounts, each of which tells more than a count
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
    loads: Loads | None = None  # of positives, where the assay measures amounts; its own rate is not used
    most_missed: float = MOST_MISSED  # the share of positives that pools may be too dilute to detect
    values: Categories | Copies | None = None  # where samples have copies or categories; `positives` follow from it

    def __post_init__(self) -> None:
        if self.values is not None:
            object.__setattr__(self, "positives", positives_of(self.values, len(self.samples)))
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
        self._check_values()
        self._check_loads()

    def _check_values(self) -> None:
        values, samples = self.values, self.samples
        if values is None:
            return
        kind = "copies" if isinstance(values, Copies) else "categories"
        if samples.households is not None:
            raise ValueError(
                f"samples has households ({len(set(samples.households))} of them), and {kind} are planned for samples "
                "that are independent of each other: leave out the column household, or plan for positive and negative "
                "samples with --positives."
            )
        if samples.risks is not None and isinstance(values, Copies) and values.frequency is None:
            raise ValueError(
                f"samples has risks, and values={values} has no frequency that could differ from sample to sample: "
                "give Copies(frequency=...), or leave out the column risk."
            )
        if samples.risks is not None and values.by_item:
            raise ValueError(
                "samples has risks, and values has rates of its own for each sample: leave out the column risk, or "
                "give rates of all samples."
            )

    def _check_loads(self) -> None:
        measured = measures_amounts(self.assay)
        if measured and self.values is not None:
            raise ValueError(
                f"assay={self.assay} measures amounts, and samples have copies or categories: give counts."
            )
        if self.loads is not None and not measured:
            raise ValueError(f"loads={self.loads} is for assays that measure amounts: give CycleThreshold or Amount.")
        if not measured:
            return
        if self.loads is None:
            object.__setattr__(self, "loads", usual_loads(self.assay))
        assert self.loads is not None
        object.__setattr__(self, "most_missed", fraction("most_missed", self.most_missed))
        if self.largest < 2 <= (self.largest_pool or 2):
            lost = missed_share(self.loads, self.assay, 2)
            raise ValueError(
                f"most_missed={self.most_missed:g} leaves no pools: pools of 2 samples already miss "
                f"{100 * lost:.1f} % of positives, which they dilute; give more, or test each sample alone."
            )

    @property
    def prior(self) -> Prior | Loads | Categories | Copies:
        """What is expected, as a prior."""
        if self.values is not None:
            return self.values if self.samples.risks is None else by_risk(self.values, self.samples.risks)
        who = expected_prior(self.samples, self.positives, self.attack_rate, self.background)
        return who if self.loads is None else replace(self.loads, rate=None, prior=who)

    @cached_property
    def largest(self) -> int:
        """The largest pool: as large as is allowed and, where samples have loads, detects enough of the positives."""
        items = len(self.samples)
        if self.loads is not None:
            items = largest_detected(self.loads, self.assay, items, self.most_missed)
        return min(self.largest_pool or items, items)

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
        tried = WEIGHTS if self.loads is None else LOAD_WEIGHTS
        most = min(self.most_transfers or tried[-1], pools)
        usual = [weight for weight in tried if weight <= most and math.comb(pools, weight) >= items]
        return usual or [min(most, max(1, pools // 2))]

    def pool_range(self, weight: int) -> tuple[int, int]:
        """The fewest and the most pools to try; more pools than samples save nothing.

        With fewer pools than the fewest, two samples would be in exactly the same pools, or no design could work.
        """
        items = len(self.samples)
        most = min(self.most_pools or items, items)
        room = math.ceil(items * weight / self.largest)
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
        if self.loads is not None and isinstance(self.assay, CycleThreshold | Amount):
            return pools_for_loads(self.loads, self.assay, rate, items, min(size, items))
        if self.values is not None:
            values = self.prior
            assert isinstance(values, Categories | Copies)
            return pools_needed_for_values(self.assay, values, items=items, size=min(size, items))
        return pools_needed(self.assay, rate, items=items, size=min(size, items))


# What people answer when they are asked about their samples, as the command line and a form give it.

ASSAY_NUMBERS = {  # what each kind of assay reports, and the numbers that say how it errs
    "count": "the number of positives in the pool; give the share of counts that are off by one, such as 0.02 or 2%",
    "reading": "a real number near the count; give its standard deviation, such as 0.2",
    "positive": "positive or negative; give sensitivity and specificity, such as 0.98,0.99 or 98%,99%",
    "reads": "how many of a pool's reads show the allele; give the share of reads that are wrong, such as 0.1%",
}
# Assays that measure amounts, and the options that say how; what is left out has a usual value.
MEASURED = {
    "ct": ("sigma", "limit", "dilution", "empty_ct", "load_mean", "load_sd", "loads"),
    "amount": ("relative", "absolute", "limit", "dilution", "load_mean", "load_sd", "loads"),
}
ERROR_NUMBERS = {  # how many numbers say how an assay errs
    "count": (0, 1),
    "reading": (1,),
    "positive": (0, 2),
    "reads": (0, 1),
}
# Positives on a plate: below it, a number without a sign is more likely meant as a share of the samples.
RARE_POSITIVES = 0.2


def parse_positives(text: str, samples: int) -> tuple[float, float]:
    """The fewest and the most positives: `2`, `1-4`, `1 to 4`, or in per cent of the samples, `1-3 %`.

    Example:
        >>> parse_positives("1-4", 96), parse_positives("1 to 5 %", 200), parse_positives("3", 96)
        ((1.0, 4.0), (2.0, 10.0), (3.0, 3.0))
        >>> parse_positives("0.01-0.03", 96)
        Traceback (most recent call last):
        ValueError: positives=0.01-0.03 is hardly any on a plate of 96 samples: did you mean 1 to 3 % of the samples? Then write 1%-3%. If you mean 0.01 to 0.03 positives on a plate, write 0.01042%-0.03125%.
    """  # noqa: E501 - an example's line
    return expected_positives(*read_range("positives", text), samples)


def expected_positives(
    fewest: WrittenNumber, most: WrittenNumber, samples: int, *, between: str = "-"
) -> tuple[float, float]:
    """The numbers of positives that a person wrote, who is asked back where a share was more likely meant.

    A share of the samples is often written as 0.01 to 0.03. Taken as numbers of positives, that is one positive in
    fifty plates; pools that hold every sample would do for it, and find nobody.

    Args:
        fewest: The fewest, as written.
        most: The most.
        samples: How many samples there are.
        between: What stands between the two where a person writes them.

    Example:
        >>> expected_positives(WrittenNumber(1.0, percent=True), WrittenNumber(3.0, percent=True), 200)
        (2.0, 6.0)
    """
    if fewest.percent and not most.percent:
        raise ValueError("positives has one end in per cent: give both ends in per cent, or none.")
    if most.percent:
        return fewest.value / 100 * samples, most.value / 100 * samples
    if 0 < most.value < RARE_POSITIVES:

        def written(times: float, sign: str, join: str) -> str:
            return join.join(dict.fromkeys(f"{number.value * times:.4g}{sign}" for number in (fewest, most)))

        raise ValueError(
            f"positives={written(1.0, '', '-')} is hardly any on a plate of {samples} samples: did you mean "
            f"{written(100.0, '', ' to ')} % of the samples? Then write {written(100.0, '%', between)}. If you mean "
            f"{written(1.0, '', ' to ')} positives on a plate, write {written(100 / samples, '%', between)}."
        )
    return fewest.value, most.value


def positives_of(values: Categories | Copies, samples: int) -> Range:
    """How many samples are expected to have any other value than 0.

    Example:
        >>> positives_of(Categories((0.25, 0.25)), 96)
        (48.0, 48.0)
    """
    number = samples * (1 - values.distribution[0])
    return number, number


def parse_categories(text: str) -> Categories:
    """The categories that a person wrote, each with the share of samples in it: `variant A=3%, variant B=1%`.

    Example:
        >>> parse_categories("variant A=3%, variant B=0.5%")
        Categories(rates=(0.03, 0.005), reported=None, names=('variant A', 'variant B'))
        >>> parse_categories("variant A, variant B")
        Traceback (most recent call last):
        ValueError: categories='variant A, variant B' is not valid: give a name and a share for each, such as \
'variant A=3%, variant B=1%'.
    """
    names, rates = [], []
    for part in re.split(r"[,;](?!\d+\s*%?\s*(?:[,;]|$))", text):  # not the comma of 0,03
        name, equals, share = part.partition("=")
        if not equals or not name.strip() or not share.strip():
            example = "give a name and a share for each, such as 'variant A=3%, variant B=1%'"
            raise ValueError(f"categories={text!r} is not valid: {example}.")
        names.append(" ".join(name.split()))
        rates.append(read_share(f"categories {names[-1]}", share.strip()))
    try:
        return Categories(rates, names=names)
    except ValueError as error:
        raise ValueError(f"categories={text!r} is not valid: {error}") from error


def parse_values(categories: str | None, allele: float | None, positives: str | None) -> Categories | Copies | None:
    """What samples have, where that is not just positive or negative.

    Args:
        categories: The categories and their shares, see `parse_categories`.
        allele: The frequency of an allele, of which samples have 0, 1 or 2 copies.
        positives: How many are positive, which neither of the two goes with.

    Example:
        >>> parse_values(None, 0.01, None), parse_values(None, None, "1-4")
        (Copies(frequency=0.01, ploidy=2, shares=None), None)
    """
    given = {"categories": categories, "allele": allele, "positives": positives}
    both = [name for name, value in given.items() if value is not None]
    if len(both) > 1:
        raise ValueError(f"{both[0]} and {both[1]} were both given: give one of them.")
    if allele is not None:
        return Copies(frequency=allele, ploidy=2)
    return None if categories is None else parse_categories(categories)


def parse_assay(kind: str, errors: Sequence[float], depth: int | None = None) -> Noise:
    """The noise of an assay.

    Args:
        kind: One of `ASSAY_NUMBERS`.
        errors: How it errs, in the numbers that `ASSAY_NUMBERS` asks for; none for an assay that never errs.
        depth: The reads of each pool, for the assay `reads`.

    Example:
        >>> parse_assay("count", [0.02]), parse_assay("count", [])
        (SparseInteger(rate=0.02, bound=1), Noiseless())
    """
    _check_kind(kind)
    if len(errors) not in ERROR_NUMBERS[kind]:
        raise ValueError(f"errors={list(errors)} is not valid for {kind}: it reports {ASSAY_NUMBERS[kind]}.")
    if (depth is None) == (kind == "reads"):
        remedy = "give the number of reads of each pool" if depth is None else "it is for the assay reads: leave it out"
        raise ValueError(f"depth={depth} is not valid for {kind}: {remedy}.")
    try:
        if kind == "reads":
            assert depth is not None  # as was just seen
            return Reads(depth=depth, error=errors[0] if errors else 0.0)
        if kind == "reading":
            return Gaussian(sigma=errors[0])
        if kind == "positive":
            return PositiveNegative(*errors)
        return SparseInteger(rate=errors[0], bound=1) if errors and errors[0] else Noiseless()
    except ValueError as error:
        given = ",".join(f"{one:g}" for one in errors)
        raise ValueError(f"errors={given} is not valid for {kind}: {error}") from error


def parse_measured(kind: str, given: Mapping[str, float | str | Path | None]) -> tuple[Noise, Loads] | None:
    """The noise of an assay that measures amounts and the loads of positives; None for an assay that counts.

    Args:
        kind: The kind of assay: a name in `MEASURED` or in `ASSAY_NUMBERS`.
        given: Options by their names in `MEASURED`; None, or no entry, takes the usual value.

    Example:
        >>> noise, loads = parse_measured("ct", {"sigma": 0.2, "load_mean": 30.0})
        >>> noise.sigma, noise.limit, noise.dilution, round(loads.mean, 2)
        (0.2, 38.0, 1.0, 2.11)
        >>> parse_measured("count", {"sigma": 0.2})
        Traceback (most recent call last):
        ValueError: sigma=0.2 is not for the assay count: leave it out, or give the assay ct.
    """
    own = MEASURED.get(kind, ())
    for name, value in given.items():
        if value is not None and name not in own:
            fits = " or ".join(other for other, names in MEASURED.items() if name in names)
            raise ValueError(f"{name}={value} is not for the assay {kind}: leave it out, or give the assay {fits}.")
    if not own:
        return None
    numbers = {name: value for name, value in given.items() if isinstance(value, float | int)}
    settings = {name: value for name, value in numbers.items() if not name.startswith(("load", "empty"))}
    noise = cycle_assay(**settings, empty=numbers.get("empty_ct")) if kind == "ct" else amount_assay(**settings)
    file, mean, sd = given.get("loads"), numbers.get("load_mean"), numbers.get("load_sd")
    if file is None:
        return noise, usual_loads(noise, mean, sd)
    if mean is not None or sd is not None:
        raise ValueError(f"loads={file} and load_mean or load_sd were both given: give the file, or the two numbers.")
    return noise, read_loads(str(file), noise)


def two_stages(kind: str) -> bool:
    """Whether doubtful samples are tested alone in a second round, where nobody says otherwise.

    Pools that are only positive or negative tell little, so one round takes many of them; laboratories that use such an
    assay test the samples of positive pools alone today. A PCR machine tests single samples as it tests pools, and a
    weak positive that not all its pools detect is settled by a test of its own.

    Example:
        >>> two_stages("positive"), two_stages("ct"), two_stages("count")
        (True, True, False)
    """
    return kind == "positive" or kind in MEASURED


def parse_errors(text: str, kind: str) -> list[float]:
    """How an assay errs, in the numbers that `ASSAY_NUMBERS` asks for; none where nothing is written.

    Example:
        >>> parse_errors("98 %, 99 %", "positive"), parse_errors("0,02", "count"), parse_errors("", "count")
        ([0.98, 0.99], [0.02], [])
    """
    _check_kind(kind)
    if not text.strip():
        return []
    if kind == "reading":
        return [read_amount("errors", text)]
    try:
        return read_shares("errors", text, wanted=ERROR_NUMBERS[kind][1:])
    except ValueError as error:
        if "may mean" in str(error) or "per cent" in str(error):
            raise
        raise ValueError(f"errors={text!r} is not valid for {kind}: it reports {ASSAY_NUMBERS[kind]}.") from error


def _check_kind(kind: str) -> None:
    if kind not in ASSAY_NUMBERS:
        raise ValueError(f"assay={kind!r} is not known: give one of {', '.join([*ASSAY_NUMBERS, *MEASURED])}.")
