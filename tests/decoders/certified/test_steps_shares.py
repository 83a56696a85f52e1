"""Shares of charges: the bound they give, and proofs that need them."""

import itertools
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

import qgt
from qgt.decoders.certified.costs import Model, Tables
from qgt.decoders.certified.iteration import by_item, rise
from qgt.decoders.certified.relaxation import Multipliers, Sets, least_pools, lower_bound, reduced_costs, rows_of
from qgt.decoders.certified.steps import Raising, Ranges, Shares, charges_of, turning_costs
from qgt.model.factors import pool_costs
from qgt.model.prior import FREE

NOISES = {
    "errors": qgt.PositiveNegative(0.9, 0.95),
    "diluted": qgt.PositiveNegative(0.95, 0.98, dilution=0.3),
    "outliers": qgt.Outliers(qgt.Binned([1, 3]), rate=0.05),
}


def group_testing(items: int, pools: int, weight: int, noise: qgt.Noise, rate: float) -> qgt.Problem:
    g = torch.Generator().manual_seed(items)
    design = qgt.Design.column_regular(pools=pools, items=items, weight=weight, generator=g)
    return qgt.Problem(design, qgt.Bernoulli(rate), noise)


@pytest.mark.parametrize("noise", NOISES)
def test_no_shares_give_a_bound_above_the_cheapest_x(noise: str) -> None:
    problem = group_testing(8, 5, 3, NOISES[noise], 0.08)
    g = torch.Generator().manual_seed(3)
    y = problem.simulate(4, generator=g).y
    model, tables = Model.of(problem, y.device), Tables.of(pool_costs(problem.design, problem.noise, y))
    shares, ranges = Shares.of(model.matrix[:-1], tables), Ranges.of(tables, charged=True)
    assert shares is not None and ranges is not None
    every = torch.tensor(list(itertools.product([0, 1], repeat=8)), dtype=torch.uint8)
    cost = -torch.stack([problem.log_joint(every, row.expand(len(every), -1)) for row in y])  # (instances, x)
    n = 300
    owner = torch.randint(4, (n,), generator=g)
    fixed = torch.randint(-1, 2, (n, 8), generator=g).to(torch.int8)
    fixed[torch.rand(n, 8, generator=g) < 0.5] = FREE
    given = shares.at(owner, fixed)
    some = shares.none(n) + torch.randn(n, *shares.items.shape, generator=g).abs() * (shares.items < 8)
    pi = torch.randn(n, model.matrix.shape[0], generator=g)
    pi[:, -1] = 0.0
    rows = rows_of(model, tables, ranges, Sets(owner, fixed, torch.full((n,), FREE)))
    multipliers = Multipliers(pi, some)
    bound = lower_bound(model, rows, fixed, multipliers, given)
    inside = ((fixed[:, None] == FREE) | (fixed[:, None] == every)).all(2)  # (nodes, x)
    costs = torch.where(inside, cost[owner], torch.inf)
    assert bool((bound <= costs.amin(1) + 1e-9).all())
    # With an item turned round, at least as much more as is said.
    reduced = reduced_costs(model, multipliers, given)
    own = torch.where(fixed == FREE, reduced < 0, fixed == 1).to(torch.uint8)
    untied = torch.zeros_like(own, dtype=torch.bool)
    more = turning_costs(
        ranges, model.matrix[:-1], owner, fixed, own, untied, pi[:, :-1].double(), partial(given.least, some)
    )
    assert bool((more >= 0).all()) and bool((more > 0.1).any())
    free = least_pools(model, rows, multipliers, given)
    for j in range(8):
        turned = costs.masked_fill(every[:, j] == own[:, j, None], torch.inf).amin(1)
        items = torch.where(fixed == FREE, reduced.clamp(max=0.0), reduced * fixed).sum(1) + reduced[:, j].abs()
        at = fixed[:, j] == FREE
        assert bool((free + items + more[:, j] <= turned + 1e-9)[at].all())


