"""Instances with several rounds, decoded and accounted for."""

from dataclasses import replace

import torch

import qgt
from qgt.lab.rounds.follow_up import decode_rounds, propose
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
        (account,) = decode_rounds([history], ["a"], settle, first=problem, generator=g).accounts
        assert account.verdict in (Verdict.SUSPECT, Verdict.UNSURE)
    assert sure == 2


def test_where_no_answer_but_a_count_is_in_doubt_the_count_is_measured_again() -> None:
    problem = qgt.Problem(
        qgt.Design.from_rows(["110", "011", "101"] * 3), qgt.Bernoulli(0.1), qgt.SparseInteger(rate=0.05, bound=1)
    )
    y = torch.tensor([1.0, 1.0, 0.0] * 3, dtype=torch.float64)
    y[8] = 1.0  # off by one
    g = torch.Generator().manual_seed(0)
    decoded = decode_rounds([History.start(problem, y)], ["a"], Settle(confidence=0.99), first=problem, generator=g)
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
    found = decode_rounds(histories, names, Settle(confidence=0.99), first=problem, generator=g)
    assert (found.result.x == x).all()
    assert all(account.verdict is Verdict.CERTAIN for account in found.accounts)
