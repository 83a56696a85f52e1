"""Checks of plain data with names, one sentence each: the key, the value, and what to write instead."""

import re
import reprlib
from collections.abc import Iterable, Mapping, Set
from typing import Any, TypeVar

Choice = TypeVar("Choice")
Table = Mapping[str, object]  # plain data with names
_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother, _SHORT.maxlong = 3, 80, 80, 80


def shown(value: object) -> str:
    """A value for a sentence: as Python writes it, cut where it is long or deep."""
    return _SHORT.repr(value)


def joined(where: str, key: str) -> str:
    """The path of a key; the key itself at the top of a file."""
    return f"{where}.{key}" if where else key


def is_table(value: object) -> bool:
    """Whether plain data is a table of keys and values."""
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)


def as_table(where: str, value: object) -> dict[str, object]:
    """Return `value` as a dict, or raise a ValueError that names it."""
    if not isinstance(value, Mapping) or not is_table(value):
        raise ValueError(f"{where}={shown(value)} is not valid: give a table of keys and values.")
    return dict(value)


def typed(key: str, value: object, kind: type) -> Any:
    """Return `value` where it is of the kind, or raise a ValueError that names it."""
    if not isinstance(value, kind):
        raise ValueError(f"{key}={shown(value)} is not valid: give a {kind.__name__}.")
    return value


def kind_of(where: str, table: Table, choices: Mapping[str, Choice]) -> Choice:
    """What `choices` has under the table's `kind`, or a ValueError that lists them."""
    kind = table.get("kind")
    if not isinstance(kind, str) or kind not in choices:
        raise ValueError(f"{joined(where, 'kind')}={shown(kind)} is not known: give one of {', '.join(choices)}.")
    return choices[kind]


def check_keys(where: str, table: Table, *, required: Set[str], optional: Set[str] = frozenset()) -> None:
    """Raise a ValueError for a key that nobody knows, and for one that is missing."""
    known = ", ".join(sorted(required | optional)) or "none"
    for key in table:
        if key not in required | optional:
            raise ValueError(f"{joined(where, shown(key)[1:-1])} is not a known key: use {known}.")
    for key in sorted(required):
        if key not in table:
            raise ValueError(f"{joined(where, key)} is missing: add it; the keys are {known}.")


def explained(where: str, error: Exception, names: Iterable[str] = ()) -> ValueError:
    """An error with its path in front, joined to the name where the sentence begins with one of `names`."""
    first = re.match(r"\w+", str(error))
    if first and first[0] in set(names):
        return ValueError(joined(where, str(error)))
    return ValueError(f"{where}: {error}" if where else str(error))
