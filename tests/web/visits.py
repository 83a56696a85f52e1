"""What tests of the page share: a visitor of a server, small plans, and a queue that is kept busy."""

import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property

import httpx

from qgt.lab.plan.folder import plan_files, plan_words, read_plan
from qgt.lab.plan.planning import Candidate, Plan
from qgt.lab.plan.question import Question
from qgt.lab.plan.simulation import Scout
from qgt.lab.sheets.samples import Samples
from qgt.model.noise import Noiseless
from qgt.web.app import in_background
from qgt.web.jobs import Job
from qgt.web.planning import keep_plan
from qgt.web.state import AppState

SAMPLES, POOLS = 12, 8


def small_plan(names=None, assay=None):
    """A plan for few samples, made without simulations."""
    samples = Samples.numbered(SAMPLES) if names is None else Samples.placed(names)
    question = Question(samples, (0.0, 2.0), assay or Noiseless(), 0.9)
    scout = Scout(question.samples, question.prior, question.assay, None, seed=0)
    one = Candidate(scout.design(POOLS, 4), 4, 50, 49, 0.0, 3.5)
    return Plan(question, (one,), one, False, seed=0)


@cache
def written_plan(names, assay):
    """A small plan and its files, written once: drawing the picture among them takes most of the time of a new run."""
    made = small_plan(names, assay)
    return made, plan_files(made)


def typed(problem, positives=(2, 7), name="Plate 1"):
    """The fields of a form with the exact counts of some samples."""
    values = problem.design.matrix[:, list(positives)].sum(1).tolist()
    return {"way": "typed", "plate-0": name, **{f"count-0-{n}": str(value) for n, value in enumerate(values)}}


@dataclass(frozen=True)
class Visitor:
    """A browser's view of the server: pages in, forms out."""

    client: httpx.Client
    app_state: AppState

    @property
    def store(self):
        return self.app_state.store

    def run(self, name="Monday", names=None, assay=None):
        """A new run of a small plan, and its problem."""
        made, files = written_plan(names and tuple(names), assay)
        return keep_plan(
            self.app_state, name, files, read_plan("plan", files), lines=plan_words(made)[1:]
        ), made.problem

    def get(self, path, **options):
        return self.client.get(path, **options)

    @cached_property
    def word(self):
        """What every form of a server's pages carries, from the first page that is asked for."""
        return re.search(r'name="word" value="(\w+)"', self.get("/").text)[1]

    def post(self, path, fields=None, *, files=None, follow=True):
        data = {"word": self.word, **(fields or {})}
        return self.client.post(path, data=data, files=files, follow_redirects=follow)

    def enter(self, run, fields, *, files=None):
        """Send counts, and wait for their calls."""
        return self.finished(self.post(f"/runs/{run}/counts", fields, files=files))

    def finished(self, answer):
        """Where a job leads, once it is done."""
        for _ in range(200):
            if not answer.url.path.startswith("/jobs/") and "<progress" not in answer.text:
                return answer
            assert answer.status_code == 200, answer.text
            answer = self.get(answer.url.raw_path.decode(), follow_redirects=True)
        raise AssertionError("the job did not end")


@contextmanager
def visiting(settings):
    """A server in a thread, and somebody who visits it."""
    with in_background(settings) as app_state, httpx.Client(base_url=app_state.settings.address, timeout=60) as client:
        yield Visitor(client, app_state)


@contextmanager
def held(queue):
    """All workers of a queue kept at work, so that whatever comes next has to wait."""
    go = threading.Event()

    def work(job):
        go.wait(30)
        return "/"

    jobs = [queue.add(Job(f"held {n}", "held", work, "/", 60.0)) for n in range(queue.workers)]
    try:
        yield go.set
    finally:
        go.set()
        for job in jobs:
            queue.wait(job, 30.0)
