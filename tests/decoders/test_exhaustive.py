"""Enumeration against a plain loop over every x, with the problem's own log joint."""

import itertools
import math

import pytest
import torch

from qgt import (
    Bernoulli,
    Design,
    Exhaustive,
    FixedWeight,
    Households,
    Noiseless,
    Problem,
    RoundedGaussian,
    SparseInteger,
    Status,
)
from qgt.decoders import exhaustive


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def every_x(items: int) -> torch.Tensor:
    """All statuses, in the order of binary numbers."""
    return torch.tensor(list(itertools.product((0, 1), repeat=items)), dtype=torch.uint8)


def design(items: int, pools: int, seed: int) -> Design:
    return Design.bernoulli(pools=pools, items=items, generator=generator(seed))


PRIORS = [
    Bernoulli(0.2),
    Bernoulli([0.0, 0.1, 1.0, 0.5, 0.9, 0.3, 0.0]),
    FixedWeight(3),
    Households(size=3, seed_rate=0.3, attack_rate=0.6),
]
NOISES = [Noiseless(), SparseInteger(rate=0.2, bound=1), SparseInteger(rate=0.5, bound=3), RoundedGaussian(0.6)]


@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize("prior", PRIORS, ids=lambda prior: type(prior).__name__)
def test_it_is_the_loop_over_every_x(prior, noise):
    problem = Problem(design(items=7, pools=4, seed=1), prior, noise)
    y = torch.cat([problem.simulate(10, generator=generator(2)).y, torch.tensor([[2.0, 3, 0, 1]], dtype=torch.float64)])
    result = Exhaustive().bind(problem)(y)
    every = every_x(7)
    for i, counts in enumerate(y):
        joint = problem.log_joint(every, counts.expand(len(every), -1))
        if math.isinf(joint.max()):
            assert int(result.status[i]) == Status.INFEASIBLE
            continue
        posterior = joint.softmax(0)
        assert int(result.status[i]) == Status.PROVED
        assert float(result.evidence.log_joint[i]) == pytest.approx(float(joint.max()), abs=1e-9)
        assert float(result.evidence.confidence[i]) == pytest.approx(float(posterior.max()), abs=1e-12)
        assert result.scores[i].tolist() == pytest.approx((posterior @ every.double()).tolist(), abs=1e-12)
        first = int((joint >= joint.max() - 1e-9).nonzero()[0])
        assert torch.equal(result.x[i], every[first])


@pytest.mark.parametrize("items", range(1, 10))
def test_halves_of_every_size(items):
    problem = Problem(design(items, pools=3, seed=items), Bernoulli(0.4), SparseInteger(rate=0.3, bound=1))
    y = problem.simulate(5, generator=generator(items)).y
    result = Exhaustive().bind(problem)(y)
    every = every_x(items)
    joint = torch.stack([problem.log_joint(every, counts.expand(len(every), -1)) for counts in y])
    torch.testing.assert_close(result.evidence.log_joint, joint.amax(1))
    torch.testing.assert_close(result.scores, joint.softmax(1) @ every.double())


def test_of_equally_probable_answers_the_first_is_called_however_the_batch_is_cut(monkeypatch):
    # Items 1 to 6 are in the same pools; 2 of them are defective.
    problem = Problem(Design.from_rows(["1111110", "1111111"]), Bernoulli(0.3))
    y = torch.tensor([[2, 2], [0, 0], [2, 3], [6, 6]], dtype=torch.float64).repeat(5, 1)
    result = Exhaustive().bind(problem)(y)
    assert result.x[:4].tolist() == [[0, 0, 0, 0, 1, 1, 0], [0] * 7, [0, 0, 0, 0, 1, 1, 1], [1, 1, 1, 1, 1, 1, 0]]
    assert result.evidence.confidence[:4].tolist() == pytest.approx([1 / 15, 1, 1 / 15, 1])
    monkeypatch.setattr(exhaustive, "STATUSES_AT_A_TIME", 1)  # one instance at a time
    cut = Exhaustive().bind(problem)(y)
    assert torch.equal(cut.x, result.x)
    torch.testing.assert_close(cut.scores, result.scores)


def test_counts_that_contradict_each_other_are_infeasible():
    problem = Problem(Design.from_rows(["110", "110", "001"]), Bernoulli([0.1, 0.2, 0.3]))
    result = Exhaustive().bind(problem)(torch.tensor([[1, 2, 0], [1, 1, 0], [3, 3, 0]], dtype=torch.float64))
    assert result.status.tolist() == [Status.INFEASIBLE, Status.PROVED, Status.INFEASIBLE]
    assert result.x.tolist() == [[0, 0, 0], [0, 1, 0], [0, 0, 0]]
    assert result.scores[0].tolist() == [0.1, 0.2, 0.3]  # nothing was learned
    assert result.evidence.confidence.tolist() == pytest.approx([0, 0.18 / 0.26, 0])
    assert float(result.evidence.log_joint[0]) == -math.inf


def test_no_instances():
    result = Exhaustive().bind(Problem(design(6, 3, seed=0), Bernoulli(0.3)))(torch.zeros(0, 3, dtype=torch.float64))
    assert result.x.shape == result.scores.shape == (0, 6)


def test_twenty_items_are_the_most():
    generous = Problem(design(20, pools=12, seed=3), Bernoulli(0.1), SparseInteger(rate=0.1, bound=1))
    x, y = generous.simulate(3, generator=generator(4))
    result = Exhaustive().bind(generous)(y)
    assert bool((result.evidence.log_joint >= generous.log_joint(x, y) - 1e-9).all())
    assert bool(((result.scores >= 0) & (result.scores <= 1)).all())
    large = Problem(design(21, pools=4, seed=3), Bernoulli(0.1))
    with pytest.raises(ValueError, match=r"21 items.*up to 20"):
        Exhaustive().bind(large)


def test_a_prior_without_probabilities_is_refused():
    class Mute:
        def sample(self, instances, items, *, generator):
            return torch.zeros(instances, items, dtype=torch.uint8)

    assert "can only be sampled" in Exhaustive().supports(Problem(Design.from_rows(["11"]), Mute()))
