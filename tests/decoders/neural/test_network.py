"""Architectures: shapes, sizes, initial weights, and stacks that compute what their members compute alone."""

import math

import pytest
import torch
from torch import Generator, nn

import qgt
from qgt.decoders.neural.decoder import ARCHITECTURES
from qgt.decoders.neural.mlp import LEVELS
from qgt.decoders.neural.network import keep_mask, stack

SMALL = [
    qgt.MLP((16, 8)),
    qgt.MLP(()),
    qgt.MLP((8,), batch_norm=False, dropout=0.0),
    qgt.ResidualMLP(16, 2),
    qgt.Refining(16, 2, 3),
]


def seeded(seed: int = 0) -> Generator:
    return torch.Generator().manual_seed(seed)


def design(pools: int, items: int) -> qgt.Design:
    return qgt.Design.bernoulli(pools=pools, items=items, generator=seeded(pools))


def test_levels_are_the_papers() -> None:
    assert LEVELS == ((), (128,), (256,), (256, 256), (500, 500), (256, 512, 256), (128, 256, 512, 256, 128))
    assert qgt.MLP.level(5) == qgt.MLP((500, 500), negative_slope=0.01, dropout=0.1, batch_norm=True)
    for level in (0, 8, True):
        with pytest.raises(ValueError, match="level="):
            qgt.MLP.level(level)


@pytest.mark.parametrize("architecture", SMALL)
def test_parameter_count(architecture: qgt.Architecture) -> None:
    network = architecture.build(design(5, 7), generator=seeded())
    assert sum(t.numel() for t in network.state_dict().values()) == architecture.parameters(pools=5, items=7)


@pytest.mark.parametrize("architecture", SMALL)
def test_weights_come_from_the_generator_alone(architecture: qgt.Architecture) -> None:
    torch.manual_seed(1)
    first = architecture.build(design(5, 7), generator=seeded()).state_dict()
    torch.manual_seed(2)
    again = architecture.build(design(5, 7), generator=seeded()).state_dict()
    other = architecture.build(design(5, 7), generator=seeded(1)).state_dict()
    assert all(torch.equal(first[k], again[k]) for k in first)
    assert any(not torch.equal(first[k], other[k]) for k in first)


def test_initial_weights_have_torchs_distribution() -> None:
    weight = qgt.MLP((400,)).build(design(100, 3), generator=seeded()).state_dict()["layers.0.weight"]
    bound = 1 / math.sqrt(100)  # torch.nn.Linear: uniform within 1 / sqrt(inputs)
    assert weight.abs().max() <= bound
    # 40,000 draws: the standard error of the standard deviation is about 0.0002 bound; five of them.
    assert weight.std().item() == pytest.approx(bound / math.sqrt(3), abs=0.001 * bound * 2)


def test_mlp_equals_the_papers_layers() -> None:
    config = qgt.MLP((16, 8), dropout=0.0)
    network = config.build(design(5, 7), generator=seeded())
    layers: list[nn.Module] = []
    for i, (a, b) in enumerate([(5, 16), (16, 8)]):
        linear, norm = nn.Linear(a, b), nn.BatchNorm1d(b)
        linear.weight.data, linear.bias.data = network.layers[i].weight.data[0], network.layers[i].bias.data[0]
        layers += [linear, nn.LeakyReLU(0.01), norm]
    last = nn.Linear(8, 7)
    last.weight.data, last.bias.data = network.output.weight.data[0], network.output.bias.data[0]
    reference = nn.Sequential(*layers, last)
    y = torch.randn(40, 5, generator=seeded(3))
    for _ in range(3):  # training mode also moves the running statistics
        assert torch.allclose(network(y[None])[0], reference(y), atol=1e-5)
    network.eval()
    reference.eval()
    assert torch.allclose(network(y[None])[0], reference(y), atol=1e-5)


