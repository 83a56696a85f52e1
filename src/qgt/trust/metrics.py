"""Scoring: how well calls match the truth, kept as counts that add up.

Each instance is summarised by its numbers of true positives, false positives and false negatives; a `Score` counts
how often each such triple occurred. Every metric of the paper follows from those counts, and two scores add by adding
them, so results from batches, workers and machines combine without loss.

Conventions: precision, recall and F1 are computed per instance and then averaged. An instance where truth and calls
are both empty has precision = recall = F1 = 1; where only one is empty, all three are 0.

Intervals: the success rate has Wilson's. Every other metric is a mean of values in [0, 1] that vary less than successes
with the same mean would, so n instances say as much about it as n / d successes: d is the design effect, the values'
variance over m (1 - m). Its interval is Wilson's with n / d trials, the form that surveys use (Korn and Graubard 1998;
Franco et al. 2019). Where fewer than 30 values differ from the most frequent one, which is mostly that of an instance
without error, the variance cannot be told from them (the next may be far worse), and d is 1, its largest value.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int64, UInt8
from torch import Tensor

from qgt.files import codec

FEW_VALUES = 30  # values that differ from the most frequent one: with fewer their variance is not known
Z95 = 1.959963984540054  # the normal quantile of a two-sided 95 % interval
Z99 = 2.5758293035489004  # and of a 99 % interval


class Interval(NamedTuple):
    """A 95 % confidence interval."""

    low: float
    high: float


@dataclass(frozen=True)
class Score:
    """Counts of (true positives, false positives, false negatives) over instances of `items` items.

    Example:
        >>> one = Score(items=4, outcomes={(1, 0, 0): 3, (1, 1, 0): 1})
        >>> (one + one).instances, one.success_rate, one.precision
        (8, 0.75, 0.875)
    """

    items: int
    outcomes: Mapping[tuple[int, int, int], int]

    def __add__(self, other: "Score") -> "Score":
        if self.items != other.items:
            raise ValueError(f"scores of {self.items} and {other.items} items do not add: keep them apart.")
        return Score(self.items, Counter(self.outcomes) + Counter(other.outcomes))

    def to_plain(self) -> dict[str, object]:
        """The counts as plain data: rows of true positives, false positives, false negatives, and how often."""
        plain: dict[str, object] = codec.encode("score", self, Score)
        return plain

    @classmethod
    def from_plain(cls, data: object) -> "Score":
        """The score that `to_plain` described."""
        return codec.decode("score", data, cls)

    @property
    def instances(self) -> int:
        """How many instances were scored."""
        return sum(self.outcomes.values())

    @property
    def successes(self) -> int:
        """How many were decoded without a single error."""
        return sum(n for (_, fp, fn), n in self.outcomes.items() if fp == fn == 0)

    @property
    def success_rate(self) -> float:
        """The share decoded without a single error."""
        return self.mean("success_rate")

    @property
    def precision(self) -> float:
        """The mean share of an instance's calls that are right."""
        return self.mean("precision")

    @property
    def recall(self) -> float:
        """The mean share of an instance's defectives that are called."""
        return self.mean("recall")

    @property
    def f1(self) -> float:
        """The mean harmonic mean of precision and recall."""
        return self.mean("f1")

    @property
    def mse(self) -> float:
        """The mean squared error of the calls: the share of wrong entries."""
        return self.mean("mse")

    def mean(self, metric: str) -> float:
        """A metric's mean over the instances, NaN for none."""
        if metric not in METRICS:
            raise ValueError(f"metric={metric!r} is not known: give one of {', '.join(METRICS)}.")
        total = sum(n * value_of(metric, outcome, self.items) for outcome, n in self.outcomes.items())
        return total / self.instances if self.instances else math.nan

    def interval(self, metric: str = "success_rate") -> Interval:
        """A 95 % interval for a metric's mean over all instances that could be drawn."""
        mean, trials = self.mean(metric), self.instances
        if not trials:
            return Interval(0.0, 1.0)
        effect = 1.0 if metric == "success_rate" else self._design_effect(metric, mean)
        return wilson(mean * trials / effect, trials / effect)

    def _design_effect(self, metric: str, mean: float) -> float:
        """The variance of a metric's values, over that of successes with the same mean."""
        values: Counter[float] = Counter()
        for outcome, n in self.outcomes.items():
            values[value_of(metric, outcome, self.items)] += n
        if self.instances - max(values.values()) < FEW_VALUES:
            return 1.0
        variance = sum(n * (value - mean) ** 2 for value, n in values.items()) / (self.instances - 1)
        return min(1.0, variance / (mean * (1 - mean)))

    def __str__(self) -> str:
        low, high = self.interval()
        rest = ", ".join(f"{name} {self.mean(name):.4f}" for name in METRICS[1:])
        return f"success rate {self.success_rate:.4f} [{low:.4f}, {high:.4f}], {rest} ({self.instances} instances)"


