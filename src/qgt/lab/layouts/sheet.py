"""A sheet of counts as it is being read: its cells, the names it should hold, and what to say where it does not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from qgt.files.grids import Grid
from qgt.files.tables import is_number, unescape
from qgt.lab.mangled import mangled
from qgt.lab.reported import is_word

Cell = tuple[int, int]  # row and column in the grid, counted from 0


@dataclass(frozen=True)
class Layout:
    """Where each instance's counts are: for each, a cell for every pool in the design's order."""

    cells: tuple[tuple[Cell, ...], ...]  # (instances, pools)
    names: tuple[str, ...] | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sheet:
    """A grid with the rows that matter, and the names it should have."""

    grid: Grid
    pools: tuple[str, ...]
    samples: tuple[str, ...] = ()
    first: int = 0  # the first row after comments and titles
    words: bool = False  # whether pools may report words, such as positive

    @cached_property
    def known(self) -> frozenset[str]:
        """The pools' names, to look one up."""
        return frozenset(self.pools)

    @cached_property
    def rows(self) -> list[int]:
        """The rows that hold something."""
        return [row for row in range(self.first, len(self.grid.rows)) if any(self.grid.rows[row])]

    @property
    def width(self) -> int:
        """The number of columns."""
        return len(self.grid.rows[0]) if self.grid.rows else 0

    def cell(self, row: int, column: int) -> str:
        """The text of a cell, as it was before it was escaped."""
        return unescape(self.grid.rows[row][column])

    def texts(self, row: int) -> list[str]:
        """What stands in a row, without its empty cells."""
        return [text for text in self.grid.rows[row] if text]

    def is_value(self, text: str) -> bool:
        """Whether a cell is meant as a report, or as one that is missing."""
        return is_number(text) or (self.words and is_word(text))

    def measured(self, column: int, rows: Sequence[int]) -> bool:
        """Whether some cell of a column may be meant as a report: then nobody may leave the column out."""
        texts = [self.cell(row, column) for row in rows]
        return any(text and (is_number(text) or is_word(text) or text[0] == "#") for text in texts)

    def hits(self, cells: Sequence[str]) -> int:
        """How many of the pools are among these cells."""
        return len(self.known & set(cells))


def unknown(sheet: Sheet, name: str) -> str:
    """The end of a sentence about a name that no pool has."""
    if hint := mangled(name, [*sheet.pools, *sheet.samples]):
        return f"but the design has no such pool; {hint}."
    if name in sheet.samples:
        return "which is a sample; name the pools, such as " + repr(sheet.pools[0]) + "."
    return f"but the design has no such pool; use its names, such as {sheet.pools[0]!r}."


def refuse_absent(sheet: Sheet, found: Mapping[str, int], line: str, of: str = "") -> None:
    """Raise a ValueError for the first pool that has no row or column."""
    if absent := [pool for pool in sheet.pools if pool not in found]:
        raise ValueError(
            f"{sheet.grid.name}: has no {line} for pool {absent[0]!r}{of}; add it, with an empty cell if its count is "
            "missing."
        )


def row_names(sheet: Sheet, rows: Sequence[int], column: int = 0) -> tuple[str, ...]:
    """What a column calls some rows; each has a name of its own."""
    seen: dict[str, int] = {}
    for row in rows:
        name = sheet.cell(row, column)
        if not name:
            raise ValueError(f"{sheet.grid.place(row, column)} has no name; name every row or none.")
        if name in seen:
            raise ValueError(
                f"{sheet.grid.name}: rows {seen[name] + 1} and {row + 1} are both called {name!r}; give each its own "
                "name."
            )
        seen[name] = row
    return tuple(seen)
