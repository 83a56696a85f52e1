"""The command `qgt`: thin verbs over the library's public calls, files in and files out.

Every name is reached through `qgt`, which imports torch only when a name is used, so `--help` is fast. Values that the
library refuses (a ValueError), mistakes on the command line and errors of the system become one line on stderr and exit
code 2; any other exception is a bug and shows its traceback.
"""

import atexit
import contextlib
import gc
import os
import sys
from collections.abc import Sequence
from typing import TextIO

BAD, INTERRUPTED = 2, 130  # exit codes
FEW_COLLECTIONS = 200_000  # objects between looks for garbage: what is imported stays, and looking costs a tenth of it


def command() -> int:
    """The console script: one verb, with what C libraries print moved to standard error, and the end of the process.

    HiGHS now and then prints a line that no option turns off (jump-dev/HiGHS.jl issue 312); it would come between the
    lines of a command's JSON. This process is the command's own, so its standard output may be.
    """
    gc.set_threshold(FEW_COLLECTIONS)
    codes: list[int] = []
    if not atexit._ncallbacks():  # what is registered first runs last: after all that others have to put in order
        atexit.register(leave, codes)
    try:
        sys.stdout = _own_output()
        codes.append(_flushed(main()))
    except KeyboardInterrupt:  # while modules are imported, before there is a verb
        codes.append(INTERRUPTED)
    return codes[0]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code: 0 done, 1 negative answer, 2 bad input or usage, 130 interrupted."""
    import typer

    from qgt.cli.shell import one_line
    from qgt.cli.verbs import COMMAND

    arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    try:
        return COMMAND.main(arguments, prog_name="qgt", standalone_mode=False) or 0
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        hint = f"; see '{context.command_path} --help'" if context else ""
        message = f"{error.format_message().rstrip('.')}{hint}."
    except ValueError as error:
        message = str(error)
    except OSError as error:  # a full disk or device, a folder without permission
        where = "" if error.filename is None else f"{error.filename}: "
        message = f"{where}cannot be read or written ({error.strerror}); check the disk, the path and who may use it."
    except (RuntimeError, TypeError) as error:  # torch's, for a size beyond the memory or beyond 64 bits
        if not any(words in str(error) for words in ("can't allocate memory", "Overflow when unpacking")):
            raise
        message = "there is not enough memory for a size given: ask for less."
    print(one_line(f"qgt: {message}"), file=sys.stderr)
    return BAD


def _own_output() -> TextIO:
    """Standard output for this process alone: whatever else writes to it writes to standard error from now on."""
    encoding = getattr(sys.stdout, "encoding", "utf-8")  # there is none where whoever started the command closed it
    try:
        ours = os.dup(1)
    except OSError:
        ours = os.dup(os.open(os.devnull, os.O_WRONLY))  # the first copy takes the place that was free
    with contextlib.suppress(OSError):  # no standard error either
        os.dup2(2, 1)
    # What an encoding lacks is escaped: a name must not make a finished command fail.
    return os.fdopen(ours, "w", encoding=encoding, errors="backslashreplace", buffering=1)


def _flushed(code: int) -> int:
    """The exit code, once everything is written; what cannot be written is dropped, for leaving would try again."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return code or BAD
    return code


def leave(codes: Sequence[int]) -> None:
    """End the process of a command that has ended, without freeing torch's objects one by one.

    That takes a quarter of a second, and the system frees them anyway. Python ends the process as usual after an
    exception, which leaves no code, and with plugins, whose files may wait for Python to close them.
    """
    plugins = sys.modules.get("qgt.files.plugins")
    if not codes or (plugins is not None and plugins.loaded_plugins()):
        return
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):  # there is none, or nobody reads it any more
            stream.flush()
    os._exit(codes[-1])
