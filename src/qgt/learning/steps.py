"""Optimiser steps over a block of instances: the instances, losses, optimisers, and the steps.

On a GPU the steps are captured as a CUDA graph after a few plain ones. Several processes can share the work of a step:
each takes its part of the batch, and their gradients are averaged, so that all of them take the step that one process
would take with the whole batch.
"""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import torch
import torch.distributed as dist
import torch.nn.functional as F
from jaxtyping import Float
from torch import Generator, Tensor, nn

from qgt.decoders.neural.heads import Softmax, head_for, inputs_of, network_inputs, network_targets, who
from qgt.decoders.neural.mlp import MLP
from qgt.decoders.neural.network import Architecture, Head, Network, Rounds, Sigmoid
from qgt.decoders.neural.record import TrainConfig
from qgt.learning.checkpoints import TrainingState
from qgt.model.problem import Problem

# The instances a stack of networks is trained on: for every problem its own, padded with zeros to the most pools.
#
# An epoch is a block of instances laid out in memory and read batch by batch: a fixed data set in a new order, or
# fresh instances.


class Stacked(NamedTuple):
    """Instances of every problem: x (models, instances, items) uint8, y (models, instances, pools) float32.

    Where items have loads, x and y are what `heads` makes of them: x float32, two inputs for each pool in y.
    """

    x: Tensor
    y: Tensor


@dataclass(frozen=True, eq=False)
class Data:
    """What a training draws; the block and the items covered change in place from epoch to epoch."""

    problems: tuple[Problem, ...]
    missing: float  # the chance that a count is missing
    validation: Stacked
    fixed: Stacked | None  # None: fresh instances in every block
    block: Stacked
    covered: Tensor  # (models, items) bool: items that were defective in training

    @classmethod
    def draw(cls, problems: tuple[Problem, ...], config: TrainConfig, generator: Generator) -> "Data":
        """Draw the validation instances, then the fixed data set if there is one."""
        device, models, items = generator.device, len(problems), problems[0].items
        inputs = max(inputs_of(problem) for problem in problems)
        validation = _simulate(problems, config.validation, inputs, config.missing, generator)
        size = config.instances
        fixed = None if size is None else _simulate(problems, size, inputs, config.missing, generator)
        length = config.batch * config.epoch_steps
        block = Stacked(
            torch.empty(models, length, items, dtype=validation.x.dtype, device=device),
            torch.empty(models, length, inputs, device=device),
        )
        covered = torch.zeros(models, items, dtype=torch.bool, device=device)
        return cls(problems, config.missing, validation, fixed, block, covered)

    def fill(self, generator: Generator) -> None:
        """Write the next epoch's instances into the block: the data set in a new order, or fresh ones."""
        length = self.block.x.shape[1]
        for i, problem in enumerate(self.problems):
            if self.fixed is None:
                x, y = problem.simulate(length, generator=generator)
                read = network_inputs(problem, with_gaps(y, self.missing, generator))
                self.block.x[i], self.block.y[i, :, : read.shape[1]] = network_targets(problem, x), read.float()
                self.block.y[i, :, read.shape[1] :] = 0
            else:
                x, y = self.fixed.x[i], self.fixed.y[i]
                order = torch.randperm(len(x), generator=generator, device=x.device)[:length]
                torch.index_select(x, 0, order, out=self.block.x[i])
                torch.index_select(y, 0, order, out=self.block.y[i])
        self.covered.logical_or_(who(self.block.x.amax(1)) == 1)

    def validation_of(self, i: int) -> Stacked:
        """One problem's validation instances, without the padding: (instances, items), (instances, pools)."""
        return Stacked(self.validation.x[i], self.validation.y[i, :, : inputs_of(self.problems[i])])

    def met(self, i: int, x: Tensor) -> Tensor | None:
        """Which rows of statuses are in one problem's fixed data set; None where there is none."""
        return None if self.fixed is None else torch.isin(_keys(x), _keys(who(self.fixed.x[i])))


