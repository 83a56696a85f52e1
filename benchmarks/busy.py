"""Time of `Certified` beside busy neighbours: one thread, torch's threads inside operations, and threads by instances.

    python benchmarks/busy.py --output results/busy.json

Neighbours are processes that this script starts, each of which keeps a core busy. The three ways take turns within a
run, so that whatever else the machine does befalls all of them; the load at the start of each row is written down.
`split` is how decoders worked before they shared out batches: torch splits each operation over its threads.
"""

import argparse
import contextlib
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import qgt
from qgt.decoders.contract import BoundDecoder
from setting import paper_problem, provenance, write

BATCHES, POOLS, NEIGHBOURS, NOISE = (1, 40, 1000), (35, 25), (0, 1, 2), 0.1
EASY = 0.25  # seconds for each instance of the problem with fewer pools: a few of them take minutes


def neighbour() -> None:
    """Keep a core busy."""
    while True:
        sum(range(100_000))


@contextlib.contextmanager
def neighbours(number: int) -> Iterator[None]:
    """So many busy processes."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=neighbour, daemon=True) for _ in range(number)]
    for process in processes:
        process.start()
    time.sleep(0.5 * bool(processes))  # until they are busy
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def ways(decode: BoundDecoder, threads: int) -> dict[str, tuple[BoundDecoder, int]]:
    """Decoders, with the number of torch's threads that each is called with."""
    split = replace(decode, least_part=None)
    return {"one": (decode, 1), "split": (split, threads), "shared": (decode, threads)}


def seconds(decode: Callable[[torch.Tensor], object], y: torch.Tensor, threads: int) -> float:
    """How long a batch takes."""
    torch.set_num_threads(threads)  # this process is the benchmark's own
    start = time.perf_counter()
    decode(y)
    return time.perf_counter() - start


def row(pools: int, batch: int, busy: int, given: argparse.Namespace) -> dict[str, Any]:
    """The median of each way, and the median ratios to one thread in the same turn."""
    problem = paper_problem(pools=pools, noise=NOISE, seed=0)
    y = problem.simulate(batch, generator=torch.Generator().manual_seed(1)).y
    decode = qgt.Certified(time_limit=None if pools == max(POOLS) else EASY).bind(problem)
    assert isinstance(decode, BoundDecoder)
    decode(y[:1])
    found: dict[str, list[float]] = {}
    with neighbours(busy):
        load = os.getloadavg()[0]
        for _ in range(given.turns):
            for name, (way, threads) in ways(decode, given.threads).items():
                found.setdefault(name, []).append(seconds(way, y, threads))
    ratios = {
        f"{name}_to_one": statistics.median(a / b for a, b in zip(found[name], found["one"], strict=True))
        for name in ("split", "shared")
    }
    medians = {name: statistics.median(times) for name, times in found.items()}
    return {"pools": pools, "batch": batch, "neighbours": busy, "load": load, **medians, **ratios}


def main() -> None:
    """Measure every row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("results/busy.json"))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--pools", type=int, nargs="+", default=POOLS)
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES)
    given = parser.parse_args()
    rows = []
    for pools in given.pools:
        for batch in given.batches:
            for busy in NEIGHBOURS:
                rows.append(row(pools, batch, busy, given))
                print(rows[-1], flush=True)
    about = {**provenance("cpu"), "threads": given.threads, "turns": given.turns, "cores": os.cpu_count()}
    write(given.output, {"about": about, "rows": rows})


if __name__ == "__main__":
    main()
