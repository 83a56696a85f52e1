"""Designs made by chance or by a rule: Bernoulli and regular ones, spatially coupled ones, and sparse-graph codes.

All are made as lists, in time and memory in proportion to the transfers, not to pools times items.
"""

import math

import torch
from torch import Generator, Tensor

from qgt.arguments import fraction, whole
from qgt.model.lists import Lists, is_sparse, starts_of

DRAWN_TOGETHER = 2**24  # entries of the matrix, where every entry is drawn


def bernoulli(pools: int, items: int, probability: float, generator: Generator) -> Lists:
    """Each item in each pool independently with the given probability.

    Every entry of the matrix is drawn, or, where few of very many are ones, only the gaps between those.
    """
    if is_sparse(pools * items, pools * items * probability):
        ones = _by_gaps(pools * items, probability, generator)
        return Lists.of_pairs(ones // items, ones % items, lists=pools, bound=items)
    rows = max(1, DRAWN_TOGETHER // items)
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
        owners, entries = (~outside.matrix(torch.bool)).nonzero().T
        return Lists.of_pairs(owners, entries, lists=pools, bound=items)
    chosen = _subsets(items, pools, weight, generator)  # (items, weight)
    _even_out(chosen, pools, generator)
    return Lists.of_columns(chosen, lists=pools)


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
    """The places of the members that have to leave: from each pool as many as its surplus, at random."""
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


# Designs with a structure: spatially coupled ones, and sparse-graph codes.
#
# **Coupled.** Items stand in blocks along a line, pools in groups along it, and an item goes into pools of the groups
# near it only. The groups at both ends have fewer items than the others, so their counts say more about each: decoding
# starts there and moves inwards. Belief propagation then gets by with about as few pools as any decoder could (Kudekar,
# Richardson and Urbanke 2011, Threshold saturation via spatial coupling; for counts Hahn-Klimroth et al. 2023).
#
# **Sparse-graph codes** (Karimi, Kazemi, Heidarzadeh, Narayanan and Sprintson 2019, arXiv 1901.07635). Each item is in
# two or three of about 0.6 K or 1.2 K nodes, K being the number of defectives. A node is a pool of all its items, and
# further pools of those among them that have a 1 in some digit of a signature: the columns of the parity checks of a
# BCH code. The counts of a node with at most t defectives tell which these are. They are taken off the other nodes,
# which then have fewer, and so on: see `qgt.Peeling`. It takes
#
#     m = c(t) K (t log2(l N / (c(t) K) + 1) + 1) + 1    pools, of which this makes a few more (`spare`) to be safe.

# For t = 1 and 2: nodes for each defective (the threshold of peeling), and how many nodes each item is in.
THRESHOLDS, DEGREES = {1: 1.222, 2: 0.597}, {1: 3, 2: 2}
# A primitive polynomial of each degree, as the number whose binary digits are its coefficients.
PRIMITIVE = (
    *(0, 3, 7, 11, 19, 37, 67, 137, 285, 529, 1033, 2053, 4179, 8219, 17475, 32771),
    *(69643, 131081, 262273, 524327, 1048585, 2097157, 4194307, 8388641, 16777351),
)


def coupled(pools: int, items: int, weight: int, blocks: int, width: int, generator: Generator) -> Lists:
    """Each item in exactly `weight` pools, of the `width` groups from its block's on; sizes within a group are even."""
    blocks, width = whole("blocks", blocks, least=1, most=items), whole("width", width, least=1, most=weight)
    groups = blocks + width - 1
    item_starts, pool_starts = _even_starts(items, blocks), _even_starts(pools, groups)
    least = -(-weight // width)
    if pools // groups < least:
        raise ValueError(
            f"pools={pools} is not valid: {groups} groups of pools need {least} each, {groups * least} together; "
            "give more pools or fewer blocks."
        )
    owners, entries = [], []
    for block in range(blocks):
        mine = int(item_starts[block + 1] - item_starts[block])
        for offset in range(width):
            first, end = pool_starts[block + offset : block + offset + 2].tolist()
            part = regular(end - first, mine, weight // width + (offset < weight % width), generator)
            owners.append(part.owners + first)
            entries.append(part.entries + item_starts[block])
    return _sorted_lists(torch.cat(owners), torch.cat(entries), pools, items)


def sparse_graph_code(items: int, defectives: int, corrected: int, spare: float, generator: Generator) -> Lists:
    """Nodes of items with signatures, for so many defectives; the counts of a node identify up to `corrected`."""
    corrected = whole("corrected", corrected, least=1, most=2)
    degree = DEGREES[corrected]
    share = THRESHOLDS[corrected] * (1 + fraction("spare", spare))
    nodes = max(math.ceil(share * whole("defectives", defectives, least=1, most=items)), 2 * degree)
    members = regular(nodes, items, degree, generator)
    digits = max(int(members.sizes.max()).bit_length(), 2)  # 2^digits - 1 columns are enough
    if digits >= len(PRIMITIVE):
        raise ValueError(f"items={items} is not valid: nodes of {int(members.sizes.max())} items are too large.")
    place = torch.arange(len(members.entries)) - members.starts[members.owners]
    signature = signatures(digits, corrected)[place]
    block = 1 + digits * corrected  # pools of a node
    owners, entries = [members.owners * block], [members.entries]
    for digit in range(digits * corrected):
        inside = (signature >> digit) & 1 == 1
        owners.append(members.owners[inside] * block + 1 + digit)
        entries.append(members.entries[inside])
    return _sorted_lists(torch.cat(owners), torch.cat(entries), nodes * block, items)


def signatures(digits: int, corrected: int) -> Tensor:
    """The columns a^i, or a^i and a^(3 i) after each other, of a BCH code's parity checks, as numbers.

    Example:
        >>> signatures(2, 1)
        tensor([1, 2, 3])
    """
    size, power, powers = 2**digits - 1, 1, []
    for _ in range(size):
        powers.append(power)
        power = power << 1 ^ (PRIMITIVE[digits] if power >> digits - 1 else 0)
    once = torch.tensor(powers)
    return once if corrected == 1 else once | once[3 * torch.arange(size) % size] << digits


def _even_starts(size: int, parts: int) -> Tensor:
    """Where parts of nearly equal size begin and end."""
    sizes = torch.full((parts,), size // parts)
    sizes[torch.arange(size % parts) * parts // max(size % parts, 1)] += 1  # the larger ones spread evenly
    return starts_of(sizes)


def _sorted_lists(owners: Tensor, entries: Tensor, pools: int, items: int) -> Lists:
    order = (owners * items + entries).argsort()
    return Lists.of_pairs(owners[order], entries[order], lists=pools, bound=items)
