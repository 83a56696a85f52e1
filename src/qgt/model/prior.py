"""Priors: the distribution of the statuses x, before any count is seen.

What a prior of one's own needs depends on what is to be done with it: `sample` alone (a `Sampler`) to simulate and to
train networks; `log_prob` and `marginals` too (a `Prior`) to compare answers; and `costs` (a `FactoredPrior`) to search
for the best answer exactly. As a frozen dataclass it also gets a readable spec. Each `log_prob` here is exact and sums
to one over the 2^items statuses. The priors whose items depend on each other come last.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import lgamma
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float64, Int8, Int64, UInt8
from torch import Generator, Tensor

from qgt.arguments import fraction, positive, whole


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

    The items of an `ordered` group are defective in order: the second only if the first is, the third only if the
    second is. So equal items, such as the copies of a gene, have one x for each number of them, and not many.

    Example:
        >>> import torch
        >>> groups = Groups(torch.tensor([0, 0, ALONE]), torch.tensor([[0.0, 2.0, 1.0]], dtype=torch.float64))
        >>> groups.of(torch.tensor([[1, 1, 0], [0, 1, 1]], dtype=torch.uint8))
        tensor([1., 2.], dtype=torch.float64)
        >>> Groups(groups.group, groups.tables, ordered=True).of(torch.tensor([[0, 1, 1]], dtype=torch.uint8))
        tensor([inf], dtype=torch.float64)
    """

    group: Int64[Tensor, " items"]  # the group of each item, counted from 0, or ALONE
    tables: Float64[Tensor, "groups numbers"]  # infinite where impossible, and beyond the group's size
    ordered: bool = False

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

    @cached_property
    def places(self) -> Int64[Tensor, " items"]:
        """The place of each item in its group, counted from 0; 0 for items in no group."""
        order = self.group.argsort(stable=True)
        ordered = self.group[order]
        first = torch.searchsorted(ordered, ordered)  # where each item's group begins
        place = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device) - first)
        return torch.where(self.group == ALONE, 0, place)

    def in_order(self, x: UInt8[Tensor, "instances items"]) -> UInt8[Tensor, "instances items"]:
        """The same numbers in all groups, of their first items; x itself unless groups are ordered.

        Example:
            >>> import torch
            >>> groups = Groups(torch.tensor([0, 0, ALONE]), torch.zeros(1, 3, dtype=torch.float64), ordered=True)
            >>> groups.in_order(torch.tensor([[0, 1, 1]], dtype=torch.uint8))
            tensor([[1, 0, 1]], dtype=torch.uint8)
        """
        if not self.ordered:
            return x
        group, places = self.group.to(x.device), self.places.to(x.device)
        first = places < self.count(x)[:, group.clamp(min=0)]
        return torch.where(group == ALONE, x, first.to(torch.uint8))

    def of(self, x: UInt8[Tensor, "instances items"]) -> Float64[Tensor, " instances"]:
        """What the groups of each row of x cost together."""
        counts = self.count(x)
        cost = self.tables.to(x.device)[torch.arange(counts.shape[1], device=x.device), counts].sum(1)
        return torch.where((self.in_order(x) == x).all(1), cost, torch.inf) if self.ordered else cost


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

    @classmethod
    def of_equal_items(
        cls,
        items: int,
        *,
        total: Float64[Tensor, " numbers"] | None = None,
        groups: Groups | None = None,
    ) -> "ItemCosts":
        """The costs of items that weigh nothing by themselves, none of them known: of their number, or of groups.

        Example:
            >>> ItemCosts.of_equal_items(2).weights
            tensor([0., 0.], dtype=torch.float64)
        """
        known = torch.full((items,), FREE, dtype=torch.int8)
        return cls(0.0, torch.zeros(items, dtype=torch.float64), known, total, groups)

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

    def flips(self, x: UInt8[Tensor, "instances items"]) -> Float64[Tensor, "instances items"]:
        """What each row of x costs more with one item turned round; infinite for items that the prior settles.

        Example:
            >>> import torch
            >>> FixedWeight(1).costs(items=2).flips(torch.tensor([[0, 1]], dtype=torch.uint8))
            tensor([[inf, inf]], dtype=torch.float64)
        """
        turn = 1 - 2 * x.to(torch.int64)  # one more, or one less
        cost = turn * self.weights.to(x.device)
        if self.total is not None:
            number = x.sum(1, dtype=torch.int64)[:, None]
            total = self.total.to(x.device)
            cost = cost + (total[(number + turn).clamp(0, len(total) - 1)] - total[number])
        if self.groups is not None:
            group, tables = self.groups.group.to(x.device), self.groups.tables.to(x.device)
            inside = group != ALONE
            mine = group.clamp(min=0)
            number = self.groups.count(x)[:, mine]
            after = tables[mine, (number + turn).clamp(0, tables.shape[1] - 1)] - tables[mine, number]
            if self.groups.ordered:  # only the next item comes in, and only the last one goes out
                after = after.masked_fill(self.groups.places.to(x.device) != number - x, torch.inf)
            cost = torch.where(inside, cost + after, cost)
        cost = cost.nan_to_num(nan=0.0, posinf=torch.inf, neginf=-torch.inf)  # from one impossible x to another
        return torch.where(self.known.to(x.device) == FREE, cost, torch.inf)

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


