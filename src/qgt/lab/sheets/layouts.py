"""The layouts in which people keep counts: a column per pool, a row per pool, or plates as they stand on the bench.

Each layout finds the cells of every instance in a grid; `qgt.lab.sheets.counts` turns the cells into numbers.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from qgt.files.grids import Grid, escape, unescape
from qgt.files.tables import is_number
from qgt.lab.reported import is_word
from qgt.lab.sheets import plates
from qgt.lab.sheets.headers import (
    COUNT,
    CYCLES,
    INSTANCE,
    NAMED_TEXTS,
    POOL,
    TOP,
    UNREAD,
    WELLS,
    columns_said,
    head,
    is_control,
    rows_said,
)
from qgt.lab.sheets.names import mangled, proposal_in
from qgt.lab.sheets.plates import POOL_PLATE
from qgt.lab.wording import in_one_phrase

# A sheet of counts as it is being read: its cells, the names it should hold, and what to say where it does not.

Cell = tuple[int, int]  # row and column in the grid, counted from 0


@dataclass(frozen=True)
class Layout:
    """Where each instance's counts are: for each, a cell for every pool in the design's order."""

    cells: tuple[tuple[Cell, ...], ...]  # (instances, pools)
    names: tuple[str, ...] | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LayoutSheet:
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


def unknown(sheet: LayoutSheet, name: str) -> str:
    """The end of a sentence about a name that no pool has."""
    own, other = proposal_in(sheet.pools[0]), proposal_in(name)
    what = "design" if own is None else "round"
    if other not in (None, own):
        return another_proposal(other, own)
    if hint := mangled(name, [*sheet.pools, *sheet.samples]):
        return f"but the {what} has no such pool; {hint}."
    if name in sheet.samples:
        return "which is a sample; name the pools, such as " + repr(sheet.pools[0]) + "."
    return f"but the {what} has no such pool; use its names, such as {sheet.pools[0]!r}."


def another_proposal(other: str | None, own: str | None) -> str:
    """The end of a sentence about a pool of a proposal whose code is not that of the pools that are looked for."""
    if own is None:
        return f"which is a pool of a follow-up round (proposal {other}); enter its reports for that round."
    return (
        f"which is a pool of proposal {other}, but the round is proposal {own}; enter the reports for the round whose "
        "pools were tested."
    )


def refuse_absent(sheet: LayoutSheet, found: Mapping[str, int], line: str, of: str = "") -> None:
    """Raise a ValueError for the first pool that has no row or column."""
    if absent := [pool for pool in sheet.pools if pool not in found]:
        raise ValueError(
            f"{sheet.grid.name}: has no {line} for pool {absent[0]!r}{of}; add it, with an empty cell if its count is "
            "missing."
        )


def row_names(sheet: LayoutSheet, rows: Sequence[int], column: int = 0) -> tuple[str, ...]:
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


# A column for each pool, with its name above or, where nothing is named, in the design's order.


def wide(sheet: LayoutSheet, top: Sequence[str]) -> Layout:
    """One column for each pool; another may name the instances, and others are left out."""
    grid, rows = sheet.grid, sheet.rows
    grid.refuse_ragged(rows)
    place, others = _pool_columns(sheet, top)
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
    _refuse_unread(sheet, top, unread)
    notes = [f"Column {top[owner]!r} names the instances."] if owner is not None and unread else []
    names = None if owner is None else row_names(sheet, rows[1:], owner)
    cells = tuple(tuple((row, place[pool]) for pool in sheet.pools) for row in rows[1:])
    return Layout(cells, names, (*notes, *([columns_said([top[column] for column in unread])] if unread else [])))


def _pool_columns(sheet: LayoutSheet, top: Sequence[str]) -> tuple[dict[str, int], list[int]]:
    """The column of each pool that the header names, and the other columns."""
    place: dict[str, int] = {}
    others = []
    for column, name in enumerate(top):
        if name in place:
            raise ValueError(
                f"{sheet.grid.name}: columns {place[name] + 1} and {column + 1} are both called {name!r}; give each "
                "its own name."
            )
        if name in sheet.known:
            place[name] = column
        elif name or column == 0:
            others.append(column)
        else:
            raise ValueError(f"{sheet.grid.place(sheet.rows[0], column)} has no name; name every column or none.")
    return place, others


def _refuse_unread(sheet: LayoutSheet, top: Sequence[str], columns: Sequence[int]) -> None:
    """Raise a ValueError for a column that would be left out, and that may be a pool's."""
    for column in columns:
        named = top[column] in sheet.samples or mangled(top[column], sheet.pools)
        if named or (head(top[column]) not in UNREAD and sheet.measured(column, sheet.rows[1:])):
            raise ValueError(
                f"{sheet.grid.name}: column {column + 1} is called {_strange(sheet, top[column])} If it is not a "
                "pool's, delete it."
            )


