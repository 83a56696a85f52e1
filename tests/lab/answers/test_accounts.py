"""Accounts say what the result says, never an all-clear for a failure, and their words agree with their numbers."""

import json
from dataclasses import replace

import pytest
import torch

import qgt
from qgt.decoders.results import Answers, Decoded, Evidence, Spans, Status
from qgt.lab import wording
from qgt.lab.answers.accounts import Account, accounts, tally
from qgt.lab.verdicts import Call, Verdict

NOISE = qgt.SparseInteger(rate=0.1, bound=1)


def problem_of(rows: list[str], noise: qgt.Noise | None = None, rate: float = 0.05) -> qgt.Problem:
    pools, items = [f"tube {i}" for i in range(len(rows))], [f"Ann & {j}" for j in range(len(rows[0]))]
    return qgt.Problem(qgt.Design.from_rows(rows, pools, items), qgt.Bernoulli(rate), noise or qgt.Noiseless())


def counts(*row: float) -> torch.Tensor:
    return torch.tensor([row], dtype=torch.float64)


def account(problem: qgt.Problem, y: torch.Tensor, decoder: qgt.Decoder | None = None) -> Account:
    (one,) = accounts(problem, y, None, (decoder or qgt.Certified()).bind(problem)(y))
    return one


def by_hand(x: list[list[int]], weights: list[float], status: Status, complete: bool, fit: float | None = None):
    """A result with these answers, the first one given."""
    answers = torch.tensor(x, dtype=torch.uint8)
    weight = torch.tensor(weights, dtype=torch.float64)
    evidence = Evidence(
        complete=torch.tensor([complete]),
        confidence=weight[:1],
        unsettled=(answers != answers[0]).any(0)[None],
        alternatives=Answers(Spans(torch.tensor([len(x)])), answers, weight.log(), weight),
        fit=None if fit is None else torch.tensor([fit], dtype=torch.float64),
    )
    scores = (torch.tensor(weights, dtype=torch.float64)[:, None] * answers).sum(0)[None]
    return Decoded(answers[:1], torch.tensor([status], dtype=torch.uint8), scores, evidence)


def told(result: Decoded, problem: qgt.Problem | None = None) -> Account:
    problem = problem or problem_of(["1" * result.x.shape[1]])
    return accounts(problem, counts(1), ["one"], result)[0]


def test_verdicts_of_a_batch_and_of_none():
    problem = problem_of(["110", "011"])
    decode = qgt.Certified().bind(problem)
    y = torch.cat([counts(1, 1), counts(0, 0), counts(0, 2)])
    made = accounts(problem, y, ["a", "b", "c"], decode(y))
    assert [(one.name, one.verdict) for one in made] == [("a", "confident"), ("b", "certain"), ("c", "impossible")]
    assert accounts(problem, y[:0], [], decode(y[:0])) == []
    assert account(problem, y[:1], qgt.AMP()).verdict is Verdict.UNSURE


def test_a_certain_decode():
    one = account(problem_of(["100", "010", "001"]), counts(1, 0, 1))
    assert one.words == (
        "Positive: Ann & 0 and Ann & 2 (2 of 3 samples). The probability of this answer is over 99 %, and no other "
        "answer comes close. All 3 counts agree with this answer exactly. Nothing needs a retest."
    )
    none = account(problem_of(["100", "010", "001"]), counts(0, 0, 0))
    assert none.words.startswith("None of the 3 samples is positive.")
    assert (one.residuals, one.alternatives, one.retests, one.called(Call.NONE)) == ((), (), (), ())


def test_a_count_that_is_off_is_named():
    one = account(problem_of(["11", "11", "11", "10", "10"], NOISE), counts(2, 1, 1, 1, 1))
    said = "1 of 5 counts differs from this answer: tube 0 (counted 2, expected 1). The other 4 agree with it."
    assert said in one.words
    assert [(off.pool, off.counted, off.expected, off.off) for off in one.residuals] == [("tube 0", 2.0, 1.0, 1.0)]


def test_alternatives_are_told_by_their_difference():
    answers = [[1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]]
    one = told(by_hand(answers, [0.4, 0.3, 0.15, 0.1, 0.05], Status.PROVED, True))
    assert (one.verdict, one.confidence) == (Verdict.UNSURE, 0.4)
    assert one.words.startswith("Best answer: Ann & 0 (1 of 4 samples).")
    assert "the probability of this one is only 40 %" in one.words
    assert "Other answers: Ann & 1 instead of Ann & 0 (30 %); also Ann & 2 (15 %); without Ann & 0 (10 %)" in one.words
    assert "; and 1 more, together 5 %." in one.words
    assert one.retests[0] == "Ann & 0"  # 0.55: the most doubtful
    assert one.words.endswith("the most doubtful first: Ann & 0, Ann & 1, Ann & 2 and Ann & 3.")


