"""Which layout a sheet has: the one whose names are where it has them; a sheet that fits two is refused."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from qgt.files.tables import is_number
from qgt.lab.headers import POOL, head, is_control, rows_said
from qgt.lab.layouts.bench import blocks, plate_layout
from qgt.lab.layouts.columns import bare, wide
from qgt.lab.layouts.rows import by_well, long, well_column
from qgt.lab.layouts.sheet import Layout, Sheet
from qgt.lab.mangled import mangled

NAMED = 4  # texts above a table that a note names
TOP = 60  # rows among which a header is looked for


def layout_of(sheet: Sheet) -> Layout:
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
    said = rows_said(header, [text for row in above for text in sheet.texts(row)][:NAMED])
    return replace(made, notes=(said, *made.notes))


def _header(sheet: Sheet) -> int:
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


def _header_above(sheet: Sheet, above: Sequence[int], down: int, first: int) -> int:
    """The header of a column of pools: a row that is called so, else the nearest with several texts, else none."""
    called = [row for row in above if head(sheet.cell(row, down)) in POOL]
    several = [row for row in above if len(sheet.texts(row)) > 1 and not is_control(sheet.cell(row, down))]
    words = [row for row in several if not any(sheet.is_value(text) for text in sheet.texts(row))]
    return next((rows[-1] for rows in (called, words, several) if rows), first)


def _refuse_counts(sheet: Sheet, rows: Sequence[int]) -> None:
    """Raise a ValueError for rows above the header that may be counts themselves."""
    for row in rows:
        texts = sheet.texts(row)
        if len(texts) > 2 and sum(sheet.is_value(text) for text in texts) > len(texts) / 2:
            raise ValueError(
                f"{sheet.grid.place(row)} holds numbers above the row that names the pools; put the counts below the "
                "names, or delete it."
            )


def _layout(sheet: Sheet, numeric: bool) -> Layout:
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
