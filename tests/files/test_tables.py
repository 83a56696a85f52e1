"""Tables in CSV files: what is recognised, what is refused and where, and that a failure leaves nothing behind."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qgt.files import tables as table
from qgt.files.grids import escape, unescape
from qgt.files.tables import read_amount, read_number, read_range, read_share, read_shares


@pytest.fixture
def sheet(tmp_path):
    """Write text (or bytes) to a file and read it as a table."""

    def read(content: str | bytes) -> table.Table:
        path = tmp_path / "sheet.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return table.read_table(path)

    return read


@pytest.mark.parametrize(
    ("text", "rows", "columns", "place"),
    [
        ("1,0\n0,1\n", None, None, "row 1, column 1"),
        ("a,b\n1,0\n0,1\n", None, ("a", "b"), "row 2, column 1"),
        ("p,1,0\nq,0,1\n", ("p", "q"), None, "row 1, column 2"),
        ("pool,a,b\np,1,0\nq,0,1\n", ("p", "q"), ("a", "b"), "row 2, column 2"),
        ("Pool,1,2\n7,1,0\n8,0,1\n", ("7", "8"), ("1", "2"), "row 2, column 2"),  # numeric names: the corner says so
        ("instance,1,2\n7,1,0\n8,0,1\n", ("7", "8"), ("1", "2"), "row 2, column 2"),
        (",a,b\n7,1,0\n8,0,1\n", ("7", "8"), ("a", "b"), "row 2, column 2"),  # an empty corner, above words
        ("x,a,b\np,1,0\nq,0,1\n", ("p", "q"), ("a", "b"), "row 2, column 2"),  # any corner, where names are words
    ],
)
def test_names_are_optional_and_places_are_counted_as_a_spreadsheet_does(sheet, text, rows, columns, place):
    read = sheet(text)
    assert read.values == [[1.0, 0.0], [0.0, 1.0]]
    assert (read.row_names, read.column_names, read.place(0, 0)) == (rows, columns, place)


def test_place_counts_on_from_the_first_value(sheet):
    assert sheet("pool,a,b\np,1,0\nq,0,1\n").place(1, 1) == "row 3, column 3"


@pytest.mark.parametrize(
    "text",
    [
        b"\xef\xbb\xbf1,0\n0,1\n",  # the byte-order mark of spreadsheets
        "1,0\r\n0,1\r\n",
        "1,0\r0,1\r",
        " 1 , 0 \n 0 , 1 \n\n\n",
        '"1","0"\n"0","1"',
        "1e0,0.0\n-0,1.\n",
        "1;0\n0;1\n",
        "1\t0\n0\t1\n",
        "1,0;0,0\n0,0;1,0\n",  # decimal commas
        '"1,0",0\n0,"1,0"\n',
        "1,0\n0,1\n".encode("utf-16"),
        "1,0\n0,1\n".encode("utf-16-le"),
    ],
)
def test_harmless_differences_of_format_are_accepted(sheet, text):
    assert sheet(text).values == [[1.0, 0.0], [0.0, 1.0]]


def test_a_byte_order_mark_is_no_part_of_the_first_name(sheet):
    assert sheet(b"\xef\xbb\xbfa,b\n1,0\n").column_names == ("a", "b")
    assert sheet(b"\xef\xbb\xbfpool,1\n2,0\n").row_names == ("2",)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", ["is empty"]),
        ("\n \n\n", ["is empty"]),
        ("a,b\n", ["names but no numbers"]),
        ("pool\np\n", ["names but no numbers"]),
        ('""', ["names but no numbers"]),
        ("1,0\n0\n", ["row 2 has 1 cells", "row 1 has 2"]),
        ("1,0\n\n0,1\n", ["row 2 has 0 cells"]),
        ("\n1,0\n", ["row 1 has 0"]),
        ("a,b\n1,0\n0,1,1\n", ["row 3 has 3 cells", "decimal comma"]),
        ("a;b\n1;0,5\n1;2.5\n", ["row 3, column 2", "'2.5'", "write a decimal comma, as in the other cells"]),
        ("a;b\n1;0\n1;0;0\n", ["row 3 has 3 cells", "row 1 has 2"]),
        ("pool,a,b\np,1,nan\n", ["row 2, column 3", "'nan'", "finite"]),
        ("pool,a,b\np,1,0\nq,-inf,0\n", ["row 3, column 2", "'-inf'"]),
        ("pool,a,b\np,1,\n", ["row 2, column 3", "''"]),
        ('pool,a,b\np,1,"1,000"\n', ["row 2, column 3", "'1,000'", "write 1000 if the mark groups digits"]),
        ("pool,a\np,1e999\n", ["row 2, column 2", "'1e999'", "smaller"]),
        (f"pool,a\np,{'9' * 400}\n", ["row 2, column 2", "smaller"]),
        (",1,2\n7,1,0\n8,0,1\n", ["row 1, column 1 is empty", "missing number", "'pool'", "'instance'"]),
        (",1\n0,1\n", ["row 1, column 1 is empty"]),  # or a design whose first entry is missing
        ("plate,2,1\n7,1,0\n8,0,1\n", ["row 1, column 1 holds 'plate' above numbers", "'instance'"]),
        ("1,a,2\n3,4,5\n", ["row 1, column 2 holds 'a' among numbers"]),
        ("pool,a\np,1_0\n", ["row 2, column 2", "'1_0'"]),
        ("pool,a\np,\u0661\n", ["row 2, column 2"]),  # a digit of another script
        ("a,b\n1,0\n0,x\n", ["row 3, column 2", "'x'"]),
        ("pool,a,a\np,1,0\n", ["columns 2 and 3", "'a'"]),
        ("a,b,a\n1,0,1\n", ["columns 1 and 3", "'a'"]),
        ("pool,a\np,1\nq,0\np,1\n", ["rows 2 and 4", "'p'"]),
        ("p,1\np,0\n", ["rows 1 and 2", "'p'"]),
        ("pool,a,\np,1,0\n", ["column 3 has no name"]),
        ("pool,a\np,1\n,0\n", ["row 3 has no name"]),
        ('a,b\n"1,0\n', ["row 2 has a quotation mark that is not closed", "check its quotes"]),
        ('a,b\n"1"x,0\n', ["row 2 has text after a quotation mark", "check its quotes"]),
        (b"1,\x85\n", ["UTF-8", "row 1"]),
        (b"1,\0\n", ["NUL"]),
    ],
)
def test_faults_are_refused_in_one_line_that_names_the_file_and_the_place(sheet, content, said):
    with pytest.raises(ValueError, match=r"sheet\.csv: ") as caught:
        sheet(content)
    message = str(caught.value)
    assert "\n" not in message
    for words in said:
        assert words in message


def test_a_file_that_does_not_exist_is_a_value_error(tmp_path):
    with pytest.raises(ValueError, match=r"absent\.csv: cannot be read \(No such file or directory\); check the path"):
        table.read_table(tmp_path / "absent.csv")
    with pytest.raises(ValueError, match="cannot be read"):
        table.read_table(tmp_path)


# What a label may be: anything printable but for blanks at its ends, which reading strips.
names = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=6).filter(
    lambda name: name == name.strip()
)


@settings(max_examples=100, deadline=None)
@given(data=st.data(), corner=st.sampled_from(table.CORNERS))
def test_write_then_read_gives_everything_back(data, corner):
    rows = data.draw(st.lists(names, min_size=1, max_size=4, unique=True))
    columns = data.draw(st.lists(names, min_size=1, max_size=4, unique=True))
    numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-5, 300).map(float)
    values = [[data.draw(numbers) for _ in columns] for _ in rows]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "sheet.csv")
        table.write_table(path, values, row_names=rows, column_names=columns, corner=corner)
        read = table.read_table(path)
    assert read.values == values
    assert (read.row_names, read.column_names) == (tuple(rows), tuple(columns))


def test_whole_numbers_are_written_without_a_point(tmp_path):
    path = tmp_path / "sheet.csv"
    table.write_table(path, [[1.0, 2.5], [-3, 0]], row_names=["p", 'q"'], column_names=["a,b", "c"], corner="pool")
    assert path.read_bytes() == b'pool,"a,b",c\np,1,2.5\n"q""",-3,0\n'


