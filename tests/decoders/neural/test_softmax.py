"""A softmax over the values of items with copies and categories: its law, its loss, training, files and ONNX."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import qgt
from qgt.decoders.neural import model_file
from qgt.decoders.neural.heads import Softmax, head_for, stored_head
from qgt.decoders.neural.model_file import MODEL_FILE, checksum
from qgt.decoders.neural.network import Sigmoid
from qgt.decoders.neural.refining import RefiningStack
from qgt.learning.run import _success, _threshold
from qgt.model.categories import PartsPrior

CATEGORIES, COPIES = qgt.Categories((0.1, 0.15)), qgt.Copies(frequency=0.15, ploidy=2)
both = pytest.mark.parametrize("prior", [CATEGORIES, COPIES], ids=["categories", "copies"])
NETWORKS = [qgt.MLP((32,)), qgt.ResidualMLP(24, 1), qgt.Refining(24, 1, 2)]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def problem_of(prior: qgt.Categories | qgt.Copies, pools: int = 10, items: int = 6) -> qgt.Problem:
    return qgt.Problem(qgt.Design.bernoulli(pools=pools, items=items, generator=seeded()), prior)


def trained(
    prior: qgt.Categories | qgt.Copies, architecture: qgt.Architecture | None = None, **settings: Any
) -> qgt.NeuralDecoder:
    config = qgt.TrainConfig.fresh(**{"steps": 200, "batch": 100, "validation": 200, "learning_rate": 4e-3, **settings})
    return qgt.train(problem_of(prior), architecture or qgt.MLP((48,)), config, generator=seeded())


@both
@pytest.mark.parametrize("levels", [1, 2, 3])
def test_scores_are_log_odds(prior: qgt.Categories | qgt.Copies, levels: int) -> None:
    head = Softmax(levels, ordered=prior is COPIES)
    scores = torch.randn(5, 7 * levels, generator=seeded(), dtype=torch.float64)
    each = head.log_probabilities(scores).exp()  # (rows, values, items)
    assert each.shape == (5, levels + 1, 7) and torch.allclose(each.sum(1), torch.ones(5, 7, dtype=torch.float64))
    for value in range(1, levels + 1):
        below = each[:, value - 1] if head.ordered else each[:, 0]
        odds = scores[:, 7 * (value - 1) : 7 * value]
        assert torch.allclose((each[:, value] / below).log(), odds)
    assert torch.allclose(head.shares(head.marginals(scores)), each)
    assert torch.allclose(head.logits(head.marginals(0.5 * scores)), 0.5 * scores)
    best = each.argmax(1)
    assert torch.equal(head.values(scores), best.to(torch.uint8))
    assert int(head.values(scores, threshold=1.0).sum()) < int(best.sum()) < int(head.values(scores, -1.0).sum())
    parts = [best >= value if head.ordered else best == value for value in range(1, levels + 1)]
    assert torch.equal(head.calls(scores), torch.cat(parts, 1))
    assert torch.allclose(head.doubt(scores), -each.amax(1).log().sum(1))


@both
def test_the_loss_is_the_cross_entropy_of_values(prior: qgt.Categories | qgt.Copies) -> None:
    head = head_for(PartsPrior(prior))
    assert isinstance(head, Softmax)
    x = prior.sample(20, 6, generator=seeded())
    scores = torch.randn(1, 20, 12, generator=seeded(1))
    loss = head.cross_entropy(scores, prior.to_parts(x)[None].float())
    wanted = torch.nn.functional.cross_entropy(head.log_probabilities(scores[0]), x.long(), reduction="sum") / 20
    assert torch.allclose(loss, wanted[None])


@both
@pytest.mark.parametrize("architecture", NETWORKS, ids=lambda one: type(one).__name__)
def test_networks_call_values_by_their_odds(
    prior: qgt.Categories | qgt.Copies, architecture: qgt.Architecture, tmp_path: Path
) -> None:
    problem, net = problem_of(prior), trained(prior, architecture)
    x, y = problem.simulate(500, generator=seeded(1))
    result = net.bind(problem)(y)
    values = result.evidence.values
    assert values is not None and result.scores is not None
    assert torch.allclose(values.sum(2), torch.ones(500, 6, dtype=torch.float64))
    odds = (values[:, :, 1:].amax(2) / values[:, :, 0]).log()
    assert torch.equal(torch.where(odds >= net.threshold, values[:, :, 1:].argmax(2) + 1, 0).to(torch.uint8), result.x)
    assert torch.allclose(result.scores, 1 - values[:, :, 0])
    # Calling nothing is right for 18 or 14 of 100 instances.
    assert (result.x == x).all(1).double().mean() > 0.5
    net.save(tmp_path)
    again = qgt.load(tmp_path)
    assert again.network.head == net.network.head
    assert torch.equal(again.bind(problem)(y).x, result.x)
    description, _ = model_file.read_model(tmp_path / MODEL_FILE)
    assert (description["format"], description["head"]) == (4, "softmax")


@both
def test_probabilities_are_calibrated_where_training_suffices(prior: qgt.Categories | qgt.Copies) -> None:
    problem, net = problem_of(prior), trained(prior, steps=600)
    x, y = problem.simulate(4000, generator=seeded(2))
    values = net.bind(problem)(y).evidence.values
    assert values is not None
    sure = values.amax(2)
    right = (values.argmax(2) == x).double()
    # 24,000 items: a mean over them is off by 0.005 at most, but for a chance of 1e-6.
    assert abs(float(right.mean() - sure.mean())) < 0.02


@both
def test_no_threshold_decodes_more(prior: qgt.Categories | qgt.Copies) -> None:
    head, x = head_for(PartsPrior(prior)), prior.sample(300, 6, generator=seeded())
    assert isinstance(head, Softmax)
    parts = prior.to_parts(x)
    scores = 6 * parts.float() - 4 + torch.randn(300, 12, generator=seeded(1))
    found = _threshold(head, scores, parts)
    each = [
        float((head.values(scores, t) == x).all(1).double().mean())
        for t in (found, *torch.arange(-6, 4, 0.01).tolist())
    ]
    assert each[0] >= max(each[1:]) > 0.5
    assert _success(head, scores, parts) == each[0]


def test_a_refining_network_starts_at_the_rates() -> None:
    net = trained(CATEGORIES, qgt.Refining(8, 1, 1), steps=1)
    assert isinstance(net.network, RefiningStack)
    shares = net.network.head.marginals(net.network.output.bias.detach())[0]
    assert torch.allclose(shares[:6].mean(), torch.tensor(0.1), atol=0.03)
    assert torch.allclose(shares[6:].mean(), torch.tensor(0.15), atol=0.03)


@both
def test_its_jacobian_shows_the_design(prior: qgt.Categories | qgt.Copies) -> None:
    problem = problem_of(prior, pools=8, items=12)
    config = qgt.TrainConfig.fresh(steps=600, batch=200, validation=500, learning_rate=4e-3)
    net = qgt.train(problem, qgt.MLP((64, 64)), config, generator=seeded(1))
    report = qgt.verify(net, problem, estimator="least_squares", generator=seeded(3))
    assert report.error_percent < 15.0  # half of all entries would be wrong by chance
    assert qgt.verify(net, problem, generator=seeded(3)).error_percent < 5.0


def test_files_of_older_versions_have_a_sigmoid_for_each_part(tmp_path: Path) -> None:
    trained(CATEGORIES).save(tmp_path)
    description, weights = model_file.read_model(tmp_path / MODEL_FILE)
    del description["head"]
    text = json.dumps({**description, "format": 3, "threshold": 0.5})
    file = tmp_path / "old.safetensors"
    model_file.write_tensors(file, weights, {"qgt": text, "sha256": checksum(text, weights)})
    net, problem = qgt.load(file), problem_of(CATEGORIES)
    assert net.network.head == Sigmoid()
    result = net.bind(problem)(problem.simulate(50, generator=seeded()).y)
    assert result.evidence.values is None and int(result.x.max()) <= 2


@pytest.mark.parametrize("name", ["softmax", "argmax"])
def test_other_heads_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"head='{name}' is not valid"):
        stored_head({"design": {}, "prior": {"kind": "bernoulli", "rate": 0.1}, "noise": {}}, name)


def test_problems_of_different_values_are_not_stacked() -> None:
    problems = [problem_of(CATEGORIES), problem_of(COPIES)]
    with pytest.raises(ValueError, match="different heads"):
        qgt.train_many(problems, qgt.MLP((8,)), qgt.TrainConfig.fresh(steps=1, batch=8), generator=seeded())


@both
@pytest.mark.filterwarnings("ignore:.*treespec:FutureWarning")  # torch's exporter, of torch
def test_an_onnx_file_gives_values_and_their_probabilities(prior: qgt.Categories | qgt.Copies, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    problem, net = problem_of(prior), trained(prior)
    net.export(tmp_path / "model.onnx")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"), options)
    y = problem.simulate(200, generator=seeded(4)).y
    calls, scores = session.run(["calls", "scores"], {"counts": prior.part_reports(y).float().numpy()})
    ours = net.bind(problem)(y)
    assert ours.evidence.values is not None
    assert float((torch.from_numpy(scores).double() - ours.evidence.values).abs().max()) < 1e-5
    assert torch.equal(torch.from_numpy(calls), ours.x)
    facts = session.get_modelmeta().custom_metadata_map
    assert json.loads(facts["qgt.items"]) == ["I1", "I2", "I3", "I4", "I5", "I6"]
