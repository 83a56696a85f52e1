"""Is one wrong count a better explanation than the answer?

A count that is off by more than the noise allows misleads the search: the most probable x under the model is then
another one, with a few more counts off than usual, and often it has no rival. How far its counts are off shows little.
But under a model in which any count may be arbitrary with a small chance (`qgt.model.noise.Outliers`) the truth is far
more probable than that answer. Let P be the model and Q the wider one. For instances of the model the expected value of
Q(y) / P(y) is 1, so by Markov's inequality

    P( Q(y) / P(y) >= c )  <=  1 / c:

the inverse of the ratio is a p-value. Any x gives Q(y) >= Q(x, y), and a complete list of answers gives P(y), but for
what is not listed.
"""

import torch
from jaxtyping import Float64
from torch import Tensor

from qgt.decoders.gamp import GAMP
from qgt.decoders.results import Decoded, Status
from qgt.model.noise import Outliers
from qgt.model.problem import Problem

ARBITRARY = 0.01  # the chance of an arbitrary count in the wider model; the p-value holds for any


def wrong_count_p(
    problem: Problem, y: Float64[Tensor, "instances pools"], result: Decoded
) -> Float64[Tensor, " instances"]:
    """How often, at most, arbitrary counts explain an instance of the model so much better; 1 where that is not known.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> design = qgt.Design.bernoulli(pools=35, items=100, generator=g)
        >>> problem = qgt.Problem(design, qgt.Bernoulli(0.06), qgt.SparseInteger(0.1, 1))
        >>> y = problem.simulate(2, generator=g).y
        >>> y[1, 7] += 2  # no error of the model
        >>> p = wrong_count_p(problem, y, qgt.Certified().bind(problem)(y))
        >>> bool(p[0] > 0.1), bool(p[1] < 1e-3)
        (True, True)
    """
    p = torch.ones(len(y), dtype=torch.float64, device=y.device)
    wider, decoder = Problem(problem.design, problem.prior, Outliers(problem.noise, ARBITRARY)), GAMP()
    answers, complete = result.evidence.alternatives, result.evidence.complete
    if answers is None or complete is None or decoder.supports(wider) is not None:
        return p
    some = (complete & (result.status == Status.PROVED)).nonzero().flatten()
    if not len(some):
        return p
    found = decoder.bind(wider)(y[some]).x
    log_q = wider.log_joint(found, y[some])
    owner = answers.spans.owner
    log_p = torch.full((len(y),), -torch.inf, dtype=torch.float64, device=y.device)
    log_p = log_p.scatter_reduce(0, owner, answers.log_joint, "amax")
    weight = (answers.log_joint - log_p[owner]).exp()
    log_p = log_p + torch.zeros_like(log_p).index_add_(0, owner, weight).log()
    p[some] = (log_p[some] - log_q).exp().clamp(max=1.0)
    return p
