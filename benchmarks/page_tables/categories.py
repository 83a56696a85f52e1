"""Tables about copies and categories: right and proved, against every x, and message passing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from page_tables.cells import read
from qgt.files.documents import markdown_table
from qgt.trust.metrics import wilson

RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)  # M/N that the table of message passing shows
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


def networks_table(root: Path) -> str:
    """Networks and the other decoders on the same instances, with 95 % intervals."""
    results = read(root, "categories")
    found = {_key(row): row for row in results.get("networks", [])}
    rows = []
    for row in results["success"]:
        if (network := found.get(_key(row))) is None:
            continue
        each = row["instances"]
        right = [row["right"], *(row["others"][name]["right"] for name in OTHERS)]
        of_networks = [_share(network["right"][way], network["instances"]) for way in ("one_pass", "rounds")]
        new = _share(network["right"]["new_rounds"], network["new_instances"])
        first = row["items"], str(row["pools"]), f"{100 * row['noise']:g} %"
        rows.append([*first, *(_share(number, each) for number in right), *of_networks, new])
    networks = ["network: right", "with more rounds", "on new instances"]
    return markdown_table(["items", "pools", "noisy", "exact: right", *OTHERS.values(), *networks], rows)


def _key(row: Mapping[str, Any]) -> tuple[str, int, float]:
    return row["items"], row["pools"], row["noise"]


def _share(number: int, of: int) -> str:
    """A share and its 95 % interval, with as many digits as the number of instances supports."""
    digits = 2 if of < 1000 else 3
    low, high = wilson(number, of)
    return f"{number / of:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def amp_table(root: Path) -> str:
    """AMP's correlation with the truth, and that of its state evolution, by pools over items."""
    found = read(root, "pooled_amp")
    predicted = {(row["shares"], row["ratio"]): row["correlation"] for row in found["state_evolution"]}
    some = [row for row in found["message_passing"] if row["decoder"] == "amp"]
    cells = {
        (row["shares"], row["ratio"]): f"{row['correlation']:.2f} ({predicted[row['shares'], row['ratio']]:.2f})"
        for row in some
    }
    ratios = [ratio for ratio in RATIOS if all((row["shares"], ratio) in cells for row in some)]
    rows = [[name, *(cells[name, ratio] for ratio in ratios)] for name in dict.fromkeys(row["shares"] for row in some)]
    return markdown_table(["shares of the categories", *(f"M/N = {ratio:g}" for ratio in ratios)], rows)


def plates_table(root: Path) -> str:
    """Plates that are certain, those of them that are wrong, and calls, before and after a follow-up round."""
    header = [
        *("samples", "pools", "plates", "best answers right", "certain", "of these wrong"),
        *("called positive", "of these wrong", "called negative, but positive", "not called"),
    ]
    rows = []
    for row in read(root, "categories")["plates"]:
        added = f"and {row['pools_added'] / row['plates']:.1f} more on average"
        for told, pools in ((row["first"], str(row["pools"])), (row["after"], added)):
            keys = (
                "best_right",
                "certain",
                "certain_wrong",
                "positive",
                "positive_wrong",
                "negative_wrong",
                "not_called",
            )
            rows.append([row["samples"], pools, str(row["plates"]), *(f"{told[key]:,}" for key in keys)])
    return markdown_table(header, rows)


TABLES = {
    "categories_plates": plates_table,
    "categories": success_table,
    "categories_brute": brute_table,
    "categories_networks": networks_table,
    "categories_amp": amp_table,
}
