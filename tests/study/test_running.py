"""Running: the same results however it is done, and what stays when it fails."""

import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from studies import DECODERS, NETWORK, small

import qgt
from qgt.decoders.certified.decoder import Certified
from qgt.study import Study, ensure_stack, network_path, networks_folder, run_study, study_results
from qgt.study import batch as batches
from qgt.study.batch import named
from qgt.study.networks import ensure_network, weights_digest
from qgt.study.plan import generator
from qgt.study.store import StudyStore


def counts(study, db):
    """Everything of the results but the time."""
    return [replace(one, seconds=0.0) for one in study_results(study, db)]


def folders(networks):
    """What lies among the networks, but for the locks."""
    return sorted(path for path in networks.iterdir() if path.name != "locks")


def stored(study, db):
    with StudyStore(db) as store:
        return {(task.key, row.batch): row.score for task in study.tasks for row in store.rows(task.key)}


def test_results_are_those_of_the_library(tmp_path):
    decoders = {"AMP": {"kind": "amp", "defectives": "true"}, "exact": {"kind": "exact", "limit": True}}
    study = Study.from_plain(small(decoders=decoders, designs=1, instances=40))
    run_study(study, tmp_path / "study.db")
    found = study_results(study, tmp_path / "study.db")
    assert [(one.point["design.pools"], one.decoder) for one in found] == [
        (6, "AMP"),
        (6, "exact"),
        (9, "AMP"),
        (9, "exact"),
    ]
    task = study.tasks[0]
    problem = task.problem()
    x, y = (torch.cat(parts) for parts in zip(*(task.draw(problem, b) for b in (0, 1)), strict=True))
    assert found[0].score == qgt.score(x, qgt.AMP().bind(problem)(y, defectives=x.sum(1)).x)
    assert found[1].score == qgt.score(x, qgt.ExactMAP().bind(problem)(y).x)
    assert found[1].statuses == {"PROVED": 40}
    assert (found[1].proved, found[1].limit, found[0].limit) == (1.0, True, False)
    assert all(one.finished and one.seconds > 0 and one.microseconds > 0 for one in found)


def test_results_are_the_same_for_any_number_of_workers(tmp_path):
    decoders, policies = {**DECODERS, "network": NETWORK}, {"policy": {"kind": "scheme", "name": "individual"}}
    study = Study.from_plain(small(decoders=decoders, policies=policies, designs=1, instances=200, max_failures=60))
    counted = []
    for workers in (1, 2):
        run_study(study, tmp_path / f"{workers}.db", workers=workers, networks=tmp_path / "networks")
        counted.append(counts(study, tmp_path / f"{workers}.db"))
    assert counted[0] == counted[1]
    assert all(one.finished for one in counted[0])
    assert [one.decoder for one in counted[0] if one.costs is not None] == ["policy"] * 2
    # Some tasks stop early, all at the end of a batch, and some do not.
    sizes = {one.score.instances for one in counted[0]}
    assert min(sizes) < max(sizes) == 200
    assert all(size % 20 == 0 for size in sizes)


def test_more_instances_later_equal_one_longer_run(tmp_path):
    study = Study.from_plain(small())
    run_study(study.with_instances(20), tmp_path / "a.db")
    before = stored(study, tmp_path / "a.db")
    assert not study_results(study, tmp_path / "a.db")[0].finished
    run_study(study, tmp_path / "a.db")
    run_study(study, tmp_path / "b.db")
    assert counts(study, tmp_path / "a.db") == counts(study, tmp_path / "b.db")
    assert stored(study, tmp_path / "a.db").items() >= before.items()
    assert [one.score.instances for one in study_results(study.with_instances(20), tmp_path / "a.db")] == [40] * 4


def test_rows_beyond_where_a_task_stops_are_not_counted(tmp_path):
    run_study(Study.from_plain(small()), tmp_path / "study.db")
    stopping = Study.from_plain(small(max_failures=1))
    run_study(stopping, tmp_path / "alone.db")
    assert counts(stopping, tmp_path / "study.db") == counts(stopping, tmp_path / "alone.db")
    assert counts(stopping, tmp_path / "study.db") != counts(Study.from_plain(small()), tmp_path / "study.db")


