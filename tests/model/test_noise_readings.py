"""Readings: `log_prob` sums (or integrates) to one, agrees with what `sample` draws, and follows the definition.

Where frequencies are compared, the chi-square test's level is 1e-6 (and impossible reports must not occur at all), so
a correct noise fails with probability below 1e-6; the seed is fixed.
"""

import math
from dataclasses import dataclass

import pytest
import torch
from scipy.stats import binom, chisquare, kstest, norm

from qgt import (
    Binned,
    Gaussian,
    Noiseless,
    Outliers,
    PerPool,
    PositiveNegative,
    Reads,
    Reports,
    RoundedGaussian,
    Saturating,
    SparseInteger,
)
from qgt.model.noise import by_pool, noise_of, reports_of, usual_reports

SIZE = 9.0
WHOLE = [
    PositiveNegative(),
    PositiveNegative(sensitivity=0.9, specificity=0.95),
    PositiveNegative(sensitivity=0.9, specificity=0.95, dilution=0.3),
    PositiveNegative(sensitivity=1.0, specificity=1.0, dilution=1.0),
    PositiveNegative(sensitivity=0.5, specificity=0.5),
    Saturating(1),
    Saturating(3, SparseInteger(rate=0.4, bound=2)),
    Saturating(4, RoundedGaussian(1.5)),
    Saturating(2, Outliers(Noiseless(), rate=0.1)),
    Binned([1]),
    Binned([1, 3, 6]),
    Binned([0, 2], SparseInteger(rate=0.6, bound=3)),
    Binned([1, 4], RoundedGaussian(2.0)),
    Reads(1),
    Reads(40, error=0.05),
    Outliers(Noiseless(), rate=0.2),
    Outliers(Saturating(3, RoundedGaussian(0.5)), rate=0.05),
]
whole = pytest.mark.parametrize("noise", WHOLE, ids=lambda noise: repr(noise).replace(" ", ""))
counts = pytest.mark.parametrize("count", [0.0, 1.0, 4.0, 9.0])


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def float64(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def probabilities(noise, count: float, size: float = SIZE) -> tuple[torch.Tensor, torch.Tensor]:
    y = torch.arange(-60.0, 100.0, dtype=torch.float64)
    return y, noise.log_prob(y, float64(count), float64(size)).exp()


@whole
@counts
def test_probabilities_sum_to_one(noise, count):
    y, probability = probabilities(noise, count)
    assert noise.integer
    assert not probability.isnan().any()
    assert math.isclose(float(probability.sum()), 1.0, abs_tol=1e-12)
    assert bool((noise.log_prob(y + 0.5, float64(count), float64(SIZE)) == -math.inf).all())


@whole
@counts
def test_samples_follow_the_probabilities(noise, count):
    draws = 20_000
    sample = noise.sample(torch.full((draws, 1), count).double(), float64(SIZE), generator=generator(int(count)))
    y, probability = probabilities(noise, count)
    observed = (sample == y).sum(0).to(torch.float64)
    assert int(observed.sum()) == draws
    expected = probability * draws
    assert float(observed[expected == 0].sum()) == 0
    often = expected >= 5
    rare = float(expected[~often].sum())
    assert float(observed[~often].sum()) <= rare + 6 * math.sqrt(rare) + 12
    if int(often.sum()) > 1:
        scale = observed[often].sum() / expected[often].sum()
        assert chisquare(observed[often].numpy(), (expected[often] * scale).numpy()).pvalue > 1e-6


@whole
@counts
def test_no_more_than_the_tail_lies_beyond_the_reach(noise, count):
    y, probability = probabilities(noise, count)
    for tail in (1e-3, 1e-12):
        assert float(probability[(y - count).abs() > noise.reach(int(SIZE), tail)].sum()) <= tail + 1e-15


@pytest.mark.parametrize(("sigma", "growth"), [(0.3, 0.0), (0.2, 0.5), (2.0, 1.0)])
@counts
def test_a_gaussian_is_its_density(sigma, growth, count):
    noise, spread = Gaussian(sigma, growth), math.sqrt(sigma**2 + (growth * count) ** 2)
    assert not noise.integer
    y = torch.linspace(-5.0, 20.0, 11, dtype=torch.float64)
    expected = torch.from_numpy(norm(count, spread).logpdf(y.numpy()))
    torch.testing.assert_close(noise.log_prob(y, float64(count), float64(SIZE)), expected)
    fine = torch.linspace(count - 12 * spread, count + 12 * spread, 100_001, dtype=torch.float64)
    density = noise.log_prob(fine, float64(count), float64(SIZE)).exp()
    assert math.isclose(float(torch.trapezoid(density, fine)), 1.0, abs_tol=1e-9)
    sample = noise.sample(torch.full((5000, 1), count).double(), float64(SIZE), generator=generator(3))
    assert kstest(sample.flatten().numpy(), norm(count, spread).cdf).pvalue > 1e-6
    beyond = 2 * norm(0, spread).sf(noise.reach(int(SIZE), 1e-3))
    assert beyond <= 1e-3 * (1 + 1e-9)


def test_positives_follow_their_formula():
    noise = PositiveNegative(sensitivity=0.9, specificity=0.96, dilution=0.25)
    for size in (1, 4, 30):
        for count in range(size + 1):
            expected = 0.04 + (0.86 * (count / size) ** 0.25 if count else 0.0)
            found = noise.log_prob(float64(1, 0), float64(count), float64(size)).exp()
            assert found.tolist() == pytest.approx([expected, 1 - expected], abs=1e-15)
    assert PositiveNegative().log_prob(float64(1, 0), float64(3), float64(8)).tolist() == [0.0, -math.inf]


def test_dilution_is_hwangs_for_rare_defectives():
    prevalence, dilution = 1e-9, 0.4
    for size in (2, 10, 50):
        hwang = prevalence / -math.expm1(size**dilution * math.log1p(-prevalence))
        noise = PositiveNegative(dilution=dilution)
        assert float(noise.log_prob(float64(1), float64(1), float64(size)).exp()) == pytest.approx(hwang, rel=1e-6)


def test_reads_are_binomial():
    noise = Reads(50, error=0.02)
    for count in range(8):
        rate = 0.98 * count / 7 + 0.02 * (1 - count / 7)
        y = torch.arange(51, dtype=torch.float64)
        expected = torch.from_numpy(binom(50, rate).logpmf(y.numpy()))
        torch.testing.assert_close(noise.log_prob(y, float64(count), float64(7)), expected, rtol=1e-9, atol=1e-9)


def test_ranges_and_caps_add_up_what_the_noise_reports():
    noise = RoundedGaussian(1.3)
    y, each = probabilities(noise, 4.0)
    binned = Binned([2, 5], noise).log_prob(float64(0, 1, 2), float64(4), float64(9)).exp()
    expected = [each[y < 2].sum(), each[(y >= 2) & (y < 5)].sum(), each[y >= 5].sum()]
    assert binned.tolist() == pytest.approx([float(one) for one in expected], rel=1e-12)
    capped = Saturating(5, noise).log_prob(float64(4, 5, 6), float64(4), float64(9)).exp()
    assert capped.tolist() == pytest.approx([float(each[y == 4]), float(each[y >= 5].sum()), 0.0], rel=1e-12)


@pytest.mark.parametrize("noise", [*WHOLE, Gaussian(0.5, growth=0.2)], ids=str)
def test_arguments_broadcast(noise):
    y, truth, sizes = float64(0, 1, 2, 3)[:, None, None], float64(0, 2, 5), float64(5, 9)[:, None]
    table = noise.log_prob(y, truth, sizes)
    assert table.shape == (4, 2, 3)
    assert not table.isnan().any()
    assert table[1, 0, 2] == noise.log_prob(float64(1), float64(5), float64(5))[0]
    assert noise.log_prob(y[:0], truth, sizes).shape == (0, 2, 3)
    assert not noise.log_prob(float64(0, 1), float64(0), float64(0)).isnan().any()  # an empty pool


def test_each_pool_has_its_own_noise():
    noise = PerPool([Noiseless(), SparseInteger(rate=1.0, bound=1), Noiseless()])
    assert noise.pools_of() == {Noiseless(): [0, 2], SparseInteger(rate=1.0, bound=1): [1]}
    truth = torch.full((3000, 3), 4.0, dtype=torch.float64)
    y = noise.sample(truth, float64(9, 9, 9), generator=generator())
    assert torch.equal(y[:, [0, 2]], truth[:, [0, 2]])
    assert sorted(set(y[:, 1].tolist())) == [3.0, 4.0, 5.0]
    log_prob = noise.log_prob(y, truth, float64(9, 9, 9))
    torch.testing.assert_close(log_prob.exp(), torch.tensor([1.0, 1 / 3, 1.0]).double().expand(3000, 3))
    assert noise.reach(9, 1e-3) == 1.0
    assert noise.integer
    assert not PerPool([Noiseless(), Gaussian(0.1)]).integer
    with pytest.raises(ValueError, match="3 noises for 2 pools"):
        noise.log_prob(y[:, :2], truth[:, :2], float64(9, 9))


def test_what_reports_counts():
    assert all(reports_of(noise).counts for noise in (Noiseless(), Gaussian(0.1), Saturating(3)))
    others = PositiveNegative(), Binned([1]), Reads(9), Outliers(Reads(9), 0.1), PerPool([Noiseless(), Reads(9)])
    assert not any(reports_of(noise).counts for noise in (*others, Saturating(3, Reads(9))))


def test_a_noise_that_describes_itself_is_described_through_every_noise_around_it():
    """Also where it is not one of the library's own."""
    halves = Halves()
    for noise in (halves, Outliers(halves, 0.1), PerPool([halves] * 2), Outliers(PerPool([halves] * 2), 0.1)):
        assert (reports_of(noise).noun, reports_of(noise).shown(2.0)) == ("halves", "2 pairs")
        assert usual_reports(noise, float64(4, 5)[None], float64(9, 9)).tolist() == [[2.0, 2.0]]
    assert reports_of(Saturating(1, halves)).noun == "halves"
    assert usual_reports(Saturating(1, halves), float64(4, 5)[None], float64(9, 9)).tolist() == [[1.0, 1.0]]
    assert usual_reports(Binned([2, 3], halves), float64(4, 7)[None], float64(9, 9)).tolist() == [[1.0, 2.0]]


def test_pools_that_differ_are_each_described():
    noise = Outliers(PerPool([PositiveNegative(), Reads(9), PositiveNegative()]), 0.1)
    assert [reports_of(noise_of(noise, i)).shown(1.0) for i in range(3)] == ["positive", "1 reads", "positive"]
    mixed = reports_of(noise)
    assert (mixed.noun, mixed.shown(1.0), mixed.remedy, mixed.exact) == ("results", "1", "", False)
    assert by_pool(noise).noises[1] == Outliers(Reads(9), 0.1)
    assert by_pool(Outliers(Reads(9), 0.1)) is None
    with pytest.raises(ValueError, match="put PerPool around"):
        Saturating(3, Outliers(PerPool([Noiseless()]), 0.1))


@dataclass(frozen=True)
class Halves:
    """Every pool reports the number of pairs of defectives: a noise from outside of the library."""

    integer = True
    reports = Reports("halves", counts=False, unit="pairs")

    def reach(self, size, tail):
        return float(size)

    def sample(self, counts, sizes, *, generator):
        return (counts / 2).floor()

    def log_prob(self, y, counts, sizes):
        return torch.where(y == (counts / 2).floor(), 0.0, -torch.inf).double()

    def usual_report(self, counts, sizes):
        return (counts / 2).floor()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: PositiveNegative(sensitivity=1.1), "sensitivity=1.1"),
        (lambda: PositiveNegative(dilution=-0.1), "dilution=-0.1"),
        (lambda: PositiveNegative(sensitivity=0.05, specificity=0.9), "sensitivity=0.05 and specificity=0.9 .* 1 or"),
        (lambda: Saturating(0), "cap=0"),
        (lambda: Saturating(3, Gaussian(0.1)), "noise=Gaussian.* whole numbers"),
        (lambda: Saturating(3, "none"), "noise='none' .* give a noise"),
        (lambda: Saturating(3, PerPool([Noiseless()])), "noise=PerPool.* put PerPool around"),
        (lambda: Binned([]), r"edges=\[\]"),
        (lambda: Binned("12"), "edges='12'"),
        (lambda: Binned([1, 1.5]), r"edges\[1\]=1.5"),
        (lambda: Binned([2, 2]), r"edges=\(2, 2\) .* above the one before"),
        (lambda: Binned([1], Gaussian(0.1)), "noise=Gaussian.* whole numbers"),
        (lambda: Gaussian(0.0), "sigma=0.0"),
        (lambda: Gaussian(1.0, growth=-1.0), "growth=-1.0"),
        (lambda: Reads(0), "depth=0"),
        (lambda: Reads(5, error=0.5), "error=0.5 .* below 0.5"),
        (lambda: Outliers("none", 0.1), "noise='none'"),
        (lambda: PerPool([]), r"noises=\[\]"),
        (lambda: PerPool([Noiseless(), 3]), r"noises\[1\]=3"),
        (lambda: PerPool([PerPool([Noiseless()])]), r"noises\[0\]=PerPool.* one pool"),
    ],
)
def test_bad_arguments_are_named(make, said):
    with pytest.raises(ValueError, match=said):
        make()
