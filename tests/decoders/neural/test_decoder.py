"""The neural decoder: conformance, saving, and a loader that no altered file gets past."""

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import qgt
from qgt import ModelFileError
from qgt.decoders.neural import decoder as neural
from qgt.decoders.neural import model_file
from qgt.decoders.neural.model_file import MODEL_FILE
from qgt.decoders.neural.network import MOST_LAYERS
from qgt.testing import check_decoder
from qgt.testing.checks import small_problem

NEED_ANOTHER_PROBLEM = {  # than the one a network was trained for
    "batch_equals_loop_where_counts_say_little",
    "duplicate_columns",
    "empty_pool",
    "item_in_no_pool",
    "one_item",
    "one_pool",
    "only_empty_pools",
    "proved_means_most_probable",
    "rates_of_zero_and_one",
    "relabelling_items_commutes",
    "relabelling_pools_commutes",
}
CONFIG = qgt.TrainConfig(instances=1000, validation=200, batch=100, epochs=2)


@cache
def trained(architecture: qgt.Architecture = qgt.MLP((12,))) -> qgt.NeuralDecoder:  # noqa: B008 - frozen
    return qgt.train(small_problem(), architecture, CONFIG, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("architecture", [qgt.MLP((12,)), qgt.MLP(()), qgt.ResidualMLP(8, 1), qgt.Refining(8, 1, 2)])
def test_conforms(architecture: qgt.Architecture) -> None:
    result = check_decoder(trained(architecture), small_problem())
    assert set(result.not_applicable) == NEED_ANOTHER_PROBLEM
    assert "saving_keeps_calls_and_uses_no_pickle" in result.passed
    assert all("trained for problem" in reason for reason in result.not_applicable.values())


def test_refuses_another_problem() -> None:
    net = trained()
    with pytest.raises(ValueError, match="trained for problem"):
        net.bind(small_problem(seed=1))
    p = small_problem()
    renamed = qgt.Problem(
        qgt.Design.from_matrix(p.design.matrix, item_names=tuple(map(str, range(24)))), p.prior, p.noise
    )
    assert net.supports(renamed) is None  # names are not part of the problem


def test_calls_are_scores_at_the_threshold() -> None:
    net = trained()
    y = small_problem().simulate(50, generator=torch.Generator().manual_seed(1)).y
    result = net.bind(net.problem)(y)
    assert torch.equal(result.x, (result.scores >= net.threshold).to(torch.uint8))


def test_large_batches_are_decoded_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    net = trained()
    y = small_problem().simulate(50, generator=torch.Generator().manual_seed(1)).y
    whole = net.bind(net.problem)(y)
    monkeypatch.setattr(neural, "INSTANCES_PER_PASS", 7)
    assert torch.allclose(whole.scores, net.bind(net.problem)(y).scores, atol=1e-5)


@pytest.mark.parametrize("architecture", [qgt.MLP((12, 5)), qgt.ResidualMLP(8, 1), qgt.Refining(8, 1, 2)])
def test_round_trip_is_bit_equal(architecture: qgt.Architecture, tmp_path: Path) -> None:
    net = trained(architecture)
    net.save(tmp_path / "run")
    assert [file.name for file in (tmp_path / "run").iterdir()] == [MODEL_FILE]
    for path in (tmp_path / "run", tmp_path / "run" / MODEL_FILE):
        again = qgt.load(path)
        assert again.architecture == net.architecture
        assert again.threshold == net.threshold
        assert again.spec == net.spec
        assert again.training == net.training
        for name, tensor in net.network.state_dict().items():
            assert tensor.numpy().tobytes() == again.network.state_dict()[name].numpy().tobytes()


def test_a_model_for_a_sparse_design_stores_lists(tmp_path: Path) -> None:
    g = torch.Generator().manual_seed(0)
    problem = qgt.Problem(qgt.Design.column_regular(pools=60, items=1500, weight=2, generator=g), qgt.Bernoulli(0.01))
    config = replace(CONFIG, instances=100, validation=50, batch=50, epochs=1)
    qgt.train(problem, qgt.MLP((4,)), config, generator=g).save(tmp_path)
    again = qgt.load(tmp_path)
    assert set(again.spec["design"]) == {"items", "lists"}
    assert again.supports(problem) is None
    assert again.problem.fingerprint == problem.fingerprint


def test_saving_over_a_model_replaces_it(tmp_path: Path) -> None:
    trained().save(tmp_path)
    other = replace(trained(), threshold=0.25)
    other.save(tmp_path)
    assert qgt.load(tmp_path).threshold == 0.25


def test_mutated_files_never_pass(tmp_path: Path) -> None:
    """A thousand altered files: each gives a ModelFileError or the very model that was saved."""
    net = trained()
    net.save(tmp_path)
    original = (tmp_path / MODEL_FILE).read_bytes()
    header = 8 + int.from_bytes(original[:8], "little")
    expected = net.network.state_dict()
    g = torch.Generator().manual_seed(0)

    def draw(limit: int) -> int:
        return int(torch.randint(limit, (), generator=g))

    file, loaded = tmp_path / "mutated.safetensors", 0
    for i in range(1000):
        data = bytearray(original)
        where = draw(header) if i % 2 else draw(len(data))
        kind = i % 5
        if kind == 0:
            data[where] ^= 1 << draw(8)
        elif kind == 1:
            data[where] = draw(256)
        elif kind == 2:
            del data[where : where + 1 + draw(40)]
        elif kind == 3:
            data[where:where] = bytes(draw(256) for _ in range(1 + draw(9)))
        else:
            other = draw(len(data))
            data[where : where + 8], data[other : other + 8] = data[other : other + 8], data[where : where + 8]
        file.write_bytes(data)
        try:
            model = qgt.load(file)
        except ModelFileError:
            continue
        loaded += 1
        assert model.threshold == net.threshold
        assert model.spec == net.spec
        assert all(torch.equal(tensor, expected[name]) for name, tensor in model.network.state_dict().items())
    assert loaded < 100  # a byte put in place of its equal, and the like


Change = Callable[[dict[str, Any], dict[str, torch.Tensor]], object]


def rewritten(tmp_path: Path, change: Change) -> Path:
    """A file whose description was altered by someone who also mended the checksum."""
    trained().save(tmp_path)
    description, tensors = model_file.read_model(tmp_path / MODEL_FILE)
    change(description, tensors)
    text = json.dumps(description)
    save_file(tensors, tmp_path / MODEL_FILE, {"qgt": text, "sha256": model_file.checksum(text, tensors)})
    return tmp_path


def infinite(description: dict, tensors: dict) -> None:
    tensors["output.bias"][0, 0] = torch.inf


def halved(description: dict, tensors: dict) -> None:
    tensors["output.weight"] = tensors["output.weight"].half()


CHANGES = {
    "format": (lambda d, t: d.update(format=99), "format 99"),
    "architecture kind": (lambda d, t: d["architecture"].update(kind="transformer"), "not known"),
    "architecture key": (lambda d, t: d["architecture"].update(depth=3), "depth"),
    "hidden": (lambda d, t: d["architecture"].update(hidden=[13]), "weights, and the file holds"),
    "enormous": (lambda d, t: d["architecture"].update(hidden=[10**6, 10**6]), "weights, and the file holds"),
    "batch norm": (lambda d, t: d["architecture"].update(batch_norm=False), "weights, and the file holds"),
    "shape": (lambda d, t: t.update({"output.bias": t["output.bias"].T.contiguous()}), r"not float32 \(1, 24\)"),
    "no rows": (lambda d, t: d["problem"]["design"].update(matrix=[]), "is not a usable model"),
    "no training": (lambda d, t: d.pop("training"), "training"),
    "training": (lambda d, t: d.update(training=[]), "training"),
    "seed": (lambda d, t: d["training"].update(seed="0"), r"training\.seed='0'"),
    "epoch": (lambda d, t: d["training"]["history"][0].pop("best"), r"training\.history\[0\]\.best is missing"),
    "loss": (lambda d, t: d["training"]["history"][0].update(train_loss="low"), r"history\[0\]\.train_loss='low'"),
    "number": (lambda d, t: d["training"]["history"][0].update(number=-1), r"training\.history\[0\]\.number=-1"),
    "place": (lambda d, t: d["training"].update(place=-1), r"training\.place=-1"),
    "outcomes": (lambda d, t: d["training"].update(test=[[1, 2]]), "give a list of 4"),
    "times": (lambda d, t: d["training"].update(test=[[1, 0, 0, -2]]), r"training\.test=-2"),
    "interrupted": (lambda d, t: d["training"].update(interrupted=1), "interrupted=1"),
    "made on": (lambda d, t: d["training"].update(made_on={"device": []}), "made_on"),
    "settings": (lambda d, t: d["training"]["config"].update(batch=0), "batch=0"),
    "unknown": (lambda d, t: d["training"].update(remark="!"), "remark is not a known key"),
    "threshold": (lambda d, t: d.update(threshold="0.5"), "threshold"),
    "no threshold": (lambda d, t: d.pop("threshold"), "threshold"),
    "fingerprint": (lambda d, t: d.update(fingerprint="0" * 64), "fingerprint"),
    "design": (lambda d, t: d["problem"]["design"]["matrix"].reverse(), "fingerprint"),
    "no problem": (lambda d, t: d.pop("problem"), "problem"),
    "infinite weight": (infinite, "not finite"),
    "half precision": (halved, "float16"),
    "extra weight": (lambda d, t: t.update(extra=torch.zeros(3)), "weights, and the file holds"),
    "empty weight": (lambda d, t: t.update(extra=torch.zeros(0)), "missing or too many"),
    "lost weight": (lambda d, t: t.pop("output.bias"), "weights, and the file holds"),
    "renamed weight": (lambda d, t: t.update(other=t.pop("output.bias")), "missing or too many"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_forged_files_are_refused_with_the_reason(name: str, tmp_path: Path) -> None:
    change, named = CHANGES[name]
    with pytest.raises(ModelFileError, match=named):
        qgt.load(rewritten(tmp_path, change))


def many_layers(description: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    """A hundred thousand layers one wide, and exactly as many numbers as they would hold."""
    deep = {"kind": "mlp", "hidden": [1] * 100_000, "negative_slope": 0.01, "dropout": 0.1, "batch_norm": True}
    rows = description["problem"]["design"]["matrix"]
    widths = [len(rows), *deep["hidden"], len(rows[0])]
    description["architecture"] = deep
    tensors.clear()
    numbers = sum((a + 1) * b for a, b in itertools.pairwise(widths)) + 4 * 100_000
    tensors["weight"] = torch.zeros(numbers)


def many_blocks(description: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    description["architecture"] = {"kind": "residual", "width": 1, "blocks": MOST_LAYERS + 1}


def many_tensors(description: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    tensors.update({f"t{i}": torch.zeros(0) for i in range(model_file.MOST_TENSORS)})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (many_layers, f"100000 layers: give at most {MOST_LAYERS}"),
        (many_blocks, f"blocks={MOST_LAYERS + 1} is not valid"),
        (many_tensors, "more than 20000 tensors"),
    ],
)
def test_what_a_file_may_cost_is_refused_before_anything_is_built(
    change: Change, named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layers cost memory however few their weights: 2.7 MB would become more than a gigabyte of modules."""
    path = rewritten(tmp_path, change)

    def built(self: object, *given: object, **sizes: object) -> None:
        pytest.fail("a network was built for it")

    monkeypatch.setattr(qgt.MLP, "build", built)
    monkeypatch.setattr(qgt.ResidualMLP, "build", built)
    with pytest.raises(ModelFileError, match=named):
        qgt.load(path)


def test_the_deepest_networks_can_be_saved(tmp_path: Path) -> None:
    """The bounds leave room for all that an architecture allows."""
    for architecture in (qgt.MLP((1,) * MOST_LAYERS), qgt.ResidualMLP(1, MOST_LAYERS)):
        network = architecture.build(small_problem().design, generator=torch.Generator().manual_seed(0)).eval()
        assert len(network.state_dict()) < model_file.MOST_TENSORS
        net = qgt.NeuralDecoder(architecture, network, 0.5, small_problem().spec)
        net.save(tmp_path / "deep")
        assert qgt.load(tmp_path / "deep").training is None


def test_a_deeply_nested_description_is_refused(tmp_path: Path) -> None:
    text, tensors = "[" * 100_000, {"weight": torch.zeros(1)}
    save_file(tensors, tmp_path / MODEL_FILE, {"qgt": text, "sha256": model_file.checksum(text, tensors)})
    with pytest.raises(ModelFileError, match="not JSON"):
        qgt.load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\x80\x04K\x01.", b"PK\x03\x04", b"not a model at all", b"\xff" * 64])
def test_foreign_files_are_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / MODEL_FILE).write_bytes(content)
    with pytest.raises(ModelFileError, match="truncated, altered or not a model"):
        qgt.load(tmp_path)


def test_another_programs_safetensors_is_refused(tmp_path: Path) -> None:
    save_file({"weight": torch.zeros(3)}, tmp_path / MODEL_FILE)
    with pytest.raises(ModelFileError, match="another program"):
        qgt.load(tmp_path)


def test_missing_file_and_size_cap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelFileError, match="cannot be read"):
        qgt.load(tmp_path / "nowhere")
    trained().save(tmp_path)
    monkeypatch.setattr(model_file, "LARGEST_FILE", 100)
    with pytest.raises(ModelFileError, match="larger than"):
        qgt.load(tmp_path)
