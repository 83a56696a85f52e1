"""Cycle thresholds on the command line: simulate them, and decode the file of a PCR machine."""

import csv
import json
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
            control = "Undetermined" if pool == failed else "24.10"
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
    assert any(note.startswith("4 of 60 counts are missing: P7 of 1,") for note in notes)


def test_targets_have_no_meaning_for_later_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    Path("run.csv").write_text("plate,P1\n")
    Path("round2").mkdir()
    said = run("decode run.csv --problem problem.toml --round round2 --target N1", capsys, 2)
    assert "target has no meaning together with --round" in said
