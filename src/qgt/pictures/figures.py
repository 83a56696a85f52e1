"""Figures: pure functions of results. matplotlib is imported only when one is drawn."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from qgt.pictures.style import (
    BOUND,
    COLOURS,
    DARK,
    LIMIT,
    LIMIT_COLOUR,
    MARKERS,
    QUIET,
    QUIET_WORDS,
    RED,
    LineEnd,
    LineStyle,
    PointName,
    look_of,
    looks,
    name_ends,
    name_points,
    open_axes,
)
from qgt.study.plan import Study
from qgt.study.reading import StudyResult
from qgt.theory.limits import fewest_tests
from qgt.trust.metrics import Score, wilson
from qgt.trust.verification import VerificationReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


METRIC_WORDS = {
    "success_rate": "success rate",
    "f1": "F1",
    "precision": "precision",
    "recall": "recall",
    "mse": "mean squared error",
}


def save_figure(figure: "Figure", path: Path, form: str) -> None:
    """Write a figure as svg, png or pdf so that equal results give equal files."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "qgt"}):
        dated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[form]
        figure.savefig(path, dpi=150, format=form, metadata=dated)


def verification_figure(report: VerificationReport) -> "Figure":
    """Draw the claimed and the recovered matrix, where they differ, and the evidence with its split."""
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(11, 6.4), layout="constrained")
    axes = figure.subplot_mosaic([["claimed", "recovered"], ["difference", "evidence"]])
    blue, red = ListedColormap(["#f4f6f8", DARK]), ListedColormap(["#f4f6f8", RED])
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
    ax.hist(report.evidence[claimed == 1].numpy(), bins, color=DARK, alpha=0.7, label="claimed 1")
    ax.axvline(report.split, color=RED, linewidth=1.2, label="split")
    ax.set_title("Evidence for each entry", fontsize=10, loc="left")
    ax.set_xlabel("evidence")
    ax.set_ylabel("entries")
    open_axes(ax)
    ax.legend(frameon=False, fontsize=8)


FEW = 10  # entries of a bin, below which its share says little


def reliability_figure(
    curves: Mapping[str, Sequence[tuple[int, float, int]]],
    given: str = "probability given",
    seen: str = "share defective",
    decoder: str = "",
) -> "Figure":
    """Draw how often something turns out true against the probability it was given, with 95 % intervals.

    Each curve is a list of bins: how many entries, the sum of their probabilities, how many turned out true. It gets a
    panel of its own, because intervals that cover each other cannot be read. A bin with few entries is pale.

    Args:
        curves: The bins, by the name of the panel.
        given: What the probability is.
        seen: What is true of a share.
        decoder: Whose probabilities they are, where the names of the panels do not begin with it.
    """
    from matplotlib.figure import Figure

    width = 2.7 if len(curves) < 4 else 2.15  # as wide as a page shows it with words that can be read
    figure = Figure(figsize=(width * len(curves) + 0.6, width + 0.6 if len(curves) > 1 else 3.9), layout="constrained")
    axes = figure.subplots(1, len(curves), squeeze=False, sharey=True)[0].tolist()
    for ax, (name, bins) in zip(axes, curves.items(), strict=True):
        ax.plot([0, 1], [0, 1], color=QUIET, linewidth=1, linestyle="--", label="perfectly calibrated")
        look = look_of(decoder or name) or LineStyle(COLOURS[0], marker="o")
        _draw_bins(ax, [bin for bin in bins if bin[0] >= FEW], look, joined=True)
        _draw_bins(ax, [bin for bin in bins if 0 < bin[0] < FEW], look, joined=False)
        ax.set_title(name, fontsize=10, loc="left")
        ax.set_xlabel(given)
        ax.set_xlim(-0.03, 1.03)
        ax.set_ylim(-0.03, 1.03)
        ax.set_aspect("equal")
        open_axes(ax)
    axes[0].set_ylabel(seen)
    axes[0].legend(loc="lower right", frameon=False, fontsize=8)
    return figure


