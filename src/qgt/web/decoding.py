"""The job that decodes a version of a run's counts and keeps all that comes of it."""

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from qgt.lab.answers.decoding import ByLongerLists, DecodedSheet, decode_history
from qgt.lab.answers.outputs import about_file, sheet_facts, verdict_counts
from qgt.lab.rounds import (
    FilledRound,
    Proposed,
    Round,
    after_rounds,
    as_round,
    proposal_in_words,
    propose,
    why_no_pools,
)
from qgt.lab.sheets.counts import CountSheet
from qgt.model.problem import Problem
from qgt.rounds.history import History
from qgt.rounds.stopping import Settle
from qgt.version import __version__
from qgt.web.jobs import Full, Job
from qgt.web.settings import Settings
from qgt.web.state import AppState, SettledVersion
from qgt.web.store import StoredRun, Submission

# Follow-up rounds of a run: the next pools for every plate that is not certain, and all rounds decoded together.

CONFIDENCE = 0.99  # where to stop: what the verdict `certain` asks for
ROUNDS_SEED = 0


def settled_version(app_state: AppState, run: StoredRun, submission: Submission) -> SettledVersion:
    """The plates of a version with all their rounds, decoded; kept, so that another proposal need not wait for it."""
    key = f"{run.id} {submission.version}"
    found = app_state.settled.get(key)
    if found is None:
        found = _settled(app_state.bench.prepared(run.id).problem, submission.counts, app_state.settings)
        app_state.settled.put(key, found)
    return found


def _settled(problem: Problem, counts: Mapping[str, Any], settings: Settings) -> SettledVersion:
    first = [History.start(problem, row) for row in tensor_of(counts, problem)]
    histories, before = after_rounds(first, counts["names"], [*map(_filled, counts.get("rounds", ()))])
    way = ByLongerLists(Settle(confidence=CONFIDENCE, time_limit=settings.seconds), _generator())
    sheet = decode_history(problem, histories, counts["names"], way, rounds=1 + len(before))
    return SettledVersion(replace(sheet, notes=all_notes(counts)), before)


def proposal(version: SettledVersion, *, pools: int, at_most: int | None) -> dict[str, object]:
    """The pools to test next after a version, as the store keeps them.

    Plates whose counts do not fit get no new pools but the names of those to count again: a correction settles them.
    """
    found, before = version
    proposed = propose(
        found,
        confidence=CONFIDENCE,
        pools=pools,
        at_most=at_most,
        risk=(1 - CONFIDENCE) / 2,
        generator=_generator(),
    )
    new, again = [one for one in proposed if not one.repeats], [one for one in proposed if one.repeats]
    record = as_round(found, new, before, found.problem.design.fingerprint)
    given = {one.account.name for one in proposed}
    stuck = [one for one in found.accounts if one.name not in given and str(one.verdict) != "certain"]
    return {
        "record": record.plain if new else None,
        "words": {one.account.name: proposal_in_words(one) for one in new},
        "again": {one.account.name: list(one.repeats) for one in again},
        "stuck": [one.name for one in stuck],
        "why_stuck": {one.name: why_no_pools(one, confidence=CONFIDENCE, at_most=at_most) for one in stuck},
        "tests": sum(map(_tests, new)),
    }


def tensor_of(counts: Mapping[str, Any], problem: Problem) -> torch.Tensor:
    """The counts of a submission; one that is missing is NaN, and a text is a cycle threshold of nothing detected."""
    rows = [[_number(value) for value in row] for row in counts["values"]]
    # (instances, pools), or (instances, pools, categories)
    return torch.tensor(rows, dtype=torch.float64).view(len(rows), *problem.report_shape)


def _number(value: int | float | str | None) -> float:
    if isinstance(value, str):
        return math.inf
    return math.nan if value is None else float(value)


def all_notes(counts: Mapping[str, Any]) -> list[str]:
    """What was assumed when the counts of a submission were read, those of its later rounds included."""
    rounds = [(number, one.get("notes", ())) for number, one in enumerate(counts.get("rounds", ()), 2)]
    later = [f"Round {number}: {' '.join(notes)}" for number, notes in rounds if notes]
    return [*counts.get("notes", ()), *later]


