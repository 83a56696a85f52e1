"""Rows of cells in CSV and XLSX files: the one reader and the one writer of every table that people open.

**Reading** gives grids of text cells with their places, for error messages, and with what was detected on the way. A
text file may have commas, semicolons or tabs between its cells. A separator fits where every line has it; where several
fit, a tab wins over a semicolon and that over a comma, since a comma may also be a decimal comma. Where the caller
knows words of the header, the separator that makes a cell of one of them is the file's. A first line `sep=;`, as Excel
writes it, says which one it is. An XLSX file gives one grid for each sheet that holds anything. What a spreadsheet has
turned into a date, and a formula without a stored result, are not guessed at: a date is text that no number reader
takes, and such a formula is refused.

Text is UTF-8 or UTF-16 or, where it is neither, Windows-1252, which programs on Windows still write. That is said in
the notes. A byte that Windows and other systems read as different letters is refused.

Sizes are limited before anything is unpacked or parsed: a small XLSX file can unpack to gigabytes, and a cell of XLSX
takes a thousand times as long to read as it takes to count.

**Writing** takes rows of texts, numbers, lists of names, and None for an empty cell. Commas separate cells, and a cell
that holds a comma, a quotation mark or a line end is quoted. Texts that a spreadsheet would run as formulas are
escaped; numbers never are.
"""

import csv
import datetime
import io
import re
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# Text cells of CSV files: what a spreadsheet would run as a formula is written so that it shows it instead.
#
# A spreadsheet takes a cell that begins with = + - @, a tab or a carriage return for a formula. Names are not ours to
# trust, so such a cell is written with an apostrophe before it (OWASP, CSV injection). Reading takes it away again. A
# name that has apostrophes of its own before such a character gets one more, so that every name comes back as it was.
# Cells of numbers are never escaped: -1 is a count.

_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_ESCAPED = re.compile(r"'+[=+\-@\t\r]")


def escape(text: str) -> str:
    """The text as a cell to write.

    Example:
        >>> escape("=1+1"), escape("A1"), escape("'-x")
        ("'=1+1", 'A1', "''-x")
    """
    return f"'{text}" if _FORMULA.match(text) else text


def unescape(cell: str) -> str:
    """The text of a cell that `escape` made; other cells stay as they are.

    Example:
        >>> unescape("'=1+1"), unescape("=1+1"), unescape("'A1")
        ('=1+1', '=1+1', "'A1")
    """
    return cell[1:] if _ESCAPED.match(cell) else cell


# Several names in one cell.

_ODD = re.compile(r"[^\w. ]", re.ASCII)  # what may ask for quotation marks or an escape


def part_of_cell(part: str, delimiter: str) -> str:
    """One of several parts of a cell, in quotation marks where it could not be taken apart from the others otherwise.

    Example:
        >>> print(part_of_cell("Lee, Ann", ";"), part_of_cell("Lee; Ann", ";"), part_of_cell('a"b', " "))
        Lee, Ann "Lee; Ann" "a""b"
    """
    plain = part and part == part.strip() and not {delimiter, '"', "\n", "\r"} & set(part)
    return part if plain else '"' + part.replace('"', '""') + '"'


def names_in_cell(names: Iterable[str]) -> str:
    """Names as one cell to write, with blanks between them; `names_of_cell` gives them back.

    Example:
        >>> print(names_in_cell(["A1", "B 2", "-3"]))
        A1 "B 2" '-3
    """
    names = tuple(names)
    text = " ".join(names)
    if all(names) and text.count(" ") == len(names) - 1 and _ODD.search(text) is None:
        return text  # the usual case, and ten times as fast
    return " ".join(part_of_cell(escape(name), " ") for name in names)


def names_of_cell(cell: str) -> list[str]:
    """The names in a cell; raise a ValueError where its quotation marks are wrong.

    Example:
        >>> names_of_cell("A1  \\"B 2\\" '-3")
        ['A1', 'B 2', '-3']
    """
    words = [word for row in _split(cell, " ") for word in row if word]
    return [unescape(word) for word in words] if "'" in cell else words


# Reading.

