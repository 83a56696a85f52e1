"""Policies: which pools to test first, which next, and when to stop; and the simulator that counts what they cost.

`FollowUp` is ours: a first round for all, then pools chosen by what they are expected to tell, until the answer is
sure. The schemes of others are in `schemes`. A policy never sees the truth: the simulator measures its pools.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float64, Int64, UInt8
from torch import Generator, Tensor

from qgt.arguments import whole
from qgt.decoders.results import Decoded
from qgt.model.design import Design
from qgt.model.problem import Problem
from qgt.rounds.choosing import next_pools
from qgt.rounds.history import History, Setting, measure
from qgt.rounds.stopping import Settle

ENDLESS = 100  # rounds after which a policy that does not stop is stopped


@dataclass(frozen=True, eq=False)
class PolicyStanding:
    """Where some instances stand: the calls so far, and whether the policy is done with them."""

    x: UInt8[Tensor, "instances items"]
    done: Bool[Tensor, " instances"]
    confidence: Float64[Tensor, " instances"] | None = None  # in the calls; None where the policy knows none
    result: Decoded | None = None  # what they were read from, where a decoder was asked


@runtime_checkable
class Policy(Protocol):
    """Which pools come first, which next, and when the answer is good enough."""

    def first_round(self, setting: Setting, *, generator: Generator) -> UInt8[Tensor, "pools items"]:
        """The pools that all instances begin with."""
        ...

    def done(self, histories: Sequence[History]) -> PolicyStanding:
        """Where instances stand."""
        ...

    def next_round(self, history: History, standing: PolicyStanding, place: int, *, generator: Generator) -> Tensor:
        """The next pools of one instance that is not done: (pools, items). `place` is where it is in the standing."""
        ...


@dataclass(frozen=True)
class FollowUp:
    """A first round for all; then pools by what they are expected to tell, until the answer is sure.

    `first` pools hold half of the items each; a single one holds all, and so tells how many are defective. A later
    round has at most `pools` pools, and no more than make a wrong answer after it less likely than `risk`; and `spare`
    random ones, which tell of answers that are not listed. After `follow_ups` later rounds the calls stand as they
    are; 0 is a non-adaptive test.

    Example:
        >>> import torch, qgt
        >>> setting = Setting(40, qgt.Bernoulli(0.05), qgt.SparseInteger(0.1, 1))
        >>> ran = simulate_policy(FollowUp(first=10), setting, 5, generator=torch.Generator().manual_seed(0))
        >>> int(ran.wrong.sum()), bool((ran.tests < 40).all())
        (0, True)
    """

    first: int
    pools: int = 12
    risk: float = 0.0
    spare: int = 0
    spread: bool = True
    follow_ups: int | None = None
    confidence: float = 0.999
    odds: float = 100.0  # of the lists that pools are chosen by
    time_limit: float = 10.0

    def __post_init__(self) -> None:
        for name in ("first", "pools"):
            object.__setattr__(self, name, whole(name, getattr(self, name), least=1))

    def first_round(self, setting: Setting, *, generator: Generator) -> UInt8[Tensor, "pools items"]:
        """Each item in each pool with probability 1/2: regular designs tell as much, and take longer to search."""
        if self.first == 1:
            return torch.ones(1, setting.items, dtype=torch.uint8)
        return Design.bernoulli(pools=self.first, items=setting.items, generator=generator).matrix

    def done(self, histories: Sequence[History]) -> PolicyStanding:
        """Sure enough, or no round left."""
        settle = Settle(confidence=self.confidence, time_limit=self.time_limit, coarse_odds=self.odds)
        result = settle(histories)
        confidence = result.evidence.confidence
        assert confidence is not None
        over = [self.follow_ups is not None and len(one.rounds) > self.follow_ups for one in histories]
        return PolicyStanding(result.x, (confidence >= self.confidence) | torch.tensor(over), confidence, result)

    def next_round(self, history: History, standing: PolicyStanding, place: int, *, generator: Generator) -> Tensor:
        """Pools that tell most; where the answers listed leave no doubt, one that may bring up others."""
        assert standing.result is not None
        result = standing.result.pick(torch.tensor([place]))
        (found,) = next_pools(
            history.problem, history.y[None], result, pools=self.pools, risk=self.risk, spread=self.spread,
            generator=generator,
        )  # fmt: skip
        spare = max(self.spare, 1 - len(found.matrix))
        random = torch.rand(spare, history.problem.items, generator=generator) < 0.5
        return torch.cat([found.matrix, random.to(torch.uint8)])


@dataclass(frozen=True, eq=False)
class Ran:
    """What a policy cost in simulated instances."""

    tests: Int64[Tensor, " instances"]
    rounds: Int64[Tensor, " instances"]
    transfers: Int64[Tensor, " instances"]
    wrong: Bool[Tensor, " instances"]
    x: UInt8[Tensor, "instances items"]  # the calls
    confidence: Float64[Tensor, " instances"]  # NaN where the policy knows none


def simulate_policy(policy: Policy, setting: Setting, instances: int, *, generator: Generator) -> Ran:
    """Run a policy on simulated instances, which share one first round.

    Example:
        >>> import torch, qgt
        >>> from qgt.rounds.schemes import Scheme
        >>> setting, g = Setting(8, qgt.Bernoulli(0.1), qgt.Noiseless()), torch.Generator().manual_seed(0)
        >>> simulate_policy(Scheme("individual"), setting, 2, generator=g).tests
        tensor([8, 8])
    """
    x = setting.prior.sample(instances, setting.items, generator=generator)
    return run_policy(policy, setting, x, generator=generator)


def run_policy(policy: Policy, setting: Setting, x: UInt8[Tensor, "instances items"], *, generator: Generator) -> Ran:
    """Run a policy on instances whose truth is given; it sees only what its pools report.

    Example:
        >>> import torch, qgt
        >>> from qgt.rounds.schemes import Scheme
        >>> setting, g = Setting(4, qgt.Bernoulli(0.1), qgt.Noiseless()), torch.Generator().manual_seed(0)
        >>> run_policy(Scheme("halving"), setting, torch.tensor([[0, 1, 0, 0]], dtype=torch.uint8), generator=g).tests
        tensor([3])
    """
    instances = len(x)
    matrix = policy.first_round(setting, generator=generator)
    problem = Problem(Design.from_matrix(matrix), setting.prior, setting.noise)
    histories = [History.start(problem, measure(setting, truth, matrix, generator=generator)) for truth in x]
    calls, confidence = torch.zeros_like(x), torch.full((instances,), torch.nan, dtype=torch.float64)
    left = list(range(instances))
    for _ in range(ENDLESS):
        standing = policy.done([histories[i] for i in left])
        calls[left] = standing.x
        if standing.confidence is not None:
            confidence[left] = standing.confidence
        open_ = [place for place, done in enumerate(standing.done.tolist()) if not done]
        for place in open_:
            i = left[place]
            matrix = policy.next_round(histories[i], standing, place, generator=generator)
            histories[i] = histories[i].after(matrix, measure(setting, x[i], matrix, generator=generator))
        left = [left[place] for place in open_]
        if not left:
            break
    return Ran(
        tests=torch.tensor([one.problem.pools for one in histories]),
        rounds=torch.tensor([len(one.rounds) for one in histories]),
        transfers=torch.tensor([one.problem.design.transfers for one in histories]),
        wrong=(calls != x).any(1),
        x=calls,
        confidence=confidence,
    )
