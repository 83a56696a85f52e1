"""Training: simulated instances in, a decoder out. One loop, for one network or a stack of them, on CPU or GPU.

Two regimes. *Fixed*: the paper's, a data set drawn once, reshuffled every epoch, early stopping on the validation
loss. *Fresh* (`TrainConfig.fresh`): new instances at every step, a budget of steps, a cosine learning rate. Either
way the best weights by validation loss are restored at the end, and the threshold is tuned on the validation
instances.

`train_many` trains several problems (other designs, seeds, noise rates, even numbers of pools) as one stack: each
network sees its own data, stops by its own validation loss, and has the distribution it would have had alone.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from torch import Generator
from torch.distributed import ProcessGroup

from qgt.decoders.neural.decoder import NeuralDecoder, describe
from qgt.decoders.neural.heads import head_for
from qgt.decoders.neural.network import Architecture
from qgt.decoders.neural.record import Epoch, TrainConfig
from qgt.files import codec
from qgt.learning import checkpoints
from qgt.learning.run import TrainingRun
from qgt.learning.steps import Together
from qgt.model.problem import Problem

# How long a training will take, by a few of its steps.

PROBE_STEPS = 8  # of the probe: on a GPU, more than it takes until they are captured
PROBE_VALIDATION = 2000  # instances of the probe; a training's own number is scaled from it


def estimated_seconds(
    problem: Problem, architecture: Architecture, config: TrainConfig, *, device: str = "cpu"
) -> tuple[float, float]:
    """The seconds of one step, its instances included, and of the whole training if it does not stop early.

    The probe is a training of its own, with its own random numbers, so nothing that is trained later depends on it.

    Example:
        >>> import torch, qgt
        >>> design = qgt.Design.bernoulli(pools=6, items=8, generator=torch.Generator().manual_seed(0))
        >>> config = qgt.TrainConfig(instances=500, epochs=20, batch=100)
        >>> step, whole = estimated_seconds(qgt.Problem(design, qgt.Bernoulli(0.1)), qgt.MLP((16,)), config)
        >>> 0 < 100 * step < whole
        True
    """
    validation = min(PROBE_VALIDATION, config.validation)
    small = replace(config, instances=None, steps=PROBE_STEPS, epochs=3, patience=None, validation=validation)
    run = TrainingRun.begin([problem], architecture, small, Generator(device).manual_seed(0))
    run.epoch()  # warm-up: libraries start, memory is allocated, steps are captured
    began = time.perf_counter()
    run.epoch()
    middle = time.perf_counter()
    run.validate()
    validating = time.perf_counter() - middle
    step = max(middle - began - validating, 1e-6) / PROBE_STEPS
    return step, config.total_steps * step + config.epochs * validating * config.validation / validation


# The training.

CHECKPOINT_SECONDS = 10.0


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a training, with what it had learned: `decoders` have the best weights until then.

    It is a KeyboardInterrupt, so whoever does not catch it stops as always.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> problem = qgt.Problem(qgt.Design.bernoulli(pools=6, items=8, generator=g), qgt.Bernoulli(0.1))
        >>> def press_ctrl_c(epoch):
        ...     raise KeyboardInterrupt
        >>> try:
        ...     net = train(problem, qgt.MLP((16,)), TrainConfig(instances=500), generator=g, on_epoch=press_ctrl_c)
        ... except Interrupted as stopped:
        ...     net = stopped.decoders[0]
        >>> net.training.interrupted, net.training.epochs
        (True, 1)
    """

    def __init__(self, decoders: Sequence[NeuralDecoder]) -> None:
        super().__init__("training was interrupted")
        self.decoders = tuple(decoders)


