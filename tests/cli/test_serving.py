"""The verb serve: it starts, says where, refuses what is unsafe, and ends in good order."""

import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

import qgt
from qgt.cli import main


def started(*arguments, **environment):
    """A server as a process, with the line that says where it is."""
    source = str(Path(qgt.__file__).parents[1])
    command = [sys.executable, "-m", "qgt", "serve", *arguments, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": source, **environment})
    return process, process.stdout.readline().split()[-1]


def test_it_serves_and_ends_with_ctrl_c(tmp_path):
    process, address = started(str(tmp_path / "runs"))
    try:
        for _ in range(200):
            try:
                assert "Past runs" in httpx.get(address, timeout=60).text
                break
            except httpx.ConnectError:
                assert process.poll() is None
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
        with process.stdout:  # `communicate` would lose what was read ahead with the first line
            rest = process.stdout.read()
    assert process.returncode == 0
    assert "Press Ctrl-C to end." in rest and "token" not in rest
    assert (tmp_path / "runs" / "runs.db").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--port", "70000"], "port=70000 is not valid"),
        (["--name", "http://lab"], "name='http://lab' is not valid"),
        (["--host", "203.0.113.7", "--port", "0"], "203.0.113.7, port 0: cannot be used"),
    ],
)
def test_what_cannot_be_served_is_one_line(tmp_path, capsys, arguments, said):
    assert main(["serve", str(tmp_path / "runs"), *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_token_that_is_short_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("QGT_TOKEN", "short")
    assert main(["serve", str(tmp_path), "--host", "0.0.0.0"]) == 2
    assert "token has 5 characters" in capsys.readouterr().err


def test_a_folder_that_cannot_be_used_is_said(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["serve", str(tmp_path / "file" / "runs"), "--port", "0"]) == 2
    assert "cannot be made a folder" in capsys.readouterr().err