def _filled(one: Mapping[str, Any]) -> FilledRound:
    """A round that was entered here, as the lab takes it."""
    record = Round.from_plain(one["record"])
    values = [_number(count) for count in one["counts"]]
    return FilledRound(f"round {record.number}", record, dict(zip(record.pool_keys, values, strict=True)))


def _tests(one: Proposed) -> int:
    return len(one.pools.matrix)


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(ROUNDS_SEED)


# The job.


def decoding_job(app_state: AppState, run: StoredRun, version: int) -> Job | None:
    """The job that decodes a version, newly queued if need be; None where the queue is full."""
    key = f"decode {run.id} {version}"
    last = app_state.queue.find(key)
    if last is not None and last.state in ("failed", "cancelled"):
        return last  # begun again only when somebody asks for it
    return decode_again(app_state, run, version)


def decode_again(app_state: AppState, run: StoredRun, version: int) -> Job | None:
    """Queue the decoding of a version, whatever became of it before."""
    where = f"/runs/{run.id}/versions/{version}"

    def work(job: Job) -> str:
        decode_version(app_state, run, version, job)
        return where

    title = f"Decoding {run.name}, version {version}"
    job = Job(f"decode {run.id} {version}", title, work, where, app_state.settings.longest)
    try:
        return app_state.queue.add(job)
    except Full:
        return None


def ready_job(app_state: AppState, run: StoredRun) -> None:
    """Measure, while somebody types the counts, how far answers can be trusted: decoding then waits for nothing."""

    def work(job: Job) -> str:
        app_state.bench.prepared(run.id).prepare()
        return job.back

    if not app_state.bench.ready(run.id):
        try:
            app_state.queue.add(Job(f"ready {run.id}", run.name, work, f"/runs/{run.id}", app_state.settings.longest))
        except Full:
            return  # the decoding itself measures it then


def decode_version(app_state: AppState, run: StoredRun, version: int, job: Job) -> None:
    """Decode a version and keep its result, unless it has one already."""
    submission = app_state.store.submission(run.id, version)
    if submission is None:
        raise ValueError(f"version {version} of this run is not there: enter its counts first.")
    if app_state.store.result(run.id, version) is not None:
        return
    sheet, took = _decoded(app_state, run, submission, job)
    job.report("Writing the report and the proofs")
    decoder = app_state.bench.prepared(run.id)
    made = decoder.files(sheet, title=run.name, facts=_foot(run, submission, decoder.problem, decoder.name))
    app_state.store.add_result(run.id, version, _facts(sheet, took, decoder.name), made)


def _decoded(app_state: AppState, run: StoredRun, submission: Submission, job: Job) -> tuple[DecodedSheet, float]:
    """A version, decoded: one round by what was measured for its problem, or all rounds together; and the seconds."""
    decoder = app_state.bench.prepared(run.id)
    if submission.counts.get("rounds"):
        job.report("Decoding all rounds together")
        start = time.perf_counter()
        return settled_version(app_state, run, submission).sheet, time.perf_counter() - start
    job.report("Measuring on simulated plates how far answers can be trusted")
    decoder.prepare()
    job.report("Decoding")

    def on_progress(done: int, of: int) -> None:
        job.report(f"Decoded {done:,} of {of:,}", done, of)

    counts, start = submission.counts, time.perf_counter()
    read = CountSheet(tensor_of(counts, decoder.problem), tuple(counts["names"]), tuple(counts["notes"]))
    return decoder.decode(read, on_progress=on_progress), time.perf_counter() - start


def _facts(sheet: DecodedSheet, took: float, decoder: str) -> dict[str, object]:
    """What the page of calls shows."""
    about = about_file(sheet)
    return {
        **sheet_facts(sheet, decoder),
        "verdicts": {word.value: number for word, number in verdict_counts(sheet.accounts).items()},
        "file": about,
        "file_suspect": bool(about) and sheet.fit is not None and sheet.fit.suspect,
        "seconds": took,
    }


def _foot(run: StoredRun, submission: Submission, problem: Problem, decoder: str) -> dict[str, object]:
    """What the foot of the report says, so that it can be traced."""
    return {
        "run": f"{run.name} ({run.id})",
        "design": run.facts.get("design", ""),
        "counts": f"version {submission.version}, {submission.way}",
        "entered": time.strftime("%Y-%m-%d %H:%M", time.localtime(submission.made)),
        "decoder": decoder,
        "problem": problem.fingerprint,
        "version": f"qgt {__version__}",
    }
