"""Fit: honest instances and files are seldom called suspect, and spoilt ones nearly always."""

import math

import pytest
import torch

import qgt
from qgt.model.noise import Noiseless, Outliers
from qgt.trust import fit as fit_module
from qgt.trust.fit import (
    FILE_ALARM,
    INSTANCE_ALARM,
    Reference,
    Spread,
    both,
    file_fit,
    held_together,
    hopeless,
    instance_fit,
    misfit,
    share_above,
)


def setting(noise: qgt.Noise | None = None) -> tuple[qgt.Problem, Reference]:
    g = torch.Generator().manual_seed(0)
    design = qgt.Design.bernoulli(pools=35, items=100, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.06), noise or qgt.SparseInteger(0.1, 1))
    return problem, Reference.of(problem, generator=g)


@pytest.mark.parametrize("noise", [qgt.SparseInteger(0.1, 1), qgt.RoundedGaussian(0.4), qgt.Noiseless()])
def test_truths_are_suspect_no_oftener_than_is_said(noise: qgt.Noise) -> None:
    problem, reference = setting(noise)
    x, y = problem.simulate(20_000, generator=torch.Generator().manual_seed(5))
    fit = instance_fit(problem, y, x, reference)
    assert float(fit.min()) > 0 and float(fit.max()) <= 1
    # 10 are expected at most; 25 or more have a chance below 1e-4.
    assert int((fit < INSTANCE_ALARM).sum()) < 25
    assert float((fit < 0.05).double().mean()) < 0.056


def test_answers_are_suspect_no_oftener_than_truths() -> None:
    problem, reference = setting()
    y = problem.simulate(400, generator=torch.Generator().manual_seed(6)).y
    fit = instance_fit(problem, y, qgt.Certified(odds=1.0).bind(problem)(y).x, reference)
    assert float((fit < 0.05).double().mean()) < 0.1 and int((fit < INSTANCE_ALARM).sum()) <= 3


def test_more_counts_off_never_fit_better() -> None:
    problem, reference = setting()
    x, y = problem.simulate(1, generator=torch.Generator().manual_seed(8))
    y = problem.design.count(x).repeat(12, 1)
    for off in range(12):
        y[off, :off] += 1
    fit = instance_fit(problem, y, x.repeat(12, 1), reference)
    assert bool((fit.diff() <= 0).all()) and float(fit[0]) > 0.5 and float(fit[-1]) < 1e-4


def test_calls_that_are_impossible_do_not_fit() -> None:
    problem, reference = setting(qgt.Noiseless())
    x, y = problem.simulate(1, generator=torch.Generator().manual_seed(0))
    assert float(instance_fit(problem, y + 1, x, reference)) < 1e-4


def test_honest_files_are_suspect_no_oftener_than_is_said() -> None:
    """200 files of 20: 2 are expected at most, and 10 or more have a chance below 1e-4."""
    problem, reference = setting()
    x, y = problem.simulate(4000, generator=torch.Generator().manual_seed(9))
    pairs = zip(y.split(20), x.split(20), strict=True)
    p = torch.tensor([file_fit(problem, counts, truth, reference).p for counts, truth in pairs])
    assert int((p < FILE_ALARM).sum()) < 10 and float(p.min()) > 0


@pytest.mark.parametrize("plates", [1, 5, 40, 300])
def test_another_noise_shows_in_a_file(plates: int) -> None:
    problem, reference = setting()
    other = qgt.Problem(problem.design, problem.prior, qgt.SparseInteger(0.9 if plates == 1 else 0.4, 1))
    x, y = other.simulate(plates, generator=torch.Generator().manual_seed(0))
    found = file_fit(problem, y, x, reference)
    assert found.suspect and found.off > found.expected and "not look like the model" in found.words
    if plates >= 5:
        assert hopeless(problem, y, x, instance_fit(problem, y, x, reference), reference)


def test_one_pool_that_is_always_off_is_named() -> None:
    problem, reference = setting()
    x, y = problem.simulate(40, generator=torch.Generator().manual_seed(0))
    y[:, 11] += 1
    found = file_fit(problem, y, x, reference)
    assert found.suspect and found.worst == "P12"


def test_a_file_without_instances_fits() -> None:
    problem, reference = setting()
    x, y = problem.simulate(0, generator=torch.Generator().manual_seed(0))
    assert not file_fit(problem, y, x, reference).suspect
    assert not hopeless(problem, y, x, torch.zeros(0, dtype=torch.float64), reference)


