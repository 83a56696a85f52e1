"""Certificates whose answer, list, confidence or status was changed."""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Generator, Tensor

from forgeries.case import (
    Case,
    Forger,
    answer_only,
    claiming,
    listed,
    one_of,
    proof_of,
    with_answers,
    with_evidence,
    with_leaves,
)
from qgt.decoders.results import Decoded, Status
from qgt.model.prior import FREE

ANSWERS: dict[str, Forger] = {}
ABOUT_LOG_JOINT = {"log joint: another"}  # kinds that tell a log joint; elsewhere it is made right for the new answer


def _kind(name: str) -> Callable[[Forger], Forger]:
    def add(forger: Forger) -> Forger:
        ANSWERS[name] = forger
        return forger

    return add


# --- the answer -----------------------------------------------------------------------------------------------------


def _answered(case: Case, x: Tensor) -> Decoded:
    return replace(claiming(case.result, Status.PROVED), x=x[None].to(torch.uint8))


@_kind("answer: a listed alternative")
def _alternative(case: Case, g: Generator) -> Decoded | None:
    x = listed(case.result).x
    return _answered(case, x[1 + one_of(len(x) - 1, g)]) if len(x) > 1 else None


@_kind("answer: a listed alternative, the best one no longer listed")
def _alternative_alone(case: Case, g: Generator) -> Decoded | None:
    near = listed(case.result)
    if len(near.x) < 2:
        return None
    swapped = _answered(case, near.x[1 + one_of(len(near.x) - 1, g)])
    return with_answers(swapped, near.x[1:], near.probability[1:])


@_kind("answer: random")
def _random_answer(case: Case, g: Generator) -> Decoded:
    density = float(torch.rand((), generator=g)) * 0.5
    return _answered(case, torch.rand(case.problem.items, generator=g) < density)


@_kind("answer: none defective")
def _nothing(case: Case, g: Generator) -> Decoded:
    return _answered(case, torch.zeros(case.problem.items))


@_kind("answer: none defective, nothing else claimed")
def _nothing_else(case: Case, g: Generator) -> Decoded:
    return answer_only(_answered(case, torch.zeros(case.problem.items)))


def _one_changed(case: Case, g: Generator) -> Decoded:
    x = case.result.x[0].clone()
    x[one_of(len(x), g)] ^= 1
    return _answered(case, x)


@_kind("answer: one item changed")
def _flipped(case: Case, g: Generator) -> Decoded:
    return _one_changed(case, g)


@_kind("answer: two items exchanged")
def _exchanged(case: Case, g: Generator) -> Decoded | None:
    x = case.result.x[0].clone()
    on, off = x.nonzero().flatten(), (x == 0).nonzero().flatten()
    if not len(on) or not len(off):
        return None
    x[on[one_of(len(on), g)]], x[off[one_of(len(off), g)]] = 0, 1
    return _answered(case, x)


@_kind("answer: that of another instance")
def _others_answer(case: Case, g: Generator) -> Decoded:
    return _answered(case, case.other.x[0])


@_kind("answer: not of zeros and ones")
def _two(case: Case, g: Generator) -> Decoded:
    x = case.result.x[0].clone()
    x[one_of(len(x), g)] = 2 + one_of(254, g)
    return _answered(case, x)


@_kind("answer: of another type, with entries that are neither 0 nor 1")
def _other_type(case: Case, g: Generator) -> Decoded:
    x, item = case.result.x[0], one_of(case.problem.items, g)
    if one_of(2, g):
        odd = x.to(torch.int8)
        odd[item] = -1 - one_of(2, g)
    else:
        odd = x.to(torch.float64)
        odd[item] = 0.5
    return replace(claiming(case.result, Status.PROVED), x=odd[None])


@_kind("answer: wrong, and huge multipliers")
def _huge(case: Case, g: Generator) -> Decoded:
    pi = proof_of(case.result).pi
    scale = 10.0 ** float(38 * torch.rand((), generator=g))
    return with_leaves(_one_changed(case, g), pi=(scale * torch.randn(pi.shape, generator=g)).clamp(-3e38, 3e38))


@_kind("answer: wrong, and one leaf that holds every x")
def _one_leaf(case: Case, g: Generator) -> Decoded:
    problem, all_ = case.problem, torch.tensor([case.problem.items])
    columns = {
        "fixed": torch.full((1, problem.items), FREE, dtype=torch.int8),
        "least": torch.zeros_like(all_),
        "most": all_,
        "pi": 3 * torch.randn(1, problem.pools, generator=g),
    }
    return with_leaves(answer_only(_one_changed(case, g)), **columns)


