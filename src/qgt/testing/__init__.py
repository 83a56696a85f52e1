"""The public conformance suites: `qgt.testing.check_decoder`, `check_prior` and `check_noise`.

Here live the checks that every decoder, prior and noise must pass, ours or a stranger's, each with a name.
Tests of particular ones belong to the project's own tests.
"""

from qgt.testing import answers, edges  # importing them fills CHECKS
from qgt.testing.parts import NOISE_CHECKS, PRIOR_CHECKS, check_noise, check_prior
from qgt.testing.suite import CHECKS, Conformance, ConformanceError, check_decoder

__all__ = [
    "CHECKS",
    "NOISE_CHECKS",
    "PRIOR_CHECKS",
    "Conformance",
    "ConformanceError",
    "answers",
    "check_decoder",
    "check_noise",
    "check_prior",
    "edges",
]
