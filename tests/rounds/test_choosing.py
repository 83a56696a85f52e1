"""Pools are chosen by what they tell: against enumeration, closed forms, random pools and the limits people set."""

import itertools
import math
from dataclasses import replace
from functools import cache

import pytest
import torch

import qgt
from qgt.rounds.choosing import (
    Channel,
    Limits,
    Posterior,
    choose,
    later_noise,
    posterior_of,
    sample_posterior,
    told_flipped,
)
from qgt.rounds.choosing import told as told_by

NOISY = qgt.SparseInteger(rate=0.1, bound=1)
NOISES = [
    qgt.Noiseless(), NOISY, qgt.RoundedGaussian(0.4), qgt.PositiveNegative(0.95, 0.98), qgt.Gaussian(0.3),
    qgt.Outliers(NOISY, 0.02),
]  # fmt: skip


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def some_answers(answers=12, items=9, seed=0):
    g = generator(seed)
    x = (torch.rand(answers, items, generator=g) < 0.3).to(torch.uint8).unique(dim=0)
    weight = torch.rand(len(x), dtype=torch.float64, generator=g)
    return Posterior(x, weight / weight.sum())


def told(known, pool, noise, steps=40):
    """The information by its definition: a sum over reports and answers, one by one."""
    size = float(max(1, pool.sum()))
    reach = noise.reach(int(size), 1e-9)
    step = 1.0 if noise.integer else reach / steps / 4
    reports = torch.arange(-reach, size + reach + step / 2, step, dtype=torch.float64)
    counts = (known.x.double() @ pool.double())[:, None]
    p = noise.log_prob(reports, counts, torch.full_like(counts, size)).exp() * step  # (answers, reports)
    mixed = (known.weight[:, None] * p).sum(0)
    given = -(known.weight[:, None] * torch.xlogy(p, p)).sum()
    return float(-torch.xlogy(mixed, mixed).sum() - given) / math.log(2)


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_information_is_that_of_the_definition(noise):
    known = some_answers()
    pools = torch.rand(3, 9, generator=generator(1)) < 0.4
    pools[:, 0] = True
    channel = Channel.of(noise, sizes=9, most=int(known.x.sum(1).max()))
    given = channel, known.x.float(), known.weight.float()[None], pools
    now, then = told_by(*given), told_flipped(*given)
    for i, pool in enumerate(pools):
        assert float(now[i]) == pytest.approx(told(known, pool, noise), abs=3e-3)
        for item in range(1, 9):
            other = pool.clone()
            other[item] ^= True
            assert float(then[i, item]) == pytest.approx(told(known, other, noise), abs=3e-3)


@pytest.mark.parametrize("noise", [qgt.Noiseless(), NOISY, qgt.PositiveNegative(0.95, 0.98)], ids=repr)
def test_the_first_pool_is_nearly_the_best_of_all(noise):
    ratios = []
    for seed in range(5):
        known = some_answers(seed=seed)
        (best,) = [max(told(known, torch.tensor(p), noise) for p in itertools.product([0, 1], repeat=9))]
        found = choose(known, noise, Limits.of(9, 1), generator=generator(seed))
        assert found.information == pytest.approx(told(known, found.matrix[0], noise), abs=3e-3)
        ratios.append(found.information / best)
    assert min(ratios) > 0.97 and sum(ratios) / len(ratios) > 0.99


@cache
def real_posterior(seed):
    g = generator(seed)
    design = qgt.Design.bernoulli(pools=9, items=60, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.06), NOISY)
    y = problem.simulate(1, generator=g).y
    result = qgt.Certified(odds=30.0, certificates=False).bind(problem)(y)
    return problem, y, result


def test_better_than_the_best_of_400_random_halves():
    wins, more = 0, []
    for seed in range(4):
        problem, y, result = real_posterior(seed)
        (found,) = qgt.next_pools(problem, y, result, pools=1, generator=generator(seed))
        known = posterior_of(problem, y[0], result, 0, generator=generator(seed))
        halves = torch.rand(400, 60, generator=generator(seed)) < 0.5
        best = max(told(known, half, NOISY) for half in halves)
        wins += told(known, found.matrix[0], NOISY) >= best - 1e-3
        more.append(found.information - best)
    assert wins == 4 and sum(more) > 0.05, more


