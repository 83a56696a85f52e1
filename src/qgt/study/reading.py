"""Reading a study: what its rows add up to, as results, as a table in CSV and as one in Markdown."""

import csv
import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from qgt.files.atomic import replacing
from qgt.study.plan import Study, Task, Value
from qgt.study.store import Store
from qgt.study.tally import Tally
from qgt.trust.scoring import METRICS, Score


@dataclass(frozen=True)
class Result:
    """A decoder at one point of the grid, over all designs: counts that were added up."""

    point: Mapping[str, Value]
    decoder: str
    limit: bool  # whether it is what no decoder exceeds
    designs: int
    score: Score
    statuses: Mapping[str, int]
    seconds: float  # spent decoding
    finished: bool  # whether all that the study asks for is there

    @property
    def proved(self) -> float:
        """The share of instances whose calls are proved to be the most probable ones."""
        return self.statuses.get("PROVED", 0) / self.score.instances if self.score.instances else math.nan

    @property
    def microseconds(self) -> float:
        """Spent decoding, per instance."""
        return 1e6 * self.seconds / self.score.instances if self.score.instances else math.nan


def results(study: Study, db: str | Path) -> list[Result]:
    """What the database holds of a study: one result for each point of the grid and each decoder, in their order."""
    with Store(db, create=False) as store:
        tallies = [_tally(store, task) for task in study.tasks]
    groups: dict[tuple[int, str], list[Tally]] = {}
    names = [entry.name for entry in study.decoders]
    order = itertools.product(range(len(study.points)), range(len(study.designs)), names)
    for (point, _, name), tally in zip(order, tallies, strict=True):
        groups.setdefault((point, name), []).append(tally)
    return [_result(group) for group in groups.values()]


def _tally(store: Store, task: Task) -> Tally:
    tally = Tally(task)
    for row in store.rows(task.key):
        tally.add(row)
    return tally


def _result(tallies: Sequence[Tally]) -> Result:
    """The sum over the designs of one point."""
    task, rows = tallies[0].task, [row for tally in tallies for row in tally.rows]
    total = Score(task.items, {})
    for row in rows:
        total += row.score
    return Result(
        task.point,
        task.entry.name,
        task.entry.limit,
        len(tallies),
        total,
        sum((Counter(row.statuses) for row in rows), Counter[str]()),
        math.fsum(row.seconds for row in rows),
        all(tally.finished for tally in tallies),
    )


def write_csv(found: Iterable[Result], path: str | Path) -> None:
    """Write one row for each result: where, who, how many, the five metrics with their intervals, proofs and time."""
    found = list(found)
    keys = list(found[0].point) if found else []
    metrics = [f"{name}{end}" for name in METRICS for end in ("", "_low", "_high")]
    counts = ["designs", "instances"]
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([*keys, "decoder", *counts, *metrics, "proved", "microseconds_per_instance"])
        for one in found:
            values = [v for name in METRICS for v in (one.score.mean(name), *one.score.interval(name))]
            cells = [f"{v:.6g}" if one.score.instances else "" for v in (*values, one.proved, one.microseconds)]
            writer.writerow([*one.point.values(), one.decoder, one.designs, one.score.instances, *cells])


def markdown(found: Iterable[Result], metric: str = "success_rate") -> str:
    """A table in Markdown: a row for each point, a column for each decoder, a metric with its 95 % interval."""
    found = list(found)
    names = list(dict.fromkeys(one.decoder for one in found))
    keys = list(found[0].point) if found else []
    cells: dict[tuple[Value, ...], dict[str, str]] = {}
    for one in found:
        low, high = one.score.interval(metric)
        text = f"{one.score.mean(metric):.3f} [{low:.3f}, {high:.3f}]" if one.score.instances else ""
        cells.setdefault(tuple(one.point.values()), {})[one.decoder] = text
    lines = [[*keys, *names], ["---"] * (len(keys) + len(names))]
    lines += [[*map(str, point), *(row.get(name, "") for name in names)] for point, row in cells.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"
