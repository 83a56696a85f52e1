"""Whole answers: what they cost, and how to make them cheaper one or two items at a time, many at once.

Flipping item j changes the counts of its pools by one, so the cost of every single flip follows from two products with
A: with up_i and down_i what one more and one fewer defective would cost pool i, adding item j costs

    w_j + sum_i A_ij up_i,        dropping it        -w_j + sum_i A_ij down_i,

and swapping j for l costs the two together less sum_i A_ij A_il (up_i + down_i), for pools that hold both keep their
count.
"""

import torch
from torch import Tensor

from qgt.decoders.certified.costs import Model, Tables
from qgt.model.prior import FREE

GAIN = 1e-4  # a move must save this much, more than float32 rounds off
SWAPS = 12  # calls that may be swapped out: the cheapest to miss
STEPS = 30
NODE_STEPS = 3  # for a node's rounded x: its children's are polished in their turn


def cost_of(model: Model, tables: Tables, owner: Tensor, x: Tensor) -> Tensor:
    """The cost of whole x (rows, items) of the given instances, infinite where x is impossible; float64."""
    ones = x.float()
    allowed = ((model.known == FREE) | (model.known == x)).all(1)
    number = model.numbers[x.sum(1, dtype=torch.int64)]
    counts = (ones @ model.matrix[:-1].T).to(torch.int64)  # whole numbers, far below 2^24: float32 is exact
    rest = tables.costs[tables.which[owner], counts].sum(1) + number
    if model.groups is not None:
        rest = rest + model.groups.of(x)
    return torch.where(allowed, model.constant + ones.double() @ model.weights + rest, torch.inf)


def polished(model: Model, tables: Tables, owner: Tensor, x: Tensor, steps: int = STEPS) -> Tensor:
    """Flip the best single item of each x while that makes it cheaper, or swap the best two where it does not."""
    x = x.clone()
    at = torch.arange(len(x), device=x.device)  # those still getting cheaper
    for _ in range(steps):
        if not len(at):
            break
        flips, gain = _best_moves(model, tables, owner[at], x[at])
        at, flips = at[gain < -GAIN], flips[gain < -GAIN]
        x[at] ^= flips
    return x


def _best_moves(model: Model, tables: Tables, owner: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """What to flip in each x, one or two items, and what that adds to its cost."""
    matrix, weights, free = model.moves, model.weights.float(), model.known == FREE
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
    """What one more and one fewer defective costs each row of `model.moves`."""
    counts = (x.float() @ model.moves.T).to(torch.int64)
    pools = model.matrix.shape[0] - 1
    rises = tables.rises
    at = torch.add(counts[:, :pools], tables.which[owner], alpha=rises.shape[1])  # in the flattened table
    number = counts[:, pools : pools + 1]
    up = [rises.take(at + 1), model.number_rises.take(number + 1)]
    down = [rises.take(at), model.number_rises.take(number)]
    if model.groups is not None:
        at = counts[:, pools + 1 :] + model.group_rises.shape[1] * torch.arange(len(model.group_rises), device=x.device)
        up.append(model.group_rises.take(at + 1))
        down.append(model.group_rises.take(at))
    return torch.cat(up, 1), -torch.cat(down, 1)
