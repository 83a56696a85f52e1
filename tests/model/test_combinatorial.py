"""Designs by a rule: their defining properties, what they guarantee, and what their makers refuse."""

import itertools

import pytest
import torch

import qgt
from qgt import Design
from qgt.model.combinatorial import LARGEST_FIELD, FiniteField, compression_power, prime_power

FIELDS = (2, 3, 4, 5, 7, 8, 9, 16, 25, 27, 32)
STEINER = [pools for pools in range(3, 100) if pools % 6 in (1, 3)]
KIRKMAN = list(range(3, 100, 6))


def columns(design: Design) -> list[tuple[int, ...]]:
    """The pools of each item."""
    return [tuple(pools) for pools in design.lists.transposed()]


def shared(design: Design) -> torch.Tensor:
    """How many pools every two items share; 0 for an item and itself."""
    matrix = design.matrix.to(torch.int64)
    return (matrix.T @ matrix).fill_diagonal_(0)


def met(design: Design) -> torch.Tensor:
    """How many items every two pools have in common; 0 for a pool and itself."""
    matrix = design.matrix.to(torch.int64)
    return (matrix @ matrix.T).fill_diagonal_(0)


def spread_of(sizes: torch.Tensor) -> int:
    return int(sizes.max() - sizes.min())


def least_distance(design: Design, defectives: int) -> int:
    """In how many pools the reports of two different sets of up to so many defectives differ, at least."""
    pools = [sum(1 << pool for pool in column) for column in columns(design)]
    reports = [0]
    for size in range(1, defectives + 1):
        for chosen in itertools.combinations(pools, size):
            report = 0
            for column in chosen:
                report |= column
            reports.append(report)
    return min((one ^ two).bit_count() for one, two in itertools.combinations(reports, 2))


# Plates and hypercubes.


@pytest.mark.parametrize(("rows", "across", "items"), [(8, 12, 96), (8, 12, 90), (1, 5, 5), (5, 1, 5), (3, 4, 9)])
def test_rows_and_columns_are_those_of_a_plate(rows, across, items):
    design = Design.rows_and_columns(rows=rows, columns=across, items=items)
    wells = list(itertools.product(range(rows), range(across)))[:items]
    assert columns(design) == [(row, rows + column) for row, column in wells]
    assert (design.pools, design.items) == (rows + across, items)
    assert int(design.pool_sizes.min()) > 0
    assert int(shared(design).max()) <= 1


def test_a_plate_is_full_where_nothing_else_is_asked_for():
    assert Design.rows_and_columns(rows=16, columns=24).items == 384


@pytest.mark.parametrize(("side", "dimensions"), [(2, 1), (2, 5), (3, 3), (3, 4), (5, 3), (12, 2)])
def test_a_hypercube_pools_slices(side, dimensions):
    design = Design.hypercube(side=side, dimensions=dimensions)
    points = itertools.product(range(side), repeat=dimensions)
    assert columns(design) == [tuple(axis * side + place for axis, place in enumerate(point)) for point in points]
    assert set(design.pool_sizes.tolist()) == {side ** (dimensions - 1)}
    assert int(shared(design).max()) == dimensions - 1


def test_a_square_plate_is_a_hypercube_of_two_dimensions():
    assert Design.rows_and_columns(rows=7, columns=7).rows == Design.hypercube(side=7, dimensions=2).rows


# Triples.


