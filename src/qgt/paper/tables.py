"""The tables of a reproduction, in Markdown: pure functions of its counts, the paper's numbers beside ours."""

import csv
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from qgt.decoders.neural.network import MLP
from qgt.files.atomic import replacing
from qgt.paper.counts import Counts, Number, across
from qgt.paper.plan import FIXED, NEARLY, PAPERS, TOLD
from qgt.pictures.figures import METRIC_WORDS
from qgt.study import Result
from qgt.trust.scoring import METRICS, Interval

PAPER = {  # level: A-recovery error %, F1, success rate; the paper's table "complexity"
    1: (46.91, 0.78, 0.17),
    2: (0.75, 0.90, 0.47),
    3: (0.32, 0.91, 0.50),
    4: (0.14, 0.93, 0.61),
    5: (0.26, 0.95, 0.71),
    6: (3.31, 0.95, 0.69),
    7: (11.07, 0.94, 0.67),
}
ENOUGH = 0.99  # the success rate of `needed`


def run_facts(counts: Counts) -> dict[str, str]:
    """What was run, and on what, in words."""
    scale, device = counts.scale, counts.measured_on
    training = ", ".join(f"{value} {key}" for key, value in scale.training.items()) or "to early stopping"
    residual = scale.residual
    return {
        "scale": scale.name,
        "designs at each point": str(scale.designs),
        "instances at each point": f"{scale.designs * scale.instances:,}, the same for all decoders",
        "networks of the paper": f"trained on its data sizes, {training}",
        "residual networks": f"{residual['blocks']} blocks of width {residual['width']}, "
        f"{residual['train']['steps']:,} steps; one design, {scale.instances:,} instances",
        "designs of the table of complexity": f"{scale.level_designs}, {scale.instances:,} instances each",
        "measured on": ", ".join(device.devices),
        "versions": ", ".join(f"{name} {version}" for name, version in device.versions.items()),
        "date": device.date,
    }


def run_table(counts: Counts) -> str:
    """The same as a table."""
    return _markdown(["", ""], list(map(list, run_facts(counts).items())))


def rates_table(found: Sequence[Result], metric: str = "success_rate") -> str:
    """A metric with its 95 % interval: a row for each decoder, a column for each point, the limit's proofs below."""
    points, cells = _points(found), _cells(found)
    rows = []
    for line in cells.values():
        rows.append([_title(line), *(_rate(line.get(point), metric) for point in points)])
    for line in cells.values():
        if _is_limit(line):
            shares = [math.floor(1e4 * line[point].proved) / 100 for point in points]  # 100 % only where it is all
            rows.append(["of the limit proved", *(f"{share:.2f} %" for share in shares)])
    return _markdown([_key(found), *map(str, points)], rows)


def gap_table(found: Sequence[Result]) -> str:
    """How far each decoder's success rate is below the limit's, in percentage points."""
    points, cells = _points(found), _cells(found)
    limit = next(line for line in cells.values() if _is_limit(line))
    rows = []
    for name, line in cells.items():
        if line is not limit:
            gaps = [_gap(line.get(point), limit[point]) for point in points]
            rows.append([name, *gaps])
    return _markdown([_key(found), *map(str, points)], rows)


def claims_table(counts: Counts) -> str:
    """The paper's network against each of its AMPs: at how many points it is better, level or worse, by each metric."""
    rows = []
    for name, claim in ((TOLD, "comparable or superior"), (NEARLY, "superior"), (FIXED, "superior")):
        for figure, found in (("pools", counts.vs_pools), ("noise", counts.vs_noise)):
            cells, points = _cells(found), _points(found)
            pairs = [(cells[PAPERS][point], cells[name][point]) for point in points]
            rows.append([name, claim, figure, *(_verdicts(pairs, metric) for metric in METRICS)])
    words = [METRIC_WORDS[metric] for metric in METRICS]
    return _markdown(["against", "the paper's words", "figure over", *words], rows)


def pools_needed(counts: Counts) -> dict[str, str]:
    """How many pools each decoder needs for a success rate of 99 %, in words, the fewest first."""
    lines = _cells(counts.vs_pools)
    each = {name: needed([(x, one.score.success_rate) for x, one in line.items()]) for name, line in lines.items()}
    return {name: each[name][1] for name in sorted(each, key=lambda name: each[name][0])}


def needed_table(counts: Counts) -> str:
    """The same with its interval, as a table."""
    lines = _cells(counts.vs_pools)
    rows = [[_title(lines[name]), number, _range(lines[name])] for name, number in pools_needed(counts).items()]
    return _markdown(["decoder", f"pools for {100 * ENOUGH:g} % success", "95 % interval"], rows)


def complexity_table(counts: Counts) -> str:
    """The paper's table of complexity, ours beside it."""
    rows = []
    for one in counts.complexity:
        error, f1, rate = PAPER[one.level]
        hidden = "-".join(map(str, MLP.level(one.level).hidden)) or "none"
        ours = (f"{one.score.success_rate:.3f} ({rate:.2f})", f"{one.score.f1:.3f} ({f1:.2f})")
        rows.append([str(one.level), hidden, *ours, f"{one.error_percent:.2f} ({error:.2f})"])
    header = ["level", "hidden layers", "success rate (paper)", "F1 (paper)", "error of A, % (paper)"]
    return _markdown(header, rows)


