"""Verbs on files of designs, counts and calls: check, verify; design, simulate, score; and limits."""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import qgt
from qgt.cli.shell import (
    CountsFile,
    Json,
    Output,
    Plugins,
    ProblemFile,
    Seed,
    app,
    check_files,
    check_new,
    csv_writer,
    load_plugins,
    own_generator,
    planned_samples,
    problem_file,
    read_sheet,
    share_option,
    tell,
    write_files,
)
from qgt.files.store import working_in

if TYPE_CHECKING:
    from qgt.lab.answers.checking import Checked


# The verbs that check: `check` holds proofs against counts, `verify` reads the design back from a trained network.


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
                output / "report.json": lambda path: path.write_bytes(report.to_json().encode()),
                output / "figure.png": lambda path: path.write_bytes(figure.getvalue()),
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


# The verbs that make and score files.


@app.command()
def design(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="One of the kinds above.")],
    pools: Annotated[int, typer.Option(metavar="M", help="The number of pools.")],
    items: Annotated[int, typer.Option(metavar="N", help="The number of items.")],
    output: Output,
    probability: Annotated[float | None, share_option("probability", "P", "For bernoulli, if not 0.5.")] = None,
    weight: Annotated[int | None, typer.Option(metavar="W", help="For column_regular and doubly_regular.")] = None,
    seed: Seed = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it is there already.")] = False,
    as_json: Json = False,
) -> None:
    """Make a design: which items go into which pools.

    \b
    bernoulli        puts each item into each pool with probability P
    column_regular   puts each item into W pools; pool sizes differ by at most one
    doubly_regular   puts each item into W pools; all pools have the same size
    steiner_triples  puts each item into 3 pools; two items share at most one
    kirkman_triples  the same; pool sizes differ by at most one

    The file is a table of 0s and 1s or, for a large design with few items a pool, a line per pool with its items.

    \b
    Example:
      qgt design column_regular --pools 35 --items 100 --weight 8 -o design.csv
    """
    check_files([output])
    check_new(output, force)
    from qgt.model.problem import draws  # not before: a mistyped name need not wait for torch

    given = {k: v for k, v in {"probability": probability, "weight": weight}.items() if v is not None}
    # Made as a problem file's recipe would, so that the same numbers and seed give the same design.
    drawn = {"seed": seed} if draws(kind) else {}
    recipe = {"kind": kind, "pools": pools, "items": items, **drawn, **given}
    made = qgt.Problem.from_spec({"design": recipe, "prior": {"kind": "bernoulli", "rate": 0.0}}).design
    write_files({output: made.write_csv})
    facts = {"pools": made.pools, "items": made.items, "transfers": made.transfers}
    parts = {"pool_sizes": made.pool_sizes, "item_degrees": made.item_degrees}
    ends = {name: [int(sizes.min()), int(sizes.max())] for name, sizes in parts.items()}
    tell(
        {"design": str(output), "kind": kind, **drawn, **facts, **ends} if as_json else None,
        f"Wrote {output}, a {kind} design" + (": a line per pool with its items." if made.sparse else "."),
        [name.replace("_", " ") for name in [*facts, *ends]],
        [*facts.values(), *(f"{low}-{high}" for low, high in ends.values())],
    )


