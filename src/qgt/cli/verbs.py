"""All verbs of the command: importing the modules that define them adds them to the application."""

from typer.main import get_command

from qgt.cli import data, decoding, planning, serving, studies, training
from qgt.cli.shell import app

__all__ = [
    "COMMAND",
    "data",
    "decoding",
    "planning",
    "serving",
    "studies",
    "training",
]

COMMAND = get_command(app)  # made once, for a program that calls `main` many times
