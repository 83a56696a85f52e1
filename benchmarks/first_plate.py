"""The first plate: how long `qgt decode` takes from a cold start and later, and whether what it says at once is right.

    python benchmarks/first_plate.py --before OTHER_CHECKOUT      # timings of this tree and of another, in one run
    python benchmarks/first_plate.py --promises                   # answers called certain with next to no simulations

Both write their part of results/first_plate.json. Every timed run is a process of its own. `cpu` is its user and system
time, which other work on the machine changes less than the time on the clock.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

import qgt
from qgt.decoders.contract import Decoder
from qgt.trust import confidence
from setting import paper_problem, provenance, write

OURS = Path(__file__).parents[1]
# What the command imports to decode one plate, as it imports it, and how it ends.
IMPORTS = "import gc; from qgt import cli; gc.set_threshold(getattr(cli, 'FEW_COLLECTIONS', gc.get_threshold()[0])); "
IMPORTS += "import torch, qgt.cli.verbs, qgt.lab.answers.decoding, qgt.lab.answers.outputs, qgt.lab.sheets.counts; "
IMPORTS += "getattr(cli, 'leave', lambda codes: None)([0])"
DECODE = ("-m", "qgt", "decode", "counts.csv", "--problem", "problem.toml", "-o", "calls.csv")
PLATES = 1000  # of the sheet whose second look is timed
DESIGNS = 3  # for each setting of the promises


def plan_problem(seed: int) -> qgt.Problem:
    """A problem like those of `qgt plan`."""
    design = qgt.Design.column_regular(pools=17, items=96, weight=4, generator=torch.Generator().manual_seed(seed))
    return qgt.Problem(design, qgt.Bernoulli(0.02), qgt.SparseInteger(0.02, 1))


def plate(folder: Path) -> None:
    """That problem, and the counts of one plate."""
    problem = plan_problem(0)
    problem.save(folder / "problem.toml")
    counts = problem.simulate(1, generator=torch.Generator().manual_seed(0)).y[0].tolist()
    lines = [",".join(problem.design.pool_names), ",".join(f"{count:.0f}" for count in counts)]
    (folder / "counts.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


def timed(arguments: Sequence[str], tree: Path, folder: Path, cache: Path) -> dict[str, float]:
    """Seconds of a process."""
    before, start = os.times(), time.perf_counter()
    environment = {**os.environ, "QGT_CACHE": str(cache), "PYTHONPATH": str(tree / "src")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package is compiled once
    subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, check=True, capture_output=True)
    wall, after = time.perf_counter() - start, os.times()
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return {"wall": wall, "cpu": spent}


def measured(trees: dict[str, Path], turns: int) -> dict[str, Any]:
    """The least of some turns, in which the trees take turns too."""
    found: dict[str, dict[str, list[dict[str, float]]]] = {name: {} for name in trees}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plate(folder)
        for turn in range(turns + 1):
            for which, tree in trees.items():
                cold, warm = folder / f"{which}{turn}", folder / f"{which} warm"
                runs = {
                    "import torch": (("-c", "import torch"), cold),
                    "all imports": (("-c", IMPORTS), cold),
                    "first plate": (DECODE, cold),
                    "second plate": (DECODE, cold),
                    "warm": (DECODE, warm),
                }
                timed((*DECODE, "--calibrate", "10"), tree, folder, warm)  # everything is learned then
                for what, (arguments, cache) in runs.items():
                    seconds = timed(arguments, tree, folder, cache)
                    if turn:  # the first turn compiles modules and fills the disk's memory
                        found[which].setdefault(what, []).append(seconds)
            print(f"turn {turn} of {turns} done", flush=True)
    return {
        which: {
            what: {clock: min(one[clock] for one in times) for clock in ("wall", "cpu")} for what, times in runs.items()
        }
        for which, runs in found.items()
    }


def sheet(items: int) -> dict[str, float]:
    """CPU seconds of decoding many plates, and of the second look at those that are doubtful."""
    torch.set_num_threads(1)
    problem = plan_problem(0) if items == 96 else paper_problem(pools=35, noise=0.1, seed=0)
    y = problem.simulate(PLATES, generator=torch.Generator().manual_seed(1)).y
    decode = qgt.Calibrated(qgt.Certified(certificates=False, time_limit=5.0), seconds=2.0).bind(problem)
    decode.learned()
    decode(y[:20])
    spent, real = [0.0], confidence.second_look

    def counted(*arguments: Any, **named: Any) -> Any:
        start = time.process_time()
        try:
            return real(*arguments, **named)
        finally:
            spent[0] += time.process_time() - start

    confidence.second_look = counted
    start = time.process_time()
    result = decode.decode(y)
    alone = time.process_time() - start
    decode.judged(y, result)
    return {"plates": PLATES, "decode": alone, "second look": spent[0]}


def sheets(trees: dict[str, Path], turns: int) -> dict[str, Any]:
    """The least of some turns, of both problems and all trees."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for _ in range(turns):
        for which, tree in trees.items():
            for name, items in (("17 pools, 96 samples", 96), ("35 pools, 100 samples", 100)):
                # This file, with the other tree's library.
                environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{OURS / 'benchmarks'}"}
                script = f"import json, first_plate; print(json.dumps(first_plate.sheet({items})))"
                done = subprocess.run(
                    [sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True
                )
                new = json.loads(done.stdout)
                old = found.setdefault(name, {}).get(which, new)
                found[name][which] = {key: min(old[key], new[key]) for key in new}
    return found


# What is said at once must be right: certain answers of a decoder that has simulated for half a second.


def certified(seconds: float) -> Decoder:
    return qgt.Certified(certificates=False, time_limit=seconds)


SETTINGS: dict[str, tuple[Callable[[int], qgt.Problem], Decoder, int, float]] = {
    "17 pools, 96 samples": (plan_problem, certified(5.0), 200, 0.0),
    "17 pools, 96 samples, a tenth missing": (plan_problem, certified(5.0), 200, 0.1),
    "30 dense pools": (lambda seed: paper_problem(pools=30, noise=0.1, seed=seed), certified(0.3), 120, 0.0),
    "30 dense pools, a tenth missing": (
        lambda seed: paper_problem(pools=30, noise=0.1, seed=seed), certified(0.3), 60, 0.1,
    ),
    "25 dense pools": (lambda seed: paper_problem(pools=25, noise=0.1, seed=seed), certified(0.3), 80, 0.0),
    "20 dense pools": (lambda seed: paper_problem(pools=20, noise=0.1, seed=seed), certified(0.3), 60, 0.0),
    "GAMP, 30 dense pools": (lambda seed: paper_problem(pools=30, noise=0.1, seed=seed), qgt.GAMP(), 2000, 0.0),
    "GAMP, 25 dense pools": (lambda seed: paper_problem(pools=25, noise=0.1, seed=seed), qgt.GAMP(), 2000, 0.0),
    "AMP, 25 dense pools": (lambda seed: paper_problem(pools=25, noise=0.1, seed=seed), qgt.AMP(), 2000, 0.0),
}  # fmt: skip


def promises(names: Sequence[str], at_once: float) -> dict[str, Any]:
    """For each setting, how many answers are called certain or confident from a cold start, and how many are wrong."""
    found: dict[str, Any] = {}
    for name in names:
        made, decoder, plates, lost = SETTINGS[name]
        row = {"simulated": [], "plates": 0, "right": 0, "certain": 0, "certain wrong": 0, "promised wrong": 0.0}
        row |= {"confident": 0, "confident wrong": 0, "supported": 0}
        for seed in range(DESIGNS):
            problem = made(seed)
            g = torch.Generator().manual_seed(1000 + seed)
            x, y = problem.simulate(plates, generator=g)
            y[torch.rand(y.shape, generator=g) < lost] = torch.nan
            decode = qgt.Calibrated(decoder, at_once=at_once).bind(problem)
            learned, result = decode.learned(), decode(y)
            sure, right = result.evidence.confidence, (result.x == x).all(1)
            certain, confident = sure >= 0.99, (sure >= 0.9) & (sure < 0.99)
            row["simulated"].append(learned.simulated)
            new = {"plates": plates, "right": int(right.sum()), "supported": int(learned.supports_certain)}
            new |= {"certain": int(certain.sum()), "certain wrong": int((certain & ~right).sum())}
            new |= {"confident": int(confident.sum()), "confident wrong": int((confident & ~right).sum())}
            new |= {"promised wrong": float((1 - sure[certain]).sum())}
            row |= {key: row[key] + value for key, value in new.items()}
        found[name] = row
        print(name, row, flush=True)
    return found


def main() -> None:
    """Measure one part, and write it beside the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=OURS / "results/first_plate.json")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--before", type=Path, help="another checkout, to compare with")
    parser.add_argument("--promises", action="store_true")
    parser.add_argument("--at-once", type=float, default=confidence.AT_ONCE if hasattr(confidence, "AT_ONCE") else 0.5)
    given = parser.parse_args()
    kept = json.loads(given.output.read_text(encoding="utf-8")) if given.output.is_file() else {}
    about = {**provenance("cpu"), "load": os.getloadavg()[0], "turns": given.turns}
    if given.promises:
        torch.set_num_threads(1)
        part = {"promises": {"about": about, "at_once": given.at_once, "rows": promises([*SETTINGS], given.at_once)}}
    else:
        trees = {"now": OURS, **({"before": given.before} if given.before is not None else {})}
        seconds = measured(trees, given.turns)
        part = {"timings": {"about": about, "seconds": seconds, "sheets": sheets(trees, max(1, given.turns // 2))}}
        print(json.dumps(part["timings"], indent=1))
    write(given.output, {**kept, **part})


if __name__ == "__main__":
    main()
