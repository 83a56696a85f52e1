"""Success against time for every decoder, on the same instances: who is worth their microseconds?

    python benchmarks/frontier.py train runs/frontier --device cuda    # the two networks, once
    python benchmarks/frontier.py measure runs/frontier                # all decoders, on this machine's cores
    python benchmarks/frontier.py draw                                 # docs/images/frontier.png from the results

The paper's setting with 25 pools and 10 % of the counts noisy: hard enough to tell decoders apart. Slow decoders get
the first instances only; all others share the whole set.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

import qgt
from qgt.pictures.figures import save_figure, time_frontier_figure
from setting import paper_problem, provenance, synchronize, write

POOLS, SEED = 25, 31
RESULTS = Path("results/frontier.json")


def problem() -> qgt.Problem:
    return paper_problem(pools=POOLS, noise=0.1, seed=SEED)


def train(folder: Path, device: str, steps: int) -> None:
    """The paper's network, and a residual one on fresh data."""
    generator = torch.Generator(device).manual_seed(SEED)
    qgt.train(problem(), qgt.MLP.level(5), qgt.TrainConfig(), generator=generator).save(folder / "mlp")
    config = qgt.TrainConfig.fresh(steps=steps)
    qgt.train(problem(), qgt.ResidualMLP(384, 6), config, generator=generator).save(folder / "residual")


def decoders(folder: Path) -> dict[str, tuple[qgt.Decoder, int]]:
    """Each decoder, and how many instances it gets."""
    return {
        "prior alone": (qgt.Prevalence(), 20_000),
        "maximum neighborhood": (qgt.MaximumNeighborhood(), 20_000),
        "paper's network": (qgt.load(folder / "mlp"), 20_000),
        "residual network": (qgt.load(folder / "residual"), 20_000),
        "AMP, scanning K": (qgt.AMP(), 20_000),
        "GAMP": (qgt.GAMP(), 20_000),
        "linear program": (qgt.LinearProgram(), 500),
        "exact MAP (HiGHS)": (qgt.ExactMAP(), 200),
        "certified": (qgt.Certified(odds=1.0), 4000),
        "certified, with alternatives": (qgt.Certified(), 1000),
    }


def measure(folder: Path) -> None:
    """Decode, score and time each decoder."""
    x, y = problem().simulate(20_000, generator=torch.Generator().manual_seed(SEED + 1))
    rows: list[dict[str, Any]] = []
    for name, (decoder, instances) in decoders(folder).items():
        decode = decoder.bind(problem())
        decode(y[:100])  # warm
        start = time.perf_counter()
        result = decode(y[:instances])
        synchronize("cpu")
        seconds = time.perf_counter() - start
        outcomes = qgt.score(x[:instances], result.x).to_plain()["outcomes"]
        proved = int((result.status == qgt.Status.PROVED).sum())
        rows.append({"decoder": name, "instances": instances, "seconds": round(seconds, 4), "proved": proved})
        rows[-1]["outcomes"] = outcomes
        print(f"{name}: {1e6 * seconds / instances:,.1f} us", flush=True)
    write(RESULTS, {"measured_on": provenance("cpu"), "M": POOLS, "S/N": 0.1, "design": SEED, "rows": rows})


def draw(output: Path) -> None:
    """The figure, from the results alone."""
    rows = json.loads(RESULTS.read_text())["rows"]
    scores = {row["decoder"]: qgt.Score.from_plain({"items": 100, "outcomes": row["outcomes"]}) for row in rows}
    scores = {
        name.replace("with ", "with\n"): score for name, score in scores.items()
    }  # one name is too long for a line
    times = {row["decoder"].replace("with ", "with\n"): 1e6 * row["seconds"] / row["instances"] for row in rows}
    save_figure(time_frontier_figure(scores, times, limit="certified"), output, "png")
    print(f"wrote {output}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("part", choices=("train", "measure", "draw"))
    parser.add_argument("folder", type=Path, nargs="?", default=Path("runs/frontier"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=20_000, help="of the residual network")
    arguments = parser.parse_args()
    if arguments.part == "train":
        train(arguments.folder, arguments.device, arguments.steps)
    elif arguments.part == "measure":
        measure(arguments.folder)
    else:
        draw(Path("docs/images/frontier.png"))


if __name__ == "__main__":
    main()
