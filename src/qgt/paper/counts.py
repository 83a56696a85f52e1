"""What a reproduction found: counts, from which every figure and table is made again.

`counts.json` is small enough to commit; the database and the networks behind it are not.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from qgt.files import codec
from qgt.files.atomic import replacing
from qgt.paper.plan import Scale
from qgt.study import Result
from qgt.trust.scoring import Score

FIGURES = ("vs_pools", "vs_noise")
Number = int | float


@dataclass(frozen=True)
class Level:
    """One level of the table of complexity: its networks' calls added up, and each network's reading of A."""

    level: int
    score: Score
    wrong: Sequence[int]  # entries of A read back wrongly, by each design's network
    entries: int  # of A

    @property
    def error_percent(self) -> float:
        """The mean share of wrong entries, the paper's measure."""
        return 100 * sum(self.wrong) / (len(self.wrong) * self.entries)


@dataclass(frozen=True)
class Measured:
    """On what it was measured, and when."""

    devices: Sequence[str]
    cores: int | None
    versions: Mapping[str, str]
    threads: int
    design_seeds: Sequence[int]
    date: str


@dataclass(frozen=True)
class Counts:
    """Everything that was counted, how, on what, and where the time went."""

    scale: Scale  # a design's seed is its number, from 0
    measured_on: Measured
    seconds: Mapping[str, Mapping[str, Mapping[str, Number]]]  # part, what was done, by whom
    vs_pools: Sequence[Result]
    vs_noise: Sequence[Result]
    complexity: Sequence[Level]

    @classmethod
    def load(cls, path: str | Path) -> "Counts":
        """Read a file that `save` wrote."""
        try:
            return codec.decode("counts", json.loads(Path(path).read_text(encoding="utf-8")), cls)
        except OSError as error:
            raise ValueError(f"{path}: cannot be read ({error.strerror}); run 'qgt reproduce' first.") from error
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"{path}: does not hold a reproduction's counts ({error}); run 'qgt reproduce' again."
            ) from error

    def save(self, path: str | Path) -> None:
        """Write them as JSON, a line for each row so that changes show in a diff."""
        plain: dict[str, object] = codec.encode("counts", self, Counts)
        lines = ",\n".join(f"{json.dumps(key)}: {_rows(value)}" for key, value in plain.items())
        with replacing(path) as temporary:
            temporary.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


def across(one: Result) -> Number:
    """Where on its figure's x axis a result stands: the number of pools, or the share of noisy counts."""
    value = next(iter(one.point.values()))
    assert not isinstance(value, str)
    return value


def _rows(value: object) -> str:
    if not isinstance(value, list):
        return json.dumps(value)
    return "[\n" + ",\n".join(f" {json.dumps(row)}" for row in value) + "\n]"
