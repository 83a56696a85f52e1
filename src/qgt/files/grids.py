"""Grids of text cells, from CSV or XLSX files as spreadsheets write them, with what was detected on the way.

A text file may have commas, semicolons or tabs between its cells. A separator fits where every line has it; where
several fit, a tab wins over a semicolon and that over a comma, since a comma may also be a decimal comma. A first line
`sep=;`, as Excel writes it, says which one it is. An XLSX file gives one grid for each sheet that holds anything. What
a spreadsheet has turned into a date, and a formula without a stored result, are not guessed at: a date is text that no
number reader takes, and such a formula is refused.

Text is UTF-8 or UTF-16 or, where it is neither, Windows-1252, which programs on Windows still write. That is said in
the notes. A byte that Windows and other systems read as different letters is refused.

Sizes are limited before anything is unpacked or parsed: a small XLSX file can unpack to gigabytes, and a cell of XLSX
takes a thousand times as long to read as it takes to count.
"""

import csv
import datetime
import io
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LARGEST_GRID_FILE = 2**26  # bytes of a file, and of what is in an XLSX file: 64 MiB
MOST_CELLS = 2_000_000  # of a grid, empty ones included
MOST_XLSX = 250_000  # cells of an XLSX file, whose reading takes some ten microseconds for each
LAST_ROW = 100_000  # of an XLSX sheet: a single cell further down would take as long as all rows above it
SEPARATORS = {"\t": "tabs", ";": "semicolons", ",": "commas"}
DATE = "date "  # what stands before a date in the cell of a grid
_TAG = re.compile(rb"<(?:[^\s<>/:]+:)?([cf])(?=[\s/>])")  # of a cell, or of a formula, in a sheet's XML
_SEP = re.compile(r"sep=([\t;,])\s*", re.IGNORECASE)


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
    if len(data) > LARGEST_GRID_FILE:
        raise ValueError(f"{name}: has {len(data):,} bytes; give a file of at most {LARGEST_GRID_FILE:,}.")
    if data[:4] == b"PK\x03\x04":
        return _workbook(name, data)
    if data[:4] == b"\xd0\xcf\x11\xe0":
        raise ValueError(f"{name}: is an old or encrypted spreadsheet; save it as .xlsx without a password, or as CSV.")
    text, notes = _decoded(name, data)
    return [_text_grid(name, text, notes)]


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(LARGEST_GRID_FILE + 1)
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror}); check the path.") from error


def _decoded(name: str, data: bytes) -> tuple[str, tuple[str, ...]]:
    """The text of a file, and a note where it is not UTF-8."""
    wide = _wide(data)
    notes: tuple[str, ...]
    try:
        text, notes = data.decode(wide or "utf-8-sig"), (("The text is UTF-16.",) if wide else ())
    except UnicodeDecodeError as error:
        if wide:
            raise ValueError(f"{name}: is not UTF-16 text (byte {error.start}); save it as CSV UTF-8.") from error
        text, notes = _western(name, data)
    if "\0" in text:
        raise ValueError(f"{name}: holds a NUL character; it is not a text file. Save it as CSV.")
    return text, notes


