"""Verification: its mathematics against slow references, and its power to find what is wrong and to find nothing."""

import copy
import itertools
import json
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor

import qgt
from qgt.decoders.neural.heads import network_inputs
from qgt.trust import verification
from qgt.trust.verification import (
    ESTIMATORS,
    explained_share,
    jacobian_evidence,
    jacobians,
    regression_evidence,
    report_on,
    two_means,
    verify,
)


def seeded(seed: int = 0) -> Generator:
    return torch.Generator().manual_seed(seed)


def problem(pools: int = 14, items: int = 18) -> qgt.Problem:
    design = qgt.Design.bernoulli(pools=pools, items=items, generator=seeded(7))
    return qgt.Problem(design, qgt.Bernoulli(0.12), qgt.SparseInteger(rate=0.03, bound=1))


@cache
def trained(hidden: tuple[int, ...] = (96,)) -> qgt.NeuralDecoder:
    config = qgt.TrainConfig(instances=20_000, validation=1000, batch=250, epochs=25, patience=None, cosine=True)
    return qgt.train(problem(), qgt.MLP(hidden), config, generator=seeded())


def claim(matrix: Tensor) -> qgt.Problem:
    p = problem()
    return qgt.Problem(qgt.Design.from_matrix(matrix), p.prior, p.noise)


def report(claimed: Tensor | None = None, estimator: str = "regression") -> qgt.VerificationReport:
    p = problem() if claimed is None else claim(claimed)
    return verify(trained(), p, estimator=estimator, instances=2000, generator=seeded(1))


# --- the mathematics ------------------------------------------------------------------------------------------------


def squares(values: list[float]) -> float:
    mean = sum(values) / len(values)
    return sum((v - mean) ** 2 for v in values)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(-20, 20).map(lambda n: n / 4), min_size=2, max_size=12))
def test_two_means_against_all_splits(values: list[float]) -> None:
    """Every split of the numbers into two groups, not only those of neighbours."""
    split, (low, high) = two_means(torch.tensor(values, dtype=torch.float64))
    upper = [v for v in values if v > split]
    lower = [v for v in values if v <= split]
    if len(set(values)) == 1:
        assert not upper
        assert low == high
        return
    best = min(
        squares([v for v, up in zip(values, mask, strict=True) if up])
        + squares([v for v, up in zip(values, mask, strict=True) if not up])
        for mask in itertools.product((False, True), repeat=len(values))
        if any(mask) and not all(mask)
    )
    assert squares(upper) + squares(lower) == pytest.approx(best, abs=1e-9)
    assert low == pytest.approx(sum(lower) / len(lower))
    assert high == pytest.approx(sum(upper) / len(upper))
    assert low < split < high


def test_two_means_keeps_its_digits_far_from_zero() -> None:
    values = 1e8 + torch.tensor([0.0, 0.1, 1.0, 1.1], dtype=torch.float64)
    split, centres = two_means(values)
    assert split - 1e8 == pytest.approx(0.55, abs=1e-6)
    assert centres[1] - centres[0] == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("architecture", [qgt.MLP((12, 8)), qgt.MLP(()), qgt.ResidualMLP(8, 2), qgt.Refining(8, 2, 3)])
def test_jacobians_against_finite_differences_and_reverse_mode(architecture: qgt.Architecture) -> None:
    design = qgt.Design.bernoulli(pools=5, items=7, generator=seeded())
    network = architecture.build(design, generator=seeded())
    if isinstance(architecture, qgt.MLP):  # running statistics other than 0 and 1
        for _ in range(3):
            network(torch.randn(1, 50, 5, generator=seeded(2)), seeded(3))
    network.eval().double()
    y = torch.randn(4, 5, generator=seeded(1), dtype=torch.float64)
    with torch.no_grad():
        forward = jacobians(network, y)  # (instances, items, pools)
        for j in range(5):
            step = torch.zeros(5, dtype=torch.float64)
            step[j] = 1e-6
            slope = (network((y + step)[None])[0] - network((y - step)[None])[0]) / 2e-6
            assert torch.allclose(forward[:, :, j], slope, atol=1e-6)
    for i in range(4):
        reverse = torch.autograd.functional.jacobian(lambda z: network(z[None, None])[0, 0], y[i])
        assert torch.allclose(forward[i], reverse, atol=1e-9)


