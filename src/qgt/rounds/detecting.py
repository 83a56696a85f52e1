"""Detecting matrices: pools whose counts tell a few cases apart, found by search.

Lindstrom's and Bshouty's constructions tell n whole numbers apart with about 2 n / log2 n sums as n grows. For the few
groups of a hundred items a search is shorter and finds fewer sums: pools are added one by one, each the one of some
random ones that tells most cases apart, until none are alike.
"""

from collections.abc import Generator, Iterator, Sequence
from functools import lru_cache
from itertools import combinations, product
from math import prod

import torch
from torch import Tensor

Pool = Sequence[int]
Script = Generator[
    Sequence[Pool], list[int], list[int]
]  # pools of a round, their counts, and in the end the defectives
Group = tuple[Pool, int]  # items, and how many of them are defective
Block = tuple[Tensor, list[list[int]]]  # cases, and the items that each of their columns stands for
MOST = 1024  # cases that are told apart together
TRIED = 32  # random pools, of which the best is taken


def detected(groups: Sequence[Sequence[Group]]) -> Script:
    """How many of each group's items are defective, in one round: each may have one of a few numbers."""
    return [number for row in (yield from _measured(_cases(groups))) for number in row]


def concatenated(groups: Sequence[Group]) -> Script:
    """Which items of each group are defective, in one round, given how many are.

    Within a group an inner code, 0/1 rows whose counts tell all sets of that many items apart; across groups, row by
    row, detecting matrices that give the counts of all groups' rows from fewer sums.
    """
    sets = [_subsets(len(items), number) for items, number in groups]
    codes = [_telling(some) for some in sets]
    blocks: list[Block] = []
    for row in range(max(map(len, codes), default=0)):
        some = [(group, code[row]) for group, code in zip(groups, codes, strict=True) if row < len(code)]
        blocks += _cases([_ways(group, inside) for group, inside in some])
    counts = iter([number for block in (yield from _measured(blocks)) for number in block])
    told: list[list[int]] = [[] for _ in groups]
    for row in range(max(map(len, codes), default=0)):
        for own, code in zip(told, codes, strict=True):
            if row < len(code):
                own.append(next(counts))
    defective: list[int] = []
    for (items, _), cases, code, own in zip(groups, sets, codes, told, strict=True):
        found = cases[_nearest(cases @ code.T, own)].tolist()
        defective += [item for item, one in zip(items, found, strict=True) if one]
    return defective


def _ways(group: Group, row: Tensor) -> list[Group]:
    """The part of a group that a row takes, with each number of defectives that it may have."""
    items, number = group
    inside = [item for item, one in zip(items, row.tolist(), strict=True) if one]
    least, most = max(0, number - (len(items) - len(inside))), min(number, len(inside))
    return [(inside, count) for count in range(least, most + 1)]


def _cases(groups: Sequence[Sequence[Group]]) -> list[Block]:
    """Blocks of groups that share no item, with all their cases."""
    blocks = []
    for block in _blocks([len(ways) for ways in groups]):
        ways = [groups[i] for i in block]
        cases = torch.tensor([[number for _, number in case] for case in product(*ways)])
        blocks.append((cases, [list(way[0][0]) for way in ways]))
    return blocks


def _subsets(items: int, number: int) -> Tensor:
    """All sets of so many items, one a row."""
    chosen = torch.tensor(list(combinations(range(items), number)))
    return torch.zeros(len(chosen), items, dtype=torch.int64).scatter_(1, chosen, 1)


def _measured(
    blocks: Sequence[Block],
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
