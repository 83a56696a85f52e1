"""Items that go together: households, classes, wards, boxes of one batch.

A household h of n items is seeded with probability s. Its members are then defective independently, with probability a
where it was seeded and b where it was not, so that a given set of d of them is defective with probability

    s a^d (1 - a)^(n - d)  +  (1 - s) b^d (1 - b)^(n - d),

a table over d: the household is one factor. Given whether it was seeded its members are independent, which is the
simplest law under which a defective member makes the others suspect, and its three rates are what outbreak reports
state (the secondary attack rate is a).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float64, Int64, UInt8
from torch import Generator, Tensor

from qgt.arguments import fraction, whole
from qgt.model.prior import FREE, Groups, ItemCosts


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
        known = torch.full((items,), FREE, dtype=torch.int8)
        return ItemCosts(0.0, torch.zeros(items, dtype=torch.float64), known, groups=self._groups(items))

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
