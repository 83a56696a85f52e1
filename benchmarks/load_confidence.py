"""Whether the confidence of `LoadPosterior`, as it is and not calibrated, is right: random designs, assays and rates.

    python benchmarks/load_confidence.py --problems 108 --plates 20 --processes 2 -o results/load_confidence.json

Each problem has 8 to 20 samples in random pools, one of six assays, one of three laws, and a rate of 1 to 20 %.
Counted are plates, by confidence, and samples called at a probability below 1 % or above 99 %. Plates whose list is not
complete call nobody, so their samples are not counted.
"""

import argparse
import functools
import itertools
import math
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import qgt
from qgt.trust.metrics import wilson
from setting import in_processes, provenance, write

BINS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0000001)
ASSAYS = {
    "cycles": qgt.CycleThreshold(sigma=0.25, limit=38.0),
    "wide cycles": qgt.CycleThreshold(sigma=0.4, limit=37.0),
    "drop-outs": qgt.CycleThreshold(sigma=0.25, limit=38.0, dropout=0.03),
    "background": qgt.CycleThreshold(0.3, limit=37.0, background=3.0, background_sigma=0.5, dilution=1.0),
    "amounts": qgt.Amount(relative=0.2, absolute=1.0),
    "precise amounts": qgt.Amount(relative=0.07, absolute=0.5),
}
RATES = (0.01, 0.03, 0.05, 0.1, 0.15, 0.2)


def problem_of(seed: int) -> qgt.Problem:
    """A random problem; the assays take turns."""
    generator = torch.Generator().manual_seed(seed)
    items = int(torch.randint(8, 21, (1,), generator=generator))
    pools = int(torch.randint(5, max(7, 2 * items // 3), (1,), generator=generator))
    if seed % 2:
        design = qgt.Design.column_regular(pools=pools, items=items, weight=3, generator=generator)
    else:
        matrix = (torch.rand(pools, items, generator=generator) < 0.35).to(torch.uint8)
        matrix[0] |= 1 - matrix.amax(0)  # no sample without a pool
        design = qgt.Design.from_matrix(matrix)
    rate = RATES[seed // len(ASSAYS) % len(RATES)]
    measured = torch.cat([0.8 + 0.4 * torch.randn(30, generator=generator), 3 + torch.randn(20, generator=generator)])
    laws = (
        qgt.Loads(rate=rate, mean=2.9, sd=1.9, low=0.0),
        qgt.Loads(rate=rate, mean=2.0, sd=1.0, low=0.0, high=4.0),
        qgt.Loads(rate=rate, values=measured.double().tolist()),
    )
    return qgt.Problem(design, laws[seed % 3], list(ASSAYS.values())[seed // 2 % len(ASSAYS)])


def counted(seed: int, plates: int) -> dict[str, Any]:
    """What became of the plates of one problem."""
    problem = problem_of(seed)
    x, y = problem.simulate(plates, generator=torch.Generator().manual_seed(seed))
    before = time.process_time()
    result = qgt.LoadPosterior().bind(problem)(y)
    seconds = time.process_time() - before
    confidence, complete, marginals = result.evidence.confidence, result.evidence.complete, result.evidence.marginals
    assert confidence is not None and complete is not None and marginals is not None
    positive, p = (x > 0)[complete], marginals[complete]
    own = result.scores
    assert own is not None
    truth = torch.where(x > 0, own, 1 - own).clamp(min=1e-9).log().sum(1)  # a proper score of the marginals
    return {
        "right": (result.x == (x > 0)).all(1).tolist(),
        "confidence": confidence.tolist(),
        "complete": complete.tolist(),
        "low": [int((p < 0.01).sum()), int(((p < 0.01) & positive).sum()), float(p[p < 0.01].sum())],
        "high": [int((p > 0.99).sum()), int(((p > 0.99) & ~positive).sum()), float((1 - p[p > 0.99]).sum())],
        "score": truth.tolist(),
        "cpu_seconds": seconds,
    }


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Plates in bins of confidence, and calls."""
    confidence = torch.tensor([one for row in rows for one in row["confidence"]], dtype=torch.float64)
    right = torch.tensor([one for row in rows for one in row["right"]])
    bins = [_bin(confidence, right, low, high) for low, high in itertools.pairwise(BINS)]
    added = {name: [sum(row[name][i] for row in rows) for i in range(3)] for name in ("low", "high")}
    named = {
        f"{name}_{what}": added[name][i] for name in added for i, what in enumerate(("called", "wrong", "expected"))
    }
    score = sum(one for row in rows for one in row["score"]) / len(right)
    complete = sum(sum(row["complete"]) for row in rows)
    seconds = sum(row["cpu_seconds"] for row in rows)
    return {"plates": len(right), "complete": complete, "bins": bins, **named, "score": score, "cpu_seconds": seconds}


def _bin(confidence: Tensor, right: Tensor, low: float, high: float) -> dict[str, Any]:
    inside = (confidence >= low) & (confidence < high)
    number, hits = int(inside.sum()), int(right[inside].sum())
    mean = float(confidence[inside].mean()) if number else 0.0
    share = round(hits / number, 4) if number else 0.0
    ends = [round(end, 4) for end in wilson(hits, number)] if number else [0.0, 1.0]
    return {"from": low, "plates": number, "mean": round(mean, 4), "right": share, "interval": ends}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--plates", type=int, default=20, help="of each problem")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so many, with what has ended")
    parser.add_argument("-o", "--output", type=Path)
    given = parser.parse_args()
    work = functools.partial(counted, plates=given.plates)
    rows: list[dict[str, Any]] = []
    for row in in_processes(work, range(given.problems), processes=given.processes, seconds=60 * given.minutes):
        rows.append(row)
        print(f"{len(rows)} of {given.problems} problems", flush=True)
    found = summary(rows)
    for one in found["bins"]:
        print(one)
    print({name: value for name, value in found.items() if name != "bins"}, flush=True)
    if given.output:
        write(given.output, {**provenance("cpu"), **found})


if __name__ == "__main__":
    main()
