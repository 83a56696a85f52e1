"""The noiseless figure of Tan, Pascual Cobo, Scarlett and Venkataramanan (2024) with the decoders of this library.

    python benchmarks/pooled_amp.py measure [--runs 100] [--others 40]     # results/pooled_amp.json, row by row
    python benchmarks/pooled_amp.py draw                                   # docs/images/pooled_amp.png

Their setting: 500 items in 2 or 3 categories, exact counts of each category, designs of density 1/2, pools over items
from 0.1 to 1, 100 runs with a design of their own. Their *correlation* is the mean, over items, of the inner product of
the estimate with the unit vector of the true category: the probability that an estimate gives to the truth.

`message_passing`: `PooledAMP`, and `PooledIHT` on the same instances. Theirs are given the true number of items in each
category; here it is estimated from the counts. `state_evolution`: its prediction. `programs`: the linear program with
200 items, because it takes seconds with 500, and `--others` runs. `exact`: 100 items, because proofs of 500 would take
too long, and `--others` runs; all decoders on the same instances, and how often whole instances are right.

Rows that are in the results are kept, and rows of fewer runs than asked for are measured again.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

import qgt
from qgt.decoders.pooled import value_vectors
from qgt.theory.evolution import evolve_vectors, predicted_overlap
from setting import provenance, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RESULTS, FIGURE = Path("results/pooled_amp.json"), Path("docs/images/pooled_amp.png")
ITEMS, PROGRAM_ITEMS, EXACT_ITEMS = 500, 200, 100
ITERATIONS = 200
TWO = {"0.5, 0.5": (0.5,), "0.7, 0.3": (0.3,), "0.9, 0.1": (0.1,)}
EQUAL = "1/3, 1/3, 1/3"
THREE = {EQUAL: (1 / 3, 1 / 3), "0.6, 0.3, 0.1": (0.3, 0.1)}
RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
CLOSER = (0.425, 0.45)  # beside them in the comparison with the linear program, as in theirs
EVOLVED = tuple(round(0.1 + 0.025 * i, 3) for i in range(37))
EXACT_RATIOS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4)
Row = dict[str, Any]


def instance(
    prior: qgt.Categories, ratio: float, run: int, items: int
) -> tuple[qgt.Problem, torch.Tensor, torch.Tensor]:
    """One run: a design of its own, and an instance."""
    g = torch.Generator().manual_seed(100_000 * round(1000 * ratio) + run)
    design = qgt.Design.bernoulli(pools=round(ratio * items), items=items, generator=g)
    problem = qgt.Problem(design, prior)
    return problem, *problem.simulate(1, generator=g)


def overlap(result: qgt.Decoded, x: torch.Tensor) -> float:
    """The mean probability of the true categories; 1 or 0 of an item where a decoder has no probabilities."""
    values = result.evidence.values
    if values is None:
        return float((result.x == x).double().mean())
    return float(values[0].gather(1, x[0].long()[:, None]).mean())


def measured(kind: str, prior: qgt.Categories, decoder: qgt.Decoder, ratio: float, runs: int, items: int) -> Row:
    """A decoder on some runs."""
    found, whole, proved, start = [], 0, 0, time.process_time()
    for run in range(runs):
        problem, x, y = instance(prior, ratio, run, items)
        result = decoder.bind(problem)(y)
        found.append(overlap(result, x))
        whole += int((result.x == x).all())
        proved += int(result.status[0] == qgt.Status.PROVED)
    error = float(np.std(found, ddof=1)) / len(found) ** 0.5 if runs > 1 else 0.0
    return {
        "decoder": kind,
        "items": items,
        "ratio": ratio,
        "runs": runs,
        "correlation": round(float(np.mean(found)), 4),
        "standard_error": round(error, 4),
        "all_right": whole,
        "proved": proved,
        "seconds": round((time.process_time() - start) / runs, 3),
    }


def evolved(shares: str, prior: qgt.Categories, ratio: float) -> Row:
    """What state evolution predicts."""
    g, vectors = torch.Generator().manual_seed(0), value_vectors(prior)
    final = evolve_vectors(vectors, prior.distribution, ratio, generator=g)
    predicted = predicted_overlap(vectors, prior.distribution, final, generator=g)
    return {"shares": shares, "ratio": ratio, "correlation": round(predicted, 4)}


class Task(NamedTuple):
    """A row to measure; without a decoder, the row of the state evolution."""

    part: str
    shares: str
    prior: qgt.Categories
    ratio: float
    name: str = ""
    decoder: qgt.Decoder | None = None
    runs: int = 1
    items: int = ITEMS

    @property
    def key(self) -> tuple[str, str, float]:
        """What no two rows of a part have in common."""
        return self.shares, self.name, self.ratio

    def row(self) -> Row:
        """Measure it."""
        if self.decoder is None:
            return evolved(self.shares, self.prior, self.ratio)
        found = measured(self.name, self.prior, self.decoder, self.ratio, self.runs, self.items)
        return {"shares": self.shares, **found}


def tasks(given: argparse.Namespace) -> Iterator[Task]:
    """Every row."""
    amp, iht, program = qgt.PooledAMP(ITERATIONS), qgt.PooledIHT(100), qgt.LinearProgram()
    certified = qgt.Certified(odds=1.0, time_limit=10.0, certificates=False)
    few, equal = qgt.Categories(TWO["0.9, 0.1"]), qgt.Categories(THREE[EQUAL])
    for ratio in EXACT_RATIOS:
        for name, decoder in (("certified", certified), ("amp", amp), ("linear_program", program), ("iht", iht)):
            yield Task("exact", "0.9, 0.1", few, ratio, name, decoder, given.others, EXACT_ITEMS)
    for ratio in sorted(RATIOS + CLOSER):
        yield Task("programs", EQUAL, equal, ratio, "linear_program", program, given.others, PROGRAM_ITEMS)
    for shares, rates in {**TWO, **THREE}.items():
        prior = qgt.Categories(rates)
        for ratio in EVOLVED:
            yield Task("state_evolution", shares, prior, ratio)
        for ratio in sorted(RATIOS + CLOSER) if shares == EQUAL else RATIOS:
            yield Task("message_passing", shares, prior, ratio, "amp", amp, given.runs)
            if shares == EQUAL:
                yield Task("message_passing", shares, prior, ratio, "iht", iht, given.runs)


def measure(given: argparse.Namespace) -> None:
    """Measure the rows that are missing, and write after each one."""
    results: Row = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for task in tasks(given):
        rows = {(row["shares"], row.get("decoder", ""), row["ratio"]): row for row in results.get(task.part, [])}
        if rows.get(task.key, {"runs": 0}).get("runs", 1) >= task.runs:
            continue
        rows[task.key] = task.row()
        print(task.part, json.dumps(rows[task.key]), flush=True)
        results = {**results, **provenance("cpu"), task.part: list(rows.values())}
        write(RESULTS, results)


def draw(given: argparse.Namespace) -> None:
    """The figure, from the stored rows."""
    from matplotlib.figure import Figure

    from qgt.pictures.figures import save_figure
    from qgt.pictures.style import open_axes

    results = json.loads(RESULTS.read_text())
    figure = Figure(figsize=(8.8, 7.2), layout="constrained")
    (two, three), (others, whole) = figure.subplots(2, 2)
    _evolution_panel(two, results, list(TWO), "2 categories, 500 items")
    _evolution_panel(three, results, list(THREE), "3 categories, 500 items")
    _decoders_panel(others, results)
    _success_panel(whole, results)
    for ax in (two, three, others):
        ax.set_xlabel("pools / items")
        ax.set_ylabel("correlation with the truth")
        ax.set_ylim(0.2, 1.04)
    for ax, height in {two: 0.0, three: 0.0, others: 0.5}.items():  # where no curve is
        ax.legend(fontsize=8.5, frameon=False, loc="lower right", bbox_to_anchor=(1.0, height))
    whole.legend(fontsize=8.5, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2)
    for ax in (two, three, others, whole):
        open_axes(ax)
    save_figure(figure, FIGURE, "png")
    print(f"wrote {FIGURE}")


NAMES = {"certified": "limit (exact decoder)", "amp": "AMP", "linear_program": "linear program", "iht": "thresholding"}


def _points(ax: "Axes", rows: list[Row], colour: str, marker: str, label: str) -> None:
    """Means with 95 % intervals."""
    where = [row["ratio"] for row in rows]
    heights, errors = [row["correlation"] for row in rows], [1.96 * row["standard_error"] for row in rows]
    ax.errorbar(
        where,
        heights,
        yerr=errors,
        fmt=marker,
        color=colour,
        markersize=5,
        capsize=2,
        linewidth=1,
        label=label,
        zorder=3 if label.startswith("AMP") else 2,
    )


def _line(ax: "Axes", results: Row, shares: str, colour: str, label: str | None) -> None:
    rows = [row for row in results["state_evolution"] if row["shares"] == shares]
    ax.plot(
        [row["ratio"] for row in rows], [row["correlation"] for row in rows], color=colour, linewidth=1, label=label
    )


def _evolution_panel(ax: "Axes", results: Row, which: list[str], title: str) -> None:
    from qgt.pictures.style import MARKERS, QUIET, looks, shades

    colours = shades(looks(NAMES)["amp"].color, 3)
    for shares, colour, marker in zip(which, colours, MARKERS, strict=False):
        rows = [row for row in results["message_passing"] if (row["shares"], row["decoder"]) == (shares, "amp")]
        _line(ax, results, shares, colour, None)
        _points(ax, rows, colour, marker, f"AMP, shares {shares}")
    ax.plot([], [], color=QUIET, linewidth=1, label="lines: state evolution")
    ax.set_title(title, fontsize=10, loc="left")


def _decoders_panel(ax: "Axes", results: Row) -> None:
    from qgt.pictures.style import looks

    styles = looks(NAMES)
    _line(ax, results, EQUAL, styles["amp"].color, "state evolution of AMP")
    rows = [*results["message_passing"], *results["programs"]]
    for name in ("amp", "linear_program", "iht"):
        some = [row for row in rows if (row["shares"], row["decoder"]) == (EQUAL, name)]
        _points(ax, some, styles[name].color, styles[name].marker, f"{NAMES[name]}, {some[0]['items']} items")
    ax.set_title("3 categories of equal shares", fontsize=10, loc="left")


def _success_panel(ax: "Axes", results: Row) -> None:
    from qgt.pictures.style import LIMIT, looks
    from qgt.trust.metrics import wilson

    for name, look in {**looks(NAMES), "certified": LIMIT}.items():
        rows = [row for row in results["exact"] if row["decoder"] == name]
        shares = [row["all_right"] / row["runs"] for row in rows]
        ends = [wilson(row["all_right"], row["runs"]) for row in rows]
        errors = [[share - low for share, (low, _) in zip(shares, ends, strict=True)],
                  [high - share for share, (_, high) in zip(shares, ends, strict=True)]]  # fmt: skip
        ratios = [row["ratio"] for row in rows]
        ax.errorbar(ratios, shares, yerr=errors, markersize=5, capsize=2, elinewidth=1, label=NAMES[name],
                    **look.words())  # fmt: skip
    runs = results["exact"][0]["runs"]
    ax.set_title(f"2 categories, shares 0.9, 0.1: {EXACT_ITEMS} items, {runs} runs", fontsize=10, loc="left")
    ax.set_xlabel("pools / items")
    ax.set_ylabel("share of instances without any error")


def main() -> None:
    """Measure or draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=("measure", "draw"))
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--others", type=int, default=40, help="Runs of the linear program and of exact decoders.")
    given = parser.parse_args()
    torch.set_num_threads(1)
    (measure if given.verb == "measure" else draw)(given)


if __name__ == "__main__":
    main()
