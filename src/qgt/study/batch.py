"""One batch of one task, decoded and scored: the unit of work, the same wherever it is done; here, or in processes."""

import contextlib
import itertools
import multiprocessing
import os
import signal
import threading
import time
from collections import abc
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import lru_cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from qgt.decoders.certified.decoder import Certified
from qgt.decoders.contract import BoundDecoder, Decode, Decoder
from qgt.decoders.highs.exact import ExactMAP
from qgt.decoders.neural.decoder import load
from qgt.decoders.results import Decoded, Status
from qgt.files.plugins import load_same, loaded_plugins
from qgt.learning.run import best_threshold
from qgt.model.problem import Problem
from qgt.rounds.history import Setting
from qgt.rounds.policies import Policy, run_policy
from qgt.study.networks import network_path, weights_digest
from qgt.study.plan import TUNED_ON, Entry, Recipe, Task, generator
from qgt.study.store import Row, Spent
from qgt.trust.metrics import Outcomes, outcomes
from qgt.version import provenance

READY = 4  # bound decoders kept: tasks take turns only where one ends and the next begins


class BatchJob(NamedTuple):
    """A batch to decode, and where."""

    task: Task
    batch: int
    device: str
    networks: Path

    @property
    def name(self) -> str:
        """The job in words, for messages."""
        return f"{self.task.name}, batch {self.batch}"


@dataclass(frozen=True, eq=False)
class Ready:
    """A task with its set-up paid."""

    problem: Problem
    decode: Decode
    threshold: float | None  # of its scores, where the entry has it tuned
    network: str | None  # the digest of its weights


def decode_batch(job: BatchJob) -> Row:
    """Draw a batch, decode it and score it. Only the decoding is timed."""
    task, device = job.task, job.device
    if isinstance(task.entry.method, Policy):
        return _run_batch(task, task.entry.method, job.batch)
    ready = _ready(task, device, job.networks)
    x, y = task.draw(ready.problem, job.batch)
    told = _told(task.entry, x, generator("told", task.key, job.batch))
    y, told = y.to(device), told if told is None else told.to(device)
    start = time.perf_counter()
    calls, status = _calls(ready, _decode(ready.decode, y, told))
    calls, status = calls.cpu(), status.cpu()  # on a GPU this waits for the work to be done
    seconds = time.perf_counter() - start
    statuses = {kind.name: n for kind in Status if (n := int((status == kind).sum()))}
    where = {**provenance(device), "date": time.strftime("%Y-%m-%d")}
    where |= {} if ready.network is None else {"network": ready.network}
    return Row(task.key, job.batch, _outcomes(ready.problem, x, calls), statuses, seconds, where)


def _outcomes(problem: Problem, x: Tensor, calls: Tensor) -> Outcomes:
    """Calls held against truths; of copies and categories, their parts."""
    values = problem.values
    return outcomes(x, calls) if values is None else outcomes(values.to_parts(x), values.to_parts(calls))


def _run_batch(task: Task, policy: Policy, batch: int) -> Row:
    """Run a policy on a batch: the truths are the study's, the pools are its own."""
    problem = task.problem()
    x, _ = task.draw(problem, batch)
    setting = Setting(problem.items, problem.prior, problem.noise)
    start = time.perf_counter()
    ran = run_policy(policy, setting, x, generator=generator("policy", task.key, batch))
    seconds = time.perf_counter() - start
    where = {**provenance("cpu"), "date": time.strftime("%Y-%m-%d")}
    scored = _outcomes(problem, x, ran.x)
    return Row(task.key, batch, scored, {Status.OK.name: len(x)}, seconds, where, Spent.of(ran))


@lru_cache(maxsize=READY)
def _ready(task: Task, device: str, networks: Path) -> Ready:
    """Bind the task's decoder and tune its threshold: once in each process."""
    problem, method, network = task.problem(), task.entry.method, None
    assert not isinstance(method, Policy)  # which is run, not bound
    if isinstance(method, Recipe):
        net = load(network_path(networks, task))
        method, network = net, weights_digest(net)
    decode = _proofs_alone(task.entry, _single_threaded(method)).bind(problem)
    threshold = _tuned(task, problem, decode, device) if task.entry.tune else None
    return Ready(problem, decode, threshold, network)


def _single_threaded(decoder: Decoder) -> Decoder:
    """A decoder that would start a thread for every core takes one: the study's workers already share the cores."""
    return replace(decoder, workers=1) if isinstance(decoder, ExactMAP) and decoder.workers is None else decoder


def _proofs_alone(entry: Entry, decoder: Decoder) -> Decoder:
    """A limit is the share of proved answers that are right: answers that come close to them are not asked for."""
    if not isinstance(decoder, Certified) or not entry.limit or entry.tune:
        return decoder
    return replace(decoder, odds=1.0, certificates=False)


def _tuned(task: Task, problem: Problem, decode: Decode, device: str) -> float:
    """The threshold that decodes most validation instances right."""
    seeded = generator("validation", task.key)
    x, y = problem.simulate(TUNED_ON, generator=seeded)
    told = _told(task.entry, x, seeded)
    scores = _decode(decode, y.to(device), told if told is None else told.to(device)).scores
    assert scores is not None  # as `Entry.check` saw
    return best_threshold(scores.cpu(), x)


def _told(entry: Entry, x: Tensor, seeded: Generator) -> Tensor | None:
    """The numbers of defectives that the decoder is told, if any."""
    if entry.defectives is None:
        return None
    k = x.sum(1, dtype=torch.int64)  # (instances,)
    if entry.defectives == "noisy":
        return (k + torch.randint(-1, 2, k.shape, generator=seeded)).clamp(0, x.shape[1])
    return k if entry.defectives == "true" else torch.full_like(k, int(entry.defectives))


def _decode(decode: Decode, y: Tensor, told: Tensor | None) -> Decoded:
    if told is None:
        return decode(y)
    assert isinstance(decode, BoundDecoder)  # as `Entry.check` saw
    return decode(y, defectives=told)


def _calls(ready: Ready, result: Decoded) -> tuple[Tensor, Tensor]:
    """Calls and statuses; a proof is of the decoder's own calls, and ends where the threshold changes them."""
    if ready.threshold is None:
        return result.x, result.status
    assert result.scores is not None
    calls = (result.scores >= ready.threshold).to(torch.uint8)
    lost = (result.status == Status.PROVED) & (calls != result.x).any(1)
    return calls, torch.where(lost, int(Status.OK), result.status)


# Decoding jobs, here or in processes of our own; rows come as they are finished.
#
# Each process that is started here is ours, so it is set to one thread: the workers share the cores between them.
# The caller's own process is left as it is.

DecodedRows = abc.Generator[tuple[BatchJob, Row], None, None]


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
