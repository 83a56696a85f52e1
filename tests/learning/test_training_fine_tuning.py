"""Fine-tuning of the network for any design."""

import pytest
import torch

import qgt


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def small_problem() -> qgt.Problem:
    design = qgt.Design.column_regular(pools=12, items=50, weight=3, generator=seeded())
    return qgt.Problem(design, qgt.Bernoulli(0.05), qgt.SparseInteger(rate=0.1, bound=1))


def test_a_fine_tuned_network_is_no_worse_and_leaves_the_pretrained_alone() -> None:
    problem, steps = small_problem(), []
    weight = qgt.pretrained().network.heads.weight.clone()
    tuned = qgt.fine_tune(
        problem,
        qgt.pretrained(),
        steps=3,
        batch=16,
        generator=seeded(1),
        on_step=lambda step, loss: steps.append((step, loss)),
    )
    facts = tuned.made["fine_tuned"]
    assert [step for step, _ in steps] == [1, 2, 3]
    assert facts["problem"] == problem.fingerprint
    assert torch.equal(qgt.pretrained().network.heads.weight, weight)
    changed = not torch.equal(tuned.network.heads.weight, weight)
    assert changed == (facts["after"] < facts["before"])


def test_weights_that_became_worse_are_not_kept() -> None:
    problem = small_problem()
    tuned = qgt.fine_tune(problem, qgt.pretrained(), steps=2, batch=4, learning_rate=5.0, generator=seeded(1))
    assert tuned.made["fine_tuned"]["after"] > tuned.made["fine_tuned"]["before"]
    assert torch.equal(tuned.network.heads.weight, qgt.pretrained().network.heads.weight)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="steps=0"):
        qgt.fine_tune(small_problem(), qgt.pretrained(), steps=0, generator=seeded())
