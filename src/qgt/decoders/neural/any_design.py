"""One network for any design: messages between items and pools, whose weights serve all rounds and all designs.

The design, the prior and the noise are inputs. A pool is shown what its report says about its total: the log
likelihoods log P(y | total) over a window of totals, whatever the noise is called; a missing report has zeros. An item
is shown the logit of its own rate. In each round the current probabilities x give every pool a total that is roughly
normal, with mean m = A x - c v g (g from the round before, c learned: Onsager's correction) and variance
v = A (x (1 - x)). With E(m) = sum over totals of P(y | total) N(total; m, v) a pool tells an item

    log E(m + 1) - log E(m)         if the item has not been counted in m,
    log E(m) - log E(m - 1)         if it has,

which is relaxed belief propagation with the exact channel. A dense design has nearly the same total of all items in
every pool. So the number of defective items is an unknown of its own (as in GAMP), and pools tell items about
deviations from it. The network sees these numbers, sums of hidden vectors over pools and items, and decides how far to
follow:

    pools   g_a <- norm(g_a + MLP(g_a, sum of h over the items of the pool, numbers of the pool))
    items   h_i <- norm(h_i + MLP(h_i, sum of g over the pools of the item, numbers of the item))
    logits  l_i <- l_i + step(h_i) (w . h_i + gate(h_i) (prior logit + what the pools tell) - l_i)

A sum runs over the deviations from the mean of all items (or pools) and is divided by the square root of
s (1 - s / N), s the number of terms: its variance then does not depend on N, M or the design's density. The mean itself
is shown apart. Sums are products with the dense matrix: up to some thousand items the two MLPs cost more than they do,
so lists of edges would not pay.

The decoder judges every round's calls by the exact posterior, log P(x, y), and the most probable calls win. An
instance whose answer the network itself believes (the product of its probabilities) is settled. An unsettled instance
is tried again: its most doubtful item is taken to be the opposite of what was called, by its prior; then the second
most doubtful, and so on. The judge always uses the true prior. So a try can find a better answer and cannot spoil one.

`pretrained` loads the weights that ship with the package. Their file says how they were trained, and for which ranges.
"""

import math
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from qgt.arguments import whole
from qgt.decoders.contract import BoundDecoder, no_amounts, refuse_unsupported
from qgt.decoders.neural import model_file
from qgt.decoders.neural.model_file import ModelFileError
from qgt.decoders.neural.network import MOST_LAYERS, Linear
from qgt.decoders.results import Decoded, Evidence, Status
from qgt.files import codec
from qgt.model.design import Design
from qgt.model.factors import PoolCosts, pool_costs
from qgt.model.prior import Prior
from qgt.model.problem import Problem

# The network.

LEAST_LOG = -30.0  # of a likelihood: what is impossible is shown as this unlikely
SMOOTHING = 0.02  # added to variances: totals are whole, and a normal curve much narrower than 1 has no gradient
TOLD = 10.0  # largest log ratio that one pool tells an item
LARGEST_LOGIT = 15.0
NUMBER_STEP = 0.7  # how far the number of defective items moves in a round
GATE, STEP, CORRECTION = 2.0, -1.0, 2.0  # logits that training begins at: nearly belief propagation, damped
POOL_NUMBERS, ITEM_NUMBERS = 12, 9


class Seen(NamedTuple):
    """What the network is shown of some instances; designs may differ from instance to instance."""

    A: Tensor  # (instances, pools, items), 0 or 1
    prior: Tensor  # (instances, items): logits of the items' own rates
    tables: Tensor  # (instances, pools, totals): log likelihoods, at most 0, at least LEAST_LOG
    first: Tensor  # (instances, pools): the total of each table's first entry
    items: Tensor  # (instances, items): 1, or 0 for an item that only fills the shape
    pools: Tensor  # (instances, pools): the same of pools


class State(NamedTuple):
    """What a round leaves for the next."""

    h: Tensor  # (instances, items, width)
    g: Tensor  # (instances, pools, width)
    logits: Tensor  # (instances, items)
    pull: Tensor  # (instances, pools): how much each pool pulls its mean, for Onsager's correction
    number: Tensor  # (instances, 1): how many items are defective, as the pools together see it
    doubt: Tensor  # (instances, 1): the variance of that


