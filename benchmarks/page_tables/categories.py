"""Tables about copies and categories: right and proved, against every x, and message passing."""

from pathlib import Path

from page_tables.cells import read
from qgt.files.documents import markdown_table

OTHERS = {"linear_program": "linear program", "amp": "AMP", "iht": "thresholding"}


def success_table(root: Path) -> str:
    """The share of instances that are right and proved in a second, beside the baselines."""
    header = [
        "items",
        "pools",
        "noisy",
        "right",
        "proved in 1 s",
        "median ms",
        *(f"{name}: right" for name in OTHERS.values()),
    ]
    rows = []
    for row in read(root, "categories")["success"]:
        each = row["instances"]
        shares = (f"{row[key] / each:.2f}" for key in ("right", "proved"))
        others = (f"{row['others'][name]['right'] / each:.2f}" for name in OTHERS)
        first = row["items"], str(row["pools"]), f"{100 * row['noise']:g} %"
        rows.append([*first, *shares, f"{row['median_ms']:.0f}", *others])
    return markdown_table(header, rows)


def brute_table(root: Path) -> str:
    """How many small problems agree with trying every x."""
    rows = [
        [row["kind"], str(row["problems"]), str(row["instances"]), str(row["equal"])]
        for row in read(root, "categories")["brute"]
    ]
    return markdown_table(["items with", "problems", "instances", "problems that agree in everything"], rows)


def amp_table(root: Path) -> str:
    """AMP's squared correlation with the truth, and that of its state evolution, by pools over items."""
    found = read(root, "categories")["correlation"]
    ratios = sorted({row["ratio"] for row in found})
    cells = {(row["items"], row["ratio"]): f"{row['amp']:.2f} ({row['state_evolution']:.2f})" for row in found}
    rows = [[name, *(cells[name, ratio] for ratio in ratios)] for name in dict.fromkeys(row["items"] for row in found)]
    return markdown_table(["items", *(f"M/N = {ratio:g}" for ratio in ratios)], rows)


TABLES = {"categories": success_table, "categories_brute": brute_table, "categories_amp": amp_table}
