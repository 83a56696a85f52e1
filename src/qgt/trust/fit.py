"""Fit: does the data look like this model at all?

For one instance: a p-value that counts this far from the calls, or calls this unusual, occur under the problem. For a
whole file: one verdict over all instances, which sees what no single one shows, such as a pool that is off too often.
"""

import math
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float64, UInt8
from torch import Generator, Tensor

from qgt.model.categories import Categories
from qgt.model.factors import pool_costs
from qgt.model.noise import reports_of, usual_reports
from qgt.model.prior import Prior
from qgt.model.problem import Counts, Problem, Values

# What instances of a problem look like: the costs of simulated ones, against which real ones are held.
#
# An instance's misfit has two parts, both in nats:
#
#     noise   -log P(y | x): how far the counts are from what the calls add up to
#     prior   -log P(x): how unusual the calls are before any count is seen
#
# For a simulated instance x is the truth, so no decoding is needed and a hundred thousand take a second. The most
# probable x explains counts at least as well as the truth does, both parts together: held against the truths of others,
# honest answers look a little better than they must, and false alarms are as rare as they are said to be or rarer.
# Other decoders err by themselves: for them the reference holds their own answers to simulated counts.
#
# Beyond what was simulated, a p-value is the tail of a Gaussian whose mean and deviation were estimated: Student's t.
# Of very many items few can be decoded in the time there is, but many truths can be drawn. Then the misfit of an answer
# is that of its truth, of which many are known, and what the decoder's errors add, of which few are. The two variances
# add up, and so does what is not known of them (Welch and Satterthwaite).

MOST_DRAWN = 2**25  # entries drawn at most: instances times items and pools
MOST_INSTANCES, LEAST_INSTANCES = 100_000, 100  # instances
FEW_DECODED = 100  # decoded instances, below which simulated truths are used too
SIMULATED_AT_A_TIME = 2**22
SMALLEST = 1e-300  # p-value: none is 0
THREE_ERRORS = 4.5  # nats by which the density of a normal law falls within three standard deviations
SLACK = 1e-9  # relative: costs this close are equal up to rounding


@dataclass(frozen=True, eq=False)
class Misfit:
    """Both parts of the misfit of some instances, and the noise part pool by pool."""

    pools: Float64[Tensor, "instances pools"]
    prior: Float64[Tensor, " instances"]

    @property
    def noise(self) -> Float64[Tensor, " instances"]:
        """The noise part."""
        return self.pools.sum(1)

    def pick(self, which: Bool[Tensor, " instances"]) -> "Misfit":
        """The misfits of some of the instances."""
        return Misfit(self.pools[which], self.prior[which])


def misfit(problem: Problem, y: Counts, x: Values) -> Misfit:
    """How badly calls, or amounts where items have loads, and reports go together.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.5), qgt.SparseInteger(0.3, 1))
        >>> x = torch.tensor([[1, 0, 0]], dtype=torch.uint8)
        >>> misfit(problem, torch.tensor([[1.0, 1.0]], dtype=torch.float64), x).pools.exp()  # one count is off
        tensor([[ 1.2500, 10.0000]], dtype=torch.float64)
    """
    if problem.values is not None:  # the pools of one category come after those of another
        return misfit(problem.in_parts, problem.values.part_reports(y), problem.values.to_parts(x))
    if problem.loads is not None:
        return Misfit(-problem.log_reports(x, y), -problem.loads.log_prob(x))
    costs = pool_costs(problem.design, problem.noise, y)
    counts = problem.design.count(x).to(torch.int64)
    prior = problem.prior
    unusual = -prior.log_prob(x) if isinstance(prior, Prior) else torch.zeros(len(x), dtype=torch.float64)
    return Misfit(costs.tables[costs.which, counts], unusual.to(y.device))


