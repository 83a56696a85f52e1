"""Copies and categories: items whose value is a whole number instead of 0 or 1.

    Copies        0, 1, ... L copies: a person has 0, 1 or 2 copies of an allele. A pool reports how many its items have
                  together.
    Categories    one of several categories, the first of which is usual: negative, variant A, variant B. A pool reports
                  a number for each category but the first (the *pooled data* problem: Wang, Huang, Lee and Chen 2016;
                  Scarlett and Cevher 2017; Tan, Pascual Cobo, Scarlett and Venkataramanan 2024).

Both are problems of 0/1 items in disguise. The *parts* of an item are 0/1 items of its own, one for each value but 0:

    of copies        part l is 1 where the item has l copies or more. All parts of an item are in all of its pools, and
                     they are a group whose parts are 1 in order, with the table -log P(number of copies).
    of categories    part g is 1 where the item is in category g. Parts g of all items have pools of their own, which
                     report category g; the parts of an item are a group of which at most one is 1.

So every x has one x of parts, the costs are equal, and what decodes groups of 0/1 items decodes both.
`Problem.in_parts` makes that problem, and `from_parts` reads its answers. An x of parts has the parts of all items for
value 1 first, then those for value 2, and so on.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float64, UInt8
from torch import Generator, Tensor

from qgt.arguments import fraction, whole
from qgt.model.design import Design
from qgt.model.lists import Lists, starts_of
from qgt.model.noise import Noise, PerPool, by_pool
from qgt.model.prior import FREE, Groups, ItemCosts, Sampler

MOST_LEVELS = 255  # values are uint8
SUM_ROUNDING = 1e-9  # by which probabilities may fail to sum to one


@dataclass(frozen=True)
class Categories:
    """Items are in one of several categories, independently; pools report a number for each category but the first.

    `rates` are the probabilities of the categories but the first, which has the rest. Category 1 is the first of
    `rates`. Where some categories are not measured, `reported` lists those that are, in the order of the reports.

    Example:
        >>> import torch, qgt
        >>> variants = qgt.Problem(qgt.Design.from_rows(["1110", "0111"]), qgt.Categories(rates=(0.3, 0.2)))
        >>> x, y = variants.simulate(1, generator=torch.Generator().manual_seed(3))
        >>> x, y  # in the first pool one item of category 1, and one of category 2
        (tensor([[2, 1, 0, 2]], dtype=torch.uint8), tensor([[[1., 1.],
                 [1., 1.]]], dtype=torch.float64))
    """

    rates: Sequence[float]  # kept as a tuple
    reported: Sequence[int] | None = None  # None: all of them; kept as a tuple

    def __post_init__(self) -> None:
        object.__setattr__(self, "rates", _probabilities("rates", self.rates, least=1))
        if not math.fsum(self.rates) < 1:
            total = math.fsum(self.rates)
            raise ValueError(f"rates={self.rates} sum to {total:g}: leave some probability to the first category.")
        if self.reported is None:
            return
        if isinstance(self.reported, str) or not isinstance(self.reported, Sequence) or not self.reported:
            raise ValueError(f"reported={self.reported!r} is not valid: give a list of categories, such as [1, 2].")
        reported = tuple(whole(f"reported[{i}]", one, least=1, most=self.levels) for i, one in enumerate(self.reported))
        if len(set(reported)) < len(reported):
            raise ValueError(f"reported={reported} is not valid: give each category once.")
        object.__setattr__(self, "reported", reported)

    @property
    def levels(self) -> int:
        """The largest value of an item: the number of categories but the first."""
        return len(self.rates)

    @property
    def distribution(self) -> tuple[float, ...]:
        """The probability of each category, the first included."""
        return (1 - math.fsum(self.rates), *self.rates)

    @property
    def columns(self) -> tuple[int, ...]:
        """The categories that pools report, in the order of the reports."""
        return tuple(range(1, self.levels + 1)) if self.reported is None else tuple(self.reported)

    def sample(self, instances: int, items: int, *, generator: Generator) -> UInt8[Tensor, "instances items"]:
        """Draw categories."""
        return _sample(self.distribution, instances, items, generator)

    def log_prob(self, x: UInt8[Tensor, "instances items"]) -> Float64[Tensor, " instances"]:
        """The log probability of each row of x."""
        return _log_prob(self.distribution, x)

    def totals(
        self, design: Design, x: UInt8[Tensor, "instances items"]
    ) -> Float64[Tensor, "instances pools reported"]:
        """How many items of each reported category each pool has."""
        return torch.stack([design.count((x == one).to(torch.uint8)) for one in self.columns], 2)

    def to_parts(self, x: UInt8[Tensor, "instances items"]) -> UInt8[Tensor, "instances parts"]:
        """Part g of an item is 1 where it is in category g."""
        return torch.cat([(x == one).to(torch.uint8) for one in range(1, self.levels + 1)], 1)

    def from_parts(self, parts: UInt8[Tensor, "instances parts"]) -> UInt8[Tensor, "instances items"]:
        """The categories of items; the last one where more than one part is 1."""
        values = torch.arange(1, self.levels + 1, dtype=torch.uint8, device=parts.device)[:, None]
        found: Tensor = (_by_value(parts, self.levels) * values).amax(1)
        return found

    def allowed(self, parts: UInt8[Tensor, "instances parts"]) -> Bool[Tensor, " instances"]:
        """Whether no item is in two categories."""
        alone: Tensor = _by_value(parts, self.levels).sum(1) <= 1
        return alone.all(1)

    def part_marginals(self) -> list[float]:
        """The probability that each part of an item is 1."""
        return list(self.rates)

    def value_probabilities(
        self, marginals: Float64[Tensor, "instances parts"]
    ) -> Float64[Tensor, "instances items values"]:
        """The probability of each category, from those of its parts."""
        others = _by_value(marginals, self.levels).transpose(1, 2)  # (instances, items, categories but one)
        return torch.cat([(1 - others.sum(2, keepdim=True)).clamp(min=0.0), others], 2)

    def part_costs(self, items: int) -> ItemCosts:
        """Each part's log odds against the first category, and groups of which at most one is 1."""
        first, *others = self.distribution
        never = torch.tensor([rate == 0 for rate in others])
        weights = torch.tensor([0.0 if rate == 0 else math.log(first / rate) for rate in others], dtype=torch.float64)
        known = torch.where(never, 0, FREE).to(torch.int8).repeat_interleave(items)
        table = torch.full((items, self.levels + 1), torch.inf, dtype=torch.float64)
        table[:, :2] = 0.0
        groups = Groups(torch.arange(items).repeat(self.levels), table) if self.levels > 1 else None
        constant = -items * math.log(first)
        return ItemCosts(constant, weights.repeat_interleave(items), known, groups=groups)

    def part_design(self, design: Design) -> Design:
        """Pools of their own for each reported category."""
        lists = design.lists
        shifts = torch.tensor([(one - 1) * design.items for one in self.columns])
        entries = (lists.entries + shifts[:, None]).flatten()
        return Design(Lists(design.items * self.levels, starts_of(lists.sizes.repeat(len(shifts))), entries))

    def part_noise(self, noise: Noise) -> Noise:
        """The same noise in every category; each pool's own where pools differ."""
        each = by_pool(noise)
        return noise if each is None else PerPool(list(each.noises) * len(self.columns))

    def part_reports(self, y: Float64[Tensor, "instances pools reported"]) -> Float64[Tensor, "instances part_pools"]:
        """The reports of one category after those of another."""
        return y.transpose(1, 2).flatten(1)

    def alone(self, category: int) -> float:
        """The rate of a category among items that are in it or in the first: what it has when decoded by itself.

        Example:
            >>> Categories(rates=(0.25, 0.5)).alone(1)
            0.5
        """
        rate = self.rates[category - 1]
        return rate / (self.distribution[0] + rate)


