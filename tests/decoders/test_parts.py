"""Copies and categories through their parts: every exact decoder agrees with trying every x."""

import math
from pathlib import Path

import pytest
import torch

from qgt import (
    DECODERS,
    MLP,
    BeliefPropagation,
    Categories,
    Certified,
    Copies,
    Design,
    ExactMAP,
    Exhaustive,
    Gaussian,
    Problem,
    Reads,
    Reference,
    SparseInteger,
    Status,
    TrainConfig,
    check_certificate,
    instance_fit,
    load,
    score,
    train,
    verify,
)
from random_problems import some_of
from random_values import Case, best_found, every_x, random_case, right_status

KINDS = pytest.mark.parametrize("kind", ["copies", "categories"])


@KINDS
def test_exhaustive_is_the_posterior(kind: str, unchecked: None) -> None:
    g = torch.Generator().manual_seed(1)
    for _ in range(some_of(200)):
        case = random_case(kind, g)
        if case.problem.in_parts.items > 15:
            continue
        every, result = every_x(case), Exhaustive().bind(case.problem)(case.y)
        assert bool((best_found(case, every, result) & right_status(every, result.status)).all())
        for i in (every.best > -math.inf).nonzero()[:, 0].tolist():
            each = [(every.posterior[i][:, None] * (every.x == value)).sum(0) for value in range(case.levels + 1)]
            assert torch.allclose(result.evidence.values[i], torch.stack(each, 1), atol=1e-9)
            assert torch.allclose(result.scores[i], 1 - each[0], atol=1e-9)


@KINDS
def test_the_integer_program_finds_the_best(kind: str, unchecked: None) -> None:
    g = torch.Generator().manual_seed(2)
    for _ in range(some_of(150)):
        case = random_case(kind, g, instances=2)
        every, result = every_x(case), ExactMAP(workers=1).bind(case.problem)(case.y)
        assert bool((best_found(case, every, result) & right_status(every, result.status)).all())


def test_belief_is_exact_for_categories_of_single_items() -> None:
    problem = Problem(Design.from_matrix(torch.eye(3, dtype=torch.uint8)), Categories((0.2, 0.1)), Gaussian(sigma=0.5))
    y = problem.simulate(5, generator=torch.Generator().manual_seed(0)).y
    found, exact = BeliefPropagation(tolerance=1e-6).bind(problem)(y), Exhaustive().bind(problem)(y)
    assert torch.allclose(found.evidence.values, exact.evidence.values, atol=1e-4)


def random_tree(generator: torch.Generator) -> Design:
    """Pools of one to three items that share at most one, without cycles."""
    pools, items = [[0]], 1
    while items < 6:
        size = int(torch.randint(1, 3, (1,), generator=generator))
        old = int(torch.randint(0, items, (1,), generator=generator))
        pools.append([old, *range(items, items + size)])
        items += size
    return Design.from_lists(pools, items=items)


def test_belief_of_copies_is_exact_on_trees() -> None:
    g = torch.Generator().manual_seed(0)
    noises = (SparseInteger(rate=0.2, bound=1), Gaussian(sigma=0.5), Reads(depth=40, error=0.02))
    for number in range(some_of(20)):
        design = random_tree(g)
        frequency = 0.6 * torch.rand(design.items, generator=g, dtype=torch.float64)
        problem = Problem(design, Copies(frequency=frequency, ploidy=2), noises[number % 3])
        y = problem.simulate(3, generator=g).y
        y[0, 0] = math.nan
        every = every_x(Case(problem, y))
        result = BeliefPropagation(tolerance=1e-9, iterations=1000).bind(problem)(y)
        for i in range(3):
            each = [(every.posterior[i][:, None] * (every.x == value)).sum(0) for value in range(3)]
            assert torch.allclose(result.evidence.values[i], torch.stack(each, 1), atol=1e-6)


def test_belief_decodes_what_is_easy() -> None:
    g = torch.Generator().manual_seed(0)
    design = Design.column_regular(pools=60, items=100, weight=6, generator=g)
    for prior in (Copies(frequency=0.03, ploidy=2), Categories((0.03, 0.03))):
        problem = Problem(design, prior, SparseInteger(rate=0.05, bound=1))
        x, y = problem.simulate(40, generator=g)
        result = BeliefPropagation().bind(problem)(y)
        # Calling nothing is right for 2 of a thousand plates.
        assert (result.x == x).all(1).double().mean() >= 0.8


@pytest.mark.parametrize("prior", [Copies(frequency=0.1, ploidy=2), Categories((0.1, 0.1))])
def test_every_other_decoder_refuses(prior: Copies | Categories) -> None:
    problem = Problem(Design.from_rows(["110", "011"]), prior, SparseInteger(rate=0.1, bound=1))
    takes = {"belief", "certified", "exact", "exhaustive", "linear_program", "pooled_amp", "pooled_iht"}
    for name, kind in DECODERS.items():
        decoder = kind()
        if name in takes:
            assert decoder.supports(problem) is None
            continue
        with pytest.raises(ValueError, match="cannot decode this problem"):
            decoder.bind(problem)


