"""A server for tests: a folder and a queue of its own, reached over HTTP on this machine."""

import pytest
from visits import visiting

from qgt.web.settings import Settings


@pytest.fixture(autouse=True, scope="module")
def rough():
    """Stop simulating early: how precise confidence and plans are is tested elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("qgt.trust.confidence.PRECISE", 0.05)
        patch.setattr("qgt.trust.fit.MOST_INSTANCES", 5000)
        patch.setattr("qgt.web.start.EXAMPLE_PLATES", 40)
        patch.setattr("qgt.web.start.INSTANCES", 40)
        for name, plates in {"SCOUTED": 20, "MEASURED": 20, "CONFIRMED": 40}.items():
            patch.setattr(f"qgt.lab.plan.planning.{name}", plates)
        yield


@pytest.fixture
def settings(tmp_path):
    return Settings(tmp_path / "runs", port=0, planning=1.0, calibrate=0.3)


@pytest.fixture(scope="module")
def visitor(tmp_path_factory):
    """One server for the tests of a file, which share its runs."""
    settings = Settings(tmp_path_factory.mktemp("server"), port=0, planning=1.0, calibrate=0.3, most_instances=100)
    with visiting(settings) as made:
        yield made
