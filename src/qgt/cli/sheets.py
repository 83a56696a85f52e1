"""What verbs that take a sheet of counts share: their arguments, how the sheet is read, and verdicts on the screen."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

import qgt
from qgt.cli.shell import tell

if TYPE_CHECKING:
    from qgt.lab.answers.accounts import Account
    from qgt.lab.sheets.counts import CountSheet
    from qgt.lab.sheets.samples import Samples

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
    from qgt.lab.rounds.files import COUNTS, RECORD
    from qgt.lab.sheets.counts import read_counts

    if counts.name == COUNTS and (counts.parent / RECORD).is_file():
        raise ValueError(
            f"{counts}: has the counts of a later round; give those of the first round, and --round {counts.parent}."
        )
    return read_counts(counts, loaded.design, planned_samples(problem), noise=loaded.noise)


def planned_samples(problem: Path | None) -> "Samples | None":
    """The samples of the plan that a problem's file belongs to; None where it belongs to none."""
    from qgt.lab.plan.folder import read_plan

    home = problem.parent if problem is not None and problem.name == "problem.toml" else None
    planned = home is not None and all((home / name).is_file() for name in ("plan.json", "samples.csv"))
    return read_plan(home).samples if home is not None and planned else None


class Outputs(NamedTuple):
    """The files that decoding may write; None for those that were not asked for."""

    calls: Path | None
    by_sample: Path | None
    answers: Path | None
    report: Path | None
    page: Path | None
    certificate: Path | None

    @property
    def written(self) -> dict[str, str]:
        """The files that were asked for, by what they hold."""
        return {name: str(path) for name, path in self._asdict().items() if path is not None}

    def of_accounts(
        self, made: "Sequence[Account]", design: "qgt.Design", samples: "Samples | None"
    ) -> dict[Path, Callable[[Path], object]]:
        """What writes each table of calls."""
        from qgt.lab.answers import outputs
        from qgt.lab.sheets.names import check_code

        files: dict[Path, Callable[[Path], object]] = {}
        if self.calls is not None:
            files[self.calls] = partial(outputs.write_calls, made=made, items=design.item_names)
        if self.by_sample is not None:
            places = None if samples is None else samples.places
            lines = outputs.sample_rows(made, check_code(design), places)
            files[self.by_sample] = partial(outputs.write_samples, rows=lines)
        if self.report is not None:
            files[self.report] = partial(outputs.write_report, made=made)
        return files


def exit_code(made: "Sequence[Account]") -> int:
    """1 where the answer to some plate must not be used."""
    return int(any(str(one.verdict) in ("suspect", "impossible") for one in made))


def tell_verdicts(title: str, made: "Sequence[Account]") -> None:
    """How many plates have each verdict, and the first ones in words."""
    from qgt.lab.answers.outputs import by_urgency, verdict_counts
    from qgt.lab.wording import quoted

    rows = [[word.value, number, word.meaning] for word, number in verdict_counts(made).items()]
    tell(None, title, ["verdict", "plates", "meaning"], *rows)
    for one in by_urgency(made)[:SHOWN]:
        tell(None, f"\n{quoted(one.name)}, {one.verdict}: {one.words}", [])
    if len(made) > SHOWN:
        left = len(made) - SHOWN
        tell(None, f"\n{left} more not shown here: see --report, --html or --json.", [])
