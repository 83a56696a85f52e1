"""Loads: laws that sum to one, draws that follow them, and what is refused."""

import math
from collections.abc import Callable

import pytest
import torch
from scipy import stats

import qgt
from qgt.model.loads import as_statuses, detects_nothing, log_totals

NOISES = (
    qgt.CycleThreshold(sigma=0.4, limit=36.0),
    qgt.CycleThreshold(sigma=0.4),
    qgt.CycleThreshold(sigma=0.3, limit=35.0, background=5.0, background_sigma=0.6, dropout=0.1, dilution=1.0),
    qgt.Amount(relative=0.2),
    qgt.Amount(absolute=3.0),
    qgt.Amount(relative=0.2, absolute=3.0, dilution=0.5),
    qgt.Amount(relative=0.3, absolute=1.0, limit=4.0),
    qgt.Amount(relative=0.3, limit=4.0),
)
TOTALS = (0.0, 0.7, 12.0, 5000.0)
SIZE = torch.tensor(8.0, dtype=torch.float64)


def drawn(noise: qgt.Noise, total: float, number: int = 4000) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return noise.sample(torch.full((number, 1), total, dtype=torch.float64), SIZE[None], generator=generator)[:, 0]


def mass_between(noise: qgt.Noise, total: float, low: float, high: float) -> float:
    """The density added up between two reports, by fine steps that are even or even in the logarithm."""
    where = torch.linspace(low, high, 200_001, dtype=torch.float64)
    density = noise.log_prob(where, torch.tensor(total, dtype=torch.float64), SIZE).exp()
    return float(torch.trapezoid(density, where))


@pytest.mark.parametrize("total", TOTALS)
@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_reports_follow_their_law(noise: qgt.Noise, total: float) -> None:
    """Half of all draws lie below the draws' median by the law too, and the atom has its probability."""
    y = drawn(noise, total)
    atom = math.inf if detects_nothing(noise) else 0.0
    share = float((y == atom).double().mean())
    stated = float(noise.log_prob(torch.tensor(atom, dtype=torch.float64), torch.tensor(total).double(), SIZE).exp())
    has_atom = share > 0 or detects_nothing(noise) or noise.limit > 0  # type: ignore[attr-defined]
    if has_atom:
        assert stats.binomtest(round(share * len(y)), len(y), min(1.0, stated)).pvalue > 1e-4
    seen = y[y != atom]
    if len(seen) > 400:
        middle, low, high = float(seen.median()), float(seen.min()), float(seen.max())
        below = mass_between(noise, total, low - 3 * (middle - low), middle)
        assert below == pytest.approx((1 - share) / 2, abs=0.03)
        assert mass_between(noise, total, low - (high - low), high + (high - low)) == pytest.approx(1 - share, abs=0.02)


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_the_usual_report_is_the_middle_of_the_law(noise: qgt.Noise) -> None:
    y = drawn(noise, 5000.0)
    usual = float(noise.usual_report(torch.tensor(5000.0).double(), SIZE))  # type: ignore[attr-defined]
    assert float(y[y < math.inf].median()) == pytest.approx(usual, rel=0.02)


@pytest.mark.parametrize(
    "loads",
    [
        qgt.Loads(rate=1.0, mean=2.9, sd=1.9),
        qgt.Loads(rate=1.0, mean=2.9, sd=1.9, low=1.0, high=4.0),
        qgt.Loads(rate=1.0, values=[0.5, 1.0, 1.1, 3.0, 6.0]),
    ],
    ids=("normal", "cut off", "measured"),
)
def test_amounts_follow_their_density(loads: qgt.Loads) -> None:
    logs = loads.sample(400, 10, generator=torch.Generator().manual_seed(0)).log10().flatten()
    low, high = loads.span
    assert low <= float(logs.min()) and float(logs.max()) <= high
    where = torch.linspace(low, high, 20_001, dtype=torch.float64)
    up_to = torch.cumulative_trapezoid(loads.log_density(where).exp(), where)
    assert float(up_to[-1]) == pytest.approx(1.0, abs=1e-3)
    uniform = up_to[torch.searchsorted(where, logs).clamp(max=len(up_to) - 1)]
    assert stats.kstest(uniform.numpy(), "uniform").pvalue > 1e-3


def test_outside_its_span_an_amount_is_impossible() -> None:
    loads = qgt.Loads(rate=0.1, mean=2.0, sd=1.0, low=1.0)
    assert loads.log_density(torch.tensor([0.99], dtype=torch.float64)) == -math.inf


def test_who_is_positive_follows_any_prior() -> None:
    loads = qgt.Loads(prior=qgt.Households(size=4, seed_rate=0.2, attack_rate=1.0), mean=2.0, sd=1.0)
    x = loads.sample(200, 8, generator=torch.Generator().manual_seed(0))
    numbers = (x.view(200, 2, 4) > 0).sum(2)
    assert set(numbers.flatten().tolist()) == {0, 4}
    one = as_statuses(x)
    assert one.dtype == torch.uint8 and bool((one == (x > 0)).all())


def test_the_log_probability_is_of_who_and_how_much() -> None:
    loads = qgt.Loads(rate=0.25, mean=1.0, sd=2.0)
    x = torch.tensor([[0.0, 100.0]], dtype=torch.float64)
    expected = math.log(0.75 * 0.25) + stats.norm(1.0, 2.0).logpdf(2.0)
    assert float(loads.log_prob(x)) == pytest.approx(expected, abs=1e-6)


