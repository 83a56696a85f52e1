"""A study on a Dask cluster of this machine: the same rows as one process, its speed, and what survives kills.

python benchmarks/cluster.py --workers 1 2 --instances 2000                 # rows and speed beside the local pool
python benchmarks/cluster.py --workers 4 --kills 50 --scheduler-kills 10    # and kills at random moments

Writes results/cluster.json. A row counts as acknowledged once progress has told of it.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import qgt
from qgt.files.atomic import write_text
from qgt.study import Study, run_study
from qgt.study.store import Store

RESULTS = Path(__file__).resolve().parents[1] / "results/cluster.json"
PORT = 18786


def study_of(instances: int) -> Study:
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
            "decoders": {"AMP": {"kind": "amp"}, "GAMP": {"kind": "gamp"}},
        }
    )


def rows(study: Study, db: Path) -> dict[tuple[str, int], object]:
    """What was counted, but for times and machines."""
    with Store(db) as store:
        listed = [(task.key, row) for task in dict.fromkeys(study.tasks) for row in store.rows(task.key)]
    found = {(key, row.batch): (row.score, row.statuses) for key, row in listed}
    assert len(found) == len(listed), "a row is there twice"
    return found


class Cluster:
    """A scheduler and its workers, as processes that can be killed."""

    def __init__(self, workers: int) -> None:
        self.address = f"tcp://127.0.0.1:{PORT}"
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", str(PORT), "--no-dashboard")
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


def timed(study: Study, db: Path, workers: int, scheduler: str | None) -> float:
    start = time.perf_counter()
    run_study(study, db, workers=workers, scheduler=scheduler)
    return time.perf_counter() - start


def with_kills(study: Study, db: Path, workers: int, kills: int, scheduler_kills: int) -> dict[str, int]:
    """Run to the end through kills; acknowledged rows that are missing or differ afterwards are counted."""
    acknowledged: dict[tuple[str, int], object] = {}
    done = {"worker_kills": 0, "scheduler_kills": 0, "runs": 0, "lost": 0}

    def told(progress: qgt.StudyProgress) -> None:
        if progress.row is not None:
            row = progress.row
            acknowledged[row.task, row.batch] = (row.score, row.statuses)

    while True:
        cluster, stop, before = Cluster(workers), threading.Event(), len(acknowledged)
        last = done["scheduler_kills"] < scheduler_kills
        aim = (kills - done["worker_kills"]) // max(1, scheduler_kills - done["scheduler_kills"])

        def harass(
            cluster: Cluster = cluster,
            stop: threading.Event = stop,
            before: int = before,
            last: bool = last,
            aim: int = aim,
        ) -> None:
            while len(acknowledged) == before and not stop.wait(0.1):
                pass  # until rows arrive
            for _ in range(aim):
                if stop.wait(random.uniform(0.5, 3.0)):
                    return
                cluster.kill_worker()
                done["worker_kills"] += 1
            if last and not stop.wait(random.uniform(0.5, 3.0)):
                cluster.scheduler.kill()
                done["scheduler_kills"] += 1

        thread = threading.Thread(target=harass)
        thread.start()
        done["runs"] += 1
        try:
            run_study(study, db, scheduler=cluster.address, on_progress=told)
        except ValueError as error:
            print(f"{len(acknowledged)} rows: {error}", flush=True)
        else:
            return done
        finally:
            stop.set()
            thread.join()
            cluster.stop()
            there = rows(study, db)
            done["lost"] = sum(there.get(key) != row for key, row in acknowledged.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--instances", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--scheduler-kills", type=int, default=0)
    given = parser.parse_args()
    study, found = study_of(given.instances), {"instances": given.instances, "cores": os.cpu_count(), "runs": []}
    with tempfile.TemporaryDirectory() as folder:
        seconds = timed(study, Path(folder, "one.db"), 1, None)
        truth = rows(study, Path(folder, "one.db"))
        found["runs"].append({"where": "one process", "seconds": round(seconds, 2), "same": True})
        for workers in given.workers:
            pool, db = Path(folder, f"pool{workers}.db"), Path(folder, f"dask{workers}.db")
            seconds = timed(study, pool, workers, None)
            found["runs"].append(_run(f"{workers} local", seconds, rows(study, pool) == truth))
            cluster = Cluster(workers)
            try:
                seconds = timed(study, db, workers, cluster.address)
            finally:
                cluster.stop()
            found["runs"].append(_run(f"{workers} of Dask", seconds, rows(study, db) == truth))
            print(found["runs"][-2:], flush=True)
        if given.kills or given.scheduler_kills:
            db = Path(folder, "kills.db")
            found["kills"] = with_kills(study, db, max(given.workers), given.kills, given.scheduler_kills)
            found["kills"]["same"] = rows(study, db) == truth
    write_text(RESULTS, json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


def _run(where: str, seconds: float, same: bool) -> dict[str, object]:
    return {"where": where, "seconds": round(seconds, 2), "same": same}


if __name__ == "__main__":
    main()
