"""GAMP: against exact posteriors on small problems, and its success and calibration on the paper's."""

import itertools
import math
from dataclasses import dataclass
from statistics import NormalDist

import pytest
import torch
from torch import Generator, Tensor

import qgt


def seeded(seed: int = 0) -> Generator:
    return torch.Generator().manual_seed(seed)


def paper_problem(pools: int = 35, noise: qgt.Noise | None = None, seed: int = 0) -> qgt.Problem:
    design = qgt.Design.bernoulli(pools=pools, items=100, generator=seeded(seed))
    return qgt.Problem(design, qgt.Bernoulli(0.06), noise or qgt.SparseInteger(rate=0.1, bound=1))


def test_success_without_k() -> None:
    problem = paper_problem()
    x, y = problem.simulate(2000, generator=seeded(1))
    assert qgt.score(x, qgt.GAMP().bind(problem)(y).x).success_rate > 0.92  # 0.96 measured elsewhere


@pytest.mark.parametrize(
    "noise", [qgt.Noiseless(), qgt.SparseInteger(0.1, 3), qgt.RoundedGaussian(0.5), qgt.RoundedGaussian(0.05)]
)
def test_any_integer_noise(noise: qgt.Noise) -> None:
    problem = paper_problem(pools=45, noise=noise)
    x, y = problem.simulate(500, generator=seeded(1))
    assert qgt.score(x, qgt.GAMP().bind(problem)(y).x).success_rate > 0.85


def test_knows_the_noise() -> None:
    """Told of the wrong noise it does worse: the channel is used."""
    truth = paper_problem(pools=30, noise=qgt.SparseInteger(0.2, 3))
    x, y = truth.simulate(1000, generator=seeded(1))
    right = qgt.score(x, qgt.GAMP().bind(truth)(y).x).success_rate
    wrong = qgt.Problem(truth.design, truth.prior, qgt.RoundedGaussian(0.9))
    assert right > qgt.score(x, qgt.GAMP().bind(wrong)(y).x).success_rate + 0.05


def test_uses_each_items_prior() -> None:
    design = paper_problem(pools=25).design
    rates = torch.cat([torch.full((50,), 0.11), torch.full((50,), 0.01)]).tolist()
    told = qgt.Problem(design, qgt.Bernoulli(rates), qgt.SparseInteger(0.1, 1))
    x, y = told.simulate(1000, generator=seeded(1))
    untold = qgt.Problem(design, qgt.Bernoulli(0.06), told.noise)
    better = qgt.score(x, qgt.GAMP().bind(told)(y).x).success_rate
    assert better > qgt.score(x, qgt.GAMP().bind(untold)(y).x).success_rate + 0.05


def test_marginals_are_probabilities() -> None:
    """Of the entries given a probability in some range, about that share are defective (100,000 entries)."""
    problem = paper_problem(pools=25)
    x, y = problem.simulate(1000, generator=seeded(2))
    result = qgt.GAMP().bind(problem)(y)
    p, truth = result.scores.flatten(), x.flatten().double()
    edges = torch.tensor([0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0001])
    error = 0.0
    for low, high in itertools.pairwise(edges):
        inside = (p >= low) & (p < high)
        error += float(inside.double().mean() * (p[inside].mean() - truth[inside].mean()).abs())
    assert error < 0.02


def test_marginals_are_near_the_exact_ones() -> None:
    """On eight items and twelve pools, against enumeration."""
    design = qgt.Design.bernoulli(pools=12, items=8, generator=seeded(3))
    problem = qgt.Problem(design, qgt.Bernoulli(0.2), qgt.SparseInteger(0.1, 1))
    _, y = problem.simulate(200, generator=seeded(4))
    every = torch.cartesian_prod(*[torch.tensor([0, 1], dtype=torch.uint8)] * 8)  # (256, items)
    exact = []
    for row in y:
        weight = torch.softmax(problem.log_joint(every, row.expand(256, -1).contiguous()), 0)
        exact.append(weight @ every.double())
    difference = (qgt.GAMP().bind(problem)(y).scores - torch.stack(exact)).abs().mean()
    assert difference < 0.05


