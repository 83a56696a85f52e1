"""The steps of the primal-dual method, as functions of tensors that torch runs without Python.

A search takes a million small operations. From Python each of them takes the interpreter's lock: two threads with
tensors of a few thousand numbers wait for each other, and take twice as long as they would alone. TorchScript runs a
whole loop without the interpreter, and with less time between operations. torch calls TorchScript deprecated, but has
nothing else yet that needs no C++ compiler. So `iterate` is a plain function, and is called as such where torch cannot
compile it, where compiling takes longer than it saves (`steps_for`), and on a GPU, where recordings take its place
(`relaxation.Recordings`).
"""

import inspect
import itertools
import threading
import warnings
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from qgt.decoders.certified.costs import Charges
from qgt.decoders.certified.steps import Raising


class Terms(NamedTuple):
    """What stays the same from one iteration to the next, and memory for what does not.

    The multipliers are `scaled` by the step of their node, which then is a factor of nothing else.
    """

    weights: Tensor  # (nodes, items): times the step
    lower: Tensor  # (nodes, items)
    upper: Tensor  # (nodes, items)
    shifts: Tensor  # (pieces, nodes, rows): where each piece of the envelope's proximal map begins
    lengths: Tensor  # (pieces, nodes, rows)
    begin: Tensor  # (nodes, rows)
    matrix: Tensor  # (rows, items)
    pull: Tensor  # (items, rows): of the preconditioner
    inverse: Tensor  # (rows, rows): the preconditioner
    metric: Tensor | None  # (nodes, rows, rows) or (rows, rows): the preconditioner where it is not that of the model
    charges: Charges | None  # of the prior's groups
    raising: Raising | None  # the charges of pools, shared out
    step_of_shares: float  # of x and counts, where there are any
    up: float  # the part of the dual step that is not for shares

    def pick(self, keep: Tensor) -> "Terms":
        """Some of the nodes."""
        metric = self.metric if self.metric is None or self.metric.dim() == 2 else self.metric[keep]
        return self._replace(
            weights=self.weights[keep],
            lower=self.lower[keep],
            upper=self.upper[keep],
            shifts=self.shifts[:, keep],
            lengths=self.lengths[:, keep],
            begin=self.begin[keep],
            metric=metric,
            charges=None if self.charges is None else self.charges.pick(keep),
            raising=None if self.raising is None else self.raising.pick(keep),
        )


def iterate(
    terms: Terms, x: Tensor, counts: Tensor, scaled: Tensor, total: Tensor, iterations: int, rounds: int
) -> tuple[Tensor, Tensor]:
    """x and c step down the Lagrangian, multipliers and shares step up at their extrapolation: the last x and c.

    `scaled` and `total`, and the x and c given, are changed in place; `rounds` are those of the first `cut_`.
    """
    zeros, weights = torch.zeros_like(terms.lengths), terms.weights
    metric, charges, raising = terms.metric, terms.charges, terms.raising
    # The loop works in memory of its own: fresh pages for every result would take longer than the sums do.
    next_x, next_counts, near = torch.empty_like(x), torch.empty_like(counts), torch.empty_like(counts)
    moved = torch.empty_like(terms.shifts)
    for i in range(iterations):
        torch.sub(x, weights, out=next_x).addmm_(scaled, terms.matrix)
        if raising is not None:
            next_x.sub_(by_item(raising.places, raising.shares), alpha=terms.step_of_shares)
        if charges is not None:
            cut_(charges, next_x, rounds if i == 0 else 1)
        next_x.clamp_(terms.lower, terms.upper)
        # The proximal map of an envelope: along each of its pieces in turn.
        torch.sub(torch.sub(counts, scaled, out=near), terms.shifts, out=moved)
        torch.sum(moved.clamp_(zeros, terms.lengths), [0], out=next_counts).add_(terms.begin)
        # What is behind is not looked at again: its memory takes what lies ahead, and then the next x.
        x.lerp_(next_x, 2.0)
        counts.lerp_(next_counts, 2.0)
        if metric is None:
            scaled.addmm_(x, terms.pull, alpha=-terms.up).addmm_(counts, terms.inverse, alpha=terms.up)
        else:
            apart = torch.addmm(counts, x, terms.matrix.t(), alpha=-1.0)
            towards = torch.bmm(apart[:, None], metric)[:, 0] if metric.dim() == 3 else torch.mm(apart, metric)
            scaled.add_(towards, alpha=terms.up)
        if raising is not None:
            rise(raising, x)
        x, next_x, counts, next_counts = next_x, x, next_counts, counts
        total.add_(scaled)
    return x, counts


