"""Belief propagation (sum-product) with exact tables: the decoder for very many items in small pools.

On a factor graph without cycles the marginals are exact. On a large sparse design cycles are long and they nearly are;
then no decoder in this time is known to do better. `tree` says what a factor tells its items, `graph` in which order
factors speak, `sweeps` when they are done. A sweep takes time and memory in proportion to the transfers, times the
number of possible counts of a pool (Kschischang, Frey and Loeliger 2001, Factor graphs and the sum-product algorithm).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from qgt.arguments import positive, whole
from qgt.decoders.belief.graph import MOST_TOTAL, Costs, Graph, prior_odds
from qgt.decoders.belief.repair import repaired
from qgt.decoders.belief.sweeps import sweep
from qgt.decoders.contract import BoundDecoder, refuse_unsupported
from qgt.decoders.results import Decoded, Evidence, Status
from qgt.model.prior import FREE, FactoredPrior
from qgt.model.problem import Problem

MOST_IN_POOL = 2048  # a pool of n items takes n^2 operations where every count is possible
CHUNK = 2**23  # messages at a time: 64 MiB


@dataclass(frozen=True)
class BeliefPropagation:
    """Sum-product on the factor graph: a million items in seconds; any noise, any prior of factors, missing counts.

    Its scores are the marginals P(x_j = 1 | y), and items above one half are called. Factors are swept
    over until no marginal changes by more than `tolerance`, at most `iterations` times. An instance is NOT_CONVERGED
    where that did not happen, and where no possible answer was found near the marginals. Made for sparse designs: where
    most items share a pool with most others it is too sure of itself; take `Certified` or `GAMP` there.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> design = qgt.Design.column_regular(pools=250, items=1000, weight=8, generator=g)
        >>> problem = qgt.Problem(design, qgt.Bernoulli(0.06), qgt.SparseInteger(rate=0.1, bound=1))
        >>> x, y = problem.simulate(20, generator=g)
        >>> qgt.score(x, qgt.BeliefPropagation().bind(problem)(y).x).success_rate > 0.8
        True
    """

    iterations: int = 100
    tolerance: float = 1e-3

    def __post_init__(self) -> None:
        object.__setattr__(self, "iterations", whole("iterations", self.iterations, least=1))
        object.__setattr__(self, "tolerance", positive("tolerance", self.tolerance))

    def supports(self, problem: Problem) -> str | None:
        """Priors of items, groups and a number; pools of up to 2048 items."""
        if not isinstance(problem.prior, FactoredPrior):
            return f"its prior {type(problem.prior).__name__} is not a sum over items and groups: it has no `costs`."
        largest = int(problem.design.pool_sizes.max())
        if largest > MOST_IN_POOL:
            return f"it has a pool of {largest} items, and messages are summed exactly up to {MOST_IN_POOL}; use GAMP."
        return None

    def bind(self, problem: Problem) -> BoundDecoder:
        """Lay the factor graph out once."""
        refuse_unsupported(self, problem)
        graph = Graph.of(problem.factors(torch.zeros(0, problem.pools, dtype=torch.float64)))
        rows = max(1, CHUNK // max(problem.design.transfers, 1))

        def decode(y: Tensor, defectives: Tensor | None) -> Decoded:
            here = graph.to(y.device)
            return Decoded.joined([_decode(self, problem, here, part) for part in y.split(rows)])

        return BoundDecoder(problem, decode, takes_missing=True)


def _decode(config: BeliefPropagation, problem: Problem, graph: Graph, y: Tensor) -> Decoded:
    factors = problem.factors(y)
    costs, known = Costs.of(factors), factors.items.known.to(y.device)
    large = problem.items > MOST_TOTAL and factors.items.total is not None
    total = factors.items.total.to(y.device) if large and factors.items.total is not None else None
    prior = prior_odds(factors).to(y.device)
    beliefs = sweep(graph, costs.likelihoods(), prior, total, config.iterations, config.tolerance)
    scores = torch.where(known == FREE, beliefs.marginals.T, known.to(torch.float64)).contiguous()  # (instances, items)
    x = (scores > 0.5).to(torch.uint8)
    cost = factors.cost(x, torch.arange(len(y), device=y.device))
    # The most probable status of each item by itself may be no possible answer together.
    broken = (cost == torch.inf).nonzero()[:, 0]
    if len(broken):
        x[broken] = repaired(graph, costs, factors.items, x[broken], broken)
        cost[broken] = factors.cost(x[broken], broken)
    fine = beliefs.settled & (cost < torch.inf)
    status = torch.where(fine, int(Status.OK), int(Status.NOT_CONVERGED)).to(torch.uint8)
    return Decoded(x, status, scores, Evidence(log_joint=-cost, iterations=beliefs.sweeps))
