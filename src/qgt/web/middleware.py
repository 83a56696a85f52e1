"""The guard at the door: what every request has to pass, and what every answer carries.

    Host        only names that this machine is known by: a page elsewhere cannot pose as this one (DNS rebinding)
    Origin      a request that changes something comes from our own pages, by the browser's own word
    body        at most so many bytes, in at most so many seconds
    token       on an address that others reach, nobody enters without it
    rate        at most so many requests a minute from one address
    answers     no script or style but our own files, no frames, no request off the machine, nothing cached

Forms carry a second proof, which `state.read_form` checks: a word that only our own pages know. Every request leaves a
line in the access log: when, from where, which address, and what came of it; never what was sent.
"""

import asyncio
import hmac
import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from logging.handlers import RotatingFileHandler
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from qgt.web.settings import Settings

PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": PAGE_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with none at all, browsers send our own forms without an origin
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
SAFE = ("GET", "HEAD")
API = "/api/v1/"  # refusals are JSON there
COOKIE, SIGN_IN = "qgt_entry", "/sign-in"
OPEN_PATHS = (SIGN_IN, "/static/")  # what may be seen before the token is given


@dataclass(frozen=True)
class Secret:
    """What only this server knows; everything that it hands out is derived from it."""

    key: bytes

    def word(self, purpose: str) -> str:
        """A word for one purpose that nobody else can make."""
        return hmac.new(self.key, purpose.encode(), "sha256").hexdigest()

    @property
    def form(self) -> str:
        """What our own forms carry."""
        return self.word("form")

    def entry(self, token: str) -> str:
        """What the browser of somebody who knew the token carries."""
        return self.word(f"entry {token}")


@dataclass(frozen=True)
class AccessMiddleware:
    """The application, behind checks of every request."""

    app: ASGIApp
    settings: Settings
    secret: Secret
    access: "AccessLog"
    rate: "RequestRate"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer what may not pass, hand on the rest, and note all of it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            self.access.handler.close()
        elif scope["type"] == "http":
            begun, status = time.perf_counter(), 0

            async def noted(message: Message) -> None:
                nonlocal status
                status = message.get("status", status)
                await send(message)

            try:
                await self._answer(scope, receive, noted)
            finally:
                self.access.note(scope, status or 500, time.perf_counter() - begun)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        answer = self._refusal(scope, headers)
        if answer is not None:
            await answer(scope, receive, _with_headers(send))
            return
        try:
            whole = await asyncio.wait_for(self._whole_body(headers, receive), self.settings.slowest_body)
        except TooLarge:
            most = f"{self.settings.largest_body / 2**20:.0f} MB"
            refused = _words(
                scope, 413, f"This is larger than {most}, the most that is taken at once. Send it in parts."
            )
            await refused(scope, receive, _with_headers(send))
            return
        except TimeoutError:
            refused = _words(scope, 408, "The request took too long to arrive. Send it again.")
            await refused(scope, receive, _with_headers(send))
            return
        await self.app(scope, _once(whole, receive), _with_headers(send))

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """The answer to a request that may not pass."""
        method, path = scope["method"], scope["path"]
        hosts = headers.getlist("host")
        if not self.rate.allows(_client(scope)):
            busy = _words(scope, 429, f"More than {self.rate.most:,} requests in a minute. Wait, and try again.")
            busy.headers["Retry-After"] = str(SPAN)
            return busy
        if len(hosts) != 1 or host_name(hosts[0]) not in self.settings.known_names:
            return _words(scope, 421, "This server is not known by that name. Use the address that qgt serve printed.")
        if method not in (*SAFE, "POST"):
            return _words(scope, 405, "This server takes GET and POST only.")
        if method not in SAFE and not _from_our_pages(headers, hosts[0]):
            return _words(scope, 403, "This came from a page of another site. Open the form here, and send it again.")
        if path.startswith(OPEN_PATHS) or self.settings.token is None or self._entered(headers, self.settings.token):
            return None
        if path.startswith(API):
            return _words(scope, 401, "Send the token of this server: Authorization: Bearer TOKEN.")
        if method in SAFE:
            return RedirectResponse(SIGN_IN, 303)
        return _words(scope, 401, "Give the token first: open the page, and sign in.")

    def _entered(self, headers: Headers, token: str) -> bool:
        """Whether the visitor has shown the token, by a cookie of ours or as a program does."""
        given = headers.get("authorization", "")
        if given.startswith("Bearer ") and same(given.removeprefix("Bearer "), token):
            return True
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return found is not None and same(found.value, self.secret.entry(token))

    async def _whole_body(self, headers: Headers, receive: Receive) -> bytes:
        """The body, once all of it is there: nothing behind the guard waits for a slow sender."""
        most = self.settings.largest_body
        stated = headers.get("content-length", "0")
        if not stated.isdigit() or int(stated) > most:
            raise TooLarge
        parts, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                break
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > most:
                raise TooLarge
            more = message.get("more_body", False)
        return b"".join(parts)