def test_one_bad_instance_does_not_condemn_the_others_but_many_do() -> None:
    problem, reference = setting()
    x, y = problem.simulate(40, generator=torch.Generator().manual_seed(3))
    y[0, :20] += 1
    fit = instance_fit(problem, y, x, reference)
    assert float(fit[0]) < INSTANCE_ALARM and file_fit(problem, y, x, reference).suspect
    assert not hopeless(problem, y, x, fit, reference)
    y[1:12, :20] += 1
    assert hopeless(problem, y, x, instance_fit(problem, y, x, reference), reference)


def test_few_simulations_of_many_pools_cry_no_wolf() -> None:
    """Of 500 pools some are never off in 60 simulations; that one is off in a file says nothing (once: all 20)."""
    g = torch.Generator().manual_seed(0)
    design = qgt.Design.column_regular(pools=500, items=3000, weight=4, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.005), qgt.SparseInteger(rate=0.02, bound=1))
    _, y = problem.simulate(20, generator=g)
    decode = qgt.Calibrated(qgt.BeliefPropagation(), simulations=60).bind(problem)
    calls, reference = decode(y).x, decode.learned().reference
    suspect = [qgt.file_fit(problem, y[i : i + 1], calls[i : i + 1], reference).suspect for i in range(len(y))]
    assert sum(suspect) <= 2
    assert qgt.file_fit(problem, y[:1].flip(1), calls[:1], reference).suspect


def test_two_simulations_of_very_many_pools_are_enough() -> None:
    """As of a million items: two were decoded, but what truths look like is known from many more."""
    g = torch.Generator().manual_seed(0)
    design = qgt.Design.column_regular(pools=1000, items=4000, weight=6, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.02), qgt.SparseInteger(rate=0.02, bound=1))
    noisier = qgt.Problem(design, problem.prior, qgt.SparseInteger(rate=0.06, bound=1))
    decode = qgt.Calibrated(qgt.BeliefPropagation(), simulations=2).bind(problem)
    _, y = problem.simulate(20, generator=g)
    found, reference = decode(y), decode.learned().reference
    assert len(reference.noise) == 2
    assert bool((found.evidence.fit >= INSTANCE_ALARM).all())
    files = [qgt.file_fit(problem, y[i : i + 1], found.x[i : i + 1], reference) for i in range(10)]
    assert sum(file.suspect for file in files) <= 1 and not any(file.blind for file in files)
    _, y = noisier.simulate(5, generator=g)
    found = decode(y)
    assert bool((found.evidence.fit < INSTANCE_ALARM).all())
    assert qgt.file_fit(problem, y[:1], found.x[:1], reference).suspect


def test_what_could_not_be_seen_is_not_said_to_fit() -> None:
    """A decoder that errs much, and each time otherwise, in two simulations: nothing is known."""
    problem, _ = setting()
    x, y = problem.simulate(2, generator=torch.Generator().manual_seed(0))
    answers = x.clone()
    answers[0] = 1 - answers[0]
    reference = Reference.of_answers(problem, y, answers, x, generator=torch.Generator().manual_seed(0))
    found = file_fit(problem, y[:1], x[:1], reference)
    assert found.blind and not found.suspect
    assert found.words.startswith("Too few plates were simulated to say whether the counts fit the model")


# p-values are shares of simulated instances: valid, monotone and never 0; one misfit is costs added up.

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


def test_a_file_is_held_against_the_model_once(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, reference = setting()
    x, y = problem.simulate(40, generator=torch.Generator().manual_seed(5))
    y = y.flip(1)
    fit, every = instance_fit(problem, y, x, reference), torch.ones(40, dtype=torch.bool)
    every[3] = False
    expected = file_fit(problem, y[every], x[every], reference)
    assert expected.suspect and hopeless(problem, y, x, torch.where(every, fit, 0.0), reference)
    called = []
    for name in ("misfit", "expected_off"):
        real = getattr(fit_module, name)
        monkeypatch.setattr(fit_module, name, lambda *given, name=name, real=real: called.append(name) or real(*given))
    assert held_together(problem, y, x, fit, every, reference) == (expected, False)
    assert called == ["misfit", "expected_off"]
