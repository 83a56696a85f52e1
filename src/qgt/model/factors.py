"""Factors: a problem and its counts as one sum of costs.

    cost(x) = -log P(x, y) = costs of the prior (`ItemCosts`)  +  sum_i f_i((A x)_i),        f_i(c) = -log P(y_i | c).

Each pool with its count is a factor: some items, and a table of what it costs that 0, 1, ... of them are defective,
infinite where that is impossible. This is the form that the exact decoders and the checker of proofs work on: what a
noise is called, and what its reports mean, is known here and nowhere above.

Tables that are equal are kept once. With whole counts they are few, however many instances there are. A missing count,
NaN, is no factor: its table is all zeros.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float64, Int64, UInt8
from torch import Tensor

from qgt.model.design import Design
from qgt.model.noise import Noise, by_pool
from qgt.model.prior import ItemCosts

MOST_TABLE_ENTRIES = 2**24  # entries of all tables at which it pays to look for equal reports of equal pools first


@dataclass(frozen=True, eq=False)
class PoolCosts:
    """The tables of a batch's counts; entries beyond a pool's size are never looked at.

    Example:
        >>> import torch, qgt
        >>> design = qgt.Design.from_rows(["110", "011"])
        >>> pool_costs(design, qgt.Noiseless(), torch.tensor([[1.0, 2.0]], dtype=torch.float64)).of_instance(0)
        tensor([[inf, -0., inf],
                [inf, inf, -0.]], dtype=torch.float64)
    """

    tables: Float64[Tensor, "kinds counts"]
    which: Int64[Tensor, "instances pools"]  # which table each count has

    def of_instance(self, instance: int) -> Float64[Tensor, "pools counts"]:
        """One instance's tables, pool by pool."""
        return self.tables[self.which[instance]]

    def possible(self, sizes: Int64[Tensor, " pools"]) -> Tensor:
        """Whether each count, taken alone, is possible for some number of defectives: (instances, pools), bool."""
        up_to = (self.tables < torch.inf).cumsum(1) > 0  # (kinds, counts): possible for some number up to this one
        return up_to[self.which, sizes.to(self.which.device).expand_as(self.which)]


def finite_tables(
    tables: Float64[Tensor, "kinds counts"], *, price: float, step: float
) -> Float64[Tensor, "kinds counts"]:
    """Tables without infinities, for searches that must find their way back from what is impossible.

    An impossible count costs as much as the dearest possible one, and `price` more, and `step` more for each count that
    it is off the nearest possible one.

    Example:
        >>> import torch
        >>> finite_tables(torch.tensor([[torch.inf, torch.inf, 3.0]], dtype=torch.float64), price=1.0, step=10.0)
        tensor([[24., 14.,  3.]], dtype=torch.float64)
    """
    possible = tables < torch.inf
    counts = torch.arange(tables.shape[1], dtype=tables.dtype, device=tables.device)
    below = torch.where(possible, counts, -torch.inf).cummax(1).values  # the nearest possible count
    above = torch.where(possible, counts, torch.inf).flip(1).cummin(1).values.flip(1)
    distance = torch.minimum(counts - below, above - counts).nan_to_num(posinf=float(len(counts)))
    dearest = torch.where(possible, tables, 0.0).amax(1, keepdim=True)
    return torch.where(possible, tables, dearest + price + step * distance)


def pool_costs(design: Design, noise: Noise, y: Float64[Tensor, "instances pools"]) -> PoolCosts:
    """Ask the noise for the table of every report; those that are missing have one of zeros.

    A noise that gives no number for a report at some count, or an infinite density, is refused by name: what is decoded
    or proved with such a table would mean nothing.

    Example:
        >>> import torch, qgt
        >>> design = qgt.Design.from_rows(["110", "011"])
        >>> pool_costs(design, qgt.Noiseless(), torch.tensor([[torch.nan, 2.0]], dtype=torch.float64)).of_instance(0)
        tensor([[0., 0., 0.],
                [inf, inf, -0.]], dtype=torch.float64)
    """
    missing = y.isnan()
    if not bool(missing.any()):
        return _reported(design, noise, y)
    seen = y[~missing]
    found = _reported(design, noise, torch.where(missing, seen[0] if len(seen) else 0.0, y))
    tables = torch.cat([found.tables, torch.zeros_like(found.tables[:1])])
    return PoolCosts(tables, torch.where(missing, len(found.tables), found.which))


