"""Standard output moved aside at the level where C libraries print."""

import os
import threading

from qgt.decoders.highs.printing import on_stderr


def test_output_below_python_goes_to_stderr_and_comes_back(capfd):
    os.write(1, b"before ")
    with on_stderr():
        os.write(1, b"inside ")
        with on_stderr():
            os.write(1, b"deeper ")
        os.write(1, b"still ")
    os.write(1, b"after")
    assert capfd.readouterr() == ("before after", "inside deeper still ")


def test_the_last_thread_out_restores_it(capfd):
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with on_stderr():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    thread.start()
    entered.wait(10)
    with on_stderr():
        os.write(1, b"both ")
    os.write(1, b"one ")
    leave.set()
    thread.join()
    os.write(1, b"none")
    assert capfd.readouterr() == ("none", "both one ")
