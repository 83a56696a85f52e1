"""Pages about one run: what it is, its sheets to print, its files, and its audit trail."""

import io
import json
import zipfile
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Path, Request
from fastapi.responses import Response

from qgt.lab.plan.folder import LOAD_COLUMNS, stored_load_cells
from qgt.pictures.pages import CONTENT_POLICY
from qgt.web.state import AppState, Here, show
from qgt.web.store import StoredRun, Submission

router = APIRouter()
STANDALONE = f"{CONTENT_POLICY}; frame-ancestors 'none'; sandbox allow-modals"
FILE_KINDS = {
    "html": "text/html; charset=utf-8",
    "csv": "text/csv; charset=utf-8",
    "json": "application/json",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}


def known_run(id: str, app_state: Here) -> StoredRun:
    """The run of an address."""
    run = app_state.store.run(id)
    if run is None:
        raise HTTPException(404, "There is no such run on this server. Look for it among the past runs.")
    return run


KnownRun = Annotated[StoredRun, Depends(known_run)]
LARGEST_NUMBER = 2**31 - 1  # of whole numbers in an address: the database takes no more than 64 bits
Version = Annotated[int, Path(ge=1, le=LARGEST_NUMBER)]  # of a run's counts; a link to any other number is not found


def known_version(app_state: AppState, run: StoredRun, version: int) -> Submission:
    """A version of a run's counts."""
    found = app_state.store.submission(run.id, version) if version > 0 else None
    if found is None:
        raise HTTPException(404, "This run has no such version of its counts.")
    return found


@router.get("/runs/{id}")
def run_page(request: Request, app_state: Here, run: KnownRun) -> Response:
    """What a run is, what is next, and everything that happened to it."""
    plan = app_state.store.file(run.id, "plan.json")
    candidates = [] if plan is None else json.loads(plan).get("candidates", [])
    columns = LOAD_COLUMNS if any("too_weak" in one for one in candidates) else ()
    facts = {
        "run": run,
        "candidates": [(one, stored_load_cells(one) if columns else []) for one in candidates],
        "load_columns": columns,
        "submissions": app_state.store.submissions(run.id),
        "verdicts": app_state.store.verdicts(run.id),
        "files": sorted(app_state.store.files(run.id)),
        "trail": app_state.store.trail(run.id),
        "step": "run",
    }
    return show(request, "run.html", facts)


@router.get("/runs/{id}/print")
def print_page(request: Request, app_state: Here, run: KnownRun) -> Response:
    """What to print and what to give to a robot."""
    names = sorted(app_state.store.files(run.id))
    facts = {
        "run": run,
        "step": "print",
        "blanks": [name for name in names if name.startswith("counts.")],
        "worklists": [name for name in names if name.startswith("worklists/")],
    }
    return show(request, "print.html", facts)


@router.get("/runs/{id}/plan.zip")
def plan_zip(app_state: Here, run: KnownRun) -> Response:
    """The plan's folder, to keep or to use with the command."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in app_state.store.files(run.id).items():
            archive.writestr(name, content)
    return download(stream.getvalue(), f"plan-{run.id}.zip")


@router.get("/runs/{id}/sheets/{name:path}")
def sheet(name: str, app_state: Here, run: KnownRun) -> Response:
    """A printable page of the plan, as the plan's folder has it."""
    content = app_state.store.file(run.id, name)
    if content is None or not name.endswith(".html"):
        raise HTTPException(404, "This plan has no such sheet.")
    return standalone(content)


@router.get("/runs/{id}/files/{name:path}")
def file(name: str, app_state: Here, run: KnownRun) -> Response:
    """A file of the plan; only names that the lab gave it are known."""
    content = app_state.store.file(run.id, name)
    if content is None:
        raise HTTPException(404, "This plan has no such file.")
    return download(content, name.rsplit("/", 1)[-1])


def standalone(content: bytes) -> Response:
    """A page that carries its own style, and may do nothing else."""
    return Response(content, media_type=FILE_KINDS["html"], headers={"Content-Security-Policy": STANDALONE})


def download(content: bytes, name: str) -> Response:
    """A file to keep, under a name of ours."""
    kind = FILE_KINDS.get(name.rsplit(".", 1)[-1], "application/octet-stream")
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    if kind == FILE_KINDS["html"]:
        headers["Content-Security-Policy"] = STANDALONE
    return Response(content, media_type=kind, headers=headers)
