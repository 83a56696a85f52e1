"""One codec for plain data: frozen dataclasses to what TOML and JSON hold, and back.

Annotations say what a field may be, and so how it looks in a file:

    bool, int, float, str, None, Literal     themselves; a bool is not a number; NaN and infinity are refused
    tuple[X, ...], Sequence[X], list[X]      a list
    Mapping[str, X]                          a table
    Mapping[tuple[...], X]                   a list of rows: the key's entries, then the value
    a dataclass                              a table of its fields; those with defaults may be left out
    a protocol that has kinds                such a table with `kind`, a name of ours or "file:Class" of a plugin
    X | Y                                    the first that fits
    Diverging                                a finite number, or None for any other: JSON has no NaN
    Any, object                              plain data as it is

A union may also contain other types, such as tensors, for callers in Python; files do not contain them.
A field that is None is left out where leaving it out means None; one with the metadata `UNSTORED` is in no file.
"""

import dataclasses
import math
import re
import reprlib
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import partial
from numbers import Integral, Real
from typing import Any, NamedTuple, NoReturn, TypeVar

from qgt.files import plugins

# Checks of plain data with names, one sentence each: the key, the value, and what to write instead.

Choice = TypeVar("Choice")
Table = Mapping[str, object]  # plain data with names
_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother, _SHORT.maxlong = 3, 80, 80, 80


def shown(value: object) -> str:
    """A value for a sentence: as Python writes it, cut where it is long or deep."""
    return _SHORT.repr(value)


def key_path(where: str, key: str) -> str:
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
        raise ValueError(f"{key_path(where, 'kind')}={shown(kind)} is not known: give one of {', '.join(choices)}.")
    return choices[kind]


def check_keys(where: str, table: Table, *, required: Set[str], optional: Set[str] = frozenset()) -> None:
    """Raise a ValueError for a key that is not known, and for one that is missing."""
    known = ", ".join(sorted(required | optional)) or "none"
    for key in table:
        if key not in required | optional:
            raise ValueError(f"{key_path(where, shown(key)[1:-1])} is not a known key: use {known}.")
    for key in sorted(required):
        if key not in table:
            raise ValueError(f"{key_path(where, key)} is missing: add it; the keys are {known}.")


def explained_at(where: str, error: Exception, names: Iterable[str] = ()) -> ValueError:
    """An error with its path in front, joined to the name where the sentence begins with one of `names`."""
    first = re.match(r"\w+", str(error))
    if first and first[0] in set(names):
        return ValueError(key_path(where, str(error)))
    return ValueError(f"{where}: {error}" if where else str(error))


# Shapes: how the values of one type look as plain data, for every type that needs no other knowledge.
#
# Shapes are made of shapes: a list's of its entries', a union's of its members'.


class ShapeMismatch(ValueError):
    """Data that do not fit their type; an error of the class itself comes first, because it may name the range."""


class Shape(NamedTuple):
    """How the values of one type look as plain data; use `encoded_as` and `decoded_as`, which check."""

    words: str  # for "give ..."
    holds: Callable[[Any], bool]  # whether a value is of the type
    fits: Callable[[Any], bool]  # whether plain data may become one
    encode: Callable[[str, Any], object]
    decode: Callable[[str, Any], object]
    read: Callable[[str], object] = lambda text: text  # plain data from a text, or the text where it is none


def encoded_as(shape: Shape, where: str, value: object) -> Any:
    """A value as plain data."""
    return shape.encode(where, value) if shape.holds(value) else refuse(shape, where, value)


def decoded_as(shape: Shape, where: str, data: object) -> Any:
    """The value of plain data."""
    return shape.decode(where, data) if shape.fits(data) else refuse(shape, where, data)


def refuse(shape: Shape, where: str, value: object) -> NoReturn:
    """Say what to give instead."""
    raise ShapeMismatch(f"{where}={shown(value)} is not valid: give {shape.words}.")


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
        # Written out, and not by `encoded_as` and `decoded_as`: the rows of a study are long lists of small numbers.
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
        lambda where, value: {key: encoded_as(inner, key_path(where, key), one) for key, one in value.items()},
        lambda where, data: {key: decoded_as(inner, key_path(where, key), one) for key, one in data.items()},
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
        return {key: _plain(key_path(where, key), value) for key, value in data.items()}
    raise ShapeMismatch(f"{where}={shown(data)} is not plain data: use finite numbers, texts, lists and tables.")


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


# The codec: an annotation's shape is found, and values are encoded and decoded by it.

Made = TypeVar("Made")
Kinds = Mapping[Any, Mapping[str, type]]  # for each protocol, its classes by the names that files give them
NO_KINDS: Kinds = types.MappingProxyType({})
Diverging = typing.Annotated[float, DIVERGING]
UNSTORED: Mapping[str, bool] = types.MappingProxyType({"stored": False})  # of a field with a default: only in memory


