"""Problems as programs: which ones `ExactMAP` and `LinearProgram` take, and their costs as numbers.

The prior gives each item a weight, log((1 - rate) / rate), or fixes it where the rate is 0 or 1; the noise gives each
pool of an instance a table of costs, -log P(y_i | c) for c = 0, 1, ... See `integer_program` for what is done
with them.
"""

import numpy as np
import torch
from torch import Tensor

from qgt.decoders.highs.encoding import Floats
from qgt.decoders.highs.integer_program import Program
from qgt.model.prior import Bernoulli, FixedWeight
from qgt.model.problem import Problem

CHUNK = 2**20  # table entries at a time, so that memory does not grow with the instances


def supported(problem: Problem) -> str | None:
    """None if the cost of x is a sum over items and pools, else the reason it is not."""
    if isinstance(problem.prior, Bernoulli | FixedWeight):
        return None
    kind = type(problem.prior).__name__
    return f"its prior {kind} is not a sum over items; it takes Bernoulli and FixedWeight (Exhaustive takes any)."


def program(problem: Problem) -> Program:
    """What all instances of the problem share."""
    from scipy.sparse import csr_array

    matrix = csr_array(problem.design.matrix.cpu().numpy().astype(np.float64))
    zeros, ones = np.zeros(problem.items), np.ones(problem.items)
    if isinstance(problem.prior, FixedWeight):
        some = torch.zeros(1, problem.items, dtype=torch.uint8)
        some[0, : problem.prior.defectives] = 1
        constant = -float(problem.prior.log_prob(some)[0])  # the same for every set of that size
        return Program(matrix, zeros, zeros, ones, problem.prior.defectives, constant)
    assert isinstance(problem.prior, Bernoulli)  # what `supported` says, for the type checker
    rate = problem.prior.marginals(problem.items).numpy()
    free = (rate > 0) & (rate < 1)
    known = np.where(free, 0.5, rate)  # any number, where the logarithms below are not used
    weights = np.where(free, np.log1p(-np.where(free, rate, 0.5)) - np.log(np.where(free, rate, 0.5)), 0.0)
    constant = -float(np.log1p(-rate[free]).sum())
    return Program(matrix, weights, np.floor(known), np.ceil(known), None, constant)


def tables(problem: Problem, y: Tensor) -> Floats:
    """The costs of every count for every pool: (instances, pools, counts), infinite where impossible."""
    counts = torch.arange(int(problem.design.pool_sizes.max()) + 1, dtype=torch.float64)
    shape = (*y.shape, len(counts))
    log_prob = problem.noise.log_prob(y.cpu()[:, :, None].expand(shape), counts.expand(shape))
    return np.asarray(-log_prob.numpy())
