"""Detecting matrices: pools whose counts tell a few cases apart, found by search.

Lindstrom's and Bshouty's constructions tell n whole numbers apart with about 2 n / log2 n sums as n grows. For the few
groups of a hundred items a search is shorter and finds fewer sums: pools are added one by one, each the one of some
random ones that tells most cases apart, until none are alike.
"""

from collections.abc import Generator, Iterator, Sequence
from functools import lru_cache
from itertools import chain, product
from math import prod

import torch
from torch import Tensor

Pool = Sequence[int]
Script = Generator[
    Sequence[Pool], list[int], list[int]
]  # pools of a round, their counts, and in the end the defectives
Group = tuple[Pool, int]  # items, and how many of them are defective
MOST = 1024  # cases that are told apart together
TRIED = 32  # random pools, of which the best is taken


def detected(groups: Sequence[Sequence[Group]]) -> Script:
    """How many of each group's items are defective, in one round: each may have one of a few numbers."""
    blocks = []
    for block in _blocks([len(ways) for ways in groups]):
        ways = [groups[i] for i in block]
        cases = torch.tensor([[number for _, number in case] for case in product(*ways)])
        blocks.append((cases, [list(way[0][0]) for way in ways]))
    return [number for row in (yield from _measured(blocks)) for number in row]


def told_apart(groups: Sequence[Sequence[list[int]]]) -> Script:
    """Which items of each group are defective, in one round: each may be one of some sets."""
    blocks, items = [], []
    for block in _blocks([len(sets) for sets in groups]):
        sets = [set(chain(*case)) for case in product(*(groups[i] for i in block))]
        items.append(sorted(set().union(*sets)))
        blocks.append(
            (torch.tensor([[int(item in one) for item in items[-1]] for one in sets]), [[i] for i in items[-1]])
        )
    found = yield from _measured(blocks)
    return [item for own, row in zip(items, found, strict=True) for item, one in zip(own, row, strict=True) if one]


def _measured(
    blocks: Sequence[tuple[Tensor, Sequence[Sequence[int]]]],
) -> Generator[Sequence[Pool], list[int], list[list[int]]]:
    """The case of each block, given as its cases and the items that each of their columns stands for."""
    chosen = [_telling(cases) for cases, _ in blocks]
    pools = [
        [item for column in row.nonzero().flatten().tolist() for item in columns[column]]
        for (_, columns), rows in zip(blocks, chosen, strict=True)
        for row in rows
    ]
    counts = list((yield pools) if pools else [])
    answer = []
    for (cases, _), rows in zip(blocks, chosen, strict=True):
        own, counts = counts[: len(rows)], counts[len(rows) :]
        answer.append([int(number) for number in cases[_nearest(cases @ rows.T, own)].tolist()])
    return answer


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
    """Rows of 0s and 1s whose sums tell all cases apart: (rows, columns)."""
    return _found(bytes(cases.to(torch.uint8).flatten().tolist()), cases.shape[1])


@lru_cache(maxsize=1024)  # a script runs again after every round, over the same cases
def _found(cells: bytes, columns: int) -> Tensor:
    """The rows for cases given as bytes, each the best of some random ones and of single columns."""
    cases = torch.tensor(list(cells)).reshape(-1, columns)
    seeded = torch.Generator().manual_seed(0)  # a script that runs again must choose the same pools
    cell, rows = torch.zeros(len(cases), dtype=torch.int64), []
    while int(cell.max()) + 1 < len(cases):
        tried = torch.rand(TRIED, columns, generator=seeded) < 0.5
        tried = torch.cat([tried, torch.eye(columns, dtype=torch.bool)]).to(torch.int64)
        keys = cell[:, None] * (int(cases.sum(1).max()) + 1) + cases @ tried.T  # (cases, tried)
        best = int((keys.sort(0).values.diff(dim=0) > 0).sum(0).argmax())
        rows.append(tried[best])
        cell = keys[:, best].unique(return_inverse=True)[1]
    return torch.stack(rows) if rows else torch.zeros(0, columns, dtype=torch.int64)


def _nearest(predicted: Tensor, counts: Sequence[int]) -> int:
    """The case whose counts are nearest to those measured."""
    if not len(counts):
        return 0
    return int((predicted - torch.tensor(counts)).abs().sum(1).argmin())
