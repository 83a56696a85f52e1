"""Tables of numbers in CSV files: the one reader and the one writer behind every file people open in a spreadsheet.

A table has a header of column names and a first column of row names, both optional on reading. Names are recognised
because they are not numbers, or because the caller knows them: a first row that holds a design's pools is a header
whatever those are called. Names that are numbers and that nobody knows need the corner cell that `write` puts there
(`pool` or `instance`), which says that both are present. Where a file could be read in two ways it is refused: the
error says what to write into the top left cell. Where numbers may be missing, an empty cell, NA or NaN is one that is,
and is read as NaN. Errors name the row and the column as a spreadsheet counts them: the first line of the file is row
1.
"""

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from qgt.files.cells import escape, unescape
from qgt.files.numbers import MISSING, cell_of

CORNERS = ("pool", "instance")
Reader = Callable[[str], float | None]  # the number that a cell holds, or None where it is a name
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")


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


def read(path: str | Path, *, columns: Sequence[str] = (), missing: bool = False) -> Table:
    """Read a table; raise a ValueError that says where the file is wrong and what to do.

    Args:
        path: The file.
        columns: The names that a header would hold, where they are known. They are not required.
        missing: Whether numbers may be missing: then such cells are NaN.
    """
    return parse(path, text_of(path), columns=columns, missing=missing)


def text_of(path: str | Path) -> str:
    """The text of a file, or a ValueError that says why there is none."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")  # spreadsheets put a byte-order mark before UTF-8
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror}); check the path.") from error
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: is not UTF-8 text (byte {error.start}); save it as 'CSV UTF-8 (comma separated)'."
        ) from error
    if "\0" in text:
        raise ValueError(f"{path}: holds a NUL character; it is not a text file. Save it as CSV.")
    return text


def parse(path: str | Path, text: str, *, columns: Sequence[str] = (), missing: bool = False) -> Table:
    """Read a table from its text; `path` is for errors."""
    known = frozenset(columns)
    cells = _cells(path, text, known)
    number = _number_or_missing if missing else _number
    header, named = _layout(path, cells, known, number)
    body = cells[header:]
    if not body or len(cells[0]) <= named:
        raise ValueError(f"{path}: there are names but no numbers; add at least one row and one column of numbers.")
    rows = [unescape(row[0]) for row in body] if named else None
    top = [unescape(cell) for cell in cells[0][named:]] if header else None
    _refuse_bad_names(path, "row", rows, offset=header + 1)
    _refuse_bad_names(path, "column", top, offset=named + 1)
    return Table(
        values=[
            [_parse(path, cell, row, column, missing) for column, cell in enumerate(line[named:], 1 + named)]
            for row, line in enumerate(body, 1 + header)
        ],
        row_names=None if rows is None else tuple(rows),
        column_names=None if top is None else tuple(top),
        first_row=1 + header,
        first_column=1 + named,
    )


def write(
    path: str | Path,
    values: Iterable[Sequence[int | float]],
    *,
    row_names: Sequence[str],
    column_names: Sequence[str],
    corner: str,
) -> None:
    """Write a table with both kinds of names, straight to the path.

    Whole numbers stand without a decimal point; NaN is an empty cell. Names that a spreadsheet would take for formulas
    are escaped; `read` gives them back as they were.
    """
    with Path(path).open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([corner, *map(escape, column_names)])
        for name, row in zip(row_names, values, strict=True):
            writer.writerow([escape(name), *map(cell_of, row)])


def _cells(path: str | Path, text: str, known: Set[str]) -> list[list[str]]:
    """The file's cells, stripped, as a non-empty rectangle."""
    # Trailing blank lines are how many programs end a file; a blank line inside is a fault and stays, to be named.
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(io.StringIO(text.rstrip()), strict=True)]
    except csv.Error as error:
        raise ValueError(f"{path}: is not readable as CSV ({error}); check its quotes.") from error
    if not rows:
        raise ValueError(f"{path}: is empty; give one row per line, cells separated by commas.")
    first = rows[0]
    # Then commas separate, and names may hold anything.
    ours = bool(first) and (first[0].lower() in CORNERS or not known.isdisjoint(map(unescape, first)))
    if not ours and (any(";" in cell for cell in first) or (len(first) == 1 and "\t" in first[0])):
        found = "semicolons" if ";" in "".join(first) else "tabs"
        raise ValueError(
            f"{path}: row 1 separates its cells by {found}; save the file with commas between cells "
            "and points in decimals."
        )
    for number, row in enumerate(rows, 1):
        if len(row) != len(first):
            raise ValueError(
                f"{path}: row {number} has {len(row)} cells and row 1 has {len(first)}; give every row the same "
                "number (a decimal comma also splits a cell in two: write a point)."
            )
    return rows


