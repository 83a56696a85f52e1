"""A row for each pool: `pool,count`, a column of counts for each instance, or a column that names the instance."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from qgt.files.tables import escape
from qgt.lab import plates
from qgt.lab.headers import COUNT, CYCLES, INSTANCE, POOL, UNREAD, WELLS, columns_said, head, is_control
from qgt.lab.layouts.sheet import Layout, Sheet, refuse_absent, unknown
from qgt.lab.plates import POOL_PLATE
from qgt.lab.wording import joined


def long(sheet: Sheet, top: Sequence[str], down: int) -> Layout:
    """One row for each pool: a column of pools, and one of counts for each instance, or a column that names it."""
    grid, rows = sheet.grid, sheet.rows
    grid.refuse_ragged(rows)
    header = top[down] not in sheet.known
    if header and head(top[down]) not in POOL:
        _refuse_first_row(sheet, top, down)
    named = rows[1:] if header else rows
    body = [row for row in named if sheet.cell(row, down) in sheet.known or not is_control(sheet.cell(row, down))]
    for row in body:
        name = sheet.cell(row, down)
        if name not in sheet.known:
            raise ValueError(f"{grid.place(row, down)} holds {name!r}, {unknown(sheet, name)}")
    columns = [column for column in range(sheet.width) if column != down]
    owner = _owner(sheet, top, columns, body) if header else None
    values = _values(sheet, top, [column for column in columns if column != owner], body, header=header)
    unread = [top[column] for column in columns if column not in (owner, *values) and top[column]] if header else []
    notes = ["Each row is a pool."]
    if unread:
        notes.append(columns_said(unread))
    if controls := [sheet.cell(row, down) for row in named if row not in body]:
        notes.append(
            f"Not read: {len(controls)} control{'s' if len(controls) > 1 else ''} ({joined(controls, most=4)})."
        )
    if owner is not None:
        return _tidy(sheet, top, body, down, owner, values, notes)
    found = _rows_by_pool(sheet, body, down)
    cells = tuple(tuple((found[pool], column) for pool in sheet.pools) for column in values)
    return Layout(cells, column_names(sheet, top, values, header), tuple(notes))


def _refuse_first_row(sheet: Sheet, top: Sequence[str], down: int) -> None:
    """Raise a ValueError where the first row may be a header or a pool of another design."""
    others = [text for column, text in enumerate(top) if column != down and text]
    if top[down] and others and all(map(sheet.is_value, others)):
        where = sheet.grid.place(sheet.rows[0], down)
        raise ValueError(
            f"{where} holds {top[down]!r}, which may be a header or a pool that the design does not have; write 'pool' "
            "there, or delete the row."
        )


def _owner(sheet: Sheet, top: Sequence[str], columns: Sequence[int], body: Sequence[int]) -> int | None:
    """The column that names the instance of each row; of several, the one that tells rows apart."""
    called = [column for column in columns if head(top[column]) in INSTANCE]
    differ = [column for column in called if len({sheet.cell(row, column) for row in body}) > 1]
    if len(differ) > 1:
        one, other = differ[:2]
        raise ValueError(
            f"{sheet.grid.name}: columns {one + 1} ({top[one]!r}) and {other + 1} ({top[other]!r}) could both name the "
            "instances; keep one of them."
        )
    return next(iter(differ or called), None)


def _values(
    sheet: Sheet, top: Sequence[str], columns: Sequence[int], body: Sequence[int], *, header: bool
) -> list[int]:
    """The columns of counts: one that is called so or, where none is, those that hold what may be counts."""
    filled = {column for column in columns if any(sheet.cell(row, column) for row in body)}
    heads = {column: head(top[column]) if header else "" for column in columns}
    left = [
        column for column in columns if heads[column] not in UNREAD | INSTANCE and (heads[column] or column in filled)
    ]
    called = [column for column in left if heads[column] in COUNT]
    others = [column for column in left if column not in called]
    # A column without a header, or whose cells may be counts, is never left out silently.
    if called:
        others = [column for column in others if heads[column] not in CYCLES and _may_count(sheet, heads, column, body)]
        if len(called) + len(others) > 1:
            one, other = sorted([*called, *others])[:2]
            raise ValueError(
                f"{sheet.grid.name}: columns {one + 1} and {other + 1} both hold counts ({top[one]!r} and "
                f"{top[other]!r}); leave one of them."
            )
        return called
    found = [column for column in others if column not in filled or _may_count(sheet, heads, column, body)] or others
    if not found:
        raise ValueError(f"{sheet.grid.name}: has the pools' names but no column of counts; add one called 'count'.")
    return found


def _may_count(sheet: Sheet, heads: Mapping[int, str], column: int, body: Sequence[int]) -> bool:
    return not heads[column] or sheet.measured(column, body)


def _tidy(
    sheet: Sheet,
    top: Sequence[str],
    body: Sequence[int],
    down: int,
    owner: int,
    values: Sequence[int],
    notes: Sequence[str],
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
    return Layout(cells, tuple(groups), (*notes, f"Column {owner + 1} ({top[owner]!r}) names the instances."))


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
    down = well_column(sheet, *sheet.rows[:2]) if len(sheet.rows) > 1 else None
    if down is None or any(head(name) in POOL for name in top):
        return None
    if len(sheet.pools) > POOL_PLATE:
        return None  # a well alone does not say which plate it is on
    pool_at = dict(zip(plates.wells(POOL_PLATE), sheet.pools, strict=False))
    rows = [list(row) for row in sheet.grid.rows]
    for row in sheet.rows[1:]:
        name = plates.well(rows[row][down])
        if name is not None and name not in pool_at and len(sheet.texts(row)) == 1:
            rows[row][down] = ""  # an empty well after the last pool
            continue
        if name not in pool_at:
            raise ValueError(
                f"{sheet.grid.place(row, down)} holds {rows[row][down]!r}, but the pools stand in wells A1 to "
                f"{list(pool_at)[-1]} of a plate of {POOL_PLATE}, down the columns; leave other wells out."
            )
        rows[row][down] = escape(pool_at[name])
    rows[sheet.rows[0]][down] = "pool"
    named = replace(sheet, grid=replace(sheet.grid, rows=tuple(map(tuple, rows))))
    made = long(named, ["pool" if column == down else name for column, name in enumerate(top)], down)
    said = f"Wells are read down the columns: A1 is {sheet.pools[0]}."
    return Layout(made.cells, made.names, (*made.notes, said))


def well_column(sheet: Sheet, row: int, below: int) -> int | None:
    """The column of wells under a header: of several that are called so, the first that has one below."""
    called = [column for column in range(sheet.width) if head(sheet.cell(row, column)) in WELLS]
    fine = (column for column in called if plates.well(sheet.cell(below, column)))
    sure = (column for column in called if not sheet.is_value(sheet.cell(row, column)))  # Pos may also mean positive
    return next(fine, next(sure, None))


def column_names(sheet: Sheet, top: Sequence[str], values: Sequence[int], header: bool) -> tuple[str, ...] | None:
    """The instances' names, from the headers of their columns; None where those are only called counts."""
    if not header or (len(values) == 1 and head(top[values[0]]) in ("", *COUNT)):
        return None
    names = [top[column] for column in values]
    for number, name in enumerate(names):
        if not name or name in names[:number]:
            raise ValueError(
                f"{sheet.grid.place(sheet.rows[0], values[number])} holds {name!r}; give each column of counts a name "
                "of its own."
            )
    return tuple(names)
