"""The conformance suites for priors and noises: what is built in passes, and each kind of fault is caught."""

import math
from dataclasses import dataclass

import pytest
import torch
from torch import Generator, Tensor

import qgt
from forgeries.problems import Control
from qgt.model.categories import PartsPrior
from qgt.model.prior import ItemCosts
from qgt.model.problem import NOISES, PRIORS
from qgt.testing import NOISE_CHECKS, PRIOR_CHECKS, ConformanceError, check_noise, check_prior

FAMILIES = qgt.Households(size=3, seed_rate=0.2, attack_rate=0.5, background=0.03)
BUILT_IN: list[tuple[qgt.Prior, int]] = [
    (qgt.Bernoulli(0.2), 8),
    (qgt.Bernoulli([0.1, 0.0, 1.0, 0.5, 0.3]), 5),
    (qgt.FixedWeight(3), 8),
    (qgt.UnknownRate(0.01, 0.4), 8),
    (qgt.UnknownLevel(qgt.Bernoulli([0.1, 0.2, 0.3, 0.0, 1.0]), 0.5, 3.0), 5),
    (qgt.UnknownLevel(FAMILIES, 0.5, 3.0), 8),
    (FAMILIES, 8),
    (qgt.Households(labels=list("aabbc"), seed_rate=0.2, attack_rate=1.0), 5),
    (Control(weight=-50.0), 8),
    (PartsPrior(qgt.Categories((0.3, 0.2))), 6),
    (PartsPrior(qgt.Categories([(0.3, 0.2), (0.0, 0.6), (0.1, 0.0)])), 6),
    (PartsPrior(qgt.Copies(frequency=[0.3, 0.0, 0.7], ploidy=2)), 6),
    (PartsPrior(qgt.Copies(frequency=0.3, ploidy=3)), 6),
]
NOISY: list[qgt.Noise] = [
    qgt.Noiseless(),
    qgt.SparseInteger(0.1, 1),
    qgt.SparseInteger(1.0, 3),
    qgt.PerCategory([qgt.SparseInteger(0.2, 2), qgt.PerPool([qgt.Noiseless(), qgt.Gaussian(0.4)])]),
    qgt.RoundedGaussian(0.4),
    qgt.RoundedGaussian(3.0),
    qgt.Gaussian(0.3),
    qgt.Gaussian(0.2, growth=0.3),
    qgt.Gaussian(1e-6),
    qgt.Binned([1, 3]),
    qgt.Binned([1, 2, 6], qgt.RoundedGaussian(1.0)),
    qgt.Saturating(2),
    qgt.Saturating(3, qgt.RoundedGaussian(0.6)),
    qgt.PositiveNegative(),
    qgt.PositiveNegative(0.9, 0.95, 0.2),
    qgt.Reads(100, 0.01),
    qgt.Outliers(qgt.SparseInteger(0.1, 1), 0.05),
    qgt.Outliers(qgt.Gaussian(0.3), 0.1),
    qgt.PerPool([qgt.Noiseless(), qgt.Gaussian(0.2)]),
    qgt.Outliers(qgt.PerPool([qgt.Noiseless(), qgt.Gaussian(0.2)]), 0.03),
]


@pytest.mark.parametrize(("prior", "items"), BUILT_IN)
def test_every_prior_passes(prior: qgt.Prior, items: int) -> None:
    result = check_prior(prior, items=items)
    assert set(result.passed) == set(PRIOR_CHECKS) and not result.not_applicable


@pytest.mark.parametrize("noise", NOISY, ids=repr)
def test_every_noise_passes(noise: qgt.Noise) -> None:
    result = check_noise(noise)
    assert set(result.passed) == set(NOISE_CHECKS) and not result.not_applicable


def test_no_prior_and_no_noise_is_left_out() -> None:
    # Amounts, copies and categories have tests of their own: tests/model/test_loads.py and test_categories.py.
    others = {qgt.Loads, qgt.Categories, qgt.Copies}
    assert {type(prior) for prior, _ in BUILT_IN} >= set(PRIORS.values()) - others
    assert {type(noise) for noise in NOISY} >= {kind for kind in NOISES.values() if not hasattr(kind, "not_detected")}


@pytest.mark.parametrize("noise", [qgt.CycleThreshold(0.25, limit=38.0), qgt.Amount(0.1, 1.0)], ids=repr)
def test_noises_of_amounts_pass_what_applies(noise: qgt.Noise) -> None:
    result = check_noise(noise)
    assert set(result.passed) | set(result.not_applicable) == set(NOISE_CHECKS)
    assert len(result.passed) >= 5
    with pytest.raises(ValueError, match="who is positive"):
        check_prior(qgt.Loads(rate=0.1, mean=1.0, sd=1.0))


def test_a_prior_that_can_only_be_sampled_is_checked_as_far_as_it_goes() -> None:
    result = check_prior(_SampleOnly())
    assert set(result.passed) == {"samples_are_zeros_and_ones", "samples_follow_the_generator"}
    assert "can only be sampled" in result.not_applicable["probabilities_sum_to_one"]


