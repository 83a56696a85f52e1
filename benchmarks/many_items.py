"""Certified and the programs of HiGHS on ever more items, in small pools: seconds for each of some instances.

python benchmarks/many_items.py                                    # 3 instances each of 1,000 to 20,000 items
python benchmarks/many_items.py --sizes 20000 --instances 10       # one size again: its rows are replaced
python benchmarks/many_items.py --hard --sizes 1000 2000 3000 5000 10000 --instances 10

Every item is in 4 pools, M/N = 0.1, 0.5 % of items are defective, S/N = 0.1. Instances are decoded one at a time, and
the median counts beside the mean: some linear programs take 50 times as long as others.

`--hard`: every item is in 8 pools, M/N = 0.25, 6 % are defective. `Certified` gets a minute for each instance, at odds
1; for instances without a proof the gap says how much more probable than its answer another one may be, in nats.
"""

import argparse
import json
import time
from pathlib import Path
from statistics import mean, median
from typing import Any

import torch

import qgt
from setting import provenance, write

MINUTE = 60.0
OUTPUT = Path("results/many_items.json")
DECODERS = {
    "certified": qgt.Certified(),
    "certified, odds 1": qgt.Certified(odds=1.0),
    "exact": qgt.ExactMAP(),
    "linear program": qgt.LinearProgram(),
}


def measured(items: int, instances: int) -> list[dict[str, Any]]:
    """One row for each decoder."""
    generator = torch.Generator().manual_seed(items)
    design = qgt.Design.column_regular(pools=items // 10, items=items, weight=4, generator=generator)
    problem = qgt.Problem(design, qgt.Bernoulli(0.005), qgt.SparseInteger(rate=0.1, bound=1))
    y, rows = problem.simulate(instances, generator=generator).y, []
    for name, decoder in DECODERS.items():
        decode, seconds, proved = decoder.bind(problem), [], 0
        decode(y[:1])  # the first call pays for set-up
        for one in y.split(1):
            start = time.perf_counter()
            result = decode(one)
            seconds.append(time.perf_counter() - start)
            proved += int(result.status[0] == qgt.Status.PROVED)
            assert result.proof is None or bool(qgt.check_certificate(problem, one, result)[0])
        row = {"items": items, "decoder": name, "instances": instances, "proved": proved}
        rows.append({**row, "median": round(median(seconds), 3), "mean": round(mean(seconds), 3)})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def measured_hard(items: int, instances: int) -> dict[str, Any]:
    """What Certified proves within a minute where items are in many pools."""
    generator = torch.Generator().manual_seed(items)
    design = qgt.Design.column_regular(pools=items // 4, items=items, weight=8, generator=generator)
    problem = qgt.Problem(design, qgt.Bernoulli(0.06), qgt.SparseInteger(rate=0.1, bound=1))
    x, y = problem.simulate(instances, generator=generator)
    decode, found, gaps, right, proved = qgt.Certified(odds=1.0, time_limit=MINUTE).bind(problem), [], [], 0, 0
    for truth, one in zip(x, y.split(1), strict=True):
        start = time.perf_counter()
        result = decode(one)
        found.append(time.perf_counter() - start)
        right += int((result.x[0] == truth).all())
        if result.status[0] == qgt.Status.PROVED:
            proved += 1
            assert bool(qgt.check_certificate(problem, one, result)[0])
        elif result.evidence.gap is not None:
            gaps.append(float(result.evidence.gap[0]))
    row = {
        "items": items,
        "instances": instances,
        "proved": proved,
        "right": right,
        "gaps": [round(g, 2) for g in gaps],
    }
    row |= {"median": round(median(found), 2), "most": round(max(found), 2)}
    print(json.dumps(row), flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 2000, 5000, 10_000, 20_000])
    parser.add_argument("--instances", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path, default=OUTPUT)
    parser.add_argument("--hard", action="store_true", help="items in 8 pools")
    arguments = parser.parse_args()
    stored = json.loads(arguments.output.read_text()) if arguments.output.exists() else {}
    part = "hard" if arguments.hard else "rows"
    for items in arguments.sizes:
        new = [measured_hard(items, arguments.instances)] if arguments.hard else measured(items, arguments.instances)
        rows = [row for row in stored.get(part, []) if row["items"] != items] + new
        stored |= {part: sorted(rows, key=lambda row: row["items"]), f"{part} measured on": provenance("cpu")}
        write(arguments.output, stored)


if __name__ == "__main__":
    main()
