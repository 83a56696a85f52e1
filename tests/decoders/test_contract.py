"""What the contract adds to a decoding function."""

import pytest
import torch
from torch import Tensor

import qgt
from qgt.decoders.contract import BoundDecoder
from qgt.decoders.results import Decoded, Status


def test_only_answers_that_are_not_proved_are_asked_whether_their_counts_are_possible(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.1))
    told = torch.tensor([Status.PROVED, Status.OK, Status.INFEASIBLE, Status.TIME_LIMIT], dtype=torch.uint8)
    asked: list[Tensor] = []
    real = qgt.Problem.explainable
    monkeypatch.setattr(qgt.Problem, "explainable", lambda self, y: asked.append(y) or real(self, y))
    y = torch.tensor([[1.0, 1.0], [7.0, 0.0], [0.0, 2.0], [0.0, 0.0]], dtype=torch.float64)
    decode = BoundDecoder(problem, lambda y, _: Decoded(torch.zeros(len(y), 3, dtype=torch.uint8), told[: len(y)]))
    status = decode(y).status
    assert status.tolist() == [Status.PROVED, Status.INFEASIBLE, Status.INFEASIBLE, Status.TIME_LIMIT]
    assert torch.equal(torch.cat(asked), y[[1, 3]])
    asked.clear()
    assert decode(y[:1]).status.tolist() == [Status.PROVED]
    assert asked == []
