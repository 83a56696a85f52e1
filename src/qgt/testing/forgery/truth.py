"""What is true of an instance, found without the solver or its checker: the oracle for certificates.

Two questions about a result with its certificate. *Is what it claims false?* Costs come from `Problem.log_joint`, and
near answers from trying every x (up to 14 items) or from an honest decoder. *Does its proof fail to show the claim?*
Membership and bounds are taken x by x, as the definitions say them, which only small problems allow; in larger ones an
x that lies in no leaf is looked for. Where neither is clear (a bound within rounding of a limit), the answer is no.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from qgt.decoders.results import Answers, Decoded, Proof, Status
from qgt.model.factors import pool_costs
from qgt.model.prior import FREE, FactoredPrior, ItemCosts
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

    @cached_property
    def trial(self) -> "Trial":
        """Every x, where they are few."""
        return Trial.of(self.problem, self.y)

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
    # An item is as it is fixed, or the leaf leaves it free: anything else holds no x.
    ones, fixed = x.float(), proof.fixed
    known = (fixed == FREE) | (fixed == 0) | (fixed == 1)
    apart = ones @ (fixed == 0).float().T + (1 - ones) @ (fixed == 1).float().T  # (x, leaves): items that disagree
    total = x.sum(1, dtype=torch.int64)[:, None]
    return (apart == 0) & known.all(1) & (proof.least <= total) & (total <= proof.most)


def in_leaves(problem: Problem, proof: Proof, number: int, generator: torch.Generator) -> Tensor:
    """Up to so many x that the prior allows, each drawn from a leaf of one instance's proof: (rows, items)."""
    assert isinstance(problem.prior, FactoredPrior)
    costs = problem.prior.costs(problem.items)
    leaf = torch.randint(max(1, len(proof.least)), (number if len(proof.least) else 0,), generator=generator)
    fixed = proof.fixed[leaf]
    sound = ~((fixed != FREE) & (costs.known != FREE) & (fixed != costs.known)).any(1)
    fixed = torch.where(fixed == FREE, costs.known, fixed)
    ones, free = (fixed == 1).sum(1), fixed == FREE
    least, most = torch.maximum(proof.least[leaf], ones), torch.minimum(proof.most[leaf], ones + free.sum(1))
    if costs.number is not None:
        least, most = least.clamp(min=costs.number), most.clamp(max=costs.number)
    part = torch.rand(len(leaf), generator=generator, dtype=torch.float64)
    wanted = least + (part * (most - least + 1)).long() - ones  # of the free items
    keys = torch.rand(fixed.shape, generator=generator, dtype=torch.float64)
    rank = torch.where(free, keys, torch.inf).argsort(1).argsort(1)
    x = (fixed == 1) | (free & (rank < wanted[:, None]))
    return x[sound & (least <= most)].to(torch.uint8)


def fails_by_trying(truth: Truth, claimed: Decoded) -> bool:
    """Whether the proof of a claim that is true shows it not, by the definitions: for few items and no steps of cost.

    A leaf is closed if at most one x of each number of defectives has a bound below the limit, and that one is listed
    or costs as much.
    """
    proof, answers, trial = claimed.proof, claimed.evidence.alternatives, truth.trial
    assert proof is not None and answers is not None
    if int(claimed.status[0]) == Status.INFEASIBLE and not bool(truth.problem.explainable(truth.y)[0]):
        return False  # a count that is impossible by itself needs no leaves
    inside = _inside(proof, trial.x)  # (x, leaves)
    if not bool((inside.any(1) | ~trial.allowed).all()) or not bool(proof.pi.isfinite().all()):
        return True
    limit, listed = trial.dear, torch.zeros(len(trial.x), dtype=torch.bool)
    if int(claimed.status[0]) == Status.PROVED:
        complete = claimed.evidence.complete is not None and bool(claimed.evidence.complete[0])
        limit = truth.cost_of(claimed.x[0]) + (math.log(proof.odds) if complete else 0.0)
        named = torch.cat([claimed.x, answers.x])
        listed[(named.long() << torch.arange(named.shape[1])).sum(1)[(named <= 1).all(1)]] = True
    below = (trial.bounds(proof) < limit - CLEAR) & inside  # (x, leaves)
    if bool((below & ~(listed | (trial.cost >= limit - CLEAR))[:, None]).any()):
        return True
    several = torch.zeros(trial.x.shape[1] + 1, below.shape[1]).index_add_(0, trial.totals, below.float())
    return bool((several > 1).any())


@dataclass(frozen=True, eq=False)
class Trial:
    """Every x of one instance of few items, and what proofs of it are held against."""

    problem: Problem
    y: Tensor  # (1, pools)
    x: Tensor  # (every x, items)
    cost: Tensor
    allowed: Tensor  # by the prior
    totals: Tensor  # numbers of defectives
    tables: Tensor  # (pools, counts), infinite beyond a pool's size
    costs: ItemCosts

    @classmethod
    def of(cls, problem: Problem, y: Tensor) -> "Trial":
        """Try them all."""
        assert isinstance(problem.prior, FactoredPrior)
        x, costs = every_x(problem.items), problem.prior.costs(problem.items)
        tables, sizes = pool_costs(problem.design, problem.noise, y).of_instance(0), problem.design.pool_sizes
        tables = torch.where(torch.arange(tables.shape[1]) <= sizes[:, None], tables, torch.inf)
        cost = -problem.log_joint(x, y.expand(len(x), -1))
        return cls(problem, y, x, cost, costs.of(x).isfinite(), x.sum(1, dtype=torch.int64), tables, costs)

    @property
    def dear(self) -> float:
        """At least what any x of finite cost costs."""
        if bool(self.cost.isfinite().any()):
            return float(self.cost[self.cost.isfinite()].max())
        finite = torch.where(self.tables.isfinite(), self.tables, -torch.inf).amax(1).sum()
        return float(finite) + self.costs.base + float(self.costs.weights.clamp(min=0.0).sum()) + 1.0

    def bounds(self, proof: Proof) -> Tensor:
        """What the multipliers of each leaf show of each x: (x, leaves)."""
        pi = proof.pi.double()
        reduced = self.costs.weights - pi @ self.problem.design.matrix.double()  # (leaves, items)
        counts = torch.arange(self.tables.shape[1], dtype=torch.float64)
        pools = (self.tables + pi[:, :, None] * counts).amin(2).sum(1)
        return self.costs.base + self.x.double() @ reduced.T + pools


def has_steps(problem: Problem) -> bool:
    """Whether equal items and counts of two costs let a checker round bounds up."""
    assert isinstance(problem.prior, FactoredPrior)
    costs = problem.prior.costs(problem.items)
    return bool((costs.weights[costs.known == FREE].diff().abs() < 1e-9).all())
