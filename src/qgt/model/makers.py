"""Random designs as lists, made in time and memory in proportion to the transfers, not to pools times items."""

import math

import torch
from torch import Generator, Tensor

from qgt.arguments import whole
from qgt.model.lists import Lists, is_sparse

DRAWN = 2**24  # entries of the matrix that are drawn one by one at a time


def bernoulli(pools: int, items: int, probability: float, generator: Generator) -> Lists:
    """Each item in each pool independently with the given probability.

    Every entry of the matrix is drawn, or, where few of very many are ones, only the gaps between those.
    """
    if is_sparse(pools * items, pools * items * probability):
        ones = _by_gaps(pools * items, probability, generator)
        return Lists.of_pairs(ones // items, ones % items, lists=pools, bound=items)
    rows = max(1, DRAWN // items)
    parts = []
    for first in range(0, pools, rows):
        shape = min(rows, pools - first), items
        draws = torch.rand(shape, dtype=torch.float64, generator=generator, device=generator.device)
        parts.append((draws < probability).nonzero() + torch.tensor([first, 0], device=generator.device))
    pairs = torch.cat(parts)  # (transfers, 2)
    return Lists.of_pairs(pairs[:, 0], pairs[:, 1], lists=pools, bound=items)


def _by_gaps(entries: int, probability: float, generator: Generator) -> Tensor:
    """Which of `entries` places are 1, each independently: the gaps between ones are geometric."""
    device, last = generator.device, -1
    found = [torch.empty(0, dtype=torch.int64, device=device)]
    while probability > 0 and last < entries:
        mean = (entries - last) * probability
        enough = int(mean + 6 * math.sqrt(mean)) + 16  # one round nearly always
        draws = torch.rand(enough, dtype=torch.float64, generator=generator, device=device)
        gaps = 1 + (torch.log1p(-draws) / math.log1p(-probability)).floor().clamp(max=entries).to(torch.int64)
        places = last + gaps.cumsum(0)
        found.append(places[places < entries])
        last = int(places[-1])
    return torch.cat(found)


def regular(pools: int, items: int, weight: int, generator: Generator) -> Lists:
    """Each item in exactly `weight` pools, whose sizes differ by at most one.

    Items choose their pools at random; then random members of pools that are too large move to pools that are too
    small. (Filling the smallest pools first would be even too, but makes complementary columns, whose sums cannot be
    told apart.)
    """
    if 2 * weight > pools:  # then the pools that an item is *not* in are the fewer, and as regular
        outside = regular(pools, items, pools - weight, generator)
        inside = torch.ones(pools, items, dtype=torch.bool)
        inside[outside.owners, outside.entries] = False
        owners, entries = inside.nonzero().T
        return Lists.of_pairs(owners, entries, lists=pools, bound=items)
    chosen = _subsets(items, pools, weight, generator)  # (items, weight)
    _even_out(chosen, pools, generator)
    owners, order = chosen.flatten().sort(stable=True)  # stable: the items of each pool stay sorted
    return Lists.of_pairs(owners, order // max(weight, 1), lists=pools, bound=items)


def check_even(pools: int, items: int, weight: int) -> None:
    """Raise a ValueError unless pools of exactly equal size can hold each item `weight` times."""
    if (items * whole("weight", weight, least=0, most=pools)) % pools:
        raise ValueError(
            f"items={items}, weight={weight}, pools={pools} is not valid: equal pools need items * weight "
            f"({items * weight}) divisible by pools; use column_regular for sizes that differ by one."
        )


def _subsets(items: int, pools: int, weight: int, generator: Generator) -> Tensor:
    """For each item `weight` different pools, every set with the same probability (Floyd's algorithm)."""
    chosen = torch.empty(items, weight, dtype=torch.int64, device=generator.device)
    for k in range(weight):
        top = pools - weight + k
        draw = torch.randint(top + 1, (items,), generator=generator, device=generator.device)
        taken = (chosen[:, :k] == draw[:, None]).any(1)
        chosen[:, k] = torch.where(taken, top, draw)
    return chosen


def _even_out(chosen: Tensor, pools: int, generator: Generator) -> None:
    """Change, in place, as few choices as sizes that differ by at most one need, each at random.

    Every round can move something: a pool that is too large holds more items than one that is too small, so some item
    of the first is not in the second.
    """
    flat, device = chosen.view(-1), chosen.device
    sizes = flat.bincount(minlength=pools)
    wanted = torch.full_like(sizes, len(flat) // pools)
    ties = torch.rand(pools, dtype=torch.float64, generator=generator, device=device)
    wanted[(sizes + ties).argsort(descending=True)[: len(flat) % pools]] += 1
    while bool((sizes != wanted).any()):
        surplus, lack = (sizes - wanted).clamp(min=0), (wanted - sizes).clamp(min=0)
        leaving = _random_members(flat, surplus, generator)  # places in `flat`
        target = torch.repeat_interleave(torch.arange(pools, device=device), lack)
        target = target[torch.randperm(len(target), generator=generator, device=device)]
        item = leaving // chosen.shape[1]
        fits = ~(chosen[item] == target[:, None]).any(1) & _first_of_its_kind(item * pools + target)
        flat[leaving[fits]] = target[fits]
        sizes = flat.bincount(minlength=pools)


def _random_members(flat: Tensor, surplus: Tensor, generator: Generator) -> Tensor:
    """Where the members stand that have to leave: of each pool as many as its surplus, at random."""
    places = (surplus[flat] > 0).nonzero().flatten()
    places = places[torch.randperm(len(places), generator=generator, device=flat.device)]
    pool, order = flat[places].sort(stable=True)  # in each pool they stay in random order
    rank = torch.arange(len(pool), device=flat.device) - torch.searchsorted(pool, pool)
    return places[order][rank < surplus[pool]]


def _first_of_its_kind(keys: Tensor) -> Tensor:
    """Whether each key is the first of those equal to it."""
    ordered, order = keys.sort(stable=True)
    first = torch.ones_like(keys, dtype=torch.bool)
    first[order[1:]] = ordered.diff() > 0
    return first
