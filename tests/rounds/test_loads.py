"""Rounds of pools with loads: later pools settle what the first left open, and are few."""

import torch

import qgt
from qgt.rounds.history import History, measure
from qgt.rounds.stopping import Settle, history_fit


def problem() -> qgt.Problem:
    generator = torch.Generator().manual_seed(0)
    design = qgt.few_transfers(items=40, pools=10, weight=3, generator=generator)
    loads = qgt.Loads(rate=0.05, mean=3.0, sd=1.5, low=0.0)
    return qgt.Problem(design, loads, qgt.CycleThreshold(sigma=0.25, limit=38.0))


def test_later_pools_settle_what_the_first_left_open() -> None:
    first, generator = problem(), torch.Generator().manual_seed(1)
    x, y = first.simulate(12, generator=generator)
    histories = [History.start(first, row) for row in y]
    settle = Settle(confidence=0.99)
    unsure_at_first = None
    for _ in range(4):
        result = settle(histories)
        confidence = result.evidence.confidence
        assert confidence is not None
        open_ = [i for i in range(12) if not float(confidence[i]) >= 0.99]
        unsure_at_first = unsure_at_first or len(open_)
        if not open_:
            break
        for i in open_:
            own = result.pick(torch.tensor([i]))
            (more,) = qgt.next_pools(histories[i].problem, histories[i].y[None], own, pools=3, generator=generator)
            reports = measure(histories[i].setting, x[i], more.matrix, generator=generator)
            histories[i] = histories[i].after(more.matrix, reports)
    assert unsure_at_first and unsure_at_first >= 2  # otherwise nothing was shown
    right = (result.x == (x > 0)).all(1)
    assert int(right.sum()) >= 11
    tests = [history.problem.pools for history in histories]
    assert sum(tests) / 12 < 20  # half of what single tests take


def test_the_fit_of_all_rounds_sees_a_report_that_does_not_belong() -> None:
    first, generator = problem(), torch.Generator().manual_seed(2)
    x, y = first.simulate(40, generator=generator)
    i = int(((x > 0).sum(1) == 1).nonzero()[0])
    history = History.start(first, y[i])
    result = Settle(confidence=0.99)([history])
    assert history_fit(history, result.values[0], generator=generator) > 1e-3
    spoiled = y[i].clone()
    spoiled[spoiled.argmin()] += 6.0
    history = History.start(first, spoiled)
    result = Settle(confidence=0.99)([history])
    assert history_fit(history, result.values[0], generator=generator) < 1e-3


def test_a_sample_that_no_listed_set_has_is_worth_a_pool() -> None:
    """Where one set is listed, the doubt is in weak positives under strong ones: follow-up stopped there."""
    generator = torch.Generator().manual_seed(1)
    design = qgt.Design.column_regular(pools=24, items=96, weight=4, generator=generator)
    loads = qgt.Loads(rate=0.03, mean=2.9, sd=1.9, low=0.0)
    plates = qgt.Problem(design, loads, qgt.CycleThreshold(sigma=0.25, limit=38.0))
    y = plates.simulate(60, generator=generator).y[[38]]
    result = qgt.LoadPosterior().bind(plates)(y)
    answers, confidence, marginals = (
        getattr(result.evidence, at) for at in ("alternatives", "confidence", "marginals")
    )
    for i, chosen in enumerate(qgt.next_pools(plates, y, result, pools=3, generator=generator)):
        assert len(answers.of_instance(i).x) == 1 and float(confidence[i]) < 0.99
        hidden = torch.where(result.x[i] == 1, 0.0, marginals[i])
        assert len(chosen.matrix) and bool(chosen.matrix[:, int(hidden.argmax())].any())
