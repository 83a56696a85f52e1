"""Accounts as tables that people open: the calls, and the report as CSV.

A cell of the report that holds a list has its parts separated by semicolons. A part that holds a semicolon or quotes is
itself put in quotes, with its quotes doubled: such a cell is one line of CSV with `;` between its parts, and
`csv.reader([cell], delimiter=";", skipinitialspace=True)` takes it apart again.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from qgt.files.cells import escape
from qgt.lab.accounts import Account
from qgt.lab.verdicts import Verdict
from qgt.lab.wording import Alternative, quoted

COLUMNS = (
    *("instance", "verdict", "status", "confidence", "confidence_at_most", "fit", "proved_by"),
    *("defective", "undecided", "residuals", "alternatives", "retests", "words"),
)


def write_calls(path: str | Path, made: Sequence[Account], items: Sequence[str]) -> None:
    """Write one row per instance and one column per item: 1 defective, 0 not, empty where undecided.

    Example:
        >>> import tempfile, torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.05))
        >>> y = torch.tensor([[0.0, 1.0], [0.0, 2.0]], dtype=torch.float64)
        >>> made = qgt.accounts(problem, y, ["a", "b"], qgt.Certified().bind(problem)(y))
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     write_calls(file.name, made, problem.design.item_names)
        ...     print(Path(file.name).read_text(), end="")
        instance,I1,I2,I3
        a,0,0,1
        b,,,
    """
    with Path(path).open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["instance", *map(escape, items)])
        for one in made:
            call = {**dict.fromkeys(one.defective, "1"), **dict.fromkeys(one.undecided, "")}
            writer.writerow([escape(one.name), *(call.get(item, "0") for item in items)])


def refuse_undecided(path: str | Path) -> None:
    """Raise a ValueError for a file of calls with an undecided item: it is neither right nor wrong."""
    try:
        with Path(path).open(newline="", encoding="utf-8-sig") as stream:
            rows = list(csv.reader(stream))
    except (OSError, ValueError, csv.Error):
        return  # whoever reads the calls says what is wrong with the file
    for number, row in enumerate(rows, 1):
        if number > 1 and "" in row[1:]:
            raise ValueError(
                f"{path}: row {number}, column {row.index('', 1) + 1} is empty: the item is undecided; leave the "
                f"instance {row[0]!r} out of both files, or decode it again."
            )


def write_report(path: str | Path, made: Sequence[Account]) -> None:
    """Write one row per instance with all that its account says."""
    with Path(path).open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([escape(cell) for cell in report_row(one)] for one in made)


def report_row(one: Account) -> tuple[str, ...]:
    """The cells of an account's row, in the order of `COLUMNS`."""
    return (
        *(one.name, one.verdict.value, one.status.name, _number(one.confidence), _number(one.at_most)),
        "" if one.fit is None else f"{one.fit:.3g}",
        one.proved_by or "",
        in_one_cell(one.defective),
        in_one_cell(one.undecided),
        in_one_cell(f"{residual.pool}: {residual.both}" for residual in one.residuals),
        in_one_cell(map(_difference, one.alternatives)),
        in_one_cell(one.retests),
        one.words,
    )


def in_one_cell(parts: Iterable[str], delimiter: str = ";") -> str:
    """A list as one cell that can be taken apart again, whatever the parts hold.

    Example:
        >>> print(in_one_cell(["A1", "Lee, Ann", "B; 2"]))
        A1; Lee, Ann; "B; 2"
    """
    return f"{delimiter} ".join(_part(part, delimiter) for part in parts)


def calls_line(one: Account) -> str:
    """An instance's calls as one line of text.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.05))
        >>> y = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
        >>> calls_line(qgt.accounts(problem, y, ["plate 7"], qgt.Certified().bind(problem)(y))[0])
        'plate 7: I3 (certain)'
    """
    if one.undecided and not one.defective:
        return f"{quoted(one.name)}: no call ({one.verdict})"
    return f"{quoted(one.name)}: {', '.join(map(quoted, one.defective)) or 'none defective'} ({one.verdict})"


def by_urgency(made: Sequence[Account]) -> list[Account]:
    """The accounts, those to be acted on first; the sheet's order within a verdict."""
    order = list(Verdict)
    return sorted(made, key=lambda one: order.index(one.verdict))


def verdict_counts(made: Sequence[Account]) -> dict[Verdict, int]:
    """How many instances have each verdict that occurs, the surest first."""
    numbers = Counter(one.verdict for one in made)
    return {word: numbers[word] for word in reversed(Verdict) if numbers[word]}


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


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
