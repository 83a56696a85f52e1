"""Samples from the posterior of one instance, by Markov chains over its factors.

Many chains start from the answers that are known. Each step of a chain flips an item, or swaps a defective item for
another, and is taken with the probability that the costs and a temperature say (Metropolis). The temperature falls
from HOT to 1, so that chains leave their start before they settle. A count that is impossible costs much, not
infinitely much: chains cross such states, but samples that are impossible are left out at the end where any is not.

The posterior of sharp counts has many separate peaks, and chains of this length may miss some. That is why samples are
for choosing pools alone.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float64, UInt8
from torch import Generator, Tensor

from qgt.model.prior import FREE, ItemCosts
from qgt.model.problem import Problem

CHAINS, STEPS = 192, 600
HOT = 4.0  # the first temperature
SETTLED = 0.7  # of the steps, after which the temperature is 1
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
    tables = _finite(factors.pools.of_instance(0))
    chains = _Chains(problem.design.matrix.T.to(torch.int64).contiguous(), tables, factors.items)
    x = start[torch.randint(len(start), (CHAINS,), generator=generator)].clone()
    x = torch.where(factors.items.known == FREE, x, factors.items.known.to(torch.uint8))
    free = (factors.items.known == FREE).nonzero().flatten()
    if len(free):
        x = chains.run(x, free, generator)
    possible = factors.cost(x, torch.zeros(len(x), dtype=torch.int64)).isfinite()
    return x[possible] if bool(possible.any()) else x


def _finite(tables: Tensor) -> Tensor:
    """Tables without infinite costs."""
    possible = tables.isfinite()
    worst = torch.where(possible, tables, -torch.inf).amax(1, keepdim=True).nan_to_num(neginf=0.0)
    return torch.where(possible, tables, worst + IMPOSSIBLE)


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
        draws = torch.rand(STEPS, 2, len(x), generator=generator)
        keys = torch.rand(STEPS, len(x), generator=generator)
        picked = free[torch.randint(len(free), (STEPS, len(x)), generator=generator)]
        for step in range(STEPS):
            heat = max(1.0, HOT ** (1 - step / (SETTLED * STEPS)))
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
