"""Outcomes and pairs: against slow loops, SciPy's binomial test, and simulated decoders."""

import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import qgt
from qgt.files import codec
from qgt.trust.metrics import METRICS, Outcomes, Paired, joined_outcomes, outcomes, paired, score, two_sided

SETTINGS = settings(max_examples=60, deadline=None)
matrices = st.integers(1, 5).flatmap(
    lambda items: st.lists(st.lists(st.integers(0, 1), min_size=3 * items, max_size=3 * items), min_size=1, max_size=9)
)


def three(drawn: list[list[int]]) -> list[torch.Tensor]:
    """The truth and two decoders' calls."""
    whole = torch.tensor(drawn, dtype=torch.uint8).reshape(len(drawn), 3, -1)
    return [whole[:, i].contiguous() for i in range(3)]


@SETTINGS
@given(matrices)
def test_outcomes_are_the_score_in_order(drawn):
    x, calls, _ = three(drawn)
    found = outcomes(x, calls)
    assert found.instances == len(x)
    assert found.right.tolist() == [bool((a == b).all()) for a, b in zip(x, calls, strict=True)]
    assert found.score == score(x, calls)
    parts = [outcomes(x[i : i + 1], calls[i : i + 1]) for i in range(len(x))]
    assert joined_outcomes(parts) == found
    assert found.first(1) == parts[0]
    assert Outcomes(found.items, found.packed).triples.tolist() == [part.triples[0].tolist() for part in parts]


@SETTINGS
@given(matrices)
def test_pairs_equal_a_slow_loop(drawn):
    x, a, b = three(drawn)
    found = paired(outcomes(x, a), outcomes(x, b))
    ours, theirs = ([torch.equal(one, truth) for one, truth in zip(calls, x, strict=True)] for calls in (a, b))
    both = list(zip(ours, theirs, strict=True))
    assert (found.both, found.first, found.second, found.neither) == tuple(
        both.count(kind) for kind in ((True, True), (True, False), (False, True), (False, False))
    )
    for metric in METRICS:
        gap = score(x, a).mean(metric) - score(x, b).mean(metric)
        difference = found.difference(metric)
        assert math.isclose(difference.mean, gap, abs_tol=1e-12)
        assert difference.low <= difference.mean <= difference.high
    assert codec.decode("paired", json.loads(json.dumps(codec.encode("paired", found, Paired))), Paired) == found
    # The other way round, the same with its sign turned.
    back = paired(outcomes(x, b), outcomes(x, a))
    assert back.p_value == found.p_value
    assert all(back.better(metric) == -found.better(metric) for metric in METRICS)


def test_pairs_of_two_designs_add_up():
    g = torch.Generator().manual_seed(0)
    x, a, b = (torch.randint(0, 2, (40, 3), generator=g).to(torch.uint8) for _ in range(3))
    halves = [paired(outcomes(x[part], a[part]), outcomes(x[part], b[part])) for part in (slice(15), slice(15, 40))]
    whole, total = paired(outcomes(x, a), outcomes(x, b)), halves[0] + halves[1]
    assert (total.both, total.first, total.second, total.neither) == (
        whole.both,
        whole.first,
        whole.second,
        whole.neither,
    )
    for metric in METRICS:
        assert total.difference(metric) == pytest.approx(whole.difference(metric), rel=1e-9, abs=1e-12)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 400), st.data())
def test_the_p_value_is_the_binomial_tests(flips, data):
    first = data.draw(st.integers(0, flips))
    tail = sum(math.comb(flips, k) for k in range(min(first, flips - first) + 1))  # whole numbers: exact
    expected = min(1.0, 2 * tail / 2**flips)
    assert Paired(5, first, flips - first, 7, {}).p_value == pytest.approx(expected, rel=1e-9, abs=1e-300)


def test_the_p_value_at_known_values():
    # Agresti (2013), table 11.1: 150 against 86 discordant; the exact two-sided p is 3.716e-5.
    assert two_sided(86, 236) == pytest.approx(3.716e-5, rel=1e-3)
    assert two_sided(0, 0) == two_sided(5, 10) == two_sided(5, 11) == 1.0
    assert two_sided(0, 12_000) == 0.0 or two_sided(0, 12_000) > 0  # no overflow
    assert 0 < two_sided(5800, 12_000) < 1e-3


def test_the_exact_test_errs_as_seldom_as_it_says():
    """Two decoders of equal skill, 2,000 times: at most 5 % and two standard errors, for the exact test is cautious."""
    g = torch.Generator().manual_seed(1)
    kinds = torch.multinomial(torch.tensor([0.7, 0.1, 0.1, 0.1]), 2000 * 300, replacement=True, generator=g)
    wrong = 0
    for part in kinds.reshape(2000, 300):
        both, first, second, neither = torch.bincount(part, minlength=4).tolist()
        wrong += Paired(both, first, second, neither, {}).better() != 0
    assert 0.01 * 2000 < wrong <= 0.06 * 2000
    # And a real difference is found: 60 against 30 of 300.
    assert Paired(200, 60, 30, 10, {}).better() == 1
    assert Paired(200, 30, 60, 10, {}).better() == -1


def test_the_interval_of_a_paired_difference_holds_it():
    """F1 of two decoders that fail together: 1,000 studies of 500 instances; 95 % to within 0.93."""
    g = torch.Generator().manual_seed(2)
    triples = torch.tensor(
        [[[6, 0, 0], [6, 0, 0]], [[6, 0, 0], [5, 0, 1]], [[4, 1, 2], [6, 0, 0]], [[2, 3, 4], [3, 2, 3]]]
    )
    chances = torch.tensor([0.7, 0.12, 0.1, 0.08])
    each = torch.tensor([[2 * tp / (2 * tp + fp + fn) for tp, fp, fn in pair] for pair in triples.tolist()])
    truth = float((chances * (each[:, 0] - each[:, 1])).sum())
    held = 0
    for part in torch.multinomial(chances, 1000 * 500, replacement=True, generator=g).reshape(1000, 500):
        first, second = (Outcomes(100, triples[part, i].numpy().astype("<u4").tobytes()) for i in range(2))
        difference = paired(first, second).difference("f1")
        held += difference.low <= truth <= difference.high
    assert held >= 930


def test_an_mse_that_is_smaller_is_better():
    x = torch.zeros(50, 4, dtype=torch.uint8)
    worse = x.clone()
    worse[:, 0] = 1
    found = paired(outcomes(x, x), outcomes(x, worse))
    assert found.difference("mse").mean == -0.25
    assert found.better("mse") == 1


def test_no_instances_tell_nothing():
    none = Paired(0, 0, 0, 0, {})
    assert (none.p_value, none.better()) == (1.0, 0)
    assert math.isnan(none.difference().mean)


@pytest.mark.usefixtures("unchecked")
def test_what_is_refused():
    one, two = qgt.Outcomes(4, bytes(12)), qgt.Outcomes(4, bytes(24))
    with pytest.raises(ValueError, match="first has 1 instances of 4 items and second 2 of 4"):
        qgt.paired(one, two)
    with pytest.raises(ValueError, match="packed has 13 bytes"):
        qgt.Outcomes(4, bytes(13))
    with pytest.raises(ValueError, match="parts is not valid"):
        joined_outcomes([one, qgt.Outcomes(5, bytes(12))])
    with pytest.raises(ValueError, match="parts is not valid"):
        joined_outcomes([])
