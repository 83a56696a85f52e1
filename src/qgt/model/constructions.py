"""Designs with a structure: spatially coupled ones, and sparse-graph codes.

**Coupled.** Items stand in blocks along a line, pools in groups along it, and an item goes into pools of the groups
near it only. The groups at both ends have fewer items than the others, so their counts say more about each: decoding
starts there and moves inwards. Belief propagation then gets by with about as few pools as any decoder could (Kudekar,
Richardson and Urbanke 2011, Threshold saturation via spatial coupling; for counts Hahn-Klimroth et al. 2023).

**Sparse-graph codes** (Karimi, Kazemi, Heidarzadeh, Narayanan and Sprintson 2019, arXiv 1901.07635). Each item is in
two or three of about 0.6 K or 1.2 K nodes, K being the number of defectives. A node is a pool of all its items, and
further pools of those among them that have a 1 in some digit of a signature: the columns of the parity checks of a BCH
code. The counts of a node with at most t defectives tell which these are. They are taken off the other nodes, which
then have fewer, and so on: see `qgt.Peeling`. It takes

    m = c(t) K (t log2(l N / (c(t) K) + 1) + 1) + 1    pools, of which this makes a few more (`spare`) to be safe.
"""

import math

import torch
from torch import Generator, Tensor

from qgt.arguments import fraction, whole
from qgt.model.lists import Lists, starts_of
from qgt.model.makers import regular

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
    return _lists(torch.cat(owners), torch.cat(entries), pools, items)


def sparse_graph_code(items: int, defectives: int, corrected: int, spare: float, generator: Generator) -> Lists:
    """Nodes of items with signatures, for so many defectives, up to `corrected` of which a node can tell."""
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
    return _lists(torch.cat(owners), torch.cat(entries), nodes * block, items)


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


def _lists(owners: Tensor, entries: Tensor, pools: int, items: int) -> Lists:
    order = (owners * items + entries).argsort()
    return Lists.of_pairs(owners[order], entries[order], lists=pools, bound=items)
