"""The tables of README and docs, made from the committed counts.

python benchmarks/tables.py                     # print them
python benchmarks/tables.py --write             # put them into the pages, between their markers
python benchmarks/tables.py --paper out/paper   # first take the counts and figures of that 'qgt reproduce'
"""

import argparse
import json
import math
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import qgt
from paper_levels import PAPER
from qgt import paper
from qgt.paper.drawing import draw

ROOT = Path(__file__).resolve().parents[1]
FIGURES = ("success_vs_pools.png", "vs_noise.png", "vs_pools.png")  # of a reproduction, shown in the pages


def levels_table() -> str:
    """The paper's table of complexity, ours beside it."""
    data = json.loads((ROOT / "results/levels.json").read_text())
    lines = [
        "| level | hidden layers | success rate (paper) | F1 (paper) | error of A, % (paper) | by regression, % |",
        "|---|---|---|---|---|---|",
    ]
    for level, (paper_error, paper_f1, paper_rate) in PAPER.items():
        rows = [row for row in data["rows"] if row["level"] == level]
        scores = [_score(row["test"]) for row in rows]
        hidden = "-".join(map(str, qgt.MLP.level(level).hidden)) or "none"
        rate, f1 = _mean([s.success_rate for s in scores]), _mean([s.f1 for s in scores])
        error, by_regression = (
            _mean([row["error_percent"][name] for row in rows]) for name in ("least_squares", "regression")
        )
        lines.append(
            f"| {level} | {hidden} | {rate:.3f} ({paper_rate:.2f}) | {f1:.3f} ({paper_f1:.2f}) "
            f"| {error:.2f} ({paper_error:.2f}) | {by_regression:.2f} |"
        )
    return "\n".join(lines)


def unseen_table() -> str:
    """Level 5 on supports it met in training and on those it did not."""
    data = json.loads((ROOT / "results/levels.json").read_text())
    rows = [row for row in data["rows"] if row["level"] == 5]
    lines = ["| supports | share of test instances | success rate, 95 % interval |", "|---|---|---|"]
    total = _sum([_score(row["test"]) for row in rows])
    for name, key in (("met in training", "test_seen"), ("never met", "test_unseen")):
        score = _sum([_score(row[key]) for row in rows])
        low, high = score.interval()
        share = score.instances / total.instances
        lines.append(f"| {name} | {100 * share:.1f} % | {score.success_rate:.3f} ({low:.3f} to {high:.3f}) |")
    return "\n".join(lines)


def tamper_table() -> str:
    """Flipped entries of a claimed matrix found by Level 5, five networks, ten repeats each."""
    data = json.loads((ROOT / "results/levels.json").read_text())
    repeats = [repeat for row in data["rows"] if row["level"] == 5 for repeat in row["tamper"]]
    found, missed, false = (sum(repeat[key] for repeat in repeats) for key in ("found", "missed", "false"))
    return (
        "| flipped entries | found | missed | listed falsely | recall | precision |\n|---|---|---|---|---|---|\n"
        f"| {found + missed:,} in {len(repeats)} repeats | {found} | {missed} | {false} "
        f"| {found / (found + missed):.3f} | {found / (found + false):.3f} |"
    )


def residual_table() -> str:
    """The residual network on fresh data."""
    data = json.loads((ROOT / "results/residual.json").read_text())
    lines = [
        "| M | network | steps x batch | success rate, 95 % interval | F1 "
        "| error of A, %: least squares / mean Jacobian / regression |",
        "|---|---|---|---|---|---|",
    ]
    for row in data["rows"]:
        score = _score(row["test"])
        low, high = score.interval()
        errors = " / ".join(f"{value:.2f}" for value in row["error_percent"].values())
        lines.append(
            f"| {row['M']} | {row['architecture']} | {row['steps']:,} x {row['batch']:,} "
            f"| {score.success_rate:.3f} ({low:.3f} to {high:.3f}) | {score.f1:.3f} | {errors} |"
        )
    return "\n".join(lines)


