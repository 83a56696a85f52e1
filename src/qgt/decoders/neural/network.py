"""What a network is: a module that turns counts into one score per item, for any number of models side by side.

A configuration (`MLP`, `ResidualMLP`, `Refining`) is small and frozen; `build` makes the module for a design. Every
module holds a *stack* of models of one shape: parameters have a leading axis of models, and one batched matrix product
serves them all, so that many small trainings keep a GPU busy as one. A single network is a stack of one.

    module(y)                y: (models, instances, pools)  ->  scores: (models, instances, items)

With `loads` it has two inputs for each pool and two outputs for each item, which `heads` explains. Where items have
copies or categories, `heads.Softmax` reads the scores.

A network that is built with `missing` reads NaN as a missing count: its first layer also sees which ones are.

A configuration of one's own may build any module of torch that maps (instances, pools) to (instances, items): `built`
puts it into a stack.
"""

import copy
import inspect
import math
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Generator, Tensor, nn

from qgt.model.design import Design

MOST_LAYERS = 1000  # of a network: a layer takes memory and time to build, however few its weights


class Rounds(NamedTuple):
    """What a network answers in each of its rounds; one that answers once has one round."""

    scores: Float[Tensor, "rounds models instances items"]
    belief: Float[Tensor, "rounds models instances"] | None = None  # logits: is the round's whole answer right?


@runtime_checkable
class Head(Protocol):
    """How a network's scores, as logits, are read."""

    def marginals(self, logits: Float[Tensor, "*rows items"]) -> Float[Tensor, "*rows items"]:
        """The probability that each item is defective."""
        ...

    def logits(self, marginals: Float[Tensor, "*rows items"]) -> Float[Tensor, "*rows items"]:
        """The scores that these probabilities belong to."""
        ...

    def calls(self, logits: Float[Tensor, "*rows items"]) -> Bool[Tensor, "*rows items"]:
        """Which items are called defective."""
        ...

    def doubt(self, logits: Float[Tensor, "*rows items"]) -> Float[Tensor, "*rows"]:
        """The sum of -log of the probabilities of what is called."""
        ...


@dataclass(frozen=True)
class Sigmoid:
    """Each score by itself is the logit of an item's being defective.

    Example:
        >>> import torch
        >>> Sigmoid().marginals(torch.tensor([0.0, 99.0]))
        tensor([0.5000, 1.0000])
    """

    def marginals(self, logits: Float[Tensor, "*rows items"]) -> Float[Tensor, "*rows items"]:
        """The probability that each item is defective."""
        return logits.sigmoid()

    def logits(self, marginals: Float[Tensor, "*rows items"]) -> Float[Tensor, "*rows items"]:
        """The scores that these probabilities belong to."""
        return marginals.logit()

    def calls(self, logits: Float[Tensor, "*rows items"]) -> Bool[Tensor, "*rows items"]:
        """Which items are more probably defective than not."""
        return logits > 0

    def doubt(self, logits: Float[Tensor, "*rows items"]) -> Float[Tensor, "*rows"]:
        """The sum of -log of the probabilities of what is called."""
        return F.softplus(-logits.abs()).sum(-1)


class Network(nn.Module):
    """A stack of models of one shape: what an architecture builds."""

    missing = False  # whether it reads NaN as a missing count
    head: Head = Sigmoid()  # how its scores are read, where they are logits; set by training and by loading

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
    """A configuration that builds a network: `MLP`, `ResidualMLP`, `Refining`, or a frozen dataclass of your own.

    `parameters(pools=..., items=..., missing=..., loads=...)`, the number of weights, is optional.

    Example:
        >>> import torch, qgt
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class OneLayer:
        ...     loss = "binary_cross_entropy"  # scores are logits
        ...
        ...     def build(self, design, *, generator):
        ...         return torch.nn.Linear(design.pools, design.items)
        >>> g = torch.Generator().manual_seed(0)
        >>> problem = qgt.Problem(qgt.Design.bernoulli(pools=6, items=8, generator=g), qgt.Bernoulli(0.1))
        >>> net = qgt.train(problem, OneLayer(), qgt.TrainConfig(instances=500, epochs=2), generator=g)
        >>> net.bind(problem)(problem.simulate(3, generator=g).y).x.shape
        torch.Size([3, 8])
    """

    @property
    def loss(self) -> str:
        """What it is trained with: "balanced_mse" or, where scores are logits, "binary_cross_entropy"."""
        ...

    # Written as an attribute: an architecture of one's own may leave out `missing` and `loads`.
    @property
    def build(self) -> Callable[..., nn.Module]:
        """`build(design, missing=..., loads=..., generator=...)`: a module from (instances, pools) to scores of items.

        `missing` and `loads` are given only where counts may be missing, or items have loads. A `Network`, a stack of
        models, is taken as it is.
        """
        ...


