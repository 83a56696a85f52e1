"""Numbers as people type them into sheets: decimal points or decimal commas, never both, and nothing else.

A cell that could mean two numbers is refused: `1,000` may be a thousand or one, and a point among decimal commas may
group digits. An empty cell, NA and NaN are a number that is missing.
"""

import math
import re
from collections.abc import Callable, Iterable

MISSING = frozenset({"", "na", "n/a", "nan"})  # whatever their case
NO_NUMBER = "write a finite number, or leave the cell empty if it is missing"  # what `number` says of other words
_PLAIN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_COMMA = re.compile(r"[+-]?(\d+,\d*|,\d+)", re.ASCII)
_GROUPED = re.compile(r"[+-]?\d{1,3}([.,' \u00a0\u202f]\d{3})+([.,]\d*)?", re.ASCII)
Read = Callable[[str], "float | str"]


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
    return any(_COMMA.fullmatch(cell) for cell in cells)


def number(cell: str, *, commas: bool) -> float | str:
    """The number in a cell, NaN where it is missing; or, where it is none, what to write instead.

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


def cell_of(value: int | float | None) -> str:
    """A number as a cell that reads back exactly; empty where it is missing.

    Example:
        >>> cell_of(3.0), cell_of(0.1234567891), cell_of(None), cell_of(math.nan)
        ('3', '0.1234567891', '', '')
    """
    if value is None or math.isnan(value):
        return ""
    return str(int(value)) if float(value).is_integer() else repr(float(value))
