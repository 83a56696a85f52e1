"""The baselines for loads: totals from reports, screening, and each method against what it should find."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize, nnls
from scipy.stats import chi2
from torch import Tensor

import qgt
from qgt.decoders.loads.baselines import estimated_totals

Baseline = qgt.CompNNLS | qgt.CompNNOMP | qgt.CompSBL | qgt.CompLasso | qgt.LoadGAMP
BASELINES: tuple[Baseline, ...] = (
    qgt.CompNNLS(),
    qgt.CompNNOMP(),
    qgt.CompSBL(),
    qgt.CompLasso(),
    qgt.LoadGAMP(),
)
NOISES = (
    qgt.CycleThreshold(sigma=0.3, limit=36.0),
    qgt.CycleThreshold(sigma=0.2, slope=-3.5, background=4.0, background_sigma=0.5, dilution=1.0),
    qgt.Amount(relative=0.2),
    qgt.Amount(absolute=3.0, dilution=0.5),
    qgt.Amount(relative=0.2, absolute=3.0, limit=12.0, dilution=1.0),
)
each_baseline = pytest.mark.parametrize("decoder", BASELINES, ids=lambda one: type(one).__name__)
each_noise = pytest.mark.parametrize("noise", NOISES, ids=repr)


def plate(noise: qgt.Noise | None = None, rate: float = 0.04) -> qgt.Problem:
    loads = qgt.Loads(rate=rate, mean=3.0, sd=1.0, low=1.0, high=5.0)
    noise = noise or qgt.CycleThreshold(sigma=0.1, limit=38.0)
    return qgt.Problem(qgt.Design.kirkman_triples(pools=27, items=63), loads, noise)


def simulated(problem: qgt.Problem, number: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    x, y = problem.simulate(number, generator=torch.Generator().manual_seed(seed))
    return x, y


def weighted(problem: qgt.Problem, y: Tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One instance's open items, and its equations divided by their standard errors: written down plainly."""
    A = problem.design.matrix.numpy().astype(float)
    noise = problem.noise
    assert isinstance(noise, qgt.CycleThreshold)
    total = np.where(np.isinf(y.numpy()), 0.0, [noise.amount(ct) if ct < math.inf else 0.0 for ct in y.tolist()])
    found = total > 0
    items = np.flatnonzero((A[~found] == 0).all(0) & (A[found] > 0).any(0))
    error = total[found] * noise.sigma * math.log(10) / -noise.slope
    return items, A[np.ix_(found, items)] / error[:, None], total[found] / error


# --- totals ---------------------------------------------------------------------------------------------------------


@each_noise
def test_totals_are_those_that_were_reported(noise: qgt.CycleThreshold | qgt.Amount) -> None:
    """Reports without errors give back their totals, and the stated standard errors are those of drawn reports."""
    sizes = torch.tensor([3.0, 8.0, 1.0], dtype=torch.float64)
    totals = torch.tensor([[500.0, 4000.0, 90.0]], dtype=torch.float64)
    found = estimated_totals(noise, noise.usual_report(totals, sizes), sizes)
    assert torch.allclose(found.total, totals)
    drawn = noise.sample(totals.expand(4000, -1), sizes, generator=torch.Generator().manual_seed(0))
    spread = estimated_totals(noise, drawn, sizes).total.log().std(0)
    assert torch.allclose(spread, (found.error / found.total)[0], rtol=0.15)


@each_noise
def test_empty_pools_are_not_detected(noise: qgt.CycleThreshold | qgt.Amount) -> None:
    sizes = torch.full((3,), 8.0, dtype=torch.float64)
    y = noise.sample(torch.zeros(4000, 3, dtype=torch.float64), sizes, generator=torch.Generator().manual_seed(0))
    y[0, 0] = math.nan
    total = estimated_totals(noise, y, sizes).total
    assert bool(total[0, 0].isnan())
    assert float((total > 0).double().mean()) < 0.005  # three standard deviations


# --- what all of them do ----------------------------------------------------------------------------------------------


@each_baseline
@pytest.mark.parametrize(
    "noise",
    [qgt.CycleThreshold(sigma=0.02, limit=38.0), qgt.Amount(relative=0.01), qgt.Amount(absolute=0.01)],
    ids=repr,
)
def test_easy_plates_are_right(decoder: Baseline, noise: qgt.Noise) -> None:
    problem = plate(noise, rate=0.02)
    x, y = simulated(problem, 60)
    assert int((x > 0).sum()) > 40
    result = decoder.bind(problem)(y)
    right = (result.x == (x > 0)).all(1)
    assert float(right.double().mean()) >= 0.95
    amounts = result.amounts
    assert amounts is not None
    assert torch.allclose(amounts[right], x[right], rtol=0.1, atol=1e-6)
    assert set(result.status.tolist()) <= {qgt.Status.OK, qgt.Status.NOT_CONVERGED}


