"""A network that checks itself: it computes the counts its answer implies, sees where they differ, and tries again.

One round turns what the network holds in mind, h, into logits l of the items and probabilities p = sigmoid(l):

    h <- h + W2 gelu(W1 norm(h))   for each block,      l = W norm(h) + b,      p = sigmoid(l)

and then shows it what is left of the counts, by the design A itself, for p and for the calls c = [p > 1/2] (parts of
copies and categories have a softmax instead, and the most probable values are called):

    h <- (h + h0) / 2 + U (y - A p) + V (y - A c) + W' (p, l)

Halving what it had in mind, towards what it began with, h0 = W0 y, keeps h as large in the twentieth round as in the
fourth; without that, answers get worse after many more rounds than it was trained with.

The weights are the same in every round, so there may be any number of rounds, and a loss on each trains them all. A
small judge learns to say whether a round's whole answer is right, from what it leaves of the counts, how many items it
calls and how sure it is of them; the network answers what the judge believes in most. More rounds are then more
chances.

Rounds settle, now and then on a wrong answer, and further rounds repeat it. So there are tries. The first one has twice
the rounds of training. What the judge still doubts then is tried again from the start with one count doubted, as though
one defective item fewer, and in the next try one more, had been in pool j = 0, 1, ...:

    y_j <- y_j - a_j,   y_j <- y_j + a_j   (a_j: what one defective item adds to y_j)

in h0 and in what the first two rounds leave; after them the network sees the count as it was reported. The judge always
does. When every count was doubted both ways, nothing is left to try.

Counts need not be counts for this: before training a straight line is fitted to what each pool reports against the
number of defective items in it, and `y - A p` is the distance from that line, in standard deviations of the reports.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from qgt.arguments import whole
from qgt.decoders.neural.network import MOST_LAYERS, Linear, Network, Rounds, inner_dtype, without_gaps
from qgt.model.design import Design

# What tries are made of: counts as the network reads them, answers with the judge's belief, and doubts.

BELIEF_MARGIN = 0.01  # beliefs this close are equal: an answer that stands changes little from round to round
SETTLED_LOGIT = 1.0  # the judge's logit from which on an answer stands: at 3, a poor judge gives right answers up


class NetworkCounts(NamedTuple):
    """Counts as a network reads them."""

    z: Tensor  # (models, instances, pools), standardised, 0 where missing
    present: Tensor | None  # 1 where a count is there; None: everywhere
    begun: Tensor  # (models, instances, width), what the network begins with

    def at(self, rows: Tensor) -> "NetworkCounts":
        """Some instances."""
        present = None if self.present is None else self.present.index_select(1, rows)
        return NetworkCounts(self.z.index_select(1, rows), present, self.begun.index_select(1, rows))


class Answer(NamedTuple):
    """What a round answers, or the best of several."""

    logits: Tensor  # (models, instances, items)
    belief: Tensor  # (models, instances): the judge's logit of its being right

    @property
    def settled(self) -> Tensor:
        """Which answers stand: (models, instances)."""
        return self.belief >= SETTLED_LOGIT

    def or_later(self, later: "Answer") -> "Answer":
        """What the judge believes in more, of nearly equals the later."""
        return later.where(later.belief > self.belief - BELIEF_MARGIN, self)

    def where(self, mask: Tensor, other: "Answer") -> "Answer":
        """This where the mask (models, instances) is true, else the other."""
        logits = torch.where(mask[..., None], self.logits, other.logits)
        return Answer(logits, torch.where(mask, self.belief, other.belief))

    def at(self, rows: Tensor) -> "Answer":
        """Some instances."""
        return Answer(self.logits.index_select(1, rows), self.belief.index_select(1, rows))

    def replaced_at(self, rows: Tensor, other: "Answer") -> "Answer":
        """The other's instances in the place of these rows."""
        return Answer(self.logits.index_copy(1, rows, other.logits), self.belief.index_copy(1, rows, other.belief))


