"""How many pools a problem needs at least: bounds from the literature, each with what it assumes.

Entropies are in bits unless said otherwise; K is the number of defectives, N the number of items.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from qgt.arguments import fraction, whole
from qgt.model.categories import Categories, Copies
from qgt.model.noise import Noise, Noiseless, SparseInteger
from qgt.theory.evolution import amp_threshold

DENSITY = 0.5  # of the random design that the information per pool is computed for
TAIL = 1e-15  # probability of a report that is left out
ALL, NODES = 256, 32  # numbers of defectives: up to so many are all computed; of more a few, and lines between
FAR_DEVIATIONS = 10.0  # standard deviations beyond which a binomial number does not happen
MOST_REPORTS = 2**24  # reports of a pool that are looked at
FAR_REPORTS = 20_000  # counts: where reports of copies and categories reach farther, they are taken to be exact
SHORT = 64  # numbers that are added up one by one
REPORT_STEPS = 500  # from a true count to the farthest report, where reports need not be whole


@dataclass(frozen=True)
class Limit:
    """A number of pools below which something cannot work, and what that assumes.

    Example:
        >>> print(limits(items=100, rate=0.06)[0])
        counting: 10.7 pools
    """

    name: str
    pools: float
    assumes: str

    def __str__(self) -> str:
        return f"{self.name}: {self.pools:.1f} pools"


def limits(*, items: int, rate: float, noise: Noise = Noiseless()) -> list[Limit]:  # noqa: B008 - frozen, no fields
    """The bounds for items that are defective independently with one rate.

    Example:
        >>> [limit.name for limit in limits(items=100, rate=0.06)]
        ['counting', 'information', 'linear regime', 'message passing']
    """
    items, rate = whole("items", items, least=2), fraction("rate", rate)
    if not 0 < rate < 1 or round(items * rate) < 1:
        raise ValueError(f"rate={rate} is not valid here: give one with at least one defective in {items} items.")
    variance = noise_variance(noise, round(items * rate), round(items * DENSITY))
    return [
        Limit("counting", counting(items, round(items * rate)), "no noise, K known; any design, even adaptive"),
        Limit(
            "information",
            information(items, rate, noise),
            "a pool gives at most the information of a random half of the items, K known; any decoder",
        ),
        Limit(
            "linear regime",
            2 * items * _entropy_nats(rate) / math.log(items),
            "no noise, K a fixed share of N, N without limit; any decoder for a random design",
        ),
        Limit(
            "message passing",
            items * amp_threshold(rate, variance / (items * DENSITY * (1 - DENSITY))),
            "AMP by state evolution to 1 % squared error; N without limit, K known, noise taken as Gaussian",
        ),
    ]


def counting(items: int, defectives: int) -> float:
    """log C(N, K) / log(K + 1): outcomes must outnumber the sets they tell apart."""
    sets = math.lgamma(items + 1) - math.lgamma(defectives + 1) - math.lgamma(items - defectives + 1)
    return sets / math.log(defectives + 1)


def information(items: int, rate: float, noise: Noise) -> float:
    """(H(x) - H(K)) / I(one pool; x | K), Fano's argument with K given away."""
    numbers, weights = _likely(items, rate)  # of K
    signal = items * _entropy_nats(rate) / math.log(2) - _entropy(weights)
    size = round(items * DENSITY)
    some = weights > 1e-9
    return signal / _mean(lambda k: _learned(noise, k, size), numbers[some].tolist(), weights[some])


