"""Stragglers: instances on which the search stays long, handed to HiGHS.

A bound that is weak for one instance of a batch can keep the search on it for as long as it may. A solver of integer
programs has other means (cuts, pivots, other branchings), and often is quick where the search is not, so an instance
that has had half of its own time and whose answer is still open is handed to HiGHS once, for as long as its time limit.

Nothing that the search knows is lost. An x better than the best one known can only be in the nodes that are open and
hopeful, so items that all of these have fixed are fixed in the program; and the best answer known is given along, which
narrows the program further. What HiGHS finds is an answer like any other, and its cost is computed again here. Its
word that nothing is better is believed only where that cost is the one it says, and while no better one turns up. Its
word that nothing is possible is not believed at all. Both are shown by no leaves, and the result says so.
"""

import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from qgt.decoders.certified.branching import Search
from qgt.decoders.certified.levels import CLOSE
from qgt.decoders.certified.polish import cost_of
from qgt.decoders.highs import costs, integer_program
from qgt.decoders.highs.integer_program import AGREE, Known, Outcome, Solution
from qgt.decoders.highs.program import Program
from qgt.model.factors import PoolCosts

SHARE = 0.5  # of an instance's time, which the search has to itself


@dataclass(eq=False)
class Stragglers:
    """The instances of one batch, how long the search has been on each, and what HiGHS says of some."""

    program: Program
    pools: PoolCosts
    seconds: float  # each instance's time limit
    spent: Tensor  # (instances,), float64: seconds of search
    asked: Tensor  # (instances,), bool
    least: Tensor  # (instances,), float64: what HiGHS says the best x costs; infinite where it says nothing
    since: float = field(default_factory=time.perf_counter)

    @classmethod
    def of(cls, program: Program, pools: PoolCosts, seconds: float) -> "Stragglers":
        """Nobody has been asked."""
        spent = torch.zeros(len(pools.which), dtype=torch.float64, device=pools.which.device)
        return cls(program, pools, seconds, spent, spent > 0, torch.full_like(spent, torch.inf))

    def after(self, search: Search, worked: Tensor, deadline: float) -> None:
        """Count the time since the last call to the instances worked on (one entry a node), and ask about the late."""
        seconds = time.perf_counter() - self.since
        self.spent.index_add_(0, worked, torch.full_like(self.spent[worked], seconds / max(1, len(worked))))
        late = (self.spent > SHARE * self.seconds) & ~self.asked
        if bool(late.any()):
            self.asked |= late
            self._ask(search, (late & (search.unexplored() < search.best - CLOSE)).nonzero()[:, 0], deadline)
        self.since = time.perf_counter()

    def proved(self, best: Tensor) -> Tensor:
        """Where HiGHS has proved answers of the given costs: (instances,), bool."""
        return self.least <= best + CLOSE

    def _ask(self, search: Search, late: Tensor, deadline: float) -> None:
        """Give some instances to HiGHS, and what it finds to the search."""
        if not len(late):
            return
        workers = torch.get_num_threads()
        fair = max(0.0, deadline - time.perf_counter()) * min(workers, len(late)) / len(late)
        seconds = min(self.seconds * workers, fair)  # a thread each: an instance's time is that of all cores

        # Where nothing was found the answer is all 0, which may be impossible: its own cost says so.
        known = cost_of(search.model, search.tables, late, search.answer[late]).tolist()
        answers = search.answer[late].cpu().numpy()

        def solve(i: int, x: NDArray[np.uint8], cost: float) -> Solution:
            table, best = costs.tables(self.pools, i), Known(x, cost) if math.isfinite(cost) else None
            return integer_program.solve(self._narrowed(search, i), table, seconds, best)

        with ThreadPoolExecutor(workers) as pool:
            found = list(pool.map(solve, late.tolist(), answers, known))
        x = torch.from_numpy(np.stack([one.x for one in found])).to(late.device)
        search.propose(late, x)
        exact = cost_of(search.model, search.tables, late, x)
        said = torch.tensor([one.cost if one.outcome == Outcome.PROVED else torch.inf for one in found]).to(exact)
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
