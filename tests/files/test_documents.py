"""Files of plain data: written whole, read with what is wrong by name."""

import json
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import qgt
from qgt.files import documents
from qgt.files.documents import json_by_rows, markdown_table

text = st.text(st.characters(exclude_categories=["Cs"]))
plain = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(text, plain, max_size=4))
def test_every_table_goes_through_toml(data):
    assert tomllib.loads(documents.to_toml(data)) == data


@pytest.mark.parametrize("name", ["it.toml", "it.json"])
def test_saved_data_is_loaded(tmp_path, name):
    data = {"a": {"b": [1, 2.5, "é"], "c": {"d": True}}}
    documents.save(tmp_path / name, data)
    assert documents.load(tmp_path / name, "test", lambda found: found) == data
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_none_has_no_word_in_toml(tmp_path):
    with pytest.raises(ValueError, match=r"^a\.b\[1\] is None, which TOML cannot express: give a name that ends in"):
        documents.save(tmp_path / "it.toml", {"a": {"b": [1, None]}})
    assert not list(tmp_path.iterdir())
    documents.save(tmp_path / "it.json", {"a": None})
    assert json.loads((tmp_path / "it.json").read_text()) == {"a": None}


DEEP = 100_000
NESTED = {
    "deep.json": "[" * DEEP + "]" * DEEP,
    "tables.json": '{"prior":' * DEEP + "1" + "}" * DEEP,
    "deep.toml": "a = " + "[" * DEEP + "]" * DEEP,
    "parts.json": '{"design": {"matrix": ["1"]}, "prior": {"kind": "bernoulli", "rate": '
    + "[" * 900
    + "]" * 900
    + "}}",
}


@pytest.mark.parametrize("name", NESTED)
def test_what_nests_too_deeply_is_refused_in_one_line(tmp_path, name):
    (tmp_path / name).write_text(NESTED[name])
    for load in (qgt.Problem.load, qgt.Study.load):
        with pytest.raises(ValueError) as caught:
            load(tmp_path / name)
        assert str(caught.value).startswith(str(tmp_path / name))
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 500


# Tables in Markdown, and JSON by rows.


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
