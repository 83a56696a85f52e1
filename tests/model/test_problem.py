"""The problem: simulation in chunks, the joint probability, the spec and the fingerprint."""

import hashlib
import itertools
import json
import math
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from qgt import (
    Bernoulli,
    Binned,
    Design,
    FixedWeight,
    Gaussian,
    Households,
    Noiseless,
    Outliers,
    PerPool,
    PositiveNegative,
    Problem,
    Reads,
    RoundedGaussian,
    Saturating,
    SparseInteger,
    UnknownLevel,
    UnknownRate,
)
from qgt.model import problem


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def statuses(items: int) -> torch.Tensor:
    return torch.tensor(list(itertools.product((0, 1), repeat=items)), dtype=torch.uint8)


@dataclass(frozen=True)
class Blocks:
    """A prior of one's own with nothing but `sample`: all items or none."""

    rate: float = 0.5

    def sample(self, instances, items, *, generator):
        return (torch.rand(instances, 1, generator=generator) < self.rate).to(torch.uint8).repeat(1, items)


@dataclass(frozen=True)
class Recording:
    """A prior and a noise that write down how much was asked of them at a time."""

    asked: list[tuple[int, int]] = field(default_factory=list)

    def sample(self, first, items=None, *, generator):
        if isinstance(first, torch.Tensor):  # as a noise
            self.asked.append(tuple(first.shape))
            return first
        self.asked.append((first, items))
        return torch.zeros(first, items, dtype=torch.uint8)

    def log_prob(self, y, counts, sizes):
        raise NotImplementedError

    def reach(self, size, tail):
        raise NotImplementedError

    integer = True


# --- simulate


def test_simulated_counts_are_those_of_the_design_plus_noise():
    design = Design.bernoulli(pools=6, items=15, generator=generator(1))
    x, y = Problem(design, Bernoulli(0.3)).simulate(50, generator=generator(2))
    assert (x.dtype, y.dtype) == (torch.uint8, torch.float64)
    assert torch.equal(y, design.count(x))
    noisy = Problem(design, Bernoulli(0.3), SparseInteger(rate=1.0, bound=2)).simulate(50, generator=generator(2))
    error = noisy.y - design.count(noisy.x)
    assert sorted(set(error.flatten().tolist())) == [-2.0, -1.0, 0.0, 1.0, 2.0]


@pytest.mark.parametrize("instances", [0, 1, 3, 4, 5, 8, 9])
def test_every_chunk_is_filled_in_its_place(monkeypatch, instances):
    monkeypatch.setattr(problem, "DRAWN_AT_A_TIME", 40)  # 4 instances of 10 items at a time
    design = Design.bernoulli(pools=5, items=10, generator=generator(1))
    one = Problem(design, Bernoulli(0.5), RoundedGaussian(1.0))
    x, y = one.simulate(instances, generator=generator(3))
    g = generator(3)
    for start in range(0, instances, 4):
        part = x[start : start + 4]
        assert torch.equal(part, one.prior.sample(len(part), 10, generator=g))
        reports = one.noise.sample(design.count(part), design.pool_sizes.double(), generator=g)
        assert torch.equal(y[start : start + 4], reports)
    assert x.shape == (instances, 10)
    assert y.shape == (instances, 5)


@pytest.mark.parametrize(("pools", "items"), [(3, 10), (10, 3), (1, 1), (2, 500), (500, 2)])
def test_scratch_memory_is_bounded(monkeypatch, pools, items):
    monkeypatch.setattr(problem, "DRAWN_AT_A_TIME", 100)
    prior, noise = Recording(), Recording()
    design = Design.from_matrix(torch.ones(pools, items, dtype=torch.uint8))
    Problem(design, prior, noise).simulate(250, generator=generator())
    assert sum(rows for rows, _ in prior.asked) == sum(rows for rows, _ in noise.asked) == 250
    for rows, width in prior.asked + noise.asked:
        assert rows == 1 or rows * width <= 100


def test_the_default_chunk_is_used():
    prior = Recording()
    design = Design.from_matrix(torch.ones(1, 1000, dtype=torch.uint8))
    Problem(design, prior).simulate(3000, generator=generator())
    assert max(rows for rows, _ in prior.asked) == problem.DRAWN_AT_A_TIME // 1000