def _layout(path: str | Path, cells: list[list[str]], known: Set[str], number: Reader) -> tuple[bool, bool]:
    """Whether a file has a header, and whether its rows have names; `number` tells what is no name."""
    corner = cells[0][0]
    below = [row[0] for row in cells[1:]]
    first, wanted = [unescape(cell) for cell in cells[0]], sorted(known)
    only_names, names_after_corner = sorted(first) == wanted, bool(known) and sorted(first[1:]) == wanted
    if corner.lower() in CORNERS and not only_names:
        return True, True
    if _has_words(path, cells[0], known, number):
        if known.isdisjoint(first[1:]):
            return True, not corner or any(number(cell) is None for cell in below)
        return True, names_after_corner or first[0] not in known
    # From here on row 1 holds numbers, but for its first cell.
    if names_after_corner and _number(corner) is None:
        return True, True
    if only_names:
        raise ValueError(
            f"{path}: row 1 holds the pools' names, or counts that look like them; add a first column that names the "
            "rows, with 'instance' in the top left cell above them."
        )
    if not corner:
        raise ValueError(
            f"{path}: row 1, column 1 is empty; write the missing number there or, if row 1 and column 1 hold names, "
            "'pool' in a design and 'instance' in other files."
        )
    if number(corner) is None and below and all(number(cell) is not None for cell in below):
        raise ValueError(
            f"{path}: row 1, column 1 holds {corner!r} above numbers; if row 1 and column 1 hold names, write 'pool' "
            "there in a design and 'instance' in other files; if not, name every row or none."
        )
    return False, any(number(cell) is None for cell in [corner, *below])


def _has_words(path: str | Path, first: list[str], known: Set[str], number: Reader) -> bool:
    """Whether a file's first row holds names that are no numbers, leaving aside the first, which may name the row."""
    cells = list(enumerate(first, 1))[1:] or [(1, first[0])]
    words = [(column, cell) for column, cell in cells if number(cell) is None]
    if words and any(number(cell) is not None and cell not in known for _, cell in cells):
        column, odd = words[0]
        raise ValueError(
            f"{path}: row 1, column {column} holds {odd!r} among numbers; write a number there, or, if row 1 "
            "holds names, put 'pool' or 'instance' in the top left cell."
        )
    return bool(words)


def _number(cell: str) -> float | None:
    # float() also takes "1_000" and other scripts' digits: in a table of counts those are typing errors.
    if not cell.isascii() or "_" in cell:
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def _number_or_missing(cell: str) -> float | None:
    return math.nan if cell.lower() in MISSING else _number(cell)


def _parse(path: str | Path, cell: str, row: int, column: int, missing: bool) -> float:
    if missing and cell.lower() in MISSING:
        return math.nan
    value = _number(cell)
    if value is not None and math.isfinite(value):
        return value
    hint = "write a finite number"
    if "," in cell:
        hint = "write a decimal point, not a comma"
    if _THOUSANDS.fullmatch(cell):  # a point would make 1.000 of a thousand
        hint = f"write {cell.replace(',', '')} if the comma groups digits, or a point if it is a decimal comma"
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
