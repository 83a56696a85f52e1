"""Detecting matrices: pools whose counts tell a few cases apart, found by search.

Lindstrom's and Bshouty's constructions tell n whole numbers apart with about 2 n / log2 n sums as n grows. For the few
groups of a hundred items a search is shorter and finds fewer sums: pools are added one by one, each the one of some
random ones that tells most cases apart, until none are alike.
"""

from collections.abc import Generator, Iterator, Sequence
from itertools import chain, product
from math import prod

import torch
from torch import Tensor

Pool = Sequence[int]
Script = Generator[
    Sequence[Pool], list[int], list[int]
]  # pools of a round, their counts, and in the end the defectives
Group = tuple[Pool, int]  # items, and how many of them are defective
MOST = 4096  # cases that are told apart together
TRIED = 64  # random pools, of which the best is taken


def detected(groups: Sequence[Sequence[Group]]) -> Script:
    """How many of each group's items are defective, all groups together: each may have one of a few numbers."""
    answer: list[int] = []
    for block in _blocks([len(ways) for ways in groups]):
        ways = [groups[i] for i in block]
        cases = torch.tensor([[number for _, number in case] for case in product(*ways)])
        chosen = _telling(cases)
        items = [way[0][0] for way in ways]
        pools = [[item for i in row.nonzero().flatten().tolist() for item in items[i]] for row in chosen]
        counts = (yield pools) if pools else []
        answer += cases[_nearest(cases @ chosen.T, counts)].tolist()
    return answer


def told_apart(groups: Sequence[Sequence[list[int]]]) -> Script:
    """Which items of each group are defective: each may be one of some sets."""
    defective: list[int] = []
    for block in _blocks([len(sets) for sets in groups]):
        sets = [list(chain(*case)) for case in product(*(groups[i] for i in block))]
        items = sorted({item for case in sets for item in case})
        cases = torch.tensor([[int(item in case) for item in items] for case in map(set, sets)])
        chosen = _telling(cases)
        pools = [[items[i] for i in row.nonzero().flatten().tolist()] for row in chosen]
        counts = (yield pools) if pools else []
        defective += sets[_nearest(cases @ chosen.T, counts)]
    return defective


def _blocks(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Neighbours whose cases multiply to a number that can be searched."""
    block: list[int] = []
    for i, size in enumerate(sizes):
        if block and prod(sizes[j] for j in block) * size > MOST:
            yield block
            block = []
        block.append(i)
    if block:
        yield block


def _telling(cases: Tensor) -> Tensor:
    """Rows of 0s and 1s whose sums tell all cases apart: (rows, columns), each the best of some random ones."""
    seeded = torch.Generator().manual_seed(0)  # a script that runs again must choose the same pools
    cell, rows = torch.zeros(len(cases), dtype=torch.int64), []
    while int(cell.max()) + 1 < len(cases):
        tried = torch.rand(TRIED, cases.shape[1], generator=seeded) < 0.5
        tried = torch.cat([tried, torch.eye(cases.shape[1], dtype=torch.bool)]).to(torch.int64)
        keys = cell[:, None] * (int(cases.sum(1).max()) + 1) + cases @ tried.T  # (cases, tried)
        best = max(range(len(tried)), key=lambda i: len(keys[:, i].unique()))
        rows.append(tried[best])
        cell = keys[:, best].unique(return_inverse=True)[1]
    return torch.stack(rows) if rows else torch.zeros(0, cases.shape[1], dtype=torch.int64)


def _nearest(predicted: Tensor, counts: Sequence[int]) -> int:
    """The case whose counts are nearest to those measured."""
    if not len(counts):
        return 0
    return int((predicted - torch.tensor(counts)).abs().sum(1).argmin())
