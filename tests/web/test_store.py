"""The store keeps what it acknowledged: through corrections, through threads, and through a kill."""

import signal
import sqlite3
import subprocess
import sys
import threading

import pytest

from qgt.web.store import KEPT_TABLES, PageStore

KILLED = """
import sys
from pathlib import Path
from qgt.web.store import PageStore
store = PageStore.open(Path(sys.argv[1]))
run = store.runs()[0].id
number = 0
while True:
    number += 1
    store.submit(run, "typed", "", b"source", {"values": [[float(number)]]})
    print(number, flush=True)  # acknowledged
"""


@pytest.fixture
def store(tmp_path):
    return PageStore.open(tmp_path)


def test_versions_count_up_and_none_is_lost(store):
    run = store.add_run("a", "plan", {}, {"x.csv": b"1"})
    assert [store.submit(run, "typed", "", b"%d" % n, {"values": [[n]]}) for n in range(3)] == [1, 2, 3]
    assert [one.counts["values"] for one in store.submissions(run)] == [[[2]], [[1]], [[0]]]
    assert store.source(run, 2) == b"1"
    assert store.run(run).versions == 3
    assert [event.what for event in store.trail(run)] == ["run made", "counts entered", *["counts corrected"] * 2]


def test_runs_are_listed_newest_first(store):
    for name in "abc":
        store.add_run(name, "plan", {}, {})
    assert [run.name for run in store.runs()] == ["c", "b", "a"]
    assert [run.name for run in store.runs(most=2)] == ["c", "b"]


@pytest.mark.parametrize("table", KEPT_TABLES)
@pytest.mark.parametrize("verb", ["UPDATE {} SET made = 0", "DELETE FROM {}"])
def test_the_database_itself_refuses_to_forget(store, table, verb):
    run = store.add_run("a", "plan", {}, {"x": b""})
    store.add_result(run, store.submit(run, "typed", "", b"", {}), {}, {"y": b""})
    store.add_round(run, 1, {})
    if table in ("files", "products"):
        verb = verb.replace("made = 0", "content = 0")
    with sqlite3.connect(store.path) as db, pytest.raises(sqlite3.IntegrityError, match="are kept"):
        db.execute(verb.format(table))
    db.close()


def test_files_of_earlier_versions_get_their_refusals_folded(store, tmp_path):
    run = store.add_run("a", "plan", {}, {})
    with sqlite3.connect(store.path) as db:
        db.execute("DROP TABLE refused")  # as a file of an earlier version is
    db.close()
    for number in range(9):
        store.note(run, "counts refused", f"old {number}")
    again = PageStore.open(tmp_path)
    assert [event.detail for event in again.trail(run)][1:] == [
        "4 earlier, not listed",
        *(f"old {n}" for n in range(4, 9)),
    ]
    for number in range(9):
        again.refuse(run, f"new {number}")
    said = [event.detail for event in again.trail(run)][1:]
    assert said == ["13 earlier, not listed", *(f"new {n}" for n in range(4, 9))]
    with sqlite3.connect(store.path) as db:
        assert db.execute("SELECT COUNT(*) FROM refused").fetchone() == (5,)
    db.close()


def test_a_result_is_kept_once_and_with_all_its_files(store):
    run = store.add_run("a", "plan", {}, {})
    store.submit(run, "typed", "", b"", {})
    assert store.result(run, 1) is None
    store.add_result(run, 1, {"n": 1}, {"report.html": b"first"})
    store.add_result(run, 1, {"n": 2}, {"report.html": b"second"})
    assert store.result(run, 1) == {"n": 1}
    assert store.product(run, 1, "report.html") == b"first"
    assert store.product(run, 2, "report.html") is None


def test_a_result_without_counts_is_refused_whole(store):
    run = store.add_run("a", "plan", {}, {})
    with pytest.raises(sqlite3.IntegrityError):
        store.add_result(run, 7, {}, {})
    assert len(store.trail(run)) == 1


def test_many_threads_submit_without_losing_a_version(store):
    run = store.add_run("a", "plan", {}, {})
    got = []

    def work():
        got.extend(store.submit(run, "typed", "", b"", {}) for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == list(range(1, 41)) == sorted(one.version for one in store.submissions(run))


def test_the_key_outlives_a_restart(store, tmp_path):
    assert store.key() == PageStore.open(tmp_path).key()
    assert len(store.key()) == 32


def test_a_file_of_another_program_is_refused(tmp_path):
    with sqlite3.connect(tmp_path / "runs.db") as db:
        db.execute("CREATE TABLE mine (x)")
    db.close()
    with pytest.raises(ValueError, match=r"runs\.db: cannot be used \(another program"):
        PageStore.open(tmp_path)
    (tmp_path / "runs.db").write_text("not a database at all" * 100)
    with pytest.raises(ValueError, match=r"cannot be used \(file is not a database"):
        PageStore.open(tmp_path)


def test_what_was_acknowledged_outlives_a_kill(store, tmp_path):
    run = store.add_run("a", "plan", {}, {})
    for _ in range(3):
        before = len(store.submissions(run))
        process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        lines = [process.stdout.readline() for _ in range(5)]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
        process.stdout.close()
        process.wait()
        acknowledged = int([line for line in lines if line.endswith("\n")][-1])
        kept = [one.counts["values"][0][0] for one in store.submissions(run)][: len(store.submissions(run)) - before]
        assert acknowledged >= 5
        assert set(range(1, acknowledged + 1)) <= set(kept)
