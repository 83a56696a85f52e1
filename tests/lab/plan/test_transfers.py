"""Designs with few transfers: regular, even, with few shared pools, the same for the same seed."""

import pytest
import torch

from qgt import Design
from qgt.lab.plan.transfers import few_transfers, shared_pools


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def shared(design: Design) -> torch.Tensor:
    matrix = design.matrix.to(torch.int64)
    return (matrix.T @ matrix)[*torch.triu_indices(design.items, design.items, 1)]


@pytest.mark.parametrize(("items", "pools", "weight"), [(96, 24, 4), (96, 20, 6), (40, 16, 8), (24, 10, 4), (7, 5, 2)])
def test_weights_and_sizes_stay_regular(items, pools, weight):
    design = few_transfers(items=items, pools=pools, weight=weight, generator=seeded(1))
    assert set(design.item_degrees.tolist()) == {weight}
    assert int(design.pool_sizes.max()) - int(design.pool_sizes.min()) <= 1
    assert design.transfers == items * weight


@pytest.mark.parametrize(("items", "pools", "weight"), [(96, 24, 4), (96, 20, 6), (60, 20, 5)])
def test_swaps_make_the_worst_pairs_share_fewer_pools(items, pools, weight):
    for seed in range(3):
        start = Design.column_regular(pools=pools, items=items, weight=weight, generator=seeded(seed))
        design = few_transfers(items=items, pools=pools, weight=weight, generator=seeded(seed))
        before, after = shared(start), shared(design)
        assert int(after.sum()) == int(before.sum())  # even pools fix the mean
        assert int(after.max()) <= int(before.max())
        assert int((after**4).sum()) < 0.9 * int((before**4).sum())
        assert shared_pools(design) == (int(after.max()), pytest.approx(float(after.double().mean())))


def test_the_same_seed_gives_the_same_design():
    one, two, other = (few_transfers(items=40, pools=12, weight=4, generator=seeded(s)) for s in (5, 5, 6))
    assert one.fingerprint == two.fingerprint != other.fingerprint


def test_no_two_samples_are_twins():
    for seed in range(5):
        design = few_transfers(items=30, pools=8, weight=3, generator=seeded(seed))
        assert len({tuple(column) for column in design.matrix.T.tolist()}) == 30


def test_households_are_kept_apart_or_together():
    homes = [f"h{i // 4}" for i in range(80)]
    same = torch.tensor([[a == b for b in homes] for a in homes])[*torch.triu_indices(80, 80, 1)]
    plain, apart, together = (
        shared(few_transfers(items=80, pools=20, weight=5, households=given, together=both, generator=seeded(0)))
        for given, both in ((None, False), (homes, False), (homes, True))
    )
    assert float(apart[same].double().mean()) < 0.65 * float(plain[same].double().mean())
    assert float(together[same].double().mean()) > 1.5 * float(plain[same].double().mean())
    assert int(together.max()) < 5  # never the same pools


def test_names_and_arguments_are_checked():
    design = few_transfers(items=3, pools=3, weight=1, item_names=["a", "b", "c"], generator=seeded(0))
    assert design.item_names == ("a", "b", "c")
    with pytest.raises(ValueError, match="weight=4 is not valid"):
        few_transfers(items=3, pools=3, weight=4, generator=seeded(0))
    with pytest.raises(ValueError, match="households holds 1 labels for 3 items"):
        few_transfers(items=3, pools=3, weight=1, households=["x"], generator=seeded(0))
