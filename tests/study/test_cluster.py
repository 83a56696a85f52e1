"""Studies on a Dask cluster: the same counts as here, and nothing lost or doubled when workers or schedulers die."""

import contextlib
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from studies import NETWORK, small

import qgt
import qgt.study.cluster as cluster_module
from qgt.decoders.neural.decoder import load
from qgt.decoders.neural.record import Epoch
from qgt.paper import Counts, PaperPlan, ResidualNetworks, Scale, reproduce
from qgt.paper.plan import PAPERS
from qgt.study import Study, run_study
from qgt.study.cluster import check_address, train_on_cluster
from qgt.study.networks import NetworkTraining, network_path, unpack_network, unpacked, weights_digest
from qgt.study.store import StudyStore

dask, distributed = pytest.importorskip("dask"), pytest.importorskip("distributed")
# Dask's own threads, sockets and event loops are not closed to the letter of Python's warnings.
pytestmark = pytest.mark.filterwarnings("ignore")


TINY = Scale(
    "tiny",
    pools=(12,),
    noise=(0.2,),
    designs=2,
    instances=20,
    batch=20,
    training={"instances": 200, "validation": 50, "batch": 100, "epochs": 1},
    residual=ResidualNetworks(8, 1, {"steps": 5, "batch": 32, "validation": 50}, pools=(12,)),
    levels=(1,),
    level_designs=1,
    probes=20,
    items=20,
    fixed_pools=12,
    defectives=1,
    time_limit=5.0,
)


def rows(study: Study, db: Path) -> dict[tuple[str, int], object]:
    """All that was counted, but for times and machines; a row that is there twice is an error."""
    found: dict[tuple[str, int], object] = {}
    with StudyStore(db) as store:
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


def networks(folder: Path) -> dict[str, str]:
    """The networks of a folder: the hash of each one's weights, by name."""
    found = [path for path in folder.iterdir() if path.name != "locks"]
    return {path.name: weights_digest(load(path)) for path in found}


def test_networks_and_counts_are_those_of_one_process(tmp_path: Path) -> None:
    """Networks are trained by workers and travel by content: the workers never see these folders."""
    study = Study.from_plain(small(decoders={**small()["decoders"], "net": NETWORK, "same": {**NETWORK, "batch": 10}}))
    run_study(study, tmp_path / "here.db")
    told: list[str] = []
    with cluster(protocol="tcp") as made:
        address = made.scheduler_address
        run_study(study, tmp_path / "there.db", scheduler=address, on_progress=lambda p: told.append(p.doing))
    here = rows(study, tmp_path / "here.db")
    assert here == rows(study, tmp_path / "there.db")
    assert len(here) == 2 * 2 * (3 * 3 + 6)
    trained = networks(tmp_path / "here.networks")
    assert trained == networks(tmp_path / "there.networks")
    assert len(trained) == 4  # the two decoders share them
    assert sum("done, " in doing for doing in told) == 4 and "4 of 4" in " ".join(told)


def test_stacks_and_the_paper_are_those_of_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qgt.paper.running.draw", lambda counts, folder: None)  # figures take longer than all the rest
    reproduce(tmp_path / "here", TINY)
    tasks = [task for task in PaperPlan.of(TINY).tasks if task.entry.name == PAPERS]
    stack = NetworkTraining(tuple(tasks), "cpu", stacked=True)
    stack.run(tmp_path / "stack")
    with cluster(protocol="tcp") as made:
        reproduce(tmp_path / "there", TINY, scheduler=made.scheduler_address)
        assert list(train_on_cluster([stack], tmp_path / "sent", made.scheduler_address)) == [stack]
    assert networks(tmp_path / "stack") == networks(tmp_path / "sent") and len(tasks) > 1
    here, there = (Counts.load(tmp_path / name / "counts.json") for name in ("here", "there"))
    for part in ("vs_pools", "vs_noise", "complexity"):
        one, other = ([replace(result, seconds=0.0) for result in getattr(c, part)] for c in (here, there))
        assert one == other


