"""Categories, one after the other: each is a problem of 0/1 items by itself, and their answers are put together.

Let x_g be the items of category g. For x in which no item is in two categories,

    -log P(x, y) = constant + c_1(x_1) + c_2(x_2) + ...,        c_g(x_g) = what x_g costs in the problem of category g,

where an item of that problem is in category g or in the first one (`Problem.of_category`): pools report each category
by itself, and what an item's category costs beyond the first one is a sum over categories. So each c_g is minimised by
the search for 0/1 items, and its list is complete up to some slack. A combination of listed answers in which no item is
twice is an x, and every x whose cost is less than the sum of the least c_g plus the slack is such a combination. Where
the best combination costs the sum of the least c_g, as nearly always, nothing more is to do. Where an item is in two
categories of the best ones, the lists are made longer by what the best combination costs more; and where that would be
long, all categories are searched at once, as groups of which at most one is 1 (`qgt.decoders.parts`).

One search of all categories together is far slower: it splits by the number of all defectives, which says little about
the number in each category.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from qgt.decoders.certified.nodes import SEARCH_TOLERANCE
from qgt.decoders.contract import BoundDecoder, Decode
from qgt.decoders.parts import from_parts
from qgt.decoders.results import Answers, Decoded, Evidence, Floats, Proof, Spans, Status
from qgt.model.categories import Categories
from qgt.model.problem import Problem

MORE_SLACK = 6.0  # nats by which lists are made longer where no combination of them is possible
MOST_SLACK = 12.0  # nats by which they are at most; beyond, all categories are searched at once

Search = Callable[[Problem, float, float | None], Decode]  # of a problem, with slack in nats and seconds an instance


class Listed(NamedTuple):
    """Answers to one category of one instance, the cheapest first."""

    x: NDArray[np.uint8]  # (answers, items): 1 where an item is in the category
    cost: Floats  # (answers,)


class Combined(NamedTuple):
    """Combinations of answers to all categories of one instance, the cheapest first."""

    x: NDArray[np.uint8]  # (combinations, items): categories
    cost: Floats  # (combinations,): beyond the sum of the least costs of the categories


def combinations(lists: list[Listed], slack: float) -> Combined:
    """All combinations in which no item is in two categories and whose cost is below the sum of the least plus slack.

    Example:
        >>> import numpy as np
        >>> one = Listed(np.array([[1, 0], [0, 1]], dtype=np.uint8), np.array([3.0, 4.0]))
        >>> other = Listed(np.array([[1, 0]], dtype=np.uint8), np.array([2.0]))
        >>> combinations([one, other], slack=5.0).x, combinations([one, other], slack=5.0).cost
        (array([[2, 1]], dtype=uint8), array([1.]))
    """
    items = lists[0].x.shape[1]
    if any(not len(one.cost) for one in lists):
        return Combined(np.zeros((0, items), dtype=np.uint8), np.zeros(0))
    x, cost = np.zeros((1, items), dtype=np.uint8), np.zeros(1)
    for category, one in enumerate(lists, 1):
        both = cost[:, None] + (one.cost - one.cost[0])
        here, there = np.nonzero(both < slack + SEARCH_TOLERANCE)
        apart = ~((x[here] > 0) & (one.x[there] > 0)).any(1)
        here, there = here[apart], there[apart]
        x, cost = x[here] + category * one.x[there], both[here, there]
    tied = np.where(cost <= cost.min(initial=np.inf) + SEARCH_TOLERANCE, 0.0, cost)
    order = np.lexsort([*x.T[::-1], tied])  # of equally probable ones the first number comes first
    return Combined(x[order], cost[order])


def by_category(problem: Problem, search: Search, slack: float, seconds: float | None) -> BoundDecoder:
    """A decoder of categories that lists what costs less than the best answer plus the slack."""
    assert isinstance(problem.prior, Categories)  # as the caller saw
    blocks = _Blocks(problem, problem.prior, search, slack)

    def decode(y: Tensor, defectives: Tensor | None) -> Decoded:
        deadline = None if seconds is None else time.perf_counter() + seconds * len(y)
        return blocks.decoded(y, deadline)

    return BoundDecoder(problem, decode, takes_missing=True)


@dataclass(frozen=True, eq=False)
class _Blocks:
    """How one problem of categories is decoded."""

    problem: Problem
    categories: Categories
    search: Search
    slack: float

    def decoded(self, y: Tensor, deadline: float | None) -> Decoded:
        """Search each category; again with longer lists, or all together, where the best answers contradict."""
        first, lacks = self._by_category(y, self.slack, deadline)
        settled = lacks.isnan()
        if bool(settled.all()):
            return first
        number = torch.arange(len(y), device=y.device)
        parts, order = [first.pick(number[settled])], [number[settled]]
        todo, lacks = number[~settled], lacks[~settled]
        while bool((near := lacks <= self.slack + MOST_SLACK).any()) and not _late(deadline):
            some = todo[near]
            again, still = self._by_category(y[some], float(lacks[near].max()), deadline)
            settled = still.isnan()
            parts.append(again.pick(settled.nonzero()[:, 0]))
            order.append(some[settled])
            todo, lacks = torch.cat([todo[~near], some[~settled]]), torch.cat([lacks[~near], still[~settled]])
        if len(todo):
            parts.append(first.pick(todo) if _late(deadline) else self._together(y[todo], first.pick(todo), deadline))
            order.append(todo)
        return Decoded.joined(parts).pick(torch.cat(order).argsort())

    def _by_category(self, y: Tensor, slack: float, deadline: float | None) -> tuple[Decoded, Tensor]:
        """The result of a search of each category, and for each instance the slack that is still needed, or NaN."""
        found: list[Decoded] = []
        for one in range(1, self.categories.levels + 1):
            seconds = None if deadline is None else _share(deadline, (self.categories.levels + 1 - one) * len(y))
            search = self.search(self.problem.of_category(one), slack, seconds)
            found.append(search(self.problem.reports_of(y, one)))
        rows, proved, listed, lacks = self._put_together([one.cpu() for one in found], slack)
        return self._as_decoded(y, found, rows, proved, listed), lacks.to(y.device)

    def _put_together(self, found: list[Decoded], slack: float) -> tuple[list[Combined], Tensor, Tensor, Tensor]:
        """The combinations of each instance; whether the best one is proved, whether all are listed, what lacks."""
        status = torch.stack([one.status for one in found])  # (categories, instances)
        closed = (status == Status.PROVED).all(0)
        complete = closed.clone()
        for one in found:
            if slack > 0 and one.evidence.complete is not None:
                complete &= one.evidence.complete
        rows = [combinations([_listed(one, i) for one in found], slack) for i in range(len(closed))]
        over = torch.tensor([float(row.cost[0]) if len(row.cost) else math.inf for row in rows], dtype=torch.float64)
        proved = closed & ((over <= SEARCH_TOLERANCE) | (complete & (over <= slack)))
        listed = complete & (over + self.slack <= slack + SEARCH_TOLERANCE)
        enough = proved if self.slack == 0 else proved & listed
        lacks = torch.where(over.isfinite(), over + self.slack, slack + MORE_SLACK)
        lacks = torch.where(closed & complete & ~enough | (closed & (slack == 0) & ~enough), lacks, torch.nan)
        within = [row.cost <= float(most) + self.slack for row, most in zip(rows, over, strict=True)]
        return [Combined(row.x[at], row.cost[at]) for row, at in zip(rows, within, strict=True)], proved, listed, lacks

    def _together(self, y: Tensor, before: Decoded, deadline: float | None) -> Decoded:
        """All categories at once, in parts."""
        seconds = None if deadline is None else _share(deadline, len(y))
        search = self.search(self.problem.in_parts, self.slack, seconds)
        found = from_parts(self.categories, search(self.categories.part_reports(y)))
        return replace(found, blocks=before.blocks)

    def _as_decoded(
        self, y: Tensor, found: list[Decoded], rows: list[Combined], proved: Tensor, listed: Tensor
    ) -> Decoded:
        """Combinations as a result; without any, the answers to all categories, of which the last counts."""
        spans = Spans(torch.tensor([len(row.cost) for row in rows], dtype=torch.int64).cumsum(0).to(y.device))
        none = Combined(np.zeros((0, self.problem.items), dtype=np.uint8), np.zeros(0))  # there may be no instances
        answers = torch.from_numpy(np.concatenate([row.x for row in (none, *rows)])).to(y.device)
        cost = torch.from_numpy(np.concatenate([row.cost for row in (none, *rows)])).to(y.device)
        owner, some = spans.owner, spans.numbers > 0
        first = (spans.ends - spans.numbers)[some]
        x = self.categories.from_parts(torch.cat([one.x for one in found], 1))
        x[some] = answers[first]
        weight = (-cost).exp()  # costs begin with the least, which is 0 or a few nats: nothing underflows
        weight = weight / torch.zeros(len(y), dtype=torch.float64, device=y.device).index_add_(0, owner, weight)[owner]
        log_joint, bound = self.problem.log_joint(x, y), self._sum([one.evidence.bound for one in found])
        status = self._status(y, x, found, proved.to(y.device), log_joint)
        values = self._values(spans, answers, weight)
        confidence = torch.zeros_like(log_joint)
        confidence[some] = weight[first]
        best = torch.zeros_like(log_joint)
        best[some] = log_joint[some] + cost[first]
        differing = torch.zeros_like(x, dtype=torch.int32).index_add_(0, owner, (answers != x[owner]).int())
        lists = self.slack > 0
        evidence = Evidence(
            log_joint=log_joint,
            bound=torch.where(status == Status.PROVED, log_joint, bound),
            complete=listed.to(y.device) & lists & (status == Status.PROVED),
            confidence=confidence if lists else None,
            values=values if lists else None,
            unsettled=differing > 0,
            alternatives=Answers(spans, answers, best[owner] - cost, weight),
        )
        kept = all(one.proof is not None for one in found)
        proof = _no_leaves(self.problem.in_parts, len(y), math.exp(self.slack), y.device) if kept else None
        scores = 1 - values[:, :, 0] if lists else None
        return Decoded(x, status, scores, evidence, proof, blocks=tuple(found) if kept else None)

    def _status(self, y: Tensor, x: Tensor, found: list[Decoded], proved: Tensor, log_joint: Tensor) -> Tensor:
        """Proved, impossible where a category is, or out of time; what a category costs is computed again."""
        each = [
            self.problem.of_category(one).log_joint((x == one).to(torch.uint8), self.problem.reports_of(y, one))
            for one in range(1, self.categories.levels + 1)
        ]
        agrees = (self._sum(each) - log_joint).abs() <= SEARCH_TOLERANCE
        status = torch.where(proved, torch.where(agrees, Status.PROVED, Status.OK), Status.TIME_LIMIT)
        states = torch.stack([one.status for one in found])
        uncertain = (states == Status.OK).any(0) & ~proved  # costs too large for float64
        status = torch.where(uncertain, Status.OK, status)
        impossible = (states == Status.INFEASIBLE).any(0)
        return torch.where(impossible, Status.INFEASIBLE, status).to(torch.uint8)

    def _sum(self, each: Sequence[Tensor | None]) -> Tensor:
        """Log joints of the categories as one of all: what the items cost there beyond here is the same for every x."""
        found = [one for one in each if one is not None]
        return torch.stack(found).sum(0) - self.categories.beyond_alone(self.problem.items)

    def _values(self, spans: Spans, answers: Tensor, weight: Tensor) -> Tensor:
        """The probability of each category of each item among the answers; of the prior where there are none."""
        prior = self.categories.distributions(answers.shape[1]).to(answers.device)
        values = prior.repeat(len(spans), 1, 1)  # (instances, items, categories)
        values[spans.numbers > 0] = 0.0
        for value in range(values.shape[2]):
            values[:, :, value].index_add_(0, spans.owner, weight[:, None] * (answers == value))
        return values


def _listed(result: Decoded, instance: int) -> Listed:
    """The answers to one category; none where it has no possible one."""
    answers = result.evidence.alternatives
    assert answers is not None  # as `Certified` lists them
    some = answers.of_instance(instance)
    return Listed(some.x.numpy(), -some.log_joint.numpy())


def _no_leaves(problem: Problem, instances: int, odds: float, device: torch.device) -> Proof:
    """A proof of all categories at once that nobody has made: the categories have proofs of their own."""
    number = torch.zeros(0, dtype=torch.int64, device=device)
    fixed = torch.zeros(0, problem.items, dtype=torch.int8, device=device)
    pi = torch.zeros(0, problem.pools, device=device)
    return Proof(odds, Spans(number.new_zeros(instances)), fixed, number, number, pi, pi[:, :0])


def _late(deadline: float | None) -> bool:
    return deadline is not None and time.perf_counter() >= deadline


def _share(deadline: float, instances: int) -> float:
    """Seconds for each of as many instances that are still to do."""
    return max(1e-3, deadline - time.perf_counter()) / max(instances, 1)
