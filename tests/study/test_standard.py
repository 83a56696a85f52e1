"""The standard benchmark: the problems stay what they are, rows are measured once, and strangers can add their own."""

import re
from pathlib import Path

import pytest
import torch

import qgt
from qgt.cli import main
from qgt.study.standard import (
    StandardResults,
    StandardRow,
    fingerprint_of,
    run_standard,
    standard_decoders,
    standard_problems,
    standard_version,
)

PROBLEMS = {one.name: one for one in standard_problems()}
DOCS = Path(__file__).parents[2] / "docs" / "standard.md"


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_instances_are_those_of_the_file(name):
    found = PROBLEMS[name].instances(3)
    assert len(found.x) == 3  # and the fingerprint of all of them was right


def test_other_instances_are_noticed():
    found = PROBLEMS["paper-35"].instances()
    changed = found.y.clone()
    changed[-1, -1] += 1
    assert fingerprint_of(qgt.Instances(found.x, changed)) != fingerprint_of(found)


def test_every_problem_is_on_the_page_and_the_page_names_no_other():
    page = DOCS.read_text("utf-8")
    assert re.findall(r"<!-- table: standard_([\w-]+) -->", page) == list(PROBLEMS)
    assert f"has a version, which is {standard_version()}" in page


def test_every_problem_is_taken_by_some_decoder_that_reaches_the_limit():
    decoders = standard_decoders()
    for one in PROBLEMS.values():
        wanted = "certified" if one.problem.loads is None else "load_posterior"
        assert decoders[wanted].supports(one.problem) is None
    assert "exhaustive" not in decoders


def test_a_row_counts_what_is_right_and_refusals_are_rows_too():
    some = [PROBLEMS["paper-35"], PROBLEMS["loads-24"]]
    counted, refused = run_standard({"gamp": qgt.GAMP()}, problems=some, instances=12)
    x, y = some[0].instances(12)
    expected = int((qgt.GAMP().bind(some[0].problem)(y).x == x).all(1).sum())
    assert (counted.instances, counted.right) == (12, expected)
    assert counted.memory_mb is None or counted.memory_mb >= 0
    assert refused.instances == 0 and refused.refused


def test_amounts_are_right_when_the_positives_are():
    (row,) = run_standard({"load_posterior": qgt.LoadPosterior()}, problems=[PROBLEMS["loads-24"]], instances=6)
    assert row.right >= 4


class Slow:
    """One that takes long."""

    def supports(self, problem):
        return None

    def bind(self, problem):
        def decode(y):
            torch.zeros(1).sum()
            return qgt.Decoded(
                torch.zeros(len(y), problem.items, dtype=torch.uint8), torch.zeros(len(y), dtype=torch.uint8)
            )

        return decode


def test_rows_of_an_earlier_call_are_kept_and_short_ones_are_measured_again():
    one = PROBLEMS["paper-35"]
    told = []
    full = StandardRow(one.name, "slow", 200, 7, 1.0, 1.0)
    short = StandardRow(one.name, "slow", 5, 0, 0.1, 0.1)
    late = StandardRow(one.name, "slow", 5, 0, 70.0, 1.0)
    for done, expected in ((full, full), (late, late), (short, None)):
        (row,) = run_standard({"slow": Slow()}, problems=[one], seconds=60.0, done=[done], on_row=told.append)
        assert (row == expected) if expected else row.instances == 200
    assert len(told) == 1


class Failing(Slow):
    """One that takes every problem, and fails on some."""

    def bind(self, problem):
        if problem.values is not None:
            raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")
        return super().bind(problem)


def test_a_decoder_that_fails_gets_a_row_that_says_so():
    some = [PROBLEMS["categories-20"], PROBLEMS["paper-35"]]
    failed, fine = run_standard({"failing": Failing()}, problems=some, instances=6)
    assert (failed.instances, fine.instances) == (0, 6)
    assert failed.refused == "it failed: RuntimeError: mat1 and mat2 shapes cannot be multiplied"
    told = []
    run_standard({"failing": Failing()}, problems=some, instances=6, done=[failed, fine], on_row=told.append)
    assert told == [failed]  # it is tried again: the error may have been of the machine


def test_rows_of_another_source_are_measured_again():
    one = PROBLEMS["paper-35"]
    old = StandardRow(one.name, "slow", 200, 7, 1.0, 1.0, source="old")
    for sources, again in (({"slow": "old"}, False), ({"slow": "new"}, True), ({}, True)):
        (row,) = run_standard({"slow": Slow()}, problems=[one], done=[old], sources=sources, instances=6)
        assert (row is not old) == again and row.source == sources.get("slow", "")


def test_a_slow_decoder_decodes_fewer():
    (row,) = run_standard({"slow": Slow()}, problems=[PROBLEMS["paper-35"]], seconds=0.0)
    assert row.instances == 5


def test_results_are_stored_and_ranked(tmp_path):
    rows = [
        StandardRow("paper-35", "gamp", 200, 150, 1.0, 1.0, 3.0),
        StandardRow("paper-35", "certified", 200, 190, 2.0, 2.0, 3.0, proved=200),
        StandardRow("paper-20", "certified", 200, 190, 2.0, 2.0, 3.0, proved=100),
        StandardRow("loads-24", "gamp", 0, 0, 0.0, 0.0, refused="no"),
    ]
    StandardResults(rows).save(tmp_path / "s.json")
    found = StandardResults.load(tmp_path / "s.json")
    assert list(found.rows) == rows
    assert found.limit("paper-35") == rows[1]
    assert found.limit("paper-20") is None  # too little is proved
    assert "**certified** (the limit)" in found.table("paper-35").splitlines()[2]
    assert [line.split("|")[1].strip() for line in found.ranking().splitlines()[2:]] == ["**certified**", "**gamp**"]
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(ValueError, match=r"bad\.json: does not have results"):
        StandardResults.load(tmp_path / "bad.json")


def test_rows_of_few_instances_are_last_and_not_ranked():
    certified = StandardRow("paper-35", "certified", 200, 190, 2.0, 2.0, 3.0, proved=200)
    found = StandardResults([StandardRow("paper-35", "exact", 5, 5, 1.0, 1.0, 3.0, proved=5), certified])
    names = [line.split("|")[1].strip() for line in found.table("paper-35").splitlines()[2:]]
    assert names == ["**certified** (the limit)", "**exact**"]
    assert [line.split("|")[3].strip() for line in found.ranking().splitlines()[2:]] == ["1/1", "0/0"]


def test_the_recipe_of_the_page_adds_a_row(tmp_path, monkeypatch):
    (code,) = re.findall(r"```\n# mine\.py\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    (tmp_path / "mine.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    plugin = ["--plugin", "mine.py", "--decoder", "mine:Nearest"]
    command = ["bench", "standard", *plugin, "-o", "mine.json", "--instances", "5"]
    assert main(command) == 0
    rows = StandardResults.load(tmp_path / "mine.json").rows
    assert len(rows) == len(PROBLEMS)
    assert {row.problem for row in rows if row.refused} == {"loads-24", "loads-45", "categories-20", "copies-25"}
    assert main(command) == 0
    assert StandardResults.load(tmp_path / "mine.json").rows == rows


def test_decoders_are_for_the_standard_benchmark_only(tmp_path, capsys):
    assert main(["bench", str(tmp_path / "study.toml"), "--decoder", "gamp"]) == 2
    assert "is for 'qgt bench standard'" in capsys.readouterr().err
