"""Verbs on networks: train, verify."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import qgt
from qgt.cli.shell import Json, Plugins, Seed, app, load_plugins, own_generator, tell, write_files
from qgt.files.folders import alone_in, check_room, working_in

if TYPE_CHECKING:
    import torch

BULKY = ("evidence", "claimed", "recovered", "pool_errors", "item_errors")  # parts of a report only its file has
CHECKPOINT_BYTES = 16  # for each weight: itself, the best so far, and Adam's two moments
HEADER_BYTES = 2**20  # for the history, the settings and the problem


@app.command()
def train(
    problem: Annotated[Path, typer.Argument(metavar="PROBLEM", help="Design, prior and noise: TOML or JSON.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="RUN", help="The folder to write the model to.")],
    level: Annotated[
        int | None, typer.Option(metavar="L", help="One of the paper's networks, 1 to 7; default 5.")
    ] = None,
    hidden: Annotated[str | None, typer.Option(metavar="W,W", help="Instead: the widths of the hidden layers.")] = None,
    architecture: Annotated[str, typer.Option(metavar="KIND", help="mlp, or residual (on fresh data).")] = "mlp",
    width: Annotated[int | None, typer.Option(metavar="W", help="Of a residual network; default 512.")] = None,
    blocks: Annotated[int | None, typer.Option(metavar="B", help="Of a residual network; default 6.")] = None,
    steps: Annotated[int | None, typer.Option(metavar="S", help="Train on fresh instances for S steps.")] = None,
    instances: Annotated[int | None, typer.Option(metavar="N", help="Of the fixed data set; default 119205.")] = None,
    batch: Annotated[int | None, typer.Option(metavar="B", help="Instances per step.")] = None,
    learning_rate: Annotated[float | None, typer.Option(metavar="R", help="Adam's.")] = None,
    epochs: Annotated[int | None, typer.Option(metavar="E", help="At most, on a fixed data set; default 300.")] = None,
    patience: Annotated[int | None, typer.Option(metavar="E", help="Epochs to wait for a better one.")] = None,
    seed: Seed = 0,
    device: Annotated[str, typer.Option(metavar="D", help="auto, cpu or cuda.")] = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Continue a training that was interrupted.")] = False,
    plugin: Plugins = None,
    as_json: Json = False,
) -> None:
    """Train a network to decode a problem, on simulated instances, and save it with its threshold.

    Ctrl-C stops early and keeps the best weights so far; --resume continues to what an unbroken run would have given.

    \b
    Examples:
      qgt train problem.toml -o runs/mlp --level 5
      qgt train problem.toml -o runs/residual --architecture residual --steps 40000 --device cuda
    """
    from qgt.decoders.neural.settings import make_config

    network = _network(architecture, level, hidden, width, blocks)
    sizes = {"steps": steps, "instances": instances, "batch": batch, "epochs": epochs, "patience": patience}
    config = make_config(
        fresh=architecture == "residual" or steps is not None, given={**sizes, "learning_rate": learning_rate}
    )
    load_plugins(plugin)
    loaded, generator = qgt.Problem.load(problem), own_generator("train", seed, device)
    weights = network.parameters(pools=loaded.pools, items=loaded.items)
    with _run_folder(output, resume, weights) as checkpoint:
        try:
            net = _train_with_progress(loaded, network, config, generator, checkpoint)
        except qgt.Interrupted as stopped:
            stopped.decoders[0].save(output)
            _tell_trained(output, stopped.decoders[0], as_json)
            raise
        net.save(output)
        checkpoint.unlink(missing_ok=True)
        _tell_trained(output, net, as_json)


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


def _network(
    architecture: str, level: int | None, hidden: str | None, width: int | None, blocks: int | None
) -> "qgt.Architecture":
    if architecture == "mlp":
        _refuse_unused(architecture, {"width": width, "blocks": blocks}, instead="level or hidden")
        return _mlp(level, hidden)
    if architecture == "residual":
        _refuse_unused(architecture, {"level": level, "hidden": hidden}, instead="width and blocks")
        default = qgt.ResidualMLP()
        return qgt.ResidualMLP(default.width if width is None else width, default.blocks if blocks is None else blocks)
    raise ValueError(f"architecture={architecture!r} is not known: give mlp or residual.")


def _refuse_unused(architecture: str, given: Mapping[str, object], *, instead: str) -> None:
    for name, value in given.items():
        if value is not None:
            raise ValueError(f"{name}={value} has no meaning for the architecture {architecture}: give {instead}.")


def _mlp(level: int | None, hidden: str | None) -> "qgt.MLP":
    if hidden is None:
        return qgt.MLP.level(5 if level is None else level)
    if level is not None:
        raise ValueError("level and hidden were both given: give one of them.")
    try:
        return qgt.MLP(tuple(int(part) for part in hidden.split(",") if part.strip()))
    except ValueError as error:
        raise ValueError(f"hidden={hidden!r} is not valid: give widths like 500,500.") from error


@contextmanager
def _run_folder(folder: Path, resume: bool, weights: int) -> Iterator[Path]:
    """The checkpoint's path in a folder that can be trained into: refused before the training, not after it.

    A folder that holds a training already is refused, unless it is to be continued; so is one that cannot be written
    to, has no room for a checkpoint, or in which another training is under way.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder}: is not a folder; give another path.")
    with working_in(folder), alone_in(folder):
        checkpoint = folder / "checkpoint.safetensors"
        if checkpoint.exists() and not resume:
            raise ValueError(f"{folder}: holds an unfinished training; add --resume, or give another folder.")
        if (folder / "model.safetensors").exists() and not checkpoint.exists():
            raise ValueError(f"{folder}: already holds a model; give another folder.")
        check_room(folder, 2 * CHECKPOINT_BYTES * weights + HEADER_BYTES)  # a new one is written beside the old
        yield checkpoint