@pytest.mark.parametrize("weight", [0.95, 1.0])
@pytest.mark.parametrize("status", [Status.PROVED, Status.TIME_LIMIT])
def test_an_incomplete_list_gives_no_confidence_anywhere(weight, status):
    one = told(by_hand([[1, 0], [1, 1]], [weight, 1 - weight], status, False))
    assert (one.verdict, one.confidence, one.at_most) == (Verdict.UNSURE, None, weight)
    assert (one.plain["confidence"], one.plain["confidence_at_most"]) == (None, weight)
    assert [other.probability for other in one.alternatives] == [None]
    assert "its probability is not known" in one.words and "at most over" not in one.words
    assert ("at most 95 %" in one.words) == (weight == 0.95)


def test_a_search_cut_short_says_so():
    one = told(by_hand([[1, 0], [1, 1]], [0.8, 0.2], Status.TIME_LIMIT, False))
    assert "Time ran out: this is the best answer found so far" in one.words
    assert one.words.endswith("retest the samples in doubt, the most doubtful first: Ann & 0 and Ann & 1.")
    alone = told(by_hand([[1, 0]], [1.0], Status.TIME_LIMIT, False))
    said = "No probability is known, so 1 sample is not called: decode again with more time. Retest Ann & 0."
    assert alone.words.endswith(said)


def test_a_misfit_outranks_certainty():
    one = told(by_hand([[1, 0]], [1.0], Status.PROVED, True, fit=2e-4))
    assert (one.verdict, one.fit) == (Verdict.SUSPECT, 2e-4)
    assert one.words.startswith("Best answer: Ann & 0 (1 of 2 samples). Do not trust this answer: the counts do not")
    assert "p = 0.0002" in one.words and "over 99 %" not in one.words and "retest" not in one.words
    fine = told(by_hand([[1, 0]], [1.0], Status.PROVED, True, fit=0.5))
    assert (fine.verdict, fine.fit) == (Verdict.CERTAIN, 0.5)
    assert told(by_hand([[1, 0]], [1.0], Status.PROVED, True, fit=float("nan"))).fit is None


@pytest.mark.parametrize("known", ["confidence", "log_joint"])
def test_time_that_ran_out_before_any_answer_is_no_all_clear(known):
    evidence = {
        "confidence": Evidence(complete=torch.tensor([False]), confidence=torch.zeros(1, dtype=torch.float64)),
        "log_joint": Evidence(log_joint=torch.tensor([-torch.inf], dtype=torch.float64)),
    }[known]
    status = torch.tensor([Status.TIME_LIMIT], dtype=torch.uint8)
    one = told(Decoded(torch.zeros(1, 2, dtype=torch.uint8), status, None, evidence))
    assert one.words.startswith("Time ran out before any possible answer was found, so no sample is called.")
    assert (one.verdict, one.answer, one.called(Call.NONE)) == (Verdict.UNSURE, (), ("Ann & 0", "Ann & 1"))
    assert (one.confidence, one.at_most) == (None, None)


def test_impossible_counts_name_the_pools_to_count_again():
    alone = account(problem_of(["110", "011"], NOISE), counts(9, 1))
    assert alone.words == (
        "No set of positive samples explains these counts, so no sample is called. 1 of 2 counts is impossible "
        "whatever the others are: tube 0 (counted 9, of 2 samples). Count there again, or check the design."
    )
    together = account(problem_of(["11", "11"]), counts(1, 2))
    assert "together they contradict each other. The model says that counts are never off" in together.words
    noisy = account(problem_of(["1" * 9, "1" * 9], NOISE), counts(1, 8))
    assert noisy.words.endswith("together they contradict each other.")


@pytest.mark.parametrize("decoder", ["certified", "exact", "linear_program", "amp", "gamp", "exhaustive", "prevalence"])
def test_impossible_counts_are_no_all_clear(decoder):
    one = account(problem_of(["110", "011"]), counts(7, 0), qgt.DECODERS[decoder]())
    assert one.verdict is Verdict.IMPOSSIBLE
    assert (one.answer, one.called(Call.NONE)) == ((), ("Ann & 0", "Ann & 1", "Ann & 2"))
    assert (one.confidence, one.at_most, one.residuals) == (None, None, ())


def test_impossible_counts_call_nobody_whatever_the_evidence_settles():
    one = told(by_hand([[1, 0, 0], [1, 1, 0]], [0.5, 0.5], Status.INFEASIBLE, True))
    assert (one.answer, one.called(Call.NONE)) == ((), ("Ann & 0", "Ann & 1", "Ann & 2"))


