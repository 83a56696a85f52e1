"""LoadPosterior against brute force: every set, loads integrated on a fine grid."""

import itertools
import math

import pytest
import torch
from torch import Tensor

import qgt
from qgt.decoders.loads import posterior
from qgt.decoders.loads.evidence import NONE, Plates, PositiveSets
from qgt.decoders.loads.search import candidates
from qgt.lab.verdicts import Call

NODES = 24  # of the oracle's grid, for each load
PRIORS = {
    "independent": qgt.Bernoulli(0.3),
    "households": qgt.Households(size=2, seed_rate=0.3, attack_rate=0.8, background=0.1),
    "unknown rate": qgt.UnknownRate(0.05, 0.6),
    "one known": qgt.Bernoulli([1.0, 0.2, 0.0, 0.2]),
}
NOISES = {
    "cycles": qgt.CycleThreshold(sigma=0.5, limit=37.0),
    "background": qgt.CycleThreshold(0.4, limit=36.0, background=3.0, background_sigma=1.0, dropout=0.05, dilution=1.0),
    "amount": qgt.Amount(relative=0.3, absolute=2.0),
    "limit": qgt.Amount(relative=0.4, limit=3.0),
    "normal": qgt.Gaussian(sigma=5.0, growth=0.2),
}


def brute_force(problem: qgt.Problem, y: Tensor) -> dict[tuple[int, ...], float]:
    """The log evidence of every set of positives for one instance."""
    loads, design = problem.loads, problem.design
    assert loads is not None
    low, high = loads.span
    step = (high - low) / NODES
    logs = low + step * (torch.arange(NODES, dtype=torch.float64) + 0.5)
    weight = loads.log_density(logs) + math.log(step)
    matrix, sizes, missing = design.matrix.double(), design.pool_sizes.double(), y.isnan()
    found = {}
    for x in itertools.product((0, 1), repeat=problem.items):
        who = [j for j, one in enumerate(x) if one]
        points = torch.cartesian_prod(*[logs] * len(who)).view(-1, len(who)) if who else torch.zeros(1, 0)
        mass = torch.cartesian_prod(*[weight] * len(who)).view(-1, len(who)).sum(1) if who else torch.zeros(1)
        totals = 10.0 ** points.double() @ matrix[:, who].T
        each = problem.noise.log_prob(torch.where(missing, 0.0, y), totals, sizes)
        prior = float(loads.statuses().log_prob(torch.tensor([x], dtype=torch.uint8)))
        found[x] = prior + float((mass + torch.where(missing, 0.0, each).sum(1)).logsumexp(0))
    return found


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("prior", PRIORS)
def test_probabilities_are_those_of_brute_force(prior: str, noise: str) -> None:
    generator = torch.Generator().manual_seed(len(prior) * 7 + len(noise))
    matrix = (torch.rand(4, 4, generator=generator) < 0.55).to(torch.uint8)
    matrix[0] = 1
    loads = qgt.Loads(prior=PRIORS[prior], mean=1.5, sd=0.8, low=0.0, high=3.0)
    problem = qgt.Problem(qgt.Design.from_matrix(matrix), loads, NOISES[noise])
    y = problem.simulate(2, generator=generator).y
    y[1, 1] = math.nan
    result = qgt.LoadPosterior().bind(problem)(y)
    confidence, marginals = result.evidence.confidence, result.evidence.marginals
    assert confidence is not None and marginals is not None and result.evidence.log_joint is not None
    for i in range(2):
        evidence = brute_force(problem, y[i])
        sets, logs = list(evidence), torch.tensor(list(evidence.values()), dtype=torch.float64)
        share = logs.softmax(0)
        answer = sets.index(tuple(result.x[i].tolist()))
        assert float(share[answer]) > float(share.max()) - 0.02  # the best, or as good
        assert float(result.evidence.log_joint[i]) == pytest.approx(float(logs[answer]), abs=0.05)
        assert float(confidence[i]) == pytest.approx(float(share[answer]), abs=0.02)
        expected = share @ torch.tensor(sets, dtype=torch.float64)
        assert torch.allclose(marginals[i], expected, atol=0.02)


def plate(noise: qgt.Noise, **loads: float) -> qgt.Problem:
    return qgt.Problem(qgt.Design.steiner_triples(pools=13, items=24), qgt.Loads(rate=0.06, **loads), noise)


