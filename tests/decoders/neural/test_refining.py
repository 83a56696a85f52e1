"""The refining network: it computes what it says it does, and finds more answers the longer it is let."""

from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor

import qgt
from qgt.decoders.neural.decoder import raw_scores
from qgt.decoders.neural.refining import BELIEF_MARGIN, RefiningStack


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def problem(noise: qgt.Noise = qgt.SparseInteger(rate=0.05, bound=1)) -> qgt.Problem:  # noqa: B008 - frozen
    return qgt.Problem(qgt.Design.bernoulli(pools=12, items=20, generator=seeded()), qgt.Bernoulli(0.1), noise)


def built(rounds: int = 3, missing: bool = False) -> RefiningStack:
    """A network with weights other than those it begins with, prepared on instances."""
    network = qgt.Refining(16, 2, rounds).build(problem().design, missing=missing, generator=seeded())
    assert isinstance(network, RefiningStack)
    for parameter in network.parameters():
        parameter.data += 0.2 * torch.randn(parameter.shape, generator=seeded(parameter.numel()))
    x, y = problem().simulate(500, generator=seeded(1))
    network.prepare(x[None], y.float()[None])
    return network.eval()


@cache
def trained(missing: float = 0.0) -> qgt.NeuralDecoder:
    config = qgt.TrainConfig.fresh(steps=300, batch=200, learning_rate=2e-3, validation=500, missing=missing)
    return qgt.train(problem(), qgt.Refining(48, 1, 3), config, generator=seeded())


def success(net: qgt.NeuralDecoder, y: Tensor | None = None) -> float:
    x, counts = net.problem.simulate(2000, generator=seeded(99))
    return qgt.score(x, net.bind(net.problem)(counts if y is None else y).x).success_rate


def test_a_round_is_the_formula() -> None:
    network, state = built(2), {name: tensor[0] for name, tensor in built(2).state_dict().items()}
    matrix = problem().design.matrix.float()
    y = problem().simulate(9, generator=seeded(3)).y.float()

    def affine(name: str, h: Tensor) -> Tensor:
        return h @ state[f"{name}.weight"].T + state[f"{name}.bias"]

    def norm(h: Tensor) -> Tensor:
        return (h - h.mean(1, keepdim=True)) / (h.var(1, unbiased=False, keepdim=True) + 1e-5).sqrt()

    def blocks(h: Tensor) -> Tensor:
        for i in range(2):
            h = h + affine(f"blocks.{i}.narrow", torch.nn.functional.gelu(affine(f"blocks.{i}.widen", norm(h))))
        return h

    def left(x: Tensor) -> Tensor:
        return z - (x @ matrix.T * state["slope"] + state["level"])

    z = (y - state["mean"]) * state["scale"]
    begun = affine("counts", z)
    h = blocks(begun)
    first = affine("output", norm(h))
    p = torch.sigmoid(first)
    h = (h + begun) / 2 + affine("soft", left(p)) + affine("hard", left((p > 0.5).float()))
    second = affine("output", norm(blocks(h + affine("guess", torch.cat([p, first / 5], 1)))))
    rounds = network.rounds(y[None])
    assert torch.allclose(rounds.scores[0, 0], first, atol=1e-4)
    assert torch.allclose(rounds.scores[1, 0], second, atol=1e-4)


def test_the_answer_is_the_round_that_the_judge_believes_in_most() -> None:
    network = built(6)
    network.requires_grad_(False).judge[1].weight *= 30  # a judge with opinions
    y = problem().simulate(200, generator=seeded(4)).y.float()[None]
    rounds = network.rounds(y)
    assert rounds.belief is not None
    belief, each = rounds.belief[:, 0], torch.arange(200)
    chosen = belief.argmax(0)
    assert len(chosen.unique()) > 2  # or this shows nothing
    first, second = belief.topk(2, dim=0).values
    clear = first - second > 6 * BELIEF_MARGIN
    assert int(clear.sum()) > 50
    assert torch.equal(network(y)[0][clear], rounds.scores[chosen, 0, each][clear])
    picked = (network(y) == rounds.scores[:, 0]).all(2)  # (rounds, instances)
    assert bool(picked.any(0).all())
    assert float((first - torch.where(picked, belief, -torch.inf).amax(0)).max()) < 6 * BELIEF_MARGIN


def test_the_judge_teaches_itself_only() -> None:
    network = built()
    y = problem().simulate(20, generator=seeded(4)).y.float()[None]
    belief = network.rounds(y).belief
    assert belief is not None
    belief.sum().backward()
    moved = {name.split(".")[0] for name, p in network.named_parameters() if p.grad is not None and bool(p.grad.any())}
    assert moved == {"judge"}


