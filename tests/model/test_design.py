"""Designs: counting, names, and the makers' promises."""

import hashlib
from math import comb

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from qgt import Design

SETTINGS = settings(max_examples=60, deadline=None)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def bits(items: int) -> st.SearchStrategy[str]:
    return st.text("01", min_size=items, max_size=items)


matrices = st.integers(1, 6).flatmap(lambda items: st.lists(bits(items), min_size=1, max_size=6))


@SETTINGS
@given(matrices, st.data())
def test_count_is_the_sum_over_each_pool(rows, data):
    statuses = data.draw(st.lists(bits(len(rows[0])), max_size=4))
    x = torch.tensor([[int(status) for status in one] for one in statuses], dtype=torch.uint8)
    counts = Design.from_rows(rows).count(x.reshape(-1, len(rows[0])))
    assert counts.dtype == torch.float64
    assert counts.tolist() == [
        [float(sum(a == b == "1" for a, b in zip(row, one, strict=True))) for row in rows] for one in statuses
    ]


@pytest.mark.parametrize("items", [255, 256, 257, 600, 70_000])
def test_count_does_not_wrap_in_large_pools(items):
    design = Design.from_matrix(torch.ones(2, items, dtype=torch.uint8))
    x = torch.ones(2, items, dtype=torch.uint8)
    x[1] = torch.randint(0, 2, (items,), generator=generator()).to(torch.uint8)
    assert design.count(x).tolist() == [[items] * 2, [int(x[1].sum())] * 2]
    assert design.pool_sizes.tolist() == [items] * 2


def test_count_equals_integer_arithmetic_on_a_large_random_design():
    design = Design.bernoulli(pools=20, items=1000, generator=generator(1))
    x = (torch.rand(30, 1000, generator=generator(2)) < 0.7).to(torch.uint8)
    expected = x.to(torch.int64) @ design.matrix.to(torch.int64).T
    assert int(expected.min()) > 256
    assert torch.equal(design.count(x).to(torch.int64), expected)


def test_sizes_degrees_and_repr():
    design = Design.from_rows(["1101", "0000", "0101"])
    assert (design.pools, design.items) == (3, 4)
    assert design.pool_sizes.tolist() == [3, 0, 2]
    assert design.item_degrees.tolist() == [1, 2, 0, 2]
    assert repr(design) == "Design(pools=3, items=4, transfers=5)"
    assert design.pool_names == ("P1", "P2", "P3")
    assert design.item_names == ("I1", "I2", "I3", "I4")


def test_bernoulli_has_the_asked_density():
    for probability in (0.0, 0.2, 0.5, 1.0):
        matrix = Design.bernoulli(pools=200, items=500, probability=probability, generator=generator(3)).matrix
        # 6 standard deviations of a binomial share of 100,000 entries: a false failure has probability 2e-9.
        bound = 6 * (probability * (1 - probability) / matrix.numel()) ** 0.5
        assert abs(float(matrix.float().mean()) - probability) <= bound


makes = pytest.mark.parametrize(
    "make",
    [
        lambda g: Design.bernoulli(pools=7, items=20, generator=g),
        lambda g: Design.column_regular(pools=7, items=20, weight=3, generator=g),
        lambda g: Design.doubly_regular(pools=8, items=20, weight=4, generator=g),
    ],
    ids=["bernoulli", "column_regular", "doubly_regular"],
)


@makes
def test_makers_repeat_for_equal_seeds_and_only_then(make):
    assert make(generator(5)).rows == make(generator(5)).rows
    assert make(generator(5)).rows != make(generator(6)).rows


@makes
def test_makers_leave_the_global_generator_alone(make):
    before = torch.get_rng_state()
    make(generator())
    assert torch.equal(torch.get_rng_state(), before)


@SETTINGS
@given(st.integers(1, 12), st.integers(1, 30), st.data(), st.integers(0, 2**32))
def test_column_regular_has_exact_weights_and_even_sizes(pools, items, data, seed):
    weight = data.draw(st.integers(0, pools))
    design = Design.column_regular(pools=pools, items=items, weight=weight, generator=generator(seed))
    assert (design.pools, design.items) == (pools, items)
    assert design.item_degrees.tolist() == [weight] * items
    assert int(design.pool_sizes.max() - design.pool_sizes.min()) <= 1


