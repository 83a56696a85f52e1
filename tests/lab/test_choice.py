"""The decoder that is taken where nobody says."""

import torch

import qgt
from qgt.cli import main
from qgt.lab.choice import SEARCHED, usual_decoder


def problem_of(items: int, prior: qgt.Sampler, weight: int = 6) -> qgt.Problem:
    generator = torch.Generator().manual_seed(0)
    design = qgt.Design.column_regular(pools=items // 4, items=items, weight=weight, generator=generator)
    return qgt.Problem(design, prior, qgt.SparseInteger(rate=0.1, bound=1))


def test_search_as_long_as_it_is_quick() -> None:
    assert usual_decoder(problem_of(SEARCHED, qgt.Bernoulli(0.05))) == ("certified", "")
    large = usual_decoder(problem_of(SEARCHED + 4, qgt.Bernoulli(0.05)))
    assert large.name == "belief"
    assert "5,004 items" in large.why
    assert "--decoder certified" in large.why


def test_dense_designs_are_not_for_belief_propagation() -> None:
    design = qgt.Design.bernoulli(pools=40, items=6000, generator=torch.Generator().manual_seed(0))
    assert usual_decoder(qgt.Problem(design, qgt.Bernoulli(0.001))).name == "linear_program"


def test_the_command_says_which_and_why(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("qgt.lab.choice.SEARCHED", 100)
    problem_of(800, qgt.Bernoulli(0.02)).save("problem.toml")
    assert (
        main(
            ["simulate", "problem.toml", "--instances", "1", "--seed", "1", "-o", "counts.csv", "--truth", "truth.csv"]
        )
        == 0
    )
    command = ["decode", "counts.csv", "--problem", "problem.toml", "--calibrate", "0", "-o", "calls.csv"]
    assert main(command) == 0
    assert "Decoded by belief, not by certified: a search among 800 items" in " ".join(capsys.readouterr().out.split())
    assert main([*command, "--odds", "200"]) == 0
    assert "Decoded by belief" not in capsys.readouterr().out
