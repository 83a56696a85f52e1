"""Schemes that laboratories use today, beside which a plan must stand: each sample alone, Dorfman's pools, and arrays.

A result is taken at its word. A pool that is positive, or whose count or reading is nearer to 1 than to 0, is followed
up; a sample that is tested alone is what its test says. The schemes are simulated with the prior and the assay of the
plan, so sensitivity and specificity work on pools and on single tests alike, and a plate is right if all its samples
are called right, as in a plan. Where an assay measures amounts, a pool whose report is detected is positive; a plate is
right if every sample is called right except positives too weak for the scheme's pools, and the share of all positives
that was found is a figure of its own.

    each sample alone       one test for each sample
    pools, then singles     Dorfman (1943): every sample in one pool; the samples of positive pools are tested alone
    rows and columns        an 8 x 12 plate is pooled by its rows and by its columns; the samples where a positive row
                            and a positive column cross are tested alone; where only rows or only columns are positive,
                            all their samples are (Kim, Hudgens, Dreyfuss, Westreich and Pilcher 2007)

The size of Dorfman's pools is the one with the fewest tests, up to the largest pool that is allowed.
"""

from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from qgt.lab.plan.loads import detected, least_load, measures_amounts
from qgt.model.loads import Loads
from qgt.model.noise import Noise
from qgt.model.prior import Sampler
from qgt.trust.metrics import Z99, Interval, wilson

PLATE_ROWS, PLATE_COLUMNS = 8, 12  # of the plates that are pooled by rows and columns
ENTRIES = 2**21  # samples that are simulated, all plates together
MOST_PLATES, FEWEST_PLATES = 10_000, 100


@dataclass(frozen=True)
class ClassicalScheme:
    """One of the schemes, and how it did on simulated plates.

    Example:
        >>> one = ClassicalScheme("pools of 8, then single tests", 12, 96, 8, 1000, 700, 14.5)
        >>> one.tests, one.success
        (26.5, 0.7)
    """

    name: str
    pools: int  # tests of the first round
    transfers: int  # into these pools
    largest_pool: int
    plates: int  # simulated
    successes: int
    follow_ups: float  # single tests afterwards, per plate, on average
    sensitivity: float | None = None  # where samples have loads: the share of all positives that was found

    @property
    def tests(self) -> float:
        """Pools and single tests together, for one plate."""
        return self.pools + self.follow_ups

    @property
    def success(self) -> float:
        """The share of plates on which every sample was called right."""
        return self.successes / self.plates

    @property
    def interval(self) -> Interval:
        """Where the success lies, with a certainty of 99 %."""
        return wilson(self.successes, self.plates, Z99)


