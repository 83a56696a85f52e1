"""Tests needed for loads: what benchmarks/load_tests.py counts, chooses and gives up, on a few plates."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

import qgt

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return import_module("load_tests")


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return import_module("loads")


def row(scheme: str, rate: float, pools: int, right: int, *, plates: int = 100, fresh: bool = False) -> dict[str, Any]:
    return {
        "scheme": scheme, "rate": rate, "weight": 3, "pools": pools, "plates": plates, "right": right,
        "tests": float(pools), "error": 0.1, "fresh": fresh,
    }  # fmt: skip


def test_plates_are_the_same_wherever_they_are_drawn_and_fresh_ones_are_others(script: Any) -> None:
    some, more = (script.some_plates(0.05, 0, number, fresh=False) for number in (3, 8))
    script.plates_of.cache_clear()
    assert torch.equal(some.x, script.some_plates(0.05, 0, 8, fresh=False).x[:3]) and torch.equal(some.x, more.x[:3])
    assert not torch.equal(some.x, script.some_plates(0.05, 0, 3, fresh=True).x)
    assert bool(((more.x > 0) == more.alone).all())  # single tests of this assay hardly ever err
    with pytest.raises(ValueError, match="plates=2001 is not valid"):
        script.some_plates(0.05, 0, 2001, fresh=False)


def test_a_tally_has_the_mean_and_its_standard_error(script: Any) -> None:
    tests = torch.tensor([10, 12, 17, 13])
    tally = script.Tally()
    tally.add(tests[:1], torch.tensor([True]))
    tally.add(tests[1:], torch.tensor([True, False, True]))
    assert (tally.plates, tally.right, tally.wrong, tally.mean) == (4, 3, 1, 13.0)
    assert tally.error == pytest.approx(float(tests.double().std()) / 2)


def test_the_fewest_tests_are_those_of_a_full_row_with_enough_plates_right(script: Any) -> None:
    rows = [
        row("one stage", 0.01, 30, 100),
        row("one stage", 0.01, 20, 99),
        row("one stage", 0.01, 18, 98),  # too many wrong
        row("one stage", 0.01, 10, 25, plates=25),  # given up
        row("one stage", 0.1, 90, 97),
    ]
    assert {scheme: list(found) for scheme, found in script.needed(rows).items()} == {"one stage": [0.01]}
    assert script.needed(rows)["one stage"][0.01]["pools"] == 20
    fresh = [row("one stage", 0.01, 30, 100, fresh=True), row("one stage", 0.01, 20, 97, fresh=True)]
    assert script.on_fresh_plates([*rows, *fresh])["one stage"][0.01]["right"] == 97
    assert [(task.pools, task.weight, task.scheme) for task in script.chosen(rows, 100, 0, "cpu")] == [
        (20, 3, "one stage")
    ]


def test_two_stages_take_fewer_pools_and_test_the_samples_in_doubt(script: Any, monkeypatch: Any) -> None:
    task = script.Task(script.TWO, 0.03, 3, 10, 0, "cpu", 16)
    one, two = script.decoded(task, 16, give_up=lambda one, two: False)
    assert one.plates == two.plates == 10 and two.right > one.right
    assert one.mean == 16 < two.mean < 60

    def again(asked: Any, pools: int, *, give_up: Any) -> Any:
        assert (asked, pools) == (task, 16)
        assert give_up(one, one) and not give_up(one, script.Tally())  # the first stage alone is too often wrong
        return one, two

    monkeypatch.setattr(script, "decoded", again)
    assert [made["scheme"] for made in script.with_pools(task)] == ["one stage", "two stages"]


def test_only_samples_in_doubt_on_plates_that_are_not_certain_are_tested_again(script: Any) -> None:
    evidence = qgt.Evidence(
        confidence=torch.tensor([0.999, 0.999, 0.5], dtype=torch.float64),
        complete=torch.tensor([True, False, True]),
        unsettled=torch.tensor([[True, False]] * 3),
    )
    found = qgt.Decoded(torch.zeros(3, 2, dtype=torch.uint8), torch.zeros(3, dtype=torch.uint8), evidence=evidence)
    assert script.to_test_alone(found, 0.99).tolist() == [[False, False], [True, False], [True, False]]
    # The list of the second plate lacks sets: what no pool clears is in doubt as well.
    uncleared = torch.tensor([[True, True]] * 3)
    assert script.to_test_alone(found, 0.99, uncleared).tolist() == [[False, False], [True, True], [True, False]]


def test_a_search_keeps_what_it_tried_and_gives_hopeless_designs_up(script: Any, monkeypatch: Any) -> None:
    def decoded(task: Any, pools: int, *, give_up: Any) -> Any:
        one, two = script.Tally(), script.Tally()
        for _ in range(4):
            for tally in (one, two):
                tally.add(torch.full((25,), pools), torch.arange(25) >= (0 if pools >= 23 else 2))
            if give_up(one, two):
                break
        return one, two

    monkeypatch.setattr(script, "decoded", decoded)
    rows = script.searched(script.Task(script.ONE, 0.01, 3, 100, 0, "cpu"))
    assert script.needed(rows)["one stage"][0.01]["pools"] == 23
    assert {made["plates"] for made in rows if made["pools"] < 23} == {25}


def test_a_partition_screened_is_dorfmans_scheme(script: Any) -> None:
    design, task = script.partition(12), script.Task("detected", 0.02, 1, 50, 0, "cpu")
    assert set(design.pool_sizes.tolist()) == {8} and set(design.item_degrees.tolist()) == {1}
    one, two = script.screened(design, task)
    plates = script.some_plates(0.02, 0, 50, fresh=False)
    positive_pools = (design.count(plates.x) > 0).sum(1)
    assert two.mean == pytest.approx(float((12 + 8 * positive_pools).double().mean()))
    assert two.right == 50 > one.right


def test_the_schemes_of_today_are_all_tried(script: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(script, "COMP_WEIGHTS", (3,))
    rows = script.by_detection(script.Task("detected", 0.01, 0, 20, 0, "cpu"))
    found = script.needed(rows)
    assert set(found) == {script.DORFMAN, script.ARRAY, script.COMP_ONE, script.COMP_TWO}
    assert all(script.ITEMS * made["weight"] <= script.LARGEST * made["pools"] for made in rows)
    again = [script.run_task(task)[1] for task in script.chosen(rows, 20, 0, "cpu")]
    assert {made["scheme"] for (made,) in again} == set(found) and all(made["fresh"] for (made,) in again)


def test_tasks_and_cases_have_names_of_their_own_and_keep_to_the_largest_pool(script: Any) -> None:
    tasks, cases = list(script.tasks_of(script.RATES, 10, 0, "cpu")), list(script.cases_of(script.RATES, 20, 0))
    for some in (tasks, cases):
        assert len({json.dumps(one.key) for one in some}) == len(some)
    pairs = [(one.pools, one.weight) for one in tasks if one.pools] + [(one.first, one.weight) for one in cases]
    assert all(pools >= script.fewest_pools(weight) for pools, weight in pairs)
    assert int(script.design_of(9, 3, 0).pool_sizes.max()) == 32


def test_a_rate_is_whole_when_all_its_searches_have_ended(script: Any) -> None:
    tasks = list(script.tasks_of((0.01, 0.02), 10, 0, "cpu"))
    assert [task.rate for task in tasks] == sorted(task.rate for task in tasks)
    assert script.whole_rates(tasks, [task.key for task in tasks[:-1]]) == {0.01}
    assert script.whole_rates(tasks, [task.key for task in tasks]) == {0.01, 0.02}


def test_rounds_end_with_verdicts_and_count_all_pools(script: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(script, "SHEET", 3)
    key, rows = script.run_case(script.Case(0.02, 9, 3, 0, 0))
    assert key == [0.02, 9, 3, 0, 0] and [made["plate"] for made in rows] == [0, 1, 2]
    assert all(made["right"] and made["called_negative"] == 0 for made in rows)
    assert all(made["tests"] == 9 if made["rounds"] == 1 else 9 < made["tests"] < 60 for made in rows)
    best = script.rounds_needed(rows)[0.02]
    assert best["pools"] == 9 and best["tests"] == pytest.approx(sum(made["tests"] for made in rows) / 3, abs=1e-3)


def test_trust_counts_certain_plates_that_are_wrong_by_round(script: Any) -> None:
    plate = {"rate": 0.01, "positives": 2, "called_negative": 0, "rounds": 1, "verdict": "certain", "right": True}
    rows = [plate, {**plate, "rounds": 3, "right": False, "called_negative": 1}, {**plate, "verdict": "confident"}]
    own, total = script.trust(rows)
    assert total == {**own, "rate": None}
    assert (own["certain_first"], own["wrong_first"], own["certain_later"], own["wrong_later"]) == (1, 0, 1, 1)
    assert (own["not_certain"], own["positives"], own["called_negative"]) == (1, 6, 1)


def test_work_goes_on_where_it_was(script: Any, tmp_path: Path) -> None:
    tasks, ran = [script.Case(0.01, 9, 3, sheet, 0) for sheet in range(3)], []

    def run(case: Any) -> Any:
        ran.append(case.sheet)
        return case.key, [{"sheet": case.sheet}]

    about, path = {"seed": 0, "measured_on": {}}, tmp_path / "rows.json"
    script.work_off(path, about, tasks[:2], run, processes=1, seconds=60.0)
    found = script.work_off(path, about, tasks, run, processes=1, seconds=60.0)
    assert ran == [0, 1, 2] and [made["sheet"] for made in found["rows"]] == [0, 1, 2]
    assert script.kept(path, 1)["rows"] == []  # of another seed


def test_curves_have_the_fresh_rows_and_the_bound_is_below_them(script: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(script, "RATES", (0.01,))
    stages = [row(script.TWO, 0.01, 12, 100), row(script.TWO, 0.01, 12, 99, fresh=True), row(script.ARRAY, 0.01, 20, 9)]
    plates = [{"rate": 0.01, "first": 9, "weight": 3, "tests": 9, "rounds": 1, "right": True}] * 2
    ours, others = script.curves(stages, plates)
    assert ours == {"LoadPosterior, then singles": [(0.01, 12.0, 0.1)], "LoadPosterior, rounds": [(0.01, 9.0, 0.0)]}
    assert others == {}
    assert all(1 < pools < script.GUESS[rate] for rate, pools in script.bound())


def test_tables_of_tests_and_of_trust(script: Any, tmp_path: Path) -> None:
    tables = import_module("page_tables.loads")
    (tmp_path / "results").mkdir()
    stages = [row(script.ONE, 0.01, 18, 100), row(script.ONE, 0.01, 18, 98, fresh=True)]
    plate = {"rate": 0.01, "first": 9, "weight": 3, "tests": 9, "rounds": 1, "right": True, "verdict": "certain"}
    rounds = [{**plate, "positives": 1, "called_negative": 0}] * 4
    done = [["detected", 0.01, 0], [script.ONE, 0.01, 3]]  # the search for two stages has not ended
    for name, rows in (("load_tests", stages), ("load_rounds", rounds)):
        (tmp_path / f"results/{name}.json").write_text(json.dumps({"rows": rows, "done": done}), "utf-8")
    made = tables.tests_table(tmp_path)
    assert (
        "| `LoadPosterior`, one stage | 18.0 (98.0) |" in made and "| `LoadPosterior`, rounds | 9.0 (100.0) |" in made
    )
    assert "| COMP, one stage | not reached |" in made and "| `LoadPosterior`, then single tests | - |" in made
    assert tables.trust_table(tmp_path).endswith("| all | 4 | 0 of 4 | 0 of 0 | 0.00 to 48.99 % | 0 | 0 of 4 |")


def test_the_limit_of_decoders_told_the_number_takes_sets_of_that_size_alone(loads: Any) -> None:
    x = torch.tensor([[1, 0, 0], [0, 1, 0], [1, 1, 0], [1, 1, 1]], dtype=torch.uint8)
    probability = torch.tensor([0.3, 0.1, 0.6, 1.0], dtype=torch.float64)
    answers = qgt.Answers(qgt.Spans(torch.tensor([3, 4])), x, probability.log(), probability)
    statuses = torch.zeros(2, dtype=torch.uint8)
    found = qgt.Decoded(x[2:], statuses, evidence=qgt.Evidence(alternatives=answers))
    assert loads.told_the_number(found, 1) == pytest.approx((0.75 + 1.0) / 2)  # the second has no set of that size


def test_panels_take_the_limit_that_is_stored(loads: Any) -> None:
    found = json.loads((ROOT / "results/loads.json").read_text("utf-8"))["results"]
    panels = loads.panels_of(found)
    assert len(panels) == 6 and panels[1].title == "simple loads: 105 samples, 45 pools"
    assert list(panels[4].positives) == [3, 5, 8, 10, 12, 15] and len(panels[4].right) == 7
    told = [{**one, "told": 1.0} for one in found]
    assert all(panel.strict and set(panel.limit) == {1.0} for panel in loads.panels_of(told))
    untold = [{key: value for key, value in one.items() if key != "told"} for one in found]
    assert not any(panel.strict for panel in loads.panels_of(untold))
