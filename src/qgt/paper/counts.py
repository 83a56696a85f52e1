"""What a reproduction found: counts, from which every figure and table is made again.

`counts.json` is small enough to commit; the database and the networks behind it are not. Its pairs of decoders come
from the outcome of each instance, which only the database has: counts of runs that kept no outcomes have no pairs.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from qgt.files import codec
from qgt.files.documents import json_by_rows
from qgt.files.store import write_text
from qgt.paper.plan import Scale
from qgt.study import Comparison, Measured, StudyResult

FIGURES = ("vs_pools", "vs_noise")
PARTS = (*FIGURES, "complexity")
Number = int | float


@dataclass(frozen=True)
class Counts:
    """Everything that was counted, how, on what, and where the time went."""

    scale: Scale  # a design's seed is its number, from 0
    measured_on: Measured
    seconds: Mapping[str, Mapping[str, Mapping[str, Number]]]  # part, what was done, by which decoder
    vs_pools: Sequence[StudyResult]
    vs_noise: Sequence[StudyResult]
    complexity: Sequence[StudyResult]  # the levels, at the table's single point
    pairs_vs_pools: Sequence[Comparison]
    pairs_vs_noise: Sequence[Comparison]

    @property
    def pairs(self) -> dict[str, Sequence[Comparison]]:
        """The pairs of each figure, by its name."""
        return {"vs_pools": self.pairs_vs_pools, "vs_noise": self.pairs_vs_noise}

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
        write_text(path, json_by_rows(codec.encode_table("counts", self, Counts)))


def across(one: StudyResult) -> Number:
    """Where on its figure's x axis a result stands: the number of pools, or the share of noisy counts."""
    value = next(iter(one.point.values()))
    assert not isinstance(value, str)
    return value
