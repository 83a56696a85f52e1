"""The files of a reproduction: its figures and tables, from its counts alone."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from qgt.files.store import replacing, write_text
from qgt.paper.plan import POOLS_NOISE
from qgt.paper.tables import FIGURES, TABLES, Counts, Number, across, write_complexity_csv
from qgt.pictures.figures import curves_figure, draw_panel, line_label, line_styles, save_figure
from qgt.study import StudyResult, write_csv
from qgt.trust.metrics import METRICS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

QUIET_WORDS = "#5b6570"  # for words beside the point
ROOM = 0.058  # between two labels, as a part of the axis


def draw(counts: Counts, folder: Path) -> list[Path]:
    """Write every figure and table; their paths."""
    writers: dict[str, Callable[[Path], None]] = {
        "complexity.csv": partial(write_complexity_csv, counts),
        **{f"{name}.md": partial(write_text, text=make(counts) + "\n") for name, make in TABLES.items()},
    }
    for name in FIGURES:
        found = getattr(counts, name)
        writers |= {f"{name}.csv": partial(write_csv, found), **_images(name, curves_figure(found, METRICS))}
    writers |= _images("success_vs_pools", success_figure(counts))
    for file, write in writers.items():
        write(folder / file)
    return [folder / file for file in writers]


def success_figure(counts: Counts) -> "Figure":
    """Success rates against pools in one panel, every line with its name at its end."""
    from matplotlib.figure import Figure

    found, scale = counts.vs_pools, counts.scale
    figure = Figure(figsize=(8, 4.8), layout="constrained")
    ax = figure.subplots()
    styles = line_styles(found)
    draw_panel(ax, found, styles, "success_rate")
    _name_lines(ax, found, {name: style.color for name, style in styles.items()})
    ax.tick_params(labelsize=10.5)
    ax.set_xlabel("pools", fontsize=11.5)
    ax.set_ylabel("share of instances without an error", fontsize=11.5)
    ax.set_title("How often every item is called right", loc="left", fontsize=13.5, fontweight="bold", pad=27)
    setting = (
        f"{scale.items} items, {100 * scale.rate:g} % defective; {100 * POOLS_NOISE:g} % of counts noisy; "
        f"{scale.designs * scale.instances:,} instances a point"
    )
    ax.text(0, 1.035, setting, transform=ax.transAxes, fontsize=10.5, color=QUIET_WORDS)
    return figure


def _name_lines(ax: "Axes", found: Sequence[StudyResult], colours: Mapping[str, str]) -> None:
    """Write each decoder's name right of its line's end, spread so that none covers another."""
    ends = _ends(found)
    left, right = min(map(across, found)), max(map(across, found))
    margin = 0.02 * (right - left) or 0.5  # a single point needs some room too
    ax.set_xlim(left - margin, right + margin)
    heights = _spread({name: y for name, (_, y) in ends.items()})
    beside = ax.get_yaxis_transform()  # across in widths of the panel, up in rates
    for name, (x, y) in ends.items():
        leads = [
            *ax.plot([x, right + margin], [y, y]),
            *ax.plot([1, 1.01, 1.06], [y, y, heights[name]], transform=beside, clip_on=False),
        ]
        for lead in leads:
            lead.set(color=colours[name], linewidth=0.8, alpha=0.6, zorder=1)
        line = [one for one in found if one.decoder == name]
        bold = line[0].limit
        ax.text(
            1.07,
            heights[name],
            line_label(line).replace(" (", "\n(") if bold else line_label(line),
            transform=beside,
            va="center",
            fontsize=10.5,
            fontweight="bold" if bold else "normal",
            color=_darker(colours[name]),
            linespacing=1.0,
        )


def _darker(colour: str) -> tuple[float, ...]:
    """A line's colour for letters, which are thinner and need more of it."""
    from matplotlib.colors import to_rgb

    return tuple(0.82 * part for part in to_rgb(colour))


def _ends(found: Sequence[StudyResult]) -> dict[str, tuple[Number, float]]:
    """The last point of each decoder's line."""
    last: dict[str, StudyResult] = {}
    for one in sorted(found, key=across):
        last[one.decoder] = one
    return {name: (across(one), one.score.success_rate) for name, one in last.items()}


def _spread(wanted: Mapping[str, float]) -> dict[str, float]:
    """Heights for labels: as near to the wanted ones as their size lets them be, from the top down."""
    placed: dict[str, float] = {}
    above = 1.0 + ROOM
    for name in sorted(wanted, key=lambda name: -wanted[name]):
        above = placed[name] = min(wanted[name], above - ROOM * (1.35 if len(placed) == 1 else 1))
    return placed


def _images(name: str, figure: "Figure") -> dict[str, Callable[[Path], None]]:
    return {f"{name}.{form}": partial(_write_image, figure, form) for form in ("svg", "png")}


def _write_image(figure: "Figure", form: str, path: Path) -> None:
    with replacing(path) as temporary:
        save_figure(figure, temporary, form)
