"""What docs/stability.md promises is there: no promised name, word or code is missing."""

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from promises import STORED, promised  # noqa: E402


def missing(stored: dict[str, list[str]], now: dict[str, list[str]]) -> list[str]:
    """What was promised and is not there."""
    return [f"{kind}: {name}" for kind, names in stored.items() for name in names if name not in now.get(kind, [])]


def test_nothing_that_was_promised_is_missing():
    stored = json.loads(STORED.read_text("utf-8"))
    assert missing(stored, promised()) == [], "a promise of docs/stability.md: only 2.0 may break it"


def test_the_words_of_the_page_are_those_of_the_code():
    page = (HERE.parents[1] / "docs/stability.md").read_text("utf-8")
    stored = json.loads(STORED.read_text("utf-8"))
    words = [
        name.split(" = ")[0] for kind in ("verdicts", "calls", "statuses", "states of a job") for name in stored[kind]
    ]
    assert [word for word in words if f"`{word}`" not in page] == []


def test_a_missing_name_is_found():
    assert missing({"calls": ["none", "retest"], "verdicts": ["sure"]}, {"calls": ["retest"]}) == [
        "calls: none",
        "verdicts: sure",
    ]
