"""Options of decoders, given as texts."""

from dataclasses import dataclass

import pytest

import qgt
from qgt.decoders.registry import KINDS, make_decoder
from qgt.files import codec
from qgt.lab.answers.decoding import parse_settings

pytestmark = pytest.mark.usefixtures("unchecked")


def test_every_type_of_option_is_read():
    made = make_decoder("certified", {"odds": "30", "time_limit": "none", "certificates": "False"})
    assert made == qgt.Certified(odds=30.0, time_limit=None, certificates=False)
    assert make_decoder("exact", {"time_limit": "1e-3"}) == qgt.ExactMAP(time_limit=1e-3)
    assert make_decoder("gamp", {"iterations": "7"}) == qgt.GAMP(iterations=7)
    assert make_decoder("amp", {}) == qgt.AMP()


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
        ({"damping": "much"}, r"gamp\.damping='much' is not valid: give a number from 0 to 1"),
        ({"iterations": "1.5"}, "iterations='1.5' is not valid: give a whole number"),
        ({"damping": "7"}, "damping=7"),
        ({"colour": "red"}, "colour=red has no meaning for gamp: it has damping, iterations"),
    ],
)
def test_values_that_are_refused(texts, words):
    with pytest.raises(ValueError, match=words):
        make_decoder("gamp", texts)


@dataclass(frozen=True)
class Around:
    """A decoder with another one inside."""

    inner: qgt.Decoder


def test_a_part_of_a_decoder_is_given_by_its_kind():
    assert codec.decode_options("it", Around, {"inner": "gamp"}, KINDS) == Around(qgt.GAMP())
    with pytest.raises(ValueError, match=r"it\.inner\.kind='oracle' is not known: give one of amp"):
        codec.decode_options("it", Around, {"inner": "oracle"}, KINDS)


@pytest.mark.parametrize("gone", ["proposals", "hand_over", "sure", "rough"])
def test_what_certified_no_longer_takes_is_refused_with_what_it_has(gone):
    with pytest.raises(
        ValueError, match=f"{gone}=1 has no meaning for certified: it has odds, time_limit, certificates"
    ):
        make_decoder("certified", {gone: "1"})
