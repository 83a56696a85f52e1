"""Every table in README and docs is what the committed counts give."""

from pathlib import Path

import pytest

import tables
from qgt import paper

ROOT = Path(__file__).resolve().parents[1]


def test_tables_are_what_the_counts_give() -> None:
    marked = 0
    for page in tables.pages():
        text = page.read_text()
        assert tables.filled(text) == text, f"{page.name}: run `python benchmarks/tables.py --write`"
        marked += text.count("<!-- table: ")
    assert marked >= len(tables.TABLES)


def test_a_reproduction_takes_the_committed_ones_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = ROOT / "results/paper/counts.json"
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    (tmp_path / "docs/images").mkdir(parents=True)
    tables.adopt(counts.parent)
    assert (tmp_path / "results/paper/counts.json").read_bytes() == counts.read_bytes()
    assert sorted(path.name for path in (tmp_path / "docs/images").iterdir()) == [f"paper_{n}" for n in tables.FIGURES]
    page = "<!-- table: paper_needed -->\nold\n<!-- end -->\n"
    made = paper.TABLES["paper_needed"](paper.Counts.load(counts))
    assert tables.filled(page) == f"<!-- table: paper_needed -->\n{made}\n<!-- end -->\n"
