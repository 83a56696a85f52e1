"""Integer programs for the most probable x, and their relaxation, by SciPy's HiGHS.

The log joint of x and y is, up to its sign, a cost

    cost(x) = constant + sum_j weights_j x_j + T(sum_j x_j) + sum_i f_i((A x)_i),        f_i(c) = -log P(y_i | c),

where f_i is known at the whole numbers only: a table, infinite where c is impossible, which `encode_table` turns into
columns of a program beside those of x. So is T, what the number of defectives costs by itself. The prior's groups of
items are more rows of A, whose tables are the same for all instances.

Replacing each f_i by its convex envelope, and {0, 1} by [0, 1], leaves a linear program. The relaxation used here is
that, with the number of defectives k = sum_j x_j still whole: without T its cost is convex in k, so where the linear
program has a k between two whole numbers, the relaxation is the better one of two more, with k rounded down and up.
The duals give a bound that needs no trust in the solver: for any pi, and any x of k defectives with c = A x,

    cost(x) = constant + T(k) + sum_j (weights_j + (A' pi)_j) x_j + sum_i (f_i(c_i) - pi_i c_i)
           >= constant + T(k) + the k least weights_j + (A' pi)_j + sum_i min over c of (f_i(c) - pi_i c),

which is plain arithmetic; the best pi for each k, and the least of these bounds over k, is the value of the relaxation.
An x whose cost meets the bound is proved optimal. Where the rounded relaxation does not, the same bound tells which
items, numbers and counts no better x can have (a bound that exceeds a known cost excludes the choice that led to it),
and HiGHS searches among the rest.
"""

import time
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qgt.decoders.envelopes import corners_of, envelope_of
from qgt.decoders.results import Floats
from qgt.model.design import Design
from qgt.model.factors import PoolCosts
from qgt.model.prior import ALONE, FactoredPrior, Groups
from qgt.model.problem import Problem

if TYPE_CHECKING:
    from scipy.sparse import csr_array


# A pool's costs as columns of an integer program: NumPy only.
#
# What a count costs, f(c) = -log P(y | c), is known at the whole numbers c = 0, 1, ... only: a table, infinite where c
# is impossible. A program holds it as columns u with 0 <= u <= upper and rows that tie them to the count c, such that
# the least constant + costs u is f(c):
#
#     pieces         f convex: c = start + sum u, one u per slope; cheap slopes come first, so they fill up in order
#                    (and one possible count needs no u)
#     fixed charge   all counts of a range cost the same but one, which is cheaper: a binary u to leave that one
#     choice         anything else: a binary u per possible count
#
# Where binary columns may be fractions, each of these becomes the convex envelope of f.

ROUNDING = 1e-12  # relative: costs that differ by less are equal


class ProgramRow(NamedTuple):
    """lowest <= c + columns u <= highest, or without c."""

    counts: bool  # whether c is in it
    columns: Floats
    lowest: float
    highest: float


class Columns(NamedTuple):
    """One pool's table in a program."""

    constant: float
    costs: Floats
    upper: Floats
    binary: bool
    rows: tuple[ProgramRow, ...]


def encode_table(costs: Floats) -> Columns:
    """A pool's table, exactly; at least one count must be possible.

    Example:
        >>> encode_table(np.array([np.inf, 3.0, 1.0, 3.0])).costs  # convex: two slopes from count 1 on
        array([-2.,  2.])
        >>> encode_table(np.array([3.0, 3.0, 1.0, 3.0])).costs  # the charge for leaving the cheap count
        array([2.])
    """
    counts = np.flatnonzero(np.isfinite(costs))
    values = costs[counts]
    if counts[-1] - counts[0] + 1 == len(counts):
        corners, heights = corners_of(counts, values)
        if (values <= np.interp(counts, corners, heights) + ROUNDING * (1 + np.abs(values))).all():
            return pieces(costs)
        others = np.delete(values, values.argmin())
        if np.ptp(others) <= ROUNDING * (1 + np.abs(others[0])):
            return _fixed_charge(counts, values)
    return _choice(counts, values)


def pieces(costs: Floats) -> Columns:
    """The convex envelope of a pool's table."""
    start, cost, slopes, lengths = envelope_of(costs)
    # Not binary, nor whole: whole x makes whole counts, and those fill the slopes in order.
    return Columns(cost, slopes, lengths, False, (ProgramRow(True, -np.ones_like(slopes), start, start),))