class Fixed(NamedTuple):
    """What stays the same from round to round."""

    seen: Seen
    totals: Tensor  # (instances, pools, totals)
    means: tuple[Tensor, Tensor]  # weights of items and pools in the means over them
    shares: Tensor  # (instances, pools): of all items, that are in the pool
    scales: tuple[Tensor, Tensor]  # what sums over items, (instances, pools, 1), and over pools are divided by
    pool_numbers: Tensor  # (instances, pools, 4)
    item_numbers: Tensor  # (instances, items, 2)

    def at(self, rows: Tensor) -> "Fixed":
        """Some instances."""
        seen = Seen(*(part[rows] for part in self.seen))
        means, scales = ((pair[0][rows], pair[1][rows]) for pair in (self.means, self.scales))
        numbers = self.pool_numbers[rows], self.item_numbers[rows]
        return Fixed(seen, self.totals[rows], means, self.shares[rows], scales, *numbers)


class MessageNetwork(nn.Module):
    """The network; `width` is that of hidden vectors, `inside` that of the two hidden layers of each MLP."""

    def __init__(self, *, width: int, inside: int, generator: Generator) -> None:
        super().__init__()
        self.width, self.inside = width, inside
        self.up, self.down = Linear(width, width, generator), Linear(width, width, generator)
        self.pool_mean, self.item_mean = Linear(width, inside, generator), Linear(2 * width, inside, generator)
        self.pool = _mlp(2 * width + POOL_NUMBERS, inside, width, generator)
        self.item = _mlp(2 * width + ITEM_NUMBERS, inside, width, generator)
        self.heads = Linear(width, 3, generator, scale=0.0)  # of the logit, the gate and the step
        device = generator.device
        self.pool_scale, self.item_scale = (nn.Parameter(torch.ones(width, device=device)) for _ in range(2))
        self.pool_shift, self.item_shift = (nn.Parameter(torch.zeros(width, device=device)) for _ in range(2))
        self.correction = nn.Parameter(torch.tensor(CORRECTION, device=device))
        with torch.no_grad():
            self.heads.bias.copy_(torch.tensor([[0.0, GATE, STEP]]))

    def begin(self, seen: Seen, start: Tensor | None = None) -> tuple[Fixed, State]:
        """What the first round sees; `start` (instances, items) is added to the logits that it begins with."""
        fixed = fixed_numbers(seen)
        n, pools, items = seen.A.shape
        dtype = self.inner_dtype(seen.A)
        h = torch.zeros(n, items, self.width, dtype=dtype, device=seen.A.device)
        g = torch.zeros(n, pools, self.width, dtype=dtype, device=seen.A.device)
        logits = seen.prior if start is None else seen.prior + start
        number, doubt = _number_prior(seen)
        return fixed, State(h, g, logits, torch.zeros_like(seen.first), number, doubt)

    def inner_dtype(self, like: Tensor) -> torch.dtype:
        """What hidden vectors are: bfloat16 while it trains on a GPU, otherwise what the network is shown."""
        return torch.bfloat16 if self.training and like.is_cuda else like.dtype

    def each(self, seen: Seen, rounds: int, start: Tensor | None = None) -> Iterator[Tensor]:
        """The logits (instances, items) of one round after the other."""
        fixed, state = self.begin(seen, start)
        for _ in range(rounds):
            state = self.round(fixed, state)
            yield state.logits

    def round(self, fixed: Fixed, state: State) -> State:
        """One round: pools first, then items."""
        seen, dtype = fixed.seen, state.h.dtype
        x = state.logits.sigmoid() * seen.items  # (instances, items)
        calls = (state.logits > 0).to(x.dtype) * seen.items
        spread = x * (1 - x)
        sums = seen.A @ torch.stack([x, spread, spread * (1 - 2 * x), calls], 2)  # (instances, pools, 4)
        share = fixed.shares
        v = (1 - 2 * share) * sums[..., 1] + share.square() * (spread.sum(1, keepdim=True) + state.doubt) + SMOOTHING
        m = sums[..., 0] + share * (state.number - x.sum(1, keepdim=True)) - self.correction.sigmoid() * v * state.pull
        channel = _channel(fixed, m, v)
        numbers = _pool_numbers(fixed, m, v, sums[..., 2], sums[..., 3], channel)
        messages = torch.stack([channel.more, channel.less, channel.pull, channel.sharp], 2)
        told = seen.A.mT @ messages  # (instances, items, 4)
        told = torch.cat([told[..., :3] - (share * channel.pull).sum(1)[:, None, None], told[..., 3:]], 2)
        number, doubt = _number(seen, share, channel, state)
        field = (1 - x) * told[..., 0] + x * told[..., 1]  # (instances, items)

        A = seen.A.to(dtype)
        heard = A @ self._apart(self.up, state.h, fixed.means[0]) * fixed.scales[0].to(dtype)
        overall = self._mean(state.h, fixed.means[0])
        both = torch.cat([state.g, heard, numbers.to(dtype)], 2)
        g = state.g + _through(self.pool, both, self.pool_mean, overall)
        g = _norm(g, self.pool_scale, self.pool_shift) * seen.pools[..., None].to(dtype)

        heard = A.mT @ self._apart(self.down, g, fixed.means[1]) * fixed.scales[1].to(dtype)
        overall = torch.cat([overall, self._mean(g, fixed.means[1])], 1)
        both = torch.cat([state.h, heard, _item_numbers(fixed, state.logits, x, field, told).to(dtype)], 2)
        h = state.h + _through(self.item, both, self.item_mean, overall)
        h = _norm(h, self.item_scale, self.item_shift) * seen.items[..., None].to(dtype)

        outcome = self.heads.rows(h[None])[0].to(x.dtype)
        follow = (seen.prior + field).clamp(-LARGEST_LOGIT, LARGEST_LOGIT)
        logits = outcome[..., 0] + outcome[..., 1].sigmoid() * follow
        logits = torch.lerp(state.logits, logits, outcome[..., 2].sigmoid())
        return State(h, g, logits.clamp(-2 * LARGEST_LOGIT, 2 * LARGEST_LOGIT), channel.pull, number, doubt)

    def _apart(self, linear: Linear, h: Tensor, weights: Tensor) -> Tensor:
        """Hidden vectors, mapped, as deviations from their mean; those that fill the shape stay out of all sums."""
        mapped = linear.rows(h[None])[0]
        mean = torch.einsum("bnd,bn->bd", mapped, weights.to(mapped.dtype))
        return mapped - mean[:, None]

    def _mean(self, h: Tensor, weights: Tensor) -> Tensor:
        return torch.einsum("bnd,bn->bd", h, weights.to(h.dtype))  # (instances, width)

    def inner_matrices(self) -> list[nn.Parameter]:
        """The matrices (1, out, in) that an optimiser may treat apart: all but the heads."""
        return [p for name, p in self.named_parameters() if p.dim() == 3 and not name.startswith("heads")]