# --- odds and lists -------------------------------------------------------------------------------------------------


def _with_odds(result: Decoded, odds: float) -> Decoded:
    return replace(result, proof=replace(proof_of(result), odds=odds))


@_kind("odds: larger than were searched")
def _larger_odds(case: Case, g: Generator) -> Decoded:
    odds = proof_of(case.result).odds * 10.0 ** (198 * float(torch.rand((), generator=g)) ** 4)
    return _with_odds(with_evidence(case.result, complete=True), odds)


@_kind("odds: below 1 or no number")
def _no_odds(case: Case, g: Generator) -> Decoded:
    values = (0.0, -1.0, 0.99, math.nan, math.inf, -math.inf, 1e-300, -0.0)
    wrong = _answered(case, torch.zeros(case.problem.items))
    return _with_odds(wrong, values[one_of(len(values), g)])


@_kind("list: a proof of odds 1 or of less time, said to be complete")
def _weaker(case: Case, g: Generator) -> Decoded:
    raised = _with_odds(claiming(case.brief, Status.PROVED), proof_of(case.result).odds)
    return with_evidence(raised, complete=True)


@_kind("list: an alternative dropped")
def _dropped(case: Case, g: Generator) -> Decoded | None:
    near = listed(case.result)
    if len(near.x) < 2:
        return None
    keep = torch.arange(len(near.x)) != 1 + one_of(len(near.x) - 1, g)
    rest = near.probability[keep]
    made = with_answers(case.result, near.x[keep], rest / rest.sum())
    return with_evidence(made, complete=True, confidence=float(rest[0] / rest.sum()))


@_kind("list: only the answer left")
def _alone(case: Case, g: Generator) -> Decoded | None:
    near = listed(case.result)
    if len(near.x) < 2:
        return None
    made = with_answers(case.result, near.x[:1], torch.ones(1, dtype=torch.float64))
    return with_evidence(made, complete=True, confidence=1.0)


@_kind("list: a fake answer with a probability of its own")
def _fake(case: Case, g: Generator) -> Decoded:
    near = listed(case.result)
    fake = (torch.rand(1, case.problem.items, generator=g) < 0.3).to(torch.uint8)
    probability = torch.cat([near.probability, torch.rand(1, generator=g).double()])
    return with_answers(case.result, torch.cat([near.x, fake]), probability)


@_kind("list: probabilities raised")
def _probable(case: Case, g: Generator) -> Decoded | None:
    near = listed(case.result)
    if not len(near.x):
        return None
    probability = near.probability.clone()
    probability[one_of(len(probability), g)] += float(torch.rand((), generator=g))
    return with_answers(case.result, near.x, probability)


@_kind("confidence: raised")
def _confident(case: Case, g: Generator) -> Decoded | None:
    if case.result.evidence.confidence is None:
        return None
    now = float(case.result.evidence.confidence[0])
    part = (1.0, float(torch.rand((), generator=g)), math.nan)[one_of(3, g)]
    return with_evidence(case.result, confidence=now + (1 - now) * part if part == part else math.inf)


@_kind("log joint: another")
def _log_joint(case: Case, g: Generator) -> Decoded | None:
    if case.result.evidence.log_joint is None:
        return None
    change = (1e-3, -1.0, 100.0, math.nan)[one_of(4, g)]
    return replace(
        case.result, evidence=replace(case.result.evidence, log_joint=case.result.evidence.log_joint + change)
    )


# --- the status -----------------------------------------------------------------------------------------------------


@_kind("status: possible counts said to be impossible")
def _impossible(case: Case, g: Generator) -> Decoded:
    return claiming(case.result, Status.INFEASIBLE)


@_kind("status: impossible counts said to be proved")
def _proved(case: Case, g: Generator) -> Decoded | None:
    return _answered(case, torch.rand(case.problem.items, generator=g) < 0.2) if not case.truth.possible else None


@_kind("status: proved, where time ran out")
def _out_of_time(case: Case, g: Generator) -> Decoded | None:
    return claiming(case.brief, Status.PROVED) if int(case.brief.status[0]) == Status.TIME_LIMIT else None
