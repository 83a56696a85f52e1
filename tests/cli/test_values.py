"""Copies and categories on the command line: simulate, decode, check and score, and one clear line for bad input."""

import csv
import json
from pathlib import Path

import pytest

from qgt.cli import main

DESIGN = 'design = { kind = "column_regular", pools = 16, items = 30, weight = 5, seed = 0 }\n'
NOISE = 'noise = { kind = "sparse_integer", rate = 0.05, bound = 1 }\n'
PRIORS = {
    "categories": 'prior = { kind = "categories", rates = [0.05, 0.05], names = ["variant A", "variant B"] }\n',
    "copies": 'prior = { kind = "copies", frequency = 0.05, ploidy = 2 }\n',
}
FILES = "-o calls.csv --by-sample samples.csv --answers answers.csv --report report.csv --certificate proofs"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for kind, prior in PRIORS.items():
        Path(f"{kind}.toml").write_text(DESIGN + prior + NOISE)
    return tmp_path


def run(command: str, capsys: pytest.CaptureFixture[str], *codes: int) -> str:
    assert main(command.split()) in (codes or (0,))
    out, err = capsys.readouterr()
    return err if codes == (2,) else out


def rows(name: str) -> list[list[str]]:
    with Path(name).open(newline="") as stream:
        return list(csv.reader(stream))


