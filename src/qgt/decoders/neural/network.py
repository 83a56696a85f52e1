"""Networks that turn counts into one score per item, each built for any number of models side by side.

A configuration (`MLP`, `ResidualMLP`) is small and frozen; `build` makes the module. Every module holds a *stack* of
models of one shape: parameters have a leading axis of models, and one batched matrix product serves them all, so that
many small trainings keep a GPU busy as one. A single network is a stack of one.

    module(y)                y: (models, instances, pools)  ->  scores: (models, instances, items)

The MLP is the paper's (appendix "Architectural and Training Details"): after each hidden layer LeakyReLU, BatchNorm,
Dropout; linear output. It works on (models, features, instances) inside, because with the instances last BatchNorm is
one fused kernel for the whole stack and no matrix product needs a copy. The residual network has pre-norm blocks
h + W2 gelu(W1 norm(h)) and returns logits.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Generator, Tensor, nn

from qgt.arguments import fraction, whole

LEVELS: tuple[tuple[int, ...], ...] = (
    (),
    (128,),
    (256,),
    (256, 256),
    (500, 500),
    (256, 512, 256),
    (128, 256, 512, 256, 128),
)
MOST_LAYERS = 1000  # of a network: a layer takes memory and time to build, however few its weights


class Network(nn.Module):
    """A stack of models of one shape: what an architecture builds."""

    def forward(
        self, y: Float[Tensor, "models instances pools"], generator: Generator | None = None
    ) -> Float[Tensor, "models instances items"]:
        """Scores; the generator is for dropout, needed in training mode only."""
        raise NotImplementedError


@runtime_checkable
class Architecture(Protocol):
    """A configuration that builds a network.

    Example:
        >>> import torch
        >>> net = MLP(hidden=(8,)).build(pools=3, items=5, generator=torch.Generator().manual_seed(0))
        >>> net(torch.zeros(1, 2, 3), torch.Generator()).shape
        torch.Size([1, 2, 5])
    """

    @property
    def loss(self) -> str:
        """What it is trained with: "balanced_mse" or "binary_cross_entropy"."""
        ...

    def parameters(self, *, pools: int, items: int) -> int:
        """How many numbers a model holds, running statistics included."""
        ...

    def build(self, *, pools: int, items: int, generator: Generator) -> Network:
        """Make a stack of one model with weights drawn from the generator, on the generator's device."""
        ...


@dataclass(frozen=True)
class MLP:
    """The paper's network: hidden layers of the given widths.

    Example:
        >>> MLP.level(5)
        MLP(hidden=(500, 500), negative_slope=0.01, dropout=0.1, batch_norm=True)
    """

    hidden: Sequence[int] = (500, 500)
    negative_slope: float = 0.01
    dropout: float = 0.1
    batch_norm: bool = True

    def __post_init__(self) -> None:
        if len(self.hidden) > MOST_LAYERS:
            raise ValueError(f"hidden has {len(self.hidden)} layers: give at most {MOST_LAYERS}.")
        object.__setattr__(self, "hidden", tuple(whole("hidden", width, least=1) for width in self.hidden))
        object.__setattr__(self, "negative_slope", fraction("negative_slope", self.negative_slope))
        object.__setattr__(self, "dropout", fraction("dropout", self.dropout))
        if self.dropout == 1.0:
            raise ValueError("dropout=1.0 is not valid: it would drop everything; give less than 1.")

    @classmethod
    def level(cls, level: int) -> "MLP":
        """One of the paper's seven levels of complexity, 1 (linear) to 7 (five hidden layers)."""
        return cls(LEVELS[whole("level", level, least=1, most=len(LEVELS)) - 1])

    @property
    def loss(self) -> str:
        """The paper's loss."""
        return "balanced_mse"

    def parameters(self, *, pools: int, items: int) -> int:
        """How many numbers a model holds: weights and biases, and four per normalised feature."""
        widths = [pools, *self.hidden, items]
        affine = sum((a + 1) * b for a, b in itertools.pairwise(widths))
        return affine + (4 * sum(self.hidden) if self.batch_norm else 0)

    def build(self, *, pools: int, items: int, generator: Generator) -> Network:
        """Make a stack of one model."""
        return _MLPStack(self, pools, items, generator)