def decoders_table() -> str:
    """Success rates over numbers of pools, the limit last."""
    data = json.loads((ROOT / "results/decoders.json").read_text())
    names = {
        "maximum_neighborhood": "maximum neighborhood",
        "amp_fixed": "AMP, Fixed-K",
        "amp_noisy": "AMP, Noisy-K",
        "amp_oracle": "AMP, Oracle-K",
        "amp": "AMP, scanning K",
        "gamp": "GAMP",
        "exact": "exact MAP: the limit",
    }
    lines = [
        "| M | S/N | " + " | ".join(names.values()) + " | of it proved | proved by the relaxation alone |",
        "|---" * (len(names) + 4) + "|",
    ]
    cells = sorted({(row["M"], row["S/N"]) for row in data["rows"]})
    for cell in cells:
        rows = [row for row in data["rows"] if (row["M"], row["S/N"]) == cell]
        rates = [_with_interval([row[name] for row in rows if name in row]) for name in names]
        shares = [_share(rows, "proved"), _share(rows, "linear_program_proved")]
        lines.append(f"| {cell[0]} | {cell[1]} | " + " | ".join([*rates, *shares]) + " |")
    return "\n".join(lines)


def _certified() -> dict[str, Any]:
    return json.loads((ROOT / "results/certified.json").read_text())  # type: ignore[no-any-return]


def agreement_table() -> str:
    """Optimal costs against HiGHS's, and certificates through the checker."""
    lines = ["| problems | instances | proved by both | disagreements | certificates accepted |", "|---" * 5 + "|"]
    for row in _certified()["agreement"]:
        facts = [row[key] for key in ("instances", "proved by both", "disagreements", "certificates accepted")]
        lines.append(f"| {row['setting']} | " + " | ".join(map(str, facts)) + " |")
    return "\n".join(lines)


def certified_success_table() -> str:
    """The limit, how much of it is proved, and how well the confidence is calibrated."""
    rows = _certified()["success"]
    lines = [
        "| M | odds | instances | success rate, 95 % interval | proved | list complete "
        "| calibration error | of perfect calibration |",
        "|---" * 8 + "|",
    ]
    for pools, odds in sorted({(row["M"], row["odds"]) for row in rows}, key=lambda cell: (-cell[0], cell[1])):
        some = [row for row in rows if (row["M"], row["odds"]) == (pools, odds)]
        score = _sum([_score(row["outcomes"]) for row in some])
        low, high = score.interval()
        proved, complete = (sum(row[key] for row in some) / score.instances for key in ("proved", "complete"))
        bins = confidence_bins(some)
        lines.append(
            f"| {pools} | {odds:g} | {score.instances:,} | {score.success_rate:.4f} ({low:.4f} to {high:.4f}) "
            f"| {100 * proved:.2f} % | {100 * complete:.2f} % | {calibration_error(bins):.4f} | {scatter(bins):.4f} |"
        )
    return "\n".join(lines)


def confidence_bins(rows: list[dict[str, Any]]) -> list[tuple[int, float, int]]:
    """Ten bins of confidence: how many answers, the sum of their confidences, how many were right."""
    fine = [[sum(row["confidence"][i][j] for row in rows) for j in range(3)] for i in range(20)]
    pairs = zip(fine[::2], fine[1::2], strict=True)
    return [(int(a[0] + b[0]), a[1] + b[1], int(a[2] + b[2])) for a, b in pairs]


def calibration_error(bins: list[tuple[int, float, int]]) -> float:
    """The mean distance of confidence and share of right answers, weighted by their number."""
    return sum(abs(total - right) for _, total, right in bins) / sum(n for n, _, _ in bins)


def scatter(bins: list[tuple[int, float, int]]) -> float:
    """The calibration error to be expected of perfect calibration: the mean deviation of the normal distribution."""
    deviation = [math.sqrt(2 / math.pi * total * (1 - total / n)) for n, total, _ in bins if n]
    return sum(deviation) / sum(n for n, _, _ in bins)


def certified_speed_table() -> str:
    """Milliseconds per instance against SciPy's milp on the same cores, and decodes per second on a GPU."""
    data = _certified()
    gpu = {row["M"]: row for row in data["speed on cuda"]}
    lines = [
        "| M | milp, ms: mean (median) | odds 1, ms | times faster | odds 100, ms | times faster "
        "| H200, odds 1: proved per second | odds 100 |",
        "|---" * 8 + "|",
    ]
    for row in data["speed"]:
        milp, brief, full = row["milp"], row["odds 1"], row["odds 100"]
        mean = 1e3 * milp["seconds"] / milp["instances"]
        ours = [f"{1e3 * one['seconds'] / row['instances']:.2f} | {one['times_faster']:.0f}" for one in (brief, full)]
        device = gpu[row["M"]]
        rates = f"{device['odds 1']['proved_per_second']:,} | {device['odds 100']['proved_per_second']:,}"
        lines.append(f"| {row['M']} | {mean:.1f} ({milp['median_ms']:.1f}) | {' | '.join(ours)} | {rates} |")
    return "\n".join(lines)


