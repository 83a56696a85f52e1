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
from qgt.model.noise import Noise, PerCategory, PerPool, by_pool, noise_of
from qgt.model.prior import FREE, Groups, ItemCosts, Sampler, one_or_each

MOST_LEVELS = 255  # values are uint8
SUM_ROUNDING = 1e-9  # by which probabilities may fail to sum to one
NEGATIVE = "negative"  # the first category, wherever people read it


@dataclass(frozen=True)
class Categories:
    """Items are in one of several categories, independently; pools report a number for each category but the first.

    `rates` are the probabilities of the categories but the first, which has the rest; or a row of such probabilities
    for each item. Category 1 is the first of `rates`. Where some categories are not measured, `reported` lists those
    that are, in the order of the reports. `names` are what sheets, calls and reports call the categories but the first,
    which they call negative.

    Example:
        >>> import torch, qgt
        >>> variants = qgt.Problem(qgt.Design.from_rows(["1110", "0111"]), qgt.Categories(rates=(0.3, 0.2)))
        >>> x, y = variants.simulate(1, generator=torch.Generator().manual_seed(3))
        >>> x, y  # in the first pool one item of category 1, and one of category 2
        (tensor([[2, 1, 0, 2]], dtype=torch.uint8), tensor([[[1., 1.],
                 [1., 1.]]], dtype=torch.float64))
        >>> qgt.Categories(rates=[[0.3, 0.2], [0.0, 0.5]]).distributions(items=2)  # a row for each of two items
        tensor([[0.5000, 0.3000, 0.2000],
                [0.5000, 0.0000, 0.5000]], dtype=torch.float64)
    """

    rates: Sequence[float | Sequence[float]] | Tensor  # kept as a tuple, or as a tuple of tuples
    reported: Sequence[int] | None = None  # None: all of them; kept as a tuple
    names: Sequence[str] | None = None  # of the categories but the first; kept as a tuple

    def __post_init__(self) -> None:
        object.__setattr__(self, "rates", _rates(self.rates))
        for i, row in enumerate(self._rows):
            name = f"rates[{i}]" if self.by_item else "rates"
            if not math.fsum(row) < 1:
                raise ValueError(
                    f"{name}={row} sum to {math.fsum(row):g}: leave some probability to the first category."
                )
        if self.names is not None:
            object.__setattr__(self, "names", _category_names(self.names, self.levels))
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
        return len(self._rows[0])

    @property
    def by_item(self) -> bool:
        """Whether each item has rates of its own."""
        return isinstance(self.rates[0], tuple)

    @property
    def _rows(self) -> tuple[tuple[float, ...], ...]:
        """The rates of each item, or the one row of all items."""
        rates: Any = self.rates
        return rates if self.by_item else (rates,)

    @property
    def distribution(self) -> tuple[float, ...]:
        """The probability of each category, the first included; the mean over items where they differ."""
        return _mean_of([(1 - math.fsum(row), *row) for row in self._rows])

    def distributions(self, items: int) -> Float64[Tensor, "items values"]:
        """The probability of each category of each item, the first included."""
        return _expanded("rates", [(1 - math.fsum(row), *row) for row in self._rows], items, by_item=self.by_item)

    @property
    def columns(self) -> tuple[int, ...]:
        """The categories that pools report, in the order of the reports."""
        return tuple(range(1, self.levels + 1)) if self.reported is None else tuple(self.reported)

    @property
    def labels(self) -> tuple[str, ...]:
        """What people call the categories, the first included.

        Example:
            >>> Categories(rates=(0.1, 0.1)).labels, Categories((0.1,), names=["variant A"]).labels
            (('negative', 'category 1', 'category 2'), ('negative', 'variant A'))
        """
        return (NEGATIVE, *(self.names or (f"category {one}" for one in range(1, self.levels + 1))))

    @property
    def cells(self) -> tuple[str, ...]:
        """What files of truths and calls write for each category: its name, so that no 1 is read as positive."""
        return self.labels

    @property
    def reported_labels(self) -> tuple[str, ...]:
        """What people call the categories that pools report, in the order of the reports."""
        return tuple(self.labels[one] for one in self.columns)

    def sample(self, instances: int, items: int, *, generator: Generator) -> UInt8[Tensor, "instances items"]:
        """Draw categories."""
        return _sample(self.distributions(items), instances, generator)

    def log_prob(self, x: UInt8[Tensor, "instances items"]) -> Float64[Tensor, " instances"]:
        """The log probability of each row of x."""
        return _log_prob(self.distributions(x.shape[1]), x)

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

    def part_marginals(self, items: int) -> Float64[Tensor, " parts"]:
        """The probability that each part of each item is 1."""
        return self.distributions(items)[:, 1:].T.flatten()

    def value_probabilities(
        self, marginals: Float64[Tensor, "instances parts"]
    ) -> Float64[Tensor, "instances items values"]:
        """The probability of each category, from those of its parts."""
        others = _by_value(marginals, self.levels).transpose(1, 2)  # (instances, items, categories but one)
        return torch.cat([(1 - others.sum(2, keepdim=True)).clamp(min=0.0), others], 2)

    def part_costs(self, items: int) -> ItemCosts:
        """Each part's log odds against the first category, and groups of which at most one is 1."""
        each = self.distributions(items)
        first, others = each[:, :1], each[:, 1:]  # (items, 1), (items, categories but one)
        never = others == 0
        weights = torch.where(never, 0.0, (first / torch.where(never, 1.0, others)).log())
        known = torch.where(never, 0, FREE).to(torch.int8)
        table = torch.full((items, self.levels + 1), torch.inf, dtype=torch.float64)
        table[:, :2] = 0.0
        groups = Groups(torch.arange(items).repeat(self.levels), table) if self.levels > 1 else None
        return ItemCosts(-float(first.log().sum()), weights.T.flatten(), known.T.flatten(), groups=groups)

    def part_design(self, design: Design) -> Design:
        """Pools of their own for each reported category."""
        lists = design.lists
        shifts = torch.tensor([(one - 1) * design.items for one in self.columns])
        entries = (lists.entries + shifts[:, None]).flatten()
        names = tuple(f"{pool} {category}" for category in self.reported_labels for pool in design.pool_names)
        parts = Lists(design.items * self.levels, starts_of(lists.sizes.repeat(len(shifts))), entries)
        return Design(parts, names)

    def part_noise(self, noise: Noise, pools: int) -> Noise:
        """The noise of each category, and each pool's own where pools differ."""
        each = list(noise.noises) if isinstance(noise, PerCategory) else [noise] * len(self.columns)
        if all(one == each[0] and by_pool(one) is None for one in each):
            return each[0]
        return PerPool([noise_of(one, pool) for one in each for pool in range(pools)])

    def noise_of(self, noise: Noise, category: int) -> Noise:
        """The noise of one category's reports; of a category that is not reported, any noise."""
        if not isinstance(noise, PerCategory):
            return noise
        return noise.noises[self.columns.index(category) if category in self.columns else 0]

    def part_reports(self, y: Float64[Tensor, "instances pools reported"]) -> Float64[Tensor, "instances part_pools"]:
        """The reports of one category after those of another."""
        return y.transpose(1, 2).flatten(1)

    def alone(self, category: int) -> float | tuple[float, ...]:
        """The rate of a category among items that are in it or in the first: what it has when decoded by itself.

        Example:
            >>> Categories(rates=(0.25, 0.5)).alone(1), Categories(rates=[(0.25, 0.5), (0.0, 0.5)]).alone(1)
            (0.5, (0.5, 0.0))
        """
        found = tuple(row[category - 1] / (1 - math.fsum(row) + row[category - 1]) for row in self._rows)
        return found if self.by_item else found[0]

    def beyond_alone(self, items: int) -> float:
        """What any x costs beyond the sum of what its categories cost by themselves: the same for every x.

        Example:
            >>> Categories(rates=(0.5,)).beyond_alone(items=7)  # a single category by itself is the whole problem
            0.0
        """
        first, others = self.distributions(items).split([1, self.levels], 1)
        return float((first / (first + others)).log().sum() - first.log().sum()) + 0.0