def test_a_charge_shared_out_well_reaches_what_the_envelope_does_not() -> None:
    """One negative pool of ten, of which two items are wanted for others: all of the charge goes to these."""
    design = qgt.Design.from_matrix(torch.tensor([[1] * 10, [1] + [0] * 9, [0, 1] + [0] * 8], dtype=torch.uint8))
    problem = qgt.Problem(design, qgt.Bernoulli(0.05), qgt.PositiveNegative(0.9, 0.9999))
    y = torch.tensor([[0.0, 1.0, 1.0]], dtype=torch.float64)
    model, tables = Model.of(problem, y.device), Tables.of(pool_costs(problem.design, problem.noise, y))
    shares = replace(Shares.of(model.matrix[:-1], tables))
    given = shares.at(torch.zeros(1, dtype=torch.int64), model.known[None])
    raising = Raising.start(given, given.even(), 0.5)
    for _ in range(200):
        rise(raising, torch.tensor([[0.4, 0.4] + [0.0] * 8]))
    charge = float(given.charge[0, 0])
    assert charge == pytest.approx(-np.log(0.1) + np.log(0.9999), abs=1e-9)
    last, mean = shown(raising, None), shown(raising, 200)
    torch.testing.assert_close(last[0, 0], torch.tensor([charge / 2] * 2 + [0.0] * 8), rtol=0, atol=1e-4)
    assert bool((mean[0, 0, :2] > charge / 4).all())
    assert bool((given.least(last) > -1e-5).all()) and bool((given.least(mean) > -1e-5).all())
    least = given.least(given.allowed(torch.full_like(last, 9.0)))
    assert bool((least > -1e-5).all())  # what is allowed gives out no more than there is


def shown(raising: Raising, steps: int | None) -> torch.Tensor:
    """The shares that a look is taken at, which give to each item what it says."""
    given = by_item(raising.places, raising.allowed_(steps))
    raising.keep(torch.ones(len(given), dtype=torch.bool))
    best = raising.best_of(torch.arange(len(given)))
    items = torch.zeros(len(given), given.shape[1] + 1)
    items.index_add_(1, raising.items.flatten(), best.flatten(1))  # what is beyond all items is given to nobody
    torch.testing.assert_close(given, items[:, :-1])
    return best


def test_charges_of_tables() -> None:
    for table, charge in (
        ([0, 3, 3], 3.0),
        ([1, 3, 4, 4.5], 1.25),
        ([3, 0, 0], 0.0),
        ([0, 1, 2], 0.0),
        ([0, 2], 0.0),
        ([3, 3, 0, 3], 0.0),
    ):
        assert charges_of(torch.tensor([table], dtype=torch.float64)).tolist() == pytest.approx([charge])
    assert charges_of(torch.tensor([[0, np.inf, np.inf]], dtype=torch.float64)).tolist() == [0.0]


def test_proofs_with_shares_hold_in_memory_and_in_files(tmp_path: object) -> None:
    problem = group_testing(200, 80, 6, qgt.PositiveNegative(0.95, 0.98), 0.02)
    y = problem.simulate(3, generator=torch.Generator().manual_seed(2)).y
    result = qgt.Certified(odds=10.0).bind(problem)(y)
    assert bool(qgt.check_certificate(problem, y, result).all()) and bool(result.evidence.complete.all())
    assert result.proof.shares.shape[1] == problem.design.transfers and bool((result.proof.shares > 0.1).any())
    without = replace(result, proof=replace(result.proof, shares=torch.zeros_like(result.proof.shares)))
    assert not bool(qgt.check_certificate(problem, y, without).all())  # they are what shows it
    none = replace(result, proof=replace(result.proof, shares=result.proof.shares[:, :0]))
    assert not bool(qgt.check_certificate(problem, y, none).all())
    wrong = replace(result, proof=replace(result.proof, shares=result.proof.shares[:, :5]))
    with pytest.raises(ValueError, match="shares"):
        qgt.check_certificate(problem, y, wrong)
    qgt.save_certificate(f"{tmp_path}/proof", problem, y, result)
    assert bool(qgt.check_certificate(problem, y, qgt.load_certificate(f"{tmp_path}/proof", problem, y)).all())
    theirs = qgt.ExactMAP().bind(problem)(y)
    torch.testing.assert_close(theirs.evidence.log_joint, result.evidence.log_joint, rtol=1e-12, atol=2e-6)
