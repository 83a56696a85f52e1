"""The public conformance suite for decoders: `qgt.testing.check_decoder(decoder)`."""

from qgt.testing import answers, edges  # importing them fills CHECKS
from qgt.testing.suite import CHECKS, Conformance, ConformanceError, check_decoder

__all__ = ["CHECKS", "Conformance", "ConformanceError", "answers", "check_decoder", "edges"]
