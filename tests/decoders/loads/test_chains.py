"""Annealed chains: classes of items that share no pool, and a plate whose positives the search alone overlooks."""

import math

import pytest
import torch

import qgt
from qgt.decoders.loads import search
from qgt.decoders.loads.chains import CHAINS, annealed, disjoint
from qgt.decoders.loads.evidence import NONE, Plates, PositiveSets

POSITIVES, PLATES = 15, 20


def plates_of(problem: qgt.Problem, y: torch.Tensor) -> Plates:
    who = problem.loads.statuses() if problem.loads is not None else None
    assert problem.loads is not None and isinstance(who, qgt.FactoredPrior)
    return Plates.of(problem, problem.loads, who.costs(problem.items), y)


def lists_of(problem: qgt.Problem, y: torch.Tensor) -> list[tuple[bool, dict[tuple[int, ...], float]]]:
    """Whether the list of each plate is complete, and the evidence of each of its sets."""
    listing = search.SetSearch(plates_of(problem, y), window=math.log(1000), width=3, most_sets=100).run()
    found: list[dict[tuple[int, ...], float]] = [{} for _ in y]
    sets, evidence = listing.fitted.sets, listing.fitted.evidence.tolist()
    for owner, items, value in zip(sets.owner.tolist(), sets.items.tolist(), evidence, strict=True):
        found[owner][tuple(sorted(item for item in items if item != NONE))] = value
    return list(zip(listing.complete.tolist(), found, strict=True))


def test_items_of_a_class_share_no_pool() -> None:
    design = qgt.Design.kirkman_triples(pools=15, items=35)
    problem = qgt.Problem(design, qgt.Loads(rate=0.05, mean=3.0, sd=1.0), qgt.CycleThreshold(sigma=0.25))
    classes = disjoint(plates_of(problem, problem.simulate(1, generator=torch.Generator().manual_seed(0)).y))
    assert sorted(torch.cat(classes).tolist()) == list(range(35))
    for part in classes:
        assert int(design.matrix[:, part].sum(1).max()) <= 1


def test_chains_end_in_sets_of_candidates() -> None:
    design = qgt.Design.steiner_triples(pools=13, items=24)
    problem = qgt.Problem(design, qgt.Loads(rate=0.06, mean=3.0, sd=1.2), qgt.CycleThreshold(sigma=0.25, limit=38.0))
    x, y = problem.simulate(10, generator=torch.Generator().manual_seed(0))
    plates = plates_of(problem, y)
    may_be = search.candidates(plates)
    ends = annealed(plates, may_be, generator=torch.Generator().manual_seed(0))
    assert ends.owner.tolist() == [i for i in range(10) for _ in range(CHAINS)]
    reached = (ends.statuses(24) == (x > 0)[ends.owner]).all(1).view(10, CHAINS).any(1)
    assert float(reached.double().mean()) > 0.8
    for i, items in zip(ends.owner.tolist(), ends.items.tolist(), strict=True):
        assert {item for item in items if item != NONE} <= set(may_be[i].tolist())


def test_chains_do_not_depend_on_the_rest_of_the_batch() -> None:
    problem = qgt.Problem(
        qgt.Design.kirkman_triples(pools=15, items=35),
        qgt.Loads(rate=0.15, mean=3.0, sd=1.2),
        qgt.CycleThreshold(sigma=0.25, limit=38.0),
    )
    y = problem.simulate(6, generator=torch.Generator().manual_seed(1)).y
    plates = plates_of(problem, y)
    may_be = search.candidates(plates)
    all_ends = annealed(plates, may_be, generator=torch.Generator().manual_seed(0)).statuses(35)
    some = torch.tensor([4, 1])
    ends = annealed(plates[some], may_be[some], generator=torch.Generator().manual_seed(0)).statuses(35)
    assert torch.equal(ends.view(2, CHAINS, -1), all_ends.view(6, CHAINS, -1)[some])


@pytest.mark.usefixtures("unchecked")
def test_lists_do_not_depend_on_the_rest_of_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """With chains for every plate, and searches that end before their lists are complete."""
    monkeypatch.setattr(search, "HARD", 1)
    monkeypatch.setattr(search, "MANY_POSITIVES", 1)
    design = qgt.few_transfers(items=48, pools=16, weight=4, generator=torch.Generator().manual_seed(0))
    noise = qgt.CycleThreshold(sigma=0.25, intercept=37.0, limit=38.0)
    problem = qgt.Problem(design, qgt.Loads(rate=0.1, mean=2.9, sd=1.9, low=0.0), noise)
    y = problem.simulate(5, generator=torch.Generator().manual_seed(2)).y
    together = lists_of(problem, y)
    for some in ([2, 0], [4, 1, 3]):
        for place, (complete, found) in zip(some, lists_of(problem, y[some]), strict=True):
            assert complete == together[place][0]
            assert found == pytest.approx(together[place][1], abs=1e-6)
    assert 0 < sum(complete for complete, _ in together) < len(y)


@pytest.mark.usefixtures("unchecked")
def test_chains_find_what_neighbours_overlook() -> None:
    """15 positives of 961: from the empty set the search ends 9 positives away from the truth, 50 nats below it."""
    even = (torch.arange(2000, dtype=torch.float64) + 0.5) / 2000
    problem = qgt.Problem(
        qgt.Design.kirkman_triples(pools=93, items=961),
        qgt.Loads(rate=POSITIVES / 961, values=even.log10().tolist()),
        qgt.Amount(relative=0.1 * math.log(1.95)),
    )
    generator = torch.Generator().manual_seed(0)
    who = qgt.FixedWeight(POSITIVES).sample(PLATES, 961, generator=generator)
    x = torch.rand(PLATES, 961, dtype=torch.float64, generator=generator).clamp(min=1 / 32768) * who
    sizes = problem.design.pool_sizes.to(torch.float64)
    x, y = x[:1], problem.noise.sample(problem.design.count(x), sizes, generator=generator)[:1]
    amounts, items = x.topk(POSITIVES, 1)
    truth = plates_of(problem, y).fit(PositiveSets(torch.arange(1), items, amounts.log10())).evidence
    result = qgt.LoadPosterior().bind(problem)(y)
    assert result.evidence.log_joint is not None
    assert bool(result.evidence.log_joint > truth - 0.5)
