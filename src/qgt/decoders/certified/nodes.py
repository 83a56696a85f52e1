"""The nodes of many search trees: sets of x, how they split, which come next, and what the answers in them cost.

A node is a set of x: some items fixed, the number of defectives k fixed (but at the root).
"""

import itertools
import math
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from qgt.decoders.certified.costs import MOST_MARKED, Members, Model, Tables
from qgt.decoders.certified.relaxation import Iterates, Sets, places
from qgt.decoders.certified.steps import Shares
from qgt.decoders.results import LeafItem
from qgt.model.prior import FREE

# Costs on a grid, where x with k defectives can have few.
#
# Where all items weigh the same, and what pools cost above their least is a multiple of one step, an x with k
# defectives costs one of
#
#     constant + w k + T(k) + least_1 + least_2 + ... + step s,        s = 0, 1, ...,
#
# so a bound above the last of these below the limit is as good as one at the limit. A count that is off or not has one
# step; whole counts with a Gaussian error have as many as the square of how far they are off; a missing count has none.

# Nats: costs that differ by less are equal, a factor of 1.000001 in probability. A node is closed here once its bound
# reaches the limit less this tolerance. The checker computes the bound again, lowers it by all that float64 may have
# rounded up, and compares it with the limit less its own CHECKER_TOLERANCE of 2e-6. The checker's tolerance must be
# larger than this one by more than that rounding. Otherwise it would refuse an honest proof whose bound only just
# reaches the limit here.
SEARCH_TOLERANCE = 1e-6


# The checker has its own, larger tolerances for costs beside the grid.
LEAST_STEP = 1e-3  # nats
BESIDE_GRID = 2.5e-9  # nats, of all pools together
SUM_ROUNDING = 1e-8  # nats: what the sum of a grid's base may be off


class Levels(NamedTuple):
    """The costs that x with k defectives can have under an instance: base[k] + least, base[k] + least + step, ..."""

    step: float
    base: Tensor  # (items + 1,)
    least: Tensor  # (instances,): of all pools
    steps_below: float  # base and least, at which a cost may be for all that the checker knows

    def below(self, limit: Tensor, owner: Tensor, total: Tensor) -> Tensor:
        """Just above the last cost that is less than the limit, of an instance and a number; -inf where none is."""
        base = self.base[total] + self.least[owner]
        steps = torch.ceil((limit - base) / self.step) - 1
        return torch.where(steps >= -self.steps_below, base + self.step * steps + SEARCH_TOLERANCE, -torch.inf)

    @classmethod
    def of(cls, model: Model, tables: Tables) -> "Levels | None":
        """None where items or counts have more different costs."""
        free = model.known == FREE
        if model.groups is not None or not bool(free.any()) or len(model.weights[free].unique()) != 1:
            return None
        possible = tables.costs.isfinite()
        least = torch.where(possible, tables.costs, torch.inf).amin(1)
        least = torch.where(least.isfinite(), least, 0.0)  # (values,)
        above = torch.where(possible, tables.costs - least[:, None], 0.0)
        step = common_step(above[above > 1e-12], BESIDE_GRID / max(1, tables.which.shape[1]))
        if step is None:
            return None
        weight = float(model.weights[free][0])
        pools = least[tables.which].sum(1)
        number = torch.arange(len(model.known) + 1, device=pools.device) - int((model.known == 1).sum())
        base = model.constant + weight * number.double() + model.numbers  # float32 would shift the grid by a tolerance
        size = torch.where(base.isfinite(), base.abs(), 0.0).max() + least[tables.which].abs().sum(1).amax(0)
        if float(size) * 160 * torch.finfo(torch.float64).eps > SUM_ROUNDING:
            return None
        return cls(step, base, pools, math.ceil(model.above_least / step - 1e-6))


