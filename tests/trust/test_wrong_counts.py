"""A wrong count that explains an instance better is seen, and instances of the model hardly ever look like that."""

import math

import pytest
import torch

import qgt
from qgt.trust.wrong_counts import wrong_count_p


def setting(noise: qgt.Noise, pools: int = 25, items: int = 60) -> qgt.Problem:
    g = torch.Generator().manual_seed(0)
    return qgt.Problem(qgt.Design.bernoulli(pools=pools, items=items, generator=g), qgt.Bernoulli(0.06), noise)


@pytest.mark.parametrize("noise", [qgt.SparseInteger(0.1, 1), qgt.RoundedGaussian(0.3), qgt.SparseInteger(0.02, 1)])
def test_it_is_a_valid_p_value(noise: qgt.Noise) -> None:
    """Of 600 instances of the model at most a share alpha has p <= alpha, but for four standard deviations."""
    problem = setting(noise)
    y = problem.simulate(600, generator=torch.Generator().manual_seed(1)).y
    p = wrong_count_p(problem, y, qgt.Certified(time_limit=0.2, certificates=False).bind(problem)(y))
    assert float(p.min()) > 0 and float(p.max()) <= 1
    for alpha in (0.3, 0.1, 0.01):
        assert float((p <= alpha).double().mean()) <= alpha + 4 * math.sqrt(alpha / 600)


def test_wrong_answers_to_spoilt_counts_that_look_sure_are_mostly_seen() -> None:
    problem = setting(qgt.SparseInteger(0.1, 1), pools=35, items=100)
    g = torch.Generator().manual_seed(2)
    x, y = problem.simulate(60, generator=g)
    y[torch.arange(60), torch.randint(35, (60,), generator=g)] += 2  # the noise adds 1 at most
    result = qgt.Certified(time_limit=0.2, certificates=False).bind(problem)(y)
    fooled = (result.x != x).any(1) & result.evidence.complete & (result.evidence.confidence > 0.9)
    assert int(fooled.sum()) >= 10  # a decoder that is not fooled would leave nothing to see
    p = wrong_count_p(problem, y, result)
    assert float((p[fooled] < 1e-4).double().mean()) > 0.8


def test_what_has_no_complete_list_is_not_judged() -> None:
    problem = setting(qgt.SparseInteger(0.1, 1))
    y = problem.simulate(5, generator=torch.Generator().manual_seed(1)).y + 2
    for decoder in (qgt.GAMP(), qgt.Certified(time_limit=1e-9), qgt.Certified(odds=1.0)):
        assert wrong_count_p(problem, y, decoder.bind(problem)(y)).tolist() == [1.0] * 5
    known = qgt.Problem(problem.design, qgt.FixedWeight(3), problem.noise)  # no message passing for these
    assert wrong_count_p(known, y, qgt.Certified(time_limit=0.1).bind(known)(y)).tolist() == [1.0] * 5