def test_closed_form_against_a_generic_solver() -> None:
    """min over C of sum_i ||I - C B_i||^2 is an ordinary least-squares problem with the B_i side by side."""
    network, y = trained().network, problem().simulate(60, generator=seeded(2)).y
    with torch.no_grad():
        stacked = jacobians(network, y.float()).double()  # (instances, items, pools)
    rows = stacked.transpose(1, 2).reshape(-1, stacked.shape[1])  # (instances * pools, items): all B_i^T
    target = torch.eye(y.shape[1], dtype=torch.float64).repeat(len(y), 1)
    expected = torch.linalg.lstsq(rows, target).solution.T
    assert torch.allclose(jacobian_evidence(network, y, least_squares=True), expected, atol=1e-6)


def test_evidence_does_not_depend_on_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    network, y = trained().network, problem().simulate(50, generator=seeded(2)).y
    for least_squares in (True, False):
        whole = jacobian_evidence(network, y, least_squares=least_squares)
        with monkeypatch.context() as patch:
            patch.setattr(verification, "JACOBIANS_AT_A_TIME", 7 * 14 * 18)  # seven instances at a time
            assert torch.allclose(whole, jacobian_evidence(network, y, least_squares=least_squares), atol=1e-6)


def test_memory_is_bounded_by_the_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    original = verification.jacobians

    def recording(network: object, y: Tensor) -> Tensor:
        sizes.append(len(y))
        return original(network, y)

    monkeypatch.setattr(verification, "jacobians", recording)
    monkeypatch.setattr(verification, "JACOBIANS_AT_A_TIME", 10 * 14 * 18)
    jacobian_evidence(trained().network, problem().simulate(95, generator=seeded()).y, least_squares=True)
    assert max(sizes) == 10
    assert sum(sizes) == 95


def test_regression_is_least_squares() -> None:
    g = seeded(4)
    calls = torch.randint(0, 2, (40, 6), dtype=torch.uint8, generator=g)
    y = torch.randn(40, 5, dtype=torch.float64, generator=g)
    expected = torch.linalg.lstsq(calls.double(), y).solution.T
    assert torch.allclose(regression_evidence(y, calls), expected, atol=1e-9)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000))
def test_auc_counts_pairs(seed: int) -> None:
    g = seeded(seed)
    evidence = torch.randint(0, 6, (4, 5), generator=g).double()
    matrix = torch.randint(0, 2, (4, 5), generator=g).to(torch.uint8)
    ones, zeros = evidence[matrix == 1].tolist(), evidence[matrix == 0].tolist()
    result = report_on(evidence, qgt.Design.from_matrix(matrix), "regression", 1)
    if not ones or not zeros:
        assert result.auc is None
        return
    wins = sum((a > b) + 0.5 * (a == b) for a in ones for b in zeros)
    assert result.auc == pytest.approx(wins / len(ones) / len(zeros))


# --- what it finds --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("estimator", "worst"), [("least_squares", 3.0), ("mean_jacobian", 20.0), ("regression", 0.0)])
def test_a_trained_network_reveals_its_design(estimator: str, worst: float) -> None:
    found = report(estimator=estimator)
    assert found.error_percent <= worst
    assert found.auc > 0.9
    assert found.coin_flip_percent == 50.0
    assert 30 < found.constant_percent <= 50


def test_a_residual_network_reveals_its_design_by_its_mean_jacobian() -> None:
    """Where outputs saturate, least squares is the worse of the two; with many pools they soon do."""
    easy = problem(pools=20)
    config = qgt.TrainConfig.fresh(steps=1600, batch=200, learning_rate=6e-3, validation=500, matrix_rate=None)
    net = qgt.train(easy, qgt.ResidualMLP(64, 3), config, generator=seeded())
    by = {name: verify(net, easy, estimator=name, generator=seeded(1)).error_percent for name in ESTIMATORS}
    assert by["mean_jacobian"] <= 8.0
    assert by["regression"] == 0.0
    assert by["least_squares"] > by["mean_jacobian"]


