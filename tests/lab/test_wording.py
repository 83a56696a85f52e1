"""Verdicts follow their definitions, and the words say what the numbers say, with the design's own names."""

import math

import pytest
import torch

import qgt
from qgt.decoders.results import Answers, Decoded, Evidence, Spans, Status
from qgt.lab.wording import in_words, joined, percent, residuals, to_retest, verdict, verdicts

NOISE = qgt.SparseInteger(rate=0.1, bound=1)


def problem_of(rows: list[str], noise: qgt.Noise | None = None, rate: float = 0.05) -> qgt.Problem:
    pools, items = [f"tube {i}" for i in range(len(rows))], [f"Ann & {j}" for j in range(len(rows[0]))]
    return qgt.Problem(qgt.Design.from_rows(rows, pools, items), qgt.Bernoulli(rate), noise or qgt.Noiseless())


def counts(*row: float) -> torch.Tensor:
    return torch.tensor([row], dtype=torch.float64)


def words(problem: qgt.Problem, y: torch.Tensor, decoder: qgt.Decoder | None = None) -> str:
    return in_words(problem, y[0], (decoder or qgt.Certified()).bind(problem)(y), 0)


def by_hand(x: list[list[int]], weights: list[float], status: Status, complete: bool) -> Decoded:
    """A result with these answers, the first one given."""
    answers = torch.tensor(x, dtype=torch.uint8)
    weight = torch.tensor(weights, dtype=torch.float64)
    evidence = Evidence(
        complete=torch.tensor([complete]),
        confidence=weight[:1],
        unsettled=(answers != answers[0]).any(0)[None],
        alternatives=Answers(Spans(torch.tensor([len(x)])), answers, weight.log(), weight),
    )
    scores = (torch.tensor(weights, dtype=torch.float64)[:, None] * answers).sum(0)[None]
    return Decoded(answers[:1], torch.tensor([status], dtype=torch.uint8), scores, evidence)


@pytest.mark.parametrize(
    ("status", "confidence", "complete", "said"),
    [
        (Status.PROVED, 1.0, True, "proved"),
        (Status.PROVED, 0.99, True, "proved"),
        (Status.PROVED, 0.9899, True, "confident"),
        (Status.PROVED, 1.0, False, "confident"),
        (Status.PROVED, 0.9, True, "confident"),
        (Status.PROVED, 0.8999, True, "unsure"),
        (Status.PROVED, math.nan, False, "unsure"),
        (Status.TIME_LIMIT, 1.0, True, "unsure"),
        (Status.NOT_CONVERGED, math.nan, False, "unsure"),
        (Status.OK, 1.0, True, "unsure"),
        (Status.INFEASIBLE, 1.0, True, "impossible"),
    ],
)
def test_verdict(status, confidence, complete, said):
    assert verdict(status, confidence, complete) == said


def test_verdicts_of_a_batch_and_of_none():
    problem = problem_of(["110", "011"])
    decode = qgt.Certified().bind(problem)
    y = torch.cat([counts(1, 1), counts(0, 0), counts(0, 2)])
    assert verdicts(decode(y)) == ["confident", "proved", "impossible"]
    assert verdicts(decode(y[:0])) == []
    assert verdicts(qgt.AMP().bind(problem)(y[:1])) == ["unsure"]


def test_a_proved_decode():
    said = words(problem_of(["100", "010", "001"]), counts(1, 0, 1))
    assert said == (
        "Defective: Ann & 0 and Ann & 2 (2 of 3 items). This is proved to be the most probable answer, and no other "
        "comes near it: over 99 %. All 3 counts are explained exactly. Nothing needs a retest."
    )
    assert words(problem_of(["100", "010", "001"]), counts(0, 0, 0)).startswith("None of the 3 items is defective.")


def test_a_count_that_is_off_is_named():
    problem = problem_of(["11", "11", "11", "10", "10"], NOISE)
    y = counts(2, 1, 1, 1, 1)
    said = words(problem, y)
    assert "It takes 1 of 5 counts to be off: tube 0 (counted 2, expected 1); the other 4 fit exactly." in said
    (one,) = residuals(problem, y[0], torch.tensor([1, 0], dtype=torch.uint8))
    assert (one.pool, one.off) == ("tube 0", 1.0)