def _draw_bins(ax: "Axes", bins: Sequence[tuple[int, float, int]], look: LineStyle, *, joined: bool) -> None:
    """The shares of some bins with their intervals, joined by a line, or pale and alone."""
    if not bins:
        return
    mean, share = [total / n for n, total, _ in bins], [hits / n for n, _, hits in bins]
    ends = [wilson(hits, n) for n, _, hits in bins]
    below = [high - end.low for high, end in zip(share, ends, strict=True)]
    above = [end.high - low for low, end in zip(share, ends, strict=True)]
    strong: dict[str, Any] = {"linestyle": "-" if joined else "none", "alpha": 1.0 if joined else 0.35}
    ax.errorbar(mean, share, yerr=[below, above], color=look.color, marker=look.marker, markersize=4, linewidth=1.2,
                capsize=2, **strong)  # fmt: skip


def curves_figure(found: Sequence[StudyResult], metrics: Sequence[str] = ("success_rate",)) -> "Figure":
    """Draw metrics against the grid's first key, a line with its 95 % band for each decoder.

    One panel for each metric and each combination of the grid's other keys. A decoder marked as the limit is a dark
    line; above it, where success rates cannot be, the panel is shaded.
    """
    from matplotlib.figure import Figure

    drawn = [one for one in found if one.score.instances]
    if not drawn or not drawn[0].point:
        raise ValueError(
            "there is nothing to draw: a figure needs results, and a [grid] whose first key is its x axis."
        )
    others = list(dict.fromkeys(tuple(one.point.items())[1:] for one in drawn))
    panels = [(metric, other) for other in others for metric in metrics]
    columns = len(metrics) if len(metrics) > 1 and len(others) > 1 else _columns(len(panels))
    rows = -(-len(panels) // columns)
    width = _panel_width(columns) * columns + (3.2 if columns == 1 else 0.4)
    figure = Figure(figsize=(width, 2.6 * rows + 1.1), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
    styles = line_styles(drawn)
    for number, (ax, (metric, other)) in enumerate(zip(axes, panels, strict=False)):
        draw_panel(ax, [one for one in drawn if tuple(one.point.items())[1:] == other], styles, metric)
        ax.set_title(", ".join(_title(key, value) for key, value in other), fontsize=10, loc="left")
        if number + columns >= len(panels):
            ax.set_xlabel(_words(next(iter(drawn[0].point))))
        if number % columns and len(metrics) == 1:  # the panel at the left has the same axis
            ax.set_ylabel("")
    _draw_legend(figure, axes, len(panels), drawn, metrics[0])
    return figure


def _columns(panels: int) -> int:
    """Panels in a row: four are two rows of two, any other number is in rows of three.

    Example:
        >>> [_columns(panels) for panels in (1, 3, 4, 5)]
        [1, 3, 2, 3]
    """
    return 2 if panels == 4 else min(3, panels)


def _panel_width(columns: int) -> float:
    """Inches of a panel: narrower in rows of three, so that words can be read where a page shows 700 pixels of it.

    Example:
        >>> _panel_width(2), _panel_width(3)
        (3.3, 2.8)
    """
    return 3.3 if columns < 3 else 2.8


def _title(key: str, value: object) -> str:
    """What is special about a panel; a text describes itself."""
    return value if isinstance(value, str) else f"{_words(key)} = {value}"


@dataclass(frozen=True)
class SuccessPanel:
    """Plates with different numbers of positives: how many each decoder had exactly right, and the limit."""

    title: str
    positives: Sequence[int]
    plates: int  # of each number
    right: Mapping[str, Sequence[int]]  # of each decoder
    limit: Sequence[float]
    strict: bool = True  # whether no decoder does better; False where the limit is that of other plates


def success_figure(panels: Sequence[SuccessPanel], *, columns: int = 3) -> "Figure":
    """Draw the share of plates exactly right over the number of positives, with 95 % bands, and the limit.

    Every panel has the same decoders. The limit is a dark line; above a strict one, where success rates cannot be, the
    panel is shaded.

    Args:
        panels: One for each kind of plate.
        columns: Panels in a row.
    """
    from matplotlib.figure import Figure

    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(_panel_width(columns) * columns + 0.4, 2.6 * rows + 1.1), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharey=True).flatten().tolist()
    for number, (ax, panel) in enumerate(zip(axes, panels, strict=False)):
        _draw_success(ax, panel)
        ax.set_title(panel.title, fontsize=10, loc="left")
        ax.set_xticks(panel.positives)
        ax.set_ylim(0, 1.02)
        open_axes(ax)
        if number % columns == 0:
            ax.set_ylabel("plates exactly right")
        if number + columns >= len(panels):
            ax.set_xlabel("positives on a plate")
    for ax in axes[len(panels) :]:
        ax.set_axis_off()
    lines, names = axes[0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=min(4, len(names)), frameon=False, fontsize=9)
    return figure


def _draw_success(ax: "Axes", panel: SuccessPanel) -> None:
    """The limit of a panel, then a line with its band for each decoder."""
    words = "limit" if panel.strict else "limit, estimated"
    LIMIT._replace(zorder=1.5).draw(ax, panel.positives, panel.limit, words)
    if panel.strict:
        _shade_above(ax, panel.positives, panel.limit)
    for name, look in looks({name: name for name in panel.right}).items():
        right = panel.right[name]
        low, high = zip(*(wilson(one, panel.plates) for one in right), strict=True)
        ax.fill_between(panel.positives, low, high, color=look.color, alpha=0.12, linewidth=0)
        look.draw(ax, panel.positives, [one / panel.plates for one in right], name)


Counted = Sequence[tuple[float, int, int]]  # where on the axis, how many were right, of how many


@dataclass(frozen=True)
class CountedPanel:
    """Success rates over a number such as that of pools: what each decoder had right, and the exact decoder."""

    title: str
    across: str  # what the number is
    curves: Mapping[str, Counted]
    limit: Counted
    log: bool = False


def counted_figure(panels: Sequence[CountedPanel]) -> "Figure":
    """Draw success rates with 95 % intervals, panels side by side; a decoder looks the same in all of them."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(panels) + 0.4, 4.6), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False, sharey=True)[0].tolist()
    exact = "limit (exact decoder)"
    styles = {exact: LIMIT._replace(zorder=1.5), **looks({name: name for panel in panels for name in panel.curves})}
    legend: dict[str, Any] = {}
    for ax, panel in zip(axes, panels, strict=True):
        for name, points in {exact: panel.limit, **panel.curves}.items():
            legend.setdefault(name, _draw_counted(ax, points, styles[name]))
        ticks = sorted({point[0] for points in (panel.limit, *panel.curves.values()) for point in points})
        ax.set_xscale("log" if panel.log else "linear")
        ax.set_xticks(ticks, [f"{tick:,g}" for tick in ticks])
        ax.minorticks_off()
        ax.margins(x=0.07)
        ax.set_title(panel.title, fontsize=10, loc="left")
        ax.set_xlabel(panel.across)
        ax.set_ylim(0, 1.02)
        open_axes(ax)
    axes[0].set_ylabel("success rate")
    figure.legend(
        legend.values(), legend.keys(), loc="outside lower center", ncols=min(4, len(legend)), frameon=False, fontsize=9
    )
    return figure


def _draw_counted(ax: "Axes", points: Counted, style: LineStyle) -> Any:
    """A line with its band, or a single point with its bars; what the legend shows of it."""
    where, right, of = zip(*points, strict=True)
    low, high = zip(*(wilson(*one) for one in zip(right, of, strict=True)), strict=True)
    share = [one / all_ for one, all_ in zip(right, of, strict=True)]
    if len(where) > 1:
        ax.fill_between(where, low, high, color=style.color, alpha=0.13, linewidth=0)
        return ax.plot(where, share, markersize=5, **style.words())[0]
    reach = [[share[0] - low[0]], [high[0] - share[0]]]
    ax.errorbar(where, share, yerr=reach, color=style.color, capsize=3, linewidth=1.2, zorder=4)
    point = style._replace(zorder=4.0, hollow=True, linestyle="none")
    return ax.plot(where, share, markersize=11, **point.words())[0]


def time_frontier_figure(
    scores: Mapping[str, Score], microseconds: Mapping[str, float], limit: str | None = None
) -> "Figure":
    """Draw success rates against the time of a decode; a line joins those that no other beats in both, and fills them.

    Args:
        scores: What each decoder had right.
        microseconds: How long each takes for one instance.
        limit: The exact one, whose success rate is drawn as the limit.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.8), layout="constrained")
    ax = figure.subplots()
    best: list[tuple[float, float]] = []
    names = []
    for name in sorted(scores, key=lambda name: microseconds[name]):
        rate, (low, high) = scores[name].success_rate, scores[name].interval()
        leads = not best or low > best[-1][1]
        if leads:
            best.append((microseconds[name], rate))
        look, reach = look_of(name) or LineStyle(QUIET, marker="o"), [[rate - low], [high - rate]]
        style = look._replace(linestyle="none", hollow=not leads).words()
        ax.errorbar(microseconds[name], rate, yerr=reach, markersize=7, capsize=3, **style)
        names.append(PointName(microseconds[name], rate, LIMIT_COLOUR if leads else QUIET_WORDS, name))
    ax.step(*zip(*best, strict=True), where="post", color=QUIET, linewidth=1, zorder=0)
    _time_axis(ax, list(microseconds.values()))
    lowest = min(score.success_rate for score in scores.values())
    ax.set_ylim(-0.03 if lowest < 0.3 else math.floor(10 * lowest - 1) / 10, 1.06)
    ax.set_ylabel("success rate")
    open_axes(ax)
    avoid = [(microseconds[name], end) for name, score in scores.items() for end in score.interval()]
    if limit is not None:
        avoid += _draw_limit(ax, scores[limit].success_rate)
    name_points(figure, ax, names, [*avoid, *_along(best)])
    return figure


