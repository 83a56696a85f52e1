"""What is wrong where counts do not fit."""

import itertools
import math

import pytest
import torch

import qgt
from qgt.decoders.certified.decoder import cheaper_than
from qgt.decoders.certified.nodes import Nodes
from qgt.decoders.certified.search import Search
from qgt.model.factors import pool_costs
from qgt.model.noise import Noiseless
from qgt.trust.diagnosis import WRONG_COUNT_RATE, believed, rescue, second_look, wrong_count_odds
from qgt.trust.fit import Reference, instance_fit

# Counts that no answer explains: the fewest that must be wrong are named, and the answer that the others give.


def plate(positives: int = 3, seed: int = 0) -> tuple[qgt.Problem, torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    design = qgt.Design.column_regular(pools=24, items=96, weight=6, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.03))
    x = torch.zeros(96, dtype=torch.uint8)
    x[torch.randperm(96, generator=g)[:positives]] = 1
    return problem, x, design.count(x[None])[0]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("by", [1, -1, 7])
def test_one_count_off_is_named_and_the_positives_are_found(seed: int, by: int) -> None:
    problem, x, y = plate(seed=seed)
    pool = int(y.argmax())
    y[pool] += by
    assert int(qgt.Certified().bind(problem)(y[None]).status) == qgt.Status.INFEASIBLE
    found = rescue(problem, y, seconds=20.0)
    assert found is not None
    assert torch.equal(found.x, x) and found.wrong == (f"P{pool + 1}",)
    assert not bool(found.undecided.any())


def test_it_takes_the_fewest_counts_to_be_wrong() -> None:
    """Held against trying every x: nothing explains the counts with fewer of them wrong."""
    g = torch.Generator().manual_seed(1)
    problem = qgt.Problem(qgt.Design.bernoulli(pools=7, items=9, generator=g), qgt.Bernoulli(0.2))
    every = torch.tensor(list(itertools.product((0, 1), repeat=9)), dtype=torch.uint8)
    counts, tried = problem.design.count(every), 0
    for _ in range(30):
        y = problem.simulate(1, generator=g).y[0]
        y[torch.randint(7, (2,), generator=g)] += 1
        wrong = (counts != y).sum(1)
        if int(wrong.min()) == 0 or not bool(problem.explainable(y[None])):
            continue
        found = rescue(problem, y, seconds=20.0)
        assert found is not None and len(found.wrong) == int(wrong.min())
        tried += 1
    assert tried >= 5


def test_counts_that_are_impossible_by_themselves_are_wrong() -> None:
    problem, x, y = plate()
    y[4], y[9] = 1000.0, -3.0
    found = rescue(problem, y, seconds=20.0)
    assert found is not None and {"P5", "P10"} <= set(found.wrong) and torch.equal(found.x, x)


def test_nothing_follows_where_every_count_is_impossible() -> None:
    problem, _, y = plate()
    assert rescue(problem, y + 0.5) is None


def test_a_prior_that_can_only_be_sampled_gives_nothing() -> None:
    class Half:
        def sample(self, instances: int, items: int, *, generator: torch.Generator) -> torch.Tensor:
            return torch.randint(2, (instances, items), generator=generator).to(torch.uint8)

    design = qgt.Design.from_rows(["11", "11"])
    assert rescue(qgt.Problem(design, Half(), Noiseless()), torch.tensor([1.0, 2.0], dtype=torch.float64)) is None


def test_without_time_all_is_undecided() -> None:
    problem, _, y = plate(positives=8)
    y[int(y.argmax())] += 1
    found = rescue(problem, y, seconds=1e-9)
    assert found is None or bool(found.undecided.all())


def test_missing_counts_are_never_called_wrong() -> None:
    rows = ["11000", "00110", "10101", "01011", "11111"]
    problem = qgt.Problem(qgt.Design.from_rows(rows), qgt.Bernoulli(0.1))
    y = torch.tensor([1.0, torch.nan, 1.0, 0.0, 3.0], dtype=torch.float64)
    found = rescue(problem, y)
    assert found is not None and found.x.tolist() == [1, 0, 0, 0, 0] and found.wrong == ("P5",)
    broken = torch.tensor([9.0, torch.nan, 1.0, 0.0, torch.nan], dtype=torch.float64)  # P1 has two items
    found = rescue(problem, broken)
    assert found is not None and found.wrong == ("P1",)
    assert rescue(problem, torch.full((5,), torch.nan, dtype=torch.float64)) is None


