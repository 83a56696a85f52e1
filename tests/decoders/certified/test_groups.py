"""Splits by groups: children share out the x of their parent, and the checker knows which leaves cover every x."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

import qgt
from qgt.decoders.certified.costs import SUMS_TOGETHER, Members, group_swaps
from qgt.decoders.certified.nodes import Nodes, group_to_split, split_by_first, split_by_group, split_by_item
from qgt.decoders.certified.relaxation import Iterates
from qgt.decoders.checker import _covers
from qgt.decoders.results import LeafItem
from qgt.model.prior import ALONE, FREE, Groups

GROUP = [0, 0, 0, 1, 1, ALONE]
SOME = LeafItem.SOME
TABLES = torch.tensor([[0.0, 3.0, 2.5, 2.0], [0.0, 3.0, 2.5, torch.inf]], dtype=torch.float64)
EVERY = list(itertools.product([0, 1], repeat=len(GROUP)))


def holds(row: list[int], x: tuple[int, ...]) -> bool:
    """Whether a leaf holds an x, by the words of `LeafItem`."""
    agrees = all(code not in (0, 1) or code == value for code, value in zip(row, x, strict=True))
    marks = {code for code in row if code <= SOME}
    return agrees and all(any(v for c, v in zip(row, x, strict=True) if c == mark) for mark in marks)


def nodes_of(fixed: list[list[int]], x: torch.Tensor) -> Nodes:
    n, none = len(fixed), torch.zeros(len(fixed), 0)
    state = Iterates(x, none, none, none)
    number = torch.zeros(n, dtype=torch.int64)
    return Nodes(number, torch.tensor(fixed, dtype=torch.int8), number + 2, number.double(), state)


def expect_shared_out(parent: list[int], children: list[list[int]]) -> None:
    for x in EVERY:
        assert sum(holds(child, x) for child in children) == holds(parent, x), (parent, children, x)


@pytest.mark.parametrize("seed", range(10))
def test_children_share_out_the_x_of_their_parent(seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    members = Members.of(Groups(torch.tensor(GROUP), TABLES), torch.device("cpu"))
    x = torch.rand(1, 6, generator=g)
    todo = [[FREE] * 6]
    for _ in range(30):
        fixed = todo.pop(int(torch.randint(len(todo), (), generator=g)))
        nodes = nodes_of([fixed], x)
        loose = (nodes.fixed < 0) & (torch.rand(1, 6, generator=g) < 0.8)
        group, some = group_to_split(members, nodes, loose)
        if bool(some):
            children = split_by_group(members, nodes, group)
        elif not bool(loose.any()):
            children = nodes
        elif bool(torch.rand((), generator=g) < 0.5):
            children = split_by_item(nodes, loose.long().argmax(1), members)
        else:
            children = split_by_first(nodes, loose, torch.rand(1, 6, generator=g), members)
        expect_shared_out(fixed, children.fixed.tolist())
        todo = todo + children.fixed.tolist()
        assert _covers_leaves(todo)


def _covers_leaves(leaves: list[list[int]]) -> bool:
    return _covers(np.array(leaves, dtype=np.int8), [np.array([0, 1, 2]), np.array([3, 4]), np.array([5])])


def test_what_covers_and_what_does_not() -> None:
    every = [FREE] * 3
    none, some = [0, 0, 0, *every], [SOME, SOME, SOME, *every]
    assert _covers_leaves([none, some])
    assert not _covers_leaves([none]) and not _covers_leaves([some]) and not _covers_leaves([none, none])
    assert not _covers_leaves([none, [SOME, SOME, FREE, *every]])  # not 001
    assert not _covers_leaves([none, [SOME, SOME, 0, *every]])
    assert not _covers_leaves([none, [SOME, SOME, -3, *every]])  # two sets, each with a defective
    assert not _covers_leaves([none, [SOME, SOME, SOME, -3, -3, FREE]])
    named = [[1, *[FREE] * 5], [0, SOME, SOME, *every], none]
    assert _covers_leaves(named) and not _covers_leaves(named[:2]) and not _covers_leaves(named[1:])
    assert _covers_leaves([[1, *[FREE] * 5], [0, 1, FREE, *every], [0, 0, 1, *every], none])


@pytest.mark.parametrize("seed", range(30))
def test_leaves_that_are_said_to_cover_hold_every_x(seed: int) -> None:
    """Trees of splits, changed in a few places."""
    g = np.random.default_rng(seed)
    base = [[0, 0, 0, 0, 0, FREE], [0, 0, 0, -3, -3, FREE], [SOME, SOME, SOME, 0, 0, FREE], [1, FREE, FREE, -3, -3, 0]]
    base += [[1, FREE, FREE, -3, -3, 1], [0, SOME, SOME, 1, FREE, FREE], [0, SOME, SOME, 0, 1, FREE]]
    assert _covers_leaves(base)
    codes = np.array([FREE, 0, 1, SOME, -3], dtype=np.int8)
    for _ in range(40):
        leaves = np.array(base, dtype=np.int8)
        for _ in range(1 + g.integers(3)):
            leaves[g.integers(len(leaves)), g.integers(6)] = g.choice(codes)
        leaves = leaves[g.random(len(leaves)) < 0.95]
        if _covers_leaves(leaves.tolist()):
            assert all(any(holds(row, x) for row in leaves.tolist()) for x in EVERY)


def test_proofs_of_households_have_sets_with_a_defective() -> None:
    g = torch.Generator().manual_seed(1)
    prior = qgt.Households(size=4, seed_rate=0.1, attack_rate=0.6)
    design = qgt.Design.bernoulli(pools=16, items=60, generator=g)
    problem = qgt.Problem(design, prior, qgt.SparseInteger(0.1, 1))
    y = problem.simulate(12, generator=g).y
    result = qgt.Certified().bind(problem)(y)
    assert bool((result.proof.fixed <= SOME).any()) and bool(result.evidence.complete.all())
    assert bool(qgt.check_certificate(problem, y, result).all())
    without = result.proof.fixed.clone()
    without[without <= SOME] = FREE  # leaves that say less: they cover every x in a way that the checker does not see
    changed = replace(result, proof=replace(result.proof, fixed=without))
    marked = torch.zeros(len(y), dtype=torch.bool)
    marked[result.proof.spans.owner[(result.proof.fixed <= SOME).any(1)]] = True
    assert not bool(qgt.check_certificate(problem, y, changed)[marked].any())


def test_many_nodes_are_looked_at_as_a_few_are() -> None:
    g = torch.Generator().manual_seed(0)
    members = Members.of(Groups(torch.tensor(GROUP), TABLES), torch.device("cpu"))
    n = 2 * SUMS_TOGETHER + 7
    reduced = torch.randn(n, 6, generator=g, dtype=torch.float64)
    fixed = torch.where(torch.rand(n, 6, generator=g) < 0.2, 0, FREE).to(torch.int8)
    number = torch.randint(0, 4, (n,), generator=g)
    together = group_swaps(members, fixed, reduced, number)
    parts = [group_swaps(members, fixed[i : i + 50], reduced[i : i + 50], number[i : i + 50]) for i in range(0, n, 50)]
    for whole, some in zip(together, zip(*parts, strict=True), strict=True):
        assert torch.equal(whole, torch.cat(some))
