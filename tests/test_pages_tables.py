"""Every table in README and docs is what the committed counts give."""

import json
import shutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
from matplotlib.image import imread

from qgt import paper

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], int]:
    """The script, in this process."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")  # the script's own folder, where its modules are
    return import_module("tables").main


def test_tables_are_what_the_counts_give(
    tables: Callable[[list[str]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert tables(["--check"]) == 0
    assert capsys.readouterr() == ("", "")
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    assert sum(page.read_text("utf-8").count("<!-- table: ") for page in pages) >= 15


def test_what_is_not_measured_yet_is_said(tmp_path: Path, tables: Callable[[list[str]], int]) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "results").mkdir()
    (tmp_path / "results/follow_up.json").write_text('{"cases": {}}', "utf-8")
    page = tmp_path / "README.md"
    page.write_text("".join(f"<!-- table: {name} -->\n<!-- end -->\n" for name in ("follow_up", "scale")), "utf-8")
    assert tables(["--write", "--root", str(tmp_path)]) == 0
    assert page.read_text("utf-8").count("-->\n*(Not measured yet.)*\n<!-- end -->") == 2


def test_networks_are_beside_the_others_of_their_row(tmp_path: Path, tables: Callable[[list[str]], int]) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "results").mkdir()
    key = {"items": "3 categories", "pools": 30, "noise": 0.1}
    others = {name: {"right": 50, "ms": 1.0} for name in ("amp", "linear_program", "iht")}
    right = {"one_pass": 70, "rounds": 80, "new_one_pass": 7000, "new_rounds": 8000}
    success = {**key, "instances": 100, "right": 90, "proved": 100, "median_ms": 1.0, "others": others}
    network = {**key, "instances": 100, "new_instances": 10_000, "right": right}
    results = {"success": [success, {**success, "pools": 35}], "networks": [network]}
    (tmp_path / "results/categories.json").write_text(json.dumps(results), "utf-8")
    page = tmp_path / "README.md"
    page.write_text("<!-- table: categories_networks -->\n<!-- end -->\n", "utf-8")
    assert tables(["--write", "--root", str(tmp_path)]) == 0
    (row,) = (line for line in page.read_text("utf-8").splitlines() if "3 categories" in line)
    cells = [cell.strip() for cell in row.split("|")[1:-1]]
    assert cells[:4] == ["3 categories", "30", "10 %", "0.90 (0.83 to 0.94)"]
    assert cells[-2:] == ["0.80 (0.71 to 0.87)", "0.80 (0.79 to 0.81)"]


def test_a_reproduction_takes_the_committed_ones_place(
    tmp_path: Path, tables: Callable[[list[str]], int], capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "results", tmp_path / "results")
    (tmp_path / "docs/images").mkdir(parents=True)
    counts = (tmp_path / "results/paper/counts.json").rename(tmp_path / "counts.json")
    page = tmp_path / "README.md"
    page.write_text("<!-- table: paper_needed -->\nold\n<!-- end -->\n", "utf-8")
    assert tables(["--paper", str(tmp_path), "--root", str(tmp_path)]) == 0
    assert (tmp_path / "results/paper/counts.json").read_bytes() == counts.read_bytes()
    for name in ("success_vs_pools", "vs_noise", "vs_pools"):
        drawn, committed = (imread(root / f"docs/images/paper_{name}.png") for root in (tmp_path, ROOT))
        # Other versions of fonts and of matplotlib draw the edges of letters a little differently.
        assert drawn.shape == committed.shape and abs(drawn - committed).mean() < 0.01, f"{name} is out of date"
    made = paper.TABLES["needed"](paper.Counts.load(counts))
    assert page.read_text("utf-8") == f"<!-- table: paper_needed -->\n{made}\n<!-- end -->\n"
    page.write_text("<!-- table: paper_needed -->\nold\n<!-- end -->\n", "utf-8")
    assert tables(["--check", "--root", str(tmp_path)]) == 1
    assert "README.md: its tables are not what the counts give" in capsys.readouterr().out
