"""Hostile names and cells through the command: sheets, worklists, calls, reports and screens show them as text."""

import csv
import io
import re
import shutil
from pathlib import Path

import pytest
from openpyxl import load_workbook

from hostile_texts import FORMULA, HOSTILE, Markup
from qgt import Noiseless
from qgt.cli import main
from qgt.files.grids import escape
from qgt.lab.plan.folder import write_plan
from qgt.lab.plan.planning import Candidate, Plan
from qgt.lab.plan.question import Question
from qgt.lab.plan.simulation import Scout
from qgt.lab.sheets.samples import Samples

READ = {"NaN", "-0", "\ufeff", "\u200b", "\u2028"}  # a missing count, a zero, and cells that are empty but for a mark


def taken(text: str) -> bool:
    """Whether the lab takes it as a sample's name."""
    try:
        Samples.placed([text, "other"])
    except ValueError as error:
        assert str(error).isprintable() and len(str(error)) < 400
        return False
    return True


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    """A plan whose samples have all the hostile names that are taken, and its folder."""
    names = [text for text in dict.fromkeys(HOSTILE) if taken(text)]
    assert len(names) > 30
    samples = Samples.placed(names)
    question = Question(samples, (0.0, 2.0), Noiseless(), 0.9)
    design = Scout(samples, question.prior, question.assay, None, seed=0).design(20, 4)
    one = Candidate(design, 4, 50, 49, 0.0, 3.5)
    return write_plan(Plan(question, (one,), one, False, seed=0), tmp_path_factory.mktemp("hostile") / "plan")


def check_csv(content: str, where: str) -> None:
    for row in csv.reader(io.StringIO(content)):
        assert not [cell for cell in row if FORMULA.match(cell)], where


def check_page(content: str, where: str) -> None:
    page = Markup()
    page.feed(content)
    assert page.found == [], where


def check_workbook(path: Path) -> None:
    for sheet in load_workbook(path).worksheets:
        assert not [cell for row in sheet.iter_rows() for cell in row if cell.data_type == "f"]


def test_a_plan_shows_them_as_text(plan):
    for path in plan.path.rglob("*"):
        if path.suffix == ".csv":
            check_csv(path.read_text(), path.name)
        if path.suffix == ".html":
            check_page(path.read_text(), path.name)
    check_workbook(plan.path / "counts.xlsx")
    assert Samples.read(plan.path / "samples.csv").names == plan.samples.names


def test_calls_and_reports_show_them_as_text(plan, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pools, positive = plan.problem.design.pool_names, plan.problem.design.matrix[:, :2].sum(1).tolist()
    lines = io.StringIO()
    writer = csv.writer(lines)
    writer.writerow(["instance", *pools])
    names = [text for text in plan.samples.names if len(text) < 100]
    for place, name in enumerate(names):  # every other one contradicts itself, and is told at length
        writer.writerow([escape(name), *(positive if place % 2 else [7, *positive[1:]])])
    Path("counts.csv").write_text(lines.getvalue(), encoding="utf-8")
    options = "--calibrate 0 -o calls.csv --report report.csv --html page.html"
    assert main(["decode", "counts.csv", "--problem", str(plan.path), *options.split()]) == 1
    assert main(["decode", "counts.csv", "--problem", str(plan.path), "--calibrate", "0"]) == 1
    out, err = capsys.readouterr()
    assert err == "" and all(line.isprintable() for line in out.split("\n"))
    check_csv(Path("calls.csv").read_text(), "calls.csv")
    check_csv(Path("report.csv").read_text(), "report.csv")
    check_page(Path("page.html").read_text(), "page.html")


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_cell_is_refused_by_its_place(text, plan, tmp_path, capsys):
    pools = plan.problem.design.pool_names
    cells = ["0"] * len(pools)
    cells[4] = text
    for number, rows in enumerate([[pools, cells], [["pool", "count"], *zip(pools, cells, strict=True)]]):
        file = tmp_path / f"{number}.csv"
        with file.open("w", newline="", encoding="utf-8") as stream:
            csv.writer(stream).writerows(rows)
        code = main(["decode", str(file), "--problem", str(plan.path), "--calibrate", "0"])
        out, err = capsys.readouterr()
        if code == 2:
            assert err.rstrip("\n").isprintable() and len(err) < 600
            assert re.search(r"row \d+|UTF-8|NUL|CSV", err)
        else:  # read as what it is: nothing, or zero
            assert text.strip("\ufeff\u200b\u2028") in READ or text in READ
            assert "none positive (certain)" in out


@pytest.mark.parametrize("text", [text for text in HOSTILE if "\x00" not in text and len(text) < 200])
def test_a_hostile_argument_breaks_nothing(text, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kept = shutil.copy(__file__, tmp_path / "mine.csv")
    before = Path(kept).read_bytes()
    for command in (
        ["plan", f"--samples={text}", "--positives", "1", "-o", "out"],
        ["plan", "--samples", "12", f"--positives={text}", "-o", "out"],
        ["plan", "--samples", "12", "--positives", "1", f"--assay={text}", "-o", "out"],
        ["plan", "--samples", "12", "--positives", "1", "--errors", f"0{text}", f"--assay={text}", "-o", "out"],
        ["decode", "mine.csv", f"--problem={text}"],
        ["follow-up", "mine.csv", f"--problem={text}", "-o", "out"],
    ):
        assert main(command) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.rstrip("\n").isprintable() and err.startswith("qgt: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.csv"]
    assert Path(kept).read_bytes() == before
