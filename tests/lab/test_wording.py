"""Sentences say what the numbers say, and names of any kind keep them clear."""

import pytest

from qgt.decoders.results import Status
from qgt.lab import wording
from qgt.lab.verdicts import Verdict
from qgt.lab.wording import Alternative, Residual, in_one_phrase, percent, quoted


def test_percent_rounds_down_and_keeps_off_the_ends():
    given = [0.0, 0.009, 0.01, 0.29, 0.9899, 0.99, 0.995, 1.0]
    assert [percent(p) for p in given] == [
        *("under 1 %", "under 1 %", "1 %", "29 %", "98 %", "99 %", "over 99 %", "over 99 %")
    ]


def test_joined():
    assert [in_one_phrase(list("abcd")[:n], most=2) for n in range(5)] == [
        *("", "a", "a and b", "a, b and 1 other", "a, b and 2 others")
    ]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("A1", "A1"),
        ("Ann & 2 (left)", "Ann & 2 (left)"),
        ("Ångström", "Ångström"),
        ("sandy", "sandy"),
        ("a, b", '"a, b"'),
        ("a; b", '"a; b"'),
        ("salt and pepper", '"salt and pepper"'),
        ('say "x"', r'"say \"x\""'),
        ("\x1b[31mred", r'"\u001b[31mred"'),
        ("two\nlines", r'"two\nlines"'),
        ("right\u202eleft", r'"right\u202eleft"'),
    ],
)
def test_a_name_that_would_blur_a_sentence_is_quoted(name, text):
    assert quoted(name) == text
    assert quoted(name).isprintable()


@pytest.mark.parametrize("at_most", [0.995, 1.0, None])
def test_a_bound_that_says_nothing_is_not_said(at_most):
    for status in (Status.PROVED, Status.TIME_LIMIT):
        said = wording.standing(status, Verdict.UNSURE, None, at_most, alone=False)
        assert "probability is not known" in said and "at most" not in said


def test_a_bound_is_said_as_one():
    said = wording.standing(Status.PROVED, Verdict.UNSURE, None, 0.95, alone=False)
    assert said == (
        "No other answer is more probable. Not all that come close are listed: "
        "its probability is not known, but it is at most 95 %."
    )


def test_a_bound_below_one_per_cent_is_said_in_plain_words():
    said = wording.standing(Status.TIME_LIMIT, Verdict.UNSURE, None, 0.004, alone=False)
    assert said.endswith("and its probability is not known, but it is under 1 %.")


def test_real_valued_counts_are_told_by_how_far_they_are_off():
    off = [Residual("P1", 1.1, 1.0), Residual("P2", 2.5, 3.0)]
    said = wording.explained_words(off, 4, whole=False)
    assert said == "The counts differ from this answer by 0.15 on average, most in P2 (counted 2.5, expected 3)."


def test_counts_that_differ_are_named_up_to_six():
    off = [Residual(f"P{i}", 1.0, 0.0) for i in range(8)]
    said = wording.explained_words(off, 9, whole=True)
    assert said.startswith("8 of 9 counts differ from this answer: P0 (counted 1, expected 0), ")
    assert said.endswith("and 2 others. The other one agrees with it.")
    assert wording.explained_words(off, 8, whole=True).endswith("2 others.")


def test_alternatives_without_probabilities():
    others = [Alternative(None, ("a",), ()), *[Alternative(None, (), ("b",))] * 4]
    assert wording.others(others) == "Other answers: also a; without b; without b; and 2 more."


def test_no_sentence_uses_the_statuss_word_for_a_verdict():
    for status in (Status.PROVED, Status.TIME_LIMIT, Status.OK):
        for word in (Verdict.UNSURE, Verdict.CONFIDENT, Verdict.CERTAIN):
            for number in (0.95, None):
                said = wording.standing(status, word, number, None if number else 0.5, alone=True)
                assert "proved" not in said.lower() and said.endswith(".")


def test_a_probability_that_was_measured_is_said_though_nothing_is_proved():
    said = [wording.standing(Status.OK, word, 0.95, None, alone=True) for word in (Verdict.CONFIDENT, Verdict.UNSURE)]
    assert said == ["The probability of this answer is 95 %.", "The probability of this answer is only 95 %."]


def test_what_no_listed_answer_has_is_not_always_a_wrong_count():
    """With many counts missing, much weight lies on answers that are not listed, and every count agrees."""
    others = [wording.Alternative(0.05, ("I7",), ())]
    assert "Count again" not in wording.unlisted_words(0.7, others, fits=True)
    assert "Count again" in wording.unlisted_words(0.7, others, fits=False)
    assert wording.unlisted_words(0.93, others, fits=True) == ""
