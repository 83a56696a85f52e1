"""XLSX files that spreadsheets open as they were meant: text stays text, and nothing is run as a formula."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Sequence["str | int | float | None"]


def write_workbook(path: str | Path, sheets: Mapping[str, Sequence[Row]]) -> None:
    """Write sheets, straight to the path: texts as text cells, numbers as numbers, None as an empty cell.

    A text is typed as text whatever it begins with, so `=1+1` shows itself and 0012 keeps its zeros.

    Args:
        path: The file.
        sheets: The rows of each sheet, by its title.
    """
    book = _workbook(path)
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


def _workbook(path: str | Path) -> Any:
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
