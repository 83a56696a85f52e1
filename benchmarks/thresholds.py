"""How many pools belief propagation needs: share of instances solved against M/N, for regular and coupled designs.

python benchmarks/thresholds.py --items 10000 --instances 5               # adds to results/thresholds.json, and draws
python benchmarks/thresholds.py --items 100000 --instances 20 --processes 16
python benchmarks/thresholds.py --items 10000 100000 --instances 50 --device cuda
python benchmarks/thresholds.py --draw                                    # only docs/images/thresholds.png

6 % defective, S/N = 0.1. An instance is solved where at most 1 item in 10,000 is called wrong. Each point is in the
file as soon as it is measured, and points that are there are not measured again. The information limit counts bits: all
pools together tell at most M times what one of that size tells, and must tell the entropy of N items.
"""

import argparse
import hashlib
import json
import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import torch

import qgt
from qgt.files.store import write_text
from qgt.trust.metrics import wilson

ROOT = Path(__file__).resolve().parents[1]
RESULTS, FIGURE = ROOT / "results/thresholds.json", ROOT / "docs/images/thresholds.png"
EVOLUTION = ROOT / "results/evolution.json"  # of evolution.py
RATIOS = (0.15, 0.155, 0.16, 0.165, 0.17, 0.175, 0.18, 0.185, 0.19, 0.195, 0.2)
RATE, NOISE, SOLVED = 0.06, qgt.SparseInteger(rate=0.1, bound=1), 1e-4
Maker = Callable[[int, int, torch.Generator], qgt.Design]


def regular(pools: int, items: int, generator: torch.Generator) -> qgt.Design:
    return qgt.Design.column_regular(pools=pools, items=items, weight=8, generator=generator)


def coupled(pools: int, items: int, generator: torch.Generator) -> qgt.Design:
    """Longer lines for more items: the share of pools that the ends cost falls as 2 / blocks."""
    blocks = 20 if items < 50_000 else 40
    return qgt.Design.coupled(pools=pools, items=items, weight=9, blocks=blocks, width=3, generator=generator)


DESIGNS: dict[str, Maker] = {"regular, weight 8": regular, "coupled, weight 9": coupled}


def seeded(text: str) -> torch.Generator:
    """A generator of its own for everything that has a name."""
    return torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "little"))


def measure(name: str, items: int, ratio: float, instances: int, device: str) -> dict[str, object]:
    """Every instance has a design of its own."""
    solved = wrong = settled = 0
    start = time.perf_counter()
    for number in range(instances):
        generator = seeded(f"{name} {items} {ratio} {number}")
        design = DESIGNS[name](round(ratio * items), items, generator)
        problem = qgt.Problem(design, qgt.Bernoulli(RATE), NOISE)
        x, y = problem.simulate(1, generator=generator)
        found = qgt.BeliefPropagation(iterations=300).bind(problem)(y.to(device))
        errors = int((found.x.cpu() != x).sum())
        solved, wrong = solved + (errors <= SOLVED * items), wrong + errors
        settled += int(found.status[0]) == qgt.Status.OK
    return {
        "design": name,
        "items": items,
        "ratio": ratio,
        "instances": instances,
        "solved": solved,
        "wrong": wrong,
        "settled": settled,
        "seconds": round(time.perf_counter() - start, 1),
    }


def limit(weight: int) -> float:
    """The least M/N at which pools of weight / (M/N) items could tell as many bits as the items have."""
    rate = torch.tensor(RATE, dtype=torch.float64)
    needed = float(-(torch.xlogy(rate, rate) + torch.xlogy(1 - rate, 1 - rate)))
    low, high = 0.05, 0.5
    while high - low > 1e-5:
        middle = (low + high) / 2
        low, high = (low, middle) if middle * told(round(weight / middle)) >= needed else (middle, high)
    return high


def told(size: int) -> float:
    """What the report of a pool of random items tells about its count, in nats: H(y) - H(y | count)."""
    counts = torch.arange(size + 1, dtype=torch.float64)
    count = torch.distributions.Binomial(size, torch.tensor(RATE, dtype=torch.float64)).log_prob(counts).exp()
    reports = torch.arange(-1.0, size + 2, dtype=torch.float64)
    given = NOISE.log_prob(reports, counts[:, None], torch.full_like(counts[:, None], size)).exp()  # (counts, reports)
    report = count @ given
    return float(count @ torch.xlogy(given, given).sum(1) - torch.xlogy(report, report).sum())


