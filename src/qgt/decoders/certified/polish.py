"""Whole answers: what they cost, and how to make them cheaper one or two items at a time, many at once.

Flipping item j changes the counts of its pools by one, so the cost of every single flip follows from two products with
A: with up_i and down_i what one more and one fewer defective would cost pool i, adding item j costs

    w_j + sum_i A_ij up_i,        dropping it        -w_j + sum_i A_ij down_i,

and swapping j for l costs the two together less sum_i A_ij A_il (up_i + down_i), for pools that hold both keep their
count.
"""

import torch
from torch import Tensor

from qgt.decoders.certified.relaxation import Model, Tables
from qgt.model.prior import FREE

GAIN = 1e-4  # a move must save this much, more than float32 rounds off
SWAPS = 12  # calls that may be swapped out: the cheapest to miss
STEPS = 30


def cost_of(model: Model, tables: Tables, owner: Tensor, x: Tensor) -> Tensor:
    """The cost of whole x (rows, items) of the given instances, infinite where x is impossible; float64."""
    ones = x.float()
    allowed = ((model.known == FREE) | (model.known == x)).all(1)
    number = model.numbers[x.sum(1, dtype=torch.int64)]
    counts = (ones @ model.matrix[:-1].T).to(torch.int64)  # whole numbers, far below 2^24: float32 is exact
    pools = tables.costs[tables.which[owner], counts].sum(1)
    return torch.where(allowed, model.constant + ones.double() @ model.weights + pools + number, torch.inf)


def polished(model: Model, tables: Tables, owner: Tensor, x: Tensor) -> Tensor:
    """Flip the best single item of each x while that makes it cheaper, or swap the best two where it does not."""
    x = x.clone()
    at = torch.arange(len(x), device=x.device)  # those still getting cheaper
    for _ in range(STEPS):
        if not len(at):
            break
        flips, gain = _best_moves(model, tables, owner[at], x[at])
        at, flips = at[gain < -GAIN], flips[gain < -GAIN]
        x[at] ^= flips
    return x


def _best_moves(model: Model, tables: Tables, owner: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """What to flip in each x, one or two items, and what that adds to its cost."""
    matrix, weights, free = model.matrix, model.weights.float(), model.known == FREE
    up, down = _changes(model, tables, owner, x)
    add = torch.where((x == 0) & free, up @ matrix + weights, torch.inf)
    drop = torch.where((x == 1) & free, down @ matrix - weights, torch.inf)
    gain, item = torch.minimum(add, drop).min(1)
    flips = torch.zeros_like(x).scatter_(1, item[:, None], 1)
    stuck = (gain >= -GAIN).nonzero()[:, 0]
    if len(stuck):
        calls = max(1, min(SWAPS, int(x[stuck].sum(1).max())))
        dropped, out = drop[stuck].topk(min(calls, x.shape[1]), 1, largest=False)  # (stuck, calls)
        both = ((up + down)[stuck, None] * matrix.T[out]) @ matrix  # (stuck, calls, items)
        gain[stuck], pair = (dropped[:, :, None] + add[stuck, None] - both).flatten(1).min(1)
        flips[stuck] = 0
        flips[stuck, out.gather(1, pair[:, None] // x.shape[1])[:, 0]] = 1
        flips[stuck, pair % x.shape[1]] = 1
    return flips, gain


def _changes(model: Model, tables: Tables, owner: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """What one more and one fewer defective costs each row."""
    counts = (x.float() @ model.matrix.T).to(torch.int64)
    which, last = tables.which[owner], tables.soft.shape[1] - 1
    here, up, down = (tables.soft[which, (counts[:, :-1] + 1 + move).clamp(0, last)] for move in (0, 1, -1))
    number = counts[:, -1:] + 1  # where the table of numbers has it: it starts at -1
    total = torch.stack([model.soft_numbers[number + move] for move in (0, 1, -1)])  # (3, rows, 1)
    return torch.cat([up - here, total[1] - total[0]], 1), torch.cat([down - here, total[2] - total[0]], 1)
