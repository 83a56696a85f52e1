"""Calibrated confidence of copies and categories: as often right as it says."""

from functools import cache

import pytest
import torch

from qgt import Calibrated, Categories, Certified, Copies, Design, Problem, SparseInteger
from qgt.decoders.belief.decoder import BeliefPropagation
from qgt.trust.confidence import BoundCalibrated, prior_rates
from qgt.trust.diagnosis import rescue, wrong_count_odds
from random_problems import some_of

PRIORS = [Categories((0.04, 0.04)), Copies(frequency=0.04, ploidy=2)]


def problem_of(prior: Categories | Copies, pools: int = 13, rate: float = 0.05) -> Problem:
    g = torch.Generator().manual_seed(0)
    design = Design.column_regular(pools=pools, items=40, weight=5, generator=g)
    return Problem(design, prior, SparseInteger(rate=rate, bound=1))


@cache
def calibrated(prior: Categories | Copies) -> BoundCalibrated:
    """Small plates with too few pools, which take little time: on a fifth of them other answers come close."""
    g = torch.Generator().manual_seed(0)
    design = Design.column_regular(pools=8, items=18, weight=4, generator=g)
    problem = Problem(design, prior, SparseInteger(rate=0.05, bound=1))
    return Calibrated(Certified(certificates=False), seconds=60.0, simulations=250).bind(problem)


@pytest.mark.parametrize("prior", PRIORS)
def test_answers_are_right_as_often_as_their_confidence_says(prior: Categories | Copies, unchecked: None) -> None:
    decode = calibrated(prior)
    x, y = decode.problem.simulate(some_of(1000), generator=torch.Generator().manual_seed(1))
    result = decode(y)
    sure, right = result.evidence.confidence, (result.x == x).all(1)
    assert sure is not None
    # A sum of independent yes and no, whose chances are the confidences, is rarely four deviations off.
    deviation = float((sure * (1 - sure)).sum().sqrt())
    assert abs(float((sure - right.double()).sum())) <= 4 * deviation + 0.02 * len(x)
    certain = sure >= 0.99
    assert int(certain.sum()) > len(x) / 4
    wrong = int((~right & certain).sum())
    assert wrong <= 0.01 * int(certain.sum()) + 4 * (0.01 * int(certain.sum())) ** 0.5
    assert bool((sure < 0.9).any())  # or there would be nothing to tell apart


@pytest.mark.parametrize("prior", PRIORS)
def test_each_value_has_a_probability_that_means_what_it_says(prior: Categories | Copies, unchecked: None) -> None:
    decode = calibrated(prior)
    x, y = decode.problem.simulate(some_of(1000), generator=torch.Generator().manual_seed(2))
    values = decode(y).evidence.values
    assert values is not None and torch.allclose(values.sum(2), torch.ones(x.shape, dtype=torch.float64))
    for value in range(3):
        chance, true = values[:, :, value].flatten(), (x == value).flatten().double()
        for some in (chance < 0.01, (chance >= 0.01) & (chance < 0.9), chance >= 0.9):
            deviation = float((chance[some] * (1 - chance[some])).sum().sqrt())
            assert abs(float((chance - true)[some].sum())) <= 5 * deviation + 0.02 * float(true.sum()) + 1


def test_decoders_that_list_nothing_are_calibrated_too(unchecked: None) -> None:
    problem = problem_of(PRIORS[0], pools=16)
    x, y = problem.simulate(100, generator=torch.Generator().manual_seed(3))
    result = Calibrated(BeliefPropagation(), seconds=2.0, simulations=300).bind(problem)(y)
    sure, right = result.evidence.confidence, (result.x == x).all(1)
    assert sure is not None and result.evidence.values is not None
    assert abs(float(sure.mean() - right.double().mean())) < 0.2
    assert torch.allclose(result.evidence.values.sum(2), torch.ones(x.shape, dtype=torch.float64))


def test_what_is_calibrated_is_kept_and_read_again(tmp_path: object, unchecked: None) -> None:
    from pathlib import Path

    problem, decoder = calibrated(PRIORS[0]).problem, Certified(certificates=False)
    y = problem.simulate(4, generator=torch.Generator().manual_seed(4)).y
    config = Calibrated(decoder, seconds=60.0, simulations=100, cache=Path(str(tmp_path)))
    first, again = config.bind(problem)(y), config.bind(problem)(y)
    assert torch.equal(first.evidence.confidence, again.evidence.confidence)  # type: ignore[arg-type]
    assert torch.equal(first.evidence.values, again.evidence.values)  # type: ignore[arg-type]


@pytest.mark.parametrize("prior", PRIORS)
def test_the_rate_before_any_count_is_that_of_any_value_but_0(prior: Categories | Copies) -> None:
    rates = prior_rates(problem_of(prior))
    assert rates is not None and torch.allclose(rates, torch.tensor(1 - prior.distribution[0], dtype=torch.float64))


@pytest.mark.parametrize("prior", PRIORS)
def test_one_wrong_count_is_found(prior: Categories | Copies) -> None:
    problem = problem_of(prior, pools=16, rate=0.0)
    x, y = problem.simulate(1, generator=torch.Generator().manual_seed(5))
    spoiled = y.clone()
    spoiled.view(-1)[3] += 2
    found = rescue(problem, spoiled[0], seconds=5.0)
    assert found is not None and torch.equal(found.x, x[0])
    assert found.wrong == (problem.report_names[3],)


def test_odds_of_a_wrong_count_look_at_each_category(unchecked: None) -> None:
    problem = problem_of(PRIORS[0], pools=16, rate=0.1)
    y = problem.simulate(2, generator=torch.Generator().manual_seed(6)).y
    y[1, 7, 1] += 3  # no error of the model
    odds = wrong_count_odds(problem, y, Certified().bind(problem)(y))
    assert float(odds[0]) < 0 and float(odds[1]) > 3
