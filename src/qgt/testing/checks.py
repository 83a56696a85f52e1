"""The conformance suite: what every decoder, ours or a stranger's, must do.

    qgt.testing.check_decoder(MyDecoder())

runs each check of `CHECKS` by name and raises a `ConformanceError` that says which failed and on what. A check that
needs a problem which the decoder does not support (a trained network knows only its own) is listed as not applicable,
with the decoder's reason; every other check must pass.
"""

import dataclasses
import inspect
import itertools
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from qgt.decoders.contract import Decode, Decoder
from qgt.decoders.results import Answers, Decoded, Status
from qgt.model.design import Design
from qgt.model.loads import detects_nothing
from qgt.model.noise import Noiseless, SparseInteger, usual_reports
from qgt.model.prior import Bernoulli, Prior
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


# Checks of the answers: their form, that equal counts get equal answers, and that nothing else changes.

# --- the form of a result -------------------------------------------------------------------------------------------


@check
def _returns_decoded(decoder: Decoder, problem: Problem) -> None:
    result = bound(decoder, problem)(instances_of(problem, FEW).y)
    assert isinstance(result, Decoded), f"returned a {type(result).__name__}, not a qgt.Decoded"


@check
def _calls_and_status_are_well_formed(decoder: Decoder, problem: Problem) -> None:
    result = bound(decoder, problem)(instances_of(problem).y)
    expect_well_formed(result, INSTANCES, problem.items)


@check
def _status_is_uint8(decoder: Decoder, problem: Problem) -> None:
    status = bound(decoder, problem)(instances_of(problem, FEW).y).status
    assert status.dtype == torch.uint8, f"status is {status.dtype}, not uint8"


@check
def _scores_are_finite_float64(decoder: Decoder, problem: Problem) -> None:
    scores = bound(decoder, problem)(instances_of(problem, FEW).y).scores
    if scores is not None:
        assert scores.shape == (FEW, problem.items), f"scores have shape {tuple(scores.shape)}"
        assert scores.dtype == torch.float64, f"scores are {scores.dtype}, not float64"
        assert not bool(scores.isnan().any()), "scores hold NaN"


@check
def _evidence_has_one_row_per_instance(decoder: Decoder, problem: Problem) -> None:
    evidence = bound(decoder, problem)(instances_of(problem, FEW).y).evidence
    for one in dataclasses.fields(evidence):
        value = getattr(evidence, one.name)
        rows = len(value.spans if isinstance(value, Answers) else value) if value is not None else FEW
        assert rows == FEW, f"evidence.{one.name} has {rows} rows for {FEW} instances"


@check
def _results_carry_no_gradient(decoder: Decoder, problem: Problem) -> None:
    y = instances_of(problem, FEW).y.requires_grad_()
    result = bound(decoder, problem)(y)
    assert result.scores is None or not result.scores.requires_grad, "scores keep the autograd graph alive"


# --- the same counts, the same answer -------------------------------------------------------------------------------


@check
def _batch_equals_loop(decoder: Decoder, problem: Problem) -> None:
    decode, y = bound(decoder, problem), instances_of(problem, 12).y
    whole = decode(y)
    for i in range(len(y)):
        expect_same(whole.pick(torch.tensor([i])), decode(y[i : i + 1]), f"between a batch and instance {i} alone")


PARTS = [1, 1, 1, 1, 1, 1, 2, 8, 16]  # of a batch: for many decoders one instance takes about as long as all


@check
def _batch_equals_loop_where_counts_say_little(decoder: Decoder, problem: Problem) -> None:
    """Most counts leave several answers here: what depends on the batch shows in ties, scans and early stops."""
    hard = small_problem(pools=10, items=40, seed=7)
    decode, y = bound(decoder, hard), instances_of(hard, sum(PARTS)).y
    whole, parts = decode(y), Decoded.joined([decode(part) for part in y.split(PARTS)])
    # An iteration that did not settle may end anywhere: its last digits decide.
    settled = ((whole.status != Status.NOT_CONVERGED) & (parts.status != Status.NOT_CONVERGED)).nonzero()[:, 0]
    assert 2 * len(settled) >= len(y), f"only {len(settled)} of {len(y)} instances settle"
    expect_same(whole.pick(settled), parts.pick(settled), "between a batch and parts of it")


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
    if not problem.noise.integer:
        raise NotApplicable("the problem's reports are no whole numbers, so that other types round them.")
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
    y = instances_of(problem, FEW).y
    before = y.clone()
    bound(decoder, problem)(y)
    assert torch.equal(y, before), "the counts were overwritten"


@check
def _problem_is_not_changed(decoder: Decoder, problem: Problem) -> None:
    before = problem.fingerprint
    bound(decoder, problem)(instances_of(problem, FEW).y)
    assert problem.fingerprint == before, "the problem was changed"


@check
def _global_random_state_is_not_touched(decoder: Decoder, problem: Problem) -> None:
    before = torch.random.get_rng_state()
    bound(decoder, problem)(instances_of(problem, FEW).y)
    assert torch.equal(torch.random.get_rng_state(), before), "torch's global generator was used"


