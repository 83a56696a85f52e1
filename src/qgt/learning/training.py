"""Training: simulated instances in, a decoder out. One loop, for one network or a stack of them, on CPU or GPU.

Two regimes. *Fixed*: the paper's, a data set drawn once, reshuffled every epoch, early stopping on the validation
loss. *Fresh* (`TrainConfig.fresh`): new instances at every step, a budget of steps, a cosine learning rate. Either
way the best weights by validation loss are restored at the end, and the threshold is tuned on the validation
instances.

`train_many` trains several problems (other designs, seeds, noise rates, even numbers of pools) as one stack: each
network sees its own data, stops by its own validation loss, and has the distribution it would have had alone.
"""

import copy
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import torch
import torch.nn.functional as F
from torch import Generator, Tensor
from torch.distributed import ProcessGroup

from qgt.arguments import positive, whole
from qgt.decoders.certified.decoder import Certified
from qgt.decoders.contract import Decoder, refuse_unsupported
from qgt.decoders.highs.exact import ExactMAP
from qgt.decoders.neural.any_design import AnyDesign, MessageNetwork, shown
from qgt.decoders.neural.decoder import NeuralDecoder, describe
from qgt.decoders.neural.heads import head_for
from qgt.decoders.neural.network import Architecture
from qgt.decoders.neural.record import Epoch, TrainConfig
from qgt.decoders.results import Status
from qgt.files import codec
from qgt.learning import checkpoints
from qgt.learning.run import TrainingRun
from qgt.learning.steps import Together
from qgt.model.problem import Instances, Problem

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

    It is a KeyboardInterrupt, so a program that does not catch it stops as always.

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
    problems = _stackable(problems)
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


def _stackable(problems: Sequence[Problem]) -> list[Problem]:
    """The problems as networks learn them; refused where their networks would have different shapes."""
    if not problems or len({problem.items for problem in problems}) != 1:
        raise ValueError("problems is not valid: give at least one, all with the same number of items.")
    parts = [problem.in_parts for problem in problems]  # networks of copies and categories learn their parts
    if len({problem.loads is None for problem in parts}) != 1:
        raise ValueError("problems with and without loads have networks of different shapes: train them apart.")
    if len({head_for(problem.prior) for problem in parts}) != 1:
        raise ValueError(
            "problems with different numbers of values have networks of different heads: train them apart."
        )
    return parts


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


# Fine-tuning: the network for any design, trained on for one problem.
#
# The weights begin where the pretrained ones are, and see new instances of the problem at every step. The rounds are
# trained as they were before: cross entropy of every round, the later the more. At the end the better of the two
# sets of weights by the loss on validation instances is kept, so that fine-tuning cannot make a network worse.

TUNED_ROUNDS = 10  # that a step learns from
TUNING_WARM_UP = 0.05  # of all steps
AVERAGE_KEPT = 0.99  # of the running average of the weights, at each step
TUNING_VALIDATION = 4  # batches


def fine_tune(
    problem: Problem,
    start: AnyDesign,
    *,
    steps: int = 1500,
    batch: int = 256,
    learning_rate: float = 2e-4,
    generator: Generator,
    on_step: Callable[[int, float], None] | None = None,
) -> AnyDesign:
    """Train a network for any design on for one problem, on the generator's device.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> design = qgt.Design.column_regular(pools=16, items=60, weight=4, generator=g)
        >>> problem = qgt.Problem(design, qgt.Bernoulli(0.03))
        >>> tuned = fine_tune(problem, qgt.pretrained(), steps=2, batch=8, generator=g)
        >>> tuned.made["fine_tuned"]["steps"]
        2
    """
    steps, batch = whole("steps", steps, least=1), whole("batch", batch, least=1)
    learning_rate = positive("learning_rate", learning_rate)
    refuse_unsupported(start, problem)
    network = copy.deepcopy(start.network).to(generator.device).requires_grad_(True).train()
    validation = problem.simulate(TUNING_VALIDATION * batch, generator=generator)
    before = _tuning_validation(network, problem, validation.x, validation.y, batch)
    for step, loss in enumerate(_tuning_losses(network, problem, steps, batch, learning_rate, generator), 1):
        if on_step is not None:
            on_step(step, loss)
    after = _tuning_validation(network, problem, validation.x, validation.y, batch)
    if not after < before:
        network.load_state_dict(start.network.state_dict())
    facts: dict[str, Any] = {"problem": problem.fingerprint, "steps": steps, "batch": batch, "before": before}
    made = {**start.made, "fine_tuned": {**facts, "after": after}}
    return replace(start, network=network.cpu().eval().requires_grad_(False), made=made)


