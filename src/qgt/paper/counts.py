"""What a reproduction found: counts, from which every figure and table is made again.

`counts.json` is small enough to commit; the database and the networks behind it are not. Its pairs of decoders come
from the outcome of each instance, which only the database has: counts of runs that kept no outcomes have no pairs.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qgt.files.atomic import write_text
from qgt.files.text import json_by_rows
from qgt.paper.plan import Scale
from qgt.study import Comparison, StudyResult

FIGURES = ("vs_pools", "vs_noise")
PARTS = (*FIGURES, "complexity")
Number = int | float


@dataclass(frozen=True)
class Counts:
    """Everything that was counted, how, on what, and where the time went."""

    scale: Scale  # a design's seed is its number, from 0
    measured_on: Mapping[str, Any]
    seconds: Mapping[str, Mapping[str, Mapping[str, Number]]]  # part, what was done, by which decoder
    vs_pools: Sequence[StudyResult]
    vs_noise: Sequence[StudyResult]
    complexity: Sequence[StudyResult]  # the levels, at the table's single point
    pairs: Mapping[str, Sequence[Comparison]]  # by figure

    def to_plain(self) -> dict[str, Any]:
        """The counts as plain data."""
        rows = {name: [one.to_plain() for one in getattr(self, name)] for name in PARTS}
        pairs = {f"pairs_{name}": [one.to_plain() for one in self.pairs[name]] for name in FIGURES}
        plain = {"scale": self.scale.to_plain(), "measured_on": self.measured_on, "seconds": self.seconds}
        return {**plain, **rows, **pairs}

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> "Counts":
        """The counts that `to_plain` described."""
        found = {name: [StudyResult.from_plain(row) for row in data[name]] for name in PARTS}
        pairs = {name: [Comparison.from_plain(row) for row in data[f"pairs_{name}"]] for name in FIGURES}
        return cls(Scale.from_plain(data["scale"]), data["measured_on"], data["seconds"], **found, pairs=pairs)

    @classmethod
    def load(cls, path: str | Path) -> "Counts":
        """Read a file that `save` wrote."""
        try:
            return cls.from_plain(json.loads(Path(path).read_text(encoding="utf-8")))
        except OSError as error:
            raise ValueError(f"{path}: cannot be read ({error.strerror}); run 'qgt reproduce' first.") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path}: does not hold a reproduction's counts; run 'qgt reproduce' again.") from error

    def save(self, path: str | Path) -> None:
        """Write them as JSON, a line for each row so that changes show in a diff."""
        write_text(path, json_by_rows(self.to_plain()))


def across(one: StudyResult) -> Number:
    """Where on its figure's x axis a result stands: the number of pools, or the share of noisy counts."""
    value = next(iter(one.point.values()))
    assert not isinstance(value, str)
    return value
