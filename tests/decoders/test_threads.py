"""Work is shared out by instances, and nobody else's thread count changes."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass

import pytest
import torch

import qgt
from qgt.decoders.contract import LEAST_PART, BoundDecoder
from qgt.decoders.results import Decoded
from qgt.decoders.threads import available_threads, in_own_thread, shared_out, stop_if_given_up, threads_to_share


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def in_new_thread(work: Callable[[], int]) -> int:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def paper(pools: int = 30) -> qgt.Problem:
    design = qgt.Design.bernoulli(pools=pools, items=60, generator=torch.Generator().manual_seed(0))
    return qgt.Problem(design, qgt.Bernoulli(0.06), qgt.SparseInteger(0.1, 1))


@dataclass(eq=False)
class Spy:
    """Which threads decode how many instances, and with how many threads of torch."""

    calls: list[tuple[str, int, int]]

    def bound(self, problem: qgt.Problem, **options: int) -> BoundDecoder:
        def decode(y: torch.Tensor, defectives: torch.Tensor | None) -> Decoded:
            self.calls.append((threading.current_thread().name, len(y), torch.get_num_threads()))
            first = y[:, :1].to(torch.uint8).expand(-1, problem.items).contiguous()
            return Decoded(first, torch.zeros(len(y), dtype=torch.uint8))

        return BoundDecoder(problem, decode, **options)


def test_no_operation_is_split_and_large_batches_are_shared_out() -> None:
    problem, spy = paper(), Spy([])
    y = problem.simulate(5 * LEAST_PART, generator=torch.Generator().manual_seed(1)).y
    result = spy.bound(problem, least_part=LEAST_PART)(y)
    assert torch.equal(result.x[:, 0], y[:, 0].to(torch.uint8))  # in order
    assert sorted(size for _, size, _ in spy.calls) == [160, 160]
    assert {threads for _, _, threads in spy.calls} == {1}
    spy.calls.clear()
    spy.bound(problem, least_part=LEAST_PART)(y[:1])
    assert [(size, threads) for _, size, threads in spy.calls] == [(1, 1)]


def test_one_thread_means_the_callers_own() -> None:
    torch.set_num_threads(1)
    problem, spy = paper(), Spy([])
    y = problem.simulate(5 * LEAST_PART, generator=torch.Generator().manual_seed(1)).y
    spy.bound(problem, least_part=LEAST_PART)(y)
    assert spy.calls == [(threading.current_thread().name, 5 * LEAST_PART, 1)]


def test_thread_counts_of_others_stay_as_they_are() -> None:
    torch.set_num_threads(3)
    shared_out(lambda part: part, [1, 2, 3])
    assert in_own_thread(torch.get_num_threads) == 1
    assert torch.get_num_threads() == 3 and in_new_thread(torch.get_num_threads) == 3


@pytest.mark.parametrize("decoder", [qgt.Certified(), qgt.AMP(), qgt.GAMP()], ids=lambda one: type(one).__name__)
def test_shared_batches_have_the_same_answers(decoder: qgt.Decoder) -> None:
    problem = paper()
    y = problem.simulate(300, generator=torch.Generator().manual_seed(2)).y
    decode = decoder.bind(problem)
    shared = decode(y)
    torch.set_num_threads(1)
    alone = decode(y)
    assert torch.equal(shared.x, alone.x) and torch.equal(shared.status, alone.status)
    if shared.proof is not None:
        assert torch.equal(shared.evidence.alternatives.x, alone.evidence.alternatives.x)
        torch.testing.assert_close(shared.evidence.confidence, alone.evidence.confidence)
        assert bool(qgt.check_certificate(problem, y, shared).all())


def test_what_is_done_with_a_part_has_its_thread_alone() -> None:
    assert in_own_thread(lambda: shared_out(lambda part: threads_to_share(), [1, 2, 3])) == [1, 1, 1]
    assert in_own_thread(threads_to_share) == 2 and threads_to_share() == 1


def test_a_fault_in_one_part_reaches_the_caller_and_ends_the_others() -> None:
    begun: list[int] = []

    def work(part: int) -> int:
        begun.append(part)
        if part == 0:
            raise ValueError("part 0")
        return part

    with pytest.raises(ValueError, match="part 0"):
        in_own_thread(lambda: shared_out(work, [0, *range(1, 3)]))
    assert begun


def test_work_that_nobody_waits_for_ends() -> None:
    ended = threading.Event()

    def endless(part: int) -> None:
        if part == 0:
            raise KeyboardInterrupt
        try:
            while True:
                stop_if_given_up()
        except CancelledError:
            ended.set()
            raise

    with pytest.raises(KeyboardInterrupt):
        in_own_thread(lambda: shared_out(endless, [1, 0]))
    assert ended.wait(10)


def test_settings_of_the_callers_thread_are_taken_along() -> None:
    with torch.no_grad():
        assert not in_own_thread(torch.is_grad_enabled)
    with torch.inference_mode():
        assert in_own_thread(torch.is_inference_mode_enabled)
    assert in_own_thread(available_threads) == 2
