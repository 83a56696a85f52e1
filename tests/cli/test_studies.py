"""The verbs on studies: bench, figure."""

import json
import re
from pathlib import Path

import pytest

import qgt
from qgt.cli import main
from qgt.study import StudyCounts

STUDY = """
instances = 40
batch = 20
problem.design = { kind = "bernoulli", pools = 8, items = 12 }
problem.prior = { kind = "bernoulli", rate = 0.1 }
grid.design.pools = [6, 9]
decoders.AMP = { kind = "amp" }
decoders.exact = { kind = "exact", limit = true, instances = 20 }
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "study.toml").write_text(STUDY)
    return tmp_path


def run(command: str) -> int:
    return main(command.split())


def test_bench_and_figure(folder, capsys):
    assert run("bench study.toml --workers 1 --json") == 0
    out, err = capsys.readouterr()
    assert err == ""
    told = json.loads(out)
    assert told["database"] == "study.db"
    assert [(one["point"], one["decoder"], one["instances"]) for one in told["results"]] == [
        ({"design.pools": 6}, "AMP", 40),
        ({"design.pools": 6}, "exact", 20),
        ({"design.pools": 9}, "AMP", 40),
        ({"design.pools": 9}, "exact", 20),
    ]
    exact = told["results"][1]
    assert exact["status"] == {"PROVED": 20}
    assert 0 <= exact["f1"]["low"] <= exact["f1"]["mean"] <= exact["f1"]["high"] <= 1
    assert run("figure study.toml -o out/figure.svg --csv table.csv") == 0
    assert capsys.readouterr().out.strip() == "Wrote out/figure.svg and table.csv."
    assert len((folder / "table.csv").read_text().splitlines()) == 5
    before = (folder / "out" / "figure.svg").read_bytes()
    assert run("figure study.toml -o out/figure.svg --json") == 0
    assert json.loads(capsys.readouterr().out)["unfinished"] == 0
    assert (folder / "out" / "figure.svg").read_bytes() == before  # equal results, equal files
    for form, head in {"png": b"\x89PNG", "pdf": b"%PDF", "SVG": b"<?xml"}.items():
        assert run(f"figure study.toml -o all.{form} --metric all") == 0
        assert (folder / f"all.{form}").read_bytes().startswith(head)


def test_bench_prints_a_table_and_goes_on(folder, capsys):
    assert run("bench study.toml --workers 1 --instances 20 -o deep/other.db") == 0
    first = capsys.readouterr().out
    assert first.startswith("deep/other.db has all of study.toml.\n")
    assert "success rate" in first
    assert "100.0 %" in first
    assert run("figure study.toml --db deep/other.db -o figure.png") == 0
    assert "2 of 4 results are unfinished: 'qgt bench study.toml' goes on." in capsys.readouterr().out
    assert run("bench study.toml --workers 1 -o deep/other.db --json") == 0
    assert [one["instances"] for one in json.loads(capsys.readouterr().out)["results"]] == [40, 20, 40, 20]


def test_decoders_are_compared_with_the_limit_in_pairs(folder, capsys):
    assert run("bench study.toml --workers 1 --device auto --counts counts.json --json") == 0
    amp, exact = json.loads(capsys.readouterr().out)["results"][:2]
    assert exact["against_limit"] is None
    against = amp["against_limit"]
    assert against["instances"] == 20
    assert against["low"] <= against["mean"] <= against["high"] and 0 <= against["p_value"] <= 1
    counts = StudyCounts.load(folder / "counts.json")
    (pair,) = [one.paired for one in counts.pairs if one.point == {"design.pools": 6}]
    assert (pair.instances, pair.p_value) == (20, against["p_value"])
    assert run("bench study.toml --workers 1") == 0
    assert "success against the limit, points" in capsys.readouterr().out


def test_progress_is_told_now_and_then_where_there_is_no_terminal(folder, capsys, monkeypatch):
    monkeypatch.setattr("qgt.cli.shell.FIRST_LINE", 0.0)
    monkeypatch.setattr("qgt.cli.shell.LINE_EVERY", 0.001)
    assert run("bench study.toml --workers 1 --json") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)
    lines = err.splitlines()
    assert lines[0] == "qgt: starting; no batches done yet"
    done = [int(re.fullmatch(r"qgt: (\d) of 6 batches done: .+", line)[1]) for line in lines if "starting;" not in line]
    assert done and done == sorted(done)


def test_results_are_read_from_a_folder_that_stays_as_it_is(folder, capsys):
    assert run("bench study.toml --workers 1 -o kept/study.db") == 0
    assert run("figure study.toml --db kept/study.db -o figure.svg") == 0
    assert [path.name for path in (folder / "kept").iterdir()] == ["study.db"]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("bench", ["STUDY", "qgt bench --help"]),
        ("bench absent.toml", ["absent.toml", "No such file"]),
        ("bench study.toml -o study.toml", ["study.toml", "twice"]),
        ("bench study.toml --counts study.toml", ["study.toml", "twice"]),
        ("bench study.toml -o .", ["not a file"]),
        ("bench study.toml -o text.db", ["text.db", "give another path"]),
        ("bench study.toml --workers 0", ["--workers"]),
        ("bench study.toml --instances 0", ["--instances"]),
        ("bench study.toml --device tpu", ["device='tpu'"]),
        ("figure study.toml -o figure.svg", ["study.db", "no results yet", "qgt bench"]),
        ("figure study.toml -o figure.gif", ["figure.gif", ".svg"]),
        ("figure study.toml -o study.toml", ["study.toml", "twice"]),
        ("figure study.toml -o a.svg --csv a.svg", ["a.svg", "twice"]),
        ("figure study.toml -o a.svg --metric accuracy", ["metric='accuracy'", "all"]),
        ("figure study.toml --db text.db -o a.svg", ["text.db"]),
    ],
)
def test_what_is_refused(command, words, folder, capsys):
    (folder / "text.db").write_text("not a database" * 99)
    before = sorted(folder.rglob("*"))
    assert run(command) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("qgt: ")
    assert err.count("\n") == 1
    assert all(word in err for word in words)
    assert sorted(folder.rglob("*")) == before


def test_the_example_study_is_one():
    study = qgt.Study.load(Path(__file__).parents[2] / "examples" / "pools.toml")
    assert len(study.tasks) == 5 * 2 * 5
    assert any(entry.limit for entry in study.decoders)
