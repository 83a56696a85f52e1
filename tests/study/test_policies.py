"""Policies in studies: the same truths as decoders, costs beside outcomes, and the same rows however they are run."""

import json
from multiprocessing import Pipe
from pathlib import Path

import pytest
import torch

import qgt
from qgt.cli import main
from qgt.pictures.figures import policies_figure
from qgt.rounds.history import Setting
from qgt.rounds.policies import run_policy
from qgt.rounds.schemes import Scheme
from qgt.study.batch import BatchJob, decode_batch
from qgt.study.store import PolicyCosts, Spent, StudyStore

PLAIN = {
    "instances": 12,
    "batch": 6,
    "problem": {
        "design": {"kind": "bernoulli", "pools": 8, "items": 10},
        "prior": {"kind": "bernoulli", "rate": 0.1},
    },
    "decoders": {"greedy": {"kind": "maximum_neighborhood"}},
    "policies": {
        "ours": {"kind": "follow_up", "first": 3, "confidence": 0.99},
        "alone": {"kind": "scheme", "name": "individual", "label": "one by one"},
        "halves": {"kind": "scheme", "name": "halving", "batch": 3},
    },
}


def sent(thing):
    """What arrives where a process sends something to another one."""
    receiver, sender = Pipe(duplex=False)
    with receiver, sender:
        sender.send(thing)
        return receiver.recv()


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The study, its results, and where its rows are."""
    study, db = qgt.Study.from_plain(PLAIN), tmp_path_factory.mktemp("policies") / "study.db"
    qgt.run_study(study, db)
    return study, qgt.study_results(study, db), db


def test_costs_are_those_of_the_policy_on_the_truths_of_the_decoders(ran):
    study, found, _ = ran
    by = {one.decoder: one for one in found}
    assert by["greedy"].costs is None and by["alone"].label == "one by one"
    assert by["alone"].costs == PolicyCosts(12, 120, 1200, 12, 120)
    assert by["ours"].score.success_rate == 1.0 and 3 <= by["ours"].costs.mean_tests < 10
    task = study.tasks[0]
    problem = task.problem()
    x = torch.cat([task.draw(problem, batch).x for batch in range(2)])
    setting = Setting(10, problem.prior, problem.noise)
    alone = run_policy(Scheme("halving"), setting, x, generator=torch.Generator())  # draws nothing without noise
    assert by["halves"].costs.tests == int(alone.tests.sum()) and by["halves"].costs.rounds == int(alone.rounds.sum())


def test_rows_keep_each_instance_and_are_the_same_from_a_job_that_was_sent(ran, tmp_path):
    """Jobs are sent to workers, and rows are sent back; tests/study/test_running.py runs a policy in processes."""
    study, found, db = ran
    for task, result in zip(study.tasks, found, strict=True):
        with StudyStore(db, reading=True) as store:
            rows = list(store.rows(task.key))
        jobs = [sent(BatchJob(task, row.batch, "cpu", tmp_path)) for row in rows]
        again = [sent(decode_batch(job)) for job in jobs]
        assert [(row.score, row.spent) for row in again] == [(row.score, row.spent) for row in rows]
        costs = [row.spent.costs for row in rows if row.spent is not None]
        assert PolicyCosts.total(costs) == result.costs and len(costs) in (0, len(rows))


def test_costs_have_the_interval_of_their_mean():
    costs = Spent.pack(torch.tensor([[10, 1, 50], [14, 3, 70]])).costs
    assert (costs.mean_tests, costs.mean_rounds, costs.mean_transfers) == (12.0, 2.0, 60.0)
    assert costs.half_interval == pytest.approx(1.96 * 8**0.5 / 2**0.5, rel=1e-3)  # the sample's deviation is sqrt(8)
    assert PolicyCosts.total([]) is None
    with pytest.raises(ValueError, match="bytes"):
        Spent(b"123")


@pytest.mark.parametrize(
    ("policies", "said"),
    [
        ({"greedy": {"kind": "follow_up", "first": 4}}, "policies.greedy has the name of a decoder"),
        ({"a": {"kind": "magic"}}, "policies.a.kind"),
        ({"a": {"kind": "follow_up", "first": 0}}, "first=0"),
        ({"a": {"kind": "follow_up", "first": 4, "tune": True}}, "tune"),
        ({"a": {"kind": "scheme", "name": "magic"}}, "magic"),
    ],
)
def test_policies_that_cannot_be_are_refused_by_name(policies, said):
    with pytest.raises(ValueError, match=said):
        qgt.Study.from_plain({**PLAIN, "policies": policies})


def test_a_study_of_policies_alone_from_file_to_figure(tmp_path, capsys):
    plain = {**PLAIN, "grid": {"prior.rate": [0.05, 0.1]}, "instances": 6}
    del plain["decoders"]
    path = tmp_path / "study.json"
    path.write_text(json.dumps(plain))
    assert main(["bench", str(path), "--workers", "1", "--json", "--counts", str(tmp_path / "counts.json")]) == 0
    told = json.loads(capsys.readouterr().out)["results"]
    assert {one["costs"]["tests"] for one in told if one["decoder"] == "alone"} == {60}
    kept = qgt.study.StudyCounts.load(tmp_path / "counts.json").results
    assert [one.costs.tests for one in kept] == [one["costs"]["tests"] for one in told]
    figure, table = str(tmp_path / "tests.svg"), str(tmp_path / "table.csv")
    assert main(["figure", str(path), "-o", figure, "--metric", "tests", "--csv", table]) == 0
    assert "entropy bound" in Path(figure).read_text() and ",tests,tests_low," in Path(table).read_text()
    assert main(["figure", str(path), "-o", figure, "--metric", "rounds"]) == 2
    assert "leave the grid out" in capsys.readouterr().err


def test_tests_over_rounds_are_drawn_for_one_point(ran):
    study, found, _ = ran
    (ax,) = policies_figure(study, found, "rounds").axes
    names = [text.get_text() for text in ax.texts]
    assert len(names) == 4 and "one by one" in names and ax.get_title(loc="left").startswith("100.0 % right")
    with pytest.raises(ValueError, match=r"grid of prior\.rate alone"):
        policies_figure(study, found, "tests")
    with pytest.raises(ValueError, match="has none measured"):
        policies_figure(study, found[:1], "rounds")
