"""Instances that are handed to HiGHS: what is claimed of them, by whom, and what is not."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import qgt
from qgt.decoders.certified import stragglers
from qgt.decoders.highs import integer_program
from qgt.decoders.highs.integer_program import KnownAnswer, ProgramOutcome, Solution
from qgt.lab.answers.checking import UNCHECKED, check_sheet
from qgt.lab.answers.outputs import REPORT_COLUMNS, report_row
from random_problems import Case, case, model_case, some_of

HOUR = 3600.0


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hand over whatever the first step leaves open."""
    monkeypatch.setattr(stragglers, "SHARE", 0.0)


def hard() -> tuple[qgt.Problem, torch.Tensor]:
    """Counts that the roots alone do not settle."""
    design = qgt.Design.bernoulli(pools=14, items=40, generator=torch.Generator().manual_seed(6))
    problem = qgt.Problem(design, qgt.Bernoulli(0.1), qgt.SparseInteger(rate=0.2, bound=2))
    return problem, problem.simulate(6, generator=torch.Generator().manual_seed(7)).y


def same_as_every_x(one: Case, odds: float) -> int:
    """Compare with enumeration; how many of the proofs are HiGHS's."""
    problem, y, status, log_joint = one
    ours = qgt.Certified(odds=odds, time_limit=HOUR).bind(problem)(y)
    assert torch.equal(ours.status, status)  # what HiGHS does not settle the search goes on with
    possible = status == qgt.Status.PROVED
    torch.testing.assert_close(ours.evidence.log_joint[possible], log_joint[possible], rtol=1e-12, atol=2e-6)
    checked = qgt.check_certificate(problem, y, ours)
    assert torch.equal(checked, ~ours.evidence.by_highs)
    assert not bool((ours.evidence.by_highs & ours.evidence.complete).any())
    return int(ours.evidence.by_highs.sum())


@pytest.mark.parametrize("odds", [1.0, 20.0])
def test_handed_over_at_once_every_kind_of_problem_gets_the_best_of_every_x(at_once: None, odds: float) -> None:
    seeds = range(some_of(300 if odds == 1 else 60))
    handed = [same_as_every_x(one(seed), odds) for seed in seeds for one in (case, model_case)]
    if odds == 1:
        assert sum(handed) > len(handed) / 20
    else:
        assert sum(handed) == 0  # with an hour left the search completes its lists, and proves all itself


def test_what_highs_proves_has_no_certificate_and_no_complete_list(at_once: None) -> None:
    problem, y = hard()
    alone = qgt.Certified(odds=1.0).bind(problem)(y)
    handed = qgt.Certified(odds=1.0, time_limit=HOUR).bind(problem)(y)
    by_highs = handed.evidence.by_highs
    assert bool(by_highs.any()) and not bool(alone.evidence.by_highs.any())
    torch.testing.assert_close(handed.evidence.log_joint, alone.evidence.log_joint, rtol=1e-12, atol=2e-6)
    assert bool((handed.status == qgt.Status.PROVED).all()) and bool((handed.evidence.gap == 0).all())
    assert torch.equal(qgt.check_certificate(problem, y, handed), ~by_highs)
    kept = qgt.Certified(odds=1.0, time_limit=HOUR, hand_over=False).bind(problem)(y)
    assert bool(qgt.check_certificate(problem, y, kept).all()) and not bool(kept.evidence.by_highs.any())


def late_list(problem: qgt.Problem, y: torch.Tensor, monkeypatch: pytest.MonkeyPatch) -> qgt.Decoded:
    """HiGHS has the best answer, and then the clock runs out before all that come close are listed."""
    ask = stragglers.Stragglers._ask

    def ask_and_stop(self: stragglers.Stragglers, search: object, late: torch.Tensor, deadline: float) -> None:
        ask(self, search, late, deadline)
        monkeypatch.setattr("qgt.decoders.certified.search.time.perf_counter", lambda: math.inf)

    with monkeypatch.context() as patch:
        patch.setattr(stragglers.Stragglers, "_ask", ask_and_stop)
        result = qgt.Certified(time_limit=HOUR).bind(problem)(y)
    monkeypatch.undo()
    return result


def test_a_technician_reads_who_proved_it_and_no_probability(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    problem, y = hard()
    monkeypatch.setattr(stragglers, "SHARE", 0.0)
    result = late_list(problem, y, monkeypatch)
    by_highs = result.evidence.by_highs
    assert bool(by_highs.any()) and not bool(result.evidence.complete[by_highs].any())
    made = qgt.accounts(problem, y, None, result)
    for one, handed in zip(made, by_highs.tolist(), strict=True):
        if handed:
            assert (str(one.verdict), one.confidence, one.plain["proved_by"]) == ("unsure", None, "highs")
            assert "proved by HiGHS, and its proof cannot be checked" in one.words
            assert dict(zip(REPORT_COLUMNS, report_row(one), strict=True))["proved_by"] == "highs"
    qgt.save_certificate(f"{tmp_path}/proof", problem, y, result)
    loaded = qgt.load_certificate(f"{tmp_path}/proof", problem, y)
    assert torch.equal(loaded.evidence.by_highs, by_highs)
    reasons = [one.reason for one in check_sheet(problem, y, None, loaded)]
    assert [reason == UNCHECKED for reason in reasons] == by_highs.tolist()


@pytest.mark.parametrize("boast", ["cheaper than it is", "nothing is possible", "a worse answer is the best"])
def test_what_highs_says_is_not_believed_without_a_look(
    at_once: None, monkeypatch: pytest.MonkeyPatch, boast: str
) -> None:
    problem, y = hard()
    truth = qgt.Certified(odds=1.0).bind(problem)(y)

    def boastful(program: object, costs: object, time_limit: float, known: KnownAnswer) -> Solution:
        x = np.ones(problem.items, dtype=np.uint8) if boast.startswith("a worse") else known.x
        cost = float(-problem.log_joint(torch.from_numpy(x)[None], y[:1])[0])
        if boast.startswith("cheaper"):
            return Solution(x, known.cost - 5.0, known.cost - 5.0, ProgramOutcome.PROVED)
        if boast.startswith("nothing"):
            return Solution(x, math.inf, math.inf, ProgramOutcome.INFEASIBLE)
        return Solution(x, cost, cost, ProgramOutcome.PROVED)

    monkeypatch.setattr(integer_program, "solve", boastful)
    result = qgt.Certified(odds=1.0, time_limit=HOUR).bind(problem)(y)
    assert not bool(result.evidence.by_highs.any())
    torch.testing.assert_close(result.evidence.log_joint, truth.evidence.log_joint, rtol=1e-12, atol=2e-6)


def test_a_known_answer_outside_the_program_stays_unless_a_cheaper_one_is_in_it() -> None:
    problem, y = hard()
    from qgt.decoders.highs import integer_program
    from qgt.model.factors import pool_costs

    tables = integer_program.cost_tables(pool_costs(problem.design, problem.noise, y), 0)
    program = integer_program.program_of(problem)
    best = integer_program.solve(program, tables)
    other = replace(program, upper=np.where(best.x == 1, 0.0, program.upper))  # without the best one
    found = integer_program.solve(other, tables, known=KnownAnswer(best.x, best.cost))
    assert found.outcome == ProgramOutcome.PROVED and (found.x == best.x).all() and found.cost == best.cost
    dear = KnownAnswer(np.zeros_like(best.x), best.cost + 50.0)
    assert integer_program.solve(program, tables, known=dear).cost == pytest.approx(best.cost)
