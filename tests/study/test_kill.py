"""SIGKILL at random moments of the real command: nothing acknowledged is lost, and a rerun goes on."""

import os
import random
import signal
import time

import kill_study
import pytest

from qgt import Study, run_study

STUDY = """
instances = 12000
batch = 20
problem.design = { kind = "bernoulli", pools = 12, items = 30 }
problem.prior = { kind = "bernoulli", rate = 0.1 }
decoders.greedy = { kind = "maximum_neighborhood" }
"""
pytestmark = pytest.mark.skipif(os.name != "posix", reason="SIGKILL")


def test_kills_cost_nothing(tmp_path, unchecked):
    chance = random.Random(0)
    study, db = tmp_path / "study.toml", tmp_path / "study.db"
    study.write_text(STUDY)
    seen: kill_study.Rows = {}
    for workers in (1, 2):
        process = kill_study.start(study, db, workers)
        while process.poll() is None and len(kill_study.rows(db)) == len(seen):
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.05))
        before = kill_study.rows(db)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL, "it was finished too early to be killed"
        assert not kill_study.lingering(process.pid)
        assert before.items() <= kill_study.rows(db).items()
        assert before.items() > seen.items()
        seen = before
    planned = Study.load(study)
    run_study(planned, db)
    run_study(planned, tmp_path / "whole.db")
    assert kill_study.rows(db) == kill_study.rows(tmp_path / "whole.db")
    assert len(kill_study.rows(db)) == 600


def test_an_interrupt_is_answered_at_once_and_costs_nothing(tmp_path):
    study, db = tmp_path / "study.toml", tmp_path / "study.db"
    study.write_text(STUDY.replace("12000", "1200000"))
    process = kill_study.start(study, db, workers=2)
    while process.poll() is None and not kill_study.rows(db):
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the command and its workers alike
    out, error = process.communicate(timeout=10)
    assert process.returncode == 130
    assert (out, error) == (b"", b"")
    assert kill_study.rows(db)
