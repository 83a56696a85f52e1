"""How large the source tree is, and how much of it `qgt decode` executes.

    python benchmarks/tree.py                       # today's tree
    python benchmarks/tree.py --path OTHER/src/qgt  # another tree, such as one of `git archive`
    python benchmarks/tree.py --single              # the modules with one importer, smallest first
    python benchmarks/tree.py --long                # the functions over 40 lines, longest first

Prints one JSON object. A module has one importer if exactly one other module of the tree imports it. A function's
length is that of its lines, docstring included. The modules that `qgt decode` executes are those in `sys.modules` after
one plate of two pools is decoded (`python -X importtime` does not list what `importlib.import_module` imports). Imports
by name, as in the registry of decoders, are not among the import statements.
"""

import argparse
import ast
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

LONG = 40  # lines of a function
COUNTED = """
import sys
from qgt.cli import main
code = main(sys.argv[1:])
print(sum(name == "qgt" or name.startswith("qgt.") for name in sys.modules), file=sys.stderr)
sys.exit(code)
"""
PROBLEM = 'design = { matrix = ["110", "011"] }\nprior = { kind = "bernoulli", rate = 0.1 }\n'


def module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(tree: ast.Module, modules: set[str]) -> set[str]:
    """The modules of the tree that a module imports, wherever the import is."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found & modules


def public_names(root: Path) -> int:
    """The names that the stub of the package lists; without a stub, those of `__all__` or of `_PUBLIC`."""
    stub = root / "__init__.pyi"
    tree = ast.parse((stub if stub.is_file() else root / "__init__.py").read_text("utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return sum(len(node.names) for node in imports if node.module != "qgt.version")


def importers_of(trees: dict[str, ast.Module]) -> dict[str, list[str]]:
    """The modules that import each module."""
    found: dict[str, list[str]] = {name: [] for name in trees}
    for own, tree in trees.items():
        for name in imported(tree, set(trees)) - {own}:
            found[name].append(own)
    return found


def measures(root: Path) -> dict[str, float]:
    texts = {path: path.read_text("utf-8") for path in sorted(root.rglob("*.py"))}
    trees = {module_name(path, root): ast.parse(text) for path, text in texts.items()}
    importers = importers_of(trees)
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    lengths = [node.end_lineno - node.lineno + 1 for node in functions]
    packages = {module_name(path, root) for path in texts if path.name == "__init__.py"}
    return {
        "modules": len(texts),
        "modules without __init__": len(texts) - len(packages),
        "lines": sum(len(text.splitlines()) for text in texts.values()),
        "import statements": sum(isinstance(node, ast.Import | ast.ImportFrom) for node in nodes),
        "modules with one importer": sum(len(importers[name]) == 1 for name in trees if name not in packages),
        "public names": public_names(root),
        "functions": len(lengths),
        f"functions over {LONG} lines": sum(length > LONG for length in lengths),
        "median lines of a function": statistics.median(lengths),
    }


def long_functions(root: Path) -> list[str]:
    """Every function over the limit, longest first."""
    found = []
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno - node.lineno >= LONG:
                length = node.end_lineno - node.lineno + 1
                found.append((-length, f"{length} {path.relative_to(root)}:{node.lineno} {node.name}"))
    return [words for _, words in sorted(found)]


def single_importers(root: Path) -> list[str]:
    """Every module that exactly one other imports, with its lines and its importer, smallest first."""
    texts = {module_name(path, root): path.read_text("utf-8") for path in root.rglob("*.py")}
    packages = {module_name(path, root) for path in root.rglob("__init__.py")}
    importers = importers_of({name: ast.parse(text) for name, text in texts.items()})
    alone = [name for name, found in importers.items() if len(found) == 1 and name not in packages]
    alone.sort(key=lambda name: (len(texts[name].splitlines()), name))
    return [f"{len(texts[name].splitlines())} {name}, imported by {importers[name][0]}" for name in alone]


def executed_by_decode(root: Path) -> int:
    """How many modules of the package run when `qgt decode` decodes one plate."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "problem.toml").write_text(PROBLEM, "utf-8")
        Path(folder, "counts.csv").write_text("instance,P1,P2\n1,1,1\n", "utf-8")
        verb = ["decode", "counts.csv", "--problem", "problem.toml", "-o", "calls.csv", "--calibrate", "0"]
        done = subprocess.run(
            [sys.executable, "-c", COUNTED, *verb],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(root.parent.resolve())},
            capture_output=True,
            text=True,
            check=False,
        )
    lines = done.stderr.splitlines()
    if done.returncode not in (0, 1):
        raise RuntimeError(f"qgt decode failed with code {done.returncode}: {lines[-1] if lines else 'no message'}")
    return int(lines[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--path", type=Path, default=Path(__file__).parent.parent / "src" / "qgt")
    parser.add_argument("--long", action="store_true", help="list the functions over 40 lines instead")
    parser.add_argument("--single", action="store_true", help="list the modules with one importer instead")
    given = parser.parse_args()
    if given.long or given.single:
        print("\n".join(long_functions(given.path) if given.long else single_importers(given.path)))
    else:
        counted = {**measures(given.path), "modules that qgt decode executes": executed_by_decode(given.path)}
        print(json.dumps(counted, indent=2))


if __name__ == "__main__":
    main()
