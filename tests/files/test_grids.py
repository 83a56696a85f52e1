"""Rows of cells: one module reads and writes them, as other programs do, and every text comes back."""

import csv
import io
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import qgt
from qgt.files import grids
from qgt.files.grids import csv_bytes, names_in_cell, names_of_cell, read_grid, read_grids, workbook_bytes

SOURCES = Path(qgt.__file__).parent


def test_one_module_reads_and_writes_csv() -> None:
    users = re.compile(r"\bcsv\.(reader|writer|DictReader|DictWriter)\b|^\s*(import csv|from csv import)", re.MULTILINE)
    found = [path.relative_to(SOURCES).as_posix() for path in SOURCES.rglob("*.py") if users.search(path.read_text())]
    assert found == ["files/grids.py"]


def test_the_page_and_the_laboratory_need_no_temporary_folders() -> None:
    made = re.compile(r"^(import tempfile|from tempfile)", re.MULTILINE)  # examples in docstrings may
    rooms = [path for room in ("web", "lab") for path in (SOURCES / room).rglob("*.py")]
    assert [path.name for path in rooms if made.search(path.read_text())] == []


def by_csv(text: str, separator: str) -> list[list[str]] | None:
    """What the module `csv` reads; None where it refuses the text."""
    try:
        return list(csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True))
    except csv.Error:
        return None


@settings(max_examples=500, deadline=None)
@given(st.text(',;\t "\n\ra1é'), st.sampled_from(",;\t "))
def test_cells_are_those_that_the_module_csv_reads(text: str, separator: str) -> None:
    wanted = by_csv(text, separator)
    try:
        found = grids._split(text, separator)
    except ValueError as error:
        assert wanted is None
        assert re.match(r"row \d+ has ", str(error))
    else:
        assert found == wanted


def test_cells_may_be_longer_than_the_module_csv_reads() -> None:
    long = "I" * (csv.field_size_limit() + 1)
    assert read_grid("x.csv", f'a,b\n{long},"{long}"\n'.encode()).rows == (("a", "b"), (long, long))


cells = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=5).filter(lambda text: text == text.strip())


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(cells, cells, cells), min_size=1, max_size=4))
def test_every_row_of_texts_comes_back(rows: list[tuple[str, ...]]) -> None:
    header = ("one", "two", "three")
    found = read_grid("x.csv", csv_bytes([header, *rows, ("end", "", "")]), header=header).rows
    assert [tuple(map(grids.unescape, row)) for row in found] == [header, *rows, ("end", "", "")]
    assert not any(cell.startswith(tuple("=+-@")) for row in found for cell in row)


@given(st.lists(cells.filter(bool)))
def test_names_in_one_cell_come_back(names: list[str]) -> None:
    assert names_of_cell(names_in_cell(names)) == names
    content = csv_bytes([("pool", "items"), ("p", tuple(names))])
    assert names_of_cell(read_grid("x.csv", content, header=("pool",)).rows[1][1]) == names


@pytest.mark.parametrize(
    ("text", "separator"),
    [
        ("pool,a;b\nx;1,0\n", ","),  # every line has a semicolon too, but then no cell is a pool
        ("pool;a,b\nx,1;0\n", ";"),
        ('"Pool"\ta;b,c\nx;y,\t0\n', "\t"),
        ("Wells;a\nx;1,5\n", ";"),  # no word that is known
        ("#1,0\n#2,1\n", ","),  # not remarks alone
    ],
)
def test_a_known_word_of_the_header_says_what_separates_cells(text: str, separator: str) -> None:
    assert read_grid("x.csv", text.encode(), header=("pool", "instance")).separator == separator


def test_several_sheets_are_not_one_table(tmp_path: Path) -> None:
    book = workbook_bytes({"one": [["a"], [1]], "two": [["b"], [2]]})
    with pytest.raises(ValueError, match=r"x\.xlsx: has 2 sheets; keep the one with the table"):
        read_grid("x.xlsx", book)


def test_a_design_may_be_larger_than_a_sheet_of_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grids, "MOST_CELLS", 10)
    monkeypatch.setattr(grids, "LARGEST_GRID_FILE", 20)
    content = b"1,0,1,0\n" * 5
    assert len(read_grid("x.csv", content).rows) == 5
    with pytest.raises(ValueError, match="has 40 bytes"):
        read_grids("x.csv", content)
    far = b"1\n" * 50 + b"," * 50 + b"1\n"  # one cell far out would make fifty rows as long
    with pytest.raises(ValueError, match="more than 10 cells"):
        read_grid("x.csv", far)
