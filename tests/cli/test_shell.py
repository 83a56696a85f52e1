"""What every verb shares: files that are kept, terminals that are spared, and one line where the system refuses."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import qgt
from qgt.cli import main
from qgt.cli.shell import printable

DESIGN = "pool,A,B\nP1,1,1\nP2,0,1\n"
COUNTS = "instance,P1,P2\ns1,1,1\n\x1b]0;owned\x07s2,0,0\n"
SPEC = {"design": {"file": "design.csv"}, "prior": {"kind": "bernoulli", "rate": 0.1}}
TOML = 'design = { file = "design.csv" }\nprior = { kind = "bernoulli", rate = 0.1 }\n'
GREEDY = "--decoder prevalence"
FULL = Path("/dev/full")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in {"design.csv": DESIGN, "counts.csv": COUNTS, "problem.toml": TOML}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "problem.json").write_text(json.dumps(SPEC))
    return tmp_path


def refused(command: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command that must fail with one line and change nothing."""
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    assert main(command.split()) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("qgt: ") and err.count("\n") == 1
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before
    return err


def in_process(command: str, **options: object) -> "subprocess.CompletedProcess[str]":
    """Run the command as people do."""
    env = {**os.environ, "PYTHONPATH": str(Path(qgt.__file__).parents[1]), **options.pop("env", {})}
    given = {"capture_output": True, "text": True, "check": False, "env": env, **options}
    if "stdout" in given:
        given |= {"capture_output": False, "stderr": subprocess.PIPE}
    return subprocess.run([sys.executable, "-m", "qgt", *command.split()], **given)


# ---------------------------------------------------------------- inputs stay


@pytest.mark.parametrize("problem", ["problem.toml", "problem.json"])
@pytest.mark.parametrize("verb", ["simulate", "decode"])
def test_a_design_behind_a_problem_is_not_overwritten(verb, problem, capsys):
    command = {
        "simulate": f"simulate {problem} --instances 2 -o",
        "decode": f"decode counts.csv --problem {problem} {GREEDY} -o",
    }[verb]
    assert f"design.csv: is part of {problem}, which this command reads" in refused(f"{command} design.csv", capsys)
    os.link("design.csv", "hard.csv")
    os.symlink("design.csv", "soft.csv")
    for name in ("hard.csv", "soft.csv", "./design.csv"):
        assert "is part of" in refused(f"{command} {name}", capsys)
    assert main(f"{command} other.csv".split()) == 0


@pytest.mark.parametrize("option", ["-o", "--report", "--html"])
def test_no_output_is_an_input(option, capsys):
    for name in ("counts.csv", "problem.toml"):
        error = refused(f"decode counts.csv --problem problem.toml {GREEDY} {option} {name}", capsys)
        assert f"{name}: is named twice" in error


def test_a_design_is_replaced_only_when_that_is_wanted(capsys):
    command = "design bernoulli --pools 3 --items 4 -o design.csv"
    assert "design.csv: is there already; give another path, or add --force" in refused(command, capsys)
    assert main([*command.split(), "--force"]) == 0
    assert Path("design.csv").read_text() != DESIGN


# ---------------------------------------------------------------- what the system refuses


def test_a_loop_of_links_is_told(capsys):
    os.symlink("loop.csv", "loop.csv")
    levels = "Too many levels of symbolic links"
    assert levels in refused("simulate problem.toml --instances 1 -o loop.csv", capsys)
    assert levels in refused("simulate problem.toml --instances 1 -o loop.csv/x.csv", capsys)
    assert levels in refused("simulate loop.csv --instances 1 -o out.csv", capsys)
    assert levels in refused(f"decode loop.csv --problem problem.toml {GREEDY}", capsys)


