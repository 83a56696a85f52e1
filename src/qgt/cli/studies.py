"""Verbs on studies: bench, figure, reproduce."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import qgt
from qgt.cli.shell import (
    Json,
    Plugins,
    app,
    bar_or_lines,
    check_outputs,
    chosen_device,
    load_plugins,
    share_done,
    tell,
    write_files,
)

if TYPE_CHECKING:
    from qgt.study import StudyProgress, StudyResult
    from qgt.study.standard import StandardRow

StudyFile = Annotated[Path, typer.Argument(metavar="STUDY", help="Problem, grid and decoders: TOML or JSON.")]
Scheduler = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Train and decode on a Dask cluster: tls://HOST:PORT; see docs/cluster.md."),
]
Device = Annotated[
    str, typer.Option(metavar="D", help="auto, cpu or cuda (in one process; with --scheduler: that of its workers).")
]
OF_POLICIES = ("tests", "rounds")  # what is drawn of policies: tests over the prevalence, and over rounds
FIGURE_FORMATS = (".svg", ".png", ".pdf")


STANDARD = "standard"  # in the place of a study's file: the standard benchmark


@app.command()
def bench(
    study: Annotated[
        Path, typer.Argument(metavar="STUDY", help="Problem, grid and decoders: TOML or JSON; or: standard.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="DB", help="The database; default: STUDY with .db.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Processes to decode in; default: one per core.")
    ] = None,
    device: Device = "cpu",
    scheduler: Scheduler = None,
    instances: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Instances, instead of the study's number; a decoder keeps a smaller one."
        ),
    ] = None,
    counts: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write all counts as JSON, small enough to commit.")
    ] = None,
    decoder: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Of 'standard': only this one, or a plugin's file:Class; repeatable."),
    ] = None,
    seconds: Annotated[
        float, typer.Option(metavar="S", min=0.1, help="Of 'standard': for each decoder on each problem.")
    ] = 60.0,
    plugin: Plugins = None,
    as_json: Json = False,
) -> None:
    """Run a study: every decoder on every problem of a grid, into a database.

    'qgt bench standard' runs the standard benchmark instead: fixed problems with fixed instances, by which decoders of
    different papers can be compared; see docs/standard.md. Its -o FILE is JSON.

    Stop it at any moment: what it has counted stays, and running it again goes on from there. All decoders decode the
    same instances, so each is compared with the limit on the instances that both decoded: how far its success rate
    lies below, and how probable so uneven a split would be by chance (the exact McNemar test's p).

    \b
    Example:
      qgt bench examples/pools.toml -o pools.db --workers 4
      qgt bench standard --decoder gamp -o standard.json
    """
    if str(study) == STANDARD:
        return _standard(output or Path("standard.json"), decoder or [], instances, seconds, plugin, as_json)
    from qgt.study import StudyCounts

    if decoder:
        raise ValueError(f"decoder={decoder[0]} is for 'qgt bench standard': the study's file names its decoders.")

    db = study.with_suffix(".db") if output is None else output
    check_outputs([db, *([] if counts is None else [counts])], inputs=[study, *(plugin or ())])
    load_plugins(plugin)
    chosen = _device(device, scheduler)
    planned = qgt.Study.load(study)
    planned = planned if instances is None else planned.with_instances(instances)
    with _progress_bar() as show:
        qgt.run_study(planned, db, workers=workers or _cores(), device=chosen, scheduler=scheduler, on_progress=show)
    found = qgt.study_results(planned, db)
    if counts is not None:
        write_files({counts: StudyCounts.of(planned, db).save})
    told = {"study": str(study), "database": str(db), "results": [_plain(one, found) for one in found]}
    tell(told if as_json else None, f"{db} has all of {study}.", *_table(found, planned.metric))


def _standard(
    output: Path,
    names: list[str],
    instances: int | None,
    seconds: float,
    plugin: list[Path] | None,
    as_json: bool,
) -> None:
    """Run the standard benchmark, and tell what each decoder reached; rows that the file has are not measured again."""
    from qgt.decoders.registry import make_decoder
    from qgt.files.plugins import loaded_plugins
    from qgt.study.standard import FAILED, StandardResults, run_standard, standard_decoders, standard_problems

    check_outputs([output], inputs=[*(plugin or ())])
    load_plugins(plugin)
    usual = standard_decoders()
    decoders = {name: usual.get(name) or make_decoder(name) for name in names} or usual
    plugins = {one.name: one.sha256 for one in loaded_plugins()}
    sources = {name: plugins.get(name.partition(":")[0], "") for name in decoders}
    rows = list(StandardResults.load(output).rows) if output.exists() else []
    total = len(decoders) * len(standard_problems())

    with share_done("decoding") as show:

        def keep(row: "StandardRow") -> None:
            rows[:] = [*(one for one in rows if (one.problem, one.decoder) != (row.problem, row.decoder)), row]
            StandardResults(rows).save(output)
            show(len(rows), max(total, len(rows)))

        found = run_standard(
            decoders, instances=instances, seconds=seconds, done=tuple(rows), sources=sources, on_row=keep
        )
    table = [_standard_cells(row) for row in found if row.instances or names or row.refused.startswith(FAILED)]
    header = ["problem", "decoder", "right", "95 % interval", "instances", "CPU ms each"]
    told = {"results": str(output), "rows": [asdict(row) for row in found]}
    tell(told if as_json else None, f"{output} has the standard benchmark.", header, *table)


def _standard_cells(row: "StandardRow") -> list[object]:
    """A decoder on a standard problem, for the table; without instances, why it was not measured."""
    if not row.instances:
        return [row.problem, row.decoder, row.refused, "", 0, ""]
    interval = f"{row.interval.low:.3f}-{row.interval.high:.3f}"
    return [row.problem, row.decoder, f"{row.success:.3f}", interval, row.instances, f"{row.milliseconds:.3g}"]


@app.command()
def figure(
    study: StudyFile,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The figure: .svg, .png or .pdf.")],
    db: Annotated[Path | None, typer.Option(metavar="DB", help="The database; default: STUDY with .db.")] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Also write all results as a table.")] = None,
    metric: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="success_rate, f1, precision, recall, mse, all, tests, rounds."),
    ] = None,
    plugin: Plugins = None,
    as_json: Json = False,
) -> None:
    """Draw what a study has found so far: a metric against the grid's first key, with 95 % bands.

    For policies it plots the number of tests: over the prevalence (tests), or over their rounds (rounds).

    \b
    Example:
      qgt figure examples/pools.toml --db pools.db -o pools.svg --csv pools.csv
    """
    from qgt.pictures.figures import curves_figure, policies_figure, save_figure
    from qgt.study import write_csv
    from qgt.trust.metrics import METRICS

    source = study.with_suffix(".db") if db is None else db
    check_outputs([output, *([] if csv is None else [csv])], inputs=[study, source, *(plugin or ())])
    _refuse_figure(output, metric)
    load_plugins(plugin)
    planned = qgt.Study.load(study)
    found = qgt.study_results(planned, source)
    if metric in OF_POLICIES:
        drawn = policies_figure(planned, found, metric)
    else:
        drawn = curves_figure(found, METRICS if metric == "all" else (metric or planned.metric,))
    tables: dict[Path, Callable[[Path], None]] = {} if csv is None else {csv: lambda path: write_csv(found, path)}
    write_files({output: lambda path: save_figure(drawn, path, output.suffix[1:].lower()), **tables})
    missing = sum(not one.finished for one in found)
    facts = {"figure": str(output), "csv": csv and str(csv), "results": len(found), "unfinished": missing}
    hint = f" {missing} of {len(found)} results are unfinished: 'qgt bench {study}' goes on." if missing else ""
    tell(
        {**facts, "instances": sum(one.score.instances for one in found)} if as_json else None,
        f"Wrote {output}" + (f" and {csv}." if csv else ".") + hint,
        [],
    )


def _refuse_figure(output: Path, metric: str | None) -> None:
    """Refuse a figure that cannot be drawn, before anything is read."""
    from qgt.trust.metrics import METRICS

    if output.suffix.lower() not in FIGURE_FORMATS:
        endings = ", ".join(FIGURE_FORMATS)
        raise ValueError(f"{output}: is not a figure that can be drawn; give a name that ends in {endings}.")
    if metric not in (None, "all", *METRICS, *OF_POLICIES):
        raise ValueError(f"metric={metric!r} is not known: give one of {', '.join((*METRICS, *OF_POLICIES))}, or all.")


@app.command()
def reproduce(
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Figures, tables and all counts.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer points and less training: minutes on two cores.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Processes to decode in; default: one per core.")
    ] = None,
    device: Device = "auto",
    scheduler: Scheduler = None,
    redraw: Annotated[bool, typer.Option("--redraw", help="Only draw again, from FOLDER/counts.json.")] = False,
    as_json: Json = False,
) -> None:
    """Run the paper's experiments: its network, its three AMPs, other decoders, and the limit of all.

    Two figures (five metrics against the number of pools, and against the share of noisy counts) and the table of
    network complexity, beside the paper's numbers. Stop it at any moment: running it again goes on from there. The
    full run is meant for a GPU and takes hours without one.

    \b
    Example:
      qgt reproduce -o out/paper --quick
    """
    from qgt import paper

    if output.exists() and not output.is_dir():
        raise ValueError(f"{output}: is not a folder; give the name of one.")
    if redraw:
        counts = paper.redraw(output)
    else:
        chosen = _device(device, scheduler)
        with _progress_bar("steps") as show:
            scale = paper.QUICK if quick else paper.FULL
            counts = paper.reproduce(
                output, scale, workers=workers or _cores(), device=chosen, scheduler=scheduler, on_progress=show
            )
    labels = {one.decoder: one.label for one in counts.vs_pools}
    needs = {labels[name]: number for name, number in paper.pools_needed(counts).items()}
    facts = paper.run_facts(counts)
    told = {"folder": str(output), "run": facts, "pools_needed": needs, "seconds": counts.seconds}
    tell(
        told if as_json else None,
        f"{output} has counts.json, figures and tables.\n"
        + "\n".join(f"{name}: {fact}" for name, fact in facts.items()),
        ["decoder", "pools for 99 % success"],
        *([name, number] for name, number in needs.items()),
    )


def _device(device: str, scheduler: str | None) -> str:
    """The device to use: of this machine, or of a cluster's workers, which say themselves where they have none."""
    if scheduler is None:
        return chosen_device(device)
    return "cpu" if device == "auto" else device


def _cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _progress_bar(unit: str = "batches") -> Iterator[Callable[["StudyProgress"], None]]:
    """What is being done, on stderr: on a terminal one bar for each study in turn, elsewhere a line now and then."""
    from rich.markup import escape
    from rich.progress import TextColumn

    last: list[StudyProgress] = []
    with bar_or_lines(lambda: _line(last, unit), unit, TextColumn("{task.description}")) as bar:
        whole = bar.task_ids[0]

        def show(progress: "StudyProgress") -> None:
            last[:] = [progress]
            if bar.tasks[0].total != progress.total:  # earlier runs do not show how fast this one is
                bar.reset(whole, completed=progress.done, total=progress.total)
            bar.update(whole, completed=progress.done, description=escape(progress.doing))

        yield show


def _line(last: "list[StudyProgress]", unit: str) -> str:
    """How far a study is, in one line."""
    if not last:
        return f"qgt: starting; no {unit} done yet"
    return f"qgt: {last[0].done} of {last[0].total} {unit} done: {last[0].doing}"


def _plain(one: "StudyResult", found: list["StudyResult"]) -> dict[str, object]:
    """A result for JSON, which has no NaN."""
    from qgt.study import paired_with_limit
    from qgt.trust.metrics import METRICS

    each = {name: {"mean": one.score.mean(name), **one.score.interval(name)._asdict()} for name in METRICS}
    both = paired_with_limit(one, found)
    against = None if both is None else {"instances": both.instances, **both.difference()._asdict()}
    return {
        "point": dict(one.point),
        "decoder": one.decoder,
        "label": one.label,
        "designs": one.designs,
        "instances": one.score.instances,
        **each,
        "status": dict(one.statuses),
        "proved": one.proved,
        "microseconds_per_instance": one.microseconds,
        "costs": None if one.costs is None else asdict(one.costs),
        "error_of_A_percent": {read.estimator: read.error_percent for read in one.read_back},
        "against_limit": against and both and {**against, "p_value": both.p_value},
    }


def _table(found: list["StudyResult"], metric: str) -> tuple[list[str], *tuple[list[object], ...]]:
    """The header and the rows of what is printed at the end."""
    from qgt.study import paired_with_limit

    words = [key.removeprefix("design.").replace(".", " ") for key in found[0].point]
    header = [*words, "decoder", "instances", metric.replace("_", " "), "95 %", "proved", "each"]
    limits, policies = any(one.limit for one in found), any(one.costs for one in found)
    rows: list[list[object]] = []
    for one in found:
        low, high = one.score.interval(metric)
        numbers = [f"{one.score.mean(metric):.4f}", f"{low:.3f}-{high:.3f}", f"{100 * one.proved:.1f} %"]
        cells = [*one.point.values(), one.label, one.score.instances, *numbers, _time(one.microseconds)]
        both = paired_with_limit(one, found)
        against = ["", ""] if both is None else [f"{100 * both.difference().mean:+.1f}", _p_value(both.p_value)]
        rows.append([*cells, *(against if limits else [])])
        if policies:
            rows[-1] += _spent(one)
    against_limits = ["success against the limit, points", "p"] if limits else []
    return [*header, *against_limits, *(["tests", "rounds", "transfers"] if policies else [])], *rows


def _spent(one: "StudyResult") -> list[object]:
    """What a policy spends on an instance; a decoder spends nothing."""
    if one.costs is None:
        return ["", "", ""]
    tests = f"{one.costs.mean_tests:.2f} +- {one.costs.half_interval:.2f}"
    return [tests, f"{one.costs.mean_rounds:.2f}", f"{one.costs.mean_transfers:.0f}"]


def _p_value(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _time(microseconds: float) -> str:
    return f"{microseconds:.1f} us" if microseconds < 1000 else f"{microseconds / 1000:.1f} ms"
