"""Accounts as tables that people open: the calls as a matrix, a line for each sample, and the report.

All of them show the calls of `Account.calls`, and nothing else.

A cell of the report that holds a list has its parts separated by semicolons. A part that holds a semicolon or quotes is
itself put in quotes, with its quotes doubled: such a cell is one line of CSV with `;` between its parts, and
`csv.reader([cell], delimiter=";", skipinitialspace=True)` takes it apart again.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from qgt.decoders.results import Decoded, Status
from qgt.files.tables import escape
from qgt.lab.accounts import Account
from qgt.lab.verdicts import Call, Verdict
from qgt.lab.wording import CALLED, NAMED, Alternative, joined, quoted

Cell = str | int | float | None
COLUMNS = (
    *("plate", "verdict", "status", "confidence", "confidence_at_most", "fit", "proved_by"),
    *("positive", "retest", "no_call", "answer", "residuals", "alternatives", "words"),
)
SAMPLE_COLUMNS = ("plate", "well", "sample", "call", "probability", "verdict", "check code", "counts")
LONGEST_CELL = 32_000  # characters: a spreadsheet cuts off what is longer than 32,767


def write_calls(path: str | Path, made: Sequence[Account], items: Sequence[str]) -> None:
    """Write one row per instance and one column per sample: 1 positive, 0 negative, empty where neither is called.

    Example:
        >>> import tempfile, torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.05))
        >>> y = torch.tensor([[0.0, 1.0], [0.0, 2.0]], dtype=torch.float64)
        >>> made = qgt.accounts(problem, y, ["a", "b"], qgt.Certified().bind(problem)(y))
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     write_calls(file.name, made, problem.design.item_names)
        ...     print(Path(file.name).read_text(), end="")
        plate,I1,I2,I3
        a,0,0,1
        b,,,
    """
    _write(path, ["plate", *items], ([one.name, *(each.call.cell for each in one.calls)] for one in made))


def write_answers(path: str | Path, result: Decoded, names: Sequence[str], items: Sequence[str]) -> None:
    """Write the decoder's best answers, 1 or 0 for every item whatever they are worth: for scores, not for reports.

    An instance that no answer explains has none: its cells are empty.
    """
    none = (result.status == Status.INFEASIBLE).tolist()
    rows = zip(names, result.x.tolist(), none, strict=True)
    _write(path, ["instance", *items], ([name, *([""] * len(x) if gone else x)] for name, x, gone in rows))


def write_samples(path: str | Path, rows: Iterable[Sequence[Cell]]) -> None:
    """Write `sample_rows`: one line per sample, as laboratory systems import them."""
    _write(path, SAMPLE_COLUMNS, rows)


def sample_rows(
    made: Sequence[Account], code: str, places: Mapping[str, tuple[str, str]] | None = None
) -> Iterable[tuple[Cell, ...]]:
    """A line for each sample of each instance: where it is, its call, and how far to trust that.

    Args:
        made: The accounts.
        code: The design's check code.
        places: The plate and the well of each sample; without them the plate is the instance's name.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.05))
        >>> y = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
        >>> made = qgt.accounts(problem, y, ["a"], qgt.Certified().bind(problem)(y))
        >>> list(sample_rows(made, "869FD3", {"I1": ("P", "A1"), "I2": ("P", "B1"), "I3": ("P", "C1")}))[2]
        ('P', 'C1', 'I3', 'positive', 1.0, 'certain', '869FD3', 'a')
    """
    for one in made:
        for sample, call, probability in one.calls:
            plate, well = (one.name, "") if places is None else places[sample]
            shown = None if probability is None else round(probability, 6)
            yield plate, well, sample, call.value, shown, one.verdict.value, code, one.name


def refuse_undecided(path: str | Path) -> None:
    """Raise a ValueError for a file of calls with an empty cell: it is neither right nor wrong."""
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as stream:
            rows = list(csv.reader(stream))
    except (OSError, ValueError, csv.Error):
        return  # whoever reads the calls says what is wrong with the file
    for number, row in enumerate(rows, 1):
        if number > 1 and "" in row[1:]:
            raise ValueError(
                f"{path}: row {number}, column {row.index('', 1) + 1} is empty: the sample is not called. Score the "
                "decoder's best answers instead: 'qgt decode --answers FILE' writes them."
            )


def write_report(path: str | Path, made: Sequence[Account]) -> None:
    """Write one row per instance with all that its account says."""
    _write(path, COLUMNS, map(report_row, made))


def report_row(one: Account) -> tuple[Cell, ...]:
    """The cells of an account's row, in the order of `COLUMNS`."""
    return (
        *(one.name, one.verdict.value, one.status.name, _number(one.confidence), _number(one.at_most)),
        None if one.fit is None else float(f"{one.fit:.3g}"),
        one.proved_by or "",
        in_one_cell(one.positives),
        in_one_cell(one.retests),
        in_one_cell(one.called(Call.NONE)),
        in_one_cell(one.answer),
        in_one_cell(f"{residual.pool}: {residual.both}" for residual in one.residuals),
        in_one_cell(map(_difference, one.alternatives), more=one.more.number),
        one.words,
    )


