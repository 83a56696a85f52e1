"""Writes that are whole or not at all, folders to work in, and locks between processes."""

import os
import resource
import signal
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from qgt.decoders.neural import model_file
from qgt.files import store
from qgt.files.store import alone_in, check_room, locked, replacing, working_in, write_text
from qgt.version import provenance

# Files that appear whole or not at all.


def test_replacing_takes_the_place_of_the_file_on_success_only(tmp_path):
    target = tmp_path / "new" / "result.csv"
    with replacing(target) as temporary:
        temporary.write_text("first")
        assert not target.exists()
    assert target.read_text() == "first"
    with pytest.raises(RuntimeError, match="half way"), replacing(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError("half way")
    assert target.read_text() == "first"
    assert list(target.parent.iterdir()) == [target]  # no temporary file stays


def test_a_written_file_has_ordinary_permissions(tmp_path):
    path = tmp_path / "sheet.csv"
    mask = os.umask(0o027)
    try:
        write_text(path, "a")
        assert os.umask(0o027) == 0o027  # and the mask is as it was
    finally:
        os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_link_stays_and_what_it_points_to_is_replaced(tmp_path):
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


# Folders and tensor files: refused before the work where that can be known, and nothing left behind.


def test_a_folder_made_for_failed_work_is_taken_away_with_its_parents(tmp_path: Path) -> None:
    for error in (RuntimeError, KeyboardInterrupt):
        with suppress(error), working_in(tmp_path / "a" / "b"):
            assert (tmp_path / "a" / "b").is_dir()
            raise error
        assert not list(tmp_path.iterdir())


def test_a_folder_that_holds_something_stays(tmp_path: Path) -> None:
    with suppress(RuntimeError), working_in(tmp_path / "a" / "b"):
        (tmp_path / "a" / "kept").touch()
        raise RuntimeError
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["kept"]
    (tmp_path / "old").mkdir()
    with suppress(RuntimeError), working_in(tmp_path / "old"):
        raise RuntimeError
    assert (tmp_path / "old").is_dir()  # it was there before


def test_what_is_no_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ValueError, match="cannot be made a folder"), working_in(path):
            pass


def test_another_process_is_kept_out_until_the_first_ends(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from qgt.files.store import alone_in\n"
        "with alone_in(Path(sys.argv[1])):\n    print('in', flush=True); time.sleep(60)"
    )
    path = os.pathsep.join([str(Path(store.__file__).parents[2]), *sys.path])
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "in\n"
        with pytest.raises(ValueError, match="another process is at work"), alone_in(tmp_path):
            pass
    finally:
        other.kill()
        other.communicate()
    assert (tmp_path / store.LOCK).exists()  # left by the kill, and locking nothing
    with alone_in(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


def test_at_no_time_are_two_alone(tmp_path: Path) -> None:
    """Many threads in and out: the file is taken away and made again all the while."""
    inside, most, entered = 0, 0, 0
    guard = threading.Lock()

    def visit() -> None:
        nonlocal inside, most, entered
        for _ in range(300):
            with suppress(ValueError), alone_in(tmp_path):
                with guard:
                    inside, entered = inside + 1, entered + 1
                    most = max(most, inside)
                with guard:
                    inside -= 1

    threads = [threading.Thread(target=visit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert entered > 4
    assert most == 1


def test_room_is_probed_and_the_probe_removed(tmp_path: Path) -> None:
    check_room(tmp_path, 3 * 2**20 + 5)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match=r"1,000,000,000,000,000,000 bytes cannot be written there \(No space left"):
        check_room(tmp_path, 10**18)
    with pytest.raises(ValueError, match="cannot be written there"):
        check_room(tmp_path / "absent", 10)


@pytest.fixture
def small_files():
    """The system refuses to let files grow beyond 64 KiB, as a full disk would, until the test ends."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_what_the_system_refuses_to_write_is_told_and_leaves_nothing(tmp_path: Path, small_files: None) -> None:
    with pytest.raises(ValueError, match="cannot be written there"):
        check_room(tmp_path, 2**20)
    with pytest.raises(ValueError, match=r"model\.safetensors: cannot be written"):
        model_file.write_tensors(tmp_path / "model.safetensors", {"weight": torch.zeros(2**16)}, {})
    assert not list(tmp_path.iterdir())
    model_file.write_tensors(tmp_path / "model.safetensors", {"weight": torch.zeros(4)}, {})


def test_a_write_that_fails_keeps_the_old_file(tmp_path: Path, small_files: None) -> None:
    model_file.write_tensors(tmp_path / "a", {"weight": torch.zeros(4)}, {})
    before = (tmp_path / "a").read_bytes()
    with pytest.raises(ValueError, match="cannot be written"):
        model_file.write_tensors(tmp_path / "a", {"weight": torch.zeros(2**16)}, {})
    assert (tmp_path / "a").read_bytes() == before


def test_provenance_is_plain_and_short() -> None:
    told = provenance(torch.device("cpu"))
    assert told == provenance("cpu")
    assert "+" not in str(told["torch"])
    assert told["threads"] == torch.get_num_threads()
    assert "CPU" in str(told["device"])


# Locks: one process at a time, and none is held by the dead.

HOLD = """
import sys, time
from pathlib import Path
from qgt.files.store import locked
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