@dataclass(frozen=True)
class Copies:
    """Items have 0, 1, ... `ploidy` copies, each there with probability `frequency`; pools report their sum.

    That is the number of alleles of a person in Hardy-Weinberg equilibrium. `Copies.from_distribution` takes any other
    distribution of the number. A noise that knows of a pool's size sees its number of items times the ploidy: the reads
    of `qgt.Reads` come from every chromosome alike.

    Example:
        >>> import torch, qgt
        >>> genotypes = qgt.Copies(frequency=0.1, ploidy=2)
        >>> [round(share, 2) for share in genotypes.distribution]
        [0.81, 0.18, 0.01]
        >>> problem = qgt.Problem(qgt.Design.from_rows(["1110", "0111"]), qgt.Copies(frequency=0.4))
        >>> x, y = problem.simulate(1, generator=torch.Generator().manual_seed(0))
        >>> x, y
        (tensor([[0, 0, 1, 0]], dtype=torch.uint8), tensor([[1., 1.]], dtype=torch.float64))
    """

    frequency: float | None = None
    ploidy: int = 2
    shares: Sequence[float] | None = None  # of items with 0, 1, ... copies, instead of a frequency; kept as a tuple

    def __post_init__(self) -> None:
        object.__setattr__(self, "ploidy", whole("ploidy", self.ploidy, least=1, most=MOST_LEVELS))
        if (self.frequency is None) == (self.shares is None):
            raise ValueError(f"frequency={self.frequency} and shares={self.shares} are not valid: give one of the two.")
        if self.frequency is not None:
            object.__setattr__(self, "frequency", fraction("frequency", self.frequency))
            return
        shares = _probabilities("shares", self.shares, least=2)
        if abs(math.fsum(shares) - 1) > SUM_ROUNDING:
            raise ValueError(f"shares={shares} sum to {math.fsum(shares):g}: give probabilities that sum to 1.")
        if len(shares) != self.ploidy + 1:
            raise ValueError(
                f"shares has {len(shares)} numbers for 0 to {self.ploidy} copies: give ploidy={len(shares) - 1}."
            )
        object.__setattr__(self, "shares", shares)

    @classmethod
    def from_distribution(cls, shares: Sequence[float]) -> "Copies":
        """Any distribution of the number of copies: the probability of 0, 1, ... of them.

        Example:
            >>> Copies.from_distribution([0.9, 0.08, 0.02]).levels
            2
        """
        return cls(shares=shares, ploidy=max(len(shares) - 1, 1))

    @property
    def levels(self) -> int:
        """The largest number of copies."""
        return self.ploidy

    @property
    def distribution(self) -> tuple[float, ...]:
        """The probability of 0, 1, ... copies."""
        if self.shares is not None:
            return tuple(self.shares)
        p, most = self.frequency, self.ploidy
        assert p is not None  # one of the two is given
        return tuple(math.comb(most, n) * p**n * (1 - p) ** (most - n) for n in range(most + 1))

    def sample(self, instances: int, items: int, *, generator: Generator) -> UInt8[Tensor, "instances items"]:
        """Draw numbers of copies."""
        return _sample(self.distribution, instances, items, generator)

    def log_prob(self, x: UInt8[Tensor, "instances items"]) -> Float64[Tensor, " instances"]:
        """The log probability of each row of x."""
        return _log_prob(self.distribution, x)

    def totals(self, design: Design, x: UInt8[Tensor, "instances items"]) -> Float64[Tensor, "instances pools"]:
        """How many copies each pool has."""
        return design.count(x)

    def to_parts(self, x: UInt8[Tensor, "instances items"]) -> UInt8[Tensor, "instances parts"]:
        """Part l of an item is 1 where it has l copies or more."""
        return torch.cat([(x >= number).to(torch.uint8) for number in range(1, self.levels + 1)], 1)

    def from_parts(self, parts: UInt8[Tensor, "instances parts"]) -> UInt8[Tensor, "instances items"]:
        """The numbers of copies."""
        found: Tensor = _by_value(parts, self.levels).sum(1, dtype=torch.uint8)
        return found

    def allowed(self, parts: UInt8[Tensor, "instances parts"]) -> Bool[Tensor, " instances"]:
        """Whether each item's parts are 1 in order."""
        each: Tensor = _by_value(parts, self.levels)
        return (each[:, 1:] <= each[:, :-1]).flatten(1).all(1)

    def part_marginals(self) -> list[float]:
        """The probability that each part of an item is 1: of that many copies or more."""
        return [min(1.0, math.fsum(self.distribution[number:])) for number in range(1, self.levels + 1)]

    def value_probabilities(
        self, marginals: Float64[Tensor, "instances parts"]
    ) -> Float64[Tensor, "instances items values"]:
        """The probability of each number of copies, from those of that many or more."""
        more = _by_value(marginals, self.levels).transpose(1, 2)  # (instances, items, levels)
        edge = torch.ones_like(more[:, :, :1])
        return (torch.cat([edge, more], 2) - torch.cat([more, 0 * edge], 2)).clamp(min=0.0)

    def part_costs(self, items: int) -> ItemCosts:
        """A group of equal items for each item, which are defective in order."""
        table = -torch.tensor(self.distribution, dtype=torch.float64).log()
        groups = Groups(torch.arange(items).repeat(self.levels), table.repeat(items, 1), ordered=self.levels > 1)
        parts = items * self.levels
        known = torch.full((parts,), FREE, dtype=torch.int8)
        return ItemCosts(0.0, torch.zeros(parts, dtype=torch.float64), known, groups=groups)

    def part_design(self, design: Design) -> Design:
        """Every part of an item is in all of its pools."""
        lists = design.lists
        shifts = torch.arange(self.levels) * design.items
        entries = torch.cat([(one + shifts[:, None]).flatten() for one in lists.entries.split(lists.sizes.tolist())])
        return Design(Lists(design.items * self.levels, starts_of(lists.sizes * self.levels), entries))

    def part_noise(self, noise: Noise) -> Noise:
        """The same."""
        return noise

    def part_reports(self, y: Float64[Tensor, "instances pools"]) -> Float64[Tensor, "instances pools"]:
        """The same."""
        return y


