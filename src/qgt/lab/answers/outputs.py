"""What a decoded sheet leaves behind: tables, pages and files that a person keeps, all made from one account."""

import dataclasses
import io
import json
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from qgt.decoders.certified.decoder import Certified
from qgt.decoders.results import Decoded, Status
from qgt.files.grids import (
    CellRow,
    WorkbookRow,
    csv_bytes,
    has_workbooks,
    part_of_cell,
    read_grid,
    workbook_bytes,
    write_rows,
)
from qgt.files.tables import table_bytes
from qgt.lab import reported
from qgt.lab.answers.accounts import Account, SampleCall, SampleValue, named_items
from qgt.lab.answers.decoding import DecodedSheet
from qgt.lab.plan.loads import not_covered
from qgt.lab.sheets import plates
from qgt.lab.sheets.names import check_code, label
from qgt.lab.sheets.samples import Samples
from qgt.lab.verdicts import Call, Verdict
from qgt.lab.wording import (
    CALLED_AT_MOST,
    NAMED_AT_MOST,
    Alternative,
    Residual,
    beyond,
    in_one_phrase,
    many,
    percent,
    quoted,
)
from qgt.model.categories import Categories, Copies
from qgt.model.problem import Problem, problem_files
from qgt.pictures import pages
from qgt.rounds.history import History, by_problem

# Accounts as tables that people open: the calls as a matrix, a line for each sample, and the report.
#
# All of them show the calls of `Account.calls`, and nothing else.
#
# A cell of the report that holds a list has its parts separated by semicolons. A part that holds a semicolon or quotes
# is itself put in quotes, with its quotes doubled: such a cell is one line of CSV with `;` and a blank between its
# parts, which readers of CSV take apart again.

CellValue = str | int | float | None
REPORT_COLUMNS = (
    *("plate", "verdict", "status", "confidence", "confidence_at_most", "fit"),
    *("positive", "retest", "no_call", "answer", "residuals", "alternatives", "words"),
)
SAMPLE_COLUMNS = ("plate", "well", "sample", "call", "probability", "verdict", "check code", "counts")
LOAD_COLUMNS = ("amount", "amount from", "amount to", "cycle threshold alone")  # where samples have loads
LONGEST_CELL = 32_000  # characters: a spreadsheet cuts off what is longer than 32,767