def _fixed_charge(counts: NDArray[np.int64], values: Floats) -> Columns:
    at = int(values.argmin())
    cheap, up, down = float(counts[at]), float(counts[-1] - counts[at]), float(counts[at] - counts[0])
    rows = ProgramRow(True, np.array([-up]), -np.inf, cheap), ProgramRow(True, np.array([down]), cheap, np.inf)
    charge = np.delete(values, at)[:1] - values[at]
    return Columns(float(values[at]), charge, np.ones(1), True, rows)


def _choice(counts: NDArray[np.int64], values: Floats) -> Columns:
    ones, least = np.ones(len(counts)), float(values.min())
    rows = ProgramRow(True, -counts.astype(np.float64), 0.0, 0.0), ProgramRow(False, ones, 1.0, 1.0)
    return Columns(least, values - least, ones, True, rows)


# The part of the cost that all instances of a problem have in common.


@dataclass(frozen=True, eq=False)
class Program:
    """What the cost of all instances has in common.

    Example:
        >>> import numpy as np
        >>> from scipy.sparse import csr_array
        >>> program = Program(csr_array(np.array([[1.0, 1.0]])), np.array([2.0, 1.0]), np.zeros(2), np.ones(2))
        >>> program.cost(np.array([0, 1], dtype=np.uint8), np.array([[np.inf, 0.5, np.inf]]))
        1.5
    """

    matrix: Any  # A as a scipy.sparse.csr_array of floats, (pools, items): the pools, then the prior's groups
    weights: Floats  # (items,)
    lower: Floats  # (items,): 1 where an item is known to be defective
    upper: Floats  # (items,): 0 where it is known not to be
    total: Floats | None = None  # (items + 1,): what 0, 1, ... defectives cost by themselves; None: nothing
    constant: float = 0.0
    groups: Floats | None = None  # (groups, numbers): the tables of the matrix's last rows; None: all rows are pools

    def with_groups(self, tables: Floats) -> Floats:
        """The tables (..., pools, counts) of some instances, followed by those of the groups."""
        if self.groups is None:
            return tables
        width = max(tables.shape[-1], self.groups.shape[1])
        groups = np.broadcast_to(self.groups, (*tables.shape[:-2], *self.groups.shape))
        return np.concatenate([_wider(tables, width), _wider(groups, width)], axis=-2)

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The numbers of defectives that may be, in order."""
        least, most = int(self.lower.sum()), int(self.upper.sum())
        numbers = np.arange(least, most + 1)
        return numbers if self.total is None else numbers[np.isfinite(self.total[numbers])]

    def with_number(self, number: int) -> "Program":
        """The same, with no other number of defectives."""
        total = np.full(len(self.weights) + 1, np.inf)
        total[number] = 0.0 if self.total is None else self.total[number]
        return replace(self, total=total)

    def cost(self, x: NDArray[np.uint8], costs: Floats) -> float:
        """The cost of one x under one instance's table (pools, counts); infinite where x is impossible."""
        ones = x.astype(np.float64)
        allowed = (ones >= self.lower).all() and (ones <= self.upper).all()
        if not allowed:
            return np.inf
        counts = (self.matrix @ ones).astype(np.int64)
        number = 0.0 if self.total is None else self.total[int(ones.sum())]
        return float(self.constant + self.weights @ ones + number + costs[np.arange(len(counts)), counts].sum())

    def reachable(self, costs: Floats) -> Floats:
        """The table(s) (..., pools, counts) with infinite cost for counts that no allowed x has."""
        lowest, highest = self.matrix @ self.lower, self.matrix @ self.upper  # (pools,)
        if self.total is not None and len(self.numbers):
            outside = self.lower.sum() - lowest, self.upper.sum() - highest  # fewest and most outside the pool
            lowest = np.maximum(lowest, self.numbers[0] - outside[1])
            highest = np.minimum(highest, self.numbers[-1] - outside[0])
        counts = np.arange(costs.shape[-1])
        return np.where((counts >= lowest[:, None]) & (counts <= highest[:, None]), costs, np.inf)


def _wider(tables: Floats, width: int) -> Floats:
    """Tables with as many counts, those added being impossible."""
    more = np.full((*tables.shape[:-1], width - tables.shape[-1]), np.inf)
    return np.concatenate([tables, more], axis=-1)


