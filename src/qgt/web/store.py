"""What the page keeps, in one SQLite file: runs, every submission of counts, what was made of each, and who did what.

A run is a plan with its files. A submission is a sheet of counts as it came, with how it was read; a correction is a
new version, and no version is ever changed or taken away: the database itself refuses to. Each of the functions that
write is one transaction in write-ahead mode, synced before it returns, so that what was acknowledged outlives a kill.
"""

import json
import secrets
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# The tables of the store, and the rules that the database itself keeps: what is written stays as it is.

PAGE_APPLICATION, PAGE_SCHEMA = 0x71677402, 1  # "qgt", 2: marks the file as ours
PAGE_TABLES = """
CREATE TABLE keys (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE runs (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    made REAL NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,   -- plan or example
    facts TEXT NOT NULL   -- what lists of runs show, as JSON
);
CREATE TABLE files (
    run TEXT NOT NULL REFERENCES runs (id),
    name TEXT NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (run, name)
);
CREATE TABLE submissions (
    run TEXT NOT NULL REFERENCES runs (id),
    version INTEGER NOT NULL,
    made REAL NOT NULL,
    way TEXT NOT NULL,    -- typed, pasted, uploaded or example
    note TEXT NOT NULL,
    source BLOB NOT NULL, -- as it came
    counts TEXT NOT NULL, -- as it was read, as JSON
    PRIMARY KEY (run, version)
);
CREATE TABLE results (
    run TEXT NOT NULL,
    version INTEGER NOT NULL,
    made REAL NOT NULL,
    facts TEXT NOT NULL,  -- as JSON
    PRIMARY KEY (run, version),
    FOREIGN KEY (run, version) REFERENCES submissions (run, version)
);
CREATE TABLE products (
    run TEXT NOT NULL,
    version INTEGER NOT NULL,
    name TEXT NOT NULL,
    content BLOB NOT NULL,
    PRIMARY KEY (run, version, name),
    FOREIGN KEY (run, version) REFERENCES results (run, version)
);
CREATE TABLE rounds (
    number INTEGER PRIMARY KEY,
    run TEXT NOT NULL,
    version INTEGER NOT NULL,
    made REAL NOT NULL,
    facts TEXT NOT NULL,  -- the pools proposed after a version, as JSON
    FOREIGN KEY (run, version) REFERENCES submissions (run, version)
);
CREATE TABLE trail (
    number INTEGER PRIMARY KEY,
    made REAL NOT NULL,
    run TEXT,
    what TEXT NOT NULL,
    detail TEXT NOT NULL
);
"""
# Sheets that were refused: the last few of each run, and how many there were. What never was a version need not be
# kept, and a program that sends the same wrong file all day must not fill the disk. Earlier files get the table, too.
REFUSED_TABLE = """
CREATE TABLE IF NOT EXISTS refused (
    number INTEGER PRIMARY KEY,
    made REAL NOT NULL,
    run TEXT NOT NULL,
    before INTEGER NOT NULL,  -- how many of the run were refused earlier
    detail TEXT NOT NULL
);
"""
KEPT_TABLES = ("runs", "files", "submissions", "results", "products", "rounds", "trail")
REFUSED_CHANGES = "".join(
    f"CREATE TRIGGER {table}_{verb} BEFORE {verb} ON {table} BEGIN SELECT RAISE(ABORT, '{table} are kept'); END;\n"
    for table in KEPT_TABLES
    for verb in ("UPDATE", "DELETE")
)


