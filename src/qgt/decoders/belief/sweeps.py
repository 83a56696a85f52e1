"""Sweeps over the factor graph: factor after factor tells its items what it makes of the others, until nothing changes.

An instance that has settled leaves the batch, so that its answer depends on nothing but its own counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float64
from torch import Tensor

from qgt.model.design import Design
from qgt.model.factors import Factors
from qgt.model.lists import Lists, starts_of
from qgt.model.prior import ALONE, FREE, Groups

# The factor graph of a problem, laid out for sweeps: which items each factor has, in steps of many factors at once.
#
# Factors are the groups of the prior, the number of all defectives where the prior has a table of it, and the pools.
# A step holds factors of about one size, whose items lie in a rectangle (slots, factors); a factor with fewer items
# than slots is filled up with an item that is never defective.
#
# In a large design pools are dealt out to the steps like cards. The next step sees what the last one said, and that
# is what makes the sweeps settle: were all pools to speak at once, all items would go up together where too many
# counts are high, and down together after it, further every time. In a small design, with its short cycles, those
# who speak first would be believed too soon, and the answer would depend on the order of the pools: there all speak
# at once, and only a part of each new message is taken.

LAYERS = 8  # steps that pools of one size are dealt out to: with 4, sweeps swing near the threshold; 16 are as good
FEW_POOLS = 128  # pools up to which all speak at once
MOST_TOTAL = 256  # items up to which the number of all defectives is a factor like others; see `level`
KNOWN = 1e4  # log odds of an item that the prior settles


class Step(NamedTuple):
    """Factors that speak at once."""

    items: Tensor  # (slots, factors): the item in each slot, or the number of items where there is none
    sizes: Tensor  # (factors,)
    factors: Tensor  # (factors,): their numbers among all

    def to(self, device: torch.device) -> "Step":
        """The same on another device."""
        return Step(self.items.to(device), self.sizes.to(device), self.factors.to(device))


@dataclass(frozen=True, eq=False)
class Likelihoods:
    """The likelihoods of a batch: one table for every kind of factor, and which kind each factor of an instance is."""

    likelihood: Tensor  # (counts, kinds)
    which: Tensor  # (factors, instances)
    levels: int = 1  # what an item adds to a count at most

    def of(self, step: Step) -> Tensor:
        """The tables of a step's factors: (counts, factors * instances)."""
        which = self.which[step.factors]  # (factors, instances)
        slots, number = step.items.shape
        tables = self.likelihood[: self.levels * slots + 1].index_select(1, which.flatten())
        most = self.levels * step.sizes
        if number and int(most.min()) < len(tables) - 1:
            counts = torch.arange(len(tables), device=tables.device)
            beyond = counts[:, None] > most  # (counts, factors)
            tables = tables.view(len(tables), number, -1).masked_fill(beyond[:, :, None], 0.0).flatten(1)
        return tables

    def pick(self, instances: Tensor) -> "Likelihoods":
        """Those of some instances."""
        return Likelihoods(self.likelihood, self.which[:, instances], self.levels)


@dataclass(frozen=True, eq=False)
class Graph:
    """All factors as one design (pools first, then groups, then the number of all defectives), and a sweep's steps."""

    design: Design
    steps: Sequence[Step]
    at_once: bool  # whether all pools of a size speak at once

    @classmethod
    def of(cls, factors: Factors) -> "Graph":
        """What the prior says comes first in a sweep, then the pools."""
        design, groups = factors.design, factors.items.groups
        parts, steps = [design.lists], []
        if groups is not None:
            inside = (groups.group != ALONE).nonzero()[:, 0]
            owner, order = groups.group[inside].sort(stable=True)
            parts.append(Lists.of_pairs(owner, inside[order], lists=len(groups.tables), bound=design.items))
            steps += _steps(parts[-1], design.pools, layers=1)
        if factors.items.total is not None:
            everyone = torch.arange(design.items)
            parts.append(Lists.of_pairs(torch.zeros_like(everyone), everyone, lists=1, bound=design.items))
            if design.items <= MOST_TOTAL:
                steps += _steps(parts[-1], sum(map(len, parts[:-1])), layers=1)
        sizes = torch.cat([part.sizes for part in parts])
        lists = Lists(design.items, starts_of(sizes), torch.cat([part.entries for part in parts]))
        at_once = design.pools <= FEW_POOLS
        return cls(Design(lists), [*steps, *_steps(design.lists, 0, layers=1 if at_once else LAYERS)], at_once)

    def to(self, device: torch.device) -> "Graph":
        """The same, its steps on another device."""
        return Graph(self.design, [step.to(device) for step in self.steps], self.at_once)


