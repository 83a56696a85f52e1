"""What only a GPU shows: captured training steps, TF32, and decoders that give the CPU's answers.

    pytest -m gpu

The default run leaves these out. Everything compared with a CPU is either exact in float64 or comes with its bound.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Generator

import qgt
from qgt.cli import main
from qgt.decoders.certified.costs import Model, Tables
from qgt.decoders.certified.nodes import untouched
from qgt.decoders.certified.relaxation import Metrics, Recordings, relax, rows_of
from qgt.decoders.neural.decoder import raw_scores
from qgt.decoders.neural.network import keep_mask
from qgt.learning import training
from qgt.learning.run import TrainingRun
from qgt.learning.steps import PLAIN_STEPS, Steps
from qgt.model.factors import pool_costs
from qgt.trust.verification import ESTIMATORS, jacobian_evidence

pytestmark = pytest.mark.gpu
SHORT = qgt.TrainConfig(instances=4000, validation=800, batch=200, epochs=12, patience=None)


@pytest.fixture(autouse=True)
def gpu() -> Iterator[None]:
    """Skip without a GPU; and see that a test leaves the precision of float32 products as it was."""
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    before = torch.backends.cuda.matmul.allow_tf32
    yield
    assert torch.backends.cuda.matmul.allow_tf32 == before


def seeded(seed: int = 0, device: str = "cuda") -> Generator:
    return Generator(device).manual_seed(seed)


def problem(seed: int = 0, pools: int = 12, items: int = 20) -> qgt.Problem:
    design = qgt.Design.bernoulli(pools=pools, items=items, generator=seeded(seed, "cpu"))
    return qgt.Problem(design, qgt.Bernoulli(0.1), qgt.SparseInteger(rate=0.05, bound=1))


def paper_problem() -> qgt.Problem:
    design = qgt.Design.bernoulli(pools=35, items=100, generator=seeded(0, "cpu"))
    return qgt.Problem(design, qgt.Bernoulli(0.06), qgt.SparseInteger(rate=0.06, bound=1))


def success(net: qgt.NeuralDecoder) -> float:
    x, y = net.problem.simulate(2000, generator=seeded(99, "cpu"))
    return qgt.score(x, net.bind(net.problem)(y).x).success_rate


def floor(p: qgt.Problem) -> float:
    """What a network that learned nothing reaches: "nothing is defective". 0.14 for `problem()`."""
    x = p.simulate(2000, generator=seeded(99, "cpu")).x
    return qgt.score(x, torch.zeros_like(x)).success_rate


def record(net: qgt.NeuralDecoder) -> qgt.Training:
    assert net.training is not None
    return net.training


# --- training -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", [qgt.MLP((64, 64)), qgt.ResidualMLP(64, 2), qgt.Refining(64, 1, 3)])
def test_training_learns_as_it_does_on_a_cpu(architecture: qgt.Architecture) -> None:
    """Other random numbers: a success rate varies by about 0.02 from seed to seed, and the bound is five of those."""
    fresh = not isinstance(architecture, qgt.MLP)
    config = qgt.TrainConfig.fresh(steps=500, batch=200, learning_rate=2e-3, validation=500) if fresh else SHORT
    rates = [
        success(qgt.train(problem(), architecture, config, generator=seeded(1, device))) for device in ("cuda", "cpu")
    ]
    assert min(rates) > floor(problem()) + 0.4
    assert abs(rates[0] - rates[1]) < 0.1


def test_a_stack_learns() -> None:
    problems = [problem(1, pools=8), problem(2, pools=12), problem(3, pools=12)]
    nets = qgt.train_many(problems, qgt.MLP((48,)), SHORT, generator=seeded())
    assert all(success(net) > floor(net.problem) + 0.25 for net in nets)
    assert record(nets[0]).made_on["device"] == torch.cuda.get_device_name()


def plain_step(steps: Steps) -> None:
    """In place of a capture: the step itself."""
    steps._step()


@pytest.mark.parametrize("architecture", [qgt.MLP((64,), dropout=0.0), qgt.Refining(32, 1, 3)])
def test_captured_steps_are_the_plain_ones(architecture: qgt.Architecture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without dropout nothing random is left, and only the rounding of another kernel may differ."""
    config = replace(SHORT, epochs=4, cosine=True, matrix_rate=0.02)

    def losses() -> tuple[bool, list[float]]:
        run = TrainingRun.begin([problem()], architecture, config, seeded())
        while not run.finished:
            run.epoch()
        told = [loss for epoch in run.history[0] for loss in (epoch.train_loss, epoch.validation_loss)]
        return run.steps.graph is not None, told

    captured, by_graph = losses()
    assert captured
    monkeypatch.setattr(Steps, "_capture", plain_step)
    captured, by_steps = losses()
    assert not captured
    assert by_graph == pytest.approx(by_steps, rel=0.02 if isinstance(architecture, qgt.MLP) else 0.1)
    share = 0.7 if isinstance(architecture, qgt.MLP) else 0.9
    assert by_graph[-1] < share * by_graph[1]  # the learning rate reached the graph: it learned


