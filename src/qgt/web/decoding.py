"""The job that decodes a version of a run's counts and keeps all that comes of it."""

import time

from qgt.lab.answers.decoding import DecodedSheet, decode_sheet
from qgt.lab.answers.outputs import about_file, products, sheet_facts, verdict_counts
from qgt.lab.rounds.follow_up import round_facts, round_products
from qgt.model.problem import Problem
from qgt.version import __version__
from qgt.web.house import House
from qgt.web.jobs import Full, Job
from qgt.web.rounds import decoded, tensor_of
from qgt.web.store import Run, Submission


def decoding_job(house: House, run: Run, version: int) -> Job | None:
    """The job that decodes a version, newly queued if need be; None where the queue is full."""
    key = f"decode {run.id} {version}"
    last = house.queue.find(key)
    if last is not None and last.state in ("failed", "cancelled"):
        return last  # begun again only when somebody asks for it
    return decode_again(house, run, version)


def decode_again(house: House, run: Run, version: int) -> Job | None:
    """Queue the decoding of a version, whatever became of it before."""
    where = f"/runs/{run.id}/versions/{version}"

    def work(job: Job) -> str:
        decode(house, run, version, job)
        return where

    title = f"Decoding {run.name}, version {version}"
    job = Job(f"decode {run.id} {version}", title, work, where, house.settings.longest)
    try:
        return house.queue.add(job)
    except Full:
        return None


def ready_job(house: House, run: Run) -> None:
    """Measure, while somebody types the counts, how far answers can be trusted: decoding then waits for nothing."""

    def work(job: Job) -> str:
        house.bench.prepared(run.id).decoder.learned()
        return job.back

    if not house.bench.ready(run.id):
        try:
            house.queue.add(Job(f"ready {run.id}", run.name, work, f"/runs/{run.id}", house.settings.longest))
        except Full:
            return  # the decoding itself measures it then


def decode(house: House, run: Run, version: int, job: Job) -> None:
    """Decode a version and keep its result, unless it has one already."""
    submission = house.store.submission(run.id, version)
    if submission is None:
        raise ValueError(f"version {version} of this run is not there: enter its counts first.")
    if house.store.result(run.id, version) is not None:
        return
    if submission.counts.get("rounds"):
        return _decode_rounds(house, run, submission, job)
    job.report("Measuring on simulated plates how far answers can be trusted")
    prepared = house.bench.prepared(run.id)
    prepared.decoder.learned()
    job.report("Decoding")

    def on_progress(done: int, of: int) -> None:
        job.report(f"Decoded {done:,} of {of:,}", done, of)

    y, names = tensor_of(submission.counts), submission.counts["names"]
    start = time.perf_counter()
    sheet = decode_sheet(prepared.problem, y, names, prepared.decoder, on_progress=on_progress)
    decoder = prepared.decoder_name
    took = time.perf_counter() - start
    foot = _foot(run, submission, prepared.problem, decoder)
    made = products(sheet, title=run.name, decoder=decoder, facts=foot, samples=prepared.samples)
    house.store.add_result(run.id, version, _facts(sheet, took, decoder), made)


def _decode_rounds(house: House, run: Run, submission: Submission, job: Job) -> None:
    """Decode a version that has later rounds, all of them together."""
    job.report("Decoding all rounds together")
    prepared, start = house.bench.prepared(run.id), time.perf_counter()
    found, before = decoded(prepared.problem, submission.counts, house.settings)
    facts = round_facts(found, 1 + len(before), prepared.decoder_name, prepared.problem.fingerprint)
    shown = {
        "verdicts": {word.value: number for word, number in verdict_counts(found.accounts).items()},
        "file": [],
        "file_suspect": False,
        "seconds": time.perf_counter() - start,
    }
    job.report("Writing the report and the proofs")
    foot = _foot(run, submission, prepared.problem, prepared.decoder_name)
    seconds, samples = house.settings.seconds, prepared.samples
    made = round_products(found, title=run.name, plain=facts, facts=foot, seconds=seconds, samples=samples)
    house.store.add_result(run.id, submission.version, {**facts, **shown}, made)


def _facts(sheet: DecodedSheet, took: float, decoder: str) -> dict[str, object]:
    """What the page of calls shows."""
    return {
        **sheet_facts(sheet, decoder),
        "verdicts": {word.value: number for word, number in verdict_counts(sheet.accounts).items()},
        "file": about_file(sheet),
        "file_suspect": sheet.fit is not None and sheet.fit.suspect,
        "seconds": took,
    }


def _foot(run: Run, submission: Submission, problem: Problem, decoder: str) -> dict[str, object]:
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
