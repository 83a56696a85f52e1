"""Numbers as people type them, and tables of numbers with names.

A table is a grid of cells (`qgt.files.grids`). It has a header of column names and a first column of row names, both
optional on reading. Names are recognised because they are not numbers, or because the caller knows them: a first row
that holds a design's pools is a header whatever those are called. Names that are numbers and that nobody knows need the
corner cell that `write_table` puts there (`pool` or `instance`), which says that both are present. Where a file could
be read in two ways it is refused: the error says what to write into the top left cell. Where numbers may be missing, an
empty cell, NA or NaN is one that is, and is read as NaN. Errors name the row and the column as a spreadsheet counts
them: the first line of the file is row 1.
"""

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from qgt.files.grids import Grid, csv_bytes, read_grid, unescape, write_rows

# Numbers as people type them: into the cells of sheets, the options of the command and the fields of the page.
#
# **Sheets** have decimal points or decimal commas, never both, and nothing else. A cell that could mean two numbers is
# refused: `1,000` may be a thousand or one, and a point among decimal commas may group digits. An empty cell, NA and
# NaN are a number that is missing.
#
# **Options and fields** hold one number, a few, or a range, with decimal points or commas and perhaps in per cent:
# `0,02`, `2 %`, `95%,99%`, `95 % 99 %`, `1-3`, `1,5-3 %`. A comma may be a decimal comma or stand between two numbers.
# So a text is read in every way that there is, and ways that make no sense in its place are dropped: a probability of
# 98, three numbers where two are wanted, a range from 5 to 3. One way left is what the person means. Where two are left
# (`1,5`: one and a half, or 1 to 5) the person is asked, with both ways written out.

MISSING = frozenset({"", "na", "n/a", "nan"})  # whatever their case
NO_NUMBER = "write a finite number, or leave the cell empty if it is missing"  # the answer of `number` to other words
NOT_DETECTED = "not detected"  # an infinite cycle threshold, as a cell
_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_COMMA = re.compile(r"[+-]?(\d+,\d*|,\d+)", re.ASCII)
_GROUPED = re.compile(r"[+-]?\d{1,3}([.,' \u00a0\u202f]\d{3})+([.,]\d*)?", re.ASCII)


def is_number(cell: str) -> bool:
    """Whether a cell is meant as a number, or as one that is missing.

    Example:
        >>> is_number("1,5"), is_number("1e3"), is_number("P1"), is_number("")
        (True, True, False, True)
    """
    return cell.lower() in MISSING or any(form.fullmatch(cell) for form in (_PLAIN, _COMMA))


def has_decimal_commas(cells: Iterable[str]) -> bool:
    """Whether some cell is a number with a decimal comma.

    Example:
        >>> has_decimal_commas(["P1", "1,5"]), has_decimal_commas(["1.5"])
        (True, False)
    """
    return any("," in cell and _COMMA.fullmatch(cell) for cell in cells)


def number(cell: str, *, commas: bool) -> float | str:
    """The number in a cell, NaN where it is missing; or, where the cell is not a number, what to write instead.

    Args:
        cell: The text.
        commas: Whether the sheet has decimal commas.

    Example:
        >>> number("1,5", commas=True), number("2", commas=False), number("1,5", commas=False)
        (1.5, 2.0, 'write a decimal point, not a comma')
        >>> number("1,000", commas=True)
        'write 1000 if the mark groups digits, or 1 with fewer decimals if it does not'
    """
    if cell.lower() in MISSING:
        return math.nan
    if _COMMA.fullmatch(cell) and _GROUPED.fullmatch(cell):
        plain = cell.replace(",", "")
        return f"write {plain} if the mark groups digits, or {cell.split(',')[0]} with fewer decimals if it does not"
    if _COMMA.fullmatch(cell):
        return float(cell.replace(",", ".")) if commas else "write a decimal point, not a comma"
    if _PLAIN.fullmatch(cell):
        if commas and "." in cell:
            return "write a decimal comma, as in the other cells, or points everywhere"
        value = float(cell)
        return value if math.isfinite(value) else "write a smaller number"
    if _GROUPED.fullmatch(cell):
        return "write the digits without marks between them"
    if cell.startswith("date "):
        return "the spreadsheet made a date of it: format the cell as a number and type it again"
    if cell.startswith("#"):
        return "the spreadsheet reports an error there: write the number, or leave the cell empty if it is missing"
    return NO_NUMBER


