"""The documentation is true: its code runs, its calls fit their signatures, its commands parse and run."""

import ast
import doctest
import inspect
import re
import shlex
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import typer

import qgt
from qgt.cli import main
from qgt.cli.verbs import COMMAND

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
RUN = [README, ROOT / "docs/commands.md"]  # all of their commands run here, one after the other
FOLDERS = (ROOT / "docs", ROOT / "docs/results")
PAGES = [README, ROOT / "CONTRIBUTING.md", *(page for folder in FOLDERS for page in sorted(folder.glob("*.md")))]
SOURCE = Path(qgt.__file__).parent
MODULES = [path for path in sorted(SOURCE.rglob("*.py")) if ">>> " in path.read_text("utf-8")]
# Options that make a verb quick; how long it may take is tested elsewhere.
QUICKLY = {
    "bench": ["--workers", "1", "--instances", "50"],
    "plan": ["--seconds", "1"],
    "train": ["--limit", "0.5", "--epochs", "4"],
}
# What the pages call an object of a class, so that calls of its methods can be looked up.
OBJECTS = {"design": "Design", "net": "NeuralDecoder", "problem": "Problem", "result": "Decoded", "study": "Study"}
COMMANDS = COMMAND.commands


def page_id(page: Path) -> str:
    """A page by its path: two folders have pages of the same names."""
    return page.relative_to(ROOT).as_posix()


pages = pytest.mark.parametrize("page", PAGES, ids=page_id)


@pytest.fixture(scope="session")
def calibrations(tmp_path_factory):
    """Where the commands of the pages keep what simulations taught, as those of one user do."""
    return tmp_path_factory.mktemp("calibrations")


@pytest.fixture(autouse=True)
def rough(monkeypatch, no_cache, calibrations):
    """Stop simulating early, and simulate a problem once: how precise a confidence is is tested elsewhere."""
    monkeypatch.setenv("QGT_CACHE", str(calibrations))
    monkeypatch.setattr("qgt.trust.confidence.PRECISE", 0.05)
    monkeypatch.setattr("qgt.cli.decoding.AHEAD", 0.1)
    for name, plates in {"SCOUTED": 20, "MEASURED": 20, "CONFIRMED": 40}.items():
        monkeypatch.setattr(f"qgt.lab.plan.planning.{name}", plates)


def blocks(text: str, *languages: str) -> list[tuple[int, str]]:
    """The blocks of a page in some languages, each with the number of the line above its first."""
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    return [(text.count("\n", 0, match.start(2)), match[2]) for match in found if match[1] in languages]


def inline(text: str) -> list[str]:
    """What stands in single backticks outside blocks, line ends as blanks."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    return [" ".join(code.split()) for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", prose)]


# --- python blocks and docstrings -----------------------------------------------------------------------------------


def run_page(page: Path) -> dict[str, object]:
    """Run a page's blocks one after another in one namespace, as a reader would."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for line, code in blocks(page.read_text("utf-8"), "python"):
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
@pages
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
    assert {test.name for test in examples(SOURCE / "trust/metrics.py")} >= {
        "qgt.trust.metrics.Score",
        "qgt.trust.metrics.counted",
        "qgt.trust.metrics.score",
        "qgt.trust.metrics.triples",
        "qgt.trust.metrics.value_of",
        "qgt.trust.metrics.wilson",
    }
    assert "qgt.model.design.bernoulli" in {test.name for test in examples(SOURCE / "model/design.py")}


def test_a_pages_blocks_share_a_namespace_and_faults_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Title\n```python\na = 1\n```\ntext\n```sh\nnot python\n```\n\n```python\nb = a + 1\n```\n")
    assert run_page(page)["b"] == 2
    assert blocks(page.read_text(), "python") == [(2, "a = 1\n"), (10, "b = a + 1\n")]
    page.write_text("text\n```python\na = 1\n```\n```python\nassert a == 2\n```\n")
    with pytest.raises(AssertionError) as caught:
        run_page(page)
    assert caught.traceback[-1].lineno == 5  # counted from 0: the sixth line of the page


# --- inline code ----------------------------------------------------------------------------------------------------


def resolved(node: ast.expr) -> object:
    """What a dotted name of a page stands for; None where the page alone knows it, as a variable of its own."""
    parts = ast.unparse(node).split(".")
    if parts[0] == "qgt":
        return _below(qgt, parts[1:])
    if parts[0] in qgt.__all__:
        return _below(getattr(qgt, parts[0]), parts[1:])
    # A field without a default is no attribute of the class: only calls of methods are looked up.
    owner = OBJECTS.get(parts[0]) if len(parts) > 1 else None
    return None if owner is None else getattr(getattr(qgt, owner), parts[1], None)


def _below(value: object, parts: list[str]) -> object:
    for number, part in enumerate(parts):
        module = inspect.ismodule(value) and not hasattr(value, part)
        if number == len(parts) - 1 and part in getattr(value, "__dataclass_fields__", {}):
            return None  # a field, which objects have and the class may not
        value = import_module(f"{value.__name__}.{part}") if module else getattr(value, part)
    return value


def wrong_calls(code: str) -> Iterator[str]:
    """What is wrong with a piece of inline code: names that are not there, arguments that a signature lacks."""
    try:
        tree = ast.parse(code, mode="eval")
    except SyntaxError:
        return  # no Python: a command, a key of a file, a formula
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call | ast.Attribute | ast.Name):
            continue
        try:
            value = resolved(node.func if isinstance(node, ast.Call) else node)
        except (AttributeError, ImportError) as error:
            yield str(error)
            continue
        if isinstance(node, ast.Call) and callable(value) and (node.args or node.keywords):
            yield from _unbound(node, value)