@dataclass(frozen=True, eq=False)
class Spread:
    """What is known of a cost that is as good as Gaussian; `freedom` tells how well (see Student's t).

    Example:
        >>> import torch
        >>> Spread.of(torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)).tail(torch.tensor([2.0, 9.0]))
        tensor([0.5000, 0.0131], dtype=torch.float64)
    """

    mean: float
    variance: float
    mean_variance: float  # of the mean itself
    freedom: float

    @classmethod
    def of(cls, values: Float64[Tensor, " n"]) -> "Spread":
        """Of simulated ones; infinite ones do not count."""
        finite = values[values.isfinite()]
        if len(finite) < 2:
            return cls(float(finite.mean()) if len(finite) else 0.0, 0.0, 0.0, 0.0)
        variance = max(float(finite.var()), 1e-24)
        return cls(float(finite.mean()), variance, variance / len(finite), len(finite) - 1.0)

    def plus(self, other: "Spread") -> "Spread":
        """Of the sum of two that do not depend on each other."""
        both = [one.variance + one.mean_variance for one in (self, other)]
        if min(self.freedom, other.freedom) < 1:
            freedom = 0.0
        else:
            freedom = sum(both) ** 2 / (both[0] ** 2 / self.freedom + both[1] ** 2 / other.freedom)
        variances = self.variance + other.variance, self.mean_variance + other.mean_variance
        return Spread(self.mean + other.mean, *variances, freedom)

    def tail(self, value: Tensor, number: int = 1) -> Float64[Tensor, " n"]:
        """The chance that the mean of so many further ones is at least as large; 1 where nothing is known."""
        if self.freedom < 1:
            return torch.ones(len(value), dtype=torch.float64)
        deviation = math.sqrt(self.variance / number + self.mean_variance)
        score = ((value.double() - self.mean) / deviation).clamp(-1e6, 1e6)
        return student_tail(score, self.freedom).clamp(min=SMALLEST)

    def tensor(self) -> Float64[Tensor, "4"]:
        """All of it, for a file."""
        return torch.tensor([self.mean, self.variance, self.mean_variance, self.freedom], dtype=torch.float64)


MUCH_FREEDOM = 1000.0  # from which Student's t is a normal distribution of another scale, to a millionth


def student_tail(score: Float64[Tensor, " n"], freedom: float) -> Float64[Tensor, " n"]:
    """The chance that Student's t is at least as large.

    Example:
        >>> import torch
        >>> scores = torch.tensor([0.0, 3.0], dtype=torch.float64)
        >>> student_tail(scores, 5.0), student_tail(scores, 50_000.0)
        (tensor([0.5000, 0.0150], dtype=torch.float64), tensor([0.5000, 0.0014], dtype=torch.float64))
    """
    if freedom < MUCH_FREEDOM:
        from scipy.special import stdtr  # takes a tenth of a second to import

        return torch.from_numpy(stdtr(freedom, -score.numpy()))
    # Wallace (1959): the normal score with the same tail.
    scale = (8 * freedom + 1) / (8 * freedom + 3)
    normal = scale * (freedom * torch.log1p(score.square() / freedom)).sqrt() * score.sign()
    tail: Tensor = torch.special.log_ndtr(-normal).exp()
    return tail


