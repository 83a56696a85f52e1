"""State evolution: what approximate message passing does to a problem of unlimited size.

With N items of rate pi, M = delta N pools and scaled noise variance sigma^2 (the noise's variance over
M alpha (1 - alpha)), the effective noise of AMP's iterations follows

    tau^2 <- sigma^2 + mmse(tau^2) / delta,      from tau^2 = sigma^2 + pi (1 - pi) / delta,

where mmse(tau^2) is the mean squared error of the best guess of a Bernoulli(pi) item seen in Gaussian noise of variance
tau^2 (Tan, Pascual Cobo, Scarlett, Venkataramanan 2024, section on state evolution).
"""

import math
from statistics import NormalDist

import torch

from qgt.arguments import fraction, positive

GRID = torch.linspace(-12.0, 12.0, 4801, dtype=torch.float64)  # standard deviations, for one Gaussian integral
WEIGHTS = torch.exp(-GRID.square() / 2) / math.sqrt(2 * math.pi) * (GRID[1] - GRID[0])


def mmse(variance: float, rate: float) -> float:
    """The least mean squared error of a Bernoulli(rate) item in Gaussian noise of the given variance.

    Example:
        >>> round(mmse(1e9, 0.06), 4), mmse(1e-4, 0.06)
        (0.0564, 0.0)
    """
    tau, logit = math.sqrt(variance), math.log(rate / (1 - rate))
    guesses = [torch.sigmoid(logit + (truth + tau * GRID - 0.5) / variance) for truth in (0.0, 1.0)]
    squares = [float((WEIGHTS * guess.square()).sum()) for guess in guesses]
    return max(0.0, rate - (1 - rate) * squares[0] - rate * squares[1])


def evolve(rate: float, ratio: float, noise: float = 0.0, iterations: int = 500) -> float:
    """The effective noise variance at which AMP ends, for `ratio` = M / N and scaled noise variance `noise`.

    Example:
        >>> evolve(0.06, 0.35) < 1e-9
        True
    """
    rate, ratio = fraction("rate", rate), positive("ratio", ratio)
    if rate in (0.0, 1.0):
        return noise
    variance = noise + rate * (1 - rate) / ratio
    for _ in range(iterations):
        after = noise + mmse(max(variance, 1e-12), rate) / ratio
        if abs(after - variance) <= 1e-12 * variance:
            break
        variance = after
    return variance


def predicted_success(rate: float, variance: float, items: int) -> float:
    """The chance that calling the items above 1/2 makes no error among so many, at AMP's final variance.

    Example:
        >>> round(predicted_success(0.06, 0.02, 100), 3)
        0.991
    """
    if variance <= 0 or rate in (0.0, 1.0):
        return 1.0
    tau, cut = math.sqrt(variance), 0.5 + variance * math.log((1 - rate) / rate)
    normal = NormalDist()
    right = (1 - rate) * normal.cdf(cut / tau) + rate * (1 - normal.cdf((cut - 1) / tau))
    return right**items


def amp_threshold(rate: float, noise_per_pool: float = 0.0, error: float = 0.01) -> float:
    """The least M / N at which AMP's normalised squared error falls below `error`, by bisection.

    `noise_per_pool` is the scaled noise variance times M / N, so that it stays fixed as M grows.
    """
    low, high = 1e-3, 4.0
    for _ in range(24):  # to 3e-7: near the threshold AMP takes hundreds of iterations, so each halving costs
        ratio = (low + high) / 2
        noise = noise_per_pool / ratio
        wrong = (evolve(rate, ratio, noise) - noise) * ratio / rate
        low, high = (low, ratio) if wrong < error else (ratio, high)
    return high
