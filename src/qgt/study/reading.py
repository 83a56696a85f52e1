"""Reading a study: what its rows add up to, as results, as a table in CSV and as one in Markdown."""

import csv
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from qgt.files.codec import UNSTORED
from qgt.files.documents import markdown_table
from qgt.files.store import replacing
from qgt.study.plan import Study, Value
from qgt.study.spent import Costs
from qgt.study.store import Reading, Store
from qgt.study.tally import Tally
from qgt.trust.metrics import METRICS, Outcomes, Score, joined_outcomes


@dataclass(frozen=True)
class ReadBack:
    """What an estimator read back of A from a decoder's networks, one for each design."""

    estimator: str
    probes: int  # instances at which each network was asked
    entries: int  # of A
    wrong: Sequence[int]  # entries read back wrongly, by each design's network

    @property
    def error_percent(self) -> float:
        """The mean share of wrong entries, the paper's measure."""
        return 100 * sum(self.wrong) / (len(self.wrong) * self.entries)


@dataclass(frozen=True)
class StudyResult:
    """A decoder at one point of the grid, over all designs: counts that were added up.

    `decoder` identifies it, `label` is what tables and figures call it. `streams` holds what became of each instance,
    by the name of the stream of instances; it is empty where only counts were kept.

    Example:
        >>> score = Score(9, {(1, 0, 0): 4})
        >>> one = StudyResult({"design.pools": 20}, "amp", "AMP", False, 1, score, {"OK": 4}, 0.1, True)
        >>> one.score.success_rate, one.microseconds
        (1.0, 25000.0)
    """

    point: Mapping[str, Value]
    decoder: str
    label: str
    limit: bool  # whether it is what no decoder exceeds
    designs: int
    score: Score
    statuses: Mapping[str, int]
    seconds: float  # spent decoding
    finished: bool  # whether all that the study asks for is there
    read_back: Sequence[ReadBack] = ()
    costs: Costs | None = None  # of a policy
    streams: Mapping[str, Outcomes] = field(default_factory=dict, repr=False, compare=False, metadata=UNSTORED)

    @property
    def proved(self) -> float:
        """The share of instances whose calls are proved to be the most probable ones."""
        return self.statuses.get("PROVED", 0) / self.score.instances if self.score.instances else math.nan

    @property
    def microseconds(self) -> float:
        """Spent decoding, per instance."""
        return 1e6 * self.seconds / self.score.instances if self.score.instances else math.nan


@dataclass(frozen=True)
class Measured:
    """On what it was measured, and when."""

    devices: Sequence[str]
    threads: Sequence[int]
    versions: Mapping[str, str]
    date: str  # the last
    design_seeds: Sequence[int]
    cores: int | None = None  # None where rows do not say


def study_results(study: Study, db: str | Path) -> list[StudyResult]:
    """What the database holds of a study: one result for each point of the grid and each decoder, in their order.

    The database is only read, so it may lie where nothing can be written.

    Example:
        >>> from qgt import Study, run_study
        >>> design = {"kind": "bernoulli", "pools": 8, "items": 20}
        >>> problem = {"design": design, "prior": {"kind": "bernoulli", "rate": 0.1}}
        >>> study = Study.from_plain({"problem": problem, "decoders": {"greedy": {"kind": "maximum_neighborhood"}}})
        >>> run_study(study, "study.db")
        >>> [(result.decoder, result.finished) for result in study_results(study, "study.db")]
        [('greedy', True)]
    """
    names = [entry.name for entry in study.decoders]
    order = itertools.product(range(len(study.points)), range(len(study.designs)), names)
    groups: dict[tuple[int, str], list[tuple[Tally, list[Reading]]]] = {}
    with Store(db, reading=True) as store:
        for (point, _, name), task in zip(order, study.tasks, strict=True):
            readings = [one for one in store.readings(task.key) if one.probes == study.verify]
            groups.setdefault((point, name), []).append((Tally.of(task, store.rows(task.key)), readings))
    return [_result(group) for group in groups.values()]