class Doubt(NamedTuple):
    """A try: so many rounds, the first of which take a pool to have held so many more defective items."""

    rounds: int
    pool: int
    more: int  # -1 or 1


def doubts(pools: int, *, rounds: int, each: int) -> Iterator[Doubt]:
    """What to try with so many rounds, `each` a try: one count after the other, until all were doubted both ways.

    Example:
        >>> [tuple(doubt) for doubt in doubts(pools=2, rounds=13, each=5)]
        [(5, 0, -1), (5, 0, 1), (3, 1, -1)]
        >>> len(list(doubts(pools=2, rounds=1000, each=5)))
        4
    """
    for begin, (pool, more) in zip(range(0, rounds, each), product(range(pools), (-1, 1)), strict=False):
        yield Doubt(min(each, rounds - begin), pool, more)


def rows_of(mask: Tensor) -> Tensor:
    """The instances of a mask (models, instances) that any model has; in an ONNX file all, for its sizes are fixed."""
    if torch.compiler.is_exporting():
        return torch.arange(mask.shape[1], device=mask.device)
    return mask.any(0).nonzero()[:, 0]


# The network.

EXPANSION = 2  # of a block's inside
SIGNS, JUDGE = 5, 32  # what the judge is shown, and how wide it is
STRAIGHT = 2  # times the rounds of training: how long the first try is
DOUBTED = 2  # rounds of a later try that see the doubted count
LOGITS = 5.0  # logits are shown to the network in this unit
LARGEST_MATRIX = 2**28  # entries of the design's matrix, a gigabyte
LEAST_RATE = 1e-4  # of an item, for the logit that training begins at


@dataclass(frozen=True)
class Refining:
    """A network that computes the counts its answer implies, sees where they differ from y, and tries again.

    `blocks` residual blocks of the given `width` are one round; their weights serve all `rounds`. A trained network
    can be given more of them: see `NeuralDecoder.with_rounds`.

    Example:
        >>> Refining(width=512, blocks=2, rounds=6).loss
        'binary_cross_entropy'
        >>> Refining(width=64).parameters(pools=20, items=50) == Refining(width=64, rounds=20).parameters(
        ...     pools=20, items=50)
        True
    """

    width: int = 512
    blocks: int = 2
    rounds: int = 6

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", whole("width", self.width, least=1))
        object.__setattr__(self, "blocks", whole("blocks", self.blocks, least=1, most=MOST_LAYERS))
        object.__setattr__(self, "rounds", whole("rounds", self.rounds, least=1, most=MOST_LAYERS))

    @property
    def loss(self) -> str:
        """Its outputs are logits."""
        return "binary_cross_entropy"

    def parameters(self, *, pools: int, items: int, missing: bool = False, loads: bool = False) -> int:
        """How many numbers a model holds, the lines of its pools included."""
        _refuse_loads(loads)
        width, inside = self.width, EXPANSION * self.width
        seen = 3 * (pools + 1) * width + (2 * items + 1) * width + (pools * width if missing else 0)
        block = (width + 1) * inside + (inside + 1) * width
        judge = (SIGNS + 1) * JUDGE + JUDGE + 1
        return seen + self.blocks * block + (width + 1) * items + judge + 4 * pools

    def build(self, design: Design, *, missing: bool = False, loads: bool = False, generator: Generator) -> Network:
        """Make a stack of one model."""
        _refuse_loads(loads)
        if design.pools * design.items > LARGEST_MATRIX:
            raise ValueError(
                f"a design of {design.pools} pools and {design.items} items is too large for Refining, which keeps the "
                "whole matrix: use another network, or belief propagation."
            )
        return RefiningStack(self, design, missing, generator)


def _refuse_loads(loads: bool) -> None:
    if loads:
        raise ValueError(
            "Refining is not for items with loads: it subtracts the counts of its answer from the reported counts, and "
            "reports of amounts are not counts; give MLP or ResidualMLP."
        )