def test_simulate_repeats_for_equal_seeds_and_leaves_the_global_generator_alone():
    one = Problem(
        Design.bernoulli(pools=5, items=20, generator=generator()),
        Households(size=3, seed_rate=0.5, attack_rate=0.5),
        SparseInteger(rate=0.5, bound=1),
    )
    before = torch.get_rng_state()
    first, same, other = (one.simulate(30, generator=generator(seed)) for seed in (4, 4, 5))
    assert torch.equal(first.x, same.x)
    assert torch.equal(first.y, same.y)
    assert not torch.equal(first.x, other.x)
    assert not torch.equal(first.y, other.y)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_moments_of_the_counts_are_right():
    design = Design.column_regular(pools=8, items=40, weight=3, generator=generator(6))
    rate, noise, n = 0.1, SparseInteger(rate=0.3, bound=2), 40_000
    x, y = Problem(design, Bernoulli(rate), noise).simulate(n, generator=generator(7))
    size = design.pool_sizes.to(torch.float64)
    mean, variance = size * rate, size * rate * (1 - rate) + 0.3 * 2.0  # a uniform error on -2..2 has variance 2
    # 6 standard errors over 8 pools and 40 items: a false failure has probability below 1e-7.
    assert ((y.mean(0) - mean).abs() < 6 * (variance / n).sqrt()).all()
    assert ((x.double().mean(0) - rate).abs() < 6 * (rate * (1 - rate) / n) ** 0.5).all()
    # The variance's own standard error follows from the fourth moment, here estimated.
    spread = ((y - mean) ** 2).std(0) / n**0.5
    assert ((((y - mean) ** 2).mean(0) - variance).abs() < 6 * spread).all()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("instances", [-1, 1.5, True, "3"])
def test_a_number_of_instances_that_is_none_is_refused(instances):
    with pytest.raises(ValueError, match=f"instances={instances!r}"):
        Problem(Design.from_rows(["11"]), Bernoulli(0.5)).simulate(instances, generator=generator())


# --- probabilities


def test_log_joint_by_hand():
    one = Problem(Design.from_rows(["110", "011"]), Bernoulli([0.1, 0.2, 0.3]), SparseInteger(rate=0.3, bound=1))
    x = torch.tensor([[1, 1, 0], [0, 0, 0], [0, 0, 1], [0, 1, 1]], dtype=torch.uint8)
    y = torch.tensor([[2, 1], [0, 1], [-1, 0], [3, 2]], dtype=torch.float64)  # true counts 2 1, 0 0, 0 1, 1 2
    expected = [
        math.log(0.1 * 0.2 * 0.7) + 2 * math.log(0.8),
        math.log(0.9 * 0.8 * 0.7) + math.log(0.8) + math.log(0.1),
        math.log(0.9 * 0.8 * 0.3) + 2 * math.log(0.1),
        -math.inf,  # an error of 2
    ]
    torch.testing.assert_close(one.log_joint(x, y), torch.tensor(expected, dtype=torch.float64), rtol=1e-13, atol=0)


@pytest.mark.parametrize(
    "prior", [Bernoulli([0.3, 0.0, 1.0, 0.6]), FixedWeight(2), Households(size=3, seed_rate=0.4, attack_rate=0.5)]
)
@pytest.mark.parametrize("noise", [Noiseless(), SparseInteger(rate=0.4, bound=1)])
def test_the_joint_probability_sums_to_one_over_all_x_and_y(prior, noise):
    one = Problem(Design.from_rows(["1101", "0111"]), prior, noise)
    x = statuses(4)
    y = torch.cartesian_prod(*[torch.arange(-1.0, 5.0, dtype=torch.float64)] * 2)
    pairs = one.log_joint(x.repeat_interleave(len(y), 0), y.repeat(len(x), 1))
    assert math.isclose(float(pairs.exp().sum()), 1.0, abs_tol=1e-12)


bits = st.integers(1, 4).flatmap(
    lambda items: st.lists(st.text("01", min_size=items, max_size=items), min_size=1, max_size=3)
)
observed = st.integers(-3, 7).map(float) | st.sampled_from([0.5, 1.25, 1e6, -1e6])


@settings(max_examples=80, deadline=None)
@given(bits, st.data())
def test_explainable_is_that_each_pool_alone_has_some_x(rows, data):
    noise = data.draw(
        st.sampled_from([Noiseless(), SparseInteger(rate=0.5, bound=1), SparseInteger(rate=1.0, bound=2)])
    )
    y = data.draw(st.lists(st.lists(observed, min_size=len(rows), max_size=len(rows)), min_size=1, max_size=4))
    one = Problem(Design.from_rows(rows), Bernoulli(0.5), noise)
    y = torch.tensor(y, dtype=torch.float64)
    counts = one.design.count(statuses(one.items))  # (x, pools)
    possible = noise.log_prob(y[:, None], counts, one.design.pool_sizes.double()) > -math.inf  # (instances, x, pools)
    found = one.explainable(y)
    assert found.tolist() == possible.any(1).all(1).tolist()
    assert not (possible.all(2).any(1) & ~found).any()  # what some x explains is never called inexplicable


