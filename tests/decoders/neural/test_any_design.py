"""The network for any design: what it is shown, what its messages are, and what the shipped weights reach."""

import json
from importlib import resources
from pathlib import Path

import pytest
import torch
from torch import Generator, Tensor

import qgt
from qgt.decoders.neural import any_design
from qgt.decoders.neural.any_design import MessageNetwork, OutsideTraining, Seen, fixed_numbers, shown

PAPER = qgt.SparseInteger(rate=0.1, bound=1)


def seeded(seed: int = 0) -> Generator:
    return torch.Generator().manual_seed(seed)


def dense(pools: int = 35, items: int = 100, noise: qgt.Noise = PAPER, rate: float = 0.06) -> qgt.Problem:
    design = qgt.Design.bernoulli(pools=pools, items=items, generator=seeded(3))
    return qgt.Problem(design, qgt.Bernoulli(rate), noise)


def regular(pools: int, weight: int, noise: qgt.Noise, rate: float) -> qgt.Problem:
    design = qgt.Design.column_regular(pools=pools, items=100, weight=weight, generator=seeded(3))
    return qgt.Problem(design, qgt.Bernoulli(rate), noise)


@pytest.mark.parametrize(
    ("problem", "least"),
    [
        (dense(), 0.9),
        (dense(pools=40, noise=qgt.RoundedGaussian(0.3)), 0.85),
        (regular(30, 8, PAPER, 0.05), 0.85),
        (regular(60, 12, qgt.PositiveNegative(sensitivity=0.97, specificity=0.99), 0.02), 0.8),
        (qgt.Problem(qgt.Design.steiner_triples(pools=39, items=100), qgt.Bernoulli(0.02), PAPER), 0.7),
    ],
    ids=["dense", "rounded", "weight 8", "positive or negative", "triples"],
)
def test_designs_that_training_never_saw(problem: qgt.Problem, least: float) -> None:
    """One pass; a decoder that calls nobody is right on less than a quarter of these instances."""
    x, y = problem.simulate(100, generator=seeded(1))
    assert int((x.sum(1) == 0).sum()) < 25
    assert qgt.score(x, qgt.pretrained(tries=0).bind(problem)(y).x).success_rate >= least


def test_tries_only_improve() -> None:
    problem = dense(pools=24)
    _, y = problem.simulate(40, generator=seeded(2))
    few = qgt.pretrained(rounds=4, tries=0).bind(problem)(y)
    more = qgt.pretrained(rounds=4, tries=6).bind(problem)(y)
    gain = problem.log_joint(more.x, y) - problem.log_joint(few.x, y)
    assert bool((gain.nan_to_num(0.0) >= -1e-9).all())
    assert bool((gain > 0).any())


def test_households_are_judged_by_their_whole_prior() -> None:
    problem = qgt.Problem(dense(pools=30).design, qgt.Households(size=4, seed_rate=0.1, attack_rate=0.6), PAPER)
    x, y = problem.simulate(40, generator=seeded(1))
    assert qgt.score(x, qgt.pretrained(tries=2).bind(problem)(y).x).success_rate > 0.5


def test_says_where_it_was_not_trained() -> None:
    problem = qgt.Problem(qgt.Design.from_rows(["1101", "0111"]), qgt.Bernoulli(0.3))
    with pytest.warns(OutsideTraining, match="items=4 is outside the range of training, 50 to"):
        qgt.pretrained().bind(problem)
    assert qgt.pretrained().outside(dense()) == ()


def test_amounts_are_not_supported() -> None:
    design = qgt.Design.steiner_triples(pools=13, items=24)
    problem = qgt.Problem(design, qgt.Loads(rate=0.05, mean=3.0, sd=1.0), qgt.CycleThreshold(sigma=0.25, limit=38.0))
    assert "amounts" in str(qgt.Pretrained().supports(problem))


def test_the_shipped_file_is_small_and_says_how_it_was_made() -> None:
    file = resources.files("qgt") / "data" / "any_design.safetensors"
    assert len(file.read_bytes()) < 5_000_000
    made = qgt.pretrained().made
    assert {"steps", "seconds", "shapes", "noises", "device"} <= set(made["recipe"])
    assert "held out" in made["limits"]


