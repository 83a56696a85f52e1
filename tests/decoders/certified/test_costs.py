"""Groups of items inside the bound: against trying every x, and against HiGHS where that is too many."""

import itertools

import numpy as np
import pytest
import torch
from forged_proofs import cases, expect_only_honest_accepted

import qgt
from qgt.decoders.certified.costs import ROUNDS, Members, group_minima, group_minimum, group_swaps
from qgt.decoders.certified.iteration import cut_
from qgt.decoders.checker import groups_of, least_by_number, own_and_turned
from qgt.model.prior import ALONE, FREE, Groups
from random_problems import THOROUGH, model_case, proved_as_by_enumeration

CASES = 2000 if THOROUGH else 40  # random models; the seeds tell nothing
ITEMS = 7


@pytest.mark.usefixtures("unchecked")  # a third faster; what types are passed is checked in every other test
def test_it_equals_enumeration_on_random_models() -> None:
    """Households, unknown levels of them, unknown rates; every reading; missing counts."""
    proved = 0
    for seed in range(CASES):
        proved += proved_as_by_enumeration(model_case(seed), seed)
    assert CASES / 2 < proved < CASES


@pytest.mark.parametrize("background", [0.0, 0.05])
def test_the_list_is_that_of_trying_every_x(background: float) -> None:
    problem, y = households(background, 30)
    result = qgt.Certified(odds=50.0).bind(problem)(y)
    assert bool(result.evidence.complete.all())
    every = torch.cartesian_prod(*[torch.tensor([0, 1], dtype=torch.uint8)] * problem.items)
    for i in range(len(y)):
        log_joint = problem.log_joint(every, y[i].expand(len(every), -1))
        near = {tuple(x.tolist()) for x in every[log_joint > log_joint.max() - np.log(50.0)]}
        listed = result.evidence.alternatives.of_instance(i).x
        assert len(listed) == len(near) and {tuple(x.tolist()) for x in listed} == near


def households(background: float, instances: int) -> tuple[qgt.Problem, torch.Tensor]:
    g = torch.Generator().manual_seed(3)
    design = qgt.Design.bernoulli(pools=5, items=10, generator=g)
    prior = qgt.Households(size=3, seed_rate=0.2, attack_rate=0.6, background=background)
    problem = qgt.Problem(design, prior, qgt.SparseInteger(0.1, 1))
    return problem, problem.simulate(instances, generator=g).y


def test_households_of_a_hundred_items_are_proved_and_agree_with_highs() -> None:
    g = torch.Generator().manual_seed(1)
    design = qgt.Design.bernoulli(pools=22, items=100, generator=g)
    prior = qgt.Households(size=4, seed_rate=0.1, attack_rate=0.6)
    problem = qgt.Problem(design, prior, qgt.SparseInteger(0.1, 1))
    y = problem.simulate(20, generator=g).y
    ours, theirs = qgt.Certified(odds=1.0).bind(problem)(y), qgt.ExactMAP().bind(problem)(y[:4])
    assert bool((ours.status == qgt.Status.PROVED).all()) and bool(qgt.check_certificate(problem, y, ours).all())
    torch.testing.assert_close(ours.evidence.log_joint[:4], theirs.evidence.log_joint)


# --- sums over groups -----------------------------------------------------------------------------------------------


def some_groups(seed: int) -> tuple[Groups, torch.Tensor, torch.Tensor]:
    """Random groups, some numbers in them impossible; some items fixed; reduced costs."""
    g = torch.Generator().manual_seed(seed)
    group = torch.randint(-1, 3, (ITEMS,), generator=g)
    tables = 4 * torch.randn(3, ITEMS + 1, generator=g, dtype=torch.float64)
    tables[torch.rand(tables.shape, generator=g) < 0.15] = torch.inf
    sizes = torch.bincount(group[group != ALONE], minlength=3)
    tables = torch.where(torch.arange(ITEMS + 1) <= sizes[:, None], tables, torch.inf)
    fixed = torch.randint(-1, 2, (6, ITEMS), generator=g).to(torch.int8)
    fixed[torch.rand(fixed.shape, generator=g) < 0.5] = FREE
    return Groups(group, tables), fixed, 3 * torch.randn(6, ITEMS, generator=g, dtype=torch.float64)


