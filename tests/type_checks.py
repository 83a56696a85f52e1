"""Every call of the library is checked against its annotations while tests run, shapes included.

jaxtyping's import hook decorates each function and dataclass of qgt with `jaxtyping.jaxtyped`. That wrapper binds the
arguments to the signature and checks them twice, which took a fifth of the whole test run. Ours checks the same once.
"""

import dataclasses
from collections.abc import Callable
from functools import wraps
from typing import Any, get_args, get_type_hints

import jaxtyping
from beartype import beartype

_config = jaxtyping.config
_fresh_sizes = jaxtyping.jaxtyped("context")  # a size that an axis' name stands for holds for one call


def install() -> None:
    """Let the import hook decorate with `checked`; call it before qgt is imported."""
    jaxtyping.jaxtyped = lambda *, typechecker: checked


def checked(given: Any) -> Any:
    """A function, or a dataclass' constructor, that raises where an argument or the result does not fit."""
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


def _checked(function: Callable[..., Any]) -> Callable[..., Any]:
    if not getattr(function, "__annotations__", None):
        return function
    hints = {name: _looked_up(hint, function.__globals__) for name, hint in function.__annotations__.items()}
    careful = _careful(function, hints)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _config.jaxtyping_disable:
            return function(*args, **kwargs)
        return careful(*args, **kwargs)

    @wraps(function)
    def call_with_sizes(*args: Any, **kwargs: Any) -> Any:
        if _config.jaxtyping_disable:
            return function(*args, **kwargs)
        with _fresh_sizes:
            return careful(*args, **kwargs)

    # Most functions name no sizes, and setting some up takes longer than checking the types.
    return call_with_sizes if any(map(_names_sizes, hints.values())) else call


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