def test_a_captured_step_drops_other_features_each_time() -> None:
    """With next to no learning rate, epochs over one data set differ by their dropout alone."""
    config = replace(SHORT, instances=1600, batch=200, epochs=4, learning_rate=1e-30)
    assert config.epoch_steps > PLAIN_STEPS
    run = TrainingRun.begin([problem()], qgt.MLP((64,), dropout=0.5, batch_norm=False), config, seeded())
    while not run.finished:
        run.epoch()
    assert run.steps.graph is not None
    replayed = [epoch.train_loss for epoch in run.history[0][1:]]  # the first epoch has plain steps as well
    assert len({round(loss, 7) for loss in replayed}) == 3
    assert max(replayed) < 1.2 * min(replayed)  # and yet they are of the same network


def test_every_batch_of_the_block_is_read_once() -> None:
    """A captured step moves its own position; were it stuck, items of one batch alone would count."""
    config = replace(SHORT, epochs=1)
    run = TrainingRun.begin([problem()], qgt.MLP((8,)), config, seeded())
    run.epoch()
    assert int(run.steps.position) == config.epoch_steps


def test_resuming_goes_on_to_the_same_losses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    config, architecture = replace(SHORT, epochs=6), qgt.MLP((64,), dropout=0.0)

    def stop(epoch: qgt.Epoch) -> None:
        if epoch.number == 3:
            raise RuntimeError

    unbroken = qgt.train(problem(), architecture, config, generator=seeded())
    path = tmp_path / "checkpoint.safetensors"
    with pytest.raises(RuntimeError):
        qgt.train(problem(), architecture, config, generator=seeded(), on_epoch=stop, checkpoint=path)
    resumed = qgt.train(problem(), architecture, config, generator=seeded(7), checkpoint=path)
    told = [[epoch.validation_loss for epoch in record(net).history] for net in (unbroken, resumed)]
    assert len(told[0]) == len(told[1]) == 6
    assert told[0] == pytest.approx(told[1], rel=0.05)
    with pytest.raises(ValueError, match="another device"):
        qgt.train(problem(), architecture, config, generator=seeded(7, "cpu"), checkpoint=path)


@pytest.mark.parametrize("ending", ["end", "interrupt", "error"])
def test_training_leaves_the_processs_precision_alone(ending: str) -> None:
    """A captured step has TF32 inside; nothing that other threads compute meanwhile does."""
    before, seen = torch.backends.cuda.matmul.allow_tf32, []

    def look(epoch: qgt.Epoch) -> None:
        seen.append(torch.backends.cuda.matmul.allow_tf32)
        if epoch.number == 2 and ending != "end":
            raise KeyboardInterrupt if ending == "interrupt" else RuntimeError

    try:
        qgt.train(problem(), qgt.MLP((16,)), replace(SHORT, epochs=3), generator=seeded(), on_epoch=look)
    except (qgt.Interrupted, RuntimeError):
        assert ending != "end"
    assert seen == [before] * len(seen)
    assert len(seen) == (3 if ending == "end" else 2)
    assert torch.backends.cuda.matmul.allow_tf32 == before


