"""Problems as programs: which ones `ExactMAP` and `LinearProgram` take, and their costs as numbers.

See `qgt.model.factors` for the costs, and `integer_program` for what is done with them.
"""

import numpy as np
import torch

from qgt.decoders.envelopes import Floats
from qgt.decoders.highs.program import Program
from qgt.model.factors import PoolCosts
from qgt.model.prior import FactoredPrior
from qgt.model.problem import Problem

CHUNK = 2**20  # table entries at a time, so that memory does not grow with the instances


def supported(problem: Problem) -> str | None:
    """None if the cost of x is a sum over items, groups of them and pools, else the reason it is not."""
    if isinstance(problem.prior, FactoredPrior):
        return None
    kind = type(problem.prior).__name__
    return f"its prior {kind} is not a sum over items and groups: it has no `costs` (Exhaustive takes any)."


def program(problem: Problem) -> Program:
    """What all instances of the problem share."""
    from scipy.sparse import csr_array

    assert isinstance(problem.prior, FactoredPrior)  # what `supported` says, for the type checker
    costs = problem.prior.costs(problem.items)
    rows, tables = problem.design.matrix.cpu(), None
    if costs.groups is not None:
        rows, tables = torch.cat([rows, costs.groups.matrix]), costs.groups.tables.numpy()
    known = costs.known.numpy()
    return Program(
        csr_array(rows.numpy().astype(np.float64)),
        costs.weights.numpy(),
        lower=(known == 1).astype(np.float64),
        upper=(known != 0).astype(np.float64),
        total=None if costs.total is None else costs.total.numpy(),
        constant=costs.constant,
        groups=tables,
    )


def tables(costs: PoolCosts, instance: int) -> Floats:
    """The costs of every count for every pool of an instance: (pools, counts), infinite where impossible."""
    return np.asarray(costs.of_instance(instance).cpu().numpy())
