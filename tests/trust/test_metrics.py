"""Scoring: the paper's five metrics against a slow loop, its conventions for empty instances, and additivity."""

import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, norm

from qgt import Score, score
from qgt.trust.metrics import METRICS, Z95, value_of, wilson

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


def test_the_success_rate_has_wilsons_interval_and_the_others_their_own():
    found = Score(items=4, outcomes={(1, 0, 0): 300, (1, 1, 0): 100})
    assert found.interval() == found.interval("success_rate") == pytest.approx(wilson(300, 400), rel=1e-12)
    # Precision: 300 values of 1 and 100 of 1/2. Its variance, over that of successes with the same mean, is d.
    values = torch.tensor([1.0] * 300 + [0.5] * 100, dtype=torch.float64)
    d = float(values.var()) / (0.875 * 0.125)
    assert found.interval("precision") == pytest.approx(wilson(350 / d, 400 / d), rel=1e-12)
    low, high = found.interval("precision")
    assert high - low == pytest.approx(2 * Z95 * float(values.std()) / 400**0.5, rel=0.02)
    # All recalls are 1: how much they vary is not known, and the interval is the widest there is.
    assert found.interval("recall") == pytest.approx(wilson(400, 400), rel=1e-12)
    # With 29 values of another kind their variance is not known either.
    few = Score(items=4, outcomes={(1, 0, 0): 300, (1, 1, 0): 29})
    assert few.interval("precision") == pytest.approx(wilson(300 + 29 / 2, 329), rel=1e-12)


@SETTINGS
@given(st.integers(1, 5), st.data())
def test_no_interval_is_wider_than_that_of_successes_with_the_same_mean(items, data):
    found = score(*tensors(data.draw(pairs(items, least=1)), items))
    for metric in METRICS:
        low, high = found.interval(metric)
        widest = wilson(found.mean(metric) * found.instances, found.instances)
        assert widest.low - 1e-9 <= low and high <= widest.high + 1e-9


# Outcomes of N = 100 as decoders give them, each with its probability.
DECODERS = {
    "good": {(6, 0, 0): 0.9, (5, 1, 1): 0.05, (3, 2, 3): 0.05},
    "poor": {(6, 0, 0): 0.3, (4, 0, 2): 0.3, (5, 3, 1): 0.2, (0, 4, 6): 0.15, (0, 0, 6): 0.05},
    "nearly perfect": {(6, 0, 0): 0.995, (5, 0, 1): 0.004, (2, 4, 4): 0.001},
}


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("instances", [100, 2000])
def test_intervals_hold_the_mean_as_often_as_they_say(decoder, instances):
    """2,000 simulated studies; the standard error of a share of 95 % is 0.005.

    Where failures are many the bound is 0.93: 95 % less what skewed values cost, and less three standard errors. Where
    they are fewer than 30 every interval is Wilson's, whose share swings with the rate (0.91 at 99.5 % of 100
    instances, 0.905 where one in 1,000 fails badly): the bound is 0.89. One of half the right width would hold 0.67.
    """
    many = instances * (1 - DECODERS[decoder][6, 0, 0]) > 60
    kinds, chances = list(DECODERS[decoder]), list(DECODERS[decoder].values())
    g = torch.Generator().manual_seed(instances)
    drawn = torch.multinomial(torch.tensor(chances), 2000 * instances, replacement=True, generator=g)
    held = dict.fromkeys(METRICS, 0)
    for part in drawn.reshape(2000, instances):
        numbers = torch.bincount(part, minlength=len(kinds)).tolist()
        found = Score(100, {kind: n for kind, n in zip(kinds, numbers, strict=True) if n})
        for metric in METRICS:
            mean = sum(p * value_of(metric, kind, 100) for kind, p in DECODERS[decoder].items())
            low, high = found.interval(metric)
            held[metric] += low <= mean <= high
    assert min(held.values()) >= (0.93 if many else 0.89) * 2000, held


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


@pytest.mark.parametrize("other", [0.5, 2.0, float("nan")])
def test_scores_and_counts_are_no_calls(other, unchecked):
    x = torch.tensor([[1, 0]], dtype=torch.uint8)
    with pytest.raises(ValueError, match="x_hat holds other numbers than 0 and 1"):
        score(x, torch.tensor([[other, 0.0]]))
