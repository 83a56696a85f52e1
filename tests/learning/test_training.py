"""Training: it learns, stops early at its best, stacks without mixing, and resumes to the very same bytes."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Generator

import qgt
from qgt.decoders.neural.decoder import raw_scores
from qgt.decoders.neural.model_file import write_tensors
from qgt.files import codec
from qgt.learning import checkpoints, training
from qgt.learning.checkpoints import Progress
from qgt.learning.run import TrainingRun
from qgt.trust.metrics import score
from qgt.version import provenance


def problem(seed: int = 0, pools: int = 12, items: int = 20, rate: float = 0.05) -> qgt.Problem:
    design = qgt.Design.bernoulli(pools=pools, items=items, generator=torch.Generator().manual_seed(seed))
    return qgt.Problem(design, qgt.Bernoulli(0.1), qgt.SparseInteger(rate=rate, bound=1))


def seeded(seed: int = 0) -> Generator:
    return torch.Generator().manual_seed(seed)


def record(net: qgt.NeuralDecoder) -> qgt.Training:
    assert net.training is not None
    return net.training


def timeless(told: qgt.Training) -> qgt.Training:
    """A record without what no two trainings share."""
    return replace(told, history=tuple(replace(epoch, seconds=0.0) for epoch in told.history))


SHORT = qgt.TrainConfig(instances=4000, validation=800, batch=200, epochs=12, patience=3)


def success(net: qgt.NeuralDecoder) -> float:
    x, y = net.problem.simulate(2000, generator=seeded(99))
    return score(x, net.bind(net.problem)(y).x).success_rate


def floor(p: qgt.Problem) -> float:
    """What a network that learned nothing reaches: "nothing is defective", the best answer that ignores the counts.

    On the same instances as `success`; 0.14 for `problem()`. Either rate has a standard error of at most 0.011, so a
    margin of 0.1 is nine of them.
    """
    x = p.simulate(2000, generator=seeded(99)).x
    return score(x, torch.zeros_like(x)).success_rate


def test_a_network_that_learned_nothing_stays_at_the_floor() -> None:
    """So that the margins below mean something."""
    p = problem()
    network = qgt.MLP((64, 64)).build(p.design, generator=seeded()).eval()
    x, y = p.simulate(2000, generator=seeded(1))
    net = qgt.NeuralDecoder(qgt.MLP((64, 64)), network, qgt.best_threshold(raw_scores(network, y), x), p.spec)
    assert success(net) <= floor(p) + 0.05


def test_learns_far_beyond_the_floor() -> None:
    p = problem()
    net = qgt.train(p, qgt.MLP((64, 64)), SHORT, generator=seeded())
    assert success(net) > floor(p) + 0.5


def test_fresh_data_trains_the_residual_network() -> None:
    config = qgt.TrainConfig.fresh(steps=300, batch=200, learning_rate=4e-3, validation=500)
    net = qgt.train(problem(), qgt.ResidualMLP(64, 2), config, generator=seeded())
    history = record(net).history
    assert len(history) == 100
    assert record(net).steps == 300
    assert history[-1].validation_loss < 0.5 * history[0].validation_loss
    assert success(net) > floor(problem()) + 0.5


@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("batch_norm", [True, False])
def test_every_kind_of_mlp_trains(batch_norm: bool, dropout: float) -> None:
    network = qgt.MLP((64,), dropout=dropout, batch_norm=batch_norm)
    assert success(qgt.train(problem(), network, SHORT, generator=seeded())) > floor(problem()) + 0.1


def test_cosine_schedule_warms_up_and_ends_near_zero() -> None:
    config = qgt.TrainConfig.fresh(steps=1000, batch=10, learning_rate=1.0)
    rates = [config.rate_at(step) for step in range(1000)]
    assert rates[0] == pytest.approx(0.1, rel=0.01)  # a tenth of the way through ten steps of warm-up
    assert max(rates) == pytest.approx(1.0, rel=0.01)
    assert rates[999] < 1e-4
    assert replace(SHORT).rate_at(0) == SHORT.rate_at(10_000) == SHORT.learning_rate


def test_any_prior_will_do() -> None:
    households = qgt.Problem(problem().design, qgt.Households(size=4, seed_rate=0.2, attack_rate=0.5))
    net = qgt.train(households, qgt.MLP((64,)), SHORT, generator=seeded())
    assert success(net) > floor(households) + 0.35  # the floor is 0.37 here


def test_progress_is_told_each_epoch() -> None:
    seen: list[qgt.Epoch] = []
    net = qgt.train(problem(), qgt.MLP((16,)), SHORT, generator=seeded(), on_epoch=seen.append)
    assert [epoch.number for epoch in seen] == list(range(1, len(seen) + 1))
    assert record(net).history == tuple(seen)  # of a stack of one the means are the values
    assert seen[0].best


def test_early_stopping_restores_the_best() -> None:
    config = replace(SHORT, instances=300, epochs=60, patience=4, learning_rate=1e-2)  # small data: it overfits
    states: list[dict[str, torch.Tensor]] = []
    p = problem()
    run = TrainingRun.begin([p], qgt.MLP((128,)), config, seeded())
    while not run.finished:
        run.epoch()
        states.append({k: v.clone() for k, v in run.steps.network.state_dict().items()})
    losses = [epoch.validation_loss for epoch in run.history[0]]
    best = min(range(len(losses)), key=losses.__getitem__)
    assert len(losses) == best + 1 + 4 < 60  # patience ran out, exactly
    assert [epoch.best for epoch in run.history[0]][best:] == [True, False, False, False, False]
    decoder = run.decoders()[0]
    assert record(decoder).stopped_early
    assert all(torch.equal(decoder.network.state_dict()[k], states[best][k]) for k in states[best])
    assert any(not torch.equal(states[-1][k], states[best][k]) for k in states[best])


def test_threshold_is_the_best_on_the_validation_instances() -> None:
    run = TrainingRun.begin([problem()], qgt.MLP((32,)), replace(SHORT, epochs=2), seeded())
    while not run.finished:
        run.epoch()
    decoder = run.decoders()[0]
    x, y = run.data.validation_of(0)
    scores = decoder.bind(decoder.problem)(y.double()).scores
    rates = [(((scores >= tau) == x.bool()).all(1)).double().mean() for tau in torch.linspace(-0.5, 1.5, 400)]
    own = (((scores >= decoder.threshold) == x.bool()).all(1)).double().mean()
    assert own >= max(rates)


def test_same_seed_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        qgt.train(problem(), qgt.MLP((16,)), replace(SHORT, epochs=3), generator=seeded()).save(tmp_path / name)
    a, b = (qgt.load(tmp_path / name) for name in ("a", "b"))
    assert all(torch.equal(v, b.network.state_dict()[k]) for k, v in a.network.state_dict().items())
    assert a.threshold == b.threshold


def test_global_random_state_is_untouched() -> None:
    before = torch.random.get_rng_state()
    qgt.train(problem(), qgt.MLP((16,)), replace(SHORT, epochs=1), generator=seeded())
    assert torch.equal(torch.random.get_rng_state(), before)


class StopAfter:
    """A callback that ends a run the hard way after some epochs."""

    def __init__(self, epochs: int, error: type[BaseException]) -> None:
        self.epochs, self.error = epochs, error

    def __call__(self, epoch: qgt.Epoch) -> None:
        if epoch.number == self.epochs:
            raise self.error


@pytest.mark.parametrize("architecture", [qgt.MLP((32,)), qgt.ResidualMLP(16, 1), qgt.Refining(16, 1, 2)])
def test_resume_equals_unbroken(
    architecture: qgt.Architecture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    config = replace(SHORT, epochs=8)
    if not isinstance(architecture, qgt.MLP):
        config = replace(config, instances=None, steps=10, patience=None, matrix_rate=0.02, missing=0.1)
    problems = [problem(1), problem(2)]
    whole = qgt.train_many(problems, architecture, config, generator=seeded())
    path = tmp_path / "checkpoint.safetensors"
    for stop in (3, 5):  # broken twice
        with pytest.raises(RuntimeError):
            qgt.train_many(
                problems,
                architecture,
                config,
                generator=seeded(),
                on_epoch=StopAfter(stop, RuntimeError),
                checkpoint=path,
            )
    resumed = qgt.train_many(problems, architecture, config, generator=seeded(7), checkpoint=path)
    for a, b in zip(whole, resumed, strict=True):
        for name, tensor in a.network.state_dict().items():
            assert tensor.numpy().tobytes() == b.network.state_dict()[name].numpy().tobytes(), name
        assert a.threshold == b.threshold
        assert timeless(record(a)) == timeless(record(b))


def test_checkpoint_of_other_work_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    path = tmp_path / "checkpoint.safetensors"
    config = replace(SHORT, epochs=2)
    qgt.train(problem(), qgt.MLP((8,)), config, generator=seeded(), checkpoint=path)
    for other, named in [
        ((problem(5), qgt.MLP((8,)), config), "another problem"),
        ((problem(), qgt.MLP((9,)), config), "architecture"),
        ((problem(), qgt.MLP((8,)), replace(config, batch=100)), "config"),
    ]:
        with pytest.raises(ValueError, match=named):
            qgt.train(*other, generator=seeded(), checkpoint=path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ValueError, match="is not a checkpoint"):
        checkpoints.read_checkpoint(path, {})


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors, progress: tensors.pop("waited"),
        lambda tensors, progress: tensors.update(covered=torch.zeros(3, dtype=torch.bool)),
        lambda tensors, progress: progress.pop("number"),
        lambda tensors, progress: progress.update(history=[[{"number": 1}]]),
        lambda tensors, progress: progress.update(seed="0"),
    ],
)
def test_a_checkpoint_with_the_wrong_content_is_refused(
    change: Callable[[dict[str, object], dict[str, object]], object], tmp_path: Path
) -> None:
    path, config = tmp_path / "checkpoint.safetensors", replace(SHORT, epochs=2)
    run = TrainingRun.begin([problem()], qgt.MLP((8,)), config, seeded())
    run.epoch()
    tensors, progress = dict(run.state().tensors), codec.encode_table("progress", run.state().progress, Progress)
    change(tensors, progress)
    identity = training._identity([problem()], qgt.MLP((8,)), config, seeded())
    text = json.dumps({"identity": identity, "progress": progress})
    write_tensors(path, tensors, {checkpoints.KEY: text})
    with pytest.raises(ValueError, match="is not a checkpoint"):
        qgt.train(problem(), qgt.MLP((8,)), config, generator=seeded(), checkpoint=path)


def test_interrupt_carries_the_best_so_far() -> None:
    stop = StopAfter(2, KeyboardInterrupt)
    with pytest.raises(qgt.Interrupted) as stopped:
        qgt.train(problem(), qgt.MLP((32,)), SHORT, generator=seeded(), on_epoch=stop)
    (net,) = stopped.value.decoders
    assert isinstance(stopped.value, KeyboardInterrupt)  # who does not catch it stops, as for any Ctrl-C
    assert record(net).interrupted
    assert not record(net).stopped_early
    assert record(net).epochs == 2
    assert success(net) > floor(problem()) + 0.1


def test_an_interrupt_with_nothing_to_keep_is_the_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    diverging = replace(SHORT, learning_rate=1e38)
    stop = StopAfter(1, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt) as stopped:
        qgt.train(problem(), qgt.MLP((8,)), diverging, generator=seeded(), on_epoch=stop)
    assert not isinstance(stopped.value, qgt.Interrupted)

    def at_once(run: TrainingRun) -> qgt.Epoch:
        raise KeyboardInterrupt

    monkeypatch.setattr(TrainingRun, "epoch", at_once)
    with pytest.raises(KeyboardInterrupt) as stopped:
        qgt.train(problem(), qgt.MLP((8,)), SHORT, generator=seeded())
    assert not isinstance(stopped.value, qgt.Interrupted)


def test_divergence_is_named_and_leaves_no_checkpoint(tmp_path: Path) -> None:
    path, config = tmp_path / "checkpoint.safetensors", replace(SHORT, epochs=2, learning_rate=1e38)
    with pytest.raises(ValueError, match="learning_rate"):
        qgt.train(problem(), qgt.MLP((8,)), config, generator=seeded(), checkpoint=path)
    assert not list(tmp_path.iterdir())
    qgt.train(problem(), qgt.MLP((8,)), replace(config, learning_rate=1e-3), generator=seeded(), checkpoint=path)


def test_an_epoch_that_diverged_after_good_ones_is_recorded_and_saved(tmp_path: Path) -> None:
    run = TrainingRun.begin([problem()], qgt.MLP((8,)), replace(SHORT, epochs=2), seeded())
    run.epoch()
    for group in run.steps.optimizers.adam.param_groups:
        group["lr"] = 1e38
    object.__setattr__(run.config, "learning_rate", 1e38)
    run.epoch()
    net = run.decoders()[0]
    assert math.isnan(record(net).history[1].validation_loss)
    net.save(tmp_path)
    again = record(qgt.load(tmp_path))
    assert math.isnan(again.history[1].validation_loss)
    assert again.history[0] == record(net).history[0]
    checkpoints.write_checkpoint(
        tmp_path / "checkpoint.safetensors", run.state(), {}
    )  # JSON has no NaN: it must not be asked to


def test_stacked_runs_equal_separate_ones_in_distribution() -> None:
    problems = [problem(seed) for seed in range(5)]
    config, network = replace(SHORT, epochs=6), qgt.MLP((32,))
    together = [success(net) for net in qgt.train_many(problems, network, config, generator=seeded())]
    alone = [success(qgt.train(p, network, config, generator=seeded(i))) for i, p in enumerate(problems)]
    differences = torch.tensor(together) - torch.tensor(alone)
    # Same designs, other random numbers: a success rate varies by about 0.02 from seed to seed, so the mean of five
    # differences by about 0.013; five of those.
    assert abs(float(differences.mean())) < 0.065
    assert min(together) > floor(problem()) + 0.3


def test_stack_takes_different_numbers_of_pools() -> None:
    problems = [problem(1, pools=8), problem(2, pools=12)]
    narrow, wide = qgt.train_many(problems, qgt.MLP((48,)), SHORT, generator=seeded())
    assert (narrow.problem.pools, wide.problem.pools) == (8, 12)
    assert success(wide) > success(narrow) > floor(narrow.problem) + 0.25
    assert [(record(net).place, record(net).stack) for net in (narrow, wide)] == [(0, 2), (1, 2)]
    with pytest.raises(ValueError, match="number of items"):
        qgt.train_many([problem(), problem(items=21)], qgt.MLP((8,)), SHORT, generator=seeded())


def test_generalisation_is_reported() -> None:
    net = qgt.train(problem(), qgt.MLP((32,)), SHORT, generator=seeded())
    told = record(net)
    assert told.test_seen is not None
    assert told.test_unseen is not None
    seen, unseen, every = (qgt.Score(20, outcomes) for outcomes in (told.test_seen, told.test_unseen, told.test))
    assert seen + unseen == every
    assert every.instances == SHORT.validation
    assert min(seen.instances, unseen.instances) > 0
    assert told.items_covered == 20
    rare = qgt.Problem(problem().design, qgt.Bernoulli([0.0] + [0.1] * 19))
    assert record(qgt.train(rare, qgt.MLP((8,)), replace(SHORT, epochs=1), generator=seeded())).items_covered == 19


def test_a_record_says_where_it_was_made() -> None:
    told = record(qgt.train(problem(), qgt.MLP((8,)), replace(SHORT, epochs=1), generator=seeded(5)))
    assert told.seed == 5
    assert told.made_on == provenance("cpu")
    assert told.config == replace(SHORT, epochs=1)
    assert told.seconds == told.history[0].seconds > 0


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"instances": 0}, "instances"),
        ({"batch": -1}, "batch"),
        ({"instances": 1}, "instances=1"),
        ({"batch": 1}, "batch=1"),
        ({"cosine": "no"}, "cosine='no'"),
        ({"epochs": 0}, "epochs"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"patience": 0}, "patience"),
        ({"steps": 5}, "either instances"),
        ({"instances": None}, "either instances"),
        ({"matrix_rate": -1.0}, "matrix_rate"),
        ({"missing": 1.0}, "missing=1.0"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, object], named: str, unchecked: None) -> None:
    with pytest.raises(ValueError, match=named):
        qgt.TrainConfig(**settings)  # type: ignore[arg-type]