METRICS = ("success_rate", "f1", "precision", "recall", "mse")


def value_of(metric: str, outcome: tuple[int, int, int], items: int) -> float:
    """One instance's value of a metric.

    Example:
        >>> value_of("precision", (3, 1, 0), items=10)
        0.75
    """
    tp, fp, fn = outcome
    if metric == "success_rate":
        return float(fp == fn == 0)
    if metric == "mse":
        return (fp + fn) / items
    if tp + fp + fn == 0:
        return 1.0
    parts = {"precision": tp + fp, "recall": tp + fn, "f1": tp + (fp + fn) / 2}
    return tp / parts[metric] if parts[metric] else 0.0


def score(x: UInt8[Tensor, "instances items"], x_hat: UInt8[Tensor, "instances items"]) -> Score:
    """Compare calls with the truth.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1, 0, 0], [0, 0, 0]], dtype=torch.uint8)
        >>> score(x, torch.zeros_like(x)).success_rate
        0.5
    """
    return counted(triples(x, x_hat), x.shape[1])


def triples(
    x: UInt8[Tensor, "instances items"], x_hat: UInt8[Tensor, "instances items"]
) -> Int64[Tensor, "instances 3"]:
    """Each instance's numbers of true positives, false positives and false negatives.

    Example:
        >>> import torch
        >>> triples(torch.tensor([[1, 1, 0]], dtype=torch.uint8), torch.tensor([[1, 0, 1]], dtype=torch.uint8)).tolist()
        [[1, 1, 1]]
    """
    if x.shape != x_hat.shape or x.dim() != 2:
        raise ValueError(f"x of shape {tuple(x.shape)} and x_hat of {tuple(x_hat.shape)}: give the same (n, items).")
    for name, given in (("x", x), ("x_hat", x_hat)):
        if bool(((given != 0) & (given != 1)).any()):
            raise ValueError(
                f"{name} holds other numbers than 0 and 1: give statuses, not scores or counts; count right "
                "copies or categories by (x == x_hat).all(1)."
            )
    truth, calls = x.bool(), x_hat.to(x.device).bool()
    return torch.stack([(truth & calls).sum(1), (~truth & calls).sum(1), (truth & ~calls).sum(1)], dim=1)


def counted(found: Int64[Tensor, "instances 3"], items: int) -> Score:
    """How often each triple occurs.

    Example:
        >>> import torch
        >>> counted(torch.tensor([[1, 0, 0], [1, 0, 0], [0, 0, 1]]), items=5).outcomes
        {(0, 0, 1): 1, (1, 0, 0): 2}
    """
    kinds, numbers = found.unique(dim=0, return_counts=True)
    pairs = zip(kinds.tolist(), numbers.tolist(), strict=True)
    return Score(items, {(tp, fp, fn): n for (tp, fp, fn), n in pairs})


def wilson(successes: float | int, trials: float | int, z: float = Z95) -> Interval:
    """Wilson's score interval for a proportion, good even at 0 and 1.

    Example:
        >>> tuple(round(end, 4) for end in wilson(10, 10))
        (0.7225, 1.0)
    """
    p, w = successes / trials, z * z / trials
    centre = (p + w / 2) / (1 + w)
    reach = z * math.sqrt(p * (1 - p) / trials + w / trials / 4) / (1 + w)
    # At 0 and 1 the formula's end is exactly the proportion, up to rounding.
    return Interval(0.0 if p == 0 else centre - reach, 1.0 if p == 1 else centre + reach)


# Outcomes, instance by instance, and decoders compared in pairs on the instances that both decoded.
#
# Two decoders that decode the same instances fail on many of the same ones, so the difference of their rates is known
# much better than either rate. The exact test of McNemar (1947) looks at the instances that just one of the two decoded
# without error: if neither is better, each of them is a fair coin's flip, and the number that the first wins is
# binomial. The p-value is two-sided: twice the smaller tail, at most 1.

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


def joined_outcomes(parts: Sequence[Outcomes]) -> Outcomes:
    """The outcomes of several batches, one after another.

    Example:
        >>> one = Outcomes(4, bytes(12))
        >>> joined_outcomes([one, one]).instances
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
    from scipy.stats import binomtest  # it takes longer to import than all of this module

    return float(binomtest(fewer, flips).pvalue) if flips else 1.0


def _values(found: Outcomes) -> list[Tensor]:
    """Each instance's value of every metric but the success rate; equal triples are valued once."""
    kinds, which = found.triples.unique(dim=0, return_inverse=True)
    different: list[tuple[int, int, int]] = [(tp, fp, fn) for tp, fp, fn in kinds.tolist()]
    by_metric = [[value_of(metric, triple, found.items) for triple in different] for metric in METRICS[1:]]
    return [torch.tensor(each, dtype=torch.float64)[which] for each in by_metric]
