"""The looks that all figures share: one for each decoder, the limit, the bound, quiet axes, names that do not touch."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

DARK, RED, QUIET = "#1f4e79", "#c0392b", "#9aa5b1"
QUIET_WORDS = "#5b6570"  # for words beside the point
GRID_COLOUR = "#e3e7eb"
LIMIT_COLOUR = "#20262c"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d46")  # Okabe and Ito's, and a brown
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LABEL_SIZE = 9
ROOM = 0.058  # between two names at the ends of lines, as a part of the axis


class LineStyle(NamedTuple):
    """How a line looks."""

    color: str
    linewidth: float = 1.5
    linestyle: str = "-"
    marker: str = ""
    zorder: float = 2.0
    hollow: bool = False  # whether the marker is white inside

    def draw(self, ax: "Axes", x: Any, y: Sequence[float], label: str) -> None:
        """Draw a line in this style."""
        ax.plot(x, y, label=label, markersize=4.5, **self.words())

    def words(self) -> dict[str, Any]:
        """The style in matplotlib's words."""
        inside = {"markerfacecolor": "white"} if self.hollow else {}
        return {name: value for name, value in self._asdict().items() if name != "hollow"} | inside


LIMIT = LineStyle(LIMIT_COLOUR, linewidth=2.4, zorder=3)  # what the exact decoder reaches, so that no other does better
BOUND = LineStyle(LIMIT_COLOUR, linewidth=1.5, linestyle="--")  # what a theorem allows, reached or not


# The look of each decoder, by the names that figures use, is the same in all figures. Families have related
# colours: exact ones dark, message passing blue to green, networks warm, rules and linear programs brown to olive,
# those for loads violet to pink. Decoders that are drawn together differ in colour also to people with the usual kinds
# of colour blindness, and in their markers without any colour (tests/pictures/test_style.py).
DECODER_LOOKS: tuple[tuple[tuple[str, ...], LineStyle], ...] = (
    (("certified", "certified MAP", "exact MAP"), LineStyle(LIMIT_COLOUR, marker="o")),
    (("exact", "exact MAP (HiGHS)"), LineStyle("#6b7580", marker="s")),
    (("MAP, independent items",), LineStyle("#6b7580", linestyle="--", marker="v")),
    (("amp", "AMP, scanning K", "pooled_amp"), LineStyle("#0072b2", marker="o")),
    (("amp_told", "AMP, told K", "amp_oracle", "AMP, Oracle-K"), LineStyle("#003f6b", marker="s")),
    (("amp_nearly", "AMP, told K ± 1", "amp_noisy", "AMP, Noisy-K"), LineStyle("#4f9bd0", linestyle="--", marker="D")),
    (("amp_fixed", "AMP, Fixed-K"), LineStyle("#86b6dc", linestyle=":", marker="v")),
    (("gamp", "load_gamp"), LineStyle("#009e73", marker="^")),
    (("belief", "belief propagation"), LineStyle("#2fb5c7", marker="P")),
    (("network", "MLP, the paper's", "the paper's MLP", "paper's network"), LineStyle("#d55e00", marker=">")),
    (("residual", "residual network"), LineStyle("#e69f00", marker="D")),
    (("refining", "refining network", "Refining, for one design"), LineStyle("#7a2e00", marker="X")),
    (("pretrained", "pretrained network"), LineStyle("#cc4c9b", linewidth=2.2, marker="o")),
    (("pretrained, one pass",), LineStyle("#cc4c9b", linestyle="--", marker="o", hollow=True)),
    (("pretrained, fine-tuned",), LineStyle("#cc4c9b", marker="*", hollow=True)),
    (("linear_program", "LinearProgram"), LineStyle("#8c6d46", marker="X")),
    (("comp",), LineStyle("#bdb042", marker="v")),
    (("dd",), LineStyle("#7d8f2e", marker="D")),
    (("scomp",), LineStyle("#33491a", marker="P")),
    (("pooled_iht", "iht", "thresholding"), LineStyle("#c4a77d", marker="v")),
    (("maximum_neighborhood",), LineStyle("#9aa5b1", marker="v")),
    (("prevalence", "prior alone"), LineStyle("#c3cad1", marker="s")),
    (("load_posterior", "LoadPosterior"), LineStyle("#332288", linewidth=2.2, marker="o")),
    (("comp_nnls", "COMP, NNLS"), LineStyle("#e88fb4", marker="s")),
    (("comp_nnomp", "COMP, NNOMP"), LineStyle("#b35cc4", marker="X")),
    (("comp_lasso", "COMP, LASSO"), LineStyle("#d1495b", marker="D")),
    (("comp_sbl", "COMP, SBL"), LineStyle("#7b2d6b", marker="P")),
)
# Schemes of tests and policies have the colour of their decoder where they have one.
SCHEME_LOOKS: tuple[tuple[tuple[str, ...], LineStyle], ...] = (
    (("LoadPosterior, one stage",), LineStyle("#332288", linestyle=":", marker="s", hollow=True)),
    (("LoadPosterior, then singles",), LineStyle("#332288", linestyle="--", marker="D")),
    (("LoadPosterior, rounds",), LineStyle("#332288", linewidth=2.2, marker="o")),
    (("COMP, one stage",), LineStyle("#bdb042", linestyle=":", marker="v", hollow=True)),
    (("COMP, then singles",), LineStyle("#bdb042", linestyle="--", marker="^")),
    (("follow-up",), LineStyle("#0072b2", linewidth=2.2, marker="o")),
    (("one follow-up",), LineStyle("#4f9bd0", marker="s")),
    (("three pools a round",), LineStyle("#4f9bd0", marker="D")),
    (("one pool a round",), LineStyle("#003f6b", marker="D")),
    (("all items, then one pool a round",), LineStyle("#003f6b", marker="v")),
    (("non-adaptive",), LineStyle("#009e73", marker="^")),
    (("halving",), LineStyle("#d55e00", marker="s")),
    (("grouped_halving",), LineStyle("#e69f00", marker="D")),
    (("checked",), LineStyle("#7a2e00", marker="X")),
    (("staged",), LineStyle("#8c6d46", marker="P")),
    (("staged_longer",), LineStyle("#8c6d46", marker="X")),
    (("dorfman", "pools, then singles (Dorfman)"), LineStyle("#cc4c9b", marker="P")),
    (("rows and columns, then singles",), LineStyle("#8c6d46", marker="d")),
    (("individual", "each sample alone"), LineStyle(QUIET, marker="s")),
)


