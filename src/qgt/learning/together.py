"""Processes that train one network together: each has a part of every batch, and they average what it gives.

Every process draws the same instances from the same seed, and begins with the same weights. As the averaged gradients
are the same everywhere, so are the weights after each step; nothing else has to be sent.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
import torch.distributed as dist
from torch import Tensor

from qgt.decoders.neural.mlp import MLP
from qgt.decoders.neural.network import Architecture
from qgt.decoders.neural.record import TrainConfig


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
