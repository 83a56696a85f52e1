"""What is wrong where counts do not fit: counts that must be wrong, one wrong count, and causes of a whole file.

All three decode again under a noise that allows more errors, and weigh what that explains.
"""

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import NormalDist
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64, UInt8
from torch import Tensor

from qgt.decoders.certified.decoder import Certified, cheaper_than
from qgt.decoders.certified.large import is_large
from qgt.decoders.contract import Decode, Decoder
from qgt.decoders.loads.posterior import LoadPosterior
from qgt.decoders.results import Answers, Decoded, Status
from qgt.model.categories import Categories, Copies
from qgt.model.factors import PoolCosts, pool_costs
from qgt.model.loads import log_totals
from qgt.model.noise import (
    Noise,
    Outliers,
    PerCategory,
    Reads,
    RoundedGaussian,
    SparseInteger,
    reports_of,
    usual_reports,
)
from qgt.model.prior import Bernoulli, Households, Prior, Sampler, UnknownLevel, with_attack_rate
from qgt.model.problem import Counts, Problem
from qgt.trust.fit import INSTANCE_ALARM, MOST_DRAWN, SMALLEST, exchanged, expected_off, misfit

# Counts that no answer explains: which of them must be wrong, and what the others say.
#
# Under the model as it stands such an instance has probability 0, and nothing follows from it. If any count may be
# arbitrary, with a tiny chance, the most probable answer is the one that takes the fewest counts to be wrong: those are
# the counts to look at again. Mostly it is one: so each count is left out in turn, which is quick, for the others stay
# exact. Where that explains nothing, a search under a noise with arbitrary counts (`Outliers`) follows; it is slow.
#
# Where more than a third of the counts are impossible by themselves, nothing is said. A slip of the pen or a failed
# pool spoils one count or a few; so many are another sheet, another design or another kind of number, and what is left
# then determines nothing: a plan has about as many pools as it needs, so that the counts that remain fit some set of
# items whatever they are. Nor is an answer worth a word that takes most of the counts to be wrong.

HOPELESS = 1 / 3  # of the counts: where more are impossible by themselves, the others tell nothing
ARBITRARY_COUNT = 1e-4  # the chance of an arbitrary count: far below that of any error the noise knows
RESCUE_SECONDS = 1.0
USUAL_ODDS = 100.0  # of lists; taken for those of decoders of somebody's own, which do not say


@dataclass(frozen=True, eq=False)
class Rescue:
    """The answer that takes the fewest counts of one instance to be wrong.

    Example:
        >>> import torch, qgt
        >>> rows = ["11000", "00110", "10101", "01011", "11111"]
        >>> problem = qgt.Problem(qgt.Design.from_rows(rows), qgt.Bernoulli(0.1))
        >>> found = rescue(problem, torch.tensor([1.0, 0.0, 1.0, 0.0, 3.0], dtype=torch.float64))
        >>> found.x.tolist(), found.wrong
        ([1, 0, 0, 0, 0], ('P5',))
    """

    x: UInt8[Tensor, " items"]
    undecided: Bool[Tensor, " items"]  # where other answers that come close differ, or might
    wrong: tuple[str, ...]  # pools whose counts cannot be right if the answer is


def rescue(
    problem: Problem,
    y: Float64[Tensor, " pools"] | Float64[Tensor, "pools categories"],
    *,
    seconds: float = RESCUE_SECONDS,
) -> Rescue | None:
    """Explain counts that the problem cannot explain, as far as its decoder finds an answer in the time.

    None where no answer is found, where more than a third of the counts are impossible by themselves, or where the
    answer takes more than half of them to be wrong.
    """
    if problem.values is not None:  # the same in parts, whose pools have names of pools and categories
        found = rescue(problem.in_parts, problem.values.part_reports(y[None])[0], seconds=seconds)
        return None if found is None else _of_values(problem.values, found)
    possible = pool_costs(problem.design, problem.noise, y[None]).possible(problem.design.pool_sizes)[0]
    if not bool((possible & ~y.isnan()).any()) or Certified().supports(problem) is not None:
        return None
    counted = int((~y.isnan()).sum())
    if int((~possible & ~y.isnan()).sum()) > HOPELESS * counted:
        return None
    start = time.perf_counter()
    kept = torch.where(possible, y, torch.nan)  # a count that is impossible by itself says nothing
    found = _one_wrong(problem, y, seconds / 2) if bool(possible.all()) else _agreed(problem, y, kept, seconds / 2)
    found = found or _some_wrong(problem, y, kept, max(seconds - (time.perf_counter() - start), seconds / 10))
    return found if found is not None and 2 * len(found.wrong) <= counted else None


def _of_values(values: Categories | Copies, found: Rescue) -> Rescue:
    """A rescue of parts as one of items with copies or categories."""
    undecided = found.undecided.view(values.levels, -1).any(0)
    return replace(found, x=values.from_parts(found.x[None])[0], undecided=undecided)


def _agreed(problem: Problem, y: Tensor, kept: Tensor, seconds: float) -> Rescue | None:
    """What the counts that are possible say, if they agree: then no other count need be wrong."""
    result = Certified(time_limit=seconds, certificates=False).bind(problem)(kept[None])
    return _read(problem, y, result) if int(result.status[0]) == Status.PROVED else None


def _one_wrong(problem: Problem, y: Tensor, seconds: float) -> Rescue | None:
    """The best answer that takes a single count to be wrong: each is left out in turn. None where none is found."""
    without = torch.where(torch.eye(problem.pools, dtype=torch.bool), torch.nan, y)  # (pools, pools)
    result = Certified(time_limit=seconds / problem.pools, certificates=False).bind(problem)(without)
    answers, complete = result.evidence.alternatives, result.evidence.complete
    assert answers is not None and complete is not None
    # An arbitrary count is one of those from 0 to the pool's size.
    score = answers.log_joint - (problem.design.pool_sizes.double() + 1).log()[answers.spans.owner]
    if not bool(score.isfinite().any()):
        return None
    best = int(score.argmax())
    near = answers.x[score > score[best] - math.log(Certified().odds)]
    differ = (near != answers.x[best]).any(0)
    undecided = differ if bool(complete.all()) else torch.ones_like(differ)
    return Rescue(answers.x[best], undecided, _wrong(problem, y, answers.x[best]))


def _some_wrong(problem: Problem, y: Tensor, kept: Tensor, seconds: float) -> Rescue | None:
    """The best answer if any count may be arbitrary."""
    relaxed = Problem(problem.design, problem.prior, Outliers(problem.noise, ARBITRARY_COUNT))
    return _read(problem, y, Certified(time_limit=seconds, certificates=False).bind(relaxed)(kept[None]))


def _read(problem: Problem, y: Tensor, result: Decoded) -> Rescue | None:
    """The answer of one instance's result."""
    evidence = result.evidence
    assert evidence.unsettled is not None and evidence.complete is not None and evidence.log_joint is not None
    if not bool(evidence.log_joint.isfinite()[0]):
        return None
    settled = int(result.status[0]) == Status.PROVED and bool(evidence.complete[0])
    undecided = evidence.unsettled[0] if settled else torch.ones_like(evidence.unsettled[0])
    return Rescue(result.x[0], undecided, _wrong(problem, y, result.x[0]))


