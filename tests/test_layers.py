"""The rooms: imports only point down, whether at the top of a module, inside a function or for type checking.

A room may import from the rooms on the lines above its own, and from nothing else of ours; inside a room modules
import each other as they like, without cycles.
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import qgt

ROOMS = (
    ("version", "arguments"),  # one module each: no room
    ("files",),
    ("model",),
    ("decoders",),
    ("theory", "trust", "testing"),
    ("rounds",),
    ("learning",),
    ("study",),
    ("pictures",),
    ("lab.verdicts",),
    ("lab.wording", "paper"),
    ("lab.reported",),
    ("lab.sheets",),
    ("lab.plan",),
    ("lab.answers",),
    ("lab.rounds",),
    ("lab",),
    ("qgt",),  # the package itself names everything public
    ("web",),  # below the command, whose verb starts it
    ("cli",),
    ("__main__",),
)
HOMELESS = {"utils", "common", "helpers", "types"}
SOURCE = Path(qgt.__file__).parent
CHECKER, SEARCH = "decoders.checker", "decoders.certified"
APART = "the checker of proofs and the search must share no code"


def room(module: str) -> str:
    """The room of a module: the longest beginning of its name that has a place, else the first part."""
    named = {name for line in ROOMS for name in line}
    parts = module.split(".")
    return next((name for size in range(len(parts), 0, -1) if (name := ".".join(parts[:size])) in named), parts[0])


def height(module: str) -> int | None:
    """How high a module's room lies; None where it has no place."""
    return next((number for number, names in enumerate(ROOMS) if room(module) in names), None)


def module_name(path: str) -> str:
    """`decoders/greedy.py` is decoders.greedy, `decoders/__init__.py` is decoders, `__init__.py` is qgt."""
    parts = path.removesuffix(".py").split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts) or "qgt"


@cache
def parsed(text: str) -> ast.Module:
    """All modules of the library take a second, and several tests look at them."""
    return ast.parse(text)


def called(function: ast.expr) -> str | None:
    """The last name of what is called: g of `f.g()`."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", None)


def imported(path: str, tree: ast.AST, modules: set[str]) -> Iterator[tuple[str, int]]:
    """Every module of ours that a file imports, with the line."""
    package = ["qgt", *path.split("/")[:-1]]

    def ours(name: str) -> str | None:
        top, _, rest = name.partition(".")
        return None if top != "qgt" else rest or "qgt"

    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            wholes = [f"{base}.{alias.name}" for alias in node.names]
            names = [whole if ours(whole) in modules else base for whole in wholes]
        elif isinstance(node, ast.Call) and called(node.func) in ("import_module", "__import__"):
            names = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        for name in names:
            if (module := ours(name)) is not None:
                yield module, node.lineno


def faults(sources: Mapping[str, str]) -> list[str]:
    """Everything that breaks the rules, in words; `sources` maps paths inside the package to their text."""
    modules = {module_name(path) for path in sources}
    found, graph = [], {}
    for path, text in sources.items():
        module = module_name(path)
        here = height(module)
        if here is None:
            found.append(f"{path} is in no room: give it a place in ROOMS")
        if HOMELESS & set(module.split(".")):
            found.append(f"{path}: a homeless function means a missing concept; name the module after it")
        below = list(imported(path, parsed(text), modules))
        graph[module] = {name for name, _ in below}
        for name, line in below:
            there = height(name)
            if here is None or there is None or room(name) == room(module):
                continue
            if there >= here:
                found.append(f"{path}:{line} imports {name}, which is {'beside' if there == here else 'above'} it")
    found += [f"{one} imports {other}: {APART}" for one, other in sorted(_too_close(graph))]
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found.append(f"cycle: {' imports '.join(reversed(error.args[1]))}")
    return found


def _too_close(graph: Mapping[str, set[str]]) -> Iterator[tuple[str, str]]:
    """Imports, by however many steps, from the checker of proofs to the search for them, or back."""

    def reached(module: str) -> set[str]:
        seen, todo = set[str](), [module]
        while todo:
            new = graph.get(todo.pop(), set()) - seen
            seen |= new
            todo += new
        return seen

    def search(module: str) -> bool:
        return module == SEARCH or module.startswith(f"{SEARCH}.")

    yield from ((CHECKER, other) for other in reached(CHECKER) if search(other))
    yield from ((one, CHECKER) for one in graph if search(one) and CHECKER in reached(one))


def sources() -> dict[str, str]:
    return {path.relative_to(SOURCE).as_posix(): path.read_text("utf-8") for path in SOURCE.rglob("*.py")}


def test_imports_only_point_down():
    assert {"__init__.py", "model/problem.py", "decoders/checker.py", "trust/metrics.py"} <= set(sources())
    assert faults(sources()) == []


def test_every_room_says_what_lives_there():
    for path, text in sources().items():
        if path.endswith("/__init__.py"):
            assert len(ast.get_docstring(parsed(text)) or "") > 80, f"{path} does not say what lives there"


def public_classes(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Where each class is defined whose name does not begin with an underscore."""
    found: dict[str, list[str]] = {}
    for path, text in sources.items():
        for node in ast.walk(parsed(text)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(path)
    return found


def test_no_two_public_classes_have_one_name():
    found = public_classes(sources())
    assert found["Problem"] == ["model/problem.py"]
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}
    twice = public_classes({"model/a.py": "class Leaves: pass", "web/b.py": "def f():\n    class Leaves: pass"})
    assert twice == {"Leaves": ["model/a.py", "web/b.py"]}


