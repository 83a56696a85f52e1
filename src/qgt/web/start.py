"""The first page, examples to try, signing in, and the page of a job at work."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import torch
from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import RedirectResponse, Response
from markupsafe import Markup

from qgt.decoders.amp import AMP
from qgt.decoders.certified.decoder import Certified
from qgt.decoders.contract import Decoder
from qgt.decoders.gamp import GAMP
from qgt.decoders.results import Decoded, Status
from qgt.files.tables import table_bytes
from qgt.lab.answers.accounts import accounts
from qgt.lab.answers.outputs import card
from qgt.lab.plan.loads import cycle_assay, measures_amounts, missed_share, usual_loads
from qgt.lab.plan.planning import Candidate, Plan
from qgt.lab.plan.question import Question
from qgt.lab.plan.simulation import Scout
from qgt.lab.sheets.samples import Samples
from qgt.model.design import Design
from qgt.model.noise import Noise, Noiseless, SparseInteger
from qgt.model.prior import Bernoulli
from qgt.model.problem import Problem
from qgt.pictures import pages
from qgt.pictures.pages import DecoderStanding
from qgt.trust.metrics import score
from qgt.web.counting import Entered, keep
from qgt.web.jobs import Full, Job
from qgt.web.middleware import COOKIE, same
from qgt.web.planning import add_run
from qgt.web.state import AppState, Here, Sent, Trouble, show

# Examples to try with one click: a plan, and counts as a laboratory would have entered them.

SAMPLES, POSITIVES, CERTAINTY = 96, (1.0, 4.0), 0.95
VOLUME = 10.0  # microlitres of each transfer
EXAMPLE_PLATES, EXAMPLE_SECONDS = 200, 5.0  # simulated, to say what the design promises


@dataclass(frozen=True)
class Example:
    """A plate whose truth is known, because it was simulated."""

    key: str
    title: str
    words: str
    pools: int
    assay: Noise
    seed: int  # of the plate
    weight: int = 5  # pools for each sample
    slip: float = 0.0  # what is added to the first count, as a typing error


EXAMPLES: Mapping[str, Example] = MappingProxyType(
    {
        one.key: one
        for one in (
            Example(
                "pcr",
                "A plate of a PCR machine",
                "27 pools, each with a cycle threshold. The page names the positives, and how much each of them has.",
                27,
                cycle_assay(),
                seed=1,
                weight=3,
            ),
            Example(
                "clear",
                "A clear plate",
                "96 samples in 24 pools with exact counts. All positives are found, and the answer is proved.",
                24,
                Noiseless(),
                seed=3,
            ),
            Example(
                "doubt",
                "A plate in doubt",
                "16 pools, and some counts are off by one. Other answers come close; the page says what to test again.",
                16,
                SparseInteger(rate=0.05, bound=1),
                seed=2,
            ),
            Example(
                "slip",
                "A mistyped count",
                "One exact count was typed wrongly. No answer explains the counts, and the page says where to look.",
                24,
                Noiseless(),
                seed=5,
                slip=1.0,
            ),
        )
    }
)


def add_example(app_state: AppState, example: Example) -> str:
    """Make an example's run, with its counts entered."""
    made = example_plan(example)
    problem = made.problem
    y = problem.simulate(1, generator=torch.Generator().manual_seed(example.seed)).y
    y[0, 0] += example.slip
    run = add_run(app_state, example.title, made, VOLUME, "example")
    names, pools, values = ["Plate 1"], problem.design.pool_names, y.tolist()
    source = table_bytes(values, row_names=names, column_names=pools, corner="instance")
    keep(app_state, run, "example", "", Entered(source, tuple(names), values), pools)
    return run


