"""What every verb of the command needs: the application, common options, and how it writes and speaks."""

import errno
import json
import os
import stat
import sys
import textwrap
import threading
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import qgt
from qgt.arguments import check_device, generator_of
from qgt.files import tables
from qgt.files.store import replacing
from qgt.files.tables import read_amount, read_share

if TYPE_CHECKING:
    import rich.progress
    import torch

    from qgt.lab.answers.accounts import Account
    from qgt.lab.sheets.counts import CountSheet
    from qgt.lab.sheets.samples import Samples


app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help answers in half the time, and its examples can be copied
    context_settings={"max_content_width": 100},
    help="Quantitative group testing: design pools, decode counts, and know when to trust the answer.",
    epilog="\b\nExit codes:\n  0    done\n  1    done, and the answer is negative\n"
    "  2    bad input or usage: one line on stderr says what and where\n  130  interrupted",
)

FIRST_LINE, LINE_EVERY = 10.0, 30.0  # seconds before and between lines about long work, where there is no terminal

Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The CSV file to write.")]
Seed = Annotated[int, typer.Option(metavar="S", min=0, max=2**32 - 1, help="Equal seeds give equal files.")]
Plugins = Annotated[
    list[Path] | None,
    typer.Option("--plugin", metavar="FILE", help="A Python file with parts of your own; repeatable."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]


def share_option(name: str, metavar: str, words: str) -> Any:
    """An option that takes a probability or another share, 0.02, 0,02 or 2%; `words` are its help."""
    return typer.Option(metavar=metavar, parser=partial(_parsed, read_share, name), help=words)


def amount_option(name: str, metavar: str, words: str) -> Any:
    """An option that takes a number, with a decimal point or a decimal comma; `words` are its help."""
    return typer.Option(metavar=metavar, parser=partial(_parsed, read_amount, name), help=words)


def _parsed(read: Callable[[str, str], float], name: str, text: str | float) -> float:
    try:
        return read(name, str(text))
    except ValueError as error:  # a plain ValueError would lose its words on the way through the option
        raise typer.BadParameter(str(error)) from error


@app.callback(invoke_without_command=True)
def _before_verb(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        typer.echo(f"qgt {qgt.__version__}")
        raise typer.Exit


def load_plugins(paths: Sequence[Path] | None) -> None:
    """Run the user's own files, so that problems and studies may name what is in them."""
    for path in paths or ():
        qgt.load_plugin(path)


def own_generator(verb: str, seed: int, device: str) -> "torch.Generator":
    """A stream of each verb's own: from its design's seed, x would repeat the random numbers that made the design."""
    return generator_of("qgt", verb, seed, device=chosen_device(device))


def chosen_device(device: str) -> str:
    """The device to use: the one given, or what `auto` finds."""
    import torch

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    check_device(device)
    return device


# What 'qgt plan' writes beside worklists: named here too, so that a mistyped path need not wait for what makes them.
PLAN_FILES = (
    "README.txt", "candidates.svg", "counts.csv", "counts.xlsx", "design.csv", "plan.json", "pooling_sheet.html",
    "problem.toml", "samples.csv",
)  # fmt: skip


def check_files(outputs: Sequence[Path | None], inputs: Sequence[Path | None] = ()) -> None:
    """Refuse, before any work, an input that is not there and an output that must not be written.

    Only what the file system knows is asked, so that a mistyped name need not wait for torch.

    Args:
        outputs: Files to write; None stands for one that was not asked for.
        inputs: Files to read, which are not written over, nor are the files that they refer to.
    """
    reads = [path for path in inputs if path is not None]
    for path in reads:
        if error := _unreadable(path):
            raise ValueError(f"{path}: cannot be read ({error}); check the path.")
    check_outputs([path for path in outputs if path is not None], reads)


def check_outputs(outputs: Sequence[Path], inputs: Sequence[Path] = ()) -> None:
    """Refuse, before any work, to write over what is not a file, or over a file that this command also needs."""
    for number, path in enumerate(outputs):
        try:
            file = stat.S_ISREG(path.stat().st_mode)
        except OSError as error:
            file = error.errno in (errno.ENOENT, errno.ENOTDIR)  # not there yet; what is above it comes next
            if not file:
                raise ValueError(f"{path}: cannot be written ({error.strerror}); give another path.") from error
        if not file:  # spares /dev/null too: the rename would replace it
            raise ValueError(f"{path}: cannot be written (it is not a file); give the name of a file.")
        if os.path.exists(path.parent) and not os.path.isdir(path.parent):
            raise ValueError(f"{path}: cannot be written ({path.parent} is not a folder); give another path.")
        if any(_same(path, other) for other in [*inputs, *outputs[:number]]):
            raise ValueError(f"{path}: is named twice in this command; give each file its own name.")
        for source in inputs:
            if any(_same(path, other) for other in _behind(source)):
                raise ValueError(f"{path}: is part of {source}, which this command reads; give another path.")


def check_new(path: Path, force: bool) -> None:
    """Refuse to replace a file, unless that is wanted."""
    if not force and path.exists():
        raise ValueError(f"{path}: is there already; give another path, or add --force to replace it.")


def _unreadable(path: Path) -> str | None:
    """Why a file cannot be read, as far as can be seen without opening it: a pipe may be read only once."""
    try:
        path.stat()
    except OSError as error:
        return error.strerror
    return None if os.access(path, os.R_OK) else os.strerror(errno.EACCES)


def _same(one: Path, other: Path) -> bool:
    """Whether two paths lead to one file, through links of either kind, also where it is not there yet."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)


def _behind(source: Path) -> list[Path]:
    """The files that an input refers to: a folder's, those of the plan it belongs to, or the design of its problem."""
    try:
        if source.is_dir():
            return [path for path in source.iterdir() if path.is_file()]
        if (source.parent / "plan.json").is_file():  # its sheets are printed, and its counts filled in by hand
            return [*(source.parent / name for name in PLAN_FILES), *(source.parent / "worklists").glob("*")]
        if source.suffix in (".csv", ".safetensors", ".db") or not source.is_file():
            return []
        text = source.read_text(encoding="utf-8-sig")
        spec = json.loads(text) if source.suffix == ".json" else tomllib.loads(text)
        return [source.parent / spec.get("problem", spec)["design"]["file"]]
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return []  # whatever is wrong with the file is reported when it is read


def csv_writer(
    values: "torch.Tensor", rows: Sequence[str] | None, columns: Sequence[str], cells: Sequence[str] | None = None
) -> Callable[[Path], None]:
    """A writer of one row per instance, numbered from 1 where they have no names; `cells` are written for 0, 1, ..."""
    names = rows or [str(number) for number in range(1, len(values) + 1)]
    if cells is not None:
        from qgt.files.grids import write_rows

        lines = [[name, *(cells[value] for value in row)] for name, row in zip(names, values.tolist(), strict=True)]
        return partial(write_rows, rows=[["instance", *columns], *lines])
    return partial(tables.write_table, values=values.tolist(), row_names=names, column_names=columns, corner="instance")


def write_files(files: Mapping[Path, Callable[[Path], object]]) -> None:
    """Write all files, or none where one cannot be written."""
    from safetensors import SafetensorError

    try:
        with ExitStack() as stack:
            for path, write in files.items():
                write(stack.enter_context(replacing(path)))
    except OSError as error:
        raise ValueError(f"{path}: cannot be written ({error.strerror}); check the folder.") from error
    except SafetensorError as error:  # it has no errno, but says what the system said
        raise ValueError(f"{path}: cannot be written ({error}); check the folder.") from error


def tell(facts: Mapping[str, object] | None, title: str, header: Sequence[str], *rows: Sequence[object]) -> None:
    """Print the facts as JSON or, where there are none, the title and the table, in printable characters only."""
    if facts is not None:
        return typer.echo(json.dumps(facts, allow_nan=False))
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(markup=False, emoji=False, highlight=False)  # file names are not markup
    console.print(printable(title, keep="\n"), soft_wrap=True)
    if not rows:
        return
    sheet = Table(box=None, padding=(0, 2, 0, 0))
    for name, cell in zip(header, rows[0], strict=True):
        sheet.add_column(name, justify="left" if isinstance(cell, str) else "right")
    for row in rows:
        sheet.add_row(*(Text(printable(str(cell))) for cell in row))
    if not console.is_terminal:  # a file has no edge at which cells would have to be cut
        console.width = max(console.width, 160)
    console.print(sheet)


def one_line(message: str) -> str:
    """A message as one printable line, however long the cell that it quotes."""
    return textwrap.shorten(printable(message, keep="\n\t"), width=1000, placeholder=" ...")


def printable(text: str, keep: str = "") -> str:
    """Text without characters that a terminal would act on: they are written as escapes.

    Names come from files that others wrote; an escape sequence in one could hide or forge what stands on the screen.

    Example:
        >>> print(printable("a\x1b[2Jb"))
        a\\x1b[2Jb
    """
    return "".join(
        char if char.isprintable() or char in keep else char.encode("unicode_escape").decode() for char in text
    )


@contextmanager
def share_done(doing: str) -> Iterator[Callable[[int, int], None]]:
    """A callback for long work: done so far, and of how many.

    On a terminal it draws a bar, and elsewhere it writes a line to standard error now and then.
    """
    from rich import progress as rich

    start, known = time.monotonic(), [0, 0]

    def said() -> str:
        done, total = known
        of = f"{done:,} of {total:,} done ({100 * done // total} %)" if total else "nothing done yet"
        return f"qgt: {doing}: {of} after {time.monotonic() - start:.0f} s"

    with bar_or_lines(said, doing, rich.TaskProgressColumn()) as bar:

        def show(done: int, total: int) -> None:
            known[:] = done, total
            bar.update(bar.task_ids[0], completed=done, total=total)

        yield show


@contextmanager
def bar_or_lines(
    said: Callable[[], str], *columns: "str | rich.progress.ProgressColumn"
) -> Iterator["rich.progress.Progress"]:
    """A bar of one task on a terminal; elsewhere a line on standard error now and then, and a bar that nobody sees.

    Args:
        said: The line.
        columns: What is shown on the right of the bar, of the numbers done and of the time that remains.
    """
    from rich import progress as rich
    from rich.console import Console

    console = Console(stderr=True)
    known = (rich.BarColumn(20), rich.MofNCompleteColumn(), rich.TimeRemainingColumn())
    with ExitStack() as stack:
        if not console.is_terminal:
            stack.enter_context(now_and_then(said))
        bar = rich.Progress(*known, *columns, console=console, transient=True, disable=not console.is_terminal)
        bar.add_task("starting", total=None)
        yield stack.enter_context(bar)


@contextmanager
def now_and_then(said: Callable[[], str]) -> Iterator[None]:
    """Write what is being done to standard error after a while, and again every half minute, until it is done.

    A thread writes it: one plate can keep the others waiting for longer than anybody wants to see nothing.
    """
    done = threading.Event()

    def talk() -> None:
        wait = FIRST_LINE
        while not done.wait(wait):
            print(said(), file=sys.stderr, flush=True)
            wait = LINE_EVERY

    thread = threading.Thread(target=talk, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


# What verbs that take a sheet of counts share: their arguments, how the sheet is read, and verdicts on the screen.

CountsFile = Annotated[
    Path, typer.Argument(metavar="COUNTS", help="CSV or XLSX: a column or a row per pool, or a plate.")
]
Target = Annotated[
    str | None, typer.Option(metavar="NAME", help="Of a PCR machine's file with several targets: the one to decode.")
]
Control = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Its internal control: where that did not amplify, a pool is not measured. none: it has no control.",
    ),
]
Rounds = Annotated[
    list[str] | None,
    typer.Option(
        "--round",
        metavar="FOLDER[=FILE]",
        help="A later round, from 'qgt follow-up', counts filled in; or with a PCR machine's table. In order.",
    ),
]
ProblemFile = Annotated[
    Path, typer.Option(metavar="PROBLEM", help="Design, prior and noise: TOML or JSON, or a folder of 'qgt plan'.")
]
SHOWN_VERDICTS = 5  # instances in words on the screen; the report has all


def problem_file(path: Path) -> Path:
    """The problem's file: itself or, of a plan's folder, the one in it."""
    return path / "problem.toml" if path.is_dir() else path


def read_sheet(
    counts: Path,
    loaded: "qgt.Problem",
    samples: "Samples | None",
    target: str | None = None,
    control: str | None = None,
) -> "CountSheet":
    """The counts of a problem's pools; the samples of a plan are known by name too, and targets of a PCR machine."""
    from qgt.lab.rounds import COUNTS, RECORD
    from qgt.lab.sheets.counts import read_counts

    if counts.name == COUNTS and (counts.parent / RECORD).is_file():
        raise ValueError(
            f"{counts}: has the counts of a later round; give those of the first round, and --round {counts.parent}."
        )
    return read_counts(
        counts,
        loaded.design,
        samples,
        noise=loaded.noise,
        target=target,
        control=control,
        categories=loaded.reported_categories,
    )


def planned_samples(problem: Path | None, loaded: "qgt.Problem") -> "Samples | None":
    """The samples of the plan that a problem's file belongs to, or None; a plan that was changed is refused.

    Args:
        problem: The problem's file.
        loaded: What it holds, so that it is not read again.
    """
    home = problem.parent if problem is not None and problem.name == "problem.toml" else None
    planned = home is not None and all((home / name).is_file() for name in ("plan.json", "samples.csv"))
    if home is None or not planned:
        return None
    from qgt.lab.plan.folder import plan_of_problem

    return plan_of_problem(home, loaded).samples


def exit_code(made: "Sequence[Account]") -> int:
    """1 where the answer to some plate must not be used."""
    return int(any(str(one.verdict) in ("suspect", "impossible") for one in made))


def tell_verdicts(title: str, made: "Sequence[Account]") -> None:
    """How many plates have each verdict, and the first ones in words."""
    from qgt.lab.answers.outputs import by_urgency, verdict_counts
    from qgt.lab.wording import quoted

    rows = [[word.value, number, word.meaning] for word, number in verdict_counts(made).items()]
    tell(None, title, ["verdict", "plates", "meaning"], *rows)
    for one in by_urgency(made)[:SHOWN_VERDICTS]:
        tell(None, f"\n{quoted(one.name)}, {one.verdict}: {one.words}", [])
    if len(made) > SHOWN_VERDICTS:
        left = len(made) - SHOWN_VERDICTS
        tell(None, f"\n{left} more not shown here: see --report, --html or --json.", [])
