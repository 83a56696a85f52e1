"""Make the files that this version of qgt stores, small ones, in tests/stored/VERSION.

    python tests/stored/make.py

Run once for each version that is released, and commit the folder: `test_stored.py` reads the folders of all versions
with the code of today. A folder that is there is left as it is.
"""

import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import qgt
from qgt.files.store import write_text
from qgt.lab.plan.planning import Candidate, Plan
from qgt.lab.plan.simulation import Scout
from qgt.web.counting import Entered, keep
from qgt.web.decoding import decode_version
from qgt.web.jobs import Job
from qgt.web.planning import add_run
from qgt.web.settings import Settings
from qgt.web.state import AppState

HERE = Path(__file__).parent
SAMPLES, POOLS, POSITIVES = 12, 8, (2, 7)
STUDY = {
    "instances": 20,
    "batch": 20,
    "problem": {
        "design": {"kind": "bernoulli", "pools": 8, "items": 12},
        "prior": {"kind": "bernoulli", "rate": 0.1},
        "noise": {"kind": "sparse_integer", "rate": 0.1, "bound": 1},
    },
    "decoders": {"AMP": {"kind": "amp", "defectives": "noisy"}, "greedy": {"kind": "maximum_neighborhood"}},
}


def main() -> None:
    """Make the folder of this version."""
    folder = HERE / qgt.__version__
    if folder.exists():
        print(f"{folder} is there")
        return
    folder.mkdir()
    _plan_and_calls(folder)
    _page(folder)
    _network(folder)
    _study(folder)
    print(f"made {folder}: {sum(path.stat().st_size for path in folder.rglob('*') if path.is_file()):,} bytes")


def small_plan() -> Plan:
    """A plan for few samples, made without simulations."""
    assay = qgt.SparseInteger(rate=0.02, bound=1)
    question = qgt.Question(qgt.Samples.numbered(SAMPLES), (0.0, 2.0), assay, 0.9)
    scout = Scout(question.samples, question.prior, question.assay, None, seed=0)
    one = Candidate(scout.design(POOLS, 4), 4, 50, 49, 0.0, 3.5)
    return Plan(question, (one,), one, False, seed=0)


def _plan_and_calls(folder: Path) -> None:
    """A plan's folder, counts, proofs, and a follow-up round of a plate in doubt."""
    problem = qgt.write_plan(small_plan(), folder / "plan").problem
    for name in ("worklists", "candidates.svg"):  # which qgt does not read
        path = folder / "plan" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    exact = problem.design.matrix[:, list(POSITIVES)].sum(1).tolist()
    doubt = ["", "", "", *exact[3:]]  # three counts are missing
    header = ",".join(["plate", *problem.design.pool_names])
    rows = [",".join(map(str, [name, *row])) for name, row in (("clear", exact), ("doubt", doubt))]
    (folder / "counts.csv").write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    _qgt(folder, "decode", "counts.csv", "--problem", "plan", "--certificate", "proofs.safetensors", "-o", "calls.csv",
         "--calibrate", "1", "--cache", "off")  # fmt: skip
    _qgt(folder, "follow-up", "counts.csv", "--problem", "plan", "-o", "round2", "--pools", "2")


def _page(folder: Path) -> None:
    """The page's store, with a run and its calls."""
    with tempfile.TemporaryDirectory() as name:
        app_state = AppState.open(Settings(Path(name), calibrate=0.5))
        made = small_plan()
        run = add_run(app_state, "Stored", made, 10.0)
        values = [made.problem.design.matrix[:, list(POSITIVES)].sum(1).tolist()]
        keep(app_state, run, "typed", "", Entered(b"", ("Plate 1",), values), made.problem.design.pool_names)
        stored = app_state.store.run(run)
        assert stored is not None
        decode_version(app_state, stored, 1, Job("stored", "stored", lambda job: "", "/", 60.0))
        source, target = sqlite3.connect(Path(name) / "runs.db"), sqlite3.connect(folder / "runs.db")
        source.backup(target)  # one file, without a journal beside it
        source.close()
        target.execute("PRAGMA journal_mode = DELETE")
        target.close()


def _network(folder: Path) -> None:
    """A trained network, and what it answers."""
    design = qgt.Design.bernoulli(pools=6, items=10, generator=torch.Generator().manual_seed(0))
    problem = qgt.Problem(design, qgt.Bernoulli(0.1))
    config = qgt.TrainConfig(instances=200, validation=64, batch=50, epochs=2)
    net = qgt.train(problem, qgt.MLP(hidden=(16,)), config, generator=torch.Generator().manual_seed(1))
    net.save(folder / "network")
    y = problem.simulate(5, generator=torch.Generator().manual_seed(2)).y
    scores = net.bind(problem)(y).scores
    write_text(folder / "network.json", json.dumps({"y": y.tolist(), "scores": scores.tolist()}, indent=1))


def _study(folder: Path) -> None:
    """A finished study, and its counts."""
    write_text(folder / "study.json", json.dumps(STUDY, indent=1))
    _qgt(folder, "bench", "study.json", "-o", "study.db", "--counts", "study_counts.json")


def _qgt(folder: Path, *arguments: str) -> None:
    done = subprocess.run([sys.executable, "-m", "qgt", *arguments], cwd=folder, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr or done.stdout)


if __name__ == "__main__":
    main()
