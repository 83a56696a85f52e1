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
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, timeout=0, isolation_level=None)
    except (sqlite3.Error, OSError) as error:
        raise ValueError(f"{path}: cannot be made ({error}); check the folder.") from error
    with contextlib.closing(connection):
        while not _taken(connection, path):
            if on_wait is not None:
                on_wait()
            time.sleep(PAUSE)
        yield


def _taken(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the lock is ours now."""
    try:
        connection.execute("BEGIN EXCLUSIVE")
    except sqlite3.Error as error:
        if "locked" not in str(error):
            raise ValueError(f"{path}: cannot be locked ({error}); check the folder.") from error
        return False
    return True