def test_keep_mask_keeps_its_share() -> None:
    mask = keep_mask((1000, 1000), 0.9, seeded())
    assert mask.is_cuda
    assert set(mask.unique().tolist()) == {0.0, 1.0}
    assert float(mask.mean()) == pytest.approx(0.9, abs=5 * 0.0003)  # five standard errors
    assert not torch.equal(mask, keep_mask((1000, 1000), 0.9, seeded(1)))


def test_the_command_trains_and_saves_for_any_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem().save(tmp_path / "problem.toml")
    options = ["--hidden", "64", "--instances", "4000", "--batch", "200", "--epochs", "6", "--device", "cuda", "--json"]
    assert main(["train", str(tmp_path / "problem.toml"), "-o", str(tmp_path / "run"), *options]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["success_rate"] > floor(problem()) + 0.2
    net = qgt.load(tmp_path / "run")
    assert next(net.network.parameters()).device.type == "cpu"
    assert success(net) == pytest.approx(facts["success_rate"], abs=0.06)  # other instances: five standard errors


# --- decoders -------------------------------------------------------------------------------------------------------


def test_blocks_train_in_bfloat16_and_decode_in_float32() -> None:
    network = qgt.Refining(32, 1, 2).build(problem().design, generator=seeded())
    seen: list[torch.dtype] = []
    network.blocks[0].register_forward_hook(lambda module, given, result: seen.append(result.dtype))
    y = problem().simulate(50, generator=seeded(1)).y.float()[None]
    assert network.train().rounds(y).scores.dtype == torch.float32
    network.eval()(y)
    assert seen == [torch.bfloat16] * 2 + [torch.float32] * 2


def test_a_network_gives_the_same_scores() -> None:
    """Off training, float32 products are not rounded to TF32."""
    net = qgt.train(problem(), qgt.MLP((64, 64)), SHORT, generator=seeded())
    y = net.problem.simulate(2000, generator=seeded(3, "cpu")).y
    decode = net.bind(net.problem)
    here, there = decode(y), decode(y.cuda())
    assert there.x.is_cuda
    assert here.scores is not None
    assert there.scores is not None
    assert torch.allclose(here.scores, there.scores.cpu(), atol=1e-4)
    sure = (here.scores - net.threshold).abs() > 1e-3
    assert torch.equal(here.x[sure], there.x.cpu()[sure])
    assert float(sure.double().mean()) > 0.95
    assert raw_scores(net.network, y[:0].cuda()).shape == (0, 20)


VALUES = [qgt.Categories((0.05, 0.05)), qgt.Copies(frequency=0.05, ploidy=2)]


@pytest.mark.parametrize("prior", VALUES, ids=["categories", "copies"])
def test_networks_of_values_train_with_captured_steps(prior: qgt.Categories | qgt.Copies) -> None:
    p = qgt.Problem(qgt.Design.bernoulli(pools=16, items=20, generator=seeded(0, "cpu")), prior)
    config = qgt.TrainConfig.fresh(steps=1000, batch=512, validation=1000)
    net = qgt.train(p, qgt.Refining(64, 1, 3), config, generator=seeded())
    x, y = p.simulate(1000, generator=seeded(1, "cpu"))
    here, there = net.bind(p)(y), net.bind(p)(y.cuda())
    # Calling nothing is right for one instance of eight.
    assert float((there.x.cpu() == x).all(1).double().mean()) > 0.6
    assert float((there.x.cpu() == here.x).all(1).double().mean()) > 0.99


def test_belief_of_copies_gives_the_same_probabilities() -> None:
    design = qgt.Design.column_regular(pools=60, items=100, weight=6, generator=seeded(0, "cpu"))
    p = qgt.Problem(design, VALUES[1], qgt.SparseInteger(rate=0.05, bound=1))
    y = p.simulate(50, generator=seeded(3, "cpu")).y
    decode = qgt.BeliefPropagation().bind(p)
    here, there = decode(y).evidence.values, decode(y.cuda()).evidence.values
    assert here is not None
    assert there is not None
    assert float(((here - there.cpu()).abs().amax((1, 2)) < 1e-4).double().mean()) >= 0.95


@pytest.mark.parametrize("decoder", [qgt.AMP(), qgt.GAMP()], ids=["AMP", "GAMP"])
def test_message_passing_gives_the_same_calls(decoder: qgt.Decoder) -> None:
    """Both compute in float64; where an iteration does not settle, rounding may grow, in few instances."""
    x, y = paper_problem().simulate(500, generator=seeded(3, "cpu"))
    decode = decoder.bind(paper_problem())
    here, there = decode(y), decode(y.cuda())
    assert there.x.is_cuda
    same = (here.x == there.x.cpu()).all(1)
    assert float(same.double().mean()) >= 0.98
    assert torch.equal(here.status[same], there.status.cpu()[same])
    assert qgt.score(x, here.x).success_rate > 0.5  # answers worth comparing; none is defective in 0.2 % of instances


def test_certified_gives_the_same_answers() -> None:
    p = paper_problem()
    y = p.simulate(200, generator=seeded(3, "cpu")).y
    decode = qgt.Certified().bind(p)
    here, there = decode(y), decode(y.cuda())
    assert there.x.is_cuda
    assert torch.equal(here.status, there.status.cpu())
    assert bool((here.status == qgt.Status.PROVED).all())
    # Of two equally probable answers either may be given.
    costs = [p.log_joint(result.x.cpu(), y) for result in (here, there)]
    assert torch.allclose(costs[0], costs[1], atol=1e-9)
    assert float((here.x == there.x.cpu()).all(1).double().mean()) > 0.95
    # Relaxations that were recorded for these serve fewer and more, and what they prove can be checked.
    for few in (3, 600):
        y = p.simulate(few, generator=seeded(4, "cpu")).y
        again = decode(y.cuda())
        assert bool((again.status == qgt.Status.PROVED).all())
        assert torch.allclose(p.log_joint(again.x.cpu(), y), p.log_joint(decode(y).x, y), atol=1e-9)
        assert bool(qgt.check_certificate(p, y.cuda(), again).all())


@pytest.mark.parametrize("kind", ["plain", "missing", "households"])
def test_a_replayed_relaxation_is_the_plain_one(kind: str) -> None:
    p = paper_problem()
    if kind == "households":
        p = replace(p, prior=qgt.Households(size=4, seed_rate=0.1, attack_rate=0.6))
    y = p.simulate(700, generator=seeded(3, "cpu")).y.cuda()
    if kind == "missing":
        y[torch.rand(y.shape, generator=seeded(5), device="cuda") < 0.1] = torch.nan
    model, tables = Model.of(p, y.device), Tables.of(pool_costs(p.design, p.noise, y))
    recordings, metrics = Recordings(model), Metrics.of(model, tables)
    for some in (torch.arange(400), torch.arange(400, 700), torch.arange(5)):
        nodes = untouched(model, some.cuda(), None)
        assert recordings.suit(nodes.fixed, None)
        rows, metric = rows_of(model, tables, None, nodes.sets), metrics.at(nodes.sets)
        plain = relax(model, rows, nodes.fixed, nodes.state, None, 100, metric=metric)
        replayed = recordings.relax(rows, nodes.fixed, nodes.state, 100, metric)
        # Products of more rows round otherwise, and after 100 iterations that shows; those of other nodes are nats off.
        assert torch.allclose(plain.bound, replayed.bound, atol=1e-2, rtol=0)
        assert float((plain.bound - plain.bound.roll(1)).abs().median()) > 0.5
        assert float(replayed.bound.min()) > 0
    assert len(recordings.made) == 2  # 400 and 300 nodes are padded to the same number, 5 to fewer


@pytest.mark.parametrize("kind", ["missing", "real-valued", "households", "unknown rate"])
def test_certified_gives_the_same_answers_on_other_models(kind: str) -> None:
    p = paper_problem()
    if kind == "real-valued":
        p = replace(p, noise=qgt.Gaussian(0.3))
    if kind == "households":
        p = replace(p, prior=qgt.Households(size=4, seed_rate=0.1, attack_rate=0.6))
    if kind == "unknown rate":
        p = replace(p, prior=qgt.UnknownRate(0.02, 0.1))
    y = p.simulate(100, generator=seeded(3, "cpu")).y
    if kind == "missing":
        y[torch.rand(y.shape, generator=seeded(5, "cpu")) < 0.05] = torch.nan
    decode = qgt.Certified(odds=1.0, time_limit=0.2).bind(p)
    here, there = decode(y), decode(y.cuda())
    both = (here.status == qgt.Status.PROVED) & (there.status.cpu() == qgt.Status.PROVED)
    assert float(both.double().mean()) > 0.9
    assert torch.allclose(p.log_joint(here.x, y)[both], p.log_joint(there.x.cpu(), y)[both], atol=2e-6)
    proved = there.status == qgt.Status.PROVED
    assert torch.equal(qgt.check_certificate(p, y.cuda(), there), proved)


def test_loads_have_the_same_posterior_on_a_gpu() -> None:
    design = qgt.Design.column_regular(pools=24, items=96, weight=4, generator=seeded(0, "cpu"))
    p = qgt.Problem(design, qgt.Loads(rate=0.015, mean=3.2, sd=1.9, low=0.0), qgt.CycleThreshold(0.25, limit=38.0))
    y = p.simulate(60, generator=seeded(1, "cpu")).y
    decode = qgt.LoadPosterior().bind(p)
    here, there = decode(y), decode(y.cuda())
    assert here.evidence.confidence is not None and there.evidence.confidence is not None
    assert there.x.device.type == there.evidence.confidence.device.type == "cuda"
    assert torch.allclose(here.evidence.confidence, there.evidence.confidence.cpu(), atol=0.02)
    sure = here.evidence.confidence > 0.6
    assert int(sure.sum()) > 30
    assert torch.equal(here.x[sure], there.x.cpu()[sure])


# --- verification ---------------------------------------------------------------------------------------------------


def test_evidence_is_the_same() -> None:
    net = qgt.train(problem(), qgt.MLP((64,)), SHORT, generator=seeded())
    y = net.problem.simulate(500, generator=seeded(3, "cpu")).y
    for least_squares in (True, False):
        there = jacobian_evidence(net.network, y.cuda(), least_squares=least_squares).cpu()
        here = jacobian_evidence(net.network.cpu(), y, least_squares=least_squares)
        net.network.cuda()
        # Least squares divides by small eigenvalues, which enlarges the rounding of float32.
        assert torch.allclose(here, there, atol=1e-2 * float(here.abs().max()))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_network_is_verified_where_it_was_trained(estimator: str) -> None:
    config = replace(SHORT, instances=20_000, batch=250, epochs=25, cosine=True)
    net = qgt.train(problem(), qgt.MLP((96,)), config, generator=seeded())
    report = qgt.verify(net, problem(), estimator=estimator, instances=2000, generator=seeded(1))
    assert report.explained is not None
    assert report.explained > 0.5
    assert report.auc is not None
    assert report.auc > 0.9