class RefiningStack(Network):
    """A stack of refining networks; `repeats` is the number of rounds, of which training had `trained`."""

    def __init__(self, config: Refining, design: Design, missing: bool, generator: Generator) -> None:
        super().__init__()
        self.repeats = self.trained = config.rounds
        self.missing = missing
        pools, items, width, device = design.pools, design.items, config.width, generator.device
        self.counts = Linear(pools, width, generator)
        self.soft = Linear(pools, width, generator)  # what the probabilities leave of the counts
        self.hard = Linear(pools, width, generator)  # what the calls leave of them
        self.guess = Linear(2 * items, width, generator)
        self.blocks = nn.ModuleList(_Block(width, generator) for _ in range(config.blocks))
        self.output = Linear(width, items, generator, scale=0.0)
        self.judge = nn.ModuleList([Linear(SIGNS, JUDGE, generator), Linear(JUDGE, 1, generator)])
        if missing:
            self.absent = nn.Parameter(torch.zeros(1, width, pools, device=device))
        self.matrix: Tensor
        self.mean: Tensor
        self.scale: Tensor
        self.slope: Tensor
        self.level: Tensor
        # (1, items, pools): pools come last, for stacks. The design is known to whoever builds it: no file holds it.
        self.register_buffer("matrix", design.matrix.T.to(device, torch.float32)[None], persistent=False)
        for name, value in (("mean", 0.0), ("scale", 1.0), ("slope", 1.0), ("level", 0.0)):
            self.register_buffer(name, torch.full((1, pools), value, device=device))

    @torch.no_grad()
    def prepare(self, x: Tensor, y: Tensor) -> None:
        """Fit each pool's line to instances, and begin with the items' own rates."""
        share = x.to(torch.float32).mean(1).clamp(LEAST_RATE, 1 - LEAST_RATE)  # (models, items)
        self.output.bias.copy_(self.head.logits(share))
        counts = x.to(torch.float32) @ self.matrix  # (models, instances, pools)
        seen = ~y.isnan()
        number = seen.sum(1).clamp(min=1)

        def mean(values: Tensor) -> Tensor:  # over the counts that are there: (models, pools)
            return torch.where(seen, values, 0.0).sum(1) / number

        self.mean.copy_(mean(y))
        spread = mean((y - self.mean[:, None]).square()).sqrt()
        self.scale.copy_(torch.where(spread > 0, 1 / spread, 0.0))
        z = (y - self.mean[:, None]) * self.scale[:, None]
        middle = mean(counts)
        varied = mean((counts - middle[:, None]).square())
        slope = mean(z * (counts - middle[:, None])) / torch.where(varied > 0, varied, 1.0)
        self.slope.copy_(slope)
        self.level.copy_(-slope * middle)  # z has mean 0 where the counts have theirs

    def inner_matrices(self) -> list[nn.Parameter]:
        """Those of the blocks."""
        return [p for p in self.blocks.parameters() if p.dim() == 3]

    def forward(self, y: Tensor, generator: Generator | None = None) -> Tensor:
        """The logits of the round that the judge believes in most, of all rounds of all tries."""
        counts = self._read(y)
        first = min(self.repeats, STRAIGHT * self.trained)
        best = reduce(Answer.or_later, self._each(counts, first))
        for doubt in doubts(self.slope.shape[1], rounds=self.repeats - first, each=self.trained):
            best = self._again(doubt, counts, best)
        return best.logits

    def rounds(self, y: Tensor, generator: Generator | None = None) -> Rounds:
        """The logits of every round, all of them straight, and the judge's of their being right."""
        logits, belief = zip(*self._each(self._read(y), self.repeats), strict=True)
        return Rounds(torch.stack(logits), torch.stack(belief))

    def _again(self, doubt: Doubt, counts: NetworkCounts, best: Answer) -> Answer:
        """Try the instances again that are not settled; the others keep their answers, whatever is beside them."""
        shift = torch.zeros_like(counts.z)
        shift[..., doubt.pool] = doubt.more * self.slope[:, None, doubt.pool]
        if counts.present is not None:
            shift = shift * counts.present  # a missing count stays missing
        # Without a shift the try would be the first one again.
        unsettled = ~best.settled & (shift[..., doubt.pool] != 0)  # (models, instances)
        rows = rows_of(unsettled)
        if rows.shape[0] == 0:
            return best
        before = best.at(rows)
        after = reduce(Answer.or_later, self._each(counts.at(rows), doubt.rounds, shift.index_select(1, rows)), before)
        return best.replaced_at(rows, after.where(unsettled.index_select(1, rows), before))

    def _each(self, counts: NetworkCounts, rounds: int, shift: Tensor | None = None) -> Iterator[Answer]:
        """Round by round; the shift (models, instances, pools) is added to what the first of them see of the counts."""
        dtype = inner_dtype(self, counts.z)
        begun = counts.begun if shift is None else counts.begun + shift @ self.counts.weight.mT
        h = begun
        for number in range(rounds):
            inner = h.to(dtype)
            for block in self.blocks:
                inner = block(inner)
            logits = self.output.rows(F.layer_norm(inner, inner.shape[-1:]).to(h.dtype))
            p = self.head.marginals(logits)
            calls = self.head.calls(logits).to(h.dtype)
            soft, hard = self._left(counts, p), self._left(counts, calls)
            yield Answer(logits, self._judged(logits, calls, hard))
            if number + 1 == rounds:
                return
            if shift is not None and number < DOUBTED:
                soft, hard = soft + shift, hard + shift
            else:
                begun = counts.begun
            guess = torch.cat([p, logits / LOGITS], 2)
            h = (inner.to(h.dtype) + begun) / 2
            h = h + self.soft.rows(soft) + self.hard.rows(hard) + self.guess.rows(guess)

    def _read(self, y: Tensor) -> NetworkCounts:
        """Standardise the counts and begin."""
        if not self.missing:
            z = (y - self.mean[:, None]) * self.scale[:, None]
            return NetworkCounts(z, None, self.counts.rows(z))
        y, absent = without_gaps(y)
        z = (y - self.mean[:, None]) * self.scale[:, None] * (1 - absent)
        return NetworkCounts(z, 1 - absent, self.counts.rows(z) + absent @ self.absent.mT)

    def _left(self, counts: NetworkCounts, x: Tensor) -> Tensor:
        """What x leaves of the standardised counts, nothing of missing ones: (models, instances, pools)."""
        left = counts.z - torch.baddbmm(self.level[:, None], x, self.matrix * self.slope[:, None])
        return left if counts.present is None else left * counts.present

    def _judged(self, logits: Tensor, calls: Tensor, left: Tensor) -> Tensor:
        """Whether the calls are all right, as a logit; it learns from them and does not teach them."""
        size = left.detach().abs()
        doubt = self.head.doubt(logits.detach())
        signs = [size.sum(2), size.square().sum(2), (3 * size).tanh().sum(2), calls.sum(2), doubt]
        first, last = self.judge
        assert isinstance(first, Linear)
        assert isinstance(last, Linear)
        return last.rows(F.gelu(first.rows(torch.stack(signs, 2).log1p())))[..., 0]


class _Block(nn.Module):
    """Normalisation without weights, which the first map would only repeat; it begins as the identity."""

    def __init__(self, width: int, generator: Generator) -> None:
        super().__init__()
        self.widen = Linear(width, EXPANSION * width, generator)
        self.narrow = Linear(EXPANSION * width, width, generator, scale=0.0)

    def forward(self, h: Tensor) -> Tensor:
        """One step of thought, in the input's dtype."""
        return h + self.narrow.rows(F.gelu(self.widen.rows(F.layer_norm(h, h.shape[-1:]))))
