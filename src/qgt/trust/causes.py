"""What may be wrong with a file whose counts do not fit: causes that people meet, each tried and weighed.

Decoding under the model as it stands is misled by what is wrong. So the instances are decoded once more under a noise
that lets any count be arbitrary: what a few bad pools say is then set aside, and the answers are good enough to ask of
each cause how much better it explains all counts,

    gain = sum over instances of log P(counts | answers, cause) - log P(counts | answers),

in nats, less what its free choice would gain by chance (the log of the number of such causes tried).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float64, UInt8
from torch import Tensor

from qgt.decoders.contract import Decoder
from qgt.model.noise import Outliers, SparseInteger
from qgt.model.prior import Bernoulli
from qgt.model.problem import Problem
from qgt.trust.reference import misfit

ARBITRARY = 0.02
CEILING = 12.0  # nats that one count may add to a gain: beyond, it is as good as impossible
HALF = 0.5  # of the counts
WORTH = 6.0  # nats below which a gain is no finding


@dataclass(frozen=True)
class Cause:
    """Something that may be wrong, and by how much it explains the counts better."""

    kind: str
    words: str
    gain: float  # nats

    def __str__(self) -> str:
        return f"{self.words} (the counts are {_times(self.gain)} as probable)"


def _times(gain: float) -> str:
    return f"{math.exp(gain):,.0f} times" if gain < 14 else f"10^{gain / math.log(10):.0f} times"


def likely_causes(
    problem: Problem, y: Float64[Tensor, "instances pools"], decoder: Decoder, *, most: int = 3
) -> list[Cause]:
    """The causes that explain a file's counts better than the model does, the best first.

    `decoder` decodes the file under models that let counts be wrong; it must be fast, not exact.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> design = qgt.Design.bernoulli(pools=35, items=100, generator=g)
        >>> problem = qgt.Problem(design, qgt.Bernoulli(0.06), qgt.SparseInteger(0.1, 1))
        >>> x, y = problem.simulate(40, generator=g)
        >>> swapped = y.clone()
        >>> swapped[:, [3, 8]] = y[:, [8, 3]]
        >>> likely_causes(problem, swapped, qgt.GAMP())[0].words
        'the counts of pools P4 and P9 are swapped'
    """
    robust = Problem(problem.design, problem.prior, Outliers(problem.noise, ARBITRARY))
    if not len(y) or decoder.supports(robust) is not None:
        return []
    x = decoder.bind(robust)(y).x
    table = _Table.of(problem, y, x)
    found = [*_swapped_pools(problem, table), *_failed_pools(problem, table, y), *_transfers(problem, y, x, table)]
    found += _other_design(problem, table, y)
    found += [*_reversed_pools(problem, y, decoder, robust), *_other_noise(problem, y, x), *_other_rate(problem, x)]
    best: dict[str, Cause] = {}
    for cause in sorted(found, key=lambda cause: -cause.gain):
        if cause.gain > WORTH:
            best.setdefault(cause.kind, cause)
    return list(best.values())[:most]


@dataclass(frozen=True, eq=False)
class _Table:
    """log P(the count of pool i | what pool j's items add up to), summed over instances; and by instance for i = j."""

    crossed: Float64[Tensor, "pools pools"]
    own: Float64[Tensor, "instances pools"]

    @classmethod
    def of(cls, problem: Problem, y: Tensor, x: Tensor) -> "_Table":
        counts, sizes = problem.design.count(x), problem.design.pool_sizes.double()
        rows = [
            problem.noise.log_prob(y[:, i : i + 1], counts, sizes).clamp(min=-CEILING).sum(0)
            for i in range(problem.pools)
        ]
        own = problem.noise.log_prob(y, counts, sizes).clamp(min=-CEILING)
        return cls(torch.stack(rows), own)


def _swapped_pools(problem: Problem, table: _Table) -> Iterator[Cause]:
    """Pairs of pools whose counts belong to each other."""
    own = table.crossed.diagonal()
    gain = table.crossed + table.crossed.T - own - own[:, None]
    pairs = problem.pools * (problem.pools - 1) / 2
    for i, j in (gain > WORTH).triu(1).nonzero().tolist():
        a, b = problem.design.pool_names[i], problem.design.pool_names[j]
        words = f"the counts of pools {a} and {b} are swapped"
        yield Cause("pools swapped", words, float(gain[i, j]) - math.log(pairs))


def _failed_pools(problem: Problem, table: _Table, y: Tensor) -> Iterator[Cause]:
    """Pools whose counts say nothing about their items: as probable under how often each count occurs there."""
    for i, name in enumerate(problem.design.pool_names):
        gain = _without_items(table, y, i) - math.log(problem.pools)
        if gain > WORTH:
            alike = f", always {y[0, i]:g}," if bool((y[:, i] == y[0, i]).all()) else ""
            yield Cause("pool failed", f"pool {name} failed: its counts{alike} have nothing to do with its items", gain)


def _without_items(table: _Table, y: Tensor, pool: int) -> float:
    """How much more probable a pool's counts are by their own frequencies than by what its items add up to."""
    values, which, number = y[:, pool].unique(return_inverse=True, return_counts=True)
    # One more of each, and a nat for each frequency that is fitted.
    free = ((number + 1).double() / (len(y) + len(values) + 1)).log()[which].sum()
    return float(free - table.own[:, pool].sum()) - len(values)


def _other_design(problem: Problem, table: _Table, y: Tensor) -> Iterator[Cause]:
    """Most pools' counts have nothing to do with their items."""
    gains = [_without_items(table, y, i) for i in range(problem.pools)]
    if sum(gain > 0 for gain in gains) > problem.pools / 2 and sum(gains) > WORTH:
        words = "the counts belong to another design, or the pools are in another order"
        yield Cause("another design", words, sum(gains))


def _transfers(problem: Problem, y: Tensor, x: Tensor, table: _Table) -> Iterator[Cause]:
    """Entries of the design that are wrong: an item left out of a pool, or put into one."""
    counts, sizes = problem.design.count(x), problem.design.pool_sizes.double()
    ones, matrix = x.double(), problem.design.matrix
    entries = problem.pools * problem.items
    for step, kind, words in (
        (-1.0, 1, "item {item} was left out of pool {pool}"),
        (1.0, 0, "item {item} was put into pool {pool}, where it does not belong"),
    ):
        other = problem.noise.log_prob(y, (counts + step).clamp(min=0), sizes).clamp(min=-CEILING)
        gain = (other - table.own).T @ ones  # (pools, items): over the instances in which the item is defective
        gain = torch.where(matrix == kind, gain, -torch.inf) - math.log(entries)
        value, at = gain.flatten().max(0)
        if float(value) > WORTH:
            pool, item = divmod(int(at), problem.items)
            names = {"pool": problem.design.pool_names[pool], "item": problem.design.item_names[item]}
            yield Cause("transfer", words.format(**names), float(value))


def _reversed_pools(problem: Problem, y: Tensor, decoder: Decoder, robust: Problem) -> Iterator[Cause]:
    """All counts in reverse order: told apart only by decoding them so."""
    decode = decoder.bind(robust)
    here, there = (_log_joint(robust, counts, decode(counts).x) for counts in (y, y.flip(1)))
    gain = float((there - here).sum())
    if gain > WORTH:
        yield Cause("pools reversed", "the pools are in reverse order", gain)


def _log_joint(problem: Problem, y: Tensor, x: UInt8[Tensor, "instances items"]) -> Tensor:
    off = misfit(problem, y, x)
    return -(off.pools.clamp(max=CEILING).sum(1) + off.prior.clamp(max=1e3))


def _other_noise(problem: Problem, y: Tensor, x: Tensor) -> Iterator[Cause]:
    """Another rate of errors, the one that makes them most probable."""
    noise = problem.noise
    if not isinstance(noise, SparseInteger) or not noise.bound:
        return
    wrong = float((y != problem.design.count(x)).double().mean())
    if wrong > HALF:  # that is no noise any more
        return
    rate = min(1.0, wrong * (2 * noise.bound + 1) / (2 * noise.bound))
    other = replace(noise, rate=rate)
    counts, sizes = problem.design.count(x), problem.design.pool_sizes.double()
    gain = float((other.log_prob(y, counts, sizes) - noise.log_prob(y, counts, sizes)).nan_to_num(0.0, 0.0, 0.0).sum())
    if gain > WORTH:
        words = f"{100 * rate:.0f} % of the counts are noisy, not {100 * noise.rate:g} %"
        yield Cause("noise rate", words, gain)


def _other_rate(problem: Problem, x: Tensor) -> Iterator[Cause]:
    """Another share of defectives."""
    prior = problem.prior
    if not isinstance(prior, Bernoulli) or not isinstance(prior.rate, float):
        return
    rate = float(x.double().mean())
    gain = float((Bernoulli(rate).log_prob(x) - prior.log_prob(x)).nan_to_num(0.0, 0.0, 0.0).sum())
    if gain > WORTH:
        words = f"{100 * rate:.1f} % of the items are defective, not {100 * prior.rate:g} %"
        yield Cause("prevalence", words, gain)
