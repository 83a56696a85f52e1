"""Networks that answer once: the paper's, and a deeper one of residual blocks.

The MLP is the paper's (appendix "Architectural and Training Details"): after each hidden layer LeakyReLU, BatchNorm,
Dropout; linear output. It works on (models, features, instances) inside, because with the instances last BatchNorm is
one fused kernel for the whole stack and no matrix product needs a copy. The residual network has pre-norm blocks
h + W2 gelu(W1 norm(h)) and returns logits.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from qgt.arguments import fraction, whole
from qgt.decoders.neural.network import (
    MOST_LAYERS,
    BatchNorm,
    LayerNorm,
    Linear,
    Network,
    ends,
    inner_dtype,
    keep_mask,
    without_gaps,
)
from qgt.model.design import Design

LEVELS: tuple[tuple[int, ...], ...] = (
    (),
    (128,),
    (256,),
    (256, 256),
    (500, 500),
    (256, 512, 256),
    (128, 256, 512, 256, 128),
)


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

    def parameters(self, *, pools: int, items: int, missing: bool = False, loads: bool = False) -> int:
        """How many numbers a model holds: weights and biases, and four per normalised feature."""
        pools, items = ends(pools, items, loads)
        widths = [pools, *self.hidden, items]
        affine = sum((a + 1) * b for a, b in itertools.pairwise(widths))
        return affine + (4 * sum(self.hidden) if self.batch_norm else 0) + (pools * widths[1] if missing else 0)

    def build(self, design: Design, *, missing: bool = False, loads: bool = False, generator: Generator) -> Network:
        """Make a stack of one model."""
        return _MLPStack(self, *ends(design.pools, design.items, loads), missing, generator)


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

    def parameters(self, *, pools: int, items: int, missing: bool = False, loads: bool = False) -> int:
        """How many numbers a model holds."""
        block = 2 * self.width + (self.width + 1) * 2 * self.width + (2 * self.width + 1) * self.width
        pools, items = ends(pools, items, loads)
        first = (pools + 1 + (pools if missing else 0)) * self.width
        return first + self.blocks * block + 2 * self.width + (self.width + 1) * items

    def build(self, design: Design, *, missing: bool = False, loads: bool = False, generator: Generator) -> Network:
        """Make a stack of one model."""
        return _ResidualStack(self, *ends(design.pools, design.items, loads), missing, generator)


class _MLPStack(Network):
    def __init__(self, config: MLP, inputs: int, outputs: int, missing: bool, generator: Generator) -> None:
        super().__init__()
        self.config, self.missing = config, missing
        widths = [inputs, *config.hidden]
        pairs = zip(widths, config.hidden, strict=False)
        self.layers = nn.ModuleList(Linear(a, b, generator) for a, b in pairs)
        norms = (BatchNorm(width, generator.device) for width in config.hidden)
        self.norms = nn.ModuleList(norms if config.batch_norm else (nn.Identity() for _ in config.hidden))
        self.output = Linear(widths[-1], outputs, generator)
        if missing:
            first = (*config.hidden, outputs)[0]
            self.absent = nn.Parameter(torch.zeros(1, first, inputs, device=generator.device))

    def inner_matrices(self) -> list[nn.Parameter]:
        return [p for layer in self.layers[1:] for p in layer.parameters() if p.dim() == 3]

    def forward(self, y: Tensor, generator: Generator | None = None) -> Tensor:
        drop = self.config.dropout if self.training else 0.0
        if drop and generator is None:
            raise ValueError("generator=None is not valid in training mode: dropout draws from it.")
        extra: Tensor | None = None  # what missing counts add to the first layer
        if self.missing:
            y, absent = without_gaps(y)
            extra = self.absent @ absent.mT  # (models, first width, instances)
        h, scale = y.mT, 1.0  # (models, pools, instances)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            assert isinstance(layer, Linear)
            h = layer.columns(h, scale) if extra is None else layer.columns(h, scale) + extra
            h, extra = norm(F.leaky_relu(h, self.config.negative_slope, inplace=self.training)), None
            if drop and generator is not None:
                mask, scale = keep_mask(h.shape, 1 - drop, generator), 1 / (1 - drop)
                # In place, but for LeakyReLU's own output, which its derivative needs.
                h = h.mul_(mask) if self.config.batch_norm else h * mask
        scores = self.output.columns(h, scale)
        return (scores if extra is None else scores + extra).mT


class _ResidualBlock(nn.Module):
    def __init__(self, width: int, generator: Generator) -> None:
        super().__init__()
        self.norm = LayerNorm(width, generator.device)
        self.widen = Linear(width, 2 * width, generator)
        self.narrow = Linear(2 * width, width, generator)

    def forward(self, h: Tensor) -> Tensor:
        return h + self.narrow.rows(F.gelu(self.widen.rows(self.norm(h))))


class _ResidualStack(Network):
    def __init__(self, config: ResidualMLP, inputs: int, outputs: int, missing: bool, generator: Generator) -> None:
        super().__init__()
        self.missing = missing
        self.input = Linear(inputs, config.width, generator)
        self.blocks = nn.Sequential(*(_ResidualBlock(config.width, generator) for _ in range(config.blocks)))
        self.norm = LayerNorm(config.width, generator.device)
        self.output = Linear(config.width, outputs, generator)
        if missing:
            self.absent = nn.Parameter(torch.zeros(1, config.width, inputs, device=generator.device))

    def inner_matrices(self) -> list[nn.Parameter]:
        return [p for p in self.blocks.parameters() if p.dim() == 3]

    def forward(self, y: Tensor, generator: Generator | None = None) -> Tensor:
        if self.missing:
            y, absent = without_gaps(y)
            h = self.input.rows(y) + absent @ self.absent.mT
        else:
            h = self.input.rows(y)
        h = self.blocks(h.to(inner_dtype(self, y)))
        return self.output.rows(self.norm(h).to(y.dtype))
