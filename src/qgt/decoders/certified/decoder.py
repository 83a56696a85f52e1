"""The most probable x of whole batches, proved, with every answer that is nearly as probable.

`ExactMAP` asks an integer-programming solver about one instance after the other. Here all instances of a batch, which
share their design, go through one batched solver, on a CPU or a GPU: linear relaxations by a first-order method
(`relaxation`), whole answers by flips and swaps (`nodes`), and one branch and bound over the nodes of all instances
(`search`).

The search does not stop at the most probable x: it goes on until every x whose probability is more than 1/odds of the
best one's is found, and all others are excluded. Among those found the posterior weights are exact,

    P(x | y)  ~  P(x, y) / sum over the x' found of P(x', y),

which gives the confidence in the answer, the probability that each item is defective, and the items on which the
answers differ: what to retest.

The proof is data: the leaves of each instance's tree, with the multipliers that exclude all that is not listed.
`qgt.check_certificate` checks it without this solver.
"""

import math
import time
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float64
from torch import Tensor

from qgt.arguments import fraction, positive
from qgt.decoders.certified import large as large_problems
from qgt.decoders.certified.blocks import by_category
from qgt.decoders.certified.costs import Model, Tables
from qgt.decoders.certified.relaxation import Recordings
from qgt.decoders.certified.search import BatchOutcome, Search, SearchOptions, as_decoded
from qgt.decoders.contract import LEAST_PART, BoundDecoder, refuse_unsupported, without_costs
from qgt.decoders.parts import through_parts
from qgt.decoders.results import Decoded, Status
from qgt.model.categories import Categories
from qgt.model.factors import PoolCosts, pool_costs
from qgt.model.problem import Problem

CPU_BATCH = 2**18  # nodes times items that are worked on together: what the caches hold
GPU_BATCH = 2**25  # on a GPU a batch must outweigh its launches
BYTES = 300  # of scratch memory for each


@dataclass(frozen=True)
class Certified:
    """Finds and proves the most probable x of every instance, and all that are more than 1/odds as probable.

    `odds=1` stops at the proof, and gives no probabilities. `time_limit` is in seconds per instance, shared: a
    batch may take that times its length, and what easy instances leave goes to hard ones. `certificates=False` keeps no
    proofs, for batches of many hard instances. A search that would need more than `memory` GB ends as if its time were
    up. Threads share out what is open in it (see docs/scale.md).

    `scores` are the items' probabilities, the evidence is complete (see `qgt.Evidence`), and the proof is one that
    `qgt.check_certificate` checks. The `confidence` in an answer is its weight among those listed.

    Example:
        >>> import torch, qgt
        >>> design = qgt.Design.from_rows(["1100", "0110", "1011"])
        >>> problem = qgt.Problem(design, qgt.Bernoulli(0.2), qgt.SparseInteger(rate=0.1, bound=1))
        >>> y = torch.tensor([[1.0, 1.0, 1.0], [9.0, 0.0, 0.0]])
        >>> result = qgt.Certified().bind(problem)(y)
        >>> [qgt.Status(status).name for status in result.status.tolist()]
        ['PROVED', 'INFEASIBLE']
        >>> answers = result.evidence.alternatives.of_instance(0)
        >>> answers.x[0], [round(p, 2) for p in answers.probability.tolist()]  # three others need one wrong count
        (tensor([0, 1, 0, 1], dtype=torch.uint8), [0.65, 0.09, 0.09, 0.09, 0.02, 0.02, 0.02])
        >>> round(float(result.evidence.confidence[0]), 2), qgt.check_certificate(problem, y.double(), result).tolist()
        (0.65, [True, True])
    """

    odds: float = 100.0
    time_limit: float | None = None
    certificates: bool = True
    memory: float = 2.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "odds", positive("odds", self.odds))
        if self.odds < 1:
            raise ValueError(f"odds={self.odds} is not valid: give 1 or more.")
        object.__setattr__(self, "memory", positive("memory", self.memory))
        if self.time_limit is not None:
            object.__setattr__(self, "time_limit", positive("time_limit", self.time_limit))

    def supports(self, problem: Problem) -> str | None:
        """Any prior with `integer_program`, and any noise."""
        return without_costs(problem.in_parts)

    def bind(self, problem: Problem) -> BoundDecoder:
        """Set up what all instances share, once for each device."""
        refuse_unsupported(self, problem)
        if isinstance(problem.prior, Categories):
            return by_category(problem, self._alone, math.log(self.odds), self.time_limit)
        if problem.values is not None:
            return through_parts(self, problem)
        options = SearchOptions(math.log(self.odds), self.certificates, most_bytes=self.memory * 1e9)
        return _bound(problem, options, self.odds, self.time_limit)

    def _alone(self, problem: Problem, slack: float, seconds: float | None) -> BoundDecoder:
        """The same for one category of a problem, or for its parts, with a list of its own length."""
        return replace(self, odds=math.exp(slack), time_limit=seconds).bind(problem)


