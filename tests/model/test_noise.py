"""Noise: `log_prob` sums to one over the integers and agrees with what `sample` draws.

Where frequencies are compared, the chi-square test's level is 1e-6 (and impossible errors must not occur at all), so
correct noise fails with probability below 1e-6; the seed is fixed.
"""

import math

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from qgt import Noiseless, RoundedGaussian, SparseInteger


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def float64(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


SIZES = torch.full((6,), 9.0, dtype=torch.float64)
SIZE = SIZES[:1]  # of the pools, where it changes nothing
CASES = [
    Noiseless(),
    *(SparseInteger(rate=rate, bound=bound) for bound in range(5) for rate in (0.0, 0.1, 0.7, 1.0)),
    *(RoundedGaussian(sigma) for sigma in (0.01, 0.3, 1.0, 4.0)),
]
cases = pytest.mark.parametrize("noise", CASES, ids=lambda noise: repr(noise).replace(" ", ""))


@cases
@pytest.mark.parametrize("count", [0.0, 3.0, 1000.0])
def test_probabilities_sum_to_one_over_the_integers(noise, count):
    y = torch.arange(-100.0, 101.0, dtype=torch.float64) + count  # 25 standard deviations and more to each side
    log_prob = noise.log_prob(y, torch.full_like(y, count), SIZE)
    assert not log_prob.isnan().any()
    assert math.isclose(float(log_prob.exp().sum()), 1.0, abs_tol=1e-12)


@pytest.mark.parametrize("sigma", [50.0, 1000.0])
def test_wide_gaussians_sum_to_one_too(sigma):
    reach = 12 * sigma
    y = torch.arange(-reach, reach + 1, dtype=torch.float64)
    total = float(RoundedGaussian(sigma).log_prob(y, torch.zeros_like(y), SIZE).exp().sum())
    assert math.isclose(total, 1.0, abs_tol=1e-9)


@cases
def test_samples_follow_the_probabilities(noise):
    draws, count = 60_000, 2.0
    y = noise.sample(torch.full((draws // 6, 6), count, dtype=torch.float64), SIZES, generator=generator(21))
    assert y.dtype == torch.float64
    assert torch.equal(y, y.round())
    values = torch.arange(-40.0, 41.0, dtype=torch.float64) + count
    observed = (y.flatten()[:, None] == values).sum(0).to(torch.float64)
    assert int(observed.sum()) == draws
    expected = noise.log_prob(values, torch.full_like(values, count), SIZE).exp() * draws
    assert float(observed[expected == 0].sum()) == 0
    often = expected >= 5
    rare = float(expected[~often].sum())
    # Errors too rare for a chi-square cell: together no more than a Poisson count reaches at level 1e-7.
    assert float(observed[~often].sum()) <= rare + 6 * math.sqrt(rare) + 12
    if int(often.sum()) > 1:
        scale = observed[often].sum() / expected[often].sum()
        assert chisquare(observed[often].numpy(), (expected[often] * scale).numpy()).pvalue > 1e-6


@cases
def test_samples_depend_on_the_counts_by_a_shift_only(noise):
    counts = float64(0, 1, 5, 300).repeat(200, 1)
    shifted = noise.sample(counts, SIZES[:4], generator=generator(22)) - counts
    still = noise.sample(torch.zeros_like(counts), SIZES[:4], generator=generator(22))
    assert torch.equal(shifted, still)
    assert torch.equal(counts, float64(0, 1, 5, 300).repeat(200, 1))  # the argument is not changed


def test_noisy_counts_are_not_clipped():
    y = SparseInteger(rate=1.0, bound=2).sample(
        torch.zeros(50, 4, dtype=torch.float64), SIZES[:4], generator=generator(23)
    )
    assert sorted(set(y.flatten().tolist())) == [-2.0, -1.0, 0.0, 1.0, 2.0]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([0.0, 1.0]) | st.floats(0, 1), st.integers(0, 4), st.integers(0, 20), st.integers(-6, 6))
def test_sparse_integer_is_the_papers_mixture(rate, bound, count, error):
    found = SparseInteger(rate=rate, bound=bound).log_prob(float64(count + error), float64(count), SIZE).exp()
    uniform = rate / (2 * bound + 1) if abs(error) <= bound else 0.0
    assert math.isclose(float(found), uniform + (1 - rate if error == 0 else 0.0), rel_tol=1e-12, abs_tol=1e-300)


@cases
def test_counts_between_the_integers_are_impossible(noise):
    assert noise.log_prob(float64(1.5, 2.25, 2 + 1e-9), float64(2, 2, 2), SIZE).tolist() == [-math.inf] * 3


def exact_rounded_gaussian(error: float, sigma: float) -> float:
    with mpmath.workdps(60):
        error, sigma = -abs(mpmath.mpf(error)), mpmath.mpf(sigma)
        root = sigma * mpmath.sqrt(2)

        def lower_tail(z):  # erfc keeps its digits where 1 - erf has none
            return mpmath.erfc(-z / root) / 2

        return float(mpmath.log(lower_tail(error + mpmath.mpf("0.5")) - lower_tail(error - mpmath.mpf("0.5"))))


@settings(max_examples=150, deadline=None)
@given(st.floats(0.02, 100), st.integers(-300, 300))
def test_rounded_gaussian_is_accurate_far_into_its_tails(sigma, error):
    found = float(RoundedGaussian(sigma).log_prob(float64(error + 7), float64(7), SIZE))
    assert math.isfinite(found)
    assert math.isclose(found, exact_rounded_gaussian(error, sigma), rel_tol=1e-11, abs_tol=1e-12)


@pytest.mark.parametrize(
    ("sigma", "error"), [(0.02, 0), (0.05, 3), (0.1, 1000), (1.0, 40), (1.0, 10_000), (2.0, -90), (30.0, 2000)]
)
def test_rounded_gaussian_at_chosen_points(sigma, error):
    found = float(RoundedGaussian(sigma).log_prob(float64(error), float64(0), SIZE))
    assert math.isclose(found, exact_rounded_gaussian(error, sigma), rel_tol=1e-12, abs_tol=1e-15)


@pytest.mark.parametrize("sigma", [1e-300, 1e-160, 1e-3, 1e3])
def test_no_gaussian_gives_nan(sigma):
    found = RoundedGaussian(sigma).log_prob(float64(0, 1, -5, 1e6), float64(0, 0, 0, 0), SIZE)
    assert not found.isnan().any()
    assert float(found[0]) > float(found[3])


@settings(max_examples=50, deadline=None)
@given(st.floats(0.05, 50), st.integers(0, 200))
def test_rounded_gaussian_is_symmetric_and_falls(sigma, error):
    noise = RoundedGaussian(sigma)
    right, left, further = noise.log_prob(float64(error, -error, error + 1), float64(0, 0, 0), SIZE).tolist()
    assert right == left
    assert further < right


@cases
def test_log_prob_takes_any_shape(noise):
    y = torch.arange(24.0, dtype=torch.float64).reshape(2, 3, 4) % 5
    counts = torch.full_like(y, 2.0)
    found = noise.log_prob(y, counts, SIZE)
    assert found.shape == y.shape
    assert torch.equal(found.flatten(), noise.log_prob(y.flatten(), counts.flatten(), SIZE))
    assert noise.log_prob(y[:0], counts[:0], SIZE).shape == (0, 3, 4)
    assert noise.sample(torch.zeros(0, 3, dtype=torch.float64), SIZES[:3], generator=generator()).shape == (0, 3)


@cases
@pytest.mark.parametrize("tail", [1e-3, 1e-13])
def test_no_more_than_the_tail_lies_beyond_the_reach(noise, tail):
    errors = torch.arange(-200.0, 201.0, dtype=torch.float64)
    beyond = errors.abs() > noise.reach(9, tail)
    assert noise.integer
    # The sum over all is 1 to within 1e-12, so what lies beyond is known no better.
    assert float(noise.log_prob(errors + 3, float64(3), SIZE).exp()[beyond].sum()) <= tail + 1e-15
    inside = errors.abs() < noise.reach(9, tail)
    rest = float(noise.log_prob(errors + 3, float64(3), SIZE).exp()[~inside].sum())
    assert noise.reach(9, tail) == 0 or rest > tail, "the reach is farther than it need be"


def test_arguments_broadcast():
    y, counts = torch.arange(4.0, dtype=torch.float64)[:, None], torch.arange(3.0, dtype=torch.float64)
    for noise in CASES:
        table = noise.log_prob(y, counts, SIZE)
        assert table.shape == (4, 3)
        assert table[3, 1] == noise.log_prob(float64(3), float64(1), SIZE)[0]


def test_samples_repeat_for_equal_seeds_and_leave_the_global_generator_alone():
    counts = torch.zeros(20, 5, dtype=torch.float64)
    before = torch.get_rng_state()
    for noise in (SparseInteger(rate=0.5, bound=2), RoundedGaussian(2.0)):
        one, same, other = (noise.sample(counts, SIZES[:5], generator=generator(seed)) for seed in (1, 1, 2))
        assert torch.equal(one, same)
        assert not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_noiseless_sample_does_not_share_memory_with_the_counts():
    counts = torch.zeros(1, 1, dtype=torch.float64)
    Noiseless().sample(counts, SIZE, generator=generator()).add_(1)
    assert float(counts) == 0.0


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: SparseInteger(rate=1.5, bound=1), "rate=1.5 .* from 0 to 1"),
        (lambda: SparseInteger(rate=math.nan, bound=1), "rate=nan"),
        (lambda: SparseInteger(rate=True, bound=1), "rate=True"),
        (lambda: SparseInteger(rate=0.1, bound=-1), "bound=-1 .* whole number .*0"),
        (lambda: SparseInteger(rate=0.1, bound=1.0), "bound=1.0"),
        (lambda: SparseInteger(rate=0.1, bound=True), "bound=True"),
        (lambda: RoundedGaussian(0.0), "sigma=0.0 .* above 0"),
        (lambda: RoundedGaussian(-1.0), "sigma=-1.0"),
        (lambda: RoundedGaussian(math.inf), "sigma=inf .* finite"),
        (lambda: RoundedGaussian(math.nan), "sigma=nan"),
        (lambda: RoundedGaussian("1"), "sigma='1'"),
        (lambda: RoundedGaussian(10**400), "sigma=1000"),
    ],
)
def test_bad_arguments_are_named(make, said):
    with pytest.raises(ValueError, match=said):
        make()
