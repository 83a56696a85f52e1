"""Designs: counting, the makers' promises, and files."""

import tempfile
from math import comb
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

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


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        (torch.ones(2, 2), "float32 .* uint8"),
        (torch.ones(2, dtype=torch.uint8), r"\(2,\)"),
        (torch.ones(0, 2, dtype=torch.uint8), "at least one of each"),
        (torch.ones(2, 0, dtype=torch.uint8), "at least one of each"),
        (torch.full((1, 1), 2, dtype=torch.uint8), "holds 2"),
        (torch.full((1, 1), 255, dtype=torch.uint8), "holds 255"),
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


# Anything printable, but for blanks at the ends, which reading strips; commas, quotes and numbers often.
names = st.text(
    st.sampled_from(",;\"' 01#=é漢🧪") | st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=6
).filter(lambda name: name == name.strip())


@settings(max_examples=150, deadline=None)
@given(matrices, st.data())
def test_csv_gives_the_design_back_with_its_names(rows, data):
    pool_names, item_names = (
        data.draw(st.lists(names, min_size=size, max_size=size, unique=True)) for size in (len(rows), len(rows[0]))
    )
    design = Design.from_rows(rows, pool_names, item_names)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "design.csv")
        design.to_csv(path)
        again = Design.from_csv(path)
        again.to_csv(Path(folder, "again.csv"))
        assert path.read_bytes() == Path(folder, "again.csv").read_bytes()
    assert torch.equal(again.matrix, design.matrix)
    assert (again.pool_names, again.item_names) == (design.pool_names, design.item_names)


@pytest.mark.parametrize("name", ["a\rb", "a\nb", "a\r\nb", " a", "a ", "", "\0", "\x1f"])
def test_a_name_that_a_file_would_change_is_refused_or_kept(tmp_path, name):
    try:
        design = Design.from_rows(["10"], ["p"], [name, "b"])
    except ValueError as error:
        assert "item_names" in str(error)
        return
    design.to_csv(tmp_path / "design.csv")
    assert Design.from_csv(tmp_path / "design.csv").item_names == design.item_names


def test_csv_without_names_gets_the_usual_ones(tmp_path):
    path = tmp_path / "design.csv"
    path.write_text("1,0,1\n0,1,1\n")
    design = Design.from_csv(path)
    assert design.rows == ("101", "011")
    assert (design.pool_names, design.item_names) == (("P1", "P2"), ("I1", "I2", "I3"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pool,a,b\np,1,2\n", "row 2, column 3 holds 2"),
        ("1,0\n0,0.5\n", "row 2, column 2 holds 0.5"),
        ("1,-1\n", "row 1, column 2 holds -1"),
        ("1,2,3\n1,0,1\n", "row 1, column 2 holds 2.*'pool' in the top left cell"),
        ("pool,a\np,x\n", "row 2, column 2 holds 'x'"),
    ],
)
def test_csv_entries_other_than_0_and_1_are_refused_with_their_place(tmp_path, text, said):
    path = tmp_path / "design.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"design\.csv: {said}"):
        Design.from_csv(path)
