"""What searches found in a batch, and that as a result: statuses, probabilities, lists and proofs."""

from dataclasses import dataclass

import torch
from torch import Tensor

from qgt.decoders.certified.branching import Search
from qgt.decoders.certified.levels import CLOSE, coarse
from qgt.decoders.certified.nodes import Found, Leaves
from qgt.decoders.results import Answers, Decoded, Evidence, Proof, Spans, Status
from qgt.model.prior import Prior
from qgt.model.problem import Problem


@dataclass(frozen=True, eq=False)
class Outcome:
    """What is known of each instance of a batch."""

    best: Tensor  # (instances,), float64: what the answer costs
    answer: Tensor  # (instances, items), uint8
    none_found: Tensor  # (instances,), bool: no possible x was found
    unexplored: Tensor  # (instances,), float64: no x that was not looked at costs less; infinite where there is none
    by_highs: Tensor  # (instances,), bool: HiGHS says that nothing costs less
    coarse: Tensor  # (instances,), bool: costs are too large for float64, and nothing is proved
    limit: Tensor  # (instances,), float64: what costs less is listed
    found: list[Found]
    leaves: list[Leaves] | None  # None where no proofs are kept

    @classmethod
    def of(cls, search: Search, nothing: Tensor, by_highs: Tensor) -> "Outcome":
        """What a search found; what is still open is a leaf too, shown as far as it was. No x costs `nothing`."""
        best, answer = search.best, search.answer
        unexplored = search.unexplored()
        unexplored = torch.where(search.eased, torch.minimum(unexplored, best + search.rough), unexplored)
        leaves = [*search.leaves, *search.open_leaves()] if search.keep_leaves else None
        limit = best + search.slack - CLOSE
        none_found, too_large = best >= nothing, coarse(search.tables.costs, search.tables.which)
        return cls(best, answer, none_found, unexplored, by_highs, too_large, limit, search.found, leaves)


def decoded(problem: Problem, y: Tensor, outcome: Outcome, odds: float) -> Decoded:
    """An outcome as a result."""
    listed, none_found, unexplored = odds > 1, outcome.none_found, outcome.unexplored
    complete = unexplored == torch.inf
    own = complete | (outcome.best - unexplored <= CLOSE) & ~none_found
    by_highs = outcome.by_highs & ~own & ~none_found
    closed = own | by_highs
    status = torch.where(closed, Status.PROVED, Status.TIME_LIMIT)
    status = torch.where(none_found & complete, Status.INFEASIBLE, status).to(torch.uint8)

    answers = _answers(outcome)
    spans, _ = Spans.of(answers.owner, len(y))  # they are in order already
    first = (spans.ends - spans.numbers)[~none_found]  # each list's most probable one
    x = outcome.answer.clone()
    x[~none_found] = answers.x[first]
    owner, cost = answers.owner, answers.cost
    weight = (outcome.best[owner] - cost).exp()
    weight = weight / torch.zeros_like(outcome.best).index_add_(0, owner, weight)[owner]
    confidence = torch.zeros_like(outcome.best)
    confidence[~none_found] = weight[first]
    marginals = torch.zeros_like(x, dtype=torch.float64)
    marginals.index_add_(0, owner, weight[:, None] * answers.x).clamp_(max=1.0)
    if isinstance(problem.prior, Prior):
        marginals[none_found] = problem.prior.marginals(problem.items).to(y.device)
    log_joint = problem.log_joint(x, y)
    precise = ~outcome.coarse & (problem.blur(x, y) <= CLOSE / 2)
    agrees = none_found | ((log_joint + outcome.best).abs() <= CLOSE) & precise  # recomputed from the problem itself
    status = torch.where((status == Status.PROVED) & ~agrees, Status.OK, status).to(torch.uint8)
    differing = torch.zeros_like(x, dtype=torch.int32).index_add_(0, owner, (answers.x != x[owner]).int())
    evidence = Evidence(
        log_joint=log_joint,
        bound=torch.where(closed, log_joint, -unexplored),
        complete=complete & listed & agrees,
        confidence=confidence if listed else None,
        unsettled=differing > 0,
        alternatives=Answers(spans, answers.x, -cost, weight),
        by_highs=by_highs & (status == Status.PROVED),
    )
    proof = None if outcome.leaves is None else _proof(problem, outcome, outcome.leaves, odds)
    return Decoded(x, status, marginals if listed else None, evidence, proof)


def _answers(outcome: Outcome) -> Found:
    """All answers within the limit, by instance, the most probable first.

    Of equally probable ones the first binary number comes first, so that batches of any size give the same answer.
    """
    instances = torch.arange(len(outcome.best), device=outcome.best.device)
    some = ~outcome.none_found
    known = Found(instances[some], outcome.answer[some], outcome.best[some])
    owner, x, cost = (torch.cat(parts) for parts in zip(known, *outcome.found, strict=True))
    again = (x == outcome.answer[owner]).all(1)
    again[: len(known.owner)] = False  # the leaf that found the answer lists it once more
    keep = (cost < outcome.limit[owner]) & ~again
    keep[: len(known.owner)] = True
    owner, x, cost = owner[keep], x[keep], cost[keep]
    tied = cost <= outcome.best[owner] + CLOSE
    shared = tied & (torch.zeros_like(instances).index_add_(0, owner, tied.long())[owner] > 1)
    number = torch.zeros_like(owner)
    if bool(shared.any()):
        number[shared] = x[shared].unique(dim=0, return_inverse=True)[1]
    order = number.argsort(stable=True)
    order = order[torch.where(tied, outcome.best[owner], cost)[order].argsort(stable=True)]
    order = order[owner[order].argsort(stable=True)]
    return Found(owner[order], x[order], cost[order])


def _proof(problem: Problem, outcome: Outcome, leaves: list[Leaves], odds: float) -> Proof:
    """The leaves of each instance's tree."""
    device = outcome.best.device
    number = torch.zeros(0, dtype=torch.int64, device=device)
    none = outcome.answer[:0].to(torch.int8)
    nothing = Leaves(number, none, number, number, torch.zeros(0, problem.pools, device=device), none[:, :0].float())
    parts = zip(*(leaves or [nothing]), strict=True)
    owner, fixed, least, most, pi, shares = (torch.cat(part) for part in parts)
    spans, order = Spans.of(owner, len(outcome.best))
    return Proof(odds, spans, fixed[order], least[order], most[order], pi[order], shares[order])
