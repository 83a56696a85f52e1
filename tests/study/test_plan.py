"""The plan: what a study file means, and every way in which it can be wrong."""

import json

import pytest
import torch
from studies import DECODERS, NETWORK, small

import qgt
from qgt.study.plan import Recipe, Study

TOML = """
instances = 100
batch = 50
designs = [7, 8]
metric = "f1"
max_failures = 9

[problem]
design = { kind = "bernoulli", pools = 8, items = 12 }
prior = { kind = "bernoulli", rate = 0.1 }

[grid]
design.pools = [6, 9]
"prior.rate" = [0.1, 0.2, 0.3]

[decoders."AMP, told"]
kind = "amp"
threshold = 0.4
defectives = 2
[decoders.network]
kind = "mlp"
level = 1
instances = 30
batch = 10
train = { epochs = 3 }
"""


def test_a_file_is_the_product_of_its_parts(tmp_path):
    (tmp_path / "study.toml").write_text(TOML)
    study = Study.load(tmp_path / "study.toml")
    assert study.grid == {"design.pools": (6, 9), "prior.rate": (0.1, 0.2, 0.3)}
    assert len(study.tasks) == 6 * 2 * 2
    assert (study.metric, study.designs, study.max_failures) == ("f1", (7, 8), 9)
    told, network = study.tasks[:2]
    assert told.entry.method == qgt.AMP(threshold=0.4)
    assert (told.batch, told.batches, network.batch, network.batches) == (50, 2, 10, 3)
    assert isinstance(network.entry.method, Recipe)
    assert network.entry.method.architecture == qgt.MLP(())
    assert network.entry.method.config == qgt.TrainConfig(epochs=3)
    assert told.name == "AMP, told, design.pools = 6, prior.rate = 0.1, design 7"
    design = torch.Generator().manual_seed(7)
    assert told.problem().design.rows == qgt.Design.bernoulli(pools=6, items=12, generator=design).rows


def test_json_and_plain_data_mean_the_same(tmp_path):
    (tmp_path / "study.json").write_text(json.dumps(small()))
    assert [t.key for t in Study.load(tmp_path / "study.json").tasks] == [
        t.key for t in Study.from_plain(small()).tasks
    ]


def test_a_key_is_what_determines_the_results():
    base = Study.from_plain(small()).tasks[0].key
    same = [
        small(instances=1000),
        small(max_failures=3),
        small(metric="mse"),
        small(designs=1),
        small(
            decoders={
                "other name": {**DECODERS["AMP"], "threshold": 0.5, "limit": True, "instances": 20, "label": "a label"}
            }
        ),
    ]
    assert {Study.from_plain(data).tasks[0].key for data in same} == {base}
    other = [
        small(batch=30),
        small(designs=[5]),
        small(grid={"design.pools": [7]}),
        *(
            small(decoders={"AMP": {**DECODERS["AMP"], **change}})
            for change in ({"threshold": 0.4}, {"defectives": "true"}, {"tune": False}, {"batch": 10})
        ),
    ]
    assert len({base, *(Study.from_plain(data).tasks[0].key for data in other)}) == len(other) + 1


def test_all_decoders_draw_the_same_instances():
    decoders = {"AMP": {"kind": "amp"}, "greedy": {"kind": "maximum_neighborhood", "batch": 5}, "network": NETWORK}
    a, b, c = Study.from_plain(small(decoders=decoders)).tasks[:3]
    problem = a.problem()
    for batch in range(2):
        x, y = a.draw(problem, batch)
        slices = [b.draw(b.problem(), 4 * batch + i) for i in range(4)]
        assert torch.equal(x, torch.cat([s.x for s in slices]))
        assert torch.equal(y, torch.cat([s.y for s in slices]))
        assert torch.equal(y, c.draw(c.problem(), batch).y)
    assert not torch.equal(a.draw(problem, 0).x, a.draw(problem, 1).x)


def test_a_design_from_a_file_is_taken_when_the_study_is_read(tmp_path):
    design = tmp_path / "design.csv"
    qgt.Design.from_rows(["110", "011"]).to_csv(design)
    data = {"problem": {**small()["problem"], "design": {"file": "design.csv"}}, "decoders": {"a": {"kind": "amp"}}}
    (tmp_path / "study.json").write_text(json.dumps(data))
    (task,) = Study.load(tmp_path / "study.json").tasks
    design.unlink()
    assert task.problem().design.rows == ("110", "011")
    assert task.problem().fingerprint == task.fingerprint


def test_another_number_of_instances_leaves_smaller_ones():
    decoders = {"AMP": {"kind": "amp"}, "slow": {"kind": "exact", "instances": 40}}
    study = Study.from_plain(small(decoders=decoders))
    assert [t.batches for t in study.with_instances(1000).tasks[:2]] == [50, 2]
    assert [t.batches for t in study.with_instances(1).tasks[:2]] == [1, 1]
    assert [a.key for a in study.tasks] == [b.key for b in study.with_instances(1000).tasks]


def entry(**fields):
    return {"decoders": {"it": fields}}