def test_names_that_a_spreadsheet_would_run_are_escaped_and_numbers_are_not(tmp_path):
    path = tmp_path / "sheet.csv"
    table.write_table(path, [[-1, -2.5]], row_names=["=cmd|' /C calc'!A0"], column_names=["-x", "'@y"], corner="pool")
    assert path.read_text() == "pool,'-x,''@y\n'=cmd|' /C calc'!A0,-1,-2.5\n"
    read = table.read_table(path)
    assert read == table.Table([[-1.0, -2.5]], ("=cmd|' /C calc'!A0",), ("-x", "'@y"), 2, 2)


# --- a header that the reader knows


def known(text: str, *columns: str) -> table.Table:
    return table.read_table("sheet.csv", text.encode(), columns=columns)


@pytest.mark.parametrize(
    ("text", "columns", "rows", "header"),
    [
        ("sample,P1,P2\n7,1,0\n8,0,1\n", ("P1", "P2"), ("7", "8"), ("P1", "P2")),  # any corner, numbered samples
        ("sample,P2,P1\n7,1,0\n8,0,1\n", ("P1", "P2"), ("7", "8"), ("P2", "P1")),
        (",P1,P2\n7,1,0\n8,0,1\n", ("P1", "P2"), ("7", "8"), ("P1", "P2")),
        ("P1,P2\n1,0\n0,1\n", ("P1", "P2"), None, ("P1", "P2")),
        ("plate,2,1\n7,1,0\n8,0,1\n", ("1", "2"), ("7", "8"), ("2", "1")),  # numbered pools
        ("plate,2,1\na,1,0\nb,0,1\n", ("1", "2"), ("a", "b"), ("2", "1")),
        (",2,1\n7,1,0\n8,0,1\n", ("1", "2"), ("7", "8"), ("2", "1")),
        ("plate,'-2,1\n7,1,0\n8,0,1\n", ("1", "-2"), ("7", "8"), ("-2", "1")),
        ("1,control\n1,0\n0,1\n", ("control", "1"), None, ("1", "control")),
        ("sample,1,control\n7,1,0\n8,0,1\n", ("control", "1"), ("7", "8"), ("1", "control")),
        ("pool,P2\n1,0\n0,1\n", ("P2", "pool"), None, ("pool", "P2")),  # a pool called pool
        ("instance,instance,P2\n7,1,0\n8,0,1\n", ("instance", "P2"), ("7", "8"), ("instance", "P2")),
        ("a;b,c\n1,0\n0,1\n", ("c", "a;b"), None, ("a;b", "c")),  # semicolons in names separate nothing
        ("sample,P1,PX\n7,1,0\n8,0,1\n", ("P1", "P2"), ("7", "8"), ("P1", "PX")),  # to be refused by name, later
        ("1,0\n0,1\n", ("P1", "P2"), None, None),
        ("1,0\n0,1\n", ("7", "8"), None, None),
        ("a,1,0\nb,0,1\n", ("7", "8"), ("a", "b"), None),
    ],
)
def test_a_header_is_recognised_by_the_names_it_holds(text, columns, rows, header):
    read = known(text, *columns)
    assert (read.values, read.row_names, read.column_names) == ([[1.0, 0.0], [0.0, 1.0]], rows, header)


