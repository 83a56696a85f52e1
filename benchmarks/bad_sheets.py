"""Sheets of counts in every layout, right and spoiled: each is read right, or refused with the place of the fault.

python benchmarks/bad_sheets.py -o results/bad_sheets.json --processes 16       # 50,000 sheets
python benchmarks/bad_sheets.py -o /tmp/small.json --sheets 500
"""

import argparse
import sys
import time
from collections import Counter
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))  # where the sheets are made

from setting import provenance, write
from spoiled_sheets import judged, random_case, refused


def outcome(seed: int) -> tuple[str, str, str]:
    """The kind of file, the layout and what became of one sheet; whatever is wrong begins with its seed."""
    case = random_case(seed)
    try:
        fault = judged(case)
    except Exception as error:  # the reader must never crash
        fault = f"{type(error).__name__}: {error}"
    if fault is not None:
        return case.kind, case.layout, f"{seed}: {fault}"
    if not case.readable:
        return case.kind, case.layout, "spoiled, refused with its place"
    return case.kind, case.layout, "right, refused" if refused(case) else "right, read right"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("results/bad_sheets.json"))
    parser.add_argument("--sheets", type=int, default=50_000)
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    start = time.perf_counter()
    if given.processes == 1:
        found = [outcome(seed) for seed in range(given.sheets)]
    else:
        with get_context("spawn").Pool(given.processes) as pool:
            found = pool.map(outcome, range(given.sheets), chunksize=100)
    wrong = [text for _, _, text in found if text[0].isdigit()]
    counts = Counter((kind, layout, text) for kind, layout, text in found if not text[0].isdigit())
    rows = [{"file": k, "layout": la, "outcome": text, "sheets": n} for (k, la, text), n in sorted(counts.items())]
    for one in rows:
        print(f"{one['file']:5} {one['layout']:6} {one['outcome']:32} {one['sheets']:>8,}")
    print(f"{given.sheets:,} sheets in {time.perf_counter() - start:.0f} s; wrong: {len(wrong)}", *wrong[:10], sep="\n")
    write(given.output, {"measured_on": provenance("cpu"), "sheets": given.sheets, "wrong": wrong, "rows": rows})
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
