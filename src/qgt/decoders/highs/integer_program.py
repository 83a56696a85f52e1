"""Integer programs for the most probable x, and their relaxation: NumPy and SciPy's HiGHS, no torch.

For independent items (or a fixed number of defectives) the log joint of x and y is, up to its sign, a cost

    cost(x) = constant + sum_j weights_j x_j + sum_i f_i((A x)_i),        f_i(c) = -log P(y_i | c),

where f_i is known at the whole numbers only: a table, infinite where c is impossible, which `encoding` turns into
columns of a program beside those of x.

Replacing each f_i by its convex envelope, and {0, 1} by [0, 1], leaves a linear program. The relaxation used here is
that, with the number of defectives k = sum_j x_j still whole: its cost is convex in k, so where the linear program has
a k between two whole numbers, the relaxation is the better one of two more, with k rounded down and up. The duals give
a bound that needs no trust in the solver: for any pi, and any x of k defectives with c = A x,

    cost(x) = constant + sum_j (weights_j + (A' pi)_j) x_j + sum_i (f_i(c_i) - pi_i c_i)
           >= constant + the k least weights_j + (A' pi)_j + sum_i min over c of (f_i(c) - pi_i c),

which is plain arithmetic; the best pi for each k, and the least of these bounds over k, is the value of the relaxation.
An x whose cost meets the bound is proved optimal. Where the rounded relaxation does not, the same bound tells which
items and counts no better x can have (a bound that exceeds a known cost excludes the choice that led to it), and HiGHS
searches among the rest.
"""

import time
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qgt.decoders.envelopes import Floats
from qgt.decoders.highs.encoding import ROUNDING, Columns, encode, pieces

EXACT = 1e-9  # relative: a cost this close to its bound meets it
AGREE = 1e-6  # absolute: HiGHS's own tolerance for values
SETS = 3  # of multipliers: of the linear program, and of those with its number of defectives rounded down and up


@dataclass(frozen=True, eq=False)
class Program:
    """What the cost of all instances has in common.

    Example:
        >>> import numpy as np
        >>> from scipy.sparse import csr_array
        >>> program = Program(csr_array(np.array([[1.0, 1.0]])), np.array([2.0, 1.0]), np.zeros(2), np.ones(2))
        >>> solve((program, None), np.array([[np.inf, 0.0, np.inf]])).x  # the count is 1: the cheaper of two items
        array([0, 1], dtype=uint8)
    """

    matrix: Any  # A as a scipy.sparse.csr_array of floats, (pools, items)
    weights: Floats  # (items,)
    lower: Floats  # (items,): 1 where an item is known to be defective
    upper: Floats  # (items,): 0 where it is known not to be
    total: int | None = None  # the number of defectives, where it is known
    constant: float = 0.0

    def cost(self, x: NDArray[np.uint8], costs: Floats) -> float:
        """The cost of one x under one instance's table (pools, counts); infinite where x is impossible."""
        ones = x.astype(np.float64)
        allowed = (ones >= self.lower).all() and (ones <= self.upper).all()
        if not allowed or (self.total is not None and int(ones.sum()) != self.total):
            return np.inf
        counts = (self.matrix @ ones).astype(np.int64)
        return float(self.constant + self.weights @ ones + costs[np.arange(len(counts)), counts].sum())

    def reachable(self, costs: Floats) -> Floats:
        """The table(s) (..., pools, counts) with infinite cost for counts that no allowed x has."""
        lowest, highest = self.matrix @ self.lower, self.matrix @ self.upper  # (pools,)
        if self.total is not None:
            outside = self.lower.sum() - lowest, self.upper.sum() - highest  # fewest and most outside the pool
            lowest, highest = np.maximum(lowest, self.total - outside[1]), np.minimum(highest, self.total - outside[0])
        counts = np.arange(costs.shape[-1])
        return np.where((counts >= lowest[:, None]) & (counts <= highest[:, None]), costs, np.inf)


class Outcome(Enum):
    """What came of a program."""

    PROVED = auto()  # an answer, shown to be the best
    UNPROVED = auto()  # an answer, or a relaxed one
    TIME_LIMIT = auto()
    INFEASIBLE = auto()


class Solution(NamedTuple):
    """One instance's answer."""

    x: NDArray[np.uint8]
    cost: float
    bound: float  # no x costs less, as far as is proved
    outcome: Outcome


class Relaxation(NamedTuple):
    """The relaxed x and sets of multipliers of the pools; PROVED says that it is the relaxation's best."""

    x: Floats  # (items,)
    pi: Floats  # (sets, pools): SETS of them
    outcome: Outcome


# --- the bound ------------------------------------------------------------------------------------------------------


