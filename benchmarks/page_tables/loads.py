"""Tables about amounts: plates exactly right by decoder, and how fast."""

from pathlib import Path
from typing import Any

from page_tables.cells import read
from qgt.files.documents import markdown_table
from qgt.trust.metrics import wilson

OTHERS = {
    "comp": "COMP",
    "comp_nnls": "COMP, NNLS",
    "comp_nnomp": "COMP, NNOMP",
    "comp_lasso": "COMP, LASSO",
    "comp_sbl": "COMP, SBL",
    "load_gamp": "GAMP",
}


def _share(right: int, of: int) -> str:
    low, high = wilson(right, of)
    return f"{right / of:.2f} ({low:.2f} to {high:.2f})"


def loads_table(root: Path) -> str:
    """The share of plates exactly right, by decoder, and how many of the sure answers are right."""
    found = read(root, "loads")["results"]
    names = [name for name in OTHERS if all(name in row["others"] for row in found)]
    header = ["loads", "pools x samples", "positives", "error, cycles", "`LoadPosterior`", "limit", "over 99 %: right"]
    rows = [_row(row, names) for row in found]
    return markdown_table([*header, *(OTHERS[name] for name in names), "ms a plate"], rows)


def _row(row: dict[str, Any], names: list[str]) -> list[str]:
    plates = row["plates"]
    return [
        row["world"],
        f"{row['pools']} x {row['items']}",
        str(row["positives"]),
        f"{row['error']:g}",
        _share(row["right"], plates),
        f"{row['limit']:.2f}",
        f"{row['sure_right']} of {row['sure']}" if row["sure"] else "none",
        *(f"{row['others'][name]['right'] / plates:.2f}" for name in names),
        f"{row['ms_per_plate']:.0f}",
    ]


def misfit_table(root: Path) -> str:
    """What becomes of plates that the model does not describe."""
    columns = {
        "suspect": "suspect",
        "trusted": "trusted",
        "trusted_wrong": "trusted and wrong",
        "positives": "positives",
        "positives_called_negative": "of them called negative",
    }
    found = read(root, "loads_misfit")["results"]
    rows = [[row["plates"], *(f"{row[key]:,}" for key in columns)] for row in found]
    return markdown_table(["plates", *columns.values()], rows)


def speed_table(root: Path) -> str:
    """Plates a second on a GPU, and one plate alone."""
    header = ["positive", "plates right", "plates a second", "one plate alone, seconds", "at most"]
    rows = []
    for row in read(root, "loads_speed")["results"]:
        right, alone = f"{row['right']:,} of {row['plates']:,}", row["one_plate"]
        times = f"{row['per_second']:,.0f}", f"{alone['mean']:.2f}", f"{alone['most']:.2f}"
        rows.append([f"{100 * row['rate']:g} %", right, *times])
    return markdown_table(header, rows)


TABLES = {"loads": loads_table, "loads_misfit": misfit_table, "loads_speed": speed_table}
