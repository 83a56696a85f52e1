"""The relaxation: its bound holds whatever the multipliers, and what it proves is so."""

from dataclasses import dataclass

import pytest
import torch

from qgt import (
    Bernoulli,
    Design,
    Exhaustive,
    FixedWeight,
    LinearProgram,
    Noiseless,
    Problem,
    SparseInteger,
    Status,
)
from qgt.decoders.highs.exact import dual_bound
from random_problems import case, model_case, some_of

PROBLEMS, MODELS = some_of(1000), some_of(1000)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def assert_bounds(bound: torch.Tensor, best: torch.Tensor, note: object) -> None:
    """No instance's best log joint exceeds its bound by more than rounding."""
    assert bool((best <= bound + 1e-9 * (1 + bound.abs().nan_to_num(posinf=0.0))).all()), (note, best - bound)


def test_the_bound_holds_and_proofs_are_proofs_on_random_problems():
    proved = feasible = 0
    for seed in range(PROBLEMS):
        problem, y, _, best = case(seed)
        result = LinearProgram().bind(problem)(y)
        assert_bounds(result.evidence.bound, best, seed)
        assert torch.equal(result.evidence.log_joint, problem.log_joint(result.x, y))
        sure = result.status == Status.PROVED
        torch.testing.assert_close(result.evidence.log_joint[sure], best[sure], rtol=1e-8, atol=1e-8, msg=str(seed))
        assert bool((best[result.status == Status.INFEASIBLE] == -torch.inf).all()), seed
        assert bool(((result.scores >= 0) & (result.scores <= 1)).all())
        proved, feasible = proved + int(sure.sum()), feasible + int((best > -torch.inf).sum())
    assert proved >= 0.8 * feasible


@pytest.mark.usefixtures("unchecked")
def test_the_bound_holds_on_random_models():
    proved = 0
    for seed in range(MODELS):
        problem, y, _, best = model_case(seed)
        result = LinearProgram().bind(problem)(y)
        assert_bounds(result.evidence.bound, best, seed)
        sure = result.status == Status.PROVED
        torch.testing.assert_close(result.evidence.log_joint[sure], best[sure], rtol=1e-8, atol=1e-8, msg=str(seed))
        assert bool((best[result.status == Status.INFEASIBLE] == -torch.inf).all()), seed
        groups = problem.prior.costs(problem.items).groups
        rows = problem.pools + (0 if groups is None else len(groups.tables))
        pi = 5 * torch.randn(1, 4, rows, dtype=torch.float64, generator=generator(seed))
        assert_bounds(dual_bound(problem, y, pi), best, seed)
        proved += int(sure.sum())
    assert proved >= MODELS // 2  # none, if the tables of groups and numbers were left out of the bound


def test_the_bound_holds_for_any_multipliers():
    for seed in range(300):
        problem, y, _, best = case(seed)
        g = generator(seed)
        pi = 5 * torch.randn(1, 4, problem.pools, dtype=torch.float64, generator=g)
        several = dual_bound(problem, y, pi)
        assert_bounds(several, best, seed)
        one_by_one = torch.stack([dual_bound(problem, y, pi[:, i]) for i in range(4)])  # (sets, instances)
        assert_bounds(one_by_one, best.expand(4, -1), seed)
        assert bool((several <= one_by_one.amin(0) + 1e-9).all())  # more sets never loosen it


def test_the_bound_is_its_formula():
    problem = Problem(Design.from_rows(["110", "011"]), Bernoulli([0.2, 0.3, 0.4]), SparseInteger(rate=0.3, bound=1))
    y, pi = torch.tensor([[1.0, 3.0]], dtype=torch.float64), torch.tensor([[0.7, -1.3]], dtype=torch.float64)
    rate = torch.tensor([0.2, 0.3, 0.4], dtype=torch.float64)
    reduced = torch.log((1 - rate) / rate) + pi[0] @ problem.design.matrix.double()
    cost = -torch.log1p(-rate).sum() + reduced.clamp(max=0).sum()
    for count, multiplier in zip(y[0], pi[0], strict=True):
        c = torch.arange(3, dtype=torch.float64)
        cost += (-problem.noise.log_prob(count.expand(3), c, torch.full_like(c, 2.0)) - multiplier * c).min()
    assert float(dual_bound(problem, y, pi)[0]) == pytest.approx(-float(cost), abs=1e-12)


def test_the_multipliers_are_the_best_ones():
    # The bound with the solver's multipliers is the value of the relaxation; a wrong sign would leave it far off.
    problem = Problem(Design.bernoulli(pools=20, items=30, generator=generator(1)), Bernoulli(0.1))
    y = problem.simulate(20, generator=generator(2)).y
    result = LinearProgram().bind(problem)(y)
    relaxed_cost = torch.logit(torch.tensor(0.1, dtype=torch.float64)) * result.scores.sum(1)
    value = relaxed_cost + 30 * torch.log1p(torch.tensor(-0.1, dtype=torch.float64))  # without noise: counts are met
    torch.testing.assert_close(result.evidence.bound, value, rtol=1e-8, atol=1e-8)


