"""The threshold: as good as the best of all thresholds there are, which a loop over every one decides."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from qgt import best_threshold

FLOATS = [torch.float32, torch.float64]


def successes(scores: torch.Tensor, x: torch.Tensor, tau: float) -> int:
    """How many instances `scores >= tau` decodes without error, as a user would compute it."""
    return int(((scores >= tau).to(torch.uint8) == x).all(1).sum())


def brute_force(scores: torch.Tensor, x: torch.Tensor) -> int:
    """The most that any finite tau decodes: calls change only where tau passes a score."""
    finite = sorted(set(scores[scores.isfinite()].tolist()))
    above = [math.nextafter(finite[-1], math.inf)] if finite else [0.0]
    return max(successes(scores.double(), x, tau) for tau in finite + above)


ties = st.sampled_from([0.0, -0.0, 0.25, 0.5, 0.75, 1.0])  # few values, so that most scores are tied
fine = st.floats(-1, 1, width=32) | st.floats(-(2.0**127), 2.0**127, width=32)
endless = ties | st.sampled_from([math.inf, -math.inf])


def batches(values: st.SearchStrategy[float]) -> st.SearchStrategy[list[list[tuple[float, int]]]]:
    entry = st.tuples(values, st.integers(0, 1))
    # An instance whose defectives score higher by construction has a threshold; others mostly do not.
    separable = st.tuples(st.lists(values, min_size=3, max_size=3).map(sorted), st.integers(0, 3)).map(
        lambda drawn: [(value, int(rank >= drawn[1])) for rank, value in enumerate(drawn[0])]
    )
    return st.lists(st.lists(entry, min_size=3, max_size=3) | separable, min_size=1, max_size=8)


def tensors(batch: list[list[tuple[float, int]]], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    scores = torch.tensor([[score for score, _ in row] for row in batch], dtype=dtype)
    return scores, torch.tensor([[status for _, status in row] for row in batch], dtype=torch.uint8)


@pytest.mark.parametrize("dtype", FLOATS)
@settings(max_examples=250, deadline=None)
@given(batch=batches(ties) | batches(fine))
def test_no_threshold_is_better(dtype, batch):
    scores, x = tensors(batch, dtype)
    tau = best_threshold(scores, x)
    assert isinstance(tau, float)
    assert math.isfinite(tau)
    assert successes(scores, x, tau) == brute_force(scores, x)


@pytest.mark.parametrize("dtype", FLOATS)
@settings(max_examples=150, deadline=None)
@given(batch=batches(endless))
def test_infinite_scores_are_no_trouble(dtype, batch):
    scores, x = tensors(batch, dtype)
    # No finite tau is better. (An all-defective instance with a score of -inf is decoded by tau = -inf alone.)
    assert successes(scores, x, best_threshold(scores, x)) >= brute_force(scores, x)


@settings(max_examples=100, deadline=None)
@given(batch=batches(st.floats(allow_nan=False, allow_infinity=False)))
def test_neighbouring_and_enormous_doubles_are_told_apart(batch):
    scores, x = tensors(batch, torch.float64)
    assert successes(scores, x, best_threshold(scores, x)) == brute_force(scores, x)


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_result_is_a_number_of_the_scores_own_type(dtype):
    low = torch.tensor(0.1, dtype=dtype)
    high = torch.nextafter(low, torch.tensor(1.0, dtype=dtype))  # nothing lies between: tau must be the higher
    scores = torch.stack([low, high])[None]
    tau = best_threshold(scores, torch.tensor([[0, 1]], dtype=torch.uint8))
    assert tau == float(high)
    g = torch.Generator().manual_seed(1)
    scores = torch.rand(50, 4, dtype=dtype, generator=g)
    tau = best_threshold(scores, (scores > 0.6).to(torch.uint8))
    assert float(torch.tensor(tau, dtype=dtype)) == tau
    assert successes(scores, (scores > 0.6).to(torch.uint8), tau) == 50


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_ends_of_the_floats(dtype):
    most = torch.finfo(dtype).max
    scores = torch.tensor([[-most, most]], dtype=dtype)
    tau = best_threshold(scores, torch.tensor([[0, 1]], dtype=torch.uint8))
    assert math.isfinite(tau)
    assert successes(scores, torch.tensor([[0, 1]], dtype=torch.uint8), tau) == 1


def test_of_the_best_stretches_the_middle_of_the_widest_is_taken():
    x = torch.tensor([[0, 1]] * 3, dtype=torch.uint8)
    scores = torch.tensor([[0.0, 0.2], [0.3, 0.9], [0.9, 1.0]], dtype=torch.float64)  # one instance each
    assert math.isclose(best_threshold(scores, x), 0.6)
    scores = torch.tensor([[0.0, 0.5], [0.3, 0.9], [0.4, 1.0]], dtype=torch.float64)  # all three: (0.4, 0.5]
    assert math.isclose(best_threshold(scores, x), 0.45)
    scores = torch.tensor([[0.0, 1.0], [0.2, 0.2], [0.9, 0.1]], dtype=torch.float64)  # hopeless ones bound nothing
    assert math.isclose(best_threshold(scores, x), 0.5)


def test_instances_that_are_all_defective_or_not_at_all():
    scores = torch.tensor([[0.2, 0.7], [0.3, 0.4]])
    ones, zeros = torch.ones(2, 2, dtype=torch.uint8), torch.zeros(2, 2, dtype=torch.uint8)
    assert successes(scores, ones, best_threshold(scores, ones)) == 2
    assert successes(scores, zeros, best_threshold(scores, zeros)) == 2
    mixed = torch.tensor([[1, 1], [0, 0]], dtype=torch.uint8)  # tau <= 0.2 or tau > 0.4: one of the two
    assert successes(scores, mixed, best_threshold(scores, mixed)) == 1
    apart = torch.tensor([[0, 0], [1, 1]], dtype=torch.uint8)  # tau > 0.7 or tau <= 0.3: again one
    assert successes(scores, apart, best_threshold(scores, apart)) == 1
    ordered = torch.tensor([[0.6, 0.7], [0.3, 0.4]])
    tau = best_threshold(ordered, mixed)
    assert 0.4 < tau <= 0.6
    assert successes(ordered, mixed, tau) == 2


def test_tied_scores_of_a_defective_and_another_item_cannot_be_decoded():
    scores = torch.tensor([[0.5, 0.5], [0.1, 0.2]])
    x = torch.tensor([[1, 0], [0, 1]], dtype=torch.uint8)
    tau = best_threshold(scores, x)
    assert 0.1 < tau <= 0.2
    assert successes(scores, x, tau) == 1


def test_where_no_instance_can_be_decoded_any_number_will_do():
    tau = best_threshold(torch.tensor([[0.1, 0.9], [0.5, 0.5]]), torch.tensor([[1, 0], [1, 0]], dtype=torch.uint8))
    assert math.isfinite(tau)


def test_a_large_batch_against_every_candidate():
    g = torch.Generator().manual_seed(2)
    x = (torch.rand(400, 10, generator=g) < 0.3).to(torch.uint8)
    scores = (x + 0.9 * torch.rand(400, 10, generator=g) + 0.2 * torch.rand(400, 1, generator=g)).double()
    scores = (scores * 64).round() / 64  # ties across instances
    best = brute_force(scores, x)
    assert 100 < best < 400
    assert successes(scores, x, best_threshold(scores, x)) == best


def test_the_arguments_are_not_changed():
    scores, x = torch.tensor([[0.1, 0.9]]), torch.tensor([[0, 1]], dtype=torch.uint8)
    best_threshold(scores, x)
    assert scores.tolist() == torch.tensor([[0.1, 0.9]]).tolist()
    assert x.tolist() == [[0, 1]]


@pytest.mark.parametrize("scores", [torch.zeros(0, 2), torch.tensor([[0.1, math.nan]])])
def test_no_instances_and_nan_are_refused(scores):
    with pytest.raises(ValueError, match="scores are empty or hold NaN"):
        best_threshold(scores, torch.zeros(scores.shape, dtype=torch.uint8))
