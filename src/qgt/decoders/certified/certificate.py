"""Checking proofs without the solver that made them: plain sums, no search, no optimisation.

A certificate is a list of leaves, sets of x, for each instance: some items fixed, the number of defectives k between
two numbers, and multipliers pi of the pools. It proves what is claimed of the instance if

1. the leaves hold every x: for each k, they split the cube {0, 1}^N item by item;
2. each leaf excludes what is not listed: for every x of k defectives in it, with r_j = w_j - (A' pi)_j,

       cost(x) = constant + sum_j w_j x_j + sum_i f_i((A x)_i)
              >= constant + sum of the fixed r_j + the least free r_j, as many as make k
                          + sum_i min over c of (f_i(c) + pi_i c)  =:  bound,

   reaches the limit (the answer's cost plus log odds); or all but one x of the leaf do, for any other swaps a free item
   for another, at the cost of the difference of their r_j; and that one is listed, or costs as much as the limit.

Where all items weigh the same and a count costs one of two values, the costs of x with k defectives have steps, and a
bound above the last step below the limit reaches it. Sums are in float64; `MARGIN` is far more than they round off.
"""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float64
from numpy.typing import NDArray
from torch import Tensor

from qgt.arguments import positive
from qgt.decoders.results import Decoded, Proof, Status
from qgt.model.factors import Factors
from qgt.model.prior import FREE, FactoredPrior
from qgt.model.problem import Problem

MARGIN = 1e-7
CLOSE = 2e-6  # an x that is more probable by a factor of 1.000002 counts as equally probable

Floats = NDArray[np.float64]


def check_certificate(
    problem: Problem, y: Float64[Tensor, "instances pools"], result: Decoded, *, odds: float = 1.0
) -> Bool[Tensor, " instances"]:
    """Whether each instance's certificate proves that its answer is the most probable x, or that no x is possible.

    With `odds` above 1, also that every x more than 1/odds as probable as the answer is listed among its
    alternatives. An instance whose status claims no proof has none.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.1))
        >>> y = torch.tensor([[1.0, 1.0]], dtype=torch.float64)
        >>> result = qgt.Certified().bind(problem)(y)
        >>> check_certificate(problem, y, result), check_certificate(problem, y + 1, result)
        (tensor([True]), tensor([False]))
    """
    if result.proof is None or result.evidence.alternatives is None:
        raise ValueError("the result has no certificates: decode with Certified(certificates=True).")
    if not positive("odds", odds) >= 1:
        raise ValueError(f"odds={odds} is not valid: give 1 or more.")
    if len(y) != len(result.x):
        raise ValueError(f"y has {len(y)} instances, but the result has {len(result.x)}: give the counts it is for.")
    if not isinstance(problem.prior, FactoredPrior):
        raise ValueError(f"{problem.prior} is not a sum over items: certificates are for Bernoulli and FixedWeight.")
    factors, own, proof = problem.factors(y.cpu()), result.x.cpu().numpy(), result.proof
    proved = [
        _proves(
            _Costs.of(factors, i),
            own[i],
            Status(status),
            result.evidence.alternatives.of_instance(i).x.cpu().numpy(),
            _Leaves.of(proof.of_instance(i)),
            odds,
        )
        for i, status in enumerate(result.status.tolist())
    ]
    return torch.tensor(proved, dtype=torch.bool)


class _Leaves(NamedTuple):
    """One instance's leaves."""

    fixed: NDArray[np.int8]
    least: NDArray[np.int64]
    most: NDArray[np.int64]
    pi: Floats

    @classmethod
    def of(cls, proof: Proof) -> "_Leaves":
        fixed, least, most, pi = (part.cpu().numpy() for part in (proof.fixed, proof.least, proof.most, proof.pi))
        return cls(fixed, least, most, pi.astype(np.float64))


