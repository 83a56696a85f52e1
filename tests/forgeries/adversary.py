"""An adversary: it does not change certificates at random, but looks for one of a false claim that the checker accepts.

A claim is made false first: another answer is called the best, an answer is taken off a complete list, or possible
counts are called impossible. Then leaves and multipliers are changed, again and again, and what brings the certificate
closer to being accepted is kept: the score is the number of x that lie in no leaf which the checker finds closed.
Honest leaves close over everything but the x that speak against the claim, so the adversary soon has one small leaf
that stays open, and tries whatever might close it: other, huge and cancelling multipliers, shares, items kept and
turned, ranges of numbers, an empty list or a long one.

The checker has to withstand it. If somebody breaks the checker on purpose, the adversary should find a certificate in a
few generations; `tests/decoders/certified/test_adversary.py` does so.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from forgeries.case import Case, claiming, listed, one_of, proof_of, with_evidence
from forgeries.forging import Forged, accepted
from forgeries.truth import CLEAR, in_each_leaf
from qgt.decoders.checker import CHECKER_TOLERANCE, InstanceCosts, LeafTable, Shared, closed
from qgt.decoders.results import Answers, Decoded, LeafItem, Proof, Spans, Status
from qgt.model.prior import FREE, FactoredPrior

GENERATIONS = 12
CHILDREN = 8  # of a generation, one of which may become the parent
MOST_LEAVES = 64
KIND = "adversary"
Columns = dict[str, Tensor]  # fixed, least, most, pi and shares of some leaves


class Attack(NamedTuple):
    """How many different certificates of a false claim were tried, and those that were accepted."""

    tried: int
    through: list[Forged]
    left: int  # the fewest x that no closed leaf had


@dataclass(frozen=True, eq=False)
class _Claim:
    """A false claim about one instance, and what the checker compares bounds with."""

    case: Case
    result: Decoded  # with the honest proof
    why: str
    costs: InstanceCosts
    limit: float
    listed: np.ndarray

    @classmethod
    def of(cls, case: Case, result: Decoded, why: str) -> "_Claim":
        factors = case.problem.factors(case.y)
        costs = InstanceCosts.of(Shared.of(factors), factors, 0)
        if int(result.status[0]) == Status.INFEASIBLE:
            return cls(case, result, why, costs, costs.more_than_any, np.zeros((0, case.problem.items), dtype=np.uint8))
        complete = result.evidence.complete is not None and bool(result.evidence.complete[0])
        odds = float(np.log(proof_of(result).odds)) if complete else 0.0
        limit = case.truth.cost_of(result.x[0]) + odds - CHECKER_TOLERANCE
        return cls(case, result, why, costs, limit, np.concatenate([result.x.numpy(), listed(result).x.numpy()]))

    def with_proof(self, leaves: Columns) -> Decoded:
        """The claim with other leaves."""
        spans = Spans(torch.tensor([len(leaves["least"])]))
        return replace(self.result, proof=Proof(proof_of(self.result).odds, spans, **leaves))

    def scored(self, some: list[Columns]) -> list["_Scored"]:
        """Which leaves of each the checker finds closed, and how many x that the prior allows are in none of these."""
        trial, shut = self.case.truth.trial, self._closed(some)
        held = in_each_leaf(proof_of(self.with_proof(_joined([_without_shares(leaves) for leaves in some]))), trial.x)
        held = held & torch.cat(shut)
        apart = held.split([len(leaves["least"]) for leaves in some], 1)
        left = [int((trial.allowed & ~inside.any(1)).sum()) for inside in apart]
        return [_Scored(*one) for one in zip(some, shut, left, strict=True)]

    def _closed(self, some: list[Columns]) -> list[Tensor]:
        """Of leaves with shares together, and of leaves without: one call of the checker takes as long as one leaf."""
        shut = [torch.zeros(0, dtype=torch.bool)] * len(some)
        for width in {leaves["shares"].shape[1] for leaves in some}:
            which = [i for i, leaves in enumerate(some) if leaves["shares"].shape[1] == width]
            table = LeafTable.of(proof_of(self.with_proof(_joined([some[i] for i in which]))))
            found = torch.from_numpy(closed(self.costs, self.limit, self.listed, table))
            for i, part in zip(which, found.split([len(some[i]["least"]) for i in which]), strict=True):
                shut[i] = part
        return shut


def _joined(some: list[Columns]) -> Columns:
    return {name: torch.cat([leaves[name] for leaves in some]) for name in some[0]}


def _without_shares(leaves: Columns) -> Columns:
    return {**leaves, "shares": leaves["shares"][:, :0]}


def attack(case: Case, generator: Generator, *, generations: int = GENERATIONS, children: int = CHILDREN) -> Attack:
    """Look for a certificate of a false claim about one instance that the checker accepts.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.1))
        >>> y = torch.tensor([[1.0, 1.0]], dtype=torch.float64)
        >>> from forgeries.truth import Truth
        >>> honest = qgt.Certified().bind(problem)(y)
        >>> case = Case(problem, y, honest, Truth.by_trying(problem, y), honest, honest)
        >>> found = attack(case, torch.Generator().manual_seed(0))
        >>> found.tried > 20, found.through
        (True, [])
    """
    claim = _false_claim(case, generator)
    if claim is None:
        return Attack(0, [], 0)
    seen: set[bytes] = set()
    through: list[Forged] = []
    best = _judged(claim, [_honest(claim), _one_leaf(claim), _around(claim, generator)], seen, through)
    best = min(best, _judged(claim, [_alone(claim, best)], seen, through), key=lambda one: one.left)
    for _ in range(generations):
        if through:
            break
        born = [_changed(claim, best, generator) for _ in range(children)]
        child = _judged(claim, born, seen, through)
        best = child if child.left <= best.left else best  # equally good ones too: a plateau is walked along
    return Attack(len(seen), through, best.left)


class _Scored(NamedTuple):
    """Leaves, which of them the checker finds closed, and how many x are in none of these."""

    leaves: Columns
    shut: Tensor
    left: int


def _judged(claim: _Claim, some: list[Columns], seen: set[bytes], through: list[Forged]) -> _Scored:
    """Put certificates to the checker; the best of them."""
    results = [claim.with_proof(leaves) for leaves in some]
    seen.update(b"|".join(part.numpy().tobytes() for part in leaves.values()) for leaves in some)
    for result, fine in zip(results, accepted(claim.case.problem, claim.case.y, results), strict=True):
        through += [Forged(KIND, result, claim.why)] if fine else []
    return min(claim.scored(some), key=lambda one: one.left)


# --- false claims ---------------------------------------------------------------------------------------------------


Goal = Callable[[Case, Decoded, Generator], _Claim | None]


def _false_claim(case: Case, g: Generator) -> _Claim | None:
    """One of three kinds, the first more often than the others; None where the case has none."""
    if not case.truth.possible:
        return None
    honest = replace(case.result, evidence=replace(case.result.evidence, log_joint=None, confidence=None))
    honest = _listing(honest, listed(honest).x)
    goals: list[Goal] = [_another_is_best, _another_is_best, _another_is_best, _missing, _impossible]
    for at in torch.randperm(len(goals), generator=g):
        claim = goals[int(at)](case, honest, g)
        if claim is not None:
            return claim
    return None


def _impossible(case: Case, honest: Decoded, g: Generator) -> _Claim | None:
    return _Claim.of(case, claiming(honest, Status.INFEASIBLE), "an answer is possible")


def _missing(case: Case, honest: Decoded, g: Generator) -> _Claim | None:
    """A list that is said to be complete, without one of its answers."""
    near, truth = listed(honest).x, case.truth
    if int(honest.status[0]) != Status.PROVED or len(near) < 2:
        return None
    gone = 1 + one_of(len(near) - 1, g)
    if truth.cost_of(near[gone]) > truth.cost_of(honest.x[0]) + float(np.log(proof_of(honest).odds)) - CLEAR:
        return None
    rest = _listing(honest, near[torch.arange(len(near)) != gone])
    return _Claim.of(case, with_evidence(rest, complete=True), "an answer is missing")


def _another_is_best(case: Case, honest: Decoded, g: Generator) -> _Claim | None:
    """An answer that is less probable than the best, most often only a little: that is hardest to tell."""
    truth = case.truth
    worse = (truth.cost > truth.cost[0] + CLEAR).nonzero().flatten()
    if not len(worse):
        return None
    near = worse[truth.cost[worse] < truth.cost[0] + float(np.log(proof_of(honest).odds))]
    worse = near if len(near) and one_of(4, g) else worse
    chosen = worse[min(int(len(worse) * float(torch.rand((), generator=g)) ** 2), len(worse) - 1)]
    # Honest leaves stay closed where all that is not better is listed.
    also = truth.x[truth.cost >= truth.cost[chosen] - CHECKER_TOLERANCE / 2][: (64, one_of(6, g))[one_of(2, g)]]
    wrong = replace(claiming(with_evidence(honest, complete=False), Status.PROVED), x=truth.x[chosen][None])
    wrong = replace(wrong, proof=replace(proof_of(wrong), odds=1.0))
    return _Claim.of(case, _listing(wrong, also), "another answer is more probable")


def _listing(result: Decoded, x: Tensor) -> Decoded:
    """The result with other answers listed, of which no probability is told."""
    none = torch.zeros(len(x), dtype=torch.float64)
    answers = Answers(Spans(torch.tensor([len(x)])), x, none, none)
    return replace(result, evidence=replace(result.evidence, alternatives=answers))


# --- leaves ---------------------------------------------------------------------------------------------------------


def _honest(claim: _Claim) -> Columns:
    """The leaves of the honest proof, with shares."""
    proof = proof_of(claim.result)
    if not len(proof.least):
        return _one_leaf(claim)
    return {name: getattr(proof, name).clone() for name in ("fixed", "least", "most", "pi", "shares")}


def _one_leaf(claim: _Claim) -> Columns:
    """One leaf of all x, without multipliers."""
    problem, shares = claim.case.problem, proof_of(claim.result).shares
    return {
        "fixed": torch.full((1, problem.items), FREE, dtype=torch.int8),
        "least": torch.zeros(1, dtype=torch.int64),
        "most": torch.full((1,), problem.items),
        "pi": torch.zeros(1, problem.pools),
        "shares": torch.zeros(1, shares.shape[1]),
    }


def _around(claim: _Claim, g: Generator) -> Columns:
    """Leaves in which an item is the first, in some order, that differs from the best x; and the best x alone."""
    best, items = claim.case.truth.x[0].to(torch.int8), claim.case.problem.items
    place = torch.randperm(items, generator=g)
    leaf = torch.arange(items + 1)[:, None]
    fixed = torch.where(place < leaf, best, torch.where(place == leaf, 1 - best, FREE)).to(torch.int8)
    honest = _honest(claim)
    rows = torch.randint(len(honest["least"]), (items + 1,), generator=g)
    every = {"least": torch.zeros(items + 1, dtype=torch.int64), "most": torch.full((items + 1,), items)}
    return {**_rows(honest, rows), "fixed": fixed, **every}


def _alone(claim: _Claim, parent: _Scored) -> Columns:
    """Of each open leaf, the best x that speaks against the claim as a leaf of its own, and the rest of the leaf."""
    leaves, trial = {name: column.clone() for name, column in parent.leaves.items()}, claim.case.truth.trial
    for row in (~parent.shut).nonzero().flatten().tolist():
        fixed = leaves["fixed"][row].clone()
        inside = in_each_leaf(proof_of(claim.with_proof(_rows(leaves, torch.tensor([row])))), trial.x)[:, 0]
        if bool((fixed >= LeafItem.BOX_0).any()) or not bool(inside.any()):
            continue
        own = trial.x[torch.where(inside, trial.cost, torch.inf).argmin()].to(torch.int8)
        free = fixed == FREE
        leaves = _split(
            leaves, row, fixed=[torch.where(free, LeafItem.BOX_0 + own, fixed), torch.where(free, own, fixed)]
        )
    return leaves


def _changed(claim: _Claim, parent: _Scored, g: Generator) -> Columns:
    """A child: one to three changes, most of them to a leaf that is open."""
    leaves, open_ = {name: column.clone() for name, column in parent.leaves.items()}, (~parent.shut).nonzero().flatten()
    row = int(open_[one_of(len(open_), g)]) if len(open_) and one_of(4, g) else one_of(len(parent.shut), g)
    for _ in range(1 + one_of(3, g)):
        leaves = CHANGES[one_of(len(CHANGES), g)](claim, leaves, min(row, len(leaves["least"]) - 1), g)
    return leaves


Change = Callable[[_Claim, Columns, int, Generator], Columns]
CHANGES: list[Change] = []


def _change(function: Change) -> Change:
    CHANGES.append(function)
    return function


def _rows(leaves: Columns, rows: Tensor) -> Columns:
    return {name: column[rows] for name, column in leaves.items()}


def _split(leaves: Columns, row: int, **parts: list[Tensor]) -> Columns:
    """Two leaves in the place of one."""
    if len(leaves["least"]) >= MOST_LEAVES:
        return leaves
    number = torch.arange(len(leaves["least"]))
    made = _rows(leaves, torch.cat([number, torch.tensor([row])]))
    for name, (first, second) in parts.items():
        made[name][row], made[name][-1] = first, second
    return made


@_change
def _nudged(claim: _Claim, leaves: Columns, row: int, g: Generator) -> Columns:
    scale = 10.0 ** (4.5 * float(torch.rand((), generator=g)) - 3)
    leaves["pi"][row] += scale * torch.randn(leaves["pi"].shape[1], generator=g)
    return leaves


@_change
def _one_pool(claim: _Claim, leaves: Columns, row: int, g: Generator) -> Columns:
    leaves["pi"][row, one_of(leaves["pi"].shape[1], g)] = 4 * torch.randn((), generator=g)
    return leaves


@_change
def _scaled(claim: _Claim, leaves: Columns, row: int, g: Generator) -> Columns:
    scale = (0.0, -1.0, 0.5, 1.5, 2.0, 30.0, 1e4, 1e9, 1e20)[one_of(9, g)]
    name = ("pi", "shares")[one_of(2, g)]
    leaves[name][row] = (scale * leaves[name][row]).clamp(-1e38, 1e38)
    return leaves


@_change
def _cancelling(claim: _Claim, leaves: Columns, row: int, g: Generator) -> Columns:
    """Huge multipliers of opposite signs, whose sums lose their digits."""
    pi = leaves["pi"]
    if pi.shape[1] < 2:
        return leaves
    a, b = torch.randperm(pi.shape[1], generator=g)[:2]
    pi[row, a] = 10.0 ** (6 + 20 * float(torch.rand((), generator=g)))
    pi[row, b] = -pi[row, a]
    return leaves


@_change
def _borrowed(claim: _Claim, leaves: Columns, row: int, g: Generator) -> Columns:
    other = proof_of(claim.case.other if one_of(2, g) else claim.case.result)
    if len(other.least) and other.shares.shape[1] == leaves["shares"].shape[1]:
        at = one_of(len(other.least), g)
        leaves["pi"][row], leaves["shares"][row] = other.pi[at], other.shares[at]
    return leaves


@_change
def _shared(claim: _Claim, leaves: Columns, row: int, g: Generator) -> Columns:
    """Shares where there were none, or others."""
    width = claim.case.problem.design.transfers
    if not leaves["shares"].shape[1]:
        leaves["shares"] = torch.zeros(len(leaves["least"]), width)
    scale = 10.0 ** (3 * float(torch.rand((), generator=g)) - 2)
    given = scale * torch.randn(width, generator=g)
    leaves["shares"][row] = given if one_of(2, g) else leaves["shares"][row] + given.abs()
    return leaves


@_change
def _by_item(claim: _Claim, leaves: Columns, row: int, g: Generator) -> Columns:
    """A leaf split by one of its free items."""
    fixed = leaves["fixed"][row]
    free = (fixed == FREE).nonzero().flatten()
    if not len(free) or bool((fixed >= LeafItem.BOX_0).any()):
        return leaves
    item = int(free[one_of(len(free), g)])
    halves = [fixed.clone(), fixed.clone()]
    halves[0][item], halves[1][item] = 0, 1
    return _split(leaves, row, fixed=halves)


@_change
def _by_number(claim: _Claim, leaves: Columns, row: int, g: Generator) -> Columns:
    """A leaf split by the number of defectives."""
    least, most = int(leaves["least"][row].clamp(min=0)), int(leaves["most"][row].clamp(max=claim.case.problem.items))
    if least >= most:
        return leaves
    at = least + one_of(most - least, g)
    return _split(
        leaves,
        row,
        most=[torch.tensor(at), leaves["most"][row].clone()],
        least=[leaves["least"][row].clone(), torch.tensor(at + 1)],
    )


@_change
def _keeping(claim: _Claim, leaves: Columns, row: int, g: Generator) -> Columns:
    """A leaf that keeps some of its free items, and the leaf of what is left."""
    fixed = leaves["fixed"][row].clone()
    if bool((fixed >= LeafItem.BOX_0).any()):
        return leaves
    truth = claim.case.truth
    like = (claim.result.x[0], truth.x[0], truth.x[one_of(min(4, len(truth.x)), g)])[one_of(3, g)].to(torch.int8)
    chosen = (fixed == FREE) & (torch.rand(len(fixed), generator=g) < (0.2, 0.6, 1.0)[one_of(3, g)])
    complement, box = torch.where(chosen, LeafItem.BOX_0 + like, fixed), torch.where(chosen, like, fixed)
    return _split(leaves, row, fixed=[complement, box])


@_change
def _one_item(claim: _Claim, leaves: Columns, row: int, g: Generator) -> Columns:
    """Any other status of an item: the leaves may no longer hold every x."""
    item = one_of(leaves["fixed"].shape[1], g)
    leaves["fixed"][row, item] = (FREE, 0, 1, LeafItem.BOX_0, LeafItem.BOX_1, 4, LeafItem.SOME)[one_of(7, g)]
    return leaves


@_change
def _marking(claim: _Claim, leaves: Columns, row: int, g: Generator) -> Columns:
    """A leaf split by whether some of its free items, those of a group or others, have a defective among them."""
    fixed, items = leaves["fixed"][row], leaves["fixed"].shape[1]
    chosen = torch.rand(items, generator=g) < 0.4
    prior = claim.case.problem.prior
    groups = prior.costs(items).groups if isinstance(prior, FactoredPrior) else None
    if groups is not None and one_of(4, g):
        chosen = groups.group == one_of(len(groups.tables), g)
    chosen = chosen & (fixed == FREE)
    halves = [torch.where(chosen, code, fixed).to(torch.int8) for code in (0, LeafItem.SOME - one_of(3, g))]
    return _split(leaves, row, fixed=halves)


@_change
def _marked_alike(claim: _Claim, leaves: Columns, row: int, g: Generator) -> Columns:
    """Items of several sets, or free ones, in one set: it says less, or the leaf no longer holds every x."""
    fixed = leaves["fixed"][row]
    some = (fixed < FREE) | ((fixed == FREE) & (torch.rand(len(fixed), generator=g) < 0.2))
    leaves["fixed"][row] = torch.where(some, LeafItem.SOME, fixed).to(torch.int8)
    return leaves


@_change
def _range(claim: _Claim, leaves: Columns, row: int, g: Generator) -> Columns:
    leaves[("least", "most")[one_of(2, g)]][row] += one_of(5, g) - 2
    return leaves


@_change
def _without(claim: _Claim, leaves: Columns, row: int, g: Generator) -> Columns:
    number = torch.arange(len(leaves["least"]))
    return _rows(leaves, number[number != row]) if len(number) > 1 else leaves


@_change
def _whole(claim: _Claim, leaves: Columns, row: int, g: Generator) -> Columns:
    """A leaf that holds every x, with multipliers of another."""
    leaves["fixed"][row] = FREE
    leaves["least"][row], leaves["most"][row] = 0, claim.case.problem.items
    return leaves
