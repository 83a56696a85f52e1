"""Copies and categories on the page: planned, typed, pasted and decoded, with names on every page and in every file."""

import csv
import re
from functools import cache

import pytest
import torch
from visits import POOLS, SAMPLES

from qgt.lab.plan.folder import plan_files, read_plan
from qgt.lab.plan.planning import Candidate, Plan
from qgt.lab.plan.question import Question
from qgt.lab.plan.simulation import Scout
from qgt.lab.sheets.samples import Samples
from qgt.model.categories import Categories, Copies
from qgt.model.noise import Noiseless, PerCategory, PositiveNegative, Reads, SparseInteger
from qgt.web.planning import keep_plan

VARIANTS = Categories((0.08, 0.08), names=["variant A", "variant B"])
ALLELE = Copies(frequency=0.05, ploidy=2)


@cache
def written(values, assay, pools):
    """A plan and its files, written once."""
    question = Question(Samples.numbered(SAMPLES), (0.0, 0.0), assay or Noiseless(), 0.9, values=values)
    scout = Scout(question.samples, question.prior, question.assay, None, seed=0)
    one = Candidate(scout.design(pools, 4), 4, 50, 49, 0.0, 3.5)
    made = Plan(question, (one,), one, False, seed=0)
    return made, plan_files(made)


def run_of(visitor, values, assay=None, pools=POOLS):
    made, files = written(values, assay, pools)
    return keep_plan(visitor.app_state, "Monday", files, read_plan("plan", files)), made.problem


def reports(problem, truth):
    x = torch.tensor([truth], dtype=torch.uint8)
    return problem.reports(problem.totals(x), generator=torch.Generator().manual_seed(0))[0]


TRUTH = [0, 0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0]


@pytest.mark.parametrize(
    "values, words",
    [(VARIANTS, ("variant A", "variant B")), (ALLELE, ("1 copy", "2 copies"))],
    ids=["variants", "copies"],
)
def test_typed_counts_become_calls_with_names(visitor, values, words):
    run, problem = run_of(visitor, values)
    page = visitor.get(f"/runs/{run}/counts").text
    assert page.count('class="count"') == len(problem.report_names) and f"{POOLS} pools." in page
    counts = reports(problem, TRUTH).flatten().tolist()
    fields = {"way": "typed", "plate-0": "Plate 1", **{f"count-0-{n}": f"{one:g}" for n, one in enumerate(counts)}}
    answer = visitor.enter(run, fields)
    names = problem.design.item_names
    assert f"{names[2]} ({words[0]})" in answer.text and f"{names[7]} ({words[1]})" in answer.text
    assert f'<i class="positive">1</i> {words[0]}' in answer.text and "</i> positive<" not in answer.text
    assert f"{names[2]} in {problem_place(visitor, run, 2)}: {words[0]}" in answer.text
    calls = visitor.get(f"/runs/{run}/versions/1/calls_by_sample.csv").text
    rows = {row["sample"]: row for row in csv.DictReader(calls.splitlines())}
    column = "category" if values is VARIANTS else "copies"
    assert rows[names[7]][column] == values.cells[2] and rows[names[0]][column] == values.cells[0]
    assert float(rows[names[7]][f"probability of {words[1]}"]) > 0.9
    assert words[1] in visitor.get(f"/runs/{run}/versions/1/report").text


def problem_place(visitor, run, item):
    return visitor.app_state.bench.prepared(run).samples.wells[item]


def test_a_pasted_table_has_a_column_for_each_category(visitor):
    run, problem = run_of(visitor, VARIANTS)
    rows = [
        f"{pool},{a:g},{b:g}"
        for pool, (a, b) in zip(problem.design.pool_names, reports(problem, TRUTH).tolist(), strict=True)
    ]
    good = visitor.enter(run, {"way": "pasted", "pasted": "\n".join(["pool,variant A,variant B", *rows])})
    assert "S3 (variant A)" in good.text
    bad = visitor.post(
        f"/runs/{run}/counts", {"way": "pasted", "pasted": "\n".join(["pool,variant A,variant C", *rows])}
    )
    assert bad.status_code == 422 and "has no column called" in bad.text and "variant B" in bad.text


def test_the_blank_sheet_is_read_when_it_is_filled_in(visitor):
    run, problem = run_of(visitor, VARIANTS)
    blank = visitor.store.files(run)["counts.csv"].decode()
    assert "variant A,variant B" in blank
    filled = _filled(blank, reports(problem, TRUTH).tolist())
    answer = visitor.enter(run, {"way": "uploaded"}, files={"file": ("counts.csv", filled.encode())})
    assert "S3 (variant A)" in answer.text and "S8 (variant B)" in answer.text


def _filled(blank, counts):
    remark, header, *lines = list(csv.reader(blank.splitlines()))
    rows = [[*line[:4], *(f"{count:g}" for count in own)] for line, own in zip(lines, counts, strict=True)]
    return "\n".join(",".join(row) for row in [[remark[0].replace(",", " ")], header, *rows])


