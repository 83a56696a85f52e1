"""What tests of several files need."""

import jaxtyping
import pytest


@pytest.fixture
def unchecked():
    """The library as users run it, without the test run's type checks, which would answer before ours do."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
