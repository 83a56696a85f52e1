"""What is true of an instance, found without the solver or its checker: the oracle for certificates.

Two questions about a result with its certificate. *Is what it claims false?* Costs come from `Problem.log_joint`, and
near answers from trying every x (up to 14 items) or from an honest decoder. *Does its proof fail to show the claim?*
Membership and bounds are taken x by x, as the definitions say them, which only small problems allow; in larger ones an
x that lies in no leaf is looked for. Tables and prior costs are asked of the noise and the prior themselves, and not of
`Problem.factors`, on which solver and checker both stand. Where neither is clear (a bound within rounding of a limit),
the answer is no.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from qgt.decoders.results import Answers, Decoded, LeafItem, Proof, Status
from qgt.model.prior import FREE, FactoredPrior, ItemCosts, Prior
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
        if bool(((x != 0) & (x != 1)).any()):
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
        if evidence.log_joint is not None and not abs(float(evidence.log_joint[0]) + cost) <= CLEAR:
            return "the log joint is another"
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
    return not bool(in_each_leaf(proof, x).any(1).all())


def in_each_leaf(proof: Proof, x: Tensor) -> Tensor:
    """Which x lie in which leaf: (x, leaves)."""
    # An item is as it is fixed, or the leaf leaves it free or keeps it: anything else holds no x.
    ones, fixed = x.float(), proof.fixed
    known = fixed <= LeafItem.BOX_1
    apart = ones @ (fixed == 0).float().T + (1 - ones) @ (fixed == 1).float().T  # (x, leaves): items that disagree
    turned = ones @ (fixed == LeafItem.BOX_0).float().T + (1 - ones) @ (fixed == LeafItem.BOX_1).float().T
    total = x.sum(1, dtype=torch.int64)[:, None]
    held = (turned > 0) | ~_keeps(proof)  # a leaf that keeps items holds the x in which some of them are turned round
    for code in _marks(fixed):
        marked = (fixed == code).float()
        held = held & ((ones @ marked.T > 0) | ~marked.any(1))
    return (apart == 0) & held & known.all(1) & (proof.least <= total) & (total <= proof.most)


def _marks(fixed: Tensor) -> list[int]:
    """The codes of sets of which at least one item is defective."""
    return [code for code in fixed.unique().tolist() if code < FREE]


def _keeps(proof: Proof) -> Tensor:
    """Which leaves keep items: (leaves,)."""
    return (proof.fixed >= LeafItem.BOX_0).any(1)


def in_leaves(problem: Problem, proof: Proof, number: int, generator: torch.Generator) -> Tensor:
    """Up to so many x that the prior allows, each drawn from a leaf of one instance's proof: (rows, items)."""
    assert isinstance(problem.prior, FactoredPrior)
    costs = problem.prior.costs(problem.items)
    leaf = torch.randint(max(1, len(proof.least)), (number if len(proof.least) else 0,), generator=generator)
    fixed = _one_of_each_set(_one_turned(proof.fixed[leaf], generator), generator)
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


def _one_turned(fixed: Tensor, generator: torch.Generator) -> Tensor:
    """Of the items that each row keeps, one drawn at random is fixed to the opposite, and the others are free."""
    kept = fixed >= LeafItem.BOX_0
    keys = torch.rand(fixed.shape, generator=generator, dtype=torch.float64)
    first = torch.where(kept, keys, -1.0).argmax(1, keepdim=True)
    chosen = kept & torch.zeros_like(kept).scatter(1, first, True)
    return torch.where(chosen, LeafItem.BOX_0 + 1 - fixed, torch.where(kept, FREE, fixed)).to(torch.int8)


def _one_of_each_set(fixed: Tensor, generator: torch.Generator) -> Tensor:
    """Of each row's items with the same mark, one drawn at random is fixed to 1, and the others are free."""
    for code in _marks(fixed):
        marked = fixed == code
        keys = torch.rand(fixed.shape, generator=generator, dtype=torch.float64)
        first = torch.where(marked, keys, -1.0).argmax(1, keepdim=True)
        chosen = marked & torch.zeros_like(marked).scatter(1, first, True)
        fixed = torch.where(chosen, 1, torch.where(marked, FREE, fixed)).to(torch.int8)
    return fixed


