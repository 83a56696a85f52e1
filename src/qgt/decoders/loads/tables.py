"""What each report says of its pool's total, as tables over the total's log10, and the prior of one amount likewise.

A noise answers `log_prob` for any total. The search for sets of positives asks millions of times, always for the same
few hundred reports, so each report's answers are tabulated once: values and slopes on an even grid. Where loads are
fitted the table is cubic (Hermite) in between, so that a log likelihood that is quadratic in the log of the total, as
that of a cycle threshold is, is met exactly. The evidence that is finally reported is computed from `log_prob` itself.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from qgt.model.loads import Loads
from qgt.model.noise import Noise
from qgt.model.problem import Problem

NEVER = -1e7  # the log of a probability of zero: finite, so that differences of impossible things are numbers
LEAST_NODES, MOST_NODES = 1024, 16384
CLOSE_ENOUGH = 0.02  # nats between a table and `log_prob` half way between nodes, where a report is not hopeless
NOT_HOPELESS = -30.0  # nats below the best total
BELOW = 1.0  # decades below the least amount, where a total is as good as none


class Slopes(NamedTuple):
    """A function's value, slope and curvature at some places."""

    value: Tensor
    slope: Tensor
    curvature: Tensor


@dataclass(frozen=True, eq=False)
class Curves:
    """Functions of a log10 amount on one even grid, cubic in between; constant beyond its ends.

    Example:
        >>> import torch
        >>> where = torch.linspace(0.0, 2.0, 21, dtype=torch.float64)
        >>> curves = Curves.of((where - 1.0).square()[None], low=0.0, step=0.1)
        >>> value, slope, curvature = curves.at(torch.tensor([0]), torch.tensor([1.25], dtype=torch.float64))
        >>> [round(float(part), 6) for part in (value, slope, curvature)]
        [0.0625, 0.5, 2.0]
    """

    table: Float64[Tensor, "curves nodes 2"]  # values, and slopes per step of the grid
    low: float
    step: float

    @classmethod
    def of(cls, values: Float64[Tensor, "curves nodes"], *, low: float, step: float) -> "Curves":
        """Curves through values on a grid."""
        finite = values.clamp(min=NEVER)
        return cls(torch.stack([finite, torch.gradient(finite, dim=1)[0]], 2), low, step)

    @property
    def values(self) -> Float64[Tensor, "curves nodes"]:
        """The values at the nodes."""
        return self.table[..., 0]

    def value(self, curve: Int64[Tensor, "..."] | int, where: Float64[Tensor, "..."]) -> Float64[Tensor, "..."]:
        """The value of one curve at each place, linear in between: cheaper than `at`, and good enough for sums."""
        index, t = self._cell(curve, where)
        index = 2 * index
        numbers = self.table.view(-1)
        return torch.lerp(numbers[index], numbers[index + 2], t)

    def at(self, curve: Int64[Tensor, "..."] | int, where: Float64[Tensor, "..."]) -> Slopes:
        """Value, slope and curvature of one curve at each place."""
        index, t = self._cell(curve, where)
        # Both ends of a cell are four numbers next to each other: one look-up, as operations are what a GPU waits for.
        first, up, last, down = self.table.view(-1).unfold(0, 4, 2)[index].unbind(-1)
        gap = last - first
        cube = torch.sub(up + down, gap, alpha=2)
        square = gap - up - cube
        bent = torch.add(square, t * cube, alpha=3)  # half the curvature
        value = torch.addcmul(first, t, torch.addcmul(up, t, torch.addcmul(square, t, cube)))
        slope = torch.addcmul(up, t, bent + square)
        return Slopes(value, slope / self.step, bent * (2 / self.step**2))

    def _cell(self, curve: Tensor | int, where: Tensor) -> tuple[Tensor, Tensor]:
        """The number of the node to the left of each place, and the place between the nodes, from 0 to 1."""
        nodes = self.table.shape[1]
        place = ((where - self.low) / self.step).clamp(0.0, nodes - 1.001)
        cell = place.to(torch.int64)
        return torch.add(cell, curve, alpha=nodes), place - cell


@dataclass(frozen=True, eq=False)
class ReportCurves:
    """The tables of a batch's reports: curve `instance * pools + pool`, and the value at a total of zero."""

    curves: Curves
    zero: Float64[Tensor, "instances pools"]

    @classmethod
    def of(cls, problem: Problem, loads: Loads, y: Float64[Tensor, "instances pools"]) -> "ReportCurves":
        """Ask the noise for every report at every total of the grid; a missing report says nothing: zeros."""
        sizes = problem.design.pool_sizes.to(y.device, torch.float64)
        low, high = loads.span
        low, high = low - BELOW, high + math.log10(max(2.0, float(sizes.max())))
        nodes = LEAST_NODES
        while True:
            logs = torch.linspace(low, high, nodes, dtype=torch.float64, device=y.device)
            step = (high - low) / (nodes - 1)
            curves = Curves.of(_log_prob(problem.noise, y, 10.0**logs, sizes).flatten(0, 1), low=low, step=step)
            if nodes == MOST_NODES or _good(problem.noise, curves, y, sizes):
                break
            nodes *= 2
        zero = _log_prob(problem.noise, y, torch.zeros(1, dtype=torch.float64, device=y.device), sizes)
        return cls(curves, zero[..., 0].clamp(min=NEVER))

    def of_instances(self, rows: Int64[Tensor, " some"]) -> "ReportCurves":
        """The tables of some instances, which may occur more than once."""
        pools = self.zero.shape[1]
        which = (rows[:, None] * pools + torch.arange(pools, device=rows.device)).flatten()
        curves = replace(self.curves, table=self.curves.table[which])
        return ReportCurves(curves, self.zero[rows])


def prior_curve(loads: Loads, device: torch.device) -> Curves:
    """The log density of a positive item's log10 amount; 0 curvature and slope beyond the span."""
    low, high = loads.span
    logs = torch.linspace(low, high, LEAST_NODES, dtype=torch.float64, device=device)
    return Curves.of(loads.log_density(logs)[None], low=low, step=(high - low) / (LEAST_NODES - 1))


def _log_prob(noise: Noise, y: Tensor, totals: Tensor, sizes: Tensor) -> Tensor:
    """The log likelihood of each total under each report, 0 where it is missing: (instances, pools, totals)."""
    missing = y.isnan()
    # Pools last, where PerPool wants them.
    each = noise.log_prob(torch.where(missing, 0.0, y)[:, None, :], totals[None, :, None], sizes)
    each = each.expand(len(y), len(totals), len(sizes)).transpose(1, 2)
    return torch.where(missing[..., None], 0.0, each).contiguous()


def _good(noise: Noise, curves: Curves, y: Tensor, sizes: Tensor) -> bool:
    """Whether the curves agree with the noise half way between nodes, where it matters."""
    nodes = curves.values.shape[1]
    half = curves.low + curves.step * (torch.arange(nodes - 1, dtype=torch.float64, device=y.device) + 0.5)
    exact = _log_prob(noise, y, 10.0**half, sizes).flatten(0, 1).clamp(min=NEVER)
    which = torch.arange(len(exact), device=y.device)[:, None].expand_as(exact)
    matters = exact > exact.amax(1, keepdim=True) + NOT_HOPELESS
    off = (curves.at(which, half.expand_as(exact)).value - exact).abs()
    return not bool((off[matters] > CLOSE_ENOUGH).any())