@pytest.mark.parametrize("prior", [Copies(frequency=0.1, ploidy=2), Categories((0.1, 0.1))])
def test_what_takes_only_statuses_refuses(prior: Copies | Categories) -> None:
    problem = Problem(Design.from_rows(["110", "011"]), prior, SparseInteger(rate=0.1, bound=1))
    x, y = problem.simulate(3, generator=torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match="ask `in_parts`"):
        problem.factors(y.flatten(1))
    two = torch.full_like(x, 2)
    with pytest.raises(ValueError, match="other numbers than 0 and 1"):
        score(two, two)


@pytest.mark.parametrize("prior", [Copies(frequency=0.1, ploidy=2), Categories((0.1, 0.1))])
def test_networks_learn_the_values(prior: Copies | Categories, tmp_path: Path) -> None:
    g = torch.Generator().manual_seed(0)
    problem = Problem(Design.bernoulli(pools=10, items=6, generator=g), prior)
    config = TrainConfig(instances=None, batch=256, steps=100, epochs=8, validation=500)
    net = train(problem, MLP((64, 64)), config, generator=g)
    x, y = problem.simulate(500, generator=g)
    result = net.bind(problem)(y)
    # Calling nothing is right for a quarter of the instances.
    assert (result.x == x).all(1).double().mean() > 0.6
    assert result.x.max() == 2 and result.evidence.values is not None
    net.save(tmp_path / "net")
    assert torch.equal(load(tmp_path / "net").bind(problem)(y).x, result.x)
    other = Problem(problem.design, Categories((0.2, 0.1)))
    assert net.supports(other) is not None
    report = verify(net, problem, generator=g)
    assert report.error_percent < 25.0  # half of all entries would be wrong by chance


@pytest.mark.parametrize("prior", [Copies(frequency=0.05, ploidy=2), Categories((0.05, 0.05))])
def test_fit_tells_spoilt_reports(prior: Copies | Categories) -> None:
    g = torch.Generator().manual_seed(0)
    design = Design.bernoulli(pools=25, items=40, generator=g)
    problem = Problem(design, prior, SparseInteger(rate=0.1, bound=1))
    _, y = problem.simulate(4, generator=g)
    y[2:] = y[2:].flip(1)  # the pools in reverse order
    calls = Certified(odds=1.0, time_limit=0.1).bind(problem)(y).x
    fit = instance_fit(problem, y, calls, Reference.of(problem, generator=g))
    assert bool((fit[:2] > 0.01).all()) and bool((fit[2:] < 1e-3).all())


def test_reads_of_genotypes_come_from_every_chromosome() -> None:
    problem = Problem(Design.from_rows(["1111"]), Copies(frequency=0.3, ploidy=2), Reads(depth=1000))
    x = torch.tensor([[1, 2, 0, 1]], dtype=torch.uint8)  # 4 of 8 chromosomes
    y = torch.tensor([[500.0]], dtype=torch.float64)
    assert math.isclose(float(problem.log_reports(x, y).exp()), math.comb(1000, 500) / 2**1000, rel_tol=1e-9)


@pytest.mark.parametrize("prior", [Copies(frequency=0.1, ploidy=2), Categories((0.1, 0.1))])
def test_no_instances_are_no_answers(prior: Copies | Categories) -> None:
    problem = Problem(Design.from_rows(["110", "011"]), prior, SparseInteger(rate=0.1, bound=1))
    y = problem.simulate(0, generator=torch.Generator().manual_seed(0)).y
    for kind in DECODERS.values():
        if kind().supports(problem) is None:
            result = kind().bind(problem)(y)
            assert tuple(result.x.shape) == (0, 3) and tuple(result.status.shape) == (0,)
    assert check_certificate(problem, y, Certified().bind(problem)(y)).shape == (0,)


def test_a_report_of_the_wrong_shape_is_refused() -> None:
    problem = Problem(Design.from_rows(["110", "011"]), Categories((0.1, 0.1)))
    with pytest.raises(ValueError, match=r"y of shape \(1, 2\) is not valid: give a tensor \(instances, 2, 2\)"):
        Exhaustive().bind(problem)(torch.zeros(1, 2))
    with pytest.raises(ValueError, match=r"y\[0, 1, 0\]=inf is not a count"):
        Exhaustive().bind(problem)(torch.tensor([[[0.0, 0.0], [torch.inf, 0.0]]]))


def test_counts_that_no_x_explains_are_infeasible() -> None:
    problem = Problem(Design.from_rows(["11", "11"]), Categories((0.1, 0.1)))
    result = Exhaustive().bind(problem)(torch.tensor([[[2.0, 1.0], [2.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]]))
    assert [Status(one).name for one in result.status.tolist()] == ["INFEASIBLE", "PROVED"]
