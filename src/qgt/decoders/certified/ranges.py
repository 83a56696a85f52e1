"""Tables that are not convex, over the counts that a node leaves possible.

A negative pool costs b as soon as one item is defective. Over counts from 0 to 11 its convex envelope charges b/11 for
the first, which is next to nothing. But a node fixes items, and a pool with `lowest` of its items fixed to 1 and
`highest` not fixed to 0 has a count between the two: over 0 to 2 the envelope charges b/2, and from 1 on all of b. So
tables with steps get an envelope for each range that occurs, and every item can be tried: with it defective, its pools
have one more at least, and with it not defective one fewer at most.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from qgt.decoders.certified.costs import Tables, shortened
from qgt.decoders.envelopes import corners_of, envelope_of
from qgt.decoders.results import Floats
from qgt.model.prior import FREE

WIDE = 200  # a range of more counts than this is as good as none
OFTEN = 0.05  # of a batch's counts
LEAST = 1e-3  # nats: a smaller charge is none
TIED = 1e-9  # nats: costs that differ by less are equal but for rounding
DEAR = 1e6  # nats: what an impossible range costs more, in sums


def has_steps(table: Floats) -> bool:
    """Whether a table is not convex, or allows a single count at its end, which settles all items of the pool.

    Example:
        >>> has_steps(np.array([0.0, 3.0, 3.0])), has_steps(np.array([3.0, 0.0, 3.0]))
        (True, False)
    """
    counts = np.flatnonzero(np.isfinite(table))
    if not len(counts):
        return False
    if len(counts) == 1:
        return bool(counts[0] == 0)
    corners, _ = corners_of(counts, table[counts])
    return bool(len(corners) < len(counts) or len(counts) < counts[-1] - counts[0] + 1)


def charge_of(table: Floats) -> float:
    """How much more the first defective costs than the slope after it says, where none at all is the cheapest.

    Example:
        >>> charge_of(np.array([0.0, 3.0, 3.5, 4.0])), charge_of(np.array([3.0, 0.0, 0.0]))
        (2.5, 0.0)
    """
    if len(table) < 3 or not np.isfinite(table[:3]).all() or table.argmin() > 0:
        return 0.0
    rest = table.copy()
    rest[0] = np.inf
    charge = float(table[1] - table[0] - envelope_of(rest).slopes[0])
    return charge if charge > LEAST else 0.0


def charges_of(costs: Tensor) -> Tensor:
    """The charges of tables (values, counts): (values,), float64."""
    return torch.tensor([charge_of(row) for row in costs.cpu().numpy()], dtype=torch.float64, device=costs.device)


@dataclass(eq=False)
class Ranges:
    """The envelopes of tables over ranges of counts, made when they are first asked for."""

    tables: Tables
    steps: Tensor  # (values,), bool: which tables have steps, or impossible counts
    pieces: Tensor  # those of the tables, then one column for each range
    rest: Tensor  # (values, counts): the tables from count 0 on, less what is charged elsewhere (`shares`)
    known: dict[int, int] = field(default_factory=dict)  # the column of each range, by a number that names it

    @classmethod
    def of(cls, tables: Tables, *, charged: bool = False) -> "Ranges | None":
        """None where few counts have tables with steps, and ranges would cost more than they tell."""
        steps = torch.tensor([has_steps(row) for row in tables.costs.cpu().numpy()], dtype=torch.bool)
        steps = steps.to(tables.which.device)
        often = float(steps[tables.which].float().mean()) >= OFTEN if tables.which.numel() else False
        some = steps | tables.costs.isinf().any(1)  # a range may leave only what is impossible
        rest = tables.costs.clone()
        if charged:
            rest[:, 1:] -= charges_of(tables.costs)[:, None]
        return cls(tables, some, tables.pieces, rest) if often else None

    def columns(self, which: Tensor, lowest: Tensor, highest: Tensor) -> Tensor:
        """Where `pieces` has the envelopes of tables `which` between two counts: (nodes, pools)."""
        some = (self.steps[which] & (highest - lowest <= WIDE)).nonzero(as_tuple=True)
        width = self.tables.costs.shape[1]
        names = (which[some] * width + lowest[some]) * width + highest[some]
        different, inverse = names.unique(return_inverse=True)
        new = [name for name in different.tolist() if name not in self.known]
        if new:
            self._add(new, width)
        columns = torch.tensor([self.known[name] for name in different.tolist()], device=which.device)
        found = which.clone()
        found[some] = columns[inverse] if len(columns) else found[some]
        return found

    def _add(self, names: list[int], width: int) -> None:
        """Make the envelopes of some ranges."""
        tables, rest_of, made = self.tables.costs.cpu().numpy(), self.rest.cpu().numpy(), []
        for name in names:
            rest, highest = divmod(name, width)
            value, lowest = divmod(rest, width)
            part = np.full(width, np.inf)
            part[lowest : highest + 1] = (tables if lowest else rest_of)[value, lowest : highest + 1]
            made.append(shortened(envelope_of(part)))
        before = (len(self.pieces) - 2) // 2
        most = max([before, *(len(envelope.slopes) for envelope in made)])
        columns = np.zeros((2 + 2 * most, len(made)))
        for column, (start, cost, slopes, lengths) in zip(columns.T, made, strict=True):
            column[:2] = start, cost
            column[2 : 2 + len(slopes)] = slopes
            column[2 + most : 2 + most + len(slopes)] = lengths
        old = self.pieces
        none = torch.zeros(most - before, old.shape[1], dtype=old.dtype, device=old.device)
        old = torch.cat([old[: 2 + before], none, old[2 + before :], none])
        self.known |= {name: old.shape[1] + i for i, name in enumerate(names)}
        self.pieces = torch.cat([old, torch.from_numpy(columns).to(old.device)], 1)

    def least(self, which: Tensor, lowest: Tensor, highest: Tensor, pi: Tensor) -> Tensor:
        """The minimum over each range of the table plus pi times the count: (nodes, pools)."""
        columns = self.columns(which, lowest, highest)
        start, cost, *rest = self.pieces[:, columns]
        both = torch.stack(rest)
        slopes, lengths = both.chunk(2)
        least: Tensor = cost + pi * start + ((slopes + pi).clamp(max=0.0) * lengths).sum(0)
        return least


def counts_between(matrix: Tensor, fixed: Tensor) -> tuple[Tensor, Tensor]:
    """The least and the most count of each pool in each node: (nodes, pools) each."""
    lowest = (fixed == 1).float() @ matrix.T  # whole numbers, far below 2^24: float32 is exact
    return lowest.long(), (lowest + (fixed == FREE).float() @ matrix.T).long()


Due = Callable[[Tensor], Tensor]


def nothing_due(lowest: Tensor) -> Tensor:
    """Without charges."""
    return torch.zeros_like(lowest, dtype=torch.float64)


def turning_costs(
    ranges: Ranges,
    matrix: Tensor,
    owner: Tensor,
    fixed: Tensor,
    own: Tensor,
    tied: Tensor,
    pi: Tensor,
    due: Due = nothing_due,
) -> Tensor:
    """What pools cost more at least when an item is turned from what it is in `own`: (nodes, items), float64.

    Items are `tied` that an equally cheap x has turned round: rounding decides which of the two is taken, and whoever
    checks a leaf may take the other, so they count as turned the cheaper way. `due` says what charges cost each pool
    beside its table, with so many defectives or more.
    """
    which, (lowest, highest) = ranges.tables.which[owner], counts_between(matrix, fixed)
    narrow = ranges.steps[which] & (highest - lowest <= WIDE) & (lowest < highest)
    least, more = ranges.least(which, lowest, highest, pi), torch.minimum(lowest + 1, highest)
    up = ranges.least(which, more, highest, pi) - least + due(more) - due(lowest)
    down = ranges.least(which, lowest, torch.maximum(highest - 1, lowest), pi) - least
    sure = narrow & least.isfinite()
    up, down = (torch.where(sure, change.clamp(0.0, DEAR), 0.0) @ matrix.double() for change in (up, down))
    return torch.where(tied, torch.minimum(up, down), torch.where(own == 1, down, up))
