"""Designs in files: both forms give everything back, and faults are told with their row."""

import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from qgt import Design
from qgt.files.grids import names_in_cell, workbook_bytes


def bits(items: int) -> st.SearchStrategy[str]:
    return st.text("01", min_size=items, max_size=items)


matrices = st.integers(1, 6).flatmap(lambda items: st.lists(bits(items), min_size=1, max_size=6))
# Anything printable, but for blanks at the ends, which reading strips; commas, quotes and numbers often.
names = st.text(
    st.sampled_from(",;\"' 01#=+-@é漢🧪\u2028\u00a0") | st.characters(exclude_categories=["Cc", "Cs"]),
    min_size=1,
    max_size=6,
).filter(lambda name: name == name.strip())


@settings(max_examples=200, deadline=None)
@given(matrices, st.data(), st.sampled_from(["matrix", "lists", None]))
def test_csv_gives_the_design_back_with_its_names(rows, data, form):
    pool_names, item_names = (
        data.draw(st.lists(names, min_size=size, max_size=size, unique=True)) for size in (len(rows), len(rows[0]))
    )
    design = Design.from_rows(rows, pool_names, item_names)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "design.csv")
        design.to_csv(path, form=form)
        again = Design.from_csv(path)
        again.to_csv(Path(folder, "again.csv"), form=form)
        assert path.read_bytes() == Path(folder, "again.csv").read_bytes()
    assert again.rows == design.rows
    assert (again.pool_names, again.item_names) == (design.pool_names, design.item_names)


@pytest.mark.parametrize("form", ["matrix", "lists"])
@pytest.mark.parametrize(
    "name", ["items", "ITEMS", '"items"', "items,", "items\u2028x", "pool", "0", "1", "instance", '"', "'=", "-1", "P1"]
)
@pytest.mark.parametrize("rows", [["1", "0"], ["10", "00"]])
def test_names_with_a_meaning_elsewhere_come_back(tmp_path, form, name, rows):
    design = Design.from_rows(rows, [name, "other"], [name, "b"][: len(rows[0])])
    design.to_csv(tmp_path / "design.csv", form=form)
    again = Design.from_csv(tmp_path / "design.csv")
    assert (again.rows, again.pool_names, again.item_names) == (design.rows, design.pool_names, design.item_names)


@pytest.mark.parametrize("name", ["a\rb", "a\nb", "a\r\nb", " a", "a ", "", "\0", "\x1f"])
@pytest.mark.parametrize("form", ["matrix", "lists"])
def test_a_name_that_a_file_would_change_is_refused_or_kept(tmp_path, name, form):
    try:
        design = Design.from_rows(["10"], ["p"], [name, "b"])
    except ValueError as error:
        assert "item_names" in str(error)
        return
    design.to_csv(tmp_path / "design.csv", form=form)
    assert Design.from_csv(tmp_path / "design.csv").item_names == design.item_names


def test_the_forms_are_as_documented(tmp_path):
    design = Design.from_rows(["1010", "0000"], ["A, B", "=C"], ["a", "b c", "-d", 'e"f'])
    design.to_csv(tmp_path / "lists", form="lists")
    assert (tmp_path / "lists").read_text() == ('pool,items\n,"a ""b c"" \'-d ""e""""f"""\n"A, B",a \'-d\n\'=C,\n')
    design.to_csv(tmp_path / "matrix", form="matrix")
    assert (tmp_path / "matrix").read_text() == 'pool,a,b c,\'-d,"e""f"\n"A, B",1,0,1,0\n\'=C,0,0,0,0\n'


def test_a_sparse_design_is_written_as_lists_and_never_made_a_matrix(tmp_path):
    design = Design.column_regular(pools=200, items=2000, weight=3, generator=torch.Generator().manual_seed(0))
    path = tmp_path / "design.csv"
    design.to_csv(path)
    assert path.read_text().startswith("pool,items\n,I1 I2 I3 ")
    assert path.stat().st_size < 60_000  # the matrix has 800,000 bytes
    again = Design.from_csv(path)
    assert again.fingerprint == design.fingerprint
    assert "matrix" not in {*vars(design), *vars(again)}


