"""Trust in answers about amounts: confidence that is measured, and fits that see what does not belong to the model."""

import math
from dataclasses import replace
from functools import cache

import pytest
import torch
from torch import Tensor

import qgt
from qgt.trust.confidence import BoundCalibrated
from qgt.trust.diagnosis import load_causes
from qgt.trust.fit import INSTANCE_ALARM, misfit, off_reports

PLATES = 12


@cache
def setting() -> tuple[qgt.Problem, BoundCalibrated]:
    problem = qgt.Problem(
        qgt.Design.kirkman_triples(pools=15, items=35),
        qgt.Loads(rate=0.05, mean=3.0, sd=1.3, low=0.0),
        qgt.CycleThreshold(sigma=0.25, limit=38.0),
    )
    return problem, qgt.Calibrated(qgt.LoadPosterior(), seconds=60.0, simulations=150).bind(problem)


def judged(y: Tensor) -> qgt.Decoded:
    return setting()[1](y)


def test_honest_plates_fit_and_what_is_certain_is_right() -> None:
    problem, _ = setting()
    x, y = problem.simulate(60, generator=torch.Generator().manual_seed(7))
    result = judged(y)
    assert result.evidence.fit is not None and result.evidence.confidence is not None
    assert int((result.evidence.fit < INSTANCE_ALARM).sum()) == 0
    certain = result.evidence.confidence >= 0.99
    right = (result.x == (x > 0)).all(1)
    assert int(certain.sum()) > 30  # a confidence that is never high would be of no use
    assert bool(right[certain].all())


def swapped(problem: qgt.Problem, x: Tensor, y: Tensor) -> Tensor:
    """Two pools whose reports differ most change places."""
    first, last = y.nan_to_num(posinf=45.0).argmin(1), y.nan_to_num(posinf=45.0).argmax(1)
    rows, changed = torch.arange(len(y)), y.clone()
    changed[rows, first], changed[rows, last] = y[rows, last], y[rows, first]
    return changed


