"""Open nodes shared out among threads: the same answers, proofs that hold, and what is known told to all."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

import qgt
from qgt.decoders.certified import search as search_module
from qgt.decoders.certified.costs import Model, Tables
from qgt.decoders.certified.decoder import CertifiedUntilDoubtful
from qgt.decoders.certified.nodes import Stacks
from qgt.decoders.certified.search import Search, SearchOptions
from qgt.decoders.threads import in_own_thread
from qgt.model.factors import pool_costs
from random_problems import model_case, random_model, some_of


@contextmanager
def threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every node is worth sharing; the number of hands of each time it was done."""
    monkeypatch.setattr(search_module, "LEAST_HAND", 1)
    seen: list[int] = []
    share_out = Search._share_out

    def spy(self: Search, hands: int, batch: int, deadline: float | None) -> bool:
        seen.append(hands)
        return share_out(self, hands, batch, deadline)

    monkeypatch.setattr(Search, "_share_out", spy)
    return seen


def problems() -> dict[str, qgt.Problem]:
    g = torch.Generator().manual_seed(1)
    dense = qgt.Design.bernoulli(pools=14, items=40, generator=g)
    few = qgt.Design.column_regular(pools=20, items=30, weight=5, generator=g)
    homes = qgt.Households(size=4, seed_rate=0.1, attack_rate=0.5)
    return {
        "counts": qgt.Problem(dense, qgt.Bernoulli(0.08), qgt.SparseInteger(0.1, 1)),
        "households": qgt.Problem(dense, homes, qgt.SparseInteger(0.1, 1)),
        "tests": qgt.Problem(few, qgt.Bernoulli(0.05), qgt.PositiveNegative(0.95, 0.98)),
        "saturating": qgt.Problem(few, qgt.Bernoulli(0.08), qgt.Saturating(3, qgt.SparseInteger(0.1, 1))),
        "unknown rate": qgt.Problem(dense, qgt.UnknownRate(0.01, 0.2), qgt.SparseInteger(0.1, 1)),
    }


@pytest.mark.parametrize("hands", [2, 3])
@pytest.mark.parametrize("kind", list(problems()))
def test_answers_and_lists_are_those_of_one_thread(kind: str, hands: int, shared: list[int]) -> None:
    problem = problems()[kind]
    y = problem.simulate(12, generator=torch.Generator().manual_seed(2)).y
    decode = qgt.Certified(odds=10.0).bind(problem)
    with threads(1):
        alone = decode(y)
    assert not shared
    with threads(hands):
        together, again = decode(y), decode(y)
    assert set(shared) <= set(range(2, hands + 1)) and hands in shared
    assert torch.equal(together.x, alone.x) and torch.equal(together.status, alone.status)
    for i in range(len(y)):  # equally probable ones may be in any order
        lists = [one.evidence.alternatives.of_instance(i).x for one in (together, alone)]
        assert torch.equal(*(x.unique(dim=0) for x in lists)) and len(lists[0]) == len(lists[1])
    torch.testing.assert_close(together.evidence.confidence, alone.evidence.confidence)
    assert bool(together.evidence.complete.all()) and bool(qgt.check_certificate(problem, y, together).all())
    for part in ("fixed", "least", "most", "pi", "shares"):  # no clock decides anything
        assert torch.equal(getattr(together.proof, part), getattr(again.proof, part))


@pytest.mark.parametrize("seed", range(some_of(400)))
def test_shared_searches_equal_enumeration(seed: int, shared: list[int]) -> None:
    problem, y, status, log_joint = model_case(seed)
    many = y.expand(5, -1)
    with threads(2):
        result = qgt.Certified(odds=20.0).bind(problem)(many)
    assert shared and torch.equal(result.status, status.expand(5))
    assert bool(qgt.check_certificate(problem, many, result).all())
    if int(status) == qgt.Status.PROVED:
        torch.testing.assert_close(result.evidence.log_joint, log_joint.expand(5), rtol=0, atol=1e-5)


