"""Copies and categories: their law, their parts, and what is refused.

Where frequencies are compared, the chi-square test's level is 1e-6, so a correct prior fails with probability below
1e-6; the seed is fixed.
"""

import itertools
import math
from pathlib import Path

import pytest
import torch
from scipy.stats import chisquare

from qgt import (
    Amount,
    Categories,
    Copies,
    Design,
    Gaussian,
    Noiseless,
    PerCategory,
    PerPool,
    PositiveNegative,
    Problem,
    Saturating,
    SparseInteger,
)

PRIORS = [
    Categories((0.3,)),
    Categories((0.2, 0.3)),
    Categories((0.0, 0.3, 0.1)),
    Categories((0.2, 0.3, 0.1), reported=(3, 1)),
    Categories([(0.2, 0.3), (0.0, 0.1), (0.7, 0.2)]),
    Categories([(0.2, 0.3), (0.0, 0.1), (0.7, 0.2)], reported=(2,)),
    Copies(frequency=0.3, ploidy=2),
    Copies(frequency=[0.3, 0.0, 0.9], ploidy=2),
    Copies(frequency=0.0, ploidy=2),
    Copies(frequency=1.0, ploidy=3),
    Copies(frequency=0.6, ploidy=1),
    Copies.from_distribution([0.5, 0.0, 0.2, 0.3]),
]
priors = pytest.mark.parametrize("prior", PRIORS, ids=str)
ITEMS = 3


def every_x(levels: int) -> torch.Tensor:
    return torch.tensor(list(itertools.product(range(levels + 1), repeat=ITEMS)), dtype=torch.uint8)


def design() -> Design:
    return Design.from_rows(["110", "011"])


@priors
def test_probabilities_sum_to_one_and_are_those_of_samples(prior: Categories | Copies) -> None:
    x = every_x(prior.levels)
    probability = prior.log_prob(x).exp()
    assert math.isclose(float(probability.sum()), 1.0, abs_tol=1e-12)
    drawn = prior.sample(20_000, ITEMS, generator=torch.Generator().manual_seed(0))
    assert drawn.dtype == torch.uint8
    places = torch.tensor([(prior.levels + 1) ** (ITEMS - 1 - i) for i in range(ITEMS)])
    counts = (drawn.to(torch.int64) * places).sum(1).bincount(minlength=len(x))
    assert bool((counts[probability == 0] == 0).all())
    some = probability > 0
    if int(some.sum()) > 1:
        assert chisquare(counts[some], probability[some] * len(drawn)).pvalue > 1e-6


@priors
def test_parts_are_the_same_problem(prior: Categories | Copies) -> None:
    problem = Problem(design(), prior, SparseInteger(rate=0.2, bound=1))
    g = torch.Generator().manual_seed(0)
    y = problem.simulate(1, generator=g).y
    x = every_x(prior.levels)
    parts, same = prior.to_parts(x), y.expand(len(x), *y.shape[1:]).contiguous()
    assert torch.equal(prior.from_parts(parts), x) and bool(prior.allowed(parts).all())
    factors = problem.in_parts.factors(prior.part_reports(y))
    cost = factors.cost(parts, torch.zeros(len(x), dtype=torch.int64))
    possible = problem.prior.log_prob(x) > -math.inf
    assert torch.allclose(-cost[possible], problem.log_joint(x, same)[possible], atol=1e-9)
    assert bool((cost[~possible] == math.inf).all())
    # Every other x of parts is impossible, and the probabilities of all of them sum to one.
    everything = torch.tensor(list(itertools.product((0, 1), repeat=parts.shape[1])), dtype=torch.uint8)
    assert math.isclose(float(problem.in_parts.prior.log_prob(everything).exp().sum()), 1.0, abs_tol=1e-12)
    assert torch.allclose(problem.in_parts.factors(prior.part_reports(y)).items.of(everything),
                          -problem.in_parts.prior.log_prob(everything), atol=1e-9)  # fmt: skip


def test_totals_are_numbers_of_each_category_or_of_copies() -> None:
    x = torch.tensor([[1, 2, 2]], dtype=torch.uint8)
    categories = Problem(design(), Categories((0.1, 0.1)))
    assert categories.totals(x).tolist() == [[[1.0, 1.0], [0.0, 2.0]]]
    assert Problem(design(), Categories((0.1, 0.1), reported=[2])).totals(x).tolist() == [[[1.0], [2.0]]]
    assert Problem(design(), Copies(frequency=0.1)).totals(x).tolist() == [[3.0, 4.0]]


def test_simulation_has_the_shapes_of_the_reports() -> None:
    g = torch.Generator().manual_seed(0)
    for prior, shape in ((Categories((0.3, 0.3)), (5, 2, 2)), (Categories((0.3, 0.3), [2]), (5, 2, 1)),
                         (Copies(frequency=0.5, ploidy=3), (5, 2))):  # fmt: skip
        x, y = Problem(design(), prior).simulate(5, generator=g)
        assert x.dtype == torch.uint8 and tuple(x.shape) == (5, 3) and tuple(y.shape) == shape
        assert torch.equal(y, Problem(design(), prior).totals(x))