def _result(group: Sequence[tuple[Tally, list[Reading]]]) -> StudyResult:
    """The sum over the designs of one point."""
    tallies = [tally for tally, _ in group]
    task, rows = tallies[0].task, [row for tally in tallies for row in tally.rows]
    total = Score(task.items, {})
    for row in rows:
        total += row.score
    return StudyResult(
        task.point,
        task.entry.name,
        task.entry.label or task.entry.name,
        task.entry.limit,
        len(tallies),
        total,
        sum((Counter(row.statuses) for row in rows), Counter[str]()),
        math.fsum(row.seconds for row in rows),
        all(tally.finished for tally in tallies),
        _read_back([one for _, readings in group for one in readings]),
        Costs.total(row.spent.costs for row in rows if row.spent is not None),
        {tally.task.stream: joined_outcomes([row.outcomes for row in tally.rows]) for tally in tallies if tally.rows},
    )


def _read_back(readings: Sequence[Reading]) -> tuple[ReadBack, ...]:
    """The readings of several networks, by estimator."""
    by: dict[str, list[Reading]] = {}
    for one in readings:
        by.setdefault(one.estimator, []).append(one)
    return tuple(
        ReadBack(name, some[0].probes, some[0].entries, tuple(one.wrong for one in some)) for name, some in by.items()
    )


def measured_on(studies: Iterable[Study], db: str | Path) -> Measured:
    """Machines, versions and the last day: what the rows of some studies say of themselves."""
    tasks = dict.fromkeys(task for study in studies for task in study.tasks)
    with Store(db, reading=True) as store:
        rows = [row.provenance for task in tasks for row in store.rows(task.key)]
    versions = {name: " and ".join(sorted({str(row[name]) for row in rows})) for name in ("qgt", "torch", "python")}
    return Measured(
        devices=sorted({str(row["device"]) for row in rows}),
        threads=sorted({int(row["threads"]) for row in rows}),
        versions=versions,
        date=max((str(row["date"]) for row in rows), default=""),
        design_seeds=sorted({task.design for task in tasks if task.design is not None}),
    )


def to_milliseconds(found: Iterable[StudyResult]) -> list[StudyResult]:
    """Results for a file that is committed: more digits of their times would only make its changes longer."""
    return [replace(one, seconds=round(one.seconds, 3)) for one in found]


def write_csv(found: Iterable[StudyResult], path: str | Path) -> None:
    """Write one row for each result: where, who, how many, the five metrics with their intervals, proofs and time."""
    found = list(found)
    keys = list(found[0].point) if found else []
    metrics = [f"{name}{end}" for name in METRICS for end in ("", "_low", "_high")]
    counts = ["designs", "instances"]
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        spent = ["tests", "tests_low", "tests_high", "rounds", "transfers"] if any(one.costs for one in found) else []
        writer.writerow([*keys, "decoder", *counts, *metrics, "proved", "microseconds_per_instance", *spent])
        for one in found:
            values = [v for name in METRICS for v in (one.score.mean(name), *one.score.interval(name))]
            cells = [f"{v:.6g}" if one.score.instances else "" for v in (*values, one.proved, one.microseconds)]
            costs = _costs_cells(one.costs) if spent else []
            writer.writerow([*one.point.values(), one.label, one.designs, one.score.instances, *cells, *costs])


def _costs_cells(costs: Costs | None) -> list[str]:
    """Tests with their interval, rounds and transfers; empty for a decoder."""
    if costs is None:
        return [""] * 5
    tests, half = costs.mean_tests, costs.half_interval
    return [f"{v:.6g}" for v in (tests, tests - half, tests + half, costs.mean_rounds, costs.mean_transfers)]


def markdown(found: Iterable[StudyResult], metric: str = "success_rate") -> str:
    """A table in Markdown: a row for each point, a column for each decoder, a metric with its 95 % interval."""
    found = list(found)
    labels = {one.decoder: one.label for one in found}
    keys = list(found[0].point) if found else []
    cells: dict[tuple[Value, ...], dict[str, str]] = {}
    for one in found:
        low, high = one.score.interval(metric)
        text = f"{one.score.mean(metric):.3f} [{low:.3f}, {high:.3f}]" if one.score.instances else ""
        cells.setdefault(tuple(one.point.values()), {})[one.decoder] = text
    rows = [[*point, *(row.get(name, "") for name in labels)] for point, row in cells.items()]
    return markdown_table([*keys, *labels.values()], rows) + "\n"
