"""All verbs of the command: importing the modules that define them adds them to the application."""

from qgt.cli import checking, data, decoding, follow_up, network, planning, serving, studies, training
from qgt.cli.shell import app

__all__ = [
    "app",
    "checking",
    "data",
    "decoding",
    "follow_up",
    "network",
    "planning",
    "serving",
    "studies",
    "training",
]
