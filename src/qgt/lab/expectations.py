"""What people expect, as a prior: "between 1 and 4 of these 96 are positive", perhaps by household, perhaps by risk.

A range becomes one unknown rate for all samples (`UnknownRate`). Where samples differ in risk, or come in households,
the prior is theirs with an unknown level (`UnknownLevel`): the factor that multiplies all odds reaches from the one
under which the lower number is expected to the one under which the higher is.
"""

import math

from qgt.lab.samples import Samples
from qgt.model.households import Households
from qgt.model.prior import Bernoulli, Prior
from qgt.model.unknown import UnknownLevel, UnknownRate

ATTACK = 0.5  # of the other members of a household that has one positive
STRANGERS = 0.2  # the share of positives that come from no household's outbreak
NARROW = 1e-4  # how far apart the ends of a range are that stands for one number
Range = tuple[int | float, int | float]  # the fewest and the most
FEWEST = 0.02  # of the higher number: a level has no lower end at 0


def expected_prior(samples: Samples, positives: Range) -> Prior:
    """The prior of a range of positives.

    Args:
        samples: The samples, perhaps with households or risks.
        positives: The fewest and the most positives expected among them.

    Example:
        >>> expected_prior(Samples.numbered(100), (1, 4))
        UnknownRate(low=0.01, high=0.04)
        >>> expected_prior(Samples.numbered(100), (2, 2))
        Bernoulli(rate=0.02)
    """
    low, high = positives
    base: Prior
    if samples.households is not None:
        base = _by_household(samples, (low + high) / 2)
    elif samples.risks is not None:
        base = Bernoulli(samples.risks)
    else:
        rates = low / len(samples), high / len(samples)
        return Bernoulli(rates[0]) if low == high else UnknownRate(*rates)
    ends = (max(low, FEWEST * high), high) if high > low else (low * (1 - NARROW), low * (1 + NARROW))
    return UnknownLevel(base, *(_level(base, len(samples), number) for number in ends))


def _by_household(samples: Samples, number: float) -> Households:
    """Households whose members are positive at the mean rate, most of them through each other."""
    rate = number / len(samples)
    background = STRANGERS * rate
    seed = min(1.0, (rate - background) / (ATTACK - background)) if rate < ATTACK else 1.0
    return Households(labels=samples.households, seed_rate=seed, attack_rate=max(ATTACK, rate), background=background)


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
