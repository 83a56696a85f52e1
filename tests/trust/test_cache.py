"""What was learned is found again, and only that: damage, other problems and plugins lead to new simulations."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import qgt
from qgt.trust import cache, confidence
from qgt.trust.confidence import Learned


def problem(seed: int = 0) -> qgt.Problem:
    design = qgt.Design.bernoulli(pools=10, items=16, generator=torch.Generator().manual_seed(seed))
    return qgt.Problem(design, qgt.Bernoulli(0.1), qgt.SparseInteger(0.1, 1))


@pytest.fixture
def learned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each time that somebody simulates, of few instances."""
    seen: list[str] = []
    real = confidence.learn

    def counted(*arguments: object) -> Learned:
        seen.append("again")
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(confidence, "learn", counted)
    monkeypatch.setattr("qgt.trust.fit.MOST_INSTANCES", 2000)
    return seen


def decoded(folder: Path | None, decoder: qgt.Decoder, of: qgt.Problem | None = None, seconds: float = 0.2) -> Tensor:
    of = of or problem()
    y = of.simulate(20, generator=torch.Generator().manual_seed(1)).y
    bound = qgt.Calibrated(decoder, seconds=seconds, simulations=60, cache=folder).bind(of)
    evidence = bound(y).evidence
    return torch.stack([evidence.confidence, evidence.fit])


@pytest.mark.parametrize("decoder", [qgt.Certified(), qgt.GAMP(), qgt.Prevalence()])
def test_the_second_sheet_is_told_the_same_without_simulations(
    decoder: qgt.Decoder, tmp_path: Path, learned: list[str]
) -> None:
    first = decoded(tmp_path / "new" / "folder", decoder)
    assert torch.equal(decoded(tmp_path / "new" / "folder", decoder), first) and learned == ["again"]
    assert len(list((tmp_path / "new" / "folder").iterdir())) == 1


def test_whatever_matters_makes_another_name(tmp_path: Path, learned: list[str]) -> None:
    base = problem()
    for number, (of, decoder, seconds) in enumerate(
        [
            (base, qgt.GAMP(), 0.2),
            (problem(1), qgt.GAMP(), 0.2),
            (replace(base, prior=qgt.Bernoulli(0.2)), qgt.GAMP(), 0.2),
            (replace(base, noise=qgt.SparseInteger(0.2, 1)), qgt.GAMP(), 0.2),
            (base, qgt.GAMP(damping=0.5), 0.2),
            (base, qgt.AMP(), 0.2),
            (base, qgt.GAMP(), 0.3),
        ],
        1,
    ):
        decoded(tmp_path, decoder, of, seconds)
        assert len(learned) == number


@pytest.mark.parametrize("damage", ["torn", "changed", "empty", "renamed", "folder"])
def test_a_file_that_is_not_whole_is_none(damage: str, tmp_path: Path, learned: list[str]) -> None:
    first = decoded(tmp_path, qgt.Certified())
    (path,) = tmp_path.iterdir()
    data = path.read_bytes()
    if damage == "torn":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "changed":
        path.write_bytes(data[:-5] + bytes([data[-5] ^ 64]) + data[-4:])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "renamed":  # of another problem
        decoded(tmp_path, qgt.Certified(), problem(1))
        (other,) = set(tmp_path.iterdir()) - {path}
        path.write_bytes(other.read_bytes())
    else:
        path.unlink()
        path.mkdir()
    del learned[:]
    again = decoded(tmp_path, qgt.Certified())
    assert learned == ["again"] and again.shape == first.shape


def test_a_part_that_is_missing_is_noticed() -> None:
    found = qgt.Calibrated(qgt.GAMP(), seconds=0.2, simulations=60).bind(problem()).learned()
    tensors = found.tensors()
    assert Learned.of_tensors(tensors) is not None
    for name in ("simulated", "reference.noise", "read.at"):
        assert Learned.of_tensors({key: part for key, part in tensors.items() if key != name}) is None


def test_a_folder_that_cannot_be_used_does_no_harm(tmp_path: Path, learned: list[str]) -> None:
    (tmp_path / "file").write_text("no folder")
    assert decoded(tmp_path / "file", qgt.GAMP()).isfinite().all() and learned == ["again"]


@dataclass(frozen=True)
class Own:
    """A noise that somebody wrote: its name does not tell what it does."""

    @property
    def integer(self) -> bool:
        return True

    def reach(self, size: int, tail: float) -> float:
        return 0.0

    def sample(self, counts: Tensor, sizes: Tensor, *, generator: torch.Generator) -> Tensor:
        return counts.clone()

    def log_prob(self, y: Tensor, counts: Tensor, sizes: Tensor) -> Tensor:
        return torch.where(y == counts, 0.0, -torch.inf).double()


def test_plugins_and_networks_are_never_kept(tmp_path: Path) -> None:
    base = problem()
    told = {"seconds": 1.0, "simulations": 10}
    assert cache.key_of(base, qgt.Certified(), **told) is not None
    own = replace(base, noise=qgt.PerPool([Own()] * 10))
    assert cache.key_of(own, qgt.Certified(), **told) is None
    training = qgt.TrainConfig(instances=50, validation=20, epochs=1)
    net = qgt.train(base, qgt.MLP((4,)), training, generator=torch.Generator().manual_seed(0))
    assert cache.key_of(base, net, **told) is None


def test_only_the_newest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "MOST_FILES", 3)
    for number in range(5):
        cache.keep(tmp_path, str(number), {"a": torch.tensor(number)})
    assert len(list(tmp_path.iterdir())) == 3
    assert cache.recall(tmp_path, "4") == {"a": torch.tensor(4)} and cache.recall(tmp_path, "0") is None


def test_the_folder_is_where_the_system_keeps_such_things(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache.cache_folder() is None  # switched off in tests
    monkeypatch.setenv("QGT_CACHE", "/somewhere")
    assert cache.cache_folder() == Path("/somewhere") and cache.cache_folder("there") == Path("there")
    assert cache.cache_folder(Path("OFF")) is None
    monkeypatch.delenv("QGT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache.cache_folder() == Path("/caches/qgt")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/ann")
    assert cache.cache_folder() == Path("/home/ann/.cache/qgt")
