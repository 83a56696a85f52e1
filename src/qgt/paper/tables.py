"""The tables of a reproduction, in Markdown: pure functions of its counts, the paper's numbers beside ours."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from qgt.decoders.neural.mlp import MLP
from qgt.files import codec
from qgt.files.documents import json_by_rows, markdown_table
from qgt.files.grids import CellRow, write_rows
from qgt.files.store import replacing, write_text
from qgt.paper.plan import FIXED, NEARLY, PAPERS, TOLD, Scale, level_key
from qgt.pictures.figures import METRIC_WORDS
from qgt.study import Comparison, Measured, StudyResult
from qgt.study.reading import read_stored_counts
from qgt.trust.metrics import METRICS, Interval

# What a reproduction found: counts, from which every figure and table is made again.
#
# `counts.json` is small enough to commit; the database and the networks behind it are not. Its pairs of decoders come
# from the outcome of each instance, which only the database has: counts of runs that kept no outcomes have no pairs.

FIGURES = ("vs_pools", "vs_noise")
COUNTED_PARTS = (*FIGURES, "complexity")
Number = int | float


@dataclass(frozen=True)
class Counts:
    """Everything that was counted, how, on what, and where the time went."""

    scale: Scale  # a design's seed is its number, from 0
    measured_on: Measured
    seconds: Mapping[str, Mapping[str, Mapping[str, Number]]]  # part, what was done, by which decoder
    vs_pools: Sequence[StudyResult]
    vs_noise: Sequence[StudyResult]
    complexity: Sequence[StudyResult]  # the levels, at the table's single point
    pairs_vs_pools: Sequence[Comparison]
    pairs_vs_noise: Sequence[Comparison]

    @property
    def pairs(self) -> dict[str, Sequence[Comparison]]:
        """The pairs of each figure, by its name."""
        return {"vs_pools": self.pairs_vs_pools, "vs_noise": self.pairs_vs_noise}

    @classmethod
    def load(cls, path: str | Path) -> "Counts":
        """Read a file that `save` wrote."""
        return read_stored_counts(
            path, cls, "a reproduction's", "run 'qgt reproduce' first", "run 'qgt reproduce' again"
        )

    def save(self, path: str | Path) -> None:
        """Write them as JSON, a line for each row so that changes show in a diff."""
        write_text(path, json_by_rows(codec.encode_table("counts", self, Counts)))


def across(one: StudyResult) -> Number:
    """Where on its figure's x axis a result stands: the number of pools, or the share of noisy counts."""
    value = next(iter(one.point.values()))
    assert not isinstance(value, str)
    return value


# The tables.

PAPERS_NUMBERS = {  # level: A-recovery error %, F1, success rate; the paper's table "complexity"
    1: (46.91, 0.78, 0.17),
    2: (0.75, 0.90, 0.47),
    3: (0.32, 0.91, 0.50),
    4: (0.14, 0.93, 0.61),
    5: (0.26, 0.95, 0.71),
    6: (3.31, 0.95, 0.69),
    7: (11.07, 0.94, 0.67),
}
PAPERS_ESTIMATOR = "least_squares"
ENOUGH_SUCCESS = 0.99  # the success rate of `needed`


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
        "residual networks": f"{residual.blocks} blocks of width {residual.width}, "
        f"{residual.train['steps']:,} steps; one design, {scale.instances:,} instances",
        "designs of the table of complexity": f"{scale.level_designs}, {scale.instances:,} instances each",
        "measured on": ", ".join(device.devices),
        "versions": ", ".join(f"{name} {version}" for name, version in device.versions.items()),
        "date": device.date,
    }


def run_table(counts: Counts) -> str:
    """The same as a table."""
    return markdown_table(["", ""], list(map(list, run_facts(counts).items())))


def rates_table(found: Sequence[StudyResult], metric: str = "success_rate") -> str:
    """A metric with its 95 % interval: a row for each decoder, a column for each point, the limit's proofs below."""
    points, cells = _points(found), _cells(found)
    rows = []
    for line in cells.values():
        rows.append([_title(line), *(_rate(line.get(point), metric) for point in points)])
    for line in cells.values():
        if _is_limit(line):
            shares = [math.floor(1e4 * line[point].proved) / 100 for point in points]  # 100 % only where it is all
            rows.append(["of the limit proved", *(f"{share:.2f} %" for share in shares)])
    return markdown_table([_key(found), *map(str, points)], rows)


