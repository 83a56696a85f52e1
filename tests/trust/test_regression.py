"""Logistic regression finds the weights it was drawn from; the monotone function is the nearest that never falls."""

import itertools

import pytest
import torch

from qgt.trust.regression import Logistic, Monotone


def test_it_finds_the_chances_that_were_drawn_from() -> None:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(20_000, 3, generator=g, dtype=torch.float64) * torch.tensor([1.0, 10.0, 0.1]) + 5
    true = torch.sigmoid((x - 5) @ torch.tensor([1.0, -0.1, 0.0], dtype=torch.float64) - 1)
    fitted = Logistic.fit(x, torch.rand(20_000, generator=g) < true)
    assert float((fitted(x) - true).abs().mean()) < 0.01
    sure = Logistic.fit(x, true)  # chances tell more than yes and no
    assert float((sure(x) - true).abs().mean()) < 0.001


@pytest.mark.parametrize("answer", [False, True])
def test_where_all_are_alike_the_chance_stays_within_0_and_1(answer: bool) -> None:
    x = torch.randn(50, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    p = Logistic.fit(x, torch.full((50,), answer))(x)
    assert bool(((p > 0) & (p < 1)).all())
    assert bool((p > 0.9).all()) if answer else bool((p < 0.1).all())


def test_with_nothing_observed_it_is_the_guess() -> None:
    none = torch.zeros(0, 2, dtype=torch.float64)
    fitted = Logistic.fit(none, torch.zeros(0, dtype=torch.bool), expected=none[:, 0])
    guess = torch.tensor([0.02, 0.5, 0.9], dtype=torch.float64)
    assert fitted(torch.ones(3, 2, dtype=torch.float64), guess.logit()).tolist() == pytest.approx(guess.tolist())


def test_without_guesses_one_half_counts_as_two_observations() -> None:
    same = torch.zeros(98, 1, dtype=torch.float64)
    yes = torch.arange(98) < 20
    assert float(Logistic.fit(same, yes)(same)[0]) == pytest.approx(21 / 100)


def test_a_guess_is_corrected_by_many_observations_and_little_by_few() -> None:
    wrong = torch.tensor([0.02], dtype=torch.float64).logit()  # where one in five is a yes
    told = []
    for number in (5, 5000):
        same, yes = torch.zeros(number, 1, dtype=torch.float64), torch.arange(number) % 5 == 0
        told.append(float(Logistic.fit(same, yes, expected=wrong.expand(number))(same[:1], wrong)))
    assert 0.02 < told[0] < 0.15
    assert told[1] == pytest.approx(0.2, abs=0.002)


def test_monotone_equals_trying_every_way_to_pool() -> None:
    g = torch.Generator().manual_seed(0)
    for _ in range(20):
        yes = torch.rand(7, generator=g) < 0.5
        fitted = Monotone.fit(torch.arange(7.0, dtype=torch.float64), yes)
        best = min(_squares(yes, cuts) for n in range(7) for cuts in itertools.combinations(range(1, 7), n))
        assert _pooled(yes, fitted) == pytest.approx(best)


def _squares(yes: torch.Tensor, cuts: tuple[int, ...]) -> float:
    """Squared distances from the means of some stretches; infinite where these fall."""
    parts = torch.tensor_split(yes.double(), list(cuts))
    means = [float(part.mean()) for part in parts]
    if any(a > b for a, b in itertools.pairwise(means)):
        return float("inf")
    return sum(float((part - mean).square().sum()) for part, mean in zip(parts, means, strict=True))


def _pooled(yes: torch.Tensor, fitted: Monotone) -> float:
    """The same for the stretches that were pooled: their means, without what was added to each."""
    start, total = 0, 0.0
    for first, last in fitted.at.view(-1, 2).long().tolist():
        assert first == start
        part = yes[first : last + 1].double()
        total += float((part - part.mean()).square().sum())
        start = last + 1
    assert start == len(yes)
    return total


def test_monotone_never_falls_and_is_never_certain() -> None:
    g = torch.Generator().manual_seed(0)
    score = torch.rand(500, generator=g, dtype=torch.float64)
    fitted = Monotone.fit(score, torch.rand(500, generator=g) < score)
    p = fitted(torch.linspace(-1, 2, 300, dtype=torch.float64))
    assert bool((p.diff() >= 0).all()) and float(p.min()) > 0 and float(p.max()) < 1
    assert float((fitted(score) - score).abs().mean()) < 0.1


def test_equal_scores_have_the_share_of_all_of_them() -> None:
    """In whatever order they come: three values of 4,000 scores, as instances of few and equal items have."""
    g = torch.Generator().manual_seed(5)
    score = torch.randint(3, (4000,), generator=g).double() / 3
    yes = torch.rand(4000, generator=g) < 0.2 + 0.6 * score
    fitted = Monotone.fit(score, yes)
    for value in (0.0, 1 / 3, 2 / 3):
        here = (score - value).abs() < 1e-9
        told = float(fitted(torch.tensor([value], dtype=torch.float64))[0])
        assert abs(told - float(yes[here].double().mean())) < 2e-3