@dataclass(frozen=True)
class ResidualMLP:
    """A deeper network for training on fresh data: `blocks` residual blocks of the given width, GELU, logits out.

    Example:
        >>> ResidualMLP(width=512, blocks=6).loss
        'binary_cross_entropy'
    """

    width: int = 512
    blocks: int = 6

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", whole("width", self.width, least=1))
        object.__setattr__(self, "blocks", whole("blocks", self.blocks, least=0, most=MOST_LAYERS))

    @property
    def loss(self) -> str:
        """Its outputs are logits."""
        return "binary_cross_entropy"

    def parameters(self, *, pools: int, items: int) -> int:
        """How many numbers a model holds."""
        block = 2 * self.width + (self.width + 1) * 2 * self.width + (2 * self.width + 1) * self.width
        return (pools + 1) * self.width + self.blocks * block + 2 * self.width + (self.width + 1) * items

    def build(self, *, pools: int, items: int, generator: Generator) -> Network:
        """Make a stack of one model."""
        return _ResidualStack(self, pools, items, generator)


ARCHITECTURES: dict[str, type[MLP] | type[ResidualMLP]] = {"mlp": MLP, "residual": ResidualMLP}


def stack(networks: Iterable[Network]) -> Network:
    """Put networks of one architecture side by side as one stack.

    Networks for fewer pools get zero weights for the pools they lack: counts padded with zeros then change nothing,
    and a zero input gives those weights a zero gradient.
    """
    networks = list(networks)
    stacked = networks[0]
    states = [network.state_dict() for network in networks]
    for name, tensor in [*stacked.named_parameters(), *stacked.named_buffers()]:
        parts = [state[name] for state in states]
        widest = max(part.shape[-1] for part in parts)
        joined = torch.cat([F.pad(part, (0, widest - part.shape[-1])) for part in parts])
        tensor.data = joined
    return stacked


class _Linear(nn.Module):
    """A stack of affine maps. `weight` is (models, out, in), `bias` (models, out)."""

    def __init__(self, inputs: int, outputs: int, generator: Generator, scale: float = 1.0) -> None:
        super().__init__()
        # torch.nn.Linear's own initialisation, drawn from our generator instead of the global one.
        bound = 1 / math.sqrt(inputs)
        draws = torch.rand(1, outputs, inputs + 1, generator=generator, device=generator.device)
        weight, bias = ((2 * draws - 1) * bound).split([inputs, 1], dim=2)
        self.weight = nn.Parameter(scale * weight.contiguous())
        self.bias = nn.Parameter(scale * bias.squeeze(2))

    def columns(self, h: Tensor, scale: float = 1.0) -> Tensor:
        """Map (models, in, instances) to (models, out, instances), the input scaled at no cost."""
        return torch.baddbmm(self.bias[:, :, None], self.weight, h, alpha=scale)

    def rows(self, h: Tensor) -> Tensor:
        """Map (models, instances, in) to (models, instances, out)."""
        return torch.baddbmm(self.bias[:, None, :], h, self.weight.mT)


class _BatchNorm(nn.Module):
    """Batch normalisation of a stack: every (model, feature) is a channel of one call."""

    def __init__(self, features: int, device: torch.device) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, features, device=device))
        self.bias = nn.Parameter(torch.zeros(1, features, device=device))
        self.mean: Tensor
        self.variance: Tensor
        self.register_buffer("mean", torch.zeros(1, features, device=device))
        self.register_buffer("variance", torch.ones(1, features, device=device))

    def forward(self, h: Tensor) -> Tensor:
        channels = h.reshape(1, h.shape[0] * h.shape[1], h.shape[2])  # (1, models * features, instances)
        mean, variance = self.mean.view(-1), self.variance.view(-1)
        weight, bias = self.weight.view(-1), self.bias.view(-1)
        return F.batch_norm(channels, mean, variance, weight, bias, training=self.training).view_as(h)


