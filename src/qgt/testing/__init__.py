"""The public conformance suites: `qgt.testing.check_decoder`, `check_prior` and `check_noise`.

This room has the checks that every decoder, prior and noise must pass, ours or yours, each with a name; tests of
particular ones belong to the project's own tests. Read `suite`, then `checks` (decoders) and `parts` (priors and
noises).
"""

from qgt.testing import checks  # importing them fills CHECKS
from qgt.testing.parts import NOISE_CHECKS, PRIOR_CHECKS, check_noise, check_prior
from qgt.testing.suite import CHECKS, Conformance, ConformanceError, check_decoder

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