# Problems as programs: which ones `ExactMAP` and `LinearProgram` take, and their costs as numbers.

TABLE_ENTRIES_AT_A_TIME = 2**20  # table entries at a time, so that memory does not grow with the instances


def program_of(problem: Problem) -> Program:
    """What all instances of the problem share."""
    assert isinstance(problem.prior, FactoredPrior)  # what `without_costs` says, for the type checker
    costs = problem.prior.costs(problem.items)
    known = costs.known.numpy()
    return Program(
        _rows(problem.design, costs.groups),
        costs.weights.numpy(),
        lower=(known == 1).astype(np.float64),
        upper=(known != 0).astype(np.float64),
        total=None if costs.total is None else costs.total.numpy(),
        constant=costs.constant,
        groups=None if costs.groups is None else costs.groups.tables.numpy(),
    )


def _rows(design: Design, groups: Groups | None) -> "csr_array":
    """The pools, and below them the groups, as rows of a sparse matrix."""
    from scipy.sparse import csr_array, vstack

    lists = design.lists
    ones = np.ones(design.transfers)
    pools = csr_array((ones, lists.entries.numpy(), lists.starts.numpy()), shape=(design.pools, design.items))
    if groups is None:
        return pools
    inside = (groups.group != ALONE).nonzero()[:, 0]
    places = groups.group[inside].numpy(), inside.numpy()
    below = csr_array((np.ones(len(inside)), places), shape=(len(groups.tables), design.items))
    return csr_array(vstack([pools, below]))


def cost_tables(costs: PoolCosts, instance: int) -> Floats:
    """The costs of every count for every pool of an instance: (pools, counts), infinite where impossible."""
    return np.asarray(costs.of_instance(instance).cpu().numpy())


# The programs of one instance, solved.

MEETS = 1e-9  # relative: a cost this close to its bound meets it
AGREE = 1e-6  # absolute: HiGHS's own tolerance for values
SETS = 3  # of multipliers: of the linear program, and of those with its number of defectives rounded down and up


class ProgramOutcome(Enum):
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
    outcome: ProgramOutcome


class Relaxation(NamedTuple):
    """The relaxed x and sets of multipliers of the pools; PROVED says that it is the relaxation's best."""

    x: Floats  # (items,)
    pi: Floats  # (sets, pools): SETS of them
    outcome: ProgramOutcome


# --- the bound ------------------------------------------------------------------------------------------------------


def dual_bounds(program: Program, costs: Floats, pi: Floats) -> Floats:
    """A lower bound on the cost of every x, for tables (instances, pools, counts) and any pi (instances, sets, pools).

    Each number of defectives takes the set of multipliers that bounds it best.
    """
    return np.asarray(_bounds_by_number(program, costs, pi).min(1))


def _bounds_by_number(program: Program, costs: Floats, pi: Floats) -> Floats:
    """A lower bound for each number of defectives, from those that are known on: (instances, numbers)."""
    shape = (*pi.shape[:2], len(program.weights))  # (instances, sets, items)
    reduced = program.weights + (pi.reshape(-1, pi.shape[2]) @ program.matrix).reshape(shape)
    pools = (costs[:, None] - pi[..., None] * np.arange(costs.shape[2])).min(3).sum(2)  # (instances, sets)
    known, free = program.lower == 1, program.lower < program.upper
    least = np.cumsum(np.sort(reduced[..., free], axis=2), axis=2)
    least = np.concatenate([np.zeros((*pools.shape, 1)), least], axis=2)  # of 0, 1, ... of the free items
    if program.total is not None:
        least = least + program.total[int(known.sum()) :][: least.shape[2]]
    each = program.constant + pools[..., None] + reduced[..., known].sum(2, keepdims=True) + least
    return np.asarray(each.max(1))


def meets(cost: float, bound: float) -> bool:
    """Whether an answer of this cost is optimal, up to rounding, given that none costs less than the bound."""
    return bool(cost <= bound + MEETS * (1 + abs(bound)))


