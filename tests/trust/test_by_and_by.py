"""Simulations a little at a time: they continue where they stopped, simulate nothing twice, and promise little."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import qgt
from qgt.trust import confidence
from qgt.trust.confidence import CERTAIN, CertainCalls, Learned, Monotone
from qgt.trust.fit import student_tail

BRIEFLY = 1e-6  # seconds at once: one batch, however small


def problem() -> qgt.Problem:
    design = qgt.Design.bernoulli(pools=10, items=16, generator=torch.Generator().manual_seed(0))
    return qgt.Problem(design, qgt.Bernoulli(0.1), qgt.SparseInteger(0.1, 1))


@pytest.fixture(autouse=True)
def few_truths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qgt.trust.fit.MOST_INSTANCES", 2000)


@dataclass(frozen=True)
class Watched:
    """A decoder that keeps the counts it is given."""

    seen: list[Tensor]
    inner: qgt.Decoder

    def supports(self, problem: qgt.Problem) -> str | None:
        return self.inner.supports(problem)

    def bind(self, problem: qgt.Problem) -> qgt.Decode:
        bound = self.inner.bind(problem)

        def decode(y: Tensor) -> qgt.Decoded:
            self.seen.append(y)
            return bound(y)

        return decode


def rows(learned: Learned) -> Tensor:
    assert learned.lessons is not None and learned.lessons.scored is not None
    return learned.lessons.scored.given


def test_they_continue_where_they_stopped() -> None:
    """The same rows, whether the decoder goes on or not, and then more: other instances than before."""
    seen: list[Tensor] = []
    real = replace(problem(), noise=qgt.Gaussian(0.3))  # no two instances are equal
    bound = qgt.Calibrated(Watched(seen, qgt.GAMP()), at_once=BRIEFLY).bind(real)
    first = bound.learned()
    assert bound.learned() is first and first.simulated == 2
    second, third = bound.go_on(), bound.go_on()
    assert 2 < second.simulated < third.simulated == sum(map(len, seen))
    assert torch.equal(rows(third)[: second.simulated], rows(second)) and torch.equal(rows(second)[:2], rows(first))
    assert len(torch.cat(seen).unique(dim=0)) == third.simulated


@pytest.mark.parametrize("decoder", [qgt.GAMP(), qgt.Certified(certificates=False), qgt.Prevalence()])
def test_the_next_decoder_continues_from_the_cache(decoder: qgt.Decoder, tmp_path: Path) -> None:
    config = qgt.Calibrated(decoder, at_once=BRIEFLY, cache=tmp_path)
    before = config.bind(problem()).learned()
    after = config.bind(problem()).learned()
    assert after.simulated > before.simulated and len(list(tmp_path.iterdir())) == 1
    assert before.lessons is not None and after.lessons is not None
    kept, more = before.lessons.tensors(), after.lessons.tensors()
    assert kept.keys() == more.keys()
    part = "lists.shape" if before.listed is not None else "scored.given"
    old, new = kept[f"lessons.{part}"], more[f"lessons.{part}"]
    assert len(new) >= len(old) and torch.equal(new[: len(old)], old)


def test_they_come_to_an_end(tmp_path: Path) -> None:
    config = qgt.Calibrated(qgt.GAMP(), at_once=5.0, simulations=300, cache=tmp_path)
    learned = config.bind(problem()).learned()
    assert learned.simulated == 300 and learned.done(config) and learned.lessons is None
    assert config.bind(problem()).learned().simulated == 300


def test_what_was_learned_at_once_is_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = qgt.Calibrated(qgt.GAMP(), simulations=200, cache=tmp_path)
    assert whole.bind(problem()).learned().simulated == 200
    monkeypatch.setattr(confidence, "learn", None)  # nobody may simulate
    assert replace(whole, at_once=BRIEFLY).bind(problem()).learned().simulated == 200


def test_the_library_simulates_all_at_once_and_the_same_each_time() -> None:
    y = problem().simulate(20, generator=torch.Generator().manual_seed(1)).y
    config = qgt.Calibrated(qgt.GAMP(), seconds=60.0, simulations=400)
    first, second = (config.bind(problem())(y).evidence for _ in range(2))
    assert torch.equal(first.confidence, second.confidence) and torch.equal(first.fit, second.fit)


def test_lists_that_were_cut_short_for_lack_of_patience_teach_nothing() -> None:
    """A plate has more time than its simulations have at once, so its list is not like theirs."""
    design = qgt.Design.bernoulli(pools=16, items=60, generator=torch.Generator().manual_seed(0))
    hard = qgt.Problem(design, qgt.Bernoulli(0.1), qgt.SparseInteger(0.1, 1))
    bound = qgt.Calibrated(qgt.Certified(certificates=False, time_limit=5.0), at_once=BRIEFLY).bind(hard)
    learned = bound.learned()
    assert learned.lessons is not None and learned.lessons.lists is not None
    assert learned.simulated >= 2 and bool(learned.lessons.lists.complete.all()) and not learned.supports_certain


@pytest.mark.parametrize(
    ("certain", "wrong", "supported"),
    [
        (98, 0, False),
        (298, 0, False),
        (299, 0, True),
        (472, 1, False),
        (473, 1, True),
        (5000, 50, False),
        (0, 0, False),
    ],
)
def test_certain_is_supported_by_a_bound_and_not_by_a_mean(certain: int, wrong: int, supported: bool) -> None:
    """Clopper and Pearson's bound: if one in a hundred were wrong, so few would be in one of twenty simulations."""
    calls = CertainCalls(*torch.tensor([float(certain), float(wrong)], dtype=torch.float64))
    assert (calls.most >= CERTAIN) is supported


