"""Confidence that means what it says."""

import itertools
import math
import threading
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

import qgt
from qgt.decoders.results import Answers, Spans
from qgt.testing import check_decoder
from qgt.testing.checks import small_problem
from qgt.trust import confidence, fit
from qgt.trust.confidence import BoundCalibrated, Listing, Logistic, Monotone, SimulatedLongLists, learn

# Confidence is the share of answers that are right: against enumeration, and on fresh instances of all decoders.

SIMULATED = {qgt.Certified: 300}  # instances, not seconds: the machine may be busy


@pytest.fixture(autouse=True)
def few_truths(monkeypatch: pytest.MonkeyPatch) -> None:
    """How well truths fit is simulated with fewer of them: the fit has tests of its own."""
    monkeypatch.setattr(fit, "MOST_INSTANCES", 5000)


def sound(instances: int) -> tuple[Tensor, Tensor]:
    """That no count is wrong, and none missing."""
    return torch.ones(instances, dtype=torch.float64), torch.ones(instances, dtype=torch.bool)


def identity() -> qgt.Problem:
    design = qgt.Design.from_matrix(torch.eye(20, dtype=torch.uint8))
    return qgt.Problem(design, qgt.Bernoulli(0.06), qgt.SparseInteger(0.1, 1))


def dense(pools: int, items: int = 100) -> qgt.Problem:
    g = torch.Generator().manual_seed(0)
    design = qgt.Design.bernoulli(pools=pools, items=items, generator=g)
    return qgt.Problem(design, qgt.Bernoulli(0.06), qgt.SparseInteger(0.1, 1))


def beyond_scatter(problem: qgt.Problem, decode: qgt.Decode, instances: int, bins: int = 5) -> float:
    """The calibration error on fresh instances, less three times what perfect calibration would show."""
    x, y = problem.simulate(instances, generator=torch.Generator().manual_seed(99))
    result = decode(y)
    sure, right = result.evidence.confidence, (result.x == x).all(1).double()
    which = (sure * bins).long().clamp(max=bins - 1)
    error = scatter = 0.0
    for one in range(bins):
        here = which == one
        error += abs(float((sure[here] - right[here]).sum()))
        scatter += math.sqrt(float((sure[here] * (1 - sure[here])).sum()))
    return (error - 3 * scatter) / instances


def test_it_keeps_the_contract_of_decoders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "MOST_INSTANCES", 2000)  # the checks bind it many times
    result = check_decoder(qgt.Calibrated(qgt.GAMP(), seconds=0.02, simulations=10), small_problem(pools=8, items=10))
    assert len(result.passed) >= 25


def test_a_batch_of_listed_answers_is_told_what_each_alone_is() -> None:
    """What the contract asks of all decoders, for one that lists answers."""
    problem = dense(12, items=20)
    decode = qgt.Calibrated(qgt.Certified(), seconds=60.0, simulations=60).bind(problem)
    y = problem.simulate(10, generator=torch.Generator().manual_seed(6)).y
    y[3, 5] += 2
    whole, each = decode(y), qgt.Decoded.joined([decode(row[None]) for row in y])
    assert torch.equal(whole.x, each.x) and torch.equal(whole.status, each.status)
    torch.testing.assert_close(whole.evidence.confidence, each.evidence.confidence)
    torch.testing.assert_close(whole.evidence.fit, each.evidence.fit)
    assert len(decode(y[:0]).x) == 0


def exact_confidence(problem: qgt.Problem, y: Tensor) -> Tensor:
    """Of the most probable x where each item is alone in its pool: items are independent, given the counts."""
    one, none = (problem.noise.log_prob(y, torch.full_like(y, count), torch.ones_like(y)).exp() for count in (1.0, 0.0))
    defective = 0.06 * one / (0.06 * one + 0.94 * none)
    return torch.maximum(defective, 1 - defective).prod(1)