@SETTINGS
@given(st.integers(1, 12), st.integers(1, 6), st.data(), st.integers(0, 2**32))
def test_doubly_regular_has_all_sizes_equal(pools, multiple, data, seed):
    weight = data.draw(st.integers(0, pools))
    items = multiple * pools  # so that the division is exact
    design = Design.doubly_regular(pools=pools, items=items, weight=weight, generator=generator(seed))
    assert design.item_degrees.tolist() == [weight] * items
    assert design.pool_sizes.tolist() == [multiple * weight] * pools


@pytest.mark.parametrize("maker", [Design.column_regular, Design.doubly_regular])
def test_regular_designs_do_not_pair_complementary_columns(maker):
    pools, items, weight = 20, 200, 10
    columns = maker(pools=pools, items=items, weight=weight, generator=generator(7)).matrix.T.tolist()
    seen = {tuple(column) for column in columns}
    complementary = sum(tuple(1 - entry for entry in column) in seen for column in columns)
    # Of random columns a pair is complementary with probability 1 / C(20, 10): 0.1 pairs expected among 200 columns,
    # so 10 columns (5 pairs) have probability below 1e-7 (Poisson). Filling the smallest pools first makes 200.
    assert items * (items - 1) / 2 / comb(pools, weight) < 0.11
    assert complementary < 10


def test_column_regular_leaves_no_item_or_pool_favoured():
    total = torch.zeros(6, 9)
    draws = 2000
    g = generator(8)
    for _ in range(draws):
        total += Design.column_regular(pools=6, items=9, weight=2, generator=g).matrix
    # Each entry is 1 with probability 1/3; 6 standard deviations over 54 entries: a false failure below 1e-6.
    bound = 6 * (2 / 9 / draws) ** 0.5
    assert float((total / draws - 1 / 3).abs().max()) < bound


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("maker", "changed", "said"),
    [
        ("bernoulli", {"pools": 0}, "pools=0 .* whole number .*1"),
        ("bernoulli", {"items": -1}, "items=-1 .* whole number .*1"),
        ("bernoulli", {"pools": 2.5}, "pools=2.5"),
        ("bernoulli", {"pools": True}, "pools=True"),
        ("bernoulli", {"items": "3"}, "items='3'"),
        ("bernoulli", {"probability": 1.5}, r"probability=1.5 .* from 0 to 1"),
        ("bernoulli", {"probability": float("nan")}, "probability=nan"),
        ("bernoulli", {"probability": True}, "probability=True"),
        ("column_regular", {"weight": 5}, "weight=5 .* from 0 to 4"),
        ("column_regular", {"weight": -1}, "weight=-1"),
        ("column_regular", {"weight": 1.0}, "weight=1.0"),
        ("doubly_regular", {"weight": 5}, "weight=5 .* from 0 to 4"),
        ("doubly_regular", {"weight": 3, "items": 6}, r"\(18\) divisible by pools; use column_regular"),
    ],
)
def test_makers_refuse_what_they_cannot_make(maker, changed, said):
    regular = {} if maker == "bernoulli" else {"weight": 2}
    with pytest.raises(ValueError, match=said):
        getattr(Design, maker)(**{"pools": 4, "items": 8, **regular, **changed}, generator=generator())


class Frame:
    """What a DataFrame shows of itself."""

    def __init__(self, rows, index, columns):
        self.rows, self.index, self.columns = rows, index, columns

    def __array__(self, dtype=None, copy=None):
        return np.array(self.rows, dtype=object)


@pytest.mark.parametrize(
    "matrix",
    [
        [[1, 1, 0], [0, 1, 1]],
        ((True, 1.0, 0), (0, 1, 1)),
        [list("110"), list("011")],
        torch.tensor([[1, 1, 0], [0, 1, 1]], dtype=torch.bool),
        torch.tensor([[1.0, 1, 0], [0, 1, 1]], dtype=torch.bfloat16, requires_grad=True),
        torch.tensor([[1, 1, 0], [0, 1, 1]]).to_sparse(),
        *(np.array([[1, 1, 0], [0, 1, 1]], dtype=kind) for kind in (bool, np.int8, np.uint64, np.float16, object)),
        np.asfortranarray([[1, 1, 0], [0, 1, 1]]),
        sparse.csc_array([[1, 1, 0], [0, 1, 1]]),
        sparse.coo_matrix(([1, 1, 1, 1, 0], ([1, 1, 0, 0, 0], [2, 1, 0, 1, 2])), shape=(2, 3)),  # a 0 written down
        Frame([[1, 1, 0], [0, 1, 1]], index=range(2), columns=range(3)),
    ],
    ids=lambda matrix: type(matrix).__name__,
)
def test_a_matrix_is_anything_that_numpy_reads(matrix):
    design = Design.from_matrix(matrix)
    assert design.rows == ("110", "011") and design.item_names == ("I1", "I2", "I3")
    assert design.fingerprint == Design.from_rows(["110", "011"]).fingerprint


