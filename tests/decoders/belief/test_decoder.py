"""Belief propagation: exact where the factor graph is a tree, near enumeration elsewhere, and right at scale."""

import math

import pytest
import torch
from torch import Generator, Tensor

import qgt
from qgt.decoders.belief import decoder as decoder_module
from qgt.decoders.belief import sweeps as sweeps_module
from qgt.decoders.belief.sweeps import messages
from random_problems import NOISES, READINGS, model_case

PRECISE = qgt.BeliefPropagation(iterations=2000, tolerance=1e-12)
NOISE = qgt.SparseInteger(rate=0.1, bound=1)


def seeded(seed: int = 0) -> Generator:
    return torch.Generator().manual_seed(seed)


def exact_messages(odds: Tensor, likelihood: Tensor) -> Tensor:
    """The definition: for each item the law of the number of the others, one item after the other."""
    items, counts = odds.shape[0], likelihood.shape[0]
    table = torch.cat([likelihood, torch.zeros(items + 1, odds.shape[1], dtype=torch.float64)])
    told = []
    for j in range(items):
        law = torch.zeros(counts + items, odds.shape[1], dtype=torch.float64)
        law[0] = 1.0
        for p in torch.sigmoid(odds)[torch.arange(items) != j]:
            law = law * (1 - p) + torch.cat([torch.zeros_like(law[:1]), law[:-1] * p])
        one, none = (law * table[1:]).sum(0), (law * table[:-1]).sum(0)
        told.append(one.log() - none.log())
    return torch.stack(told)


@pytest.mark.parametrize(("items", "counts"), [(1, 2), (2, 3), (3, 4), (5, 2), (7, 8), (32, 12), (37, 38), (48, 5)])
def test_messages_are_their_definition(items: int, counts: int) -> None:
    g = seeded(items)
    odds = 3 * torch.randn(items, 6, generator=g, dtype=torch.float64)
    likelihood = torch.rand(counts, 6, generator=g, dtype=torch.float64)
    torch.testing.assert_close(messages(odds, likelihood), exact_messages(odds, likelihood), rtol=0, atol=1e-12)


def test_messages_do_not_underflow() -> None:
    """2,000 items of which none may be defective, and of which all must: each probability alone is 2^-2000."""
    odds = torch.zeros(2000, 2, dtype=torch.float64)
    likelihood = torch.zeros(2001, 2, dtype=torch.float64)
    likelihood[0, 0] = likelihood[1, 0] = likelihood[2000, 1] = likelihood[1999, 1] = 1.0
    told = messages(odds, likelihood)
    torch.testing.assert_close(told[:, 0], torch.full((2000,), -math.log(2000.0), dtype=torch.float64))
    torch.testing.assert_close(told[:, 1], torch.full((2000,), math.log(2000.0), dtype=torch.float64))


def random_tree(seed: int) -> qgt.Design:
    """A design without cycles: each pool takes one item that is in pools already, and some that are in none."""
    g, items, pools = seeded(seed), 1, []
    for _ in range(5):
        old, new = int(torch.randint(items, (), generator=g)), int(torch.randint(1, 4, (), generator=g))
        pools.append([old, *range(items, items + new)])
        items += new
    return qgt.Design.from_lists(pools, items=items)


@pytest.mark.parametrize("few", [0, 128])  # pools one after the other, and all at once
@pytest.mark.parametrize("seed", range(12))
def test_exact_on_trees(seed: int, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps_module, "FEW_POOLS", few)
    design, noises = random_tree(seed), (*NOISES, *READINGS)
    rates = 0.05 + 0.6 * torch.rand(design.items, generator=seeded(seed), dtype=torch.float64)
    problem = qgt.Problem(design, qgt.Bernoulli(rates), noises[7 * seed % len(noises)])
    y = problem.simulate(6, generator=seeded(seed)).y
    y[0, 1] = torch.nan
    exact, found = qgt.Exhaustive().bind(problem)(y), PRECISE.bind(problem)(y)
    torch.testing.assert_close(found.scores, exact.scores, rtol=0, atol=1e-8)
    assert set(found.status.tolist()) <= {qgt.Status.OK}


@pytest.mark.parametrize(
    "prior",
    [
        qgt.Households(size=3, seed_rate=0.2, attack_rate=0.6, background=0.05),
        qgt.UnknownRate(low=0.05, high=0.5),
        qgt.FixedWeight(3),
        qgt.UnknownLevel(qgt.Bernoulli(0.2), low=0.3, high=3.0),
    ],
)
def test_exact_with_one_more_factor(prior: qgt.Prior) -> None:
    """Pools of one item each, so that the prior's own factors close no cycle."""
    problem = qgt.Problem(qgt.Design.from_rows(["100000000", "000010000", "000000001"]), prior, NOISE)
    y = problem.simulate(20, generator=seeded(5)).y
    exact = qgt.Exhaustive().bind(problem)(y)
    torch.testing.assert_close(PRECISE.bind(problem)(y).scores, exact.scores, rtol=0, atol=1e-8)


