"""Accounts as a page to print or to forward: what to act on first, every instance, the doubtful ones at length."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from qgt.decoders.results import Status
from qgt.lab import reported
from qgt.lab.accounts import Account
from qgt.lab.decoding import DecodedSheet
from qgt.lab.reports import by_urgency, verdict_counts
from qgt.lab.verdicts import Verdict
from qgt.lab.wording import Alternative, Residual, joined, percent, quoted
from qgt.model.problem import Problem
from qgt.pictures import pages

CARDS = 200  # instances shown at length on a page
ANSWERS = 8  # of an instance, on its card


def sheet_page(sheet: DecodedSheet, *, title: str, facts: Mapping[str, object]) -> str:
    """A page about a decoded sheet: what to act on first, every instance in a table, the doubtful ones at length.

    Args:
        sheet: What was decoded.
        title: The page's title.
        facts: What stands at its foot: files, decoder, versions.
    """
    measured = {name: (sheet.problem, row) for name, row in zip(sheet.names, sheet.y, strict=True)}
    where = f"counted in {sheet.problem.pools} pools"
    return accounts_page(sheet.accounts, measured, where=where, about=about_file(sheet), title=title, facts=facts)


def accounts_page(
    given: Sequence[Account],
    measured: Mapping[str, tuple[Problem, Tensor]],
    *,
    where: str,
    about: Sequence[str] = (),
    title: str,
    facts: Mapping[str, object],
) -> str:
    """A page about accounts, each with a problem of its own or all with the same.

    Args:
        given: The accounts.
        measured: The problem and the counts of each instance, by its name.
        where: In how many pools the items were counted, in words.
        about: Lines about all of them.
        title: The page's title.
        facts: What stands at its foot.
    """
    made = by_urgency(given)
    doubtful = [one for one in made if one.verdict is not Verdict.CERTAIN]
    anchors = {one.name: f"instance-{number}" for number, one in enumerate(doubtful[:CARDS], 1)}
    cards = [
        card(problem, one, y, anchor=anchors[one.name])
        for one in doubtful[:CARDS]
        for problem, y in [measured[one.name]]
    ]
    left = len(doubtful) - len(cards)
    more = f"{left} more instances are not certain; they are in the table above." if left else ""
    items, counts = next(iter(measured.values()))[0].items, verdict_counts(made)
    lead = f"{_many(len(made), 'instance')} of {items} items, {where}: "
    lead += joined([f"{number} {word}" for word, number in counts.items()]) + "."
    meanings = [(pages.badge(word.value), word.meaning) for word in counts]
    sections = [
        *([pages.section("The file as a whole", *map(pages.paragraph, about))] if about else []),
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


def _percent(value: float | None) -> str:
    return "not known" if value is None else percent(value)


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
