"""The documentation site: `make docs` builds it from the Markdown pages as they are, with warnings as errors.

The sources are the pages that any Markdown viewer shows, so nothing in them is meant for Sphinx alone. What the site
adds is made here: the order of the pages from the lists of docs/index.md, a reference from the docstrings of the public
names, links from code to that reference, and an anchor for each word of the glossary. The root of the repository is the
source folder, because the pages link to README.md and CHANGELOG.md above them.
"""

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "benchmarks")]

import api  # noqa: E402
import links  # noqa: E402
import qgt  # noqa: E402

project = "qgt"
version = release = qgt.__version__
copyright = "the authors of qgt; MIT licence"
root_doc = "docs/index"
include_patterns = ["*.md", "docs/*.md", "docs/results/*.md", "docs/reference/*.rst"]
extensions = ["myst_parser", "sphinx.ext.autodoc"]
nitpicky = True
highlight_language = "none"  # a block without a language is a command
default_role = "code"  # docstrings write code in single backticks
myst_heading_anchors = 4
autodoc_member_order = "bysource"
autodoc_typehints = "none"
html_theme = "furo"
html_title = f"qgt {release}"
html_copy_source = False
html_show_sphinx = False
html_extra_path = ["site"]  # the page at the top, which leads to docs/index.html
html_static_path = ["static"]
html_css_files = ["site.css"]

# --- the order of the pages -----------------------------------------------------------------------------------------


def add_order(app: Sphinx, name: str, source: list[str]) -> None:
    """Put each list of links of the index page into the sidebar, and the reference below the list of all names."""
    if name == root_doc:
        source[0] += "\n".join(toctree(pages, caption) for caption, pages in order(source[0]).items())
    if name == "docs/api":
        source[0] += toctree([f"reference/{room}.rst" for room in api.ROOMS])


def order(index: str) -> dict[str, list[str]]:
    """The pages of each list of the index page, with their titles there.

    Example:
        >>> order("# Title\\n## First\\n- [A](a.md): one\\n- [B](../B.md)\\n## Second\\nNo list.")
        {'First': ['A <a.md>', 'B <../B.md>']}
    """
    sections = re.findall(r"^## (.+)\n((?:(?!## ).*\n?)*)", index, flags=re.MULTILINE)
    link = re.compile(r"^- \[([^\]]+)\]\(([^)#]+\.md)\)", flags=re.MULTILINE)
    found = {heading: [f"{title} <{page}>" for title, page in link.findall(body)] for heading, body in sections}
    return {heading: pages for heading, pages in found.items() if pages}


def toctree(pages: list[str], caption: str = "") -> str:
    """A list of pages for the sidebar, in MyST's words."""
    title = [f":caption: {caption}"] if caption else []
    return "\n".join(["\n```{toctree}", ":hidden:", *title, "", *pages, "```"])


# --- the reference --------------------------------------------------------------------------------------------------

REFERENCE = ROOT / "docs/reference"
SECTIONS = Config(napoleon_use_rtype=False)


def write_reference(app: Sphinx) -> None:
    """Write one page for each room of public names; git ignores these pages."""
    REFERENCE.mkdir(exist_ok=True)
    for room, title in api.ROOMS.items():
        text = "\n".join([title, "=" * len(title), "", *reference(room)])
        path = REFERENCE / f"{room}.rst"
        if not path.exists() or path.read_text("utf-8") != text:  # an unchanged page is not built again
            path.write_text(text, "utf-8")


def reference(room: str) -> Iterator[str]:
    """The directives of one room's page."""
    for name in qgt.__all__:
        if qgt._HOME[name].split(".")[0] != room:
            continue
        if name in api.CONSTANTS:
            yield f".. py:data:: qgt.{name}\n\n   {api.CONSTANTS[name]}\n"
        elif inspect.isclass(getattr(qgt, name)):
            yield f".. autoclass:: qgt.{name}\n   :members:\n"
        else:
            yield f".. autofunction:: qgt.{name}\n"


