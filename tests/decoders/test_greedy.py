"""The greedy decoders against plain loops of their formulas, in exact arithmetic."""

from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from qgt import (
    Bernoulli,
    Decoded,
    Design,
    FixedWeight,
    Households,
    MaximumNeighborhood,
    Prevalence,
    Problem,
    SparseInteger,
    Status,
    score,
)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def exact_scores(rows: list[str], y: list[int], k: int) -> list[Fraction]:
    """score_j = sum over the pools i of item j of (y_i - k s_i / N), without rounding."""
    items = len(rows[0])
    centred = [y_i - Fraction(k * row.count("1"), items) for row, y_i in zip(rows, y, strict=True)]
    return [sum((c for row, c in zip(rows, centred, strict=True) if row[j] == "1"), Fraction()) for j in range(items)]


def top(scores: list[Fraction], k: int) -> list[int]:
    """The k highest scores; of equal ones those of the first items."""
    chosen = sorted(range(len(scores)), key=lambda j: (-scores[j], j))[:k]
    return [int(j in chosen) for j in range(len(scores))]


def assert_follows_the_formula(rows: list[str], y: list[list[int]], k: list[int], result: Decoded) -> None:
    for one_y, one_k, calls, scores in zip(y, k, result.x.tolist(), result.scores.tolist(), strict=True):
        expected = exact_scores(rows, one_y, one_k)
        assert scores == pytest.approx([float(value) for value in expected], abs=1e-9)
        assert calls == top(expected, one_k)


matrices = st.integers(1, 9).flatmap(
    lambda items: st.lists(st.text("01", min_size=items, max_size=items), min_size=1, max_size=6)
)


@settings(max_examples=150, deadline=None)
@given(matrices, st.data())
def test_maximum_neighborhood_with_k_given_is_its_formula(rows, data):
    y = data.draw(
        st.lists(st.lists(st.integers(-2, 10), min_size=len(rows), max_size=len(rows)), min_size=1, max_size=4)
    )
    k = data.draw(st.lists(st.integers(0, len(rows[0])), min_size=len(y), max_size=len(y)))
    decode = MaximumNeighborhood().bind(Problem(Design.from_rows(rows), Bernoulli(0.3)))
    result = decode(torch.tensor(y, dtype=torch.float64), defectives=torch.tensor(k))
    assert_follows_the_formula(rows, y, k, result)
    assert result.x.sum(1).tolist() == k


@settings(max_examples=80, deadline=None)
@given(matrices, st.data())
def test_maximum_neighborhood_estimates_k_from_the_counts(rows, data):
    y = data.draw(
        st.lists(st.lists(st.integers(-2, 10), min_size=len(rows), max_size=len(rows)), min_size=1, max_size=4)
    )
    items, transfers = len(rows[0]), "".join(rows).count("1")
    decode = MaximumNeighborhood().bind(Problem(Design.from_rows(rows), Bernoulli(0.3)))
    result = decode(torch.tensor(y, dtype=torch.float64))
    k = result.x.sum(1).tolist()
    for one_y, one_k in zip(y, k, strict=True):
        if transfers:  # the sum of the counts over the mean degree, to the nearest whole number
            estimate = min(max(Fraction(sum(one_y) * items, transfers), Fraction(0)), Fraction(items))
            assert abs(one_k - estimate) <= Fraction(1, 2)
        assert 0 <= one_k <= items
    assert_follows_the_formula(rows, y, k, result)


def test_tied_items_are_called_in_order_however_the_batch_is_cut():
    # Pools of a third of the items: k s / N is no binary fraction, so sums in another order round differently.
    design = Design.column_regular(pools=21, items=63, weight=7, generator=generator(1))
    problem = Problem(design, FixedWeight(5))
    y = problem.simulate(300, generator=generator(2)).y
    decode = MaximumNeighborhood().bind(problem)
    whole = decode(y, defectives=5)
    assert torch.equal(whole.x, torch.cat([decode(row[None], defectives=5).x for row in y]))
    assert whole.x.tolist() == [top(exact_scores(list(design.rows), row, 5), 5) for row in y.long().tolist()]


def test_on_pools_of_half_the_items_it_is_the_papers_form():
    design = Design.doubly_regular(pools=20, items=40, weight=10, generator=generator(3))
    assert design.pool_sizes.tolist() == [20] * 20
    problem = Problem(design, FixedWeight(4))
    x, y = problem.simulate(100, generator=generator(4))
    result = MaximumNeighborhood().bind(problem)(y, defectives=4)
    matrix = design.matrix.to(torch.float64)
    psi, delta = y @ matrix, matrix.sum(0)  # the sum of the results of an item's pools, and their number
    assert torch.equal(result.scores, psi - delta * 4 / 2)
    assert torch.equal(result.x.sum(1), torch.full((100,), 4))
    assert score(x, result.x).recall > 0.5  # chance would be 0.1