def dual_bounds(program: Program, costs: Floats, pi: Floats) -> Floats:
    """A lower bound on the cost of every x, for tables (instances, pools, counts) and any pi (instances, sets, pools).

    Each number of defectives takes the set of multipliers that bounds it best.
    """
    shape = (*pi.shape[:2], len(program.weights))  # (instances, sets, items)
    reduced = program.weights + (pi.reshape(-1, pi.shape[2]) @ program.matrix).reshape(shape)
    pools = (costs[:, None] - pi[..., None] * np.arange(costs.shape[2])).min(3).sum(2)  # (instances, sets)
    known, free = program.lower == 1, program.lower < program.upper
    least = np.cumsum(np.sort(reduced[..., free], axis=2), axis=2)
    least = np.concatenate([np.zeros((*pools.shape, 1)), least], axis=2)  # of 0, 1, ... of the free items
    if program.total is not None:
        least = least[..., [program.total - int(known.sum())]]
    each = program.constant + pools[..., None] + reduced[..., known].sum(2, keepdims=True) + least
    return np.asarray(each.max(1).min(1))


def meets(cost: float, bound: float) -> bool:
    """Whether an answer of this cost is optimal, up to rounding, given that none costs less than the bound."""
    return bool(cost <= bound + EXACT * (1 + abs(bound)))


def _narrow(program: Program, costs: Floats, pi: Floats, excess: float) -> tuple[Program, Floats]:
    """Leave out items' statuses and pools' counts that raise the bound of one set, pi, by more than `excess`."""
    lower, upper = program.lower.copy(), program.upper.copy()
    if program.total is None:
        reduced = program.weights + program.matrix.T @ pi
        upper[(reduced > excess) & (lower == 0)] = 0
        lower[(-reduced > excess) & (upper == 1)] = 1
    free = costs - pi[:, None] * np.arange(costs.shape[1])
    keep = free <= free.min(1, keepdims=True) + excess
    # Only from both ends, so that a range without gaps stays one.
    between = np.maximum.accumulate(keep, 1) & np.maximum.accumulate(keep[:, ::-1], 1)[:, ::-1]
    narrowed = replace(program, lower=lower, upper=upper)
    return narrowed, narrowed.reachable(np.where(between, costs, np.inf))


# --- programs for HiGHS ---------------------------------------------------------------------------------------------


class _Assembled(NamedTuple):
    """Columns: x, then the pools' u. Rows: the pools', then the total."""

    constant: float
    costs: Floats
    matrix: Any
    lowest: Floats
    highest: Floats
    lower: Floats
    upper: Floats
    binary: NDArray[np.bool_]


def _assemble(program: Program, pools: list[Columns]) -> _Assembled:
    from scipy.sparse import csr_array

    A, items = program.matrix, len(program.weights)
    ends = items + np.cumsum([len(pool.costs) for pool in pools])
    rows: list[tuple[NDArray[np.int64], Floats]] = []  # where each row has which coefficients
    for i, (pool, end) in enumerate(zip(pools, ends.tolist(), strict=True)):
        members, own = A.indices[A.indptr[i] : A.indptr[i + 1]], np.arange(end - len(pool.costs), end)
        for row in pool.rows:
            counted = members if row.counts else members[:0]
            rows.append((np.concatenate([counted, own]), np.concatenate([np.ones(len(counted)), row.columns])))
    limits = [(row.lowest, row.highest) for pool in pools for row in pool.rows]
    if program.total is not None:
        rows.append((np.arange(items), np.ones(items)))
        limits.append((program.total, program.total))
    where, coefficients = (np.concatenate(part) for part in zip(*rows, strict=True))
    starts = np.cumsum([0, *(len(row) for row, _ in rows)])
    upper = np.concatenate([program.upper, *(pool.upper for pool in pools)])
    return _Assembled(
        constant=program.constant + sum(pool.constant for pool in pools),
        costs=np.concatenate([program.weights, *(pool.costs for pool in pools)]),
        matrix=csr_array((coefficients, where, starts), shape=(len(rows), len(upper))),
        lowest=np.array([lowest for lowest, _ in limits], dtype=np.float64),
        highest=np.array([highest for _, highest in limits], dtype=np.float64),
        lower=np.concatenate([program.lower, np.zeros(len(upper) - items)]),
        upper=upper,
        binary=np.repeat([True, *(pool.binary for pool in pools)], [items, *(len(pool.costs) for pool in pools)]),
    )


def relax(program: Program, costs: Floats, deadline: float | None = None) -> Relaxation:
    """Solve the relaxation of one instance, whose table is (pools, counts)."""
    first = _linear_program(program, costs, deadline)
    number = float(first.x.sum())
    if first.outcome != Outcome.PROVED or program.total is not None or abs(number - round(number)) < 1e-6:
        return Relaxation(first.x, np.stack([first.pi] * SETS), first.outcome)
    with_number = [replace(program, total=int(number) + more) for more in (0, 1)]
    down, up = (_linear_program(each, each.reachable(costs), deadline) for each in with_number)
    pi = np.stack([first.pi] + [first.pi if each.outcome == Outcome.INFEASIBLE else each.pi for each in (down, up)])
    if down.outcome == up.outcome == Outcome.INFEASIBLE:
        return Relaxation(first.x, pi, Outcome.INFEASIBLE)
    if {down.outcome, up.outcome} <= {Outcome.PROVED, Outcome.INFEASIBLE}:
        return Relaxation(min(down, up, key=lambda each: each.cost).x, pi, Outcome.PROVED)
    return Relaxation(first.x, pi, Outcome.PROVED)