@pytest.mark.skipif(not FULL.exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("command", ["--help", f"decode counts.csv --problem problem.toml {GREEDY}"])
def test_a_standard_output_that_is_full_is_told(command):
    with FULL.open("w") as full:
        done = in_process(command, stdout=full)
    assert done.returncode == 2
    assert done.stderr.startswith("qgt: ") and "No space left on device" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_full_disk_is_told_for_a_certificate(monkeypatch, capsys):
    from safetensors import SafetensorError

    from qgt.decoders import certificate_file

    def full(path, problem, y, result):
        raise SafetensorError("Error while serializing: No space left on device (os error 28)")

    monkeypatch.setattr(certificate_file, "write_certificate", full)
    error = refused("decode counts.csv --problem problem.toml --certificate proofs", capsys)
    assert "proofs: cannot be written (Error while serializing: No space left on device" in error


def test_an_encoding_that_lacks_a_character_is_no_failure(folder):
    (folder / "counts.csv").write_text("instance,P1,P2\nÄmter,1,1\n", encoding="utf-8")
    command = f"decode counts.csv --problem problem.toml {GREEDY} -o grün.csv"
    done = in_process(command, env={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert r"Wrote gr\xfcn.csv" in done.stdout
    assert Path("grün.csv").exists()


def test_an_interrupt_during_imports_is_silent(tmp_path):
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n")
    path = f"{tmp_path}{os.pathsep}{Path(qgt.__file__).parents[1]}"
    done = in_process("--help", env={"PYTHONPATH": path})
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


# ---------------------------------------------------------------- how a command ends


def ending(body: str, before: str = "") -> "subprocess.CompletedProcess[str]":
    """Run the command with another `main`, and a function of somebody else's to run when the process ends."""
    script = f"""
import atexit, sys
{before}
from qgt import cli
class Freed:
    def __del__(self): print("freed")
kept = Freed()
def main():
    atexit.register(print, "in order")
    print("said", end="")
    {body}
cli.main = main
sys.exit(cli.command())
"""
    env = {**os.environ, "PYTHONPATH": str(Path(qgt.__file__).parents[1])}
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, env=env)


@pytest.mark.parametrize("code", [0, 1, 2])
def test_a_command_puts_all_in_order_and_frees_nothing(code):
    done = ending(f"return {code}")
    assert (done.returncode, done.stdout, done.stderr) == (code, "saidin order\n", "")


def test_what_others_registered_before_the_command_is_run_too():
    """As a tool does that measures which lines were run."""
    done = ending("return 2", before="atexit.register(print, 'measured', file=sys.stderr)")
    assert (done.returncode, done.stdout, done.stderr) == (2, "saidin order\n", "measured\nfreed\n")


def test_a_bug_still_ends_with_its_traceback():
    done = ending("raise ZeroDivisionError")
    assert done.returncode == 1 and done.stderr.startswith("Traceback")
    assert done.stderr.endswith("ZeroDivisionError\nfreed\n") and done.stdout == "saidin order\n"


def test_files_of_plugins_are_closed(folder):
    mine = (
        "import dataclasses\n@dataclasses.dataclass\nclass Mine: pass\nlog = open('log.txt', 'w')\nlog.write('seen')\n"
    )
    (folder / "mine.py").write_text(mine)
    done = in_process(f"decode counts.csv --problem problem.toml {GREEDY} --plugin mine.py")
    assert done.returncode == 0 and (folder / "log.txt").read_text() == "seen"


def test_a_command_without_a_standard_output_does_its_work(folder):
    command = f"{sys.executable} -m qgt decode counts.csv --problem problem.toml {GREEDY} -o calls.csv >&-"
    env = {**os.environ, "PYTHONPATH": str(Path(qgt.__file__).parents[1])}
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False, env=env)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert Path("calls.csv").exists()


@pytest.mark.parametrize("name", ["problem.toml", "problem.json"])
def test_files_that_nest_deeply_do_no_harm_to_the_check_of_outputs(name, folder):
    from qgt.cli.shell import check_outputs

    deep = "[" * 100_000 if name.endswith("json") else "design = " + "[" * 100_000
    (folder / name).write_text(deep)
    check_outputs([Path("out.csv")], [Path(name)])


# ---------------------------------------------------------------- mistyped names need no torch


def test_a_mistyped_name_need_not_wait_for_torch():
    commands = [
        "decode absent.csv --problem problem.toml",
        "decode counts.csv --problem absent.toml",
        "decode counts.csv --model absent",
        "check counts.csv --problem problem.toml --certificate absent",
        "simulate absent.toml --instances 2 -o out.csv",
        "simulate problem.toml --instances 2 -o design.csv",
        "score counts.csv absent.csv",
        "design bernoulli --pools 3 --items 3 -o design.csv",
    ]
    script = (
        f"import sys; sys.path[:] = {sys.path!r}\nfrom qgt.cli import main\n"
        f"print([main(c.split()) for c in {commands!r}], 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout == f"{[2] * len(commands)} False\n", done.stderr


# ---------------------------------------------------------------- terminals


def test_printable_leaves_text_alone_and_escapes_the_rest():
    assert printable("Ångström [bold] 10 %") == "Ångström [bold] 10 %"
    assert printable("a\x1b[2J\x07\x9b\u202e\x7f\r\nb") == r"a\x1b[2J\x07\x9b\u202e\x7f\r\nb"
    assert printable("a\nb", keep="\n") == "a\nb"


def test_names_never_reach_a_terminal_raw(capsys, folder):
    for command in ("decode counts.csv --problem problem.toml", f"decode counts.csv --problem problem.toml {GREEDY}"):
        assert main(command.split()) == 0
        out = capsys.readouterr().out
        assert "\x1b" not in out and "\x07" not in out and "owned" in out
    name = "\x1b[31mred.csv"
    assert main(["decode", name, "--problem", "problem.toml"]) == 2
    assert r"qgt: \x1b[31mred.csv: cannot be read" in capsys.readouterr().err
    assert main(["simulate", "problem.toml", "--instances", "1", "-o", name]) == 0
    assert r"Wrote \x1b[31mred.csv" in capsys.readouterr().out
