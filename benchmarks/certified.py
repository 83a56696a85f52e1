"""What certified decoding costs, how often it is right, and how far its confidence can be trusted.

    python benchmarks/certified.py speed             # against SciPy's milp, the same instances, this machine
    python benchmarks/certified.py speed --device cuda --instances 200000 --milp 0
    python benchmarks/certified.py recordings --device cuda --instances 20000       # what made it fast there, by parts
    python benchmarks/certified.py success --odds 100 --pools 35 30 25 --instances 20000
    python benchmarks/certified.py success --odds 100 --pools 22 20 --instances 5000
    python benchmarks/certified.py agreement         # with ExactMAP, and certificates checked
    python benchmarks/certified.py growth            # 200, 400 and 800 items, beside HiGHS
    python benchmarks/certified.py draw              # docs/images/certified_reliability.png from the results

The paper's setting (N = 100, 6 % defective, 10 % of the counts noisy, D = 1) on designs of their own for every seed.
Each part adds its rows to the results as it goes.
"""

import argparse
import json
import math
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

import qgt
from qgt.decoders.certified import relaxation, search
from qgt.decoders.certified.decoder import batch_of
from qgt.decoders.certified.nodes import Nodes
from qgt.decoders.certified.search import Search
from qgt.model.prior import FREE
from setting import paper_problem, provenance, synchronize, write

BINS = 20


# --- speed ----------------------------------------------------------------------------------------------------------


@contextmanager
def phases(device: str, batch: int) -> Iterator[dict[str, float]]:
    """Time spent in roots, in full batches of nodes, and in the last nodes, which no longer fill one."""
    seconds = {"roots": 0.0, "branching": 0.0, "stragglers": 0.0}
    branch, start = Search._branch, [time.perf_counter()]

    def timed(search: Search, nodes: Nodes) -> None:
        branch(search, nodes)
        synchronize(device)
        now = time.perf_counter()
        root = bool((nodes.total == FREE).all())
        phase = "roots" if root else "branching" if len(nodes.owner) >= batch else "stragglers"
        seconds[phase] += now - start[0]
        start[0] = now

    Search._branch = timed  # type: ignore[method-assign]
    try:
        yield seconds
    finally:
        Search._branch = branch  # type: ignore[method-assign]


def milp_seconds(problem: qgt.Problem, y: torch.Tensor, workers: int) -> list[float]:
    """SciPy's solver, an instance at a time on each core: x and the errors are binary columns."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array, hstack, identity

    A = csr_array(problem.design.matrix.numpy().astype(float))
    whole = csr_array(hstack([A, identity(problem.pools), -identity(problem.pools)]))
    assert isinstance(problem.prior, qgt.Bernoulli) and isinstance(problem.noise, qgt.SparseInteger)
    rate, noise = float(problem.prior.marginals(1)[0]), problem.noise.rate
    off = math.log((1 - noise + noise / 3) / (noise / 3))
    costs = np.concatenate([np.full(problem.items, math.log((1 - rate) / rate)), np.full(2 * problem.pools, off)])

    def solve(counts: torch.Tensor) -> float:
        start = time.perf_counter()
        rows = LinearConstraint(whole, counts.numpy(), counts.numpy())
        milp(costs, integrality=np.ones_like(costs), bounds=Bounds(0, 1), constraints=rows, options={"mip_rel_gap": 0})
        return time.perf_counter() - start

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(solve, y))


def speed(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Mean seconds per instance, for odds of 1 (the proof alone) and 100 (with all alternatives)."""
    device = arguments.device
    for pools in arguments.pools or (35, 30, 25):
        problem = paper_problem(pools=pools, noise=0.1, seed=5)
        y = problem.simulate(arguments.instances or 1000, generator=torch.Generator().manual_seed(6)).y.to(device)
        row: dict[str, Any] = {"M": pools, "instances": len(y), "device": device}
        for odds in arguments.odds:
            decode = qgt.Certified(odds=odds, certificates=odds > 1).bind(problem)
            decode(y[:2000])  # warm
            with phases(device, batch_of(y.device, problem.items)) as seconds:
                synchronize(device)
                start = time.perf_counter()
                result = decode(y)
                synchronize(device)
                wall = time.perf_counter() - start
            proved = int((result.status == qgt.Status.PROVED).sum())
            row[f"odds {odds:g}"] = {
                "seconds": round(wall, 3),
                "proved": proved,
                "proved_per_second": round(proved / wall),
            }
            row[f"odds {odds:g}"]["split"] = {name: round(part, 3) for name, part in seconds.items()}
        if arguments.milp:
            start = time.perf_counter()
            each = milp_seconds(problem, y[: arguments.milp].cpu(), torch.get_num_threads())
            wall = time.perf_counter() - start
            row["milp"] = {
                "instances": len(each),
                "seconds": round(wall, 2),
                "median_ms": round(1e3 * float(np.median(each)), 2),
            }
            for odds in arguments.odds:
                ours = row[f"odds {odds:g}"]["seconds"] / len(y)
                row[f"odds {odds:g}"]["times_faster"] = round(wall / len(each) / ours, 1)
        yield row


