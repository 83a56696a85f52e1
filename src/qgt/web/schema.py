"""The tables of the store, and the rules that the database itself keeps: what is written stays as it is."""

import sqlite3
from collections.abc import Iterator

APPLICATION, SCHEMA = 0x71677402, 1  # "qgt", 2: marks the file as ours
TABLES = """
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
REFUSED = """
CREATE TABLE IF NOT EXISTS refused (
    number INTEGER PRIMARY KEY,
    made REAL NOT NULL,
    run TEXT NOT NULL,
    before INTEGER NOT NULL,  -- how many of the run were refused earlier
    detail TEXT NOT NULL
);
"""
KEPT = ("runs", "files", "submissions", "results", "products", "rounds", "trail")
REFUSALS = "".join(
    f"CREATE TRIGGER {table}_{verb} BEFORE {verb} ON {table} BEGIN SELECT RAISE(ABORT, '{table} are kept'); END;\n"
    for table in KEPT
    for verb in ("UPDATE", "DELETE")
)


def prepare(db: sqlite3.Connection) -> None:
    """Make the tables, or see that the file is ours."""
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("BEGIN IMMEDIATE")  # of two servers that start together one makes the tables
    (ours,), (made,) = (db.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version"))
    if (ours, made) == (0, 0) and not db.execute("SELECT 1 FROM sqlite_master").fetchone():
        for statement in _statements(TABLES + REFUSALS):
            db.execute(statement)
        db.execute(f"PRAGMA application_id = {APPLICATION}")
        db.execute(f"PRAGMA user_version = {SCHEMA}")
    elif (ours, made) != (APPLICATION, SCHEMA):
        raise sqlite3.DatabaseError("another program or another version of qgt made it")
    db.execute(REFUSED)
    db.execute("COMMIT")


def _statements(script: str) -> Iterator[str]:
    """The statements of a script, whose triggers hold semicolons of their own."""
    text = ""
    for line in script.splitlines():
        text += line + "\n"
        if sqlite3.complete_statement(text):
            yield text
            text = ""
