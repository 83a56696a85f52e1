"""Text that people read beside the data: tables in Markdown, and JSON whose changes show in a diff."""

import json
from collections.abc import Mapping, Sequence


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
    lines = ",\n".join(f"{json.dumps(key)}: {_value(value)}" for key, value in data.items())
    return f"{{\n{lines}\n}}\n"


def _value(value: object) -> str:
    if not (isinstance(value, list) and value and isinstance(value[0], Mapping)):
        return json.dumps(value)
    return "[\n" + ",\n".join(f" {json.dumps(row)}" for row in value) + "\n]"
