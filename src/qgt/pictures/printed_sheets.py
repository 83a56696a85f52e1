"""Sheets for the bench: pages to print on A4, with tables to tick off and maps of plates.

Each printed page shows the design's name and check code: at the foot, where the browser takes it from the style, and
above every table, whose head is repeated on each page.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from qgt.pictures.pages import CONTENT_POLICY, Piece, environment


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
