"""Counts as people have them: CSV or XLSX, in any usual layout, with nothing guessed silently.

Read are a column per pool, a row per pool (`pool,count`), rows of `plate,pool,count`, and plates as they stand on the
bench, several in one file; commas, semicolons or tabs between cells; decimal points or commas; empty cells as missing
counts. Whatever was detected stands in the notes. Whatever could be read in two ways, and every cell that is no number,
is refused with its sheet, row and column, what was found and what to write.

Lines at the top that begin with # are remarks. Where one shows a check code, it must be the design's.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float64
from torch import Tensor

from qgt.files.grids import Grid, read_grids
from qgt.files.numbers import has_decimal_commas, number
from qgt.lab.layouts.choosing import layout_of
from qgt.lab.layouts.sheet import Cell, Layout, Sheet
from qgt.lab.naming import check_code, code_in
from qgt.lab.samples import Samples
from qgt.lab.wording import joined
from qgt.model.design import Design

NAMED = 6  # missing counts that a note names


@dataclass(frozen=True, eq=False)
class CountSheet:
    """Counts, one row for each instance and one column for each pool, and how they were found in the file.

    Example:
        >>> design = Design.from_rows(["110", "011"])
        >>> sheet = read_counts("typed", design, data=b"pool;count\\nP2;1,5\\nP1;\\n")
        >>> sheet.y, sheet.names
        (tensor([[   nan, 1.5000]], dtype=torch.float64), None)
        >>> print(*sheet.notes, sep="\\n")
        Cells are separated by semicolons.
        Each row is a pool.
        Numbers have decimal commas.
        1 of 2 counts is missing: P1.
    """

    y: Float64[Tensor, "instances pools"]  # NaN where a count is missing
    names: tuple[str, ...] | None  # of the instances; None where the file has none
    notes: tuple[str, ...]  # what was detected: layout, separator, decimal commas, missing counts


def read_counts(
    source: str | Path, design: Design, samples: Samples | None = None, *, data: bytes | None = None
) -> CountSheet:
    """Read counts; raise a ValueError that names the place where the file is wrong and what to write.

    Args:
        source: The file, or what to call it where `data` is given.
        design: The design whose pools were counted.
        samples: The samples, so that their names, and what a spreadsheet made of them, are recognised.
        data: The file's content, as with an upload or a text that was typed.
    """
    grids = read_grids(source, data)
    read = [_read_sheet(grid, design, samples) for grid in grids]
    if len(read) == 1:
        return read[0]
    names = [name for grid, one in zip(grids, read, strict=True) for name in _sheet_names(grid, one)]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{source}: two sheets have an instance called {twice!r}; give each its own name.")
    notes = dict.fromkeys(note for one in read for note in one.notes)
    said = f"{len(read)} sheets were read: {joined([str(grid.sheet) for grid in grids])}."
    return CountSheet(torch.cat([one.y for one in read]), tuple(names), (said, *notes))


def _sheet_names(grid: Grid, one: CountSheet) -> Sequence[str]:
    """The names of a sheet's instances, where there are several sheets: those without one are called as the sheet."""
    if one.names is not None:
        return one.names
    title = str(grid.sheet)
    return [title] if len(one.y) == 1 else [f"{title} {i + 1}" for i in range(len(one.y))]


def _read_sheet(grid: Grid, design: Design, samples: Samples | None) -> CountSheet:
    first, notes = _remarks(grid, design)
    sheet = Sheet(grid, design.pool_names, () if samples is None else samples.names, first)
    if not sheet.rows:
        raise ValueError(f"{grid.name}: is empty; give one row per line, cells separated by commas.")
    layout = layout_of(sheet)
    y, commas = _numbers(sheet, layout)
    said = ("Numbers have decimal commas.",) if commas else ()
    missing = _missing(sheet, layout, y)
    return CountSheet(y, layout.names, (*grid.notes, *notes, *layout.notes, *said, *missing))


def _remarks(grid: Grid, design: Design) -> tuple[int, list[str]]:
    """The first row after the remarks at the top, and what they say; a wrong check code is refused."""
    first, notes = 0, []
    while first < len(grid.rows):
        line = " ".join(cell for cell in grid.rows[first] if cell)
        found, own = code_in(line), check_code(design)
        if line and not (line.startswith("#") and (found or line == grid.rows[first][0])):
            break  # a header may begin with # too, but has other cells
        if found is not None and found != own:
            raise ValueError(
                f"{grid.place(first)} shows check code {found}, but the design has {own}; these counts belong to "
                "another design: give that one."
            )
        if found is not None:
            notes.append(f"The check code is the design's: {own}.")
        first += 1
    return first, notes


def _numbers(sheet: Sheet, layout: Layout) -> tuple[Tensor, bool]:
    """The counts, and whether they have decimal commas."""
    texts = [[sheet.cell(*cell) for cell in cells] for cells in layout.cells]
    commas = has_decimal_commas(text for row in texts for text in row)
    values = [
        [_number(sheet, cell, text, commas) for cell, text in zip(cells, row, strict=True)]
        for cells, row in zip(layout.cells, texts, strict=True)
    ]
    return torch.tensor(values, dtype=torch.float64), commas


def _number(sheet: Sheet, cell: Cell, text: str, commas: bool) -> float:
    value = number(text, commas=commas)
    if isinstance(value, str):
        raise ValueError(f"{sheet.grid.place(*cell)} holds {text!r}; {value}.")
    return value


def _missing(sheet: Sheet, layout: Layout, y: Tensor) -> tuple[str, ...]:
    """A note on missing counts; an instance without any is refused, for a blank sheet is no all-clear."""
    gone = y.isnan()
    for i in gone.all(1).nonzero().flatten().tolist():
        row, column = layout.cells[i][0]
        raise ValueError(
            f"{sheet.grid.place(row, column)} and all other counts of this instance are empty; fill them in."
        )
    if not bool(gone.any()):
        return ()
    places = gone.nonzero().tolist()
    several = len(y) > 1
    said = [
        sheet.pools[pool] + (f" of {layout.names[i] if layout.names else i + 1}" if several else "")
        for i, pool in places
    ]
    verb = "is" if len(said) == 1 else "are"
    return (f"{len(said)} of {math.prod(y.shape)} counts {verb} missing: {joined(said, most=NAMED)}.",)
