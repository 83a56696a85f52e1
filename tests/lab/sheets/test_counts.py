"""Counts as people have them: every usual layout gives the same numbers, and what is unclear is refused."""

import io
import itertools

import pytest
import torch

from qgt import Design
from qgt.lab.sheets.counts import read_counts, read_pair
from qgt.lab.sheets.names import check_code, label
from qgt.lab.sheets.samples import Samples

DESIGN = Design.from_rows(["110", "011"])
NUMBERED = [str(number) for number in range(1, 13)]


def read(text: str | bytes, design: Design = DESIGN, samples: Samples | None = None):
    data = text if isinstance(text, bytes) else text.encode()
    return read_counts("c.csv", design, samples, data=data)


def numbers(sheet):
    """The counts with None for those that are missing."""
    return [[value if value == value else None for value in row] for row in sheet.y.tolist()]


def xlsx(*sheets, titles=("One", "Two", "Three"), hidden=()):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in zip(titles, sheets, strict=False):
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
        if title in hidden:
            sheet.sheet_state = "hidden"
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


def plate(values, title="", size=(8, 12)):
    """A plate as it stands on the bench, filled down its columns."""
    rows, columns = size
    cells = [["" for _ in range(columns)] for _ in range(rows)]
    for number, value in enumerate(values):
        cells[number % rows][number // rows] = value
    head = [title, *range(1, columns + 1)]
    return [head, *([chr(65 + i), *row] for i, row in enumerate(cells))]


# --- layouts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("instance,P1,P2\n1,1,2\n", ("1",)),
        ("anything,P2,P1\nmonday,2,1\n", ("monday",)),
        (",P1,P2\n7,1,2\n", ("7",)),
        ("#,P1,P2\n7,1,2\n", ("7",)),
        ("P1,P2\n1,2\n", None),
        ("1,2\n", None),
        ("one,1,2\n", ("one",)),
        ("pool,count\nP1,1\nP2,2\n", None),
        ("count,pool\n2,P2\n1,P1\n", None),
        ("P1,1\nP2,2\n", None),
        ("pool,plate 7\nP1,1\nP2,2\n", ("plate 7",)),
        ("pool,well,samples,count\nP1,A1,2,1\nP2,B1,2,2\n", None),
        ("plate,pool,count\nx,P2,2\nx,P1,1\n", ("x",)),
        ("well,count\nA01,1\nb1,2\n", None),
        ("P1;P2\n1;2\n", None),
        ("P1\tP2\n1,0\t2,0\n", None),
        ("P1,P2,,\n1,2,,\n\n,,,\n", None),  # what spreadsheets add
        ("# typed by Ann\n\npool,count\nP1,1\n\nP2,2\n", None),
        ("\ufeffP1,P2\r\n1,2\r\n", None),
        ('P1,P2\n"1,0",2\n', None),
    ],
)
def test_every_layout_gives_the_same_counts(text, names):
    sheet = read(text)
    assert sheet.y.tolist() == [[1.0, 2.0]]
    assert sheet.names == names
    assert sheet.y.dtype == torch.float64


def test_utf_16_of_spreadsheets_is_read():
    assert read("P1\tP2\n1\t2\n".encode("utf-16")).y.tolist() == [[1.0, 2.0]]


def test_several_instances_in_columns_and_in_rows():
    wide = read("plate,P1,P2\na,1,2\nb,3,4\n")
    for text in ("pool,a,b\nP2,2,4\nP1,1,3\n", "pool,plate,count\nP1,a,1\nP1,b,3\nP2,b,4\nP2,a,2\n"):
        sheet = read(text)
        assert (sheet.y.tolist(), sheet.names) == (wide.y.tolist(), wide.names) == ([[1, 2], [3, 4]], ("a", "b"))


@pytest.mark.parametrize("size", [(8, 12), (16, 24)])
@pytest.mark.parametrize("pools", [3, 12, 96])
def test_plates_as_they_stand_on_the_bench(pools, size):
    design = Design.from_matrix(torch.eye(pools, dtype=torch.uint8))
    one, two = list(range(pools)), list(range(1, pools + 1))
    rows = [*plate(one, "first", size), [], *plate(two, "second", size)]
    sheet = read("\n".join(",".join(map(str, row)) for row in rows), design)
    assert sheet.y.tolist() == [list(map(float, one)), list(map(float, two))]
    assert sheet.names == ("first", "second")


