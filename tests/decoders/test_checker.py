"""What the checker must not believe: odd priors and noises, other dtypes, huge costs, malformed and hostile files.

Forged certificates of every kind are in `certified/test_forgery.py`.
"""

import json
import lzma
import math
import resource
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

import qgt
from forgeries.problems import Control
from qgt.decoders import certificate_file, checker
from qgt.model.prior import FREE, ItemCosts


def one_leaf(problem: qgt.Problem, x: Tensor, *, pi: float = 0.0, shares: bool = False) -> qgt.Decoded:
    """The claim that each x is proved, with a single leaf of all x that any fool can write down."""
    n, listed = len(x), torch.zeros(0, problem.items, dtype=torch.uint8)
    none, ends = torch.zeros(0, dtype=torch.float64), torch.zeros(n, dtype=torch.int64)
    answers = qgt.Answers(qgt.Spans(ends), listed, none, none)
    proof = qgt.Proof(
        1.0,
        qgt.Spans(torch.arange(1, n + 1)),
        torch.full((n, problem.items), FREE, dtype=torch.int8),
        torch.zeros(n, dtype=torch.int64),
        torch.full((n,), problem.items),
        torch.full((n, problem.pools), pi),
        torch.zeros(n, problem.design.transfers if shares else 0),
    )
    proved = torch.full((n,), int(qgt.Status.PROVED), dtype=torch.uint8)
    return qgt.Decoded(x, proved, None, qgt.Evidence(alternatives=answers), proof)


def every_x(items: int) -> Tensor:
    return (torch.arange(2**items)[:, None] >> torch.arange(items) & 1).to(torch.uint8)


def solved(instances: int = 15) -> tuple[qgt.Problem, Tensor, qgt.Decoded]:
    g = torch.Generator().manual_seed(0)
    design = qgt.Design.bernoulli(pools=10, items=20, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.1), qgt.SparseInteger(0.1, 1))
    y = problem.simulate(instances, generator=g).y
    return problem, y, qgt.Certified().bind(problem)(y)


# --- weights of known items -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("unchecked")  # every x is put to the checker; types are checked in other tests
@pytest.mark.parametrize("weight", [-50.0, -0.3, 7.0])
def test_the_weight_of_a_known_item_proves_nothing(weight: float) -> None:
    g = torch.Generator().manual_seed(0)
    design = qgt.Design.bernoulli(pools=6, items=8, generator=g)
    problem = qgt.Problem(design, Control(weight=weight), qgt.SparseInteger(0.1, 1))
    y = problem.simulate(40, generator=g).y
    x = every_x(8)
    for i in range(4):
        counts = y[i].expand(len(x), -1)
        cost = -problem.log_joint(x, counts)
        accepted = qgt.check_certificate(problem, counts, one_leaf(problem, x))
        assert not bool((accepted & (cost > cost.min() + 1e-4)).any()), i
    result = qgt.Certified().bind(problem)(y)
    truth = qgt.Exhaustive().bind(problem)(y)
    torch.testing.assert_close(result.evidence.log_joint, truth.evidence.log_joint)
    assert bool(qgt.check_certificate(problem, y, result).all())