def with_gaps(y: Tensor, missing: float, generator: Generator) -> Tensor:
    """Counts of which each is missing (NaN) with the given probability; nothing is drawn where it is 0."""
    if not missing:
        return y
    draws = torch.rand(y.shape, generator=generator, device=y.device)
    return torch.where(draws < missing, torch.nan, y)


def _simulate(
    problems: tuple[Problem, ...], instances: int, inputs: int, missing: float, generator: Generator
) -> Stacked:
    pairs = [(problem, *problem.simulate(instances, generator=generator)) for problem in problems]
    read = [network_inputs(problem, with_gaps(y, missing, generator)).float() for problem, _, y in pairs]
    learned = [network_targets(problem, x) for problem, x, _ in pairs]
    return Stacked(torch.stack(learned), torch.stack([F.pad(one, (0, inputs - one.shape[1])) for one in read]))


def _keys(x: Tensor) -> Tensor:
    """A 64-bit key for each row of x; different rows share one with a probability of about 2^-64."""
    weights = torch.empty(x.shape[1], dtype=torch.int64).random_(generator=Generator().manual_seed(0)).to(x.device)
    return torch.cat([(part * weights).sum(1) for part in x.split(2**16)])


# Optimisers: Adam, and Muon for the matrices between hidden layers.
#
# Muon (Jordan et al. 2024) moves a matrix by its momentum with all singular values made about equal: directions that
# the gradient seldom shows are learned as fast as common ones. The singular values are made equal by five steps of
# X <- a X + (b X X' + c (X X')^2) X, matrix products only. A step has spectral norm of about the learning rate,
# whatever the width, so one rate serves networks of all sizes.

MOMENTUM = 0.95
QUINTIC = (3.4445, -4.7750, 2.0315)
ORTHOGONAL_ITERATIONS = 5


