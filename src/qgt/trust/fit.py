"""Fit: does the data look like this model at all?

For one instance: a p-value that counts this far from the calls, or calls this unusual, occur under the problem. For a
whole file: one verdict over all instances, which sees what no single one shows, such as a pool that is off too often.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float64, UInt8
from torch import Tensor

from qgt.model.noise import reports_counts, usual_reports
from qgt.model.problem import Problem
from qgt.trust.reference import FEW, NUMBERS, Misfit, Reference, Spread, both, misfit, share_above

INSTANCE_ALARM = 5e-4  # a p-value below this makes an instance suspect
FILE_ALARM = 1e-2  # and a file
FILE_HOPELESS = 1e-4  # the fit of a file, without its suspect instances, below which no answer of it is trusted
BLIND = 4.0  # degrees of freedom below which only the grossest misfit would be seen
MANY, MOST = 3, 0.25  # suspect instances, by number and by share, that condemn a file


def instance_fit(
    problem: Problem,
    y: Float64[Tensor, "instances pools"],
    x: UInt8[Tensor, "instances items"],
    reference: Reference,
) -> Float64[Tensor, " instances"]:
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
    return _fit(misfit(problem, y, x), reference)


def _fit(found: Misfit, reference: Reference) -> Float64[Tensor, " instances"]:
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
            "These 40 instances do not look like the model: on average 27.1 of an instance's counts are off; 2.3 are expected."
        """  # noqa: E501 - an example's line
        many = f"These {self.instances} instances do" if self.instances > 1 else "This instance does"
        if self.blind and not self.suspect:
            return (
                f"Too few instances were simulated to say whether the {self.noun} fit the model: {self.off:.1f} an "
                f"instance are off, {self.expected:.1f} are expected. Give the simulations more time."
            )
        if not self.suspect:
            return (
                f"The {self.noun} fit the model: on average {self.off:.1f} of an instance's {self.noun} are off; "
                f"{self.expected:.1f} are expected."
            )
        return (
            f"{many} not look like the model: on average {self.off:.1f} of an instance's {self.noun} are off; "
            f"{self.expected:.1f} are expected."
        )


def file_fit(
    problem: Problem,
    y: Float64[Tensor, "instances pools"],
    x: UInt8[Tensor, "instances items"],
    reference: Reference,
) -> FileFit:
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
    found, instances = misfit(problem, y, x), len(y)
    noise, prior = found.noise.cpu(), found.prior.cpu()
    by_pool = _pools_fit(found, reference)
    worst = int(by_pool.argmin())
    p = min(
        1.0,
        4 * _mean_p(noise, reference.noise, reference.noise_spread),
        4 * _mean_p(prior, reference.prior, reference.prior_spread),
        4 * len(by_pool) * float(by_pool[worst]),
        # An instance that could not be at all condemns a file of however many.
        *([1.0] if not instances else [4 * instances * float(_fit(found, reference).min())]),
    )
    off, noun = _off(problem, y, x), "counts" if reports_counts(problem.noise) else "results"
    name = problem.design.pool_names[worst]
    blind = reference.noise_spread.freedom < BLIND
    return FileFit(instances, p, off, expected_off(problem), name, float(by_pool[worst]), noun, blind)


def hopeless(
    problem: Problem,
    y: Float64[Tensor, "instances pools"],
    x: UInt8[Tensor, "instances items"],
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
    bad = fit < INSTANCE_ALARM
    if int(bad.sum()) >= MANY and int(bad.sum()) > MOST * len(y):
        return True
    return file_fit(problem, y[~bad], x[~bad], reference).p < FILE_HOPELESS


def held_together(
    problem: Problem,
    y: Float64[Tensor, "instances pools"],
    x: UInt8[Tensor, "instances items"],
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
    found = file_fit(problem, y[possible], x[possible], reference)
    return found, not found.suspect or not hopeless(problem, y, x, torch.where(possible, fit, 0.0), reference)


def expected_off(problem: Problem) -> float:
    """How many counts of an instance are off on average, under the model: fewer instances of many pools tell that."""
    instances = max(20, min(2000, NUMBERS // (problem.items + problem.pools)))
    x, y = problem.simulate(instances, generator=torch.Generator().manual_seed(0))
    return _off(problem, y, x)


def _off(problem: Problem, y: Tensor, x: Tensor) -> float:
    """How many reports of an instance are not what its answer makes usual, on average; missing ones are not off."""
    sizes = problem.design.pool_sizes.to(x.device, torch.float64)
    usual = usual_reports(problem.noise, problem.design.count(x), sizes)
    return float(((y != usual) & ~y.isnan()).double().sum() / max(1, len(y)))


def _mean_p(values: Tensor, reference: Tensor, spread: Spread) -> float:
    """The chance that the mean of as many simulated ones is as large."""
    if not len(values):
        return 1.0
    if not bool(values.isfinite().all()):
        return 0.0 if not bool(torch.isinf(reference).any()) else 1.0
    finite = reference[reference.isfinite()]
    mean = values.mean()
    tail = float(spread.tail(mean[None], number=len(values))[0])
    if len(values) >= 200 or len(finite) < FEW:  # the mean is as good as Gaussian, or there is nothing to draw from
        return tail
    seeded = torch.Generator().manual_seed(0)
    drawn = finite[torch.randint(len(finite), (4000, len(values)), generator=seeded)].mean(1)
    share = float((drawn >= float(mean) - 1e-9).double().mean())
    return share if share > 0 else min(max(1 / 4000, 1 / len(finite)), tail)


def _pools_fit(found: Misfit, reference: Reference) -> Float64[Tensor, " pools"]:
    """For each pool the chance that its mean cost over the file is as large: a bound by Bennett's inequality.

    Pools' costs are skewed, and files short: a Gaussian tail would cry wolf.
    """
    n = max(1, len(found.pools))
    finite = found.pools.cpu().nan_to_num(posinf=0.0)
    excess = finite.mean(0) - reference.pool_mean
    # A pool that was never off in few simulations is not one that is never off: then all pools speak for it.
    shared = float(reference.pool_variance.mean()) * min(1.0, FEW / max(1, len(reference.noise)))
    variance = reference.pool_variance.clamp(min=max(shared, 1e-12))
    largest = (finite.amax(0) if len(finite) else reference.pool_mean) - reference.pool_mean
    reach = torch.maximum(largest, variance.sqrt()).clamp(min=1e-9)
    ratio = reach * excess.clamp(min=0.0) / variance
    exponent = n * variance / reach.square() * ((1 + ratio) * torch.log1p(ratio) - ratio)
    return torch.where(excess > 0, (-exponent).exp(), 1.0)
