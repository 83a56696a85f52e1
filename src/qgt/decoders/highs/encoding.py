"""A pool's costs as columns of an integer program: NumPy only.

What a count costs, f(c) = -log P(y | c), is known at the whole numbers c = 0, 1, ... only: a table, infinite where c is
impossible. A program holds it as columns u with 0 <= u <= upper and rows that tie them to the count c, such that the
least constant + costs u is f(c):

    pieces         f convex: c = start + sum u, one u per slope; cheap slopes come first, so they fill up in order
                   (and one possible count needs no u)
    fixed charge   all counts of a range cost the same but one, which is cheaper: a binary u to leave that one
    choice         anything else: a binary u per possible count

Where binary columns may be fractions, each of these becomes the convex envelope of f.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from qgt.decoders.envelopes import corners_of, envelope_of
from qgt.decoders.results import Floats

ROUNDING = 1e-12  # relative: costs that differ by less are equal


class Row(NamedTuple):
    """lowest <= c + columns u <= highest, or without c."""

    counts: bool  # whether c is in it
    columns: Floats
    lowest: float
    highest: float


class Columns(NamedTuple):
    """One pool's table in a program."""

    constant: float
    costs: Floats
    upper: Floats
    binary: bool
    rows: tuple[Row, ...]


def encode(costs: Floats) -> Columns:
    """A pool's table, exactly; at least one count must be possible.

    Example:
        >>> encode(np.array([np.inf, 3.0, 1.0, 3.0])).costs  # convex: two slopes from count 1 on
        array([-2.,  2.])
        >>> encode(np.array([3.0, 3.0, 1.0, 3.0])).costs  # the charge for leaving the cheap count
        array([2.])
    """
    counts = np.flatnonzero(np.isfinite(costs))
    values = costs[counts]
    if counts[-1] - counts[0] + 1 == len(counts):
        corners, heights = corners_of(counts, values)
        if (values <= np.interp(counts, corners, heights) + ROUNDING * (1 + np.abs(values))).all():
            return pieces(costs)
        others = np.delete(values, values.argmin())
        if np.ptp(others) <= ROUNDING * (1 + np.abs(others[0])):
            return _fixed_charge(counts, values)
    return _choice(counts, values)


def pieces(costs: Floats) -> Columns:
    """The convex envelope of a pool's table."""
    start, cost, slopes, lengths = envelope_of(costs)
    # Not binary, nor whole: whole x makes whole counts, and those fill the slopes in order.
    return Columns(cost, slopes, lengths, False, (Row(True, -np.ones_like(slopes), start, start),))


def _fixed_charge(counts: NDArray[np.int64], values: Floats) -> Columns:
    at = int(values.argmin())
    cheap, up, down = float(counts[at]), float(counts[-1] - counts[at]), float(counts[at] - counts[0])
    rows = Row(True, np.array([-up]), -np.inf, cheap), Row(True, np.array([down]), cheap, np.inf)
    charge = np.delete(values, at)[:1] - values[at]
    return Columns(float(values[at]), charge, np.ones(1), True, rows)


def _choice(counts: NDArray[np.int64], values: Floats) -> Columns:
    ones, least = np.ones(len(counts)), float(values.min())
    rows = Row(True, -counts.astype(np.float64), 0.0, 0.0), Row(False, ones, 1.0, 1.0)
    return Columns(least, values - least, ones, True, rows)
