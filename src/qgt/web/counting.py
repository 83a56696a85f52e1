"""Entering counts: typed into boxes, pasted from a spreadsheet, or as a file; each time all of it is kept."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from qgt.files.tables import MISSING, NOT_DETECTED, report_cell, table_bytes
from qgt.lab.answers.service import SheetDecoder
from qgt.lab.reported import NOTHING_WORDS, REPORT_WORDS, detector, read_reports
from qgt.lab.sheets.counts import noise_of_reports
from qgt.model.categories import Copies
from qgt.model.noise import Noise, Reads, noise_of, reports_of
from qgt.model.problem import Problem
from qgt.web.decoding import ready_job
from qgt.web.runs import LARGEST_NUMBER, KnownRun
from qgt.web.state import AppState, Form, Here, Sent, Trouble, show
from qgt.web.store import StoredRun

router = APIRouter()
MOST_TYPED = 12  # plates in one form of boxes
SOURCE_WORDS = {"pasted": "The pasted counts", "uploaded": "The file"}


@dataclass(frozen=True)
class Entered:
    """Counts as they came, and as they were read."""

    source: bytes
    names: tuple[str, ...]
    values: Sequence[Sequence[float | None]]  # None where one is missing
    notes: tuple[str, ...] = ()


@router.get("/runs/{id}/counts")
def counts_page(
    request: Request,
    app_state: Here,
    run: KnownRun,
    version: Annotated[int, Query(ge=0, le=LARGEST_NUMBER)] = 0,
    plates: Annotated[int, Query(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)] = 1,
) -> Response:
    """The form; for a correction, with the counts of a version in its boxes."""
    ready_job(app_state, run)
    earlier = app_state.store.submission(run.id, version) if version else None
    if earlier is None:
        return _form(request, app_state, run, {}, plates=plates)
    rows = len(earlier.counts["names"])
    if rows > MOST_TYPED:  # boxes for some of them would lose the others
        return _form(request, app_state, run, {}, plates=1, too_many=version)
    return _form(request, app_state, run, _boxes(earlier.counts), plates=rows)


@router.post("/runs/{id}/counts")
def enter(request: Request, app_state: Here, run: KnownRun, form: Sent) -> Response:
    """Keep a sheet of counts as a new version, or say what is wrong with it and keep what was typed."""
    way = form.text("way")
    prepared = app_state.bench.prepared(run.id)
    try:
        note = form.line("note", most=500)
        if way == "typed":
            entered = typed(form, prepared.problem)
        elif way in SOURCE_WORDS:
            sent, words = _sent(form, way), SOURCE_WORDS[way]
            entered = read_table(sent, words, prepared, form.line("target"), form.line("control"))
        else:
            raise ValueError("way is missing: type the counts, paste them, or choose a file.")
        check_size(app_state, entered)
        _refuse_overtaken(form, run)
    except ValueError as error:
        app_state.store.refuse(run.id, f"{way}: {error}")
        trouble = Trouble(str(error), way)
        plates = min(MOST_TYPED, sum(name.startswith("plate-") for name in form.fields) or 1)
        return _form(request, app_state, run, form.fields, plates=plates, trouble=trouble)
    version = keep(app_state, run.id, way, note, entered, prepared.problem.report_names)
    return RedirectResponse(f"/runs/{run.id}/versions/{version}", 303)


def keep(app_state: AppState, run: str, way: str, note: str, entered: Entered, pools: tuple[str, ...]) -> int:
    """Keep counts as a run's next version; the same counts once more are not a new version."""
    counts = {
        "names": list(entered.names),
        "pools": list(pools),
        "values": [[NOT_DETECTED if value == math.inf else value for value in row] for row in entered.values],
        "notes": list(entered.notes),
    }
    last = app_state.store.submission(run, 0)
    if last is not None and last.counts == counts:  # a second click, or nothing was changed
        return last.version
    return app_state.store.submit(run, way, note, entered.source, counts)


def typed(form: Form, problem: Problem) -> Entered:
    """The counts in the boxes of a form; a box left empty is a count that is missing."""
    pools, noise = (
        problem.report_names,
        noise_of_reports(problem.noise, problem.pools, len(problem.reported_categories) or 1),
    )
    plates = [plate for plate in range(MOST_TYPED) if f"plate-{plate}" in form.fields]
    names = [form.line(f"plate-{plate}") or str(plate + 1) for plate in plates]
    texts = [[form.text(f"count-{plate}-{pool}") for pool in range(len(pools))] for plate in plates]
    values, notes = typed_counts(texts, noise, [[f"{pool} of {name}" for pool in pools] for name in names])
    for name, row in zip(names, values, strict=True):
        if all(value is None for value in row):
            raise ValueError(f"{name} has no counts: fill in its boxes.")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} is the name of two plates: give each its own.")
    if not names:
        raise ValueError("no counts were typed: fill in the boxes.")
    source = table_bytes(values, row_names=names, column_names=pools, corner="instance")  # the file it could have been
    return Entered(source, tuple(names), values, notes)


