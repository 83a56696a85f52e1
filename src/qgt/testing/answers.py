"""Checks of the answers: their form, that equal counts get equal answers, and that nothing else changes."""

import dataclasses
import threading

import torch
from torch import Tensor

from qgt.decoders.contract import Decoder
from qgt.decoders.results import Answers, Decoded, Status
from qgt.model.design import Design
from qgt.model.prior import Bernoulli, Prior
from qgt.model.problem import Problem
from qgt.testing.suite import (
    INSTANCES,
    NotApplicable,
    bound,
    check,
    expect_same,
    expect_well_formed,
    instances_of,
    small_problem,
)

# --- the form of a result -------------------------------------------------------------------------------------------


@check
def _returns_decoded(decoder: Decoder, problem: Problem) -> None:
    result = bound(decoder, problem)(instances_of(problem).y)
    assert isinstance(result, Decoded), f"returned a {type(result).__name__}, not a qgt.Decoded"


@check
def _calls_and_status_are_well_formed(decoder: Decoder, problem: Problem) -> None:
    result = bound(decoder, problem)(instances_of(problem).y)
    expect_well_formed(result, INSTANCES, problem.items)


@check
def _status_is_uint8(decoder: Decoder, problem: Problem) -> None:
    status = bound(decoder, problem)(instances_of(problem).y).status
    assert status.dtype == torch.uint8, f"status is {status.dtype}, not uint8"


@check
def _scores_are_finite_float64(decoder: Decoder, problem: Problem) -> None:
    scores = bound(decoder, problem)(instances_of(problem).y).scores
    if scores is not None:
        assert scores.shape == (INSTANCES, problem.items), f"scores have shape {tuple(scores.shape)}"
        assert scores.dtype == torch.float64, f"scores are {scores.dtype}, not float64"
        assert not bool(scores.isnan().any()), "scores hold NaN"


@check
def _evidence_has_one_row_per_instance(decoder: Decoder, problem: Problem) -> None:
    evidence = bound(decoder, problem)(instances_of(problem).y).evidence
    for one in dataclasses.fields(evidence):
        value = getattr(evidence, one.name)
        rows = len(value.spans if isinstance(value, Answers) else value) if value is not None else INSTANCES
        assert rows == INSTANCES, f"evidence.{one.name} has {rows} rows for {INSTANCES} instances"


@check
def _results_carry_no_gradient(decoder: Decoder, problem: Problem) -> None:
    y = instances_of(problem).y.requires_grad_()
    result = bound(decoder, problem)(y)
    assert result.scores is None or not result.scores.requires_grad, "scores keep the autograd graph alive"


# --- the same counts, the same answer -------------------------------------------------------------------------------


@check
def _batch_equals_loop(decoder: Decoder, problem: Problem) -> None:
    decode, y = bound(decoder, problem), instances_of(problem, 12).y
    whole = decode(y)
    for i in range(len(y)):
        expect_same(whole.pick(torch.tensor([i])), decode(y[i : i + 1]), f"between a batch and instance {i} alone")


@check
def _batch_equals_loop_where_counts_say_little(decoder: Decoder, problem: Problem) -> None:
    """Most counts leave several answers here: what depends on the batch shows in ties, scans and early stops."""
    hard = small_problem(pools=10, items=40, seed=7)
    decode, y = bound(decoder, hard), instances_of(hard, 60).y
    some = torch.arange(0, len(y), 3)  # alone each of them takes as long as the whole batch
    whole, alone = decode(y).pick(some), Decoded.joined([decode(y[i : i + 1]) for i in some.tolist()])
    # An iteration that did not settle may end anywhere: its last digits decide.
    settled = ((whole.status != Status.NOT_CONVERGED) & (alone.status != Status.NOT_CONVERGED)).nonzero()[:, 0]
    assert 2 * len(settled) >= len(some), f"only {len(settled)} of {len(some)} instances settle"
    expect_same(whole.pick(settled), alone.pick(settled), "between a batch and each of its instances alone")


@check
def _order_of_instances_does_not_matter(decoder: Decoder, problem: Problem) -> None:
    decode, y = bound(decoder, problem), instances_of(problem).y
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(2))
    expect_same(decode(y).pick(order), decode(y[order]), "when the instances are reordered")


@check
def _equal_instances_get_equal_calls(decoder: Decoder, problem: Problem) -> None:
    y = instances_of(problem, 5).y
    result = bound(decoder, problem)(y.repeat(2, 1))
    expect_same(result.pick(torch.arange(5)), result.pick(torch.arange(5, 10)), "between equal rows of one batch")


@check
def _repeatable(decoder: Decoder, problem: Problem) -> None:
    decode, y = bound(decoder, problem), instances_of(problem).y
    expect_same(decode(y), decode(y), "between two calls")


@check
def _binding_again_gives_the_same(decoder: Decoder, problem: Problem) -> None:
    y = instances_of(problem).y
    expect_same(bound(decoder, problem)(y), bound(decoder, problem)(y), "between two bindings")


@check
def _earlier_calls_leave_no_trace(decoder: Decoder, problem: Problem) -> None:
    decode, y = bound(decoder, problem), instances_of(problem).y
    halves = y.chunk(2)
    decode(halves[1])
    expect_same(bound(decoder, problem)(halves[0]), decode(halves[0]), "after other instances were decoded")


