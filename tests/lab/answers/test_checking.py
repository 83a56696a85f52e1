"""Certificates held against calls, in words."""

from dataclasses import replace

import pytest
import torch

import qgt
from qgt.decoders import checker
from qgt.lab.answers.checking import check_sheet, summary


def two_answers(rate: float) -> tuple[qgt.Problem, torch.Tensor, qgt.Decoded, torch.Tensor]:
    """Two answers explain the counts; the calls are the one that is not proved."""
    problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(rate))
    y = torch.tensor([[1.0, 1.0]], dtype=torch.float64)
    result = qgt.Certified().bind(problem)(y)
    assert result.x.tolist() == [[0, 1, 0]]
    return problem, y, result, torch.tensor([[1.0, 0.0, 1.0]], dtype=torch.float64)


def test_calls_that_are_as_probable_as_the_proved_answer_are_not_said_to_be_less_probable() -> None:
    problem, y, result, calls = two_answers(0.5)
    (one,) = check_sheet(problem, y, None, result, calls)
    assert one.reason == "the calls are another answer, as probable as the proved one: 50 % of those listed"
    problem, y, result, calls = two_answers(0.1)
    (one,) = check_sheet(problem, y, None, result, calls)
    assert one.reason == "the calls are another answer, less probable than the proved one: 10 % of those listed"


def test_a_complete_list_is_said_to_be_complete_at_its_own_odds() -> None:
    """A forger may claim a list that is complete at odds that ask for nothing."""
    problem, y, result, _ = two_answers(0.1)
    assert result.proof is not None
    empty = replace(result, proof=replace(result.proof, odds=1.0000001))
    made = check_sheet(problem, y, None, empty)
    words = " ".join(summary(made, empty.proof.odds))
    assert "1: complete at the certificate's own odds of 1.0000001" in words
    assert "own odds of 100: every answer more than 1/100 as probable" in " ".join(summary(made, 100.0))


def test_each_proof_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, y, result, calls = two_answers(0.1)
    seen, real = [], checker._verdict

    def counted(*given):
        seen.append(given)
        return real(*given)

    monkeypatch.setattr(checker, "_verdict", counted)
    assert check_sheet(problem, y, None, result, calls)[0].holds
    assert len(seen) == 1
