"""The makers' own promises, beyond those that every design of theirs shows."""

import math

import pytest
import torch

from qgt.model import makers


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_bernoulli_is_the_same_however_many_entries_are_drawn_at_a_time(monkeypatch):
    whole = makers.bernoulli(30, 40, 0.5, generator())
    monkeypatch.setattr(makers, "DRAWN", 100)
    parts = makers.bernoulli(30, 40, 0.5, generator())
    assert list(parts) == list(whole)


def test_gaps_give_independent_ones_of_the_asked_density():
    pools, items, probability, draws = 20, 50, 0.05, 3000
    g = generator(1)
    total, pairs = torch.zeros(pools * items), 0
    for _ in range(draws):
        ones = makers._by_gaps(pools * items, probability, g)
        total[ones] += 1
        pairs += int((ones.diff() == 1).sum())
    # 6 standard deviations: over 1,000 entries a false failure has probability 2e-6.
    bound = 6 * math.sqrt(probability * (1 - probability) / draws)
    assert float((total / draws - probability).abs().max()) < bound
    chances = draws * (pools * items - 1)  # neighbours are both 1 with probability p squared
    assert abs(pairs / chances - probability**2) < 6 * probability / math.sqrt(chances)


@pytest.mark.parametrize("probability", [0.0, 1e-300, 1e-12, 1e-4, 0.06])
def test_sparse_bernoulli_designs_have_about_the_expected_transfers(probability):
    lists = makers.bernoulli(300, 400, probability, generator())
    mean = 300 * 400 * probability
    assert abs(len(lists.entries) - mean) <= 6 * math.sqrt(mean) + (1 if probability else 0)
    assert len(lists) == 300
    assert lists.bound == 400


def test_gaps_that_end_early_are_drawn_on():

    entries = 1000
    real, asked = torch.rand, []

    def all_zero_at_first(size, **kwargs):
        asked.append(size)
        return torch.zeros(size, dtype=torch.float64) if len(asked) == 1 else real(size, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "rand", all_zero_at_first)
        ones = makers._by_gaps(entries, 0.01, generator())
    assert len(asked) == 2
    assert ones[: asked[0]].tolist() == list(range(asked[0]))
    assert bool((ones.diff() > 0).all())
    assert int(ones[-1]) < entries


def test_subsets_are_uniform():
    draws = 30_000
    chosen = makers._subsets(draws, 5, 2, generator(2)).sort(dim=1).values
    number = (chosen[:, 0] * 5 + chosen[:, 1]).bincount(minlength=25)
    seen = number[number > 0]
    assert len(seen) == 10
    # 6 standard deviations over 10 sets: a false failure below 1e-7.
    assert float((seen / draws - 0.1).abs().max()) < 6 * math.sqrt(0.09 / draws)


@pytest.mark.parametrize(
    ("pools", "items", "weight"),
    [(1, 1, 1), (5, 7, 0), (5, 7, 5), (40, 3, 39), (40, 1000, 39), (10, 2000, 5), (2000, 30, 3), (3000, 20_000, 7)],
)
def test_regular_designs_are_even_at_every_density(pools, items, weight):
    lists = makers.regular(pools, items, weight, generator(3))
    assert lists.entries.bincount(minlength=items).tolist() == [weight] * items
    assert int(lists.sizes.max() - lists.sizes.min()) <= 1
    assert (len(lists), lists.bound) == (pools, items)


def test_regular_designs_overlap_as_random_ones_do():
    pools, items, weight = 300, 4000, 6
    matrix = torch.zeros(items, pools)
    lists = makers.regular(pools, items, weight, generator(4))
    matrix[lists.entries, lists.owners] = 1
    shared = (matrix[0::2] * matrix[1::2]).sum(1)  # of 2,000 disjoint pairs of items
    mean = weight * weight / pools
    # Each pair shares about Poisson(0.12) pools; 6 standard errors.
    assert abs(float(shared.mean()) - mean) < 6 * math.sqrt(mean / 2000)