def _wide(data: bytes) -> str:
    """The kind of UTF-16 of a text, by its byte-order mark or by its zeros; empty where it is another."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    even, odd = data[::2].count(0), data[1::2].count(0)
    if len(data) < 4 or len(data) % 2 or (even and odd) or 10 * (even + odd) < 4 * len(data):
        return ""
    return "utf-16-le" if odd else "utf-16-be"


def _western(name: str, data: bytes) -> tuple[str, tuple[str, ...]]:
    """Text of one byte for each letter, as Windows writes it in the west of Europe.

    From 0xA0 on, Windows-1252 and Latin-1 are the same. Below, from 0x80, Windows has quotes and dashes where DOS and
    older Macs have letters, so those bytes are refused.
    """
    if (odd := re.search(rb"[\x80-\x9f]", data)) is not None:
        place = odd.start()
        start = max(data.rfind(b"\n", 0, place) + 1, place - 12)
        around, at = data[start : place + 12], place - start
        windows, dos, mac = (repr(_word_in(around, at, kind)) for kind in ("cp1252", "cp850", "mac_roman"))
        raise ValueError(
            f"{name}: is not UTF-8 text: row {data.count(10, 0, place) + 1} reads {windows} as Windows text, {dos} as "
            f"DOS text and {mac} as old Mac text; save it as 'CSV UTF-8 (comma separated)'."
        )
    text = data.decode("latin-1")
    first = re.search(r"[^\s;,\"]*[^\x00-\x7f][^\s;,\"]*", text)
    assert first is not None  # else it would be UTF-8
    return text, (f"The text is not UTF-8; it was read as Windows-1252, as in {first[0][:30]!r}.",)


def _word_in(line: bytes, place: int, kind: str) -> str:
    """The word around a byte of a line, in one encoding."""
    text = line.decode(kind, errors="replace")
    return re.split(r"[\s;,]", text[:place])[-1] + re.split(r"[\s;,]", text[place:])[0]


def _text_grid(name: str, text: str, said: tuple[str, ...]) -> Grid:
    named = _SEP.fullmatch(text.split("\n", 1)[0])
    if named is not None:  # the row stays, empty, so that rows are counted as a spreadsheet does
        text = text[len(text.split("\n", 1)[0]) :]
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not lines:
        raise ValueError(f"{name}: is empty; give one row per line, cells separated by commas.")
    separator = named[1] if named is not None else _separator(lines)
    try:
        cells = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True))
    except csv.Error as error:
        raise ValueError(f"{name}: is not readable as CSV ({error}); check its quotes.") from error
    notes = () if separator == "," else (f"Cells are separated by {SEPARATORS[separator]}.",)
    rows = _rectangle(name, cells)
    lengths = tuple(len(row) for row in cells[: len(rows)])
    return Grid(name, rows, separator=separator, notes=(*said, *notes), lengths=lengths)


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


def _rectangle(name: str, cells: "list[list[str]]") -> tuple[tuple[str, ...], ...]:
    """Cells without blanks at their ends, and without empty rows and columns at the end of the sheet."""
    rows = [[cell.strip() for cell in row] for row in cells]
    while rows and not any(rows[-1]):
        rows.pop()
    width = max((max((i + 1 for i, cell in enumerate(row) if cell), default=0) for row in rows), default=0)
    if len(rows) * width > MOST_CELLS:  # a cell far out makes every other row as long
        raise ValueError(
            f"{name}: has {len(rows):,} rows and {width:,} columns, which are more than {MOST_CELLS:,} cells; give a "
            "smaller sheet."
        )
    return tuple(tuple((row + [""] * width)[:width]) for row in rows)


def _workbook(name: str, data: bytes) -> list[Grid]:
    """One grid for each sheet of an XLSX file that holds something and can be seen."""
    load = _openpyxl(name)
    _refuse_bomb(name, data)
    formulas = _counted(name, data)
    try:
        values = load(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
        typed = load(io.BytesIO(data), read_only=True, data_only=False, keep_links=False) if formulas else None
        hidden = [sheet.title for sheet in values.worksheets if sheet.sheet_state != "visible"]
        said = tuple(f"Sheet {title!r} is hidden and was not read." for title in hidden)
        made = [
            _sheet_grid(name, sheet, None if typed is None else typed[sheet.title], said)
            for sheet in values.worksheets
            if sheet.title not in hidden
        ]
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
    if len(sizes) > 1000 or sum(sizes) > LARGEST_GRID_FILE:
        raise ValueError(f"{name}: unpacks to {sum(sizes):,} bytes; give a file of at most {LARGEST_GRID_FILE:,}.")


def _counted(name: str, data: bytes) -> bool:
    """Whether some cell has a formula; a file of too many cells is refused before any is read."""
    cells = formulas = 0
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for entry in archive.infolist():
            if not entry.filename.endswith(".xml") or entry.filename.endswith("calcChain.xml"):
                continue  # a calculation chain lists the cells with formulas once more
            try:
                for kind in _tags(archive, entry):
                    cells, formulas = cells + (kind == b"c"), formulas + (kind == b"f")
                    if cells > MOST_XLSX:
                        raise ValueError(
                            f"{name}: has more than {MOST_XLSX:,} cells; send fewer, or save the sheet as CSV."
                        )
            except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError, zlib.error, EOFError) as error:
                raise ValueError(f"{name}: is not a readable XLSX file ({error}); save it again.") from error
    return formulas > 0


def _tags(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    """The cells and formulas of an entry, piece by piece: c and f."""
    with archive.open(entry) as stream:
        left = b""
        while piece := stream.read(2**20):
            piece = left + piece
            end = piece.rfind(b"<")  # what follows may be half a tag
            left = piece[end:] if 0 <= len(piece) - end < 200 else b""
            yield from _TAG.findall(piece[: len(piece) - len(left)])
        yield from _TAG.findall(left)


def _sheet_grid(name: str, sheet: Any, formulas: Any | None, notes: tuple[str, ...]) -> Grid:
    rows: list[list[str]] = []
    number = 0
    for row, cells in enumerate(_rows(sheet, values_only=True)):
        number += len(cells)
        if number > MOST_XLSX or row >= LAST_ROW:
            raise ValueError(
                f"{name}: sheet {sheet.title!r} has more than {MOST_XLSX:,} cells or {LAST_ROW:,} rows; delete those "
                "below the table, or save the sheet as CSV."
            )
        rows.append([_cell_text(value) for value in cells])
    for row, typed in enumerate(_rows(formulas, values_only=False) if formulas is not None else ()):
        for column, cell in enumerate(typed):
            if cell.data_type == "f" and not rows[row][column]:
                where = Grid(name, (), sheet.title).place(row, column)
                raise ValueError(f"{where} holds a formula without a result; write the number itself.")
    return Grid(name, _rectangle(name, rows), sheet.title, separator="", notes=notes)


def _rows(sheet: Any, *, values_only: bool) -> Iterator[Any]:
    sheet.reset_dimensions()  # a file may say that it has a million columns, and each row would get them
    yield from sheet.iter_rows(values_only=values_only)


def _cell_text(value: object) -> str:
    """A cell's value as text; a date is marked as one, for a spreadsheet may have made it of something else."""
    if value is None:
        return ""
    if isinstance(value, datetime.datetime | datetime.date | datetime.time | datetime.timedelta):
        return f"{DATE}{value}"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