def test_numbers_that_may_be_names_or_counts_are_refused():
    with pytest.raises(ValueError, match=r"row 1 holds the pools' names, or counts .*'instance' in the top left cell"):
        known("2,1\n1,0\n", "1", "2")
    with pytest.raises(ValueError, match="row 1, column 1 holds 'plate' above numbers"):
        known("plate,2,3\n7,1,0\n", "1", "2")  # no pool is called 3


# Text cells: no spreadsheet runs them, and every text comes back.


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


# Numbers that people type: every way to write one is read alike, and what may mean two things is asked back.


@pytest.mark.parametrize("text", ["0.02", "0,02", "2%", "2 %", ".02", ",02", " 2,0 % ", "2e-2"])
def test_one_share_in_every_way_to_write_it(text):
    assert read_share("rate", text) == pytest.approx(0.02)


@pytest.mark.parametrize(
    "text",
    ["0.95,0.99", "0,95;0,99", "0,95 0,99", "0,95,0,99", "95%,99%", "95 % 99 %", "95 %; 99 %", "95/99 %", "95,99 %"],
)
def test_two_shares_in_every_way_to_write_them(text):
    assert read_shares("errors", text, wanted={2}) == pytest.approx([0.95, 0.99])


@pytest.mark.parametrize(
    ("text", "ends", "percent"),
    [
        ("2", (2, 2), False),
        ("1-3", (1, 3), False),
        ("1\u20133 %", (1, 3), True),
        ("1,5-3", (1.5, 3), False),
        ("1,5 - 3,5 %", (1.5, 3.5), True),
        ("1 to 4", (1, 4), False),
        ("0,5 % bis 2 %", (0.5, 2), True),
        ("1.5,3", (1.5, 3), False),
        ("0,02", (0.02, 0.02), False),
    ],
)
def test_ranges(text, ends, percent):
    found = read_range("positives", text)
    assert tuple(number.value for number in found) == pytest.approx(ends)
    assert {number.percent for number in found} == {percent}