@check
def _default_dtype_and_threads_are_not_touched(decoder: Decoder, problem: Problem) -> None:
    before = torch.get_default_dtype(), torch.get_num_threads(), torch.is_grad_enabled()
    bound(decoder, problem)(instances_of(problem, FEW).y)
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


# Checks at the edges: what is supported, degenerate designs, wrong counts, and claims that must be so.

# --- what it supports -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _SampleOnly:
    """A prior that can be sampled and nothing else."""

    rate: float

    def sample(self, instances: int, items: int, *, generator: torch.Generator) -> Tensor:
        return Bernoulli(self.rate).sample(instances, items, generator=generator)


def _other_problems(problem: Problem) -> Iterator[Problem]:
    yield problem
    yield small_problem(pools=7, items=9, seed=5)
    yield Problem(small_problem().design, _SampleOnly(0.1))


@check
def _supports_gives_none_or_a_reason(decoder: Decoder, problem: Problem) -> None:
    for other in _other_problems(problem):
        reason = decoder.supports(other)
        assert reason is None or (isinstance(reason, str) and len(reason) > 10), f"supports gave {reason!r}"


@check
def _bind_agrees_with_supports(decoder: Decoder, problem: Problem) -> None:
    for other in _other_problems(problem):
        reason = decoder.supports(other)
        try:
            decode = decoder.bind(other)
        except ValueError as error:
            assert reason is not None, f"bind refused {other} though supports did not: {error}"
            assert reason in str(error), f"bind's error does not give the reason {reason!r}"
        else:
            assert reason is None, f"bind took {other} though supports said {reason!r}"
            decode(errorless(other, torch.zeros(1, other.items, dtype=torch.uint8)))


# --- degenerate sizes and designs -----------------------------------------------------------------------------------


@check
def _zero_instances(decoder: Decoder, problem: Problem) -> None:
    result = bound(decoder, problem)(torch.zeros(0, problem.pools, dtype=torch.float64))
    expect_well_formed(result, 0, problem.items)


@check
def _one_item(decoder: Decoder, problem: Problem) -> None:
    small = Problem(Design.from_rows(["1", "1"]), Bernoulli(0.3))
    decode_small(decoder, small, torch.tensor([[0], [1]], dtype=torch.uint8))


@check
def _one_pool(decoder: Decoder, problem: Problem) -> None:
    small = Problem(Design.from_rows(["1101"]), Bernoulli(0.3))
    decode_small(decoder, small, torch.tensor([[0, 0, 0, 0], [1, 0, 0, 0]], dtype=torch.uint8))


@check
def _empty_pool(decoder: Decoder, problem: Problem) -> None:
    small = Problem(Design.from_rows(["0000", "1100", "0111"]), Bernoulli(0.3))
    decode_small(decoder, small, torch.tensor([[0, 1, 0, 0], [1, 0, 0, 1]], dtype=torch.uint8))


@check
def _only_empty_pools(decoder: Decoder, problem: Problem) -> None:
    small = Problem(Design.from_rows(["000", "000"]), Bernoulli(0.3))
    decode_small(decoder, small, torch.zeros(2, 3, dtype=torch.uint8))


@check
def _item_in_no_pool(decoder: Decoder, problem: Problem) -> None:
    small = Problem(Design.from_rows(["110", "100"]), Bernoulli(0.3))
    decode_small(decoder, small, torch.tensor([[0, 1, 1], [0, 0, 0]], dtype=torch.uint8))


@check
def _duplicate_columns(decoder: Decoder, problem: Problem) -> None:
    small = Problem(Design.from_rows(["1100", "1111", "0011"]), Bernoulli(0.3))
    decode_small(decoder, small, torch.tensor([[1, 0, 0, 0], [1, 1, 0, 1]], dtype=torch.uint8))


@check
def _all_zero_x(decoder: Decoder, problem: Problem) -> None:
    result = decode_small(decoder, problem, torch.zeros(2, problem.items, dtype=torch.uint8))
    assert Status.INFEASIBLE not in result.status.tolist(), "all counts zero is possible, but was called INFEASIBLE"


@check
def _all_one_x(decoder: Decoder, problem: Problem) -> None:
    result = decode_small(decoder, problem, torch.ones(2, problem.items, dtype=torch.uint8))
    assert Status.INFEASIBLE not in result.status.tolist(), "all items defective is possible, but was INFEASIBLE"


@check
def _rates_of_zero_and_one(decoder: Decoder, problem: Problem) -> None:
    small = Problem(Design.from_rows(["110", "011"]), Bernoulli([0.0, 0.5, 1.0]))
    decode_small(decoder, small, torch.tensor([[0, 0, 1], [0, 1, 1]], dtype=torch.uint8))


# --- counts that are wrong ------------------------------------------------------------------------------------------


