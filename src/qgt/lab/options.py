"""A decoder's options from texts, as a command line or a form gives them: `damping=0.5` for any field of its class."""

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any

from qgt.decoders.contract import Decoder


def parse_settings(decoder: str, settings: Sequence[str]) -> dict[str, str]:
    """Names and texts from `name=value` or `decoder.name=value`.

    Example:
        >>> parse_settings("gamp", ["damping=0.5", "gamp.iterations=50"])
        {'damping': '0.5', 'iterations': '50'}
    """
    found: dict[str, str] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        owner, _, name = key.strip().rpartition(".")
        if not equals or not name:
            raise ValueError(f"set={setting!r} is not valid: give name=value, such as damping=0.5.")
        if owner not in ("", decoder):
            raise ValueError(f"set={setting!r} is for {owner}, but the decoder is {decoder}: choose one.")
        if name in found:
            raise ValueError(f"set={setting!r} gives {name} twice: give it once.")
        found[name] = text.strip()
    return found


def with_options(name: str, kind: type[Decoder], texts: Mapping[str, str]) -> Decoder:
    """A decoder with some of its fields given as texts; `name` is what errors call it.

    Example:
        >>> import qgt
        >>> with_options("gamp", qgt.GAMP, {"damping": "0.5"}).damping
        0.5
    """
    hints = typing.get_type_hints(kind)
    fields = {field.name: hints[field.name] for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    for option in texts:
        if option not in fields:
            known = f"it has {', '.join(fields)}" if fields else "it has none"
            raise ValueError(f"{option}={texts[option]} has no meaning for {name}: {known}.")
    return kind(**{option: _value(option, text, fields[option]) for option, text in texts.items()})


def _value(option: str, text: str, hint: Any) -> Any:
    """A text as the first of a field's types that it fits: none, true and false, a whole number, a number."""
    union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    allowed = typing.get_args(hint) if union else (hint,)
    if type(None) in allowed and text.lower() == "none":
        return None
    if bool in allowed and text.lower() in ("true", "false"):
        return text.lower() == "true"
    for number in (int, float):
        if number in allowed:
            try:
                return number(text)
            except ValueError:
                continue
    words = {bool: "true or false", int: "a whole number", float: "a number", type(None): "none"}
    remedy = " or ".join(words[one] for one in words if one in allowed) or "it in Python: no text can say it"
    raise ValueError(f"{option}={text!r} is not valid: give {remedy}.")