def test_explainable_with_gaussian_noise_refuses_only_fractions():
    one = Problem(Design.from_rows(["110", "000"]), Bernoulli(0.5), RoundedGaussian(0.5))
    y = torch.tensor([[0, 0], [40, -40], [0.5, 0], [0, 0.5]], dtype=torch.float64)
    assert one.explainable(y).tolist() == [True, True, False, False]
    assert one.explainable(y[:0]).shape == (0,)


@settings(max_examples=30, deadline=None)
@given(bits, st.integers(0, 2**32))
def test_simulated_counts_are_explainable(rows, seed):
    for noise in (Noiseless(), SparseInteger(rate=0.7, bound=3), RoundedGaussian(2.0)):
        one = Problem(Design.from_rows(rows), Bernoulli(0.5), noise)
        x, y = one.simulate(20, generator=generator(seed))
        assert one.explainable(y).all()
        assert one.log_joint(x, y).isfinite().all()


# --- spec and fingerprint

rate = st.floats(0, 1)


def of(kind, **fields):
    """A part yet to be made, so that its checks, which draw at random, do not run inside a strategy."""
    return st.fixed_dictionaries({"kind": st.just(kind), **fields})


def made(part):
    """The part that was drawn."""
    if isinstance(part, list):
        return [made(one) for one in part]
    if not isinstance(part, dict):
        return part
    return part["kind"](**{name: made(field) for name, field in part.items() if name != "kind"})


def priors(items):
    """Priors of every kind for so many items."""
    labels = st.lists(names | st.integers(-(2**40), 2**40), min_size=items, max_size=items)
    simple = (
        of(Bernoulli, rate=rate)
        | of(Bernoulli, rate=st.lists(rate, min_size=items, max_size=items))
        | of(Households, size=st.integers(1, 9), seed_rate=rate, attack_rate=rate, background=rate)
        | of(Households, labels=labels, seed_rate=rate, attack_rate=rate)
    )
    return (
        simple
        | of(FixedWeight, defectives=st.integers(0, 3))
        | of(UnknownRate, low=st.floats(0, 0.5), high=st.floats(0.6, 1))
        | of(UnknownLevel, prior=simple, low=st.floats(1e-3, 1), high=st.floats(2, 1e3))
    )


whole_noises = (
    of(Noiseless)
    | of(SparseInteger, rate=rate, bound=st.integers(0, 2**31 - 1))
    | of(RoundedGaussian, sigma=st.floats(1e-300, 1e300))
    | of(PositiveNegative, sensitivity=st.floats(0.5, 1), specificity=st.floats(0.5, 1), dilution=rate)
    | of(Reads, depth=st.integers(1, 2**31 - 1), error=st.floats(0, 0.49))
)
whole_noises = (
    whole_noises
    | of(Saturating, cap=st.integers(1, 2**31 - 1), noise=whole_noises)
    | of(Binned, edges=st.lists(st.integers(0, 99), min_size=1, unique=True).map(sorted), noise=whole_noises)
)
one_pool = whole_noises | of(Gaussian, sigma=st.floats(1e-9, 1e9), growth=rate)
one_pool = one_pool | of(Outliers, noise=one_pool, rate=rate)


def noises(pools):
    """Noises of every kind for so many pools, nested ones among them."""
    return one_pool | of(PerPool, noises=st.lists(one_pool, min_size=pools, max_size=pools))


names = st.text(
    st.sampled_from(",;\"'\\\x7f #[]=é漢🧪\u2028") | st.characters(exclude_categories=["Cc", "Cs"]), min_size=1
)
names = names.filter(lambda name: name == name.strip())


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_a_spec_goes_through_toml_and_json_unchanged(tmp_path_factory, data):
    items = data.draw(st.integers(3, 5))
    rows = data.draw(st.lists(st.text("01", min_size=items, max_size=items), min_size=1, max_size=3))
    item_names = data.draw(st.lists(names, min_size=items, max_size=items, unique=True))
    pool_names = data.draw(st.lists(names, min_size=len(rows), max_size=len(rows), unique=True))
    one = Problem(
        Design.from_rows(rows, pool_names, item_names),
        made(data.draw(priors(items))),
        made(data.draw(noises(len(rows)))),
    )
    folder = tmp_path_factory.mktemp("spec")
    one.save(folder / "problem.toml")
    one.save(folder / "problem.json")
    assert tomllib.loads((folder / "problem.toml").read_text("utf-8")) == one.spec
    assert json.loads((folder / "problem.json").read_text("utf-8")) == one.spec
    for again in (
        Problem.from_spec(one.spec),
        Problem.load(folder / "problem.toml"),
        Problem.load(folder / "problem.json"),
    ):
        assert again.spec == one.spec
        assert again.fingerprint == one.fingerprint
        assert again.design.item_names == one.design.item_names
        assert again.design.pool_names == one.design.pool_names
        assert repr(again) == repr(one)