@each_baseline
def test_only_what_is_in_detected_pools_is_called(decoder: Baseline) -> None:
    problem = plate(rate=0.1)
    _, y = simulated(problem, 30)
    result = decoder.bind(problem)(y)
    screened = problem.design.spread((y == math.inf).double()) > 0
    assert result.scores is not None and result.amounts is not None
    for part in (result.x, result.scores, result.amounts):
        assert not bool(part[screened].any())
    assert bool((result.amounts[result.x > 0] > 0).all()) and not bool(result.amounts[result.x == 0].any())


def test_screening_never_loses_a_detected_positive() -> None:
    """With a threshold of nearly nothing least squares calls what screening leaves, where there is no other answer."""
    design = qgt.Design.from_matrix(torch.eye(12, dtype=torch.uint8).repeat(2, 1))
    loads = qgt.Loads(rate=0.4, mean=1.0, sd=1.0)
    for noise in NOISES:
        problem = qgt.Problem(design, loads, noise)
        x, y = simulated(problem, 100)
        found = estimated_totals(noise, y, design.pool_sizes.double()).total.view(100, 2, 12) > 0
        detected = (x > 0) & found.all(1)
        assert int(detected.sum()) > 100
        called = qgt.CompNNLS(least=1e-6).bind(problem)(y).x > 0
        assert bool((called == found.all(1)).all()) and bool(called[detected].all())


@each_baseline
def test_missing_reports_are_left_out(decoder: Baseline) -> None:
    problem = plate(rate=0.06)
    _, y = simulated(problem, 20)
    y[:, 5] = math.nan
    rest = [i for i in range(problem.pools) if i != 5]
    without = qgt.Problem(qgt.Design.from_matrix(problem.design.matrix[rest]), problem.prior, problem.noise)
    a, b = decoder.bind(problem)(y), decoder.bind(without)(y[:, rest])
    assert torch.equal(a.x, b.x)
    assert a.amounts is not None and b.amounts is not None
    assert torch.allclose(a.amounts, b.amounts, rtol=1e-6)
    nothing = decoder.bind(problem)(torch.full_like(y, math.nan))
    assert not bool(nothing.x.any())


@each_baseline
def test_other_problems_are_refused(decoder: Baseline) -> None:
    design = qgt.Design.from_rows(["110", "011"])
    assert "no amounts" in str(decoder.supports(qgt.Problem(design, qgt.Bernoulli(0.1))))
    loads = qgt.Loads(rate=0.1, mean=1.0, sd=1.0)
    normal = qgt.Problem(design, loads, qgt.Gaussian(sigma=1.0))
    assert "Gaussian" in str(decoder.supports(normal))
    with pytest.raises(ValueError, match="LoadPosterior"):
        decoder.bind(normal)


