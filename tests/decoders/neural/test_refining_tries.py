"""The tries of a refining network: they are what the page says, find more, and each instance has them to itself."""

from copy import deepcopy
from functools import cache
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import qgt
from qgt.decoders.neural.decoder import raw_scores
from qgt.decoders.neural.network import stack
from qgt.decoders.neural.refining import BELIEF_MARGIN, SETTLED_LOGIT, RefiningStack, doubts

POOLS, TRAINED = 12, 3
ALL = 2 * TRAINED + 2 * POOLS * TRAINED  # rounds of all tries there are


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def problem(pools: int = POOLS) -> qgt.Problem:
    design = qgt.Design.bernoulli(pools=pools, items=20, generator=seeded())
    return qgt.Problem(design, qgt.Bernoulli(0.1), qgt.SparseInteger(rate=0.05, bound=1))


@cache
def trained(missing: float = 0.0) -> qgt.NeuralDecoder:
    config = qgt.TrainConfig.fresh(steps=300, batch=200, learning_rate=2e-3, validation=500, missing=missing)
    return qgt.train(problem(), qgt.Refining(48, 1, TRAINED), config, generator=seeded())


def network(rounds: int, missing: float = 0.0) -> RefiningStack:
    """In float64, where rounding decides nothing."""
    found = deepcopy(trained(missing).with_rounds(rounds).network).double()
    assert isinstance(found, RefiningStack)
    return found


@torch.no_grad()
def scores(rounds: int, y: Tensor, missing: float = 0.0) -> Tensor:
    found: Tensor = network(rounds, missing)(y[None])[0]
    return found


def by_hand(net: RefiningStack, y: Tensor, rounds: int) -> Tensor:
    """One instance, its counts in a vector, by the formulas of the module and nothing else of it."""
    state = {name: tensor[0] for name, tensor in net.state_dict().items()}
    matrix, slope = net.matrix[0], state["slope"]
    present = (~y.isnan()).double()
    z = ((y - state["mean"]) * state["scale"]).nan_to_num(0.0)

    def affine(name: str, h: Tensor) -> Tensor:
        return state[f"{name}.weight"] @ h + state[f"{name}.bias"]

    def left(x: Tensor, counts: Tensor) -> Tensor:
        return (counts - x @ matrix * slope - state["level"]) * present

    def judged(logits: Tensor) -> float:
        calls = (logits > 0).double()
        size, doubt = left(calls, z).abs(), F.softplus(-logits.abs())
        signs = [size.sum(), size.square().sum(), (3 * size).tanh().sum(), calls.sum(), doubt.sum()]
        return float(affine("judge.1", F.gelu(affine("judge.0", torch.stack(signs).log1p()))))

    def begun(counts: Tensor) -> Tensor:
        return affine("counts", counts) + (state["absent"] @ (1 - present) if "absent" in state else 0.0)

    def one_try(length: int, shift: Tensor) -> None:
        nonlocal best, belief
        h = begun(z + shift)
        for number in range(length):
            h = h + affine("blocks.0.narrow", F.gelu(affine("blocks.0.widen", F.layer_norm(h, h.shape))))
            logits = affine("output", F.layer_norm(h, h.shape))
            if judged(logits) > belief - BELIEF_MARGIN:
                best, belief = logits, judged(logits)
            seen = z + shift if number < 2 else z
            p, calls = logits.sigmoid(), (logits > 0).double()
            h = (h + begun(seen)) / 2 + affine("soft", left(p, seen)) + affine("hard", left(calls, seen))
            h = h + affine("guess", torch.cat([p, logits / 5]))

    best, belief = y, -torch.inf
    one_try(min(rounds, 2 * net.trained), torch.zeros_like(z))
    used = 2 * net.trained
    for pool in range(len(y)):
        for sign in (-1, 1):
            if used < rounds and belief < SETTLED_LOGIT and present[pool]:
                shift = torch.zeros_like(z)
                shift[pool] = sign * slope[pool]
                one_try(min(net.trained, rounds - used), shift)
            used += net.trained
    return best


@pytest.mark.parametrize("missing", [0.0, 0.08])
@pytest.mark.parametrize(("rounds", "each"), [(1, 3), (6, 3), (7, 3), (23, 5), (ALL, 3), (1000, 4)])
def test_tries_are_the_formula(rounds: int, each: int, missing: float) -> None:
    """Each instance by hand and alone, all of them in one batch: whatever is beside an instance changes nothing."""
    g = seeded(3)
    y = problem().simulate(40, generator=g).y
    y[torch.rand(y.shape, generator=g) < missing] = torch.nan
    net = network(rounds, missing)
    net.trained = each  # tries longer than three rounds go on with the counts as reported
    with torch.no_grad():
        expected = torch.stack([by_hand(net, one, rounds) for one in y])
        found = net(y[None])[0]
        net.repeats = min(rounds, 2 * each)
        first = net(y[None])[0]
    assert torch.allclose(found, expected, atol=1e-9)
    tried_again = int((found != first).any(1).sum())
    assert 0 < tried_again < 35 if rounds > 2 * each else not tried_again


