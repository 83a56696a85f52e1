"""What policies spend: tests, rounds and transfers of each instance, as they are stored, and what they add up to."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from qgt.rounds.policies import Ran

NUMBERS = 3  # an instance: tests, rounds, transfers
NORMAL = 1.959964  # standard errors to either end of a 95 % interval


@dataclass(frozen=True)
class Spent:
    """Tests, rounds and transfers of some instances, packed as 32-bit numbers.

    Example:
        >>> import torch
        >>> Spent.pack(torch.tensor([[17, 2, 830], [20, 3, 900]])).costs.mean_tests
        18.5
    """

    packed: bytes

    def __post_init__(self) -> None:
        if len(self.packed) % (4 * NUMBERS):
            raise ValueError(f"{len(self.packed)} bytes are not {NUMBERS} 32-bit numbers an instance")

    @classmethod
    def pack(cls, each: Tensor) -> "Spent":
        """From one row an instance."""
        return cls(each.numpy().astype("<u4").tobytes())

    @classmethod
    def of(cls, ran: Ran) -> "Spent":
        """From what a simulation returned."""
        return cls.pack(torch.stack([ran.tests, ran.rounds, ran.transfers], 1))

    @property
    def costs(self) -> "Costs":
        """The sums."""
        each = np.frombuffer(self.packed, dtype="<u4").astype(np.int64).reshape(-1, NUMBERS)
        tests, rounds, transfers = (int(one) for one in each.sum(0))
        return Costs(len(each), tests, int((each[:, 0] ** 2).sum()), rounds, transfers)


@dataclass(frozen=True)
class Costs:
    """Sums over instances of what a policy spent."""

    instances: int
    tests: int
    squared_tests: int
    rounds: int
    transfers: int

    @classmethod
    def total(cls, parts: Iterable["Costs"]) -> "Costs | None":
        """All of several; None where there are none."""
        some = [(one.instances, one.tests, one.squared_tests, one.rounds, one.transfers) for one in parts]
        return cls(*(sum(column) for column in zip(*some, strict=True))) if some else None

    @property
    def mean_tests(self) -> float:
        """For one instance."""
        return self.tests / self.instances

    @property
    def mean_rounds(self) -> float:
        """For one instance."""
        return self.rounds / self.instances

    @property
    def mean_transfers(self) -> float:
        """For one instance."""
        return self.transfers / self.instances

    @property
    def half_interval(self) -> float:
        """Half of the 95 % interval of the mean number of tests."""
        variance = max(0.0, self.squared_tests / self.instances - self.mean_tests**2)
        return NORMAL * math.sqrt(variance / max(1, self.instances - 1))
