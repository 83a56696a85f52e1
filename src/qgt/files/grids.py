"""Grids of text cells, from CSV or XLSX files as spreadsheets write them, with what was detected on the way.

A text file may have commas, semicolons or tabs between its cells. A separator fits where every line has it; where
several fit, a tab wins over a semicolon and that over a comma, since a comma may also be a decimal comma. An XLSX file
gives one grid for each sheet that holds anything. What a spreadsheet has turned into a date, and a formula without a
stored result, are not guessed at: a date is text that no number reader takes, and such a formula is refused.

Sizes are limited before anything is unpacked: a small XLSX file can unpack to gigabytes.
"""

import csv
import datetime
import io
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LARGEST = 2**26  # bytes of a file, and of what is in an XLSX file: 64 MiB
MOST_CELLS = 2_000_000
SEPARATORS = {"\t": "tabs", ";": "semicolons", ",": "commas"}
DATE = "date "  # what stands before a date in the cell of a grid


@dataclass(frozen=True)
class Grid:
    """The cells of one sheet: rows of texts without blanks at their ends, all of one length."""

    source: str  # the file, for errors
    rows: tuple[tuple[str, ...], ...]
    sheet: str | None = None  # None for a text file, which has but one
    separator: str = ","  # of a text file; of an XLSX file, none: an empty text
    notes: tuple[str, ...] = ()
    lengths: tuple[int, ...] = ()  # how many cells each row of a text file had; empty for an XLSX file

    def place(self, row: int, column: int | None = None) -> str:
        """Where a cell, or a row, is in the file, as a spreadsheet counts: the first is row 1, column 1.

        Example:
            >>> Grid("a.csv", (("1", "2"),)).place(0, 1)
            'a.csv: row 1, column 2'
        """
        where = f"{self.source}: " + (f"sheet {self.sheet!r}, " if self.sheet is not None else "")
        return f"{where}row {row + 1}" + (f", column {column + 1}" if column is not None else "")

    def refuse_ragged(self, rows: Iterable[int]) -> None:
        """Raise a ValueError where some of these rows differ in length: what is missing cannot be known then."""
        if not self.lengths:
            return
        rows = list(rows)
        for row in rows:
            if self.lengths[row] != self.lengths[rows[0]]:
                raise ValueError(
                    f"{self.place(row)} has {self.lengths[row]} cells and row {rows[0] + 1} has "
                    f"{self.lengths[rows[0]]}; give every row the same number (a decimal comma also splits a cell in "
                    "two: write a point)."
                )

    @property
    def name(self) -> str:
        """The file and, where it has several, the sheet."""
        return self.source if self.sheet is None else f"{self.source}: sheet {self.sheet!r}"


def read_grids(source: str | Path, data: bytes | None = None) -> list[Grid]:
    """The grids of a file; raise a ValueError that says what is wrong with it and what to do.

    Args:
        source: The file, or what to call it where `data` is given.
        data: Its content, as with an upload; None reads the file.
    """
    name = str(source)
    data = _content(Path(source)) if data is None else data
    if len(data) > LARGEST:
        raise ValueError(f"{name}: has {len(data):,} bytes; give a file of at most {LARGEST:,}.")
    if data[:4] == b"PK\x03\x04":
        return _workbook(name, data)
    if data[:4] == b"\xd0\xcf\x11\xe0":
        raise ValueError(f"{name}: is an old or encrypted spreadsheet; save it as .xlsx without a password, or as CSV.")
    return [_text_grid(name, _decoded(name, data))]


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(LARGEST + 1)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror}); check the path.") from error


def _decoded(name: str, data: bytes) -> str:
    """The text of a file: UTF-8 or, where a byte-order mark says so, UTF-16."""
    wide = data[:2] in (b"\xff\xfe", b"\xfe\xff")
    try:
        text = data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name}: is not UTF-8 text (byte {error.start}); save it as 'CSV UTF-8 (comma separated)'."
        ) from error
    if "\0" in text:
        raise ValueError(f"{name}: holds a NUL character; it is not a text file. Save it as CSV.")
    return text