@pytest.mark.usefixtures("unchecked")  # a third faster; what types are passed is checked in every other test
def test_where_each_item_is_alone_confidence_is_the_exact_posterior() -> None:
    """All answers near the best one are below odds of 100: among those listed it has all the weight, in truth less."""
    problem = identity()
    y = problem.simulate(60, generator=torch.Generator().manual_seed(1)).y
    exact = exact_confidence(problem, y)
    plain = qgt.Certified().bind(problem)(y).evidence.confidence
    ours = qgt.Calibrated(qgt.Certified(), seconds=60.0, simulations=400).bind(problem)(y).evidence.confidence
    assert float((plain - exact).mean()) > 0.02  # what it said of itself
    assert abs(float((ours - exact).mean())) < 0.005
    assert float((ours - exact).abs().mean()) < 0.02
    assert bool((ours <= plain + 1e-12).all())


@pytest.mark.usefixtures("unchecked")  # a third faster; what types are passed is checked in every other test
@pytest.mark.parametrize("noise", [qgt.SparseInteger(0.3, 3), qgt.RoundedGaussian(0.7), qgt.SparseInteger(0.1, 1)])
def test_on_small_problems_it_is_the_exact_posterior_on_average(noise: qgt.Noise) -> None:
    g = torch.Generator().manual_seed(0)
    problem = qgt.Problem(qgt.Design.bernoulli(pools=9, items=10, generator=g), qgt.Bernoulli(0.12), noise)
    y = problem.simulate(150, generator=g).y
    exact = qgt.Exhaustive().bind(problem)(y).evidence.confidence
    ours = qgt.Calibrated(qgt.Certified(), seconds=60.0, simulations=400).bind(problem)(y).evidence.confidence
    assert abs(float((ours - exact).mean())) < 0.01
    assert float((ours - exact).abs().mean()) < 0.03


@pytest.mark.usefixtures("unchecked")  # a third faster; what types are passed is checked in every other test
@pytest.mark.parametrize("decoder", [qgt.Certified(), qgt.AMP(), qgt.GAMP(), qgt.MaximumNeighborhood()])
def test_on_fresh_instances_it_is_the_share_that_is_right(decoder: qgt.Decoder) -> None:
    """A decoder that says 100 % of all answers would err by the share that is wrong, 0.04 and more here."""
    problem = dense(16, items=45)
    decode = qgt.Calibrated(decoder, seconds=60.0, simulations=SIMULATED.get(type(decoder), 3000)).bind(problem)
    assert beyond_scatter(problem, decode, 500) < 0.01


def test_under_a_time_limit_complete_lists_are_calibrated() -> None:
    problem = dense(20, items=60)
    decode = qgt.Calibrated(qgt.Certified(time_limit=0.003, certificates=False), seconds=2.0).bind(problem)
    x, y = problem.simulate(600, generator=torch.Generator().manual_seed(98))
    result = decode(y)
    listed = result.evidence.complete
    sure, right = result.evidence.confidence, (result.x == x).all(1).double()
    if int(listed.sum()) < 50:
        pytest.skip("this machine lists nothing in the time")
    scatter = math.sqrt(float((sure * (1 - sure))[listed].sum()))
    assert abs(float((sure - right)[listed].sum())) < 3 * scatter + 0.01 * int(listed.sum())


def test_certificates_hold_after_calibration() -> None:
    problem = dense(14, items=30)
    y = problem.simulate(30, generator=torch.Generator().manual_seed(3)).y
    result = qgt.Calibrated(qgt.Certified(), seconds=60.0, simulations=30).bind(problem)(y)
    assert result.proof is not None and bool(qgt.check_certificate(problem, y, result).all())
    assert bool((result.evidence.confidence < 1).all())