def fixed_numbers(seen: Seen) -> Fixed:
    """Totals, weights, scales and numbers that need computing once."""
    items, pools = seen.items.sum(1, keepdim=True), seen.pools.sum(1, keepdim=True)
    sizes, degrees = seen.A.sum(2), seen.A.sum(1)
    totals = seen.first[..., None] + torch.arange(seen.tables.shape[2], device=seen.first.device)
    scales = _scale(sizes, items), _scale(degrees, pools)
    likely = seen.tables.softmax(2)
    report = (likely * totals).sum(2)
    blur = (likely * (totals - report[..., None]).square()).sum(2)
    known = (seen.tables.amin(2) < 0).to(report.dtype)
    pool_numbers = torch.stack([report, (blur + 0.05).log() / 3, (sizes / items + 0.01).log() / 2, known], 2)
    item_numbers = torch.stack([(degrees / pools + 0.01).log() / 2, (pools / items + 0.01).log().expand_as(degrees)], 2)
    return Fixed(
        seen, totals, (seen.items / items, seen.pools / pools), sizes / items, scales, pool_numbers, item_numbers
    )


def _scale(terms: Tensor, of: Tensor) -> Tensor:
    return (terms * (1 - terms / of)).clamp(min=0.5).rsqrt()[..., None]


def _number_prior(seen: Seen) -> tuple[Tensor, Tensor]:
    rate = seen.prior.sigmoid() * seen.items
    return rate.sum(1, keepdim=True), (rate * (1 - rate)).sum(1, keepdim=True) + SMOOTHING


def _number(seen: Seen, share: Tensor, channel: "_Channel", state: State) -> tuple[Tensor, Tensor]:
    """The number of defective items and its variance: what the pools pull at, beside its prior."""
    mean, variance = _number_prior(seen)
    sharp = 1 / variance + (share.square() * channel.sharp.clamp(min=0)).sum(1, keepdim=True)
    pull = (mean - state.number) / variance + (share * channel.pull).sum(1, keepdim=True)
    return state.number + NUMBER_STEP * pull / sharp, 1 / sharp


