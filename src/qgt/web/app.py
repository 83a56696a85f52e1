"""The application: routes behind the guard, and errors as pages in plain words."""

import logging
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from importlib.resources import files

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from qgt.web import calls, counting, planning, runs, start
from qgt.web.api import PREFIX, about_api, make_api
from qgt.web.middleware import AccessLog, AccessMiddleware, RequestRate
from qgt.web.settings import Settings
from qgt.web.state import AppState, show

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


def make_app(app_state: AppState) -> ASGIApp:
    """The application of one `AppState`; two applications share nothing."""
    # Without the pages about the routes that FastAPI makes: they load scripts from another machine.
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, lifespan=_lifespan)
    app.state.shared = app_state
    for part in (start, planning, runs, counting, calls):
        app.include_router(part.router)
    app.add_api_route("/static/{name}", _static, methods=["GET"])
    app.add_api_route("/api", about_api, methods=["GET"])
    app.mount(PREFIX, make_api(app_state))
    app.add_exception_handler(HTTPException, _told)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(ValueError, _refused)
    app.add_exception_handler(Exception, _failed)
    settings = app_state.settings
    access, rate = AccessLog.open(settings), RequestRate(settings.most_requests)
    return AccessMiddleware(app, settings, app_state.secret, access, rate)


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    yield
    app.state.shared.queue.close()


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


# Starting a server, and stopping it: uvicorn around the application, with limits of its own.

MOST_CONNECTIONS, IDLE = 500, 10  # at once; seconds after which a silent one is closed


def serve(settings: Settings, on_start: Callable[[str], None]) -> None:
    """Serve until the process is asked to end; `on_start` is given the address."""
    with _listening(settings) as own:
        settings = replace(settings, port=own.getsockname()[1])
        server = _server(AppState.open(settings))
        on_start(settings.address)
        with suppress(KeyboardInterrupt):  # uvicorn ends in good order, and then raises it again
            server.run(sockets=[own])


@contextmanager
def in_background(settings: Settings) -> Iterator[AppState]:
    """A server in a thread, for tests and measurements; the settings that it returns have the free port."""
    with _listening(settings) as own:
        app_state = AppState.open(replace(settings, port=own.getsockname()[1]))
        server = _server(app_state)
        thread = threading.Thread(target=server.run, args=([own],), daemon=True)
        thread.start()
        try:
            while not server.started and thread.is_alive():
                thread.join(0.005)
            yield app_state
        finally:
            server.should_exit = True
            thread.join(timeout=30.0)


@contextmanager
def _listening(settings: Settings) -> Iterator[socket.socket]:
    """The socket, bound before anything else is done: a port that is taken is said in words."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio lets answers go out at once (TCP_NODELAY) only where a socket names its protocol. Without it the second
    # part of every answer waits 40 ms until the client acknowledges the first.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            own.bind((settings.host, settings.port))
        except OSError as error:
            raise ValueError(
                f"{settings.host}, port {settings.port}: cannot be used ({error.strerror}); "
                "give another address or port."
            ) from error
        yield own


def _server(app_state: AppState) -> uvicorn.Server:
    return uvicorn.Server(
        uvicorn.Config(
            make_app(app_state),
            ws="none",
            log_level="warning",
            server_header=False,
            proxy_headers=False,  # nobody in front of us is trusted to say who asks
            timeout_keep_alive=IDLE,
            timeout_graceful_shutdown=5,
            limit_concurrency=MOST_CONNECTIONS,
            h11_max_incomplete_event_size=2**16,
        )
    )
