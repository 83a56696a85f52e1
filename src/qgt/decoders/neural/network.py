"""What a network is: a module that turns counts into one score per item, for any number of models side by side.

A configuration (`MLP`, `ResidualMLP`, `Refining`) is small and frozen; `build` makes the module for a design. Every
module holds a *stack* of models of one shape: parameters have a leading axis of models, and one batched matrix product
serves them all, so that many small trainings keep a GPU busy as one. A single network is a stack of one.

    module(y)                y: (models, instances, pools)  ->  scores: (models, instances, items)

A network that is built with `missing` reads NaN as a missing count: its first layer also sees which ones are.
"""

import copy
from collections.abc import Iterable
from typing import NamedTuple, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Generator, Tensor, nn

from qgt.model.design import Design

MOST_LAYERS = 1000  # of a network: a layer takes memory and time to build, however few its weights


class Rounds(NamedTuple):
    """What a network answers in each of its rounds; one that answers once has one round."""

    scores: Float[Tensor, "rounds models instances items"]
    belief: Float[Tensor, "rounds models instances"] | None = None  # logits: is the round's whole answer right?


class Network(nn.Module):
    """A stack of models of one shape: what an architecture builds."""

    missing = False  # whether it reads NaN as a missing count

    def forward(
        self, y: Float[Tensor, "models instances pools"], generator: Generator | None = None
    ) -> Float[Tensor, "models instances items"]:
        """Scores; the generator is for dropout, needed in training mode only."""
        raise NotImplementedError

    def rounds(self, y: Float[Tensor, "models instances pools"], generator: Generator | None = None) -> Rounds:
        """The answers of all rounds, which training has a loss on."""
        return Rounds(self(y, generator)[None])

    def inner_matrices(self) -> list[nn.Parameter]:
        """The matrices (models, out, in) from one hidden layer to another, which an optimiser may treat apart."""
        return []

    def prepare(self, x: Tensor, y: Float[Tensor, "models instances pools"]) -> None:
        """Look at instances once before training, to begin at the right scale."""


@runtime_checkable
class Architecture(Protocol):
    """A configuration that builds a network.

    Example:
        >>> import torch, qgt
        >>> design = qgt.Design.from_rows(["11000", "01100", "00111"])
        >>> net = qgt.MLP(hidden=(8,)).build(design, generator=torch.Generator().manual_seed(0))
        >>> net(torch.zeros(1, 2, 3), torch.Generator()).shape
        torch.Size([1, 2, 5])
    """

    @property
    def loss(self) -> str:
        """What it is trained with: "balanced_mse" or "binary_cross_entropy"."""
        ...

    def parameters(self, *, pools: int, items: int, missing: bool = False) -> int:
        """How many numbers a model holds, running statistics included."""
        ...

    def build(self, design: Design, *, missing: bool = False, generator: Generator) -> Network:
        """Make a stack of one model with weights drawn from the generator, on the generator's device."""
        ...


def stack(networks: Iterable[Network]) -> Network:
    """Put networks of one architecture side by side as one stack.

    Networks for fewer pools get zero weights for the pools they lack: counts padded with zeros then change nothing,
    and a zero input gives those weights a zero gradient.
    """
    networks = list(networks)
    stacked = copy.deepcopy(networks[0])
    tensors = [{**dict(one.named_parameters()), **dict(one.named_buffers())} for one in networks]
    for name, tensor in [*stacked.named_parameters(), *stacked.named_buffers()]:
        parts = [state[name].detach() for state in tensors]
        widest = max(part.shape[-1] for part in parts)
        tensor.data = torch.cat([F.pad(part, (0, widest - part.shape[-1])) for part in parts])
    return stacked


def without_gaps(y: Tensor) -> tuple[Tensor, Tensor]:
    """Counts with 0 in place of missing ones, and 1 where one is missing."""
    absent = y.isnan()
    return torch.where(absent, 0.0, y), absent.to(y.dtype)
