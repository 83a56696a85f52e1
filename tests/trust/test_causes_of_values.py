"""What is wrong with a simulated file of copies or categories is named first; of honest files nothing is named."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from qgt import (
    BeliefPropagation,
    Categories,
    Certified,
    Copies,
    Design,
    Noise,
    PerCategory,
    PositiveNegative,
    Problem,
    Reads,
    SparseInteger,
)
from qgt.trust.diagnosis import Cause, likely_causes
from qgt.trust.fit import Reference, exchange_p, held_together, hopeless

PLATES = 24
VARIANTS = Categories((0.05, 0.01), names=["variant A", "variant B"])
COUNTED, DETECTED = SparseInteger(0.02, 1), PositiveNegative(sensitivity=0.98, specificity=0.99)
DESIGN = Design.column_regular(pools=16, items=40, weight=5, generator=torch.Generator().manual_seed(0))
PROBLEMS = {
    "variants": Problem(DESIGN, VARIANTS, COUNTED),
    "one detected": Problem(DESIGN, VARIANTS, PerCategory([COUNTED, DETECTED])),
    "copies": Problem(DESIGN, Copies(frequency=0.03, ploidy=2), COUNTED),
    "reads": Problem(DESIGN, Copies(frequency=0.03, ploidy=2), Reads(depth=1000, error=0.001)),
}
ALL = pytest.mark.parametrize("kind", PROBLEMS)
OF_CATEGORIES = pytest.mark.parametrize("kind", ["variants", "one detected"])
pytestmark = pytest.mark.usefixtures("unchecked")


def simulated(problem: Problem, seed: int = 1) -> Tensor:
    return problem.simulate(PLATES, generator=torch.Generator().manual_seed(seed)).y


def causes(kind: str, y: Tensor) -> list[Cause]:
    """As a sheet's are found, but by messages: they do not depend on the clock of a busy machine."""
    return causes_of(PROBLEMS[kind], y)


def causes_of(problem: Problem, y: Tensor) -> list[Cause]:
    calls = Certified(odds=1.0, time_limit=1.0, certificates=False).bind(problem)(y).x
    return likely_causes(problem, y, BeliefPropagation(iterations=30), calls=calls)


@ALL
@pytest.mark.parametrize("seed", [5, 6])
def test_of_honest_files_nothing_is_named(kind: str, seed: int) -> None:
    assert causes(kind, simulated(PROBLEMS[kind], seed)) == []


@ALL
def test_swapped_pools(kind: str) -> None:
    y = simulated(PROBLEMS[kind])
    y[:, [3, 12]] = y[:, [12, 3]]
    (first, *_) = causes(kind, y)
    noun = "counts" if kind in ("variants", "copies") else "results"
    assert first.kind == "pools swapped" and first.words == f"the {noun} of pools P4 and P13 are swapped"
    assert first.pools == (3, 12)


@OF_CATEGORIES
def test_pools_swapped_in_one_category(kind: str) -> None:
    y = simulated(PROBLEMS[kind])
    y[:, [3, 12], 0] = y[:, [12, 3], 0]
    (first, *_) = causes(kind, y)
    assert first.kind == "pools swapped" and first.pools == (3, 12)
    assert first.words.endswith(" of variant A are swapped between pools P4 and P13")


@ALL
def test_a_failed_pool(kind: str) -> None:
    y = simulated(PROBLEMS[kind])
    y[:, 7] = 0
    (first, *_) = causes(kind, y)
    assert first.kind == "pool failed" and first.words.startswith("pool P8 failed") and "always 0" in first.words


def test_a_pool_that_failed_for_one_category() -> None:
    y = simulated(PROBLEMS["variants"])
    y[:, 7, 0] = 0
    (first, *_) = causes("variants", y)
    assert first.words == "pool P8 failed for variant A: its counts, always 0, have nothing to do with its items"


@ALL
def test_pools_in_reverse_order(kind: str) -> None:
    assert causes(kind, simulated(PROBLEMS[kind]).flip(1))[0].kind == "pools reversed"


@ALL
def test_another_design(kind: str) -> None:
    problem, g = PROBLEMS[kind], torch.Generator().manual_seed(100)
    other = Design.column_regular(pools=16, items=40, weight=5, generator=g)
    assert causes(kind, simulated(replace(problem, design=other)))[0].kind == "another design"


def test_columns_of_two_categories_exchanged() -> None:
    (first, *others) = causes("variants", simulated(PROBLEMS["variants"]).flip(2))
    assert first.kind == "categories exchanged"
    assert first.words == "the counts of variant A and variant B are exchanged"
    assert {cause.kind for cause in others} <= {"prevalence"}  # which explains the same


