"""The most probable x, exactly: nothing decodes more instances right.

Maximising the log joint of x and y is an integer program, minimise

    sum_j log((1 - rate_j) / rate_j) x_j  -  sum_i log P(y_i | (A x)_i)        over x in {0, 1}^N

(for other priors with terms for groups of items and for their number), solved for each instance by HiGHS through SciPy:
first the relaxation, whose rounded answer is optimal where it meets the dual bound, and a search by branch and bound
where it does not. How the costs of the counts become columns of a program, and why the bound holds, is described in
`qgt.decoders.highs.integer_program`.

An answer is PROVED only where its cost, recomputed from the whole numbers by `Problem.log_joint`, is the one that was
proved. Finding it can take long: the time is short where the counts say much (35 pools of 100 items with 6 % defective:
milliseconds) and grows without limit where they say little, so long batches should be given a time limit.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from qgt.arguments import positive, whole
from qgt.decoders.contract import BoundDecoder, refuse_unsupported, without_costs
from qgt.decoders.highs import integer_program
from qgt.decoders.highs.integer_program import ROUNDING, ProgramOutcome
from qgt.decoders.parts import through_parts
from qgt.decoders.results import Decoded, Evidence, Status
from qgt.model.factors import pool_costs
from qgt.model.prior import FactoredPrior
from qgt.model.problem import Problem

OUTCOMES = {
    ProgramOutcome.PROVED: Status.PROVED,
    ProgramOutcome.UNPROVED: Status.OK,
    ProgramOutcome.TIME_LIMIT: Status.TIME_LIMIT,
    ProgramOutcome.INFEASIBLE: Status.INFEASIBLE,
}


@dataclass(frozen=True)
class ExactMAP:
    """Finds the most probable x given the counts, and proves that it is.

    `time_limit` is in seconds per instance (None: until proved); `workers` is the number of threads (None: one per
    core), which changes nothing but the time. The evidence holds each answer's `log_joint` and the `gap` to what is not
    yet excluded (0 where proved).

    Example:
        >>> import torch, qgt
        >>> design = qgt.Design.from_rows(["1100", "0110", "1011"])
        >>> problem = qgt.Problem(design, qgt.Bernoulli(0.2), qgt.SparseInteger(rate=0.1, bound=1))
        >>> result = qgt.ExactMAP().bind(problem)(torch.tensor([[1.0, 1.0, 0.0], [9.0, 0.0, 0.0]]))
        >>> result.x[0], [qgt.Status(status).name for status in result.status.tolist()]
        (tensor([0, 1, 0, 0], dtype=torch.uint8), ['PROVED', 'INFEASIBLE'])
    """

    time_limit: float | None = None
    workers: int | None = None

    def __post_init__(self) -> None:
        if self.time_limit is not None:
            object.__setattr__(self, "time_limit", positive("time_limit", self.time_limit))
        if self.workers is not None:
            object.__setattr__(self, "workers", whole("workers", self.workers, least=1))

    def supports(self, problem: Problem) -> str | None:
        """Any prior with `integer_program`, and any noise."""
        return without_costs(problem.in_parts)

    def bind(self, problem: Problem) -> BoundDecoder:
        """Set up what all instances share."""
        refuse_unsupported(self, problem)
        if problem.values is not None:
            return through_parts(self, problem)
        program = integer_program.program_of(problem)

        def decode(y: Tensor, defectives: Tensor | None) -> Decoded:
            pools = pool_costs(problem.design, problem.noise, y)

            def solve(i: int) -> integer_program.Solution:
                return integer_program.solve(program, integer_program.cost_tables(pools, i), self.time_limit)

            # Threads are enough: HiGHS lets go of Python's lock while it works, and each instance is its own program.
            with ThreadPoolExecutor(self.workers or os.cpu_count()) as pool:
                return _solved(problem, y, list(pool.map(solve, range(len(y)))))

        return BoundDecoder(problem, decode, takes_missing=True)


def _solved(problem: Problem, y: Tensor, solutions: list[integer_program.Solution]) -> Decoded:
    """The solutions as a result, each checked against the problem's own log joint."""
    x = torch.zeros(len(y), problem.items, dtype=torch.uint8)
    for row, solution in zip(x, solutions, strict=True):
        row.copy_(torch.from_numpy(solution.x))
    groups = problem.prior.costs(problem.items).groups if isinstance(problem.prior, FactoredPrior) else None
    x = x if groups is None else groups.in_order(x)  # the programs do not look at orders, which cost nothing
    log_joint = problem.log_joint(x, y.cpu())
    cost, bound = (
        torch.tensor([getattr(solution, field) for solution in solutions], dtype=torch.float64)
        for field in ("cost", "bound")
    )
    status = torch.tensor([OUTCOMES[solution.outcome] for solution in solutions], dtype=torch.uint8)
    agrees = (log_joint + cost).abs() <= integer_program.AGREE + ROUNDING * cost.abs()
    status[(status == Status.PROVED) & ~agrees] = Status.OK
    # What is proved leaves no gap, whatever its sums round off.
    closed = (status == Status.PROVED) | (status == Status.INFEASIBLE)
    bound = torch.where(closed, log_joint, torch.maximum(-bound, log_joint))
    evidence = Evidence(log_joint=log_joint.to(y.device), bound=bound.to(y.device))
    return Decoded(x.to(y.device), status.to(y.device), None, evidence)


