"""Copies and categories: how often they are right and proved, beside message passing, linear programs and thresholding.

    python benchmarks/categories.py success -o results/categories.json        # N = 100, 20 to 40 pools, one thread
    python benchmarks/categories.py brute -o results/categories.json          # small problems against every x
    python benchmarks/categories.py correlation -o results/categories.json    # the setting of Tan et al. 2024

`success`: items are in one of 2, 3 or 4 categories, 6 % of them not in the first; or have 0, 1 or 2 copies of an allele
of frequency 3 %, so that pools of all problems have as many to count. Noisy reports are off by one, as in the paper's
setting. Every instance is decoded by itself. `proved` counts answers that are shown to be the most probable ones in one
second of one core's time, which does not depend on what else the machine does. Where all are proved, the share of right
answers is the limit of all decoders. The same instances go to all.

`brute`: small random problems with any noise, missing reports and arbitrary ones. Counted are the problems in which
`Certified` finds, proves and lists what trying every x does, and in which its certificates are accepted.

`correlation`: 500 items, 0/1 with a share of 0.1 or 0.3, exact counts, designs of density 1/2: the squared correlation
of AMP's answers with the truth, at pools over items of 0.1 to 1, and what state evolution predicts of it; and the same
for three categories of equal shares.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))  # where the random problems are made

import numpy as np
import torch
from torch import Tensor

import qgt
from qgt.decoders.pooled import value_vectors
from qgt.theory.evolution import evolve_vectors
from random_values import equals_brute_force, random_case
from setting import provenance, write

ITEMS, DESIGNS = 100, 4
MOST_SECONDS = 3.0  # by the clock, for searches that share the machine with others
PRIORS: dict[str, qgt.Categories | qgt.Copies] = {
    "2 categories": qgt.Categories((0.06,)),
    "3 categories": qgt.Categories((0.03, 0.03)),
    "4 categories": qgt.Categories((0.02, 0.02, 0.02)),
    "0, 1, 2 copies": qgt.Copies(frequency=0.03, ploidy=2),
}
OTHERS: dict[str, qgt.Decoder] = {
    "amp": qgt.PooledAMP(),
    "linear_program": qgt.LinearProgram(),
    "iht": qgt.PooledIHT(),
}


def noise_of(rate: float) -> qgt.Noise:
    """Counts that are off by one now and then."""
    return qgt.SparseInteger(rate=rate, bound=1) if rate else qgt.Noiseless()


def one_by_one(problem: qgt.Problem, x: Tensor, y: Tensor) -> list[tuple[bool, bool, float]]:
    """Whether each answer is right, whether it was proved in a second of one core's time, and its seconds."""
    decode = qgt.Certified(odds=1.0, time_limit=MOST_SECONDS, certificates=False).bind(problem)
    decode(y[:1])  # warm
    found = []
    for i in range(len(y)):
        start = time.process_time()
        result = decode(y[i : i + 1])
        seconds = time.process_time() - start
        proved = int(result.status[0]) == qgt.Status.PROVED and seconds <= 1.0
        found.append((bool((result.x[0] == x[i]).all()), proved, seconds))
    return found


