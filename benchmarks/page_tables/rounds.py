"""Tables of several rounds: tests that each policy needs."""

import math
from pathlib import Path

from page_tables.cells import read
from qgt.files.text import markdown_table


def follow_up_table(root: Path) -> str:
    """Tests of each policy by prevalence and noise, with the success rate."""
    lines = []
    for key, case in sorted(read(root, "follow_up")["cases"].items()):
        part, policy, rate, noise, *_ = key.split(" / ")
        if part != "table":
            continue
        n = sum(case["tests"].values())
        tests, rounds = (sum(int(k) * number for k, number in case[name].items()) / n for name in ("tests", "rounds"))
        spread = sum((int(k) - tests) ** 2 * number for k, number in case["tests"].items()) / n
        low, high = (tests + sign * 1.96 * math.sqrt(spread / n) for sign in (-1, 1))
        right = f"{1 - case['wrong'] / n:.4f}"
        cells = [f"{tests:.1f} ({low:.1f} to {high:.1f})", f"{rounds:.2f}", f"{case['transfers'] / n:.0f}", right]
        lines.append([f"{100 * float(rate):g} %", noise, policy.replace("_", " "), *cells, f"{n:,}"])
    header = ["prevalence", "S/N", "policy", "tests, 95 % interval", "rounds", "transfers", "success rate", "instances"]
    return markdown_table(header, lines)


TABLES = {
    "follow_up": follow_up_table,
}