def _narrow(program: Program, costs: Floats, pi: Floats, cost: float) -> tuple[Program, Floats]:
    """Leave out statuses, numbers and counts that raise the bound of some multipliers, (sets, pools), beyond a cost."""
    excess = cost - float(dual_bounds(program, costs[None], pi[None, :1])[0])
    lower, upper, total = program.lower.copy(), program.upper.copy(), program.total
    if total is None:
        reduced = program.weights + program.matrix.T @ pi[0]
        upper[(reduced > excess) & (lower == 0)] = 0
        lower[(-reduced > excess) & (upper == 1)] = 1
    else:
        least = _bounds_by_number(program, costs[None], pi[None])[0]
        possible = np.full(len(total), np.inf)
        possible[int(lower.sum()) :][: len(least)] = least
        total = np.where(possible <= cost, total, np.inf)
    free = costs - pi[0][:, None] * np.arange(costs.shape[1])
    keep = free <= free.min(1, keepdims=True) + excess
    # Only from both ends, so that a range without gaps stays one.
    between = np.maximum.accumulate(keep, 1) & np.maximum.accumulate(keep[:, ::-1], 1)[:, ::-1]
    narrowed = replace(program, lower=lower, upper=upper, total=total)
    return narrowed, narrowed.reachable(np.where(between, costs, np.inf))


# --- programs for HiGHS ---------------------------------------------------------------------------------------------


class _Assembled(NamedTuple):
    """Columns: x, then the pools' u, then that of their number. Rows: the pools', then the number's."""

    constant: float
    costs: Floats
    matrix: Any
    lowest: Floats
    highest: Floats
    lower: Floats
    upper: Floats
    binary: NDArray[np.bool_]


def _assemble(program: Program, pools: list[Columns], total: Columns | None) -> _Assembled:
    """The program of all pools and, as one more that holds all items, of the number of defectives."""
    from scipy.sparse import csr_array

    A, items = program.matrix, len(program.weights)
    members = [A.indices[A.indptr[i] : A.indptr[i + 1]] for i in range(A.shape[0])]
    if total is not None:
        pools, members = [*pools, total], [*members, np.arange(items)]
    ends = items + np.cumsum([len(pool.costs) for pool in pools])
    rows: list[tuple[NDArray[np.int64], Floats]] = []  # where each row has which coefficients
    for pool, inside, end in zip(pools, members, ends.tolist(), strict=True):
        own = np.arange(end - len(pool.costs), end)
        for row in pool.rows:
            counted = inside if row.counts else inside[:0]
            rows.append((np.concatenate([counted, own]), np.concatenate([np.ones(len(counted)), row.columns])))
    limits = [(row.lowest, row.highest) for pool in pools for row in pool.rows]
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
    # Where numbers cost something, the linear program has seen only the envelope of what: its number may be another.
    whole = program.total is None and abs(number - round(number)) < 1e-6
    if first.outcome != ProgramOutcome.PROVED or len(program.numbers) == 1 or whole:
        return Relaxation(first.x, np.stack([first.pi] * SETS), first.outcome)
    near = int(number), int(number) + 1
    if not set(near) <= set(program.numbers.tolist()):  # then others may do, where these cannot
        return Relaxation(first.x, np.stack([first.pi] * SETS), first.outcome)
    with_number = [program.with_number(each) for each in near]
    down, up = (_linear_program(each, each.reachable(costs), deadline) for each in with_number)
    pi = np.stack(
        [first.pi] + [first.pi if each.outcome == ProgramOutcome.INFEASIBLE else each.pi for each in (down, up)]
    )
    if down.outcome == up.outcome == ProgramOutcome.INFEASIBLE:
        return Relaxation(first.x, pi, ProgramOutcome.INFEASIBLE)
    if {down.outcome, up.outcome} <= {ProgramOutcome.PROVED, ProgramOutcome.INFEASIBLE}:
        return Relaxation(min(down, up, key=lambda each: each.cost).x, pi, ProgramOutcome.PROVED)
    return Relaxation(first.x, pi, ProgramOutcome.PROVED)


class _Linear(NamedTuple):
    """What came of one linear program."""

    x: Floats
    pi: Floats
    cost: float
    outcome: ProgramOutcome