def one_or_each(name: str, given: object) -> float | tuple[float, ...]:
    """A probability for all items, or one for each; a ValueError names what is neither.

    Example:
        >>> one_or_each("rate", 0.5), one_or_each("rate", [0.5, 0])
        (0.5, (0.5, 0.0))
    """
    values: Any = given.tolist() if isinstance(given, Tensor) else given
    if isinstance(values, str) or not isinstance(values, Sequence):
        return fraction(name, values)
    if not values:
        raise ValueError(f"{name}=[] is not valid: give one number, or one per item.")
    return tuple(fraction(f"{name}[{i}]", value) for i, value in enumerate(values))


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
        object.__setattr__(self, "rate", one_or_each("rate", self.rate))

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
        right = x.sum(1, dtype=torch.int64) == self.defectives
        return right.to(torch.float64).log() - self._log_sets(x.shape[1])  # torch.where of two numbers is float32

    def costs(self, items: int) -> ItemCosts:
        """Nothing for each item, and the log of the number of sets for having as many as there must be."""
        sets = self._log_sets(items)
        total = torch.full((items + 1,), torch.inf, dtype=torch.float64)
        total[self.defectives] = sets
        return ItemCosts.of_equal_items(items, total=total)

    def _log_sets(self, items: int) -> float:
        """The log of the number of sets of so many defectives."""
        self._check(items)
        return lgamma(items + 1) - lgamma(self.defectives + 1) - lgamma(items - self.defectives + 1)

    def _check(self, items: int) -> None:
        if self.defectives > items:
            raise ValueError(f"defectives={self.defectives} is more than the {items} items: give at most {items}.")


# Items that go together: households, classes, wards, boxes of one batch.
#
# A household h of n items is seeded with probability s. Its members are then defective independently, with probability
# a where it was seeded and b where it was not, so that a given set of d of them is defective with probability
#
#     s a^d (1 - a)^(n - d)  +  (1 - s) b^d (1 - b)^(n - d),
#
# a table over d: the household is one factor. Given whether it was seeded its members are independent, which is the
# simplest law under which a defective member makes the others suspect, and its three rates are what outbreak reports
# state (the secondary attack rate is a).


