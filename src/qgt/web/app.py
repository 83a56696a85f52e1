"""The application: routes behind the guard, and errors as pages in plain words."""

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.resources import files

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from qgt.web import calls, counting, demo, following, planning, runs, start
from qgt.web.guard import Guard
from qgt.web.house import House
from qgt.web.views import show

log = logging.getLogger("qgt.web")
STATIC: Mapping[str, tuple[str, str]] = {
    "page.css": ("qgt.web", "text/css; charset=utf-8"),
    "report.css": ("qgt.pictures", "text/css; charset=utf-8"),
    "counts.js": ("qgt.web", "text/javascript; charset=utf-8"),
}
TITLES = {
    403: "This is not allowed",
    404: "There is no such page",
    422: "This cannot be used as it is",
    429: "The server is busy",
    500: "Something failed here",
}


def make_app(house: House) -> ASGIApp:
    """The application of one house; nothing of it is shared with another."""
    # Without the pages about the routes that FastAPI makes: they load scripts from another machine.
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, lifespan=_lifespan)
    app.state.house = house
    for part in (start, planning, runs, counting, following, calls, demo):
        app.include_router(part.router)
    app.add_api_route("/static/{name}", _static, methods=["GET"])
    app.add_exception_handler(HTTPException, _told)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(ValueError, _refused)
    app.add_exception_handler(Exception, _failed)
    return Guard(app, house.settings, house.secret)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    yield
    app.state.house.queue.close()


def _static(name: str) -> Response:
    if name not in STATIC:
        raise HTTPException(404, "There is no such file.")
    package, kind = STATIC[name]
    folder = files(package) if package == "qgt.pictures" else files(package) / "static"
    source = "page.css" if name == "report.css" else name
    return Response((folder / source).read_bytes(), media_type=kind)


def _error(request: Request, status: int, words: str) -> HTMLResponse:
    title = TITLES.get(status, "This does not work")
    return show(request, "error.html", {"title": title, "words": words}, status)


async def _told(request: Request, error: Exception) -> HTMLResponse:
    assert isinstance(error, HTTPException)
    words = error.detail
    if error.status_code == 404 and words == "Not Found":
        words = "The address may be mistyped, or the run is on another server."
    return _error(request, error.status_code, words)


async def _malformed(request: Request, error: Exception) -> HTMLResponse:
    return _error(request, 404, "The address is not one of this server's.")


async def _refused(request: Request, error: Exception) -> HTMLResponse:
    return _error(request, 422, str(error))


async def _failed(request: Request, error: Exception) -> HTMLResponse:
    """A fault of ours: the log has the details, which Starlette raises again after this answer."""
    log.error("%s %s failed", request.method, request.url.path)
    return _error(request, 500, "This is a fault of the program, not yours. What was entered before is kept.")