def gap_table(found: Sequence[StudyResult]) -> str:
    """How far each decoder's success rate is below the limit's, in percentage points."""
    points, cells = _points(found), _cells(found)
    limit = next(line for line in cells.values() if _is_limit(line))
    rows = []
    for line in cells.values():
        if line is not limit:
            gaps = [_gap(line.get(point), limit[point]) for point in points]
            rows.append([_title(line), *gaps])
    return markdown_table([_key(found), *map(str, points)], rows)


def claims_table(counts: Counts) -> str:
    """The paper's network against each of its AMPs: at how many points it is better, level or worse, by each metric.

    Where the counts hold pairs of decoders on the same instances, the success rate is judged by the exact McNemar test
    at 5 % and the others by the 95 % interval of the paired difference; else by whether two 95 % intervals overlap.
    """
    rows = []
    for name, claim in ((TOLD, "comparable or superior"), (NEARLY, "superior"), (FIXED, "superior")):
        for figure, found in (("vs_pools", counts.vs_pools), ("vs_noise", counts.vs_noise)):
            cells, points = _cells(found), _points(found)
            pairs = [one for one in counts.pairs[figure] if (one.first, one.second) == (PAPERS, name)]
            both = [(cells[PAPERS][point], cells[name][point]) for point in points]
            signs = [_signs(pairs, both, metric) for metric in METRICS]
            verdicts = [f"{each.count(1)} / {each.count(0)} / {each.count(-1)}" for each in signs]
            over = {"vs_pools": "pools", "vs_noise": "noise"}[figure]
            rows.append([_title(cells[name]), claim, over, "pairs" if pairs else "intervals", *verdicts])
    words = [METRIC_WORDS[metric] for metric in METRICS]
    return markdown_table(["against", "the paper's words", "figure over", "judged by", *words], rows)


def _signs(pairs: Sequence[Comparison], both: Sequence[tuple[StudyResult, StudyResult]], metric: str) -> list[int]:
    """At each point 1 where the first decoder is better, -1 where it is worse, 0 where that cannot be told."""
    if pairs:
        return [one.paired.better(metric) for one in pairs]
    better = -1 if metric == "mse" else 1
    return [better * _beyond(a.score.interval(metric), b.score.interval(metric)) for a, b in both]


def _beyond(a: Interval, b: Interval) -> int:
    """1 where the first lies above the second, -1 where below, 0 where they overlap."""
    return int(a.low > b.high) - int(a.high < b.low)


def pools_needed(counts: Counts) -> dict[str, str]:
    """How many pools each decoder needs for a success rate of 99 %, in words, the fewest first, by its name."""
    lines = _cells(counts.vs_pools)
    each = {name: needed([(x, one.score.success_rate) for x, one in line.items()]) for name, line in lines.items()}
    return {name: each[name][1] for name in sorted(each, key=lambda name: each[name][0])}


def needed_table(counts: Counts) -> str:
    """The same with its interval, as a table."""
    lines = _cells(counts.vs_pools)
    rows = [[_title(lines[name]), number, _range(lines[name])] for name, number in pools_needed(counts).items()]
    return markdown_table(["decoder", f"pools for {100 * ENOUGH_SUCCESS:g} % success", "95 % interval"], rows)


def complexity_table(counts: Counts) -> str:
    """The paper's table of complexity, ours beside it; estimators of A that the paper does not have come last."""
    estimators = dict.fromkeys(read.estimator for _, one in _levels(counts) for read in one.read_back)
    others = [name for name in estimators if name != PAPERS_ESTIMATOR]
    rows = []
    for level, one in _levels(counts):
        error, f1, rate = PAPERS_NUMBERS[level]
        hidden = "-".join(map(str, MLP.level(level).hidden)) or "none"
        ours = [f"{one.score.success_rate:.3f} ({rate:.2f})", f"{one.score.f1:.3f} ({f1:.2f})"]
        errors = {read.estimator: f"{read.error_percent:.2f}" for read in one.read_back}
        rest = [errors.get(name, "") for name in others]
        rows.append([str(level), hidden, *ours, f"{errors[PAPERS_ESTIMATOR]} ({error:.2f})", *rest])
    header = ["level", "hidden layers", "success rate (paper)", "F1 (paper)", "error of A, % (paper)"]
    return markdown_table([*header, *(f"by {name.replace('_', ' ')}, %" for name in others)], rows)