@final
@dataclass(eq=False)
class Optimizers:
    """Adam for some parameters of a network, Muon for its inner matrices where the settings have a rate for it."""

    adam: torch.optim.Adam
    matrices: list[nn.Parameter]
    momenta: list[Tensor]
    matrix_rate: Tensor  # on the device, where a captured step reads it

    @classmethod
    def of(cls, network: Network, config: TrainConfig, device: torch.device) -> "Optimizers":
        """Share the parameters out, with no step taken."""
        matrices = [] if config.matrix_rate is None else network.inner_matrices()
        apart = {id(matrix) for matrix in matrices}
        captured = device.type == "cuda"
        adam = torch.optim.Adam(
            [p for p in network.parameters() if id(p) not in apart],
            # A captured step reads its learning rate from the device; elsewhere a plain number is faster.
            lr=torch.tensor(config.learning_rate, device=device) if captured else config.learning_rate,
            fused=True,
            capturable=captured,
        )
        momenta = [torch.zeros_like(matrix) for matrix in matrices]
        return cls(adam, matrices, momenta, torch.tensor(config.matrix_rate or 0.0, device=device))

    def set_rates(self, config: TrainConfig, step: int) -> None:
        """The learning rates of a step."""
        group, rate = self.adam.param_groups[0], config.rate_at(step)
        if not isinstance(group["lr"], Tensor):
            group["lr"] = rate
        elif config.cosine:
            group["lr"].fill_(rate)
        if config.matrix_rate is not None:
            self.matrix_rate.fill_(config.matrix_rate * config.share_at(step))

    def step(self) -> None:
        """Move all parameters by their gradients."""
        self.adam.step()
        with torch.no_grad():
            for matrix, momentum in zip(self.matrices, self.momenta, strict=True):
                assert matrix.grad is not None
                momentum.lerp_(matrix.grad, 1 - MOMENTUM)
                ahead = matrix.grad.lerp(momentum, MOMENTUM)  # Nesterov's
                stretch = max(1.0, matrix.shape[1] / matrix.shape[2]) ** 0.5
                matrix.sub_(orthogonal(ahead) * (self.matrix_rate * stretch))

    def zero_grad(self) -> None:
        """Forget all gradients."""
        self.adam.zero_grad()
        for matrix in self.matrices:
            matrix.grad = None

    def state(self) -> dict[str, Tensor]:
        """Adam's moments and Muon's momenta, by name."""
        tensors = {f"muon.{i}": momentum for i, momentum in enumerate(self.momenta)}
        for i, parameter in enumerate(self._by_adam()):
            tensors |= {f"adam.{i}.{key}": value for key, value in self.adam.state[parameter].items()}
        return tensors

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over what `state` gave."""
        for i, momentum in enumerate(self.momenta):
            momentum.copy_(tensors[f"muon.{i}"])
        for i, parameter in enumerate(self._by_adam()):
            prefix = f"adam.{i}."
            moments = {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}
            device = parameter.device
            self.adam.state[parameter] = {key: tensor.to(device) for key, tensor in moments.items()}

    def _by_adam(self) -> Iterable[Tensor]:
        return [p for group in self.adam.param_groups for p in group["params"]]


def orthogonal(matrices: Tensor) -> Tensor:
    """Matrices (models, out, in) with the same singular vectors and singular values near 1, each made by itself.

    Near is between 0.7 and 1.2, which is all that an optimiser needs; a zero matrix stays zero.

    Example:
        >>> import torch
        >>> orthogonal(torch.tensor([[[3.0, 0.0], [0.0, 0.2]]]))[0].diagonal().round(decimals=1)
        tensor([0.7000, 1.1000])
    """
    wide = matrices.shape[1] <= matrices.shape[2]
    x = matrices if wide else matrices.mT
    x = x / (torch.linalg.matrix_norm(x, keepdim=True) + 1e-20)
    if x.is_cuda:
        x = x.to(torch.bfloat16)  # the result is rough anyway
    a, b, c = QUINTIC
    for _ in range(ORTHOGONAL_ITERATIONS):
        square = x @ x.mT
        x = a * x + (b * square + c * (square @ square)) @ x
    made: Tensor = x if wide else x.mT
    return made.to(matrices.dtype)


# Losses for training a stack of networks: one number per network, averaged over its instances.
#
# The paper's loss (its equation "balanced MSE") averages the squared error over an instance's defective items and over
# its other items separately, and takes the mean of the two; a side without items is left out. As a weighted square it
# is sum_j w_j (score_j - x_j)^2 with w_j = 1 / (2 #defective) or 1 / (2 #other).


def balanced_mse(
    scores: Float[Tensor, "models instances items"], x: Float[Tensor, "models instances items"]
) -> Float[Tensor, " models"]:
    """The paper's loss, averaged over instances.

    Example:
        >>> import torch
        >>> balanced_mse(torch.tensor([[[0.5, 0.5, 0.0]]]), torch.tensor([[[1.0, 0.0, 0.0]]]))
        tensor([0.1875])
    """
    ones = x.sum(2, keepdim=True)  # (models, instances, 1)
    defective, other = 0.5 / ones, 0.5 / (x.shape[2] - ones)  # a side without items has an infinite, unused weight
    weighted = F.mse_loss(scores, x, reduction="none") * torch.where(x == 1, defective, other)
    return weighted.sum((1, 2)) / x.shape[1]


def binary_cross_entropy(
    scores: Float[Tensor, "models instances items"], x: Float[Tensor, "models instances items"]
) -> Float[Tensor, " models"]:
    """The log loss of logits, summed over items and averaged over instances."""
    return F.binary_cross_entropy_with_logits(scores, x, reduction="none").sum((1, 2)) / x.shape[1]


AMOUNT_WEIGHT = 1.0  # of the squared error of amounts, in the prior's standard deviations, beside the log loss


def two_heads(
    outputs: Float[Tensor, "models instances outputs"], x: Float[Tensor, "models instances items"]
) -> Float[Tensor, " models"]:
    """For loads: the log loss of which items are positive, and the squared error of how much the positive ones have.

    Both are sums over items, averaged over instances. x has the standardised log10 amount of a positive item and -inf
    for the others, whose amounts have no error: what the network answers for them is not looked at.

    Example:
        >>> import torch
        >>> x = torch.tensor([[[0.5, -torch.inf]]])
        >>> two_heads(torch.tensor([[[99.0, -99.0, 0.0, 7.0]]]), x)
        tensor([0.2500])
    """
    items = x.shape[2]
    positive = x > -torch.inf
    error = (outputs[..., items:] - torch.where(positive, x, 0.0)).square() * positive
    which = binary_cross_entropy(outputs[..., :items], positive.to(outputs.dtype))
    return which + AMOUNT_WEIGHT * error.sum((1, 2)) / x.shape[1]


def loss_of_rounds(
    loss: Callable[[Tensor, Tensor], Tensor],
    rounds: Rounds,
    x: Float[Tensor, "models instances items"],
    head: Head = Sigmoid(),  # noqa: B008 - without fields
) -> Float[Tensor, " models"]:
    """The loss of all rounds, a later one weighing more: the mean with weights 1, 2, 3, ...

    Where the network says whether it believes its answers, the log loss of that is added: a round is right where x is
    what the head calls.

    Example:
        >>> import torch
        >>> x = torch.tensor([[[1.0, 0.0, 0.0]]])
        >>> scores = torch.stack([torch.zeros(1, 1, 3), x])
        >>> loss_of_rounds(balanced_mse, Rounds(scores), x)  # a third of the first round's, which is 0.5
        tensor([0.1667])
    """
    number = len(rounds.scores)
    each = torch.stack([loss(scores, x) for scores in rounds.scores])  # (rounds, models)
    weights = torch.arange(1, number + 1, dtype=each.dtype, device=each.device)
    total = (weights @ each) / (number * (number + 1) / 2)
    if rounds.belief is None:
        return total
    right = (head.calls(rounds.scores.detach()) == (x > 0)).all(3)  # (rounds, models, instances)
    judged = F.binary_cross_entropy_with_logits(rounds.belief, right.to(x.dtype), reduction="none")
    return total + judged.mean((0, 2))


LOSSES = {"balanced_mse": balanced_mse, "binary_cross_entropy": binary_cross_entropy}


def loss_for(architecture: Architecture, problem: Problem) -> Callable[[Tensor, Tensor], Tensor]:
    """The architecture's own loss; for loads that of two heads, for copies and categories that of their values."""
    if isinstance(head := head_for(problem.prior), Softmax):
        return head.cross_entropy
    if architecture.loss not in LOSSES:
        raise ValueError(f"loss={architecture.loss!r} of {architecture} is not known: give one of {', '.join(LOSSES)}.")
    return LOSSES[architecture.loss] if problem.loads is None else two_heads


