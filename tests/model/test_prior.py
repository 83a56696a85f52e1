"""Priors: `log_prob` sums to one, agrees with what `sample` draws, and gives the marginals.

Where frequencies are compared, the chi-square test's level is 1e-6 (and impossible x must not occur at all), so a
correct prior fails with probability below 1e-6; the seed is fixed.
"""

import itertools
import math

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from qgt import Bernoulli, FixedWeight, Groups, Households, UnknownLevel, UnknownRate
from qgt.model.prior import ALONE


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def statuses(items: int) -> torch.Tensor:
    """All 2^items statuses; row r is the binary number r."""
    return torch.tensor(list(itertools.product((0, 1), repeat=items)), dtype=torch.uint8)


CASES = [
    (Bernoulli(0.3), 6),
    (Bernoulli(0.0), 4),
    (Bernoulli(1.0), 4),
    (Bernoulli([0.0, 1.0, 0.5, 0.02, 0.9]), 5),
    (Bernoulli(torch.tensor([0.25, 0.75])), 2),
    (Bernoulli(0.06), 10),
    (FixedWeight(0), 4),
    (FixedWeight(2), 6),
    (FixedWeight(6), 6),
    (FixedWeight(3), 10),
    (Households(size=3, seed_rate=0.3, attack_rate=0.6), 6),
    (Households(size=3, seed_rate=0.3, attack_rate=0.6), 7),  # the last household has one member
    (Households(size=4, seed_rate=0.5, attack_rate=0.2), 6),
    (Households(size=9, seed_rate=0.4, attack_rate=0.5), 4),  # one household, smaller than its size
    (Households(size=1, seed_rate=0.4, attack_rate=0.5), 5),
    (Households(size=2, seed_rate=0.0, attack_rate=0.5), 5),
    (Households(size=2, seed_rate=1.0, attack_rate=0.5), 5),
    (Households(size=2, seed_rate=0.5, attack_rate=0.0), 5),
    (Households(size=2, seed_rate=0.5, attack_rate=1.0), 5),
    (Households(size=2, seed_rate=1.0, attack_rate=1.0), 5),
    (Households(size=3, seed_rate=0.1, attack_rate=0.7), 10),
    (Households(size=3, seed_rate=0.2, attack_rate=0.7, background=0.1), 7),
    (Households(size=2, seed_rate=0.2, attack_rate=0.0, background=1.0), 5),
    (Households(labels=["a", "b", "a", 7, "b", "a"], seed_rate=0.3, attack_rate=0.6, background=0.05), 6),
    (UnknownRate(low=0.0, high=1.0), 6),
    (UnknownRate(low=0.02, high=0.3), 9),
    (UnknownRate(low=0.9, high=1.0), 4),
    (UnknownRate(low=0.3, high=math.nextafter(0.3, 1)), 5),
    (UnknownLevel(Bernoulli(0.1), low=0.2, high=5.0), 8),
    (UnknownLevel(Bernoulli([0.0, 1.0, 0.5, 0.02, 0.9]), low=0.01, high=3.0), 5),
    (UnknownLevel(Households(size=3, seed_rate=0.2, attack_rate=0.6), low=0.5, high=4.0), 7),
    (
        UnknownLevel(
            Households(labels=list("abacbca"), seed_rate=0.3, attack_rate=0.5, background=0.1), low=0.1, high=3.0
        ),
        7,
    ),
]
cases = pytest.mark.parametrize(("prior", "items"), CASES, ids=lambda value: str(value).replace(" ", ""))


@cases
def test_probabilities_sum_to_one(prior, items):
    log_prob = prior.log_prob(statuses(items))
    assert not log_prob.isnan().any()
    assert math.isclose(float(log_prob.exp().sum()), 1.0, abs_tol=1e-12)


@cases
def test_marginals_are_those_of_the_probabilities(prior, items):
    x = statuses(items)
    expected = prior.log_prob(x).exp() @ x.to(torch.float64)
    torch.testing.assert_close(prior.marginals(items), expected, rtol=1e-12, atol=1e-12)


