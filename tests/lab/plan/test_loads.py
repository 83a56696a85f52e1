"""Plans for assays that measure amounts: what pools detect, what pooling loses, and what the plan promises."""

import json
import math
from dataclasses import replace

import pytest
import torch

from qgt import Amount, CycleThreshold, Gaussian, Loads, Noiseless, Problem
from qgt.decoders.results import Decoded
from qgt.lab.plan import planning, question
from qgt.lab.plan.classical import classical_schemes
from qgt.lab.plan.folder import (
    assay_words,
    load_cells,
    plan_facts,
    plan_header,
    plan_rows,
    plan_words,
    read_plan,
    write_plan,
)
from qgt.lab.plan.loads import (
    above,
    amount_assay,
    cycle_assay,
    detectable,
    detected,
    last_detected,
    least_load,
    missed_share,
    pools_for_loads,
    read_loads,
    usual_loads,
)
from qgt.lab.plan.planning import plan
from qgt.lab.plan.question import Question, parse_measured
from qgt.lab.plan.simulation import Scout, decoder_name, judged, simulated_plates
from qgt.lab.plan.transfers import fit_triples, shared_pools, triples
from qgt.lab.sheets.samples import Samples
from qgt.trust.metrics import wilson


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(scope="module")
def small() -> planning.Plan:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"SCOUTED": 20, "MEASURED": 30, "CONFIRMED": 150, "SPREAD": (1.0, 1.3)}.items():
            patch.setattr(planning, name, value)
        patch.setattr(question, "LOAD_WEIGHTS", (3,))
        asked = Question(Samples.numbered(26), (0, 2), cycle_assay(), certainty=0.8, follow_ups=True)
        return plan(asked, generator=seeded(0), seconds=2000.0)


# --- what pools detect -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "noise",
    [
        cycle_assay(),
        cycle_assay(dilution=0.0),
        cycle_assay(sigma=0.4, limit=36.0, dilution=0.5),
        cycle_assay(empty=33.5),
        amount_assay(),
        amount_assay(relative=0.2, absolute=0.0, limit=5.0),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 9])
def test_the_least_load_is_what_a_pool_just_detects(noise, size):
    """Without errors a pool with a little more is detected, and one with a little less is not."""
    sizes = torch.tensor([float(size)], dtype=torch.float64)
    for factor, seen in ((1.001, True), (0.999, False)):
        total = torch.tensor([[factor * least_load(noise, size)]], dtype=torch.float64)
        assert bool(detected(noise, noise.usual_report(total, sizes))) is seen
    empty = noise.sample(torch.zeros(20_000, 1, dtype=torch.float64), sizes, generator=seeded(0))
    assert float(detected(noise, empty).double().mean()) < 0.003  # beyond three standard errors: 0.0013


def test_a_pool_of_equal_parts_reads_log2_of_its_size_later():
    noise = cycle_assay(limit=38.0)
    assert least_load(noise, 8) == pytest.approx(noise.amount(38.0 - 3.0))
    assert least_load(cycle_assay(limit=38.0, dilution=0.0), 8) == pytest.approx(noise.amount(38.0))
    assert last_detected(CycleThreshold(sigma=0.25)) == math.inf and least_load(CycleThreshold(sigma=0.25), 8) == 0.0


@pytest.mark.parametrize("size", [2, 7, 15])
def test_the_share_that_is_missed_is_that_of_drawn_positives(size, tmp_path):
    noise = cycle_assay()
    (tmp_path / "own.csv").write_text(
        "sample;Ct\n" + "".join(f"s{i};{20 + 0.09 * i:.2f}\n".replace(".", ",") for i in range(200))
    )
    for loads in (usual_loads(noise), usual_loads(noise, 31.0, 3.0), read_loads(tmp_path / "own.csv", noise)):
        drawn = loads.sample(1, 40_000, generator=seeded(0))[0]
        weak = int((drawn < least_load(noise, size)).sum())
        low, high = wilson(weak, len(drawn), 4.5)
        assert low < missed_share(loads, noise, size) < high


def test_the_usual_loads_are_those_published():
    """Ct of 27.3 and 6.2, cut at the limit, whatever the limit is."""
    noise = cycle_assay(limit=60.0)
    cycles = noise.usual_report(usual_loads(noise).sample(1, 50_000, generator=seeded(0)), torch.ones(1).double())
    assert float(cycles.mean()) == pytest.approx(27.3, abs=0.15)
    assert float(cycles.std()) == pytest.approx(6.2, abs=0.1)
    cut = cycle_assay(limit=30.0)
    assert float(usual_loads(cut).sample(1, 10_000, generator=seeded(0)).min()) >= cut.amount(30.0) * (1 - 1e-9)