def test_residual_equals_plain_layers() -> None:
    network = qgt.ResidualMLP(16, 2).build(design(5, 7), generator=seeded())
    state = {k: v[0] for k, v in network.state_dict().items()}
    y = torch.randn(9, 5, generator=seeded(3))
    h = y @ state["input.weight"].T + state["input.bias"]
    for i in range(2):
        inner = nn.functional.layer_norm(h, (16,))
        inner = nn.functional.gelu(inner @ state[f"blocks.{i}.widen.weight"].T + state[f"blocks.{i}.widen.bias"])
        h = h + inner @ state[f"blocks.{i}.narrow.weight"].T + state[f"blocks.{i}.narrow.bias"]
    expected = nn.functional.layer_norm(h, (16,)) @ state["output.weight"].T + state["output.bias"]
    assert torch.allclose(network(y[None])[0], expected, atol=1e-5)


@pytest.mark.parametrize("architecture", SMALL)
@pytest.mark.parametrize("mode", ["train", "eval"])
def test_stack_computes_what_its_members_compute(architecture: qgt.Architecture, mode: str) -> None:
    if isinstance(architecture, qgt.MLP):
        architecture = qgt.MLP(architecture.hidden, dropout=0.0, batch_norm=architecture.batch_norm)
    members = [architecture.build(design(m, 7), generator=seeded(m)) for m in (5, 3, 5)]
    alone = [architecture.build(design(m, 7), generator=seeded(m)) for m in (5, 3, 5)]
    together = stack(members)
    y = torch.randn(3, 20, 5, generator=seeded(9))
    y[1, :, 3:] = 0  # the second has three pools
    for network in (together, *alone):
        network.train(mode == "train")
    scores = together(y)
    for i, network in enumerate(alone):
        assert torch.allclose(scores[i], network(y[i : i + 1, :, : 3 if i == 1 else 5])[0], atol=1e-5)


def test_padded_inputs_get_no_gradient() -> None:
    network = stack([qgt.MLP((8,), dropout=0.0).build(design(m, 4), generator=seeded(m)) for m in (5, 3)])
    y = torch.randn(2, 20, 5, generator=seeded())
    y[1, :, 3:] = 0
    network(y).square().sum().backward()
    gradient = network.layers[0].weight.grad
    assert gradient[1, :, 3:].abs().max() == 0
    assert gradient[1, :, :3].abs().max() > 0


def test_dropout_needs_a_generator_and_repeats_with_it() -> None:
    network = qgt.MLP((64,), dropout=0.5).build(design(5, 7), generator=seeded())
    y = torch.randn(1, 8, 5, generator=seeded(1))
    with pytest.raises(ValueError, match="generator"):
        network(y)
    assert torch.equal(network(y, seeded(2)), network(y, seeded(2)))
    assert not torch.equal(network(y, seeded(2)), network(y, seeded(3)))


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.9, 0.999999, 1.0])
def test_keep_mask_has_its_probability(probability: float) -> None:
    mask = keep_mask((1000, 401), probability, seeded())
    assert set(mask.unique().tolist()) <= {0.0, 1.0}
    # 401,000 draws: five standard errors, one false failure in two million.
    assert mask.mean().item() == pytest.approx(probability, abs=5 * 0.5 / math.sqrt(401_000) + 2**-17)
    # Entries cut from one 64-bit draw are as independent as others.
    flat = mask.flatten()[:400_000].view(-1, 4)
    pairs = (flat[:, 0] * flat[:, 1]).mean().item()
    assert pairs == pytest.approx(probability**2, abs=5 * 0.5 / math.sqrt(100_000))


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: qgt.MLP((0,)), "hidden"),
        (lambda: qgt.MLP((5,), dropout=1.0), "dropout"),
        (lambda: qgt.MLP((5,), dropout=-0.1), "dropout"),
        (lambda: qgt.MLP((5,), negative_slope=2.0), "negative_slope"),
        (lambda: qgt.ResidualMLP(0, 1), "width"),
        (lambda: qgt.ResidualMLP(4, -1), "blocks"),
    ],
)
def test_bad_configurations_are_named(make: object, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        make()  # type: ignore[operator]


def test_registry() -> None:
    assert set(ARCHITECTURES) == {"mlp", "refining", "residual"}
