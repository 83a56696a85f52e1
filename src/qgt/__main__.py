"""`python -m qgt`: the same command as `qgt`."""

import sys

from qgt.cli import main

if __name__ == "__main__":
    sys.exit(main())
