"""The pools of the next round: those whose reports are expected to tell most about the answer.

For each pool of the round in turn: many random pools of the items in doubt, and every single item, are looked at; the
best few climb, by the flip of one item at a time; where no flip helps, two at once are tried, of which one may be a
loss (a swap). Items on which all answers agree say nothing and stay outside. Of pools that tell the same the one with
fewer items is taken.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float64, UInt8
from torch import Generator, Tensor

from qgt.arguments import fraction, whole
from qgt.decoders.contract import check_counts
from qgt.decoders.results import Decoded
from qgt.model.noise import Noise, PerPool
from qgt.model.problem import Problem
from qgt.rounds.information import Channel, told, told_flipped
from qgt.rounds.posterior import Posterior, posterior_of

RANDOM = 48  # pools looked at first
CLIMBERS = 6  # of them, improved
TRIED = 8  # first halves of a swap
SCENARIOS = 384  # of the reports of earlier pools in the round: enough to see a risk of one in a thousand
COMPARED = 12  # of them that pools are compared in: those that leave a doubt
LIGHT = 1e-4  # bits that one transfer less is worth
NOTHING = 1e-6  # bits
SETTLED = 1e-5  # the chance of a wrong answer at which a scenario leaves no doubt
GAIN = 3e-5  # bits that a step must win: far above what float32 rounds off, so that no search goes in circles


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
        return max(len(self.matrix), math.ceil(self.doubt / max(each, NOTHING)))


def next_pools(
    problem: Problem,
    y: Float64[Tensor, "instances pools"],
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
    noise = later_noise(problem.noise)
    return [
        choose(posterior_of(problem, y[i], result, i, generator=generator), noise, limits, generator=generator)
        for i in range(len(y))
    ]


def later_noise(noise: Noise) -> Noise:
    """The noise of pools that are still to come: the one of all pools so far."""
    if isinstance(noise, PerPool):
        first, *others = noise.noises
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


def choose(known: Posterior, noise: Noise, limits: Limits, *, generator: Generator) -> NextPools:
    """The pools of a round that tell most of the answers that are known."""
    matrix = torch.zeros(0, known.x.shape[1], dtype=torch.uint8)
    information, weight, share = 0.0, known.weight.float()[None], 1.0
    scenarios = _Scenarios.of(known.weight, generator)
    while len(matrix) < limits.pools and not (len(matrix) and scenarios.risk <= limits.risk):
        usable = (known.open_items & (matrix.sum(0) < limits.uses)).nonzero().flatten()
        if not len(usable):
            break
        x = known.x[:, usable].float()  # (answers, usable)
        climb = _Climb(Channel.of(noise, sizes=len(usable), most=int(x.sum(1).max())), x, weight, limits.at_most)
        pool, more = climb.best(generator)
        if share * more <= NOTHING:
            break
        row = matrix.new_zeros(1, matrix.shape[1])
        row[0, usable[pool]] = 1
        if limits.spread and climb.channel.same_for_all_sizes:
            row[0, _besides(known, matrix, row[0], limits, generator)] = 1
        matrix, information = torch.cat([matrix, row]), information + share * more
        scenarios = scenarios.after(noise, known.x, row[0], generator)
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
        open_ = (1 - self.weight.amax(1) > SETTLED).nonzero().flatten()
        if not len(open_):
            return self.weight[:1].float(), 0.0
        some = open_[torch.linspace(0, len(open_) - 1, min(COMPARED, len(open_))).long()]
        return self.weight[some].float(), len(open_) / len(self.weight)

    def after(self, noise: Noise, x: Tensor, pool: Tensor, generator: Generator) -> "_Scenarios":
        """Draw the pool's report in each scenario, and weigh the answers by it."""
        counts = (x.double() @ pool.double())[None]  # (1, answers)
        size = pool.sum().double()[None]
        report = noise.sample(counts[0][self.truth][:, None], size, generator=generator)  # (scenarios, 1)
        return _Scenarios(self.truth, self.log_weight + noise.log_prob(report, counts, size))


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
        better = gain > GAIN
        pools = pools.clone()
        pools[better.nonzero().flatten(), item[better]] ^= True
        return pools, bool(better.any())

    def _swapped(self, pool: Tensor) -> Tensor | None:
        """The pool with the best two flips, if they help."""
        now, then = self._now(pool[None]), self._then(pool[None])
        first = then[0].topk(min(TRIED, len(pool))).indices
        tried = pool.repeat(len(first), 1)
        tried[torch.arange(len(first)), first] ^= True
        tried = tried[then[0][first].isfinite()]
        after = self._then(tried)
        if not len(tried) or float(after.max()) <= float(now[0]) + GAIN:
            return None
        which, item = divmod(int(after.argmax()), len(pool))
        better = tried[which]
        better[item] ^= True
        return better
