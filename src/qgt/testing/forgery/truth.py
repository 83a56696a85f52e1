"""What is true of an instance, found without the solver or its checker: the oracle for certificates.

Two questions about a result with its certificate. *Is what it claims false?* Costs come from `Problem.log_joint`, and
near answers from trying every x (up to 14 items) or from an honest decoder. *Does its proof fail to show the claim?*
Membership and bounds are taken x by x, as the definitions say them, which only small problems allow; in larger ones an
x that lies in no leaf is looked for. Where neither is clear (a bound within rounding of a limit), the answer is no.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from qgt.decoders.results import KEPT, Answers, Decoded, Proof, Status
from qgt.model.factors import pool_costs
from qgt.model.prior import FREE, FactoredPrior
from qgt.model.problem import Problem

MOST_ITEMS = 14  # of which every x is tried
FEW_ITEMS = 10  # of which every x is tried in every leaf
CLEAR = 1e-4  # nats by which a claim must be wrong, or a bound short, to be called so
CLEARLY = 1e-5  # of a probability


@dataclass(frozen=True, eq=False)
class Truth:
    """An instance's answers, the most probable first: all whose cost is within `slack` of the least; none if none is.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.1))
        >>> y = torch.tensor([[1.0, 1.0]], dtype=torch.float64)
        >>> truth = Truth.by_trying(problem, y)
        >>> truth.x.tolist(), truth.slack
        ([[0, 1, 0], [1, 0, 1]], inf)
    """

    problem: Problem
    y: Tensor  # (1, pools)
    x: Tensor  # (answers, items)
    cost: Tensor  # (answers,): -log P(x, y)
    slack: float

    @classmethod
    def by_trying(cls, problem: Problem, y: Tensor) -> "Truth":
        """By trying every x."""
        x = every_x(problem.items)
        cost = -problem.log_joint(x, y.expand(len(x), -1))
        order = cost.argsort(stable=True)
        order = order[cost[order].isfinite()]
        return cls(problem, y, x[order], cost[order], math.inf)

    @classmethod
    def of_listed(cls, problem: Problem, y: Tensor, honest: Decoded) -> "Truth":
        """From one instance's complete list of answers, by a decoder that is trusted here."""
        answers = honest.evidence.alternatives
        assert answers is not None and honest.proof is not None
        cost = -problem.log_joint(answers.x, y.expand(len(answers.x), -1))
        order = cost.argsort(stable=True)
        return cls(problem, y, answers.x[order], cost[order], math.log(honest.proof.odds))

    @property
    def possible(self) -> bool:
        """Whether some x explains the counts."""
        return len(self.x) > 0

    @cached_property
    def costs(self) -> dict[bytes, float]:
        """What near answers cost."""
        return {row.tobytes(): cost for row, cost in zip(self.x.numpy(), self.cost.tolist(), strict=True)}

    def cost_of(self, x: Tensor) -> float:
        """What one x costs; infinite where it is impossible."""
        known = self.costs.get(x.numpy().tobytes())
        if known is not None:
            return known
        if bool((x > 1).any()):
            return math.inf
        return self.costs.setdefault(x.numpy().tobytes(), -float(self.problem.log_joint(x[None], self.y)))

    def refutes(self, claimed: Decoded) -> str | None:
        """Why what is claimed is false, in a few words; None where it is true, or not clearly false."""
        status, evidence, proof = int(claimed.status[0]), claimed.evidence, claimed.proof
        assert proof is not None and evidence.alternatives is not None
        if status == Status.INFEASIBLE:
            return "an answer is possible" if self.possible else None
        if status != Status.PROVED:
            return None
        cost = self.cost_of(claimed.x[0])
        if not math.isfinite(cost):
            return "the answer is impossible"
        if cost > float(self.cost[0]) + CLEAR:
            return "another answer is more probable"
        listed = {row.tobytes(): self.cost_of(torch.from_numpy(row)) for row in evidence.alternatives.x.numpy()}
        listed[claimed.x[0].numpy().tobytes()] = cost
        if evidence.complete is not None and bool(evidence.complete[0]):
            reach = min(math.log(proof.odds), self.slack) if proof.odds > 0 else -math.inf
            near = self.x[self.cost < cost + reach - CLEAR]
            if any(row.tobytes() not in listed for row in near.numpy()):
                return "an answer is missing"
        total = math.fsum(math.exp(cost - each) for each in listed.values())
        if evidence.confidence is not None and float(evidence.confidence[0]) > 1 / total + CLEARLY:
            return "the confidence is too high"
        return self._too_probable(evidence.alternatives, cost, total)

    def _too_probable(self, answers: Answers, cost: float, total: float) -> str | None:
        for row, probability in zip(answers.x, answers.probability.tolist(), strict=True):
            if not probability <= math.exp(cost - self.cost_of(row)) / total + CLEARLY:
                return "a probability is too high"
        return None