@check
def _impossible_counts_are_infeasible(decoder: Decoder, problem: Problem) -> None:
    y = instances_of(problem, 3).y
    y[1, 0] = problem.items + 1000.0
    result = bound(decoder, problem)(y)
    expect_well_formed(result, 3, problem.items)
    if bool(problem.explainable(y)[1]):
        raise NotApplicable("its noise makes every count possible")
    assert int(result.status[1]) == Status.INFEASIBLE, f"a count above the pool's size has status {result.status[1]}"


@check
def _impossible_counts_spoil_no_neighbour(decoder: Decoder, problem: Problem) -> None:
    y = instances_of(problem, 3).y
    spoiled = y.clone()
    spoiled[1] += 1000.0
    decode, keep = bound(decoder, problem), torch.tensor([0, 2])
    expect_same(decode(y).pick(keep), decode(spoiled).pick(keep), "when another instance of the batch is impossible")


@check
def _non_integer_counts_are_refused_or_infeasible(decoder: Decoder, problem: Problem) -> None:
    y = instances_of(problem, 2).y
    y[0, 0] += 0.5
    if bool(problem.explainable(y)[0]):
        raise NotApplicable("its noise allows counts that are not whole")
    try:
        result = bound(decoder, problem)(y)
    except ValueError:
        return
    assert int(result.status[0]) == Status.INFEASIBLE, f"a count of {float(y[0, 0])} has status {result.status[0]}"


@check
def _negative_counts_are_taken(decoder: Decoder, problem: Problem) -> None:
    y = errorless(problem, torch.zeros(1, problem.items, dtype=torch.uint8))
    y[0, 0] = -1.0
    expect_well_formed(bound(decoder, problem)(y), 1, problem.items)


@check
def _wrong_width_raises(decoder: Decoder, problem: Problem) -> None:
    for width in (problem.pools + 1, problem.pools - 1):
        expect_value_error(decoder, problem, torch.zeros(2, width, dtype=torch.float64), f"counts of {width} pools")


@check
def _wrong_rank_raises(decoder: Decoder, problem: Problem) -> None:
    for shape in ((problem.pools,), (1, 2, problem.pools)):
        expect_value_error(decoder, problem, torch.zeros(shape, dtype=torch.float64), f"counts of shape {shape}")


@check
def _missing_counts_are_refused_or_left_out(decoder: Decoder, problem: Problem) -> None:
    y = instances_of(problem, 2).y
    y[1, 0] = torch.nan
    try:
        result = bound(decoder, problem)(y)
    except ValueError:
        return
    expect_well_formed(result, 2, problem.items)
    # Each item is in three pools alone: what one of them reports, all do.
    small = Problem(Design.from_rows(["10"] * 3 + ["01"] * 3), Bernoulli(0.3))
    y = torch.tensor([[1, 1, 1, 0, 0, 0]] * 2, dtype=torch.float64)
    y[1, [0, 1, 4, 5]] = torch.nan
    calls = bound(decoder, small)(y).x
    assert torch.equal(calls[0], calls[1]), "calls differ when counts are missing that others repeat"


@check
def _infinity_raises(decoder: Decoder, problem: Problem) -> None:
    for value in (-torch.inf,) if detects_nothing(problem.noise) else (torch.inf, -torch.inf):
        y = instances_of(problem, 2).y
        y[0, 1 % problem.pools] = value
        expect_value_error(decoder, problem, y, f"{value} among the counts")


# --- what is claimed must be so -------------------------------------------------------------------------------------


@check
def _proved_means_most_probable(decoder: Decoder, problem: Problem) -> None:
    every = torch.tensor(list(itertools.product((0, 1), repeat=8)), dtype=torch.uint8)  # (256, items)
    for noise in (Noiseless(), SparseInteger(rate=0.2, bound=1)):
        small = Problem(small_problem(pools=5, items=8, seed=6).design, Bernoulli(0.2), noise)
        y = instances_of(small, 20).y
        result = bound(decoder, small)(y)
        for i in (result.status == Status.PROVED).nonzero().flatten().tolist():
            best = small.log_joint(every, y[i].expand(len(every), -1)).max()
            own = small.log_joint(result.x[i : i + 1], y[i : i + 1])[0]
            assert own >= best - 1e-9, f"PROVED, but another x is exp({float(best - own):g}) times as probable"


@check
def _saving_keeps_calls_and_uses_no_pickle(decoder: Decoder, problem: Problem) -> None:
    save, load = getattr(decoder, "save", None), getattr(type(decoder), "load", None)
    if save is None:
        raise NotApplicable("it cannot be saved")
    assert load is not None and "path" in inspect.signature(load).parameters, "save without a classmethod load(path)"
    y = instances_of(problem).y
    with tempfile.TemporaryDirectory() as folder:
        save(Path(folder) / "saved")
        files = [file for file in Path(folder).rglob("*") if file.is_file()]
        assert files, "save wrote nothing"
        for file in files:
            # Pickles begin with the protocol opcode; torch.save wraps them in a zip archive.
            assert file.read_bytes()[:2] not in (b"PK", *(bytes([0x80, v]) for v in range(2, 6))), f"{file} is a pickle"
        expect_same(
            bound(decoder, problem)(y), bound(load(Path(folder) / "saved"), problem)(y), "after saving and loading"
        )
