"""The exact decoder against enumeration: the same log joint on thousands of small problems, whatever the vectors."""

import math
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from qgt import (
    Bernoulli,
    Decoded,
    Design,
    ExactMAP,
    Exhaustive,
    FixedWeight,
    Noiseless,
    PerPool,
    Problem,
    SparseInteger,
    Status,
    score,
)
from qgt.decoders.highs import integer_program
from random_problems import NOISES, READINGS, THOROUGH, Case, Lopsided, case, model_case, some_of

PROBLEMS = some_of(1000)
MODELS = 2000 if THOROUGH else 100  # random models; the seeds tell nothing


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def assert_equals_enumeration(case: Case, note: object) -> Decoded:
    problem, y, status, log_joint = case
    exact = ExactMAP(workers=1).bind(problem)(y)
    assert torch.equal(exact.status, status), (note, exact.status, status)
    assert torch.equal(exact.evidence.log_joint, problem.log_joint(exact.x, y))
    proved = exact.status == Status.PROVED
    torch.testing.assert_close(
        exact.evidence.log_joint[proved], log_joint[proved], rtol=1e-12, atol=1e-6, msg=str(note)
    )
    assert exact.evidence.gap.tolist() == [0.0] * len(y)
    assert exact.x[~proved].sum() == 0
    return exact


@pytest.mark.usefixtures("unchecked")  # twice as fast
def test_it_equals_enumeration_on_random_problems():
    seen = torch.zeros(5, dtype=torch.int64)
    for seed in range(PROBLEMS):
        exact = assert_equals_enumeration(case(seed), seed)
        seen += torch.bincount(exact.status, minlength=5)
    assert seen[Status.PROVED] >= 0.75 * PROBLEMS
    assert seen[Status.INFEASIBLE] >= 0.075 * PROBLEMS  # a good part of the wrong counts


@pytest.mark.usefixtures("unchecked")  # twice as fast
def test_it_equals_enumeration_on_random_models():
    seen = torch.zeros(5, dtype=torch.int64)
    kinds: Counter[str] = Counter()
    for seed in range(MODELS):
        case = model_case(seed)
        exact = assert_equals_enumeration(case, seed)
        seen += torch.bincount(exact.status, minlength=5)
        prior, noise = case.problem.prior, case.problem.noise
        own = noise.noises if isinstance(noise, PerPool) else [noise]
        kinds.update({type(part).__name__ for part in (prior, noise, *own)})
    assert seen[Status.PROVED] >= 0.7 * MODELS
    assert seen[Status.INFEASIBLE] >= 0.02 * MODELS
    assert len(kinds) == 10
    assert min(kinds.values()) >= MODELS / 5, kinds


def without_relaxation(program, costs, deadline=None):
    pools = program.matrix.shape[0]
    return integer_program.Relaxation(
        program.lower.copy(), np.zeros((integer_program.SETS, pools)), integer_program.ProgramOutcome.UNPROVED
    )


def test_the_search_alone_equals_enumeration(monkeypatch):
    # Most small problems are proved by the relaxation; here none is, so that every encoding is searched.
    monkeypatch.setattr(integer_program, "relax", without_relaxation)
    monkeypatch.setattr(integer_program, "meets", lambda cost, bound: False)
    for seed in range(PROBLEMS, PROBLEMS + some_of(30) * len(NOISES)):
        assert_equals_enumeration(case(seed), seed)
    for seed in range(MODELS, MODELS + some_of(15) * len(READINGS)):
        assert_equals_enumeration(model_case(seed), seed)


@pytest.mark.parametrize("noise", NOISES, ids=str)
def test_it_equals_enumeration_where_the_counts_say_little(noise):
    # Twelve items, four pools: the relaxation is loose and the search has to narrow the choice.
    problem = Problem(
        Design.bernoulli(pools=4, items=12, generator=generator(1)),
        Bernoulli(torch.linspace(0.1, 0.5, 12, dtype=torch.float64)),
        noise,
    )
    y = problem.simulate(8, generator=generator(2)).y
    every = Exhaustive().bind(problem)(y)
    assert_equals_enumeration(Case(problem, y, every.status, every.evidence.log_joint), noise)


def test_at_the_papers_size_it_finds_the_truth():
    problem = Problem(
        Design.bernoulli(pools=35, items=100, generator=generator(3)),
        Bernoulli(0.06),
        SparseInteger(rate=0.06, bound=1),
    )
    x, y = problem.simulate(30, generator=generator(4))
    result = ExactMAP(time_limit=20.0).bind(problem)(y)
    assert bool((result.evidence.log_joint >= problem.log_joint(x, y) - 1e-6).all())
    assert score(x, result.x).success_rate > 0.9