# Processes that train one network together: each has a part of every batch, and they average what it gives.
#
# Every process draws the same instances from the same seed, and begins with the same weights. As the averaged gradients
# are the same everywhere, so are the weights after each step; nothing else has to be sent.


@final
@dataclass(frozen=True, eq=False)
class Together:
    """The processes of a group, or this one alone."""

    group: dist.ProcessGroup | None = None

    @property
    def size(self) -> int:
        """How many processes there are."""
        return 1 if self.group is None else dist.get_world_size(self.group)

    @property
    def rank(self) -> int:
        """Which of them this is, from 0."""
        return 0 if self.group is None else dist.get_rank(self.group)

    @property
    def alone(self) -> bool:
        """Whether there is no other."""
        return self.group is None

    def check(self, architecture: Architecture, config: TrainConfig) -> None:
        """Raise a ValueError where parts of a batch would not give what the whole gives."""
        if self.alone:
            return
        if isinstance(architecture, MLP) and (architecture.batch_norm or architecture.dropout):
            raise ValueError(
                f"{architecture} cannot be trained by several processes: batch_norm and dropout depend on the whole "
                "batch; give batch_norm=False and dropout=0.0, or another network."
            )
        if config.batch % self.size:
            raise ValueError(f"batch={config.batch} cannot be shared by {self.size} processes: give a multiple.")

    def part(self, batch: Tensor) -> Tensor:
        """This process's part of a batch."""
        return batch.chunk(self.size)[self.rank]

    def mean(self, values: Tensor) -> Tensor:
        """The mean over processes."""
        self.average([values])
        return values

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Replace tensors by their means over all processes, in one message."""
        if self.alone or not tensors:
            return
        flat = torch.cat([tensor.flatten() for tensor in tensors])
        dist.all_reduce(flat, group=self.group)
        parts = (flat / self.size).split([tensor.numel() for tensor in tensors])
        for tensor, part in zip(tensors, parts, strict=True):
            tensor.copy_(part.view_as(tensor))


# The steps.

PLAIN_STEPS = 3  # before the capture, which records what those have allocated
_capturing = threading.Lock()


@final
@dataclass(eq=False)
class Steps:
    """A network, its optimisers, and the block it reads batch by batch."""

    network: Network
    loss: Callable[[Tensor, Tensor], Tensor]
    block: Stacked
    config: TrainConfig
    generator: Generator  # for dropout
    together: Together
    optimizers: Optimizers
    position: Tensor  # of the next batch in the block; on the device, where a captured step reads and moves it
    offsets: Tensor  # where this process's part of a batch is: 0, 1, ...
    total: Tensor  # (models,) training losses, summed over the block's steps
    graph: torch.cuda.CUDAGraph | None = None

    @classmethod
    def start(
        cls,
        network: Network,
        loss: Callable[[Tensor, Tensor], Tensor],
        block: Stacked,
        config: TrainConfig,
        generator: Generator,
        together: Together,
    ) -> "Steps":
        """Make the optimisers, with no step taken."""
        device = generator.device
        return cls(
            network,
            loss,
            block,
            config,
            generator,
            together,
            Optimizers.of(network, config, device),
            position=torch.zeros((), dtype=torch.int64, device=device),
            offsets=together.part(torch.arange(config.batch, device=device)),
            total=torch.zeros(len(block.x), device=device),
        )

    def run(self, first: int) -> Tensor:
        """Take the steps of a block, the first of which has that number; the mean training loss of each network."""
        self.network.train()
        self.position.zero_()
        self.total.zero_()
        for step in range(first, first + self.config.epoch_steps):
            self.optimizers.set_rates(self.config, step)
            if self.graph is not None:
                self.graph.replay()
            elif step - first == PLAIN_STEPS and self.position.is_cuda and self.together.alone:
                self._capture()
            else:
                self._step()
        return self.together.mean(self.total / self.config.epoch_steps)

    def state(self) -> dict[str, Tensor]:
        """The weights and what the optimisers remember, by name."""
        weights = {f"network.{name}": tensor for name, tensor in self.network.state_dict().items()}
        return {**weights, **self.optimizers.state()}

    def restore(self, state: TrainingState) -> None:
        """Take over the weights and moments of a state."""
        self.network.load_state_dict(state.under("network."))
        self.optimizers.restore(state.tensors)

    def _step(self) -> None:
        batch = self.position * self.config.batch + self.offsets
        x = self.block.x.index_select(1, batch).to(torch.float32)  # (models, batch, items)
        rounds = self.network.rounds(self.block.y.index_select(1, batch), self.generator)
        losses = loss_of_rounds(self.loss, rounds, x, self.network.head)
        self.optimizers.zero_grad()
        losses.sum().backward()  # the networks share nothing, so each gets its own gradient
        self.together.average([p.grad for p in self.network.parameters() if p.grad is not None])
        self.optimizers.step()
        self.total += losses.detach()
        self.position += 1

    def _capture(self) -> None:
        """Record a step and take it."""
        self.graph = torch.cuda.CUDAGraph()
        self.graph.register_generator_state(self.generator)
        torch.cuda.synchronize()
        with _tensor_float_32(), torch.cuda.graph(self.graph):
            self._step()
        self.graph.replay()


@contextlib.contextmanager
def _tensor_float_32() -> Iterator[None]:
    """Let a GPU's matrix units take float32 at their faster setting, in what is recorded inside.

    torch has this setting once for a whole process. A captured step keeps what it was recorded with, so it is changed
    for the milliseconds of the capture only, by one thread at a time, and put back before any step is taken.
    """
    with _capturing:
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            yield
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before