def test_longer_lists_give_the_chance_that_shorter_ones_miss() -> None:
    """Held against the exact posterior: the weight beyond the odds, instance by instance."""
    problem = identity()
    x, y = problem.simulate(12, generator=torch.Generator().manual_seed(4))
    found = SimulatedLongLists.of(x, qgt.Certified(odds=1e6, certificates=False).bind(problem)(y), 100.0)
    exact = exact_confidence(problem, y)
    plain = qgt.Certified().bind(problem)(y)
    inside = exact / plain.evidence.confidence  # what is listed at odds of 100, of everything
    assert float((1 - inside).mean()) > 0.02
    torch.testing.assert_close(found.unlisted, 1 - inside, atol=2e-3, rtol=0.0)


def test_missing_counts_leave_no_more_confidence_than_a_list_has_of_itself() -> None:
    """What was learned of whole instances knows nothing of those that lack counts."""
    problem = dense(20, items=30)
    y = problem.simulate(100, generator=torch.Generator().manual_seed(8)).y
    plain = qgt.Certified(odds=2.0, certificates=False).bind(problem)(y)
    sure = Listing.learn(plain.x, plain, 2.0)  # every simulated truth was listed
    whole, some = sound(100)
    told, less = (sure.applied(plain, whole, here).confidence for here in (some, ~some))
    assert float(told.max()) > 0.95 and float(less.max()) < 0.75 and bool((less <= told).all())


def test_decoders_that_only_score_learn_what_missing_counts_cost() -> None:
    """Where a fifth of the counts is missing, whole instances would promise a fifth of the errors that there are."""
    g = torch.Generator().manual_seed(0)
    design = qgt.Design.column_regular(pools=16, items=40, weight=5, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.05), qgt.SparseInteger(0.05, 1))
    x, y = problem.simulate(600, generator=g)
    y[:, 1:][torch.rand(600, 15, generator=g) < 0.2] = torch.nan
    decode = qgt.Calibrated(qgt.GAMP(), seconds=60.0, simulations=4000).bind(problem)
    result = decode(y)
    right, sure = (result.x == x).all(1), result.evidence.confidence
    trusted = sure >= 0.9
    promised = float((1 - sure[trusted]).sum())
    nothing = torch.zeros(len(y), dtype=torch.float64)
    blind = decode.learned().applied(problem, y, decode.decode(y), lambda rows: nothing[: len(rows)])
    blind = blind.evidence.confidence
    assert int((~right & (blind >= 0.9)).sum()) > 4 * float((1 - blind[blind >= 0.9]).sum())
    assert int((~right & trusted).sum()) < promised + 3 * math.sqrt(promised) and int(trusted.sum()) > 200
    whole, some = problem.simulate(5, generator=g).y, y[:1]
    alone = decode(whole).evidence.confidence
    assert torch.equal(decode(torch.cat([whole, some])).evidence.confidence[:5], alone)


def test_before_any_simulation_a_list_guesses_what_it_misses() -> None:
    """Held against nearly all answers: few listed miss little, many miss much, and the mean is of the right size."""
    noisy = dense(9, items=14)
    problem = qgt.Problem(noisy.design, noisy.prior, qgt.RoundedGaussian(0.5))
    x, y = problem.simulate(100, generator=torch.Generator().manual_seed(8))
    plain = qgt.Certified(certificates=False).bind(problem)(y)
    missed = SimulatedLongLists.of(x, qgt.Certified(odds=1e8, certificates=False).bind(problem)(y), 100.0).unlisted
    nothing = Listing.learn(x[:0], plain.pick(torch.arange(0)), 100.0)
    guessed = 1 - nothing.applied(plain, *sound(100)).confidence / plain.evidence.confidence
    assert 1 / 3 < float(guessed.mean() / missed.mean()) < 3.0
    assert float(torch.corrcoef(torch.stack([guessed, missed]))[0, 1]) > 0.5


def test_answers_that_are_impossible_have_no_confidence() -> None:
    problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.1))
    y = torch.tensor([[0.0, 2.0], [1.0, 1.0]], dtype=torch.float64)
    for decoder in (qgt.Certified(), qgt.GAMP(), qgt.Prevalence()):
        evidence = qgt.Calibrated(decoder, seconds=60.0, simulations=100).bind(problem)(y).evidence
        assert float(evidence.confidence[0]) == 0.0