def _plain(name: str) -> str:
    return " ".join(name.lower().replace("_", " ").split())


_BY_NAME = {_plain(name): look for names, look in (*DECODER_LOOKS, *SCHEME_LOOKS) for name in names}


def _whole(name: str) -> LineStyle | None:
    return _BY_NAME.get(_plain(name))


def look_of(name: str) -> LineStyle | None:
    """The look of a decoder by a name of it, or by the part of the name before the first comma.

    Example:
        >>> look_of("GAMP, 20 pools") == look_of("gamp"), look_of("mine")
        (True, None)
    """
    return _whole(name) or _whole(name.partition(",")[0])


def looks(names: Mapping[str, str]) -> dict[str, LineStyle]:
    """A look for each line of a figure, no two of them equal: decoders without a look of their own get a spare one.

    Args:
        names: What identifies each line, and what the figure calls it.

    Example:
        >>> [look.color for look in looks({"a": "GAMP", "b": "mine"}).values()]
        ['#009e73', '#0072b2']
    """
    found: dict[str, LineStyle] = {}
    for find in (_whole, look_of):
        for name, label in names.items():
            look = find(label) or find(name)
            if name not in found and look is not None and look not in found.values():
                found[name] = look
    taken = {look.color for look in found.values()}
    spare = [(colour, marker) for colour, marker in zip(COLOURS, MARKERS, strict=True) if colour not in taken]
    for number, name in enumerate(name for name in names if name not in found):
        colour, marker = spare[number % len(spare)]
        found[name] = LineStyle(colour, linestyle=("-", "--", ":")[number // len(spare) % 3], marker=marker)
    return {name: found[name] for name in names}


def shades(colour: str, number: int) -> list[str]:
    """A colour, and paler and darker ones of it, for lines of one decoder.

    Example:
        >>> shades("#808080", 3)
        ['#404040', '#808080', '#c0c0c0']
    """
    from matplotlib.colors import to_hex, to_rgb

    parts = [step / (number - 1) - 0.5 for step in range(number)] if number > 1 else [0.0]

    def mixed(one: float, part: float) -> float:  # with black, or with white
        return one + abs(part) * ((part > 0) - one)

    red, green, blue = to_rgb(colour)
    return [to_hex((mixed(red, part), mixed(green, part), mixed(blue, part))) for part in parts]


def open_axes(ax: "Axes") -> None:
    """A light grid below the curves, and no frame above and right of them."""
    ax.grid(color=GRID_COLOUR, linewidth=0.6)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def darker(colour: str) -> tuple[float, ...]:
    """A line's colour for letters, which are thinner and need more of it.

    Example:
        >>> darker("#ffffff")
        (0.82, 0.82, 0.82)
    """
    from matplotlib.colors import to_rgb

    return tuple(0.82 * part for part in to_rgb(colour))


# Names at the ends of lines.


class LineEnd(NamedTuple):
    """The last point of a line, in the numbers of the axes, and its name."""

    x: float
    y: float
    colour: str
    name: str
    bold: bool = False


def name_ends(ax: "Axes", ends: Sequence[LineEnd], fontsize: float = LABEL_SIZE) -> None:
    """Write each line's name right of the panel, spread so that none covers another; call it when limits are set."""
    low, high = (ax.transData.transform((ends[0].x, y))[1] for y in ax.get_ylim())
    wanted = [(ax.transData.transform((end.x, end.y))[1] - low) / (high - low) for end in ends]
    right = ax.get_xlim()[1]
    for end, part, height in zip(ends, wanted, spread(wanted, ROOM * fontsize / 10.5), strict=True):
        leads = [
            *ax.plot([end.x, right], [end.y, end.y]),
            *ax.plot([1, 1.01, 1.05], [part, part, height], transform=ax.transAxes, clip_on=False),
        ]
        for lead in leads:
            lead.set(color=end.colour, linewidth=0.8, alpha=0.6, zorder=1)
        ax.text(1.06, height, end.name, transform=ax.transAxes, va="center", fontsize=fontsize, linespacing=1.0,
                fontweight="bold" if end.bold else "normal", color=darker(end.colour))  # fmt: skip


def spread(wanted: Sequence[float], room: float) -> list[float]:
    """Heights at least `room` apart, from the top down, as near to the wanted ones as that allows.

    Example:
        >>> spread([0.5, 0.5, 0.9], 0.1)
        [0.5, 0.4, 0.9]
    """
    placed, above = {}, float("inf")
    for number in sorted(range(len(wanted)), key=lambda number: -wanted[number]):
        above = placed[number] = min(wanted[number], above - room)
    return [placed[number] for number in range(len(wanted))]


# Names beside points.


class PointName(NamedTuple):
    """A point, in the numbers of the axes, and its name."""

    x: float
    y: float
    colour: str
    name: str


def name_points(
    figure: "Figure", ax: "Axes", points: Sequence[PointName], avoid: Sequence[tuple[float, float]] = ()
) -> None:
    """Write each point's name beside it, where it covers neither a point nor another name, if there is such a place.

    Args:
        figure: The figure with its axes as they will be: limits and scales are set.
        ax: Where the points are.
        points: The points; the first ones get the best places.
        avoid: Further places that names should not cover, such as parts of a line.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

    renderer: Any = FigureCanvasAgg(figure).get_renderer()  # type: ignore[no-untyped-call]  # matplotlib's own
    figure.draw_without_rendering()  # the layout decides how large the axes are
    pixel = figure.dpi / 72
    taken = [_box(ax, (point.x, point.y), 5 * pixel) for point in points]
    taken += [_box(ax, place, 2 * pixel) for place in avoid]
    panel = ax.get_window_extent()
    for point in points:
        best: tuple[float, Any, Bbox] | None = None
        for cost, look in _places():
            text = ax.annotate(point.name, (point.x, point.y), textcoords="offset points", fontsize=LABEL_SIZE,
                               color=darker(point.colour), in_layout=False, **look)  # fmt: skip
            text.update_positions(renderer)
            box = Text.get_window_extent(text, renderer).padded(pixel)  # of the words, without the lead
            covered = sum(box.overlaps(other) for other in taken) + 3 * (not _inside(panel, box))
            text.remove()
            if best is None or cost + 10 * covered < best[0]:
                best = cost + 10 * covered, look, box
        assert best is not None
        ax.annotate(point.name, (point.x, point.y), textcoords="offset points", fontsize=LABEL_SIZE,
                    color=darker(point.colour), in_layout=False, **best[1])  # fmt: skip
        taken.append(best[2])


def _places() -> Iterator[tuple[float, dict[str, Any]]]:
    """Where a name may be, the best place first; a name far from its point gets a thin line to it."""
    sides = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1))
    for far in (7, 16, 26, 38):
        for number, (across, up) in enumerate(sides):
            lead = {"arrowprops": {"arrowstyle": "-", "color": QUIET, "linewidth": 0.7, "shrinkB": 3}}
            yield (
                number / 10 + far / 5,
                {
                    "xytext": (far * across, far * up),
                    "ha": ("right", "center", "left")[across + 1],
                    "va": ("top", "center", "bottom")[up + 1],
                    **(lead if far > 10 else {}),
                },
            )


def _box(ax: "Axes", place: tuple[float, float], reach: float) -> "Bbox":
    from matplotlib.transforms import Bbox

    x, y = ax.transData.transform(place)
    return Bbox.from_extents(x - reach, y - reach, x + reach, y + reach)


def _inside(panel: "Bbox", box: "Bbox") -> bool:
    return bool(panel.x0 <= box.x0 and box.x1 <= panel.x1 and panel.y0 <= box.y0 and box.y1 <= panel.y1)