def test_pools_of_a_round_tell_more_together_than_the_same_pool_twice():
    """Four answers, two bits: two pools without noise must tell both."""
    known = Posterior(torch.eye(4, dtype=torch.uint8), torch.full((4,), 0.25, dtype=torch.float64))
    found = choose(known, qgt.Noiseless(), Limits.of(4, 2), generator=generator())
    assert found.information == pytest.approx(2.0, abs=1e-3) and found.remaining == 2
    counts = found.matrix.double() @ known.x.double().T
    assert len(counts.T.unique(dim=0)) == 4


def test_with_noise_a_second_look_at_the_same_two_answers_is_worth_a_pool():
    known = Posterior(torch.eye(2, dtype=torch.uint8), torch.tensor([0.5, 0.5], dtype=torch.float64))
    found = choose(known, NOISY, Limits.of(2, 2), generator=generator())
    assert len(found.matrix) == 2 and told(known, found.matrix[0], NOISY) < found.information < 1.0
    silent = choose(known, qgt.Noiseless(), Limits.of(2, 2), generator=generator())
    assert len(silent.matrix) == 1  # the first pool says it all


def test_no_more_pools_than_the_risk_asks_for():
    problem, y, result = real_posterior(3)
    found = [
        qgt.next_pools(problem, y, result, pools=12, risk=risk, generator=generator())[0] for risk in (0.5, 0.1, 0.01)
    ]
    assert 1 <= len(found[0].matrix) < len(found[1].matrix) < len(found[2].matrix) < 12
    assert all(one.risk <= risk for one, risk in zip(found, (0.5, 0.1, 0.01), strict=True))
    assert len(qgt.next_pools(problem, y, result, pools=12, risk=1.0, generator=generator())[0].matrix) == 1


def test_a_single_item_is_a_pool_like_any_other():
    x = torch.tensor([[1, 0, 0], [0, 0, 0]], dtype=torch.uint8)
    known = Posterior(x, torch.tensor([0.5, 0.5], dtype=torch.float64))
    assert choose(known, NOISY, Limits.of(3, 1), generator=generator()).members == ((0,),)


def test_limits_are_kept():
    problem, y, result = real_posterior(3)
    free = qgt.next_pools(problem, y, result, pools=3, generator=generator())[0]
    assert len(free.matrix) == 3 and max(map(len, free.members)) > 2
    small = qgt.next_pools(problem, y, result, pools=3, generator=generator(), at_most=2)[0]
    assert max(map(len, small.members)) <= 2 and 0 < small.information < free.information
    once = qgt.next_pools(problem, y, result, pools=3, generator=generator(), each_at_most=1)[0]
    assert int(once.matrix.sum(0).max()) == 1
    used = [0 if item < 30 else 2 for item in range(60)]
    some = qgt.next_pools(problem, y, result, pools=3, generator=generator(), each_at_most=used)[0]
    assert int(some.matrix[:, :30].sum()) == 0 and len(some.matrix) == 3
    none = qgt.next_pools(problem, y, result, pools=3, generator=generator(), each_at_most=0)[0]
    assert not len(none.matrix) and none.remaining == 0


def test_nothing_is_proposed_where_nothing_is_in_doubt():
    problem = qgt.Problem(qgt.Design.from_rows(["110", "011", "111"]), qgt.Bernoulli(0.1))
    y = torch.tensor([[1.0, 0.0, 1.0]], dtype=torch.float64)
    (found,) = qgt.next_pools(problem, y, qgt.Certified().bind(problem)(y), pools=2, generator=generator())
    assert found.members == () and found.doubt == 0.0


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"pools": 0}, "pools=0"),
        ({"pools": 1, "at_most": 0}, "at_most=0"),
        ({"pools": 1, "each_at_most": -1}, "each_at_most=-1"),
        ({"pools": 1, "each_at_most": [1, 1]}, "each_at_most holds 2 numbers for 60 items"),
    ],
)
def test_bad_limits_are_refused(given, said):
    problem, y, result = real_posterior(0)
    with pytest.raises(ValueError, match=said):
        qgt.next_pools(problem, y, result, generator=generator(), **given)