def cell_of(value: int | float | None) -> int | float | None:
    """A number as a cell to write, whole numbers without a decimal point; None where it is missing.

    Example:
        >>> cell_of(3.0), cell_of(0.1234567891), cell_of(None), cell_of(math.nan)
        (3, 0.1234567891, None, None)
    """
    if value is None or math.isnan(value):
        return None
    return int(value) if float(value).is_integer() else float(value)


def report_cell(value: int | float | None) -> int | float | str | None:
    """What a pool reported as a cell to write: as `cell_of`, and in words where nothing was detected.

    Example:
        >>> report_cell(27.3), report_cell(math.inf), report_cell(math.nan)
        (27.3, 'not detected', None)
    """
    return NOT_DETECTED if value == math.inf else cell_of(value)


# --- options and fields ---------------------------------------------------------------------------------------------

_WHOLE = re.compile(r"(?:0|[1-9]\d*)(?!\d)", re.ASCII)  # 0,02 is not a range from 0 to 02
_UNSIGNED = re.compile(rf"(?:{_WHOLE.pattern}(?:[.,]\d+)?|[.,]\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_SIGN = re.compile(r"\s*%")
_LIST = re.compile(r"\s*[,;/]\s*|\s+")  # the separator of several numbers
_RANGE = re.compile(r"\s*(?:-|\u2013|\u2014|to|bis|\.\.)\s*|\s*[,;]\s*|\s+")  # \u2013 and \u2014 are dashes


class WrittenNumber(NamedTuple):
    """A number that somebody wrote, perhaps in per cent."""

    value: float
    percent: bool = False

    @property
    def share(self) -> float:
        """The number itself: 0.02 for 2 %."""
        return self.value / 100 if self.percent else self.value

    @property
    def text(self) -> str:
        """The number as it can be written in one way only."""
        return f"{self.value:g}%" if self.percent else f"{self.value:g}"


WrittenNumbers = tuple[WrittenNumber, ...]


def read_share(name: str, text: str) -> float:
    """A probability or another share of a whole: `0.02`, `0,02` or `2 %`.

    Args:
        name: What a person calls it, for the error.
        text: What was written.

    Example:
        >>> read_share("rate", "0,02"), read_share("rate", "2 %"), read_share("rate", "1,5%")
        (0.02, 0.02, 0.015)
        >>> read_share("rate", "2")
        Traceback (most recent call last):
        ValueError: rate='2' is not valid: it is above 1; write 2% or 0.02 for 2 per cent.
    """
    return read_shares(name, text, wanted={1}, example="0.02 or 2%")[0]


def read_shares(name: str, text: str, *, wanted: Collection[int], example: str = "0.98,0.99 or 98%,99%") -> list[float]:
    """So many probabilities: `0.98,0.99`, `98%,99%`, `98 % 99 %`, `0,98;0,99` or `98/99 %`.

    Args:
        name: What a person calls them, for the error.
        text: What was written; a sign of per cent at the end is that of all of them.
        wanted: How many there may be.
        example: What to write, for the error.

    Example:
        >>> read_shares("errors", "95 % 99 %", wanted={2}), read_shares("errors", "0,95,0,99", wanted={2})
        ([0.95, 0.99], [0.95, 0.99])
    """
    found = [one for one in _readings(text, _LIST, max(wanted)) if len(one) in wanted]
    fine = [one for one in found if all(0 <= number.share <= 1 for number in one)]
    if not fine and found and all(0 <= number.value <= 100 and not number.percent for number in found[0]):
        numbers = found[0]
        signs, plain = (",".join(f"{one.value / by:g}{sign}" for one in numbers) for by, sign in ((1, "%"), (100, "")))
        what = " and ".join(f"{number.value:g}" for number in numbers)
        above = "it is above 1" if len(numbers) == 1 else "not all are below 1"
        raise ValueError(f"{name}={text!r} is not valid: {above}; write {signs} or {plain} for {what} per cent.")
    return [number.share for number in _only(name, text, fine, f"write {example}", _as_list)]


def read_number(name: str, text: str) -> WrittenNumber:
    """One number with a decimal point or a decimal comma, perhaps in per cent: `0.2`, `0,2` or `5 %`.

    Args:
        name: What a person calls it, for the error.
        text: What was written.

    Example:
        >>> read_number("off", "5 %"), read_number("off", "0,2")
        (WrittenNumber(value=5.0, percent=True), WrittenNumber(value=0.2, percent=False))
    """
    return _only(name, text, _readings(text, _LIST, 1), "write a number", _as_list)[0]


def read_amount(name: str, text: str) -> float:
    """One number of something, with a decimal point or a decimal comma, and not in per cent.

    Args:
        name: What a person calls it, for the error.
        text: What was written.

    Example:
        >>> read_amount("sigma", "0,2")
        0.2
    """
    found = read_number(name, text)
    if found.percent:
        raise ValueError(f"{name}={text!r} is not valid: write a number without the sign of per cent, such as 0.2.")
    return found.value


def read_range(name: str, text: str) -> tuple[WrittenNumber, WrittenNumber]:
    """A number or a range, perhaps in per cent: `2`, `1-4`, `1 to 4`, `1,5-3`, `1\u20133 %`.

    Args:
        name: What a person calls it, for the error.
        text: What was written; a sign of per cent at the end is that of both.

    Example:
        >>> [number.text for number in read_range("positives", "1,5 - 3 %")]
        ['1.5%', '3%']
        >>> read_range("positives", "1,5")
        Traceback (most recent call last):
        ValueError: positives='1,5' may mean two things: write 1.5 for one number, or 1-5 for 1 to 5.
    """
    found = _readings(text, _RANGE, 2)
    fine = [one for one in found if one[0].value <= one[-1].value]
    if not fine and len(found) == 1 and len(found[0]) == 2 and found[0][0].value > found[0][1].value:
        first, last = found[0]
        raise ValueError(f"{name}={text!r} is not valid: give the lower end first, {last.text}-{first.text}.")
    chosen = _only(name, text, fine, "give a number or a range, such as 1-4 or 1-3%", _as_range)
    return chosen[0], chosen[-1]


def _readings(text: str, between: re.Pattern[str], most: int) -> list[WrittenNumbers]:
    """Every way to read a text as so many numbers at most, each way once."""
    return list(dict.fromkeys(filter(None, map(_with_signs, _read(text.strip(), between, most)))))


def _read(text: str, between: re.Pattern[str], most: int) -> Iterator[WrittenNumbers]:
    """All ways to split a text into numbers with something between them; few numbers, so that there are few ways."""
    for form in (_UNSIGNED, _WHOLE):  # the comma after a whole number may be decimal, or come before the next number
        match = form.match(text)
        if match is None:
            continue
        rest = text[match.end() :]
        sign = _SIGN.match(rest)
        after = rest[sign.end() :] if sign else rest
        for value in _values(match.group()):
            number = WrittenNumber(value, sign is not None)
            if not after:
                yield (number,)
            elif most > 1 and (gap := between.match(after)) is not None:
                yield from ((number, *others) for others in _read(after[gap.end() :], between, most - 1))


def _values(digits: str) -> list[float]:
    """What a number's digits may mean: with a comma before three digits also a thousand times as much."""
    found = [float(digits.replace(",", "."))]
    if re.fullmatch(r"[1-9]\d{0,2},\d{3}", digits, re.ASCII):
        found.append(float(digits.replace(",", "")))
    return [value for value in found if math.isfinite(value)]


def _with_signs(numbers: WrittenNumbers) -> WrittenNumbers | None:
    """The numbers, all in per cent where the last is; None where only earlier ones are."""
    signs = {number.percent for number in numbers}
    if len(signs) == 1:
        return numbers
    return tuple(number._replace(percent=True) for number in numbers) if numbers[-1].percent else None


def _only(
    name: str, text: str, found: Sequence[WrittenNumbers], remedy: str, words: Callable[[WrittenNumbers], str]
) -> WrittenNumbers:
    """The one way to read a text; otherwise a person has to say it in another way."""
    if len(found) == 1:
        return found[0]
    if not found:
        raise ValueError(f"{name}={text!r} is not valid: {remedy}.")
    ways = ", or ".join(words(one) for one in found)
    many = {2: "two", 3: "three"}.get(len(found), "several")
    raise ValueError(f"{name}={text!r} may mean {many} things: write {ways}.")


def _as_list(numbers: WrittenNumbers) -> str:
    written = ";".join(number.text for number in numbers)
    return f"{written} for {'one number' if len(numbers) == 1 else f'{len(numbers)} numbers'}"


def _as_range(numbers: WrittenNumbers) -> str:
    if len(numbers) == 1:
        return f"{numbers[0].text} for one number"
    first, last = numbers
    return f"{first.text}-{last.text} for {first.text} to {last.text}"


# Tables: read and written.

CORNERS = ("pool", "instance")
IsName = Callable[[str], bool]  # whether a cell is a name, not a number


@dataclass(frozen=True)
class Table:
    """Numbers with the names of their rows and columns (None where the file had none)."""

    values: list[list[float]]
    row_names: tuple[str, ...] | None
    column_names: tuple[str, ...] | None
    first_row: int  # of values[0][0] in the file, counted from 1
    first_column: int

    def place(self, row: int, column: int) -> str:
        """The row and the column of `values[row][column]` in the file."""
        return f"row {row + self.first_row}, column {column + self.first_column}"


def read_table(
    source: str | Path, data: bytes | None = None, *, columns: Sequence[str] = (), missing: bool = False
) -> Table:
    """Read a table; raise a ValueError that says where the file is wrong and what to do.

    Args:
        source: The file, or what to call it where `data` is given.
        data: Its content, as with an upload.
        columns: The names that a header would hold, where they are known. They are not required.
        missing: Whether numbers may be missing: then such cells are NaN.

    Example:
        >>> read_table("typed", b"pool;a;b\\n7;1,5;2\\n").values
        [[1.5, 2.0]]
    """
    return table_of(read_grid(source, data, header={*CORNERS, *columns}), columns=columns, missing=missing)


def table_of(grid: Grid, *, columns: Sequence[str] = (), missing: bool = False) -> Table:
    """The table in a grid; see `read_table`."""
    path, cells, is_name = grid.name, grid.rows, _not_number if missing else _not_finite
    grid.refuse_ragged(range(len(cells)))
    header, named = _layout(path, cells, frozenset(columns), is_name) if cells else (True, True)
    body = cells[header:]
    if not body or len(cells[0]) <= named:
        raise ValueError(f"{path}: there are names but no numbers; add at least one row and one column of numbers.")
    rows = [unescape(row[0]) for row in body] if named else None
    top = [unescape(cell) for cell in cells[0][named:]] if header else None
    _refuse_bad_names(path, "row", rows, offset=header + 1)
    _refuse_bad_names(path, "column", top, offset=named + 1)
    commas = has_decimal_commas(cell for line in body for cell in line[named:])
    return Table(
        values=[
            [_parse(grid, cell, (row, column), missing, commas) for column, cell in enumerate(line[named:], named)]
            for row, line in enumerate(body, header)
        ],
        row_names=None if rows is None else tuple(rows),
        column_names=None if top is None else tuple(top),
        first_row=1 + header,
        first_column=1 + named,
    )


def write_table(
    path: str | Path,
    values: Iterable[Sequence[int | float | None]],
    *,
    row_names: Sequence[str],
    column_names: Sequence[str],
    corner: str,
) -> None:
    """Write a table with both kinds of names, straight to the path.

    Whole numbers are written without a decimal point; NaN is an empty cell, and infinity is "not detected". Names that
    a spreadsheet would take for formulas are escaped; `read_table` gives them back as they were.
    """
    write_rows(path, table_rows(values, row_names=row_names, column_names=column_names, corner=corner))


def table_bytes(
    values: Iterable[Sequence[int | float | None]],
    *,
    row_names: Sequence[str],
    column_names: Sequence[str],
    corner: str,
) -> bytes:
    """A table as the content of a file; see `write_table`."""
    return csv_bytes(table_rows(values, row_names=row_names, column_names=column_names, corner=corner))


def table_rows(
    values: Iterable[Sequence[int | float | None]],
    *,
    row_names: Sequence[str],
    column_names: Sequence[str],
    corner: str,
) -> Iterator[list[str | int | float | None]]:
    """The rows of a table's file."""
    yield [corner, *column_names]
    for name, row in zip(row_names, values, strict=True):
        yield [name, *map(report_cell, row)]


def _layout(path: str, cells: Sequence[Sequence[str]], known: Set[str], is_name: IsName) -> tuple[bool, bool]:
    """Whether a file has a header, and whether its rows have names."""
    corner = cells[0][0]
    below = [row[0] for row in cells[1:]]
    first, wanted = [unescape(cell) for cell in cells[0]], sorted(known)
    only_names, names_after_corner = sorted(first) == wanted, bool(known) and sorted(first[1:]) == wanted
    if corner.lower() in CORNERS and not only_names:
        return True, True
    if _has_words(path, cells[0], known, is_name):
        if known.isdisjoint(first[1:]):
            return True, not corner or any(map(is_name, below))
        return True, names_after_corner or first[0] not in known
    # From here on row 1 has numbers, except perhaps in its first cell.
    if names_after_corner and _not_finite(corner):
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
    if is_name(corner) and below and not any(map(is_name, below)):
        raise ValueError(
            f"{path}: row 1, column 1 holds {corner!r} above numbers; if row 1 and column 1 hold names, write 'pool' "
            "there in a design and 'instance' in other files; if not, name every row or none."
        )
    return False, any(map(is_name, [corner, *below]))


def _has_words(path: str, first: Sequence[str], known: Set[str], is_name: IsName) -> bool:
    """Whether a file's first row has names that are not numbers; the first cell may name the row and is left aside."""
    cells = list(enumerate(first, 1))[1:] or [(1, first[0])]
    words = [(column, cell) for column, cell in cells if is_name(cell)]
    if words and any(not is_name(cell) and cell not in known for _, cell in cells):
        column, odd = words[0]
        raise ValueError(
            f"{path}: row 1, column {column} holds {odd!r} among numbers; write a number there, or, if row 1 "
            "holds names, put 'pool' or 'instance' in the top left cell."
        )
    return bool(words)


def _not_number(cell: str) -> bool:
    return not is_number(cell)


def _not_finite(cell: str) -> bool:
    return cell.lower() in MISSING or not is_number(cell)


def _parse(grid: Grid, cell: str, place: tuple[int, int], missing: bool, commas: bool) -> float:
    if len(cell) < 16 and cell.isascii() and cell.isdigit():  # most cells, and ten times as fast
        return float(cell)
    value = number(cell, commas=commas)
    if isinstance(value, float) and (missing or not math.isnan(value)):
        return value
    hint = value if isinstance(value, str) and (missing or value != NO_NUMBER) else "write a finite number"
    raise ValueError(f"{grid.place(*place)} holds {cell!r}; {hint}.")


def _refuse_bad_names(path: str, kind: str, names: Sequence[str] | None, offset: int) -> None:
    seen: dict[str, int] = {}
    for position, name in enumerate(names or (), offset):
        if not name:
            raise ValueError(f"{path}: {kind} {position} has no name; name every {kind} or none.")
        if name in seen:
            raise ValueError(
                f"{path}: {kind}s {seen[name]} and {position} are both called {name!r}; give each its own name."
            )
        seen[name] = position
