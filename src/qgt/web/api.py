"""The JSON API: plans, sheets of counts, calls and follow-up rounds for programs, under /api/v1.

A route reads JSON or a file, calls what the page calls, and answers with JSON. An error is `{"error": "..."}` with the
sentence that the page would show. Counts are kept before they are acknowledged, and the answer to a version can be
asked for any number of times: a client that was interrupted asks again. The description for programs is
/api/v1/openapi.json; /api is a page about it for people.
"""

import io
import logging
import math
import re
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, HTTPException, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictStr, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException as StarletteHTTPException

from qgt.lab.plan.folder import candidate_facts, plan_words, read_plan
from qgt.lab.plan.question import (
    Question,
    parse_assay,
    parse_errors,
    parse_measured,
    parse_positives,
    parse_values,
    two_stages,
)
from qgt.lab.rounds import Round
from qgt.lab.sheets.counts import noise_of_reports
from qgt.lab.sheets.cycles import refuse_targets
from qgt.lab.sheets.samples import Samples
from qgt.version import __version__
from qgt.web.calls import MOST_POOLS, Overtaken, SentRound, enter_round, follow_up_job, known_round, outdated
from qgt.web.counting import Entered, check_size, keep, read_table, typed_counts
from qgt.web.decoding import all_notes, decode_again, decoding_job
from qgt.web.jobs import Job
from qgt.web.planning import add_run, chosen, drafted, keep_plan, plan_job
from qgt.web.runs import KnownRun, Version, download, known_version
from qgt.web.state import AppState, Here, show
from qgt.web.store import StoredRun

PREFIX = "/api/v1"
ABOUT = (
    "Plans, sheets of counts, calls and follow-up rounds. Where the server has a token, send it as "
    '`Authorization: Bearer TOKEN`. Errors are `{"error": "..."}`. Status 429 asks to try again after the seconds '
    "in the header `Retry-After`; counts that were acknowledged are kept."
)
LONGEST_WAIT = 60.0  # seconds that a request for calls may wait
RETRY = 2  # seconds after which to ask again
PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # what every program that writes ZIP files uses
MOST_PLAN_FILES, LARGEST_PLAN = 500, 50 * 2**20  # files of a plan in a ZIP file, and their bytes together
PLAN_FILE = re.compile(r"[\w.\- ]+(/[\w.\- ]+)?")
JSON_KIND = "application/json"
log = logging.getLogger("qgt.web")


def _refuse_unknown_queries(request: Request) -> None:
    """Refuse parameters that a request does not have: a mistyped one would be ignored in silence."""
    described = _described()["paths"][request.scope["route"].path_format][request.method.lower()]
    known = [one["name"] for one in described.get("parameters", ()) if one["in"] == "query"]
    for name, value in request.query_params.items():
        if name not in known:
            near = get_close_matches(name.lower(), known, 1)
            remedy = f"send {near[0]}" if near else f"it takes {', '.join(known)}" if known else "leave it out"
            raise ValueError(f"{name}={value!r} is not a parameter of this request: {remedy}.")


router = APIRouter(dependencies=[Depends(_refuse_unknown_queries)])


# What is sent, and what is answered.


class Error(BaseModel):
    """Why a request was refused."""

    error: str = Field(description="The sentence that the page would show: what is wrong, and what to do.")


REFUSALS = {
    401: "The server has a token: send `Authorization: Bearer TOKEN`.",
    404: "There is no such run, version, file, draft, job or round.",
    409: "Something newer is there: `based`, or the version that a round follows, is not the newest; or the proposal "
    "whose pools were tested is not clear.",
    410: "An earlier version of qgt made it: send the counts again.",
    413: "The request is larger than the server takes.",
    422: "It cannot be used as it is, and the error says why.",
    429: "Too many requests or jobs: try again after the seconds in the header `Retry-After`.",
}