def _wrong(problem: Problem, y: Tensor, x: Tensor) -> tuple[str, ...]:
    """Pools whose counts are impossible if the answer is right."""
    costs = pool_costs(problem.design, problem.noise, y[None]).of_instance(0)
    counts = problem.design.count(x[None])[0].to(torch.int64)
    wrong = ~costs.gather(1, counts[:, None])[:, 0].isfinite()
    return tuple(problem.design.pool_names[i] for i in wrong.nonzero().flatten().tolist())


# Is one wrong count a better explanation than the answer?
#
# A count that is off by more than the noise allows misleads the search: the most probable x under the model is then
# another one, with a few more counts off than usual, and often it has no rival. How far its counts are off shows
# little. But if one count is wrong, the others are right, and without it the truth is far more probable than that
# answer. Let P be the model, and Q the same with one wrong count: any pool's, off by just more than the noise allows,
# or anything.
#
#     Q(y) = mean over pools i of  sum over x of  P(x, y without y_i) w(y_i | (A x)_i)
#
# For instances of the model the expected value of Q(y) / P(y) is 1. So two things follow from the ratio. By Markov's
# inequality its inverse is a p-value. And if one instance in `1 / RATE` has a wrong count, the answer, which takes all
# counts to be right, loses a share of its probability; of instances of the model it takes no more than RATE on average:
#
#     P(no count is wrong | y)  =  1 / (1 + RATE Q(y) / P(y)).
#
# A complete list of answers gives P(y), but for what is not listed, and their part of Q(y). An x that is not listed is
# less than 1/odds as probable as the best one. If its part of Q(y) is to be worth a look nonetheless, y_i must be as
# good as impossible where x is right: nearly all of the pool's counts are excluded, so that a search for the most
# probable x that explains the other counts is short.

WRONG_COUNT_RATE = 1e-3  # instances with a wrong count
NEAR_SHARE = 0.5  # the share of wrong counts that are off by just more than the noise allows; the others are anything
RARE_ERROR = 1e-3  # the chance of errors that the noise is not said to allow
LEFT_OUT_SECONDS = 0.002  # for each count that is left out
LEFT_OUT_TOGETHER = 2**12  # counts left out at a time
MOST_SEARCHED = 4  # of an instance's counts, without which the search goes beyond its root
WORTH_A_LOOK = 2.0  # Q(y) / P(y) from which a wrong count is looked for: less takes two in a thousand from an answer
LOOK_AGAIN = 0.3  # a fit below this is looked at again, for a wrong count
SECOND_LOOK = 0.1  # its share of the false alarms


def second_look(
    problem: Problem,
    y: Counts,
    result: Decoded,
    fit: Float64[Tensor, " instances"],
    *,
    odds: float = USUAL_ODDS,
) -> tuple[Float64[Tensor, " instances"], Float64[Tensor, " instances"]]:
    """The fit, and the probability that no count is wrong, of instances that fit neither well nor too badly.

    Where counts fit well none is off by much, and where they fit too badly the answer is not trusted anyway: there the
    fit stays as it is, but for the share of false alarms that the second look takes, and no count is held for wrong.
    `odds` are those of the lists.
    """
    doubtful = ((fit >= INSTANCE_ALARM * (1 - SECOND_LOOK)) & (fit < LOOK_AGAIN)).nonzero().flatten()
    wrong = torch.full_like(fit, -torch.inf)
    if len(doubtful):
        wrong[doubtful] = wrong_count_odds(problem, y[doubtful], result.pick(doubtful), odds=odds)
    # Of two p-values the least is taken, each divided by its share of the false alarms.
    return torch.minimum(fit / (1 - SECOND_LOOK), (-wrong).exp() / SECOND_LOOK).clamp(SMALLEST, 1.0), believed(wrong)