def _draw_limit(ax: "Axes", rate: float) -> list[tuple[float, float]]:
    """The limit across a panel, with its name; places on it that other names should not cover."""
    ax.axhline(rate, color=LIMIT_COLOUR, linewidth=LIMIT.linewidth, zorder=1)
    beside = ax.get_yaxis_transform()
    ax.text(0.005, rate + 0.012, "limit", transform=beside, fontsize=9, fontweight="bold", color=LIMIT_COLOUR)
    return [(float(x), rate) for x in np.geomspace(*ax.get_xlim(), 60)]


def _time_axis(ax: "Axes", microseconds: Sequence[float]) -> None:
    """A logarithmic axis of times, with plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator

    decades = math.log10(max(microseconds) / min(microseconds))
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < 2.5 else (1.0,)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))
    ax.minorticks_off()
    ax.margins(x=0.2)
    ax.set_xlabel("microseconds per decode")


def _along(best: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Places on the line that joins the best, close enough to each other that no name fits between two."""
    found = []
    for (x, y), (right, up) in pairwise(best):
        found += [(float(x * (right / x) ** part), y) for part in np.linspace(0, 1, 20)]
        found += [(right, float(y + (up - y) * part)) for part in np.linspace(0, 1, 20)]
    return found


def _words(key: str) -> str:
    """An axis label from a dotted key: the design's own numbers need no prefix."""
    return key.removeprefix("design.").replace(".", " ").replace("_", " ")