class _Channel(NamedTuple):
    """What a pool's report says, given what the others believe: each (instances, pools)."""

    mean: Tensor  # of its total
    variance: Tensor
    evidence: Tensor  # log E(m)
    more: Tensor  # log E(m + 1) - log E(m)
    less: Tensor  # log E(m) - log E(m - 1)
    pull: Tensor  # (mean - m) / v, GAMP's
    sharp: Tensor  # (1 - variance / v) / v


def _channel(fixed: Fixed, m: Tensor, v: Tensor) -> _Channel:
    away = fixed.totals - m[..., None]  # (instances, pools, totals)
    half = 0.5 / v[..., None]
    at = fixed.seen.tables - away.square() * half
    evidence = at.logsumexp(2)
    # N(t; m + 1) differs from N(t; m) by a straight line in t.
    more = (at + (2 * away - 1) * half).logsumexp(2) - evidence
    less = evidence - (at - (2 * away + 1) * half).logsumexp(2)
    weights = (at - evidence[..., None]).exp()
    moved = (weights * away).sum(2)
    variance = (weights * (away - moved[..., None]).square()).sum(2)
    known = fixed.pool_numbers[..., 3]  # a missing report tells nothing, and its window is not all totals
    pull, sharp = known * moved / v, known * (1 - variance / v) / v
    return _Channel(
        m + known * moved,
        torch.where(known > 0, variance, v),
        known * (evidence - 0.5 * (6.2832 * v).log()),
        known * more.clamp(-TOLD, TOLD),
        known * less.clamp(-TOLD, TOLD),
        pull.clamp(-TOLD, TOLD),
        sharp.clamp(-TOLD, TOLD),
    )


def _pool_numbers(fixed: Fixed, m: Tensor, v: Tensor, skew: Tensor, called: Tensor, channel: _Channel) -> Tensor:
    report, blur, size, known = fixed.pool_numbers.unbind(2)
    place = (called - fixed.seen.first).round().to(torch.int64)
    inside = (place >= 0) & (place < fixed.totals.shape[2])
    found = fixed.seen.tables.gather(2, place.clamp(0, fixed.totals.shape[2] - 1)[..., None])[..., 0]
    of_calls = torch.where(inside, found, LEAST_LOG) * known
    numbers = [
        known * (report - m) / (v + 1).sqrt(),
        (channel.mean - m) / (v + 0.05).sqrt(),
        (channel.variance / v).clamp(max=3.0),
        (v + 0.05).log() / 3,
        blur,
        channel.evidence.clamp(min=-20) / 5,
        channel.more / 5,
        channel.less / 5,
        of_calls.clamp(min=-10) / 5,
        (known * (report - called)).clamp(-10, 10) / 3,
        skew / (v + 0.05),
        size,
    ]
    return torch.stack([number.clamp(-6, 6) for number in numbers], 2)


def _item_numbers(fixed: Fixed, logits: Tensor, x: Tensor, field: Tensor, told: Tensor) -> Tensor:
    sharp = told[..., 3].clamp(min=1e-3)
    gamp = told[..., 2] + sharp * (x - 0.5)
    numbers = [
        field / 5,
        gamp / 5,
        (fixed.seen.prior + field) / 5,
        sharp.log() / 3,
        x,
        logits / 5,
        fixed.seen.prior / 5,
        *fixed.item_numbers.unbind(2),
    ]
    return torch.stack([number.clamp(-6, 6) for number in numbers], 2)


def _mlp(inputs: int, inside: int, outputs: int, generator: Generator) -> nn.ModuleList:
    return nn.ModuleList(
        [
            Linear(inputs, inside, generator),
            Linear(inside, inside, generator),
            Linear(inside, outputs, generator, scale=0.1),
        ]
    )


def _through(layers: nn.ModuleList, both: Tensor, of_mean: Linear, mean: Tensor) -> Tensor:
    first, second, last = layers
    assert isinstance(first, Linear) and isinstance(second, Linear) and isinstance(last, Linear)
    inner = F.gelu(first.rows(both[None]) + of_mean.rows(mean[None])[:, :, None])
    return last.rows(F.gelu(second.rows(inner)))[0]