def test_the_weights_of_known_items_are_part_of_the_constant() -> None:
    known = torch.tensor([1, 0, FREE, 1], dtype=torch.int8)
    weights = torch.tensor([-50.0, torch.inf, 2.0, 1.0], dtype=torch.float64)
    costs = ItemCosts(51.0, weights, known)
    assert costs.constant == 2.0 and costs.weights.tolist() == [0.0, 0.0, 2.0, 0.0]
    assert costs.of(torch.tensor([[1, 0, 1, 1], [1, 0, 0, 1], [1, 1, 0, 1]], dtype=torch.uint8)).tolist() == [
        4.0,
        2.0,
        math.inf,
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"constant": math.nan}, "constant=nan"),
        ({"weights": torch.tensor([math.nan, 0.0]).double()}, r"weights\[0\]=nan"),
        ({"weights": torch.tensor([0.0, math.inf]).double()}, r"weights\[1\]=inf"),
        ({"known": torch.tensor([FREE, 2], dtype=torch.int8)}, "known is not valid"),
        ({"known": torch.tensor([1, 0], dtype=torch.int8), "weights": torch.tensor([-math.inf, 0.0]).double()}, "-inf"),
        ({"total": torch.tensor([0.0, math.nan, 0.0]).double()}, "total is not valid"),
        ({"total": torch.tensor([0.0, -math.inf, 0.0]).double()}, "total is not valid"),
    ],
)
def test_costs_that_are_no_numbers_are_refused(change: dict[str, object], said: str) -> None:
    fields = {"constant": 0.0, "weights": torch.zeros(2).double(), "known": torch.full((2,), FREE, dtype=torch.int8)}
    with pytest.raises(ValueError, match=said):
        ItemCosts(**{**fields, **change})  # type: ignore[arg-type]


# --- dtypes and values ----------------------------------------------------------------------------------------------


def _with_proof(result: qgt.Decoded, **parts: Tensor) -> qgt.Decoded:
    assert result.proof is not None
    return replace(result, proof=replace(result.proof, **parts))


def _with_answers(result: qgt.Decoded, **parts: object) -> qgt.Decoded:
    answers = result.evidence.alternatives
    assert answers is not None
    return replace(result, evidence=replace(result.evidence, alternatives=replace(answers, **parts)))  # type: ignore[arg-type]


@pytest.mark.usefixtures("unchecked")  # the annotations would refuse these first
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda r: replace(r, x=r.x.to(torch.int8)), "x is torch.int8"),
        (lambda r: replace(r, x=r.x.double() / 2), "x is torch.float64"),
        (lambda r: replace(r, status=r.status.to(torch.int64)), "status is torch.int64"),
        (lambda r: _with_answers(r, x=r.evidence.alternatives.x.to(torch.int16)), "alternatives is torch.int16"),
        (lambda r: _with_answers(r, probability=r.evidence.alternatives.probability.long()), "probability is"),
        (lambda r: _with_proof(r, fixed=r.proof.fixed.to(torch.int16)), "proof.fixed is torch.int16"),
        (lambda r: _with_proof(r, least=r.proof.least.double()), "proof.least is torch.float64"),
        (lambda r: _with_proof(r, most=r.proof.most.to(torch.int32)), "proof.most is torch.int32"),
        (lambda r: _with_proof(r, pi=r.proof.pi.long()), "proof.pi is torch.int64"),
        (lambda r: _with_proof(r, shares=r.proof.shares.long()), "proof.shares is torch.int64"),
        (lambda r: replace(r, evidence=replace(r.evidence, complete=r.evidence.complete.byte())), "evidence.complete"),
        (lambda r: _with_proof(r, spans=qgt.Spans(r.proof.spans.ends.flip(0))), "proof.ends is not in order"),
        (lambda r: _with_proof(r, spans=qgt.Spans(r.proof.spans.ends - 1)), "proof.ends says"),
        (lambda r: _with_proof(r, spans=qgt.Spans(r.proof.spans.ends + 1)), "proof.ends says"),
        (lambda r: _with_answers(r, spans=qgt.Spans(r.evidence.alternatives.spans.ends + 2**40)), "alternatives.ends"),
        (lambda r: _with_answers(r, spans=qgt.Spans(r.evidence.alternatives.spans.ends.double())), "alternatives.ends"),
    ],
)
def test_results_of_other_types_are_refused(change: object, said: str) -> None:
    problem, y, result = solved()
    with pytest.raises(ValueError, match=said):
        qgt.check_certificate(problem, y, change(result))  # type: ignore[operator]


@pytest.mark.usefixtures("unchecked")
def test_an_answer_with_a_negative_entry_is_not_proved() -> None:
    """Such an "answer" can have counts that cost less than those of any x."""
    problem, y, result = solved()
    for seed in range(50):
        x = torch.randint(-1, 2, result.x.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.int8)
        with pytest.raises(ValueError, match="int8"):
            qgt.check_certificate(problem, y, replace(result, x=x))


