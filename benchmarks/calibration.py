"""Is confidence the share of answers that are right? Calibrated decoders on fresh instances of many problems.

    python benchmarks/calibration.py --processes 16 --seconds 480 -o results/calibration.json     # 8 minutes
    python benchmarks/calibration.py --put ROWS.json ...                    # rows of other runs, in place of theirs
    python benchmarks/calibration.py --draw docs/images/calibration.png     # from the results, with matplotlib

Each row is one problem and one decoder, in several parts: simulations run once in each part, as for a sheet, then fresh
instances are decoded for so many seconds. The calibration error is the mean distance of confidence and share in ten
ranges of confidence; some of it is scatter, which perfect calibration would show too, so what counts is the error
beyond scatter. Parts of all rows take turns, and results are written as they come.
"""

import argparse
import json
import multiprocessing
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch

import qgt
from qgt.decoders.contract import Decoder
from setting import Bins, calibration_error, in_processes, paper_problem, provenance, scatter, write

BINS = 10
FIRST, BATCH, MANY = 10, 128, 2048  # instances decoded together: as those of a sheet are, or by fast decoders
TRAINING = qgt.TrainConfig(instances=50_000, validation=5_000, epochs=12)
SLOW_TO_MAKE = ("network",)
DRAWN = ("certified", "certified, 0.1 s", "AMP", "GAMP")  # curves of the figure
DRAWN_FOR = "20 dense pools"


def dense(pools: int, noise: qgt.Noise | None = None) -> qgt.Problem:
    problem = paper_problem(pools=pools, noise=0.1, seed=0)
    return problem if noise is None else qgt.Problem(problem.design, problem.prior, noise)


def sparse(pools: int) -> qgt.Problem:
    g = torch.Generator().manual_seed(0)
    design = qgt.Design.column_regular(pools=pools, items=100, weight=8, generator=g)
    return qgt.Problem(design, qgt.Bernoulli(0.06), qgt.SparseInteger(0.1, 1))


def identity() -> qgt.Problem:
    design = qgt.Design.from_matrix(torch.eye(20, dtype=torch.uint8))
    return qgt.Problem(design, qgt.Bernoulli(0.06), qgt.SparseInteger(0.1, 1))


PROBLEMS: dict[str, Callable[[], qgt.Problem]] = {
    "20 dense pools": lambda: dense(20),
    "22 dense pools": lambda: dense(22),
    "25 dense pools": lambda: dense(25),
    "30 dense pools": lambda: dense(30),
    "25 pools, 8 an item": lambda: sparse(25),
    "30 pools, 8 an item": lambda: sparse(30),
    "each of 20 items alone": identity,
    "30 dense pools, Gaussian 0.5": lambda: dense(30, qgt.RoundedGaussian(0.5)),
    "30 dense pools, up to 3 off": lambda: dense(30, qgt.SparseInteger(0.1, 3)),
}


@cache
def network(problem: str) -> Decoder:
    """A small network, trained for a minute: it need not be good, its confidence must."""
    return qgt.train(PROBLEMS[problem](), qgt.MLP((300, 300)), TRAINING, generator=torch.Generator().manual_seed(0))


DECODERS: dict[str, Callable[[str], Decoder]] = {
    "certified": lambda problem: qgt.Certified(certificates=False),
    "certified, 0.05 s": lambda problem: qgt.Certified(time_limit=0.05, certificates=False),
    "certified, 0.1 s": lambda problem: qgt.Certified(time_limit=0.1, certificates=False),
    "certified, 1 s": lambda problem: qgt.Certified(time_limit=1.0, certificates=False),
    "AMP": lambda problem: qgt.AMP(),
    "GAMP": lambda problem: qgt.GAMP(),
    "network": network,
}


class Task(NamedTuple):
    """One row."""

    problem: str
    decoder: str
    instances: int
    seconds: float
    calibrate: float
    part: int
    seed: int


class Part(NamedTuple):
    """What one part of a row found."""

    task: Task
    simulated: int
    right: int
    complete: int
    table: list[list[float]]  # for each range: answers, the sum of their confidences, how many are right
    listed: list[list[float]]  # the same of complete lists
    seconds: float


def work(task: Task) -> Part:
    problem = PROBLEMS[task.problem]()
    decode = qgt.Calibrated(DECODERS[task.decoder](task.problem), task.calibrate).bind(problem)
    learned = decode.learned()
    g = torch.Generator().manual_seed(10**6 * (task.seed + 1) + task.part)
    table, trusted = torch.zeros(2, BINS, 3, dtype=torch.float64)
    done, right, complete, start = 0, 0, 0, time.perf_counter()
    while done < task.instances and time.perf_counter() - start < task.seconds:
        spent = time.perf_counter() - start
        left = int(done * (task.seconds - spent) / spent) if done else FIRST  # as many as there is time for
        most = BATCH if "certified" in task.decoder else MANY
        size = max(1, min(most, left, task.instances - done))
        x, y = problem.simulate(size, generator=g)
        result = decode(y)
        sure, fine = result.evidence.confidence, (result.x == x).all(1)
        assert sure is not None
        which = (sure * BINS).long().clamp(max=BINS - 1)
        found = torch.stack([torch.ones_like(sure), sure, fine.double()], 1)  # (instances, 3)
        table.index_add_(0, which, found)
        listed = result.evidence.complete if result.evidence.complete is not None else torch.ones_like(fine)
        trusted.index_add_(0, which[listed], found[listed])
        done, right, complete = done + size, right + int(fine.sum()), complete + int(listed.sum())
    spent = time.perf_counter() - start
    return Part(task, learned.simulated, right, complete, table.tolist(), trusted.tolist(), spent)