def certified_split_table() -> str:
    """Where the time goes."""
    data = _certified()
    lines = ["| M | odds | machine | instances | roots, s | branching, s | stragglers, s |", "|---" * 7 + "|"]
    for part, machine in (("speed", "2 cores"), ("speed on cuda", "H200")):
        for row in data[part]:
            for odds in ("1", "100"):
                split = row[f"odds {odds}"]["split"].values()
                seconds = " | ".join(f"{seconds:.2f}" for seconds in split)
                lines.append(f"| {row['M']} | {odds} | {machine} | {row['instances']:,} | {seconds} |")
    return "\n".join(lines)


def growth_table() -> str:
    """What is proved within a budget as problems grow."""
    data = _certified()
    lines = ["| N | M | machine | budget, s each | decoder | proved | right | time used, s |", "|---" * 8 + "|"]
    for part, machine in (("growth", "2 cores"), ("growth on cuda", "H200")):
        for row in data[part]:
            for name in ("certified", "certified, AMP proposals", "HiGHS"):
                if name in row:
                    one = row[name]
                    told = f"{one['proved']} of {row['instances']} | {one['right']} | {one['seconds']}"
                    lines.append(f"| {row['N']} | {row['M']} | {machine} | {row['budget']} | {name} | {told} |")
    return "\n".join(lines)


def _share(rows: list[dict[str, Any]], key: str) -> str:
    """What part of the instances that were decoded exactly."""
    decoded = [_score(row["exact"]).instances for row in rows if key in row]
    return f"{100 * sum(row[key] for row in rows if key in row) / sum(decoded):.1f} %" if decoded else "not run"


def _with_interval(outcomes: list[list[Any]]) -> str:
    if not outcomes:
        return "not run"
    score = _sum([_score(each) for each in outcomes])
    low, high = score.interval()
    return f"{score.success_rate:.3f} ({low:.3f} to {high:.3f})"


def paper_table(name: str) -> str:
    """A table of the reproduction."""
    return paper.TABLES[name](paper.Counts.load(ROOT / "results/paper/counts.json"))


def adopt(folder: Path) -> None:
    """Take a reproduction's counts for the committed ones, and the figures drawn from them."""
    counts = paper.Counts.load(folder / "counts.json")
    counts.save(ROOT / "results/paper/counts.json")
    with tempfile.TemporaryDirectory() as drawn:
        draw(counts, Path(drawn))
        for name in FIGURES:
            (ROOT / "docs/images" / f"paper_{name}").write_bytes((Path(drawn) / name).read_bytes())


TABLES = {
    "agreement": agreement_table,
    "certified_speed": certified_speed_table,
    "certified_split": certified_split_table,
    "certified_success": certified_success_table,
    "decoders": decoders_table,
    "growth": growth_table,
    "levels": levels_table,
    "residual": residual_table,
    "tamper": tamper_table,
    "unseen": unseen_table,
    **{name: partial(paper_table, name) for name in paper.TABLES},
}


def filled(page: str) -> str:
    """A page with each marked table replaced by what the counts give."""
    for name, make in TABLES.items():
        start, end = f"<!-- table: {name} -->\n", "<!-- end -->"
        before, *parts = page.split(start)
        page = start.join([before, *(make() + "\n" + end + part.split(end, 1)[1] for part in parts)])
    return page


def pages() -> list[Path]:
    """The pages that may hold tables."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def _score(outcomes: list[Any]) -> qgt.Score:
    return qgt.Score.from_plain({"items": 100, "outcomes": outcomes})


def _sum(scores: list[qgt.Score]) -> qgt.Score:
    total = scores[0]
    for score in scores[1:]:
        total = total + score
    return total


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="update README.md and docs/")
    parser.add_argument("--paper", type=Path, metavar="FOLDER", help="take its counts and figures, then --write")
    arguments = parser.parse_args()
    if arguments.paper is not None:
        adopt(arguments.paper)
    if arguments.write or arguments.paper is not None:
        for page in pages():
            page.write_text(filled(page.read_text()))
        return
    for name, make in TABLES.items():
        print(f"{name}\n{make()}\n")


if __name__ == "__main__":
    main()
