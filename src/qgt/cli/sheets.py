"""What verbs that take a sheet of counts share: their arguments, how the sheet is read, and verdicts on the screen."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import qgt
from qgt.cli.shell import tell

if TYPE_CHECKING:
    from qgt.lab.accounts import Account
    from qgt.lab.counts import CountSheet

Counts = Annotated[Path, typer.Argument(metavar="COUNTS", help="CSV or XLSX: a column or a row per pool, or a plate.")]
ProblemFile = Annotated[
    Path, typer.Option(metavar="PROBLEM", help="Design, prior and noise: TOML or JSON, or a folder of 'qgt plan'.")
]
SHOWN = 5  # instances in words on the screen; the report has all


def problem_file(path: Path) -> Path:
    """The problem's file: itself or, of a plan's folder, the one in it."""
    return path / "problem.toml" if path.is_dir() else path


def read_sheet(counts: Path, problem: Path | None, loaded: "qgt.Problem") -> "CountSheet":
    """The counts of a problem's pools.

    Where the problem's file belongs to a plan, samples are known by name, and a plan that was changed is refused.
    """
    from qgt.lab.counts import read_counts
    from qgt.lab.plan_folder import read_plan
    from qgt.lab.round_files import COUNTS, RECORD

    if counts.name == COUNTS and (counts.parent / RECORD).is_file():
        raise ValueError(
            f"{counts}: has the counts of a later round; give those of the first round, and --round {counts.parent}."
        )
    home = problem.parent if problem is not None and problem.name == "problem.toml" else None
    planned = home is not None and all((home / name).is_file() for name in ("plan.json", "samples.csv"))
    samples = read_plan(home).samples if home is not None and planned else None
    return read_counts(counts, loaded.design, samples, noise=loaded.noise)


def tell_verdicts(title: str, made: "Sequence[Account]") -> None:
    """How many instances have each verdict, and the first ones in words."""
    from qgt.lab.reports import by_urgency, verdict_counts
    from qgt.lab.wording import quoted

    rows = [[word.value, number, word.meaning] for word, number in verdict_counts(made).items()]
    tell(None, title, ["verdict", "instances", "meaning"], *rows)
    for one in by_urgency(made)[:SHOWN]:
        tell(None, f"\n{quoted(one.name)}, {one.verdict}: {one.words}", [])
    if len(made) > SHOWN:
        left = len(made) - SHOWN
        tell(None, f"\n{left} more not shown here: see --report, --html or --json.", [])
