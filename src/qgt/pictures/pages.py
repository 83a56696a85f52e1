"""Pages to read and to forward: one HTML file each, with nothing to fetch and nothing to run.

Every function turns data into a piece of HTML; `page` puts pieces together. Text goes through `html.escape` wherever it
enters, so names of items and pools may hold anything. Pictures are inline (`svg`), the style is inline, and the
page itself forbids requests and scripts.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import NewType, get_args

from jaxtyping import Float64, UInt8
from torch import Tensor

from qgt.decoders.results import Decoded
from qgt.lab.wording import (
    Alternative,
    Verdict,
    alternatives,
    in_words,
    joined,
    percent,
    residuals,
    verdict_of,
    verdicts,
)
from qgt.model.problem import Problem
from qgt.pictures import svg
from qgt.trust.scoring import Score
from qgt.trust.verification import VerificationReport

Html = NewType("Html", str)  # text that is safe on a page: what these functions return

ANSWERS = 8  # shown of an instance's list
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


@dataclass(frozen=True)
class Standing:
    """How one decoder did: its score, and the seconds that decoding all of the score's instances took."""

    name: str
    score: Score
    seconds: float
    limit: bool = False
    note: str = ""

    @property
    def microseconds(self) -> float:
        """For one decode; NaN for none."""
        return 1e6 * self.seconds / self.score.instances if self.score.instances else float("nan")


def page(title: str, lead: str, sections: Iterable[Html], *, colophon: Html = Html("")) -> Html:
    """A whole page.

    Example:
        >>> page("A < B", "In short.", [section("One", paragraph("Two."))]).count("A &lt; B")
        2
    """
    style = files("qgt.pictures").joinpath("page.css").read_text("utf-8")
    return Html(
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
        f'<header><h1>{escape(title)}</h1>\n<p class="lead">{escape(lead)}</p></header>\n'
        + "\n".join(sections)
        + f"\n</main>\n<footer>{colophon}</footer>\n</body>\n</html>\n"
    )


def section(heading: str, *parts: Html) -> Html:
    """A heading and what belongs to it."""
    return Html(f"<section>\n<h2>{escape(heading)}</h2>\n" + "\n".join(parts) + "\n</section>")


def paragraph(text: str, *, quiet: bool = False) -> Html:
    """A paragraph of plain text."""
    return Html(f'<p class="quiet">{_text(text)}</p>' if quiet else f"<p>{_text(text)}</p>")


def facts(pairs: Mapping[str, object]) -> Html:
    """Names and values, as a list of definitions."""
    rows = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(str(value))}</dd></div>" for name, value in pairs.items())
    return Html(f'<dl class="facts">{rows}</dl>')


def table(columns: Sequence[str], rows: Iterable[Sequence[str | Html]], *, caption: str = "") -> Html:
    """A table of cells that are safe already; the first column names the rows, the others hold numbers."""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    body = "".join(
        f'<tr><th scope="row">{first}</th>' + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>\n"
        for first, *cells in rows
    )
    words = f"<caption>{escape(caption)}</caption>" if caption else ""
    return Html(
        f'<div class="scroll"><table>{words}<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>'
    )


def standings_table(standings: Sequence[Standing], *, caption: str = "") -> Html:
    """Success rate and F1 with their 95 % intervals, and microseconds per decode, for each decoder."""
    if not standings:
        return paragraph("No decoders were compared.", quiet=True)
    numbers = {one.score.instances for one in standings}
    columns, rows = ["decoder", "success rate", "F1", "µs per decode"], [_standing_row(one) for one in standings]
    if len(numbers) == 1:  # said once, which leaves room on a narrow page
        return table(columns, rows, caption=f"{numbers.pop():,} instances for each decoder. {caption}")
    each = [[*row, f"{one.score.instances:,}"] for row, one in zip(rows, standings, strict=True)]
    return table([*columns, "instances"], each, caption=caption)


