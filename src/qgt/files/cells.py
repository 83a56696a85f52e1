"""Text cells of CSV files: what a spreadsheet would run as a formula is written so that it shows it instead.

A spreadsheet takes a cell that begins with = + - @, a tab or a carriage return for a formula. Names are not ours to
trust, so such a cell is written with an apostrophe before it (OWASP, CSV injection). Reading takes it away again. A
name that has apostrophes of its own before such a character gets one more, so that every name comes back as it was.
Cells of numbers are never escaped: -1 is a count.
"""

import re

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