def test_an_untrained_network_reveals_nothing() -> None:
    """The check can fail: about half of the entries are wrong, and there is no verdict."""
    network = qgt.MLP((64,)).build(problem().design, generator=seeded(3)).eval()
    net = qgt.NeuralDecoder(qgt.MLP((64,)), network, 0.5, problem().spec)
    for estimator in ("least_squares", "mean_jacobian"):
        found = verify(net, problem(), estimator=estimator, instances=300, generator=seeded())
        # 252 entries at even odds: five standard errors are 16 %.
        assert 34 < found.error_percent < 66
        assert not found.decisive
        assert found.auc == pytest.approx(0.5, abs=0.16)


@cache
def barely_trained() -> qgt.NeuralDecoder:
    """A network that saw a few instances once: it decodes about as well as a guess."""
    config = qgt.TrainConfig(instances=200, validation=1000, batch=100, epochs=1)
    return qgt.train(problem(), qgt.MLP((8,)), config, generator=seeded(1))


def test_the_estimator_that_separates_best_is_the_default() -> None:
    by = {name: report(estimator=name) for name in ESTIMATORS}
    best = report(estimator="best")
    assert best.separation == max(one.separation for one in by.values())
    assert best.error_percent == by[best.estimator].error_percent == 0.0
    with pytest.raises(ValueError, match="give one of best, least_squares"):
        report(estimator="better")


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_a_network_that_only_guesses_accuses_nobody(estimator: str) -> None:
    net = barely_trained()
    x, y = problem().simulate(2000, generator=seeded(99))
    guess = qgt.score(x, torch.zeros_like(x)).success_rate
    assert abs(qgt.score(x, net.bind(problem())(y).x).success_rate - guess) < 0.05
    found = verify(net, problem(), estimator=estimator, generator=seeded(1))
    assert found.explained is not None
    assert found.explained < 0
    assert found.by_chance
    assert not found.decisive
    assert not found.agrees
    assert found.verdict.startswith("No verdict: the decoder explains the counts no better than a constant guess.")
    # However clearly the evidence falls into two groups:
    sure = report_on(
        torch.eye(5).double(), qgt.Design.from_matrix(torch.eye(5).to(torch.uint8)), estimator, 9, found.explained
    )
    assert sure.separation > 3
    assert not sure.decisive
    assert report_on(sure.evidence, sure.claimed, estimator, 9, 0.5).agrees


def test_explained_is_one_for_the_truth_and_none_for_constant_guesses() -> None:
    noiseless = qgt.Problem(problem().design, qgt.Bernoulli(0.12))
    x, y = noiseless.simulate(4000, generator=seeded(3))
    matrix = noiseless.design.matrix
    assert explained_share(y, x, matrix) == 1.0
    assert explained_share(y, x.roll(1, dims=0), matrix) == pytest.approx(
        -1.0, abs=0.1
    )  # another instance's: twice as bad
    assert explained_share(y, torch.zeros_like(x), matrix) < 0
    assert explained_share(y[:1].expand(9, -1), x[:9], matrix) == 0.0  # nothing varies, nothing is explained


def test_level_1_cannot_be_verified_because_one_linear_map_does_not_determine_the_design() -> None:
    p = problem(pools=14, items=40)
    config = qgt.TrainConfig(instances=10_000, validation=500, batch=250, epochs=5)
    net = qgt.train(p, qgt.MLP.level(1), config, generator=seeded())
    y = p.simulate(200, generator=seeded(1)).y
    with torch.no_grad():
        maps = jacobians(net.network, y.float()).double()
    assert torch.equal(maps, maps[:1].expand_as(maps))  # the same map at every instance
    together = torch.einsum("tnm,tkm->nk", maps, maps)
    assert int(torch.linalg.matrix_rank(together, rtol=1e-11, hermitian=True)) == 14  # of 40: no unique answer
    found = verify(net, p, estimator="least_squares", instances=200, generator=seeded(1))
    # Any C + Z with Z B = 0 fits the Jacobians exactly as well, and there are 26 free dimensions per row.
    assert torch.allclose(found.evidence @ maps[0], torch.eye(14, dtype=torch.float64), atol=1e-6)
    assert found.error_percent > 10
    assert not found.agrees
    assert "No verdict" in found.verdict


