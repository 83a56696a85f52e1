"""What tests of sheets need: confidence measured roughly, for how precise it is is tested elsewhere."""

import pytest


@pytest.fixture(autouse=True)
def rough(monkeypatch):
    """Stop simulating early: a few hundred instances instead of thousands."""
    monkeypatch.setattr("qgt.trust.confidence.PRECISE", 0.05)
    monkeypatch.setattr("qgt.trust.fit.MOST_INSTANCES", 5000)
