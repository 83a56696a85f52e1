"""Priors: the distribution of the statuses x, before any count is seen.

What a prior of one's own needs depends on what is to be done with it: `sample` alone (a `Sampler`) to simulate and to
train networks; `log_prob` and `marginals` too (a `Prior`) to compare answers; and `costs` (a `FactoredPrior`) to search
for the best answer exactly. As a frozen dataclass it also gets a readable spec. Each `log_prob` here is exact and sums
to one over the 2^items statuses. `households` and `unknown` hold those whose items depend on each other.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from math import lgamma
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float64, Int8, Int64, UInt8
from torch import Generator, Tensor

from qgt.arguments import fraction, whole


@runtime_checkable
class Sampler(Protocol):
    """A distribution of x that can be drawn from: enough to simulate and to train on.

    Example:
        >>> isinstance(Bernoulli(0.06), Sampler)
        True
    """

    def sample(self, instances: int, items: int, *, generator: Generator) -> UInt8[Tensor, "instances items"]:
        """Draw statuses."""
        ...


@runtime_checkable
class Prior(Protocol):
    """A distribution of x that can also be computed with.

    Example:
        >>> Bernoulli(0.06).marginals(items=3)
        tensor([0.0600, 0.0600, 0.0600], dtype=torch.float64)
    """

    def sample(self, instances: int, items: int, *, generator: Generator) -> UInt8[Tensor, "instances items"]:
        """Draw statuses."""
        ...

    def marginals(self, items: int) -> Float64[Tensor, " items"]:
        """Each item's probability of being defective."""
        ...

    def log_prob(self, x: UInt8[Tensor, "instances items"]) -> Float64[Tensor, " instances"]:
        """The log probability of each row of x."""
        ...


FREE = -1  # an item whose status the prior does not settle
ALONE = -1  # an item that is in no group


@dataclass(frozen=True, eq=False)
class Groups:
    """Disjoint groups of items, each with a table of what it costs that 0, 1, ... of its items are defective.

    Example:
        >>> import torch
        >>> groups = Groups(torch.tensor([0, 0, ALONE]), torch.tensor([[0.0, 2.0, 1.0]], dtype=torch.float64))
        >>> groups.of(torch.tensor([[1, 1, 0], [0, 1, 1]], dtype=torch.uint8))
        tensor([1., 2.], dtype=torch.float64)
    """

    group: Int64[Tensor, " items"]  # the group of each item, counted from 0, or ALONE
    tables: Float64[Tensor, "groups numbers"]  # infinite where impossible, and beyond the group's size

    @property
    def sizes(self) -> Int64[Tensor, " groups"]:
        """How many items each group has."""
        return torch.bincount(self.group[self.group != ALONE], minlength=len(self.tables))

    @property
    def matrix(self) -> UInt8[Tensor, "groups items"]:
        """The groups as rows of a design: 1 where the item is in the group."""
        numbers = torch.arange(len(self.tables), device=self.group.device)
        return (numbers[:, None] == self.group).to(torch.uint8)

    def count(self, x: UInt8[Tensor, "instances items"]) -> Int64[Tensor, "instances groups"]:
        """How many items of each group are defective."""
        group = self.group.to(x.device)
        inside = group != ALONE
        counts = torch.zeros(len(x), len(self.tables), dtype=torch.int64, device=x.device)
        return counts.index_add_(1, group[inside], x[:, inside].to(torch.int64))

    def of(self, x: UInt8[Tensor, "instances items"]) -> Float64[Tensor, " instances"]:
        """What the groups of each row of x cost together."""
        counts = self.count(x)
        return self.tables.to(x.device)[torch.arange(counts.shape[1], device=x.device), counts].sum(1)


