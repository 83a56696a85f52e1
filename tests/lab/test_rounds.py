"""Instances with several rounds, decoded and accounted for."""

import json
from dataclasses import replace

import pytest
import torch

import qgt
from qgt.lab.answers import decoding
from qgt.lab.answers.decoding import ByLongerLists, decode_history
from qgt.lab.answers.outputs import products
from qgt.lab.rounds import propose
from qgt.lab.sheets.names import check_code
from qgt.lab.verdicts import Verdict
from qgt.rounds.history import History
from qgt.rounds.stopping import Settle


def test_an_answer_that_one_wrong_count_made_is_not_trusted() -> None:
    # Two of these answers would be sure, and wrong, if every count were believed; no other instance is there to help.
    g = torch.Generator().manual_seed(30)
    design = qgt.Design.bernoulli(pools=30, items=100, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.06), qgt.SparseInteger(rate=0.1, bound=1))
    x, y = problem.simulate(24, generator=g)
    y[torch.arange(24), torch.randint(30, (24,), generator=g)] += 2  # no error of the model
    settle = Settle(confidence=0.99)
    sure = 0
    for place in (4, 9):
        history = History.start(problem, y[place])
        believed = settle([history])
        assert believed.evidence.confidence is not None
        assert (believed.x[0] != x[place]).any()
        sure += int(believed.evidence.confidence[0] > 0.9)
        (account,) = decode_history(problem, [history], ["a"], ByLongerLists(settle, g)).accounts
        assert account.verdict in (Verdict.SUSPECT, Verdict.UNSURE)
    assert sure == 2


def test_where_no_answer_but_a_count_is_in_doubt_the_count_is_measured_again() -> None:
    problem = qgt.Problem(
        qgt.Design.from_rows(["110", "011", "101"] * 3), qgt.Bernoulli(0.1), qgt.SparseInteger(rate=0.05, bound=1)
    )
    y = torch.tensor([1.0, 1.0, 0.0] * 3, dtype=torch.float64)
    y[8] = 1.0  # off by one
    g = torch.Generator().manual_seed(0)
    way = ByLongerLists(Settle(confidence=0.99), g)
    decoded = decode_history(problem, [History.start(problem, y)], ["a"], way)
    (account,) = decoded.accounts
    assert account.verdict is Verdict.CERTAIN and account.confidence is not None
    assert propose(decoded, confidence=0.99, pools=3, generator=g) == []
    doubted = replace(decoded, accounts=[replace(account, verdict=Verdict.UNSURE, confidence=0.5)])
    (one,) = propose(doubted, confidence=0.99, pools=3, generator=g)
    assert one.repeats == (problem.design.pool_names[8],)


def test_honest_instances_stay_certain() -> None:
    g = torch.Generator().manual_seed(1)
    design = qgt.Design.bernoulli(pools=35, items=100, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.06), qgt.SparseInteger(rate=0.1, bound=1))
    x, y = problem.simulate(20, generator=g)
    histories = [History.start(problem, row) for row in y]
    names = [str(number) for number in range(20)]
    found = decode_history(problem, histories, names, ByLongerLists(Settle(confidence=0.99), g))
    assert (found.result.x == x).all()
    assert all(account.verdict is Verdict.CERTAIN for account in found.accounts)


def test_counts_that_must_be_wrong_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = qgt.Problem(qgt.Design.from_rows(["11000", "00110", "10101", "01011", "11111"]), qgt.Bernoulli(0.1))
    y = torch.tensor([1.0, 0.0, 1.0, 0.0, 3.0], dtype=torch.float64)
    asked, real = [], decoding.rescue
    monkeypatch.setattr(decoding, "rescue", lambda *given, **more: asked.append(given) or real(*given, **more))
    g = torch.Generator().manual_seed(0)
    decoded = decode_history(problem, [History.start(problem, y)], ["a"], ByLongerLists(Settle(confidence=0.99), g))
    assert decoded.accounts[0].verdict is Verdict.IMPOSSIBLE and decoded.rescues[0].wrong == ("P5",)
    (one,) = propose(decoded, confidence=0.99, pools=3, generator=g)
    assert one.repeats == ("P5",)
    assert len(asked) == 1


def test_both_ways_lead_to_one_kind_of_sheet() -> None:
    """The same files and facts come of one round and of several; only the proofs' form differs."""
    g = torch.Generator().manual_seed(1)
    design = qgt.Design.bernoulli(pools=16, items=30, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.06), qgt.SparseInteger(rate=0.1, bound=1))
    y = problem.simulate(3, generator=g).y
    one = decoding.decode_sheet(problem, y, ["a", "b", "c"], qgt.Certified(), calibrate=0.2)
    first = list(one.histories)
    again = torch.ones(1, 30, dtype=torch.uint8)
    first[1] = first[1].after(again, torch.tensor([2.0], dtype=torch.float64), ["all"])
    several = decode_history(problem, first, one.names, ByLongerLists(Settle(confidence=0.99), g), rounds=2)
    made = [products(sheet, title="x", decoder="certified", facts={}) for sheet in (one, several)]
    assert set(made[0]) - set(made[1]) == {"proofs.safetensors"} and set(made[1]) - set(made[0]) == {"proofs.zip"}
    plain, later = (json.loads(files["results.json"]) for files in made)
    assert set(later) - set(plain) == {"rounds", "tests"} and set(plain) < set(later)
    assert (later["rounds"], later["tests"]) == (2, 3 * 16 + 1)
    assert [told["rounds"] for told in later["results"]] == [[16], [16, 1], [16]]
    code = check_code(design)
    for files in made:
        assert code in files["report.html"].decode() and code in files["calls_by_sample.csv"].decode()
    assert "counted in 16 pools and 1 more in a later round" in made[1]["report.html"].decode()
    assert torch.equal(one.y, y) and torch.equal(several.y, y)