def _text_grid(name: str, text: str) -> Grid:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not lines:
        raise ValueError(f"{name}: is empty; give one row per line, cells separated by commas.")
    separator = _separator(lines)
    try:
        cells = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True))
    except csv.Error as error:
        raise ValueError(f"{name}: is not readable as CSV ({error}); check its quotes.") from error
    notes = () if separator == "," else (f"Cells are separated by {SEPARATORS[separator]}.",)
    rows = _rectangle(cells)
    return Grid(name, rows, separator=separator, notes=notes, lengths=tuple(len(row) for row in cells[: len(rows)]))


def _separator(lines: list[str]) -> str:
    """What separates cells: what stands outside quotes on every line, the rarest in numbers first."""
    for separator in SEPARATORS:
        if all(separator in _unquoted(line) for line in lines):
            return separator
    seen = {separator: sum(separator in _unquoted(line) for line in lines) for separator in SEPARATORS}
    return max(seen, key=lambda separator: seen[separator]) if any(seen.values()) else ","


def _unquoted(line: str) -> str:
    """A line without what stands in quotation marks."""
    return "".join(line.split('"')[::2])


def _rectangle(cells: "list[list[str]]") -> tuple[tuple[str, ...], ...]:
    """Cells without blanks at their ends, and without empty rows and columns at the end of the sheet."""
    rows = [[cell.strip() for cell in row] for row in cells]
    while rows and not any(rows[-1]):
        rows.pop()
    width = max((max((i + 1 for i, cell in enumerate(row) if cell), default=0) for row in rows), default=0)
    return tuple(tuple((row + [""] * width)[:width]) for row in rows)


def _workbook(name: str, data: bytes) -> list[Grid]:
    """One grid for each sheet of an XLSX file that holds something and can be seen."""
    load = _openpyxl(name)
    _refuse_bomb(name, data)
    try:
        values = load(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
        formulas = load(io.BytesIO(data), read_only=True, data_only=False, keep_links=False)
        pairs = [(sheet, formulas[sheet.title]) for sheet in values.worksheets]
        hidden = [sheet.title for sheet, _ in pairs if sheet.sheet_state != "visible"]
        said = tuple(f"Sheet {title!r} is hidden and was not read." for title in hidden)
        made = [_sheet_grid(name, *pair, said) for pair in pairs if pair[0].title not in hidden]
    except ValueError:
        raise
    except Exception as error:  # openpyxl raises whatever its parsers do
        raise ValueError(f"{name}: is not a readable XLSX file ({type(error).__name__}); save it again.") from error
    grids = [grid for grid in made if grid.rows]
    if not grids:
        raise ValueError(f"{name}: has no sheet with anything in it; fill one in.")
    return grids


def _openpyxl(name: str) -> Any:
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise ValueError(
            f"{name}: is an XLSX file, which needs openpyxl: install it with pip install 'qgt[web]', or save as CSV."
        ) from error
    return load_workbook


def _refuse_bomb(name: str, data: bytes) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            sizes = [entry.file_size for entry in archive.infolist()]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise ValueError(f"{name}: is not a readable XLSX file ({error}); save it again.") from error
    if len(sizes) > 1000 or sum(sizes) > LARGEST:
        raise ValueError(f"{name}: unpacks to {sum(sizes):,} bytes; give a file of at most {LARGEST:,}.")


def _sheet_grid(name: str, sheet: Any, formulas: Any, notes: tuple[str, ...]) -> Grid:
    rows: list[list[str]] = []
    number = 0
    for row, (cells, typed) in enumerate(zip(sheet.iter_rows(values_only=True), formulas.iter_rows(), strict=False)):
        number += len(cells)
        if number > MOST_CELLS:
            raise ValueError(f"{name}: sheet {sheet.title!r} has more than {MOST_CELLS:,} cells; give a smaller one.")
        rows.append([_cell_text(value) for value in cells])
        for column, cell in enumerate(typed):
            if cell.data_type == "f" and not rows[-1][column]:
                where = Grid(name, (), sheet.title).place(row, column)
                raise ValueError(f"{where} holds a formula without a result; write the number itself.")
    return Grid(name, _rectangle(rows), sheet.title, separator="", notes=notes)


def _cell_text(value: object) -> str:
    """A cell's value as text; a date is marked as one, for a spreadsheet may have made it of something else."""
    if value is None:
        return ""
    if isinstance(value, datetime.datetime | datetime.date | datetime.time | datetime.timedelta):
        return f"{DATE}{value}"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)
