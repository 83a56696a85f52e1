"""The store: what was measured, in one SQLite file. Rows are only ever added.

A row of `rows` is one batch of one task with the outcome of each of its instances; a row of `readings` is what one
estimator read back of A from one task's network. A row is there, whole and on the disk, once `add` returns: each is a
transaction of its own in write-ahead mode, synced before it is acknowledged. Its key is the task (and the batch, or the
estimator and its probes), so writing it again changes nothing; a task's name is the hash of its content, so studies may
share a file. Only a process that runs a study writes to it; reading changes nothing, not even beside the file.
"""

import contextlib
import json
import math
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

import numpy as np
import torch
from torch import Tensor

from qgt.files import codec
from qgt.rounds.policies import Ran
from qgt.trust.metrics import Outcomes, Score

# What policies spend: tests, rounds and transfers of each instance, as they are stored, and what they add up to.

NUMBERS_SPENT = 3  # an instance: tests, rounds, transfers
NORMAL = 1.959964  # standard errors to either end of a 95 % interval


@dataclass(frozen=True)
class Spent:
    """Tests, rounds and transfers of some instances, packed as 32-bit numbers.

    Example:
        >>> import torch
        >>> Spent.pack(torch.tensor([[17, 2, 830], [20, 3, 900]])).costs.mean_tests
        18.5
    """

    packed: bytes

    def __post_init__(self) -> None:
        if len(self.packed) % (4 * NUMBERS_SPENT):
            raise ValueError(f"{len(self.packed)} bytes are not {NUMBERS_SPENT} 32-bit numbers an instance")

    @classmethod
    def pack(cls, each: Tensor) -> "Spent":
        """From one row an instance."""
        return cls(each.numpy().astype("<u4").tobytes())

    @classmethod
    def of(cls, ran: Ran) -> "Spent":
        """From what a simulation returned."""
        return cls.pack(torch.stack([ran.tests, ran.rounds, ran.transfers], 1))

    @property
    def costs(self) -> "PolicyCosts":
        """The sums."""
        each = np.frombuffer(self.packed, dtype="<u4").astype(np.int64).reshape(-1, NUMBERS_SPENT)
        tests, rounds, transfers = (int(one) for one in each.sum(0))
        return PolicyCosts(len(each), tests, int((each[:, 0] ** 2).sum()), rounds, transfers)


@dataclass(frozen=True)
class PolicyCosts:
    """Sums over instances of what a policy spent."""

    instances: int
    tests: int
    squared_tests: int
    rounds: int
    transfers: int

    @classmethod
    def total(cls, parts: Iterable["PolicyCosts"]) -> "PolicyCosts | None":
        """All of several; None where there are none."""
        some = [(one.instances, one.tests, one.squared_tests, one.rounds, one.transfers) for one in parts]
        return cls(*(sum(column) for column in zip(*some, strict=True))) if some else None

    @property
    def mean_tests(self) -> float:
        """For one instance."""
        return self.tests / self.instances

    @property
    def mean_rounds(self) -> float:
        """For one instance."""
        return self.rounds / self.instances

    @property
    def mean_transfers(self) -> float:
        """For one instance."""
        return self.transfers / self.instances

    @property
    def half_interval(self) -> float:
        """Half of the 95 % interval of the mean number of tests."""
        variance = max(0.0, self.squared_tests / self.instances - self.mean_tests**2)
        return NORMAL * math.sqrt(variance / max(1, self.instances - 1))


# The store.

