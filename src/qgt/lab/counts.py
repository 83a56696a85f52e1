"""Counts as people have them: read from CSV or XLSX in any usual layout, with nothing guessed silently."""

from dataclasses import dataclass
from pathlib import Path

from jaxtyping import Float64
from torch import Tensor

from qgt.lab.samples import Samples
from qgt.model.design import Design


@dataclass(frozen=True, eq=False)
class CountSheet:
    """Counts, one row for each instance and one column for each pool, and how they were found in the file."""

    y: Float64[Tensor, "instances pools"]  # NaN where a count is missing
    names: tuple[str, ...] | None  # of the instances; None where the file has none
    notes: tuple[str, ...]  # what was detected: layout, separator, decimal commas, missing counts


def read_counts(
    source: str | Path, design: Design, samples: Samples | None = None, *, data: bytes | None = None
) -> CountSheet:
    """Read counts; `data` is the file's content where it is not on this disk, as with an upload."""
    raise NotImplementedError
