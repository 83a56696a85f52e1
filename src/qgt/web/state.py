"""What every route shares: settings, store, queue, secret, decoders that are ready, forms, and pages from templates."""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Annotated, Generic, NamedTuple, TypeVar

from fastapi import Depends, HTTPException, Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.datastructures import UploadFile

from qgt.files.tables import read_amount, read_number
from qgt.lab.answers.decoding import DecodedSheet
from qgt.lab.answers.service import SheetDecoder
from qgt.lab.plan.folder import read_plan
from qgt.lab.plan.planning import Plan
from qgt.lab.rounds import Round
from qgt.trust.cache import cache_folder
from qgt.version import __version__
from qgt.web.jobs import Job, Queue
from qgt.web.middleware import Secret, same
from qgt.web.settings import Settings
from qgt.web.store import PageStore

# A shelf: what was made last and can be made again, kept in memory while somebody looks at it.

Thing = TypeVar("Thing")


@dataclass(frozen=True, eq=False)
class Recent(Generic[Thing]):
    """So many things by their names; those not used for longest make room for new ones.

    Example:
        >>> shelf = Recent(most=1)
        >>> shelf.put("a", 1)
        >>> shelf.put("b", 2)
        >>> shelf.get("a"), shelf.get("b")
        (None, 2)
    """

    most: int
    _kept: OrderedDict[str, Thing] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, name: str) -> Thing | None:
        """What lies there; None where it is gone."""
        with self._lock:
            if name in self._kept:
                self._kept.move_to_end(name)
            return self._kept.get(name)

    def put(self, name: str, thing: Thing) -> None:
        """Put something there, in the place of what had its name."""
        with self._lock:
            self._kept.pop(name, None)
            self._kept[name] = thing
            while len(self._kept) > self.most:
                self._kept.popitem(last=False)


# Runs whose plan is read and whose decoder is ready, so that the next sheet of counts need not wait.

KEPT_RUNS = 16  # runs


@dataclass(frozen=True, eq=False)
class PreparedRuns:
    """The runs that were used last; runs of one problem share what was measured of it."""

    settings: Settings
    store: PageStore
    _runs: Recent[SheetDecoder] = field(default_factory=lambda: Recent(most=KEPT_RUNS))
    _decoders: Recent[SheetDecoder] = field(default_factory=lambda: Recent(most=KEPT_RUNS))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def prepared(self, run: str) -> SheetDecoder:
        """A run that is ready to decode; its plan is read from the store at the first use."""
        with self._lock:
            found = self._runs.get(run)
            if found is None:
                found = self._prepare(run)
                self._runs.put(run, found)
        return found

    def ready(self, run: str) -> bool:
        """Whether the run's decoder has nothing left to measure."""
        return self.prepared(run).prepared

    def _prepare(self, run: str) -> SheetDecoder:
        plan = read_plan("plan", self.store.files(run))
        found = self._decoders.get(plan.problem.fingerprint)
        if found is None:
            settings = self.settings
            found = SheetDecoder.of_plan(
                plan, seconds=settings.seconds, calibrate=settings.calibrate, cache=cache_folder()
            )
            self._decoders.put(plan.problem.fingerprint, found)
        return replace(found, problem=plan.problem, samples=plan.samples)  # names are the run's own


# The state of a server.

state_log = logging.getLogger("qgt.web")


@dataclass(frozen=True, eq=False)
class Draft:
    """A plan that nobody has made a run yet."""

    name: str
    plan: Plan
    volume: float  # microlitres of each transfer


class SettledVersion(NamedTuple):
    """The plates of a version with all their rounds, decoded, and the rounds' records."""

    sheet: DecodedSheet
    before: Sequence[Round]


@dataclass(frozen=True)
class AppState:
    """What one server works with: settings, store, queue and caches. None of it is global."""

    settings: Settings
    store: PageStore
    queue: Queue
    secret: Secret
    bench: PreparedRuns
    drafts: Recent[Draft] = field(default_factory=lambda: Recent(most=50))
    demos: Recent[Mapping[str, object]] = field(default_factory=lambda: Recent(most=50))
    settled: Recent[SettledVersion] = field(default_factory=lambda: Recent(most=KEPT_RUNS))

    @classmethod
    def open(cls, settings: Settings) -> "AppState":
        """Open the folder, and get the queue ready."""
        store = PageStore.open(settings.folder)
        queue = Queue(settings.workers, settings.most_waiting, on_fault)
        return cls(settings, store, queue, Secret(store.key()), PreparedRuns(settings, store))