class _Costs(NamedTuple):
    """The cost of x, from the problem alone."""

    matrix: Floats
    weights: Floats
    known: NDArray[np.int8]
    total: int | None
    constant: float
    tables: Floats  # (pools, counts), infinite where impossible

    @classmethod
    def of(cls, factors: Factors, instance: int) -> "_Costs":
        """One instance's costs; a pool has no more defectives than items."""
        items, sizes = factors.items, factors.design.pool_sizes.cpu()
        tables = factors.pools.of_instance(instance).cpu()
        tables = torch.where(torch.arange(tables.shape[1]) <= sizes[:, None], tables, torch.inf)
        matrix = factors.design.matrix.cpu().numpy().astype(np.float64)
        return cls(matrix, items.weights.numpy(), items.known.numpy(), items.number, items.base, tables.numpy())

    def of_x(self, x: NDArray[np.uint8]) -> Floats:
        """The costs of whole x: (rows,)."""
        possible = ((self.known == FREE) | (self.known == x)).all(1) & (x <= 1).all(1)
        if self.total is not None:
            possible &= x.sum(1, dtype=np.int64) == self.total
        counts = (np.minimum(x, 1).astype(np.float64) @ self.matrix.T).astype(np.int64)
        pools = self.tables[np.arange(len(self.tables)), counts].sum(1)
        return np.asarray(np.where(possible, self.constant + x @ self.weights + pools, np.inf))

    def enough(self, limit: float) -> Floats:
        """The bound at which no x of 0, 1, ... defectives costs less than the limit: (items + 1,)."""
        free, finite = self.known == FREE, self.tables[np.isfinite(self.tables)]
        k = np.arange(len(self.known) + 1)
        low, high = (finite.min(), finite.max()) if len(finite) else (0.0, 0.0)
        two = len(finite) > 0 and np.minimum(finite - low, high - finite).max() < 1e-12 and high - low > 1e-3
        if not two or not free.any() or np.ptp(self.weights[free]) > 0:
            return np.full(len(k), limit)
        base = self.constant + self.weights[free][0] * (k - (self.known == 1).sum()) + len(self.tables) * low
        steps = np.ceil((limit - base) / (high - low)) - 1
        return np.where(steps >= 0, base + (high - low) * steps + MARGIN, -np.inf)


def _proves(
    costs: _Costs, x: NDArray[np.uint8], status: Status, listed: NDArray[np.uint8], leaves: _Leaves, odds: float
) -> bool:
    """Whether one instance's leaves prove its claim."""
    if status not in (Status.PROVED, Status.INFEASIBLE) or not np.isfinite(costs.tables).any(1).all():
        return status == Status.INFEASIBLE  # a pool whose count is impossible needs no tree
    known, limit = np.zeros((0, len(x)), dtype=np.uint8), _more_than_any(costs)
    if status == Status.PROVED:
        cost = float(costs.of_x(x[None])[0])
        if not np.isfinite(cost):
            return False
        if len(listed) and costs.of_x(listed).min() < cost - CLOSE:
            return False  # an answer that is listed and more probable
        known, limit = np.concatenate([x[None], listed]), cost + float(np.log(odds)) - CLOSE
    return _hold_all(costs, leaves) and _exclude_all(costs, limit, known, leaves)


def _more_than_any(costs: _Costs) -> float:
    """More than any possible x costs."""
    finite = np.where(np.isfinite(costs.tables), costs.tables, -np.inf).max(1)
    return float(costs.constant + np.maximum(costs.weights, 0.0).sum() + finite.sum() + 1.0)


def _hold_all(costs: _Costs, leaves: _Leaves) -> bool:
    """Whether every possible x is in some leaf: for each k, the leaves split the cube item by item."""
    fixed, free = leaves.fixed, costs.known == FREE
    agree = (fixed[:, ~free] == FREE) | (fixed[:, ~free] == costs.known[~free])
    fixed, least, most = fixed[agree.all(1)][:, free], leaves.least[agree.all(1)], leaves.most[agree.all(1)]
    totals = range(len(free) + 1) if costs.total is None else [costs.total]
    seen: set[bytes] = set()  # most k have the same leaves as their neighbours
    for total in totals:
        here = (least <= total) & (total <= most)
        if here.tobytes() not in seen and not _covers(fixed[here]):
            return False
        seen.add(here.tobytes())
    return True


