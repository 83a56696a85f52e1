"""Verbs that turn counts into calls, and check proofs of them: decode, check."""

import csv
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import qgt
from qgt.cli.shell import Json, Output, Plugins, app, check_outputs, csv_writer, load_plugins, tell, write_files

if TYPE_CHECKING:
    import torch

# Typed out, so that help need not import them.
DECODER_NAMES = (
    "amp, certified, exact, exhaustive (up to 20 items), gamp, linear_program, maximum_neighborhood, prevalence or a "
    "plugin's file:Class; default certified."
)
Counts = Annotated[Path, typer.Argument(metavar="COUNTS", help="CSV: one row per instance, one column per pool.")]
TOLD = 5  # instances that are told in words on the screen; the report has all


@app.command()
def decode(
    counts: Counts,
    output: Output,
    problem: Annotated[
        Path | None, typer.Option(metavar="PROBLEM", help="Design, prior and noise: TOML or JSON.")
    ] = None,
    decoder: Annotated[str | None, typer.Option(metavar="NAME", help=DECODER_NAMES)] = None,
    model: Annotated[Path | None, typer.Option(metavar="RUN", help="Instead: a network from 'qgt train'.")] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="CSV: each instance's verdict, alternatives and retests.")
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the proofs, for 'qgt check'.")
    ] = None,
    defectives: Annotated[int | None, typer.Option(metavar="K", help="Defectives per instance, if known.")] = None,
    odds: Annotated[
        float | None, typer.Option(metavar="R", help="List answers at least 1/R as probable; default 100.")
    ] = None,
    time_limit: Annotated[
        float | None, typer.Option(metavar="S", help="Seconds per instance, for certified and exact.")
    ] = None,
    plugin: Plugins = None,
    as_json: Json = False,
) -> None:
    """Decode counts: call each item of each instance defective (1) or not (0), and say how far to trust it.

    \b
    proved      the most probable answer, proved, and no other comes near it
    confident   the most probable answer, proved, with a confidence of 90 % or more
    unsure      there are alternatives: the items on which they differ are named, to be retested
    impossible  no x explains the counts: a count or the design is wrong; the calls are a best effort

    \b
    Examples:
      qgt decode counts.csv --problem problem.toml -o calls.csv --report report.csv
      qgt decode counts.csv --problem problem.toml --decoder amp -o calls.csv
      qgt decode counts.csv --model runs/mlp -o calls.csv
    """
    from qgt.lab.sheets import read_counts

    outputs = [path for path in (output, report, certificate) if path is not None]
    check_outputs(outputs, inputs=[counts, *([problem] if problem else []), *(plugin or ())])
    load_plugins(plugin)
    name, chosen, loaded = _decoder(problem, decoder, model)
    chosen = _with_options(name, chosen, odds, time_limit, keep_proofs=certificate is not None)
    y, names = read_counts(counts, loaded.design, f"the design of {problem or model}")
    result = _decode(chosen, loaded, y, defectives)
    rows = _accounts(loaded, y, names, result)
    files = {output: csv_writer(result.x, names, loaded.design.item_names)}
    if report is not None:
        files[report] = partial(_write_report, rows=rows)
    if certificate is not None:
        files[certificate] = partial(qgt.save_certificate, problem=loaded, result=result)
    write_files(files)
    _tell_decoded(name, loaded, result, rows, outputs, as_json)


@app.command()
def check(
    counts: Counts,
    problem: Annotated[Path, typer.Option(metavar="PROBLEM", help="Design, prior and noise: TOML or JSON.")],
    certificate: Annotated[Path, typer.Option(metavar="FILE", help="Proofs from 'qgt decode --certificate'.")],
    odds: Annotated[
        float, typer.Option(metavar="R", help="Also that all answers at least 1/R as probable are listed.")
    ] = 1.0,
    plugin: Plugins = None,
    as_json: Json = False,
) -> None:
    """Check proofs without the solver that made them: plain sums over the counts, the design and the proofs.

    Exit code 1 says that some instance is not proved.

    \b
    Example:
      qgt check counts.csv --problem problem.toml --certificate proofs.safetensors
    """
    from qgt.lab.sheets import read_counts

    load_plugins(plugin)
    loaded = qgt.Problem.load(problem)
    y, names = read_counts(counts, loaded.design, f"the design of {problem}")
    result = qgt.load_certificate(certificate, loaded)
    if len(result.x) != len(y):
        raise ValueError(f"{certificate}: is for {len(result.x)} instances, but {counts} has {len(y)}; match them.")
    proved = qgt.check_certificate(loaded, y, result, odds=odds).tolist()
    open_ = [name for name, ok in zip(names or _numbers(len(y)), proved, strict=True) if not ok]
    facts = {"instances": len(y), "proved": sum(proved), "not_proved": open_}
    rows = [[name, qgt.Status(int(result.status[i])).meaning] for i, name in enumerate(names or _numbers(len(y)))]
    tell(
        facts if as_json else None,
        f"{sum(proved)} of {len(y)} instances are proved"
        + (" to be as they say." if not open_ else "; these are not:"),
        ["instance", "its status says"],
        *(row for row, ok in zip(rows, proved, strict=True) if not ok),
    )
    if open_:
        raise typer.Exit(1)


