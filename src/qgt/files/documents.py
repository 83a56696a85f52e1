"""Documents that people write and read: TOML or JSON, tables in Markdown, and what notebooks show."""

import json
import tomllib
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from qgt.files.codec import Table, key_path
from qgt.files.store import write_text

if TYPE_CHECKING:
    from pandas import DataFrame

# Text that people read beside the data: tables in Markdown, and JSON whose changes show in a diff.


def markdown_table(header: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    """A table in Markdown, without a line break at its end.

    Example:
        >>> print(markdown_table(["M", "rate"], [[20, "0.5"]]))
        | M | rate |
        | --- | --- |
        | 20 | 0.5 |
    """
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def json_by_rows(data: Mapping[str, object]) -> str:
    """A JSON object with one line for each key, and one for each row of a list of objects.

    Example:
        >>> print(json_by_rows({"seed": 1, "rows": [{"a": 1}, {"a": 2}]}), end="")
        {
        "seed": 1,
        "rows": [
         {"a": 1},
         {"a": 2}
        ]
        }
    """
    lines = ",\n".join(f"{json.dumps(key)}: {_json_value(value)}" for key, value in data.items())
    return f"{{\n{lines}\n}}\n"


def _json_value(value: object) -> str:
    if not (isinstance(value, list) and value and isinstance(value[0], Mapping)):
        return json.dumps(value)
    return "[\n" + ",\n".join(f" {json.dumps(row)}" for row in value) + "\n]"


# Files of plain data that people write and read: TOML, or JSON where the name ends in .json.

Made = TypeVar("Made")


def load(path: str | Path, kind: str, make: Callable[[object], Made], data: bytes | None = None) -> Made:
    """What `make` makes of a file; whatever is wrong is reported with the file's name.

    Args:
        path: The file, or what to call it where `data` is given.
        kind: What the file is, for errors.
        make: Makes something of its tables and lists.
        data: Its content, as with an upload.
    """
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig") if data is None else data.decode("utf-8-sig")
        return make(json.loads(text) if path.suffix == ".json" else tomllib.loads(text))
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror}); check the path.") from error
    except (json.JSONDecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: is not a TOML or JSON {kind} file ({error}).") from error
    except RecursionError as error:
        raise ValueError(f"{path}: is not a {kind} file: it has too many tables or lists in each other.") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def content_in(files: Mapping[str, bytes] | None, name: str) -> bytes | None:
    """The content of one of several files; None where the files are on disk, a ValueError where it is not among them.

    Example:
        >>> content_in({"a.toml": b"x = 1"}, "a.toml"), content_in(None, "a.toml")
        (b'x = 1', None)
    """
    if files is None:
        return None
    if name not in files:
        raise ValueError(f"{name}: is not among the files {', '.join(sorted(files)) or '(none)'}; add it.")
    return files[name]


def save(path: str | Path, data: Table) -> None:
    """Write a table, all or nothing."""
    text = json.dumps(data, indent=1, allow_nan=False) + "\n" if Path(path).suffix == ".json" else to_toml(data)
    write_text(path, text)


def to_toml(data: Table) -> str:
    """A table as TOML, which has no None.

    Example:
        >>> print(to_toml({"prior": {"kind": "bernoulli", "rate": 0.1}}), end="")
        [prior]
        kind = "bernoulli"
        rate = 0.1
    """
    import tomli_w

    _refuse_none("", data)
    return tomli_w.dumps(data)


def _refuse_none(where: str, data: object) -> None:
    if data is None:
        raise ValueError(f"{where} is None, which TOML cannot express: give a name that ends in .json.")
    if isinstance(data, Mapping):
        for key, value in data.items():
            _refuse_none(key_path(where, key), value)
    elif isinstance(data, list | tuple):
        for i, value in enumerate(data):
            _refuse_none(f"{where}[{i}]", value)


# What notebooks show: DataFrames of pandas, which is imported when somebody asks for one, and small tables in HTML.

NO_PANDAS = "DataFrames need the package pandas: install it with pip install 'qgt[pandas]'."


def frame(columns: Mapping[str, Sequence[object]]) -> "DataFrame":
    """A DataFrame of columns of equal length."""
    try:
        import pandas
    except ImportError as error:
        raise ValueError(NO_PANDAS) from error
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
