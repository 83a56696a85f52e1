"""Rows of a matrix that stand in each other's place: whole pools, or whole items, that were exchanged."""

from jaxtyping import Float64, UInt8
from torch import Tensor


def swapped(recovered: UInt8[Tensor, "rows n"], claimed: UInt8[Tensor, "rows n"]) -> list[tuple[int, int]]:
    """Pairs of rows that are each much nearer to the other's claim than to their own.

    Example:
        >>> import torch
        >>> claimed = torch.tensor([[1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [1, 0, 1, 0, 1, 0]], dtype=torch.uint8)
        >>> swapped(claimed[[1, 0, 2]], claimed)
        [(0, 1)]
    """
    a, b = recovered.double(), claimed.double()
    distance: Float64[Tensor, "rows rows"] = a.sum(1)[:, None] + b.sum(1) - 2 * a @ b.T  # differing entries
    own, nearest = distance.diagonal(), distance.argmin(1)
    moved = (distance.amin(1) < own / 3) & (own >= 3)
    pairs = ((i, int(nearest[i])) for i in moved.nonzero().flatten().tolist())
    return [(i, j) for i, j in pairs if i < j and bool(moved[j]) and int(nearest[j]) == i]


def exchange(matrix: UInt8[Tensor, "rows n"], pairs: list[tuple[int, int]]) -> UInt8[Tensor, "rows n"]:
    """The matrix with pairs of rows exchanged.

    Example:
        >>> import torch
        >>> exchange(torch.tensor([[1, 0], [0, 1]], dtype=torch.uint8), [(0, 1)])
        tensor([[0, 1],
                [1, 0]], dtype=torch.uint8)
    """
    order = list(range(len(matrix)))
    for a, b in pairs:
        order[a], order[b] = b, a
    return matrix[order]