def _train_with_progress(
    problem: "qgt.Problem",
    network: "qgt.Architecture",
    config: "qgt.TrainConfig",
    generator: "torch.Generator",
    checkpoint: Path,
) -> "qgt.NeuralDecoder":
    """Train with a bar on stderr, when that is a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    text = "loss {task.fields[loss]}  validation {task.fields[validation]}  success {task.fields[success]}"
    console = Console(stderr=True)
    with Progress(
        "epoch",
        MofNCompleteColumn(),
        BarColumn(20),
        TextColumn(text),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        task = progress.add_task("", total=config.epochs, loss="-", validation="-", success="-")

        def show(epoch: "qgt.Epoch") -> None:
            progress.update(
                task,
                completed=epoch.number,
                loss=f"{epoch.train_loss:.4f}",
                validation=f"{epoch.validation_loss:.4f}",
                success=f"{epoch.success_rate:.3f}",
            )

        return qgt.train(problem, network, config, generator=generator, on_epoch=show, checkpoint=checkpoint)


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _tell_trained(output: Path, net: "qgt.NeuralDecoder", as_json: bool) -> None:
    """Say what a training came to."""
    assert net.training is not None
    facts = _facts(net, net.training)
    tell(
        {"model": str(output), **facts, "fingerprint": net.fingerprint} if as_json else None,
        f"Wrote {output}" + (": stopped early; --resume continues." if net.training.interrupted else "."),
        ["on held-out instances", ""],
        *([name.replace("_", " "), f"{value:.4g}"] for name, value in facts.items() if value is not None),
    )


def _facts(net: "qgt.NeuralDecoder", training: "qgt.Training") -> dict[str, float | None]:
    """What to print of a training: with fresh data its steps, of which an epoch is any number."""
    items = net.problem.items
    result = qgt.Score(items, training.test)
    facts: dict[str, float | None] = {
        **{name: result.mean(name) for name in ("success_rate", "f1", "precision", "recall", "mse")},
        "threshold": net.threshold,
        **({"steps": training.steps} if training.config.instances is None else {"epochs": training.epochs}),
        "seconds": training.seconds,
        "items_covered": training.items_covered,
    }
    if training.test_unseen is not None and training.test_seen is not None:
        unseen, seen = qgt.Score(items, training.test_unseen), qgt.Score(items, training.test_seen)
        facts["unseen_supports"] = unseen.instances / result.instances
        facts["success_rate_unseen"] = unseen.success_rate if unseen.instances else None
        facts["success_rate_seen"] = seen.success_rate if seen.instances else None
    return facts