def _standing_row(one: Standing) -> list[str]:
    tag = '<span class="tag">the limit</span>' if one.limit else ""
    note = f"<small>{escape(one.note)}</small>" if one.note else ""
    return [
        f"{escape(one.name)} {tag}{note}",
        *(_with_interval(one.score, metric) for metric in ("success_rate", "f1")),
        f"{one.microseconds:,.0f}" if one.microseconds >= 10 else f"{one.microseconds:.1f}",
    ]


def _with_interval(score: Score, metric: str) -> str:
    low, high = score.interval(metric)
    return f'{score.mean(metric):.4f}<small class="nowrap">{low:.4f} to {high:.4f}</small>'


def standings_chart(standings: Sequence[Standing], *, caption: str) -> Html:
    """Success rates as bars with their 95 % intervals, under the limit, best first."""
    if not standings:
        return paragraph("There is nothing to draw.", quiet=True)
    limit = next((one.score.success_rate for one in standings if one.limit), None)
    rows = []
    for one in sorted(standings, key=lambda one: -one.score.success_rate):
        rate, ends = one.score.success_rate, one.score.interval()
        title = f"{one.name}: {rate:.4f}, 95 % interval {ends.low:.4f} to {ends.high:.4f}"
        bar = svg.rate_bar(rate, ends, title=title, limit=limit, marked=one.limit)
        tag = " <em>(the limit)</em>" if one.limit else ""
        rows.append(f"<li><span>{escape(one.name)}{tag}</span>{bar}<b>{rate:.3f}</b></li>")
    axis = '<li class="axis" aria-hidden="true"><span></span><div><i>0</i><i>0.5</i><i>1</i></div><b></b></li>'
    return _figure(f'<ul class="bars">{"".join(rows)}{axis}</ul>', caption)


def verification(report: VerificationReport | None) -> Html:
    """The claimed and the recovered matrix, the evidence for its entries, and the verdict."""
    if report is None:
        return paragraph("No decoder was verified.", quiet=True)
    claimed, wrong = report.claimed.matrix, int(report.wrong.sum())
    left = svg.matrix_picture(claimed, title="The claimed design")
    right = svg.matrix_picture(report.recovered, wrong=report.wrong, title="The design read back from the decoder")
    parts = (report.evidence[claimed == 0], report.evidence[claimed == 1])
    heaps = svg.histograms(*parts, split=report.split, title="How strong the evidence for each entry is")
    pools, items = claimed.shape
    shape = f"{pools} pools (rows) by {items} items (columns); a filled square: the item is in the pool."
    differ = f"{wrong} of {claimed.numel():,} entries differ" + (", marked." if wrong else ".")
    keys = '<p class="keys"><i class="key quiet"></i>claimed 0 <i class="key loud"></i>claimed 1 '
    keys += '<i class="key split"></i>split</p>'
    evidence = f"Evidence for each entry: two heaps, {report.separation:.1f} standard deviations apart."
    mismatches = report.mismatches[:ANSWERS]
    listed = [(f"{escape(m.pool)}, {escape(m.item)}", f"{m.claimed}", f"{m.recovered}") for m in mismatches]
    columns = ("contradicted entry", "claimed", "read back")
    more = f"The surest {len(listed)} of {len(report.mismatches)} contradicted entries"
    return Html(
        f'<p class="verdict">{_text(report.verdict)}</p>\n<div class="pair">'
        + _figure(left, f"A as claimed: {shape}")
        + _figure(right, f"A as read back: {differ}")
        + "</div>"
        + _figure(heaps + keys, evidence)
        + (table(columns, listed, caption=more) if listed else "")
    )


def trust_table(rows: Mapping[str, tuple[Decoded, UInt8[Tensor, "instances items"]]], *, caption: str = "") -> Html:
    """How many decodes of each problem earned each verdict, and how many of those were right, given the truth."""
    cells = [
        (f"{escape(name)}: {word}", f"{number:,}", f"{right:,}")
        for name, (result, x) in rows.items()
        for word, (number, right) in tally(result, x).items()
    ]
    if not cells:
        return paragraph("Nothing was decoded.", quiet=True)
    return table(("verdict", "instances", "of them right"), cells, caption=caption)