def train(
    problem: Problem,
    architecture: Architecture,
    config: TrainConfig = TrainConfig(),  # noqa: B008 - frozen
    *,
    generator: Generator,
    on_epoch: Callable[[Epoch], None] | None = None,
    checkpoint: Path | None = None,
    group: ProcessGroup | None = None,
) -> NeuralDecoder:
    """Train a network for a problem, on the generator's device; returns it with the best weights and threshold.

    With a `checkpoint` path the state is written there now and then, and an existing file is continued from, to the
    result an unbroken run would have had. Ctrl-C raises `Interrupted`, which has the best weights so far. A training
    that diverges is a ValueError and removes its checkpoint, from which there is nowhere to go on.

    With a `group` of processes, which all make this call with a generator of the same seed, each step's batch is shared
    out among them. The network is the one that a single process would train, to rounding; every process returns it,
    and the first one writes the checkpoint.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> problem = qgt.Problem(qgt.Design.bernoulli(pools=6, items=8, generator=g), qgt.Bernoulli(0.1))
        >>> net = train(problem, qgt.MLP((16,)), TrainConfig(instances=500, validation=100, epochs=2), generator=g)
        >>> net.training.epochs
        2
    """
    return train_many(
        [problem], architecture, config, generator=generator, on_epoch=on_epoch, checkpoint=checkpoint, group=group
    )[0]


def train_many(
    problems: Sequence[Problem],
    architecture: Architecture,
    config: TrainConfig = TrainConfig(),  # noqa: B008 - frozen
    *,
    generator: Generator,
    on_epoch: Callable[[Epoch], None] | None = None,
    checkpoint: Path | None = None,
    group: ProcessGroup | None = None,
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
    problems = [problem.in_parts for problem in problems]  # networks of copies and categories learn their parts
    if len({problem.loads is None for problem in problems}) != 1:
        raise ValueError("problems with and without loads have networks of different shapes: train them apart.")
    if len({head_for(problem.prior) for problem in problems}) != 1:
        raise ValueError(
            "problems with different numbers of values have networks of different heads: train them apart."
        )
    together = Together(group)
    if checkpoint is not None and checkpoint.exists():
        run = _resume(checkpoint, problems, architecture, config, generator, together)
    else:
        run = TrainingRun.begin(problems, architecture, config, generator, together)
    try:
        _loop(run, on_epoch, checkpoint if together.rank == 0 else None)
    except KeyboardInterrupt:
        if not run.number or run.best.diverged:
            raise  # there is nothing to keep
        raise Interrupted(run.decoders(interrupted=True)) from None
    if run.best.diverged:
        if checkpoint is not None:
            checkpoint.unlink(missing_ok=True)
        raise ValueError(f"training diverged at learning_rate={config.learning_rate}: give a smaller one.")
    return run.decoders()


def _loop(run: TrainingRun, on_epoch: Callable[[Epoch], None] | None, checkpoint: Path | None) -> None:
    """Train until the run is finished; after the first epoch and then now and then, write a checkpoint."""
    saved = float("-inf")
    while not run.finished:
        epoch = run.epoch()
        if on_epoch is not None:
            on_epoch(epoch)
        if checkpoint is not None and time.perf_counter() - saved > CHECKPOINT_SECONDS:
            identity = _identity(run.data.problems, run.architecture, run.config, run.generator)
            checkpoints.write_checkpoint(checkpoint, run.state(), identity)
            saved = time.perf_counter()


def _identity(
    problems: Sequence[Problem], architecture: Architecture, config: TrainConfig, generator: Generator
) -> dict[str, object]:
    """What must agree for a checkpoint to be continued."""
    return {
        "problem": [problem.fingerprint for problem in problems],
        "architecture": describe(architecture),
        "config": codec.encode("config", config, TrainConfig),
        "device": generator.device.type,
    }


def _resume(
    path: Path,
    problems: Sequence[Problem],
    architecture: Architecture,
    config: TrainConfig,
    generator: Generator,
    together: Together,
) -> TrainingRun:
    """The run that a checkpoint describes, in the state it describes."""
    state = checkpoints.read_checkpoint(path, _identity(problems, architecture, config, generator))
    try:
        return TrainingRun.restore(problems, architecture, config, generator, state, together)
    except (ValueError, LookupError, TypeError, RuntimeError) as error:  # tensors or numbers no run of ours writes
        raise checkpoints.refusal(path, error) from error
