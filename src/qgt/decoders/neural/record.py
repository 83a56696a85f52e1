"""How a network was trained: the settings, and what came of them. The training itself is in `qgt.learning`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qgt.arguments import fraction, positive, whole
from qgt.files.codec import Diverging

# How to train a network: the settings, which a trained model carries with it. The training is in `qgt.learning`.

WARM_UP = 0.01  # of a cosine schedule's steps


@dataclass(frozen=True)
class TrainConfig:
    """How to train. The defaults are the paper's data sizes, with what it leaves open chosen to reproduce its table.

    Example:
        >>> TrainConfig().epoch_steps
        116
        >>> TrainConfig.fresh(steps=1000, batch=512).instances is None
        True
    """

    instances: int | None = 119_205  # of the fixed data set; None: fresh ones at every step
    validation: int = 14_900
    batch: int = 1024
    learning_rate: float = 2e-3
    epochs: int = 300
    patience: int | None = 15  # epochs without a better validation loss; None: never stop early
    steps: int | None = None  # of an epoch; None: as many whole batches as the fixed data set has
    cosine: bool = False  # let the learning rates fall to zero over all epochs, after a short warm-up
    matrix_rate: float | None = None  # Muon's, for matrices between hidden layers; None: Adam trains these too
    missing: float = 0.0  # the chance that a count is missing in training; above 0 the network takes missing counts

    def __post_init__(self) -> None:
        for name, least in (("validation", 1), ("batch", 2), ("epochs", 1)):  # one instance has no batch statistics
            object.__setattr__(self, name, whole(name, getattr(self, name), least=least))
        for name, least in (("instances", 2), ("patience", 1), ("steps", 1)):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, whole(name, getattr(self, name), least=least))
        object.__setattr__(self, "learning_rate", positive("learning_rate", self.learning_rate))
        if self.matrix_rate is not None:
            object.__setattr__(self, "matrix_rate", positive("matrix_rate", self.matrix_rate))
        object.__setattr__(self, "missing", fraction("missing", self.missing))
        if self.missing == 1.0:
            raise ValueError("missing=1.0 is not valid: no count would be left; give less than 1.")
        if not isinstance(self.cosine, bool):
            raise ValueError(f"cosine={self.cosine!r} is not valid: give True or False.")
        if (self.instances is None) == (self.steps is None):
            raise ValueError("give either instances (a fixed data set) or steps (fresh data), not both or neither.")
        if self.instances is not None and self.batch > self.instances:
            object.__setattr__(self, "batch", self.instances)

    @classmethod
    def fresh(
        cls,
        *,
        steps: int = 40_000,
        batch: int = 4096,
        learning_rate: float = 1e-3,
        matrix_rate: float | None = 0.02,
        validation: int = 14_900,
        missing: float = 0.0,
    ) -> "TrainConfig":
        """New instances at every step, for a budget of steps, with cosine learning rates; validated 100 times."""
        epoch = max(1, whole("steps", steps, least=1) // 100)
        epochs = -(-steps // epoch)
        return cls(None, validation, batch, learning_rate, epochs, None, epoch, True, matrix_rate, missing)

    @property
    def epoch_steps(self) -> int:
        """Steps between two validations."""
        return self.steps if self.instances is None else self.instances // self.batch  # type: ignore[return-value]

    @property
    def total_steps(self) -> int:
        """Steps of all epochs."""
        return self.epochs * self.epoch_steps

    def rate_at(self, step: int) -> float:
        """The learning rate at a step."""
        return self.learning_rate * self.share_at(step)

    def share_at(self, step: int) -> float:
        """What the schedule leaves of the learning rates at a step."""
        if not self.cosine:
            return 1.0
        warm = min(1.0, (step + 1) / (WARM_UP * self.total_steps))
        return warm * 0.5 * (1 + math.cos(math.pi * step / self.total_steps))


def make_config(*, fresh: bool, given: Mapping[str, Any]) -> TrainConfig:
    """The settings of a regime with some of them replaced; None leaves a default.

    A setting that the regime does not have is refused by name.

    Example:
        >>> make_config(fresh=True, given={"steps": 200, "batch": None}).steps
        2
        >>> make_config(fresh=True, given={"steps": 200, "epochs": 5})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ValueError: epochs=5 has no meaning with fresh instances (steps): use steps, batch, learning_rate, ...
    """
    common = ("batch", "learning_rate", "validation", "missing")
    known = ("steps", *common, "matrix_rate") if fresh else ("instances", *common, "epochs", "patience")
    chosen = {name: value for name, value in given.items() if value is not None}
    for name in chosen:
        if name not in known:
            regime = "fresh instances (steps)" if fresh else "a fixed data set"
            raise ValueError(f"{name}={chosen[name]} has no meaning with {regime}: use {', '.join(known)}.")
    return TrainConfig.fresh(**chosen) if fresh else TrainConfig(**chosen)


# What a trained network says about its training: one row for each epoch, the settings, and a test on new instances.
#
# A record is typed in memory and plain data in a model's file, where nothing is trusted: the codec refuses a field that
# is missing, unknown or of the wrong type, and the classes a number below nought.

# How often each (true positives, false positives, false negatives) occurred: what `qgt.Score` is made of.
OutcomeCounts = Mapping[tuple[int, int, int], int]


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
    test: OutcomeCounts  # on instances it never met: qgt.Score(items, test) has every metric
    test_seen: OutcomeCounts | None  # those of them whose x was in the fixed data set; None with fresh data
    test_unseen: OutcomeCounts | None  # those whose x was not
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