def classical_schemes(
    prior: Sampler | Loads, noise: Noise, items: int, *, largest_pool: int | None = None, generator: Generator
) -> list[ClassicalScheme]:
    """The schemes for so many samples, simulated.

    Args:
        prior: Which samples are positive, and what loads they have where the assay measures amounts.
        noise: What the assay reports, of pools and of single samples.
        items: The number of samples.
        largest_pool: The most samples that a pool may hold; schemes with larger pools are left out.
        generator: Where the random numbers come from.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> made = classical_schemes(qgt.Bernoulli(0.02), qgt.PositiveNegative(), 96, generator=g)
        >>> [one.name for one in made]
        ['each sample alone', 'pools of 8, then single tests', '8 rows and 12 columns, then single tests']
        >>> [one.success for one in made], 24 < made[1].tests < 28
        ([1.0, 1.0, 1.0], True)
    """
    plates = max(FEWEST_PLATES, min(MOST_PLATES, ENTRIES // items))
    x = prior.sample(plates, items, generator=generator).to(torch.float64)
    positive = _Reader(noise, generator)
    alone = positive(x, torch.ones(items, dtype=torch.float64))  # what a single test of each sample says
    singles = _scheme("each sample alone", x, torch.ones_like(alone), alone, items, items, 1, noise)
    made = [replace(singles, follow_ups=0.0)]  # the tests of all samples are the first round
    sizes = range(2, min(items, largest_pool or items) + 1)
    if sizes:
        size = _best_size(x, noise, sizes)
        pools = -(-items // size)
        owner = torch.arange(items) * pools // items  # of each sample, its pool; sizes differ by at most one
        made.append(_dorfman(x, alone, owner, positive))
    if items > PLATE_COLUMNS and (largest_pool is None or largest_pool >= PLATE_COLUMNS):
        made.append(_arrays(x, alone, positive))
    return made


@dataclass(frozen=True, eq=False)
class _Reader:
    """Which pools, or samples, a simulated assay finds positive."""

    noise: Noise
    generator: Generator

    def __call__(self, counts: Tensor, sizes: Tensor) -> Tensor:
        return detected(self.noise, self.noise.sample(counts, sizes, generator=self.generator))  # (plates, pools)


def _dorfman(x: Tensor, alone: Tensor, owner: Tensor, positive: _Reader) -> ClassicalScheme:
    sizes = owner.bincount().to(torch.float64)
    counts = torch.zeros(len(x), len(sizes), dtype=torch.float64).index_add_(1, owner, x)
    again = positive(counts, sizes)[:, owner]  # (plates, samples)
    largest = int(sizes.max())
    name = f"pools of {largest}, then single tests"
    return _scheme(name, x, again, alone, len(sizes), len(owner), largest, positive.noise)


def _arrays(x: Tensor, alone: Tensor, positive: _Reader) -> ClassicalScheme:
    """Samples fill arrays down their columns; the last array may lack some."""
    items = x.shape[1]
    wells = PLATE_ROWS * PLATE_COLUMNS
    place, array = torch.arange(items) % wells, torch.arange(items) // wells
    arrays = int(array.max()) + 1
    hits, pools = [], 0
    for line, lines in (
        (array * PLATE_ROWS + place % PLATE_ROWS, PLATE_ROWS),
        (array * PLATE_COLUMNS + place // PLATE_ROWS, PLATE_COLUMNS),
    ):
        sizes = line.bincount(minlength=arrays * lines).to(torch.float64)
        counts = torch.zeros(len(x), len(sizes), dtype=torch.float64).index_add_(1, line, x)
        found = positive(counts, sizes) & (sizes > 0)  # (plates, lines)
        any_here = found.reshape(len(x), arrays, lines).any(2)[:, array]  # (plates, samples): in the sample's array
        hits.append((found[:, line], any_here))
        pools += int((sizes > 0).sum())
    (row, rows_here), (column, columns_here) = hits
    again = (row & column) | (row & ~columns_here) | (column & ~rows_here)
    name = f"{PLATE_ROWS} rows and {PLATE_COLUMNS} columns, then single tests"
    return _scheme(name, x, again, alone, pools, 2 * items, PLATE_COLUMNS, positive.noise)


def _scheme(
    name: str, x: Tensor, again: Tensor, alone: Tensor, pools: int, transfers: int, largest: int, noise: Noise
) -> ClassicalScheme:
    tests = float(again.sum()) / len(x)
    called, who = again.bool() & alone, x > 0
    if not measures_amounts(noise):
        return ClassicalScheme(name, pools, transfers, largest, len(x), int((called == who).all(1).sum()), tests)
    right = int(((called == who) | (who & (x < least_load(noise, largest)))).all(1).sum())
    found = float((called & who).sum() / who.sum().clamp(min=1))
    return ClassicalScheme(name, pools, transfers, largest, len(x), right, tests, found)


def _best_size(x: Tensor, noise: Noise, sizes: range) -> int:
    """The size of Dorfman's pools with the fewest tests: 1/g + P(a pool of g is positive)."""
    few = [size for size in sizes if size <= 64] or [sizes[0]]
    size = torch.tensor(few, dtype=torch.float64)
    misread = _positive_share(noise, 0.0)
    if measures_amounts(noise):
        rate, loads = float((x > 0).double().mean()), x[x > 0]
        seen = torch.tensor([float((loads >= least_load(noise, one)).double().mean()) for one in few]).double()
    else:
        rate, seen = float(x.mean()), torch.full_like(size, _positive_share(noise, 1.0))
    some = 1 - (1 - rate) ** size
    return few[int((1 / size + some * seen + (1 - some) * misread).argmin())]


def _positive_share(noise: Noise, count: float) -> float:
    """How often a single test of a sample is positive; a pool's test is taken to be as good."""
    ones = torch.full((4000, 1), count, dtype=torch.float64)
    seeded = torch.Generator().manual_seed(0)
    reports = noise.sample(ones, torch.ones(1, dtype=torch.float64), generator=seeded)
    return float(detected(noise, reports).double().mean())


def single_error(noise: Noise) -> float:
    """How often a test of one sample alone is misread, of positives or of negatives, whichever is more often.

    Where an assay measures amounts, positives that a single test does not detect are not counted.

    Example:
        >>> from qgt import Noiseless, PositiveNegative
        >>> single_error(Noiseless()), 0.03 < single_error(PositiveNegative(0.95, 0.99)) < 0.07
        (0.0, True)
    """
    misread = _positive_share(noise, 0.0)
    return misread if measures_amounts(noise) else max(misread, 1 - _positive_share(noise, 1.0))