@dataclass(frozen=True, kw_only=True)
class Households:
    """Correlated items: households are seeded, then their members infected independently.

    Give either `size` (the first `size` items are one household, the next ones another, and the last may be smaller) or
    `labels`, one per item: items of the same label are one household, and one that lives alone has a label of its own.

    Example:
        >>> Households(size=4, seed_rate=0.1, attack_rate=0.5, background=0.01).marginals(items=2)
        tensor([0.0590, 0.0590], dtype=torch.float64)
        >>> Households(labels=["smith", "jones", "smith"], seed_rate=0.1, attack_rate=0.5).households(3)
        tensor([0, 1, 0])
    """

    size: int | None = None
    labels: Sequence[str | int] | None = None  # kept as a tuple
    seed_rate: float
    attack_rate: float  # of members of seeded households
    background: float = 0.0  # of all other items

    def __post_init__(self) -> None:
        if (self.size is None) == (self.labels is None):
            raise ValueError(f"size={self.size} and labels={self.labels} are not valid: give one of the two.")
        if self.size is not None:
            object.__setattr__(self, "size", whole("size", self.size, least=1))
        if self.labels is not None:
            object.__setattr__(self, "labels", _labels(self.labels))
        for name in ("seed_rate", "attack_rate", "background"):
            object.__setattr__(self, name, fraction(name, getattr(self, name)))

    def with_attack_rate(self, attack_rate: float) -> "Households":
        """The same share of defectives and the same background, with another attack rate.

        Households are then seeded more or less often.

        Example:
            >>> Households(size=4, seed_rate=0.1, attack_rate=0.5).with_attack_rate(0.25).seed_rate
            0.2
        """
        attack = fraction("attack_rate", attack_rate)
        share = self.seed_rate * (self.attack_rate - self.background)  # of defectives, beyond the background
        if not share <= attack - self.background or attack == self.background:
            rate = share + self.background
            raise ValueError(
                f"attack_rate={attack:g} is not valid: {100 * rate:.3g} % of all items are defective, and in a "
                "household that was seeded no fewer can be; give a higher attack rate."
            )
        return replace(self, seed_rate=share / (attack - self.background), attack_rate=attack)

    def households(self, items: int) -> Int64[Tensor, " items"]:
        """The number of each item's household, counted from 0 in the order of their first members."""
        if self.size is not None:
            return torch.arange(items) // self.size
        assert self.labels is not None  # one of the two is given
        if len(self.labels) != items:
            raise ValueError(f"labels holds {len(self.labels)} labels for {items} items: give one per item.")
        numbers = {label: number for number, label in enumerate(dict.fromkeys(self.labels))}
        return torch.tensor([numbers[label] for label in self.labels])

    def sample(self, instances: int, items: int, *, generator: Generator) -> UInt8[Tensor, "instances items"]:
        """Draw the seeded households, then their defective members."""
        household = self.households(items).to(generator.device)
        number = int(household.max()) + 1
        draws = torch.rand(instances, number + items, dtype=torch.float64, generator=generator, device=generator.device)
        seeded = (draws[:, :number] < self.seed_rate)[:, household]  # (instances, items)
        mine = draws[:, number:]
        return torch.where(seeded, mine < self.attack_rate, mine < self.background).to(torch.uint8)

    def marginals(self, items: int) -> Float64[Tensor, " items"]:
        """The same for every item, whatever its household's size."""
        self.households(items)  # raises where the labels are for another number of items
        rate = self.seed_rate * self.attack_rate + (1 - self.seed_rate) * self.background
        return torch.full((items,), rate, dtype=torch.float64)

    def log_prob(self, x: UInt8[Tensor, "instances items"]) -> Float64[Tensor, " instances"]:
        """The sum over households of the log probability of what is seen of each."""
        return -self._groups(x.shape[1]).of(x)

    def costs(self, items: int) -> ItemCosts:
        """A group for each household."""
        return ItemCosts.of_equal_items(items, groups=self._groups(items))

    def _groups(self, items: int) -> Groups:
        household = self.households(items)
        size = torch.bincount(household).to(torch.float64)[:, None]  # (households, 1)
        defective = torch.arange(int(size.max()) + 1, dtype=torch.float64)
        seed = torch.tensor(self.seed_rate, dtype=torch.float64)
        seeded = seed.log() + _log_set(defective, size, self.attack_rate)
        others = torch.log1p(-seed) + _log_set(defective, size, self.background)
        tables = -torch.logaddexp(seeded, others)  # (households, numbers)
        return Groups(household, torch.where(defective <= size, tables, torch.inf))


def _log_set(defective: Tensor, size: Tensor, rate: float) -> Tensor:
    """The log probability that a given set of so many of a household's items is defective, and no other."""
    p = torch.tensor(rate, dtype=torch.float64)
    healthy: Tensor = torch.special.xlog1py((size - defective).clamp(min=0), -p)
    return torch.xlogy(defective, p) + healthy


