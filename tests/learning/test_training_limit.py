"""How far from the limit: an exact decoder is not far, a guess is, and a prior that can only be drawn from has none."""

from dataclasses import dataclass

import pytest
import torch

import qgt
from qgt.learning.training import compared_with_limit, estimated_seconds, limit_decoder


def problem(prior: qgt.Sampler = qgt.Bernoulli(0.15)) -> qgt.Problem:  # noqa: B008 - frozen
    design = qgt.Design.bernoulli(pools=8, items=12, generator=torch.Generator().manual_seed(0))
    return qgt.Problem(design, prior, qgt.SparseInteger(rate=0.1, bound=1))


@dataclass(frozen=True)
class OneOfTwo:
    def sample(self, instances: int, items: int, *, generator: torch.Generator) -> torch.Tensor:
        x = torch.zeros(instances, items, dtype=torch.uint8)
        x[torch.arange(instances), torch.randint(2, (instances,), generator=generator)] = 1
        return x


def test_the_exact_decoder_is_at_the_limit_and_a_guess_below() -> None:
    g = torch.Generator().manual_seed(1)
    exact = compared_with_limit(qgt.Exhaustive(), problem(), seconds=60.0, most=60, generator=g)
    assert exact is not None
    assert (exact.instances, exact.proved) == (60, 60)
    assert abs(exact.right - exact.limit) <= 3  # of equally probable answers each takes its own
    g.manual_seed(1)
    guess = compared_with_limit(qgt.Prevalence(), problem(), seconds=60.0, most=60, generator=g)
    assert guess is not None
    assert guess.limit == exact.limit  # the same instances
    nothing = (0.85**12) * 60
    assert guess.right < nothing + 15
    assert guess.gap == pytest.approx((exact.limit - guess.right) / 60)
    assert guess.gap > 0.2


def test_time_ends_it_after_a_batch() -> None:
    found = compared_with_limit(qgt.Prevalence(), problem(), seconds=1e-9, generator=torch.Generator().manual_seed(1))
    assert found is not None
    assert found.instances == 20


def test_who_finds_the_limit() -> None:
    assert isinstance(limit_decoder(problem()), qgt.Certified)
    households = problem(qgt.Households(size=4, seed_rate=0.1, attack_rate=0.6))
    assert limit_decoder(households) is not None
    assert limit_decoder(problem(OneOfTwo())) is None
    net = qgt.COMP()
    assert (
        compared_with_limit(net, problem(OneOfTwo()), seconds=1.0, generator=torch.Generator().manual_seed(0)) is None
    )


def test_an_estimate_counts_every_step_and_leaves_no_trace() -> None:
    before = torch.random.get_rng_state()
    short, long = (qgt.TrainConfig.fresh(steps=steps, batch=20, validation=100) for steps in (100, 10_000))
    network = qgt.Refining(8, 1, 2)
    (step, whole), (_, longer) = (estimated_seconds(problem(), network, config) for config in (short, long))
    assert whole > 100 * step
    assert longer > whole  # a hundred times the steps, the same hundred validations
    assert torch.equal(torch.random.get_rng_state(), before)
