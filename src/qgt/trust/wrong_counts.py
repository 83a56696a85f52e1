"""Is one wrong count a better explanation than the answer?

A count that is off by more than the noise allows misleads the search: the most probable x under the model is then
another one, with a few more counts off than usual, and often it has no rival. How far its counts are off shows little.
But if one count is wrong, the others are right, and without it the truth is far more probable than that answer. Let P
be the model, and Q the same with one wrong count: any pool's, off by just more than the noise allows, or anything.

    Q(y) = mean over pools i of  sum over x of  P(x, y without y_i) w(y_i | (A x)_i)

For instances of the model the expected value of Q(y) / P(y) is 1. So two things follow from the ratio. By Markov's
inequality its inverse is a p-value. And if one instance in `1 / RATE` has a wrong count, the answer, which takes all
counts to be right, loses a share of its probability; of instances of the model it takes no more than RATE on average:

    P(no count is wrong | y)  =  1 / (1 + RATE Q(y) / P(y)).

Each count is left out in turn. The most probable x without it bounds its part of Q(y) from below, and a complete list
of answers gives P(y), but for what is not listed.
"""

import math

import torch
from jaxtyping import Float64
from torch import Tensor

from qgt.decoders.certified.decoder import Certified
from qgt.decoders.results import Decoded, Status
from qgt.model.problem import Problem
from qgt.trust.fit import INSTANCE_ALARM
from qgt.trust.reference import SMALLEST

RATE = 1e-3  # instances with a wrong count
NEAR = 0.5  # the share of wrong counts that are off by just more than the noise allows; the others are anything
RARE = 1e-3  # the chance of errors that the noise is not said to allow
SECONDS = 0.002  # for each count that is left out
TOGETHER = 2**12  # counts left out at a time
LOOK_AGAIN = 0.3  # a fit below this is looked at again, for a wrong count
SECOND_LOOK = 0.1  # its share of the false alarms


def second_look(
    problem: Problem, y: Float64[Tensor, "instances pools"], result: Decoded, fit: Float64[Tensor, " instances"]
) -> tuple[Float64[Tensor, " instances"], Float64[Tensor, " instances"]]:
    """The fit, and the probability that no count is wrong, of instances that fit neither well nor too badly.

    Where counts fit well none is off by much, and where they fit too badly the answer is not trusted anyway: there the
    fit stays as it is, but for the share of false alarms that the second look takes, and no count is held for wrong.
    """
    doubtful = ((fit >= INSTANCE_ALARM * (1 - SECOND_LOOK)) & (fit < LOOK_AGAIN)).nonzero().flatten()
    odds = torch.full_like(fit, -torch.inf)
    if len(doubtful):
        odds[doubtful] = wrong_count_odds(problem, y[doubtful], result.pick(doubtful))
    # Of two p-values the least is taken, each divided by its share of the false alarms.
    return torch.minimum(fit / (1 - SECOND_LOOK), (-odds).exp() / SECOND_LOOK).clamp(SMALLEST, 1.0), believed(odds)


def wrong_count_odds(
    problem: Problem, y: Float64[Tensor, "instances pools"], result: Decoded
) -> Float64[Tensor, " instances"]:
    """How much better a wrong count explains each instance, log Q(y) / P(y); -inf where that is not known.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> design = qgt.Design.bernoulli(pools=35, items=100, generator=g)
        >>> problem = qgt.Problem(design, qgt.Bernoulli(0.06), qgt.SparseInteger(0.1, 1))
        >>> y = problem.simulate(2, generator=g).y
        >>> y[1, 7] += 2  # no error of the model
        >>> odds = wrong_count_odds(problem, y, qgt.Certified().bind(problem)(y))
        >>> bool(odds[0] < 0), bool(odds[1] > 7)
        (True, True)
    """
    odds = torch.full((len(y),), -torch.inf, dtype=torch.float64, device=y.device)
    answers, complete = result.evidence.alternatives, result.evidence.complete
    if answers is None or complete is None or Certified().supports(problem) is not None:
        return odds
    owner = answers.spans.owner
    log_p = odds.scatter_reduce(0, owner, answers.log_joint, "amax")
    log_p = log_p + torch.zeros_like(log_p).index_add_(0, owner, (answers.log_joint - log_p[owner]).exp()).log()
    some = (complete & (result.status == Status.PROVED)).nonzero().flatten()
    for part in some.split(max(1, TOGETHER // problem.pools)):
        odds[part] = _log_q(problem, y[part]) - log_p[part]
    return odds


def _log_q(problem: Problem, y: Tensor) -> Float64[Tensor, " instances"]:
    """A lower bound on log Q(y), by leaving out each count in turn."""
    pools, sizes = problem.pools, problem.design.pool_sizes.to(y.device, torch.float64)
    alone = torch.eye(pools, dtype=torch.bool, device=y.device)
    without = torch.where(alone, torch.nan, y[:, None, :]).flatten(0, 1)  # (instances * pools, pools)
    found = Certified(odds=1.0, time_limit=SECONDS, certificates=False).bind(problem)(without)
    assert found.evidence.log_joint is not None
    expected = problem.design.count(found.x)[alone.repeat(len(y), 1)].view(len(y), pools)  # of the count left out
    log_joint = found.evidence.log_joint.view(len(y), pools) + _log_wrong(problem, y, expected, sizes)
    return torch.where(y.isnan(), -torch.inf, log_joint).logsumexp(1) - math.log(pools)


def _log_wrong(problem: Problem, y: Tensor, expected: Tensor, sizes: Tensor) -> Tensor:
    """log w: the probability of a wrong count, given what its pool's items add up to."""
    inside = (y >= -0.5) & (y <= sizes + 0.5)
    chance = torch.where(inside, 1 / (sizes + 1), 0.0)
    if not problem.noise.integer:
        return chance.log()
    reach = torch.tensor([problem.noise.reach(int(size), RARE) for size in sizes.tolist()], dtype=torch.float64)
    near = torch.where((y - expected).abs() == reach.to(y.device) + 1, 0.5, 0.0)  # above or below
    return (NEAR * near + (1 - NEAR) * chance).log()


def believed(odds: Float64[Tensor, " instances"]) -> Float64[Tensor, " instances"]:
    """The probability that no count is wrong.

    Example:
        >>> import torch
        >>> believed(torch.tensor([-torch.inf, 0.0, 7.0], dtype=torch.float64))
        tensor([1.0000, 0.9990, 0.4770], dtype=torch.float64)
    """
    return torch.sigmoid(-(odds + math.log(RATE)))