def test_pools_with_noises_of_their_own_are_rescued() -> None:
    rows = ["11000", "00110", "10101", "01011", "11111"]
    noises = [qgt.Noiseless(), qgt.Noiseless(), qgt.SparseInteger(0.1, 1), qgt.Noiseless(), qgt.Noiseless()]
    problem = qgt.Problem(qgt.Design.from_rows(rows), qgt.Bernoulli(0.1), qgt.PerPool(noises))
    y = torch.tensor([1.0, 0.0, 1.0, 0.0, 4.0], dtype=torch.float64)
    found = rescue(problem, y)
    assert found is not None and found.x.tolist() == [1, 0, 0, 0, 0] and found.wrong == ("P5",)
    two = torch.tensor([1.0, 2.0, 1.0, 0.0, 0.0], dtype=torch.float64)  # more than one must be wrong
    found = rescue(problem, two)
    assert found is not None and len(found.wrong) >= 1


@pytest.mark.parametrize("wrong", [8, 9, 16])
def test_a_hopeless_sheet_names_nobody(wrong: int) -> None:
    """Of 24 counts, up to eight may be impossible by themselves; with more, what is left tells nothing."""
    problem, _, y = plate()
    y[:wrong] = 1263.0
    assert (rescue(problem, y, seconds=20.0) is None) == (wrong > 8)


