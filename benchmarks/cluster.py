"""A study on a Dask cluster of this machine: the same rows as one process, its speed, and what survives kills.

python benchmarks/cluster.py speed --workers 1 2 4 --instances 4000              # rows and speed beside the local pool
python benchmarks/cluster.py kills --workers 2 --kills 50 --scheduler-kills 10   # kills at random moments

Each part adds to results/cluster.json. The study has a network, which the cluster trains. A row counts as acknowledged
once progress has told of it. With kills, the study is run through them to its end, again and again in new databases,
until there were as many kills as asked for; each time its rows must be those of one process.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import qgt
from qgt.files.store import write_text
from qgt.study import Study, run_study
from qgt.study.store import StudyStore

RESULTS = Path(__file__).resolve().parents[1] / "results/cluster.json"
Rows = dict[tuple[str, int], object]


def study_of(instances: int) -> Study:
    network = {"kind": "mlp", "hidden": [32], "train": {"instances": 2000, "validation": 500, "epochs": 3}}
    return Study.from_plain(
        {
            "instances": instances,
            "batch": 50,
            "designs": 2,
            "problem": {
                "design": {"kind": "bernoulli", "pools": 30, "items": 100},
                "prior": {"kind": "bernoulli", "rate": 0.06},
                "noise": {"kind": "sparse_integer", "rate": 0.1, "bound": 1},
            },
            "grid": {"design.pools": [25, 35]},
            "decoders": {"AMP": {"kind": "amp"}, "GAMP": {"kind": "gamp"}, "network": network},
        }
    )


def rows(study: Study, db: Path) -> Rows:
    """What was counted, and by which network, but for times and machines."""
    with StudyStore(db) as store:
        listed = [(task.key, row) for task in dict.fromkeys(study.tasks) for row in store.rows(task.key)]
    found = {(key, row.batch): (row.score, row.statuses, row.provenance.get("network")) for key, row in listed}
    assert len(found) == len(listed), "a row is there twice"
    return found


class Cluster:
    """A scheduler and its workers, as processes that can be killed."""

    def __init__(self, workers: int) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{port}"
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
        self.workers = [self._worker() for _ in range(workers)]

    def _start(self, *command: str) -> "subprocess.Popen[bytes]":
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return subprocess.Popen([sys.executable, "-m", "dask", *command], env=environment, **quiet)

    def _worker(self) -> "subprocess.Popen[bytes]":
        return self._start("worker", self.address, "--nthreads", "1", "--no-nanny", "--no-dashboard")

    def kill_worker(self) -> None:
        """Kill one, and start another in its place."""
        number = random.randrange(len(self.workers))
        self.workers[number].send_signal(signal.SIGKILL)
        self.workers[number].wait()
        self.workers[number] = self._worker()

    def stop(self) -> None:
        """Kill all that are left."""
        for process in (self.scheduler, *self.workers):
            process.kill()
            process.wait()


@contextlib.contextmanager
def cluster_of(workers: int) -> Iterator[Cluster]:
    cluster = Cluster(workers)
    try:
        yield cluster
    finally:
        cluster.stop()


def timed(study: Study, db: Path, workers: int, scheduler: str | None) -> dict[str, float]:
    """Seconds in all, with the start of processes and the training; and rows a second once rows come."""
    start, at = time.perf_counter(), list[float]()
    run_study(
        study,
        db,
        workers=workers,
        scheduler=scheduler,
        on_progress=lambda told: at.append(time.perf_counter()) if told.row is not None else None,
    )
    rate = (len(at) - 1) / (at[-1] - at[0])
    return {"seconds": round(time.perf_counter() - start, 2), "rows_per_second": round(rate, 1)}


def speed(study: Study, counts: list[int], folder: Path) -> list[dict[str, object]]:
    """One process, local pools and clusters of as many workers; all rows are compared with those of one process."""
    one = folder / "one.db"
    found: list[dict[str, object]] = [{"where": "one process", "workers": 1, **timed(study, one, 1, None), "same": 1}]
    truth = rows(study, one)
    found[0]["same"] = len(truth)
    for workers in counts:
        for where in ("local pool", "Dask"):
            db = folder / f"{where} {workers}.db"
            with cluster_of(workers) if where == "Dask" else contextlib.nullcontext() as cluster:
                measured = timed(study, db, workers, None if cluster is None else cluster.address)
            there = rows(study, db)
            same = sum(there.get(key) == row for key, row in truth.items()) if len(there) == len(truth) else 0
            found.append({"where": where, "workers": workers, **measured, "same": same})
            print(found[-1], flush=True)
    return found


class Killer:
    """Kills workers and schedulers at random moments, each only after new rows have come."""

    def __init__(self, kills: int, scheduler_kills: int) -> None:
        self.left, self.schedulers_left = kills, scheduler_kills
        self.acknowledged: Rows = {}  # of the study in hand

    @property
    def done(self) -> bool:
        """Whether none are left to kill."""
        return not (self.left or self.schedulers_left)

    def told(self, progress: qgt.StudyProgress) -> None:
        """Take note of a row that was acknowledged."""
        if (row := progress.row) is not None:
            self.acknowledged[row.task, row.batch] = (row.score, row.statuses, row.provenance.get("network"))

    def run(self, cluster: Cluster, stop: threading.Event) -> None:
        """Until the run ends or its scheduler is killed: a fair share of the workers' kills goes before that."""
        share = -(-self.left // (self.schedulers_left + 1))
        for _ in range(share):
            if not self._rows_came(stop):
                return
            cluster.kill_worker()
            self.left -= 1
        if self.schedulers_left and self._rows_came(stop):
            cluster.scheduler.kill()
            self.schedulers_left -= 1

    def _rows_came(self, stop: threading.Event) -> bool:
        before = len(self.acknowledged)
        while len(self.acknowledged) == before:
            if stop.wait(0.02):
                return False
        return not stop.wait(random.uniform(0.0, 1.0))


def with_kills(study: Study, truth: Rows, killer: Killer, workers: int, folder: Path) -> dict[str, int]:
    """Studies run to their end through kills; acknowledged rows that are missing or differ afterwards are counted."""
    found = {"runs": 0, "studies": 0, "acknowledged": 0, "lost": 0, "differ": 0}
    while not killer.done:
        db = folder / f"{found['studies']}.db"
        ended = False
        while not ended:
            found["runs"] += 1
            ended = one_run(study, db, killer, workers)
            there = rows(study, db)
            found["lost"] += sum(there.get(key) != row for key, row in killer.acknowledged.items())
            print(f"{found['runs']}: {len(there)} rows, {killer.left}, {killer.schedulers_left} kills left", flush=True)
        found["studies"] += 1
        found["acknowledged"] += len(killer.acknowledged)
        found["differ"] += sum(there.get(key) != row for key, row in truth.items()) + len(there) - len(truth)
        killer.acknowledged.clear()
    return found


def one_run(study: Study, db: Path, killer: Killer, workers: int) -> bool:
    """Run with a new cluster until the study's end, or until its scheduler is killed."""
    stop = threading.Event()
    with cluster_of(workers) as cluster:
        thread = threading.Thread(target=killer.run, args=(cluster, stop))
        thread.start()
        try:
            run_study(study, db, scheduler=cluster.address, on_progress=killer.told)
        except ValueError as error:
            assert "is gone" in str(error), error
            return False
        finally:
            stop.set()
            thread.join()
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["speed", "kills"])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="for kills: the first number")
    parser.add_argument("--instances", type=int, default=2000, help="of each of 12 tasks, 50 to a row")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--scheduler-kills", type=int, default=1)
    given = parser.parse_args()
    study, start = study_of(given.instances), time.perf_counter()
    part: dict[str, object] = {"cores": os.cpu_count(), "instances": given.instances}
    with tempfile.TemporaryDirectory() as folder:
        if given.part == "speed":
            part["runs"] = speed(study, given.workers, Path(folder))
        else:
            run_study(study, Path(folder, "one.db"))
            truth = rows(study, Path(folder, "one.db"))
            killer = Killer(given.kills, given.scheduler_kills)
            kills = {"worker_kills": given.kills, "scheduler_kills": given.scheduler_kills, "rows": len(truth)}
            part |= {**kills, **with_kills(study, truth, killer, given.workers[0], Path(folder))}
    part["minutes"] = round((time.perf_counter() - start) / 60, 1)
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    write_text(RESULTS, json.dumps({**found, given.part: part}, indent=1) + "\n")
    print(json.dumps(part, indent=1))


if __name__ == "__main__":
    main()
