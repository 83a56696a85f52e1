"""Time of `Certified` beside busy neighbours: one thread, torch's threads inside operations, and threads by instances.

    python benchmarks/busy.py --output results/busy.json

Neighbours are processes that this script starts, each of which keeps a core busy. The four ways take turns within a
run, so that whatever else the machine does befalls all of them; the load at the start of each row is written down.
`split` is how decoders worked before they shared out batches: torch splits each operation over its threads.
`processes` divides the batch among processes that are running already and share nothing, so threads cannot be expected
to be faster.
"""

import argparse
import contextlib
import functools
import itertools
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import torch

import qgt
from qgt.decoders.contract import BoundDecoder
from setting import paper_problem, provenance, write

BATCHES, POOLS, NEIGHBOURS, NOISE = (1, 40, 1000), (35, 25), (0, 1, 2), 0.1
SMALL, MORE_TURNS = 40, 10  # instances up to which a batch takes milliseconds, which scatter
ROW = ("pools", "batch", "neighbours")  # a row that is measured again replaces the old one
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


class Part:
    """What one of several processes decodes of a batch."""

    parts: ClassVar[list[Callable[[], object]]]

    @classmethod
    def prepare(cls, pools: int, batch: int, parts: int) -> None:
        """Bind the decoder, in a process of its own; the part is chosen later."""
        torch.set_num_threads(1)
        decode, y = bound(pools, batch)
        cls.parts = [functools.partial(decode, part) for part in y.chunk(parts)]

    @classmethod
    def run(cls, part: int) -> None:
        """Decode one part."""
        cls.parts[part]()


def bound(pools: int, batch: int) -> tuple[BoundDecoder, torch.Tensor]:
    """The decoder and the counts of a row."""
    problem = paper_problem(pools=pools, noise=NOISE, seed=0)
    y = problem.simulate(batch, generator=torch.Generator().manual_seed(1)).y
    decode = qgt.Certified(time_limit=None if pools == max(POOLS) else EASY).bind(problem)
    assert isinstance(decode, BoundDecoder)
    decode(y[:1])
    return decode, y


@contextlib.contextmanager
def processes(pools: int, batch: int, number: int) -> Iterator[Callable[[], object]]:
    """Decodes a batch in so many processes."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(number, Part.prepare, (pools, batch, number)) as pool:
        yield lambda: pool.map(Part.run, range(min(number, batch)), chunksize=1)


def seconds(decode: Callable[[], object], threads: int) -> float:
    """How long a batch takes."""
    torch.set_num_threads(threads)  # this process is the benchmark's own
    start = time.perf_counter()
    decode()
    return time.perf_counter() - start


def row(pools: int, batch: int, busy: int, given: argparse.Namespace) -> dict[str, Any]:
    """The median of each way, and the median ratios to one thread in the same turn."""
    decode, y = bound(pools, batch)
    found: dict[str, list[float]] = {}
    with neighbours(busy), processes(pools, batch, given.threads) as in_processes:
        in_processes()  # all of them have started
        load = os.getloadavg()[0]
        for turn in range(given.turns * (MORE_TURNS if batch <= SMALL else 1)):
            for name, (way, threads) in ways(decode, given.threads).items():
                if name != "split" or turn < given.turns:  # it may take a hundred times as long
                    found.setdefault(name, []).append(seconds(functools.partial(way, y), threads))
            found.setdefault("processes", []).append(seconds(in_processes, given.threads))
    ratios = {
        f"{name}_to_one": statistics.median(a / b for a, b in zip(found[name], found["one"], strict=False))
        for name in ("split", "shared", "processes")
    }
    medians = {name: statistics.median(times) for name, times in found.items()}
    return {"pools": pools, "batch": batch, "neighbours": busy, "turns": given.turns, "load": load, **medians, **ratios}


def main() -> None:
    """Measure every row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("results/busy.json"))
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--pools", type=int, nargs="+", default=POOLS)
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES)
    parser.add_argument("--neighbours", type=int, nargs="+", default=NEIGHBOURS)
    given = parser.parse_args()
    about = {**provenance("cpu"), "threads": given.threads, "cores": os.cpu_count()}
    rows = json.loads(given.output.read_text())["rows"] if given.output.exists() else []
    for pools, batch, busy in itertools.product(given.pools, given.batches, given.neighbours):
        new = row(pools, batch, busy, given)
        print(new, flush=True)
        rows = [old for old in rows if any(old[key] != new[key] for key in ROW)] + [new]
        rows.sort(key=lambda one: (-one["pools"], one["batch"], one["neighbours"]))
        write(given.output, {"about": about, "rows": rows})


if __name__ == "__main__":
    main()