# The relaxation of the exact decoder, and its proof: often the rounded answer is optimal, and can be shown to be.
#
# Items may be fractions in [0, 1], though their number stays whole, and each pool's cost -log P(y_i | c) is replaced
# by its convex envelope: one or three linear programs, solved by HiGHS in milliseconds. Their duals pi bound the log
# joint of *every* x of k defectives,
#
#     log P(x, y) <= -( constant + the k least w_j + (A' pi)_j + sum_i min over c of (-log P(y_i | c) - pi_i c) ),
#
#     w_j = log((1 - rate_j) / rate_j),
#
# whatever pi is: the solver need not be trusted, only this sum (derived in `integer_program`, where the prior's
# groups of items are further pools, and their number may cost something by itself). Where the rounded answer's log
# joint meets the largest of these bounds, it is the most probable x: PROVED, without a search.


@dataclass(frozen=True)
class LinearProgram:
    """Rounds the relaxed most probable x, and says where that is proved to be the most probable one.

    `scores` are the relaxed x; the evidence holds each answer's `log_joint` and the `bound` on that of any x.

    Example:
        >>> import torch, qgt
        >>> design = qgt.Design.from_rows(["1100", "0110", "1011"])
        >>> problem = qgt.Problem(design, qgt.Bernoulli(0.2), qgt.SparseInteger(rate=0.1, bound=1))
        >>> result = qgt.LinearProgram().bind(problem)(torch.tensor([[1.0, 1.0, 0.0]]))
        >>> result.x, qgt.Status(int(result.status[0])).name
        (tensor([[0, 1, 0, 0]], dtype=torch.uint8), 'PROVED')
    """

    def supports(self, problem: Problem) -> str | None:
        """Any prior with `integer_program`, and any noise."""
        return without_costs(problem.in_parts)

    def bind(self, problem: Problem) -> BoundDecoder:
        """Set up what all instances share."""
        refuse_unsupported(self, problem)
        if problem.values is not None:
            return through_parts(self, problem)
        program = integer_program.program_of(problem)

        def decode(y: Tensor, defectives: Tensor | None) -> Decoded:
            x = torch.zeros(len(y), problem.items, dtype=torch.float64)
            pi = torch.zeros(len(y), integer_program.SETS, program.matrix.shape[0], dtype=torch.float64)
            infeasible = torch.zeros(len(y), dtype=torch.bool)
            pools = pool_costs(problem.design, problem.noise, y)
            for i in range(len(y)):
                table = program.reachable(program.with_groups(integer_program.cost_tables(pools, i)))
                relaxation = integer_program.relax(program, table)
                x[i], pi[i] = torch.from_numpy(relaxation.x), torch.from_numpy(relaxation.pi)
                infeasible[i] = relaxation.outcome is ProgramOutcome.INFEASIBLE
            return _rounded(problem, y, x, dual_bound(problem, y.cpu(), pi), infeasible)

        return BoundDecoder(problem, decode, takes_missing=True)


def dual_bound(
    problem: Problem, y: Float64[Tensor, "instances pools"], pi: Float64[Tensor, "instances *sets rows"]
) -> Float64[Tensor, " instances"]:
    """An upper bound on `problem.log_joint(x, y)` for every x, from any multipliers `pi` of the pools, then the groups.

    Given several sets of multipliers, each number of defectives takes the set that bounds it best.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["11"]), qgt.Bernoulli(0.5))
        >>> y = torch.tensor([[1.0]], dtype=torch.float64)
        >>> dual_bound(problem, y, torch.zeros_like(y)).exp()  # each x with that count has probability 1/4
        tensor([0.2500], dtype=torch.float64)
    """
    program = integer_program.program_of(problem)
    bounds = [torch.zeros(0, dtype=torch.float64)]
    rows = max(
        1, integer_program.TABLE_ENTRIES_AT_A_TIME // (problem.pools * (int(problem.design.pool_sizes.max()) + 1))
    )
    sets = pi[:, None] if pi.dim() == 2 else pi  # (instances, sets, pools and groups)
    pools = pool_costs(problem.design, problem.noise, y)
    for which, multipliers in zip(pools.which.split(rows), sets.split(rows), strict=True):
        table = program.reachable(program.with_groups(pools.tables[which].cpu().numpy()))  # (rows, pools, counts)
        bounds.append(torch.from_numpy(-integer_program.dual_bounds(program, table, multipliers.cpu().numpy())))
    return torch.cat(bounds).to(y.device)


def _rounded(problem: Problem, y: Tensor, relaxed: Tensor, bound: Tensor, infeasible: Tensor) -> Decoded:
    """Round, and compare with the bound."""
    groups = problem.prior.costs(problem.items).groups if isinstance(problem.prior, FactoredPrior) else None
    if groups is not None and groups.ordered:  # equal items share a number in any way: the first take what there is
        number = torch.zeros(len(relaxed), len(groups.tables), dtype=relaxed.dtype).index_add_(1, groups.group, relaxed)
        relaxed = (number[:, groups.group] - groups.places).clamp(0.0, 1.0)
    x = (relaxed > 0.5).to(torch.uint8)
    x[infeasible] = 0
    log_joint = problem.log_joint(x, y.cpu())
    bound = torch.where(infeasible, -np.inf, bound)
    pairs = zip(log_joint.tolist(), bound.tolist(), strict=True)
    met = torch.tensor([integer_program.meets(-own, -most) for own, most in pairs], dtype=torch.bool)
    status = torch.where(met, Status.PROVED, Status.OK).masked_fill(infeasible, Status.INFEASIBLE).to(torch.uint8)
    evidence = Evidence(log_joint=log_joint.to(y.device), bound=bound.to(y.device))
    return Decoded(x.to(y.device), status.to(y.device), relaxed.to(y.device), evidence)
