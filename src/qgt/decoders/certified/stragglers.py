"""Stragglers: instances on which the search stays long, handed to HiGHS.

A bound that is weak for one instance of a batch can keep the search on it for as long as it may. A solver of integer
programs has other means (cuts, pivots, other branchings), and often is quick where the search is not. So when half of a
batch's time is over, the instances whose answers are still open are handed to HiGHS once, for most of what is left.

Nothing that the search knows is lost. An x better than the best one known can only be in the nodes that are open and
hopeful, so items that all of these have fixed are fixed in the program; and the best answer known is given along, which
narrows the program further. What HiGHS finds is an answer like any other, and its cost is computed again here. Its
word that nothing is better is believed only where that cost is the one it says, and while no better one turns up. Its
word that nothing is possible is not believed at all. Both are shown by no leaves, and the result says so.
"""

import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from qgt.decoders.certified.nodes import CLOSE, cost_of
from qgt.decoders.certified.search import Search
from qgt.decoders.highs import integer_program
from qgt.decoders.highs.integer_program import AGREE, KnownAnswer, Program, ProgramOutcome, Solution
from qgt.model.factors import PoolCosts

SHARE = 0.5  # of a batch's time, which the search has to itself
HIGHS = 0.8  # of what is left then, which HiGHS has at most


@dataclass(eq=False)
class Stragglers:
    """The instances of one batch, and what HiGHS says of those that it was asked about."""

    program: Program
    pools: PoolCosts
    seconds: float  # each instance's time limit
    deadline: float  # of the batch
    least: Tensor  # (instances,), float64: what HiGHS says the best x costs; infinite where it says nothing
    asked: bool = False

    @classmethod
    def of(cls, program: Program, pools: PoolCosts, seconds: float, deadline: float) -> "Stragglers":
        """Nobody has been asked."""
        least = torch.full((len(pools.which),), torch.inf, dtype=torch.float64, device=pools.which.device)
        return cls(program, pools, seconds, deadline, least)

    def after(self, search: Search) -> None:
        """Ask about the instances that are late, after a step of the search."""
        left = self.deadline - time.perf_counter()
        if not self.asked and left < (1 - SHARE) * self.seconds * len(self.least):
            self.asked = True
            late = (search.unexplored() < search.best - CLOSE).nonzero()[:, 0]
            if len(late):
                self._ask(search, late, HIGHS * max(0.0, left))

    def proved(self, best: Tensor) -> Tensor:
        """Where HiGHS has proved answers of the given costs: (instances,), bool."""
        return self.least <= best + CLOSE

    def _ask(self, search: Search, late: Tensor, left: float) -> None:
        """Give some instances to HiGHS for so many seconds in all, and what it finds to the search."""
        workers = torch.get_num_threads()
        fair = left * min(workers, len(late)) / len(late)
        seconds = min(self.seconds * workers, fair)  # a thread each: an instance's time is that of all cores

        # Where nothing was found the answer is all 0, which may be impossible: its own cost says so.
        known = cost_of(search.model, search.tables, late, search.answer[late]).tolist()
        answers = search.answer[late].cpu().numpy()

        def solve(i: int, x: NDArray[np.uint8], cost: float) -> Solution:
            table, best = (
                integer_program.cost_tables(self.pools, i),
                KnownAnswer(x, cost) if math.isfinite(cost) else None,
            )
            return integer_program.solve(self._narrowed(search, i), table, seconds, best)

        with ThreadPoolExecutor(workers) as pool:
            found = list(pool.map(solve, late.tolist(), answers, known))
        x = torch.from_numpy(np.stack([one.x for one in found])).to(late.device)
        search.propose(late, x)
        exact = cost_of(search.model, search.tables, late, x)
        said = torch.tensor([one.cost if one.outcome == ProgramOutcome.PROVED else torch.inf for one in found]).to(
            exact
        )
        believed = ((said - exact).abs() <= AGREE) & exact.isfinite()
        self.least[late] = torch.where(believed, exact, torch.inf)
        if search.slack == 0:  # then there is nothing left to look for
            search.drop(self.proved(search.best))

    def _narrowed(self, search: Search, i: int) -> Program:
        """The program with the items fixed that are fixed alike wherever a better x may be."""
        fixed = [block.fixed[(block.owner == i) & (block.bound < search.best[i] - CLOSE)] for block in search.open]
        statuses = torch.cat(fixed).cpu()  # (hopeful nodes, items)
        lower, upper = ((statuses == 1).all(0).numpy(), (statuses != 0).any(0).numpy())
        return replace(self.program, lower=lower.astype(np.float64), upper=upper.astype(np.float64))
