"""Networks for loads: what they read, what they answer, and the files they are saved in."""

import json
import math
from functools import cache
from pathlib import Path

import pytest
import torch

import qgt
from qgt.decoders.neural.decoder import raw_scores
from qgt.decoders.neural.heads import FARTHEST, NOTHING, network_inputs, network_targets, scaled_totals, who
from qgt.decoders.neural.model_file import MODEL_FILE, read_model, write_model

LOADS = qgt.Loads(rate=0.08, mean=3.0, sd=1.5, low=0.0, high=8.0)
CYCLES = qgt.CycleThreshold(sigma=0.25, intercept=37.0, limit=38.0)
CONFIG = qgt.TrainConfig(instances=2000, validation=400, batch=200, epochs=3)
NETWORKS = [qgt.MLP((32,)), qgt.MLP(()), qgt.ResidualMLP(16, 1)]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def problem(noise: qgt.Noise = CYCLES, loads: qgt.Loads = LOADS) -> qgt.Problem:
    return qgt.Problem(qgt.Design.column_regular(pools=10, items=16, weight=3, generator=seeded()), loads, noise)


def counted() -> qgt.Problem:
    return qgt.Problem(problem().design, qgt.Bernoulli(0.1), qgt.SparseInteger(rate=0.05, bound=1))


@cache
def trained(architecture: qgt.Architecture = qgt.MLP((32,)), missing: float = 0.0) -> qgt.NeuralDecoder:  # noqa: B008
    config = qgt.TrainConfig(instances=2000, validation=400, batch=200, epochs=3, missing=missing)
    return qgt.train(problem(), architecture, config, generator=seeded())


# --- what a network reads -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "noise",
    [
        CYCLES,
        qgt.CycleThreshold(sigma=0.3, intercept=40.0, slope=-3.1, dilution=1.0),
        qgt.Amount(relative=0.1),
        qgt.Amount(relative=0.1, limit=20.0, dilution=0.5),
        qgt.PerPool([CYCLES] * 4 + [qgt.Amount(relative=0.1)] * 6),
        qgt.Outliers(CYCLES, rate=0.01),
    ],
    ids=repr,
)
def test_a_scaled_total_is_the_standardised_log_of_the_total(noise: qgt.Noise) -> None:
    """Reports without an error are read as the totals that made them."""
    p = problem(noise)
    amounts = p.simulate(300, generator=seeded(1)).x
    totals = p.design.count(amounts)
    y = qgt.model.noise.usual_reports(noise, totals, p.design.pool_sizes.double())
    value, detected = scaled_totals(p, LOADS, y)
    mean, sd = LOADS.moments
    assert torch.allclose(value[detected], ((totals.log10() - mean) / sd)[detected], atol=1e-9)
    assert bool((value[~detected] == NOTHING).all())
    assert bool((~detected).any())
    assert not bool((detected & (totals == 0)).any())


def test_amounts_with_an_absolute_error_are_read_by_asinh() -> None:
    noise = qgt.Amount(relative=0.1, absolute=2.0)
    p = problem(noise)
    y = torch.tensor([[1e6, -3.0, 0.0, 3.0, *[1.0] * 6]], dtype=torch.float64)
    value, detected = scaled_totals(p, LOADS, y)
    mean, sd = LOADS.moments
    assert bool(detected.all())  # without a limit, 0 is a report as any other
    assert float(value[0, 0]) == pytest.approx((6.0 - mean) / sd, abs=1e-6)
    assert float(value[0, 1] + value[0, 3]) == pytest.approx(2 * float(value[0, 2]))  # as much below as above
    limited = problem(qgt.Amount(relative=0.1, absolute=2.0, limit=5.0))
    assert scaled_totals(limited, LOADS, y).detected[0].tolist()[:3] == [True, True, False]


def test_inputs_are_pairs_and_missing_reports_stay_missing() -> None:
    y = torch.full((1, 10), 30.0, dtype=torch.float64)
    y[0, 3], y[0, 5], y[0, 7] = math.inf, math.nan, -1e9
    value, nothing = network_inputs(problem(), y).view(1, 10, 2).unbind(2)
    assert torch.equal(value.isnan(), y.isnan())
    assert nothing[0].tolist() == [0, 0, 0, 1, 0, 0, 0, 0, 0, 0]
    assert float(value[0, 3]) == NOTHING
    assert float(value[0, 7]) == FARTHEST  # absurd, and finite


def test_counts_are_read_and_learned_as_they_are() -> None:
    p = counted()
    x, y = p.simulate(5, generator=seeded())
    assert network_inputs(p, y) is y
    assert network_targets(p, x) is x
    assert who(x) is x