def on_fault(job: Job, fault: BaseException) -> str:
    """Write a fault of ours to the log, and say so."""
    state_log.error("job %s (%s) failed", job.id, job.key, exc_info=fault)
    return f"Something failed that should not have. The server's log has the details, under {job.id}."


def _state_of(request: Request) -> AppState:
    app_state: AppState = request.app.state.shared
    return app_state


Here = Annotated[AppState, Depends(_state_of)]


# Forms: what a browser sends, read with limits and only from our own pages.

MOST_FIELDS = 20_000
WORD = "word"  # the hidden field that every form of ours has


@dataclass(frozen=True)
class Form:
    """The fields of a form as texts, and at most one file."""

    fields: dict[str, str]
    upload: bytes | None = None  # the client's name for it is not kept

    def text(self, name: str, *, most: int = 200) -> str:
        """A field, without blanks at its ends; empty where it is missing."""
        found = self.fields.get(name, "").strip()
        if len(found) > most:
            raise ValueError(f"{name} has {len(found):,} characters: write {most:,} at most.")
        return found

    def line(self, name: str, *, most: int = 100) -> str:
        """A field that people will read in a list: one line, in characters that print."""
        found = self.text(name, most=most)
        if not found.isprintable():
            raise ValueError(f"{name}={found!r} holds characters that do not print: write plain text.")
        return found

    def whole(self, name: str, *, least: int, most: int) -> int:
        """A field that holds a whole number."""
        value = self.number(name, least=least, most=most)
        if value != int(value):
            raise ValueError(f"{name}={self.text(name)} is not valid: write a whole number.")
        return int(value)

    def number(self, name: str, *, least: float | int, most: float | int) -> float:
        """A field that holds a number; a decimal comma is one too."""
        return _between(name, self.text(name), read_amount(name, self.text(name)), least, most)

    def percent(self, name: str, *, least: float | int, most: float | int) -> float:
        """A share that is asked for in per cent, as a number from 0 to 1: `5` and `5 %` are both 0.05."""
        return _between(name, self.text(name), read_number(name, self.text(name)).value, least, most) / 100


def _between(name: str, text: str, value: float, least: float | int, most: float | int) -> float:
    if not least <= value <= most:
        raise ValueError(f"{name}={text} is not valid: write a number from {least:g} to {most:g}.")
    return value


async def read_form(request: Request, app_state: Here) -> Form:
    """The form of a request; one that our own pages did not make is refused."""
    size = app_state.settings.largest_body
    data = await request.form(max_files=1, max_fields=MOST_FIELDS, max_part_size=size)
    fields, upload = {}, None
    for name, value in data.multi_items():
        if isinstance(value, UploadFile):
            upload = await value.read() or upload
        else:
            fields[name] = value
    await data.close()
    if not same(fields.pop(WORD, ""), app_state.secret.form):
        raise HTTPException(403, "This form is not from this page. Go back, load it again, and send it once more.")
    return Form(fields, upload)


Sent = Annotated[Form, Depends(read_form)]


# Pages from templates: Jinja with autoescape on, so whatever people typed is text on the page and nothing else.


@dataclass(frozen=True)
class Trouble:
    """What is wrong with what was sent, shown above the form, which keeps what was typed."""

    words: str
    field: str = ""


def show(request: Request, template: str, facts: Mapping[str, object], status: int = 200) -> HTMLResponse:
    """A page made from a template."""
    app_state: AppState = request.app.state.shared
    shared = {"word": app_state.secret.form, "qgt_version": __version__, "path": request.url.path}
    return HTMLResponse(_environment().get_template(template).render({**shared, **facts}), status)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("qgt.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"text": _text, "code": _code, "when": _when, "many": _many}
    return environment


def _text(text: str) -> Markup:
    """Running text, escaped; a percent sign begins no line."""
    return escape(text).replace(" %", "\N{NO-BREAK SPACE}%")


def _code(text: str) -> Markup:
    """Running text whose words in backticks are code."""
    plain, *others = str(_text(text)).split("`")
    return Markup(plain + "".join(f"<code>{one}</code>" if n % 2 == 0 else one for n, one in enumerate(others)))


def _when(moment: float) -> str:
    """A moment as people write it, in the server's own time zone."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))


def _many(number: int, noun: str) -> str:
    """A number with its noun: 1 plate, 2 plates."""
    return f"{number:,}\N{NO-BREAK SPACE}{noun}{'' if number == 1 else 's'}"
