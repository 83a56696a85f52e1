"""Verbs on networks: train, verify."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import qgt
from qgt.cli.shell import Json, Plugins, Seed, app, load_plugins, own_generator, tell, write_files

if TYPE_CHECKING:
    import torch

BULKY = ("evidence", "claimed", "recovered", "pool_errors", "item_errors")  # parts of a report only its file has


@app.command()
def train(
    problem: Annotated[Path, typer.Argument(metavar="PROBLEM", help="Design, prior and noise: TOML or JSON.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="RUN", help="The folder to write the model to.")],
    level: Annotated[
        int | None, typer.Option(metavar="L", help="One of the paper's networks, 1 to 7; default 5.")
    ] = None,
    hidden: Annotated[str | None, typer.Option(metavar="W,W", help="Instead: the widths of the hidden layers.")] = None,
    architecture: Annotated[str, typer.Option(metavar="KIND", help="mlp, or residual (on fresh data).")] = "mlp",
    width: Annotated[int, typer.Option(metavar="W", help="Of a residual network.")] = 512,
    blocks: Annotated[int, typer.Option(metavar="B", help="Of a residual network.")] = 6,
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
    from qgt.decoders.neural.network import ARCHITECTURES
    from qgt.learning.run import make_config

    if architecture not in ARCHITECTURES:
        raise ValueError(f"architecture={architecture!r} is not known: give one of {', '.join(ARCHITECTURES)}.")
    network = _network(architecture, level, hidden, width, blocks)
    config = make_config(
        fresh=architecture == "residual" or steps is not None,
        given={
            "steps": steps,
            "instances": instances,
            "batch": batch,
            "learning_rate": learning_rate,
            "epochs": epochs,
            "patience": patience,
        },
    )
    load_plugins(plugin)
    loaded = qgt.Problem.load(problem)
    checkpoint = _check_run(output, resume)
    net = _train_with_progress(loaded, network, config, own_generator("train", seed, device), checkpoint)
    net.save(output)
    if not net.training["interrupted"]:
        checkpoint.unlink(missing_ok=True)
    facts = _training_facts(net)
    tell(
        {"model": str(output), **facts, "fingerprint": loaded.fingerprint} if as_json else None,
        f"Wrote {output}" + (": stopped early; --resume continues." if net.training["interrupted"] else "."),
        ["on held-out instances", ""],
        *([name.replace("_", " "), f"{value:.4g}"] for name, value in facts.items() if value is not None),
    )
    if net.training["interrupted"]:
        raise KeyboardInterrupt


@app.command()
def verify(
    model: Annotated[Path, typer.Argument(metavar="RUN", help="A network from 'qgt train'.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="For report.json and figure.png.")],
    claimed: Annotated[Path | None, typer.Option(metavar="DESIGN", help="The design to check, if not its own.")] = None,
    estimator: Annotated[
        str, typer.Option(metavar="NAME", help="least_squares, mean_jacobian or regression.")
    ] = "least_squares",
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
    report = qgt.verify(net, problem, estimator=estimator, instances=instances, generator=generator)
    figure = verification_figure(report)
    write_files(
        {
            output / "report.json": lambda path: _write_text(path, report.to_json()),
            output / "figure.png": lambda path: figure.savefig(path, dpi=150, format="png"),
        }
    )
    brief = {key: value for key, value in report.to_dict().items() if key not in BULKY}
    tell(
        {"report": str(output), **brief} if as_json else None,
        f"{report.verdict} Wrote {output / 'report.json'} and {output / 'figure.png'}.",
        ["pool", "item", "claimed", "recovered", "sureness"],
        *([*row[:4], f"{row.sureness:.2f}"] for row in report.mismatches[:20]),
    )
    raise typer.Exit(0 if report.agrees else 1)


def _network(architecture: str, level: int | None, hidden: str | None, width: int, blocks: int) -> "qgt.Architecture":
    if architecture == "residual":
        if level is not None or hidden is not None:
            raise ValueError("level and hidden are for the mlp: a residual network takes width and blocks.")
        return qgt.ResidualMLP(width, blocks)
    if hidden is None:
        return qgt.MLP.level(5 if level is None else level)
    if level is not None:
        raise ValueError("level and hidden were both given: give one of them.")
    try:
        return qgt.MLP(tuple(int(part) for part in hidden.split(",") if part.strip()))
    except ValueError as error:
        raise ValueError(f"hidden={hidden!r} is not valid: give widths like 500,500.") from error


def _check_run(folder: Path, resume: bool) -> Path:
    """The checkpoint's path in a run's folder; refuse to train over what is there unless it is to be continued."""
    checkpoint = folder / "checkpoint.safetensors"
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder}: is not a folder; give another path.")
    if checkpoint.exists() and not resume:
        raise ValueError(f"{folder}: holds an unfinished training; add --resume, or give another folder.")
    if (folder / "model.safetensors").exists() and not checkpoint.exists():
        raise ValueError(f"{folder}: already holds a model; give another folder.")
    return checkpoint


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


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _training_facts(net: "qgt.NeuralDecoder") -> dict[str, float | None]:
    """What to print of a finished training."""
    training = net.training
    result = qgt.Score.from_plain(training["test"])
    history = training["history"]
    facts: dict[str, float | None] = {
        **{name: result.mean(name) for name in ("success_rate", "f1", "precision", "recall", "mse")},
        "threshold": net.threshold,
        "epochs": len(history),
        "seconds": sum(row["seconds"] for row in history),
        "items_covered": training["items_covered"],
    }
    if "test_unseen" in training:
        unseen, seen = (qgt.Score.from_plain(training[key]) for key in ("test_unseen", "test_seen"))
        facts["unseen_supports"] = unseen.instances / result.instances
        facts["success_rate_unseen"] = unseen.success_rate if unseen.instances else None
        facts["success_rate_seen"] = seen.success_rate if seen.instances else None
    return facts