def test_a_finished_study_decodes_nothing(tmp_path, monkeypatch):
    study = Study.from_plain(small())
    seen = []
    run_study(study, tmp_path / "study.db", on_progress=seen.append)
    assert [p.done for p in seen] == list(range(25))
    assert {p.total for p in seen} == {24}
    assert [p.row is None for p in seen] == [True] + [False] * 24
    assert all(p.doing for p in seen)
    monkeypatch.setattr("qgt.study.batch.decode_batch", None)
    run_study(study, tmp_path / "study.db", on_progress=seen.append)
    assert [(p.done, p.row) for p in seen[25:]] == [(24, None)]


def test_a_gap_is_filled(tmp_path):
    study = Study.from_plain(small())
    run_study(study, tmp_path / "study.db")
    expected = counts(study, tmp_path / "study.db")
    with StudyStore(tmp_path / "study.db") as store:
        store._connection.execute("DELETE FROM rows WHERE batch = 1")
    assert {one.score.instances for one in study_results(study, tmp_path / "study.db")} == {40}
    run_study(study, tmp_path / "study.db")
    assert counts(study, tmp_path / "study.db") == expected


def test_entries_that_are_the_same_task_are_decoded_once(tmp_path):
    study = Study.from_plain(small(decoders={"one": {"kind": "amp"}, "two": {"kind": "amp"}}))
    seen = []
    run_study(study, tmp_path / "study.db", on_progress=seen.append)
    assert len(seen) == 1 + 12
    one, two = study_results(study, tmp_path / "study.db")[:2]
    assert one.score == two.score


# ---------------------------------------------------------------- networks


def test_a_network_is_trained_once_and_found_again(tmp_path, monkeypatch):
    study = Study.from_plain(small(decoders={"network": NETWORK}, designs=1))
    db, seen = tmp_path / "study.db", []
    run_study(study.with_instances(20), db, on_progress=seen.append)
    assert seen[1].doing == "training network, design.pools = 6, design 0: epoch 1 of 2"
    assert seen[1].row is None
    assert folders(networks_folder(db)) == sorted(network_path(networks_folder(db), task) for task in study.tasks)
    monkeypatch.setattr("qgt.study.networks.train", None)
    run_study(study, db)
    renamed = small(decoders={"other": {**NETWORK, "batch": 10}}, designs=1)
    run_study(Study.from_plain(renamed), tmp_path / "other.db", networks=networks_folder(db))
    score = study_results(study, db)[0].score
    assert score.instances == 60
    assert study_results(Study.from_plain(renamed), tmp_path / "other.db")[0].score == score


def test_rows_of_another_network_are_refused(tmp_path):
    study = Study.from_plain(small(decoders={"network": NETWORK}, designs=1))
    db = tmp_path / "study.db"
    run_study(study.with_instances(20), db)
    path = network_path(networks_folder(db), study.tasks[0])
    net = qgt.load(path)
    replace(net, threshold=net.threshold + 0.1).save(path)
    with pytest.raises(ValueError, match=r"is not the network that network, .* was begun with"):
        run_study(study, db)