def time_table(counts: Counts) -> str:
    """Where the time went: seconds by part and decoder, and by what was done."""
    labels = {one.decoder: one.label for part in COUNTED_PARTS for one in getattr(counts, part)}
    doings = ("training", "decoding", "verifying")
    rows, totals = [], [0.0] * len(doings)
    for part, done in counts.seconds.items():
        for name in dict.fromkeys(name for each in done.values() for name in each):
            spent = [done.get(doing, {}).get(name) for doing in doings]
            totals = [total + (seconds or 0) for total, seconds in zip(totals, spent, strict=True)]
            cells = ["" if seconds is None else f"{seconds:.1f}" for seconds in spent]
            rows.append([part, labels.get(name, name), *cells])
    return markdown_table(["part", "decoder", *doings], [*rows, ["all", "", *(f"{total:.1f}" for total in totals)]])


TABLES: dict[str, Callable[[Counts], str]] = {
    "run": run_table,
    "vs_pools": lambda counts: rates_table(counts.vs_pools),
    "vs_noise": lambda counts: rates_table(counts.vs_noise),
    "gap": lambda counts: gap_table(counts.vs_pools),
    "claims": claims_table,
    "needed": needed_table,
    "complexity": complexity_table,
    "time": time_table,
}


def needed(points: Sequence[tuple[Number, float]], rate: float = ENOUGH_SUCCESS) -> tuple[Number, str]:
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
    rows: list[CellRow] = [[*head, "paper_error_percent", "paper_f1", "paper_success_rate"]]
    for level, one in _levels(counts):
        rates = [v for name in ("success_rate", "f1") for v in (one.score.mean(name), *one.score.interval(name))]
        (read,) = [read for read in one.read_back if read.estimator == PAPERS_ESTIMATOR]
        each = " ".join(f"{100 * wrong / read.entries:.4g}" for wrong in read.wrong)
        ours = [*(f"{value:.6g}" for value in rates), f"{read.error_percent:.6g}", each]
        rows.append([level, len(read.wrong), one.score.instances, *ours, *PAPERS_NUMBERS[level]])
    with replacing(path) as temporary:
        write_rows(temporary, rows)


def _levels(counts: Counts) -> list[tuple[int, StudyResult]]:
    """The levels that were measured, each with its result."""
    found = {one.decoder: one for one in counts.complexity}
    return [(level, found[level_key(level)]) for level in PAPERS_NUMBERS if level_key(level) in found]


def _range(line: Mapping[Number, StudyResult]) -> str:
    """What the ends of the rates' intervals would need."""
    ends = {point: one.score.interval() for point, one in line.items()}
    fewest = needed([(point, end.high) for point, end in ends.items()])[1]
    most = needed([(point, end.low) for point, end in ends.items()])[1]
    return fewest if fewest == most else f"{fewest} to {most}"


def _gap(one: StudyResult | None, limit: StudyResult) -> str:
    return "" if one is None else f"{100 * (limit.score.success_rate - one.score.success_rate):.1f}"


def _rate(one: StudyResult | None, metric: str) -> str:
    if one is None:
        return ""
    ends: Interval = one.score.interval(metric)
    return f"{one.score.mean(metric):.3f} ({ends.low:.3f} to {ends.high:.3f})"


def _key(found: Sequence[StudyResult]) -> str:
    """The first column's head: which number the others are."""
    return next(iter(found[0].point)).removeprefix("design.").replace("noise.rate", "S/N").replace("pools", "M")


def _points(found: Sequence[StudyResult]) -> list[Number]:
    return sorted({across(one) for one in found})


def _cells(found: Sequence[StudyResult]) -> dict[str, dict[Number, StudyResult]]:
    """Each decoder's results by their point."""
    cells: dict[str, dict[Number, StudyResult]] = {}
    for one in found:
        cells.setdefault(one.decoder, {})[across(one)] = one
    return cells


def _is_limit(line: Mapping[Number, StudyResult]) -> bool:
    return next(iter(line.values())).limit


def _title(line: Mapping[Number, StudyResult]) -> str:
    one = next(iter(line.values()))
    return f"{one.label}: the limit" if one.limit else one.label
