"""The part of the cost that all instances of a problem have in common: NumPy only.

See `qgt.decoders.highs.integer_program` for what is done with it.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qgt.decoders.results import Floats


@dataclass(frozen=True, eq=False)
class Program:
    """What the cost of all instances has in common.

    Example:
        >>> import numpy as np
        >>> from scipy.sparse import csr_array
        >>> program = Program(csr_array(np.array([[1.0, 1.0]])), np.array([2.0, 1.0]), np.zeros(2), np.ones(2))
        >>> program.cost(np.array([0, 1], dtype=np.uint8), np.array([[np.inf, 0.5, np.inf]]))
        1.5
    """

    matrix: Any  # A as a scipy.sparse.csr_array of floats, (pools, items): the pools, then the prior's groups
    weights: Floats  # (items,)
    lower: Floats  # (items,): 1 where an item is known to be defective
    upper: Floats  # (items,): 0 where it is known not to be
    total: Floats | None = None  # (items + 1,): what 0, 1, ... defectives cost by themselves; None: nothing
    constant: float = 0.0
    groups: Floats | None = None  # (groups, numbers): the tables of the matrix's last rows; None: all rows are pools

    def with_groups(self, tables: Floats) -> Floats:
        """The tables (..., pools, counts) of some instances, followed by those of the groups."""
        if self.groups is None:
            return tables
        width = max(tables.shape[-1], self.groups.shape[1])
        groups = np.broadcast_to(self.groups, (*tables.shape[:-2], *self.groups.shape))
        return np.concatenate([_wider(tables, width), _wider(groups, width)], axis=-2)

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The numbers of defectives that may be, in order."""
        least, most = int(self.lower.sum()), int(self.upper.sum())
        numbers = np.arange(least, most + 1)
        return numbers if self.total is None else numbers[np.isfinite(self.total[numbers])]

    def with_number(self, number: int) -> "Program":
        """The same, with no other number of defectives."""
        total = np.full(len(self.weights) + 1, np.inf)
        total[number] = 0.0 if self.total is None else self.total[number]
        return replace(self, total=total)

    def cost(self, x: NDArray[np.uint8], costs: Floats) -> float:
        """The cost of one x under one instance's table (pools, counts); infinite where x is impossible."""
        ones = x.astype(np.float64)
        allowed = (ones >= self.lower).all() and (ones <= self.upper).all()
        if not allowed:
            return np.inf
        counts = (self.matrix @ ones).astype(np.int64)
        number = 0.0 if self.total is None else self.total[int(ones.sum())]
        return float(self.constant + self.weights @ ones + number + costs[np.arange(len(counts)), counts].sum())

    def reachable(self, costs: Floats) -> Floats:
        """The table(s) (..., pools, counts) with infinite cost for counts that no allowed x has."""
        lowest, highest = self.matrix @ self.lower, self.matrix @ self.upper  # (pools,)
        if self.total is not None and len(self.numbers):
            outside = self.lower.sum() - lowest, self.upper.sum() - highest  # fewest and most outside the pool
            lowest = np.maximum(lowest, self.numbers[0] - outside[1])
            highest = np.minimum(highest, self.numbers[-1] - outside[0])
        counts = np.arange(costs.shape[-1])
        return np.where((counts >= lowest[:, None]) & (counts <= highest[:, None]), costs, np.inf)


def _wider(tables: Floats, width: int) -> Floats:
    """Tables with as many counts, those added being impossible."""
    more = np.full((*tables.shape[:-1], width - tables.shape[-1]), np.inf)
    return np.concatenate([tables, more], axis=-1)