@cases
def test_samples_follow_the_probabilities(prior, items):
    draws = 50_000
    x = prior.sample(draws, items, generator=generator(11))
    assert x.dtype == torch.uint8
    assert int(x.max()) <= 1
    assert x.shape == (draws, items)
    row = (x.to(torch.int64) * 2 ** torch.arange(items - 1, -1, -1)).sum(1)
    observed = torch.bincount(row, minlength=2**items).to(torch.float64)
    expected = prior.log_prob(statuses(items)).exp() * draws
    assert float(observed[expected == 0].sum()) == 0
    often = expected >= 5  # the chi-square approximation holds; the rare x are counted together
    pooled_observed = [*observed[often].tolist(), float(observed[~often].sum())]
    pooled_expected = [*expected[often].tolist(), float(expected[~often].sum())]
    if pooled_expected[-1] < 5:  # too rare even together: no more than a Poisson count of 5 reaches at level 1e-7
        assert pooled_observed.pop() <= 22
        pooled_expected.pop()
    if len(pooled_expected) > 1:
        scale = sum(pooled_observed) / sum(pooled_expected)
        assert chisquare(pooled_observed, [value * scale for value in pooled_expected]).pvalue > 1e-6


rates = st.sampled_from([0.0, 1.0]) | st.floats(0, 1)


def household_probability(x: tuple[int, ...], size: int, seed: float, attack: float) -> float:
    """The definition, one household at a time."""
    total = 1.0
    for start in range(0, len(x), size):
        members = x[start : start + size]
        infected = math.prod(attack if member else 1 - attack for member in members)
        total *= seed * infected + (0.0 if any(members) else 1 - seed)
    return total


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 7), st.integers(1, 8), rates, rates)
def test_households_follow_their_definition(items, size, seed, attack):
    x = statuses(items)
    found = Households(size=size, seed_rate=seed, attack_rate=attack).log_prob(x).exp()
    expected = [household_probability(tuple(row), size, seed, attack) for row in x.tolist()]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-10, atol=1e-14)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=6), rates, rates, rates)