def test_an_interrupted_training_goes_on(tmp_path, monkeypatch):
    study = Study.from_plain(small(decoders={"network": NETWORK}, designs=1))
    run_study(study, tmp_path / "whole.db")
    monkeypatch.setattr("qgt.learning.training.CHECKPOINT_SECONDS", 0.0)

    def interrupt(progress):
        if progress.doing.startswith("training"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(study, tmp_path / "study.db", on_progress=interrupt)
    (part,) = networks_folder(tmp_path / "study.db").glob("*.part")
    run_study(study, tmp_path / "study.db")
    assert not part.exists()
    assert counts(study, tmp_path / "study.db") == counts(study, tmp_path / "whole.db")


# ---------------------------------------------------------------- faults


def test_a_fault_names_its_task_and_leaves_the_other_rows(tmp_path, monkeypatch):
    study, decode_batch = Study.from_plain(small()), batches.decode_batch

    def faulty(job):
        if job.task.entry.name == "greedy":
            raise ZeroDivisionError("by nought")
        return decode_batch(job)

    monkeypatch.setattr("qgt.study.batch.decode_batch", faulty)
    named = re.escape("greedy, design.pools = 6, design 0, batch 0: ZeroDivisionError: by nought")
    with pytest.raises(RuntimeError, match=named):
        run_study(study, tmp_path / "study.db")
    monkeypatch.undo()
    assert len(stored(study, tmp_path / "study.db")) == 3
    run_study(study, tmp_path / "study.db")
    assert all(one.finished for one in study_results(study, tmp_path / "study.db"))


def test_a_fault_in_a_worker_is_reported_too(tmp_path):
    study = Study.from_plain(small(decoders={"AMP": DECODERS["AMP"], "network": NETWORK}, designs=1))
    db = tmp_path / "study.db"
    run_study(study.with_instances(20), db)  # the networks exist now, and are broken below
    for task in study.tasks[1::2]:
        (network_path(networks_folder(db), task) / "model.safetensors").write_bytes(b"")
    with StudyStore(db) as store:
        store._connection.execute("DELETE FROM rows")
    with pytest.raises(ValueError, match=r"network, design\.pools = 6, design 0, batch \d: .*model\.safetensors"):
        run_study(study, db, workers=2)
    assert len(stored(study, db)) >= 1  # AMP's, which were done by then


def test_a_worker_that_dies_is_reported_with_the_remedy(tmp_path):
    job = batches.BatchJob(Study.from_plain(small()).tasks[0], 2, "cpu", tmp_path)
    with pytest.raises(ValueError, match=r"AMP, .* batch 2: a worker died .* fewer workers"), named(job.name):
        raise BrokenProcessPool


@pytest.mark.parametrize(
    ("options", "words"),
    [({"workers": 0}, "workers=0"), ({"device": "tpu"}, "device='tpu'"), ({"device": "cuda"}, "device='cuda'")],
)
def test_bad_arguments(tmp_path, options, words, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match=words):
        run_study(Study.from_plain(small()), tmp_path / "study.db", **options)
    assert os.listdir(tmp_path) == []


def test_a_stack_of_networks_is_trained_once_and_used(tmp_path, monkeypatch):
    study, db = Study.from_plain(small(decoders={"network": NETWORK})), tmp_path / "study.db"
    folder = networks_folder(db)
    ensure_stack(folder, study.tasks, device="cpu")
    paths = [network_path(folder, task) for task in study.tasks]
    assert folders(folder) == sorted(paths)
    monkeypatch.setattr("qgt.study.networks.train_many", None)  # nothing is left to train
    monkeypatch.setattr("qgt.study.networks.train", None)
    ensure_stack(folder, study.tasks, device="cpu")
    run_study(study, db)
    assert all(one.finished for one in study_results(study, db))


def test_a_stack_that_was_cut_off_while_saving_is_completed_alike(tmp_path):
    study, folders = Study.from_plain(small(decoders={"network": NETWORK})), (tmp_path / "a", tmp_path / "b")
    for folder in folders:
        ensure_stack(folder, study.tasks, device="cpu")
    first, lost = (network_path(folder, study.tasks[1]) for folder in folders)
    shutil.rmtree(lost)
    ensure_stack(folders[1], study.tasks, device="cpu")
    assert weights_digest(qgt.load(lost)) == weights_digest(qgt.load(first))


# ---------------------------------------------------------------- what a study leaves alone, and what it shares


def test_the_callers_threads_are_left_alone(tmp_path, monkeypatch):
    set_to = []
    monkeypatch.setattr(torch, "set_num_threads", set_to.append)
    study = Study.from_plain(small(decoders={**DECODERS, "network": NETWORK, "exact": {"kind": "exact"}}, designs=1))
    run_study(study.with_instances(20), tmp_path / "study.db")
    assert set_to == []


COMMAND = """
import sys
import qgt
from studies import NETWORK, small
study = qgt.Study.from_plain(small(decoders={"network": NETWORK}))
qgt.run_study(study, sys.argv[1])
"""


def test_two_runs_at_once_share_a_database_and_its_networks(tmp_path):
    db = tmp_path / "study.db"
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-c", COMMAND, str(db)]
    other = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.PIPE)
    while not db.exists() and other.poll() is None:  # its imports take longer than the study
        time.sleep(0.005)
    study = Study.from_plain(small(decoders={"network": NETWORK}))
    run_study(study, db)
    assert (other.communicate()[1], other.returncode) == (b"", 0)
    run_study(study, tmp_path / "alone.db")
    assert counts(study, db) == counts(study, tmp_path / "alone.db")
    folder = networks_folder(db)
    assert folders(folder) == sorted(network_path(folder, task) for task in study.tasks)


