"""Designs as people have them: matrices in memory, and CSV files in two forms, a matrix or the items of each pool.

In a file, a matrix is a table (`qgt.files.tables`): a header of item names, then a line per pool with its name and a
0 or 1 for each item. The lists are two columns under the header `pool,items`:

    pool,items
    ,I1 I2 I3 I4
    P1,I1 I3
    P2,I2 I3

The second line, without a pool's name, names all items in order, those in no pool too; a file written by hand may leave
it out, and then the items are those that the pools name, in the order of first mention. Names are separated by blanks.
A name that holds a blank or a quotation mark stands in quotation marks, its own doubled; then the whole cell is quoted
where it holds a comma or a quotation mark, as CSV asks. So every cell can be read back, and by other programs too.
"""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int64
from numpy.typing import NDArray
from torch import Tensor

from qgt.files import tables
from qgt.files.grids import CellRow, Grid, names_of_cell, read_grid, unescape
from qgt.model.lists import Lists

# Matrices of zeros and ones: tensors, arrays, lists, sparse matrices and DataFrames.

MATRIX_REMEDY = (
    "give lists of 0 and 1, one for each pool, all of the same length; or a NumPy array, tensor or DataFrame."
)


def ones(matrix: object) -> tuple[tuple[int, int], Int64[Tensor, " ones"], Int64[Tensor, " ones"]]:
    """The shape of a 0/1 matrix, and the rows and columns of its ones.

    Example:
        >>> ones([[0, 1, 0], [True, False, 1.0]])
        ((2, 3), tensor([0, 1, 1]), tensor([1, 0, 2]))
    """
    if isinstance(matrix, Tensor):
        matrix = matrix.detach().cpu()
        if matrix.layout != torch.strided:
            found = matrix.to_sparse_coo().coalesce()
            return _pairs(tuple(found.shape), found.indices().numpy(), found.values().numpy())
        matrix = matrix.float().numpy() if matrix.dtype == torch.bfloat16 else matrix.numpy()
    elif hasattr(matrix, "tocoo"):  # SciPy's sparse matrices: a million items need not be written down
        coo: Any = matrix.tocoo(copy=True)
        coo.sum_duplicates()
        return _pairs(tuple(coo.shape), np.stack([coo.row, coo.col]), coo.data)
    dense = _array(matrix)
    places = np.stack(dense.nonzero())
    return _pairs(dense.shape, places, dense[tuple(places)])


def labels(matrix: object) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The labels of a DataFrame's rows and columns where all of them are texts; otherwise none."""
    return _texts(getattr(matrix, "index", ())), _texts(getattr(matrix, "columns", ()))


def _texts(names: object) -> tuple[str, ...]:
    found = tuple(names) if hasattr(names, "__iter__") and not callable(names) else ()
    return found if all(isinstance(name, str) for name in found) else ()


def _array(matrix: object) -> NDArray[Any]:
    try:
        found = np.asarray(matrix)
    except ValueError as error:  # lists of different lengths
        raise ValueError(f"matrix is not rectangular: {MATRIX_REMEDY}") from error
    if found.ndim != 2:
        raise ValueError(f"matrix has shape {found.shape}: {MATRIX_REMEDY}")
    if found.dtype.kind in "biuf":
        return found
    try:  # texts of digits, and the objects of a DataFrame with mixed columns
        return found.astype(float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"matrix holds {_first_text(found)!r}: {MATRIX_REMEDY}") from error


def _first_text(found: NDArray[Any]) -> object:
    for value in found.ravel().tolist():
        try:
            float(value)
        except (TypeError, ValueError):
            return value
    return found.ravel().tolist()[0]


def _pairs(shape: Sequence[int], places: NDArray[Any], values: NDArray[Any]) -> tuple[tuple[int, int], Tensor, Tensor]:
    """The places of ones, in order; a value that is neither 0 nor 1 is refused, with its place."""
    if len(shape) != 2:
        raise ValueError(f"matrix has shape {tuple(shape)}: {MATRIX_REMEDY}")
    for wrong in np.flatnonzero((values != 0) & (values != 1))[:1]:
        row, column = (int(place[wrong]) + 1 for place in places)
        raise ValueError(f"matrix holds {values[wrong]} in row {row}, column {column}: give entries 0 and 1 only.")
    rows, columns = (torch.from_numpy(place[values == 1].astype(np.int64)) for place in places)
    keys = rows * shape[1] + columns
    order = keys.argsort() if bool((keys.diff() < 0).any()) else slice(None)  # those of a sparse matrix may not be
    return (int(shape[0]), int(shape[1])), rows[order], columns[order]


# Files.

LISTS_HEADER = ("pool", "items")


class DesignSheet(NamedTuple):
    """What a design's file holds; no names where it has none."""

    lists: Lists
    pool_names: tuple[str, ...]
    item_names: tuple[str, ...]


