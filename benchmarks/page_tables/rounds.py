"""Tables of several rounds: tests that each policy needs, and what its confidence is worth when tests stop by it."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from follow_up import EDGES, ITEMS, bound, mean
from page_tables.cells import read
from qgt.files.documents import markdown_table
from qgt.trust.metrics import wilson


def _cases(root: Path, part: str) -> Iterator[tuple[list[str], dict[str, Any]]]:
    """The cases of a part of the benchmark, each with its policy, prevalence, noise and so on."""
    for key, case in sorted(read(root, "follow_up")["cases"].items()):
        kind, *words = key.split(" / ")
        if kind == part:
            yield words, case


def _mean(histogram: dict[str, int]) -> tuple[float, float, float]:
    """The mean of a histogram, and its 95 % interval."""
    middle, error = mean(histogram)
    return middle, middle - 1.96 * error, middle + 1.96 * error


def _success(case: dict[str, Any]) -> str:
    n = sum(case["tests"].values())
    low, high = wilson(n - case["wrong"], n)
    return f"{1 - case['wrong'] / n:.4f} ({low:.4f} to {high:.4f})"


def follow_up_table(root: Path) -> str:
    """Tests of each policy by prevalence and noise, with the entropy bound and the success rate."""
    lines = []
    for (policy, rate, noise, *_), case in _cases(root, "table"):
        tests, low, high = (value / ITEMS for value in _mean(case["tests"]))
        rounds, *_ = _mean(case["rounds"])
        least = bound(float(rate), float(noise)) / ITEMS
        n = sum(case["tests"].values())
        cells = [
            f"{tests:.3f} ({low:.3f} to {high:.3f})",
            f"{least:.3f}",
            f"{rounds:.2f}",
            f"{case['transfers'] / n:.0f}",
        ]
        lines.append([f"{100 * float(rate):g} %", noise, policy.replace("_", " "), *cells, _success(case), f"{n:,}"])
    lines.sort(key=lambda line: (float(line[0].split()[0]), float(line[1]), float(line[3].split()[0])))
    header = [
        "prevalence",
        "S/N",
        "policy",
        "tests for each item, 95 % interval",
        "entropy bound",
        "rounds",
        "transfers",
        "success, 95 % interval",
        "instances",
    ]
    return markdown_table(header, lines)


def goals_table(root: Path) -> str:
    """Tests and rounds of our policies where the aims are set, how they are spread, and the seconds for each."""
    lines, clock = [], read(root, "follow_up").get("clock", {})
    for part in ("goals", "households"):
        for (policy, *words), case in _cases(root, part):
            (tests, low, high), (rounds, *_) = _mean(case["tests"]), _mean(case["rounds"])
            n = sum(case["tests"].values())
            spread = " / ".join(str(_quantile(case["tests"], share)) for share in (0.5, 0.9, 0.99))
            last = max(map(int, case["rounds"]))
            by_round = ", ".join(f"{100 * case['rounds'].get(str(k), 0) / n:.0f} %" for k in range(1, last + 1))
            name = policy if part == "goals" else f"households of 4, {policy.split()[0].replace('=', ' ')} pools"
            timed = clock.get(" / ".join([part, policy, *words]))
            lines.append([name, f"{tests:.2f} ({low:.2f} to {high:.2f})", spread, f"{rounds:.2f}", by_round,
                          _success(case), f"{n:,}", f"{case['seconds'] / n:.2f}",
                          "-" if timed is None else f"{timed['seconds']:.2f}"])  # fmt: skip
    header = ["policy", "tests, 95 % interval", "tests: median / 90 % / 99 %", "rounds", "ended in round 1, 2, ...",
              "success, 95 % interval", "instances", "CPU s each", "by the clock"]  # fmt: skip
    return markdown_table(header, lines)


def _quantile(histogram: dict[str, int], share: float) -> int:
    """The least number that so large a share does not exceed."""
    left = share * sum(histogram.values())
    for value in sorted(histogram, key=int):
        left -= histogram[value]
        if left <= 0:
            return int(value)
    raise ValueError("an empty histogram")


def stopping_table(root: Path) -> str:
    """What was told when tests stopped, and how often it was right."""
    lines = []
    for (policy, *_), case in _cases(root, "goals"):
        for (low, high), (n, told, right) in zip(pairwise((*EDGES, 1.0)), case["confidence"], strict=True):
            if n:
                least, most = wilson(right, n)
                name = f"{low} to {high}" if low else f"below {high}"
                lines.append(
                    [policy, name, f"{n:,}", f"{told / n:.4f}", f"{right / n:.4f} ({least:.4f} to {most:.4f})"]
                )
    return markdown_table(["policy", "confidence", "answers", "told, mean", "right, 95 % interval"], lines)


TABLES = {
    "follow_up": follow_up_table,
    "follow_up_goals": goals_table,
    "follow_up_stopping": stopping_table,
}