def check_size(app_state: AppState, entered: Entered) -> None:
    """Refuse sheets that are larger than a decode may be."""
    settings, rows = app_state.settings, len(entered.values)
    if rows > settings.most_instances:
        raise ValueError(f"There are {rows:,} rows: send {settings.most_instances:,} at most at once.")
    if rows * len(entered.values[0]) > settings.most_cells:
        raise ValueError(f"There are more than {settings.most_cells:,} counts: send fewer rows at once.")


def _sent(form: Form, way: str) -> bytes:
    if way == "pasted":
        text = form.fields.get("pasted", "")
        if not text.strip():
            raise ValueError("nothing was pasted: copy the counts in your spreadsheet, and paste them into the box.")
        return text.encode()
    if not form.upload:
        raise ValueError("no file was chosen, or it is empty: choose a CSV or XLSX file.")
    return form.upload


def read_table(content: bytes, called: str, decoder: SheetDecoder, target: str = "", control: str = "") -> Entered:
    """Counts from a table, as the lab reads them; errors call it by a name of ours."""
    sheet = decoder.read(content, called=called, target=target or None, control=control or None)
    values = [[None if math.isnan(value) else value for value in row] for row in sheet.y.flatten(1).tolist()]
    names = sheet.names or tuple(str(number) for number in range(1, len(values) + 1))
    return Entered(content, tuple(names), values, tuple(sheet.notes))


def typed_counts(
    texts: Sequence[Sequence[str]], noise: Noise, places: Sequence[Sequence[str]]
) -> tuple[list[list[float | None]], tuple[str, ...]]:
    """The counts in boxes, None where one is missing, and notes on words that were read."""
    for row, where in zip(texts, places, strict=True):
        for text, place in zip(row, where, strict=True):
            if text and text.lower() in MISSING:
                raise ValueError(f"{place} holds {text!r}: leave the box empty if the count is missing.")
    values, notes = read_reports(texts, noise, lambda i, pool: places[i][pool], mark=":", mixed=True)
    return [[None if math.isnan(value) else value for value in row] for row in values], notes


def _refuse_overtaken(form: Form, run: StoredRun) -> None:
    """Two people at one form: the second sees what the first entered before their own takes its place."""
    based = form.text("based")
    if based.isascii() and based.isdecimal() and int(based) < run.versions:
        raise ValueError(
            f"version {run.versions} was entered while you were at this form: look at it, then send yours once more."
        )


def _boxes(counts: Mapping[str, Any]) -> dict[str, str]:
    """What stands in the boxes for counts that were entered before."""
    found = {f"plate-{plate}": name for plate, name in enumerate(counts["names"])}
    for plate, row in enumerate(counts["values"]):
        for pool, value in enumerate(row):
            found[f"count-{plate}-{pool}"] = _box(value)
    return found


def _box(value: int | float | str | None) -> str:
    """What is in the box of one count; a text says that nothing was detected."""
    if value is None or isinstance(value, str):
        return value or ""
    return str(report_cell(value))


def _form(
    request: Request,
    app_state: AppState,
    run: StoredRun,
    boxes: Mapping[str, str],
    *,
    plates: int,
    too_many: int = 0,
    trouble: Trouble | None = None,
) -> Response:
    problem = app_state.bench.prepared(run.id).problem
    results = reports_of(noise_of(problem.noise, 0)).binary
    machine = detector(noise_of(problem.noise, 0)) is not None
    degrees, each = set(problem.design.item_degrees.tolist()), len(problem.reported_categories) or 1
    sizes = [size for size in problem.design.pool_sizes.tolist() for _ in range(each)]
    counted = reports_of(problem.noise).counts and not isinstance(problem.values, Copies)
    facts = {
        "run": run,
        "step": "counts",
        "boxes": boxes,
        "pools": problem.pools,
        "reports": list(zip(problem.report_names, sizes, _largest(problem, sizes), strict=True)),
        "unit": _unit(problem),
        "categories": problem.reported_categories,
        "plates": max(1, min(MOST_TYPED, plates)),
        "most_typed": MOST_TYPED,
        "weight": degrees.pop() if len(degrees) == 1 and counted else 0,
        "whole": problem.noise.integer,
        "results": results,
        "machine": machine,
        "nothing": "|".join(sorted(NOTHING_WORDS)),
        "words": "|".join(["-", *REPORT_WORDS]) if results else "",
        "based": run.versions,
        "too_many": too_many,
        "trouble": trouble,
    }
    return show(request, "counts.html", facts, 200 if trouble is None else 422)


def _largest(problem: Problem, sizes: Sequence[int]) -> list[int]:
    """The largest report of each pool of so many samples."""
    if isinstance(problem.noise, Reads):
        return [problem.noise.depth] * len(sizes)
    return [size * problem.values.levels for size in sizes] if isinstance(problem.values, Copies) else list(sizes)


def _unit(problem: Problem) -> str:
    """What reports are numbers of."""
    if isinstance(problem.noise, Reads):
        return "reads"
    return "copies" if isinstance(problem.values, Copies) else "samples"