def encode(where: str, value: object, hint: Any, kinds: Kinds = NO_KINDS) -> Any:
    """A value as plain data, the inverse of `decode`; `where` names it in errors.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Box:
        ...     sides: tuple[float, ...]
        ...     label: str | None = None
        >>> encode("box", Box((1, 2.5)), Box)
        {'sides': [1.0, 2.5]}
    """
    return encoded_as(_shape(where, hint, kinds), where, value)


def encode_table(where: str, value: object, hint: Any, kinds: Kinds = NO_KINDS) -> dict[str, object]:
    """A dataclass, or a protocol's part, as a table."""
    return dict(encode(where, value, hint, kinds))


def decode(where: str, data: object, hint: type[Made], kinds: Kinds = NO_KINDS) -> Made:
    """The value that plain data describes; whatever is wrong is a ValueError that names the key and the remedy.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Box:
        ...     sides: tuple[float, ...]
        ...     label: str | None = None
        >>> decode("box", {"sides": [1, 2.5]}, Box)
        Box(sides=(1.0, 2.5), label=None)
        >>> decode("box", {"sides": [1, "two"]}, Box)
        Traceback (most recent call last):
        ValueError: box.sides[1]='two' is not valid: give a finite number.
    """
    try:
        made: Made = decoded_as(_shape(where, hint, kinds), where, data)
    except ShapeMismatch as error:
        raise ValueError(str(error)) from error
    return made


def decode_fields(where: str, table: Mapping[str, object], cls: type[Made], *, known: Mapping[str, object]) -> Made:
    """A dataclass from a table of some of its fields, others being known."""
    return _make(where, table, cls, NO_KINDS, start=known)


def decode_part(
    where: str, table: Mapping[str, object], protocol: type[Made], kinds: Kinds, *, also: Set[str] = frozenset()
) -> Made:
    """A protocol's part from a table with its `kind`; `also` names keys of the table that are read elsewhere."""
    cls = class_of(key_path(where, "kind"), table.get("kind"), kinds[protocol])
    also = also | {"kind"}
    made: object = _make(where, {key: value for key, value in table.items() if key not in also}, cls, kinds, also)
    if not isinstance(made, protocol):
        raise ValueError(f"{key_path(where, 'kind')}={shown(table['kind'])} is not valid: give a {protocol.__name__}.")
    return made


def decode_options(where: str, base: Made | type[Made], texts: Mapping[str, str], kinds: Kinds = NO_KINDS) -> Made:
    """A dataclass, or an instance of one, with some of its fields given as texts, like those of a command line.

    Lists are separated by commas; `none` is None; a part is given by its kind.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Settings:
        ...     damping: float = 0.7
        ...     widths: tuple[int, ...] = ()
        >>> decode_options("it", Settings, {"damping": "0.5", "widths": "16,8"})
        Settings(damping=0.5, widths=(16, 8))
        >>> decode_options("it", Settings(0.9), {"damping": "much"})
        Traceback (most recent call last):
        ValueError: it.damping='much' is not valid: give a finite number.
    """
    cls: type[Made] = base if isinstance(base, type) else type(base)
    fields = _fields(cls)
    for name, text in texts.items():
        if name not in fields:
            raise ValueError(f"{name}={text} has no meaning for {where}: it has {', '.join(fields) or 'none'}.")
    data = {name: _shape(key_path(where, name), fields[name].hint, kinds).read(text) for name, text in texts.items()}
    start = {} if isinstance(base, type) else _given(base)
    return _make(where, data, cls, kinds, start=start)


def class_of(where: str, kind: object, names: Mapping[str, type]) -> type:
    """The class that a kind means: one of `names`, or a plugin's."""
    if isinstance(kind, str) and kind in names:
        return names[kind]
    if isinstance(kind, str) and re.fullmatch(r"\w+:[\w.<>]+", kind):
        return plugins.class_named(where, kind)
    raise ValueError(f"{where}={shown(kind)} is not known: give one of {', '.join(names)}, or a plugin's file:Class.")


def field_names(cls: type) -> frozenset[str]:
    """The fields of a dataclass that a file may give."""
    return frozenset(_fields(cls))


class Field(NamedTuple):
    """A field of a dataclass: its type, and what leaving it out means."""

    hint: Any
    required: bool
    none: bool  # leaving it out means None


def _shape(where: str, hint: Any, kinds: Kinds) -> Shape:
    """The shape of a type, or a ValueError where no file can hold it."""
    found = _shape_or_none(hint, kinds)
    if found is None:
        raise ValueError(
            f"{where} is annotated {getattr(hint, '__name__', hint)}, which no file can hold: "
            "use numbers, texts, lists, tables and frozen dataclasses."
        )
    return found