@pytest.mark.usefixtures("unchecked")  # whole numbers are welcome as rates
def test_the_spec_is_readable_plain_data():
    design = Design.from_rows(["110", "011"], ["p", "q"], ["a", "b", "c"])
    assert Problem(design, Bernoulli([0.1, 0, 1]), SparseInteger(rate=0.1, bound=1)).spec == {
        "design": {"matrix": ["110", "011"], "pool_names": ["p", "q"], "item_names": ["a", "b", "c"]},
        "prior": {"kind": "bernoulli", "rate": [0.1, 0.0, 1.0]},
        "noise": {"kind": "sparse_integer", "rate": 0.1, "bound": 1},
    }


# Computed once by the hand-made bytes of the next test: it may never change, since results and trained decoders name
# their problem by it.
FINGERPRINT = "eb3dd42606d644f7c824acaff5dc35b347a032e83cb1256378d5900cbf350e69"


def example() -> Problem:
    design = Design.from_rows(["110", "011"], ["p", "q"], ["a", "b", "c"])
    return Problem(design, Bernoulli(0.1), SparseInteger(rate=0.06, bound=1))


def test_the_fingerprint_is_the_hash_of_little_endian_numbers_and_the_other_parts():
    starts, entries = (0, 2, 4), (0, 1, 1, 2)
    numbers = b"".join(number.to_bytes(8, "little") for number in starts + entries)
    design = hashlib.sha256(b"qgt design 2 3\n" + numbers).hexdigest()
    assert example().design.fingerprint == design
    text = (
        f'{{"design":"{design}","noise":{{"bound":1,"kind":"sparse_integer","rate":0.06}},'
        '"prior":{"kind":"bernoulli","rate":0.1}}'
    )
    assert example().fingerprint == hashlib.sha256(text.encode()).hexdigest() == FINGERPRINT


def test_a_sparse_design_is_stored_as_lists_and_never_as_a_matrix(tmp_path):
    design = Design.column_regular(pools=200, items=2000, weight=3, generator=generator())
    one = Problem(design, Bernoulli(0.01))
    assert one.spec["design"] == {"items": 2000, "lists": list(design.lists)}
    for name in ("problem.toml", "problem.json"):
        one.save(tmp_path / name)
        again = Problem.load(tmp_path / name)
        assert again.spec == one.spec
        assert again.fingerprint == one.fingerprint == problem.fingerprint_of(one.spec)
        again.simulate(3, generator=generator())
        assert "matrix" not in vars(again.design)
    assert "matrix" not in vars(design)


def test_both_stored_forms_of_a_design_have_one_fingerprint():
    parts = {"prior": {"kind": "bernoulli", "rate": 0.1}, "noise": {"kind": "noiseless"}}
    rows = {"design": {"matrix": ["1010", "0110"], "pool_names": ["a", "b"]}, **parts}
    lists = {"design": {"lists": [[2, 0], [1, 2]], "items": 4}, **parts}
    assert problem.fingerprint_of(rows) == problem.fingerprint_of(lists) == Problem.from_spec(lists).fingerprint


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("design", "said"),
    [
        ({"lists": [[0]]}, "design.items is missing"),
        ({"lists": [[0]], "items": 0}, "design: items=0"),
        ({"lists": [[0]], "items": 1.5}, "design: items=1.5"),
        ({"lists": [[3]], "items": 3}, r"design: lists\[0\] holds 3: give whole numbers from 0 to 2"),
        ({"lists": [[0], [-1]], "items": 3}, r"design: lists\[1\] holds -1"),
        ({"lists": [["I1"]], "items": 3}, r"design: lists\[0\] holds 'I1'"),
        ({"lists": [[True]], "items": 3}, r"design: lists\[0\] holds True"),
        ({"lists": [[1, 0, 1]], "items": 3}, r"design: lists\[0\] holds 1 twice"),
        ({"lists": ["01"], "items": 3}, "design: lists='01'"),
        ({"lists": 3, "items": 3}, "design: lists=3"),
        ({"lists": [], "items": 3}, "design: 0 pools"),
        ({"lists": [[0]], "items": 3, "matrix": ["100"]}, "design.matrix is not a known key"),
    ],
)
def test_lists_that_are_no_design_are_refused(design, said):
    with pytest.raises(ValueError, match=said):
        Problem.from_spec({"design": design, "prior": {"kind": "bernoulli", "rate": 0.1}})