def _covers(fixed: NDArray[np.int8]) -> bool:
    """Whether boxes of a cube, rows of 0, 1 and FREE, cover it, as the leaves of a tree of splits do."""
    todo = [fixed]
    while todo:
        boxes = todo.pop()
        if (boxes == FREE).all(1).any():
            continue  # one of them is the whole cube
        split = (boxes != FREE).all(0) & (len(boxes) > 0)
        if not split.any():
            return False
        item = int(split.argmax())
        for value in (0, 1):
            half = boxes[boxes[:, item] == value].copy()
            half[:, item] = FREE
            todo.append(half)
    return True


def _exclude_all(costs: _Costs, limit: float, known: NDArray[np.uint8], leaves: _Leaves) -> bool:
    """Whether each leaf holds nothing below the limit but known x."""
    fixed, pi = leaves.fixed, leaves.pi
    if not np.isfinite(pi).all():
        return False
    free, counts = fixed == FREE, np.arange(costs.tables.shape[1])
    reduced = costs.weights - pi @ costs.matrix
    value = np.sort(np.where(free, reduced, np.inf), 1)  # (leaves, items)
    least = np.pad(np.cumsum(value, 1), ((0, 0), (1, 0)))  # of 0, 1, ... free items
    pools = sum((row + pi[:, i, None] * counts).min(1) for i, row in enumerate(costs.tables))
    base = costs.constant + np.where(fixed == 1, reduced, 0.0).sum(1) + pools - _rounding(costs, pi)

    leaf, total = _pairs(leaves.least, leaves.most, len(costs.known))
    number = total - (fixed == 1).sum(1)[leaf]  # of free items that are defective
    possible = (number >= 0) & (number <= free.sum(1)[leaf])
    leaf, total, number = leaf[possible], total[possible], number[possible]
    bound, enough = base[leaf] + least[leaf, number], costs.enough(limit)[total]
    left = bound < enough
    leaf, number, bound, enough = leaf[left], number[left], bound[left], enough[left]

    edges = np.pad(value, ((0, 0), (1, 1)), constant_values=((0, 0), (-np.inf, np.inf)))
    alone = bound + (edges[leaf, number + 1] - edges[leaf, number]) >= enough
    order = np.argsort(np.where(free, reduced, np.inf)[leaf], 1, kind="stable")
    inside = np.argsort(order, 1, kind="stable") < number[:, None]
    own = np.where(free[leaf], inside, fixed[leaf] == 1).astype(np.uint8)
    listed, dear = {row.tobytes() for row in known}, costs.of_x(own) >= limit - MARGIN
    return bool(alone.all()) and all(ok or row.tobytes() in listed for ok, row in zip(dear.tolist(), own, strict=True))


def _rounding(costs: _Costs, pi: Floats) -> Floats:
    """More than all sums of a leaf can be off: float64's precision times their terms and their number; (leaves,)."""
    finite = np.where(np.isfinite(costs.tables), np.abs(costs.tables), 0.0).max(1).sum()
    items = np.abs(costs.weights).sum() + (np.abs(pi) @ costs.matrix).sum(1)
    terms = abs(costs.constant) + finite + items + np.abs(pi).sum(1) * costs.tables.shape[1]
    return np.asarray(4 * np.finfo(np.float64).eps * (sum(costs.matrix.shape) + 10) * terms)


def _pairs(least: NDArray[np.int64], most: NDArray[np.int64], items: int) -> tuple[NDArray[np.int64], ...]:
    """Every leaf with every number of defectives it may have."""
    k = np.arange(items + 1)
    return ((k >= least[:, None]) & (k <= most[:, None])).nonzero()
