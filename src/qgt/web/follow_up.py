"""Pages of a follow-up round: which pools to make next, and boxes for their counts."""

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import RedirectResponse, Response

from qgt.lab.rounds.files import Round
from qgt.model.noise import noise_of, reports_of
from qgt.rounds.choosing import later_noise
from qgt.web.counting import typed_counts
from qgt.web.decoding import proposal, settled_version
from qgt.web.forms import Form, Sent, Trouble, show
from qgt.web.jobs import Full, Job
from qgt.web.runs import KnownRun, Version, download, known_version
from qgt.web.state import AppState, Here
from qgt.web.store import StoredRun

router = APIRouter()
MOST_POOLS = 20  # of one plate in one round


@router.post("/runs/{id}/versions/{version}/follow-up")
def ask(version: Version, app_state: Here, run: KnownRun, form: Sent) -> Response:
    """Choose the next pools."""
    pools = form.whole("pools", least=1, most=MOST_POOLS)
    at_most = form.whole("at_most", least=1, most=app_state.settings.most_samples) if form.text("at_most") else None
    return RedirectResponse(f"/jobs/{follow_up_job(app_state, run, version, pools=pools, at_most=at_most).id}", 303)


def follow_up_job(app_state: AppState, run: StoredRun, version: int, *, pools: int, at_most: int | None) -> Job:
    """The job that chooses the next pools after a version."""
    submission = known_version(app_state, run, version)
    where = f"/runs/{run.id}/versions/{version}/follow-up"

    def work(job: Job) -> str:
        job.report("Choosing the pools that tell most")
        found = proposal(settled_version(app_state, run, submission), pools=pools, at_most=at_most)
        app_state.store.add_round(run.id, version, found)
        return where

    key, title = f"follow-up {run.id} {version} {pools} {at_most}", f"Next tests for {run.name}"
    back = f"/runs/{run.id}/versions/{version}"
    try:
        return app_state.queue.add(Job(key, title, work, back, app_state.settings.longest))
    except Full:
        raise HTTPException(429, "Many jobs wait on this server. Try again in a minute.") from None


@router.get("/runs/{id}/versions/{version}/follow-up")
def page(version: Version, request: Request, app_state: Here, run: KnownRun) -> Response:
    """The pools to make, and boxes for their counts."""
    return _page(request, app_state, run, version, Form({}), None)


@router.get("/runs/{id}/versions/{version}/follow-up/pools.csv")
def pools_file(version: Version, app_state: Here, run: KnownRun) -> Response:
    """The pools of the round as a table to fill in."""
    found = known_round(app_state, run, version)
    if found["record"] is None:
        raise HTTPException(404, "This round has no pools.")
    record = Round.from_plain(found["record"])
    return download(record.counts_file([None] * len(record.pool_keys)), f"round-{run.id}-{version}.csv")


@router.post("/runs/{id}/versions/{version}/follow-up/counts")
def enter(version: Version, request: Request, app_state: Here, run: KnownRun, form: Sent) -> Response:
    """Keep the counts of the round, with those before it, as a new version."""
    found = known_round(app_state, run, version)
    pools = 0 if found["record"] is None else len(Round.from_plain(found["record"]).pool_keys)
    try:
        made = enter_round(app_state, run, version, [form.text(f"count-{n}") for n in range(pools)])
    except ValueError as error:
        app_state.store.refuse(run.id, f"follow-up: {error}")
        return _page(request, app_state, run, version, form, Trouble(str(error)))
    return RedirectResponse(f"/runs/{run.id}/versions/{made}", 303)


def enter_round(app_state: AppState, run: StoredRun, version: int, texts: Sequence[str]) -> int:
    """Keep the counts of a round, one for each of its pools, as a new version; its number."""
    submission, found = known_version(app_state, run, version), known_round(app_state, run, version)
    if found["record"] is None:
        raise ValueError("this round has no pools: choose some first.")
    if run.versions > version:
        raise ValueError(f"version {run.versions} is newer than the one this round follows: go on from that one.")
    record = Round.from_plain(found["record"])
    rows = record.pool_keys
    if len(texts) != len(rows):
        raise ValueError(f"there are {len(texts)} counts and {len(rows)} pools in the round: give one for each pool.")
    noise = record.noise_of_counts(later_noise(app_state.bench.prepared(run.id).problem.noise))
    ((counts,), _) = typed_counts([texts], noise, [[f"{pool} of {name}" for name, pool in rows]])
    if all(count is None for count in counts):
        raise ValueError("no counts were typed: fill in the boxes.")
    rounds = [*submission.counts.get("rounds", ()), {"record": record.plain, "counts": counts}]
    kept = {**submission.counts, "rounds": rounds}
    return app_state.store.submit(run.id, "follow-up", "", record.counts_file(counts), kept)


def _page(
    request: Request, app_state: AppState, run: StoredRun, version: int, form: Form, trouble: Trouble | None
) -> Response:
    found = known_round(app_state, run, version)
    samples = app_state.bench.prepared(run.id).samples
    assert samples is not None  # a run has a plan
    places = {
        name: f"{plate} {well}" for name, plate, well in zip(samples.names, samples.plates, samples.wells, strict=True)
    }
    facts = {
        "run": run,
        "step": "follow-up",
        "version": version,
        "round": None if found["record"] is None else Round.from_plain(found["record"]),
        "found": found,
        "places": places,
        "boxes": form.fields,
        "results": reports_of(noise_of(app_state.bench.prepared(run.id).problem.noise, 0)).binary,
        "trouble": trouble,
    }
    return show(request, "follow_up.html", facts, 200 if trouble is None else 422)


def known_round(app_state: AppState, run: StoredRun, version: int) -> dict[str, Any]:
    """The pools that were chosen after a version."""
    found = app_state.store.round(run.id, version)
    if found is None:
        raise HTTPException(404, "No next tests were chosen after this version. Open its calls, and ask for them.")
    return found
