"""Tables with steps (positives and negatives, ranges): against trying every x, HiGHS and forged certificates."""

import itertools

import numpy as np
import pytest
import torch
from forged_proofs import cases, expect_only_honest_accepted

import qgt
from qgt.decoders.certified.costs import Tables
from qgt.decoders.certified.nodes import SEARCH_TOLERANCE, Nodes, split_off_complement
from qgt.decoders.certified.relaxation import Iterates
from qgt.decoders.certified.steps import BIG_M, Ranges, have_steps, turning_costs
from qgt.decoders.checker import CHECKER_TOLERANCE, LeafTable, Shared, _covers, hold_every_x
from qgt.decoders.results import LeafItem
from qgt.model.factors import pool_costs
from qgt.model.noise import Noise
from qgt.model.prior import FREE

NOISES: dict[str, Noise] = {
    "positive or negative": qgt.PositiveNegative(0.9, 0.95),
    "no errors": qgt.PositiveNegative(),
    "diluted": qgt.PositiveNegative(0.95, 0.98, dilution=0.3),
    "ranges": qgt.Binned([1, 3], qgt.SparseInteger(0.1, 1)),
    "saturating": qgt.Saturating(2, qgt.SparseInteger(0.1, 1)),
}


def sparse(noise: Noise, prior: qgt.Prior, *, items: int, pools: int, weight: int) -> qgt.Problem:
    g = torch.Generator().manual_seed(items)
    return qgt.Problem(qgt.Design.column_regular(pools=pools, items=items, weight=weight, generator=g), prior, noise)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("households", [False, True])
def test_it_calls_and_lists_what_trying_every_x_does(noise: str, households: bool) -> None:
    prior = qgt.Households(size=3, seed_rate=0.2, attack_rate=0.5, background=0.02)
    problem = sparse(NOISES[noise], prior if households else qgt.Bernoulli(0.12), items=12, pools=8, weight=3)
    y = problem.simulate(25, generator=torch.Generator().manual_seed(1)).y
    ours, truth = qgt.Certified(odds=30.0).bind(problem)(y), qgt.Exhaustive().bind(problem)(y)
    assert torch.equal(ours.status, truth.status) and bool(ours.evidence.complete.all())
    torch.testing.assert_close(ours.evidence.log_joint, truth.evidence.log_joint)
    assert bool(qgt.check_certificate(problem, y, ours).all())
    every = torch.tensor(list(itertools.product([0, 1], repeat=12)), dtype=torch.uint8)
    for i in range(len(y)):
        log_joint = problem.log_joint(every, y[i].expand(len(every), -1))
        near = log_joint > log_joint.max() - np.log(30.0) + 1e-5
        assert len(ours.evidence.alternatives.of_instance(i).x) == int(near.sum())


def test_a_hundred_items_are_proved_and_agree_with_highs() -> None:
    problem = sparse(qgt.PositiveNegative(0.95, 0.98), qgt.Bernoulli(0.02), items=100, pools=45, weight=5)
    y = problem.simulate(40, generator=torch.Generator().manual_seed(2)).y
    ours, theirs = qgt.Certified(odds=1.0).bind(problem)(y), qgt.ExactMAP().bind(problem)(y[:10])
    assert bool((ours.status == qgt.Status.PROVED).all())
    torch.testing.assert_close(ours.evidence.log_joint[:10], theirs.evidence.log_joint)
    assert bool(qgt.check_certificate(problem, y, ours).all())
    assert bool((ours.proof.fixed >= LeafItem.BOX_0).any())  # which the checker had to understand


# --- ranges ---------------------------------------------------------------------------------------------------------


def test_tables_with_steps() -> None:
    inf = np.inf
    for table in ([0, 3, 3], [3, 0, 3, 3], [0, inf, inf], [inf, 0, inf, 0]):
        assert have_steps(torch.tensor([table], dtype=torch.float64)).tolist() == [True]
    for table in ([3, 0, 0], [inf, 0, inf], [4, 1, 0, 1], [inf, inf]):
        assert have_steps(torch.tensor([table], dtype=torch.float64)).tolist() == [False]


