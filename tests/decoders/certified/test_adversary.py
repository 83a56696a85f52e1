"""The adversary against the checker, and against checkers that were broken on purpose."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch
from forged_proofs import cases, expect_only_honest_accepted
from numpy.typing import NDArray

import qgt
from forgeries.adversary import Attack, attack
from forgeries.case import Case
from forgeries.problems import NOISES, PRIORS, Control, counts_of, problem_of
from qgt.decoders import checker
from qgt.decoders.checker import STEP_MARGIN, InstanceCosts
from qgt.model.prior import FREE, ItemCosts

pytestmark = pytest.mark.usefixtures("unchecked")  # a third faster, and some forgeries are of types that are refused


def cases_of(noise: str, prior: str, *, items: int = 8, instances: int = 3, missing: bool = False) -> list[Case]:
    g = torch.Generator().manual_seed(7)
    problem = problem_of(noise, prior, items, g)
    return [case for case in cases(problem, counts_of(problem, instances, g, missing=missing)) if case.truth.possible]


def some_defective(noise: str) -> list[Case]:
    """Cases whose best x has defectives, so that multipliers and shares matter to it."""
    return [case for case in cases_of(noise, "rates", instances=40) if int(case.truth.x[0].sum()) >= 2][:3]


@pytest.mark.parametrize(("number", "noise"), list(enumerate(NOISES)))
def test_no_certificate_of_a_false_claim_is_found(number: int, noise: str) -> None:
    g = torch.Generator().manual_seed(number)
    some = cases_of(noise, PRIORS[number % len(PRIORS)], missing=number % 3 == 1)
    found = [attack(case, g, generations=6) for case in some]
    assert sum(one.tried for one in found) > 20 * len(found)
    assert not any(one.through for one in found)
    assert all(one.left > 0 for one in found if one.tried)


@pytest.mark.parametrize("prior", PRIORS)
def test_every_prior_withstands_every_kind_of_forgery(prior: str) -> None:
    """In the paper's own setting, where costs have steps, and each pool with a noise of its own; counts are missing."""
    g = torch.Generator().manual_seed(0)
    for noise in ("D = 1", "each pool its own"):
        seen = expect_only_honest_accepted(cases_of(noise, prior, instances=2, missing=True), g)
        assert len(seen) > 25


# --- broken on purpose ----------------------------------------------------------------------------------------------


# With these draws the adversary needs a few attacks only: a broken checker is attacked until one gets through.
SEEDS = {"generous shares": 5, "kept is cover": 2, "no rounding": 16}
ANY_SEED = 3


def attacked(case_list: list[Case], seed: int = ANY_SEED, most: int = 45) -> list[Attack]:
    """Attacks on one case after the other, until one gets through."""
    g, made = torch.Generator().manual_seed(seed), []
    for case in itertools.islice(itertools.cycle(case_list), most):
        made.append(attack(case, g))
        if made[-1].through:
            break
    return made


def control() -> list[Case]:
    """A known item with a weight, equal rates and counts of two costs."""
    g = torch.Generator().manual_seed(0)
    problem = qgt.Problem(qgt.Design.bernoulli(pools=6, items=8, generator=g), Control(), qgt.SparseInteger(0.1, 1))
    return cases(problem, problem.simulate(3, generator=g).y)


def steps_without_known_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was: the grid of costs left out what known items weigh, in the checker and in the search."""

    def enough(costs: InstanceCosts, limit: float) -> NDArray[np.float64]:
        weights, known = costs.shared.weights, costs.shared.known
        free, finite = known == FREE, costs.tables[np.isfinite(costs.tables)]
        k = np.arange(len(known) + 1)
        low, high = finite.min(), finite.max()
        base = costs.shared.constant + weights[free][0] * (k - (known == 1).sum()) + len(costs.tables) * low
        base = base + costs.shared.numbers
        steps = np.ceil((limit - base) / (high - low)) - 1
        return np.where((base < limit) & (steps >= 0), base + (high - low) * steps + STEP_MARGIN, -np.inf)

    monkeypatch.setattr(InstanceCosts, "enough", enough)
    monkeypatch.setattr(ItemCosts, "__post_init__", lambda costs: None)


def no_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checker, "_rounding", lambda costs, pi, shares, size: np.zeros(len(pi)))
    monkeypatch.setattr(checker, "EPS", 0.0)


def generous_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pools pay back only half of what their items have received."""
    right = checker._most_shared
    monkeypatch.setattr(checker, "_most_shared", lambda *arguments: 0.5 * right(*arguments))


def turning_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a turned item costs its pools is counted twice."""
    right = checker._turning
    monkeypatch.setattr(checker, "_turning", lambda *arguments: 2 * right(*arguments) + 1)


def any_cover(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves need not hold every x."""
    monkeypatch.setattr(checker, "hold_every_x", lambda shared, leaves: len(leaves.least) > 0)


def kept_is_cover(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leaf that keeps items is taken for one that leaves them free."""
    right = checker._covers
    monkeypatch.setattr(
        checker, "_covers", lambda fixed, groups: right(np.where(fixed >= 2, np.int8(FREE), fixed), groups)
    )


def marked_is_cover(monkeypatch: pytest.MonkeyPatch) -> None:
    """A set of which at least one item is defective is taken for free items."""
    right = checker._covers
    monkeypatch.setattr(
        checker, "_covers", lambda fixed, groups: right(np.where(fixed < FREE, np.int8(FREE), fixed), groups)
    )


def all_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leaf's own x needs neither to be listed nor to cost as much as the limit."""
    monkeypatch.setattr(checker, "STEP_MARGIN", np.inf)


BROKEN: dict[str, tuple[Callable[[pytest.MonkeyPatch], None], Callable[[], list[Case]]]] = {
    "steps without known weights": (steps_without_known_weights, control),
    "no rounding": (no_rounding, lambda: some_defective("real numbers")),
    "generous shares": (generous_shares, lambda: some_defective("positive or negative")),
    "turning twice": (turning_twice, lambda: cases_of("positive or negative", "rates")),
    "any cover": (any_cover, lambda: cases_of("D = 1", "rates")),
    "kept is cover": (kept_is_cover, lambda: cases_of("D = 1", "rates")),
    "marked is cover": (marked_is_cover, lambda: cases_of("D = 1", "households")),
    "all listed": (all_listed, lambda: cases_of("real numbers", "rates")),
}


@pytest.mark.usefixtures("unchecked")  # certificates by the thousand; types are checked in other tests
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_checker_is_seen_through(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spoil, make = BROKEN[name]
    some, seed = make(), SEEDS.get(name, ANY_SEED)
    with monkeypatch.context() as broken:
        spoil(broken)
        found = attacked(some if name != "steps without known weights" else control(), seed)
    assert found[-1].through
    # The same attacks on the checker as it is do not get through; three of them, as many as there are cases.
    assert not any(one.through for one in attacked(some, seed, min(3, len(found))))


def test_the_known_weight_alone_is_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One leaf of all x without multipliers was enough: every possible x could be called the best."""
    steps_without_known_weights(monkeypatch)
    (*_, last) = attacked(control())
    assert last.through[0].why == "another answer is more probable"
    assert last.tried <= 4  # the first certificates that the adversary writes down
