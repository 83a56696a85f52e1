"""Scoring: the paper's five metrics against a slow loop, its conventions for empty instances, and additivity."""

import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, norm

from qgt import Score, score
from qgt.trust.scoring import METRICS, Z95, wilson

SETTINGS = settings(max_examples=80, deadline=None)


def slow_values(truth: list[int], calls: list[int]) -> dict[str, float]:
    """One instance's five metrics, written out."""
    tp = sum(t == c == 1 for t, c in zip(truth, calls, strict=True))
    if sum(truth) == sum(calls) == 0:
        precision = recall = f1 = 1.0
    elif sum(truth) == 0 or sum(calls) == 0:
        precision = recall = f1 = 0.0
    else:
        precision, recall = tp / sum(calls), tp / sum(truth)
        f1 = 2 * precision * recall / (precision + recall) if tp else 0.0
    return {
        "success_rate": float(truth == calls),
        "precision": precision,
        "recall": recall,
        "f1": f1,
        "mse": sum((t - c) ** 2 for t, c in zip(truth, calls, strict=True)) / len(truth),
    }


def pairs(items: int, least: int = 0) -> st.SearchStrategy[list[tuple[list[int], list[int]]]]:
    row = st.lists(st.integers(0, 1), min_size=items, max_size=items)
    return st.lists(st.tuples(row, row) | row.map(lambda one: (one, one)), min_size=least, max_size=12)


def tensors(drawn: list[tuple[list[int], list[int]]], items: int) -> tuple[torch.Tensor, torch.Tensor]:
    both = torch.tensor(drawn, dtype=torch.uint8).reshape(-1, 2, items)
    return both[:, 0], both[:, 1]


@SETTINGS
@given(st.integers(1, 5), st.data())
def test_the_five_metrics_equal_a_slow_loop(items, data):
    drawn = data.draw(pairs(items, least=1))
    found = score(*tensors(drawn, items))
    slow = [slow_values(*pair) for pair in drawn]
    assert found.instances == len(drawn)
    assert found.successes == sum(truth == calls for truth, calls in drawn)
    for metric in METRICS:
        expected = sum(value[metric] for value in slow) / len(slow)
        assert math.isclose(getattr(found, metric), expected, abs_tol=1e-12)
        assert found.mean(metric) == getattr(found, metric)
        low, high = found.interval(metric)
        assert 0.0 <= low <= expected + 1e-12
        assert expected - 1e-12 <= high <= 1.0


@pytest.mark.parametrize(
    ("truth", "calls", "three"),
    [
        ([0, 0], [0, 0], 1.0),  # both empty
        ([1, 0], [0, 0], 0.0),  # only the calls are empty
        ([0, 0], [1, 0], 0.0),  # only the truth is empty
        ([0, 1], [1, 0], 0.0),
        ([1, 1], [1, 1], 1.0),
    ],
)
def test_conventions_for_empty_instances(truth, calls, three):
    found = score(torch.tensor([truth], dtype=torch.uint8), torch.tensor([calls], dtype=torch.uint8))
    assert (found.precision, found.recall, found.f1) == (three, three, three)


def test_metrics_are_averaged_over_instances_not_pooled():
    x = torch.tensor([[1, 1, 1, 1], [1, 0, 0, 0]], dtype=torch.uint8)
    x_hat = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]], dtype=torch.uint8)
    found = score(x, x_hat)
    assert found.precision == 0.75  # (1 + 1/2) / 2; pooled it would be 5/6
    assert found.outcomes == {(4, 0, 0): 1, (1, 1, 0): 1}
    assert found.mse == 1 / 8


@SETTINGS
@given(st.integers(1, 4), st.data())
def test_scores_of_parts_add_up_to_the_score_of_the_whole(items, data):
    x, x_hat = tensors(data.draw(pairs(items)), items)
    cut = data.draw(st.integers(0, len(x)))
    first, second = score(x[:cut], x_hat[:cut]), score(x[cut:], x_hat[cut:])
    whole = score(x, x_hat)
    assert first + second == second + first == whole
    assert (first + second).instances == len(x)
    assert first == score(x[:cut], x_hat[:cut])  # adding changes neither part


def test_the_order_of_instances_does_not_matter():
    g = torch.Generator().manual_seed(0)
    x, x_hat = (torch.randint(0, 2, (200, 3), generator=g).to(torch.uint8) for _ in range(2))
    order = torch.randperm(200, generator=g)
    assert score(x, x_hat) == score(x[order], x_hat[order])


