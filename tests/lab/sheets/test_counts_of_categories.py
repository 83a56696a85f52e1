"""Counts of several categories: the two layouts, and what is refused with its place."""

import pytest
import torch

from qgt.lab.sheets.counts import read_counts
from qgt.lab.sheets.names import check_code
from qgt.model.design import Design

DESIGN = Design.from_rows(["110", "011"])
BOTH = ("variant A", "variant B")
WANTED = torch.tensor([[[1.0, 0.0], [0.0, 2.0]]], dtype=torch.float64)


def read(text: str) -> torch.Tensor:
    return read_counts("typed", DESIGN, data=text.encode(), categories=BOTH).y


@pytest.mark.parametrize(
    "text",
    [
        "pool,variant A,variant B\nP1,1,0\nP2,0,2\n",
        "pool;Variant_A;variant B;well\nP2;0;2;B1\nP1;1;0;A1\n",
        "instance,P1 variant A,P1 variant B,P2 variant A,P2 variant B\n1,1,0,0,2\n",
        "P2 variant B,P2 variant A,P1 variant B,P1 variant A\n2,0,0,1\n",
        "pool,count\nP1 variant A,1\nP1 variant B,0\nP2 variant A,0\nP2 variant B,2\n",
        f"# check code {check_code(DESIGN)}\npool,variant A,variant B\nP1,1,0\nP2,0,2\n",
        "Screening of Monday\n\npool,variant A,variant B\nP1,1,0\nNTC,0,0\nP2,0,2\n",
    ],
)
def test_layouts(text: str) -> None:
    assert torch.equal(read(text), WANTED)


def test_several_plates_and_missing_counts() -> None:
    sheet = read_counts(
        "typed",
        DESIGN,
        data=b"plate,pool,variant A,variant B\na,P1,1,0\na,P2,,2\nb,P1,0,0\nb,P2,0,0\n",
        categories=BOTH,
    )
    assert sheet.names == ("a", "b") and sheet.y.shape == (2, 2, 2)
    assert sheet.y[0, 1].isnan().tolist() == [True, False]
    assert "1 of 8 counts is missing: P2 variant A of a." in sheet.notes


@pytest.mark.parametrize(
    "text, words",
    [
        ("pool,variant A\nP1,1\nP2,0\n", "has no column called 'variant B'; add it"),
        (
            "pool,variant A,variant B,variant C\nP1,1,0,0\nP2,0,2,1\n",
            "'variant C', but the problem has no such category",
        ),
        ("pool,variant A,variant B\nP1,1,0\nP3,0,2\n", "holds 'P3', but the design has no such pool"),
        ("pool,variant A,variant B\nP1,1,0\n", "has no row for pool 'P2'"),
        ("pool,variant A,variant B\nP1,1,0\nP1,1,0\nP2,0,2\n", "are both for pool 'P1'"),
        ("pool,variant A,variant B\nP1,1,x\nP2,0,2\n", "row 2, column 3 holds 'x'"),
        ("pool,variant A,variant B\nP1,,\nP2,,\n", "are empty; fill them in"),
        ("pool,variant A,variant A,variant B\nP1,1,1,0\nP2,0,0,2\n", "are both called 'variant A'"),
        ("1,0,0,2\n", "does not name the categories"),
        ("pool,count\nP1,1\nP2,2\n", "has no column called 'variant A'"),
        ("instance,P1 variant A,P1 variant B,P2 variant A\n1,1,0,0\n", "no column for pool 'P2 variant B'"),
        ("instance,P1,P2\n1,1,0\n", "does not name the categories"),
        ("# check code ABC234\npool,variant A,variant B\nP1,1,0\nP2,0,2\n", "another design"),
    ],
)
def test_what_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read(text)