def prepare(db: sqlite3.Connection) -> None:
    """Make the tables, or see that the file is ours."""
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("BEGIN IMMEDIATE")  # of two servers that start together one makes the tables
    (ours,), (made,) = (db.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version"))
    if (ours, made) == (0, 0) and not db.execute("SELECT 1 FROM sqlite_master").fetchone():
        for statement in _statements(PAGE_TABLES + REFUSED_CHANGES):
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {PAGE_APPLICATION}")
        db.execute(f"PRAGMA user_version = {PAGE_SCHEMA}")
    elif (ours, made) != (PAGE_APPLICATION, PAGE_SCHEMA):
        raise sqlite3.DatabaseError("another program or another version of qgt made it")
    db.execute(REFUSED_TABLE)
    db.execute("COMMIT")


def _statements(script: str) -> Iterator[str]:
    """The statements of a script, whose triggers hold semicolons of their own."""
    text = ""
    for line in script.splitlines():
        text += line + "\n"
        if sqlite3.complete_statement(text):
            yield text
            text = ""


# The store.

REFUSED_EVENT = "counts refused"
REFUSALS_KEPT = 5  # sheets that were refused and are kept, of each run
PAGE_PATIENCE = 30.0  # seconds to wait for another transaction


@dataclass(frozen=True)
class StoredRun:
    """A plan, with how far it got."""

    id: str
    made: float
    name: str
    kind: str
    versions: int  # submissions of counts
    decoded: int  # of them with a result
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Submission:
    """One version of a run's counts."""

    run: str
    version: int
    made: float
    way: str
    note: str
    counts: Mapping[str, Any]  # names, pools, values (None where one is missing), notes


@dataclass(frozen=True)
class Event:
    """A line of the audit trail."""

    made: float
    run: str | None
    what: str
    detail: str


@dataclass(frozen=True)
class PageStore:
    """The file; every call opens it anew, so any thread may call.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = PageStore.open(Path(folder))
        ...     run = store.add_run("Monday", "plan", {"samples": 96}, {"problem.toml": b""})
        ...     version = store.submit(run, "typed", "", b"1", {"values": [[1.0]]})
        ...     store.runs()[0].name, version, [event.what for event in store.trail(run)]
        ('Monday', 1, ['run made', 'counts entered'])
    """

    path: Path

    @classmethod
    def open(cls, folder: Path) -> "PageStore":
        """The store of a folder, made where it is not there yet."""
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise ValueError(f"{folder}: cannot be made a folder ({error.strerror}); give another path.") from error
        store = cls(folder / "runs.db")
        try:
            with store._reading() as db:
                prepare(db)
        except sqlite3.Error as error:
            raise ValueError(f"{store.path}: cannot be used ({error}); give another folder.") from error
        return store

    def key(self) -> bytes:
        """What the server's words are derived from: made once, so that forms outlive a restart."""
        with self._writing() as db:
            db.execute("INSERT OR IGNORE INTO keys VALUES ('secret', ?)", (secrets.token_bytes(32),))
            return bytes(db.execute("SELECT value FROM keys WHERE name = 'secret'").fetchone()[0])

    def add_run(self, name: str, kind: str, facts: Mapping[str, object], files: Mapping[str, bytes]) -> str:
        """Keep a plan with its files; the run's id is ours, never the client's."""
        run = secrets.token_hex(8)
        with self._writing() as db:
            db.execute(
                "INSERT INTO runs (id, made, name, kind, facts) VALUES (?, ?, ?, ?, ?)",
                (run, time.time(), name, kind, _json(facts)),
            )
            db.executemany("INSERT INTO files VALUES (?, ?, ?)", [(run, *file) for file in files.items()])
            _note(db, run, "run made", name)
        return run

    def submit(self, run: str, way: str, note: str, source: bytes, counts: Mapping[str, object]) -> int:
        """Keep a sheet of counts as the run's next version; it is on the disk when this returns."""
        with self._writing() as db:
            (last,) = db.execute("SELECT COALESCE(MAX(version), 0) FROM submissions WHERE run = ?", (run,)).fetchone()
            version = int(last) + 1
            db.execute(
                "INSERT INTO submissions VALUES (?, ?, ?, ?, ?, ?, ?)",
                (run, version, time.time(), way, note, source, _json(counts)),
            )
            rounds = counts.get("rounds") if way == "follow-up" else None
            if isinstance(rounds, list):
                _note(db, run, "follow-up counts entered", f"round {len(rounds) + 1}, as version {version}")
            else:
                what = "counts entered" if version == 1 else "counts corrected"
                _note(db, run, what, f"version {version}, {way}" + (f": {note}" if note else ""))
        return version

    def add_result(self, run: str, version: int, facts: Mapping[str, object], products: Mapping[str, bytes]) -> None:
        """Keep what was made of a version; where another worker was quicker, its result stays."""
        with self._writing() as db:
            row = (run, version, time.time(), _json(facts))
            if not db.execute("INSERT OR IGNORE INTO results VALUES (?, ?, ?, ?)", row).rowcount:
                return
            rows = [(run, version, *product) for product in products.items()]
            db.executemany("INSERT INTO products VALUES (?, ?, ?, ?)", rows)
            _note(db, run, "counts decoded", f"version {version}")

    def add_round(self, run: str, version: int, facts: Mapping[str, object]) -> None:
        """Keep the pools that are proposed after a version."""
        with self._writing() as db:
            row = (run, version, time.time(), _json(facts))
            db.execute("INSERT INTO rounds (run, version, made, facts) VALUES (?, ?, ?, ?)", row)
            _note(db, run, "follow-up proposed", f"after version {version}")

    def refuse(self, run: str, detail: str) -> None:
        """Keep that counts were refused, and why; of a run's earlier ones, only the last few stay."""
        with self._writing() as db:
            last = db.execute("SELECT MAX(before) FROM refused WHERE run = ?", (run,)).fetchone()[0]
            row = (time.time(), run, 0 if last is None else last + 1, detail[:1000])
            db.execute("INSERT INTO refused (made, run, before, detail) VALUES (?, ?, ?, ?)", row)
            db.execute("DELETE FROM refused WHERE run = ? AND before <= ?", (run, row[2] - REFUSALS_KEPT))

    def note(self, run: str | None, what: str, detail: str) -> None:
        """Add a line to the audit trail."""
        with self._writing() as db:
            _note(db, run, what, detail)

    def runs(self, most: int = 200) -> list[StoredRun]:
        """Past runs, newest first."""
        return self._runs("ORDER BY number DESC LIMIT ?", most)

    def run(self, run: str) -> StoredRun | None:
        """One run; None where there is none of that id."""
        return next(iter(self._runs("WHERE id = ?", run)), None)

    def file(self, run: str, name: str) -> bytes | None:
        """A file of a run's plan."""
        found: bytes | None = self._content("SELECT content FROM files WHERE run = ? AND name = ?", run, name)
        return found

    def files(self, run: str) -> dict[str, bytes]:
        """All files of a run's plan."""
        with self._reading() as db:
            return dict(db.execute("SELECT name, content FROM files WHERE run = ? ORDER BY name", (run,)).fetchall())

    def submission(self, run: str, version: int) -> Submission | None:
        """One version of a run's counts; version 0 is the newest."""
        clause = "AND version = ?" if version else "AND ? = 0 ORDER BY version DESC LIMIT 1"
        return next(iter(self._submissions(run, clause, version)), None)

    def submissions(self, run: str) -> list[Submission]:
        """Every version of a run's counts, newest first."""
        return self._submissions(run, "AND version > ? ORDER BY version DESC", 0)

    def _submissions(self, run: str, clause: str, value: int) -> list[Submission]:
        query = f"SELECT version, made, way, note, counts FROM submissions WHERE run = ? {clause}"
        with self._reading() as db:
            rows = db.execute(query, (run, value)).fetchall()
        return [Submission(run, *row) for row in map(_with_facts, rows)]

    def source(self, run: str, version: int) -> bytes | None:
        """A version's counts as they came."""
        query = "SELECT source FROM submissions WHERE run = ? AND version = ?"
        found: bytes | None = self._content(query, run, version)
        return found

    def result(self, run: str, version: int) -> dict[str, Any] | None:
        """What was made of a version; None before it is decoded."""
        found = self._content("SELECT facts FROM results WHERE run = ? AND version = ?", run, version)
        return None if found is None else json.loads(found)

    def verdicts(self, run: str) -> dict[int, dict[str, int]]:
        """How many answers of each version have each verdict."""
        with self._reading() as db:
            query = "SELECT version, json_extract(facts, '$.verdicts') FROM results WHERE run = ?"
            return {version: json.loads(found) for version, found in db.execute(query, (run,))}

    def newest_verdicts(self) -> dict[str, dict[str, int]]:
        """The same of each run's newest version, where it is decoded."""
        newest = "SELECT run, MAX(version) FROM submissions GROUP BY run"
        query = f"SELECT run, json_extract(facts, '$.verdicts') FROM results WHERE (run, version) IN ({newest})"
        with self._reading() as db:
            return {run: json.loads(found) for run, found in db.execute(query)}

    def product(self, run: str, version: int, name: str) -> bytes | None:
        """A file that was made of a version."""
        query = "SELECT content FROM products WHERE run = ? AND version = ? AND name = ?"
        found: bytes | None = self._content(query, run, version, name)
        return found

    def product_names(self, run: str, version: int) -> set[str]:
        """The names of the files that were made of a version."""
        with self._reading() as db:
            query = "SELECT name FROM products WHERE run = ? AND version = ?"
            return {name for (name,) in db.execute(query, (run, version))}

    def rounds(self, run: str, version: int) -> list[dict[str, Any]]:
        """All that was ever proposed after a version, newest first."""
        with self._reading() as db:
            query = "SELECT facts FROM rounds WHERE run = ? AND version = ? ORDER BY number DESC"
            return [json.loads(facts) for (facts,) in db.execute(query, (run, version))]

    def trail(self, run: str | None = None) -> list[Event]:
        """What happened, oldest first: of one run, or of all."""
        with self._reading() as db:
            where, values = ("", ()) if run is None else ("WHERE run = ?", (run,))
            rows = db.execute(f"SELECT made, run, what, detail FROM trail {where} ORDER BY number", values).fetchall()
            query = f"SELECT made, run, before, detail FROM refused {where} ORDER BY number"
            refused = db.execute(query, values).fetchall()
        # Earlier versions of qgt kept refusals in the trail itself.
        kept = [Event(*row) for row in rows if row[2] != REFUSED_EVENT]
        old = [Event(*row) for row in rows if row[2] == REFUSED_EVENT]
        return sorted([*kept, *_folded(old, refused)], key=lambda event: event.made)

    def _runs(self, clause: str, value: object) -> list[StoredRun]:
        of_run = "(SELECT COUNT(*) FROM {} WHERE run = id)"
        columns = f"id, made, name, kind, {of_run.format('submissions')}, {of_run.format('results')}, facts"
        with self._reading() as db:
            rows = db.execute(f"SELECT {columns} FROM runs {clause}", (value,)).fetchall()
        return [StoredRun(*row) for row in map(_with_facts, rows)]

    def _content(self, query: str, *values: object) -> Any:
        with self._reading() as db:
            row = db.execute(query, values).fetchone()
        return None if row is None else row[0]

    def _connected(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=PAGE_PATIENCE, isolation_level=None)
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA foreign_keys = ON")
        return db

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with closing(self._connected()) as db:
            yield db

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction, on the disk when it is left."""
        with closing(self._connected()) as db:
            db.execute("BEGIN IMMEDIATE")
            yield db  # closing without a commit takes it all back
            db.execute("COMMIT")


def _folded(old: Sequence[Event], refused: Sequence[tuple[float, str, int, str]]) -> list[Event]:
    """The last refusals of each run, the first of them with how many there were before."""
    events: dict[str | None, list[Event]] = {}
    gone: dict[str | None, int] = {}
    for made, run, before, detail in refused:
        gone.setdefault(run, before)
        events.setdefault(run, []).append(Event(made, run, REFUSED_EVENT, detail))
    for event in reversed(old):
        events.setdefault(event.run, []).insert(0, event)
    for owner, all_of_run in events.items():
        left = max(0, len(all_of_run) - REFUSALS_KEPT)
        del all_of_run[:left]
        if earlier := gone.get(owner, 0) + left:
            all_of_run.insert(0, Event(all_of_run[0].made, owner, REFUSED_EVENT, f"{earlier} earlier, not listed"))
    return [event for all_of_run in events.values() for event in all_of_run]


def _with_facts(row: Sequence[Any]) -> list[Any]:
    """A row whose last cell is JSON, read."""
    return [*row[:-1], json.loads(row[-1])]


def _note(db: sqlite3.Connection, run: str | None, what: str, detail: str) -> None:
    db.execute("INSERT INTO trail (made, run, what, detail) VALUES (?, ?, ?, ?)", (time.time(), run, what, detail))


def _json(value: object) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False)