def wrong_count_odds(
    problem: Problem, y: Counts, result: Decoded, *, odds: float = USUAL_ODDS
) -> Float64[Tensor, " instances"]:
    """How much better a wrong count explains each instance, log Q(y) / P(y); -inf where that is not known.

    Args:
        problem: The problem.
        y: The counts.
        result: Answers with complete lists; other instances are not judged.
        odds: Those of the lists: every x at least 1/odds as probable as the best one is listed.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> design = qgt.Design.bernoulli(pools=35, items=100, generator=g)
        >>> problem = qgt.Problem(design, qgt.Bernoulli(0.06), qgt.SparseInteger(0.1, 1))
        >>> y = problem.simulate(2, generator=g).y
        >>> y[1, 7] += 2  # no error of the model
        >>> odds = wrong_count_odds(problem, y, qgt.Certified().bind(problem)(y))
        >>> bool(odds[0] < 0), bool(odds[1] > 7)
        (True, True)
    """
    found = torch.full((len(y),), -torch.inf, dtype=torch.float64, device=y.device)
    answers, complete = result.evidence.alternatives, result.evidence.complete
    if answers is None or complete is None or Certified().supports(problem) is not None:
        return found
    some = (complete & (result.status == Status.PROVED)).nonzero().flatten()
    for part in some.split(max(1, LEFT_OUT_TOGETHER // (2 * math.prod(problem.report_shape)))):
        lists = result.pick(part).evidence.alternatives
        assert lists is not None
        if problem.values is not None:
            found[part] = _log_q(problem, y[part]) - _log_listed(lists, len(part))
        else:
            found[part] = _log_ratio(problem, y[part], lists, math.log(odds))
    return found


def _log_listed(listed: Answers, instances: int) -> Float64[Tensor, " instances"]:
    """log P(y), as far as the listed answers add up to it."""
    owner, zeros = listed.spans.owner, torch.zeros(instances, dtype=torch.float64, device=listed.log_joint.device)
    best = (zeros - torch.inf).scatter_reduce(0, owner, listed.log_joint, "amax")
    return best + zeros.index_add(0, owner, (listed.log_joint - best[owner]).exp()).log()


def _log_q(problem: Problem, y: Tensor) -> Float64[Tensor, " instances"]:
    """A lower bound on log Q(y), by leaving out each count in turn."""
    shape, y = problem.report_shape, y.flatten(1)
    reports, sizes = y.shape[1], problem.sizes(y.device).repeat_interleave(y.shape[1] // problem.pools)
    alone = torch.eye(reports, dtype=torch.bool, device=y.device)
    without = torch.where(alone, torch.nan, y[:, None, :]).flatten(0, 1)  # (instances * reports, reports)
    decode = Certified(odds=1.0, time_limit=LEFT_OUT_SECONDS, certificates=False).bind(problem)
    found = decode(without.view(-1, *shape))
    assert found.evidence.log_joint is not None
    totals = problem.totals(found.x).flatten(1)
    expected = totals[alone.repeat(len(y), 1)].view(len(y), reports)  # of the count left out
    log_joint = found.evidence.log_joint.view(len(y), reports) + _log_wrong(problem, y, expected, sizes)
    return torch.where(y.isnan(), -torch.inf, log_joint).logsumexp(1) - math.log(reports)


def _log_ratio(problem: Problem, y: Tensor, listed: Answers, reach: float) -> Float64[Tensor, " instances"]:
    """A lower bound on log Q(y) / P(y); lists reach so many nats below their best answer."""
    pools, sizes, owner = problem.pools, problem.design.pool_sizes.to(y.device, torch.float64), listed.spans.owner
    log_p = _log_listed(listed, len(y))
    # What listed answers add, count by count: (instances, pools).
    expected = problem.design.count(listed.x)
    without = listed.log_joint[:, None] - problem.noise.log_prob(y[owner], expected, sizes)
    without = torch.where(y[owner].isnan(), -torch.inf, without - log_p[owner, None])
    part = (without + _log_wrong(problem, y[owner], expected, sizes)).exp()
    ratio = torch.zeros_like(y).index_add(0, owner, part)
    if not is_large(problem):  # the searches of large problems would take far longer than there is time
        each = owner[:, None].expand_as(without)
        known = torch.full_like(y, -torch.inf).scatter_reduce(0, each, without, "amax")
        ratio = torch.maximum(ratio, _unlisted(problem, y, log_p, known, reach, sizes))
    return ratio.sum(1).log() - math.log(pools)


def _unlisted(
    problem: Problem, y: Tensor, log_p: Tensor, known: Tensor, reach: float, sizes: Tensor
) -> Float64[Tensor, "instances pools"]:
    """The part of the best x that is not listed, for each count left out, beside P(y); 0 where it is not worth a look.

    `known` is how many nats above P(y) the best listed x is without each count: (instances, pools).

    At first only the roots of searches without the count are looked at: they find most x that explain a wrong count,
    and one such count is enough. For the other instances some searches go on, where y_i is as good as impossible: of
    the counts without which the others are explained best, as far as the roots' bounds show.
    """
    pools, tables = problem.pools, pool_costs(problem.design, problem.noise, y)
    worth = _worth_a_look(problem, sizes)
    least = torch.maximum(worth.expand_as(y), known)
    # Without its count, such an x has at least P(y) times that, and with it less than 1/odds of P(y).
    far, sides = _far_totals(tables, y, sizes, reach + worth)
    ratio, nothing = torch.zeros_like(y), torch.zeros_like(tables.tables[:1])

    def look(row: Tensor, pool: Tensor, kinds: Tensor, kind: Tensor, *, briefly: bool) -> Tensor:
        which = tables.which[row]
        which[torch.arange(len(row), device=y.device), pool] = len(tables.tables) + kind
        replaced, limits = PoolCosts(torch.cat([tables.tables, kinds]), which), -log_p[row] - least[row, pool]
        found = cheaper_than(problem, replaced, limits, seconds=LEFT_OUT_SECONDS * len(row), briefly=briefly)
        log_wrong = _log_wrong(problem, y[row], problem.design.count(found.x), sizes).gather(1, pool[:, None])[:, 0]
        ratio.index_put_((row, pool), (log_wrong - found.cost - log_p[row]).exp(), accumulate=True)
        return -found.unexplored - log_p[row] - least[row, pool]  # by how much more there may be an x

    row, pool = far.any(2).nonzero(as_tuple=True)
    if not len(row):
        return ratio
    room = torch.full_like(y, -torch.inf)
    room[row, pool] = look(row, pool, nothing, torch.zeros_like(row), briefly=True)
    room[(ratio > 0).any(1)] = -torch.inf
    most = room.topk(min(MOST_SEARCHED, pools), 1).values[:, -1:]
    _, row, pool = (some := sides.any(3) & (room >= most) & (room > -torch.inf)).nonzero(as_tuple=True)
    if len(row):
        kinds, kind = torch.where(sides[some], 0.0, torch.inf).double().unique(dim=0, return_inverse=True)
        look(row, pool, kinds, kind, briefly=False)
    return ratio


def _worth_a_look(problem: Problem, sizes: Tensor) -> Float64[Tensor, " pools"]:
    """How many nats above P(y) an x must be without a pool's count, for a wrong count there to matter."""
    chance = 1 / (sizes + 1)
    largest = NEAR_SHARE / 2 + (1 - NEAR_SHARE) * chance if problem.noise.integer else chance  # of `_log_wrong`
    return math.log(WORTH_A_LOOK * problem.pools) - largest.log()


def _far_totals(tables: PoolCosts, y: Tensor, sizes: Tensor, least: Tensor) -> tuple[Tensor, Tensor]:
    """The totals of each pool that cost at least so much: all of them, and those above and below the cheapest total.

    Shapes are (instances, pools, totals) and (2, instances, pools, totals). Each of the two sides is convex, so that a
    search there has no gaps.
    """
    costs = tables.tables[tables.which]  # (instances, pools, totals)
    totals = torch.arange(costs.shape[2], device=y.device)
    far = (costs >= least[:, None]) & (totals <= sizes[:, None]) & ~y.isnan()[:, :, None]
    usual = costs.argmin(2, keepdim=True)
    return far, torch.stack([far & (totals > usual), far & (totals < usual)])


def _log_wrong(problem: Problem, y: Tensor, expected: Tensor, sizes: Tensor) -> Tensor:
    """log w: the probability of a wrong count, given what its pool's items add up to."""
    inside = (y >= -0.5) & (y <= sizes + 0.5)
    chance = torch.where(inside, 1 / (sizes + 1), 0.0)
    if not problem.noise.integer:
        return chance.log()
    reach = torch.tensor([problem.noise.reach(int(size), RARE_ERROR) for size in sizes.tolist()], dtype=torch.float64)
    near = torch.where((y - expected).abs() == reach.to(y.device) + 1, 0.5, 0.0)  # above or below
    return (NEAR_SHARE * near + (1 - NEAR_SHARE) * chance).log()


def believed(odds: Float64[Tensor, " instances"]) -> Float64[Tensor, " instances"]:
    """The probability that no count is wrong.

    Example:
        >>> import torch
        >>> believed(torch.tensor([-torch.inf, 0.0, 7.0], dtype=torch.float64))
        tensor([1.0000, 0.9990, 0.4770], dtype=torch.float64)
    """
    return torch.sigmoid(-(odds + math.log(WRONG_COUNT_RATE)))


# What may be wrong with a file whose counts do not fit: causes that people meet, each tried and weighed.
#
# Decoding under the model as it stands is misled by what is wrong. So the instances are decoded once more under a noise
# that lets any count be arbitrary: what a few bad pools say is then set aside, and the answers are good enough to ask
# of each cause how much better it explains all counts,
#
#     gain = sum over instances of log P(counts | answers, cause) - log P(counts | answers),
#
# in nats, less what its free choice would gain by chance (the log of the number of such causes tried). In large designs
# no pairs are tried: that two pools are swapped, or a transfer is wrong, is then not found.
#
# A few plates do not show whether two pools are swapped or all of them are another design's: either spoils the answers
# by which the other would be seen. Then both are named.
#
# Where pools report a number for each category, a cause is about the whole pool or about one category of it; copies are
# totals like any other.

MOST_CAUSES = 3  # that are named
ARBITRARY_SHARE = 0.02  # of reports that may be arbitrary
CEILING = 12.0  # nats that one count may add to a gain: beyond, it is as good as impossible
HALF_OF_COUNTS = 0.5  # of the counts
SHUFFLED, SURELY = 3, 2.5  # orders of the pools that are tried, and standard errors by which one must be better
FEW_INSTANCES = 8  # fewer do not tell swapped pools from another design
KEPT_INSTANCES = 0.75  # of the instances, to judge the noise by
WORTH = 6.0  # nats below which a gain is no finding
BOUNDS = (1, 2, 3, 5)  # of noises that are tried
LEAST_SHARE = 1e-4  # share of defectives
TIMES = 1.3  # by which the share of defectives must be another to be a cause
READ_ERRORS = -5.0, -1.0  # log10 of the least and the largest share of wrong reads that is tried
ATTACKS, TRIED = 0.01, 40  # the least attack rate that is tried, and how many from there to 1
SIMULATED_SUMS = 4000  # instances, for the usual sum of the counts, or fewer of many pools
LARGEST_FOR_PAIRS = 2**24  # pools times items up to which pairs of them are tried


@dataclass(frozen=True)
class Cause:
    """Something that may be wrong, and by how much it explains the counts better."""

    kind: str
    words: str
    gain: float  # nats; 0 where another order of the pools shows the cause, and nothing is weighed
    pools: tuple[int, ...] = ()  # the numbers of those it is about, from 0
    remedy: str = ""  # what to do about it, where the counts themselves are right
    noun: str = "counts"  # what the reports are called

    def __str__(self) -> str:
        return self.words + (f" (the {self.noun} are {_times(self.gain)} as probable)" if self.gain else "")


def _times(gain: float) -> str:
    return f"{math.exp(gain):,.0f} times" if gain < 14 else f"10^{gain / math.log(10):.0f} times"


def likely_causes(
    problem: Problem,
    y: Counts,
    decoder: Decoder | None,
    *,
    calls: UInt8[Tensor, "instances items"] | None = None,
    usually_off: float | None = None,
) -> list[Cause]:
    """The causes that explain a file's counts better than the model does, the best first.

    Args:
        problem: What the file should be of.
        y: Its counts.
        decoder: Decodes the file under models that let counts be wrong; it must be fast, not exact. Without one, only
            what the calls show is looked at.
        calls: Answers under the problem as it stands, where there are some: for what is not touched they are better.
        usually_off: How many counts of an instance the model lets be off (`FileFit.expected`); simulated if not given.

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
    robust = replace(problem, noise=_with_outliers(problem.noise))
    if not len(y) or decoder is None or decoder.supports(robust) is not None:
        return [] if calls is None else list(_attack_rate(problem, calls))
    found = list(_exchanged_categories(robust, y, decoder.bind(robust)))
    sums = _CountSums.of(problem, y)
    shares = _shares(problem, sums)
    robust = replace(robust, prior=_with_shares(problem.prior, shares))  # the others are looked for under these
    decode = decoder.bind(robust)
    own = decode(y).x
    here = _log_joint(robust, y, own)
    x = _better(robust, y, own, here, calls)
    numbers = _Number.each(problem, y, x)
    pools = _spoiled_pools(problem, numbers)
    found += [*pools, *_transfers(problem, numbers, x), *_prevalence(problem, sums, shares)]
    shuffled = _in_other_orders(y, decode, robust)
    found += _reversed_pools(y, here, shuffled, decode, robust)
    # Counts that are larger all over, in reverse order or in exchanged columns seem to be of another design too.
    known = any(cause.kind in ("prevalence", "pools reversed", "categories exchanged") for cause in found)
    other = [] if known else list(_other_design(problem, y, here, shuffled))
    found += _attack_rate(problem, x if calls is None else calls)
    apart = set().union(*(cause.pools for cause in pools))
    found += [*other, *_other_noises(problem, numbers, apart, usually_off)]
    return _best_of_each_kind(found, reports_of(problem.noise).noun)[:MOST_CAUSES]


def _with_outliers(noise: Noise) -> Noise:
    """The noise with arbitrary reports allowed, of each category where they have noises of their own."""
    if isinstance(noise, PerCategory):
        return PerCategory([Outliers(one, ARBITRARY_SHARE) for one in noise.noises])
    return Outliers(noise, ARBITRARY_SHARE)


def _best_of_each_kind(found: Iterable[Cause], noun: str) -> list[Cause]:
    """The causes that are worth a mention, one of each kind, the best first."""
    best: dict[str, Cause] = {}
    for cause in sorted(found, key=lambda cause: -cause.gain):
        if cause.gain > WORTH:
            best.setdefault(cause.kind, replace(cause, noun=noun))
    return list(best.values())


def _best_of_each_pool(found: Iterable[Cause]) -> list[Cause]:
    """The causes that are worth a mention, the best first; none shares a pool with a better one.

    A swapped pool seems to have failed, too, and a failed one to be swapped.
    """
    named: list[Cause] = []
    for cause in sorted(found, key=lambda cause: -cause.gain):
        if cause.gain > WORTH and not any({*cause.pools} & {*one.pools} for one in named):
            named.append(cause)
    return named


class _Number(NamedTuple):
    """One of the numbers that pools report: the only one, or that of a category, with what answers add up to."""

    noise: Noise
    y: Float64[Tensor, "instances pools"]
    counts: Float64[Tensor, "instances pools"]
    sizes: Float64[Tensor, " pools"]
    own: Float64[Tensor, "instances pools"]  # log P(the count of each pool | what its items add up to)
    adds: Mapping[int, int]  # what items of each value add to it
    category: str = ""  # its name, where there are several

    @classmethod
    def each(cls, problem: Problem, y: Tensor, x: Tensor) -> "list[_Number]":
        """Every number that pools report."""
        totals, sizes, values = problem.totals(x), problem.sizes(y.device), problem.values
        if not isinstance(values, Categories):
            own = _log_prob(problem.noise, y, totals, sizes)
            most = 1 if values is None else values.levels
            return [cls(problem.noise, y, totals, sizes, own, {number: number for number in range(1, most + 1)})]
        found = []
        for place, (category, label) in enumerate(zip(values.columns, values.reported_labels, strict=True)):
            noise, here, counts = values.noise_of(problem.noise, category), y[:, :, place], totals[:, :, place]
            own = _log_prob(noise, here, counts, sizes)
            found.append(cls(noise, here, counts, sizes, own, {category: 1}, label if len(values.columns) > 1 else ""))
        return found


@dataclass(frozen=True, eq=False)
class _Table:
    """log P(the count of pool i | what pool j's items add up to), summed over instances; and by instance for i = j."""

    crossed: Float64[Tensor, "pools pools"] | None  # None where there are too many
    own: Float64[Tensor, "instances pools"]

    @classmethod
    def of(cls, problem: Problem, numbers: Sequence[_Number]) -> "_Table":
        """Of some of the numbers that pools report, all of one pool together."""
        own = torch.stack([one.own for one in numbers]).sum(0)
        if _too_large_for_pairs(problem):
            return cls(None, own)
        return cls(torch.stack([cls._crossed(one) for one in numbers]).sum(0), own)

    @staticmethod
    def _crossed(one: _Number) -> Tensor:
        rows = [_log_prob(one.noise, one.y[:, i : i + 1], one.counts, one.sizes).sum(0) for i in range(one.y.shape[1])]
        return torch.stack(rows)


def _too_large_for_pairs(problem: Problem) -> bool:
    return problem.pools * max(problem.pools, problem.items) > LARGEST_FOR_PAIRS


def _log_prob(noise: Noise, y: Tensor, counts: Tensor, sizes: Tensor) -> Tensor:
    """The log probability of each count, at least -CEILING; 0 for a missing count."""
    found = noise.log_prob(torch.where(y.isnan(), 0.0, y), counts, sizes).clamp(min=-CEILING)
    return torch.where(y.isnan(), 0.0, found)


def _spoiled_pools(problem: Problem, numbers: Sequence[_Number]) -> list[Cause]:
    """Pools that are swapped or failed, in all that they report or in one category, the best first.

    A swapped pool seems to have failed, too, and a pool to have failed in one category that has in all: each pool is
    named once.
    """
    views = [numbers, *([one] for one in numbers)] if len(numbers) > 1 else [numbers]
    found = []
    for view in views:
        table = _Table.of(problem, view)
        swapped = list(_swapped_pools(problem, table, _of(view)))
        inside = {i for cause in swapped for i in cause.pools}
        failed = (cause for cause in _failed_pools(problem, table, view) if not inside.intersection(cause.pools))
        price = 0.0 if len(view) == len(numbers) else math.log(len(numbers))  # of the choice of a category
        found += [replace(cause, gain=cause.gain - price) for cause in (*swapped, *failed)]
    return found if len(views) == 1 else _best_of_each_pool(found)


def _of(numbers: Sequence[_Number]) -> str:
    """The name of the one category that a cause is about, where pools report several."""
    return numbers[0].category if len(numbers) == 1 else ""


def _swapped_pools(problem: Problem, table: _Table, category: str = "") -> Iterator[Cause]:
    """Pairs of pools whose counts belong to each other."""
    if table.crossed is None:
        return
    own = table.crossed.diagonal()
    gain = table.crossed + table.crossed.T - own - own[:, None]
    pairs = problem.pools * (problem.pools - 1) / 2
    noun = reports_of(problem.noise).noun + (f" of {category}" if category else "")
    for i, j in (gain > WORTH).triu(1).nonzero().tolist():
        a, b = problem.design.pool_names[i], problem.design.pool_names[j]
        words = f"the {noun} of pools {a} and {b} are swapped"
        if category:
            words = f"the {noun} are swapped between pools {a} and {b}"
        if len(table.own) < FEW_INSTANCES:
            words += ", unless all of them belong to another design"
        if float(gain[i, j]) - math.log(pairs) > WORTH:
            yield Cause("pools swapped", words, float(gain[i, j]) - math.log(pairs), (i, j))


def _failed_pools(problem: Problem, table: _Table, numbers: Sequence[_Number]) -> Iterator[Cause]:
    """Pools whose counts say nothing about their items: as probable under how often each count occurs there."""
    reports, category = reports_of(problem.noise), _of(numbers)
    for i, name in enumerate(problem.design.pool_names):
        counts = torch.stack([one.y[:, i] for one in numbers], 1)  # (instances, numbers)
        # How much more probable a pool's counts are by their own frequencies than by what its items add up to.
        gain = _by_frequency(counts) - float(table.own[:, i].sum()) - math.log(problem.pools)
        if gain > WORTH:
            seen = counts[~counts.isnan()]
            alike = f", always {reports.shown(float(seen[0]))}," if len(seen) and bool((seen == seen[0]).all()) else ""
            where = f"pool {name} failed" + (f" for {category}" if category else "")
            words = f"{where}: its {reports.noun}{alike} have nothing to do with its items"
            yield Cause("pool failed", words, gain, (i,))


def _by_frequency(counts: Tensor) -> float:
    """The log probability of a pool's counts, those that are not missing, if each occurs as often as it does here."""
    if counts.dim() == 2:  # a column for each number that the pool reports
        return sum(_by_frequency(column) for column in counts.unbind(1))
    counts = counts[~counts.isnan()]
    values, which, number = counts.unique(return_inverse=True, return_counts=True)
    # One more of each, and a nat for each frequency that is fitted.
    return float(((number + 1).double() / (len(counts) + len(values) + 1)).log()[which].sum()) - len(values)


def _in_other_orders(y: Tensor, decode: Decode, robust: Problem) -> Float64[Tensor, "orders instances"]:
    """The log probability of answers to the counts with the pools shuffled."""
    seeded = torch.Generator().manual_seed(0)
    shuffled = [y[:, torch.randperm(y.shape[1], generator=seeded)] for _ in range(SHUFFLED)]
    return torch.stack([_log_joint(robust, one, decode(one).x) for one in shuffled])


def _other_design(problem: Problem, y: Tensor, here: Tensor, shuffled: Tensor) -> Iterator[Cause]:
    """The counts fit no better in their order than with the pools shuffled: the design does not matter to them."""
    if _score(here - shuffled.mean(0)) > SURELY:
        return
    gain = sum(_by_frequency(y[:, i]) for i in range(problem.pools)) - float(here.sum())
    yield Cause("another design", _other_design_in_words(reports_of(problem.noise).noun, len(y)), gain)


def _other_design_in_words(noun: str, instances: int) -> str:
    """That the design does not matter to the reports; of a few instances, what else it may be."""
    if instances < FEW_INSTANCES:
        return f"two pools are swapped, or the {noun} belong to another design, or the pools are in another order"
    return f"the {noun} belong to another design, or the pools are in another order"


def _score(gains: Tensor) -> float:
    """The mean of gains, one for each instance, in standard errors."""
    spread = float(gains.std(correction=0)) / math.sqrt(len(gains))
    return float(gains.mean()) / max(spread, 1e-9)


def _transfers(problem: Problem, numbers: Sequence[_Number], x: Tensor) -> Iterator[Cause]:
    """Entries of the design that are wrong: an item left out of a pool, or put into one."""
    if _too_large_for_pairs(problem):
        return
    entries = problem.pools * problem.items
    for step, kind, words in (
        (-1.0, 1, "item {item} was left out of pool {pool}"),
        (1.0, 0, "item {item} was put into pool {pool}, where it does not belong"),
    ):
        gain = sum(_moved(one, x, step) for one in numbers)
        gain = torch.where(problem.design.matrix == kind, gain, -torch.inf) - math.log(entries)
        value, at = gain.flatten().max(0)
        if float(value) > WORTH:
            pool, item = divmod(int(at), problem.items)
            names = {"pool": problem.design.pool_names[pool], "item": problem.design.item_names[item]}
            yield Cause("transfer", words.format(**names), float(value))


def _moved(one: _Number, x: Tensor, step: float) -> Float64[Tensor, "pools items"]:
    """How much better each pool's counts are explained with each item put in or, with a step of -1, taken out."""
    gain = torch.zeros(one.y.shape[1], x.shape[1], dtype=torch.float64)
    for value, adds in one.adds.items():  # over the instances in which the item has the value
        other = _log_prob(one.noise, one.y, (one.counts + step * adds).clamp(min=0), one.sizes)
        gain += (other - one.own).T @ (x == value).double()
    return gain


def _exchanged_categories(robust: Problem, y: Tensor, decode: Decode) -> Iterator[Cause]:
    """The columns of two categories exchanged: the pair whose exchange makes the answers most probable, decoded so."""
    values = robust.values
    pairs = list(combinations(range(y.shape[2]), 2)) if y.dim() == 3 else []
    if not pairs or not isinstance(values, Categories):
        return
    x, columns = decode(y).x, values.columns
    here = _log_joint(robust, y, x)

    def other_way(a: int, b: int) -> tuple[Tensor, Tensor]:
        order = [{a: b, b: a}.get(place, place) for place in range(y.shape[2])]
        return y[:, :, order], exchanged(x, columns[a], columns[b])

    best = max(pairs, key=lambda pair: float(_log_joint(robust, *other_way(*pair)).sum()))
    other, named = other_way(*best)
    there = torch.maximum(_log_joint(robust, other, named), _log_joint(robust, other, decode(other).x))
    gain = float((there - here).sum()) - math.log(len(pairs))
    if gain > WORTH and _score(there - here) > SURELY:
        a, b = (values.reported_labels[place] for place in best)
        yield Cause("categories exchanged", f"the {reports_of(robust.noise).noun} of {a} and {b} are exchanged", gain)


def _reversed_pools(y: Tensor, here: Tensor, shuffled: Tensor, decode: Decode, robust: Problem) -> Iterator[Cause]:
    """All counts in reverse order: told apart only by decoding them so.

    Counts that fit badly for another reason fit some other order better by chance. So the reverse order must also be
    better than those that are shuffled: one instance has no standard error by which to judge the gain.
    """
    there = _log_joint(robust, y.flip(1), decode(y.flip(1)).x)
    gain, beyond = float((there - here).sum()), float(there.sum() - shuffled.sum(1).max())
    if min(gain, beyond) > WORTH and _score(there - here) > SURELY:
        yield Cause("pools reversed", "the pools are in reverse order", gain)


def _better(problem: Problem, y: Tensor, x: Tensor, log_joint: Tensor, calls: Tensor | None) -> Tensor:
    """Of two answers to each instance the more probable one; `log_joint` is that of the first."""
    if calls is None:
        return x
    return torch.where((_log_joint(problem, y, calls) > log_joint)[:, None], calls, x)


def _log_joint(problem: Problem, y: Tensor, x: UInt8[Tensor, "instances items"]) -> Tensor:
    off = misfit(problem, y, x)
    return -(off.pools.clamp(max=CEILING).sum(1) + off.prior.clamp(max=1e3))


def _other_noises(
    problem: Problem, numbers: Sequence[_Number], apart: set[int], usually_off: float | None
) -> Iterator[Cause]:
    """More noise in all that pools report, or in one category where each has a noise of its own."""
    if not isinstance(problem.noise, PerCategory):
        off = expected_off(problem) if usually_off is None else usually_off
        yield from _other_noise(problem.noise, numbers, apart, off / math.prod(problem.report_shape))
        return
    assert isinstance(problem.prior, Categories)
    for one, category in zip(numbers, problem.prior.columns, strict=True):
        usual = expected_off(problem.of_category(category)) / problem.pools
        yield from _other_noise(one.noise, [one], apart, usual)


def _other_noise(noise: Noise, numbers: Sequence[_Number], apart: set[int], usual: float) -> Iterator[Cause]:
    """More noise: the kind, of a few, that makes the errors most probable; `usual` is the share of counts that are off.

    Noise is in all pools and instances. So those that another cause is about are left out, and so is the quarter of
    the instances that fit worst, whose answers are most likely wrong.
    """
    pools = [i for i in range(numbers[0].y.shape[1]) if i not in apart or isinstance(noise, Reads)]
    y, counts, own = (
        torch.cat([each[:, pools] for each in some], 1)
        for some in zip(*((one.y, one.counts, one.own) for one in numbers), strict=True)
    )
    sizes = torch.cat([one.sizes[pools] for one in numbers])
    rows = own.sum(1).argsort(descending=True)[: max(1, math.ceil(KEPT_INSTANCES * len(y)))]
    y, counts, own = y[rows], counts[rows], own[rows]
    if isinstance(noise, Reads):
        yield from _wrong_reads(noise, y, counts, sizes, own)
        return
    seen = ~y.isnan()
    wrong = float((y != counts)[seen].double().mean()) if bool(seen.any()) else 0.0
    if not _errs_by_whole_numbers(noise, counts, sizes) or not usual < wrong < HALF_OF_COUNTS:
        return
    which = f" of {category}" if (category := _of(numbers)) else ""
    off, sigma = f"{100 * wrong:.0f} % of the counts{which} are off, not {100 * usual:.0f} %", _sigma(wrong)
    kinds: list[tuple[Noise, str]] = [(RoundedGaussian(sigma), f"{off}, as by an error of about {sigma:.1f}")]
    bound = int(noise.reach(int(sizes.max()), RARE_ERROR))
    for most in sorted({max(1, bound), *BOUNDS}):
        words = off if most == bound else f"{off}, and by up to {most}"
        kinds.append((SparseInteger(min(1.0, wrong * (2 * most + 1) / (2 * most)), most), words))
    gains = [float((_log_prob(one, y, counts, sizes) - own).sum()) for one, _ in kinds]
    best = max(range(len(kinds)), key=lambda i: gains[i])
    gain = gains[best] - math.log(len(kinds))
    if gain > WORTH:
        yield Cause("noise", kinds[best][1], gain)


def _wrong_reads(noise: Reads, y: Tensor, counts: Tensor, sizes: Tensor, own: Tensor) -> Iterator[Cause]:
    """Another share of wrong reads: the one, of a few, that makes the reads of all pools most probable.

    Wrong reads are in every pool, so that each seems to have failed: no pool is left out, and most must gain.
    """
    tried = [float(f"{one:.2g}") for one in torch.logspace(*READ_ERRORS, TRIED).tolist()]
    each = [(_log_prob(replace(noise, error=one), y, counts, sizes) - own).sum(0) for one in tried]  # (pools,)
    best = max(range(len(tried)), key=lambda i: float(each[i].sum()))
    gain = float(each[best].sum()) - math.log(len(tried))
    usual = 1 / TIMES < tried[best] / max(noise.error, LEAST_SHARE) < TIMES
    if gain > WORTH and not usual and float((each[best] > 0).double().mean()) > HALF_OF_COUNTS:
        words = f"{100 * tried[best]:.2g} % of the reads are wrong, not {100 * noise.error:.2g} %"
        remedy = "correct the error of the problem's noise, and decode again"
        yield Cause("noise", words, gain, remedy=remedy)


def _errs_by_whole_numbers(noise: Noise, counts: Tensor, sizes: Tensor) -> bool:
    """Whether a noise reports counts with whole errors, as the noises that are tried instead of it do."""
    plain = noise.integer and reports_of(noise).counts
    return plain and torch.equal(usual_reports(noise, counts, sizes), counts)


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


@dataclass(frozen=True, eq=False)
class _CountSums:
    """The sums of instances' counts, here and as usual; a missing count is taken to be its pool's usual one."""

    here: Float64[Tensor, " instances"]
    usual: Float64[Tensor, " simulated"]

    @classmethod
    def of(cls, problem: Problem, y: Tensor) -> "list[_CountSums]":
        """Of the one number that pools report, or of each category's."""
        few = max(20, MOST_DRAWN // (problem.items + problem.pools))
        usual = problem.simulate(min(SIMULATED_SUMS, few), generator=torch.Generator().manual_seed(0)).y
        here, usual = (
            one if one.dim() == 3 else one[:, :, None] for one in (torch.where(y.isnan(), usual.mean(0), y), usual)
        )
        return [cls(*sums) for sums in zip(here.sum(1).unbind(1), usual.sum(1).unbind(1), strict=True)]

    @property
    def score(self) -> float:
        """How far the mean sum is from the usual one, in standard errors."""
        apart = float((self.here.mean() - self.usual.mean()) / self.usual.std().clamp(min=1e-9))
        return apart * math.sqrt(len(self.here))

    @property
    def ratio(self) -> float:
        """How many times the usual sum the mean sum is."""
        usual = float(self.usual.mean())
        return float(self.here.mean()) / usual if usual > 0 else 1.0


def _expected_shares(problem: Problem) -> list[float]:
    """The share of items that are defective, or in each reported category; of copies, the frequency of the allele."""
    prior = problem.prior
    if isinstance(prior, Categories):
        return [prior.distribution[category] for category in prior.columns]
    if isinstance(prior, Copies):
        return [sum(number * share for number, share in enumerate(prior.distribution)) / prior.levels]
    return [float(prior.marginals(problem.items).mean())] if isinstance(prior, Prior) else []


def _shares(problem: Problem, sums: Sequence[_CountSums]) -> list[float | None]:
    """The shares, where counts are larger or smaller all over; None where they are not.

    The sum of an instance's counts shows it, and no decoding is needed.
    """
    found: list[float | None] = []
    for one, expected in zip(sums, _expected_shares(problem), strict=False):  # of other priors none is known
        usual = one.score**2 / 2 < WORTH or 1 / TIMES < one.ratio < TIMES
        found.append(None if usual else min(1 - LEAST_SHARE, max(LEAST_SHARE, one.ratio * expected)))
    return found


def _with_shares(prior: Sampler, shares: Sequence[float | None]) -> Sampler:
    """A prior of the shares that were found, where it can have them."""
    if all(share is None for share in shares):
        return prior
    if isinstance(prior, Bernoulli):
        return Bernoulli(float(shares[0] or 0.0))
    if isinstance(prior, Categories) and not prior.by_item:
        rates = list(prior.distribution[1:])
        for category, share in zip(prior.columns, shares, strict=True):
            rates[category - 1] = rates[category - 1] if share is None else share
        most = math.fsum(rates) / (1 - LEAST_SHARE)
        return replace(prior, rates=[rate / max(1.0, most) for rate in rates])
    if isinstance(prior, Copies) and isinstance(prior.frequency, float):
        return replace(prior, frequency=shares[0])
    return prior


def _prevalence(problem: Problem, sums: Sequence[_CountSums], shares: Sequence[float | None]) -> Iterator[Cause]:
    """Another share of defectives, of a category or of copies."""
    names, values = problem.reported_categories or ("defective",), problem.values
    for one, name, share, expected in zip(sums, names, shares, _expected_shares(problem), strict=False):
        if share is None:
            continue
        words = f"{100 * share:.1f} % of the items are {name}, not {100 * expected:.1f} %"
        if isinstance(values, Copies):
            words = f"the frequency of the allele is {100 * share:.1f} %, not {100 * expected:.1f} %"
        gain = one.score**2 / 2
        if values is not None:  # by the prior, as an exchange of categories is weighed
            drawn = len(one.here) * problem.items * (values.levels if isinstance(values, Copies) else 1)
            gain = min(gain, _surprise(round(share * drawn), drawn, expected))
        yield Cause("prevalence", words, gain)


# The same for amounts. The plates are decoded under a noise that lets any report be arbitrary, as above, and each cause
# is weighed by the totals of those answers.

LOAD_PLATES = 12  # plates that are looked at, the first of the file
ORDERED_PLATES = 6  # of these, decoded again with the pools in another order
QUICK_SETS = 200  # that the search weighs without a better one: a cause must be found fast
CLOSE_TOGETHER = 0.3  # log10 of amounts: what the lower half of the pools spread over where they read a background
NO_BETTER = 0.2  # of what reports take to explain, in nats: a shuffle that costs less shows that the order is wrong
SIMULATED_PLATES = 500
USUAL_SIZE = 0.6745  # the median size of a normal error, in standard deviations


def load_causes(problem: Problem, y: Float64[Tensor, "instances pools"]) -> list[Cause]:
    """The causes that explain a file of cycle thresholds or amounts better than the model does, the best first.

    Args:
        problem: What the file should be of; its prior is of loads.
        y: The reports; a few plates are enough, and no more are looked at.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> design = qgt.Design.column_regular(pools=16, items=30, weight=4, generator=g)
        >>> noise = qgt.CycleThreshold(sigma=0.25, limit=38.0)
        >>> problem = qgt.Problem(design, qgt.Loads(rate=0.06, mean=3.0, sd=1.5), noise)
        >>> x, y = problem.simulate(8, generator=g)
        >>> swapped = y.clone()
        >>> swapped[:, [3, 8]] = y[:, [8, 3]]
        >>> load_causes(problem, swapped)[0].words
        'the cycle thresholds of pools P4 and P9 are swapped'
    """
    robust, y = _allowing_outliers(problem), y[:LOAD_PLATES]
    if robust is None or not len(y):
        return []
    if background := list(_background(problem, y)):  # every pool seems positive then: no answer is worth a look
        return background
    decode = LoadPosterior(most_sets=QUICK_SETS).bind(robust)
    answers = decode(y)
    # In a wrong order pools seem to be swapped and to have failed, too.
    if order := list(_pools_in_another_order(problem, y[:ORDERED_PLATES], answers, decode)):
        return order
    x = answers.values
    table = _Table.of(problem, _Number.each(problem, y, x))
    found = [*_swapped_pools(problem, table), *_undetected(problem, y, x, table)]
    found += [*_larger_errors(problem, y, x), *_number_positive(problem, answers.x)]
    noun = reports_of(problem.noise).noun
    return [replace(cause, noun=noun) for cause in _best_of_each_pool(found)[:MOST_CAUSES]]


def _allowing_outliers(problem: Problem) -> Problem | None:
    """The problem with arbitrary reports allowed; None where its noise has no arbitrary reports."""
    if isinstance(problem.noise, Outliers):
        return problem
    robust = replace(problem, noise=Outliers(problem.noise, ARBITRARY_SHARE))
    try:
        robust.simulate(1, generator=torch.Generator().manual_seed(0))
    except ValueError:  # amounts without a least one that is reported
        return None
    return robust


def _background(problem: Problem, y: Tensor) -> Iterator[Cause]:
    """Pools that read about the same where nothing should be detected: the machine has a background."""
    sizes = problem.design.pool_sizes.double()
    usual = problem.simulate(SIMULATED_PLATES, generator=torch.Generator().manual_seed(0)).y
    logs, expected = log_totals(problem.noise, y, sizes), log_totals(problem.noise, usual, sizes)
    seen, empty = logs[~logs.isnan()], float((expected == -torch.inf).double().mean())
    none, detected = float((seen == -torch.inf).double().mean()), seen[seen > -torch.inf]
    low = detected[detected <= detected.median()] if len(detected) else detected
    if none >= empty or len(low) < 2 or float(low.std()) > CLOSE_TOGETHER:
        return
    gain = _surprise(round(none * len(seen)), len(seen), empty)
    if gain > WORTH:
        reads = float(y.flatten()[(logs - low.median()).abs().nan_to_num(torch.inf).argmin()])
        words = (
            f"pools without a positive sample read about {reads:.3g}: nothing was detected in {100 * none:.0f} % of "
            f"the pools, and the model expects that of {100 * empty:.0f} %"
        )
        noun = reports_of(problem.noise).noun
        yield Cause("background", words, gain, remedy="set the noise's background, and decode again", noun=noun)


def _surprise(seen: int, number: int, rate: float) -> float:
    """By how many nats a share that was seen is more probable than the one expected, of so many."""
    share, rate = seen / max(number, 1), min(max(rate, 1e-6), 1 - 1e-6)
    parts = ((share, rate), (1 - share, 1 - rate))
    return number * sum(part * math.log(part / other) for part, other in parts if part > 0)


def _undetected(problem: Problem, y: Tensor, x: Tensor, table: _Table) -> Iterator[Cause]:
    """Pools in which nothing was detected although their items have enough: one pool, or some of all."""
    usual = usual_reports(problem.noise, problem.design.count(x), problem.design.pool_sizes.double())
    sizes = problem.design.pool_sizes.double()
    nothing = log_totals(problem.noise, y, sizes) == -torch.inf
    due = (log_totals(problem.noise, usual, sizes) > -torch.inf) & ~y.isnan()
    lost = nothing & due
    gains = torch.stack([_failing(lost[:, i], due[:, i], table.own[:, i]) for i in range(problem.pools)])
    best = int(gains.argmax())
    alone, number, of = float(gains[best]) - math.log(problem.pools), int(lost[:, best].sum()), int(due[:, best].sum())
    if alone > WORTH and 2 * number > int(lost.sum()):
        name = problem.design.pool_names[best]
        enough = f"on {number} of the {of} plates on which its samples have enough"
        yield Cause("pool failed", f"pool {name} failed: nothing was detected in it {enough}", alone, (best,))
        return
    gain = float(_failing(lost.flatten(), due.flatten(), table.own.flatten()))
    if gain > WORTH:
        share = 100 * int(lost.sum()) / int(due.sum())
        words = f"{share:.0f} % of the pools with a positive sample failed: nothing was detected in them"
        yield Cause("pools failed", words, gain, remedy="set the noise's dropout to that share, and decode again")


def _failing(lost: Tensor, due: Tensor, own: Tensor) -> Tensor:
    """The gain if reports are lost at a rate of their own: `lost` of those that are `due`."""
    number, of = lost.sum().double(), due.sum().double()
    rate = (number + 0.5) / (of + 1)
    return torch.where(lost, -own, 0.0).sum() + number * rate.log() + (of - number) * (1 - rate).log()


def _larger_errors(problem: Problem, y: Tensor, x: Tensor) -> Iterator[Cause]:
    """Errors that are larger than the noise says, by a factor; the median is not moved by a few arbitrary reports."""
    sizes, totals = problem.design.pool_sizes.double(), problem.design.count(x)
    usual = usual_reports(problem.noise, totals, sizes)
    seen = (log_totals(problem.noise, y, sizes) > -torch.inf) & (log_totals(problem.noise, usual, sizes) > -torch.inf)
    filled = torch.where(seen, y, usual)
    best, own = (problem.noise.log_prob(report, totals, sizes) for report in (usual, filled))
    errors = (2 * (best - own)[seen]).clamp(min=0, max=2 * CEILING).sqrt()  # in standard deviations
    free = len(errors) - int((x > 0).sum())  # every load that was fitted takes one error away
    if free < 2:
        return
    factor = float(errors.median()) / USUAL_SIZE * math.sqrt(len(errors) / free)
    gain = float((errors.square() / 2).sum()) * (1 - factor**-2) - len(errors) * math.log(factor) if factor > 1 else 0.0
    if gain > WORTH and factor > TIMES:
        words = f"the errors of the {reports_of(problem.noise).noun} are about {factor:.1f} times as large as assumed"
        sigma = getattr(problem.noise, "sigma", None)
        words += f", {factor * sigma:.2f} cycles instead of {sigma:.2f}" if sigma is not None else ""
        yield Cause("noise", words, gain, remedy="correct the error of the problem's noise, and decode again")


def _number_positive(problem: Problem, x: UInt8[Tensor, "instances items"]) -> Iterator[Cause]:
    """Another share of positives than the prior says."""
    assert problem.loads is not None
    rate = float(problem.loads.statuses().marginals(problem.items).mean())
    share = float(x.double().mean())
    if 1 / TIMES < share / rate < TIMES:
        return
    words = f"{100 * share:.1f} % of the samples are positive, not {100 * rate:.1f} %"
    yield Cause("prevalence", words, _surprise(int(x.sum()), x.numel(), rate))


def _pools_in_another_order(problem: Problem, y: Tensor, answers: Decoded, decode: Decode) -> Iterator[Cause]:
    """Pools in reverse order, or in any: told apart only by decoding them so."""
    here = answers.pick(torch.arange(len(y))).evidence.log_joint
    reverse = decode(y.flip(1)).evidence.log_joint
    assert here is not None and reverse is not None
    gain = float((reverse - here).sum())
    noun = reports_of(problem.noise).noun
    # In the right order plates lose about as much by a shuffle as their reports take to explain.
    enough = NO_BETTER * float(-here.sum())
    if gain > max(WORTH, enough):
        yield Cause("pools reversed", "the pools are in reverse order", gain, noun=noun)
        return
    order = torch.randperm(problem.pools, generator=torch.Generator().manual_seed(0))
    shuffled = decode(y[:, order]).evidence.log_joint
    assert shuffled is not None
    if float((here - shuffled).sum()) < enough:
        yield Cause("another design", _other_design_in_words(noun, len(y)), 0.0, noun=noun)