@pytest.mark.usefixtures("unchecked")
def test_a_form_that_is_none_is_refused(tmp_path):
    with pytest.raises(ValueError, match="form='csv' is not valid"):
        Design.from_rows(["1"]).to_csv(tmp_path / "a", form="csv")
    assert list(tmp_path.iterdir()) == []


def read(tmp_path: Path, text: str) -> Design:
    path = tmp_path / "design.csv"
    path.write_bytes(text.encode())
    return Design.from_csv(path)


def test_a_matrix_without_names_gets_the_usual_ones(tmp_path):
    design = read(tmp_path, "1,0,1\n0,1,1\n")
    assert design.rows == ("101", "011")
    assert (design.pool_names, design.item_names) == (("P1", "P2"), ("I1", "I2", "I3"))


@pytest.mark.parametrize(
    "text",
    [
        "pool,items\n,A B C\nx,C A\ny,\n",
        "\ufeffPool, Items\r\n, A  B C\r\nx , C  A \r\n y,\r\n\r\n",
        '"pool","items"\n"","A B C"\n"x","C ""A"""\n"y",""\n',
        "pool;items\r\n;A B C\r\nx;C A\r\ny;\r\n",  # a spreadsheet in Germany
        "pool\titems\n\tA B C\nx\tC A\ny\t\n",
        "pool,items,,\n,A B C,,\nx,C A,,\ny,,,\n,,,\n",  # columns that a spreadsheet made
    ],
)
def test_lists_written_by_hand(tmp_path, text):
    design = read(tmp_path, text)
    assert (design.rows, design.pool_names, design.item_names) == (("101", "000"), ("x", "y"), ("A", "B", "C"))


@pytest.mark.parametrize("form", ["matrix", "lists"])
def test_a_workbook_is_a_design_too(tmp_path, form):
    design = Design.from_rows(["101", "000"], ["x", "y"], ["A", "B", "-C"])
    rows = [[names_in_cell(c) if isinstance(c, tuple) else c for c in row] for row in design.csv_rows(form=form)]
    (tmp_path / "design.xlsx").write_bytes(workbook_bytes({"design": rows}))
    assert Design.from_csv(tmp_path / "design.xlsx").fingerprint == design.fingerprint


def test_lists_without_all_items_number_them_as_they_come(tmp_path):
    design = read(tmp_path, "pool,items\nx,C A\ny,B A\n")
    assert (design.rows, design.item_names) == (("110", "011"), ("C", "A", "B"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pool,a,b\np,1,2\n", "row 2, column 3 holds 2"),
        ("1,0\n0,0.5\n", "row 2, column 2 holds 0.5"),
        ("1,-1\n", "row 1, column 2 holds -1"),
        ("1,2,3\n1,0,1\n", "row 1, column 2 holds 2.*'pool' in the top left cell"),
        ("pool,a\np,x\n", "row 2, column 2 holds 'x'"),
        (",1\n0,1\n", "row 1, column 1 is empty; write the missing number"),
        ("pool,items\n,A B\nx,A C\n", "row 3 puts 'C' into x, but row 2 has no such item; add it there"),
        ("pool,items\n,A B A\nx,A\n", r"row 2 names 'A' twice \(all items\)"),
        ("pool,items\nx,A\ny,B C B\n", r"row 3 names 'B' twice \(y\)"),
        ("pool,items\nx,A\ny,B\nx,B\n", "rows 2 and 4 are both called 'x'"),
        ("pool,items\nx,A\n,B\n", "row 3 has no name of a pool"),
        ("pool,items\nx,A\n\ny,A\n", "row 3 is not a pool, a comma, and items"),
        ("pool,items\nx,A,B\n", "row 2 is not a pool, a comma, and items"),
        ("pool,items\nx\n", "row 2 is not a pool"),
        (
            'pool,items\nx,"A\n',
            "is not readable as CSV .row 2 has a quotation mark that is not closed.; check its quotes",
        ),
        ('pool,items\nx,"""A ""B"\n', "row 2, column 2 is not readable .* check its quotes"),
        ("pool,items\n", "lists no pools or no items"),
        ("pool,items\nx,\n", "lists no pools or no items"),
        ("pool,items\nx,1\ny,0\n", "may be a matrix of one item called 'items'"),
    ],
)
def test_faults_are_told_with_their_place(tmp_path, text, said):
    with pytest.raises(ValueError, match=rf"design\.csv: {said}"):
        read(tmp_path, text)