def test_a_dead_workers_jobs_are_done_again(tmp_path: Path) -> None:
    study = Study.from_plain(small(instances=60, batch=10))
    run_study(study, tmp_path / "here.db")
    killed = []
    with cluster(processes=True, threads_per_worker=1, n_workers=1) as made:  # another one takes its place

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


def test_a_training_that_nobody_waits_for_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C here must not leave a worker busy for hours."""
    epochs: list[int] = []
    check = cluster_module._stop_if_unwanted

    def checked(epoch: Epoch) -> None:
        epochs.append(epoch.number)
        time.sleep(0.01)
        check(epoch)

    monkeypatch.setattr(cluster_module, "_stop_if_unwanted", checked)
    long = {**NETWORK, "train": {**NETWORK["train"], "epochs": 100_000, "patience": 100_000}}
    task = Study.from_plain(small(decoders={"net": long})).tasks[0]
    with cluster(protocol="tcp") as made:

        def interrupt() -> None:
            while len(epochs) < 3:
                time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)

        training = NetworkTraining((task,), "cpu", stacked=False)
        # A shell starts what it runs in the background with Ctrl-C ignored, and a test run waited here for ever.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            list(train_on_cluster([training], tmp_path, made.scheduler_address))
        signal.signal(signal.SIGINT, before)
        deadline = time.monotonic() + 10
        while (seen := len(epochs)) and time.monotonic() < deadline:
            time.sleep(0.3)
            if len(epochs) == seen:
                break
        assert len(epochs) == seen < 100_000
    assert not network_path(tmp_path, task).exists()


def test_an_error_in_training_says_whose(tmp_path: Path) -> None:
    """Here: of a worker without a GPU."""
    study = Study.from_plain(small(decoders={"net": NETWORK}))
    if torch.cuda.is_available():
        pytest.skip("needs a machine without a GPU")
    with (
        cluster(protocol="tcp") as made,
        pytest.raises(ValueError, match=r"training net, .* is not available on this worker"),
    ):
        run_study(study, tmp_path / "study.db", device="cuda", scheduler=made.scheduler_address)


def test_threads_that_need_one_network_have_one_folder() -> None:
    parcel, start = (("model.safetensors", b"0"),), threading.Barrier(8)

    def read(number: int) -> tuple[str, bytes]:
        start.wait()
        folder = Path(unpacked(parcel, "network").name)
        time.sleep(0.01)  # in which a folder that nobody holds would go
        return str(folder), (folder / "network/model.safetensors").read_bytes()

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(read, range(8)))) == 1


@pytest.mark.parametrize("name", ["", "..", "../model.safetensors", "/etc/passwd"])
def test_a_network_is_not_unpacked_elsewhere(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="plain name"):
        unpack_network(((name, b""),), tmp_path / "network")


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
    monkeypatch.setattr("qgt.study.cluster.WAIT", 0.3)
    with pytest.raises(ValueError, match="does not answer"):
        run_study(Study.from_plain(small()), tmp_path / "study.db", scheduler="tcp://127.0.0.1:1")


def test_a_network_survives_the_workers_that_held_it(tmp_path: Path) -> None:
    """The worker that has it dies; the next one, which never had it, goes on."""
    study = Study.from_plain(small(decoders={"net": NETWORK}, designs=1, grid={}, instances=400, batch=10))
    run_study(study, tmp_path / "here.db", networks=tmp_path / "networks")
    with cluster(n_workers=1, threads_per_worker=1, protocol="tcp") as made:
        dead = []

        def replace_worker(progress: qgt.StudyProgress) -> None:
            if progress.row is not None and not dead:
                dead.append(next(iter(made.workers)))
                made.scale(0)
                made.sync(made._correct_state)
                made.scale(1)

        run_study(
            study,
            tmp_path / "there.db",
            networks=tmp_path / "networks",
            scheduler=made.scheduler_address,
            on_progress=replace_worker,
        )
    assert dead
    assert rows(study, tmp_path / "here.db") == rows(study, tmp_path / "there.db")