def test_answers_and_amounts_of_a_plate() -> None:
    """Sets are right as often as the confidence says, and nine of ten true amounts lie within 90 % intervals."""
    problem = plate(qgt.CycleThreshold(sigma=0.25, limit=38.0), mean=3.0, sd=1.2)
    x, y = problem.simulate(60, generator=torch.Generator().manual_seed(0))
    result = qgt.LoadPosterior().bind(problem)(y)
    right = (result.x == (x > 0)).all(1)
    confidence, interval = result.evidence.confidence, result.evidence.interval
    assert confidence is not None and interval is not None and result.amounts is not None
    # A decoder that learned nothing would have .94^24 = .23 of plates right: those without a positive.
    assert float(right.double().mean()) > 0.85
    assert abs(float(confidence.mean() - right.double().mean())) < 0.08
    called = (result.x > 0) & (x > 0)
    inside = (interval[..., 0] <= x) & (x <= interval[..., 1])
    assert 0.8 < float(inside[called].double().mean()) < 0.98
    ratio = (result.amounts / x)[called].log10()
    assert float(ratio.abs().median()) < 0.1
    assert bool((result.amounts[result.x == 0] == 0).all())


def test_a_weak_positive_under_a_strong_one_is_in_doubt() -> None:
    """Sample 1 is in one pool, which sample 0 floods: nothing can be said about sample 1 beyond the prior."""
    design = qgt.Design.from_rows(["110", "100", "001"])
    problem = qgt.Problem(design, qgt.Loads(rate=0.1, mean=2.0, sd=1.0), qgt.CycleThreshold(sigma=0.25, limit=40.0))
    noise = problem.noise
    y = torch.tensor([[20.0, 20.0, math.inf]], dtype=torch.float64)
    marginals = qgt.LoadPosterior().bind(problem)(y).evidence.marginals
    assert marginals is not None and noise is not None
    assert float(marginals[0, 0]) > 0.999
    assert 0.05 < float(marginals[0, 1]) < 0.12
    assert float(marginals[0, 2]) < 0.01


def test_below_the_limit_of_detection_a_negative_pool_says_little() -> None:
    """With loads around the limit an item of negative pools keeps a good part of its prior probability."""
    problem = qgt.Problem(
        qgt.Design.from_rows(["1"]), qgt.Loads(rate=0.2, mean=0.0, sd=1.0), qgt.CycleThreshold(sigma=0.3, limit=37.0)
    )
    marginals = qgt.LoadPosterior().bind(problem)(torch.tensor([[math.inf]], dtype=torch.float64)).evidence.marginals
    assert marginals is not None
    assert float(marginals[0, 0]) == pytest.approx(0.2 * 0.5 / (0.2 * 0.5 + 0.8), abs=0.005)  # half are not detected


def test_screening_keeps_what_is_positive() -> None:
    problem = plate(qgt.CycleThreshold(sigma=0.25, limit=38.0), mean=3.0, sd=1.2, low=0.0)
    x, y = problem.simulate(100, generator=torch.Generator().manual_seed(1))
    assert problem.loads is not None
    costs = qgt.Bernoulli(0.06).costs(problem.items)
    kept = candidates(Plates.of(problem, problem.loads, costs, y))
    for i in range(100):
        assert set((x[i] > 0).nonzero()[:, 0].tolist()) <= set(kept[i].tolist())
    assert float((kept != NONE).sum(1).double().mean()) < 12


def test_the_truth_is_not_missed() -> None:
    """No set that was not found, the true one above all, is more probable than the answer."""
    problem = plate(qgt.Amount(relative=0.07), mean=3.0, sd=1.2)
    x, y = problem.simulate(80, generator=torch.Generator().manual_seed(2))
    assert problem.loads is not None
    result = qgt.LoadPosterior().bind(problem)(y)
    plates = Plates.of(problem, problem.loads, qgt.Bernoulli(0.06).costs(problem.items), y)
    places = max(1, int((x > 0).sum(1).max()))
    order = x.argsort(dim=1, descending=True)[:, :places]
    amounts = x.gather(1, order)
    logs = torch.where(amounts > 0, amounts, 1.0).log10()
    truth = plates.fit(PositiveSets(torch.arange(80), torch.where(amounts > 0, order, NONE), logs))
    assert result.evidence.alternatives is not None and result.evidence.log_joint is not None
    assert bool((truth.evidence <= result.evidence.log_joint + 0.3).all())


