"""The store: what was measured, in one SQLite file. A row is one batch of one task, and rows are only ever added.

A row is there, whole and on the disk, once `add` returns: each is a transaction of its own in write-ahead mode, synced
before it is acknowledged. Its key is (task, batch), so writing it again changes nothing; a task's name is the hash of
its content, so studies may share a file. Only the process that runs a study writes to it.
"""

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qgt.trust.scoring import Score

APPLICATION = 0x71677401  # "qgt", 1: marks the file as ours
SCHEMA = 1
PATIENCE = 60.0  # seconds to wait for another process's transaction
TABLE = """
CREATE TABLE IF NOT EXISTS rows (
    task TEXT NOT NULL,
    batch INTEGER NOT NULL,
    instances INTEGER NOT NULL,
    score TEXT NOT NULL,
    statuses TEXT NOT NULL,
    seconds REAL NOT NULL,
    provenance TEXT NOT NULL,
    PRIMARY KEY (task, batch)
) WITHOUT ROWID
"""


@dataclass(frozen=True)
class Row:
    """One batch of one task: counts, never rates."""

    task: str
    batch: int
    score: Score
    statuses: Mapping[str, int]
    seconds: float  # spent decoding
    provenance: Mapping[str, Any]

    @property
    def instances(self) -> int:
        """How many instances were decoded."""
        return self.score.instances

    @property
    def failures(self) -> int:
        """How many of them not without error."""
        return self.score.instances - self.score.successes


class Store:
    """An open store; use it in a `with` statement.

    Example:
        >>> with Store("study.db") as store:
        ...     store.add(Row("a task", 0, Score(3, {(1, 0, 0): 5}), {"OK": 5}, 0.1, {}))
        ...     [row.instances for row in store.rows("a task")]
        [5]
    """

    def __init__(self, path: str | Path, *, create: bool = True) -> None:
        self.path = Path(path)
        if not create and not self.path.is_file():
            raise ValueError(f"{path}: there are no results yet; run the study with 'qgt bench' first.")
        with _explained(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)
        try:
            with _explained(self.path):
                self._prepare()
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        """Make the table in an empty file; refuse a file of another program or of a later version."""
        ask = self._connection.execute
        application, version = ask("PRAGMA application_id").fetchone()[0], ask("PRAGMA user_version").fetchone()[0]
        empty = ask("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if application != APPLICATION and not (empty and application == 0):
            raise ValueError(f"{self.path}: is the database of another program; give another path.")
        if application == APPLICATION and version != SCHEMA:
            raise ValueError(f"{self.path}: has format {version}, and this version of qgt reads format {SCHEMA}.")
        ask("PRAGMA journal_mode = WAL")
        ask("PRAGMA synchronous = FULL")
        if application == APPLICATION:
            return
        # One transaction: a file is marked as ours exactly when it has the table.
        ask("BEGIN IMMEDIATE")
        ask(TABLE)
        ask(f"PRAGMA user_version = {SCHEMA}")
        ask(f"PRAGMA application_id = {APPLICATION}")
        ask("COMMIT")

    def add(self, row: Row) -> None:
        """Write a row; when this returns it is on the disk. A row that is there already stays as it is."""
        values = (
            row.task,
            row.batch,
            row.instances,
            json.dumps(row.score.to_plain()),
            json.dumps(dict(row.statuses)),
            row.seconds,
            json.dumps(dict(row.provenance)),
        )
        insert = "INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (task, batch) DO NOTHING"
        with _explained(self.path):
            self._connection.execute(insert, values)

    def rows(self, task: str) -> Iterator[Row]:
        """The rows of a task in the order of their batches."""
        query = "SELECT batch, score, statuses, seconds, provenance FROM rows WHERE task = ? ORDER BY batch"
        with _explained(self.path):
            found = self._connection.execute(query, (task,)).fetchall()
        for batch, score, statuses, seconds, provenance in found:
            counts = Score.from_plain(json.loads(score))
            yield Row(task, batch, counts, json.loads(statuses), seconds, json.loads(provenance))

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn SQLite's and the system's errors into one that names the file."""
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise ValueError(f"{path}: cannot be used as a study's database ({error}); give another path.") from error