def line_styles(found: Sequence[StudyResult]) -> dict[str, LineStyle]:
    """The look of each decoder, the same in all panels and, where it has a look of its own, in all figures."""
    limits = {one.decoder for one in found if one.limit}
    styles = looks({one.decoder: one.label for one in found if not one.limit})
    return {**dict.fromkeys(limits, LIMIT), **styles}


def draw_panel(ax: "Axes", found: Sequence[StudyResult], styles: Mapping[str, LineStyle], metric: str) -> None:
    """One metric at one combination of the grid's other keys."""
    for name in dict.fromkeys(one.decoder for one in found):
        line = [one for one in found if one.decoder == name]
        where: Any = [next(iter(one.point.values())) for one in line]  # numbers, or texts that become categories
        mean = [one.score.mean(metric) for one in line]
        low, high = zip(*(one.score.interval(metric) for one in line), strict=True)
        ax.fill_between(where, low, high, color=styles[name].color, alpha=0.15, linewidth=0)
        styles[name].draw(ax, where, mean, name)
        if line[0].limit and metric == "success_rate" and _proved(line) >= NEARLY_ALL:
            _shade_above(ax, where, mean)
    values = list(dict.fromkeys(next(iter(one.point.values())) for one in found))
    if len(values) <= 10 and not any(isinstance(value, str) for value in values):
        ax.set_xticks(values)
    if metric == "success_rate":
        ax.set_ylim(0, 1.02)
    elif metric == "mse":
        _log_error(ax, [one.score.mean(metric) for one in found])
    ax.set_ylabel(METRIC_WORDS[metric])
    open_axes(ax)