@check
def _threads_do_not_disturb_each_other(decoder: Decoder, problem: Problem) -> None:
    decode, y = bound(decoder, problem), instances_of(problem).y
    halves = y.chunk(2)
    results: dict[int, Decoded] = {}
    threads = [threading.Thread(target=lambda i=i: results.update({i: decode(halves[i])})) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i, half in enumerate(halves):
        assert i in results, "decoding in a thread raised"
        expect_same(decode(half), results[i], "between a thread and a plain call")


@check
def _memory_layout_does_not_matter(decoder: Decoder, problem: Problem) -> None:
    decode, y = bound(decoder, problem), instances_of(problem).y
    expect_same(decode(y), decode(y.T.contiguous().T), "for a transposed memory layout")


@check
def _count_dtype_does_not_matter(decoder: Decoder, problem: Problem) -> None:
    decode, y = bound(decoder, problem), instances_of(problem).y
    usual = decode(y)
    for dtype in (torch.float32, torch.int64):
        expect_same(usual, decode(y.to(dtype)), f"for counts of {dtype}")


# --- relabelling ----------------------------------------------------------------------------------------------------


def _compare_decisive(a: Decoded, b: Decoded, when: str) -> None:
    """Compare calls where the scores leave no tie between called and not called items."""
    assert a.scores is not None
    close = (a.scores[:, :, None] - a.scores[:, None, :]).abs() < 1e-6  # (instances, items, items)
    decisive = ~(close & (a.x[:, :, None] != a.x[:, None, :])).any((1, 2))
    if not bool(decisive.any()):
        raise NotApplicable("in every instance a called item ties with one that is not")
    wrong = ((a.x != b.x).any(1) & decisive).nonzero().flatten().tolist()
    assert not wrong, f"calls differ {when}, first for instance {wrong[0]}"


def _relabel(decoder: Decoder, problem: Problem, pools: Tensor, items: Tensor, when: str) -> None:
    if not isinstance(problem.prior, Prior):
        raise NotApplicable("the problem's prior can only be sampled")
    # Items of different rates, because of equally probable answers the numbering may choose one.
    rate = problem.prior.marginals(problem.items) * torch.linspace(1.0, 0.8, problem.items, dtype=torch.float64)
    own = Problem(problem.design, Bernoulli(rate), problem.noise)
    matrix = problem.design.matrix[pools][:, items]
    other = Problem(Design.from_matrix(matrix.contiguous()), Bernoulli(rate[items]), problem.noise)
    y = instances_of(problem).y
    a = bound(decoder, own)(y)
    b = bound(decoder, other)(y[:, pools])
    if a.scores is None or b.scores is None:
        raise NotApplicable("it gives no scores by which ties could be told")
    _compare_decisive(_items(a, items), b, when)


def _items(result: Decoded, order: Tensor) -> Decoded:
    scores = None if result.scores is None else result.scores[:, order]
    return Decoded(result.x[:, order], result.status, scores)


@check
def _relabelling_items_commutes(decoder: Decoder, problem: Problem) -> None:
    order = torch.randperm(problem.items, generator=torch.Generator().manual_seed(3))
    _relabel(decoder, problem, torch.arange(problem.pools), order, "when the items are renumbered")


@check
def _relabelling_pools_commutes(decoder: Decoder, problem: Problem) -> None:
    order = torch.randperm(problem.pools, generator=torch.Generator().manual_seed(4))
    _relabel(decoder, problem, order, torch.arange(problem.items), "when the pools are renumbered")


# --- nothing else changes -------------------------------------------------------------------------------------------


@check
def _inputs_are_not_changed(decoder: Decoder, problem: Problem) -> None:
    y = instances_of(problem).y
    before = y.clone()
    bound(decoder, problem)(y)
    assert torch.equal(y, before), "the counts were overwritten"


@check
def _problem_is_not_changed(decoder: Decoder, problem: Problem) -> None:
    before = problem.fingerprint
    bound(decoder, problem)(instances_of(problem).y)
    assert problem.fingerprint == before, "the problem was changed"


@check
def _global_random_state_is_not_touched(decoder: Decoder, problem: Problem) -> None:
    before = torch.random.get_rng_state()
    bound(decoder, problem)(instances_of(problem).y)
    assert torch.equal(torch.random.get_rng_state(), before), "torch's global generator was used"


@check
def _default_dtype_and_threads_are_not_touched(decoder: Decoder, problem: Problem) -> None:
    before = torch.get_default_dtype(), torch.get_num_threads(), torch.is_grad_enabled()
    bound(decoder, problem)(instances_of(problem).y)
    after = torch.get_default_dtype(), torch.get_num_threads(), torch.is_grad_enabled()
    assert before == after, f"global settings changed from {before} to {after}"


@check
def _configuration_is_frozen(decoder: Decoder, problem: Problem) -> None:
    try:
        decoder.supports = None  # type: ignore[assignment, method-assign]
    except AttributeError:
        return
    raise AssertionError("its attributes can be changed: make it a frozen dataclass")


@check
def _repr_names_the_class(decoder: Decoder, problem: Problem) -> None:
    assert type(decoder).__name__ in repr(decoder), f"repr {repr(decoder)!r} does not say what it is"
