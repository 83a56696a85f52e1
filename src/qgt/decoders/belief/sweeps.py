"""Sweeps: factor after factor tells its items what it makes of the others, until nothing changes.

An instance that has settled leaves the batch, so that its answer depends on nothing but its own counts.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from qgt.decoders.belief.graph import Graph, Step, Tables
from qgt.decoders.belief.tree import messages

SURE = 40.0  # largest log odds of a message: 1 - 4e-18
# What is taken of each new message: all at first, or a quarter where all pools speak at once. Less from sweep to sweep
# while the marginals go back and forth, more again while they go on.
FIRST, FIRST_AT_ONCE = 1.0, 0.25
LESS, MORE, LEAST = 0.6, 1.1, 0.02
STEEP = 2.0  # most that the level changes in a sweep


class Beliefs(NamedTuple):
    """Where the sweeps ended."""

    marginals: Tensor  # (items, instances)
    settled: Tensor  # (instances,), bool
    sweeps: Tensor  # (instances,)


class _State(NamedTuple):
    """The instances still going: their columns."""

    number: Tensor  # (instances,): which they are
    odds: Tensor  # (items + 1, instances): log odds of each item, all messages together; the last is never defective
    said: list[Tensor]  # (slots * factors, instances) of each step: what it told its items last
    tables: Tables
    level: Tensor  # (instances,): what the number of all defectives adds to every item's log odds
    share: Tensor  # (instances,): what is taken of new messages
    change: Tensor  # (items, instances): of the marginals in the last sweep

    def pick(self, keep: Tensor) -> "_State":
        columns = keep.nonzero()[:, 0]
        said = [one[:, columns] for one in self.said]
        return _State(
            self.number[columns],
            self.odds[:, columns],
            said,
            self.tables.pick(columns),
            self.level[columns],
            self.share[columns],
            self.change[:, columns],
        )


def sweep(
    graph: Graph, tables: Tables, prior: Tensor, total: Tensor | None, iterations: int, tolerance: float
) -> Beliefs:
    """Run all instances of a batch until they settle.

    Args:
        graph: The factors, on the batch's device.
        tables: Their likelihoods.
        prior: (items,): the items' own log odds.
        total: (numbers,): what it costs that 0, 1, ... items are defective, where that is no factor of the graph.
        iterations: Sweeps at most.
        tolerance: The largest change of a marginal in a sweep at which an instance has settled.
    """
    instances, items = tables.which.shape[1], len(prior)
    result = Beliefs(
        prior.new_zeros(items, instances),
        torch.zeros(instances, dtype=torch.bool, device=prior.device),
        torch.zeros(instances, dtype=torch.int64, device=prior.device),
    )
    most = FIRST_AT_ONCE if graph.at_once else FIRST
    state = _start(graph.steps, tables, prior, total, most)
    before = torch.sigmoid(state.odds[:-1])
    for iteration in range(1, iterations + 1):
        if not len(state.number):
            break
        for step, said in zip(graph.steps, state.said, strict=True):
            _speak(step, said, state)
        if total is not None:
            _move_level(state, total)
        marginals = torch.sigmoid(state.odds[:-1])
        done = _take_stock(state, marginals - before, most) < tolerance * state.share
        leaving = done if iteration < iterations else torch.ones_like(done)
        if bool(leaving.any()):
            which = state.number[leaving]
            result.marginals[:, which] = marginals[:, leaving]
            result.settled[which], result.sweeps[which] = done[leaving], iteration
            state, marginals = state.pick(~leaving), marginals[:, ~leaving]
        before = marginals
    return result


def _start(steps: Sequence[Step], tables: Tables, prior: Tensor, total: Tensor | None, most: float) -> _State:
    n = tables.which.shape[1]
    odds = torch.cat([prior, prior.new_full((1,), -torch.inf)])[:, None].repeat(1, n)
    said = [odds.new_zeros(step.items.numel(), n) for step in steps]
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


def _take_stock(state: _State, change: Tensor, most: float) -> Tensor:
    """Take less of the next messages where the marginals turned back; give their largest change: (instances,)."""
    turned = (change * state.change).sum(0) < 0
    state.share.copy_(torch.where(turned, state.share * LESS, state.share * MORE).clamp(LEAST, most))
    state.change.copy_(change)
    return change.abs().amax(0)


def _speak(step: Step, said: Tensor, state: _State) -> None:
    """One step's factors tell their items what they make of the others; items and messages change in place."""
    at = step.items.flatten()
    heard = (state.odds.index_select(0, at) - said).clamp_(-SURE, SURE)  # (slots * factors, instances)
    new = messages(heard.view(len(step.items), -1), state.tables.of(step)).clamp_(-SURE, SURE).view_as(said)
    change = new.sub_(said).mul_(state.share)
    said += change
    state.odds.index_add_(0, at, change)
    state.odds[-1] = -torch.inf  # fills up slots, and hears nothing


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