def test_a_list_of_cycles_leaves_out_what_a_single_test_does_not_detect():
    noise = cycle_assay(limit=35.0)
    loads = read_loads("own.csv", noise, b"sample,Ct,age\nA,25.0,3\nB,,5\nC,36.5,6\nD,30.0,8\n")
    assert [noise.intercept + noise.slope * value for value in loads.values] == pytest.approx([25.0, 30.0])
    assert read_loads("own.csv", noise, b"25.0\n30\n").values == loads.values
    amounts = read_loads("own.csv", Amount(relative=0.1, absolute=1.0), b"id,copies\nA,1000\nB,2\nC,100\n")
    assert amounts.values == pytest.approx((3.0, 2.0))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"sample,Ct\nA,25\nB,late\n", "own.csv: row 3, column 2 has 'late'; write a finite number"),
        (b"sample,age\nA,25\nB,27\n", "own.csv: has 0 columns called such as 'cp'"),
        (b"Ct\n25\n39\n", "own.csv: has fewer than two different values"),
        (b"\n", "own.csv: is empty"),
    ],
)
def test_a_list_of_cycles_that_cannot_be_read_is_refused(data, said):
    with pytest.raises(ValueError, match=said.replace("(", r"\(")):
        read_loads("own.csv", cycle_assay(), data)


# --- the question ----------------------------------------------------------------------------------------------------


def test_a_question_with_amounts_has_loads_and_pools_that_detect_enough():
    asked = Question(Samples.numbered(96), (1, 4), cycle_assay())
    assert isinstance(asked.prior, Loads) and asked.prior.statuses() == Question(Samples.numbered(96), (1, 4)).prior
    assert missed_share(asked.loads, asked.assay, asked.largest) <= 0.1
    assert missed_share(asked.loads, asked.assay, asked.largest + 1) > 0.1
    assert Question(Samples.numbered(96), (1, 4), cycle_assay(dilution=0.0)).largest == 96
    assert replace(asked, largest_pool=5).largest == 5
    families = Samples.placed(["a", "b", "c", "d"], households=["x", "x", "y", "y"])
    assert Question(families, (1, 1), cycle_assay()).prior.statuses() is not None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"assay": Noiseless(), "loads": Loads(rate=1.0, mean=3.0, sd=1.0)}, "is for assays that measure amounts"),
        (
            {"assay": cycle_assay(), "most_missed": 0.001},
            "most_missed=0.001 leaves no pools: pools of 2 samples already",
        ),
        ({"assay": cycle_assay(), "most_missed": 2.0}, "most_missed=2.0 is not valid"),
    ],
)
def test_questions_with_loads_are_checked(changes, said):
    with pytest.raises(ValueError, match=said):
        Question(**{"samples": Samples.numbered(24), "positives": (0, 2), **changes})


def test_options_belong_to_their_assays():
    assert parse_measured("count", {"sigma": None}) is None
    noise, loads = parse_measured("amount", {"relative": 0.2, "limit": 4.0, "load_mean": 5.0, "load_sd": 1.0})
    assert noise == Amount(relative=0.2, absolute=1.0, limit=4.0, dilution=1.0)
    assert (loads.mean, loads.sd, loads.low) == (5.0, 1.0, pytest.approx(math.log10(4.0)))
    noise, _ = parse_measured("ct", {"empty_ct": 34.0})
    assert float(noise.usual_report(torch.zeros(1).double(), torch.ones(1).double())) == pytest.approx(34.0)
    for kind, given in (("count", {"sigma": 0.2}), ("ct", {"relative": 0.1}), ("amount", {"empty_ct": 34.0})):
        with pytest.raises(ValueError, match=f"is not for the assay {kind}"):
            parse_measured(kind, given)
    with pytest.raises(ValueError, match="both given"):
        parse_measured("ct", {"loads": "own.csv", "load_sd": 3.0})


