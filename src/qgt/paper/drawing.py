"""The files of a reproduction: its figures and tables, from its counts alone."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from qgt.files.store import replacing, write_text
from qgt.paper.plan import POOLS_NOISE
from qgt.paper.tables import FIGURES, TABLES, Counts, Number, across, write_complexity_csv
from qgt.pictures.figures import curves_figure, draw_panel, line_label, line_styles, save_figure
from qgt.pictures.style import QUIET_WORDS, LineEnd, name_ends
from qgt.study import StudyResult, write_csv
from qgt.trust.metrics import METRICS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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
    """Write each decoder's name right of its line's end; the limit's is bold."""
    left, right = min(map(across, found)), max(map(across, found))
    margin = 0.02 * (right - left) or 0.5  # a single point needs some room too
    ax.set_xlim(left - margin, right + margin)
    ends = []
    for name, (x, y) in _ends(found).items():
        line = [one for one in found if one.decoder == name]
        ends.append(LineEnd(x, y, colours[name], line_label(line), bold=line[0].limit))
    name_ends(ax, ends, fontsize=10.5)


def _ends(found: Sequence[StudyResult]) -> dict[str, tuple[Number, float]]:
    """The last point of each decoder's line."""
    last: dict[str, StudyResult] = {}
    for one in sorted(found, key=across):
        last[one.decoder] = one
    return {name: (across(one), one.score.success_rate) for name, one in last.items()}


def _images(name: str, figure: "Figure") -> dict[str, Callable[[Path], None]]:
    return {f"{name}.{form}": partial(_write_image, figure, form) for form in ("svg", "png")}


def _write_image(figure: "Figure", form: str, path: Path) -> None:
    with replacing(path) as temporary:
        save_figure(figure, temporary, form)