def test_an_answer_that_is_not_of_zeros_and_ones_is_not_proved() -> None:
    problem, y, result = solved()
    x = result.x.clone()
    x[:, 3] = 2
    assert not bool(qgt.check_certificate(problem, y, replace(result, x=x)).any())
    listed = result.evidence.alternatives
    assert listed is not None
    odd = listed.x.clone()
    odd[0, 0] += 2
    assert not bool(qgt.check_certificate(problem, y, _with_answers(result, x=odd))[0])


# --- noises without numbers -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Odd:
    """A noise whose log probability at one count is no number, or no probability."""

    at: float
    value: float
    integer = True

    def reach(self, size: int, tail: float) -> float:
        return 1.0

    def sample(self, counts: Tensor, sizes: Tensor, *, generator: torch.Generator) -> Tensor:
        return qgt.SparseInteger(0.1, 1).sample(counts, sizes, generator=generator)

    def log_prob(self, y: Tensor, counts: Tensor, sizes: Tensor) -> Tensor:
        usual = qgt.SparseInteger(0.1, 1).log_prob(y, counts, sizes)
        return torch.where(counts == self.at, self.value, usual)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_noise_without_numbers_is_refused_by_name(value: float) -> None:
    g = torch.Generator().manual_seed(0)
    design = qgt.Design.bernoulli(pools=6, items=10, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.1), Odd(at=0.0, value=value))
    y = problem.simulate(20, generator=g).y
    said = rf"the noise Odd\(at=0.0, value={value}\) gives log_prob={value} for report .* at count 0 in a pool of"
    for decoder in (qgt.Certified(), qgt.ExactMAP(), qgt.BeliefPropagation(), qgt.Prevalence()):
        with pytest.raises(ValueError, match=said):
            decoder.bind(problem)(y)
    with pytest.raises(ValueError, match=said):
        qgt.check_certificate(problem, y, one_leaf(problem, torch.zeros(20, 10, dtype=torch.uint8), shares=True))


def test_what_a_noise_says_beyond_a_pools_size_does_not_matter() -> None:
    design = qgt.Design.from_rows(["1100", "1111"])
    problem = qgt.Problem(design, qgt.Bernoulli(0.1), qgt.PerPool([Odd(at=3.0, value=math.nan), qgt.Noiseless()]))
    result = qgt.Certified().bind(problem)(torch.tensor([[1.0, 1.0]], dtype=torch.float64))
    assert int(result.status[0]) == qgt.Status.PROVED


# --- precision ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sigma", [1e-9, 1e-8, 1e-6])
def test_costs_too_large_for_float64_prove_nothing(sigma: float) -> None:
    """Costs of 4e17 come in steps of 64 nats: an answer 19 times less probable would pass for the best."""
    design = qgt.Design.from_rows(["1110", "0101", "1011"])
    problem = qgt.Problem(design, qgt.Bernoulli(0.05), qgt.Gaussian(sigma))
    y = torch.full((16, 3), 0.5, dtype=torch.float64)
    x = every_x(4)
    claims = one_leaf(problem, x)
    proof = claims.proof
    assert proof is not None
    many = replace(  # one leaf for each x
        proof,
        spans=qgt.Spans(16 * torch.arange(1, 17)),
        fixed=x.to(torch.int8).repeat(16, 1),
        least=torch.zeros(256, dtype=torch.int64),
        most=torch.full((256,), 4),
        pi=torch.zeros(256, 3),
        shares=torch.zeros(256, 0),
    )
    assert not bool(qgt.check_certificate(problem, y, replace(claims, proof=many)).any())
    for decoder in (qgt.Certified(), qgt.Certified(certificates=False), qgt.Certified(odds=1.0)):
        result = decoder.bind(problem)(y[:1])
        assert int(result.status[0]) == qgt.Status.OK and not bool(result.evidence.complete.any())


