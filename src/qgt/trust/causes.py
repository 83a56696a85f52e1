"""What may be wrong with a file whose counts do not fit: causes that people meet, each tried and weighed.

Decoding under the model as it stands is misled by what is wrong. So the instances are decoded once more under a noise
that lets any count be arbitrary: what a few bad pools say is then set aside, and the answers are good enough to ask of
each cause how much better it explains all counts,

    gain = sum over instances of log P(counts | answers, cause) - log P(counts | answers),

in nats, less what its free choice would gain by chance (the log of the number of such causes tried). In large designs
no pairs are tried: that two pools are swapped, or a transfer is wrong, is then not found.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import NormalDist

import torch
from jaxtyping import Float64, UInt8
from torch import Tensor

from qgt.decoders.contract import Decode, Decoder
from qgt.model.noise import Noise, Outliers, RoundedGaussian, SparseInteger
from qgt.model.prior import Bernoulli, Households, Prior, UnknownLevel, with_attack_rate
from qgt.model.problem import Problem
from qgt.trust.fit import expected_off
from qgt.trust.reference import NUMBERS, misfit

ARBITRARY = 0.02
CEILING = 12.0  # nats that one count may add to a gain: beyond, it is as good as impossible
HALF = 0.5  # of the counts
SHUFFLED, SURELY = 3, 2.5  # orders of the pools that are tried, and standard errors by which one must be better
KEPT = 0.75  # of the instances, to judge the noise by
WORTH = 6.0  # nats below which a gain is no finding
BOUNDS = (1, 2, 3, 5)  # of noises that are tried
LEAST = 1e-4  # share of defectives
TIMES = 1.3  # by which the share of defectives must be another to be a cause
ATTACKS, TRIED = 0.01, 40  # the least attack rate that is tried, and how many from there to 1
SIMULATED = 4000  # instances, for the usual sum of the counts, or fewer of many pools
LARGEST = 2**24  # pools times items up to which pairs of them are tried


@dataclass(frozen=True)
class Cause:
    """Something that may be wrong, and by how much it explains the counts better."""

    kind: str
    words: str
    gain: float  # nats
    pools: tuple[int, ...] = ()  # the numbers of those it is about, from 0
    remedy: str = ""  # what to do about it, where the counts themselves are right

    def __str__(self) -> str:
        return f"{self.words} (the counts are {_times(self.gain)} as probable)"


def _times(gain: float) -> str:
    return f"{math.exp(gain):,.0f} times" if gain < 14 else f"10^{gain / math.log(10):.0f} times"


def likely_causes(
    problem: Problem,
    y: Float64[Tensor, "instances pools"],
    decoder: Decoder | None,
    *,
    calls: UInt8[Tensor, "instances items"] | None = None,
    most: int = 3,
) -> list[Cause]:
    """The causes that explain a file's counts better than the model does, the best first.

    Args:
        problem: What the file should be of.
        y: Its counts.
        decoder: Decodes the file under models that let counts be wrong; it must be fast, not exact. Without one, only
            what the calls show is looked at.
        calls: Answers under the problem as it stands, where there are some: for what is not touched they are better.
        most: How many causes to name.

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
    if not len(y) or decoder is None or decoder.supports(robust) is not None:
        return [] if calls is None else list(_attack_rate(problem, calls))
    share = _defective_share(problem, y)
    if share is not None and isinstance(problem.prior, Bernoulli):  # the others are looked for under the share found
        robust = replace(robust, prior=Bernoulli(share))
    decode = decoder.bind(robust)
    x = _better(robust, y, decode(y).x, calls)
    table = _Table.of(problem, y, x)
    swapped = list(_swapped_pools(problem, table))
    inside = {i for cause in swapped for i in cause.pools}  # they seem to have failed, too
    pools = [*swapped, *(cause for cause in _failed_pools(problem, table, y) if not inside.intersection(cause.pools))]
    found = [*pools, *_transfers(problem, y, x, table), *_prevalence(problem, y, share)]
    found += _reversed_pools(y, decode, robust)
    # Counts that are larger all over, or in reverse order, seem to be of another design too.
    known = any(cause.kind in ("prevalence", "pools reversed") for cause in found)
    other = [] if known else list(_other_design(problem, y, decode, robust))
    found += _attack_rate(problem, x if calls is None else calls)
    found += [*other, *_other_noise(problem, y, x, table, set().union(*(cause.pools for cause in pools)))]
    best: dict[str, Cause] = {}
    for cause in sorted(found, key=lambda cause: -cause.gain):
        if cause.gain > WORTH:
            best.setdefault(cause.kind, cause)
    return list(best.values())[:most]