def test_constants_say_of_what():
    """A bare `MOST` says nothing where it is imported, and a search for it finds ten."""
    bare = {"CHUNK", "CLOSE", "FAR", "KEPT", "LEAST", "MOST", "NUMBERS", "STEPS"}
    for path, text in sources().items():
        for node in parsed(text).body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            names = {one.id for target in targets if target for one in ast.walk(target) if isinstance(one, ast.Name)}
            assert not names & bare, f"{path}:{node.lineno} has a constant that does not say of what"


def test_the_rooms_reading_order_is_that_of_their_imports():
    """`decoders/certified` says that each file imports only those before it."""
    text = sources()["decoders/certified/__init__.py"]
    order = re.findall(r"^    (\w+)   ", text, flags=re.MULTILINE)
    files = {path: text for path, text in sources().items() if path.startswith("decoders/certified/")}
    assert {f"decoders/certified/{name}.py" for name in (*order, "__init__")} == set(files)
    modules = {module_name(path) for path in files}
    for place, name in enumerate(order):
        path = f"decoders/certified/{name}.py"
        used = {module for module, _ in imported(path, parsed(files[path]), modules)} & modules
        assert used <= {f"decoders.certified.{before}" for before in order[:place]}, name


def test_the_parts_need_torch_only():
    allowed = {"torch", "jaxtyping", "qgt"} | sys.stdlib_module_names
    for name in ("design", "lists", "constructions", "noise"):
        tree = parsed((SOURCE / f"model/{name}.py").read_text("utf-8"))
        tops = {
            alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
        }
        tops |= {str(node.module).split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert tops <= allowed, name


@pytest.mark.parametrize(
    ("added", "said"),
    [
        ({"model/design.py": "from qgt.trust.metrics import f"}, "model/design.py:1 imports trust.metrics, which is above it"),
        ({"model/design.py": "import torch\nimport qgt.trust.metrics"}, "model/design.py:2 imports trust.metrics, which is above it"),
        ({"model/problem.py": "from qgt.learning import training"}, "model/problem.py:1 imports learning.training, which is above it"),
        ({"decoders/greedy.py": "from ..trust.metrics import f"}, "decoders/greedy.py:1 imports trust.metrics, which is above it"),
        ({"theory/limits.py": "from qgt.trust.metrics import f"}, "theory/limits.py:1 imports trust.metrics, which is beside it"),
        ({"learning/training.py": "import qgt"}, "learning/training.py:1 imports qgt, which is above it"),
        ({"learning/training.py": "from qgt import Design"}, "learning/training.py:1 imports qgt, which is above it"),
        (
            {"decoders/amp.py": "def f():\n    if f:\n        from qgt.trust.metrics import g"},
            "decoders/amp.py:3 imports trust.metrics, which is above it",
        ),
        (
            {"trust/fit.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import qgt.cli"},
            "trust/fit.py:3 imports cli, which is above it",
        ),
        (
            {"trust/fit.py": 'import importlib\nimportlib.import_module("qgt.cli")'},
            "trust/fit.py:2 imports cli, which is above it",
        ),
        ({"elsewhere.py": ""}, "elsewhere.py is in no room: give it a place in ROOMS"),
        (
            {"decoders/utils.py": ""},
            "decoders/utils.py: a homeless function means a missing concept; name the module after it",
        ),
        (
            {"decoders/checker.py": "from qgt.decoders.certified.nodes import f", "decoders/certified/nodes.py": ""},
            f"decoders.checker imports decoders.certified.nodes: {APART}",
        ),
        (
            {"decoders/checker.py": "", "decoders/certified/nodes.py": "from ..checker import f"},
            f"decoders.certified.nodes imports decoders.checker: {APART}",
        ),
        (
            {
                "decoders/checker.py": "import qgt.decoders.between",
                "decoders/between.py": "import qgt.decoders.certified.nodes",
                "decoders/certified/nodes.py": "",
            },
            f"decoders.checker imports decoders.certified.nodes: {APART}",
        ),
    ],
)  # fmt: skip
def test_the_checker_catches(added, said):
    others = ["__init__.py", "model/problem.py", "learning/training.py", "trust/metrics.py", "cli/__init__.py"]
    assert faults({**dict.fromkeys(others, ""), **added}) == [said]


def test_the_checker_catches_a_cycle():
    found = faults({"model/design.py": "import qgt.model.prior", "model/prior.py": "from qgt.model import design"})
    assert found in (
        ["cycle: model.design imports model.prior imports model.design"],
        ["cycle: model.prior imports model.design imports model.prior"],
    )
    found = faults(
        {
            "study/a.py": "from .b import f",
            "study/b.py": "def g():\n    from . import c",
            "study/c.py": "import qgt.study.a",
        }
    )
    assert found[-1].startswith("cycle: study.")


def test_the_checker_accepts_what_points_down():
    assert (
        faults(
            {
                "__init__.py": "if TYPE_CHECKING:\n    from qgt.trust.metrics import score as score",
                "version.py": "",
                "files/tables.py": "import csv\nimport torch",
                "model/design.py": "from qgt.files import tables\nfrom qgt.files.tables import read\n"
                + "x = 1\n" * 298,
                "model/problem.py": "from .design import Design",
                "decoders/greedy.py": "from ..model.problem import Problem\nfrom qgt.version import __version__",
                "decoders/__init__.py": "",
                "trust/metrics.py": "import qgtools",
                "cli/__init__.py": "import qgt\ndef f():\n    from qgt.trust.metrics import score",
                "__main__.py": "from qgt.cli import main",
            }
        )
        == []
    )
