"""The store: rows that stay, once each, in a file that is ours."""

import os
import sqlite3
import tempfile
import traceback
import zlib
from contextlib import closing
from pathlib import Path

import pytest
import torch

import qgt
from qgt.study.store import Reading, Row, StudyStore


def row(batch=0, task="a", successes=3):
    x = torch.ones(10, 5, dtype=torch.uint8)
    calls = x.clone()
    calls[successes:, 0] = 0
    return Row(task, batch, qgt.outcomes(x, calls), {"OK": 10}, 0.25, {"device": "x"})


def reading(estimator="regression", probes=100, wrong=3):
    return Reading("a", estimator, probes, wrong, 60, 0.5, {"device": "x"})


def test_a_row_comes_back_as_it_went_in(tmp_path):
    with StudyStore(tmp_path / "deep" / "study.db") as store:
        for batch in (2, 0):
            store.add(row(batch))
        store.add(row(task="b"))
    with StudyStore(tmp_path / "deep" / "study.db", reading=True) as store:
        assert list(store.rows("a")) == [row(0), row(2)]
        assert list(store.rows("c")) == []
    assert (row().instances, row().failures) == (10, 7)


def test_a_row_is_written_once(tmp_path):
    with StudyStore(tmp_path / "study.db") as store:
        store.add(row(successes=3))
        store.add(row(successes=4))
        assert list(store.rows("a")) == [row(successes=3)]


def test_every_row_is_synced_before_it_is_acknowledged(tmp_path):
    with StudyStore(tmp_path / "study.db") as store, closing(sqlite3.connect(tmp_path / "study.db")) as other:
        ask = store._connection.execute
        assert ask("PRAGMA journal_mode").fetchone() == ("wal",)
        assert ask("PRAGMA synchronous").fetchone() == (2,)
        store.add(row())
        assert other.execute("SELECT count(*) FROM rows").fetchone() == (1,)


@pytest.mark.parametrize("text", ["not a database, but long enough to have a header" * 9, "pools,1\n" * 200])
def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path, text):
    path = tmp_path / "study.db"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"study\.db: cannot be used .* give another path"):
        StudyStore(path)
    assert path.read_text() == text


def test_databases_of_others_and_of_later_versions_are_refused(tmp_path):
    path = tmp_path / "study.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE rows (x)")
    with pytest.raises(ValueError, match="another program"):
        StudyStore(path)
    path.unlink()
    with StudyStore(path) as store:
        store._connection.execute("PRAGMA user_version = 1")
    for options in ({}, {"reading": True}):
        with pytest.raises(
            ValueError, match=r"study\.db: has format 1, and this version of qgt uses format 3; give another"
        ):
            StudyStore(path, **options)


def test_reading_needs_a_file(tmp_path):
    with pytest.raises(ValueError, match="no results yet; run the study"):
        StudyStore(tmp_path / "absent.db", reading=True)
    with pytest.raises(ValueError, match="cannot be used"):
        StudyStore(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_readings_come_back_and_are_written_once(tmp_path):
    with StudyStore(tmp_path / "study.db") as store:
        for one in (reading(), reading(wrong=4), reading(probes=50), reading("least_squares")):
            store.add(one)
        assert list(store.readings("a")) == [reading("least_squares"), reading(probes=50), reading()]
        assert list(store.readings("b")) == []
        store.add(row())
        assert store.count() == 1


def test_reading_changes_nothing_not_even_beside_the_file(tmp_path):
    path = tmp_path / "study.db"
    with StudyStore(path) as store:
        store.add(row())
    before = path.read_bytes()
    with StudyStore(path, reading=True) as store:
        assert list(store.rows("a")) == [row()]
        assert [file.name for file in tmp_path.iterdir()] == ["study.db"]
        with pytest.raises(ValueError, match="readonly"):
            store.add(row(1))
    assert path.read_bytes() == before


def test_rows_are_read_while_another_process_writes_them(tmp_path):
    with StudyStore(tmp_path / "study.db") as writer:
        writer.add(row())
        with StudyStore(tmp_path / "study.db", reading=True) as reader:  # the row is in the log beside the file
            assert list(reader.rows("a")) == [row()]


def as_nobody(work) -> int:
    """Do something in a process that has no rights, and return its exit code: root may write anywhere."""
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_folder_that_cannot_be_written_is_read():
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.db"
        with StudyStore(path) as store:
            store.add(row())
        Path(folder).chmod(0o555)
        path.chmod(0o444)

        def read() -> None:
            with pytest.raises(OSError, match="denied"):
                (Path(folder) / "another").touch()
            with StudyStore(path, reading=True) as store:
                assert list(store.rows("a")) == [row()]

        assert as_nobody(read) == 0
        Path(folder).chmod(0o755)


@pytest.mark.parametrize(
    "change",
    [
        "statuses = 'not JSON'",
        "statuses = '[1]'",
        "statuses = x'00'",
        "outcomes = x'00'",
        "outcomes = 'text'",
        "items = 'many'",
        "seconds = 'long'",
        "provenance = '7'",
    ],
)
def test_a_damaged_row_is_named(tmp_path, change):
    path = tmp_path / "study.db"
    with StudyStore(path) as store:
        store.add(row())
        store._connection.execute(f"UPDATE rows SET {change}")
    with (
        StudyStore(path, reading=True) as store,
        pytest.raises(ValueError, match=r"study\.db: batch 0 of task a is damaged"),
    ):
        list(store.rows("a"))


def test_outcomes_of_half_an_instance_are_damage(tmp_path):
    path = tmp_path / "study.db"
    with StudyStore(path) as store:
        store.add(row())
        store._connection.execute("UPDATE rows SET outcomes = ?", (zlib.compress(bytes(13)),))
        with pytest.raises(ValueError, match=r"damaged \(packed has 13 bytes"):
            list(store.rows("a"))


def test_a_table_of_other_columns_is_named(tmp_path):
    path = tmp_path / "study.db"
    with StudyStore(path) as store:
        store._connection.execute("ALTER TABLE rows DROP COLUMN seconds")
        with pytest.raises(ValueError, match=r"study\.db: cannot be used .*seconds"):
            list(store.rows("a"))
