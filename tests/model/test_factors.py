"""Factors: their costs are the problem's own log joint, whatever the prior, the noise and the sizes of the pools."""

from dataclasses import dataclass

import pytest
import torch

import qgt
from qgt.model import factors as module
from qgt.model.factors import pool_costs
from random_problems import model_case, random_problem


@dataclass(frozen=True)
class Diluted:
    """A noise that depends on the pool's size: the larger the pool, the more often a count is one too low."""

    integer = True

    def reach(self, size: int, tail: float) -> float:
        return 1.0

    def sample(self, counts, sizes, *, generator):
        draws = torch.rand(counts.shape, dtype=torch.float64, generator=generator)
        return counts - (draws < sizes / (sizes + 5)).double()

    def log_prob(self, y, counts, sizes):
        low = sizes / (sizes + 5)
        return torch.where(y == counts, (1 - low).log(), torch.where(y == counts - 1, low.log(), -torch.inf))


def every(items: int) -> torch.Tensor:
    return (torch.arange(2**items)[:, None] >> torch.arange(items) & 1).to(torch.uint8)


@pytest.mark.parametrize("seed", range(60))
def test_the_cost_is_minus_the_log_joint_of_every_x(seed):
    problem = random_problem(seed)
    y = problem.simulate(3, generator=torch.Generator().manual_seed(seed)).y
    x, factors = every(problem.items), problem.factors(y)
    for i in range(3):
        cost = factors.cost(x, torch.full((len(x),), i))
        log_joint = problem.log_joint(x, y[i].expand(len(x), -1))
        torch.testing.assert_close(-cost, log_joint, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("seed", range(90))
def test_the_cost_of_a_model_is_minus_the_log_joint_of_every_x(seed):
    problem, y, _, _ = model_case(seed)
    x = every(problem.items)
    cost = problem.factors(y).cost(x, torch.zeros(len(x), dtype=torch.int64))
    log_joint = problem.log_joint(x, y.expand(len(x), -1))
    torch.testing.assert_close(-cost, log_joint, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("most", [2**24, 0])
def test_tables_know_the_size_of_their_pool(monkeypatch, most):
    monkeypatch.setattr(module, "MOST_TABLE_ENTRIES", most)
    problem = qgt.Problem(qgt.Design.from_rows(["1100", "1111", "0111"]), qgt.Bernoulli(0.2), Diluted())
    y = problem.simulate(20, generator=torch.Generator().manual_seed(0)).y
    x, factors = every(4), problem.factors(y)
    for i in range(20):
        cost = factors.cost(x, torch.full((16,), i))
        torch.testing.assert_close(-cost, problem.log_joint(x, y[i].expand(16, -1)))


def test_equal_tables_are_kept_once():
    problem = random_problem(1)  # its noise does not look at sizes
    y = torch.randint(0, 3, (500, problem.pools)).double()
    assert len(pool_costs(problem.design, problem.noise, y).tables) == 3
    sized = pool_costs(problem.design, Diluted(), y)
    assert len(sized.tables) == 3 * len(problem.design.pool_sizes.unique())


def test_exact_decoders_follow_a_noise_that_depends_on_sizes():
    g = torch.Generator().manual_seed(0)
    design = qgt.Design.bernoulli(pools=7, items=10, probability=0.4, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.2), Diluted())
    y = problem.simulate(40, generator=g).y
    best = qgt.Exhaustive().bind(problem)(y).evidence.log_joint
    for decoder in (qgt.Certified(), qgt.ExactMAP(workers=1)):
        result = decoder.bind(problem)(y)
        assert bool((result.status == qgt.Status.PROVED).all())
        torch.testing.assert_close(result.evidence.log_joint, best, rtol=0, atol=1e-6)
    assert bool(qgt.check_certificate(problem, y, qgt.Certified().bind(problem)(y)).all())


@dataclass(frozen=True)
class Parity:
    """A prior that no table of numbers holds: all items are equally likely, but an even number is defective."""

    def sample(self, instances, items, *, generator):
        x = torch.randint(0, 2, (instances, items), generator=generator, dtype=torch.uint8)
        x[:, 0] = x[:, 1:].sum(1) % 2
        return x

    def marginals(self, items):
        return torch.full((items,), 0.5, dtype=torch.float64)

    def log_prob(self, x):
        return torch.where(x.sum(1) % 2 == 0, 0.0, -torch.inf).double() - (x.shape[1] - 1) * torch.log(
            torch.tensor(2.0)
        )


def test_a_prior_that_is_no_sum_is_refused():
    problem = qgt.Problem(qgt.Design.from_rows(["11"]), Parity())
    with pytest.raises(ValueError, match="not a sum over items and groups"):
        problem.factors(torch.zeros(1, 1, dtype=torch.float64))


@pytest.mark.parametrize("count", [1e17, -1e19, 1e300])
def test_counts_beyond_whole_numbers_are_impossible_and_no_error(count):
    problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.1), qgt.SparseInteger(0.1, 1))
    y = torch.full((1, 2), count, dtype=torch.float64)
    assert qgt.Certified().bind(problem)(y).status.tolist() == [int(qgt.Status.INFEASIBLE)]
