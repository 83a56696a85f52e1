"""Locks: one process at a time, and none is held by the dead."""

import os
import signal
import subprocess
import sys

import pytest

from qgt.files.locks import locked

HOLD = """
import sys, time
from pathlib import Path
from qgt.files.locks import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_lock_is_waited_for_and_ends_with_its_holder(tmp_path):
    path = tmp_path / "deep" / "a.lock"
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE)
    assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
    waits = 0

    def kill_it():
        nonlocal waits
        waits += 1
        if waits == 2:
            holder.send_signal(signal.SIGKILL if os.name == "posix" else signal.SIGTERM)
            holder.wait()

    with locked(path, kill_it):
        assert waits >= 2
    holder.stdout.close()


def test_a_lock_is_free_again_after_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), locked(tmp_path / "a.lock"):
        raise ZeroDivisionError
    with locked(tmp_path / "a.lock"):
        pass


def test_a_place_where_nothing_can_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"a\.lock: cannot be made"), locked(tmp_path / "file" / "a.lock"):
        pass
    with pytest.raises(ValueError, match="cannot be"), locked(tmp_path):
        pass
    (tmp_path / "file").write_text("no database" * 99)
    with pytest.raises(ValueError, match="file: cannot be locked"), locked(tmp_path / "file"):
        pass
