"""Bounds and state evolution against known values, simulation and brute force."""

import math

import pytest
import torch

import qgt
from qgt.theory.evolution import amp_threshold, evolve, mmse, predicted_success
from qgt.theory.limits import _binomial, _entropy, _learned, _reports, _summed, counting, limits, noise_variance


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


def test_of_many_items_only_what_happens_is_looked_at() -> None:
    """A pool of half of the items tells about half the log of 2 pi e K / 4: Stirling, for K without limit."""
    for items in (10_000, 1_000_000, 10**9):
        found = {limit.name: limit.pools for limit in limits(items=items, rate=0.06)}
        entropy = -0.06 * math.log2(0.06) - 0.94 * math.log2(0.94)
        told = math.log2(2 * math.pi * math.e * 0.06 * items / 4) / 2
        assert found["information"] == pytest.approx(items * entropy / told, rel=0.01)


def test_an_error_that_does_not_depend_on_the_count_is_added_once() -> None:
    """The short way for such errors gives what the table of all counts and reports gives."""
    noise = qgt.SparseInteger(0.3, 2)
    _, table = _reports(noise, 12, 50)
    weights = _binomial(12, 0.5)
    given = sum(float(w) * _entropy(row) for w, row in zip(weights, table, strict=True))
    assert _learned(noise, 12, 50) == pytest.approx(_entropy(weights @ table) - given, abs=1e-9)
    one, other = torch.rand(100, dtype=torch.float64), torch.rand(90, dtype=torch.float64)
    direct = sum(torch.nn.functional.pad(one * w, (i, 89 - i)) for i, w in enumerate(other.tolist()))
    assert torch.allclose(_summed(one, other), direct)


def test_errors_beyond_all_measure_are_refused() -> None:
    assert limits(items=100, rate=0.06, noise=qgt.SparseInteger(0.1, 100_000))[1].pools > 13
    with pytest.raises(ValueError, match="reaches 2,000,000,000 counts far"):
        limits(items=100, rate=0.06, noise=qgt.SparseInteger(0.1, 2 * 10**9))


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="items=1"):
        limits(items=1, rate=0.5)
    for rate in (0.0, 1.0, 1e-6):
        with pytest.raises(ValueError, match="rate="):
            limits(items=100, rate=rate)
