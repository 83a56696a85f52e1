"""How many pools a problem needs at least: bounds from the literature, each with what it assumes.

Entropies are in bits unless said otherwise; K is the number of defectives, N the number of items.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from qgt.arguments import fraction, whole
from qgt.model.noise import Noise, Noiseless
from qgt.theory.evolution import amp_threshold

DENSITY = 0.5  # of the random design that the information per pool is computed for


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
    variance = noise_variance(noise, round(items * rate))
    return [
        Limit("counting", counting(items, round(items * rate)), "no noise, K known; any design, even adaptive"),
        Limit(
            "information",
            information(items, rate, noise),
            "each pool tells at most what one random half of the items tells about x, given K; any decoder",
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
    weights = _binomial(items, rate)  # of K = 0..N
    signal = items * _entropy_nats(rate) / math.log(2) - _entropy(weights)
    told = sum(float(w) * _told(noise, k) for k, w in enumerate(weights) if w > 1e-9)
    return signal / told


def noise_variance(noise: Noise, count: int) -> float:
    """The variance of the observed count around a true one."""
    truth, values, probability = _outcomes(noise, count)
    error = values - truth[0, -1]
    mean = float((probability[-1] * error).sum())
    return float((probability[-1] * (error - mean).square()).sum())


def _told(noise: Noise, defectives: int) -> float:
    """What the count of a random pool tells when K items are defective: H(y) - H(y | true count)."""
    _, _, probability = _outcomes(noise, defectives)  # (true counts, observed)
    weights = _binomial(defectives, DENSITY)
    given = sum(float(w) * _entropy(row) for w, row in zip(weights, probability, strict=True))
    return _entropy(weights @ probability) - given


def _outcomes(noise: Noise, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """True counts 0..most, observed counts, and the probability of each observed given each true count."""
    values = torch.arange(-64, most + 65, dtype=torch.float64)
    truth = torch.arange(most + 1, dtype=torch.float64)
    shape = len(truth), len(values)
    probability = noise.log_prob(values.expand(shape).contiguous(), truth[:, None].expand(shape).contiguous()).exp()
    return truth[None], values, probability


def _binomial(n: int, p: float) -> Tensor:
    k = torch.arange(n + 1, dtype=torch.float64)
    log_sets = math.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)
    weights: Tensor = (
        log_sets + torch.xlogy(k, torch.tensor(p)) + torch.special.xlog1py(n - k, torch.tensor(-p))
    ).exp()
    return weights


def _entropy(probability: Tensor) -> float:
    return float(-torch.xlogy(probability, probability).sum()) / math.log(2)


def _entropy_nats(rate: float) -> float:
    return -rate * math.log(rate) - (1 - rate) * math.log(1 - rate)