def _labels(labels: object) -> tuple[str | int, ...]:
    """One label per item, each a text or a whole number."""
    if isinstance(labels, str) or not isinstance(labels, Sequence) or not labels:
        raise ValueError(f"labels={labels!r} is not valid: give a list of one label per item.")
    for i, label in enumerate(labels):
        if not isinstance(label, str | int) or isinstance(label, bool) or label == "":
            raise ValueError(
                f"labels[{i}]={label!r} is not valid: give a text or a whole number, its own where an item lives alone."
            )
    return tuple(labels)


# Priors for people who do not know the prevalence: all items share one unknown number.
#
# `UnknownRate` assumes only that the rate is between two numbers. That k given ones of N items are defective, and no
# others, then has the probability
#
#     P(x) = 1 / (high - low)  times the integral from low to high of  p^k (1 - p)^(N - k) dp,
#
# which depends on x through k alone: a table over the number of defectives. The integrand is a polynomial of degree N,
# so Gauss-Legendre quadrature is exact from N/2 + 1 nodes on; all its terms are positive, so no digits are lost, where
# a difference of incomplete Beta functions has none left in its tails. Uniform between two rates is what people can
# state ("between 1 % and 10 %"); the two numbers of a Beta law are not.
#
# `UnknownLevel` multiplies the odds of all items of another prior by one unknown factor t: with f the other prior,
#
#     P(x) = sum over t of w_t f(x) t^k / Z_t,        Z_t = sum over x of f(x) t^k,
#
# which again is f and a table over k, so that everything that decodes f with such a table decodes this. (An unknown
# rate of seeding alone would not be such a sum.) The other prior's independent items, and its households, only change
# their rates: the households of a hard year are hit more often and harder. The values t are between `low` and `high`,
# and their logarithms are the nodes of a Gauss-Legendre rule: as good as log-uniform, and summing to one exactly.

QUADRATURE_AT_A_TIME = 2**22  # nodes times numbers of defectives at a time


