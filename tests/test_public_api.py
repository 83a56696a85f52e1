"""The public names: sorted, complete, documented, cheap to import, and each where its type says it is."""

import ast
import doctest
import inspect
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import qgt

ROOT = Path(__file__).parent.parent
# For the command, for pages, figures and files, never to import the library.
LATE = ("typer", "rich", "pydantic", "matplotlib", "jinja2", "markupsafe", "tomli_w")


def declared() -> dict[str, str]:
    """The names that type checkers see, each with its module."""
    tree = ast.parse(Path(qgt.__file__).with_suffix(".pyi").read_text("utf-8"))
    assert all(isinstance(node, ast.ImportFrom) for node in tree.body)
    return {
        str(alias.asname): str(node.module)
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module != "qgt.version"
        for alias in node.names
    }


DECLARED = declared()
names = pytest.mark.parametrize("name", qgt.__all__)


def run(code: str) -> str:
    """Run code in a fresh interpreter that finds the same packages as this one."""
    prelude = f"import sys; sys.path[:] = {sys.path!r}\n"
    done = subprocess.run([sys.executable, "-I", "-c", prelude + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_all_is_sorted_and_complete():
    assert list(qgt.__all__) == sorted(set(qgt.__all__))
    assert set(qgt.__all__) == set(DECLARED)
    assert set(qgt.__all__) <= set(dir(qgt))


@names
def test_a_name_is_the_one_its_module_defines(name):
    value = getattr(qgt, name)
    assert value is getattr(import_module(DECLARED[name]), name)
    assert not isinstance(value, ModuleType)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert value.__module__ == DECLARED[name]
        assert value.__name__ == name


def test_a_name_means_the_same_whatever_was_imported_before():
    # Importing a module binds its name in the package, where it would hide a public name that is the same.
    modules = {path.stem for path in Path(qgt.__file__).parent.iterdir()}
    assert modules & set(qgt.__all__) == set()
    printed = run(
        "import qgt, types\n"
        "from importlib import import_module\n"
        f"for module in {sorted(set(DECLARED.values()))!r}: import_module(module)\n"
        "print([name for name in qgt.__all__ if isinstance(getattr(qgt, name), types.ModuleType)])"
    )
    assert printed.strip() == "[]"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'qgt' has no attribute 'Tests'"):
        _ = qgt.Tests


def is_constant(value: object) -> bool:
    return not (inspect.isclass(value) or inspect.isroutine(value))


@names
def test_a_name_is_documented(name):
    value = getattr(qgt, name)
    if is_constant(value):
        return
    own = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
    assert own, f"{name} has no docstring"
    first = own.strip().splitlines()[0]
    assert not first.startswith(f"{name}("), f"{name} has only the docstring that dataclasses and named tuples make up"
    assert first.endswith((".", "?", "!")), f"{name}: the first line is not one sentence: {first}"


@names
def test_a_name_has_a_runnable_example(name):
    value = getattr(qgt, name)
    plain = inspect.isclass(value) and (
        getattr(value, "_is_protocol", False) or hasattr(value, "_fields") or issubclass(value, Exception)
    )
    if not is_constant(value) and not plain:
        assert doctest.DocTestParser().get_examples(inspect.getdoc(value) or ""), f"{name} has no `>>>` example"


@names
def test_public_methods_are_documented(name):
    value = getattr(qgt, name)
    if inspect.isclass(value):
        for method, attribute in vars(value).items():
            made_here = inspect.isroutine(attribute) or isinstance(attribute, property | classmethod | staticmethod)
            if made_here and not method.startswith("_"):
                assert inspect.getdoc(attribute), f"{name}.{method} has no docstring"


def test_the_library_needs_none_of_the_shells_packages():
    blocked = f"for name in {LATE!r}: sys.modules[name] = None  # importing it now fails\n"
    here = "sum(name in globals() for name in qgt.__all__)"
    printed = run(blocked + f"from qgt import *\nimport qgt\nprint({here}, callable(score))")
    assert printed.split() == [str(len(qgt.__all__)), "True"]


def test_import_qgt_is_cheap():
    heavy = ("torch", "numpy", "scipy", *LATE)
    assert run(f"import qgt; print([name for name in {heavy!r} if name in sys.modules])").strip() == "[]"


def test_the_version_is_the_same_everywhere():
    with (ROOT / "pyproject.toml").open("rb") as stream:
        assert tomllib.load(stream)["tool"]["hatch"]["version"]["path"] == "src/qgt/version.py"
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    released = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d{2}-\d{2}$", changelog, flags=re.MULTILINE)
    assert released, "CHANGELOG.md has no heading like '## [0.1.0] - 2026-11-15'"
    assert released[0] == qgt.__version__
