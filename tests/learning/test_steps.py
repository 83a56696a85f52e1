"""Losses, and steps that several processes take together."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from qgt.learning.steps import balanced_mse, binary_cross_entropy


def by_loops(scores: list[list[float]], x: list[list[int]]) -> float:
    """The paper's equation, instance by instance; a side without items is left out."""
    total = 0.0
    for row, truth in zip(scores, x, strict=True):
        for status in (1, 0):
            errors = [(t - s) ** 2 for s, t in zip(row, truth, strict=True) if t == status]
            total += 0.5 * sum(errors) / len(errors) if errors else 0.0
    return total / len(x)


def test_hand_computed() -> None:
    scores = torch.tensor([[[0.8, 0.1, 0.3], [0.2, 0.0, 0.4]]])
    x = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]])
    # First: (0.2^2)/1 and (0.1^2 + 0.3^2)/2; second: no defective, (0.2^2 + 0.4^2)/3.
    expected = (0.5 * (0.04 + 0.05) + 0.5 * 0.2 / 3) / 2
    assert balanced_mse(scores, x).item() == pytest.approx(expected, rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 7))
def test_equals_the_formula(seed: int, instances: int, items: int) -> None:
    g = torch.Generator().manual_seed(seed)
    scores = torch.randn(2, instances, items, generator=g)
    x = torch.randint(0, 2, (2, instances, items), generator=g).float()
    x[0, 0], x[1, 0] = 0.0, 1.0  # always an instance with no defective and one with all
    loss = balanced_mse(scores, x)
    for model in range(2):
        expected = by_loops(scores[model].tolist(), x[model].int().tolist())
        assert loss[model].item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("loss", [balanced_mse, binary_cross_entropy])
def test_gradients_are_finite_without_and_with_only_defectives(loss: object) -> None:
    scores = torch.randn(1, 2, 5, generator=torch.Generator().manual_seed(0)).requires_grad_()
    x = torch.stack([torch.zeros(5), torch.ones(5)])[None]
    loss(scores, x).sum().backward()  # type: ignore[operator]
    assert scores.grad is not None
    assert torch.isfinite(scores.grad).all()
    assert (scores.grad != 0).all()


def test_cross_entropy_by_hand() -> None:
    scores, x = torch.tensor([[[0.0, 2.0]]]), torch.tensor([[[1.0, 0.0]]])
    expected = math.log(2) + math.log(1 + math.exp(2.0))
    assert binary_cross_entropy(scores, x).item() == pytest.approx(expected, rel=1e-6)
