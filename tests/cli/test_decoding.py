"""`qgt decode` tells how far to trust each answer; `qgt check` checks the proofs."""

import csv
import json
from pathlib import Path

import pytest
import torch

import qgt
from qgt.cli import main

DECODE = "decode counts.csv --problem problem.toml -o calls.csv"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A problem with answers of every kind: sure ones, doubtful ones, and counts that no x explains."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    g = torch.Generator().manual_seed(3)
    design = qgt.Design.bernoulli(pools=14, items=60, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.05), qgt.SparseInteger(0.1, 1))
    problem.save(tmp_path / "problem.toml")
    y = problem.simulate(12, generator=g).y
    y[11] = torch.tensor([0.0, 9.0] * 7)
    lines = [",".join(["instance", *design.pool_names])]
    lines += [",".join([f"s{i}", *(f"{count:g}" for count in row)]) for i, row in enumerate(y.tolist())]
    (tmp_path / "counts.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def run(command: str, capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    assert main(command.split()) == code
    out, err = capsys.readouterr()
    assert err == "" or code == 2
    return err if code == 2 else out


def test_certified_is_the_default_and_tells_the_doubtful_first(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(DECODE, capsys)
    words = [line.split(",")[1].split(":")[0].strip() for line in out.splitlines() if line.startswith("Instance ")]
    assert len(words) == 5 and words[0] == "impossible" and words[1] == "unsure"
    assert "retest" in out and "s11" in out and "7 other instances" in out
    assert Path("calls.csv").read_text().startswith("instance,I1,")


def test_json_and_the_report_carry_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads(run(f"{DECODE} --report report.csv --json", capsys))
    assert facts["decoder"] == "certified" and sum(facts["status"].values()) == 12
    with Path("report.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(facts["results"]) == 12
    for row, told in zip(rows, facts["results"], strict=True):
        assert row["instance"] == told["instance"] and row["verdict"] == told["verdict"]
        assert row["words"] == told["words"]
        assert row["defective"] == "; ".join(told["defective"]) and row["retest"] == "; ".join(told["retest"])
        assert len([part for part in row["alternatives"].split("; ") if part]) == len(told["alternatives"])
    assert {row["verdict"] for row in rows} >= {"proved", "unsure", "impossible"}


def test_the_report_says_what_the_library_says(capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads(run(f"{DECODE} --odds 30 --json", capsys))
    problem = qgt.Problem.load("problem.toml")
    y = torch.tensor([[float(cell) for cell in line.split(",")[1:]] for line in _lines("counts.csv")[1:]]).double()
    result = qgt.Certified(odds=30.0).bind(problem)(y)
    for i, told in enumerate(facts["results"]):
        assert told["confidence"] == pytest.approx(float(result.evidence.confidence[i]), abs=1e-6)
        assert told["status"] == qgt.Status(int(result.status[i])).name
        assert len(told["alternatives"]) == max(0, len(result.evidence.alternatives.of_instance(i).x) - 1)
        calls = [problem.design.item_names[j] for j in result.x[i].nonzero().flatten().tolist()]
        assert told["defective"] == calls


def test_other_decoders_tell_no_confidence(capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads(run(f"{DECODE} --decoder maximum_neighborhood --json", capsys))
    assert {told["confidence"] for told in facts["results"]} == {None}
    assert "verdict" not in run(f"{DECODE} --decoder maximum_neighborhood", capsys)


def test_proofs_are_written_and_checked(capsys: pytest.CaptureFixture[str]) -> None:
    run(f"{DECODE} --certificate proofs.safetensors", capsys)
    check = "check counts.csv --problem problem.toml --certificate proofs.safetensors"
    assert "12 of 12 instances are proved" in run(f"{check}", capsys)
    text = Path("counts.csv").read_text().splitlines()
    text[1], text[2] = text[2].replace("s1,", "s0,"), text[1].replace("s0,", "s1,")
    Path("counts.csv").write_text("\n".join(text))
    facts = json.loads(run(f"{check} --json", capsys, code=1))
    assert facts["not_proved"] == ["s0", "s1"] and facts["proved"] == 10
    assert "s0" in run(check, capsys, code=1)


def test_proofs_of_other_instances_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    run(f"{DECODE} --certificate proofs.safetensors", capsys)
    Path("counts.csv").write_text("\n".join(_lines("counts.csv")[:5]))
    error = run("check counts.csv --problem problem.toml --certificate proofs.safetensors", capsys, code=2)
    assert "other counts" in error


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--decoder amp --odds 10", "odds=10.0 has no meaning for amp"),
        ("--decoder exact --certificate proofs", "certificate has no meaning for exact"),
        ("--decoder gamp --time-limit 1", "time_limit=1.0 has no meaning for gamp"),
        ("--odds 0.5", "odds=0.5"),
        ("--report calls.csv", "named twice"),
        ("--defectives 3", "cannot use it"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert words in run(f"{DECODE} {options}", capsys, code=2)
    assert not Path("calls.csv").exists()


def test_out_of_time_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(f"{DECODE} --time-limit 1e-9", capsys)
    assert "TIME_LIMIT" in out and "Time ran out" in out


def _lines(name: str) -> list[str]:
    return Path(name).read_text().splitlines()
