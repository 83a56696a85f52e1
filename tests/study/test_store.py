"""The store: rows that stay, once each, in a file that is ours."""

import sqlite3
from contextlib import closing

import pytest

import qgt
from qgt.study.store import Row, Store


def row(batch=0, task="a", successes=3):
    score = qgt.Score(5, {(1, 0, 0): successes, (1, 0, 1): 10 - successes})
    return Row(task, batch, score, {"OK": 10}, 0.25, {"device": "x"})


def test_a_row_comes_back_as_it_went_in(tmp_path):
    with Store(tmp_path / "deep" / "study.db") as store:
        for batch in (2, 0):
            store.add(row(batch))
        store.add(row(task="b"))
    with Store(tmp_path / "deep" / "study.db", create=False) as store:
        assert list(store.rows("a")) == [row(0), row(2)]
        assert list(store.rows("c")) == []
    assert (row().instances, row().failures) == (10, 7)


def test_a_row_is_written_once(tmp_path):
    with Store(tmp_path / "study.db") as store:
        store.add(row(successes=3))
        store.add(row(successes=4))
        assert list(store.rows("a")) == [row(successes=3)]


def test_every_row_is_synced_before_it_is_acknowledged(tmp_path):
    with Store(tmp_path / "study.db") as store, closing(sqlite3.connect(tmp_path / "study.db")) as other:
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
        Store(path)
    assert path.read_text() == text


def test_databases_of_others_and_of_later_versions_are_refused(tmp_path):
    path = tmp_path / "study.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE rows (x)")
    with pytest.raises(ValueError, match="another program"):
        Store(path)
    path.unlink()
    with Store(path) as store:
        store._connection.execute("PRAGMA user_version = 2")
    with pytest.raises(ValueError, match="format 2"):
        Store(path)


def test_reading_needs_a_file(tmp_path):
    with pytest.raises(ValueError, match="no results yet; run the study"):
        Store(tmp_path / "absent.db", create=False)
    with pytest.raises(ValueError, match="cannot be used"):
        Store(tmp_path)
    assert list(tmp_path.iterdir()) == []
