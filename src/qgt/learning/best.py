"""The best weights so far of each network of a stack, by its own validation loss, and when to give up waiting."""

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from qgt.decoders.neural.network import Network
from qgt.decoders.neural.record import TrainConfig
from qgt.learning.checkpoints import State


@final
@dataclass(eq=False)
class Best:
    """What has been best until now."""

    weights: dict[str, Tensor]
    loss: Tensor  # (models,) infinite where there is none
    waited: Tensor  # (models,) epochs since
    patience: int

    @classmethod
    def start(cls, network: Network, models: int, config: TrainConfig, device: torch.device) -> "Best":
        """Nothing yet."""
        return cls(
            {name: tensor.clone() for name, tensor in network.state_dict().items()},
            torch.full((models,), torch.inf, device=device),
            torch.zeros(models, dtype=torch.int64, device=device),
            config.patience or config.epochs + 1,
        )

    @property
    def training(self) -> Tensor:
        """Which networks have not yet run out of patience."""
        return self.waited < self.patience

    @property
    def diverged(self) -> bool:
        """Whether a network never had a finite validation loss."""
        return bool((self.loss == torch.inf).any())

    def update(self, weights: dict[str, Tensor], loss: Tensor) -> Tensor:
        """Remember what is better than before; which networks' is."""
        better = self.training & (loss < self.loss)
        self.weights = {
            name: torch.where(better.view(-1, *[1] * (tensor.dim() - 1)), tensor, self.weights[name])
            for name, tensor in weights.items()
        }
        self.loss = torch.where(better, loss, self.loss)
        self.waited = torch.where(better, 0, self.waited + 1)
        return better

    def weights_of(self, i: int) -> dict[str, Tensor]:
        """One network's, as a stack of one."""
        return {name: tensor[i : i + 1] for name, tensor in self.weights.items()}

    def state(self) -> dict[str, Tensor]:
        """All of it, by name."""
        weights = {f"best.{name}": tensor for name, tensor in self.weights.items()}
        return {**weights, "best_loss": self.loss, "waited": self.waited}

    def restore(self, state: State) -> None:
        """Take over what a state remembers."""
        device = self.loss.device
        self.weights = {name: tensor.to(device) for name, tensor in state.under("best.").items()}
        self.loss, self.waited = state.tensors["best_loss"].to(device), state.tensors["waited"].to(device)