def test_a_file_gives_the_same_network(tmp_path: Path) -> None:
    problem = dense()
    _, y = problem.simulate(5, generator=seeded(1))
    qgt.pretrained().save(tmp_path / "own")
    again = qgt.pretrained(tmp_path / "own", tries=0)
    assert json.dumps(again.made) == json.dumps(qgt.pretrained().made)
    assert torch.equal(again.bind(problem)(y).scores, qgt.pretrained(tries=0).bind(problem)(y).scores)
    chosen = qgt.Pretrained(tries=0, weights=str(tmp_path / "own"))
    assert torch.equal(chosen.bind(problem)(y).x, again.bind(problem)(y).x)


def test_files_of_other_networks_are_refused(tmp_path: Path) -> None:
    problem = dense(pools=6, items=8)
    net = qgt.train(problem, qgt.MLP((4,)), qgt.TrainConfig(instances=50, epochs=1, validation=10), generator=seeded())
    net.save(tmp_path / "mlp")
    with pytest.raises(qgt.ModelFileError, match="network for one problem"):
        qgt.pretrained(tmp_path / "mlp")


def test_the_window_has_the_true_total() -> None:
    """Pools of about 150 items: tables are cut to a window, which must not lose the truth."""
    for noise in (PAPER, qgt.Gaussian(sigma=0.5), qgt.PositiveNegative(0.9, 0.95), qgt.Saturating(cap=5, noise=PAPER)):
        problem = dense(pools=20, items=300, noise=noise)
        x, y = problem.simulate(50, generator=seeded(1))
        y[0, 0] = torch.nan
        seen = shown(problem, y)
        place = problem.design.count(x) - seen.first
        assert seen.tables.shape[2] < 70
        assert bool(((place >= 0) & (place < seen.tables.shape[2])).all()), noise
        assert not seen.tables[0, 0].any()


def some_seen() -> Seen:
    problem = dense(pools=12, items=30)
    return shown(problem, problem.simulate(3, generator=seeded(1)).y)


def padded(seen: Seen, items: int, pools: int) -> Seen:
    pad = torch.nn.functional.pad
    return Seen(
        pad(seen.A, (0, items, 0, pools)),
        pad(seen.prior, (0, items)),
        pad(seen.tables, (0, 0, 0, pools)),
        pad(seen.first, (0, pools)),
        pad(seen.items, (0, items)),
        pad(seen.pools, (0, pools)),
    )


def own_network() -> MessageNetwork:
    return MessageNetwork(width=8, inside=16, generator=seeded()).eval()


def test_items_and_pools_that_fill_the_shape_change_nothing() -> None:
    seen, network = some_seen(), own_network()
    with torch.no_grad():
        *_, alone = network.each(seen, 6)
        *_, beside = network.each(padded(seen, items=5, pools=4), 6)
    assert torch.allclose(alone, beside[:, :30], atol=1e-4)


def test_messages_of_a_pool_are_the_channels() -> None:
    """Against the sums over totals, written out."""
    fixed = fixed_numbers(some_seen())
    m, v = torch.full((3, 12), 1.3), torch.full((3, 12), 0.8)

    def evidence(mean: Tensor) -> Tensor:
        normal = torch.distributions.Normal(mean[..., None], v.sqrt()[..., None])
        return (fixed.seen.tables + normal.log_prob(fixed.totals)).logsumexp(2)

    channel = any_design._channel(fixed, m, v)
    assert torch.allclose(channel.evidence, evidence(m), atol=1e-4)
    assert torch.allclose(channel.more, (evidence(m + 1) - evidence(m)).clamp(-10, 10), atol=1e-4)
    assert torch.allclose(channel.less, (evidence(m) - evidence(m - 1)).clamp(-10, 10), atol=1e-4)


def test_a_missing_report_tells_nothing() -> None:
    seen = some_seen()
    tables = seen.tables.clone()
    tables[:, 4] = 0.0
    channel = any_design._channel(fixed_numbers(seen._replace(tables=tables)), torch.ones(3, 12), torch.ones(3, 12))
    for told in (channel.more, channel.less, channel.pull, channel.sharp):
        assert not told[:, 4].any()