STUDY_APPLICATION = 0x71677401  # "qgt", 1: marks the file as ours
STUDY_SCHEMA = 3
Provenance = Mapping[str, str | int]  # where it was made
STUDY_PATIENCE = 60.0  # seconds to wait for another process's transaction
STUDY_TABLES = (
    """
    CREATE TABLE IF NOT EXISTS rows (
        task TEXT NOT NULL,
        batch INTEGER NOT NULL,
        items INTEGER NOT NULL,
        outcomes BLOB NOT NULL, -- three 32-bit numbers an instance, deflated
        statuses TEXT NOT NULL,
        seconds REAL NOT NULL,
        provenance TEXT NOT NULL,
        spent BLOB, -- of a policy: three 32-bit numbers an instance, deflated
        PRIMARY KEY (task, batch)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE IF NOT EXISTS readings (
        task TEXT NOT NULL,
        estimator TEXT NOT NULL,
        probes INTEGER NOT NULL,
        wrong INTEGER NOT NULL,
        entries INTEGER NOT NULL,
        seconds REAL NOT NULL,
        provenance TEXT NOT NULL,
        PRIMARY KEY (task, estimator, probes)
    ) WITHOUT ROWID
    """,
)


@dataclass(frozen=True)
class Row:
    """One batch of one task: what became of each instance, never rates."""

    task: str
    batch: int
    outcomes: Outcomes
    statuses: Mapping[str, int]
    seconds: float  # spent decoding
    provenance: Provenance
    spent: Spent | None = None  # by a policy

    @cached_property
    def score(self) -> Score:
        """The outcomes as counts."""
        return self.outcomes.score

    @property
    def instances(self) -> int:
        """How many instances were decoded."""
        return self.outcomes.instances

    @property
    def failures(self) -> int:
        """How many of them not without error."""
        return self.instances - self.score.successes


@dataclass(frozen=True)
class Reading:
    """What an estimator read back of A from a task's network."""

    task: str
    estimator: str
    probes: int  # instances at which the network was asked
    wrong: int  # entries of A read back wrongly
    entries: int  # of A
    seconds: float
    provenance: Provenance


@dataclass(frozen=True)
class Notes:
    """The cells that hold JSON."""

    provenance: Provenance
    statuses: Mapping[str, int] = field(default_factory=dict)


