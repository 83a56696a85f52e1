"""What a trained network says about its training: one row for each epoch, the settings, and a test on new instances.

A record is typed in memory and plain data in a model's file. `Training.from_plain` trusts nothing in it: a field that
is missing, unknown or of the wrong type is a ValueError that names it.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qgt.decoders.neural.settings import TrainConfig
from qgt.files import plain

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
    train_loss: float  # NaN where training has diverged, as the next
    validation_loss: float
    success_rate: float  # on the validation instances, at their best threshold
    best: bool  # whether this is the best validation loss so far (of the first network, in a progress callback)
    learning_rate: float  # of its last step
    seconds: float


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

    def to_plain(self) -> dict[str, Any]:
        """The record as plain data for JSON, which has no NaN: None stands for it."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {
            **fields,
            "config": dataclasses.asdict(self.config),
            "history": [epoch_to_plain(epoch) for epoch in self.history],
            **{name: _outcomes_to_plain(fields[name]) for name in ("test", "test_seen", "test_unseen")},
            "made_on": dict(self.made_on),
        }

    @classmethod
    def from_plain(cls, data: object) -> "Training":
        """The record that `to_plain` described, every field checked."""
        table = _fields("training", cls, data)
        return cls(
            config=TrainConfig(**_fields("training.config", TrainConfig, table["config"])),
            seed=_whole("training.seed", table["seed"]),
            place=_whole("training.place", table["place"]),
            stack=_whole("training.stack", table["stack"]),
            history=tuple(epoch_from_plain(row) for row in plain.typed("training.history", table["history"], list)),
            interrupted=plain.typed("training.interrupted", table["interrupted"], bool),
            items_covered=_whole("training.items_covered", table["items_covered"]),
            test=_outcomes("training.test", table["test"]),
            test_seen=_optional_outcomes("training.test_seen", table["test_seen"]),
            test_unseen=_optional_outcomes("training.test_unseen", table["test_unseen"]),
            made_on=_made_on(table["made_on"]),
        )


def epoch_to_plain(epoch: Epoch) -> dict[str, Any]:
    """An epoch as plain data."""
    losses = {"train_loss": epoch.train_loss, "validation_loss": epoch.validation_loss}
    return {**vars(epoch), **{name: value if math.isfinite(value) else None for name, value in losses.items()}}


def epoch_from_plain(data: object) -> Epoch:
    """The epoch that `epoch_to_plain` described, every field checked."""
    row = _fields("history", Epoch, data)
    return Epoch(
        number=_whole("history.number", row["number"]),
        total=_whole("history.total", row["total"]),
        train_loss=math.nan if row["train_loss"] is None else _real("history.train_loss", row["train_loss"]),
        validation_loss=math.nan
        if row["validation_loss"] is None
        else _real("history.validation_loss", row["validation_loss"]),
        success_rate=_real("history.success_rate", row["success_rate"]),
        best=plain.typed("history.best", row["best"], bool),
        learning_rate=_real("history.learning_rate", row["learning_rate"]),
        seconds=_real("history.seconds", row["seconds"]),
    )


def _fields(where: str, kind: type[Any], data: object) -> dict[str, Any]:
    """A table that has the fields of a dataclass as its keys, all of them and no others."""
    table = plain.as_table(where, data)
    plain.check_keys(where, table, required={field.name for field in dataclasses.fields(kind)})
    return table


def _whole(where: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{where}={value!r} is not valid: give a whole number.")
    return value


def _real(where: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"{where}={value!r} is not valid: give a finite number.")
    return float(value)


def _outcomes_to_plain(outcomes: Outcomes | None) -> list[list[int]] | None:
    """Rows of true positives, false positives, false negatives, and how often."""
    return None if outcomes is None else [[*outcome, times] for outcome, times in sorted(outcomes.items())]


def _outcomes(where: str, rows: object) -> Outcomes:
    found: dict[tuple[int, int, int], int] = {}
    for row in plain.typed(where, rows, list):
        if not isinstance(row, list) or len(row) != 4:
            raise ValueError(f"{where} holds {row!r}: give rows of four whole numbers.")
        positives, false_positives, false_negatives, times = (_whole(where, value) for value in row)
        found[positives, false_positives, false_negatives] = times
    return found


def _optional_outcomes(where: str, rows: object) -> Outcomes | None:
    return None if rows is None else _outcomes(where, rows)


def _made_on(data: object) -> dict[str, str | int]:
    table = plain.as_table("training.made_on", data)
    for key, value in table.items():
        if not isinstance(value, str | int):
            raise ValueError(f"training.made_on.{key}={value!r} is not valid: give a text or a whole number.")
    return table
