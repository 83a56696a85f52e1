"""Problems as programs: which ones `ExactMAP` and `LinearProgram` take, and their costs as numbers.

See `qgt.model.factors` for the costs, and `integer_program` for what is done with them.
"""

from typing import TYPE_CHECKING

import numpy as np

from qgt.decoders.highs.program import Program
from qgt.decoders.results import Floats
from qgt.model.design import Design
from qgt.model.factors import PoolCosts
from qgt.model.prior import ALONE, FactoredPrior, Groups
from qgt.model.problem import Problem

if TYPE_CHECKING:
    from scipy.sparse import csr_array

CHUNK = 2**20  # table entries at a time, so that memory does not grow with the instances


def supported(problem: Problem) -> str | None:
    """None if the cost of x is a sum over items, groups of them and pools, else the reason it is not."""
    if isinstance(problem.prior, FactoredPrior):
        return None
    kind = type(problem.prior).__name__
    return f"its prior {kind} is not a sum over items and groups: it has no `costs` (Exhaustive takes any)."


def program(problem: Problem) -> Program:
    """What all instances of the problem share."""
    assert isinstance(problem.prior, FactoredPrior)  # what `supported` says, for the type checker
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


def tables(costs: PoolCosts, instance: int) -> Floats:
    """The costs of every count for every pool of an instance: (pools, counts), infinite where impossible."""
    return np.asarray(costs.of_instance(instance).cpu().numpy())
