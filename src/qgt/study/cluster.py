"""Decoding jobs on a Dask cluster: many machines decode, and this process alone writes.

A job is the same pure function as here, so its row is the same wherever it is done. What a job needs beyond its plan
travels with it: networks by content, sent once to each worker. Jobs of a worker that dies are done again by another. A
scheduler that dies takes with it what was in progress and nothing that was written; the next run goes on from there.

Whoever can reach a scheduler can run what he likes on its workers, so an address is either of this machine, or one
that is protected by TLS.
"""

import contextlib
import ipaddress
import itertools
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from qgt.files.plugins import load_same, loaded_plugins
from qgt.study.batch import Job, decode_batch
from qgt.study.entry import Recipe
from qgt.study.networks import network_path
from qgt.study.plan import Task
from qgt.study.store import Row
from qgt.study.workers import Decoded, named

WAIT = 30.0  # seconds to wait for the scheduler, and then for a first worker
DEATHS = 10  # of workers, on one job, after which the job is to blame
Files = tuple[tuple[str, bytes], ...]  # the names and contents of a network's files


def decode_on_cluster(jobs: Iterable[Job], scheduler: str) -> Decoded:
    """Decode on the workers of a Dask scheduler, for example tls://head:8786."""
    waiting, pending = iter(jobs), dict[Any, Job]()
    plugins = [(plugin.path, plugin.sha256) for plugin in loaded_plugins()]
    load_same(plugins)  # one that has changed is refused here, in words
    deaths: dict[Job, int] = {}
    sent: dict[Task, Any] = {}
    with _client(scheduler) as client, _told_if_gone(scheduler):
        try:
            while True:
                # Two jobs for each thread keep it busy, and little is decoded beyond where a task stops.
                room = 2 * max(1, sum(client.nthreads().values())) - len(pending)
                for job in itertools.islice(waiting, max(0, room)):
                    pending[_submit(client, job, plugins, sent)] = job
                if not pending:
                    return
                for future in _first_done(client, pending):
                    job = pending.pop(future)
                    if _worker_died(future, job, deaths):
                        pending[_submit(client, job, plugins, sent)] = job
                        continue
                    with named(job):
                        row = future.result()
                    yield job, row
        finally:
            with contextlib.suppress(Exception):  # gone already, perhaps
                client.cancel(list(pending), force=True)


def _first_done(client: Any, pending: Iterable[Any]) -> Iterable[Any]:
    """Wait until at least one is done, well or not."""
    from distributed import wait

    with client.as_current():
        done: Iterable[Any] = wait(list(pending), return_when="FIRST_COMPLETED").done  # type: ignore[no-untyped-call]
    return done


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
def _client(scheduler: str) -> Iterator[Any]:
    """A client of the scheduler, as soon as it has a worker."""
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
    with client:
        try:
            client.wait_for_workers(1, timeout=WAIT)
        except TimeoutError:
            raise ValueError(
                f"scheduler={scheduler!r} has no workers: start some with 'dask worker {scheduler} --nthreads 1'."
            ) from None
        yield client


@contextlib.contextmanager
def _told_if_gone(scheduler: str) -> Iterator[None]:
    """Say in words that the scheduler is gone."""
    from distributed import CancelledError
    from distributed.client import FutureCancelledError
    from distributed.comm.core import CommClosedError

    try:
        yield
    except (CancelledError, FutureCancelledError, CommClosedError) as error:
        raise ValueError(
            f"scheduler={scheduler!r} is gone: start it and its workers, then run again; what was counted stays."
        ) from error


def _submit(client: Any, job: Job, plugins: Sequence[tuple[Path, str]], sent: dict[Task, Any]) -> Any:
    """Send a job, and with the first of a task its network."""
    if isinstance(job.task.entry.method, Recipe) and job.task not in sent:
        sent[job.task] = client.scatter(_packed(network_path(job.networks, job.task)), broadcast=True, hash=True)
    return client.submit(decode_anywhere, job, sent.get(job.task), plugins, pure=False)


def _worker_died(future: Any, job: Job, deaths: dict[Job, int]) -> bool:
    """Whether a job is to be done again because workers died on it."""
    from distributed.scheduler import KilledWorker

    if future.status != "error" or not isinstance(future.exception(), KilledWorker):
        return False
    deaths[job] = deaths.get(job, 0) + 1
    return deaths[job] < DEATHS


def decode_anywhere(job: Job, network: Files | None, plugins: Sequence[tuple[Path, str]]) -> Row:
    """What a worker does: unpack the network, load the same plugins, decode."""
    load_same(plugins)
    if network is not None:
        job = job._replace(networks=Path(_unpacked(network).name))
    return decode_batch(job)


def _packed(folder: Path) -> Files:
    """A network's folder as names and contents, the folder's own name first in each."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    return tuple((f"{folder.name}/{path.name}", path.read_bytes()) for path in files)


@lru_cache(maxsize=64)
def _unpacked(files: Files) -> tempfile.TemporaryDirectory[str]:
    """A folder of networks with this one in it, until the worker ends."""
    folder = tempfile.TemporaryDirectory(prefix="qgt-networks-")
    for name, content in files:
        path = Path(folder.name) / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    return folder
