"""Accounts as files that people open: the table of calls, the report as CSV, and a page to forward.

A cell of the report that holds a list has its parts separated by semicolons. A part that holds a semicolon or quotes is
itself put in quotes, with its quotes doubled: such a cell is one line of CSV with `;` between its parts, and
`csv.reader([cell], delimiter=";", skipinitialspace=True)` takes it apart again.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from torch import Tensor

from qgt.decoders.results import Status
from qgt.files.cells import escape
from qgt.lab import reported
from qgt.lab.accounts import Account
from qgt.lab.decoding import DecodedSheet
from qgt.lab.verdicts import Verdict
from qgt.lab.wording import Alternative, Residual, joined, percent, quoted
from qgt.model.problem import Problem
from qgt.pictures import pages

COLUMNS = (
    *("instance", "verdict", "status", "confidence", "confidence_at_most", "fit", "proved_by"),
    *("defective", "undecided", "residuals", "alternatives", "retests", "words"),
)
CARDS = 200  # instances shown at length on a page
ANSWERS = 8  # of an instance, on its card


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


def sheet_page(sheet: DecodedSheet, *, title: str, facts: Mapping[str, object]) -> str:
    """A page about a decoded sheet: what to act on first, every instance in a table, the doubtful ones at length.

    Args:
        sheet: What was decoded.
        title: The page's title.
        facts: What stands at its foot: files, decoder, versions.
    """
    made = by_urgency(sheet.accounts)
    doubtful = [one for one in made if one.verdict is not Verdict.CERTAIN]
    anchors = {one.name: f"instance-{number}" for number, one in enumerate(doubtful[:CARDS], 1)}
    row = {name: i for i, name in enumerate(sheet.names)}
    cards = [card(sheet.problem, one, sheet.y[row[one.name]], anchor=anchors[one.name]) for one in doubtful[:CARDS]]
    left = len(doubtful) - len(cards)
    more = f"{left} more instances are not certain; they are in the table above." if left else ""
    problem, counts = sheet.problem, verdict_counts(made)
    lead = f"{_many(len(made), 'instance')} of {problem.items} items, counted in {problem.pools} pools: "
    lead += joined([f"{number} {word}" for word, number in counts.items()]) + "."
    meanings = [(pages.badge(word.value), word.meaning) for word in counts]
    sections = [
        *([pages.section("The file as a whole", *map(pages.paragraph, about_file(sheet)))] if sheet.fit else []),
        pages.section("All instances", _overview(made, anchors)),
        pages.section("What the verdicts mean", pages.table(("verdict", "meaning"), meanings, kind="texts")),
    ]
    if cards:
        parts = [*map(pages.decode_card, cards), *([pages.paragraph(more, quiet=True)] if more else [])]
        sections.insert(len(sections) - 1, pages.section("Instances that are not certain", *parts))
    return pages.page(title, lead, sections, colophon=pages.facts(facts))


def about_file(sheet: DecodedSheet) -> list[str]:
    """Whether the file as a whole fits the model and, where it does not, what may be wrong."""
    if sheet.fit is None:
        return []
    lines = [sheet.fit.words]
    if sheet.fit.suspect and sheet.causes:
        lines += [f"Likeliest cause: {sheet.causes[0]}."]
        lines += [f"Also possible: {cause}." for cause in sheet.causes[1:]]
    elif sheet.fit.suspect:
        lines += ["Check the design, the order of the pools, the counts and the noise of the model."]
    return lines


def card(
    problem: Problem,
    one: Account,
    y: Tensor,
    *,
    title: str | None = None,
    note: str = "",
    truth: Tensor | None = None,
    anchor: str = "",
) -> pages.Card:
    """An account as a page shows it, with its counts and, if known, the truth."""
    noise = problem.noise
    off = {one.pool: _off(one) for one in one.residuals} if reported.exact(noise) else {}
    rows = enumerate(zip(problem.design.pool_names, y.tolist(), strict=True))
    counts = [
        pages.Count(pool, "missing" if count != count else reported.shown(noise, i, count), off.get(pool, ""))
        for i, (pool, count) in rows
    ]
    against = "" if truth is None else _against(problem, one, truth)
    name = one.name if title is None else title
    return pages.Card(name, one.verdict.value, one.words, counts, _answers(one), note, against, anchor)


def _off(residual: Residual) -> str:
    """By how much a count is too high, or what was expected in its place."""
    return residual.reported.split(", ")[-1] if residual.reported else f"{residual.off:+g}"


def _answers(one: Account) -> list[tuple[str, str]]:
    """The answer and its alternatives with their probabilities, where there are any."""
    if not one.alternatives:
        return []
    rows = [(_percent(one.confidence), f"{joined(map(quoted, one.defective)) or 'none'} (the answer)")]
    rows += [(_percent(other.probability), other.change) for other in one.alternatives[: ANSWERS - 1]]
    if left := one.alternatives[ANSWERS - 1 :]:
        known = [other.probability for other in left if other.probability is not None]
        rows.append((percent(sum(known)) if known else "not known", f"{len(left)} more, together"))
    return rows


def _against(problem: Problem, one: Account, truth: Tensor) -> str:
    """How the truth, known of simulated data, compares."""
    names = problem.design.item_names
    true = {names[j] for j in truth.nonzero().flatten().tolist()}
    own = set(one.defective)
    if true == own and not one.undecided:
        return "The truth, which the decoder never saw, is the answer."
    added, dropped = (tuple(name for name in names if name in part) for part in (true - own, own - true))
    if one.undecided:
        return f"The truth, which the decoder never saw: {joined(map(quoted, added)) or 'none'} defective."
    changes = [(other.added, other.dropped) for other in one.alternatives]
    place = f", number {changes.index((added, dropped)) + 2} of those listed" if (added, dropped) in changes else ""
    return f"The truth, which the decoder never saw: {Alternative(None, added, dropped).change}{place}."


def _overview(made: Sequence[Account], anchors: Mapping[str, str]) -> pages.Piece:
    """Every instance in one line, those to be acted on first."""
    rows = [
        (
            one.name,
            pages.badge(one.verdict.value, anchor=anchors.get(one.name, "")),
            "no call" if one.undecided else joined(map(quoted, one.defective)) or "none",
            "in doubt" if one.verdict is Verdict.SUSPECT else _percent(one.confidence),
            _next_step(one),
        )
        for one in made
    ]
    return pages.table(("instance", "verdict", "defective", "probability", "next step"), rows, kind="texts")


def _next_step(one: Account) -> str:
    if one.verdict in (Verdict.IMPOSSIBLE, Verdict.SUSPECT):
        return "check the counts"
    if one.verdict is Verdict.CERTAIN:
        return ""
    names = joined(map(quoted, one.retests), most=4)
    return f"retest {names}" if names else "decode with more time" if one.status == Status.TIME_LIMIT else ""


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


def _percent(value: float | None) -> str:
    return "not known" if value is None else percent(value)


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