def test_of_three_columns_the_two_that_are_exchanged_are_named() -> None:
    prior = Categories((0.06, 0.03, 0.005), reported=[3, 1, 2], names=["variant A", "variant B", "variant C"])
    problem = Problem(DESIGN, prior, COUNTED)
    (first, *_) = causes_of(problem, simulated(problem)[:, :, [1, 0, 2]])
    assert first.words == "the counts of variant C and variant A are exchanged"


@pytest.mark.parametrize(
    ("kind", "noise", "words"),
    [
        ("variants", SparseInteger(0.2, 1), "% of the counts are off, not 1 %"),
        (
            "one detected",
            PerCategory([SparseInteger(0.2, 1), DETECTED]),
            "% of the counts of variant A are off, not 1 %",
        ),
        ("copies", SparseInteger(0.2, 1), "% of the counts are off, not 1 %"),
        ("reads", Reads(depth=1000, error=0.006), "% of the reads are wrong, not 0.1 %"),
    ],
)
def test_more_noise(kind: str, noise: Noise, words: str) -> None:
    (first, *_) = causes(kind, simulated(replace(PROBLEMS[kind], noise=noise)))
    assert first.kind == "noise" and words in first.words


@pytest.mark.parametrize(
    ("kind", "prior", "words", "share"),
    [
        ("variants", replace(VARIANTS, rates=(0.05, 0.05)), "% of the items are variant B, not 1.0 %", 5.0),
        ("one detected", replace(VARIANTS, rates=(0.2, 0.01)), "% of the items are variant A, not 5.0 %", 20.0),
        ("copies", Copies(frequency=0.1), "the frequency of the allele is ", 10.0),
        ("reads", Copies(frequency=0.1), "the frequency of the allele is ", 10.0),
    ],
)
def test_another_prevalence(kind: str, prior: Categories | Copies, words: str, share: float) -> None:
    (first, *_) = causes(kind, simulated(replace(PROBLEMS[kind], prior=prior)))
    assert first.kind == "prevalence" and words in first.words
    found = float(first.words.removeprefix("the frequency of the allele is ").split(" %")[0])
    assert 0.6 < found / share < 1.6


@pytest.mark.parametrize("kind", ["variants", "copies"])
def test_a_missed_transfer(kind: str) -> None:
    problem = PROBLEMS[kind]
    x = problem.simulate(PLATES, generator=torch.Generator().manual_seed(1)).x
    item = int(problem.design.matrix[5].nonzero()[2])
    x[::2, item] = 1  # so that it is positive often enough to be seen
    x[1::4, item] = 2
    matrix = problem.design.matrix.clone()
    matrix[5, item] = 0
    made = replace(problem, design=Design.from_matrix(matrix))
    y = made.reports(made.totals(x), generator=torch.Generator().manual_seed(2))
    found = [cause.words for cause in causes(kind, y)]
    assert f"item I{item + 1} was left out of pool P6" in found


def test_missing_counts_do_not_hide_a_cause() -> None:
    y = simulated(PROBLEMS["variants"])
    y[:, [3, 12]] = y[:, [12, 3]]
    y[torch.rand(y.shape, generator=torch.Generator().manual_seed(3)) < 0.1] = torch.nan
    assert causes("variants", y)[0].pools == (3, 12)


def test_exchanged_columns_are_seen_although_the_counts_fit() -> None:
    """Every answer has the wrong category then, and no count is off: the file must not be believed."""
    problem, g = PROBLEMS["variants"], torch.Generator().manual_seed(0)
    reference = Reference.of(problem, generator=g)
    decode = Certified(odds=1.0, time_limit=1.0, certificates=False).bind(problem)
    y = simulated(problem)
    for counts, wrong in ((y, False), (y.flip(2), True)):
        x = decode(counts).x
        possible = torch.ones(len(x), dtype=torch.bool)
        fit, trusted = held_together(problem, counts, x, possible.double(), possible, reference)
        assert fit is not None and fit.suspect == wrong and trusted != wrong
        assert hopeless(problem, counts, x, possible.double(), reference) == wrong


def test_the_chance_of_an_exchange_is_a_p_value() -> None:
    prior = Categories((0.2, 0.05, 0.1), reported=[2, 1])
    problem = Problem(DESIGN, prior)
    g = torch.Generator().manual_seed(0)
    found = torch.tensor([exchange_p(problem, prior.sample(1, 40, generator=g)) for _ in range(2000)])
    for level in (0.3, 0.1, 0.01):
        assert float((found <= level).double().mean()) <= level + 4 * (level / 2000) ** 0.5
