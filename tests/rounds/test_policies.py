"""Histories, stopping and policies: against enumeration, closed forms, and truths that no policy may see."""

import itertools
import math

import pytest
import torch

import qgt
from qgt.rounds.history import History, Setting, decode_histories, measure, with_pools
from qgt.rounds.policies import FollowUp, PolicyStanding, simulate_policy
from qgt.rounds.schemes import SCRIPTS, Scheme, _telling, concatenated
from qgt.rounds.stopping import Settle, history_fit, unlisted

NOISY = qgt.SparseInteger(rate=0.1, bound=1)
SMALL = Setting(14, qgt.Bernoulli(0.12), NOISY)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def some_histories(number=6, seed=0):
    """Instances of 14 items: five pools for all, then pools of their own, a repeat and a missing count among them."""
    g = generator(seed)
    problem = qgt.Problem(qgt.Design.bernoulli(pools=5, items=14, generator=g), SMALL.prior, NOISY)
    x, y = problem.simulate(number, generator=g)
    histories = []
    for i in range(number):
        history = History.start(problem, y[i])
        if i:
            matrix = (torch.rand(i, 14, generator=g) < 0.5).to(torch.uint8)
            matrix[0] = problem.design.matrix[0]
            more = measure(SMALL, x[i], matrix, generator=g)
            if i > 2:
                more[1] = torch.nan
            history = history.after(matrix, more)
        histories.append(history)
    return x, histories


def test_every_round_counts_in_the_posterior():
    """Each history against the enumeration of its own problem, written out by hand."""
    _, histories = some_histories()
    found = decode_histories(histories, qgt.Certified(odds=1e6, certificates=False))
    states = torch.cartesian_prod(*[torch.tensor([0, 1], dtype=torch.uint8)] * 14)
    for i, history in enumerate(histories):
        log_joint = SMALL.prior.log_prob(states)
        for matrix, y in history.measured():
            for row, count in zip(matrix, y, strict=True):
                if not bool(count.isnan()):
                    counts = states.double() @ row.double()
                    log_joint = log_joint + NOISY.log_prob(count, counts, row.sum().double())
        posterior = log_joint.softmax(0)
        assert float(posterior[(states == found.x[i]).all(1)][0]) == pytest.approx(float(posterior.max()))
        assert float(found.evidence.confidence[i]) == pytest.approx(float(posterior.max()), abs=1e-3)


def test_a_batch_is_what_each_is_alone():
    _, histories = some_histories()
    histories.append(histories[0])  # shares its problem with the first
    together = Settle(confidence=0.9)(histories)
    for i, history in enumerate(histories):
        alone = Settle(confidence=0.9)([history])
        assert torch.equal(together.x[i], alone.x[0])
        assert float(together.evidence.confidence[i]) == pytest.approx(float(alone.evidence.confidence[0]))


def test_the_confidence_leaves_room_for_what_is_not_listed():
    """On small problems the exact posterior is known: where it is sure, the confidence is not above it."""
    for seed in range(2):
        _, histories = some_histories(seed=seed)
        result = Settle(confidence=0.95)(histories)
        for i, history in enumerate(histories):
            exact = qgt.Exhaustive().bind(history.problem)(history.y[None]).evidence.confidence[0]
            sure = float(exact) > 0.95
            assert float(result.evidence.confidence[i]) <= float(exact) + (1e-6 if sure else 0.05)
            assert float(result.evidence.confidence[i]) >= 0.8 * float(exact) - 0.15


def test_what_is_listed_last_tells_what_is_not_listed():
    x, spans = torch.zeros(3, 2, dtype=torch.uint8), qgt.Spans(torch.tensor([3]))
    weight = torch.tensor([0.9, 0.072, 0.028], dtype=torch.float64)
    answers = qgt.Answers(spans, x, weight.log(), weight)
    assert float(unlisted(answers, 100.0)) == pytest.approx(0.10 + 0.03)
    assert float(unlisted(answers, 300.0)) == pytest.approx(0.028 + 0.01)  # only the last is below 1/30
    assert float(unlisted(answers, 1e6)) == pytest.approx(3e-6)


@pytest.mark.parametrize("confidence", [0.3, 1.0])
def test_a_confidence_that_cannot_be_reached_is_refused(confidence):
    with pytest.raises(ValueError, match=f"confidence={confidence}"):
        Settle(confidence=confidence)