@pytest.mark.parametrize("noise", [qgt.Noiseless(), qgt.Reads(depth=10_000, error=0.0)])
def test_the_truth_leaves_nothing_of_the_counts(noise: qgt.Noise) -> None:
    """Reads, too, lie on a line: what is left of them is their scatter, far below a standard deviation."""
    p = problem(noise)
    network = qgt.Refining(8, 1, 2).build(p.design, generator=seeded())
    assert isinstance(network, RefiningStack)
    x, y = p.simulate(2000, generator=seeded(1))
    network.prepare(x[None], y.float()[None])
    counts = network._read(y.float()[None])
    assert float(counts.z.std()) == pytest.approx(1.0, abs=0.05)
    left = network._left(counts, x.float()[None])
    assert float(left.abs().max()) < (1e-3 if isinstance(noise, qgt.Noiseless) else 0.3)
    nobody = network._left(counts, torch.zeros_like(x).float()[None])
    assert float(nobody.abs().mean()) > 0.5


def test_it_learns_and_more_rounds_find_more() -> None:
    net = trained()
    x = problem().simulate(2000, generator=seeded(99)).x
    floor = qgt.score(x, torch.zeros_like(x)).success_rate  # 0.14: nothing is defective
    once, as_trained, longer = success(net.with_rounds(1)), success(net), success(net.with_rounds(9))
    assert once > floor + 0.3
    assert as_trained > once + 0.02  # two standard errors of the difference on the same instances
    assert longer >= as_trained


def test_rounds_go_through_files(tmp_path: Path) -> None:
    net = trained()
    assert net.rounds is None
    longer = net.with_rounds(7)
    assert net.network.repeats == 3  # the network that was given stays as it was
    longer.save(tmp_path / "longer")
    net.save(tmp_path / "plain")
    again = qgt.load(tmp_path / "longer")
    assert (again.rounds, again.architecture, qgt.load(tmp_path / "plain").rounds) == (7, net.architecture, None)
    y = problem().simulate(100, generator=seeded(5)).y
    assert torch.equal(raw_scores(again.network, y), raw_scores(longer.network, y))
    for wrong in (0, 1001):
        with pytest.raises(ValueError, match="rounds="):
            net.with_rounds(wrong)


def test_only_refining_networks_have_rounds() -> None:
    network = qgt.MLP((8,)).build(problem().design, generator=seeded())
    net = qgt.NeuralDecoder(qgt.MLP((8,)), network, 0.5, problem().spec)
    with pytest.raises(ValueError, match="only Refining"):
        net.with_rounds(3)


def test_the_design_is_read_back() -> None:
    net = trained()
    report = qgt.verify(net, problem(), instances=300, generator=seeded(1))
    assert report.error_percent == 0.0
    assert report.agrees


def test_a_design_too_large_for_a_matrix_is_refused() -> None:
    design = qgt.Design.from_lists([[0]] * 3000, items=100_000)
    with pytest.raises(ValueError, match="too large for Refining"):
        qgt.Refining(1, 1, 1).build(design, generator=seeded())


@pytest.mark.parametrize("architecture", [qgt.MLP((32,)), qgt.MLP(()), qgt.ResidualMLP(16, 1), qgt.Refining(16, 1, 2)])
def test_a_missing_count_says_nothing_but_that_it_is_missing(architecture: qgt.Architecture) -> None:
    design = problem().design
    network = architecture.build(design, missing=True, generator=seeded()).eval()
    plain = architecture.build(design, generator=seeded()).eval()
    with torch.no_grad():
        for one in (network, plain):  # some weights begin as zeros
            one.output.weight += torch.randn(one.output.weight.shape, generator=seeded(8))
    size = sum(tensor.numel() for tensor in network.state_dict().values())
    assert size == architecture.parameters(pools=12, items=20, missing=True)
    y = problem().simulate(6, generator=seeded(1)).y.float()[None]
    assert torch.equal(network(y), plain(y))  # with all counts there, it is the same network
    with torch.no_grad():
        network.absent += 0.1
    assert torch.equal(network(y), plain(y))
    holes = y.clone()
    holes[0, :, 3] = torch.nan
    assert bool(network(holes).isfinite().all())
    other = holes.clone()
    other[0, :, 5] = torch.nan
    assert not torch.allclose(network(holes), network(other))


def test_a_network_trained_with_gaps_takes_them_and_another_says_why_not(tmp_path: Path) -> None:
    x, y = problem().simulate(2000, generator=seeded(99))
    y[torch.rand(y.shape, generator=seeded(5)) < 0.08] = torch.nan
    net = trained(missing=0.08)
    net.save(tmp_path)
    again = qgt.load(tmp_path)
    found = again.bind(problem())(y)
    # As zeros the missing counts would mislead it: whoever ignores the mask does worse, by ten standard errors.
    misled = net.bind(problem())(y.nan_to_num(0.0)).x
    assert qgt.score(x, found.x).success_rate > qgt.score(x, misled).success_rate + 0.1
    with pytest.raises(ValueError, match=r"y\[\d+, \d+\]=nan is a missing count, and this network was trained without"):
        trained().bind(problem())(y)
