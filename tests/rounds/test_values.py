"""Next pools for copies and categories: what they tell is that of the definition, and rounds settle doubtful plates."""

import itertools
import math

import pytest
import torch

import qgt
from qgt import Categories, Copies, Design, PerCategory, Problem, Reads, SparseInteger
from qgt.rounds.choosing import Reported, next_pools, told, told_flipped
from qgt.rounds.history import History, Setting, measure
from qgt.rounds.policies import FollowUp, simulate_policy
from qgt.rounds.stopping import Settle
from random_problems import some_of

PRIORS = [Copies(frequency=0.05, ploidy=2), Categories((0.05, 0.05)), Categories((0.1, 0.1, 0.1), reported=[3, 1])]


def by_definition(reported: Reported, x: torch.Tensor, weight: torch.Tensor, pool: torch.Tensor) -> float:
    """The information: a sum over all reports of all numbers, and answers, one by one."""
    size = torch.tensor(float(max(1, pool.sum()) * reported.each), dtype=torch.float64)
    reports = torch.arange(-2.0, 12.0, dtype=torch.float64)
    each = [
        noise.log_prob(reports, torch.minimum((part.double() @ pool.double())[:, None], size), size).exp()
        for noise, part in zip(reported.noises, reported.numbers(x), strict=True)
    ]
    total = torch.zeros((), dtype=torch.float64)
    for places in itertools.product(range(len(reports)), repeat=len(each)):
        p = torch.stack([one[:, place] for one, place in zip(each, places, strict=True)]).prod(0)  # (answers,)
        total += (weight * torch.xlogy(p, p)).sum() - torch.xlogy((weight * p).sum(), (weight * p).sum())
    return float(total) / math.log(2)


DETECTED = qgt.PositiveNegative(sensitivity=0.9, specificity=0.95)
EACH_ITS_OWN = [
    PerCategory([SparseInteger(rate=0.2, bound=1), DETECTED]),
    PerCategory([DETECTED, qgt.Noiseless()]),
    PerCategory([Reads(depth=9, error=0.05), SparseInteger(rate=0.4, bound=2)]),  # of one the size of a pool matters
    PerCategory([qgt.Saturating(2), Reads(depth=7)]),
]
CASES = [
    *itertools.product(PRIORS, [qgt.Noiseless(), SparseInteger(rate=0.2, bound=1)]),
    *itertools.product(PRIORS[1:], EACH_ITS_OWN),
]


@pytest.mark.parametrize(("prior", "noise"), CASES, ids=repr)
def test_information_is_that_of_the_definition(prior: Categories | Copies, noise: qgt.Noise, unchecked: None) -> None:
    g = torch.Generator().manual_seed(0)
    x = (torch.rand(8, 6, generator=g) < 0.4) * torch.randint(1, prior.levels + 1, (8, 6), generator=g)
    x = x.to(torch.uint8)
    weight = torch.rand(8, dtype=torch.float64, generator=g)
    weight = weight / weight.sum()
    reported = Reported(noise, prior)
    channel, counts = reported.channel(x)
    pools = torch.rand(3, 6, generator=g) < 0.5
    now = told(channel, counts, weight.float()[None], pools)
    then = told_flipped(channel, counts, weight.float()[None], pools)
    for i, pool in enumerate(pools):
        assert float(now[i]) == pytest.approx(by_definition(reported, x, weight, pool), abs=1e-3)
        for item in range(6):
            other = pool.clone()
            other[item] ^= True
            assert float(then[i, item]) == pytest.approx(by_definition(reported, x, weight, other), abs=1e-3)


def test_many_categories_are_chosen_by_their_number() -> None:
    reported = Reported(qgt.Noiseless(), Categories((0.01,) * 9))
    channel, x = reported.channel(torch.tensor([[9, 1, 0], [0, 3, 3]], dtype=torch.uint8))
    assert channel.steps == (1,) and x.tolist() == [[1, 1, 0], [0, 1, 1]]


def test_categories_with_noises_of_their_own_are_told_apart_as_far_as_there_is_room(unchecked: None) -> None:
    g = torch.Generator().manual_seed(3)
    prior = Categories((0.1, 0.1, 0.1))
    noise = PerCategory([qgt.Noiseless(), DETECTED, SparseInteger(rate=0.2, bound=1)])
    x = ((torch.rand(6, 24, generator=g) < 0.9) * torch.randint(1, 4, (6, 24), generator=g)).to(torch.uint8)
    weight = torch.full((6,), 1 / 6, dtype=torch.float64)
    reported = Reported(noise, prior)
    channel, counts = reported.channel(x)
    assert channel.table.shape[1] <= 128  # of some categories only
    for _ in range(5):
        pool = torch.rand(24, generator=g) < 0.15
        some = float(told(channel, counts, weight.float()[None], pool[None])[0])
        assert -1e-3 <= some <= by_definition(reported, x, weight, pool) + 1e-3  # some reports tell no more than all