def cut_(charges: Charges, x: Tensor, rounds: int) -> Tensor:
    """The proximal map, in place: the largest free x of each group are cut off, by step times the charge in all.

    It is a projection on a simplex. Its threshold is found by Newton's method: in a few rounds at first, and then,
    because x changes little from one iteration to the next, in one round from the last threshold.
    """
    over, left, number = torch.empty_like(x), torch.empty_like(charges.top), torch.empty_like(charges.top)
    for _ in range(rounds):
        torch.sub(x, charges.tops, out=over).clamp_(min=0.0)
        torch.mm(over, charges.inside, out=left).sub_(charges.charge)
        torch.mm(over.sign_(), charges.inside, out=number).clamp_(min=1.0)
        charges.top.add_(left.div_(number)).clamp_(0.0, 1.0)
        torch.maximum(charges.top, charges.due, out=charges.top)
        torch.addmm(charges.uncut, charges.top, charges.inside.t(), out=charges.tops)
    return torch.minimum(x, charges.tops, out=x)


def rise(raising: Raising, x: Tensor) -> None:
    """Shares take one step up, and are projected back by one step of Newton's method from the last threshold."""
    pools, width, nodes = raising.items.size(0), raising.items.size(1), x.size(0)
    near, threshold = raising.near[:-1], raising.threshold
    raising.x[:-1] = x.t()
    torch.index_select(raising.x, 0, raising.items.flatten(), out=near)
    raising.shares[:-1].add_(near, alpha=raising.step)
    shares, over = raising.shares[:-1].view(pools, width, nodes), near.view(pools, width, nodes)
    torch.sub(shares, threshold[:, None], out=over).clamp_(min=0.0)
    above = over.sum(1).sub_(raising.charge)
    threshold.add_(above.div_(over.sign_().sum(1).clamp_(min=1.0))).clamp_(min=0.0)
    shares.sub_(threshold[:, None]).clamp_(min=0.0)
    raising.total.add_(raising.shares[:-1])


def by_item(places: Tensor, shares: Tensor) -> Tensor:
    """What shares, with a row of zeros in the end, give to each item: (nodes, items)."""
    starts = torch.arange(0, places.numel(), places.size(1), device=places.device)
    return torch.embedding_bag(shares, places.flatten(), starts)[0].t()


MANY_NODES, FEW_CALLS = 256, 250  # torch takes 50 ms to compile, which 40 single plates save
_calls, _compiling = itertools.count(), threading.Lock()


def steps_for(nodes: int) -> Callable[..., tuple[Tensor, Tensor]]:
    """`iterate`, without Python where that pays: for many nodes, or once this process has called it often.

    Both take the same steps, to the last bit.
    """
    return compiled() if nodes >= MANY_NODES or next(_calls) >= FEW_CALLS else iterate


def compiled() -> Callable[..., tuple[Tensor, Tensor]]:
    """`iterate`, without Python if torch can compile it."""
    with _compiling:
        return _compiled()


@cache
def _compiled() -> Callable[..., tuple[Tensor, Tensor]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            script: Callable[..., tuple[Tensor, Tensor]] = torch.jit.script(inspect.unwrap(iterate))
            return script
        except Exception:  # whatever a later torch says: the answers are the same
            return iterate
