"""Pages of calls, and of the round that follows: what was found, what else is possible, and what to test next."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import RedirectResponse, Response

from qgt.files.tables import NOT_DETECTED
from qgt.lab.answers.accounts import valued
from qgt.lab.answers.outputs import (
    BY_SAMPLE,
    CALLS,
    HTML,
    JSON,
    PROOFS,
    PROOFS_OF_ROUNDS,
    REPORT,
    XLSX,
    plate_maps,
    value_signs,
)
from qgt.lab.reported import detector
from qgt.lab.rounds import Round, proposals_in, read_round_reports
from qgt.lab.verdicts import Call, Verdict
from qgt.lab.wording import percent
from qgt.model.noise import noise_of, reports_of
from qgt.model.problem import Problem
from qgt.rounds.choosing import later_noise
from qgt.web.counting import typed_counts
from qgt.web.decoding import all_notes, decode_again, decoding_job, proposal, settled_version
from qgt.web.jobs import Full, Job
from qgt.web.runs import KnownRun, Version, download, known_version, standalone
from qgt.web.start import job_answer
from qgt.web.state import AppState, Form, Here, Sent, Trouble, show
from qgt.web.store import StoredRun, Submission

# Pages of a follow-up round: which pools to make next, and boxes for their counts.

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
    try:
        sent = _sent_round(form)
        made = enter_round(app_state, run, version, sent).version
    except ValueError as error:
        app_state.store.refuse(run.id, f"follow-up: {error}")
        return _page(request, app_state, run, version, form, Trouble(str(error)))
    return RedirectResponse(f"/runs/{run.id}/versions/{made}", 303)


class Overtaken(ValueError):
    """Counts of a round that something newer has overtaken, or whose proposal is not clear: a conflict, not a fault."""


@dataclass(frozen=True)
class SentRound:
    """The counts of a follow-up round as they came: one text for each pool in order, or a table."""

    texts: Sequence[str] = ()
    table: bytes = b""
    code: str = ""  # of the proposal; of a table, its names have it
    target: str = ""
    control: str = ""


class KeptRound(NamedTuple):
    """The version that counts of a round became, and what was assumed when they were read."""

    version: int
    notes: tuple[str, ...]


def _sent_round(form: Form) -> SentRound:
    """What the page's forms have: boxes or a file."""
    if form.text("way") != "uploaded":
        boxes = sum(name.startswith("count-") for name in form.fields)
        return SentRound([form.text(f"count-{n}") for n in range(boxes)], code=form.text("code"))
    if not form.upload:
        raise ValueError("no file was chosen, or it is empty: choose a CSV or XLSX file.")
    return SentRound((), form.upload, form.text("code"), form.line("target"), form.line("control"))


def enter_round(app_state: AppState, run: StoredRun, version: int, sent: SentRound) -> KeptRound:
    """Keep the counts of a round as a new version."""
    submission, problem = known_version(app_state, run, version), app_state.bench.prepared(run.id).problem
    record = _proposal_of(app_state, run, version, sent)
    newest = submission if run.versions == version else known_version(app_state, run, run.versions)
    if newest is not submission and not _has_round(newest.counts, submission.counts, record):
        raise Overtaken(f"version {run.versions} is newer than the one this round follows: go on from that one.")
    counts, notes = _table_counts(record, problem, sent) if sent.table else _box_counts(record, problem, sent.texts)
    if all(count is None for count in counts):
        raise ValueError(
            "no counts were typed: fill in the boxes." if sent.texts else "The table: no count is filled in."
        )
    values = [NOT_DETECTED if count == math.inf else count for count in counts]  # JSON has no inf
    entry = {"record": record.plain, "counts": values, **({"notes": list(notes)} if notes else {})}
    kept = {**submission.counts, "rounds": [*submission.counts.get("rounds", ()), entry]}
    if _plain(kept) == _plain(newest.counts):  # the same once more, as from a client whose answer was lost
        return KeptRound(run.versions, notes)
    source = sent.table or record.counts_file(counts)
    return KeptRound(app_state.store.submit(run.id, "follow-up", "", source, kept), notes)


def _proposal_of(app_state: AppState, run: StoredRun, version: int, sent: SentRound) -> Round:
    """The proposal whose pools were tested, by its code; without one only if no other was made after the version."""
    known_round(app_state, run, version)
    records = [Round.from_plain(one["record"]) for one in app_state.store.rounds(run.id, version) if one["record"]]
    made = {one.code: one for one in records}
    codes = proposals_in("The table", sent.table) if sent.table else set()
    if len(codes) > 1:
        raise ValueError(f"The table has pools of several proposals ({', '.join(sorted(codes))}): send those of one.")
    code = next(iter(codes), sent.code)
    if not made:
        raise ValueError("this round has no pools: choose some first.")
    if code and code not in made:
        raise Overtaken(
            f"proposal {code} was not made after version {version}, but {' and '.join(made)}: enter its counts for the "
            "version that it follows."
        )
    if not code and len(made) > 1:
        raise Overtaken(
            f"{len(made)} proposals were made after version {version} ({', '.join(made)}): send the code of the one "
            "whose pools were tested."
        )
    return made[code] if code else next(iter(made.values()))