def write_calls(path: str | Path, made: Sequence[Account], items: Sequence[str]) -> None:
    """Write one row per instance and one column per sample: 1 positive, 0 negative, empty where neither is called.

    A sample with copies or in a category has the number of copies, or the category, in place of 1 and 0.

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
    write_rows(path, calls_rows(made, items))


def calls_rows(made: Sequence[Account], items: Sequence[str]) -> Iterator[CellRow]:
    """The rows of the file that `write_calls` writes."""
    yield ["plate", *items]
    yield from ([one.name, *(each.cell for each in one.calls)] for one in made)


def write_answers(
    path: str | Path,
    result: Decoded,
    names: Sequence[str],
    items: Sequence[str],
    cells: Sequence[str] | None = None,
) -> None:
    """Write the decoder's best answers, 1 or 0 for every item whatever they are worth: for scores, not for reports.

    An instance that no answer explains has none: its cells are empty. `cells` are what is written for each number of
    copies or category, where items have such.
    """
    none = (result.status == Status.INFEASIBLE).tolist()
    rows = zip(names, result.x.tolist(), none, strict=True)
    shown = (lambda value: value) if cells is None else cells.__getitem__
    lines = ([name, *([None] * len(x) if gone else map(shown, x))] for name, x, gone in rows)
    write_rows(path, [["instance", *items], *lines])


def write_samples(
    path: str | Path, rows: Iterable[Sequence[CellValue]], values: Categories | Copies | None = None
) -> None:
    """Write `sample_rows`: one line per sample, as laboratory systems import them."""
    lines = list(rows)
    write_rows(path, [sample_columns(lines, values), *lines])


def sample_columns(rows: Sequence[Sequence[CellValue]], values: Categories | Copies | None = None) -> tuple[str, ...]:
    """The heads of the columns of `sample_rows`: those of loads, copies and categories only where there are any."""
    if values is not None:
        return (*SAMPLE_COLUMNS, *value_columns(values))
    return (*SAMPLE_COLUMNS, *(LOAD_COLUMNS if rows and len(rows[0]) > len(SAMPLE_COLUMNS) else ()))


def value_columns(values: Categories | Copies | None) -> tuple[str, ...]:
    """The heads of the columns for samples with copies or categories: what is called, and each probability.

    Example:
        >>> value_columns(Categories((0.1,), names=["variant A"]))
        ('category', 'probability of negative', 'probability of variant A')
    """
    if values is None:
        return ()
    noun = "copies" if isinstance(values, Copies) else "category"
    return (noun, *(f"probability of {label}" for label in values.labels))


def _value_cells(value: SampleValue | None, values: Categories | Copies) -> tuple[CellValue, ...]:
    """The cells under `value_columns`, empty where a sample is not called or its probabilities are not known."""
    if value is None or value.probabilities is None:
        return ((value.cell if value is not None else "") or None, *(None for _ in values.labels))
    return (value.cell or None, *(round(probability, 6) for _, probability in value.probabilities))


def has_loads(made: Sequence[Account]) -> bool:
    """Whether a load is known of any sample."""
    return any(one.load is not None for account in made for one in account.calls)


def sample_rows(
    made: Sequence[Account],
    code: str,
    places: Mapping[str, tuple[str, str]] | None = None,
    values: Categories | Copies | None = None,
) -> Iterable[tuple[CellValue, ...]]:
    """A line for each sample of each instance: where it is, its call, and how far to trust that.

    Args:
        made: The accounts.
        code: The design's check code.
        places: The plate and the well of each sample; without them the plate is the instance's name.
        values: The prior of copies or categories, where samples have such.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.05))
        >>> y = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
        >>> made = qgt.accounts(problem, y, ["a"], qgt.Certified().bind(problem)(y))
        >>> list(sample_rows(made, "869FD3", {"I1": ("P", "A1"), "I2": ("P", "B1"), "I3": ("P", "C1")}))[2]
        ('P', 'C1', 'I3', 'positive', 1.0, 'certain', '869FD3', 'a')
    """
    with_loads = has_loads(made)
    for one in made:
        for sample, call, probability, load, value in one.calls:
            plate, well = (one.name, "") if places is None else places[sample]
            shown = None if probability is None else round(probability, 6)
            loads = () if not with_loads else (None,) * len(LOAD_COLUMNS) if load is None else load.cells
            more = loads if values is None else _value_cells(value, values)
            yield plate, well, sample, call.value, shown, one.verdict.value, code, one.name, *more


def refuse_undecided(path: str | Path) -> None:
    """Raise a ValueError for a file of calls with an empty cell: it is neither right nor wrong."""
    try:
        grid = read_grid(path)
    except ValueError:
        return  # whoever reads the calls says what is wrong with the file
    for number, row in enumerate(grid.rows):
        if number and "" in row[1:]:
            raise ValueError(
                f"{grid.place(number, row.index('', 1))} is empty: the sample is not called. Score the decoder's best "
                "answers instead: 'qgt decode --answers FILE' writes them."
            )


def write_report(path: str | Path, made: Sequence[Account]) -> None:
    """Write one row per instance with all that its account says."""
    write_rows(path, [REPORT_COLUMNS, *map(report_row, made)])


def report_row(one: Account) -> tuple[CellValue, ...]:
    """The cells of an account's row, in the order of `REPORT_COLUMNS`."""
    return (
        *(one.name, one.verdict.value, one.status.name, _number(one.confidence), _number(one.at_most)),
        None if one.fit is None else float(f"{one.fit:.3g}"),
        in_one_cell(one.named_positives),
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
        text = part_of_cell(part, delimiter)
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
    positive, retest, none = one.named_positives, one.retests, one.called(Call.NONE)
    parts = [f"{in_one_phrase(map(quoted, positive), most=CALLED_AT_MOST)} positive"] if positive else []
    parts += [f"retest {in_one_phrase(map(quoted, retest), most=NAMED_AT_MOST)}"] if retest else []
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


def _difference(other: Alternative) -> str:
    """An alternative in one part of a cell: its probability, then +item and -item for what it changes."""
    changes = in_one_cell([*(f"+{name}" for name in other.added), *(f"-{name}" for name in other.dropped)], ",")
    return changes if other.probability is None else f"{other.probability:.4f}: {changes}"


def _number(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


# A plate as a table of wells, each with what is called of its sample: in a colour, with a sign, and in words.


@dataclass(frozen=True)
class Well:
    """One well."""

    place: str
    sample: str = ""  # empty where nothing stands in it
    call: Call | None = None
    value: tuple[str, str] | None = None  # the sign and the words of copies or a category, where it is positive

    @property
    def state(self) -> str:
        """What the style calls it."""
        return "empty" if self.call is None else self.call.value

    @property
    def sign(self) -> str:
        """What is seen where colours are not."""
        return "" if self.call is None else self.call.sign if self.value is None else self.value[0]

    @property
    def words(self) -> str:
        """What is read aloud."""
        if self.call is None:
            return f"{self.place}: empty"
        return f"{self.sample} in {self.place}: {self.call.words if self.value is None else self.value[1]}"


@dataclass(frozen=True)
class Plate:
    """One plate, by its rows."""

    name: str
    columns: tuple[int, ...]
    rows: tuple[tuple[str, tuple[Well, ...]], ...]


def value_signs(values: Categories | Copies) -> dict[str, str]:
    """What a map of a plate shows for each number of copies or category but 0: its number."""
    return {label: str(number) for number, label in enumerate(values.labels) if number}


def well_values(one: Account, values: Categories | Copies | None) -> dict[str, tuple[str, str]]:
    """The sign and the words of each sample that is called positive, where samples have copies or categories."""
    signs = {} if values is None else value_signs(values)
    return {
        each.sample: (signs[each.value.label], each.value.label)
        for each in one.calls
        if each.value is not None and each.value.label in signs
    }


def plate_maps(
    calls: Mapping[str, Call], samples: Samples, values: Mapping[str, tuple[str, str]] | None = None
) -> list[Plate]:
    """Every plate of the samples, with each sample's call; `values` are those of `well_values`.

    Example:
        >>> (plate,) = plate_maps({"S1": Call.POSITIVE, "S2": Call.RETEST}, Samples.numbered(2))
        >>> [wells[0].words for letter, wells in plate.rows[:3]]
        ['S1 in A1: positive', 'S2 in B1: test again', 'C1: empty']
    """
    found = []
    for plate in samples.plate_names:
        rows, columns = plates.shape(samples.plate_size(plate))
        at = samples.on_plate(plate)
        lines = []
        for letter in map(plates.row_letter, range(rows)):
            places = [f"{letter}{number}" for number in range(1, columns + 1)]
            lines.append((letter, tuple(_well(place, at.get(place), calls, values or {}) for place in places)))
        found.append(Plate(plate, tuple(range(1, columns + 1)), tuple(lines)))
    return found


def _well(place: str, sample: str | None, calls: Mapping[str, Call], values: Mapping[str, tuple[str, str]]) -> Well:
    return Well(place) if sample is None else Well(place, sample, calls[sample], values.get(sample))


def map_key(values: Categories | Copies | None) -> str:
    """What the signs on a map of a plate mean, in a sentence.

    Example:
        >>> map_key(Categories((0.1, 0.1), names=["variant A", "variant B"]))
        'Signs: 1 variant A, 2 variant B, ? test again, / no call, \u00b7 negative.'
    """
    signs = {word.words: word.sign for word in Call}
    if values is not None:
        signs = {
            **value_signs(values),
            **{words: sign for words, sign in signs.items() if words != Call.POSITIVE.words},
        }
    return "Signs: " + ", ".join(f"{sign} {words}" for words, sign in signs.items()) + "."


# Accounts as a page to print or to forward: what to act on first, every instance, the doubtful ones at length.

CARDS = 200  # plates shown at length on a page
MAPS_ON_PAGE = 20  # plates that are drawn
LINES = 500  # samples listed one by one
ANSWERS_ON_CARD = 8  # of an instance, on its card


def sheet_page(sheet: DecodedSheet, *, title: str, facts: Mapping[str, object], samples: Samples | None = None) -> str:
    """A page about a decoded sheet: what to act on first, every plate in a table, the doubtful ones at length.

    Args:
        sheet: What was decoded.
        title: The page's title.
        facts: What stands at its foot: files, decoder, versions.
        samples: Where the samples stand, if that is known: the plates are then drawn.
    """
    made, about = by_urgency(sheet.accounts), about_file(sheet)
    measured = dict(zip(sheet.names, sheet.histories, strict=True))
    doubtful = [one for one in made if one.verdict is not Verdict.CERTAIN]
    anchors = {one.name: f"plate-{number}" for number, one in enumerate(doubtful[:CARDS], 1)}
    cards = [
        card(history.problem, one, history.y, anchor=anchors[one.name])
        for one in doubtful[:CARDS]
        for history in [measured[one.name]]
    ]
    left = len(doubtful) - len(cards)
    more = f"{left} more plates are not certain; they are in the table above." if left else ""
    design, counts = sheet.problem.design, verdict_counts(made)
    lead = f"{many(len(made), 'plate')} of {design.items} samples, {_counted_in(sheet)}: "
    lead += in_one_phrase([f"{number} {word}" for word, number in counts.items()]) + f". {label(design)}."
    meanings = [(pages.badge(word.value), word.meaning) for word in counts]
    sections = [
        *([pages.section("The file as a whole", *map(pages.paragraph, about))] if about else []),
        *([pages.section("How the file was read", *map(pages.paragraph, sheet.notes))] if sheet.notes else []),
        pages.section("All plates", _overview(made, anchors)),
    ]
    if cards:
        parts = [*map(pages.decode_card, cards), *([pages.paragraph(more, quiet=True)] if more else [])]
        sections.append(pages.section("Plates that are not certain", *parts))
    sections += [
        *_maps(made, samples, sheet.problem.values),
        pages.section("Every sample", *_sample_lines(made, samples, sheet.problem.values)),
        pages.section("What the verdicts mean", pages.table(("verdict", "meaning"), meanings, kind="texts")),
        pages.signatures(),
    ]
    return pages.page(title, lead, sections, colophon=pages.facts(facts))


def _counted_in(sheet: DecodedSheet) -> str:
    """In how many pools the samples were counted."""
    later = sum(sum(one.rounds[1:]) for one in sheet.histories)
    if not later:
        return f"counted in {sheet.problem.pools} pools"
    most = max(len(one.rounds) for one in sheet.histories)
    where = "a later round" if most == 2 else f"{most - 1} later rounds"
    return f"counted in {sheet.problem.pools} pools and {later} more in {where}"


def _maps(made: Sequence[Account], samples: Samples | None, values: Categories | Copies | None) -> list[pages.Piece]:
    """The plates as they stand, with each sample's call."""
    if samples is None:
        return []
    drawn = [
        pages.plate_map(plate, one.name if len(made) > 1 else "")
        for one in made[:MAPS_ON_PAGE]
        for plate in plate_maps({each.sample: each.call for each in one.calls}, samples, well_values(one, values))
    ]
    return [pages.section("Plate maps", pages.paragraph(map_key(values), quiet=True), *drawn)]


def _sample_lines(
    made: Sequence[Account], samples: Samples | None, values: Categories | Copies | None = None
) -> list[pages.Piece]:
    """A line for each sample, those to act on first; of many, only the ones that are not negative."""
    places = None if samples is None else samples.places
    lines = [(one, each) for one in made for each in one.calls]
    shown = sorted(lines, key=lambda line: list(Call).index(line[1].call))
    some = shown if len(shown) <= LINES else [line for line in shown if line[1].call is not Call.NEGATIVE][:LINES]
    rows = [
        (
            each.sample,
            one.name if places is None else " ".join(places[each.sample]),
            each.words,
            _percent(each.probability),
            *([] if values is None else _value_percents(each, values)),
            *([] if not has_loads(made) else [each.load.words if each.load else ""]),
        )
        for one, each in some
    ]
    left = len(lines) - len(some)
    negative = sum(each.call is Call.NEGATIVE for _, each in lines)
    note = f"{left:,} more samples are not listed here. {negative:,} of all {len(lines):,} samples are negative."
    more = [] if values is None else [f"probability of {label}" for label in values.labels[1:]]
    more += ["amount"] if has_loads(made) else []
    heads = ("sample", "where", "call", "positive with a probability of", *more)
    table = pages.table(heads, rows, kind="texts")
    return [*([table] if rows else []), *([pages.paragraph(note, quiet=True)] if left else [])]


def _value_percents(each: SampleCall, values: Categories | Copies) -> list[str]:
    """The probability of each number of copies or category but 0."""
    known = None if each.value is None else each.value.probabilities
    return [_percent(None if known is None else known[number][1]) for number in range(1, values.levels + 1)]


def about_file(sheet: DecodedSheet) -> list[str]:
    """Whether the file as a whole fits the model, what may be wrong where it does not, and what no answer covers."""
    weak = [words] if (words := not_covered(sheet.problem)) else []
    if sheet.fit is None or sheet.rounds > 1:
        return weak
    lines = [sheet.fit.words]
    if sheet.fit.suspect and sheet.causes:
        lines += [f"Likeliest cause: {sheet.causes[0]}."]
        if remedy := sheet.causes[0].remedy:
            lines += [f"{remedy[0].upper()}{remedy[1:]} before you test anything again."]
        lines += [f"Also possible: {cause}." for cause in sheet.causes[1:]]
    elif sheet.fit.suspect:
        lines += ["Check the design, the order of the pools, the counts and the noise of the model."]
    return [*lines, *weak]


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
    noise, each = problem.in_parts.noise, y.numel() // problem.pools  # reports of a pool: one, or one for each category
    off = {one.pool: _off(one) for one in one.residuals} if reported.exact(noise) else {}
    rows = enumerate(zip(problem.report_names, y.flatten().tolist(), strict=True))
    counts = [
        pages.Count(
            pool,
            "missing" if count != count else reported.shown_as(noise, (i % each) * problem.pools + i // each, count),
            off.get(pool, ""),
        )
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
    rows = [(_percent(one.confidence), f"{in_one_phrase(map(quoted, one.answer)) or 'none'} (the answer)")]
    rows += [(_percent(other.probability), other.change) for other in one.alternatives[: ANSWERS_ON_CARD - 1]]
    if left := beyond(one.alternatives[ANSWERS_ON_CARD - 1 :], one.more):
        rows.append((_percent(left.probability), f"{left.number} more, together"))
    return rows


def _against(problem: Problem, one: Account, truth: Tensor) -> str:
    """How the truth, known of simulated data, compares."""
    true, decided = named_items(problem, truth), len(one.called(Call.NONE)) < len(one.calls)
    if true == one.answer and decided:
        return "The truth, which the decoder never saw, is the answer."
    added = tuple(name for name in true if name not in one.answer)
    dropped = tuple(name for name in one.answer if name not in true)
    if not decided:
        return f"The truth, which the decoder never saw: {in_one_phrase(map(quoted, added)) or 'none'} positive."
    changes = [(other.added, other.dropped) for other in one.alternatives]
    place = f", number {changes.index((added, dropped)) + 2} of those listed" if (added, dropped) in changes else ""
    return f"The truth, which the decoder never saw: {Alternative(None, added, dropped).change}{place}."


def _overview(made: Sequence[Account], anchors: Mapping[str, str]) -> pages.Piece:
    """Every plate in one line, those to be acted on first."""
    rows = [
        (
            one.name,
            pages.badge(one.verdict.value, anchor=anchors.get(one.name, "")),
            calls_in_words(one),
            "in doubt" if one.verdict is Verdict.SUSPECT else _percent(one.confidence),
            _next_step(one),
        )
        for one in made
    ]
    return pages.table(("plate", "verdict", "calls", "probability", "next step"), rows, kind="texts")


def _next_step(one: Account) -> str:
    if one.verdict in (Verdict.IMPOSSIBLE, Verdict.SUSPECT):
        return "check the counts"
    if one.retests:
        return "retest"
    return "decode with more time" if one.status == Status.TIME_LIMIT else ""


def _percent(value: float | None) -> str:
    return "not known" if value is None else percent(value)


# What a decoded sheet leaves behind: the files that a person keeps, prints or sends on, all made from one account.

HTML, CALLS, BY_SAMPLE, REPORT, XLSX, JSON, PROOFS, PROOFS_OF_ROUNDS = (
    *("report.html", "calls.csv", "calls_by_sample.csv", "report.csv", "report.xlsx", "results.json"),
    *("proofs.safetensors", "proofs.zip"),
)


def products(
    sheet: DecodedSheet,
    *,
    title: str,
    decoder: str,
    facts: Mapping[str, object],
    samples: Samples | None = None,
    seconds: float | None = None,
) -> dict[str, bytes]:
    """The files of a decoded sheet by their names: a page, tables, plain data and, where there are any, proofs.

    Args:
        sheet: What was decoded.
        title: The page's title.
        decoder: The decoder's name.
        facts: What stands at the foot of the page: files, versions.
        samples: Where the samples stand, if that is known.
        seconds: Time to prove each instance of a sheet with later rounds; None for no limit.

    Example:
        >>> import torch, qgt
        >>> from qgt.lab.answers.decoding import decode_sheet
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.05))
        >>> y = torch.tensor([[0.0, 1.0]], dtype=torch.float64)
        >>> sheet = decode_sheet(problem, y, ["a"], qgt.Certified(), calibrate=None)
        >>> made = products(sheet, title="Monday", decoder="certified", facts={})
        >>> made["calls.csv"]
        b'plate,I1,I2,I3\\na,0,0,1\\n'
    """
    made, design = sheet.accounts, sheet.problem.design
    values = sheet.problem.values
    lines = list(sample_rows(made, check_code(design), None if samples is None else samples.places, values))
    report, samples_table = [REPORT_COLUMNS, *map(report_row, made)], [sample_columns(lines, values), *lines]
    found = {
        CALLS: csv_bytes(calls_rows(made, design.item_names)),
        BY_SAMPLE: csv_bytes(samples_table),
        REPORT: csv_bytes(report),
        JSON: json.dumps(sheet_facts(sheet, decoder), allow_nan=False, indent=1).encode(),
        HTML: sheet_page(sheet, title=title, facts=facts, samples=samples).encode(),
    }
    if has_workbooks():
        found[XLSX] = workbook_bytes({"report": report, "samples": samples_table, "calls": _calls(made)})
    if provable(sheet):
        found[PROOFS if sheet.rounds == 1 else PROOFS_OF_ROUNDS] = proof_bytes(sheet, seconds=seconds)
    return found


def sheet_facts(sheet: DecodedSheet, decoder: str) -> dict[str, object]:
    """A decoded sheet as plain data, for JSON."""
    status, later = sheet.result.status, sheet.rounds > 1
    tests = sum(history.problem.pools for history in sheet.histories)
    return {
        "decoder": decoder,
        "instances": len(sheet.accounts),
        **({"rounds": sheet.rounds, "tests": tests} if later else {}),
        "check_code": check_code(sheet.problem.design),
        "called": {word.value: sum(len(one.called(word)) for one in sheet.accounts) for word in Call},
        "status": {one.name: int((status == one).sum()) for one in Status},
        "fingerprint": sheet.problem.fingerprint,
        "file_fit": None if sheet.fit is None else dataclasses.asdict(sheet.fit),
        "causes": [dataclasses.asdict(cause) for cause in sheet.causes],
        "results": [
            {**one.plain, **({"rounds": list(history.rounds)} if later else {})}
            for one, history in zip(sheet.accounts, sheet.histories, strict=True)
        ],
    }


def _calls(made: Sequence[Account]) -> list[WorkbookRow]:
    """One row for each sample and one column for each instance: spreadsheets are longer than they are wide."""
    rows: list[WorkbookRow] = [["sample", *(one.name for one in made)]]
    for line in zip(*(one.calls for one in made), strict=True):
        rows.append([line[0].sample, *(_whole_or_text(each.cell) for each in line)])
    return rows


def _whole_or_text(cell: str) -> int | str | None:
    """A cell of calls for a spreadsheet: a number where it is one, and nothing where it is empty."""
    return int(cell) if cell.isdigit() else cell or None


# Proofs.
#
# A proof belongs to one problem and to its counts. A sheet of one round has one problem, and its proofs are one file.
# After a later round every instance has pools of its own, and so a problem of its own: the proofs are then an archive
# with a folder for each problem, with the problem, its counts and the proofs, as `qgt check` reads them. Those proofs
# are made by decoding once more: the search that rates answers ends lists early, and keeps no leaves.

ROUND_PROOF_ODDS = 100.0  # answers that come close are at least 1/odds as probable
ARCHIVE_DATE = (1980, 1, 1, 0, 0, 0)  # of the files in an archive: equal rounds give equal archives
README = """Proofs of a run with several rounds, checked without the solver that made them.

Each folder holds a problem with the pools of all rounds, its counts and the proofs. In a folder:

    qgt check counts.csv --problem problem.toml --certificate proofs.safetensors

"""


def provable(sheet: DecodedSheet) -> bool:
    """Whether there are proofs or, of later rounds, whether the certified decoder takes the prior and can make them."""
    if sheet.rounds == 1:
        return sheet.result.proof is not None
    return all(
        Certified().supports(sheet.histories[places[0]].problem) is None for places in by_problem(sheet.histories)
    )


def write_proofs(path: str | Path, sheet: DecodedSheet, *, seconds: float | None = None) -> None:
    """Write the proofs of a sheet, straight to the path; see `proof_bytes`."""
    if sheet.rounds == 1:  # without a copy in memory
        from qgt.decoders.certificate_file import write_certificate  # proofs are rarely asked for

        return write_certificate(path, problem=sheet.problem, y=sheet.y, result=sheet.result)
    Path(path).write_bytes(proof_bytes(sheet, seconds=seconds))


def proof_bytes(sheet: DecodedSheet, *, seconds: float | None = None) -> bytes:
    """The proofs of a sheet: the content of a file or, of a sheet with later rounds, of an archive.

    Args:
        sheet: What was decoded.
        seconds: Time to prove each instance of a sheet with later rounds; None for no limit.
    """
    if sheet.rounds == 1:
        from qgt.decoders.certificate_file import certificate_bytes

        return certificate_bytes(sheet.problem, sheet.y, sheet.result)
    if not provable(sheet):
        raise ValueError("certificate has no meaning for this prior: no answer under it can be proved; leave it out.")
    stream, words = io.BytesIO(), README
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, places in enumerate(by_problem(sheet.histories), 1):
            names = [sheet.names[place] for place in places]
            for name, content in _proved([sheet.histories[place] for place in places], names, seconds).items():
                archive.writestr(zipfile.ZipInfo(f"{number}/{name}", ARCHIVE_DATE), content)
            words += f"Folder {number}: {', '.join(map(quoted, names))}\n"
        archive.writestr(zipfile.ZipInfo("README.txt", ARCHIVE_DATE), words)
    return stream.getvalue()


def _proved(histories: Sequence[History], names: Sequence[str], seconds: float | None) -> dict[str, bytes]:
    """The files of one problem: what it is, the counts, and the proofs."""
    from qgt.decoders.certificate_file import certificate_bytes

    problem, y = histories[0].problem, torch.stack([history.y for history in histories])
    result = Certified(odds=ROUND_PROOF_ODDS, time_limit=seconds).bind(problem)(y)
    counts = table_bytes(y.flatten(1).tolist(), row_names=names, column_names=problem.report_names, corner="instance")
    proofs = certificate_bytes(problem, y, result)
    return {"counts.csv": counts, **problem_files(problem), "proofs.safetensors": proofs}
