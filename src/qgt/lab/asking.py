"""What people answer when they are asked about their samples, as the command line and a form give it."""

import re
from collections.abc import Sequence

from qgt.model.noise import Noise, Noiseless, SparseInteger
from qgt.model.readings import Gaussian, PositiveNegative

ASSAYS = {  # what each kind of assay reports, and the numbers that say how it errs
    "count": "the number of positives in the pool; give the share of counts that are off by one, such as 0.02",
    "reading": "a real number near the count; give its standard deviation, such as 0.2",
    "positive": "positive or negative; give sensitivity and specificity, such as 0.98,0.99",
}
_NUMBER = r"(\d+(?:[.,]\d+)?)\s*(%?)"
_RANGE = re.compile(rf"{_NUMBER}(?:\s*(?:-|\u2013|to|\.\.)\s*{_NUMBER})?", re.ASCII)  # \u2013 is a dash


def parse_positives(text: str, samples: int) -> tuple[float, float]:
    """The fewest and the most positives: `2`, `1-4`, `1 to 4`, or in per cent of the samples, `1-3 %`.

    Example:
        >>> parse_positives("1-4", 96), parse_positives("1 to 5 %", 200), parse_positives("3", 96)
        ((1.0, 4.0), (2.0, 10.0), (3.0, 3.0))
    """
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"positives={text!r} is not valid: give a number or a range, such as 1-4 or 1-3%.")
    first, first_sign, last, last_sign = found.groups()
    ends = [float(number.replace(",", ".")) for number in (first, last or first)]
    if last and first_sign and not last_sign:
        raise ValueError(f"positives={text!r} is not valid: give both ends in per cent, or none.")
    if first_sign or last_sign:  # 1-3 % means both
        ends = [end / 100 * samples for end in ends]
    return ends[0], ends[1]


def parse_assay(kind: str, errors: Sequence[float]) -> Noise:
    """The noise of an assay.

    Args:
        kind: One of `ASSAYS`.
        errors: How it errs, in the numbers that `ASSAYS` asks for; none for an assay that never errs.

    Example:
        >>> parse_assay("count", [0.02]), parse_assay("count", [])
        (SparseInteger(rate=0.02, bound=1), Noiseless())
    """
    if kind not in ASSAYS:
        raise ValueError(f"assay={kind!r} is not known: give one of {', '.join(ASSAYS)}.")
    wanted = {"count": (0, 1), "reading": (1,), "positive": (0, 2)}[kind]
    if len(errors) not in wanted:
        raise ValueError(f"errors={list(errors)} is not valid for {kind}: it reports {ASSAYS[kind]}.")
    try:
        if kind == "reading":
            return Gaussian(sigma=errors[0])
        if kind == "positive":
            return PositiveNegative(*errors)
        return SparseInteger(rate=errors[0], bound=1) if errors and errors[0] else Noiseless()
    except ValueError as error:
        given = ",".join(f"{one:g}" for one in errors)
        raise ValueError(f"errors={given} is not valid for {kind}: {error}") from error


def parse_errors(text: str) -> list[float]:
    """Numbers with commas, semicolons or blanks between them.

    Example:
        >>> parse_errors("0.98, 0.99"), parse_errors("")
        ([0.98, 0.99], [])
    """
    parts = [part for part in re.split(r"[,;\s]+", text.strip()) if part]
    try:
        return [float(part) for part in parts]
    except ValueError as error:
        raise ValueError(f"errors={text!r} is not valid: give numbers such as 0.02, or 0.98,0.99.") from error