@pytest.mark.parametrize("pools", STEINER)
def test_every_two_pools_of_a_steiner_system_have_one_item_in_common(pools):
    design = Design.steiner_triples(pools=pools)
    assert design.items == pools * (pools - 1) // 6
    assert (met(design) == 1 - torch.eye(pools, dtype=torch.int64)).all()
    assert set(design.item_degrees.tolist()) == {3}
    assert set(design.pool_sizes.tolist()) == {(pools - 1) // 2}
    assert int(shared(design).max()) <= 1


@pytest.mark.parametrize("pools", [pools for pools in STEINER if pools <= 93])
def test_the_first_items_of_a_steiner_system_have_pools_of_nearly_equal_size(pools):
    whole = Design.steiner_triples(pools=pools)
    sizes = whole.matrix.to(torch.int64).cumsum(1)  # (pools, items): of the first 1, 2, ... items
    assert max(spread_of(sizes[:, last]) for last in range(whole.items)) <= 2
    filled = [last for last in range(whole.items) if int(sizes[:, last].min()) > 0]
    for items in {filled[0] + 1, whole.items // 2 + 1, whole.items}:
        part = Design.steiner_triples(pools=pools, items=items)
        assert columns(part) == columns(whole)[:items]
        assert part.pools == pools
    if filled[0]:
        with pytest.raises(ValueError, match=f"items={filled[0]} .* from {filled[0] + 1} to {whole.items}"):
            Design.steiner_triples(pools=pools, items=filled[0])


@pytest.mark.parametrize("pools", KIRKMAN)
def test_a_kirkman_system_is_a_steiner_system_of_parallel_classes(pools):
    design = Design.kirkman_triples(pools=pools)
    assert design.items == pools * (pools - 1) // 6
    assert (met(design) == 1 - torch.eye(pools, dtype=torch.int64)).all()
    for number in range((pools - 1) // 2):
        of_class = columns(design)[number * pools // 3 : (number + 1) * pools // 3]
        assert sorted(itertools.chain(*of_class)) == list(range(pools))


@pytest.mark.parametrize("pools", [105, 117, 141])
def test_beyond_99_pools_there_are_at_least_the_classes_of_latin_squares(pools):
    design = Design.kirkman_triples(pools=pools)
    assert design.items == (pools * (pools - 1) // 6 if pools == 117 else (pools // 3) ** 2)  # 117 is three times 39
    assert int(met(design).max()) == 1
    for first in range(0, design.items, pools // 3):
        assert sorted(itertools.chain(*columns(design)[first : first + pools // 3])) == list(range(pools))


@pytest.mark.parametrize(("pools", "items", "size"), [(45, 105, 7), (93, 961, 31), (15, 25, 5), (33, 44, 4)])
def test_whole_classes_have_pools_of_equal_size(pools, items, size):
    design = Design.kirkman_triples(pools=pools, items=items)
    assert set(design.pool_sizes.tolist()) == {size}
    assert int(shared(design).max()) == 1
    between = Design.kirkman_triples(pools=pools, items=items + 1)
    assert columns(between)[:items] == columns(design)
    assert spread_of(between.pool_sizes) == 1


@pytest.mark.parametrize(
    ("maker", "pools", "items"), [("steiner_triples", 13, 26), ("steiner_triples", 15, 20), ("kirkman_triples", 15, 30)]
)
def test_triples_identify_two_defectives(maker, pools, items):
    assert least_distance(getattr(Design, maker)(pools=pools, items=items), 2) >= 1


# Polynomials.


@pytest.mark.parametrize("size", FIELDS)
def test_fields_are_fields(size):
    field = FiniteField.of(size)
    a, b, c = (torch.arange(size).view(shape) for shape in ((-1, 1, 1), (1, -1, 1), (1, 1, -1)))
    for operation in (field.add, field.times):
        table = operation(a, b)[:, :, 0]
        assert int(table.min()) == 0
        assert int(table.max()) == size - 1
        assert (table == table.T).all()
        assert (operation(operation(a, b), c) == operation(a, operation(b, c))).all()
    assert (field.times(a, field.add(b, c)) == field.add(field.times(a, b), field.times(a, c))).all()
    assert (field.add(a, torch.tensor(0)) == a).all()
    assert (field.times(a, torch.tensor(1)) == a).all()
    assert ((field.add(a, b) == 0).sum(1) == 1).all()  # one negative of each
    assert ((field.times(a, b) == 1).sum(1)[1:] == 1).all()  # one inverse of each but 0
    if size % 2:
        assert (field.add(field.halved(a), field.halved(a)) == a).all()


def test_powers_of_primes_are_found():
    def divisors(number: int) -> set[int]:
        return {d for d in range(2, number + 1) if number % d == 0 and all(d % e for e in range(2, d))}

    for number in range(200):
        assert (prime_power(number) is not None) == (len(divisors(number)) == 1), number
    with pytest.raises(ValueError, match="size=12"):
        FiniteField.of(12)


TRANSVERSAL = [(20, 3, 3), (27, 3, 4), (9, 3, 3), (30, 5, 5), (96, 11, 11), (100, 7, 7), (384, 13, 8), (5, 5, 1)]


@pytest.mark.parametrize(("items", "prime", "layers"), [*TRANSVERSAL, (120, 11, 12), (121, 11, 12)])
def test_shifted_transversal_designs_are_those_of_the_paper(items, prime, layers):
    """s(i, j) = sum over c of j^c floor(i / q^c), and floor(i / q^Gamma) in the last layer, modulo q."""
    design = Design.shifted_transversal(items=items, prime=prime, layers=layers)
    gamma = next(power for power in range(items) if prime ** (power + 1) >= items)

    def shift(item: int, layer: int) -> int:
        if layer == prime:
            return item // prime**gamma % prime
        return sum(layer**c * (item // prime**c) for c in range(gamma + 1)) % prime

    assert columns(design) == [tuple(j * prime + shift(i, j) for j in range(layers)) for i in range(items)]
    assert int(shared(design).max()) <= gamma
    assert design.pools == prime * layers
    for layer in range(min(layers, prime)):
        assert spread_of(design.pool_sizes[layer * prime : (layer + 1) * prime]) <= 1
    assert int(design.pool_sizes.min()) > 0


@pytest.mark.parametrize(
    ("items", "prime", "layers", "defectives", "errors"), [(25, 5, 6, 3, 1), (20, 5, 5, 2, 1), (30, 5, 5, 2, 0)]
)
def test_shifted_transversal_designs_identify_defectives_despite_errors(items, prime, layers, defectives, errors):
    """Where t Gamma + 2 E < k, sets of up to t defectives differ in more than 2 E reports."""
    assert defectives * compression_power(items, prime) + 2 * errors < layers
    design = Design.shifted_transversal(items=items, prime=prime, layers=layers)
    assert least_distance(design, defectives) > 2 * errors


@pytest.mark.parametrize(
    ("symbols", "evaluations", "degree"), [(2, 2, 1), (3, 3, 1), (4, 4, 2), (5, 3, 2), (8, 6, 2), (9, 5, 1), (9, 9, 2)]
)
def test_reed_solomon_items_share_at_most_as_many_pools_as_the_degree(symbols, evaluations, degree):
    design = Design.reed_solomon(symbols=symbols, evaluations=evaluations, degree=degree)
    assert (design.pools, design.items) == (symbols * evaluations, symbols ** (degree + 1))
    assert [[pool // symbols for pool in column] for column in columns(design)] == [
        list(range(evaluations))
    ] * design.items
    assert set(design.pool_sizes.tolist()) == {symbols**degree}
    assert int(shared(design).max()) == min(degree, evaluations - 1)  # a code of the largest distance
    part = Design.reed_solomon(symbols=symbols, evaluations=evaluations, degree=degree, items=design.items - 1)
    assert columns(part) == columns(design)[:-1]
    assert spread_of(part.pool_sizes) == 1


def test_the_pools_of_p_best():
    """48 pools of 48 samples, each of 384 samples in 6 pools (Shental et al. 2020)."""
    design = Design.reed_solomon(symbols=8, evaluations=6, degree=2, items=384)
    assert (design.pools, design.items) == (48, 384)
    assert set(design.pool_sizes.tolist()) == {48}
    assert set(design.item_degrees.tolist()) == {6}
    assert int(shared(design).max()) == 2


@pytest.mark.parametrize(("symbols", "evaluations", "degree", "defectives"), [(4, 4, 1, 3), (5, 5, 2, 2), (3, 3, 1, 2)])
def test_reed_solomon_designs_identify_defectives(symbols, evaluations, degree, defectives):
    assert defectives * degree < evaluations
    design = Design.reed_solomon(symbols=symbols, evaluations=evaluations, degree=degree, items=min(40, symbols**2))
    assert least_distance(design, defectives) >= evaluations - defectives * degree


@pytest.mark.parametrize(("items", "prime", "layers"), [one for one in TRANSVERSAL if one[2] <= one[1]])
def test_over_a_prime_field_both_are_the_same(items, prime, layers):
    degree = compression_power(items, prime)
    polynomials = Design.reed_solomon(symbols=prime, evaluations=layers, degree=degree, items=items)
    shifted = Design.shifted_transversal(items=items, prime=prime, layers=layers)
    assert polynomials.fingerprint == shifted.fingerprint


# Conditions.


@pytest.mark.parametrize(
    ("maker", "arguments", "words"),
    [
        ("rows_and_columns", {"rows": 0, "columns": 12}, "rows=0 .* from 1"),
        ("rows_and_columns", {"rows": 8, "columns": 0}, "columns=0 .* from 1"),
        ("rows_and_columns", {"rows": 8, "columns": 12, "items": 84}, "items=84 .* from 85 to 96"),
        ("rows_and_columns", {"rows": 8, "columns": 12, "items": 97}, "items=97 .* from 85 to 96"),
        ("rows_and_columns", {"rows": 1, "columns": 12, "items": 11}, "items=11 .* from 12 to 12"),
        ("hypercube", {"side": 1, "dimensions": 3}, "side=1 .* from 2"),
        ("hypercube", {"side": 3, "dimensions": 0}, "dimensions=0 .* from 1 to 31"),
        ("steiner_triples", {"pools": 1}, "pools=1 .* from 3"),
        ("steiner_triples", {"pools": 44}, "pools=44 .* 1 or 3 when divided by 6; give 43 or 45"),
        ("steiner_triples", {"pools": 5}, "pools=5 .* give 3 or 7"),
        ("steiner_triples", {"pools": 9, "items": 13}, "items=13 .* from 3 to 12"),
        ("kirkman_triples", {"pools": 43}, "pools=43 .* 3 when divided by 6; give 39 or 45"),
        ("kirkman_triples", {"pools": 4}, "pools=4 .* give 3 or 9"),
        ("kirkman_triples", {"pools": 45, "items": 14}, "items=14 .* from 15 to 330"),
        ("kirkman_triples", {"pools": 105, "items": 1226}, "items=1226 .* from 35 to 1225"),
        ("shifted_transversal", {"items": 96, "prime": 9, "layers": 4}, "prime=9 .* prime number, such as 7 or 11"),
        ("shifted_transversal", {"items": 96, "prime": LARGEST_FIELD, "layers": 4}, "such as 65521"),
        ("shifted_transversal", {"items": 10, "prime": 11, "layers": 4}, "items=10 .* from 11"),
        ("shifted_transversal", {"items": 96, "prime": 7, "layers": 2}, "layers=2 .* from 3 to 8"),
        ("shifted_transversal", {"items": 96, "prime": 7, "layers": 9}, "layers=9 .* from 3 to 8"),
        ("shifted_transversal", {"items": 96, "prime": 7, "layers": 8}, "at most 7 layers, or at least 295 items"),
        ("reed_solomon", {"symbols": 6, "evaluations": 4, "degree": 1}, "symbols=6 .* power of one, such as 5 or 7"),
        ("reed_solomon", {"symbols": 1, "evaluations": 1, "degree": 0}, "symbols=1 .* from 2"),
        ("reed_solomon", {"symbols": 8, "evaluations": 9, "degree": 2}, "evaluations=9 .* from 3 to 8"),
        ("reed_solomon", {"symbols": 8, "evaluations": 2, "degree": 2}, "evaluations=2 .* from 3 to 8"),
        ("reed_solomon", {"symbols": 8, "evaluations": 8, "degree": 8}, "degree=8 .* from 0 to 7"),
        ("reed_solomon", {"symbols": 8, "evaluations": 6, "degree": 2, "items": 513}, "items=513 .* from 8 to 512"),
        ("reed_solomon", {"symbols": 8, "evaluations": 6, "degree": 2, "items": 7}, "items=7 .* from 8 to 512"),
        ("hypercube", {"side": 2**31 - 1, "dimensions": 31}, "GiB of memory"),
        ("steiner_triples", {"pools": 6 * 10**8 + 1}, "GiB of memory"),
        ("kirkman_triples", {"pools": 6 * 10**8 + 3}, "GiB of memory"),
        ("rows_and_columns", {"rows": 10**6, "columns": 10**6}, "GiB of memory"),
        ("shifted_transversal", {"items": 2**31 - 1, "prime": 65521, "layers": 60000}, "GiB of memory"),
        ("reed_solomon", {"symbols": 65536, "evaluations": 65536, "degree": 65535}, "GiB of memory"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(maker, arguments, words):
    with pytest.raises(ValueError, match=words):
        getattr(Design, maker)(**arguments)


# Problem files.

RECIPES = [
    {"kind": "rows_and_columns", "rows": 8, "columns": 12},
    {"kind": "rows_and_columns", "rows": 8, "columns": 12, "items": 90},
    {"kind": "hypercube", "side": 3, "dimensions": 4},
    {"kind": "steiner_triples", "pools": 45},
    {"kind": "steiner_triples", "pools": 45, "items": 96},
    {"kind": "kirkman_triples", "pools": 45, "items": 105},
    {"kind": "shifted_transversal", "items": 96, "prime": 11, "layers": 4},
    {"kind": "reed_solomon", "symbols": 8, "evaluations": 6, "degree": 2, "items": 384},
]


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: "-".join(map(str, recipe.values())))
def test_a_problem_file_may_name_them_without_a_seed(recipe, tmp_path):
    lines = "".join(f"{key} = {value!r}\n" for key, value in recipe.items())
    (tmp_path / "recipe.toml").write_text(f'[design]\n{lines}[prior]\nkind = "bernoulli"\nrate = 0.02\n')
    problem = qgt.Problem.load(tmp_path / "recipe.toml")
    arguments = {key: value for key, value in recipe.items() if key != "kind"}
    assert problem.design.fingerprint == getattr(Design, recipe["kind"])(**arguments).fingerprint
    problem.save(tmp_path / "written.toml")
    assert qgt.Problem.load(tmp_path / "written.toml").fingerprint == problem.fingerprint


@pytest.mark.parametrize(
    ("design", "words"),
    [
        ({"kind": "steiner_triples"}, r"design\.pools is missing"),
        (
            {"kind": "steiner_triples", "pools": 45, "seed": 0},
            r"design\.seed is not a known key: use items, kind, pools",
        ),
        ({"kind": "steiner_triples", "pools": 44}, "design: pools=44 .* give 43 or 45"),
        ({"kind": "column_regular", "pools": 4, "items": 8, "weight": 2}, r"design\.seed is missing"),
    ],
)
def test_recipes_that_are_wrong_are_refused_by_name(design, words):
    with pytest.raises(ValueError, match=words):
        qgt.Problem.from_spec({"design": design, "prior": {"kind": "bernoulli", "rate": 0.1}})
