"""How far a decoder is from the limit: the success rate of the most probable x, on the same instances."""

import time
from dataclasses import dataclass
from typing import final

from torch import Generator

from qgt.decoders.certified.decoder import Certified
from qgt.decoders.contract import Decoder
from qgt.decoders.highs.exact import ExactMAP
from qgt.decoders.results import Status
from qgt.model.problem import Problem

INSTANCES_BETWEEN_LOOKS = 20  # instances between two looks at the clock


@final
@dataclass(frozen=True)
class AgainstLimit:
    """What a decoder and the most probable answers came to on the same instances.

    Example:
        >>> AgainstLimit(instances=200, proved=200, right=180, limit=196).gap
        0.08
    """

    instances: int
    proved: int  # how many of the most probable answers are proved to be that
    right: int  # instances that the decoder decoded without error
    limit: int  # those that the most probable answer did

    @property
    def gap(self) -> float:
        """By how much the decoder's success rate is below the limit."""
        return (self.limit - self.right) / self.instances


def limit_decoder(problem: Problem, time_limit: float | None = None) -> Decoder | None:
    """A decoder that finds the most probable x of a problem; None where nobody can, as with a prior only drawn from."""
    for decoder in (Certified(odds=1.0, certificates=False, time_limit=time_limit), ExactMAP(time_limit=time_limit)):
        if decoder.supports(problem) is None:
            return decoder
    return None


def compared_with_limit(
    decoder: Decoder, problem: Problem, *, seconds: float, most: int = 1000, generator: Generator
) -> AgainstLimit | None:
    """Decode new instances with a decoder and exactly, for some seconds; None where there is no exact decoder.

    A batch of hard instances may take as long again.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> problem = qgt.Problem(qgt.Design.bernoulli(pools=9, items=12, generator=g), qgt.Bernoulli(0.1))
        >>> found = compared_with_limit(qgt.Certified(), problem, seconds=60.0, most=40, generator=g)
        >>> found.instances, found.proved
        (40, 40)
    """
    exact = limit_decoder(problem, time_limit=max(seconds / INSTANCES_BETWEEN_LOOKS, 0.01))
    if exact is None:
        return None
    decode, limit = decoder.bind(problem), exact.bind(problem)
    instances = proved = right = best = 0
    began = time.perf_counter()
    while instances < most and (not instances or time.perf_counter() - began < seconds):
        x, y = problem.simulate(min(INSTANCES_BETWEEN_LOOKS, most - instances), generator=generator)
        answers = limit(y)
        instances += len(x)
        proved += int((answers.status == Status.PROVED).sum())
        best += int((answers.x == x).all(1).sum())
        right += int((decode(y).x == x).all(1).sum())
    return AgainstLimit(instances, proved, right, best)