HOUSEHOLDS = {"kind": "households", "size": 4, "seed_rate": 0.1, "attack_rate": 0.5}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"extra": 1}, ["study.extra", "not a known key"]),
        ({"instances": 0}, ["instances=0"]),
        ({"batch": "many"}, ["batch='many'"]),
        ({"max_failures": -1}, ["max_failures=-1"]),
        ({"designs": 0}, ["designs=0"]),
        ({"designs": []}, ["designs=[]"]),
        ({"designs": [1, 1]}, ["designs=[1, 1]", "once"]),
        ({"metric": "accuracy"}, ["metric='accuracy'", "success_rate"]),
        ({"problem": 3}, ["problem=3"]),
        ({"problem": {"prior": {"kind": "bernoulli", "rate": 0.1}}, "grid": {}}, ["problem.design", "missing"]),
        ({"grid": {"design.rate": [1]}}, ["grid.design.rate", "not in the problem", "design.pools"]),
        ({"grid": {"design": {"rate": [1]}}}, ["grid.design.rate", "not in the problem"]),
        ({"grid": {"pools": [1]}}, ["grid.pools", "not in the problem"]),
        ({"grid": {"design.pools": []}}, ["grid.design.pools=[]", "list"]),
        ({"grid": {"design.pools": 5}}, ["grid.design.pools=5", "list"]),
        ({"grid": {"design.pools": [[5]]}}, ["grid.design.pools", "[5]"]),
        ({"grid": {"design.pools": [5, 5]}}, ["grid.design.pools", "twice"]),
        ({"grid": {"design.pools": [5, 0]}}, ["design", "pools=0"]),
        ({"grid": {"prior.rate": [2.0]}}, ["prior", "rate=2.0"]),
        ({"decoders": {}}, ["decoders", "empty"]),
        ({"decoders": 1}, ["decoders=1"]),
        ({"decoders": {"it": 1}}, ["decoders.it=1"]),
        (entry(), ["decoders.it.kind=None", "amp", "mlp"]),
        (entry(kind="oracle"), ["decoders.it.kind='oracle'", "amp"]),
        (entry(kind="amp", damping=1), ["decoders.it.damping", "threshold"]),
        (entry(kind="amp", threshold=2), ["decoders.it", "threshold=2"]),
        (entry(kind="amp", instances=0), ["decoders.it", "instances=0"]),
        (entry(kind="amp", batch=7), ["decoders.it", "batch=7", "divide", "20"]),
        (entry(kind="amp", limit=1), ["decoders.it", "limit=1"]),
        (entry(kind="amp", tune="yes"), ["decoders.it", "tune='yes'"]),
        (entry(kind="amp", label=3), ["decoders.it", "label=3"]),
        ({"verify": 0}, ["verify=0"]),
        ({"verify": 9}, ["verify", "without a network"]),
        (entry(kind="amp", defectives="false"), ["decoders.it", "defectives='false'"]),
        (entry(kind="amp", defectives=True), ["decoders.it", "defectives=True"]),
        (entry(kind="amp", defectives=13), ["decoders.it", "defectives=13", "12 items"]),
        (entry(kind="gamp", defectives="true"), ["decoders.it", "defectives='true'", "gamp"]),
        (entry(kind="exact", tune=True), ["decoders.it", "tune", "no scores"]),
        (entry(kind="mlp", level=9), ["decoders.it", "level=9"]),
        (entry(kind="mlp", level=1, hidden=[3]), ["decoders.it", "level"]),
        (entry(kind="mlp", hidden=3), ["decoders.it"]),
        (entry(kind="mlp", epochs=3), ["decoders.it.epochs", "train"]),
        (entry(kind="mlp", train=3), ["decoders.it.train=3"]),
        (entry(kind="mlp", train={"epochs": 0}), ["decoders.it", "epochs=0"]),
        (entry(kind="mlp", train={"speed": 1}), ["decoders.it", "speed=1"]),
        (entry(kind="mlp", tune=True), ["decoders.it.tune", "network"]),
        (entry(kind="mlp", defectives="true"), ["decoders.it.defectives", "network"]),
        (entry(kind="residual", level=1), ["decoders.it.level"]),
        (entry(kind="residual", train={"epochs": 3}), ["decoders.it", "epochs=3", "steps"]),
        ({"problem": {**small()["problem"], "prior": HOUSEHOLDS}, **entry(kind="gamp")}, ["decoders.it", "Households"]),
        ({"problem": {**small()["problem"], "design": {"matrix": ["110"]}}, "grid": {}}, ["designs", "given"]),
        (
            {"problem": {**small()["problem"], "design": {"kind": "bernoulli", "pools": 3, "items": 4, "seed": 0}}},
            ["problem.design.seed", "designs = [seed]"],
        ),
    ],
)
def test_what_is_wrong_is_named(changes, words, unchecked, tmp_path):
    path = tmp_path / "study.json"
    path.write_text(json.dumps(small(**changes)))
    with pytest.raises(ValueError, match=r"study\.json: ") as caught:
        Study.load(path)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"grid = \n", ["line 1"]), (b"\xff\xfe\x00", ["TOML or JSON"]), (b"", ["study.problem", "missing"])],
)
def test_a_file_that_is_none(content, words, tmp_path):
    path = tmp_path / "study.toml"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"study\.toml") as caught:
        Study.load(path)
    assert all(word in str(caught.value) for word in words)
    with pytest.raises(ValueError, match="No such file"):
        Study.load(tmp_path / "absent.toml")
