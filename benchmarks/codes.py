"""Sparse-graph codes with peeling: pools used beside the paper's formula, and how many instances are solved.

python benchmarks/codes.py --items 65536 --defectives 100 1000 --instances 5        # adds to results/codes.json
python benchmarks/codes.py --processes 16 --instances 50                            # N = 2^20, all of it
python benchmarks/codes.py --corrected 2 --spares 0.1                               # some of it

Exact counts of K defectives among N items. `spare` is the share of nodes beyond the least for N without limit. A solved
instance is one that peeling settles whole, and it must then be right. Each design has a few instances of its own.
Rows that are in the file already are not measured again; the file is whole at any moment.
"""

import argparse
import hashlib
import itertools
import json
import math
import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

import torch

import qgt
from qgt.files.store import write_text
from qgt.model.constructions import DEGREES, THRESHOLDS

RESULTS = Path(__file__).resolve().parents[1] / "results/codes.json"
EACH = 5  # instances of one design


class Point(NamedTuple):
    """What is measured."""

    items: int
    defectives: int
    corrected: int
    spare: float
    instances: int


def formula(items: int, defectives: int, corrected: int) -> int:
    """The pools of Karimi et al. (2019): m = c K (t log2(l N / (c K) + 1) + 1) + 1."""
    nodes = THRESHOLDS[corrected] * defectives
    return math.ceil(nodes * (corrected * math.log2(DEGREES[corrected] * items / nodes + 1) + 1) + 1)


def measure(point: Point) -> dict[str, object]:
    """Designs of a few instances each, until there are as many as asked for."""
    torch.set_num_threads(1)
    solved = wrong = done = pools = transfers = 0
    making, binding, decoding = 0.0, 0.0, 0.0
    while done < point.instances:
        text = f"{point.items} {point.defectives} {point.corrected} {point.spare} {done}"
        generator = torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "little"))
        start = time.perf_counter()
        design = qgt.Design.sparse_graph_code(
            items=point.items,
            defectives=point.defectives,
            corrected=point.corrected,
            spare=point.spare,
            generator=generator,
        )
        made = time.perf_counter()
        problem = qgt.Problem(design, qgt.FixedWeight(point.defectives))
        decode = qgt.Peeling().bind(problem)
        bound = time.perf_counter()
        x, y = problem.simulate(min(EACH, point.instances - done), generator=generator)
        drawn = time.perf_counter()
        found = decode(y)
        decoding += time.perf_counter() - drawn
        making, binding = making + made - start, binding + bound - made
        whole = found.status == qgt.Status.PROVED
        solved, wrong = solved + int(whole.sum()), wrong + int((found.x != x).any(1)[whole].sum())
        done, pools, transfers = done + len(x), pools + design.pools * len(x), transfers + len(design.lists.entries)
    designs = -(-done // EACH)
    return {
        **point._asdict(),
        "pools": round(pools / done),
        "formula": formula(point.items, point.defectives, point.corrected),
        "solved": solved,
        "solved_but_wrong": wrong,
        "transfers": transfers // designs,
        "design_seconds": round(making / designs, 3),
        "bind_seconds": round(binding / designs, 3),
        "decode_seconds": round(decoding / done, 4),
        "gigabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="+", default=[2**20])
    parser.add_argument("--defectives", type=int, nargs="+", default=[100, 300, 1000, 3000, 10_000])
    parser.add_argument("--corrected", type=int, nargs="+", choices=[1, 2], default=[1, 2])
    parser.add_argument("--spares", type=float, nargs="+", default=[0.0, 0.05, 0.1, 0.2])
    parser.add_argument("--instances", type=int, default=10)
    parser.add_argument("--processes", type=int, default=1, help="each takes about 2.5 GB where N = 2^20")
    given = parser.parse_args()
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    grid = itertools.product(given.items, given.defectives, given.corrected, given.spares)
    points = [Point(*one, given.instances) for one in grid]
    missing = [point for point in points if not any(point._asdict().items() <= row.items() for row in rows)]
    context = multiprocessing.get_context("spawn")
    # A process for each point, so that its peak of memory is its own.
    with ProcessPoolExecutor(given.processes, mp_context=context, max_tasks_per_child=1) as pool:
        for done in as_completed([pool.submit(measure, point) for point in missing]):
            found = done.result()
            key = Point(*(found[name] for name in Point._fields))[:4]
            rows = [row for row in rows if tuple(row[name] for name in Point._fields[:4]) != key] + [found]
            rows.sort(key=lambda row: tuple(row[name] for name in ("items", "corrected", "defectives", "spare")))
            write_text(RESULTS, json.dumps(rows, indent=1) + "\n")
            print(found, flush=True)


if __name__ == "__main__":
    main()