@dataclass(frozen=True)
class CertifiedUntilDoubtful:
    """`Certified` without certificates, whose lists are long only while the answer looks sure: for `rounds.stopping`.

    Once the answers found show that the best one has less than `stop_confidence` of the weight, only answers more than
    1/coarse_odds as probable are looked for: `evidence.complete` is False, and the work is shorter. Where time ran out
    before that shorter list was complete, the confidence is NaN.
    """

    odds: float
    time_limit: float | None
    stop_confidence: float
    coarse_odds: float

    def __post_init__(self) -> None:
        fraction("stop_confidence", self.stop_confidence)
        if not 1 <= self.coarse_odds <= self.odds:
            raise ValueError(f"coarse_odds={self.coarse_odds} is not valid: give a number from 1 to the odds.")

    def supports(self, problem: Problem) -> str | None:
        """What `Certified` supports."""
        return without_costs(problem.in_parts)

    def bind(self, problem: Problem) -> BoundDecoder:
        """Set up what all instances share, once for each device."""
        refuse_unsupported(self, problem)
        if isinstance(problem.prior, Categories):
            return self._by_category(problem)
        if problem.values is not None:
            return through_parts(self, problem)
        slacks = math.log(self.odds), math.log(self.coarse_odds)
        options = SearchOptions(slacks[0], False, self.stop_confidence, slacks[1])
        return _bound(problem, options, self.odds, self.time_limit)

    def _by_category(self, problem: Problem) -> BoundDecoder:
        """Short lists first, and long ones where the answer looks sure: those of categories are put together."""
        plain = Certified(self.odds, self.time_limit, certificates=False)
        short, long = replace(plain, odds=self.coarse_odds).bind(problem), plain.bind(problem)

        def decode(y: Tensor, defectives: Tensor | None) -> Decoded:
            first = short(y)
            confidence = first.evidence.confidence
            sure = (first.status == Status.PROVED) & (confidence is not None and confidence >= self.stop_confidence)
            doubtful = replace(_weighed(first).evidence, complete=torch.zeros_like(sure))
            parts = [replace(first, evidence=doubtful).pick((~sure).nonzero()[:, 0])]
            parts += [_weighed(long(y[sure]))] if bool(sure.any()) else []
            order = torch.cat([(~sure).nonzero()[:, 0], sure.nonzero()[:, 0]])
            return Decoded.joined(parts).pick(order.argsort())

        return BoundDecoder(problem, decode, takes_missing=True)


def _weighed(result: Decoded) -> Decoded:
    """The result with a confidence of NaN where a list is not complete: nobody knows what its answers weigh."""
    confidence, complete = result.evidence.confidence, result.evidence.complete
    if confidence is None or complete is None:
        return result
    return replace(result, evidence=replace(result.evidence, confidence=torch.where(complete, confidence, torch.nan)))


def _bound(problem: Problem, options: SearchOptions, odds: float, time_limit: float | None) -> BoundDecoder:
    """A search bound to a problem."""
    models: dict[torch.device, Recordings] = {}
    large = large_problems.is_large(problem)

    def decode(y: Tensor, defectives: Tensor | None) -> Decoded:
        deadline = None if time_limit is None else time.perf_counter() + time_limit * len(y)
        if large and len(y):
            return one_by_one_or_together(y, deadline)
        return together(y, deadline)

    def together(y: Tensor, deadline: float | None) -> Decoded:
        if y.device not in models:
            models[y.device] = Recordings(Model.of(problem, y.device))
        model, tables = models[y.device].model, Tables.of(pool_costs(problem.design, problem.noise, y))
        search = Search.start(model, tables, options, recordings=models[y.device])
        search.run(batch_of(y.device, problem.items), deadline)
        return as_decoded(problem, y, BatchOutcome.of(search), odds)

    def one_by_one_or_together(y: Tensor, deadline: float | None) -> Decoded:
        found = large_problems.settle_large(problem, y.cpu(), options, deadline)
        settled = [one for one in found if one is not None]
        known = torch.tensor([one is not None for one in found], device=y.device)
        if not settled:
            return together(y, deadline)
        outcome = large_problems.outcome_of(settled, options, y.device)
        parts = [as_decoded(problem, y[known], outcome, odds)]
        if len(settled) < len(y):
            parts.append(together(y[~known], deadline))
        order = torch.cat([known.nonzero()[:, 0], (~known).nonzero()[:, 0]])
        return Decoded.joined(parts).pick(order.argsort())

    return BoundDecoder(problem, decode, takes_missing=True, least_part=None if large else LEAST_PART, shares_out=True)


class Cheaper(NamedTuple):
    """The best x of each instance among those below its limit."""

    x: Tensor  # (instances, items), uint8; zeros where none was found
    cost: Tensor  # (instances,), float64; infinite where none was found
    unexplored: Tensor  # (instances,), float64: no x that was not looked at costs less; infinite where there is none


def cheaper_than(
    problem: Problem, pools: PoolCosts, limits: Float64[Tensor, " instances"], *, seconds: float, briefly: bool = False
) -> Cheaper:
    """The best x of each instance that costs less than a limit, as far as all of them are searched in the time.

    A limit that few x are below makes a search far shorter than one for the best x: many roots' bounds exceed it.
    `briefly` looks at the roots alone, all of them together.
    """
    device, deadline = pools.which.device, time.perf_counter() + seconds
    options = SearchOptions(keep_leaves=False)
    search = Search.start(Model.of(problem, device), Tables.of(pools), options, limits=limits)
    before = search.best.clone()
    if briefly:
        search.step(len(limits))
    else:
        search.run(batch_of(device, problem.items), deadline)
    cost = torch.where(search.best < before, search.best, torch.inf)
    return Cheaper(search.answer, cost, search.unexplored())


def batch_of(device: torch.device, items: int) -> int:
    """How many nodes to work on together: an eighth of a GPU's memory at most."""
    size = CPU_BATCH
    if device.type == "cuda":
        size = min(GPU_BATCH, torch.cuda.get_device_properties(device).total_memory // 8 // BYTES)
    return max(64, size // items)
