"""Pages of calls: what was found in words, the plate in colours, what else is possible, and files to keep."""

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import RedirectResponse, Response

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
from qgt.lab.verdicts import Call, Verdict
from qgt.lab.wording import percent
from qgt.web.decoding import decode_again, decoding_job
from qgt.web.runs import KnownRun, Version, download, known_version, standalone
from qgt.web.start import job_answer
from qgt.web.state import AppState, Here, Sent, show
from qgt.web.store import StoredRun, Submission

router = APIRouter()
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