def test_a_design_over_two_plates_takes_both():
    design = Design.from_matrix(torch.eye(100, dtype=torch.uint8))
    rows = [*plate(range(96)), [""], *plate([96, 97, 98, 99])]
    text = "\n".join(",".join(map(str, row)) for row in rows)
    assert read(text, design).y.tolist() == [list(map(float, range(100)))]
    with pytest.raises(ValueError, match="has 1 plates, but 100 pools take 2 plates of 96 wells"):
        read("\n".join(",".join(map(str, row)) for row in plate(range(96))), design)


def test_a_plates_title_may_stand_above_it():
    rows = [["Plate 9"], *plate([1, 2])]
    sheet = read("\n".join(",".join(map(str, row)) for row in rows))
    assert (sheet.y.tolist(), sheet.names) == ([[1.0, 2.0]], ("Plate 9",))


def test_a_number_in_a_well_without_a_pool_is_refused():
    rows = plate([1, 2, 3])
    with pytest.raises(ValueError, match=r"row 4, column 2 holds '3', but no pool stands in that well"):
        read("\n".join(",".join(map(str, row)) for row in rows))


def test_xlsx_sheets_are_read_one_after_the_other():
    data = xlsx([["pool", "count"], ["P1", 1], ["P2", 2.5]], [["pool", "count"], ["P1", 3], ["P2", None]])
    sheet = read(data)
    assert numbers(sheet) == [[1.0, 2.5], [3.0, None]]
    assert sheet.names == ("One", "Two")
    assert "2 sheets were read: One and Two." in sheet.notes


def test_hidden_sheets_are_said_and_not_read():
    data = xlsx([["P1", "P2"], [1, 2]], [["P1", "P2"], [5, 5]], hidden=("Two",))
    sheet = read(data)
    assert sheet.y.tolist() == [[1.0, 2.0]]
    assert "Sheet 'Two' is hidden and was not read." in sheet.notes


@pytest.mark.parametrize("corner", ["plate", "instance", ""])
def test_a_header_of_numbered_pools_in_any_order_is_a_header(corner):
    design = Design.from_matrix(torch.eye(12, dtype=torch.uint8), NUMBERED)
    header = ",".join([corner, *reversed(NUMBERED)])
    sheet = read(f"{header}\nPlate 2,{','.join(map(str, range(20, 32)))}\n", design)
    assert (sheet.y.tolist(), sheet.names) == ([[float(v) for v in reversed(range(20, 32))]], ("Plate 2",))


def test_pools_named_by_numbers_are_never_taken_by_position():
    design = Design.from_matrix(torch.eye(12, dtype=torch.uint8), NUMBERED)
    for header in ([*NUMBERED[:-1], "13"], ["0"] * 12):
        with pytest.raises(ValueError, match="their names are numbers; name every pool in row 1"):
            read(f"plate,{','.join(header)}\nx,{','.join(NUMBERED)}\n", design)


def test_a_square_of_names_that_are_numbers_needs_its_corner():
    design = Design.from_matrix(torch.eye(3, dtype=torch.uint8), ["1", "2", "3"])
    text = "{},1,2,3\n1,4,5,6\n2,7,8,9\n3,1,2,0\n"
    with pytest.raises(ValueError, match="names pools both in row 1 and in column 1; write 'instance'"):
        read(text.format("x"), design)
    assert read(text.format("instance"), design).y.tolist() == [[4, 5, 6], [7, 8, 9], [1, 2, 0]]
    assert read(text.format("pool"), design).y.tolist() == [[4, 7, 1], [5, 8, 2], [6, 9, 0]]


def test_names_that_begin_like_formulas_are_matched():
    design = Design.from_rows(["110", "011"], ["=a", "-1"])
    assert read("instance,'-1,'=a\n1,2,1\n", design).y.tolist() == [[1.0, 2.0]]
    assert read("instance,-1,=a\n1,2,1\n", design).y.tolist() == [[1.0, 2.0]]  # as others write it


# --- what is detected, and said ---------------------------------------------------------------------------------------


def test_what_was_detected_is_said():
    assert read("P1;P2\n1,5;2\n").notes == (
        "Cells are separated by semicolons.",
        "Numbers have decimal commas.",
    )
    assert read("1,2\n").notes == ("The file does not name the pools: its columns are taken in the design's order.",)
    assert read("x,P1,P2\na,1,\nb,,2\n").notes[-1] == "2 of 4 counts are missing: P2 of a and P1 of b."


