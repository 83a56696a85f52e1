"""Every table in README and docs is what the committed counts give."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))

import tables  # noqa: E402


def test_tables_are_what_the_counts_give() -> None:
    marked = 0
    for page in tables.pages():
        text = page.read_text()
        assert tables.filled(text) == text, f"{page.name}: run `python benchmarks/tables.py --write`"
        marked += text.count("<!-- table: ")
    assert marked >= len(tables.TABLES)
