"""Shapes: how the values of one type look as plain data, for every type that needs no other knowledge.

Shapes are made of shapes: a list's of its entries', a union's of its members'. `codec` finds an annotation's shape.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from numbers import Integral, Real
from typing import Any, NamedTuple, NoReturn

from qgt.files.keys import is_table, joined, shown


class Mismatch(ValueError):
    """Data that do not fit their type. What the class itself says of them, if anything, says more."""


class Shape(NamedTuple):
    """How the values of one type look as plain data; use `encoded` and `decoded`, which check."""

    words: str  # for "give ..."
    holds: Callable[[Any], bool]  # whether a value is of the type
    fits: Callable[[Any], bool]  # whether plain data may become one
    encode: Callable[[str, Any], object]
    decode: Callable[[str, Any], object]
    read: Callable[[str], object] = lambda text: text  # plain data from a text, or the text where it is none


def encoded(shape: Shape, where: str, value: object) -> Any:
    """A value as plain data."""
    return shape.encode(where, value) if shape.holds(value) else refuse(shape, where, value)


def decoded(shape: Shape, where: str, data: object) -> Any:
    """The value of plain data."""
    return shape.decode(where, data) if shape.fits(data) else refuse(shape, where, data)


def refuse(shape: Shape, where: str, value: object) -> NoReturn:
    """Say what to give instead."""
    raise Mismatch(f"{where}={shown(value)} is not valid: give {shape.words}.")


def one_of(members: Sequence[Shape]) -> Shape:
    """The first shape that fits."""
    if len(members) == 1:
        return members[0]
    return Shape(
        " or ".join(dict.fromkeys(member.words for member in members if member.words)),
        lambda value: any(member.holds(value) for member in members),
        lambda data: any(member.fits(data) for member in members),
        lambda where, value: next(member for member in members if member.holds(value)).encode(where, value),
        lambda where, data: next(member for member in members if member.fits(data)).decode(where, data),
        lambda text: next((data for member in members if member.fits(data := member.read(text))), text),
    )


def list_of(inner: Shape, make: Callable[[list[object]], object]) -> Shape:
    """A list of values of one type; `make` turns it into a tuple where it is to be one."""
    return Shape(
        "a list",
        _is_sequence,
        lambda data: isinstance(data, list | tuple),
        # Written out, and not by `encoded` and `decoded`: the rows of a study are long lists of small numbers.
        lambda where, value: [
            inner.encode(f"{where}[{i}]", one) if inner.holds(one) else refuse(inner, f"{where}[{i}]", one)
            for i, one in enumerate(value)
        ],
        lambda where, data: make(
            [
                inner.decode(f"{where}[{i}]", one) if inner.fits(one) else refuse(inner, f"{where}[{i}]", one)
                for i, one in enumerate(data)
            ]
        ),
        lambda text: [inner.read(part) for part in _parts(text)],
    )


def places_of(places: Sequence[Shape]) -> Shape:
    """A tuple with a type for each place."""
    return Shape(
        f"a list of {len(places)}",
        lambda value: (isinstance(value, tuple) or _is_sequence(value)) and len(value) == len(places),
        lambda data: isinstance(data, list | tuple) and len(data) == len(places),
        lambda where, value: [
            place.encode(f"{where}[{i}]", one) if place.holds(one) else refuse(place, f"{where}[{i}]", one)
            for i, (place, one) in enumerate(zip(places, value, strict=True))
        ],
        lambda where, data: tuple(
            [
                place.decode(f"{where}[{i}]", one) if place.fits(one) else refuse(place, f"{where}[{i}]", one)
                for i, (place, one) in enumerate(zip(places, data, strict=True))
            ]
        ),
        lambda text: [place.read(part) for place, part in zip(places, _parts(text), strict=False)],
    )


def table_of(inner: Shape) -> Shape:
    """A mapping from texts to values of one type."""
    return Shape(
        "a table",
        is_table,
        is_table,
        lambda where, value: {key: encoded(inner, joined(where, key), one) for key, one in value.items()},
        lambda where, data: {key: decoded(inner, joined(where, key), one) for key, one in data.items()},
    )


def rows_of(key: Sequence[Shape], value: Shape) -> Shape:
    """A mapping whose keys are tuples: sorted rows of the key's entries and the value."""
    rows = list_of(places_of([*key, value]), lambda found: {row[:-1]: row[-1] for row in found})  # type: ignore[index]
    return Shape(
        "a list of rows",
        lambda value: isinstance(value, Mapping),
        rows.fits,
        lambda where, value: rows.encode(where, [(*first, last) for first, last in sorted(value.items())]),
        rows.decode,
    )


def literal(choices: Sequence[object]) -> Shape:
    """One of a few values."""
    texts = {str(choice): choice for choice in choices}
    return _scalar(
        " or ".join(f'"{choice}"' if isinstance(choice, str) else str(choice) for choice in choices),
        lambda value: any(type(value) is type(choice) and value == choice for choice in choices),
        lambda value: value,
        lambda text: texts.get(text, text),
    )


def _scalar(words: str, is_one: Callable[[Any], bool], make: Any, read: Callable[[str], object]) -> Shape:
    return Shape(words, is_one, is_one, lambda where, value: make(value), lambda where, data: make(data), read)


def _is_sequence(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_finite(value: object) -> bool:
    try:
        return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:  # a whole number too large for any float
        return False


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


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


def _finite_or_none(value: Any) -> float | None:
    return float(value) if _is_finite(value) else None


_WORDS = {"true": True, "false": False}
DIVERGING = "None in files where it is not finite"  # marks the floats of DIVERGES
DIVERGES = Shape(
    "a finite number or null",
    lambda value: isinstance(value, Real) and not isinstance(value, bool),
    lambda data: data is None or _is_finite(data),
    lambda where, value: _finite_or_none(value),
    lambda where, data: math.nan if data is None else float(data),
)
_ANYTHING = Shape("plain data", lambda value: True, lambda data: True, _plain, _plain)
SCALARS: Mapping[Any, Shape] = {
    bool: _scalar("true or false", lambda v: isinstance(v, bool), bool, lambda text: _WORDS.get(text.lower(), text)),
    int: _scalar("a whole number", lambda v: type(v) is int or _is_whole(v), int, partial(_number, int)),
    float: _scalar("a finite number", _is_finite, float, partial(_number, float)),
    str: _scalar("a text", lambda v: isinstance(v, str), str, str),
    type(None): _scalar("", lambda v: v is None, lambda v: None, lambda text: None if text.lower() == "none" else text),
    Any: _ANYTHING,
    object: _ANYTHING,
}
