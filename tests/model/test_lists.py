"""Lists: their invariants, the transpose, and sums over them."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from qgt.model.lists import CPU_BLOCK, Lists

lists_of = st.integers(1, 7).flatmap(
    lambda bound: st.tuples(
        st.lists(st.lists(st.integers(0, bound - 1), unique=True), min_size=1, max_size=6), st.just(bound)
    )
)


def integers(*numbers: int) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.int64)


@settings(max_examples=60, deadline=None)
@given(lists_of)
def test_lists_come_back_sorted_and_transposed(case):
    given_lists, bound = case
    lists = Lists.of(given_lists, bound=bound)
    assert list(lists) == [sorted(one) for one in given_lists]
    assert len(lists) == len(given_lists)
    assert lists.owners.tolist() == [i for i, one in enumerate(given_lists) for _ in one]
    turned = lists.transposed()
    assert list(turned) == [[i for i, one in enumerate(given_lists) if number in one] for number in range(bound)]
    assert list(turned.transposed()) == list(lists)


@settings(max_examples=40, deadline=None)
@given(lists_of, st.sampled_from([0, 1, 2, CPU_BLOCK, CPU_BLOCK + 1]), st.sampled_from([torch.float32, torch.float64]))
def test_sums_are_those_of_a_loop(case, instances, dtype):
    given_lists, bound = case
    values = torch.arange(instances * bound).reshape(instances, bound) % 11
    expected = [[float(sum(row[j] for j in one)) for one in given_lists] for row in values.tolist()]
    found = Lists.of(given_lists, bound=bound).sums(values, dtype)
    assert found.dtype == torch.float64
    assert found.shape == (instances, len(given_lists))
    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("starts", "entries", "said"),
    [
        (integers(0, 2), integers(0), "starts is not valid: give numbers that rise from 0 to 1"),
        (integers(1, 1), integers(0), "starts is not valid"),
        (integers(0, 2, 1, 3), integers(0, 1, 2), "starts is not valid"),
        (integers(), integers(), "starts is not valid"),
        (integers(0, 0, 1), integers(3), r"lists\[1\] holds 3: give numbers from 0 to 2"),
        (integers(0, 1, 1, 2), integers(0, -1), r"lists\[2\] holds -1"),
        (integers(0, 1, 3), integers(0, 2, 2), r"lists\[1\] holds 2 twice"),
        (integers(0, 1, 3), integers(0, 2, 1), r"lists\[1\] holds 1 twice or out of order"),
        (torch.tensor([0.0]), integers(), "starts is torch.float32"),
        (integers(0), torch.zeros(1, 0, dtype=torch.int64), r"entries is torch.int64 \(1, 0\)"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_what_is_no_lists_is_refused(starts, entries, said):
    with pytest.raises(ValueError, match=said):
        Lists(3, starts, entries)


def test_a_list_may_begin_below_the_end_of_the_one_before():
    assert list(Lists(3, integers(0, 2, 2, 3), integers(1, 2, 0))) == [[1, 2], [], [0]]
