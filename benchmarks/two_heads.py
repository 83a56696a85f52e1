"""A network with two heads beside `LoadPosterior`: which items are positive, how much each has, and the design.

    python benchmarks/two_heads.py [--steps 15000] [-o results/two_heads.json]

16 pools, 40 items, each item in 3 pools; two positives on average. Both decode the same instances with exactly 2 and
exactly 3 positives. Prints instances without an error, the error of the log10 amounts of positives that were found, and
the share of entries of the design that each estimator of `qgt.verify` has wrong.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import torch

import qgt
from qgt.trust.verification import ESTIMATORS
from setting import provenance, write

SEED, INSTANCES, PROBES = 0, 200, 1000


def make_problem() -> qgt.Problem:
    design = qgt.Design.column_regular(pools=16, items=40, weight=3, generator=torch.Generator().manual_seed(SEED))
    loads = qgt.Loads(rate=2 / 40, mean=2.92, sd=1.87, low=0.0, high=8.1)
    return qgt.Problem(design, loads, qgt.CycleThreshold(sigma=0.25, intercept=37.0, limit=38.0))


def with_positives(problem: qgt.Problem, positives: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The first instances of a stream that have so many positives."""
    generator = torch.Generator().manual_seed(100 + positives)
    parts: list[tuple[torch.Tensor, torch.Tensor]] = []
    while sum(len(x) for x, _ in parts) < INSTANCES:
        x, y = problem.simulate(4000, generator=generator)
        rows = (x > 0).sum(1) == positives
        parts.append((x[rows], y[rows]))
    return torch.cat([x for x, _ in parts])[:INSTANCES], torch.cat([y for _, y in parts])[:INSTANCES]


def decoded(decoder: qgt.Decoder, problem: qgt.Problem, x: torch.Tensor, y: torch.Tensor) -> dict[str, Any]:
    decode = decoder.bind(problem)
    began = time.perf_counter()
    result = decode(y)
    seconds = time.perf_counter() - began
    assert result.amounts is not None
    positive = x > 0
    found = positive & (result.x == 1)
    error = result.amounts[found].log10() - x[found].log10()
    return {
        "right": int((result.x == positive).all(1).sum()),
        "instances": len(x),
        "missed": int((positive & (result.x == 0)).sum()),
        "false": int((~positive & (result.x == 1)).sum()),
        "rms_log10": round(float(error.square().mean().sqrt()), 4),
        "median_log10": round(float(error.abs().median()), 4),
        "seconds": round(seconds, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=15_000)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    problem, generator = make_problem(), torch.Generator().manual_seed(SEED)
    config = qgt.TrainConfig.fresh(
        steps=options.steps, batch=256, learning_rate=2e-3, matrix_rate=None, validation=4000
    )
    net = qgt.train(problem, qgt.MLP(hidden=(500, 500)), config, generator=generator)
    assert net.training is not None
    print(f"trained in {net.training.seconds:.0f} s: {qgt.Score(problem.items, net.training.test)}", flush=True)
    rows = []
    for positives in (2, 3):
        x, y = with_positives(problem, positives)
        for name, decoder in (("network", net), ("LoadPosterior", qgt.LoadPosterior())):
            rows.append({"positives": positives, "decoder": name, **decoded(decoder, problem, x, y)})
            print(rows[-1], flush=True)
    errors = {}
    for estimator in ESTIMATORS:
        probing = torch.Generator().manual_seed(5)
        report = qgt.verify(net, problem, estimator=estimator, instances=PROBES, generator=probing)
        errors[estimator] = {"error_percent": report.error_percent, "separation": round(report.separation, 2)}
    print(errors)
    if options.output is not None:
        facts = {"seconds": round(net.training.seconds, 1), "steps": options.steps, "provenance": provenance("cpu")}
        write(options.output, {"rows": rows, "verification": errors, **facts})


if __name__ == "__main__":
    main()