def test_fit_counts_all_rounds():
    """P-values of honest histories are not small more often than they say; a wrong later count is seen."""
    g = generator(3)
    problem = qgt.Problem(qgt.Design.bernoulli(pools=12, items=30, generator=g), qgt.Bernoulli(0.1), NOISY)
    x, y = problem.simulate(16, generator=g)
    matrix = (torch.rand(8, 30, generator=g) < 0.5).to(torch.uint8)
    honest, bad = [], []
    for i in range(16):
        history = History.start(problem, y[i]).after(
            matrix, measure(Setting(30, problem.prior, NOISY), x[i], matrix, generator=g)
        )
        honest.append(history_fit(history, x[i], generator=g))
        wrong = history.y.clone()
        wrong[-4:] += 1
        bad.append(history_fit(History(history.problem, wrong, history.rounds), x[i], generator=g))
    assert sum(p < 0.1 for p in honest) <= 6  # 1.6 expected at most, deviation 1.2
    assert sorted(bad)[8] < 0.02 < sorted(honest)[8]


def test_more_pools_keep_names_and_noise():
    design = qgt.Design.from_rows(["110", "011"], pool_names=["a", "b"], item_names=["x", "y", "z"])
    problem = qgt.Problem(design, qgt.Bernoulli(0.1), qgt.PerPool([NOISY, NOISY]))
    more = with_pools(problem, torch.tensor([[1, 0, 1]], dtype=torch.uint8), ["c"])
    assert more.design.pool_names == ("a", "b", "c") and more.design.item_names == ("x", "y", "z")
    assert more.design.rows == ("110", "011", "101") and more.noise == qgt.PerPool([NOISY] * 3)
    with pytest.raises(ValueError, match="shape"):
        with_pools(problem, torch.zeros(1, 4, dtype=torch.uint8))
    with pytest.raises(ValueError, match="2 counts for 1 pools"):
        History.start(problem, torch.zeros(2).double()).after(
            torch.ones(1, 3, dtype=torch.uint8), torch.zeros(2).double()
        )


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("rate", [0.02, 0.2])
def test_schemes_are_right_without_noise(name, rate):
    setting = Setting(30, qgt.Bernoulli(rate), qgt.Noiseless())
    ran = simulate_policy(Scheme(name), setting, 5, generator=generator())
    assert not bool(ran.wrong.any())
    assert int(ran.tests.max()) <= (60 if name == "checked" else 31)


def test_schemes_cost_what_they_should():
    """One defective item of eight: 1 + 3 halvings; both halves measured: 1 + 6; Dorfman by its closed form."""
    one = Setting(8, qgt.FixedWeight(1), qgt.Noiseless())
    costs = {name: simulate_policy(Scheme(name), one, 5, generator=generator()) for name in SCRIPTS}
    assert costs["individual"].tests.tolist() == [8] * 5 and costs["individual"].rounds.tolist() == [1] * 5
    assert costs["halving"].tests.tolist() == [4] * 5 and costs["halving"].rounds.tolist() == [4] * 5
    assert costs["checked"].tests.tolist() == [7] * 5
    setting = Setting(100, qgt.Bernoulli(0.01), qgt.Noiseless())
    ran = simulate_policy(Scheme("dorfman"), setting, 150, generator=generator())
    size = 100 // -(-100 // 11)
    expected = 100 / size + 100 * (1 - 0.99**size) * (size - 1) / size
    assert float(ran.tests.double().mean()) == pytest.approx(expected, rel=0.12)


def test_detecting_matrices_tell_all_cases_apart():
    cases = torch.cartesian_prod(*[torch.tensor([0, 1])] * 4)
    rows = _telling(cases)
    assert len(rows) <= 4 and len((cases @ rows.T).unique(dim=0)) == 16


def test_repeats_make_a_scheme_right_despite_noise():
    setting = Setting(20, qgt.Bernoulli(0.1), NOISY)
    plain, led = (
        simulate_policy(Scheme("individual", lead=lead), setting, 40, generator=generator()) for lead in (1, 4)
    )
    assert int(plain.wrong.sum()) > 10 and int(led.wrong.sum()) == 0
    assert 80 <= float(led.tests.double().mean()) < 100 and int(led.rounds.max()) > 1