def test_a_noise_that_differs_by_pool_is_refused():
    with pytest.raises(ValueError, match="differs from pool to pool"):
        later_noise(qgt.PerPool([qgt.Noiseless(), NOISY]))
    assert later_noise(qgt.PerPool([NOISY, NOISY])) == NOISY


@pytest.mark.parametrize(
    "prior",
    [qgt.Bernoulli(0.2), qgt.FixedWeight(2), qgt.Households(size=2, seed_rate=0.2, attack_rate=0.7)],
    ids=["bernoulli", "fixed", "households"],
)
def test_samples_have_the_marginals_of_the_posterior(prior):
    g = generator(5)
    problem = qgt.Problem(qgt.Design.bernoulli(pools=4, items=10, generator=g), prior, NOISY)
    y = problem.simulate(20, generator=g).y
    exact = qgt.Exhaustive().bind(problem)(y)
    doubtful = (exact.scores * (1 - exact.scores)).sum(1).argmax()[None]
    y, exact = y[doubtful], exact.pick(doubtful)
    x = sample_posterior(problem, y[0], exact.x, generator=g)
    assert x.double().mean(0) == pytest.approx(exact.scores[0], abs=0.12)  # 192 chains: 0.036 is one deviation
    known = posterior_of(problem, y[0], exact, 0, generator=g)
    assert float(known.weight.sum()) == pytest.approx(1.0) and known.entropy > 1.0


def test_fewer_answers_keep_the_weight():
    g = generator()
    weight = torch.rand(500, dtype=torch.float64, generator=g).pow(8)
    known = Posterior((torch.rand(500, 30, generator=g) < 0.2).to(torch.uint8), weight / weight.sum())
    fewer = known.at_most(100, generator=g)
    assert len(fewer.weight) == 100 and float(fewer.weight.sum()) == pytest.approx(1.0)
    assert fewer.weight @ fewer.x.double() == pytest.approx(known.weight @ known.x.double(), abs=0.1)


def test_answers_whose_probabilities_leave_all_room_to_others_are_still_weighed():
    problem = qgt.Problem(qgt.Design.from_rows(["1110", "0111"]), qgt.Bernoulli(0.2), NOISY)
    y = torch.tensor([[1.0, 1.0]], dtype=torch.float64)
    result = qgt.Certified().bind(problem)(y)
    listed = result.evidence.alternatives
    none = qgt.Answers(listed.spans, listed.x, listed.log_joint, torch.zeros_like(listed.probability))
    emptied = replace(result, evidence=replace(result.evidence, alternatives=none))
    known = posterior_of(problem, y[0], emptied, 0, generator=generator())
    torch.testing.assert_close(known.weight, listed.probability)


def test_pools_may_spread_over_items_that_no_answer_names():
    """They tell the same of the answers listed, keep the limits, and stay away where sizes matter."""
    problem, y, result = real_posterior(3)
    known = posterior_of(problem, y[0], result, 0, generator=generator())
    unnamed = known.x.amax(0) == 0
    (found,) = qgt.next_pools(problem, y, result, pools=3, spread=True, generator=generator())
    plain = choose(known, NOISY, Limits.of(60, 3), generator=generator())
    assert not int(plain.matrix[:, unnamed].sum())
    assert (found.matrix[:, unnamed].sum(1) == int(unnamed.sum()) // 2).all()
    assert told(known, found.matrix[0], NOISY) == pytest.approx(told(known, plain.matrix[0], NOISY), abs=0.02)
    limits = Limits.of(60, 3, at_most=9, each_at_most=1, spread=True)
    small = choose(known, NOISY, limits, generator=generator()).matrix
    assert int(small.sum(1).max()) <= 9 and int(small.sum(0).max()) == 1
    sized = qgt.Outliers(NOISY, 0.02)  # whose reports go up to the pool's size
    assert not int(choose(known, sized, Limits.of(60, 2, spread=True), generator=generator()).matrix[:, unnamed].sum())