@pytest.mark.usefixtures("unchecked")  # the annotations would refuse these first
def test_what_is_no_part_is_refused() -> None:
    with pytest.raises(ValueError, match="give an object with the method `sample`"):
        check_prior(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="items=20"):
        check_prior(qgt.Bernoulli(0.1), items=20)
    with pytest.raises(ValueError, match="give one with integer, reach, sample and log_prob"):
        check_noise("noise")  # type: ignore[arg-type]


@dataclass(frozen=True)
class _SampleOnly:
    def sample(self, instances: int, items: int, *, generator: Generator) -> Tensor:
        return qgt.Bernoulli(0.1).sample(instances, items, generator=generator)


# --- faulty priors --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prior:
    """A right one, to break: items with one rate, of which the first is known to be defective."""

    rate: float = 0.2

    def sample(self, instances: int, items: int, *, generator: Generator) -> Tensor:
        return Control(self.rate).sample(instances, items, generator=generator)

    def marginals(self, items: int) -> Tensor:
        return Control(self.rate).marginals(items)

    def log_prob(self, x: Tensor) -> Tensor:
        return Control(self.rate).log_prob(x)

    def costs(self, items: int) -> ItemCosts:
        return Control(self.rate).costs(items)


class Floats(Prior):
    def sample(self, instances: int, items: int, *, generator: Generator) -> Tensor:
        return super().sample(instances, items, generator=generator).double()


class Global(Prior):
    def sample(self, instances: int, items: int, *, generator: Generator) -> Tensor:
        x = (torch.rand(instances, items) < self.rate).to(torch.uint8)
        x[:, 0] = 1
        return x


class Unnormalised(Prior):
    def log_prob(self, x: Tensor) -> Tensor:
        return super().log_prob(x) - 0.01

    def costs(self, items: int) -> ItemCosts:
        told = super().costs(items)
        return ItemCosts(told.constant + 0.01, told.weights, told.known)


class NotANumber(Prior):
    def log_prob(self, x: Tensor) -> Tensor:
        return torch.where(x.sum(1) > 6, torch.nan, super().log_prob(x))


class Batched(Prior):
    def log_prob(self, x: Tensor) -> Tensor:
        return super().log_prob(x) + (0.0 if len(x) > 1 else -1e-6)


class OtherMarginals(Prior):
    def marginals(self, items: int) -> Tensor:
        rates = super().marginals(items)
        rates[1] += 1e-6
        return rates


class OtherSamples(Prior):
    def sample(self, instances: int, items: int, *, generator: Generator) -> Tensor:
        return Control(self.rate + 0.02).sample(instances, items, generator=generator)


class Together(Prior):
    """The right marginals, but items 1 and 2 are defective together."""

    def sample(self, instances: int, items: int, *, generator: Generator) -> Tensor:
        x = super().sample(instances, items, generator=generator)
        x[:, 2] = x[:, 1]
        return x


class OtherCosts(Prior):
    def costs(self, items: int) -> ItemCosts:
        told = super().costs(items)
        weights = told.weights.clone()
        weights[3] += 1e-6
        return ItemCosts(told.constant, weights, told.known)


class Forgotten(Prior):
    """Its costs do not know that item 0 is always defective."""

    def costs(self, items: int) -> ItemCosts:
        return qgt.Bernoulli([1 - 1e-9] + [self.rate] * (items - 1)).costs(items)


class WronglyKnown(Prior):
    def sample(self, instances: int, items: int, *, generator: Generator) -> Tensor:
        return qgt.Bernoulli(self.rate).sample(instances, items, generator=generator)


PRIOR_FAULTS = {
    Floats: {"samples_are_zeros_and_ones"},
    Global: {"samples_follow_the_generator"},
    Unnormalised: {"probabilities_sum_to_one"},
    NotANumber: {"log_prob_is_of_a_probability"},
    Batched: {"log_prob_is_of_a_probability"},
    OtherMarginals: {"marginals_are_those_of_log_prob"},
    OtherSamples: {"samples_have_the_marginals", "samples_follow_log_prob"},
    Together: {"samples_follow_log_prob"},
    OtherCosts: {"costs_are_minus_log_prob"},
    Forgotten: {"costs_are_minus_log_prob"},
    WronglyKnown: {"known_items_are_always_so"},
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("faulty", "caught"), PRIOR_FAULTS.items())
def test_a_faulty_prior_is_caught(faulty: type[Prior], caught: set[str]) -> None:
    check_prior(Prior())
    with pytest.raises(ConformanceError, match=rf"fails \d+ of {len(PRIOR_CHECKS)} checks") as error:
        check_prior(faulty())
    assert caught <= set(error.value.failures)


# --- faulty noises --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Noise:
    """A right one, to break."""

    rate: float = 0.2
    integer = True

    def reach(self, size: int, tail: float) -> float:
        return 1.0

    def sample(self, counts: Tensor, sizes: Tensor, *, generator: Generator) -> Tensor:
        return qgt.SparseInteger(self.rate, 1).sample(counts, sizes, generator=generator)

    def log_prob(self, y: Tensor, counts: Tensor, sizes: Tensor) -> Tensor:
        return qgt.SparseInteger(self.rate, 1).log_prob(y, counts, sizes)


