"""The verb that checks proofs: check."""

from pathlib import Path
from typing import Annotated

import typer

import qgt
from qgt.cli.sheets import Counts, ProblemFile, problem_file, read_sheet
from qgt.cli.shell import Json, Plugins, app, check_files, load_plugins, tell


@app.command()
def check(
    counts: Counts,
    problem: ProblemFile,
    certificate: Annotated[Path, typer.Option(metavar="FILE", help="Proofs from 'qgt decode --certificate'.")],
    calls: Annotated[Path | None, typer.Option(metavar="FILE", help="Also: are these calls what is proved?")] = None,
    plugin: Plugins = None,
    as_json: Json = False,
) -> None:
    """Check proofs without the solver that made them: plain sums over the counts, the design and the proofs.

    With --calls, also whether a file of calls holds the answers that are proved. Exit code 1 says that some instance is
    not proved, or that its calls are others.

    \b
    Examples:
      qgt check counts.csv --problem problem.toml --certificate proofs.safetensors
      qgt check counts.csv --problem problem.toml --certificate proofs.safetensors --calls calls.csv
    """
    problem = problem_file(problem)
    check_files([], inputs=[counts, problem, certificate, calls, *(plugin or ())])
    from qgt.lab.answers.checking import check_sheet, summary
    from qgt.lab.sheets.counts import read_calls

    load_plugins(plugin)
    loaded = qgt.Problem.load(problem)
    read = read_sheet(counts, problem, loaded)
    y, names = read.y, read.names
    result = qgt.load_certificate(certificate, loaded, y)
    called = None if calls is None else read_calls(calls, loaded.design, names or len(y), str(counts))
    made = check_sheet(loaded, y, names, result, called)
    bad = [one for one in made if not one.fine]
    odds = result.proof.odds if result.proof is not None else 1.0
    facts: dict[str, object] = {
        "instances": len(made),
        "proved": sum(one.holds for one in made),
        "not_proved": [one.name for one in made if not one.holds],
        "odds": odds,
        "claims": {name: sum(getattr(one, name) for one in made) for name in ("optimal", "listed", "impossible")},
    }
    if calls is not None:
        facts["other_calls"] = {one.name: one.reason for one in made if one.calls is False}
    title = "\n".join([*summary(made, odds), *(["These do not:"] if bad else [])])
    tell(facts if as_json else None, title, ["instance", "why"], *([one.name, one.reason] for one in bad))
    if bad:
        raise typer.Exit(1)
