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
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from qgt.decoders.neural.network import Linear

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
