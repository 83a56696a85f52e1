"""Assays that measure amounts: what a laboratory says of them, what positives have, and what a pool can detect.

A pool is *detected* where its cycle is not later than the last one that counts, or its amount not below the least one.
A machine that reports something for empty pools too detects what differs from that by three standard errors. Pools of n
equal parts of one volume hold the mean of their samples, and read log2(n) cycles later: a positive that a single test
just detects is then lost, whatever the decoder does. So

    the loads of positives    are those that a single test detects, without its error;
    a plate is right          if every sample is called right, except positives too weak for pools of its size;
    decoding                  takes every positive to be one that the pools can detect. Otherwise each sample of a plate
                              without positives might be a weak positive, and no plate would be sure.

What pooling loses is a figure of its own: the share of positives below what a pool of that size detects. Pools that
would lose more than a given share (`most_missed`) are not planned.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qgt.arguments import whole
from qgt.files.grids import read_grid
from qgt.files.tables import has_decimal_commas, number
from qgt.lab.reported import alone
from qgt.lab.sheets.headers import CYCLES, head
from qgt.lab.wording import amount_words
from qgt.model.loads import Amount, CycleThreshold, Loads
from qgt.model.noise import Noise, noise_of
from qgt.model.problem import Problem

SIGMA, LIMIT, DILUTION = 0.25, 38.0, 1.0  # of cycle thresholds, where nobody says otherwise
RELATIVE, ABSOLUTE = 0.1, 1.0  # of amounts
CT_MEAN, CT_SD = 27.3, 6.2  # cycles of single positives, as published for 1,632 of them
MOST_MISSED = 0.1  # the share of positives that pooling may lose
CLEAR = 3.0  # standard errors by which a detected report differs from that of an empty pool
NEARER = 0.5  # a count or reading above this is positive
LAW_STEPS = 4001  # of a law of loads
TOTALS, REPORTS = 2000, 400  # drawn for what a pool tells
AMOUNTS = frozenset(("amount", "amounts", "load", "loads", "copies", "concentration", "menge", "konzentration"))


def measures_amounts(noise: object) -> bool:
    """Whether a plan for this assay is one of samples with loads.

    Example:
        >>> measures_amounts(CycleThreshold(sigma=0.25))
        True
    """
    return isinstance(noise, CycleThreshold | Amount)


def last_detected(noise: Noise) -> float:
    """The last cycle that is detected, or the least amount.

    Example:
        >>> last_detected(CycleThreshold(sigma=0.25, limit=38.0)), last_detected(Amount(relative=0.1, absolute=2.0))
        (38.0, 6.0)
        >>> round(last_detected(CycleThreshold(sigma=0.25, limit=38.0, background=8.0)), 2)  # empty pools read 34
        33.25
    """
    if isinstance(noise, CycleThreshold):
        limit = math.inf if noise.limit is None else noise.limit
        if not noise.background:
            return limit
        empty = noise.intercept + noise.slope * math.log10(noise.background)
        return min(limit, empty - CLEAR * math.hypot(noise.sigma, noise.background_sigma))
    if isinstance(noise, Amount):
        return max(noise.limit, CLEAR * noise.absolute)
    raise ValueError(f"assay={noise} is not valid for samples with loads: give CycleThreshold or Amount.")


def detected(noise: Noise, y: Tensor) -> Tensor:
    """Which reports are positive, taken at their word.

    Example:
        >>> detected(CycleThreshold(sigma=0.25, limit=38.0), torch.tensor([27.0, math.inf], dtype=torch.float64))
        tensor([ True, False])
    """
    if isinstance(noise, CycleThreshold):
        return (y <= last_detected(noise)) & (y < math.inf)
    if isinstance(noise, Amount):
        return (y >= last_detected(noise)) & (y > 0)
    return y > NEARER


def not_cleared(problem: Problem, y: Tensor) -> Tensor:
    """Which samples no pool clears: none of the pools of a sample was measured without detecting anything.

    Example:
        >>> from qgt import Design
        >>> noise = CycleThreshold(sigma=0.25, limit=38.0)
        >>> problem = Problem(Design.from_rows(["110", "011"]), Loads(rate=0.1, mean=3.0, sd=1.0), noise)
        >>> not_cleared(problem, torch.tensor([[27.0, math.inf]], dtype=torch.float64))
        tensor([[ True, False, False]])
    """
    negative = ~detected(problem.noise, y) & ~y.isnan()  # (plates, pools)
    return negative.to(torch.float64) @ problem.design.matrix.to(y.device, torch.float64) == 0


def least_load(noise: Noise, size: int = 1) -> float:
    """The least load that a pool of so many samples detects, if one of them has it and the report has no error.

    Example:
        >>> cycles = CycleThreshold(sigma=0.25, limit=38.0, dilution=1.0)
        >>> least_load(cycles), least_load(cycles, 8)
        (0.5, 4.0)
    """
    last = last_detected(noise)
    if isinstance(noise, CycleThreshold):
        alone = 0.0 if last == math.inf else noise.amount(last) - noise.background
        return float(alone * size**noise.dilution)
    assert isinstance(noise, Amount)  # as `last_detected` has checked
    return float(last * size**noise.dilution)


def usual_loads(noise: Noise, mean: float | None = None, sd: float | None = None) -> Loads:
    """The loads of positives, all of which a single test detects.

    Args:
        noise: The assay.
        mean: The mean cycle of positives tested alone, or the mean log10 of their amounts; None: published values.
        sd: The standard deviation of the same.

    Example:
        >>> loads = usual_loads(CycleThreshold(sigma=0.25, limit=38.0))
        >>> round(loads.mean, 2), round(loads.sd, 2), round(loads.low, 2)
        (2.92, 1.87, -0.3)
    """
    curve = noise if isinstance(noise, CycleThreshold) else CycleThreshold(sigma=SIGMA)
    cycles = isinstance(noise, CycleThreshold)
    usual = math.log10(curve.amount(CT_MEAN)), CT_SD / -curve.slope
    middle = usual[0] if mean is None else (math.log10(curve.amount(mean)) if cycles else mean)
    spread = usual[1] if sd is None else (sd / -curve.slope if cycles else sd)
    least = least_load(noise)
    return Loads(rate=1.0, mean=middle, sd=spread, low=math.log10(least) if least else None)


def above(loads: Loads, least: float) -> Loads:
    """The same law without loads below the least one; of a list of values, the others are left out.

    Example:
        >>> above(Loads(rate=0.1, mean=3.0, sd=1.0), 100.0).low
        2.0
        >>> above(Loads(rate=0.1, values=[1.0, 3.0, 4.0]), 100.0).values
        (3.0, 4.0)
    """
    if not least or math.log10(least) <= loads.span[0]:
        return loads
    if loads.values is None:
        return replace(loads, low=math.log10(least))
    kept = [value for value in loads.values if value >= math.log10(least)]
    return replace(loads, values=kept) if len(set(kept)) > 1 else loads


def share_below(loads: Loads, least: float) -> float:
    """The share of positives whose load is below the least one.

    Example:
        >>> round(share_below(Loads(rate=0.1, mean=3.0, sd=1.0), 1000.0), 3)
        0.5
    """
    low, high = loads.span
    if not least or math.log10(least) <= low:
        return 0.0
    where = torch.linspace(low, min(high, math.log10(least)), LAW_STEPS, dtype=torch.float64)
    return min(1.0, float(torch.trapezoid(loads.log_density(where).exp(), where)))


def missed_share(loads: Loads, noise: Noise, size: int) -> float:
    """The share of positives that pools of that size do not detect.

    Example:
        >>> cycles = CycleThreshold(sigma=0.25, limit=38.0, dilution=1.0)
        >>> [round(missed_share(usual_loads(cycles), cycles, size), 3) for size in (1, 4, 16)]
        [0.0, 0.04, 0.102]
    """
    return share_below(loads, least_load(noise, size))


def largest_detected(loads: Loads, noise: Noise, items: int, most_missed: float) -> int:
    """The largest pool, up to all items, that misses no larger share of positives than that.

    Example:
        >>> cycles = CycleThreshold(sigma=0.25, limit=38.0, dilution=1.0)
        >>> largest_detected(usual_loads(cycles), cycles, 96, 0.1)
        15
    """
    low, high = 1, whole("items", items, least=1)
    while low < high:
        middle = (low + high + 1) // 2
        if missed_share(loads, noise, middle) <= most_missed:
            low = middle
        else:
            high = middle - 1
    return low


def detectable(problem: Problem) -> Problem:
    """The problem to decode: every positive is one that the largest pool detects. Without loads, the problem itself.

    Example:
        >>> from qgt import Bernoulli, Design
        >>> design, cycles = Design.from_rows(["1111"]), CycleThreshold(sigma=0.25, limit=37.0, dilution=1.0)
        >>> round(detectable(Problem(design, Loads(rate=0.1, mean=3.0, sd=2.0), cycles)).prior.low, 2)
        0.6
    """
    loads = problem.loads
    if loads is None:
        return problem
    return replace(problem, prior=above(loads, least_load(problem.noise, int(problem.design.pool_sizes.max()))))


def not_covered(problem: Problem) -> str:
    """A sentence on the positives that pools dilute beyond detection, which no answer covers; empty where none are.

    Example:
        >>> from qgt import Design
        >>> cycles = CycleThreshold(sigma=0.25, limit=38.0, dilution=1.0)
        >>> not_covered(Problem(Design.from_rows(["11111111"]), Loads(rate=0.1, mean=3.0, sd=2.0), cycles))
        'Not covered: positives with a Ct above 35.0 alone, which pools of 8 samples dilute beyond detection.'
    """
    noise: Any = noise_of(problem.noise, 0)
    while (inner := getattr(noise, "noise", None)) is not None:
        noise = inner
    size = int(problem.design.pool_sizes.max())
    if problem.loads is None or not measures_amounts(noise) or not least_load(noise, size) > least_load(noise):
        return ""
    least = least_load(noise, size)
    cycle = alone(noise, least)
    weak = f"less than {amount_words(least)}" if cycle is None else f"a Ct above {cycle:.1f} alone"
    return f"Not covered: positives with {weak}, which pools of {size} samples dilute beyond detection."


@lru_cache(maxsize=256)
def pools_for_loads(loads: Loads, noise: CycleThreshold | Amount, rate: float, items: int, size: int) -> float:
    """H(who is positive and detectable) / I(a pool's report; its total), below which no design can work.

    Reports are independent given all loads, so together they tell no more than the sum of what each tells about its
    total; that is more than they tell about who is positive, and the bound is a weak one. What a pool tells is
    estimated from draws that are always the same.
    """
    seeded = torch.Generator().manual_seed(0)
    # Pools without a positive and pools with some are drawn apart, since few pools have one.
    empty = (1 - rate) ** size
    numbers = torch.arange(1, size + 1, dtype=torch.float64)
    weights = torch.distributions.Binomial(size, torch.tensor(rate).double()).log_prob(numbers).exp()
    several = torch.multinomial(weights, TOTALS + REPORTS, replacement=True, generator=seeded)[:, None] + 1
    inside = torch.arange(size) < several  # (totals, samples)
    total = (loads.sample(TOTALS + REPORTS, size, generator=seeded) * inside).sum(1)
    bits = 0.0
    for share, own in ((empty, torch.zeros(REPORTS, 1, dtype=torch.float64)), (1 - empty, total[:REPORTS, None])):
        sizes = torch.tensor([float(size)], dtype=torch.float64)
        y = noise.sample(own, sizes, generator=seeded)  # (reports, 1)
        some = noise.log_prob(y.expand(-1, TOTALS), total[None, REPORTS:].expand(REPORTS, -1), sizes)
        none = noise.log_prob(y, torch.zeros_like(y), sizes)[:, 0] + math.log(empty)
        before = torch.logaddexp(some.logsumexp(1) - math.log(TOTALS) + math.log1p(-empty), none)
        bits += share * float((noise.log_prob(y, own, sizes)[:, 0] - before).mean()) / math.log(2)
    found = rate * (1 - missed_share(loads, noise, size))
    entropy = -found * math.log2(found) - (1 - found) * math.log2(1 - found) if 0 < found < 1 else 0.0
    return items * entropy / bits if bits > 0 else math.inf


# What a laboratory says.


def cycle_assay(
    sigma: float | None = None,
    limit: float | None = None,
    dilution: float | None = None,
    empty: float | None = None,
) -> CycleThreshold:
    """The noise of a PCR machine.

    Args:
        sigma: The standard error in cycles.
        limit: The last cycle that counts as detected.
        dilution: 1 where a pool is equal parts of one volume, 0 where each sample gives its full volume.
        empty: The cycle that pools without any positive read; None where nothing amplifies in them.

    Example:
        >>> cycle_assay(limit=36.0).limit, round(cycle_assay(empty=34.0).background, 6)
        (36.0, 8.0)
    """
    plain = CycleThreshold(
        sigma=SIGMA if sigma is None else sigma,
        limit=LIMIT if limit is None else limit,
        dilution=DILUTION if dilution is None else dilution,
    )
    return plain if empty is None else replace(plain, background=plain.amount(empty))


def amount_assay(
    relative: float | None = None,
    absolute: float | None = None,
    limit: float | None = None,
    dilution: float | None = None,
) -> Amount:
    """The noise of an assay that reports amounts.

    Args:
        relative: The standard error of large amounts, as a share of them.
        absolute: The standard error of amounts near 0.
        limit: The least amount that is reported; None: every amount is.
        dilution: See `cycle_assay`.

    Example:
        >>> amount_assay(relative=0.05)
        Amount(relative=0.05, absolute=1.0, limit=0.0, dilution=1.0)
    """
    return Amount(
        relative=RELATIVE if relative is None else relative,
        absolute=ABSOLUTE if absolute is None else absolute,
        limit=limit or 0.0,
        dilution=DILUTION if dilution is None else dilution,
    )


def read_loads(source: str | Path, noise: Noise, data: bytes | None = None) -> Loads:
    """The loads of a laboratory's own positives: a file with a column of cycles (ct, cq) or amounts, or one column.

    Empty cells, and positives that a single test does not detect, are left out.

    Args:
        source: The CSV or XLSX file.
        noise: The assay, which says whether the numbers are cycles or amounts.
        data: Its content, as with an upload; None reads the file.

    Example:
        >>> cycles = CycleThreshold(sigma=0.25, limit=38.0)
        >>> loads = read_loads("own.csv", cycles, b"sample,Ct\\nA,27.0\\nB,33.5\\nC,39.5\\n")
        >>> [round(value, 2) for value in loads.values]
        [3.01, 1.05]
    """
    grid = read_grid(source, data)
    rows = [row for row, cells in enumerate(grid.rows) if any(cells) and not cells[0].startswith("#")]
    wanted = CYCLES if isinstance(noise, CycleThreshold) else AMOUNTS
    column, body = _column(grid.name, [grid.rows[row] for row in rows], wanted), rows
    if rows and head(grid.rows[rows[0]][column]) in wanted:
        body = rows[1:]
    commas = has_decimal_commas(grid.rows[row][column] for row in body)
    logs = []
    for row in body:
        value = number(grid.rows[row][column], commas=commas)
        if isinstance(value, str):
            raise ValueError(f"{grid.place(row, column)} has {grid.rows[row][column]!r}; {value}.")
        if math.isnan(value):
            continue
        amount = noise.amount(value) if isinstance(noise, CycleThreshold) else value
        if amount > 0 and amount >= least_load(noise):
            logs.append(math.log10(amount))
    if len(set(logs)) < 2:
        raise ValueError(
            f"{grid.name}: has fewer than two different values of positives that a single test detects; give more "
            "values, or leave out the file."
        )
    return Loads(rate=1.0, values=logs)


def _column(name: str, rows: Sequence[Sequence[str]], wanted: frozenset[str]) -> int:
    """The one column with such a header, or the only column."""
    if not rows:
        raise ValueError(f"{name}: is empty; give a column of values.")
    found = [column for column, cell in enumerate(rows[0]) if head(cell) in wanted]
    if len(found) == 1 or len(rows[0]) == 1:
        return found[0] if found else 0
    called = sorted(wanted)[0]
    raise ValueError(f"{name}: has {len(found)} columns called such as {called!r}; name exactly one column {called!r}.")
