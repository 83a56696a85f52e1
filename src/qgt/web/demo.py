"""The paper's problem on a page: simulated counts, what decoders make of them, and what fewer pools do."""

import time
from collections.abc import Mapping

import torch
from fastapi import APIRouter, Request
from fastapi.responses import Response
from markupsafe import Markup

from qgt.decoders.amp import AMP
from qgt.decoders.certified.decoder import Certified
from qgt.decoders.contract import Decoder
from qgt.decoders.gamp import GAMP
from qgt.decoders.results import Decoded, Status
from qgt.lab.answers.accounts import accounts
from qgt.lab.answers.outputs import card
from qgt.model.design import Design
from qgt.model.noise import SparseInteger
from qgt.model.prior import Bernoulli
from qgt.model.problem import Problem
from qgt.pictures import pages, svg
from qgt.pictures.pages import DecoderStanding
from qgt.trust.metrics import score
from qgt.web.house import Here, House
from qgt.web.jobs import Full, Job
from qgt.web.start import job_answer
from qgt.web.views import show

router = APIRouter()
ITEMS, RATE, INSTANCES, PART = 100, 0.06, 100, 20
FEWEST, MOST, PAPER, OPENS = 12, 60, 35, 20  # pools; with 35 every decoder is nearly always right
DECODERS: Mapping[str, Decoder] = {
    "Certified": Certified(certificates=False, time_limit=0.05),
    "GAMP": GAMP(),
    "AMP, scanning K": AMP(),
}


@router.get("/demo")
def demo(request: Request, house: Here, pools: int = OPENS, seed: int = 0) -> Response:
    """The demo of a number of pools and a seed: the same two give the same page."""
    if not FEWEST <= pools <= MOST:
        raise ValueError(f"pools={pools} is not valid: give a number from {FEWEST} to {MOST}.")
    if not 0 <= seed < 2**31:
        raise ValueError(f"seed={seed} is not valid: give a number from 0 to {2**31 - 1}.")
    job, key = None, f"{pools} {seed}"
    if house.demos.get(key) is None:
        job = _asked(house, pools, seed)
        if job is None:
            return show(request, "busy.html", {"words": "Many jobs wait. This page tries again by itself."}, 429)
        house.queue.wait(job, 0.9)
    made = house.demos.get(key)
    if made is None:
        assert job is not None
        return job_answer(request, house, job)
    return show(request, "demo.html", {**made, "fewest": FEWEST, "most": MOST, "paper": PAPER})


def _asked(house: House, pools: int, seed: int) -> Job | None:
    where = f"/demo?pools={pools}&seed={seed}"

    def work(job: Job) -> str:
        house.demos.put(f"{pools} {seed}", simulated(pools, seed, job))
        return where

    try:
        job = Job(f"demo {pools} {seed}", "Simulating the paper's problem", work, "/demo", house.settings.longest)
        return house.queue.add(job)
    except Full:
        return None


def simulated(pools: int, seed: int, job: Job) -> dict[str, object]:
    """Instances of the paper's problem, decoded: one of them in words, all of them as scores."""
    generator = torch.Generator().manual_seed(seed)
    design = Design.bernoulli(pools=pools, items=ITEMS, generator=generator)
    problem = Problem(design, Bernoulli(RATE), SparseInteger(rate=RATE, bound=1))
    x, y = problem.simulate(INSTANCES, generator=generator)
    standings, found = [], {}
    for number, (name, decoder) in enumerate(DECODERS.items()):
        decode, start, parts = decoder.bind(problem), time.perf_counter(), []
        for part in y.split(PART):  # small ones, so that somebody who cancels need not wait
            parts.append(decode(part))
            job.report(f"Decoding with {name}", number, len(DECODERS))
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
        "picture": Markup(svg.matrix_picture(design.matrix, title="The design: pools by items")),
        "transfers": design.transfers,
    }