@dataclass(frozen=True, eq=False)
class Reference:
    """The misfits of simulated instances, sorted; each pool's mean and variance; and the spreads of both parts.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["110", "011"]), qgt.Bernoulli(0.1), qgt.SparseInteger(0.1, 1))
        >>> reference = Reference.of(problem, generator=torch.Generator().manual_seed(0))
        >>> len(reference.noise), bool((reference.noise.diff() >= 0).all())
        (100000, True)
    """

    noise: Float64[Tensor, " simulated"]
    prior: Float64[Tensor, " simulated"]
    pool_mean: Float64[Tensor, " pools"]
    pool_variance: Float64[Tensor, " pools"]
    spreads: Float64[Tensor, "2 4"]  # of the noise part and the prior part

    @property
    def noise_spread(self) -> Spread:
        """Of the noise part."""
        return Spread(*self.spreads[0].tolist())

    @property
    def prior_spread(self) -> Spread:
        """Of the prior part."""
        return Spread(*self.spreads[1].tolist())

    @classmethod
    def of(cls, problem: Problem, *, generator: Generator) -> "Reference":
        """Simulate truths and their counts."""
        left = max(LEAST_INSTANCES, min(MOST_INSTANCES, MOST_DRAWN // (problem.items + problem.pools)))
        rows = max(1, SIMULATED_AT_A_TIME // (problem.items + problem.pools))
        parts = []
        while left > 0:
            x, y = problem.simulate(min(rows, left), generator=generator)
            parts.append(MisfitSums.of(misfit(problem, y, x)))
            left -= len(x)
        return cls._of_sums(parts)

    @classmethod
    def of_answers(
        cls, problem: Problem, y: Counts, answers: Values, truths: Values, *, generator: Generator
    ) -> "Reference":
        """A reference of a decoder's own answers to simulated counts, and of more truths where these are few."""
        true = None if len(y) >= FEW_DECODED else MisfitSums.of(misfit(problem, y, truths))
        return cls.of_sums(problem, MisfitSums.of(misfit(problem, y, answers)), true, generator=generator)

    @classmethod
    def of_sums(
        cls, problem: Problem, own: "MisfitSums", true: "MisfitSums | None", *, generator: Generator
    ) -> "Reference":
        """The same of what is kept of misfits: the answers' own, and where they are few the truths'."""
        if true is None:
            return cls._of_sums([own])
        many = cls.of(problem, generator=generator)
        added = [Spread.of(own[i] - true[i]) for i in range(2)]  # by the decoder's errors
        spreads = [many.noise_spread.plus(added[0]).tensor(), many.prior_spread.plus(added[1]).tensor()]
        pool_mean = many.pool_mean + added[0].mean / len(many.pool_mean)
        noise, prior = own.noise.sort().values, own.prior.sort().values
        return cls(noise, prior, pool_mean, many.pool_variance, torch.stack(spreads))

    @classmethod
    def _of_sums(cls, parts: "list[MisfitSums]") -> "Reference":
        noise, prior = (torch.cat([part[i] for part in parts]).sort().values for i in range(2))
        mean = torch.stack([part.total for part in parts]).sum(0) / len(noise)
        square = torch.stack([part.squares for part in parts]).sum(0) / len(noise)
        spreads = torch.stack([Spread.of(noise).tensor(), Spread.of(prior).tensor()])
        return cls(noise, prior, mean, square - mean.square(), spreads)


class MisfitSums(NamedTuple):
    """What is kept of some instances' misfits: each one's cost, and sums over instances for each pool."""

    noise: Tensor  # (instances,)
    prior: Tensor
    total: Tensor  # (pools,)
    squares: Tensor

    @classmethod
    def of(cls, found: Misfit) -> "MisfitSums":
        """Of some instances."""
        # Calls that are impossible cost infinitely much: they are the worst there are, and not part of the means.
        finite = found.pools.nan_to_num(posinf=0.0)
        return cls(found.noise, found.prior, finite.sum(0), finite.square().sum(0))


def both(*p: Float64[Tensor, " n"]) -> Float64[Tensor, " n"]:
    """One p-value from several: the least, times their number (Bonferroni)."""
    least = torch.stack(p).amin(0)
    return (least * len(p)).clamp(max=1.0)


def share_above(
    values: Float64[Tensor, " simulated"], value: Float64[Tensor, " n"], spread: Spread | None = None
) -> Float64[Tensor, " n"]:
    """How often one of the sorted values is at least as large, the value itself counted: never 0.

    Beyond all values it is the tail of their spread, or of the one given, and never more than was counted.

    Example:
        >>> import torch
        >>> share_above(torch.arange(9.0, dtype=torch.float64), torch.tensor([4.0, 7.5], dtype=torch.float64))
        tensor([0.6000, 0.2000], dtype=torch.float64)
    """
    number = len(values)
    slack = torch.where(value.isfinite(), SLACK * (1 + value.abs()), 0.0)
    below = torch.searchsorted(values, value - slack)
    counted = (number - below + 1).double() / (number + 1)
    beyond = (below == number) & value.isfinite()
    if not bool(beyond.any()):
        return counted
    tail = (spread or Spread.of(values)).tail(value)
    return torch.where(beyond, torch.minimum(counted, tail), counted)


# The fit of an instance, and of a file.

INSTANCE_ALARM = 5e-4  # a p-value below this makes an instance suspect
FILE_ALARM = 1e-2  # and a file
FILE_HOPELESS = 1e-4  # the fit of a file, without its suspect instances, below which no answer of it is trusted
GAUSSIAN_MEAN = 200  # instances whose mean misfit is as good as Gaussian
DRAWN_MEANS = 4000  # means of simulated misfits, beside which that of fewer instances is judged
BLIND = 4.0  # degrees of freedom below which only the grossest misfit would be seen
MANY_SUSPECT, MOST_SUSPECT = 3, 0.25  # suspect instances, by number and by share, that condemn a file


def instance_fit(problem: Problem, y: Counts, x: Values, reference: Reference) -> Float64[Tensor, " instances"]:
    """How often an instance of the model fits its answer as badly as this one does.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> design = qgt.Design.bernoulli(pools=35, items=100, generator=g)
        >>> problem = qgt.Problem(design, qgt.Bernoulli(0.06), qgt.SparseInteger(0.1, 1))
        >>> x, y = problem.simulate(2, generator=g)
        >>> y[1] = y[1].flip(0)  # the pools in reverse order
        >>> calls = qgt.Certified(odds=1.0).bind(problem)(y).x
        >>> fit = instance_fit(problem, y, calls, Reference.of(problem, generator=g))
        >>> bool(fit[0] > 0.01), bool(fit[1] < 1e-6)
        (True, True)
    """
    return fit_of(misfit(problem, y, x), reference)


def fit_of(found: Misfit, reference: Reference) -> Float64[Tensor, " instances"]:
    """`instance_fit` of misfits that are known already."""
    noise, prior = found.noise.cpu(), found.prior.cpu()
    return both(
        share_above(reference.noise, noise, reference.noise_spread),
        share_above(reference.prior, prior, reference.prior_spread),
    )


@dataclass(frozen=True)
class FileFit:
    """How well a whole file fits the model.

    `off` is the number of counts per instance that are not what the calls add up to, and `expected` what the model
    makes of it; `worst` is the pool that is off most conspicuously.

    Example:
        >>> FileFit(instances=40, p=1e-30, off=27.1, expected=2.3, worst="P7", worst_p=1e-9).suspect
        True
    """

    instances: int
    p: float  # that a file of the model fits as badly
    off: float
    expected: float
    worst: str  # a pool's name
    worst_p: float
    noun: str = "counts"  # what pools report
    blind: bool = False  # whether there were too few simulations to see anything but the grossest misfit

    @property
    def suspect(self) -> bool:
        """Whether the file as a whole does not look like the model."""
        return self.p < FILE_ALARM

    @property
    def words(self) -> str:
        """The finding in a sentence.

        Example:
            >>> FileFit(40, 1e-30, 27.1, 2.3, "P7", 1e-9).words
            "These 40 plates do not look like the model: on average 27.1 of a plate's counts are off; 2.3 are expected."
        """
        many = f"These {self.instances} plates do" if self.instances > 1 else "This plate does"
        if self.blind and not self.suspect:
            return (
                f"Too few plates were simulated to say whether the {self.noun} fit the model: {self.off:.1f} a "
                f"plate are off, {self.expected:.1f} are expected. Give the simulations more time."
            )
        if not self.suspect:
            return (
                f"The {self.noun} fit the model: on average {self.off:.1f} of a plate's {self.noun} are off; "
                f"{self.expected:.1f} are expected."
            )
        return (
            f"{many} not look like the model: on average {self.off:.1f} of a plate's {self.noun} are off; "
            f"{self.expected:.1f} are expected."
        )


def file_fit(problem: Problem, y: Counts, x: Values, reference: Reference) -> FileFit:
    """Hold a whole file against the model: all instances together, and each pool over all instances.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> design = qgt.Design.bernoulli(pools=35, items=100, generator=g)
        >>> problem = qgt.Problem(design, qgt.Bernoulli(0.06), qgt.SparseInteger(0.1, 1))
        >>> x, y = problem.simulate(50, generator=g)
        >>> reference = Reference.of(problem, generator=g)
        >>> file_fit(problem, y, x, reference).suspect
        False
        >>> y[:, 3] = 0  # a pool that failed, entered as 0
        >>> calls = qgt.Certified(odds=1.0, time_limit=0.02).bind(problem)(y).x  # spoilt counts take long to settle
        >>> found = file_fit(problem, y, calls, reference)
        >>> found.suspect, found.worst
        (True, 'P4')
    """
    return _file_fit(problem, y, x, misfit(problem, y, x), reference)


def _file_fit(problem: Problem, y: Tensor, x: Tensor, found: Misfit, reference: Reference) -> FileFit:
    """`file_fit` of misfits that are known already."""
    by_pool = _pools_fit(found, reference)
    worst = int(by_pool.argmin())
    off, noun = _off(problem, y, x), reports_of(problem.noise).noun
    name, p = problem.in_parts.design.pool_names[worst], _file_p(found, by_pool, reference)
    p = min(p, 4 * exchange_p(problem, x))
    blind = reference.noise_spread.freedom < BLIND
    return FileFit(len(y), p, off, expected_off(problem), name, float(by_pool[worst]), noun, blind)


def _file_p(found: Misfit, by_pool: Tensor, reference: Reference) -> float:
    """The chance that a file of the model fits as badly: all instances together, the worst pool, the worst instance."""
    instances, noise, prior = len(found.prior), found.noise.cpu(), found.prior.cpu()
    return min(
        1.0,
        4 * _mean_p(noise, reference.noise, reference.noise_spread),
        4 * _mean_p(prior, reference.prior, reference.prior_spread),
        4 * len(by_pool) * float(by_pool.min()),
        # An instance that could not be at all condemns a file of however many.
        *([1.0] if not instances else [4 * instances * float(fit_of(found, reference).min())]),
    )


def hopeless(
    problem: Problem,
    y: Counts,
    x: Values,
    fit: Float64[Tensor, " instances"],
    reference: Reference,
) -> bool:
    """Whether no answer of a file is to be trusted, however well that one fits.

    A few instances that do not fit say nothing of the others: a count was mistyped there. But where they are many, or
    where the others do not fit together, something is wrong with all.

    Args:
        problem: What the file should be of.
        y: Its counts.
        x: Its answers; an instance without a possible one has a fit of 0.
        fit: Each instance's own.
        reference: What instances of the model look like.
    """
    return _hopeless(misfit(problem, y, x), fit, reference) or exchange_p(problem, x) < FILE_HOPELESS


def exchange_p(problem: Problem, x: Values) -> float:
    """At most so probable is it, under the model, that answers look so much as if two categories were exchanged.

    Counts whose columns are exchanged fit as well as before, and every answer has the wrong category: only the number
    of items in each category shows it. The odds for an exchange have an expected value of 1 under the model, so that
    by Markov's inequality their inverse is a p-value.

    Example:
        >>> import torch, qgt
        >>> problem = qgt.Problem(qgt.Design.from_rows(["111"]), qgt.Categories((0.3, 0.01)))
        >>> x = torch.tensor([[0, 0, 2]] * 3, dtype=torch.uint8)
        >>> round(exchange_p(problem, x), 6), exchange_p(problem, exchanged(x, 1, 2))
        (3.7e-05, 1.0)
    """
    values = problem.values
    pairs = list(combinations(values.columns, 2)) if isinstance(values, Categories) else []
    if not pairs or not isinstance(values, Categories) or not len(x):
        return 1.0
    own = values.log_prob(x)
    gain = max(float((values.log_prob(exchanged(x, *pair)) - own).sum()) for pair in pairs)
    return min(1.0, len(pairs) * math.exp(-max(gain, 0.0)))


def exchanged(x: UInt8[Tensor, "instances items"], one: int, other: int) -> UInt8[Tensor, "instances items"]:
    """The same answers with two categories exchanged.

    Example:
        >>> import torch
        >>> exchanged(torch.tensor([[0, 1, 2, 3]], dtype=torch.uint8), 1, 3)
        tensor([[0, 3, 2, 1]], dtype=torch.uint8)
    """
    return torch.where(x == one, other, torch.where(x == other, one, x)).to(torch.uint8)


def _hopeless(found: Misfit, fit: Tensor, reference: Reference) -> bool:
    """`hopeless` of misfits that are known already."""
    bad = fit < INSTANCE_ALARM
    if int(bad.sum()) >= MANY_SUSPECT and int(bad.sum()) > MOST_SUSPECT * len(fit):
        return True
    others = found.pick(~bad)
    return _file_p(others, _pools_fit(others, reference), reference) < FILE_HOPELESS


def held_together(
    problem: Problem,
    y: Counts,
    x: Values,
    fit: Float64[Tensor, " instances"],
    possible: Bool[Tensor, " instances"],
    reference: Reference,
) -> tuple[FileFit | None, bool]:
    """How well a file's possible instances fit together, None where there are none; and whether any is to be trusted.

    Args:
        problem: What the file should be of.
        y: Its counts.
        x: Its answers.
        fit: Each instance's own.
        possible: Which instances have a possible answer.
        reference: What instances of the model look like.
    """
    if not bool(possible.any()):
        return None, True
    off = misfit(problem, y, x)
    found = _file_fit(problem, y[possible], x[possible], off.pick(possible), reference)
    lost = _hopeless(off, torch.where(possible, fit, 0.0), reference)
    return found, not found.suspect or not (lost or exchange_p(problem, x[possible]) < FILE_HOPELESS)


def expected_off(problem: Problem) -> float:
    """How many counts of an instance are off on average, under the model: fewer instances of many pools tell that."""
    instances = max(20, min(2000, MOST_DRAWN // (problem.items + problem.pools)))
    x, y = problem.simulate(instances, generator=torch.Generator().manual_seed(0))
    return _off(problem, y, x)


def _off(problem: Problem, y: Tensor, x: Tensor) -> float:
    """How many reports of an instance are not what its answer makes usual, on average; missing ones are not off."""
    return float(off_reports(problem, y, x).double().sum() / max(1, len(y)))


def off_reports(problem: Problem, y: Tensor, x: Tensor) -> Bool[Tensor, "instances pools"]:
    """Which reports are not what an answer makes usual; those of amounts, which are more than three errors off it."""
    if problem.values is not None:
        return off_reports(problem.in_parts, problem.values.part_reports(y), problem.values.to_parts(x))
    sizes = problem.design.pool_sizes.to(x.device, torch.float64)
    totals = problem.design.count(x)
    usual = usual_reports(problem.noise, totals, sizes)
    if problem.loads is None:
        return (y != usual) & ~y.isnan()
    most = problem.noise.log_prob(usual, totals, sizes)
    return problem.log_reports(x, y) < torch.where(y.isnan(), -torch.inf, most - THREE_ERRORS)


def _mean_p(values: Tensor, reference: Tensor, spread: Spread) -> float:
    """The chance that the mean of as many simulated ones is as large."""
    if not len(values):
        return 1.0
    if not bool(values.isfinite().all()):
        return 0.0 if not bool(torch.isinf(reference).any()) else 1.0
    finite = reference[reference.isfinite()]
    mean = values.mean()
    tail = float(spread.tail(mean[None], number=len(values))[0])
    if len(values) >= GAUSSIAN_MEAN or len(finite) < FEW_DECODED:  # in the second case there is little to draw from
        return tail
    seeded = torch.Generator().manual_seed(0)
    drawn = finite[torch.randint(len(finite), (DRAWN_MEANS, len(values)), generator=seeded)].mean(1)
    share = float((drawn >= float(mean) - 1e-9).double().mean())
    return share if share > 0 else min(max(1 / DRAWN_MEANS, 1 / len(finite)), tail)


def _pools_fit(found: Misfit, reference: Reference) -> Float64[Tensor, " pools"]:
    """For each pool the chance that its mean cost over the file is as large: a bound by Bennett's inequality.

    Pools' costs are skewed, and files short: a Gaussian tail would give false alarms.
    """
    n = max(1, len(found.pools))
    finite = found.pools.cpu().nan_to_num(posinf=0.0)
    excess = finite.mean(0) - reference.pool_mean
    # A pool that was never off in few simulations may be off now and then: the variance of all pools is a lower bound.
    shared = float(reference.pool_variance.mean()) * min(1.0, FEW_DECODED / max(1, len(reference.noise)))
    variance = reference.pool_variance.clamp(min=max(shared, 1e-12))
    largest = (finite.amax(0) if len(finite) else reference.pool_mean) - reference.pool_mean
    reach = torch.maximum(largest, variance.sqrt()).clamp(min=1e-9)
    ratio = reach * excess.clamp(min=0.0) / variance
    exponent = n * variance / reach.square() * ((1 + ratio) * torch.log1p(ratio) - ratio)
    return torch.where(excess > 0, (-exponent).exp(), 1.0)
