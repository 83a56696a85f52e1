"""From nothing to calls for 96 samples with three commands; the plan verb's questions and refusals."""

import csv
import json
from pathlib import Path

import pytest
import torch

from qgt.cli import main
from qgt.cli.shell import PLAN_FILES
from qgt.lab.plan.folder import read_plan
from qgt.model import design_forms


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch, quick_plans):
    monkeypatch.chdir(tmp_path)


def fill(path, counts):
    """What a person types: a count at the end of each line."""
    lines = path.read_text().splitlines()
    filled = [f"{line}{count:g}" for line, count in zip(lines[2:], counts, strict=True)]
    path.write_text("\n".join([*lines[:2], *filled]) + "\n")


def test_from_nothing_to_calls_without_editing_a_file(capsys):
    asked = ["plan", "--samples", "96", "--positives", "1-4", "--errors", "0.02", "--certainty", "0.8"]
    assert main([*asked, "-o", "plan", "--seconds", "600"]) == 0
    said = capsys.readouterr().out
    assert "Wrote the folder plan." in said
    assert "<- recommended" in said
    folder = read_plan("plan")
    assert folder.problem.items == 96
    x = torch.zeros(1, 96, dtype=torch.uint8)
    x[0, [4, 50]] = 1
    fill(folder.path / "counts.csv", folder.problem.design.count(x)[0].tolist())
    given = ["decode", "plan/counts.csv", "--problem", "plan"]
    assert main([*given, "-o", "calls.csv", "--calibrate", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["results"][0]["answer"] == ["S5", "S51"]
    assert any(folder.code in note for note in found["notes"])
    with open("calls.csv") as stream:
        header, row = list(csv.reader(stream))
    assert [name for name, call in zip(header[1:], row[1:], strict=True) if call == "1"] == ["S5", "S51"]
    # Nothing that the plan wrote, and people print or fill in, is written over.
    assert sorted(path.name for path in folder.path.iterdir() if path.is_file()) == sorted(PLAN_FILES)
    written = {path: path.read_bytes() for path in folder.path.rglob("*") if path.is_file()}
    for path in written:
        assert main(["decode", "calls.csv", "--problem", "plan", "-o", str(path)]) == 2
        assert "is part of" in (error := capsys.readouterr().err) or "is named twice" in error
    assert written == {path: path.read_bytes() for path in written}
    # Counts of another plan are refused, whatever they are.
    quick = ["plan", "--samples", "12", "--positives", "1", "--certainty", "0.6"]
    assert main([*quick, "-o", "other", "--seconds", "600"]) == 0
    capsys.readouterr()
    assert main(["decode", "plan/counts.csv", "--problem", "other"]) == 2
    assert "belong to another design" in capsys.readouterr().err


def test_a_command_reads_a_plans_design_once(capsys, monkeypatch):
    quick = ["plan", "--samples", "12", "--positives", "1", "--certainty", "0.6", "-o", "plan", "--seconds", "600"]
    assert main(quick) == 0
    folder = read_plan("plan")
    fill(folder.path / "counts.csv", [0.0] * folder.problem.pools)
    read, times = design_forms.read_design, []

    def counted(*given):
        times.append(given)
        return read(*given)

    monkeypatch.setattr(design_forms, "read_design", counted)
    assert main(["decode", "plan/counts.csv", "--problem", "plan", "--calibrate", "0", "-o", "calls.csv"]) == 0
    assert len(times) == 1


def test_a_plan_as_json_from_a_samples_file(tmp_path, capsys):
    (tmp_path / "s.csv").write_text("sample;well\nAnn;A1\nBob;A2\n" + "".join(f"x{i};B{i}\n" for i in range(1, 11)))
    command = "plan --samples s.csv --positives 10% --follow-ups --certainty 0.8 --most-transfers 4 -o p --json"
    assert main(f"{command} --seconds 600".split()) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["question"]["positives"] == pytest.approx([1.2, 1.2])
    assert found["question"]["follow_ups"] is True
    assert sum(one["recommended"] for one in found["candidates"]) == 1
    assert read_plan("p").samples.names[:2] == ("Ann", "Bob")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("plan -o p", "--samples is missing"),
        ("plan --samples 96 -o p", "--positives is missing"),
        ("plan --samples none.csv --positives 1 -o p", "none.csv: cannot be read"),
        ("plan --samples 96 --positives lots -o p", "positives='lots' is not valid"),
        ("plan --samples 96 --positives 200 -o p", "positives=(200.0, 200.0) is not valid for 96 samples"),
        ("plan --samples 96 --positives 2 --assay smell -o p", "assay='smell' is not known"),
        (
            "plan --samples 96 --positives 2 --assay positive --errors 0.9 -o p",
            "errors='0.9' is not valid for positive",
        ),
        ("plan --samples 96 --positives 2 --certainty 1 -o p", "certainty=1 is not valid"),
        ("plan --samples 96 --positives 0.01-0.03 -o p", "did you mean 1 to 3 % of the samples? Then write 1%-3%."),
        ("plan --samples 96 --positives 1,5 -o p", "write 1.5 for one number, or 1-5 for 1 to 5"),
        ("plan --samples 96 --positives 2 --errors 2 -o p", "write 2% or 0.02 for 2 per cent"),
        ("plan --samples 96 --positives 2 --certainty 95 -o p", "write 95% or 0.95"),
        ("plan --samples 96 --positives 2 --attack-rate 40% -o p", "attack_rate=0.4 is for samples with households"),
        ("plan --samples 96 --positives 2 --sigma 0.2 -o p", "sigma=0.2 is not for the assay count"),
        (
            "plan --samples 96 --positives 2 --assay ct --errors 2% -o p",
            "errors=2% is not for the assay ct: give sigma",
        ),
        ("plan --samples 96 --positives 2 --assay ct --loads none.csv -o p", "none.csv: cannot be read"),
        ("plan --samples 96 --positives 2 --most-missed 5% -o p", "most_missed=0.05 is not for the assay count"),
        ("plan --samples 96 --positives 2 --assay ct --dilution 2 -o p", "dilution=2.0 is not valid"),
        ("plan --samples 96 --positives 2 -o full", "full: is there already"),
    ],
)
def test_bad_questions_are_refused_before_any_work(command, said, tmp_path, capsys):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    assert main(command.split()) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize(("given", "stages"), [("", True), ("--one-stage", False)])
def test_two_stages_are_usual_for_positive_or_negative(given, stages, capsys):
    command = (
        f"plan --samples 12 --positives 5-10% --assay positive --errors 98%,99% --certainty 60% {given} -o p --json"
    )
    assert main(f"{command} --seconds 600".split()) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["question"]["follow_ups"] is stages
    assert found["question"]["assay"] == {
        "kind": "positive_negative",
        "sensitivity": 0.98,
        "specificity": 0.99,
        "dilution": 0.0,
    }
    assert "each sample alone" in [one["scheme"] for one in found["today"]]
    assert found["question"]["certainty"] == 0.6
    assert ("5. Where a plate is unsure" in Path("p/README.txt").read_text()) is stages