def _box_counts(record: Round, problem: Problem, texts: Sequence[str]) -> tuple[list[float | None], tuple[str, ...]]:
    """The counts in boxes, one for each pool in order; the boxes say themselves what is in them."""
    rows = record.pool_keys
    if not texts:
        raise ValueError("no counts were typed: fill in the boxes.")
    if len(texts) != len(rows):
        raise ValueError(f"there are {len(texts)} counts and {len(rows)} pools in the round: give one for each pool.")
    noise = record.noise_of_counts(later_noise(problem.noise))
    ((counts,), _) = typed_counts([texts], noise, [[f"{pool} of {name}" for name, pool in rows]])
    return counts, ()


def _table_counts(record: Round, problem: Problem, sent: SentRound) -> tuple[list[float | None], tuple[str, ...]]:
    """The counts in a table: the round's own, or that of a PCR machine."""
    found = read_round_reports(
        record, "The table", problem, data=sent.table, target=sent.target or None, control=sent.control or None
    )
    other = (f"These are the pools of proposal {record.code}.",) if sent.code not in ("", record.code) else ()
    return [None if math.isnan(value) else value for value in found.counts.values()], (*other, *found.notes)


def _has_round(newest: Mapping[str, Any], before: Mapping[str, Any], record: Round) -> bool:
    """Whether the newest counts are some earlier ones with that round: other counts of the round then correct them."""
    rounds = list(newest.get("rounds", ()))
    if not rounds or _plain(rounds[-1]["record"]) != _plain(record.plain):
        return False
    return _plain({**newest, "rounds": rounds[:-1]}) == _plain({**before, "rounds": list(before.get("rounds", ()))})