class _MLPStack(Network):
    def __init__(self, config: MLP, pools: int, items: int, generator: Generator) -> None:
        super().__init__()
        self.config = config
        widths = [pools, *config.hidden]
        pairs = zip(widths, config.hidden, strict=False)
        self.layers = nn.ModuleList(_Linear(a, b, generator) for a, b in pairs)
        norms = (_BatchNorm(width, generator.device) for width in config.hidden)
        self.norms = nn.ModuleList(norms if config.batch_norm else (nn.Identity() for _ in config.hidden))
        self.output = _Linear(widths[-1], items, generator)

    def forward(self, y: Tensor, generator: Generator | None = None) -> Tensor:
        drop = self.config.dropout if self.training else 0.0
        if drop and generator is None:
            raise ValueError("generator=None is not valid in training mode: dropout draws from it.")
        h, scale = y.mT, 1.0  # (models, pools, instances)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            assert isinstance(layer, _Linear)
            h = norm(F.leaky_relu(layer.columns(h, scale), self.config.negative_slope, inplace=self.training))
            if drop and generator is not None:
                mask, scale = keep_mask(h.shape, 1 - drop, generator), 1 / (1 - drop)
                # In place, but for LeakyReLU's own output, which its derivative needs.
                h = h.mul_(mask) if self.config.batch_norm else h * mask
        return self.output.columns(h, scale).mT


class _ResidualBlock(nn.Module):
    def __init__(self, width: int, generator: Generator) -> None:
        super().__init__()
        self.norm = _LayerNorm(width, generator.device)
        self.widen = _Linear(width, 2 * width, generator)
        self.narrow = _Linear(2 * width, width, generator)

    def forward(self, h: Tensor) -> Tensor:
        return h + self.narrow.rows(F.gelu(self.widen.rows(self.norm(h))))


class _LayerNorm(nn.Module):
    """Layer normalisation of a stack: normalise the last axis, then scale and shift by each model's own weights."""

    def __init__(self, features: int, device: torch.device) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, features, device=device))
        self.bias = nn.Parameter(torch.zeros(1, features, device=device))

    def forward(self, h: Tensor) -> Tensor:
        if len(self.weight) == 1:  # one fused kernel
            return F.layer_norm(h, h.shape[-1:], self.weight[0], self.bias[0])
        return torch.addcmul(self.bias[:, None], F.layer_norm(h, h.shape[-1:]), self.weight[:, None])


class _ResidualStack(Network):
    def __init__(self, config: ResidualMLP, pools: int, items: int, generator: Generator) -> None:
        super().__init__()
        self.input = _Linear(pools, config.width, generator)
        self.blocks = nn.Sequential(*(_ResidualBlock(config.width, generator) for _ in range(config.blocks)))
        self.norm = _LayerNorm(config.width, generator.device)
        self.output = _Linear(config.width, items, generator)

    def forward(self, y: Tensor, generator: Generator | None = None) -> Tensor:
        return self.output.rows(self.norm(self.blocks(self.input.rows(y))))


def keep_mask(shape: Sequence[int], probability: float, generator: Generator) -> Tensor:
    """A float mask that is 1 with the given probability and else 0.

    On a CPU drawing numbers is the dear part of dropout. So torch's generator only seeds NumPy's fastest one, and each
    64-bit draw decides four entries, to 16 bits each: the probability is met to within 2^-17.
    """
    if generator.device.type != "cpu":
        return torch.empty(tuple(shape), device=generator.device).bernoulli_(probability, generator=generator)
    size = math.prod(shape)
    seed = int(torch.randint(2**62, (), generator=generator))
    words = np.random.SFC64(seed).random_raw(-(-size // 4))
    bits = torch.from_numpy(words.view(np.int16))[:size].view(*shape)  # uniform on -2^15 .. 2^15 - 1
    last = max(1, round(2**16 * probability)) - 1 - 2**15  # kept up to here; inclusive, to stay within 16 bits
    return (bits <= last).to(torch.float32)
