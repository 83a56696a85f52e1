"""Decoding jobs, here or in processes of our own; rows come as they are finished.

Each process that is started here is ours, so it is set to one thread: the workers share the cores between them. The
caller's own process is left as it is.
"""

import contextlib
import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from qgt.files.plugins import load_same, loaded_plugins
from qgt.study.batch import BatchJob, decode_batch
from qgt.study.store import Row

DecodedRows = Generator[tuple[BatchJob, Row], None, None]


def decode_here(jobs: Iterable[BatchJob]) -> DecodedRows:
    """Decode in this process, with the threads it has."""
    for job in jobs:
        with named(job.name):
            row = decode_batch(job)
        yield job, row


def decode_in_processes(jobs: Iterable[BatchJob], workers: int) -> DecodedRows:
    """Decode in several processes."""
    waiting, pending = iter(jobs), dict[Future[Row], BatchJob]()
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
                with named(job.name):
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


def _begin_worker(reading: Connection, plugins: Sequence[tuple[Path, str]]) -> None:
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
    """Workers that start in this block ignore Ctrl-C: this process receives it and ends them itself."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def named(where: str) -> Iterator[None]:
    """Say in an error which piece of work it befell."""
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
