"""The links of the pages, without building the site: files, headings, words of the glossary, figures, the order."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def links() -> ModuleType:
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        import links
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))
    return links


def test_every_link_of_every_page_is_there(links):
    found = links.pages()
    assert ROOT / "docs/index.md" in found and ROOT / "README.md" in found
    assert [fault for page in found for fault in links.broken(page)] == []


def test_every_word_of_the_glossary_is_defined_once(links):
    text = links.GLOSSARY.read_text("utf-8")
    assert {"prior", "GAMP", "certificate"} <= set(links.words(text))
    assert links.twice(text) == []
    assert links.twice(text + "\n| Prior | again |\n") == ["prior"]


def test_broken_links_are_found(links, tmp_path):
    (tmp_path / "glossary.md").write_text("# Glossary\n| word | meaning |\n|---|---|\n| AMP, scaled total | x |\n")
    page = tmp_path / "page.md"
    page.write_text(
        "# A page: with `code`\n## Twice\n## Twice\n"
        "[a](#a-page-with-code) [b](glossary.md#scaled-total) [c](glossary.md#amp) [d](page.md#twice-1) `[e](no.md)`\n"
        "```\n[f](no.md)\n# no heading\n```\n"
        "[g](no.md), ![h](no.png)\n[i](glossary.md#gamp) [j](#no-heading)\n[k](https://nowhere.example/page#part)\n"
    )
    assert list(links.broken(page)) == [
        "page.md, line 9: no.md is not there",
        "page.md, line 9: no.png is not there",
        "page.md, line 10: glossary.md has neither a heading nor a word 'gamp'",
        "page.md, line 10: page.md has neither a heading nor a word 'no-heading'",
    ]


def test_the_index_has_every_page_once():
    text = (ROOT / "docs/index.md").read_text("utf-8").partition("\n## ")[2]
    listed = [(ROOT / "docs" / page).resolve() for page in re.findall(r"^- \[.+?\]\((.+?)\)", text, flags=re.MULTILINE)]
    folders = (ROOT, ROOT / "docs", ROOT / "docs/results")
    pages = {path for folder in folders for path in folder.glob("*.md")} - {ROOT / "docs/index.md"}
    assert sorted(listed) == sorted(pages), "list each page once in docs/index.md: it is the order of the site"


def test_the_gallery_has_every_figure_and_the_command_that_draws_it():
    text = (ROOT / "docs/gallery.md").read_text("utf-8")
    figures = {f"images/{path.name}" for path in (ROOT / "docs/images").iterdir()}
    assert figures == set(re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)), "show each figure once in docs/gallery.md"
    scripts = re.findall(r"`python (benchmarks/\w+\.py)", text)
    assert scripts and all((ROOT / script).exists() for script in scripts)
    for section in text.split("\n## ")[1:]:
        assert re.search(r"`(python|qgt) ", section.partition("![")[2]), f"no command below a figure: {section[:40]}"