def test_impossible_counts_call_nothing(visitor):
    run, _ = run_of(visitor, VARIANTS)
    fields = {"way": "typed", "plate-0": "Plate 1", **{f"count-0-{n}": "0" for n in range(2 * POOLS)}}
    answer = visitor.enter(run, {**fields, "count-0-0": "40"})
    assert (
        "impossible" in answer.text and "No sample is called" in answer.text and "None is positive" not in answer.text
    )


def counted(number, word):
    return f"{number:g}"


def detected(number, word):
    """Variant B is only detected, and the page reads words for it."""
    return f"{number:g}" if word == "variant A" else ("positive" if number else "negative")


COUNTED = SparseInteger(rate=0.1, bound=1)
ONE_DETECTED = PerCategory([COUNTED, PositiveNegative(sensitivity=0.98, specificity=0.99)])


@pytest.mark.parametrize("noise, typed", [(COUNTED, counted), (ONE_DETECTED, detected)], ids=["counted", "detected"])
def test_a_follow_up_round_has_a_box_for_each_category(visitor, noise, typed):
    run, problem = run_of(visitor, VARIANTS, noise, pools=4)
    counts = problem.totals(torch.tensor([TRUTH], dtype=torch.uint8))[0].tolist()
    cells = [typed(one, word) for row in counts for one, word in zip(row, VARIANTS.names, strict=True)]
    fields = {"way": "typed", "plate-0": "Plate 1", **{f"count-0-{n}": cell for n, cell in enumerate(cells)}}
    visitor.enter(run, fields)
    page = visitor.finished(visitor.post(f"/runs/{run}/versions/1/follow-up", {"pools": "4"}))
    assert '<th scope="col">variant B</th>' in page.text
    boxes = re.findall(r'name="(count-\d+)".*?aria-label="Count of (\S+) (variant \w) of', page.text)
    assert boxes
    items = {name: place for place, name in enumerate(problem.design.item_names)}
    found = re.findall(r'<th scope="row">(R2-\w+-\d+)</th><td>(.*?)</td>', page.text, re.DOTALL)
    members = {pool: [items[name] for name in re.findall(r'plain">(\S+)</b>', text)] for pool, text in found}
    value = {"variant A": 1, "variant B": 2}
    given = {key: typed(sum(TRUTH[item] == value[word] for item in members[pool]), word) for key, pool, word in boxes}
    answer = visitor.finished(visitor.post(f"/runs/{run}/versions/1/follow-up/counts", given))
    assert answer.status_code == 200 and "2 rounds" in answer.text


def plain(answer):
    """A page without the blanks that keep numbers beside their units."""
    return answer.text.replace("&nbsp;", " ").replace("\u00a0", " ")


def test_plans_of_variants_and_of_alleles_are_made(visitor):
    base = {
        "samples": "12",
        "certainty": "70",
        "volume": "10",
        "stages": "one",
        "assay": "count",
        "fewest": "1",
        "most": "2",
    }
    variants = visitor.finished(
        visitor.post("/plan", {**base, "has": "categories", "categories": "variant A=5%, variant B=5%"})
    )
    assert "5 % are variant A, 5 % are variant B" in plain(variants)
    genotypes = {**base, "has": "copies", "allele": "5", "assay": "reads", "depth": "500", "wrong_reads": "0.1"}
    made = visitor.finished(visitor.post("/plan", genotypes))
    assert "9.5 % have 1 copy" in plain(made) and "500 reads" in plain(made)
    wrong = visitor.post("/plan", {**base, "has": "categories", "categories": "variant A"})
    assert wrong.status_code == 422 and "give a name and a share for each" in wrong.text


def test_reads_are_compared_with_the_depth(visitor):
    run, _ = run_of(visitor, ALLELE, Reads(depth=500, error=0.001))
    page = visitor.get(f"/runs/{run}/counts").text
    assert 'data-size="500"' in page and 'data-unit="reads"' in page


def test_programs_send_counts_of_each_category(visitor):
    run, problem = run_of(visitor, VARIANTS)
    assert visitor.get(f"/api/v1/runs/{run}").json()["categories"] == ["variant A", "variant B"]
    row = reports(problem, TRUTH).flatten().tolist()
    few = visitor.client.post(f"/api/v1/runs/{run}/counts", json={"values": [row[:POOLS]]})
    assert few.status_code == 422 and f"send {2 * POOLS}" in few.json()["error"]
    kept = visitor.client.post(f"/api/v1/runs/{run}/counts", json={"values": [row]})
    assert kept.status_code == 201, kept.text
    found = visitor.get(f"{kept.json()['result']}?wait=60").json()
    assert found["results"][0]["values"]["S3"]["called"] == "variant A"
    asked = {"samples": 12, "categories": "variant A=5%", "allele": 0.1}
    assert "were both given" in visitor.client.post("/api/v1/plans", json=asked).json()["error"]
