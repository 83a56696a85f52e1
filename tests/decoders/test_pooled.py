"""Message passing and thresholding with vectors, where items differ."""

import torch

from qgt import Categories, Copies, Design, PooledAMP, PooledIHT, Problem


def test_message_passing_takes_each_item_by_its_own_rates() -> None:
    g = torch.Generator().manual_seed(0)
    design = Design.bernoulli(pools=24, items=100, generator=g)
    rates = torch.full((100, 2), 0.24, dtype=torch.float64)
    rates[25:] = 0.0
    own = Problem(design, Categories(rates))
    x, y = own.simulate(100, generator=g)
    right = [
        (PooledAMP().bind(Problem(design, prior))(y).x == x).all(1).double().mean()
        for prior in (own.prior, Categories((0.06, 0.06)))
    ]
    assert right[0] > right[1] + 0.1  # told the same rates for all, it has four times the candidates
    result = PooledAMP().bind(own)(y)
    assert result.evidence.values is not None and not result.x[:, 25:].any()
    assert (PooledIHT().bind(own)(y).x == x).double().mean() > 0.8


def test_copies_of_their_own_frequencies_begin_with_them() -> None:
    frequency = [0.0, 0.5, 1.0]
    problem = Problem(Design.from_rows(["110", "011", "101"]), Copies(frequency=frequency, ploidy=2))
    values = PooledAMP(iterations=1).bind(problem)(torch.tensor([[1.0, 3.0, 2.0]])).evidence.values
    assert values is not None
    assert values[0, 0].tolist() == [1.0, 0.0, 0.0] and values[0, 2].tolist() == [0.0, 0.0, 1.0]