def time_table(counts: Counts) -> str:
    """Where the time went: seconds by part and decoder, and by what was done."""
    doings = ("training", "decoding", "verifying")
    rows, totals = [], [0.0] * len(doings)
    for part, done in counts.seconds.items():
        for name in dict.fromkeys(name for each in done.values() for name in each):
            spent = [done.get(doing, {}).get(name) for doing in doings]
            totals = [total + (seconds or 0) for total, seconds in zip(totals, spent, strict=True)]
            rows.append([part, name, *("" if seconds is None else f"{seconds:.1f}" for seconds in spent)])
    return _markdown(["part", "decoder", *doings], [*rows, ["all", "", *(f"{total:.1f}" for total in totals)]])


TABLES: dict[str, Callable[[Counts], str]] = {
    "paper_run": run_table,
    "paper_vs_pools": lambda counts: rates_table(counts.vs_pools),
    "paper_vs_noise": lambda counts: rates_table(counts.vs_noise),
    "paper_gap": lambda counts: gap_table(counts.vs_pools),
    "paper_claims": claims_table,
    "paper_needed": needed_table,
    "paper_complexity": complexity_table,
    "paper_time": time_table,
}


def needed(points: Sequence[tuple[Number, float]], rate: float = ENOUGH) -> tuple[Number, str]:
    """Where success rates, measured at numbers of pools, first reach `rate`, interpolated linearly; in words too.

    Example:
        >>> needed([(20, 0.5), (30, 0.98), (40, 1.0)])
        (35.0, '35.0')
        >>> needed([(20, 0.5), (40, 0.8)]), needed([(20, 0.995), (40, 1.0)])
        ((inf, '> 40'), (20, '<= 20'))
    """
    points = sorted(points)
    if points[0][1] >= rate:
        return points[0][0], f"<= {points[0][0]}"
    for (x, low), (next_x, high) in itertools.pairwise(points):
        if high >= rate:
            where = x + (next_x - x) * (rate - low) / (high - low)
            return where, f"{where:.1f}"
    return float("inf"), f"> {points[-1][0]}"


def write_complexity_csv(counts: Counts, path: Path) -> None:
    """The table of complexity for a spreadsheet, with intervals and each network's error."""
    ends = ("", "_low", "_high")
    metrics = [f"{name}{end}" for name in ("success_rate", "f1") for end in ends]
    head = ["level", "designs", "instances", *metrics, "error_percent", "errors_percent_by_design"]
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([*head, "paper_error_percent", "paper_f1", "paper_success_rate"])
        for one in counts.complexity:
            rates = [v for name in ("success_rate", "f1") for v in (one.score.mean(name), *one.score.interval(name))]
            each = " ".join(f"{100 * wrong / one.entries:.4g}" for wrong in one.wrong)
            ours = [*(f"{value:.6g}" for value in rates), f"{one.error_percent:.6g}", each]
            writer.writerow([one.level, len(one.wrong), one.score.instances, *ours, *PAPER[one.level]])


def _range(line: Mapping[Number, Result]) -> str:
    """What the ends of the rates' intervals would need."""
    ends = {point: one.score.interval() for point, one in line.items()}
    fewest = needed([(point, end.high) for point, end in ends.items()])[1]
    most = needed([(point, end.low) for point, end in ends.items()])[1]
    return fewest if fewest == most else f"{fewest} to {most}"


def _verdicts(pairs: Sequence[tuple[Result, Result]], metric: str) -> str:
    """How often the first's whole 95 % interval is better than the second's, overlaps it, or is worse."""
    signs = [_compare(ours.score.interval(metric), other.score.interval(metric)) for ours, other in pairs]
    better = -1 if metric == "mse" else 1
    return f"{signs.count(better)} / {signs.count(0)} / {signs.count(-better)}"


def _compare(a: Interval, b: Interval) -> int:
    """1 where the first lies above the second, -1 where below, 0 where they overlap."""
    return int(a.low > b.high) - int(a.high < b.low)


def _gap(one: Result | None, limit: Result) -> str:
    return "" if one is None else f"{100 * (limit.score.success_rate - one.score.success_rate):.1f}"


def _rate(one: Result | None, metric: str) -> str:
    if one is None:
        return ""
    ends: Interval = one.score.interval(metric)
    return f"{one.score.mean(metric):.3f} ({ends.low:.3f} to {ends.high:.3f})"


def _key(found: Sequence[Result]) -> str:
    """The first column's head: which number the others are."""
    return next(iter(found[0].point)).removeprefix("design.").replace("noise.rate", "S/N").replace("pools", "M")


def _points(found: Sequence[Result]) -> list[Number]:
    return sorted({across(one) for one in found})


def _cells(found: Sequence[Result]) -> dict[str, dict[Number, Result]]:
    """Each decoder's results by their point."""
    cells: dict[str, dict[Number, Result]] = {}
    for one in found:
        cells.setdefault(one.decoder, {})[across(one)] = one
    return cells


def _is_limit(line: Mapping[Number, Result]) -> bool:
    return next(iter(line.values())).limit


def _title(line: Mapping[Number, Result]) -> str:
    one = next(iter(line.values()))
    return f"{one.decoder}: the limit" if one.limit else one.decoder


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
