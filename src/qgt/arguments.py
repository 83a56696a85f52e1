"""Checks of arguments, one sentence each: the name, the value, and what to pass instead. And generators from words."""

import hashlib
import math
import os
from numbers import Integral, Real
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def whole(name: str, value: object, *, least: int = 0, most: int = 2**31 - 1) -> int:
    """Return `value` as an int of at least `least` and at most `most`, or raise a ValueError that names it."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        number = int(value)
        if least <= number <= most:
            return number
    raise ValueError(f"{name}={value!r} is not valid: give a whole number from {least} to {most}.")


def fraction(name: str, value: object) -> float:
    """Return `value` as a float in [0, 1], or raise a ValueError that names it."""
    number = _real(value)
    if number is None or not 0.0 <= number <= 1.0:
        raise ValueError(f"{name}={value!r} is not valid: give a number from 0 to 1.")
    return number


def positive(name: str, value: object) -> float:
    """Return `value` as a finite float above 0, or raise a ValueError that names it."""
    number = _real(value)
    if number is None or not 0.0 < number < math.inf:
        raise ValueError(f"{name}={value!r} is not valid: give a finite number above 0.")
    return number


def finite(name: str, value: object) -> float:
    """Return `value` as a finite float, or raise a ValueError that names it."""
    number = _real(value)
    if number is None or not math.isfinite(number):
        raise ValueError(f"{name}={value!r} is not valid: give a finite number.")
    return number


def fits_memory(name: str, needed: float) -> None:
    """Raise a ValueError that names something, if it needs more bytes than this machine has memory.

    A size that cannot be is then refused at once, and not after minutes, or by the system.
    """
    have = memory()
    if needed > have:
        raise ValueError(
            f"{name} would need about {needed / 2**30:,.0f} GiB of memory, and this machine has {have / 2**30:,.0f}: "
            "ask for fewer items, pools or transfers."
        )


def memory() -> float:
    """This machine's memory in bytes; infinite if the system does not report it."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):
        return math.inf


def _real(value: object) -> float | None:
    if not isinstance(value, Real) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:  # a whole number too large for any float
        return math.inf


def check_device(device: str, *, here: bool = True, where: str = "here") -> None:
    """Raise a ValueError unless `device` is "cpu", or "cuda" and, if it must be `here`, this process has a GPU."""
    import torch  # here, so that the command line can refuse other arguments without it

    if device not in ("cpu", "cuda") or (here and device == "cuda" and not torch.cuda.is_available()):
        raise ValueError(f"device={device!r} is not available {where}: give cpu or, with a GPU, cuda.")


def generator_of(*words: object, device: str = "cpu") -> "torch.Generator":
    """A generator whose seed is the hash of some words: each purpose has random numbers of its own.

    Example:
        >>> generator_of("plan", 7).initial_seed() == generator_of("plan", 7).initial_seed()
        True
        >>> generator_of("plan", 7).initial_seed() == generator_of("simulate", 7).initial_seed()
        False
    """
    import torch

    digest = hashlib.sha256(" ".join(map(str, words)).encode()).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest[:7], "big"))