@dataclass(frozen=True)
class Copies:
    """Items have 0, 1, ... `ploidy` copies, each there with probability `frequency`; pools report their sum.

    That is the number of alleles of a person in Hardy-Weinberg equilibrium. `frequency` may be a list with one number
    for each item, such as people of different populations. `Copies.from_distribution` takes any other distribution of
    the number. For a noise, the size of a pool is its number of items times the ploidy: the reads of `qgt.Reads` come
    from every chromosome alike.

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

    frequency: float | Sequence[float] | Tensor | None = None  # kept as a float or a tuple of floats
    ploidy: int = 2
    shares: Sequence[float] | None = None  # of items with 0, 1, ... copies, instead of a frequency; kept as a tuple

    def __post_init__(self) -> None:
        object.__setattr__(self, "ploidy", whole("ploidy", self.ploidy, least=1, most=MOST_LEVELS))
        if (self.frequency is None) == (self.shares is None):
            raise ValueError(f"frequency={self.frequency} and shares={self.shares} are not valid: give one of the two.")
        if self.frequency is not None:
            object.__setattr__(self, "frequency", one_or_each("frequency", self.frequency))
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
    def labels(self) -> tuple[str, ...]:
        """The numbers of copies as people say them.

        Example:
            >>> Copies(frequency=0.1, ploidy=2).labels
            ('0 copies', '1 copy', '2 copies')
        """
        return tuple(f"{number} {'copy' if number == 1 else 'copies'}" for number in range(self.levels + 1))

    @property
    def cells(self) -> tuple[str, ...]:
        """What files of truths and calls write for each number of copies: the number."""
        return tuple(map(str, range(self.levels + 1)))

    @property
    def by_item(self) -> bool:
        """Whether each item has a frequency of its own."""
        return isinstance(self.frequency, tuple)

    @property
    def _rows(self) -> list[tuple[float, ...]]:
        """The distribution of each item, or the one of all items."""
        if self.shares is not None:
            return [tuple(self.shares)]
        given: Any = self.frequency
        return [_binomial(one, self.ploidy) for one in (given if self.by_item else (given,))]

    @property
    def distribution(self) -> tuple[float, ...]:
        """The probability of 0, 1, ... copies; the mean over items where they differ."""
        return _mean_of(self._rows)

    def distributions(self, items: int) -> Float64[Tensor, "items values"]:
        """The probability of 0, 1, ... copies of each item."""
        return _expanded("frequency", self._rows, items, by_item=self.by_item)

    def sample(self, instances: int, items: int, *, generator: Generator) -> UInt8[Tensor, "instances items"]:
        """Draw numbers of copies."""
        return _sample(self.distributions(items), instances, generator)

    def log_prob(self, x: UInt8[Tensor, "instances items"]) -> Float64[Tensor, " instances"]:
        """The log probability of each row of x."""
        return _log_prob(self.distributions(x.shape[1]), x)

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

    def part_marginals(self, items: int) -> Float64[Tensor, " parts"]:
        """The probability that each part of each item is 1: of that many copies or more."""
        return _reached(self.distributions(items)).clamp(max=1.0).flatten()

    def value_probabilities(
        self, marginals: Float64[Tensor, "instances parts"]
    ) -> Float64[Tensor, "instances items values"]:
        """The probability of each number of copies, from those of that many or more."""
        more = _by_value(marginals, self.levels).transpose(1, 2)  # (instances, items, levels)
        edge = torch.ones_like(more[:, :, :1])
        return (torch.cat([edge, more], 2) - torch.cat([more, 0 * edge], 2)).clamp(min=0.0)

    def part_costs(self, items: int) -> ItemCosts:
        """A group of equal items for each item, which are defective in order."""
        table = -self.distributions(items).log()
        groups = Groups(torch.arange(items).repeat(self.levels), table, ordered=self.levels > 1)
        return ItemCosts.of_equal_items(items * self.levels, groups=groups)

    def part_design(self, design: Design) -> Design:
        """Every part of an item is in all of its pools."""
        lists = design.lists
        shifts = torch.arange(self.levels) * design.items
        entries = torch.cat([(one + shifts[:, None]).flatten() for one in lists.entries.split(lists.sizes.tolist())])
        parts = Lists(design.items * self.levels, starts_of(lists.sizes * self.levels), entries)
        return Design(parts, design.own_pool_names)

    def part_noise(self, noise: Noise, pools: int) -> Noise:
        """The noise itself: parts are in the pools of their items."""
        return noise

    def part_reports(self, y: Float64[Tensor, "instances pools"]) -> Float64[Tensor, "instances pools"]:
        """The reports themselves."""
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
        return self.values.part_marginals(self._items(items))

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


def _category_names(given: object, number: int) -> tuple[str, ...]:
    """The names of categories, or a ValueError that says which one cannot be used."""
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != number:
        raise ValueError(f"names={given!r} is not valid: give {number} names, one for each of the rates.")
    for i, name in enumerate(given):
        if not isinstance(name, str) or not name.isprintable() or not name or name != " ".join(name.split()):
            raise ValueError(f"names[{i}]={name!r} is not valid: give a word or several, such as 'variant A'.")
        if name.replace(".", "", 1).isdigit():
            raise ValueError(f"names[{i}]={name!r} is not valid: a number could be read as a count; give a word.")
    known = [name.lower() for name in (NEGATIVE, *given)]
    for i, name in enumerate(given):
        if known.count(name.lower()) > 1:
            raise ValueError(f"names[{i}]={name!r} is not valid: give each category a name of its own.")
    return tuple(given)


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


def _rates(given: object) -> tuple[float, ...] | tuple[tuple[float, ...], ...]:
    """Rates of categories, or a row of them for each item."""
    rates: Any = given.tolist() if isinstance(given, Tensor) else given
    listed = isinstance(rates, Sequence) and not isinstance(rates, str)
    if not listed or not any(isinstance(one, Sequence) for one in rates):
        return _probabilities("rates", rates, least=1)
    each = tuple(_probabilities(f"rates[{i}]", row, least=1) for i, row in enumerate(rates))
    for i, row in enumerate(each):
        if len(row) != len(each[0]):
            raise ValueError(f"rates[{i}] has {len(row)} rates, and rates[0] {len(each[0])}: give rows of one length.")
    return each


def _binomial(p: float, most: int) -> tuple[float, ...]:
    return tuple(math.comb(most, n) * p**n * (1 - p) ** (most - n) for n in range(most + 1))


def _mean_of(rows: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
    """The one row, or the mean of several."""
    return rows[0] if len(rows) == 1 else tuple(math.fsum(column) / len(rows) for column in zip(*rows, strict=True))


def _expanded(name: str, rows: Sequence[tuple[float, ...]], items: int, *, by_item: bool) -> Tensor:
    """Rows as a table with one for each item."""
    if by_item and len(rows) != items:
        raise ValueError(
            f"{name} has rows for {len(rows)} items, and there are {items}: give one for all, or one each."
        )
    return torch.tensor(rows, dtype=torch.float64).expand(items, -1)


def _reached(distributions: Tensor) -> Tensor:
    """The probability that each value but 0 or a larger one occurs: (levels, items)."""
    return distributions.T.flip(0).cumsum(0).flip(0)[1:]


def _sample(distributions: Tensor, instances: int, generator: Generator) -> Tensor:
    """Draw values: each is the number of levels whose probability of being reached is above one uniform number."""
    shape = instances, len(distributions)
    draws = torch.rand(shape, dtype=torch.float64, generator=generator, device=generator.device)
    x = torch.zeros(shape, dtype=torch.uint8, device=generator.device)
    for reached in _reached(distributions).to(draws.device):
        x += draws < reached
    return x


def _log_prob(distributions: Tensor, x: Tensor) -> Tensor:
    """The sum of the items' log probabilities; -inf where an item has a value that there is not."""
    table = torch.nn.functional.pad(distributions, (0, 1)).log().to(x.device)  # (items, values and one more)
    items = torch.arange(len(table), device=x.device)
    return table[items, x.to(torch.int64).clamp(max=table.shape[1] - 1)].sum(1)