def _unbound(node: ast.Call, value: object) -> Iterator[str]:
    assert callable(value)
    first = ast.unparse(node.func).split(".")[0]
    own = [None] if first in OBJECTS and not inspect.ismethod(value) else []  # self
    try:
        inspect.signature(value).bind(*own, *node.args, **{str(word.arg): word.value for word in node.keywords})
    except TypeError as error:
        yield f"{ast.unparse(node)}: {error}"


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "api.md"], ids=page_id)
def test_inline_names_exist_and_calls_fit_their_signatures(page):
    assert [fault for code in inline(page.read_text("utf-8")) for fault in wrong_calls(code)] == []


def test_faults_of_inline_code_are_found():
    text = "A `qgt.score(x,\nx)` and\n```\n`not this`\n```\n`qgt.Problem`, ``no``"
    assert inline(text) == ["qgt.score(x, x)", "qgt.Problem"]
    for fine in (
        "qgt.train(problem, architecture, config, generator=g)",
        "TrainConfig.fresh(steps=...)",
        "qgt.theory.limits.limits(items=..., rate=..., noise=...)",
        'design.to_csv(path, form="lists")',
        "qgt.Evidence.fit",
        "qgt decode --json",
        "A x",
        "result.proof.of_instance(i)",
        "supports(problem)",
    ):
        assert list(wrong_calls(fine)) == [], fine
    for wrong in (
        "qgt.train(problem, architecture, config)",
        "qgt.Certified(odd=3)",
        "check_certificate(problem, y, result, odds=3)",
        "qgt.nothing",
        "qgt.theory.limits.nothing(1)",
        "problem.simulate(10, seed=3)",
        "print(qgt.Bernoulli(share=0.1))",
    ):
        assert list(wrong_calls(wrong)), wrong


# --- commands -------------------------------------------------------------------------------------------------------


def commands(text: str) -> list[list[str]]:
    """The words of every line of a page's blocks that begins with `qgt`, without its comment."""
    lines = [line for _, block in blocks(text, "sh", "") for line in block.splitlines()]
    return [shlex.split(line, comments=True)[1:] for line in lines if re.match(r"qgt [a-z]", line)]


def parse(words: list[str]) -> None:
    """Parse a command without running it; what it lacks or does not know is a UsageError."""
    verb, *rest = words
    COMMANDS[verb].make_context(verb, rest)


def unknown_options(code: str) -> list[str]:
    """Options in inline code such as `qgt decode --report` that the verb does not have."""
    words = code.split()
    if words[0] != "qgt" or len(words) < 2 or words[1] not in COMMANDS:
        return []
    known = {option for parameter in COMMANDS[words[1]].params for option in parameter.opts} | {"--help"}
    return [f"{code}: {word}" for word in words[2:] if word.startswith("-") and word not in known]


@pages
def test_the_commands_of_a_page_parse(page):
    text = page.read_text("utf-8")
    for words in commands(text):
        parse(words)
    assert [fault for code in inline(text) for fault in unknown_options(code)] == []


def test_faults_of_commands_are_found():
    text = (
        "```sh\nqgt score a.csv b.csv   # both\nls\n```\n```python\nqgt score\n```\n```\nqgt verify run -o out\n```\n"
    )
    assert commands(text) == [["score", "a.csv", "b.csv"], ["verify", "run", "-o", "out"]]
    for wrong in ("score a.csv", "score a.csv b.csv --odds 3", "design bernoulli --pools x --items 3 -o a.csv"):
        with pytest.raises(typer.TyperException):
            parse(wrong.split())
    assert unknown_options("qgt decode --decoder NAME") == []
    assert unknown_options("qgt check --odds 3") == ["qgt check --odds 3: --odds"]


@pytest.mark.parametrize("page", RUN, ids=page_id)
def test_the_commands_of_a_page_run_one_after_the_other_in_an_empty_folder(
    page, tmp_path, monkeypatch, unchecked, capfd
):
    text = page.read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("qgt.trust.fit.MOST_INSTANCES", 5000)
    for _, body in blocks(text, "toml"):
        name = re.match(r"# (\S+\.toml)\n", body)
        assert name, "a file of such a page begins with its name in a comment"
        (tmp_path / name[1]).write_text(body, "utf-8")
    for words in commands(text):
        quickly = QUICKLY.get(words[0], [])
        assert main([*words, *quickly]) == 0, f"qgt {shlex.join(words)}: {capfd.readouterr().err}"


def test_every_verb_is_among_the_commands_that_run():
    untried = {"reproduce", "serve"}  # one takes ten minutes and more, the other goes on until it is told to end
    found = {words[0] for page in RUN for words in commands(page.read_text("utf-8"))}
    assert found == set(COMMANDS) - untried


# --- the page of all names ------------------------------------------------------------------------------------------


def test_the_page_of_all_public_names_is_up_to_date(monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.setattr(sys, "argv", ["api.py", "--check"])
    assert import_module("api").main() == 0
    assert capsys.readouterr() == ("", "")
    text = (ROOT / "docs/api.md").read_text("utf-8")
    assert all(f"`{name}`" in text or f"`{name}(" in text for name in qgt.__all__)