@dataclass(frozen=True, eq=False)
class _Table:
    """log P(the count of pool i | what pool j's items add up to), summed over instances; and by instance for i = j."""

    crossed: Float64[Tensor, "pools pools"] | None  # None where there are too many
    own: Float64[Tensor, "instances pools"]

    @classmethod
    def of(cls, problem: Problem, y: Tensor, x: Tensor) -> "_Table":
        counts, sizes = problem.design.count(x), problem.design.pool_sizes.double()
        own = _log_prob(problem.noise, y, counts, sizes)
        if problem.pools * max(problem.pools, problem.items) > LARGEST:
            return cls(None, own)
        rows = [_log_prob(problem.noise, y[:, i : i + 1], counts, sizes).sum(0) for i in range(problem.pools)]
        return cls(torch.stack(rows), own)


def _log_prob(noise: Noise, y: Tensor, counts: Tensor, sizes: Tensor) -> Tensor:
    """What each count makes of an explanation, in nats and no more than so many; a missing one nothing."""
    found = noise.log_prob(torch.where(y.isnan(), 0.0, y), counts, sizes).clamp(min=-CEILING)
    return torch.where(y.isnan(), 0.0, found)


def _swapped_pools(problem: Problem, table: _Table) -> Iterator[Cause]:
    """Pairs of pools whose counts belong to each other."""
    if table.crossed is None:
        return
    own = table.crossed.diagonal()
    gain = table.crossed + table.crossed.T - own - own[:, None]
    pairs = problem.pools * (problem.pools - 1) / 2
    for i, j in (gain > WORTH).triu(1).nonzero().tolist():
        a, b = problem.design.pool_names[i], problem.design.pool_names[j]
        words = f"the counts of pools {a} and {b} are swapped"
        if float(gain[i, j]) - math.log(pairs) > WORTH:
            yield Cause("pools swapped", words, float(gain[i, j]) - math.log(pairs), (i, j))


def _failed_pools(problem: Problem, table: _Table, y: Tensor) -> Iterator[Cause]:
    """Pools whose counts say nothing about their items: as probable under how often each count occurs there."""
    for i, name in enumerate(problem.design.pool_names):
        gain = _without_items(table, y, i) - math.log(problem.pools)
        if gain > WORTH:
            seen = y[~y[:, i].isnan(), i]
            alike = f", always {seen[0]:g}," if len(seen) and bool((seen == seen[0]).all()) else ""
            words = f"pool {name} failed: its counts{alike} have nothing to do with its items"
            yield Cause("pool failed", words, gain, (i,))


def _without_items(table: _Table, y: Tensor, pool: int) -> float:
    """How much more probable a pool's counts are by their own frequencies than by what its items add up to."""
    return _by_frequency(y[:, pool]) - float(table.own[:, pool].sum())


def _by_frequency(counts: Tensor) -> float:
    """The log probability of a pool's counts, those that are not missing, if each occurs as often as it does here."""
    counts = counts[~counts.isnan()]
    values, which, number = counts.unique(return_inverse=True, return_counts=True)
    # One more of each, and a nat for each frequency that is fitted.
    return float(((number + 1).double() / (len(counts) + len(values) + 1)).log()[which].sum()) - len(values)


def _other_design(problem: Problem, y: Tensor, decode: Decode, robust: Problem) -> Iterator[Cause]:
    """The counts fit no better in their order than with the pools shuffled: the design does not matter to them."""
    here, seeded = _log_joint(robust, y, decode(y).x), torch.Generator().manual_seed(0)
    shuffled = [y[:, torch.randperm(problem.pools, generator=seeded)] for _ in range(SHUFFLED)]
    there = torch.stack([_log_joint(robust, one, decode(one).x) for one in shuffled]).mean(0)
    if _score(here - there) > SURELY:
        return
    gain = sum(_by_frequency(y[:, i]) for i in range(problem.pools)) - float(here.sum())
    words = "the counts belong to another design, or the pools are in another order"
    yield Cause("another design", words, gain)


