"""The package as users get it: built, installed into an environment without this repository, and used there."""

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import httpx
import pytest

import qgt

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.wheel


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def command(built, tmp_path_factory) -> Path:
    """The command `qgt` of an environment that has the wheel, and this environment's packages except qgt."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder)
    python = folder / "bin/python"
    (wheel,) = built.glob("*.whl")
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--quiet", str(wheel)]
    subprocess.run([*install, "--disable-pip-version-check"], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    # Only the folder itself is added: the files in it that add other folders, such as this repository, are not read.
    (packages / "others.pth").write_text(sysconfig.get_paths()["purelib"])
    return folder / "bin/qgt"


@pytest.fixture
def run(command, tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def start(*words):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.Popen([command, *words], cwd=tmp_path, env=environment, text=True, **pipes)

    return start


def test_the_wheel_has_all_that_the_library_reads_and_the_source_has_what_builds_it(built):
    (wheel,), (source,) = built.glob("*.whl"), built.glob("*.tar.gz")
    inside = set(zipfile.ZipFile(wheel).namelist())
    ours = Path(qgt.__file__).parent
    files = [path for path in ours.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert {f"qgt/{path.relative_to(ours).as_posix()}" for path in files} <= inside
    assert "qgt/py.typed" in inside and not any(name.startswith(("tests", "docs")) for name in inside)
    with tarfile.open(source) as content:
        names = {name.partition("/")[2] for name in content.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "CITATION.cff", "src/qgt/version.py"} <= names
    assert not any(name.startswith(("results", "tests")) for name in names)


def test_the_installed_command_plans_decodes_and_serves(run, command, tmp_path):
    steps = (
        ["--version"],
        ["plan", "--samples", "12", "--positives", "1", "--errors", "0.02", "--seconds", "1", "-o", "plan"],
        ["simulate", "plan/problem.toml", "--instances", "1", "-o", "counts.csv"],
        ["decode", "counts.csv", "--problem", "plan", "--calibrate", "0", "-o", "calls.csv", "--html", "report.html"],
    )
    for words in steps:
        process = run(*words)
        printed, _ = process.communicate(timeout=120)
        assert process.returncode == 0, f"qgt {' '.join(words)}: {printed}"
        assert words != ["--version"] or qgt.__version__ in printed
    assert (tmp_path / "calls.csv").exists() and "<html" in (tmp_path / "report.html").read_text("utf-8")
    where = [command.with_name("python"), "-I", "-c", "import qgt; print(qgt.__file__)"]
    assert str(command.parents[1]) in subprocess.run(where, capture_output=True, text=True, check=True).stdout
    process = run("serve", "runs", "--port", "0")
    try:
        address = process.stdout.readline().split()[-1]
        client = httpx.Client(transport=httpx.HTTPTransport(retries=5), timeout=60)
        with client:
            assert client.get(f"{address}/api/v1/health").json()["version"] == qgt.__version__
            assert "Past runs" in client.get(address).text
    finally:
        process.terminate()
        process.communicate(timeout=60)