def every_x(items: int) -> Tensor:
    """All statuses of up to 14 items: (2^items, items), uint8."""
    assert items <= MOST_ITEMS
    return (torch.arange(2**items)[:, None] >> torch.arange(items) & 1).to(torch.uint8)


# --- proofs ---------------------------------------------------------------------------------------------------------


def leaves_out(problem: Problem, proof: Proof, x: Tensor) -> bool:
    """Whether some x, of those given that the prior allows, lies in no leaf of one instance's proof."""
    assert isinstance(problem.prior, FactoredPrior)
    x = x[problem.prior.costs(problem.items).of(x).isfinite()]
    return not bool(_inside(proof, x).any(1).all())


def _inside(proof: Proof, x: Tensor) -> Tensor:
    """Which x lie in which leaf: (x, leaves)."""
    # An item is as it is fixed, or the leaf leaves it free or keeps it: anything else holds no x.
    ones, fixed = x.float(), proof.fixed
    known = (fixed >= FREE) & (fixed <= KEPT + 1)
    apart = ones @ (fixed == 0).float().T + (1 - ones) @ (fixed == 1).float().T  # (x, leaves): items that disagree
    turned = ones @ (fixed == KEPT).float().T + (1 - ones) @ (fixed == KEPT + 1).float().T
    total = x.sum(1, dtype=torch.int64)[:, None]
    held = (turned > 0) | ~_keeps(proof)  # a leaf that keeps items holds the x in which some of them are turned round
    return (apart == 0) & held & known.all(1) & (proof.least <= total) & (total <= proof.most)


def _keeps(proof: Proof) -> Tensor:
    """Which leaves keep items: (leaves,)."""
    return (proof.fixed >= KEPT).any(1)


def in_leaf(problem: Problem, proof: Proof, leaf: int, generator: torch.Generator) -> Tensor | None:
    """Some x of one leaf that the prior allows, drawn at random; None where none was found."""
    assert isinstance(problem.prior, FactoredPrior)
    costs, fixed = problem.prior.costs(problem.items), proof.fixed[leaf]
    if bool(((fixed != FREE) & (costs.known != FREE) & (fixed != costs.known)).any()):
        return None
    kept = (fixed >= KEPT).nonzero().flatten()
    if len(kept):  # turn one of them round, and forget the others
        item = kept[int(torch.randint(len(kept), (), generator=generator))]
        turned = KEPT + 1 - fixed[item]
        fixed = torch.where(fixed >= KEPT, FREE, fixed).to(torch.int8)
        fixed[item] = turned
    fixed = torch.where(fixed == FREE, costs.known, fixed)
    x, free = (fixed == 1).to(torch.uint8), (fixed == FREE).nonzero().flatten()
    least = max(int(proof.least[leaf]), int(x.sum()))
    most = min(int(proof.most[leaf]), int(x.sum()) + len(free))
    if costs.number is not None:
        least, most = max(least, costs.number), min(most, costs.number)
    if least > most:
        return None
    total = int(torch.randint(least, most + 1, (), generator=generator))
    chosen = free[torch.randperm(len(free), generator=generator)][: total - int(x.sum())]
    x[chosen] = 1
    return x


