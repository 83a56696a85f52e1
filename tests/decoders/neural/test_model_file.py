"""Networks elsewhere: an ONNX file decodes as the library does, and so do a few lines of torch."""

import json
import sys
from pathlib import Path

import pytest
import torch

import qgt
from qgt.decoders.neural import refining
from qgt.decoders.neural.refining import BELIEF_MARGIN, SETTLED_LOGIT, Answer, RefiningStack

pytestmark = pytest.mark.filterwarnings("ignore:.*treespec:FutureWarning")  # torch's exporter, of torch
PROBLEM = qgt.Problem(
    qgt.Design.bernoulli(pools=12, items=20, generator=torch.Generator().manual_seed(0)),
    qgt.Bernoulli(0.1),
    qgt.SparseInteger(rate=0.05, bound=1),
)


ROUNDS = 7  # the networks here are trained with two: a first try of four, one of two, and one of one


def trained(architecture: qgt.Architecture, missing: float = 0.0) -> qgt.NeuralDecoder:
    config = qgt.TrainConfig.fresh(steps=60, batch=100, validation=200, learning_rate=4e-3, missing=missing)
    net = qgt.train(PROBLEM, architecture, config, generator=torch.Generator().manual_seed(0))
    return net.with_rounds(ROUNDS) if isinstance(architecture, qgt.Refining) else net


def on_an_edge(net: qgt.NeuralDecoder, y: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> torch.Tensor:
    """Instances where rounding may change what a network does next: a logit at 0, or a judge who is torn.

    Only refining networks have such edges: what they call in one round they see in the next.
    """
    if not isinstance(net.network, RefiningStack):
        return torch.zeros(len(y), dtype=torch.bool)
    answers: list[Answer] = []  # of all rounds of all tries, every instance in each

    def told(best: Answer, later: Answer) -> Answer:
        answers.extend([later] if answers else [best, later])
        return or_later(best, later)

    or_later = Answer.or_later
    with monkeypatch.context() as patch, torch.inference_mode():
        patch.setattr(Answer, "or_later", told)
        patch.setattr(refining, "rows_of", lambda mask: torch.arange(mask.shape[1]))
        net.network(y.float()[None])
    assert len(answers) == net.rounds
    scores = torch.stack([one.logits[0] for one in answers])
    belief = torch.stack([one.belief[0] for one in answers])
    gaps = (belief[:, None] - belief).abs()  # (rounds, rounds, instances)
    torn = ((gaps - BELIEF_MARGIN).abs() < 1e-5).any(0).any(0) | ((belief - SETTLED_LOGIT).abs() < 1e-5).any(0)
    return (scores.abs() < 1e-5).any(0).any(1) | torn


@pytest.mark.parametrize(
    ("architecture", "missing"),
    [(qgt.MLP((32,)), 0.0), (qgt.MLP(()), 0.1), (qgt.ResidualMLP(16, 1), 0.1), (qgt.Refining(24, 1, 2), 0.1)],
)
def test_the_file_decodes_as_the_library_does(
    architecture: qgt.Architecture, missing: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = pytest.importorskip("onnxruntime")
    net = trained(architecture, missing)
    net.export(tmp_path / "model.onnx")
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]  # no weights beside it
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(str(tmp_path / "model.onnx"), options)
    g = torch.Generator().manual_seed(5)
    y = PROBLEM.simulate(10_000, generator=g).y
    y[torch.rand(y.shape, generator=g) < missing] = torch.nan
    calls, scores = session.run(["calls", "scores"], {"counts": y.float().numpy()})
    ours = net.bind(PROBLEM)(y)
    assert ours.scores is not None
    edge = on_an_edge(net, y, monkeypatch)
    assert int(edge.sum()) <= 40
    error = (torch.from_numpy(scores).double() - ours.scores).abs()[~edge]
    assert float(error.max()) < 1e-5
    near = (ours.scores - net.threshold).abs() < 1e-5
    same = near | (torch.from_numpy(calls) == ours.x)
    assert bool(same[~edge].all())
    assert int(near.sum()) < 20
    assert 0 < float(ours.x.double().mean()) < 1
    assert session.run(["calls"], {"counts": y[:1].float().numpy()})[0].shape == (1, 20)
    facts = session.get_modelmeta().custom_metadata_map
    assert facts["qgt.problem"] == net.fingerprint
    assert json.loads(facts["qgt.items"])[:2] == ["I1", "I2"]


def test_without_the_extra_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ValueError, match=r"qgt\[onnx\]"):
        trained(qgt.MLP(())).export(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_a_forward_pass_for_people_with_torch(tmp_path: Path) -> None:
    """The lines that the page on training shows."""
    trained(qgt.Refining(16, 1, 2)).save(tmp_path)
    net = qgt.load(tmp_path)
    y = PROBLEM.simulate(50, generator=torch.Generator().manual_seed(1)).y
    with torch.inference_mode():
        scores = net.network(y.float()[None])[0]
    assert torch.equal(scores >= net.threshold, net.bind(PROBLEM)(y).x.bool())