def _log_error(ax: "Axes", errors: Sequence[float]) -> None:
    """An axis for errors that is logarithmic, so that small ones can be told apart, down to a part that has 0."""
    largest = max(errors, default=0.0)
    if largest > 0:
        linear = 10.0 ** math.floor(math.log10(largest) - 2)
        ax.set_yscale("symlog", linthresh=linear, linscale=0.5)
        ticks = [0.0, *(linear * 10**power for power in range(4) if linear * 10**power <= 1.3 * largest)]
        ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.minorticks_off()
    ax.set_ylim(0, 1.5 * largest or None)


def _shade_above(ax: "Axes", where: Any, limit: Sequence[float]) -> None:
    """Shade what lies above the limit, and say what that means where there is room for it."""
    ax.fill_between(where, limit, 1.02, color=LIMIT_COLOUR, alpha=0.07, linewidth=0)
    place = [float(i) if isinstance(x, str) else float(x) for i, x in enumerate(where)]
    order = sorted(range(len(place)), key=lambda i: place[i])
    across = np.linspace(min(place), max(place), 7)
    height = np.interp(across, [place[i] for i in order], [limit[i] for i in order])
    left = height[0] <= height[-1]
    words = height[:3] if left else height[-3:]  # the third of the panel that the words would stand in
    if words.max() < 0.82:
        ax.text(
            0.06 if left else 0.94,
            0.96,
            "no decoder\ndoes better",
            transform=ax.transAxes,
            ha="left" if left else "right",
            va="top",
            fontsize=8,
            color=QUIET_WORDS,
        )


def _draw_legend(
    figure: "Figure", axes: Sequence["Axes"], used: int, found: Sequence[StudyResult], metric: str
) -> None:
    """One legend for all panels, the best decoder first: in a cell left empty, else beside or below them."""
    lines, names = axes[0].get_legend_handles_labels()
    means = {name: [one.score.mean(metric) for one in found if one.decoder == name] for name in names}
    sign = 1 if metric == "mse" else -1
    order = sorted(range(len(names)), key=lambda i: sign * sum(means[names[i]]) / len(means[names[i]]))
    labels = [line_label([one for one in found if one.decoder == names[i]]) for i in order]
    look = {"handles": [lines[i] for i in order], "labels": labels, "frameon": False, "fontsize": 9}
    for ax in axes[used:]:
        ax.set_axis_off()
    if len(axes) > used:
        axes[used].legend(loc="center left", **look)
    elif len(axes) == 1:
        figure.legend(loc="outside right upper", **look)
    else:
        across = 4 if len(names) <= 4 or len(axes) != 4 else 3  # two panels in a row have room for three names
        figure.legend(loc="outside lower center", ncols=min(across, len(names)), **look)


