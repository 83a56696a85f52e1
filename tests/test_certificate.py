"""Certificates as files: they come back as they were, and a damaged or foreign file is refused by name."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import qgt


def solved(pools: int = 10) -> tuple[qgt.Problem, torch.Tensor, qgt.Decoded]:
    g = torch.Generator().manual_seed(0)
    problem = qgt.Problem(
        qgt.Design.bernoulli(pools=pools, items=20, generator=g), qgt.Bernoulli(0.1), qgt.SparseInteger(0.1, 1)
    )
    y = problem.simulate(15, generator=g).y
    return problem, y, qgt.Certified().bind(problem)(y)


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    problem, y, result = solved()
    qgt.save_certificate(tmp_path / "proof", problem, result)
    loaded = qgt.load_certificate(tmp_path / "proof", problem)
    assert torch.equal(loaded.x, result.x) and torch.equal(loaded.status, result.status)
    for key in ("alternatives", "dual"):
        assert torch.equal(loaded.info[key].ends, result.info[key].ends)
        for name, column in result.info[key].columns.items():
            assert torch.equal(loaded.info[key].columns[name], column)
    assert bool(qgt.check_certificate(problem, y, loaded, odds=100.0).all())


def test_a_certificate_for_another_problem_is_refused(tmp_path: Path) -> None:
    problem, _, result = solved()
    qgt.save_certificate(tmp_path / "proof", problem, result)
    with pytest.raises(ValueError, match="another problem"):
        qgt.load_certificate(tmp_path / "proof", solved(pools=11)[0])


def test_what_is_no_certificate_is_refused(tmp_path: Path) -> None:
    problem, _, _ = solved()
    (tmp_path / "text").write_text("not tensors")
    with pytest.raises(ValueError, match="cannot be read as a certificate"):
        qgt.load_certificate(tmp_path / "text", problem)
    with pytest.raises(ValueError, match="cannot be read as a certificate"):
        qgt.load_certificate(tmp_path / "absent", problem)
    save_file({"weights": torch.zeros(3)}, tmp_path / "network", {"problem": problem.fingerprint})
    with pytest.raises(ValueError, match="holds weights"):
        qgt.load_certificate(tmp_path / "network", problem)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("x", lambda t: t[:-1]),
        ("x", lambda t: t.float()),
        ("status", lambda t: t[:, None]),
        ("dual.pi", lambda t: t[:, 1:]),
        ("dual.fixed", lambda t: t[1:]),
        ("dual.least", lambda t: t.double()),
        ("dual.ends", lambda t: t.flip(0)),
        ("alternatives.ends", lambda t: t - t[-1]),
        ("alternatives.x", lambda t: t[:0]),
    ],
)
def test_damaged_tensors_are_refused(tmp_path: Path, name: str, change: object) -> None:
    problem, _, result = solved()
    path = tmp_path / "proof"
    qgt.save_certificate(path, problem, result)
    tensors = load_file(path)
    tensors[name] = change(tensors[name]).contiguous()  # type: ignore[operator]
    save_file(tensors, path, {"problem": problem.fingerprint})
    with pytest.raises(ValueError, match="proof"):
        qgt.load_certificate(path, problem)


def test_no_instances_have_an_empty_certificate(tmp_path: Path) -> None:
    problem, y, _ = solved()
    result = qgt.Certified().bind(problem)(y[:0])
    qgt.save_certificate(tmp_path / "proof", problem, result)
    assert len(qgt.check_certificate(problem, y[:0], qgt.load_certificate(tmp_path / "proof", problem))) == 0