def test_counts_that_no_x_explains_are_infeasible():
    problem = Problem(Design.from_rows(["110", "110", "011"]), Bernoulli(0.3), SparseInteger(rate=0.1, bound=1))
    y = torch.tensor([[0, 2, 1], [0, 3, 1], [-2, 0, 0], [0.5, 0, 0], [1, 1, 1]], dtype=torch.float64)
    result = ExactMAP().bind(problem)(y)
    # One error each explains the first; nothing explains two equal pools that differ by three.
    assert [Status(status).name for status in result.status.tolist()] == [
        "PROVED",
        "INFEASIBLE",
        "INFEASIBLE",
        "INFEASIBLE",
        "PROVED",
    ]
    assert result.x[1:4].sum() == 0
    assert result.evidence.log_joint[1:4].tolist() == [-math.inf] * 3


def test_contradicting_pools_are_infeasible_even_where_each_alone_is_possible():
    # Only whole items contradict: the relaxation of the second problem is x = (1/2, 1/2, 1/2).
    for rows, y in ((["110", "110"], [1.0, 2.0]), (["110", "011", "101"], [1.0, 1.0, 1.0])):
        problem = Problem(Design.from_rows(rows), Bernoulli(0.3))
        counts = torch.tensor([y], dtype=torch.float64)
        assert bool(problem.explainable(counts).all())
        assert ExactMAP().bind(problem)(counts).status.tolist() == [Status.INFEASIBLE]


def test_known_items_and_known_numbers_are_kept():
    design = Design.bernoulli(pools=3, items=8, generator=generator(5))
    rates = [0.0, 1.0, 0.4, 0.4, 0.4, 1.0, 0.0, 0.4]
    y = torch.tensor([[0, 0, 0], [5, 5, 5]], dtype=torch.float64)
    calls = ExactMAP().bind(Problem(design, Bernoulli(rates), SparseInteger(rate=0.5, bound=8)))(y).x
    assert calls[:, [0, 6]].sum() == 0
    assert calls[:, [1, 5]].sum() == 4
    for k in (0, 3, 8):
        calls = ExactMAP().bind(Problem(design, FixedWeight(k), SparseInteger(rate=0.5, bound=8)))(y).x
        assert calls.sum(1).tolist() == [k, k]


@pytest.fixture(scope="module")
def hard() -> tuple[Problem, torch.Tensor]:
    """Counts that leave much open."""
    design = Design.bernoulli(pools=18, items=80, generator=generator(6))
    problem = Problem(design, Bernoulli(0.1), SparseInteger(rate=0.2, bound=2))
    return problem, problem.simulate(4, generator=generator(7)).y


@pytest.mark.parametrize("limit", [1e-9, 0.01, 0.2])
def test_out_of_time_is_said_and_the_best_found_is_kept(hard, limit):
    problem, y = hard
    result = ExactMAP(time_limit=limit).bind(problem)(y)
    assert set(result.status.tolist()) <= {Status.TIME_LIMIT, Status.PROVED}
    late = result.status == Status.TIME_LIMIT
    assert bool(late.any())
    assert bool((result.evidence.gap[late] > 0).all())
    assert torch.equal(result.evidence.log_joint, problem.log_joint(result.x, y))
    without = torch.isinf(result.evidence.log_joint)
    assert result.x[without].sum() == 0


def test_a_limited_search_never_claims_what_is_not_so():
    for seed in range(0, 300, 3):
        problem, y, _, best = case(seed)
        for limit in (1e-9, 1e-3):
            result = ExactMAP(time_limit=limit, workers=1).bind(problem)(y)
            proved = result.status == Status.PROVED
            torch.testing.assert_close(result.evidence.log_joint[proved], best[proved], rtol=1e-12, atol=1e-6)
            open_ = result.evidence.gap < torch.inf
            assert bool((result.evidence.log_joint + result.evidence.gap >= best - 1e-6)[open_].all())


