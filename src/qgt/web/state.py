"""What every route shares: settings, store, queue, secret, and decoders that are ready to use."""

import logging
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Generic, NamedTuple, TypeVar

from fastapi import Depends, Request

from qgt.lab.answers.decoding import DecodedSheet
from qgt.lab.answers.service import SheetDecoder
from qgt.lab.plan.folder import read_plan
from qgt.lab.plan.planning import Plan
from qgt.lab.rounds import Round
from qgt.web.jobs import Job, Queue
from qgt.web.middleware import Secret
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
            found = SheetDecoder.of_plan(plan, seconds=settings.seconds, calibrate=settings.calibrate)
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


def _house(request: Request) -> AppState:
    app_state: AppState = request.app.state.shared
    return app_state


Here = Annotated[AppState, Depends(_house)]
