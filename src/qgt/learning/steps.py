"""Optimiser steps over a block of instances; on a GPU captured as a CUDA graph after a few plain ones.

Several processes can share the work of a step: each takes its part of the batch, and their gradients are averaged, so
that all of them take the step that one process would take with the whole batch.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import final

import torch
from torch import Generator, Tensor

from qgt.decoders.neural.network import Network
from qgt.decoders.neural.record import TrainConfig
from qgt.learning.checkpoints import State
from qgt.learning.data import Stacked
from qgt.learning.loss import loss_of_rounds
from qgt.learning.optimizers import Optimizers
from qgt.learning.together import Together

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

    def restore(self, state: State) -> None:
        """Take over the weights and moments of a state."""
        self.network.load_state_dict(state.under("network."))
        self.optimizers.restore(state.tensors)

    def _step(self) -> None:
        batch = self.position * self.config.batch + self.offsets
        x = self.block.x.index_select(1, batch).to(torch.float32)  # (models, batch, items)
        rounds = self.network.rounds(self.block.y.index_select(1, batch), self.generator)
        losses = loss_of_rounds(self.loss, rounds, x)
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
