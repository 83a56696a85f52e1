"""Two processes on two halves of each batch train the network that one process trains on the whole."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import qgt
from qgt.learning.steps import Together

sys.path.insert(0, str(Path(__file__).parent))
from one_of_two import CONFIG, NETWORK, main, problem


@pytest.fixture
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_two_processes_train_what_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process is the first of the two."""
    script, meeting = Path(__file__).with_name("one_of_two.py"), tmp_path / "meeting"
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    surroundings = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(qgt.__file__).parents[1])}
    other = subprocess.Popen(
        [sys.executable, str(script), "1", str(meeting), str(tmp_path / "1")],
        env=surroundings,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        main("0", str(meeting), str(tmp_path / "0"))
    finally:
        told = other.communicate(timeout=300)[1]
    assert other.returncode == 0, told
    first, second = (qgt.load(tmp_path / str(rank)) for rank in (0, 1))
    alone = qgt.train(problem(), NETWORK, CONFIG, generator=torch.Generator().manual_seed(3))
    moved = 0.0
    begun = NETWORK.build(problem().design, missing=True, generator=torch.Generator().manual_seed(3)).state_dict()
    for name, tensor in alone.network.state_dict().items():
        assert torch.equal(first.network.state_dict()[name], second.network.state_dict()[name]), name
        # Where a gradient is nothing but rounding, Adam still takes a step: a few of them, of at most 2e-3, may differ.
        assert torch.allclose(first.network.state_dict()[name], tensor, atol=2e-3), name
        moved = max(moved, float((tensor - begun[name]).abs().max()))
    assert moved > 0.1  # or it would show nothing
    assert first.training is not None
    assert alone.training is not None
    for mine, whole in zip(first.training.history, alone.training.history, strict=True):
        assert mine.train_loss == pytest.approx(whole.train_loss, rel=1e-4)
        assert mine.validation_loss == pytest.approx(whole.validation_loss, rel=1e-4)


def test_a_part_of_a_batch_is_each_processs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Together, "size", property(lambda self: 2))
    batch = torch.arange(6)
    for rank in (0, 1):
        monkeypatch.setattr(Together, "rank", property(lambda self, rank=rank: rank))
        assert Together().part(batch).tolist() == batch.tolist()[3 * rank : 3 * rank + 3]
