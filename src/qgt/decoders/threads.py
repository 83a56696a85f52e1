"""Threads: a batch is shared out by instances, and no operation on a small tensor is split.

torch splits an operation over its threads, which wait for each other at the end of it. Tensors of a few thousand
numbers gain nothing by that, and where another process has one of the cores for a moment, each wait costs milliseconds.
So decoders do their work in threads of our own. In each of them torch uses one thread, and where a batch is large
several of them decode parts of it, or take a share of what is open in a search.

The caller's `torch.get_num_threads()` is how many threads a decoder may use, and it stays as it is. With one, which is
what `torch.set_num_threads(1)` or OMP_NUM_THREADS=1 give, all work is done in the caller's own thread.
"""

import contextvars
import itertools
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from functools import cache
from typing import TypeVar

import torch

MOST_THREADS = 4 * (os.cpu_count() or 1)  # of our own, for all callers together: others wait for their turn

Part = TypeVar("Part")
Result = TypeVar("Result")


class _Own(threading.local):
    """What a thread of ours is doing; in any other thread nothing."""

    threads: int | None = None  # that may share the work at hand
    given_up: threading.Event | None = None  # set where nobody waits for the work any more


_own = _Own()


def available_threads() -> int:
    """How many threads the caller may use: in a thread of ours, those of the caller whose work it does."""
    return torch.get_num_threads() if _own.threads is None else _own.threads


def threads_to_share() -> int:
    """Among how many threads `shared_out` shares work here: one in a caller's own thread."""
    return 1 if _own.threads is None else _own.threads


def in_own_thread(work: Callable[[], Result]) -> Result:
    """Do some work where torch splits no operation, and wait for it.

    Example:
        >>> import torch
        >>> before = torch.get_num_threads()
        >>> in_own_thread(torch.get_num_threads), torch.get_num_threads() == before
        (1, True)
    """
    threads = available_threads()
    if _own.threads is not None or threads == 1:
        return work()
    given_up = threading.Event()
    try:
        return _submit(work, threads, given_up).result()
    finally:  # also where the caller is interrupted while it waits
        given_up.set()


def shared_out(work: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
    """Do some work with each part, in several threads of our own if the caller may use several.

    The thread that asks takes parts too, so it never waits for a thread that has not begun.

    Example:
        >>> shared_out(lambda part: part * 2, [1, 2, 3])
        [2, 4, 6]
    """
    threads = min(threads_to_share(), len(parts))
    if threads <= 1:
        return [work(part) for part in parts]
    found: dict[int, Result] = {}
    faults: list[BaseException] = []
    numbers, given_up = itertools.count(), _own.given_up or threading.Event()

    def take_parts() -> None:
        try:
            while not given_up.is_set() and (number := next(numbers)) < len(parts):
                found[number] = work(parts[number])
        except BaseException as fault:  # the other parts are of no use then
            faults.append(fault)
            given_up.set()

    helpers = [_submit(take_parts, 1, given_up) for _ in range(threads - 1)]
    shared, _own.threads = _own.threads, 1  # what is done with a part has this thread alone
    try:
        take_parts()
    finally:
        _own.threads = shared
    wait([helper for helper in helpers if not helper.cancel()])
    for fault in sorted(faults, key=lambda one: isinstance(one, CancelledError)):  # the one that ended the others
        raise fault
    stop_if_given_up()
    return [found[number] for number in range(len(parts))]


def stop_if_given_up() -> None:
    """Raise where nobody waits for the work of this thread any more: for what may take long."""
    if _own.given_up is not None and _own.given_up.is_set():
        raise CancelledError


def _submit(work: Callable[[], Result], threads: int, given_up: threading.Event) -> "Future[Result]":
    """Begin some work in a thread of ours, with what the caller's thread has set for itself."""
    gradients, inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    context = contextvars.copy_context()

    def begun() -> Result:
        _own.threads, _own.given_up = threads, given_up
        with torch.inference_mode(inference), torch.set_grad_enabled(gradients and not inference):
            return context.run(work)

    return _pool().submit(begun)


@cache
def _pool() -> ThreadPoolExecutor:
    """Threads that are begun when they are needed, and kept."""
    return ThreadPoolExecutor(MOST_THREADS, "qgt-decoder", _begin_thread)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child of this process has none of its threads

_settings = threading.Lock()


def _begin_thread() -> None:
    """Set torch to one thread in this new thread of ours, and nowhere else.

    `torch.set_num_threads` sets the number of the thread that calls it, and of threads that begin later. The latter is
    put back, by a thread that does nothing else.
    """
    with _settings:
        usual = torch.get_num_threads()  # what torch gives to a thread that begins
        torch.set_num_threads(1)
        back = threading.Thread(target=torch.set_num_threads, args=(usual,))
        back.start()
        back.join()
