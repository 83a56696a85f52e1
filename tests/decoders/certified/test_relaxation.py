"""Relaxations of many nodes: what every instance shares, what missing counts change, and what a GPU may record."""

import itertools
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import qgt
from qgt.decoders.certified import costs, iteration, relaxation
from qgt.decoders.certified.costs import PIECES, Model, Tables, envelopes
from qgt.decoders.certified.iteration import compiled, iterate, steps_for
from qgt.decoders.certified.nodes import untouched
from qgt.decoders.certified.relaxation import Iterates, Metrics, Rows, _Inputs, relax, rows_of
from qgt.decoders.certified.steps import Given, Shares
from qgt.decoders.envelopes import envelope_of
from qgt.model.factors import pool_costs

DOUBLE = {"dtype": torch.float64}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def some_tables(seed: int) -> torch.Tensor:
    """Tables of all shapes: random, convex, flat, of few values, concave, with gaps."""
    g, width = seeded(seed), 1 + seed % 30
    counts = torch.arange(width, **DOUBLE)
    own = (width + 6) * torch.rand(12, 1, generator=g, **DOUBLE) - 3
    shapes = [
        3 * torch.randn(12, width, generator=g, **DOUBLE),
        (counts - own).square(),
        torch.zeros(12, width, **DOUBLE),
        torch.randint(0, 3, (12, width), generator=g).double(),
        (counts - own.round()).abs(),
        (counts + own.abs()).sqrt(),
    ]
    table = shapes[seed % len(shapes)]
    gaps = (0.0, 0.1, 0.5, 0.9)[seed // len(shapes) % 4]
    return table.masked_fill(torch.rand(table.shape, generator=g) < gaps, torch.inf)


def values(pieces: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """What an envelope costs at each count; infinite where it does not reach."""
    start, cost, rest = pieces[0], pieces[1], pieces[2:]
    slopes, lengths = rest.chunk(2)
    begins = start + lengths.cumsum(0) - lengths
    value = cost + ((counts[:, None] - begins).clamp(min=0.0).minimum(lengths) * slopes).sum(1)
    return torch.where((counts >= start) & (counts <= start + lengths.sum()), value, torch.inf)


def test_envelopes_of_all_tables_at_once_are_those_of_each() -> None:
    """A bound is sound because no envelope is above its table; and it is good because it is the largest such."""
    for seed in range(120):
        tables = some_tables(seed)
        counts, found = torch.arange(tables.shape[1], **DOUBLE), envelopes(tables)
        for table, pieces in zip(tables, found.T, strict=True):
            here = values(pieces, counts)
            assert bool((here <= table + 1e-9).all())
            start, cost, slopes, lengths = envelope_of(table.numpy())
            if len(slopes) <= PIECES:  # otherwise it is cut to fewer
                parts = [torch.tensor([start, cost], **DOUBLE), torch.from_numpy(slopes), torch.from_numpy(lengths)]
                torch.testing.assert_close(here, values(torch.cat(parts), counts), rtol=0, atol=1e-9)
            elif bool(table.isfinite().any()):
                assert float((here - table)[table.isfinite()].max()) == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("wide", [4, 2**10])
def test_wide_tables_have_the_same_corners(wide: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = some_tables(18 + 23)  # twelve that are not convex, with gaps
    before = envelopes(tables)
    monkeypatch.setattr(costs, "WIDE_TABLE", wide)
    monkeypatch.setattr(costs, "CHORDS", 2000)
    torch.testing.assert_close(envelopes(tables), before)


def test_the_tables_of_missing_counts_have_one_piece() -> None:
    assert envelopes(torch.zeros(1, 50, **DOUBLE))[:, 0].tolist() == [0.0, 0.0, 0.0, 49.0]


def paper(pools: int, prior: qgt.Prior | None = None) -> qgt.Problem:
    design = qgt.Design.bernoulli(pools=pools, items=100, generator=seeded(1))
    return qgt.Problem(design, prior or qgt.Bernoulli(0.06), qgt.SparseInteger(0.1, 1))


def bounds(problem: qgt.Problem, y: torch.Tensor, iterations: int) -> torch.Tensor:
    model, tables = Model.of(problem, y.device), Tables.of(pool_costs(problem.design, problem.noise, y))
    nodes = untouched(model, torch.arange(len(y)), None)
    rows, metric = rows_of(model, tables, None, nodes.sets), Metrics.of(model, tables).at(nodes.sets)
    found = relax(model, rows, nodes.fixed, nodes.state, None, iterations, metric=metric)
    if bool(y.isnan().any()):
        assert bool((found.state.pi[:, :-1][y.isnan()] == 0).all())
    return found.bound


def test_a_missing_count_is_as_if_the_pool_were_not_there() -> None:
    """Also after few iterations: nothing of the missing pools is left to go to 0."""
    problem = paper(30)
    y = problem.simulate(40, generator=seeded(2)).y
    there = torch.arange(30) % 5 > 0
    without = replace(problem, design=qgt.Design.from_matrix(problem.design.matrix[there]))
    y[:, ~there] = torch.nan
    for iterations in (40, 100):
        torch.testing.assert_close(
            bounds(problem, y, iterations), bounds(without, y[:, there], iterations), rtol=0, atol=2e-3
        )


def test_instances_with_other_counts_missing_do_not_change_a_bound() -> None:
    problem = paper(30)
    y = problem.simulate(60, generator=seeded(3)).y
    y[torch.rand(y.shape, generator=seeded(4)) < 0.1] = torch.nan
    each = torch.cat([bounds(problem, one, 60) for one in y.split(1)])
    torch.testing.assert_close(bounds(problem, y, 60), each, rtol=0, atol=2e-3)


class Looks(TorchDispatchMode):
    """Operations that wait for a value on the GPU, or whose result has a size that depends on values."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.__name__.split(".")[0]
        if name in ("_local_scalar_dense", "nonzero", "masked_select", "_unique2", "unique_dim", "equal", "is_nonzero"):
            self.seen.add(name)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("kind", ["plain", "missing", "households"])
def test_what_a_gpu_records_looks_at_no_value(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relaxation, "steps_for", lambda nodes: iterate)  # as on a GPU
    problem = paper(20, qgt.Households(size=4, seed_rate=0.1, attack_rate=0.6) if kind == "households" else None)
    y = problem.simulate(5, generator=seeded(5)).y
    if kind == "missing":
        y[torch.rand(y.shape, generator=seeded(6)) < 0.2] = torch.nan
    model, tables = Model.of(problem, y.device), Tables.of(pool_costs(problem.design, problem.noise, y))
    nodes = untouched(model, torch.arange(5), None)
    rows, metric = rows_of(model, tables, None, nodes.sets), Metrics.of(model, tables).at(nodes.sets)
    inputs = _Inputs(rows, nodes.fixed, nodes.state, metric)
    inputs.relaxed(model, 20)  # what is computed once is computed now
    with Looks() as looks:
        inputs.relaxed(model, 40)
    assert looks.seen == set()


class Relaxation(NamedTuple):
    """What `relax` is called with."""

    model: Model
    rows: Rows
    fixed: torch.Tensor
    state: Iterates
    given: Given | None
    metric: torch.Tensor | None

    def after(self, iterations: int) -> list[torch.Tensor]:
        """The bound and the state after some iterations."""
        model, rows, fixed, state, given, metric = self
        bound, found = relax(model, rows, fixed, state, None, iterations, given, metric)
        return [bound, *found]


KINDS = ["plain", "missing", "households", "tests", "uneven tests"]


def roots(kind: str) -> Relaxation:
    """The roots of nine instances."""
    problem = paper(20, qgt.Households(size=4, seed_rate=0.1, attack_rate=0.6) if kind == "households" else None)
    if kind.endswith("tests"):
        ones = (torch.rand(30, 60, generator=seeded(7)) < 0.15).to(torch.uint8)
        regular = qgt.Design.column_regular(pools=30, items=60, weight=5, generator=seeded(8))
        design = qgt.Design.from_matrix(ones) if kind == "uneven tests" else regular
        problem = qgt.Problem(design, qgt.Bernoulli(0.05), qgt.PositiveNegative(0.95, 0.98))
    y = problem.simulate(9, generator=seeded(5)).y
    if kind == "missing":
        y[torch.rand(y.shape, generator=seeded(6)) < 0.2] = torch.nan
    model, tables = Model.of(problem, y.device), Tables.of(pool_costs(problem.design, problem.noise, y))
    shares = Shares.of(model.matrix[:-1], tables)
    assert (shares is None) != kind.endswith("tests")
    nodes = untouched(model, torch.arange(len(y)), shares)
    rows, metric = rows_of(model, tables, None, nodes.sets), Metrics.of(model, tables).at(nodes.sets)
    given = None if shares is None else shares.at(nodes.owner, nodes.fixed)
    return Relaxation(model, rows, nodes.fixed, nodes.state, given, metric)


def elsewhere(value: Any) -> Any:
    """The same on a device of no values, where an operation with a tensor of the CPU fails, as it would on a GPU."""
    if isinstance(value, torch.Tensor):
        return value.to("meta")
    if isinstance(value, tuple):
        parts = map(elsewhere, value)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if is_dataclass(value) and not isinstance(value, type):
        moved = replace(value, **{field.name: elsewhere(getattr(value, field.name)) for field in fields(value)})
        moved.__dict__.update({name: elsewhere(part) for name, part in value.__dict__.items()})  # what is cached too
        return moved
    return value


@pytest.mark.parametrize("kind", KINDS)
def test_a_relaxation_is_all_on_one_device(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relaxation, "steps_for", lambda nodes: iterate)  # as on a GPU
    here = roots(kind)
    here.after(20)  # what is computed once is computed now
    there = elsewhere(here)
    assert {part.device.type for part in there.after(80)} == {"meta"}
    with pytest.raises((RuntimeError, NotImplementedError)):
        there._replace(state=here.state).after(80)


@pytest.mark.parametrize("kind", KINDS)
def test_torch_takes_the_same_steps_without_python(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also again and again: torch changes what it has compiled after the first two calls."""
    begun = roots(kind)
    assert compiled() is not iterate
    monkeypatch.setattr(relaxation, "steps_for", lambda nodes: compiled())
    without_python = [begun.after(80) for _ in range(4)]
    monkeypatch.setattr(relaxation, "steps_for", lambda nodes: iterate)
    for parts in without_python:
        for part, same in zip(parts, begun.after(80), strict=True):
            assert torch.equal(part, same)


def test_steps_are_compiled_for_many_nodes_and_once_they_are_taken_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iteration, "_calls", itertools.count())
    assert steps_for(iteration.MANY_NODES) is compiled()
    few = [steps_for(1) for _ in range(iteration.FEW_CALLS + 1)]
    assert few == [iterate] * iteration.FEW_CALLS + [compiled()]