@dataclass(frozen=True)
class PartsPrior:
    """The prior of the parts of items with copies or categories: the exact same distribution, of 0/1 items.

    Example:
        >>> import torch
        >>> prior = PartsPrior(Copies(frequency=0.5, ploidy=2))
        >>> parts = torch.tensor([[0, 0], [1, 0], [0, 1], [1, 1]], dtype=torch.uint8)
        >>> prior.log_prob(parts).exp()  # 0, 1 and 2 copies; of one copy there is one x, and not two
        tensor([0.2500, 0.5000, 0.0000, 0.2500], dtype=torch.float64)
    """

    prior: Sampler  # of the values

    def __post_init__(self) -> None:
        if not isinstance(self.prior, Categories | Copies):
            raise ValueError(f"prior={self.prior} is not valid: give Categories or Copies.")

    @property
    def values(self) -> Categories | Copies:
        """The same prior, by its type."""
        assert isinstance(self.prior, Categories | Copies)  # as was checked
        return self.prior

    def sample(self, instances: int, items: int, *, generator: Generator) -> UInt8[Tensor, "instances items"]:
        """Draw values, as parts."""
        return self.values.to_parts(self.values.sample(instances, self._items(items), generator=generator))

    def marginals(self, items: int) -> Float64[Tensor, " items"]:
        """The probability that each part is 1."""
        return torch.tensor(self.values.part_marginals(), dtype=torch.float64).repeat_interleave(self._items(items))

    def log_prob(self, x: UInt8[Tensor, "instances items"]) -> Float64[Tensor, " instances"]:
        """The log probability of the values whose parts these are; -inf where they are of none."""
        return torch.where(self.values.allowed(x), self.values.log_prob(self.values.from_parts(x)), -torch.inf)

    def costs(self, items: int) -> ItemCosts:
        """Costs of parts and of the groups that the parts of an item are."""
        return self.values.part_costs(self._items(items))

    def _items(self, parts: int) -> int:
        items, rest = divmod(parts, self.values.levels)
        if rest:
            raise ValueError(f"{parts} parts are not {self.values.levels} for each item: give a multiple.")
        return items


