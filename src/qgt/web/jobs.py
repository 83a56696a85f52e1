"""A queue of long work, with a cap: so many jobs at a time, so many waiting, each with its progress, each to cancel.

Jobs run in threads of the server. A thread cannot be stopped from outside, so a job is asked to: whenever it reports
its progress, a cancelled job leaves. Nothing of a job is lost with the server but the work itself: what it was to do
is in the store, and it is asked for again when somebody looks.
"""

import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

REMEMBERED = 200  # finished jobs
LAST_REPORT = 20.0  # seconds for a job at work to report once more, when the server ends
JobState = Literal["waiting", "running", "done", "failed", "cancelled"]
Work = Callable[["Job"], str]  # does the work, reports to the job, and returns the address of what it made


class Full(Exception):
    """The queue takes no more."""


class Cancelled(Exception):
    """Somebody cancelled the job."""


@dataclass(frozen=True, eq=False)
class Job:
    """One piece of work, and how far it is."""

    key: str  # what it does: a second request for the same is the same job
    title: str
    work: Work
    back: str  # where to go when it does not end well
    longest: float  # seconds it may run
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    asked: threading.Event = field(default_factory=threading.Event)  # to stop
    _now: dict[str, object] = field(default_factory=lambda: {"state": "waiting"})

    @property
    def state(self) -> JobState:
        """Where it stands."""
        return self._now["state"]  # type: ignore[return-value]

    @property
    def over(self) -> bool:
        """Whether nothing more will happen."""
        return self.state in ("done", "failed", "cancelled")

    @property
    def words(self) -> str:
        """What it is doing, or why it failed."""
        return str(self._now.get("words", ""))

    @property
    def share(self) -> float | None:
        """The share that is done; None where it is not known."""
        return self._now.get("share")  # type: ignore[return-value]

    @property
    def made(self) -> str:
        """The address of what it made."""
        return str(self._now.get("made", self.back))

    @property
    def seconds(self) -> float:
        """How long it has been running."""
        begun = float(self._now.get("begun", time.monotonic()))  # type: ignore[arg-type]
        return float(self._now.get("ended", time.monotonic())) - begun  # type: ignore[arg-type]

    def report(self, words: str, done: int = 0, of: int = 0) -> None:
        """Say how far it is; leaves by an exception where it was cancelled or took too long."""
        if self.asked.is_set():
            raise Cancelled
        if self.seconds > self.longest:
            raise ValueError(f"It took longer than {self.longest:.0f} s, the most that is allowed. Send less at once.")
        self._now.update(words=words, share=done / of if of else None)

    def cancel(self) -> None:
        """Ask it to stop; one that waits never starts."""
        self.asked.set()


@dataclass(frozen=True, eq=False)
class Queue:
    """Jobs, some at work, some waiting.

    Example:
        >>> queue = Queue(workers=1, most_waiting=5)
        >>> job = queue.add(Job("one", "Adding", lambda job: f"/sums/{1 + 1}", back="/", longest=10.0))
        >>> queue.wait(job, 10.0)
        >>> job.state, job.made
        ('done', '/sums/2')
        >>> queue.close()
    """

    workers: int
    most_waiting: int
    on_fault: Callable[[Job, BaseException], str] = lambda job, fault: "Something failed that should not have."
    _waiting: deque[Job] = field(default_factory=deque)
    _jobs: OrderedDict[str, Job] = field(default_factory=OrderedDict)
    _threads: list[threading.Thread] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _closed: threading.Event = field(default_factory=threading.Event)

    def add(self, job: Job) -> Job:
        """Put a job at the end of the queue; where one of its key is on its way, that one."""
        with self._changed:
            for other in reversed(self._jobs.values()):
                if other.key == job.key and not other.over and not other.asked.is_set():
                    return other
            if len(self._waiting) >= self.most_waiting:
                raise Full
            self._jobs[job.id] = job
            self._forget()
            self._waiting.append(job)
            if len(self._threads) < self.workers:
                thread = threading.Thread(target=self._serve, name=f"qgt-{len(self._threads)}", daemon=True)
                self._threads.append(thread)
                thread.start()
            self._changed.notify_all()
        return job

    def get(self, id: str) -> Job | None:
        """The job of an id; None where it is not known (any more)."""
        with self._changed:
            return self._jobs.get(id)

    def find(self, key: str) -> Job | None:
        """The newest job of a key."""
        with self._changed:
            return next((job for job in reversed(self._jobs.values()) if job.key == key), None)

    def ahead(self, job: Job) -> int:
        """How many jobs start before a waiting one."""
        with self._changed:
            return self._waiting.index(job) if job in self._waiting else 0

    def load(self) -> tuple[int, int]:
        """How many jobs run, and how many wait."""
        with self._changed:
            return sum(job.state == "running" for job in self._jobs.values()), len(self._waiting)

    def wait(self, job: Job, seconds: float) -> None:
        """Wait until a job is over, but no longer than that."""
        with self._changed:
            self._changed.wait_for(lambda: job.over, seconds)

    def cancel(self, job: Job) -> None:
        """Cancel a job: at once where it waits, otherwise as soon as it reports."""
        job.cancel()
        with self._changed:
            if job in self._waiting:
                self._waiting.remove(job)
                job._now["state"] = "cancelled"
            self._changed.notify_all()

    def close(self) -> None:
        """Take nothing more, and ask everything to stop."""
        self._closed.set()
        with self._changed:
            for job in self._jobs.values():
                job.cancel()
            self._waiting.clear()
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout=LAST_REPORT)

    def _serve(self) -> None:
        """What each thread does: the next job, until the queue is closed."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed.is_set())
                if self._closed.is_set():
                    return
                job = self._waiting.popleft()
                job._now.update(state="running", begun=time.monotonic())
            after = self._done(job)
            with self._changed:
                job._now.update(after, ended=time.monotonic())
                self._changed.notify_all()

    def _done(self, job: Job) -> dict[str, object]:
        """Do a job; whatever comes of it, the thread goes on."""
        try:
            return {"made": job.work(job), "state": "done"}
        except Cancelled:
            return {"state": "cancelled"}
        except ValueError as error:  # what the library refuses
            return {"state": "failed", "words": str(error)}
        except BaseException as fault:
            return {"state": "failed", "words": self.on_fault(job, fault)}

    def _forget(self) -> None:
        """Drop the oldest jobs that are over."""
        over = [id for id, job in self._jobs.items() if job.over]
        for id in over[: max(0, len(self._jobs) - REMEMBERED)]:
            del self._jobs[id]
