"""What tables share: results as they are read, scores, and how a number is written."""

import json
from pathlib import Path
from typing import Any

import qgt


def read(root: Path, name: str) -> Any:
    """The committed results of that name."""
    return json.loads((root / f"results/{name}.json").read_text(encoding="utf-8"))


def score_of(outcomes: list[Any]) -> qgt.Score:
    """Outcomes of 100 items each, as a score."""
    return qgt.Score.from_plain({"items": 100, "outcomes": outcomes})


def sum_of(scores: list[qgt.Score]) -> qgt.Score:
    """Scores of parts, as the score of the whole."""
    total = scores[0]
    for score in scores[1:]:
        total = total + score
    return total


def with_interval(score: qgt.Score, digits: int = 3) -> str:
    """A success rate and its 95 % interval, as a cell."""
    low, high = score.interval()
    return f"{score.success_rate:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def p_value(value: float) -> str:
    """A p-value, as a cell."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
