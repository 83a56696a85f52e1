"""Text cells: no spreadsheet runs them, and every text comes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qgt.files.cells import escape, unescape


@given(st.text() | st.text("'=+-@\t\ra", max_size=6))
def test_every_text_comes_back_and_no_cell_is_a_formula(text):
    cell = escape(text)
    assert unescape(cell) == text
    assert not cell.startswith(tuple("=+-@\t\r"))


@pytest.mark.parametrize("text", ["", "A1", "a=b", "'", "'a", "1", " =1"])
def test_other_texts_stay_as_they_are(text):
    assert escape(text) == text


def test_a_foreign_cell_without_the_apostrophe_is_read_as_it_stands():
    assert unescape("=1+1") == "=1+1"
    assert unescape("-") == "-"