def test_the_labels_of_a_frame_are_the_names():
    frame = Frame([[1, 1, 0], [0, 1, 1]], index=["a", "b"], columns=["x", "y", "z"])
    assert Design.from_matrix(frame).pool_names == ("a", "b")
    assert Design.from_matrix(frame, item_names=["u", "v", "w"]).item_names == ("u", "v", "w")


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        (torch.ones(2, dtype=torch.uint8), r"shape \(2,\)"),
        (torch.ones(0, 2, dtype=torch.uint8), "at least one pool and one item"),
        ([[], []], "at least one pool and one item"),
        (torch.full((1, 1), 2, dtype=torch.uint8), "holds 2 in row 1, column 1"),
        (torch.full((1, 1), 255, dtype=torch.uint8), "holds 255"),
        ([[1, 0], [0, 0.5]], "holds 0.5 in row 2, column 2: give entries 0 and 1 only"),
        ([[1, 0], [0, -1]], "holds -1 in row 2"),
        ([[1, 0], [0, float("nan")]], "holds nan in row 2, column 2"),
        ([[1, 0], [1]], "not rectangular: give lists of 0 and 1"),
        ([["1", "x"]], "holds 'x': give lists of 0 and 1"),
        ([[1, None]], "holds nan in row 1, column 2"),
        (None, r"shape \(\)"),
        ("110", r"shape \(\)"),
        (sparse.csr_array([[1, 0], [0, 3]]), "holds 3 in row 2, column 2"),
        (sparse.coo_array(([1, 1], ([0, 0], [0, 0])), shape=(1, 1)), "holds 2 in row 1"),
    ],
)
def test_a_matrix_that_is_no_design_is_refused(matrix, said):
    with pytest.raises(ValueError, match=said):
        Design.from_matrix(matrix)


def test_names_must_be_as_many_as_needed_and_different():
    rows = ["110", "011"]
    with pytest.raises(ValueError, match="pool_names holds 1 different names: give 2"):
        Design.from_rows(rows, pool_names=["a"])
    with pytest.raises(ValueError, match="item_names holds 2 different names: give 3"):
        Design.from_rows(rows, item_names=["a", "b", "a"])


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("rows", "said"),
    [([], "empty"), (["11", "1"], "row 2 is '1'"), (["12"], "row 1 is '12'"), ([[1, 0]], "row 1 is"), ([""], "row 1")],
)
def test_rows_that_are_no_matrix_are_refused(rows, said):
    with pytest.raises(ValueError, match=said):
        Design.from_rows(rows)


@SETTINGS
@given(matrices)
def test_rows_give_the_matrix_back(rows):
    design = Design.from_rows(rows)
    assert design.rows == tuple(rows)
    assert torch.equal(Design.from_rows(design.rows).matrix, design.matrix)


# --- lists inside


def sparse_design(seed: int = 0) -> Design:
    return Design.column_regular(pools=120, items=1500, weight=4, generator=generator(seed))


def test_sparse_is_large_and_mostly_zeros():
    assert sparse_design().sparse
    assert not Design.column_regular(pools=12, items=150, weight=1, generator=generator()).sparse  # small
    assert not Design.column_regular(pools=120, items=1500, weight=8, generator=generator()).sparse  # 15 entries a 1
    assert not Design.bernoulli(pools=300, items=300, generator=generator()).sparse


@pytest.mark.parametrize("instances", [0, 1, 2, 63, 64, 65, 200])
@pytest.mark.parametrize(
    "design", [sparse_design(), Design.from_rows(["1101", "0000", "0111"])], ids=["sparse", "dense"]
)
def test_count_and_spread_are_products_with_the_matrix_and_its_transpose(design, instances):
    matrix = design.matrix.to(torch.int64)
    x = torch.randint(0, 2, (instances, design.items), generator=generator(1)).to(torch.uint8)
    assert torch.equal(design.count(x).to(torch.int64), x.to(torch.int64) @ matrix.T)
    z = torch.randint(-9, 9, (instances, design.pools), generator=generator(2))
    assert torch.equal(design.spread(z.to(torch.float64)).to(torch.int64), z @ matrix)


def test_a_sparse_design_without_any_transfer_counts_nothing():
    design = Design.from_lists([[]] * 300, items=300)
    assert design.sparse
    assert design.count(torch.ones(2, 300, dtype=torch.uint8)).tolist() == [[0.0] * 300] * 2
    assert design.spread(torch.ones(2, 300, dtype=torch.float64)).tolist() == [[0.0] * 300] * 2


