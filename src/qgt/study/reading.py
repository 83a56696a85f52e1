"""Reading a study: what its rows add up to, as results, as a table in CSV and as one in Markdown."""

import itertools
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from qgt.files import codec
from qgt.files.codec import UNSTORED
from qgt.files.documents import frame, json_by_rows, markdown_table
from qgt.files.grids import Cell, CellRow, write_rows
from qgt.files.store import replacing, write_text
from qgt.files.tables import cell_of
from qgt.study.plan import Study, Task, Value
from qgt.study.store import PolicyCosts, Reading, Row, StudyStore
from qgt.trust.metrics import METRICS, Outcomes, Paired, Score, joined_outcomes, paired

if TYPE_CHECKING:
    from pandas import DataFrame

Made = TypeVar("Made")

# The tally of a task: its rows in the order of their batches, up to where the task stops.
#
# The stop rule (enough batches, or enough failures) looks at the batches in order, never at when they were finished. So
# where a task stops, and what it adds up to, is the same for any number of workers; rows beyond are not counted.


@dataclass(eq=False)
class TaskTally:
    """Rows as they arrive, and those of them that count."""

    task: Task
    rows: list[Row] = field(default_factory=list)  # those that count, in order
    failures: int = 0
    _known: dict[int, Row] = field(default_factory=dict)

    @classmethod
    def of(cls, task: Task, rows: Iterable[Row]) -> "TaskTally":
        """The tally of rows that are there already."""
        tally = cls(task)
        for row in rows:
            tally.add(row)
        return tally

    def add(self, row: Row) -> None:
        """Take a row, in any order."""
        self._known[row.batch] = row
        while not self.finished and len(self.rows) in self._known:
            counted = self._known[len(self.rows)]
            self.rows.append(counted)
            self.failures += counted.failures

    def __contains__(self, batch: int) -> bool:
        return batch in self._known

    @property
    def finished(self) -> bool:
        """Whether nothing more is to be decoded."""
        failed = self.task.max_failures is not None and self.failures >= self.task.max_failures
        return failed or len(self.rows) >= self.task.batches

    @property
    def done(self) -> int:
        """How many of the task's batches need no more work."""
        return self.task.batches if self.finished else sum(batch < self.task.batches for batch in self._known)


# Results.


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
    costs: PolicyCosts | None = None  # of a policy
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
    groups: dict[tuple[int, str], list[tuple[TaskTally, list[Reading]]]] = {}
    with StudyStore(db, reading=True) as store:
        for (point, _, name), task in zip(order, study.tasks, strict=True):
            readings = [one for one in store.readings(task.key) if one.probes == study.verify]
            groups.setdefault((point, name), []).append((TaskTally.of(task, store.rows(task.key)), readings))
    return [_result(group) for group in groups.values()]


def _result(group: Sequence[tuple[TaskTally, list[Reading]]]) -> StudyResult:
    """The sum over the designs of one point."""
    tallies = [tally for tally, _ in group]
    task, rows = tallies[0].task, [row for tally in tallies for row in tally.rows]
    total = Score(rows[0].score.items if rows else task.items, {})  # of copies and categories, the parts
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
        PolicyCosts.total(row.spent.costs for row in rows if row.spent is not None),
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
    with StudyStore(db, reading=True) as store:
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
    with replacing(path) as temporary:
        write_rows(temporary, _table(list(found)))


def study_frame(found: Iterable[StudyResult]) -> "DataFrame":
    """The same rows as a DataFrame of pandas, which the extra `pandas` installs.

    Example:
        >>> score = Score(9, {(1, 0, 0): 4})
        >>> one = StudyResult({"design.pools": 20}, "amp", "AMP", False, 1, score, {"OK": 4}, 0.1, True)
        >>> study_frame([one])[["design.pools", "decoder", "success_rate"]]
           design.pools decoder  success_rate
        0            20     AMP           1.0
    """
    head, *rows = _table(list(found))
    whole = head.index("instances")  # what is behind is measured: numbers, or NaN where there are none
    columns: dict[str, list[object]] = {}
    for i, name in enumerate(head):
        cells = [row[i] for row in rows]
        columns[str(name)] = (
            [*cells] if i <= whole else [float(one) if isinstance(one, int | float) else math.nan for one in cells]
        )
    return frame(columns)


def _table(found: Sequence[StudyResult]) -> list[CellRow]:
    """A header, and a row for each result."""
    keys = list(found[0].point) if found else []
    metrics = [f"{name}{end}" for name in METRICS for end in ("", "_low", "_high")]
    counts = ["designs", "instances"]
    spent = ["tests", "tests_low", "tests_high", "rounds", "transfers"] if any(one.costs for one in found) else []
    rows: list[CellRow] = [[*keys, "decoder", *counts, *metrics, "proved", "microseconds_per_instance", *spent]]
    for one in found:
        values = [v for name in METRICS for v in (one.score.mean(name), *one.score.interval(name))]
        cells = [_digits(v) if one.score.instances else None for v in (*values, one.proved, one.microseconds)]
        costs = _costs_cells(one.costs) if spent else []
        rows.append([*one.point.values(), one.label, one.designs, one.score.instances, *cells, *costs])
    return rows