@pytest.mark.parametrize("seed", range(12))
def test_both_sums_over_groups_are_those_of_trying_every_x(seed: int) -> None:
    groups, fixed, reduced = some_groups(seed)
    members, plain = Members.of(groups, torch.device("cpu")), groups_of(groups)
    every = torch.tensor(list(itertools.product([0, 1], repeat=ITEMS)), dtype=torch.uint8)
    cost = groups.of(every)[:, None] + every.double() @ reduced.T  # (x, nodes)
    inside = ((fixed[None] == FREE) | (fixed[None] == every[:, None])).all(2)  # (x, nodes)
    ones = (fixed == 1).sum(1)
    fixed_part = (reduced * (fixed == 1)).sum(1)
    cost = torch.where(inside, cost - fixed_part, torch.inf)
    close = {"atol": 1e-9, "rtol": 1e-9}
    torch.testing.assert_close(group_minimum(members, fixed, reduced), cost.amin(0), **close)
    theirs = least_by_number(plain, fixed.numpy(), reduced.numpy())
    ours = group_minima(members, fixed, reduced, ITEMS + 1)
    torch.testing.assert_close(ours, torch.from_numpy(theirs), **close)
    free = (fixed == FREE).sum(1)
    for number in range(ITEMS + 1):
        right = (every.sum(1)[:, None] == ones + number) & inside
        here = torch.where(right, cost, torch.inf)  # (x, nodes)
        torch.testing.assert_close(ours[:, number], here.amin(0), **close)
        rows = (number <= free).nonzero()[:, 0]
        if not len(rows):
            continue
        numbers = torch.full((len(rows),), number)
        own, best, more = group_swaps(members, fixed[rows], reduced[rows], numbers)
        same, again = own_and_turned(plain, fixed[rows].numpy(), reduced[rows].numpy(), numbers.numpy())
        torch.testing.assert_close(best, here.amin(0)[rows], **close)
        for at, row in enumerate(rows.tolist()):
            if not bool(best[at].isfinite()):
                continue
            whole = torch.where(fixed[row] == FREE, own[at], fixed[row] == 1).to(torch.uint8)
            assert torch.equal(whole, every[here[:, row].argmin()])
            assert np.array_equal(same[at], whole.numpy())
            turned = torch.where(every != whole, here[:, row, None], torch.inf).amin(0) - best[at]
            torch.testing.assert_close(more[at], turned, **close)
            torch.testing.assert_close(torch.from_numpy(again[at]), turned, **close)


def test_charges_are_cut_off_as_the_proximal_map_says() -> None:
    """Of step * charge * max x + |x - v|^2 / 2 with 0 <= x <= 1: nothing near the cut costs less."""
    g = torch.Generator().manual_seed(0)
    table = torch.tensor([[0.0, 3.0, 2.5, 2.0]], dtype=torch.float64)
    members = Members.of(Groups(torch.tensor([0, 0, 0, ALONE]), table), torch.device("cpu"))
    assert members.charge.tolist() == [3.5, 0.0] and members.slope.tolist() == [-0.5, -0.5, -0.5, 0.0]
    v = 1.5 * torch.rand(50, 4, generator=g) - 0.3
    fixed = torch.full(v.shape, FREE, dtype=torch.int8)
    step = 0.05 + 0.3 * torch.rand(50, 1, generator=g)
    cut = cut_(members.charges(fixed, step), v.clone(), ROUNDS).clamp(0.0, 1.0)

    def cost(x: torch.Tensor) -> torch.Tensor:
        return step[:, 0] * 3.5 * x[:, :3].amax(1) + 0.5 * (x - v).square().sum(1)

    for _ in range(300):
        near = (cut + 0.05 * torch.randn(cut.shape, generator=g)).clamp(0.0, 1.0)
        assert bool((cost(cut) <= cost(near) + 1e-6).all())
    fixed[:, 0] = 1  # the charge is due: nothing is cut off
    assert torch.equal(cut_(members.charges(fixed, step), v.clone(), ROUNDS).clamp(max=1.0), v.clamp(max=1.0))


# --- forgeries ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("unchecked")  # some forgeries are of types that annotations refuse
def test_no_forgery_is_accepted_and_no_honest_certificate_refused() -> None:
    problem, y = households(0.05, 12)
    y[::6, 0] += 1
    seen = expect_only_honest_accepted(cases(problem, y), torch.Generator().manual_seed(0))
    assert sum(seen.values()) > 200


def test_a_leaf_is_closed_whichever_of_two_equal_answers_its_checker_takes() -> None:
    """Items 1 and 8 alone are equally probable; which of them is a node's own x is left to rounding."""
    rows = ["101001100101", "101100000111", "111001101111", "100001110100"]
    rows += ["100110010110", "010011111110", "001011010001", "110101001111"]
    prior = qgt.Households(size=3, seed_rate=0.11280696630477904, attack_rate=0.5, background=0.02)
    problem = qgt.Problem(qgt.Design.from_rows(rows), prior, qgt.SparseInteger(0.15, 3))
    y = torch.tensor([[0.0, -2.0, 1.0, 0.0, -1.0, 1.0, 1.0, 3.0]], dtype=torch.float64)
    result = qgt.Certified(odds=1.0).bind(problem)(y)
    assert qgt.check_certificate(problem, y, result).tolist() == [True]
    best = problem.log_joint(qgt.Exhaustive().bind(problem)(y).x, y)
    assert torch.allclose(problem.log_joint(result.x, y), best, atol=1e-9)
