"""A user's own decoder, prior and noise in a study: with workers, and with rows that belong to their code."""

import json

import pytest
from studies import NETWORK, small

from qgt import Study, load_plugin, run_study, study_results
from qgt.study import network_path

MINE = """
from dataclasses import dataclass
import torch, qgt

@dataclass(frozen=True)
class OneBatch:
    length: int

    def sample(self, instances, items, *, generator):
        start = torch.randint(items - self.length + 1, (instances, 1), generator=generator)
        position = torch.arange(items)
        return ((position >= start) & (position < start + self.length)).to(torch.uint8)

@dataclass(frozen=True)
class Threshold:
    share: float = 0.8
    inner: qgt.Decoder | None = None

    def supports(self, problem):
        return None

    def bind(self, problem):
        A = problem.design.matrix.double()

        def decode(y, defectives):
            scores = y @ A / A.sum(0).clamp(min=1)
            x = scores > self.share * scores.amax(1, keepdim=True)
            return qgt.Decoded(x.to(torch.uint8), torch.zeros(len(y), dtype=torch.uint8), scores)

        return qgt.BoundDecoder(problem, decode)

@dataclass(frozen=True)
class Clashing:
    batch: int = 1
    supports = Threshold.supports
    bind = Threshold.bind
"""
BATCH = {"prior": {"kind": "mine:OneBatch", "length": 3}}


@pytest.fixture
def mine(tmp_path, no_plugins):
    path = tmp_path / "mine.py"
    path.write_text(MINE)
    load_plugin(path)
    return path


def own(**changes):
    """A study whose prior and decoder are the user's; the prior can only be sampled."""
    decoders = {"mine": {"kind": "mine:Threshold", "share": 0.7}, "network": NETWORK}
    return small(problem={**small()["problem"], **BATCH}, decoders=decoders, designs=1, **changes)


def counts(data, db):
    return [(one.point, one.decoder, one.score) for one in study_results(Study.from_plain(data), db)]


def test_workers_have_the_plugins_and_the_same_results(mine, tmp_path):
    run_study(Study.from_plain(own()), tmp_path / "one.db")
    run_study(Study.from_plain(own()), tmp_path / "two.db", workers=2, networks=tmp_path / "one.networks")
    assert counts(own(), tmp_path / "one.db") == counts(own(), tmp_path / "two.db")
    assert all(score.instances == 60 for _, _, score in counts(own(), tmp_path / "one.db"))


def test_a_file_of_a_study_may_name_them(mine, tmp_path):
    (tmp_path / "study.json").write_text(json.dumps(own()))
    (tmp_path / "study.toml").write_text(
        'designs = 1\n[problem]\ndesign = { kind = "bernoulli", pools = 8, items = 12 }\n'
        'prior = { kind = "mine:OneBatch", length = 3 }\n'
        '[decoders.mine]\nkind = "mine:Threshold"\nshare = 0.7\ninner = { kind = "gamp", damping = 0.5 }\n'
    )
    assert len(Study.load(tmp_path / "study.json").tasks) == 4
    (task,) = Study.load(tmp_path / "study.toml").tasks
    assert repr(task.entry.method) == "Threshold(share=0.7, inner=GAMP(damping=0.5, iterations=100))"


@pytest.mark.parametrize(
    ("decoders", "said"),
    [
        ({"it": {"kind": "mine:Threshold", "share": "x"}}, "decoders.it.share='x' is not valid: give a finite number."),
        ({"it": {"kind": "mine:Threshold", "shar": 1}}, "decoders.it.shar is not a known key: use batch, defectives"),
        ({"it": {"kind": "mine:Thresh"}}, "decoders.it.kind='mine:Thresh' is not in "),
        ({"it": {"kind": "yours:Threshold"}}, "decoders.it.kind='yours:Threshold' is not loaded: give --plugin yours"),
        ({"it": {"kind": "mine:OneBatch", "length": 1}}, "decoders.it.kind='mine:OneBatch' is not valid: give a"),
        ({"it": {"kind": "mine:Clashing"}}, "decoders.it: Clashing has a field batch, which has a meaning in studies"),
        ({"it": {"kind": "amp"}}, "decoders.it cannot decode the problem at "),
        ({"it": {"kind": "certified"}}, "decoders.it cannot decode the problem at "),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_with_its_reason(mine, decoders, said):
    with pytest.raises(ValueError) as caught:
        Study.from_plain({**own(), "decoders": decoders})
    assert str(caught.value).startswith(said)


def keys(tmp_path):
    study = Study.from_plain({**own(), "decoders": {**own()["decoders"], "other": {**NETWORK, "hidden": [8]}}})
    return [task.key for task in study.tasks], [network_path(tmp_path, task) for task in study.tasks[1:3]]


def test_other_code_has_other_rows_and_other_networks(mine, tmp_path, no_plugins):
    before = keys(tmp_path)
    assert keys(tmp_path) == before
    mine.write_text(MINE.replace("scores > ", "scores >= "))
    no_plugins()
    load_plugin(mine)
    after = keys(tmp_path)
    assert not set(before[0]) & set(after[0])
    assert not set(before[1]) & set(after[1])


def test_rows_that_need_no_plugin_depend_on_the_version_of_results_alone(tmp_path, no_plugins, monkeypatch):
    before = [task.key for task in Study.from_plain(small()).tasks]
    (tmp_path / "mine.py").write_text(MINE)
    load_plugin(tmp_path / "mine.py")
    assert [task.key for task in Study.from_plain(small()).tasks] == before
    monkeypatch.setattr("qgt.study.plan.RESULTS_SINCE", "0.0.0")
    assert not {task.key for task in Study.from_plain(small()).tasks} & set(before)


def test_a_plugin_that_changes_is_refused_before_workers_start(mine, tmp_path):
    study = Study.from_plain({**own(), "decoders": {"mine": {"kind": "mine:Threshold"}}})
    mine.write_text(MINE + "\n")
    with pytest.raises(ValueError, match=r"mine\.py: has changed since it was loaded; start Python anew\."):
        run_study(study, tmp_path / "study.db", workers=2)
