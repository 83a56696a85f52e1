"""The tables of README and docs, made from the committed counts.

python benchmarks/tables.py                     # print them
python benchmarks/tables.py --check             # exit with 1 and name the pages that are not what the counts give
python benchmarks/tables.py --write             # put them into the pages, between their markers
python benchmarks/tables.py --paper out/paper   # first take the counts and figures of that 'qgt reproduce'
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from page_tables import (
    any_design,
    categories,
    certified,
    decoders,
    lab,
    learning,
    loads,
    measured,
    rounds,
    scale,
    standard,
    trust,
)
from page_tables.brief import brief_tables
from qgt import paper
from qgt.paper.running import draw

ROOT = Path(__file__).resolve().parents[1]
NOT_YET = "*(Not measured yet.)*"
FIGURES = ("success_vs_pools.png", "vs_noise.png", "vs_pools.png")  # of a reproduction, shown in the pages


def paper_table(name: str, root: Path) -> str:
    """A table of the reproduction."""
    return paper.TABLES[name](paper.Counts.load(root / "results/paper/counts.json"))


TABLES = {
    **any_design.TABLES,
    **certified.TABLES,
    **decoders.TABLES,
    **lab.TABLES,
    **learning.TABLES,
    **categories.TABLES,
    **loads.TABLES,
    **measured.TABLES,
    **rounds.TABLES,
    **scale.TABLES,
    **standard.TABLES,
    **trust.TABLES,
    **{f"paper_{name}": partial(paper_table, name) for name in paper.TABLES},
}
TABLES |= brief_tables(TABLES)


def filled(page: str, root: Path) -> str:
    """A page with each marked table replaced by what the counts give."""
    for name, make in TABLES.items():
        start, end = f"<!-- table: {name} -->\n", "<!-- end -->"
        before, *parts = page.split(start)
        if parts:
            made = made_or_missing(make, root)
            page = start.join([before, *(f"{made}\n{end}{part.split(end, 1)[1]}" for part in parts)])
    return page


def made_or_missing(make: Callable[[Path], str], root: Path) -> str:
    """A table, or words in its place where nothing is measured yet: no results, or none of its kind."""
    try:
        made = make(root)
    except FileNotFoundError:
        return NOT_YET
    return NOT_YET if made.endswith("|") and len(made.splitlines()) == 2 else made  # a header and its line


def adopt(folder: Path, root: Path) -> None:
    """Take a reproduction's counts for the committed ones, and the figures drawn from them."""
    counts = paper.Counts.load(folder / "counts.json")
    counts.save(root / "results/paper/counts.json")
    with tempfile.TemporaryDirectory() as drawn:
        draw(counts, Path(drawn))
        for name in FIGURES:
            (root / "docs/images" / f"paper_{name}").write_bytes((Path(drawn) / name).read_bytes())


def stale(root: Path, *, write: bool) -> list[Path]:
    """The pages whose tables are not what the counts give, mended where asked."""
    found = []
    folders = (root / "docs", root / "docs/results")
    for page in [root / "README.md", *(page for folder in folders for page in sorted(folder.glob("*.md")))]:
        text = page.read_text(encoding="utf-8")
        if (now := filled(text, root)) != text:
            found.append(page)
            if write:
                page.write_text(now, encoding="utf-8")
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="only say which pages are out of date")
    parser.add_argument("--write", action="store_true", help="update README.md and docs/")
    parser.add_argument("--paper", type=Path, metavar="FOLDER", help="take its counts and figures, then --write")
    parser.add_argument("--root", type=Path, default=ROOT, help="of the repository whose pages and results these are")
    arguments = parser.parse_args(argv)
    root = arguments.root
    if arguments.paper is not None:
        adopt(arguments.paper, root)
    if arguments.check:
        found = stale(root, write=False)
        for page in found:
            print(f"{page}: its tables are not what the counts give; run 'python benchmarks/tables.py --write'.")
        return 1 if found else 0
    if arguments.write or arguments.paper is not None:
        stale(root, write=True)
        return 0
    for name, make in TABLES.items():
        print(f"{name}\n{made_or_missing(make, root)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