def fails_by_trying(truth: Truth, claimed: Decoded, *, item_by_item: bool = True) -> bool:
    """Whether the proof of a claim that is true does not show it, by the definitions: for few items.

    A leaf is closed if at most one x of each number of defectives has a bound below the limit, and that one is listed
    or costs as much; a leaf that keeps items, if no x has. With `item_by_item` bounds know what each item of an x does
    to its pools: no checker knows more. Where costs have steps, a bound between two costs is as good as the upper one:
    the costs are those of all x that were tried, and no formula.
    """
    proof, answers, trial = claimed.proof, claimed.evidence.alternatives, truth.trial
    assert proof is not None and answers is not None
    if int(claimed.status[0]) == Status.INFEASIBLE and not bool(truth.problem.explainable(truth.y)[0]):
        return False  # a count that is impossible by itself needs no leaves
    if proof.shares.shape[1] not in (0, truth.problem.design.transfers):
        return True  # it is of another design
    inside = in_each_leaf(proof, trial.x)  # (x, leaves)
    if not bool((inside.any(1) | ~trial.allowed).all()) or not _finite(proof):
        return True
    limit, listed = trial.dear, torch.zeros(len(trial.x), dtype=torch.bool)
    if int(claimed.status[0]) == Status.PROVED:
        complete = claimed.evidence.complete is not None and bool(claimed.evidence.complete[0])
        limit = truth.cost_of(claimed.x[0]) + (math.log(proof.odds) if complete else 0.0)
        named = torch.cat([claimed.x, answers.x])
        listed[(named.long() << torch.arange(named.shape[1])).sum(1)[(named <= 1).all(1)]] = True
    below = (trial.raised(trial.bounds(proof, item_by_item)) < limit - CLEAR) & inside  # (x, leaves)
    if bool((below & _keeps(proof)).any()) or bool((below & ~(listed | (trial.cost >= limit - CLEAR))[:, None]).any()):
        return True
    several = torch.zeros(trial.x.shape[1] + 1, below.shape[1]).index_add_(0, trial.totals, below.float())
    return bool((several > 1).any())


def _finite(proof: Proof) -> bool:
    return bool(proof.pi.isfinite().all()) and bool(proof.shares.isfinite().all())


