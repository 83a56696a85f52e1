"""The reproduction: its plans, a tiny one from start to end, and everything drawn again from its counts."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from qgt.cli import main
from qgt.paper import (
    FULL,
    QUICK,
    TABLES,
    Counts,
    PaperPlan,
    ResidualNetworks,
    Scale,
    needed,
    pools_needed,
    redraw,
    reproduce,
)
from qgt.paper.plan import FIXED, LABELS, LIMIT, NEARLY, PAPERS, RESIDUAL, TOLD
from qgt.paper.running import STACK, _stacks
from qgt.paper.tables import PAPERS_NUMBERS

TINY = Scale(
    "tiny",
    pools=(8, 12),
    noise=(0.04, 0.2),
    designs=2,
    instances=40,
    batch=20,
    training={"instances": 400, "validation": 100, "batch": 100, "epochs": 1},
    residual=ResidualNetworks(8, 1, {"steps": 20, "batch": 32, "validation": 100}, pools=(12,)),
    levels=(1, 2),
    level_designs=2,
    probes=50,
    items=20,
    fixed_pools=12,
    defectives=1,
    time_limit=5.0,
)
FILES = [
    *("complexity.csv", "counts.json"),
    *(f"{name}.md" for name in TABLES),
    *(f"{name}.{form}" for name in ("vs_pools", "vs_noise") for form in ("csv", "png", "svg")),
    *(f"success_vs_pools.{form}" for form in ("png", "svg")),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("paper") / "tiny"
    reproduce(folder, TINY)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


@pytest.mark.parametrize("scale", [QUICK, FULL, TINY], ids=lambda scale: scale.name)
def test_plans_share_instances_between_decoders(scale):
    planned = PaperPlan.of(scale).parts
    for studies in planned.values():
        draws = {}
        for study in studies:
            for task in study.tasks:
                point = (*task.point.items(), task.design)
                draws.setdefault(point, set()).add((task.fingerprint, task.block, task.batch, task.batches))
        assert all(len(drawn) == 1 for drawn in draws.values())
    for name in ("vs_pools", "vs_noise"):
        (limit,) = [entry for entry in planned[name][0].decoders if entry.limit]
        assert limit.name == LIMIT and limit.label == LABELS[LIMIT]
        assert len(planned[name][0].decoders) == 7


def test_the_full_plan_is_the_papers():
    pools, noise, complexity = (studies[0] for studies in PaperPlan.of(FULL).parts.values())
    assert min(FULL.pools) == 20 and max(FULL.pools) == 40
    assert FULL.designs >= 3 and FULL.instances >= 2000
    assert pools.problem["noise"]["rate"] == 0.1
    assert noise.problem["design"]["pools"] == complexity.problem["design"]["pools"] == 35
    assert complexity.problem["noise"]["rate"] == 0.06
    assert complexity.verify == 1000
    assert len(complexity.decoders) == len(PAPERS_NUMBERS) == 7 and len(complexity.designs) == 5


def test_stacks_hold_each_network_once_and_share_a_recipe():
    tasks = list(PaperPlan.of(FULL).tasks)
    stacks = list(_stacks(tasks))
    members = [task for stack in stacks for task in stack]
    assert len(members) == len(set(members)) == 12 * 3 + 12 + 35
    for stack in stacks:
        assert len({repr(task.entry.method.content) for task in stack}) == 1
        sizes = [task.entry.method.architecture.parameters(pools=40, items=100) for task in stack]
        assert len(stack) == 1 or sum(sizes) <= STACK
    assert stacks == list(_stacks(tasks))


def test_a_tiny_reproduction_has_every_file(folder):
    kinds = (".md", ".csv", ".json", ".svg", ".png")
    assert sorted(path.name for path in folder.iterdir() if path.suffix in kinds) == sorted(FILES)
    counts = Counts.load(folder / "counts.json")
    assert all(one.finished for one in [*counts.vs_pools, *counts.vs_noise])
    for one in [*counts.vs_pools, *counts.vs_noise]:
        assert one.score.instances == (40 if one.decoder == RESIDUAL else 80)
    assert [one.decoder for one in counts.complexity] == ["level_1", "level_2"]
    for one in counts.complexity:
        assert [read.estimator for read in one.read_back] == ["least_squares", "mean_jacobian", "regression"]
        assert all(len(read.wrong) == 2 and read.entries == 240 and read.probes == 50 for read in one.read_back)
    assert set(counts.seconds) == {"vs_pools", "vs_noise", "complexity"}
    assert {"training", "decoding", "verifying"} == set(counts.seconds["complexity"])
    assert counts.measured_on.design_seeds == (0, 1)
    assert counts.scale == TINY
    assert "(0.17)" in (folder / "complexity.md").read_text()
    assert (folder / "vs_pools.csv").read_text().count("\n") == 1 + 2 * 7 + 1


def test_pairs_are_those_of_the_outcomes(folder):
    counts = Counts.load(folder / "counts.json")
    for name in ("vs_pools", "vs_noise"):
        found, pairs = getattr(counts, name), counts.pairs[name]
        rates = {(tuple(one.point.items()), one.decoder): one.score.successes for one in found}
        assert {(one.first, one.second) for one in pairs} >= {(PAPERS, amp) for amp in (TOLD, NEARLY, FIXED)}
        for one in pairs:
            point = tuple(one.point.items())
            assert one.paired.instances == (40 if RESIDUAL in (one.first, one.second) else 80)
            if one.first != RESIDUAL:  # which has fewer instances than the limit
                assert one.paired.both + one.paired.first == rates[point, one.first]
                assert one.paired.both + one.paired.second == rates[point, one.second]
    assert " | pairs | " in (folder / "claims.md").read_text()
    bare = replace(counts, pairs_vs_pools=[], pairs_vs_noise=[])
    assert " | intervals | " in TABLES["claims"](bare)


def test_everything_is_drawn_again_from_the_counts_alone(folder, tmp_path):
    (tmp_path / "counts.json").write_bytes((folder / "counts.json").read_bytes())
    counts = redraw(tmp_path)
    assert contents(tmp_path) == contents(folder)
    counts.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "counts.json").read_bytes()
    assert Counts.load(tmp_path / "again.json") == counts


def test_a_second_run_finds_all_done(folder, monkeypatch):
    before = json.loads((folder / "counts.json").read_text())
    monkeypatch.setattr("qgt.study.networks.train", None)
    monkeypatch.setattr("qgt.study.batch.decode_batch", None)
    monkeypatch.setattr("qgt.study.running.verify", None)
    monkeypatch.setattr("qgt.paper.running.draw", lambda counts, folder: None)
    told = []
    reproduce(folder, TINY, on_progress=told.append)
    assert all(progress.done == progress.total for progress in told)
    after = json.loads((folder / "counts.json").read_text())
    assert before == after  # the time of verifying too: it is stored, not taken again


def test_networks_can_be_trained_as_stacks(tmp_path, monkeypatch):
    from qgt.paper import running

    scale = replace(
        TINY, pools=(8,), noise=(0.1,), residual=ResidualNetworks(8, 1, {"steps": 20}), levels=(5,), level_designs=1
    )
    told = []
    running._train_stacks(PaperPlan.of(scale).tasks, tmp_path / "reproduce.networks", "cpu", None, told.append)
    assert told and all(progress.total == 1 for progress in told)  # one recipe, small: one stack
    monkeypatch.setattr("qgt.study.networks.train", None)
    monkeypatch.setattr("qgt.paper.running.draw", lambda counts, folder: None)
    counts = reproduce(tmp_path, scale)
    shares = [sum(part["training"].values()) for part in counts.seconds.values()]
    assert shares == pytest.approx([2 * shares[2], 2 * shares[2], shares[2]], abs=0.01)  # by the number of networks


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ([(20, 0.5), (30, 0.98), (40, 1.0)], "35.0"),
        ([(40, 1.0), (20, 0.5), (30, 0.98)], "35.0"),
        ([(20, 0.5), (30, 0.99), (40, 1.0)], "30.0"),
        ([(20, 0.99), (40, 1.0)], "<= 20"),
        ([(20, 0.5), (40, 0.98)], "> 40"),
        ([(20, 0.5), (30, 1.0), (40, 0.98)], "29.8"),
        ([(35, 0.995)], "<= 35"),
        ([(35, 0.5)], "> 35"),
    ],
)
def test_pools_needed_between_measured_points(points, words):
    assert needed(points)[1] == words


def test_every_table_is_one(folder):
    counts = Counts.load(folder / "counts.json")
    for make in TABLES.values():
        lines = make(counts).splitlines()
        assert len(lines) > 2
        assert len({line.count(" | ") for line in lines if not line.startswith("| ---")}) == 1
    assert set(pools_needed(counts)) == {one.decoder for one in counts.vs_pools}


def test_the_command_draws_again(folder, capsys, monkeypatch):
    drawn = []
    monkeypatch.setattr("qgt.paper.running.draw", lambda counts, folder: drawn.append((counts, folder)))
    assert main(["reproduce", "-o", str(folder), "--redraw", "--json"]) == 0
    assert drawn == [(Counts.load(folder / "counts.json"), folder)]
    told = json.loads(capsys.readouterr().out)
    assert told["run"]["scale"] == "tiny"
    assert LABELS[LIMIT] in told["pools_needed"]


def test_a_run_that_was_begun_says_what_is_missing(folder, tmp_path, capsys):
    (tmp_path / "reproduce.db").write_bytes((folder / "reproduce.db").read_bytes())
    assert main(["reproduce", "-o", str(tmp_path), "--redraw"]) == 2
    err = capsys.readouterr().err
    assert "counts.json: is not there yet" in err and "batches are counted" in err and "again to finish it" in err


def test_the_committed_counts_can_be_drawn():
    counts = Counts.load(Path(__file__).parents[2] / "results/paper/counts.json")
    assert counts.scale == FULL
    assert [one.score.instances for one in counts.complexity] == [20_000] * 7


@pytest.mark.parametrize(
    ("text", "words"), [(None, "run 'qgt reproduce' first"), ("[]", "does not hold"), ("{", "does not hold")]
)
def test_counts_that_are_not_there_are_refused(tmp_path, capsys, text, words):
    if text is not None:
        (tmp_path / "counts.json").write_text(text)
    assert main(["reproduce", "-o", str(tmp_path), "--redraw"]) == 2
    err = capsys.readouterr().err
    assert "counts.json" in err
    assert words in err


def test_a_file_is_no_folder(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["reproduce", "-o", str(tmp_path / "file"), "--quick"]) == 2
    assert "is not a folder" in capsys.readouterr().err