def test_a_missing_report_is_left_out() -> None:
    problem = plate(qgt.CycleThreshold(sigma=0.25, limit=38.0), mean=3.0, sd=1.2)
    y = problem.simulate(4, generator=torch.Generator().manual_seed(3)).y
    y[:, 5] = math.nan
    rest = [i for i in range(13) if i != 5]
    without = qgt.Problem(qgt.Design.from_matrix(problem.design.matrix[rest]), problem.prior, problem.noise)
    a, b = qgt.LoadPosterior().bind(problem)(y), qgt.LoadPosterior().bind(without)(y[:, rest])
    assert a.evidence.confidence is not None and b.evidence.confidence is not None
    assert bool((a.x == b.x).all())
    assert torch.allclose(a.evidence.confidence, b.evidence.confidence, atol=0.01)


def test_an_unexplained_plate_is_no_all_clear() -> None:
    """Pool 1 is positive, and none of its samples can be: no sample may be called negative, calibrated or not."""
    design = qgt.Design.from_rows(["11000", "01100", "00110", "00011"])
    loads = qgt.Loads(rate=[0.0, 0.0, 0.005, 0.005, 0.005], mean=3.0, sd=1.0, low=1.0)
    problem = qgt.Problem(design, loads, qgt.CycleThreshold(sigma=0.25, limit=38.0))
    y = torch.tensor([[25.0, math.inf, math.inf, math.inf]], dtype=torch.float64)
    result = qgt.LoadPosterior().bind(problem)(y)
    assert result.status.tolist() == [qgt.Status.NOT_CONVERGED]
    assert result.evidence.confidence is not None and float(result.evidence.confidence) == 0.0
    assert result.evidence.alternatives is not None and float(result.evidence.alternatives.probability.sum()) == 0.0
    for judged in (result, qgt.Calibrated(qgt.LoadPosterior(), seconds=5.0, simulations=30).bind(problem)(y)):
        (account,) = qgt.accounts(problem, y, None, judged)
        assert {str(one.call) for one in account.calls} == {"none"}


def test_a_list_that_is_not_complete_calls_nobody_negative() -> None:
    problem = plate(qgt.CycleThreshold(sigma=0.25, limit=38.0), mean=3.0, sd=1.2)
    x, y = problem.simulate(60, generator=torch.Generator().manual_seed(4))
    some = ((x > 0).sum(1) >= 3).nonzero()[:4, 0]
    result = qgt.LoadPosterior(most_sets=1).bind(problem)(y[some])
    complete, marginals = result.evidence.complete, result.evidence.marginals
    assert complete is not None and marginals is not None and not bool(complete.all())
    assert bool(marginals[~complete].isnan().all())
    for account, whole in zip(qgt.accounts(problem, y[some], None, result), complete.tolist(), strict=True):
        assert whole or not account.called(Call.NEGATIVE)


def test_statuses_are_left_to_other_decoders() -> None:
    problem = qgt.Problem(qgt.Design.from_rows(["11"]), qgt.Bernoulli(0.1), qgt.Noiseless())
    assert "Certified" in str(qgt.LoadPosterior().supports(problem))
    with pytest.raises(ValueError, match=r"odds=0\.5"):
        qgt.LoadPosterior(odds=0.5)


def test_a_batch_is_decoded_in_parts_where_memory_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = qgt.Problem(
        qgt.Design.column_regular(pools=8, items=16, weight=3, generator=torch.Generator().manual_seed(2)),
        qgt.Loads(rate=0.1, mean=3.0, sd=1.0),
        qgt.CycleThreshold(0.25),
    )
    y = problem.simulate(7, generator=torch.Generator().manual_seed(3)).y
    decode, whole, sizes = qgt.LoadPosterior().bind(problem), posterior._decoded, []
    expected = decode(y)

    def with_little_memory(options: qgt.LoadPosterior, plates: Plates) -> qgt.Decoded:
        sizes.append(len(plates))
        if len(plates) > most:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return whole(options, plates)

    monkeypatch.setattr(posterior, "_decoded", with_little_memory)
    monkeypatch.setattr(posterior, "MOST_PLATES", 5)
    most = 2
    result = decode(y)
    assert sizes == [5, 3, 2, 1, 2, 2]
    assert torch.equal(result.x, expected.x) and result.amounts is not None and expected.amounts is not None
    torch.testing.assert_close(result.amounts, expected.amounts, rtol=0.05, atol=0.0)
    most = 0
    with pytest.raises(torch.OutOfMemoryError):
        decode(y)