@pytest.mark.parametrize(
    "design", [{"file": "/etc/hostname"}, {"kind": "bernoulli", "pools": 2, "items": 2, "seed": 0}]
)
def test_a_stored_spec_reads_no_file_and_draws_nothing(design):
    spec = {"design": design, "prior": {"kind": "bernoulli", "rate": 0.1}, "noise": {"kind": "noiseless"}}
    with pytest.raises(ValueError, match="is not a known key"):
        problem.fingerprint_of(spec)


def test_the_fingerprint_is_the_same_in_another_process():
    code = (
        "import json, sys, qgt; print(qgt.Problem.from_spec(json.loads(sys.argv[1])).fingerprint); "
        "import torch; g = torch.Generator().manual_seed(0); "
        "d = qgt.Design.column_regular(pools=5, items=30, weight=2, generator=g); "
        "print(qgt.Problem(d, qgt.FixedWeight(3)).fingerprint)"
    )
    made = Design.column_regular(pools=5, items=30, weight=2, generator=generator(0))
    found = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}", json.dumps(example().spec)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split() == [example().fingerprint, Problem(made, FixedWeight(3)).fingerprint]


def test_the_fingerprint_changes_with_each_part_and_not_with_names():
    matrix, prior, noise = ["110", "011"], Bernoulli(0.1), SparseInteger(rate=0.06, bound=1)
    others = [
        Problem(Design.from_rows(["110", "010"]), prior, noise),
        Problem(Design.from_rows(["011", "110"]), prior, noise),  # the order of pools counts: y has it too
        Problem(Design.from_rows(["110"]), prior, noise),
        Problem(Design.from_rows(["1100", "0110"]), prior, noise),  # one more item, in no pool
        Problem(Design.from_rows(["110", "011", "000"]), prior, noise),
        Problem(Design.from_rows(matrix), Bernoulli(math.nextafter(0.1, 1)), noise),
        Problem(Design.from_rows(matrix), Bernoulli([0.1, 0.1, 0.1]), noise),
        Problem(Design.from_rows(matrix), FixedWeight(1), noise),
        Problem(Design.from_rows(matrix), Households(size=1, seed_rate=0.1, attack_rate=1.0), noise),
        Problem(Design.from_rows(matrix), Blocks(0.1), noise),
        Problem(Design.from_rows(matrix), prior),
        Problem(Design.from_rows(matrix), prior, SparseInteger(rate=0.07, bound=1)),
        Problem(Design.from_rows(matrix), prior, SparseInteger(rate=0.06, bound=2)),
        Problem(Design.from_rows(matrix), prior, RoundedGaussian(0.06)),
    ]
    assert len({example().fingerprint, *(other.fingerprint for other in others)}) == len(others) + 1
    renamed = Problem(Design.from_rows(matrix, ["other", "names"], ["x", "y", "z"]), prior, noise)
    assert renamed.fingerprint == example().fingerprint
    assert renamed.spec != example().spec


@pytest.mark.usefixtures("unchecked")
def test_equal_rates_written_differently_have_one_fingerprint():
    design = Design.from_rows(["11"])
    rates = (1, 1.0, torch.tensor(1.0))
    assert len({Problem(design, Bernoulli(value)).fingerprint for value in rates}) == 1
    rates = ([0, 1], (0.0, 1.0), torch.tensor([0.0, 1.0]))
    assert len({Problem(design, Bernoulli(value)).fingerprint for value in rates}) == 1


def test_a_prior_of_ones_own_needs_only_sample():
    one = Problem(Design.from_rows(["110", "011"]), Blocks(0.5))
    x, y = one.simulate(100, generator=generator(9))
    assert set(map(tuple, x.tolist())) == {(0, 0, 0), (1, 1, 1)}
    assert torch.equal(y, one.design.count(x))
    assert one.spec["prior"] == {"kind": "test_problem:Blocks", "rate": 0.5}
    assert len(one.fingerprint) == 64
    assert one.fingerprint != Problem(one.design, Blocks(0.25)).fingerprint


