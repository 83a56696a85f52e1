"""Plain data from files people write: tables of keys and values, and what is wrong with them by name."""

import json
import tomllib
from collections.abc import Callable, Mapping, Set
from pathlib import Path
from typing import Any, TypeVar

Made = TypeVar("Made")


def as_table(where: str, value: object) -> dict[str, Any]:
    """Return `value` as a dict, or raise a ValueError that names it."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{where}={value!r} is not valid: give a table of keys and values.")
    return dict(value)


def typed(key: str, value: object, kind: type) -> Any:
    """Return `value` where it is of the kind, or raise a ValueError that names it."""
    if not isinstance(value, kind):
        raise ValueError(f"{key}={value!r} is not valid: give a {kind.__name__}.")
    return value


def kind_of(where: str, spec: Mapping[str, Any], kinds: Mapping[str, Any]) -> Any:
    """What `kinds` has under the table's `kind`, or a ValueError that lists them."""
    kind = spec.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        raise ValueError(f"{where}.kind={kind!r} is not known: give one of {', '.join(kinds)}.")
    return kinds[kind]


def check_keys(where: str, spec: Mapping[str, Any], *, required: Set[str], optional: Set[str] = frozenset()) -> None:
    """Raise a ValueError for a key that nobody knows, and for one that is missing."""
    for key in spec:
        if key not in required | optional:
            raise ValueError(f"{where}.{key} is not a known key: use {', '.join(sorted(required | optional))}.")
    for key in sorted(required):
        if key not in spec:
            raise ValueError(f"{where}.{key} is missing: add it.")


def load(path: str | Path, kind: str, make: Callable[[Any], Made]) -> Made:
    """What `make` makes of a TOML or JSON file; whatever is wrong is told with the file's name."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
        return make(json.loads(text) if path.suffix == ".json" else tomllib.loads(text))
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror}); check the path.") from error
    except (json.JSONDecodeError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: is not a TOML or JSON {kind} file ({error}).") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