def _score(gains: Tensor) -> float:
    """The mean of gains, one for each instance, in standard errors."""
    spread = float(gains.std(correction=0)) / math.sqrt(len(gains))
    return float(gains.mean()) / max(spread, 1e-9)


def _transfers(problem: Problem, y: Tensor, x: Tensor, table: _Table) -> Iterator[Cause]:
    """Entries of the design that are wrong: an item left out of a pool, or put into one."""
    if table.crossed is None:
        return
    counts, sizes = problem.design.count(x), problem.design.pool_sizes.double()
    ones, matrix = x.double(), problem.design.matrix
    entries = problem.pools * problem.items
    for step, kind, words in (
        (-1.0, 1, "item {item} was left out of pool {pool}"),
        (1.0, 0, "item {item} was put into pool {pool}, where it does not belong"),
    ):
        other = _log_prob(problem.noise, y, (counts + step).clamp(min=0), sizes)
        gain = (other - table.own).T @ ones  # (pools, items): over the instances in which the item is defective
        gain = torch.where(matrix == kind, gain, -torch.inf) - math.log(entries)
        value, at = gain.flatten().max(0)
        if float(value) > WORTH:
            pool, item = divmod(int(at), problem.items)
            names = {"pool": problem.design.pool_names[pool], "item": problem.design.item_names[item]}
            yield Cause("transfer", words.format(**names), float(value))


def _reversed_pools(y: Tensor, decode: Decode, robust: Problem) -> Iterator[Cause]:
    """All counts in reverse order: told apart only by decoding them so."""
    here, there = (_log_joint(robust, counts, decode(counts).x) for counts in (y, y.flip(1)))
    gain = float((there - here).sum())
    if gain > WORTH and _score(there - here) > SURELY:
        yield Cause("pools reversed", "the pools are in reverse order", gain)


def _better(problem: Problem, y: Tensor, x: Tensor, calls: Tensor | None) -> Tensor:
    """Of two answers to each instance the more probable one."""
    if calls is None:
        return x
    return torch.where((_log_joint(problem, y, calls) > _log_joint(problem, y, x))[:, None], calls, x)


def _log_joint(problem: Problem, y: Tensor, x: UInt8[Tensor, "instances items"]) -> Tensor:
    off = misfit(problem, y, x)
    return -(off.pools.clamp(max=CEILING).sum(1) + off.prior.clamp(max=1e3))


def _other_noise(problem: Problem, y: Tensor, x: Tensor, table: _Table, apart: set[int]) -> Iterator[Cause]:
    """More noise: the kind, of a few, that makes the errors most probable.

    Noise is in all pools and instances. So those that another cause is about are left out, and so is the quarter of
    the instances that fit worst, whose answers are most likely wrong.
    """
    noise, usual = problem.noise, expected_off(problem) / problem.pools
    pools = [i for i in range(problem.pools) if i not in apart]
    rows = table.own[:, pools].sum(1).argsort(descending=True)[: max(1, math.ceil(KEPT * len(y)))]
    counts, sizes = problem.design.count(x)[rows][:, pools], problem.design.pool_sizes[pools].double()
    y, own = y[rows][:, pools], table.own[rows][:, pools]
    seen = ~y.isnan()
    wrong = float((y != counts)[seen].double().mean()) if bool(seen.any()) else 0.0
    if not isinstance(noise, SparseInteger | RoundedGaussian) or not usual < wrong < HALF:
        return
    off, sigma = f"{100 * wrong:.0f} % of the counts are off, not {100 * usual:.0f} %", _sigma(wrong)
    kinds: list[tuple[Noise, str]] = [(RoundedGaussian(sigma), f"{off}, as by an error of about {sigma:.1f}")]
    bound = noise.bound if isinstance(noise, SparseInteger) else 0
    for most in sorted({max(1, bound), *BOUNDS}):
        words = off if most == bound else f"{off}, and by up to {most}"
        kinds.append((SparseInteger(min(1.0, wrong * (2 * most + 1) / (2 * most)), most), words))
    gains = [float((_log_prob(one, y, counts, sizes) - own).sum()) for one, _ in kinds]
    best = max(range(len(kinds)), key=lambda i: gains[i])
    gain = gains[best] - math.log(len(kinds))
    if gain > WORTH:
        yield Cause("noise", kinds[best][1], gain)


