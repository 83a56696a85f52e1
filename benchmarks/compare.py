"""Success of the model-driven decoders and the limit, on the same instances, over numbers of pools.

    python benchmarks/compare.py -o results/decoders.json

The paper's setting (N = 100, 6 % defective, D = 1) on several random designs per cell. AMP in the paper's three
variants (the true number of defectives, that number plus -1, 0 or 1, and 6 for all; threshold tuned on 1,000
validation instances), AMP scanning K, GAMP, maximum neighborhood, and exact MAP (the limit) on the first instances of
each design. Counts are stored, not rates.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import qgt
from setting import paper_problem, provenance, write

CELLS = [(35, 0.06), (40, 0.1), (35, 0.1), (30, 0.1), (25, 0.1), (20, 0.1)]  # pools, noise rate
DESIGNS, VALIDATION = 4, 1000
VARIANTS = ("oracle", "noisy", "fixed")


def told(variant: str, x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """The number of defectives a variant of AMP is told."""
    k = x.sum(1, dtype=torch.int64)
    if variant == "fixed":
        return torch.full_like(k, 6)
    if variant == "noisy":
        return (k + torch.randint(-1, 2, k.shape, generator=generator)).clamp(0, x.shape[1])
    return k


def amp_variant(problem: qgt.Problem, variant: str, x: torch.Tensor, y: torch.Tensor, seed: int) -> torch.Tensor:
    """Calls of one variant, its threshold tuned on instances of its own."""
    generator = torch.Generator().manual_seed(seed)
    decoder = qgt.AMP(density=0.5)
    xv, yv = problem.simulate(VALIDATION, generator=generator)
    scores = decoder.bind(problem)(yv, defectives=told(variant, xv, generator)).scores
    assert scores is not None
    tuned = replace(decoder, threshold=min(1.0, max(0.0, qgt.best_threshold(scores, xv))))
    return tuned.bind(problem)(y, defectives=told(variant, x, generator)).x


def measure(pools: int, noise: float, seed: int, instances: int, exact: int, limit: float) -> dict[str, Any]:
    """Every decoder on the instances of one design."""
    problem = paper_problem(pools=pools, noise=noise, seed=1000 + seed)
    x, y = problem.simulate(instances, generator=torch.Generator().manual_seed(2000 + seed))
    row: dict[str, Any] = {"M": pools, "S/N": noise, "design": seed}
    for variant in VARIANTS:
        row[f"amp_{variant}"] = counts(x, amp_variant(problem, variant, x, y, 3000 + seed))
    for name in ("amp", "gamp", "maximum_neighborhood"):
        row[name] = counts(x, qgt.DECODERS[name]().bind(problem)(y).x)
    if exact:
        start = time.perf_counter()
        result = qgt.ExactMAP(time_limit=limit).bind(problem)(y[:exact])
        row["exact"] = counts(x[:exact], result.x)
        row["time_limit"] = limit
        row["proved"] = int((result.status == qgt.Status.PROVED).sum())
        row["wall_seconds"] = round(time.perf_counter() - start, 2)
        row["exact_seconds"] = sorted(round(float(s), 4) for s in result.info["seconds"])
        bound = qgt.LinearProgram().bind(problem)(y[:exact])
        row["linear_program"] = counts(x[:exact], bound.x)
        row["linear_program_proved"] = int((bound.status == qgt.Status.PROVED).sum())
    return row


def counts(x: torch.Tensor, calls: torch.Tensor) -> list[list[int]]:
    return qgt.score(x, calls).to_plain()["outcomes"]  # type: ignore[no-any-return]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--instances", type=int, default=1000, help="per design")
    parser.add_argument("--exact", type=int, default=250, help="of them, decoded exactly")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for one exact decode")
    parser.add_argument("--pools", type=int, nargs="*", help="only these numbers of pools")
    parser.add_argument("-o", "--output", type=Path, default=Path("results/decoders.json"))
    arguments = parser.parse_args()
    rows = []
    for pools, noise in CELLS:
        if arguments.pools and pools not in arguments.pools:
            continue
        for seed in range(DESIGNS):
            rows.append(measure(pools, noise, seed, arguments.instances, arguments.exact, arguments.time_limit))
        names = [n for n, v in rows[-1].items() if isinstance(v, list) and n != "exact_seconds"]
        totals = {}
        for name in names:
            scores = [qgt.Score.from_plain({"items": 100, "outcomes": row[name]}) for row in rows[-DESIGNS:]]
            total = scores[0] + scores[1] + scores[2] + scores[3]
            totals[name] = round(total.success_rate, 4)
        print(f"M={pools} S/N={noise} {totals}", flush=True)
        settings = {"instances_per_design": arguments.instances, "time_limit": arguments.time_limit}
        write(arguments.output, {"measured_on": provenance("cpu"), **settings, "rows": rows})  # so far, lest it be lost


if __name__ == "__main__":
    main()
