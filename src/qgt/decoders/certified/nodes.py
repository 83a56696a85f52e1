"""The nodes of many search trees: sets of x, and how they split into smaller ones.

A node is a set of x: some items fixed, the number of defectives k fixed (but at the root).
"""

from typing import NamedTuple

import torch
from torch import Tensor

from qgt.decoders.certified.items import places
from qgt.decoders.certified.relaxation import Sets, State
from qgt.decoders.results import KEPT


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


def take(first: list[Nodes], then: list[Nodes], batch: int) -> Nodes:
    """As many nodes as make a batch, off two stacks: those of the first come first."""
    taken: list[Nodes] = []
    while (first or then) and batch > 0:
        stack = first or then
        block = stack.pop()
        rest = max(0, len(block.owner) - batch)
        if rest:
            stack.append(block.pick(slice(0, rest)))
        taken.append(block.pick(slice(rest, None)))
        batch -= len(taken[-1].owner)
    return joined(taken)


class Leaves(NamedTuple):
    """Nodes that are done, with the multipliers that show it; their k may be any from `least` to `most`."""

    owner: Tensor
    fixed: Tensor  # (leaves, items), int8
    least: Tensor
    most: Tensor
    pi: Tensor  # (leaves, pools), float32


class Found(NamedTuple):
    """Answers that cost less than the limit when they were found."""

    owner: Tensor
    x: Tensor  # (found, items), uint8
    cost: Tensor  # float64


def as_leaves(nodes: Nodes, least: Tensor, most: Tensor) -> Leaves:
    """Nodes that are done, or left as they are."""
    pi = nodes.state.pi[:, :-1]  # the last one shifts all reduced costs, which tells nothing at one k
    return Leaves(nodes.owner, nodes.fixed, least, most, pi)


def kept(nodes: Nodes, tight: Tensor, own: Tensor) -> tuple[Nodes, Nodes]:
    """Nodes that keep some items as they are in their own x, to be leaves; and the nodes with those items fixed."""
    some, own = tight.any(1), own.to(torch.int8)
    leaves = nodes._replace(fixed=torch.where(tight, KEPT + own, nodes.fixed)).pick(some)
    return leaves, nodes._replace(fixed=torch.where(tight, own, nodes.fixed))


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
