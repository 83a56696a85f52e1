"""Time of `qgt decode` with one plate: from a cold start, with a warm cache, and of what it imports.

    python benchmarks/first_plate.py --output results/first_plate.json

Every run is a process of its own. `cpu` is its user and system time, which other work on the machine changes less.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import qgt
from setting import provenance, write

IMPORTS = "import qgt.cli.verbs, qgt.lab.answers.decoding, qgt.lab.answers.outputs, qgt.lab.plan.folder"
DECODE = ("-m", "qgt", "decode", "counts.csv", "--problem", "problem.toml", "-o", "calls.csv")


def plate(folder: Path) -> None:
    """A problem like those of `qgt plan`, and the counts of one plate."""
    g = torch.Generator().manual_seed(0)
    design = qgt.Design.column_regular(pools=17, items=96, weight=4, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.02), qgt.SparseInteger(0.02, 1))
    problem.save(folder / "problem.toml")
    counts = problem.simulate(1, generator=g).y[0].tolist()
    lines = [",".join(design.pool_names), ",".join(f"{count:.0f}" for count in counts)]
    (folder / "counts.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def timed(arguments: Sequence[str], folder: Path, cache: Path) -> dict[str, float]:
    """Seconds of a process."""
    before, start = os.times(), time.perf_counter()
    environment = {**os.environ, "QGT_CACHE": str(cache)}
    subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, check=True, capture_output=True)
    wall, after = time.perf_counter() - start, os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return {"wall": wall, "cpu": spent}


def measured(turns: int) -> dict[str, Any]:
    """The medians of some turns."""
    found: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plate(folder)
        for turn in range(turns):
            cache = folder / f"cache{turn}"
            runs = {"torch": ("-c", "import torch"), "imports": ("-c", f"import torch; {IMPORTS}")}
            for what, arguments in {**runs, "cold": DECODE, "warm": DECODE}.items():
                found.setdefault(what, []).append(timed(arguments, folder, cache))
    return {
        what: {clock: statistics.median(one[clock] for one in times) for clock in ("wall", "cpu")}
        for what, times in found.items()
    }


def main() -> None:
    """Measure, and write what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("results/first_plate.json"))
    parser.add_argument("--turns", type=int, default=5)
    given = parser.parse_args()
    load = os.getloadavg()[0]
    seconds = measured(given.turns)
    for what, one in seconds.items():
        print(f"{what:8} {one['wall']:.2f} s, {one['cpu']:.2f} s of CPU time")
    write(given.output, {"about": {**provenance("cpu"), "load": load, "turns": given.turns}, "seconds": seconds})


if __name__ == "__main__":
    main()