def test_costs_too_large_for_float64_do_not_look_impossible() -> None:
    """Every x costs 1e30, which float64 cannot tell from more than any possible x costs."""
    problem = qgt.Problem(qgt.Design.from_rows(["00"]), qgt.Bernoulli(0.5), qgt.RoundedGaussian(0.4))
    y = torch.tensor([[1e15], [0.0]], dtype=torch.float64)
    assert bool(problem.log_joint(torch.ones(2, 2, dtype=torch.uint8), y).isfinite().all())
    result = qgt.Certified().bind(problem)(y)
    assert result.status.tolist() == [qgt.Status.TIME_LIMIT, qgt.Status.PROVED]
    assert result.evidence.complete.tolist() == [False, True] and float(result.evidence.bound[0]) == math.inf
    assert qgt.check_certificate(problem, y, result).tolist() == [False, True]


@pytest.mark.parametrize("sigma", [0.3, 1e-2, 1e-3])
def test_what_float64_can_tell_apart_is_proved_and_accepted(sigma: float) -> None:
    g = torch.Generator().manual_seed(0)
    design = qgt.Design.bernoulli(pools=15, items=30, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.08), qgt.Gaussian(sigma))
    y = problem.simulate(20, generator=g).y
    result = qgt.Certified().bind(problem)(y)
    assert bool((result.status == qgt.Status.PROVED).all())
    assert bool(qgt.check_certificate(problem, y, result).all())


def test_rounding_counts_the_additions_of_groups() -> None:
    """Groups are added one after the other: with 2,000 of them the first goes through 2,000 additions."""
    design = qgt.Design.column_regular(pools=10, items=4000, weight=2, generator=torch.Generator().manual_seed(0))
    prior = qgt.Households(size=2, seed_rate=0.01, attack_rate=0.5, background=0.001)
    factors = qgt.Problem(design, prior).factors(torch.zeros(1, 10, dtype=torch.float64))
    costs = checker.InstanceCosts.of(checker.Shared.of(factors), factors, 0)
    tables = [group.table[np.isfinite(group.table)] for group in costs.shared.groups]
    most = len(tables) * checker.EPS * sum(np.abs(table).max(initial=0.0) for table in tables)
    assert checker._rounding(costs, np.zeros((1, 10)), np.zeros((1, 0)), np.zeros(1))[0] >= most


# --- a prior whose costs are not its log probability ----------------------------------------------------------------


@dataclass(frozen=True)
class TwoFaced:
    """Its costs take an item for rarer, or everything for more probable, than its log_prob does."""

    rate: float = 0.2
    shift: float = 0.0
    item: float = 0.0

    def sample(self, instances: int, items: int, *, generator: torch.Generator) -> Tensor:
        return qgt.Bernoulli(self.rate).sample(instances, items, generator=generator)

    def marginals(self, items: int) -> Tensor:
        return qgt.Bernoulli(self.rate).marginals(items)

    def log_prob(self, x: Tensor) -> Tensor:
        return qgt.Bernoulli(self.rate).log_prob(x)

    def costs(self, items: int) -> ItemCosts:
        told = qgt.Bernoulli(self.rate).costs(items)
        weights = told.weights.clone()
        weights[0] += self.item
        return ItemCosts(told.constant + self.shift, weights, told.known)