def example_plan(example: Example) -> Plan:
    """A plan of one design, measured on simulated plates like any other."""
    assay = example.assay
    loads = usual_loads(assay) if measures_amounts(assay) else None
    question = Question(Samples.numbered(SAMPLES), POSITIVES, assay, CERTAINTY, loads=loads)
    scout = Scout(question.samples, question.prior, question.assay, None, seed=0)
    design = scout.design(example.pools, example.weight)
    size = int(design.pool_sizes.max())
    tally = scout.measure("measuring", design, EXAMPLE_PLATES, seconds=EXAMPLE_SECONDS)
    one = Candidate(design, example.weight, tally.plates, tally.right, 0.0, question.entropy_bound(size))
    if loads is not None:
        one = replace(one, sensitivity=tally.sensitivity, missed=missed_share(loads, assay, size))
    return Plan(question, (one,), one, one.interval.low >= CERTAINTY, seed=0)


# The first page.

router = APIRouter()


@router.get("/")
def first(request: Request, app_state: Here) -> Response:
    """Past runs, newest first, and what to begin with."""
    facts = {
        "runs": app_state.store.runs(),
        "verdicts": app_state.store.newest_verdicts(),
        "examples": EXAMPLES.values(),
    }
    return show(request, "start.html", facts)


@router.post("/examples/{name}")
def example(name: str, app_state: Here, form: Sent) -> Response:
    """Make an example's run, with its counts entered."""
    if name not in EXAMPLES:
        raise HTTPException(404, "There is no such example.")

    def work(job: Job) -> str:
        return f"/runs/{add_example(app_state, EXAMPLES[name])}/calls"

    try:
        job = app_state.queue.add(Job(f"example {name}", EXAMPLES[name].title, work, "/", app_state.settings.longest))
    except Full:
        raise HTTPException(429, "Many jobs wait on this server. Try again in a minute.") from None
    return RedirectResponse(f"/jobs/{job.id}", 303)


@router.get("/jobs/{id}")
def job_page(id: str, request: Request, app_state: Here) -> Response:
    """How far a job is; once it is done, what it made."""
    job = app_state.queue.get(id)
    if job is None:
        raise HTTPException(404, "This job is not known any more. What it was to do is kept: look at your runs.")
    app_state.queue.wait(job, 0.5)
    return RedirectResponse(job.made, 303) if job.state == "done" else job_answer(request, app_state, job)


@router.post("/jobs/{id}/cancel")
def cancel(id: str, app_state: Here, form: Sent) -> Response:
    """Cancel a job."""
    job = app_state.queue.get(id)
    if job is None:
        raise HTTPException(404, "This job is not known any more: it ended long ago.")
    app_state.queue.cancel(job)
    app_state.queue.wait(job, 2.0)
    return RedirectResponse(f"/jobs/{id}", 303)


def job_answer(request: Request, app_state: AppState, job: Job) -> Response:
    """A page about a job that is not done."""
    facts = {"job": job, "ahead": app_state.queue.ahead(job)}
    return show(request, "job.html", facts, 422 if job.state == "failed" else 200)


@router.get("/sign-in")
def door(request: Request, app_state: Here) -> Response:
    """Where the token is given."""
    if app_state.settings.token is None:
        return RedirectResponse("/", 303)
    return show(request, "sign_in.html", {"trouble": None})


@router.post("/sign-in")
def enter(request: Request, app_state: Here, form: Sent) -> Response:
    """Let somebody in who knows the token."""
    token = app_state.settings.token
    if token is None:
        return RedirectResponse("/", 303)
    if not same(form.text("token"), token):
        trouble = Trouble("This is not the token. It stands in the terminal in which qgt serve was started.", "token")
        return show(request, "sign_in.html", {"trouble": trouble}, 401)
    answer = RedirectResponse("/", 303)
    answer.set_cookie(COOKIE, app_state.secret.entry(token), httponly=True, samesite="strict", max_age=7 * 86400)
    return answer


# The paper's problem on a page: simulated counts, what decoders make of them, and what fewer pools do.