def test_a_problem_of_loads_goes_through_its_file(tmp_path: object) -> None:
    problem = qgt.Problem(
        qgt.Design.steiner_triples(pools=9),
        qgt.Loads(rate=[0.1] * 12, values=[1.0, 2.5, 3.0]),
        qgt.CycleThreshold(sigma=0.25, intercept=37.0, slope=-3.32, limit=38.0, background=2.0),
    )
    problem.save(f"{tmp_path}/problem.toml")
    assert qgt.Problem.load(f"{tmp_path}/problem.toml").fingerprint == problem.fingerprint


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: qgt.Loads(mean=1.0, sd=1.0), "rate=None and prior=None"),
        (lambda: qgt.Loads(rate=0.1, prior=qgt.Bernoulli(0.1), mean=1.0, sd=1.0), "give one of the two"),
        (lambda: qgt.Loads(rate=0.1, mean=1.0), "mean=1.0 and sd=None"),
        (lambda: qgt.Loads(rate=0.1, mean=1.0, sd=-1.0), "sd=-1.0"),
        (lambda: qgt.Loads(rate=0.1, mean=1.0, sd=1.0, low=3.0, high=2.0), "low=3.0 and high=2.0"),
        (lambda: qgt.Loads(rate=0.1, values=[1.0]), "two or more"),
        (lambda: qgt.Loads(rate=0.1, values=[1.0, math.nan]), r"values\[1\]=nan"),
        (lambda: qgt.Loads(rate=0.1, values=[1.0, 1.0]), "amounts that differ"),
        (lambda: qgt.Loads(rate=0.1, values=[1.0, 2.0], mean=1.0), "either of the two"),
        (lambda: qgt.Loads(rate=1.5, mean=1.0, sd=1.0), "rate=1.5"),
        (lambda: qgt.Loads.from_values([3.0, 0.0], rate=0.1), r"amounts\[1\]=0.0"),
        (lambda: qgt.CycleThreshold(sigma=0.0), "sigma=0.0"),
        (lambda: qgt.CycleThreshold(sigma=0.2, slope=3.3), "slope=3.3"),
        (lambda: qgt.CycleThreshold(sigma=0.2, dropout=2.0), "dropout=2.0"),
        (lambda: qgt.Amount(), "relative=0 and absolute=0"),
        (lambda: qgt.Amount(relative=-1.0), "relative=-1.0"),
    ],
)
def test_bad_arguments_are_refused_by_name(make: Callable[[], object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        make()


def test_a_noise_of_whole_numbers_is_refused_for_amounts() -> None:
    with pytest.raises(ValueError, match="CycleThreshold or Amount"):
        qgt.Problem(qgt.Design.from_rows(["11"]), qgt.Loads(rate=0.1, mean=1.0, sd=1.0), qgt.Noiseless())


def test_reports_that_no_total_explains_are_found() -> None:
    design = qgt.Design.from_rows(["110", "011"])
    problem = qgt.Problem(design, qgt.Loads(rate=0.1, mean=1.0, sd=1.0), qgt.CycleThreshold(sigma=0.2, limit=38.0))
    y = torch.tensor([[30.0, math.inf], [39.0, 30.0], [math.nan, 30.0]], dtype=torch.float64)
    assert problem.explainable(y).tolist() == [True, False, True]


def takes_statuses(kind: type[qgt.Decoder]) -> bool:
    """Whether a decoder is made for statuses: the easiest problem of counts without errors is enough to tell."""
    return kind().supports(qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.1))) is None


@pytest.mark.parametrize("name", [name for name, kind in qgt.DECODERS.items() if takes_statuses(kind)])
def test_decoders_of_statuses_refuse_loads(name: str) -> None:
    problem = qgt.Problem(
        qgt.Design.steiner_triples(pools=9), qgt.Loads(rate=0.1, mean=1.0, sd=1.0), qgt.CycleThreshold(sigma=0.2)
    )
    decoder = qgt.DECODERS[name]()
    if name in ("comp", "dd", "scomp"):
        assert decoder.supports(problem) is None  # whether a pool is positive is all they ask
    else:
        assert decoder.supports(problem)


@pytest.mark.parametrize(
    "loads",
    [
        qgt.Loads(rate=0.5, mean=2.9, sd=1.9),
        qgt.Loads(rate=0.5, mean=2.9, sd=1.9, low=2.0, high=4.0),
        qgt.Loads(rate=0.5, values=[1.0, 2.0, 2.5, 5.0]),
    ],
    ids=repr,
)
def test_moments_are_those_of_the_draws(loads: qgt.Loads) -> None:
    x = loads.sample(20_000, 10, generator=torch.Generator().manual_seed(0))
    logs = x[x > 0].log10()
    mean, sd = loads.moments
    error = sd / math.sqrt(len(logs))
    assert float(logs.mean()) == pytest.approx(mean, abs=5 * error)
    assert float(logs.std()) == pytest.approx(sd, abs=5 * error)


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_log_totals_rise_with_the_total_and_end_at_its_logarithm(noise: qgt.Noise) -> None:
    totals = torch.logspace(-1, 9, 60, dtype=torch.float64)[:, None]
    y = noise.usual_report(totals, SIZE[None])
    found = log_totals(noise, y, SIZE[None])
    seen = found[found > -math.inf]
    assert bool((seen.diff() > 0).all())
    assert float(found[-1]) == pytest.approx(9.0, abs=1e-6)
    nothing = torch.tensor([[noise.not_detected]], dtype=torch.float64)
    expected = isinstance(noise, qgt.CycleThreshold) or bool(noise.limit) or not noise.absolute
    assert (float(log_totals(noise, nothing, SIZE[None])) == -math.inf) == expected