def _attack_rate(problem: Problem, x: Tensor) -> Iterator[Cause]:
    """Another attack rate in households: the one, of a few, that makes the answers most probable.

    The share of defectives stays, so households are seeded more or less often. Counts tell most answers whatever the
    attack rate is; those that a wrong one misleads pull the estimate towards it.
    """
    prior = problem.prior.prior if isinstance(problem.prior, UnknownLevel) else problem.prior
    if not isinstance(prior, Households) or not isinstance(problem.prior, Prior) or not len(x):
        return
    rate = float(prior.marginals(problem.items).mean())
    tried = sorted({float(f"{ATTACKS ** (1 - i / TRIED):.2g}") for i in range(TRIED + 1)})
    rates = [one for one in tried if one > max(rate, prior.background)]
    here = problem.prior.log_prob(x).clamp(min=-1e3)
    gains = [float((with_attack_rate(problem.prior, one).log_prob(x).clamp(min=-1e3) - here).sum()) for one in rates]
    best = max(range(len(rates)), key=lambda i: gains[i], default=None)
    if best is None or gains[best] - math.log(len(rates)) <= WORTH:
        return
    now, found = f"{100 * prior.attack_rate:.2g} %", f"{100 * rates[best]:.2g} %"
    words = f"the attack rate in households is about {found}, not {now}; the counts may well be right"
    remedy = f"decode the file again with --attack-rate {found.replace(' ', '')}"
    yield Cause("attack rate", words, gains[best] - math.log(len(rates)), remedy=remedy)


def _sigma(wrong: float) -> float:
    """The standard deviation of a Gaussian error that changes so large a share of counts when rounded."""
    return 0.5 / NormalDist().inv_cdf(1 - wrong / 2)


def _defective_share(problem: Problem, y: Tensor) -> float | None:
    """The share of items that are defective, where counts are larger or smaller all over; None where they are not.

    The sum of an instance's counts shows it, and no decoding is needed.
    """
    if not isinstance(problem.prior, Prior) or _sum_score(problem, y) ** 2 / 2 < WORTH:
        return None
    usual = float(_usual_reports(problem).sum(1).mean())
    ratio = float(_sums(problem, y).mean()) / usual if usual > 0 else 1.0
    expected = float(problem.prior.marginals(problem.items).mean())
    return None if 1 / TIMES < ratio < TIMES else min(1 - LEAST, max(LEAST, ratio * expected))


def _usual_reports(problem: Problem) -> Tensor:
    few = max(20, NUMBERS // (problem.items + problem.pools))
    return problem.simulate(min(SIMULATED, few), generator=torch.Generator().manual_seed(0)).y


def _sums(problem: Problem, y: Tensor) -> Tensor:
    """The sum of each instance's counts; a missing one is taken to be its pool's usual one, which tells nothing."""
    return torch.where(y.isnan(), _usual_reports(problem).mean(0), y).sum(1)


def _sum_score(problem: Problem, y: Tensor) -> float:
    """How far the mean sum of an instance's counts is from the usual one, in standard errors."""
    usual = _usual_reports(problem).sum(1)
    return float((_sums(problem, y).mean() - usual.mean()) / usual.std().clamp(min=1e-9)) * math.sqrt(len(y))


def _prevalence(problem: Problem, y: Tensor, share: float | None) -> Iterator[Cause]:
    """Another share of defectives."""
    if share is not None and isinstance(problem.prior, Prior):
        expected = float(problem.prior.marginals(problem.items).mean())
        words = f"{100 * share:.1f} % of the items are defective, not {100 * expected:.1f} %"
        yield Cause("prevalence", words, _sum_score(problem, y) ** 2 / 2)
