"""What tests of several files need."""

import gc
import sys

import jaxtyping
import pytest

import type_checks

type_checks.install()
gc.disable()  # while modules are imported and tests collected: all of that stays to the end


def pytest_collection_finish():
    """From here on garbage is collected, but what was imported and collected is not searched for it again.

    Collecting after every 700 new objects, as Python does by itself, took 1 to 4 % of the time of the files measured.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


@pytest.fixture(autouse=True)
def no_cache(monkeypatch):
    """Nobody's own calibrations are used or replaced: tests simulate less than users do."""
    monkeypatch.setenv("QGT_CACHE", "off")


@pytest.fixture
def unchecked():
    """The library as users run it, without the test run's type checks, which would answer before ours do."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def no_plugins(monkeypatch):
    """A process without plugins, which forgets those that the test loads; calling it forgets them at once."""
    loaded = {}
    monkeypatch.setattr("qgt.files.plugins._loaded", loaded)

    def forget():
        for name in loaded:
            sys.modules.pop(name, None)
        loaded.clear()

    yield forget
    forget()
