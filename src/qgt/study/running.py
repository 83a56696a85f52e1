"""Running a study: networks first, then every batch that is not in the store yet, in this process or in several.

Workers decode and this process alone writes, one row as each batch is finished. Whatever ends a run (Ctrl-C, a kill, a
fault) loses the batches in progress and nothing else; the next run goes on from the rows that are there.
"""

import contextlib
import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from qgt.arguments import whole
from qgt.decoders.neural.decoder import load
from qgt.files.plugins import load_same, loaded_plugins
from qgt.learning.run import Epoch
from qgt.study.batch import Job, decode_batch
from qgt.study.entry import Recipe
from qgt.study.networks import ensure_network, network_path, weights_digest
from qgt.study.plan import Study, Task
from qgt.study.store import Row, Store
from qgt.study.tally import Tally


@dataclass(frozen=True)
class Progress:
    """What a progress callback is told."""

    done: int  # batches that need no more work
    total: int
    doing: str  # in words
    row: Row | None = None  # just written and safe; None at the start and while networks train


OnProgress = Callable[[Progress], None]


def run(
    study: Study,
    db: str | Path,
    *,
    workers: int = 1,
    device: str = "cpu",
    networks: Path | None = None,
    on_progress: OnProgress | None = None,
) -> None:
    """Decode whatever of a study is not yet in the database.

    Results are the same for any number of workers. On "cuda" all work is done in this process, on instances drawn as
    on a CPU. Networks are kept in the folder `networks`, by default beside the database.

    Example:
        >>> from qgt.study import Study, results
        >>> design = {"kind": "bernoulli", "pools": 8, "items": 20}
        >>> problem = {"design": design, "prior": {"kind": "bernoulli", "rate": 0.1}}
        >>> study = Study.from_plain({"problem": problem, "decoders": {"AMP": {"kind": "amp"}}})
        >>> run(study, "study.db")
        >>> [result.score.instances for result in results(study, "study.db")]
        [2000]
    """
    whole("workers", workers, least=1)
    if device not in ("cpu", "cuda") or (device == "cuda" and not torch.cuda.is_available()):
        raise ValueError(f"device={device!r} is not to be had here: give cpu or, where there is one, cuda.")
    folder = networks_folder(db) if networks is None else networks
    with Store(db) as store:
        tallies = {task: Tally(task) for task in study.tasks}  # tasks that are equal share one
        for task, tally in tallies.items():
            for row in store.rows(task.key):
                tally.add(row)
        ledger = Ledger(tallies, on_progress)
        ledger.tell("starting")
        _train(ledger, folder, device)
        jobs = (Job(task, batch, device, folder) for task, batch in ledger.missing())
        decoded = _pooled(jobs, workers) if workers > 1 and device == "cpu" else _inline(jobs)
        with contextlib.closing(decoded):  # whatever happens here ends the workers at once
            for job, row in decoded:
                store.add(row)
                ledger.add(job.task, row)


def networks_folder(db: str | Path) -> Path:
    """Where a study's networks are kept if nothing else is said."""
    return Path(db).with_suffix(".networks")


@dataclass(frozen=True, eq=False)
class Ledger:
    """What is done and what is missing."""

    tallies: dict[Task, Tally]
    on_progress: OnProgress | None

    def missing(self) -> Iterator[tuple[Task, int]]:
        """The batches to decode, in order. Asked for one at a time, it stops a task as soon as its rows say so."""
        for task, tally in self.tallies.items():
            for batch in range(task.batches):
                if tally.finished:
                    break
                if batch not in tally:
                    yield task, batch

    def add(self, task: Task, row: Row) -> None:
        """Count a row that is in the store."""
        self.tallies[task].add(row)
        self.tell(task.name, row)

    def tell(self, doing: str, row: Row | None = None) -> None:
        """Report how far it is."""
        if self.on_progress is not None:
            done = sum(tally.done for tally in self.tallies.values())
            self.on_progress(Progress(done, sum(task.batches for task in self.tallies), doing, row))


def _train(ledger: Ledger, folder: Path, device: str) -> None:
    """Train the networks that unfinished tasks need, and see that finished rows are of the same ones."""

    def tell(task: Task, epoch: Epoch) -> None:
        ledger.tell(f"training {task.name}: epoch {epoch.number} of {epoch.total}")

    for task, tally in ledger.tallies.items():
        if not isinstance(task.entry.method, Recipe) or tally.finished:
            continue
        ensure_network(folder, task, device=device, on_epoch=partial(tell, task))
        if tally.rows and weights_digest(load(network_path(folder, task))) != tally.rows[0].provenance["network"]:
            raise ValueError(
                f"{network_path(folder, task)}: is not the network that {task.name} was begun with; "
                "put that one back, or use another database."
            )


def _inline(jobs: Iterable[Job]) -> Generator[tuple[Job, Row], None, None]:
    """Decode here, with one thread like a worker, so that the numbers are a worker's to the last bit."""
    for job in jobs:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with _named(job):
                row = decode_batch(job)
        finally:
            torch.set_num_threads(threads)
        yield job, row


def _pooled(jobs: Iterable[Job], workers: int) -> Generator[tuple[Job, Row], None, None]:
    """Decode in several processes; rows come as they are finished."""
    waiting, pending = iter(jobs), dict[Future[Row], Job]()
    with _pool(workers) as pool:
        while True:
            # Two jobs for each worker keep it busy, and little is decoded beyond where a task stops.
            for job in itertools.islice(waiting, 2 * workers - len(pending)):
                with _interrupts_held():
                    pending[pool.submit(decode_batch, job)] = job
            if not pending:
                return
            done, _ = wait(pending, return_when=FIRST_COMPLETED)
            for future in sorted(done, key=lambda one: one.exception() is not None):  # rows before a fault
                job = pending.pop(future)
                with _named(job):
                    row = future.result()
                yield job, row


@contextlib.contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with the block, at once where it fails, and with this process, however it ends.

    Each worker holds the reading end of a pipe of which only this process has the writing end. When that closes, by
    our hand or by our death, the worker exits.
    """
    context = multiprocessing.get_context("spawn")
    reading, writing = context.Pipe(duplex=False)
    plugins = [(plugin.path, plugin.sha256) for plugin in loaded_plugins()]
    load_same(plugins)  # one that has changed is refused here, in words
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin_worker, initargs=(reading, plugins))
    try:
        yield pool
        pool.shutdown()
    finally:
        writing.close()
        pool.shutdown(cancel_futures=True)
        reading.close()


def _begin_worker(reading: Connection, plugins: list[tuple[Path, str]]) -> None:
    """Set a worker up: the parent's plugins, one thread for torch, and one that waits for the parent's end."""
    load_same(plugins)
    torch.set_num_threads(1)
    threading.Thread(target=_exit_with_parent, args=(reading,), daemon=True).start()


def _exit_with_parent(reading: Connection) -> None:
    with contextlib.suppress(EOFError, OSError):
        reading.recv()
    os._exit(1)


@contextlib.contextmanager
def _interrupts_held() -> Iterator[None]:
    """Workers started in this block inherit deafness to Ctrl-C: it is for this process, which ends them itself."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _named(job: Job) -> Iterator[None]:
    """Say in an error which task it befell."""
    where = f"{job.task.name}, batch {job.batch}"
    try:
        yield
    except BrokenProcessPool as error:
        raise ValueError(
            f"{where}: a worker died (perhaps for want of memory); run again to go on, with fewer workers."
        ) from error
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    except Exception as error:
        raise RuntimeError(f"{where}: {type(error).__name__}: {error}") from error
