"""A wrong count that explains an instance better is seen, and instances of the model hardly ever look like that."""

import math

import pytest
import torch

import qgt
from qgt.trust.wrong_counts import RATE, believed, wrong_count_odds


def setting(noise: qgt.Noise, pools: int = 25, items: int = 60) -> qgt.Problem:
    g = torch.Generator().manual_seed(0)
    return qgt.Problem(qgt.Design.bernoulli(pools=pools, items=items, generator=g), qgt.Bernoulli(0.06), noise)


@pytest.mark.parametrize("noise", [qgt.SparseInteger(0.1, 1), qgt.RoundedGaussian(0.3), qgt.SparseInteger(0.02, 1)])
def test_instances_of_the_model_hardly_ever_look_like_it(noise: qgt.Noise) -> None:
    """The mean ratio is at most 1, so at most a share alpha has a ratio of 1 / alpha or more."""
    problem = setting(noise, pools=16, items=30)
    y = problem.simulate(300, generator=torch.Generator().manual_seed(1)).y
    odds = wrong_count_odds(problem, y, qgt.Certified(time_limit=0.2, certificates=False).bind(problem)(y))
    assert int(odds.isfinite().sum()) > 200
    for alpha in (0.3, 0.1, 0.01):
        share = float(((-odds).exp() <= alpha).double().mean())
        assert share <= alpha + 4 * math.sqrt(alpha / 300)
    assert float((1 - believed(odds)).mean()) < RATE  # what it takes from honest answers


def test_wrong_answers_to_spoilt_counts_that_look_sure_are_doubted() -> None:
    """In a laboratory's design one in twenty plates with a count that is 2 too high has such an answer."""
    g = torch.Generator().manual_seed(2)
    design = qgt.Design.column_regular(pools=24, items=96, weight=6, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.03), qgt.SparseInteger(0.02, 1))
    x, y = problem.simulate(200, generator=g)
    y[torch.arange(200), torch.randint(24, (200,), generator=g)] += 2  # the noise adds 1 at most
    result = qgt.Certified(time_limit=0.1, certificates=False).bind(problem)(y)
    fooled = (result.x != x).any(1) & result.evidence.complete & (result.evidence.confidence > 0.9)
    assert int(fooled.sum()) >= 40  # a decoder that is not fooled would leave nothing to see
    some = fooled.nonzero().flatten()[:40]
    assert int((believed(wrong_count_odds(problem, y[some], result.pick(some))) < 0.9).sum()) >= 36


def test_it_is_the_sum_over_all_x_where_one_x_dominates() -> None:
    """Against enumeration: a lower bound, and close where a count is plainly wrong."""
    problem = setting(qgt.SparseInteger(0.05, 1), pools=10, items=8)
    g = torch.Generator().manual_seed(3)
    y = problem.simulate(12, generator=g).y
    y[:, 4] += 2
    odds = wrong_count_odds(problem, y, qgt.Certified(odds=1e6).bind(problem)(y))
    every = torch.cartesian_prod(*[torch.tensor([0, 1], dtype=torch.uint8)] * 8)
    for row, found in zip(y, odds.tolist(), strict=True):
        if math.isfinite(found):
            exact = _exact_odds(problem, row, every)
            assert exact - 1.0 < found <= exact + 1e-6
    assert int(odds.isfinite().sum()) >= 4


def _exact_odds(problem: qgt.Problem, y: torch.Tensor, every: torch.Tensor) -> float:
    """log Q(y) / P(y) by trying every x."""
    total = float(problem.log_joint(every, y.expand(len(every), -1)).logsumexp(0))
    parts, counts, sizes = [], problem.design.count(every), problem.design.pool_sizes
    for i, size in enumerate(sizes.tolist()):
        without = y.clone()
        without[i] = torch.nan
        near = 0.5 * ((y[i] - counts[:, i]).abs() == 2) * 0.5
        anything = 0.5 / (size + 1) if 0 <= float(y[i]) <= size else 0.0
        parts.append(problem.log_joint(every, without.expand(len(every), -1)) + (near + anything).log())
    return float(torch.stack(parts).flatten().logsumexp(0)) - math.log(len(sizes)) - total


def test_what_has_no_complete_list_is_not_judged() -> None:
    problem = setting(qgt.SparseInteger(0.1, 1))
    y = problem.simulate(5, generator=torch.Generator().manual_seed(1)).y + 2
    for decoder in (qgt.GAMP(), qgt.Certified(time_limit=1e-9), qgt.Certified(odds=1.0)):
        assert wrong_count_odds(problem, y, decoder.bind(problem)(y)).tolist() == [-math.inf] * 5
    assert believed(torch.tensor([-math.inf], dtype=torch.float64)).tolist() == [1.0]


def test_missing_counts_and_real_ones_are_no_obstacle() -> None:
    g = torch.Generator().manual_seed(4)
    for noise in (qgt.SparseInteger(0.05, 1), qgt.Gaussian(0.2), qgt.PerPool([qgt.SparseInteger(0.05, 1)] * 12)):
        problem = setting(noise, pools=12, items=12)
        y = problem.simulate(4, generator=g).y
        y[:, 3] = torch.nan
        assert bool(wrong_count_odds(problem, y, qgt.Certified().bind(problem)(y)).isfinite().any())
