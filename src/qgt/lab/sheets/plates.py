"""Plates: the names of their wells, as people write them and as robots count them.

A plate has 96 wells (8 rows, 12 columns) or 384 (16 rows, 24 columns). A well is a letter for its row and a number for
its column: A1. People also write A01 and a1; robots also count wells down the columns, from 1.
"""

import re
from collections.abc import Sequence

SHAPES = {96: (8, 12), 384: (16, 24)}  # rows and columns of each kind of plate
POOL_PLATE = 96  # wells of the plates that pools are made on
_WELL = re.compile(r"([A-Pa-p])0*([1-9][0-9]?)")


def shape(size: int) -> tuple[int, int]:
    """The rows and columns of a plate of that many wells.

    Example:
        >>> shape(96)
        (8, 12)
    """
    if size not in SHAPES:
        raise ValueError(f"plate={size!r} is not valid: give 96 or 384 wells.")
    return SHAPES[size]


def row_letter(row: int) -> str:
    """The letter of a row, counted from 0.

    Example:
        >>> row_letter(0), row_letter(15)
        ('A', 'P')
    """
    return chr(ord("A") + row)


def wells(size: int) -> tuple[str, ...]:
    """All wells of a plate, down the columns, as robots count them.

    Example:
        >>> wells(96)[:3], wells(96)[8], wells(384)[-1]
        (('A1', 'B1', 'C1'), 'A2', 'P24')
    """
    rows, columns = shape(size)
    return tuple(f"{row_letter(row)}{column + 1}" for column in range(columns) for row in range(rows))


def well(text: str) -> str | None:
    """A well's usual name; None where the text is not a well.

    Example:
        >>> well("a01"), well("H12"), well("Z9")
        ('A1', 'H12', None)
    """
    found = _WELL.fullmatch(text.strip())
    if found is None or int(found[2]) > 24:
        return None
    return f"{found[1].upper()}{int(found[2])}"


def place_of(name: str) -> tuple[int, int]:
    """The row and the column of a well, counted from 0.

    Example:
        >>> place_of("B12")
        (1, 11)
    """
    return ord(name[0]) - ord("A"), int(name[1:]) - 1


def position(name: str, size: int) -> int:
    """The number of a well, counted down the columns from 1.

    Example:
        >>> position("A2", 96), position("H12", 96)
        (9, 96)
    """
    row, column = place_of(name)
    return column * shape(size)[0] + row + 1


def smallest(names: Sequence[str]) -> int:
    """The smallest plate that has all these wells.

    Example:
        >>> smallest(["A1", "H12"]), smallest(["A1", "A13"])
        (96, 384)
    """
    return 96 if all(row < 8 and column < 12 for row, column in map(place_of, names)) else 384