def in_one_cell(parts: Iterable[str], delimiter: str = ";", *, more: int = 0) -> str:
    """A list as one cell that can be taken apart again, whatever the parts hold.

    A list that would not fit into a spreadsheet's cell is cut off, and the last part says how many are left out.

    Args:
        parts: The list.
        delimiter: What separates its parts.
        more: How many parts were left out already.

    Example:
        >>> print(in_one_cell(["A1", "Lee, Ann", "B; 2"]), in_one_cell(["A1"], more=3), sep=" | ")
        A1; Lee, Ann; "B; 2" | A1; ... and 3 more
    """
    shown, room = [], LONGEST_CELL
    for part in parts:
        text = _part(part, delimiter)
        room -= len(text) + len(delimiter) + 1
        if room >= 0:
            shown.append(text)
        else:
            more += 1
    return f"{delimiter} ".join([*shown, *([f"... and {more} more"] if more else [])])


def calls_line(one: Account) -> str:
    """An instance's calls as one line of text.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.05))
        >>> y = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
        >>> calls_line(qgt.accounts(problem, y, ["plate 7"], qgt.Certified().bind(problem)(y))[0])
        'plate 7: I3 positive (certain)'
    """
    return f"{quoted(one.name)}: {calls_in_words(one)} ({one.verdict})"


def calls_in_words(one: Account) -> str:
    """Which samples are positive and which to test again; "none positive" only where all the others are negative.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.05))
        >>> y = torch.tensor([[1.0, 1.0], [0.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
        >>> [calls_in_words(one) for one in qgt.accounts(problem, y, None, qgt.Certified().bind(problem)(y))]
        ['I2 positive; retest I1 and I3', 'none positive', 'no call']
    """
    positive, retest, none = one.positives, one.retests, one.called(Call.NONE)
    parts = [f"{joined(map(quoted, positive), most=CALLED)} positive"] if positive else []
    parts += [f"retest {joined(map(quoted, retest), most=NAMED)}"] if retest else []
    if none:
        parts.append("no call" if len(none) == len(one.calls) else f"no call of {len(none)} samples")
    return "; ".join(parts) or "none positive"


def by_urgency(made: Sequence[Account]) -> list[Account]:
    """The accounts, those to be acted on first; the sheet's order within a verdict."""
    order = list(Verdict)
    return sorted(made, key=lambda one: order.index(one.verdict))


def verdict_counts(made: Sequence[Account]) -> dict[Verdict, int]:
    """How many instances have each verdict that occurs, the surest first."""
    numbers = Counter(one.verdict for one in made)
    return {word: numbers[word] for word in reversed(Verdict) if numbers[word]}


def _write(path: str | Path, header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Write a CSV file; texts that a spreadsheet would run are escaped."""
    with Path(path).open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        for row in (header, *rows):
            writer.writerow([escape(cell) if isinstance(cell, str) else cell for cell in row])


def _difference(other: Alternative) -> str:
    """An alternative in one part of a cell: its probability, then +item and -item for what it changes."""
    changes = in_one_cell([*(f"+{name}" for name in other.added), *(f"-{name}" for name in other.dropped)], ",")
    return changes if other.probability is None else f"{other.probability:.4f}: {changes}"


def _part(part: str, delimiter: str) -> str:
    """One part of a list, in quotes where csv's rules or a blank at an end ask for them."""
    plain = part == part.strip() and part and not {delimiter, '"', "\n", "\r"} & set(part)
    if plain:
        return part
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="").writerow([part])
    return line.getvalue()


def _number(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")
