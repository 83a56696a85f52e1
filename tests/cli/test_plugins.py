"""`--plugin`: parts of one's own on the command line, in every verb that reads a problem or a study."""

import json
from pathlib import Path

import pytest

from qgt.cli import main

MINE = """
from dataclasses import dataclass
import torch, qgt

@dataclass(frozen=True)
class OneBatch:
    length: int

    def sample(self, instances, items, *, generator):
        start = torch.randint(items - self.length + 1, (instances, 1), generator=generator)
        position = torch.arange(items)
        return ((position >= start) & (position < start + self.length)).to(torch.uint8)

@dataclass(frozen=True)
class Undercount:
    miss: float
    integer = True

    def reach(self, size, tail):
        return float(size)

    def sample(self, counts, sizes, *, generator):
        return torch.binomial(counts, torch.full_like(counts, 1 - self.miss), generator=generator)

    def log_prob(self, y, counts, sizes):
        y, counts = torch.broadcast_tensors(y, counts)
        law = torch.distributions.Binomial(counts, torch.full_like(counts, 1 - self.miss), validate_args=False)
        possible = (y >= 0) & (y <= counts) & (y == y.floor())
        return torch.where(possible, law.log_prob(y.clamp(min=0).minimum(counts)), -torch.inf)

@dataclass(frozen=True)
class Threshold:
    share: float = 0.8

    def supports(self, problem):
        return None

    def bind(self, problem):
        A = problem.design.matrix.double()

        def decode(y, defectives):
            scores = y @ A / A.sum(0).clamp(min=1)
            x = scores > self.share * scores.amax(1, keepdim=True)
            return qgt.Decoded(x.to(torch.uint8), torch.zeros(len(y), dtype=torch.uint8), scores)

        return qgt.BoundDecoder(problem, decode)
"""
PROBLEM = """
design = { kind = "bernoulli", pools = 10, items = 20, seed = 0 }
prior = { kind = "mine:OneBatch", length = 3 }
"""
NOISY = """
design = { kind = "bernoulli", pools = 10, items = 12, seed = 0 }
prior = { kind = "bernoulli", rate = 0.1 }
noise = { kind = "mine:Undercount", miss = 0.05 }
"""
STUDY = """
instances = 40
batch = 20
[problem]
design = { kind = "bernoulli", pools = 8, items = 12 }
prior = { kind = "mine:OneBatch", length = 3 }
[grid]
design.pools = [6, 8]
[decoders.mine]
kind = "mine:Threshold"
share = 0.7
"""
PLUGIN = "--plugin mine.py"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_plugins: object) -> Path:
    monkeypatch.chdir(tmp_path)
    files = {"mine.py": MINE, "problem.toml": PROBLEM, "noisy.toml": NOISY, "study.toml": STUDY}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def run(command: str, capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    found = main(command.split())
    out, err = capsys.readouterr()
    assert found == code, err
    return err if code == 2 else out


def test_a_prior_and_a_decoder_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    run(f"simulate problem.toml --instances 20 -o counts.csv --truth truth.csv {PLUGIN}", capsys)
    decode = f"decode counts.csv --problem problem.toml -o calls.csv {PLUGIN}"
    told = json.loads(run(f"{decode} --decoder mine:Threshold --json", capsys))
    assert told["instances"] == 20
    assert run(decode, capsys, 2).startswith("qgt: Certified cannot decode this problem: ")
    assert "mine:OneBatch.length is missing" in run(f"{decode} --decoder mine:OneBatch", capsys, 2)


def test_a_noise_of_ones_own_is_proved_and_checked(capsys: pytest.CaptureFixture[str]) -> None:
    run(f"simulate noisy.toml --instances 5 -o counts.csv {PLUGIN}", capsys)
    run(f"decode counts.csv --problem noisy.toml -o calls.csv --certificate proofs.safetensors {PLUGIN}", capsys)
    told = run(f"check counts.csv --problem noisy.toml --certificate proofs.safetensors {PLUGIN} --json", capsys)
    assert json.loads(told)["proved"] == 5


def test_a_network_for_a_prior_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    run(f"simulate problem.toml --instances 20 -o counts.csv {PLUGIN}", capsys)
    train = "train problem.toml -o net --hidden 16 --instances 300 --epochs 2 --device cpu"
    run(f"{train} {PLUGIN}", capsys)
    run(f"decode counts.csv --model net -o calls.csv {PLUGIN}", capsys)
    assert main(f"verify net -o report --instances 50 {PLUGIN}".split()) in (0, 1)
    capsys.readouterr()


def test_a_study_and_its_figure(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """That workers load the same plugins is in tests/study/test_plugins.py."""
    told = json.loads(run(f"bench study.toml --workers 1 {PLUGIN} --json", capsys))
    assert [one["instances"] for one in told["results"]] == [40, 40]
    run(f"figure study.toml -o study.svg --csv study.csv {PLUGIN}", capsys)
    assert (folder / "study.csv").read_text().count("\n") == 3


@pytest.mark.parametrize(
    "command",
    [
        "simulate problem.toml --instances 3 -o counts.csv",
        "decode counts.csv --problem problem.toml -o calls.csv",
        "check counts.csv --problem problem.toml --certificate proofs.safetensors",
        "train problem.toml -o net",
        "bench study.toml",
        "figure study.toml -o study.svg",
    ],
)
def test_without_the_option_nothing_is_imported_and_the_remedy_is_told(
    capsys: pytest.CaptureFixture[str], folder: Path, command: str
) -> None:
    (folder / "counts.csv").write_text("1\n")
    (folder / "proofs.safetensors").touch()
    said = run(command, capsys, 2)
    assert "is not loaded: give --plugin mine.py, or call qgt.load_plugin." in said
    assert said.count("\n") == 1


def test_a_plugin_that_fails_is_one_line(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "mine.py").write_text("import torch\nx = 1 / 0\n")
    said = run(f"simulate problem.toml --instances 3 -o counts.csv {PLUGIN}", capsys, 2)
    assert said.endswith("mine.py, line 2: ZeroDivisionError: division by zero\n")
    assert not (folder / "counts.csv").exists()
    assert "named twice" in run(f"simulate problem.toml --instances 3 -o mine.py {PLUGIN}", capsys, 2)
