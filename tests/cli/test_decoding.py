"""`qgt decode` tells how far to trust each answer; `qgt check` checks the proofs."""

import csv
import json
import re
from pathlib import Path

import pytest
import torch

import qgt
from qgt.cli import main, shell
from qgt.lab.answers import decoding

GIVEN = "decode counts.csv --problem problem.toml"
DECODE = f"{GIVEN} -o calls.csv"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A problem with answers of many kinds; in all.csv also counts that no x explains, and far too many are wrong."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(decoding, "RESCUE", 0.3)  # seconds in which they are looked for in vain
    monkeypatch.setenv("COLUMNS", "100")
    g = torch.Generator().manual_seed(3)
    design = qgt.Design.bernoulli(pools=14, items=60, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.05), qgt.SparseInteger(0.1, 1))
    problem.save(tmp_path / "problem.toml")
    y = problem.simulate(12, generator=g).y
    y[11] = torch.tensor([0.0, 9.0] * 7)
    lines = [",".join(["instance", *design.pool_names])]
    lines += [",".join([f"s{i}", *(f"{count:g}" for count in row)]) for i, row in enumerate(y.tolist())]
    (tmp_path / "all.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "counts.csv").write_text("\n".join(lines[:-1]) + "\n")
    return tmp_path


def run(command: str, capsys: pytest.CaptureFixture[str], code: int | None = 0) -> str:
    assert main(command.split()) in ((0, 1) if code is None else (code,))
    out, err = capsys.readouterr()
    assert err == "" or code == 2
    return err if code == 2 else out


def test_certified_is_the_default_and_tells_the_doubtful_first(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(DECODE.replace("counts", "all"), capsys, code=1)
    words = re.findall(r"^s\d+, (\w+): ", out, re.MULTILINE)
    assert len(words) == 5 and words[:3] == ["impossible", "unsure", "unsure"]
    assert "retest" in out and "s11" in out and "7 more not shown here: see --report, --html or --json." in out
    assert "proved" not in out.lower()
    assert Path("calls.csv").read_text().startswith("plate,I1,")


def test_without_a_file_the_calls_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads(run(f"{GIVEN} --json", capsys))
    lines = run(GIVEN, capsys).splitlines()
    for line, told in zip(lines, facts["results"], strict=False):
        assert line.startswith(f"{told['instance']}: ") and line.endswith(f" ({told['verdict']})")
        assert ("none positive" in line) == (set(told["calls"].values()) == {"negative"})
    assert lines[11] == "" and lines[12].startswith("660 samples: ")
    assert not list(Path().glob("*calls*"))


def test_an_impossible_instance_is_no_all_clear(capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(run(f"{DECODE.replace('counts', 'all')} --json", capsys, code=1))["results"][11]
    assert (told["verdict"], told["status"], told["answer"]) == ("impossible", "INFEASIBLE", [])
    assert told["confidence"] is None and list(told["calls"].values()) == ["none"] * 60
    rows = [line.split(",") for line in _lines("calls.csv")]
    assert rows[12] == ["s11", *[""] * 60]
    error = run("score calls.csv calls.csv", capsys, code=2)
    assert "is empty: the sample is not called. Score the decoder's best answers instead" in error


def test_json_and_the_report_carry_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads(run(f"{DECODE.replace('counts', 'all')} --report report.csv --json", capsys, code=1))
    assert facts["decoder"] == "certified" and sum(facts["status"].values()) == 12
    assert (facts["calls"], facts["report"]) == ("calls.csv", "report.csv")
    with Path("report.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(facts["results"]) == 12
    for row, told in zip(rows, facts["results"], strict=True):
        assert row["plate"] == told["instance"]
        for key in ("verdict", "status", "words"):
            assert row[key] == told[key]
        called = {word: [name for name, own in told["calls"].items() if own == word] for word in ("positive", "none")}
        lists = {"positive": called["positive"], "no_call": called["none"], "retest": told["retests"]}
        for key, names in {**lists, "answer": told["answer"]}.items():
            assert row[key] == "; ".join(names)
        for key, rounding in (("confidence", 1e-6), ("confidence_at_most", 1e-6), ("fit", 0.01)):
            known = told[key] or float("nan")
            assert float(row[key] or "nan") == pytest.approx(known, rel=rounding, abs=1e-6, nan_ok=True)
        named = len([part for part in row["alternatives"].split("; ") if part])
        assert named == len(told["alternatives"]) + (told["alternatives_left_out"] > 0)
    verdicts = {row["verdict"] for row in rows}
    # Five plates are 90 % sure, give or take: how many plates were simulated in the time decides on their verdict.
    assert verdicts >= {"unsure", "impossible"} and verdicts & {"certain", "confident"}


def test_the_report_says_what_the_library_says(capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads(run(f"{GIVEN} --odds 300 --calibrate 0 --json", capsys))
    problem = qgt.Problem.load("problem.toml")
    y = torch.tensor([[float(cell) for cell in line.split(",")[1:]] for line in _lines("counts.csv")[1:]]).double()
    result = qgt.Certified(odds=300.0).bind(problem)(y)
    for i, told in enumerate(facts["results"]):
        assert told["confidence"] == pytest.approx(float(result.evidence.confidence[i]), abs=1e-6)
        assert told["status"] == qgt.Status(int(result.status[i])).name
        others = len(result.evidence.alternatives.of_instance(i).x) - 1
        assert len(told["alternatives"]) + told["alternatives_left_out"] == others
        calls = [problem.design.item_names[j] for j in result.x[i].nonzero().flatten().tolist()]
        assert told["answer"] == calls


def test_the_confidence_of_other_decoders_is_measured_or_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    given = f"{DECODE} --decoder maximum_neighborhood"
    measured = json.loads(run(f"{given} --json", capsys))["results"]
    assert all(0 <= told["confidence"] < 1 and 0 < told["fit"] <= 1 for told in measured)
    sure = [told["confidence"] > 0 for told in measured]  # an answer that the counts rule out has no probability at all
    assert any(sure) and not all(sure)
    facts = json.loads(run(f"{given} --calibrate 0 --json", capsys))
    assert {told["confidence"] for told in facts["results"]} == {None}
    assert {told["verdict"] for told in facts["results"]} == {"unsure"}
    out = run(f"{given} --calibrate 0", capsys)
    assert "verdict" not in out and qgt.Status.OK.meaning in out


def test_a_page_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(f"{GIVEN} --html page.html", capsys)
    page = Path("page.html").read_text("utf-8")
    assert "Wrote page.html: " in out
    assert page.startswith("<!DOCTYPE html>") and "11 plates of 60 samples" in page
    assert qgt.Problem.load("problem.toml").fingerprint in page


@pytest.mark.parametrize("prefix", ["", "gamp."])
def test_any_option_of_a_decoder_can_be_set(prefix: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = f"{GIVEN} --decoder gamp --json"
    settled = json.loads(run(given, capsys, code=None))["status"]
    cut = json.loads(run(f"{given} --set {prefix}iterations=1 --set {prefix}damping=0.5", capsys, code=None))["status"]
    assert settled["OK"] > 0 and cut["NOT_CONVERGED"] == 11


CHECK = "check counts.csv --problem problem.toml --certificate proofs.safetensors"


def test_proofs_are_written_and_checked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    run(f"{DECODE} --certificate proofs.safetensors --calibrate 0", capsys)
    out = run(f"{CHECK} --calls calls.csv", capsys)
    assert "The proofs of 11 of 11 plates hold." in out and "11: no other answer is more probable." in out
    assert "1/100 as probable is listed" in out and "The calls of 11 of 11 plates contradict no proof." in out
    holds = torch.tensor([False, *[True] * 9, False])
    monkeypatch.setattr("qgt.lab.answers.checking.claims_hold", lambda claims, result: holds)
    facts = json.loads(run(f"{CHECK} --json", capsys, code=1))
    assert (facts["instances"], facts["proved"], facts["not_proved"]) == (11, 9, ["s0", "s10"])
    assert facts["odds"] == 100 and facts["claims"] == {"optimal": 11, "listed": 11, "impossible": 0}
    out = run(CHECK, capsys, code=1)
    assert "The proofs of 9 of 11 plates hold." in out and "s10" in out and "does not show what it claims" in out


def test_calls_that_are_not_what_is_proved_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    run(f"{GIVEN} --answers calls.csv --certificate proofs.safetensors --calibrate 0", capsys)
    proved = _lines("calls.csv")
    header, rows = proved[0], [line.split(",") for line in proved[1:]]
    changed = [list(row) for row in rows]
    changed[2][1:] = ["1"] * 60
    changed[3][1:] = [""] * 60
    changed[4][5] = ""
    changed.reverse()  # rows are matched by name
    Path("calls.csv").write_text("\n".join([header, *map(",".join, changed)]))
    facts = json.loads(run(f"{CHECK} --calls calls.csv --json", capsys, code=1))
    assert facts["proved"] == 11 and set(facts["other_calls"]) == {"s2"}  # what is not called cannot differ
    assert "differ from the proved answer in" in facts["other_calls"]["s2"]
    out = run(f"{CHECK} --calls calls.csv", capsys, code=1)
    assert "The calls of 10 of 11 plates contradict no proof." in out
    Path("calls.csv").write_text("\n".join([header, *map(",".join, rows[:-1])]))
    assert "has no row for instance 's10'" in run(f"{CHECK} --calls calls.csv", capsys, code=2)
    rows[0][1] = "2"
    Path("calls.csv").write_text("\n".join([header, *map(",".join, rows)]))
    assert "row 2, column 2 holds 2; write 0, 1 or nothing" in run(f"{CHECK} --calls calls.csv", capsys, code=2)


def test_calls_of_impossible_counts_must_be_none(capsys: pytest.CaptureFixture[str]) -> None:
    run(f"{DECODE.replace('counts', 'all')} --certificate proofs.safetensors --calibrate 0", capsys, code=1)
    check = CHECK.replace("counts", "all")
    assert "1: no answer explains the counts." in run(f"{check} --calls calls.csv", capsys)
    lines = _lines("calls.csv")
    lines[-1] = "s11" + ",0" * 60
    Path("calls.csv").write_text("\n".join(lines))
    told = json.loads(run(f"{check} --calls calls.csv --json", capsys, code=1))
    assert told["other_calls"] == {"s11": "samples are called, but no answer explains the counts"}


@pytest.mark.parametrize("rows", [[0, 2, 1, 3, 4], [0, 1, 2, 3]])
def test_proofs_of_other_counts_are_refused(rows: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    run(f"{DECODE} --certificate proofs.safetensors --calibrate 0", capsys)
    lines = _lines("counts.csv")
    Path("counts.csv").write_text("\n".join(lines[row] for row in rows))
    assert "proofs.safetensors: is a certificate for other counts" in run(CHECK, capsys, code=2)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--decoder amp --odds 10", "odds=10.0 has no meaning for amp"),
        ("--decoder exact --certificate proofs", "certificate has no meaning for exact"),
        ("--decoder gamp --time-limit 1", "time_limit=1.0 has no meaning for gamp"),
        ("--decoder prevalence --set damping=1", "damping=1 has no meaning for prevalence: it has none."),
        ("--set gamp.damping=1", "is for gamp, but the decoder is certified"),
        ("--set odds=3 --odds 4", "gives odds twice"),
        ("--odds 0.5", "odds=0.5"),
        ("--report calls.csv", "named twice"),
        ("--html ./calls.csv", "named twice"),
        ("--defectives 3", "cannot use it"),
        ("--device tpu", "device='tpu' is not available here"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert words in run(f"{DECODE} {options}", capsys, code=2)
    assert not Path("calls.csv").exists()


def test_out_of_time_it_says_so_and_calls_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    facts = json.loads(run(f"{DECODE} --time-limit 1e-9 --json", capsys))
    assert facts["status"]["TIME_LIMIT"] == 11
    for told, line in zip(facts["results"], _lines("calls.csv")[1:], strict=True):
        assert (told["verdict"], told["confidence"]) == ("unsure", None)
        assert "Time ran out" in told["words"]
        if "before any possible answer" in told["words"]:
            assert line == told["instance"] + "," * 60


def test_progress_is_a_share_done(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(shell, "FIRST_LINE", 0.0)
    monkeypatch.setattr(shell, "LINE_EVERY", 0.001)
    assert main(f"{GIVEN} --calibrate 0.2".split()) in (0, 1)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "qgt: decoding: nothing done yet after 0 s"  # though no part is done
    assert all(
        re.fullmatch(r"qgt: decoding: (nothing done yet|\d+ of 11 done \(\d+ %\)) after \d s", line) for line in lines
    )


def test_a_plate_is_given_five_seconds_unless_somebody_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def spy(problem, y, names, decoder, **options):
        seen.append(getattr(decoder, "time_limit", "none"))
        raise ValueError("seen")  # nothing needs to be decoded

    monkeypatch.setattr(decoding, "decode_sheet", spy)
    for options in ("", " --time-limit 0", " --time-limit 2", " --set time_limit=3", " --decoder gamp"):
        assert main(f"{GIVEN} --calibrate 0.1{options}".split()) == 2
    assert seen == [5.0, None, 2.0, 3.0, "none"]


def test_a_suspect_plate_ends_with_code_1_and_calls_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    g = torch.Generator().manual_seed(0)
    problem, other = (
        qgt.Problem(
            qgt.Design.bernoulli(pools=24, items=40, generator=g), qgt.Bernoulli(0.05), qgt.SparseInteger(0.1, 1)
        )
        for _ in range(2)
    )
    problem.save("problem.toml")
    rows = [",".join(f"{count:g}" for count in row) for row in other.simulate(5, generator=g).y.tolist()]
    Path("counts.csv").write_text("\n".join([",".join(problem.design.pool_names), *rows]) + "\n")
    facts = json.loads(run(f"{DECODE} --by-sample lines.csv --json", capsys, code=1))
    suspect = [told for told in facts["results"] if told["verdict"] == "suspect"]
    assert suspect and all(set(told["calls"].values()) <= {"retest", "none"} for told in suspect)
    calls = {line.split(",")[0]: line.split(",")[1:] for line in _lines("calls.csv")}
    assert all(set(calls[told["instance"]]) == {""} for told in suspect)
    with Path("lines.csv").open(newline="", encoding="utf-8") as file:
        lines = [(row["counts"], row["sample"], row["call"]) for row in csv.DictReader(file)]
    assert lines == [(told["instance"], *each) for told in facts["results"] for each in told["calls"].items()]


def test_a_model_is_not_overwritten_by_its_own_calls(capsys: pytest.CaptureFixture[str]) -> None:
    problem = qgt.Problem.load("problem.toml")
    config = qgt.TrainConfig(instances=200, validation=100, batch=100, epochs=1)
    qgt.train(problem, qgt.MLP((4,)), config, generator=torch.Generator().manual_seed(0)).save("run")
    before = Path("run/model.safetensors").read_bytes()
    error = run("decode counts.csv --model run -o run/model.safetensors", capsys, code=2)
    assert "run/model.safetensors: is part of run, which this command reads" in error
    assert Path("run/model.safetensors").read_bytes() == before
    assert json.loads(run("decode counts.csv --model run --json", capsys))["decoder"] == "neural"
    assert "no meaning for a network" in run("decode counts.csv --model run --odds 3", capsys, code=2)


def _lines(name: str) -> list[str]:
    return Path(name).read_text().splitlines()


def test_the_help_names_every_decoder(capsys):
    assert main(["decode", "--help"]) == 0
    words = capsys.readouterr().out.replace(",", " ").split()
    assert [name for name in qgt.DECODERS if name not in words] == []


def test_without_simulations_it_says_what_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert any("not known" in note for note in json.loads(run(f"{GIVEN} --calibrate 0 --json", capsys))["notes"])
    assert "Nothing was simulated" in run(f"{GIVEN} --calibrate 0", capsys)
    assert "Nothing was simulated" not in run(f"{GIVEN} --calibrate 0.2", capsys)


def test_instances_without_calls_do_not_count_as_free_of_defects(capsys: pytest.CaptureFixture[str]) -> None:
    header, *rows = _lines("counts.csv")
    cells = rows[0].split(",")
    lost = ",".join([cells[0], "99", *cells[2:]])
    Path("lost.csv").write_text(f"{header}\n{lost}\n")
    said = run("decode lost.csv --problem problem.toml --calibrate 0", capsys, code=1)
    assert "60 samples: 60 no call." in said and "negative" not in said
    Path("lost.csv").write_text(f"{header}\n{lost}\n{rows[1]}\n")
    said = run("decode lost.csv --problem problem.toml --calibrate 0", capsys, code=1)
    assert "120 samples: " in said and ", 60 no call, " in said and " negative." in said


def test_an_attack_rate_in_place_of_the_problems(tmp_path, capsys):
    """The same share of positives, but households that are seeded more often; other priors have no such rate."""
    design = 'design = { kind = "column_regular", pools = 8, items = 12, weight = 4, seed = 1 }\n'
    families = 'prior = { kind = "households", size = 3, seed_rate = 0.1, attack_rate = 0.5 }\n'
    (tmp_path / "families.toml").write_text(design + families)
    (tmp_path / "alone.toml").write_text(design + 'prior = { kind = "bernoulli", rate = 0.1 }\n')
    (tmp_path / "counts.csv").write_text("0,0,0,0,0,0,0,0\n")
    given = ["decode", str(tmp_path / "counts.csv"), "--calibrate", "0", "--json", "--attack-rate", "25%"]
    assert main([*given, "--problem", str(tmp_path / "families.toml")]) == 0
    assert json.loads(capsys.readouterr().out)["results"][0]["answer"] == []
    assert main([*given, "--problem", str(tmp_path / "alone.toml")]) == 2
    assert "attack_rate=0.25 is for a prior of households" in capsys.readouterr().err
    assert main([*given[:-1], "1%", "--problem", str(tmp_path / "families.toml")]) == 2
    assert "give a higher attack rate" in capsys.readouterr().err


def test_the_pretrained_network_needs_nothing_else_and_says_where_it_was_not_trained(
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = f"{GIVEN} --decoder pretrained --set tries=2 --calibrate 0"
    out = " ".join(run(given, capsys).split())
    assert "s10: " in out and "outside the range of training" not in out
    few = qgt.Problem.load("problem.toml")
    qgt.Problem(few.design, qgt.Bernoulli(0.3), few.noise).save("problem.toml")
    out = " ".join(run(given, capsys).split())
    assert "may decode this problem poorly: rate=0.3 is outside the range of training, 0.005 to 0.15." in out


def test_a_first_sheet_says_how_far_its_confidence_was_checked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sheet continues the simulations of the one before; all at once nothing remains to be said."""
    monkeypatch.setattr("qgt.trust.confidence.AT_ONCE", 1e-6)
    monkeypatch.setattr("qgt.trust.confidence.PRECISE", 1e-9)
    said = [" ".join(run(f"{GIVEN} --decoder gamp --cache kept", capsys, None).split()) for _ in range(2)]
    found = [
        re.search(r"checked on (\d+) simulated plates so far: too few to call an answer certain", one) for one in said
    ]
    assert found[0] is not None and found[1] is not None and int(found[1][1]) > int(found[0][1])
    assert "The next sheet of this problem continues" in said[0]
    assert any(
        "checked on" in note
        for note in json.loads(run(f"{GIVEN} --decoder gamp --cache kept --json", capsys, None))["notes"]
    )
    assert "simulated plates so far" not in run(f"{GIVEN} --decoder gamp --calibrate 0.2", capsys, None)
