"""Training: simulated instances in, a decoder out. One loop, for one network or a stack of them, on CPU or GPU.

Two regimes. *Fixed*: the paper's, a data set drawn once, reshuffled every epoch, early stopping on the validation
loss. *Fresh* (`TrainConfig.fresh`): new instances at every step, a budget of steps, a cosine learning rate. Either
way the best weights by validation loss are restored at the end, and the threshold is tuned on the validation
instances.

`train_many` trains several problems (other designs, seeds, noise rates, even numbers of pools) as one stack: each
network sees its own data, stops by its own validation loss, and has the distribution it would have had alone.
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Generator

from qgt.decoders.neural.decoder import NeuralDecoder, describe
from qgt.decoders.neural.network import Architecture
from qgt.learning import checkpoints
from qgt.learning.run import Epoch, Run, TrainConfig
from qgt.model.problem import Problem

CHECKPOINT_SECONDS = 10.0


def train(
    problem: Problem,
    architecture: Architecture,
    config: TrainConfig = TrainConfig(),  # noqa: B008 - frozen
    *,
    generator: Generator,
    on_epoch: Callable[[Epoch], None] | None = None,
    checkpoint: Path | None = None,
) -> NeuralDecoder:
    """Train a network for a problem, on the generator's device; returns it with the best weights and threshold.

    With a `checkpoint` path the state is written there now and then, and an existing file is continued from, to the
    result an unbroken run would have had. Ctrl-C ends the training early and keeps the best weights so far.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> problem = qgt.Problem(qgt.Design.bernoulli(pools=6, items=8, generator=g), qgt.Bernoulli(0.1))
        >>> net = train(problem, qgt.MLP((16,)), TrainConfig(instances=500, validation=100, epochs=2), generator=g)
        >>> len(net.training["history"])
        2
    """
    return train_many([problem], architecture, config, generator=generator, on_epoch=on_epoch, checkpoint=checkpoint)[0]


def train_many(
    problems: Sequence[Problem],
    architecture: Architecture,
    config: TrainConfig = TrainConfig(),  # noqa: B008 - frozen
    *,
    generator: Generator,
    on_epoch: Callable[[Epoch], None] | None = None,
    checkpoint: Path | None = None,
) -> list[NeuralDecoder]:
    """Train one network per problem, all at once as one stacked computation; problems must have equal items.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> designs = [qgt.Design.bernoulli(pools=m, items=8, generator=g) for m in (5, 6)]
        >>> problems = [qgt.Problem(design, qgt.Bernoulli(0.1)) for design in designs]
        >>> config = TrainConfig(instances=500, validation=100, epochs=1)
        >>> [net.problem.pools for net in train_many(problems, qgt.MLP((16,)), config, generator=g)]
        [5, 6]
    """
    if not problems or len({problem.items for problem in problems}) != 1:
        raise ValueError("problems must be at least one, all with the same number of items.")
    if checkpoint is not None and checkpoint.exists():
        run = _resume(checkpoint, list(problems), architecture, config, generator)
    else:
        run = Run(list(problems), architecture, config, generator)
    saved = float("-inf")  # so that there is one after the first epoch
    try:
        with _tensor_float_32(generator.device):
            while not run.finished:
                epoch = run.epoch()
                if on_epoch is not None:
                    on_epoch(epoch)
                if checkpoint is not None and time.perf_counter() - saved > CHECKPOINT_SECONDS:
                    _write(run, checkpoint)
                    saved = time.perf_counter()
    except KeyboardInterrupt:
        if not run.number:
            raise
        run.interrupted = True
    return run.decoders()


@contextlib.contextmanager
def _tensor_float_32(device: torch.device) -> Iterator[None]:
    """Let a GPU's matrix units take float32 at their faster setting while training; nothing changes on a CPU."""
    if device.type != "cuda":
        yield
        return
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _identity(
    problems: list[Problem], architecture: Architecture, config: TrainConfig, generator: Generator
) -> dict[str, Any]:
    """What must agree for a checkpoint to be continued."""
    return {
        "problems": [problem.fingerprint for problem in problems],
        "architecture": describe(architecture),
        "config": dataclasses.asdict(config),
        "device": generator.device.type,
    }


def _write(run: Run, path: Path) -> None:
    """Write the whole state of a run between two epochs."""
    tensors = {f"network.{name}": tensor for name, tensor in run.network.state_dict().items()}
    tensors |= {f"best.{name}": tensor for name, tensor in run.best.items()}
    for i, parameter in enumerate(run.network.parameters()):
        tensors |= {f"adam.{i}.{key}": value for key, value in run.optimizer.state[parameter].items()}
    tensors |= {"best_loss": run.best_loss, "waited": run.waited, "covered": run.covered}
    tensors |= {"start": run.start, "now": run.generator.get_state()}
    progress = {"number": run.number, "history": run.history, "seed": run.generator.initial_seed()}
    identity = _identity(run.problems, run.architecture, run.config, run.generator)
    checkpoints.write(path, tensors, identity, progress)


def _resume(
    path: Path, problems: list[Problem], architecture: Architecture, config: TrainConfig, generator: Generator
) -> Run:
    """The run that a checkpoint describes, in the state it describes."""
    tensors, progress = checkpoints.read(path, _identity(problems, architecture, config, generator))
    # The same start gives the same first weights and the same data set as when the run began.
    generator.manual_seed(progress["seed"]).set_state(tensors["start"])
    run = Run(problems, architecture, config, generator)
    device = run.generator.device
    run.network.load_state_dict(checkpoints.under("network.", tensors))
    run.best = {name: tensor.to(device) for name, tensor in checkpoints.under("best.", tensors).items()}
    for i, parameter in enumerate(run.network.parameters()):
        moments = checkpoints.under(f"adam.{i}.", tensors)
        run.optimizer.state[parameter] = {key: value.to(device) for key, value in moments.items()}
    run.best_loss, run.waited, run.covered = (tensors[k].to(device) for k in ("best_loss", "waited", "covered"))
    run.number, run.history = progress["number"], progress["history"]
    run.generator.set_state(tensors["now"])
    return run
