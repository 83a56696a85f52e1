"""Planning: the promise holds on plates that nobody has seen, limits are kept, seeds decide, and folders come back."""

import json
from dataclasses import replace

import pytest
import torch

from qgt import Bernoulli, Design, Noiseless, PositiveNegative, Problem, SparseInteger, UnknownRate
from qgt.decoders.results import Decoded, Evidence
from qgt.lab.plan import planning, question, simulation
from qgt.lab.plan.classical import classical_schemes
from qgt.lab.plan.folder import plan_files, plan_rows, plan_words, read_plan, write_plan
from qgt.lab.plan.planning import plan
from qgt.lab.plan.question import Question, expected_prior, parse_assay, parse_errors, parse_positives
from qgt.lab.plan.simulation import PlateTally, Scout, fewest, judged, simulated_plates
from qgt.lab.sheets.counts import read_counts
from qgt.lab.sheets.names import check_code, label, short_name
from qgt.lab.sheets.samples import Samples
from qgt.theory.limits import pools_needed
from qgt.trust.metrics import wilson


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def simulate_few(patch: pytest.MonkeyPatch) -> None:
    for name, value in {"SCOUTED": 20, "MEASURED": 40, "CONFIRMED": 150, "SPREAD": (1.0, 1.3)}.items():
        patch.setattr(planning, name, value)
    patch.setattr(question, "WEIGHTS", (4,))


@pytest.fixture
def quick(monkeypatch):
    """Few plates, and time enough for all of them: then the seed alone decides."""
    simulate_few(monkeypatch)


def made(asked: Question, seed: int = 0) -> planning.Plan:
    return plan(asked, generator=seeded(seed), seconds=2000.0)


@pytest.fixture(scope="module")
def small() -> planning.Plan:
    with pytest.MonkeyPatch.context() as patch:
        simulate_few(patch)
        return made(Question(Samples.numbered(24), (0, 2), SparseInteger(rate=0.02, bound=1), certainty=0.9))


# --- plans -----------------------------------------------------------------------------------------------------------


def test_the_promise_holds_on_new_plates(small):
    one = small.recommended
    assert small.reached
    assert one.interval.low >= 0.9
    assert one.pools < 24
    assert one.tests_saved == 24 - one.pools
    seen = simulated_plates(small.problem, 300, retest_below=None, generator=seeded(99), seconds=600.0)
    low, high = wilson(seen.right, seen.plates, 4.0)  # one false alarm in 16,000 runs for a true promise
    assert low <= one.interval.high
    assert high >= one.interval.low


def test_the_same_seed_gives_the_same_plan(quick):
    asked = Question(Samples.numbered(16), (0, 2), certainty=0.8)
    one, two, other = made(asked, 3), made(asked, 3), made(asked, 4)
    assert [(c.design.fingerprint, c.successes, c.plates) for c in one.candidates] == [
        (c.design.fingerprint, c.successes, c.plates) for c in two.candidates
    ]
    assert one.recommended.design.fingerprint != other.recommended.design.fingerprint
    assert one.seed == 3


def test_limits_are_kept_and_progress_is_shown(quick):
    seen = []
    asked = Question(
        Samples.numbered(24), (1, 2), certainty=0.8, most_pools=20, largest_pool=6, most_transfers=3, follow_ups=True
    )
    result = plan(asked, generator=seeded(0), progress=lambda done, total: seen.append((done, total)), seconds=2000.0)
    for one in result.candidates:
        assert one.pools <= 20
        assert one.largest_pool <= 6
        assert one.weight <= 3
        assert one.entropy_bound > 0
    assert seen == sorted(seen)
    assert seen[-1] == (100, 100)
    assert sum(one is result.recommended for one in result.candidates) == 1


def test_what_cannot_be_reached_is_said(quick):
    result = made(Question(Samples.numbered(24), (4, 8), certainty=0.95, most_pools=7))
    assert not result.reached
    assert any("Caution" in words for words in plan_words(result))


def told(monkeypatch, by_purpose):
    """Simulations replaced by what they are to tell; gives what was asked for."""
    asked = []

    def measure(self, purpose, design, plates, *, seconds, **_):
        asked.append((purpose, design.pools, plates, seconds))
        return by_purpose[purpose]

    monkeypatch.setattr(Scout, "measure", measure)
    monkeypatch.setattr(Scout, "first_round", lambda self, design, plates, **_: PlateTally(plates, plates))
    return asked


