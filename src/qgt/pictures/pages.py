"""Pages to read, to forward and to print: one HTML file each, with nothing to fetch and nothing to run.

Every function turns data into a piece of markup; `page` puts pieces together. The markup itself is in `templates`,
rendered by Jinja with autoescape on: whatever is not markup that these functions made is escaped, so names of items
and pools may hold anything. Pictures are inline (drawn as SVG below, or encoded by `picture`), the style is inline, and
the page itself forbids requests and scripts.
"""

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from jaxtyping import UInt8
from torch import Tensor

from qgt.trust.metrics import Interval, Score

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup
    from matplotlib.figure import Figure

    from qgt.trust.verification import VerificationReport

    Piece: TypeAlias = Markup  # a text that is safe on a page
else:
    Piece = str  # which markup is; its own class is not imported before a page is made

SHOWN_ANSWERS = 8  # answers of a card, and contradicted entries of a verification
CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True)
class DecoderStanding:
    """How one decoder did: its score, and the seconds that decoding all of the score's instances took."""

    name: str
    score: Score
    seconds: float
    limit: bool = False
    note: str = ""

    @property
    def microseconds(self) -> float:
        """For one decode; NaN for none."""
        return 1e6 * self.seconds / self.score.instances if self.score.instances else float("nan")


@dataclass(frozen=True)
class Count:
    """A pool's count as a card shows it; `off` is by how much it differs from the answer, empty where it does not."""

    pool: str
    counted: str
    off: str = ""


@dataclass(frozen=True)
class Card:
    """One decode as a person reads it."""

    title: str
    verdict: str
    words: str
    counts: Sequence[Count] = ()
    answers: Sequence[tuple[str, str]] = ()  # probabilities and answers, the most probable first
    note: str = ""
    truth: str = ""
    anchor: str = ""  # what links on the same page call it


def page(title: str, lead: str, sections: Iterable[Piece], *, colophon: Piece | str = "") -> Piece:
    """A whole page.

    Example:
        >>> page("A < B", "In short.", [section("One", paragraph("Two."))]).count("A &lt; B")
        2
    """
    from markupsafe import Markup

    style = Markup(files("qgt.pictures").joinpath("page.css").read_text("utf-8"))
    template = environment().get_template("page.html")
    parts = {"title": title, "lead": lead, "sections": list(sections), "colophon": colophon}
    return Markup(template.render(parts, style=style, policy=Markup(CONTENT_POLICY)))


def section(heading: str, *parts: Piece) -> Piece:
    """A heading and what belongs to it."""
    return _piece("section", heading, parts)


def paragraph(text: str, *, quiet: bool = False) -> Piece:
    """A paragraph of plain text."""
    return _piece("paragraph", text, "quiet" if quiet else "")


def facts(pairs: Mapping[str, object]) -> Piece:
    """Names and values, as a list of definitions."""
    return _piece("facts", list(pairs.items()))


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str = "", kind: str = "") -> Piece:
    """A table; the first column names the rows. `kind` is `answers` or `texts` where the others hold no numbers.

    Example:
        >>> "<td>&lt;2</td>" in table(["a", "b"], [["one", "<2"]])
        True
    """
    return _piece("table", columns, list(rows), caption, kind)


def plate_map(plate: object, title: str = "") -> Piece:
    """A plate as a table of wells; see `qgt.lab.answers.outputs`. The title stands before the plate's name."""
    return _piece("plate_map", plate, title)


def signatures() -> Piece:
    """Lines for the laboratory, the operator, the date and a signature, on paper."""
    return _piece("signatures")


def badge(word: str, *, anchor: str = "") -> Piece:
    """A verdict as a small label; with an anchor, a link to the card of that name on the same page."""
    return _piece("badge", word, anchor)


def standings_table(standings: Sequence[DecoderStanding], *, caption: str = "") -> Piece:
    """Success rate and F1 with their 95 % intervals, and microseconds per decode, for each decoder."""
    if not standings:
        return paragraph("No decoders were compared.", quiet=True)
    numbers = {one.score.instances for one in standings}
    columns, rows = ["decoder", "success rate", "F1", "µs per decode"], [_standing_row(one) for one in standings]
    if len(numbers) == 1:  # said once, which leaves room on a narrow page
        return table(columns, rows, caption=f"{numbers.pop():,} instances for each decoder. {caption}")
    each = [[*row, f"{one.score.instances:,}"] for row, one in zip(rows, standings, strict=True)]
    return table([*columns, "instances"], each, caption=caption)