def test_k_is_given_once_or_for_each_instance():
    problem = Problem(Design.bernoulli(pools=6, items=12, generator=generator(5)), Bernoulli(0.3))
    y = problem.simulate(5, generator=generator(6)).y
    decode = MaximumNeighborhood().bind(problem)
    assert torch.equal(decode(y, defectives=3).x, decode(y, defectives=torch.full((5,), 3)).x)
    each = torch.tensor([0, 1, 5, 11, 12])
    assert torch.equal(decode(y, defectives=each).x.sum(1), each)
    for wrong, said in ((-1, "from 0 to 12"), (13, "from 0 to 12"), (torch.tensor([1, 2]), "one per instance")):
        with pytest.raises(ValueError, match=f"defectives.*{said}"):
            decode(y, defectives=wrong)


def test_on_a_regular_design_without_noise_the_estimate_is_exact():
    problem = Problem(Design.column_regular(pools=10, items=30, weight=3, generator=generator(7)), Bernoulli(0.2))
    x, y = problem.simulate(100, generator=generator(8))
    result = MaximumNeighborhood().bind(problem)(y)
    assert torch.equal(result.x.sum(1), x.sum(1))
    assert torch.equal(result.x, MaximumNeighborhood().bind(problem)(y, defectives=x.sum(1)).x)


def test_with_enough_pools_it_recovers_nearly_everything():
    problem = Problem(Design.bernoulli(pools=400, items=200, generator=generator(9)), FixedWeight(3))
    x, y = problem.simulate(100, generator=generator(10))
    # The gap of M / 4 = 100 between scores is 8 standard deviations of their difference, sqrt(2 M k) / 4; over 60,000
    # pairs of items a false failure has probability below 1e-9.
    assert score(x, MaximumNeighborhood().bind(problem)(y, defectives=3).x).success_rate == 1.0


@pytest.mark.parametrize("decoder", [MaximumNeighborhood(), Prevalence()])
def test_impossible_counts_are_reported_and_the_others_decoded(decoder):
    problem = Problem(Design.from_rows(["110", "011"]), Bernoulli(0.3), SparseInteger(rate=0.1, bound=1))
    y = torch.tensor([[1, 1], [4, 1], [1, -2], [0.5, 0], [3, -1]], dtype=torch.float64)
    result = decoder.bind(problem)(y)
    assert [Status(status) for status in result.status.tolist()] == [
        Status.OK,
        Status.INFEASIBLE,
        Status.INFEASIBLE,
        Status.INFEASIBLE,
        Status.OK,
    ]
    assert result.x.shape == (5, 3)


def test_a_design_of_empty_pools_is_no_trouble():
    problem = Problem(Design.from_rows(["000", "000"]), Bernoulli(0.3))
    decode = MaximumNeighborhood().bind(problem)
    result = decode(torch.zeros(2, 2, dtype=torch.float64))
    assert result.x.tolist() == [[0, 0, 0]] * 2
    assert decode(torch.zeros(1, 2, dtype=torch.float64), defectives=2).x.tolist() == [[1, 1, 0]]


@pytest.mark.parametrize(
    ("prior", "expected"),
    [
        (Bernoulli(0.06), [0, 0, 0, 0]),
        (Bernoulli(0.94), [1, 1, 1, 1]),
        (Bernoulli([0.1, 0.9, 0.5, 0.51]), [0, 1, 0, 1]),  # as likely as not is not called
        (FixedWeight(3), [1, 1, 1, 1]),
        (FixedWeight(2), [0, 0, 0, 0]),
        (Households(size=2, seed_rate=0.9, attack_rate=0.9), [1, 1, 1, 1]),
        (Households(size=2, seed_rate=0.7, attack_rate=0.7), [0, 0, 0, 0]),
    ],
)
def test_prevalence_calls_by_the_marginals_alone(prior, expected):
    problem = Problem(Design.from_rows(["1100", "0011"]), prior)
    result = Prevalence().bind(problem)(torch.tensor([[0, 0], [2, 1], [1, 2]], dtype=torch.float64))
    assert result.x.tolist() == [expected] * 3
    assert torch.equal(result.scores, prior.marginals(4).repeat(3, 1))
    assert result.status.tolist() == [Status.OK] * 3


def test_prevalence_cannot_use_the_number_of_defectives():
    decode = Prevalence().bind(Problem(Design.from_rows(["11"]), Bernoulli(0.3)))
    with pytest.raises(ValueError, match="defectives was given, but this decoder cannot use it"):
        decode(torch.zeros(1, 1, dtype=torch.float64), defectives=1)


def test_prevalence_needs_marginals_and_maximum_neighborhood_does_not():
    class Mute:
        def sample(self, instances, items, *, generator):
            return torch.zeros(instances, items, dtype=torch.uint8)

    problem = Problem(Design.from_rows(["11"]), Mute())
    assert "marginals" in Prevalence().supports(problem)
    with pytest.raises(ValueError, match=r"^Prevalence cannot decode this problem: .*marginals"):
        Prevalence().bind(problem)
    assert MaximumNeighborhood().supports(problem) is None
    result = MaximumNeighborhood().bind(problem)(torch.ones(1, 1, dtype=torch.float64))
    assert result.x.tolist() == [[1, 0]]
