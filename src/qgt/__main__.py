"""`python -m qgt`: the same command as `qgt`."""

import sys

from qgt.cli import command

if __name__ == "__main__":
    sys.exit(command())
