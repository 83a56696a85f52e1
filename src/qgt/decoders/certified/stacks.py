"""The open nodes of many searches, and which of them to look at next.

Instances on which little work was spent come before those on which much was. A few hard instances would else take all
of a batch's time, with many easy ones waiting behind them: of 40 instances with heavy noise (D = 3, S/N = 0.3, M = 50)
36 are proved one after another in 24 s, and without turns 9 in 40 s. Of one turn, nodes that may hold a better answer
come before those that only belong to a list: a good answer found early spares work.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from qgt.decoders.certified.nodes import Nodes, joined

CROWD = 2**26  # items of open nodes, with which new instances wait until lists are done
TURNS = torch.tensor([64 * 4**turn for turn in range(20)])  # nodes of an instance, after which others have their turn


@dataclass(eq=False)
class Turn:
    """Open nodes of instances on which about as much work was spent, in blocks; those on top are looked at first."""

    hopeful: list[Nodes] = field(default_factory=list)  # they may hold a better answer
    others: list[Nodes] = field(default_factory=list)  # they may hold one for the list


def _no_turns() -> list[Turn]:
    return [Turn() for _ in range(len(TURNS) + 1)]


@dataclass(eq=False)
class Stacks:
    """All open nodes, by turns."""

    spent: Tensor  # (instances,), int64: nodes looked at
    edges: Tensor  # of turns, where the nodes are
    turns: list[Turn] = field(default_factory=_no_turns)

    @classmethod
    def empty(cls, instances: int, device: torch.device) -> "Stacks":
        """No open nodes."""
        return cls(torch.zeros(instances, dtype=torch.int64, device=device), TURNS.to(device))

    def push(self, nodes: Nodes, hopeful: Tensor) -> None:
        """Put nodes on their stacks, the least bounds on top."""
        order = nodes.bound.argsort(descending=True)
        nodes, hopeful, first = nodes.pick(order), hopeful[order], self.turns[0]  # they sink when they come up
        for stack, part in ((first.hopeful, hopeful), (first.others, ~hopeful)):
            if bool(part.any()):
                stack.append(nodes.pick(part))

    def take(self, batch: int) -> Nodes:
        """As many nodes as make a batch."""
        nodes = joined(self._all() if sum(len(block.owner) for block in self.open) <= batch else self._first(batch))
        self.spent += torch.bincount(nodes.owner, minlength=len(self.spent))
        return nodes

    def _all(self) -> list[Nodes]:
        """Every node, in any order."""
        found, self.turns = self.open, _no_turns()
        return found

    def _first(self, batch: int) -> list[Nodes]:
        """Those whose turn comes first."""
        found: list[Nodes] = []
        for number, turn in enumerate(self.turns):
            for stack in (turn.hopeful, turn.others):
                while stack and batch > 0:
                    block = self._sunk(stack.pop(), number, hopeful=stack is turn.hopeful)
                    rest = max(0, len(block.owner) - batch)
                    if rest:
                        stack.append(block.pick(slice(0, rest)))
                    found.append(block.pick(slice(rest, None)))
                    batch -= len(found[-1].owner)
        return found

    def _sunk(self, block: Nodes, number: int, *, hopeful: bool) -> Nodes:
        """The nodes of a block whose turn it is; the others go where they belong."""
        turn = torch.bucketize(self.spent[block.owner], self.edges)
        for later in turn[turn > number].unique().tolist():
            place = self.turns[later]
            (place.hopeful if hopeful else place.others).append(block.pick(turn == later))
        return block.pick(turn <= number)

    @property
    def hopeful(self) -> list[Nodes]:
        """The nodes that may hold a better answer."""
        return [block for turn in self.turns for block in turn.hopeful]

    @property
    def others(self) -> list[Nodes]:
        """The nodes that may hold an answer for the list alone."""
        return [block for turn in self.turns for block in turn.others]

    @property
    def open(self) -> list[Nodes]:
        """All of them."""
        return self.others + self.hopeful

    @property
    def crowded(self) -> bool:
        """Whether those for lists take up much memory."""
        return sum(block.fixed.numel() for block in self.others) > CROWD

    def drop(self, done: Tensor) -> list[Nodes]:
        """Take out the nodes of some instances, (instances,) bool, and return them."""
        dropped = [some for block in self.open if len((some := block.pick(done[block.owner])).owner)]
        for turn in self.turns:
            for stack in (turn.hopeful, turn.others):
                stack[:] = [rest for block in stack if len((rest := block.pick(~done[block.owner])).owner)]
        return dropped
