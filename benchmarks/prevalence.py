"""What it costs not to know the prevalence: exact answers with the true rate, and with a range of rates.

    python benchmarks/prevalence.py --instances 2000     # results/prevalence.json

The same instances for both: N = 100, a tenth of the counts off by one. All instances of a row have its rate, and the
decoder that does not know it is told 1 to 15 %.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch

import qgt
from setting import paper_problem, provenance, write

POOLS, RATES = (25, 30, 35), (0.03, 0.06, 0.1)
ANY = qgt.UnknownRate(0.01, 0.15)


def measured(pools: int, rate: float, instances: int, seconds: float) -> dict[str, Any]:
    """How many answers are right, with the true rate and with the range."""
    design = paper_problem(pools=pools, noise=0.1, seed=7).design
    noise = qgt.SparseInteger(rate=0.1, bound=1)
    known = qgt.Problem(design, qgt.Bernoulli(rate), noise)
    x, y = known.simulate(instances, generator=torch.Generator().manual_seed(pools))
    row: dict[str, Any] = {"M": pools, "rate": rate, "instances": instances}
    right = {}
    for name, prior in (("known", known.prior), ("unknown", ANY)):
        decode = qgt.Certified(odds=1.0, time_limit=seconds, certificates=False).bind(qgt.Problem(design, prior, noise))
        result = decode(y)
        right[name] = (result.x == x).all(1)
        row[name] = {"right": int(right[name].sum()), "proved": int((result.status == qgt.Status.PROVED).sum())}
    row["only known"] = int((right["known"] & ~right["unknown"]).sum())
    row["only unknown"] = int((right["unknown"] & ~right["known"]).sum())
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--instances", type=int, default=2000)
    parser.add_argument("--pools", type=int, nargs="+", default=list(POOLS))
    parser.add_argument("--rates", type=float, nargs="+", default=list(RATES))
    parser.add_argument("--time-limit", type=float, default=0.5, help="seconds per instance")
    parser.add_argument("-o", "--output", type=Path, default=Path("results/prevalence.json"))
    told = parser.parse_args()
    stored = json.loads(told.output.read_text()) if told.output.exists() else {"rows": []}
    for pools in told.pools:
        for rate in told.rates:
            row = measured(pools, rate, told.instances, told.time_limit)
            rest = [old for old in stored["rows"] if (old["M"], old["rate"]) != (pools, rate)]
            rows = sorted([*rest, row], key=lambda one: (one["M"], one["rate"]))
            stored = {"measured_on": provenance("cpu"), "time_limit": told.time_limit, "rows": rows}
            print(json.dumps(row), flush=True)
            write(told.output, stored)


if __name__ == "__main__":
    main()
