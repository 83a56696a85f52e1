"""Priors for people who do not know the prevalence: all items share one unknown number.

`UnknownRate` says only that the rate lies between two numbers. Of N items, k given ones are then defective with
probability

    P(x) = 1 / (high - low)  times the integral from low to high of  p^k (1 - p)^(N - k) dp,

which depends on x through k alone: a table over the number of defectives. The integrand is a polynomial of degree N, so
Gauss-Legendre quadrature is exact from N/2 + 1 nodes on; all its terms are positive, so no digits are lost, where a
difference of incomplete Beta functions has none left in its tails. Uniform between two rates is what people can state
("between 1 % and 10 %"); the two numbers of a Beta law are not.

`UnknownLevel` multiplies the odds of all items of another prior by one unknown factor t: with f the other prior,

    P(x) = sum over t of w_t f(x) t^k / Z_t,        Z_t = sum over x of f(x) t^k,

which again is f and a table over k, so that everything that decodes f with such a table decodes this. (An unknown
rate of seeding alone would be no such sum.) The other prior's independent items, and its households, only change
their rates: the households of a hard year are hit more often and harder. The values t lie between `low` and `high`,
where their logarithms are the nodes of a Gauss-Legendre rule: as good as log-uniform, and summing to one exactly.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float64, UInt8
from torch import Generator, Tensor

from qgt.arguments import fraction, positive
from qgt.model.households import Households
from qgt.model.prior import ALONE, FREE, FactoredPrior, Groups, ItemCosts, Prior

CHUNK = 2**22  # nodes times numbers of defectives at a time


@dataclass(frozen=True)
class UnknownRate:
    """Items are defective independently with one rate for all, which is anywhere between `low` and `high`.

    Example:
        >>> import torch
        >>> prior = UnknownRate(low=0.0, high=1.0)  # every number of defectives is equally likely
        >>> prior.log_prob(torch.tensor([[0, 0], [0, 1], [1, 1]], dtype=torch.uint8)).exp()
        tensor([0.3333, 0.1667, 0.3333], dtype=torch.float64)
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", fraction("low", self.low))
        object.__setattr__(self, "high", fraction("high", self.high))
        if self.low >= self.high:
            raise ValueError(f"low={self.low} is not valid: give a rate below high={self.high}, or use Bernoulli.")

    def sample(self, instances: int, items: int, *, generator: Generator) -> UInt8[Tensor, "instances items"]:
        """Draw a rate for each instance, then its items."""
        device = generator.device
        rate = torch.rand(instances, 1, dtype=torch.float64, generator=generator, device=device)
        draws = torch.rand(instances, items, dtype=torch.float64, generator=generator, device=device)
        return (draws < self.low + (self.high - self.low) * rate).to(torch.uint8)

    def marginals(self, items: int) -> Float64[Tensor, " items"]:
        """The mean rate."""
        return torch.full((items,), (self.low + self.high) / 2, dtype=torch.float64)

    def log_prob(self, x: UInt8[Tensor, "instances items"]) -> Float64[Tensor, " instances"]:
        """Look up the number of defectives."""
        return -_rate_table(self.low, self.high, x.shape[1]).to(x.device)[x.sum(1, dtype=torch.int64)]

    def costs(self, items: int) -> ItemCosts:
        """Nothing for each item, and a table of their number."""
        known = torch.full((items,), FREE, dtype=torch.int8)
        total = _rate_table(self.low, self.high, items).clone()
        return ItemCosts(0.0, torch.zeros(items, dtype=torch.float64), known, total)


def with_attack_rate(prior: object, attack_rate: float) -> "Households | UnknownLevel":
    """A prior of households, perhaps of unknown level, with another attack rate and the same share of defectives.

    Example:
        >>> prior = UnknownLevel(Households(size=4, seed_rate=0.1, attack_rate=0.5), low=0.5, high=2.0)
        >>> with_attack_rate(prior, 0.25).prior.seed_rate
        0.2
    """
    if isinstance(prior, Households):
        return prior.with_attack_rate(attack_rate)
    if isinstance(prior, UnknownLevel) and isinstance(prior.prior, Households):
        return replace(prior, prior=prior.prior.with_attack_rate(attack_rate))
    raise ValueError(
        f"attack_rate={attack_rate:g} is for a prior of households, and this problem has another: leave it out."
    )