def calls(one: Account) -> list[str]:
    return [str(each.call) for each in one.calls]


def test_samples_on_which_the_answers_of_an_unsure_plate_differ_are_retested_whatever_their_probability():
    answers = [[1, 0, 0, 1], [0, 1, 0, 1], [1, 0, 1, 1]]
    one = told(by_hand(answers, [0.5, 0.496, 0.004], Status.PROVED, True))
    assert (one.verdict, calls(one)) == (Verdict.UNSURE, ["retest", "retest", "retest", "positive"])
    assert [each.probability for each in one.calls] == pytest.approx([0.504, 0.496, 0.004, 1.0])
    assert one.retests == ("Ann & 0", "Ann & 1", "Ann & 2")


def test_a_probability_of_more_than_one_per_cent_is_never_negative():
    one = told(by_hand([[1, 0, 0], [1, 1, 0], [1, 0, 1]], [0.975, 0.0125, 0.0075], Status.PROVED, True))
    assert (one.verdict, calls(one)) == (Verdict.CONFIDENT, ["positive", "retest", "negative"])


def test_what_no_listed_answer_explains_counts_for_every_sample():
    """A tenth of the probability is not listed: by the prior each sample has a twentieth of that."""
    one = told(by_hand([[1, 0, 0]], [0.9], Status.PROVED, True))
    assert [each.probability for each in one.calls] == pytest.approx([0.905, 0.005, 0.005])
    (far,) = accounts(
        problem_of(["1" * 3], rate=0.2), counts(1), None, by_hand([[1, 0, 0]], [0.9], Status.PROVED, True)
    )
    assert (far.verdict, calls(far)) == (Verdict.CONFIDENT, ["positive", "retest", "retest"])


def test_a_suspect_plate_calls_nobody_positive_or_negative():
    one = told(by_hand([[1, 0], [1, 1]], [0.995, 0.005], Status.PROVED, True, fit=1e-6))
    assert (one.verdict, calls(one)) == (Verdict.SUSPECT, ["retest", "none"])
    assert {each.probability for each in one.calls} == {None}


def test_without_a_probability_nobody_is_negative():
    problem = problem_of(["100", "010", "001"])
    for decoder in (qgt.ExactMAP(), qgt.AMP(), qgt.Certified(odds=1.0)):
        assert calls(account(problem, counts(1, 0, 0), decoder)) == ["retest", "none", "none"]
    assert calls(account(problem, counts(1, 0, 0), qgt.Exhaustive())) == ["positive", "negative", "negative"]


def test_answers_beyond_a_hundred_are_counted_and_not_named():
    answers = [[0] * 150] + [[int(i == j) for j in range(150)] for i in range(149)]
    one = told(by_hand(answers, [1 / 150] * 150, Status.PROVED, True))
    assert (len(one.alternatives), one.more.number) == (100, 49)
    assert one.more.probability == pytest.approx(49 / 150)
    assert "and 146 more, together 97 %" in one.words and one.plain["alternatives_left_out"] == 49


def test_counts_that_are_not_whole_are_told_to_be_rounded():
    one = account(problem_of(["110", "011"], qgt.RoundedGaussian(0.3)), counts(0.98, 1))
    assert "These counts are not whole numbers: round them, or use a noise for real-valued counts." in one.words
    assert "tube 0 (counted 0.98)" in one.words and "tube 1" not in one.words


def test_decoders_that_list_no_answers_get_words_too():
    problem = problem_of(["100", "010", "001"])
    assert "No other answer is more probable. Its probability is not known." in (
        account(problem, counts(1, 0, 0), qgt.ExactMAP()).words
    )
    assert account(problem, counts(1, 0, 0), qgt.ExactMAP()).verdict is Verdict.UNSURE
    assert "The decoder makes no claim" in account(problem, counts(1, 0, 0), qgt.Prevalence()).words
    assert account(problem, counts(1, 0, 0), qgt.Exhaustive()).verdict is Verdict.CERTAIN  # it lists all there is


