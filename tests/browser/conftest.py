"""A server and a browser: Debian's Chromium, which may ask nobody but the server."""

import shutil
from dataclasses import dataclass, field

import pytest

from qgt.web.app import in_background
from qgt.web.settings import Settings
from qgt.web.state import PreparedRuns
from qgt.web.store import PageStore

WIDE, NARROW = {"width": 1400, "height": 900}, {"width": 360, "height": 740}


@dataclass(frozen=True)
class Walk:
    """A browser's page on a server, and everything that went wrong on the way."""

    page: object
    settings: Settings
    faults: list = field(default_factory=list)

    def open(self, path):
        self.page.goto(self.settings.address + path)

    def problem(self):
        """The problem of the run that is looked at."""
        run = self.page.url.split("/runs/")[1].split("/")[0].split("?")[0]
        return PreparedRuns(self.settings, PageStore.open(self.settings.folder)).prepared(run).problem

    def counts(self, positives):
        """The exact counts, and the names, of some samples."""
        problem = self.problem()
        total = problem.design.matrix[:, list(positives)].sum(1)
        return [f"{int(count)}" for count in total], [problem.design.item_names[j] for j in positives]

    def fits(self):
        """Whether nothing sticks out at the side, once the page has its styles."""
        self.page.wait_for_load_state()
        return self.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    settings = Settings(tmp_path_factory.mktemp("server"), port=0, planning=8.0, calibrate=1.0, seconds=20.0)
    with in_background(settings) as running:
        yield running.settings


@pytest.fixture(scope="session")
def chromium():
    from playwright.sync_api import sync_playwright

    found = shutil.which("chromium") or shutil.which("chromium-browser")
    assert found is not None, "there is no Chromium: run make browser, which installs it"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(params=["wide, light", "narrow, dark"])
def walk(request, server, chromium):
    wide = request.param.startswith("wide")
    yield from _walking(server, chromium, WIDE if wide else NARROW, "light" if wide else "dark")


@pytest.fixture
def wide_walk(server, chromium):
    yield from _walking(server, chromium, WIDE, "light")


def _walking(server, chromium, size, scheme):
    context = chromium.new_context(viewport=size, color_scheme=scheme, accept_downloads=True)
    page = context.new_page()
    page.set_default_timeout(60_000)
    made = Walk(page, server)
    page.on("console", lambda line: made.faults.append(f"console: {line.text}") if line.type == "error" else None)
    page.on("pageerror", lambda error: made.faults.append(f"script: {error}"))

    def asked(request):
        if not request.url.startswith((server.address, "data:", "blob:")):
            made.faults.append(f"asked {request.url}")

    page.on("request", asked)
    yield made
    context.close()
    assert made.faults == []