class StudyStore:
    """An open store; use it in a `with` statement. With `reading`, the file must be there, and is left as it is.

    Example:
        >>> with StudyStore("study.db") as store:
        ...     store.add(Row("a task", 0, Outcomes(3, bytes(60)), {"OK": 5}, 0.1, {}))
        ...     [row.instances for row in store.rows("a task")]
        [5]
    """

    def __init__(self, path: str | Path, *, reading: bool = False) -> None:
        self.path = Path(path)
        if reading and not self.path.is_file():
            raise ValueError(f"{path}: there are no results yet; run the study with 'qgt bench' first.")
        with _explained(self.path):
            if not reading:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            target = _read_only(self.path) if reading else self.path
            self._connection = sqlite3.connect(target, timeout=STUDY_PATIENCE, isolation_level=None, uri=reading)
        try:
            with _explained(self.path):
                known = self._check()
                if not reading:
                    self._prepare(known)
        except BaseException:
            self.close()
            raise

    def _check(self) -> bool:
        """Whether the file has our tables; a file of another program or another format is refused."""
        ask = self._connection.execute
        ask("BEGIN")  # one look at the file, which another process may be about to make ours
        empty = ask("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        application, version = ask("PRAGMA application_id").fetchone()[0], ask("PRAGMA user_version").fetchone()[0]
        ask("COMMIT")
        if application != STUDY_APPLICATION and not (empty and application == 0):
            raise ValueError(f"{self.path}: is the database of another program; give another path.")
        if application == STUDY_APPLICATION and version != STUDY_SCHEMA:
            raise ValueError(
                f"{self.path}: has format {version}, and this version of qgt uses format {STUDY_SCHEMA}; "
                "give another path, and the study runs anew."
            )
        return bool(application == STUDY_APPLICATION)

    def _prepare(self, known: bool) -> None:
        """Choose how rows are written, and make the tables in an empty file."""
        ask = self._connection.execute
        ask("PRAGMA journal_mode = WAL")
        ask("PRAGMA synchronous = FULL")
        if known:
            return
        # One transaction: a file is marked as ours exactly when it has the tables.
        ask("BEGIN IMMEDIATE")
        for table in STUDY_TABLES:
            ask(table)
        ask(f"PRAGMA user_version = {STUDY_SCHEMA}")
        ask(f"PRAGMA application_id = {STUDY_APPLICATION}")
        ask("COMMIT")

    def add(self, one: Row | Reading) -> None:
        """Write a row; when this returns it is on the disk. A row that is there already stays as it is."""
        provenance = json.dumps(dict(one.provenance))
        values: tuple[object, ...]
        if isinstance(one, Row):
            packed, statuses = zlib.compress(one.outcomes.packed), json.dumps(dict(one.statuses))
            spent = None if one.spent is None else zlib.compress(one.spent.packed)
            values = (one.task, one.batch, one.outcomes.items, packed, statuses, one.seconds, provenance, spent)
            insert = "INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
        else:
            values = (one.task, one.estimator, one.probes, one.wrong, one.entries, one.seconds, provenance)
            insert = "INSERT INTO readings VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
        with _explained(self.path):
            self._connection.execute(insert, values)

    def rows(self, task: str) -> Iterator[Row]:
        """The rows of a task in the order of their batches."""
        cells = "batch, items, outcomes, statuses, seconds, provenance, spent"
        query = f"SELECT {cells} FROM rows WHERE task = ? ORDER BY batch"
        with _explained(self.path):
            found = self._connection.execute(query, (task,)).fetchall()
        for batch, items, packed, statuses, seconds, provenance, spent in found:
            with self._whole(f"batch {batch} of task {task[:12]}"):
                outcomes = Outcomes(int(items), zlib.decompress(packed))
                notes = _notes({"statuses": statuses, "provenance": provenance})
                costs = None if spent is None else Spent(zlib.decompress(spent))
                row = Row(task, batch, outcomes, notes.statuses, float(seconds), notes.provenance, costs)
            yield row

    def readings(self, task: str) -> Iterator[Reading]:
        """The readings of a task's network, by estimator."""
        query = (
            "SELECT estimator, probes, wrong, entries, seconds, provenance FROM readings WHERE task = ? ORDER BY 1, 2"
        )
        with _explained(self.path):
            found = self._connection.execute(query, (task,)).fetchall()
        for estimator, probes, wrong, entries, seconds, provenance in found:
            with self._whole(f"the reading by {estimator} of task {task[:12]}"):
                counts = int(probes), int(wrong), int(entries)
                notes = _notes({"provenance": provenance})
                reading = Reading(task, estimator, *counts, float(seconds), notes.provenance)
            yield reading

    def count(self) -> int:
        """How many batches the file holds, of all tasks."""
        with _explained(self.path):
            return int(self._connection.execute("SELECT count(*) FROM rows").fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> "StudyStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _whole(self, what: str) -> Iterator[None]:
        """Turn what a row of another shape provokes into an error that names the file and the row."""
        try:
            yield
        except (ValueError, TypeError, zlib.error) as error:
            raise ValueError(
                f"{self.path}: {what} is damaged ({error}); use another database, or a copy from before."
            ) from error


def _notes(texts: Mapping[str, object]) -> Notes:
    """What the cells hold as JSON."""
    for text in texts.values():
        if not isinstance(text, str):
            raise TypeError(f"a text was expected, not {text!r}")
    return codec.decode("", {name: json.loads(str(text)) for name, text in texts.items()}, Notes)


def _read_only(path: Path) -> str:
    """The address by which SQLite reads a file and writes nothing.

    Where nobody has it open there is no write-ahead log, and SQLite need not make one to look for rows in it.
    """
    log = Path(f"{path}-wal")
    return f"file:{quote(str(path.resolve()))}?mode=ro" + ("" if log.exists() else "&immutable=1")


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn SQLite's and the system's errors into one that names the file."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise ValueError(f"{path}: cannot be used as a study's database ({error}); give another path.") from error