def test_flipped_entries_are_listed_and_no_others() -> None:
    matrix = problem().design.matrix.clone()
    flipped = {("P3", "I5"), ("P9", "I1"), ("P14", "I18")}
    for pool, item in flipped:
        matrix[int(pool[1:]) - 1, int(item[1:]) - 1] ^= 1
    found = report(matrix)
    assert {(m.pool, m.item) for m in found.mismatches} == flipped
    assert all(m.claimed != m.recovered for m in found.mismatches)
    assert [m.sureness for m in found.mismatches] == sorted((m.sureness for m in found.mismatches), reverse=True)
    assert int(found.pool_errors[2]) == int(found.item_errors[4]) == 1
    assert not found.swaps
    assert not found.agrees
    assert "3 entries contradict" in found.verdict


def test_swapped_items_and_pools_are_named() -> None:
    original = problem().design.matrix
    columns = original.clone()
    columns[:, [3, 11]] = original[:, [11, 3]]
    assert report(columns).swaps == [("item", "I4", "I12")]
    rows = original.clone()
    rows[[0, 5]] = original[[5, 0]]
    found = report(rows)
    assert found.swaps == [("pool", "P1", "P6")]
    assert "Pools P1 and P6 are swapped" in found.verdict
    both = columns.clone()
    both[[0, 5]] = columns[[5, 0]]
    assert set(report(both).swaps) == {("pool", "P1", "P6"), ("item", "I4", "I12")}
    assert report().swaps == []


def test_real_counts_show_what_was_really_pooled() -> None:
    """A step missed at the bench: the sheet and the decoder are right, the tubes are not."""
    p = problem()
    real = p.design.matrix.clone()
    real[6, 2] ^= 1
    y = claim(real).simulate(4000, generator=seeded(5)).y
    found = verify(trained(), p, estimator="regression", counts=y)
    assert [(m.pool, m.item) for m in found.mismatches] == [("P7", "I3")]


def test_any_decoder_can_be_audited() -> None:
    dense = problem(pools=40, items=12)
    found = verify(qgt.MaximumNeighborhood(), dense, estimator="regression", generator=seeded())
    assert found.error_percent == 0.0
    with pytest.raises(ValueError, match="use estimator='regression'"):
        verify(qgt.MaximumNeighborhood(), dense, estimator="mean_jacobian", generator=seeded())


def test_amp_is_audited_in_the_papers_setting() -> None:
    design = qgt.Design.bernoulli(pools=35, items=100, generator=seeded())
    paper = qgt.Problem(design, qgt.Bernoulli(0.06), qgt.SparseInteger(rate=0.06, bound=1))
    found = verify(qgt.AMP(), paper, estimator="regression", instances=500, generator=seeded(1))
    assert found.error_percent <= 0.1
    assert found.agrees


def test_no_evidence_is_no_agreement() -> None:
    found = verify(qgt.Prevalence(), problem(), estimator="regression", instances=50, generator=seeded())
    assert not found.agrees
    assert found.separation == 0.0
    json.loads(found.to_json())


def test_misuse_is_named() -> None:
    with pytest.raises(ValueError, match="estimator='magic'"):
        verify(trained(), problem(), estimator="magic", generator=seeded())
    with pytest.raises(ValueError, match="instances=0"):
        verify(trained(), problem(), instances=0, generator=seeded())
    with pytest.raises(ValueError, match="generator is missing"):
        verify(trained(), problem())
    with pytest.raises(ValueError, match="claim a design of the same size"):
        verify(trained(), problem(pools=13), generator=seeded())


def test_json_holds_the_report() -> None:
    matrix = problem().design.matrix.clone()
    matrix[0, 0] ^= 1
    found = report(matrix)
    data = json.loads(found.to_json())
    assert data["mismatches"] == [{**found.mismatches[0]._asdict()}]
    assert data["claimed"] == list(found.claimed.rows)
    assert len(data["evidence"]) == 14
    assert data["error_percent"] == found.error_percent
    assert data["pool_errors"]["P1"] == 1


# --- loads ----------------------------------------------------------------------------------------------------------


