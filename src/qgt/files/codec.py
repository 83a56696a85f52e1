"""One codec for plain data: frozen dataclasses to what TOML and JSON hold, and back.

Annotations say what a field may be, and so how it looks in a file:

    bool, int, float, str, None, Literal     themselves; a bool is no number, and no number is NaN or infinite
    tuple[X, ...], Sequence[X], list[X]      a list
    Mapping[str, X]                          a table
    Mapping[tuple[...], X]                   a list of rows: the key's entries, then the value
    a dataclass                              a table of its fields; those with defaults may be left out
    a protocol that has kinds                such a table with `kind`, a name of ours or "file:Class" of a plugin
    X | Y                                    the first that fits
    Diverging                                a finite number, or None for any other: JSON has no NaN
    Any, object                              plain data as it is

Other types, such as tensors, may stand beside these in a union, for callers in Python; in files they do not occur.
A field that is None is left out where leaving it out means None; one with the metadata `UNSTORED` is in no file.
"""

import dataclasses
import re
import types
import typing
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple, TypeVar

from qgt.files import plugins, shapes
from qgt.files.keys import check_keys, explained, is_table, joined, shown
from qgt.files.shapes import DIVERGING, SCALARS, Mismatch, Shape

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
    return shapes.encoded(_shape(where, hint, kinds), where, value)


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
        made: Made = shapes.decoded(_shape(where, hint, kinds), where, data)
    except Mismatch as error:
        raise ValueError(str(error)) from error
    return made


def decode_fields(
    where: str, table: Mapping[str, object], cls: type[Made], kinds: Kinds = NO_KINDS, *, known: Mapping[str, object]
) -> Made:
    """A dataclass from a table of some of its fields, others being known."""
    return _make(where, table, cls, kinds, start=known)


def decode_part(
    where: str, table: Mapping[str, object], protocol: type[Made], kinds: Kinds, *, also: Set[str] = frozenset()
) -> Made:
    """A protocol's part from a table with its `kind`; `also` names keys of the table that are read elsewhere."""
    cls = class_of(joined(where, "kind"), table.get("kind"), kinds[protocol])
    also = also | {"kind"}
    made: object = _make(where, {key: value for key, value in table.items() if key not in also}, cls, kinds, also)
    if not isinstance(made, protocol):
        raise ValueError(f"{joined(where, 'kind')}={shown(table['kind'])} is not valid: give a {protocol.__name__}.")
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
    data = {name: _shape(joined(where, name), fields[name].hint, kinds).read(text) for name, text in texts.items()}
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
        return shapes.DIVERGES if DIVERGING in arguments[1:] else _shape_or_none(arguments[0], kinds)
    if hint in SCALARS:
        return SCALARS[hint]
    if origin is typing.Literal:
        return shapes.literal(arguments)
    if origin in (typing.Union, types.UnionType):
        # A number is whole if it can be; a text is one number before it is a list, and is itself if nothing else.
        order: dict[Any, int] = {type(None): -1, float: 1, str: 3, tuple: 2, list: 2, Sequence: 2}
        ranked = sorted(arguments, key=lambda member: order.get(typing.get_origin(member) or member, 0))
        members = _shapes(ranked, kinds)
        return shapes.one_of(members) if members else None
    if origin in (dict, Mapping):
        key, value = arguments or (str, Any)
        return _mapping(key, value, kinds)
    if origin is tuple and arguments and arguments[-1] is not Ellipsis:
        places = _shapes(arguments, kinds)
        return shapes.places_of(places) if len(places) == len(arguments) else None
    if origin in (tuple, list, Sequence):
        inner = _shape_or_none(arguments[0] if arguments else Any, kinds)
        return inner and shapes.list_of(inner, list if origin is list else tuple)
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
    return shapes.table_of(inner) if key is str else shapes.rows_of(_shapes(entries, kinds), inner)


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
        name: encode(joined(where, name), one, field.hint, kinds)
        for name, (one, field) in given.items()
        if not (one is None and field.none)
    }


def _given(value: object) -> dict[str, object]:
    """What the constructor was given, those fields included that no file holds."""
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
    fault: tuple[str, Mismatch] | None = None
    for name, value in data.items():
        try:
            path = joined(where, name)
            given[name] = shapes.decoded(_shape(path, fields[name].hint, kinds), path, value)
        except Mismatch as error:
            given[name], fault = value, fault or (name, error)
    return _constructed(where, cls, given, fault, fields)


def _constructed(
    where: str, cls: type[Made], given: Mapping[str, object], fault: tuple[str, Mismatch] | None, names: Iterable[str]
) -> Made:
    """An instance, unless a field has a fault; then what the class says of it, if anything: it may know the range."""
    try:
        made = cls(**given)
    except Exception as error:
        if fault is not None and not (isinstance(error, ValueError) and str(error).startswith(fault[0])):
            raise ValueError(str(fault[1])) from error
        if not isinstance(error, ValueError | TypeError):
            raise
        raise explained(where, error, names) from error
    if fault is not None:
        raise ValueError(str(fault[1]))
    return made
