"""Shapes: how the values of one type look as plain data, for every type that a file can hold.

A shape knows its own type only; the `Walk` it is made with goes on to the types inside. `codec` has the rest.
"""

import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any, NamedTuple

from qgt.files.keys import is_table, joined, shown


class Mismatch(ValueError):
    """Data that do not fit their type. What the class itself says of them, if anything, says more."""


class Shape(NamedTuple):
    """How the values of one type look as plain data."""

    words: str  # for "give ..."
    holds: Callable[[Any], bool]  # whether a value is of the type
    fits: Callable[[Any], bool]  # whether plain data may become one
    encode: Callable[[str, Any], object]
    decode: Callable[[str, Any], object]
    read: Callable[[str], object] = lambda text: text  # plain data from a text, or the text where it is none


class Walk(NamedTuple):
    """How to go on to a value inside: with its path, itself and its type."""

    encode: Callable[[str, object, Any], object]
    decode: Callable[[str, object, Any], object]
    read: Callable[[str, Any], object]


def literal(choices: tuple[object, ...]) -> Shape:
    """One of a few values."""
    texts = {str(choice): choice for choice in choices}
    words = " or ".join(f'"{choice}"' if isinstance(choice, str) else str(choice) for choice in choices)
    return _scalar(
        words,
        lambda value: any(type(value) is type(choice) and value == choice for choice in choices),
        lambda value: value,
        lambda text: texts.get(text, text),
    )


def list_of(hint: Any, make: Callable[[list[object]], object], walk: Walk) -> Shape:
    """A list of values of one type, which `make` turns into a tuple where it is to be one."""
    return Shape(
        "a list",
        _is_sequence,
        lambda data: isinstance(data, list | tuple),
        lambda where, value: [walk.encode(f"{where}[{i}]", one, hint) for i, one in enumerate(value)],
        lambda where, data: make([walk.decode(f"{where}[{i}]", one, hint) for i, one in enumerate(data)]),
        lambda text: [walk.read(part, hint) for part in _parts(text)],
    )


def places_of(hints: tuple[Any, ...], walk: Walk) -> Shape:
    """A tuple with a type for each place."""
    return Shape(
        f"a list of {len(hints)}",
        lambda value: _is_sequence(value) and len(value) == len(hints),
        lambda data: isinstance(data, list | tuple) and len(data) == len(hints),
        lambda where, value: [walk.encode(f"{where}[{i}]", value[i], hint) for i, hint in enumerate(hints)],
        lambda where, data: tuple(walk.decode(f"{where}[{i}]", data[i], hint) for i, hint in enumerate(hints)),
        lambda text: [walk.read(part, hint) for part, hint in zip(_parts(text), hints, strict=False)],
    )


def table_of(hint: Any, walk: Walk) -> Shape:
    """A mapping from texts to values of one type."""
    return Shape(
        "a table",
        is_table,
        is_table,
        lambda where, value: {key: walk.encode(joined(where, key), one, hint) for key, one in value.items()},
        lambda where, data: {key: walk.decode(joined(where, key), one, hint) for key, one in data.items()},
    )


def rows_of(key: Any, value: Any, walk: Walk) -> Shape:
    """A mapping whose keys are tuples: sorted rows of the key's entries and the value."""
    row: Any = types.GenericAlias(tuple, (*typing.get_args(key), value))
    rows = list_of(row, _keyed, walk)
    return Shape(
        "a list of rows",
        lambda value: isinstance(value, Mapping),
        rows.fits,
        lambda where, value: rows.encode(where, [(*first, last) for first, last in sorted(value.items())]),
        rows.decode,
    )


def _keyed(rows: list[Any]) -> object:
    return {tuple(first): last for *first, last in rows}


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _scalar(words: str, is_one: Callable[[Any], bool], make: Any, read: Callable[[str], object]) -> Shape:
    return Shape(words, is_one, is_one, lambda where, value: make(value), lambda where, data: make(data), read)


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_finite(value: object) -> bool:
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number too large for any float
        return False


def _number(make: Callable[[str], object], text: str) -> object:
    try:
        return make(text)
    except ValueError:
        return text


def _plain(where: str, data: Any) -> object:
    """Plain data as it is, checked to the bottom."""
    if data is None or isinstance(data, str | bool):
        return data
    if _is_whole(data) or _is_finite(data):
        return int(data) if _is_whole(data) else float(data)
    if isinstance(data, list | tuple):
        return [_plain(f"{where}[{i}]", value) for i, value in enumerate(data)]
    if is_table(data):
        return {key: _plain(joined(where, key), value) for key, value in data.items()}
    raise Mismatch(f"{where}={shown(data)} is not plain data: use finite numbers, texts, lists and tables.")


_ANYTHING = Shape("plain data", lambda value: True, lambda data: True, _plain, _plain)
SCALARS: Mapping[Any, Shape] = {
    bool: _scalar("true or false", lambda v: isinstance(v, bool), bool, {"true": True, "false": False}.get),
    int: _scalar("a whole number", _is_whole, int, partial(_number, int)),
    float: _scalar("a finite number", _is_finite, float, partial(_number, float)),
    str: _scalar("a text", lambda v: isinstance(v, str), str, str),
    type(None): _scalar("", lambda v: v is None, lambda v: None, lambda text: None if text == "none" else text),
    Any: _ANYTHING,
    object: _ANYTHING,
}
