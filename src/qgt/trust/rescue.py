"""Counts that no answer explains: which of them must be wrong, and what the others say.

Under the model as it stands such an instance has probability 0, and nothing follows from it. Under a model in which any
count may be arbitrary with a tiny chance (`qgt.Outliers`), the most probable answer is the one that takes the fewest
counts to be wrong: those counts are the ones to look at again.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float64, UInt8
from torch import Tensor

from qgt.decoders.certified.decoder import Certified
from qgt.decoders.results import Status
from qgt.model.design import Design
from qgt.model.factors import pool_costs
from qgt.model.noise import Outliers
from qgt.model.problem import Problem

ARBITRARY = 1e-4  # the chance of an arbitrary count: far below that of any error the noise knows
SECONDS = 1.0


@dataclass(frozen=True, eq=False)
class Rescue:
    """The answer that takes the fewest counts of one instance to be wrong.

    Example:
        >>> import torch, qgt
        >>> rows = ["11000", "00110", "10101", "01011", "11111"]
        >>> problem = qgt.Problem(qgt.Design.from_rows(rows), qgt.Bernoulli(0.1))
        >>> found = rescue(problem, torch.tensor([1.0, 0.0, 1.0, 0.0, 3.0], dtype=torch.float64))
        >>> found.x.tolist(), found.wrong
        ([1, 0, 0, 0, 0], ('P5',))
    """

    x: UInt8[Tensor, " items"]
    undecided: Bool[Tensor, " items"]  # where other answers that come close differ, or might
    wrong: tuple[str, ...]  # pools whose counts cannot be right if the answer is


def rescue(problem: Problem, y: Float64[Tensor, " pools"], *, seconds: float = SECONDS) -> Rescue | None:
    """Explain counts that the problem cannot explain, as far as its decoder finds an answer in the time."""
    possible = pool_costs(problem.design, problem.noise, y[None]).possible(problem.design.pool_sizes)[0]
    kept = possible.nonzero().flatten().tolist()  # a count that is impossible by itself says nothing
    if not kept:
        return None
    design = Design.from_lists([problem.design.members(i).tolist() for i in kept], items=problem.items)
    relaxed = Problem(design, problem.prior, Outliers(problem.noise, ARBITRARY))
    decoder = Certified(time_limit=seconds, certificates=False)
    if decoder.supports(relaxed) is not None:
        return None
    result = decoder.bind(relaxed)(y[kept][None])
    evidence = result.evidence
    assert evidence.unsettled is not None and evidence.complete is not None and evidence.log_joint is not None
    if not bool(evidence.log_joint.isfinite()[0]):
        return None
    settled = int(result.status[0]) == Status.PROVED and bool(evidence.complete[0])
    undecided = evidence.unsettled[0] if settled else torch.ones_like(evidence.unsettled[0])
    costs = pool_costs(problem.design, problem.noise, y[None]).of_instance(0)
    counts = problem.design.count(result.x)[0].to(torch.int64)
    wrong = ~costs.gather(1, counts[:, None])[:, 0].isfinite()
    names = tuple(problem.design.pool_names[i] for i in wrong.nonzero().flatten().tolist())
    return Rescue(result.x[0], undecided, names)
