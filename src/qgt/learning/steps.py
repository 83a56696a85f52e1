"""Optimiser steps over a block of instances; on a GPU captured as a CUDA graph after a few plain ones."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import torch
from torch import Generator, Tensor

from qgt.decoders.neural.network import Network
from qgt.decoders.neural.settings import TrainConfig
from qgt.learning.checkpoints import State
from qgt.learning.data import Stacked

PLAIN_STEPS = 3  # before the capture, which records what those have allocated


@final
@dataclass(eq=False)
class Steps:
    """A network, its optimiser, and the block it reads batch by batch."""

    network: Network
    loss: Callable[[Tensor, Tensor], Tensor]
    block: Stacked
    config: TrainConfig
    generator: Generator  # for dropout
    optimizer: torch.optim.Adam
    position: Tensor  # of the next batch in the block; on the device, where a captured step reads and moves it
    offsets: Tensor  # (batch,) 0, 1, ...
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
    ) -> "Steps":
        """Make the optimiser, with no step taken."""
        device = generator.device
        captured = device.type == "cuda"
        return cls(
            network,
            loss,
            block,
            config,
            generator,
            torch.optim.Adam(
                network.parameters(),
                # A captured step reads its learning rate from the device; elsewhere a plain number is faster.
                lr=torch.tensor(config.learning_rate, device=device) if captured else config.learning_rate,
                fused=True,
                capturable=captured,
            ),
            position=torch.zeros((), dtype=torch.int64, device=device),
            offsets=torch.arange(config.batch, device=device),
            total=torch.zeros(len(block.x), device=device),
        )

    def run(self, first: int) -> Tensor:
        """Take the steps of a block, the first of which has that number; the mean training loss of each network."""
        self.network.train()
        self.position.zero_()
        self.total.zero_()
        for step in range(first, first + self.config.epoch_steps):
            self._set_rate(step)
            if self.graph is not None:
                self.graph.replay()
            elif step - first == PLAIN_STEPS and self.position.device.type == "cuda":
                self._capture()
            else:
                self._step()
        return self.total / self.config.epoch_steps

    def state(self) -> dict[str, Tensor]:
        """The weights and the optimiser's moments, by name."""
        tensors = {f"network.{name}": tensor for name, tensor in self.network.state_dict().items()}
        for i, parameter in enumerate(self.network.parameters()):
            tensors |= {f"adam.{i}.{key}": value for key, value in self.optimizer.state[parameter].items()}
        return tensors

    def restore(self, state: State) -> None:
        """Take over the weights and moments of a state."""
        self.network.load_state_dict(state.under("network."))
        for i, parameter in enumerate(self.network.parameters()):
            moments = state.under(f"adam.{i}.")
            self.optimizer.state[parameter] = {k: tensor.to(self.position.device) for k, tensor in moments.items()}

    def _set_rate(self, step: int) -> None:
        group, rate = self.optimizer.param_groups[0], self.config.rate_at(step)
        if not isinstance(group["lr"], Tensor):
            group["lr"] = rate
        elif self.config.cosine:
            group["lr"].fill_(rate)

    def _step(self) -> None:
        batch = self.position * len(self.offsets) + self.offsets
        x = self.block.x.index_select(1, batch).to(torch.float32)  # (models, batch, items)
        losses = self.loss(self.network(self.block.y.index_select(1, batch), self.generator), x)
        self.optimizer.zero_grad()
        losses.sum().backward()  # the networks share nothing, so each gets its own gradient
        self.optimizer.step()
        self.total += losses.detach()
        self.position += 1

    def _capture(self) -> None:
        """Record a step and take it."""
        self.graph = torch.cuda.CUDAGraph()
        self.graph.register_generator_state(self.generator)
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph):
            self._step()
        self.graph.replay()
