"""Lists called complete against every set of a small plate, fitted as the search fits them."""

import itertools
import math
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import qgt

BENCHMARKS = Path(__file__).resolve().parents[3] / "benchmarks"
PLATES, NODES = 16, 50


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return import_module("load_lists")


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("noise", "pools", "rate", "seed"),
    [
        ("cycles", 7, 0.05, 12),  # a surprise that seven samples explain about as badly: screening kept four of them
        ("amounts", 5, 0.1, 11),  # eight samples may be the one positive: six were fitted
        ("cycles", 5, 0.1, 10),  # more samples than three may take the place of another
        ("amounts", 7, 0.05, 11),  # additions that gain twice as much as is predicted while other loads are kept
    ],
)
def test_a_complete_list_lacks_no_set_that_matters(script: Any, noise: str, pools: int, rate: float, seed: int) -> None:
    problem = script.problem_of(script.Kind(noise, pools, rate), seed)
    y = problem.simulate(PLATES, generator=torch.Generator().manual_seed(seed)).y
    search = script.search_of(problem, y)
    sets = list(script.every_set(search))
    found = script.lacking(search, search.run(), sets)
    assert found["complete"] > PLATES // 2
    assert found["lack_0.02"] == 0, found["shares"]


def share_by_grid(problem: qgt.Problem, y: Tensor, answer: Tensor) -> float:
    """The share of an answer among all sets of up to two samples, loads integrated on a fine grid: at least its own."""
    loads = problem.loads
    assert loads is not None
    low, high = loads.span
    step = (high - low) / NODES
    logs = low + step * (torch.arange(NODES, dtype=torch.float64) + 0.5)
    weight = loads.log_density(logs) + math.log(step)
    matrix, sizes = problem.design.matrix.double(), problem.design.pool_sizes.double()
    found = {}
    for who in itertools.chain.from_iterable(itertools.combinations(range(problem.items), n) for n in range(3)):
        number = len(who)
        points = torch.cartesian_prod(*[logs] * number).view(-1, number) if who else torch.zeros(1, 0).double()
        mass = torch.cartesian_prod(*[weight] * number).view(-1, number).sum(1) if who else torch.zeros(1).double()
        totals = 10.0**points @ matrix[:, list(who)].T
        x = torch.zeros(1, problem.items, dtype=torch.uint8)
        x[0, list(who)] = 1
        told = problem.noise.log_prob(y.expand(len(totals), -1), totals, sizes).sum(1)
        found[tuple(x[0].tolist())] = float(loads.statuses().log_prob(x)) + float((mass + told).logsumexp(0))
    total = torch.tensor(list(found.values()), dtype=torch.float64).logsumexp(0)
    return math.exp(found[tuple(answer.tolist())] - float(total))


@pytest.mark.usefixtures("unchecked")
def test_a_surprise_with_many_explanations_is_no_certainty(script: Any) -> None:
    """Confidence was 0.11 above the truth, as screening left out samples with 44 % of the best set's odds."""
    problem = script.problem_of(script.Kind("cycles", 7, 0.05), 12)
    y = problem.simulate(PLATES, generator=torch.Generator().manual_seed(12)).y
    result = qgt.LoadPosterior().bind(problem)(y)
    assert result.evidence.confidence is not None
    few = (result.x.sum(1) < 2).nonzero()[:, 0].tolist()
    assert len(few) > PLATES // 2 and 1 in few
    for i in few:
        assert float(result.evidence.confidence[i]) < share_by_grid(problem, y[i], result.x[i]) + 0.01


def test_samples_of_the_same_pools_share_the_probability() -> None:
    """A weak positive in pools of twelve: each of the twelve is as probable as any other, and all are listed.

    Four of them were looked at, and a plate whose later rounds had cleared these was called certain.
    """
    design = qgt.Design.from_rows(["1" * 12 + "0" * 12, "1" * 12 + "0" * 12, "0" * 12 + "1" * 12])
    loads = qgt.Loads(rate=0.005, mean=2.9, sd=1.9, low=0.0)
    problem = qgt.Problem(design, loads, qgt.CycleThreshold(sigma=0.25, limit=38.0))
    result = qgt.LoadPosterior().bind(problem)(torch.tensor([[36.8, 36.8, math.inf]], dtype=torch.float64))
    confidence, marginals, answers = (
        result.evidence.confidence,
        result.evidence.marginals,
        result.evidence.alternatives,
    )
    assert confidence is not None and marginals is not None and answers is not None
    assert float(confidence) == pytest.approx(1 / 12, abs=0.005)
    assert bool(((marginals[0, :12] - 1 / 12).abs() < 0.01).all())
    assert int((answers.x.sum(1) == 1).sum()) == 12