def test_a_plan_that_was_changed_is_refused(capsys):
    for name, seed in (("plan", "1"), ("other", "2")):
        given = ["--samples", "12", "--positives", "1", "--errors", "0.02", "--certainty", "0.6", "--seed", seed]
        assert main(["plan", *given, "-o", name, "--seconds", "600"]) == 0
    assert main(["simulate", "plan/problem.toml", "--instances", "1", "-o", "bare.csv"]) == 0  # shows no check code
    written = {name: Path("plan", name).read_text() for name in ("problem.toml", "design.csv")}
    others = {
        "problem.toml": written["problem.toml"].replace("rate = 0.02", "rate = 0.2"),
        "design.csv": Path("other/design.csv").read_text(),
    }
    capsys.readouterr()
    for name, text in others.items():
        assert text != written[name]
        Path("plan", name).write_text(text)
        for verb in (["decode"], ["follow-up", "-o", "round2"]):
            for problem in ("plan", "plan/problem.toml"):
                assert main([*verb, "bare.csv", "--problem", problem]) == 2
                assert name in capsys.readouterr().err
        Path("plan", name).write_text(written[name])
    assert main(["decode", "bare.csv", "--problem", "plan", "--calibrate", "0"]) == 0


def test_a_laboratorys_own_list_and_sheet_go_through_both_commands(capsys):
    """Titles, German headers, other columns, Windows text, words: all read, and all of it said."""
    rows = "".join(f"Müller {n};19{n + 10};Platte A;{'ABCDEFGH'[n % 8]}{n // 8 + 1}\n" for n in range(12))
    Path("proben.csv").write_bytes(f"Screening KW 46\n\nProben-ID;Jahrgang;Platte;Position\n{rows}".encode("cp1252"))
    plan = ["plan", "--samples", "proben.csv", "--positives", "1", "--assay", "positive", "--errors", "0.99,0.99"]
    assert main([*plan, "--certainty", "0.6", "-o", "plan", "--seconds", "600"]) == 0
    said = capsys.readouterr().out
    for note in (
        "it was read as Windows-1252, as in 'Müller'.",
        "Row 3 was taken as the header; not read above it: 'Screening KW 46'.",
        "Columns: 'Proben-ID' was read as sample, 'Platte' was read as plate, 'Position' was read as well.",
        "Not read: column 'Jahrgang'.",
    ):
        assert note in said
    design = read_plan("plan").problem.design
    found = design.matrix[:, 4].tolist()
    lines = [
        f"{p};{'nachgewiesen' if r else 'nicht nachgewiesen'}" for p, r in zip(design.pool_names, found, strict=True)
    ]
    Path("lauf.csv").write_text("Lauf 46\nPool;Ergebnis\nNTC;negativ\n" + "\n".join(lines) + "\n")
    assert main(["decode", "lauf.csv", "--problem", "plan", "--calibrate", "1", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["results"][0]["answer"] == ["Müller 4"]
    notes = " ".join(facts["notes"])
    assert f"{len(lines)} cells read as words: {found.count(0)} negative (nicht nachgewiesen)" in notes
    assert "Not read: 1 control (NTC)." in notes and "Row 2 was taken as the header" in notes
    Path("lauf.csv").write_text(Path("lauf.csv").read_text().replace(";nicht nachgewiesen", ";n.d.", 1))
    assert main(["decode", "lauf.csv", "--problem", "plan"]) == 2
    assert "which may mean not detected or not done; write 0 or negative" in capsys.readouterr().err


def test_a_plan_of_households_is_decoded_with_another_attack_rate(capsys):
    """The attack rate changes the prior that is decoded with, not the plan, whose samples are still found."""
    rows = [f"S{number},H{number // 3}" for number in range(12)]
    Path("samples.csv").write_text("\n".join(["sample,household", *rows]) + "\n")
    asked = ["plan", "--samples", "samples.csv", "--positives", "1", "--attack-rate", "40%", "-o", "plan"]
    assert main([*asked, "--certainty", "0.6", "--seconds", "600"]) == 0
    folder = read_plan("plan")
    fill(folder.path / "counts.csv", [0] * folder.problem.pools)
    capsys.readouterr()
    given = ["decode", "plan/counts.csv", "--problem", "plan", "--calibrate", "0", "--by-sample", "calls.csv"]
    assert main([*given, "--attack-rate", "25%", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["results"][0]["answer"] == [] and found["fingerprint"] != folder.problem.fingerprint
    with open("calls.csv") as stream:
        assert [row["well"] for row in csv.DictReader(stream)] == list(folder.samples.wells)


def test_a_plan_of_cycle_thresholds_is_made_filled_in_and_decoded(capsys, monkeypatch):
    monkeypatch.setattr("qgt.lab.plan.question.LOAD_WEIGHTS", (3,))
    Path("own.csv").write_text("sample,Ct\n" + "".join(f"x{n},{18 + 0.5 * n}\n" for n in range(30)))
    asked = ["plan", "--samples", "12", "--positives", "1-2", "--assay", "ct", "--sigma", "0,2", "--empty-ct", "36"]
    assert main([*asked, "--loads", "own.csv", "--certainty", "60%", "--seconds", "600", "-o", "plan", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["question"]["follow_ups"] is True
    assert len(found["question"]["loads"]["values"]) == 30
    assert found["question"]["assay"]["sigma"] == 0.2 and found["question"]["assay"]["dilution"] == 1.0
    folder = read_plan("plan")
    x = torch.zeros(1, 12, dtype=torch.float64)
    x[0, [4, 10]] = torch.tensor([3e3, 2e5], dtype=torch.float64)
    sizes = folder.problem.design.pool_sizes.double()
    cycles = folder.problem.noise.usual_report(folder.problem.design.count(x), sizes)[0]
    fill(folder.path / "counts.csv", [round(cycle, 2) for cycle in cycles.tolist()])
    given = ["decode", "plan/counts.csv", "--problem", "plan", "--decoder", "load_posterior", "--calibrate", "0"]
    assert main([*given, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["results"][0]["answer"] == ["S5", "S11"]
