"""What pools give to their items by the shares of a leaf: the checker's sums. NumPy only, and nothing of the solver.

The shares of all memberships lie one after the other, pool by pool, and the items of a pool in order.
"""

import numpy as np
from numpy.typing import NDArray

from qgt.decoders.certified.leaves import Shared
from qgt.decoders.envelopes import Floats
from qgt.model.prior import FREE


def given_to_items(shared: Shared, shares: Floats) -> Floats:
    """The sum of the shares that each item has: (leaves, items)."""
    total = np.zeros((len(shares), shared.matrix.shape[1]))
    if shares.shape[1]:
        for pool in range(len(shared.starts) - 1):
            members, own = _of_pool(shared, shares, pool)
            total[:, members] += own
    return total


def most_shared(shared: Shared, shares: Floats, pool: int, fixed: NDArray[np.int8] | None) -> Floats:
    """The most that 0, 1, ... items of a pool can have of its shares: (leaves, size + 1).

    With `fixed`, (leaves, items), those fixed to 1 are among them, and those fixed to 0 are not. What is said of
    numbers that a leaf does not have means nothing.
    """
    members, own = _of_pool(shared, shares, pool)
    ones = np.zeros(own.shape, dtype=bool) if fixed is None else fixed[:, members] == 1
    free = np.ones(own.shape, dtype=bool) if fixed is None else fixed[:, members] == FREE
    # The items fixed to 1 come first, then the free ones with the largest shares, then those fixed to 0.
    order = np.argsort(np.where(ones, -np.inf, np.where(free, -own, np.inf)), axis=1, kind="stable")
    return np.pad(np.cumsum(np.take_along_axis(own, order, 1), 1), ((0, 0), (1, 0)))


def _of_pool(shared: Shared, shares: Floats, pool: int) -> tuple[NDArray[np.int64], Floats]:
    """The items of a pool, and their shares: (leaves, size)."""
    start, end = shared.starts[pool], shared.starts[pool + 1]
    return shared.members[start:end], shares[:, start:end]
