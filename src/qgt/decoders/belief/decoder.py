"""Belief propagation (sum-product) with exact tables: the decoder for very many items in small pools.

On a factor graph without cycles the marginals are exact. On a large sparse design cycles are long and they nearly are;
then no decoder in this time is known to do better. `sweeps` says in which order factors speak, what they tell their
items and when they are done. A sweep takes time and memory in proportion to the transfers, times the number of possible
counts of a pool (Kschischang, Frey and Loeliger 2001, Factor graphs and the sum-product algorithm).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from qgt.arguments import positive, whole
from qgt.decoders.belief.sweeps import KNOWN, MOST_TOTAL, Beliefs, FactorCosts, Graph, prior_odds, sweep
from qgt.decoders.contract import LEAST_PART, BoundDecoder, refuse_unsupported, without_costs
from qgt.decoders.parts import through_parts
from qgt.decoders.results import Decoded, Evidence, Status
from qgt.model.categories import Copies
from qgt.model.factors import Factors, finite_tables
from qgt.model.prior import ALONE, FREE, Bernoulli, Groups, ItemCosts
from qgt.model.problem import Problem

# Repair: change calls that are impossible together, few items at a time, until every factor allows them.
#
# Impossible counts get a finite price that falls towards the possible ones. Flipping item j then costs what its factors
# charge for one defective more or fewer, which two products with the design give for all items at once. In a step those
# items flip that gain most among all items they share a factor with: in a sparse design many at once, and never two
# that count on the same factor.

REPAIR_STEPS = 200
REPAIR_GAIN = 1e-6  # a flip must save this much
WRONG_PRICE, FAR_PRICE = (
    30.0,
    10.0,
)  # of an impossible count over the dearest possible one; of each count farther
REPAIR_TIE = 1e-9  # between items of equal gain the first wins


def repaired(graph: Graph, costs: FactorCosts, items: ItemCosts, x: Tensor, owner: Tensor) -> Tensor:
    """The calls x (rows, items) of the given instances, cheaper than before where single flips could make them so."""
    x, device = x.clone(), x.device
    soft = finite_tables(costs.tables, price=WRONG_PRICE, step=FAR_PRICE)
    weights = items.weights.to(device) + REPAIR_TIE * torch.linspace(
        0, 1, x.shape[1], dtype=torch.float64, device=device
    )
    free = items.known.to(device) == FREE
    at = torch.arange(len(x), device=device)  # those that still get cheaper
    for _ in range(REPAIR_STEPS):
        if not len(at):
            break
        gain = torch.where(free, _gains(graph, soft, costs.which[:, owner[at]].T, weights, x[at]), torch.inf)
        flips = (gain < -REPAIR_GAIN) & (gain <= _best_around(graph, gain))
        x[at] ^= flips.to(torch.uint8)
        at = at[flips.any(1)]
    return x


def _gains(graph: Graph, soft: Tensor, which: Tensor, weights: Tensor, x: Tensor) -> Tensor:
    """What flipping each item adds to the cost: (rows, items)."""
    counts, last = graph.design.count(x).to(torch.int64), soft.shape[1] - 1
    here, more, fewer = (soft[which, (counts + move).clamp(0, last)] for move in (0, 1, -1))  # (rows, factors)
    add, drop = graph.design.spread(more - here), graph.design.spread(fewer - here)  # (rows, items)
    return torch.where(x == 0, add + weights, drop - weights)


def _best_around(graph: Graph, gain: Tensor) -> Tensor:
    """The least gain among the items that share a factor with each item, itself included: (rows, items)."""
    lists = graph.design.lists
    owners, entries = lists.owners.to(gain.device), lists.entries.to(gain.device)
    best = gain.new_full((len(gain), len(lists)), torch.inf)
    best.scatter_reduce_(1, owners.expand(len(gain), -1), gain[:, entries], "amin")
    return gain.clone().scatter_reduce_(1, entries.expand(len(gain), -1), best[:, owners], "amin")


# Equal items of a group, such as copies: from the probability of each to that of each number of them.
#
# All items of an ordered group are in the same pools, so that these tell all of them the same log odds t, and n of them
# are defective with a probability in proportion to exp(t n) times the group's table. The t that gives the mean number
# which the sweeps ended with is found by halving an interval.

HALVINGS = 60
STEEPEST = 60.0  # the largest log odds that are looked at


def in_order(groups: Groups, marginals: Tensor) -> Tensor:
    """For items that are defective in any order the probabilities that, in order, as many or more are.

    Example:
        >>> import torch
        >>> table = -torch.tensor([[0.25, 0.5, 0.25]], dtype=torch.float64).log()
        >>> groups = Groups(torch.tensor([0, 0]), table, ordered=True)
        >>> in_order(groups, torch.tensor([[0.5, 0.5]], dtype=torch.float64))
        tensor([[0.7500, 0.2500]], dtype=torch.float64)
    """
    group, places, tables = (part.to(marginals.device) for part in (groups.group, groups.places, groups.tables))
    inside = group != ALONE
    mean = marginals.new_zeros(len(marginals), len(tables)).index_add_(1, group[inside], marginals[:, inside])
    numbers = torch.arange(tables.shape[1], dtype=torch.float64, device=tables.device)

    def law(odds: Tensor) -> Tensor:  # (instances, groups, numbers)
        return (odds[:, :, None] * numbers - tables).softmax(2)

    low, high = torch.full_like(mean, -STEEPEST), torch.full_like(mean, STEEPEST)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        more = law(middle) @ numbers < mean
        low, high = torch.where(more, middle, low), torch.where(more, high, middle)
    at_least = law((low + high) / 2).flip(2).cumsum(2).flip(2)  # (instances, groups, numbers)
    found = at_least[:, group.clamp(min=0), places + 1]
    return torch.where(inside, found.clamp(max=1.0), marginals)


# The decoder.

MOST_IN_POOL = 2048  # a pool of n items takes n^2 operations where every count is possible
MESSAGES_AT_A_TIME = 2**23  # messages at a time: 64 MiB


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
        if reason := without_costs(problem.in_parts):
            return reason
        largest = int(problem.in_parts.design.pool_sizes.max())
        if largest > MOST_IN_POOL:
            return f"it has a pool of {largest} items, and messages are summed exactly up to {MOST_IN_POOL}; use GAMP."
        return None

    def bind(self, problem: Problem) -> BoundDecoder:
        """Lay the factor graph out once."""
        refuse_unsupported(self, problem)
        if isinstance(problem.values, Copies):
            return _by_values(self, problem, problem.values)
        if problem.values is not None:
            return through_parts(self, problem)
        graph = Graph.of(problem.factors(torch.zeros(0, problem.pools, dtype=torch.float64)))
        rows = max(1, MESSAGES_AT_A_TIME // max(problem.design.transfers, 1))

        def decode(y: Tensor, defectives: Tensor | None) -> Decoded:
            here = graph.to(y.device)
            return Decoded.joined([_decode(self, problem, here, part) for part in y.split(rows)])

        return BoundDecoder(problem, decode, takes_missing=True, least_part=LEAST_PART)


def _by_values(config: BeliefPropagation, problem: Problem, copies: Copies) -> BoundDecoder:
    """Copies by messages about 0, 1, ... of them, which are exact on trees; messages about single copies are not."""
    parts, nothing = problem.in_parts, torch.zeros(0, problem.pools, dtype=torch.float64)
    pools = Graph.of(Problem(problem.design, Bernoulli(0.5), problem.noise).factors(nothing))
    every = Graph.of(parts.factors(nothing))  # for repair, which changes one copy at a time
    rows = max(1, MESSAGES_AT_A_TIME // max(parts.design.transfers, 1))

    def decode(y: Tensor, defectives: Tensor | None) -> Decoded:
        here, repairing = pools.to(y.device), every.to(y.device)
        return Decoded.joined([some(here, repairing, part) for part in y.split(rows)])

    def some(here: Graph, repairing: Graph, y: Tensor) -> Decoded:
        factors = parts.factors(y)
        tables = FactorCosts(factors.pools.tables, factors.pools.which.T).likelihoods(copies.levels)
        prior = copies.distributions(problem.items).log().clamp(min=-KNOWN).to(y.device)
        beliefs = sweep(here, tables, prior, None, config.iterations, config.tolerance)
        each = beliefs.marginals.permute(2, 0, 1).contiguous()  # (instances, items, values)
        x, cost = _possible(repairing, factors, copies.to_parts(each.argmax(2).to(torch.uint8)))
        evidence = Evidence(log_joint=-cost, iterations=beliefs.sweeps, values=each)
        return Decoded(copies.from_parts(x), _status(beliefs, cost), 1 - each[:, :, 0], evidence)

    return BoundDecoder(problem, decode, takes_missing=True, least_part=LEAST_PART)


def _possible(graph: Graph, factors: Factors, x: Tensor) -> tuple[Tensor, Tensor]:
    """Calls and their costs; calls that are impossible together are repaired where single flips can do so."""
    every, groups = torch.arange(len(x), device=x.device), factors.items.groups
    cost = factors.cost(x, every)
    broken = (cost == torch.inf).nonzero()[:, 0]
    if len(broken):
        x[broken] = repaired(graph, FactorCosts.of(factors), factors.items, x[broken], broken)
        x = x if groups is None else groups.in_order(x)
        cost[broken] = factors.cost(x[broken], broken)
    return x, cost


def _status(beliefs: Beliefs, cost: Tensor) -> Tensor:
    fine = beliefs.settled & (cost < torch.inf)
    return torch.where(fine, int(Status.OK), int(Status.NOT_CONVERGED)).to(torch.uint8)


def _decode(config: BeliefPropagation, problem: Problem, graph: Graph, y: Tensor) -> Decoded:
    factors = problem.factors(y)
    costs, known = FactorCosts.of(factors), factors.items.known.to(y.device)
    large = problem.items > MOST_TOTAL and factors.items.total is not None
    total = factors.items.total.to(y.device) if large and factors.items.total is not None else None
    prior = prior_odds(factors).to(y.device)
    beliefs = sweep(graph, costs.likelihoods(), prior, total, config.iterations, config.tolerance)
    scores = torch.where(known == FREE, beliefs.marginals.T, known.to(torch.float64)).contiguous()  # (instances, items)
    groups = factors.items.groups
    if groups is not None and groups.ordered:
        scores = in_order(groups, scores)
    # The most probable status of each item by itself may be no possible answer together.
    x, cost = _possible(graph, factors, (scores > 0.5).to(torch.uint8))
    return Decoded(x, _status(beliefs, cost), scores, Evidence(log_joint=-cost, iterations=beliefs.sweeps))