def read_design(source: str | Path, data: bytes | None = None) -> DesignSheet:
    """Read either form; raise a ValueError that says where the file is wrong and what to do.

    Args:
        source: The file, or what to call it where `data` is given.
        data: Its content, as with an upload.
    """
    grid = read_grid(source, data, header={*tables.CORNERS, *LISTS_HEADER})
    if grid.rows and _is_header(grid.rows[0]):
        return _read_lists(grid)
    return _read_matrix(grid.name, tables.table_of(grid))


def _is_header(cells: Sequence[str]) -> bool:
    return [cell.lower() for cell in cells[:2]] == list(LISTS_HEADER) and not any(cells[2:])


def design_rows(lists: Lists, pool_names: Sequence[str], item_names: Sequence[str], form: str) -> Iterator[CellRow]:
    """The rows of a file: a table of 0s and 1s ("matrix") or one line per pool with its items ("lists")."""
    if form not in ("matrix", "lists"):
        raise ValueError(f"form={form!r} is not valid: give 'matrix', 'lists' or None.")
    if form == "lists" or _is_header([LISTS_HEADER[0], *item_names]):  # such a matrix would begin as lists do
        return _lists(lists, pool_names, item_names)
    return tables.table_rows(_rows(lists), row_names=pool_names, column_names=item_names, corner="pool")


def _lists(lists: Lists, pool_names: Sequence[str], item_names: Sequence[str]) -> Iterator[CellRow]:
    """One line per pool, after one that names all items."""
    yield LISTS_HEADER
    yield "", tuple(item_names)
    for name, pool in zip(pool_names, lists, strict=True):
        yield name, tuple(item_names[item] for item in pool)


def _rows(lists: Lists) -> Iterator[list[int]]:
    """The matrix row by row."""
    for pool in lists:
        row = [0] * lists.bound
        for item in pool:
            row[item] = 1
        yield row


def _read_matrix(path: str, sheet: tables.Table) -> DesignSheet:
    for i, row in enumerate(sheet.values):
        for j, value in enumerate(row):
            if value not in (0.0, 1.0):
                raise ValueError(
                    f"{path}: {sheet.place(i, j)} holds {value:g}; a design has 1 where the item is in the pool "
                    "and 0 where it is not (numeric names need 'pool' in the top left cell)."
                )
    owners, entries = torch.tensor(sheet.values, dtype=torch.float64).nonzero().T
    lists = Lists.of_pairs(owners, entries, lists=len(sheet.values), bound=len(sheet.values[0]))
    return DesignSheet(lists, sheet.row_names or (), sheet.column_names or ())


def _read_lists(grid: Grid) -> DesignSheet:
    """One pass over the rows; whatever is wrong is told with its row."""
    path = grid.name
    number: dict[str, int] = {}  # of each item
    pools: dict[str, int] = {}  # the row of each pool
    listed: list[list[int]] = []
    closed = False  # whether a line has named all items
    for row in range(2, len(grid.rows) + 1):
        pool, words = _cells(grid, row - 1)
        if not pool and row == 2:
            closed, number = True, {name: j for j, name in enumerate(words)}
            _refuse_repeats(path, row, words, "all items", number)
            continue
        if not pool:
            raise ValueError(f"{path}: row {row} has no name of a pool; name it (all items stand in row 2 only).")
        if pool in pools:
            raise ValueError(f"{path}: rows {pools[pool]} and {row} are both called {pool!r}; give each its own name.")
        pools[pool] = row
        for word in words:
            if word not in number and closed:
                raise ValueError(
                    f"{path}: row {row} puts {word!r} into {pool}, but row 2 has no such item; add it there."
                )
            number.setdefault(word, len(number))
        members = {number[word] for word in words}
        _refuse_repeats(path, row, words, pool, members)
        listed.append(sorted(members))
    if not pools or not number:
        raise ValueError(f"{path}: lists no pools or no items; write a line per pool: its name, a comma, its items.")
    if not closed and number.keys() <= {"0", "1"}:
        raise ValueError(
            f"{path}: may be a matrix of one item called 'items', or lists of items called 0 and 1; rename the item, "
            "or name all items in row 2, after a comma."
        )
    return DesignSheet(Lists.of(listed, bound=len(number)), tuple(pools), tuple(number))


def _cells(grid: Grid, row: int) -> tuple[str, list[str]]:
    """The pool's name and its items' names."""
    pool, items, *more = grid.rows[row]
    if any(more) or (grid.lengths and grid.lengths[row] < len(LISTS_HEADER)):
        raise ValueError(
            f"{grid.place(row)} is not a pool, a comma, and items with blanks between them; check commas and quotes."
        )
    try:
        return unescape(pool), names_of_cell(items)
    except ValueError as error:
        raise ValueError(f"{grid.place(row, 1)} is not readable ({error}); check its quotes.") from error


def _refuse_repeats(path: str, row: int, words: Sequence[str], owner: str, different: Collection[object]) -> None:
    if len(words) != len(different):
        twice = next(word for place, word in enumerate(words) if word in words[:place])
        raise ValueError(f"{path}: row {row} names {twice!r} twice ({owner}); name each item once.")