def _by_value(parts: Tensor, levels: int) -> Tensor:
    """Numbers of parts (instances, parts) by value and item: (instances, levels, items)."""
    found: Tensor = parts.unflatten(1, (levels, parts.shape[1] // levels))  # instances may be none
    return found


def _probabilities(name: str, given: object, *, least: int) -> tuple[float, ...]:
    """A tuple of probabilities, or a ValueError that names the one that is none."""
    values: Any = given.tolist() if isinstance(given, Tensor) else given
    if isinstance(values, str) or not isinstance(values, Sequence) or not least <= len(values) <= MOST_LEVELS:
        raise ValueError(f"{name}={given!r} is not valid: give a list of {least} to {MOST_LEVELS} probabilities.")
    return tuple(fraction(f"{name}[{i}]", value) for i, value in enumerate(values))


def _sample(distribution: tuple[float, ...], instances: int, items: int, generator: Generator) -> Tensor:
    """Draw values: each is the number of levels whose probability of being reached is above one uniform number."""
    draws = torch.rand(instances, items, dtype=torch.float64, generator=generator, device=generator.device)
    x = torch.zeros(instances, items, dtype=torch.uint8, device=generator.device)
    for level in range(1, len(distribution)):
        x += draws < math.fsum(distribution[level:])
    return x


def _log_prob(distribution: tuple[float, ...], x: Tensor) -> Tensor:
    """The sum of the items' log probabilities; -inf where an item has a value that there is not."""
    table = torch.tensor([*distribution, 0.0], dtype=torch.float64, device=x.device).log()
    return table[x.to(torch.int64).clamp(max=len(distribution))].sum(1)