@dataclass(frozen=True, eq=False)
class FactorCosts:
    """The tables of all factors of a batch, in the order of the graph: pools, groups, number of all defectives."""

    tables: Tensor  # (kinds, counts), infinite where impossible
    which: Tensor  # (factors, instances)

    @classmethod
    def of(cls, factors: Factors) -> "FactorCosts":
        """Those of the pools are each instance's own, the others all instances'."""
        kinds, which = [factors.pools.tables], [factors.pools.which.T]
        device, instances = which[0].device, which[0].shape[1]
        groups, total = factors.items.groups, factors.items.total
        for tables in (None if groups is None else symmetric(groups), None if total is None else total[None]):
            if tables is not None:
                numbers = sum(map(len, kinds)) + torch.arange(len(tables), device=device)
                kinds.append(tables.to(device))
                which.append(numbers[:, None].expand(-1, instances))
        width = max(tables.shape[1] for tables in kinds)
        padded = [F.pad(tables, (0, width - tables.shape[1]), value=torch.inf) for tables in kinds]
        return cls(torch.cat(padded), torch.cat(which))

    def likelihoods(self, levels: int = 1) -> Likelihoods:
        """The same as probabilities, each table over its largest."""
        least = self.tables.amin(1, keepdim=True).nan_to_num(posinf=0.0)
        likelihood = (least - self.tables).exp().T  # (counts, kinds)
        possible = (likelihood > 0).any(1).nonzero()
        last = int(possible.max()) + 1 if len(possible) else 1
        return Likelihoods(likelihood[:last].contiguous(), self.which, levels)


def symmetric(groups: Groups) -> Tensor:
    """The tables of groups for items that are defective in any order: (groups, numbers).

    In an ordered group of equal items, only one x has a given number of defectives. Messages ignore the order, so the
    probability of that x is divided equally among all sets with the same number of items.
    """
    if not groups.ordered:
        return groups.tables
    number = torch.arange(groups.tables.shape[1], dtype=torch.float64, device=groups.tables.device)
    size = groups.sizes.to(torch.float64)[:, None]
    sets = torch.lgamma(size + 1) - torch.lgamma(number + 1) - torch.lgamma((size - number).clamp(min=0) + 1)
    return groups.tables + sets


def prior_odds(factors: Factors) -> Tensor:
    """The log odds that the prior gives each item by itself: (items,)."""
    known = factors.items.known
    sure = torch.where(known == 1, KNOWN, -KNOWN).to(torch.float64)
    return torch.where(known == FREE, -factors.items.weights, sure)


def _steps(lists: Lists, first: int, *, layers: int) -> list[Step]:
    """Factors of about one size together, dealt out to so many steps; sizes in turn, so that no step waits for all."""
    rooms = _room(lists.sizes)
    if layers == 1 and len(lists) <= FEW_POOLS:  # calls take the time, not empty slots
        rooms = rooms.amax().expand_as(rooms)
    dealt: list[list[Step]] = [[] for _ in range(layers)]
    for room in rooms.unique().tolist():
        members = (rooms == room).nonzero()[:, 0] if room else lists.sizes[:0]
        for layer in range(min(layers, len(members))):
            mine = members[layer::layers]
            dealt[layer].append(_step(lists, mine, int(lists.sizes[mine].max()), first))
    return [step for layer in dealt for step in layer]


def _room(sizes: Tensor) -> Tensor:
    """The least 2^k or 3 * 2^k that is at least each size: so few rooms that each holds many, none half empty."""
    powers = torch.tensor([0, 1, 2, *(base << k for k in range(40) for base in (3, 4))])
    return powers[torch.searchsorted(powers, sizes)]


def _step(lists: Lists, members: Tensor, slots: int, first: int) -> Step:
    sizes = lists.sizes[members]
    place = torch.arange(slots)[:, None]
    at = (lists.starts[members] + place).clamp(max=max(len(lists.entries) - 1, 0))
    items = torch.where(place < sizes, lists.entries[at], lists.bound)  # (slots, factors)
    return Step(items.contiguous(), sizes, members + first)


# Messages and sweeps.

