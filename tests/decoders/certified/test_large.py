"""Large problems, decoded one by one: answers, lists and proofs are those of trying every x, on small ones forced."""

from dataclasses import replace

import pytest
import scipy.optimize
import torch

import qgt
from qgt.decoders.certified import decoder, large
from qgt.decoders.certified.costs import Tables
from qgt.decoders.certified.large import Large, Small
from qgt.decoders.certified.nodes import cost_of
from qgt.model.prior import FREE
from random_problems import case, proved_as_by_enumeration, some_of

PROBLEMS = some_of(125)
RATES = [0.0, 1.0, 0.6, 0.05, 0.3, 0.2, 0.1, 0.01, 0.5, 0.25]


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "is_large", large.can_shrink)


def sparse(pools: int, items: int, weight: int, prior: qgt.Prior, noise: qgt.Noise, seed: int) -> qgt.Problem:
    g = torch.Generator().manual_seed(seed)
    return qgt.Problem(qgt.Design.column_regular(pools=pools, items=items, weight=weight, generator=g), prior, noise)


def drawn(problem: qgt.Problem, instances: int, seed: int = 0) -> qgt.Instances:
    return problem.simulate(instances, generator=torch.Generator().manual_seed(seed))


def test_it_equals_enumeration_on_random_problems(forced: None) -> None:
    shrunk = proved = 0
    for seed in range(PROBLEMS):
        one = case(seed)
        proved += proved_as_by_enumeration(one, seed)
        shrunk += large.can_shrink(one.problem)
    assert shrunk > PROBLEMS / 2 and proved > PROBLEMS / 2


def test_the_search_of_one_instance_ends_where_its_memory_is_used_up(forced: None) -> None:
    design = qgt.Design.bernoulli(pools=20, items=60, generator=torch.Generator().manual_seed(1))
    problem = qgt.Problem(design, qgt.Bernoulli(0.1), qgt.SparseInteger(0.1, 1))
    y = drawn(problem, 3).y
    whole, less = (qgt.Certified(memory=memory).bind(problem)(y) for memory in (2.0, 1e-5))
    assert bool((whole.status == qgt.Status.PROVED).all()) and bool((less.status == qgt.Status.TIME_LIMIT).any())
    assert less.proof is not None and whole.proof is not None
    assert len(less.proof.fixed) < 0.5 * len(whole.proof.fixed)


@pytest.mark.parametrize(
    ("prior", "noise"),
    [
        (qgt.Bernoulli(0.15), qgt.SparseInteger(0.1, 1)),
        (qgt.Bernoulli(RATES), qgt.SparseInteger(0.2, 2)),
        (qgt.FixedWeight(3), qgt.SparseInteger(0.2, 1)),
        (qgt.UnknownRate(0.05, 0.4), qgt.SparseInteger(0.1, 1)),
        (qgt.Bernoulli(0.2), qgt.RoundedGaussian(0.6)),
        (qgt.Bernoulli(0.3), qgt.Noiseless()),
        (qgt.Bernoulli(0.1), qgt.PositiveNegative(0.95, 0.98)),
    ],
    ids=["plain", "rates", "known number", "unknown rate", "gaussian", "noiseless", "positive or negative"],
)
@pytest.mark.parametrize("odds", [1.0, 30.0])
def test_it_finds_and_lists_what_trying_every_x_does(
    forced: None, prior: qgt.Prior, noise: qgt.Noise, odds: float
) -> None:
    problem = sparse(7, 10, 3, prior, noise, 1)
    y = drawn(problem, 8).y
    result, truth = qgt.Certified(odds=odds).bind(problem)(y), qgt.Exhaustive().bind(problem)(y)
    assert torch.equal(result.status, truth.status)
    torch.testing.assert_close(result.evidence.log_joint, truth.evidence.log_joint)
    assert bool(qgt.check_certificate(problem, y, result).all())
    if odds == 1.0:
        return
    assert bool(result.evidence.complete.all())
    x = (torch.arange(2**10)[:, None] >> torch.arange(10) & 1).to(torch.uint8)
    for i in range(len(y)):
        log_joint = problem.log_joint(x, y[i].expand(len(x), -1))
        within = x[log_joint > log_joint.max() - torch.tensor(odds).double().log() + 1e-5]
        listed = result.evidence.alternatives.of_instance(i).x
        assert sorted(map(tuple, within.tolist())) == sorted(map(tuple, listed.tolist()))


