"""The contract every decoder keeps: a small frozen configuration, bound once to a problem, then called with counts.

    decode = SomeDecoder(its, options).bind(problem)      # set-up paid once
    result = decode(y)                                    # y is all it sees

A decoder of one's own needs `supports` and `bind`; wrapping its function in `BoundDecoder` gives it the contract's
checks of the counts. `qgt.testing.check_decoder` tells whether it keeps the rest.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from qgt.decoders.results import Decoded, Status
from qgt.decoders.threads import available_threads, in_own_thread, shared_out
from qgt.model.categories import Copies
from qgt.model.loads import detects_nothing
from qgt.model.prior import FactoredPrior
from qgt.model.problem import Problem

NEEDS_ALL = (
    "this decoder needs every count: leave the instance out, or use a decoder that accepts missing counts, such as "
    "certified."
)
SMALL = 2**18  # numbers of a tensor that is never split over threads
LEAST_PART = 64  # instances for each thread: with fewer, operations take longer to begin than to do


@runtime_checkable
class Decode(Protocol):
    """A bound decoder: counts in, calls out."""

    def __call__(
        self, y: Float64[Tensor, "instances pools"] | Float64[Tensor, "instances pools categories"]
    ) -> Decoded:
        """Decode a batch."""
        ...


@runtime_checkable
class Decoder(Protocol):
    """A decoder's configuration."""

    def supports(self, problem: Problem) -> str | None:
        """None if it can decode the problem, else the reason it cannot, in one sentence."""
        ...

    def bind(self, problem: Problem) -> Decode:
        """Prepare for one problem; raise a ValueError with the reason where `supports` gives one."""
        ...


