"""A compiled step gives what a plain one gives; only long trainings on a GPU are compiled."""

import pytest
import torch

import qgt
from qgt.learning import steps
from qgt.learning.run import Run


def begun(device: str, number: int) -> Run:
    g = torch.Generator(device).manual_seed(0)
    design = qgt.Design.bernoulli(pools=12, items=20, generator=torch.Generator().manual_seed(1))
    problem = qgt.Problem(design, qgt.Bernoulli(0.1), qgt.SparseInteger(0.1, 1))
    config = qgt.TrainConfig.fresh(steps=number, batch=256, validation=500, matrix_rate=0.02)
    return Run.begin([problem], qgt.Refining(64, 2, 3), config, g)


def test_on_a_cpu_nothing_is_compiled() -> None:
    blocks = begun("cpu", 100 * steps.LONG).steps.network.get_submodule("blocks")
    assert all(block.fused is None for block in blocks.children())


@pytest.mark.gpu
def test_a_compiled_training_goes_as_a_plain_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "LONG", 10**9)
    plain = begun("cuda", 800)
    monkeypatch.setattr(steps, "LONG", 1)
    fused = begun("cuda", 800)
    blocks = fused.steps.network.get_submodule("blocks")
    assert all(block.fused is not None for block in blocks.children())
    first, second = ([run.epoch() for _ in range(10)][-1] for run in (plain, fused))
    assert first.validation_loss == pytest.approx(second.validation_loss, rel=0.05)
