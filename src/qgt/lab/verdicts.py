"""Verdicts: how far to trust one answer, in one word that a person can act on.

    impossible  no set of defective items explains the counts
    suspect     the counts fit the model so badly that the model, the design or a count is probably wrong
    certain     the probability that the answer is right is known, and 99 % or more
    confident   the same with 90 % or more
    unsure      everything else: a search that ran out of time, or a probability that is not known

The first that applies is the verdict. All but `impossible` are given under the model: they mean nothing where the
design or the prior is wrong in a way that the counts do not show.
"""

from enum import StrEnum

from qgt.decoders.results import Status
from qgt.trust.fit import INSTANCE_ALARM

CERTAIN_FROM, CONFIDENT_FROM = 0.99, 0.9
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
            "unsure": "the answer may be wrong: retest the items that are named, or decode with more time",
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