def _norm(h: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    return F.layer_norm(h, h.shape[-1:], scale.to(h.dtype), shift.to(h.dtype))


# The decoder.

KIND = "any_design"
SHIPPED = "any_design.safetensors"
LARGEST_MATRIX = 2**24  # entries of a design: the matrix is dense here, and each instance has hidden vectors beside it
# Entries of a design that is decoded in float64: there it costs little, and rounding, which grows from round to round
# where counts say little, does not make an instance in a batch differ from the same instance alone.
SMALL_MATRIX = 2**11
HIDDEN_AT_A_TIME = 2**24  # numbers of hidden vectors held at a time
WINDOW = 64  # totals of a table that are looked at, where a pool has more
SETTLED = math.log(0.98)  # the network's own log probability of its calls from which on they stand
BELIEF_MARGIN = 0.01  # beliefs this close are equal: rounding must not decide whose probabilities are given
DOUBT = 5.0  # the logit of an item that is taken to be the opposite of what was called
LEAST_RATE = 1e-6
LEAST_PART = 8  # instances that a thread decodes together at least
ROUNDS, TRIES = 24, 24
TRIES_TOGETHER = 8  # tries of an instance that are made side by side


class OutsideTraining(UserWarning):
    """A problem is outside of what a pretrained network was trained on."""


@dataclass(frozen=True)
class TrainedOn:
    """What random problems the weights were trained on, each from least to most."""

    items: tuple[int, int] = (50, 500)
    pools: tuple[int, int] = (8, 192)
    rate: tuple[float, float] = (0.005, 0.15)
    column_weight: tuple[int, int] = (3, 115)


@dataclass(frozen=True, eq=False, repr=False)
class AnyDesign:
    """A network that decodes any design: the design, the prior and the noise are its inputs.

    `rounds` is how often items and pools exchange messages, `tries` how many doubtful items of an unsettled instance
    are doubted in turn. Correlated items (households) enter by their marginals, and the judge uses their whole prior.
    `scores` are the network's probabilities; `evidence.iterations` is how many rounds an instance took.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> design = qgt.Design.column_regular(pools=30, items=60, weight=6, generator=g)
        >>> problem = qgt.Problem(design, qgt.Bernoulli(0.05), qgt.SparseInteger(rate=0.05, bound=1))
        >>> x, y = problem.simulate(20, generator=g)
        >>> qgt.score(x, qgt.pretrained().bind(problem)(y).x).success_rate > 0.8
        True
    """

    network: MessageNetwork
    made: Mapping[str, Any] = field(default_factory=dict)  # how the weights were trained
    ranges: TrainedOn = TrainedOn()
    rounds: int = ROUNDS
    tries: int = TRIES

    def __post_init__(self) -> None:
        object.__setattr__(self, "rounds", whole("rounds", self.rounds, least=1, most=MOST_LAYERS))
        object.__setattr__(self, "tries", whole("tries", self.tries, least=0))

    def __repr__(self) -> str:
        return f"AnyDesign(width={self.network.width}, rounds={self.rounds}, tries={self.tries})"

    def supports(self, problem: Problem) -> str | None:
        """Statuses of a prior with marginals and probabilities, and a matrix that fits into memory."""
        if not isinstance(problem.prior, Prior) and problem.loads is None:
            return f"its prior {type(problem.prior).__name__} has no marginals; train a network for this problem."
        if problem.pools * problem.items > LARGEST_MATRIX:
            return f"its design has {problem.pools} x {problem.items} entries; use belief propagation."
        return no_amounts(problem)

    def outside(self, problem: Problem) -> tuple[str, ...]:
        """How the problem is outside of what the weights were trained on, one sentence each; empty where it is not.

        Example:
            >>> import qgt
            >>> problem = qgt.Problem(qgt.Design.from_rows(["111", "011"]), qgt.Bernoulli(0.3))
            >>> for sentence in qgt.pretrained().outside(problem):
            ...     print(sentence)
            items=3 is outside the range of training, 50 to 500.
            pools=2 is outside the range of training, 8 to 192.
            rate=0.3 is outside the range of training, 0.005 to 0.15.
            column_weight=1.66667 is outside the range of training, 3 to 115.
        """
        assert isinstance(problem.prior, Prior)
        numbers = {
            "items": problem.items,
            "pools": problem.pools,
            "rate": float(problem.prior.marginals(problem.items).mean()),
            "column_weight": problem.design.transfers / problem.items,
        }
        ranges = {name: getattr(self.ranges, name) for name in numbers}
        return tuple(
            f"{name}={value:g} is outside the range of training, {ranges[name][0]:g} to {ranges[name][1]:g}."
            for name, value in numbers.items()
            if not ranges[name][0] <= round(value, 9) <= ranges[name][1]
        )

    def bind(self, problem: Problem) -> BoundDecoder:
        """Get ready to decode on any device; warn where the problem is outside of the training's ranges."""
        refuse_unsupported(self, problem)
        outside = " ".join(self.outside(problem))
        if outside:
            said = f"the pretrained network may decode this problem poorly: {outside}"
            warnings.warn(said, OutsideTraining, stacklevel=2)
        copies: dict[torch.device, MessageNetwork] = {}

        def decode(y: Tensor, defectives: Tensor | None) -> Decoded:
            if y.device not in copies:
                copies[y.device] = _copy(self.network, y.device)
            at_a_time = _at_a_time(self.network, problem)
            parts = [_decode(self, copies[y.device], problem, part) for part in y.split(at_a_time)]
            parts = parts or [_decode(self, copies[y.device], problem, y)]
            x, scores, iterations = (torch.cat(column) for column in zip(*parts, strict=True))
            status = torch.full((len(y),), Status.OK, dtype=torch.uint8, device=y.device)
            return Decoded(x, status, scores, Evidence(iterations=iterations))

        return BoundDecoder(problem, decode, takes_missing=True, least_part=LEAST_PART)

    def save(self, path: str | Path) -> None:
        """Write the folder `path` with the model file in it, all or nothing."""
        model_file.write_model(path, self.description, self.network.state_dict())

    @property
    def description(self) -> dict[str, object]:
        """All but the weights, as plain data."""
        ranges = {name: list(getattr(self.ranges, name)) for name in TrainedOn.__dataclass_fields__}
        sizes = {"width": self.network.width, "inside": self.network.inside}
        return {"kind": KIND, **sizes, "rounds": self.rounds, "tries": self.tries, "ranges": ranges, "made": self.made}


@dataclass(frozen=True)
class Pretrained:
    """The network for any design with the weights that ship, or those of a file: `qgt decode --decoder pretrained`.

    Example:
        >>> import qgt
        >>> problem = qgt.Problem(qgt.Design.hypercube(side=4, dimensions=3), qgt.Bernoulli(0.03))
        >>> qgt.Pretrained(tries=2).supports(problem) is None
        True
    """

    rounds: int = ROUNDS
    tries: int = TRIES
    weights: str = ""  # a folder or file that `qgt train --from pretrained` wrote; empty: the weights that ship

    def __post_init__(self) -> None:
        object.__setattr__(self, "rounds", whole("rounds", self.rounds, least=1, most=MOST_LAYERS))
        object.__setattr__(self, "tries", whole("tries", self.tries, least=0))

    def supports(self, problem: Problem) -> str | None:
        """What the network supports."""
        return self._decoder.supports(problem)

    def outside(self, problem: Problem) -> tuple[str, ...]:
        """How the problem is outside of what the weights were trained on."""
        return self._decoder.outside(problem)

    def bind(self, problem: Problem) -> BoundDecoder:
        """Load the weights once, and get ready."""
        return self._decoder.bind(problem)

    @property
    def _decoder(self) -> AnyDesign:
        return pretrained(self.weights or None, rounds=self.rounds, tries=self.tries)


def pretrained(path: str | Path | None = None, *, rounds: int = ROUNDS, tries: int = TRIES) -> AnyDesign:
    """The network for any design, with the weights that ship with the package or those in a folder or file.

    Example:
        >>> import qgt
        >>> qgt.pretrained(rounds=40).rounds
        40
    """
    network, made, ranges = _shipped() if path is None else _read(model_file.model_path(path))
    return AnyDesign(network, made, ranges, rounds, tries)


@cache
def _shipped() -> tuple[MessageNetwork, Mapping[str, Any], TrainedOn]:
    with resources.as_file(resources.files("qgt") / "data" / SHIPPED) as file:
        return _read(file)


def _read(file: Path) -> tuple[MessageNetwork, Mapping[str, Any], TrainedOn]:
    description, weights = model_file.read_model(file)
    try:
        if description.get("kind") != KIND:
            raise ValueError("it is a network for one problem; give it to `qgt.load` or --model")
        width, inside = (codec.decode(name, description[name], int) for name in ("width", "inside"))
        held = sum(tensor.numel() for tensor in weights.values())
        if not 0 < width * inside <= held or width < 1:  # before anything is built
            raise ValueError(f"a network of width={width} and inside={inside} has more than {held:,} weights")
        network = MessageNetwork(width=width, inside=inside, generator=torch.Generator().manual_seed(0))
        model_file.check_weights(network.state_dict(), weights)
        network.load_state_dict(dict(weights))
        given = codec.as_table("ranges", description["ranges"])
        codec.check_keys("ranges", given, required=set(TrainedOn.__dataclass_fields__))
        ranges = TrainedOn(**{name: _pair(name, value) for name, value in given.items()})
        return network.eval().requires_grad_(False), dict(codec.as_table("made", description["made"])), ranges
    except (ValueError, LookupError, TypeError, RecursionError, OverflowError) as error:
        raise ModelFileError(f"{file}: is not a usable model: {error}") from error


def _pair(name: str, value: object) -> tuple[Any, Any]:
    if not isinstance(value, list) or len(value) != 2 or not all(isinstance(one, int | float) for one in value):
        raise ValueError(f"ranges.{name}={value!r} is not valid: give two numbers.")
    return value[0], value[1]


def _copy(network: MessageNetwork, device: torch.device) -> MessageNetwork:
    made = MessageNetwork(width=network.width, inside=network.inside, generator=torch.Generator().manual_seed(0))
    made.load_state_dict(network.state_dict())
    return made.to(device).eval().requires_grad_(False)


# What the network is shown of a problem.


def shown(problem: Problem, y: Tensor, costs: PoolCosts | None = None) -> Seen:
    """A problem and some reports as the network's inputs.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.5))
        >>> seen = shown(problem, torch.tensor([[1.0, torch.nan]], dtype=torch.float64))
        >>> seen.tables, seen.first
        (tensor([[[-30.,   0., -30.],
                 [  0.,   0.,   0.]]]), tensor([[0., 0.]]))
    """
    assert isinstance(problem.prior, Prior)
    n, device, design = len(y), y.device, problem.design
    costs = pool_costs(design, problem.noise, y) if costs is None else costs
    A = design.matrix.to(device, torch.float32).expand(n, -1, -1)
    rate = problem.prior.marginals(problem.items).to(device).clamp(LEAST_RATE, 1 - LEAST_RATE)
    sizes = design.pool_sizes.to(device)
    first = _first(costs, design, rate)  # (instances, pools)
    width = min(WINDOW, costs.tables.shape[1])
    totals = first[..., None] + torch.arange(width, device=device)  # (instances, pools, totals)
    tables = -costs.tables[costs.which[..., None], totals.clamp(max=costs.tables.shape[1] - 1)]
    tables = torch.where(totals <= sizes[:, None], tables, -torch.inf)
    tables = (tables - tables.amax(2, keepdim=True)).nan_to_num(LEAST_LOG, neginf=LEAST_LOG).clamp(min=LEAST_LOG)
    tables = torch.where(y.isnan()[..., None], 0.0, tables).to(torch.float32)
    ones = torch.ones(n, 1, device=device)
    prior = rate.logit().to(torch.float32).expand(n, -1)
    return Seen(A, prior, tables, first.to(torch.float32), ones.expand(-1, problem.items), ones.expand(-1, len(sizes)))


def _first(costs: PoolCosts, design: Design, rate: Tensor) -> Tensor:
    """Where the window of each table begins: around the totals that the report and the prior together make likely."""
    counts = costs.tables.shape[1]
    if counts <= WINDOW:
        return torch.zeros_like(costs.which)
    pools, device = design.pools, rate.device
    mean = design.count(rate[None])[0]  # (pools,)
    spread = design.count((rate * (1 - rate))[None])[0]
    pairs, place = (costs.which * pools + torch.arange(pools, device=device)).unique(return_inverse=True)
    totals = torch.arange(counts, dtype=torch.float64, device=device)
    kind, pool = pairs // pools, pairs % pools
    # Four times the variance: the report counts for more than what was expected.
    likely = -costs.tables[kind] - (totals - mean[pool, None]).square() / (8 * spread[pool, None] + 2)
    centre = (likely.softmax(1) * totals).sum(1).nan_to_num(0.0)
    first = (centre.round().to(torch.int64) - WINDOW // 2).clamp(0, counts - WINDOW)
    return first[place]


# Rounds, the judge, and tries.


@torch.inference_mode()
def _decode(config: AnyDesign, network: MessageNetwork, problem: Problem, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Calls, probabilities, and the number of rounds that each instance took."""
    costs = pool_costs(problem.design, problem.noise, y)
    seen = shown(problem, y, costs)
    if problem.pools * problem.items <= SMALL_MATRIX:
        seen = Seen(*(part.to(torch.float64) for part in seen))
    best = _Best.none(problem, costs, seen.prior.dtype)
    _try(config, network, seen, best, torch.arange(len(y), device=y.device), 1)
    doubtful = best.logits.abs().argsort(dim=1, stable=True)[:, : config.tries]  # the most doubtful first
    calls = best.logits > 0
    for items in doubtful.split(TRIES_TOGETHER, dim=1) if config.tries else ():
        unsettled = (~best.settled()).nonzero()[:, 0]
        for rows in unsettled.split(max(1, _at_a_time(network, problem) // TRIES_TOGETHER)):
            copies = items.shape[1]
            several = rows.repeat_interleave(copies)
            item = items[rows].flatten()[:, None]
            opposite = torch.where(calls[several].gather(1, item), -DOUBT, DOUBT).to(seen.prior.dtype)
            part = Seen(*(one[several] for one in seen))
            _try(config, network, part._replace(prior=part.prior.scatter(1, item, opposite)), best, rows, copies)
    return best.x, best.logits.sigmoid().to(torch.float64), best.rounds


def _at_a_time(network: MessageNetwork, problem: Problem) -> int:
    """How many instances are decoded at a time, so that memory does not grow with the batch."""
    return max(1, HIDDEN_AT_A_TIME // (problem.items * network.inside))


def _try(config: AnyDesign, network: MessageNetwork, seen: Seen, best: "_Best", rows: Tensor, copies: int) -> None:
    """Take all rounds with some instances, each in so many copies, one after the other; those that stand leave."""
    fixed, state = network.begin(seen)
    for _ in range(config.rounds):
        if not len(rows):
            return
        state = network.round(fixed, state)
        stands = best.update(rows, state.logits.unflatten(0, (len(rows), copies)))
        if bool(stands.any()):
            rows, keep = rows[~stands], (~stands).repeat_interleave(copies)
            fixed, state = fixed.at(keep), type(state)(*(part[keep] for part in state))


@dataclass(eq=False)
class _Best:
    """The most probable answers so far."""

    problem: Problem
    costs: PoolCosts
    x: Tensor  # (instances, items), uint8
    cost: Tensor  # (instances,), float64
    logits: Tensor  # (instances, items): of the round that gave the answer
    rounds: Tensor  # (instances,)
    belief: Tensor  # (instances,): the network's log probability of the answer, at most 0

    @classmethod
    def none(cls, problem: Problem, costs: PoolCosts, dtype: torch.dtype) -> "_Best":
        n, device = len(costs.which), costs.which.device
        x = torch.zeros(n, problem.items, dtype=torch.uint8, device=device)
        cost = torch.full((n,), torch.inf, dtype=torch.float64, device=device)
        logits = torch.zeros(n, problem.items, dtype=dtype, device=device)
        rounds = torch.zeros(n, dtype=torch.int64, device=device)
        return cls(problem, costs, x, cost, logits, rounds, torch.full((n,), -torch.inf, dtype=dtype, device=device))

    def settled(self) -> Tensor:
        """Which answers stand."""
        return self.belief >= SETTLED

    def update(self, rows: Tensor, logits: Tensor) -> Tensor:
        """Judge a round's calls of some instances, logits (rows, copies, items); which instances stand now."""
        assert isinstance(self.problem.prior, Prior)
        copies, calls = logits.shape[1], (logits.flatten(0, 1) > 0).to(torch.uint8)
        counts = self.problem.design.count(calls).to(torch.int64)  # (rows * copies, pools)
        reports = self.costs.tables[self.costs.which[rows.repeat_interleave(copies)], counts].sum(1)
        each = (reports - self.problem.prior.log_prob(calls)).view(len(rows), copies)
        cost, which = each.min(1)
        x, logits = (_picked(part, which) for part in (calls.view_as(logits), logits))
        belief = torch.nn.functional.logsigmoid(logits.abs()).sum(1)
        same, first = (x == self.x[rows]).all(1), self.rounds[rows] == 0
        surer = same & (belief > self.belief[rows] + BELIEF_MARGIN)
        better = (cost < self.cost[rows]) | first | surer
        self.rounds[rows] += copies
        chosen = rows[better]
        self.x[chosen], self.cost[chosen], self.logits[chosen] = x[better], cost[better], logits[better]
        self.belief[chosen] = belief[better]
        return same & ~first & (belief >= SETTLED) & (cost < torch.inf)


def _picked(parts: Tensor, which: Tensor) -> Tensor:
    """One copy (rows, items) of each row of (rows, copies, items)."""
    return parts.take_along_dim(which[:, None, None], 1)[:, 0]