def test_spread_of_fractions_is_exact_to_the_last_digits():
    design = sparse_design()
    z = torch.rand(5, 120, dtype=torch.float64, generator=generator())
    torch.testing.assert_close(design.spread(z), z @ design.matrix.double(), rtol=1e-14, atol=0)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "design", [sparse_design(), Design.from_rows(["1101", "0000", "0111"])], ids=["sparse", "dense"]
)
def test_count_and_spread_agree_on_a_gpu(design):
    x = torch.randint(0, 2, (70, design.items), generator=generator(1)).to(torch.uint8)
    assert torch.equal(design.count(x.cuda()).cpu(), design.count(x))
    z = torch.rand(70, design.pools, dtype=torch.float64, generator=generator(2))
    torch.testing.assert_close(design.spread(z.cuda()).cpu(), design.spread(z), rtol=1e-13, atol=0)


@SETTINGS
@given(matrices)
def test_members_sizes_and_degrees_are_those_of_the_matrix(rows):
    design = Design.from_rows(rows)
    expected = [[j for j, entry in enumerate(row) if entry == "1"] for row in rows]
    assert [design.members(pool).tolist() for pool in range(design.pools)] == expected
    assert design.pool_sizes.tolist() == [len(pool) for pool in expected]
    assert design.item_degrees.tolist() == [sum(row[j] == "1" for row in rows) for j in range(len(rows[0]))]
    assert design.transfers == sum(map(len, expected))
    again = Design.from_lists([pool[::-1] for pool in expected], items=design.items)
    assert again.rows == tuple(rows)
    assert again.fingerprint == design.fingerprint


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("pool", [-1, 3, 1.0, True])
def test_members_of_a_pool_that_is_not_there_are_refused(pool):
    with pytest.raises(ValueError, match=f"pool={pool}"):
        Design.from_rows(["1", "1", "0"]).members(pool)


def test_the_matrix_is_made_once_and_only_when_asked_for():
    design = sparse_design()
    design.count(torch.ones(2, design.items, dtype=torch.uint8))
    assert "matrix" not in vars(design)
    assert design.matrix is design.matrix


def test_names_are_made_when_asked_for_and_the_usual_ones_are_not_kept():
    design = sparse_design()
    assert design.fingerprint
    assert not {"pool_names", "item_names"} & set(vars(design))
    assert design.item_names[-1] == "I1500"
    named = Design.from_rows(["10", "01"], ["P1", "P2"], ["I2", "I1"])
    assert (named.own_pool_names, named.own_item_names) == (None, ("I2", "I1"))


def test_every_other_design_has_another_fingerprint():
    rows = [[], ["0"], ["1"], ["00"], ["01"], ["10"], ["11"], ["0", "0"], ["0", "1"], ["1", "0"], ["1", "1"], ["000"]]
    assert len({Design.from_rows(one).fingerprint for one in rows if one}) == len(rows) - 1


# Results are committed that were measured on these: the same seed must give the same matrix for ever.
BERNOULLI = "12770512a111"


def test_bernoulli_gives_the_matrix_that_it_always_gave():
    design = Design.bernoulli(pools=35, items=100, generator=generator())
    assert hashlib.sha256(design.matrix.numpy().tobytes()).hexdigest().startswith(BERNOULLI)
    draws = torch.rand(35, 100, dtype=torch.float64, generator=generator())
    assert torch.equal(design.matrix, (draws < 0.5).to(torch.uint8))


@pytest.mark.parametrize(
    "make",
    [
        lambda g: Design.bernoulli(pools=1000, items=10_000_000, generator=g),
        lambda g: Design.column_regular(pools=100, items=1_000_000_000, weight=8, generator=g),
        lambda g: Design.doubly_regular(pools=100, items=1_000_000_000, weight=8, generator=g),
        lambda g: Design.coupled(pools=100, items=1_000_000_000, weight=4, blocks=10, generator=g),
        lambda g: Design.sparse_graph_code(items=1_000_000_000, defectives=10, generator=g),
        lambda g: Design.from_lists([[0]], items=2_000_000_000),
    ],
)
def test_a_size_beyond_the_memory_is_refused_with_what_it_would_need(make, monkeypatch):
    monkeypatch.setattr("qgt.arguments.memory", lambda: 2.0**34)
    with pytest.raises(ValueError, match=r"would need about [\d,]+ GiB of memory, and this machine has 16"):
        make(torch.Generator().manual_seed(0))