MOST_PARTS = 100  # of the smallest difference of costs, of which all others may be multiples


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
        cost, tables = -problem.log_joint(x, y.expand(len(x), -1)), tables_of(problem, y)
        return cls(problem, y, x, cost, costs.of(x).isfinite(), x.sum(1, dtype=torch.int64), tables, costs)

    @cached_property
    def prior(self) -> Tensor:
        """What each x costs before any count is seen, by the prior's own `log_prob`."""
        assert isinstance(self.problem.prior, Prior)
        return -self.problem.prior.log_prob(self.x)

    @cached_property
    def stepped(self) -> bool:
        """Whether items weigh the same and all pools' costs are multiples of one step above their least.

        Then a checker may round bounds up. The step is found by trying parts of the smallest difference.
        """
        free = self.costs.weights[self.costs.known == FREE]
        if self.costs.groups is not None or not len(free) or float(free.max() - free.min()) > 1e-9:
            return False
        least = torch.where(self.tables.isfinite(), self.tables, torch.inf).amin(1, keepdim=True)
        above = (self.tables - least)[self.tables.isfinite()]
        above = above[above > 1e-9]
        if not len(above):
            return bool(self.tables.isfinite().any())
        tried = float(above.min()) / torch.arange(1, MOST_PARTS, dtype=torch.float64)
        times = above / tried[:, None]
        return bool((((times - times.round()).abs() * tried[:, None] < 1e-9).all(1) & (tried > 1e-3)).any())

    def raised(self, bounds: Tensor) -> Tensor:
        """Bounds (x, leaves); with steps, each is as good as the next cost that an x of as many defectives has."""
        if not self.stepped:
            return bounds
        found = torch.full_like(bounds, torch.inf)
        for number in self.totals.unique():
            here = self.totals == number
            costs = torch.nn.functional.pad(
                self.cost[here & self.cost.isfinite()].sort().values, (0, 1), value=torch.inf
            )
            found[here] = costs[torch.searchsorted(costs[:-1], bounds[here] + CLEAR)]
        return found

    @property
    def dear(self) -> float:
        """At least what any x of finite cost costs."""
        if bool(self.cost.isfinite().any()):
            return float(self.cost[self.cost.isfinite()].max())
        finite = torch.where(self.tables.isfinite(), self.tables, -torch.inf).amax(1).sum()
        rest = [] if self.costs.total is None else [self.costs.total]
        rest += [] if self.costs.groups is None else list(self.costs.groups.tables)
        dearest = sum(float(table[table.isfinite()].max()) for table in rest if bool(table.isfinite().any()))
        return float(finite) + self.costs.constant + float(self.costs.weights.clamp(min=0.0).sum()) + dearest + 1.0

    def _shares(self, proof: Proof) -> Tensor:
        """What each pool gives to each item in each leaf: (leaves, pools, items)."""
        inside = self.problem.design.matrix > 0
        shares = torch.zeros(len(proof.pi), *inside.shape, dtype=torch.float64)
        if proof.shares.shape[1]:
            shares[:, inside] = proof.shares.double()
        return shares

    def _most_shared(self, shares: Tensor, fixed: Tensor) -> Tensor:
        """The most that 0, 1, ... items of each pool can have of its shares: (leaves, pools, counts)."""
        inside, statuses = self.problem.design.matrix > 0, fixed[:, None]
        ones = (shares * (statuses == 1)).sum(2)
        value = torch.where((statuses == FREE) & inside, shares, -torch.inf).sort(2, descending=True).values
        most = torch.nn.functional.pad(value.cumsum(2), (1, 0))  # of so many free items
        number = torch.arange(self.tables.shape[1]) - ((statuses == 1) & inside).sum(2)[:, :, None]
        # Numbers that a leaf does not have are not asked for.
        found = most.gather(2, number.clamp(0, most.shape[2] - 1)) + ones[:, :, None]
        return torch.where(found.isfinite(), found, 0.0)

    def bounds(self, proof: Proof, item_by_item: bool) -> Tensor:
        """What the multipliers of each leaf show of each x, the most by one of its items at a time: (x, leaves)."""
        pi, matrix = proof.pi.double(), self.problem.design.matrix.double()
        fixed = torch.where((proof.fixed >= LeafItem.BOX_0) | (proof.fixed < FREE), FREE, proof.fixed)
        shares = self._shares(proof)  # (leaves, pools, items)
        reduced = self.costs.weights - pi @ matrix + shares.sum(1)  # (leaves, items)
        numbers = self.prior - self.x.double() @ self.costs.weights  # of the total and of groups
        lowest = (fixed == 1).double() @ matrix.T  # (leaves, pools)
        highest = lowest + (fixed == FREE).double() @ matrix.T
        counts = torch.arange(self.tables.shape[1], dtype=torch.float64)
        costs = self.tables + pi[:, :, None] * counts - self._most_shared(shares, fixed)  # (leaves, pools, counts)

        def least(low: Tensor, high: Tensor) -> Tensor:
            within = (counts >= low[:, :, None]) & (counts <= high[:, :, None])
            return torch.where(within, costs, torch.inf).amin(2)

        any_, fewer, more = least(lowest, highest), least(lowest, highest - 1), least(lowest + 1, highest)
        pools = any_.sum(1).expand(len(self.x), -1)
        for item in (
            range(fixed.shape[1]) if item_by_item else ()
        ):  # whose pools have one more at least, or one fewer at most
            own = matrix[:, item] > 0
            at_0, at_1 = torch.where(own, fewer, any_).sum(1), torch.where(own, more, any_).sum(1)
            shown = torch.where(self.x[:, item, None] == 1, at_1, at_0)  # (x, leaves)
            pools = torch.where(fixed[:, item] == FREE, torch.maximum(pools, shown), pools)
        return numbers[:, None] + self.x.double() @ reduced.T + pools


def tables_of(problem: Problem, y: Tensor) -> Tensor:
    """What the counts of one instance cost, asked of the noise itself: (pools, counts), infinite beyond a size."""
    sizes, missing = problem.design.pool_sizes.to(torch.float64), y[0].isnan()
    counts = torch.arange(int(sizes.max()) + 1, dtype=torch.float64)[:, None]  # (counts, 1)
    each = -problem.noise.log_prob(torch.where(missing, counts, y[0]), counts, sizes)  # (counts, pools)
    tables = torch.where(missing, 0.0, each.expand(len(counts), len(sizes)))
    return torch.where(counts <= sizes, tables, torch.inf).T.contiguous()
