"""What networks are made of, each for a stack of models: affine maps, normalisations, dropout masks.

Parameters have a leading axis of models. A last axis that counts pools comes last in every tensor that has one, so
that `network.stack` can pad it.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn


class Linear(nn.Module):
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
        """Map (models, instances, in) to (models, instances, out), in the input's dtype."""
        return torch.baddbmm(self.bias[:, None, :].to(h.dtype), h, self.weight.mT.to(h.dtype))


class BatchNorm(nn.Module):
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
        """Normalise (models, features, instances) over instances."""
        channels = h.reshape(1, h.shape[0] * h.shape[1], h.shape[2])  # (1, models * features, instances)
        mean, variance = self.mean.view(-1), self.variance.view(-1)
        weight, bias = self.weight.view(-1), self.bias.view(-1)
        return F.batch_norm(channels, mean, variance, weight, bias, training=self.training).view_as(h)


class LayerNorm(nn.Module):
    """Layer normalisation of a stack: normalise the last axis, then scale and shift by each model's own weights."""

    def __init__(self, features: int, device: torch.device) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, features, device=device))
        self.bias = nn.Parameter(torch.zeros(1, features, device=device))

    def forward(self, h: Tensor) -> Tensor:
        """Normalise (models, instances, features), in its dtype."""
        weight, bias = self.weight.to(h.dtype), self.bias.to(h.dtype)
        if len(weight) == 1:  # one fused kernel
            return F.layer_norm(h, h.shape[-1:], weight[0], bias[0])
        return torch.addcmul(bias[:, None], F.layer_norm(h, h.shape[-1:]), weight[:, None])


def inner_dtype(network: nn.Module, y: Tensor) -> torch.dtype:
    """What a network's blocks compute in: bfloat16 while it trains on a GPU, whose matrix units are made for it.

    Only the blocks: counts, residuals, logits and weights stay float32. Nothing outside the network changes, so other
    threads are not concerned.
    """
    return torch.bfloat16 if network.training and y.is_cuda else y.dtype


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
