"""Examples and benchmarks run for minutes, so the suite does not run them; but what they import must be there."""

import ast
import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = sorted([*ROOT.glob("examples/*.py"), *ROOT.glob("benchmarks/**/*.py")])


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_what_a_script_imports_is_there(script: Path) -> None:
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "qgt":
            module = importlib.import_module(node.module or "")
            missing = [one.name for one in node.names if not (hasattr(module, one.name) or _holds(module, one.name))]
            assert not missing, f"{node.module} has no {', '.join(missing)}"


def _holds(package: ModuleType, name: str) -> bool:
    return hasattr(package, "__path__") and importlib.util.find_spec(f"{package.__name__}.{name}") is not None