def common_step(values: Tensor, beside: float) -> float | None:
    """The largest number of which all values, which are positive, are multiples up to `beside`; None if it is small.

    Example:
        >>> import torch
        >>> common_step(torch.tensor([3.0, 4.5], dtype=torch.float64), 1e-9)
        1.5
        >>> common_step(torch.tensor([3.0, 3.1415926535], dtype=torch.float64), 1e-9)
    """
    if not len(values):
        return None
    step = float(values.min())
    while step >= LEAST_STEP:  # Euclid's algorithm with all values at once
        rest = (values - step * (values / step).round()).abs()
        rest = rest[rest > SEARCH_TOLERANCE]
        if not len(rest):
            break
        step = float(rest.min())
    if step < LEAST_STEP:
        return None
    step = float(values.max()) / round(float(values.max()) / step)  # of which rounding changes least
    off = (values - step * (values / step).round()).abs().max()
    return step if float(off) <= beside else None


def coarse(tables: Tensor, which: Tensor) -> Tensor:
    """Whether an instance has costs so large that float64 cannot tell SEARCH_TOLERANCE: (instances,), bool.

    What bounds say of such an instance means nothing: a Gaussian of sigma 1e-9 has costs of 1e17, whose last digit is
    worth 16 nats.
    """
    largest = torch.where(tables.isfinite(), tables.abs(), 0.0).amax(1)  # (kinds,)
    return (largest * torch.finfo(torch.float64).eps > SEARCH_TOLERANCE)[which].any(1)


def enough(levels: Levels | None, limit: Tensor, owner: Tensor, total: Tensor, items: int) -> Tensor:
    """The bound at which no x of a node, of any number of defectives if FREE, costs less than the limit: (nodes,)."""
    if levels is None:
        return limit
    found, free = levels.below(limit, owner, total.clamp(min=0)), total == FREE
    if bool(free.any()):
        found[free] = enough_for_each(levels, limit[free], owner[free], items + 1).amax(1)
    return found


def enough_for_each(levels: Levels | None, limit: Tensor, owner: Tensor, numbers: int) -> Tensor:
    """The same for 0, 1, ... defectives: (nodes, numbers)."""
    each, every = limit[:, None].expand(-1, numbers), torch.arange(numbers, device=limit.device)
    return each if levels is None else levels.below(each, owner[:, None], every)


# Whole answers: what they cost, and how to make them cheaper one or two items at a time, many at once.
#
# Flipping item j changes the counts of its pools by one, so the cost of every single flip follows from two products
# with A: with up_i and down_i what one more and one fewer defective would cost pool i, adding item j costs
#
#     w_j + sum_i A_ij up_i,        dropping it        -w_j + sum_i A_ij down_i,
#
# and swapping j for l costs the two together less sum_i A_ij A_il (up_i + down_i), because pools with both items keep
# their count.

POLISH_GAIN = 1e-4  # a move must save this much, more than float32 rounds off
SWAPS = 12  # calls that may be swapped out: the cheapest to miss
POLISH_STEPS = 30
NODE_POLISH_STEPS = 3  # for a node's rounded x: its children's are polished in their turn


def cost_of(model: Model, tables: Tables, owner: Tensor, x: Tensor) -> Tensor:
    """The cost of whole x (rows, items) of the given instances, infinite where x is impossible; float64."""
    ones = x.float()
    allowed = ((model.known == FREE) | (model.known == x)).all(1)
    number = model.numbers[x.sum(1, dtype=torch.int64)]
    counts = (ones @ model.matrix[:-1].T).to(torch.int64)  # whole numbers, far below 2^24: float32 is exact
    rest = tables.costs[tables.which[owner], counts].sum(1) + number
    if model.groups is not None:
        rest = rest + model.groups.of(x)
    return torch.where(allowed, model.constant + ones.double() @ model.weights + rest, torch.inf)


def polished(model: Model, tables: Tables, owner: Tensor, x: Tensor, steps: int = POLISH_STEPS) -> Tensor:
    """Flip the best single item of each x while that makes it cheaper, or swap the best two where it does not."""
    x = x.clone()
    at = torch.arange(len(x), device=x.device)  # those still getting cheaper
    for _ in range(steps):
        if not len(at):
            break
        flips, gain = _best_moves(model, tables, owner[at], x[at])
        at, flips = at[gain < -POLISH_GAIN], flips[gain < -POLISH_GAIN]
        x[at] ^= flips
    return x


