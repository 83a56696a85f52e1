"""Cycle thresholds on the command line: simulate them, and decode the file of a PCR machine."""

import csv
import json
import math
from pathlib import Path

import pytest

import qgt
from qgt.cli import main
from qgt.lab.sheets.counts import read_counts

PROBLEM = """design = { kind = "kirkman_triples", pools = 15, items = 35 }
prior = { kind = "loads", rate = 0.04, mean = 3.5, sd = 1.0 }
noise = { kind = "cycle_threshold", sigma = 0.25, intercept = 37.0, slope = -3.32, limit = 38.0 }
"""
DECODE = "decode run.csv --problem problem.toml --decoder load_posterior --calibrate 0"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A problem of loads, counts of two plates that it simulates, and who is positive."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    Path("problem.toml").write_text(PROBLEM)
    return tmp_path


def run(command: str, capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    assert main(command.split()) == code
    out, err = capsys.readouterr()
    return err if code == 2 else out


def rows(path: str) -> list[dict[str, str]]:
    with Path(path).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def simulated(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    facts: dict[str, object] = json.loads(
        run("simulate problem.toml --instances 4 --seed 1 -o counts.csv --truth truth.csv --json", capsys)
    )
    return facts


def machine_file(counts: list[dict[str, str]], failed: str = "") -> str:
    """Plates as a machine exports them: below a preamble, a row for each well and target, Undetermined for none."""
    lines = ["* Block Type = 96-Well Block", "", "Plate,Well Position,Sample Name,Target Name,Task,CT,Ct Mean"]
    for plate in counts:
        name = plate.pop("instance")
        for number, (pool, cell) in enumerate(plate.items()):
            at = f"{name},{'ABCDEFGH'[number % 8]}{number // 8 + 1},{pool}"
            control = "Undetermined" if pool in failed.split() else "24.10"
            lines += [
                f"{at},N1,UNKNOWN,{cell.replace('not detected', 'Undetermined')},99",
                f"{at},RP,UNKNOWN,{control},99",
            ]
        lines += [f"{name},H12,NTC,N1,NTC,Undetermined,", f"{name},H12,NTC,RP,NTC,Undetermined,"]
    return "\n".join(lines) + "\n"


def test_simulated_loads_are_amounts_and_cycles_that_are_read_back(capsys: pytest.CaptureFixture[str]) -> None:
    facts = simulated(capsys)
    truth = [{item: float(cell) for item, cell in row.items() if item != "instance"} for row in rows("truth.csv")]
    positive = [sum(amount > 0 for amount in row.values()) for row in truth]
    assert facts["mean_defectives"] == sum(positive) / 4 > 0
    assert max(max(row.values()) for row in truth) > 2  # copies, not statuses
    text = Path("counts.csv").read_text()
    assert "not detected" in text and "inf" not in text
    problem = qgt.Problem.load("problem.toml")
    y = read_counts("counts.csv", problem.design, noise=problem.noise).y
    assert y.isinf().sum() == text.count("not detected") and not y.isnan().any()


def test_the_file_of_a_machine_is_decoded(capsys: pytest.CaptureFixture[str]) -> None:
    simulated(capsys)
    Path("run.csv").write_text(machine_file(rows("counts.csv")))
    assert "the pools have 2 targets ('N1' and 'RP'); say which one to decode by --target NAME" in run(
        DECODE, capsys, 2
    )
    out = run(f"{DECODE} --target N1 --control RP -o calls.csv", capsys)
    assert "Target N1 was read, with the control RP." in " ".join(out.split())
    truth = [
        {item: str(int(float(cell) > 0)) for item, cell in row.items() if item != "instance"}
        for row in rows("truth.csv")
    ]
    calls = rows("calls.csv")
    assert [row.pop("plate") for row in calls] == ["1", "2", "3", "4"]
    for called, true in zip(calls, truth, strict=True):
        assert all(cell in ("", true[sample]) for sample, cell in called.items())
    assert sum(cell == "1" for row in calls for cell in row.values()) > 0


def test_a_failed_control_is_a_pool_that_was_not_measured(capsys: pytest.CaptureFixture[str]) -> None:
    simulated(capsys)
    Path("run.csv").write_text(machine_file(rows("counts.csv"), failed="P7"))
    notes = json.loads(run(f"{DECODE} --control RP --json", capsys))["notes"]
    assert any("taken as not measured: P7 of 1, P7 of 2, P7 of 3 and P7 of 4." in note for note in notes)
    assert any(note.startswith("4 of 60 cycle thresholds are missing: P7 of 1,") for note in notes)


def test_a_machine_file_with_targets_has_later_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    """The first round is read from the machine's file; what a control spoilt is settled by the round that follows."""
    simulated(capsys)
    Path("run.csv").write_text(machine_file(rows("counts.csv"), failed="P1 P2 P3 P4 P5 P6 P7"))
    first = "run.csv --problem problem.toml --target N1 --control RP"
    facts = json.loads(run(f"follow-up {first} --pools 2 -o round2 --confidence 0.9999 --json", capsys))
    assert any("did not amplify in 28 wells, taken as not measured: P1 of 1" in note for note in facts["notes"])
    assert facts["pools"] > 0
    pools = rows("round2/pools.csv")
    truth = {row.pop("instance"): row for row in rows("truth.csv")}
    lines = ["instance,pool,count"]
    for pool in pools:
        total = sum(float(truth[pool["instance"]][item]) for item in pool["items"].split())
        cell = "not detected" if total < 1 else f"{37.0 - 3.32 * math.log10(total):.2f}"
        lines.append(f"{pool['instance']},{pool['pool']},{cell}")
    Path("round2/counts.csv").write_text("\n".join(lines) + "\n")
    done = json.loads(run(f"decode {first} --round round2 -o calls.csv --json", capsys))
    assert done["decoder"] == "load_posterior"
    for row in rows("calls.csv"):
        true = truth[row.pop("plate")]
        assert all(cell in ("", str(int(float(true[sample]) > 0))) for sample, cell in row.items())


def later_machine_file(pools: list[dict[str, str]], cells: list[str], failed: str = "") -> str:
    """A round's pools as a machine exports them, on two plates of its own."""
    lines = ["* Block Type = 96-Well Block", "", "Plate,Well Position,Sample Name,Target Name,Task,CT"]
    for number, (pool, cell) in enumerate(zip(pools, cells, strict=True)):
        at = f"run {number % 2},A{number // 2 + 1},{pool['pool']}"
        control = "Undetermined" if pool["pool"] in failed.split() else "24.10"
        lines += [f"{at},N1,UNKNOWN,{cell.replace('not detected', 'Undetermined')}", f"{at},RP,UNKNOWN,{control}"]
    return "\n".join([*lines, "run 0,H12,NTC,N1,NTC,Undetermined"]) + "\n"


def true_cells(pools: list[dict[str, str]]) -> list[str]:
    """What pools report without any error."""
    truth = {row.pop("instance"): row for row in rows("truth.csv")}
    totals = [sum(float(truth[pool["instance"]][item]) for item in pool["items"].split()) for pool in pools]
    return ["not detected" if total < 1 else f"{37.0 - 3.32 * math.log10(total):.2f}" for total in totals]


def test_a_later_round_is_read_from_the_machines_file(capsys: pytest.CaptureFixture[str]) -> None:
    """As the folder's own table with the same cells, and with the refusals of a first round."""
    simulated(capsys)
    Path("run.csv").write_text(machine_file(rows("counts.csv"), failed="P1 P2 P3 P4 P5 P6 P7"))
    targets = "--target N1 --control RP"
    first = f"run.csv --problem problem.toml {targets}"
    facts = json.loads(run(f"follow-up {first} --pools 2 -o round2 --confidence 0.9999 --json", capsys))
    pools = rows("round2/pools.csv")
    names = [pool["pool"] for pool in pools]
    assert names == [f"R2-{facts['code']}-{place}" for place in range(1, len(pools) + 1)] and len(names) > 2
    cells = true_cells(pools)
    table = [f"{pool['instance']},{pool['pool']},{cell}" for pool, cell in zip(pools, cells, strict=True)]
    Path("round2/counts.csv").write_text("\n".join(["instance,pool,count", *table]) + "\n")
    own = json.loads(run(f"decode {first} --round round2 --json", capsys))
    Path("run2.csv").write_text(later_machine_file(pools, cells))
    read = json.loads(run(f"decode {first} --round round2=run2.csv --json", capsys))
    assert read["results"] == own["results"]
    assert any(
        note.startswith("round2: ") and "The control RP amplified in every well." in note for note in read["notes"]
    )
    Path("round2/counts.csv").write_text(later_machine_file(pools, cells))  # in the place of the folder's own table
    assert json.loads(run(f"decode {first} --round round2 --json", capsys))["results"] == own["results"]
    third = run(f"follow-up {first} --round round2=run2.csv -o round3 --json", capsys)
    assert json.loads(third)["round"] == 3

    without = run("decode run.csv --problem problem.toml --target N1 --round round2=run2.csv", capsys, 2)
    assert (
        "run2.csv: row 3, column 4: besides 'N1' the pools have 'RP'; say which one is the internal control" in without
    )
    Path("run2.csv").write_text(later_machine_file(pools, cells, failed=names[0]))
    failed = json.loads(run(f"decode {first} --round round2=run2.csv --json", capsys))
    assert any(f"in 1 well, taken as not measured: {names[0]}." in note for note in failed["notes"])
    Path("run2.csv").write_text(later_machine_file(pools[1:], cells[1:]))
    assert f"has no well for pool '{names[0]}'; add a row" in run(f"decode {first} --round round2=run2.csv", capsys, 2)
    assert "run3.csv: cannot be read" in run(f"decode {first} --round round2=run3.csv", capsys, 2)


def test_a_target_is_for_the_files_that_name_targets(capsys: pytest.CaptureFixture[str]) -> None:
    simulated(capsys)
    text = Path("counts.csv").read_text().splitlines()
    gone = [",".join([one.split(",")[0], *[""] * 7, *one.split(",")[8:]]) for one in text[1:]]
    Path("typed.csv").write_text("\n".join([text[0], *gone]) + "\n")  # a first round that was typed
    run("follow-up typed.csv --problem problem.toml --pools 2 -o round2 --confidence 0.9999", capsys)
    pools = rows("round2/pools.csv")
    Path("run2.csv").write_text(later_machine_file(pools, true_cells(pools)))
    decode = "decode typed.csv --problem problem.toml --round round2"
    read = json.loads(run(f"{decode}=run2.csv --target N1 --control RP --json", capsys))
    assert any("Target N1 was read, with the control RP." in note for note in read["notes"])
    Path("round2/counts.csv").write_text(Path("round2/counts.csv").read_text().replace(",\n", ",30\n"))
    said = run(f"{decode} --target N1", capsys, 2)
    assert "target='N1' is not valid: typed.csv has no column of targets beside its wells; leave it out." in said


def test_another_decoder_has_no_meaning_for_later_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    Path("run.csv").write_text("plate,P1\n")
    Path("round2").mkdir()
    said = run("decode run.csv --problem problem.toml --round round2 --decoder certified", capsys, 2)
    assert "decoder has no meaning together with --round" in said


def test_amounts_are_a_truth_to_score_by(capsys: pytest.CaptureFixture[str]) -> None:
    simulated(capsys)
    run("decode counts.csv --problem problem.toml --calibrate 0 --answers answers.csv", capsys)
    assert json.loads(run("score truth.csv answers.csv --json", capsys))["success_rate"]["mean"] == 1.0
    Path("truth.csv").write_text("7,0.5,0\n0,-2,3.5\n")
    Path("answers.csv").write_text("1,1,0\n0,0,1\n")
    assert "row 2, column 2 holds -2; write an amount, 0 for a negative" in run(
        "score truth.csv answers.csv", capsys, 2
    )
    for slip in ("2", "0.5"):
        Path("truth.csv").write_text(f"1,{slip},0\n0,0,1\n")
        assert f"row 1, column 2 holds {slip}; write 0 or 1" in run("score truth.csv answers.csv", capsys, 2)


def test_the_example_of_the_docs_is_decoded(capsys: pytest.CaptureFixture[str]) -> None:
    """A plate as a machine exports it: two targets, controls, and a pool whose internal control failed."""
    home = Path(__file__).parents[2] / "examples/pcr"
    command = f"decode {home}/run.csv --problem {home}/problem.toml --target N1 --control RP --by-sample calls.csv"
    out = " ".join(run(f"{command} --calibrate 0", capsys).split())
    assert "The control RP did not amplify in 1 well, taken as not measured: P20." in out
    assert "Not read: 4 controls or standards (NTC and PTC)." in out
    calls = {row["sample"]: row["call"] for row in rows("calls.csv")}
    with (home / "truth.csv").open(newline="") as file:
        truth = next(csv.DictReader(file))
    positive = {item for item, amount in truth.items() if item != "instance" and float(amount) > 0}
    assert len(positive) == 3
    assert {item for item, call in calls.items() if call == "positive"} == positive
    assert sum(call == "negative" for call in calls.values()) >= 85  # few are in doubt without that pool
