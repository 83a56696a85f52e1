"""Counts as people have them: CSV or XLSX, in any usual layout, with nothing guessed silently.

Read are a column per pool, a row per pool (`pool,count`), rows of `plate,pool,count`, and plates as they stand on the
bench, several in one file; commas, semicolons or tabs between cells; decimal points or commas; empty cells as missing
counts; for an assay that reports positive or negative, the words of laboratories and instruments. Titles above the
table and columns of other texts are left out. Whatever was detected or left out stands in the notes. Whatever could be
read in two ways, and every cell that is no report, is refused with its sheet, row and column, what was found and what
to write.

Lines at the top that begin with # are remarks. Where any line shows a check code, it must be the design's.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float64
from torch import Tensor

from qgt.files.grids import Grid, read_grids
from qgt.lab.layouts.choosing import layout_of
from qgt.lab.layouts.sheet import Layout, Sheet
from qgt.lab.naming import check_code, code_in
from qgt.lab.reported import mistaken, read_reports
from qgt.lab.samples import Samples
from qgt.lab.wording import joined
from qgt.model.design import Design
from qgt.model.noise import Noise, PositiveNegative, noise_of

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
    source: str | Path,
    design: Design,
    samples: Samples | None = None,
    *,
    noise: Noise | None = None,
    data: bytes | None = None,
) -> CountSheet:
    """Read counts; raise a ValueError that names the place where the file is wrong and what to write.

    Args:
        source: The file, or what to call it where `data` is given.
        design: The design whose pools were counted.
        samples: The samples, so that their names, and what a spreadsheet made of them, are recognised.
        noise: What the assay reports; where that is positive or negative, words are read. None is for counts.
        data: The file's content, as with an upload or a text that was typed.

    Example:
        >>> design = Design.from_rows(["110", "011"])
        >>> read_counts("typed", design, data=b"plate,P1,P2\\nA,1,0\\n").y
        tensor([[1., 0.]], dtype=torch.float64)
        >>> read_counts("typed", design, data=b"plate,P1,P2\\nA,1,x\\n")
        Traceback (most recent call last):
        ValueError: typed: row 2, column 3 holds 'x'; write a finite number, or leave the cell empty if it is missing.
        >>> sheet = read_counts("typed", design, noise=PositiveNegative(), data=b"Pool;Ergebnis\\nP1;POS\\nP2;neg\\n")
        >>> sheet.y, sheet.notes[-1]
        (tensor([[1., 0.]], dtype=torch.float64), '2 cells read as words: 1 negative (neg), 1 positive (POS).')
    """
    grids = read_grids(source, data)
    read = [_read_sheet(grid, design, samples, noise) for grid in grids]
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


def _read_sheet(grid: Grid, design: Design, samples: Samples | None, noise: Noise | None) -> CountSheet:
    first, notes = _remarks(grid), _code(grid, design)
    words = noise is not None and any(isinstance(noise_of(noise, i), PositiveNegative) for i in range(design.pools))
    sheet = Sheet(grid, design.pool_names, () if samples is None else samples.names, first, words)
    if not sheet.rows:
        raise ValueError(f"{grid.name}: is empty; give one row per line, cells separated by commas.")
    layout = layout_of(sheet)
    texts = [[sheet.cell(*cell) for cell in cells] for cells in layout.cells]
    values, said = read_reports(texts, noise, lambda i, pool: grid.place(*layout.cells[i][pool]))
    y = torch.tensor(values, dtype=torch.float64)  # (instances, pools)
    missing = _missing(sheet, layout, y)
    return CountSheet(y, layout.names, (*grid.notes, *notes, *layout.notes, *said, *missing, *_odd(y, design, noise)))


def _remarks(grid: Grid) -> int:
    """The first row after the remarks at the top."""
    first = 0
    while first < len(grid.rows):
        line = [cell for cell in grid.rows[first] if cell]
        shown = code_in(" ".join(line)) is not None
        if line and not (line[0].startswith("#") and grid.rows[first][0] and (shown or len(line) == 1)):
            break  # a header may begin with # too, but has other cells
        first += 1
    return first


def _code(grid: Grid, design: Design) -> list[str]:
    """That the check code is the design's, where the sheet shows one; another one is refused."""
    own, seen = check_code(design), False
    for row, cells in enumerate(grid.rows):
        found = code_in(" ".join(cell for cell in cells if cell))
        if found is not None and found != own:
            raise ValueError(
                f"{grid.place(row)} shows check code {found}, but the design has {own}; these counts belong to "
                "another design: give that one."
            )
        seen = seen or found is not None
    return [f"The check code is the design's: {own}."] if seen else []


def _odd(y: Tensor, design: Design, noise: Noise | None) -> tuple[str, ...]:
    """A note on numbers that cannot be readings; where reports are whole numbers, the decoder's words say it."""
    if noise is None or noise.integer:
        return ()
    return tuple(dict.fromkeys(said for row in y if (said := mistaken(noise, row, design.pool_sizes))))


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