class TooLarge(Exception):
    """A body of more bytes than are taken."""


def host_name(host: str) -> str:
    """The name in a Host header, without the port.

    Example:
        >>> host_name("Localhost:8421"), host_name("[::1]:8421"), host_name("a@b:1")
        ('localhost', '::1', '')
    """
    try:
        parts = urlsplit(f"//{host}")
        _ = parts.port
    except ValueError:
        return ""
    return "" if parts.username is not None or parts.path else (parts.hostname or "")


def same(one: str, other: str) -> bool:
    """Whether two words are the same, in a time that does not tell how much of them is."""
    return hmac.compare_digest(one.encode(errors="replace"), other.encode(errors="replace"))


def _from_our_pages(headers: Headers, host: str) -> bool:
    """Browsers say where a request comes from; programs, which carry nobody's trust, say nothing."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc.lower() == host.lower()


def _words(scope: Scope, status: int, words: str) -> Response:
    if str(scope["path"]).startswith(API):
        return JSONResponse({"error": words}, status)
    return Response(words + "\n", status, media_type="text/plain; charset=utf-8")


def _client(scope: Scope) -> str:
    """The address that a request came from."""
    return str((scope.get("client") or ("",))[0])


# How often, and a line for each request.

SPAN = 60  # seconds
MOST_CLIENTS = 10_000  # addresses that are remembered in a minute


@dataclass(frozen=True, eq=False)
class RequestRate:
    """At most so many requests from one address in each minute.

    Example:
        >>> rate = RequestRate(most=2)
        >>> [rate.allows("10.0.0.1") for _ in range(3)], rate.allows("10.0.0.2")
        ([True, True, False], True)
    """

    most: int
    _seen: dict[str, int] = field(default_factory=dict)
    _minute: list[int] = field(default_factory=lambda: [0])

    def allows(self, client: str) -> bool:
        """Whether one more request of an address is taken."""
        minute = int(time.monotonic() // SPAN)
        if minute != self._minute[0] or len(self._seen) > MOST_CLIENTS:
            self._minute[0] = minute
            self._seen.clear()
        self._seen[client] = self._seen.get(client, 0) + 1
        return self._seen[client] <= self.most


LOG_NAME, LOG_BYTES, LOGS_KEPT = "access.log", 10 * 2**20, 5


@dataclass(frozen=True, eq=False)
class AccessLog:
    """A line of JSON for each request, in a file that is replaced before it grows large."""

    handler: RotatingFileHandler

    @classmethod
    def open(cls, settings: Settings) -> "AccessLog":
        """The log of a server's folder."""
        path = settings.folder / LOG_NAME
        return cls(RotatingFileHandler(path, maxBytes=LOG_BYTES, backupCount=LOGS_KEPT, encoding="utf-8", delay=True))

    def note(self, scope: Scope, status: int, seconds: float) -> None:
        """Write a line; what was sent, and queries, which may hold names, are not in it."""
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "client": _client(scope),
            "method": scope["method"],
            "path": scope["path"],
            "status": status,
            "ms": round(1000 * seconds, 1),
        }
        self.handler.emit(logging.LogRecord("qgt.access", logging.INFO, "", 0, json.dumps(line), None, None))


def _with_headers(send: Send, extra: Mapping[str, str] = HEADERS) -> Send:
    """Add to an answer the headers that it does not set itself."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in extra.items():
                headers.setdefault(name, value)
        await send(message)

    return sending


def _once(body: bytes, receive: Receive) -> Receive:
    """A body that is already here, then whatever comes after it."""
    given = False

    async def receiving() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receiving
