"""What a pool reported, in words: a count, a positive, a range or reads."""

from qgt.lab.wording import Residual
from qgt.model.noise import Noise
from qgt.model.problem import Problem
from qgt.model.readings import PositiveNegative, Reads, reports_counts
from qgt.model.reports import noise_of
from qgt.model.scales import Binned


def noun(noise: Noise) -> str:
    """What reports are called, in the plural.

    Example:
        >>> noun(PositiveNegative()), noun(Binned([1, 5]))
        ('results', 'results')
    """
    return "counts" if reports_counts(noise) else "results"


def shown(noise: Noise, pool: int, value: float) -> str:
    """One report.

    Example:
        >>> shown(PositiveNegative(), 0, 1.0), shown(Binned([1, 5]), 0, 1.0), shown(Reads(100), 0, 12.0)
        ('positive', 'range 1 (1 to 4)', '12 reads')
    """
    own = noise_of(noise, pool)
    if isinstance(own, PositiveNegative) and value in (0, 1):
        return "positive" if value else "negative"
    if isinstance(own, Binned) and value in range(len(own.edges) + 1):
        return f"range {value:g} ({_range(own, int(value))})"
    return f"{value:g} reads" if isinstance(own, Reads) else f"{value:g}"


def residual(problem: Problem, pool: int, counted: float, expected: float) -> Residual:
    """A pool whose report is not the expected one, with words where reports are no counts."""
    noise, words = problem.noise, ""
    if not reports_counts(noise_of(noise, pool)):
        words = f"reported {shown(noise, pool, counted)}, expected {shown(noise, pool, expected)}"
    return Residual(problem.design.pool_names[pool], counted, expected, words)


def exact(noise: Noise) -> bool:
    """Whether most reports are just what they should be: not so real numbers and reads.

    Example:
        >>> exact(PositiveNegative()), exact(Reads(100))
        (True, False)
    """
    return noise.integer and not isinstance(noise_of(noise, 0), Reads)


def allowed(noise: Noise) -> str:
    """What a file may hold where reports are no counts; empty where they are, or where pools differ.

    Example:
        >>> allowed(PositiveNegative()), allowed(Binned([1, 5]))
        ('write 1 for positive and 0 for negative', 'write the number of a range, from 0 to 2')
    """
    own = noise_of(noise, 0)
    if isinstance(own, PositiveNegative):
        return "write 1 for positive and 0 for negative"
    if isinstance(own, Binned):
        return f"write the number of a range, from 0 to {len(own.edges)}"
    return f"write a number of reads, from 0 to {own.depth}" if isinstance(own, Reads) else ""


def _range(noise: Binned, number: int) -> str:
    edges = noise.edges
    if number == 0:
        return f"below {edges[0]}"
    if number == len(edges):
        return f"{edges[-1]} or more"
    low, high = edges[number - 1], edges[number] - 1
    return f"{low} to {high}" if high > low else f"{low}"
