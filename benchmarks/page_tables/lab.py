"""Tables of the lab: whether plans keep their promises."""

from pathlib import Path

from page_tables.cells import read
from qgt.files.documents import markdown_table


def promise_table(root: Path) -> str:
    """What each plan promised, and what new plates gave."""
    lines = []
    for row in read(root, "plan_promise")["rows"]:
        (right, plates, _), (successes, of, low, high) = row["seen"], row["promised"]
        promised = f"{successes / of:.3f} ({low:.3f} to {high:.3f})"
        positives = " to ".join(f"{value:g}" for value in row["positives"])
        verdict = "kept" if row["kept"] else "better" if row["better"] else "worse"
        cells = [str(row["samples"]), positives, row["assay"], str(row["pools"]), promised, f"{right / plates:.3f}"]
        lines.append([*cells, verdict, f"{row['p']:.2g}"])
    header = ["samples", "positives", "assay", "pools", "promised, 99 % interval", "seen", "promise", "p"]
    return markdown_table(header, lines)


TABLES = {
    "plan_promise": promise_table,
}
