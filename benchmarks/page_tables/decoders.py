"""Tables of decoders: how often each is right."""

from pathlib import Path

import qgt
from page_tables.cells import p_value, read, with_interval
from qgt.files.documents import markdown_table
from qgt.study import StudyCounts, StudyResult
from qgt.trust.metrics import wilson


def decoders_table(root: Path) -> str:
    """Success rates over numbers of pools and noise rates, the limit last."""
    found = StudyCounts.load(root / "results/decoders.json").results
    labels = {one.decoder: one.label + (": the limit" if one.limit else "") for one in found}
    shown = [name for name in labels if name != "linear_program"]
    lines = []
    for point in dict.fromkeys(tuple(one.point.values()) for one in found):
        here: dict[str, StudyResult] = {one.decoder: one for one in found if tuple(one.point.values()) == point}
        shares = [f"{100 * here[name].proved:.1f} %" for name in ("limit", "linear_program")]
        lines.append([*point, *(with_interval(here[name].score) for name in shown), *shares])
    header = ["M", "S/N", *(labels[name] for name in shown), "of it proved", "proved by the relaxation alone"]
    return markdown_table(header, lines)


def pairs_table(root: Path) -> str:
    """Two decoders on the same instances: how many each alone decodes, and the exact McNemar test's p."""
    pairs = StudyCounts.load(root / "results/decoders.json").pairs
    wanted = {("amp_oracle", "amp"): "Oracle-K alone / scanning alone", ("amp", "gamp"): "scanning alone / GAMP alone"}
    cells = {(tuple(one.point.values()), one.first, one.second): one.paired for one in pairs}
    lines = []
    for point in dict.fromkeys(tuple(one.point.values()) for one in pairs):
        both = [cells[point, *names] for names in wanted]
        lines.append(
            [*point, *(cell for one in both for cell in (f"{one.first} / {one.second}", p_value(one.p_value)))]
        )
    return markdown_table(["M", "S/N", *(head for words in wanted.values() for head in (words, "p"))], lines)


def classical_table(root: Path) -> str:
    """How often all defectives are found from positives and negatives."""
    rows, lines = read(root, "classical")["rows"], []
    for row in rows:
        shares = []
        for right in row["right"].values():
            score = qgt.Score(1, {(1, 0, 0): right, (0, 1, 1): row["instances"] - right})
            shares.append(with_interval(score, 2))
        proved = f"{100 * (1 - row['undecided'] / row['instances']):.1f} %"
        lines.append([row["setting"], row["M"], *shares, proved])
    return markdown_table(["setting", "M", *rows[0]["right"], "of it proved"], lines)


def prevalence_table(root: Path) -> str:
    """Success with the true prevalence and without it, on the same instances."""
    lines = []
    for row in read(root, "prevalence")["rows"]:
        n = row["instances"]
        cells = []
        for name in ("known", "unknown"):
            low, high = wilson(row[name]["right"], n)
            cells.append(f"{row[name]['right'] / n:.4f} ({low:.4f} to {high:.4f})")
        cells += [row["only known"], row["only unknown"], f"{100 * row['unknown']['proved'] / n:.1f} %"]
        lines.append([row["M"], f"{100 * row['rate']:g} %", f"{n:,}", *cells])
    header = ["M", "prevalence", "instances", "success, rate known", "rate from 1 to 15 %", "right only with the rate"]
    return markdown_table([*header, "right only without it", "proved without it"], lines)


TABLES = {
    "prevalence": prevalence_table,
    "decoders": decoders_table,
    "decoders_pairs": pairs_table,
    "classical": classical_table,
}
