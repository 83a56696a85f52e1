"""What people answer when they are asked about their samples, as the command line and a form give it."""

from collections.abc import Sequence

from qgt.files.tables import WrittenNumber, read_amount, read_range, read_shares
from qgt.model.noise import Gaussian, Noise, Noiseless, PositiveNegative, SparseInteger

ASSAYS = {  # what each kind of assay reports, and the numbers that say how it errs
    "count": "the number of positives in the pool; give the share of counts that are off by one, such as 0.02 or 2%",
    "reading": "a real number near the count; give its standard deviation, such as 0.2",
    "positive": "positive or negative; give sensitivity and specificity, such as 0.98,0.99 or 98%,99%",
}
NUMBERS = {"count": (0, 1), "reading": (1,), "positive": (0, 2)}  # how many numbers say how an assay errs
RARE = 0.2  # positives on a plate: below it, a number without a sign is more likely meant as a share of the samples


def parse_positives(text: str, samples: int) -> tuple[float, float]:
    """The fewest and the most positives: `2`, `1-4`, `1 to 4`, or in per cent of the samples, `1-3 %`.

    Example:
        >>> parse_positives("1-4", 96), parse_positives("1 to 5 %", 200), parse_positives("3", 96)
        ((1.0, 4.0), (2.0, 10.0), (3.0, 3.0))
        >>> parse_positives("0.01-0.03", 96)
        Traceback (most recent call last):
        ValueError: positives=0.01-0.03 is hardly any on a plate of 96 samples: did you mean 1 to 3 % of the samples? Then write 1%-3%. If you mean 0.01 to 0.03 positives on a plate, write 0.01042%-0.03125%.
    """  # noqa: E501 - an example's line
    return expected_positives(*read_range("positives", text), samples)


def expected_positives(
    fewest: WrittenNumber, most: WrittenNumber, samples: int, *, between: str = "-"
) -> tuple[float, float]:
    """The numbers of positives that a person wrote, who is asked back where a share was more likely meant.

    A share of the samples is often written as 0.01 to 0.03. Taken as numbers of positives, that is one positive in
    fifty plates; pools that hold every sample would do for it, and find nobody.

    Args:
        fewest: The fewest, as written.
        most: The most.
        samples: How many samples there are.
        between: What stands between the two where a person writes them.

    Example:
        >>> expected_positives(WrittenNumber(1.0, percent=True), WrittenNumber(3.0, percent=True), 200)
        (2.0, 6.0)
    """
    if fewest.percent and not most.percent:
        raise ValueError("positives has one end in per cent: give both ends in per cent, or none.")
    if most.percent:
        return fewest.value / 100 * samples, most.value / 100 * samples
    if 0 < most.value < RARE:

        def written(times: float, sign: str, join: str) -> str:
            return join.join(dict.fromkeys(f"{number.value * times:.4g}{sign}" for number in (fewest, most)))

        raise ValueError(
            f"positives={written(1.0, '', '-')} is hardly any on a plate of {samples} samples: did you mean "
            f"{written(100.0, '', ' to ')} % of the samples? Then write {written(100.0, '%', between)}. If you mean "
            f"{written(1.0, '', ' to ')} positives on a plate, write {written(100 / samples, '%', between)}."
        )
    return fewest.value, most.value


def parse_assay(kind: str, errors: Sequence[float]) -> Noise:
    """The noise of an assay.

    Args:
        kind: One of `ASSAYS`.
        errors: How it errs, in the numbers that `ASSAYS` asks for; none for an assay that never errs.

    Example:
        >>> parse_assay("count", [0.02]), parse_assay("count", [])
        (SparseInteger(rate=0.02, bound=1), Noiseless())
    """
    _check_kind(kind)
    if len(errors) not in NUMBERS[kind]:
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


def two_stages(kind: str) -> bool:
    """Whether doubtful samples are tested alone in a second round, where nobody says otherwise.

    Pools that are only positive or negative tell little, so one round takes many of them; laboratories that use such an
    assay test the samples of positive pools alone today.

    Example:
        >>> two_stages("positive"), two_stages("count")
        (True, False)
    """
    return kind == "positive"


def parse_errors(text: str, kind: str) -> list[float]:
    """How an assay errs, in the numbers that `ASSAYS` asks for; none where nothing is written.

    Example:
        >>> parse_errors("98 %, 99 %", "positive"), parse_errors("0,02", "count"), parse_errors("", "count")
        ([0.98, 0.99], [0.02], [])
    """
    _check_kind(kind)
    if not text.strip():
        return []
    if kind == "reading":
        return [read_amount("errors", text)]
    try:
        return read_shares("errors", text, wanted=NUMBERS[kind][1:])
    except ValueError as error:
        if "may mean" in str(error) or "per cent" in str(error):
            raise
        raise ValueError(f"errors={text!r} is not valid for {kind}: it reports {ASSAYS[kind]}.") from error


def _check_kind(kind: str) -> None:
    if kind not in ASSAYS:
        raise ValueError(f"assay={kind!r} is not known: give one of {', '.join(ASSAYS)}.")