# What one factor tells each of its items: exact sums over how many of the *other* items are defective.
#
# A factor has d items and a likelihood T(c) of c defectives among them. With p_k the probability that item k is
# defective as far as everything outside the factor says, item j is told the log odds
#
#   log sum_c T(c + 1) P_j(c)  -  log sum_c T(c) P_j(c),        P_j: the law of the number of defectives but for item j.
#
# All d of these laws would take d^2 K operations one by one, K being the number of possible counts. A binary tree over
# the items gives them together: on the way up, the law of each half is convolved from those of its quarters; on the way
# down, the likelihood of the number in one half is T summed over the law of the other half. The leaves end with the two
# sums above. No law has more entries than items below it, or than possible counts, so all levels together take about
# d K operations. Everything added is positive: nothing cancels, and no division can fail. Sums are scaled to a
# largest entry of 1 where many factors below multiply, so that nothing underflows as a whole.
#
# Items with copies have a law of 0, 1, ... L instead of 0 and 1, and are told a log likelihood of each. The tree
# is the same, with wider leaves, and so are the sweeps: what has log odds for 0/1 items has log weights of all values.
#
# Tensors are (items, columns): one column for each factor of each instance, side by side, which is what makes it fast.

SCALED = 32  # items below a node from which its sums are scaled
COLUMNS, COLUMNS_ON_GPU = 2048, 2**17  # at a time: on a CPU their sums stay in its cache


def messages(
    odds: Float64[Tensor, "items columns"], likelihood: Float64[Tensor, "counts columns"]
) -> Float64[Tensor, "items columns"]:
    """The log odds that each column's factor tells each of its items; 0 where it excludes both statuses.

    Args:
        odds: What each item tells the factor, finite log odds of being defective.
        likelihood: T(0), T(1), ...; counts beyond the last are impossible.

    Example:
        >>> import torch
        >>> odds = torch.tensor([[0.0], [2.0]], dtype=torch.float64)
        >>> messages(odds, torch.tensor([[0.0], [1.0], [0.0]], dtype=torch.float64))  # exactly one of the two
        tensor([[-2.],
                [ 0.]], dtype=torch.float64)
    """
    step = COLUMNS if odds.device.type == "cpu" else COLUMNS_ON_GPU
    parts = zip(odds.split(step, 1), likelihood.split(step, 1), strict=True)
    return torch.cat([_messages(*part) for part in parts], 1)


def _messages(odds: Tensor, likelihood: Tensor) -> Tensor:
    told = _told(torch.stack([torch.sigmoid(-odds), torch.sigmoid(odds)], 1), likelihood)
    return (told[:, 1].log() - told[:, 0].log()).nan_to_num(nan=0.0, posinf=torch.inf, neginf=-torch.inf)


def value_messages(
    logs: Float64[Tensor, "items values columns"], likelihood: Float64[Tensor, "counts columns"]
) -> Float64[Tensor, "items values columns"]:
    """The log likelihood of each value that each column's factor tells its items, 0 of the largest.

    Args:
        logs: What each item tells the factor, the log weights of its values 0, 1, ...
        likelihood: T(0), T(1), ... of the sum of the items' values; sums beyond the last are impossible.

    Example:
        >>> import torch
        >>> alike = torch.zeros(2, 3, 1, dtype=torch.float64)  # two items with 0, 1 or 2 copies each
        >>> value_messages(alike, torch.tensor([[0.0], [1.0], [0.0]], dtype=torch.float64))[0, :, 0]  # one in all
        tensor([0., 0., -inf], dtype=torch.float64)
    """
    step = COLUMNS if logs.device.type == "cpu" else COLUMNS_ON_GPU
    parts = zip(logs.split(step, 2), likelihood.split(step, 1), strict=True)
    told = torch.cat([_told(one.softmax(1), table) for one, table in parts], 2)
    return (told / told.amax(1, keepdim=True)).log().nan_to_num(nan=0.0, neginf=-torch.inf)


