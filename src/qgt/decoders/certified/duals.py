"""Multipliers of one instance's pools from its linear program, solved by HiGHS: for problems too large for the batch.

The program is the relaxation of `relaxation`, with two changes that make its multipliers better ones.

Items lie between d and 1 - d for a tiny d. The value of the program is then the largest of bound(pi) + d sum_j |r_j|,
so of all multipliers that give the best bound these have large reduced costs. At a corner of the plain program
thousands of items have a reduced cost near 0 though nothing speaks for them; here those that are left are the doubtful
ones (of 20,000 items, 400 instead of 7,000 that an answer 100 times less probable may have otherwise).

Counts may leave what is possible at a price, so that d makes no program impossible, and multipliers stay small.
"""

import time
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from qgt.decoders.envelopes import envelope_of
from qgt.decoders.results import Floats
from qgt.model.lists import Lists
from qgt.model.prior import FREE, ItemCosts

INSIDE = 1e-5  # how far items stay from 0 and 1
STEPS = 20_000  # of the simplex method at most: beyond, the batch's method is the faster one
PRICE = 20.0  # nats, for each count beyond those that are possible


class Dual(NamedTuple):
    """What a linear program gives."""

    pi: Tensor  # (pools,), float32: multipliers
    x: Tensor  # (items,), float64: relaxed
    solved: bool


def solve(lists: Lists, items: ItemCosts, pieces: Floats, deadline: float | None) -> Dual:
    """The linear program of one instance; not solved where time runs out, or its steps do.

    `pieces` is (2 + twice the pieces, pools), as `Tables` has them.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, hstack

    pools, number = len(lists), lists.bound
    starts, inside = lists.starts.numpy(), lists.entries.numpy()
    rows = [_Columns.of(pieces, 0)]
    if items.total is not None:  # the number of defectives is one more row
        envelope = envelope_of(items.total.numpy())
        column = np.concatenate([[envelope.start, envelope.cost], envelope.slopes, envelope.lengths])
        rows.append(_Columns.of(column[:, None], pools))
        starts, inside = np.append(starts, starts[-1] + number), np.concatenate([inside, np.arange(number)])
    start, owner, slopes, lengths = (np.concatenate(parts) for parts in zip(*rows, strict=True))
    matrix = csr_array((np.ones(len(inside)), inside, starts), (len(start), number))
    columns = csr_array((-np.ones(len(owner)), (owner, np.arange(len(owner)))), (len(start), len(owner)))
    known = items.known.numpy()
    lower = np.where(known == FREE, INSIDE, known)
    upper = np.where(known == FREE, 1 - INSIDE, known)
    between = np.column_stack([np.append(lower, np.zeros(len(owner))), np.append(upper, lengths)])
    options: dict[str, float] = {"maxiter": STEPS}
    if deadline is not None:
        options["time_limit"] = max(0.0, deadline - time.perf_counter())
    result = linprog(
        np.append(items.weights.numpy(), slopes),
        A_eq=hstack([matrix, columns], format="csr"),
        b_eq=start,
        bounds=between,
        options=options,
    )
    if result.status != 0:
        return Dual(torch.zeros(pools), torch.zeros(number, dtype=torch.float64), False)
    # How the cost grows with the start of a pool's count is its multiplier.
    pi = torch.from_numpy(result.eqlin.marginals[:pools].astype(np.float32))
    return Dual(pi, torch.from_numpy(np.clip(result.x[:number], 0.0, 1.0)), True)


class _Columns(NamedTuple):
    """The counts of some rows: each is its start and what its pieces add, between 0 and their lengths."""

    start: Floats  # (rows,)
    owner: NDArray[np.int64]  # (pieces of all rows,): the row of each
    slopes: Floats
    lengths: Floats

    @classmethod
    def of(cls, pieces: Floats, first: int) -> "_Columns":
        """Envelopes as `Tables` has them, of rows from `first` on; with a piece at its price before and after them."""
        most, one = (len(pieces) - 2) // 2, np.ones((1, pieces.shape[1]))
        slopes = np.concatenate([-PRICE * one, pieces[2 : 2 + most], PRICE * one])
        lengths = np.concatenate([one, pieces[2 + most :], one])
        some = lengths > 0
        owner = np.broadcast_to(first + np.arange(pieces.shape[1]), some.shape)
        return cls(pieces[0] - 1, owner[some], slopes[some], lengths[some])
