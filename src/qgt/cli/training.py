"""The verb that trains networks."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import qgt
from qgt.cli.shell import Json, Plugins, Seed, app, bar_or_lines, load_plugins, own_generator, share_option, tell
from qgt.files.store import alone_in, check_room, working_in

if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup

    from qgt.learning.training import AgainstLimit


# Processes that `torchrun` started to train together: what each finds in its environment.


@dataclass(frozen=True, eq=False)
class Processes:
    """The processes of one command; a command that was started alone has no group."""

    group: "ProcessGroup | None" = None
    size: int = 1
    rank: int = 0
    device: str | None = None  # what torchrun gave to this process; None: what the options say

    @property
    def follows(self) -> bool:
        """Whether another process speaks and writes for this one."""
        return self.rank > 0


@contextmanager
def processes() -> Iterator[Processes]:
    """The group that torchrun made, for as long as it is needed."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        yield Processes()
        return
    import torch
    from torch import distributed

    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":  # each process has a GPU of its own
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    distributed.init_process_group("nccl" if device == "cuda" else "gloo")
    try:
        yield Processes(distributed.group.WORLD, distributed.get_world_size(), distributed.get_rank(), device)
    finally:
        distributed.destroy_process_group()


# The verb.

CHECKPOINT = "checkpoint.safetensors"
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
    architecture: Annotated[
        str, typer.Option(metavar="KIND", help="mlp; refining or residual (on fresh data).")
    ] = "mlp",
    width: Annotated[int | None, typer.Option(metavar="W", help="Of refining and residual; default 512.")] = None,
    blocks: Annotated[int | None, typer.Option(metavar="B", help="Of refining, default 2; of residual, 6.")] = None,
    rounds: Annotated[int | None, typer.Option(metavar="R", help="Of refining; default 6.")] = None,
    steps: Annotated[int | None, typer.Option(metavar="S", help="Train on fresh instances for S steps.")] = None,
    instances: Annotated[int | None, typer.Option(metavar="N", help="Of the fixed data set; default 119205.")] = None,
    batch: Annotated[int | None, typer.Option(metavar="B", help="Instances per step.")] = None,
    learning_rate: Annotated[float | None, typer.Option(metavar="R", help="Adam's.")] = None,
    matrix_rate: Annotated[float | None, typer.Option(metavar="R", help="Muon's, on fresh data; default 0.02.")] = None,
    missing: Annotated[
        float | None, share_option("missing", "P", "Chance of a missing count; then the network takes them.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(metavar="E", help="At most, on a fixed data set; default 300.")] = None,
    patience: Annotated[int | None, typer.Option(metavar="E", help="Epochs to wait for a better one.")] = None,
    limit: Annotated[
        float, typer.Option(metavar="S", min=0, help="Seconds to compare it with the exact decoder; 0: none.")
    ] = 10.0,
    seed: Seed = 0,
    device: Annotated[str, typer.Option(metavar="D", help="auto, cpu or cuda.")] = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Continue a training that was interrupted.")] = False,
    begin: Annotated[
        str | None,
        typer.Option("--from", metavar="NAME", help="pretrained: train the network for any design on, for S steps."),
    ] = None,
    plugin: Plugins = None,
    as_json: Json = False,
) -> None:
    """Train a network to decode a problem, on simulated instances, and save it with its threshold.

    Ctrl-C stops early and keeps the best weights so far; --resume continues to what an unbroken run would have given.

    \b
    Examples:
      qgt train problem.toml -o runs/mlp --level 5
      qgt train problem.toml -o runs/refining --architecture refining --steps 40000 --device cuda
      qgt train problem.toml -o runs/tuned --from pretrained --device cuda
      torchrun --nproc-per-node 4 -m qgt train problem.toml -o runs/refining --architecture refining
    """
    from qgt.decoders.neural.decoder import ON_FRESH_DATA
    from qgt.decoders.neural.network import number_of_weights
    from qgt.decoders.neural.record import make_config

    shape = {"level": level, "hidden": hidden, "width": width, "blocks": blocks, "rounds": rounds}
    network = _network(architecture, shape)
    sizes = {"steps": steps, "instances": instances, "batch": batch, "epochs": epochs, "patience": patience}
    rates = {"learning_rate": learning_rate, "matrix_rate": matrix_rate, "missing": missing}
    if begin is not None:
        others = {**shape, **sizes, **rates, "architecture": None if architecture == "mlp" else architecture}
        load_plugins(plugin)
        return _fine_tune(begin, problem, output, {**others, "resume": resume or None}, seed, device, as_json)
    config = make_config(fresh=architecture in ON_FRESH_DATA or steps is not None, given={**sizes, **rates})
    load_plugins(plugin)
    with processes() as group:
        loaded, generator = qgt.Problem.load(problem), own_generator("train", seed, group.device or device)
        if group.follows:  # the first process has the folder and the screen, and writes the checkpoint
            qgt.train(loaded, network, config, generator=generator, checkpoint=output / CHECKPOINT, group=group.group)
            return
        weights = number_of_weights(network, loaded.design, missing=config.missing > 0, loads=loaded.loads is not None)
        with _run_folder(output, resume, weights) as checkpoint:
            _tell_time(loaded, network, config, generator, group.size)
            try:
                net = _train_with_progress(loaded, network, config, generator, checkpoint, group.group)
            except qgt.Interrupted as stopped:
                stopped.decoders[0].save(output)
                _tell_trained(output, stopped.decoders[0], None, as_json)
                raise
            net.save(output)
            checkpoint.unlink(missing_ok=True)
            _tell_trained(output, net, _against_limit(net, loaded, limit, seed), as_json)


def _network(kind: str, given: Mapping[str, int | str | None]) -> "qgt.Architecture":
    """The network of a kind; an option that it does not use is refused, not ignored."""
    used = {"mlp": ("level", "hidden"), "residual": ("width", "blocks"), "refining": ("width", "blocks", "rounds")}
    if kind not in used:
        raise ValueError(f"architecture={kind!r} is not known: give mlp, refining or residual.")
    chosen = {name: value for name, value in given.items() if value is not None}
    for name, value in chosen.items():
        if name not in used[kind]:
            instead = f"{', '.join(used[kind][:-1])} or {used[kind][-1]}"
            raise ValueError(f"{name}={value} has no meaning for the architecture {kind}: give {instead}.")
    if kind == "mlp":
        level, hidden = chosen.get("level"), chosen.get("hidden")
        return _mlp(None if level is None else int(level), None if hidden is None else str(hidden))
    sizes = {name: int(value) for name, value in chosen.items()}
    return qgt.Refining(**sizes) if kind == "refining" else qgt.ResidualMLP(**sizes)


def _mlp(level: int | None, hidden: str | None) -> "qgt.MLP":
    if hidden is None:
        return qgt.MLP.level(5 if level is None else level)
    if level is not None:
        raise ValueError("level and hidden were both given: give one of them.")
    try:
        return qgt.MLP(tuple(int(part) for part in hidden.split(",") if part.strip()))
    except ValueError as error:
        raise ValueError(f"hidden={hidden!r} is not valid: give widths like 500,500.") from error


TUNED_BY = ("steps", "batch", "learning_rate")  # the options of a fine-tuning


def _fine_tune(
    begin: str, problem: Path, output: Path, given: Mapping[str, object], seed: int, device: str, as_json: bool
) -> None:
    """Train the network for any design on, for one problem, and compare it with what it was."""
    from rich.progress import TextColumn

    if begin != "pretrained":
        raise ValueError(f"from={begin!r} is not valid: give pretrained.")
    chosen: dict[str, Any] = {"steps": 1500} | {name: value for name, value in given.items() if value is not None}
    for name in chosen:
        if name not in TUNED_BY:
            raise ValueError(f"{name}={chosen[name]} has no meaning with --from: use {', '.join(TUNED_BY)}.")
    loaded, generator, known = qgt.Problem.load(problem), own_generator("train", seed, device), ["no step done yet"]
    weights = sum(p.numel() for p in qgt.pretrained().network.parameters())
    with (
        _run_folder(output, False, weights),
        bar_or_lines(lambda: f"qgt: fine-tuning: {known[0]}", "steps", TextColumn("{task.description}")) as bar,
    ):
        bar.update(bar.task_ids[0], total=chosen["steps"])

        def show(step: int, loss: float) -> None:
            known[:] = [f"step {step} done, loss {loss:.4f}"]
            bar.update(bar.task_ids[0], completed=step, description=f"loss {loss:.4f}")

        tuned = qgt.fine_tune(loaded, qgt.pretrained(), generator=generator, on_step=show, **chosen)
        tuned.save(output)
    facts = tuned.made["fine_tuned"]
    used = f"qgt decode COUNTS --problem {problem} --decoder pretrained --set weights={output}"
    tell(
        {"model": str(output), **facts} if as_json else None,
        f"Wrote {output}. Use it with: {used}",
        ["on held-out instances", ""],
        ["loss before", f"{facts['before']:.4g}"],
        ["loss after", f"{facts['after']:.4g}"],
        ["steps", f"{facts['steps']}"],
    )


@contextmanager
def _run_folder(folder: Path, resume: bool, weights: int) -> Iterator[Path]:
    """The checkpoint's path in a folder that can be trained into: refused before the training, not after it.

    A folder that holds a training already is refused, unless it is to be continued; so is one that cannot be written
    to, has no room for a checkpoint, or in which another training is under way.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder}: is not a folder; give another path.")
    with working_in(folder), alone_in(folder):
        checkpoint = folder / CHECKPOINT
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
    group: "ProcessGroup | None",
) -> "qgt.NeuralDecoder":
    """Train with a bar on standard error, or a line there now and then."""
    from rich.progress import TextColumn

    known = ["no epoch done yet"]
    with bar_or_lines(lambda: f"qgt: training: {known[0]}", "epochs", TextColumn("{task.description}")) as bar:
        bar.update(bar.task_ids[0], total=config.epochs)

        def show(epoch: "qgt.Epoch") -> None:
            loss = f"loss {epoch.train_loss:.4f}  validation {epoch.validation_loss:.4f}"
            doing = f"{loss}  success {epoch.success_rate:.3f}"
            known[:] = [f"epoch {epoch.number} of {config.epochs} done, {doing}"]
            bar.update(bar.task_ids[0], completed=epoch.number, description=doing)

        return qgt.train(
            problem, network, config, generator=generator, on_epoch=show, checkpoint=checkpoint, group=group
        )


def _tell_time(
    problem: "qgt.Problem",
    network: "qgt.Architecture",
    config: "qgt.TrainConfig",
    generator: "torch.Generator",
    processes: int,
) -> None:
    """Say how long a training will take, on standard error, before it begins."""
    from qgt.learning.training import estimated_seconds

    _, whole = estimated_seconds(problem, network, config, device=generator.device.type)
    most = "at most about" if config.patience else "about"
    shared = f", less where {processes} processes share it" if processes > 1 else ""
    typer.echo(
        f"qgt: training will take {most} {time_in_words(whole)}{shared}; Ctrl-C keeps the best until then.", err=True
    )


def time_in_words(seconds: float) -> str:
    """A time in the unit that suits it.

    Example:
        >>> time_in_words(0.4), time_in_words(95.0), time_in_words(400.0), time_in_words(9000.0)
        ('1 second', '95 seconds', '7 minutes', '2.5 hours')
    """
    if seconds < 100:
        number = max(1, round(seconds))
        return f"{number} second{'s' if number > 1 else ''}"
    return f"{seconds / 60:.0f} minutes" if seconds < 6000 else f"{seconds / 3600:.1f} hours"


def _against_limit(
    net: "qgt.NeuralDecoder", problem: "qgt.Problem", seconds: float, seed: int
) -> "AgainstLimit | None":
    """The network beside the exact decoder, on instances of their own."""
    from qgt.learning.training import compared_with_limit

    if not seconds or net.network.missing:  # its own counts are not all there
        return None
    return compared_with_limit(net, problem, seconds=seconds, generator=own_generator("limit", seed, "cpu"))


def _tell_trained(output: Path, net: "qgt.NeuralDecoder", limit: "AgainstLimit | None", as_json: bool) -> None:
    """Say what a training came to."""
    assert net.training is not None
    facts = _facts(net, net.training)
    if limit is not None:
        facts |= {
            "limit_instances": limit.instances,
            "limit_proved": limit.proved,
            "limit_success_rate": limit.limit / limit.instances,
            "own_success_rate_there": limit.right / limit.instances,
            "below_the_limit": limit.gap,
        }
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
