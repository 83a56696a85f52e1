"""The verbs that check: `check` holds proofs against counts, `verify` reads the design back from a trained network."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import qgt
from qgt.cli.shell import (
    CountsFile,
    Json,
    Plugins,
    ProblemFile,
    Seed,
    app,
    check_files,
    load_plugins,
    own_generator,
    planned_samples,
    problem_file,
    read_sheet,
    tell,
    write_files,
)
from qgt.files.store import working_in

if TYPE_CHECKING:
    from qgt.lab.answers.checking import Checked


@app.command()
def check(
    counts: CountsFile,
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
    read = read_sheet(counts, loaded, planned_samples(problem, loaded))
    y, names = read.y, read.names
    result = qgt.load_certificate(certificate, loaded, y)
    cells = None if loaded.values is None else loaded.values.cells
    called = None if calls is None else read_calls(calls, loaded.design, names or len(y), str(counts), cells)
    made = check_sheet(loaded, y, names, result, called)
    bad = [one for one in made if not one.fine]
    odds = result.proof.odds if result.proof is not None else 1.0
    facts = _facts(made, odds)
    if calls is not None:
        facts["other_calls"] = {one.name: one.reason for one in made if one.calls is False}
    title = "\n".join([*summary(made, odds), *(["These do not:"] if bad else [])])
    tell(facts if as_json else None, title, ["instance", "why"], *([one.name, one.reason] for one in bad))
    if bad:
        raise typer.Exit(1)


def _facts(made: Sequence["Checked"], odds: float) -> dict[str, object]:
    return {
        "instances": len(made),
        "proved": sum(one.holds for one in made),
        "not_proved": [one.name for one in made if not one.holds],
        "odds": odds,
        "claims": {name: sum(getattr(one, name) for one in made) for name in ("optimal", "listed", "impossible")},
    }


BULKY = ("evidence", "claimed", "recovered", "pool_errors", "item_errors")  # parts of a report only its file has


@app.command()
def verify(
    model: Annotated[Path, typer.Argument(metavar="RUN", help="A network from 'qgt train'.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="For report.json and figure.png.")],
    claimed: Annotated[Path | None, typer.Option(metavar="DESIGN", help="The design to check, if not its own.")] = None,
    estimator: Annotated[
        str, typer.Option(metavar="NAME", help="least_squares, mean_jacobian, regression, or best of these.")
    ] = "best",
    instances: Annotated[int, typer.Option(metavar="T", min=1, help="How many instances to probe at.")] = 1000,
    plugin: Plugins = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Read the design back from a trained network and compare it with the claimed one.

    Exit code 1: some entries contradict the claim, or the evidence decides nothing.

    \b
    Example:
      qgt verify runs/mlp --claimed design.csv -o report/
    """
    from qgt.pictures.figures import verification_figure

    load_plugins(plugin)
    net = qgt.load(model)
    design = net.problem.design if claimed is None else qgt.Design.from_csv(claimed)
    problem = qgt.Problem(design, net.problem.prior, net.problem.noise)
    generator = own_generator("verify", seed, "cpu")
    with working_in(output):
        report = qgt.verify(net, problem, estimator=estimator, instances=instances, generator=generator)
        figure = BytesIO()
        verification_figure(report).savefig(figure, dpi=150, format="png")
        write_files(
            {
                output / "report.json": lambda path: _write(path, report.to_json().encode()),
                output / "figure.png": lambda path: _write(path, figure.getvalue()),
            }
        )
    brief = {key: value for key, value in report.to_dict().items() if key not in BULKY}
    how = f"The evidence is by {report.estimator.replace('_', ' ')}."
    tell(
        {"report": str(output), **brief} if as_json else None,
        f"{report.verdict} {how} Wrote {output / 'report.json'} and {output / 'figure.png'}.",
        ["pool", "item", "claimed", "recovered", "sureness"],
        *([*row[:4], f"{row.sureness:.2f}"] for row in report.mismatches[:20] if report.decisive),
    )
    raise typer.Exit(0 if report.agrees else 1)


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
