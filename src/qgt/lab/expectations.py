"""What people expect, as a prior: "between 1 and 4 of these 96 are positive", perhaps by household, perhaps by risk.

A range becomes one unknown rate for all samples (`UnknownRate`). Where samples differ in risk, or come in households,
the prior is theirs with an unknown level (`UnknownLevel`): the factor that multiplies all odds reaches from the one
under which the lower number is expected to the one under which the higher is.
"""

import math
from functools import lru_cache

from qgt.arguments import fraction
from qgt.lab.samples import Samples
from qgt.model.prior import Bernoulli, Households, Prior, UnknownLevel, UnknownRate

ATTACK = 0.5  # the chance that a member of a household with an outbreak is positive, where nobody says another
STRANGERS = 0.2  # the share of positives that come from no household's outbreak, where nobody says another
NARROW = 1e-4  # how far apart the ends of a range are that stands for one number
Range = tuple[int | float, int | float]  # the fewest and the most
FEWEST = 0.02  # of the higher number: a level has no lower end at 0


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
    ends = (max(low, FEWEST * high), high) if high > low else (low * (1 - NARROW), low * (1 + NARROW))
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
        level = UnknownLevel(prior, math.exp(middle - NARROW), math.exp(middle + NARROW))
        if float(level.marginals(items).sum()) < number:
            low = middle
        else:
            high = middle
    return math.exp(high)
