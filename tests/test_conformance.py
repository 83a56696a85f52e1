"""Every registered decoder passes the public suite, and the suite catches decoders that do not deserve to."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

import qgt
from qgt.testing import CHECKS, ConformanceError, check_decoder
from qgt.testing.checks import small_problem


def problem_with_amounts() -> qgt.Problem:
    design = qgt.Design.steiner_triples(pools=9, items=12)
    return qgt.Problem(design, qgt.Loads(rate=0.05, mean=3.0, sd=1.0), qgt.CycleThreshold(sigma=0.25, limit=38.0))


@pytest.mark.filterwarnings("ignore::qgt.decoders.neural.any_design.OutsideTraining")  # its problems are small
@pytest.mark.parametrize("name", qgt.DECODERS)
def test_registered_decoder_conforms(name: str) -> None:
    few: dict[str, dict[str, int]] = {"pretrained": {"tries": 1, "rounds": 8}}  # more take long where counts say little
    decoder, home = qgt.DECODERS[name](**few.get(name, {})), small_problem(pools=8, items=12)
    exact_counts = qgt.Problem(home.design, home.prior)
    one_copy = qgt.Problem(home.design, qgt.Copies(frequency=0.2, ploidy=1), home.noise)  # calls are 0 or 1 there too
    # The first is too noisy to peel, and of counts.
    homes = (home, exact_counts, problem_with_amounts(), one_copy)
    result = check_decoder(decoder, next(one for one in homes if decoder.supports(one) is None))
    assert len(result.passed) + len(result.not_applicable) == len(CHECKS)
    assert len(result.passed) >= 25


Mutation = Callable[[Tensor, qgt.Decoded], qgt.Decoded]


@dataclass(frozen=True)
class Broken:
    """MaximumNeighborhood with one fault: `before` changes the counts, `after` the result."""

    before: Callable[[Tensor], Tensor] | None = None
    after: Mutation | None = None
    checked: bool = True

    def supports(self, problem: qgt.Problem) -> str | None:
        return None

    def bind(self, problem: qgt.Problem) -> qgt.Decode:
        bound = qgt.MaximumNeighborhood().bind(problem)

        def decode(y: Tensor) -> qgt.Decoded:
            given = self.before(y) if self.before else y
            result = bound(given) if self.checked else bound.decode(given.to(torch.float64), None)
            return self.after(y, result) if self.after else result

        return decode


def nothing_checked(y: Tensor) -> Tensor:
    return y.nan_to_num(0.0, 0.0, 0.0)


def overwrite(y: Tensor) -> Tensor:
    return y.sub_(0.0).mul_(1.0).round_().add_(1.0) if y.is_floating_point() and not y.requires_grad else y


def widen(y: Tensor) -> Tensor:
    if y.dim() != 2:
        return y
    width = y.shape[1]
    for pools in (1, 2, 3, 5, 7, 12):
        if abs(pools - width) == 1:
            return torch.nn.functional.pad(y, (0, pools - width))
    return y


def sort_the_batch(y: Tensor, result: qgt.Decoded) -> qgt.Decoded:
    return replace(result, x=result.x[result.x.sum(1).argsort(stable=True)])


def centre_by_the_batch(y: Tensor) -> Tensor:
    return (y.double() - y.double().mean(0)).round() if y.dim() == 2 and len(y) else y


def prefer_first_items(y: Tensor, result: qgt.Decoded) -> qgt.Decoded:
    x = result.x.clone()
    x[:, : min(3, x.shape[1])] = 1
    return replace(result, x=x)


def random_calls(y: Tensor, result: qgt.Decoded) -> qgt.Decoded:
    return replace(result, x=torch.randint(0, 2, result.x.shape, dtype=torch.uint8))


def claim_proof(y: Tensor, result: qgt.Decoded) -> qgt.Decoded:
    return replace(result, status=torch.full_like(result.status, qgt.Status.PROVED))


def set_attribute(name: str, change: Callable[[qgt.Decoded], object]) -> Mutation:
    def apply(y: Tensor, result: qgt.Decoded) -> qgt.Decoded:
        spoiled = replace(result)
        object.__setattr__(spoiled, name, change(result))  # past the runtime type checks, as a stranger's code would be
        return spoiled

    return apply


FAULTS: dict[str, tuple[Broken, str]] = {
    "float calls": (Broken(after=set_attribute("x", lambda r: r.x.double())), "calls_and_status_are_well_formed"),
    "calls of 2": (Broken(after=set_attribute("x", lambda r: 2 * r.x)), "calls_and_status_are_well_formed"),
    "an item short": (Broken(after=set_attribute("x", lambda r: r.x[:, 1:])), "calls_and_status_are_well_formed"),
    "a bare tensor": (Broken(after=lambda y, r: r.x), "returns_decoded"),  # type: ignore[arg-type, return-value]
    "int64 status": (Broken(after=set_attribute("status", lambda r: r.status.long())), "status_is_uint8"),
    "unknown status": (
        Broken(after=set_attribute("status", lambda r: r.status + 77)),
        "calls_and_status_are_well_formed",
    ),
    "float32 scores": (
        Broken(after=set_attribute("scores", lambda r: r.scores.float())),
        "scores_are_finite_float64",
    ),
    "NaN scores": (
        Broken(after=set_attribute("scores", lambda r: r.scores / 0.0 * 0.0)),
        "scores_are_finite_float64",
    ),
    "one confidence for all": (
        Broken(after=set_attribute("evidence", lambda r: qgt.Evidence(confidence=torch.zeros(1).double()))),
        "evidence_has_one_row_per_instance",
    ),
    "batch sorted": (Broken(after=sort_the_batch), "order_of_instances_does_not_matter"),
    "batch statistics": (Broken(before=centre_by_the_batch), "batch_equals_loop"),
    "global randomness": (Broken(after=random_calls), "repeatable"),
    "counts overwritten": (Broken(before=overwrite), "inputs_are_not_changed"),
    "prefers low item numbers": (Broken(after=prefer_first_items), "relabelling_items_commutes"),
    "proves what is not so": (Broken(after=claim_proof), "proved_means_most_probable"),
    "NaN taken for zero": (Broken(before=nothing_checked), "missing_counts_are_refused_or_left_out"),
    "infinity taken for zero": (Broken(before=nothing_checked), "infinity_raises"),
    "pads a short sheet": (Broken(before=widen), "wrong_width_raises"),
    "says nothing of impossible counts": (Broken(checked=False), "impossible_counts_are_infeasible"),
    "says nothing of broken counts": (Broken(checked=False), "non_integer_counts_are_refused_or_infeasible"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_suite_catches(fault: str) -> None:
    decoder, check = FAULTS[fault]
    with pytest.raises(ConformanceError) as caught:
        check_decoder(decoder)
    assert check in caught.value.failures, caught.value
    assert check in str(caught.value)


class Mutable:
    """A decoder whose settings can be changed after binding."""

    supports = qgt.Prevalence.supports
    bind = qgt.Prevalence.bind


@dataclass(frozen=True)
class Stubborn:
    """A decoder that binds what it says it does not support."""

    def supports(self, problem: qgt.Problem) -> str | None:
        return "it never supports anything" if problem.items == 9 else None

    def bind(self, problem: qgt.Problem) -> qgt.Decode:
        return qgt.MaximumNeighborhood().bind(problem)


@dataclass(frozen=True)
class Forgetful:
    """A decoder that remembers earlier calls."""

    seen: list[int]

    def supports(self, problem: qgt.Problem) -> str | None:
        return None

    def bind(self, problem: qgt.Problem) -> qgt.Decode:
        bound, seen = qgt.MaximumNeighborhood().bind(problem), []

        def decode(y: Tensor) -> qgt.Decoded:
            seen.append(len(y))
            result = bound(y)
            return replace(result, x=1 - result.x) if len(seen) > 1 else result

        return decode


@pytest.mark.parametrize(
    ("decoder", "check"),
    [
        (Mutable(), "configuration_is_frozen"),
        (Stubborn(), "bind_agrees_with_supports"),
        (Forgetful([]), "earlier_calls_leave_no_trace"),
    ],
)
def test_suite_catches_faulty_configurations(decoder: qgt.Decoder, check: str) -> None:
    with pytest.raises(ConformanceError) as caught:
        check_decoder(decoder)
    assert check in caught.value.failures
