"""Problems as programs: which ones `ExactMAP` and `LinearProgram` take, and their costs as numbers.

See `qgt.model.factors` for the costs, and `integer_program` for what is done with them.
"""

import numpy as np

from qgt.decoders.envelopes import Floats
from qgt.decoders.highs.integer_program import Program
from qgt.model.factors import PoolCosts
from qgt.model.prior import FactoredPrior
from qgt.model.problem import Problem

CHUNK = 2**20  # table entries at a time, so that memory does not grow with the instances


def supported(problem: Problem) -> str | None:
    """None if the cost of x is a sum over items and pools, else the reason it is not."""
    kind = type(problem.prior).__name__
    if isinstance(problem.prior, FactoredPrior):
        costs = problem.prior.costs(problem.items)
        if costs.groups is None and (costs.total is None or costs.number is not None):
            return None
        return f"its prior {kind} is not a sum over items alone (Exhaustive takes any)."
    return f"its prior {kind} is not a sum over items; it takes Bernoulli and FixedWeight (Exhaustive takes any)."


def program(problem: Problem) -> Program:
    """What all instances of the problem share."""
    from scipy.sparse import csr_array

    assert isinstance(problem.prior, FactoredPrior)  # what `supported` says, for the type checker
    costs = problem.prior.costs(problem.items)
    matrix = csr_array(problem.design.matrix.cpu().numpy().astype(np.float64))
    known = costs.known.numpy()
    lower, upper = (known == 1).astype(np.float64), (known != 0).astype(np.float64)
    return Program(matrix, costs.weights.numpy(), lower, upper, costs.number, costs.base)


def tables(costs: PoolCosts, instance: int) -> Floats:
    """The costs of every count for every pool of an instance: (pools, counts), infinite where impossible."""
    return np.asarray(costs.of_instance(instance).cpu().numpy())
