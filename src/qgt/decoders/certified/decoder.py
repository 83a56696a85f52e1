"""The most probable x of whole batches, proved, with every answer that is nearly as probable.

`ExactMAP` asks an integer-programming solver about one instance after the other. Here all instances of a batch, which
share their design, go through one batched solver, on a CPU or a GPU: linear relaxations by a first-order method
(`relaxation`), whole answers by flips and swaps (`polish`), and one branch and bound over the
nodes of all instances (`branching`). What that search does not settle in half of its time goes to `ExactMAP`'s solver
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

from qgt.arguments import positive
from qgt.decoders.certified.branching import Search
from qgt.decoders.certified.costs import Model, Tables, supported
from qgt.decoders.certified.levels import CLOSE
from qgt.decoders.certified.nodes import Found, Leaves
from qgt.decoders.certified.polish import polished
from qgt.decoders.certified.stragglers import Stragglers
from qgt.decoders.contract import BoundDecoder, Decoder, refuse_unsupported
from qgt.decoders.highs import costs
from qgt.decoders.results import Answers, Decoded, Evidence, Proof, Spans, Status
from qgt.model.factors import pool_costs
from qgt.model.prior import Prior
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

    With a time limit and `hand_over`, an instance whose answer is still open after half of its time is given to HiGHS.
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "odds", positive("odds", self.odds))
        if self.odds < 1:
            raise ValueError(f"odds={self.odds} is not valid: give 1 or more.")
        if self.time_limit is not None:
            object.__setattr__(self, "time_limit", positive("time_limit", self.time_limit))

    def supports(self, problem: Problem) -> str | None:
        """Any prior with `costs`, and any noise; and what the proposals support."""
        reason = None if self.proposals is None else self.proposals.supports(problem)
        return reason or supported(problem)

    def bind(self, problem: Problem) -> BoundDecoder:
        """Set up what all instances share, once for each device."""
        refuse_unsupported(self, problem)
        propose = None if self.proposals is None else self.proposals.bind(problem)
        models: dict[torch.device, Model] = {}
        program = costs.program(problem) if self.hand_over and self.time_limit is not None else None

        def decode(y: Tensor, defectives: Tensor | None) -> Decoded:
            deadline = None if self.time_limit is None else time.perf_counter() + self.time_limit * len(y)
            if y.device not in models:
                models[y.device] = Model.of(problem, y.device)
            model = models[y.device]
            pools = pool_costs(problem.design, problem.noise, y)
            tables = Tables.of(pools)
            search = Search.start(model, tables, slack=math.log(self.odds), keep_leaves=self.certificates)
            nothing = search.best.clone()  # what no x costs
            if propose is not None and len(y):
                all_ = torch.arange(len(y), device=y.device)
                search.propose(all_, polished(model, tables, all_, propose(y).x))
            late = None
            if program is not None and self.time_limit is not None:
                late = Stragglers.of(program, pools, self.time_limit)
            for worked in search.steps(batch_of(y.device, problem.items), deadline):
                if late is not None and deadline is not None:
                    late.after(search, worked, deadline)
            by_highs = torch.zeros_like(search.best > 0) if late is None else late.proved(search.best)
            return _decoded(problem, y, search, search.best >= nothing, by_highs, self.odds)

        return BoundDecoder(problem, decode, takes_missing=True)


def batch_of(device: torch.device, items: int) -> int:
    """How many nodes to work on together: an eighth of a GPU's memory at most."""
    size = CPU_BATCH
    if device.type == "cuda":
        size = min(GPU_BATCH, torch.cuda.get_device_properties(device).total_memory // 8 // BYTES)
    return max(64, size // items)


def _decoded(problem: Problem, y: Tensor, search: Search, none_found: Tensor, by_highs: Tensor, odds: float) -> Decoded:
    """What the search found, as a result."""
    listed = odds > 1
    unexplored = search.unexplored()
    complete = unexplored == torch.inf
    own = complete | (search.best - unexplored <= CLOSE) & ~none_found
    by_highs = by_highs & ~own & ~none_found
    closed = own | by_highs
    status = torch.where(closed, Status.PROVED, Status.TIME_LIMIT)
    status = torch.where(none_found & complete, Status.INFEASIBLE, status).to(torch.uint8)

    answers = _answers(search, none_found)
    spans, _ = Spans.of(answers.owner, len(y))  # they are in order already
    first = (spans.ends - spans.numbers)[~none_found]  # each list's most probable one
    x = search.answer.clone()
    x[~none_found] = answers.x[first]
    owner, cost = answers.owner, answers.cost
    weight = (search.best[owner] - cost).exp()
    weight = weight / torch.zeros_like(search.best).index_add_(0, owner, weight)[owner]
    confidence = torch.zeros_like(search.best)
    confidence[~none_found] = weight[first]
    marginals = torch.zeros_like(x, dtype=torch.float64)
    marginals.index_add_(0, owner, weight[:, None] * answers.x).clamp_(max=1.0)
    if isinstance(problem.prior, Prior):
        marginals[none_found] = problem.prior.marginals(problem.items).to(y.device)
    log_joint = problem.log_joint(x, y)
    agrees = none_found | ((log_joint + search.best).abs() <= CLOSE)  # recomputed from the problem itself
    status = torch.where((status == Status.PROVED) & ~agrees, Status.OK, status).to(torch.uint8)
    differing = torch.zeros_like(x, dtype=torch.int32).index_add_(0, owner, (answers.x != x[owner]).int())
    evidence = Evidence(
        log_joint=log_joint,
        bound=torch.where(closed, log_joint, -unexplored),
        complete=complete & listed,
        confidence=confidence if listed else None,
        unsettled=differing > 0,
        alternatives=Answers(spans, answers.x, -cost, weight),
        by_highs=by_highs & (status == Status.PROVED),
    )
    proof = _proof(search, odds) if search.keep_leaves else None
    return Decoded(x, status, marginals if listed else None, evidence, proof)


def _answers(search: Search, none_found: Tensor) -> Found:
    """All answers within the limit, by instance, the most probable first.

    Of equally probable ones the first binary number comes first, so that batches of any size give the same answer.
    """
    instances = torch.arange(len(search.best), device=search.best.device)
    known = Found(instances[~none_found], search.answer[~none_found], search.best[~none_found])
    owner, x, cost = (torch.cat(parts) for parts in zip(known, *search.found, strict=True))
    again = (x == search.answer[owner]).all(1)
    again[: len(known.owner)] = False  # the leaf that found the answer lists it once more
    keep = (cost < search.limit(owner)) & ~again
    keep[: len(known.owner)] = True
    owner, x, cost = owner[keep], x[keep], cost[keep]
    tied = cost <= search.best[owner] + CLOSE
    shared = tied & (torch.zeros_like(instances).index_add_(0, owner, tied.long())[owner] > 1)
    number = torch.zeros_like(owner)
    if bool(shared.any()):
        number[shared] = x[shared].unique(dim=0, return_inverse=True)[1]
    order = number.argsort(stable=True)
    order = order[torch.where(tied, search.best[owner], cost)[order].argsort(stable=True)]
    order = order[owner[order].argsort(stable=True)]
    return Found(owner[order], x[order], cost[order])


def _proof(search: Search, odds: float) -> Proof:
    """The leaves of each instance's tree; what is still open is a leaf too, shown as far as it was."""
    none = search.tables.which[:0]  # (0, pools), int64: what there is for no instances
    nothing = Leaves(
        none[:, 0], search.answer[:0].to(torch.int8), none[:, 0], none[:, 0], none.float(), none[:, :0].float()
    )
    leaves = [*search.leaves, *search.open_leaves()] or [nothing]
    owner, fixed, least, most, pi, shares = (torch.cat(part) for part in zip(*leaves, strict=True))
    spans, order = Spans.of(owner, len(search.best))
    return Proof(odds, spans, fixed[order], least[order], most[order], pi[order], shares[order])
