"""Does a plan keep its promise? Random questions are planned, and new plates decoded with the recommended design.

    python benchmarks/plan_promise.py -o results/plan_promise.json --workers 16     # 20 questions, 1,000 plates each
    python benchmarks/plan_promise.py -o /tmp/small.json --questions 2 --plates 100 --largest 48 --seconds 10

A question has 24 to 384 samples, 0.5 to 10 % of them positive, and one of three assays. Its plan states a 99 % interval
for the share of plates that are decoded without an error. New plates, drawn with another seed and decoded with a second
each, give a share of their own; the promise is kept where that share is in the interval. As both shares are measured, a
true one falls outside now and then: `p` is that of Fisher's exact test that the two are the same.
"""

import argparse
import random
import sys
import time
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from scipy.stats import fisher_exact

import qgt
from qgt.lab.planning import Question, plan
from qgt.lab.samples import Samples
from qgt.lab.scouting import simulated
from setting import provenance, write

ASSAYS = {
    "exact counts": qgt.Noiseless(),
    "counts, 2 % off by one": qgt.SparseInteger(rate=0.02, bound=1),
    "readings, deviation 0.2": qgt.Gaussian(sigma=0.2),
}


def question(number: int, largest: int) -> tuple[str, Question]:
    """A random question; its number is its seed."""
    draw = random.Random(number)
    items = min(largest, round(24 * 16 ** draw.random()))  # 24 to 384, by ratio
    rate = 0.005 * 20 ** draw.random()  # 0.5 to 10 %
    low, high = max(0.0, 0.5 * rate * items), max(1.0, 1.5 * rate * items)
    name = list(ASSAYS)[number % len(ASSAYS)]
    asked = Question(
        Samples.numbered(items),
        (round(low, 1), round(high, 1)),
        ASSAYS[name],
        certainty=draw.choice([0.9, 0.95]),
        follow_ups=draw.random() < 0.5,
    )
    return name, asked


def row(number: int, plates: int, seconds: float, largest: int) -> dict[str, Any]:
    """One question: what was promised and what came."""
    torch.set_num_threads(1)
    name, asked = question(number, largest)
    start = time.perf_counter()
    made = plan(asked, generator=torch.Generator().manual_seed(number), seconds=seconds)
    planned, one = time.perf_counter() - start, made.recommended
    seen = simulated(
        made.problem,
        plates,
        retest_below=asked.certainty if asked.follow_ups else None,
        generator=torch.Generator().manual_seed(10**6 + number),
        seconds=plates * 1.0,
    )
    table = [[one.successes, one.plates - one.successes], [seen.right, seen.plates - seen.right]]
    return {
        "question": number,
        "samples": len(asked.samples),
        "positives": list(asked.positives),
        "assay": name,
        "certainty": asked.certainty,
        "follow_ups": asked.follow_ups,
        "seconds": round(planned, 1),
        "reached": made.reached,
        "pools": one.pools,
        "weight": one.weight,
        "promised": [one.successes, one.plates, round(one.interval.low, 4), round(one.interval.high, 4)],
        "seen": [seen.right, seen.plates],
        "kept": one.interval.low <= seen.success <= one.interval.high,
        "better": seen.success > one.interval.high,
        "p": float(fisher_exact(table)[1]),
        "tests": [round(one.tests, 2), round(one.pools + seen.follow_ups / seen.plates, 2)],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("results/plan_promise.json"))
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--plates", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=45.0, help="for each plan")
    parser.add_argument("--largest", type=int, default=384, help="samples")
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    jobs = [(number, given.plates, given.seconds, given.largest) for number in range(given.questions)]
    if given.workers == 1:
        rows = [row(*job) for job in jobs]
    else:
        with get_context("spawn").Pool(given.workers) as pool:
            rows = pool.starmap(row, jobs, chunksize=1)
    for one in rows:
        print(one)
    kept = sum(one["kept"] for one in rows)
    better, least = sum(one["better"] for one in rows), min(one["p"] for one in rows)
    print(f"{kept} of {len(rows)} promises kept, {better} exceeded; least p: {least:.2g}")
    write(given.output, {"measured_on": provenance("cpu"), "rows": rows})
    return int(any(not one["kept"] and not one["better"] and one["p"] < 0.05 / len(rows) for one in rows))


if __name__ == "__main__":
    sys.exit(main())