@dataclass(frozen=True, eq=False)
class ItemCosts:
    """A prior as costs: of items, of their number, and of the numbers in groups of them.

    For every x that agrees with `known`,

        -log P(x) = constant + sum_j weights_j x_j + total(sum_j x_j) + sum over groups g of table_g(sum_{j in g} x_j).

    The weight of a known item is the same for every such x. It is moved into the constant, and the item then weighs
    nothing, so that nobody who reads these costs has to remember it.

    Example:
        >>> Bernoulli([0.5, 1.0]).costs(items=2).known
        tensor([-1,  1], dtype=torch.int8)
        >>> import torch
        >>> costs = ItemCosts(3.0, torch.tensor([2.0, -3.0]).double(), torch.tensor([FREE, 1], dtype=torch.int8))
        >>> costs.constant, costs.weights.tolist()
        (0.0, [2.0, 0.0])
    """

    constant: float
    weights: Float64[Tensor, " items"]  # finite; 0 for known items
    known: Int8[Tensor, " items"]  # 0 or 1 where the prior settles an item, otherwise FREE
    total: Float64[Tensor, " numbers"] | None = None  # of 0, 1, ... defectives, infinite where impossible; None: 0
    groups: Groups | None = None  # None: no group

    def __post_init__(self) -> None:
        known = self.known != FREE
        constant = float(self.constant) + float(self.weights[self.known == 1].sum())
        object.__setattr__(self, "constant", constant)
        object.__setattr__(self, "weights", self.weights.masked_fill(known, 0.0))
        if bool((known & (self.known != 0) & (self.known != 1)).any()):
            raise ValueError("known is not valid: give 0 or 1 for a known item, and FREE (-1) for any other.")
        if not constant > -math.inf:  # NaN is not; infinite where nothing is possible
            raise ValueError(
                f"constant={constant}, weights of known items included, is not valid: give finite numbers."
            )
        if not bool(self.weights.isfinite().all()):
            item = int((~self.weights.isfinite()).nonzero()[0])
            raise ValueError(f"weights[{item}]={float(self.weights[item])} is not valid: give finite numbers.")
        tables = {"total": self.total, "groups.tables": None if self.groups is None else self.groups.tables}
        for name, table in tables.items():
            if table is not None and not bool((table > -torch.inf).all()):  # NaN is not
                raise ValueError(f"{name} is not valid: costs are numbers, or infinite where something is impossible.")

    @property
    def number(self) -> int | None:
        """The number of defectives, where only one is possible."""
        possible = [] if self.total is None else self.total.isfinite().nonzero().flatten().tolist()
        return possible[0] if len(possible) == 1 else None

    @property
    def base(self) -> float:
        """What every possible x pays: the constant, and the one number's cost where only one is possible."""
        number = self.number
        return self.constant + (0.0 if self.total is None or number is None else float(self.total[number]))

    def of(self, x: UInt8[Tensor, "instances items"]) -> Float64[Tensor, " instances"]:
        """What each row of x costs; infinite where it is impossible."""
        cost = self.constant + x.to(torch.float64) @ self.weights.to(x.device)
        if self.total is not None:
            cost = cost + self.total.to(x.device)[x.sum(1, dtype=torch.int64)]
        if self.groups is not None:
            cost = cost + self.groups.of(x)
        known = self.known.to(x.device)
        return torch.where(((known == FREE) | (known == x)).all(1), cost, torch.inf)

    def size(self, x: UInt8[Tensor, "instances items"]) -> Float64[Tensor, " instances"]:
        """The sum of the sizes of the terms of each row's cost: what sums in float64 are precise in proportion to."""
        size = abs(self.constant) + x.to(torch.float64) @ self.weights.to(x.device).abs()
        if self.total is not None:
            size = size + self.total.to(x.device)[x.sum(1, dtype=torch.int64)].abs()
        return size if self.groups is None else size + Groups(self.groups.group, self.groups.tables.abs()).of(x)


@runtime_checkable
class FactoredPrior(Protocol):
    """A distribution of x whose log probability is a sum over items, their number, and groups of them.

    Example:
        >>> isinstance(Bernoulli(0.06), FactoredPrior)
        True
    """

    def costs(self, items: int) -> ItemCosts:
        """The terms of that sum."""
        ...