def test_answers_that_differ_in_the_category_alone_are_told_apart(unchecked: None) -> None:
    """By the number of items outside the first category nothing would be seen, and no pool would be proposed."""
    reported = Reported(qgt.Noiseless(), Categories((0.01,) * 9))
    x = torch.tensor([[1, 2, 3, 0], [4, 5, 6, 0], [7, 8, 9, 0]], dtype=torch.uint8)
    channel, counts = reported.channel(x)
    third = torch.full((1, 3), 1 / 3)
    assert float(told(channel, counts, third, torch.tensor([[True, False, False, False]]))[0]) > 0.9


@pytest.mark.parametrize("noise", EACH_ITS_OWN[:2], ids=repr)
def test_rounds_settle_plates_whose_categories_have_noises_of_their_own(noise: PerCategory, unchecked: None) -> None:
    setting, g = Setting(16, Categories((0.08, 0.08)), noise), torch.Generator().manual_seed(0)
    policy = FollowUp(first=6, pools=4, spread=False, confidence=0.9)
    ran = simulate_policy(policy, setting, some_of(30), generator=g)
    assert int((ran.rounds > 1).sum()) >= len(ran.rounds) / 3
    assert bool((ran.confidence >= 0.9).all()) and int(ran.wrong.sum()) <= max(1, 0.2 * len(ran.rounds))


def test_new_pools_have_the_noise_of_the_pools_so_far() -> None:
    each = PerCategory([qgt.PerPool([DETECTED, DETECTED]), qgt.Noiseless()])
    problem = Problem(Design.from_rows(["11", "10"]), PRIORS[1], each)
    history = History.start(problem, torch.tensor([[1.0, 1.0], [1.0, 0.0]], dtype=torch.float64))
    after = history.after(torch.eye(2, dtype=torch.uint8)[1:], torch.tensor([[0.0, 1.0]], dtype=torch.float64))
    assert after.problem.noise == PerCategory([qgt.PerPool([DETECTED] * 3), qgt.Noiseless()])
    assert history.setting.noise == PerCategory([DETECTED, qgt.Noiseless()])
    differ = Problem(problem.design, PRIORS[1], PerCategory([qgt.PerPool([DETECTED, qgt.Noiseless()])] * 2))
    with pytest.raises(ValueError, match="noise differs from pool to pool"):
        next_pools(differ, history.y[None], Settle()([history]), pools=1, generator=torch.Generator())


@pytest.mark.parametrize("prior", PRIORS[:2], ids=repr)
def test_rounds_settle_doubtful_plates(prior: Categories | Copies, unchecked: None) -> None:
    setting, g = Setting(40, prior, SparseInteger(rate=0.1, bound=1)), torch.Generator().manual_seed(0)
    policy = FollowUp(first=9, pools=4, spread=False, confidence=0.99)
    ran = simulate_policy(policy, setting, some_of(20), generator=g)
    assert int((ran.rounds > 1).sum()) >= len(ran.rounds) / 3  # plates that were in doubt
    assert bool((ran.confidence >= 0.99).all()) and int(ran.wrong.sum()) <= 1
    assert float(ran.tests.double().mean()) < 20


@pytest.mark.parametrize("prior", PRIORS[:2], ids=repr)
def test_a_pool_of_the_sample_in_doubt_settles_it(prior: Categories | Copies) -> None:
    problem = Problem(Design.from_rows(["11", "11"]), prior)
    truth = torch.tensor([2, 0], dtype=torch.uint8)
    setting, g = Setting(2, prior, problem.noise), torch.Generator().manual_seed(0)
    history = History.start(problem, measure(setting, truth, problem.design.matrix, generator=g))
    settle = Settle(confidence=0.99)
    before = settle([history])
    assert before.evidence.confidence is not None and float(before.evidence.confidence[0]) < 0.9
    (proposed,) = next_pools(problem, history.y[None], before, pools=1, generator=g)
    assert len(proposed.members) == 1 and len(proposed.members[0]) == 1
    after = history.after(proposed.matrix, measure(setting, truth, proposed.matrix, generator=g))
    result = settle([after])
    assert result.x.tolist() == [[2, 0]] and result.evidence.confidence is not None
    assert float(result.evidence.confidence[0]) >= 0.99
    assert result.evidence.values is not None and float(result.evidence.values[0, 0, 2]) >= 0.99


@pytest.mark.parametrize("prior", PRIORS[:2], ids=repr)
def test_pools_are_proposed_where_no_list_is_there(prior: Categories | Copies, unchecked: None) -> None:
    g = torch.Generator().manual_seed(1)
    problem = Problem(Design.column_regular(pools=8, items=20, weight=4, generator=g), prior, SparseInteger(0.1, 1))
    y = problem.simulate(2, generator=g).y
    result = qgt.Exhaustive().bind(problem) if problem.in_parts.items <= 20 else qgt.LinearProgram().bind(problem)
    for one in next_pools(problem, y, result(y), pools=2, generator=g):
        assert all(0 < len(pool) <= 20 for pool in one.members)