def test_each_category_has_its_own_noise() -> None:
    noise = PerCategory([PerPool([Noiseless(), Saturating(cap=1)]), PositiveNegative(sensitivity=0.9)])
    problem = Problem(design(), Categories((0.4, 0.1, 0.4), reported=(3, 1)), noise)
    x = torch.tensor([[3, 3, 1]], dtype=torch.uint8)
    y = torch.tensor([[[2.0, 0.0], [1.0, 1.0]]], dtype=torch.float64)
    shown = torch.tensor([[[1.0, 1.0], [1.0, 0.9]]], dtype=torch.float64)
    assert torch.allclose(problem.log_reports(x, y).exp(), shown)
    assert torch.allclose(noise.log_prob(y, problem.totals(x), problem.sizes(y.device)).exp(), shown)
    assert problem.explainable(y).tolist() == [True]
    assert problem.explainable(y.flip(2)).tolist() == [False]  # a result of 2 is neither positive nor negative
    drawn = problem.simulate(200, generator=torch.Generator().manual_seed(0)).y
    assert set(drawn[:, :, 1].unique().tolist()) == {0.0, 1.0} and float(drawn[:, 0, 0].max()) == 2.0
    again = Problem.from_spec(problem.spec)
    assert again.noise == noise and again.fingerprint == problem.fingerprint


def test_items_of_their_own_rates_through_a_file(tmp_path: Path) -> None:
    for prior in (Categories([(0.2, 0.3), (0.0, 0.1), (0.7, 0.2)]), Copies(frequency=[0.3, 0.0, 0.9])):
        Problem(design(), prior).save(tmp_path / "problem.toml")
        assert Problem.load(tmp_path / "problem.toml").prior == prior
    (tmp_path / "own.toml").write_text(
        'design = { matrix = ["11"] }\n'
        'prior = { kind = "categories", rates = [[0.1, 0.2], [0.3, 0.0]] }\n'
        'noise = { kind = "per_category", noises = [{ kind = "noiseless" }, { kind = "gaussian", sigma = 0.3 }] }\n'
    )
    assert Problem.load(tmp_path / "own.toml").of_category(2).noise == Gaussian(0.3)


def test_rows_that_are_equal_are_rates_of_all() -> None:
    x = every_x(2)
    for same, each in (
        (Categories((0.2, 0.3)), Categories(torch.tensor([[0.2, 0.3]] * 3, dtype=torch.float64))),
        (Copies(frequency=0.3), Copies(frequency=[0.3] * 3)),
    ):
        assert torch.allclose(same.log_prob(x), each.log_prob(x))
        assert torch.allclose(torch.tensor(same.distribution), torch.tensor(each.distribution))
        assert torch.equal(*(one.sample(99, 3, generator=torch.Generator().manual_seed(0)) for one in (same, each)))


def test_each_pool_has_its_own_noise_in_every_category() -> None:
    noise = PerPool([Noiseless(), Saturating(cap=1)])
    problem = Problem(design(), Categories((0.4, 0.4)), noise)
    x = torch.tensor([[1, 1, 1]], dtype=torch.uint8)
    y = torch.tensor([[[2.0, 0.0], [1.0, 0.0]]], dtype=torch.float64)  # the second pool says no more than 1
    assert problem.log_reports(x, y).tolist() == [[[0.0, 0.0], [0.0, 0.0]]]
    assert problem.explainable(y).tolist() == [True]
    assert problem.explainable(y.flip(1)).tolist() == [False]


@priors
def test_a_spec_gives_the_problem_back(prior: Categories | Copies) -> None:
    problem = Problem(design(), prior)
    again = Problem.from_spec(problem.spec)
    assert again.prior == prior and again.fingerprint == problem.fingerprint


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Categories(()), "give a list of 1 to 255 probabilities"),
        (lambda: Categories((0.5, 0.5)), "leave some probability to the first category"),
        (lambda: Categories((0.5, -0.1)), r"rates\[1\]=-0.1 is not valid"),
        (lambda: Categories((0.1,), reported=[2]), r"reported\[0\]=2 is not valid"),
        (lambda: Categories((0.1, 0.1), reported=[1, 1]), "give each category once"),
        (lambda: Categories([(0.5,), (0.5, 0.1)]), r"rates\[1\] has 2 rates, and rates\[0\] 1"),
        (lambda: Categories([(0.5,), 0.1]), r"rates\[1\]=0.1 is not valid"),
        (lambda: Categories([(0.5, 0.1), (0.5, 0.6)]), r"rates\[1\]=\(0.5, 0.6\) sum to 1.1"),
        (lambda: Problem(design(), Categories([(0.5,), (0.1,)])), "rates has rows for 2 items, and there are 3"),
        (lambda: Problem(design(), Copies(frequency=[0.5])), "frequency has rows for 1 items, and there are 3"),
        (lambda: Copies(frequency=[]), "give one number, or one per item"),
        (lambda: Copies(frequency=[0.1, 1.5]), r"frequency\[1\]=1.5 is not valid"),
        (lambda: PerCategory([]), "one noise per reported category"),
        (lambda: PerPool([PerCategory([Noiseless()])]), "put PerCategory around"),
        (lambda: PerCategory([PerCategory([Noiseless()])]), "put PerCategory around"),
        (lambda: Problem(design(), Categories((0.1, 0.1)), PerCategory([Noiseless()])), "for 2 reported categories"),
        (lambda: Problem(design(), Copies(frequency=0.1), PerCategory([Noiseless()])), "is for categories"),
        (
            lambda: Problem(design(), Categories((0.1,)), PerCategory([PerPool([Noiseless()] * 3)])),
            "3 noises for 2 pools",
        ),
        (lambda: Problem(design(), Categories((0.1,)), PerCategory([Amount(relative=0.1)])), "items with amounts"),
        (lambda: Copies(), "give one of the two"),
        (lambda: Copies(frequency=0.1, ploidy=0), "ploidy=0 is not valid"),
        (lambda: Copies.from_distribution([0.5, 0.2]), "sum to 0.7"),
        (lambda: Copies(shares=[0.5, 0.5], ploidy=2), "give ploidy=1"),
        (lambda: Problem(design(), Copies(frequency=0.1), Amount(relative=0.1)), "is for items with amounts"),
    ],
)
def test_what_is_not_valid_is_refused(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]