@dataclass(frozen=True)
class Late:
    """A count is reported one too low with some probability."""

    miss: float

    integer = True

    def reach(self, size: int, tail: float) -> float:
        return 1.0

    def sample(self, counts: Tensor, sizes: Tensor, *, generator: Generator) -> Tensor:
        return counts - (torch.rand(counts.shape, generator=generator, dtype=torch.float64) < self.miss).double()

    def log_prob(self, y: Tensor, counts: Tensor, sizes: Tensor) -> Tensor:
        late = torch.where(y == counts - 1, torch.tensor(self.miss).log(), -torch.inf)
        return torch.where(y == counts, torch.tensor(1 - self.miss).log(), late).double()


def test_a_noise_of_ones_own() -> None:
    problem = paper_problem(pools=40, noise=Late(0.2))
    x, y = problem.simulate(300, generator=seeded(1))
    assert qgt.score(x, qgt.GAMP().bind(problem)(y).x).success_rate > 0.85


@dataclass(frozen=True)
class Gaussian:
    """Reports that are no whole numbers."""

    sigma: float
    integer = False

    def reach(self, size: int, tail: float) -> float:
        return -self.sigma * NormalDist().inv_cdf(tail / 2)

    def sample(self, counts: Tensor, sizes: Tensor, *, generator: Generator) -> Tensor:
        return counts + self.sigma * torch.randn(counts.shape, generator=generator, dtype=torch.float64)

    def log_prob(self, y: Tensor, counts: Tensor, sizes: Tensor) -> Tensor:
        return -((y - counts) / self.sigma).square() / 2 - math.log(self.sigma * math.sqrt(2 * math.pi))


FAR = (Gaussian(0.5), Gaussian(4.0), qgt.SparseInteger(0.1, 100), qgt.RoundedGaussian(40.0))


@pytest.mark.parametrize("noise", FAR, ids=repr)
def test_marginals_under_reports_that_are_not_whole_or_far_off(noise: qgt.Noise) -> None:
    """The counts that are looked at are whole, near the report, and as far off as the noise says."""
    design = qgt.Design.bernoulli(pools=12, items=14, generator=seeded(3))
    problem = qgt.Problem(design, qgt.Bernoulli(0.15), noise)
    y = problem.simulate(200, generator=seeded(4)).y
    exact = qgt.Exhaustive().bind(problem)(y).scores
    assert (qgt.GAMP().bind(problem)(y).scores - exact).abs().mean() < 0.05


def test_other_priors_are_refused() -> None:
    households = qgt.Problem(paper_problem().design, qgt.Households(size=4, seed_rate=0.1, attack_rate=0.5))
    assert "independent" in (qgt.GAMP().supports(households) or "")
    with pytest.raises(ValueError, match="independent"):
        qgt.GAMP().bind(households)


@pytest.mark.parametrize(
    "noise",
    [
        qgt.PositiveNegative(0.95, 0.98, dilution=0.1),
        qgt.Saturating(2, qgt.SparseInteger(0.1, 1)),
        qgt.Binned([1, 3]),
        qgt.Gaussian(0.4, growth=0.1),
        qgt.Reads(30, error=0.01),
        qgt.PerPool([qgt.PositiveNegative(0.9, 0.9), qgt.SparseInteger(0.1, 1)] * 6),
    ],
    ids=str,
)
def test_marginals_of_other_readings_are_near_the_exact_ones(noise) -> None:
    design = qgt.Design.bernoulli(pools=12, items=12, generator=seeded(7))
    problem = qgt.Problem(design, qgt.Bernoulli(0.15), noise)
    y = problem.simulate(100, generator=seeded(8)).y
    y[torch.rand(y.shape, generator=seeded(9)) < 0.1] = torch.nan
    exact = qgt.Exhaustive().bind(problem)(y).scores
    found = qgt.GAMP().bind(problem)(y).scores
    nothing = (0.15 - exact).abs().mean()  # the floor: the prior's rate for every item
    assert (found - exact).abs().mean() < min(0.1, 0.6 * nothing)


def test_counts_that_are_all_missing_leave_the_prior() -> None:
    problem = qgt.Problem(qgt.Design.bernoulli(pools=8, items=20, generator=seeded(1)), qgt.Bernoulli(0.1))
    result = qgt.GAMP().bind(problem)(torch.full((2, 8), torch.nan, dtype=torch.float64))
    torch.testing.assert_close(result.scores, torch.full((2, 20), 0.1, dtype=torch.float64), rtol=1e-6, atol=1e-6)