def test_alternatives_are_told_by_their_difference():
    problem = problem_of(["1111"])
    answers = [[1, 0, 0, 0], [0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]]
    result = by_hand(answers, [0.4, 0.3, 0.15, 0.1, 0.05], Status.PROVED, True)
    said = in_words(problem, counts(1)[0], result, 0)
    assert "with a confidence of 40 %" in said
    assert "The alternatives: Ann & 1 instead of Ann & 0 (30 %); also Ann & 2 (15 %); without Ann & 0 (10 %)" in said
    assert "; and 1 more, together 5 %." in said
    assert to_retest(problem, result, 0)[0] == "Ann & 0"  # 0.55: the most doubtful
    assert said.endswith("the most doubtful first: Ann & 0, Ann & 1, Ann & 2 and Ann & 3.")
    assert 2 <= said.count(". ") + 1 <= 6


def test_a_search_cut_short_says_so():
    problem = problem_of(["11"])
    some = by_hand([[1, 0], [1, 1]], [0.8, 0.2], Status.TIME_LIMIT, False)
    said = in_words(problem, counts(1)[0], some, 0)
    assert (
        "Time ran out before a proof: this is the best answer found so far, with a confidence of at most 80 %" in said
    )
    assert said.endswith("To settle it, retest Ann & 1, the one item on which the answers differ.")
    alone = by_hand([[1, 0]], [1.0], Status.TIME_LIMIT, False)
    assert in_words(problem, counts(1)[0], alone, 0).endswith("Decode again with more time.")
    cut = by_hand([[1, 0], [1, 1]], [0.95, 0.05], Status.PROVED, False)
    assert "proved to be the most probable answer, with a confidence of at most 95 %" in in_words(
        problem, counts(1)[0], cut, 0
    )


def test_time_that_ran_out_before_any_answer():
    problem = problem_of(["11"])
    empty = torch.zeros(0, 2, dtype=torch.uint8)
    none = torch.zeros(0, dtype=torch.float64)
    evidence = Evidence(
        complete=torch.tensor([False]),
        confidence=torch.zeros(1, dtype=torch.float64),
        alternatives=Answers(Spans(torch.tensor([0])), empty, none, none),
    )
    nothing = Decoded(torch.zeros(1, 2, dtype=torch.uint8), torch.tensor([3], dtype=torch.uint8), None, evidence)
    assert in_words(problem, counts(1)[0], nothing, 0).startswith("Time ran out before any possible answer was found.")


def test_impossible_counts_name_the_pools_to_count_again():
    alone = words(problem_of(["110", "011"], NOISE), counts(9, 1))
    assert alone.endswith("Impossible whatever the others say: tube 0 (counted 9, of 2 items). Count there again.")
    together = words(problem_of(["11", "11"]), counts(1, 2))
    assert together.startswith("Impossible:")
    assert together.endswith("together they contradict each other.")


def test_decoders_that_list_no_answers_get_words_too():
    problem = problem_of(["100", "010", "001"])
    proved = words(problem, counts(1, 0, 0), qgt.ExactMAP())
    assert "proved to be the most probable answer; how probable it is was not computed." in proved
    assert "not computed." in words(problem, counts(1, 0, 0), qgt.Certified(odds=1.0))
    assert "Nothing is proved: decoded; the decoder makes no claim" in words(problem, counts(1, 0, 0), qgt.Prevalence())


def test_every_simulated_decode_has_two_to_six_sentences():
    g = torch.Generator().manual_seed(3)
    problem = qgt.Problem(qgt.Design.bernoulli(pools=8, items=20, generator=g), qgt.Bernoulli(0.1), NOISE)
    y = problem.simulate(40, generator=g).y
    result = qgt.Certified().bind(problem)(y)
    assert {"confident", "unsure"} <= set(verdicts(result))
    for i in range(len(y)):
        assert 2 <= in_words(problem, y[i], result, i).count(". ") + 1 <= 6


def test_percent_rounds_down_and_keeps_off_the_ends():
    given = [0.0, 0.009, 0.01, 0.29, 0.9899, 0.99, 0.995, 1.0, math.nan]
    assert [percent(p) for p in given] == [
        *("under 1 %", "under 1 %", "1 %", "29 %", "98 %", "99 %", "over 99 %", "over 99 %", "unknown")
    ]


def test_joined():
    assert [joined(list("abcd")[:n], most=2) for n in range(5)] == [
        *("", "a", "a and b", "a, b and 1 other", "a, b and 2 others")
    ]