def _plain(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _page(
    request: Request, app_state: AppState, run: StoredRun, version: int, form: Form, trouble: Trouble | None
) -> Response:
    code = form.text("code")
    found = known_round(app_state, run, version, code)
    record = None if found["record"] is None else Round.from_plain(found["record"])
    noise = noise_of(app_state.bench.prepared(run.id).problem.noise, 0)
    samples = app_state.bench.prepared(run.id).samples
    assert samples is not None  # a run has a plan
    places = {
        name: f"{plate} {well}" for name, plate, well in zip(samples.names, samples.plates, samples.wells, strict=True)
    }
    facts = {
        "run": run,
        "step": "follow-up",
        "version": version,
        "round": record,
        "found": found,
        "places": places,
        # What was typed for one proposal is never in the boxes of another.
        "boxes": form.fields if record is not None and code == record.code else {},
        "results": reports_of(noise).binary,
        "machine": detector(noise) is not None,
        "trouble": trouble,
    }
    return show(request, "follow_up.html", facts, 200 if trouble is None else 422)


def known_round(app_state: AppState, run: StoredRun, version: int, code: str = "") -> dict[str, Any]:
    """The pools that were chosen after a version: those of the proposal with that code or, without one, the newest."""
    found = app_state.store.rounds(run.id, version)
    if not found:
        raise HTTPException(404, "No next tests were chosen after this version. Open its calls, and ask for them.")
    named = (one for one in found if code and one["record"] and Round.from_plain(one["record"]).code == code)
    return next(named, found[0])


# Pages of calls: what was found in words, the plate in colours, what else is possible, and files to keep. They come
# after those of a round: `versions/{version}/{name}` would take the address of its page.

SOON = 0.9  # seconds that a page waits for its decode, before it shows progress instead
MAPS = 20  # instances whose plates are drawn
DOWNLOADS = {
    HTML: "Report (HTML)",
    XLSX: "Report (XLSX)",
    REPORT: "Report (CSV)",
    BY_SAMPLE: "Calls, one line per sample (CSV)",
    CALLS: "Calls, one column per sample (CSV)",
    JSON: "Everything (JSON)",
    PROOFS: "Proofs, for qgt check",
    PROOFS_OF_ROUNDS: "Proofs of all rounds, for qgt check (ZIP)",
}


@router.get("/runs/{id}/calls")
def newest(run: KnownRun) -> Response:
    """The calls of the newest version."""
    where = f"versions/{run.versions}" if run.versions else "counts"
    return RedirectResponse(f"/runs/{run.id}/{where}", 303)


@router.get("/runs/{id}/versions/{version}")
def calls_page(version: Version, request: Request, app_state: Here, run: KnownRun) -> Response:
    """The calls of a version; while it is being decoded, how far that is."""
    submission = known_version(app_state, run, version)
    result = app_state.store.result(run.id, version)
    if result is None:
        job = decoding_job(app_state, run, version)
        if job is None:
            words = "Many sheets are being decoded. These counts are kept; this page tries again by itself."
            return show(request, "busy.html", {"words": words}, 429)
        app_state.queue.wait(job, SOON)
        result = app_state.store.result(run.id, version)
        if result is None:
            return job_answer(request, app_state, job)
    if outdated(result):
        return show(request, "outdated.html", {"run": run, "version": version}, 410)
    prepared = app_state.bench.prepared(run.id)
    samples, values = prepared.samples, prepared.problem.values
    assert samples is not None  # a run has a plan
    signs = {} if values is None else value_signs(values)
    order, made = list(Verdict), app_state.store.product_names(run.id, version)
    accounts = sorted(result["results"], key=lambda one: order.index(Verdict(one["verdict"])))
    facts = {
        "run": run,
        "step": "calls",
        "submission": submission,
        "result": result,
        "accounts": accounts,
        "maps": {one["instance"]: plate_maps(_calls(one), samples, _values(one, signs)) for one in accounts[:MAPS]},
        "signs": signs,
        "called": {one["instance"]: _by_call(one) for one in accounts},
        "counts": _counts(submission),
        "notes": all_notes(submission.counts),
        "rounds": len(submission.counts.get("rounds", ())),
        "doubtful": sum(one["verdict"] not in ("certain", "impossible") for one in accounts),
        "impossible": [one["instance"] for one in accounts if one["verdict"] == "impossible"],
        "meanings": {word.value: word.meaning for word in reversed(Verdict) if word.value in result["verdicts"]},
        "downloads": {name: label for name, label in DOWNLOADS.items() if name in made},
        "percent": percent,
        "newest": run.versions == version,
    }
    return show(request, "calls.html", facts)


@router.post("/runs/{id}/versions/{version}/decode")
def again(version: Version, app_state: Here, run: KnownRun, form: Sent) -> Response:
    """Decode a version after all, where that was cancelled or failed."""
    known_version(app_state, run, version)
    decode_again(app_state, run, version)
    return RedirectResponse(f"/runs/{run.id}/versions/{version}", 303)


@router.get("/runs/{id}/versions/{version}/report")
def report(version: Version, app_state: Here, run: KnownRun) -> Response:
    """The report as a page to print."""
    return standalone(_product(app_state, run, version, HTML))


@router.get("/runs/{id}/versions/{version}/counts")
def source(version: Version, app_state: Here, run: KnownRun) -> Response:
    """The counts as they came."""
    content = app_state.store.source(run.id, version)
    if content is None:
        raise HTTPException(404, "This run has no such version of its counts.")
    return download(content, f"counts-{run.id}-{version}.{'xlsx' if content.startswith(b'PK') else 'csv'}")


@router.get("/runs/{id}/versions/{version}/{name}")
def product(version: Version, name: str, app_state: Here, run: KnownRun) -> Response:
    """A file made of a version."""
    stem, _, kind = name.partition(".")
    return download(_product(app_state, run, version, name), f"{stem}-{run.id}-{version}.{kind}")


def _counts(submission: Submission) -> dict[str, list[tuple[str, int | float | str | None]]]:
    """For each set of counts, every pool with its count; a text where nothing was detected."""
    given = submission.counts
    rows = zip(given["names"], given["values"], strict=True)
    return {name: list(zip(given["pools"], row, strict=True)) for name, row in rows}


def outdated(result: Mapping[str, Any]) -> bool:
    """Whether a result was made before every sample had a call of its own: its files may show doubt as a negative."""
    return any("calls" not in one for one in result["results"])


def _calls(account: Mapping[str, Any]) -> dict[str, Call]:
    """Every sample's call, of an account as plain data."""
    return {sample: Call(word) for sample, word in account["calls"].items()}


def _by_call(account: Mapping[str, Any]) -> dict[str, list[str]]:
    """The samples of each call, positive ones with their copies or category."""
    found: dict[str, list[str]] = {word.value: [] for word in Call}
    values = account.get("values", {})
    for sample, word in account["calls"].items():
        label = values.get(sample, {}).get("called") or ""
        found[word].append(valued(sample, label if word == Call.POSITIVE.value else ""))
    return found


def _values(account: Mapping[str, Any], signs: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The sign and the words of each sample with copies or a category, of an account as plain data."""
    named = {sample: one["called"] for sample, one in account.get("values", {}).items()}
    return {sample: (signs[label], label) for sample, label in named.items() if label in signs}


def _product(app_state: AppState, run: StoredRun, version: int, name: str) -> bytes:
    content = app_state.store.product(run.id, version, name) if name in DOWNLOADS else None
    result = app_state.store.result(run.id, version)
    if result is not None and outdated(result):
        raise HTTPException(410, "An earlier version of qgt made this file: enter the counts again to make a new one.")
    if content is None:
        raise HTTPException(404, "There is no such file: it is made once the counts are decoded.")
    return content
