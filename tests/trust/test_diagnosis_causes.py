"""What is wrong with a simulated file is named first; of honest files nothing is named."""

import pytest
import torch

import qgt
from qgt.trust.diagnosis import Cause, likely_causes
from qgt.trust.fit import expected_off

PLATES = 40


def setting() -> qgt.Problem:
    g = torch.Generator().manual_seed(0)
    design = qgt.Design.column_regular(pools=24, items=96, weight=6, generator=g)
    return qgt.Problem(design, qgt.Bernoulli(0.03), qgt.SparseInteger(0.02, 1))


def simulated(problem: qgt.Problem, seed: int = 11, plates: int = PLATES) -> torch.Tensor:
    return problem.simulate(plates, generator=torch.Generator().manual_seed(seed)).y


def causes(y: torch.Tensor) -> list[Cause]:
    """As a sheet's are found: with the answers of the default decoder."""
    problem = setting()
    calls = qgt.Certified(odds=1.0, time_limit=0.1, certificates=False).bind(problem)(y).x
    return likely_causes(problem, y, qgt.GAMP(), calls=calls)


@pytest.mark.parametrize("seed", range(3))
def test_swapped_pools(seed: int) -> None:
    y = simulated(setting(), seed)
    y[:, [3, 17]] = y[:, [17, 3]]
    (first, *_) = causes(y)
    assert first.kind == "pools swapped" and first.words == "the counts of pools P4 and P18 are swapped"
    assert first.pools == (3, 17)


@pytest.mark.parametrize("seed", range(3))
def test_a_failed_pool(seed: int) -> None:
    y = simulated(setting(), seed)
    y[:, 7] = 0
    (first, *_) = causes(y)
    assert first.kind == "pool failed"
    assert first.words == "pool P8 failed: its counts, always 0, have nothing to do with its items"


@pytest.mark.parametrize("seed", range(3))
def test_pools_in_reverse_order(seed: int) -> None:
    assert causes(simulated(setting(), seed).flip(1))[0].kind == "pools reversed"


@pytest.mark.parametrize("seed", range(3))
def test_another_design(seed: int) -> None:
    g = torch.Generator().manual_seed(seed + 100)
    other = qgt.Design.column_regular(pools=24, items=96, weight=6, generator=g)
    y = qgt.Problem(other, qgt.Bernoulli(0.03), qgt.SparseInteger(0.02, 1)).simulate(PLATES, generator=g).y
    assert causes(y)[0].kind == "another design"


def of_another_design(plates: int, seed: int) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed + 100)
    other = qgt.Design.column_regular(pools=24, items=96, weight=6, generator=g)
    return qgt.Problem(other, qgt.Bernoulli(0.03), qgt.SparseInteger(0.02, 1)).simulate(plates, generator=g).y


def with_swapped_pools(plates: int, seed: int) -> torch.Tensor:
    y = simulated(setting(), seed, plates)
    y[:, [3, 17]] = y[:, [17, 3]]
    return y


@pytest.mark.parametrize("spoilt", [of_another_design, with_swapped_pools])
def test_a_few_plates_do_not_tell_swapped_pools_from_another_design(spoilt) -> None:
    """Either may be named first, but never as if the other were out of the question."""
    found = [cause for seed in range(10) for cause in causes(spoilt(3, seed))]
    both = [cause for cause in found if cause.kind in ("another design", "pools swapped")]
    assert both
    for cause in both:
        assert cause.words.startswith("two pools are swapped, or the counts belong to another design") or (
            cause.words.endswith(" are swapped, unless all of them belong to another design")
        )


def test_one_plate_that_fits_badly_is_not_reversed_by_chance() -> None:
    kinds = [cause.kind for seed in range(15) for cause in causes(of_another_design(1, seed))]
    assert "pools reversed" not in kinds


@pytest.mark.parametrize(
    ("noise", "words"),
    [(qgt.SparseInteger(0.2, 1), "% of the counts are off, not 1 %"), (qgt.SparseInteger(0.1, 3), "by up to 3")],
)
def test_more_noise(noise: qgt.Noise, words: str) -> None:
    problem = setting()
    (first, *_) = causes(simulated(qgt.Problem(problem.design, problem.prior, noise)))
    assert first.kind == "noise" and words in first.words


@pytest.mark.parametrize(("times", "plates"), [(5.0, 12), (0.1, PLATES)])  # with 173 and 12 positives
def test_another_prevalence(times: float, plates: int) -> None:
    problem = setting()
    other = qgt.Problem(problem.design, qgt.Bernoulli(0.03 * times), problem.noise)
    (first, *_) = causes(simulated(other, plates=plates))
    assert first.kind == "prevalence" and first.words.endswith("% of the items are defective, not 3.0 %")
    share = float(first.words.split(" %")[0]) / 100
    assert 0.6 < share / (0.03 * times) < 1.6


def test_a_missed_transfer() -> None:
    problem = setting()
    matrix = problem.design.matrix.clone()
    pool = int(matrix[:, 5].nonzero()[0])
    g = torch.Generator().manual_seed(11)
    x, _ = problem.simulate(200, generator=g)
    x[::10, 5] = 1  # an item that is often defective shows it
    matrix[pool, 5] = 0
    counts = qgt.Design.from_matrix(matrix).count(x)
    y = problem.noise.sample(counts, problem.design.pool_sizes.double(), generator=g)
    (first, *_) = causes(y)
    assert first.kind == "transfer" and first.words == f"item I6 was left out of pool P{pool + 1}"


@pytest.mark.parametrize("seed", range(5))
def test_of_honest_files_nothing_is_named(seed: int) -> None:
    assert causes(simulated(setting(), seed)) == []