@dataclass(frozen=True, eq=False)
class Bernoulli:
    """Items are defective independently, with one rate for all or one rate each.

    Example:
        >>> import torch
        >>> Bernoulli([0.5, 0.25]).log_prob(torch.tensor([[1, 0]], dtype=torch.uint8)).exp()
        tensor([0.3750], dtype=torch.float64)
    """

    rate: float | Sequence[float] | Tensor  # kept as a float or a tuple of floats

    def __post_init__(self) -> None:
        rate: Any = self.rate.tolist() if isinstance(self.rate, Tensor) else self.rate
        if isinstance(rate, Sequence) and not isinstance(rate, str):
            if not rate:
                raise ValueError("rate=[] is not valid: give one number, or one per item.")
            valid: float | tuple[float, ...] = tuple(fraction(f"rate[{i}]", value) for i, value in enumerate(rate))
        else:
            valid = fraction("rate", rate)
        object.__setattr__(self, "rate", valid)

    def sample(self, instances: int, items: int, *, generator: Generator) -> UInt8[Tensor, "instances items"]:
        """Draw statuses."""
        draws = torch.rand(instances, items, dtype=torch.float64, generator=generator, device=generator.device)
        if isinstance(self.rate, float):
            return (draws < self.rate).to(torch.uint8)
        return (draws < self.marginals(items).to(draws.device)).to(torch.uint8)

    def marginals(self, items: int) -> Float64[Tensor, " items"]:
        """Each item's rate."""
        if isinstance(self.rate, float):
            return torch.full((items,), self.rate, dtype=torch.float64)
        if len(self.rate) != items:
            raise ValueError(f"rate holds {len(self.rate)} numbers for {items} items: give one, or one per item.")
        return torch.tensor(self.rate, dtype=torch.float64)

    def log_prob(self, x: UInt8[Tensor, "instances items"]) -> Float64[Tensor, " instances"]:
        """The sum of the items' log probabilities, as one product of x with their log odds."""
        rate, ones = self.marginals(x.shape[1]).to(x.device), x.to(torch.float64)
        sure = (rate == 0) | (rate == 1)  # these items add nothing, or make x impossible
        odds = torch.where(sure, 0.0, torch.logit(rate))
        value = ones @ odds + torch.where(sure, 0.0, torch.log1p(-rate)).sum()
        if not bool(sure.any()):
            return value
        return torch.where((ones[:, sure] == rate[sure]).all(1), value, -torch.inf)

    def costs(self, items: int) -> ItemCosts:
        """Each item's log odds; items of rate 0 or 1 are known."""
        rate = self.marginals(items)
        sure = (rate == 0) | (rate == 1)
        open_ = torch.where(sure, 0.5, rate)
        none = torch.where(sure, 0.0, torch.log1p(-rate)).sum()
        return ItemCosts(-float(none), -torch.logit(open_), torch.where(sure, rate, FREE).to(torch.int8))


@dataclass(frozen=True)
class FixedWeight:
    """Exactly `defectives` items are defective, every such set being equally likely.

    Example:
        >>> import torch
        >>> FixedWeight(2).sample(1, 5, generator=torch.Generator().manual_seed(0)).sum()
        tensor(2)
    """

    defectives: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "defectives", whole("defectives", self.defectives))

    def sample(self, instances: int, items: int, *, generator: Generator) -> UInt8[Tensor, "instances items"]:
        """Draw statuses: the items with the largest of independent random keys."""
        self._check(items)
        keys = torch.rand(instances, items, dtype=torch.float64, generator=generator, device=generator.device)
        chosen = keys.topk(self.defectives, dim=1).indices  # (instances, defectives)
        return torch.zeros(instances, items, dtype=torch.uint8, device=keys.device).scatter_(1, chosen, 1)

    def marginals(self, items: int) -> Float64[Tensor, " items"]:
        """The same share for every item."""
        self._check(items)
        return torch.full((items,), self.defectives / items, dtype=torch.float64)

    def log_prob(self, x: UInt8[Tensor, "instances items"]) -> Float64[Tensor, " instances"]:
        """Minus the log of the number of sets, or -inf where the weight is another."""
        items, k = x.shape[1], self.defectives
        self._check(items)
        sets = lgamma(items + 1) - lgamma(k + 1) - lgamma(items - k + 1)
        right = x.sum(1, dtype=torch.int64) == k
        return right.to(torch.float64).log() - sets  # torch.where of two numbers would be float32

    def costs(self, items: int) -> ItemCosts:
        """Nothing for each item, and the log of the number of sets for having as many as there must be."""
        self._check(items)
        sets = lgamma(items + 1) - lgamma(self.defectives + 1) - lgamma(items - self.defectives + 1)
        total = torch.full((items + 1,), torch.inf, dtype=torch.float64)
        total[self.defectives] = sets
        known = torch.full((items,), FREE, dtype=torch.int8)
        return ItemCosts(0.0, torch.zeros(items, dtype=torch.float64), known, total)

    def _check(self, items: int) -> None:
        if self.defectives > items:
            raise ValueError(f"defectives={self.defectives} is more than the {items} items: give at most {items}.")
