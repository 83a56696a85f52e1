"""`qgt follow-up` and `qgt decode --round`: from doubt to certainty in files, and every way to mix rounds up."""

import csv
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

import qgt
from qgt.cli import main
from qgt.files import tables

NOISE = qgt.SparseInteger(0.1, 1)
FOLLOW = "follow-up counts.csv --problem problem.toml"
DECODE = "decode counts.csv --problem problem.toml"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four instances with too few pools to be sure of most."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    g = torch.Generator().manual_seed(7)
    design = qgt.Design.bernoulli(pools=9, items=30, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.06), NOISE)
    problem.save(tmp_path / "problem.toml")
    x, y = problem.simulate(4, generator=g)
    write(tmp_path / "counts.csv", y, design.pool_names)
    write(tmp_path / "truth.csv", x, design.item_names)
    return tmp_path


def write(path: Path, values: torch.Tensor, columns: tuple[str, ...]) -> None:
    names = [f"s{i}" for i in range(len(values))]
    tables.write_table(path, values.tolist(), row_names=names, column_names=columns, corner="instance")


def run(command: str, capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    assert main(command.split()) == code
    out, err = capsys.readouterr()
    assert err == "" or code == 2
    return err if code == 2 else out


def pools_of(round_: str) -> list[dict[str, str]]:
    with Path(round_, "pools.csv").open() as stream:
        return list(csv.DictReader(stream))


def fill(round_: str, seed: int = 0) -> None:
    """Measure a round's pools of the truths."""
    g = torch.Generator().manual_seed(seed)
    truth = tables.read_table("truth.csv")
    status = {
        name: dict(zip(truth.column_names, row, strict=True))
        for name, row in zip(truth.row_names, truth.values, strict=True)
    }
    rows = pools_of(round_)
    lines = ["instance,pool,count"]
    for row in rows:
        items = row["items"].split()
        count = torch.tensor([[sum(status[row["instance"]][item] for item in items)]], dtype=torch.float64)
        report = NOISE.sample(count, torch.tensor([float(len(items))], dtype=torch.float64), generator=g)
        lines.append(f"{row['instance']},{row['pool']},{report.item():g}")
    Path(round_, "counts.csv").write_text("\n".join(lines) + "\n")


def test_rounds_lead_to_the_truth(capsys: pytest.CaptureFixture[str]) -> None:
    given = ""
    for number in range(2, 8):
        facts = json.loads(run(f"{FOLLOW}{given} -o r{number} --json", capsys))
        assert facts["round"] == number
        if not facts["proposed"]:
            break
        assert facts["remaining"] >= facts["pools"] >= len(facts["proposed"]) and not facts["stuck"]
        fill(f"r{number}", seed=number)
        given += f" --round r{number}"
    assert number > 2 and facts["sure"] == 4 and not Path(f"r{number}").exists()
    told = json.loads(run(f"{DECODE}{given} -o calls.csv --report report.csv --json", capsys))
    assert all(one["verdict"] == "certain" and one["confidence"] >= 0.99 for one in told["results"])
    assert tables.read_table("calls.csv").values == tables.read_table("truth.csv").values
    assert told["rounds"] == number - 1 and told["tests"] == sum(sum(one["rounds"]) for one in told["results"]) > 36
    assert all(len(one["rounds"]) >= 1 and one["rounds"][0] == 9 for one in told["results"])
    assert Path("report.csv").read_text().startswith("plate,verdict")


def test_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(f"{FOLLOW} -o r2 --pools 2", capsys)
    assert "Sure (99 % or more): 0 of 4 instances. Wrote r2, round 2:" in out and "Tests that remain in all" in out
    assert "after them." in out or "after it." in out
    fill("r2")
    assert "2 rounds: " in run(f"{DECODE} --round r2 --html page.html --certificate proofs.zip", capsys)
    page = Path("page.html").read_text()
    assert (
        "4 plates of 30 samples, counted in 9 pools and " in page
        and " more in a later round: " in page
        and "<dt>rounds</dt>" in page
    )
    with zipfile.ZipFile("proofs.zip") as archive:
        archive.extractall("proofs")
    folders = sorted(path for path in Path("proofs").iterdir() if path.is_dir())
    assert len(folders) == len({row["instance"] for row in pools_of("r2")}) + (len(folders) < 4)
    for folder in folders:
        files = f"{folder}/counts.csv --problem {folder}/problem.toml --certificate {folder}/proofs.safetensors"
        told = json.loads(run(f"check {files} --json", capsys))
        assert told["proved"] == told["instances"]


def test_limits_reach_the_pools(capsys: pytest.CaptureFixture[str]) -> None:
    free = json.loads(run(f"{FOLLOW} -o r2 --json", capsys))["proposed"]
    item = next(iter(free.values()))[0][0]
    command = f"{FOLLOW} -o other --pools 3 --at-most 2 --each-at-most 1 --used-up I{item + 1} --json"
    for pools in json.loads(run(command, capsys))["proposed"].values():
        members = [member for pool in pools for member in pool]
        assert max(map(len, pools)) <= 2 and len(set(members)) == len(members) and item not in members
    assert "used_up='X' is not an item" in run(f"{FOLLOW} -o third --used-up X", capsys, code=2)


def test_a_count_that_stays_empty_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    before = json.loads(run(f"{DECODE} --json --calibrate 0", capsys))
    run(f"{FOLLOW} -o r2", capsys)
    path = Path("r2/counts.csv")
    assert "r2/counts.csv: no count is filled in" in run(f"{DECODE} --round r2", capsys, code=2)
    fill("r2")
    first = pools_of("r2")[0]["instance"]
    path.write_text(re.sub(rf"(?m)^({first},.*,).*$", r"\1", path.read_text()))
    after = json.loads(run(f"{DECODE} --round r2 --json", capsys))
    both = zip(before["results"], after["results"], strict=True)
    assert [old["answer"] == new["answer"] for old, new in both if old["instance"] == first] == [True]


def test_rounds_contradict_no_sheet(capsys: pytest.CaptureFixture[str]) -> None:
    """What may lie beyond a rough list is no bound, and time did not run out."""
    sheet, longer = (
        json.loads(run(f"{DECODE} --json --calibrate 0 --odds {odds}", capsys))["results"] for odds in (100, 30_000)
    )
    run(f"{FOLLOW} -o r2", capsys)
    fill("r2")
    first, path = pools_of("r2")[0]["instance"], Path("r2/counts.csv")
    path.write_text(re.sub(rf"(?m)^({first},.*,).*$", r"\1", path.read_text()))
    told = json.loads(run(f"{DECODE} --round r2 --json", capsys))["results"]
    short, long, after = (next(one for one in results if one["instance"] == first) for results in (sheet, longer, told))
    assert after["confidence"] is None and "Time ran out" not in after["words"]
    # The list holds all answers within 100 of the best, and some of those within 30,000: each takes from the bound.
    assert long["confidence"] <= after["confidence_at_most"] <= short["confidence"]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_spreadsheet_may_save_a_rounds_counts(encoding: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(f"{FOLLOW} -o r2", capsys)
    fill("r2")
    plain = json.loads(run(f"{DECODE} --round r2 --json", capsys))
    path = Path("r2/counts.csv")
    path.write_bytes((path.read_text().replace(",", ";").replace("\n", "\r\n") + ";;\r\n").encode(encoding))
    assert json.loads(run(f"{DECODE} --round r2 --json", capsys)) == plain


def test_the_counts_of_a_later_round_are_not_those_of_the_first(capsys: pytest.CaptureFixture[str]) -> None:
    run(f"{FOLLOW} -o r2", capsys)
    fill("r2")
    for verb in ("decode", "follow-up -o r3"):
        said = run(f"{verb} r2/counts.csv --problem problem.toml", capsys, code=2)
        assert "r2/counts.csv: has the counts of a later round" in said and "--round r2" in said


def test_pools_that_were_mixed_up_in_all_instances_leave_none_sure(capsys: pytest.CaptureFixture[str]) -> None:
    """Most such instances look sure when each is looked at alone, and are wrong."""
    g = torch.Generator().manual_seed(0)
    design = qgt.Design.column_regular(pools=16, items=40, weight=5, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.05), qgt.SparseInteger(0.05, 1))
    problem.save("problem.toml")
    y = problem.simulate(20, generator=g).y
    write(Path("counts.csv"), y, design.pool_names)
    honest = json.loads(run(f"{FOLLOW} -o r2 --json", capsys))
    assert honest["sure"] >= 15 and not any("do not look like the model" in note for note in honest["notes"])
    write(Path("counts.csv"), y.flip(1), design.pool_names)
    told = json.loads(run(f"{FOLLOW} -o mixed --json --time-limit 2", capsys))
    assert told["sure"] == 0 and "do not look like the model" in told["notes"][0]


def test_suspect_counts_are_measured_again(capsys: pytest.CaptureFixture[str]) -> None:
    sheet = tables.read_table("counts.csv")
    y = torch.tensor(sheet.values)
    y[1, 4] += 6
    write(Path("counts.csv"), y, sheet.column_names)
    out = run(f"{FOLLOW} -o r2", capsys)
    assert "s1" in out and "again: the counts do not fit the model" in out
    pools = {(row["instance"], row["pool"]): row["items"] for row in pools_of("r2")}
    problem = qgt.Problem.load("problem.toml")
    fifth = " ".join(problem.design.item_names[item] for item in problem.design.members(4).tolist())
    assert fifth in [items for (name, _), items in pools.items() if name == "s1"]
    fill("r2")
    y[1, 4] = torch.nan  # the repeat contradicts it: leave it out
    lines = Path("counts.csv").read_text().splitlines()
    cells = lines[2].split(",")
    cells[5] = ""
    Path("counts.csv").write_text("\n".join([*lines[:2], ",".join(cells), *lines[3:]]) + "\n")
    told = json.loads(run(f"{DECODE} --round r2 --json", capsys))["results"][1]
    assert told["verdict"] not in ("impossible", "suspect")


def test_what_does_not_belong_together_is_refused_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    run(f"{FOLLOW} -o r2 --pools 1", capsys)
    fill("r2")
    run(f"{FOLLOW} --round r2 -o r3 --pools 1", capsys)
    fill("r3")
    assert "r2: is given twice" in run(f"{DECODE} --round r2 --round r2", capsys, code=2)
    assert "r3: is round 3, but stands where round 2 should" in run(f"{DECODE} --round r3", capsys, code=2)
    assert "r3: is round 3" in run(f"{DECODE} --round r3 --round r2", capsys, code=2)
    run(f"{FOLLOW} -o again --pools 2", capsys)
    fill("again")
    assert "r3: does not follow" in run(f"{DECODE} --round again --round r3", capsys, code=2)
    assert "r2: holds a round already" in run(f"{FOLLOW} -o r2", capsys, code=2)
    Path("plan").mkdir()
    Path("plan", "counts.csv").write_text("filled in by hand\n")
    assert "plan: is there already, and not empty" in run(f"{FOLLOW} -o plan", capsys, code=2)
    assert Path("plan", "counts.csv").read_text() == "filled in by hand\n"
    assert ".: has no round.json" in run(f"{DECODE} --round .", capsys, code=2)

    swapped = Path("counts.csv").read_text().replace("s0,", "x,").replace("s1,", "s0,").replace("x,", "s1,")
    Path("swapped.csv").write_text(swapped)
    names = [row["instance"] for row in pools_of("r2")]
    said = run(f"{DECODE.replace('counts', 'swapped')} --round r2", capsys, code=2)
    assert f"the pools of '{names[0]}' were chosen by other counts" in said

    design = qgt.Design.bernoulli(pools=9, items=30, generator=torch.Generator().manual_seed(8))
    qgt.Problem(design, qgt.Bernoulli(0.06), NOISE).save("other.toml")
    assert "r2: was made for another design" in run("decode counts.csv --problem other.toml --round r2", capsys, code=2)
    assert "odds has no meaning together with --round" in run(f"{DECODE} --round r2 --odds 9", capsys, code=2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace("count\n", "number\n", 1), "row 1 is not 'instance,pool,count'"),
        (lambda text: text + text.splitlines()[1] + "\n", "a second time"),
        (lambda text: "\n".join(text.splitlines()[:-1]) + "\n", "has no row for pool"),
        (lambda text: text + "s9,R2-1,3\n", "which this round has not"),
        (lambda text: re.sub(r"(R2-\w+-1,)", r"\1many", text), "row 2, column 3"),
        (lambda text: re.sub(r"R2-\w+-1,", "R2-2222-1,", text), "which is a pool of proposal 2222, but the round is"),
        (lambda text: text + "s0,R2-1\n", "has 2 cells"),
        (lambda text: re.sub(r"(,\d+)\n", r"\1,5\n", text, count=1), "has 4 cells"),
    ],
)  # fmt: skip
def test_faults_in_counts_are_named(change, said, capsys: pytest.CaptureFixture[str]) -> None:
    run(f"{FOLLOW} -o r2 --pools 1", capsys)
    fill("r2")
    path = Path("r2/counts.csv")
    path.write_text(change(path.read_text()))
    assert said in run(f"{DECODE} --round r2", capsys, code=2)


