"""The public conformance suites: `qgt.testing.check_decoder`, `check_prior` and `check_noise`.

This room has the checks that every decoder, prior and noise must pass, ours or yours, each with a name; tests of
particular ones belong to the project's own tests. Read `checks` (decoders), then `parts` (priors and noises).
"""

from qgt.testing import checks
from qgt.testing.checks import CHECKS, Conformance, ConformanceError, check_decoder
from qgt.testing.parts import NOISE_CHECKS, PRIOR_CHECKS, check_noise, check_prior

__all__ = [
    "CHECKS",
    "NOISE_CHECKS",
    "PRIOR_CHECKS",
    "Conformance",
    "ConformanceError",
    "check_decoder",
    "check_noise",
    "check_prior",
    "checks",
]