def shape_docstring(app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Read Google's sections, and list the fields of a dataclass with the comments beside them.

    Sphinx's own extension for such sections takes the words before a colon in a property's docstring for a type.
    """
    lines[:] = GoogleDocstring("\n".join(lines), SECTIONS, app, what="method").lines()
    if what == "class" and hasattr(value, "__dataclass_fields__"):
        notes = list(fields(value))
        lines += ["", ".. rubric:: Fields", "", *notes, ""] if notes else []


def fields(kind: type) -> Iterator[str]:
    """Each field of a dataclass with its type and its comment, as items of a list."""
    source = textwrap.dedent(inspect.getsource(kind))
    written = source.splitlines()
    (body,) = (node.body for node in ast.parse(source).body if isinstance(node, ast.ClassDef))
    for node in body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and not node.target.id.startswith("_"):
            comment = written[node.end_lineno - 1][node.end_col_offset :].partition("# ")[2]
            shape = ast.unparse(node.annotation).replace("' ", "'")  # jaxtyping's names of one axis begin with a blank
            yield f"- ``{node.target.id}: {shape}``" + (f", {comment}" if comment else "")


# --- links ----------------------------------------------------------------------------------------------------------


def add_links(app: Sphinx, tree: nodes.document) -> None:
    """Link public names in code to the reference, and emphasised words to the glossary: once in each section."""
    page, seen = app.env.docname, set()
    for node in list(tree.findall(lambda one: isinstance(one, nodes.literal | nodes.emphasis))):
        section, text = _section(node), node.astext()
        if isinstance(node.parent, nodes.title | nodes.reference | addnodes.pending_xref) or (section, text) in seen:
            continue
        target = public_name(text, everything=page == "docs/api") if isinstance(node, nodes.literal) else None
        word = links.slug(text) if isinstance(node, nodes.emphasis) and page != "docs/glossary" else None
        if target or word in WORDS:
            seen.add((section, text))
            link = to_reference(target, page) if target else to_glossary(word, page)
            node.replace_self(link)
            link += node


def public_name(code: str, *, everything: bool = False) -> str | None:
    """The public name that a piece of code is, or calls.

    A name in small letters is also a word of the command (`plan`, `score`), so outside of the list of all names it
    counts only after `qgt.`.

    Example:
        >>> public_name("Certified(odds=3)"), public_name("qgt.score"), public_name("score"), public_name("x.Design")
        ('qgt.Certified', 'qgt.score', None, None)
    """
    match = re.match(r"(qgt\.)?([A-Za-z_]+)(?:\(.*\))?$", code, flags=re.DOTALL)
    sure = match is not None and (match[1] or match[2][0].isupper() or everything)
    return f"qgt.{match[2]}" if match and sure and match[2] in qgt.__all__ else None


def to_reference(target: str, page: str) -> addnodes.pending_xref:
    """A link to a public name, which Sphinx resolves, and reports where it cannot."""
    return addnodes.pending_xref(
        "", refdomain="py", reftype="obj", reftarget=target, refdoc=page, refexplicit=True, refwarn=True
    )


def to_glossary(word: str, page: str) -> addnodes.pending_xref:
    """A link to a word of the glossary."""
    return addnodes.pending_xref(
        "", refdomain="doc", reftype="myst", reftarget="docs/glossary", reftargetid=word, refdoc=page, refexplicit=True
    )


def _section(node: nodes.Node) -> int:
    while node.parent is not None and not isinstance(node, nodes.section):
        node = node.parent
    return id(node)


WORDS = {links.slug(word) for word in links.words(links.GLOSSARY.read_text("utf-8"))}


def add_words(app: Sphinx, tree: nodes.document) -> None:
    """Give every word of the glossary an anchor, which MyST then knows as it knows the anchors of headings."""
    if app.env.docname != "docs/glossary":
        return
    slugs = app.env.metadata["docs/glossary"].setdefault("myst_slugs", {})
    for row in tree.findall(nodes.row):
        entry = row.next_node(nodes.entry)
        for word in entry.astext().split(", "):
            row["ids"].append(f"word-{links.slug(word)}")
            slugs.setdefault(links.slug(word), (row.line, f"word-{links.slug(word)}", word))


def leave_folders(app: Sphinx, tree: nodes.document) -> None:
    """Show a link to a folder of the repository, which the site does not have, as its text."""
    here = ROOT / Path(app.env.docname).parent
    for node in list(tree.findall(addnodes.pending_xref)):
        if node["reftype"] == "myst" and (here / node["reftarget"]).is_dir():
            node.replace_self(node.children)


WIDE, SHORT = 5, 24  # columns of a table that scrolls; characters of a cell that is not broken into lines


def shape_tables(app: Sphinx, tree: nodes.document) -> None:
    """Mark wide tables, and their short cells, for site.css: a number with its interval stays in one line."""
    for table in tree.findall(nodes.table):
        wide = len(list(table.findall(nodes.colspec))) >= WIDE
        table["classes"].append("wide" if wide else "narrow")
        for body in table.findall(nodes.tbody) if wide else ():
            for entry in body.findall(nodes.entry):
                if len(entry.astext()) <= SHORT:
                    entry["classes"].append("short")


def setup(app: Sphinx) -> None:
    """Connect the parts above to Sphinx."""
    app.connect("builder-inited", write_reference)
    app.connect("source-read", add_order)
    app.connect("autodoc-process-docstring", shape_docstring)
    app.connect("doctree-read", add_words)
    app.connect("doctree-read", add_links)
    app.connect("doctree-read", leave_folders)
    app.connect("doctree-read", shape_tables)