@dataclass(frozen=True, eq=False)
class BoundDecoder:
    """A decoding function with the contract's checks around it.

    The function gets float64 counts of the right width, finite but for NaN in place of missing ones where it
    `takes_missing`, and, where it `takes_defectives`, the number of defectives of each instance (or None when not
    given). Instances with a count that no number of defectives explains come back INFEASIBLE, unless the function says
    that its answer is PROVED: its tables have shown then that the counts are possible.

    Where the instances do not depend on each other, `least_part` may say how many of them keep one thread busy: larger
    batches are shared out among as many threads as `torch.get_num_threads()` allows (see docs/scale.md). A function
    that `shares_out` its work itself gets the whole batch.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.1))
        >>> def nothing(y, defectives):
        ...     n = len(y)
        ...     return Decoded(torch.zeros(n, 3, dtype=torch.uint8), torch.zeros(n, dtype=torch.uint8))
        >>> BoundDecoder(problem, nothing)(torch.tensor([[1.0, 1.0], [7.0, 0.0]])).status
        tensor([0, 4], dtype=torch.uint8)
    """

    problem: Problem
    decode: Callable[[Tensor, Tensor | None], Decoded]
    takes_defectives: bool = False
    takes_missing: bool = False
    without: str = NEEDS_ALL  # why it does not, and what to do then
    least_part: int | None = None  # instances that a thread decodes together at least; None: torch splits operations
    shares_out: bool = False  # whether `decode` itself shares out its work among threads, instead of parts of the batch

    def __call__(self, y: Tensor, *, defectives: Tensor | int | None = None) -> Decoded:
        """Decode a batch of counts, optionally given the true number of defectives (one value, or one each)."""
        if self.least_part is None or not isinstance(y, Tensor) or y.device.type != "cpu":
            return self._checked(y, defectives)
        if len(y) < 2 * self.least_part and len(y) * self.problem.items > SMALL:
            return self._checked(y, defectives)  # few instances, each of them large
        return in_own_thread(lambda: self._checked(y, defectives))

    def _checked(self, y: Tensor, defectives: Tensor | int | None) -> Decoded:
        y = check_counts(self.problem, y, missing=self.takes_missing, without=self.without)
        if defectives is not None and not self.takes_defectives:
            raise ValueError("defectives was given, but this decoder cannot use it: leave it out.")
        known = None if defectives is None else _per_instance(defectives, y, self.problem.items)
        result = self._in_parts(y, known)
        status = result.status.to(torch.uint8)
        # A proved answer has a probability above 0, so its counts are possible: there is nothing to ask.
        asked = ((status != Status.PROVED) & (status != Status.INFEASIBLE)).nonzero().flatten()
        if len(asked):
            impossible = asked[~self.problem.explainable(y[asked])]
            status = status.index_fill(0, impossible, Status.INFEASIBLE)
        return replace(result, status=status)

    def _in_parts(self, y: Tensor, known: Tensor | None) -> Decoded:
        """Decode a batch, shared out among threads where it is large enough."""
        threads = available_threads() if y.device.type == "cpu" else 1
        if self.least_part is None or self.shares_out or threads == 1 or len(y) < 2 * self.least_part:
            return self.decode(y, known)
        # As few parts as there are threads: in smaller ones operations take longer to begin than to do.
        size = max(self.least_part, -(-len(y) // threads))
        places = torch.arange(len(y)).split(size)
        parts = [(y[some], None if known is None else known[some]) for some in places]
        return Decoded.joined(shared_out(lambda part: self.decode(*part), parts))


def check_counts(
    problem: Problem, y: Tensor, *, missing: bool = False, without: str = NEEDS_ALL
) -> Float64[Tensor, "instances pools"] | Float64[Tensor, "instances pools categories"]:
    """Return y as float64, or raise a ValueError that says which entry cannot be used: NaN too unless `missing`."""
    if not isinstance(y, Tensor) or y.dim() == 0 or y.shape[1:] != problem.report_shape:
        shape = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
        wanted = ", ".join(map(str, problem.report_shape))
        raise ValueError(f"y of shape {shape} is not valid: give a tensor (instances, {wanted}).")
    if y.is_complex() or y.dtype == torch.bool:
        raise ValueError(f"y of {y.dtype} is not valid: give counts as float64.")
    y = y.detach().to(torch.float64)
    infinite = y == -torch.inf if detects_nothing(problem.noise) else torch.isinf(y)
    for place in (infinite | (y.isnan() & (not missing))).nonzero()[:1].tolist():
        value, name = y[tuple(place)].item(), ", ".join(map(str, place))
        if value == value:
            raise ValueError(f"y[{name}]={value} is not a count: give finite numbers, NaN where missing.")
        raise ValueError(f"y[{name}]={value} is a missing count, and {without}")
    return y


def refuse_unsupported(decoder: Decoder, problem: Problem) -> None:
    """Raise a ValueError with the decoder's reason where it does not support the problem."""
    reason = decoder.supports(problem)
    if reason is not None:
        raise ValueError(f"{type(decoder).__name__} cannot decode this problem: {reason}")


def no_amounts(problem: Problem) -> str | None:
    """None if items are statuses, else why a decoder of counts of 0/1 items cannot decode the problem."""
    if problem.values is not None:
        return no_values(problem)
    return (
        None if problem.loads is None else "its items have amounts, and its pools report no counts; use LoadPosterior."
    )


def no_values(problem: Problem) -> str | None:
    """None if items are 0 or 1, or have amounts; else why a decoder of 0/1 items cannot decode the problem."""
    if problem.values is None:
        return None
    kind = "copies" if isinstance(problem.values, Copies) else "categories"
    return f"its items have {kind}, and this decoder is for items that are 0 or 1; use Certified."


def _per_instance(defectives: Tensor | int, y: Tensor, items: int) -> Int64[Tensor, " instances"]:
    """The given numbers of defectives as one whole number per instance."""
    given = torch.as_tensor(defectives, device=y.device)
    whole = given.to(torch.int64)
    if given.dim() > 1 or (given.dim() == 1 and len(given) != len(y)):
        raise ValueError(f"defectives of shape {tuple(given.shape)} is not valid: give one, or one per instance.")
    if bool(((whole != given) | (whole < 0) | (whole > items)).any()):
        raise ValueError(f"defectives={defectives} is not valid: give whole numbers from 0 to {items}.")
    return whole.expand(len(y))


def without_costs(problem: Problem) -> str | None:
    """None if the cost of x is a sum over items, groups of them and pools; otherwise the reason that it is not."""
    if problem.values is not None:
        return no_values(problem)
    if isinstance(problem.prior, FactoredPrior):
        return None
    kind = type(problem.prior).__name__
    return f"its prior {kind} is not a sum over items and groups: it has no `costs` (Exhaustive takes any)."