def fails_by_trying(problem: Problem, y: Tensor, claimed: Decoded, every: Tensor, *, item_by_item: bool = True) -> bool:
    """Whether the proof of a claim that is true shows it not, by the definitions: for few items and no steps of cost.

    `every` is all x. A leaf is closed if at most one x of each number of defectives has a bound below the limit, and
    that one is listed or costs as much; a leaf that keeps items, if no x has. With `item_by_item` bounds know what each
    item of an x does to its pools: no checker knows more.
    """
    proof, answers = claimed.proof, claimed.evidence.alternatives
    assert proof is not None and answers is not None and isinstance(problem.prior, FactoredPrior)
    if int(claimed.status[0]) == Status.INFEASIBLE and not bool(problem.explainable(y)[0]):
        return False  # a count that is impossible by itself needs no leaves
    if leaves_out(problem, proof, every):
        return True
    if not bool(proof.pi.isfinite().all()):
        return True
    cost = -problem.log_joint(every, y.expand(len(every), -1))
    limit, listed = math.inf, torch.zeros(len(every), dtype=torch.bool)
    if int(claimed.status[0]) == Status.PROVED:
        complete = claimed.evidence.complete is not None and bool(claimed.evidence.complete[0])
        limit = -float(problem.log_joint(claimed.x, y)) + (math.log(proof.odds) if complete else 0.0)
        names = {row.tobytes() for row in torch.cat([claimed.x, answers.x]).numpy()}
        listed = torch.tensor([row.tobytes() in names for row in every.numpy()])
    else:
        limit = float(cost[cost.isfinite()].max()) if bool(cost.isfinite().any()) else _dear(problem, y)
    below = _bounds(problem, y, proof, every, item_by_item) < limit - CLEAR  # (x, leaves)
    below &= _inside(proof, every)
    if bool((below & _keeps(proof)).any()):
        return True
    below &= ~_keeps(proof)
    spared = listed | (cost >= limit - CLEAR)
    totals = every.sum(1, dtype=torch.int64)
    for total in range(problem.items + 1):
        some = below[totals == total]
        if bool((some.sum(0) > 1).any()) or bool((some & ~spared[totals == total, None]).any()):
            return True
    return False


def _dear(problem: Problem, y: Tensor) -> float:
    """A cost that no x of finite cost has."""
    tables = pool_costs(problem.design, problem.noise, y).of_instance(0)
    assert isinstance(problem.prior, FactoredPrior)
    items = problem.prior.costs(problem.items)
    finite = torch.where(tables.isfinite(), tables, -torch.inf).amax(1).sum()
    rest = [items.total] if items.total is not None else []
    rest += [] if items.groups is None else list(items.groups.tables)
    dearest = sum(float(table[table.isfinite()].max()) for table in rest if bool(table.isfinite().any()))
    return float(finite) + items.constant + float(items.weights.clamp(min=0.0).sum()) + dearest + 1.0


def _bounds(problem: Problem, y: Tensor, proof: Proof, x: Tensor, item_by_item: bool) -> Tensor:
    """What the multipliers of each leaf show of each x: (x, leaves)."""
    assert isinstance(problem.prior, FactoredPrior)
    costs, pi = problem.prior.costs(problem.items), proof.pi.double()
    matrix: NDArray[np.float64] = problem.design.matrix.double().numpy()
    reduced = costs.weights - pi @ torch.from_numpy(matrix)  # (leaves, items)
    numbers = costs.of(x) - x.double() @ costs.weights  # what is no item's by itself: of the total, and of groups
    tables = pool_costs(problem.design, problem.noise, y).of_instance(0)
    pools = torch.full((len(x), len(pi)), -torch.inf, dtype=torch.float64)
    for leaf in range(len(pi)):
        fixed = torch.where(proof.fixed[leaf] >= KEPT, FREE, proof.fixed[leaf])
        pools[:, leaf] = _least_pools(problem, tables, fixed, pi[leaf])
        # One item after the other: its pools have one more at least, or one fewer at most.
        for value in (0, 1) if item_by_item else ():
            for item in (fixed == FREE).nonzero().flatten().tolist():
                known = fixed.clone()
                known[item] = value
                shown = _least_pools(problem, tables, known, pi[leaf])
                some = x[:, item] == value
                pools[some, leaf] = pools[some, leaf].clamp(min=float(shown))
    return numbers[:, None] + x.double() @ reduced.T + pools


def _least_pools(problem: Problem, tables: Tensor, fixed: Tensor, pi: Tensor) -> Tensor:
    """The sum over pools of the least table plus pi times the count, between the counts that fixed items leave."""
    matrix = problem.design.matrix.double()
    lowest = matrix @ (fixed == 1).double()
    highest = lowest + matrix @ (fixed == FREE).double()
    counts = torch.arange(tables.shape[1], dtype=torch.float64)
    inside = (counts >= lowest[:, None]) & (counts <= highest[:, None])
    return torch.where(inside, tables + pi[:, None] * counts, torch.inf).amin(1).sum()


def has_steps(problem: Problem) -> bool:
    """Whether equal items and counts of two costs let a checker round bounds up."""
    assert isinstance(problem.prior, FactoredPrior)
    costs = problem.prior.costs(problem.items)
    return costs.groups is None and bool((costs.weights[costs.known == FREE].diff().abs() < 1e-9).all())