def test_the_best_of_several_is_shown_with_plates_of_its_own(quick, monkeypatch):
    tallies = {"measuring": PlateTally(100, 97, 0, 0.1), "confirming": PlateTally(1000, 940, 0, 0.1)}
    asked = told(monkeypatch, {**tallies, "promising": PlateTally(1000, 930, 0, 0.1)})
    result = made(Question(Samples.numbered(24), (0, 2), certainty=0.95))
    purposes = [purpose for purpose, *_ in asked]
    assert purposes.count("confirming") > 1
    assert purposes[-1] == "promising"
    assert not result.reached
    assert (result.recommended.successes, result.recommended.plates) == (930, 1000)
    assert sum(one is result.recommended for one in result.candidates) == 1


def test_one_design_gets_all_the_time_where_decoding_is_slow(quick, monkeypatch):
    asked = told(monkeypatch, {"measuring": PlateTally(5, 5, 0, 900.0), "confirming": PlateTally(20, 20, 0, 900.0)})
    result = made(Question(Samples.numbered(24), (0, 2), certainty=0.95))
    (confirmed,) = [one for one in asked if one[0] == "confirming"]
    assert confirmed[3] > 0.9 * 2000
    assert asked[-1] == confirmed
    assert not result.reached
    assert result.recommended.plates == 20


def test_simulations_stop_in_time(monkeypatch):
    problem = Problem(Design.from_rows(["110", "011"]), Bernoulli(0.1))
    clock = [0.0]

    def decode(y):  # every plate takes as long as it may
        clock[0] += 0.5 * len(y)
        return Decoded(torch.zeros(len(y), 3, dtype=torch.uint8), torch.ones(len(y), dtype=torch.uint8))

    monkeypatch.setattr(simulation, "planned_decoder", lambda *_, **__: decode)
    monkeypatch.setattr(simulation.time, "perf_counter", lambda: clock[0])
    for seconds in (0.1, 1.0, 10.0, 100.0):
        clock[0] = 0.0
        tally = simulated_plates(problem, 10_000, retest_below=None, generator=seeded(0), seconds=seconds, each=0.5)
        assert seconds <= clock[0] == tally.seconds <= 1.5 * seconds + simulation.LEAST_PART * 0.5


def test_limits_without_room_are_refused(quick):
    with pytest.raises(ValueError, match="most_pools=4 and largest_pool=2 leave no room for 24 samples, each in other"):
        made(Question(Samples.numbered(24), (0, 2), most_pools=4, largest_pool=2))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"positives": (3, 2)}, r"positives=\(3, 2\) is not valid for 8 samples"),
        ({"positives": (0, 0)}, "positives="),
        ({"positives": (1, 8)}, "positives="),
        ({"certainty": 0.3}, "certainty=0.3 is not valid"),
        ({"certainty": 0.999}, "certainty=0.999 is not valid"),
        ({"most_pools": 0}, "most_pools=0"),
    ],
)
def test_questions_are_checked(changes, said):
    with pytest.raises(ValueError, match=said):
        Question(**{"samples": Samples.numbered(8), "positives": (0, 2), **changes})


def test_households_and_risks_are_not_joined():
    samples = Samples.placed(["a", "b", "c"], households=["x", "x", "y"], risks=[0.1, 0.1, 0.2])
    with pytest.raises(ValueError, match="has both households and risks"):
        Question(samples, (0, 1))


# --- the parts of planning -------------------------------------------------------------------------------------------