def _told(leaves: Tensor, likelihood: Tensor) -> Tensor:
    """The likelihood of each value of each item, up to a factor: (items, values, columns), as the leaves."""
    values = leaves.shape[1]
    likelihood = F.pad(likelihood, (0, 0, 0, max(0, values - len(likelihood))))
    levels = _laws(leaves, likelihood.shape[0])
    below = likelihood[None]  # (nodes, counts, columns): the likelihood of the number of defectives below each node
    for laws in reversed(levels):
        below = _split(laws, below[: len(laws) // 2]) if len(laws) > 1 else below[:, :values]
    return below[: len(leaves)]


def _laws(leaves: Tensor, counts: int) -> list[Tensor]:
    """The laws of the number of defectives below each node, (nodes, numbers, columns), from leaves to the last two."""
    levels = [leaves]
    while len(levels[-1]) > 2:
        if len(levels[-1]) % 2:  # one more node, with no items
            nothing = torch.zeros_like(levels[-1][:1])
            nothing[:, 0] = 1.0
            levels[-1] = torch.cat([levels[-1], nothing])
        levels.append(_scaled(_sum_law(levels[-1][0::2], levels[-1][1::2], counts), 2 ** len(levels)))
    return levels


def _sum_law(a: Tensor, b: Tensor, counts: int) -> Tensor:
    """The law of the sum of two independent numbers, as far as it is below `counts`."""
    width = min(a.shape[1] + b.shape[1] - 1, counts)
    result = a.new_zeros(len(a), width, a.shape[2])
    for k in range(min(b.shape[1], width)):
        most = min(a.shape[1], width - k)
        result[:, k : k + most].addcmul_(b[:, k : k + 1], a[:, :most])
    return result


def _split(laws: Tensor, above: Tensor) -> Tensor:
    """The likelihood of each node's number, from that of its and its neighbour's together."""
    width, counts = laws.shape[1], above.shape[1]
    result = torch.zeros_like(laws)
    for node in (0, 1):
        neighbour, own = laws[1 - node :: 2], result[node::2]
        for k in range(min(width, counts)):
            most = min(width, counts - k)
            own[:, :most].addcmul_(neighbour[:, k : k + 1], above[:, k : k + most])
    return _scaled(result, SCALED)


def _scaled(sums: Tensor, items: int) -> Tensor:
    """The sums over the largest of each node and column; a scale of all of them changes no message."""
    if items < SCALED:
        return sums
    return sums / sums.amax(1, keepdim=True).clamp(min=torch.finfo(sums.dtype).tiny)


# The sweeps.

SUREST_MESSAGE = 40.0  # largest log odds of a message: 1 - 4e-18
# What is taken of each new message: all at first, or a quarter where all pools speak at once. Less from sweep to sweep
# while the marginals go back and forth, more again while they go on.
FIRST_TAKEN, FIRST_TAKEN_AT_ONCE = 1.0, 0.25
TAKE_LESS, TAKE_MORE, LEAST_TAKEN = 0.6, 1.1, 0.02
STEEP = 2.0  # most that the level changes in a sweep


class Beliefs(NamedTuple):
    """Where the sweeps ended."""

    marginals: Tensor  # (items, instances), or (items, values, instances)
    settled: Tensor  # (instances,), bool
    sweeps: Tensor  # (instances,)


class _State(NamedTuple):
    """The instances still going: their columns."""

    number: Tensor  # (instances,): which they are
    odds: Tensor  # (items + 1, instances): log odds of each item, all messages together; the last is never defective.
    # (items + 1, values, instances): log weights of each value, where items have copies
    said: list[Tensor]  # (slots * factors, instances) of each step: what it told its items last
    tables: Likelihoods
    level: Tensor  # (instances,): what the number of all defectives adds to every item's log odds
    share: Tensor  # (instances,): what is taken of new messages
    change: Tensor  # as the marginals: how they changed in the last sweep

    @property
    def marginals(self) -> Tensor:
        """The probability of each item's being defective, or of each of its values."""
        odds = self.odds[:-1]
        return odds.sigmoid() if odds.dim() == 2 else odds.softmax(1)

    def pick(self, keep: Tensor) -> "_State":
        columns = keep.nonzero()[:, 0]
        said = [one[..., columns] for one in self.said]
        return _State(
            self.number[columns],
            self.odds[..., columns],
            said,
            self.tables.pick(columns),
            self.level[columns],
            self.share[columns],
            self.change[..., columns],
        )


def sweep(
    graph: Graph, tables: Likelihoods, prior: Tensor, total: Tensor | None, iterations: int, tolerance: float
) -> Beliefs:
    """Run all instances of a batch until they settle.

    Args:
        graph: The factors, on the batch's device.
        tables: Their likelihoods.
        prior: (items,): the items' own log odds; or (items, values), the log weights of their values.
        total: (numbers,): what it costs that 0, 1, ... items are defective, where that is no factor of the graph.
        iterations: Sweeps at most.
        tolerance: The largest change of a marginal in a sweep at which an instance has settled.
    """
    instances = tables.which.shape[1]
    result = Beliefs(
        prior.new_zeros(*prior.shape, instances),
        torch.zeros(instances, dtype=torch.bool, device=prior.device),
        torch.zeros(instances, dtype=torch.int64, device=prior.device),
    )
    most = FIRST_TAKEN_AT_ONCE if graph.at_once else FIRST_TAKEN
    state = _start(graph.steps, tables, prior, total, most)
    before = state.marginals
    for iteration in range(1, iterations + 1):
        if not len(state.number):
            break
        for step, said in zip(graph.steps, state.said, strict=True):
            (_speak if prior.dim() == 1 else _speak_values)(step, said, state)
        if total is not None:
            _move_level(state, total)
        marginals = state.marginals
        done = _take_stock(state, marginals - before, most) < tolerance * state.share
        leaving = done if iteration < iterations else torch.ones_like(done)
        if bool(leaving.any()):
            which = state.number[leaving]
            result.marginals[..., which] = marginals[..., leaving]
            result.settled[which], result.sweeps[which] = done[leaving], iteration
            state, marginals = state.pick(~leaving), marginals[..., ~leaving]
        before = marginals
    return result


def _start(steps: Sequence[Step], tables: Likelihoods, prior: Tensor, total: Tensor | None, most: float) -> _State:
    n = tables.which.shape[1]
    odds = torch.cat([prior, _never(prior)])[..., None].repeat_interleave(n, -1)
    said = [odds.new_zeros(step.items.numel(), *odds.shape[1:]) for step in steps]
    state = _State(
        torch.arange(n, device=odds.device),
        odds,
        said,
        tables,
        odds.new_zeros(n),
        odds.new_full((n,), most),
        torch.zeros_like(odds[:-1]),
    )
    if total is not None:
        for _ in range(50):  # from no level at all to that of the prior
            _move_level(state, total)
    return state


def _never(prior: Tensor) -> Tensor:
    """What fills up slots: an item that is never defective, or has no copies."""
    never = torch.full_like(prior[:1], -torch.inf)
    if never.dim() == 2:
        never[0, 0] = 0.0
    return never


def _take_stock(state: _State, change: Tensor, most: float) -> Tensor:
    """Take less of the next messages where the marginals turned back; give their largest change: (instances,)."""
    turned = (change * state.change).flatten(0, -2).sum(0) < 0
    state.share.copy_(torch.where(turned, state.share * TAKE_LESS, state.share * TAKE_MORE).clamp(LEAST_TAKEN, most))
    state.change.copy_(change)
    return change.abs().flatten(0, -2).amax(0)


def _speak(step: Step, said: Tensor, state: _State) -> None:
    """One step's factors tell their items what they make of the others; items and messages change in place."""
    at = step.items.flatten()
    heard = (state.odds.index_select(0, at) - said).clamp_(
        -SUREST_MESSAGE, SUREST_MESSAGE
    )  # (slots * factors, instances)
    new = (
        messages(heard.view(len(step.items), -1), state.tables.of(step))
        .clamp_(-SUREST_MESSAGE, SUREST_MESSAGE)
        .view_as(said)
    )
    change = new.sub_(said).mul_(state.share)
    said += change
    state.odds.index_add_(0, at, change)
    state.odds[-1] = -torch.inf  # fills up slots, and hears nothing


def _speak_values(step: Step, said: Tensor, state: _State) -> None:
    """The same for items with copies, whose messages have a number for each value."""
    at, (slots, factors) = step.items.flatten(), step.items.shape
    heard = state.odds.index_select(0, at) - said  # (slots * factors, values, instances)
    heard = (heard - heard.amax(1, keepdim=True)).clamp_(min=-SUREST_MESSAGE)
    by_column = heard.unflatten(0, (slots, factors)).transpose(1, 2)  # (slots, values, factors, instances)
    new = value_messages(by_column.flatten(2), state.tables.of(step)).clamp_(min=-SUREST_MESSAGE)
    change = (new.view(by_column.shape).transpose(1, 2).flatten(0, 1) - said).mul_(state.share)
    said += change
    state.odds.index_add_(0, at, change)
    state.odds[-1] = _never(state.odds[:1, :, 0]).T  # fills up slots, and hears nothing


def _move_level(state: _State, total: Tensor) -> None:
    """Move the level so that the expected number of defectives and the cost of that number agree; in place.

    Of so many items each hears nearly the same of all others. Let t be the level, m and v mean and variance of the
    number of defectives with it. Their law is nearly normal, so the number is c with a probability in proportion to
    exp(-(c - m)^2 / (2 v) - total(c) - t c); with c* its mean, Newton's step is t + (c* - m) / v. (The saddle point
    method: messages are off by about 1 / v.)
    """
    marginals = torch.sigmoid(state.odds[:-1])
    mean = marginals.sum(0)  # (instances,)
    variance = (marginals * (1 - marginals)).sum(0).clamp(min=0.25)
    counts = torch.arange(len(total), dtype=total.dtype, device=total.device)
    for i in range(len(mean)):
        log_weight = -(counts - mean[i]).square() / (2 * variance[i]) - total - state.level[i] * counts
        likely = (torch.softmax(log_weight, 0) * counts).sum()
        change = ((likely - mean[i]) / variance[i]).clamp(-STEEP, STEEP)
        state.level[i] += change
        state.odds[:, i] += change