@pytest.mark.parametrize("gone", ["", "NA", "nan", "n/a"])
def test_missing_counts_are_nan_in_every_layout(gone):
    for text in (f"P1,P2\n{gone},1\n", f"pool,count\nP1,{gone}\nP2,1\n", f"one,{gone},1\n", f"{gone},1\n"):
        assert numbers(read(text)) == [[None, 1.0]]
    assert numbers(read(f"P1,P2\n1,{gone}\n")) == numbers(read(f"pool,count\nP1,1\nP2,{gone}\n")) == [[1.0, None]]


def test_decimal_commas_and_points_do_not_mix():
    assert read("P1;P2\n1,5;-2,25\n").y.tolist() == [[1.5, -2.25]]
    with pytest.raises(ValueError, match=r"row 2, column 2 holds '2.5'; write a decimal comma"):
        read("P1;P2\n1,5;2.5\n")


def test_the_check_code_must_be_the_designs():
    good = f'"# {label(DESIGN)}"\npool,count\nP1,1\nP2,2\n'
    assert f"The check code is the design's: {check_code(DESIGN)}." in read(good).notes
    bare = f"# {label(DESIGN)}\npool,count\nP1,1\nP2,2\n"  # a comma that nobody quoted
    assert read(bare).y.tolist() == [[1.0, 2.0]]
    other = Design.from_rows(["110", "111"])
    for text in (good, bare):
        with pytest.raises(ValueError, match=f"row 1 shows check code {check_code(DESIGN)}, but the design has"):
            read(text, other)


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("P1,P2\n", "names but no numbers"),
        ("sample,P1,PX\n1,2,3\n", "column 3 is called 'PX', but the design has no such pool; use its names, such"),
        ("sample,P1,p2\n1,2,3\n", "column 3 is called 'p2', but .* write 'P2', with the same capitals and blanks"),
        ("sample,P1\n1,2\n", "has no column for pool 'P2'; add it"),
        ("sample,P1,P2,P2\n1,2,3,4\n", "columns 3 and 4 are both called 'P2'"),
        ("sample,P1,P2\n1,2,3\n1,2,3\n", "rows 2 and 3 are both called '1'"),
        ("sample,P1,P2\n,2,3\n", "row 2, column 1 has no name"),
        ("sample,P1,P2\na,2,3,4\n", "row 2 has 4 cells and row 1 has 3"),
        ("sample,P1,P2\na,2\n", "row 2 has 2 cells and row 1 has 3"),
        ("P1,P2\n1,5,2\n", "row 2 has 3 cells and row 1 has 2.*decimal comma"),
        ("1,2,3\n", "has 3 columns of numbers, but the design has 2 pools"),
        ("1,2\n\n1,2\n", "row 2 is empty; delete it"),
        ("pool,count\nP1,2\nP3,3\n", "row 3, column 1 holds 'P3', but the design has no such pool"),
        ("pool,count\nP1,2\n", "has no row for pool 'P2'"),
        ("pool,count\nP1,2\nP2,1\nP1,2\n", "rows 2 and 4 are both for pool 'P1'"),
        ("pool,well\nP1,A1\nP2,B1\n", "no column of counts; add one called 'count'"),
        ("plate,pool,count\na,P1,1\na,P2,1\nb,P1,2\n", "has no row for pool 'P2' of 'b'"),
        ("plate,pool,count,more\na,P1,1,1\na,P2,1,1\n", "columns 3 and 4 both hold counts"),
        ("well,count\nA1,1\nC1,2\n", "row 3, column 1 holds 'C1', but the pools stand in wells A1 to B1"),
        ("pool,count\nP1,\nP2,\n", "all other counts of this instance are empty"),
        ("x,P1,P2\na,1,2\nb,,NA\n", "row 3, column 2 and all other counts"),
        ("P1,P2\n1,x\n", "row 2, column 2 holds 'x'; write a finite number"),
        ("P1,P2\n1,inf\n", "row 2, column 2 holds 'inf'"),
        ("P1,P2\n1,1e999\n", "row 2, column 2 holds '1e999'"),
        ("P1,P2\n1,1_000\n", "row 2, column 2 holds '1_000'"),
        ("P1,P2\n1,\u0661\n", "row 2, column 2 holds"),
        ("P1,P2\n1,3?\n", "row 2, column 2 holds '3\\?'"),
        ('P1,P2\n1,"1,000"\n', "row 2, column 2 holds '1,000'; write 1000 if the mark groups digits"),
        ("P1;P2\n1;1.000,5\n", "row 2, column 2 holds '1.000,5'"),
        ("P1,P2\n1,#N/A\n", "row 2, column 2 holds '#N/A'; the spreadsheet reports an error"),
        ("P1,P2\n1,02-Mar\n", "row 2, column 2 holds '02-Mar'"),
        ('P1,P2\n1,"2\n', "not readable as CSV"),
        (b"P1,P2\n1,\xff\n", "row 2, column 2 holds '\u00ff'"),
        (b"P1,P2\n1,\0\n", "NUL"),
        (b"PK\x03\x04 no zip", "not a readable XLSX file"),
        (b"\xd0\xcf\x11\xe0 old", "old or encrypted spreadsheet"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_by_its_place(text, said):
    with pytest.raises(ValueError, match=said):
        read(text)


def test_names_that_a_spreadsheet_mangled_are_recognised():
    design = Design.from_rows(["110", "011"], ["0012", "1234567890123"])
    with pytest.raises(
        ValueError, match="row 1, column 2 holds '12'; a spreadsheet may have dropped the zeros of '0012'"
    ):
        read("x,12,1234567890123\na,1,2\n", design)
    with pytest.raises(
        ValueError, match=r"row 1, column 3 holds '1.23E\+12'; this is a long number that a spreadsheet"
    ):
        read("x,0012,1.23E+12\na,1,2\n", design)
    with pytest.raises(ValueError, match=r"column 3 is called '1.23E\+12', but .* a long number that a spreadsheet"):
        read("x,P1,1.23E+12\na,1,2\n", Design.from_rows(["110", "011"], ["P1", "B1234567890123"]))
    with pytest.raises(ValueError, match="which is a sample; name the pools, such as 'P1'"):
        read("x,P1,S2\na,1,2\n", samples=Samples.numbered(3))


def test_dates_and_formulas_in_xlsx_are_refused():
    import datetime

    with pytest.raises(ValueError, match=r"sheet 'One', row 2, column 2 holds 'date 2026-03-02.*made a date of it"):
        read(xlsx([["P1", "P2"], [1, datetime.date(2026, 3, 2)]]))
    with pytest.raises(ValueError, match="sheet 'One', row 2, column 2 holds a formula without a result"):
        read(xlsx([["P1", "P2"], [1, "=A2+1"]]))
    with pytest.raises(ValueError, match="sheet 'One', row 2, column 2 holds 'True'"):
        read(xlsx([["P1", "P2"], [1, True]]))


def test_reading_never_depends_on_the_order_of_named_pools():
    pools = [f"P{i}" for i in range(1, 5)]
    design = Design.from_matrix(torch.eye(4, dtype=torch.uint8))
    for order in itertools.permutations(range(4)):
        row = ",".join(str(10 + i) for i in order)
        text = ",".join(["x", *(pools[i] for i in order)]) + f"\na,{row}\n"
        assert read(text, design).y.tolist() == [[10.0, 11.0, 12.0, 13.0]]


def test_a_wide_sheet_is_read_in_time_in_proportion_to_its_cells(monkeypatch):
    """Two thousand pools in a row: each cell is looked at a few times, not once for each of the others."""
    from qgt.lab.sheets.layouts import LayoutSheet

    looked, cell = [0], LayoutSheet.cell

    def counted(self, row, column):
        looked[0] += 1
        return cell(self, row, column)

    monkeypatch.setattr(LayoutSheet, "cell", counted)
    design = Design.column_regular(pools=2000, items=2000, weight=1, generator=torch.Generator().manual_seed(0))
    text = "\n".join([",".join(["plate", *design.pool_names]), ",".join(["A", *["0"] * 2000])])
    assert read(text, design).y.shape == (1, 2000)
    assert looked[0] < 20 * 2 * 2001


# Sheets of statuses: matched by name, whatever stands in the top left cell.


def test_calls_under_any_corner_are_matched_to_the_truth(tmp_path):
    (tmp_path / "truth.csv").write_text("instance,1,2\na,0,1\nb,1,1\n")
    (tmp_path / "calls.csv").write_text("who,2,1\nb,0,1\na,1,0\n")
    true, called = read_pair(tmp_path / "truth.csv", tmp_path / "calls.csv")
    assert true.tolist() == [[0, 1], [1, 1]]
    assert called.tolist() == [[0, 1], [1, 0]]


def test_statuses_are_never_missing(tmp_path):
    path = tmp_path / "calls.csv"
    path.write_text("instance,a,b\none,1,\n")
    with pytest.raises(ValueError, match="row 2, column 3"):
        read_pair(path, path)
