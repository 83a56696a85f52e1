"""The residual network on fresh data, where the paper's network falls short of the limit.

    python benchmarks/residual.py --device cuda -o results/residual.json [--pools 35 25]

Prints success rate with its interval, training time, and the error of the matrix read back by each estimator.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import torch

import qgt
from qgt.trust.verification import ESTIMATORS, verify
from setting import paper_problem, provenance, synchronize, write

NOISE, SEED = 0.1, 0
RECIPES = {  # pools: what to train
    35: (
        qgt.ResidualMLP(512, 6),
        qgt.TrainConfig.fresh(steps=40_000, batch=4096, learning_rate=7e-4, matrix_rate=None),
    ),
    25: (
        qgt.ResidualMLP(1024, 8),
        qgt.TrainConfig.fresh(steps=36_000, batch=8192, learning_rate=5e-4, matrix_rate=None),
    ),
}


def measure(pools: int, device: str, shorten: int) -> dict[str, Any]:
    architecture, config = RECIPES[pools]
    if shorten > 1:
        config = qgt.TrainConfig.fresh(
            steps=config.total_steps // shorten,
            batch=config.batch,
            learning_rate=config.learning_rate,
            matrix_rate=config.matrix_rate,
        )
    generator = torch.Generator(device).manual_seed(SEED)
    problem = paper_problem(pools=pools, noise=NOISE, seed=SEED)
    start = time.perf_counter()
    net = qgt.train(
        problem,
        architecture,
        config,
        generator=generator,
        on_epoch=lambda e: print(f"  {e.number}: {e.success_rate:.4f}", flush=True) if e.number % 20 == 0 else None,
    )
    synchronize(device)
    seconds = time.perf_counter() - start
    errors = {}
    for estimator in ESTIMATORS:
        instances = 500 if estimator == "regression" else 1000
        report = verify(net, problem, estimator=estimator, instances=instances, generator=generator)
        errors[estimator] = round(report.error_percent, 4)
    score = qgt.Score(problem.items, net.training.test)
    print(f"M={pools}, S/N={NOISE}: {architecture}, {seconds:.0f} s\n  {score}\n  error % {errors}", flush=True)
    return {
        "M": pools,
        "S/N": NOISE,
        "seed": SEED,
        "architecture": str(architecture),
        "steps": config.total_steps,
        "batch": config.batch,
        "learning_rate": config.learning_rate,
        "seconds": round(seconds, 1),
        "test": qgt.Score(problem.items, net.training.test).to_plain()["outcomes"],
        "error_percent": errors,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--pools", type=int, nargs="*", default=list(RECIPES))
    parser.add_argument("--shorten", type=int, default=1, help="divide the steps by this, to try it out")
    parser.add_argument("-o", "--output", type=Path, default=Path("results/residual.json"))
    arguments = parser.parse_args()
    rows = [measure(pools, arguments.device, arguments.shorten) for pools in arguments.pools]
    write(arguments.output, {"measured_on": provenance(arguments.device), "rows": rows})


if __name__ == "__main__":
    main()