@pytest.mark.parametrize("kind", PRIORS)
def test_from_a_problem_to_calls_and_back(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(f"simulate {kind}.toml --instances 8 -o counts.csv --truth truth.csv", capsys)
    head = rows("counts.csv")[0]
    assert head[1:3] == (["P1 variant A", "P1 variant B"] if kind == "categories" else ["P1", "P2"])
    told = json.loads(run(f"decode counts.csv --problem {kind}.toml {FILES} --calibrate 1 --json", capsys, 0, 1))
    truth, calls, samples = rows("truth.csv"), rows("calls.csv"), rows("samples.csv")
    words = {"negative", "variant A", "variant B"} if kind == "categories" else {"0", "1", "2"}
    assert {cell for row in truth[1:] for cell in row[1:]} <= words
    assert {cell for row in calls[1:] for cell in row[1:]} <= {*words, ""}
    called = [cell for row in calls[1:] for cell in row[1:]]
    by_sample = [dict(zip(samples[0], row, strict=True)) for row in samples[1:]]
    column = "category" if kind == "categories" else "copies"
    assert [row[column] for row in by_sample] == called  # every file says the same
    zero = "negative" if kind == "categories" else "0"
    for row in by_sample:
        assert (row[column] == "") == (row["call"] in ("retest", "none"))
        assert (row[column] == zero) == (row["call"] == "negative")
    for result, row in zip(told["results"], calls[1:], strict=True):
        shown = [result["values"][name]["called"] or "" for name in calls[0][1:]]
        assert [word.split(" ")[0] if kind == "copies" else word for word in shown] == row[1:]
    for result, true, row in zip(told["results"], truth[1:], calls[1:], strict=True):
        if result["verdict"] == "certain":
            assert all(call in ("", own) for own, call in zip(true, row, strict=True))
    run(f"check counts.csv --problem {kind}.toml --certificate proofs --calls calls.csv", capsys, 0, 1)
    scored = json.loads(run(f"score truth.csv answers.csv --problem {kind}.toml --json", capsys))
    assert scored["items"] == 30 and scored["success_rate"]["mean"] >= 0.5


def test_a_sheet_with_a_row_for_each_pool(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["pool,variant A,variant B", *(f"P{number},0,0" for number in range(1, 17))]
    Path("counts.csv").write_text("\n".join(lines) + "\n")
    out = run("decode counts.csv --problem categories.toml --calibrate 1", capsys)
    assert "None of the 30 samples is positive." in out and "1: none positive (certain)" in out


@pytest.mark.parametrize(
    "first, line, words",
    [
        ("pool,variant A", "P{},0", "has no column called 'variant B'"),
        ("pool,variant A,variant B,variant C", "P{},0,0,0", "'variant C', but the problem has no such category"),
        ("pool,variant A,variant B", "Q{},0,0", "holds 'Q1', but the design has no such pool"),
        ("pool,variant A,variant B", "P{},0,many", "row 2, column 3 holds 'many'"),
        ("pool,variant A,variant B", "P{},,", "are empty; fill them in"),
    ],
)
def test_bad_input_gets_one_line(first: str, line: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [first, *(line.format(number) for number in range(1, 17))]
    Path("counts.csv").write_text("\n".join(lines) + "\n")
    said = run("decode counts.csv --problem categories.toml -o calls.csv", capsys, 2)
    assert said.count("\n") == 1 and words in said and not Path("calls.csv").exists()


def test_a_count_larger_than_the_pool_calls_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["pool,variant A,variant B", "P1,50,0", *(f"P{number},0,0" for number in range(2, 17))]
    Path("counts.csv").write_text("\n".join(lines) + "\n")
    out = run("decode counts.csv --problem categories.toml -o calls.csv --calibrate 1", capsys, 1)
    assert "P1 variant A (counted 50, of 10 samples)" in out and set(rows("calls.csv")[1][1:]) == {""}


def test_scores_of_categories_need_the_problem(capsys: pytest.CaptureFixture[str]) -> None:
    Path("truth.csv").write_text("instance,I1,I2\n1,negative,variant A\n")
    Path("calls.csv").write_text("instance,I1,I2\n1,negative,variant X\n")
    assert "holds 'variant X'; write negative, variant A or variant B" in run(
        "score truth.csv calls.csv --problem categories.toml", capsys, 2
    )


DETECTED = '{ kind = "positive_negative", sensitivity = 0.98, specificity = 0.99 }'
PER_CATEGORY = NOISE.replace("noise = {", 'noise = { kind = "per_category", noises = [{').replace(
    "1 }", f"1 }}, {DETECTED}] }}"
)


@pytest.mark.parametrize("kind, noise", [*((kind, NOISE) for kind in PRIORS), ("categories", PER_CATEGORY)])
def test_a_follow_up_round_settles_plates(
    kind: str, noise: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = Path(f"{kind}.toml").read_text().replace("pools = 16", "pools = 8").replace("weight = 5", "weight = 4")
    Path("few.toml").write_text(few.replace(NOISE, noise))
    run("simulate few.toml --instances 3 -o counts.csv --truth truth.csv --seed 1", capsys)
    run("follow-up counts.csv --problem few.toml --pools 6 -o round2 --time-limit 2", capsys, 0, 1)
    truth = {row[0]: dict(zip(rows("truth.csv")[0][1:], row[1:], strict=True)) for row in rows("truth.csv")[1:]}
    pools = {(plate, pool): items.split() for plate, pool, items in rows("round2/pools.csv")[1:]}
    filled = ["instance,pool,count"]
    for plate, name, empty in rows("round2/counts.csv")[1:]:
        pool, _, category = name.partition(" ")
        found = [truth[plate][item] for item in pools[plate, pool]]
        count: object = sum(value == category for value in found) if category else sum(map(int, found))
        if noise != NOISE and category == "variant B":  # which is only detected, and words are read
            count = "positive" if count else "negative"
        assert empty == "" and bool(category) == (kind == "categories")
        filled.append(f"{plate},{name},{count}")
    Path("round2/counts.csv").write_text("\n".join(filled) + "\n")
    given = "decode counts.csv --problem few.toml --round round2 -o calls.csv --time-limit 2"
    told = json.loads(run(f"{given} --certificate proofs.zip --json", capsys, 0, 1))
    assert told["rounds"] == 2 and any(one["verdict"] == "certain" for one in told["results"])
    for row in rows("calls.csv")[1:]:
        wrong = [call for call, true in zip(row[1:], truth[row[0]].values(), strict=True) if call not in ("", true)]
        assert len(wrong) <= 1
    assert Path("proofs.zip").exists()
    large = [f"{line}9" if line[-1].isdigit() else line for line in filled[1:]]
    Path("round2/counts.csv").write_text("\n".join([*filled[:1], *large]) + "\n")
    monkeypatch.setattr("qgt.lab.answers.decoding.RESCUE", 0.3)  # seconds for what cannot be found
    run(given, capsys, 1)  # counts that are far too large are not believed


@pytest.mark.parametrize(
    "options, column",
    [
        (["--categories", "variant A=6%, variant B=3%", "--errors", "1%"], "variant A,variant B"),
        (["--allele", "3%", "--assay", "reads", "--depth", "500", "--errors", "0.1%"], "reads"),
    ],
    ids=["variants", "allele"],
)
def test_from_a_plan_to_calls(
    options: list[str], column: str, quick_plans: None, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = ["plan", "--samples", "20", *options, "--certainty", "70%", "--seconds", "600", "-o", "plan"]
    assert main(plan) == 0
    assert "Samples: " in capsys.readouterr().out
    assert f"pool,pool plate,well,samples,{column}\n" in Path("plan/counts.csv").read_text()
    run("simulate plan/problem.toml --instances 1 -o simulated.csv --truth truth.csv --seed 2", capsys)
    width = column.count(",") + 1
    counts = rows("simulated.csv")[1][1:]
    remark, header, *lines = rows("plan/counts.csv")
    filled = [[*line[:4], *counts[width * i : width * (i + 1)]] for i, line in enumerate(lines)]
    with Path("plan/counts.csv").open("w", newline="") as stream:  # as a person fills in the sheet
        csv.writer(stream).writerows([remark, header, *filled])
    out = run("decode plan/counts.csv --problem plan -o calls.csv --by-sample samples.csv --calibrate 1", capsys, 0, 1)
    again = run("decode simulated.csv --problem plan -o others.csv --calibrate 1", capsys, 0, 1)
    assert rows("calls.csv")[1][1:] == rows("others.csv")[1][1:]  # both layouts say the same
    assert out.split("samples: ")[1].split(".")[0] == again.split("samples: ")[1].split(".")[0]
    wrong = [
        call for call, true in zip(rows("calls.csv")[1][1:], rows("truth.csv")[1][1:], strict=True) if call != true
    ]
    assert set(wrong) <= {""}
    assert rows("samples.csv")[1][:2] == ["Plate 1", "A1"]


@pytest.mark.parametrize(
    "options, words",
    [
        ("--categories A=3% --positives 2", "categories and positives were both given"),
        ("--categories A=3% --allele 1%", "categories and allele were both given"),
        ("--allele 1% --assay reads", "give the number of reads of each pool"),
        ("--allele 1% --depth 100 --assay count", "it is for the assay reads"),
        ("--categories A=3% --assay ct", "measures amounts"),
        ("--categories A", "give a name and a share for each"),
    ],
)
def test_plans_that_are_refused(options: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = run(f"plan --samples 20 {options} -o plan", capsys, 2)
    assert words in said and said.count("\n") == 1 and not Path("plan").exists()


def test_a_round_of_other_categories_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    few = Path("categories.toml").read_text().replace("pools = 16", "pools = 6").replace("weight = 5", "weight = 3")
    Path("few.toml").write_text(few)
    Path("other.toml").write_text(few.replace("variant B", "variant C"))
    run("simulate few.toml --instances 3 -o counts.csv --seed 1", capsys)
    run("simulate other.toml --instances 3 -o others.csv --seed 1", capsys)
    run("follow-up counts.csv --problem few.toml -o round2 --time-limit 2", capsys, 0, 1)
    text = Path("round2/counts.csv").read_text().replace(",\n", ",0\n")
    Path("round2/counts.csv").write_text(text)
    said = run("decode others.csv --problem other.toml --round round2", capsys, 2)
    assert "was made for other categories" in said


def test_exchanged_columns_are_named_and_nothing_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    text = Path("categories.toml").read_text().replace("rates = [0.05, 0.05]", "rates = [0.09, 0.01]")
    Path("variants.toml").write_text(text)
    run("simulate variants.toml --instances 6 -o counts.csv --seed 4", capsys)
    good = json.loads(run("decode counts.csv --problem variants.toml --calibrate 1 --json", capsys, 0, 1))
    assert good["causes"] == [] and good["file_fit"]["p"] > 0.01
    header, *lines = rows("counts.csv")
    other = [[line[0], *(line[1 + (i ^ 1)] for i in range(len(line) - 1))] for line in lines]
    with Path("exchanged.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([header, *other])
    command = "decode exchanged.csv --problem variants.toml --calibrate 1 -o calls.csv"
    told = json.loads(run(f"{command} --json", capsys, 1))
    assert told["causes"][0]["words"] == "the counts of variant A and variant B are exchanged"
    assert {one["verdict"] for one in told["results"]} <= {"suspect", "impossible"}
    assert {cell for row in rows("calls.csv")[1:] for cell in row[1:]} == {""}
    said = run(command, capsys, 1)
    assert "Likeliest cause: the counts of variant A and variant B are exchanged" in said


@pytest.mark.parametrize("options", ["--categories A=4%,B=2%", "--allele 3%"])
def test_samples_with_risks_are_planned_and_decoded(
    options: str, quick_plans: None, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["sample,risk", *(f"S{number},{0.2 if number % 4 == 0 else 0.01}" for number in range(1, 21))]
    Path("ward.csv").write_text("\n".join(lines) + "\n")
    out = run(f"plan --samples ward.csv {options} --certainty 70% --seconds 600 -o plan", capsys)
    assert "each sample has its own, by the odds of its risk" in " ".join(out.split())
    run("simulate plan/problem.toml --instances 2 -o counts.csv --truth truth.csv --seed 1", capsys)
    run("decode counts.csv --problem plan -o calls.csv --calibrate 1", capsys, 0, 1)
    wrong = [
        call
        for calls, truths in zip(rows("calls.csv")[1:], rows("truth.csv")[1:], strict=True)
        for call, true in zip(calls[1:], truths[1:], strict=True)
        if call != true
    ]
    assert set(wrong) <= {""}


def test_households_with_variants_are_refused_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    Path("families.csv").write_text("sample,household\na,1\nb,1\nc,2\nd,2\ne,3\n")
    said = run("plan --samples families.csv --categories A=4%,B=2% -o plan", capsys, 2)
    assert said.count("\n") == 1 and "samples has households (3 of them)" in said and "leave out the column" in said
    assert not Path("plan").exists()
