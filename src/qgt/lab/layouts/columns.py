"""A column for each pool, with its name above or, where nothing is named, in the design's order."""

from collections.abc import Sequence

from qgt.lab.headers import INSTANCE, UNREAD, columns_said, head
from qgt.lab.layouts.sheet import Layout, Sheet, refuse_absent, row_names, unknown
from qgt.lab.mangled import mangled


def wide(sheet: Sheet, top: Sequence[str]) -> Layout:
    """One column for each pool; another may name the instances, and others are left out."""
    grid, rows = sheet.grid, sheet.rows
    grid.refuse_ragged(rows)
    place: dict[str, int] = {}
    others = []
    for column, name in enumerate(top):
        if name in place:
            raise ValueError(
                f"{grid.name}: columns {place[name] + 1} and {column + 1} are both called {name!r}; give each its own "
                "name."
            )
        if name in sheet.known:
            place[name] = column
        elif name or column == 0:
            others.append(column)
        else:
            raise ValueError(f"{grid.place(rows[0], column)} has no name; name every column or none.")
    strange = [column for column in others if column]
    if strange and len(place) < len(sheet.pools):
        raise ValueError(f"{grid.name}: column {strange[0] + 1} is called {_strange(sheet, top[strange[0]])}")
    refuse_absent(sheet, place, "column")
    if len(rows) < 2:
        raise ValueError(
            f"{grid.name}: there are names but no numbers; add at least one row and one column of numbers."
        )
    owner = _owner(sheet, top, others)
    unread = [column for column in others if column != owner]
    for column in unread:
        named = top[column] in sheet.samples or mangled(top[column], sheet.pools)
        if named or (head(top[column]) not in UNREAD and sheet.measured(column, rows[1:])):
            raise ValueError(
                f"{grid.name}: column {column + 1} is called {_strange(sheet, top[column])} If it is not a pool's, "
                "delete it."
            )
    notes = [f"Column {top[owner]!r} names the instances."] if owner is not None and unread else []
    names = None if owner is None else row_names(sheet, rows[1:], owner)
    cells = tuple(tuple((row, place[pool]) for pool in sheet.pools) for row in rows[1:])
    return Layout(cells, names, (*notes, *([columns_said([top[column] for column in unread])] if unread else [])))


def _owner(sheet: Sheet, top: Sequence[str], others: Sequence[int]) -> int | None:
    """The column that names the instances: one that is called so or, where there is none, the first."""
    called = [column for column in others if head(top[column]) in INSTANCE]
    if len(called) > 1:
        one, other = called[:2]
        raise ValueError(
            f"{sheet.grid.name}: columns {one + 1} ({top[one]!r}) and {other + 1} ({top[other]!r}) could both name the "
            "rows; keep one of them."
        )
    first = 0 if 0 in others and (len(others) == 1 or head(top[0]) not in UNREAD) else None
    return called[0] if called else first


def _strange(sheet: Sheet, name: str) -> str:
    return f"{name!r}, {unknown(sheet, name)}"


def bare(sheet: Sheet, top: Sequence[str]) -> Layout:
    """Numbers without names of pools, by position; the first column may name the instances."""
    grid, rows = sheet.grid, sheet.rows
    strange = [column for column in range(1, sheet.width) if not sheet.is_value(top[column])]
    if strange or (sheet.width == 1 and not sheet.is_value(top[0])):
        column = strange[0] if strange else 0
        raise ValueError(f"{grid.place(rows[0], column)} holds {top[column]!r}, {unknown(sheet, top[column])}")
    if rows != list(range(rows[0], rows[-1] + 1)):
        gap = next(row for row in range(rows[0], rows[-1]) if row not in rows)
        raise ValueError(f"{grid.place(gap)} is empty; delete it, or name the pools and the instances.")
    grid.refuse_ragged(rows)
    named = any(not sheet.is_value(sheet.cell(row, 0)) for row in rows)
    number = sheet.width - named
    if number != len(sheet.pools):
        raise ValueError(
            f"{grid.name}: has {number} columns of numbers, but the design has {len(sheet.pools)} pools; match them, "
            "or name the pools in the first row."
        )
    names = row_names(sheet, rows) if named else None
    cells = tuple(tuple((row, column) for column in range(named, sheet.width)) for row in rows)
    return Layout(cells, names, ("The file does not name the pools: its columns are taken in the design's order.",))
