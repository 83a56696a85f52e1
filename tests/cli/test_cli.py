"""The command: round trips through files, and one clear line for every kind of bad input."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import qgt
from qgt.cli import main
from qgt.cli.verbs import COMMAND
from qgt.files import tables as table

DESIGN = "pool,A,B,C,D\nP1,1,1,0,0\nP2,0,1,1,0\nP3,0,0,1,1\n"
COUNTS = "instance,P1,P2,P3\ns1,1,1,0\ns2,0,1,1\n"
TRUTH = "instance,A,B,C,D\ns1,0,1,0,0\ns2,0,0,1,0\n"
PROBLEM = """
design = { file = "design.csv" }
prior = { kind = "bernoulli", rate = 0.1 }
noise = { kind = "sparse_integer", rate = 0.1, bound = 1 }
"""
DECODE = "decode counts.csv --problem problem.toml --decoder maximum_neighborhood --answers out.csv"
SIMULATE = "simulate problem.toml --instances 5 -o out.csv"
SCORE = "score truth.csv calls.csv"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with one good file of each kind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    for name, text in {"design": DESIGN, "counts": COUNTS, "truth": TRUTH, "calls": TRUTH}.items():
        (tmp_path / f"{name}.csv").write_text(text)
    (tmp_path / "problem.toml").write_text(PROBLEM)
    return tmp_path


@pytest.fixture
def facts(capsys):
    """Run a command that must succeed and return its JSON."""

    def run(command: str, code: int | None = 0) -> dict:
        assert main([*command.split(), "--json"]) in ((0, 1) if code is None else (code,))
        out, err = capsys.readouterr()
        assert err == ""
        assert out.count("\n") == 1
        return json.loads(out)

    return run


@pytest.fixture
def refused(folder, capsys, unchecked):
    """Run a command that must fail with one line that holds the words, and without leaving any file."""
    return lambda command, *words: _refused(folder, capsys, command, words)


def _refused(folder, capsys, command, words):
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert main(command.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("qgt: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    assert len(err) <= 1001
    for word in words:
        assert word in err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


# ---------------------------------------------------------------- round trips


def takes_counts_with_errors(decoder: type[qgt.Decoder]) -> bool:
    design = qgt.Design.from_rows(["110", "011"])
    return decoder().supports(qgt.Problem(design, qgt.Bernoulli(0.1), qgt.SparseInteger(0.1, 1))) is None


@pytest.mark.parametrize("decoder", [name for name, kind in qgt.DECODERS.items() if takes_counts_with_errors(kind)])
def test_round_trip(decoder, facts):
    items = 12 if decoder == "exhaustive" else 60
    made = facts(f"design column_regular --pools 35 --items {items} --weight 8 --seed 3 -o design.csv --force")
    assert made == {
        "design": "design.csv",
        "kind": "column_regular",
        "seed": 3,
        "pools": 35,
        "items": items,
        "transfers": items * 8,
        "pool_sizes": [items * 8 // 35, items * 8 // 35 + 1],
        "item_degrees": [8, 8],
    }
    drawn = facts("simulate problem.toml --instances 50 --seed 1 -o counts.csv --truth truth.csv")
    assert (drawn["instances"], drawn["pools"], drawn["items"]) == (50, 35, items)
    problem, x = qgt.Problem.load("problem.toml"), table.read_table("truth.csv")
    assert drawn["fingerprint"] == problem.fingerprint
    assert drawn["mean_defectives"] == sum(map(sum, x.values)) / 50
    done = facts(f"decode counts.csv --problem problem.toml --decoder {decoder} --answers answers.csv", code=None)
    assert done["instances"] == sum(done["status"].values()) == 50
    assert done["fingerprint"] == problem.fingerprint
    y = torch.tensor(table.read_table("counts.csv").values, dtype=torch.float64)
    result = qgt.DECODERS[decoder]().bind(problem)(y)
    assert table.read_table("answers.csv").values == result.x.tolist()
    assert done["status"] == {status.name: int((result.status == status).sum()) for status in qgt.Status}
    assert sum(done["called"].values()) == 50 * items
    scored = facts("score truth.csv answers.csv")
    assert scored["instances"] == 50
    assert scored["items"] == items
    for metric in ("success_rate", "f1", "precision", "recall", "mse"):
        assert 0 <= scored[metric]["low"] <= scored[metric]["mean"] <= scored[metric]["high"] <= 1


def test_files_carry_the_names(facts):
    facts("simulate problem.toml --instances 3 -o counts.csv --truth truth.csv")
    counts, truth = table.read_table("counts.csv"), table.read_table("truth.csv")
    assert counts.column_names == ("P1", "P2", "P3")
    assert truth.column_names == ("A", "B", "C", "D")
    assert counts.row_names == truth.row_names == ("1", "2", "3")
    assert Path("counts.csv").read_text().startswith("instance,P1,")
    assert Path("truth.csv").read_text().startswith("instance,A,")


def test_calls_keep_the_instance_names(facts):
    facts(DECODE)
    calls = table.read_table("out.csv")
    assert calls.row_names == ("s1", "s2")
    assert calls.column_names == ("A", "B", "C", "D")


def test_counts_without_names_are_taken_in_order(facts, folder):
    facts(DECODE)
    named = table.read_table("out.csv")
    (folder / "counts.csv").write_text("1,1,0\n0,1,1\n")
    facts(DECODE)
    assert table.read_table("out.csv").values == named.values
    assert table.read_table("out.csv").row_names == ("1", "2")


def test_counts_are_reordered_by_pool_name(facts, folder):
    facts(DECODE)
    straight = Path("out.csv").read_text()
    (folder / "counts.csv").write_text("instance,P3,P1,P2\ns1,0,1,1\ns2,1,0,1\n")
    facts(DECODE)
    assert Path("out.csv").read_text() == straight


def test_calls_are_reordered_by_item_and_instance_name(facts, folder):
    (folder / "calls.csv").write_text("instance,D,C,B,A\ns2,0,1,0,0\ns1,0,0,1,0\n")
    assert facts(SCORE)["success_rate"]["mean"] == 1.0


def test_score_without_names_and_with_known_values(facts, folder):
    (folder / "truth.csv").write_text("1,0,0,0\n0,0,0,0\n")
    (folder / "calls.csv").write_text("1,1,0,0\n0,0,0,0\n")
    scored = facts(SCORE)
    assert scored["success_rate"]["mean"] == 0.5
    assert scored["precision"]["mean"] == 0.75
    assert scored["recall"]["mean"] == 1.0
    assert scored["mse"]["mean"] == 0.125


def test_defectives_are_passed_on(facts):
    assert {len(told["answer"]) for told in facts(DECODE + " --defectives 3")["results"]} == {3}


def test_noninteger_counts_under_integer_noise_are_infeasible(facts, folder):
    (folder / "counts.csv").write_text("instance,P1,P2,P3\ns1,0.5,1,0\ns2,0,1,1\ns3,0,1,40\n")
    found = facts(DECODE, code=1)
    assert (found["status"]["INFEASIBLE"], found["status"]["OK"]) == (2, 1)
    assert "not whole numbers: round them, or use a noise for real-valued counts" in found["results"][0]["words"]
    assert Path("out.csv").read_text().splitlines()[1::2] == ["s1,,,,", "s3,,,,"]


@pytest.mark.parametrize("name", ["design.csv", "counts.csv", "truth.csv", "problem.toml"])
def test_byte_order_mark_changes_nothing(name, facts, folder):
    plain = facts(DECODE), facts(SCORE), Path("out.csv").read_text()
    (folder / name).write_bytes(b"\xef\xbb\xbf" + (folder / name).read_bytes())
    assert (facts(DECODE), facts(SCORE), Path("out.csv").read_text()) == plain


@pytest.mark.parametrize(
    "design",
    [
        'matrix = ["1100", "0110", "0011"]',
        'matrix = ["1100", "0110", "0011"]\npool_names = ["x", "y", "z"]\nitem_names = ["a", "b", "c", "d"]',
        'file = "design.csv"',
        'kind = "bernoulli"\npools = 3\nitems = 4\nseed = 7',
        'kind = "bernoulli"\npools = 3\nitems = 4\nprobability = 0.3\nseed = 7',
        'kind = "column_regular"\npools = 3\nitems = 4\nweight = 2\nseed = 7',
        'kind = "doubly_regular"\npools = 4\nitems = 4\nweight = 2\nseed = 7',
    ],
)
def test_problem_file_forms(design, facts, folder):
    (folder / "problem.toml").write_text(f'[design]\n{design}\n[prior]\nkind = "fixed_weight"\ndefectives = 2\n')
    drawn = facts("simulate problem.toml --instances 4 -o counts.csv --truth truth.csv")
    assert drawn["mean_defectives"] == 2.0
    assert facts(DECODE)["status"]["OK"] == 4
    assert facts("score truth.csv out.csv")["items"] == 4


@pytest.mark.parametrize(
    ("command", "recipe"),
    [
        ("bernoulli", {}),
        ("bernoulli --probability 0.3", {"probability": 0.3}),
        ("column_regular --weight 3", {"weight": 3}),
        ("doubly_regular --weight 5", {"weight": 5}),
    ],
)
def test_design_is_the_recipe_of_a_problem_file(command, recipe, facts):
    facts(f"design {command} --pools 5 --items 9 --seed 7 -o design.csv --force")
    spec = {"kind": command.split()[0], "pools": 5, "items": 9, "seed": 7, **recipe}
    problem = qgt.Problem.from_spec({"design": spec, "prior": {"kind": "bernoulli", "rate": 0.1}})
    assert qgt.Design.from_csv("design.csv").rows == problem.design.rows


@pytest.mark.parametrize("kind", ["steiner_triples", "kirkman_triples"])
def test_a_design_by_a_rule_takes_no_seed(kind, facts):
    made = facts(f"design {kind} --pools 45 --items 105 -o design.csv --force")
    assert "seed" not in made
    assert made["item_degrees"] == [3, 3]
    assert qgt.Design.from_csv("design.csv").rows == getattr(qgt.Design, kind)(pools=45, items=105).rows


def test_a_large_sparse_design_is_written_as_lists(facts, folder, capsys):
    command = "design column_regular --pools 200 --items 2000 --weight 3 -o design.csv --force"
    made = facts(command)
    assert Path("design.csv").read_text().startswith("pool,items\n,I1 I2 ")
    drawn = facts("simulate problem.toml --instances 2 -o counts.csv")
    assert (made["transfers"], drawn["pools"], drawn["items"]) == (6000, 200, 2000)
    assert main(command.split()) == 0
    assert "a line per pool with its items." in capsys.readouterr().out


def test_names_that_begin_like_formulas_are_escaped_in_every_file_and_matched_again(facts, folder):
    (folder / "design.csv").write_text("pool,=A,+B\n@P,1,1\n-1,0,1\n")
    facts("simulate problem.toml --instances 3 -o counts.csv --truth truth.csv")
    assert Path("counts.csv").read_text().startswith("instance,'@P,'-1\n1,")
    text = Path("counts.csv").read_text().replace("\n1,", "\n=cmd,").replace("\n2,", "\n'=2,")
    (folder / "counts.csv").write_text(text)
    facts(DECODE)
    assert Path("out.csv").read_text().startswith("instance,'=A,'+B\n'=cmd,")
    assert table.read_table("out.csv").row_names == ("=cmd", "=2", "3")


def test_problem_in_another_folder_finds_its_design(facts, folder):
    (folder / "sub").mkdir()
    (folder / "sub" / "problem.toml").write_text(PROBLEM.replace("design.csv", "../design.csv"))
    assert facts("simulate sub/problem.toml --instances 1 -o new/deep/counts.csv")["pools"] == 3
    assert (folder / "new" / "deep" / "counts.csv").exists()


def test_seeds(facts):
    texts = []
    for seed in (1, 1, 2):
        facts(f"simulate problem.toml --instances 20 --seed {seed} -o out.csv")
        texts.append(Path("out.csv").read_text())
    assert texts[0] == texts[1] != texts[2]


def test_instances_do_not_repeat_the_design_of_the_same_seed(facts, folder):
    # From one stream, x (below 0.1) would be a subset of the design (below 0.5), row by row.
    facts("design bernoulli --pools 30 --items 100 --seed 5 -o design.csv --force")
    facts("simulate problem.toml --instances 30 --seed 5 -o counts.csv --truth truth.csv")
    x = torch.tensor(table.read_table("truth.csv").values)
    assert bool((x > qgt.Design.from_csv("design.csv").matrix).any())


# ---------------------------------------------------------------- what people read


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            "design doubly_regular --pools 5 --items 20 --weight 3 -o out.csv",
            ["out.csv", "transfers", "60", "12-12", "3-3"],
        ),
        (SIMULATE + " --truth t.csv", ["out.csv and t.csv", "mean defectives"]),
        (DECODE, ["out.csv", "unsure", "8 samples: 8 test again."]),
        (DECODE + " --calibrate 0", ["out.csv", "OK", qgt.Status.OK.meaning, "no call"]),
        (SCORE, ["2 instances of 4 items", "success rate", "f1", "precision", "recall", "mse", "1.0000"]),
    ],
)
def test_talk(command, words, capsys):
    assert main(command.split()) == 0
    out, err = capsys.readouterr()
    assert err == ""
    for word in words:
        assert word in out


def test_talk_leaves_file_names_alone(capsys):
    name = "[bold]" + "long" * 40 + ":smile:.csv"
    assert main([*SIMULATE.split()[:-1], name]) == 0
    assert name in capsys.readouterr().out


@pytest.mark.parametrize("command", ["", "--help"])
def test_help_documents_verbs_and_exit_codes(command, capsys):
    assert main(command.split()) == 0
    out = capsys.readouterr().out
    for word in ("design", "simulate", "decode", "score", "0    done", "1    ", "2    bad input", "130  interrupted"):
        assert word in out


@pytest.mark.parametrize("verb", COMMAND.commands)
def test_every_verb_has_an_example(verb, capsys):
    assert main([verb, "--help"]) == 0
    assert re.search(rf"Examples?:\n    qgt {verb}\b", capsys.readouterr().out)


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"qgt {qgt.__version__}\n"


@pytest.mark.parametrize("command", [["--help"], ["decode", "--help"], ["--version"]])
def test_help_does_not_import_torch(command):
    script = f"import sys; from qgt.cli import main; assert main({command}) == 0; assert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_module_runs_and_returns_the_exit_code():
    done = subprocess.run([sys.executable, "-m", "qgt", "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "Usage: qgt " in done.stdout
    done = subprocess.run([sys.executable, "-m", "qgt", "nothing"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "qgt: No such command 'nothing'; see 'qgt --help'.\n"


def test_arguments_default_to_the_command_line(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["qgt", "--version"])
    assert main() == 0
    assert capsys.readouterr().out.startswith("qgt ")


# ---------------------------------------------------------------- failures


def test_interrupt(monkeypatch, capsys):
    monkeypatch.setattr(table, "read_table", _raising(KeyboardInterrupt()))
    assert main(SCORE.split()) == 130
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("bug", [ZeroDivisionError(), RuntimeError("a bug"), TypeError("a bug")])
def test_bugs_keep_their_traceback(bug, monkeypatch):
    monkeypatch.setattr(table, "read_table", _raising(bug))
    with pytest.raises(type(bug)):
        main(SCORE.split())


def test_two_files_are_written_or_none(refused, monkeypatch):
    write, calls = table.write_table, []

    def full(path, values, *, row_names, column_names, corner):
        calls.append(path)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        write(path, values, row_names=row_names, column_names=column_names, corner=corner)

    monkeypatch.setattr(table, "write_table", full)
    refused(SIMULATE + " --truth t.csv", "t.csv", "No space left on device")
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("command", "outputs"),
    [
        ("design bernoulli --pools 3 --items 4 -o out.csv", 1),
        (SIMULATE + " --truth t.csv", 2),
        ("decode counts.csv --problem problem.toml -o out.csv --report report.csv --certificate proofs", 3),
    ],
)
def test_each_output_has_one_temporary_file(command, outputs, facts, monkeypatch):
    opened = []
    make = os.open
    monkeypatch.setenv("QGT_CACHE", "off")  # which is no output
    monkeypatch.setattr(os, "open", lambda path, *rest, **more: opened.append(path) or make(path, *rest, **more))
    facts(command)
    assert len([path for path in opened if Path(path).name.startswith(".")]) == outputs


def test_message_is_one_short_line_whatever_it_quotes(refused, folder):
    (folder / "counts.csv").write_text('instance,P1,P2,P3\ns1,1,1,"a\n' + "b" * 100_000 + '"\n')
    refused(DECODE, "row 2, column 4")


def _raising(error):
    def fail(path, **_):
        raise error

    return fail


@pytest.mark.parametrize("separator", [";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_tables_as_spreadsheets_save_them_give_the_same_answers(separator, encoding, facts, folder):
    before = facts(DECODE), facts(SCORE), (folder / "out.csv").read_bytes()
    for name in ("design", "counts", "truth", "calls"):
        path = folder / f"{name}.csv"
        path.write_bytes(path.read_text().replace(",", separator).replace("\n", "\r\n").encode(encoding))
    after = facts(DECODE), facts(SCORE), (folder / "out.csv").read_bytes()
    assert after[1:] == before[1:]
    assert after[0]["results"] == before[0]["results"]
    assert after[0]["fingerprint"] == before[0]["fingerprint"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("pool,A,B\nP1,1,0\nP2,1\n", ["row 3", "2 cells"]),
        ("pool,A,B\nP1,1,0\n\nP2,1,0\n", ["row 3"]),
        ("", ["empty"]),
        ("\n\n", ["empty"]),
        ("pool,A,B\n", ["no numbers"]),
        ("pool,A,B\nP1,1,0\nP2,2,1\n", ["row 3, column 2", "2"]),
        ("pool,A,B\nP1,1,0.5\n", ["row 2, column 3", "0.5"]),
        ("1,0\n0,-1\n", ["row 2, column 2", "-1"]),
        ("pool,A,A\nP1,1,0\n", ["columns 2 and 3", "'A'"]),
        ("pool,A,B\nP1,1,0\nP1,0,1\n", ["rows 2 and 3", "'P1'"]),
        ("pool,A,\nP1,1,0\n", ["column 3"]),
        ("pool;A;B\nP1;1;0,5\n", ["row 2, column 3", "0.5"]),
        ("pool\tA\tB\nP1\t1\n", ["row 2 has 2 cells"]),
        ("pool,A,B\nP1,1,x\n", ["row 2, column 3", "'x'"]),
        ("pool,A,B\nP1,1,\n", ["row 2, column 3", "''"]),
        ("pool,A,B\nP1,1,nan\n", ["row 2, column 3", "'nan'"]),
        (b"\xff\xfe\x00garbage\x80", ["UTF-8"]),
        (b"\x00\x01\x02", ["NUL"]),
        (b'pool,A\n"P1,1\n', ["quotes"]),
    ],
)
def test_bad_design_file(content, words, refused, folder):
    (folder / "design.csv").write_bytes(content.encode() if isinstance(content, str) else content)
    refused(DECODE, "problem.toml", "design.csv", *words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("instance,P1,P2,P3\ns1,1,1\n", ["row 2", "3 cells"]),
        ("", ["empty"]),
        ("instance,P1,P2,P3\n", ["no numbers"]),
        ("instance;P1;P2;P3\ns1;1,5;1.5;0\n", ["row 2, column 3", "'1.5'", "decimal comma"]),
        ("instance,P1,P2,P3\ns1,1,5,1,0\n", ["row 2", "5 cells", "decimal comma"]),
        ('instance,P1,P2,P3\ns1,"1,500",1,0\n', ["row 2, column 2", "'1,500'", "groups digits"]),
        ("1,1\n", ["2 columns", "3 pools"]),
        ("1,1,0,0\n", ["4 columns", "3 pools"]),
        ("instance,P1,P2\ns1,1,1\n", ["no column", "'P3'"]),
        ("instance,P1,P2,P3,P4\ns1,1,1,0,0\n", ["column 5", "'P4'"]),
        ("P1,X,P3\n1,1,0\n", ["column 2", "'X'"]),
        ("instance,P1,P2,P2\ns1,1,1,0\n", ["columns 3 and 4", "'P2'"]),
        ("instance,P1,P2,P3\ns1,1,1,0\ns1,1,1,0\n", ["rows 2 and 3", "'s1'"]),
        ("1,1,0\n1,-inf,0\n", ["row 2, column 2", "'-inf'"]),
        ("instance,P1,P2,P3\ns1,1,many,0\n", ["row 2, column 3", "'many'"]),
        ("instance,P1,P2,P3\ns1,1,1_0,0\n", ["row 2, column 3", "'1_0'"]),
        (b"\x89PNG\r\n\x1a\n\x00\x00", ["UTF-8"]),
    ],
)
def test_bad_counts_file(content, words, refused, folder):
    (folder / "counts.csv").write_bytes(content.encode() if isinstance(content, str) else content)
    refused(DECODE, "counts.csv", *words)


@pytest.mark.parametrize("name", ["truth.csv", "calls.csv"])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("instance,A,B,C,D\ns1,0,1,0,0\ns2,0,0,2,0\n", ["row 3, column 4", "2"]),
        ("0,1,0,0\n0,0,0.5,0\n", ["row 2, column 3", "0.5"]),
        ("instance,A,B,C,D\ns1,0,1,0\n", ["row 2"]),
        ("", ["empty"]),
        ("instance;A;B;C;D\ns1;0;1;0;0,5\ns2;0;0;0;0\n", ["row 2, column 5", "0.5"]),
        ("instance,A,B,C,D\ns1,0,inf,0,0\n", ["row 2, column 3", "'inf'"]),
        ("instance,A,B,C,C\ns1,0,1,0,0\n", ["columns 4 and 5"]),
    ],
)
def test_bad_statuses(name, content, words, refused, folder):
    (folder / name).write_text(content)
    refused(SCORE, name, *words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("instance,A,B,C,X\ns1,0,1,0,0\ns2,0,0,1,0\n", ["column 5", "'X'", "truth.csv"]),
        ("instance,A,B,C\ns1,0,1,0\ns2,0,0,1\n", ["no column", "'D'", "truth.csv"]),
        ("instance,A,B,C,D\ns1,0,1,0,0\ns3,0,0,1,0\n", ["row 3", "'s3'", "truth.csv"]),
        ("instance,A,B,C,D\ns1,0,1,0,0\n", ["no row", "'s2'", "truth.csv"]),
        ("0,1,0,0\n", ["1 rows", "2 instances", "truth.csv"]),
        ("0,1,0\n0,0,1\n", ["3 columns", "4 items", "truth.csv"]),
    ],
)
def test_calls_that_do_not_match_the_truth(content, words, refused, folder):
    (folder / "calls.csv").write_text(content)
    refused(SCORE, "calls.csv", *words)


GOOD = {"design": 'matrix = ["11", "01"]', "prior": 'kind = "bernoulli"\nrate = 0.1', "noise": 'kind = "noiseless"'}


@pytest.mark.parametrize(
    ("part", "text", "words"),
    [
        ("prior", 'kind = "bernoulli"\nrate = 1.5', ["prior", "rate=1.5", "0 to 1"]),
        ("prior", 'kind = "bernoulli"\nrate = -0.1', ["prior", "rate=-0.1"]),
        ("prior", 'kind = "bernoulli"\nrate = nan', ["prior", "rate=nan"]),
        ("prior", 'kind = "bernoulli"\nrate = [0.1, 2]', ["prior", "rate[1]=2"]),
        ("prior", 'kind = "bernoulli"\nrate = [0.1, 0.1, 0.1]', ["rate", "3 numbers", "2 items"]),
        ("prior", 'kind = "bernoulli"\nrate = "high"', ["prior", "rate='high'"]),
        ("prior", 'kind = "bernoulli"\nrate = true', ["prior", "rate=True"]),
        ("prior", 'kind = "bernoulli"\nrates = 0.1', ["prior.rates", "not a known key"]),
        ("prior", 'kind = "bernoulli"', ["prior.rate", "missing"]),
        ("prior", 'kind = "gaussian"', ["prior.kind='gaussian'", "bernoulli"]),
        ("prior", "kind = [1]", ["prior.kind=[1]"]),
        ("prior", "rate = 0.1", ["prior.kind"]),
        ("prior", 'kind = "fixed_weight"\ndefectives = -1', ["prior", "defectives=-1"]),
        ("prior", 'kind = "fixed_weight"\ndefectives = 3', ["defectives=3", "2 items"]),
        ("prior", 'kind = "fixed_weight"\ndefectives = 1.5', ["prior", "defectives=1.5"]),
        ("prior", 'kind = "households"\nsize = 0\nseed_rate = 0.1\nattack_rate = 0.1', ["prior", "size=0"]),
        ("noise", 'kind = "sparse_integer"\nrate = 7\nbound = 1', ["noise", "rate=7"]),
        ("noise", 'kind = "sparse_integer"\nrate = 0.1\nbound = -1', ["noise", "bound=-1"]),
        ("noise", 'kind = "sparse_integer"\nrate = 0.1\nbound = "1"', ["noise", "bound='1'"]),
        ("noise", 'kind = "rounded_gaussian"\nsigma = 0', ["noise", "sigma=0"]),
        ("noise", 'kind = "rounded_gaussian"\nsigma = inf', ["noise", "sigma=inf"]),
        ("design", 'matrix = ["11", "0"]', ["design", "row 2", "'0'"]),
        ("design", 'matrix = ["11", "02"]', ["design", "row 2", "'02'"]),
        ("design", "matrix = [[1, 1], [0, 1]]", ["design", "row 1"]),
        ("design", "matrix = []", ["design", "empty"]),
        ("design", "matrix = 3", ["design", "matrix=3"]),
        ("design", 'matrix = ["11"]\nitem_names = ["a", "a"]', ["design", "item_names"]),
        ("design", 'matrix = ["11"]\nitem_names = [1, 2]', ["design", "item_names=1"]),
        ("design", 'matrix = ["11"]\nfile = "design.csv"', ["design.", "not a known key"]),
        ("design", 'file = "absent.csv"', ["design", "absent.csv", "No such file"]),
        ("design", 'file = "."', ["design", "directory"]),
        ("design", "file = 3", ["design", "file=3"]),
        ("design", 'kind = "bernoulli"\npools = -3\nitems = 2\nseed = 0', ["design", "pools=-3"]),
        ("design", 'kind = "bernoulli"\npools = 2\nitems = 0\nseed = 0', ["design", "items=0"]),
        ("design", 'kind = "bernoulli"\npools = 2.5\nitems = 2\nseed = 0', ["design", "pools=2.5"]),
        ("design", 'kind = "bernoulli"\npools = 2\nitems = 2\nseed = -1', ["design", "seed=-1"]),
        ("design", 'kind = "bernoulli"\npools = 2\nitems = 2', ["design.seed", "missing"]),
        ("design", 'kind = "bernoulli"\npools = 2\nitems = 2\nseed = 0\nweight = 1', ["design.weight"]),
        ("design", 'kind = "bernoulli"\npools = 2\nitems = 2\nseed = 0\nprobability = 2', ["design", "probability=2"]),
        ("design", 'kind = "column_regular"\npools = 2\nitems = 2\nweight = 3\nseed = 0', ["design", "weight=3"]),
        ("extra", "a = 1", ["problem.extra", "not a known key"]),
    ],
)
@pytest.mark.parametrize("command", [SIMULATE, DECODE])
def test_bad_problem_file(part, text, words, command, refused, folder):
    parts = {**GOOD, part: text}
    (folder / "problem.toml").write_text("\n".join(f"[{name}]\n{body}" for name, body in parts.items()))
    refused(command, "problem.toml", *words)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"design = \nprior = 1\n", ["line 1"]),
        (b"", ["problem.design", "missing"]),
        (b"design = 3\nprior = 4\n", ["design=3"]),
        (b'design = { matrix = ["1"] }\n', ["problem.prior", "missing"]),
        (b"\xff\xfe\x00\x80garbage", ["not a TOML or JSON"]),
    ],
)
def test_problem_file_that_is_none(content, words, refused, folder):
    (folder / "problem.toml").write_bytes(content)
    refused(SIMULATE, "problem.toml", *words)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("design star --pools 3 --items 3 -o out.csv", ["'star'", "bernoulli"]),
        ("design bernoulli --pools -3 --items 3 -o out.csv", ["pools=-3"]),
        ("design bernoulli --pools 0 --items 3 -o out.csv", ["pools=0"]),
        ("design bernoulli --pools 3 --items -1 -o out.csv", ["items=-1"]),
        ("design bernoulli --pools 3 --items 1.5 -o out.csv", ["--items", "integer"]),
        ("design bernoulli --pools 3 --items many -o out.csv", ["--items", "integer"]),
        ("design bernoulli --items 3 -o out.csv", ["--pools"]),
        ("design bernoulli --pools 3 --items 3", ["--output"]),
        ("design bernoulli --pools 3 --items 3 -o out.csv --probability 1.01", ["probability='1.01'"]),
        ("design bernoulli --pools 3 --items 3 -o out.csv --probability nan", ["probability='nan'"]),
        ("design bernoulli --pools 3 --items 3 -o out.csv --weight 1", ["weight"]),
        ("design column_regular --pools 3 --items 3 -o out.csv", ["weight"]),
        ("design column_regular --pools 3 --items 3 -o out.csv --weight 4", ["weight=4"]),
        ("design doubly_regular --pools 3 --items 5 -o out.csv --weight 2", ["divisible"]),
        ("design kirkman_triples --pools 43 --items 50 -o out.csv", ["pools=43", "39 or 45"]),
        ("design bernoulli --pools 3 --items 3 -o out.csv --seed -1", ["--seed"]),
        ("design bernoulli --pools 3 --items 3 -o out.csv --seed 99999999999999999999", ["--seed"]),
        ("design bernoulli --pools 3 --items 1000000000000000 -o out.csv", ["items=1000000000000000"]),
        ("design bernoulli --pools 3 --items 99999999999999999999 -o out.csv", ["items="]),
        ("simulate problem.toml --instances 0 -o out.csv", ["--instances"]),
        ("simulate problem.toml --instances -5 -o out.csv", ["--instances"]),
        ("simulate absent.toml --instances 5 -o out.csv", ["absent.toml", "No such file"]),
        ("simulate . --instances 5 -o out.csv", ["directory"]),
        ("decode absent.csv --problem problem.toml --decoder prevalence -o out.csv", ["absent.csv", "No such file"]),
        ("decode . --problem problem.toml --decoder prevalence -o out.csv", ["directory"]),
        ("decode counts.csv --problem absent.toml --decoder prevalence -o out.csv", ["absent.toml", "No such file"]),
        ("decode counts.csv --problem .. --decoder prevalence -o out.csv", ["problem.toml", "No such file"]),
        ("decode counts.csv --problem problem.toml --decoder oracle -o out.csv", ["'oracle'", "prevalence"]),
        (DECODE.replace("maximum_neighborhood", "prevalence") + " --defectives 1", ["defectives", "leave it out"]),
        (DECODE + " --defectives 5", ["defectives=5", "0 to 4"]),
        (DECODE + " --defectives -1", ["defectives=-1"]),
        ("score absent.csv calls.csv", ["absent.csv", "No such file"]),
        ("score truth.csv .", ["directory"]),
        ("score truth.csv", ["CALLS"]),
        ("score truth.csv calls.csv --color", ["--color", "qgt score --help"]),
        ("guess", ["'guess'", "qgt --help"]),
    ],
)
def test_bad_arguments(command, words, refused):
    refused(command, *words)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("design bernoulli --pools 3 --items 3 -o .", ["not a file"]),
        ("design bernoulli --pools 3 --items 3 -o /dev/null", ["/dev/null", "not a file"]),
        ("design bernoulli --pools 3 --items 3 -o design.csv/out.csv", ["design.csv is not a folder"]),
        ("design bernoulli --pools 3 --items 3 -o design.csv/deep/out.csv", ["design.csv/deep/out.csv"]),
        ("design bernoulli --pools 3 --items 3 -o " + "a" * 300, ["File name too long"]),
        (SIMULATE + " --truth out.csv", ["out.csv", "twice"]),
        (SIMULATE + " --truth ./out.csv", ["out.csv", "twice"]),
        (SIMULATE + " --truth .", ["not a file"]),
        ("simulate problem.toml --instances 5 -o problem.toml", ["problem.toml", "twice"]),
        (DECODE.replace("out.csv", "counts.csv"), ["counts.csv", "twice"]),
    ],
)
def test_outputs_that_cannot_be_written(command, words, refused):
    refused(command, *words)
    assert Path("/dev/null").is_char_device()


def test_an_existing_output_is_replaced_only_by_a_good_one(facts, refused, folder):
    facts(DECODE)
    good = Path("out.csv").read_text()
    (folder / "counts.csv").write_text("1,x,3\n")
    refused(DECODE, "counts.csv")
    assert Path("out.csv").read_text() == good