def _costs_cells(costs: PolicyCosts | None) -> list[Cell]:
    """Tests with their interval, rounds and transfers; empty for a decoder."""
    if costs is None:
        return [None] * 5
    tests, half = costs.mean_tests, costs.half_interval
    return [_digits(v) for v in (tests, tests - half, tests + half, costs.mean_rounds, costs.mean_transfers)]


def _digits(value: float) -> int | float | None:
    """A number with six digits."""
    return cell_of(float(f"{value:.6g}"))


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


# Decoders of a study compared in pairs, on the instances that both decoded.
#
# A decoder with fewer instances of its own, or one that stopped early, has the first of the others' instances; the pair
# is compared on those.


@dataclass(frozen=True)
class Comparison:
    """Two decoders at one point of the grid.

    Example:
        >>> one = Comparison({"design.pools": 20}, "amp", "gamp", Paired(90, 6, 3, 1, {}))
        >>> one.first, one.paired.p_value
        ('amp', 0.5078125)
    """

    point: Mapping[str, Value]
    first: str  # the decoders' names in the study
    second: str
    paired: Paired


def compare_decoders(found: Sequence[StudyResult], first: str, second: str) -> list[Comparison]:
    """Compare two decoders of a study at every point where they decoded the same instances.

    Example:
        >>> from qgt import Study, run_study, study_results
        >>> design = {"kind": "bernoulli", "pools": 8, "items": 20}
        >>> problem = {"design": design, "prior": {"kind": "bernoulli", "rate": 0.1}}
        >>> decoders = {"AMP": {"kind": "amp"}, "greedy": {"kind": "maximum_neighborhood"}}
        >>> study = Study.from_plain({"problem": problem, "decoders": decoders})
        >>> run_study(study, "study.db")
        >>> (one,) = compare_decoders(study_results(study, "study.db"), "AMP", "greedy")
        >>> one.paired.instances, one.paired.better("success_rate"), one.paired.p_value < 1e-9
        (2000, 1, True)
    """
    names = {one.decoder for one in found}
    for key, name in {"first": first, "second": second}.items():
        if name not in names:
            raise ValueError(f"{key}={name!r} is not a decoder here: give one of {', '.join(sorted(names))}.")
    by = {(tuple(one.point.items()), one.decoder): one for one in found}
    points = dict.fromkeys(tuple(one.point.items()) for one in found)
    pairs = [(by.get((point, first)), by.get((point, second))) for point in points]
    shared = [(a, pair(a, b)) for a, b in pairs if a is not None and b is not None]
    return [Comparison(a.point, first, second, both) for a, both in shared if both is not None]


def all_pairs(found: Sequence[StudyResult]) -> list[Comparison]:
    """Every two decoders of a study, at every point where they decoded the same instances."""
    names = dict.fromkeys(one.decoder for one in found)
    return [comparison for a, b in combinations(names, 2) for comparison in compare_decoders(found, a, b)]


def pair(first: StudyResult, second: StudyResult) -> Paired | None:
    """Two results on the instances that both have, over all designs; None where there are none."""
    total: Paired | None = None
    for stream, a in first.streams.items():
        b = second.streams.get(stream)
        if b is not None:
            shorter = min(a.instances, b.instances)
            both = paired(a.first(shorter), b.first(shorter))
            total = both if total is None else total + both
    return total


def paired_with_limit(one: StudyResult, found: Sequence[StudyResult]) -> Paired | None:
    """A result against the limit at its point; None for the limit itself, and where it is not there."""
    limits = [other for other in found if other.limit and other.point == one.point]
    return None if one.limit or not limits else pair(one, limits[0])


# What a study found, as one JSON file that is small enough to commit: counts of results and of pairs, and where from.
#
# The outcome of each instance stays in the database; the pairs of decoders that it gives are here.


@dataclass(frozen=True)
class StudyCounts:
    """A study's results and its decoders in pairs."""

    measured_on: Measured
    results: Sequence[StudyResult]
    pairs: Sequence[Comparison]

    @classmethod
    def of(cls, study: Study, db: str | Path) -> "StudyCounts":
        """What the database holds of a study."""
        found = study_results(study, db)
        return cls(measured_on([study], db), to_milliseconds(found), all_pairs(found))

    def save(self, path: str | Path) -> None:
        """Write them as JSON, a line for each row so that changes show in a diff."""
        write_text(path, json_by_rows(codec.encode_table("counts", self, StudyCounts)))

    @classmethod
    def load(cls, path: str | Path) -> "StudyCounts":
        """Read a file that `save` wrote."""
        return read_stored_counts(path, cls, "a study's", "check the path", "write it with 'qgt bench --counts'")


def read_stored_counts(path: str | Path, kind: type[Made], whose: str, where_absent: str, where_damaged: str) -> Made:
    """Counts in a JSON file; what to do where there is none, or where it holds something else, is the caller's."""
    try:
        return codec.decode("counts", json.loads(Path(path).read_text(encoding="utf-8")), kind)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror}); {where_absent}.") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: does not hold {whose} counts ({error}); {where_damaged}.") from error