def test_what_hands_find_is_told_to_all(shared: list[int]) -> None:
    """Weights are those of the answers found, however often they were put together."""
    problem = random_model(7)
    y = problem.simulate(40, generator=torch.Generator().manual_seed(3)).y
    tables = Tables.of(pool_costs(problem.design, problem.noise, y))
    search = Search.start(Model.of(problem, y.device), tables, SearchOptions(slack=3.0))
    with threads(2):
        in_own_thread(lambda: search.run(8, None))
    weight = torch.zeros_like(search.best)
    for owner, _, cost in search.found:
        weight.index_add_(0, owner, (search.best[owner] - cost).exp())
    assert shared and bool((weight >= 1 - 1e-9).all())
    torch.testing.assert_close(search.weight, weight)


@pytest.mark.parametrize("limit", ["time", "memory"])
def test_a_search_that_ends_early_says_what_is_open(limit: str, shared: list[int]) -> None:
    design = qgt.Design.bernoulli(pools=50, items=100, generator=torch.Generator().manual_seed(4))
    problem = qgt.Problem(design, qgt.Bernoulli(0.06), qgt.SparseInteger(0.3, 3))
    y = problem.simulate(6, generator=torch.Generator().manual_seed(5)).y
    seconds, memory = (0.003, 2.0) if limit == "time" else (60.0, 0.001)
    with threads(2):
        result = qgt.Certified(odds=1.0, time_limit=seconds, memory=memory).bind(problem)(y)
    proved = result.status == qgt.Status.PROVED
    assert shared and not bool(proved.all())
    assert torch.equal(qgt.check_certificate(problem, y, result), proved)
    assert bool((result.evidence.bound >= result.evidence.log_joint - 1e-6).all())


def test_instances_that_no_hand_begins_stay_open(shared: list[int]) -> None:
    """A search that forgets them would call their counts impossible."""
    problem = problems()["counts"]
    y = problem.simulate(60, generator=torch.Generator().manual_seed(7)).y
    model, tables = Model.of(problem, y.device), Tables.of(pool_costs(problem.design, problem.noise, y))
    whole = Search.start(model, tables, SearchOptions())
    whole.run(100, None)
    search = Search.start(model, tables, SearchOptions(most_bytes=10_000.0))
    with threads(2):
        in_own_thread(lambda: search.run(2, None))
    done = search.unexplored() == torch.inf
    assert shared and 0 < len(search.unbegun) < len(y) and not bool(done[search.unbegun].any())
    torch.testing.assert_close(search.best[done], whole.best[done])


def test_hands_without_memory_do_not_wait_for_each_other(shared: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """One has no node, and the other no memory: the search goes on in one thread."""

    def all_in_one_hand(stacks: Stacks, hands: int) -> list[Stacks]:
        return [stacks, *(Stacks(stacks.spent.clone(), stacks.edges) for _ in range(hands - 1))]

    monkeypatch.setattr(Stacks, "dealt", all_in_one_hand)
    problem = problems()["counts"]
    y = problem.simulate(30, generator=torch.Generator().manual_seed(8)).y
    tables = Tables.of(pool_costs(problem.design, problem.noise, y))
    search = Search.start(Model.of(problem, y.device), tables, SearchOptions())
    while not search.stacks.open:
        search.step(100)
    search.options = SearchOptions(most_bytes=1.5 * search.bytes)
    with threads(2):
        in_own_thread(lambda: search.run(1, None))
    assert shared and (search.bytes >= search.options.most_bytes or not len(search.stacks.open))


def test_lists_that_are_cut_short_are_so_in_every_hand(shared: list[int]) -> None:
    problem = problems()["counts"]
    y = problem.simulate(30, generator=torch.Generator().manual_seed(6)).y
    decode = CertifiedUntilDoubtful(odds=100.0, time_limit=None, stop_confidence=0.9, coarse_odds=3.0).bind(problem)
    with threads(1):
        alone = decode(y)
    with threads(2):
        together = decode(y)
    assert shared and torch.equal(together.x, alone.x)
    sure = alone.evidence.complete
    assert torch.equal(together.evidence.complete, sure) and 0 < int(sure.sum()) < len(sure)
    torch.testing.assert_close(together.evidence.confidence[sure], alone.evidence.confidence[sure])