def test_the_number_of_workers_changes_nothing():
    problem = Problem(Design.bernoulli(pools=8, items=20, generator=generator(8)), Bernoulli(0.2), Lopsided())
    y = problem.simulate(8, generator=generator(9)).y
    alone = ExactMAP(workers=1).bind(problem)(y)
    for number in (2, 3):
        result = ExactMAP(workers=number).bind(problem)(y)
        assert torch.equal(result.x, alone.x)
        assert torch.equal(result.status, alone.status)
        assert torch.equal(result.evidence.log_joint, alone.evidence.log_joint)


def test_an_answer_that_fails_the_recheck_is_not_proved(monkeypatch):
    def boastful(program, costs, time_limit):
        return integer_program.Solution(
            np.array([1, 0, 0], dtype=np.uint8), 0.5, 0.5, integer_program.ProgramOutcome.PROVED
        )

    monkeypatch.setattr(integer_program, "solve", boastful)
    problem = Problem(Design.from_rows(["110", "011"]), Bernoulli(0.3))
    result = ExactMAP(workers=1).bind(problem)(torch.tensor([[1.0, 0.0], [1.0, 1.0]], dtype=torch.float64))
    assert result.status.tolist() == [Status.OK, Status.OK]  # the first is possible but costs more, the second is not


def test_a_wrong_optimum_of_the_solver_is_not_proved(monkeypatch):
    # SciPy issue 24141: HiGHS may call an answer optimal that breaks its own rows.
    import scipy.optimize

    milp = scipy.optimize.milp

    def broken(*arguments, **options):
        result = milp(*arguments, **options)
        result.x = 1 - result.x
        return result

    monkeypatch.setattr(integer_program, "relax", without_relaxation)
    monkeypatch.setattr(scipy.optimize, "milp", broken)
    problem = Problem(Design.from_rows(["110", "011"]), Bernoulli(0.3))
    result = ExactMAP(workers=1).bind(problem)(torch.tensor([[1.0, 1.0]], dtype=torch.float64))
    assert result.status.tolist() == [Status.OK]


@dataclass(frozen=True)
class Parity:
    """A prior that is no sum: all items are equally likely, but an even number of them is defective."""

    def sample(self, instances, items, *, generator):
        x = torch.randint(0, 2, (instances, items), generator=generator, dtype=torch.uint8)
        x[:, 0] = x[:, 1:].sum(1) % 2
        return x

    def marginals(self, items):
        return torch.full((items,), 0.5, dtype=torch.float64)

    def log_prob(self, x):
        return torch.where(x.sum(1) % 2 == 0, 0.0, -torch.inf).double() - (x.shape[1] - 1) * math.log(2.0)


def test_what_it_cannot_use_is_refused_with_the_reason():
    problem = Problem(Design.from_rows(["11"]), Parity())
    assert "Parity is not a sum over items and groups" in ExactMAP().supports(problem)
    with pytest.raises(ValueError, match=r"^ExactMAP cannot decode this problem: .*Exhaustive takes any"):
        ExactMAP().bind(problem)
    for wrong in ({"time_limit": 0.0}, {"time_limit": -1.0}, {"workers": 0}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))}="):
            ExactMAP(**wrong)


def test_no_instances_and_one_item():
    problem = Problem(Design.from_rows(["1"]), Bernoulli(0.5), Noiseless())
    assert ExactMAP().bind(problem)(torch.zeros(0, 1, dtype=torch.float64)).x.shape == (0, 1)
    result = ExactMAP().bind(problem)(torch.tensor([[0.0], [1.0]], dtype=torch.float64))
    assert result.x.tolist() == [[0], [1]]


def test_the_registry_does_not_need_scipy():
    script = "import sys, qgt; qgt.DECODERS['exact'](); print([m for m in sys.modules if m.startswith('scipy')])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_highs_runs_without_presolve_whose_repairs_print_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """HiGHS 1.12 prints whenever it repairs an answer of a presolved program, and no option turns that off."""
    import scipy.optimize

    import qgt

    seen, milp = [], scipy.optimize.milp

    def spied(*args: object, options: dict[str, object], **kwargs: object) -> object:
        seen.append(options)
        return milp(*args, options=options, **kwargs)

    monkeypatch.setattr(scipy.optimize, "milp", spied)
    g = torch.Generator().manual_seed(0)
    design = qgt.Design.column_regular(pools=14, items=40, weight=4, generator=g)
    problem = qgt.Problem(design, qgt.Bernoulli(0.1), qgt.PositiveNegative(0.9, 0.95))
    qgt.ExactMAP(workers=1).bind(problem)(problem.simulate(20, generator=g).y)
    assert seen
    assert all(options["presolve"] is False for options in seen)
