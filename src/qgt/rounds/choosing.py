"""The pools of the next round: those whose reports are expected to tell most about the answer.

For each pool of the round in turn: many random pools of the items in doubt, and every single item, are looked at; the
best few climb, by the flip of one item at a time; where no flip helps, two at once are tried, of which one may be a
loss (a swap). Items on which all answers agree say nothing and stay outside. Of pools that tell the same the one with
fewer items is taken.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Float32, Float64, UInt8
from torch import Generator, Tensor

from qgt.arguments import fraction, whole
from qgt.decoders.contract import check_counts
from qgt.decoders.results import Decoded, Status
from qgt.model.categories import Categories, Copies
from qgt.model.factors import finite_tables
from qgt.model.noise import Noise, PerCategory, PositiveNegative, by_pool
from qgt.model.prior import FREE, ItemCosts
from qgt.model.problem import Problem

# How much the reports of a pool would tell about the answer, in bits.
#
# With answers a of weights w_a, and c_a defectives of the pool under each, a report r has probability
#
#     P(r) = sum_a w_a P(r | c_a),        and        I = H(r) - sum_a w_a H(r | c_a)
#
# is the information that it is expected to give. Several pools of one round are chosen one after the other: what the
# second tells depends on what the first will have told, so the first's reports are drawn for some scenarios, in each of
# which the answers have the weights that they would then have, and the mean over scenarios counts.
#
# The change of a pool by one item needs no new counts: if g(c, j) is the weight of answers with c defectives in the
# pool and item j defective, adding j moves g(c, j) from c to c + 1, and taking it out moves it to c - 1.
#
# An item with two copies moves it by 2. Where pools report categories, the numbers a, b, ... of a pool are one count
# c = a + K b + ..., with K larger than any a: then an item of category 2 moves it by K, and the reports of all
# categories together are one report of c, each through the noise of its own category.

REPORT_TAIL = 1e-6  # probability of a report that is left out
REPORT_STEPS = 64  # from a true count to the farthest report, where reports need not be whole
REPORTS = 256  # different reports at most: beyond, neighbours are taken together
LEAST_REPORTS = 8  # of each category
MOST_COUNTS = 128  # of all categories together


@dataclass(frozen=True, eq=False)
class Channel:
    """P(report | count) of pools of every size, or of one size where it is the same for all.

    Example:
        >>> import qgt
        >>> channel = Channel.of(qgt.SparseInteger(rate=0.3, bound=1), sizes=4, most=2)
        >>> channel.table.shape, channel.table[0, 1]  # one size, counts 0 to 2, reports -1 to 3
        (torch.Size([1, 3, 5]), tensor([0.0000, 0.1000, 0.8000, 0.1000, 0.0000]))
    """

    table: Float32[Tensor, "sizes counts reports"]
    doubt: Float32[Tensor, "sizes counts"]  # H(report | count)
    steps: tuple[int, ...] = (1,)  # by which items change the count

    @classmethod
    def of(cls, noise: Noise, *, sizes: int, most: int, each: int = 1, reports: int = REPORTS) -> "Channel":
        """Ask the noise, for pools of 0 to `sizes` items and counts of 0 to `most`.

        Args:
            noise: The noise.
            sizes: The items of the largest pool.
            most: The largest count.
            each: What each item adds to the size that the noise sees: its largest number of copies.
            reports: How many different reports there may be, before neighbours are taken together.
        """
        reach = noise.reach(each * sizes, REPORT_TAIL)
        step = 1.0 if noise.integer else max(reach, 1e-6) / REPORT_STEPS
        report = torch.arange(-reach, most + reach + step / 2, step, dtype=torch.float64)
        count = torch.arange(most + 1, dtype=torch.float64)[:, None]
        size = (each * torch.arange(sizes + 1, dtype=torch.float64)).clamp(min=1)[:, None, None]
        # A count above the size does not occur; some noises have no probability for it.
        table = noise.log_prob(report, torch.minimum(count, size), size).exp().nan_to_num()
        table = table[:, :, (table > 0).any(0).any(0)]
        if table.shape[2] > reports:
            parts = table.split(-(-table.shape[2] // reports), 2)
            table = torch.stack([part.sum(2) for part in parts], 2)
        table = table / table.sum(2, keepdim=True).clamp(min=1e-300)
        same = (table - table[-1:]).abs().amax(2) < 1e-12  # (sizes, counts)
        if bool((same | (count[:, 0] > size[:, :, 0])).all()):
            table = table[-1:]
        return cls(table.float(), _entropy(table).float())

    @classmethod
    def joined(cls, channels: Sequence["Channel"]) -> "Channel":
        """The channel of several categories at once, of pools that report each of them through its own.

        Example:
            >>> import qgt
            >>> counted, detected = (Channel.of(one, sizes=4, most=2) for one in (qgt.Noiseless(), qgt.PositiveNegative()))
            >>> both = Channel.joined([counted, detected])
            >>> both.table.shape, both.steps  # 3 x 3 counts, 3 x 2 reports; an item of the second category adds 3
            (torch.Size([1, 9, 6]), (1, 3))
        """  # noqa: E501 - an example's line
        table, doubt, steps = channels[0].table, channels[0].doubt, [1]
        for one in channels[1:]:  # the last category varies slowest
            steps.append(table.shape[1])
            each = one.table[:, :, None, :, None] * table[:, None, :, None, :]  # a size that one has not is broadcast
            table = each.flatten(3).flatten(1, 2)  # (sizes, counts, reports)
            doubt = (one.doubt[:, :, None] + doubt[:, None, :]).flatten(1)
        return cls(table, doubt, tuple(steps))

    @property
    def reports(self) -> int:
        """How many different reports there are."""
        return self.table.shape[2]

    @property
    def same_for_all_sizes(self) -> bool:
        """Whether what a pool reports depends on its count alone."""
        return len(self.table) == 1

    def information(self, weight: Tensor, size: Tensor) -> Tensor:
        """The bits that pools tell, given the weights of their counts: (..., counts) with sizes that broadcast."""
        if self.same_for_all_sizes:
            reports, doubt = weight @ self.table[0], weight @ self.doubt[0]
        else:
            at = size.expand(weight.shape[:-1])
            reports = (weight[..., None, :] @ self.table[at])[..., 0, :]
            doubt = (weight * self.doubt[at]).sum(-1)
        return _entropy(reports) - doubt


def _entropy(probability: Tensor) -> Tensor:
    return -(probability * probability.clamp(min=1e-30).log2()).sum(-1)


def told(
    channel: Channel,
    x: Float32[Tensor, "answers items"],
    weight: Float32[Tensor, "scenarios answers"],
    pools: Bool[Tensor, "pools items"],
) -> Float32[Tensor, " pools"]:
    """The information of pools, averaged over scenarios.

    Example:
        >>> import torch, qgt
        >>> x, half = torch.eye(2), torch.full((1, 2), 0.5)
        >>> channel = Channel.of(qgt.Noiseless(), sizes=2, most=2)
        >>> told(channel, x, half, torch.tensor([[True, False], [True, True]]))  # one item tells all, both nothing
        tensor([1., 0.])
    """
    here = weight @ _levels(channel, x, pools)  # (pools, scenarios, counts)
    return channel.information(here, pools.sum(1)[:, None]).mean(1)


def told_flipped(
    channel: Channel,
    x: Float32[Tensor, "answers items"],
    weight: Float32[Tensor, "scenarios answers"],
    pools: Bool[Tensor, "pools items"],
) -> Float32[Tensor, "pools items"]:
    """The information of every pool with each item put in or taken out, averaged over scenarios."""
    at = _levels(channel, x, pools)  # (pools, answers, counts)
    here = weight @ at  # (pools, scenarios, counts)
    each = at.transpose(1, 2)[:, None] * weight[:, None]  # (pools, scenarios, counts, answers)
    near = here[..., None]
    for step in channel.steps:
        ones = each @ (x if channel.steps == (1,) else (x == step).float())  # (pools, scenarios, counts, items)
        zero = torch.zeros_like(ones[:, :, :step])
        added = torch.cat([zero, ones[:, :, :-step]], 2)  # from c - 1 defectives to c
        dropped = torch.cat([ones[:, :, step:], zero], 2)
        moved = torch.where(pools[:, None, None, :], dropped, added)
        near = near - ones + moved
    near = near.clamp(min=0.0).transpose(2, 3)  # (pools, scenarios, items, counts)
    sizes = pools.sum(1, keepdim=True) + torch.where(pools, -1, 1)  # (pools, items)
    return channel.information(near, sizes[:, None]).mean(1)


def _levels(channel: Channel, x: Tensor, pools: Tensor) -> Tensor:
    """1 where an answer has that many defectives in a pool: (pools, answers, counts)."""
    counts = pools.float() @ x.T
    return (counts[..., None] == torch.arange(channel.table.shape[1])).float()


# Samples from the posterior of one instance, by Markov chains over its factors.
#
# Many chains start from the answers that are known. Each step of a chain flips an item, or swaps a defective item for
# another, and is taken with the probability that the costs and a temperature say (Metropolis). The temperature falls
# from HOT to 1, so that chains leave their start before they settle. A count that is impossible costs much, not
# infinitely much: chains cross such states, but samples that are impossible are left out at the end where any is not.
#
# The posterior of sharp counts has many separate peaks, and chains of this length may miss some. That is why samples
# are for choosing pools alone.

CHAINS, CHAIN_STEPS = 192, 600
HOT = 4.0  # the first temperature
COOLED = 0.7  # of the steps, after which the temperature is 1
IMPOSSIBLE = 12.0  # nats: the cost of a count that is impossible, beyond the dearest possible one


def sample_posterior(
    problem: Problem,
    y: Float64[Tensor, " pools"],
    start: UInt8[Tensor, "answers items"],
    *,
    generator: Generator,
) -> UInt8[Tensor, "chains items"]:
    """Where the chains end.

    Args:
        problem: Any whose prior has costs.
        y: The counts of one instance, NaN where missing.
        start: Answers to start from; chains share them.
        generator: On the CPU.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.5))
        >>> y, start = torch.tensor([1.0, 1.0], dtype=torch.float64), torch.zeros(1, 3, dtype=torch.uint8)
        >>> sample_posterior(problem, y, start, generator=torch.Generator().manual_seed(0)).unique(dim=0)
        tensor([[0, 1, 0],
                [1, 0, 1]], dtype=torch.uint8)
    """
    factors = problem.factors(y[None])
    tables = finite_tables(factors.pools.of_instance(0), price=IMPOSSIBLE, step=0.0)
    chains = _Chains(problem.design.matrix.T.to(torch.int64).contiguous(), tables, factors.items)
    x = start[torch.randint(len(start), (CHAINS,), generator=generator)].clone()
    x = torch.where(factors.items.known == FREE, x, factors.items.known.to(torch.uint8))
    free = (factors.items.known == FREE).nonzero().flatten()
    if len(free):
        x = chains.run(x, free, generator)
    possible = factors.cost(x, torch.zeros(len(x), dtype=torch.int64)).isfinite()
    return x[possible] if bool(possible.any()) else x


@dataclass(frozen=True, eq=False)
class _Chains:
    """Chains over one instance's factors."""

    pools_of: Tensor  # (items, pools)
    tables: Tensor  # (pools, counts)
    items: ItemCosts

    def run(self, x: Tensor, free: Tensor, generator: Generator) -> Tensor:
        """All steps; x is (chains, items), and `free` are the items that may change."""
        rows = torch.arange(len(x))
        counts = x.to(torch.int64) @ self.pools_of  # (chains, pools)
        cost = self._cost(x, counts)
        draws = torch.rand(CHAIN_STEPS, 2, len(x), generator=generator)
        keys = torch.rand(CHAIN_STEPS, len(x), generator=generator)
        picked = free[torch.randint(len(free), (CHAIN_STEPS, len(x)), generator=generator)]
        for step in range(CHAIN_STEPS):
            heat = max(1.0, HOT ** (1 - step / (COOLED * CHAIN_STEPS)))
            one = picked[step]
            other = _some_opposite(x, one, free, keys[step])
            swap = (draws[step, 0] < 0.5) & (other >= 0)
            second = torch.where(swap, other, one)
            new = x.clone()
            new[rows, one] ^= 1
            new[rows[swap], second[swap]] ^= 1
            moved = new.to(torch.int64)
            change = self.pools_of[one] * (2 * moved[rows, one] - 1)[:, None]
            change = change + self.pools_of[second] * ((2 * moved[rows, second] - 1) * swap)[:, None]
            there = self._cost(new, counts + change)
            take = (cost - there) / heat > draws[step, 1].log()
            x = torch.where(take[:, None], new, x)
            counts = torch.where(take[:, None], counts + change, counts)
            cost = torch.where(take, there, cost)
        return x

    def _cost(self, x: Tensor, counts: Tensor) -> Tensor:
        prior = self.items.of(x).nan_to_num(posinf=1e6)
        return prior + self.tables[torch.arange(len(self.tables)), counts].sum(1)


