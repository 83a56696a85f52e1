"""p-values are shares of simulated instances: valid, monotone and never 0; one misfit is costs added up."""

import math

import pytest
import torch

import qgt
from qgt.model.noise import Noiseless, Outliers
from qgt.trust.reference import Reference, Spread, both, misfit, share_above

NOISES = (Noiseless(), qgt.SparseInteger(0.1, 1), qgt.RoundedGaussian(0.6), Outliers(qgt.SparseInteger(0.1, 1), 0.02))


def problem(noise: qgt.Noise, prior: qgt.Sampler | None = None) -> qgt.Problem:
    g = torch.Generator().manual_seed(1)
    return qgt.Problem(qgt.Design.bernoulli(pools=12, items=30, generator=g), prior or qgt.Bernoulli(0.1), noise)


@pytest.mark.parametrize("noise", NOISES)
def test_misfit_is_what_the_problem_says_x_and_y_cost(noise: qgt.Noise) -> None:
    here = problem(noise)
    x, y = here.simulate(50, generator=torch.Generator().manual_seed(0))
    found = misfit(here, y, x)
    torch.testing.assert_close(found.noise + found.prior, -here.log_joint(x, y))
    torch.testing.assert_close(found.prior, -here.prior.log_prob(x))


def test_a_prior_that_can_only_be_sampled_has_no_part_in_it() -> None:
    class Half:
        def sample(self, instances: int, items: int, *, generator: torch.Generator) -> torch.Tensor:
            return torch.randint(2, (instances, items), generator=generator).to(torch.uint8)

    here = problem(qgt.SparseInteger(0.1, 1), Half())
    x, y = here.simulate(5, generator=torch.Generator().manual_seed(0))
    assert misfit(here, y, x).prior.tolist() == [0.0] * 5


@pytest.mark.parametrize("noise", NOISES)
def test_shares_of_truths_are_valid_p_values(noise: qgt.Noise) -> None:
    """Of 4,000 instances of the model, at most a share alpha has p <= alpha, but for four standard deviations."""
    here = problem(noise)
    reference = Reference.of(here, generator=torch.Generator().manual_seed(0))
    x, y = here.simulate(4000, generator=torch.Generator().manual_seed(7))
    found = misfit(here, y, x)
    for values, own in ((reference.noise, found.noise), (reference.prior, found.prior)):
        p = share_above(values, own)
        assert float(p.min()) > 0 and float(p.max()) <= 1
        for alpha in (0.5, 0.1, 0.01, 0.001):
            assert float((p <= alpha).double().mean()) <= alpha + 4 * math.sqrt(alpha / 4000)


def test_p_falls_as_costs_rise_far_beyond_what_was_simulated() -> None:
    values = torch.randn(1000, generator=torch.Generator().manual_seed(0), dtype=torch.float64).sort().values
    p = share_above(values, torch.linspace(-9.0, 400.0, 500, dtype=torch.float64))
    assert bool((p.diff() <= 0).all()) and float(p[0]) == 1.0 and 0.0 < float(p[-1]) < 1e-9
    assert share_above(values, torch.tensor([torch.inf], dtype=torch.float64)).tolist() == [1 / 1001]


def test_costs_that_differ_by_rounding_are_equal() -> None:
    values = torch.full((9,), 1.5, dtype=torch.float64)
    assert share_above(values, torch.tensor([1.5 + 1e-12], dtype=torch.float64)).tolist() == [1.0]


def test_two_p_values_are_one_that_is_no_smaller_than_it_may_be() -> None:
    p = torch.rand(2, 100_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert float((both(p[0], p[1]) <= 0.05).double().mean()) <= 0.05
    assert both(torch.ones(1, dtype=torch.float64), torch.tensor([0.8], dtype=torch.float64)).tolist() == [1.0]


def test_a_pools_mean_and_variance_are_those_of_its_cost() -> None:
    here = problem(qgt.SparseInteger(0.3, 1))
    reference = Reference.of(here, generator=torch.Generator().manual_seed(0))
    fine, off = -math.log(0.8), -math.log(0.1)
    mean = 0.8 * fine + 0.2 * off
    variance = 0.8 * fine**2 + 0.2 * off**2 - mean**2
    assert bool(((reference.pool_mean - mean).abs() < 4 * math.sqrt(variance / 1e5)).all())
    assert bool((reference.pool_variance / variance - 1).abs().max() < 0.05)


@pytest.mark.parametrize("number", [2, 3, 10])
def test_a_spread_of_few_gives_valid_p_values(number: int) -> None:
    """A Gaussian whose deviation is taken from two values for the true one would cry wolf one time in five."""
    drawn = torch.randn(4000, number + 1, generator=torch.Generator().manual_seed(number), dtype=torch.float64)
    p = torch.cat([Spread.of(row[:-1]).tail(row[-1:]) for row in drawn])
    for alpha in (0.5, 0.1, 0.01, 0.001):
        assert float((p <= alpha).double().mean()) == pytest.approx(alpha, abs=4 * math.sqrt(alpha / 4000))


def test_a_sum_of_spreads_is_as_well_known_as_its_larger_part() -> None:
    many = Spread(mean=10.0, variance=4.0, mean_variance=0.04, freedom=99.0)
    exact, vague = Spread(1.0, 1e-24, 0.0, 1.0), Spread(1.0, 400.0, 200.0, 1.0)
    assert many.plus(exact).freedom == pytest.approx(99.0) and many.plus(exact).mean == 11.0
    assert 1.0 <= many.plus(vague).freedom < 1.1
    unknown = many.plus(Spread.of(torch.ones(1, dtype=torch.float64)))
    assert unknown.tail(torch.tensor([1e9])).tolist() == [1.0]


def test_the_mean_of_several_varies_less() -> None:
    spread = Spread(mean=0.0, variance=1.0, mean_variance=0.0, freedom=1e9)
    at = torch.tensor([1.6448536], dtype=torch.float64)
    assert float(spread.tail(at)) == pytest.approx(0.05, abs=1e-6)
    assert float(spread.tail(at / 3, number=9)) == pytest.approx(0.05, abs=1e-6)