def _decoder(problem: Path | None, name: str | None, model: Path | None) -> tuple[str, "qgt.Decoder", "qgt.Problem"]:
    """The decoder asked for and the problem to bind it to: by name for a problem file, or a saved network."""
    if model is not None:
        if name is not None:
            raise ValueError("decoder and model were both given: give one of them.")
        net = qgt.load(model)
        return "neural", net, net.problem if problem is None else qgt.Problem.load(problem)
    if problem is None:
        raise ValueError("give --problem, or --model; see 'qgt decode --help'.")
    name = name or "certified"
    from qgt.decoders.registry import make_decoder

    return name, make_decoder(name), qgt.Problem.load(problem)


def _with_options(
    name: str, decoder: "qgt.Decoder", odds: float | None, time_limit: float | None, *, keep_proofs: bool
) -> "qgt.Decoder":
    """The decoder with the options that only some have."""
    if name == "certified":
        return qgt.Certified(100.0 if odds is None else odds, time_limit, certificates=keep_proofs)
    if odds is not None or keep_proofs:
        option = "certificate" if keep_proofs else f"odds={odds}"
        raise ValueError(f"{option} has no meaning for {name}: it is for --decoder certified.")
    if time_limit is not None:
        if name != "exact":
            raise ValueError(f"time_limit={time_limit} has no meaning for {name}: it is for certified and exact.")
        return qgt.ExactMAP(time_limit=time_limit)
    return decoder


def _decode(decoder: "qgt.Decoder", problem: "qgt.Problem", y: "torch.Tensor", defectives: int | None) -> "qgt.Decoded":
    from rich.console import Console

    bound = decoder.bind(problem)
    with Console(stderr=True).status(f"decoding {len(y):,} instances"):  # draws nothing where it is no terminal
        if defectives is None:
            return bound(y)
        if not isinstance(bound, qgt.BoundDecoder):  # the contract promises no more than bound(y)
            raise ValueError(f"defectives={defectives} was given, but this decoder cannot use it: leave it out.")
        return bound(y, defectives=defectives)


def _numbers(instances: int) -> list[str]:
    return [str(number) for number in range(1, instances + 1)]


def _accounts(
    problem: "qgt.Problem", y: "torch.Tensor", names: tuple[str, ...] | None, result: "qgt.Decoded"
) -> list[dict[str, Any]]:
    """Every instance as plain data and in words."""
    from qgt.lab import wording

    rows = []
    words = wording.verdicts(result)
    for i, name in enumerate(names or _numbers(len(y))):
        others = wording.alternatives(problem, result, i)
        known = float(result.info["confidence"][i]) if "confidence" in result.info else float("nan")
        rows.append(
            {
                "instance": name,
                "verdict": words[i],
                "status": qgt.Status(int(result.status[i])).name,
                "confidence": None if known != known else round(known, 6),
                "defective": [problem.design.item_names[j] for j in result.x[i].nonzero().flatten().tolist()],
                "off": [[one.pool, one.counted, one.expected] for one in wording.residuals(problem, y[i], result.x[i])],
                "alternatives": [[round(one.probability, 6), one.change] for one in others],
                "retest": wording.to_retest(problem, result, i),
                "words": wording.in_words(problem, y[i], result, i),
            }
        )
    return rows


def _write_report(path: Path, rows: list[dict[str, Any]]) -> None:
    """One row per instance; lists in one cell, parts separated by semicolons."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(rows[0])
        for row in rows:
            writer.writerow([_cell(key, value) for key, value in row.items()])


def _cell(key: str, value: Any) -> str:
    if key == "off":
        return "; ".join(f"{pool}: counted {counted:g}, expected {expected:g}" for pool, counted, expected in value)
    if key == "alternatives":
        return "; ".join(f"{probability:.4f}: {change}" for probability, change in value)
    return "; ".join(value) if isinstance(value, list) else "" if value is None else str(value)


def _tell_decoded(
    name: str,
    problem: "qgt.Problem",
    result: "qgt.Decoded",
    rows: list[dict[str, Any]],
    outputs: list[Path],
    as_json: bool,
) -> None:
    """How many of each verdict and status, and the first instances in words, those to be acted on first."""
    numbers = {status: int((result.status == status).sum()) for status in qgt.Status}
    mean = int(result.x.sum()) / len(result.x)
    facts = {"calls": str(outputs[0]), "decoder": name, "instances": len(result.x), "mean_defectives_called": mean}
    by_name = {status.name: number for status, number in numbers.items()}
    if as_json:
        return tell({**facts, "status": by_name, "fingerprint": problem.fingerprint, "results": rows}, "", [])
    tell(
        None,
        f"Wrote {', '.join(map(str, outputs))}: {mean:.2f} defectives called per instance, on average.",
        ["status", "instances", "meaning"],
        *([status.name, number, status.meaning] for status, number in numbers.items() if number),
    )
    if "confidence" in result.info:
        _tell_words(rows)


def _tell_words(rows: list[dict[str, Any]]) -> None:
    """The verdicts, and some instances in words: the doubtful ones first."""
    words = ("impossible", "unsure", "confident", "proved")
    count = {word: sum(row["verdict"] == word for row in rows) for word in words}
    tell(None, "", ["verdict", "instances"], *([word, count[word]] for word in reversed(words) if count[word]))
    order = sorted(rows, key=lambda row: words.index(row["verdict"]))  # stable: the file's order within a verdict
    for row in order[:TOLD]:
        tell(None, f"\nInstance {row['instance']}, {row['verdict']}: {row['words']}", [])
    if len(rows) > TOLD:
        tell(None, f"\nThe {len(rows) - TOLD} other instances: --report FILE.csv or --json tells them too.", [])
