"""Reports: lists in cells come apart again, formulas are defused, and the page shows every instance."""

import csv
import re
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import qgt
from qgt.lab.decoding import decode_sheet
from qgt.lab.report_pages import card, sheet_page
from qgt.lab.reports import (
    COLUMNS,
    calls_line,
    in_one_cell,
    refuse_undecided,
    write_calls,
    write_report,
)

ODD = ("=1+1", "Lee, Ann", "a; b", 'say "x"', "-5", "@x", "right\u202eleft", "plain")


def odd_sheet():
    rows = ["11110000", "00111100", "00001111", "10101010", "01010101"]
    design = qgt.Design.from_rows(rows, [f"+P{i}" for i in range(5)], list(ODD))
    problem = qgt.Problem(design, qgt.Bernoulli(0.2), qgt.SparseInteger(rate=0.1, bound=1))
    x, y = problem.simulate(20, generator=torch.Generator().manual_seed(1))
    y[3, 0] = 50
    names = [f"={i}<q>" for i in range(19)] + ["\x1b[2J"]
    return x, decode_sheet(problem, y, names, qgt.Certified())


def parts(cell: str, delimiter: str = ";") -> list[str]:
    """A cell's list, as the documentation says it is taken apart."""
    if not cell:
        return []
    return next(csv.reader([cell], delimiter=delimiter, skipinitialspace=True))


@given(st.lists(st.text(st.characters(exclude_characters="\0\r\n", exclude_categories=["Cs"])), max_size=5))
def test_a_list_comes_apart_again(names):
    assert parts(in_one_cell(names)) == names
    assert parts(in_one_cell(names, ","), ",") == names


def test_ordinary_names_need_no_quotes():
    assert in_one_cell(["A1", "Lee, Ann", "B 2"]) == "A1; Lee, Ann; B 2"


def test_the_report_holds_every_account(tmp_path: Path):
    _, sheet = odd_sheet()
    write_report(tmp_path / "report.csv", sheet.accounts)
    with (tmp_path / "report.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert tuple(rows[0]) == COLUMNS and len(rows) == 20

    def text(cell: str) -> str:
        return cell[1:] if cell.startswith("'") else cell

    for row, one in zip(rows, sheet.accounts, strict=True):
        assert not any(cell[:1] in ("=", "+", "-", "@", "\t", "\r") for cell in row.values() if cell)
        assert (text(row["instance"]), row["verdict"], row["words"]) == (one.name, one.verdict, one.words)
        for column in ("defective", "undecided", "retests"):
            assert tuple(parts(text(row[column]))) == getattr(one, column)
        others = [re.fullmatch(r"([\d.]+): (.*)", part, re.DOTALL).groups() for part in parts(row["alternatives"])]
        for (probability, changes), other in zip(others, one.alternatives, strict=True):
            assert float(probability) == pytest.approx(other.probability, abs=1e-4)
            assert parts(changes, ",") == [*(f"+{n}" for n in other.added), *(f"-{n}" for n in other.dropped)]
        off = [
            re.fullmatch(r"(.*): counted (\S+), expected (\S+)", part).groups()
            for part in parts(text(row["residuals"]))
        ]
        assert [(p, float(c), float(e)) for p, c, e in off] == [tuple(r)[:3] for r in one.residuals]


def test_calls_leave_undecided_items_empty_and_score_refuses_them(tmp_path: Path):
    _, sheet = odd_sheet()
    path = tmp_path / "calls.csv"
    write_calls(path, sheet.accounts, ODD)
    with path.open(newline="", encoding="utf-8") as stream:
        head, *rows = csv.reader(stream)
    assert head[:3] == ["instance", "'=1+1", "Lee, Ann"]
    assert [row[0] for row in rows] == [*(f"'={i}<q>" for i in range(19)), "\x1b[2J"]
    for i, (row, one) in enumerate(zip(rows, sheet.accounts, strict=True)):
        wanted = [""] * 8 if one.undecided else [str(call) for call in sheet.result.x[i].tolist()]
        assert row[1:] == wanted
    assert sheet.accounts[3].undecided == ODD
    with pytest.raises(ValueError, match=r"row 5, column 2 is empty: the item is undecided"):
        refuse_undecided(path)
    write_calls(path, sheet.accounts[:3], ODD)
    refuse_undecided(path)
    refuse_undecided(tmp_path / "absent.csv")  # whoever reads it says so


def test_a_line_of_calls_is_one_printable_line():
    _, sheet = odd_sheet()
    lines = [calls_line(one) for one in sheet.accounts]
    assert all(line.isprintable() for line in lines)
    assert lines[3] == "=3<q>: no call (impossible)" and lines[19].startswith(r'"\u001b[2J": ')
    assert any("none defective (" in line for line in lines) == any(
        not one.defective and not one.undecided for one in sheet.accounts
    )


def test_a_page_shows_every_instance_and_escapes_every_name():
    _, sheet = odd_sheet()
    page = sheet_page(sheet, title="<i>", facts={"counts": "<u>.csv"})
    assert page.count('<tr><th scope="row">=') == 19
    doubtful = [one for one in sheet.accounts if one.verdict != "certain"]
    assert page.count("<article") == len(doubtful) > 3
    assert set(re.findall(r'href="#(.*?)"', page)) == set(re.findall(r'<article class="card" id="(.*?)"', page))
    assert "=3&lt;q&gt;" in page and "&lt;i&gt;" in page and "&lt;u&gt;.csv" in page
    assert not re.search("<q>|<i>|<u>", page)
    assert "20 instances of 8 items, counted in 5 pools: " in page
    assert page.count("<td>check the counts</td>") == 1 and "<td>retest " in page


def test_a_card_tells_the_truth_where_it_is_known():
    x, sheet = odd_sheet()
    made = [card(sheet.problem, one, sheet.y[i], truth=x[i]).truth for i, one in enumerate(sheet.accounts)]
    right = (sheet.result.x == x).all(1).tolist()
    assert [text.endswith("is the answer.") for text in made] == [fine and i != 3 for i, fine in enumerate(right)]
    assert any("of those listed" in text for text in made)