LARGEST_GRID_FILE = 2**26  # bytes of a file, and of what is in an XLSX file: 64 MiB
MOST_CELLS = 2_000_000  # of a grid, empty ones included
MOST_XLSX = 250_000  # cells of an XLSX file, whose reading takes some ten microseconds for each
LAST_ROW = 100_000  # of an XLSX sheet: a single cell further down would take as long as all rows above it
SEPARATORS = {"\t": "tabs", ";": "semicolons", ",": "commas"}
DATE = "date "  # the prefix of a date in the cell of a grid
_TAG = re.compile(rb"<(?:[^\s<>/:]+:)?([cf])(?=[\s/>])")  # of a cell, or of a formula, in a sheet's XML
_SEP = re.compile(r"sep=([\t;,])\s*", re.IGNORECASE)
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True)
class Grid:
    """The cells of one sheet: rows of texts without blanks at their ends, all of one length."""

    source: str  # the file, for errors
    rows: tuple[tuple[str, ...], ...]
    sheet: str | None = None  # None for a text file, which has only one
    separator: str = ","  # of a text file; empty for an XLSX file
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


def read_grids(
    source: str | Path, data: bytes | None = None, *, header: Collection[str] = (), limited: bool = True
) -> list[Grid]:
    """The grids of a file; raise a ValueError that says what is wrong with it and what to do.

    Args:
        source: The file, or what to call it where `data` is given.
        data: Its content, as with an upload; None reads the file.
        header: Words of a header, where some are known, whatever their case. They are not required.
        limited: Whether a text file that is larger than sheets of counts are is refused.

    Example:
        >>> read_grids("typed", b'pool;count\\nP1;"1,5"\\n')[0].rows
        (('pool', 'count'), ('P1', '1,5'))
    """
    name = str(source)
    data = _content(Path(source), limited) if data is None else data
    zipped = data[:4] == b"PK\x03\x04"
    if len(data) > LARGEST_GRID_FILE and (limited or zipped):
        raise ValueError(f"{name}: has {len(data):,} bytes; give a file of at most {LARGEST_GRID_FILE:,}.")
    if zipped:
        return _workbook(name, data)
    if data[:4] == b"\xd0\xcf\x11\xe0":
        raise ValueError(f"{name}: is an old or encrypted spreadsheet; save it as .xlsx without a password, or as CSV.")
    text, notes = _decoded(name, data)
    return [_text_grid(name, text, notes, frozenset(word.lower() for word in header), limited)]


def read_grid(source: str | Path, data: bytes | None = None, *, header: Collection[str] = ()) -> Grid:
    """The one grid of a file of any size; an XLSX file with several sheets is refused. See `read_grids`."""
    grid, *more = read_grids(source, data, header=header, limited=False)
    if more:
        raise ValueError(f"{source}: has {1 + len(more)} sheets; keep the one with the table.")
    return grid


def _content(path: Path, limited: bool) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(LARGEST_GRID_FILE + 1) if limited else stream.read()
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
    assert first is not None  # otherwise the text would be UTF-8
    return text, (f"The text is not UTF-8; it was read as Windows-1252, as in {first[0][:30]!r}.",)


def _word_in(line: bytes, place: int, kind: str) -> str:
    """The word around a byte of a line, in one encoding."""
    text = line.decode(kind, errors="replace")
    return re.split(r"[\s;,]", text[:place])[-1] + re.split(r"[\s;,]", text[place:])[0]


def _text_grid(name: str, text: str, said: tuple[str, ...], header: frozenset[str], limited: bool) -> Grid:
    named = _SEP.fullmatch(text.split("\n", 1)[0])
    if named is not None:  # the row stays, empty, so that rows are counted as a spreadsheet does
        text = text[len(text.split("\n", 1)[0]) :]
    separator = named[1] if named is not None else _separator(name, text, header)
    try:
        cells = _split(text, separator)
    except ValueError as error:
        raise ValueError(f"{name}: is not readable as CSV ({error}); check its quotes.") from error
    notes = () if separator == "," else (f"Cells are separated by {SEPARATORS[separator]}.",)
    lengths = tuple(map(len, cells))
    rows = _rectangle(name, cells, limited)
    return Grid(name, rows, separator=separator, notes=(*said, *notes), lengths=lengths[: len(rows)])