@pytest.mark.parametrize(
    ("text", "ways"),
    [
        ("1,5", ["1.5 for one number", "1-5 for 1 to 5"]),
        ("1,5 %", ["1.5% for one number", "1%-5% for 1% to 5%"]),
        ("1,5,3", ["1.5-3 for", "1-5.3 for"]),
        ("1,000", ["1 for", "1000 for"]),
    ],
)
def test_what_may_mean_two_things_is_asked_back_with_both(text, ways):
    with pytest.raises(ValueError, match="may mean two things") as error:
        read_range("positives", text)
    for way in ways:
        assert way in str(error.value)
        written = way.split(" for")[0]  # what it says to write can be written
        assert read_range("positives", written)


@pytest.mark.parametrize(
    ("read", "text", "said"),
    [
        (read_share, "2", "write 2% or 0.02 for 2 per cent"),
        (read_share, "-0.1", "write 0.02 or 2%"),
        (read_share, "101 %", "write 0.02 or 2%"),
        (read_share, "", "write 0.02 or 2%"),
        (read_amount, "5 %", "without the sign of per cent"),
        (read_amount, "nan", "write a number"),
        (read_amount, "1e999", "write a number"),
        (read_number, "1 2", "write a number"),
        (read_range, "4-1", "give the lower end first, 1-4"),
        (read_range, "1%-3", "give a number or a range"),
        (read_range, "few", "give a number or a range"),
    ],
)
def test_what_is_no_number_is_refused_with_what_to_write(read, text, said):
    with pytest.raises(ValueError, match="is not valid") as error:
        read("value", text)
    assert said in str(error.value)
    assert repr(text) in str(error.value)


def test_long_texts_are_read_at_once():
    for text in ("1," * 90 + "1", "1" * 200, "%" * 200, "1 " * 99):
        with pytest.raises(ValueError, match="is not valid"):
            read_range("positives", text if text != "1" * 200 else text + "-")
