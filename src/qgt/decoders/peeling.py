"""Peeling: what exact counts force, deduced node by node until nothing more follows.

A node is a pool together with those after it that hold some of its items and no others; which of these an item is in
is its signature. With v defectives left among the items of a node that are not settled,

    v = 0                        none of them is defective
    v = as many as there are     all are
    v = 1                        the defective's signature is what is left of the counts; all others are not defective
    v = 2                        the signatures of the two add up to what is left; all that have no such partner are not

Each of these follows from the counts alone, so an x found whole is the only one that explains them. In a design made by
`Design.sparse_graph_code` no two pairs of a node's signatures add up to the same, and peeling settles nearly every set
of as many defectives as it was made for (Karimi et al. 2019, arXiv 1901.07635). In others it settles what it can.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from qgt.decoders.contract import BoundDecoder, no_values, refuse_unsupported
from qgt.decoders.results import Decoded, Status
from qgt.model.design import Design
from qgt.model.noise import Noiseless
from qgt.model.prior import Prior
from qgt.model.problem import Problem

DIGITS = 62  # of a signature: those of an int64, less what sums need
UNSETTLED = -1  # an item that is not settled


@dataclass(frozen=True)
class Peeling:
    """Deduces what exact counts force: a million items in seconds, where the design is a sparse-graph code.

    An answer is PROVED where every item was settled, for then no other explains the counts; NOT_CONVERGED where some
    were not, which are then called not defective; and INFEASIBLE where the counts contradict each other.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> design = qgt.Design.sparse_graph_code(items=5000, defectives=50, spare=0.3, generator=g)
        >>> problem = qgt.Problem(design, qgt.FixedWeight(50))
        >>> x, y = problem.simulate(1, generator=g)
        >>> torch.equal(qgt.Peeling().bind(problem)(y).x, x)
        True
    """

    def supports(self, problem: Problem) -> str | None:
        """Counts without errors, and a prior by which an impossible answer can be told."""
        if not isinstance(problem.noise, Noiseless):
            return f"its noise is {type(problem.noise).__name__}, and peeling believes every count."
        if reason := no_values(problem):
            return reason
        return None if isinstance(problem.prior, Prior) else "its prior can only be sampled and has no log probability."

    def bind(self, problem: Problem) -> BoundDecoder:
        """Find the nodes and the signatures once."""
        refuse_unsupported(self, problem)
        nodes = _Nodes.of(problem.design)

        def decode(y: Tensor, defectives: Tensor | None) -> Decoded:
            found = [_peel(problem.design, nodes, counts) for counts in y.cpu()]
            settled = torch.stack(found) if found else torch.zeros(0, problem.items, dtype=torch.int8)
            x = (settled == 1).to(torch.uint8).to(y.device)
            possible = problem.log_joint(x, y) > -torch.inf
            whole = (settled != UNSETTLED).all(1).to(y.device)
            status = torch.where(possible, int(Status.PROVED), int(Status.INFEASIBLE))
            return Decoded(x, torch.where(whole, status, int(Status.NOT_CONVERGED)).to(torch.uint8))

        return BoundDecoder(problem, decode)


class _Nodes(NamedTuple):
    """The nodes of a design, and each transfer into one: its node, item and signature, in the order of nodes."""

    heads: Tensor  # (nodes,): the pool that holds all items of a node
    node: Tensor  # (transfers,)
    item: Tensor  # (transfers,)
    signature: Tensor  # (transfers,)
    digit_pool: Tensor  # (digits,): a pool whose items are those with a 1 in this digit
    digit_node: Tensor  # (digits,)
    digit: Tensor  # (digits,): its value, a power of two

    @classmethod
    def of(cls, design: Design) -> "_Nodes":
        head_of, place = _heads(design)
        heads, node_of = head_of.unique(return_inverse=True)  # (nodes,), (pools,)
        owners, entries = design.lists.owners, design.lists.entries
        first = head_of[owners] == owners
        node, item = node_of[owners[first]], entries[first]
        key = node * design.items + item  # rising: pools are in order, and items within each
        rest = ~first & (place[owners] <= DIGITS)
        at = torch.searchsorted(key, node_of[owners[rest]] * design.items + entries[rest])
        signature = torch.zeros_like(item).index_add_(0, at, torch.ones_like(at) << (place[owners[rest]] - 1))
        pools = ((place > 0) & (place <= DIGITS)).nonzero()[:, 0]
        return cls(heads, node, item, signature, pools, node_of[pools], torch.ones_like(pools) << (place[pools] - 1))


def _heads(design: Design) -> tuple[Tensor, Tensor]:
    """For each pool the first one of its node, and how far behind that it stands."""
    head_of, place = torch.arange(design.pools), torch.zeros(design.pools, dtype=torch.int64)
    inside = torch.zeros(design.items, dtype=torch.bool)
    head = 0
    for pool in range(design.pools):
        members = design.members(pool)
        if pool and len(members) and bool(inside[members].all()):
            head_of[pool], place[pool] = head, pool - head
            continue
        inside[design.members(head)] = False
        inside[members] = True
        head = pool
    return head_of, place


def _peel(design: Design, nodes: _Nodes, y: Tensor) -> Tensor:
    """Settle what can be settled of one instance: (items,), int8. Counts that contradict each other settle nothing."""
    settled = torch.full((design.items,), UNSETTLED, dtype=torch.int8)
    node, item, signature = nodes.node, nodes.item, nodes.signature
    while len(node):
        left = y - design.count((settled == 1).to(torch.uint8)[None])[0]  # (pools,)
        defectives = left[nodes.heads].to(torch.int64)  # (nodes,)
        ones = _digits(nodes, left, 1)
        twos = _digits(nodes, left, 2)
        v = defectives[node]
        partner = ones[node] ^ signature
        fits = v > 2
        fits |= (v == 1) & (partner == 0)
        fits |= (v == 2) & (partner & signature == twos[node]) & _has_partner(node, signature, partner)
        number = torch.bincount(node[fits], minlength=len(nodes.heads))
        all_of_them = fits & (number == defectives)[node]
        settled[item[~fits]] = 0
        settled[item[all_of_them]] = 1
        open_ = settled[item] == UNSETTLED
        if bool(open_.all()):
            break
        node, item, signature = node[open_], item[open_], signature[open_]
    return settled


def _digits(nodes: _Nodes, left: Tensor, number: int) -> Tensor:
    """For each node the digits whose pools have so many defectives left, as a number."""
    there = left[nodes.digit_pool] == number
    sums = torch.zeros(len(nodes.heads), dtype=torch.int64)
    return sums.index_add_(0, nodes.digit_node[there], nodes.digit[there])


def _has_partner(node: Tensor, signature: Tensor, partner: Tensor) -> Tensor:
    """Whether another item that is open in the same node has the partner's signature."""
    kinds, kind = signature.unique(return_inverse=True)
    where = torch.searchsorted(kinds, partner).clamp(max=len(kinds) - 1)
    known = kinds[where] == partner
    keys = (node * len(kinds) + kind).sort().values
    wanted = node * len(kinds) + where
    found = torch.searchsorted(keys, wanted, right=True) - torch.searchsorted(keys, wanted)
    has: Tensor = known & (found > (partner == signature).to(torch.int64))
    return has
