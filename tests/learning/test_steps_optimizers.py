"""Muon: singular values near one, each network by itself, and a step that a formula gives."""

import torch

import qgt
from qgt.decoders.neural.network import stack
from qgt.learning.steps import Optimizers, orthogonal


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_singular_values_become_nearly_one_and_vectors_stay() -> None:
    for shape in ((3, 20, 50), (3, 50, 20), (1, 30, 30)):
        given = torch.randn(shape, generator=seeded(), dtype=torch.float64)
        made = orthogonal(given)
        values = torch.linalg.svdvals(made)
        usual = torch.linalg.svdvals(given) / given.norm(dim=(1, 2))[:, None] > 0.01  # the tiny ones take more steps
        assert float(values[usual].min()) > 0.5
        assert float(values.max()) < 1.3
        left, _, right = torch.linalg.svd(given, full_matrices=False)
        inner = left.mT @ made @ right.mT
        off = inner - torch.diag_embed(inner.diagonal(dim1=1, dim2=2))
        assert float(off.abs().max()) < 1e-6
    assert bool((orthogonal(torch.zeros(1, 3, 3)) == 0).all())


def test_each_model_of_a_stack_is_made_by_itself() -> None:
    given = torch.randn(2, 8, 5, generator=seeded())
    given[1] *= 1000
    assert torch.allclose(orthogonal(given)[0], orthogonal(given[:1])[0], atol=1e-5)
    assert torch.allclose(orthogonal(given)[1], orthogonal(given[1:] / 1000)[0], atol=1e-4)


def test_a_first_step_moves_matrices_by_the_rate() -> None:
    design = qgt.Design.bernoulli(pools=5, items=7, generator=seeded())
    network = stack([qgt.ResidualMLP(8, 1).build(design, generator=seeded())])
    config = qgt.TrainConfig.fresh(steps=100, batch=10, matrix_rate=0.5)
    optimizers = Optimizers.of(network, config, torch.device("cpu"))
    assert len(optimizers.matrices) == 2
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    network(torch.randn(1, 10, 5, generator=seeded(1))).square().sum().backward()
    optimizers.set_rates(config, 0)  # the first of one step of warm-up: the whole rate
    optimizers.step()
    for name, p in network.named_parameters():
        moved = (p - before[name]).detach()
        if name == "blocks.0.widen.weight":  # (1, 16, 8): taller than wide by two
            assert 0.4 * 2**0.5 < float(torch.linalg.svdvals(moved).max()) < 0.65 * 2**0.5
        elif p.dim() == 3 and "blocks" not in name:
            assert float(moved.abs().max()) <= 1.01e-3  # Adam's first step is its rate
    assert len(Optimizers.of(network, qgt.TrainConfig(), torch.device("cpu")).matrices) == 0
