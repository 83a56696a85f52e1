"""Certificates of copies and categories in files: what was shown is shown again, and nothing else is."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from qgt import Categories, Certified, Copies, Design, Problem, SparseInteger, load_certificate, save_certificate
from qgt.decoders.checker import check_certificate, check_claims, claims_hold
from random_problems import some_of
from random_values import random_case

PRIORS = [Categories((0.05, 0.05), names=["variant A", "variant B"]), Copies(frequency=0.05, ploidy=2)]


def problem_of(prior: Categories | Copies) -> Problem:
    g = torch.Generator().manual_seed(0)
    design = Design.column_regular(pools=14, items=30, weight=5, generator=g)
    return Problem(design, prior, SparseInteger(rate=0.1, bound=1))


@pytest.mark.parametrize("kind", ["copies", "categories"])
def test_what_a_certificate_shows_it_shows_from_a_file(kind: str, tmp_path: Path, unchecked: None) -> None:
    g = torch.Generator().manual_seed(7)
    for number in range(some_of(100)):
        case = random_case(kind, g)
        result = Certified(odds=(1.0, 5.0, 100.0)[number % 3]).bind(case.problem)(case.y)
        save_certificate(tmp_path / "proof", case.problem, case.y, result)
        again = load_certificate(tmp_path / "proof", case.problem, case.y)
        assert torch.equal(again.x, result.x) and torch.equal(again.status, result.status)
        held = claims_hold(check_claims(case.problem, case.y, result), result)
        assert torch.equal(claims_hold(check_claims(case.problem, case.y, again), again), held)


@pytest.mark.parametrize("prior", PRIORS)
def test_a_file_of_a_plate_is_checked(prior: Categories | Copies, tmp_path: Path) -> None:
    problem = problem_of(prior)
    y = problem.simulate(6, generator=torch.Generator().manual_seed(1)).y
    y.view(6, -1)[5, 0] = 99  # no x explains that
    save_certificate(tmp_path / "proof", problem, y, Certified().bind(problem)(y))
    result = load_certificate(tmp_path / "proof", problem, y)
    assert bool(check_certificate(problem, y, result).all())
    answers = result.evidence.alternatives
    assert answers is not None and answers.x.shape[1] == 30


def test_a_file_is_of_one_problem_and_its_counts(tmp_path: Path) -> None:
    problem = problem_of(PRIORS[0])
    y = problem.simulate(2, generator=torch.Generator().manual_seed(1)).y
    save_certificate(tmp_path / "proof", problem, y, Certified().bind(problem)(y))
    with pytest.raises(ValueError, match="another problem"):
        load_certificate(tmp_path / "proof", problem_of(Categories((0.05, 0.04))), y)
    with pytest.raises(ValueError, match="other counts"):
        load_certificate(tmp_path / "proof", problem, y + 1)


def spoiled(path: Path, change: str) -> None:
    with safe_open(path, "pt") as file:
        header = json.loads(file.metadata()["certificate"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - a file is no dict
    if change == "lost":
        tensors = {name: one for name, one in tensors.items() if not name.startswith("block2.")}
    elif change == "fewer":
        header["blocks"] = [False]
    elif change == "strange":
        header["blocks"] = "two"
    elif change == "answers":
        tensors["x"] = 1 - tensors["x"]
    save_file(tensors, path, {"certificate": json.dumps(header)})


@pytest.mark.parametrize("change", ["lost", "fewer", "strange", "answers"])
def test_a_changed_file_is_refused(change: str, tmp_path: Path) -> None:
    problem = problem_of(PRIORS[0])
    y = problem.simulate(2, generator=torch.Generator().manual_seed(1)).y
    save_certificate(tmp_path / "proof", problem, y, Certified().bind(problem)(y))
    spoiled(tmp_path / "proof", change)
    with pytest.raises(ValueError, match="is not a usable certificate"):
        load_certificate(tmp_path / "proof", problem, y)


def test_an_answer_that_is_not_the_best_is_not_proved_by_a_file(tmp_path: Path) -> None:
    problem = problem_of(PRIORS[0])
    y = problem.simulate(3, generator=torch.Generator().manual_seed(1)).y
    result = Certified().bind(problem)(y)
    worse = result.x.clone()
    worse[:, 0] = torch.where(worse[:, 0] == 0, 2, 0).to(torch.uint8)
    save_certificate(tmp_path / "proof", problem, y, replace(result, x=worse))
    assert not bool(check_certificate(problem, y, load_certificate(tmp_path / "proof", problem, y)).any())
