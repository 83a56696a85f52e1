"""Verdicts follow their definitions, at every edge."""

import pytest

from qgt.decoders.results import Status
from qgt.lab.verdicts import SUSPECT_BELOW, Verdict, verdict


@pytest.mark.parametrize(
    ("status", "confidence", "fit", "word"),
    [
        (Status.PROVED, 1.0, None, "certain"),
        (Status.PROVED, 0.99, 1.0, "certain"),
        (Status.PROVED, 0.9899, None, "confident"),
        (Status.PROVED, 0.9, None, "confident"),
        (Status.PROVED, 0.8999, None, "unsure"),
        (Status.PROVED, None, None, "unsure"),  # the list is incomplete, or nothing was computed
        (Status.TIME_LIMIT, 1.0, None, "unsure"),
        (Status.NOT_CONVERGED, None, None, "unsure"),
        (Status.OK, 1.0, 1.0, "certain"),  # its probability was measured by simulation
        (Status.PROVED, 1.0, SUSPECT_BELOW, "certain"),
        (Status.PROVED, 1.0, 0.999 * SUSPECT_BELOW, "suspect"),
        (Status.PROVED, 0.95, 0.0, "suspect"),
        (Status.OK, None, 0.0, "suspect"),
        (Status.INFEASIBLE, 1.0, 0.0, "impossible"),
    ],
)
def test_verdict(status, confidence, fit, word):
    assert verdict(status, confidence, fit) is Verdict(word)


def test_no_meaning_uses_the_statuss_word():
    meanings = [word.meaning for word in Verdict]
    assert len(set(meanings)) == len(Verdict)
    assert not any("proved" in text.lower() for text in [*meanings, *Verdict])
