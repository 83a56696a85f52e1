"""Tables of the standard benchmark: a ranking, and one for each problem."""

from functools import partial
from pathlib import Path

from qgt.study.standard import StandardResults, standard_problems


def _results(root: Path) -> StandardResults:
    path = root / "results/standard.json"
    if not path.exists():
        raise FileNotFoundError(path)
    return StandardResults.load(path)


def problem_table(name: str, root: Path) -> str:
    """The decoders on one problem."""
    return _results(root).table(name)


TABLES = {
    "standard": lambda root: _results(root).ranking(),
    **{f"standard_{one.name}": partial(problem_table, one.name) for one in standard_problems()},
}