def _split(text: str, separator: str) -> list[list[str]]:
    """The cells of a text, line by line: none of an empty line. A ValueError says which row has wrong quotes.

    The module `csv` reads the same, but refuses a cell of more than 131,072 characters unless that limit is lifted for
    the whole process; the cell that lists all items of a design is longer.
    """
    if '"' not in text:
        lines = _LINE_END.split(text)
        return [line.split(separator) if line else [] for line in (lines if lines[-1] else lines[:-1])]
    return list(_quoted_rows(text, separator))


def _quoted_rows(text: str, separator: str) -> Iterator[list[str]]:
    plain, number, at = re.compile(rf"[^{separator}\r\n]*"), 0, 0
    while at < len(text):
        number, row = number + 1, []
        while True:
            if text.startswith('"', at):
                end = _closing_quote(text, at, number)
                row.append(text[at + 1 : end].replace('""', '"'))
                at = end + 1
            elif found := plain.match(text, at):
                row.append(found[0])
                at = found.end()
            if not text.startswith(separator, at):
                break
            at += 1
        ended = _LINE_END.match(text, at)
        if ended is None and at < len(text):
            raise ValueError(f"row {number} has text after a quotation mark that ends a cell")
        blank = row == [""] and text[at - 1 : at] != '"'
        yield [] if blank else row
        at = at if ended is None else ended.end()


def _closing_quote(text: str, start: int, row: int) -> int:
    """Where the quotation mark is that ends a cell; two of them are one of the cell's own."""
    end = text.find('"', start + 1)
    while end >= 0 and text.startswith('"', end + 1):
        end = text.find('"', end + 2)
    if end < 0:
        raise ValueError(f"row {row} has a quotation mark that is not closed")
    return end


def _separator(name: str, text: str, header: frozenset[str]) -> str:
    """The separator of cells: what makes a word of the header a cell, or occurs outside quotes on every line.

    Where several occur on every line, the separator is the one that is rarest in numbers.
    """
    for separator in reversed(SEPARATORS) if header else ():  # commas first: we write them
        if not header.isdisjoint(_words(text, separator)):
            return separator
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise ValueError(f"{name}: is empty; give one row per line, cells separated by commas.")
    lines = [line for line in lines if not line.startswith("#")] or lines
    for separator in SEPARATORS:
        if all(separator in _unquoted(line) for line in lines):
            return separator
    seen = {separator: sum(separator in _unquoted(line) for line in lines) for separator in SEPARATORS}
    return max(seen, key=lambda separator: seen[separator]) if any(seen.values()) else ","


def _words(text: str, separator: str) -> set[str]:
    """The words of the first row, if that is the separator."""
    try:
        return {unescape(cell.strip()).lower() for cell in next(_quoted_rows(text, separator), ())}
    except ValueError:  # its quotes are wrong, or made for another separator
        return set()


def _unquoted(line: str) -> str:
    """A line without its parts in quotation marks."""
    return "".join(line.split('"')[::2])


def _rectangle(name: str, rows: list[list[str]], limited: bool = True) -> tuple[tuple[str, ...], ...]:
    """Cells without blanks at their ends, and without empty rows and columns at the end of the sheet."""
    given = sum(map(len, rows))
    for i, row in enumerate(rows):  # in place: a large design would otherwise be in memory twice
        rows[i] = [cell.strip() for cell in row]
    while rows and not any(rows[-1]):
        rows.pop()
    width = max((max((i + 1 for i, cell in enumerate(row) if cell), default=0) for row in rows), default=0)
    if len(rows) * width > (MOST_CELLS if limited else max(MOST_CELLS, 2 * given)):
        raise ValueError(  # a cell far out makes every other row as long
            f"{name}: has {len(rows):,} rows and {width:,} columns, which are more than {MOST_CELLS:,} cells; give a "
            "smaller sheet."
        )
    return tuple(tuple(row) if len(row) == width else tuple((row + [""] * width)[:width]) for row in rows)