def test_accounts_of_simulated_decodes_agree_with_the_result():
    g = torch.Generator().manual_seed(3)
    problem = qgt.Problem(qgt.Design.bernoulli(pools=8, items=20, generator=g), qgt.Bernoulli(0.1), NOISE)
    y = problem.simulate(60, generator=g).y
    result = qgt.Certified().bind(problem)(y)
    made = accounts(problem, y, None, result)
    assert {"certain", "confident", "unsure"} <= {one.verdict for one in made}
    names = problem.design.item_names
    for i, one in enumerate(made):
        listed = result.evidence.alternatives.of_instance(i)
        assert one.name == str(i + 1)
        assert one.answer == tuple(names[j] for j in result.x[i].nonzero().flatten().tolist())
        assert one.confidence == float(result.evidence.confidence[i])
        for other, x in zip(one.alternatives, listed.x[1:], strict=True):
            changed = set(one.answer) - set(other.dropped) | set(other.added)
            assert changed == {names[j] for j in x.nonzero().flatten().tolist()}
        off = (y[i] != problem.design.count(result.x)[i]).nonzero().flatten().tolist()
        assert [residual.pool for residual in one.residuals] == [problem.design.pool_names[j] for j in off]
        unsettled = {names[j] for j in result.evidence.unsettled[i].nonzero().flatten().tolist()}
        assert set(one.retests) == unsettled if one.verdict is Verdict.UNSURE else set(one.retests) <= unsettled
        for each in one.calls:
            assert each.call is not Call.NEGATIVE or each.probability <= 0.01
            assert each.call is not Call.POSITIVE or each.probability >= 0.9
        assert 2 <= one.words.count(". ") + 1 <= 7
        assert json.loads(json.dumps(one.plain, allow_nan=False)) == one.plain


def test_a_tally_counts_every_instance_once():
    made = [told(by_hand([[1, 0]], [1.0], Status.PROVED, True))] * 3
    made += [told(by_hand([[1, 0], [0, 1]], [0.5, 0.5], Status.PROVED, True))]
    assert tally(made, [True, False, True, True]) == {Verdict.CERTAIN: (3, 2), Verdict.UNSURE: (1, 1)}


def test_a_missing_count_fits_anything():
    result = by_hand([[1, 0]], [1.0], Status.PROVED, True)
    problem = problem_of(["11", "10"])
    (one,) = accounts(problem, counts(float("nan"), 1), None, result)
    assert one.residuals == () and "The count agrees with this answer exactly." in one.words


def test_accounts_want_names_counts_and_results_of_the_same_instances():
    problem = problem_of(["100", "010", "001"])
    y = torch.zeros(2, 3, dtype=torch.float64)
    result = qgt.Certified().bind(problem)(y)
    for given, names in ((y, ["a"]), (y[:1], None)):
        with pytest.raises(ValueError, match="give one of each"):
            qgt.accounts(problem, given, names, result)


def test_no_other_comes_close_only_where_others_are_listed():
    """A decoder that proves its answer and lists no others knows nothing of them."""
    problem = problem_of(["100", "010", "001"])
    y = torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64)
    result = qgt.ExactMAP().bind(problem)(y)
    sure = replace(result.evidence, confidence=torch.tensor([0.92], dtype=torch.float64))
    assert (
        "The probability of this answer is 92 %." in accounts(problem, y, None, replace(result, evidence=sure))[0].words
    )
    assert "no other answer comes close" in accounts(problem, y, None, qgt.Certified().bind(problem)(y))[0].words


def test_a_gap_is_said_in_times():
    g = torch.Generator().manual_seed(0)
    design = qgt.Design.bernoulli(pools=14, items=100, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.1), qgt.SparseInteger(0.1, 1))
    y = problem.simulate(1, generator=g).y
    result = qgt.Certified(memory=0.001).bind(problem)(y)
    assert int(result.status[0]) == qgt.Status.TIME_LIMIT
    (one,) = qgt.accounts(problem, y, ["A"], result)
    assert wording.gap_words(float(result.evidence.gap[0])) in one.words
    assert wording.gap_words(3.0).endswith("up to 20 times as probable.")


def test_a_search_that_did_not_end_calls_nobody_negative():
    """The plate has more positives than the model expects, and the search stops early: nobody knows who is negative."""
    g = torch.Generator().manual_seed(0)
    design = qgt.Design.column_regular(pools=17, items=96, weight=4, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.02), qgt.SparseInteger(0.02, 1))
    order = torch.rand(20, 96, generator=g).argsort(1)
    truth = torch.zeros(20, 96, dtype=torch.uint8).scatter_(1, order[:, :9], 1)  # nine positives; two are expected
    y = design.count(truth)
    result = qgt.Calibrated(qgt.Certified(memory=0.001), simulations=200).bind(problem)(y)
    late = (result.status == qgt.Status.TIME_LIMIT).nonzero().flatten().tolist()
    assert len(late) >= 15
    made = qgt.accounts(problem, y, None, result)
    for one in (made[i] for i in late):
        assert str(one.verdict) == "unsure"
        assert {str(each.call) for each in one.calls} <= {"none", "retest"}
        assert {each.probability for each in one.calls} == {None}
