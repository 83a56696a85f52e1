"""A sheet is decoded in parts that change nothing, and says how far it is."""

import pytest
import torch

import qgt
from qgt.cli import main
from qgt.lab.answers import decoding
from qgt.lab.answers.decoding import SEARCHED, decode_sheet, usual_decoder
from qgt.lab.verdicts import Call


def sheet(instances: int = 10) -> tuple[qgt.Problem, torch.Tensor]:
    g = torch.Generator().manual_seed(2)
    problem = qgt.Problem(
        qgt.Design.bernoulli(pools=8, items=15, generator=g), qgt.Bernoulli(0.1), qgt.SparseInteger(0.1, 1)
    )
    return problem, problem.simulate(instances, generator=g).y


@pytest.mark.parametrize("decoder", ["certified", "gamp", "exhaustive"])
def test_parts_give_what_the_whole_gives(decoder, monkeypatch):
    problem, y = sheet()
    whole = decode_sheet(problem, y, None, qgt.DECODERS[decoder]())
    monkeypatch.setattr(decoding, "PART", 3)
    seen: list[tuple[int, int]] = []
    made = decode_sheet(problem, y, None, qgt.DECODERS[decoder](), on_progress=lambda *step: seen.append(step))
    assert seen == [(3, 10), (6, 10), (9, 10), (10, 10)]
    for one, other in zip(made.accounts, whole.accounts, strict=True):
        assert (one.name, one.verdict, one.answer) == (other.name, other.verdict, other.answer)
        assert {(a.added, a.dropped) for a in one.alternatives} == {(a.added, a.dropped) for a in other.alternatives}
    assert torch.equal(made.result.x, whole.result.x) and torch.equal(made.result.status, whole.result.status)
    assert made.names == [str(i) for i in range(1, 11)]


def test_certificates_of_parts_hold(monkeypatch):
    problem, y = sheet()
    monkeypatch.setattr(decoding, "PART", 4)
    made = decode_sheet(problem, y, None, qgt.Certified())
    assert qgt.check_certificate(problem, y, made.result).all()


def test_defectives_go_to_decoders_that_take_them():
    problem, y = sheet()
    made = decode_sheet(problem, y, None, qgt.MaximumNeighborhood(), defectives=3)
    assert {len(one.answer) for one in made.accounts} == {3}
    with pytest.raises(ValueError, match="defectives=3 was given, but this decoder cannot use it"):
        decode_sheet(problem, y, None, qgt.Certified(), defectives=3)


def test_what_would_explain_impossible_counts_stands_in_the_words_and_never_in_the_calls():
    g = torch.Generator().manual_seed(0)
    design = qgt.Design.column_regular(pools=24, items=60, weight=6, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.04))
    y = problem.simulate(1, generator=g).y
    y[0, 3] += 1
    (one,) = decode_sheet(problem, y, None, qgt.Certified()).accounts
    assert "Look at P4 first: if only its count is wrong, I42 is positive, of 60 samples." in one.words
    assert (str(one.verdict), one.answer, one.called(Call.NONE)) == ("impossible", (), problem.design.item_names)


@pytest.mark.parametrize("odds", [2.0, 10.0])
def test_short_lists_are_refused_where_nothing_tells_what_they_leave_out(odds):
    """With half of the counts missing, a quarter of the answers that stand alone on a list of odds 2 are wrong."""
    g = torch.Generator().manual_seed(0)
    design = qgt.Design.column_regular(pools=16, items=40, weight=5, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.05), qgt.SparseInteger(0.05, 1))
    y = problem.simulate(2, generator=g).y
    short = qgt.Certified(odds=odds, certificates=False)
    decode_sheet(problem, y, None, short, calibrate=0.2)
    with pytest.raises(ValueError, match=f"odds={odds:g} is too small without simulations"):
        decode_sheet(problem, y, None, short, calibrate=None)
    y[0, 8:] = torch.nan
    for decoder in (short, qgt.Calibrated(short, seconds=0.2).bind(problem)):
        with pytest.raises(ValueError, match=f"odds={odds:g} is too small where counts are missing"):
            decode_sheet(problem, y, None, decoder, calibrate=0.2)
    with pytest.raises(ValueError, match="too small where counts are missing"):
        qgt.Calibrated(short, seconds=0.2).bind(problem)(y)
    made = decode_sheet(problem, y, None, qgt.Certified(odds=1.0, certificates=False), calibrate=None)
    assert {str(one.verdict) for one in made.accounts} == {"unsure"}


def test_names_are_as_many_as_rows() -> None:
    problem, y = sheet()
    with pytest.raises(ValueError, match="2 names and 10 rows of counts: give one of each"):
        decode_sheet(problem, y, ["a", "b"], qgt.Certified(), calibrate=None)


def test_a_calibrated_sheet_binds_its_decoder_once(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, y = sheet()
    bound, real = [], qgt.GAMP.bind
    monkeypatch.setattr(qgt.GAMP, "bind", lambda self, problem: bound.append(problem) or real(self, problem))
    assert decode_sheet(problem, y, None, qgt.GAMP(), calibrate=0.2).fit is not None
    assert bound == [problem]


# The decoder that is taken where nobody says.


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
    monkeypatch.setattr("qgt.lab.answers.decoding.SEARCHED", 100)
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