class NoBoolean(Noise):
    integer = "yes"  # type: ignore[assignment]


class Negative(Noise):
    def reach(self, size: int, tail: float) -> float:
        return -1.0


class TooShort(Noise):
    def reach(self, size: int, tail: float) -> float:
        return 0.0 if tail == 0.01 else 1.0


class Spoils(Noise):
    def sample(self, counts: Tensor, sizes: Tensor, *, generator: Generator) -> Tensor:
        counts += 1
        return super().sample(counts, sizes, generator=generator)


class Halves(Noise):
    def sample(self, counts: Tensor, sizes: Tensor, *, generator: Generator) -> Tensor:
        return super().sample(counts, sizes, generator=generator) + 0.5


class GlobalNoise(Noise):
    def sample(self, counts: Tensor, sizes: Tensor, *, generator: Generator) -> Tensor:
        return super().sample(counts, sizes, generator=Generator().manual_seed(int(torch.randint(2**40, ()))))


class NotANumberAtZero(Noise):
    def log_prob(self, y: Tensor, counts: Tensor, sizes: Tensor) -> Tensor:
        return torch.where(counts == 0, torch.nan, super().log_prob(y, counts, sizes))


class Certain(Noise):
    def log_prob(self, y: Tensor, counts: Tensor, sizes: Tensor) -> Tensor:
        return super().log_prob(y, counts, sizes) + 0.3


class Flat(Noise):
    def log_prob(self, y: Tensor, counts: Tensor, sizes: Tensor) -> Tensor:
        return super().log_prob(y.flatten(), counts.flatten()[:1], sizes.flatten()[:1])


class OtherErrors(Noise):
    def sample(self, counts: Tensor, sizes: Tensor, *, generator: Generator) -> Tensor:
        return qgt.SparseInteger(self.rate + 0.03, 1).sample(counts, sizes, generator=generator)


class Impossible(Noise):
    def sample(self, counts: Tensor, sizes: Tensor, *, generator: Generator) -> Tensor:
        return qgt.SparseInteger(self.rate, 2).sample(counts, sizes, generator=generator)


class CalledText(Noise):
    reports = "counts"


class UsuallyImpossible(Noise):
    def usual_report(self, counts: Tensor, sizes: Tensor) -> Tensor:
        return counts + 2


class UsuallyOne(Noise):
    def usual_report(self, counts: Tensor, sizes: Tensor) -> Tensor:
        return counts[0]


class Unspeakable(Noise):
    reports = qgt.Reports(words={1.0: ""})


class Wide(Noise):
    """A density that does not integrate to one, and whose samples are wider than it."""

    integer = False

    def reach(self, size: int, tail: float) -> float:
        return qgt.Gaussian(0.4).reach(size, tail)

    def sample(self, counts: Tensor, sizes: Tensor, *, generator: Generator) -> Tensor:
        return qgt.Gaussian(0.33).sample(counts, sizes, generator=generator)

    def log_prob(self, y: Tensor, counts: Tensor, sizes: Tensor) -> Tensor:
        return qgt.Gaussian(0.3).log_prob(y, counts, sizes) + math.log(1.01)


NOISE_FAULTS = {
    NoBoolean: {"it_says_what_reports_are"},
    Negative: {"it_says_what_reports_are"},
    TooShort: {"reach_is_exceeded_rarely"},
    Spoils: {"samples_are_reports"},
    Halves: {"samples_are_reports", "reports_follow_log_prob"},
    GlobalNoise: {"reports_follow_the_generator"},
    NotANumberAtZero: {"log_prob_is_a_number"},
    Certain: {"log_prob_is_a_number", "probabilities_of_reports_sum_to_one"},
    Flat: {"its_arguments_broadcast"},
    CalledText: {"it_describes_its_reports"},
    UsuallyImpossible: {"it_describes_its_reports"},
    UsuallyOne: {"it_describes_its_reports"},
    Unspeakable: {"it_describes_its_reports"},
    OtherErrors: {"reports_follow_log_prob"},
    Impossible: {"reports_follow_log_prob"},
    Wide: {"probabilities_of_reports_sum_to_one", "reports_follow_log_prob"},
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("faulty", "caught"), NOISE_FAULTS.items())
def test_a_faulty_noise_is_caught(faulty: type[Noise], caught: set[str]) -> None:
    check_noise(Noise())
    with pytest.raises(ConformanceError, match=rf"fails \d+ of {len(NOISE_CHECKS)} checks") as error:
        check_noise(faulty())
    assert caught <= set(error.value.failures)


def test_every_check_catches_something() -> None:
    of_priors = set.union(*PRIOR_FAULTS.values())
    assert set(PRIOR_CHECKS) - of_priors == {"it_is_refused_or_right_with_one_item"}
    assert set.union(*NOISE_FAULTS.values()) == set(NOISE_CHECKS)
