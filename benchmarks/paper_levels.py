"""The paper's table of complexity: seven levels, five designs each, trained as one stack per level.

    python benchmarks/paper_levels.py --device cuda -o results/levels.json

For each network: success rate and F1 on held-out instances (as counts), the error of the matrix read back by each
estimator, seen and unseen supports apart; for Level 5 also whether flipped entries of a claimed matrix are found.
Prints a table beside the paper's numbers, and the time of each stack.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import torch

import qgt
from qgt.paper.tables import PAPER
from qgt.trust.evidence import ESTIMATORS
from qgt.trust.verification import verify
from setting import paper_problem, provenance, synchronize, write

POOLS, NOISE, SEEDS, FLIPS = 35, 0.06, range(5), 20


def tampered(design: qgt.Design, generator: torch.Generator) -> tuple[qgt.Design, set[tuple[str, str]]]:
    """A copy of the design with some entries flipped, and which."""
    matrix = design.matrix.clone()
    chosen = torch.randperm(matrix.numel(), generator=generator)[:FLIPS]
    matrix.view(-1)[chosen] ^= 1
    pairs = [divmod(int(i), design.items) for i in chosen]
    return qgt.Design(matrix), {(design.pool_names[i], design.item_names[j]) for i, j in pairs}


def tamper_test(net: qgt.NeuralDecoder, repeats: int = 10) -> list[dict[str, int]]:
    """How many flipped entries are listed, how many others are, over several draws of flips and of probes."""
    rows = []
    for repeat in range(repeats):
        generator = torch.Generator().manual_seed(repeat)
        claimed, flipped = tampered(net.problem.design, generator)
        report = verify(net, qgt.Problem(claimed, net.problem.prior, net.problem.noise), generator=generator)
        listed = {(m.pool, m.item) for m in report.mismatches}
        rows.append({"found": len(listed & flipped), "missed": len(flipped - listed), "false": len(listed - flipped)})
    return rows


def measure(level: int, device: str, save: Path | None) -> tuple[list[dict[str, Any]], float]:
    """Train a stack of one network per seed and take every figure of each."""
    problems = [paper_problem(pools=POOLS, noise=NOISE, seed=seed) for seed in SEEDS]
    generator = torch.Generator(device).manual_seed(level)
    synchronize(device)
    start = time.perf_counter()
    nets = qgt.train_many(problems, qgt.MLP.level(level), generator=generator)
    synchronize(device)
    seconds = time.perf_counter() - start
    rows = []
    for seed, net in zip(SEEDS, nets, strict=True):
        if save is not None:
            net.save(save / f"level{level}-{seed}")
        row: dict[str, Any] = {"level": level, "seed": seed, "epochs": net.training.epochs}
        record = net.training.to_plain()
        row |= {key: record[key] for key in ("test", "test_seen", "test_unseen", "items_covered")}
        row["error_percent"] = {}
        for estimator in ESTIMATORS:
            report = verify(net, net.problem, estimator=estimator, generator=generator)
            row["error_percent"][estimator] = round(report.error_percent, 4)
            if estimator == "least_squares":
                row |= {"undecided": report.undecided, "separation": round(report.separation, 3), "auc": report.auc}
        if level == 5:
            row["tamper"] = tamper_test(net)
        rows.append(row)
    return rows, seconds


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def show(level: int, rows: list[dict[str, Any]], seconds: float) -> None:
    scores = [qgt.Score.from_plain({"items": 100, "outcomes": row["test"]}) for row in rows]
    error = mean([row["error_percent"]["least_squares"] for row in rows])
    paper_error, paper_f1, paper_rate = PAPER[level]
    print(
        f"level {level}: success {mean([s.success_rate for s in scores]):.3f} (paper {paper_rate:.2f})  "
        f"F1 {mean([s.f1 for s in scores]):.3f} ({paper_f1:.2f})  error {error:.2f} % ({paper_error:.2f})  "
        f"epochs {[row['epochs'] for row in rows]}  {seconds:.1f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--levels", type=int, nargs="*", default=list(PAPER))
    parser.add_argument("--save", type=Path, help="a folder for the trained networks")
    parser.add_argument("-o", "--output", type=Path, default=Path("results/levels.json"))
    arguments = parser.parse_args()
    torch.zeros(1, device=arguments.device)  # start the device before any clock runs
    results: dict[str, Any] = {
        "setting": {"N": 100, "M": POOLS, "K/N": 0.06, "S/N": NOISE, "D": 1, "design_seeds": list(SEEDS)},
        "measured_on": provenance(arguments.device),
        "seconds": {},
        "rows": [],
    }
    for level in arguments.levels:
        rows, seconds = measure(level, arguments.device, arguments.save)
        show(level, rows, seconds)
        results["seconds"][str(level)] = round(seconds, 2)
        results["rows"] += rows
    trainings, total = len(results["rows"]), sum(results["seconds"].values())
    print(f"{trainings} trainings in {total:.1f} s on {results['measured_on']['device']}")
    write(arguments.output, results)


if __name__ == "__main__":
    main()
