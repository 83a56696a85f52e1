"""Every table in README and docs is what the committed counts give."""

import json
import re
import shutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
from matplotlib.image import imread

from qgt import paper

ROOT = Path(__file__).resolve().parents[1]
TABLE = re.compile(r"^<!-- table: (\S+) -->\n(.*?)^<!-- end -->$", flags=re.MULTILINE | re.DOTALL)


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
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/results").glob("*.md")]
    assert sum(page.read_text("utf-8").count("<!-- table: ") for page in pages) >= 15


def test_long_tables_are_on_pages_of_results() -> None:
    for page in (ROOT / "docs").glob("*.md"):
        for name, body in TABLE.findall(page.read_text("utf-8")):
            rows = body.count("\n") - 2
            assert rows <= 12 or page.name == "standard.md", f"{page.name}: {name} has {rows} rows, see CONTRIBUTING.md"


def test_pages_of_results_begin_with_their_sources_and_topics_show_some_of_their_rows() -> None:
    whole = {}
    for page in (ROOT / "docs/results").glob("*.md"):
        (first, sources), *others = TABLE.findall(page.read_text("utf-8"))
        assert first.startswith("measured_") and others, page.name
        commands = re.findall(r"`(?:python|qgt bench) (benchmarks/[^\s`]+)", sources)
        assert all((ROOT / command).exists() for command in commands), commands
        stored = re.findall(r"`(results/\S+\.json)`", sources)
        assert stored and all((ROOT / path).exists() for path in stored)
        whole |= dict(others)
    pages = [page.read_text("utf-8") for page in (ROOT / "docs").glob("*.md")]
    some = [pair for text in pages for pair in TABLE.findall(text) if pair[0].endswith("_brief")]
    assert len(some) > 20
    for name, body in some:
        assert set(body.splitlines()) <= set(whole[name.removesuffix("_brief")].splitlines()), name


def test_a_named_row_that_is_gone_is_an_error(tables: Callable[[list[str]], int]) -> None:
    brief = import_module("page_tables.brief").brief
    table = "| M | rate |\n| --- | --- |\n| 2 | 0.5 |\n| 20 | 0.9 |"
    assert brief(lambda root: table, ("20",), ROOT) == "| M | rate |\n| --- | --- |\n| 20 | 0.9 |"
    with pytest.raises(ValueError, match="the row '30' is not in the table: name another row"):
        brief(lambda root: table, ("20", "30"), ROOT)
    nothing = "| M | rate |\n| --- | --- |"
    assert brief(lambda root: nothing, ("20",), ROOT) == nothing  # not measured yet


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
    assert cells[-2:] == ["0.80 (0.71 to 0.87)", "0.800 (0.792 to 0.808)"]


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