def test_a_prior_without_a_readable_spec_simulates_but_has_no_fingerprint():
    class Nameless:
        def sample(self, instances, items, *, generator):
            return torch.zeros(instances, items, dtype=torch.uint8)

    one = Problem(Design.from_rows(["11"]), Nameless())
    assert one.simulate(2, generator=generator()).y.tolist() == [[0.0], [0.0]]
    with pytest.raises(ValueError, match=r"Nameless.* frozen dataclass"):
        _ = one.fingerprint


@pytest.mark.parametrize("weights", [torch.ones(2), {1, 2}, math.nan])
def test_a_field_that_is_not_plain_data_is_refused_by_name(weights):
    @dataclass(frozen=True)
    class Weighted:
        weights: object

        def sample(self, instances, items, *, generator):
            return torch.zeros(instances, items, dtype=torch.uint8)

    with pytest.raises(ValueError, match="weights"):
        _ = Problem(Design.from_rows(["11"]), Weighted(weights)).fingerprint


@pytest.mark.parametrize("prior", [Bernoulli([0.1, 0.2]), FixedWeight(4)])
def test_a_prior_for_another_number_of_items_is_refused_at_once(prior):
    with pytest.raises(ValueError, match="3 items"):
        Problem(Design.from_rows(["110"]), prior)


@pytest.mark.parametrize("maker", ["bernoulli", "column_regular", "doubly_regular"])
def test_a_spec_may_name_a_maker_and_a_seed(maker):
    arguments = {"pools": 4, "items": 8, **({} if maker == "bernoulli" else {"weight": 2})}
    one = Problem.from_spec(
        {"design": {"kind": maker, "seed": 3, **arguments}, "prior": {"kind": "fixed_weight", "defectives": 2}}
    )
    assert one.design.rows == getattr(Design, maker)(**arguments, generator=generator(3)).rows
    assert Problem.from_spec(one.spec).fingerprint == one.fingerprint
    assert repr(one.noise) == "Noiseless()"


@pytest.mark.usefixtures("unchecked")
def test_an_optional_argument_of_a_maker_may_be_given():
    spec = {"kind": "bernoulli", "seed": 3, "pools": 4, "items": 8, "probability": 1}
    one = Problem.from_spec({"design": spec, "prior": {"kind": "bernoulli", "rate": 0.5}})
    assert one.design.pool_sizes.tolist() == [8] * 4


def test_a_design_file_is_found_beside_the_problem_file(tmp_path):
    Design.from_rows(["110", "011"], ["p", "q"], ["a", "b", "c"]).to_csv(tmp_path / "pools.csv")
    text = '[design]\nfile = "pools.csv"\n[prior]\nkind = "bernoulli"\nrate = 0.1\n'
    (tmp_path / "problem.toml").write_text(text, encoding="utf-8-sig")  # a byte-order mark is harmless
    one = Problem.load(tmp_path / "problem.toml")
    assert one.design.rows == ("110", "011")
    assert one.design.item_names == ("a", "b", "c")


GOOD = {
    "design": {"matrix": ["110", "011"]},
    "prior": {"kind": "bernoulli", "rate": 0.1},
    "noise": {"kind": "sparse_integer", "rate": 0.1, "bound": 1},
}
MADE = {"kind": "column_regular", "seed": 0, "pools": 4, "items": 3, "weight": 2}


def households(**changed):
    return {"prior": {"kind": "households", "size": 2, "seed_rate": 0.1, "attack_rate": 0.2, **changed}}