@pytest.mark.parametrize("noise", NOISES)
def test_ranges_and_turned_items_are_bounded_as_the_tables_say(noise: str) -> None:
    problem = sparse(NOISES[noise], qgt.Bernoulli(0.2), items=12, pools=6, weight=3)
    g = torch.Generator().manual_seed(0)
    y = problem.simulate(8, generator=g).y
    tables = Tables.of(pool_costs(problem.design, problem.noise, y))
    ranges = Ranges.of(tables)
    if ranges is None:  # "2 or more" is convex, and so is "1 or 2"
        assert noise in ("saturating", "ranges")
        return
    matrix, owner = problem.design.matrix.float(), torch.arange(8)
    fixed = torch.where(torch.rand(8, 12, generator=g) < 0.4, torch.randint(0, 2, (8, 12), generator=g), FREE)
    pi, own = torch.randn(8, 6, generator=g, dtype=torch.float64), torch.randint(0, 2, (8, 12), generator=g)
    fixed, untied = fixed.to(torch.int8), torch.zeros_like(own, dtype=torch.bool)
    found = turning_costs(ranges, matrix, owner, fixed, own, untied, pi)
    other = turning_costs(ranges, matrix, owner, fixed, 1 - own, untied, pi)
    either = turning_costs(ranges, matrix, owner, fixed, own, ~untied, pi)
    assert torch.equal(either, torch.minimum(found, other))
    assert not torch.equal(either, found)
    for node, item in itertools.product(range(8), range(12)):
        if int(fixed[node, item]) != FREE:
            continue
        turned = fixed[node].clone()
        turned[item] = 1 - own[node, item]
        costs = [_least(tables, matrix, node, status, pi[node]) for status in (fixed[node], turned)]
        change = torch.where(costs[0].isfinite(), (costs[1] - costs[0]).clamp(0.0, BIG_M), 0.0)
        steps = ranges.steps[tables.which[node]]
        assert float(found[node, item]) == pytest.approx(float((change * steps).sum()), abs=1e-9)


def _least(tables: Tables, matrix: torch.Tensor, node: int, fixed: torch.Tensor, pi: torch.Tensor) -> torch.Tensor:
    """The least of each pool's table plus pi times the count, count by count."""
    lowest = matrix @ (fixed == 1).float()
    highest = lowest + matrix @ (fixed == FREE).float()
    counts = torch.arange(tables.costs.shape[1])
    inside = (counts >= lowest[:, None]) & (counts <= highest[:, None])
    return torch.where(inside, tables.costs[tables.which[node]] + pi[:, None] * counts, torch.inf).amin(1)


# --- complement leaves ----------------------------------------------------------------------------------------------


def test_a_node_splits_into_a_box_and_its_complement() -> None:
    assert (LeafItem.FREE, LeafItem.ZERO, LeafItem.ONE) == (FREE, 0, 1)  # as priors and nodes have them
    none = torch.zeros(1, 4)
    state = Iterates(none, none, none, none)
    known, total = torch.tensor([[1, FREE, FREE, FREE]], dtype=torch.int8), torch.tensor([FREE])
    node = Nodes(torch.tensor([0]), known, total, torch.zeros(1, dtype=torch.float64), state)
    settled, own = torch.tensor([[False, True, True, False]]), torch.tensor([[1, 0, 1, 0]], dtype=torch.uint8)
    leaf, box = (one.fixed.tolist() for one in split_off_complement(node, settled, own))
    assert (leaf, box) == ([[LeafItem.ONE, LeafItem.BOX_0, LeafItem.BOX_1, LeafItem.FREE]], [[1, 0, 1, FREE]])
    for x in itertools.product([0, 1], repeat=4):  # each x of the node is in one of the two
        assert _holds(leaf[0], x) + _holds(box[0], x) == _holds(known[0].tolist(), x)
    leaves, same = split_off_complement(node, settled & False, own)
    assert len(leaves.owner) == 0 and torch.equal(same.fixed, known)


def test_the_checker_leaves_room_for_its_rounding() -> None:
    assert SEARCH_TOLERANCE < CHECKER_TOLERANCE