def _mean(value: Callable[[int], float], at: Sequence[int], weights: Tensor) -> float:
    """The weighted sum of a smooth function at neighbouring whole numbers: of many, a few and lines between."""
    step = 1 if len(at) <= ALL else -(-len(at) // NODES)
    nodes = [*at[:-1:step], at[-1]]
    values = np.interp(at, nodes, [value(k) for k in nodes])
    return float((weights * torch.from_numpy(values)).sum())


def pools_needed(noise: Noise, rate: float, *, items: int, size: int) -> float:
    """H(x) / I(one pool; x) for pools of one size: with fewer pools the counts cannot tell all x apart.

    Items are taken as defective independently with the one rate.

    Example:
        >>> round(pools_needed(Noiseless(), 0.06, items=100, size=50), 1)
        11.9
    """
    items, rate = whole("items", items, least=1), fraction("rate", rate)
    weights = _binomial(whole("size", size, least=1), rate)
    most = int((weights > 1e-9).nonzero().max())  # counts beyond it do not happen
    _, probability = _reports(noise, most, size)  # (true counts, reports)
    weights = weights[: most + 1]
    learned = _entropy(weights @ probability) - _mean_entropy(weights, probability)
    return items * _entropy_nats(rate) / math.log(2) / learned if learned > 0 else math.inf


def pools_needed_for_values(noise: Noise, values: Categories | Copies, *, items: int, size: int) -> float:
    """The same for items with copies or categories: H(x) / I(all that a pool of `size` items reports; x).

    What a pool reports of several categories tells no more than the sum of what it reports of each. Where items have
    rates of their own, the pool is one of items with the mean rates, whose total is more uncertain than any other's.

    Example:
        >>> from qgt.model.categories import Categories
        >>> round(pools_needed_for_values(Noiseless(), Categories((0.03, 0.03)), items=100, size=50), 1)
        8.8
    """
    law = torch.tensor(values.distribution, dtype=torch.float64)
    if isinstance(values, Categories):
        totals = [_binomial(size, values.distribution[category]) for category in values.columns]
    else:
        total = torch.ones(1, dtype=torch.float64)
        for _ in range(size):
            total = _summed(total, law)
        totals = [total]
    copies = values.levels if isinstance(values, Copies) else 1
    learned = sum(_told(noise, one, copies * size) for one in totals)
    doubt = sum(map(_entropy, values.distributions(items))) if values.by_item else items * _entropy(law)
    return doubt / learned if learned > 0 else math.inf


def _told(noise: Noise, weights: Tensor, size: int) -> float:
    """What a report tells of a total with these probabilities, in bits."""
    most = int((weights > 1e-9).nonzero().max())  # totals beyond it do not happen
    if noise.reach(size, TAIL) > FAR_REPORTS:
        return _entropy(weights)  # no report tells more
    _, probability = _reports(noise, most, size)  # (totals, reports)
    weights = weights[: most + 1]
    return _entropy(weights @ probability) - _mean_entropy(weights, probability)


def fewest_tests(noise: Noise, rate: float, *, items: int) -> float:
    """H(x) / I(one pool; x) for pools of the best size: with fewer tests, each would have to tell more than that one.

    For pools that are all chosen beforehand this is a bound. Pools chosen by earlier counts may tell more than the best
    first pool, but in the settings measured none comes near that.

    Example:
        >>> round(fewest_tests(Noiseless(), 0.06, items=100), 1)
        10.0
    """
    return min(pools_needed(noise, rate, items=items, size=size) for size in range(1, items + 1))


def noise_variance(noise: Noise, count: int, size: int) -> float:
    """The variance of what a pool of that size reports around a true count."""
    values, (probability,) = _reports(noise, count, size, least=count)
    error = values - count
    mean = float((probability * error).sum())
    return float((probability * (error - mean).square()).sum())


def _learned(noise: Noise, defectives: int, size: int) -> float:
    """What the report of a random pool tells when K items are defective: H(y) - H(y | true count)."""
    numbers, weights = _likely(defectives, DENSITY)
    least, most = int(numbers[0]), int(numbers[-1])
    if isinstance(noise, Noiseless | SparseInteger):  # the error does not depend on the count
        _, (error,) = _reports(noise, 0, size)
        return _entropy(_summed(weights, error)) - _entropy(error)
    _, probability = _reports(noise, most, size, least=least)  # (true counts, reports)
    return _entropy(weights @ probability) - _mean_entropy(weights, probability)


def _summed(one: Tensor, other: Tensor) -> Tensor:
    """The law of the sum of two independent whole numbers."""
    short, long = sorted((one, other), key=len)
    if len(short) > SHORT:
        from scipy.signal import fftconvolve  # takes a second to import

        return torch.from_numpy(fftconvolve(short.numpy(), long.numpy())).clamp(min=0.0)
    total = torch.zeros(len(one) + len(other) - 1, dtype=torch.float64)
    for shift, weight in enumerate(short.tolist()):
        total[shift : shift + len(long)] += weight * long
    return total


def _reports(noise: Noise, most: int, size: int, least: int = 0) -> tuple[Tensor, Tensor]:
    """All reports of a pool but for a tail, and the probability of each given each true count from `least` to `most`.

    Reports that need not be whole are cut into small steps: all entropies grow by one number, and differences stay.
    """
    reach = noise.reach(size, TAIL)
    step = 1.0 if noise.integer else max(reach, 1e-6) / REPORT_STEPS
    if (most - least + 2 * reach) / step > MOST_REPORTS:
        raise ValueError(
            f"noise={noise} reaches {reach:,.0f} counts far: give one that reaches {MOST_REPORTS // 4:,} at most."
        )
    values = torch.arange(least - reach, most + reach + step / 2, step, dtype=torch.float64)
    truth = torch.arange(least, most + 1, dtype=torch.float64)[:, None]
    sizes = torch.full_like(truth, size)
    return values, step * noise.log_prob(values, truth, sizes).exp()


def _binomial(n: int, p: float) -> Tensor:
    k = torch.arange(n + 1, dtype=torch.float64)
    log_sets = math.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)
    weights: Tensor = (
        log_sets + torch.xlogy(k, torch.tensor(p)) + torch.special.xlog1py(n - k, torch.tensor(-p))
    ).exp()
    return weights


def _likely(n: int, p: float) -> tuple[Tensor, Tensor]:
    """The numbers that a binomial one is likely to be, and their probabilities: of large n, those near the mean."""
    reach = FAR_DEVIATIONS * math.sqrt(n * p * (1 - p)) + 50
    numbers = torch.arange(max(0, int(n * p - reach)), min(n, int(n * p + reach)) + 1)
    k = numbers.to(torch.float64)
    log_sets = math.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)
    weights = torch.softmax(log_sets + k * math.log(p) + (n - k) * math.log1p(-p), 0)
    return numbers, weights


def _entropy(probability: Tensor) -> float:
    return float(-torch.xlogy(probability, probability).sum()) / math.log(2)


def _mean_entropy(weights: Tensor, rows: Tensor) -> float:
    """The mean of the entropies of some distributions, one in each row."""
    return float(-(weights @ torch.xlogy(rows, rows).sum(1))) / math.log(2)


def _entropy_nats(rate: float) -> float:
    return -rate * math.log(rate) - (1 - rate) * math.log(1 - rate)
