"""State evolution: what approximate message passing does to a problem of unlimited size.

With N items of rate pi, M = delta N pools and scaled noise variance sigma^2 (the noise's variance over
M alpha (1 - alpha)), the effective noise of AMP's iterations follows

    tau^2 <- sigma^2 + mmse(tau^2) / delta,      from tau^2 = sigma^2 + pi (1 - pi) / delta,

where mmse(tau^2) is the mean squared error of the best guess of a Bernoulli(pi) item seen in Gaussian noise of variance
tau^2 (Tan, Pascual Cobo, Scarlett, Venkataramanan 2024, section on state evolution). Where items have vectors, such as
those of categories, covariance matrices follow the same rule.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist

import torch
from jaxtyping import Float64
from torch import Generator, Tensor

from qgt.arguments import fraction, positive

GRID = torch.linspace(-12.0, 12.0, 4801, dtype=torch.float64)  # standard deviations, for one Gaussian integral
DRAWS = 50_000  # of items, for means over vectors
LEAST_NOISE = 1e-9  # a covariance of nothing cannot be inverted
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


def evolve_vectors(
    vectors: Float64[Tensor, "values reports"],
    shares: Sequence[float],
    ratio: float,
    noise: float = 0.0,
    *,
    generator: Generator,
    iterations: int = 200,
) -> Float64[Tensor, "reports reports"]:
    """The effective noise covariance at which AMP ends for items with vectors, such as categories (`PooledAMP`).

    The matrix T follows T <- noise + E[(v - E[v | s]) (v - E[v | s])'] / ratio, with s = v + Gaussian noise of
    covariance T. The mean is over draws, the same ones in every iteration.

    Args:
        vectors: The vector of each value of an item, the value 0 included.
        shares: The probability of each value.
        ratio: M / N.
        noise: The scaled noise variance of each report.
        generator: For the draws.
        iterations: At most so many.

    Example:
        >>> import torch
        >>> g = torch.Generator().manual_seed(0)
        >>> found = evolve_vectors(torch.tensor([[0.0], [1.0]]).double(), (0.94, 0.06), 0.2, 1e-3, generator=g)
        >>> abs(float(found) / evolve(0.06, 0.2, 1e-3) - 1) < 0.1  # 0/1 items are a special case
        True
    """
    probability = torch.tensor(shares, dtype=torch.float64)
    value = torch.multinomial(probability, DRAWS, replacement=True, generator=generator)
    errors = torch.randn(DRAWS, vectors.shape[1], dtype=torch.float64, generator=generator)
    truth, unit = vectors[value], torch.eye(vectors.shape[1], dtype=torch.float64)
    mean = probability @ vectors
    covariance: Tensor = noise * unit + (vectors.T * probability @ vectors - torch.outer(mean, mean)) / ratio
    for _ in range(iterations):
        wrong = truth - _posterior(vectors, probability, truth, errors, covariance) @ vectors
        after: Tensor = noise * unit + wrong.T @ wrong / DRAWS / ratio
        if float((after - covariance).abs().max()) <= 1e-9:
            return after
        covariance = after
    return covariance


def predicted_overlap(
    vectors: Float64[Tensor, "values reports"],
    shares: Sequence[float],
    covariance: Float64[Tensor, "reports reports"],
    *,
    generator: Generator,
) -> float:
    """The mean probability that AMP gives to the true value of an item, at its final noise covariance.

    Example:
        >>> import torch
        >>> nothing, g = torch.full((1, 1), 1e6, dtype=torch.float64), torch.Generator().manual_seed(0)
        >>> vectors = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
        >>> abs(predicted_overlap(vectors, (0.9, 0.1), nothing, generator=g) - 0.82) < 0.01  # the prior: 0.9^2 + 0.1^2
        True
    """
    probability = torch.tensor(shares, dtype=torch.float64)
    value = torch.multinomial(probability, DRAWS, replacement=True, generator=generator)
    errors = torch.randn(DRAWS, vectors.shape[1], dtype=torch.float64, generator=generator)
    each = _posterior(vectors, probability, vectors[value], errors, covariance)
    return float(each.gather(1, value[:, None]).mean())


def _posterior(vectors: Tensor, probability: Tensor, truth: Tensor, errors: Tensor, covariance: Tensor) -> Tensor:
    """The probability of each value, given vectors in noise of a covariance: (draws, values)."""
    spread = covariance + LEAST_NOISE * torch.eye(len(covariance), dtype=torch.float64)
    noisy = truth + errors @ torch.linalg.cholesky(spread).T
    pulled = torch.linalg.solve(spread, vectors.T)  # (reports, values)
    odds: Tensor = probability.log() + noisy @ pulled - (vectors.T * pulled).sum(0) / 2
    return odds.softmax(1)


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