@pytest.mark.parametrize(
    ("kind", "options", "says"),
    [
        (qgt.CompNNLS, {"least": 0.0}, "least=0.0"),
        (qgt.CompNNOMP, {"quantile": 1.5}, "quantile=1.5"),
        (qgt.CompSBL, {"iterations": 0}, "iterations=0"),
        (qgt.CompLasso, {"penalty": -1.0}, "penalty=-1.0"),
        (qgt.LoadGAMP, {"damping": 2.0}, "damping=2.0"),
    ],
)
def test_bad_options_are_refused_by_name(kind: type[Baseline], options: dict[str, float], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        kind(**options)  # type: ignore[arg-type]


# --- each method ----------------------------------------------------------------------------------------------------


def test_least_squares_agree_with_scipy() -> None:
    problem = plate(rate=0.1)
    _, y = simulated(problem, 20)
    amounts = qgt.CompNNLS(least=1e-9).bind(problem)(y).amounts
    assert amounts is not None
    for i in range(20):
        items, matrix, report = weighted(problem, y[i])
        scale = 1 / np.linalg.norm(matrix, axis=0)
        expected = scale * nnls(matrix * scale, report)[0] if len(items) else np.zeros(0)
        assert np.allclose(amounts[i, items].numpy(), expected, rtol=1e-5, atol=1e-5 * float(amounts[i].max()))


def test_pursuit_stops_at_the_noise_level() -> None:
    """What it leaves is as small as the errors of the true items, and what it keeps cannot be done without."""
    problem = plate(rate=0.06)
    _, y = simulated(problem, 30, seed=4)
    result = qgt.CompNNOMP(least=1e-9).bind(problem)(y)
    assert result.amounts is not None
    stopped = 0
    for i in range(30):
        items, matrix, report = weighted(problem, y[i])
        called = result.x[i, items].numpy() > 0
        left = report - matrix @ result.amounts[i, items].numpy()
        stopped += bool(left @ left <= chi2.ppf(0.95, max(1, len(report))))
        if len(report):
            assert left @ left == pytest.approx(nnls(matrix[:, called], report)[1] ** 2, rel=1e-6, abs=1e-9)
    assert stopped >= 27


def test_sparse_bayesian_learning_maximises_its_evidence() -> None:
    """The variances at EM's fixed point are those that a general optimiser finds for the marginal likelihood."""
    design = qgt.Design.from_rows(["110", "011", "101", "111"])
    problem = qgt.Problem(design, qgt.Loads(rate=0.3, mean=2.0, sd=1.0), qgt.CycleThreshold(sigma=0.2))
    x = torch.tensor([[100.0, 300.0, 0.0]], dtype=torch.float64)
    y = problem.noise.sample(problem.design.count(x), design.pool_sizes.double(), generator=torch.Generator())
    items, matrix, report = weighted(problem, y[0])
    assert len(items) == 3

    def cost(logs: np.ndarray) -> float:
        covariance = np.eye(4) + (matrix * np.exp(logs)) @ matrix.T
        return float(np.linalg.slogdet(covariance)[1] + report @ np.linalg.solve(covariance, report))

    best = minimize(cost, np.log([1e4, 1e4, 1e4]), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
    gamma = np.exp(best.x)
    mean = gamma * (matrix.T @ np.linalg.solve(np.eye(4) + (matrix * gamma) @ matrix.T, report))
    result = qgt.CompSBL(least=1.0, iterations=100_000).bind(problem)(y)
    assert result.amounts is not None and result.x.tolist() == [[1, 1, 0]]
    assert result.amounts[0, :2].tolist() == pytest.approx(mean[:2].tolist(), rel=5e-3)
    short = qgt.CompSBL(iterations=2).bind(problem)(y)
    assert short.status.tolist() == [qgt.Status.NOT_CONVERGED]


def test_lasso_keeps_what_its_conditions_ask_for() -> None:
    """The items kept are those of the minimum, and their amounts those of least squares on them alone."""
    problem = plate(rate=0.1)
    _, y = simulated(problem, 15, seed=1)
    amounts = qgt.CompLasso(least=1e-9).bind(problem)(y).amounts
    assert amounts is not None
    for i in range(15):
        items, matrix, report = weighted(problem, y[i])
        if len(items) < 2:
            continue
        unit = matrix / np.linalg.norm(matrix, axis=0)
        weight = math.sqrt(2 * math.log(len(items)))
        # With one more row, its factor small, non-negative least squares minimise weight * sum v too.
        factor = 1e-4
        rows = np.vstack([unit, np.full((1, len(items)), factor)])
        found = nnls(rows, np.append(report, -weight / factor))[0]
        slope = unit.T @ (report - unit @ found)
        assert np.all(slope <= weight + 1e-2)  # the oracle itself keeps the conditions of Karush, Kuhn and Tucker
        expected, kept = np.zeros(len(items)), found > 1e-6
        scale = 1 / np.linalg.norm(matrix[:, kept], axis=0)
        expected[kept] = scale * nnls(matrix[:, kept] * scale, report)[0]
        assert np.allclose(amounts[i, items].numpy(), expected, rtol=1e-5, atol=1e-6 * expected.max())


def test_probabilities_of_message_passing_follow_the_prior() -> None:
    """Of two items in one positive pool the one with the larger rate is more probable; alone in a pool it is sure."""
    loads = qgt.Loads(rate=[0.3, 0.1], mean=2.0, sd=0.5)
    problem = qgt.Problem(qgt.Design.from_rows(["11"]), loads, qgt.Amount(relative=0.1))
    result = qgt.LoadGAMP().bind(problem)(torch.tensor([[100.0]], dtype=torch.float64))
    assert result.scores is not None
    assert float(result.scores[0, 0]) > float(result.scores[0, 1])
    alone = qgt.Problem(qgt.Design.from_rows(["10", "01"]), loads, qgt.Amount(relative=0.1))
    sure = qgt.LoadGAMP().bind(alone)(torch.tensor([[100.0, 0.0]], dtype=torch.float64))
    assert sure.scores is not None and sure.amounts is not None
    assert sure.scores[0].tolist() == pytest.approx([1.0, 0.0], abs=1e-6)
    assert float(sure.amounts[0, 0]) == pytest.approx(100.0, rel=0.05)  # half a standard error


def test_the_threshold_makes_sparse_bayesian_learning_better() -> None:
    """Calls of every amount above 0 are right far less often than calls above three standard errors."""
    problem = plate(qgt.Amount(relative=0.1 * math.log(1.95)), rate=0.1)
    x, y = simulated(problem, 100, seed=2)
    right = [
        float((qgt.CompSBL(least=least).bind(problem)(y).x == (x > 0)).all(1).double().mean()) for least in (0.01, 3.0)
    ]
    assert right[1] > right[0] + 0.2