class _Linear(NamedTuple):
    """What came of one linear program."""

    x: Floats
    pi: Floats
    cost: float
    outcome: Outcome


def _linear_program(program: Program, costs: Floats, deadline: float | None) -> _Linear:
    """The program with fractions of items and convex envelopes of costs."""
    from scipy.optimize import linprog

    pools, items = program.matrix.shape
    whole = _assemble(program, [pieces(row) for row in costs]) if np.isfinite(costs).any(1).all() else None
    nothing = program.lower.copy(), np.zeros(pools), np.inf  # multipliers whose bound holds, whatever happened
    if whole is None:
        return _Linear(*nothing, Outcome.INFEASIBLE)
    result = linprog(
        whole.costs,
        A_eq=whole.matrix,
        b_eq=whole.lowest,
        bounds=np.column_stack([whole.lower, whole.upper]),
        options=_options(deadline, dual_feasibility_tolerance=1e-9, primal_feasibility_tolerance=1e-9),
    )
    if result.status == 0:
        # HiGHS reports how the cost grows with the right-hand side, the start of each pool's count: minus pi.
        x = np.clip(result.x[:items].round(9), 0.0, 1.0) + 0.0  # a half is a half, and no zero is negative
        return _Linear(x, -result.eqlin.marginals[:pools], float(result.fun) + whole.constant, Outcome.PROVED)
    return _Linear(*nothing, {1: Outcome.TIME_LIMIT, 2: Outcome.INFEASIBLE}.get(result.status, Outcome.UNPROVED))


def _options(deadline: float | None, **options: float) -> dict[str, float]:
    """Options for HiGHS, with the time that is left."""
    return options if deadline is None else {**options, "time_limit": max(0.0, deadline - time.perf_counter())}


def solve(shared: tuple[Program, float | None], costs: Floats) -> Solution:
    """The cheapest x for one instance's table (pools, counts); `shared` is the program and a time limit in seconds."""
    program, time_limit = shared
    deadline = None if time_limit is None else time.perf_counter() + time_limit
    solution = _solve(program, program.reachable(costs), deadline)
    x = solution.x if np.isfinite(solution.cost) else np.zeros_like(solution.x)
    return solution._replace(x=x)


def _solve(program: Program, costs: Floats, deadline: float | None) -> Solution:
    """Relax, round and compare with the bound; search where that does not do."""
    relaxation = relax(program, costs, deadline)
    x = (relaxation.x > 0.5).astype(np.uint8)
    cost, bound = program.cost(x, costs), float(dual_bounds(program, costs[None], relaxation.pi[None])[0])
    if relaxation.outcome == Outcome.INFEASIBLE:
        return Solution(x, np.inf, np.inf, Outcome.INFEASIBLE)
    if meets(cost, bound):
        return Solution(x, cost, bound, Outcome.PROVED)
    known = Solution(x, cost, bound, Outcome.TIME_LIMIT)
    if relaxation.outcome == Outcome.TIME_LIMIT or (deadline is not None and time.perf_counter() >= deadline):
        return known
    if np.isfinite(cost):
        pi = relaxation.pi[0]
        excess = cost - float(dual_bounds(program, costs[None], pi[None, None])[0])
        program, costs = _narrow(program, costs, pi, excess + AGREE)
    return _search(program, costs, known, deadline)


def _search(program: Program, costs: Floats, known: Solution, deadline: float | None) -> Solution:
    """Search among what is left by branch and bound; `known` is the best answer so far, and the bound."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    if not np.isfinite(costs).any(1).all():
        return _nothing_else(known)
    whole = _assemble(program, [encode(row) for row in costs])
    result = milp(
        whole.costs,
        integrality=whole.binary.astype(np.int64),
        bounds=Bounds(whole.lower, whole.upper),
        constraints=LinearConstraint(whole.matrix, whole.lowest, whole.highest),
        options=_options(deadline, mip_rel_gap=0.0),  # HiGHS's absolute gap stays at 1e-6
    )
    if result.status == 2:
        return _nothing_else(known)
    best = known
    if result.x is not None:
        x = np.round(result.x[: len(known.x)]).astype(np.uint8)
        cost = program.cost(x, costs)
        agrees = abs(whole.constant + result.fun - cost) <= AGREE + ROUNDING * abs(cost)
        if cost <= known.cost:
            best = known._replace(x=x, cost=cost)
        if result.status == 0 and agrees:
            return best._replace(bound=best.cost, outcome=Outcome.PROVED)
    if result.mip_dual_bound is not None and np.isfinite(result.mip_dual_bound):
        # A search among the rest proves nothing about answers dearer than the known one, nor need it.
        best = best._replace(bound=min(best.cost, max(known.bound, whole.constant + result.mip_dual_bound)))
    return best._replace(outcome=Outcome.TIME_LIMIT if result.status == 1 else Outcome.UNPROVED)


def _nothing_else(known: Solution) -> Solution:
    """No answer is left but the known one, if there is one."""
    if np.isfinite(known.cost):
        return known._replace(bound=known.cost, outcome=Outcome.PROVED)
    return known._replace(bound=np.inf, outcome=Outcome.INFEASIBLE)
