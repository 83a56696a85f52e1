"""A pool's costs as columns: at every count the cheapest columns cost what the table says."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qgt.decoders.highs.integer_program import Columns, encode_table, pieces

INF = np.inf


def cheapest(columns: Columns, count: int) -> float:
    """The least cost at a count, over whole columns, by enumeration."""
    best = INF
    for u in itertools.product(*(range(int(upper) + 1) for upper in columns.upper)):
        totals = [(count if row.counts else 0) + row.columns @ np.array(u, dtype=float) for row in columns.rows]
        if all(row.lowest <= total <= row.highest for row, total in zip(columns.rows, totals, strict=True)):
            best = min(best, columns.constant + float(columns.costs @ np.array(u, dtype=float)))
    return best


def kind(columns: Columns) -> str:
    if not columns.binary:
        return "pieces"
    return "fixed charge" if len(columns.costs) == 1 else "choice"


TABLES = {
    "a point": ([INF, 2.0, INF], "pieces"),
    "two counts": ([INF, 2.0, 1.0], "pieces"),
    "all alike": ([3.0, 3.0, 3.0, 3.0], "pieces"),
    "one error at most": ([INF, 3.0, 1.0, 3.0, INF], "pieces"),
    "convex": ([5.0, 2.0, 1.0, 1.5, 4.0], "pieces"),
    "cheap in the middle": ([3.0, 3.0, 1.0, 3.0, 3.0], "fixed charge"),
    "cheap at an end": ([1.0, 3.0, 3.0, 3.0], "fixed charge"),
    "two valleys": ([1.0, 3.0, 0.0, 3.0], "choice"),
    "dear in the middle": ([1.0, 3.0, 1.0], "choice"),
    "a gap": ([1.0, INF, 2.0], "choice"),
    "negative": ([-1.0, 2.0, -3.0, 2.0], "choice"),
}


@pytest.mark.parametrize("name", TABLES)
def test_every_encoding_is_exact(name):
    table, expected = TABLES[name]
    columns = encode_table(np.array(table))
    assert kind(columns) == expected
    assert [cheapest(columns, count) for count in range(len(table))] == pytest.approx(table)


costs = st.one_of(st.just(INF), st.floats(-5, 5).map(lambda value: round(value, 2)))


@settings(max_examples=200, deadline=None)
@given(st.lists(costs, min_size=1, max_size=5).filter(lambda table: min(table) < INF))
def test_any_table_is_encoded_exactly(table):
    columns = encode_table(np.array(table))
    assert [cheapest(columns, count) for count in range(len(table))] == pytest.approx(table, abs=1e-9)


@settings(max_examples=100, deadline=None)
@given(st.lists(costs, min_size=1, max_size=8).filter(lambda table: min(table) < INF))
def test_the_envelope_is_convex_and_below(table):
    columns = pieces(np.array(table))
    assert kind(columns) == "pieces"
    assert (np.diff(columns.costs) >= -1e-9).all()
    start = columns.rows[0].lowest
    at = np.concatenate([[start], start + np.cumsum(columns.upper)])
    heights = columns.constant + np.concatenate([[0.0], np.cumsum(columns.costs * columns.upper)])
    possible = np.flatnonzero(np.isfinite(table))
    assert (at[0], at[-1]) == (possible[0], possible[-1])
    values = np.array(table)[possible]
    assert (np.interp(possible, at, heights) <= values + 1e-9).all()
    corners = np.isin(possible, at)
    assert heights == pytest.approx(values[corners], abs=1e-9)