def test_an_answer_that_takes_most_counts_to_be_wrong_is_none() -> None:
    """Ten pools with one item each: six counts contradict the pools of all items."""
    rows = ["1111111111", *["".join("1" if i == j else "0" for j in range(10)) for i in range(10)]]
    problem = qgt.Problem(qgt.Design.from_rows([*rows[:1] * 5, *rows[1:5]]), qgt.Bernoulli(0.1))
    y = torch.tensor([3.0, 5.0, 7.0, 9.0, 10.0, 1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    found = rescue(problem, y, seconds=5.0)
    assert found is not None and len(found.wrong) == 4  # of nine
    y[6:] = torch.nan
    assert rescue(problem, y, seconds=5.0) is None  # four of six


# A wrong count that explains an instance better is seen, and instances of the model hardly ever look like that.


def setting(noise: qgt.Noise, pools: int = 25, items: int = 60) -> qgt.Problem:
    g = torch.Generator().manual_seed(0)
    return qgt.Problem(qgt.Design.bernoulli(pools=pools, items=items, generator=g), qgt.Bernoulli(0.06), noise)


@pytest.mark.parametrize("noise", [qgt.SparseInteger(0.1, 1), qgt.RoundedGaussian(0.3), qgt.SparseInteger(0.02, 1)])
def test_instances_of_the_model_hardly_ever_look_like_it(noise: qgt.Noise) -> None:
    """The mean ratio is at most 1, so at most a share alpha has a ratio of 1 / alpha or more."""
    problem = setting(noise, pools=14, items=24)
    y = problem.simulate(200, generator=torch.Generator().manual_seed(1)).y
    odds = wrong_count_odds(problem, y, qgt.Certified(time_limit=0.2, certificates=False).bind(problem)(y))
    assert int(odds.isfinite().sum()) > 150
    for alpha in (0.3, 0.1, 0.01):
        share = float(((-odds).exp() <= alpha).double().mean())
        assert share <= alpha + 4 * math.sqrt(alpha / 200)
    assert float((1 - believed(odds)).mean()) < WRONG_COUNT_RATE  # what it takes from honest answers


def test_wrong_answers_to_spoilt_counts_that_look_sure_are_doubted() -> None:
    """In a laboratory's design one in twenty plates with a count that is 2 too high has such an answer."""
    g = torch.Generator().manual_seed(2)
    design = qgt.Design.column_regular(pools=24, items=96, weight=6, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.03), qgt.SparseInteger(0.02, 1))
    x, y = problem.simulate(120, generator=g)
    y[torch.arange(120), torch.randint(24, (120,), generator=g)] += 2  # the noise adds 1 at most
    result = qgt.Certified(time_limit=0.03, certificates=False).bind(problem)(y)
    fooled = (result.x != x).any(1) & result.evidence.complete & (result.evidence.confidence > 0.9)
    assert int(fooled.sum()) >= 20  # a decoder that is not fooled would leave nothing to see
    some = fooled.nonzero().flatten()[:20]
    assert int((believed(wrong_count_odds(problem, y[some], result.pick(some))) < 0.9).sum()) >= 18


def test_it_is_the_sum_over_all_x_where_one_x_dominates() -> None:
    """Against enumeration: a lower bound, and close where a count is plainly wrong."""
    problem = setting(qgt.SparseInteger(0.05, 1), pools=10, items=8)
    g = torch.Generator().manual_seed(3)
    y = problem.simulate(12, generator=g).y
    y[:, 4] += 2
    odds = wrong_count_odds(problem, y, qgt.Certified(odds=1e6).bind(problem)(y))
    every = torch.cartesian_prod(*[torch.tensor([0, 1], dtype=torch.uint8)] * 8)
    for row, found in zip(y, odds.tolist(), strict=True):
        if math.isfinite(found):
            exact = _exact_odds(problem, row, every)
            assert exact - 1.0 < found <= exact + 1e-6
    assert int(odds.isfinite().sum()) >= 4


def _exact_odds(problem: qgt.Problem, y: torch.Tensor, every: torch.Tensor) -> float:
    """log Q(y) / P(y) by trying every x."""
    total = float(problem.log_joint(every, y.expand(len(every), -1)).logsumexp(0))
    parts, counts, sizes = [], problem.design.count(every), problem.design.pool_sizes
    for i, size in enumerate(sizes.tolist()):
        without = y.clone()
        without[i] = torch.nan
        near = 0.5 * ((y[i] - counts[:, i]).abs() == 2) * 0.5
        anything = 0.5 / (size + 1) if 0 <= float(y[i]) <= size else 0.0
        parts.append(problem.log_joint(every, without.expand(len(every), -1)) + (near + anything).log())
    return float(torch.stack(parts).flatten().logsumexp(0)) - math.log(len(sizes)) - total


def test_what_has_no_complete_list_is_not_judged() -> None:
    problem = setting(qgt.SparseInteger(0.1, 1))
    y = problem.simulate(5, generator=torch.Generator().manual_seed(1)).y + 2
    for decoder in (qgt.GAMP(), qgt.Certified(time_limit=1e-9), qgt.Certified(odds=1.0)):
        assert wrong_count_odds(problem, y, decoder.bind(problem)(y)).tolist() == [-math.inf] * 5
    assert believed(torch.tensor([-math.inf], dtype=torch.float64)).tolist() == [1.0]


def test_missing_counts_and_real_ones_are_no_obstacle() -> None:
    g = torch.Generator().manual_seed(4)
    for noise in (qgt.SparseInteger(0.05, 1), qgt.Gaussian(0.2), qgt.PerPool([qgt.SparseInteger(0.05, 1)] * 12)):
        problem = setting(noise, pools=12, items=12)
        y = problem.simulate(4, generator=g).y
        y[:, 3] = torch.nan
        assert bool(wrong_count_odds(problem, y, qgt.Certified().bind(problem)(y)).isfinite().any())


def test_a_second_look_takes_less_than_the_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in nodes of searches, on plates without a wrong count: the time of most sheets."""
    g = torch.Generator().manual_seed(5)
    design = qgt.Design.column_regular(pools=17, items=96, weight=4, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.02), qgt.SparseInteger(0.02, 1))
    y = problem.simulate(150, generator=g).y
    relaxed, real = [0], Search._relax

    def counted(self: Search, nodes: Nodes, iterations: int) -> Nodes:
        relaxed[0] += len(nodes.owner)
        return real(self, nodes, iterations)

    monkeypatch.setattr(Search, "_relax", counted)
    result = qgt.Certified(certificates=False).bind(problem)(y)
    decoding = relaxed[0]
    fit = instance_fit(problem, y, result.x, Reference.of(problem, generator=g))
    second_look(problem, y, result, fit)
    assert int(((fit > 5e-4) & (fit < 0.3)).sum()) >= 10 and decoding > 150
    assert relaxed[0] - decoding < decoding


def test_only_answers_below_the_limit_are_looked_for() -> None:
    problem = setting(qgt.SparseInteger(0.1, 1), pools=10, items=12)
    y = problem.simulate(20, generator=torch.Generator().manual_seed(6)).y
    best = -qgt.Certified(certificates=False).bind(problem)(y).evidence.log_joint
    tables = pool_costs(problem.design, problem.noise, y)
    found = cheaper_than(problem, tables, best + 1e-3, seconds=60.0)
    torch.testing.assert_close(found.cost, best)
    torch.testing.assert_close(-problem.log_joint(found.x, y), best)
    none = cheaper_than(problem, tables, best - 1e-3, seconds=60.0)
    assert bool(none.cost.isinf().all()) and bool(none.unexplored.isinf().all())
