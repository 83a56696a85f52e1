"""The verb that starts the page: serve."""

import os
from pathlib import Path
from typing import Annotated

import typer

from qgt.cli.shell import app, tell

TOKEN = "QGT_TOKEN"  # an environment variable: other users of the machine can read a command line


@app.command()
def serve(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where runs are kept; made where it is not there.")
    ] = Path("qgt-runs"),
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", help="0 finds one that is free.")] = 8421,
    name: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Another name of this machine in browsers; repeatable.")
    ] = None,
) -> None:
    """Open the page: plan, print, enter counts and read calls in a browser. Ctrl-C ends it.

    Only this machine reaches it. On another ADDRESS visitors need a token: the one in the environment variable
    QGT_TOKEN or, where there is none, a new one that is printed. Nothing is sent to other machines.

    \b
    Example:
      qgt serve
      qgt serve lab-runs --host 0.0.0.0 --name lab.example.org
    """
    try:
        from qgt.web.app import serve as start
        from qgt.web.settings import Settings, new_token
    except ModuleNotFoundError as error:
        raise ValueError(f"{error.name} is not installed: run pip install 'qgt[web]' first.") from error
    token = os.environ.get(TOKEN)
    private = Settings(folder, host, port, new_token()).private
    made = None if private or token else new_token()
    settings = Settings(folder, host, port, token or made, tuple(name or ()))

    def on_start(address: str) -> None:
        tell(None, f"The page is at {address}", [])
        if made is not None:
            tell(None, f"Visitors need this token: {made}", [])
        tell(None, f"Runs are kept in {folder}. Press Ctrl-C to end.", [])

    start(settings, on_start)
