"""Kill a study at random moments, again and again, and count what that costs.

    python tests/study/kill_study.py --kills 50

Runs `qgt bench` with two workers on a study of some thousand small batches and a network, and sends SIGKILL to the
command, never to its workers: every other time at a random moment from its start, else at a random moment after its
first new row. The rows seen in the database just before each kill are the acknowledged ones. At the end the study is
finished and compared with one that was never interrupted.
"""

import argparse
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

STUDY = """
instances = {instances}
batch = 50

[problem]
design = {{ kind = "bernoulli", pools = 20, items = 60 }}
prior = {{ kind = "bernoulli", rate = 0.1 }}
noise = {{ kind = "sparse_integer", rate = 0.1, bound = 1 }}

[grid]
"design.pools" = [16, 20]

[decoders.GAMP]
kind = "gamp"
[decoders.AMP]
kind = "amp"
defectives = "noisy"
tune = true
[decoders.network]
kind = "mlp"
hidden = [64]
train = {{ instances = 20000, validation = 1000, epochs = 20 }}
"""
ENDS_WITHIN = 5.0  # seconds in which workers must notice that the command is gone

Rows = dict[tuple[str, int], tuple[bytes, str]]


def rows(db: Path) -> Rows:
    """What the database holds: counts by task and batch."""
    if not db.exists():
        return {}
    with closing(sqlite3.connect(db, timeout=60)) as connection:
        try:
            found = connection.execute("SELECT task, batch, outcomes, statuses FROM rows").fetchall()
        except sqlite3.OperationalError:  # killed before the table was there
            return {}
    return {(task, batch): (outcomes, statuses) for task, batch, outcomes, statuses in found}


def start(study: Path, db: Path, workers: int = 2) -> subprocess.Popen[bytes]:
    """The real command, in a process group of its own by which its workers can be found."""
    command = [sys.executable, "-m", "qgt", "bench", str(study), "-o", str(db), "--workers", str(workers), "--json"]
    return subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_for_moment(process: subprocess.Popen[bytes], db: Path, before: Rows, from_start: bool) -> None:
    """Sleep until the kill is due, or the command ends."""
    if not from_start:  # it begins with seconds of imports, which are not the interesting part
        while process.poll() is None and len(rows(db)) == len(before):
            time.sleep(0.02)
    due = time.monotonic() + random.uniform(0, 5.0 if from_start else 1.0)
    while process.poll() is None and time.monotonic() < due:
        time.sleep(0.001)


def lingering(group: int) -> bool:
    """Whether any process of a group is left after a while."""
    due = time.monotonic() + ENDS_WITHIN
    while time.monotonic() < due:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.02)
    return True


def kill_often(study: Path, db: Path, kills: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Kill a study's runs until that was done often enough; what was lost, and how often help was needed."""
    told = {"kills": 0, "acknowledged_rows_lost": 0, "altered": 0, "manual_repairs": 0, "workers_left_behind": 0}
    acknowledged: Rows = {}
    while told["kills"] < kills:
        process = start(study, db)
        wait_for_moment(process, db, acknowledged, from_start=told["kills"] % 2 == 0)
        seen = rows(db)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if process.returncode == 0:
            raise SystemExit("the study was finished before it was killed often enough: give it more instances")
        told["manual_repairs"] += process.returncode != -signal.SIGKILL  # it had stopped by itself, and said why
        told["workers_left_behind"] += lingering(process.pid)
        acknowledged |= seen
        now = rows(db)
        told["acknowledged_rows_lost"] += sum(key not in now for key in acknowledged)
        told["altered"] += sum(now.get(key, value) != value for key, value in acknowledged.items())
        told["kills"] += 1
        say(f"kill {told['kills']}: {len(now)} rows")
    return {**told, "rows_acknowledged_before_a_kill": len(acknowledged)}


def finish(study: Path, db: Path) -> Rows:
    """Run a study to its end."""
    process = start(study, db)
    _, error = process.communicate()
    assert process.returncode == 0, error.decode()
    return rows(db)


def measure(folder: Path, kills: int, instances: int, say: Callable[[str], None]) -> dict[str, Any]:
    """Kill a study, finish it, and compare it with an unbroken run."""
    study = folder / "study.toml"
    study.write_text(STUDY.format(instances=instances))
    told = kill_often(study, folder / "killed.db", kills, say)
    killed, whole = finish(study, folder / "killed.db"), finish(study, folder / "whole.db")
    with closing(sqlite3.connect(folder / "killed.db")) as connection:
        sound = connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        (stored,) = connection.execute("SELECT count(*) FROM rows").fetchone()
    rest = {"rows_at_the_end": stored, "duplicated": stored - len(killed), "database_sound": sound}
    return {**told, **rest, "equal_to_an_unbroken_run": killed == whole}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--instances", type=int, default=40_000, help="per task; enough that every kill hits work")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        told = measure(Path(folder), arguments.kills, arguments.instances, say=lambda line: print(line, flush=True))
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