# --- recordings -----------------------------------------------------------------------------------------------------


def recordings(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Seconds for the same instances, odds 1: with more and fewer iterations and moves, replayed or not."""
    usual, few = relaxation.MOST_NODES, search.NODE_POLISH_STEPS
    for pools, (iterations, looks) in product(arguments.pools or (35, 30, 25), ((60, 10), (40, 20))):
        search.ITERATIONS, relaxation.CHECK = iterations, looks
        problem = paper_problem(pools=pools, noise=0.1, seed=5)
        y = problem.simulate(arguments.instances or 1000, generator=torch.Generator().manual_seed(6)).y
        y = y.to(arguments.device)
        row: dict[str, Any] = {"M": pools, "instances": len(y), "device": arguments.device}
        row |= {"iterations": iterations, "looks": looks}
        for name, recorded, moves in (("plain", 0, 30), ("few moves", 0, few), ("recorded", usual, few)):
            relaxation.MOST_NODES, search.NODE_POLISH_STEPS = recorded, moves
            decode = qgt.Certified(odds=1.0, certificates=False).bind(problem)
            decode(y)  # warm
            seconds = []
            for _ in range(3):
                synchronize(arguments.device)
                start = time.perf_counter()
                proved = int((decode(y).status == qgt.Status.PROVED).sum())
                seconds.append(round(time.perf_counter() - start, 3))
            row[name] = {"seconds": min(seconds), "all_seconds": seconds, "proved": proved}
        yield row


# --- success and confidence -----------------------------------------------------------------------------------------


def success(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """How often the answer is right, how often proved, and how often answers of each confidence are right."""
    for pools in arguments.pools or (35, 30, 25, 22, 20):
        total = arguments.instances or 20_000
        designs = range(arguments.designs)
        for design in designs:
            problem = paper_problem(pools=pools, noise=0.1, seed=100 + design)
            x, y = problem.simulate(total // len(designs), generator=torch.Generator().manual_seed(200 + design))
            for odds in arguments.odds:
                decoder = qgt.Certified(odds=odds, certificates=False, time_limit=arguments.time_limit)
                start = time.perf_counter()
                result = decoder.bind(problem)(y.to(arguments.device))
                calls, status = result.x.cpu(), result.status.cpu()
                row: dict[str, Any] = {"M": pools, "odds": odds, "design": design, "instances": len(y)}
                row["outcomes"] = qgt.score(x, calls).to_plain()["outcomes"]
                row["proved"] = int((status == qgt.Status.PROVED).sum())
                row["complete"] = int(result.evidence.complete.sum())
                row["seconds"] = round(time.perf_counter() - start, 2)
                row["time_limit"] = arguments.time_limit
                if odds > 1:
                    right = (calls == x).all(1)
                    row["confidence"] = bins(result.evidence.confidence.cpu(), right)
                    assert result.scores is not None
                    row["items"] = bins(result.scores.cpu().flatten(), x.flatten().bool())
                yield row


def bins(given: torch.Tensor, happened: torch.Tensor) -> list[list[float]]:
    """For each bin of the probability given: how many, the sum of the probabilities, how many happened."""
    at = (given * BINS).long().clamp(max=BINS - 1)
    number = torch.bincount(at, minlength=BINS)
    total = torch.bincount(at, given, minlength=BINS)
    hits = torch.bincount(at, happened.double(), minlength=BINS)
    return [[int(n), round(float(t), 4), int(h)] for n, t, h in zip(number, total, hits, strict=True)]


# --- agreement ------------------------------------------------------------------------------------------------------


def settings() -> dict[str, qgt.Problem]:
    """Five kinds of problems."""
    g = torch.Generator().manual_seed(7)

    def rates(items: int) -> list[float]:
        return (0.02 + 0.08 * torch.rand(items, generator=g, dtype=torch.float64)).tolist()

    dense = qgt.Design.bernoulli
    regular = qgt.Design.column_regular(pools=40, items=100, weight=8, generator=g)
    large = qgt.Design.column_regular(pools=80, items=200, weight=8, generator=g)
    return {
        "N=100, M=30, D=1": paper_problem(pools=30, noise=0.1, seed=8),
        "N=60, M=30, D=3": qgt.Problem(
            dense(pools=30, items=60, generator=g), qgt.Bernoulli(0.06), qgt.SparseInteger(0.06, 3)
        ),
        "N=100, M=35, D=1, rates": qgt.Problem(
            dense(pools=35, items=100, generator=g), qgt.Bernoulli(rates(100)), qgt.SparseInteger(0.1, 1)
        ),
        "N=100, M=40, D=1, weight 8": qgt.Problem(regular, qgt.Bernoulli(0.06), qgt.SparseInteger(0.1, 1)),
        "N=200, M=80, D=1, weight 8, rates": qgt.Problem(large, qgt.Bernoulli(rates(200)), qgt.SparseInteger(0.06, 1)),
    }


def agreement(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Optimal costs against ExactMAP's, and every certificate through the checker."""
    for name, problem in settings().items():
        y = problem.simulate(arguments.instances or 220, generator=torch.Generator().manual_seed(9)).y
        ours, theirs = qgt.Certified().bind(problem)(y), qgt.ExactMAP(time_limit=120.0).bind(problem)(y)
        both = (ours.status == qgt.Status.PROVED) & (theirs.status == qgt.Status.PROVED)
        apart = (ours.evidence.log_joint - theirs.evidence.log_joint).abs()
        accepted = qgt.check_certificate(problem, y, ours)
        yield {
            "setting": name,
            "instances": len(y),
            "proved by both": int(both.sum()),
            "proved by us": int((ours.status == qgt.Status.PROVED).sum()),
            "disagreements": int((both & (apart > 2e-6)).sum()),
            "largest difference": float(apart[both].max()),
            "certificates accepted": int(accepted.sum()),
        }


# --- growth ---------------------------------------------------------------------------------------------------------


def growth(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """How many are proved within a budget of seconds per instance, as problems grow."""
    limit = arguments.time_limit or 1.0
    for items in (200, 400, 800):
        pools = 3 * items // 10
        g = torch.Generator().manual_seed(items)
        design = qgt.Design.column_regular(pools=pools, items=items, weight=8, generator=g)
        problem = qgt.Problem(design, qgt.Bernoulli(0.06), qgt.SparseInteger(0.1, 1))
        x, y = problem.simulate(arguments.instances or 60, generator=g)
        row: dict[str, Any] = {"N": items, "M": pools, "instances": len(y), "budget": limit, "device": arguments.device}
        decoders: dict[str, qgt.Decoder] = {"certified": qgt.Certified(odds=1.0, time_limit=limit)}
        if arguments.milp:
            # Each instance on its own core, and so with as much time in all as ours has.
            decoders["HiGHS"] = qgt.ExactMAP(
                time_limit=limit * torch.get_num_threads(), workers=torch.get_num_threads()
            )
        for name, decoder in decoders.items():
            start = time.perf_counter()
            result = decoder.bind(problem)(y.to("cpu" if name == "HiGHS" else arguments.device))
            row[name] = {
                "proved": int((result.status == qgt.Status.PROVED).sum()),
                "right": int((result.x.cpu() == x).all(1).sum()),
                "seconds": round(time.perf_counter() - start, 1),
            }
        yield row


def draw(results: Path) -> None:
    """The reliability of the confidence, from the results alone."""
    from page_tables.certified import confidence_bins
    from qgt.pictures.figures import reliability_figure, save_figure

    rows = json.loads(results.read_text())["success"]
    curves = {
        f"{pools} pools, odds {odds}": confidence_bins([r for r in rows if (r["M"], r["odds"]) == (pools, odds)])
        for pools, odds in ((20, 100), (22, 100), (25, 100))
    }
    figure = reliability_figure(curves, "confidence", "share of answers that are right", decoder="certified")
    save_figure(figure, Path("docs/images/certified_reliability.png"), "png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parts = {"speed": speed, "recordings": recordings, "success": success, "agreement": agreement, "growth": growth}
    parser.add_argument("part", choices=[*parts, "draw"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pools", type=int, nargs="*", help="only these numbers of pools")
    parser.add_argument("--odds", type=float, nargs="*", default=[1.0, 100.0])
    parser.add_argument("--instances", type=int, help="in each cell")
    parser.add_argument("--designs", type=int, default=5)
    parser.add_argument("--milp", type=int, default=1000, help="instances for SciPy's solver; 0 leaves it out")
    parser.add_argument("--time-limit", type=float, help="seconds per instance")
    parser.add_argument("-o", "--output", type=Path, default=Path("results/certified.json"))
    arguments = parser.parse_args()
    if arguments.part == "draw":
        return draw(arguments.output)
    stored = json.loads(arguments.output.read_text()) if arguments.output.exists() else {}
    name = arguments.part if arguments.device == "cpu" else f"{arguments.part} on {arguments.device}"
    rows = stored.setdefault(name, [])
    stored[f"{name}, measured on"] = provenance(arguments.device)
    for row in parts[arguments.part](arguments):
        rows.append(row)
        print(json.dumps({key: value for key, value in row.items() if key not in ("outcomes", "items")}), flush=True)
        write(arguments.output, stored)  # so far, lest it be lost


if __name__ == "__main__":
    main()