def test_answers_called_certain_after_little_are_right() -> None:
    """From a cold start `certain` rests on longer lists: 99 % of such answers have to be right."""
    g = torch.Generator().manual_seed(3)
    design = qgt.Design.column_regular(pools=17, items=96, weight=4, generator=g)
    plan = qgt.Problem(design, qgt.Bernoulli(0.02), qgt.SparseInteger(0.02, 1))
    x, y = plan.simulate(200, generator=g)
    bound = qgt.Calibrated(qgt.Certified(certificates=False), at_once=BRIEFLY).bind(plan)
    result = bound(y)
    certain = result.evidence.confidence >= CERTAIN
    assert not bound.learned().supports_certain and int(certain.sum()) > 100
    assert int((certain & (result.x != x).any(1)).sum()) <= 2
    scores = qgt.Calibrated(qgt.GAMP(), at_once=BRIEFLY).bind(plan)(y)
    assert float(scores.evidence.confidence.max()) < CERTAIN


def test_pooled_neighbours_are_those_of_scipy() -> None:
    from scipy.optimize import isotonic_regression

    g = torch.Generator().manual_seed(0)
    for number in (1, 2, 7, 60):
        score, yes = torch.rand(number, generator=g).double(), torch.rand(number, generator=g) < 0.5
        fitted, order = Monotone.fit(score, yes), score.argsort()
        level = torch.from_numpy(isotonic_regression(yes[order].double().numpy()).x)
        stretches = 1 + int((level.diff() > 1e-9).sum())
        assert len(fitted.at) == 2 * stretches and bool((fitted.share.diff() >= 0).all())


@pytest.mark.parametrize("freedom", [1000.0, 2e4, 99_999.0])
def test_with_much_freedom_the_tail_is_that_of_scipy(freedom: float) -> None:
    from scipy.special import stdtr

    score = torch.linspace(-5, 8, 50, dtype=torch.float64)
    exact = torch.from_numpy(stdtr(freedom, -score.numpy()))
    torch.testing.assert_close(student_tail(score, freedom), exact, rtol=1e-4, atol=0.0)