def draw(rows: list[dict[str, object]]) -> None:
    from matplotlib.figure import Figure

    from qgt.pictures.figures import save_figure
    from qgt.pictures.style import BOUND, MARKERS, looks, open_axes, shades

    figure = Figure(figsize=(7, 4.6), layout="constrained")
    ax = figure.subplots()
    belief = looks({"belief": "belief"})["belief"].color  # the decoder of all lines
    dark, usual, _ = shades(belief, 3)
    for name, colour, marker in zip(DESIGNS, (usual, dark), MARKERS, strict=False):
        for items, style in ((10_000, "--"), (100_000, "-")):
            mine = sorted(_point(row) for row in rows if (row["design"], row["items"]) == (name, items))
            if not mine:
                continue
            ratios = [ratio for ratio, _, _ in mine]
            look = {"color": colour, "marker": marker, "markersize": 4.5, "linestyle": style}
            ax.plot(ratios, [s / n for _, s, n in mine], label=f"{name}, N = {items:,}", **look)
            low, high = zip(*(wilson(s, n) for _, s, n in mine), strict=True)
            ax.fill_between(ratios, low, high, color=colour, alpha=0.12, linewidth=0)
    ax.axvline(limit(8), color=BOUND.color, linewidth=BOUND.linewidth, linestyle=BOUND.linestyle)
    ax.text(limit(8) + 0.0006, 0.5, "information bound,\nweight 8", fontsize=9, fontweight="bold", color=BOUND.color)
    if EVOLUTION.exists():
        found = max(json.loads(EVOLUTION.read_text())["threshold"], key=lambda row: row["population"])
        words = "threshold of belief propagation, regular, N without limit"
        ax.axvspan(found["low"], found["high"], color=belief, alpha=0.35, linewidth=0, label=words)
    ax.set_xlabel("pools for each item, M/N")
    ax.set_ylabel("share of instances solved")
    open_axes(ax)
    figure.legend(loc="outside lower center", ncols=2, fontsize=9, frameon=False)
    save_figure(figure, FIGURE, "png")


def _point(row: dict[str, object]) -> tuple[float, int, int]:
    return float(str(row["ratio"])), int(str(row["solved"])), int(str(row["instances"]))


def measured(grid: list[tuple[str, int, float]], given: argparse.Namespace) -> Iterator[dict[str, object]]:
    """Each point as it is measured, here or in processes of one thread each."""
    if given.processes == 1:
        yield from (measure(*one, given.instances, given.device) for one in grid)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(given.processes, context, torch.set_num_threads, (1,)) as pool:
        for done in as_completed([pool.submit(measure, *one, given.instances, given.device) for one in grid]):
            yield done.result()


def _instances(rows: list[dict[str, object]], point: tuple[str, int, float]) -> int:
    """How many instances of a point there are."""
    found = [row for row in rows if (row["design"], row["items"], row["ratio"]) == point]
    return int(str(found[0]["instances"])) if found else 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, nargs="+", default=[10_000])
    parser.add_argument("--instances", type=int, default=5)
    parser.add_argument("--ratios", type=float, nargs="+", default=RATIOS)
    parser.add_argument("--designs", nargs="+", choices=list(DESIGNS), default=list(DESIGNS))
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--processes", type=int, default=1, help="points measured at a time, on the CPU")
    parser.add_argument("--draw", action="store_true", help="only draw")
    given = parser.parse_args()
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    grid = [] if given.draw else [(n, i, r) for i in given.items for n in given.designs for r in given.ratios]
    for found in measured([one for one in grid if _instances(rows, one) < given.instances], given):
        point = {key: found[key] for key in ("design", "items", "ratio")}
        rows = [row for row in rows if not point.items() <= row.items()] + [found]  # fewer instances than now
        rows.sort(key=lambda row: (row["items"], list(DESIGNS).index(row["design"]), row["ratio"]))
        print(found, flush=True)
        write_text(RESULTS, "[\n" + ",\n".join(f" {json.dumps(row)}" for row in rows) + "\n]\n")
    if rows:
        draw(rows)


if __name__ == "__main__":
    main()
