"""Figures: pure functions of results. matplotlib is imported only when one is drawn."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from qgt.scoring import wilson
from qgt.verification import VerificationReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CLAIMED, DIFFERS, QUIET = "#1f4e79", "#c0392b", "#9aa5b1"


def verification_figure(report: VerificationReport) -> "Figure":
    """Draw the claimed and the recovered matrix, where they differ, and the evidence with its split."""
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(11, 6.4), layout="constrained")
    axes = figure.subplot_mosaic([["claimed", "recovered"], ["difference", "evidence"]])
    blue, red = ListedColormap(["#f4f6f8", CLAIMED]), ListedColormap(["#f4f6f8", DIFFERS])
    wrong = int(report.wrong.sum())
    panels = {
        "claimed": (report.claimed.matrix, blue, "Claimed design"),
        "recovered": (report.recovered, blue, f"Read back from the decoder ({report.estimator.replace('_', ' ')})"),
        "difference": (report.wrong, red, f"Where they differ: {wrong} of {report.wrong.numel():,} entries"),
    }
    for name, (matrix, colours, title) in panels.items():
        ax = axes[name]
        pools, items = matrix.shape
        extent = (0.5, items + 0.5, pools + 0.5, 0.5)  # pools and items are counted from 1
        ax.imshow(matrix.numpy(), cmap=colours, vmin=0, vmax=1, aspect="auto", interpolation="nearest", extent=extent)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.yaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_title(title, fontsize=10, loc="left")
        ax.set_xlabel("item")
        ax.set_ylabel("pool")
    _draw_evidence(axes["evidence"], report)
    figure.suptitle(
        f"{report.error_percent:.2f} % of entries differ (coin flips: {report.coin_flip_percent:.0f} %, "
        f"best constant matrix: {report.constant_percent:.1f} %), {report.instances:,} instances",
        fontsize=11,
    )
    return figure


def _draw_evidence(ax: "Axes", report: VerificationReport) -> None:
    """Histograms of the evidence for entries claimed 0 and 1, on common bins."""
    low, high = float(report.evidence.min()), float(report.evidence.max())
    bins = torch.linspace(low, high if high > low else low + 1, 81).tolist()
    claimed = report.claimed.matrix
    ax.hist(report.evidence[claimed == 0].numpy(), bins, color=QUIET, alpha=0.8, label="claimed 0")
    ax.hist(report.evidence[claimed == 1].numpy(), bins, color=CLAIMED, alpha=0.7, label="claimed 1")
    ax.axvline(report.split, color=DIFFERS, linewidth=1.2, label="split")
    ax.set_title("Evidence for each entry", fontsize=10, loc="left")
    ax.set_xlabel("evidence")
    ax.set_ylabel("entries")
    ax.legend(frameon=False, fontsize=8)


def reliability_figure(curves: Mapping[str, Sequence[tuple[int, float, int]]]) -> "Figure":
    """Draw how often items turn out defective against the probability they were given, with 95 % intervals.

    Each curve is a list of bins: how many entries, the sum of their probabilities, how many were defective.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2, 4.8), layout="constrained")
    ax = figure.subplots()
    ax.plot([0, 1], [0, 1], color=QUIET, linewidth=1, linestyle="--", label="perfectly calibrated")
    for colour, (name, bins) in zip((CLAIMED, DIFFERS, "#2e8b57", "#b8860b"), curves.items(), strict=False):
        filled = [(total / n, hits / n, wilson(hits, n)) for n, total, hits in bins if n]
        given, seen, ends = zip(*filled, strict=True)
        reach = [
            [s - e.low for s, e in zip(seen, ends, strict=True)],
            [e.high - s for s, e in zip(seen, ends, strict=True)],
        ]
        ax.errorbar(given, seen, yerr=reach, color=colour, marker="o", markersize=4, linewidth=1, capsize=2, label=name)
    ax.set_xlabel("probability given")
    ax.set_ylabel("share defective")
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(-0.02, 1.02)
    ax.set_aspect("equal")
    ax.legend(frameon=False, fontsize=8, loc="upper left")
    return figure
