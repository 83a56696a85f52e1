"""Reports are whole pages: well-formed, with nothing to fetch or run, and names of any kind do no harm."""

import re
from html.parser import HTMLParser

import pytest
import torch

import qgt
from qgt.pictures import pages as report
from qgt.pictures import svg
from qgt.pictures.pages import Standing
from qgt.trust.scoring import Interval
from qgt.trust.verification import report_on

EVIL = "<script>alert('&')</script>"
VOID = {"meta", "br", "hr", "img", "link", "input", "rect", "line", "path"}


class Checker(HTMLParser):
    """Notes tags that are not closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.faults: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"{tag} at {self.getpos()}")


def tags(text: str) -> list[str]:
    """All tags of a well-formed piece of HTML."""
    checker = Checker()
    checker.feed(text)
    checker.close()
    assert not checker.faults and not checker.open, (checker.faults, checker.open)
    return checker.seen


def small() -> tuple[qgt.Problem, torch.Tensor, torch.Tensor, qgt.Decoded]:
    g = torch.Generator().manual_seed(3)
    made = qgt.Design.bernoulli(pools=8, items=20, generator=g)
    design = qgt.Design.from_matrix(made.matrix, (EVIL, *made.pool_names[1:]), tuple(f"<i{j}>" for j in range(20)))
    problem = qgt.Problem(design, qgt.Bernoulli(0.1), qgt.SparseInteger(rate=0.1, bound=1))
    x, y = problem.simulate(30, generator=g)
    y[0, 0] = 99.0  # impossible
    return problem, x, y, qgt.Certified().bind(problem)(y)


def verified(problem: qgt.Problem) -> qgt.VerificationReport:
    evidence = problem.design.matrix.double()
    evidence[0, :3] = 1 - evidence[0, :3]
    return report_on(evidence, problem.design, "least_squares", 10)


def whole() -> str:
    problem, x, y, result = small()
    standings = [Standing(EVIL, qgt.score(x, result.x), 0.1, limit=True), Standing("none", qgt.score(x, 0 * x), 0.2)]
    return report.page(
        EVIL,
        EVIL,
        [
            report.section("Standings", report.standings_table(standings, caption=EVIL),
                           report.standings_chart(standings, caption=EVIL)),
            report.section("Decodes", *(
                report.decode_card(problem, y[i], result, i, title=EVIL, note=EVIL, truth=x[i]) for i in range(30)
            ), report.trust_table({EVIL: (result, x)})),
            report.section("Verification", report.verification(verified(problem))),
        ],
        colophon=report.facts({EVIL: EVIL}),
    )  # fmt: skip


def test_a_page_is_well_formed_and_holds_every_section():
    text = whole()
    seen = tags(text)
    assert re.findall("<h2>(.*?)</h2>", text) == ["Standings", "Decodes", "Verification"]
    assert seen.count("article") == 30
    assert (
        seen.count("h1") == seen.count("main") == seen.count("footer") == seen.count("title") - seen.count("svg") == 1
    )
    assert text.startswith("<!DOCTYPE html>")
    assert "the limit" in text


def test_a_page_fetches_and_runs_nothing():
    text = whole()
    assert not {"script", "link", "iframe", "object", "embed", "form"} & set(tags(text))
    assert not re.search(r"https?:|//\w|url\(|@import|\son\w+=|\ssrc=|\shref=", text)
    assert EVIL not in text
    assert "&lt;script&gt;" in text


def test_cards_say_what_the_numbers_say():
    problem, x, y, result = small()
    cards = [report.decode_card(problem, y[i], result, i, title="t", truth=x[i]) for i in range(30)]
    assert "impossible</span>" in cards[0] and "class=off" not in cards[0]
    assert any("number 2 of those listed" in card for card in cards)
    assert any("is the answer." in card for card in cards)


def test_a_tally_counts_every_instance_once():
    _, x, _, result = small()
    counts = report.tally(result, x)
    assert sum(number for number, _ in counts.values()) == 30
    assert sum(right for _, right in counts.values()) == qgt.score(x, result.x).successes


def test_empty_states():
    assert "No decoders were compared." in report.standings_table([])
    assert "nothing to draw" in report.standings_chart([], caption="")
    assert "No decoder was verified." in report.verification(None)
    assert "Nothing was decoded." in report.trust_table({})
    tags(report.page("t", "l", []))
    none = Standing("none", qgt.Score(3, {}), 0.0)
    tags(report.standings_table([none]))


@pytest.mark.parametrize("evidence", [torch.zeros(2, 2), torch.tensor([[5.0, 5.0], [0.0, 0.0]])])
def test_verification_of_degenerate_evidence(evidence):
    claimed = qgt.Design.from_rows(["10", "01"])
    tags(report.verification(report_on(evidence.double(), claimed, "least_squares", 10)))


def test_pictures_have_titles_and_stay_inside():
    bar = svg.rate_bar(1.0, Interval(0.99, 1.0), title=EVIL, limit=1.0, marked=True)
    assert "<title>&lt;script" in bar
    tags(bar)
    none = torch.zeros(0, dtype=torch.float64)
    tags(svg.histograms(none, none, split=0.5, title="none"))
    picture = svg.matrix_picture(torch.tensor([[0, 1, 1], [1, 0, 1]], dtype=torch.uint8), title="A")
    assert 'd="M1 0h2v1h-2zM0 1h1v1h-1zM2 1h1v1h-1z"' in picture
