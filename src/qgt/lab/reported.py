"""What a pool reported, in words: a count, a positive, a range or reads; written for people, and read from sheets.

A word is read only if it has one meaning, and only where the assay reports positive or negative, cycle thresholds or
amounts. A word with two meanings is refused, and the message names both: `n.d.` is written for "not detected" and for
"not done".

Machines write many things where nothing amplified: `Undetermined`, `NaN`, `No Ct`, 0, or a cycle at which the assay has
long ended. Where the assay reports cycle thresholds or amounts, all of these are read as not detected, and the notes
count them. An empty cell is a pool that was not measured.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from qgt.files.tables import MISSING, NO_NUMBER, NOT_DETECTED, has_decimal_commas, is_number, number
from qgt.lab.wording import Residual, in_one_phrase, quoted
from qgt.model.loads import CycleThreshold
from qgt.model.noise import Noise, Outliers, Reports, noise_of, reports_of
from qgt.model.problem import Problem

_POSITIVE = """
    positive, pos, +, ++, +++, +ve, detected, reactive, present, positiv, reaktiv, nachgewiesen, nachweisbar,
    detektiert
"""
_NEGATIVE = """
    negative, neg, -ve, not detected, undetected, non reactive, nonreactive, not reactive, absent, negativ,
    nicht reaktiv, nichtreaktiv, nicht nachgewiesen, nicht nachweisbar, nicht detektiert
"""
_MISSING = """
    invalid, inconclusive, indeterminate, equivocal, borderline, failed, not done, not measured, not tested,
    not determined, no result, ungültig, ungueltig, fehlgeschlagen, grenzwertig, fraglich, nicht auswertbar,
    nicht bestimmt, nicht gemessen, nicht getestet, nicht durchgeführt, kein ergebnis
"""
_NOTHING = """
    undetermined, undet, no ct, no cq, no cp, no amplification, no amp, not amplified, nan, n/a, inf, infinity,
    kein ct, kein cq, kein cp, keine amplifikation
"""
_EITHER = frozenset({"nan", "n/a"})  # machines write them where nothing amplified, and programs where it is missing
_OVERFLOW = "ovrflw, ovrflow, overflow, overflw, ovfl, overrange, over range, saturated, überlauf, ueberlauf, gesättigt"
_DOUBTFUL = frozenset({"nd", "nn", "undetermined", "unbestimmt"})  # without dots and blanks
_ANSWERS = frozenset({"yes", "no", "y", "n", "true", "false", "ja", "nein", "j", "wahr", "falsch"})
_DASHES = re.compile(r"[\u2010-\u2015\u2212\ufe63\uff0d]")
_LIMIT = re.compile(r"[<>\u2264\u2265]\s*=?\s*[\d.,]+")
REPORT_WORDS = {
    word.strip(): value
    for value, words in ((1.0, _POSITIVE), (0.0, _NEGATIVE), (math.nan, _MISSING))
    for word in words.split(",")
}
NOTHING_WORDS = frozenset(word.strip() for word in _NOTHING.split(",")) | {
    one for one, value in REPORT_WORDS.items() if value == 0.0
}
_OVERFLOWS = frozenset(word.strip() for word in _OVERFLOW.split(","))
RESULT = "write 1 or 0, or positive or negative"
NAMED_WORDS = 4  # different words that a note names
LAST_CYCLE = 60.0  # of any PCR machine: a larger number is something else, such as copies


def word(text: str) -> str:
    """A word as it is compared: without case, dots at its end, and hyphens and further blanks between its parts.

    Example:
        >>> word("NEG."), word("Non-Reactive"), word("\\u2212"), word("not_detected")
        ('neg', 'non reactive', '-', 'not detected')
    """
    plain = " ".join(_DASHES.sub("-", text.lower()).replace("_", " ").split()).rstrip(".")
    return re.sub(r"(?<=\w) ?- ?(?=\w)", " ", plain)


def is_word(text: str) -> bool:
    """Whether a cell that is not a number may be meant as a result; then it must not be reported as "not read".

    Example:
        >>> is_word("NEG"), is_word("n.d."), is_word("OVRFLW"), is_word("Ann")
        (True, True, True, False)
    """
    plain = word(text)
    if plain in NOTHING_WORDS:
        return True
    doubtful = plain == "-" or _bare(plain) in _DOUBTFUL or plain in _OVERFLOWS or plain in _ANSWERS
    return plain in REPORT_WORDS or doubtful or _LIMIT.fullmatch(plain) is not None


def read_reports(
    texts: Sequence[Sequence[str]],
    noise: Noise | None,
    place: Callable[[int, int], str],
    *,
    mark: str = ";",
    mixed: bool = False,
) -> tuple[list[list[float]], tuple[str, ...]]:
    """What cells report, NaN where that is missing, and notes on how they were read.

    Args:
        texts: A row of cells for each instance, one for each pool.
        noise: What the assay reports; None for counts, where nothing is known of it.
        place: Names the cell of an instance and a pool, to begin an error with.
        mark: What stands in an error before what to write instead.
        mixed: Whether each cell may have a decimal comma or a decimal point, as where people type cells one by one.

    Example:
        >>> from qgt.model.noise import PositiveNegative
        >>> read_reports([["POS", "neg", "0", "invalid"]], PositiveNegative(), lambda i, pool: f"pool {pool + 1}")
        ([[1.0, 0.0, 0.0, nan]], ('3 cells read as words: 1 negative (neg), 1 positive (POS), 1 missing (invalid).',))
        >>> read_reports([["n.d."]], PositiveNegative(), lambda i, pool: "c.csv: row 2, column 1")
        Traceback (most recent call last):
        ValueError: c.csv: row 2, column 1 holds 'n.d.', which may mean not detected or not done; write 0 or negative \
