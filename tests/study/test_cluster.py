"""Studies on a Dask cluster: the same counts as here, and nothing lost or doubled when workers or schedulers die."""

import contextlib
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from studies import NETWORK, small

import qgt
from qgt.study import Study, run_study
from qgt.study.cluster import check_address
from qgt.study.store import Store

dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
# Dask's own threads, sockets and event loops are not closed to the letter of Python's warnings.
pytestmark = pytest.mark.filterwarnings("ignore")


def rows(study: Study, db: Path) -> dict[tuple[str, int], object]:
    """All that was counted, but for times and machines; a row that is there twice is an error."""
    found: dict[tuple[str, int], object] = {}
    with Store(db) as store:
        for task in dict.fromkeys(study.tasks):
            for row in store.rows(task.key):
                assert (task.key, row.batch) not in found
                found[task.key, row.batch] = (row.score, row.statuses)
    return found


@contextlib.contextmanager
def cluster(**changes: object):
    options = {"n_workers": 1, "threads_per_worker": 2, "processes": False, "dashboard_address": None, **changes}
    with distributed.LocalCluster(host="127.0.0.1", **options) as made:
        yield made


def test_the_counts_are_those_of_one_process(tmp_path: Path) -> None:
    """With a network, which travels by content: the workers never see this folder."""
    study = Study.from_plain(small(decoders={**small()["decoders"], "net": NETWORK}))
    run_study(study, tmp_path / "here.db", networks=tmp_path / "networks")
    with cluster(protocol="tcp") as made:
        run_study(study, tmp_path / "there.db", networks=tmp_path / "networks", scheduler=made.scheduler_address)
    here = rows(study, tmp_path / "here.db")
    assert here == rows(study, tmp_path / "there.db")
    assert len(here) == 2 * 2 * 3 * 3


def test_a_dead_workers_jobs_are_done_again(tmp_path: Path) -> None:
    study = Study.from_plain(small(instances=200, batch=10))
    run_study(study, tmp_path / "here.db")
    killed = []
    with cluster(processes=True, threads_per_worker=1, n_workers=2) as made:

        def kill(progress: qgt.StudyProgress) -> None:
            if progress.row is not None and progress.done == 5:
                worker = next(iter(made.workers.values()))
                os.kill(worker.pid, signal.SIGKILL)
                killed.append(worker.pid)

        run_study(study, tmp_path / "there.db", scheduler=made.scheduler_address, on_progress=kill)
    assert len(killed) == 1
    assert rows(study, tmp_path / "here.db") == rows(study, tmp_path / "there.db")


def test_a_dead_scheduler_loses_nothing_that_was_written(tmp_path: Path) -> None:
    study = Study.from_plain(small(instances=2000, batch=10))
    written: list[tuple[str, int]] = []
    made = distributed.LocalCluster(
        host="127.0.0.1", n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address=None
    )

    def stop(progress: qgt.StudyProgress) -> None:
        if progress.row is not None:
            written.append((progress.row.task, progress.row.batch))
            if len(written) == 20:
                threading.Thread(target=made.close, daemon=True).start()
                time.sleep(0.5)

    impatient = dask.config.set({"distributed.comm.timeouts.connect": "1s"})
    with impatient, pytest.raises(ValueError, match="is gone"):
        run_study(study, tmp_path / "study.db", scheduler=made.scheduler_address, on_progress=stop)
    there = rows(study, tmp_path / "study.db")
    assert len(written) >= 20
    assert set(there) == set(written)


def test_an_error_says_which_task_it_befell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = Study.from_plain(small())

    def fail(job: object) -> None:
        raise ValueError("it does not work.")

    monkeypatch.setattr("qgt.study.cluster.decode_batch", fail)
    with cluster(protocol="tcp") as made, pytest.raises(ValueError, match=r"AMP.*batch \d+: it does not work"):
        run_study(study, tmp_path / "study.db", scheduler=made.scheduler_address)


@pytest.mark.parametrize("address", ["tcp://10.0.0.1:8786", "tcp://head:8786", "head:8786", "tcp://", "http://[::1]:1"])
def test_addresses_that_strangers_could_use_are_refused(address: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="scheduler="):
        run_study(Study.from_plain(small()), tmp_path / "study.db", scheduler=address)
    assert not (tmp_path / "study.db").exists()


@pytest.mark.parametrize("address", ["tls://head:8786", "tcp://localhost:1", "tcp://[::1]:8786", "inproc://1/2/3"])
def test_addresses_that_they_could_not_are_taken(address: str) -> None:
    assert check_address(address) == address


def test_a_scheduler_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qgt.study.cluster.WAIT", 1.0)
    with pytest.raises(ValueError, match="does not answer"):
        run_study(Study.from_plain(small()), tmp_path / "study.db", scheduler="tcp://127.0.0.1:1")
