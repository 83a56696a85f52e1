"""Honest results of small problems, forged in all the ways there are: none must be accepted."""

from collections import Counter

import torch
from torch import Generator, Tensor

import qgt
from forgeries.case import Case
from forgeries.forging import accepted, forged, why_false, witnesses_of
from forgeries.truth import Truth


def cases(problem: qgt.Problem, y: Tensor) -> list[Case]:
    """One case for each instance, with the next one's result to borrow from."""
    full, brief = (qgt.Certified(odds=odds).bind(problem)(y) for odds in (100.0, 1.0))
    made = []
    for i in range(len(y)):
        here, after = torch.tensor([i]), torch.tensor([(i + 1) % len(y)])
        truth = Truth.by_trying(problem, y[i : i + 1])
        made.append(Case(problem, y[i : i + 1], full.pick(here), truth, full.pick(after), brief.pick(here)))
    return made


def expect_only_honest_accepted(some: list[Case], g: Generator) -> Counter[str]:
    """Fail where a forgery is accepted or an honest result is not; the kinds of forgeries that were tried."""
    seen = Counter[str]()
    for case in some:
        assert why_false(case, case.result, witnesses_of(case, g)) is None
        assert accepted(case.problem, case.y, [case.result, case.brief]) == [True, True]
        made = list(forged(case, g))
        for one, through in zip(made, accepted(case.problem, case.y, [one.result for one in made]), strict=True):
            assert not through, f"{one.kind}: {one.why}"
        seen.update(one.kind for one in made)
    return seen