def test_it_equals_the_search_of_whole_batches_on_more_items(forced: None, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = sparse(40, 200, 4, qgt.Bernoulli(0.02), qgt.SparseInteger(0.1, 1), 2)
    y = drawn(problem, 20).y
    one = qgt.Certified(odds=5.0).bind(problem)(y)
    monkeypatch.setattr(large, "is_large", lambda problem: False)
    batch = qgt.Certified(odds=5.0).bind(problem)(y)
    assert bool((one.status == qgt.Status.PROVED).all())
    torch.testing.assert_close(one.evidence.log_joint, batch.evidence.log_joint)
    complete = one.evidence.complete
    assert int(complete.sum()) >= 10
    assert torch.equal(one.x[complete], batch.x[complete])
    numbers = one.evidence.alternatives.spans.numbers, batch.evidence.alternatives.spans.numbers
    assert torch.equal(numbers[0][complete], numbers[1][complete])
    assert bool(qgt.check_certificate(problem, y, one).all())


def test_a_list_that_is_cut_short_is_not_called_complete(forced: None, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = sparse(10, 40, 3, qgt.Bernoulli(0.05), qgt.SparseInteger(0.1, 1), 3)
    y = drawn(problem, 8).y
    decode = qgt.Certified(odds=300.0).bind(problem)
    truth = decode(y)
    monkeypatch.setattr(large, "LISTING", 1.0)
    result = decode(y)
    assert bool((result.status == qgt.Status.PROVED).all())
    torch.testing.assert_close(result.evidence.log_joint, truth.evidence.log_joint)
    assert not bool(result.evidence.complete.all())
    assert bool(qgt.check_certificate(problem, y, result).all())  # the answers are proved nevertheless
    lie = replace(result.evidence, complete=torch.ones_like(result.evidence.complete))
    said = replace(result, evidence=lie)
    more = truth.evidence.alternatives.spans.numbers > result.evidence.alternatives.spans.numbers
    assert int(more.sum()) > 3 and not bool(result.evidence.complete[more].any())
    assert not bool(qgt.check_certificate(problem, y, said)[more].any())


def test_no_time_is_a_time_limit_with_an_answer(forced: None) -> None:
    problem = sparse(40, 200, 4, qgt.Bernoulli(0.02), qgt.SparseInteger(0.1, 1), 2)
    y = drawn(problem, 3).y
    result = qgt.Certified(time_limit=1e-9).bind(problem)(y)
    assert bool((result.status == qgt.Status.TIME_LIMIT).all())
    assert bool(result.evidence.log_joint.isfinite().any())
    assert not bool(result.evidence.complete.any())


def test_counts_that_no_x_explains_are_still_proved_to_be_that(forced: None) -> None:
    problem = sparse(6, 10, 3, qgt.Bernoulli(0.2), qgt.SparseInteger(0.1, 1), 0)
    y = torch.randint(-1, 6, (30, 6), generator=torch.Generator().manual_seed(0)).double()
    result, truth = qgt.Certified().bind(problem)(y), qgt.Exhaustive().bind(problem)(y)
    assert torch.equal(result.status, truth.status)
    assert 0 < int((result.status == qgt.Status.INFEASIBLE).sum()) < 30
    assert bool(qgt.check_certificate(problem, y, result).all())


def test_a_program_that_is_not_solved_is_left_to_the_batch(forced: None, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = sparse(20, 40, 4, qgt.Bernoulli(0.1), qgt.SparseInteger(0.1, 1), 3)
    y = drawn(problem, 3).y
    truth, solve = qgt.ExactMAP().bind(problem)(y), scipy.optimize.linprog
    one_step = {"maxiter": 1, "presolve": False}
    monkeypatch.setattr(scipy.optimize, "linprog", lambda *a, **k: solve(*a, **{**k, "options": one_step}))
    result = qgt.Certified().bind(problem)(y)
    assert not solved(problem, y).solved
    assert bool((result.status == qgt.Status.PROVED).all())
    torch.testing.assert_close(result.evidence.log_joint, truth.evidence.log_joint)


def solved(problem: qgt.Problem, y: torch.Tensor) -> large.Dual:
    factors = problem.factors(y)
    tables = Tables.of(factors.pools)
    return large.solve_dual(problem.design.lists, factors.items, tables.pieces[:, tables.which[0]].numpy(), None)


def large_of(problem: qgt.Problem, y: torch.Tensor) -> Large:
    factors = problem.factors(y)
    return Large(problem.design, factors.items, factors.pools.of_instance(0), solved(problem, y).pi)


def test_the_multipliers_bound_every_x_and_settle_only_what_they_may() -> None:
    x = (torch.arange(2**10)[:, None] >> torch.arange(10) & 1).to(torch.uint8)
    settled = 0
    for seed in range(20):
        problem = sparse(8, 10, 3, qgt.Bernoulli(RATES), qgt.SparseInteger(0.1, 1), seed)
        y = drawn(problem, 1, seed).y
        large, cost = large_of(problem, y), -problem.log_joint(x, y.expand(len(x), -1))
        bounds, reduced = large.bounds()
        assert bool((cost >= bounds[x.sum(1).long()] - 1e-9).all())
        limit = float(cost.min()) + 1.0
        tight, own = large.settled(bounds, reduced, limit)
        below = x[cost < limit]
        assert bool((below[:, tight] == own[tight]).all()), seed
        settled += int(tight.sum())
    assert settled > 60


def test_what_is_left_costs_what_it_costs_in_the_large_problem() -> None:
    problem = sparse(12, 20, 3, qgt.UnknownRate(0.05, 0.4), qgt.SparseInteger(0.2, 1), 4)
    x, y = drawn(problem, 1)
    fixed = torch.where(torch.arange(20) < 12, x[0].to(torch.int8), torch.tensor(FREE, dtype=torch.int8))
    small = Small.of(large_of(problem, y), fixed)
    left = (torch.arange(2**8)[:, None] >> torch.arange(8) & 1).to(torch.uint8)
    ours = cost_of(small.model, small.tables, torch.zeros(256, dtype=torch.int64), left)
    whole = x.expand(256, -1).clone()
    whole[:, 12:] = left
    torch.testing.assert_close(ours, -problem.log_joint(whole, y.expand(256, -1)))


def test_certificates_of_sparse_designs_are_checked_by_the_same_sums(forced: None) -> None:
    problem = sparse(300, 300, 4, qgt.Bernoulli(0.03), qgt.SparseInteger(0.1, 1), 5)
    assert problem.design.sparse
    y = drawn(problem, 3).y
    result = qgt.Certified().bind(problem)(y)
    assert bool((result.status == qgt.Status.PROVED).all()) and bool(qgt.check_certificate(problem, y, result).all())
    wrong = y.clone()
    wrong[:, 0] += 1
    assert not bool(qgt.check_certificate(problem, wrong, result).any())
    assert result.proof is not None
    nothing = replace(result.proof, pi=torch.zeros_like(result.proof.pi))
    assert not bool(qgt.check_certificate(problem, y, replace(result, proof=nothing)).any())


def test_only_large_sparse_problems_without_groups_go_one_by_one() -> None:
    assert large.is_large(sparse(2000, 20_000, 4, qgt.Bernoulli(0.005), qgt.Noiseless(), 0))
    assert not large.is_large(sparse(30, 100, 8, qgt.Bernoulli(0.06), qgt.Noiseless(), 0))
    homes = qgt.Households(size=4, seed_rate=0.1, attack_rate=0.6)
    assert not large.can_shrink(sparse(30, 100, 8, homes, qgt.Noiseless(), 0))
    assert not large.can_shrink(sparse(2, 4, 1, qgt.Bernoulli([0.0, 1.0, 0.0, 1.0]), qgt.Noiseless(), 0))
    assert decoder.large_problems is large  # what these tests force is what the decoder asks
