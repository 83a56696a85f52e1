"""Every call of the library is checked against its annotations while tests run, shapes included.

jaxtyping's import hook decorates each function and dataclass of qgt with `jaxtyping.jaxtyped`. That wrapper binds the
arguments to the signature and checks them twice, which took a fifth of the whole test run. Ours checks the same once.
"""

import dataclasses
from collections.abc import Callable
from functools import wraps
from types import CodeType, FunctionType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import jaxtyping
from beartype import beartype

COMPILED = "qgt.decoders.certified.iteration"  # from its source, by torch, which finds the functions called there

_config = jaxtyping.config
_fresh_sizes = jaxtyping.jaxtyped("context")  # a size that an axis' name stands for holds for one call


def install() -> None:
    """Let the import hook decorate with `checked`; call it before qgt is imported."""
    jaxtyping.jaxtyped = lambda *, typechecker: checked


def checked(given: Any) -> Any:
    """A function, or a dataclass' constructor, that raises where an argument or the result does not fit."""
    if given.__module__ == COMPILED:
        return given
    if isinstance(given, classmethod | staticmethod):
        return type(given)(_checked(given.__func__))
    if isinstance(given, property):
        return property(*(None if one is None else _checked(one) for one in (given.fget, given.fset, given.fdel)))
    if isinstance(given, type):
        # A subclass without fields of its own has the constructor of the class above, which is checked already.
        if dataclasses.is_dataclass(given) and "__init__" in vars(given):
            given.__init__ = _checked(given.__init__)
        return given
    return _checked(given)


class _Checks(NamedTuple):
    """A function with its checks, the annotations that they were made from, and whether these name sizes."""

    careful: Callable[..., Any]
    annotations: dict[str, Any]
    sizes: bool


_inner: dict[CodeType, _Checks] = {}  # of functions inside functions


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    if not getattr(function, "__annotations__", None):
        return function
    careful, _, sizes = _checks(function)

    # Most functions name no sizes, and setting some up takes longer than checking the types.
    return _call_with_sizes(function, careful) if sizes else _call(function, careful)


def _call(function: Callable[..., Any], careful: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _config.jaxtyping_disable:
            return function(*args, **kwargs)
        return careful(*args, **kwargs)

    return call


def _call_with_sizes(function: Callable[..., Any], careful: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _config.jaxtyping_disable:
            return function(*args, **kwargs)
        with _fresh_sizes:
            return careful(*args, **kwargs)

    return call


def _checks(function: Any) -> _Checks:
    """Checks are written once for each function; one inside another is made anew whenever the outer one is called."""
    known = _inner.get(function.__code__)
    if known is not None and _alike(list(known.annotations.values()), list(function.__annotations__.values())):
        return known._replace(careful=_same_checks(known.careful, function))
    hints = {name: _looked_up(hint, function.__globals__) for name, hint in function.__annotations__.items()}
    careful = _careful(function, hints)
    made = _Checks(careful, function.__annotations__, any(map(_names_sizes, hints.values())))
    if "<locals>" in function.__qualname__ and careful is not function:
        _inner[function.__code__] = made
    return made


def _alike(one: Any, other: Any) -> bool:
    """Whether two annotations are the same; jaxtyping makes a new type whenever a shape is written."""
    if all(isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray) for hint in (one, other)):
        return (one.dtype, one.array_type, one.dim_str) == (other.dtype, other.array_type, other.dim_str)
    if get_origin(one) != get_origin(other):
        return False
    parts, others = (hint if isinstance(hint, list) else get_args(hint) for hint in (one, other))
    if not parts and not others:
        return bool(one == other)
    return len(parts) == len(others) and all(map(_alike, parts, others))


def _same_checks(careful: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """The same checks around another function of the same code; beartype's wrapper has what it calls as a default."""
    again = FunctionType(careful.__code__, careful.__globals__, careful.__name__, careful.__defaults__)
    again.__kwdefaults__ = {**careful.__kwdefaults__, "__beartype_func": function}
    return again


def _careful(function: Callable[..., Any], hints: dict[str, Any]) -> Callable[..., Any]:
    """The function with its checks, except of annotations that only type checkers can look up."""
    given = function.__annotations__
    function.__annotations__ = hints
    try:
        return beartype(function)
    finally:
        function.__annotations__ = given


def _names_sizes(hint: Any) -> bool:
    """Whether an annotation has a shape in it, at any depth."""
    if isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray):
        return True
    inside = hint if isinstance(hint, list) else get_args(hint)  # a list: the arguments of a Callable
    return any(map(_names_sizes, inside))


def _looked_up(hint: Any, names: dict[str, Any]) -> Any:
    holder = type("holder", (), {"__annotations__": {"hint": hint}})
    try:
        return get_type_hints(holder, names, include_extras=True)["hint"]
    except NameError:
        return Any
