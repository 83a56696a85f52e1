"""What every verb of the command needs: the application, common options, and how it writes and speaks."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import qgt
from qgt.files import tables
from qgt.files.atomic import replacing

if TYPE_CHECKING:
    import torch

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help answers in half the time, and its examples can be copied
    context_settings={"max_content_width": 100},
    help="Quantitative group testing: design pools, decode counts, and know when to trust the answer.",
    epilog="\b\nExit codes:\n  0    done\n  1    done, and the answer is negative\n"
    "  2    bad input or usage: one line on stderr says what and where\n  130  interrupted",
)

Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The CSV file to write.")]
Seed = Annotated[int, typer.Option(metavar="S", min=0, max=2**32 - 1, help="Equal seeds give equal files.")]
Plugins = Annotated[
    list[Path] | None,
    typer.Option("--plugin", metavar="FILE", help="A Python file with parts of your own; repeatable."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")]


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
    import torch

    device = chosen_device(device)
    digest = hashlib.sha256(f"qgt {verb} {seed}".encode()).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest[:7], "big"))


def chosen_device(device: str) -> str:
    """The device to use: the one given, or what `auto` finds."""
    import torch

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device not in ("cpu", "cuda") or (device == "cuda" and not torch.cuda.is_available()):
        raise ValueError(f"device={device!r} is not to be had here: give auto, cpu or, where there is one, cuda.")
    return device


def check_outputs(outputs: Sequence[Path], inputs: Sequence[Path] = ()) -> None:
    """Refuse, before any work, to write over what is no file, or over a file that this command also needs."""
    files = [os.path.realpath(path) for path in [*inputs, *outputs]]
    for path in outputs:
        if os.path.exists(path) and not os.path.isfile(path):  # spares /dev/null too: the rename would replace it
            raise ValueError(f"{path}: cannot be written (it is not a file); give the name of a file.")
        if os.path.exists(path.parent) and not os.path.isdir(path.parent):
            raise ValueError(f"{path}: cannot be written ({path.parent} is not a folder); give another path.")
        if files.count(os.path.realpath(path)) > 1:
            raise ValueError(f"{path}: is named twice in this command; give each file its own name.")


def csv_writer(values: "torch.Tensor", rows: Sequence[str] | None, columns: Sequence[str]) -> Callable[[Path], None]:
    """A writer of one row per instance, numbered from 1 where they have no names."""
    names = rows or [str(number) for number in range(1, len(values) + 1)]
    return partial(tables.write, values=values.tolist(), row_names=names, column_names=columns, corner="instance")


def write_files(files: Mapping[Path, Callable[[Path], None]]) -> None:
    """Write all files, or none where one cannot be written."""
    try:
        with ExitStack() as stack:
            for path, write in files.items():
                write(stack.enter_context(replacing(path)))
    except OSError as error:
        raise ValueError(f"{path}: cannot be written ({error.strerror}); check the folder.") from error


def tell(facts: Mapping[str, object] | None, title: str, header: Sequence[str], *rows: Sequence[object]) -> None:
    """Print the facts as JSON or, where there are none, the title and the table."""
    if facts is not None:
        return typer.echo(json.dumps(facts, allow_nan=False))
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False, emoji=False, highlight=False)  # file names are not markup
    console.print(title, soft_wrap=True)
    if not rows:
        return
    sheet = Table(box=None, padding=(0, 2, 0, 0))
    for name, cell in zip(header, rows[0], strict=True):
        sheet.add_column(name, justify="left" if isinstance(cell, str) else "right")
    for row in rows:
        sheet.add_row(*map(str, row))
    if not console.is_terminal:  # a file has no edge at which cells would have to be cut
        console.width = max(console.width, 160)
    console.print(sheet)
