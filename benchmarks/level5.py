"""What a Level 5 network knows: supports it never met, and entries of a claimed matrix that were flipped.

    python benchmarks/level5.py --device cuda -o results/level5.json

Five designs of the paper's table of complexity, trained as one stack. For each network: its test on held-out
instances, apart for supports that were and were not in its training set (as counts), and whether flipped entries of a
claimed matrix are found. The table itself is 'qgt reproduce'.
"""

import argparse
from pathlib import Path
from typing import Any

import torch

import qgt
from setting import paper_problem, provenance, write

POOLS, NOISE, SEEDS, FLIPS, REPEATS = 35, 0.06, range(5), 20, 10


def tampered(design: qgt.Design, generator: torch.Generator) -> tuple[qgt.Design, set[tuple[str, str]]]:
    """A copy of the design with some entries flipped, and which."""
    matrix = design.matrix.clone()
    chosen = torch.randperm(matrix.numel(), generator=generator)[:FLIPS]
    matrix.view(-1)[chosen] ^= 1
    pairs = [divmod(int(i), design.items) for i in chosen]
    return qgt.Design.from_matrix(matrix), {(design.pool_names[i], design.item_names[j]) for i, j in pairs}


def tamper_test(net: qgt.NeuralDecoder) -> list[dict[str, int]]:
    """How many flipped entries are listed, how many others are, over several draws of flips and of probes."""
    rows = []
    for repeat in range(REPEATS):
        generator = torch.Generator().manual_seed(repeat)
        claimed, flipped = tampered(net.problem.design, generator)
        other = qgt.Problem(claimed, net.problem.prior, net.problem.noise)
        report = qgt.verify(net, other, estimator="least_squares", generator=generator)
        listed = {(m.pool, m.item) for m in report.mismatches}
        rows.append({"found": len(listed & flipped), "missed": len(flipped - listed), "false": len(listed - flipped)})
    return rows


def measure(device: str) -> list[dict[str, Any]]:
    """Train a stack of one network per seed and test each."""
    problems = [paper_problem(pools=POOLS, noise=NOISE, seed=seed) for seed in SEEDS]
    nets = qgt.train_many(problems, qgt.MLP.level(5), generator=torch.Generator(device).manual_seed(5))
    rows = []
    for seed, net in zip(SEEDS, nets, strict=True):
        row: dict[str, Any] = {"level": 5, "seed": seed, "epochs": net.training.epochs}
        row |= {
            key: [[*outcome, n] for outcome, n in sorted(getattr(net.training, key).items())]
            for key in ("test_seen", "test_unseen")
        }
        rows.append({**row, "tamper": tamper_test(net)})
        print(f"design {seed}: {row['epochs']} epochs", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("-o", "--output", type=Path, default=Path("results/level5.json"))
    arguments = parser.parse_args()
    setting = {"N": 100, "M": POOLS, "K/N": 0.06, "S/N": NOISE, "D": 1, "design_seeds": list(SEEDS)}
    rows = measure(arguments.device)
    write(arguments.output, {"setting": setting, "measured_on": provenance(arguments.device), "rows": rows})


if __name__ == "__main__":
    main()
