"""The relaxation of the exact decoder, and its proof: often the rounded answer is optimal, and can be shown to be.

Items may be fractions in [0, 1], though their number stays whole, and each pool's cost -log P(y_i | c) is replaced by
its convex envelope: one or three linear programs, solved by HiGHS in milliseconds. Their duals pi bound the log joint
of *every* x of k defectives,

    log P(x, y) <= -( constant + the k least w_j + (A' pi)_j
                               + sum_i min over c of (-log P(y_i | c) - pi_i c) ),    w_j = log((1 - rate_j) / rate_j),

whatever pi is: the solver need not be trusted, only this sum (derived in `integer_program`, where the prior's groups
of items are further pools, and their number may cost something by itself). Where the rounded
answer's log joint meets the largest of these bounds, it is the most probable x: PROVED, without a search.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from qgt.decoders.contract import BoundDecoder, refuse_unsupported, without_costs
from qgt.decoders.highs import integer_program
from qgt.decoders.highs.integer_program import ProgramOutcome
from qgt.decoders.parts import through_parts
from qgt.decoders.results import Decoded, Evidence, Status
from qgt.model.factors import pool_costs
from qgt.model.prior import FactoredPrior
from qgt.model.problem import Problem


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
            return _decoded(problem, y, x, dual_bound(problem, y.cpu(), pi), infeasible)

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


def _decoded(problem: Problem, y: Tensor, relaxed: Tensor, bound: Tensor, infeasible: Tensor) -> Decoded:
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
