"""Outcomes, instance by instance, and decoders compared in pairs on the instances that both decoded.

Two decoders that decode the same instances fail on many of the same ones, so the difference of their rates is known
much better than either rate. The exact test of McNemar (1947) looks at the instances that just one of the two decoded
without error: if neither is better, each of them is a fair coin's flip, and the number that the first wins is binomial.
The p-value is two-sided: twice the smaller tail, at most 1.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int64, UInt8
from torch import Tensor

from qgt.trust.scoring import METRICS, Z95, Score, counted, triples, value_of

SIGNIFICANT = 0.05  # the level of a verdict: that of a 95 % interval
ENTRY = np.dtype("<u4")


@dataclass(frozen=True)
class Outcomes:
    """What became of each instance, in order: its true positives, false positives and false negatives.

    `packed` holds three little-endian 32-bit numbers an instance, so that equal outcomes are equal objects.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1, 0], [0, 1]], dtype=torch.uint8)
        >>> found = outcomes(x, torch.tensor([[1, 0], [1, 0]], dtype=torch.uint8))
        >>> found.triples.tolist(), found.right.tolist(), found.score.success_rate
        ([[1, 0, 0], [0, 1, 1]], [True, False], 0.5)
    """

    items: int
    packed: bytes

    def __post_init__(self) -> None:
        if len(self.packed) % (3 * ENTRY.itemsize):
            raise ValueError(f"packed has {len(self.packed)} bytes, which is not 12 for each instance.")

    @property
    def instances(self) -> int:
        """How many instances there are."""
        return len(self.packed) // (3 * ENTRY.itemsize)

    @property
    def triples(self) -> Int64[Tensor, "instances 3"]:
        """True positives, false positives and false negatives of each instance."""
        return torch.from_numpy(np.frombuffer(self.packed, ENTRY).astype(np.int64).reshape(-1, 3))

    @property
    def right(self) -> Bool[Tensor, " instances"]:
        """Whether each instance was decoded without a single error."""
        return (self.triples[:, 1:] == 0).all(1)

    @property
    def score(self) -> Score:
        """The same as counts, without the order."""
        return counted(self.triples, self.items)

    def first(self, instances: int) -> "Outcomes":
        """The outcomes of the first instances."""
        return Outcomes(self.items, self.packed[: 3 * ENTRY.itemsize * instances])


def outcomes(x: UInt8[Tensor, "instances items"], x_hat: UInt8[Tensor, "instances items"]) -> Outcomes:
    """Compare calls with the truth, instance by instance.

    Example:
        >>> import torch
        >>> x = torch.eye(3, dtype=torch.uint8)
        >>> outcomes(x, x).instances
        3
    """
    return Outcomes(x.shape[1], triples(x, x_hat).cpu().numpy().astype(ENTRY).tobytes())


def joined(parts: Sequence[Outcomes]) -> Outcomes:
    """The outcomes of several batches, one after another.

    Example:
        >>> one = Outcomes(4, bytes(12))
        >>> joined([one, one]).instances
        2
    """
    if len({part.items for part in parts}) != 1:
        raise ValueError("parts is not valid: give at least one, all of the same number of items.")
    return Outcomes(parts[0].items, b"".join(part.packed for part in parts))


class Difference(NamedTuple):
    """The first decoder's mean less the second's, with its 95 % interval."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Paired:
    """Two decoders on the same instances: how often which of them is right, and how much their metrics differ.

    Counts and sums, so what several designs gave adds up.

    Example:
        >>> found = Paired(both=900, first=60, second=30, neither=10, sums={})
        >>> found.instances, round(found.p_value, 4), found.better("success_rate")
        (1000, 0.0021, 1)
    """

    both: int  # instances that both decoded without error
    first: int  # that only the first did
    second: int
    neither: int
    sums: Mapping[str, tuple[float, float]]  # by metric: of the differences (first less second), and of their squares

    @property
    def instances(self) -> int:
        """How many instances both decoded."""
        return self.both + self.first + self.second + self.neither

    @property
    def p_value(self) -> float:
        """The exact McNemar test's: how probable so uneven a split is where neither decoder is right more often."""
        return two_sided(min(self.first, self.second), self.first + self.second)

    def difference(self, metric: str = "success_rate") -> Difference:
        """The difference of the two means, with the normal interval of paired differences."""
        total, squares = self.sums[metric] if metric in self.sums else self._successes()
        if not self.instances:
            return Difference(math.nan, -1.0, 1.0)
        mean = total / self.instances
        reach = Z95 * math.sqrt(max(0.0, squares / self.instances - mean * mean) / self.instances)
        return Difference(mean, mean - reach, mean + reach)

    def better(self, metric: str = "success_rate") -> int:
        """1 where the first decoder is better, -1 where the second is, 0 where the instances do not tell.

        For the success rate by the exact test at 5 %, for a mean by its difference's 95 % interval.
        """
        if metric == "success_rate":
            sign = (self.first > self.second) - (self.first < self.second)
            return sign if self.p_value < SIGNIFICANT else 0
        found = self.difference(metric)
        sign = int(found.low > 0) - int(found.high < 0)
        return -sign if metric == "mse" else sign

    def __add__(self, other: "Paired") -> "Paired":
        added = {m: (a + other.sums[m][0], b + other.sums[m][1]) for m, (a, b) in self.sums.items()}
        return Paired(
            self.both + other.both,
            self.first + other.first,
            self.second + other.second,
            self.neither + other.neither,
            added,
        )

    def _successes(self) -> tuple[float, float]:
        return float(self.first - self.second), float(self.first + self.second)


def paired(first: Outcomes, second: Outcomes) -> Paired:
    """Compare two decoders on the same instances, in the same order.

    Example:
        >>> import torch
        >>> x = torch.eye(4, dtype=torch.uint8)
        >>> found = paired(outcomes(x, x), outcomes(x, torch.zeros_like(x)))
        >>> found.first, found.second, found.p_value, found.difference("recall").mean
        (4, 0, 0.125, 1.0)
    """
    if (first.items, first.instances) != (second.items, second.instances):
        raise ValueError(
            f"first has {first.instances} instances of {first.items} items and second {second.instances} of "
            f"{second.items}: give outcomes of the same instances."
        )
    a, b = first.right, second.right
    both, one, other, neither = (int(part.sum()) for part in (a & b, a & ~b, ~a & b, ~a & ~b))
    sums = {}
    for metric, ours, theirs in zip(METRICS[1:], _values(first), _values(second), strict=True):
        gap = ours - theirs
        sums[metric] = (float(gap.sum()), float(gap.square().sum()))
    return Paired(both, one, other, neither, sums)


def two_sided(fewer: int, flips: int) -> float:
    """How probable it is that a fair coin shows its rarer side at most `fewer` times in so many flips.

    Example:
        >>> two_sided(1, 6), two_sided(3, 6)
        (0.21875, 1.0)
    """
    term, total = 1, 1
    for i in range(fewer):
        term = term * (flips - i) // (i + 1)
        total += term
    return min(1.0, float(2 * total / (1 << flips)))  # whole numbers to the end: exact for any number of flips


def _values(found: Outcomes) -> list[Tensor]:
    """Each instance's value of every metric but the success rate; equal triples are valued once."""
    kinds, which = found.triples.unique(dim=0, return_inverse=True)
    different: list[tuple[int, int, int]] = [(tp, fp, fn) for tp, fp, fn in kinds.tolist()]
    by_metric = [[value_of(metric, triple, found.items) for triple in different] for metric in METRICS[1:]]
    return [torch.tensor(each, dtype=torch.float64)[which] for each in by_metric]
