"""A row for each pool: `pool,count`, a column of counts for each instance, or a column that names the instance."""

from collections.abc import Sequence
from dataclasses import replace

from qgt.files.cells import escape
from qgt.lab import plates
from qgt.lab.layouts.sheet import Layout, Sheet, refuse_absent, unknown
from qgt.lab.plates import POOL_PLATE

UNREAD = (
    "well",
    "pool plate",
    "pool well",
    "position",
    "samples",
    "size",
    "members",
    "items",
    "volume",
    "check",
    "pool size",
)
INSTANCE = ("instance", "plate", "run", "batch", "array")
COUNT = ("count", "counts", "result", "results", "value", "reading", "measured", "observed", "y")


def long(sheet: Sheet, top: Sequence[str], down: int) -> Layout:
    """One row for each pool: a column of pools, and one of counts for each instance, or a column that names it."""
    grid, rows = sheet.grid, sheet.rows
    grid.refuse_ragged(rows)
    header = top[down] not in sheet.known
    body = rows[1:] if header else rows
    heads = {column: top[column].lower() if header else "" for column in range(sheet.width) if column != down}
    unread = [column for column, head in heads.items() if head in UNREAD]
    for row in body:
        name = sheet.cell(row, down)
        if name not in sheet.known:
            raise ValueError(f"{grid.place(row, down)} holds {name!r}, {unknown(sheet, name)}")
    owner = next((column for column, head in heads.items() if head in INSTANCE), None)
    values = [column for column in heads if column not in unread and column != owner]
    empty = [column for column in values if not top[column] and not any(sheet.cell(row, column) for row in body)]
    values = [column for column in values if column not in empty]
    if not values:
        raise ValueError(f"{grid.name}: has the pools' names but no column of counts; add one called 'count'.")
    notes = ["Each row is a pool."]
    if unread:
        notes.append(
            f"Not read: column{'s' if len(unread) > 1 else ''} {', '.join(repr(top[column]) for column in unread)}."
        )
    if owner is not None:
        return _tidy(sheet, body, down, owner, values, notes)
    found = _rows_by_pool(sheet, body, down)
    cells = tuple(tuple((found[pool], column) for pool in sheet.pools) for column in values)
    return Layout(cells, column_names(sheet, top, values, header), tuple(notes))


def _tidy(
    sheet: Sheet, body: Sequence[int], down: int, owner: int, values: Sequence[int], notes: Sequence[str]
) -> Layout:
    """One row for each instance and pool."""
    grid = sheet.grid
    if len(values) != 1:
        raise ValueError(
            f"{grid.name}: columns {values[0] + 1} and {values[1] + 1} both hold counts beside a column of instances; "
            "leave one of them."
        )
    groups: dict[str, list[int]] = {}
    for row in body:
        name = sheet.cell(row, owner)
        if not name:
            raise ValueError(f"{grid.place(row, owner)} is empty; name the instance of every row.")
        groups.setdefault(name, []).append(row)
    each = {name: _rows_by_pool(sheet, rows, down, of=f" of {name!r}") for name, rows in groups.items()}
    cells = tuple(tuple((found[pool], values[0]) for pool in sheet.pools) for found in each.values())
    return Layout(cells, tuple(groups), (*notes, f"Column {owner + 1} names the instances."))


def _rows_by_pool(sheet: Sheet, body: Sequence[int], down: int, of: str = "") -> dict[str, int]:
    """The row of each pool; every pool has one."""
    found: dict[str, int] = {}
    for row in body:
        pool = sheet.cell(row, down)
        if pool in found:
            raise ValueError(
                f"{sheet.grid.name}: rows {found[pool] + 1} and {row + 1} are both for pool {pool!r}{of}; keep one, or "
                "add a column 'instance' that tells them apart."
            )
        found[pool] = row
    refuse_absent(sheet, found, "row", of)
    return found


def by_well(sheet: Sheet, top: Sequence[str]) -> Layout | None:
    """One row for each well of the pools' plate, where the pools' names are no wells; None for another layout."""
    down = next((column for column, head in enumerate(top) if head.lower() in ("well", "position")), None)
    if down is None or any(head.lower() in ("pool",) for head in top):
        return None
    if len(sheet.pools) > POOL_PLATE:
        return None  # a well alone does not say which plate it is on
    pool_at = dict(zip(plates.wells(POOL_PLATE), sheet.pools, strict=False))
    rows = [list(row) for row in sheet.grid.rows]
    for row in sheet.rows[1:]:
        name = plates.well(rows[row][down])
        if name not in pool_at:
            raise ValueError(
                f"{sheet.grid.place(row, down)} holds {rows[row][down]!r}, but the pools stand in wells A1 to "
                f"{list(pool_at)[-1]} of a plate of {POOL_PLATE}, down the columns; leave other wells out."
            )
        rows[row][down] = escape(pool_at[name])
    rows[sheet.rows[0]][down] = "pool"
    named = Sheet(replace(sheet.grid, rows=tuple(map(tuple, rows))), sheet.pools, sheet.samples, sheet.first)
    made = long(named, ["pool" if column == down else head for column, head in enumerate(top)], down)
    said = f"Wells are read down the columns: A1 is {sheet.pools[0]}."
    return Layout(made.cells, made.names, (*made.notes, said))


def column_names(sheet: Sheet, top: Sequence[str], values: Sequence[int], header: bool) -> tuple[str, ...] | None:
    """The instances' names, from the headers of their columns; None where those are only called counts."""
    if not header or (len(values) == 1 and top[values[0]].lower() in ("", *COUNT)):
        return None
    names = [top[column] for column in values]
    for number, name in enumerate(names):
        if not name or name in names[:number]:
            raise ValueError(
                f"{sheet.grid.place(sheet.rows[0], values[number])} holds {name!r}; give each column of counts a name "
                "of its own."
            )
    return tuple(names)
