"""A column for each pool, with its name above or, where nothing is named, in the design's order."""

from collections.abc import Sequence

from qgt.files.numbers import is_number
from qgt.lab.layouts.sheet import Layout, Sheet, refuse_absent, row_names, unknown


def wide(sheet: Sheet, top: Sequence[str]) -> Layout:
    """One column for each pool; the first column may name the instances."""
    grid, rows = sheet.grid, sheet.rows
    grid.refuse_ragged(rows)
    named = top[0] not in sheet.known
    place: dict[str, int] = {}
    for column in range(named, sheet.width):
        name = top[column]
        if not name:
            raise ValueError(f"{grid.place(rows[0], column)} has no name; name every column or none.")
        if name in place:
            raise ValueError(
                f"{grid.name}: columns {place[name] + 1} and {column + 1} are both called {name!r}; give each its own "
                "name."
            )
        if name not in sheet.known:
            raise ValueError(f"{grid.name}: column {column + 1} is called {name!r}, {unknown(sheet, name)}")
        place[name] = column
    refuse_absent(sheet, place, "column")
    if len(rows) < 2:
        raise ValueError(
            f"{grid.name}: there are names but no numbers; add at least one row and one column of numbers."
        )
    names = row_names(sheet, rows[1:]) if named else None
    cells = tuple(tuple((row, place[pool]) for pool in sheet.pools) for row in rows[1:])
    return Layout(cells, names)


def bare(sheet: Sheet, top: Sequence[str]) -> Layout:
    """Numbers without names of pools, by position; the first column may name the instances."""
    grid, rows = sheet.grid, sheet.rows
    strange = [column for column in range(1, sheet.width) if not is_number(top[column])]
    if strange or (sheet.width == 1 and not is_number(top[0])):
        column = strange[0] if strange else 0
        raise ValueError(f"{grid.place(rows[0], column)} holds {top[column]!r}, {unknown(sheet, top[column])}")
    if rows != list(range(rows[0], rows[-1] + 1)):
        gap = next(row for row in range(rows[0], rows[-1]) if row not in rows)
        raise ValueError(f"{grid.place(gap)} is empty; delete it, or name the pools and the instances.")
    grid.refuse_ragged(rows)
    named = any(not is_number(sheet.cell(row, 0)) for row in rows)
    number = sheet.width - named
    if number != len(sheet.pools):
        raise ValueError(
            f"{grid.name}: has {number} columns of numbers, but the design has {len(sheet.pools)} pools; match them, "
            "or name the pools in the first row."
        )
    names = row_names(sheet, rows) if named else None
    cells = tuple(tuple((row, column) for column in range(named, sheet.width)) for row in rows)
    return Layout(cells, names, ("The file does not name the pools: its columns are taken in the design's order.",))