def test_households_of_any_members_follow_their_definition(labels, seed, attack, background):
    prior = Households(labels=labels, seed_rate=seed, attack_rate=attack, background=background)
    x = statuses(len(labels))
    for row, found in zip(x.tolist(), prior.log_prob(x).exp().tolist(), strict=True):
        expected = 1.0
        for name in set(labels):
            members = [one for one, label in zip(row, labels, strict=True) if label == name]
            hit, missed = (math.prod(r if one else 1 - r for one in members) for r in (attack, background))
            expected *= seed * hit + (1 - seed) * missed
        assert math.isclose(found, expected, rel_tol=1e-10, abs_tol=1e-14)


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.01, 0.1), (0.2, 0.25)])
@pytest.mark.parametrize("items", [1, 2, 30, 1000])
def test_an_unknown_rate_is_its_integral(low, high, items):
    total = UnknownRate(low=low, high=high).costs(items).total
    with mpmath.workdps(700):  # a difference of two that agree in hundreds of digits
        for k in {0, 1, items // 20, items // 2, items}:
            mass = mpmath.betainc(k + 1, items - k + 1, mpmath.mpf(low), mpmath.mpf(high))
            assert math.isclose(-float(total[k]), float(mpmath.log(mass / (mpmath.mpf(high) - low))), rel_tol=1e-10)


def test_an_unknown_level_is_a_mixture_of_households_with_other_rates():
    labels, seed, attack, background = ["a", "b", "a", "a"], 0.2, 0.6, 0.1
    prior = UnknownLevel(
        Households(labels=labels, seed_rate=seed, attack_rate=attack, background=background), low=0.5, high=8.0
    )
    x = statuses(4)
    total = torch.zeros(len(x), dtype=torch.float64)
    factors = torch.linspace(math.log(0.5), math.log(8.0), 1_001, dtype=torch.float64).exp()
    for t in ((factors[1:] * factors[:-1]).sqrt()).tolist():  # the midpoint rule for log-uniform factors
        each = torch.ones(len(x), dtype=torch.float64)
        for name in ("a", "b"):
            members = torch.tensor([label == name for label in labels])
            n, d = int(members.sum()), x[:, members].sum(1).double()
            hit, missed = 1 - attack + t * attack, 1 - background + t * background
            seeded = seed * hit**n / (seed * hit**n + (1 - seed) * missed**n)
            a, b = t * attack / hit, t * background / missed
            each *= seeded * a**d * (1 - a) ** (n - d) + (1 - seeded) * b**d * (1 - b) ** (n - d)
        total += each / 1_000
    torch.testing.assert_close(prior.log_prob(x).exp(), total, rtol=1e-5, atol=0)


@cases
def test_costs_are_minus_the_log_probability(prior, items):
    x = statuses(items)
    torch.testing.assert_close(-prior.costs(items).of(x), prior.log_prob(x), rtol=1e-12, atol=1e-12)


def test_groups_count_their_own_items():
    tables = torch.tensor([[0.0, 1.0, 5.0], [0.5, 2.0, math.inf]], dtype=torch.float64)
    groups = Groups(torch.tensor([1, ALONE, 0, 0]), tables)
    x = torch.tensor([[1, 1, 1, 1], [0, 1, 0, 1]], dtype=torch.uint8)
    assert groups.count(x).tolist() == [[2, 1], [1, 0]]
    assert groups.of(x).tolist() == [7.0, 1.5]
    assert groups.sizes.tolist() == [2, 1]
    assert groups.matrix.tolist() == [[0, 0, 1, 1], [1, 0, 0, 0]]


@settings(max_examples=60, deadline=None)
@given(st.lists(rates, min_size=1, max_size=7))
def test_bernoulli_follows_its_definition(rate):
    x = statuses(len(rate))
    found = Bernoulli(rate).log_prob(x).exp()
    expected = [math.prod(r if one else 1 - r for r, one in zip(rate, row, strict=True)) for row in x.tolist()]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-10, atol=1e-14)
    assert Bernoulli(rate).marginals(len(rate)).tolist() == rate


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.data())
def test_fixed_weight_spreads_evenly_over_the_sets_of_its_size(items, data):
    k = data.draw(st.integers(0, items))
    found = FixedWeight(k).log_prob(statuses(items)).exp()
    weight = statuses(items).sum(1)
    assert (found[weight != k] == 0).all()
    expected = torch.full_like(found[weight == k], 1 / math.comb(items, k))
    torch.testing.assert_close(found[weight == k], expected, rtol=1e-12, atol=0)


def test_probabilities_too_small_for_floats_keep_their_logarithm():
    x = torch.ones(1, 2000, dtype=torch.uint8)
    assert math.isclose(float(Bernoulli(1e-3).log_prob(x)), 2000 * math.log(1e-3), rel_tol=1e-12)
    households = Households(size=1000, seed_rate=1e-3, attack_rate=1e-3)
    assert math.isclose(float(households.log_prob(x)), 2 * math.log(1e-3) + 2000 * math.log(1e-3), rel_tol=1e-12)


def test_members_of_a_household_are_correlated_and_strangers_are_not():
    seed, attack, draws = 0.2, 0.5, 100_000
    x = Households(size=2, seed_rate=seed, attack_rate=attack).sample(draws, 5, generator=generator(12)).double()
    for a, b, expected in ((0, 1, seed * attack**2), (1, 2, (seed * attack) ** 2), (3, 4, (seed * attack) ** 2)):
        # 6 standard deviations of a binomial share: a false failure has probability 2e-9.
        assert abs(float((x[:, a] * x[:, b]).mean()) - expected) < 6 * (expected * (1 - expected) / draws) ** 0.5


@cases
def test_no_instances_are_no_trouble(prior, items):
    x = prior.sample(0, items, generator=generator())
    assert x.shape == (0, items)
    assert prior.log_prob(x).shape == (0,)


