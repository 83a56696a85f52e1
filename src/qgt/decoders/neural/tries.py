"""What a refining network's tries are made of: counts as it reads them, answers with the judge's belief, and doubts.

`refining.py` has the network, and says what the tries are for.
"""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import torch
from torch import Tensor

MARGIN = 0.01  # beliefs this close are equal: an answer that stands changes little from round to round
SETTLED = 1.0  # the judge's logit from which on an answer stands: at 3, a poor judge gives right answers up


class Counts(NamedTuple):
    """Counts as a network reads them."""

    z: Tensor  # (models, instances, pools), standardised, 0 where missing
    present: Tensor | None  # 1 where a count is there; None: everywhere
    begun: Tensor  # (models, instances, width), what the network begins with

    def at(self, rows: Tensor) -> "Counts":
        """Some instances."""
        present = None if self.present is None else self.present.index_select(1, rows)
        return Counts(self.z.index_select(1, rows), present, self.begun.index_select(1, rows))


class Answer(NamedTuple):
    """What a round answers, or the best of several."""

    logits: Tensor  # (models, instances, items)
    belief: Tensor  # (models, instances): the judge's logit of its being right

    @property
    def settled(self) -> Tensor:
        """Which answers stand: (models, instances)."""
        return self.belief >= SETTLED

    def or_later(self, later: "Answer") -> "Answer":
        """What the judge believes in more, of nearly equals the later."""
        return later.where(later.belief > self.belief - MARGIN, self)

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