def _owner(sheet: LayoutSheet, top: Sequence[str], others: Sequence[int]) -> int | None:
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


def _strange(sheet: LayoutSheet, name: str) -> str:
    return f"{name!r}, {unknown(sheet, name)}"


def bare(sheet: LayoutSheet, top: Sequence[str]) -> Layout:
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


# A row for each pool: `pool,count`, a column of counts for each instance, or a column that names the instance.


def long(sheet: LayoutSheet, top: Sequence[str], down: int) -> Layout:
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
    owner = _owner_of_rows(sheet, top, columns, body) if header else None
    values = _values(sheet, top, [column for column in columns if column != owner], body, header=header)
    unread = [top[column] for column in columns if column not in (owner, *values) and top[column]] if header else []
    notes = ["Each row is a pool."]
    if unread:
        notes.append(columns_said(unread))
    if controls := [sheet.cell(row, down) for row in named if row not in body]:
        notes.append(
            f"Not read: {len(controls)} control{'s' if len(controls) > 1 else ''} ({in_one_phrase(controls, most=4)})."
        )
    if owner is not None:
        return _tidy(sheet, top, body, down, owner, values, notes)
    found = _rows_by_pool(sheet, body, down)
    cells = tuple(tuple((found[pool], column) for pool in sheet.pools) for column in values)
    return Layout(cells, column_names(sheet, top, values, header), tuple(notes))


def _refuse_first_row(sheet: LayoutSheet, top: Sequence[str], down: int) -> None:
    """Raise a ValueError where the first row may be a header or a pool of another design."""
    others = [text for column, text in enumerate(top) if column != down and text]
    if top[down] and others and all(map(sheet.is_value, others)):
        where = sheet.grid.place(sheet.rows[0], down)
        raise ValueError(
            f"{where} holds {top[down]!r}, which may be a header or a pool that the design does not have; write 'pool' "
            "there, or delete the row."
        )


def _owner_of_rows(sheet: LayoutSheet, top: Sequence[str], columns: Sequence[int], body: Sequence[int]) -> int | None:
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
    sheet: LayoutSheet, top: Sequence[str], columns: Sequence[int], body: Sequence[int], *, header: bool
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


def _may_count(sheet: LayoutSheet, heads: Mapping[int, str], column: int, body: Sequence[int]) -> bool:
    return not heads[column] or sheet.measured(column, body)


