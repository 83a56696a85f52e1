"""Instances with several rounds, decoded and accounted for."""

import torch

import qgt
from qgt.lab.following import decode_rounds
from qgt.lab.verdicts import Verdict
from qgt.rounds.history import History
from qgt.rounds.settling import Settle


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