def _best_moves(model: Model, tables: Tables, owner: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """What to flip in each x, one or two items, and what that adds to its cost."""
    matrix, weights, free = model.moves, model.weights.float(), model.known == FREE
    up, down = _changes(model, tables, owner, x)
    add = torch.where((x == 0) & free, up @ matrix + weights, torch.inf)
    drop = torch.where((x == 1) & free, down @ matrix - weights, torch.inf)
    gain, item = torch.minimum(add, drop).min(1)
    flips = torch.zeros_like(x).scatter_(1, item[:, None], 1)
    stuck = (gain >= -POLISH_GAIN).nonzero()[:, 0]
    if len(stuck):
        calls = max(1, min(SWAPS, int(x[stuck].sum(1).max())))
        dropped, out = drop[stuck].topk(min(calls, x.shape[1]), 1, largest=False)  # (stuck, calls)
        both = ((up + down)[stuck, None] * matrix.T[out]) @ matrix  # (stuck, calls, items)
        gain[stuck], pair = (dropped[:, :, None] + add[stuck, None] - both).flatten(1).min(1)
        flips[stuck] = 0
        flips[stuck, out.gather(1, pair[:, None] // x.shape[1])[:, 0]] = 1
        flips[stuck, pair % x.shape[1]] = 1
    return flips, gain


def _changes(model: Model, tables: Tables, owner: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """What one more and one fewer defective costs each row of `model.moves`."""
    counts = (x.float() @ model.moves.T).to(torch.int64)
    pools = model.matrix.shape[0] - 1
    rises = tables.rises
    at = torch.add(counts[:, :pools], tables.which[owner], alpha=rises.shape[1])  # in the flattened table
    number = counts[:, pools : pools + 1]
    up = [rises.take(at + 1), model.number_rises.take(number + 1)]
    down = [rises.take(at), model.number_rises.take(number)]
    if model.groups is not None:
        at = counts[:, pools + 1 :] + model.group_rises.shape[1] * torch.arange(len(model.group_rises), device=x.device)
        up.append(model.group_rises.take(at + 1))
        down.append(model.group_rises.take(at))
    return torch.cat(up, 1), -torch.cat(down, 1)


# Nodes, and how they split into smaller ones.

LOOSE = 32  # items that may be turned round, each for a child of its own
FRACTIONAL = 0.1  # a relaxed item this far from 0 and 1 is worth a split


class Nodes(NamedTuple):
    """Sets of x, of several instances."""

    owner: Tensor  # (nodes,): the instance
    fixed: Tensor  # (nodes, items), int8: 0, 1 or FREE, or less in groups that have a defective (`costs`)
    total: Tensor  # (nodes,): the number of defectives, or FREE
    bound: Tensor  # (nodes,), float64
    state: Iterates

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
        state = Iterates(*(part[keep] for part in self.state))
        return Nodes(self.owner[keep], self.fixed[keep], self.total[keep], self.bound[keep], state)


def joined_nodes(parts: list[Nodes]) -> Nodes:
    """All nodes of several lists."""
    parts = [part for part in parts if len(part.owner)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    owner, fixed, total, bound, states = zip(*parts, strict=True)
    state = Iterates(*(torch.cat(part) for part in zip(*states, strict=True)))
    return Nodes(torch.cat(owner), torch.cat(fixed), torch.cat(total), torch.cat(bound), state)


def untouched(model: Model, owner: Tensor, shares: Shares | None) -> Nodes:
    """The roots of some instances, of which nothing is known."""
    n, (rows, items) = len(owner), model.matrix.shape
    zeros = torch.zeros(n, rows, device=owner.device)
    state = Iterates(zeros.new_zeros(n, items), zeros, zeros, zeros[:, :0] if shares is None else shares.none(n))
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


def bytes_of(block: Nodes | Leaves | Found | Iterates) -> int:
    """The memory that a block takes up."""
    return sum(part.nbytes if isinstance(part, Tensor) else bytes_of(part) for part in block)


def as_leaves(nodes: Nodes, least: Tensor, most: Tensor, shares: Shares | None) -> Leaves:
    """Nodes that are done, or left as they are."""
    pi = nodes.state.pi[:, :-1]  # the last one shifts all reduced costs, which changes nothing at one k
    given = nodes.state.shares if shares is None else shares.of_memberships(nodes.state.shares)
    return Leaves(nodes.owner, nodes.fixed, least, most, pi, given)


def split_off_complement(nodes: Nodes, settled: Tensor, own: Tensor) -> tuple[Nodes, Nodes]:
    """Split each node in two: the box in which the settled items are as in its own x, and all its other x.

    The other x have at least one settled item turned round, which costs too much: they are a *complement leaf*, coded
    as `LeafItem` says, and need one set of multipliers where a child for each settled item would need many. The box is
    the node that is searched on, with the settled items fixed. A node without settled items has no such leaf.

    Args:
        nodes: The nodes.
        settled: The items whose turning reaches the limit: (nodes, items), bool.
        own: Each node's own x: (nodes, items).

    Returns:
        The complement leaves, and the boxes.
    """
    some, own = settled.any(1), own.to(torch.int8)
    leaves = nodes._replace(fixed=torch.where(settled, LeafItem.BOX_0 + own, nodes.fixed)).pick(some)
    return leaves, nodes._replace(fixed=torch.where(settled, own, nodes.fixed))


def item_to_split(x: Tensor, loose: Tensor, swap: Tensor, *, stepped: bool) -> tuple[Tensor, Tensor]:
    """The loose item by which to split each node, and whether to: else by the first item that differs."""
    fraction, item = torch.where(loose, torch.minimum(x, 1 - x), -1.0).max(1)
    two = fraction > FRACTIONAL
    if stepped:  # a child for each of many items would come too early
        many = (loose.sum(1) > LOOSE) & ~two
        item, two = torch.where(many, torch.where(loose, swap, torch.inf).argmin(1), item), two | many
    return item, two


def split_by_item(nodes: Nodes, item: Tensor, members: Members | None = None) -> Nodes:
    """Two children, with the item 0 and 1; with `members` where groups may be marked."""
    here = torch.zeros_like(nodes.fixed, dtype=torch.bool).scatter_(1, item[:, None], True)
    parts = [nodes._replace(fixed=nodes.fixed.masked_fill(here, value)) for value in (0, 1)]
    return joined_nodes([_with_marks_kept(part, members, nodes.fixed) for part in parts])


def split_by_first(nodes: Nodes, loose: Tensor, swap: Tensor, members: Members | None = None) -> Nodes:
    """One child for each loose item that may be the first to differ from the rounded x, and one where none does.

    The items come in order of falling cost, so that those hard to exclude have most others fixed. Groups may be marked
    where `members` are given.
    """
    rounded = (nodes.state.x > 0.5).to(torch.int8)
    place = places(torch.where(loose, swap, -torch.inf).argsort(1, descending=True))
    positions = torch.arange(loose.shape[1] + 1, device=loose.device)
    row, first = (positions <= loose.sum(1)[:, None]).nonzero(as_tuple=True)
    loose, rounded, place, first = loose[row], rounded[row], place[row], first[:, None]
    fixed = torch.where(loose & (place < first), rounded, nodes.fixed[row])
    fixed = torch.where(loose & (place == first), 1 - rounded, fixed)
    return _with_marks_kept(nodes.pick(row)._replace(fixed=fixed), members, nodes.fixed[row])


def group_to_split(members: Members, nodes: Nodes, loose: Tensor) -> tuple[Tensor, Tensor]:
    """The group by which to split each node, and whether to: some group must have a fractional largest x.

    Groups of whose items none is loose, or that have a defective already, are not worth a split.
    """
    fixed = nodes.fixed
    top = members.gathered(torch.where(fixed < 0, nodes.state.x, 0.0), 0.0).amax(2)
    known = members.gathered(fixed == 1, 0.0).any(2) | members.marked(fixed) | (members.charge == 0)
    known[:, MOST_MARKED:] = True
    open_ = members.gathered(loose, 0.0).any(2) & ~known
    fraction, group = torch.where(open_, torch.minimum(top, 1 - top), -1.0).max(1)
    return group, fraction > FRACTIONAL


def split_by_group(members: Members, nodes: Nodes, group: Tensor) -> Nodes:
    """Two children, with no item of the group defective, and with at least one."""
    here = (members.group == group[:, None]) & (nodes.fixed < 0)
    code = (LeafItem.SOME - group).to(torch.int8)[:, None]
    both = torch.zeros_like(code), code
    return joined_nodes([nodes._replace(fixed=torch.where(here, new, nodes.fixed)) for new in both])


def _with_marks_kept(nodes: Nodes, members: Members | None, parents: Tensor) -> Nodes:
    """Children, whose groups may be marked as `parents` (children, items) have them.

    A defective that is named takes the mark away. The last item of a marked group is defective; a child in which all
    of them are 0 has no x, and is left out.
    """
    if members is None:
        return nodes
    fixed, before = nodes.fixed, members.marked(parents)
    named = members.gathered(fixed == 1, 0.0).any(2)
    left = members.gathered(fixed <= LeafItem.SOME, 0.0).sum(2)
    marked = fixed <= LeafItem.SOME
    fixed = torch.where(marked & named[:, members.group], FREE, fixed)
    fixed = torch.where(marked & (~named & (left == 1))[:, members.group], 1, fixed).to(torch.int8)
    return nodes._replace(fixed=fixed).pick(~(before & ~named & (left == 0)).any(1))


def first_of_each(owner: Tensor, cost: Tensor, best: Tensor) -> Tensor:
    """Whether each row is the first of its instance that costs no more than the best: (rows,), bool.

    Of several rows written at once to one place torch may leave a mixture.
    """
    row = torch.arange(len(owner), device=owner.device)
    least = torch.where(cost <= best[owner], row, len(row))
    chosen = torch.full_like(best, len(row), dtype=torch.int64).scatter_reduce_(0, owner, least, "amin")
    return chosen[owner] == row


# The open nodes of many searches, and which of them to look at next.
#
# Instances on which little work was spent come before those on which much was. A few hard instances would else take all
# of a batch's time, with many easy ones waiting behind them: of 40 instances with heavy noise (D = 3, S/N = 0.3, M =
# 50) 36 are proved one after another in 24 s, and without turns 9 in 40 s. Of one turn, nodes that may hold a better
# answer come before those that only belong to a list: a good answer found early spares work.

LEAST_DEALT = 16  # nodes of a block, for each hand that it is dealt out to
CROWD = 2**26  # items of open nodes, with which new instances wait until lists are done
# Nodes of an instance, after which others have their turn: four times as many in each. Where time is limited the turns
# begin short. Otherwise all instances should be done, and hard ones that are left for the end would not fill a batch.
FIRST_TURN, FIRST_TURN_IN_TIME, TURNS = 2**12, 2**6, 20


def edges_of_turns(first: int, device: torch.device) -> Tensor:
    """How many nodes of an instance were looked at when each of its turns ends."""
    return first * 4 ** torch.arange(TURNS, device=device)


@dataclass(eq=False)
class Turn:
    """Open nodes of instances on which about as much work was spent, in blocks; those on top are looked at first."""

    can_improve: list[Nodes] = field(default_factory=list)  # they may hold a better answer
    others: list[Nodes] = field(default_factory=list)  # they may hold one for the list


def _no_turns() -> list[Turn]:
    return [Turn() for _ in range(TURNS + 1)]


@dataclass(eq=False)
class Stacks:
    """All open nodes, by turns."""

    spent: Tensor  # (instances,), int64: nodes looked at
    edges: Tensor  # of turns, where the nodes are
    turns: list[Turn] = field(default_factory=_no_turns)

    @classmethod
    def empty(cls, instances: int, device: torch.device) -> "Stacks":
        """No open nodes."""
        return cls(torch.zeros(instances, dtype=torch.int64, device=device), edges_of_turns(FIRST_TURN_IN_TIME, device))

    def push(self, nodes: Nodes, can_improve: Tensor) -> None:
        """Put nodes on their stacks, the least bounds on top."""
        order = nodes.bound.argsort(descending=True)
        nodes, can_improve, first = nodes.pick(order), can_improve[order], self.turns[0]  # they sink when they come up
        for stack, part in ((first.can_improve, can_improve), (first.others, ~can_improve)):
            if bool(part.any()):
                stack.append(nodes.pick(part))

    def take(self, batch: int) -> Nodes:
        """As many nodes as make a batch."""
        nodes = joined_nodes(
            self._all() if sum(len(block.owner) for block in self.open) <= batch else self._first(batch)
        )
        self.spent += torch.bincount(nodes.owner, minlength=len(self.spent))
        return nodes

    @property
    def taken(self) -> int:
        """How many nodes were looked at."""
        return int(self.spent.sum())

    def dealt(self, hands: int) -> list["Stacks"]:
        """The open nodes, dealt out: about as many to each hand, in the same order. Small blocks stay in one piece."""
        dealt, whole = [Stacks(self.spent.clone(), self.edges) for _ in range(hands)], itertools.count()
        for number, turn in enumerate(self.turns):
            for stack, of_hand in (
                (turn.can_improve, [one.turns[number].can_improve for one in dealt]),
                (turn.others, [one.turns[number].others for one in dealt]),
            ):
                for block in stack:
                    if len(block.owner) < LEAST_DEALT * hands:
                        of_hand[next(whole) % hands].append(block)
                    else:
                        for first, blocks in enumerate(of_hand):
                            blocks.append(block.pick(torch.arange(first, len(block.owner), hands)))
        return dealt

    def gathered(self, dealt: list["Stacks"]) -> "Stacks":
        """What is open in hands to which this was dealt out, and what they looked at."""
        together = Stacks(self.spent + sum(one.spent - self.spent for one in dealt), self.edges)
        for number, turn in enumerate(together.turns):
            turn.can_improve = [block for one in dealt for block in one.turns[number].can_improve]
            turn.others = [block for one in dealt for block in one.turns[number].others]
        return together

    def _all(self) -> list[Nodes]:
        """Every node, in any order."""
        found, self.turns = self.open, _no_turns()
        return found

    def _first(self, batch: int) -> list[Nodes]:
        """Those whose turn comes first."""
        found: list[Nodes] = []
        for number, turn in enumerate(self.turns):
            for stack in (turn.can_improve, turn.others):
                while stack and batch > 0:
                    block = self._sunk(stack.pop(), number, can_improve=stack is turn.can_improve)
                    rest = max(0, len(block.owner) - batch)
                    if rest:
                        stack.append(block.pick(slice(0, rest)))
                    found.append(block.pick(slice(rest, None)))
                    batch -= len(found[-1].owner)
        return found

    def _sunk(self, block: Nodes, number: int, *, can_improve: bool) -> Nodes:
        """The nodes of a block whose turn it is; the others go where they belong."""
        turn = torch.bucketize(self.spent[block.owner], self.edges)
        for later in turn[turn > number].unique().tolist():
            place = self.turns[later]
            (place.can_improve if can_improve else place.others).append(block.pick(turn == later))
        return block.pick(turn <= number)

    @property
    def can_improve(self) -> list[Nodes]:
        """The nodes that may hold a better answer."""
        return [block for turn in self.turns for block in turn.can_improve]

    @property
    def others(self) -> list[Nodes]:
        """The nodes that may hold an answer for the list alone."""
        return [block for turn in self.turns for block in turn.others]

    @property
    def open(self) -> list[Nodes]:
        """All of them."""
        return self.others + self.can_improve

    @property
    def crowded(self) -> bool:
        """Whether those for lists take up much memory."""
        return sum(block.fixed.numel() for block in self.others) > CROWD
