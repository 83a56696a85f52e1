"""Convex envelopes of cost tables: what is left of a pool's costs when its count may be a fraction. NumPy only.

What a count costs is known at the whole numbers c = 0, 1, ... only, and is infinite where c is impossible. The largest
convex function below those points is made of straight pieces.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from qgt.decoders.results import Floats


class Envelope(NamedTuple):
    """A convex function: it starts at a count, costs something there, and goes on by slopes, each of some length."""

    start: float
    cost: float
    slopes: Floats
    lengths: Floats


def envelope_of(table: Floats) -> Envelope:
    """The convex envelope of a table; one without a possible count costs infinitely much.

    Example:
        >>> envelope_of(np.array([np.inf, 3.0, 1.0, 3.0]))
        Envelope(start=1.0, cost=3.0, slopes=array([-2.,  2.]), lengths=array([1., 1.]))
    """
    counts = np.flatnonzero(np.isfinite(table))
    if not len(counts):
        return Envelope(0.0, np.inf, np.zeros(0), np.zeros(0))
    corners, heights = corners_of(counts, table[counts])
    lengths = np.diff(corners).astype(np.float64)
    return Envelope(float(corners[0]), float(heights[0]), np.diff(heights) / lengths, lengths)


def corners_of(counts: NDArray[np.int64], values: Floats) -> tuple[NDArray[np.int64], Floats]:
    """The corners of the largest convex function below the points."""
    if (np.diff(np.diff(values) / np.diff(counts)) >= 0).all():  # most often
        return counts, values
    points = list(zip(counts.tolist(), values.tolist(), strict=True))
    kept: list[int] = []
    for i, point in enumerate(points):
        while len(kept) > 1 and _above(points[kept[-2]], points[kept[-1]], point):
            kept.pop()
        kept.append(i)
    return counts[kept], values[kept]


def _above(a: tuple[int, float], b: tuple[int, float], c: tuple[int, float]) -> bool:
    """Whether b lies on or above the line from a to c."""
    return (b[1] - a[1]) * (c[0] - a[0]) >= (c[1] - a[1]) * (b[0] - a[0])