def _linear_program(program: Program, costs: Floats, deadline: float | None) -> _Linear:
    """The program with fractions of items and convex envelopes of costs."""
    from scipy.optimize import linprog

    pools, items = program.matrix.shape
    nothing = program.lower.copy(), np.zeros(pools), np.inf  # multipliers whose bound holds, whatever happened
    if not np.isfinite(costs).any(1).all() or not len(program.numbers):
        return _Linear(*nothing, ProgramOutcome.INFEASIBLE)
    total = None if program.total is None else pieces(program.total)
    whole = _assemble(program, [pieces(row) for row in costs], total)
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
        return _Linear(x, -result.eqlin.marginals[:pools], float(result.fun) + whole.constant, ProgramOutcome.PROVED)
    return _Linear(
        *nothing,
        {1: ProgramOutcome.TIME_LIMIT, 2: ProgramOutcome.INFEASIBLE}.get(result.status, ProgramOutcome.UNPROVED),
    )


def _options(deadline: float | None, **options: float | bool) -> dict[str, float | bool]:
    """Options for HiGHS, with the time that is left."""
    return options if deadline is None else {**options, "time_limit": max(0.0, deadline - time.perf_counter())}


def solve(program: Program, costs: Floats, time_limit: float | None = None) -> Solution:
    """The cheapest x for one instance's table (pools, counts); the time limit is in seconds."""
    deadline = None if time_limit is None else time.perf_counter() + time_limit
    none = np.zeros(len(program.weights), dtype=np.uint8)
    start = Solution(none, np.inf, -np.inf, ProgramOutcome.TIME_LIMIT)
    solution = _solve(program, program.reachable(program.with_groups(costs)), start, deadline)
    x = solution.x if np.isfinite(solution.cost) else np.zeros_like(solution.x)
    return solution._replace(x=x)


def _solve(program: Program, costs: Floats, known: Solution, deadline: float | None) -> Solution:
    """Relax, round and compare with the bound; search where that does not do."""
    relaxation = relax(program, costs, deadline)
    if relaxation.outcome == ProgramOutcome.INFEASIBLE:
        return _nothing_else(known)
    x = (relaxation.x > 0.5).astype(np.uint8)
    cost, bound = program.cost(x, costs), float(dual_bounds(program, costs[None], relaxation.pi[None])[0])
    if cost <= known.cost:
        known = known._replace(x=x, cost=cost)
    known = known._replace(bound=bound)
    if meets(known.cost, bound):
        return known._replace(outcome=ProgramOutcome.PROVED)
    if relaxation.outcome == ProgramOutcome.TIME_LIMIT or (deadline is not None and time.perf_counter() >= deadline):
        return known
    if np.isfinite(known.cost):
        program, costs = _narrow(program, costs, relaxation.pi, known.cost + AGREE)
    return _search(program, costs, known, deadline)


def _search(program: Program, costs: Floats, known: Solution, deadline: float | None) -> Solution:
    """Search among what is left by branch and bound; `known` is the best answer so far, and the bound."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    if not np.isfinite(costs).any(1).all() or not len(program.numbers):
        return _nothing_else(known)
    total = None if program.total is None else encode_table(program.total)
    whole = _assemble(program, [encode_table(row) for row in costs], total)
    result = milp(
        whole.costs,
        integrality=whole.binary.astype(np.int64),
        bounds=Bounds(whole.lower, whole.upper),
        constraints=LinearConstraint(whole.matrix, whole.lowest, whole.highest),
        # HiGHS's absolute gap stays at 1e-6. Where an answer of the presolved program does not hold in the original
        # one, HiGHS 1.12 repairs it and prints a line that no option turns off (ERGO-Code/HiGHS issue 2783). Without
        # presolve there is nothing to repair, and these small programs take as long as before.
        options=_options(deadline, mip_rel_gap=0.0, presolve=False),
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
            return best._replace(bound=best.cost, outcome=ProgramOutcome.PROVED)
    if result.mip_dual_bound is not None and np.isfinite(result.mip_dual_bound):
        # A search among the rest proves nothing about answers dearer than the known one, nor need it.
        best = best._replace(bound=min(best.cost, max(known.bound, whole.constant + result.mip_dual_bound)))
    return best._replace(outcome=ProgramOutcome.TIME_LIMIT if result.status == 1 else ProgramOutcome.UNPROVED)


def _nothing_else(known: Solution) -> Solution:
    """No answer is left but the known one, if there is one."""
    if np.isfinite(known.cost):
        return known._replace(bound=known.cost, outcome=ProgramOutcome.PROVED)
    return known._replace(bound=np.inf, outcome=ProgramOutcome.INFEASIBLE)