class AnyModule(Network):
    """A stack of modules of torch, each from (instances, pools) to (instances, items).

    The weights have a leading axis of models; a module computes with those of one model at a time.
    """

    def __init__(self, module: nn.Module, *, missing: bool) -> None:
        super().__init__()
        self.module, self.missing = module, missing
        for part in module.modules():
            for name, weight in part._parameters.items():
                if weight is not None:
                    part._parameters[name] = nn.Parameter(weight.detach()[None], weight.requires_grad)
            for name, buffer in part._buffers.items():
                if name == "num_batches_tracked" and buffer is not None:
                    buffer = buffer.float()  # BatchNorm's count of batches: the weights of a model are all float32
                if buffer is not None and buffer.is_floating_point():
                    part._buffers[name] = buffer[None]
                else:
                    part._non_persistent_buffers_set.add(name)  # indices and masks, which `build` makes again

    def forward(self, y: Tensor, generator: Generator | None = None) -> Tensor:
        """The answers of each model's module; the generator is not used, modules of torch have their own."""
        weights: dict[str, Tensor] = dict(self.module.named_parameters())
        weights |= {name: one for name, one in self.module.named_buffers() if one.is_floating_point()}
        with _SWAPPING:
            answers = [
                torch.func.functional_call(self.module, {name: one[i] for name, one in weights.items()}, (counts,))
                for i, counts in enumerate(y)
            ]
        return torch.stack(answers)


_SWAPPING = threading.RLock()  # functional_call puts weights into a module for the length of the call


def built(
    architecture: Architecture, design: Design, *, missing: bool = False, loads: bool = False, generator: Generator
) -> Network:
    """Build a stack of one model, on the generator's device; a module of torch is put into a stack.

    Example:
        >>> from qgt.decoders.neural.mlp import MLP
        >>> design = Design.from_rows(["11000", "01100", "00111"])
        >>> net = built(MLP(hidden=(8,)), design, generator=torch.Generator().manual_seed(0))
        >>> net(torch.zeros(1, 2, 3), torch.Generator()).shape
        torch.Size([1, 2, 5])
    """
    network = _put_together(architecture, design, missing, loads, generator)
    if isinstance(network, AnyModule):
        network.to(generator.device)
        _check_shape(architecture, network, *ends(design.pools, design.items, loads), generator.device)
    return network


def _put_together(
    architecture: Architecture, design: Design, missing: bool, loads: bool, generator: Generator
) -> Network:
    """What an architecture builds, wherever that is."""
    asked = {name: True for name, wanted in (("missing", missing), ("loads", loads)) if wanted}
    taken = inspect.signature(architecture.build).parameters
    for name in asked:
        if name not in taken and all(one.kind is not one.VAR_KEYWORD for one in taken.values()):
            words = {"missing": "missing counts", "loads": "items with loads"}[name]
            raise ValueError(f"{architecture} is not made for {words}: give its build the keyword {name}.")
    module = architecture.build(design, **asked, generator=generator)
    if not isinstance(module, nn.Module):
        raise ValueError(f"{architecture}.build returned {type(module).__name__}: return a torch.nn.Module.")
    return module if isinstance(module, Network) else AnyModule(module, missing=missing)


def _check_shape(
    architecture: Architecture, network: AnyModule, inputs: int, outputs: int, device: torch.device
) -> None:
    with torch.no_grad():
        shape = tuple(network.eval()(torch.zeros(1, 2, inputs, device=device)).shape[1:])
    network.train()
    if shape != (2, outputs):
        raise ValueError(
            f"the module of {architecture} turns (2, {inputs}) into {shape}: it must give (2, {outputs}), one score "
            "for each item."
        )


def number_of_weights(architecture: Architecture, design: Design, *, missing: bool = False, loads: bool = False) -> int:
    """How many numbers a model holds, running statistics included; nothing is drawn and no memory is taken."""
    count = getattr(architecture, "parameters", None)
    if count is not None:
        return int(count(pools=design.pools, items=design.items, missing=missing, loads=loads))
    with torch.device("meta"):
        network = _put_together(architecture, design, missing, loads, torch.Generator())
    return sum(tensor.numel() for tensor in network.state_dict().values())


def stack(networks: Iterable[Network]) -> Network:
    """Put networks of one architecture side by side as one stack.

    Networks for fewer pools get zero weights for the pools they lack: counts padded with zeros then change nothing,
    and a zero input gives those weights a zero gradient.
    """
    networks = list(networks)
    stacked = copy.deepcopy(networks[0])
    tensors = [{**dict(one.named_parameters()), **dict(one.named_buffers())} for one in networks]
    for name, tensor in [*stacked.named_parameters(), *stacked.named_buffers()]:
        if not tensor.is_floating_point():
            continue  # indices of a module of torch: all models share them
        parts = [state[name].detach() for state in tensors]
        widest = max(part.shape[-1] for part in parts)
        tensor.data = torch.cat([F.pad(part, (0, widest - part.shape[-1])) for part in parts])
    return stacked


def ends(pools: int, items: int, loads: bool) -> tuple[int, int]:
    """How many inputs and outputs a network has: two for each pool and each item where items have loads.

    Example:
        >>> ends(16, 40, loads=False), ends(16, 40, loads=True)
        ((16, 40), (32, 80))
    """
    return (2 * pools, 2 * items) if loads else (pools, items)


def without_gaps(y: Tensor) -> tuple[Tensor, Tensor]:
    """Counts with 0 in place of missing ones, and 1 where one is missing."""
    absent = y.isnan()
    return torch.where(absent, 0.0, y), absent.to(y.dtype)


# What networks are made of, each for a stack of models: affine maps, normalisations, dropout masks.
#
# Parameters have a leading axis of models. A last axis that counts pools comes last in every tensor that has one, so
# that `network.stack` can pad it.


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
        weight, bias = self.weight.to(h.dtype), self.bias.to(h.dtype)
        if len(weight) == 1:  # one kernel adds the bias too; a batched product would first fill its result with it
            return F.linear(h.squeeze(0), weight.squeeze(0), bias.squeeze(0)).unsqueeze(0)
        return torch.baddbmm(bias[:, None, :], h, weight.mT)


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
