"""The command `qgt`: thin verbs over the library's public calls, files in and files out.

Every name is reached through `qgt`, which imports torch only when one is used, so help answers at once. What the
library refuses (a ValueError) and what the command line lacks become one line on stderr and exit code 2; any other
exception is a bug and shows its traceback.
"""

import contextlib
import os
import sys
import textwrap
from collections.abc import Sequence

import typer
from typer.main import get_command

from qgt.cli import data, decoding, network, studies  # importing them adds their verbs to the application
from qgt.cli.shell import app

__all__ = ["app", "command", "data", "decoding", "main", "network", "studies"]


def command() -> int:
    """The console script: one verb, with what C libraries print moved to standard error.

    HiGHS now and then prints a line that no option turns off (jump-dev/HiGHS.jl issue 312); it would come between the
    lines of a command's JSON. This process is the command's own, so its standard output may be.
    """
    with contextlib.suppress(OSError):  # a standard output that is closed has nothing to protect
        ours = os.dup(1)
        os.dup2(2, 1)
        sys.stdout = os.fdopen(ours, "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors, buffering=1)
    return main()


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code: 0 done, 1 negative answer, 2 bad input or usage, 130 interrupted."""
    arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    try:
        return get_command(app).main(arguments, prog_name="qgt", standalone_mode=False) or 0
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        hint = f"; see '{context.command_path} --help'" if context else ""
        message = f"{error.format_message().rstrip('.')}{hint}."
    except ValueError as error:
        message = str(error)
    except (RuntimeError, TypeError) as error:  # torch's, for a size beyond the memory or beyond 64 bits
        if not any(words in str(error) for words in ("can't allocate memory", "Overflow when unpacking")):
            raise
        message = "there is not enough memory for a size given: ask for less."
    # shorten makes one line of whatever the message quotes, and cuts a cell as long as a file.
    print(textwrap.shorten(f"qgt: {message}", width=1000, placeholder=" ..."), file=sys.stderr)
    return 2