def test_up_to_twice_the_rounds_of_training_they_are_straight() -> None:
    y = problem().simulate(300, generator=seeded(4)).y
    for rounds in (2, 3, 6, 7):
        with torch.no_grad():
            straight = network(rounds).rounds(y[None])
        assert straight.scores.shape[0] == rounds
        assert straight.belief is not None
        best, belief = straight.scores[0, 0], straight.belief[0, 0]
        for logits, sure in zip(straight.scores[1:, 0], straight.belief[1:, 0], strict=True):
            better = sure > belief - BELIEF_MARGIN
            best, belief = torch.where(better[:, None], logits, best), torch.where(better, sure, belief)
        assert torch.equal(scores(rounds, y), best) == (rounds <= 6)


def test_tries_find_more_and_settled_answers_stand() -> None:
    """Of 4,000, 3,624 are right after six rounds, 3,641 after 78 straight ones, and 3,710 after all tries."""
    x, y = problem().simulate(4000, generator=seeded(99))
    right = {rounds: (trained().with_rounds(rounds).bind(problem())(y).x == x).all(1) for rounds in (6, 12, 30, ALL)}
    number = [int(found.sum()) for found in right.values()]
    noise = 20  # two standard deviations of a difference: some 100 answers change
    assert all(later > before - noise for before, later in pairwise(number))
    assert number[-1] > number[0] + 2 * noise
    with torch.no_grad():
        belief = network(6).rounds(y[None]).belief
    assert belief is not None
    settled = belief[:, 0].amax(0) > SETTLED_LOGIT + 6 * BELIEF_MARGIN
    assert 400 < int(settled.sum()) < 3600
    assert torch.equal(scores(ALL, y)[settled], scores(6, y)[settled])
    stuck = ~settled & ~right[6]
    assert int(right[ALL][stuck].sum()) > int(stuck.sum()) / 4


def test_when_every_count_was_doubted_they_stop() -> None:
    assert [tuple(one) for one in doubts(2, rounds=8, each=3)] == [(3, 0, -1), (3, 0, 1), (2, 1, -1)]
    assert list(doubts(2, rounds=0, each=3)) == []
    assert sum(one.rounds for one in doubts(POOLS, rounds=10**6, each=TRAINED)) == ALL - 2 * TRAINED
    y = problem().simulate(100, generator=seeded(5)).y
    assert torch.equal(scores(ALL, y), scores(1000, y))
    assert not torch.equal(scores(ALL, y), scores(ALL - TRAINED, y))
    assert raw_scores(trained().with_rounds(ALL).network, y[:0]).shape == (0, 20)


def test_without_any_count_there_is_nothing_to_doubt() -> None:
    nothing = torch.full((2, POOLS), torch.nan, dtype=torch.float64)
    assert torch.equal(scores(6, nothing, 0.08), scores(ALL, nothing, 0.08))
    assert bool(scores(ALL, nothing, 0.08).isfinite().all())


def test_a_stack_tries_as_its_members_do() -> None:
    """One of them has fewer pools, and is done sooner."""
    first, few = network(ALL), 9
    second = qgt.Refining(48, 1, TRAINED).build(problem(few).design, generator=seeded(1)).eval()
    assert isinstance(second, RefiningStack)
    second.repeats = ALL
    second.judge = deepcopy(first.judge)
    x, y = problem(few).simulate(300, generator=seeded(2))
    with torch.no_grad():
        second.prepare(x[None], y.float()[None])
        for layer in (second.output, second.blocks[0].narrow):
            layer.weight += 0.3 * torch.randn(layer.weight.shape, generator=seeded(7))
    others = problem().simulate(300, generator=seeded(6)).y
    second.double()
    both = torch.stack([others, F.pad(y, (0, POOLS - few))])
    with torch.no_grad():
        together, alone = stack([first, second])(both), [first(others[None])[0], second(y[None])[0]]
    for found, expected in zip(together, alone, strict=True):
        assert torch.allclose(found, expected, atol=1e-9)
    for one, counts, expected in ((first, others, alone[0]), (second, y, alone[1])):
        one.repeats = 6
        with torch.no_grad():
            changed = (one(counts[None])[0] != expected).any(1)
        assert 10 < int(changed.sum()) < 290


def test_the_design_is_read_back_from_the_rounds_of_training() -> None:
    """Which instances are tried again has no derivative."""
    for estimator in ("mean_jacobian", "least_squares"):
        plain, longer = (
            qgt.verify(net, problem(), estimator=estimator, instances=100, generator=seeded(1))
            for net in (trained(), trained().with_rounds(30))
        )
        assert torch.equal(plain.evidence, longer.evidence)
    assert trained().with_rounds(30).as_trained().network.repeats == TRAINED