NEARLY_ALL = 0.98  # of answers proved, from which on a panel claims that no decoder does better


def _proved(line: Sequence[StudyResult]) -> float:
    """The share of a decoder's answers that are proved to be the most probable ones."""
    return sum(one.statuses.get("PROVED", 0) for one in line) / sum(one.score.instances for one in line)


def line_label(line: Sequence[StudyResult]) -> str:
    """A decoder's name; the limit says that it is one, and how much of it is proved if not all."""
    if not line[0].limit:
        return line[0].label
    proved = _proved(line)
    share = math.floor(1e4 * proved) / 100  # rounded down: 100 % would say that nothing is open
    return f"{line[0].label} (limit{'' if proved == 1 else f', {share:.2f} % proved'})"


# The candidates of a plan: how sure each is, against the pools that it takes.


@dataclass(frozen=True)
class PlanPoint:
    """One candidate."""

    pools: int
    weight: int  # transfers per sample
    success: float
    low: float
    high: float
    recommended: bool = False


def plan_figure(points: Sequence[PlanPoint], *, certainty: float, bound: float, items: int) -> "Figure":
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
    ax.axhline(certainty, color=QUIET, linewidth=1, linestyle="--", label="certainty wanted")
    words = "entropy bound: no design does with fewer pools"
    ax.axvline(bound, color=BOUND.color, linewidth=BOUND.linewidth, linestyle=BOUND.linestyle, label=words)
    for colour, weight in zip(COLOURS, sorted({point.weight for point in points}), strict=False):
        own = sorted((point for point in points if point.weight == weight), key=lambda point: point.pools)
        x, y = [point.pools for point in own], [point.success for point in own]
        reach = [[point.success - point.low for point in own], [point.high - point.success for point in own]]
        ax.errorbar(x, y, yerr=reach, color=colour, marker="o", linewidth=1, capsize=3, label=f"{weight} transfers")
    for point in points:
        if point.recommended:
            ax.plot(point.pools, point.success, "o", markersize=15, fillstyle="none", color=RED, label="recommended")
    ax.set_xlim(0, max([items, *(point.pools for point in points)]) * 1.02)
    ax.set_xlabel(f"pools (one test for each sample: {items})")
    ax.set_ylabel("plates decoded without an error")
    ax.set_title("Simulated plates, 99 % intervals", fontsize=10, loc="left")
    open_axes(ax)
    ax.legend(frameon=False, fontsize=8)
    return figure


# Figures of policies: how many tests they need, against the prevalence and against their rounds.


def policies_figure(study: Study, found: Sequence[StudyResult], metric: str) -> "Figure":
    """Draw what a study found of its policies: their tests over the prevalence, or over their rounds.

    Args:
        study: One whose grid is the prevalence (prior.rate); for rounds, one without a grid.
        found: Its results.
        metric: "tests" or "rounds".
    """
    spent = [(one, one.costs) for one in found if one.costs is not None]
    if not spent:
        raise ValueError(f"metric={metric!r} is of policies, and the study has none measured: add [policies.NAME].")
    key = "prior.rate"
    if list(study.grid) != ([key] if metric == "tests" else []):
        remedy = f"give a grid of {key} alone" if metric == "tests" else "leave the grid out"
        given = ", ".join(study.grid) or "of one point"
        raise ValueError(f"metric={metric!r} is not drawn over the grid {given}: {remedy}.")
    bounds = {}
    for task in study.tasks:
        problem = task.problem()
        rate = float(getattr(problem.prior, "rate", float("nan")))
        if rate == rate and task.point.get(key, rate) not in bounds:
            bounds[float(task.point.get(key, rate))] = fewest_tests(problem.noise, rate, items=problem.items)
    if metric == "tests":
        curves: dict[str, list[tuple[float, float, float]]] = {}
        for one, costs in spent:
            point = float(one.point[key]), costs.mean_tests, costs.half_interval / 1.96
            curves.setdefault(one.label, []).append(point)
        return prevalence_figure(curves, sorted(bounds.items()), study.tasks[0].items)
    points = {
        one.label: (costs.mean_rounds, costs.mean_tests, costs.half_interval / 1.96, one.score.success_rate)
        for one, costs in spent
    }
    return rounds_figure(points, min(bounds.values(), default=1.0), study.tasks[0].items)


