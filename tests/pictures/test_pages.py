"""Reports are whole pages: well-formed, with nothing to fetch or run, and names of any kind do no harm."""

import re
from html.parser import HTMLParser

import pytest
import torch

import qgt
from qgt.pictures import pages
from qgt.pictures.pages import Card, Count, DecoderStanding
from qgt.trust.metrics import Interval
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


CARD = Card(
    *(EVIL, "unsure", EVIL),
    counts=(Count(EVIL, "3"), Count("P2", "4", "+1")),
    answers=(("60 %", EVIL), ("40 %", "also I7")),
    note=EVIL,
    truth=EVIL,
    anchor="card-1",
)


def verified() -> qgt.VerificationReport:
    rows = ["1100", "0110", "0011"]
    design = qgt.Design.from_rows(rows, [EVIL, "P2", "P3"], [f"<i{j}>" for j in range(4)])
    evidence = torch.tensor([[float(cell) for cell in row] for row in rows], dtype=torch.float64)
    evidence[0, :3] = 1 - evidence[0, :3]
    return report_on(evidence, design, "least_squares", 10)


def whole() -> str:
    x = torch.eye(4, dtype=torch.uint8)
    standings = [
        DecoderStanding(EVIL, qgt.score(x, x), 0.1, limit=True),
        DecoderStanding("none", qgt.score(x, 0 * x), 0.2),
    ]
    return pages.page(
        EVIL,
        EVIL,
        [
            pages.section("Standings", pages.standings_table(standings, caption=EVIL),
                           pages.standings_chart(standings, caption=EVIL)),
            pages.section("Decodes", pages.badge(EVIL, anchor="card-1"), pages.decode_card(CARD),
                           pages.table([EVIL, "right"], [[EVIL, "3"]])),
            pages.section("Verification", pages.verification(verified())),
        ],
        colophon=pages.facts({EVIL: EVIL}),
    )  # fmt: skip


def test_a_page_is_well_formed_and_holds_every_section():
    text = whole()
    seen = tags(text)
    assert re.findall("<h2>(.*?)</h2>", text) == ["Standings", "Decodes", "Verification"]
    assert seen.count("article") == 1
    assert (
        seen.count("h1") == seen.count("main") == seen.count("footer") == seen.count("title") - seen.count("svg") == 1
    )
    assert text.startswith("<!DOCTYPE html>")
    assert "the limit" in text


def test_a_page_fetches_and_runs_nothing():
    text = whole()
    assert not {"script", "link", "iframe", "object", "embed", "form"} & set(tags(text))
    inside = re.sub(r'\ssrc="data:image/png;base64,[A-Za-z0-9+/=]+"', "", text)
    assert len(inside) < len(text)  # the figure of the verification
    assert not re.search(r"https?:|//\w|url\(|@import|\son\w+=|\ssrc=|\shref=(?!\"#)", inside)
    assert EVIL not in text
    assert "&lt;script&gt;" in text


def test_a_card_shows_all_that_it_holds():
    card = pages.decode_card(CARD)
    assert tags(card).count("li") == 2
    assert 'id="card-1"' in card and '<li class="off"><span>P2</span> <b>4</b> <em' in card and ">+1</em>" in card
    assert card.count("&lt;script&gt;") == 6
    assert '<th scope="row">40\N{NO-BREAK SPACE}%</th><td>also I7</td>' in card
    bare = pages.decode_card(Card("t", "certain", "w"))
    assert tags(bare) == ["article", "h3", "span", "p"]
    assert "marked" not in pages.decode_card(Card("t", "certain", "w", counts=(Count("P1", "3"),)))


def test_only_markup_that_was_made_here_is_left_as_it_is():
    inner = pages.badge("certain")
    made = pages.table(["a"], [[inner], ["<b>plain</b>"], ["20 %"]], caption="<i>")
    assert '<span class="badge certain">certain</span>' in made
    assert "&lt;b&gt;plain&lt;/b&gt;" in made and "<caption>&lt;i&gt;</caption>" in made
    assert "20\N{NO-BREAK SPACE}%" in made
    assert "&lt;b&gt;" in pages.section("<b>", "<b>") and "<b>" not in pages.section("<b>", "<b>")
    assert "<b>" not in pages.facts({"<b>": "<b>"}) + pages.paragraph("<b>")


def test_empty_states():
    assert "No decoders were compared." in pages.standings_table([])
    assert "nothing to draw" in pages.standings_chart([], caption="")
    assert "No decoder was verified." in pages.verification(None)
    tags(pages.page("t", "l", []))
    none = DecoderStanding("none", qgt.Score(3, {}), 0.0)
    tags(pages.standings_table([none]))


@pytest.mark.parametrize("evidence", [torch.zeros(2, 2), torch.tensor([[5.0, 5.0], [0.0, 0.0]])])
def test_verification_of_degenerate_evidence(evidence):
    claimed = qgt.Design.from_rows(["10", "01"])
    tags(pages.verification(report_on(evidence.double(), claimed, "least_squares", 10)))


def test_pictures_have_titles_and_stay_inside():
    bar = pages.rate_bar(1.0, Interval(0.99, 1.0), title=EVIL, limit=1.0, marked=True)
    assert "<title>&lt;script" in bar
    tags(bar)
    picture = pages.matrix_picture(torch.tensor([[0, 1, 1], [1, 0, 1]], dtype=torch.uint8), title="A")
    assert 'd="M1 0h2v1h-2zM0 1h1v1h-1zM2 1h1v1h-1z"' in picture