@app.command()
def simulate(
    problem: Annotated[Path, typer.Argument(metavar="PROBLEM", help="Design, prior and noise: TOML or JSON.")],
    instances: Annotated[int, typer.Option(metavar="N", min=1, help="How many instances to draw.")],
    output: Output,
    truth: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the defective items, amounts, copies or categories.")
    ] = None,
    plugin: Plugins = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Draw instances of a problem and write their counts, one row per instance.

    Where items are in categories, each pool has a column for each category, such as 'P1 variant A'.

    \b
    A problem file, in TOML:
      design = { file = "design.csv" }
      prior = { kind = "bernoulli", rate = 0.06 }
      noise = { kind = "sparse_integer", rate = 0.1, bound = 1 }

    \b
    Example:
      qgt simulate problem.toml --instances 1000 -o counts.csv --truth truth.csv
    """
    check_files([output, truth], inputs=[problem, *(plugin or ())])
    load_plugins(plugin)
    loaded = qgt.Problem.load(problem)
    x, y = loaded.simulate(instances, generator=own_generator("simulate", seed, "cpu"))
    cells = None if loaded.values is None else loaded.values.cells
    truths = {} if truth is None else {truth: csv_writer(x, None, loaded.design.item_names, cells)}
    write_files({output: csv_writer(y.flatten(1), None, loaded.report_names), **truths})
    facts = {"instances": instances, "pools": loaded.pools, "items": loaded.items}
    mean = int((x > 0).sum()) / instances
    paths = {"counts": str(output), "truth": truth and str(truth), "seed": seed}
    tell(
        {**paths, **facts, "mean_defectives": mean, "fingerprint": loaded.fingerprint} if as_json else None,
        f"Wrote {output}" + (f" and {truth}." if truth else "."),
        [*facts, "mean defectives"],
        [*facts.values(), f"{mean:.2f}"],
    )


@app.command()
def score(
    truth: Annotated[
        Path, typer.Argument(metavar="TRUTH", help="CSV of 0s and 1s, or of amounts, one row per instance.")
    ],
    calls: Annotated[Path, typer.Argument(metavar="CALLS", help="CSV of 0s and 1s, the same instances and items.")],
    problem: Annotated[
        Path | None, typer.Option(metavar="PROBLEM", help="Needed where items have copies or categories.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare calls with the truth: five metrics, each with a 95 % interval.

    Calls with empty cells (undecided items) are refused: leave those instances out of both files. Where the truth has
    amounts, as for loads, an item with an amount is positive. Where items have copies or categories, --problem says
    which; an item in the wrong category is both a false positive and a false negative.

    \b
    Examples:
      qgt score truth.csv calls.csv
      qgt score truth.csv answers.csv --problem problem.toml
    """
    check_files([], inputs=[truth, calls, problem])
    from qgt.lab.answers.outputs import refuse_undecided
    from qgt.lab.sheets.counts import read_pair
    from qgt.trust.metrics import METRICS

    refuse_undecided(calls)
    values = None if problem is None else qgt.Problem.load(problem_file(problem)).values
    x, called = read_pair(truth, calls, None if values is None else values.cells)
    items = x.shape[1]
    result = qgt.score(x, called) if values is None else qgt.score(values.to_parts(x), values.to_parts(called))
    each = {name: {"mean": result.mean(name), **result.interval(name)._asdict()} for name in METRICS}
    tell(
        {"instances": result.instances, "items": items, **each} if as_json else None,
        f"{calls} against {truth}: {result.instances} instances of {items} items.",
        ["metric", "mean", "95 % from", "to"],
        *([name.replace("_", " "), *(f"{value:.4f}" for value in one.values())] for name, one in each.items()),
    )


@app.command()
def limits(
    items: Annotated[int, typer.Option(metavar="N", help="The number of items.")],
    rate: Annotated[float, share_option("rate", "R", "Each item's chance of being defective: 0.02 or 2%.")],
    noise_rate: Annotated[float, share_option("noise-rate", "S", "Each count's probability of being noisy.")] = 0.0,
    noise_bound: Annotated[int, typer.Option(metavar="D", help="The largest error of a noisy count.")] = 1,
    as_json: Json = False,
) -> None:
    """Say how many pools a problem needs at least, by four bounds, each with what it assumes.

    \b
    Example:
      qgt limits --items 100 --rate 0.06 --noise-rate 0.1
    """
    from qgt.theory.limits import limits as compute

    found = compute(items=items, rate=rate, noise=qgt.SparseInteger(noise_rate, noise_bound))
    tell(
        {limit.name: {"pools": limit.pools, "assumes": limit.assumes} for limit in found} if as_json else None,
        f"{items} items, {100 * rate:g} % defective, {100 * noise_rate:g} % of counts noisy by up to {noise_bound}.",
        ["limit", "pools", "assumes"],
        *([limit.name, f"{limit.pools:.1f}", limit.assumes] for limit in found),
    )