@pytest.mark.usefixtures("unchecked")  # a third faster; what types are passed is checked in every other test
def test_near_enumeration_on_all_kinds_of_models() -> None:
    """Short cycles everywhere: marginals are near the exact ones on average, and no possible instance is refused."""
    errors = []
    for seed in range(60):
        problem, y, status, _ = model_case(seed)
        found = qgt.BeliefPropagation().bind(problem)(y)
        if int(status[0]) == qgt.Status.INFEASIBLE:
            assert int(found.status[0]) != qgt.Status.OK, seed
            continue
        assert int(found.status[0]) != qgt.Status.INFEASIBLE, seed
        if int(found.status[0]) == qgt.Status.OK:
            assert bool(problem.log_joint(found.x, y).isfinite()), seed
            errors.append(float((found.scores - qgt.Exhaustive().bind(problem)(y).scores).abs().mean()))
    assert len(errors) > 40
    assert sum(errors) / len(errors) < 0.03  # the prior alone: 0.1


def sparse(items: int, ratio: float, prior: qgt.Prior, seed: int = 0) -> qgt.Problem:
    design = qgt.Design.column_regular(pools=int(ratio * items), items=items, weight=8, generator=seeded(seed))
    return qgt.Problem(design, prior, NOISE)


def test_right_at_scale() -> None:
    """10,000 items, a tenth of the counts in error; AMP calls 600 wrong here, as does calling none."""
    problem = sparse(10_000, 0.25, qgt.Bernoulli(0.06))
    x, y = problem.simulate(2, generator=seeded(1))
    found = qgt.BeliefPropagation().bind(problem)(y)
    assert found.status.tolist() == [qgt.Status.OK] * 2
    assert int((found.x != x).sum()) <= 2
    assert int(found.evidence.iterations.max()) <= 15


def test_honest_below_the_threshold() -> None:
    """With too few pools no messages tell the items apart: then the marginals say so."""
    problem = sparse(2000, 0.12, qgt.Bernoulli(0.06))
    x, y = problem.simulate(2, generator=seeded(1))
    found = qgt.BeliefPropagation().bind(problem)(y)
    assert float((found.scores - x.double()).abs().mean()) > 0.03
    expected = (found.scores * (1 - found.scores)).sum()  # the squared error that the marginals expect
    assert 0.5 < float((found.scores - x.double()).square().sum() / expected) < 2.0


@pytest.mark.parametrize("prior", [qgt.FixedWeight(120), qgt.UnknownRate(low=0.001, high=0.3)])
def test_number_of_defectives_of_many_items(prior: qgt.Prior) -> None:
    """The level stands for a factor over all items; told the rate, belief propagation finds the same."""
    told = sparse(2000, 0.25, qgt.Bernoulli(0.06))
    x = qgt.FixedWeight(120).sample(3, 2000, generator=seeded(3))
    y = told.noise.sample(told.design.count(x), told.design.pool_sizes.double(), generator=seeded(4))
    found = qgt.BeliefPropagation().bind(qgt.Problem(told.design, prior, told.noise))(y)
    assert int((found.x != x).sum()) <= int((qgt.BeliefPropagation().bind(told)(y).x != x).sum())
    assert found.status.tolist() == [qgt.Status.OK] * 3


def test_level_agrees_with_the_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    """On 200 items the number of defectives is a factor; as a level it gives nearly the same marginals."""
    problem = sparse(200, 0.3, qgt.UnknownRate(low=0.01, high=0.15))
    y = problem.simulate(12, generator=seeded(6)).y
    factor = qgt.BeliefPropagation().bind(problem)(y)
    for module in (sweeps_module, decoder_module):
        monkeypatch.setattr(module, "MOST_TOTAL", 100)
    level = qgt.BeliefPropagation().bind(problem)(y)
    both = (factor.status == qgt.Status.OK) & (level.status == qgt.Status.OK)
    assert int(both.sum()) >= 6
    assert float((factor.scores - level.scores)[both].abs().max()) < 0.02


def test_uses_households() -> None:
    households = qgt.Households(size=4, seed_rate=0.1, attack_rate=0.6)
    told = sparse(500, 0.16, households)
    x, y = told.simulate(6, generator=seeded(7))
    untold = qgt.Problem(told.design, qgt.Bernoulli(0.06), told.noise)
    wrong = [int((qgt.BeliefPropagation().bind(one)(y).x != x).sum()) for one in (told, untold)]
    assert wrong[0] < 0.3 * wrong[1]


def test_impossible_calls_are_repaired() -> None:
    """Two items, one of them defective, nobody knows which: the marginals call none, the repair calls one."""
    problem = qgt.Problem(qgt.Design.from_rows(["1100", "0011"]), qgt.Bernoulli(0.1))
    found = qgt.BeliefPropagation().bind(problem)(torch.tensor([[1.0, 1.0], [0.0, 1.0]], dtype=torch.float64))
    assert found.x.tolist() == [[1, 0, 1, 0], [0, 0, 1, 0]]
    assert found.status.tolist() == [qgt.Status.OK] * 2
    torch.testing.assert_close(found.scores[0], torch.full((4,), 0.5, dtype=torch.float64), rtol=0, atol=1e-3)


def test_too_few_sweeps_are_told() -> None:
    problem = sparse(500, 0.25, qgt.Bernoulli(0.06))
    found = qgt.BeliefPropagation(iterations=1).bind(problem)(problem.simulate(3, generator=seeded(8)).y)
    assert found.status.tolist() == [qgt.Status.NOT_CONVERGED] * 3


def test_refuses_what_it_cannot_do() -> None:
    large = qgt.Problem(qgt.Design.from_lists([range(3000)], items=3000), qgt.Bernoulli(0.1))
    reason = qgt.BeliefPropagation().supports(large)
    assert reason is not None
    assert "3000 items" in reason
    with pytest.raises(ValueError, match="tolerance"):
        qgt.BeliefPropagation(tolerance=0.0)
