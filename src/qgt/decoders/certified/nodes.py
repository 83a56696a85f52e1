"""The nodes of many search trees: sets of x, and how they split into smaller ones.

A node is a set of x: some items fixed, the number of defectives k fixed (but at the root).
"""

from typing import NamedTuple

import torch
from torch import Tensor

from qgt.decoders.certified.costs import Model
from qgt.decoders.certified.items import places
from qgt.decoders.certified.relaxation import Sets, State
from qgt.decoders.certified.shares import Shares
from qgt.decoders.results import KEPT
from qgt.model.prior import FREE

LOOSE = 32  # items that may be turned round, each for a child of its own
FRACTIONAL = 0.1  # a relaxed item this far from 0 and 1 is worth a split


class Nodes(NamedTuple):
    """Sets of x, of several instances."""

    owner: Tensor  # (nodes,): the instance
    fixed: Tensor  # (nodes, items), int8: 0, 1 or FREE
    total: Tensor  # (nodes,): the number of defectives, or FREE
    bound: Tensor  # (nodes,), float64
    state: State

    @property
    def sets(self) -> Sets:
        """The sets of x alone."""
        return Sets(self.owner, self.fixed, self.total)

    def pick(self, keep: Tensor | slice) -> "Nodes":
        """Some of the nodes."""
        if isinstance(keep, Tensor) and keep.dtype == torch.bool:
            keep = keep.nonzero()[:, 0]  # once, not for every part
            if len(keep) == len(self.owner):
                return self  # all of them: no copies
        state = State(*(part[keep] for part in self.state))
        return Nodes(self.owner[keep], self.fixed[keep], self.total[keep], self.bound[keep], state)


def joined(parts: list[Nodes]) -> Nodes:
    """All nodes of several lists."""
    parts = [part for part in parts if len(part.owner)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    owner, fixed, total, bound, states = zip(*parts, strict=True)
    state = State(*(torch.cat(part) for part in zip(*states, strict=True)))
    return Nodes(torch.cat(owner), torch.cat(fixed), torch.cat(total), torch.cat(bound), state)


def untouched(model: Model, owner: Tensor, shares: Shares | None) -> Nodes:
    """The roots of some instances, of which nothing is known."""
    n, (rows, items) = len(owner), model.matrix.shape
    zeros = torch.zeros(n, rows, device=owner.device)
    state = State(zeros.new_zeros(n, items), zeros, zeros, zeros[:, :0] if shares is None else shares.none(n))
    never = torch.full((n,), -torch.inf, dtype=torch.float64, device=owner.device)
    return Nodes(owner, model.known.expand(n, -1), torch.full_like(owner, model.total), never, state)


def least_bounds(blocks: list[Nodes], instances: int, device: torch.device) -> Tensor:
    """The least bound of each instance's nodes, infinite where it has none: (instances,)."""
    least = torch.full((instances,), torch.inf, dtype=torch.float64, device=device)
    for block in blocks:
        least.scatter_reduce_(0, block.owner, block.bound, "amin")
    return least


def numbers_of(nodes: Nodes) -> tuple[Tensor, Tensor]:
    """The least and the most number of defectives that nodes allow."""
    return nodes.total.clamp(min=0), torch.where(nodes.total == FREE, nodes.fixed.shape[1], nodes.total)


class Leaves(NamedTuple):
    """Nodes that are done, with the multipliers that show it; their k may be any from `least` to `most`."""

    owner: Tensor
    fixed: Tensor  # (leaves, items), int8
    least: Tensor
    most: Tensor
    pi: Tensor  # (leaves, pools), float32
    shares: Tensor  # (leaves, memberships), float32, or (leaves, 0)


class Found(NamedTuple):
    """Answers that cost less than the limit when they were found."""

    owner: Tensor
    x: Tensor  # (found, items), uint8
    cost: Tensor  # float64


def as_leaves(nodes: Nodes, least: Tensor, most: Tensor, shares: Shares | None) -> Leaves:
    """Nodes that are done, or left as they are."""
    pi = nodes.state.pi[:, :-1]  # the last one shifts all reduced costs, which tells nothing at one k
    given = nodes.state.shares if shares is None else shares.of_memberships(nodes.state.shares)
    return Leaves(nodes.owner, nodes.fixed, least, most, pi, given)


def kept(nodes: Nodes, tight: Tensor, own: Tensor) -> tuple[Nodes, Nodes]:
    """Nodes that keep some items as they are in their own x, to be leaves; and the nodes with those items fixed."""
    some, own = tight.any(1), own.to(torch.int8)
    leaves = nodes._replace(fixed=torch.where(tight, KEPT + own, nodes.fixed)).pick(some)
    return leaves, nodes._replace(fixed=torch.where(tight, own, nodes.fixed))


def item_to_split(x: Tensor, loose: Tensor, swap: Tensor, *, stepped: bool) -> tuple[Tensor, Tensor]:
    """The loose item by which to split each node, and whether to: else by the first item that differs."""
    fraction, item = torch.where(loose, torch.minimum(x, 1 - x), -1.0).max(1)
    two = fraction > FRACTIONAL
    if stepped:  # a child for each of many items would come too early
        many = (loose.sum(1) > LOOSE) & ~two
        item, two = torch.where(many, torch.where(loose, swap, torch.inf).argmin(1), item), two | many
    return item, two


def split_by_item(nodes: Nodes, item: Tensor) -> Nodes:
    """Two children, with the item 0 and 1."""
    here = torch.zeros_like(nodes.fixed, dtype=torch.bool).scatter_(1, item[:, None], True)
    return joined([nodes._replace(fixed=nodes.fixed.masked_fill(here, value)) for value in (0, 1)])


def split_by_first(nodes: Nodes, loose: Tensor, swap: Tensor) -> Nodes:
    """One child for each loose item that may be the first to differ from the rounded x, and one where none does.

    The items come in order of falling cost, so that those hard to exclude have most others fixed.
    """
    rounded = (nodes.state.x > 0.5).to(torch.int8)
    place = places(torch.where(loose, swap, -torch.inf).argsort(1, descending=True))
    positions = torch.arange(loose.shape[1] + 1, device=loose.device)
    row, first = (positions <= loose.sum(1)[:, None]).nonzero(as_tuple=True)
    loose, rounded, place, first = loose[row], rounded[row], place[row], first[:, None]
    fixed = torch.where(loose & (place < first), rounded, nodes.fixed[row])
    fixed = torch.where(loose & (place == first), 1 - rounded, fixed)
    return nodes.pick(row)._replace(fixed=fixed)


def first_of_each(owner: Tensor, cost: Tensor, best: Tensor) -> Tensor:
    """Whether each row is the first of its instance that costs no more than the best: (rows,), bool.

    Of several rows written at once to one place torch may leave a mixture.
    """
    row = torch.arange(len(owner), device=owner.device)
    least = torch.where(cost <= best[owner], row, len(row))
    chosen = torch.full_like(best, len(row), dtype=torch.int64).scatter_reduce_(0, owner, least, "amin")
    return chosen[owner] == row
