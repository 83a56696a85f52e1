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
    monkeypatch.setattr("qgt.trust.fit.MOST_INSTANCES", 5000)
    monkeypatch.setattr("qgt.cli.decoding.AHEAD", 0.1)
    monkeypatch.setenv("QGT_CACHE", str(calibrations))


@pytest.fixture
def quick_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate few plates for a plan; tests give plenty of time, so that the machine's speed decides nothing."""
    monkeypatch.setattr("qgt.lab.plan.question.WEIGHTS", (6,))
    for name, value in {"SCOUTED": 20, "MEASURED": 20, "CONFIRMED": 40, "SPREAD": (1.2,)}.items():
        monkeypatch.setattr(f"qgt.lab.plan.planning.{name}", value)
