"""Reports: lists in cells come apart again, formulas are defused, and the page shows every instance."""

import csv
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import qgt
from qgt.lab.answers.decoding import decode_sheet
from qgt.lab.answers.outputs import (
    REPORT_COLUMNS,
    SAMPLE_COLUMNS,
    calls_line,
    card,
    in_one_cell,
    products,
    refuse_undecided,
    sample_rows,
    sheet_page,
    write_answers,
    write_calls,
    write_report,
    write_samples,
)
from qgt.lab.sheets.names import label
from qgt.lab.verdicts import Call

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
    assert tuple(rows[0]) == REPORT_COLUMNS and len(rows) == 20

    def text(cell: str) -> str:
        return cell[1:] if cell.startswith("'") else cell

    for row, one in zip(rows, sheet.accounts, strict=True):
        assert not any(cell[:1] in ("=", "+", "-", "@", "\t", "\r") for cell in row.values() if cell)
        assert (text(row["plate"]), row["verdict"], row["words"]) == (one.name, one.verdict, one.words)
        lists = {"positive": one.positives, "retest": one.retests, "no_call": one.called(Call.NONE)}
        for column, names in {**lists, "answer": one.answer}.items():
            assert tuple(parts(text(row[column]))) == names
        others = [re.fullmatch(r"([\d.]+): (.*)", part, re.DOTALL).groups() for part in parts(row["alternatives"])]
        for (probability, changes), other in zip(others, one.alternatives, strict=True):
            assert float(probability) == pytest.approx(other.probability, abs=1e-4)
            assert parts(changes, ",") == [*(f"+{n}" for n in other.added), *(f"-{n}" for n in other.dropped)]
        off = [
            re.fullmatch(r"(.*): counted (\S+), expected (\S+)", part).groups()
            for part in parts(text(row["residuals"]))
        ]
        assert [(p, float(c), float(e)) for p, c, e in off] == [tuple(r)[:3] for r in one.residuals]


def test_calls_leave_what_is_not_called_empty_and_score_refuses_that(tmp_path: Path):
    _, sheet = odd_sheet()
    path = tmp_path / "calls.csv"
    write_calls(path, sheet.accounts, ODD)
    with path.open(newline="", encoding="utf-8") as stream:
        head, *rows = csv.reader(stream)
    assert head[:3] == ["plate", "'=1+1", "Lee, Ann"]
    assert [row[0] for row in rows] == [*(f"'={i}<q>" for i in range(19)), "\x1b[2J"]
    cells = {Call.POSITIVE: "1", Call.NEGATIVE: "0", Call.RETEST: "", Call.NONE: ""}
    for row, one in zip(rows, sheet.accounts, strict=True):
        assert row[1:] == [cells[each.call] for each in one.calls]
    assert sheet.accounts[3].called(Call.NONE) == ODD and {"0", "1", ""} == {cell for row in rows for cell in row[1:]}
    with pytest.raises(ValueError, match=r"row \d+, column \d+ is empty: the sample is not called"):
        refuse_undecided(path)
    write_answers(path, sheet.result, sheet.names, ODD)
    with pytest.raises(ValueError, match=r"row 5, column 2 is empty"):  # no answer explains it
        refuse_undecided(path)
    rows = [line.split(",")[-8:] for line in path.read_text("utf-8").splitlines()[1:]]
    answers = [[str(call) for call in x] for x in sheet.result.x.tolist()]
    assert rows == [[""] * 8 if i == 3 else x for i, x in enumerate(answers)]
    refuse_undecided(tmp_path / "absent.csv")  # whoever reads it says so


def test_a_line_of_calls_is_one_printable_line():
    _, sheet = odd_sheet()
    lines = [calls_line(one) for one in sheet.accounts]
    assert all(line.isprintable() for line in lines)
    assert lines[3] == "=3<q>: no call (impossible)" and lines[19].startswith(r'"\u001b[2J": ')
    clear = [{each.call for each in one.calls} == {Call.NEGATIVE} for one in sheet.accounts]
    assert ["none positive (" in line for line in lines] == clear and any(clear)