ITEMS, DEMO_RATE, INSTANCES, DEMO_PART = 100, 0.06, 100, 20
DEMO_FEWEST_POOLS, DEMO_MOST_POOLS, DEMO_PAPERS_POOLS, OPENS = (
    12,
    60,
    35,
    20,
)  # pools; with 35 every decoder is nearly always right
DEMO_DECODERS: Mapping[str, Decoder] = {
    "Certified": Certified(certificates=False, time_limit=0.05),
    "GAMP": GAMP(),
    "AMP, scanning K": AMP(),
}


@router.get("/demo")
def demo(request: Request, app_state: Here, pools: int = OPENS, seed: int = 0) -> Response:
    """The demo of a number of pools and a seed: the same two give the same page."""
    if not DEMO_FEWEST_POOLS <= pools <= DEMO_MOST_POOLS:
        raise ValueError(f"pools={pools} is not valid: give a number from {DEMO_FEWEST_POOLS} to {DEMO_MOST_POOLS}.")
    if not 0 <= seed < 2**31:
        raise ValueError(f"seed={seed} is not valid: give a number from 0 to {2**31 - 1}.")
    job, key = None, f"{pools} {seed}"
    if app_state.demos.get(key) is None:
        job = _asked(app_state, pools, seed)
        if job is None:
            return show(request, "busy.html", {"words": "Many jobs wait. This page tries again by itself."}, 429)
        app_state.queue.wait(job, 0.9)
    made = app_state.demos.get(key)
    if made is None:
        assert job is not None
        return job_answer(request, app_state, job)
    return show(
        request, "demo.html", {**made, "fewest": DEMO_FEWEST_POOLS, "most": DEMO_MOST_POOLS, "paper": DEMO_PAPERS_POOLS}
    )


def _asked(app_state: AppState, pools: int, seed: int) -> Job | None:
    where = f"/demo?pools={pools}&seed={seed}"

    def work(job: Job) -> str:
        app_state.demos.put(f"{pools} {seed}", simulated_demo(pools, seed, job))
        return where

    try:
        job = Job(f"demo {pools} {seed}", "Simulating the paper's problem", work, "/demo", app_state.settings.longest)
        return app_state.queue.add(job)
    except Full:
        return None


def simulated_demo(pools: int, seed: int, job: Job) -> dict[str, object]:
    """Instances of the paper's problem, decoded: one of them in words, all of them as scores."""
    generator = torch.Generator().manual_seed(seed)
    design = Design.bernoulli(pools=pools, items=ITEMS, generator=generator)
    problem = Problem(design, Bernoulli(DEMO_RATE), SparseInteger(rate=DEMO_RATE, bound=1))
    x, y = problem.simulate(INSTANCES, generator=generator)
    standings, found = [], {}
    for number, (name, decoder) in enumerate(DEMO_DECODERS.items()):
        decode, start, parts = decoder.bind(problem), time.perf_counter(), []
        for part in y.split(DEMO_PART):  # small ones, so that somebody who cancels need not wait
            parts.append(decode(part))
            job.report(f"Decoding with {name}", number, len(DEMO_DECODERS))
        found[name] = Decoded.joined(parts)
        seconds = time.perf_counter() - start
        proved = name == "Certified" and bool((found[name].status != Status.TIME_LIMIT).all())
        standings.append(DecoderStanding(name, score(x, found[name].x), seconds, limit=proved))
    first = next(iter(found))
    (account,) = accounts(problem, y[:1], ["1"], found[first].pick(torch.tensor([0])))
    shown = card(problem, account, y[0], title="The first instance", truth=x[0])
    caption = (
        f"Success rates on {INSTANCES} simulated instances with 95 % intervals; a success has all {ITEMS} calls right."
    )
    return {
        "pools": pools,
        "seed": seed,
        "proved": standings[0].limit,
        "chart": pages.standings_chart(standings, caption=caption),
        "table": pages.standings_table(standings),
        "card": pages.decode_card(shown),
        "picture": Markup(pages.matrix_picture(design.matrix, title="The design: pools by items")),
        "transfers": design.transfers,
    }
