"""Files and folders on disk: writes that are whole or not at all, folders to work in, and locks between processes."""

import errno
import os
import secrets
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

# Files that appear whole or not at all.


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Give a temporary path beside `path` that takes its place on success and vanishes on failure.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with replacing(Path(folder) / "new" / "a.txt") as temporary:
        ...         _ = temporary.write_text("whole")
        ...     [file.name for file in Path(folder, "new").iterdir()]
        ['a.txt']
    """
    target = Path(path).resolve()  # through a link, not over it
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    # Made by hand rather than by tempfile, whose files are private: the system gives this one its ordinary mode.
    os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        yield temporary
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a UTF-8 text file, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


# Folders to work in: new ones that vanish when the work fails, one worker at a time, room enough before it starts.

LOCK = ".lock"
PIECE = bytes(2**20)
PROBE = 2**26  # bytes written to see whether there is room: 64 MiB


@contextmanager
def working_in(folder: Path) -> Iterator[None]:
    """Make a folder; where the work fails and leaves it empty, take it away again, with the parents made for it.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as here:
        ...     with suppress(RuntimeError), working_in(Path(here) / "a" / "b"):
        ...         raise RuntimeError
        ...     list(Path(here).iterdir())
        []
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{folder}: cannot be made a folder ({error.strerror}); give another path.") from error
    try:
        yield
    except BaseException:
        with suppress(OSError):  # it holds something
            for path in missing:
                path.rmdir()
        raise


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold a lock on a folder, or raise a ValueError where another process holds it.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as here, alone_in(Path(here)):
        ...     try:
        ...         with alone_in(Path(here)):
        ...             pass
        ...     except ValueError as error:
        ...         print(str(error).removeprefix(here))
        : another process is at work in this folder; wait for it to end, or give another folder.
    """
    if folder.is_dir() and not os.access(folder, os.W_OK):
        raise ValueError(f"{folder}: cannot be written to ({os.strerror(errno.EACCES)}); give another path.")

    def refuse() -> None:
        raise ValueError(
            f"{folder}: another process is at work in this folder; wait for it to end, or give another folder."
        )

    with locked(folder / LOCK, refuse, keep=False):
        yield


def check_room(folder: Path, size: int) -> None:
    """Raise a ValueError where a folder has no room for that many bytes, or cannot be written to.

    Whether it can is seen by writing some: what the system says is free may be more than a user may have.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as here:
        ...     check_room(Path(here), 1000)
        ...     list(Path(here).iterdir())
        []
    """
    probe = folder / f".room.{secrets.token_hex(8)}"
    try:
        if shutil.disk_usage(folder).free < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with probe.open("xb") as stream:
            for start in range(0, min(size, PROBE), len(PIECE)):
                stream.write(PIECE[: size - start])
    except OSError as error:
        raise ValueError(
            f"{folder}: {size:,} bytes cannot be written there ({error.strerror}); make room, or give another path."
        ) from error
    finally:
        with suppress(OSError):
            probe.unlink(missing_ok=True)


# A lock between processes that share a folder.

PAUSE = 0.2  # seconds between two tries


@contextmanager
def locked(path: Path, on_wait: Callable[[], None] | None = None, *, keep: bool = True) -> Iterator[None]:
    """Hold the lock of a file; wait while another process holds it.

    The file is an empty SQLite database, whose locks work on every system and end with the process that holds them,
    however it ends: a file left by a kill locks nothing.

    Args:
        path: The file.
        on_wait: Called at each try that fails; what it raises ends the waiting.
        keep: Whether the file stays. Otherwise it is taken away at the end, where the system allows that.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder, locked(Path(folder) / "a.lock"):
        ...     pass
    """
    while (connection := _lock(path)) is None:
        if on_wait is not None:
            on_wait()
        time.sleep(PAUSE)
    with closing(connection):
        try:
            yield
        finally:
            if not keep:
                with suppress(OSError):
                    path.unlink()


def _lock(path: Path) -> sqlite3.Connection | None:
    """The connection that holds the lock; None where another one does."""
    while True:
        before = _stat(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(path, timeout=0, isolation_level=None)
        except (sqlite3.Error, OSError) as error:
            raise ValueError(f"{path}: cannot be made ({error}); check the folder.") from error
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            connection.close()
            if "locked" not in str(error):
                raise ValueError(f"{path}: cannot be locked ({error}); check the folder.") from error
            return None
        after = _stat(path)
        if before is not None and after is not None and os.path.samestat(before, after):
            return connection
        connection.close()  # the file is new, or its last holder took it away: somebody may have locked another one


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None