def with_loads(noise: qgt.Noise = qgt.CycleThreshold(sigma=0.25, limit=38.0)) -> qgt.Problem:  # noqa: B008 - frozen
    design = qgt.Design.column_regular(pools=16, items=40, weight=3, generator=seeded())
    return qgt.Problem(design, qgt.Loads(rate=0.05, mean=2.92, sd=1.87, low=0.0, high=8.1), noise)


@cache
def two_headed(noise: qgt.Noise = qgt.CycleThreshold(sigma=0.25, limit=38.0)) -> qgt.NeuralDecoder:  # noqa: B008
    config = qgt.TrainConfig(instances=20_000, validation=1000, batch=250, epochs=6, patience=None, cosine=True)
    return qgt.train(with_loads(noise), qgt.MLP((128,)), config, generator=seeded())


@pytest.mark.parametrize(("estimator", "worst"), [("least_squares", 3.0), ("mean_jacobian", 0.0), ("regression", 3.0)])
def test_a_network_of_loads_reveals_its_design(estimator: str, worst: float) -> None:
    found = verify(two_headed(), with_loads(), estimator=estimator, generator=seeded(1))
    assert found.error_percent <= worst  # the best constant matrix is wrong in 18.75 %
    assert found.decisive
    assert found.explained > 0.5


def test_a_network_of_amounts_reveals_its_design() -> None:
    noise = qgt.Amount(relative=0.1, absolute=1.0)
    assert verify(two_headed(noise), with_loads(noise), generator=seeded(1)).error_percent == 0.0


def test_amounts_evidence_is_a_derivative_of_the_answer() -> None:
    """By finite differences of the decoded log amounts, one report moved at a time."""
    p, net = with_loads(), two_headed()
    y = p.simulate(60, generator=seeded(2)).y
    calls = net.bind(p)(y).x
    sd, step = p.loads.moments[1], 1e-2  # cycles
    per_sd = sd * p.noise.slope  # cycles for one unit of a scaled total
    network = copy.deepcopy(net.network).double()
    total = torch.zeros(p.pools, p.items, dtype=torch.float64)
    for pool in range(p.pools):
        ends = []
        for sign in (1, -1):
            moved = y.clone()
            moved[:, pool] += sign * step
            with torch.no_grad():
                ends.append(network(network_inputs(p, moved)[None])[0, :, p.items :])
        total[pool] = ((ends[0] - ends[1]) / (2 * step / per_sd) * calls).sum(0)
    expected = total / calls.sum(0).clamp(min=1)
    evidence = verification.amounts_evidence(net.network, p, y, calls, least_squares=False)
    assert torch.allclose(evidence, expected, atol=0.02)
    assert float(expected.abs().max()) > 0.3


def test_a_wrong_entry_of_a_design_with_loads_is_found() -> None:
    p = with_loads()
    sheet = p.design.matrix.clone()
    sheet[4, 7] ^= 1
    claimed = qgt.Problem(qgt.Design.from_matrix(sheet), p.prior, p.noise)
    found = verify(two_headed(), claimed, generator=seeded(1))
    assert [mismatch[:2] for mismatch in found.mismatches] == [("P5", "I8")]


def test_an_untrained_network_of_loads_reveals_nothing() -> None:
    p = with_loads()
    network = qgt.MLP((64,)).build(p.design, loads=True, generator=seeded(3)).eval()
    net = qgt.NeuralDecoder(qgt.MLP((64,)), network, 0.0, p.spec)
    for estimator in ("least_squares", "mean_jacobian"):
        found = verify(net, p, estimator=estimator, instances=300, generator=seeded())
        assert not found.decisive
        assert found.by_chance
        assert found.error_percent > found.constant_percent


@pytest.mark.usefixtures("unchecked")
def test_the_posterior_of_loads_reveals_its_design() -> None:
    design = qgt.Design.column_regular(pools=9, items=12, weight=3, generator=seeded())
    small = qgt.Problem(design, qgt.Loads(rate=0.1, mean=3.0, sd=1.5), qgt.CycleThreshold(sigma=0.25, limit=38.0))
    found = verify(qgt.LoadPosterior(), small, instances=200, generator=seeded(1))
    assert found.estimator == "regression"
    assert found.error_percent == 0.0
    assert found.explained > 0.99
