"""Copies and categories in accounts and files: which value, how probable, and never an all-clear by accident."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import qgt
from qgt import Categories, Certified, Copies, Design, Problem
from qgt.lab.answers.accounts import Account, accounts
from qgt.lab.answers.decoding import decode_sheet
from qgt.lab.answers.outputs import calls_in_words, calls_rows, products, sample_columns, sample_rows, sheet_page
from qgt.lab.verdicts import Call, Verdict

NAMED = Categories((0.05, 0.05), names=["variant A", "variant B"])
DESIGN = Design.from_rows(["110", "011"])


def account(problem: Problem, *counts: object, **evidence: float) -> Account:
    y = torch.tensor([counts], dtype=torch.float64)
    result = Certified().bind(problem)(y)
    if evidence:
        changed = {name: torch.tensor([value], dtype=torch.float64) for name, value in evidence.items()}
        result = replace(result, evidence=replace(result.evidence, **changed))
    (made,) = accounts(problem, y, ["plate 7"], result)
    return made


def test_an_answer_names_the_category_of_each_sample() -> None:
    made = account(Problem(DESIGN, NAMED), [0, 0], [1, 0])
    assert made.verdict is Verdict.CERTAIN and made.answer == ("I3 (variant A)",)
    assert made.words.startswith("Positive: I3 (variant A) (1 of 3 samples).")
    assert [one.cell for one in made.calls] == ["negative", "negative", "variant A"]
    assert calls_in_words(made) == "I3 (variant A) positive"
    assert made.plain["values"]["I3"]["called"] == "variant A"  # type: ignore[index]


def test_copies_are_whole_numbers() -> None:
    made = account(Problem(DESIGN, Copies(frequency=0.05, ploidy=2)), 0, 2)
    assert [one.cell for one in made.calls] == ["0", "0", "2"] and made.answer == ("I3 (2 copies)",)


def test_a_sample_of_which_only_the_category_is_open_is_tested_again() -> None:
    # Category 2 is not reported where it matters: the pools say that I3 has something, not what.
    problem = Problem(Design.from_rows(["1"]), Categories((0.2, 0.2), names=["variant A", "variant B"]))
    y = torch.tensor([[[1.0, torch.nan]]], dtype=torch.float64)
    (sure,) = accounts(problem, y, None, Certified().bind(problem)(y))
    assert [one.cell for one in sure.calls] == ["variant A"]
    # A pool that reports reads of both with an error: the sample is positive, and either category is possible.
    doubtful = Problem(Design.from_rows(["1"]), problem.prior, qgt.SparseInteger(rate=0.5, bound=1))
    y = torch.tensor([[[1.0, 1.0]]], dtype=torch.float64)
    (made,) = accounts(doubtful, y, None, Certified().bind(doubtful)(y))
    (call,) = made.calls
    assert call.value is not None and call.value.probabilities is not None
    assert call.call is Call.RETEST and call.cell == "" and call.value.label == ""
    assert max(probability for _, probability in call.value.probabilities) < 0.9


def test_probabilities_of_values_sum_to_one_and_agree_with_the_call() -> None:
    g = torch.Generator().manual_seed(1)
    design = Design.column_regular(pools=10, items=20, weight=4, generator=g)
    for prior in (NAMED, Copies(frequency=0.06, ploidy=2)):
        problem = Problem(design, prior, qgt.SparseInteger(rate=0.1, bound=1))
        y = problem.simulate(30, generator=g).y
        sheet = decode_sheet(problem, y, None, Certified(certificates=False), calibrate=0.5)
        calls = [call for one in sheet.accounts for call in one.calls]
        assert {call.call for call in calls} >= {Call.POSITIVE, Call.RETEST, Call.NEGATIVE}
        for call in calls:
            assert call.value is not None
            assert (call.cell == "") == (call.call in (Call.RETEST, Call.NONE))
            if call.value.probabilities is None:
                continue
            shares = dict(call.value.probabilities)
            assert sum(shares.values()) == pytest.approx(1.0, abs=1e-9) and min(shares.values()) >= 0
            assert call.probability == pytest.approx(1 - shares[prior.labels[0]], abs=1e-9)
            if call.call is Call.POSITIVE:
                assert call.value.label in prior.labels[1:] and shares[call.value.label] >= 0.9
            if call.call is Call.NEGATIVE:
                assert call.value.label == prior.labels[0] and shares[prior.labels[0]] >= 0.99


@pytest.mark.parametrize("verdict", ["certain", "confident", "unsure"])
@pytest.mark.parametrize("answer", [0, 1, 2])
@pytest.mark.parametrize("shares", [(0.95, 0.03, 0.02), (0.05, 0.5, 0.45), (0.995, 0.004, 0.001), (0.02, 0.95, 0.03)])
def test_calls_follow_the_probabilities_of_values(
    verdict: str, answer: int, shares: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Problem(Design.from_rows(["11", "11"]), NAMED)
    y = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]], dtype=torch.float64)
    result = Certified().bind(problem)(y)
    values = torch.tensor([[shares, shares]], dtype=torch.float64)
    confidence = {"certain": 0.995, "confident": 0.95, "unsure": 0.5}[verdict]
    evidence = replace(
        result.evidence,
        values=values,
        marginals=1 - values[:, :, 0],
        confidence=torch.tensor([confidence], dtype=torch.float64),
        unsettled=torch.zeros(1, 2, dtype=torch.bool),
    )
    given = replace(result, x=torch.full((1, 2), answer, dtype=torch.uint8), evidence=evidence)
    (made,) = accounts(problem, y, None, given)
    assert str(made.verdict) == verdict
    for one in made.calls:
        if shares[0] >= 0.99:
            assert (one.call, one.cell) == (Call.NEGATIVE, "negative")
        elif answer and shares[answer] >= 0.9:
            assert (one.call, one.cell) == (Call.POSITIVE, NAMED.cells[answer])
        else:  # in particular a sample that is negative with 95 % is not called
            assert (one.call, one.cell) == (Call.RETEST, "")


def test_nothing_is_called_where_no_answer_explains_the_counts() -> None:
    made = account(Problem(DESIGN, NAMED), [0, 0], [2, 1])  # three categories in two samples
    assert made.verdict is Verdict.IMPOSSIBLE and {one.cell for one in made.calls} == {""}
    assert "add up to more than its samples in P2 (3 of 2 samples)" in made.words
    large = account(Problem(DESIGN, Copies(frequency=0.05, ploidy=2)), 0, 9)
    assert "P2 (counted 9, of 4 copies)" in large.words and large.answer == ()


def test_a_suspect_plate_calls_nothing() -> None:
    made = account(Problem(DESIGN, NAMED), [0, 0], [1, 0], fit=1e-9)
    assert made.verdict is Verdict.SUSPECT and {one.cell for one in made.calls} == {""}
    assert all(one.value is not None and one.value.probabilities is None for one in made.calls)


def test_alternatives_name_the_category_that_changes() -> None:
    prior = Categories((0.4, 0.4), names=["variant A", "variant B"])
    made = account(Problem(Design.from_rows(["1"]), prior, qgt.SparseInteger(rate=0.5, bound=1)), [1, 1])
    assert made.answer in (("I1 (variant A)",), ("I1 (variant B)",))
    changes = {other.change for other in made.alternatives}
    assert changes & {"I1 (variant B) instead of I1 (variant A)", "I1 (variant A) instead of I1 (variant B)"}


def test_files_have_names_and_the_probability_of_each_value(tmp_path: Path) -> None:
    problem = Problem(DESIGN, NAMED)
    y = torch.tensor([[[0, 0], [1, 0]], [[1, 1], [1, 1]]], dtype=torch.float64)
    sheet = decode_sheet(problem, y, ["a", "b"], Certified(), calibrate=None)
    assert list(calls_rows(sheet.accounts, DESIGN.item_names))[1] == ["a", "negative", "negative", "variant A"]
    rows = list(sample_rows(sheet.accounts, "CODE", None, NAMED))
    table = [dict(zip(sample_columns(rows, NAMED), row, strict=True)) for row in rows]
    assert table[2]["category"] == "variant A" and table[2]["probability of variant A"] > 0.99
    for row, call in zip(table, [each for one in sheet.accounts for each in one.calls], strict=True):
        assert (row["category"] or "") == call.cell and row["call"] == call.call.value
    files = products(sheet, title="Monday", decoder="certified", facts={})
    told = list(csv.DictReader(files["calls_by_sample.csv"].decode().splitlines()))
    assert told[2]["category"] == "variant A"
    page = sheet_page(sheet, title="Monday", facts={}, samples=qgt.Samples.placed(DESIGN.item_names))
    assert "variant A" in page and "Signs: 1 variant A, 2 variant B, ? test again" in page


def test_missing_counts_of_a_category_leave_its_samples_open() -> None:
    problem = Problem(DESIGN, Categories((0.05, 0.4), names=["variant A", "variant B"]))
    y = torch.tensor([[[0.0, torch.nan], [0.0, torch.nan]]], dtype=torch.float64)
    sheet = decode_sheet(problem, y, None, Certified(), calibrate=0.5)
    assert all(one.call is not Call.NEGATIVE and one.cell == "" for one in sheet.accounts[0].calls)


def test_suspect_files_are_found_by_their_pools() -> None:
    g = torch.Generator().manual_seed(2)
    design = Design.column_regular(pools=12, items=24, weight=5, generator=g)
    problem = Problem(design, NAMED, qgt.SparseInteger(rate=0.05, bound=1))
    y = problem.simulate(12, generator=g).y
    y = y.flip(1)  # the pools in reverse order
    sheet = decode_sheet(problem, y, None, Certified(certificates=False, time_limit=0.2), calibrate=0.5)
    assert sheet.fit is not None and sheet.fit.suspect
    assert all(one.verdict is not Verdict.CERTAIN for one in sheet.accounts)
    assert all(each.cell == "" for one in sheet.accounts for each in one.calls)
