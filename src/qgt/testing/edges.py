"""Checks at the edges: what is supported, degenerate designs, wrong counts, and claims that must be so."""

import inspect
import itertools
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from qgt.decoders.contract import Decoder
from qgt.decoders.results import Status
from qgt.model.design import Design
from qgt.model.noise import Noiseless, SparseInteger
from qgt.model.prior import Bernoulli
from qgt.model.problem import Problem
from qgt.testing.suite import (
    NotApplicable,
    bound,
    check,
    decode_small,
    expect_same,
    expect_value_error,
    expect_well_formed,
    instances_of,
    small_problem,
)

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
            decode(torch.zeros(1, other.pools, dtype=torch.float64))


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
    y = torch.zeros(1, problem.pools, dtype=torch.float64)
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
    for value in (torch.inf, -torch.inf):
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