@dataclass(frozen=True)
class UnknownLevel:
    """Another prior whose overall level is unknown: the odds of all items times one factor between `low` and `high`.

    Example:
        >>> from qgt import Bernoulli
        >>> prior = UnknownLevel(Bernoulli([0.01, 0.1]), low=0.5, high=3.0)  # from half to three times the odds
        >>> prior.marginals(2)
        tensor([0.0138, 0.1304], dtype=torch.float64)
    """

    prior: Prior
    low: float
    high: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", positive("low", self.low))
        object.__setattr__(self, "high", positive("high", self.high))
        if self.low >= self.high:
            raise ValueError(f"low={self.low} is not valid: give a factor below high={self.high}.")
        if not isinstance(self.prior, FactoredPrior):
            raise ValueError(f"prior={self.prior} is not valid: give one with costs, such as Bernoulli or Households.")

    def sample(self, instances: int, items: int, *, generator: Generator) -> UInt8[Tensor, "instances items"]:
        """Draw a factor for each instance, then its items and groups."""
        tilted, device = self._tilted(items), generator.device
        chance = torch.rand(instances, dtype=torch.float64, generator=generator, device=device)
        which = torch.searchsorted(tilted.weight.to(device).cumsum(0)[:-1], chance)
        draws = torch.rand(instances, items, dtype=torch.float64, generator=generator, device=device)
        x = draws < tilted.items.to(device)[which]  # (instances, items)
        groups = self._costs(items).groups
        if groups is None:
            return x.to(torch.uint8)
        chance = torch.rand(instances, len(groups.tables), 1, dtype=torch.float64, generator=generator, device=device)
        up_to = tilted.numbers.to(device).cumsum(2)[which]  # (instances, groups, numbers)
        number = (chance > up_to[:, :, :-1]).sum(2)  # (instances, groups)
        group = groups.group.to(device)
        # The members with the least of independent draws.
        inside = group != ALONE
        chosen = _ranks(draws, groups) < number[:, group.clamp(min=0)]
        return torch.where(inside, chosen, x).to(torch.uint8)

    def marginals(self, items: int) -> Float64[Tensor, " items"]:
        """Each item's rate, averaged over the factors."""
        tilted, groups = self._tilted(items), self._costs(items).groups
        rates = tilted.weight @ tilted.items
        if groups is None:
            return rates
        number = tilted.numbers @ torch.arange(tilted.numbers.shape[2], dtype=torch.float64)  # (levels, groups)
        each = (tilted.weight @ number) / groups.sizes
        return torch.where(groups.group == ALONE, rates, each[groups.group.clamp(min=0)])

    def log_prob(self, x: UInt8[Tensor, "instances items"]) -> Float64[Tensor, " instances"]:
        """What the costs say."""
        return -self.costs(x.shape[1]).of(x)

    def costs(self, items: int) -> ItemCosts:
        """Those of the other prior, and a table of the number of defectives."""
        costs, tilted = self._costs(items), self._tilted(items)
        k = torch.arange(items + 1, dtype=torch.float64) - int((costs.known == 1).sum())
        total = _mixed(tilted.weight.log() - tilted.log_z, tilted.log_factor, k)
        return ItemCosts(costs.constant, costs.weights, costs.known, -total, costs.groups)

    def _costs(self, items: int) -> ItemCosts:
        assert isinstance(self.prior, FactoredPrior)  # as was checked
        costs = self.prior.costs(items)
        if costs.total is not None:
            raise ValueError(f"prior={self.prior} has a law of its own for the number of defectives: give another.")
        if costs.groups is not None:
            inside = costs.groups.group != ALONE
            if bool(((costs.weights != 0) | (costs.known != FREE))[inside].any()):
                raise ValueError(f"prior={self.prior} has groups of unequal items: give one whose items are alike.")
        return costs

    def _tilted(self, items: int) -> "_Tilted":
        nodes, weight = _rule(math.log(self.low), math.log(self.high), 64 + math.isqrt(16 * items))
        costs = self._costs(items)
        free = costs.known == FREE
        groups = costs.groups
        if groups is not None:
            free = free & (groups.group == ALONE)
        odds = nodes[:, None] - costs.weights  # (levels, items), logarithms
        log_z = torch.where(free, torch.nn.functional.softplus(odds), 0.0).sum(1) - costs.constant
        rates = torch.where(free, torch.sigmoid(odds), (costs.known == 1).to(torch.float64))
        numbers = torch.zeros(len(nodes), 0, 1, dtype=torch.float64)
        if groups is not None:
            numbers = _log_sets(groups) - groups.tables + nodes[:, None, None] * torch.arange(groups.tables.shape[1])
            log_z = log_z + numbers.logsumexp(2).sum(1)
            numbers = numbers.softmax(2)
        return _Tilted(nodes, weight, log_z, rates, numbers)


