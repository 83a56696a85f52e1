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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from qgt.files import codec

FEW = 30  # values that differ from the most frequent one: with fewer their variance is not known
Z95 = 1.959963984540054  # the normal quantile of a two-sided 95 % interval


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
        if self.instances - max(values.values()) < FEW:
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
            raise ValueError(f"{name} holds other numbers than 0 and 1: give statuses, not scores or counts.")
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
