"""Sheets of counts and statuses: matched by name, whatever stands in the top left cell."""

import pytest
import torch

from qgt import Design
from qgt.lab.sheets import read_counts, read_pair

NUMBERED = [str(number) for number in range(1, 13)]


@pytest.fixture
def counts(tmp_path):
    """Write text to a file and read it as counts of a design."""

    def read(text: str, design: Design):
        path = tmp_path / "counts.csv"
        path.write_text(text)
        y, names = read_counts(path, design, "the design")
        return y.tolist(), names

    return read


def test_samples_with_numbers_under_a_corner_of_any_name(counts):
    design = Design.from_rows(["110", "011"])
    assert counts("sample,P2,P1\n17,2,1\n4,0,3\n", design) == ([[1.0, 2.0], [3.0, 0.0]], ("17", "4"))


def test_a_header_of_numbered_pools_in_any_order_is_a_header(counts):
    design = Design.from_matrix(torch.eye(12, dtype=torch.uint8), NUMBERED)
    header = ",".join(["plate", *reversed(NUMBERED)])
    y, names = counts(f"{header}\nPlate 2,{','.join(map(str, range(12)))}\n", design)
    assert (y, names) == ([[float(v) for v in reversed(range(12))]], ("Plate 2",))


def test_names_that_begin_like_formulas_are_matched(counts):
    design = Design.from_rows(["110", "011"], ["=a", "-1"])
    assert counts("instance,'-1,'=a\n1,2,1\n", design) == ([[1.0, 2.0]], ("1",))
    assert counts("instance,-1,=a\n1,2,1\n", design) == ([[1.0, 2.0]], ("1",))  # as others write it


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "sample,P1,PX\n1,2,3\n",
            "column 3 is called 'PX', but the design has no such pool; use its names, such as 'P1'",
        ),
        ("sample,P1\n1,2\n", "has no column for pool 'P2' of the design; add it"),
        ("pool,count\nP1,2\nP2,3\n", "has one row for each pool of the design; turn it"),
        ("P1,2,0\nP2,3,1\n", "has one row for each pool of the design; turn it"),  # square: names decide
        ("1,2,3\n", "has 3 columns of numbers, but the design has 2 pools"),
    ],
)
def test_what_does_not_match_is_refused(counts, text, said):
    with pytest.raises(ValueError, match=said):
        counts(text, Design.from_rows(["110", "011"]))


def test_calls_under_any_corner_are_matched_to_the_truth(tmp_path):
    (tmp_path / "truth.csv").write_text("instance,1,2\na,0,1\nb,1,1\n")
    (tmp_path / "calls.csv").write_text("who,2,1\nb,0,1\na,1,0\n")
    true, called = read_pair(tmp_path / "truth.csv", tmp_path / "calls.csv")
    assert true.tolist() == [[0, 1], [1, 1]]
    assert called.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    "text",
    [
        "instance,P1,P2\none,1,\ntwo,NA,2\n",
        ",P1,P2\none,1,nan\ntwo,,2\n",
        "P1,P2\n1,\nna,2\n",
        "1,N/A\n,2\n",
        "one,1,\ntwo,NaN,2\n",
    ],
)
def test_missing_counts_are_nan(counts, text):
    y, _ = counts(text, Design.from_rows(["110", "011"]))
    assert [[value if value == value else None for value in row] for row in y] == [[1.0, None], [None, 2.0]]


def test_statuses_are_never_missing(tmp_path):
    path = tmp_path / "calls.csv"
    path.write_text("instance,a,b\none,1,\n")
    with pytest.raises(ValueError, match="row 2, column 3"):
        read_pair(path, path)