def prevalence_figure(
    found: Mapping[str, Sequence[tuple[float, float, float]]], bound: Sequence[tuple[float, float]], items: int
) -> "Figure":
    """Draw the mean number of tests over the prevalence, a line for each policy, and the entropy bound.

    Args:
        found: For each policy the prevalence, the mean number of tests, and its standard error.
        bound: The prevalence and the bound.
        items: For how many the tests are.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    figure = Figure(figsize=(8, 4.6), layout="constrained")
    ax = figure.subplots()
    ends = []
    for policy, look in looks({policy: policy for policy in found}).items():
        rate, tests, error = zip(*found[policy], strict=True)
        ax.errorbar(rate, tests, yerr=[1.96 * one for one in error], markersize=4.5, capsize=2, **look.words())
        ends.append(LineEnd(rate[-1], tests[-1], look.color, policy.replace("_", " ")))
    BOUND.draw(ax, [rate for rate, _ in bound], [least for _, least in bound], "entropy bound")
    ends.append(LineEnd(*bound[-1], BOUND.color, "entropy bound"))
    ax.set_xscale("log")
    ax.set_xticks([rate for rate, _ in bound])
    ax.xaxis.set_major_formatter(FuncFormatter(lambda rate, _: f"{100 * rate:g}"))
    _log_tests(ax, min(least for _, least in bound))
    ax.set_xlabel("prevalence, %")
    ax.set_ylabel(f"tests for {items} items, mean and 95 % interval")
    open_axes(ax)
    ax.set_xlim(ax.get_xlim())  # names are placed within these limits
    name_ends(ax, ends)
    return figure


def _log_tests(ax: "Axes", least: float) -> None:
    """A logarithmic axis for numbers of tests, which has ticks with plain numbers."""
    ax.set_yscale("log")
    ticks = [tick for tick in (3, 5, 10, 20, 30, 50, 100, 200, 400) if 0.8 * least <= tick <= 1.3 * ax.get_ylim()[1]]
    ax.set_yticks(ticks, [str(tick) for tick in ticks])
    ax.set_ylim(bottom=0.8 * least)
    ax.minorticks_off()


def needed_tests_figure(
    ours: Mapping[str, Sequence[tuple[float, float, float]]],
    others: Mapping[str, Sequence[tuple[float, float, float]]],
    bound: Sequence[tuple[float, float]],
    samples: int,
) -> "Figure":
    """Draw the tests of a plate over the prevalence: our schemes in thick lines, those of others in thin ones.

    Args:
        ours: For each scheme the prevalence, the mean number of tests, and its standard error.
        others: The same of other schemes.
        bound: The prevalence, and the entropy bound on the pools of one stage.
        samples: On a plate: as many tests as one for each.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    figure = Figure(figsize=(8.6, 4.6), layout="constrained")
    ax = figure.subplots()
    shown: list[Any] = [ax.axhline(samples, color=QUIET, linewidth=1.2, label="each sample alone")]
    both = {**ours, **others}
    for name, look in looks({name: name for name in both}).items():
        rate, tests, error = zip(*both[name], strict=True)
        style = look._replace(linewidth=2.2 if name in ours else 1.2, zorder=3.0 if name in ours else 2.0)
        bars = [1.96 * one for one in error]
        shown.append(ax.errorbar(rate, tests, yerr=bars, markersize=5, capsize=2, label=name, **style.words()))
    BOUND.draw(ax, [rate for rate, _ in bound], [least for _, least in bound], "entropy bound, one stage")
    shown += ax.lines[-1:]
    ax.set_xscale("log")
    ax.set_xticks([rate for rate, _ in bound])
    ax.xaxis.set_major_formatter(FuncFormatter(lambda rate, _: f"{100 * rate:g}"))
    _log_tests(ax, min(least for _, least in bound))
    open_axes(ax)
    ax.set_xlabel("prevalence, %")
    ax.set_ylabel(f"tests for {samples} samples")
    words = {"frameon": False, "fontsize": 9, "handlelength": 3.4}  # long enough to tell dashes from dots
    figure.legend(handles=shown, loc="outside right upper", **words)
    return figure


