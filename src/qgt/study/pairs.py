"""Decoders of a study compared in pairs, on the instances that both decoded.

A decoder with fewer instances of its own, or one that stopped early, has the first of the others' instances; the pair
is compared on those.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from qgt.study.plan import Value
from qgt.study.reading import StudyResult
from qgt.trust.metrics import Paired, paired


@dataclass(frozen=True)
class Comparison:
    """Two decoders at one point of the grid.

    Example:
        >>> one = Comparison({"design.pools": 20}, "amp", "gamp", Paired(90, 6, 3, 1, {}))
        >>> one.first, one.paired.p_value
        ('amp', 0.5078125)
    """

    point: Mapping[str, Value]
    first: str  # the decoders' names in the study
    second: str
    paired: Paired


def compare_decoders(found: Sequence[StudyResult], first: str, second: str) -> list[Comparison]:
    """Compare two decoders of a study at every point where they decoded the same instances.

    Example:
        >>> from qgt import Study, run_study, study_results
        >>> design = {"kind": "bernoulli", "pools": 8, "items": 20}
        >>> problem = {"design": design, "prior": {"kind": "bernoulli", "rate": 0.1}}
        >>> decoders = {"AMP": {"kind": "amp"}, "greedy": {"kind": "maximum_neighborhood"}}
        >>> study = Study.from_plain({"problem": problem, "decoders": decoders})
        >>> run_study(study, "study.db")
        >>> (one,) = compare_decoders(study_results(study, "study.db"), "AMP", "greedy")
        >>> one.paired.instances, one.paired.better("success_rate"), one.paired.p_value < 1e-9
        (2000, 1, True)
    """
    names = {one.decoder for one in found}
    for key, name in {"first": first, "second": second}.items():
        if name not in names:
            raise ValueError(f"{key}={name!r} is not a decoder here: give one of {', '.join(sorted(names))}.")
    by = {(tuple(one.point.items()), one.decoder): one for one in found}
    points = dict.fromkeys(tuple(one.point.items()) for one in found)
    pairs = [(by.get((point, first)), by.get((point, second))) for point in points]
    shared = [(a, pair(a, b)) for a, b in pairs if a is not None and b is not None]
    return [Comparison(a.point, first, second, both) for a, both in shared if both is not None]


def all_pairs(found: Sequence[StudyResult]) -> list[Comparison]:
    """Every two decoders of a study, at every point where they decoded the same instances."""
    names = dict.fromkeys(one.decoder for one in found)
    return [comparison for a, b in combinations(names, 2) for comparison in compare_decoders(found, a, b)]


def pair(first: StudyResult, second: StudyResult) -> Paired | None:
    """Two results on the instances that both have, over all designs; None where there are none."""
    total: Paired | None = None
    for stream, a in first.streams.items():
        b = second.streams.get(stream)
        if b is not None:
            shorter = min(a.instances, b.instances)
            both = paired(a.first(shorter), b.first(shorter))
            total = both if total is None else total + both
    return total


def against_limit(one: StudyResult, found: Sequence[StudyResult]) -> Paired | None:
    """A result against the limit at its point; None for the limit itself, and where it is not there."""
    limits = [other for other in found if other.limit and other.point == one.point]
    return None if one.limit or not limits else pair(one, limits[0])
