"""Tables in Markdown, and JSON by rows."""

import json

from qgt.files.text import json_by_rows, markdown_table


def test_json_by_rows_is_json():
    data = {"a": [{"b": 1}, {"b": [1, 2]}], "c": [1, 2], "d": [], "e": {"f": None}, "g": "ü\n"}
    text = json_by_rows(data)
    assert json.loads(text) == data
    assert [line for line in text.splitlines() if '"b"' in line] == [' {"b": 1},', ' {"b": [1, 2]}']


def test_a_markdown_table_has_a_line_for_each_row():
    assert markdown_table(["a", "b"], [[1, "x"], [2, ""]]).splitlines() == [
        "| a | b |",
        "| --- | --- |",
        "| 1 | x |",
        "| 2 |  |",
    ]