@SETTINGS
@given(st.integers(1, 4), st.data())
def test_plain_data_gives_the_score_back_through_json(items, data):
    found = score(*tensors(data.draw(pairs(items)), items))
    assert Score.from_plain(json.loads(json.dumps(found.to_plain()))) == found


def test_scores_of_different_numbers_of_items_do_not_add():
    with pytest.raises(ValueError, match="3 and 4 items"):
        _ = Score(3, {}) + Score(4, {})


def test_no_instances_have_no_rates_and_the_widest_interval():
    none = torch.zeros(0, 3, dtype=torch.uint8)
    found = score(none, none)
    assert (found.instances, found.successes) == (0, 0)
    assert all(math.isnan(found.mean(metric)) for metric in METRICS)
    assert found.interval() == found.interval("f1") == (0.0, 1.0)


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 10**6), st.data())
def test_wilsons_interval_is_scipys(trials, data):
    successes = data.draw(st.integers(0, trials) | st.sampled_from([0, trials]))
    expected = binomtest(successes, trials).proportion_ci(0.95, method="wilson")
    low, high = wilson(successes, trials)
    assert math.isclose(low, expected.low, rel_tol=1e-9, abs_tol=1e-12)
    assert math.isclose(high, expected.high, rel_tol=1e-9, abs_tol=1e-12)
    assert 0.0 <= low <= successes / trials <= high <= 1.0


def test_wilsons_interval_at_known_values():
    assert math.isclose(Z95, norm.ppf(0.975), rel_tol=1e-15)
    # Newcombe (1998), table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
    known = {
        (81, 263): (0.2553, 0.3662),
        (15, 148): (0.0624, 0.1605),
        (0, 20): (0.0, 0.1611),
        (1, 29): (0.0061, 0.1718),
    }
    for (successes, trials), (low, high) in known.items():
        assert [round(end, 4) for end in wilson(successes, trials)] == [low, high]


def test_every_metric_has_wilsons_interval_of_its_mean():
    found = Score(items=4, outcomes={(1, 0, 0): 30, (1, 1, 0): 10})
    assert found.interval() == found.interval("success_rate") == pytest.approx(wilson(30, 40), rel=1e-12)
    assert found.interval("precision") == pytest.approx(wilson(35, 40), rel=1e-12)  # the mean is 35 / 40
    assert found.interval("recall") == pytest.approx(wilson(40, 40), rel=1e-12)
    assert found.interval("mse") == pytest.approx(wilson(2.5, 40), rel=1e-12)
    # No mean of values in [0, 1] varies more than a share of successes, so the interval is never too narrow.
    values = torch.tensor([1.0] * 30 + [0.5] * 10, dtype=torch.float64)
    low, high = found.interval("precision")
    assert high - low > 2 * Z95 * float(values.std()) / 40**0.5


@pytest.mark.parametrize("outcomes", [{(1, 1, 0): 1}, {(0, 0, 0): 1}, {(2, 0, 0): 3, (0, 0, 0): 1}, {}])
def test_an_unknown_metric_is_refused_whatever_the_outcomes(outcomes):
    for ask in (Score(4, outcomes).mean, Score(4, outcomes).interval):
        with pytest.raises(ValueError, match="metric='accuracy' is not known: give one of success_rate, f1"):
            ask("accuracy")


def test_str_tells_every_metric():
    found = Score(items=4, outcomes={(1, 0, 0): 3, (1, 1, 0): 1})
    assert str(found) == (
        "success rate 0.7500 [0.3006, 0.9544], f1 0.9167, precision 0.8750, recall 1.0000, mse 0.0625 (4 instances)"
    )


@pytest.mark.usefixtures("unchecked")
def test_wrong_shapes_are_refused():
    for shape in ((2, 4), (3, 3), (6,)):
        with pytest.raises(ValueError, match=r"x of shape \(2, 3\) and x_hat of"):
            score(torch.zeros(2, 3, dtype=torch.uint8), torch.zeros(shape, dtype=torch.uint8))
    with pytest.raises(ValueError, match=r"x of shape \(3,\)"):
        score(torch.zeros(3, dtype=torch.uint8), torch.zeros(3, dtype=torch.uint8))
