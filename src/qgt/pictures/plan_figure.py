"""The candidates of a plan: how sure each is, against the pools that it takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#1f5f99", "#2e8b57", "#b8860b", "#7a4fa3", "#b93226")


@dataclass(frozen=True)
class Point:
    """One candidate."""

    pools: int
    weight: int  # transfers per sample
    success: float
    low: float
    high: float
    recommended: bool = False


def plan_figure(points: Sequence[Point], *, certainty: float, bound: float, items: int) -> "Figure":
    """Draw the success of candidates with its interval, the certainty wanted, and the bound on pools.

    Args:
        points: The candidates.
        certainty: What was asked for.
        bound: The number of pools below which no design can work.
        items: The number of samples: as many tests as one for each.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    ax = figure.subplots()
    ax.axhline(certainty, color="#8f9ba8", linewidth=1, linestyle="--", label="certainty wanted")
    ax.axvline(bound, color="#20262c", linewidth=1, label="entropy bound: no design does with fewer pools")
    for colour, weight in zip(COLOURS, sorted({point.weight for point in points}), strict=False):
        own = sorted((point for point in points if point.weight == weight), key=lambda point: point.pools)
        x, y = [point.pools for point in own], [point.success for point in own]
        reach = [[point.success - point.low for point in own], [point.high - point.success for point in own]]
        ax.errorbar(x, y, yerr=reach, color=colour, marker="o", linewidth=1, capsize=3, label=f"{weight} transfers")
    for point in points:
        if point.recommended:
            ax.plot(
                point.pools, point.success, "o", markersize=15, fillstyle="none", color="#b93226", label="recommended"
            )
    ax.set_xlim(0, max([items, *(point.pools for point in points)]) * 1.02)
    ax.set_xlabel(f"pools (one test for each sample: {items})")
    ax.set_ylabel("plates decoded without an error")
    ax.set_title("Simulated plates, 99 % intervals", fontsize=10, loc="left")
    ax.legend(frameon=False, fontsize=8)
    return figure