BAD = [
    # the whole
    ({"desing": {}}, r"problem\.desing is not a known key: use design, noise, prior"),
    ({"design": None}, "design=None"),
    ({"design": ["110"]}, "design=.* table"),
    ({"prior": 0.1}, r"prior=0\.1 .* table"),
    ({"noise": "noiseless"}, "noise='noiseless' .* table"),
    ({"noise": None}, "noise=None"),
    # kinds
    ({"prior": {}}, r"prior\.kind=None is not known: give one of bernoulli, categories, copies, fixed_weight"),
    ({"prior": {"kind": "Bernoulli", "rate": 0.1}}, r"prior\.kind='Bernoulli'"),
    ({"prior": {"kind": 3}}, r"prior\.kind=3"),
    ({"prior": {"kind": ["bernoulli"], "rate": 0.1}}, r"prior\.kind=\['bernoulli'\]"),
    ({"noise": {"kind": {}}}, r"noise\.kind=\{\}"),
    ({"design": {"kind": ["bernoulli"]}}, r"design\.kind=\['bernoulli'\]"),
    ({"noise": {"kind": "gauss"}}, r"noise\.kind='gauss' .* sparse_integer"),
    ({"design": {}}, r"design\.kind=None .* column_regular"),
    # priors
    ({"prior": {"kind": "bernoulli"}}, r"prior\.rate is missing"),
    ({"prior": {"kind": "bernoulli", "rate": 0.1, "rates": 0.1}}, r"prior\.rates is not a known key: use kind, rate"),
    ({"prior": {"kind": "bernoulli", "rate": 1.5}}, r"prior\.rate=1\.5"),
    ({"prior": {"kind": "bernoulli", "rate": True}}, r"prior\.rate=True"),
    ({"prior": {"kind": "bernoulli", "rate": "0.1"}}, r"prior\.rate='0\.1'"),
    ({"prior": {"kind": "bernoulli", "rate": math.nan}}, r"prior\.rate=nan"),
    ({"prior": {"kind": "bernoulli", "rate": [0.1, math.nan, 0.1]}}, r"prior\.rate\[1\]=nan"),
    ({"prior": {"kind": "bernoulli", "rate": [0.1, False, 0.1]}}, r"prior\.rate\[1\]=False"),
    ({"prior": {"kind": "bernoulli", "rate": [0.1, 0.1]}}, "rate holds 2 numbers for 3 items"),
    ({"prior": {"kind": "bernoulli", "rate": {}}}, r"prior\.rate={}"),
    ({"prior": {"kind": "bernoulli", "rate": 10**400}}, r"prior\.rate=10000"),
    ({"prior": {"kind": "fixed_weight", "defectives": 1.0}}, r"prior\.defectives=1\.0"),
    ({"prior": {"kind": "fixed_weight", "defectives": True}}, r"prior\.defectives=True"),
    ({"prior": {"kind": "fixed_weight", "defectives": -1}}, r"prior\.defectives=-1"),
    ({"prior": {"kind": "fixed_weight", "defectives": 4}}, "defectives=4 is more than the 3 items"),
    (households(size=0), r"prior\.size=0"),
    (households(size=2.0), r"prior\.size=2\.0"),
    (households(seed_rate=-0.1), r"prior\.seed_rate=-0\.1"),
    (households(attack_rate="high"), r"prior\.attack_rate='high'"),
    # noises
    ({"noise": {"kind": "noiseless", "rate": 0.1}}, r"noise\.rate is not a known key: use kind"),
    ({"noise": {"kind": "sparse_integer", "rate": 0.1}}, r"noise\.bound is missing"),
    ({"noise": {"kind": "sparse_integer", "rate": 0.1, "bound": 1.5}}, r"noise\.bound=1\.5"),
    ({"noise": {"kind": "sparse_integer", "rate": 0.1, "bound": True}}, r"noise\.bound=True"),
    ({"noise": {"kind": "sparse_integer", "rate": False, "bound": 1}}, r"noise\.rate=False"),
    ({"noise": {"kind": "rounded_gaussian", "sigma": 0}}, r"noise\.sigma=0"),
    ({"noise": {"kind": "rounded_gaussian", "sigma": math.nan}}, r"noise\.sigma=nan"),
    ({"noise": {"kind": "rounded_gaussian", "sigma": math.inf}}, r"noise\.sigma=inf"),
    # designs
    ({"design": {"matrix": ["110"], "names": []}}, r"design\.names is not a known key"),
    ({"design": {"matrix": "110"}}, "design: matrix='110'"),
    ({"design": {"matrix": []}}, "design: .*(rows|matrix)"),
    ({"design": {"matrix": ["110", "01"]}}, "design: .*row 2 is '01'"),
    ({"design": {"matrix": ["112"]}}, "design: .*row 1 is '112'"),
    ({"design": {"matrix": [[1, 1, 0]]}}, r"design: .*row 1 is \[1, 1, 0\]"),
    ({"design": {"matrix": ["110"], "pool_names": "p"}}, "design: pool_names='p'"),
    ({"design": {"matrix": ["110"], "pool_names": [1]}}, "design: pool_names=1"),
    ({"design": {"matrix": ["110"], "item_names": ["a", "b"]}}, "design: item_names holds 2"),
    ({"design": {"file": 3}}, "design: file=3"),
    ({"design": {"file": "absent.csv"}}, r"design: absent\.csv: cannot be read"),
    ({"design": {"file": "pools.csv", "matrix": ["110"]}}, r"design\.matrix is not a known key: use file"),
    ({"design": {**MADE, "wieght": 2}}, r"design\.wieght is not a known key"),
    ({"design": {**MADE, "generator": 2}}, r"design\.generator is not a known key"),
    ({"design": {**MADE, "weight": 5}}, "design: weight=5"),
    ({"design": {**MADE, "weight": 2.0}}, r"design: weight=2\.0"),
    ({"design": {**MADE, "pools": True}}, "design: pools=True"),
    ({"design": {**MADE, "items": "3"}}, "design: items='3'"),
    ({"design": {**MADE, "seed": -1}}, "design: seed=-1"),
    ({"design": {**MADE, "seed": 0.5}}, r"design: seed=0\.5"),
    ({"design": {**MADE, "seed": 2**70}}, "design: seed=1180591620717411303424"),
    ({"design": {key: value for key, value in MADE.items() if key != "seed"}}, r"design\.seed is missing"),
    ({"design": {key: value for key, value in MADE.items() if key != "weight"}}, r"design\.weight is missing"),
]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("changed", "said"), BAD, ids=[said for _, said in BAD])
def test_a_bad_spec_is_refused_with_the_key_named(changed, said):
    assert Problem.from_spec(GOOD).items == 3
    with pytest.raises(ValueError, match=f"^{said}") as caught:
        Problem.from_spec({**GOOD, **changed})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("part", ["design", "prior"])
