"""Classical group testing: decoders that see only which pools are positive.

A pool is positive where it reports more than zero, negative where it reports zero, and neither where its count is
missing. All three take reports for true (Aldridge, Johnson and Scarlett 2019, Group testing: an information theory
perspective, sections 2.3 to 2.5):

    COMP    (Chan, Che, Jaggi and Saligrama 2011) an item in a negative pool is not defective; all others are called
    DD      (Aldridge, Baldassini and Johnson 2014) of those others, call each one that some positive pool cannot do
            without, because all its other items are in negative pools
    SCOMP   (the same) then, while some positive pool holds no called item, call the item that is in most such pools

Without errors COMP calls every defective item, and more; DD calls none that is not, but may miss some; SCOMP explains
every positive pool. On counts they are baselines too: they show what the numbers are worth.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from qgt.decoders.contract import BoundDecoder, no_values, refuse_unsupported
from qgt.decoders.results import Decoded, Status
from qgt.model.design import Design
from qgt.model.loads import reads_empty
from qgt.model.problem import Problem


@dataclass(frozen=True)
class COMP:
    """Calls every item that is in no negative pool.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["1100", "0110", "0011"]), qgt.Bernoulli(0.2), qgt.PositiveNegative())
        >>> COMP().bind(problem)(torch.tensor([[1.0, 1.0, 0.0]])).x
        tensor([[1, 1, 0, 0]], dtype=torch.uint8)
    """  # noqa: E501 - an example in one line

    def supports(self, problem: Problem) -> str | None:
        """Every problem whose items are 0 or 1, or have amounts: neither prior nor noise is used."""
        return no_values(problem)

    def bind(self, problem: Problem) -> BoundDecoder:
        """Nothing to prepare."""
        refuse_unsupported(self, problem)

        def decode(y: Tensor, defectives: Tensor | None) -> Decoded:
            return _decoded(_Pools.of(problem, y).open)

        return BoundDecoder(problem, decode, takes_missing=True)


@dataclass(frozen=True)
class DD:
    """Definite defectives: calls the items that some positive pool cannot do without.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["1100", "0110", "0011"]), qgt.Bernoulli(0.2), qgt.PositiveNegative())
        >>> DD().bind(problem)(torch.tensor([[1.0, 1.0, 0.0]])).x  # the second pool needs the second item
        tensor([[0, 1, 0, 0]], dtype=torch.uint8)
    """  # noqa: E501 - an example in one line

    def supports(self, problem: Problem) -> str | None:
        """Every problem whose items are 0 or 1, or have amounts: neither prior nor noise is used."""
        return no_values(problem)

    def bind(self, problem: Problem) -> BoundDecoder:
        """Nothing to prepare."""
        refuse_unsupported(self, problem)

        def decode(y: Tensor, defectives: Tensor | None) -> Decoded:
            return _decoded(_definite(_Pools.of(problem, y)))

        return BoundDecoder(problem, decode, takes_missing=True)


@dataclass(frozen=True)
class SCOMP:
    """Sequential COMP: the definite defectives, and more until every positive pool is explained.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.2), qgt.PositiveNegative())
        >>> SCOMP().bind(problem)(torch.tensor([[1.0, 1.0]])).x  # nothing is definite, and one item explains both
        tensor([[0, 1, 0]], dtype=torch.uint8)
    """

    def supports(self, problem: Problem) -> str | None:
        """Every problem whose items are 0 or 1, or have amounts: neither prior nor noise is used."""
        return no_values(problem)

    def bind(self, problem: Problem) -> BoundDecoder:
        """Nothing to prepare."""
        refuse_unsupported(self, problem)

        def decode(y: Tensor, defectives: Tensor | None) -> Decoded:
            return _decoded(_explained(_Pools.of(problem, y)))

        return BoundDecoder(problem, decode, takes_missing=True)


class _Pools(NamedTuple):
    """What the reports say."""

    design: Design
    positive: Tensor  # (instances, pools), bool
    open: Tensor  # (instances, items), bool: the items in no negative pool

    @classmethod
    def of(cls, problem: Problem, y: Tensor) -> "_Pools":
        negative = y <= 0  # a missing count is neither positive nor negative
        if problem.loads is not None:
            negative = reads_empty(problem.noise, y, problem.design.pool_sizes.to(y.device, torch.float64))
        positive = ~negative & ~y.isnan()
        return cls(problem.design, positive, problem.design.spread(negative.to(torch.float64)) == 0)


def _definite(pools: _Pools) -> Tensor:
    """The items that are the only open one of some positive pool."""
    alone = pools.positive & (pools.design.count(pools.open.to(torch.uint8)) == 1)  # (instances, pools)
    return pools.open & (pools.design.spread(alone.to(torch.float64)) > 0)


def _explained(pools: _Pools) -> Tensor:
    """The definite defectives, and the item of most unexplained pools as long as there are such pools and items."""
    called = _definite(pools)
    for _ in range(called.shape[1]):
        unexplained = pools.positive & (pools.design.count(called.to(torch.uint8)) == 0)  # (instances, pools)
        helps = torch.where(pools.open, pools.design.spread(unexplained.to(torch.float64)), 0.0)  # (instances, items)
        most, item = helps.max(1)  # of equal ones the first
        more = most > 0
        if not bool(more.any()):
            break
        called[more, item[more]] = True
    return called


def _decoded(called: Tensor) -> Decoded:
    status = torch.full((len(called),), Status.OK, dtype=torch.uint8, device=called.device)
    return Decoded(called.to(torch.uint8), status)