if nothing was detected, or leave the cell empty if the pool was not measured.
    """
    commas = has_decimal_commas(text for row in texts for text in row)
    pools = range(len(texts[0]) if texts else 0)
    kinds = [None if noise is None else reports_of(noise_of(noise, pool)) for pool in pools]
    detectors = [None if noise is None else detector(noise_of(noise, pool)) for pool in pools]
    cells = _Cells(_dash_is_negative(texts), _has_numbers(texts), _has_not_detected(texts))
    values: list[list[float]] = []
    for i, row in enumerate(texts):
        values.append([])
        for text, own, found, pool in zip(row, kinds, detectors, pools, strict=True):
            value = cells.read(text, number(text, commas="," in text if mixed else commas), own, found)
            if isinstance(value, str):
                raise ValueError(f"{place(i, pool)} holds {text!r}{_refusal(text, value, own, found, mark)}.")
            values[-1].append(value)
    said = ("Numbers have decimal commas.",) if commas and not mixed else ()
    return values, (*said, *cells.nothing.said(), *_words_said(cells.words))


# Assays that report cycle thresholds or amounts, where a machine may detect nothing.


@dataclass(frozen=True)
class Detector:
    """What an assay reports that may detect nothing: cycle thresholds, or amounts."""

    nothing: float  # the report of a pool in which nothing was detected: infinity for cycles, 0 for amounts
    limit: float | None  # the last cycle that is reported, or the least amount
    signed: bool  # whether a report may be below 0

    @property
    def cycles(self) -> bool:
        """Whether reports are cycle thresholds, which are larger where there is less."""
        return self.nothing == math.inf

    def read(self, text: str, value: float | str, beside: bool, said: bool = False) -> float | str:
        """The report in a cell, NaN where the measurement failed; or what to write instead.

        Args:
            text: The cell, which is not empty.
            value: The number in it, or why it is none.
            beside: Whether some cell of the sheet has a number: then N/A is what a machine wrote beside it.
            said: Whether other cells have another word for not detected, or 0: then NaN and N/A may mean not measured.
        """
        plain = word(text)
        if plain in NOTHING_WORDS and not (said and plain in _EITHER) and (plain != "n/a" or beside):
            return self.nothing
        if text.lower() in MISSING or plain in ("n.a", "n/a"):
            return NO_NUMBER  # not detected, or not measured
        if value == NO_NUMBER and math.isnan(REPORT_WORDS.get(plain, 0.0)):
            return math.nan
        return value if isinstance(value, str) else self._of_number(value)

    def _of_number(self, value: float) -> float | str:
        if value == 0:
            return self.nothing
        if value < 0 and not self.signed:
            what = "the cycle, which is never below 0" if self.cycles else "the amount, which is never below 0"
            return f"write {what}, or 'not detected' if nothing was detected"
        if self.cycles and value > max(LAST_CYCLE, self.limit or 0.0):
            return f"write the cycle threshold, which no PCR machine reports above {LAST_CYCLE:g}"
        if self.limit and (value >= self.limit if self.cycles else value < self.limit):
            return self.nothing
        return value


def detector(noise: Noise | None) -> Detector | None:
    """What an assay is that may detect nothing; None for other assays.

    Example:
        >>> from qgt.model.loads import CycleThreshold
        >>> from qgt.model.noise import Noiseless, Outliers
        >>> detector(Outliers(CycleThreshold(sigma=0.2, limit=38.0), rate=0.01)), detector(Noiseless())
        (Detector(nothing=inf, limit=38.0, signed=False), None)
    """
    inner: Noise | None = getattr(noise, "noise", None)
    if inner is not None:
        return detector(inner)
    nothing: float | None = getattr(noise, "not_detected", None)
    if nothing is None:
        return None
    limit: float | None = getattr(noise, "limit", None)
    absolute: float = getattr(noise, "absolute", 0.0)  # an error near 0, by which an amount may be below 0
    return Detector(nothing, limit or None, signed=nothing != math.inf and not limit and bool(absolute))


@dataclass(frozen=True)
class _Nothing:
    """The cells that were read as not detected."""

    words: Counter[str] = field(default_factory=Counter)
    numbers: Counter[tuple[str, Detector]] = field(default_factory=Counter)  # by what is written in the cell

    def add(self, text: str, found: Detector) -> None:
        """Count a cell, unless it says so itself; a 0 among amounts that may be below 0 is an amount like others."""
        if not is_number(text) or text.lower() in MISSING:
            self.words[text] += word(text) != NOT_DETECTED
        elif not found.signed:
            self.numbers[text, found] += 1

    def said(self) -> tuple[str, ...]:
        """The note on these cells: how many, and what is written in them."""
        total = self.words.total() + self.numbers.total()
        parts = [f"{times} {quoted(text)}" for text, times in self.words.items() if times]
        beyond: Counter[str] = Counter()
        several = len({text for text, _ in self.numbers if not _is_zero(text)}) > 1
        for (text, found), times in self.numbers.items():
            if several and not _is_zero(text):
                beyond[f"at {found.limit:g} cycles or later" if found.cycles else f"below {found.limit:g}"] += times
            else:
                beyond[f"of {text}{' cycles' if found.cycles else ''}"] += times
        parts += [f"{times} {words}" for words, times in beyond.items()]
        cells = f"{total} cell{'s' if total > 1 else ''}"
        return (f"{cells} read as not detected: {in_one_phrase(parts, most=2 * NAMED_WORDS)}.",) if total else ()


@dataclass(frozen=True)
class _Cells:
    """How the cells of one sheet are read, and what they were read as."""

    dashes: bool  # whether a dash is a negative
    numbers: bool  # whether some cell has a number
    said: bool  # whether some cell has a word for not detected that means nothing else, or 0
    nothing: _Nothing = field(default_factory=_Nothing)
    words: dict[float | None, Counter[str]] = field(
        default_factory=lambda: {0.0: Counter(), 1.0: Counter(), None: Counter()}
    )

    def read(self, text: str, value: float | str, own: Reports | None, found: Detector | None) -> float | str:
        """The report in a cell, which is counted where it is a word; or what to write instead.

        Args:
            text: The cell.
            value: The number in it, or why it is none.
            own: What the cell's pool reports.
            found: The same where a pool may detect nothing.
        """
        if found is not None and text:
            value = found.read(text, value, self.numbers, self.said)
            if value == found.nothing:
                self.nothing.add(text, found)
            elif isinstance(value, float) and math.isnan(value):
                self.words[None][text] += 1
        elif value == NO_NUMBER:
            value = _of_word(text, own, self.dashes)
            if not isinstance(value, str):
                self.words[None if math.isnan(value) else value][text] += 1
        return value


def _refusal(text: str, remedy: str, own: Reports | None, found: Detector | None, mark: str) -> str:
    """Why a cell is not read, if there is a reason to name, and what to write instead."""
    doubt = _doubt(text, own, detects=found is not None)
    if doubt is not None and remedy in (NO_NUMBER, RESULT):
        return f", {doubt[0]}{mark} {doubt[1]}"
    if found is not None and own is not None and remedy == NO_NUMBER:
        return f"{mark} {own.remedy}"
    return f"{mark} {remedy}"


def _is_zero(text: str) -> bool:
    return float(text.replace(",", ".")) == 0


def _has_numbers(texts: Sequence[Sequence[str]]) -> bool:
    return any(is_number(text) and text.lower() not in MISSING for row in texts for text in row)


def _has_not_detected(texts: Sequence[Sequence[str]]) -> bool:
    """Whether some cell has a word for not detected that means nothing else, or 0."""
    cells = [text for row in texts for text in row]
    return any(word(text) in NOTHING_WORDS - _EITHER or number(text, commas="," in text) == 0 for text in cells)


def _of_word(text: str, reports: Reports | None, dashes: bool) -> float | str:
    """The value of a word; or what to write instead."""
    if reports is None or not reports.binary:
        return (reports and reports.remedy) or NO_NUMBER
    plain = word(text)
    if plain == "-" and dashes:
        return 0.0
    return REPORT_WORDS.get(plain, RESULT)


def _dash_is_negative(texts: Sequence[Sequence[str]]) -> bool:
    """Whether a dash is a negative: where plus signs are the positives, and negatives have no other sign."""
    seen = {word(text) for row in texts for text in row}
    plus = any(one and not one.strip("+") for one in seen)
    others = any(one == "0" or REPORT_WORDS.get(one) == 0.0 for one in seen)
    return plus and not others


def _doubt(text: str, reports: Reports | None, *, detects: bool = False) -> tuple[str, str] | None:
    """Why a word is not read, and what to write instead; None where there is nothing to say of it."""
    plain = word(text)
    results = reports is not None and reports.binary
    how = f"{NOT_DETECTED!r}" if detects else "0 or negative" if results else "0"
    none = f"write {how} if nothing was detected"
    empty = "leave the cell empty if the pool was not measured"
    if plain in ("na", "n.a", "n/a", "nan"):
        return "which may mean not detected or not measured", f"{none}, or {empty}"
    if plain == "-":
        return "which may mean negative or not measured", f"{none}, or {empty}"
    if _bare(plain) in _DOUBTFUL:
        return "which may mean not detected or not done", f"{none}, or {empty}"
    if plain in _OVERFLOWS:
        again = "measure the pool again, diluted, or leave the cell empty, which loses what the pool says"
        return "a value too large to measure, which is not a missing one", again
    if _LIMIT.fullmatch(plain):
        return "a limit and not a value", f"write the value, or {empty}"
    if results and plain in _ANSWERS:
        return "which does not say what the question was", RESULT
    if plain in REPORT_WORDS and not results:
        if math.isnan(REPORT_WORDS[plain]):
            return "which is not a number", empty
        count = "write the number of positive samples in the pool"
        return "but this assay does not report positive or negative", (reports and reports.remedy) or count
    return None


def _bare(plain: str) -> str:
    return re.sub(r"[\s./]", "", plain)


def _words_said(seen: "dict[float | None, Counter[str]]") -> tuple[str, ...]:
    """The note on words that were read: how many were taken for what."""
    total = sum(counter.total() for counter in seen.values())
    called = {0.0: "negative", 1.0: "positive", None: "missing"}
    parts = [
        f"{seen[value].total()} {name} ({in_one_phrase(map(quoted, seen[value]), most=NAMED_WORDS)})"
        for value, name in called.items()
        if seen[value]
    ]
    return (f"{total} cell{'s' if total > 1 else ''} read as words: {', '.join(parts)}.",) if total else ()


def mistaken(noise: Noise, y: Tensor, sizes: Tensor) -> str:
    """What numbers look like that cannot be an assay's reports: cycle thresholds or copies; empty where neither.

    Cycle thresholds are mostly between 10 and 45 and have decimals, or are more than a pool has samples. Copies are
    numbers mostly more than ten times the number of samples.

    Args:
        noise: What the assay reports.
        y: The reports of one instance: (pools,).
        sizes: The number of samples in each pool: (pools,).

    Example:
        >>> import torch
        >>> from qgt.model.noise import Noiseless
        >>> y = torch.tensor([1263.0, 0.0, 88412.0, 5051.0], dtype=torch.float64)
        >>> mistaken(Noiseless(), y, torch.full((4,), 34))[:54]
        'These numbers look like copies. qgt needs the number o'
    """
    if detector(noise_of(noise, 0)) is not None:
        return ""  # cycles and copies are what such an assay reports
    kept = (~y.isnan()) & (y != 0)
    kind = _mistaken_kind(y[kept], sizes.to(y)[kept])
    if not kind:
        return ""
    if not reports_of(noise).counts:
        remedy = allowed(noise)
        return f"These numbers look like {kind}. This plan's assay does not report those: {remedy}." if remedy else ""
    return (
        f"These numbers look like {kind}. qgt needs the number of positive samples in each pool, which is what this "
        "plan's assay reports. Where pools are only positive or negative, plan with 'qgt plan --assay positive', and "
        "write positive or negative."
    )


def _mistaken_kind(values: Tensor, sizes: Tensor) -> str:
    """What the numbers of a sheet look like, 0s left out, beside the sizes of their pools; empty where like counts."""
    if len(values) < 3:
        return ""
    cycles = (values >= 10) & (values <= 45)
    odd = (values != values.floor()) | (values > sizes)
    if cycles.double().mean() >= 2 / 3 and (cycles & odd).double().mean() > 0.5:
        return "cycle thresholds (Ct), which are larger where there is less"
    return "copies" if (values > 10 * sizes).double().mean() > 0.5 else ""


def noun(noise: Noise) -> str:
    """What reports are called, in the plural.

    Example:
        >>> from qgt.model.noise import Noiseless, PositiveNegative
        >>> noun(Noiseless()), noun(PositiveNegative())
        ('counts', 'results')
    """
    return reports_of(noise).noun


def shown_as(noise: Noise, pool: int, value: float) -> str:
    """One report of a pool.

    Example:
        >>> from qgt.model.noise import Binned, PositiveNegative, Reads
        >>> shown_as(PositiveNegative(), 0, 1.0), shown_as(Binned([1, 5]), 0, 1.0), shown_as(Reads(100), 0, 12.0)
        ('positive', 'range 1 (1 to 4)', '12 reads')
    """
    return reports_of(noise_of(noise, pool)).shown(value)


def residual(problem: Problem, pool: int, counted: float, expected: float) -> Residual:
    """A pool whose report is not the expected one, with words where reports are not counts."""
    noise, words = problem.noise, ""
    if not reports_of(noise_of(noise, pool)).counts:
        words = f"reported {shown_as(noise, pool, counted)}, expected {shown_as(noise, pool, expected)}"
    return Residual(problem.design.pool_names[pool], counted, expected, words)


def alone(noise: Noise, amount: float) -> float | None:
    """The cycle threshold of a sample with that amount tested alone; None where pools report no cycles.

    Example:
        >>> from qgt.model.loads import Amount, CycleThreshold
        >>> alone(CycleThreshold(sigma=0.25), 1.0), alone(Amount(relative=0.1), 1.0)
        (37.0, None)
    """
    own = noise_of(noise, 0)
    own = own.noise if isinstance(own, Outliers) else own
    return own.cycle(amount) if isinstance(own, CycleThreshold) else None


def exact(noise: Noise) -> bool:
    """Whether most reports are exactly what they should be. Real numbers and numbers of reads are not.

    Example:
        >>> from qgt.model.noise import PositiveNegative, Reads
        >>> exact(PositiveNegative()), exact(Reads(100))
        (True, False)
    """
    return noise.integer and reports_of(noise).exact


def allowed(noise: Noise) -> str:
    """What a sheet may contain where reports are not counts; empty where they are, or where pools differ.

    Example:
        >>> from qgt.model.noise import Binned, PositiveNegative
        >>> allowed(PositiveNegative()), allowed(Binned([1, 5]))
        ('write 1 for positive and 0 for negative', 'write the number of a range, from 0 to 2')
    """
    return reports_of(noise).remedy
