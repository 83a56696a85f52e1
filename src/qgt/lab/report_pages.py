"""Accounts as a page to print or to forward: what to act on first, every instance, the doubtful ones at length."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from qgt.decoders.results import Status
from qgt.lab import reported
from qgt.lab.accounts import Account
from qgt.lab.decoding import DecodedSheet
from qgt.lab.naming import label
from qgt.lab.plate_maps import plate_maps
from qgt.lab.reports import by_urgency, calls_in_words, verdict_counts
from qgt.lab.samples import Samples
from qgt.lab.verdicts import Call, Verdict
from qgt.lab.wording import Alternative, Residual, beyond, joined, percent, quoted
from qgt.model.problem import Problem
from qgt.pictures import pages

CARDS = 200  # plates shown at length on a page
MAPS = 20  # plates that are drawn
LINES = 500  # samples listed one by one
ANSWERS = 8  # of an instance, on its card


def sheet_page(sheet: DecodedSheet, *, title: str, facts: Mapping[str, object], samples: Samples | None = None) -> str:
    """A page about a decoded sheet: what to act on first, every plate in a table, the doubtful ones at length.

    Args:
        sheet: What was decoded.
        title: The page's title.
        facts: What stands at its foot: files, decoder, versions.
        samples: Where the samples stand, if that is known: the plates are then drawn.
    """
    measured = {name: (sheet.problem, row) for name, row in zip(sheet.names, sheet.y, strict=True)}
    where = f"counted in {sheet.problem.pools} pools"
    about = about_file(sheet)
    return accounts_page(sheet.accounts, measured, where=where, about=about, title=title, facts=facts, samples=samples)


def accounts_page(
    given: Sequence[Account],
    measured: Mapping[str, tuple[Problem, Tensor]],
    *,
    where: str,
    about: Sequence[str] = (),
    title: str,
    facts: Mapping[str, object],
    samples: Samples | None = None,
) -> str:
    """A page about accounts, each with a problem of its own or all with the same.

    Args:
        given: The accounts.
        measured: The problem and the counts of each instance, by its name.
        where: In how many pools the samples were counted, in words.
        about: Lines about all of them.
        title: The page's title.
        facts: What stands at its foot.
        samples: Where the samples stand, if that is known.
    """
    made = by_urgency(given)
    doubtful = [one for one in made if one.verdict is not Verdict.CERTAIN]
    anchors = {one.name: f"plate-{number}" for number, one in enumerate(doubtful[:CARDS], 1)}
    cards = [
        card(problem, one, y, anchor=anchors[one.name])
        for one in doubtful[:CARDS]
        for problem, y in [measured[one.name]]
    ]
    left = len(doubtful) - len(cards)
    more = f"{left} more plates are not certain; they are in the table above." if left else ""
    design, counts = next(iter(measured.values()))[0].design, verdict_counts(made)
    lead = f"{_many(len(made), 'plate')} of {design.items} samples, {where}: "
    lead += joined([f"{number} {word}" for word, number in counts.items()]) + f". {label(design)}."
    meanings = [(pages.badge(word.value), word.meaning) for word in counts]
    sections = [
        *([pages.section("The file as a whole", *map(pages.paragraph, about))] if about else []),
        pages.section("All plates", _overview(made, anchors)),
    ]
    if cards:
        parts = [*map(pages.decode_card, cards), *([pages.paragraph(more, quiet=True)] if more else [])]
        sections.append(pages.section("Plates that are not certain", *parts))
    sections += [
        *_maps(made, samples),
        pages.section("Every sample", *_sample_lines(made, samples)),
        pages.section("What the verdicts mean", pages.table(("verdict", "meaning"), meanings, kind="texts")),
        pages.signatures(),
    ]
    return pages.page(title, lead, sections, colophon=pages.facts(facts))


def _maps(made: Sequence[Account], samples: Samples | None) -> list[pages.Piece]:
    """The plates as they stand, with each sample's call."""
    if samples is None:
        return []
    drawn = [
        pages.plate_map(plate, one.name if len(made) > 1 else "")
        for one in made[:MAPS]
        for plate in plate_maps({each.sample: each.call for each in one.calls}, samples)
    ]
    keys = "Signs: " + ", ".join(f"{word.sign} {word.words}" for word in Call) + "."
    return [pages.section("Plate maps", pages.paragraph(keys, quiet=True), *drawn)]


def _sample_lines(made: Sequence[Account], samples: Samples | None) -> list[pages.Piece]:
    """A line for each sample, those to act on first; of many, only the ones that are not negative."""
    places = None if samples is None else samples.places
    lines = [(one, *each) for one in made for each in one.calls]
    shown = sorted(lines, key=lambda line: list(Call).index(line[2]))
    some = shown if len(shown) <= LINES else [line for line in shown if line[2] is not Call.NEGATIVE][:LINES]
    rows = [
        (sample, one.name if places is None else " ".join(places[sample]), call.words, _percent(probability))
        for one, sample, call, probability in some
    ]
    left = len(lines) - len(some)
    negative = sum(line[2] is Call.NEGATIVE for line in lines)
    note = f"{left:,} more samples are not listed here. {negative:,} of all {len(lines):,} samples are negative."
    table = pages.table(("sample", "where", "call", "positive with a probability of"), rows, kind="texts")
    return [*([table] if rows else []), *([pages.paragraph(note, quiet=True)] if left else [])]


def about_file(sheet: DecodedSheet) -> list[str]:
    """Whether the file as a whole fits the model and, where it does not, what may be wrong."""
    if sheet.fit is None:
        return []
    lines = [sheet.fit.words]
    if sheet.fit.suspect and sheet.causes:
        lines += [f"Likeliest cause: {sheet.causes[0]}."]
        if remedy := sheet.causes[0].remedy:
            lines += [f"{remedy[0].upper()}{remedy[1:]} before you test anything again."]
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
    rows = [(_percent(one.confidence), f"{joined(map(quoted, one.answer)) or 'none'} (the answer)")]
    rows += [(_percent(other.probability), other.change) for other in one.alternatives[: ANSWERS - 1]]
    if left := beyond(one.alternatives[ANSWERS - 1 :], one.more):
        rows.append((_percent(left.probability), f"{left.number} more, together"))
    return rows


def _against(problem: Problem, one: Account, truth: Tensor) -> str:
    """How the truth, known of simulated data, compares."""
    names = problem.design.item_names
    true = {names[j] for j in truth.nonzero().flatten().tolist()}
    own, decided = set(one.answer), len(one.called(Call.NONE)) < len(one.calls)
    if true == own and decided:
        return "The truth, which the decoder never saw, is the answer."
    added, dropped = (tuple(name for name in names if name in part) for part in (true - own, own - true))
    if not decided:
        return f"The truth, which the decoder never saw: {joined(map(quoted, added)) or 'none'} positive."
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


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
