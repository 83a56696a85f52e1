"""Peeling: sound on every design, and complete on sparse-graph codes made for the defectives there are."""

import pytest
import torch

import qgt
from random_problems import random_problem


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("corrected", [1, 2])
def test_finds_all_defectives_of_a_sparse_graph_code(corrected: int) -> None:
    design = qgt.Design.sparse_graph_code(
        items=20_000, defectives=200, corrected=corrected, spare=0.2, generator=seeded(1)
    )
    problem = qgt.Problem(design, qgt.FixedWeight(200))
    x, y = problem.simulate(10, generator=seeded(2))
    found = qgt.Peeling().bind(problem)(y)
    proved = found.status == qgt.Status.PROVED
    assert int(proved.sum()) >= 8  # two defectives in the same two nodes cannot be told at times
    assert torch.equal(found.x[proved], x[proved])
    assert set(found.status.tolist()) <= {qgt.Status.PROVED, qgt.Status.NOT_CONVERGED}


def test_fails_with_far_more_defectives_than_it_was_made_for() -> None:
    design = qgt.Design.sparse_graph_code(items=5000, defectives=50, generator=seeded(1))
    problem = qgt.Problem(design, qgt.FixedWeight(150))
    found = qgt.Peeling().bind(problem)(problem.simulate(3, generator=seeded(2)).y)
    assert found.status.tolist() == [qgt.Status.NOT_CONVERGED] * 3


def test_deductions_are_sound_on_any_design() -> None:
    """What it proves is the only x that explains the counts; what it calls impossible, nothing explains."""
    proved = impossible = 0
    for seed in range(150):
        design = random_problem(seed).design
        problem = qgt.Problem(design, qgt.Bernoulli(0.3))
        y = problem.simulate(1, generator=seeded(seed)).y
        if seed % 3 == 0:
            y += torch.randint(-1, 2, y.shape, generator=seeded(seed))
        found, exact = qgt.Peeling().bind(problem)(y), qgt.Exhaustive().bind(problem)(y)
        if int(found.status[0]) == qgt.Status.PROVED:
            proved += 1
            assert torch.equal(found.x, exact.x), seed
            assert float(exact.evidence.confidence[0]) == pytest.approx(1.0), seed
        if int(found.status[0]) == qgt.Status.INFEASIBLE:
            impossible += 1
            assert int(exact.status[0]) == qgt.Status.INFEASIBLE, seed
    assert proved > 20
    assert impossible > 10


def test_refuses_noise() -> None:
    problem = qgt.Problem(qgt.Design.from_rows(["11"]), qgt.Bernoulli(0.1), qgt.SparseInteger(rate=0.1, bound=1))
    with pytest.raises(ValueError, match="believes every count"):
        qgt.Peeling().bind(problem)
