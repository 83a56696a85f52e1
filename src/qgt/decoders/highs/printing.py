"""What C libraries print past Python, out of the way of what we print.

HiGHS now and then prints a line that no option turns off (jump-dev/HiGHS.jl issue 312); on standard output it would
come between the lines of a command's JSON.
"""

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_inside: list[int] = []  # for each thread inside, the descriptor that standard output had before the first came


@contextmanager
def on_stderr() -> Iterator[None]:
    """Within this block the process's standard output goes to its standard error.

    Example:
        >>> with on_stderr():
        ...     _ = os.write(1, b"")
    """
    with _lock:
        if not _inside:
            _flush()
        saved = _inside[0] if _inside else os.dup(1)
        _inside.append(saved)
        os.dup2(2, 1)
    try:
        yield
    finally:
        with _lock:
            _flush()
            _inside.pop()
            if not _inside:  # the last one out restores it
                os.dup2(saved, 1)
                os.close(saved)


def _flush() -> None:
    """Have C write what it holds back, before its output changes its meaning."""
    if os.name == "posix":
        ctypes.CDLL(None).fflush(None)
