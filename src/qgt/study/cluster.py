"""Training and decoding on a Dask cluster: many machines work, and this process alone writes.

A job is the same pure function as here, so its row is the same wherever it is done. What a job needs beyond its plan
travels with it: networks by content, sent once to each worker. A training is the same function as here too, in a
folder of the worker's own, and its networks come back by content. A worker trains one stack at a time for each of its
threads: with one thread, and a GPU of its own, one stack has the GPU.
"""

import contextlib
import ipaddress
import itertools
import logging
import tempfile
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable
from urllib.parse import urlsplit

from qgt.arguments import check_device
from qgt.decoders.neural.record import Epoch
from qgt.files.plugins import load_same, loaded_plugins
from qgt.study.batch import BatchJob, DecodedRows, decode_batch, named
from qgt.study.networks import NetworkTraining, Parcel, adopt_network, network_path, packed_network, unpacked
from qgt.study.plan import Recipe, Task
from qgt.study.store import Row

# A Dask scheduler: who may be asked, how it is reached, and how work is sent to its workers.
#
# Whoever can reach a scheduler can run what he likes on its workers, so an address is either of this machine, or one
# that is protected by TLS. Work of a worker that dies is sent again. With a scheduler that dies, all that was sent is
# gone: Dask would wait for it to come back, with nothing in hand; here the run ends and says so.

WAIT = 30.0  # seconds to wait for the scheduler, and then for a first worker
DEATHS = 10  # of workers, on one piece of work, after which the work is to blame


@runtime_checkable
class Named(Hashable, Protocol):
    """Something to be done, with its name for messages."""

    @property
    def name(self) -> str:
        """What it is, in words."""
        ...


SentWork = TypeVar("SentWork", bound=Named)
Ended = Generator[tuple[SentWork, Any], None, None]  # work and its result


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


def finished(client: Any, work: Iterable[SentWork], send: Callable[[SentWork], Any]) -> Ended[SentWork]:
    """Each piece of work with its result as it ends; what workers died on is sent again."""
    waiting, pending = iter(work), dict[Any, SentWork]()
    deaths: dict[SentWork, int] = {}
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


def _worker_died(future: Any, one: SentWork, deaths: dict[SentWork, int]) -> bool:
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


# Decoding and training on the scheduler's workers.

Sources = Sequence[tuple[Path, str]]  # plugins, with the hash of each


def decode_on_cluster(jobs: Iterable[BatchJob], scheduler: str) -> DecodedRows:
    """Decode on the workers of a Dask scheduler, for example tls://head:8786."""
    plugins, sent = _plugins(), dict[Task, Any]()
    with connected(scheduler) as client:

        def send(job: BatchJob) -> Any:
            """Send a job, and with the first of a task its network."""
            if isinstance(job.task.entry.method, Recipe) and job.task not in sent:
                # As a piece of work, not by `scatter`: what was scattered is lost with the workers that hold it.
                network = packed_network(network_path(job.networks, job.task))
                sent[job.task] = client.submit(parcel_itself, network, pure=False)
            return client.submit(decode_anywhere, job, sent.get(job.task), plugins, pure=False)

        with contextlib.closing(finished(client, jobs, send)) as ended:
            yield from ended


def train_on_cluster(trainings: Iterable[NetworkTraining], folder: Path, scheduler: str) -> Iterator[NetworkTraining]:
    """Train on the workers of a scheduler; each training comes when its networks are in the folder."""
    plugins = _plugins()
    with connected(scheduler) as client:

        def send(training: NetworkTraining) -> Any:
            return client.submit(train_anywhere, training, plugins, pure=False)

        with contextlib.closing(finished(client, trainings, send)) as ended:
            for training, networks in ended:
                for task, network in zip(training.tasks, networks, strict=True):
                    adopt_network(folder, task, network)
                yield training


def parcel_itself(parcel: Parcel) -> Parcel:
    """What a worker does to have a network: nothing. Should it be lost, the scheduler has this done again."""
    return parcel


def decode_anywhere(job: BatchJob, network: Parcel | None, plugins: Sources) -> Row:
    """What a worker does: unpack the network, load the same plugins, decode."""
    load_same(plugins)
    check_device(job.device, where="on this worker")
    if network is None:
        return decode_batch(job)
    folder = unpacked(network, network_path(job.networks, job.task).name)  # held until the job is done
    return decode_batch(job._replace(networks=Path(folder.name)))


def train_anywhere(training: NetworkTraining, plugins: Sources) -> list[Parcel]:
    """What a worker does: train in a folder of its own, and send the networks back."""
    load_same(plugins)
    check_device(training.device, where="on this worker")
    with tempfile.TemporaryDirectory(prefix="qgt-training-") as name:
        training.run(Path(name), on_epoch=_stop_if_unwanted)
        return [packed_network(network_path(Path(name), task)) for task in training.tasks]


def _plugins() -> Sources:
    """The plugins of this process; one that has changed is refused here, in words."""
    plugins = [(plugin.path, plugin.sha256) for plugin in loaded_plugins()]
    load_same(plugins)
    return plugins


def _stop_if_unwanted(epoch: Epoch) -> None:
    """End a training that nobody waits for any more: Dask itself lets what runs run on, for hours here."""
    from distributed import get_worker

    worker = get_worker()
    known = worker.state.tasks.get(worker.get_current_task())
    if known is None or known.state == "cancelled":
        raise RuntimeError(f"nobody waits for this training any more; it was stopped after epoch {epoch.number}.")