def test_a_kill_leaves_a_whole_round_or_none() -> None:
    """Killed as each file is put in place: the next call writes the round."""
    kill = f"""
import os, pathlib, sys
from qgt.cli import main
replace, left = pathlib.Path.replace, []
def counted(self, target):
    if not left[0]:
        os._exit(9)
    left[0] -= 1
    return replace(self, target)
pathlib.Path.replace = counted
for files in map(int, sys.argv[1:]):  # each in a process of its own, which has imported everything
    left[:] = [files]
    if not (child := os.fork()):
        os._exit(main(f'{FOLLOW} -o r{{files}} --pools 1'.split()))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
"""
    killed = subprocess.run(
        [sys.executable, "-c", kill, "0", "2"],  # before the first file is in place, and before the record is
        env={**os.environ, "PYTHONPATH": str(Path(qgt.__file__).parents[1])},
        capture_output=True,
        timeout=120,
    )
    assert killed.returncode == 0, killed.stderr
    for files in (0, 2):
        folder = Path(f"r{files}")
        assert not (folder / "round.json").exists() and (folder / "counts.csv").exists() == (files == 2)
    assert main(f"{FOLLOW} -o r2 --pools 1".split()) == 0
    fill("r2")
    assert main(f"{DECODE} --round r2".split()) == 0