def test_gains_fall_and_each_kind_is_named_once() -> None:
    y = simulated(setting())
    y[:, [3, 17]] = y[:, [17, 3]]
    y[:, 9] = 0
    found = causes(y)
    assert {"pools swapped", "pool failed"} <= {one.kind for one in found} and len(found) <= 3
    assert [one.gain for one in found] == sorted((one.gain for one in found), reverse=True)
    assert len({one.kind for one in found}) == len(found)


def families(attack: float) -> qgt.Problem:
    g = torch.Generator().manual_seed(0)
    design = qgt.Design.column_regular(pools=30, items=96, weight=6, generator=g)
    prior = qgt.Households(size=4, seed_rate=0.032, attack_rate=0.5, background=0.004).with_attack_rate(attack)
    return qgt.Problem(design, qgt.UnknownLevel(prior, 0.5, 2.0), qgt.SparseInteger(0.02, 1))


@pytest.mark.parametrize("attack", [0.1, 0.95])
def test_another_attack_rate(attack: float) -> None:
    """Answers of which nearly all are right show it, and the words say what to decode with."""
    x, y = families(attack).simulate(300, generator=torch.Generator().manual_seed(1))
    for decoder in (None, qgt.GAMP()):
        (first, *_) = likely_causes(families(0.5), y, decoder, calls=x)
        assert first.kind == "attack rate"
        assert "not 50 %" in first.words
        found = float(first.remedy.split("--attack-rate ")[1].rstrip("%")) / 100
        assert abs(found - attack) < 0.06


@pytest.mark.parametrize("seed", range(3))
def test_of_households_as_planned_nothing_is_named(seed: int) -> None:
    x, y = families(0.5).simulate(300, generator=torch.Generator().manual_seed(seed))
    assert likely_causes(families(0.5), y, None, calls=x) == []


def test_no_instances_and_decoders_that_cannot_help_name_nothing() -> None:
    problem = setting()
    y = simulated(problem, plates=3)
    assert likely_causes(problem, y[:0], qgt.GAMP()) == []
    assert likely_causes(problem, y, qgt.Exhaustive()) == []  # 96 items are too many


def test_gains_in_words() -> None:
    assert str(Cause("noise", "it is noisy", 7.0)) == "it is noisy (the counts are 1,097 times as probable)"
    assert str(Cause("noise", "it is noisy", 230.3)) == "it is noisy (the counts are 10^100 times as probable)"


def test_missing_counts_neither_hide_a_cause_nor_make_one() -> None:
    problem = setting()
    g = torch.Generator().manual_seed(7)
    y = problem.simulate(40, generator=g).y
    missing = torch.rand(y.shape, generator=g) < 0.1
    honest = torch.where(missing, torch.nan, y)
    assert likely_causes(problem, honest, qgt.GAMP()) == []
    swapped = y.clone()
    swapped[:, [3, 8]] = y[:, [8, 3]]
    assert likely_causes(problem, torch.where(missing, torch.nan, swapped), qgt.GAMP())[0].pools == (3, 8)
    failed = honest.clone()
    failed[:, 5] = torch.where(missing[:, 5], torch.nan, 0.0)
    failed[0, 5] = torch.nan
    found = likely_causes(problem, failed, qgt.GAMP())[0]
    assert (found.kind, found.pools) == ("pool failed", (5,)) and "always 0" in found.words


def test_large_designs_need_no_table_of_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of pools by items would not fit into memory: causes that need no pairs are still found."""
    monkeypatch.setattr("qgt.trust.diagnosis.LARGEST_FOR_PAIRS", 1000)
    problem = setting()
    swapped = simulated(problem)
    swapped[:, [3, 17]] = swapped[:, [17, 3]]
    assert all(cause.kind not in ("pools swapped", "transfer") for cause in causes(swapped))
    noisier = qgt.Problem(problem.design, problem.prior, qgt.SparseInteger(0.15, 1))
    assert causes(simulated(noisier))[0].kind == "noise"


def test_causes_of_results_speak_of_results() -> None:
    g = torch.Generator().manual_seed(0)
    design = qgt.Design.column_regular(pools=30, items=40, weight=6, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.05), qgt.PositiveNegative(0.99, 0.99))
    y = problem.simulate(60, generator=g).y
    y[:, [3, 8]] = y[:, [8, 3]]
    cause = likely_causes(problem, y, qgt.BeliefPropagation())[0]
    assert cause.words == "the results of pools P4 and P9 are swapped"
    assert "(the results are " in str(cause)


@pytest.mark.parametrize("noise", [qgt.Noiseless(), qgt.Outliers(qgt.SparseInteger(0.02, 1), 0.01)], ids=repr)
def test_more_errors_are_named_under_any_noise_of_whole_counts(noise: qgt.Noise) -> None:
    g, usual = torch.Generator().manual_seed(0), setting()
    y = qgt.Problem(usual.design, usual.prior, qgt.SparseInteger(0.1, 1)).simulate(PLATES, generator=g).y
    found = {cause.kind: cause for cause in likely_causes(qgt.Problem(usual.design, usual.prior, noise), y, qgt.GAMP())}
    assert "of the counts are off" in found["noise"].words


def test_the_usual_counts_are_simulated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, drawn, real = setting(), [], qgt.Problem.simulate
    y = simulated(problem).flip(1)
    monkeypatch.setattr(
        qgt.Problem, "simulate", lambda self, number, **given: drawn.append(number) or real(self, number, **given)
    )
    alone = likely_causes(problem, y, qgt.GAMP())
    assert len(drawn) == 2  # the usual counts, and how many of them are off
    drawn.clear()
    assert likely_causes(problem, y, qgt.GAMP(), usually_off=expected_off(problem)) == alone
    assert len(drawn) == 2  # one of them is the test's own
