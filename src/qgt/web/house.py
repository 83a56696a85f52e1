"""What every route shares: settings, store, queue, secret, and decoders that are ready to use."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from qgt.lab.plan.planning import Plan
from qgt.web.bench import Bench
from qgt.web.guard import Secret
from qgt.web.jobs import Job, Queue
from qgt.web.settings import Settings
from qgt.web.shelf import Shelf
from qgt.web.store import Store

log = logging.getLogger("qgt.web")


@dataclass(frozen=True, eq=False)
class Draft:
    """A plan that nobody has made a run yet."""

    name: str
    plan: Plan
    volume: float  # microlitres of each transfer


@dataclass(frozen=True)
class House:
    """One server's own things; nothing of it is global."""

    settings: Settings
    store: Store
    queue: Queue
    secret: Secret
    bench: Bench
    drafts: Shelf[Draft] = field(default_factory=lambda: Shelf(most=50))
    demos: Shelf[Mapping[str, object]] = field(default_factory=lambda: Shelf(most=50))

    @classmethod
    def open(cls, settings: Settings) -> "House":
        """Open the folder, and get the queue ready."""
        store = Store.open(settings.folder)
        queue = Queue(settings.workers, settings.most_waiting, on_fault)
        return cls(settings, store, queue, Secret(store.key()), Bench(settings, store))


def on_fault(job: Job, fault: BaseException) -> str:
    """Write a fault of ours to the log, and say so."""
    log.error("job %s (%s) failed", job.id, job.key, exc_info=fault)
    return f"Something failed that should not have. The server's log has the details, under {job.id}."


def _house(request: Request) -> House:
    house: House = request.app.state.house
    return house


Here = Annotated[House, Depends(_house)]