@dataclass(frozen=True)
class UnknownRate:
    """Items are defective independently with one rate for all, which is anywhere between `low` and `high`.

    Example:
        >>> import torch
        >>> prior = UnknownRate(low=0.0, high=1.0)  # every number of defectives is equally likely
        >>> prior.log_prob(torch.tensor([[0, 0], [0, 1], [1, 1]], dtype=torch.uint8)).exp()
        tensor([0.3333, 0.1667, 0.3333], dtype=torch.float64)
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", fraction("low", self.low))
        object.__setattr__(self, "high", fraction("high", self.high))
        if self.low >= self.high:
            raise ValueError(f"low={self.low} is not valid: give a rate below high={self.high}, or use Bernoulli.")

    def sample(self, instances: int, items: int, *, generator: Generator) -> UInt8[Tensor, "instances items"]:
        """Draw a rate for each instance, then its items."""
        device = generator.device
        rate = torch.rand(instances, 1, dtype=torch.float64, generator=generator, device=device)
        draws = torch.rand(instances, items, dtype=torch.float64, generator=generator, device=device)
        return (draws < self.low + (self.high - self.low) * rate).to(torch.uint8)

    def marginals(self, items: int) -> Float64[Tensor, " items"]:
        """The mean rate."""
        return torch.full((items,), (self.low + self.high) / 2, dtype=torch.float64)

    def log_prob(self, x: UInt8[Tensor, "instances items"]) -> Float64[Tensor, " instances"]:
        """Look up the number of defectives."""
        return -_rate_table(self.low, self.high, x.shape[1]).to(x.device)[x.sum(1, dtype=torch.int64)]

    def costs(self, items: int) -> ItemCosts:
        """Nothing for each item, and a table of their number."""
        return ItemCosts.of_equal_items(items, total=_rate_table(self.low, self.high, items).clone())


@dataclass(frozen=True)
class UnknownLevel:
    """Another prior whose overall level is unknown: the odds of all items times one factor between `low` and `high`.

    Example:
        >>> from qgt import Bernoulli
        >>> prior = UnknownLevel(Bernoulli([0.01, 0.1]), low=0.5, high=3.0)  # from half to three times the odds
        >>> prior.marginals(2)
        tensor([0.0138, 0.1304], dtype=torch.float64)
    """

    prior: Prior
    low: float
    high: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", positive("low", self.low))
        object.__setattr__(self, "high", positive("high", self.high))
        if self.low >= self.high:
            raise ValueError(f"low={self.low} is not valid: give a factor below high={self.high}.")
        if not isinstance(self.prior, FactoredPrior):
            raise ValueError(f"prior={self.prior} is not valid: give one with costs, such as Bernoulli or Households.")

    def sample(self, instances: int, items: int, *, generator: Generator) -> UInt8[Tensor, "instances items"]:
        """Draw a factor for each instance, then its items and groups."""
        tilted, device = self._tilted(items), generator.device
        chance = torch.rand(instances, dtype=torch.float64, generator=generator, device=device)
        which = torch.searchsorted(tilted.weight.to(device).cumsum(0)[:-1], chance)
        draws = torch.rand(instances, items, dtype=torch.float64, generator=generator, device=device)
        x = draws < tilted.items.to(device)[which]  # (instances, items)
        groups = self._costs(items).groups
        if groups is None:
            return x.to(torch.uint8)
        chance = torch.rand(instances, len(groups.tables), 1, dtype=torch.float64, generator=generator, device=device)
        up_to = tilted.numbers.to(device).cumsum(2)[which]  # (instances, groups, numbers)
        number = (chance > up_to[:, :, :-1]).sum(2)  # (instances, groups)
        group = groups.group.to(device)
        # The members with the least of independent draws.
        inside = group != ALONE
        chosen = _ranks(draws, groups) < number[:, group.clamp(min=0)]
        return torch.where(inside, chosen, x).to(torch.uint8)

    def marginals(self, items: int) -> Float64[Tensor, " items"]:
        """Each item's rate, averaged over the factors."""
        tilted, groups = self._tilted(items), self._costs(items).groups
        rates = tilted.weight @ tilted.items
        if groups is None:
            return rates
        number = tilted.numbers @ torch.arange(tilted.numbers.shape[2], dtype=torch.float64)  # (levels, groups)
        each = (tilted.weight @ number) / groups.sizes
        return torch.where(groups.group == ALONE, rates, each[groups.group.clamp(min=0)])

    def log_prob(self, x: UInt8[Tensor, "instances items"]) -> Float64[Tensor, " instances"]:
        """The sum of the costs, with the other sign."""
        return -self.costs(x.shape[1]).of(x)

    def costs(self, items: int) -> ItemCosts:
        """Those of the other prior, and a table of the number of defectives."""
        costs, tilted = self._costs(items), self._tilted(items)
        k = torch.arange(items + 1, dtype=torch.float64) - int((costs.known == 1).sum())
        total = _log_mixture(tilted.weight.log() - tilted.log_z, tilted.log_factor, k)
        return ItemCosts(costs.constant, costs.weights, costs.known, -total, costs.groups)

    def _costs(self, items: int) -> ItemCosts:
        assert isinstance(self.prior, FactoredPrior)  # as was checked
        costs = self.prior.costs(items)
        if costs.total is not None:
            raise ValueError(f"prior={self.prior} has a law of its own for the number of defectives: give another.")
        if costs.groups is not None:
            inside = costs.groups.group != ALONE
            if bool(((costs.weights != 0) | (costs.known != FREE))[inside].any()):
                raise ValueError(f"prior={self.prior} has groups of unequal items: give one whose items are alike.")
        return costs

    def _tilted(self, items: int) -> "_Tilted":
        nodes, weight = _gauss_legendre(math.log(self.low), math.log(self.high), 64 + math.isqrt(16 * items))
        costs = self._costs(items)
        free = costs.known == FREE
        groups = costs.groups
        if groups is not None:
            free = free & (groups.group == ALONE)
        odds = nodes[:, None] - costs.weights  # (levels, items), logarithms
        log_z = torch.where(free, torch.nn.functional.softplus(odds), 0.0).sum(1) - costs.constant
        rates = torch.where(free, torch.sigmoid(odds), (costs.known == 1).to(torch.float64))
        numbers = torch.zeros(len(nodes), 0, 1, dtype=torch.float64)
        if groups is not None:
            numbers = _log_sets(groups) - groups.tables + nodes[:, None, None] * torch.arange(groups.tables.shape[1])
            log_z = log_z + numbers.logsumexp(2).sum(1)
            numbers = numbers.softmax(2)
        return _Tilted(nodes, weight, log_z, rates, numbers)


