"""A server for tests: a folder and a queue of its own, reached over HTTP on this machine."""

import re
from dataclasses import dataclass

import httpx
import pytest

from qgt.web.serving import in_background
from qgt.web.settings import Settings


@dataclass(frozen=True)
class Visitor:
    """A browser's view of the server: pages in, forms out."""

    client: httpx.Client

    def get(self, path, **options):
        return self.client.get(path, **options)

    def word(self):
        return re.search(r'name="word" value="(\w+)"', self.get("/").text)[1]

    def post(self, path, fields=None, *, files=None, follow=True):
        data = {"word": self.word(), **(fields or {})}
        return self.client.post(path, data=data, files=files, follow_redirects=follow)


@pytest.fixture(autouse=True, scope="module")
def rough():
    """Stop simulating early: how precise confidence is is tested elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("qgt.trust.calibration.PRECISE", 0.05)
        yield


@pytest.fixture
def settings(tmp_path):
    return Settings(tmp_path / "runs", port=0, calibrate=1.0)


@pytest.fixture(scope="module")
def visitor(tmp_path_factory):
    """One server for the tests of a file, which share its runs."""
    settings = Settings(tmp_path_factory.mktemp("server"), port=0, calibrate=1.0)
    with in_background(settings) as running, httpx.Client(base_url=running.address, timeout=60) as client:
        yield Visitor(client)
