"""Designs made by chance or by a rule."""

import itertools
import math

import pytest
import torch

import qgt
from qgt.model import constructions
from qgt.model.constructions import PRIMITIVE, THRESHOLDS, signatures

# Coupled designs and sparse-graph codes: their shape, and what their makers refuse.


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("pools", "items", "weight", "blocks", "width"), [(60, 240, 6, 10, 3), (47, 101, 7, 5, 3)])
def test_coupled_items_stay_near_their_place(pools: int, items: int, weight: int, blocks: int, width: int) -> None:
    design = qgt.Design.coupled(pools=pools, items=items, weight=weight, blocks=blocks, width=width, generator=seeded())
    assert (design.pools, design.items) == (pools, items)
    assert set(design.item_degrees.tolist()) == {weight}
    groups = blocks + width - 1
    for pool, item in zip(design.lists.owners.tolist(), design.lists.entries.tolist(), strict=True):
        ahead = pool * groups / pools - item * blocks / items  # in groups; each is cut a little early or late
        assert -1.5 < ahead < width + 0.5, (pool, item)
    ends = design.pool_sizes[: pools // groups // 2].double().mean()
    assert ends < 0.6 * design.pool_sizes.double().mean()


def test_one_block_is_a_column_regular_design() -> None:
    design = qgt.Design.coupled(pools=20, items=50, weight=4, blocks=1, width=1, generator=seeded())
    assert set(design.pool_sizes.tolist()) == {10}


def test_coupled_refuses_what_cannot_be() -> None:
    with pytest.raises(ValueError, match="pools=8 is not valid: 12 groups"):
        qgt.Design.coupled(pools=8, items=100, weight=3, blocks=10, generator=seeded())
    with pytest.raises(ValueError, match="width=4"):
        qgt.Design.coupled(pools=30, items=100, weight=3, blocks=2, width=4, generator=seeded())


def test_coupling_lets_belief_propagation_do_with_fewer_pools() -> None:
    """At M/N = 0.178, below the threshold of regular designs, the ends are solved and the rest follows them."""
    wrong = {}
    for name, design in {
        "regular": qgt.Design.column_regular(pools=1424, items=8000, weight=9, generator=seeded(5)),
        "coupled": qgt.Design.coupled(pools=1424, items=8000, weight=9, blocks=10, generator=seeded(5)),
    }.items():
        problem = qgt.Problem(design, qgt.Bernoulli(0.06), qgt.SparseInteger(rate=0.1, bound=1))
        x, y = problem.simulate(1, generator=seeded(3))
        iterations = 70 if name == "coupled" else 30
        wrong[name] = int((qgt.BeliefPropagation(iterations=iterations).bind(problem)(y).x != x).sum())
    assert wrong["coupled"] < 20
    assert wrong["regular"] > 200


@pytest.mark.parametrize("digits", range(2, 11))
def test_signatures_are_columns_of_a_code(digits: int) -> None:
    """All nonzero numbers, each once; and with two powers, no two pairs with the same sum modulo 2."""
    once = signatures(digits, 1).tolist()
    assert sorted(once) == list(range(1, 2**digits))
    if 3 <= digits <= 7:
        pairs = [a ^ b for a, b in itertools.combinations(signatures(digits, 2).tolist(), 2)]
        assert len(set(pairs)) == len(pairs)


@pytest.mark.parametrize("digits", range(11, len(PRIMITIVE) - 4))
def test_polynomials_are_primitive(digits: int) -> None:
    assert len(set(signatures(digits, 1).tolist())) == 2**digits - 1


@pytest.mark.parametrize("corrected", [1, 2])
def test_sparse_graph_code_takes_as_many_pools_as_the_paper_says(corrected: int) -> None:
    """m = c K (t log2(l N / (c K) + 1) + 1) + 1, but for whole numbers of nodes and digits."""
    items, defectives, c = 2**14, 300, THRESHOLDS[corrected]
    degree = {1: 3, 2: 2}[corrected]
    formula = c * defectives * (corrected * math.log2(degree * items / (c * defectives) + 1) + 1) + 1
    design = qgt.Design.sparse_graph_code(
        items=items, defectives=defectives, corrected=corrected, spare=0.0, generator=seeded()
    )
    assert formula <= design.pools < 1.2 * formula
    heads = design.pool_sizes.view(math.ceil(c * defectives), -1)
    assert int(heads[:, 0].max() - heads[:, 0].min()) <= 1
    assert int(heads[:, 0].sum()) == degree * items


def test_a_problem_file_may_name_them() -> None:
    spec = {"kind": "coupled", "pools": 12, "items": 40, "weight": 3, "blocks": 4, "seed": 0}
    problem = qgt.Problem.from_spec({"design": spec, "prior": {"kind": "bernoulli", "rate": 0.1}})
    own = qgt.Design.coupled(pools=12, items=40, weight=3, blocks=4, generator=seeded())
    assert problem.design.fingerprint == own.fingerprint


# The makers' own promises, beyond those that every design of theirs shows.


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_bernoulli_is_the_same_however_many_entries_are_drawn_at_a_time(monkeypatch):
    whole = constructions.bernoulli(30, 40, 0.5, generator())
    monkeypatch.setattr(constructions, "DRAWN_TOGETHER", 100)
    parts = constructions.bernoulli(30, 40, 0.5, generator())
    assert list(parts) == list(whole)


def test_gaps_give_independent_ones_of_the_asked_density():
    pools, items, probability, draws = 20, 50, 0.05, 3000
    g = generator(1)
    total, pairs = torch.zeros(pools * items), 0
    for _ in range(draws):
        ones = constructions._by_gaps(pools * items, probability, g)
        total[ones] += 1
        pairs += int((ones.diff() == 1).sum())
    # 6 standard deviations: over 1,000 entries a false failure has probability 2e-6.
    bound = 6 * math.sqrt(probability * (1 - probability) / draws)
    assert float((total / draws - probability).abs().max()) < bound
    chances = draws * (pools * items - 1)  # neighbours are both 1 with probability p squared
    assert abs(pairs / chances - probability**2) < 6 * probability / math.sqrt(chances)


@pytest.mark.parametrize("probability", [0.0, 1e-300, 1e-12, 1e-4, 0.06])
def test_sparse_bernoulli_designs_have_about_the_expected_transfers(probability):
    lists = constructions.bernoulli(300, 400, probability, generator())
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
        ones = constructions._by_gaps(entries, 0.01, generator())
    assert len(asked) == 2
    assert ones[: asked[0]].tolist() == list(range(asked[0]))
    assert bool((ones.diff() > 0).all())
    assert int(ones[-1]) < entries


def test_subsets_are_uniform():
    draws = 30_000
    chosen = constructions._subsets(draws, 5, 2, generator(2)).sort(dim=1).values
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
    lists = constructions.regular(pools, items, weight, generator(3))
    assert lists.entries.bincount(minlength=items).tolist() == [weight] * items
    assert int(lists.sizes.max() - lists.sizes.min()) <= 1
    assert (len(lists), lists.bound) == (pools, items)


def test_regular_designs_overlap_as_random_ones_do():
    pools, items, weight = 300, 4000, 6
    matrix = torch.zeros(items, pools)
    lists = constructions.regular(pools, items, weight, generator(4))
    matrix[lists.entries, lists.owners] = 1
    shared = (matrix[0::2] * matrix[1::2]).sum(1)  # of 2,000 disjoint pairs of items
    mean = weight * weight / pools
    # Each pair shares about Poisson(0.12) pools; 6 standard errors.
    assert abs(float(shared.mean()) - mean) < 6 * math.sqrt(mean / 2000)
