"""Which layout a sheet has: the one whose names are where it has them; a sheet that fits two is refused."""

from qgt.files.numbers import is_number
from qgt.lab.layouts.bench import blocks, plate_layout
from qgt.lab.layouts.columns import bare, wide
from qgt.lab.layouts.rows import by_well, long
from qgt.lab.layouts.sheet import Layout, Sheet
from qgt.lab.mangled import mangled


def layout_of(sheet: Sheet) -> Layout:
    """The layout of a sheet; raise a ValueError that says what does not fit."""
    rows = sheet.rows
    top = [sheet.cell(rows[0], column) for column in range(sheet.width)]
    columns = [[sheet.cell(row, column) for row in rows] for column in range(sheet.width)]
    across = sheet.hits(top)
    down = max(range(sheet.width), key=lambda column: sheet.hits(columns[column]))
    if plates_found := blocks(sheet):
        return plate_layout(sheet, plates_found)
    along = sheet.hits(columns[down])
    numeric = any(is_number(name) for name in sheet.pools)
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
