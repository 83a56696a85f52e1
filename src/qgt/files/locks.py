"""A lock between processes that share a folder."""

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PAUSE = 0.2  # seconds between two tries


@contextlib.contextmanager
def locked(path: Path, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock that a file stands for; wait while another process holds it, telling `on_wait` at each try.

    The file is an empty SQLite database, whose locks work on every system and end with the process that holds them,
    however it ends. The file stays: another process may be waiting for it.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, locked(Path(folder) / "a.lock"):
        ...     pass
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        while True:
            try:
                connection.execute("BEGIN EXCLUSIVE")
                break
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    raise
            if on_wait is not None:
                on_wait()
            time.sleep(PAUSE)
        yield
