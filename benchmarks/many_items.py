"""Certified and the programs of HiGHS on ever more items, in small pools: seconds for each of some instances.

python benchmarks/many_items.py                                    # 3 instances each of 1,000 to 20,000 items
python benchmarks/many_items.py --sizes 20000 --instances 10       # one size again: its rows are replaced

Every item is in 4 pools, M/N = 0.1, 0.5 % of items are defective, S/N = 0.1. Instances are decoded one at a time, and
the median counts beside the mean: some linear programs take 50 times as long as others.
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 2000, 5000, 10_000, 20_000])
    parser.add_argument("--instances", type=int, default=3)
    parser.add_argument("-o", "--output", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    old = json.loads(arguments.output.read_text())["rows"] if arguments.output.exists() else []
    for items in arguments.sizes:
        old = [row for row in old if row["items"] != items] + measured(items, arguments.instances)
        rows = sorted(old, key=lambda row: row["items"])
        write(arguments.output, {"measured on": provenance("cpu"), "rows": rows})


if __name__ == "__main__":
    main()
