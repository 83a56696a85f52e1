"""The documentation runs: every python block of README.md and docs/*.md, and every example in a docstring."""

import ast
import doctest
import re
from importlib import import_module
from pathlib import Path

import pytest

import qgt

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SOURCE = Path(qgt.__file__).parent
MODULES = [path for path in sorted(SOURCE.rglob("*.py")) if ">>> " in path.read_text("utf-8")]


def blocks(text: str) -> list[tuple[int, str]]:
    """The python blocks of a page, each with the number of the line above its first."""
    found = re.finditer(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, match.start(1)), match[1]) for match in found]


def run_page(page: Path) -> dict[str, object]:
    """Run a page's blocks one after another in one namespace, as a reader would."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for line, code in blocks(page.read_text("utf-8")):
        exec(compile("\n" * line + code, str(page), "exec"), namespace)  # a failure names the page and its line
    return namespace


def examples(path: Path) -> list[doctest.DocTest]:
    """The docstring examples of a module, read from its source: decorated functions hide theirs from doctest."""
    dotted = ".".join(["qgt", *path.relative_to(SOURCE).with_suffix("").parts]).removesuffix(".__init__")
    scope = vars(import_module(dotted))
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            name = f"{dotted}.{getattr(node, 'name', '')}".rstrip(".")
            line = node.body[0].lineno - 1
            test = doctest.DocTestParser().get_doctest(ast.get_docstring(node), dict(scope), name, str(path), line)
            found += [test] if test.examples else []
    return found


@pytest.mark.usefixtures("no_plugins")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_python_block_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(page)


@pytest.mark.usefixtures("no_plugins")
@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_the_examples_of_a_module_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = examples(path)
    assert found
    runner = doctest.DocTestRunner(verbose=False)
    report: list[str] = []
    for test in found:
        runner.run(test, out=report.append)
    assert not report, "".join(report)


def test_examples_of_decorated_functions_and_methods_are_found():
    assert {test.name for test in examples(SOURCE / "trust/scoring.py")} == {
        "qgt.trust.scoring.Score",
        "qgt.trust.scoring.counted",
        "qgt.trust.scoring.score",
        "qgt.trust.scoring.triples",
        "qgt.trust.scoring.value_of",
        "qgt.trust.scoring.wilson",
    }
    assert "qgt.model.design.bernoulli" in {test.name for test in examples(SOURCE / "model/design.py")}


def test_a_pages_blocks_share_a_namespace_and_faults_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Title\n```python\na = 1\n```\ntext\n```sh\nnot python\n```\n\n```python\nb = a + 1\n```\n")
    assert run_page(page)["b"] == 2
    assert blocks(page.read_text()) == [(2, "a = 1\n"), (10, "b = a + 1\n")]
    page.write_text("text\n```python\na = 1\n```\n```python\nassert a == 2\n```\n")
    with pytest.raises(AssertionError) as caught:
        run_page(page)
    assert caught.traceback[-1].lineno == 5  # counted from 0: the sixth line of the page