# XLSX files that spreadsheets open as they were meant: text stays text, and nothing is run as a formula.

WorkbookRow = Sequence["str | int | float | None"]


def write_workbook(path: str | Path, sheets: Mapping[str, Sequence[WorkbookRow]]) -> None:
    """Write sheets, straight to the path: texts as text cells, numbers as numbers, None as an empty cell.

    A text is typed as text whatever it begins with, so `=1+1` shows itself and 0012 keeps its zeros.

    Args:
        path: The file.
        sheets: The rows of each sheet, by its title.
    """
    book = _new_workbook(path)
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(_title(title))
        for i, row in enumerate(rows, 1):
            for j, value in enumerate(row, 1):
                if value is not None:
                    _put(sheet.cell(i, j), value)
        for column in sheet.columns:
            longest = max((len(str(cell.value)) for cell in column if cell.value is not None), default=0)
            sheet.column_dimensions[column[0].column_letter].width = min(40, max(8, longest + 2))
    book.save(path)


def _new_workbook(path: str | Path) -> Any:
    try:
        from openpyxl import Workbook
    except ImportError as error:
        raise ValueError(
            f"{path}: an XLSX file needs openpyxl: install it with pip install 'qgt[web]', or use CSV."
        ) from error
    return Workbook()


def _put(cell: Any, value: str | int | float) -> None:
    if isinstance(value, str):
        value = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in value)
    cell.value = value
    if isinstance(value, str):
        cell.data_type, cell.number_format, cell.quotePrefix = "s", "@", True


def _title(title: str) -> str:
    """A sheet's title as spreadsheets allow it: at most 31 characters, without []:*?/\\ and apostrophes."""
    return "".join("_" if character in "[]:*?/\\'" else character for character in title)[:31] or "Sheet"