def rounds_figure(found: Mapping[str, tuple[float, float, float, float]], bound: float, items: int) -> "Figure":
    """Draw the mean number of tests over the mean number of rounds, a point for each policy, and the entropy bound.

    Args:
        found: For each policy its mean rounds, its mean tests, their standard error, and its success rate.
        bound: The entropy bound on tests.
        items: For how many the tests are.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.6), layout="constrained")
    ax = figure.subplots()
    names = []
    styles = looks({policy: policy for policy in found})
    for policy, (rounds, tests, error, success) in found.items():
        look = styles[policy]
        ax.errorbar([rounds], [tests], yerr=[1.96 * error], color=look.color, marker=look.marker, linestyle="none")
        right = "" if success > 0.9995 else f" ({100 * success:.1f} % right)"
        names.append(PointName(rounds, tests, LIMIT_COLOUR, policy.replace("_", " ") + right))
    ax.axhline(bound, color=BOUND.color, linewidth=BOUND.linewidth, linestyle=BOUND.linestyle)
    ax.set_xscale("log")
    most = max(rounds for rounds, *_ in found.values())
    ticks = [tick for tick in (1, 2, 3, 5, 10, 20, 50, 100) if tick <= 1.3 * most]
    ax.set_xticks(ticks, [str(tick) for tick in ticks])
    ax.margins(x=0.12)
    _log_tests(ax, bound)
    ax.set_xlabel("rounds, mean")
    ax.set_ylabel(f"tests for {items} items, mean")
    open_axes(ax)
    ax.text(0.99, bound * 1.03, "entropy bound", transform=ax.get_yaxis_transform(), ha="right", va="bottom",
            fontsize=9, fontweight="bold", color=LIMIT_COLOUR)  # fmt: skip
    if any(success > 0.9995 for *_, success in found.values()):
        ax.set_title("100.0 % right where nothing else is said", fontsize=9, loc="left", color=QUIET_WORDS)
    name_points(figure, ax, names)
    return figure


def policy_frontier_figure(found: Mapping[int, Sequence[tuple[float, float]]], items: int) -> "Figure":
    """Draw the share of wrong answers over the mean number of tests, a line for each size of the first round.

    Args:
        found: For each first round the mean numbers of tests with the shares of wrong answers.
        items: For how many the tests are.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    ax = figure.subplots()
    for (first, points), colour, marker in zip(found.items(), COLOURS, MARKERS, strict=False):
        tests, wrong = zip(*sorted(points), strict=True)
        ax.plot(tests, [100 * share for share in wrong], color=colour, marker=marker, label=f"first round of {first}")
    ax.set_yscale("symlog", linthresh=0.1)
    ax.set_ylim(bottom=0)
    ax.set_xlabel(f"tests for {items} items, mean")
    ax.set_ylabel("wrong answers, %")
    open_axes(ax)
    ax.legend(frameon=False)
    return figure