def test_a_network_that_appears_meanwhile_stays(tmp_path, monkeypatch):
    study = Study.from_plain(small(decoders={"network": NETWORK}, designs=1))
    (task, *_), folder = study.tasks, tmp_path / "networks"
    path = network_path(folder, task)

    def trains_while_another_puts_its_own_there(*args, **kwargs):
        net = qgt.train(*args, **kwargs)
        replace(net, threshold=0.123).save(path)
        return net

    monkeypatch.setattr("qgt.study.networks.train", trains_while_another_puts_its_own_there)
    ensure_network(folder, task)
    assert qgt.load(path).threshold == 0.123
    assert folders(folder) == [path]


# ---------------------------------------------------------------- readings of A


def test_a_is_read_back_from_networks_once(tmp_path, monkeypatch):
    decoders = {"AMP": {"kind": "amp"}, "network": NETWORK}
    study, db = Study.from_plain(small(decoders=decoders, verify=40)), tmp_path / "study.db"
    told = []
    run_study(study, db, on_progress=told.append)
    assert told[-1].doing == "reading A back from network, design.pools = 9, design 1: regression"
    amp, network = study_results(study, db)[:2]
    assert amp.read_back == ()
    assert [(one.estimator, one.probes, one.entries) for one in network.read_back] == [
        ("least_squares", 40, 72),
        ("mean_jacobian", 40, 72),
        ("regression", 40, 72),
    ]
    task = study.tasks[1]
    net = qgt.load(network_path(networks_folder(db), task))
    for one in network.read_back:
        report = qgt.verify(
            net, task.problem(), estimator=one.estimator, instances=40, generator=generator("verify", task.fingerprint)
        )
        assert one.wrong[0] == int(report.wrong.sum())
        assert one.error_percent == pytest.approx(100 * sum(one.wrong) / 144)
    monkeypatch.setattr("qgt.study.running.verify", None)
    run_study(study, db)
    assert study_results(Study.from_plain(small(decoders=decoders)), db)[1].read_back == ()


def test_verify_needs_a_network():
    with pytest.raises(ValueError, match="verify has no meaning without a network"):
        Study.from_plain(small(verify=10))


def test_a_limit_asks_for_the_proof_alone(monkeypatch, tmp_path):
    asked = []
    bind = Certified.bind

    def spied(self, problem):
        asked.append((self.odds, self.certificates))
        return bind(self, problem)

    monkeypatch.setattr(Certified, "bind", spied)
    batches._ready.cache_clear()
    design = {"kind": "bernoulli", "pools": 8, "items": 20}
    problem = {"design": design, "prior": {"kind": "bernoulli", "rate": 0.1}}
    decoders = {
        "limit": {"kind": "certified", "limit": True, "instances": 20},
        "lists": {"kind": "certified", "odds": 50.0, "instances": 20},
    }
    run_study(Study.from_plain({"problem": problem, "decoders": decoders}), tmp_path / "study.db")
    assert asked == [(1.0, False), (50.0, True)]
