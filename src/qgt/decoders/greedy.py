"""Decoders that need no iteration: the floor, and the matched filter.

`Prevalence` calls by the prior alone. `MaximumNeighborhood` is the greedy algorithm of Gebhard, Hahn-Klimroth, Kaaser
and Loick (IPDPS 2022, arXiv 1905.01458): rank the items by

    score_j = sum over the pools i of item j of (y_i - k s_i / N),      s_i the size of pool i,

and call the k highest. The paper's pools hold half the items, where k s_i / N is its k / 2; centring each pool by its
own size makes the same rule work for any design. Pools whose count is missing are left out of the sum.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from qgt.decoders.contract import BoundDecoder, no_amounts, no_values, refuse_unsupported
from qgt.decoders.results import Decoded, Status
from qgt.model.prior import Prior
from qgt.model.problem import Problem


def _ok(y: Tensor) -> Tensor:
    return torch.full((len(y),), Status.OK, dtype=torch.uint8, device=y.device)


@dataclass(frozen=True)
class Prevalence:
    """Calls an item defective where the prior alone makes that more likely than not: the floor for every comparison.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["11"]), qgt.Bernoulli([0.1, 0.9]))
        >>> qgt.Prevalence().bind(problem)(torch.tensor([[1.0]])).x
        tensor([[0, 1]], dtype=torch.uint8)
    """

    def supports(self, problem: Problem) -> str | None:
        """Any prior that knows its marginals."""
        if reason := no_values(problem):
            return reason
        return None if isinstance(problem.prior, Prior) else "its prior can only be sampled and has no marginals."

    def bind(self, problem: Problem) -> BoundDecoder:
        """Look the marginals up once."""
        refuse_unsupported(self, problem)
        assert isinstance(problem.prior, Prior)  # what `supports` says, for the type checker
        marginals = problem.prior.marginals(problem.items)

        def decode(y: Tensor, defectives: Tensor | None) -> Decoded:
            scores = marginals.to(y.device).repeat(len(y), 1)  # (instances, items)
            return Decoded((scores > 0.5).to(torch.uint8), _ok(y), scores)

        return BoundDecoder(problem, decode, takes_missing=True)


@dataclass(frozen=True)
class MaximumNeighborhood:
    """Calls the k items whose pools' counts most exceed what k random defectives would give.

    k is given at the call (`decode(y, defectives=k)`) or estimated from the counts: their sum, over the mean number
    of counted pools an item is in.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.3))
        >>> decode = qgt.MaximumNeighborhood().bind(problem)
        >>> decode(torch.tensor([[1.0, 1.0]]), defectives=1).x
        tensor([[0, 1, 0]], dtype=torch.uint8)
    """

    def supports(self, problem: Problem) -> str | None:
        """Every problem: neither prior nor noise is used."""
        return no_amounts(problem)

    def bind(self, problem: Problem) -> BoundDecoder:
        """Look the sizes of the pools up once."""
        refuse_unsupported(self, problem)
        sizes = problem.design.pool_sizes.to(torch.float64)

        def decode(y: Tensor, defectives: Tensor | None) -> Decoded:
            size = sizes.to(y.device)
            counted = ~y.isnan()
            degree = counted.to(torch.float64) @ size / problem.items  # (instances,)
            estimate = (y.nansum(1) / degree.clamp(min=1e-300)).round().clamp(0, problem.items)
            k = estimate.to(torch.int64) if defectives is None else defectives
            # Whole numbers until the last step, so that equal scores are equal to the last bit.
            excess = torch.where(counted, y * problem.items - k[:, None] * size, 0.0)  # (instances, pools)
            scores = problem.design.spread(excess) / problem.items  # (instances, items)
            # A stable sort breaks ties by item number, so that an instance's calls never depend on its batch.
            order = scores.argsort(dim=1, descending=True, stable=True)
            called = torch.arange(problem.items, device=y.device) < k[:, None]  # (instances, rank)
            x = torch.zeros_like(scores, dtype=torch.uint8).scatter_(1, order, called.to(torch.uint8))
            return Decoded(x, _ok(y), scores)

        return BoundDecoder(problem, decode, takes_defectives=True, takes_missing=True)