def success(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each kind of items, number of pools and noise."""
    for name, prior in PRIORS.items():
        if not name.startswith(arguments.rows):
            continue
        for pools in arguments.pools:
            for rate in (0.0, 0.1):
                yield _row(name, prior, pools, rate, arguments.instances)


def _row(name: str, prior: qgt.Categories | qgt.Copies, pools: int, rate: float, instances: int) -> dict[str, Any]:
    ours: list[tuple[bool, bool, float]] = []
    right = dict.fromkeys(OTHERS, 0)
    seconds = dict.fromkeys(OTHERS, 0.0)
    for seed in range(DESIGNS):
        g = torch.Generator().manual_seed(1000 * pools + seed)
        problem = qgt.Problem(qgt.Design.bernoulli(pools=pools, items=ITEMS, generator=g), prior, noise_of(rate))
        x, y = problem.simulate(instances // DESIGNS, generator=g)
        ours += one_by_one(problem, x, y)
        for other, decoder in OTHERS.items():
            decode = decoder.bind(problem)
            start = time.process_time()
            right[other] += int((decode(y).x == x).all(1).sum())
            seconds[other] += time.process_time() - start
    times = 1e3 * np.array([each for *_, each in ours])
    return {
        "items": name,
        "pools": pools,
        "noise": rate,
        "instances": len(ours),
        "right": sum(one for one, *_ in ours),
        "proved": sum(proved for _, proved, _ in ours),
        "median_ms": round(float(np.median(times)), 2),
        "mean_ms": round(float(times.mean()), 2),
        "others": {
            other: {"right": right[other], "ms": round(1e3 * seconds[other] / len(ours), 2)} for other in OTHERS
        },
    }


def brute(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each kind: problems, and those that agree with trying every x in everything."""
    for kind in ("copies", "categories"):
        if not kind.startswith(arguments.rows):
            continue
        g = torch.Generator().manual_seed(2027)
        odds = (1.0, 5.0, 100.0)
        equal = [equals_brute_force(random_case(kind, g), odds[number % 3]) for number in range(arguments.problems)]
        yield {"kind": kind, "problems": len(equal), "instances": 4 * len(equal), "equal": sum(equal)}


def correlation(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each prior and ratio of pools to items."""
    priors = {
        "0/1, share 0.1": qgt.Categories((0.1,)),
        "0/1, share 0.3": qgt.Categories((0.3,)),
        "3 equal categories": qgt.Categories((1 / 3, 1 / 3)),
    }
    for name, prior in priors.items():
        for ratio in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0):
            g = torch.Generator().manual_seed(round(100 * ratio))
            found = [_squared(prior, round(500 * ratio), g) for _ in range(arguments.instances // 5)]
            vectors = value_vectors(prior)
            final = evolve_vectors(vectors, prior.distribution, ratio, generator=g)
            predicted = _predicted(vectors, prior, final, ratio)
            yield {
                "items": name,
                "ratio": ratio,
                "instances": len(found),
                "amp": round(float(np.mean(found)), 3),
                "state_evolution": round(predicted, 3),
            }


def _squared(prior: qgt.Categories, pools: int, g: torch.Generator) -> float:
    """The squared correlation of AMP's mean vectors with the truth, in one instance with a design of its own."""
    problem = qgt.Problem(qgt.Design.bernoulli(pools=pools, items=500, generator=g), prior)
    x, y = problem.simulate(1, generator=g)
    each = qgt.PooledAMP(iterations=200).bind(problem)(y).evidence.values
    assert each is not None
    vectors = value_vectors(prior)
    guess, truth = each[0] @ vectors, vectors[x[0].long()]
    overlap = float((guess * truth).sum()) ** 2
    return overlap / max(1e-300, float(guess.square().sum() * truth.square().sum()))


def _predicted(vectors: Tensor, prior: qgt.Categories, final: Tensor, ratio: float) -> float:
    """The same by state evolution: 1 less the mean squared error over the mean square, for means given the reports."""
    square = float((torch.tensor(prior.distribution, dtype=torch.float64) @ vectors.square()).sum())
    return 1 - min(1.0, float(final.diagonal().sum()) * ratio / square)


PARTS = {"success": success, "brute": brute, "correlation": correlation}


def main() -> None:
    """Measure one part, and put its rows into the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--pools", type=int, nargs="+", default=[20, 25, 30, 35, 40])
    parser.add_argument("--rows", default="", help="Only the kind whose name begins so.")
    parser.add_argument("--instances", type=int, default=100)
    parser.add_argument("--problems", type=int, default=500)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for row in PARTS[arguments.part](arguments):
        print(json.dumps(row), flush=True)
        rows.append(row)
    if arguments.output is not None:
        before = json.loads(arguments.output.read_text()) if arguments.output.exists() else {}
        write(arguments.output, {**before, **provenance("cpu"), arguments.part: rows})


if __name__ == "__main__":
    main()
