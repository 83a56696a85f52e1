"""Problems whose certificates are forged: every prior and noise of the library, known items, and missing counts."""

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from qgt.model.design import Design
from qgt.model.noise import (
    Binned,
    Gaussian,
    Noise,
    Noiseless,
    Outliers,
    PerPool,
    PositiveNegative,
    Reads,
    RoundedGaussian,
    Saturating,
    SparseInteger,
)
from qgt.model.prior import FREE, Bernoulli, FixedWeight, Households, ItemCosts, Prior, UnknownLevel, UnknownRate
from qgt.model.problem import Problem

NOISES: dict[str, Noise] = {
    "noiseless": Noiseless(),
    "D = 1": SparseInteger(0.1, 1),
    "D = 3": SparseInteger(0.15, 3),
    "rounded Gaussian": RoundedGaussian(0.5),
    "outliers": Outliers(SparseInteger(0.05, 1), 0.02),
    "positive or negative": PositiveNegative(0.95, 0.98),
    "diluted": PositiveNegative(0.95, 0.98, 0.3),
    "real numbers": Gaussian(0.3, growth=0.1),
    "reads": Reads(60, error=0.02),
    "ranges": Binned([1, 3], SparseInteger(0.1, 1)),
    "saturating": Saturating(2, SparseInteger(0.1, 1)),
    "each pool its own": Noiseless(),  # stands for PerPool, whose noises are as many as a problem has pools
}
PRIORS = ("one rate", "rates", "fixed number", "households", "unknown rate", "unknown level", "control", "known items")


@dataclass(frozen=True)
class Control:
    """Item 0 is a positive control, known to be defective, with a weight that is not 0; the others have one rate.

    No prior of the library has such a weight, and none needs it; the costs of a prior of one's own may have it.
    """

    rate: float = 0.1
    weight: float = -50.0

    def sample(self, instances: int, items: int, *, generator: Generator) -> Tensor:
        """Draw the others."""
        x = Bernoulli(self.rate).sample(instances, items, generator=generator)
        x[:, 0] = 1
        return x

    def marginals(self, items: int) -> Tensor:
        """1 for the control, the rate for the others."""
        rates = torch.full((items,), self.rate, dtype=torch.float64)
        rates[0] = 1.0
        return rates

    def log_prob(self, x: Tensor) -> Tensor:
        """That of the others."""
        return torch.where(x[:, 0] == 1, Bernoulli(self.rate).log_prob(x[:, 1:]), -torch.inf)

    def costs(self, items: int) -> ItemCosts:
        """The control's weight, and a constant that takes it back."""
        weights = torch.full((items,), math.log((1 - self.rate) / self.rate), dtype=torch.float64)
        weights[0] = self.weight
        known = torch.full((items,), FREE, dtype=torch.int8)
        known[0] = 1
        return ItemCosts(-self.weight - (items - 1) * math.log1p(-self.rate), weights, known)


def prior_of(kind: str, items: int, g: Generator) -> Prior:
    """A prior of a kind of `PRIORS`."""
    rate = 0.03 + 0.12 * float(torch.rand((), generator=g))
    rates = (0.5 * rate + rate * torch.rand(items, generator=g, dtype=torch.float64)).tolist()
    families = Households(size=3, seed_rate=rate, attack_rate=0.5, background=0.02)
    if kind == "known items":
        rates[0], rates[-1] = 1.0, 0.0
    priors: dict[str, Prior] = {
        "one rate": Bernoulli(rate),
        "rates": Bernoulli(rates),
        "fixed number": FixedWeight(max(1, round(rate * items))),
        "households": families,
        "unknown rate": UnknownRate(0.01, 2 * rate),
        "unknown level": UnknownLevel((Bernoulli(rates), families)[int(torch.randint(2, (), generator=g))], 0.5, 3.0),
        "control": Control(rate, (-50.0, -3.0, 5.0)[int(torch.randint(3, (), generator=g))]),
        "known items": Bernoulli(rates),
    }
    return priors[kind]


def noise_of(kind: str, pools: int) -> Noise:
    """A noise of a kind of `NOISES`."""
    if kind != "each pool its own":
        return NOISES[kind]
    others = [noise for name, noise in NOISES.items() if name != kind]
    return PerPool([others[(3 * pool + pools) % len(others)] for pool in range(pools)])


def problem_of(noise: str, prior: str, items: int, g: Generator) -> Problem:
    """A problem of these kinds with a random design."""
    pools = max(3, round(items * (0.4 + 0.3 * float(torch.rand((), generator=g)))))
    if items >= 20:
        pools = max(pools, 14)
    if int(torch.randint(2, (), generator=g)):
        design = Design.column_regular(pools=pools, items=items, weight=max(2, pools // 3), generator=g)
    else:
        design = Design.bernoulli(pools=pools, items=items, generator=g)
    return Problem(design, prior_of(prior, items, g), noise_of(noise, pools))


def counts_of(problem: Problem, instances: int, g: Generator, *, missing: bool) -> Tensor:
    """Counts of some instances; every sixth has one that is off by one more, and some may be missing."""
    y = problem.simulate(instances, generator=g).y
    spoilt = torch.arange(instances) % 6 == 5
    where = torch.randint(problem.pools, (instances,), generator=g)
    y[spoilt, where[spoilt]] += 1
    return torch.where(torch.rand(y.shape, generator=g) < 0.25, torch.nan, y) if missing else y