def _standing_row(one: DecoderStanding) -> list[str]:
    return [
        _piece("decoder", one.name, one.limit, one.note),
        *(_with_interval(one.score, metric) for metric in ("success_rate", "f1")),
        f"{one.microseconds:,.0f}" if one.microseconds >= 10 else f"{one.microseconds:.1f}",
    ]


def _with_interval(score: Score, metric: str) -> Piece:
    low, high = score.interval(metric)
    return _piece("with_interval", f"{score.mean(metric):.4f}", f"{low:.4f} to {high:.4f}")


def standings_chart(standings: Sequence[DecoderStanding], *, caption: str) -> Piece:
    """Success rates as bars with their 95 % intervals, under the limit, best first."""
    if not standings:
        return paragraph("There is nothing to draw.", quiet=True)
    limit = next((one.score.success_rate for one in standings if one.limit), None)
    rows = []
    for one in sorted(standings, key=lambda one: -one.score.success_rate):
        rate, ends = one.score.success_rate, one.score.interval()
        title = f"{one.name}: {rate:.4f}, 95 % interval {ends.low:.4f} to {ends.high:.4f}"
        bar = rate_bar(rate, ends, title=title, limit=limit, marked=one.limit)
        rows.append((one.name, one.limit, _drawn(bar), f"{rate:.3f}"))
    return _piece("bars", rows, caption)


def verification(report: "VerificationReport | None") -> Piece:
    """The verdict on a claimed design, the figure of `qgt verify`, and the entries that contradict the claim."""
    from qgt.pictures.figures import verification_figure  # here, because most pages have no figure

    if report is None:
        return paragraph("No decoder was verified.", quiet=True)
    pools, items = report.claimed.matrix.shape
    caption = (
        f"{pools} pools by {items} items; a filled square: the item is in the pool. The evidence for the entries has "
        f"two heaps, {report.separation:.1f} standard deviations apart."
    )
    listed = [(f"{m.pool}, {m.item}", f"{m.claimed}", f"{m.recovered}") for m in report.mismatches[:SHOWN_ANSWERS]]
    more = f"The surest {len(listed)} of {len(report.mismatches)} contradicted entries"
    entries = table(("contradicted entry", "claimed", "read back"), listed, caption=more) if listed else ""
    return _piece("verification", report.verdict, picture(verification_figure(report), caption), entries)


def picture(figure: "Figure", caption: str) -> Piece:
    """A figure inside the page, with its caption."""
    content = io.BytesIO()
    figure.savefig(content, dpi=110, format="png")
    return _piece("picture", base64.b64encode(content.getvalue()).decode(), caption)


def decode_card(card: Card) -> Piece:
    """One decode: in words, with its counts, the answers that come close and, if known, the truth.

    Example:
        >>> "<h3>plate <1> " in decode_card(Card("plate <1>", "certain", "None of the 3 items is defective."))
        False
    """
    answers = table(("probability", "positive"), card.answers, kind="answers") if card.answers else ""
    return _piece("card", card, answers)