def _tuning_losses(
    network: MessageNetwork, problem: Problem, steps: int, batch: int, learning_rate: float, generator: Generator
) -> Iterator[float]:
    """The loss of each step; at the end the network has the running average of its weights."""
    average = {name: p.detach().clone() for name, p in network.named_parameters()}
    adam = torch.optim.Adam(network.parameters(), lr=learning_rate, betas=(0.9, 0.98))
    for step in range(steps):
        warm = min(1.0, (step + 1) / (TUNING_WARM_UP * steps))
        adam.param_groups[0]["lr"] = learning_rate * warm * 0.5 * (1 + math.cos(math.pi * step / steps))
        loss = _tuning_step(network, problem, adam, problem.simulate(batch, generator=generator))
        with torch.no_grad():
            for name, p in network.named_parameters():
                average[name].lerp_(p, 1 - min(AVERAGE_KEPT, 1 - 1 / (step + 2)))
        yield loss
    network.load_state_dict(average)


def _tuning_step(network: MessageNetwork, problem: Problem, adam: torch.optim.Adam, batch: Instances) -> float:
    """One step of Adam on a batch; returns the loss before it."""
    loss = _tuning_loss(network, problem, batch.x, batch.y)
    adam.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    adam.step()
    return float(loss.detach())


def _tuning_loss(network: MessageNetwork, problem: Problem, x: Tensor, y: Tensor) -> Tensor:
    """Cross entropy of all rounds, the later the more."""
    target = x.to(torch.float32)
    total = torch.zeros((), device=y.device)
    for number, logits in enumerate(network.each(shown(problem, y), TUNED_ROUNDS), 1):
        total = total + number / TUNED_ROUNDS * F.binary_cross_entropy_with_logits(logits, target) / TUNED_ROUNDS
    return total


@torch.no_grad()
def _tuning_validation(network: MessageNetwork, problem: Problem, x: Tensor, y: Tensor, batch: int) -> float:
    """The loss on instances that no step sees."""
    network.eval()
    parts = [
        _tuning_loss(network, problem, *part) * len(part[0])
        for part in zip(x.split(batch), y.split(batch), strict=True)
    ]
    network.train()
    return float(torch.stack(parts).sum()) / len(x)


# How far a decoder is from the limit: the success rate of the most probable x, on the same instances.

INSTANCES_BETWEEN_LOOKS = 20  # instances between two looks at the clock


@final
@dataclass(frozen=True)
class AgainstLimit:
    """What a decoder and the most probable answers came to on the same instances.

    Example:
        >>> AgainstLimit(instances=200, proved=200, right=180, limit=196).gap
        0.08
    """

    instances: int
    proved: int  # how many of the most probable answers are proved to be that
    right: int  # instances that the decoder decoded without error
    limit: int  # those that the most probable answer did

    @property
    def gap(self) -> float:
        """By how much the decoder's success rate is below the limit."""
        return (self.limit - self.right) / self.instances


def limit_decoder(problem: Problem, time_limit: float | None = None) -> Decoder | None:
    """A decoder that finds the most probable x; None where there is none, as for a prior that can only be sampled."""
    for decoder in (Certified(odds=1.0, certificates=False, time_limit=time_limit), ExactMAP(time_limit=time_limit)):
        if decoder.supports(problem) is None:
            return decoder
    return None


def compared_with_limit(
    decoder: Decoder, problem: Problem, *, seconds: float, most: int = 1000, generator: Generator
) -> AgainstLimit | None:
    """Decode new instances with a decoder and exactly, for some seconds; None if no exact decoder supports the problem.

    A batch of hard instances may take as long again.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> problem = qgt.Problem(qgt.Design.bernoulli(pools=9, items=12, generator=g), qgt.Bernoulli(0.1))
        >>> found = compared_with_limit(qgt.Certified(), problem, seconds=60.0, most=40, generator=g)
        >>> found.instances, found.proved
        (40, 40)
    """
    exact = limit_decoder(problem, time_limit=max(seconds / INSTANCES_BETWEEN_LOOKS, 0.01))
    if exact is None:
        return None
    decode, limit = decoder.bind(problem), exact.bind(problem)
    instances = proved = right = best = 0
    began = time.perf_counter()
    while instances < most and (not instances or time.perf_counter() - began < seconds):
        x, y = problem.simulate(min(INSTANCES_BETWEEN_LOOKS, most - instances), generator=generator)
        answers = limit(y)
        instances += len(x)
        proved += int((answers.status == Status.PROVED).sum())
        best += int((answers.x == x).all(1).sum())
        right += int((decode(y).x == x).all(1).sum())
    return AgainstLimit(instances, proved, right, best)
