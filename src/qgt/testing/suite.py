"""The conformance suite: what every decoder, ours or a stranger's, must do.

    qgt.testing.check_decoder(MyDecoder())

runs each check of `CHECKS` by name and raises a `ConformanceError` that says which failed and on what. A check that
needs a problem which the decoder does not support (a trained network knows only its own) is listed as not applicable,
with the decoder's reason; every other check must pass.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from qgt.decoders.contract import Decode, Decoder
from qgt.decoders.results import Decoded, Status
from qgt.model.design import Design
from qgt.model.noise import SparseInteger, usual_reports
from qgt.model.prior import Bernoulli
from qgt.model.problem import Instances, Problem

Check = Callable[[Decoder, Problem], None]
CHECKS: dict[str, Check] = {}
INSTANCES = 24  # that most checks decode: few, because a search may take long over each
FEW = 4  # are enough where one call shows a fault, whatever its instances


class ConformanceError(AssertionError):
    """A decoder, a prior or a noise broke its contract; `failures` maps each failed check to what it saw."""

    def __init__(self, part: object, failures: Mapping[str, str], checks: int) -> None:
        self.failures = dict(failures)
        lines = "".join(f"\n  {name}: {fault}" for name, fault in failures.items())
        super().__init__(f"{part!r} fails {len(failures)} of {checks} checks:{lines}")


@dataclass(frozen=True)
class Conformance:
    """The checks that a part passed, and those it could not be put to, each with the reason."""

    passed: tuple[str, ...]
    not_applicable: Mapping[str, str]


class NotApplicable(Exception):
    """Raised by a check that cannot be put to this part; it says why."""


def check_decoder(decoder: Decoder, problem: Problem | None = None) -> Conformance:
    """Put a decoder through every check; raise a ConformanceError that names all failures.

    `problem` is the one most checks use; give it for a decoder that is tied to one problem.

    Example:
        >>> import qgt, qgt.testing
        >>> len(qgt.testing.check_decoder(qgt.Prevalence()).passed) >= 25
        True
    """
    return run_checks(decoder, CHECKS, decoder, problem or small_problem())


def run_checks(part: object, checks: Mapping[str, Callable[..., None]], *arguments: object) -> Conformance:
    """Put a part through checks, each called with the arguments."""
    passed: list[str] = []
    failures: dict[str, str] = {}
    not_applicable: dict[str, str] = {}
    for name, run in checks.items():
        try:
            run(*arguments)
        except NotApplicable as reason:
            not_applicable[name] = str(reason)
        except AssertionError as fault:
            failures[name] = str(fault)
        except Exception as error:  # whatever a stranger's part raises is a finding, not our crash
            failures[name] = f"raised {type(error).__name__}: {error}"
        else:
            passed.append(name)
    if failures:
        raise ConformanceError(part, failures, len(checks))
    return Conformance(tuple(passed), not_applicable)


def check(function: Check) -> Check:
    """Add a check to the suite under its function's name."""
    CHECKS[function.__name__.removeprefix("_")] = function
    return function


def small_problem(pools: int = 12, items: int = 24, seed: int = 0) -> Problem:
    """A problem small enough for the slowest decoder."""
    design = Design.bernoulli(pools=pools, items=items, generator=torch.Generator().manual_seed(seed))
    return Problem(design, Bernoulli(0.15), SparseInteger(rate=0.1, bound=1))


def instances_of(problem: Problem, instances: int = INSTANCES) -> Instances:
    """The same instances at every call."""
    return problem.simulate(instances, generator=torch.Generator().manual_seed(1))


def bound(decoder: Decoder, problem: Problem) -> Decode:
    """The decoder bound to the problem; NotApplicable where it does not support it."""
    reason = decoder.supports(problem)
    if reason is not None:
        raise NotApplicable(reason)
    return decoder.bind(problem)


def expect_same(a: Decoded, b: Decoded, when: str) -> None:
    """Fail unless two results agree: calls and statuses exactly, scores up to rounding."""
    wrong = ((a.x != b.x).any(1) | (a.status != b.status)).nonzero().flatten().tolist()
    assert not wrong, f"calls or statuses differ {when}, first for instance {wrong[0]}"
    assert (a.scores is None) == (b.scores is None), f"scores are there only sometimes: {when}"
    if a.scores is not None and b.scores is not None:
        far = (a.scores - b.scores).abs() > 1e-4 * (1 + a.scores.abs())
        assert not bool(far.any()), f"scores differ {when}, by up to {float((a.scores - b.scores).abs().max()):g}"


def expect_well_formed(result: Decoded, instances: int, items: int) -> None:
    """Fail unless calls and statuses have the shapes, dtypes and values of the contract."""
    assert isinstance(result, Decoded), f"returned a {type(result).__name__}, not a qgt.Decoded"
    assert result.x.shape == (instances, items), f"x has shape {tuple(result.x.shape)}, not {(instances, items)}"
    assert result.x.dtype == torch.uint8, f"x is {result.x.dtype}, not uint8"
    assert not bool((result.x > 1).any()), f"x holds {int(result.x.max())}, not only 0 and 1"
    assert result.status.shape == (instances,), f"status has shape {tuple(result.status.shape)}, not {(instances,)}"
    known = {int(status) for status in Status}
    assert set(result.status.tolist()) <= known, f"status holds {set(result.status.tolist()) - known}: unknown"


def errorless(problem: Problem, x: Tensor) -> Tensor:
    """What the pools report of x without an error."""
    return usual_reports(problem.noise, problem.design.count(x), problem.design.pool_sizes.double())


def decode_small(decoder: Decoder, problem: Problem, x: Tensor) -> Decoded:
    """Decode the errorless reports of x on a problem of its own and check the result's form."""
    result = bound(decoder, problem)(errorless(problem, x))
    expect_well_formed(result, len(x), problem.items)
    return result


def expect_value_error(decoder: Decoder, problem: Problem, y: Tensor, what: str) -> None:
    """Fail unless decoding these counts raises a ValueError with a message."""
    try:
        bound(decoder, problem)(y)
    except ValueError as error:
        assert str(error), f"{what}: the ValueError says nothing"
        return
    raise AssertionError(f"{what}: no ValueError")
