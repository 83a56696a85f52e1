"""What the benchmarks share: the paper's setting, and how results are written."""

import math
import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch

import qgt
from qgt import version as where
from qgt.files.documents import json_by_rows
from qgt.files.store import write_text

ITEMS, RATE, BOUND = 100, 0.06, 1  # N, K/N and D of the paper
Bins = list[tuple[int, float, int]]  # how many answers, the sum of their confidences, how many were right
Task, Result = TypeVar("Task"), TypeVar("Result")


def paper_problem(*, pools: int, noise: float, seed: int) -> qgt.Problem:
    """The paper's problem with a design of its own for every seed."""
    design = qgt.Design.bernoulli(pools=pools, items=ITEMS, generator=torch.Generator().manual_seed(seed))
    return qgt.Problem(design, qgt.Bernoulli(RATE), qgt.SparseInteger(rate=noise, bound=BOUND))


def provenance(device: str) -> dict[str, Any]:
    """What a result says about where and when it was measured."""
    return {**where.provenance(device), "date": time.strftime("%Y-%m-%d")}


def write(path: Path, results: Mapping[str, Any]) -> None:
    """Write results as JSON, one line per row so that changes show in a diff."""
    write_text(path, json_by_rows(results))
    print(f"wrote {path}")


def synchronize(device: str) -> None:
    """Wait for the device, so that a clock read next to it means something."""
    if device == "cuda":
        torch.cuda.synchronize()


def calibration_error(bins: Bins) -> float:
    """The mean distance of confidence and share of right answers, weighted by their number."""
    return sum(abs(total - right) for _, total, right in bins) / sum(n for n, _, _ in bins)


def scatter(bins: Bins) -> float:
    """The calibration error to be expected of perfect calibration: the mean deviation of the normal distribution."""
    deviation = [math.sqrt(2 / math.pi * total * (1 - total / n)) for n, total, _ in bins if n]
    return sum(deviation) / sum(n for n, _, _ in bins)


def in_processes(
    work: Callable[[Task], Result], tasks: Sequence[Task], *, processes: int, seconds: float
) -> Iterator[Result]:
    """What tasks give, as they end, one thread each; after so many seconds the rest is given up, however long it is."""
    end = time.perf_counter() + seconds
    if processes == 1:
        for task in tasks:
            if time.perf_counter() > end:
                return
            yield work(task)
        return
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(processes, torch.set_num_threads, (1,)) as pool:
        results = pool.imap_unordered(work, tasks)
        for _ in tasks:
            try:
                yield results.next(max(0.0, min(end - time.perf_counter(), threading.TIMEOUT_MAX)))
            except multiprocessing.TimeoutError:
                return
