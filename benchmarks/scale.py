"""Seconds, memory and wrong items of decoders on ever more items: weight 8, M/N = 0.25, 6 % defective, S/N = 0.1.

python benchmarks/scale.py --sizes 1000 10000 --decoders belief amp                 # adds to results/scale.json
python benchmarks/scale.py --sizes 1000 10000 100000 1000000 --limit 600 --threads 2
python benchmarks/scale.py --sizes 1000 10000 100000 1000000 --decoders belief amp gamp --device cuda
python benchmarks/scale.py --draw                                                    # only docs/images/scale.png

Each measurement has a process of its own, so that its peak of memory is its own. A decoder that takes longer than the
limit is not tried on more items. What is in the file already is not measured again; the file is whole at any moment.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch

import qgt
from qgt.files.store import replacing

ROOT = Path(__file__).resolve().parents[1]
RESULTS, FIGURE = ROOT / "results/scale.json", ROOT / "docs/images/scale.png"
DECODERS = {
    "belief": ("belief propagation", qgt.BeliefPropagation()),
    "amp": ("AMP", qgt.AMP()),
    "gamp": ("GAMP", qgt.GAMP()),
    "linear_program": ("linear program", qgt.LinearProgram()),
    "certified": ("certified, odds 1", qgt.Certified(odds=1.0, time_limit=60.0, certificates=False)),
}
LARGE = 10_000  # items: from here on a slope is that of the work
WEIGHT, RATIO, RATE, NOISE = 8, 0.25, 0.06, 0.1


def measure(decoder: str, items: int, device: str) -> dict[str, object]:
    """One instance, decoded once after a first time that pays for set-up on a GPU."""
    generator = torch.Generator().manual_seed(items)
    design = qgt.Design.column_regular(pools=int(items * RATIO), items=items, weight=WEIGHT, generator=generator)
    problem = qgt.Problem(design, qgt.Bernoulli(RATE), qgt.SparseInteger(rate=NOISE, bound=1))
    x, y = problem.simulate(1, generator=generator)
    start = time.perf_counter()
    decode = DECODERS[decoder][1].bind(problem)
    bound = time.perf_counter() - start
    y = y.to(device)
    if device == "cuda":
        decode(y)
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    result = decode(y)
    wrong = int((result.x.cpu() != x).sum())  # on a GPU this waits for the work to be done
    seconds = time.perf_counter() - start
    memory = torch.cuda.max_memory_allocated() if device == "cuda" else 1024 * _peak()
    return {
        "decoder": decoder,
        "items": items,
        "pools": design.pools,
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "threads": torch.get_num_threads(),
        "bind_seconds": round(bound, 4),
        "seconds": round(seconds, 4),
        "gigabytes": round(memory / 1e9, 3),
        "defective": int(x.sum()),
        "wrong": wrong,
        "status": qgt.Status(int(result.status[0])).name,
        "iterations": None if result.evidence.iterations is None else int(result.evidence.iterations[0]),
    }


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # kilobytes


def in_process(decoder: str, items: int, device: str, threads: int, limit: float) -> dict[str, object] | None:
    """The same in a process of its own; None where that takes too long or fails."""
    command = [sys.executable, __file__, "--one", decoder, "--sizes", str(items), "--device", device]
    environment = {"OMP_NUM_THREADS": str(threads)}
    try:
        done = subprocess.run(
            [*command, "--threads", str(threads)], capture_output=True, timeout=limit, env={**os.environ, **environment}
        )
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        print(done.stderr.decode()[-500:], file=sys.stderr)
        return None
    found: dict[str, object] = json.loads(done.stdout)
    return found


def load() -> list[dict[str, object]]:
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else []


def save(rows: list[dict[str, object]]) -> None:
    with replacing(RESULTS) as temporary:
        Path(temporary).write_text(json.dumps(rows, indent=1) + "\n")


def draw(rows: list[dict[str, object]]) -> None:
    """Seconds and gigabytes against items, both logarithmic, with the slope of seconds."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter, LogLocator

    from qgt.pictures.figures import save_figure
    from qgt.pictures.style import looks, open_axes

    figure = Figure(figsize=(8.8, 4.4), layout="constrained")
    axes = figure.subplots(1, 2)
    lines = sorted(
        {(str(row["decoder"]), str(row["device"])) for row in rows},
        key=lambda line: (line[1] != "cpu", list(DECODERS).index(line[0])),
    )
    styles = looks({decoder: decoder for decoder, _ in lines})
    for decoder, device in lines:
        mine = sorted((row for row in rows if (row["decoder"], row["device"]) == (decoder, device)), key=_items)
        for ax, key in zip(axes, ("seconds", "gigabytes"), strict=True):
            points = [(_items(row), float(str(row[key]))) for row in mine]
            where = "" if device == "cpu" else f", {device}"
            late = any(row["status"] == qgt.Status.TIME_LIMIT.name for row in mine)
            label = f"{DECODERS[decoder][0]}{where}{': stopped after a minute' if late else _slope(points)}"
            style = styles[decoder] if device == "cpu" else styles[decoder]._replace(linestyle="--", hollow=True)
            ax.loglog(*zip(*points, strict=True), label=label, markersize=5, **style.words())
    for ax, words in zip(axes, ("seconds for one instance", "peak memory of the process, GB"), strict=True):
        ax.set_xlabel("items")
        ax.set_ylabel(words)
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0,) if ax is axes[0] else (1.0, 3.0)))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.minorticks_off()
        open_axes(ax)
    look = {"loc": "outside lower center", "ncols": 2, "fontsize": 9, "frameon": False}
    figure.legend(*axes[0].get_legend_handles_labels(), **look)
    save_figure(figure, FIGURE, "png")


def _items(row: dict[str, object]) -> int:
    return int(str(row["items"]))


def _slope(points: list[tuple[int, float]]) -> str:
    """The exponent of growth, by least squares; small problems count only where there are no others."""
    large = [point for point in points if point[0] >= LARGE]
    if len(points) < 2:
        return ""
    items, seconds = zip(*(large if len(large) > 1 else points), strict=True)
    return f": slope {np.polyfit(np.log(items), np.log(seconds), 1)[0]:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--decoders", nargs="+", choices=DECODERS, default=list(DECODERS))
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for one measurement, set-up included")
    parser.add_argument("--draw", action="store_true", help="only draw")
    parser.add_argument("--one", choices=DECODERS, help="measure one decoder at one size here and print it")
    given = parser.parse_args()
    if given.one:
        torch.set_num_threads(given.threads)
        return print(json.dumps(measure(given.one, given.sizes[0], given.device)))
    rows = load()
    for decoder in () if given.draw else given.decoders:
        for items in sorted(given.sizes):
            same = {"decoder": decoder, "items": items}
            if any(same.items() <= row.items() and (row["device"] == "cpu") == (given.device == "cpu") for row in rows):
                continue
            found = in_process(decoder, items, given.device, given.threads, given.limit)
            print(found or f"{decoder} on {items:,} items: not within {given.limit:g} s", flush=True)
            if found is None:
                break
            rows.append(found)
            save(rows)
    if rows:
        draw(rows)


if __name__ == "__main__":
    main()
