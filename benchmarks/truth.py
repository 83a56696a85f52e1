"""Certified answers held against the truth: a proof that is wrong would show as a truth more probable than the answer.

    python benchmarks/truth.py --device cuda --instances 100000 -o results/truth.json

For every simulated instance the truth is one x among all, so its probability bounds that of the most probable one from
below: PROVED is false where the truth is more probable than the answer, INFEASIBLE where the truth is possible.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import torch

import qgt
from setting import provenance, write

CLOSE = 2e-6  # nats: what counts as equally probable
SEED = 20


def problems() -> Iterator[tuple[str, qgt.Problem, float]]:
    """Settings, each with the share of the instances it gets: hard ones take long."""

    def dense(pools: int, items: int = 100) -> qgt.Design:
        return qgt.Design.bernoulli(pools=pools, items=items, generator=torch.Generator().manual_seed(SEED))

    def sparse(pools: int, items: int, weight: int) -> qgt.Design:
        seeded = torch.Generator().manual_seed(SEED)
        return qgt.Design.column_regular(pools=pools, items=items, weight=weight, generator=seeded)

    few, one = qgt.Bernoulli(0.06), qgt.SparseInteger(0.1, 1)
    uneven = qgt.Bernoulli(torch.linspace(0.01, 0.15, 100, dtype=torch.float64))
    yield "N=100, M=35, D=1", qgt.Problem(dense(35), few, one), 3.0
    yield "N=100, M=30, D=1", qgt.Problem(dense(30), few, one), 2.0
    yield "N=100, M=25, D=1", qgt.Problem(dense(25), few, one), 0.5
    yield "N=100, M=35, noise 0.3", qgt.Problem(dense(35), few, qgt.SparseInteger(0.3, 1)), 0.5
    yield "N=100, M=35, D=3", qgt.Problem(dense(35), few, qgt.SparseInteger(0.1, 3)), 0.5
    yield "N=100, M=35, Gaussian 0.5", qgt.Problem(dense(35), few, qgt.RoundedGaussian(0.5)), 0.5
    yield "N=100, M=30, noiseless", qgt.Problem(dense(30), few), 1.0
    yield "N=100, M=35, rates 0.01 to 0.15", qgt.Problem(dense(35), uneven, one), 0.5
    yield "N=100, M=35, six defectives", qgt.Problem(dense(35), qgt.FixedWeight(6), one), 1.0
    yield "N=96, M=24, weight 6", qgt.Problem(sparse(24, 96, 6), qgt.Bernoulli(0.02), qgt.SparseInteger(0.02, 1)), 2.0
    yield "N=100, M=40, weight 8", qgt.Problem(sparse(40, 100, 8), few, one), 1.0
    yield "N=200, M=60, D=1", qgt.Problem(dense(60, 200), few, one), 0.3


def held(problem: qgt.Problem, instances: int, batch: int, each: float, device: str) -> dict[str, float]:
    """How many instances are proved, and how many of those claims the truth contradicts."""
    decode = qgt.Certified(odds=1.0, certificates=False, time_limit=each).bind(problem)
    generator = torch.Generator(device).manual_seed(SEED)
    found = {"instances": 0, "proved": 0, "infeasible": 0, "false_proofs": 0, "false_infeasible": 0, "right": 0}
    start = time.perf_counter()
    for first in range(0, instances, batch):
        x, y = problem.simulate(min(batch, instances - first), generator=generator)
        result = decode(y)
        truth, answer = problem.log_joint(x, y), problem.log_joint(result.x, y)
        proved, impossible = (result.status == status for status in (qgt.Status.PROVED, qgt.Status.INFEASIBLE))
        found["instances"] += len(x)
        found["proved"] += int(proved.sum())
        found["infeasible"] += int(impossible.sum())
        found["false_proofs"] += int((proved & (truth > answer + CLOSE)).sum())
        found["false_infeasible"] += int((impossible & (truth > -torch.inf)).sum())
        found["right"] += int((result.x == x).all(1).sum())
    return {**found, "seconds": round(time.perf_counter() - start, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--instances", type=int, default=2000, help="of a setting with a share of 1")
    parser.add_argument("--batch", type=int, default=50_000)
    parser.add_argument("--each", type=float, default=0.02, help="seconds an instance, at most")
    parser.add_argument("-o", "--output", type=Path, default=Path("results/truth.json"))
    arguments = parser.parse_args()
    rows = []
    for name, problem, share in problems():
        row = held(problem, int(share * arguments.instances), arguments.batch, arguments.each, arguments.device)
        print(f"{name:32} {row}", flush=True)
        rows.append({"setting": name, **row})
    total = {key: sum(row[key] for row in rows) for key in rows[0] if key not in ("setting", "seconds")}
    print(f"{'all':32} {total}")
    write(arguments.output, {"seed": SEED, "measured_on": provenance(arguments.device), "all": total, "rows": rows})


if __name__ == "__main__":
    main()
