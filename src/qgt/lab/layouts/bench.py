"""Plates as they stand on the bench: numbers above the columns, letters beside the rows, pools down the columns."""

from collections import Counter
from collections.abc import Sequence

from qgt.lab import plates
from qgt.lab.headers import rows_said
from qgt.lab.layouts.sheet import Cell, Layout, Sheet


def blocks(sheet: Sheet) -> list[tuple[int, int]]:
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


def _numbered(sheet: Sheet, row: int, column: int, number: int) -> bool:
    return sheet.cell(row, column).removesuffix(".0").lstrip("0") == str(number)


def plate_layout(sheet: Sheet, blocks: Sequence[tuple[int, int]]) -> Layout:
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


def _refuse_strays(sheet: Sheet, blocks: Sequence[tuple[int, int]], size: int) -> list[str]:
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


def _block_size(sheet: Sheet, block: tuple[int, int]) -> int:
    row, column = block
    return 384 if column + 24 < sheet.width and sheet.cell(row, column + 24).removesuffix(".0") == "24" else 96


def _block_cells(sheet: Sheet, block: tuple[int, int], size: int, left: int) -> list[Cell]:
    """The cells of the pools on one plate; wells after the last pool must be empty."""
    top, side = block
    rows, columns = plates.shape(size)
    for i in range(rows):
        letter = sheet.cell(top + 1 + i, side).upper() if top + 1 + i < len(sheet.grid.rows) else ""
        if letter != chr(65 + i):
            raise ValueError(
                f"{sheet.grid.place(top + 1 + i, side)} holds {letter!r}; write the row's letter, {chr(65 + i)}."
            )
    cells = [(top + 1 + row, side + 1 + column) for column in range(columns) for row in range(rows)]
    for row, column in cells[max(left, 0) :]:
        if sheet.cell(row, column):
            raise ValueError(
                f"{sheet.grid.place(row, column)} holds {sheet.cell(row, column)!r}, but no pool stands in that well; "
                "empty it."
            )
    return cells[: max(left, 0)]


def _title(sheet: Sheet, block: tuple[int, int], blocks: Sequence[tuple[int, int]]) -> str:
    """What stands above a plate, or in its corner: its name."""
    row, column = block
    corner = sheet.cell(row, column)
    if corner:
        return corner
    inside = {r for top, _ in blocks for r in range(top, top + 9)}
    above = [sheet.cell(row - 1, c) for c in range(sheet.width)] if row > sheet.first and row - 1 not in inside else []
    return next((cell for cell in above if cell), "")