@pytest.mark.parametrize("prior", [Bernoulli(0.5), FixedWeight(3), Households(size=2, seed_rate=0.5, attack_rate=0.5)])
def test_samples_repeat_for_equal_seeds_and_leave_the_global_generator_alone(prior):
    before = torch.get_rng_state()
    draws = [prior.sample(20, 10, generator=generator(seed)) for seed in (1, 1, 2)]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Bernoulli(1.1), "rate=1.1 .* from 0 to 1"),
        (lambda: Bernoulli(-0.1), "rate=-0.1"),
        (lambda: Bernoulli(math.nan), "rate=nan"),
        (lambda: Bernoulli(math.inf), "rate=inf"),
        (lambda: Bernoulli(True), "rate=True"),
        (lambda: Bernoulli("0.5"), "rate='0.5'"),
        (lambda: Bernoulli(None), "rate=None"),
        (lambda: Bernoulli(10**400), "rate=1000.* from 0 to 1"),
        (lambda: Bernoulli([]), r"rate=\[\]"),
        (lambda: Bernoulli([0.5, 2.0]), r"rate\[1\]=2.0"),
        (lambda: Bernoulli([0.5, True]), r"rate\[1\]=True"),
        (lambda: Bernoulli([[0.5]]), r"rate\[0\]=\[0.5\]"),
        (lambda: Bernoulli(torch.tensor([0.5, math.nan])), r"rate\[1\]=nan"),
        (lambda: FixedWeight(-1), "defectives=-1 .* whole number .*0"),
        (lambda: FixedWeight(1.0), "defectives=1.0"),
        (lambda: FixedWeight(True), "defectives=True"),
        (lambda: Households(size=0, seed_rate=0.1, attack_rate=0.1), "size=0 .* whole number .*1"),
        (lambda: Households(size=1.5, seed_rate=0.1, attack_rate=0.1), "size=1.5"),
        (lambda: Households(size=2, seed_rate=1.5, attack_rate=0.1), "seed_rate=1.5"),
        (lambda: Households(size=2, seed_rate=0.1, attack_rate=math.nan), "attack_rate=nan"),
        (lambda: Households(size=2, seed_rate=0.1, attack_rate=0.1, background=-1), "background=-1"),
        (lambda: Households(seed_rate=0.1, attack_rate=0.1), "size=None and labels=None .* one of the two"),
        (lambda: Households(size=1, labels=["a"], seed_rate=0.1, attack_rate=0.1), "one of the two"),
        (lambda: Households(labels="aab", seed_rate=0.1, attack_rate=0.1), "labels='aab' .* list"),
        (lambda: Households(labels=[], seed_rate=0.1, attack_rate=0.1), r"labels=\[\]"),
        (lambda: Households(labels=["a", ""], seed_rate=0.1, attack_rate=0.1), r"labels\[1\]=''"),
        (lambda: Households(labels=["a", 1.5], seed_rate=0.1, attack_rate=0.1), r"labels\[1\]=1.5"),
        (lambda: Households(labels=["a"], seed_rate=0.1, attack_rate=0.1).marginals(2), "1 labels for 2 items"),
        (lambda: UnknownRate(low=0.2, high=0.1), "low=0.2 .* below high=0.1"),
        (lambda: UnknownRate(low=0.2, high=1.1), "high=1.1"),
        (lambda: UnknownLevel(Bernoulli(0.1), low=0.0, high=1.0), "low=0.0 .* above 0"),
        (lambda: UnknownLevel(Bernoulli(0.1), low=2.0, high=1.0), "low=2.0 .* below high=1.0"),
        (lambda: UnknownLevel("none", low=0.5, high=1.0), "prior=none .* costs"),
        (lambda: UnknownLevel(FixedWeight(1), low=0.5, high=1.0).marginals(3), "law of its own for the number"),
        (lambda: Bernoulli([0.1, 0.2]).marginals(3), "rate holds 2 numbers for 3 items"),
        (lambda: FixedWeight(4).marginals(3), "defectives=4 is more than the 3 items"),
        (lambda: FixedWeight(4).sample(1, 3, generator=generator()), "defectives=4"),
        (lambda: FixedWeight(4).log_prob(torch.zeros(1, 3, dtype=torch.uint8)), "defectives=4"),
    ],
)
def test_bad_arguments_are_named(make, said):
    with pytest.raises(ValueError, match=said):
        make()
