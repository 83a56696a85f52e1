"""Are GAMP's marginals probabilities? Counts of defective entries by the probability they were given, and the figure.

python benchmarks/reliability.py -o results/reliability.json --figure docs/images/gamp_reliability.png
"""

import argparse
import json
from pathlib import Path

import torch

import qgt
from qgt.pictures.figures import reliability_figure, save_figure
from setting import calibration_error, paper_problem, provenance, write

BINS, INSTANCES, NOISE = 10, 20_000, 0.1


def bins(pools: int) -> list[tuple[int, float, int]]:
    """Entries, the sum of their probabilities, and the defective ones, in ten equal ranges of probability."""
    problem = paper_problem(pools=pools, noise=NOISE, seed=0)
    x, y = problem.simulate(INSTANCES, generator=torch.Generator().manual_seed(1))
    p = qgt.GAMP().bind(problem)(y).scores
    assert p is not None
    which = (p * BINS).long().clamp(max=BINS - 1).flatten()
    count, total, hits = (
        torch.zeros(BINS, dtype=torch.float64).index_add_(0, which, part.flatten().double())
        for part in (torch.ones_like(p), p, x)
    )
    return [(int(n), float(t), int(h)) for n, t, h in zip(count, total, hits, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-o", "--output", type=Path, default=Path("results/reliability.json"))
    parser.add_argument("--draw", action="store_true", help="only draw, from the results")
    parser.add_argument("--figure", type=Path, default=Path("docs/images/gamp_reliability.png"))
    arguments = parser.parse_args()
    if not arguments.draw:
        curves = {f"GAMP, {pools} pools": bins(pools) for pools in (20, 25, 30)}
        for name, rows in curves.items():
            print(f"{name}: expected calibration error {calibration_error(rows):.4f}")
        write(arguments.output, {"measured_on": provenance("cpu"), "instances": INSTANCES, "bins": curves})
    save_figure(reliability_figure(json.loads(arguments.output.read_text())["bins"]), arguments.figure, "png")


if __name__ == "__main__":
    main()