def noisier(problem: qgt.Problem, x: Tensor, y: Tensor) -> Tensor:
    """An error of 1 cycle, not 0.25."""
    return y + torch.randn(y.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def failed(problem: qgt.Problem, x: Tensor, y: Tensor) -> Tensor:
    """The strongest pool reports nothing."""
    changed = y.clone()
    changed[torch.arange(len(y)), y.argmin(1)] = math.inf
    return changed


@pytest.mark.parametrize("spoil", [swapped, noisier, failed], ids=lambda spoil: spoil.__name__)
def test_what_is_wrong_is_seen_or_does_no_harm(spoil) -> None:  # type: ignore[no-untyped-def]
    """Plates with two or more positives; no wrong answer may be certain and fit."""
    problem, _ = setting()
    x, y = problem.simulate(200, generator=torch.Generator().manual_seed(3))
    some = ((x > 0).sum(1) >= 2).nonzero()[:PLATES, 0]
    result = judged(spoil(problem, x[some], y[some]))
    assert result.evidence.fit is not None and result.evidence.confidence is not None
    suspect = result.evidence.fit < INSTANCE_ALARM
    wrong = (result.x != (x[some] > 0)).any(1)
    trusted = ~suspect & (result.evidence.confidence >= 0.99)
    assert not bool((wrong & trusted).any())
    assert bool(suspect.any()) or not bool(wrong.any())


def test_misfit_is_minus_the_log_of_what_the_model_says() -> None:
    problem, _ = setting()
    x, y = problem.simulate(5, generator=torch.Generator().manual_seed(0))
    found = misfit(problem, y, x)
    assert torch.allclose(-(found.noise + found.prior), problem.log_joint(x, y))


def test_a_report_four_errors_off_is_off() -> None:
    problem, _ = setting()
    x, y = problem.simulate(40, generator=torch.Generator().manual_seed(0))
    assert float(off_reports(problem, y, x).double().mean()) < 0.01
    some = torch.isfinite(y) & (y < 30)
    moved = torch.where(some, y + 2.0, y)
    assert bool(off_reports(problem, moved, x)[some].all())
    assert not bool(off_reports(problem, torch.full_like(y, math.nan), x).any())


def test_without_enough_simulations_longer_lists_support_what_is_certain() -> None:
    problem, _ = setting()
    y = problem.simulate(6, generator=torch.Generator().manual_seed(5)).y
    few = qgt.Calibrated(qgt.LoadPosterior(), seconds=60.0, simulations=10).bind(problem)
    confidence = few(y).evidence.confidence
    assert confidence is not None
    assert bool((confidence >= 0.99).any())


# Likely causes of a file that does not fit.


def named(problem: qgt.Problem, y: Tensor) -> list[str]:
    return [cause.kind for cause in load_causes(problem, y)]


def plates(number: int = PLATES, **noise: float) -> tuple[qgt.Problem, Tensor]:
    """A problem with pools to spare, so that answers survive a spoilt pool; and plates of it with another noise."""
    g = torch.Generator().manual_seed(5)
    design = qgt.Design.column_regular(pools=24, items=60, weight=4, generator=g)
    loads = qgt.Loads(rate=0.03, mean=3.0, sd=1.3, low=0.0)
    problem = qgt.Problem(design, loads, qgt.CycleThreshold(sigma=0.25, limit=38.0))
    other = replace(problem, noise=qgt.CycleThreshold(**{"sigma": 0.25, "limit": 38.0, **noise}))
    return problem, other.simulate(number, generator=g).y


def test_plates_of_the_model_have_no_cause() -> None:
    assert named(*plates()) == []


def test_two_swapped_pools_are_named() -> None:
    problem, y = plates()
    y[:, [2, 9]] = y[:, [9, 2]]
    cause = load_causes(problem, y)[0]
    assert cause.words == "the cycle thresholds of pools P3 and P10 are swapped" and cause.pools == (2, 9)


def test_pools_in_reverse_order_are_named() -> None:
    problem, y = plates()
    assert named(problem, y.flip(1)) == ["pools reversed"]


def test_reports_of_another_design_are_named() -> None:
    problem, y = plates()
    order = torch.randperm(24, generator=torch.Generator().manual_seed(8))
    assert named(problem, y[:, order]) == ["another design"]


def test_larger_errors_are_named_with_their_size() -> None:
    cause = load_causes(*plates(sigma=0.6))[0]
    assert cause.kind == "noise" and cause.remedy
    factor = float(cause.words.split("about ")[1].split(" times")[0])
    assert 1.6 < factor < 3.2  # 2.4 in truth: the largest errors look like arbitrary reports


def test_a_background_is_named_with_what_empty_pools_read() -> None:
    (cause,) = load_causes(*plates(background=4.0, background_sigma=0.3))
    assert cause.kind == "background" and "read about 35" in cause.words


def test_failed_pools_are_named() -> None:
    assert named(*plates(dropout=0.1))[0] == "pools failed"


def test_one_failed_pool_is_named() -> None:
    problem, y = plates(40)
    pool = 4
    seen = y[y[:, pool] < math.inf][:6].clone()
    seen[:, pool] = math.inf
    cause = load_causes(problem, seen)[0]
    assert cause.kind == "pool failed" and cause.pools == (pool,)


def test_more_positives_than_expected_are_named() -> None:
    problem, y = plates()
    few = replace(problem, prior=qgt.Loads(rate=0.005, mean=3.0, sd=1.3, low=0.0))
    assert "prevalence" in named(few, y)


def test_without_plates_or_arbitrary_reports_there_is_no_cause() -> None:
    problem, y = plates()
    assert named(problem, y[:0]) == []
    amounts = replace(problem, noise=qgt.Amount(relative=0.1))  # without a least amount, none is arbitrary
    assert named(amounts, amounts.simulate(2, generator=torch.Generator().manual_seed(0)).y) == []