@pytest.mark.parametrize(("shift", "item"), [(1e-3, 0.0), (-0.5, 0.0), (0.0, 4.0)])
def test_costs_that_are_not_the_log_probability_prove_nothing(shift: float, item: float) -> None:
    design = qgt.Design.from_rows(["1100", "1010"])
    honest, faced = (qgt.Problem(design, TwoFaced(shift=s, item=i), qgt.SparseInteger(0.1, 1))
                     for s, i in ((0.0, 0.0), (shift, item)))  # fmt: skip
    y = torch.tensor([[1.0, 1.0]], dtype=torch.float64)
    assert bool(qgt.check_certificate(honest, y, qgt.Certified().bind(honest)(y)).all())
    x = every_x(4)
    best = x[(-faced.factors(y).cost(x, torch.zeros(16, dtype=torch.int64))).argmax()][None]
    boxes = replace(
        one_leaf(faced, best).proof,  # type: ignore[arg-type]
        spans=qgt.Spans(torch.tensor([16])),
        fixed=x.to(torch.int8),
        least=torch.zeros(16, dtype=torch.int64),
        most=torch.full((16,), 4),
        pi=torch.zeros(16, 2),
        shares=torch.zeros(16, 0),
    )
    claim = replace(one_leaf(faced, best), proof=boxes)
    claims = qgt.check_claims(faced, y, claim)
    assert bool(claims.optimal) == bool(item and best[0, 0] == 0)  # the cost of an x without the item is right
    listed = every_x(4)
    answers = qgt.Answers(qgt.Spans(torch.tensor([16])), listed, torch.zeros(16).double(), torch.zeros(16).double())
    whole = replace(claim, evidence=replace(claim.evidence, alternatives=answers))
    assert not bool(qgt.check_claims(faced, y, whole).optimal)


@pytest.mark.parametrize(
    "prior",
    [
        qgt.Bernoulli([0.1, 0.0, 1.0, 0.3, 0.2, 0.1, 0.2, 0.3]),
        qgt.FixedWeight(2),
        qgt.UnknownRate(0.01, 0.3),
        qgt.UnknownLevel(qgt.Bernoulli(0.1), 0.5, 3.0),
        qgt.UnknownLevel(qgt.Households(size=3, seed_rate=0.2, attack_rate=0.5, background=0.02), 0.5, 3.0),
        qgt.Households(size=3, seed_rate=0.2, attack_rate=0.5, background=0.02),
        Control(),
    ],
)
def test_costs_agree_with_every_prior_and_noise_and_missing_counts(prior: qgt.Prior) -> None:
    g = torch.Generator().manual_seed(1)
    design = qgt.Design.bernoulli(pools=6, items=8, generator=g)
    noises: list[qgt.Noise] = [
        qgt.SparseInteger(0.2, 1),
        qgt.Outliers(qgt.PerPool([qgt.Gaussian(0.3), qgt.Reads(50, 0.01)] * 3), 0.05),
        qgt.PerPool([qgt.Binned([1, 3]), qgt.Saturating(2), qgt.PositiveNegative(0.9, 0.95)] * 2),
    ]
    for noise in noises:
        problem = qgt.Problem(design, prior, noise)
        y = problem.simulate(6, generator=g).y
        y[::2, 1] = torch.nan
        result = qgt.Certified().bind(problem)(y)
        assert bool((result.status == qgt.Status.PROVED).all())
        assert bool(qgt.check_certificate(problem, y, result).all())


# --- other claims ---------------------------------------------------------------------------------------------------


def test_the_log_joint_is_held_against_the_model() -> None:
    problem, y, result = solved()
    assert result.evidence.log_joint is not None
    torch.testing.assert_close(qgt.check_claims(problem, y, result).log_joint, result.evidence.log_joint)
    for change in (1e-4, -3.0, math.nan):
        log_joint = result.evidence.log_joint.clone()
        log_joint[4] += change
        changed = replace(result, evidence=replace(result.evidence, log_joint=log_joint))
        assert qgt.check_certificate(problem, y, changed).logical_not().nonzero().flatten().tolist() == [4]


# --- hostile files --------------------------------------------------------------------------------------------------


def packed(values: np.ndarray) -> Tensor:
    return torch.frombuffer(bytearray(lzma.compress(values.tobytes())), dtype=torch.uint8)


