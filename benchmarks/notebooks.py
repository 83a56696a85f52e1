"""The notebooks of examples/notebooks, made from the scripts beside them: run, with what each cell shows.

python benchmarks/notebooks.py --check    # exit with 1 if a notebook does not have the cells of its script
python benchmarks/notebooks.py --write    # run all scripts and write their notebooks

A script has cells that begin with `# %%`; editors show it as a notebook, and Python runs it as it is. Jupyter is not
needed to make the notebooks, only to open them.
"""

import argparse
import ast
import base64
import contextlib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).resolve().parents[1] / "examples/notebooks"
LAST = "_last_line"  # the name in a cell's scope of what its last line is worth
DPI = 60  # of figures: notebooks are committed, and stay small


class Cell(NamedTuple):
    """One cell of a script."""

    kind: str  # "markdown" or "code"
    text: str


def cells(script: str) -> list[Cell]:
    """The cells of a script.

    Example:
        >>> cells("# %% [markdown]\\n# # Title\\n#\\n# Text.\\n\\n# %%\\nprint(1)\\n")
        [Cell(kind='markdown', text='# Title\\n\\nText.'), Cell(kind='code', text='print(1)')]
    """
    found = []
    for head, body in re.findall(r"^# %%(.*)\n((?:(?!# %%).*\n?)*)", script, flags=re.MULTILINE):
        if "[markdown]" in head:
            lines = (line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines())
            found.append(Cell("markdown", "\n".join(lines)))
        else:
            found.append(Cell("code", body.strip()))
    return found


def run(code: str, scope: dict[str, object]) -> Iterator[dict[str, Any]]:
    """Run a cell; what it prints and what its last line is worth, as outputs of a notebook."""
    tree, printed = ast.parse(code), io.StringIO()
    if tree.body and isinstance(last := tree.body[-1], ast.Expr):
        named = ast.Assign([ast.Name(LAST, ast.Store())], last.value)
        tree.body[-1] = ast.fix_missing_locations(ast.copy_location(named, last))
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "<cell>", "exec"), scope)
    value = scope.pop(LAST, None)
    if printed.getvalue():
        yield {"output_type": "stream", "name": "stdout", "text": _lines(printed.getvalue())}
    if value is not None:
        yield {"output_type": "execute_result", "execution_count": None, "metadata": {}, "data": shown(value)}


def shown(value: Any) -> dict[str, Any]:
    """A value as a notebook shows it: as text, and as HTML or an image where it can be."""
    data: dict[str, Any] = {"text/plain": _lines(repr(value))}
    page = value._repr_html_() if hasattr(value, "_repr_html_") else None  # a figure of matplotlib may have none
    data |= {} if page is None else {"text/html": _lines(page)}
    if hasattr(value, "savefig"):
        image = io.BytesIO()
        value.savefig(image, format="png", dpi=DPI)
        data["image/png"] = base64.b64encode(image.getvalue()).decode()
    return data


def notebook(script: Path) -> dict[str, Any]:
    """A notebook with the outputs of a run in an empty folder."""
    scope: dict[str, object] = {"__name__": "__main__"}
    here, made = Path.cwd(), []
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for number, cell in enumerate(cells(script.read_text(encoding="utf-8"))):
                one = {"id": f"cell-{number}", "cell_type": cell.kind, "metadata": {}, "source": _lines(cell.text)}
                if cell.kind == "code":
                    one |= {"execution_count": None, "outputs": list(run(cell.text, scope))}
                made.append(one)
        finally:
            os.chdir(here)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": made}


def stale(script: Path) -> bool:
    """Whether the notebook beside a script is missing, or has other cells."""
    path = script.with_suffix(".ipynb")
    if not path.exists():
        return True
    stored = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [Cell(one["cell_type"], "".join(one["source"])) for one in stored] != cells(script.read_text("utf-8"))


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="only say which notebooks are out of date")
    parser.add_argument("--write", action="store_true", help="run the scripts, and write the notebooks")
    arguments = parser.parse_args()
    scripts = sorted(FOLDER.glob("*.py"))
    for script in scripts if arguments.write else ():
        text = json.dumps(notebook(script), indent=1, ensure_ascii=False) + "\n"
        script.with_suffix(".ipynb").write_text(text, encoding="utf-8")
        print(f"{script.with_suffix('.ipynb').name}: {len(text):,} characters")
    old = [script.name for script in scripts if stale(script)]
    if old:
        print(f"{', '.join(old)}: run 'python benchmarks/notebooks.py --write'.")
    return int(bool(old))


if __name__ == "__main__":
    sys.exit(main())
