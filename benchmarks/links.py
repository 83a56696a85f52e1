"""The links of all pages: every file, heading and word of the glossary that a page links to is there.

python benchmarks/links.py        # exit with 1 if a link is broken or a word is defined twice

A page may link to a word as `[prior](glossary.md#prior)`. The site (docs/conf.py) gives every word such an anchor; a
plain Markdown viewer shows the top of the glossary.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parents[1]
GLOSSARY = ROOT / "docs/glossary.md"
BLOCK = re.compile(r"^```.*?^```$", flags=re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")


def pages(root: Path = ROOT) -> list[Path]:
    """The pages of the site: those above docs, those in docs, and those with results."""
    return [page for folder in (root, root / "docs", root / "docs/results") for page in sorted(folder.glob("*.md"))]


def slug(heading: str) -> str:
    """The anchor that Markdown viewers give a heading.

    Example:
        >>> slug("Scale: a million `items`, and [more](more.md)")
        'scale-a-million-items-and-more'
    """
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def words(glossary: str) -> list[str]:
    """The words of the glossary in order: the first cells of its tables, at their commas.

    Example:
        >>> words("| word | meaning |\\n|---|---|\\n| prior | ... |\\n| AMP, GAMP | ... |")
        ['prior', 'AMP', 'GAMP']
    """
    cells = re.findall(r"^\| (.+?) \|", glossary, flags=re.MULTILINE)
    return [word for cell in cells if cell != "word" for word in cell.split(", ")]


def anchors(page: Path) -> set[str]:
    """What a link may name after `#` in a page: its headings and, in the glossary, its words."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    found: list[str] = []
    for heading in re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE):
        before = sum(re.fullmatch(rf"{re.escape(slug(heading))}(-\d+)?", one) is not None for one in found)
        found.append(slug(heading) + (f"-{before}" if before else ""))
    return {*found, *(slug(word) for word in words(text) if page.name == GLOSSARY.name)}


def broken(page: Path) -> Iterator[str]:
    """The links of a page that go nowhere, each with its line; addresses of the web are not looked at."""
    prose = BLOCK.sub(lambda block: "\n" * block[0].count("\n"), page.read_text(encoding="utf-8"))
    prose = re.sub(r"`[^`\n]+`", lambda code: "_" * len(code[0]), prose)
    for match in LINK.finditer(prose):
        line, target = prose.count("\n", 0, match.start()) + 1, match[1]
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = unquote(target).partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists():
            yield f"{page.name}, line {line}: {target} is not there"
        elif anchor and anchor not in anchors(file):
            yield f"{page.name}, line {line}: {file.name} has neither a heading nor a word '{anchor}'"


def twice(glossary: str) -> list[str]:
    """The words that the glossary defines more than once."""
    found = [slug(word) for word in words(glossary)]
    return sorted({word for word in found if found.count(word) > 1})


def main() -> int:
    faults = [fault for page in pages() for fault in broken(page)]
    faults += [f"{GLOSSARY.name}: '{word}' is defined twice" for word in twice(GLOSSARY.read_text(encoding="utf-8"))]
    print("\n".join(faults) or "All links of all pages are there.")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
