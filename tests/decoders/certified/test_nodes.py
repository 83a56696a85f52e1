"""Whose open nodes come next."""

from itertools import islice

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import qgt
from qgt.decoders.certified import nodes as sets
from qgt.decoders.certified.costs import Model, Tables
from qgt.decoders.certified.nodes import TURNS, Nodes, Stacks
from qgt.decoders.certified.relaxation import Iterates
from qgt.decoders.certified.search import Search, SearchOptions
from qgt.model.factors import pool_costs


def nodes(owner: list[int], first: int = 0) -> Nodes:
    """Nodes whose bounds are their names."""
    n = len(owner)
    state = Iterates(torch.zeros(n, 2), torch.zeros(n, 2), torch.zeros(n, 2), torch.zeros(n, 0))
    names = torch.arange(first, first + n, dtype=torch.float64)
    fixed = torch.zeros(n, 2, dtype=torch.int8)
    return Nodes(torch.tensor(owner), fixed, torch.zeros(n, dtype=torch.int64), names, state)


def test_those_on_whom_little_was_spent_come_first() -> None:
    open_ = Stacks.empty(2, torch.device("cpu"))
    open_.spent[0] = int(TURNS[2])
    open_.push(nodes([1] * 5), torch.zeros(5, dtype=torch.bool))
    open_.push(nodes([0] * 50, first=5), torch.ones(50, dtype=torch.bool))  # on top, and they can improve the answer
    assert open_.take(5).owner.tolist() == [1] * 5
    assert open_.take(100).owner.tolist() == [0] * 50
    assert open_.open == []


def test_of_one_turn_those_that_can_improve_come_first_and_then_the_least_bounds() -> None:
    open_ = Stacks.empty(1, torch.device("cpu"))
    open_.push(nodes([0] * 6), torch.tensor([False, True] * 3))
    assert open_.take(2).bound.sort().values.tolist() == [1, 3]
    assert open_.take(3).bound.sort().values.tolist() == [0, 2, 5]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.lists(st.integers(0, 6), min_size=1, max_size=200), st.integers(1, 150)), max_size=12))
def test_every_node_comes_out_once_and_batches_are_full(moves: list[tuple[list[int], int]]) -> None:
    open_, pushed, out = Stacks.empty(7, torch.device("cpu")), 0, []
    for owner, batch in moves:
        block = nodes(owner, first=pushed)
        open_.push(block, block.bound % 3 == 0)
        pushed += len(owner)
        taken = open_.take(batch)
        assert len(taken.owner) == min(batch, pushed - len(out))
        out += taken.bound.tolist()
    out += [name for block in open_.open for name in block.bound.tolist()]
    assert sorted(out) == list(range(pushed))


def test_hard_instances_do_not_keep_easy_ones_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    # With heavy noise trees are of very different sizes. Work is counted in nodes: time would depend on the machine.
    g = torch.Generator().manual_seed(3)
    design = qgt.Design.bernoulli(pools=20, items=40, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.1), qgt.SparseInteger(rate=0.3, bound=3))
    _, y = problem.simulate(24, generator=g)
    in_turns = _done(problem, y, steps=60)
    monkeypatch.setattr(sets, "TURNS", torch.tensor([2**60]))
    assert in_turns >= 2 * _done(problem, y, steps=60)


def _done(problem: qgt.Problem, y: torch.Tensor, steps: int) -> int:
    """How many instances are proved after some steps."""
    tables = Tables.of(pool_costs(problem.design, problem.noise, y))
    search = Search.start(Model.of(problem, y.device), tables, SearchOptions(slack=0.0, keep_leaves=False))
    for _ in islice(search.steps(128, None), steps):
        pass
    return int((search.unexplored() == torch.inf).sum())
