"""Designs with few transfers: every sample in the same few pools, pools even, pairs of samples sharing few pools.

A transfer is a movement of a pipette, so a laboratory can use a design of weight 4 to 8 where the paper's takes half of
all samples into each pool. With few ones per column it matters which ones: two samples that share many pools are hard
to tell apart. Starting from a random column-regular design, swaps improve it: sample j leaves pool a for pool b, sample
k leaves b for a, so no weight and no pool's size changes. A swap stays where it lowers

    the sum over pairs of samples of cost(pools shared),

with a cost that grows as the fourth power, for the mean is fixed and the worst pairs matter; twins, which share all
pools, cost far more than anything else, and those that are left are parted in the end if the pools suffice for it.
Members of one household can be kept apart (their pairs cost more) or together (they should share all pools but two).
Everything is drawn from the generator, so equal seeds give equal designs.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import torch
from torch import Generator

from qgt.arguments import whole
from qgt.model import combinatorial
from qgt.model.design import Design

TRIES = 10  # swaps tried for each transfer
TWINS = 1000.0  # what two samples in exactly the same pools cost
APART, TOGETHER = 40.0, 4.0  # how much more a pair of one household counts


def few_transfers(
    *,
    items: int,
    pools: int,
    weight: int,
    households: Sequence[str] | None = None,
    together: bool = False,
    pool_names: Sequence[str] = (),
    item_names: Sequence[str] = (),
    generator: Generator,
) -> Design:
    """A design of constant weight whose pairs of items share few pools.

    Args:
        items: The number of items.
        pools: The number of pools.
        weight: The number of pools that each item is in.
        households: A label for each item; items of one label are kept apart, or together.
        together: Whether the items of one household share most pools instead of few.
        pool_names: Names of the pools, if not P1, P2, ...
        item_names: Names of the items, if not I1, I2, ...
        generator: Where the random numbers come from.

    Example:
        >>> import torch
        >>> g = torch.Generator().manual_seed(0)
        >>> design = few_transfers(items=24, pools=12, weight=4, generator=g)
        >>> sorted(set(design.item_degrees.tolist())), sorted(set(design.pool_sizes.tolist()))
        ([4], [8])
        >>> int((design.matrix.T.int() @ design.matrix.int()).fill_diagonal_(0).max())
        2
    """
    items, pools = whole("items", items, least=1), whole("pools", pools, least=1)
    weight = whole("weight", weight, least=1, most=pools)
    if households is not None and len(households) != items:
        raise ValueError(f"households holds {len(households)} labels for {items} items: give one for each.")
    start = Design.column_regular(pools=pools, items=items, weight=weight, generator=generator)
    matrix = start.matrix.numpy().T.copy()  # (items, pools)
    costs = _pair_costs(items, weight, households, together)
    _improve(matrix, costs, TRIES * items * weight, generator)
    if math.comb(pools, weight) >= items:
        _part_twins(matrix, generator)
    return Design.from_matrix(torch.from_numpy(matrix.T.copy()), pool_names, item_names)


def fit_triples(items: int, pools: int) -> bool:
    """Whether triples of so many pools have pools of equal size, up to one: Kirkman's always, Steiner's if complete.

    Example:
        >>> fit_triples(96, 33), fit_triples(96, 32), fit_triples(96, 21)
        (True, False, False)
    """
    if pools % 6 == 1:
        return pools >= 7 and items == pools * (pools - 1) // 6
    return pools % 6 == 3 and pools >= 9 and items <= len(combinatorial.kirkman(pools).flatten(0, 1))


def triples(*, items: int, pools: int, item_names: Sequence[str] = ()) -> Design:
    """Each item in three pools, no two items together in more than one: Kirkman's triples, or Steiner's.

    Args:
        items: The number of items.
        pools: The number of pools, for which `fit_triples` is true.
        item_names: Names of the items, if not I1, I2, ...

    Example:
        >>> design = triples(items=96, pools=33)
        >>> design.pool_sizes.max(), shared_pools(design)[0]
        (tensor(9), 1)
    """
    make = Design.kirkman_triples if pools % 6 == 3 else Design.steiner_triples
    return replace(make(pools=pools, items=items), own_item_names=tuple(item_names) or None)


def has_twins(design: Design) -> bool:
    """Whether two items are in exactly the same pools, so that no counts can tell one from the other.

    Example:
        >>> from qgt import Design
        >>> has_twins(Design.from_rows(["110", "111"])), has_twins(Design.from_rows(["110", "101"]))
        (True, False)
    """
    return len(design.matrix.T.unique(dim=0)) < design.items


def shared_pools(design: Design) -> tuple[int, float]:
    """The most pools that two items share, and the mean over all pairs.

    Example:
        >>> from qgt import Design
        >>> shared_pools(Design.from_rows(["110", "111"]))
        (2, 1.3333333333333333)
    """
    if design.items < 2:
        return 0, 0.0
    matrix = design.matrix.to(torch.float32)
    shared = (matrix.T @ matrix)[*torch.triu_indices(design.items, design.items, 1)]
    return int(shared.max()), float(shared.to(torch.float64).mean())


def _part_twins(matrix: "np.ndarray", generator: Generator) -> None:
    """Give every item that is in exactly the pools of another one pools of its own, in place, as far as there are any.

    The pools stay as even as before wherever another item can take the place that the twin leaves; otherwise the twin
    goes into small pools.
    """
    seen = Counter(row.tobytes() for row in matrix)
    for item in range(len(matrix)):
        if seen[matrix[item].tobytes()] > 1 and not _swap_twin(matrix, item, seen, generator):
            _move_twin(matrix, item, seen)


def _swap_twin(matrix: "np.ndarray", item: int, seen: Counter[bytes], generator: Generator) -> bool:
    """Let a twin change one pool with some other item, so that both are in pools that no other item is in."""
    for other in torch.randperm(len(matrix), generator=generator).tolist():
        leaving, coming = (matrix[item] > matrix[other]).nonzero()[0], (matrix[other] > matrix[item]).nonzero()[0]
        for a, b in product(leaving, coming):
            mine, theirs = matrix[item].copy(), matrix[other].copy()
            mine[[a, b]], theirs[[a, b]] = (0, 1), (1, 0)
            new = {mine.tobytes(), theirs.tobytes()}
            if len(new) == 2 and not any(seen[key] for key in new):
                seen.subtract([matrix[item].tobytes(), matrix[other].tobytes()])
                seen.update(new)
                matrix[item], matrix[other] = mine, theirs
                return True
    return False


def _move_twin(matrix: "np.ndarray", item: int, seen: Counter[bytes]) -> None:
    """Put a twin into pools that no item has, the smallest pools first; where every choice is taken, leave it."""
    order = matrix.sum(0).argsort(kind="stable").tolist()
    for chosen in combinations(order, int(matrix[item].sum())):
        mine = np.zeros_like(matrix[item])
        mine[list(chosen)] = 1
        if not seen[mine.tobytes()]:
            seen.subtract([matrix[item].tobytes()])
            seen.update([mine.tobytes()])
            matrix[item] = mine
            return


def _pair_costs(
    items: int, weight: int, households: Sequence[str] | None, together: bool
) -> "tuple[np.ndarray, np.ndarray]":
    """The kind of every pair of items, and what sharing 0, 1, ... pools costs for each kind."""
    shared = np.arange(weight + 1, dtype=np.float64)
    plain = shared**4
    own = TOGETHER * (shared - max(weight - 2, 0)) ** 2 if together else APART * shared**4
    tables = np.stack([plain, own])
    tables[:, weight] += TWINS
    kind = np.zeros((items, items), dtype=np.int64)
    if households is not None:
        label = np.array(list(households))
        kind = (label[:, None] == label[None, :]).astype(np.int64)
    return kind, tables


def _improve(matrix: "np.ndarray", costs: "tuple[np.ndarray, np.ndarray]", tries: int, generator: Generator) -> None:
    """Swap, in place, as long as it helps; every try looks at two random items and one pool of each."""
    kind, tables = costs
    items, pools = matrix.shape
    if items < 3 or pools < 3:
        return
    shared = matrix.astype(np.int64) @ matrix.astype(np.int64).T  # (items, items)
    draws = torch.rand(tries, 4, dtype=torch.float64, generator=generator).numpy()
    others = np.ones(items, dtype=bool)
    for draw in draws:
        j, k = int(draw[0] * items), int(draw[1] * items)
        mine, theirs = matrix[j] > matrix[k], matrix[k] > matrix[j]
        leaving, coming = mine.nonzero()[0], theirs.nonzero()[0]
        if not len(leaving):
            continue
        a, b = leaving[int(draw[2] * len(leaving))], coming[int(draw[3] * len(coming))]
        change = matrix[:, b].astype(np.int64) - matrix[:, a]  # to what j shares with each; k's is the opposite
        others[[j, k]] = False
        before = tables[kind[j], shared[j]] + tables[kind[k], shared[k]]
        after_j, after_k = shared[j] + change * others, shared[k] - change * others
        after = tables[kind[j], after_j] + tables[kind[k], after_k]
        gain = (before - after)[others].sum()
        others[[j, k]] = True
        if gain > 0:  # what j and k share with each other stays as it is
            matrix[j, [a, b]], matrix[k, [a, b]] = (0, 1), (1, 0)
            keep_j, keep_k = shared[j, [j, k]], shared[k, [j, k]]
            shared[j], shared[k] = after_j, after_k
            shared[j, [j, k]], shared[k, [j, k]] = keep_j, keep_k
            shared[:, j], shared[:, k] = shared[j], shared[k]