def test_a_missing_part_is_named(part):
    with pytest.raises(ValueError, match=rf"^problem\.{part} is missing"):
        Problem.from_spec({key: value for key, value in GOOD.items() if key != part})


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("problem.toml", b"[design\n", "is not a TOML or JSON problem file"),
        ("problem.json", b"{", "is not a TOML or JSON problem file"),
        ("problem.toml", b"\xff\xfe", "is not a TOML or JSON problem file"),
        ("problem.json", b"[]", r"problem=\[\]"),
        (
            "problem.json",
            b'{"design": {"matrix": ["1"]}, "prior": {"kind": "bernoulli", "rate": NaN}}',
            r"prior\.rate=nan",
        ),
        ("problem.toml", b'[design]\nmatrix = ["1"]\n[prior]\nkind = "bernoulli"\nrate = nan\n', r"prior\.rate=nan"),
        ("problem.toml", b"", r"problem\.design is missing"),
    ],
)
def test_a_bad_file_is_refused_by_name(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=rf"{name}: {said}"):
        Problem.load(tmp_path / name)


def test_a_file_that_does_not_exist_is_a_value_error(tmp_path):
    with pytest.raises(ValueError, match=r"absent\.toml: cannot be read .* check the path"):
        Problem.load(tmp_path / "absent.toml")


def test_a_save_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "problem.toml"
    example().save(path)
    before = path.read_bytes()
    broken = Problem(Design.from_rows(["1"], ["p"], ["\ud800"]), Bernoulli(0.5))  # no UTF-8 for half a character
    with pytest.raises(ValueError, match="surrogates"):
        broken.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_noise_within_a_noise_is_read():
    spec = {
        "design": {"matrix": ["110", "011"]},
        "prior": {"kind": "bernoulli", "rate": 0.1},
        "noise": {"kind": "outliers", "rate": 0.01, "noise": {"kind": "sparse_integer", "rate": 0.1, "bound": 1}},
    }
    assert Problem.from_spec(spec).noise == Outliers(SparseInteger(rate=0.1, bound=1), rate=0.01)


def test_each_pool_needs_its_noise():
    with pytest.raises(ValueError, match="noises holds 1 noises for 2 pools"):
        Problem(Design.from_rows(["110", "011"]), Bernoulli(0.1), PerPool([Noiseless()]))


@pytest.mark.parametrize("noise", [Noiseless(), PerPool([Noiseless(), PositiveNegative(0.9, 0.9)])])
def test_a_missing_count_is_no_factor(noise):
    one = Problem(Design.from_rows(["110", "011"]), Bernoulli([0.1, 0.2, 0.3]), noise)
    first = noise.noises[0] if isinstance(noise, PerPool) else noise
    alone = Problem(Design.from_rows(["110"]), Bernoulli([0.1, 0.2, 0.3]), first)
    x, y = statuses(3), torch.tensor([[1.0, math.nan]] * 8, dtype=torch.float64)
    torch.testing.assert_close(one.log_joint(x, y), alone.log_joint(x, y[:, :1]))
    torch.testing.assert_close(one.factors(y).cost(x, torch.arange(8)), -alone.log_joint(x, y[:, :1]))
    nothing = torch.full((8, 2), math.nan, dtype=torch.float64)
    torch.testing.assert_close(one.log_joint(x, nothing), one.prior.log_prob(x))
    assert one.explainable(torch.tensor([[1.0, math.nan], [math.nan] * 2, [9.0, math.nan]]).double()).tolist() == [
        True,
        True,
        False,
    ]