def tally(result: Decoded, x: UInt8[Tensor, "instances items"]) -> dict[Verdict, tuple[int, int]]:
    """For each verdict that occurs, surest first: how many instances, and how many without an error."""
    words, right = verdicts(result), (result.x == x).all(1).tolist()
    numbers, rights = Counter(words), Counter(word for word, fine in zip(words, right, strict=True) if fine)
    return {word: (numbers[word], rights[word]) for word in get_args(Verdict) if numbers[word]}


def decode_card(
    problem: Problem,
    y: Float64[Tensor, " pools"],
    result: Decoded,
    i: int,
    *,
    title: str,
    note: str = "",
    truth: UInt8[Tensor, " items"] | None = None,
) -> Html:
    """One decode as a person reads it: in words, with its counts, the answers listed and, if known, the truth."""
    word = verdict_of(result, i)
    parts = [
        f'<h3>{escape(title)} <span class="badge {word}">{word}</span></h3>',
        paragraph(note, quiet=True) if note else "",
        paragraph(in_words(problem, y, result, i)),
        _counts(problem, y, result.x[i], fitted=word != "impossible"),
        _answers(problem, result, i),
        paragraph(_against(problem, result, i, truth)) if truth is not None else "",
    ]
    return Html('<article class="card">\n' + "\n".join(part for part in parts if part) + "\n</article>")


def _counts(problem: Problem, y: Tensor, x: Tensor, *, fitted: bool) -> str:
    """Every pool's count, those that are off marked with by how much."""
    off = {one.pool: f"{one.off:+g}" for one in residuals(problem, y, x)} if fitted else {}
    cells = "".join(
        f"<li{' class=off' if name in off else ''}><span>{escape(name)}</span> <b>{count:g}</b>"
        + (f' <em title="by how much the count is off">{off[name]}</em>' if name in off else "")
        + "</li>"
        for name, count in zip(problem.design.pool_names, y.tolist(), strict=True)
    )
    words = "The counts" + (", those that are off marked with by how much" if off else "")
    return f"<h4>{words}</h4>\n<ul class=counts>{cells}</ul>"


def _answers(problem: Problem, result: Decoded, i: int) -> str:
    """The answer and its alternatives with their probabilities, where there are any."""
    others = alternatives(problem, result, i)
    if not others:
        return ""
    own = [problem.design.item_names[j] for j in result.x[i].nonzero().flatten().tolist()]
    sure = result.evidence.confidence
    answer = f"{escape(joined(own) or 'none')} <em>(the answer)</em>"
    rows = [(percent(math.nan if sure is None else float(sure[i])), answer)]
    rows += [(percent(one.probability), escape(one.change)) for one in others[: ANSWERS - 1]]
    if left := others[ANSWERS - 1 :]:
        rows.append((percent(sum(one.probability for one in left)), f"{len(left)} more, together"))
    return "<h4>The answers that come near</h4>\n" + table(("probability", "defective"), rows).replace(
        "<table>", '<table class="answers">'
    )


def _against(problem: Problem, result: Decoded, i: int, truth: Tensor) -> str:
    """How the truth, known of simulated data, compares."""
    if bool((truth == result.x[i]).all()):
        return "The truth, which the decoder never saw, is the answer."
    answers = result.evidence.alternatives
    listed = [] if answers is None else answers.of_instance(i).x.tolist()
    place = f", number {listed.index(truth.tolist()) + 1} of those listed" if truth.tolist() in listed else ""
    return f"The truth, which the decoder never saw: {Alternative.of(problem, result.x[i], truth, 0.0).change}{place}."


def _text(text: str) -> str:
    """Running text; a percent sign begins no line."""
    return escape(text).replace(" %", "&nbsp;%")


def _figure(picture: str, caption: str) -> Html:
    return Html(f"<figure>{picture}<figcaption>{escape(caption)}</figcaption></figure>")
