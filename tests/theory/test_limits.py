"""Bounds and state evolution against known values, simulation and brute force."""

import math

import pytest
import torch

import qgt
from qgt.theory.evolution import amp_threshold, evolve, mmse, predicted_success
from qgt.theory.limits import counting, limits, noise_variance


def test_known_values_in_the_papers_setting() -> None:
    assert counting(100, 6) == pytest.approx(math.log2(math.comb(100, 6)) / math.log2(7))
    for rate, pools in ((0.0, 13.0), (0.06, 14.7), (0.1, 15.6), (0.2, 17.9)):
        found = {limit.name: limit.pools for limit in limits(items=100, rate=0.06, noise=qgt.SparseInteger(rate, 1))}
        assert found["information"] == pytest.approx(pools, abs=0.05)
        assert found["counting"] == pytest.approx(10.7, abs=0.05)
        assert found["linear regime"] == pytest.approx(9.86, abs=0.01)


@pytest.mark.parametrize(("rate", "ratio"), [(0.06, 0.171), (0.1, 0.24), (0.3, 0.43)])
def test_amp_threshold(rate: float, ratio: float) -> None:
    assert amp_threshold(rate) == pytest.approx(ratio, abs=0.005)


def test_noise_only_raises_the_limits() -> None:
    quiet, loud = (limits(items=100, rate=0.06, noise=qgt.RoundedGaussian(sigma)) for sigma in (0.2, 1.0))
    for a, b in zip(quiet, loud, strict=True):
        assert a.pools <= b.pools
    assert quiet[1].pools < loud[1].pools


def test_every_limit_says_what_it_assumes() -> None:
    assert all(len(limit.assumes) > 20 for limit in limits(items=50, rate=0.1))


@pytest.mark.parametrize("variance", [0.01, 0.1, 1.0])
def test_mmse_against_simulation(variance: float) -> None:
    g = torch.Generator().manual_seed(0)
    x = (torch.rand(400_000, generator=g, dtype=torch.float64) < 0.1).double()
    s = x + math.sqrt(variance) * torch.randn(400_000, generator=g, dtype=torch.float64)
    guess = torch.sigmoid(math.log(1 / 9) + (s - 0.5) / variance)
    # Squared errors lie in [0, 1] with mean m, so five standard errors are at most 5 sqrt(m / n).
    error = float((guess - x).square().mean())
    assert mmse(variance, 0.1) == pytest.approx(error, abs=5 * math.sqrt(max(error, 1e-5) / 400_000))


def test_noise_variance_is_the_noises_own() -> None:
    assert noise_variance(qgt.SparseInteger(0.3, 2), 5, 50) == pytest.approx(0.3 * (4 + 1 + 0 + 1 + 4) / 5)
    assert noise_variance(qgt.Noiseless(), 5, 50) == 0.0
    assert noise_variance(qgt.RoundedGaussian(2.0), 5, 50) == pytest.approx(4 + 1 / 12, rel=1e-3)


def test_noise_variance_of_errors_that_reach_far() -> None:
    assert noise_variance(qgt.SparseInteger(0.1, 100), 5, 50) == pytest.approx(0.1 * 100 * 101 / 3)
    assert noise_variance(qgt.RoundedGaussian(40.0), 5, 50) == pytest.approx(1600 + 1 / 12, rel=1e-6)


def test_predicted_success_is_near_the_measured_one_at_a_large_size() -> None:
    """At N = 1,000 and M = 300 state evolution's prediction for Oracle-K AMP, within finite-size effects of 0.1."""
    g = torch.Generator().manual_seed(0)
    design = qgt.Design.bernoulli(pools=300, items=1000, generator=g)
    noise = qgt.RoundedGaussian(1.4)
    problem = qgt.Problem(design, qgt.Bernoulli(0.06), noise)
    x, y = problem.simulate(300, generator=g)
    measured = qgt.score(x, qgt.AMP().bind(problem)(y, defectives=x.sum(1)).x)
    variance = evolve(0.06, 0.3, noise_variance(noise, 60, 500) / (300 / 4))
    predicted = predicted_success(0.06, variance, 1000)
    assert 0.05 < predicted < 0.95
    assert measured.success_rate == pytest.approx(predicted, abs=0.1)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="items=1"):
        limits(items=1, rate=0.5)
    for rate in (0.0, 1.0, 1e-6):
        with pytest.raises(ValueError, match="rate="):
            limits(items=100, rate=rate)