def test_a_line_for_each_sample_says_what_the_account_says(tmp_path: Path):
    _, sheet = odd_sheet()
    samples = qgt.Samples.placed(ODD)
    write_samples(tmp_path / "samples.csv", sample_rows(sheet.accounts, "ABC234", samples.places))
    with (tmp_path / "samples.csv").open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert tuple(rows[0]) == SAMPLE_COLUMNS and len(rows) == 20 * 8
    told = [(one, *each) for one in sheet.accounts for each in one.calls]
    for row, (one, sample, call, probability, *_) in zip(rows, told, strict=True):
        assert (row["sample"].removeprefix("'"), row["call"], row["verdict"]) == (sample, call.value, one.verdict.value)
        assert row["probability"] == ("" if probability is None else str(round(probability, 6)))
        assert (row["plate"], row["well"], row["check code"]) == (*samples.places[sample], "ABC234")
    assert {row["call"] for row in rows} == {"positive", "negative", "retest", "none"}


def test_no_cell_is_longer_than_a_spreadsheet_takes():
    cell = in_one_cell([f"sample {i:06}" for i in range(10_000)], more=5)
    shown = parts(cell)
    assert len(cell) < 32_767 and shown[0] == "sample 000000" and shown[-1] == f"... and {10_005 - len(shown) + 1} more"


def test_a_page_shows_every_instance_and_escapes_every_name():
    _, sheet = odd_sheet()
    page = sheet_page(sheet, title="<i>", facts={"counts": "<u>.csv"})
    overview = page[: page.index("Every sample")]
    assert overview.count('<tr><th scope="row">=') == 19
    doubtful = [one for one in sheet.accounts if one.verdict != "certain"]
    assert page.count("<article") == len(doubtful) > 3
    assert set(re.findall(r'href="#(.*?)"', page)) == set(re.findall(r'<article class="card" id="(.*?)"', page))
    assert "=3&lt;q&gt;" in page and "&lt;i&gt;" in page and "&lt;u&gt;.csv" in page
    assert not re.search("<q>|<i>|<u>", page)
    assert "20 plates of 8 samples, counted in 5 pools: " in page
    assert page.count("<td>check the counts</td>") == 1 and "<td>retest</td>" in page
    assert label(sheet.problem.design) in page and "Signature" in page
    calls = re.findall(r"<td>(positive|negative|test again|no call)</td>", page[page.index("Every sample") :])
    assert calls == sorted(
        (each.call.words for one in sheet.accounts for each in one.calls),
        key=lambda word: ["positive", "test again", "no call", "negative"].index(word),
    )


def test_a_card_tells_the_truth_where_it_is_known():
    x, sheet = odd_sheet()
    made = [card(sheet.problem, one, sheet.y[i], truth=x[i]).truth for i, one in enumerate(sheet.accounts)]
    right = (sheet.result.x == x).all(1).tolist()
    assert [text.endswith("is the answer.") for text in made] == [fine and i != 3 for i, fine in enumerate(right)]
    assert any("of those listed" in text for text in made)


def test_weak_positives_and_notes_on_the_file_are_said_wherever_the_calls_are():
    """A plate of cycle thresholds without positives clears nobody whose load the pools dilute beyond detection."""
    cycles = qgt.CycleThreshold(sigma=0.25, limit=38.0, dilution=1.0)
    design = qgt.Design.from_rows(["11110000", "00001111", "11001100", "00110011"])
    problem = qgt.Problem(design, qgt.Loads(rate=0.05, mean=3.0, sd=1.5, low=0.4), cycles)
    y = torch.full((1, 4), torch.inf, dtype=torch.float64)
    said = "Not covered: positives with a Ct above 36.0 alone, which pools of 4 samples dilute beyond detection."
    note = "Controls without a template amplified: row 5 (36.5); check for contamination."
    sheet = replace(decode_sheet(problem, y, ["A"], qgt.LoadPosterior(), calibrate=None), notes=[note])
    made = products(sheet, title="Monday", decoder="load_posterior", facts={})
    for name in ("report.csv", "results.json", "report.html"):
        assert said in made[name].decode(), name
    assert note in made["report.html"].decode()
    full = replace(problem, noise=qgt.CycleThreshold(sigma=0.25, limit=38.0))  # each sample gives its full volume
    (one,) = decode_sheet(full, y, ["A"], qgt.LoadPosterior(), calibrate=None).accounts
    assert "Not covered" not in one.words