class _Tilted(NamedTuple):
    """A prior under each of the factors."""

    log_factor: Tensor  # (levels,)
    weight: Tensor  # (levels,): how likely each is
    log_z: Tensor  # (levels,)
    items: Tensor  # (levels, items): the rates of items in no group
    numbers: Tensor  # (levels, groups, numbers): the law of each group's number of defectives


def _ranks(draws: Tensor, groups: Groups) -> Tensor:
    """Where each item's draw stands among those of its group, the least being 0: (instances, items)."""
    group = groups.group.to(draws.device)
    order = (group + draws).argsort(1)
    places = torch.arange(len(group), device=draws.device).expand_as(order)
    place = torch.empty_like(order).scatter_(1, order, places)
    sizes = groups.sizes.to(draws.device)
    first = int((group == ALONE).sum()) + sizes.cumsum(0) - sizes  # those in no group come before all groups
    return place - first[group.clamp(min=0)]


def _log_sets(groups: Groups) -> Tensor:
    """The log of the number of sets of 0, 1, ... items of each group: (groups, numbers), 0 beyond its size."""
    n = groups.sizes.to(torch.float64)[:, None]
    d = torch.arange(groups.tables.shape[1], dtype=torch.float64)
    sets = torch.lgamma(n + 1) - torch.lgamma(d + 1) - torch.lgamma((n - d).clamp(min=0) + 1)
    return torch.where(d <= n, sets, 0.0)


@lru_cache(maxsize=16)
def _rate_table(low: float, high: float, items: int) -> Tensor:
    """What k given defectives of the items cost, for k = 0, 1, ...: (items + 1,)."""
    # Exact up to a few hundred items; beyond, nodes far closer than the integrand is wide.
    rate, weight = _rule(low, high, min(items // 2 + 1, 64 + math.isqrt(64 * items)))
    k = torch.arange(items + 1, dtype=torch.float64)
    none = torch.log1p(-rate)
    return -_mixed(weight.log() + items * none, rate.log() - none, k)


def _mixed(start: Tensor, slope: Tensor, k: Tensor) -> Tensor:
    """The log of sum_i exp(start_i + slope_i k), for each k: a few nodes at a time."""
    rows = max(1, CHUNK // len(k))
    parts = zip(start.split(rows), slope.split(rows), strict=True)
    sums = [(a[:, None] + b[:, None] * k).logsumexp(0) for a, b in parts]
    return torch.stack(sums).logsumexp(0)


@lru_cache(maxsize=16)
def _rule(low: float, high: float, number: int) -> tuple[Tensor, Tensor]:
    """Gauss-Legendre nodes between two numbers, and weights that sum to one."""
    nodes, weights = np.polynomial.legendre.leggauss(number)
    where = torch.from_numpy(low + (high - low) * (nodes + 1) / 2)
    return where, torch.from_numpy(weights / weights.sum())