def _workbook(name: str, data: bytes) -> list[Grid]:
    """One grid for each sheet of an XLSX file that holds something and can be seen."""
    load = _openpyxl(name)
    _refuse_bomb(name, data)
    formulas = _has_formulas(name, data)
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


def _has_formulas(name: str, data: bytes) -> bool:
    """Whether some cell has a formula; a file of too many cells is refused before any is read."""
    cells = formulas = 0
    for tag in _tags(name, data):
        cells, formulas = cells + (tag == b"c"), formulas + (tag == b"f")
        if cells > MOST_XLSX:
            raise ValueError(f"{name}: has more than {MOST_XLSX:,} cells; send fewer, or save the sheet as CSV.")
    return formulas > 0


def _tags(name: str, data: bytes) -> Iterator[bytes]:
    """A c for each cell of a workbook, and an f for each formula."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for entry in archive.infolist():
                # A calculation chain lists the cells with formulas once more.
                if entry.filename.endswith(".xml") and not entry.filename.endswith("calcChain.xml"):
                    yield from _tags_in(archive, entry)
    except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError, zlib.error, EOFError) as error:
        raise ValueError(f"{name}: is not a readable XLSX file ({error}); save it again.") from error


def _tags_in(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Iterator[bytes]:
    """Those of one entry, which is unpacked piece by piece."""
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
    """A cell's value as text; a date is marked as one, because a spreadsheet may have made it of something else."""
    if value is None:
        return ""
    if isinstance(value, datetime.datetime | datetime.date | datetime.time | datetime.timedelta):
        return f"{DATE}{value}"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return str(value)


# Writing.

Cell = str | int | float | tuple[str, ...] | None  # a tuple is several names in one cell
CellRow = Sequence[Cell]


def csv_bytes(rows: Iterable[CellRow]) -> bytes:
    """Rows as the content of a CSV file.

    Example:
        >>> print(csv_bytes([("pool", "items", "count"), ("=1", ("A", "B 2"), -1), ("Lee, Ann", (), None)]).decode())
        pool,items,count
        '=1,"A ""B 2\"\"",-1
        "Lee, Ann",,
        <BLANKLINE>
    """
    stream = io.StringIO()
    _write_rows(stream, rows)
    return stream.getvalue().encode()


def write_rows(path: str | Path, rows: Iterable[CellRow]) -> None:
    """Write a CSV file, row by row, straight to the path; see `csv_bytes`."""
    with Path(path).open("w", newline="", encoding="utf-8") as stream:
        _write_rows(stream, rows)


def _write_rows(stream: io.TextIOBase, rows: Iterable[CellRow]) -> None:
    writer = csv.writer(stream, lineterminator="\n")
    for row in rows:
        writer.writerow([_written(cell) for cell in row])


def _written(cell: Cell) -> str | int | float | None:
    if isinstance(cell, tuple):
        return names_in_cell(cell)
    return escape(cell) if isinstance(cell, str) else cell


WorkbookRow = Sequence[str | int | float | None]


def has_workbooks() -> bool:
    """Whether XLSX files can be written here: they need openpyxl."""
    return find_spec("openpyxl") is not None


def workbook_bytes(sheets: Mapping[str, Sequence[WorkbookRow]]) -> bytes:
    """Sheets as the content of an XLSX file: texts as text cells, numbers as numbers, None as an empty cell.

    A text is typed as text whatever it begins with, so `=1+1` shows itself and 0012 keeps its zeros.

    Args:
        sheets: The rows of each sheet, by its title.
    """
    from openpyxl import Workbook

    book = Workbook()
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
    stream = io.BytesIO()
    book.save(stream)
    return stream.getvalue()


def _put(cell: Any, value: str | int | float) -> None:
    if isinstance(value, str):
        value = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in value)
    cell.value = value
    if isinstance(value, str):
        cell.data_type, cell.number_format, cell.quotePrefix = "s", "@", True


def _title(title: str) -> str:
    """A sheet's title as spreadsheets allow it: at most 31 characters, without []:*?/\\ and apostrophes."""
    return "".join("_" if character in "[]:*?/\\'" else character for character in title)[:31] or "Sheet"