def test_targets_are_amounts_that_give_the_statuses_back() -> None:
    found = problem().simulate(200, generator=seeded())
    targets = network_targets(problem(), found.x)
    assert torch.equal(who(targets), found.statuses)
    mean, sd = LOADS.moments
    assert torch.allclose(10 ** (targets.double() * sd + mean), found.x, rtol=1e-5)


def test_a_noise_that_gives_no_totals_is_refused() -> None:
    with pytest.raises(ValueError, match="has no method `log_total`"):
        qgt.train(problem(qgt.Gaussian(sigma=1.0)), qgt.MLP((8,)), CONFIG, generator=seeded())


def test_refining_refuses_loads() -> None:
    with pytest.raises(ValueError, match="reports of amounts are not counts; give MLP or ResidualMLP"):
        qgt.train(problem(), qgt.Refining(8, 1, 2), CONFIG, generator=seeded())


# --- what it answers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", NETWORKS, ids=repr)
@pytest.mark.parametrize("missing", [False, True])
def test_networks_have_two_numbers_for_each_pool_and_item(architecture: qgt.Architecture, missing: bool) -> None:
    network = architecture.build(problem().design, missing=missing, loads=True, generator=seeded())
    asked = architecture.parameters(pools=10, items=16, missing=missing, loads=True)
    assert asked == sum(t.numel() for t in network.state_dict().values())
    assert network.eval()(torch.zeros(1, 3, 20)).shape == (1, 3, 32)


@pytest.mark.parametrize("architecture", NETWORKS, ids=repr)
def test_answers_are_calls_by_the_threshold_and_amounts_of_what_is_called(architecture: qgt.Architecture) -> None:
    net = trained(architecture)
    y = problem().simulate(100, generator=seeded(1)).y
    result = net.bind(problem())(y)
    assert result.scores is not None
    assert result.amounts is not None
    assert torch.equal(result.x, (result.scores >= net.threshold).to(torch.uint8))
    assert torch.equal(result.amounts > 0, result.x == 1)
    mean, sd = LOADS.moments
    logs = mean + sd * raw_scores(net.network, network_inputs(problem(), y))[:, 16:].double()
    called = result.x == 1
    assert bool(called.any())
    assert torch.allclose(result.amounts[called].log10(), logs.clamp(0.0, 8.0)[called])


def test_missing_reports_are_taken_where_training_had_them() -> None:
    y = problem().simulate(20, generator=seeded(1)).y
    y[:, 2] = torch.nan
    with pytest.raises(ValueError, match="trained without missing counts"):
        trained().bind(problem())(y)
    result = trained(missing=0.1).bind(problem())(y)
    assert result.scores is not None
    assert bool(result.scores.isfinite().all())


# --- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", NETWORKS, ids=repr)
def test_a_saved_network_answers_the_same(architecture: qgt.Architecture, tmp_path: Path) -> None:
    net = trained(architecture)
    net.save(tmp_path)
    again = qgt.load(tmp_path)
    assert again.training == net.training
    y = problem().simulate(50, generator=seeded(1)).y
    a, b = (one.bind(problem())(y) for one in (net, again))
    assert a.amounts is not None
    assert b.amounts is not None
    assert torch.equal(a.x, b.x)
    assert torch.equal(a.amounts, b.amounts)


def test_both_kinds_are_files_of_one_format(tmp_path: Path) -> None:
    """A file of counts has the keys it always had, so files of older versions are read."""
    net = qgt.train(counted(), qgt.MLP((8,)), CONFIG, generator=seeded())
    for one, folder in ((net, "counts"), (trained(), "loads")):
        one.save(tmp_path / folder)
        description, weights = read_model(tmp_path / folder / MODEL_FILE)
        assert set(description) == {
            *("format", "architecture", "problem", "fingerprint", "threshold", "rounds", "missing", "training")
        }
        assert description["format"] == 3
        assert weights["output.weight"].shape[1] == (16 if one is net else 32)


@pytest.mark.parametrize("changed", ["prior", "architecture"])
def test_a_file_whose_weights_are_for_another_kind_is_refused(changed: str, tmp_path: Path) -> None:
    trained().save(tmp_path)
    description, weights = read_model(tmp_path / MODEL_FILE)
    told = json.loads(json.dumps(description))
    if changed == "prior":
        told["problem"]["prior"] = {"kind": "bernoulli", "rate": 0.1}
    else:
        told["architecture"] = {"kind": "refining", "width": 8, "blocks": 1, "rounds": 2}
    del told["format"]
    write_model(tmp_path, told, weights)
    with pytest.raises(qgt.ModelFileError, match="weights, and the file holds" if changed == "prior" else "Refining"):
        qgt.load(tmp_path)


def test_onnx_is_refused_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="for networks of counts only"):
        trained().export(tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
