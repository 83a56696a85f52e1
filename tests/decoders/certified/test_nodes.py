"""Whose open nodes come next, and costs on a grid."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import qgt
from qgt.decoders.certified import nodes as sets
from qgt.decoders.certified.costs import Model, Tables
from qgt.decoders.certified.nodes import FIRST_TURN_IN_TIME, SEARCH_TOLERANCE, Nodes, Stacks, edges_of_turns
from qgt.decoders.certified.relaxation import Iterates
from qgt.decoders.certified.search import Search, SearchOptions
from qgt.decoders.checker import CHECKER_TOLERANCE, STEP_MARGIN, InstanceCosts, Shared
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
    open_.spent[0] = int(open_.edges[2])
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


def test_what_is_dealt_out_comes_back() -> None:
    open_, pushed = Stacks.empty(50, torch.device("cpu")), 0
    for size in (1000, 3, 100, 700, 1):
        block = nodes([number % 50 for number in range(size)], first=pushed)
        open_.push(block, block.bound % 3 == 0)
        pushed += size
    open_.take(500)
    before = sorted(name for block in open_.open for name in block.bound.tolist())
    dealt = open_.dealt(3)
    sizes = [sum(len(block.owner) for block in one.open) for one in dealt]
    assert sum(sizes) == len(before) and max(sizes) - min(sizes) <= 120
    taken = [one.take(50) for one in dealt]
    together = open_.gathered(dealt)
    after = [name for block in (*taken, *together.open) for name in block.bound.tolist()]
    assert sorted(after) == before
    assert together.taken == open_.taken + 150
    assert torch.equal(together.spent, open_.spent + sum(torch.bincount(one.owner, minlength=50) for one in taken))


def test_small_blocks_of_many_turns_are_dealt_out_alike() -> None:
    open_, pushed = Stacks.empty(1, torch.device("cpu")), 0
    for turn in open_.turns:
        for stack in (turn.can_improve, turn.others):
            stack.append(nodes([0] * 5, first=pushed))
            pushed += 5
    assert [sum(len(block.owner) for block in one.open) for one in open_.dealt(2)] == [pushed / 2] * 2


def test_hard_instances_do_not_keep_easy_ones_waiting() -> None:
    # With heavy noise trees are of very different sizes. Work is counted in nodes: time would depend on the machine.
    g = torch.Generator().manual_seed(3)
    design = qgt.Design.bernoulli(pools=20, items=40, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.1), qgt.SparseInteger(rate=0.3, bound=3))
    _, y = problem.simulate(24, generator=g)
    without_turns = _done(problem, y, 2**20, steps=60)
    assert _done(problem, y, FIRST_TURN_IN_TIME, steps=60) >= 2 * without_turns


def _done(problem: qgt.Problem, y: torch.Tensor, first_turn: int, steps: int) -> int:
    """How many instances are proved after some steps."""
    tables = Tables.of(pool_costs(problem.design, problem.noise, y))
    search = Search.start(Model.of(problem, y.device), tables, SearchOptions(slack=0.0, keep_leaves=False))
    search.stacks.edges = edges_of_turns(first_turn, y.device)
    for _ in range(steps):
        search.step(128)
    return int((search.unexplored() == torch.inf).sum())


# --- costs on a grid ------------------------------------------------------------------------------------------------


def on_a_grid() -> dict[str, tuple[qgt.Problem, torch.Tensor]]:
    """Small problems whose costs are on a grid, with counts."""
    g, found = torch.Generator().manual_seed(5), {}
    design = qgt.Design.bernoulli(pools=7, items=9, generator=g)
    noises = {"off by one": qgt.SparseInteger(0.1, 1), "off by three": qgt.SparseInteger(0.2, 3)}
    for name, noise in (*noises.items(), ("Gaussian", qgt.Gaussian(0.4))):
        problem = qgt.Problem(design, qgt.Bernoulli(0.2), noise)
        y = problem.simulate(12, generator=g).y.round()
        missing = torch.where(torch.rand(y.shape, generator=g) < 0.2, torch.nan, y)
        found |= {name: (problem, y), f"{name}, some missing": (problem, missing)}
    unknown = qgt.Problem(design, qgt.UnknownRate(0.05, 0.4), qgt.SparseInteger(0.1, 1))
    y = unknown.simulate(12, generator=g).y
    y[:, 2] = torch.nan
    return found | {"unknown rate, one missing": (unknown, y)}


@pytest.mark.parametrize("name", on_a_grid())
def test_no_cost_is_between_a_rounded_bound_and_the_limit(name: str) -> None:
    """Of all x, for limits at every cost that occurs: what the search and the checker round up to is sound."""
    problem, y = on_a_grid()[name]
    every = torch.cartesian_prod(*[torch.tensor([0, 1], dtype=torch.uint8)] * problem.items)
    number = every.sum(1).long()
    model, tables = Model.of(problem, y.device), Tables.of(pool_costs(problem.design, problem.noise, y))
    levels, factors = sets.Levels.of(model, tables), problem.factors(y)
    assert levels is not None
    saved, shared = 0.0, Shared.of(factors)
    for i in range(len(y)):
        cost = -problem.log_joint(every, y[i].expand(len(every), -1))
        checker = InstanceCosts.of(shared, factors, i)
        for limit in cost[cost.isfinite()].unique()[:40].tolist():
            near = torch.full((len(every),), limit - SEARCH_TOLERANCE, dtype=torch.float64)
            ours = levels.below(near, torch.tensor(i), number)
            theirs = torch.from_numpy(checker.enough(limit - CHECKER_TOLERANCE))[number]
            for enough in (ours, theirs):
                assert not bool(((cost >= enough) & (cost < limit - 2 * CHECKER_TOLERANCE)).any())
            assert bool((theirs <= ours).all())  # what closes a node convinces the checker
            both = theirs.isfinite()
            assert bool(((ours - theirs - SEARCH_TOLERANCE + STEP_MARGIN).abs() < 1e-10)[both].all())  # the same grid
            saved += float((limit - ours[ours.isfinite()]).clamp(min=0).sum())
    assert saved > 0.1


def test_real_values_and_different_rates_have_no_grid() -> None:
    design = qgt.Design.bernoulli(pools=7, items=9, generator=torch.Generator().manual_seed(5))
    for prior, noise in (
        (qgt.Bernoulli(0.2), qgt.Gaussian(0.4)),
        (qgt.Bernoulli([0.1, 0.2] + [0.3] * 7), qgt.SparseInteger(0.1, 1)),
        (qgt.Bernoulli(0.2), qgt.RoundedGaussian(0.4)),
    ):
        problem = qgt.Problem(design, prior, noise)
        y = problem.simulate(5, generator=torch.Generator().manual_seed(1)).y
        tables = Tables.of(pool_costs(problem.design, problem.noise, y))
        assert sets.Levels.of(Model.of(problem, y.device), tables) is None
        costs = InstanceCosts.of(Shared.of(problem.factors(y)), problem.factors(y), 0)
        assert costs.enough(7.5).tolist() == [7.5] * 10


def test_values_beside_a_grid_are_none_of_it() -> None:
    values = torch.tensor([1.5, 3.0, 4.5 + 1e-8], dtype=torch.float64)
    assert sets.common_step(values, 1e-9) is None
    assert sets.common_step(values, 1e-7) == pytest.approx(1.5)
    assert sets.common_step(torch.tensor([1.0, 1.0005], dtype=torch.float64), 1e-9) is None  # too small a step