def _shape_or_none(hint: Any, kinds: Kinds) -> Shape | None:
    origin, arguments = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin is typing.Annotated:
        return DIVERGES if DIVERGING in arguments[1:] else _shape_or_none(arguments[0], kinds)
    if hint in SCALARS:
        return SCALARS[hint]
    if origin is typing.Literal:
        return literal(arguments)
    if origin in (typing.Union, types.UnionType):
        # A number is whole if it can be; a text is one number before it is a list, and is itself if nothing else.
        order: dict[Any, int] = {type(None): -1, float: 1, str: 3, tuple: 2, list: 2, Sequence: 2}
        ranked = sorted(arguments, key=lambda member: order.get(typing.get_origin(member) or member, 0))
        members = _shapes(ranked, kinds)
        return one_of(members) if members else None
    if origin in (dict, Mapping):
        key, value = arguments or (str, Any)
        return _mapping(key, value, kinds)
    if origin is tuple and arguments and arguments[-1] is not Ellipsis:
        places = _shapes(arguments, kinds)
        return places_of(places) if len(places) == len(arguments) else None
    if origin in (tuple, list, Sequence):
        inner = _shape_or_none(arguments[0] if arguments else Any, kinds)
        return inner and list_of(inner, list if origin is list else tuple)
    if hint in kinds:
        return _part(hint, kinds)
    return _dataclass(hint, kinds) if isinstance(hint, type) and dataclasses.is_dataclass(hint) else None


def _shapes(hints: Iterable[Any], kinds: Kinds) -> list[Shape]:
    """The shapes of those types that have one."""
    return [shape for hint in hints if (shape := _shape_or_none(hint, kinds)) is not None]


def _mapping(key: Any, value: Any, kinds: Kinds) -> Shape | None:
    inner, entries = _shape_or_none(value, kinds), typing.get_args(key)
    if inner is None or (key is not str and typing.get_origin(key) is not tuple):
        return None
    return table_of(inner) if key is str else rows_of(_shapes(entries, kinds), inner)


def _part(protocol: Any, kinds: Kinds) -> Shape:
    """One of several classes, told apart by `kind`."""
    return Shape(
        "a table with a kind",
        lambda value: isinstance(value, protocol),
        is_table,
        lambda where, value: {"kind": _kind(value, kinds[protocol]), **_fields_of(where, value, kinds)},
        lambda where, data: decode_part(where, data, protocol, kinds),
        lambda text: {"kind": text},
    )


def _kind(part: object, names: Mapping[str, type]) -> str:
    return next((name for name, cls in names.items() if cls is type(part)), plugins.kind_named(type(part)))


def _dataclass(cls: type, kinds: Kinds) -> Shape:
    return Shape(
        "a table",
        lambda value: isinstance(value, cls),
        is_table,
        lambda where, value: _fields_of(where, value, kinds),
        lambda where, data: _make(where, data, cls, kinds),
    )


def _fields(cls: type) -> Mapping[str, Field]:
    """The fields that the constructor takes and files hold."""
    if not dataclasses.is_dataclass(cls):
        raise ValueError(f"{cls.__name__} has no fields that can be read: make it a frozen dataclass.")
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise ValueError(f"{cls.__name__}: its annotations cannot be read ({error}): import what they name.") from error
    found = {}
    for field in dataclasses.fields(cls):
        if field.init and field.metadata.get("stored", True):
            bare = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            optional = type(None) in typing.get_args(hints[field.name])
            found[field.name] = Field(
                hints[field.name], bare and not optional, field.default is None or (bare and optional)
            )
    return types.MappingProxyType(found)


def _fields_of(where: str, value: Any, kinds: Kinds) -> dict[str, object]:
    given = {name: (getattr(value, name), field) for name, field in _fields(type(value)).items()}
    return {
        name: encode(key_path(where, name), one, field.hint, kinds)
        for name, (one, field) in given.items()
        if not (one is None and field.none)
    }


def _given(value: object) -> dict[str, object]:
    """What the constructor was given, including the fields that files do not contain."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}  # type: ignore[arg-type]


def _make(
    where: str,
    data: Mapping[str, object],
    cls: type[Made],
    kinds: Kinds,
    also: Set[str] = frozenset(),
    start: Mapping[str, object] = types.MappingProxyType({}),
) -> Made:
    """An instance from plain data, over the values of another where `start` has them."""
    fields = _fields(cls)
    required = {name for name, field in fields.items() if field.required and name not in start}
    check_keys(where, data, required=required, optional=set(fields) | also)
    missing = {name: None for name, field in fields.items() if field.none and name not in data}
    given: dict[str, object] = {**missing, **start}
    fault: tuple[str, ShapeMismatch] | None = None
    for name, value in data.items():
        try:
            path = key_path(where, name)
            given[name] = decoded_as(_shape(path, fields[name].hint, kinds), path, value)
        except ShapeMismatch as error:
            given[name], fault = value, fault or (name, error)
    return _constructed(where, cls, given, fault, fields)


def _constructed(
    where: str,
    cls: type[Made],
    given: Mapping[str, object],
    fault: tuple[str, ShapeMismatch] | None,
    names: Iterable[str],
) -> Made:
    """An instance; where a field has a fault, an error: that of the class, if it names the field, or the fault."""
    try:
        made = cls(**given)
    except Exception as error:
        if fault is not None and not (isinstance(error, ValueError) and str(error).startswith(fault[0])):
            raise ValueError(str(fault[1])) from error
        if not isinstance(error, ValueError | TypeError):
            raise
        raise explained_at(where, error, names) from error
    if fault is not None:
        raise ValueError(str(fault[1]))
    return made
