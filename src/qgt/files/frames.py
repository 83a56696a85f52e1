"""What notebooks show: DataFrames of pandas, which is imported when somebody asks for one, and small tables in HTML."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pandas import DataFrame

EXTRA = "DataFrames need the package pandas: install it with pip install 'qgt[pandas]'."


def frame(columns: Mapping[str, Sequence[object]]) -> "DataFrame":
    """A DataFrame of columns of equal length."""
    try:
        import pandas
    except ImportError as error:
        raise ValueError(EXTRA) from error
    return pandas.DataFrame(dict(columns))


def html_facts(title: str, facts: Mapping[str, object], below: str = "") -> str:
    """A title and a table of names and values, escaped; `below` is HTML that follows as it is.

    Example:
        >>> html_facts("Design", {"pools": 2})
        '<div><b>Design</b><table><tr><th>pools</th><td>2</td></tr></table></div>'
    """
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in facts.items())
    return f"<div><b>{escape(title)}</b><table>{rows}</table>{below}</div>"


def html_table(columns: Mapping[str, Sequence[object]]) -> str:
    """A table with a header, escaped.

    Example:
        >>> html_table({"a": [1]})
        '<table><tr><th>a</th></tr><tr><td>1</td></tr></table>'
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    rows = ("".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in zip(*columns.values(), strict=True))
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"
