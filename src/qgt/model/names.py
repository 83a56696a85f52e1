"""Names of pools and items: P1, P2, ... and I1, I2, ... unless others are given."""

from collections.abc import Sequence


def numbered(prefix: str, size: int) -> tuple[str, ...]:
    """The usual names."""
    return tuple(f"{prefix}{number}" for number in range(1, size + 1))


def checked(field: str, names: Sequence[str] | None, prefix: str, size: int) -> tuple[str, ...] | None:
    """The names, or None where they are none or the usual ones, which need not be kept."""
    if not names:
        return None
    if len(names) != size or len(set(names)) != size:
        raise ValueError(f"{field} holds {len(set(names))} different names: give {size} different ones.")
    for name in names:
        if not name or name != name.strip() or any(ord(character) < 32 for character in name):
            raise ValueError(f"{field} holds {name!r}: give names without line breaks or blanks at their ends.")
    usual = all(name == f"{prefix}{number}" for number, name in enumerate(names, 1))
    return None if usual else tuple(names)
