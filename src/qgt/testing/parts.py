"""The conformance suite for priors and noises: what a model's parts, ours or a stranger's, must do.

    qgt.testing.check_prior(MyPrior(), items=8)
    qgt.testing.check_noise(MyNoise())

A decoder believes its problem. A prior whose `costs` differ from its `log_prob`, or a noise whose samples do not follow
its `log_prob`, gives wrong answers that nobody notices, and proofs of them. These checks try every x of a few items,
and every report of a few pools. Samples are held against probabilities by bounds that a right part exceeds once in 10^9
runs (Bernstein's inequality for numbers of draws, that of Dvoretzky, Kiefer and Wolfowitz for distribution functions,
each shared out among all that is looked at). A wrong part is caught where it differs by more than that: with 50,000
draws, by about 0.015 in a probability of one half and 0.002 in one of 0.01.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from qgt.model.categories import Categories, Copies
from qgt.model.design import Design
from qgt.model.factors import pool_costs
from qgt.model.loads import Loads
from qgt.model.noise import Noise, PerCategory, Reports, by_pool, reports_of, usual_reports
from qgt.model.prior import FREE, FactoredPrior, ItemCosts, Prior, Sampler
from qgt.testing.checks import Conformance, NotApplicable, run_checks

DRAWS = 50_000  # samples that probabilities are held against
RARE = 1e-9  # how often a right part fails a check of its samples
TINY = 1e-12  # the tail that a noise is asked to leave out when all its reports are added up
EXACT = 1e-9  # by which sums of exact probabilities may be off
INTEGRAL = 1e-3  # by which the integral of a density over a grid may be off
MOST_ITEMS = 14
SIZES = (0, 1, 2, 5)  # of pools
POINTS = 20_001  # of a density's grid, on either side of a center


# --- priors ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PriorTrial:
    """A prior, all x of its items, and samples."""

    prior: Sampler
    items: int

    @property
    def x(self) -> Tensor:
        """Every x: (2^items, items)."""
        return (torch.arange(2**self.items)[:, None] >> torch.arange(self.items) & 1).to(torch.uint8)

    def sample(self, instances: int, seed: int = 1) -> Tensor:
        """The same samples at every call."""
        return self.prior.sample(instances, self.items, generator=torch.Generator().manual_seed(seed))

    @property
    def known(self) -> Prior:
        """The prior, where it can be computed with."""
        if not isinstance(self.prior, Prior):
            raise NotApplicable("it can only be sampled: it has no `marginals` and `log_prob`")
        return self.prior

    @property
    def probability(self) -> Tensor:
        """Of every x."""
        return self.known.log_prob(self.x).exp()

    @property
    def costs(self) -> ItemCosts:
        """The prior as costs, where it is such a sum."""
        if not isinstance(self.prior, FactoredPrior):
            raise NotApplicable("it has no `costs`: it is not a sum over items and groups")
        return self.prior.costs(self.items)


PriorCheck = Callable[[PriorTrial], None]
PRIOR_CHECKS: dict[str, PriorCheck] = {}


def check_prior(prior: Sampler, *, items: int = 8) -> Conformance:
    """Put a prior through every check; raise a ConformanceError that names all failures.

    `items` is how many items to try it with, at most 14; give it for a prior that is tied to a number of items.

    Example:
        >>> import qgt, qgt.testing
        >>> result = qgt.testing.check_prior(qgt.Households(size=3, seed_rate=0.1, attack_rate=0.5))
        >>> len(result.passed), dict(result.not_applicable)
        (10, {})
        >>> qgt.testing.check_prior(qgt.Bernoulli([0.1, 0.0, 1.0]), items=3).not_applicable
        {}
    """
    if not isinstance(prior, Sampler):
        raise ValueError(f"prior={prior!r} is not valid: give an object with the method `sample`.")
    if isinstance(prior, Loads):
        raise ValueError("prior has amounts: check the prior of who is positive, prior.statuses().")
    if isinstance(prior, Categories | Copies):
        raise ValueError("prior has items of other values than 0 and 1: check that of their parts, PartsPrior(prior).")
    if not 1 <= items <= MOST_ITEMS:
        raise ValueError(f"items={items} is not valid: give a number from 1 to {MOST_ITEMS}, every x is tried.")
    return run_checks(prior, PRIOR_CHECKS, PriorTrial(prior, items))


def _of_prior(function: PriorCheck) -> PriorCheck:
    PRIOR_CHECKS[function.__name__.removeprefix("_")] = function
    return function


@_of_prior
def _samples_are_zeros_and_ones(trial: PriorTrial) -> None:
    for instances in (0, 1, 100):
        x = trial.sample(instances)
        assert isinstance(x, Tensor) and x.dtype == torch.uint8, f"sample gave {_kind(x)}, not a tensor of uint8"
        assert x.shape == (instances, trial.items), f"sample has shape {tuple(x.shape)}, not {(instances, trial.items)}"
        assert not bool((x > 1).any()), f"sample holds {int(x.max())}, not only 0 and 1"


@_of_prior
def _samples_follow_the_generator(trial: PriorTrial) -> None:
    before = torch.random.get_rng_state()
    assert torch.equal(trial.sample(200), trial.sample(200)), "two samples of one seed differ"
    assert torch.equal(before, torch.random.get_rng_state()), "sample draws from torch's global generator"


@_of_prior
def _log_prob_is_of_a_probability(trial: PriorTrial) -> None:
    value = trial.known.log_prob(trial.x)
    assert value.dtype == torch.float64, f"log_prob is {value.dtype}, not float64"
    assert value.shape == (len(trial.x),), f"log_prob has shape {tuple(value.shape)}, not {(len(trial.x),)}"
    assert not bool(value.isnan().any()), f"log_prob of {_row(trial.x[value.isnan()][0])} is NaN"
    assert bool((value <= EXACT).all()), (
        f"log_prob of {_row(trial.x[value.argmax()])} is {float(value.max()):g}, above 0"
    )
    rows = torch.tensor([len(trial.x) - 1, 0])
    alone = torch.cat([trial.known.log_prob(trial.x[i : i + 1]) for i in rows])
    assert _close(alone, value[rows]), "log_prob of an x depends on the other rows"


@_of_prior
def _probabilities_sum_to_one(trial: PriorTrial) -> None:
    total = float(trial.probability.sum())
    assert abs(total - 1) <= EXACT, f"the probabilities of all {len(trial.x)} x sum to {total:.12g}"


@_of_prior
def _marginals_are_those_of_log_prob(trial: PriorTrial) -> None:
    told, right = trial.known.marginals(trial.items), trial.probability @ trial.x.double()
    assert told.dtype == torch.float64 and told.shape == (trial.items,), f"marginals gave {_kind(told)}"
    item = int((told - right).abs().argmax())
    assert bool((told - right).abs().max() <= EXACT), (
        f"the marginal of item {item} is {float(told[item]):.12g}, and by log_prob it is {float(right[item]):.12g}"
    )


@_of_prior
def _samples_have_the_marginals(trial: PriorTrial) -> None:
    told, drawn = trial.known.marginals(trial.items), trial.sample(DRAWS).double().sum(0)
    _expect_numbers("item", range(trial.items), drawn, told)


@_of_prior
def _samples_follow_log_prob(trial: PriorTrial) -> None:
    """Single x, numbers of defectives, and pairs of items that are defective together."""
    x, p, drawn = trial.x, trial.probability, trial.sample(DRAWS)
    which = (drawn.long() << torch.arange(trial.items)).sum(1)
    _expect_numbers("x", list(map(_row, x)), torch.bincount(which, minlength=len(x)).double(), p)
    numbers = trial.items + 1
    by_number = torch.zeros(numbers, dtype=torch.float64).index_add_(0, x.sum(1, dtype=torch.int64), p)
    found = torch.bincount(drawn.sum(1, dtype=torch.int64), minlength=numbers).double()
    _expect_numbers("number of defectives", range(numbers), found, by_number)
    a, b = torch.triu_indices(trial.items, trial.items, 1)
    together = p @ (x[:, a] * x[:, b]).double()
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    _expect_numbers("pair of items", pairs, (drawn[:, a] * drawn[:, b]).double().sum(0), together)


@_of_prior
def _costs_are_minus_log_prob(trial: PriorTrial) -> None:
    costs, x = trial.costs.of(trial.x), trial.x
    told = -trial.known.log_prob(x)
    same = torch.where(
        told.isfinite() & costs.isfinite(), (costs - told).abs() <= EXACT * (1 + told.abs()), costs == told
    )
    wrong = (~same).nonzero().flatten()
    assert not len(wrong), (
        f"x = {_row(x[wrong[0]])} costs {float(costs[wrong[0]]):.12g} by `costs`, "
        f"and {float(told[wrong[0]]):.12g} by `log_prob`; {len(wrong)} of {len(x)} x differ"
    )


@_of_prior
def _known_items_are_always_so(trial: PriorTrial) -> None:
    known = trial.costs.known
    sure = (known != FREE).nonzero().flatten()
    wrong = (trial.sample(DRAWS)[:, sure] != known[sure]).any(0).nonzero().flatten()
    assert not len(wrong), f"item {int(sure[wrong[0]])} is known to be {int(known[sure[wrong[0]]])}, and samples differ"
    told = trial.known.marginals(trial.items)[sure]
    assert bool(((told - known[sure]).abs() <= EXACT).all()), "the marginal of a known item is neither 0 nor 1"


@_of_prior
def _it_is_refused_or_right_with_one_item(trial: PriorTrial) -> None:
    """A prior may be tied to its number of items; then it must say so."""
    try:
        one = PriorTrial(trial.prior, 1)
        marginals = one.known.marginals(1)
    except ValueError as error:
        assert str(error), "the ValueError for 1 item says nothing"
        return
    assert marginals.shape == (1,), f"marginals of 1 item have shape {tuple(marginals.shape)}"
    total = float(one.probability.sum())
    assert abs(total - 1) <= EXACT, f"the probabilities of both x of 1 item sum to {total:.12g}"


# --- noises ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class NoiseTrial:
    """A noise of one pool, tried with pools of a few sizes and all their counts."""

    noise: Noise

    @property
    def on_counts(self) -> Noise:
        """The noise, where its reports are on the scale of counts; else NotApplicable."""
        if hasattr(self.noise, "not_detected"):
            raise NotApplicable("its reports are cycles or amounts, which are not on the scale of counts")
        return self.noise

    @property
    def pools(self) -> list[tuple[int, int]]:
        """Counts and sizes: every count of every size."""
        return [(count, size) for size in SIZES for count in range(size + 1)]

    def reports(self, count: int, size: int) -> Tensor:
        """All reports of a pool of that count, as far as they matter; of a density, a grid of them."""
        reach = float(self.noise.reach(size, TINY))
        if self.noise.integer:
            return torch.arange(math.floor(count - reach), math.ceil(count + reach) + 1, dtype=torch.float64)
        # Fine near the count and near where samples are, however narrow the density is there.
        middle = float(self.sample(count, size, 1001).median())
        steps = torch.logspace(-9, 0, POINTS, dtype=torch.float64) * (reach + abs(middle - count) + 1e-9)
        grid: Tensor = torch.cat([c + side * steps for c in (float(count), middle) for side in (-1, 1)]).unique()
        return grid

    def log_prob(self, reports: Tensor, count: int, size: int) -> Tensor:
        """Of reports of one pool."""
        one = torch.ones(1, dtype=torch.float64)
        return self.noise.log_prob(reports, count * one, size * one)

    def sample(self, count: int, size: int, draws: int = DRAWS, seed: int = 1) -> Tensor:
        """The same samples of one pool at every call: (draws,)."""
        counts, sizes = torch.full((draws, 1), float(count)).double(), torch.full((1,), float(size)).double()
        return self.noise.sample(counts, sizes, generator=Generator().manual_seed(seed))[:, 0]


NoiseCheck = Callable[[NoiseTrial], None]
NOISE_CHECKS: dict[str, NoiseCheck] = {}


def check_noise(noise: Noise) -> Conformance:
    """Put a noise through every check; raise a ConformanceError that names all failures.

    A `PerPool` is checked pool by pool, each noise with what is around it, and a `PerCategory` category by category.

    Example:
        >>> import qgt, qgt.testing
        >>> result = qgt.testing.check_noise(qgt.SparseInteger(rate=0.1, bound=1))
        >>> len(result.passed), dict(result.not_applicable)
        (9, {})
    """
    if not isinstance(noise, Noise):
        raise ValueError(f"noise={noise!r} is not valid: give one with integer, reach, sample and log_prob.")
    if isinstance(noise, PerCategory):
        return [check_noise(one) for one in noise.noises][-1]
    if (each := by_pool(noise)) is not None:
        return [check_noise(one) for one in each.pools_of()][-1]
    return run_checks(noise, NOISE_CHECKS, NoiseTrial(noise))


def _of_noise(function: NoiseCheck) -> NoiseCheck:
    NOISE_CHECKS[function.__name__.removeprefix("_")] = function
    return function


@_of_noise
def _it_says_what_reports_are(trial: NoiseTrial) -> None:
    noise = trial.on_counts
    assert isinstance(noise.integer, bool), f"integer is {noise.integer!r}, neither True nor False"
    for size in SIZES:
        for tail in (0.1, 1e-3, TINY):
            reach = noise.reach(size, tail)
            assert isinstance(reach, int | float) and 0 <= reach < math.inf, (
                f"reach({size}, {tail}) is {reach!r}, not a number from 0 on"
            )


@_of_noise
def _it_describes_its_reports(trial: NoiseTrial) -> None:
    """The optional `reports` and `usual_report`; a noise without them reports counts."""
    noise = trial.noise
    told = getattr(noise, "reports", None)
    assert told is None or isinstance(told, Reports), f"reports is {told!r}, not a Reports"
    for count, size in trial.pools:
        counts, sizes = torch.tensor([[float(count)]] * 2).double(), torch.tensor([float(size)]).double()
        usual = usual_reports(noise, counts, sizes)
        assert isinstance(usual, Tensor) and usual.dtype == torch.float64 and usual.shape == counts.shape, (
            f"usual_report gave {_kind(usual)}, not float64 of shape {tuple(counts.shape)}"
        )
        own, value = float(usual[0, 0]), float(noise.log_prob(usual, counts, sizes)[0, 0])
        assert value > -math.inf or not hasattr(noise, "usual_report"), (
            f"the usual report at count {count} of {size} is {own:g}, which is impossible there"
        )
        shown = reports_of(noise).shown(own)
        assert isinstance(shown, str) and shown, f"the report {own:g} is shown as {shown!r}"


@_of_noise
def _samples_are_reports(trial: NoiseTrial) -> None:
    counts = torch.tensor([[0.0, 1.0, 2.0], [2.0, 0.0, 5.0]], dtype=torch.float64)
    sizes, before = torch.tensor([2.0, 1.0, 5.0], dtype=torch.float64), counts.clone()
    y = trial.noise.sample(counts, sizes, generator=Generator().manual_seed(1))
    assert y.dtype == torch.float64 and y.shape == counts.shape, f"sample gave {_kind(y)}, not float64 of {(2, 3)}"
    assert torch.equal(counts, before), "sample changed the counts that it was given"
    finite = y.isfinite() | (y == getattr(trial.noise, "not_detected", math.nan))
    assert bool(finite.all()), "sample holds numbers that are not finite"
    assert not trial.noise.integer or bool((y == y.floor()).all()), "sample holds fractions, though integer is True"
    assert len(trial.noise.sample(counts[:0], sizes, generator=Generator())) == 0, "sample of no instance has some"


@_of_noise
def _reports_follow_the_generator(trial: NoiseTrial) -> None:
    before = torch.random.get_rng_state()
    assert torch.equal(trial.sample(2, 5, 200), trial.sample(2, 5, 200)), "two samples of one seed differ"
    assert torch.equal(before, torch.random.get_rng_state()), "sample draws from torch's global generator"


@_of_noise
def _log_prob_is_a_number(trial: NoiseTrial) -> None:
    for count, size in trial.pools:
        reports = trial.reports(count, size)
        value = trial.log_prob(reports, count, size)
        assert value.dtype == torch.float64, f"log_prob is {value.dtype}, not float64"
        odd = value.isnan() | (value == torch.inf)
        assert not bool(odd.any()), (
            f"log_prob of report {float(reports[odd][0]):g} at count {count} of {size} is {float(value[odd][0])}"
        )
        assert not trial.noise.integer or bool((value <= EXACT).all()), (
            f"log_prob of report {float(reports[value.argmax()]):g} at count {count} of {size} is above 0"
        )


@_of_noise
def _its_arguments_broadcast(trial: NoiseTrial) -> None:
    y, counts = torch.arange(-1.0, 4.0, dtype=torch.float64), torch.arange(6.0, dtype=torch.float64)
    sizes = torch.tensor([2.0, 5.0], dtype=torch.float64)
    table = trial.noise.log_prob(y[:, None, None], counts, sizes[:, None])
    try:
        table = table.expand(5, 2, 6)  # a noise may leave the sizes out
    except RuntimeError:
        raise AssertionError(f"log_prob of shapes (5, 1, 1), (6,), (2, 1) has shape {tuple(table.shape)}") from None
    for i, k, c in ((0, 0, 0), (2, 1, 3), (4, 1, 5), (1, 0, 2)):
        one = trial.noise.log_prob(y[i : i + 1], counts[c : c + 1], sizes[k : k + 1])
        assert _close(one.flatten(), table[i, k, c : c + 1]), (
            f"log_prob of report {float(y[i]):g} depends on the others"
        )
    tables = pool_costs(Design.from_rows(["11000", "11111"]), trial.noise, y[None, 1:3]).of_instance(0)
    for pool, size in enumerate((2, 5)):
        told = -trial.log_prob(y[1 + pool], 0, size)
        assert _close(tables[pool, :1], told.flatten()), (
            f"the table of report {float(y[1 + pool]):g} is not its log_prob"
        )


@_of_noise
def _probabilities_of_reports_sum_to_one(trial: NoiseTrial) -> None:
    assert trial.on_counts is trial.noise
    for count, size in trial.pools:
        reports = trial.reports(count, size)
        p = trial.log_prob(reports, count, size).exp()
        total = float(p.sum() if trial.noise.integer else torch.trapezoid(p, reports))
        off = EXACT if trial.noise.integer else INTEGRAL
        assert abs(total - 1) <= off, f"the probabilities of all reports at count {count} of {size} sum to {total:.9g}"


@_of_noise
def _reports_follow_log_prob(trial: NoiseTrial) -> None:
    assert trial.on_counts is trial.noise
    share = RARE / len(trial.pools)
    for count, size in trial.pools:
        reports, drawn = trial.reports(count, size), trial.sample(count, size)
        value = trial.log_prob(drawn, count, size)
        assert bool((value > -torch.inf).all()), (
            f"{float(drawn[value == -torch.inf][0]):g} was reported at count {count} of {size}, which is impossible"
        )
        p = trial.log_prob(reports, count, size).exp()
        if trial.noise.integer:
            at = torch.searchsorted(reports, drawn).clamp(max=len(reports) - 1)
            found = torch.bincount(at[reports[at] == drawn], minlength=len(reports)).double()
            _expect_numbers(f"count {count} of {size}, report", reports.tolist(), found, p, share)
            continue
        told = torch.cumulative_trapezoid(p, reports)
        seen = torch.searchsorted(drawn.sort().values, reports[1:], right=True) / len(drawn)
        most = math.sqrt(math.log(2 / share) / (2 * DRAWS)) + INTEGRAL
        off = float((told - seen).abs().max())
        assert off <= most, f"at count {count} of {size} samples and log_prob differ by {off:.4g} in their distribution"


@_of_noise
def _reach_is_exceeded_rarely(trial: NoiseTrial) -> None:
    assert trial.on_counts is trial.noise
    for count, size in trial.pools:
        off = (trial.sample(count, size) - count).abs()
        for tail in (0.1, 0.01):
            beyond = float((off > trial.noise.reach(size, tail) + EXACT).sum())
            most = DRAWS * tail + _spread(torch.tensor(tail, dtype=torch.float64), RARE / 100)
            assert beyond <= most, f"{beyond / DRAWS:.3g} of reports at count {count} of {size} exceed reach({tail})"


# --- words and bounds -----------------------------------------------------------------------------------------------


def _expect_numbers(what: str, names: Iterable[object], found: Tensor, probability: Tensor, rare: float = RARE) -> None:
    """Fail where one of several events was drawn more or less often than its probability allows."""
    off = (found - DRAWS * probability).abs()
    most = _spread(probability, rare / max(1, len(off)))
    wrong = (off > most).nonzero().flatten().tolist()
    if wrong:
        name, expected = list(names)[wrong[0]], DRAWS * float(probability[wrong[0]])
        seen = int(found[wrong[0]])
        raise AssertionError(f"{what} {name}: {seen} of {DRAWS} samples, and {expected:.1f} are expected")


def _spread(probability: Tensor, rare: float) -> Tensor:
    """How far the number of draws may be from its mean, but for a probability of `rare`: Bernstein's inequality."""
    log, variance = math.log(2 / rare), DRAWS * probability * (1 - probability).clamp(min=0.0)
    return log / 3 + (log**2 / 9 + 2 * log * variance).sqrt()


def _close(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and bool(((a == b) | ((a - b).abs() <= EXACT * (1 + b.abs()))).all())


def _row(x: Tensor) -> str:
    return "".join(map(str, x.tolist()))


def _kind(value: object) -> str:
    return f"{value.dtype} of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
