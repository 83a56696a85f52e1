"""The most probable x of whole batches, proved, with every answer that is nearly as probable.

`ExactMAP` asks an integer-programming solver about one instance after the other. Here all instances of a batch, which
share their design, go through one batched solver, on a CPU or a GPU: linear relaxations by a first-order method
(`relaxation`), whole answers by flips and swaps (`nodes`), and one branch and bound over the
nodes of all instances (`search`). What that search does not settle in half of its time goes to `ExactMAP`'s solver
(`stragglers`).

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
from dataclasses import dataclass

import torch
from torch import Tensor

from qgt.arguments import fraction, positive
from qgt.decoders.certified import large as large_problems
from qgt.decoders.certified.costs import Model, Tables
from qgt.decoders.certified.nodes import polished
from qgt.decoders.certified.relaxation import Recordings
from qgt.decoders.certified.search import BatchOutcome, Search, as_decoded
from qgt.decoders.certified.stragglers import Stragglers
from qgt.decoders.contract import BoundDecoder, Decoder, refuse_unsupported, without_costs
from qgt.decoders.highs import integer_program
from qgt.decoders.results import Decoded
from qgt.model.factors import pool_costs
from qgt.model.problem import Problem

CPU_BATCH = 2**18  # nodes times items that are worked on together: what the caches hold
GPU_BATCH = 2**25  # on a GPU a batch must outweigh its launches
BYTES = 300  # of scratch memory for each


@dataclass(frozen=True)
class Certified:
    """Finds and proves the most probable x of every instance, and all that are more than 1/odds as probable.

    `odds=1` stops at the proof, and gives no probabilities. `time_limit` is in seconds per instance, shared: a
    batch may take that times its length, and what easy instances leave goes to hard ones. `proposals` is any decoder
    whose calls are tried as first answers. `certificates=False` keeps no proofs, for batches of many hard instances.
    Where an answer turns out to have less than `sure` of the weight listed, the search goes on only for what is more
    than 1/rough as probable: the list is not complete, and shorter work.

    With a time limit and `hand_over`, instances whose answers are open after half of the time are given to HiGHS.
    What HiGHS proves is PROVED too, `evidence.by_highs` says so, and it has no certificate. Nor has it a complete list
    of answers, unless the search completes it afterwards. With `hand_over=False` all that is PROVED can be checked.

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
        >>> result.evidence.alternatives.of_instance(0).x[:2]  # an item beside the sure one, or a wrong count
        tensor([[0, 1, 0, 1],
                [0, 1, 0, 0]], dtype=torch.uint8)
        >>> round(float(result.evidence.confidence[0]), 2), qgt.check_certificate(problem, y.double(), result).tolist()
        (0.65, [True, True])
    """

    odds: float = 100.0
    time_limit: float | None = None
    proposals: Decoder | None = None
    certificates: bool = True
    hand_over: bool = True
    sure: float = 0.0
    rough: float = 10.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "odds", positive("odds", self.odds))
        if self.odds < 1:
            raise ValueError(f"odds={self.odds} is not valid: give 1 or more.")
        object.__setattr__(self, "sure", fraction("sure", self.sure))
        object.__setattr__(self, "rough", positive("rough", self.rough))
        if self.sure and self.certificates:
            raise ValueError(f"sure={self.sure} is not valid with certificates, which prove whole lists: give 0.")
        if not 1 <= self.rough <= max(self.odds, 10.0):
            raise ValueError(f"rough={self.rough} is not valid: give a number from 1 to the odds.")
        if self.time_limit is not None:
            object.__setattr__(self, "time_limit", positive("time_limit", self.time_limit))

    def supports(self, problem: Problem) -> str | None:
        """Any prior with `integer_program`, and any noise; and what the proposals support."""
        reason = None if self.proposals is None else self.proposals.supports(problem)
        return reason or without_costs(problem)

    def bind(self, problem: Problem) -> BoundDecoder:
        """Set up what all instances share, once for each device."""
        refuse_unsupported(self, problem)
        propose = None if self.proposals is None else self.proposals.bind(problem)
        models: dict[torch.device, Recordings] = {}
        large = large_problems.is_large(problem)
        program = integer_program.program_of(problem) if self.hand_over and self.time_limit is not None else None

        def decode(y: Tensor, defectives: Tensor | None) -> Decoded:
            deadline = None if self.time_limit is None else time.perf_counter() + self.time_limit * len(y)
            proposed = [propose(y).x] if propose is not None and len(y) else []
            if large and len(y):
                return one_by_one_or_together(y, proposed, deadline)
            return together(y, proposed, deadline)

        def together(y: Tensor, proposed: list[Tensor], deadline: float | None) -> Decoded:
            if y.device not in models:
                models[y.device] = Recordings(Model.of(problem, y.device))
            model = models[y.device].model
            pools = pool_costs(problem.design, problem.noise, y)
            tables = Tables.of(pools)
            search = Search.start(model, tables, slack=math.log(self.odds), keep_leaves=self.certificates)
            search.sure, search.rough, search.recordings = self.sure, math.log(self.rough), models[y.device]
            nothing = search.best.clone()  # what no x costs
            for x in proposed:
                all_ = torch.arange(len(y), device=y.device)
                search.propose(all_, polished(model, tables, all_, x))
            late = None
            if program is not None and self.time_limit is not None and deadline is not None:
                late = Stragglers.of(program, pools, self.time_limit, deadline)
            for _ in search.steps(batch_of(y.device, problem.items), deadline):
                if late is not None:
                    late.after(search)
            by_highs = torch.zeros_like(search.best > 0) if late is None else late.proved(search.best)
            return as_decoded(problem, y, BatchOutcome.of(search, nothing, by_highs), self.odds)

        def one_by_one_or_together(y: Tensor, proposed: list[Tensor], deadline: float | None) -> Decoded:
            options = large_problems.Options(math.log(self.odds), self.certificates, deadline)
            found = large_problems.settle_large(problem, y.cpu(), [x.cpu() for x in proposed], options)
            settled = [one for one in found if one is not None]
            known = torch.tensor([one is not None for one in found], device=y.device)
            if not settled:
                return together(y, proposed, deadline)
            outcome = large_problems.outcome_of(settled, options, y.device)
            parts = [as_decoded(problem, y[known], outcome, self.odds)]
            if len(settled) < len(y):
                parts.append(together(y[~known], [x[~known] for x in proposed], deadline))
            order = torch.cat([known.nonzero()[:, 0], (~known).nonzero()[:, 0]])
            return Decoded.joined(parts).pick(order.argsort())

        return BoundDecoder(problem, decode, takes_missing=True)


def batch_of(device: torch.device, items: int) -> int:
    """How many nodes to work on together: an eighth of a GPU's memory at most."""
    size = CPU_BATCH
    if device.type == "cuda":
        size = min(GPU_BATCH, torch.cuda.get_device_properties(device).total_memory // 8 // BYTES)
    return max(64, size // items)