def with_attack_rate(prior: object, attack_rate: float) -> Households | UnknownLevel:
    """A prior of households, perhaps of unknown level, with another attack rate and the same share of defectives.

    Example:
        >>> prior = UnknownLevel(Households(size=4, seed_rate=0.1, attack_rate=0.5), low=0.5, high=2.0)
        >>> with_attack_rate(prior, 0.25).prior.seed_rate
        0.2
    """
    if isinstance(prior, Households):
        return prior.with_attack_rate(attack_rate)
    if isinstance(prior, UnknownLevel) and isinstance(prior.prior, Households):
        return replace(prior, prior=prior.prior.with_attack_rate(attack_rate))
    raise ValueError(
        f"attack_rate={attack_rate:g} is for a prior of households, and this problem has another: leave it out."
    )


class _Tilted(NamedTuple):
    """A prior under each of the factors."""

    log_factor: Tensor  # (levels,)
    weight: Tensor  # (levels,): how likely each is
    log_z: Tensor  # (levels,)
    items: Tensor  # (levels, items): the rates of items in no group
    numbers: Tensor  # (levels, groups, numbers): the law of each group's number of defectives


def _ranks(draws: Tensor, groups: Groups) -> Tensor:
    """The rank of each item's draw among those of its group, the least being 0: (instances, items)."""
    group = groups.group.to(draws.device)
    order = (group + draws).argsort(1)
    places = torch.arange(len(group), device=draws.device).expand_as(order)
    place = torch.empty_like(order).scatter_(1, order, places)
    sizes = groups.sizes.to(draws.device)
    first = int((group == ALONE).sum()) + sizes.cumsum(0) - sizes  # those in no group come before all groups
    return place - first[group.clamp(min=0)]


def _log_sets(groups: Groups) -> Tensor:
    """The log of the number of sets of 0, 1, ... items of each group: (groups, numbers), 0 beyond its size."""
    n = groups.sizes.to(torch.float64)[:, None]
    d = torch.arange(groups.tables.shape[1], dtype=torch.float64)
    sets = torch.lgamma(n + 1) - torch.lgamma(d + 1) - torch.lgamma((n - d).clamp(min=0) + 1)
    return torch.where(d <= n, sets, 0.0)


@lru_cache(maxsize=16)
def _rate_table(low: float, high: float, items: int) -> Tensor:
    """What k given defectives of the items cost, for k = 0, 1, ...: (items + 1,)."""
    # Exact up to a few hundred items; beyond, nodes far closer than the integrand is wide.
    rate, weight = _gauss_legendre(low, high, min(items // 2 + 1, 64 + math.isqrt(64 * items)))
    k = torch.arange(items + 1, dtype=torch.float64)
    none = torch.log1p(-rate)
    return -_log_mixture(weight.log() + items * none, rate.log() - none, k)


def _log_mixture(start: Tensor, slope: Tensor, k: Tensor) -> Tensor:
    """The log of sum_i exp(start_i + slope_i k), for each k: a few nodes at a time."""
    rows = max(1, QUADRATURE_AT_A_TIME // len(k))
    parts = zip(start.split(rows), slope.split(rows), strict=True)
    sums = [(a[:, None] + b[:, None] * k).logsumexp(0) for a, b in parts]
    return torch.stack(sums).logsumexp(0)


@lru_cache(maxsize=16)
def _gauss_legendre(low: float, high: float, number: int) -> tuple[Tensor, Tensor]:
    """Gauss-Legendre nodes between two numbers, and weights that sum to one."""
    nodes, weights = np.polynomial.legendre.leggauss(number)
    where = torch.from_numpy(low + (high - low) * (nodes + 1) / 2)
    return where, torch.from_numpy(weights / weights.sum())
