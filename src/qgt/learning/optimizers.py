"""Optimisers: Adam, and Muon for the matrices between hidden layers.

Muon (Jordan et al. 2024) moves a matrix by its momentum with all singular values made about equal: directions that the
gradient seldom shows are learned as fast as common ones. The singular values are made equal by five steps of
X <- a X + (b X X' + c (X X')^2) X, matrix products only. A step has spectral norm of about the learning rate, whatever
the width, so one rate serves networks of all sizes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from qgt.decoders.neural.network import Network
from qgt.decoders.neural.record import TrainConfig

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
