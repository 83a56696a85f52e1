"""Samples: made, read from files as people have them, and written so that they come back."""

import io

import pytest

from qgt.lab.sheets import plates
from qgt.lab.sheets.samples import Samples


def read(text: str) -> Samples:
    return Samples.read("s.csv", data=text.encode())


def test_numbered_samples_fill_plates_down_their_columns():
    samples = Samples.numbered(100)
    assert samples.wells[:9] == ("A1", "B1", "C1", "D1", "E1", "F1", "G1", "H1", "A2")
    assert samples.plates[95:97] == ("Plate 1", "Plate 2")
    assert samples.wells[96] == "A1"
    assert Samples.numbered(384, plate=384).wells[-1] == "P24"


def test_wells_and_positions_agree():
    for size in (96, 384):
        names = plates.wells(size)
        assert len(set(names)) == size
        assert [plates.position(name, size) for name in names] == list(range(1, size + 1))
        assert all(plates.well(name) == name for name in names)
    assert [plates.well(text) for text in ("a01", "P24", "Q1", "A25", "A0", "1A", "A1 ")] == [
        "A1", "P24", None, None, None, None, "A1",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "sample,plate,well,household,risk\nAnn,p,A01,x,0.1\nBob,p,b2,,0.2\n",
        "Name;Plate;Position;Family;Risk\nAnn;p;A1;x;0,1\nBob;p;B02;;0,2\n",
    ],
)
def test_a_file_is_read_whatever_its_marks(text):
    samples = read(text)
    assert samples == Samples(("Ann", "Bob"), ("p", "p"), ("A1", "B2"), ("x", "alone: Bob"), (0.1, 0.2))


def test_a_list_of_names_is_enough():
    assert read("sample\nAnn\nBob\n") == Samples.placed(["Ann", "Bob"])


def test_what_is_written_comes_back(tmp_path):
    samples = Samples(("=1+1", "a,b", "#3", "007"), ("p;q",) * 4, ("A1", "H12", "P24", "A2"), ("u", "v", "u", "w"))
    samples.write(tmp_path / "s.csv", remark="Design x, check code 234567")
    assert Samples.read(tmp_path / "s.csv") == samples
    assert "'=1+1" in (tmp_path / "s.csv").read_text()
    samples.write(tmp_path / "s.csv")
    assert Samples.read(tmp_path / "s.csv") == samples


def test_xlsx_keeps_numbers_as_names():
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in (["sample", "well"], [12, "A1"], ["x", "A2"]):
        book.active.append(row)
    stream = io.BytesIO()
    book.save(stream)
    assert Samples.read("s.xlsx", data=stream.getvalue()).names == ("12", "x")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sample\n", "lists no samples"),
        ("well\nA1\n", "row 1 has no column of names; call it 'sample'"),
        ("tube,colour\na,red\n", "row 1, column 1 holds 'tube', and no row names a column of samples; name the"),
        ("sample,name\na,b\n", "row 1, column 2 is a second column of names: 'sample' and 'name' could both be meant"),
        ("sample,well\na,A1\na,A2\n", "row 3, column 1 holds 'a', as row 2 does"),
        ("sample,well\na,A1\nb,A1\n", "holds 'Plate 1, A1' twice"),
        ("sample,well\na,Z1\n", "row 2, column 2 holds 'Z1'; write a well"),
        ("sample,well\n,A1\n", "row 2, column 1 is empty; name every sample"),
        ("sample,plate\na,p\n", "has plates but no wells"),
        ("sample,plate,well\na,,A1\n", "row 2, column 2 is empty; name the plate"),
        ("sample,risk\na,1.5\n", "row 2, column 2 holds '1.5'; write a probability"),
        ("sample,risk\na,\n", "row 2, column 2 holds ''; write a probability"),
        ("sample,well\n1.23E+13,A1\n", r"row 2, column 1 holds '1.23E\+13', a long number that a spreadsheet has"),
        ("sample,well\n02-Mar,A1\n", "row 2, column 1 holds '02-Mar', a date that a spreadsheet has made"),
        ("sample,well\na,A1,x\n", "row 2 has 3 cells and row 1 has 2"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_by_its_place(text, said):
    with pytest.raises(ValueError, match=said):
        read(text)


def test_samples_made_by_hand_are_checked():
    with pytest.raises(ValueError, match="wells holds 1 entries for 2 samples"):
        Samples(("a", "b"), ("p", "p"), ("A1",))
    with pytest.raises(ValueError, match="wells holds 'A01': give wells such as A1"):
        Samples(("a",), ("p",), ("A01",))
    with pytest.raises(ValueError, match="names is empty"):
        Samples((), (), ())
    with pytest.raises(ValueError, match="count=0 is not valid"):
        Samples.numbered(0)
    with pytest.raises(ValueError, match="plate=100 is not valid: give 96 or 384"):
        Samples.numbered(5, plate=100)
