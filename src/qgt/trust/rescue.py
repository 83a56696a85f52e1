"""Counts that no answer explains: which of them must be wrong, and what the others say.

Under the model as it stands such an instance has probability 0, and nothing follows from it. If any count may be
arbitrary, with a tiny chance, the most probable answer is the one that takes the fewest counts to be wrong: those are
the counts to look at again. Mostly it is one: so each count is left out in turn, which is quick, for the others stay
exact. Where that explains nothing, a search under a noise with arbitrary counts (`Outliers`) follows; it is slow.

Where more than a third of the counts are impossible by themselves, nothing is said. A slip of the pen or a failed pool
spoils one count or a few; so many are another sheet, another design or another kind of number, and what is left then
determines nothing: a plan has about as many pools as it needs, so that the counts that remain fit some set of items
whatever they are. Nor is an answer worth a word that takes most of the counts to be wrong.
"""

import math
import time
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float64, UInt8
from torch import Tensor

from qgt.decoders.certified.decoder import Certified
from qgt.decoders.results import Decoded, Status
from qgt.model.factors import pool_costs
from qgt.model.noise import Outliers
from qgt.model.problem import Problem

HOPELESS = 1 / 3  # of the counts: where more are impossible by themselves, the others tell nothing
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
    """Explain counts that the problem cannot explain, as far as its decoder finds an answer in the time.

    None where no answer is found, where more than a third of the counts are impossible by themselves, or where the
    answer takes more than half of them to be wrong.
    """
    possible = pool_costs(problem.design, problem.noise, y[None]).possible(problem.design.pool_sizes)[0]
    if not bool((possible & ~y.isnan()).any()) or Certified().supports(problem) is not None:
        return None
    counted = int((~y.isnan()).sum())
    if int((~possible & ~y.isnan()).sum()) > HOPELESS * counted:
        return None
    start = time.perf_counter()
    kept = torch.where(possible, y, torch.nan)  # a count that is impossible by itself says nothing
    found = _one_wrong(problem, y, seconds / 2) if bool(possible.all()) else _agreed(problem, y, kept, seconds / 2)
    found = found or _some_wrong(problem, y, kept, max(seconds - (time.perf_counter() - start), seconds / 10))
    return found if found is not None and 2 * len(found.wrong) <= counted else None


def _agreed(problem: Problem, y: Tensor, kept: Tensor, seconds: float) -> Rescue | None:
    """What the counts that are possible say, if they agree: then no other count need be wrong."""
    result = Certified(time_limit=seconds, certificates=False).bind(problem)(kept[None])
    return _read(problem, y, result) if int(result.status[0]) == Status.PROVED else None


def _one_wrong(problem: Problem, y: Tensor, seconds: float) -> Rescue | None:
    """The best answer that takes a single count to be wrong: each is left out in turn. None where none is found."""
    without = torch.where(torch.eye(problem.pools, dtype=torch.bool), torch.nan, y)  # (pools, pools)
    result = Certified(time_limit=seconds / problem.pools, certificates=False).bind(problem)(without)
    answers, complete = result.evidence.alternatives, result.evidence.complete
    assert answers is not None and complete is not None
    # An arbitrary count is one of those from 0 to the pool's size.
    score = answers.log_joint - (problem.design.pool_sizes.double() + 1).log()[answers.spans.owner]
    if not bool(score.isfinite().any()):
        return None
    best = int(score.argmax())
    near = answers.x[score > score[best] - math.log(Certified().odds)]
    differ = (near != answers.x[best]).any(0)
    undecided = differ if bool(complete.all()) else torch.ones_like(differ)
    return Rescue(answers.x[best], undecided, _wrong(problem, y, answers.x[best]))


def _some_wrong(problem: Problem, y: Tensor, kept: Tensor, seconds: float) -> Rescue | None:
    """The best answer if any count may be arbitrary."""
    relaxed = Problem(problem.design, problem.prior, Outliers(problem.noise, ARBITRARY))
    return _read(problem, y, Certified(time_limit=seconds, certificates=False).bind(relaxed)(kept[None]))


def _read(problem: Problem, y: Tensor, result: Decoded) -> Rescue | None:
    """The answer of one instance's result."""
    evidence = result.evidence
    assert evidence.unsettled is not None and evidence.complete is not None and evidence.log_joint is not None
    if not bool(evidence.log_joint.isfinite()[0]):
        return None
    settled = int(result.status[0]) == Status.PROVED and bool(evidence.complete[0])
    undecided = evidence.unsettled[0] if settled else torch.ones_like(evidence.unsettled[0])
    return Rescue(result.x[0], undecided, _wrong(problem, y, result.x[0]))


def _wrong(problem: Problem, y: Tensor, x: Tensor) -> tuple[str, ...]:
    """Pools whose counts are impossible if the answer is right."""
    costs = pool_costs(problem.design, problem.noise, y[None]).of_instance(0)
    counts = problem.design.count(x[None])[0].to(torch.int64)
    wrong = ~costs.gather(1, counts[:, None])[:, 0].isfinite()
    return tuple(problem.design.pool_names[i] for i in wrong.nonzero().flatten().tolist())