def _some_opposite(x: Tensor, item: Tensor, free: Tensor, key: Tensor) -> Tensor:
    """For each chain a random free item whose status differs from that of the given one; -1 where there is none.

    A swap and the swap back are equally likely: both pick an item, then one among those that differ from it, and the
    numbers of defective and of other items stay.
    """
    status = x[:, free]
    differs = status != x.gather(1, item[:, None])
    number = differs.sum(1)
    wanted = (key * number).long().clamp(max=len(free) - 1) + 1
    at = (differs.cumsum(1) < wanted[:, None]).sum(1).clamp(max=len(free) - 1)
    return torch.where(number > 0, free[at], -1)


# What is known of one instance, as answers with weights: the form that the choice of pools works on.
#
# Where a decoder listed every answer that comes close, those are they, with their exact weights; and likewise where it
# proved the best one and listed others. Where it did neither, they are samples from the posterior. Pools are only
# *chosen* by them: a poor sample costs tests, and never makes an answer look surer than it is.

MOST_ANSWERS = 192  # answers that a choice looks at: more tell little, and take time
LEAST_HIDDEN = 1e-4  # the probability from which an item that no answer has is worth a pool


@dataclass(frozen=True, eq=False)
class Posterior:
    """Answers to one instance with weights that sum to 1.

    Example:
        >>> import torch
        >>> x = torch.tensor([[1, 0, 0], [0, 1, 0]], dtype=torch.uint8)
        >>> known = Posterior(x, torch.tensor([0.5, 0.5], dtype=torch.float64))
        >>> known.entropy, known.open_items
        (1.0, tensor([ True,  True, False]))
    """

    x: UInt8[Tensor, "answers items"]
    weight: Float64[Tensor, " answers"]

    @property
    def entropy(self) -> float:
        """How many bits of doubt there are."""
        return max(0.0, -float(torch.xlogy(self.weight, self.weight).sum()) / math.log(2))

    @property
    def open_items(self) -> Bool[Tensor, " items"]:
        """Items on which the answers differ: all others say nothing in a pool."""
        return (self.x != self.x[0]).any(0)

    def with_hidden(self, marginals: Float64[Tensor, " items"], listed: float) -> "Posterior":
        """The same with items that may be defective unseen, each with the likeliest answer.

        A weak positive under a strong one is in no answer of a list. What its probability is beyond the answers' own
        says how likely it is, and a pool that settles it is worth a test.

        Args:
            marginals: The probability that each item is defective; NaN where it is not known.
            listed: The probability of all answers together.

        Example:
            >>> import torch
            >>> known = Posterior(torch.tensor([[1, 0, 0]], dtype=torch.uint8), torch.ones(1, dtype=torch.float64))
            >>> known.with_hidden(torch.tensor([1.0, 0.04, 0.0], dtype=torch.float64), 0.96)
            Posterior(x=tensor([[1, 0, 0],
                    [1, 1, 0]], dtype=torch.uint8), weight=tensor([0.9600, 0.0400], dtype=torch.float64))
        """
        share = listed * self.weight
        beyond = (marginals - share @ self.x.double()).nan_to_num(0.0)
        best = self.x[self.weight.argmax()]
        items = ((beyond > LEAST_HIDDEN) & (best == 0)).nonzero().flatten()
        more = best.repeat(len(items), 1)
        more[torch.arange(len(items)), items] = 1
        weight = torch.cat([share, beyond[items]])
        return Posterior(torch.cat([self.x, more]), weight / weight.sum())

    def at_most(self, number: int, *, generator: Generator) -> "Posterior":
        """The same in so many answers: the likeliest half of them stay, and the others are drawn by their weight."""
        if len(self.weight) <= number:
            return self
        order = self.weight.argsort(descending=True)
        kept, rest = order[: number // 2], order[number // 2 :]
        left = number - len(kept)
        drawn = rest[torch.multinomial(self.weight[rest], left, replacement=True, generator=generator)]
        share = torch.full((left,), float(self.weight[rest].sum()) / left, dtype=torch.float64)
        return Posterior(self.x[torch.cat([kept, drawn])], torch.cat([self.weight[kept], share]))


def posterior_of(
    problem: Problem,
    y: Float64[Tensor, " pools"] | Float64[Tensor, "pools categories"],
    result: Decoded,
    instance: int,
    *,
    generator: Generator,
) -> Posterior:
    """What is known of one instance: the answers listed, or samples where the list may lack the best.

    Args:
        problem: What was decoded.
        y: The instance's counts.
        result: What a decoder returned for a batch that holds the instance.
        instance: Its place there.
        generator: For samples.
    """
    answers, complete = result.evidence.alternatives, result.evidence.complete
    listed = None if answers is None else answers.of_instance(instance)
    whole = complete is not None and bool(complete[instance])
    proved = int(result.status[instance]) == Status.PROVED
    # Loads have no sampler, so an incomplete list is used as it is.
    if listed is not None and len(listed.x) and (whole or problem.loads or (proved and len(listed.x) > 1)):
        weight = listed.log_joint.softmax(0)  # probabilities may leave room for what is not listed, up to all of it
        known = Posterior(listed.x.cpu(), weight.cpu())
        marginals = result.evidence.marginals
        if problem.loads is not None and marginals is not None:
            known = known.with_hidden(marginals[instance].cpu(), float(listed.probability.sum()))
        return known.at_most(MOST_ANSWERS, generator=generator)
    start = result.x[instance][None] if listed is None or not len(listed.x) else listed.x
    if problem.values is None:
        x = sample_posterior(problem, y, start.cpu(), generator=generator)
    else:  # in parts
        values, parts = problem.values, problem.in_parts
        reports, begin = values.part_reports(y[None])[0], values.to_parts(start.cpu())
        x = sample_posterior(parts, reports, begin, generator=generator)
        x = values.from_parts(x[values.allowed(x)] if bool(values.allowed(x).any()) else begin)
    same, number = x.unique(dim=0, return_counts=True)
    return Posterior(same, number.double() / len(x)).at_most(MOST_ANSWERS, generator=generator)


# The choice.

# Where items have loads, pools are chosen by whether they will be positive: what a pool's amount tells beyond that
# depends on loads that the answers leave open, and the decoder takes it all once it is measured.
DETECTED = PositiveNegative(sensitivity=0.98, specificity=0.99)
RANDOM = 48  # pools looked at first
CLIMBERS = 6  # of them, improved
TRIED_HALVES = 8  # first halves of a swap
SCENARIOS = 384  # of the reports of earlier pools in the round: enough to see a risk of one in a thousand
COMPARED = 12  # of them that pools are compared in: those that leave a doubt
LIGHT = 1e-4  # bits that one transfer less is worth
NO_INFORMATION = 1e-6  # bits
NO_DOUBT = 1e-5  # the chance of a wrong answer at which a scenario leaves no doubt
CLIMB_GAIN = 3e-5  # bits that a step must win: far above what float32 rounds off, so that no search goes in circles


@dataclass(frozen=True, eq=False)
class NextPools:
    """Pools proposed for one instance, and what they are expected to tell.

    Example:
        >>> import torch
        >>> proposed = NextPools(torch.tensor([[1, 0, 1]], dtype=torch.uint8), information=0.8, doubt=2.0, risk=0.4)
        >>> proposed.members, proposed.remaining
        (((0, 2),), 3)
    """

    matrix: UInt8[Tensor, "pools items"]  # no rows where nothing is left to tell
    information: float  # bits that all of them are expected to tell together
    doubt: float  # bits of doubt about the answer before
    risk: float  # the chance that the answer is wrong after them, as far as the answers that are known tell

    @property
    def members(self) -> tuple[tuple[int, ...], ...]:
        """The items of each pool, counted from 0."""
        return tuple(tuple(row.nonzero().flatten().tolist()) for row in self.matrix)

    @property
    def remaining(self) -> int:
        """About how many tests remain, these counted: the doubt over what one of them tells."""
        if not len(self.matrix):
            return 0
        each = self.information / len(self.matrix)
        return max(len(self.matrix), math.ceil(self.doubt / max(each, NO_INFORMATION)))


def next_pools(
    problem: Problem,
    y: Float64[Tensor, "instances pools"] | Float64[Tensor, "instances pools categories"],
    result: Decoded,
    *,
    pools: int,
    generator: Generator,
    at_most: int | None = None,
    each_at_most: int | Sequence[int] | None = None,
    risk: float = 0.0,
    spread: bool = False,
) -> list[NextPools]:
    """Propose pools for a next round of each instance, by the information that they are expected to give.

    Args:
        problem: What was decoded, with all pools so far.
        y: Its counts.
        result: What a decoder returned for them; `Certified` lists the answers among which to tell.
        pools: How many to propose for each instance, at most.
        generator: For random starts and scenarios, on the CPU.
        at_most: The most items that a pool may hold; None for any number.
        each_at_most: The most of the new pools that an item may be in: one number, or one per item, 0 where an item
            is used up; None for any number.
        risk: Propose no more than make a wrong answer, after them, so improbable, but at least one; 0 proposes as many
            as tell anything.
        spread: Whether each pool also takes half of the items that no answer listed calls defective. Of the listed
            answers that tells nothing, but of those that are not listed as much as a random pool. It costs transfers,
            and is left out where the noise depends on the size of a pool.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["1111"]), qgt.Bernoulli(0.1))
        >>> y = torch.tensor([[1.0]], dtype=torch.float64)
        >>> result = qgt.Certified().bind(problem)(y)
        >>> (proposed,) = next_pools(problem, y, result, pools=2, generator=torch.Generator().manual_seed(0))
        >>> [len(pool) for pool in proposed.members], round(proposed.information, 3), proposed.remaining
        ([2, 2], 2.0, 2)
    """
    y = check_counts(problem, y, missing=True).cpu()
    limits = Limits.of(problem.items, pools, at_most, each_at_most, risk, spread)
    noise = later_noise(problem.noise) if problem.loads is None else DETECTED
    reported = Reported(noise, problem.values)
    return [
        choose(posterior_of(problem, y[i], result, i, generator=generator), reported, limits, generator=generator)
        for i in range(len(y))
    ]


@dataclass(frozen=True, eq=False)
class Reported:
    """What pools report of answers: one number, or one for each category.

    Example:
        >>> import torch, qgt
        >>> both = Reported(qgt.Noiseless(), qgt.Categories((0.1, 0.1)))
        >>> channel, x = both.channel(torch.tensor([[1, 2], [0, 2]], dtype=torch.uint8))
        >>> channel.steps, x  # a pool of both items reports 1 and 1, or 0 and 1
        ((1, 2), tensor([[1., 2.],
                [0., 2.]]))
    """

    noise: Noise
    values: Categories | Copies | None = None

    @property
    def each(self) -> int:
        """What each item adds to the size of a pool that the noise sees."""
        return self.values.levels if isinstance(self.values, Copies) else 1

    @property
    def noises(self) -> Sequence[Noise]:
        """The noise of each number that pools report."""
        if isinstance(self.noise, PerCategory):
            return self.noise.noises
        return [self.noise] * (len(self.values.columns) if isinstance(self.values, Categories) else 1)

    def numbers(self, x: UInt8[Tensor, "answers items"]) -> list[Tensor]:
        """What each item adds to each number that its pools report: (answers, items) for each."""
        if not isinstance(self.values, Categories):
            return [x]
        return [(x == category).to(torch.uint8) for category in self.values.columns]

    def channel(self, x: UInt8[Tensor, "answers items"]) -> tuple[Channel, Float32[Tensor, "answers items"]]:
        """P(report | count) of pools of these items, and what each item adds to the count under each answer.

        Where categories are so many that their counts have too many combinations, pools are chosen by the number of
        items that are not in the first category. That number has no noise where categories have different ones, and
        shows nothing where answers differ in the categories alone: then pools are chosen by some of the categories.
        """
        parts, noises = self.numbers(x), self.noises
        if math.prod(map(_numbers, parts)) > MOST_COUNTS and len(parts) > 1:
            found = x.clamp(max=1)
            if not isinstance(self.noise, PerCategory) and bool((found != found[0]).any()):
                parts, noises = [found], [self.noise]
            else:
                kept = _most_doubtful(parts)
                parts, noises = [parts[i] for i in kept], [noises[i] for i in kept]
        reports = max(LEAST_REPORTS, int(REPORTS ** (1 / len(parts))))
        channels = [
            Channel.of(noise, sizes=x.shape[1], most=_numbers(part) - 1, each=self.each, reports=reports)
            for noise, part in zip(noises, parts, strict=True)
        ]
        if isinstance(self.values, Copies):
            return replace(channels[0], steps=tuple(range(1, self.each + 1))), parts[0].float()
        joined = Channel.joined(channels)
        count = torch.stack([step * part.float() for step, part in zip(joined.steps, parts, strict=True)]).sum(0)
        return joined, count

    def drawn(self, x: Tensor, pool: Tensor, truth: Tensor, generator: Generator) -> Tensor:
        """The log probability of each answer's reports of a pool, by reports drawn for some truths."""
        size, found = self.each * pool.sum().double()[None], []
        for noise, part in zip(self.noises, self.numbers(x), strict=True):
            counts = (part.double() @ pool.double())[None]  # (1, answers)
            report = noise.sample(counts[0][truth][:, None], size, generator=generator)  # (truths, 1)
            found.append(noise.log_prob(report, counts, size))
        return found[0] if len(found) == 1 else torch.stack(found).sum(0)


def _numbers(part: Tensor) -> int:
    """How many different numbers pools of items may have, each with its own under each answer: (answers, items)."""
    return max(1, int(part.sum(1).max())) + 1  # two at least, so that no two categories have the same step


def _most_doubtful(parts: Sequence[Tensor]) -> list[int]:
    """Some of the categories, in order: those about whose items answers differ most, as far as their counts go."""
    differing = [int((part != part[0]).any(0).sum()) for part in parts]
    kept: list[int] = []
    for i in sorted(range(len(parts)), key=lambda i: -differing[i]):
        if not kept or math.prod(_numbers(parts[k]) for k in (*kept, i)) <= MOST_COUNTS:
            kept.append(i)
    return sorted(kept)


def later_noise(noise: Noise) -> Noise:
    """The noise of pools that are still to come: the one of all pools so far, of each category where they differ."""
    if isinstance(noise, PerCategory):
        return PerCategory([later_noise(one) for one in noise.noises])
    if (each := by_pool(noise)) is not None:
        first, *others = each.noises
        if any(other != first for other in others):
            raise ValueError("noise differs from pool to pool, so that of new pools is not known: give one for all.")
        return first
    return noise


@dataclass(frozen=True, eq=False)
class Limits:
    """What a round may use."""

    pools: int
    at_most: int  # items in a pool
    uses: Tensor  # (items,): pools that each item may be in
    risk: float  # that is small enough
    spread: bool  # whether pools take items that no answer calls defective

    @classmethod
    def of(
        cls,
        items: int,
        pools: int,
        at_most: int | None = None,
        each_at_most: int | Sequence[int] | None = None,
        risk: float = 0.0,
        spread: bool = False,
    ) -> "Limits":
        """Check the numbers and fill in those that were not given."""
        pools, risk = whole("pools", pools, least=1), fraction("risk", risk)
        size = items if at_most is None else whole("at_most", at_most, least=1)
        if each_at_most is None or isinstance(each_at_most, int):
            number = pools if each_at_most is None else whole("each_at_most", each_at_most)
            return cls(pools, size, torch.full((items,), number), risk, spread)
        if len(each_at_most) != items:
            raise ValueError(f"each_at_most holds {len(each_at_most)} numbers for {items} items: give one per item.")
        each = [whole(f"each_at_most[{i}]", number) for i, number in enumerate(each_at_most)]
        return cls(pools, size, torch.tensor(each), risk, spread)


def choose(known: Posterior, noise: Noise | Reported, limits: Limits, *, generator: Generator) -> NextPools:
    """The pools of a round that tell most of the answers that are known."""
    reported = noise if isinstance(noise, Reported) else Reported(noise)
    matrix = torch.zeros(0, known.x.shape[1], dtype=torch.uint8)
    information, weight, share = 0.0, known.weight.float()[None], 1.0
    scenarios = _Scenarios.of(known.weight, generator)
    while len(matrix) < limits.pools and not (len(matrix) and scenarios.risk <= limits.risk):
        usable = (known.open_items & (matrix.sum(0) < limits.uses)).nonzero().flatten()
        if not len(usable):
            break
        channel, x = reported.channel(known.x[:, usable])  # (answers, usable)
        climb = _Climb(channel, x, weight, limits.at_most)
        pool, more = climb.best(generator)
        if share * more <= NO_INFORMATION:
            break
        row = matrix.new_zeros(1, matrix.shape[1])
        row[0, usable[pool]] = 1
        if limits.spread and climb.channel.same_for_all_sizes:
            row[0, _besides(known, matrix, row[0], limits, generator)] = 1
        matrix, information = torch.cat([matrix, row]), information + share * more
        scenarios = scenarios.after(reported, known.x, row[0], generator)
        weight, share = scenarios.doubtful()
    return NextPools(matrix, min(information, known.entropy), known.entropy, scenarios.risk)


def _besides(known: Posterior, matrix: Tensor, row: Tensor, limits: Limits, generator: Generator) -> Tensor:
    """Half of the items that no answer calls defective, as far as the limits let them into a pool."""
    free = ((known.x.amax(0) == 0) & (matrix.sum(0) < limits.uses)).nonzero().flatten()
    number = min(len(free) // 2, limits.at_most - int(row.sum()))
    return free[torch.randperm(len(free), generator=generator)[:number]]


@dataclass(frozen=True, eq=False)
class _Scenarios:
    """What may be known after the pools chosen so far."""

    truth: Tensor  # (scenarios,): an answer
    log_weight: Tensor  # (scenarios, answers)

    @classmethod
    def of(cls, weight: Tensor, generator: Generator) -> "_Scenarios":
        """Truths by their weight, spread evenly."""
        shift = torch.rand(1, dtype=torch.float64, generator=generator)
        at = (torch.arange(SCENARIOS, dtype=torch.float64) + shift) / SCENARIOS
        truth = torch.searchsorted(weight.cumsum(0), at).clamp(max=len(weight) - 1)
        return cls(truth, weight.log().expand(SCENARIOS, -1))

    @cached_property
    def weight(self) -> Tensor:
        return self.log_weight.softmax(1)

    @property
    def risk(self) -> float:
        """The chance that the most probable answer is wrong, on average."""
        return float((1 - self.weight.amax(1)).mean().clamp(min=0.0))

    def doubtful(self) -> tuple[Tensor, float]:
        """Weights of some scenarios that leave a doubt, float32, and how large a share of all such ones are."""
        open_ = (1 - self.weight.amax(1) > NO_DOUBT).nonzero().flatten()
        if not len(open_):
            return self.weight[:1].float(), 0.0
        some = open_[torch.linspace(0, len(open_) - 1, min(COMPARED, len(open_))).long()]
        return self.weight[some].float(), len(open_) / len(self.weight)

    def after(self, reported: "Reported", x: Tensor, pool: Tensor, generator: Generator) -> "_Scenarios":
        """Draw the pool's report in each scenario, and weigh the answers by it."""
        return _Scenarios(self.truth, self.log_weight + reported.drawn(x, pool, self.truth, generator))


@dataclass(frozen=True, eq=False)
class _Climb:
    """The search for one pool."""

    channel: Channel
    x: Tensor  # (answers, items), float32
    weight: Tensor  # (scenarios, answers), float32
    at_most: int

    def best(self, generator: Generator) -> tuple[Tensor, float]:
        """The best pool found, (items,) bool, and what it tells."""
        pools = self._first(generator)
        pools = pools[self._now(pools).argsort(descending=True)[:CLIMBERS]]
        moved = True
        while moved:
            pools, moved = self._step(pools)
        pool = pools[self._now(pools).argmax()]
        while (better := self._swapped(pool)) is not None:
            pool = better
        return pool, float(told(self.channel, self.x, self.weight, pool[None])[0])

    def _first(self, generator: Generator) -> Tensor:
        """Random pools of up to half of the items, and each item by itself."""
        items = self.x.shape[1]
        keys = torch.rand(RANDOM, items, generator=generator)
        size = torch.randint(1, max(1, min(self.at_most, -(-items // 2))) + 1, (RANDOM, 1), generator=generator)
        return torch.cat([keys.argsort(1).argsort(1) < size, torch.eye(items, dtype=torch.bool)])

    def _now(self, pools: Tensor) -> Tensor:
        """What pools tell, less what their transfers cost: (pools,)."""
        return told(self.channel, self.x, self.weight, pools) - LIGHT * pools.sum(1)

    def _then(self, pools: Tensor) -> Tensor:
        """The same after each flip that is allowed: (pools, items)."""
        size = pools.sum(1, keepdim=True)
        worth = told_flipped(self.channel, self.x, self.weight, pools) - LIGHT * (size + torch.where(pools, -1, 1))
        return worth.masked_fill((size >= self.at_most) & ~pools, -torch.inf)

    def _step(self, pools: Tensor) -> tuple[Tensor, bool]:
        """Each pool with its best flip, where that helps, and whether any did."""
        gain, item = (self._then(pools) - self._now(pools)[:, None]).max(1)
        better = gain > CLIMB_GAIN
        pools = pools.clone()
        pools[better.nonzero().flatten(), item[better]] ^= True
        return pools, bool(better.any())

    def _swapped(self, pool: Tensor) -> Tensor | None:
        """The pool with the best two flips, if they help."""
        now, then = self._now(pool[None]), self._then(pool[None])
        first = then[0].topk(min(TRIED_HALVES, len(pool))).indices
        tried = pool.repeat(len(first), 1)
        tried[torch.arange(len(first)), first] ^= True
        tried = tried[then[0][first].isfinite()]
        after = self._then(tried)
        if not len(tried) or float(after.max()) <= float(now[0]) + CLIMB_GAIN:
            return None
        which, item = divmod(int(after.argmax()), len(pool))
        better = tried[which]
        better[item] ^= True
        return better
