"""Figures of policies: how many tests they need, against the prevalence and against their rounds."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from qgt.pictures.figures import COLOURS, LIMIT_COLOUR, MARKERS
from qgt.study.plan import Study
from qgt.study.reading import StudyResult
from qgt.theory.limits import fewest_tests

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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

    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    ax = figure.subplots()
    for (policy, points), colour, marker in zip(found.items(), COLOURS, MARKERS, strict=False):
        rate, tests, error = zip(*points, strict=True)
        bars = [1.96 * one for one in error]
        ax.errorbar(rate, tests, yerr=bars, color=colour, marker=marker, markersize=4, label=policy.replace("_", " "))
    ax.plot(*zip(*bound, strict=True), color=LIMIT_COLOUR, linestyle="--", label="entropy bound")
    ax.set_xscale("log")
    ax.set_xticks([rate for rate, _ in bound])
    ax.xaxis.set_major_formatter(FuncFormatter(lambda rate, _: f"{100 * rate:g}"))
    ax.minorticks_off()
    ax.set_ylim(bottom=0)
    ax.set_xlabel("prevalence, %")
    ax.set_ylabel(f"tests for {items} items, mean and 95 % interval")
    ax.legend(frameon=False)
    return figure


def rounds_figure(found: Mapping[str, tuple[float, float, float, float]], bound: float, items: int) -> "Figure":
    """Draw the mean number of tests over the mean number of rounds, a point for each policy, and the entropy bound.

    Args:
        found: For each policy its mean rounds, its mean tests, their standard error, and its success rate.
        bound: The entropy bound on tests.
        items: For how many the tests are.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    ax = figure.subplots()
    for number, (policy, (rounds, tests, error, success)) in enumerate(found.items()):
        label = f"{policy.replace('_', ' ')} ({100 * success:.1f} % right)"
        colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number // len(COLOURS)]
        ax.errorbar([rounds], [tests], yerr=[1.96 * error], color=colour, marker=marker, linestyle="none", label=label)
    ax.axhline(bound, color=LIMIT_COLOUR, linestyle="--", label="entropy bound")
    ax.set_yscale("log")
    ax.set_ylim(bottom=bound * 0.8)
    ticks = [tick for tick in (10, 15, 20, 30, 50, 100, 200, 400) if tick >= bound * 0.8]
    ax.set_yticks(ticks, [str(tick) for tick in ticks])
    ax.minorticks_off()
    ax.set_xlabel("rounds, mean")
    ax.set_ylabel(f"tests for {items} items, mean")
    ax.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def frontier_figure(found: Mapping[int, Sequence[tuple[float, float]]], items: int) -> "Figure":
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
    ax.legend(frameon=False)
    return figure