def test_doubtful_samples_count_as_follow_ups():
    x = torch.tensor([[1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=torch.uint8)
    called = torch.tensor([[1, 0, 0], [0, 0, 0], [0, 1, 1]], dtype=torch.uint8)
    doubtful = torch.tensor([[True, True, False], [False, True, True], [False, False, True]])
    evidence = Evidence(confidence=torch.tensor([0.99, 0.5, 0.6], dtype=torch.float64), unsettled=doubtful)
    found = Decoded(called, torch.ones(3, dtype=torch.uint8), None, evidence)
    assert judged(x, found, None, Noiseless(), generator=seeded(0)) == PlateTally(3, 1, 0)
    # The first is sure enough; the second's error is among its retests; the third's is not.
    assert judged(x, found, 0.95, Noiseless(), generator=seeded(0)) == PlateTally(3, 2, 3)


@pytest.mark.parametrize("first", [1, 5, 37, 50, 96, 500])
def test_the_fewest_is_found_from_any_guess(first):
    for threshold in (4, 5, 36, 37, 95, 96):
        assert fewest(lambda n, t=threshold: n >= t, 4, 96, first=first, step=1.3, ratio=1.0) == threshold
    assert fewest(lambda n: False, 4, 96, first=first, step=1.3, ratio=1.05) is None
    found = fewest(lambda n: n >= 50, 4, 96, first=first, step=1.3, ratio=1.1)
    assert 50 <= found <= 55


def test_a_range_becomes_a_prior():
    assert expected_prior(Samples.numbered(50), (1, 4)) == UnknownRate(low=0.02, high=0.08)
    one = expected_prior(Samples.numbered(50), (2, 2))
    assert isinstance(one, Bernoulli)
    assert one.rate == 0.04
    names = [f"s{i}" for i in range(40)]
    for samples in (
        Samples.placed(names, risks=[0.01 + 0.002 * i for i in range(40)]),
        Samples.placed(names, households=[f"h{i // 4}" for i in range(40)]),
    ):
        prior = expected_prior(samples, (1.0, 5.0))
        expected = float(prior.marginals(40).sum())
        assert 1.0 < expected < 5.0
        drawn = prior.sample(4000, 40, generator=seeded(0)).sum(1).double()
        assert abs(float(drawn.mean()) - expected) < 0.3
        narrow = expected_prior(samples, (3.0, 3.0))
        assert float(narrow.marginals(40).sum()) == pytest.approx(3.0, rel=1e-3)


def test_the_bound_is_the_entropy_over_what_a_pool_tells():
    rate, size = 0.1, 4
    counts = torch.arange(size + 1)
    weight = torch.tensor([1.0, 4, 6, 4, 1]) * rate**counts * (1 - rate) ** (size - counts)
    per_pool = float(-(weight * weight.log2()).sum())
    total = -20 * (rate * torch.tensor(rate).log2() + (1 - rate) * torch.tensor(1 - rate).log2())
    assert pools_needed(Noiseless(), rate, items=20, size=size) == pytest.approx(float(total) / per_pool, rel=1e-5)
    noisy = pools_needed(SparseInteger(rate=0.2, bound=1), rate, items=20, size=size)
    assert noisy > 1.5 * float(total) / per_pool


def test_answers_of_people_are_understood():
    assert parse_positives("1-3%", 200) == (2.0, 6.0)
    assert parse_positives("0,5 % to 2 %", 200) == (1.0, 4.0)
    assert parse_positives("2", 10) == (2.0, 2.0)
    assert parse_assay("positive", [0.9, 0.99]) == PositiveNegative(0.9, 0.99)
    assert parse_assay("count", [0.0]) == Noiseless()
    assert parse_errors("0.98;0.99", "positive") == [0.98, 0.99]
    for call in (
        lambda: parse_positives("few", 10),
        lambda: parse_positives("-1", 10),
        lambda: parse_positives("1%-3", 10),
        lambda: parse_assay("smell", []),
        lambda: parse_assay("positive", [0.9]),
        lambda: parse_assay("reading", []),
        lambda: parse_errors("a lot", "count"),
        lambda: parse_errors("0.9", "smell"),
    ):
        with pytest.raises(ValueError, match="is not"):
            call()


@pytest.mark.parametrize("text", ["0.01-0.03", "0,01-0,03", "0.02", "0-0.1"])
def test_a_share_written_as_a_number_of_positives_is_asked_back(text):
    with pytest.raises(ValueError, match="did you mean") as error:
        parse_positives(text, 96)
    share, rare = (part.split(".")[0] if "%" not in part else part for part in str(error.value).split("write ")[1:])
    share, rare = share.split(". If")[0], rare.rstrip(".")
    ends = [float(end.replace(",", ".")) for end in (text.split("-") * 2)[: 2 if "-" in text else 1]]
    # Each of the two things that it says to write is taken, and means what it says.
    assert parse_positives(share, 96) == pytest.approx((ends[0] * 96, ends[-1] * 96))
    assert parse_positives(rare, 96) == pytest.approx((ends[0], ends[-1]), rel=1e-3)


def test_no_plan_has_two_samples_in_the_same_pools(quick, monkeypatch):
    """Over many small questions, as if any pools would do: with next to no positives they would."""
    told(monkeypatch, dict.fromkeys(("measuring", "confirming", "promising"), PlateTally(1000, 1000, 0, 0.1)))
    for samples in (3, 5, 9, 16, 24):
        for positives in ((0.01, 0.03), (0.5, 1.0)):
            for limits in ({}, {"most_pools": max(3, samples // 2 + 1)}, {"most_transfers": 2}):
                asked = Question(Samples.numbered(samples), positives, certainty=0.8, **limits)
                try:
                    result = made(asked, samples)
                except ValueError as error:
                    assert "each in other pools than any other" in str(error)
                    continue
                for one in result.candidates:
                    assert len(one.design.matrix.T.unique(dim=0)) == samples, asked


def test_pools_that_cannot_tell_samples_apart_are_refused(quick):
    with pytest.raises(ValueError, match="most_pools=5 leave no room for 24 samples, each in other pools"):
        made(Question(Samples.numbered(24), (0, 2), most_pools=5))


# --- households ------------------------------------------------------------------------------------------------------


def families(number: int = 16, size: int = 4) -> Samples:
    return Samples.placed([f"s{i}" for i in range(number)], households=[f"h{i // size}" for i in range(number)])


def test_attack_rate_and_background_are_the_priors():
    usual, own = Question(families(), (1, 1)), Question(families(), (1, 1), attack_rate=0.9, background=0.05)
    assert usual.household_rates == (0.5, pytest.approx(0.2 / 16))
    assert own.household_rates == (0.9, 0.05)
    base = own.prior.prior
    assert (base.attack_rate, base.background) == (0.9, 0.05)
    for asked in (usual, own):
        assert float(asked.prior.prior.marginals(16).mean()) == pytest.approx(1 / 16)


@pytest.mark.parametrize(
    ("samples", "rates", "said"),
    [
        (Samples.numbered(16), {"attack_rate": 0.5}, "is for samples with households, and these have none"),
        (families(), {"attack_rate": 0.01}, "give a higher attack rate"),
        (families(), {"background": 0.5}, "give a lower background"),
        (families(), {"attack_rate": 1.5}, "attack_rate=1.5 is not valid"),
    ],
)
def test_rates_that_cannot_be_are_refused(samples, rates, said):
    with pytest.raises(ValueError, match=said):
        Question(samples, (1, 1), **rates)


def test_rates_of_households_stand_on_the_sheet_and_in_the_folder(quick, monkeypatch, tmp_path):
    told(monkeypatch, dict.fromkeys(("measuring", "confirming", "promising"), PlateTally(1000, 1000, 0, 0.1)))
    result = made(Question(families(), (1, 1), certainty=0.7, attack_rate=0.4))
    folder = write_plan(result, tmp_path / "plan").path
    for name in ("README.txt", "pooling_sheet.html"):
        text = (folder / name).read_text("utf-8").replace("\u00a0", " ").replace("&nbsp;", " ")
        assert "40 % (attack rate)" in text
        assert "1.25 % (background, the usual value)" in text
    stored = json.loads((folder / "plan.json").read_text())["question"]
    assert (stored["attack_rate"], stored["background"]) == (0.4, pytest.approx(0.0125))


# --- schemes of today ------------------------------------------------------------------------------------------------


def test_schemes_of_today_against_their_formulas():
    rate, sensitivity, specificity, items = 0.02, 0.95, 0.99, 96
    made = classical_schemes(Bernoulli(rate), PositiveNegative(sensitivity, specificity), items, generator=seeded(0))
    alone, pools, arrays = made
    right = (rate * sensitivity + (1 - rate) * specificity) ** items
    assert alone.interval.low < right < alone.interval.high
    # Dorfman's pools of 8: a pool is positive, and then each of its samples by itself.
    size, none = 8, (1 - rate) ** 8
    assert pools.largest_pool == size
    positive = none * (1 - specificity) + (1 - none) * sensitivity
    assert pools.tests == pytest.approx(items / size + items * positive, abs=0.5)
    both = (rate * sensitivity + (1 - rate) * specificity) ** size  # a positive pool, and all its samples right
    healthy = ((1 - rate) * specificity) ** size
    fine = (both - healthy) * sensitivity + none * specificity + healthy * (1 - specificity)
    assert pools.interval.low < fine ** (items // size) < pools.interval.high
    assert (arrays.pools, arrays.transfers) == (20, 192)
    assert 20 < arrays.tests < 27


def test_schemes_without_errors_are_always_right():
    for items in (2, 13, 96, 200):
        for one in classical_schemes(Bernoulli(0.05), PositiveNegative(), items, generator=seeded(0)):
            assert one.success == 1.0
    small = classical_schemes(Bernoulli(0.05), PositiveNegative(), 96, largest_pool=6, generator=seeded(0))
    assert [one.largest_pool for one in small] == [1, 5]  # arrays need pools of 12


def test_a_plan_shows_what_laboratories_do_today(small):
    words, rows = " ".join(plan_words(small)), plan_rows(small)
    assert [one.name for one in small.classical] == [row[-1] for row in rows[len(small.candidates) :]]
    for one in small.classical:
        assert f"{one.name} ({one.tests:.1f} tests, {100 * one.success:.1f} % of plates without an error)" in words
    assert small.better_classical is None or "Consider the following instead" in words


def test_a_scheme_of_today_that_is_better_is_recommended(small):
    better = replace(small.classical[0], name="pools", pools=1, follow_ups=0.5, successes=small.classical[0].plates)
    assert any("Consider the following instead" in line for line in plan_words(replace(small, classical=(better,))))
    worse = replace(better, successes=0)
    assert not any("Consider the following instead" in line for line in plan_words(replace(small, classical=(worse,))))


def test_single_tests_of_a_second_round_err_too():
    x = torch.zeros(4000, 2, dtype=torch.uint8)
    x[:, 0] = 1
    doubtful = torch.ones(4000, 2, dtype=torch.bool)
    half = torch.full((4000,), 0.5, dtype=torch.float64)
    evidence = Evidence(confidence=half, unsettled=doubtful)
    found = Decoded(x, torch.ones(4000, dtype=torch.uint8), half[:, None].expand(-1, 2), evidence)
    seen = judged(x, found, 0.95, PositiveNegative(0.9, 0.99), generator=seeded(0))
    low, high = wilson(seen.right, seen.plates, 4.0)
    assert low < 0.9 * 0.99 < high
    assert seen.follow_ups == 8000


def test_the_best_of_several_has_a_wider_interval():
    one = planning.Candidate(Design.from_rows(["110", "011"]), 2, 200, 198, 0.0, 1.0)
    assert one.interval == pytest.approx(wilson(198, 200, simulation.Z99))
    assert one.among(4).interval.low < one.interval.low
    assert planning.shown([one, one], 0.9) is not None
    assert planning.shown([one], 0.99) is None


def test_names_and_codes_change_with_everything_that_matters():
    rows = ["110", "011"]
    designs = [
        Design.from_rows(rows),
        Design.from_rows(["110", "111"]),
        Design.from_rows(rows, ["A", "B"]),
        Design.from_rows(rows, item_names=["a", "b", "c"]),
        Design.from_rows(rows, item_names=["b", "a", "c"]),
    ]
    assert len({check_code(design) for design in designs}) == len(designs)
    assert not set("".join(map(check_code, designs))) & set("01ILOU")
    assert short_name(designs[0]) in label(designs[0])


# --- plan folders ----------------------------------------------------------------------------------------------------


def test_a_folder_comes_back_and_every_file_shows_the_code(small, tmp_path):
    folder = write_plan(small, tmp_path / "plan", volume=5.0)
    assert folder.samples == small.question.samples
    assert folder.problem.fingerprint == small.problem.fingerprint
    assert folder.volume == 5.0
    files = [path for path in folder.path.rglob("*") if path.is_file()]
    assert {"README.txt", "problem.toml", "design.csv", "samples.csv", "counts.csv", "counts.xlsx", "plan.json",
            "pooling_sheet.html", "candidates.svg"} <= {path.name for path in files}  # fmt: skip
    for path in files:
        if path.name in ("problem.toml", "design.csv", "candidates.svg", "counts.xlsx"):
            continue  # the design itself, and what refers to it
        assert folder.code in path.name or folder.code in path.read_text("utf-8"), path
    assert json.loads((folder.path / "plan.json").read_text())["seed"] == small.seed


def test_a_plan_is_the_same_as_files_in_memory(small, tmp_path):
    folder, files = write_plan(small, tmp_path / "plan", volume=5.0), plan_files(small, volume=5.0)
    paths = {path.relative_to(folder.path).as_posix(): path for path in folder.path.rglob("*") if path.is_file()}
    assert paths.keys() == files.keys()
    dated = {"counts.xlsx", "candidates.svg"}  # the date is in them
    assert all(path.read_bytes() == files[name] for name, path in paths.items() if name not in dated)
    again = read_plan("the run", files)
    assert (again.code, again.samples, again.volume) == (folder.code, folder.samples, 5.0)
    assert again.problem.fingerprint == folder.problem.fingerprint
    with pytest.raises(ValueError, match=r"the run.problem.toml: design.csv: is not among the files .*; add it"):
        read_plan("the run", {name: data for name, data in files.items() if name != "design.csv"})
    with pytest.raises(ValueError, match=r"the run: its design has check code .* samples.csv has been changed"):
        read_plan("the run", {**files, "samples.csv": files["samples.csv"].replace(b"S1,", b"S0,")})


def test_blank_counts_are_refused_and_filled_ones_read(small, tmp_path):
    folder = write_plan(small, tmp_path / "plan")
    design = folder.problem.design
    for name in ("counts.csv", "counts.xlsx"):
        with pytest.raises(ValueError, match="all other counts of this instance are empty"):
            read_counts(folder.path / name, design, folder.samples)
    _, y = folder.problem.simulate(1, generator=seeded(1))
    lines = (folder.path / "counts.csv").read_text().splitlines()
    filled = lines[:2] + [f"{line}{value:g}" for line, value in zip(lines[2:], y[0].tolist(), strict=True)]
    (folder.path / "counts.csv").write_text("\n".join(filled))
    assert read_counts(folder.path / "counts.csv", design, folder.samples).y.tolist() == y.tolist()

    import openpyxl

    book = openpyxl.load_workbook(folder.path / "counts.xlsx")
    for row, value in enumerate(y[0].tolist(), 3):
        book.active.cell(row, 5, value)
    book.save(folder.path / "counts.xlsx")
    sheet = read_counts(folder.path / "counts.xlsx", design, folder.samples)
    assert sheet.y.tolist() == y.tolist()
    assert f"The check code is the design's: {folder.code}." in sheet.notes


def test_a_folder_is_never_written_over_and_changes_are_noticed(small, tmp_path):
    folder = write_plan(small, tmp_path / "plan")
    with pytest.raises(ValueError, match="is there already, and its pools may have been made"):
        write_plan(small, tmp_path / "plan")
    text = (folder.path / "design.csv").read_text().splitlines()
    text[2], text[3] = (
        text[2].split(",")[0] + "," + text[3].split(",")[1],
        text[3].split(",")[0] + "," + text[2].split(",")[1],
    )
    (folder.path / "design.csv").write_text("\n".join(text) + "\n")
    with pytest.raises(ValueError, match=r"design.csv or samples.csv has been changed"):
        read_plan(folder.path)
    assert [path.name for path in tmp_path.iterdir()] == ["plan"]  # no part is left


def test_hostile_names_are_shown_and_not_run(quick, tmp_path):
    names = [
        "=cmd|'/c calc'!A1",
        "<script>alert(1)</script>",
        "@SUM(1)",
        '"quoted"',
        "a,b;c",
        "+1",
        *(f"s{i}" for i in range(6)),
    ]
    result = made(Question(Samples.placed(names), (0, 1), certainty=0.7))
    folder = write_plan(result, tmp_path / "plan")
    page = (folder.path / "pooling_sheet.html").read_text("utf-8")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page
    for path in (folder.path / "worklists").iterdir():
        for line in path.read_text("utf-8").splitlines():
            assert not line.startswith(("=", "+", "@")), path
    assert folder.samples.names == tuple(names)


def test_the_plan_in_words_and_rows(small):
    words = plan_words(small)
    assert words[0] == f"{label(small.recommended.design)}."
    assert any(f"Make {small.recommended.pools} pools." in line for line in words)
    rows = plan_rows(small)
    assert [row[-1] for row in rows].count("<- recommended") == 1
    assert [row[0] for row in rows] == [str(one.pools) for one in (*small.candidates, *small.classical)]
