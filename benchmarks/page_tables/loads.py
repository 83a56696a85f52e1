"""Tables about amounts: plates exactly right by decoder, and how fast."""

import itertools
from pathlib import Path
from typing import Any

from load_tests import ARRAY, COMP_ONE, COMP_TWO, DORFMAN, ONE, TWO, needed, on_fresh_plates, rounds_needed, trust
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
        f"{row['told']:.2f}" if "told" in row else "-",
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


def targets_table(root: Path) -> str:
    """What was asked for, what was measured, and whether that is enough."""
    by_row = {row["row"]: row for row in read(root, "loads")["results"]}
    asked = [("real", 0.25, 5, 0.97), ("real", 0.25, 8, 0.80), ("simple", 0.1, 8, 0.94), ("simple", 0.1, 10, 0.94)]
    rows = []
    for world, error, positives, share in asked:
        row = by_row[f"{world} 45 x 105, {positives} positives, error {error}"]
        words = f"45 x 105, {world} loads, {positives} positives: {share:.2f} of plates right"
        met = row["right"] >= share * row["plates"]
        rows.append([words, _share(row["right"], row["plates"]), "yes" if met else "no"])
    total = trust(read(root, "load_rounds")["rows"])[-1]
    certain = total["certain_first"] + total["certain_later"]
    wrong = total["wrong_first"] + total["wrong_later"]
    shown = f"after rounds, {certain - wrong} of {certain}"
    rows.append(["`certain` is right in 99 %", shown, "yes" if wrong <= 0.01 * certain else "no"])
    for row in read(root, "loads_speed_cpu")["results"]:
        mean, most = row["one_plate"]["cpu_mean"], row["one_plate"]["cpu_most"]
        words = f"one plate of 96 samples in 24 pools, {100 * row['rate']:g} % positive: 1 s on two cores"
        met = "yes" if most <= 1 else "on average" if mean <= 1 else "no"
        rows.append([words, f"CPU time {mean:.2f} s, at most {most:.2f} s", met])
    for row in read(root, "loads_speed")["results"]:
        met = "yes" if row["per_second"] >= 200 else "no"
        words = f"the same, {100 * row['rate']:g} % positive: 200 plates a second on an H200"
        rows.append([words, f"{row['per_second']:.0f}", met])
    return markdown_table(["target", "measured", "met"], rows)


SCHEMES = {
    ONE: "`LoadPosterior`, one stage",
    TWO: "`LoadPosterior`, then single tests",
    DORFMAN: "pools, then single tests (Dorfman)",
    ARRAY: "8 rows and 12 columns, then single tests",
    COMP_ONE: "COMP, one stage",
    COMP_TWO: "COMP, then single tests",
}


def tests_table(root: Path) -> str:
    """Tests for a plate by scheme and prevalence, with the share of plates exactly right."""
    stored, rounds = read(root, "load_tests"), rounds_needed(read(root, "load_rounds")["rows"])
    stages = stored["rows"]
    rates = sorted({row["rate"] for row in stages})
    chosen, measured = needed(stages), on_fresh_plates(stages)
    searched = {(key[0], key[1]) for key in stored["done"]}
    rows = []
    for name, words in SCHEMES.items():
        kind, own = name if name in (ONE, TWO) else "detected", measured.get(name, {})
        failed = [(kind, rate) in searched and rate not in chosen.get(name, {}) for rate in rates]
        rows.append([words, *(_tests(own.get(rate), none) for rate, none in zip(rates, failed, strict=True))])
    rows.append(["`LoadPosterior`, rounds", *(_tests(rounds.get(rate), failed=False) for rate in rates)])
    return markdown_table(["scheme", *(f"{100 * rate:g} %" for rate in rates)], rows)


def _tests(row: dict[str, Any] | None, failed: bool) -> str:
    """Tests, and in brackets the per cent of plates right; or whether a search failed, or did not end."""
    if row is None:
        return "not reached" if failed else "-"
    return f"{row['tests']:.1f} ({100 * row['right'] / row['plates']:.1f})"


def trust_table(root: Path) -> str:
    """What certain is worth after the first round and after later ones."""
    rows = []
    for line in trust(read(root, "load_rounds")["rows"]):
        wrong = [f"{line[f'wrong_{name}']} of {line[f'certain_{name}']:,}" for name in ("first", "later")]
        low, high = wilson(line["wrong_first"] + line["wrong_later"], line["certain_first"] + line["certain_later"])
        rate = "all" if line["rate"] is None else f"{100 * line['rate']:g} %"
        missed = f"{line['called_negative']} of {line['positives']:,}"
        interval = f"{100 * low:.2f} to {100 * high:.2f} %"
        rows.append([rate, f"{line['plates']:,}", *wrong, interval, f"{line['not_certain']:,}", missed])
    header = ["positive", "plates", "certain after the first round: wrong", "certain after later rounds: wrong"]
    header += ["wrong among all certain, 95 % interval", "not certain", "positives called negative"]
    return markdown_table(header, rows)


def confidence_table(root: Path) -> str:
    """The confidence as `LoadPosterior` gives it, against the share of plates that are right."""
    found = read(root, "load_confidence")["bins"]
    ends = [f"{one['from']:g}" for one in found] + ["1"]
    rows = []
    for one, (low, high) in zip(found, itertools.pairwise(ends), strict=True):
        right = "{:.3f} ({:.3f} to {:.3f})".format(one["right"], *one["interval"])
        rows.append([f"{low} to {high}", str(one["plates"]), f"{one['mean']:.3f}", right])
    return markdown_table(["confidence", "plates", "mean confidence", "share right, 95 % interval"], rows)


TABLES = {"loads": loads_table, "loads_misfit": misfit_table, "loads_speed": speed_table}
TABLES |= {"loads_targets": targets_table, "load_tests": tests_table, "load_rounds": trust_table}
TABLES |= {"load_confidence": confidence_table}