def row(parts: list[Part]) -> dict[str, Any]:
    """The parts of one row together."""
    bins, sound = (_bins([getattr(part, name) for part in parts]) for name in ("table", "listed"))
    complete = sum(part.complete for part in parts)
    return {
        "problem": parts[0].task.problem,
        "decoder": parts[0].task.decoder,
        "calibrate": parts[0].task.calibrate,
        "parts": len(parts),
        "simulated": sum(part.simulated for part in parts) // len(parts),
        "instances": sum(n for n, _, _ in bins),
        "right": sum(part.right for part in parts),
        "complete": complete,
        "error": round(calibration_error(bins), 5),
        "scatter": round(scatter(bins), 5),
        "complete_error": round(calibration_error(sound), 5) if complete else None,
        "complete_scatter": round(scatter(sound), 5) if complete else None,
        "seconds": round(sum(part.seconds for part in parts), 1),
        "bins": bins,
        "complete_bins": sound,
    }


def _bins(tables: list[list[list[float]]]) -> Bins:
    total = torch.tensor(tables, dtype=torch.float64).sum(0).tolist()
    return [(int(n), round(told, 6), int(hits)) for n, told, hits in total]


def draw(path: Path, found: dict[str, Any]) -> None:
    """The reliability diagram of the hardest problem."""
    from qgt.pictures.figures import reliability_figure, save_figure

    rows = {row["decoder"]: row["bins"] for row in found["rows"] if row["problem"] == DRAWN_FOR}
    curves = {name: rows[name] for name in DRAWN}
    save_figure(reliability_figure(curves, "confidence", "share of answers that are right"), path, "png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("results/calibration.json"))
    parser.add_argument("--draw", type=Path, help="only draw the figure from the results")
    parser.add_argument("--put", type=Path, nargs="+", help="only put the rows of these files into the results")
    parser.add_argument("--instances", type=int, default=20_000, help="of each part at most")
    parser.add_argument("--seconds", type=float, default=480.0, help="after which to stop")
    parser.add_argument("--each", type=float, default=30.0, help="seconds of decoding for each part")
    parser.add_argument("--parts", type=int, default=4, help="of each row; one for decoders that are fast")
    parser.add_argument("--calibrate", type=float, default=10.0, help="seconds of simulations for each part")
    parser.add_argument("--problem", default="", help="only those whose name holds this")
    parser.add_argument("--decoder", default="", help="only those whose name holds this")
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--seed", type=int, default=0)
    told = parser.parse_args()
    if told.draw is not None:
        draw(told.draw, json.loads(told.output.read_text()))
        return
    if told.put is not None:
        put(told.output, [json.loads(path.read_text()) for path in told.put])
        return
    tasks, found = planned(told), dict[tuple[str, str], list[Part]]()
    for part in in_processes(work, tasks, processes=told.processes, seconds=told.seconds):
        parts = found.setdefault((part.task.problem, part.task.decoder), [])
        parts.append(part)
        tell(row(parts))
        rows = [row(found[key]) for p in PROBLEMS for d in DECODERS if (key := (p, d)) in found]
        settings = {"seed": told.seed, "calibrate": told.calibrate, "each": told.each}
        write(told.output, {"measured_on": provenance("cpu"), **settings, "rows": rows})


def put(output: Path, others: list[dict[str, Any]]) -> None:
    """Put rows of other runs into the results, in place of those of the same problem and decoder."""
    stored = json.loads(output.read_text())
    rows = {(row["problem"], row["decoder"]): row for row in stored["rows"]}
    for run in others:
        rows |= {(row["problem"], row["decoder"]): {**row, "measured_on": run["measured_on"]} for row in run["rows"]}
    in_order = [rows[key] for problem in PROBLEMS for decoder in DECODERS if (key := (problem, decoder)) in rows]
    write(output, {**stored, "rows": in_order})


def planned(told: argparse.Namespace) -> list[Task]:
    """The parts in turn; networks first, for their training takes longest."""
    return [
        Task(problem, decoder, told.instances, told.each, told.calibrate, part, told.seed)
        for part in range(told.parts)
        for decoder in sorted(DECODERS, key=lambda name: name not in SLOW_TO_MAKE)
        for problem in PROBLEMS
        if told.problem in problem and told.decoder in decoder and (part == 0 or "certified" in decoder)
    ]


def tell(found: dict[str, Any]) -> None:
    """One row on the screen."""
    facts = f"{found['simulated']} simulated, {found['instances']} decoded, {found['complete']} complete, "
    facts += f"{found['right'] / max(1, found['instances']):.3f} right"
    beyond = max(0.0, found["error"] - found["scatter"])
    of_complete = (found["complete_error"] or 0.0) - (found["complete_scatter"] or 0.0)
    errors = f"error beyond scatter {beyond:.4f}, of complete ones {max(0.0, of_complete):.4f}"
    print(f"{found['problem']}; {found['decoder']}: {facts}; {errors}", flush=True)


if __name__ == "__main__":
    main()