def test_odds_of_one_tell_no_confidence() -> None:
    problem = dense(12, items=20)
    y = problem.simulate(3, generator=torch.Generator().manual_seed(0)).y
    evidence = qgt.Calibrated(qgt.Certified(odds=1.0), seconds=60.0, simulations=30).bind(problem)(y).evidence
    assert evidence.confidence is None and evidence.fit is not None


@dataclass(frozen=True)
class Counting:
    """A decoder that notes how many instances it is given."""

    calls: list[int]

    def supports(self, problem: qgt.Problem) -> str | None:
        return None

    def bind(self, problem: qgt.Problem) -> qgt.Decode:
        bound = qgt.MaximumNeighborhood().bind(problem)

        def decode(y: Tensor) -> qgt.Decoded:
            self.calls.append(len(y))
            return bound(y)

        return decode


def test_it_simulates_once_however_many_threads_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, made = dense(12, items=20), []

    def counted(*arguments: object) -> object:
        made.append(1)
        return learn(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(confidence, "learn", counted)
    decode = qgt.Calibrated(qgt.GAMP(), seconds=60.0, simulations=100).bind(problem)
    y = problem.simulate(4, generator=torch.Generator().manual_seed(0)).y
    found: list[Tensor] = []
    threads = [threading.Thread(target=lambda: found.append(decode(y).evidence.confidence)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1 and len(found) == 8 and all(torch.equal(one, found[0]) for one in found)


def test_simulations_stop_at_their_number() -> None:
    calls: list[int] = []
    bound = qgt.Calibrated(Counting(calls), simulations=100).bind(dense(12, items=20))
    assert bound.learned().simulated == 100 and sum(calls) == 100


def test_a_decoder_that_knows_nothing_is_told_so() -> None:
    """Prevalence calls nothing defective: right where nothing is, and its confidence must say how seldom that is."""
    problem = dense(12, items=40)
    decode = qgt.Calibrated(qgt.Prevalence(), seconds=60.0, simulations=3000).bind(problem)
    assert beyond_scatter(problem, decode, 2000) < 0.01
    y = problem.simulate(500, generator=torch.Generator().manual_seed(0)).y
    assert float(decode(y).evidence.confidence.mean()) < 0.2


def test_an_incomplete_list_leaves_more_room() -> None:
    problem = dense(20, items=60)
    x, y = problem.simulate(200, generator=torch.Generator().manual_seed(5))
    whole = qgt.Certified(certificates=False).bind(problem)(y)
    cut = replace(whole, evidence=replace(whole.evidence, complete=torch.arange(200) % 2 == 0))
    wrong = x.clone()
    wrong[1::4] = 1 - wrong[1::4]  # half of the incomplete ones miss the truth
    told = Listing.learn(wrong, cut, 100.0).applied(cut, *sound(200)).confidence
    assert float(told[1::2].mean()) < 0.7 < float(told[::2].mean())


def test_what_a_list_that_was_cut_short_leaves_out_depends_on_whether_its_answer_is_proved() -> None:
    """One answer alone is a good sign where it is proved and a bad one where it is not: no sum of the two says that."""
    number = torch.arange(800)
    alone, proved = number % 2 == 0, number % 4 < 2
    listed = torch.where(proved, torch.where(alone, 1.0, 0.6), torch.where(alone, 0.2, 0.9))
    truth = torch.randint(0, 2, (800, 6), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    found = (number // 4 % 10) < 10 * listed  # the same share in each of the four groups
    best = torch.where(found[:, None], truth, 1 - truth)
    other = best.clone()
    other[:, 0] ^= 1  # never the truth
    rows = torch.stack([best, other], 1)[torch.stack([torch.ones_like(alone), ~alone], 1)]
    spans = Spans((2 - alone.long()).cumsum(0))
    share = (1 / spans.numbers.double())[spans.owner]
    answers = Answers(spans, rows, share.log(), share)
    status = torch.where(proved, int(qgt.Status.PROVED), int(qgt.Status.TIME_LIMIT)).to(torch.uint8)
    evidence = qgt.Evidence(alternatives=answers, complete=torch.zeros(800, dtype=torch.bool))
    result = qgt.Decoded(best, status, None, evidence)
    told = Listing.learn(truth, result, 100.0).applied(result, *sound(800)).confidence
    assert told is not None
    for group in (alone & proved, ~alone & proved, alone & ~proved, ~alone & ~proved):
        right = listed[group] / spans.numbers[group]
        assert float((told[group] - right).abs().max()) < 0.06


@pytest.mark.parametrize(("name", "value"), [("seconds", 0.0), ("seconds", -1.0), ("simulations", 0)])
def test_settings_that_mean_nothing_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        qgt.Calibrated(qgt.GAMP(), **{name: value})


def test_what_the_decoder_does_not_support_is_refused() -> None:
    assert isinstance(qgt.Calibrated(qgt.GAMP()).bind(dense(12, items=20)), BoundCalibrated)
    with pytest.raises(ValueError, match="60 items"):
        qgt.Calibrated(qgt.Exhaustive()).bind(dense(12, items=60))


def test_few_simulations_do_not_support_certainty_but_longer_lists_do() -> None:
    problem = dense(20, items=40)
    x, y = problem.simulate(40, generator=torch.Generator().manual_seed(5))
    bound = qgt.Calibrated(qgt.Certified(certificates=False), seconds=60.0, simulations=20).bind(problem)
    learned, result = bound.learned(), bound.decode(y)
    assert learned.claims is not None and float(learned.claims.certain) < 98 and learned.claims.most < 0.99
    unsupported = learned.applied(problem, y, result, lambda rows: torch.zeros(len(rows), dtype=torch.float64))
    assert float(unsupported.evidence.confidence.max()) < 0.99
    told = bound(y)
    sure = told.evidence.confidence >= 0.99
    assert bool(sure.any()) and bool((result.x == x).all(1)[sure].all())
    many = qgt.Calibrated(qgt.Certified(certificates=False), seconds=60.0, simulations=400).bind(problem)
    assert many.learned().claims.most == 1.0


def test_marginals_are_the_exact_posterior_on_average() -> None:
    """Against enumeration, for items that no listed answer has: lists of odds 3 leave much out."""
    problem = dense(6, items=12)
    _, y = problem.simulate(300, generator=torch.Generator().manual_seed(7))
    exact = qgt.Exhaustive().bind(problem)(y).evidence.marginals
    short = qgt.Certified(odds=3.0, certificates=False)
    ours = qgt.Calibrated(short, seconds=60.0, simulations=2000).bind(problem)(y).evidence.marginals
    listed = short.bind(problem)(y).evidence.alternatives.marginals()
    unlisted = listed == 0
    here, there = float(ours[unlisted].mean()), float(exact[unlisted].mean())
    assert there > 0.003 and abs(here - there) < 0.3 * there  # by the lists alone it would be 0
    assert abs(float((ours - exact).mean())) < 0.005


@pytest.mark.parametrize("decoder", [qgt.Certified(certificates=False), qgt.GAMP(), qgt.AMP()])
def test_items_called_negative_are_so(decoder: qgt.Decoder) -> None:
    """Of items with a probability of 1 % or less at most 1 % are defective; by the prior alone it would be 6 %."""
    problem = dense(10, items=30)
    x, y = problem.simulate(100, generator=torch.Generator().manual_seed(8))
    marginals = qgt.Calibrated(decoder, seconds=60.0, simulations=300).bind(problem)(y).evidence.marginals
    low = marginals <= 0.01
    assert int(low.sum()) > 500
    share = float(x[low].double().mean())
    assert share < 0.01 + 3 * math.sqrt(0.01 / int(low.sum()))


# Logistic regression finds the weights it was drawn from; the monotone function is the nearest that never falls.


def test_it_finds_the_chances_that_were_drawn_from() -> None:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(20_000, 3, generator=g, dtype=torch.float64) * torch.tensor([1.0, 10.0, 0.1]) + 5
    true = torch.sigmoid((x - 5) @ torch.tensor([1.0, -0.1, 0.0], dtype=torch.float64) - 1)
    fitted = Logistic.fit(x, torch.rand(20_000, generator=g) < true)
    assert float((fitted(x) - true).abs().mean()) < 0.01
    sure = Logistic.fit(x, true)  # chances tell more than yes and no
    assert float((sure(x) - true).abs().mean()) < 0.001


@pytest.mark.parametrize("answer", [False, True])
def test_where_all_are_alike_the_chance_stays_within_0_and_1(answer: bool) -> None:
    x = torch.randn(50, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    p = Logistic.fit(x, torch.full((50,), answer))(x)
    assert bool(((p > 0) & (p < 1)).all())
    assert bool((p > 0.9).all()) if answer else bool((p < 0.1).all())


def test_with_nothing_observed_it_is_the_guess() -> None:
    none = torch.zeros(0, 2, dtype=torch.float64)
    fitted = Logistic.fit(none, torch.zeros(0, dtype=torch.bool), expected=none[:, 0])
    guess = torch.tensor([0.02, 0.5, 0.9], dtype=torch.float64)
    assert fitted(torch.ones(3, 2, dtype=torch.float64), guess.logit()).tolist() == pytest.approx(guess.tolist())


def test_without_guesses_one_half_counts_as_two_observations() -> None:
    same = torch.zeros(98, 1, dtype=torch.float64)
    yes = torch.arange(98) < 20
    assert float(Logistic.fit(same, yes)(same)[0]) == pytest.approx(21 / 100)


def test_a_guess_is_corrected_by_many_observations_and_little_by_few() -> None:
    wrong = torch.tensor([0.02], dtype=torch.float64).logit()  # where one in five is a yes
    told = []
    for number in (5, 5000):
        same, yes = torch.zeros(number, 1, dtype=torch.float64), torch.arange(number) % 5 == 0
        told.append(float(Logistic.fit(same, yes, expected=wrong.expand(number))(same[:1], wrong)))
    assert 0.02 < told[0] < 0.15
    assert told[1] == pytest.approx(0.2, abs=0.002)


def test_monotone_equals_trying_every_way_to_pool() -> None:
    g = torch.Generator().manual_seed(0)
    for _ in range(20):
        yes = torch.rand(7, generator=g) < 0.5
        fitted = Monotone.fit(torch.arange(7.0, dtype=torch.float64), yes)
        best = min(_squares(yes, cuts) for n in range(7) for cuts in itertools.combinations(range(1, 7), n))
        assert _pooled(yes, fitted) == pytest.approx(best)


def _squares(yes: torch.Tensor, cuts: tuple[int, ...]) -> float:
    """Squared distances from the means of some stretches; infinite where these fall."""
    parts = torch.tensor_split(yes.double(), list(cuts))
    means = [float(part.mean()) for part in parts]
    if any(a > b for a, b in itertools.pairwise(means)):
        return float("inf")
    return sum(float((part - mean).square().sum()) for part, mean in zip(parts, means, strict=True))


def _pooled(yes: torch.Tensor, fitted: Monotone) -> float:
    """The same for the stretches that were pooled: their means, without what was added to each."""
    start, total = 0, 0.0
    for first, last in fitted.at.view(-1, 2).long().tolist():
        assert first == start
        part = yes[first : last + 1].double()
        total += float((part - part.mean()).square().sum())
        start = last + 1
    assert start == len(yes)
    return total


@pytest.mark.parametrize("values", [3, 12, 10**6])
def test_monotone_pools_neighbours_whose_shares_are_equal(values: int) -> None:
    """Each stretch counts one yes and one no more, so two stretches of equal shares are not as good as one."""
    g = torch.Generator().manual_seed(values)
    for number in (0, 1, 2, 7, 60, 300):
        score = torch.randint(values, (number,), generator=g).double()
        yes = torch.rand(number, generator=g) < 0.4
        fitted, blocks = Monotone.fit(score, yes), _blocks(score, yes)
        assert fitted.at.view(-1, 2).tolist() == [[first, last] for *_, first, last in blocks]
        share = torch.tensor([(hits + 1) / (size + 2) for hits, size, *_ in blocks], dtype=torch.float64)
        assert torch.equal(fitted.share, share.cummax(0).values.repeat_interleave(2))


def _blocks(score: torch.Tensor, yes: torch.Tensor) -> list[tuple[int, int, float, float]]:
    """Stretches by pooling neighbours in whole numbers: how many yes, of how many, the first and the last score."""
    blocks: list[tuple[int, int, float, float]] = []
    for at in score.unique().tolist():
        block = (int(yes[score == at].sum()), int((score == at).sum()), at, at)
        while blocks and blocks[-1][0] * block[1] >= block[0] * blocks[-1][1]:
            hits, size, first, _ = blocks.pop()
            block = (hits + block[0], size + block[1], first, block[3])
        blocks.append(block)
    return blocks or [(0, 0, 0.0, 0.0)]


def test_monotone_never_falls_and_is_never_certain() -> None:
    g = torch.Generator().manual_seed(0)
    score = torch.rand(500, generator=g, dtype=torch.float64)
    fitted = Monotone.fit(score, torch.rand(500, generator=g) < score)
    p = fitted(torch.linspace(-1, 2, 300, dtype=torch.float64))
    assert bool((p.diff() >= 0).all()) and float(p.min()) > 0 and float(p.max()) < 1
    assert float((fitted(score) - score).abs().mean()) < 0.1


def test_equal_scores_have_the_share_of_all_of_them() -> None:
    """In whatever order they come: three values of 4,000 scores, as instances of few and equal items have."""
    g = torch.Generator().manual_seed(5)
    score = torch.randint(3, (4000,), generator=g).double() / 3
    yes = torch.rand(4000, generator=g) < 0.2 + 0.6 * score
    fitted = Monotone.fit(score, yes)
    for value in (0.0, 1 / 3, 2 / 3):
        here = (score - value).abs() < 1e-9
        told = float(fitted(torch.tensor([value], dtype=torch.float64))[0])
        assert abs(told - float(yes[here].double().mean())) < 2e-3


# What is known already is not computed again.


@pytest.mark.parametrize("decoder", [qgt.GAMP(), qgt.Certified()])
def test_calls_and_counts_are_held_together_once(decoder: qgt.Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    g = torch.Generator().manual_seed(0)
    problem = qgt.Problem(
        qgt.Design.bernoulli(pools=12, items=20, generator=g), qgt.Bernoulli(0.1), qgt.SparseInteger(0.1, 1)
    )
    decode = qgt.Calibrated(decoder, simulations=100).bind(problem)
    decode.learned()
    seen: list[int] = []

    def counted(problem: qgt.Problem, y: Tensor, x: Tensor) -> fit.Misfit:
        seen.append(len(y))
        return misfit(problem, y, x)

    misfit = fit.misfit
    for module in (confidence, fit):
        monkeypatch.setattr(module, "misfit", counted)
    decode(problem.simulate(7, generator=g).y)
    assert seen == [7]


def test_a_limit_that_stays_is_bound_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bound, real = [], qgt.Certified.bind
    monkeypatch.setattr(qgt.Certified, "bind", lambda self, problem: bound.append(self) or real(self, problem))
    problem = small_problem()
    limited = qgt.Certified(time_limit=1e-4, certificates=False)
    within = confidence._hurried(limited, problem)
    assert within(1.0) is within(2.0)
    assert bound == [limited]
    assert within(1e-5) is not within(1.0)