def test_a_complement_leaf_holds_what_turns_one_of_its_items() -> None:
    at0, at1 = LeafItem.BOX_0, LeafItem.BOX_1
    assert _covers(np.array([[at0, at1, FREE], [0, 1, FREE]], dtype=np.int8))
    assert _covers(np.array([[at0, at1, FREE], [FREE, 1, 0], [0, FREE, 1]], dtype=np.int8))
    assert not _covers(np.array([[at0, at1, FREE]], dtype=np.int8))  # nothing holds the smaller box
    assert not _covers(np.array([[at0, at1, FREE], [0, 1, 0]], dtype=np.int8))
    assert not _covers(np.array([[at0, at1, FREE], [0, 0, FREE]], dtype=np.int8))
    assert _covers(np.array([[0, FREE, FREE], [1, at0, FREE], [1, 0, FREE]], dtype=np.int8))
    assert not _covers(np.array([[at0, FREE, FREE], [at0, FREE, FREE]], dtype=np.int8))


@pytest.mark.parametrize("seed", range(40))
def test_boxes_that_are_said_to_cover_hold_every_x(seed: int) -> None:
    g = np.random.default_rng(seed)
    fixed = g.choice(np.array([FREE, FREE, 0, 1, LeafItem.BOX_0, LeafItem.BOX_1], dtype=np.int8), (6, 3))
    numbers, weights = np.zeros(4), np.zeros(3)
    nobody = np.zeros(2, dtype=np.int64)
    known = np.full(3, FREE, dtype=np.int8)
    shared = Shared(np.zeros((1, 3)), weights, known, numbers, 0.0, (), nobody[:0], nobody)
    leaves = LeafTable(
        fixed, np.zeros(6, dtype=np.int64), np.full(6, 3, dtype=np.int64), np.zeros((6, 1)), np.zeros((6, 0))
    )
    if hold_every_x(shared, leaves):
        for x in itertools.product([0, 1], repeat=3):
            assert any(_holds(row, x) for row in fixed.tolist()), x


def _holds(row: list[int], x: tuple[int, ...]) -> bool:
    turned = [v != r - LeafItem.BOX_0 for r, v in zip(row, x, strict=True) if r >= LeafItem.BOX_0]
    agrees = all(r in (FREE, v) for r, v in zip(row, x, strict=True) if r < LeafItem.BOX_0)
    return agrees and (any(turned) or not turned)


@pytest.mark.usefixtures("unchecked")  # some forgeries are of types that annotations refuse
@pytest.mark.parametrize("noise", ["positive or negative", "no errors"])
def test_no_forgery_is_accepted_and_no_honest_certificate_refused(noise: str) -> None:
    rates = [0.1, 0.2, 0.15, 0.1, 0.05, 0.2, 0.1, 0.12, 0.3]
    problem = sparse(NOISES[noise], qgt.Bernoulli(rates), items=9, pools=6, weight=2)
    g = torch.Generator().manual_seed(0)
    made = cases(problem, problem.simulate(7, generator=g).y)
    assert any(bool((case.result.proof.fixed >= LeafItem.BOX_0).any()) for case in made)
    seen = expect_only_honest_accepted(made, g)
    assert seen["leaves: an item kept that was not"] and sum(seen.values()) > 50


def test_a_leaf_may_keep_the_items_of_any_of_several_x_that_are_equally_cheap() -> None:
    design = qgt.Design.from_rows(["0011111000", "0100100111", "1010011001", "1101000110"])
    prior = qgt.Households(size=3, seed_rate=0.09353580236434936, attack_rate=0.5, background=0.02)
    problem = qgt.Problem(design, prior, qgt.PositiveNegative(0.95, 0.98))
    y = torch.tensor([[1.0, 0.0, 1.0, 1.0]], dtype=torch.float64)
    result = qgt.Certified().bind(problem)(y)
    assert result.evidence.complete.all() and bool((result.proof.fixed >= LeafItem.BOX_0).any())
    assert qgt.check_certificate(problem, y, result).all()


def test_saturating_counts_take_few_nodes() -> None:
    """Their tables level off: with the steps of the method that suit other counts these three took 340,000 leaves."""
    g = torch.Generator().manual_seed(143)
    design = qgt.Design.column_regular(pools=35, items=100, weight=8, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.06), qgt.Saturating(3, qgt.SparseInteger(0.1, 1)))
    y = problem.simulate(100, generator=torch.Generator().manual_seed(1)).y[[5, 61, 50]]
    result = qgt.Certified(odds=1.0, time_limit=10.0).bind(problem)(y)
    assert bool((result.status == qgt.Status.PROVED).all()) and len(result.proof.fixed) < 30_000
