"""Verdicts and calls: how far to trust one answer, and what to report for each sample, in words to act on.

    impossible  no set of positive samples explains the counts
    suspect     the counts fit the model so badly that the model, the design or a count is probably wrong
    certain     the probability that the answer is right is known, and 99 % or more
    confident   the same with 90 % or more
    unsure      everything else: a search that ran out of time, or a probability that is not known

The first that applies is the verdict. All but `impossible` are given under the model: they mean nothing where the
design or the prior is wrong in a way that the counts do not show.

A verdict is about a whole plate, a call about one sample:

    positive    the sample is positive with a probability of 90 % or more
    negative    the sample is positive with a probability of 1 % or less
    retest      something in between; or the answers of an unsure plate differ on the sample; or the best answer has it
                as positive, but that answer is not to be trusted
    none        nothing is known: the plate is impossible or suspect, the search or its list of answers did not end, or
                no probability was measured

A sample with copies or in a category is positive where the number of copies, or the category, of the best answer has a
probability of 90 % or more. Where only that is open, which one it is, the sample is tested again.

This is the one rule for calls. Every file, page and screen shows what it gives.
"""

from enum import StrEnum

from qgt.decoders.results import Status
from qgt.trust.confidence import CERTAIN
from qgt.trust.fit import INSTANCE_ALARM

CERTAIN_FROM, CONFIDENT_FROM = CERTAIN, 0.9
POSITIVE_FROM, NEGATIVE_TO = 0.9, 0.01  # probabilities that a sample is positive
SUSPECT_BELOW = INSTANCE_ALARM  # p-value of the fit: so rarely is an instance of the model itself called suspect


class Verdict(StrEnum):
    """How far to trust one answer; the order is the one to act in.

    Example:
        >>> Verdict("unsure"), Verdict.SUSPECT.meaning
        (<Verdict.UNSURE: 'unsure'>, 'the counts do not fit the model: check the counts, the design and the noise')
    """

    IMPOSSIBLE = "impossible"
    SUSPECT = "suspect"
    UNSURE = "unsure"
    CONFIDENT = "confident"
    CERTAIN = "certain"

    @property
    def meaning(self) -> str:
        """The verdict in words."""
        return {
            "impossible": "no answer explains the counts: a count, the design or the noise is wrong; nothing is called",
            "suspect": "the counts do not fit the model: check the counts, the design and the noise",
            "unsure": "the answer may be wrong: retest the samples that are named, or decode with more time",
            "confident": "the most probable answer, with a probability of 90 % or more",
            "certain": "the most probable answer, with a probability of 99 % or more",
        }[self.value]


def verdict(status: Status, confidence: float | None, fit: float | None = None) -> Verdict:
    """The verdict on an answer.

    Args:
        status: What the decoder proved.
        confidence: The answer's probability; None where it is not known, as with an incomplete list of answers.
        fit: The p-value of the counts' fit to the model; None where it is not known.

    Example:
        >>> str(verdict(Status.PROVED, 0.97)), str(verdict(Status.PROVED, None)), str(verdict(Status.PROVED, 1.0, 1e-9))
        ('confident', 'unsure', 'suspect')
    """
    if status == Status.INFEASIBLE:
        return Verdict.IMPOSSIBLE
    # An answer that a search was still improving says nothing of the model.
    if fit is not None and fit < SUSPECT_BELOW and status != Status.TIME_LIMIT:
        return Verdict.SUSPECT
    finished = status in (Status.PROVED, Status.OK)
    if not finished or confidence is None or not confidence >= CONFIDENT_FROM:
        return Verdict.UNSURE
    return Verdict.CERTAIN if confidence >= CERTAIN_FROM else Verdict.CONFIDENT


class Call(StrEnum):
    """What to report for one sample.

    Example:
        >>> Call("retest"), Call.NONE.sign
        (<Call.RETEST: 'retest'>, '/')
    """

    POSITIVE = "positive"
    RETEST = "retest"
    NONE = "none"
    NEGATIVE = "negative"

    @property
    def sign(self) -> str:
        """What is seen where colours are not."""
        return {"positive": "+", "retest": "?", "none": "/", "negative": "\N{MIDDLE DOT}"}[self.value]

    @property
    def words(self) -> str:
        """What is read aloud."""
        return {"retest": "test again", "none": "no call"}.get(self.value, self.value)

    @property
    def cell(self) -> str:
        """The cell of a table of calls: 1, 0, or empty where nothing is decided."""
        return {"positive": "1", "negative": "0"}.get(self.value, "")


def call(
    word: Verdict, probability: float | None, *, answered: bool, differs: bool, value: float | None = None
) -> Call:
    """The call of one sample.

    Args:
        word: The verdict on its plate.
        probability: That the sample is positive; None where it is not known.
        answered: Whether it is positive in the best answer.
        differs: Whether the answers listed differ on it.
        value: That it has the copies, or the category, that the best answer gives it, 0 where that is negative; None
            where samples are only positive or negative.

    Example:
        >>> for word in (Verdict.CERTAIN, Verdict.UNSURE, Verdict.SUSPECT):
        ...     print(word, [str(call(word, p, answered=p > 0.5, differs=0.01 < p < 0.99)) for p in (0.001, 0.4, 0.95)])
        certain ['negative', 'retest', 'positive']
        unsure ['negative', 'retest', 'retest']
        suspect ['none', 'none', 'retest']
    """
    if word is Verdict.IMPOSSIBLE:
        return Call.NONE
    if word is Verdict.SUSPECT or probability is None:
        return Call.RETEST if answered or (differs and word is not Verdict.SUSPECT) else Call.NONE
    if word is Verdict.UNSURE and differs:
        return Call.RETEST
    if probability <= NEGATIVE_TO:
        return Call.NEGATIVE
    return Call.POSITIVE if (probability if value is None else value) >= POSITIVE_FROM else Call.RETEST
