"""What tests of verbs need: confidence measured roughly and once, for how it is measured is tested elsewhere."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def calibrations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all tests of verbs keep what simulations taught, as commands of one user do."""
    return tmp_path_factory.mktemp("calibrations")


@pytest.fixture(autouse=True)
def rough(monkeypatch: pytest.MonkeyPatch, no_cache: None, calibrations: Path) -> None:
    """Stop simulating early, at a few hundred instances instead of thousands, and simulate a problem once."""
    monkeypatch.setattr("qgt.trust.confidence.PRECISE", 0.05)
    monkeypatch.setenv("QGT_CACHE", str(calibrations))
