"""Figures are drawn from reports of every kind, degenerate ones included."""

import io

import pytest
import torch

import qgt
from qgt.pictures.figures import (
    CountedPanel,
    SuccessPanel,
    counted_figure,
    reliability_figure,
    success_figure,
    time_frontier_figure,
    verification_figure,
)
from qgt.pictures.style import LIMIT, LIMIT_COLOUR, PointName, name_points, spread
from qgt.trust.verification import report_on


@pytest.mark.parametrize(
    "evidence",
    [
        torch.tensor([[0.9, 0.1], [0.2, 1.1]]),
        torch.zeros(2, 2),
        torch.full((2, 2), -3.0),
        torch.tensor([[5.0, 5.0], [0.0, 0.0]]),
    ],
)
def test_verification_figure(evidence: torch.Tensor) -> None:
    report = report_on(evidence.double(), qgt.Design.from_rows(["10", "01"]), "least_squares", 1000)
    figure = verification_figure(report)
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles[0] == "Claimed design"
    assert f"{int(report.wrong.sum())} of 4 entries" in titles[2]
    assert all(ax.get_xlabel() and ax.get_ylabel() for ax in figure.axes)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    assert buffer.getvalue()[:4] == b"\x89PNG"


def test_reliability_figure_leaves_out_empty_bins() -> None:
    figure = reliability_figure({"one": [(10, 0.5, 1), (0, 0.0, 0), (4, 3.8, 4)]})
    (ax,) = figure.axes
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["perfectly calibrated"]
    assert ax.get_title(loc="left") == "one"
    many, few = (bars.lines[0] for bars in ax.containers)
    assert (len(many.get_xdata()), len(few.get_xdata())) == (1, 1)
    assert few.get_alpha() < 1 and few.get_linestyle() == "None"  # a share of four entries is pale, and not joined
    figure.savefig(io.BytesIO(), format="png")


def test_every_curve_has_a_reliability_panel_of_its_own() -> None:
    bins = [(10, 2.0, 3), (20, 15.0, 14)]
    figure = reliability_figure({"a": bins, "b": bins, "c": bins})
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["a", "b", "c"]


def test_the_frontier_joins_the_decoders_that_none_beats_in_both() -> None:
    rates = {"quick": 100, "slow and worse": 50, "slow and good": 950, "slower, no better": 949}
    scores = {name: qgt.Score(10, {(1, 0, 0): right, (0, 1, 1): 1000 - right}) for name, right in rates.items()}
    times = dict(zip(rates, (1.0, 50.0, 100.0, 1000.0), strict=True))
    ax = time_frontier_figure(scores, times).axes[0]
    assert {text.get_text() for text in ax.texts} == set(rates)
    joined = ax.lines[-1]
    assert joined.get_xdata().tolist() == [1.0, 100.0] and joined.get_ydata().tolist() == [0.1, 0.95]
    assert ax.get_xscale() == "log" and "microseconds" in ax.get_xlabel()


def test_the_frontiers_limit_looks_as_in_all_figures() -> None:
    scores = {name: qgt.Score(10, {(1, 0, 0): 900 + i, (0, 1, 1): 100 - i}) for i, name in enumerate("ab")}
    ax = time_frontier_figure(scores, {"a": 10.0, "b": 20.0}, limit="b").axes[0]
    (limit,) = [line for line in ax.lines if line.get_color() == LIMIT_COLOUR]
    assert limit.get_linewidth() == LIMIT.linewidth and set(limit.get_ydata()) == {0.901}
    assert "limit" in {text.get_text() for text in ax.texts}


def test_a_reliability_figure_says_what_it_shows() -> None:
    ax = reliability_figure({"a": [(10, 2.0, 3), (0, 0.0, 0)]}, "confidence", "share right").axes[0]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("confidence", "share right")


@pytest.mark.parametrize("strict", [True, False])
def test_success_is_drawn_over_positives_with_the_limit(strict: bool) -> None:
    panels = [SuccessPanel(f"panel {i}", [3, 5], 50, {"a": [50, 40], "b": [25, 0]}, [1.0, 0.7], strict) for i in (1, 2)]
    figure = success_figure(panels)
    first, second, empty = figure.axes
    assert [ax.get_title(loc="left") for ax in (first, second)] == ["panel 1", "panel 2"] and not empty.axison
    limit, a, b = first.lines
    assert limit.get_color() == LIMIT_COLOUR and limit.get_ydata().tolist() == [1.0, 0.7]
    assert (a.get_ydata().tolist(), b.get_ydata().tolist()) == ([1.0, 0.8], [0.5, 0.0])
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words == ["limit" if strict else "limit, estimated", "a", "b"]
    assert len(first.collections) == 2 + strict  # bands, and the shade above a strict limit
    figure.savefig(io.BytesIO(), format="png")


def test_counted_panels_share_looks_and_one_legend_and_a_single_point_has_bars() -> None:
    first = CountedPanel("pools", "M", {"a": [(10.0, 5, 10), (20.0, 10, 10)], "one": [(20.0, 9, 10)]}, [(10.0, 6, 10)])
    second = CountedPanel(
        "items", "N", {"a": [(100.0, 1, 10), (1000.0, 2, 10)]}, [(100.0, 3, 10), (1000.0, 4, 10)], log=True
    )
    figure = counted_figure([first, second])
    left, right = figure.axes
    assert (left.get_xscale(), right.get_xscale()) == ("linear", "log")
    assert [text.get_text() for text in right.get_xticklabels()] == ["100", "1,000"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["limit (exact decoder)", "a", "one"]
    of_a = [next(line for line in ax.lines if line.get_marker() == "o") for ax in (left, right)]
    assert of_a[0].get_color() == of_a[1].get_color() != LIMIT_COLOUR
    assert of_a[0].get_ydata().tolist() == [0.5, 1.0]
    assert len(left.containers) == 2 and not right.containers  # bars of the limit's one point, and of the curve's
    figure.savefig(io.BytesIO(), format="png")


def test_names_beside_points_do_not_touch() -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    ax = figure.subplots()
    ax.set(xlim=(0, 10), ylim=(0, 10))
    points = [PointName(4 + i / 5, 5 + i % 2 / 5, "#000000", f"a name {i}") for i in range(7)]
    name_points(figure, ax, points)
    figure.draw_without_rendering()
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [super(type(text), text).get_window_extent(renderer) for text in ax.texts]  # of the words alone
    assert len(boxes) == 7
    assert not any(one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])


def test_heights_are_spread_from_the_top() -> None:
    assert spread([0.9, 0.9, 0.2], 0.1) == [0.9, 0.8, 0.2]
    assert spread([], 0.1) == []
