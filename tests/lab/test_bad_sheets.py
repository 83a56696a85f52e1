"""Spoiled sheets: read right or refused by their place. `benchmarks/bad_sheets.py` tries many more."""

import pytest

import qgt.lab.reported
from qgt.files.tables import number
from spoiled_sheets import CHANGES, judged, random_case, refused


@pytest.mark.parametrize("start", range(0, 150, 50))
def test_no_wrong_value_is_taken(start):
    for seed in range(start, start + 50):
        assert judged(random_case(seed)) is None, seed


def test_right_sheets_are_read_and_not_only_refused():
    cases = [random_case(seed) for seed in range(150)]
    right = [case for case in cases if case.readable]
    assert len(right) > 60
    assert len(right) < 140
    assert not any(refused(case) for case in right)
    assert {case.layout for case in right} == {"wide", "long", "tidy", "plate"}
    assert len(CHANGES) > 15


def test_a_reader_that_guesses_is_caught(monkeypatch):
    """The judge itself: a reader that takes what it can of a cell is found out."""

    def guess(cell, *, commas):
        digits = "".join(character for character in cell if character.isascii() and character.isdigit())
        value = number(cell, commas=commas)
        return value if not isinstance(value, str) else float(digits or 0)

    monkeypatch.setattr(qgt.lab.reported, "number", guess)
    assert any(judged(random_case(seed)) for seed in range(100))
