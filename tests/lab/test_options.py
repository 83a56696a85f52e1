"""Options of decoders, given as texts."""

import pytest

import qgt
from qgt.lab.options import parse_settings, with_options


def test_every_type_of_option_is_read():
    made = with_options("certified", qgt.Certified, {"odds": "30", "time_limit": "none", "certificates": "False"})
    assert made == qgt.Certified(odds=30.0, time_limit=None, certificates=False)
    assert with_options("exact", qgt.ExactMAP, {"time_limit": "1e-3"}) == qgt.ExactMAP(time_limit=1e-3)
    assert with_options("gamp", qgt.GAMP, {"iterations": "7"}) == qgt.GAMP(iterations=7)
    assert with_options("amp", qgt.AMP, {}) == qgt.AMP()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["damping"], "set='damping' is not valid: give name=value"),
        (["=3"], "set='=3' is not valid"),
        (["amp.damping=1"], "is for amp, but the decoder is gamp"),
        (["damping=1", "gamp.damping=2"], "gives damping twice"),
    ],
)
def test_settings_that_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        parse_settings("gamp", settings)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({"damping": "much"}, "damping='much' is not valid: give a number"),
        ({"iterations": "1.5"}, "iterations='1.5' is not valid: give a whole number"),
        ({"damping": "7"}, "damping=7"),
        ({"colour": "red"}, "colour=red has no meaning for gamp: it has damping, iterations"),
    ],
)
def test_values_that_are_refused(texts, words):
    with pytest.raises(ValueError, match=words):
        with_options("gamp", qgt.GAMP, texts)


def test_a_part_of_a_decoder_cannot_be_given_as_text():
    with pytest.raises(ValueError, match="proposals='gamp' is not valid: give none"):
        with_options("certified", qgt.Certified, {"proposals": "gamp"})