def _may(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """How OpenAPI describes refusals."""
    return {status: {"model": Error, "description": REFUSALS[status]} for status in statuses}


class Sent(BaseModel):
    """What a program sends. Unknown names are refused: a mistyped one would be ignored in silence."""

    model_config = ConfigDict(extra="forbid")


class PlanRequest(Sent):
    """What is known before any pool is made. Texts are read as `qgt plan` reads them."""

    samples: int | list[str] = Field(description="How many samples, or their names.", examples=[96])
    samples_table: str | None = Field(
        None, description="Instead of names: a CSV table of samples, with columns such as household or risk."
    )
    positives: str | None = Field(None, description="How many are expected: `1-4`, or `1-3 %`.", examples=["1-4"])
    categories: str | None = Field(
        None, description="Instead: variants that pools report one by one, such as `variant A=3%, variant B=1%`."
    )
    allele: float | None = Field(
        None, description="Instead: the frequency of an allele, of which samples have 0, 1 or 2 copies; from 0 to 1."
    )
    assay: Literal["count", "reading", "positive", "reads", "ct", "amount"] = Field(
        "count", description="What a pool reports: count, reading, positive, reads, ct or amount."
    )
    depth: int | None = Field(None, ge=1, description="For reads: the reads of each pool.")
    errors: str = Field("", description="How the assay errs, as in `qgt plan --errors`.", examples=["2%"])
    measured: dict[str, float] = Field(
        default_factory=dict, description="For ct and amount: sigma, limit, dilution, load_mean and so on."
    )
    certainty: float = Field(0.95, description="The share of plates that must have no error, from 0.5 to 0.99.")
    most_pools: int | None = Field(None, description="At most so many pools.")
    largest_pool: int | None = Field(None, description="At most so many samples in a pool.")
    most_transfers: int | None = Field(None, description="At most so many pools for each sample.")
    stages: Literal["usual", "one", "two"] = Field(
        "usual", description="Whether doubtful samples are tested alone in a second round: one, two, or as is usual."
    )
    attack_rate: float | None = Field(None, description="Of samples with households: from 0 to 1.")
    background: float | None = Field(None, description="Of samples with households: from 0 to 1.")
    volume: float = Field(10.0, ge=0.01, le=10_000, description="Microlitres of each transfer.")
    name: str = Field("New run", max_length=100, description="Of the run.")


class Choice(Sent):
    """Which candidate becomes a run."""

    candidate: int | None = Field(None, ge=0, description="Its place among the candidates; none: the recommended one.")
    name: str | None = Field(None, max_length=100)


class SentCounts(Sent):
    """Counts as numbers: a row for each plate and a number for each pool, in the plan's order of pools.

    Where pools report categories, a pool has a number for each of them, one after the other.
    """

    names: list[str] | None = Field(None, description="The names of the plates; none: they are numbered.")
    values: list[list[StrictFloat | StrictStr | None]] = Field(
        description="null is a count that is missing; words are read as in a sheet (positive, Undetermined)."
    )
    note: str = Field("", max_length=500)


class Tests(Sent):
    """How many tests to choose."""

    pools: int = Field(4, ge=1, le=MOST_POOLS, description="Pools for each plate.")
    at_most: int | None = Field(None, ge=1, description="Samples in one pool.")


class RoundCounts(Sent):
    """The counts of a follow-up round, in the order of its pools."""

    counts: list[StrictFloat | StrictStr | None] = Field(
        description="null is a count that is missing; words are read as in a sheet (positive, Undetermined)."
    )
    code: str = Field(
        "",
        max_length=20,
        description="Of the proposal that was tested; needed where several were made after a version.",
    )


class Health(BaseModel):
    """How the server is."""

    status: Literal["ok"]
    version: str = Field(description="Of qgt.")
    running: int = Field(description="Jobs at work.")
    waiting: int = Field(description="Jobs that wait.")


class JobFacts(BaseModel):
    """How far a job is."""

    id: str
    state: Literal["waiting", "running", "done", "failed", "cancelled"] = Field(
        description="waiting, running, done, failed or cancelled."
    )
    words: str = Field(description="What it is doing, or why it failed.")
    share: float | None = Field(description="The share that is done, from 0 to 1; null where it is not known.")
    result: str | None = Field(description="The address of what it made, once it is done.")


class RunFacts(BaseModel):
    """A run: a plan, and how far it got."""

    id: str
    name: str
    made: float = Field(description="When, in seconds since 1970.")
    versions: int = Field(description="How many versions of its counts there are; the newest has this number.")
    decoded: int = Field(description="How many of them are decoded.")
    samples: int = Field(description="How many samples a plate has.")
    pools: list[str] = Field(description="The names of its pools, in the order of counts.")
    categories: list[str] = Field(description="What each pool has a count of, in this order; none: it has one count.")
    check_code: str = Field(description="What stands on its sheets.")
    files: list[str] = Field(description="The files of its plan.")


class Kept(BaseModel):
    """Counts that are on the disk."""

    run: str
    version: int
    notes: list[str] = Field(description="What was assumed when the sheet was read.")
    result: str = Field(description="The address of the calls.")


class PlateCalls(BaseModel):
    """One plate: docs/files.md describes all its fields."""

    model_config = ConfigDict(extra="allow")

    instance: str = Field(description="The name of the plate.")
    verdict: Literal["certain", "confident", "unsure", "suspect", "impossible"] = Field(
        description="certain, confident, unsure, suspect or impossible."
    )
    confidence: float | None = Field(description="The probability that the answer is right, where it is known.")
    calls: dict[str, Literal["positive", "negative", "retest", "none"]] = Field(
        description="The call of each sample: positive, negative, retest, or none where nothing is known of it."
    )
    words: str = Field(description="All of it in sentences.")


class Calls(BaseModel):
    """The calls of a version of counts."""

    model_config = ConfigDict(extra="allow")

    run: str
    version: int
    state: Literal["decoded"]
    notes: list[str] = Field(description="What was assumed when the sheet was read.")
    file: list[str] | str = Field(description="What is to be said about the sheet as a whole.")
    results: list[PlateCalls] = Field(description="One for each plate.")
    files: list[str] = Field(description="The names of the files about these calls.")


# The server, and jobs.


@router.get("/health")
def health(app_state: Here) -> Health:
    """Whether the server answers, and how much work waits."""
    running, waiting = app_state.queue.load()
    return Health(status="ok", version=__version__, running=running, waiting=waiting)


@router.get("/jobs/{id}", responses=_may(404))
def job(id: str, app_state: Here) -> JobFacts:
    """How far a job is."""
    return _job_facts(_known_job(app_state, id))


@router.post("/jobs/{id}/cancel", responses=_may(404))
def cancel(id: str, app_state: Here) -> JobFacts:
    """Cancel a job."""
    found = _known_job(app_state, id)
    app_state.queue.cancel(found)
    app_state.queue.wait(found, 2.0)
    return _job_facts(found)


# Plans and runs.


@router.post("/plans", status_code=202, responses=_may(413))
def plan(asked: PlanRequest, app_state: Here) -> JobFacts:
    """Simulate designs for what is known. The job's result lists candidates; none is kept until one is chosen."""
    return _job_facts(plan_job(app_state, _line("name", asked.name), _question(asked, app_state), asked.volume))


@router.get("/drafts/{key}", responses=_may(404))
def draft(key: str, app_state: Here) -> dict[str, Any]:
    """The candidates of a plan, the cheapest first, and which one is recommended."""
    made = drafted(app_state, key)
    return {
        "draft": key,
        "name": made.name,
        "candidates": candidate_facts(made.plan),
        "recommended": list(made.plan.candidates).index(made.plan.recommended),
        "reached": made.plan.reached,
        "words": plan_words(made.plan),
    }


@router.post("/drafts/{key}", status_code=201, responses=_may(404, 413))
def choose(key: str, choice: Choice, app_state: Here) -> RunFacts:
    """Make a run of one candidate."""
    made = drafted(app_state, key)
    one = made.plan.recommended
    if choice.candidate is not None:
        if choice.candidate >= len(made.plan.candidates):
            raise ValueError(
                f"candidate={choice.candidate} is not one of the {len(made.plan.candidates)}: they are numbered from 0."
            )
        one = made.plan.candidates[choice.candidate]
    run = add_run(app_state, _line("name", choice.name or made.name), chosen(made.plan, one), made.volume)
    return _run_facts(app_state, _stored(app_state, run))


@router.get("/runs")
def runs(app_state: Here, most: Annotated[int, Query(ge=1, le=1000)] = 200) -> list[RunFacts]:
    """Runs, the newest first."""
    return [_run_facts(app_state, one) for one in app_state.store.runs(most)]


@router.post(
    "/runs",
    status_code=201,
    responses=_may(413),
    openapi_extra={"requestBody": {"content": {"application/zip": {}}}},
)
async def upload(
    request: Request, app_state: Here, name: Annotated[str, Query(max_length=100)] = "New run"
) -> RunFacts:
    """Make a run of a plan's folder that `qgt plan` wrote, sent as a ZIP file."""
    content = await request.body()
    return await run_in_threadpool(_uploaded, app_state, _line("name", name), content)


@router.get("/runs/{id}", responses=_may(404))
def run(app_state: Here, run: KnownRun) -> RunFacts:
    """One run."""
    return _run_facts(app_state, run)


@router.get("/runs/{id}/files/{name:path}", response_class=Response, responses=_may(404))
def run_file(name: str, app_state: Here, run: KnownRun) -> Response:
    """A file of the run's plan: sheets, worklists, problem.toml."""
    content = app_state.store.file(run.id, name)
    if content is None:
        raise HTTPException(404, "This plan has no such file.")
    return download(content, name.rsplit("/", 1)[-1])


# Counts and calls.

Name = Annotated[str, Query(max_length=100)]  # of a target in a PCR machine's file


def _body(about: str, shape: type[BaseModel]) -> dict[str, Any]:
    """How OpenAPI describes a request that is a table or JSON."""
    kinds = {
        "text/csv": {"schema": {"type": "string"}},
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": {},
        JSON_KIND: {"schema": {"$ref": f"#/components/schemas/{shape.__name__}"}},
    }
    return {"requestBody": {"description": about, "content": kinds}}


def _kind(request: Request) -> str:
    """What a request says that it sends."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


@router.post(
    "/runs/{id}/counts",
    status_code=201,
    responses=_may(404, 409, 413),
    openapi_extra=_body("A sheet as CSV or XLSX, as `qgt decode` reads it; or numbers as JSON.", SentCounts),
)
async def enter(
    request: Request,
    app_state: Here,
    run: KnownRun,
    note: Annotated[str, Query(max_length=500)] = "",
    target: Name = "",
    control: Name = "",
    based: Annotated[int | None, Query(ge=0)] = None,
) -> Kept:
    """Keep a sheet of counts as the run's next version.

    The same counts once more are the same version, so a request whose answer was lost can be sent again. `based` is
    the newest version that the sender knows: where there is a newer one, nothing is kept.
    """
    content, kind = await request.body(), _kind(request)

    def work() -> Kept:
        try:
            if based is not None and run.versions > based:
                raise HTTPException(409, f"Version {run.versions} of these counts is newer: look at it first.")
            words, entered = _entered(app_state, run, content, kind, target, control)
            check_size(app_state, entered)
        except ValueError as error:
            app_state.store.refuse(run.id, f"api: {error}")
            raise
        pools = app_state.bench.prepared(run.id).problem.report_names
        version = keep(app_state, run.id, "api", _line("note", note or words), entered, pools)
        return Kept(run=run.id, version=version, notes=list(entered.notes), result=_where(run.id, version))

    return await run_in_threadpool(work)


@router.get(
    "/runs/{id}/versions/{version}",
    response_model=Calls,
    responses={202: {"model": JobFacts, "description": "It is being decoded: ask again."}, **_may(404, 410)},
)
def calls(
    version: Version,
    app_state: Here,
    run: KnownRun,
    wait: Annotated[float, Query(ge=0, le=LONGEST_WAIT, description="Seconds to wait for the calls.")] = 0.0,
) -> Response:
    """The calls of a version. Until the version is decoded, status 202 and how far that is."""
    submission, result = known_version(app_state, run, version), app_state.store.result(run.id, version)
    if result is None:
        found = decoding_job(app_state, run, version)
        if found is None:
            raise HTTPException(429, "Many sheets are being decoded. These counts are kept: ask again.")
        app_state.queue.wait(found, wait)
        result = app_state.store.result(run.id, version)
        if result is None:
            facts = _job_facts(found).model_dump()
            if found.state in ("failed", "cancelled"):
                return JSONResponse({**facts, "error": found.words}, 422)
            return JSONResponse(facts, 202, {"Retry-After": str(RETRY)})
    if outdated(result):
        raise HTTPException(410, "An earlier version of qgt made these calls: send the counts again.")
    files = sorted(app_state.store.product_names(run.id, version))
    facts = {"run": run.id, "version": version, "state": "decoded", "notes": all_notes(submission.counts)}
    return JSONResponse({**result, **facts, "files": files})


@router.post("/runs/{id}/versions/{version}/decode", status_code=202, responses=_may(404))
def again(version: Version, app_state: Here, run: KnownRun) -> JobFacts:
    """Decode a version after all, where that was cancelled or failed."""
    known_version(app_state, run, version)
    found = decode_again(app_state, run, version)
    if found is None:
        raise HTTPException(429, "Many sheets are being decoded. These counts are kept: ask again.")
    return _job_facts(found)


@router.get("/runs/{id}/versions/{version}/files/{name}", response_class=Response, responses=_may(404, 410))
def product(version: Version, name: str, app_state: Here, run: KnownRun) -> Response:
    """A file about a version: the report, tables of calls, proofs."""
    known_version(app_state, run, version)
    content = app_state.store.product(run.id, version, name)
    if content is None:
        raise HTTPException(404, "There is no such file: files are made once the counts are decoded.")
    result = app_state.store.result(run.id, version)
    if result is not None and outdated(result):
        raise HTTPException(410, "An earlier version of qgt made this file: send the counts again.")
    return download(content, name)


# Follow-up rounds.


@router.post("/runs/{id}/versions/{version}/follow-up", status_code=202, responses=_may(404, 413))
def follow_up(version: Version, tests: Tests, app_state: Here, run: KnownRun) -> JobFacts:
    """Choose the next pools for plates that are not certain."""
    known_version(app_state, run, version)
    return _job_facts(follow_up_job(app_state, run, version, pools=tests.pools, at_most=tests.at_most))


@router.get("/runs/{id}/versions/{version}/follow-up", responses=_may(404))
def round_of(version: Version, app_state: Here, run: KnownRun) -> dict[str, Any]:
    """The pools of the round with their samples, in the order of their counts; and what to count again instead.

    `code` is the proposal's, which its pools' names have too. `words` says what is proposed for each plate, and why
    nothing is for those in `no_proposal`.
    """
    found = known_round(app_state, run, version)
    record = None if found["record"] is None else Round.from_plain(found["record"])
    pools = [
        {"plate": one.name, "pool": pool, "samples": list(members)}
        for one in ([] if record is None else record.instances)
        for pool, members in one.pools
    ]
    more = {"categories": list(record.categories)} if record is not None and record.categories else {}
    known = {} if record is None else {"round": record.number, "code": record.code}
    return {
        **known,
        "pools": pools,
        **more,
        "words": {**found["words"], **found.get("why_stuck", {})},
        "count_again": found["again"],
        "no_proposal": found["stuck"],
    }


@router.post(
    "/runs/{id}/versions/{version}/follow-up/counts",
    status_code=201,
    responses=_may(404, 409, 413),
    openapi_extra=_body("The round's table or that of a PCR machine, as CSV or XLSX; or numbers as JSON.", RoundCounts),
)
async def follow_up_counts(
    request: Request, version: Version, app_state: Here, run: KnownRun, target: Name = "", control: Name = ""
) -> Kept:
    """Keep the counts of the round, with those before it, as a new version."""
    content, kind = await request.body(), _kind(request)

    def work() -> Kept:
        try:
            sent = _sent_round(content, kind, target, control)
            made = enter_round(app_state, run, version, sent)
        except ValueError as error:
            app_state.store.refuse(run.id, f"api, follow-up: {error}")
            raise
        return Kept(run=run.id, version=made.version, notes=list(made.notes), result=_where(run.id, made.version))

    return await run_in_threadpool(work)


# What routes share.


def _where(run: str, version: int) -> str:
    return f"{PREFIX}/runs/{run}/versions/{version}"


def _known_job(app_state: AppState, id: str) -> Job:
    found = app_state.queue.get(id)
    if found is None:
        raise HTTPException(404, "This job is not known any more. Counts are kept: ask for the calls of their version.")
    return found


def _job_facts(found: Job) -> JobFacts:
    result = f"{PREFIX}{found.made}" if found.state == "done" else None  # the API has the page's addresses
    return JobFacts(id=found.id, state=found.state, words=found.words, share=found.share, result=result)


def _stored(app_state: AppState, run: str) -> StoredRun:
    found = app_state.store.run(run)
    assert found is not None  # it was made just now
    return found


def _run_facts(app_state: AppState, run: StoredRun) -> RunFacts:
    problem = app_state.bench.prepared(run.id).problem
    return RunFacts(
        id=run.id,
        name=run.name,
        made=run.made,
        versions=run.versions,
        decoded=run.decoded,
        samples=problem.items,
        pools=list(problem.design.pool_names),
        categories=list(problem.reported_categories),
        check_code=str(run.facts.get("code", "")),
        files=sorted(app_state.store.files(run.id)),
    )


def _line(name: str, text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"{name}={text!r} holds characters that do not print: write plain text.")
    return text.strip()


def _question(asked: PlanRequest, app_state: AppState) -> Question:
    """The question that a request asks, read as the command line's."""
    most = app_state.settings.most_samples
    if asked.samples_table is not None:
        samples = Samples.read("samples_table", data=asked.samples_table.encode())
    elif isinstance(asked.samples, int):
        if not 2 <= asked.samples <= most:
            raise ValueError(f"samples={asked.samples} is not valid: give a number from 2 to {most:,}.")
        samples = Samples.numbered(asked.samples)
    else:
        samples = Samples.placed(asked.samples)
    if len(samples) > most:
        raise ValueError(f"There are {len(samples):,} samples: plan for {most:,} at most.")
    measured = parse_measured(asked.assay, {**asked.measured})
    if measured is not None and asked.errors:
        raise ValueError(f"errors={asked.errors} is not for the assay {asked.assay}: give measured instead.")
    values = parse_values(asked.categories, asked.allele, asked.positives)
    if values is None and asked.positives is None:
        raise ValueError("positives is missing: send it, or categories, or allele.")
    errors = parse_errors(asked.errors, asked.assay) if measured is None else []
    return Question(
        samples,
        (0.0, 0.0) if asked.positives is None else parse_positives(asked.positives, len(samples)),
        measured[0] if measured else parse_assay(asked.assay, errors, asked.depth),
        asked.certainty,
        asked.most_pools,
        asked.largest_pool,
        asked.most_transfers,
        two_stages(asked.assay) if asked.stages == "usual" else asked.stages == "two",
        asked.attack_rate,
        asked.background,
        measured[1] if measured else None,
        values=values,
    )


def _uploaded(app_state: AppState, name: str, content: bytes) -> RunFacts:
    """A run of a plan in a ZIP file, whose files are read before anything is kept."""
    files = _unzipped(content)
    found = read_plan("plan", files)
    if found.problem.items > app_state.settings.most_samples:
        raise ValueError(f"The plan has {found.problem.items:,} samples: {app_state.settings.most_samples:,} at most.")
    return _run_facts(app_state, _stored(app_state, keep_plan(app_state, name, files, found)))


def _unzipped(content: bytes) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = [one for one in archive.infolist() if not one.is_dir()]
            if len(entries) > MOST_PLAN_FILES or sum(one.file_size for one in entries) > LARGEST_PLAN:
                raise ValueError("the ZIP file is larger than a plan: send the folder that `qgt plan` wrote.")
            if len({one.filename for one in entries}) < len(entries):
                raise ValueError("the ZIP file holds a file twice: pack the folder that `qgt plan` wrote once more.")
            if any(one.compress_type not in PACKINGS for one in entries):
                raise ValueError("the ZIP file is packed in an unusual way: pack it with Deflate.")
            found = {one.filename: archive.read(one) for one in entries}
    except (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError) as error:
        raise ValueError(f"the request is not a ZIP file ({error}): send the plan's folder as one.") from error
    top = {name.partition("/")[0] for name in found}
    if len(top) == 1 and "problem.toml" not in found:  # a folder was packed, not its files
        found = {name.partition("/")[2]: data for name, data in found.items()}
    for name in found:
        if not PLAN_FILE.fullmatch(name) or ".." in name:
            raise ValueError(f"the ZIP file holds {name!r}: send the folder as `qgt plan` wrote it.")
    return found


def _entered(
    app_state: AppState, run: StoredRun, content: bytes, kind: str, target: str, control: str
) -> tuple[str, Entered]:
    """A note that came with the counts, and the counts."""
    decoder = app_state.bench.prepared(run.id)
    if kind != JSON_KIND:
        if not content.strip():
            raise ValueError("the request is empty: send a sheet as CSV, XLSX or JSON.")
        return "", read_table(content, "The sheet", decoder, target, control)
    sent = SentCounts.model_validate_json(content)
    pools, each = decoder.problem.report_names, len(decoder.problem.reported_categories) or 1
    names = sent.names or [str(number) for number in range(1, len(sent.values) + 1)]
    _check_rows(names, sent.values, len(pools))
    places = [[f"{pool} of {name}" for pool in pools] for name in names]
    noise = noise_of_reports(decoder.problem.noise, decoder.problem.pools, each)
    values, notes = typed_counts([[_text(one) for one in row] for row in sent.values], noise, places)
    return sent.note, Entered(content, tuple(names), values, notes)


def _sent_round(content: bytes, kind: str, target: str, control: str) -> SentRound:
    """The counts of a round, as JSON or as a table."""
    if not content.strip():
        raise ValueError("the request is empty: send a table as CSV or XLSX, or JSON.")
    if kind != JSON_KIND:
        return SentRound((), content, "", target, control)
    refuse_targets("JSON", target or None, control or None)
    sent = RoundCounts.model_validate_json(content)
    return SentRound([_text(one) for one in sent.counts], code=sent.code)


def _check_rows(names: Sequence[str], values: Sequence[Sequence[object]], pools: int) -> None:
    if len(names) != len(values) or not values:
        raise ValueError(
            f"there are {len(names)} names and {len(values)} rows of values: send one of each, at least 1."
        )
    if len(set(names)) < len(names):
        raise ValueError("names holds a name twice: give each plate its own.")
    for name, row in zip(names, values, strict=True):
        _line("names", name)
        if len(row) != pools:
            raise ValueError(f"values of {name!r} are {len(row)} numbers: send {pools}, one for each pool.")
        if all(one is None for one in row):
            raise ValueError(f"{name!r} has no counts: leave its row out.")


def _text(value: float | str | None) -> str:
    """A count as somebody would have typed it, so that numbers and words pass the same reader."""
    if value is None:
        return ""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not a count: send null where it is missing.")
    return value.strip() if isinstance(value, str) else f"{value:.17g}"


# The application, whose errors are JSON.


METHODS = ("get", "post")
TOKEN = {"type": "http", "scheme": "bearer", "description": "Needed where the server has a token, and only there."}


def about_api(request: Request) -> Response:
    """A page about the API, from its own description."""
    described = _described()
    routes = [
        {"method": method.upper(), "path": f"{PREFIX}{path}", **path_facts[method]}
        for path, path_facts in described["paths"].items()
        for method in METHODS
        if method in path_facts
    ]
    sent = {one.__name__: one.model_json_schema() for one in Sent.__subclasses__()}
    shapes = described["components"]["schemas"].items()
    facts = {
        "routes": routes,
        "sent": sent,
        "answered": {name: one for name, one in shapes if name not in sent},
        "prefix": PREFIX,
        "address": str(request.base_url).rstrip("/"),
    }
    return show(request, "api.html", facts)


@lru_cache(maxsize=1)
def _described() -> dict[str, Any]:
    """The description that OpenAPI asks for, with what FastAPI does not know: the token, and shapes of tables' JSON."""
    described = _application().openapi()
    described["security"] = [{}, {"token": []}]  # one of the two: a server may have no token
    described["components"]["securitySchemes"] = {"token": TOKEN}
    named = {shape.__name__: shape.model_json_schema() for shape in (SentCounts, RoundCounts)}
    described["components"]["schemas"] |= named
    return described


def _application() -> FastAPI:
    api = FastAPI(
        title="qgt",
        version=__version__,
        description=ABOUT,
        openapi_url=None,  # `make_api` has a route of its own
        docs_url=None,  # the pages that FastAPI makes load scripts from another machine
        redoc_url=None,
        servers=[{"url": PREFIX}],
    )
    api.include_router(router, responses=_may(401, 422, 429))
    return api


def make_api(app_state: AppState) -> FastAPI:
    """The API as an application of its own, to be mounted at `PREFIX`."""
    api = _application()
    api.state.shared = app_state
    api.add_api_route("/openapi.json", lambda: JSONResponse(_described()), include_in_schema=False)
    api.add_exception_handler(StarletteHTTPException, _told)
    api.add_exception_handler(RequestValidationError, _malformed)
    api.add_exception_handler(Overtaken, _overtaken)
    api.add_exception_handler(ValueError, _refused)
    api.add_exception_handler(Exception, _failed)
    return api


def _words(status: int, words: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": words}, status, headers)


async def _told(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, StarletteHTTPException)
    words = "There is no such address: see /api." if error.detail == "Not Found" else error.detail
    return _words(error.status_code, words, {"Retry-After": str(RETRY)} if error.status_code == 429 else None)


async def _malformed(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    return _words(422, _fault(error.errors()[0]))


async def _overtaken(request: Request, error: Exception) -> JSONResponse:
    return _words(409, str(error))


async def _refused(request: Request, error: Exception) -> JSONResponse:
    return _words(422, _fault(error.errors()[0]) if isinstance(error, ValidationError) else str(error))


async def _failed(request: Request, error: Exception) -> JSONResponse:
    """A fault of ours: the log has the details, which Starlette raises again after this answer."""
    log.error("%s %s failed", request.method, request.url.path)
    return _words(500, "This is a fault of the program, not yours. What was acknowledged before is kept.")


def _fault(found: Mapping[str, Any]) -> str:
    """The first thing that is wrong with JSON, and where."""
    place = ".".join(str(part) for part in found["loc"] if part not in ("body", "query", "path"))
    return f"{place}: {found['msg']}." if place else f"{found['msg']}."