def test_the_bound_is_the_entropy_over_what_a_pool_tells_about_its_total():
    """For pools of one sample: it is empty, or has a load that the report tells up to its error."""
    noise, rate = CycleThreshold(sigma=0.25), 0.2
    loads = Loads(rate=1.0, mean=3.0, sd=1.0)
    load = 0.5 * math.log2(1 + (noise.slope * loads.sd / noise.sigma) ** 2)  # bits of a normal signal in normal noise
    entropy = -rate * math.log2(rate) - (1 - rate) * math.log2(1 - rate)
    wanted = 50 * entropy / (entropy + rate * load)
    assert pools_for_loads(loads, noise, rate, 50, 1) == pytest.approx(wanted, rel=0.05)


# --- simulated plates ------------------------------------------------------------------------------------------------


def test_only_positives_that_are_too_weak_may_be_called_either_way():
    noise = cycle_assay()
    x = torch.tensor([[100.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [100.0, 0.0, 0.0]], dtype=torch.float64)
    called = torch.tensor([[1, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 0]], dtype=torch.uint8)
    tally = judged(x, Decoded(called, torch.zeros(4, dtype=torch.uint8)), None, noise, least=4.0, generator=seeded(0))
    assert (tally.plates, tally.right) == (4, 2)  # a weak positive excuses no negative that is called positive
    assert (tally.positives, tally.found, tally.sensitivity) == (4, 1, 0.25)


def test_plates_have_weak_positives_and_are_decoded_without():
    asked = Question(Samples.numbered(35), (1, 3), cycle_assay())
    design = triples(items=35, pools=15)
    problem = Problem(design, asked.prior, asked.assay)
    told = detectable(problem)
    assert 10**told.prior.low == pytest.approx(least_load(asked.assay, 7)) and 10**problem.prior.low == pytest.approx(
        0.5
    )
    assert detectable(told).fingerprint == told.fingerprint
    assert decoder_name(told) == "load_posterior"
    tally = simulated_plates(problem, 150, retest_below=None, generator=seeded(1), seconds=600.0)
    missed = missed_share(asked.loads, asked.assay, 7)
    low, high = wilson(tally.found, tally.positives, 4.0)
    assert low < 1 - missed  # nothing finds more, but for the error of reports at the limit
    assert tally.success > 0.85  # one that calls all negative would be right on a quarter of the plates
    assert high > 0.85


def test_a_list_of_loads_is_cut_too():
    loads = Loads(rate=0.1, values=[0.0, 1.0, 2.0, 3.0])
    assert above(loads, 10.0).values == (1.0, 2.0, 3.0)
    assert above(loads, 0.0) is loads and above(loads, 1e9) is loads


def test_triple_systems_are_tried_where_the_numbers_allow_it(small):
    asked = Question(Samples.numbered(96), (1, 4), cycle_assay())
    scout = Scout(asked.samples, asked.prior, asked.assay, None, 0)
    for pools in (27, 33, 45):
        assert fit_triples(96, pools)
        design = scout.design(pools, 3, by_triples=True)
        assert shared_pools(design)[0] == 1 and design.item_names == asked.samples.names
        assert int(design.pool_sizes.max()) == math.ceil(288 / pools)
    assert not fit_triples(96, 28) and fit_triples(26, 13) and not fit_triples(25, 13)
    assert {one.by_triples for one in small.candidates} == {True, False}
    assert any("3 (triples)" in row for row in plan_rows(small))


# --- schemes of today ------------------------------------------------------------------------------------------------


def test_schemes_of_today_find_what_their_pools_detect():
    rate, items = 0.02, 96
    for noise in (cycle_assay(sigma=1e-3), amount_assay(relative=1e-3, absolute=1e-3, limit=3.0)):
        loads = usual_loads(noise)
        prior = replace(loads, rate=rate)
        alone, pools, arrays = classical_schemes(prior, noise, items, generator=seeded(0))
        assert alone.sensitivity == pytest.approx(1.0, abs=1e-3) and alone.tests == items
        sizes = (torch.arange(items) * pools.pools // items).bincount().tolist()
        seen = {size: 1 - missed_share(loads, noise, size) for size in sizes}
        # A weak positive is found only beside another positive of its pool, which is rare.
        assert min(seen.values()) - 0.01 < pools.sensitivity < max(seen.values()) + (max(sizes) - 1) * rate
        # A pool is tested again if it has a positive that it detects or, rarely, two that it detects together.
        again = sum(size * (1 - (1 - rate * seen[size]) ** size) for size in sizes)
        assert again - 0.3 < pools.follow_ups < again + 0.3  # the standard error is below 0.07
        assert arrays.sensitivity < pools.sensitivity
        assert min(alone.success, pools.success, arrays.success) > 0.97
    full = classical_schemes(
        replace(usual_loads(cycle_assay()), rate=rate), cycle_assay(dilution=0.0), items, generator=seeded(0)
    )
    assert min(one.sensitivity for one in full) > 0.99


# --- plans -----------------------------------------------------------------------------------------------------------


def test_a_plan_says_what_pooling_loses(small):
    words, one = " ".join(plan_words(small)), small.recommended
    assert small.reached and one.pools < 26 and one.weight == 3
    assert one.missed == missed_share(small.question.loads, small.question.assay, one.largest_pool) > 0.03
    assert f"{100 * one.missed:.1f} % of these positives are diluted beyond detection in pools of" in words
    assert f"{100 * one.sensitivity:.1f} % of all positives that a single test detects were found" in words
    assert "except positives that are too weak" in words
    for said in assay_words(small.question):
        assert said in words
    for scheme in small.classical:
        assert f"{100 * scheme.sensitivity:.1f} % of positives found" in words
    header, meaning = plan_header(small)
    assert {len(row) for row in plan_rows(small)} == {len(header)} and "sensitivity:" in meaning
    for row, one in zip(plan_rows(small), [*small.candidates, *small.classical], strict=True):
        assert row[-3:-1] == load_cells(small, one) and row[-3] == f"{100 * one.sensitivity:.1f} %"
    # A plan whose plates had no positive has no sensitivity, and as many columns.
    unknown = replace(small, candidates=tuple(replace(one, sensitivity=None) for one in small.candidates))
    assert {len(row) for row in plan_rows(unknown)} == {len(header)}
    assert all("sensitivity" not in one and "too_weak" in one for one in plan_facts(unknown, 5.0)["candidates"])


def test_the_promise_holds_on_new_plates(small):
    problem = Problem(small.recommended.design, small.question.prior, small.question.assay)
    seen = simulated_plates(problem, 200, retest_below=0.8, generator=seeded(99), seconds=600.0)
    low, high = wilson(seen.right, seen.plates, 4.0)
    assert low <= small.recommended.interval.high and high >= small.recommended.interval.low


def test_a_folder_of_a_plan_with_loads_comes_back(small, tmp_path):
    folder = write_plan(small, tmp_path / "plan")
    again = read_plan(folder.path)
    assert again.problem.fingerprint == small.problem.fingerprint
    assert again.problem.loads.low == small.problem.loads.low > small.question.loads.low
    assert (folder.path / "counts.csv").read_text().splitlines()[1] == "pool,pool plate,well,samples,Ct"
    for name in ("README.txt", "pooling_sheet.html"):
        text = (folder.path / name).read_text("utf-8").replace("\u00a0", " ").replace("&nbsp;", " ")
        assert "standard error of 0.25 cycles, detected up to cycle 38" in text
    readme = (folder.path / "README.txt").read_text()
    assert "Write each pool's Ct into" in readme and "--problem . --target NAME --control NAME" in readme
    stored = json.loads((folder.path / "plan.json").read_text())
    assert stored["question"]["loads"] == {name: getattr(small.question.loads, name) for name in ("mean", "sd", "low")}
    assert stored["candidates"][0]["sensitivity"] and stored["today"][0]["sensitivity"]


def test_plans_for_counts_have_no_word_of_loads():
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"SCOUTED": 20, "MEASURED": 20, "CONFIRMED": 40, "SPREAD": (1.2,)}.items():
            patch.setattr(planning, name, value)
        counting = plan(Question(Samples.numbered(12), (0, 1), certainty=0.8), generator=seeded(0), seconds=2000.0)
    facts = json.dumps(plan_facts(counting, 10.0))
    assert "sensitivity" not in facts and "loads" not in facts and "too_weak" not in facts
    assert "sensitivity" not in plan_header(counting)[0] and not assay_words(counting.question)


def test_a_scheme_of_today_that_finds_fewer_positives_is_not_recommended(small):
    better = replace(small.classical[1], pools=1, follow_ups=0.5, successes=small.classical[1].plates, sensitivity=1.0)
    assert replace(small, classical=(better,)).better_classical is not None
    assert replace(small, classical=(replace(better, sensitivity=0.5),)).better_classical is None


def test_other_noises_detect_by_the_nearer_count():
    y = torch.tensor([0.4, 0.6], dtype=torch.float64)
    assert detected(Gaussian(sigma=0.1), y).tolist() == [False, True]
    with pytest.raises(ValueError, match="give CycleThreshold or Amount"):
        last_detected(Gaussian(sigma=0.1))
