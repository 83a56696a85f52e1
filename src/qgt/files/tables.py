"""Tables of numbers in CSV files: the one reader and the one writer behind every file people open in a spreadsheet.

A table has a header of column names and a first column of row names, both optional on reading. Names are recognised
because they are not numbers; names that *are* numbers (items called 1, 2, 3) need the corner cell that `write` puts
there (`pool`, `instance` or nothing), which says that both are present. Errors name the row and the column as a
spreadsheet counts them: the first line of the file is row 1.
"""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qgt.files.atomic import replacing

CORNERS = ("", "pool", "instance")


@dataclass(frozen=True)
class Table:
    """Numbers with the names of their rows and columns (None where the file had none)."""

    values: list[list[float]]
    row_names: tuple[str, ...] | None
    column_names: tuple[str, ...] | None
    first_row: int  # where values[0][0] stood in the file, counted from 1
    first_column: int

    def place(self, row: int, column: int) -> str:
        """Say where `values[row][column]` stood in the file."""
        return f"row {row + self.first_row}, column {column + self.first_column}"


def read(path: str | Path) -> Table:
    """Read a table; raise a ValueError that says where the file is wrong and what to do."""
    cells = _cells(Path(path))
    corner = cells[0][0].lower() in CORNERS
    header = corner or _is_header(path, cells[0])
    named = corner or any(_number(row[0]) is None for row in cells[header:])
    body = cells[header:]
    if not body or len(cells[0]) <= named:
        raise ValueError(f"{path}: there are names but no numbers; add at least one row and one column of numbers.")
    names = {"row": [row[0] for row in body] if named else None, "column": cells[0][named:] if header else None}
    for kind, given in names.items():
        _refuse_bad_names(path, kind, given, offset=(header if kind == "row" else named) + 1)
    return Table(
        values=[
            [_parse(path, cell, row, column) for column, cell in enumerate(line[named:], 1 + named)]
            for row, line in enumerate(body, 1 + header)
        ],
        row_names=None if names["row"] is None else tuple(names["row"]),
        column_names=None if names["column"] is None else tuple(names["column"]),
        first_row=1 + header,
        first_column=1 + named,
    )


def write(
    path: str | Path,
    values: Sequence[Sequence[int | float]],
    *,
    row_names: Sequence[str],
    column_names: Sequence[str],
    corner: str,
) -> None:
    """Write a table with both kinds of names; whole numbers are written without a decimal point."""
    with replacing(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([corner, *column_names])
        for name, row in zip(row_names, values, strict=True):
            writer.writerow([name, *(int(v) if float(v).is_integer() else float(v) for v in row)])


def _cells(path: Path) -> list[list[str]]:
    """The file's cells, stripped, as a non-empty rectangle."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # spreadsheets put a byte-order mark before UTF-8
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror}); check the path.") from error
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: is not UTF-8 text (byte {error.start}); save it as 'CSV UTF-8 (comma separated)'."
        ) from error
    if "\0" in text:
        raise ValueError(f"{path}: holds a NUL character; it is not a text file. Save it as CSV.")
    # Trailing blank lines are how many programs end a file; a blank line inside is a fault and stays, to be named.
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(text.rstrip()), strict=True)]
    except csv.Error as error:
        raise ValueError(f"{path}: is not readable as CSV ({error}); check its quotes.") from error
    if not rows:
        raise ValueError(f"{path}: is empty; give one row per line, cells separated by commas.")
    ours = bool(rows[0]) and rows[0][0].lower() in CORNERS  # then commas separate, and names may hold anything
    if not ours and (any(";" in cell for cell in rows[0]) or (len(rows[0]) == 1 and "\t" in rows[0][0])):
        found = "semicolons" if ";" in "".join(rows[0]) else "tabs"
        raise ValueError(
            f"{path}: row 1 separates its cells by {found}; save the file with commas between cells "
            "and points in decimals."
        )
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            raise ValueError(
                f"{path}: row {number} has {len(row)} cells and row 1 has {len(rows[0])}; give every row the same "
                "number (a decimal comma also splits a cell in two: write a point)."
            )
    return rows


def _is_header(path: str | Path, first: list[str]) -> bool:
    """Whether a file's first row holds names: all of them, leaving aside the first, which may name the row."""
    texts = [_number(cell) is None for cell in first[1:] or first]
    if any(texts) and not all(texts):
        odd = texts.index(True) + min(2, len(first))
        raise ValueError(
            f"{path}: row 1, column {odd} holds {first[odd - 1]!r} among numbers; write a number there, or, if row 1 "
            "holds names, put 'pool' or 'instance' in the top left cell."
        )
    return all(texts)


def _number(cell: str) -> float | None:
    # float() also takes "1_000" and other scripts' digits: in a table of counts those are typing errors.
    if not cell.isascii() or "_" in cell:
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def _parse(path: str | Path, cell: str, row: int, column: int) -> float:
    value = _number(cell)
    if value is not None and math.isfinite(value):
        return value
    hint = "write a decimal point, not a comma" if "," in cell else "write a finite number"
    raise ValueError(f"{path}: row {row}, column {column} holds {cell!r}; {hint}.")


def _refuse_bad_names(path: str | Path, kind: str, names: Sequence[str] | None, offset: int) -> None:
    seen: dict[str, int] = {}
    for position, name in enumerate(names or (), offset):
        if not name:
            raise ValueError(f"{path}: {kind} {position} has no name; name every {kind} or none.")
        if name in seen:
            raise ValueError(
                f"{path}: {kind}s {seen[name]} and {position} are both called {name!r}; give each its own name."
            )
        seen[name] = position
