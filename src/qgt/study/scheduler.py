"""A Dask scheduler: who may be asked, how it is reached, and how work is sent to its workers.

Whoever can reach a scheduler can run what he likes on its workers, so an address is either of this machine, or one
that is protected by TLS. Work of a worker that dies is sent again. With a scheduler that dies, all that was sent is
gone: Dask would wait for it to come back, with nothing in hand; here the run ends and says so.
"""

import contextlib
import ipaddress
import itertools
import logging
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator
from typing import Any, Protocol, TypeVar, runtime_checkable
from urllib.parse import urlsplit

from qgt.study.workers import named

WAIT = 30.0  # seconds to wait for the scheduler, and then for a first worker
DEATHS = 10  # of workers, on one piece of work, after which the work is to blame


@runtime_checkable
class Named(Hashable, Protocol):
    """Something to be done, with its name for messages."""

    @property
    def name(self) -> str:
        """What it is, in words."""
        ...


Work = TypeVar("Work", bound=Named)
Ended = Generator[tuple[Work, Any], None, None]  # work and its result


def check_address(scheduler: str) -> str:
    """The address, if it is one that strangers cannot use; else a ValueError.

    Example:
        >>> check_address("tcp://127.0.0.1:8786")
        'tcp://127.0.0.1:8786'
        >>> check_address("tcp://head:8786")
        Traceback (most recent call last):
        ValueError: scheduler='tcp://head:8786' is open to the network: give tls://... (see docs/cluster.md), or tcp:// on this machine.
    """  # noqa: E501 - an example's output
    parts = urlsplit(scheduler)
    if parts.scheme not in ("tls", "tcp", "inproc") or not parts.netloc:
        raise ValueError(f"scheduler={scheduler!r} is not valid: give tls://host:port, or tcp://127.0.0.1:port.")
    if parts.scheme == "tcp" and not _is_here(parts.hostname or ""):
        raise ValueError(
            f"scheduler={scheduler!r} is open to the network: give tls://... (see docs/cluster.md), "
            "or tcp:// on this machine."
        )
    return scheduler


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextlib.contextmanager
def connected(scheduler: str) -> Iterator[Any]:
    """A client of the scheduler, as soon as it has a worker; in the block, a scheduler that dies is told in words."""
    check_address(scheduler)
    try:
        from distributed import Client
    except ImportError as error:
        raise ValueError("scheduler needs the package distributed: install qgt[cluster].") from error
    try:
        client: Any = Client(scheduler, timeout=WAIT, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, TimeoutError) as error:
        raise ValueError(
            f"scheduler={scheduler!r} does not answer ({error}): start it, or check the address."
        ) from None
    with _quiet(), client, _told_if_gone(scheduler):
        try:
            client.wait_for_workers(1, timeout=WAIT)
        except TimeoutError:
            raise ValueError(
                f"scheduler={scheduler!r} has no workers: start some with 'dask worker {scheduler} --nthreads 1'."
            ) from None
        yield client


def finished(client: Any, work: Iterable[Work], send: Callable[[Work], Any]) -> Ended[Work]:
    """Each piece of work with its result as it ends; what workers died on is sent again."""
    waiting, pending = iter(work), dict[Any, Work]()
    deaths: dict[Work, int] = {}
    try:
        while True:
            # Two for each thread keep it busy, and little is done beyond where a task stops.
            for one in itertools.islice(waiting, max(0, 2 * _threads(client) - len(pending))):
                pending[send(one)] = one
            if not pending:
                return
            for future in _first_done(client, pending):
                one = pending.pop(future)
                if _worker_died(future, one, deaths):
                    pending[send(one)] = one
                else:
                    yield one, _result(future, one.name)
    finally:
        with contextlib.suppress(Exception):  # gone already, perhaps
            client.cancel(list(pending), force=True)


def _threads(client: Any) -> int:
    """How many threads the workers have. Asked while the scheduler is gone, Dask would wait for it."""
    from distributed.comm.core import CommClosedError

    if client.status != "running":
        raise CommClosedError("The connection to the scheduler is lost.")
    threads: dict[str, int] = client.nthreads()
    return max(1, sum(threads.values()))


def _first_done(client: Any, pending: Iterable[Any]) -> Iterable[Any]:
    """Wait until at least one is done, well or not."""
    from distributed import wait

    with client.as_current():
        done: Iterable[Any] = wait(list(pending), return_when="FIRST_COMPLETED").done  # type: ignore[no-untyped-call]
    return done


def _result(future: Any, name: str) -> Any:
    """What came of a piece of work; an error names it, unless it is the scheduler that was lost."""
    try:
        return future.result()
    except _lost():
        raise
    except Exception:
        with named(name):
            raise


def _worker_died(future: Any, one: Work, deaths: dict[Work, int]) -> bool:
    """Whether work is to be done again because workers died on it."""
    from distributed.scheduler import KilledWorker

    error = future.exception() if future.status == "error" else None
    if not isinstance(error, KilledWorker):
        return False
    deaths[one] = deaths.get(one, 0) + error.allowed_failures + 1  # as often as Dask itself sent it
    return deaths[one] < DEATHS


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask's tracebacks of lost connections from the screen: what matters of them is said in words."""
    logger, say_nothing = logging.getLogger("distributed.client"), lambda record: False
    logger.addFilter(say_nothing)
    try:
        yield
    finally:
        logger.removeFilter(say_nothing)


@contextlib.contextmanager
def _told_if_gone(scheduler: str) -> Iterator[None]:
    """Say in words that the scheduler is gone."""
    try:
        yield
    except _lost() as error:
        raise ValueError(
            f"scheduler={scheduler!r} is gone: start it and its workers, then run again; what was counted stays."
        ) from error


def _lost() -> tuple[type[BaseException], ...]:
    """The errors that tell of a scheduler that was lost."""
    from distributed import CancelledError
    from distributed.comm.core import CommClosedError

    return CancelledError, CommClosedError