def test_integral_answers_are_proved_and_halves_are_not():
    problem = Problem(Design.from_rows(["1100", "0110", "0011"]), Bernoulli(0.2))
    result = LinearProgram().bind(problem)(torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]], dtype=torch.float64))
    assert result.status.tolist() == [Status.PROVED, Status.PROVED]
    assert result.x.tolist() == [[0, 1, 0, 0], [0, 0, 0, 0]]
    # Three pairs of three items with one defective each: x = 1/2, 3/2 defectives, so no whole number fits.
    triangle = Problem(Design.from_rows(["110", "011", "101"]), Bernoulli(0.2))
    assert LinearProgram().bind(triangle)(torch.ones(1, 3, dtype=torch.float64)).status.tolist() == [Status.INFEASIBLE]
    # Two of these have a whole number of halves, so the relaxation sees no fault; with noise, none it must pay for.
    rows = ["110000", "011000", "101000", "000110", "000011", "000101"]
    for noise in (Noiseless(), SparseInteger(rate=0.01, bound=1)):
        triangles, y = Problem(Design.from_rows(rows), Bernoulli(0.2), noise), torch.ones(1, 6, dtype=torch.float64)
        result = LinearProgram().bind(triangles)(y)
        assert result.status.tolist() == [Status.OK]
        assert result.scores.tolist() == [[0.5] * 6]
        assert result.x.tolist() == [[0] * 6]
        assert float(result.evidence.bound[0]) > float(Exhaustive().bind(triangles)(y).evidence.log_joint[0]) + 1


def test_impossible_counts_are_infeasible():
    problem = Problem(Design.from_rows(["110", "110", "011"]), FixedWeight(1))
    y = torch.tensor([[1, 1, 0], [1, 0, 0], [9, 9, 9], [2, 2, 0]], dtype=torch.float64)
    result = LinearProgram().bind(problem)(y)
    assert result.status.tolist() == [Status.PROVED, *[Status.INFEASIBLE] * 3]
    assert result.x.tolist() == [[1, 0, 0], *[[0, 0, 0]] * 3]
    assert result.evidence.bound[1:].tolist() == [-torch.inf] * 3


def test_a_solver_that_fails_costs_the_proof_not_the_bound(monkeypatch):
    import scipy.optimize

    class Failed:
        status = 4

    monkeypatch.setattr(scipy.optimize, "linprog", lambda *arguments, **options: Failed())
    for seed in range(40):
        problem, y, _, best = case(seed)
        result = LinearProgram().bind(problem)(y)
        assert_bounds(result.evidence.bound, best, seed)
        sure = result.status == Status.PROVED
        torch.testing.assert_close(result.evidence.log_joint[sure], best[sure])


def test_at_the_papers_size_most_instances_are_proved():
    design = Design.bernoulli(pools=35, items=100, generator=generator(3))
    problem = Problem(design, Bernoulli(0.06), SparseInteger(rate=0.1, bound=1))
    x, y = problem.simulate(60, generator=generator(4))
    result = LinearProgram().bind(problem)(y)
    proved = result.status == Status.PROVED
    # Measured: 91.6 % of 2,000; below 80 % of 60 has probability below 0.01.
    assert int(proved.sum()) >= 48
    assert bool((result.evidence.bound >= problem.log_joint(x, y) - 1e-9).all())
    assert bool((result.evidence.log_joint[proved] >= problem.log_joint(x, y)[proved] - 1e-9).all())


@dataclass(frozen=True)
class SampledOnly:
    """A prior without costs."""

    rate: float

    def sample(self, instances, items, *, generator):
        return Bernoulli(self.rate).sample(instances, items, generator=generator)


def test_what_it_cannot_use_is_refused_with_the_reason():
    problem = Problem(Design.from_rows(["11"]), SampledOnly(0.1))
    assert "SampledOnly" in LinearProgram().supports(problem)
    with pytest.raises(ValueError, match=r"^LinearProgram cannot decode this problem"):
        LinearProgram().bind(problem)


def test_no_instances():
    problem = Problem(Design.from_rows(["11"]), Bernoulli(0.5))
    result = LinearProgram().bind(problem)(torch.zeros(0, 1, dtype=torch.float64))
    assert result.x.shape == result.scores.shape == (0, 2)
    assert dual_bound(problem, torch.zeros(0, 1).double(), torch.zeros(0, 1).double()).shape == (0,)
