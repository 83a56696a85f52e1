"""The public conformance suite for decoders: `qgt.testing.check_decoder(decoder)`.

Here live the checks that every decoder must pass, ours or a stranger's, each with a name.
Tests of particular decoders belong to the project's own tests.
"""

from qgt.testing import answers, edges  # importing them fills CHECKS
from qgt.testing.suite import CHECKS, Conformance, ConformanceError, check_decoder

__all__ = ["CHECKS", "Conformance", "ConformanceError", "answers", "check_decoder", "edges"]
