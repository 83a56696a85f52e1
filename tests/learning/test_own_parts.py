"""Priors and architectures of one's own, written in a script or a notebook: trained, verified, saved, loaded."""

import copy
from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn

import qgt
from qgt.decoders.neural.network import AnyModule, number_of_weights

CONFIG = qgt.TrainConfig(instances=2000, validation=200, batch=100, epochs=8)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@dataclass(frozen=True)
class Wave:
    """A run of neighbours."""

    length: int

    def sample(self, instances, items, *, generator):
        start = torch.randint(items - self.length + 1, (instances, 1), generator=generator)
        position = torch.arange(items)
        return ((position >= start) & (position < start + self.length)).to(torch.uint8)


Wave.__module__ = "__main__"  # where a notebook's classes are


@dataclass(frozen=True)
class Wide:
    """A layer with batch normalisation, which counts its batches in a whole number."""

    width: int = 32
    loss = "binary_cross_entropy"

    def build(self, design, *, generator):
        inside = nn.Linear(design.pools, self.width), nn.BatchNorm1d(self.width), nn.ReLU()
        return nn.Sequential(*inside, nn.Linear(self.width, design.items))


@pytest.fixture(scope="module")
def problem() -> qgt.Problem:
    design = qgt.Design.bernoulli(pools=10, items=12, generator=seeded())
    return qgt.Problem(design, Wave(2))


@pytest.fixture(scope="module")
def net(problem) -> qgt.NeuralDecoder:
    torch.manual_seed(0)
    return qgt.train(problem, Wide(), CONFIG, generator=seeded())


def test_a_module_of_torch_learns_and_its_design_is_recovered(net, problem):
    assert net.training is not None
    assert qgt.Score(problem.items, net.training.test).success_rate > 0.9  # 1 in 11 by chance
    report = qgt.verify(net, problem, instances=500, generator=seeded(1))
    assert report.instances == 500 and net.problem is problem
    assert report.error_percent < report.constant_percent


def test_a_false_claim_about_a_notebooks_problem_is_found_out(net, problem):
    swapped = problem.design.matrix.clone()
    swapped[[0, 5]] = swapped[[5, 0]]
    claim = qgt.Problem(qgt.Design.from_matrix(swapped), Wave(2))
    y = problem.simulate(500, generator=seeded(2)).y
    report, right = (qgt.verify(net, p, counts=y, estimator="regression") for p in (claim, problem))
    assert report.error_percent > right.error_percent


def test_a_class_of_a_notebook_is_in_no_file(net, tmp_path):
    with pytest.raises(ValueError, match="__main__:Wave cannot be named in a file: move the class"):
        net.save(tmp_path / "net")
    assert not (tmp_path / "net").exists()


@pytest.mark.usefixtures("no_plugins")
def test_an_architecture_of_a_plugin_is_saved_and_loaded(tmp_path, monkeypatch):
    (tmp_path / "widths.py").write_text(
        "from dataclasses import dataclass\nfrom torch import nn\n\n\n@dataclass(frozen=True)\nclass Wide:\n"
        '    width: int\n    loss = "binary_cross_entropy"\n\n    def build(self, design, *, generator):\n'
        "        inside = nn.Linear(design.pools, self.width), nn.BatchNorm1d(self.width), nn.ReLU()\n"
        "        return nn.Sequential(*inside, nn.Linear(self.width, design.items))\n"
    )
    wide = qgt.load_plugin(tmp_path / "widths.py").classes["Wide"](16)
    design = qgt.Design.bernoulli(pools=10, items=12, generator=seeded())
    problem = qgt.Problem(design, qgt.Bernoulli(0.1))
    assert number_of_weights(wide, design) == (10 + 1) * 16 + 4 * 16 + 1 + (16 + 1) * 12  # and a count of batches
    net = qgt.train(problem, wide, CONFIG, generator=seeded())
    net.save(tmp_path / "net")
    again = qgt.load(tmp_path / "net")
    y = problem.simulate(50, generator=seeded(3)).y
    torch.testing.assert_close(again.bind(problem)(y).scores, net.bind(problem)(y).scores)
    assert again.problem.fingerprint == problem.fingerprint


def test_networks_of_ones_own_are_trained_side_by_side(problem):
    nets = qgt.train_many([problem, problem], Wide(8), CONFIG, generator=seeded())
    y = problem.simulate(5, generator=seeded(2)).y
    assert all(net.bind(problem)(y).x.shape == (5, 12) for net in nets)


def test_a_stack_computes_what_its_modules_do():
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 5))
    network = AnyModule(copy.deepcopy(module), missing=False)
    y = torch.rand(1, 7, 3)
    torch.testing.assert_close(network(y)[0], module(y[0]))
    torch.testing.assert_close(network.eval()(y)[0], module.eval()(y[0]))  # running statistics too
    assert all(tensor.shape[0] == 1 and tensor.is_floating_point() for tensor in network.state_dict().values())


@dataclass(frozen=True)
class Faulty:
    made: str
    loss: str = "binary_cross_entropy"

    def build(self, design, *, generator):
        return {"narrow": nn.Linear(design.pools, 3), "text": "text", "fine": nn.Linear(design.pools, design.items)}[
            self.made
        ]


@pytest.mark.parametrize(
    "architecture, config, words",
    [
        (Faulty("narrow"), CONFIG, r"turns \(2, 10\) into \(2, 3\): it must give \(2, 12\), one score for each item"),
        (Faulty("text"), CONFIG, "build returned str: return a torch.nn.Module"),
        (Faulty("fine", loss="hinge"), CONFIG, "loss='hinge' of .* is not known: give one of balanced_mse"),
        (Faulty("fine"), replace(CONFIG, missing=0.1), "not made for missing counts: give its build the keyword"),
    ],
)
def test_what_is_wrong_with_an_architecture_is_said(problem, architecture, config, words):
    with pytest.raises(ValueError, match=words):
        qgt.train(problem, architecture, config, generator=seeded())
