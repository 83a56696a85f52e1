"""Training with loads: the loss, what is learned, stacks and checkpoints; and counts are trained as ever."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import qgt
from qgt.learning import training
from qgt.learning.run import TrainingRun
from qgt.learning.steps import AMOUNT_WEIGHT, LOSSES, two_heads

LOADS = qgt.Loads(rate=0.1, mean=3.0, sd=1.5, low=0.0, high=8.0)
CYCLES = qgt.CycleThreshold(sigma=0.25, intercept=37.0, limit=38.0)
SHORT = qgt.TrainConfig(instances=6000, validation=800, batch=200, epochs=8, patience=None, cosine=True)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def problem(pools: int = 12, noise: qgt.Noise = CYCLES) -> qgt.Problem:
    return qgt.Problem(qgt.Design.column_regular(pools=pools, items=20, weight=3, generator=seeded()), LOADS, noise)


def counted() -> qgt.Problem:
    design = qgt.Design.bernoulli(pools=12, items=20, generator=seeded())
    return qgt.Problem(design, qgt.Bernoulli(0.1), qgt.SparseInteger(rate=0.05, bound=1))


def test_the_loss_of_two_heads_is_its_parts_added_up() -> None:
    outputs, draws = torch.randn(2, 5, 6, generator=seeded()), torch.randn(2, 5, 3, generator=seeded(1))
    x = torch.where(draws > 0, draws, -torch.inf)
    for model in range(2):
        total = 0.0
        for i in range(5):
            for j in range(3):
                positive = float(draws[model, i, j] > 0)
                total += float(F.binary_cross_entropy_with_logits(outputs[model, i, j], torch.tensor(positive)))
                if positive:
                    total += AMOUNT_WEIGHT * float(outputs[model, i, 3 + j] - x[model, i, j]) ** 2
        assert float(two_heads(outputs, x)[model]) == pytest.approx(total / 5, rel=1e-5)


def test_negative_items_have_no_gradient_of_amounts() -> None:
    outputs = torch.randn(1, 4, 6, generator=seeded(), requires_grad=True)
    x = torch.full((1, 4, 3), -torch.inf)
    x[0, 0, 1] = 0.3
    two_heads(outputs, x).sum().backward()
    gradient = outputs.grad
    assert gradient is not None
    assert bool(gradient.isfinite().all())
    assert gradient[..., 3:].nonzero().tolist() == [[0, 0, 1]]


@pytest.mark.parametrize(
    ("architecture", "noise"),
    [
        (qgt.MLP((128,)), CYCLES),
        (qgt.MLP((128,)), qgt.Amount(relative=0.1, absolute=1.0)),
        (qgt.ResidualMLP(64, 1), CYCLES),
    ],
    ids=str,
)
def test_learns_which_and_how_much(architecture: qgt.Architecture, noise: qgt.Noise) -> None:
    """Beside two floors: "nothing is positive", and the prior's mean as every amount, whose error is the prior's sd."""
    p = problem(noise=noise)
    net = qgt.train(p, architecture, SHORT, generator=seeded())
    found = p.simulate(2000, generator=seeded(99))
    result = net.bind(p)(found.y)
    floor = qgt.score(found.statuses, torch.zeros_like(result.x)).success_rate
    # Either rate has a standard error of at most 0.011, so a margin of 0.2 is eighteen of them.
    assert qgt.score(found.statuses, result.x).success_rate > floor + 0.2
    assert result.amounts is not None
    right = (found.x > 0) & (result.x == 1)
    error = (result.amounts[right].log10() - found.x[right].log10()).square().mean().sqrt()
    assert float(error) < LOADS.moments[1] / 2
    assert net.training is not None
    assert qgt.Score(20, net.training.test).success_rate > floor + 0.2
    assert net.training.items_covered == 20
    assert net.training.test_seen is not None


@pytest.mark.parametrize(
    "config", [SHORT, qgt.TrainConfig.fresh(steps=200, batch=100, validation=300, missing=0.05)], ids=["fixed", "fresh"]
)
def test_resume_equals_unbroken(config: qgt.TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problems = [problem(12), problem(9)]
    whole = qgt.train_many(problems, qgt.MLP((16,)), config, generator=seeded(7))
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    path = tmp_path / "checkpoint.safetensors"

    def stop(epoch: qgt.Epoch) -> None:
        if epoch.number == 4:
            raise KeyboardInterrupt

    with pytest.raises(qgt.Interrupted):
        qgt.train_many(problems, qgt.MLP((16,)), config, generator=seeded(7), on_epoch=stop, checkpoint=path)
    resumed = qgt.train_many(problems, qgt.MLP((16,)), config, generator=seeded(7), checkpoint=path)
    for a, b in zip(whole, resumed, strict=True):
        assert a.threshold == b.threshold
        ours, theirs = a.network.state_dict(), b.network.state_dict()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_stack_of_unequal_pools_learns_each_problem() -> None:
    problems = [problem(12), problem(9)]
    nets = qgt.train_many(problems, qgt.MLP((128,)), SHORT, generator=seeded())
    for p, net in zip(problems, nets, strict=True):
        found = p.simulate(2000, generator=seeded(99))
        result = net.bind(p)(found.y)
        floor = qgt.score(found.statuses, torch.zeros_like(result.x)).success_rate
        assert qgt.score(found.statuses, result.x).success_rate > floor + 0.15


def test_loads_and_counts_are_not_stacked() -> None:
    with pytest.raises(ValueError, match="with and without loads"):
        qgt.train_many([problem(), counted()], qgt.MLP((8,)), SHORT, generator=seeded())


# --- counts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", [qgt.MLP((32, 16)), qgt.ResidualMLP(16, 1)], ids=repr)
def test_counts_are_trained_as_by_a_plain_loop_bit_by_bit(architecture: qgt.Architecture) -> None:
    """What draws which random numbers, and what is computed of them, is written out here once more."""
    p, config, g = counted(), qgt.TrainConfig(instances=2000, validation=300, batch=200, epochs=3), seeded(5)
    network = architecture.build(p.design, generator=g)
    p.simulate(config.validation, generator=g)
    x, y = p.simulate(2000, generator=g)
    adam = torch.optim.Adam(network.parameters(), lr=config.learning_rate, fused=True)
    for _ in range(config.epochs):
        for rows in torch.randperm(2000, generator=g).split(config.batch):
            loss = LOSSES[architecture.loss](network(y[rows].float()[None], g), x[rows].float()[None])
            adam.zero_grad()
            loss.sum().backward()
            adam.step()
    run = TrainingRun.begin([p], architecture, config, seeded(5))
    while not run.finished:
        run.epoch()
    ours, theirs = network.state_dict(), run.steps.network.state_dict()
    assert set(ours) == set(theirs)
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