def test_checked_halving_survives_a_wrong_count_of_the_whole():
    script = SCRIPTS["checked"](8, 0.1)
    pools, truth, asked = next(script), {3}, 0
    with pytest.raises(StopIteration) as end:
        while True:
            asked += 1
            counts = [sum(item in truth for item in pool) for pool in pools]
            pools = script.send([2] if asked == 1 else counts)  # the whole is said to have two
    assert end.value.value == [3] and asked == 1 + 3 + 1 + 1


@pytest.mark.parametrize(
    ("given", "said"), [({"name": "magic"}, "name='magic'"), ({"name": "halving", "lead": 0}, "lead=0")]
)
def test_bad_schemes_are_refused(given, said):
    with pytest.raises(ValueError, match=said):
        Scheme(**given)


def test_follow_ups_end_sure_and_right_with_fewer_tests():
    setting = Setting(30, qgt.Bernoulli(0.06), NOISY)
    ran = simulate_policy(FollowUp(first=8, risk=0.05), setting, 5, generator=generator(1))
    assert not bool(ran.wrong.any()) and bool((ran.confidence >= 0.999).all())
    assert float(ran.tests.double().mean()) < 16 and int(ran.rounds.max()) > 1
    fewest = 30 * -(0.06 * math.log2(0.06) + 0.94 * math.log2(0.94)) / math.log2(31)
    assert float(ran.tests.double().mean()) > fewest


def test_a_single_first_pool_holds_all_items():
    """It tells how many are defective: where that is none, one test is enough."""
    setting, g = Setting(12, qgt.Bernoulli(0.05), qgt.Noiseless()), torch.Generator().manual_seed(0)
    policy = FollowUp(first=1, pools=1, confidence=0.99, odds=30.0)
    assert policy.first_round(setting, generator=g).tolist() == [[1] * 12]
    ran = simulate_policy(policy, setting, 12, generator=g)
    none = ran.x.sum(1) == 0
    assert not ran.wrong.any() and none.sum() >= 5
    assert (ran.tests[none] == 1).all() and (ran.tests[~none] > 1).all()


def test_the_last_round_is_the_last():
    setting = Setting(40, qgt.Bernoulli(0.05), NOISY)
    for most in (0, 1):
        ran = simulate_policy(FollowUp(first=6, follow_ups=most, risk=0.2), setting, 3, generator=generator(1))
        assert int(ran.rounds.max()) == most + 1 and float(ran.confidence.min()) < 0.999


def test_a_policy_sees_counts_only():
    """Two truths with the same counts get the same pools."""
    problem = qgt.Problem(qgt.Design.from_rows(["1100", "0011"]), qgt.Bernoulli(0.2))
    history = History.start(problem, torch.tensor([1.0, 0.0], dtype=torch.float64))
    policy = FollowUp(first=2, spread=False)
    standing = policy.done([history])
    assert isinstance(standing, PolicyStanding) and not bool(standing.done[0])
    first, again = (policy.next_round(history, standing, 0, generator=generator()) for _ in range(2))
    assert torch.equal(first, again) and int(first[:, 2:].sum()) == 0


def test_a_concatenated_code_finds_every_set_of_defectives():
    """All truths of three groups with known counts, against what a script that sees counts alone returns."""
    groups = [([0, 1, 2, 3, 4], 2), ([5, 6, 7, 8], 1), ([9, 10, 11], 2)]
    tests = set()
    for parts in itertools.product(*(itertools.combinations(items, number) for items, number in groups)):
        truth = set(itertools.chain(*parts))
        script = concatenated(groups)
        pools = next(script)
        assert all(len(set(pool)) == len(pool) for pool in pools)  # an item taken twice would count twice
        with pytest.raises(StopIteration) as end:
            script.send([sum(item in truth for item in pool) for pool in pools])
        assert sorted(end.value.value) == sorted(truth)
        tests.add(len(pools))
    assert len(tests) == 1 and tests.pop() <= 9  # one by one it takes 4 + 3 + 2


def test_an_answer_that_is_not_sure_is_never_called_sure():
    """The longer list is not made for it, so its confidence stays below what was asked for."""
    _, histories = some_histories(number=12, seed=5)
    whole = decode_histories(histories, qgt.Certified(odds=1e6, certificates=False)).evidence.confidence
    for odds in (1.0, 30.0, 1e4):
        found = Settle(confidence=0.9, coarse_odds=odds)(histories).evidence
        assert bool((found.confidence[whole < 0.9] < 0.9).all())
        assert bool((found.confidence <= whole + 1e-3)[found.complete].all())
    assert bool((whole < 0.9).any()) and bool((whole > 0.9).any())