def hostile(path: Path, problem: qgt.Problem, y: Tensor, result: qgt.Decoded, leaves: int) -> None:
    """A small file of many leaves that hold every x and exclude nothing."""
    qgt.save_certificate(path, problem, y, result)
    with safe_open(path, "pt") as file:
        told = dict(file.metadata())
    tensors = load_file(path)
    ends = torch.zeros(len(y), dtype=torch.int64)
    ends[:] = leaves
    tensors["proof.ends"] = ends
    tensors["proof.fixed"] = packed(np.full((leaves, problem.items), FREE, dtype=np.int8))
    tensors["proof.least"] = packed(np.zeros(leaves, dtype=np.int32))
    tensors["proof.most"] = packed(np.full(leaves, problem.items, dtype=np.int32))
    tensors["proof.step"] = packed(np.full(leaves, 2, dtype=np.uint8))
    tensors["proof.pi"] = packed(np.zeros((problem.pools, leaves), dtype=np.int16))
    tensors["proof.exact"] = tensors["proof.exact_shares"] = packed(np.zeros(0, dtype=np.float32))
    tensors["proof.exact_shares"] = tensors["proof.exact_shares"].clone()
    shares = problem.design.transfers if json.loads(told["certificate"])["shares"] else 0
    tensors["proof.shares"] = packed(np.zeros((shares, leaves), dtype=np.int16))
    save_file(tensors, path, told)


def large() -> tuple[qgt.Problem, Tensor, qgt.Decoded]:
    g = torch.Generator().manual_seed(0)
    design = qgt.Design.column_regular(pools=60, items=2000, weight=3, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.002), qgt.SparseInteger(0.1, 1))
    y = problem.simulate(1, generator=g).y
    return problem, y, qgt.Certified(odds=1.0).bind(problem)(y)


def test_a_hostile_file_is_refused_in_little_memory(tmp_path: Path) -> None:
    """2,000 leaves of all numbers of defectives: eight billion entries, if all were looked at together."""
    problem, y, result = large()
    hostile(tmp_path / "proof", problem, y, result, 2000)
    problem.save(tmp_path / "problem.toml")
    code = f"""
import resource, torch, qgt
problem = qgt.Problem.load({str(tmp_path / "problem.toml")!r})
y = torch.tensor({y.tolist()!r}, dtype=torch.float64)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(qgt.check_certificate(problem, y, qgt.load_certificate({str(tmp_path / "proof")!r}, problem, y)).tolist())
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    limits = (3 * 2**30, 3 * 2**30)  # of address space: far more than is needed, and far less than all rows would take
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limits),
        env={"PATH": "", "PYTHONPATH": ":".join(sys.path), "OMP_NUM_THREADS": "1"},
    )
    verdict, peak = found.stdout.splitlines()
    assert verdict == "[False]"
    assert int(peak) < 600_000  # kilobytes


def test_a_small_file_is_not_unpacked_to_much_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certificate_file, "ALWAYS_UNPACKED", 2**24)  # the real limit takes long to exceed
    problem, y, result = large()
    path = tmp_path / "proof"
    hostile(path, problem, y, result, 10_000)
    assert path.stat().st_size < 2**24 / certificate_file.MOST_UNPACKED
    with pytest.raises(
        ValueError, match=r"is not a usable certificate: its 10,000 leaves take .* more than a proof has"
    ):
        qgt.load_certificate(path, problem, y)


@pytest.mark.parametrize(
    "ends",
    [
        [-1, 3, 5],
        [3, 2, 5],
        [2**62, -(2**63), 5],  # differences of these wrap round
        [-(2**63), -(2**63), -(2**63)],
        [2**63 - 1, 2**63 - 1, 2**63 - 1],
        [0, 0, 2**40],
        [0, 0, -5],
    ],
)
@pytest.mark.parametrize("name", ["proof.ends", "answers.ends"])
def test_malformed_ends_are_not_a_usable_certificate(tmp_path: Path, name: str, ends: list[int]) -> None:
    problem, y, result = solved(3)
    path = tmp_path / "proof"
    qgt.save_certificate(path, problem, y, result)
    with safe_open(path, "pt") as file:
        told = dict(file.metadata())
    tensors = load_file(path)
    tensors[name] = torch.tensor(ends)
    save_file(tensors, path, told)
    with pytest.raises(ValueError, match="is not a usable certificate"):
        qgt.load_certificate(path, problem, y)
