"""What a trained network says about its training: one row for each epoch, the settings, and a test on new instances.

A record is typed in memory and plain data in a model's file, where nothing is trusted: the codec refuses a field that
is missing, unknown or of the wrong type, and the classes a number below nought.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from qgt.arguments import whole
from qgt.decoders.neural.settings import TrainConfig
from qgt.files.codec import Diverging

# How often each (true positives, false positives, false negatives) occurred: what `qgt.Score` is made of.
Outcomes = Mapping[tuple[int, int, int], int]


@dataclass(frozen=True)
class Epoch:
    """What one epoch came to: of one network in its record, and as means over a stack's for a progress callback.

    Example:
        >>> epoch = Epoch(3, 300, 0.05, 0.04, 0.52, best=True, learning_rate=2e-3, seconds=2.5)
        >>> f"epoch {epoch.number} of {epoch.total}: success rate {epoch.success_rate:.0%}"
        'epoch 3 of 300: success rate 52%'
    """

    number: int  # from 1
    total: int  # at most
    train_loss: Diverging  # NaN where training has diverged, as the next
    validation_loss: Diverging
    success_rate: float  # on the validation instances, at their best threshold
    best: bool  # whether this is the best validation loss so far (of the first network, in a progress callback)
    learning_rate: float  # of its last step
    seconds: float

    def __post_init__(self) -> None:
        for name in ("number", "total"):
            whole(name, getattr(self, name))


@dataclass(frozen=True)
class Training:
    """How a network came by its weights: enough to train it again, and to know how good it was then.

    Example:
        >>> import torch, qgt
        >>> g = torch.Generator().manual_seed(0)
        >>> problem = qgt.Problem(qgt.Design.bernoulli(pools=6, items=8, generator=g), qgt.Bernoulli(0.1))
        >>> net = qgt.train(problem, qgt.MLP((16,)), qgt.TrainConfig(instances=500, epochs=2), generator=g)
        >>> net.training.epochs, net.training.seed, net.training.interrupted
        (2, 0, False)
        >>> qgt.Score(problem.items, net.training.test).instances
        14900
    """

    config: TrainConfig
    seed: int  # of the generator it drew from
    place: int  # in the stack it was trained in, from 0
    stack: int  # how many networks were trained together
    history: tuple[Epoch, ...]
    interrupted: bool  # by Ctrl-C: the weights are the best until then
    items_covered: int  # items that were defective at least once in training, the paper's condition for generalising
    test: Outcomes  # on instances it never met: qgt.Score(items, test) has every metric
    test_seen: Outcomes | None  # those of them whose x was in the fixed data set; None with fresh data
    test_unseen: Outcomes | None  # those whose x was not
    made_on: Mapping[str, str | int]  # device, threads and versions

    def __post_init__(self) -> None:
        for name in ("seed", "place", "stack", "items_covered"):
            whole(name, getattr(self, name), most=2**64)
        for name in ("test", "test_seen", "test_unseen"):
            for outcome, times in (getattr(self, name) or {}).items():
                for number in (*outcome, times):
                    whole(name, number)

    @property
    def epochs(self) -> int:
        """Epochs that were trained."""
        return len(self.history)

    @property
    def steps(self) -> int:
        """Optimiser steps that were taken."""
        return self.epochs * self.config.epoch_steps

    @property
    def seconds(self) -> float:
        """How long its epochs took, those of its whole stack."""
        return math.fsum(epoch.seconds for epoch in self.history)

    @property
    def stopped_early(self) -> bool:
        """Whether its patience ran out before its epochs."""
        return not self.interrupted and self.epochs < self.config.epochs
