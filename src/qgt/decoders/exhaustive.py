"""The posterior by enumeration: every one of the 2^N statuses, for up to 20 items. The oracle for the other decoders.

    P(x | y) = P(x) prod_i P(y_i | (A x)_i) / sum over all x' of the same

gives the most probable x, its posterior probability, and the items' exact marginals P(x_j = 1 | y), for any prior
that can be computed with and any noise. A status is the number whose binary digits are x, the first item leading; it
splits into a high and a low half of the digits, and so do its counts,

    (A x)_i = (A x_high)_i + (A x_low)_i,

so that two tables of 2^(N/2) columns hold the counts of all statuses.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from qgt.decoders.contract import BoundDecoder, refuse_unsupported
from qgt.decoders.parts import through_parts
from qgt.decoders.results import Decoded, Evidence, Status
from qgt.model.factors import pool_costs
from qgt.model.prior import Prior
from qgt.model.problem import Problem

MOST_ITEMS = 20
STATUSES_AT_A_TIME = 2**21  # statuses times instances at a time: a few arrays of 16 MiB
TIE = 1e-9  # log joints this close are equal: they differ by the rounding of sums


@dataclass(frozen=True)
class Exhaustive:
    """Tries every x: the most probable one and the exact marginals, for up to 20 items.

    Of equally probable answers the first in the order of binary numbers is called. `scores` are the posterior
    marginals; the evidence holds the answer's `log_joint` and its posterior probability, `confidence`.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.5))
        >>> result = qgt.Exhaustive().bind(problem)(torch.tensor([[1.0, 1.0]]))
        >>> result.x, result.scores, result.evidence.confidence  # 010 and 101 explain the counts equally well
        (tensor([[0, 1, 0]], dtype=torch.uint8), tensor([[0.5000, 0.5000, 0.5000]], dtype=torch.float64), tensor([0.5000], dtype=torch.float64))
    """  # noqa: E501 - an example's output

    def supports(self, problem: Problem) -> str | None:
        """Up to 20 items, any prior with `log_prob` and any noise."""
        if problem.values is not None and problem.in_parts.items > MOST_ITEMS:
            most = MOST_ITEMS // problem.values.levels
            return f"it has {problem.items} items, and trying all their values is for up to {most} of them."
        problem = problem.in_parts
        if problem.items > MOST_ITEMS:
            return f"it has {problem.items} items, and trying all 2^{problem.items} statuses is for up to {MOST_ITEMS}."
        return None if isinstance(problem.prior, Prior) else "its prior can only be sampled and has no `log_prob`."

    def bind(self, problem: Problem) -> BoundDecoder:
        """Count every status once."""
        refuse_unsupported(self, problem)
        if problem.values is not None:
            return through_parts(self, problem)
        statuses = _Statuses.of(problem)

        def decode(y: Tensor, defectives: Tensor | None) -> Decoded:
            here = statuses.to(y.device)
            rows = max(1, STATUSES_AT_A_TIME >> problem.items)
            parts = [here.decode(problem, part) for part in y.split(rows)]  # no instances are one part of none
            x, scores, confidence = (torch.cat(part) for part in zip(*parts, strict=True))
            status = torch.where(confidence > 0, Status.PROVED, Status.INFEASIBLE).to(torch.uint8)
            evidence = Evidence(problem.log_joint(x, y), confidence=confidence, marginals=scores)
            return Decoded(x, status, scores, evidence)

        return BoundDecoder(problem, decode, takes_missing=True)


@dataclass(frozen=True, eq=False)
class _Statuses:
    """All statuses of a problem: their prior, and the digits and counts of their halves."""

    log_prior: Tensor  # (2^items,)
    digits: tuple[Tensor, Tensor]  # (2^high, high), (2^low, low)
    counts: tuple[Tensor, Tensor]  # (pools, 2^high), (pools, 2^low)
    marginals: Tensor  # (items,), of the prior

    @classmethod
    def of(cls, problem: Problem) -> "_Statuses":
        prior, items = problem.prior, problem.items
        assert isinstance(prior, Prior)  # what `supports` says, for the type checker
        low = items // 2
        digits = _binary(items - low), _binary(low)
        high_x = torch.nn.functional.pad(digits[0], (0, low))
        low_x = torch.nn.functional.pad(digits[1], (items - low, 0))
        counts = [problem.design.count(x).T.to(torch.int64) for x in (high_x, low_x)]
        # Some high halves at a time, for a prior may need many times the memory of its x.
        parts = high_x.split(max(1, 2**16 // len(low_x)))
        log_prior = [prior.log_prob((part[:, None] + low_x).flatten(0, 1)) for part in parts]
        return cls(torch.cat(log_prior), digits, (counts[0], counts[1]), prior.marginals(items))

    def to(self, device: torch.device) -> "_Statuses":
        high, low = self.digits
        high_counts, low_counts = self.counts
        return _Statuses(
            self.log_prior.to(device),
            (high.to(device), low.to(device)),
            (high_counts.to(device), low_counts.to(device)),
            self.marginals.to(device),
        )

    def decode(self, problem: Problem, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The calls, the marginals and the calls' probability; zeros, the prior's marginals and 0 if there are none."""
        log_joint = self.log_joint(problem, y)  # (instances, statuses)
        best = log_joint.amax(1, keepdim=True)
        possible = best > -torch.inf  # (instances, 1)
        answer = (log_joint >= best - TIE).to(torch.uint8).argmax(1)  # the first, and status 0 if none is possible
        posterior = torch.where(possible, log_joint - best, 0.0).exp_()
        posterior /= posterior.sum(1, keepdim=True)
        high, low = self.digits
        halves = posterior.view(len(y), len(high), len(low))
        scores = torch.cat([halves.sum(2) @ high.to(torch.float64), halves.sum(1) @ low.to(torch.float64)], 1)
        x = torch.cat([high[answer // len(low)], low[answer % len(low)]], 1)
        confidence = posterior.gather(1, answer[:, None]) * possible
        return x, torch.where(possible, scores.clamp(max=1.0), self.marginals), confidence[:, 0]

    def log_joint(self, problem: Problem, y: Tensor) -> Tensor:
        """Every status under every instance, pool by pool in order, so that no value depends on the batch."""
        pools = pool_costs(problem.design, problem.noise, y)
        total = self.log_prior.repeat(len(y), 1)  # (instances, statuses)
        for i, (high, low) in enumerate(zip(*self.counts, strict=True)):
            tables = pools.tables[pools.which[:, i]]  # (instances, counts)
            total -= tables[:, (high[:, None] + low).flatten()]
        return total


def _binary(digits: int) -> Tensor:
    """The numbers 0, 1, ... of that many binary digits, the leading one first: (2^digits, digits), uint8."""
    places = torch.arange(digits - 1, -1, -1)
    return (torch.arange(2**digits)[:, None] >> places & 1).to(torch.uint8)