@lru_cache(maxsize=1)
def environment() -> "Environment":
    """The templates of this room, rendered with autoescape."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("qgt.pictures"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["text"] = _text
    return environment


def _piece(name: str, *arguments: Any) -> Piece:
    """What a macro of `templates/pieces.html` makes of its arguments."""
    made: Piece = getattr(environment().get_template("pieces.html").module, name)(*arguments)
    return made.strip()


def _drawn(picture: str) -> Piece:
    """A picture in SVG, which escapes its own titles."""
    from markupsafe import Markup

    return Markup(picture)


def _text(text: str) -> Piece:
    """Running text, escaped; a percent sign begins no line."""
    from markupsafe import escape

    return escape(text).replace(" %", "\N{NO-BREAK SPACE}%")


# Pictures as SVG text for pages: drawn with the page's own style classes, so that they follow its light and dark.
#
# They contain no words except their titles, which screen readers read. Words around a picture are the page's own
# text, whose size does not shrink with the picture.

BAR = 22  # pixels


def rate_bar(mean: float, interval: Interval, *, title: str, limit: float | None = None, marked: bool = False) -> str:
    """A bar from 0 to 1 with its interval, and a line at the limit where there is one.

    Example:
        >>> rate_bar(0.5, Interval(0.4, 0.6), title="half").count("<rect")
        3
    """
    low, high, middle = 100 * interval.low, 100 * interval.high, BAR / 2
    kind = "bar marked" if marked else "bar"
    parts = [
        f'<rect class="track" width="100%" height="{BAR}"/>',
        f'<rect class="{kind}" width="{100 * mean:.2f}%" height="{BAR - 8}" y="4"/>',
        # At least a hair wide: ten thousand instances leave little to draw.
        f'<rect class="interval" x="{low:.2f}%" width="{max(0.2, high - low):.2f}%" y="{middle - 1.5}" height="3"/>',
    ]
    parts += [f'<line class="whisker" x1="{end:.2f}%" x2="{end:.2f}%" y1="5" y2="{BAR - 5}"/>' for end in (low, high)]
    if limit is not None:
        at = f"{100 * limit:.2f}%"
        parts.append(f'<line class="limit" x1="{at}" x2="{at}" y1="0" y2="{BAR}"/>')
    return f'<svg role="img" width="100%" height="{BAR}"><title>{escape(title)}</title>{"".join(parts)}</svg>'


def matrix_picture(matrix: UInt8[Tensor, "pools items"], *, title: str) -> str:
    """A 0/1 matrix, a square for each 1.

    Example:
        >>> import torch
        >>> matrix_picture(torch.tensor([[1, 1, 0]], dtype=torch.uint8), title="A").count("M0 0h2v1h-2z")
        1
    """
    pools, items = matrix.shape
    return (
        f'<svg class="matrix" role="img" viewBox="0 0 {items} {pools}"><title>{escape(title)}</title>'
        f'<rect class="track" width="{items}" height="{pools}"/><path class="one" d="{_squares(matrix)}"/></svg>'
    )


def _squares(matrix: Tensor) -> str:
    """A path over all ones, neighbours in a row drawn as one."""
    edges = torch.nn.functional.pad(matrix.to(torch.int8), (1, 1)).diff(dim=1)  # 1 where a run begins, -1 after it
    starts, ends = (edges == 1).nonzero().tolist(), (edges == -1).nonzero().tolist()
    runs = ((row, begin, end - begin) for (row, begin), (_, end) in zip(starts, ends, strict=True))
    return "".join(f"M{begin} {row}h{length}v1h-{length}z" for row, begin, length in runs)


# Sheets for the bench: pages to print on A4, with tables to tick off and maps of plates.
#
# Each printed page shows the design's name and check code: at the foot, where the browser takes it from the style,
# and above every table, whose head is repeated on each page.


@dataclass(frozen=True)
class PlateMap:
    """A plate as it stands on the bench: a text for each well, empty where nothing stands."""

    title: str
    wells: Sequence[Sequence[tuple[str, str]]]  # rows of columns: what is in the well, and a line about it


@dataclass(frozen=True)
class Tick:
    """A line to tick off: what it is called, where it stands, what to do, and a number to check by."""

    name: str
    place: str
    steps: Sequence[tuple[str, str]]  # names and wells, a box beside each
    check: str


@dataclass(frozen=True)
class Ticks:
    """A table of lines to tick off."""

    heading: str
    lead: str
    columns: tuple[str, str, str, str]
    rows: Sequence[Tick]


def printed_page(
    title: str,
    label: str,
    facts: Sequence[tuple[str, str]],
    tables: Sequence[Ticks],
    maps: Sequence[PlateMap],
    *,
    notes: Sequence[str] = (),
) -> Piece:
    """A page to print.

    Args:
        title: What the page is.
        label: The design's name and check code, for every printed page; plain letters and digits.
        facts: Names and values at the top.
        tables: What to tick off.
        maps: Plates, each on a page of its own.
        notes: Sentences below the facts.

    Example:
        >>> page = printed_page("A sheet", "Design x, check code Y", [("pools", "<2>")], [], [])
        >>> "&lt;2&gt;" in page, "<2>" in page
        (True, False)
    """
    from markupsafe import Markup

    if not all(character.isalnum() or character in " ,-" for character in label):  # it stands in the style, unescaped
        raise ValueError(f"label={label!r} is not valid: give letters, digits, blanks, commas and hyphens.")
    style = files("qgt.pictures").joinpath("bench.css").read_text("utf-8").replace("LABEL", label)
    template = environment().get_template("bench.html")
    parts = {"title": title, "label": label, "facts": facts, "tables": tables, "maps": maps, "notes": notes}
    return Markup(template.render(parts, style=Markup(style), policy=Markup(CONTENT_POLICY)))
