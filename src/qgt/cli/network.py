"""The verb on trained networks: verify. Training has its own module."""

from io import BytesIO
from pathlib import Path
from typing import Annotated

import typer

import qgt
from qgt.cli.shell import Json, Plugins, Seed, app, load_plugins, own_generator, tell, write_files
from qgt.files.store import working_in

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

    Exit code 1 says that some entries contradict the claim, or that there is no evidence either way.

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
