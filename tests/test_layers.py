"""The layers: imports only point down, whether at the top of a module, inside a function or for type checking.

Each line of LAYERS may import from the lines above it and from nothing else of ours, not even its own line. So the rule
is one comparison of numbers; where one module of a layer builds on another, the layer has two lines.
"""

import ast
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import qgt

LAYERS = (
    ("arguments", "plain", "table", "encoding", "printing"),  # below everything: import nothing of ours
    ("design", "prior", "noise", "integer_program"),  # L0 parts
    ("problem", "sheets"),  # L1 the problem, and files of its counts and calls
    ("decoder", "network", "loss", "checkpoints", "evolution"),  # L2 contracts and what networks are made of
    ("decoders.costs", "certificate"),
    ("decoders.relaxation",),
    ("decoders.polish",),
    ("decoders.branching",),
    ("decoders.*",),  # L3 one file each
    ("decoders",),  # the registry of them
    ("threshold", "scoring", "limits", "wording"),  # L4 verbs, and words for what they find
    ("testing.suite", "training_run"),
    ("testing.answers", "testing.edges"),
    ("training", "verification", "testing"),
    ("study.seeds", "study.store", "study.entry"),  # L5
    ("study.plan",),
    ("study.tally", "study.networks"),
    ("study.batch", "study.reading"),
    ("study.running",),
    ("study",),
    ("figure", "svg"),
    ("paper.plan", "paper.counts", "report"),
    ("paper.tables",),
    ("paper.drawing",),
    ("paper.running",),
    ("paper",),
    ("qgt",),  # the package itself names everything public
    ("cli.shell",),  # L6 shell
    ("cli.*",),
    ("cli",),
    ("__main__",),
)
HOMELESS = {"utils", "common", "helpers", "types"}
LONGEST = 400
SOURCE = Path(qgt.__file__).parent


def layer(module: str) -> int | None:
    """The number of a module's layer; None where it has no place."""
    found = (number for number, names in enumerate(LAYERS) if any(fnmatchcase(module, name) for name in names))
    return next(found, None)


def module_name(path: str) -> str:
    """`decoders/greedy.py` is decoders.greedy, `decoders/__init__.py` is decoders, `__init__.py` is qgt."""
    parts = path.removesuffix(".py").split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts) or "qgt"


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
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                if whole != "qgt.__version__":  # a constant, not a module
                    names.append(whole if ours(whole) in modules else base)
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__"):
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
        here = layer(module)
        if here is None:
            found.append(f"{path} is in no layer: give it a place in LAYERS")
        if HOMELESS & set(module.split(".")):
            found.append(f"{path}: a homeless function means a missing concept; name the module after it")
        if len(text.splitlines()) > LONGEST:
            found.append(f"{path} has {len(text.splitlines())} lines, more than {LONGEST}")
        below = list(imported(path, ast.parse(text), modules))
        graph[module] = {name for name, _ in below}
        for name, line in below:
            there = layer(name)
            if here is not None and there is not None and there >= here:
                found.append(f"{path}:{line} imports {name}, which is {'beside' if there == here else 'above'} it")
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found.append(f"cycle: {' imports '.join(reversed(error.args[1]))}")
    return found


def test_imports_only_point_down():
    sources = {path.relative_to(SOURCE).as_posix(): path.read_text("utf-8") for path in SOURCE.rglob("*.py")}
    assert {"__init__.py", "problem.py", "decoders/__init__.py", "scoring.py"} <= set(sources)
    assert faults(sources) == []


def test_the_parts_need_torch_only():
    allowed = {"torch", "jaxtyping", "qgt"}
    for name in ("design", "prior", "noise"):
        tree = ast.parse((SOURCE / f"{name}.py").read_text("utf-8"))
        tops = {
            alias.name.split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
        }
        tops |= {str(node.module).split(".")[0] for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert tops - allowed <= {"collections", "dataclasses", "math", "pathlib", "typing"}, name


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        ({"design.py": "from qgt.problem import Problem"}, "design.py:1 imports problem, which is above it"),
        ({"design.py": "import torch\nimport qgt.problem"}, "design.py:2 imports problem, which is above it"),
        ({"problem.py": "from qgt import training"}, "problem.py:1 imports training, which is above it"),
        ({"problem.py": "from . import training"}, "problem.py:1 imports training, which is above it"),
        ({"decoders/greedy.py": "from ..scoring import f"}, "decoders/greedy.py:1 imports scoring, which is above it"),
        ({"decoders/greedy.py": "from . import DECODERS"}, "decoders/greedy.py:1 imports decoders, which is above it"),
        ({"prior.py": "from qgt.design import Design"}, "prior.py:1 imports design, which is beside it"),
        ({"training.py": "import qgt"}, "training.py:1 imports qgt, which is above it"),
        ({"training.py": "from qgt import Design"}, "training.py:1 imports qgt, which is above it"),
        (
            {"scoring.py": "def f():\n    if f:\n        from qgt.training import train"},
            "scoring.py:3 imports training, which is above it",
        ),
        (
            {"scoring.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import qgt.cli"},
            "scoring.py:3 imports cli, which is above it",
        ),
        (
            {"scoring.py": 'import importlib\nimportlib.import_module("qgt.cli")'},
            "scoring.py:2 imports cli, which is above it",
        ),
        (
            {"decoders/greedy.py": "from qgt.decoders.exact import f"},
            "decoders/greedy.py:1 imports decoders.exact, which is beside it",
        ),
        ({"elsewhere.py": ""}, "elsewhere.py is in no layer: give it a place in LAYERS"),
        (
            {"decoders/utils.py": ""},
            "decoders/utils.py: a homeless function means a missing concept; name the module after it",
        ),
        ({"design.py": "x = 1\n" * 401}, "design.py has 401 lines, more than 400"),
    ],
)
def test_the_checker_catches(sources, said):
    others = ["__init__.py", "problem.py", "training.py", "scoring.py", "cli.py", "decoders/__init__.py"]
    assert faults({**dict.fromkeys(others, ""), **sources}) == [said]


def test_the_checker_catches_a_cycle():
    found = faults({"design.py": "import qgt.prior", "prior.py": "from qgt import design"})
    assert len(found) == 3  # beside each other, twice, and the cycle
    assert found[-1] in ("cycle: design imports prior imports design", "cycle: prior imports design imports prior")
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
                "__init__.py": "if TYPE_CHECKING:\n    from qgt.scoring import score as score",
                "table.py": "import csv\nimport torch",
                "design.py": "from qgt import table\nfrom qgt.table import read\n" + "x = 1\n" * 398,
                "problem.py": "from .design import Design",
                "decoders/greedy.py": "from ..problem import Problem\nfrom qgt import __version__",
                "decoders/__init__.py": "from .greedy import f\nfrom . import greedy",
                "scoring.py": "import qgtools",
                "cli.py": "import qgt\ndef f():\n    from qgt.scoring import score",
                "__main__.py": "from qgt.cli import main",
            }
        )
        == []
    )