def _reported(design: Design, noise: Noise, y: Tensor) -> PoolCosts:
    """The tables of reports none of which is missing, each pool's by its own noise."""
    sizes = design.pool_sizes.to(y.device)
    each = by_pool(noise)
    if each is None:
        return _tables(noise, sizes, y)
    tables: list[Tensor] = []
    width, which = int(sizes.max()) + 1, torch.empty_like(y, dtype=torch.int64)
    for one, pools in each.pools_of().items():
        found = _tables(one, sizes[pools], y[:, pools])
        which[:, pools] = found.which + sum(len(part) for part in tables)
        tables.append(torch.nn.functional.pad(found.tables, (0, width - found.tables.shape[1]), value=torch.inf))
    return PoolCosts(torch.cat(tables), which)


def _tables(noise: Noise, pool_sizes: Tensor, y: Tensor) -> PoolCosts:
    """Ask the noise once for every report of every size of pool that occurs, or once for all sizes where they agree."""
    values, value = _distinct(y)
    sizes, size = pool_sizes.unique(return_inverse=True)
    counts = torch.arange(int(sizes[-1]) + 1, dtype=torch.float64, device=y.device)
    reports, pools = values, sizes.to(torch.float64)
    if len(values) * len(sizes) * len(counts) > MOST_TABLE_ENTRIES:
        pairs, which = (value * len(sizes) + size).unique(return_inverse=True)
        reports, pools = reports[pairs // len(sizes)], pools[pairs % len(sizes)]
        tables = -noise.log_prob(reports[:, None], counts, pools[:, None])
        tables = _numbers(noise, tables, reports, pools, which)
        return PoolCosts(tables, which)
    tables = -noise.log_prob(reports[:, None, None], counts, pools[:, None])  # (values, sizes, counts)
    if not bool((tables > -torch.inf).all()):  # NaN is not
        each = reports.repeat_interleave(len(sizes)), pools.repeat(len(reports))
        whole = tables.expand(len(reports), len(sizes), len(counts))  # a noise may leave the sizes out
        tables = _numbers(noise, whole.flatten(0, 1), *each, value * len(sizes) + size).view_as(whole)
    if tables.shape[1] == 1 or bool((tables == tables[:, :1]).all()):
        return PoolCosts(tables[:, 0].contiguous(), value)
    return PoolCosts(tables.flatten(0, 1), value * len(sizes) + size)


def _numbers(noise: Noise, tables: Tensor, reports: Tensor, sizes: Tensor, which: Tensor) -> Tensor:
    """Tables (kinds, counts), infinite where nobody looks; a ValueError where one that occurs lacks a number.

    Nobody looks beyond a pool's size, nor at reports that lie between others and do not occur.
    """
    wrong = ~(tables > -torch.inf)
    if not bool(wrong.any()):
        return tables
    inside = torch.arange(tables.shape[1], device=tables.device) <= sizes[:, None]
    occurs = torch.zeros(len(tables), dtype=torch.bool, device=tables.device)
    occurs[which.flatten()] = True
    bad = (wrong & inside & occurs[:, None]).nonzero()
    if len(bad):
        kind, count = bad[0].tolist()
        value = -float(tables[kind, count])
        raise ValueError(
            f"the noise {noise} gives log_prob={value} for report {float(reports[kind]):g} at count {count} "
            f"in a pool of {int(sizes[kind])} items: it must give a number, or -inf where the report is impossible."
        )
    return tables.masked_fill(wrong, torch.inf)


def _distinct(y: Tensor) -> tuple[Tensor, Tensor]:
    """Values that cover all of y, and where each entry stands among them."""
    lowest, highest = (float(y.min()), float(y.max())) if y.numel() else (0.0, 0.0)
    small = highest - lowest < 2**16 and max(-lowest, highest) < 2**53  # beyond, steps of one are lost
    if y.numel() and small and bool((y == y.floor()).all()):  # far cheaper than sorting
        return torch.arange(lowest, highest + 1, dtype=y.dtype, device=y.device), (y - lowest).to(torch.int64)
    values, which = y.unique(return_inverse=True)
    return values, which


@dataclass(frozen=True, eq=False)
class Factors:
    """All costs of some instances of a problem.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.5))
        >>> factors = problem.factors(torch.tensor([[1.0, 1.0]], dtype=torch.float64))
        >>> factors.cost(torch.tensor([[0, 1, 0], [1, 1, 0]], dtype=torch.uint8), torch.tensor([0, 0]))
        tensor([2.0794,    inf], dtype=torch.float64)
    """

    design: Design
    items: ItemCosts
    pools: PoolCosts

    def cost(self, x: UInt8[Tensor, "rows items"], owner: Int64[Tensor, " rows"]) -> Float64[Tensor, " rows"]:
        """What each x costs under the instance that owns it; infinite where it is impossible."""
        counts = self.design.count(x).to(torch.int64)  # (rows, pools)
        return self.items.of(x) + self.pools.tables[self.pools.which[owner], counts].sum(1)