def _tidy(
    sheet: LayoutSheet,
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


def _rows_by_pool(sheet: LayoutSheet, body: Sequence[int], down: int, of: str = "") -> dict[str, int]:
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


def by_well(sheet: LayoutSheet, top: Sequence[str]) -> Layout | None:
    """One row for each well of the pools' plate, where the pools' names are not wells; None for another layout."""
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


def well_column(sheet: LayoutSheet, row: int, below: int) -> int | None:
    """The column of wells under a header: of several that are called so, the first that has one below."""
    called = [column for column in range(sheet.width) if head(sheet.cell(row, column)) in WELLS]
    fine = (column for column in called if plates.well(sheet.cell(below, column)))
    sure = (column for column in called if not sheet.is_value(sheet.cell(row, column)))  # Pos may also mean positive
    return next(fine, next(sure, None))


def column_names(sheet: LayoutSheet, top: Sequence[str], values: Sequence[int], header: bool) -> tuple[str, ...] | None:
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


# Pools that report several categories: a row for each pool with a column for each category, or names of both together.


def by_category(sheet: LayoutSheet, pools: Sequence[str], categories: Sequence[str]) -> Layout:
    """The layout of a sheet whose pools report categories; its cells are those of each pool, category by category.

    Args:
        sheet: The sheet; its `pools` are the names of the reports, `P1 variant A` and so on.
        pools: The names of the pools themselves.
        categories: The names of the categories that are reported.
    """
    header = _category_header(sheet, pools, categories)
    if header is not None:
        return _category_table(replace(sheet, pools=tuple(pools), first=header), categories)
    columns = [[sheet.cell(row, column) for row in sheet.rows] for column in range(sheet.width)]
    rows = [[sheet.cell(row, column) for column in range(sheet.width)] for row in sheet.rows[:TOP]]
    if blocks(sheet) or not any(sheet.hits(cells) for cells in (*rows, *columns)):
        raise ValueError(
            f"{sheet.grid.name}: does not name the categories; write a row for each pool under the headers 'pool', "
            f"{', '.join(map(repr, categories))}, or name each column by its pool and category, such as "
            f"{sheet.pools[0]!r}."
        )
    return layout_of(sheet)


def _category_header(sheet: LayoutSheet, pools: Sequence[str], categories: Sequence[str]) -> int | None:
    """The row that heads a column of pools; None where no column has the names of pools."""
    own = set(pools)
    for row in sheet.rows[:TOP]:
        heads = [head(sheet.cell(row, column)) for column in range(sheet.width)]
        if any(one in POOL for one in heads) and not sheet.hits([sheet.cell(row, c) for c in range(sheet.width)]):
            down = next(column for column, one in enumerate(heads) if one in POOL)
            below = {sheet.cell(other, down) for other in sheet.rows if other > row}
            named = {head(one) for one in categories} & set(heads)
            return row if named or (below & own and not sheet.hits(list(below))) else None
    return None


def _category_table(sheet: LayoutSheet, categories: Sequence[str]) -> Layout:
    """One row for each pool, and a column for each category; another column may name the instances."""
    grid, (header, *named) = sheet.grid, sheet.rows
    grid.refuse_ragged(sheet.rows)
    top = [sheet.cell(header, column) for column in range(sheet.width)]
    down = next(column for column, name in enumerate(top) if head(name) in POOL)
    body = [row for row in named if sheet.cell(row, down) in sheet.known or not is_control(sheet.cell(row, down))]
    for row in body:
        if (name := sheet.cell(row, down)) not in sheet.known:
            raise ValueError(f"{grid.place(row, down)} holds {name!r}, {unknown(sheet, name)}")
    place = _category_columns(sheet, top, categories)
    others = [column for column in range(sheet.width) if column not in (down, *place)]
    owner = _owner_of_rows(sheet, top, others, body)
    unread = [column for column in others if column != owner]
    for column in unread:
        if head(top[column]) not in UNREAD and sheet.measured(column, body):
            raise ValueError(
                f"{grid.name}: column {column + 1} is called {top[column]!r}, but the problem has no such category; "
                f"its categories are {in_one_phrase(categories)}. If the column is not a category's, delete it."
            )
    groups: dict[str, list[int]] = {}
    for row in body:
        name = "" if owner is None else sheet.cell(row, owner)
        if owner is not None and not name:
            raise ValueError(f"{grid.place(row, owner)} is empty; name the instance of every row.")
        groups.setdefault(name, []).append(row)
    each = {
        name: _rows_by_pool(sheet, rows, down, of="" if owner is None else f" of {name!r}")
        for name, rows in (groups or {"": []}).items()
    }
    cells = tuple(tuple((found[pool], column) for pool in sheet.pools for column in place) for found in each.values())
    left_out = [columns_said([top[column] for column in unread if top[column]])] if any(top[c] for c in unread) else []
    names = None if owner is None else tuple(groups)
    return Layout(cells, names, ("Each row is a pool, with a column for each category.", *left_out))


def _category_columns(sheet: LayoutSheet, top: Sequence[str], categories: Sequence[str]) -> list[int]:
    """The column of each category."""
    place = []
    for category in categories:
        alike = [column for column, name in enumerate(top) if head(name) == head(category)]
        found = [column for column in alike if top[column] == category] or alike
        if len(found) != 1:
            there = f"columns {found[0] + 1} and {found[1] + 1} are both called" if found else "has no column called"
            remedy = "keep one of them" if found else "add it, with empty cells if the category was not measured"
            raise ValueError(f"{sheet.grid.name}: {there} {category!r}; {remedy}.")
        place.append(found[0])
    return place


# Plates as they stand on the bench: numbers above the columns, letters beside the rows, pools down the columns.


def blocks(sheet: LayoutSheet) -> list[tuple[int, int]]:
    """Plates in the sheet: the row with the column numbers, and the column with the row letters, of each."""
    found = []
    for row in sheet.rows:
        for column in range(sheet.width - 1):
            run = 0  # how many of the cells to the right are 1, 2, 3 ...: looked at one by one, for sheets can be wide
            while column + 1 + run < sheet.width and _numbered(sheet, row, column + 1 + run, run + 1):
                run += 1
            below = sheet.cell(row + 1, column).upper() if row + 1 < len(sheet.grid.rows) else ""
            if run in (12, 24) and below == "A":
                found.append((row, column))
                break
    return found


def _numbered(sheet: LayoutSheet, row: int, column: int, number: int) -> bool:
    return sheet.cell(row, column).removesuffix(".0").lstrip("0") == str(number)


def plate_layout(sheet: LayoutSheet, blocks: Sequence[tuple[int, int]]) -> Layout:
    """Plates as they stand on the bench: pools fill a plate down its columns, and then the next."""
    grid = sheet.grid
    sizes = {_block_size(sheet, block) for block in blocks}
    if len(sizes) > 1:
        raise ValueError(f"{grid.name}: has plates of 96 and of 384 wells; put each kind into a file of its own.")
    size = sizes.pop()
    each = -(-len(sheet.pools) // size)  # plates for one instance
    if len(blocks) % each:
        raise ValueError(
            f"{grid.name}: has {len(blocks)} plates, but {len(sheet.pools)} pools take {each} plates of {size} wells; "
            "give all of them."
        )
    above = _refuse_strays(sheet, blocks, size)
    instances, titles = [], []
    for start in range(0, len(blocks), each):
        cells: list[Cell] = []
        for number, block in enumerate(blocks[start : start + each]):
            cells += _block_cells(sheet, block, size, len(sheet.pools) - number * size)
        instances.append(tuple(cells))
        titles.append(_title(sheet, blocks[start], blocks))
    repeated = [name for name, times in Counter(titles).items() if times > 1 and name]
    if repeated:
        raise ValueError(f"{grid.name}: two plates are both called {repeated[0]!r}; give each its own name.")
    names = tuple(titles) if all(titles) else None
    said = f"Plates of {size} wells, pools down the columns: A1 is {sheet.pools[0]}, B1 is the next."
    titles_said = (rows_said(blocks[0][0], above, "first plate's header"),) if above else ()
    return Layout(tuple(instances), names, (*titles_said, said))


def _refuse_strays(sheet: LayoutSheet, blocks: Sequence[tuple[int, int]], size: int) -> list[str]:
    """Raise a ValueError for a cell beside the plates; a row above one may hold its name.

    Returned are the texts above the first plate and its name. A number there may be a count of a spoiled plate.
    """
    rows, columns = plates.shape(size)
    inside = {(top + i, side + j) for top, side in blocks for i in range(rows + 1) for j in range(columns + 1)}
    above = {top - 1 for top, _ in blocks}
    titles = []
    for row in sheet.rows:
        for column in range(sheet.width):
            if sheet.cell(row, column) and (row, column) not in inside and row not in above:
                if row < blocks[0][0] and not sheet.is_value(sheet.cell(row, column)):
                    titles.append(sheet.cell(row, column))
                    continue
                raise ValueError(
                    f"{sheet.grid.place(row, column)} holds {sheet.cell(row, column)!r}, beside a plate; delete it or "
                    "write it into the row above the plate."
                )
    return titles


def _block_size(sheet: LayoutSheet, block: tuple[int, int]) -> int:
    row, column = block
    return 384 if column + 24 < sheet.width and sheet.cell(row, column + 24).removesuffix(".0") == "24" else 96


def _block_cells(sheet: LayoutSheet, block: tuple[int, int], size: int, left: int) -> list[Cell]:
    """The cells of the pools on one plate; wells after the last pool must be empty."""
    top, side = block
    rows, columns = plates.shape(size)
    for i in range(rows):
        letter = sheet.cell(top + 1 + i, side).upper() if top + 1 + i < len(sheet.grid.rows) else ""
        own = plates.row_letter(i)
        if letter != own:
            raise ValueError(f"{sheet.grid.place(top + 1 + i, side)} holds {letter!r}; write the row's letter, {own}.")
    cells = [(top + 1 + row, side + 1 + column) for column in range(columns) for row in range(rows)]
    for row, column in cells[max(left, 0) :]:
        if sheet.cell(row, column):
            raise ValueError(
                f"{sheet.grid.place(row, column)} holds {sheet.cell(row, column)!r}, but no pool stands in that well; "
                "empty it."
            )
    return cells[: max(left, 0)]


def _title(sheet: LayoutSheet, block: tuple[int, int], blocks: Sequence[tuple[int, int]]) -> str:
    """What stands above a plate, or in its corner: its name."""
    row, column = block
    corner = sheet.cell(row, column)
    if corner:
        return corner
    inside = {r for top, _ in blocks for r in range(top, top + 9)}
    above = [sheet.cell(row - 1, c) for c in range(sheet.width)] if row > sheet.first and row - 1 not in inside else []
    return next((cell for cell in above if cell), "")


# Which layout a sheet has: the one whose names are where it has them; a sheet that fits two is refused.


def layout_of(sheet: LayoutSheet) -> Layout:
    """The layout of a sheet; raise a ValueError that says what does not fit."""
    if plates_found := blocks(sheet):
        return plate_layout(sheet, plates_found)
    numeric = any(is_number(name) for name in sheet.pools)
    header = sheet.rows[0] if numeric else _header(sheet)  # a row of counts may look like a row of such names
    if header == sheet.rows[0]:
        return _layout(sheet, numeric)
    above = [row for row in sheet.rows if row < header]
    _refuse_counts(sheet, above)
    made = _layout(replace(sheet, first=header), numeric)
    said = rows_said(header, [text for row in above for text in sheet.texts(row)][:NAMED_TEXTS])
    return replace(made, notes=(said, *made.notes))


def _header(sheet: LayoutSheet) -> int:
    """The row with which the table begins: the first, unless the pools' names tell that it is another."""
    rows = sheet.rows
    across = {row: sheet.hits([sheet.cell(row, column) for column in range(sheet.width)]) for row in rows[:TOP]}
    best = max(across, key=lambda row: across[row])
    columns = [[sheet.cell(row, column) for row in rows] for column in range(sheet.width)]
    down = max(range(sheet.width), key=lambda column: sheet.hits(columns[column]))
    along = sheet.hits(columns[down])
    if across[best] > max(along, 1):
        return best
    if along > 1:
        first = next(number for number, name in enumerate(columns[down]) if name in sheet.known)
        return _header_above(sheet, rows[:first], down, rows[first])
    wells = [row for row, below in pairwise(rows[:TOP]) if well_column(sheet, row, below) is not None]
    return wells[0] if wells else rows[0]


def _header_above(sheet: LayoutSheet, above: Sequence[int], down: int, first: int) -> int:
    """The header of a column of pools: a row that is called so, or the nearest with several texts, or none."""
    called = [row for row in above if head(sheet.cell(row, down)) in POOL]
    several = [row for row in above if len(sheet.texts(row)) > 1 and not is_control(sheet.cell(row, down))]
    words = [row for row in several if not any(sheet.is_value(text) for text in sheet.texts(row))]
    return next((rows[-1] for rows in (called, words, several) if rows), first)


def _refuse_counts(sheet: LayoutSheet, rows: Sequence[int]) -> None:
    """Raise a ValueError for rows above the header that may be counts themselves."""
    for row in rows:
        texts = sheet.texts(row)
        if len(texts) > 2 and sum(sheet.is_value(text) for text in texts) > len(texts) / 2:
            raise ValueError(
                f"{sheet.grid.place(row)} holds numbers above the row that names the pools; put the counts below the "
                "names, or delete it."
            )


def _layout(sheet: LayoutSheet, numeric: bool) -> Layout:
    rows = sheet.rows
    top = [sheet.cell(rows[0], column) for column in range(sheet.width)]
    columns = [[sheet.cell(row, column) for row in rows] for column in range(sheet.width)]
    across = sheet.hits(top)
    down = max(range(sheet.width), key=lambda column: sheet.hits(columns[column]))
    along = sheet.hits(columns[down])
    if numeric:  # counts may look like names: only a whole set of names is one
        across = across if across == len(sheet.pools) else 0
        along = along if along == len(sheet.pools) and (top[down].lower() == "pool" or not is_number(top[down])) else 0
    if across and along and (numeric or min(across, along) > 1):
        corner = top[0].lower()
        if corner not in ("pool", "instance"):
            raise ValueError(
                f"{sheet.grid.name} names pools both in row {rows[0] + 1} and in column {down + 1}; write 'instance' "
                "into the top left cell if each column is a pool, or 'pool' if each row is one."
            )
        across, along = (0, along) if corner == "pool" else (across, 0)
    if across and across >= along:
        return wide(sheet, top)
    if along:
        return long(sheet, top, down)
    if made := by_well(sheet, top):
        return made
    if numeric:  # a row of names could be taken for counts
        for column, name in enumerate(top):
            hint = mangled(name, sheet.pools) if name not in sheet.known else None
            if hint:
                raise ValueError(f"{sheet.grid.place(rows[0], column)} holds {name!r}; {hint}.")
        raise ValueError(
            f"{sheet.grid.name}: does not name the pools, or not all of them, and their names are numbers; name every "
            f"pool in row {rows[0] + 1}, such as {sheet.pools[0]!r}."
        )
    return bare(sheet, top)
